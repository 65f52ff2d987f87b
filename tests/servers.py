"""Servers that tests start on loopback; each ends with its context."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.processes import started

START_SECONDS = 60


def free_port() -> int:
    """Returns a port of 127.0.0.1 that no process listens on.

    It is drawn from below the ports that Linux gives to outgoing connections, which could take it before the server
    has bound it; and at random, so that tests that run at once rarely draw the same.
    """
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def served(
    command: list[str], port: int, log: Path, *, host: str = "127.0.0.1", **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command that listens on the port; its output goes to the log."""
    with log.open("wb") as out, started(command, stdout=out, stderr=out, **options) as process:
        deadline = time.monotonic() + START_SECONDS
        while not listens(port, host):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield process


def server(
    arguments: list[str], port: int, log: Path, *, python: str = sys.executable, path: str | None = None
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Runs a Python module that listens on the port; its output goes to the log.

    A `python` other than that of the tests runs in the log's directory, so that it does not import the checkout. PATH
    begins with `path`, by default with the directory of `python`: a worker pool starts the bare command `python`.
    """
    env = {**os.environ, "PATH": f"{path or os.path.dirname(python)}{os.pathsep}{os.environ['PATH']}"}
    cwd = None if python == sys.executable else log.parent
    return served([python, "-m", *arguments], port, log, cwd=cwd, env=env)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Returns whether a process listens on a port."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def job_service(folder: Path) -> Iterator[int]:
    """Runs Beam's portable job service and yields its port."""
    port = free_port()
    arguments = ["apache_beam.runners.portability.local_job_service_main", "--port", str(port)]
    with server(arguments, port, folder / f"jobs-{port}.log"):
        yield port


@contextlib.contextmanager
def worker_pool(folder: Path, **options: Any) -> Iterator[str]:
    """Runs Beam's pool of workers, with the options of `server`, and yields its address."""
    port = free_port()
    arguments = ["apache_beam.runners.worker.worker_pool_main", "--service_port", str(port)]
    with server(arguments, port, folder / "pool.log", **options):
        yield f"localhost:{port}"


@contextlib.contextmanager
def portable_engine(folder: Path, **options: Any) -> Iterator[list[str]]:
    """Runs a job service and a pool, with the options of `server`; yields the pipeline options that lead there."""
    with worker_pool(folder, **options) as address, job_service(folder) as port:
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{port}",
            "--environment_type=EXTERNAL",
            f"--environment_config={address}",
        ]
