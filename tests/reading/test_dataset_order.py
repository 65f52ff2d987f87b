"""Datasets by index and by key: in dataset order, whatever the read order is."""

import dataclasses
import itertools
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.arguments import indices_of
from beam_datasets.reading.index.permutations import file_order
from beam_datasets.reading.index.transforms import ENDLESS
from tests.facts import raises_with

LENGTHS = [7, 0, 12, 5, 9]


@pytest.fixture(scope="module", params=[True, False], ids=["indexed", "without index"])
def builder(request: pytest.FixtureRequest, write: Any) -> Any:
    return bd.builder_from_directory(write({"train": LENGTHS}, indexed=request.param))


@pytest.fixture(scope="module")
def read_once(write: Any) -> Any:
    return dataset(bd.builder_from_directory(write({"train": LENGTHS})))


def dataset(builder: Any, split: str = "train", **options: Any) -> Any:
    return builder.as_dataset(split, **options).map(lambda example: int(example["id"]))


@pytest.mark.parametrize(
    "split,ids",
    [("train", range(33)), ("train[5:21]", range(5, 21)), ("train[30:]+train[:4]", (30, 31, 32, 0, 1, 2, 3))],
)
def test_indices(builder: Any, split: str, ids: Any) -> None:
    read, ids = dataset(builder, split), list(ids)
    n = len(ids)
    assert [read[i] for i in range(-n, n)] == ids + ids
    assert read[:] == ids
    assert read[1:-1:2] == ids[1:-1:2]
    assert read[::-1] == ids[::-1]
    assert read[[3, 1, -1, 3]] == [ids[3], ids[1], ids[-1], ids[3]]
    assert read[np.array([2, 0])] == [ids[2], ids[0]]
    assert read[np.int64(1)] == ids[1]
    assert read[[]] == []
    for wrong in (n, -n - 1, [0, n]):
        with pytest.raises(IndexError, match=rf"not in \[-{n}, {n}\)"):
            read[wrong]


@given(st.lists(st.booleans(), min_size=33, max_size=33))
def test_masks_are_those_of_numpy(read_once: Any, mask: list[bool]) -> None:
    expected = np.arange(33)[mask].tolist()
    for given_as in (mask, tuple(mask), np.array(mask), pd.Series(mask)):
        assert read_once[given_as] == expected


@pytest.mark.parametrize("mask", [[True, False], [True] * 34, np.array([], bool), np.ones((33, 1), bool)])
def test_masks_of_other_lengths(read_once: Any, mask: Any) -> None:
    with pytest.raises(IndexError, match=r"mask .*33 examples.*shape"):
        read_once[mask]


@pytest.mark.parametrize(
    "index", ["0", None, 1.5, True, np.True_, np.array(True), ["a"], [None], [1.0], [1, [2]], [[1, 2]], {1}]
)
def test_no_indices(read_once: Any, index: Any) -> None:
    expected = r"ds\[\.\.\.\] takes an int, a slice, a list, array or range of ints, or a mask, not "
    with pytest.raises(TypeError, match=expected):
        read_once[index]


ends = st.integers(-40, 40) | st.integers(-(2**70), 2**70)


@given(ends, ends, ends.filter(bool))
def test_ranges_are_lists(read_once: Any, start: int, stop: int, step: int) -> None:
    indices = range(start, stop, step)
    first_and_last = [*indices[:1], *indices[-1:]]
    if all(-33 <= index < 33 for index in first_and_last):
        assert read_once[indices] == read_once[list(indices)] == np.arange(33)[list(indices)].tolist()
        return
    with pytest.raises(IndexError, match=rf"index ({'|'.join(map(str, first_and_last))}) .*\[-33, 33\)"):
        read_once[indices]


def test_a_range_makes_no_int_for_each_index() -> None:
    n = 10**6
    tracemalloc.start()
    try:
        indices = indices_of(range(-1, -n - 1, -1), n)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(indices, np.arange(n)[::-1])
    assert peak < 40 * n  # arrays of 8 bytes; a list of ints takes as many for the pointers, and 32 for each int


def test_dataset_order_ends_with_an_operation(builder: Any) -> None:
    for changed in (dataset(builder).take(3), dataset(builder).shuffle(1), dataset(builder).batch(2)):
        with pytest.raises(TypeError, match="dataset order"):
            changed[0]
        with pytest.raises(TypeError, match="dataset order"):
            changed.find(3)


@pytest.mark.parametrize("ordered", [False, True])
def test_find(write: Any, ordered: bool) -> None:
    builder = bd.builder_from_directory(write({"train": LENGTHS, "test": [3]}, ordered=ordered))
    for split in ("train", "train[4:20]", "train[28:]+train[:9]", "test+train"):
        read = builder.as_dataset(split)
        where: dict[int, int] = {}
        for index, example in enumerate(read[:]):
            where.setdefault(int(example["key"]), index)
        if "test" in split:  # key 0 of 'test' is another one than that of 'train'
            assert read.find(2) == where[2]
            assert read.find(30) == where[30]
            continue
        assert [read.find(key) for key in range(-2, 40)] == [where.get(key) for key in range(-2, 40)]


def test_find_needs_keys(write: Any) -> None:
    read = bd.builder_from_directory(write({"train": LENGTHS}, indexed=False)).as_dataset("train")
    with raises_with(bd.errors.MetadataError, expected="sort keys"):
        read.find(3)


def test_size_of_slices(write: Any) -> None:
    builder = bd.builder_from_directory(write({"train": LENGTHS, "test": [3]}))
    for split in ("train[3:17]", "train[:0]", "train[20:]+test"):
        records = builder.as_dataset(split).raw()
        assert builder.info.splits[split].num_bytes == sum(map(len, records))


@dataclass(frozen=True)
class Pipeline:
    num_input_pipelines: int
    input_pipeline_id: int


def test_input_pipelines_read_files_of_their_own(write: Any) -> None:
    builder = bd.builder_from_directory(write({"train": LENGTHS}))
    configs = [bd.ReadConfig(input_context=Pipeline(2, i)) for i in range(2)]
    parts = [builder.as_dataset("train[3:]", read_config=config) for config in configs]
    assert [sorted(int(e["id"]) for e in part) for part in parts] == [
        [*range(3, 7), *range(19, 24)],
        [*range(7, 19), *range(24, 33)],
    ]
    four = [builder.as_dataset("train", read_config=bd.ReadConfig(input_context=Pipeline(4, i))) for i in range(4)]
    assert sorted(int(example["id"]) for part in four for example in part) == [*range(33)]
    alone = bd.ReadConfig(input_context=Pipeline(1, 0))
    assert not list(builder.as_dataset("train[:0]", read_config=alone))
    with pytest.raises(ValueError, match="4 files .*5 input pipelines"):
        builder.as_dataset("train", read_config=bd.ReadConfig(input_context=Pipeline(5, 0)))
    for part in parts:
        assert [int(e["id"]) for e in part[:]] == sorted(int(e["id"]) for e in part)
        where = {int(example["key"]): index for index, example in enumerate(part[:])}
        assert [part.find(key) for key in range(33)] == [where.get(key) for key in range(33)]


def test_sort_function_orders_files(builder: Any) -> None:
    config = bd.ReadConfig(interleave_cycle_length=1, interleave_sort_fn=lambda files: files[::-1])
    read = dataset(builder, read_config=config)
    lasts = [[*range(24, 33)], [*range(19, 24)], [*range(7, 19)], [*range(7)]]
    assert list(read) == [*itertools.chain(*lasts)]
    assert read[:] == list(range(33))
    shuffled = dataset(builder, read_config=dataclasses.replace(config, shuffle_seed=7), shuffle_files=True)
    for epoch in range(3):
        expected = itertools.chain(*(lasts[i] for i in file_order(4, 7, epoch)))
        assert list(shuffled.iterate(epoch=epoch)) == [*expected]


def test_a_sort_function_may_give_no_file_twice(builder: Any) -> None:
    config = bd.ReadConfig(interleave_sort_fn=lambda files: [*files, files[0]])
    with pytest.raises(ValueError, match=r"file instruction.*repeat\(\)"):
        dataset(builder, read_config=config)


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("drop", [False, True])
def test_lengths_of_parts(builder: Any, count: int, drop: bool) -> None:
    """The longest and the shortest part have so many examples, whatever follows `shard()`."""
    chains = [
        lambda part: part,
        lambda part: part.batch(2, drop_remainder=drop),
        lambda part: part.batch(2, drop_remainder=drop).take(2),
        lambda part: part.batch(2, drop_remainder=drop).skip(1).take(1),
        lambda part: part.take(4).batch(3, drop_remainder=drop),
        lambda part: part.skip(3).batch(2, drop_remainder=drop).batch(2, drop_remainder=drop),
        lambda part: part.shuffle(seed=1).skip(9),
        lambda part: part.repeat(2),
        lambda part: part.repeat(2).skip(5),
        lambda part: part.batch(2, drop_remainder=drop).repeat(2).take(8),
    ]
    read = dataset(builder)
    for chain in chains:
        parts = [chain(read.shard(index, count)) for index in range(count)]
        lengths = [int(sum(np.size(item) for item in part)) for part in parts]
        assert {part._lengths_of_parts() for part in parts} == {(max(lengths), min(lengths))}
    assert read.take(5)._lengths_of_parts() is None
    assert read.shard(0, count).batch(2, drop_remainder=True).repeat()._lengths_of_parts()[0] == ENDLESS
    taken = read.shard(0, 2).batch(8, drop_remainder=True).take(2)  # of 17 and 16 examples
    assert taken._lengths_of_parts() == (16, 16)
