"""Examples decoded many at once and on threads: the same as one by one, with the same states and errors."""

import functools
import gc
import itertools
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.features import image_codec
from beam_datasets.features.stacking import stack
from beam_datasets.formats.example import serialize
from beam_datasets.reading.blocks import block_sizes
from beam_datasets.reading.elements import executor
from beam_datasets.reading.elements import transforms as decoding
from beam_datasets.reading.elements.executor import usable_cores
from beam_datasets.reading.elements.transforms import Batch, Decode, Map, Program, Raw, compose, compose_many
from tests.facts import raises_with
from tests.images import undecodable_png
from tests.published import build
from tests.reading.conftest import drain
from tests.strategies import assert_equal

COUNT, BAD = 150, 97
HEIGHT, WIDTH = 80, 96  # large enough for threads


def photos(split: str) -> Any:
    """Photos with ids; in split `bad`, photo `BAD` is damaged; in split `shapes`, each fifth is smaller."""
    for i in range(COUNT):
        height = HEIGHT - 8 * (split == "shapes" and i % 5 == 0)
        pixels = np.add.outer(np.arange(height) + i, np.arange(WIDTH)).astype(np.uint8)
        image: Any = np.stack([pixels] * 3, axis=2)
        if split == "bad" and i == BAD:
            image = undecodable_png(height, WIDTH)
        yield i, {"image": image, "mask": np.resize(pixels, (HEIGHT, WIDTH, 1)), "id": i}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    image, fixed = F.Image(encoding_format="jpeg"), F.Image(shape=(HEIGHT, WIDTH, 1))
    tree = F.FeaturesDict({"image": image, "mask": fixed, "id": np.int64})
    splits = {name: functools.partial(photos, name) for name in ("good", "bad", "shapes")}
    folder = tmp_path_factory.mktemp("photos")
    return bd.builder_from_directory(build(folder, tree, splits, info={"disable_shuffling": True}, num_shards=3))


def read(builder: Any, split: str, num_threads: int | None) -> Any:
    config = bd.ReadConfig(interleave_cycle_length=1, num_parallel_calls_for_decode=num_threads)
    return builder.as_dataset(split, read_config=config)


def crop(example: Any) -> Any:
    return {**example, "image": example["image"][..., 8:, :]}


def fail_at_60(example: Any) -> Any:
    if np.any(example["id"] == 60):
        raise StopIteration
    return example


STEPS: dict[str, Any] = {
    "shuffle": lambda d: d.shuffle(1),
    "window": lambda d: d.shuffle(2, 30),
    "repeat": lambda d: d.repeat(2),
    "skip": lambda d: d.skip(7),
    "take": lambda d: d.take(110),
    "shard": lambda d: d.shard(1, 2, block=5),
    "map": lambda d: d.map(crop),
    "fail": lambda d: d.map(fail_at_60),
    "batch": lambda d: d.batch(40),
    "padded": lambda d: d.padded_batch(16),
}


@settings(max_examples=15, deadline=None)
@given(
    split=st.sampled_from(["good", "bad", "shapes"]),
    chain=st.lists(st.sampled_from(sorted(STEPS)), max_size=4),
    count=st.integers(2, 5),
    data=st.data(),
)
def test_threads_change_nothing(builder: Any, split: str, chain: list[str], count: int, data: Any) -> None:
    serial, parallel = read(builder, split, 1), read(builder, split, count)
    for step in chain:
        serial, parallel = STEPS[step](serial), STEPS[step](parallel)
    expected, found = drain(iter(serial)), drain(iter(parallel))
    np.testing.assert_equal(found, expected)
    start = data.draw(st.integers(0, len(expected[0])))
    rest = drain(parallel.iterate(state=expected[1][start]))
    np.testing.assert_equal(rest, (expected[0][start:], expected[1][start:], expected[2]))


def test_batches_are_decoded_by_threads_also_if_several_come_together(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(records: Any) -> Any:
        raise AssertionError("decoded by the reader's thread")

    compile_batch = decoding.Batch.compile
    monkeypatch.setattr(decoding.Batch, "compile", lambda step: replace(compile_batch(step), one=fail))
    batches = [batch["id"].tolist() for batch in read(builder, "good", 2).batch(10).shuffle(1)]
    assert sorted(batches) == [list(range(start, start + 10)) for start in range(0, COUNT, 10)] != batches


@pytest.mark.parametrize("count", [1, 2, 4])
def test_lists_are_decoded_on_threads(builder: Any, count: int) -> None:
    dataset = read(builder, "bad", count).map(crop)
    picks = [5, 149, 3, 3, *range(40, 90)]
    np.testing.assert_equal(dataset[picks], [dataset[i] for i in picks])
    assert dataset[[]] == []
    with raises_with(bd.errors.FeatureError, feature="image", record=47):
        dataset[[0, 1, 2, 3, 4, 5, BAD, 6]]


@pytest.mark.parametrize("size", [None, 30])
@pytest.mark.parametrize("end", ["close", "delete", "error", "finish"])
def test_no_thread_is_left(builder: Any, size: int | None, end: str) -> None:
    dataset = read(builder, "bad" if end == "error" else "good", 3)
    iterator = iter(dataset if size is None else dataset.batch(size))
    next(iterator), next(iterator)
    if size is None:
        list(itertools.islice(iterator, 20))
    assert decoding_threads()
    if end == "close":
        iterator.close()
    elif end == "delete":
        del iterator
        gc.collect()
    elif end == "error":
        with pytest.raises(bd.errors.FeatureError):
            list(iterator)
    else:
        list(iterator)
    assert not decoding_threads()


def decoding_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(executor.DECODE_THREADS)]


def test_one_thread_starts_none(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "ThreadPoolExecutor", None)
    assert len(list(read(builder, "good", 1))) == COUNT
    assert len(read(builder, "good", 1)[:50]) == 50
    by_default = builder.as_dataset("good", decoders={"image": bd.decode.SkipDecoding(), "mask": user_decoder()})
    assert len(list(by_default)) == COUNT


def test_processes_share_the_cores(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "usable_cores", lambda: 6)
    by_default, given = builder.as_dataset("good"), read(builder, "good", 4)
    for dataset, processes, expected in ((by_default, 2, 3), (by_default, 9, 1), (by_default, 1, 6), (given, 9, 4)):
        step: Any = dataset._share_cores(processes)._steps[0]
        batch: Any = dataset.batch(3)._share_cores(processes)._steps[0]
        assert step.num_threads() == batch.steps[0].num_threads() == expected


@bd.decode.make_decoder()
def user_decoder(stored: Any, feature: Any) -> Any:
    """Users' functions are called by the thread that iterates."""
    assert threading.current_thread() is threading.main_thread()
    return len(stored)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_goes_on_with_threads_of_its_own(builder: Any) -> None:
    iterator = iter(read(builder, "good", 2))
    before = [int(next(iterator)["id"]) for _ in range(30)]
    process = os.fork()
    if not process:
        rest = [int(example["id"]) for example in iterator]
        os._exit(rest != list(range(30, COUNT)))
    assert os.waitpid(process, 0)[1] == 0
    assert before + [int(example["id"]) for example in iterator] == list(range(COUNT))


def test_what_is_made_ahead_is_bounded(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One iterator has not decoded more than a few tasks of each thread when the first example is taken."""
    decoded = []
    decode = image_codec._decode_pixels
    monkeypatch.setattr(image_codec, "_decode_pixels", lambda data, gray: decoded.append(1) or decode(data, gray=gray))
    monkeypatch.setattr(executor, "TASK_ITEMS", 4)
    iterator = iter(read(builder, "good", 2))
    for _ in range(10):
        next(iterator)
    iterator.close()
    assert len(decoded) <= 2 * (10 + 4 * 6)  # two images in each example


def test_sizes_of_decoded_values() -> None:
    """Those of texts and of ragged arrays count too: the memory of values that wait is bounded by them."""
    ragged = F.RaggedArray(np.zeros(1000, np.int64), (np.array([400, 600]),))
    words = np.array([b"x" * 500, "y" * 500], object)
    assert executor.num_bytes({"ragged": ragged}) == 8000 + 16
    assert executor.num_bytes([words, "z" * 100]) == 16 + 1000 + 100
    assert executor.num_bytes((None, 1, np.float32(2))) == 24


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("num_bytes", [8, executor._MIN_VALUE_BYTES])
def test_an_endless_source_is_read_a_few_blocks_ahead(num_bytes: int, is_whole: bool) -> None:
    drawn = itertools.count()
    blocks = ([bytes(num_bytes)] * 4 for _ in itertools.takewhile(lambda number: number < 10_000, drawn))
    made = executor.ThreadExecutor(executor.decode_tasks(bytes), threads=2, is_whole=is_whole).run(blocks)
    for _ in itertools.islice(made, 50):
        pass
    made.close()  # type: ignore[attr-defined]
    assert next(drawn) < 500  # of 4 items; 50 of up to 32 were taken


def test_a_surprisingly_large_value_is_made_when_it_is_taken() -> None:
    tasks, finish = executor.decode_tasks(lambda size: bytes(size), max_bytes=100)([10, 200, 5, 5])
    values = finish([task() for task in tasks])
    assert [type(value).__name__ for value in values] == ["bytes", "bytes", "Deferred", "Deferred"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, []),
        ({"cpu.max": "max 100000\n"}, []),
        ({"cpu.max": "150000 100000\n"}, [1.5]),
        ({"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "400000 100000\n", "c/cpu.max": "1 1"}, [0.5, 4]),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, []),
        ({"cpu/a/b/cpu.cfs_quota_us": "200000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, [2]),
    ],
)
def test_quotas_of_control_groups(tmp_path: Path, files: dict[str, str], expected: list[float]) -> None:
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    own = tmp_path / "cgroup"
    own.write_text("1:name=systemd:/\n0::/a/b\n")
    assert sorted(executor._quotas(tmp_path / "fs", own)) == expected
    assert list(executor._quotas(tmp_path / "fs", tmp_path / "none")) in ([], [1.5])
    assert usable_cores() >= 1


# Steps on many items at once, against the same one by one


FEATURES = F.FeaturesDict({"id": np.int64, "text": F.Text(), "numbers": F.Sequence(np.float32)})
RECORDS = [serialize({"id": [i], "text": [b"x" * i], "numbers": np.full(i % 3, 0.5, np.float32)}) for i in range(300)]
PAIRS = [(b"shard__%d" % i, record) for i, record in enumerate(RECORDS)]


def doubled(example: Any) -> Any:
    return {**example, "id": 2 * example["id"]}


WAYS: list[tuple[Any, list[Any]]] = [
    ((Raw(),), RECORDS),
    ((Raw(with_ids=True),), PAIRS),
    ((Decode(FEATURES),), RECORDS),
    ((Decode(FEATURES), Map(doubled)), RECORDS),
    ((Decode(FEATURES, with_ids=True),), PAIRS),
    ((Decode(FEATURES, with_ids=True, supervised_keys=("text", "id")), Map(tuple)), PAIRS),
    ((Decode(FEATURES, supervised_keys=({"a": "text"}, "id")),), RECORDS),
    ((Decode(F.FeaturesDict({"id": np.int64, "nested": F.Dataset({"a": np.int64})})),), RECORDS),
]


def assert_alike(got: Any, want: Any) -> None:
    if isinstance(want, (list, tuple)):
        assert (type(got), len(got)) == (type(want), len(want))
        for a, b in zip(got, want):
            assert_alike(a, b)
    else:
        assert_equal(got, want)


@pytest.mark.parametrize("steps, items", WAYS)
@pytest.mark.parametrize("count", [0, 1, 7, 256, 300])
def test_many_items_are_as_each(steps: Any, items: list[Any], count: int) -> None:
    each = compose(steps)
    assert_alike(compose_many(steps)(items[:count]), [each(item) for item in items[:count]])


@pytest.mark.parametrize("steps, items", WAYS[2:-1])
def test_batches_are_stacked_examples(steps: Any, items: list[Any]) -> None:
    each = compose(steps)
    batch = Batch(steps, pad=True).compile().one
    assert_alike(batch(items[:20]), stack([each(item) for item in items[:20]], pad=True))


def test_a_block_is_decoded_at_once_and_not_all_of_a_long_list() -> None:
    program = Program.compile((Raw(),))
    lengths = list(map(len, program.run(iter([RECORDS]), block_sizes(100_000))))
    assert (lengths[:3], max(lengths)) == ([1, 2, 2], 2)
    assert list(map(len, program.run(iter([RECORDS]), block_sizes(10)))) == [1, 8, 64, 227]


def test_images_of_a_mixture_of_mixtures_are_decoded_on_threads(builder: Any) -> None:
    source = read(builder, "good", 3)
    mixtures = [bd.mix({source.map(lambda example: example): 1, source: 1}, seed=seed) for seed in (0, 1)]
    mixed = bd.mix({mixtures[0]: 1, mixtures[1]: 1}, seed=2)
    assert mixed._steps[0].num_threads() == 3
    assert mixed.program.decode.executor is not None
