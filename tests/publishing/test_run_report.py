"""What run.json has of a remote job."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from beam_datasets import storage
from beam_datasets.publishing.progress import PROGRESS_FILE
from beam_datasets.publishing.run_report import make_run_report
from tests.publishing.publications import announced

JOB = {
    "job": "ds-1-0-0-4442a6fe",
    "id": "2a7e",
    "page": "http://jobmanager:8081/#/job/running",
    "log": "http://jobmanager:8081/#/task-manager",
    "restarts": [{"time": 1000.0, "reason": "a worker process died"}],
    "units": 20,
}


def report(tmp_path: Path, launcher_file: bytes, runner: str) -> dict[str, object]:
    """Returns run.json, made when the launcher has written this file."""
    publication = announced(tmp_path)
    spill = str(tmp_path / "spill")
    publication = replace(publication, spill_dir=spill, owner=replace(publication.owner, runner=runner))
    storage.make_dirs(spill)
    storage.write_bytes(storage.join(spill, PROGRESS_FILE), launcher_file)
    written: dict[str, object] = json.loads(make_run_report(publication, [], storage.Requests()))
    return written


def test_the_job_of_the_engine(tmp_path: Path) -> None:
    saved = json.dumps({**JOB, "state": "RUNNING", "examples_encoded": 7}).encode()
    assert report(tmp_path, saved, "FlinkRunner")["engine"] == JOB


@pytest.mark.parametrize("damaged", [b"", b"{", b"{}", b"[1]", b"\xff"])
def test_a_damaged_file_is_left_out(tmp_path: Path, damaged: bytes) -> None:
    assert "engine" not in report(tmp_path, damaged, "FlinkRunner")
