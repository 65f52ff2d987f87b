"""Reading from an object store: the same examples, read ahead by threads that are gone afterwards."""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets import storage
from tests.facts import raises_with
from tests.published import upload
from tests.reading.conftest import Storage

pytest.importorskip("obstore")

LENGTHS = [100, 0, 75, 62, 150, 13, 12, 200]


@pytest.fixture(scope="module", params=[True, False], ids=["indexed", "without index"])
def builders(request: pytest.FixtureRequest, write: Any) -> tuple[Any, Any]:
    """The same dataset in an object store and on the disk."""
    directory: Path = write({"train": LENGTHS, "test": [40]}, size=4000, indexed=request.param, manifest=True)
    remote = upload(directory, f"memory://bucket-{request.param}/{directory.parent.name}/1.0.0")
    return bd.builder_from_directory(remote), bd.builder_from_directory(directory)


def ids(dataset: Any) -> list[int]:
    return [int(example["id"]) for example in dataset]


@pytest.fixture
def reading_threads() -> Callable[[], set[threading.Thread]]:
    """Returns what gives the reading threads that began in the test; earlier ones may take a moment to end.

    Those that fetch records of several files are kept for the next reader.
    """
    before = set(threading.enumerate())
    return lambda: {thread for thread in of_this_package() if "fetch" not in thread.name} - before


def of_this_package() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("beam_datasets")]


@pytest.mark.parametrize("split", ["train", "train[33%:]+test", "train[170:171]", "train[:0]"])
@pytest.mark.parametrize("cycle", [1, 3, 16])
def test_reads_the_same(
    builders: tuple[Any, Any], split: str, cycle: int, reading_threads: Callable[[], set[threading.Thread]]
) -> None:
    config = bd.ReadConfig(interleave_cycle_length=cycle)
    remote, local = (builder.as_dataset(split, read_config=config) for builder in builders)
    assert ids(remote) == ids(local)
    assert ids(remote.shuffle(1)) == ids(local.shuffle(1))
    assert ids(remote.shuffle(1, 50).repeat(2).skip(17)) == ids(local.shuffle(1, 50).repeat(2).skip(17))
    assert ids(remote.shard(1, 3)) == ids(local.shard(1, 3))
    assert ids(remote.repeat(2).shard(1, 2, block=3)) == ids(local.repeat(2).shard(1, 2, block=3))
    assert ids(remote[:]) == ids(local[:])
    assert not reading_threads()


def test_random_records_are_fetched_by_the_same_threads(
    builders: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread.name), start(thread))[1])
    dataset = builders[0].as_dataset("train")
    for offset in range(40):  # each of records in several shards
        assert len(dataset[list(range(offset, 600, 100))]) == 6
    assert len(started) <= 32


def test_resumes(builders: tuple[Any, Any]) -> None:
    remote, local = (builder.as_dataset("train").shuffle(1, 50) for builder in builders)
    iterator = iter(remote)
    seen = ids(itertools.islice(iterator, 250))
    iterator.close()
    assert seen + ids(local.iterate(state=iterator.get_state())) == ids(local)
    assert ids(iterator) == ids(local)[250:]


def test_threads_are_gone(builders: tuple[Any, Any], reading_threads: Callable[[], set[threading.Thread]]) -> None:
    dataset = builders[0].as_dataset("train")
    with dataset.iterate() as iterator:
        next(iterator)
        assert reading_threads()
    assert not reading_threads()

    def interrupt(example: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(iter(dataset.map(interrupt)))
    assert not reading_threads()
    iterator = iter(dataset)
    next(iterator)
    del iterator
    deadline = time.monotonic() + 20
    while reading_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not reading_threads()


def test_files_are_read_ahead(builders: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    delay, at_once = 0.02, []
    busy = 0
    lock = threading.Lock()
    open_reader = storage.open_reader

    def slow_reader(path: str) -> Any:
        reader = open_reader(path)
        read = reader.read

        def slow_read(start: int = 0, stop: int | None = None) -> Any:
            nonlocal busy
            with lock:
                busy += 1
                at_once.append(busy)
            time.sleep(delay)
            with lock:
                busy -= 1
            return read(start, stop)

        reader.read = slow_read  # type: ignore[method-assign]
        return reader

    monkeypatch.setattr(storage, "open_reader", slow_reader)
    builder = bd.builder_from_directory(builders[0].dataset_dir)
    assert len(ids(builder.as_dataset("train"))) == sum(LENGTHS)
    assert max(at_once) >= 4


def test_each_byte_is_read_once(builders: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Storage(monkeypatch)
    builder = bd.builder_from_directory(builders[0].dataset_dir)
    assert len(ids(builder.as_dataset("train"))) == sum(LENGTHS)
    for file in Path(builders[1].dataset_dir).glob("*-train.tfrecord-*"):
        count = sum(stop - start for name, start, stop in calls.reads if name == file.name)
        assert count <= 1.02 * file.stat().st_size + 5000  # a record that a piece of a walk cuts is read again


def test_few_files_are_read_in_large_pieces(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    directory: Path = write({"train": [1500]}, size=4000, manifest=True)
    remote = upload(directory, f"memory://bucket/{directory.parent.name}/large")
    calls = Storage(monkeypatch)
    assert len(ids(bd.builder_from_directory(remote).as_dataset("train"))) == 1500
    assert max(stop - start for _, start, stop in calls.reads) > 4 << 20


def test_an_error_in_a_thread_reaches_the_reader(
    builders: tuple[Any, Any], write: Any, reading_threads: Callable[[], set[threading.Thread]]
) -> None:
    remote = upload(builders[1].dataset_dir, "memory://damaged/d/1.0.0")
    [shard] = (name for name in storage.list_dir(builders[1].dataset_dir) if name.endswith("00003-of-00008"))
    path = storage.join(remote, shard)
    storage.write_bytes(path, storage.read_bytes(path)[:100_000])
    dataset = bd.builder_from_directory(remote).as_dataset("train")
    with raises_with(bd.errors.BeamDatasetsError, mentions=["00003-of-00008"]):
        ids(dataset)
    with raises_with(bd.errors.BeamDatasetsError, mentions=["00003-of-00008"]):
        ids(dataset.shuffle(1))
    assert not reading_threads()
    others = builders[0].as_dataset("train")
    for other in (others, others.shuffle(1), others.shuffle(1, 50), bd.mix({others: 0.5, others.skip(9): 0.5}, seed=0)):
        with raises_with(bd.errors.BeamDatasetsError, mentions=["00003-of-00008"]) as error:
            ids(bd.mix({dataset: 0.5, other: 0.5}, seed=0))
        assert not reading_threads()
        del error  # whose traceback holds the sources
    assert len(ids(bd.builder_from_directory(remote).as_dataset("train[:175]"))) == 175
