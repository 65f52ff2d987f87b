"""What workers read that divide a dataset: bytes by what the system counts, calls by what storage is asked for."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.native import core
from tests.reading.conftest import Storage
from tests.work import lines_of

COUNTERS = Path("/proc/self/io")

# Many shards and few, small and large, of one length and of several.
SHAPES: dict[str, list[int]] = {
    "16 shards": [1000] * 16,
    "one shard": [16_000],
    "3 shards": [9000, 2000, 5000],
    "200 shards": [80] * 200,
    "60 shards of several lengths": [60 + 41 * (i % 17) for i in range(60)],
}
ORDERS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda dataset: dataset,
    "shuffle": lambda dataset: dataset.shuffle(seed=1),
    "window": lambda dataset: dataset.shuffle(seed=1, window=1000),
    "repeat": lambda dataset: dataset.shuffle(seed=1, window=300).repeat(2),
}
PARTS: dict[str, Callable[[Any, int, int], Any]] = {
    "one by one": lambda dataset, worker, count: dataset.shard(worker, count),
    "batches": lambda dataset, worker, count: dataset.shard(worker, count).batch(32),
    "small batches": lambda dataset, worker, count: dataset.shard(worker, count).batch(3),
    "divided batches": lambda dataset, worker, count: dataset.batch(32).shard(worker, count),
    "blocks": lambda dataset, worker, count: dataset.shard(worker, count, block=32),
    "single examples": lambda dataset, worker, count: dataset.shard(worker, count, block=1),
}


def counted(text: bytes) -> int:
    return int(text.split(b"rchar: ")[1].split()[0])


def read_by(dataset: Any) -> tuple[int, int]:
    """Returns how many bytes of shards and indexes are read for all items, and how many records they have."""
    before = counted(COUNTERS.read_bytes())
    num = sum(len(item) if isinstance(item, (list, np.ndarray)) else 1 for item in dataset)
    return counted(COUNTERS.read_bytes()) - before, num


FEW = [("16 shards", "plain", "one by one"), ("200 shards", "plain", "batches"), ("3 shards", "window", "one by one")]
# Each shape meets each order and each part, and each order each part.
PAIRS = [
    (shape, [*ORDERS][(i + j) % len(ORDERS)], part) for i, shape in enumerate(SHAPES) for j, part in enumerate(PARTS)
]


@pytest.mark.skipif(core is None or not COUNTERS.exists(), reason="needs the native module and /proc")
@pytest.mark.parametrize(
    "shape, order, part", [*FEW, *(pytest.param(*way, marks=pytest.mark.slow) for way in PAIRS if way not in FEW)]
)
def test_workers_together_read_about_one_pass(write: Any, shape: str, order: str, part: str) -> None:
    """16 workers together read at most 1.3 passes of bytes, whatever the shards, the order and the batches."""
    directory = write({"train": SHAPES[shape]}, size=1500)
    size = sum(file.stat().st_size for file in directory.iterdir() if "tfrecord" in file.name)
    passes = 2 if order == "repeat" else 1
    total = 0
    for worker in range(16):  # of a process each
        dataset = ORDERS[order](bd.builder_from_directory(directory).as_dataset("train").raw())
        total += read_by(PARTS[part](dataset, worker, 16))[0]
    assert total <= 1.3 * passes * size


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("order", ["plain", "shuffle", "window"])
def test_no_byte_is_asked_for_by_two_workers(
    write: Any, monkeypatch: pytest.MonkeyPatch, order: str, indexed: bool
) -> None:
    """By what Python asks storage for, as on an object store; a shard without index has to be walked through."""
    directory = write({"train": [400, 300, 500]}, size=900, indexed=indexed)
    calls = Storage(monkeypatch)
    dataset = ORDERS[order](bd.builder_from_directory(directory).as_dataset("train"))
    ids: list[int] = []
    for worker in range(5):
        ids += [int(example["id"]) for example in dataset.shard(worker, 5)]
    assert sorted(ids) == list(range(1200))
    if indexed:
        ends = [(path, start, stop) for path, start, stop in sorted(calls.reads) if stop > start]
        for (path, _, stop), (other, start, _) in itertools.pairwise(ends):
            assert path != other or stop <= start
        assert sum(stop - start for _, start, stop in ends) == sum(
            file.stat().st_size for file in directory.iterdir() if file.name.endswith("-of-00003")
        )


@pytest.mark.parametrize("block", [None, 32])
@pytest.mark.parametrize("size", [None, 32])
def test_dividing_runs_little_python(write: Any, block: int | None, size: int | None) -> None:
    """A worker runs about as many lines of Python for each example that it yields as one who reads all."""
    directory = write({"train": [8000] * 4}, size=10)
    builder = bd.builder_from_directory(directory)

    def lines(worker_count: int) -> float:
        dataset = builder.as_dataset("train").raw()
        dataset = dataset if worker_count == 1 else dataset.shard(0, worker_count, block=block)
        dataset = dataset if size is None else dataset.batch(size)
        return lines_of(lambda: list(dataset)) / (32_000 / worker_count)

    lines(1)  # what is made once
    assert lines(8) <= 1.2 * lines(1) + 0.3


@pytest.mark.parametrize("size", [1, 3, 16, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ORDERS)
def test_a_global_batch_is_the_same_for_any_number_of_workers(write: Any, order: str, size: int) -> None:
    """By default, for any size of batches: at each step the workers have the next examples of the order."""
    dataset = ORDERS[order](bd.builder_from_directory(write({"train": [300, 40, 500, 7]})).as_dataset("train"))
    dataset = dataset.map(lambda example: int(example["id"]))
    whole = list(dataset)
    for count in (1, 2, 5, 8):
        workers = [iter(dataset.shard(worker, count).batch(size)) for worker in range(count)]
        for first in range(0, len(whole), count * size):
            got = [batch.tolist() for worker in workers for batch in itertools.islice(worker, 1)]
            assert sorted(itertools.chain(*got)) == sorted(whole[first : first + count * size])
            sizes = [len(batch) for batch in got]
            assert max(sizes) - min(sizes) <= 1
            for worker in workers:
                assert worker.get_state() == workers[0].get_state()
