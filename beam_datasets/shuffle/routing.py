"""Routing: cuts blocks into the ranges that each group of the plan, or each run of a merge level, receives."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from beam_datasets.shuffle.blocks import Block
from beam_datasets.shuffle.levels import MergeLevel
from beam_datasets.shuffle.plan import SplitPlan


def route(block: Block, plan: SplitPlan) -> Iterator[tuple[int, Block]]:
    """Yields (number of the group, block of the records that are sent to this group), in the order of the groups.

    A record in a bin that is in two groups is sent to both.
    """
    ascending = np.frombuffer(block.keys, "S16")
    groups = _candidate_groups(ascending, plan)
    starts = np.searchsorted(ascending, _keys_to_bytes(plan.lows[groups]), side="left")
    lasts = np.searchsorted(ascending, _keys_to_bytes(plan.highs[groups]), side="right")
    yield from _cut_block(block, plan.first_group + groups, starts, lasts)


def route_to_runs(block: Block, plan: SplitPlan, level: MergeLevel) -> Iterator[tuple[int, Block]]:
    """Yields (number of the merge task, block of the records that this task merges); each record is in one task.

    The number of a task is `run * columns + column` of the level. Blocks are distributed among the runs by their paths,
    which are random.

    Args:
        block: a spilled block.
        plan: the plan of the block's split.
        level: the level of the tasks.
    """
    lasts = np.searchsorted(
        np.frombuffer(block.keys, "S16"), _keys_to_bytes(plan.highs[level.last_groups]), side="right"
    )
    starts = np.concatenate([[0], lasts[:-1]])
    columns = len(level.last_groups)
    run = zlib.crc32(block.path.encode("utf-8", "surrogateescape")) % level.num_runs
    yield from _cut_block(block, run * columns + np.arange(columns), starts, lasts)


def _cut_block(
    block: Block, numbers: NDArray[np.int64], starts: NDArray[np.int64], lasts: NDArray[np.int64]
) -> Iterator[tuple[int, Block]]:
    """Yields (number, block of the records [first, last) of a block) for the ranges that are not empty.

    Args:
        block: the block.
        numbers: the number to yield with each range.
        starts: the first record of each range.
        lasts: the record after the last one of each range.
    """
    offsets = np.concatenate([[0], np.cumsum(np.frombuffer(block.sizes, "<u4"), dtype=np.int64)])
    is_nonempty = lasts > starts
    starts, lasts = starts[is_nonempty], lasts[is_nonempty]
    cuts = zip(
        numbers[is_nonempty].tolist(),
        starts.tolist(),
        lasts.tolist(),
        offsets[starts].tolist(),
        offsets[lasts].tolist(),
    )
    for number, first, last, start, stop in cuts:
        yield number, block.cut(first, last, start, stop)


def _candidate_groups(keys: NDArray[np.bytes_], plan: SplitPlan) -> NDArray[np.int64]:
    """Returns the indices of the groups to which keys of a block may belong, ascending.

    They may include groups that receive none of the keys. `route` compares a block only with these groups.

    Args:
        keys: sort keys of the block, ascending, of dtype S16.
        plan: the groups of the split.
    """
    if len(plan) <= len(keys):
        return np.arange(len(plan))
    high = keys.view(">u8")[::2].astype(np.uint64)
    starts = np.searchsorted(plan.highs[:, 0], high, side="left")
    lasts = np.searchsorted(plan.lows[:, 0], high, side="right")
    if (lasts - starts > 2).any():  # groups that differ in their low halves only
        return np.arange(len(plan))
    near = np.unique(np.concatenate([starts, np.maximum(lasts - 1, starts)]))
    return near[near < len(plan)]


def _keys_to_bytes(keys: NDArray[np.uint64]) -> NDArray[np.bytes_]:
    """Returns keys (n, 2) as 16 big-endian bytes each, which compare like the numbers."""
    return np.ascontiguousarray(keys.astype(">u8")).view("S16").ravel()
