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
def server(arguments: list[str], port: int, log: Path) -> Iterator[None]:
    """Runs a Python module that listens on the port; what it prints goes to the log."""
    # A worker pool starts the bare command `python`, so PATH leads to the environment that runs the tests.
    env = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=out, stderr=out, env=env, start_new_session=True
        )
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


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not listen on port {port} within {START_SECONDS} s:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def portable_engine(directory: Path) -> Iterator[list[str]]:
    """Runs Beam's portable job service and a pool of workers; yields the pipeline options that lead there."""
    workers, jobs = free_port(), free_port()
    pool = ["apache_beam.runners.worker.worker_pool_main", "--service_port", str(workers)]
    service = ["apache_beam.runners.portability.local_job_service_main", "--port", str(jobs)]
    with server(pool, workers, directory / "workers.log"), server(service, jobs, directory / "jobs.log"):
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{jobs}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{workers}",
        ]
