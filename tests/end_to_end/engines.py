"""Servers of Beam's that tests start and stop on loopback."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_SECONDS = 60


def free_port() -> int:
    """Returns a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def server(
    arguments: list[str], port: int, log: Path, *, python: str = sys.executable, path: str | None = None
) -> Iterator[None]:
    """Runs a Python module that listens on the port; what it prints goes to the log.

    With another `python` than that of the tests it runs in the log's folder, from where no checkout is found. PATH
    begins with `path`.
    """
    # A worker pool starts the bare command `python`, so PATH leads to its environment.
    env = {**os.environ, "PATH": f"{path or os.path.dirname(python)}{os.pathsep}{os.environ['PATH']}"}
    cwd = None if python == sys.executable else log.parent
    with served([python, "-m", *arguments], port, log, cwd=cwd, env=env):
        yield


@contextlib.contextmanager
def served(
    command: list[str], port: int, log: Path, *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Iterator[None]:
    """Runs a command that listens on the port; what it prints goes to the log."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=cwd, start_new_session=True)
        try:
            _await(port, process, log)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()


def await_listening(port: int) -> None:
    """Waits until somebody listens on the port."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < deadline, f"nobody listens on port {port}"
        time.sleep(0.1)


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not listen on port {port} within {START_SECONDS} s:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def portable_engine(directory: Path, *, python: str = sys.executable) -> Iterator[list[str]]:
    """Runs Beam's portable job service and a pool of workers; yields the pipeline options that lead there.

    The workers are of `python`, see `server`.
    """
    workers, jobs = free_port(), free_port()
    pool = ["apache_beam.runners.worker.worker_pool_main", "--service_port", str(workers)]
    service = ["apache_beam.runners.portability.local_job_service_main", "--port", str(jobs)]
    pool_runs = server(pool, workers, directory / "workers.log", python=python)
    with pool_runs, server(service, jobs, directory / "jobs.log"):
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{jobs}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{workers}",
        ]
