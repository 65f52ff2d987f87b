"""Merge levels: spilled blocks are merged until a group reads long ranges, so that the number of reads is linear.

With b blocks and g groups, a single level reads b * g ranges; both grow with the bytes. A *level* distributes the
blocks among fewer *runs*, and merges the blocks of each run. A run is cut into *columns*, ranges of sort keys that end
where a group ends. A task merges the ranges of one run's blocks in one column into a new spilled block. So the blocks
of a level contain the same records, and a group finds its records in one range of each run.

With R = `range_bytes`, the tasks of a level read each block in ranges of at least R on average, or as a whole if it is
smaller: at most bytes / R + blocks ranges. Levels are added while the groups would read more than
`few_reads` + SLACK * (bytes / R + runs + groups) ranges. A range takes two reads, of the heads of its records and of
the records: with R of 2 MiB, a read has 1 MiB on average.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLACK = 1.25  # a level that makes ranges little longer costs more than it saves


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """When levels are added, and how large they are.

    Attributes:
        fan_in: blocks that a task merges, on average; hashing distributes them, so that few tasks get 20% more.
        range_bytes: that a task, or a group, reads of a block at once.
        few_reads: so many reads by all groups are always accepted.
        max_levels: stages that the pipeline has for them.
        task_ranges: a task writes at least so many times `range_bytes`, if a run has as much.
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

    @property
    def num_tasks(self) -> int:
        """Number of blocks that the level makes, if no column of a run is empty."""
        return self.num_runs * len(self.last_groups)


def plan_levels(
    received: NDArray[np.int64], num_bytes: int, num_blocks: int, limits: MergeLimits
) -> tuple[MergeLevel, ...]:
    """Returns the levels of a split; none if its groups read few ranges of the blocks as they are.

    Args:
        received: (groups,) examples that each group is sent.
        num_bytes: of all records that groups are sent.
        num_blocks: blocks that contain them.
        limits: when levels are added.
    """
    sizes = level_sizes(len(received), num_bytes, num_blocks, limits)
    return tuple(MergeLevel(runs, _columns(received, columns)) for runs, columns in sizes)


def level_sizes(groups: int, num_bytes: int, num_blocks: int, limits: MergeLimits) -> list[tuple[int, int]]:
    """Returns the runs and columns of each level; see `plan_levels`."""
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


def _columns(received: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """Returns the last group of each of so many columns of about as many examples, or of fewer."""
    ends = np.cumsum(received)
    last = np.searchsorted(ends, ends[-1] * (np.arange(1, columns + 1) / columns), side="left")
    return np.unique(np.append(last[last < len(received)], len(received) - 1))
