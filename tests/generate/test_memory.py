"""A shard is written, and its parts joined, in memory that does not grow with it."""

import pickle
import tracemalloc

import pytest

from beam_datasets.generate import histogram, plan, shard_writer
from beam_datasets.generate.blocks import BlockBuilder, histogram_of

RECORD = bytes(10_000)


def peak_of_writing(directory, num_records, max_part_size):
    """Returns the peak of allocated bytes while one shard of so many records in spilled blocks is written."""
    builder = BlockBuilder(
        "train", lambda n: RECORD + b"%d" % n, block_size=4 << 20, spill_dir=str(directory / "spill")
    )
    blocks = [builder.flush() for n in range(num_records) if builder.add(n, n)]
    blocks += [block for block in [builder.flush()] if block is not None]
    counts = [histogram_of(block) for block in blocks]
    options = plan.ShardingOptions(num_shards=1, max_part_size=max_part_size)
    made = plan.plan_split("train", histogram.merge(counts), options)
    where = shard_writer.Destination(str(directory / "out"), "ds", chunk_bytes=1 << 20)
    tracemalloc.start()
    try:
        parts = []
        for number in range(len(made)):
            cuts = [part for block in blocks for group, part in plan.route(*block.load(), made) if group == number]
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


def group_of(num_records, size, directory, *, spilled):
    """Returns the plan of a split of one shard, and an iterator of its blocks that holds none of them."""
    (directory / "spill").mkdir(parents=True)
    record = bytes(size)
    spill_dir = str(directory / "spill") if spilled else None
    builder = BlockBuilder("train", lambda n: record + b"%d" % n, block_size=4 << 20, spill_dir=spill_dir)
    counts, paths = [], []
    for n in range(num_records):
        if builder.add(n, n) or n == num_records - 1:
            block = builder.flush()
            counts.append(histogram_of(block))
            paths.append(directory / f"{len(paths)}.pickle")
            paths[-1].write_bytes(pickle.dumps(block))
    made = plan.plan_split("train", histogram.merge(counts), plan.ShardingOptions(num_shards=1, max_part_size=1 << 40))
    return made, (pickle.loads(path.read_bytes()) for path in paths)


def peak_of_group(directory, num_records, size, *, spilled):
    """Returns the peak of allocated bytes while a group is written, and what was written."""
    made, blocks = group_of(num_records, size, directory, spilled=spilled)
    where = shard_writer.Destination(str(directory / "out"), "ds")
    tracemalloc.start()
    try:
        (written,) = shard_writer.write_group(made.group(0), blocks, where)
        return tracemalloc.get_traced_memory()[1], written
    finally:
        tracemalloc.stop()


def test_inline_payload_of_a_group_is_not_held(tmp_path):
    """B24: of a group that an engine streams, memory holds 32 MiB of payload and a chunk, not all of it."""
    peak, written = peak_of_group(tmp_path / "inline", 10_000, 12_000, spilled=False)
    assert written.file_bytes > 120_000_000
    assert peak < 32 * 2**20 + 20 * 2**20  # a chunk, pieces of it, and the block that comes
    spilled_peak, spilled = peak_of_group(tmp_path / "spilled", 10_000, 12_000, spilled=True)
    assert (written.crc32c, written.index_crc32c) == (spilled.crc32c, spilled.index_crc32c)
    assert spilled_peak < 20 * 2**20


@pytest.mark.parametrize("spilled", [False, True])
def test_each_example_of_a_group_takes_few_bytes(tmp_path, spilled):
    """B24: keys, sizes and places of an example take 75 bytes, and its own payload where that is inline."""
    peak, written = peak_of_group(tmp_path, 200_000, 10, spilled=spilled)
    held = 0 if spilled else written.file_bytes + 20 * written.num_examples
    assert peak < 80 * written.num_examples + 2 * (4 << 20) + held
