"""Exporting in this process, without Beam: one file after the other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from beam_datasets.exporting import finishing
from beam_datasets.exporting.shards import write_shard
from beam_datasets.generate.owners import IN_PROCESS
from beam_datasets.generate.progress import watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.exporting.plan import ExportPlan


def run(plan: ExportPlan, *, progress: Callable[[int], None] | None = None) -> str:
    """Exports and returns the directory.

    Args:
        plan: what to export, and where.
        progress: called about twice a second with how many bytes were written so far.

    Raises:
        BeamDatasetsError: why nothing was exported.
    """
    plan = plan.on(IN_PROCESS)
    with finishing.staging(plan), watching(plan, progress):
        finishing.finish(plan, [write_shard(plan, shard) for shard in plan.shards()])
    return plan.directory


def watching(plan: ExportPlan, progress: Callable[[int], None] | None) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which `progress` is called about twice a second with how many bytes were written so far."""
    if progress is None:
        return contextlib.nullcontext()
    return watch(plan.staging_dir, None, lambda _: progress(finishing.staged_bytes(plan)))
