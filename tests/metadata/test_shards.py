import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.metadata import shards

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/shard_counts.json").read_text("utf-8"))
MB, GB = 1 << 20, 1 << 30


def test_counts_are_those_of_tfds():
    checked = 0
    for num_examples, total, expected, _ in VECTORS["num_shards"]:
        if expected != "infinite_loop":
            assert shards.choose_num_shards(num_examples, total) == expected, (num_examples, total)
            checked += 1
    assert checked > 300


@pytest.mark.parametrize(
    "num_examples, expected", [(1, 1), (100, 64), (1023, 512), (1025, 1024), (5000, 4096), (20_000, 10_240)]
)
def test_a_huge_split_of_few_examples_gets_what_its_examples_allow(num_examples, expected):
    assert shards.choose_num_shards(num_examples, 10 * 1024 * GB) == expected


@pytest.mark.parametrize(
    "num_examples, num_bytes, sizes, expected",
    [
        (1000, 10 * MB, {"min_shard_size": MB}, 8),
        (1000, 500 * MB, {"max_shard_size": 64 * MB}, 7),  # 8 would make shards under the minimum of 64 MiB
        (1000, 500 * MB, {"min_shard_size": MB, "max_shard_size": 64 * MB}, 256),
        (1000, 700 * MB, {"min_shard_size": 90 * MB, "max_shard_size": 100 * MB}, 7),
        (5, 700 * MB, {"min_shard_size": 90 * MB, "max_shard_size": 100 * MB}, 5),
        (100_000, 1500 * MB, {"min_shard_size": MB, "max_shard_size": MB}, 1501),
        (0, 0, {}, 0),
    ],
)
def test_sizes_are_honoured(num_examples, num_bytes, sizes, expected):
    assert shards.choose_num_shards(num_examples, num_bytes, **sizes) == expected


@given(
    st.integers(1, 5000),
    st.integers(0, 10**10),
    st.integers(1, 10**8),
    st.integers(1, 64).map(lambda k: Fraction(k, 4)),
)
def test_shards_lie_between_the_sizes_wherever_examples_allow(num_examples, num_bytes, smallest, factor):
    largest = max(smallest, int(smallest * factor))
    count = shards.choose_num_shards(num_examples, num_bytes, min_shard_size=smallest, max_shard_size=largest)
    total = num_bytes + 16 * num_examples
    assert 1 <= count <= num_examples
    assert count == 1 or total // count >= smallest or num_examples < total // largest
    if 2 * (total // largest) <= num_examples:
        assert count >= total // largest  # the rule divides down: a shard may pass the maximum by less than one part


@pytest.mark.parametrize(
    "case",
    [case for case in VECTORS["boundaries"] if "error" not in case],  # which `plan.choose_shards` refuses
    ids=lambda case: f"{case['num_examples']}/{case['num_shards']}",
)
def test_boundaries_are_those_of_tfds(case):
    ends, expected = shards.shard_ends(case["num_examples"], case["num_shards"]), case["shard_lengths"]
    lengths = np.diff(ends, prepend=0).tolist()
    if isinstance(expected, dict):
        assert len(lengths) == expected["count"]
        assert lengths[: len(expected["head"])] == expected["head"]
        assert lengths[-len(expected["tail"]) :] == expected["tail"]
        assert (min(lengths), max(lengths)) == (expected["min"], expected["max"])
    else:
        assert lengths == expected


@given(st.integers(1, 10**30), st.integers(1, 50))
def test_ends_are_exactly_rounded(num_examples, num_shards):
    num_shards = min(num_examples, num_shards)
    expected = [round(Fraction(num_examples * i, num_shards)) for i in range(1, num_shards + 1)]
    assert shards.shard_ends(num_examples, num_shards) == expected


def test_nothing_in_no_shards():
    assert shards.shard_ends(0, 0) == []


LENGTHS = st.lists(st.integers(0, 5), max_size=12)


def between(start, stop, lengths, names):
    return tuple(shards.FileInstructions.between(start, stop, shards.shard_offsets(lengths), names))


@given(LENGTHS, st.data())
def test_file_instructions_are_a_slice_of_the_concatenation(lengths, data):
    total = sum(lengths)
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    names = [f"s{i}" for i in range(len(lengths))]
    everything = [(name, i) for name, length in zip(names, lengths) for i in range(length)]
    runs = between(start, stop, lengths, names)
    assert [(run.filename, i) for run in runs for i in range(run.skip, run.skip + run.take)] == everything[start:stop]
    assert all(run.take for run in runs)
    assert all(run.examples_in_shard == lengths[names.index(run.filename)] for run in runs)
    assert [run.takes_all for run in runs] == [run.skip + run.take == run.examples_in_shard for run in runs]


@given(LENGTHS, LENGTHS, st.data())
def test_runs_in_columns_are_the_same_runs(one, other, data):
    parts, expected = [], []
    for lengths, letter in ((one, "a"), (other, "b")):
        start = data.draw(st.integers(0, sum(lengths)))
        stop = data.draw(st.integers(start, sum(lengths)))
        names = [f"{letter}{i}" for i in range(len(lengths))]
        parts.append(shards.FileInstructions.between(start, stop, shards.shard_offsets(lengths), names))
        expected += between(start, stop, lengths, names)
    runs = shards.FileInstructions.concatenate(parts)
    assert runs == expected
    assert list(runs) == expected
    assert pickle.loads(pickle.dumps(runs)) == runs
    assert runs[1:] == expected[1:]
    assert runs[::-1] == expected[::-1]
    assert runs.num_examples == sum(run.take for run in expected)
    if expected:
        assert runs != expected[1:]
        assert runs[-1] == expected[-1]
        assert runs[0].filename in repr(runs)
        with pytest.raises(IndexError):
            runs[len(expected)]
    assert runs != 5


def examples_of(runs):
    return [(run.filename, i) for run in runs for i in range(run.skip, run.skip + run.take)]


@given(LENGTHS, LENGTHS, st.data())
def test_parts_and_divisions_are_the_same_examples(one, other, data):
    made = []
    for lengths, letters in ((one, "abcdefghijkl"), (other, "ABCDEFGHIJKL")):
        offsets = shards.shard_offsets(lengths)
        stop = data.draw(st.integers(0, sum(lengths)))
        start = data.draw(st.integers(0, stop))
        made.append(shards.FileInstructions.between(start, stop, offsets, list(letters[: len(lengths)])))
    runs = shards.FileInstructions.concatenate(made)
    whole = examples_of(runs)
    counts = np.array([data.draw(st.integers(1, take)) for take in runs.take.tolist()], np.int64)
    divided = runs.divided(counts)
    assert len(divided) == counts.sum()
    for some in (runs, divided):
        stop = data.draw(st.integers(0, len(whole)))
        start = data.draw(st.integers(0, stop))
        part = some.part(start, stop)
        assert examples_of(part) == whole[start:stop]
        assert part.num_examples == stop - start
        assert all(run.take > 0 for run in part)
    with pytest.raises(ValueError, match=rf"^\[0, {len(whole) + 1}\) .* {len(whole)} examples"):
        runs.part(0, len(whole) + 1)


def test_no_parts_are_no_runs():
    assert shards.FileInstructions.concatenate([]) == []


@pytest.mark.parametrize("start, stop", [(-1, 2), (2, 1), (0, 7), (7, 7)])
def test_a_range_outside_the_split(start, stop):
    with pytest.raises(ValueError, match=rf"^\[{start}, {stop}\) .* 6 examples"):
        between(start, stop, [2, 4], ["a", "b"])


@pytest.mark.parametrize("skip, take, examples", [(-1, 1, 3), (2, 2, 3), (0, -1, 3), (4, 0, 3), (0, 0, -1)])
def test_an_instruction_cannot_be_wrong(skip, take, examples):
    with pytest.raises(ValueError, match=rf"^f: skip={skip} .*take={take} .*{examples} examples"):
        shards.FileInstruction("f", skip, take, examples)
