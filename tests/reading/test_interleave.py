"""Interleaved order against a walk through tf.data's algorithm, and against what TFDS recorded."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.reading.interleave import InterleaveOrder
from tests.cases import cases
from tests.work import lines_of

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/interleave.json").read_text())
LENGTHS = st.lists(st.integers(0, 40) | st.sampled_from([0, 16, 32, 48, 300]), max_size=24)


def locate(order, position):
    """The file and the index in it of one position."""
    files, indices = order.places([position])
    return int(files[0]), int(indices[0])


def walk(lengths, cycle, block):
    """The order, slot by slot and example by example."""
    slots, current, taken, next_file, opened, done = [None] * cycle, 0, 0, 0, 0, False
    while not done or opened:
        if slots[current] is not None:
            file, index = slots[current]
            if index < lengths[file]:
                yield file, index
                slots[current] = (file, index + 1)
                taken += 1
                if taken < block:
                    continue
            else:
                slots[current] = None
                opened -= 1
        elif not done:
            if next_file < len(lengths):
                slots[current] = (next_file, 0)
                next_file += 1
                opened += 1
            else:
                done = True
            continue
        taken, current = 0, (current + 1) % cycle


def flat(runs):
    return [(file, index) for file, first, count in runs for index in range(first, first + count)]


def runs_of(order, *where):
    """The visits as tuples, those to one file in a row joined."""
    runs = []
    for arrays in order.visits(*where):
        for file, first, count in zip(*(array.tolist() for array in arrays)):
            if runs and runs[-1][0] == file and sum(runs[-1][1:]) == first:
                runs[-1] = (file, runs[-1][1], runs[-1][2] + count)
            else:
                runs.append((file, first, count))
    return runs


def test_walk_is_that_of_tf_data():
    for case in VECTORS["cases"]:
        lengths, cycle, block = case["shard_lengths"], case["cycle_length"], case["block_length"]
        assert [list(place) for place in walk(lengths, cycle, block)] == case["order"]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{len(case['order'])}")
def test_recorded_orders(case):
    order = InterleaveOrder(case["shard_lengths"], case["cycle_length"], case["block_length"])
    expected = [tuple(place) for place in case["order"]]
    assert len(order) == len(expected)
    assert flat(runs_of(order)) == expected
    assert [locate(order, p) for p in range(len(order))] == expected


@cases(200)
@given(LENGTHS, st.integers(1, 20), st.integers(1, 20), st.data())
def test_any_files(lengths, cycle, block, data):
    order = InterleaveOrder(lengths, cycle, block)
    expected = list(walk(lengths, cycle, block))
    assert len(order) == len(expected) == sum(lengths)
    start = data.draw(st.integers(0, len(order)))
    stop = data.draw(st.integers(start, len(order)))
    assert flat(runs_of(order, start, stop)) == expected[start:stop]
    assert flat(runs_of(order)) == expected
    mixed = np.random.default_rng(0).permutation(len(order))
    assert list(zip(*(column.tolist() for column in order.places(mixed)))) == [expected[p] for p in mixed]
    for files, firsts, counts in order.visits():
        assert (counts > 0).all()
        goes_on = (files[1:] == files[:-1]) & (firsts[1:] == (firsts + counts)[:-1])
        assert not goes_on.any()


@pytest.mark.parametrize("cycle,block", [(16, 16), (3, 1), (1, 16), (7, 1000), (100_000, 2)])
def test_runs_across_many_chunks(cycle, block):
    lengths = np.random.default_rng(7).integers(0, 400, 500).tolist()
    expected = list(walk(lengths, min(cycle, len(lengths)), block))
    order = InterleaveOrder(lengths, cycle, block)
    assert flat(runs_of(order)) == expected
    for start in (1, 5_000, len(expected) - 3_000):
        assert flat(runs_of(order, start, start + 2_500)) == expected[start : start + 2_500]


def test_few_long_files_after_many_short_ones():
    lengths = [50_000, 3, 100_000, 0, 16, *[5] * 50, 30_000]
    expected = list(walk(lengths, 4, 16))
    order = InterleaveOrder(lengths, 4, 16)
    assert flat(runs_of(order)) == expected
    for position in range(0, len(expected), 997):
        assert locate(order, position) == expected[position]


def test_a_file_by_itself_is_read_through():
    assert runs_of(InterleaveOrder([10**12]), 5) == [(0, 5, 10**12 - 5)]
    assert runs_of(InterleaveOrder([10**6, 0, 10**6], cycle_length=1)) == [(0, 0, 10**6), (2, 0, 10**6)]
    assert runs_of(InterleaveOrder([3, 10**6]), 10) == [(1, 7, 10**6 - 7)]
    assert runs_of(InterleaveOrder([3, 4], block_length=10**30), 1) == [(0, 1, 2), (1, 0, 4)]


def test_positions_far_out_take_no_longer():
    """A line of Python a file at most to find a position, however many examples are before it: here 10^9 and more."""
    for files in (10_000, 100_000):
        lengths = np.random.default_rng(1).integers(0, 10**6, files)

        def find(lengths=lengths):
            order = InterleaveOrder(lengths)
            places = [locate(order, 10**9), locate(order, len(order) - 1)]
            files, firsts, _ = next(order.visits(10**9))
            assert (files[0], firsts[0]) == places[0]

        assert lines_of(find) < 1.1 * files


def test_pickles_without_what_is_derived():
    order = InterleaveOrder([3, 4], 2, 2)
    before = len(pickle.dumps(order))
    assert locate(pickle.loads(pickle.dumps(order)), 5) == locate(order, 5)
    assert len(pickle.dumps(order)) == before
