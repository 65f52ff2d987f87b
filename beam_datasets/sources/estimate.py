"""Estimates the resources of a run before it starts: encodes a sample of the source, and computes the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_datasets.formats import tfrecord
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle.levels import MergeLimits, level_sizes
from beam_datasets.shuffle.plan import choose_shards
from beam_datasets.shuffle.rejected import NO_REJECTIONS, Rejected, Rejections, merge_rejections
from beam_datasets.sources.units import SourceUnits, read_together, unpack_with_splits

SAMPLE = 0.01  # share of the units
SAMPLE_SECONDS = 15.0  # for the sample of all splits, so that `plan` takes less than 20 with its start
REQUEST_BYTES = 8 << 20  # of a large file that one request writes
BLOCK_BYTES = 64 << 20  # of many
GROUP_BYTES = 256 << 20
PROCESS_BYTES = 256 << 20  # of a worker process with Beam, NumPy and a block
EXAMPLE_BYTES = 75  # of memory, for each example of a group
MOVED_BYTES_PER_SECOND = 120e6  # that one core merges and writes


@dataclass(frozen=True)
class Sample:
    """Examples of a split that were encoded for an estimate.

    Attributes:
        share: share of the source, from 0 to 1; None if it is unknown.
        examples: number of examples of the sample.
        num_bytes: size of their framed records.
        seconds: time of encoding them on one core, with reading, in seconds.
        rejections: counts of the examples of the sample that the builder rejected.
    """

    share: float | None
    examples: int
    num_bytes: int
    seconds: float
    rejections: Rejections = NO_REJECTIONS


def take_samples(
    sources: Mapping[str, SourceUnits], encode: Callable[[Any], bytes], share: float = SAMPLE
) -> dict[str, Sample]:
    """Returns {split: `Sample`} of units that are spread evenly over the source.

    `share` of the units are sampled, or fewer if the time is over before. The splits share `SAMPLE_SECONDS`: time that
    a split does not use is divided among the next ones. At least one example of each split is read.

    Args:
        sources: split -> its source.
        encode: the function from an example to its record.
        share: the share of the units of each split to read, from 0 to 1.
    """
    samples: dict[str, Sample] = {}
    split_groups = read_together(sources)
    end = time.monotonic() + SAMPLE_SECONDS
    for number, splits in enumerate(split_groups):
        source, tallies = sources[splits[0]], {split: _Tally() for split in splits}
        count = max(1, math.ceil(len(source.units) * share))
        units, keeps = source.units, {split: sources[split].keep for split in splits}
        sampled_units = [units[index * len(units) // count] for index in range(count)] if units else []
        start_time, weight, is_whole = time.monotonic(), 0.0, True
        deadline = start_time + (end - start_time) / (len(split_groups) - number)
        for unit in sampled_units:
            is_whole = _add_unit(unit, source, keeps, encode, tallies, deadline)
            weight += _size_of_unit(unit)
            if time.monotonic() > deadline:
                break
        seconds = (time.monotonic() - start_time) / len(splits)
        total = sum(map(_size_of_unit, units))
        known_share = weight / total if total and is_whole else None
        samples |= {split: tally.as_sample(known_share, seconds) for split, tally in tallies.items()}
    return samples


@dataclass
class _Tally:
    """Counts of the examples of a split while it is sampled; see `Sample`."""

    examples: int = 0
    num_bytes: int = 0
    rejections: Rejections = NO_REJECTIONS

    def as_sample(self, share: float | None, seconds: float) -> Sample:
        """Returns the sample with these counts."""
        return Sample(share, self.examples, self.num_bytes, seconds, self.rejections)


def _add_unit(unit: Any, source: SourceUnits, keeps: Any, encode: Any, tallies: dict[str, _Tally], end: float) -> bool:
    """Adds the examples of a unit to `tallies`; returns False if the time was over before the end of the unit.

    Args:
        unit: the unit to read.
        source: the source of the unit.
        keeps: split -> its `keep` (see `SourceUnits`), for all splits that this source is read for.
        encode: the function from an example to its record.
        tallies: split -> its counts. Changed.
        end: the time of `time.monotonic()`, in seconds, after which no further example is read.
    """
    for item in source.read(unit):
        (key, example), splits = unpack_with_splits(item, keeps)
        if isinstance(example, Rejected):
            for split in splits:
                rejection = Rejections.of(split, key, example)
                tallies[split].rejections = merge_rejections([tallies[split].rejections, rejection])
        else:
            size = len(encode(example)) + tfrecord.OVERHEAD
            for split in splits:
                tallies[split].examples += 1
                tallies[split].num_bytes += size
        if time.monotonic() > end:
            return False
    return True


def _size_of_unit(unit: Any) -> float:
    """Returns the attribute `num_bytes` of a unit of a source; 1 if it has none, or if it is 0."""
    return float(getattr(unit, "num_bytes", 1) or 1)


@dataclass(frozen=True)
class SplitEstimate:
    """Estimated size of a split: examples, size of their framed records in bytes, and shards."""

    examples: int
    num_bytes: int
    shards: int


@dataclass(frozen=True)
class Estimate:
    """Estimated resources of a run.

    Attributes:
        splits: {split: estimate} of the splits whose size of the source is known.
        unknown: names of the other splits.
        worker_bytes: memory of a worker process in bytes.
        reads: number of read requests to an object store.
        writes: number of write requests to an object store.
        spilled_bytes: maximum size of intermediate files in bytes.
        core_hours: core hours of all workers together.
    """

    splits: Mapping[str, SplitEstimate]
    unknown: Sequence[str]
    worker_bytes: int
    reads: int
    writes: int
    spilled_bytes: int
    core_hours: float


def estimate(samples: Mapping[str, Sample], sharding: ShardingOptions) -> Estimate:
    """Returns the estimated resources of a run with spilled payload, from samples of the splits."""
    usable_samples = {split: sample for split, sample in samples.items() if sample.share and sample.examples}
    splits = {split: _scale_sample(split, sample, sharding) for split, sample in usable_samples.items()}
    size = sum(split.num_bytes for split in splits.values())
    moved_bytes, reads, writes = map(sum, zip(*(_estimate_io(split) for split in splits.values()), (0, 0, 0)))
    encoding = sum(sample.seconds / (sample.share or 1) for sample in usable_samples.values())
    hours = (encoding + moved_bytes / MOVED_BYTES_PER_SECOND) / 3600
    smallest = min((split.num_bytes / split.examples for split in splits.values()), default=1.0)
    return Estimate(
        splits, [split for split in samples if split not in usable_samples],
        PROCESS_BYTES + int(EXAMPLE_BYTES * min(GROUP_BYTES, size) / max(smallest, 1.0)),
        reads, writes, moved_bytes, hours,
    )  # fmt: skip


def _estimate_io(split: SplitEstimate) -> tuple[int, int, int]:
    """Returns the I/O of merging and writing a split: (bytes read, number of read requests, number of write requests).

    Each level of merging, the writing of shards, and the joining of shards that are written in parts read all bytes
    once.
    """
    size, blocks = split.num_bytes, math.ceil(split.num_bytes / BLOCK_BYTES)
    groups = max(split.shards, math.ceil(size / GROUP_BYTES))
    levels = len(level_sizes(groups, size, blocks, MergeLimits()))
    joined_bytes = size if size > GROUP_BYTES * split.shards else 0  # shards in parts are written twice
    moved_bytes = size * (1 + levels) + joined_bytes
    reads = blocks * (1 + levels) + 2 * moved_bytes // MergeLimits().range_bytes  # of heads and of payload
    writes = (moved_bytes + size) // REQUEST_BYTES + blocks * (1 + levels) + 2 * groups + 4 * split.shards
    return moved_bytes, reads, writes


def _scale_sample(split: str, sample: Sample, sharding: ShardingOptions) -> SplitEstimate:
    """Returns the estimate of a whole split, scaled up from its sample."""
    scale = 1 / (sample.share or 1)
    examples = max(1, round(sample.examples * scale))
    num_examples = min(examples, sharding.max_examples_per_split or examples)
    size = int(sample.num_bytes * scale * num_examples / examples)
    return SplitEstimate(num_examples, size, choose_shards(split, num_examples, size, sharding))
