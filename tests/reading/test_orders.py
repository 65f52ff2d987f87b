"""Orders of reading: interleaved files against tf.data, shuffles against recorded orders, and ReadConfig."""

import hashlib
import itertools
import json
import math
import pickle
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.reading.config import ReadConfig
from beam_datasets.reading.index.division import Share
from beam_datasets.reading.index.interleave import InterleaveOrder
from beam_datasets.reading.index.permutations import RangeShuffle, WindowShuffle, _philox, file_order
from beam_datasets.reading.index.transforms import Operation, Shared, Window
from tests.cases import cases
from tests.work import lines_of

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/interleave.json").read_text())
LENGTHS = st.lists(st.integers(0, 40) | st.sampled_from([0, 16, 32, 48, 300]), max_size=24)


def locate(order, position):
    """The file and the index in it of one position."""
    files, indices = order.locate([position])
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


def runs_of(order, start=0, stop=None):
    """The visits as tuples."""
    count = (int(order.lengths.sum()) if stop is None else stop) - start
    if not count:
        return []
    return list(zip(*(array.tolist() for array in order.visits(np.array([start]), np.array([count])))))


def test_walk_is_that_of_tf_data():
    for case in VECTORS["cases"]:
        lengths, cycle, block = case["shard_lengths"], case["cycle_length"], case["block_length"]
        assert [list(place) for place in walk(lengths, cycle, block)] == case["order"]


@cases(200)
@given(LENGTHS, st.integers(1, 20), st.integers(1, 20), st.data())
def test_any_files(lengths, cycle, block, data):
    order = InterleaveOrder(np.array(lengths, np.int64), cycle, block)
    expected = list(walk(lengths, cycle, block))
    assert len(expected) == sum(lengths)
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert flat(runs_of(order, start, stop)) == expected[start:stop]
    assert flat(runs_of(order)) == expected
    mixed = np.random.default_rng(0).permutation(len(expected))
    assert list(zip(*(column.tolist() for column in order.locate(mixed)))) == [expected[p] for p in mixed]
    runs = runs_of(order)
    assert all(count > 0 for _, _, count in runs)
    assert not any((file, first + count) == after[:2] for (file, first, count), after in pairwise(runs))


@pytest.mark.parametrize("cycle,block", [(16, 16), (3, 1), (1, 16), (7, 1000), (100_000, 2)])
def test_runs_across_many_chunks(cycle, block):
    lengths = np.random.default_rng(7).integers(0, 400, 500).tolist()
    expected = list(walk(lengths, min(cycle, len(lengths)), block))
    order = InterleaveOrder(np.array(lengths, np.int64), cycle, block)
    assert flat(runs_of(order)) == expected
    for start in (1, 5_000, len(expected) - 3_000):
        assert flat(runs_of(order, start, start + 2_500)) == expected[start : start + 2_500]


def test_few_long_files_after_many_short_ones():
    lengths = [50_000, 3, 100_000, 0, 16, *[5] * 50, 30_000]
    expected = list(walk(lengths, 4, 16))
    order = InterleaveOrder(np.array(lengths, np.int64), 4, 16)
    assert flat(runs_of(order)) == expected
    for position in range(0, len(expected), 997):
        assert locate(order, position) == expected[position]


def test_a_file_by_itself_is_read_through():
    assert runs_of(InterleaveOrder(np.array([10**12])), 5) == [(0, 5, 10**12 - 5)]
    assert runs_of(InterleaveOrder(np.array([10**6, 0, 10**6]), cycle_length=1)) == [(0, 0, 10**6), (2, 0, 10**6)]
    assert runs_of(InterleaveOrder(np.array([3, 10**6])), 10) == [(1, 7, 10**6 - 7)]
    assert runs_of(InterleaveOrder(np.array([3, 4]), block_length=10**30), 1) == [(0, 1, 2), (1, 0, 4)]


def test_positions_far_out_take_no_longer():
    """A line of Python a file at most to find a position, however many examples are before it: here 10^9 and more."""
    for files in (10_000, 100_000):
        lengths = np.random.default_rng(1).integers(0, 10**6, files)

        def find(lengths=lengths):
            order = InterleaveOrder(np.array(lengths, np.int64))
            places = [locate(order, 10**9), locate(order, int(lengths.sum()) - 1)]
            files, firsts, _ = order.visits(np.array([10**9]), np.array([1]))
            assert (files[0], firsts[0]) == places[0]

        assert lines_of(find) < 1.1 * files


def test_pickles_without_what_is_derived():
    order = InterleaveOrder(np.array([3, 4]), 2, 2)
    before = len(pickle.dumps(order))
    assert locate(pickle.loads(pickle.dumps(order)), 5) == locate(order, 5)
    assert len(pickle.dumps(order)) == before


# Shuffles against recorded orders, against their being permutations, and against chance


SEEDS = st.integers(-(2**64), 2**64)


def chi_square_z(counts, expected):
    """How many standard deviations the chi-square of the counts is above what chance gives."""
    counts = np.asarray(counts)
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


# --- files


def test_philox_known_answers():
    """The vectors that the authors of the generator publish with it (kat_vectors of Random123)."""
    assert [f"{w:08x}" for w in _philox(0, 0, 0, 1)] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    ones = _philox(2**64 - 1, 2**64 - 1, 2**64 - 1, 1)
    assert [f"{w:08x}" for w in ones] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]


@pytest.mark.parametrize("case", VECTORS["file_shuffle"], ids=lambda c: f"{c['num_files']}-{c['shuffle_seed']}")
def test_recorded_file_orders(case):
    reshuffle = case["reshuffle_each_iteration"]
    config = ReadConfig(shuffle_seed=case["shuffle_seed"], shuffle_reshuffle_each_iteration=reshuffle)
    for epoch, expected in enumerate(case["epochs"]):
        assert file_order(case["num_files"], config.seed, epoch, reshuffle=config.reshuffles) == expected


@pytest.mark.parametrize(
    "seed,reshuffle,first,second",
    [
        (-1, True, [3, 6, 4, 1, 0, 5, 2], [1, 5, 6, 3, 4, 0, 2]),
        (-1, False, [5, 2, 1, 0, 3, 4, 6], [5, 2, 1, 0, 3, 4, 6]),
        (2147483647, True, [3, 5, 1, 6, 2, 0, 4], [6, 3, 0, 2, 4, 5, 1]),
        (2147483647, False, [4, 2, 5, 0, 6, 1, 3], [4, 2, 5, 0, 6, 1, 3]),
        (8589934597, True, [2, 5, 3, 1, 4, 0, 6], [0, 3, 1, 6, 5, 4, 2]),
        (8589934597, False, [0, 2, 1, 5, 6, 3, 4], [0, 2, 1, 5, 6, 3, 4]),
        (-9223372036854775808, True, [1, 6, 5, 2, 4, 0, 3], [4, 0, 1, 3, 6, 2, 5]),
        (-9223372036854775808, False, [1, 3, 5, 2, 4, 0, 6], [1, 3, 5, 2, 4, 0, 6]),
    ],
)
def test_file_orders_of_unusual_seeds(seed, reshuffle, first, second):
    """tf.data's own orders of seven elements: seeds are taken modulo 2^31 - 1."""
    assert [file_order(7, seed, epoch, reshuffle=reshuffle) for epoch in (0, 1)] == [first, second]


def test_file_order_edges():
    assert file_order(0, 1) == []
    assert file_order(1, 1) == [0]
    assert file_order(5, 7, 3, reshuffle=False) == file_order(5, 7, reshuffle=False)
    assert sorted(file_order(1000, 3, 5)) == list(range(1000))
    with pytest.raises(ValueError, match="epoch .*-1"):
        file_order(3, 1, -1)


# --- the whole range


def numbers(text):
    return list(map(int, text.split()))


def test_golden_range_orders():
    """These orders may never change: saved states and published experiments rely on them."""
    assert RangeShuffle(10, seed=0).sources(range(10)).tolist() == numbers("1 2 3 9 8 5 7 4 0 6")
    assert RangeShuffle(10, seed=0, epoch=1).sources(range(10)).tolist() == numbers("5 1 7 3 0 2 6 4 8 9")
    assert RangeShuffle(1000, seed=42).sources(range(8)).tolist() == numbers("176 360 466 367 257 722 928 417")
    assert RangeShuffle(10**12, seed=-7, epoch=3).sources(range(4)).tolist() == numbers(
        "636827962295 252484904817 214613596045 669084599379"
    )


@cases(100)
@given(st.integers(0, 3000), SEEDS, st.integers(0, 100))
def test_range_is_a_permutation(length, seed, epoch):
    sources = RangeShuffle(length, seed, epoch).sources(range(length))
    assert sorted(sources.tolist()) == list(range(length))


@cases(100)
@given(st.integers(1, 2**62 - 1), SEEDS, st.data())
def test_one_position_is_as_in_an_array(length, seed, data):
    shuffle = RangeShuffle(length, seed)
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=3)) * 20
    sources = shuffle.sources(positions)
    assert sources.tolist() == [shuffle.sources([position])[0] for position in positions]


def test_epochs_and_seeds_differ():
    orders = [RangeShuffle(1000, *key).sources(range(1000)) for key in ((1,), (1, 1), (2,))]
    for a, b in itertools.combinations(orders, 2):
        assert (a == b).sum() < 10
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.15


@pytest.mark.parametrize("length", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_every_ordering_is_equally_likely(length):
    orderings = math.factorial(length)
    seen = Counter(tuple(RangeShuffle(length, seed).sources(range(length))) for seed in range(20 * orderings))
    assert len(seen) == orderings
    assert abs(chi_square_z(list(seen.values()), 20)) < 4


@pytest.mark.parametrize("length", [10**5, 10**9 + 7, 2**61])
def test_range_looks_random(length):
    shares = RangeShuffle(length, seed=5).sources(range(100_000)) / length
    pairs = np.histogram2d(shares[:-1], shares[1:], bins=30, range=[[0, 1]] * 2)[0].ravel()
    assert abs(chi_square_z(pairs, 99_999 / 900)) < 4
    for lag in (1, 2, 16, 317):
        assert abs(np.corrcoef(shares[:-lag], shares[lag:])[0, 1]) < 0.015
    assert abs(np.corrcoef(shares, np.arange(100_000))[0, 1]) < 0.015


# --- a window


def test_golden_window_orders():
    """These orders may never change: saved states and published experiments rely on them."""
    assert WindowShuffle(20, 9, seed=0).sources(range(20)).tolist() == numbers(
        "0 6 2 7 5 1 8 13 4 3 14 11 12 9 19 10 15 18 17 16"
    )
    assert WindowShuffle(20, 9, seed=0, epoch=1).sources(range(20)).tolist() == numbers(
        "3 1 6 5 8 0 2 15 14 9 4 11 7 19 10 17 18 13 12 16"
    )
    assert WindowShuffle(10, 100, seed=0).sources(range(10)).tolist() == numbers("7 9 5 6 3 2 0 8 4 1")
    assert WindowShuffle(10**12, 1000, seed=42).sources(range(10**9, 10**9 + 4)).tolist() == numbers(
        "1000000254 999999436 1000000388 999999806"
    )


@cases(150)
@given(st.integers(0, 300), st.integers(1, 350), SEEDS, st.integers(0, 100), st.data())
def test_window_is_a_bounded_permutation_that_resumes_anywhere(length, window, seed, epoch, data):
    shuffle = WindowShuffle(length, window, seed, epoch)
    sources = shuffle.sources(range(length))
    assert sorted(sources.tolist()) == list(range(length))
    assert all(abs(source - position) < max(window, 3) or window == 1 for position, source in enumerate(sources))
    start = data.draw(st.integers(0, length))
    assert list(shuffle.apply(lambda first: iter(range(first, length)), start)) == sources[start:].tolist()
    some = data.draw(st.permutations(range(length)))[:20]
    assert shuffle.sources(some).tolist() == sources[some].tolist()
    assert [shuffle.sources([position])[0] for position in some[:3]] == sources[some[:3]].tolist()


class Item:
    """An item that knows how many of its kind are alive."""

    alive = 0

    def __init__(self, position):
        self.position = position
        Item.alive += 1

    def __del__(self):
        Item.alive -= 1


@pytest.mark.parametrize("window", [3, 10, 99, 1000, 6000])
@pytest.mark.parametrize("start", [0, 1234, 4999])
def test_window_holds_no_more_than_it_says(window, start):
    length, read, most = 5000, [], 0
    shuffle = WindowShuffle(length, window, 7)

    def items(first):
        for position in range(first, length):
            read.append(position)
            yield Item(position)

    for _item in shuffle.apply(items, start):
        most = max(most, Item.alive)
    assert most <= window + 1  # one more is just being shown
    assert read == list(range(read[0], read[0] + len(read)))
    shown_before = set(shuffle.sources(range(start)).tolist())
    assert len(shown_before & set(read)) <= 4 / 3 * window


def test_window_of_one_keeps_the_order_and_a_wide_one_is_uniform():
    assert list(itertools.islice(WindowShuffle(10**15, 1, 3).apply(itertools.count), 3)) == [0, 1, 2]
    assert WindowShuffle(50, 1, 3).sources(range(50)).tolist() == list(range(50))
    seen = Counter(tuple(WindowShuffle(4, 4, seed).sources(range(4)).tolist()) for seed in range(2400))
    assert len(seen) == 24
    assert abs(chi_square_z(list(seen.values()), 100)) < 4


def test_window_mixes():
    length, window = 100_000, 1000
    moved = WindowShuffle(length, window, 3).sources(range(length)) - np.arange(length)
    assert 0.34 < np.abs(moved).mean() / window < 0.38
    assert abs(moved.mean()) == 0
    next_epoch = WindowShuffle(length, window, 3, epoch=1).sources(range(length)) - np.arange(length)
    assert abs(np.corrcoef(moved, next_epoch)[0, 1]) < 0.2
    cuts = {WindowShuffle(length, window, 3, epoch)._passes[0].cut for epoch in range(10)}
    assert len(cuts) > 5


class Positions(Operation):
    """Items that are their positions."""

    def __init__(self, length):
        super().__init__((), length, 100.0, ())

    def fetch(self, positions, epoch):
        return positions.tolist()

    def blocks(self, spans, epoch):
        raise NotImplementedError


def test_a_share_of_a_window_shuffle_computes_each_window_a_few_times(monkeypatch):
    """Each call shuffles whole windows, so calls for 4096 positions took twice as long as calls for 16384."""
    calls, sources = [], WindowShuffle.sources
    monkeypatch.setattr(WindowShuffle, "sources", lambda *args: (calls.append(len(args[1])), sources(*args))[1])
    share, length = Share(3, 8, block=16), 800_000
    operation = Shared(Window(Positions(length), 1, 300), share)
    spans = iter([(np.array([0]), np.array([100_000]))])
    items = [item for block in operation.blocks(spans, 0) for item in block]
    assert items == sources(WindowShuffle(length, 300, 1), share.stream_positions(np.arange(100_000))).tolist()
    assert calls[:2] == [4096, 8192]
    assert len(calls) <= 12  # 26 calls of at most 4096
    assert max(calls) == 1 << 14


# ReadConfig and the files of an epoch


@dataclass(frozen=True)
class Context:
    num_input_pipelines: int
    input_pipeline_id: int


def test_defaults_are_those_of_tfds():
    config = ReadConfig()
    assert config.cycle_length(ordered=False) == 16
    assert config.cycle_length(ordered=True) == 1
    assert config.block_length == 16
    assert config.seed == 0
    assert ReadConfig(interleave_block_length=None).block_length == 1
    assert ReadConfig(interleave_cycle_length=3).cycle_length(ordered=True) == 3


def test_takes_what_has_no_effect_here():
    config = ReadConfig(
        options=object(),
        try_autocache=False,
        skip_prefetch=True,
        num_parallel_calls_for_decode=4,
        num_parallel_calls_for_interleave_files=-1,
        override_buffer_size=1,
        assert_cardinality=False,
        file_format="tfrecord",
    )
    plain = ReadConfig()
    for ordered in (False, True):
        key = config.order_key(ordered=ordered, shuffle_files=True)
        assert key == plain.order_key(ordered=ordered, shuffle_files=True)


@pytest.mark.parametrize(
    "fields,error,message",
    [
        ({"interleave_cycle_length": 0}, ValueError, "interleave_cycle_length must be at least 1, got 0"),
        ({"interleave_block_length": -2}, ValueError, "interleave_block_length must be at least 1, got -2"),
        ({"interleave_cycle_length": 1.5}, TypeError, "interleave_cycle_length must be an int, not 1.5"),
        ({"interleave_cycle_length": True}, TypeError, "interleave_cycle_length must be an int, not True"),
        ({"shuffle_seed": "7"}, TypeError, "shuffle_seed must be an int, not '7'"),
        ({"shuffle_reshuffle_each_iteration": 2}, TypeError, "must be True or False, not 2"),
        ({"add_tfds_id": None}, TypeError, "add_tfds_id must be True or False, not None"),
        ({"repeat_filenames": True}, ValueError, r"repeat_filenames must be False, got True.*repeat\(\)"),
        ({"interleave_sort_fn": 3}, TypeError, "interleave_sort_fn must be a function"),
        ({"interleave_sort_fn": len, "experimental_interleave_sort_fn": len}, ValueError, "give one of them"),
        ({"input_context": (2, 0)}, TypeError, "must have num_input_pipelines and input_pipeline_id"),
        ({"input_context": Context(2, 2)}, ValueError, r"input_pipeline_id must be in \[0, 2\), got 2"),
        ({"no_such_field": 1}, TypeError, "no_such_field"),
    ],
)
def test_refuses(fields, error, message):
    with pytest.raises(error, match=message):
        ReadConfig(**fields)


def test_takes_numbers_and_flags_of_numpy():
    given = ReadConfig(shuffle_seed=np.int64(3), interleave_block_length=np.uint8(4), add_tfds_id=np.True_)
    assert given == ReadConfig(shuffle_seed=3, interleave_block_length=4, add_tfds_id=True)
    assert [type(value) for value in (given.shuffle_seed, given.interleave_block_length, given.add_tfds_id)] == [
        int,
        int,
        bool,
    ]
    with pytest.raises(TypeError, match="interleave_cycle_length .*int"):
        ReadConfig(interleave_cycle_length=np.True_)


def test_order_key_says_what_the_order_depends_on():
    config = ReadConfig(
        shuffle_seed=5, experimental_interleave_sort_fn=sorted, input_context=Context(4, 1), add_tfds_id=True
    )
    key = {"cycle": 16, "block": 16, "seed": 5, "reshuffle": 1, "files": "1 of 4"}
    assert config.order_key(ordered=False, shuffle_files=True, files=[1, 5, 9]) == key
    order = "SHA-256 " + hashlib.sha256(b"9,5,1").hexdigest()[:24]
    assert config.order_key(ordered=False, shuffle_files=True, files=[9, 5, 1]) == key | {"order": order}
    assert ReadConfig(shuffle_seed=5).order_key(ordered=True, shuffle_files=False) == {"cycle": 1, "block": 16}
