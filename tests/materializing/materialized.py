"""Materializing in this process, with small blocks and parts, so that many datasets can be tried."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from beam_datasets.materializing.plan import plan_job, run_in_process
from beam_datasets.materializing.records import RecordRanges
from beam_datasets.reading.opening import builder_from_directory


def materialize(source: Any, data_dir: Path, *, range_bytes: int = 0, **asked: Any) -> Any:
    """Materializes, and returns what reads the dataset."""
    job = plan_job(source, data_dir=data_dir, **asked)
    job = replace(job, sharding=replace(job.sharding, max_part_size=200))
    if range_bytes:
        job.__dict__["ranges"] = RecordRanges(job.splits, range_bytes)
    return builder_from_directory(run_in_process(job, block_size=300))
