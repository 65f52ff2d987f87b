"""Levels of merging: how often blocks are merged before groups read them, so that reads are long and few."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SLACK = 1.25  # a level that makes ranges little longer costs more than it saves


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """Limits that decide when merge levels are added, and how large they are.

    Attributes:
        fan_in: blocks that a task merges, on average; hashing distributes them, so that few tasks get 20% more.
        range_bytes: bytes of a block that a task, or a group, reads at once.
        few_reads: this many reads by all groups are always accepted.
        max_levels: stages that the pipeline has for them.
        task_ranges: a task writes at least this many times `range_bytes`, if a run has as much.
    """

    fan_in: int = 200
    range_bytes: int = 2 << 20
    few_reads: int = 10_000
    max_levels: int = 2
    task_ranges: int = 128


@dataclass(frozen=True, slots=True)
class MergeLevel:
    """One level of a split.

    Attributes:
        num_runs: runs, among which the blocks are distributed.
        last_groups: (columns,) the last group of each column, ascending.
    """

    num_runs: int
    last_groups: NDArray[np.int64] = field(repr=False)


def plan_levels(
    received: NDArray[np.int64], num_bytes: int, num_blocks: int, limits: MergeLimits
) -> tuple[MergeLevel, ...]:
    """Returns the merge levels of a split; () if its groups read only few ranges of the unmerged blocks.

    Args:
        received: array of shape (groups,): the number of examples that each group is sent.
        num_bytes: size in bytes of all records that groups are sent.
        num_blocks: number of blocks that contain them.
        limits: limits that decide when levels are added.
    """
    sizes = level_sizes(len(received), num_bytes, num_blocks, limits)
    return tuple(MergeLevel(runs, _divide_groups(received, columns)) for runs, columns in sizes)


def level_sizes(groups: int, num_bytes: int, num_blocks: int, limits: MergeLimits) -> list[tuple[int, int]]:
    """Returns [(number of runs, number of columns)] of the merge levels; [] if the blocks are merged directly.

    Args:
        groups: number of groups.
        num_bytes: size in bytes of all records that groups are sent.
        num_blocks: number of blocks that contain them.
        limits: limits that decide when levels are added.
    """
    runs, sizes = num_blocks, list[tuple[int, int]]()
    ranges = num_bytes / limits.range_bytes
    while len(sizes) < limits.max_levels and runs * groups > limits.few_reads + SLACK * (ranges + runs + groups):
        fan_in = max(2, min(limits.fan_in, runs))
        fewer = max(1, -(-runs // fan_in), int(ranges / groups))  # so many have ranges of R for each group
        blocks_each = -(-runs // fewer)
        columns = int(ranges / fewer / max(blocks_each, limits.task_ranges))
        sizes.append((fewer, max(1, min(columns, groups))))
        runs = fewer
    return sizes


def _divide_groups(received: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """Divides groups into columns of about as many examples each, and returns the index of the last group of each.

    Args:
        received: number of examples that each group receives, shape (groups,).
        columns: maximum number of columns; there are fewer if a group has more examples than a column should have.
    """
    ends = np.cumsum(received)
    last = np.searchsorted(ends, ends[-1] * (np.arange(1, columns + 1) / columns), side="left")
    return np.unique(np.append(last[last < len(received)], len(received) - 1))
