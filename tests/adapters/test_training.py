"""The examples of training, stopped and killed in the middle: their losses are those of a whole run, bit by bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import started

ROOT = Path(__file__).resolve().parents[2]
STEPS = 160  # most of them after the kill, which comes later on a busy machine


@pytest.mark.parametrize("name, dataset", [("train_digits", "digits"), ("train_text", "stdlib_source")])
def test_a_preempted_run_has_the_losses_of_one_that_is_not(
    torchdata: Any, tmp_path: Path, name: str, dataset: str
) -> None:
    import torch

    module = "beam_datasets.cli"
    command = [sys.executable, "-m", module, "build", dataset, "--data_dir", str(tmp_path), "--num_workers", "1"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(checkpoint: str, stop_at: int = 0, by: int = signal.SIGTERM) -> Any:
        given = {"data_dir": tmp_path, "checkpoint": tmp_path / checkpoint, "steps": STEPS, "save_every": 2}
        command = [sys.executable, "-m", f"pipelines.{name}", *(f"--{key}={value}" for key, value in given.items())]
        with started(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith(f"step {stop_at}:"):
                    os.kill(process.pid, by)
            assert process.wait(timeout=60) == (-by if stop_at and by == signal.SIGKILL else 0)
        return torch.load(tmp_path / checkpoint)

    whole = run("whole.pt")
    assert len(set(whole["losses"])) == STEPS
    assert 3 <= len(run("resumed.pt", stop_at=3)["losses"]) < STEPS
    assert len(run("resumed.pt", stop_at=6, by=signal.SIGKILL)["losses"]) < STEPS
    resumed = run("resumed.pt")
    assert resumed["losses"] == whole["losses"]
    for parameter, expected in whole["model"].items():
        assert torch.equal(resumed["model"][parameter], expected)
