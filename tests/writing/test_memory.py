"""A shard is written, and its parts joined, in memory that does not grow with it."""

from __future__ import annotations

import tracemalloc

import pytest

from beam_datasets.writing import histogram, plan, shard_writer
from beam_datasets.writing.blocks import BlockBuilder, key_array, size_array

RECORD = bytes(10_000)


def peak_of_writing(directory, num_records, max_part_size):
    """Returns the peak of allocated bytes while one shard of so many records in spilled blocks is written."""
    builder = BlockBuilder(
        "train", lambda n: RECORD + b"%d" % n, block_size=4 << 20, spill_dir=str(directory / "spill")
    )
    blocks = [builder.flush() for n in range(num_records) if builder.add(n, n)]
    blocks += [block for block in [builder.flush()] if block is not None]
    counts = [histogram.count_keys(key_array(b.load()[0]), size_array(b.load()[1])) for b in blocks]
    options = plan.ShardingOptions(num_shards=1, max_part_size=max_part_size)
    made = plan.plan_split("train", histogram.merge(counts), options)
    where = shard_writer.Destination(str(directory / "out"), "ds", chunk_bytes=1 << 20)
    tracemalloc.start()
    try:
        parts = []
        for number in range(len(made)):
            cuts = [part for block in blocks for group, part in plan.route(block, made) if group == number]
            parts.extend(shard_writer.write_group(made.group(number), cuts, where))
        shard = shard_writer.join_parts(parts, 1, where)
        return tracemalloc.get_traced_memory()[1], shard.file_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("max_part_size", [1 << 30, 30 << 20], ids=["whole", "in parts"])
def test_memory_does_not_grow_with_the_shard(tmp_path, max_part_size):
    small, size = peak_of_writing(tmp_path / "small", 3000, max_part_size)
    assert size > 30_000_000
    large, larger = peak_of_writing(tmp_path / "large", 12_000, max_part_size)
    assert larger > 120_000_000
    assert large < small + 0.1 * (larger - size)
