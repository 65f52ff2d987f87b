"""Prism, Beam's runner in Go, where `test_runners` does not show it: killed, interrupted, and the author's error.

Run by `make test-prism`, which builds Prism and needs Go; elsewhere these tests are skipped.
"""

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.engines.jobs import NUMBERS, await_staged, end, fails, nothing_is_left, numbers, run, start, version
from tests.pages import leave_out_progress

pytestmark = pytest.mark.slow


def prism_of(command: subprocess.Popen[str]) -> psutil.Process:
    """Returns the Prism that a command has started."""
    [process] = [child for child in psutil.Process(command.pid).children() if child.name() == "prism"]
    return process


def test_prism_killed_while_it_writes(prism: list[str], local: Path, tmp_path: Path) -> None:
    command = start(*numbers(tmp_path, *prism))
    try:
        await_staged(command, tmp_path)
        prism_of(command).kill()
    finally:
        code, output = end(command)
    assert code == 1
    # Before and behind it are tracebacks of Beam's own threads.
    [said] = [line for line in output.splitlines() if line.startswith("beam-datasets: ")]
    assert "the runner" in said
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    run(*numbers(tmp_path, *prism))
    assert version(tmp_path) == version(local)


def test_interrupted(prism: list[str], tmp_path: Path) -> None:
    command = start(*numbers(tmp_path, *prism))
    try:
        await_staged(command, tmp_path)
        process = prism_of(command)
        command.send_signal(signal.SIGINT)
    finally:
        code, output = end(command)
    assert code == 130, output
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    assert not process.is_running()


def test_output(prism: list[str], tmp_path: Path) -> None:
    """A job that succeeds prints no warnings; one that fails ends with the author's error and its place."""
    command = start(*numbers(tmp_path, *prism))
    assert leave_out_progress(command.communicate()[1]) == ""
    file = tmp_path / "broken.py"
    file.write_text(Path(NUMBERS).read_text().replace('yield f"{split}-{i}"', 'yield f"{split}-{1 // (i - 7)}"'))
    command = start("build", str(file), "--data_dir", str(tmp_path / "data"), *prism)
    _, errors = command.communicate()
    assert command.returncode == 1
    lines = errors.splitlines()  # around these two is what Beam's workers print in this process
    message = lines.index("beam-datasets: ZeroDivisionError: integer division or modulo by zero")
    assert f"{file}:" in lines[message + 1]
    assert nothing_is_left(tmp_path / "data")


def test_no_such_prism(prism: list[str], tmp_path: Path) -> None:
    nowhere = tmp_path / "prism"
    assert str(nowhere) in fails(tmp_path / "data", *prism, f"--prism_location={nowhere}")
