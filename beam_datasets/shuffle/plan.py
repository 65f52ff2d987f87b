"""The plan of a dataset's shards, made once from the counts of all examples, before any shard is written.

A shard contains the examples of exact ranks [start, stop) in ascending sort key. Whole bins of the histogram are sent
to a shard. So for each *group* (a shard, or a part of a large shard) the plan contains the range of sort keys that it
receives, the number of examples in this range, how many of them to skip, and how many to take.

**Merge levels.** With b blocks and g groups, a single level reads b * g ranges; both grow with the bytes. A *level*
distributes the blocks among fewer *runs*, and merges the blocks of each run. A run is cut into *columns*, ranges of
sort keys that end where a group ends. A task merges the ranges of one run's blocks in one column into a new spilled
block. So each level contains the same records, and the records of a group are one range of each run.

With R = `range_bytes`, the tasks of a level read each block in ranges of at least R on average, or as a whole if it is
smaller: at most bytes / R + blocks ranges. Levels are added while the groups would read more than
`few_reads` + SLACK * (bytes / R + runs + groups) ranges. A range takes two reads at most, of the heads of its records
and of the records: with R of 2 MiB, a read has at least 1 MiB on average. Mostly, one read finds the heads of the
ranges of many blocks (`SpilledBlocks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError, NoExamplesError
from beam_datasets.formats import tfrecord
from beam_datasets.metadata import shards as shard_rules
from beam_datasets.options import MAX_SHARDS, ShardingOptions
from beam_datasets.shuffle.levels import MergeLevel, MergeLimits, plan_levels
from beam_datasets.shuffle.rejected import NO_REJECTIONS, Rejections, merge_rejections

if TYPE_CHECKING:
    from beam_datasets.shuffle.histogram import Histogram

MAX_PART_SIZE = 256 << 20  # larger shards are written in parts of about this size in bytes


@dataclass(frozen=True, slots=True)
class Group:
    """Task of one call of the shard writer.

    Attributes:
        split: the split's name.
        shard: index of the shard.
        num_shards: shards of the split.
        part: index of the part within the shard, and `num_parts` of it.
        num_parts: parts of the shard.
        received: examples whose sort keys are in the group's bins (different keys, where duplicates are ignored).
        skip: number of these examples, in order, that belong to earlier groups.
        take: number of the following examples, which belong to the group.
    """

    split: str
    shard: int
    num_shards: int
    part: int
    num_parts: int
    received: int
    skip: int
    take: int

    @property
    def text(self) -> str:
        """The split and the shard for errors: "split 'train', shard 3 of 8"."""
        return f"split {self.split!r}, shard {self.shard} of {self.num_shards}"


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The groups of one split, in order; each writes a file, which is a shard, or a part of one.

    Attributes:
        split: the split's name.
        num_examples: examples that the split will have.
        num_shards: shards that it will have.
        first_group: number of the first group among those of all splits.
        lows: (groups, 2) uint64, the lowest sort key that a group is sent.
        highs: (groups, 2) uint64, the highest sort key that a group is sent.
        received: (groups,) examples that a group is sent.
        skips: (groups,) how many of them, in order, are of groups before.
        shards: (groups,) shard of each group.
        takes: (groups,) examples that it writes.
        levels: levels in which spilled blocks are merged before the groups read them.
    """

    split: str
    num_examples: int
    num_shards: int
    first_group: int
    lows: NDArray[np.uint64] = field(repr=False)
    highs: NDArray[np.uint64] = field(repr=False)
    received: NDArray[np.int64] = field(repr=False)
    skips: NDArray[np.int64] = field(repr=False)
    shards: NDArray[np.int64] = field(repr=False)
    takes: NDArray[np.int64] = field(repr=False)
    levels: tuple[MergeLevel, ...] = ()

    def __len__(self) -> int:
        return len(self.received)

    def group(self, index: int) -> Group:
        """Returns the split's group of this index, counted from 0."""
        shard = int(self.shards[index])
        first, last = np.searchsorted(self.shards, [shard, shard + 1]).tolist()
        counts = (int(column[index]) for column in (self.received, self.skips, self.takes))
        return Group(self.split, shard, self.num_shards, index - first, last - first, *counts)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plans of all splits, in the order in which the builder names them.

    Attributes:
        splits: the plans.
        libraries: the libraries whose versions determined bytes of the examples, sorted.
        requests: I/O counts of all splits; see `Histogram`.
        rejections: counts of the examples that the builder rejected, of all splits.
    """

    splits: tuple[SplitPlan, ...]
    libraries: tuple[str, ...] = ()
    requests: storage.Requests = field(default=storage.Requests(), compare=False)
    rejections: Rejections = NO_REJECTIONS

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """The rejected examples; see `Rejections.to_left_out`."""
        return self.rejections.to_left_out()

    def split(self, name: str) -> SplitPlan:
        """Returns the plan of the split of this name."""
        return next(split for split in self.splits if split.split == name)

    def group(self, number: int) -> Group:
        """Returns the group of this number, counted over all splits."""
        split = next(s for s in reversed(self.splits) if s.first_group <= number)
        return split.group(number - split.first_group)


def make_plan(
    splits: Sequence[str],
    histograms: Mapping[str, Histogram],
    options: ShardingOptions,
    limits: MergeLimits | None = None,
) -> Plan:
    """Returns the plan of all splits.

    Args:
        splits: the splits, in their order.
        histograms: histogram of each split that has examples, or rejected ones.
        options: options that decide the number of shards and their examples.
        limits: limits of the merge levels of spilled blocks; None plans none.

    Raises:
        TooManyRejectedError: more examples were rejected than the options allow.
        NoExamplesError: a split has no examples.
        BeamDatasetsError: a split has fewer examples than the requested number of shards.
    """
    rejections = merge_rejections(histogram.rejections for histogram in histograms.values())
    rejections.check(options.max_rejected)
    histograms = {split: histogram for split, histogram in histograms.items() if histogram.total}
    plans: list[SplitPlan] = []
    first_group = 0
    if options.skip_empty_splits:
        splits = [split for split in splits if split in histograms] or splits
    for split in splits:
        if split not in histograms:
            raise NoExamplesError(
                f"split {split!r} has no examples; a published split needs at least one",
                split=split,
                advice="Check where its examples come from, or leave the split out."
                + (f"\n{rejections}" if rejections.total else ""),
            )
        histogram = histograms[split]
        plan = plan_split(split, histogram, options, first_group)
        if limits is not None:
            num_bytes = int(histogram.num_bytes.sum()) * int(plan.received.sum()) // histogram.total
            plan = replace(plan, levels=plan_levels(plan.received, num_bytes, histogram.num_blocks, limits))
        plans.append(plan)
        first_group += len(plan)
    if (num_shards := sum(plan.num_shards for plan in plans)) > MAX_SHARDS:
        raise BeamDatasetsError(
            expected=f"at most {MAX_SHARDS:,} shards in all splits",
            got=f"{num_shards:,}",
            advice=f"Set num_shards, or a larger max_shard_size than {options.max_shard_size:,} bytes.",
        )
    libraries = {name for split in splits for name in histograms[split].libraries}
    requests = storage.sum_requests(histograms[split].requests for split in splits)
    return Plan(tuple(plans), tuple(sorted(libraries)), requests, rejections)


def plan_split(split: str, histogram: Histogram, options: ShardingOptions, first_group: int = 0) -> SplitPlan:
    """Returns the plan of one split: shards that end at exact ranks, the large ones in parts.

    Args:
        split: name of the split.
        histogram: the examples of the split, at least one, by bins of their sort keys.
        options: options that decide the number of shards and of examples.
        first_group: number of the split's first group among those of all splits.
    """
    total = histogram.total
    num_examples = min(total, options.max_examples_per_split or total)
    size = int(histogram.num_bytes.sum()) * num_examples // total
    num_shards = choose_shards(split, num_examples, size, options)
    ends = shard_rules.shard_ends(num_examples, num_shards)
    ranks = np.concatenate([[0], np.cumsum(histogram.counts)])
    bytes_before = np.concatenate([[0], np.cumsum(histogram.num_bytes)])
    stops, shards = _cut_groups(np.asarray(ends, np.int64), ranks, bytes_before)
    starts = np.concatenate([[0], stops[:-1]])
    first_bins = np.searchsorted(ranks, starts, side="right") - 1
    last_bins = np.searchsorted(ranks, stops, side="left") - 1
    return SplitPlan(
        split, num_examples, num_shards, first_group,
        lows=histogram.bins[first_bins],
        highs=_last_keys(histogram.bins[last_bins], histogram.shift),
        received=ranks[last_bins + 1] - ranks[first_bins],
        skips=starts - ranks[first_bins],
        shards=shards,
        takes=stops - starts,
    )  # fmt: skip


def choose_shards(split: str, num_examples: int, num_bytes: int, options: ShardingOptions) -> int:
    """Returns the number of shards of a split.

    Args:
        split: the split's name.
        num_examples: number of examples of the split.
        num_bytes: framed size of all its records, in bytes.
        options: the requested sharding.

    Raises:
        BeamDatasetsError: more shards are requested than there are examples.
    """
    num_shards = options.shards_of(split) or shard_rules.choose_num_shards(
        num_examples,
        num_bytes - tfrecord.OVERHEAD * num_examples,
        min_shard_size=options.min_shard_size,
        max_shard_size=options.max_shard_size,
    )
    if num_shards > num_examples:
        raise BeamDatasetsError(
            f"split {split!r} has {num_examples} examples, too few for {num_shards} shards",
            split=split,
            got=f"{num_examples}",
            advice=f"Ask for at most num_shards={num_examples}.",
        )
    return num_shards


def _cut_groups(
    ends: NDArray[np.int64], ranks: NDArray[np.int64], bytes_before: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns two arrays: the ranks where groups end, ascending, and the number of the shard of each group.

    Groups end at the ends of shards; shards of more than MAX_PART_SIZE bytes are also cut between bins.

    Args:
        ends: the rank after the last example of each shard.
        ranks: the rank of the first example of each bin, followed by the number of all examples.
        bytes_before: the size in bytes of the examples before each bin, followed by the size of all.
    """
    size_at_ends = np.interp(ends, ranks, bytes_before)
    sizes = np.diff(size_at_ends, prepend=0)
    parts = np.maximum(1, -(-sizes // MAX_PART_SIZE)).astype(np.int64)  # of each shard
    shard = np.repeat(np.arange(len(ends)), parts - 1)  # of each cut inside one
    number = np.arange(len(shard)) - np.repeat(np.cumsum(parts - 1) - (parts - 1), parts - 1) + 1
    at = size_at_ends[shard] - sizes[shard] * (1 - number / parts[shard])
    cut_ranks = ranks[np.searchsorted(bytes_before, at.astype(np.int64))]
    starts = np.concatenate([[0], ends])[shard]
    stops = np.unique(np.concatenate([ends, cut_ranks[(cut_ranks > starts) & (cut_ranks < ends[shard])]]))
    return stops, np.searchsorted(ends, stops).astype(np.int64)


def _last_keys(bins: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
    """Returns the last sort key of each bin, (n, 2) uint64: the first one with its low `shift` bits set."""
    ones = (1 << shift) - 1
    return bins | np.array([ones >> 64, ones & (2**64 - 1)], np.uint64)
