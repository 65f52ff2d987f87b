"""Datasets on Prism, Beam's runner in Go: the same bytes as here, whatever is killed, and one error that says why.

Run by `make test-prism`, which builds Prism and needs Go; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.end_to_end.engines import free_port
from tests.engines.jobs import (
    NUMBERS,
    ROOT,
    WITHOUT_BEAM,
    Pool,
    await_a_shard,
    end,
    fails,
    nothing_is_left,
    numbers,
    pool_of,
    run,
    slices,
    start,
    version,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

if "BEAM_DATASETS_PRISM" not in os.environ:
    pytest.skip("make test-prism builds Prism", allow_module_level=True)

BLOBS = str(ROOT / "tests" / "engines" / "blobs_dataset.py")
PRISM = ["--runner=PrismRunner", f"--prism_location={os.environ['BEAM_DATASETS_PRISM']}"]


def prism_of(command: subprocess.Popen[str]) -> psutil.Process:
    """Returns the Prism that a command has started."""
    [prism] = [child for child in psutil.Process(command.pid).children() if child.name() == "prism"]
    return prism


@pytest.mark.parametrize("payload", ["spilled", "inline"])
def test_generates_the_same_bytes(local: Path, tmp_path: Path, payload: str) -> None:
    command = start(*numbers(tmp_path, "--payload", payload, *PRISM))
    told, complained = command.communicate()
    assert (command.returncode, complained) == (0, "")
    assert "Published in" in told
    assert version(tmp_path) == version(local)


def test_workers_of_a_pool(pool: Pool, local: Path, tmp_path: Path) -> None:
    run(*numbers(tmp_path, *PRISM, *pool.options))
    assert version(tmp_path) == version(local)


@pytest.mark.parametrize("how", [(), ("--reshuffle", "salt")], ids=["kept", "reshuffled"])
def test_materializes_the_same_bytes(local: Path, tmp_path: Path, how: Sequence[str]) -> None:
    run(*slices(local, tmp_path / "prism", *how, *PRISM))
    run(*slices(local, tmp_path / "local", *how))
    assert version(tmp_path / "prism", "some") == version(tmp_path / "local", "some")


@pytest.mark.parametrize("payload", ["spilled", "inline"])
def test_records_of_20_megabytes(tmp_path: Path, payload: str) -> None:
    run("build", BLOBS, "--data_dir", str(tmp_path / "prism"), "--payload", payload, *PRISM)
    run("build", BLOBS, "--data_dir", str(tmp_path / "local"))
    assert version(tmp_path / "prism", "blobs") == version(tmp_path / "local", "blobs")


def test_prism_killed_while_it_writes(local: Path, tmp_path: Path) -> None:
    command = start(*numbers(tmp_path, *PRISM))
    try:
        await_a_shard(command, tmp_path)
        prism_of(command).kill()
    finally:
        code, told = end(command)
    assert code == 1
    last = told.splitlines()[-1]  # before it are tracebacks of Beam's own threads
    assert last.startswith("beam-datasets: ")
    assert "the runner" in last
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    run(*numbers(tmp_path, *PRISM))
    assert version(tmp_path) == version(local)


def test_workers_killed_while_they_write(local: Path, tmp_path: Path) -> None:
    pool = Pool()
    command = start(*numbers(tmp_path, *PRISM, *pool.options))
    try:
        await_a_shard(command, tmp_path)
    finally:
        pool.kill()
        code, told = end(command)
    assert code == 1
    assert "a worker process died" in told
    assert nothing_is_left(tmp_path)
    run(*numbers(tmp_path, *PRISM))
    assert version(tmp_path) == version(local)


def test_interrupted(tmp_path: Path) -> None:
    command = start(*numbers(tmp_path, *PRISM))
    try:
        await_a_shard(command, tmp_path)
        prism = prism_of(command)
        command.send_signal(signal.SIGINT)
    finally:
        code, told = end(command)
    assert code == 130, told
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    assert not prism.is_running()


def test_the_authors_error(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(Path(NUMBERS).read_text().replace('yield f"{split}-{i}"', 'yield f"{split}-{1 // (i - 7)}"'))
    command = start("build", str(file), "--data_dir", str(tmp_path / "data"), *PRISM)
    _, complained = command.communicate()
    assert command.returncode == 1
    message, place = complained.splitlines()[-2:]  # before them is what Beam's workers print in this process
    assert message == "beam-datasets: ZeroDivisionError: integer division or modulo by zero"
    assert f"{file}:" in place
    assert nothing_is_left(tmp_path / "data")


def test_no_pool(tmp_path: Path) -> None:
    address = f"localhost:{free_port()}"
    told = fails(tmp_path, *PRISM, "--environment_type=EXTERNAL", f"--environment_config={address}")
    assert f"found no worker pool at {address}" in told


def test_a_pool_whose_python_has_no_beam(tmp_path: Path) -> None:
    with pool_of(WITHOUT_BEAM, tmp_path) as address:
        pool = ["--environment_type=EXTERNAL", f"--environment_config={address}", "--worker_start_seconds=10"]
        told = fails(tmp_path / "data", *PRISM, *pool)
    assert f"the worker pool at {address} did not bring up a worker within 10 s" in told


def test_no_such_prism(tmp_path: Path) -> None:
    nowhere = tmp_path / "prism"
    assert str(nowhere) in fails(tmp_path / "data", *PRISM, f"--prism_location={nowhere}")
