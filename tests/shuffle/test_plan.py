"""Plans against the obvious: sort everything, cut at exact ranks."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import BeamDatasetsError, NoExamplesError
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle import histogram, plan, routing
from beam_datasets.shuffle.blocks import Block, key_array, size_array
from tests.facts import raises_with
from tests.shuffle import framed


def numbers(keys: bytes) -> list[int]:
    return [int.from_bytes(keys[i : i + 16], "big") for i in range(0, len(keys), 16)]


def block_of(keys: list[int], sizes: list[int]) -> Block:
    block: Block = framed.block_of([k.to_bytes(16, "big") for k in keys], [bytes(n) for n in sizes])
    return block


def counted(block: Block, max_bins: int) -> histogram.Histogram:
    counts = histogram.count_keys(key_array(block.keys), size_array(block.sizes), max_bins)
    travelled: histogram.Histogram = pickle.loads(pickle.dumps(counts))
    return travelled


NARROW = st.integers(2**127 - 500, 2**127 + 500)
WIDE = st.integers(0, 2**128 - 1)


@given(
    st.lists(st.one_of(NARROW, WIDE), min_size=1, max_size=300),
    st.integers(1, 5),
    st.one_of(st.integers(1, 12), st.integers(100, 300)),
    st.integers(2, 300),
    st.integers(20, 3000),
    st.one_of(st.none(), st.integers(1, 300)),
    st.randoms(use_true_random=False),
)
def test_groups_hold_the_exact_ranks(keys, num_blocks, num_shards, max_bins, max_part_size, limit, random):
    sizes = [random.randrange(40) for _ in keys]
    parts = [[] for _ in range(num_blocks)]
    for item in zip(keys, sizes):
        random.choice(parts).append(item)
    blocks = [block_of(*map(list, zip(*part))) for part in parts if part]
    merged = histogram.merge([counted(b, max_bins) for b in blocks], max_bins)
    examples = min(len(keys), limit or len(keys))
    num_shards = min(num_shards, examples)
    options = ShardingOptions(num_shards=num_shards, max_examples_per_split=limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MAX_PART_SIZE", max_part_size)
        split = plan.plan_split("train", merged, options, first_group=7)
    routed: dict[int, list[int]] = {}
    for block in blocks:
        for group, part in routing.route(block, split):
            routed.setdefault(group - 7, []).extend(numbers(part.keys))
            assert sum(len(k) for k in [part.sizes]) == 4 * len(part)
            assert len(part.payload) == size_array(part.sizes).sum()
    in_order, starts = sorted(keys), [0, *shard_ends(examples, num_shards)]
    shards: dict[int, list[int]] = {}
    assert sorted(routed) == list(range(len(split)))
    for number in range(len(split)):
        group = split.group(number)
        assert len(routed[number]) == group.received
        shards.setdefault(group.shard, []).extend(sorted(routed[number])[group.skip : group.skip + group.take])
    assert [shards[i] for i in range(num_shards)] == [in_order[a:b] for a, b in itertools.pairwise(starts)]


def test_the_number_of_shards_is_limited(monkeypatch):
    with raises_with(ValueError, mentions=["num_shards", "100,001", "100,000"]):
        ShardingOptions(num_shards=100_001)
    monkeypatch.setattr(plan, "MAX_SHARDS", 5)
    counts = counted(block_of(list(range(100)), [10] * 100), 100)
    options = ShardingOptions(num_shards=3)
    assert len(plan.make_plan(["a"], {"a": counts}, options).splits) == 1
    with raises_with(BeamDatasetsError, expected=["5 shards"], got="6", advice=["num_shards"]):
        plan.make_plan(["a", "b"], {"a": counts, "b": counts}, options)


@given(st.lists(st.one_of(NARROW, WIDE), min_size=1, max_size=200), st.integers(1, 6), st.integers(2, 50))
def test_merged_histogram_does_not_depend_on_the_grouping(keys, num_blocks, max_bins):
    whole = counted(block_of(keys, [len(str(k)) for k in keys]), max_bins)
    cuts = np.array_split(np.array(keys, object), num_blocks)
    parts = [counted(block_of(list(c), [len(str(k)) for k in c]), max_bins) for c in cuts if len(c)]
    merged = histogram.merge(parts, max_bins)
    assert merged.shift == whole.shift
    assert len(merged.bins) <= max_bins
    for name in ("bins", "counts", "num_bytes"):
        assert (getattr(merged, name) == getattr(whole, name)).all()


@pytest.mark.parametrize("shift, max_bins", [(120, 256), (120, 100), (118, 1 << 10), (118, 1000), (118, 1)])
def test_merging_hashes_counts_each_bin(shift, max_bins):
    rng = np.random.default_rng(shift + max_bins)
    parts = [sorted(rng.bytes(16) for _ in range(count)) for count in (700, 1, 3000)]
    blocks = [block_of([int.from_bytes(k, "big") for k in part], rng.integers(0, 99, len(part))) for part in parts]
    merged = histogram.merge(
        [histogram.count_keys(key_array(b.keys), size_array(b.sizes), shift=shift) for b in blocks], max_bins
    )
    assert len(merged.bins) <= max_bins
    expected: dict[int, list[int]] = {}
    for block in blocks:
        for key, size in zip(numbers(block.keys), size_array(block.sizes).tolist()):
            count = expected.setdefault(key >> merged.shift << merged.shift, [0, 0])
            count[:] = [count[0] + 1, count[1] + size]
    found = zip(merged.bins.tolist(), merged.counts.tolist(), merged.num_bytes.tolist())
    assert {(high << 64) + low: [count, size] for (high, low), count, size in found} == dict(sorted(expected.items()))
    finer = {key >> merged.shift - 1 for block in blocks for key in numbers(block.keys)}
    assert merged.shift == shift or len(finer) > max_bins


def test_a_histogram_travels_in_few_bytes():
    keys = np.random.default_rng(0).integers(0, 2**64, (10_000, 2), np.uint64)
    keys = keys[keys[:, 0].argsort()]
    counts = histogram.count_keys(keys, np.full(10_000, 300), shift=histogram.hash_shift(1 << 18))
    assert len(pickle.dumps(counts)) < 9 * len(counts.counts) + 1000


def test_outliers_leave_the_bins_fine():
    keys = [0, 2**127 - 1, 2**128 - 1, *range(2**127, 2**127 + 1000)]
    counts = counted(block_of(keys, [1] * len(keys)), 1 << 10)
    assert counts.shift <= 1


def test_a_large_shard_is_cut_into_parts(monkeypatch):
    monkeypatch.setattr(plan, "MAX_PART_SIZE", 60_000)
    rng = np.random.default_rng(0)
    keys = [int.from_bytes(rng.bytes(16), "big") for _ in range(5000)]
    counts = counted(block_of(keys, [84] * 5000), 1 << 18)
    split = plan.plan_split("train", counts, ShardingOptions(num_shards=2))
    groups = [split.group(i) for i in range(len(split))]
    assert [g.num_parts for g in groups] == [5] * 10
    assert [g.part for g in groups] == [0, 1, 2, 3, 4] * 2
    assert sum(g.take for g in groups) == 5000
    assert max(g.take for g in groups) < 800


def test_the_size_rule_chooses_by_payload_and_examples():
    counts = counted(block_of(list(range(1000)), [1000 - 16] * 1000), 1 << 18)
    options = ShardingOptions(min_shard_size=100_000, max_shard_size=1_000_000)
    assert plan.plan_split("train", counts, options).num_shards == 8


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"num_shards": 0}, ["num_shards is 0", "at least 1"]),
        ({"num_shards": {"train": -1}}, ["num_shards is -1", "at least 1"]),
        ({"min_shard_size": 2, "max_shard_size": 1}, ["min_shard_size is 2", "max_shard_size 1"]),
        ({"max_examples_per_split": 0}, ["max_examples_per_split is 0", "at least 1"]),
    ],
)
def test_unusable_options_are_refused_at_birth(arguments, words):
    """Types are checked by tests/end_to_end/test_faults.py."""
    with raises_with(ValueError, mentions=words):
        ShardingOptions(**arguments)


def test_numbers_of_numpy_are_ints():
    options = ShardingOptions(num_shards=np.int32(7), min_shard_size=np.int64(7), ignore_duplicates=np.True_)
    assert [type(each) for each in (options.num_shards, options.min_shard_size)] == [int, int]
    assert options.ignore_duplicates is True


def test_a_split_without_examples_and_too_many_shards_are_errors():
    with raises_with(NoExamplesError, split="test"):
        plan.make_plan(["test"], {}, ShardingOptions())
    with raises_with(NoExamplesError, split="test"):
        plan.make_plan(["test"], {}, ShardingOptions(skip_empty_splits=True))
    counts = counted(block_of([1, 2], [1, 1]), 8)
    with raises_with(BeamDatasetsError, split="test", got="2", mentions=["3 shards"]):
        plan.make_plan(["test"], {"test": counts}, ShardingOptions(num_shards=3))
