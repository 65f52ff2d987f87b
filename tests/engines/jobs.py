"""Commands that tests run on engines, each in a process of its own, as a user would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.end_to_end.engines import await_listening, free_port, server
from tests.end_to_end.test_determinism import digests

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = str(ROOT / "tests" / "end_to_end" / "numbers_dataset.py")
OPTIONS = ("--count", "200000", "--num_shards", "64")
JOB_SECONDS = 300
WITHOUT_BEAM = f'exec {sys.executable} -S "$@"'  # a Python that finds no packages


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts a `beam-datasets` command."""
    command = [sys.executable, "-m", "beam_datasets.cli", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, start_new_session=True)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Waits for a command and returns its exit code and what it says."""
    try:
        told, complained = process.communicate(timeout=JOB_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, told + complained


def run(*arguments: str) -> None:
    """Runs a command that ends well."""
    code, told = end(start(*arguments))
    assert code == 0, told


def numbers(data_dir: Path, *engine: str) -> list[str]:
    """Returns the command that generates the dataset of numbers."""
    return ["build", NUMBERS, *OPTIONS, "--data_dir", str(data_dir), *engine]


def slices(source: Path, data_dir: Path, *options: str) -> list[str]:
    """Returns the command that materializes slices of the dataset of numbers as the dataset `some`."""
    splits = ["--split", "train=train[10%:60%]+test[:100]", "--split", "rest=test[100:]", "--num_shards", "5"]
    where = ["--source_data_dir", str(source), "--data_dir", str(data_dir)]
    return ["materialize", "numbers", "--to", "some", *where, *splits, *options]


def version(data_dir: Path, name: str = "numbers") -> dict[str, str]:
    """Returns {file name: sha256} of a dataset's version."""
    return digests(data_dir / name / "1.0.0")


def nothing_is_left(data_dir: Path) -> bool:
    """Returns whether there is no file, neither of a version nor of what was to be one."""
    return not any(path.is_file() for path in data_dir.rglob("*"))


def await_a_shard(process: subprocess.Popen[str], data_dir: Path) -> None:
    """Waits until the first shard stands in the staging directory."""
    while not any(data_dir.glob("numbers/incomplete.*/*.tfrecord-*")):
        assert process.poll() is None, end(process)
        time.sleep(0.02)


def await_spilled(process: subprocess.Popen[str], data_dir: Path) -> None:
    """Waits until a worker has written something."""
    while not any(data_dir.glob("numbers/incomplete.*/spill/*")):
        assert process.poll() is None, end(process)
        time.sleep(0.02)


def fails(data_dir: Path, *engine: str) -> str:
    """Returns why the dataset of numbers cannot be generated; the run does not hang."""
    code, told = end(start(*numbers(data_dir, *engine)))
    assert code == 1, told
    assert "Traceback" not in told, told
    assert nothing_is_left(data_dir)
    return told


class Pool:
    """Our own pool, which can be killed with its workers."""

    def __init__(self) -> None:
        port = free_port()
        self.options = ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]
        command = [sys.executable, "-m", "beam_datasets.beam.worker_pool", "--port", str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
        await_listening(port)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def pool_of(python: str, folder: Path) -> Iterator[str]:
    """Runs Beam's own pool, whose command `python` is this script; yields its address."""
    (folder / "bin").mkdir()
    script = folder / "bin" / "python"
    script.write_text(f"#!/bin/sh\n{python}\n")
    script.chmod(0o755)
    port = free_port()
    arguments = ["apache_beam.runners.worker.worker_pool_main", "--service_port", str(port)]
    with server(arguments, port, folder / "pool.log", path=str(script.parent)):
        yield f"localhost:{port}"
