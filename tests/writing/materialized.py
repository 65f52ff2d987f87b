"""Materializing in this process, with small blocks and parts, so that many datasets can be tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.reading.opening import builder_from_directory
from beam_datasets.writing import materialize_in_process as in_process
from beam_datasets.writing import materialize_stages as stages
from beam_datasets.writing.materialize import plan_job

if TYPE_CHECKING:
    from pathlib import Path


def materialize(source: Any, data_dir: Path, *, stretch_bytes: int = 0, **asked: Any) -> Any:
    """Materializes, and returns what reads the dataset."""
    job = plan_job(source, data_dir=data_dir, max_part_size=200, **asked)
    if stretch_bytes:
        job.__dict__["stretches"] = stages.Stretches(job.splits, stretch_bytes)
    return builder_from_directory(in_process.run(job, block_size=300))
