"""Merge levels: the number of reads is linear in the bytes, and merged blocks contain the records of the blocks."""

from __future__ import annotations

import dataclasses
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import storage
from beam_datasets.beam import routing as routing_stages
from beam_datasets.engines import engine as engines
from beam_datasets.metadata.shards import choose_num_shards
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle import plan, routing
from beam_datasets.shuffle.block_builder import BLOCKS_BEFORE_GROWTH, MAX_GROWTH
from beam_datasets.shuffle.blocks import COLLECTED_BYTES, HEAD_BYTES, BlockCollector, histogram_of
from beam_datasets.shuffle.histogram import merge
from beam_datasets.shuffle.levels import SLACK, MergeLimits, level_sizes, plan_levels
from beam_datasets.shuffle.merge import IN_STORE, ON_DISK, merge_blocks
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers
from tests.shuffle.framed import block_of

MIB, TB = 1 << 20, 10**12


def reads_of(num_blocks, num_bytes, groups, levels, range_bytes):
    """Returns the ranges that tasks and groups read, if each run has records in each column and group."""
    reads, runs, columns = 0, num_blocks, 1  # columns: of the blocks that are read next
    for level in levels:
        here = len(level.last_groups)
        reads += runs * (here + columns - 1)  # a block at the end of a column is in two of the next level's
        assert num_bytes / (runs * here) >= range_bytes or here == 1
        runs, columns = level.num_runs, here
    return reads + runs * (groups + columns - 1), runs


def tasks_of(level):
    return level.num_runs * len(level.last_groups)


@given(
    st.integers(1, 10**15),
    st.integers(1, 10**8),
    st.integers(1, 100_000),
    st.integers(2, 500),
    st.sampled_from([1, 100, 10_000]),
)
def test_the_number_of_reads_is_linear(num_bytes, num_blocks, groups, fan_in, few):
    limits = MergeLimits(fan_in, MIB, few, max_levels=99)
    levels = plan_levels(np.full(groups, 1000), num_bytes, num_blocks, limits)
    reads, runs = reads_of(num_blocks, num_bytes, groups, levels, MIB)
    mib = num_bytes / MIB
    assert runs * groups <= few + SLACK * (mib + runs + groups)
    assert reads <= few + (SLACK + 2 * len(levels)) * (mib + num_blocks + groups)
    assert all(tasks_of(level) <= mib / limits.task_ranges + level.num_runs for level in levels)
    assert len(levels) <= 1 + np.log(num_blocks) / np.log(fan_in)
    for level in levels:
        assert level.last_groups[-1] == groups - 1
        assert (np.diff(level.last_groups) > 0).all()


@given(st.integers(2 * 10**11, 3 * 10**13), st.integers(64, 256), st.integers(32, 64))
def test_a_read_of_a_store_has_a_mebibyte(num_bytes, group_mib, block_mib):
    """Adds up the requests of all tasks and groups, of which each range takes one for its heads and one a chunk."""
    groups, runs, columns = -(-num_bytes // (group_mib * MIB)), -(-num_bytes // (block_mib * MIB)), 1
    reads, num_read = 0, 0
    for next_runs, next_columns in [*level_sizes(groups, num_bytes, runs, MergeLimits()), (1, groups)]:
        size = num_bytes // (next_runs * next_columns)
        inputs = runs / next_runs + max(0, columns - 1) / next_columns
        chunks = IN_STORE.chunks(round(inputs), size)
        assert size / chunks + 75 * size / 1000 <= 540 * MIB, "memory of a task"
        reads += next_runs * next_columns * inputs * (1 + chunks)
        num_read += num_bytes * 1.02
        runs, columns = next_runs, next_columns
    assert num_read / reads >= 0.9 * MIB


@pytest.mark.parametrize(
    "num_bytes, block_bytes, groups, expected",
    [
        (10**9, 32 * MIB, 4, 0),
        (10**9, 32 * MIB, 128, 0),
        (16 * 10**9, 60 * MIB, 64, 0),
        (TB, 64 * MIB, 4_096, 1),
        (5 * TB, 64 * MIB, 20_000, 2),
        (100 * TB, 64 * MIB, 400_000, 2),
        (TB, 64 * MIB, 100_000, 2),
        (TB // 100, 1000, 40, 2),  # tiny blocks of tiny bundles
    ],
)
def test_small_data_has_no_level_and_large_data_few(num_bytes, block_bytes, groups, expected):
    num_blocks = num_bytes // block_bytes
    levels = plan_levels(np.full(groups, 10), num_bytes, num_blocks, MergeLimits())
    assert len(levels) == expected
    for level, before in zip(levels, [num_blocks, *(level.num_runs for level in levels)]):
        assert before / level.num_runs <= 200


def num_blocks_of(num_bytes, workers=2):
    """Returns the blocks that so many workers spill, whose sizes grow as those of a `BlockBuilder`."""
    count, left = 0, num_bytes / workers
    while left > 0:
        left -= engines.SPILLED_BLOCK_SIZE * min(MAX_GROWTH, 1 + count // BLOCKS_BEFORE_GROWTH)
        count += 1
    return count * workers


def test_requests_of_one_machine_are_linear_without_a_level():
    """Adds up the reads of all groups: heads of the blocks that are listed together, and each block once a chunk."""
    reads = []
    for gigabytes in (1, 2, 4, 8, 16):
        num_bytes = gigabytes * 10**9
        blocks, groups = num_blocks_of(num_bytes), choose_num_shards(num_bytes // 1000, num_bytes)
        assert not level_sizes(groups, num_bytes, blocks, engines.ONE_MACHINE)
        lists = max(2, num_bytes // 1000 * HEAD_BYTES / COLLECTED_BYTES)
        chunks = ON_DISK.chunks(blocks, num_bytes // groups)
        assert num_bytes / groups / chunks <= 65 * MIB, "memory of a group"
        reads.append(groups * (lists + chunks * blocks) / gigabytes)
    assert all(0.8 < count / reads[0] < 1.2 for count in reads), reads


def test_a_task_finds_the_heads_of_many_blocks_by_one_read(tmp_path):
    rng = random.Random(2)
    keys = [rng.randbytes(16) for _ in range(3000)]
    blocks = [block_of(keys[i::30], keys[i::30], str(tmp_path)) for i in range(30)]
    counts = {"train": merge([histogram_of(*block.load()) for block in blocks], 2000)}
    split = plan.make_plan(["train"], counts, ShardingOptions(num_shards=40)).split("train")
    collector, routed = BlockCollector(str(tmp_path)), []
    for number, block in enumerate(blocks):
        assert not list(collector.send(routing.route(*block.load(), split)))
        if number in (9, 29):
            routed += collector.flush()
    assert not list(collector.flush())
    assert len(routed) == 2 * len(split)
    expected = {}
    for block in blocks:
        for group, part in routing.route(*block.load(), split):
            expected.setdefault(group, []).append(part)
    storage.take_requests()
    found = {}
    for group, some in routed:
        found.setdefault(group, []).extend(some.load())
    assert storage.take_requests().reads == len(routed)
    assert found == expected


TINY = MergeLimits(fan_in=3, range_bytes=500, few_reads=1, task_ranges=1)


def test_a_level_keeps_every_record_once(tmp_path):
    rng = random.Random(1)
    keys = [rng.randbytes(16) for _ in range(2000)]
    blocks = [block_of(keys[i::40], keys[i::40], str(tmp_path)) for i in range(40)]
    counts = {"train": merge([histogram_of(*block.load()) for block in blocks], 200)}
    split = plan.make_plan(["train"], counts, ShardingOptions(num_shards=120), TINY).split("train")
    assert len(split.levels) == 2
    for level in split.levels:
        tasks = {}
        for block in blocks:
            for task, part in routing.route_to_runs(*block.load(), split, level):
                tasks.setdefault(task, []).append(part)
        assert level.num_runs < len(tasks) <= tasks_of(level)
        blocks = [merge_blocks(parts, str(tmp_path)) for parts in tasks.values()]
        loaded = [block.load()[0] for block in blocks]
        found = [[some.keys[i : i + 16] for i in range(0, len(some.keys), 16)] for some in loaded]
        assert all(some == sorted(some) for some in found)
        assert sorted(key for some in found for key in some) == sorted(keys)
        assert [bytes(block.payload.read(12, 28)) for block in loaded] == [some[0] for some in found]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"ignore_duplicates": True},
        pytest.param({"max_examples_per_split": 900}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_two_levels_write_the_same_bytes(tmp_path, monkeypatch, options):
    def build(name, **more):
        builder = Numbers(data_dir=tmp_path / name, count=3000)
        return digests(builder.build(num_workers=1, num_shards={"train": 120, "test": 2}, **options, **more))

    expected = build("inline", payload="inline")
    kinds = set()

    def counted(blocks, spill_dir):
        blocks = list(blocks)
        kinds.update(block.path.rpartition(".")[2] for some in blocks for block in some.load())
        return merge_blocks(blocks, spill_dir)

    limits = dataclasses.replace(TINY, range_bytes=5000)
    monkeypatch.setattr(routing_stages, "merge_blocks", counted)
    monkeypatch.setattr(engines, "ONE_MACHINE", limits)
    assert build("spilled", block_size=10_000) == expected
    assert kinds == {"block", "run"}
    written = json.loads((tmp_path / "spilled" / "numbers" / "1.0.0" / "run.json").read_text())
    assert written["storage"]["reads"] > 300  # how many depends on when blocks end
    assert written["storage"]["bytes_read"] > 3 * (written["bytes"] if "max_examples_per_split" not in options else 0)
