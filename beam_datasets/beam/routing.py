"""Transforms that merge blocks in levels and send their records to the groups of a plan; see `shuffle.routing`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_datasets import storage
from beam_datasets.beam.encode import in_window
from beam_datasets.beam.metrics import count_requests
from beam_datasets.engines.engine import Transport
from beam_datasets.shuffle import plan as planning
from beam_datasets.shuffle import routing
from beam_datasets.shuffle.blocks import AnyBlock, Block, BlockCollector
from beam_datasets.shuffle.merge import merge_blocks

_RUNS = "runs"
_DONE = "done"  # output of the I/O counts of the merge tasks


def route_blocks(
    blocks: beam.PCollection, plan: beam.pvalue.AsSingleton, transport: Transport
) -> tuple[beam.PCollection, Any]:
    """Merges the blocks in the levels of the plan, and cuts them for the groups.

    Returns:
        (PCollection of (number of a group, blocks of its records), I/O counts of the merge tasks as a side input; ()
        without levels).
    """
    group_type, run_type = tuple[int, Any], tuple[tuple[str, int], Any]
    max_levels = transport.merge_limits.max_levels
    if not max_levels:
        return blocks | "Route" >> beam.ParDo(_Route(transport.spill_dir), plan).with_output_types(group_type), ()

    def typed(function: beam.DoFn) -> Any:
        """Returns a ParDo of the function with the plan as side input and the outputs 'groups', `_RUNS` and `_DONE`."""
        route = beam.ParDo(function, plan).with_output_types(group_type, **{_RUNS: run_type, _DONE: storage.Requests})
        return route.with_outputs(_RUNS, _DONE, main="groups")

    routed = blocks | "Route" >> typed(_Route(transport.spill_dir))
    group_outputs, merges = [routed.groups], []
    for level in range(max_levels):
        tasks = routed[_RUNS] | f"GroupByRun{level}" >> beam.GroupByKey()
        routed = tasks | f"Merge{level}" >> typed(_Merge(transport.spill_dir, level + 1))
        group_outputs.append(routed.groups)
        merges.append(routed[_DONE])
    return group_outputs | "Groups" >> beam.Flatten(), beam.pvalue.AsList(merges | "Merges" >> beam.Flatten())


class _Route(beam.DoFn):
    """Blocks -> (group, block of its records); with levels also ((split, merge task), block of its records).

    Args:
        spill_dir: directory of spilled blocks; None for inline ones.
        level: number of the merge level that comes next.
    """

    def __init__(self, spill_dir: str | None, level: int = 0) -> None:
        self._spill_dir = spill_dir
        self._level = level

    def start_bundle(self) -> None:
        """Discards the blocks of a failed bundle."""
        self._collector = BlockCollector(self._spill_dir or "")

    def process(self, blocks: Any, plan: planning.Plan) -> Iterator[Any]:
        """Yields (group, block), and ((split, task), block) tagged `_RUNS`.

        Inline blocks are yielded at once, spilled ones when enough of them are collected; see `BlockCollector`.
        """
        for block in blocks.load():
            yield from map(_tag_runs, self._collector.send(_route(block, plan, self._level)))

    def finish_bundle(self) -> Iterator[Any]:
        """Yields (group, blocks) of the last spilled blocks."""
        yield from map(in_window, map(_tag_runs, self._collector.flush()))


def _route(block: Block, plan: planning.Plan, level: int) -> Iterator[tuple[Any, Block]]:
    """Yields (group, block of its records); ((split, merge task), block) if the split has this level of merging."""
    split = plan.split(block.split)
    if not block.path or level == len(split.levels):
        yield from routing.route(block, split)
        return
    for task, task_block in routing.route_to_runs(block, split, split.levels[level]):
        yield (block.split, task), task_block


def _tag_runs(sent: tuple[Any, AnyBlock]) -> Any:
    """Returns (group, block) unchanged, and ((split, merge task), block) as an output tagged `_RUNS`."""
    return sent if isinstance(sent[0], int) else beam.pvalue.TaggedOutput(_RUNS, sent)


class _Merge(_Route):
    """((split, merge task), blocks) -> the outputs of `_Route` for the merged block."""

    def process(self, element: Any, plan: planning.Plan) -> Iterator[Any]:
        """Merges the blocks of a task; yields (group, blocks) of the collected merged blocks when they are enough.

        Args:
            element: ((split, task), blocks).
            plan: the plan of the shards.
        """
        return super().process(merge_blocks(element[1], self._spill_dir or ""), plan)

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the last outputs of `_Route`, and the `storage.Requests` since the last count, tagged `_DONE`."""
        yield from super().finish_bundle()
        yield in_window(beam.pvalue.TaggedOutput(_DONE, count_requests()))
