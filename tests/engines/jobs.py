"""Commands that tests run on engines, each in a process of its own, as a user would."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.directories import digests
from tests.processes import kill
from tests.servers import free_port, served, server, worker_pool

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = str(ROOT / "tests" / "end_to_end" / "numbers_dataset.py")
BLOBS = str(ROOT / "tests" / "engines" / "blobs_dataset.py")
OPTIONS = ("--count", "200000", "--num_shards", "64")
JOB_SECONDS = 300


# The command, with all sleeps shortened: a launcher repeats questions for half a minute, Beam's client of Dataflow for
# eight minutes.
IMPATIENT = """
import runpy, sys, time
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.05))
runpy.run_module("beam_datasets.cli", run_name="__main__", alter_sys=True)
"""


def start(*arguments: str, impatient: bool = False) -> subprocess.Popen[str]:
    """Starts a `beam-datasets` command; an impatient one waits less between two attempts."""
    program = ["-c", IMPATIENT] if impatient else ["-m", "beam_datasets.cli"]
    command = [sys.executable, *program, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, start_new_session=True)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Waits for a command and returns its exit code and its output."""
    try:
        out, err = process.communicate(timeout=JOB_SECONDS)
    finally:
        kill(process)
    return process.returncode, out + err


def run(*arguments: str) -> str:
    """Runs a command that must succeed, and returns its output."""
    code, output = end(start(*arguments))
    assert code == 0, output
    return output


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
    """Returns whether there is no file below a directory."""
    return not any(path.is_file() for path in data_dir.rglob("*"))


def await_staged(process: subprocess.Popen[str], data_dir: Path, pattern: str = "*.tfrecord-*") -> None:
    """Waits until a file of the pattern, by default the first shard, is in the staging directory."""
    while not any(data_dir.glob(f"numbers/incomplete.*/{pattern}")):
        assert process.poll() is None, end(process)
        time.sleep(0.02)


def fails(data_dir: Path, *engine: str) -> str:
    """Returns the output of a command that cannot generate the dataset of numbers, and leaves nothing behind."""
    code, output = end(start(*numbers(data_dir, *engine)))
    assert code == 1, output
    assert "Traceback" not in output, output
    assert nothing_is_left(data_dir)
    return output


class Pool(NamedTuple):
    """A running worker pool of this project, and the pipeline options that lead to it."""

    process: subprocess.Popen[bytes]
    options: list[str]

    def kill(self) -> None:
        """Kills the pool and its workers."""
        kill(self.process)


@contextlib.contextmanager
def own_pool(folder: Path) -> Iterator[Pool]:
    """Runs the worker pool of this project."""
    port = free_port()
    with server(["beam_datasets.beam.worker_pool", "--port", str(port)], port, folder / f"pool-{port}.log") as process:
        yield Pool(process, ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"])


@contextlib.contextmanager
def pool_with_another_disk(folder: Path, hidden: Path) -> Iterator[Pool]:
    """Runs the worker pool of this project, which sees an empty disk of its own in the place of a directory."""
    port, log = free_port(), folder / "pool-with-another-disk.log"
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-ec", f'mount -t tmpfs none "{hidden}"; exec "$0" "$@"']
    command = [*mount, sys.executable, "-m", "beam_datasets.beam.worker_pool", "--port", str(port)]
    with served(command, port, log) as process:
        yield Pool(process, ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"])


@contextlib.contextmanager
def pool_of(python: str, folder: Path) -> Iterator[str]:
    """Runs Beam's own pool, whose command `python` is this script; yields its address."""
    script = folder / "bin" / "python"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n{python}\n")
    script.chmod(0o755)
    with worker_pool(folder, path=str(script.parent)) as address:
        yield address
