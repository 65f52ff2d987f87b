"""Materializing in this process, with small chunks, blocks and parts, so that many datasets can be tried."""

from pathlib import Path
from typing import Any

import pytest

from beam_datasets.materializing import records
from beam_datasets.materializing.plan import plan_job
from beam_datasets.materializing.run import run_in_process
from beam_datasets.options import EngineOptions
from beam_datasets.reading.opening import builder_from_directory
from beam_datasets.shuffle import plan


def materialize(source: Any, data_dir: Path, *, range_bytes: int = 0, **asked: Any) -> Any:
    """Materializes, and returns what reads the dataset."""
    job = plan_job(source, data_dir=data_dir, **asked)
    if range_bytes:
        job.__dict__["ranges"] = records.RecordRanges(job.splits, range_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MAX_PART_SIZE", 200)
        patch.setattr(records, "LOCAL_CHUNK", 100)
        return builder_from_directory(run_in_process(job, EngineOptions(block_size=300)))
