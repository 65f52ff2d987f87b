"""Processes and threads that tests start, which do not outlive them."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Runs a command in a process group of its own, and kills what is left of the group in the end."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[Any]) -> None:
    """Kills the process group that a process leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def in_threads(count: int, call: Callable[[int], object]) -> None:
    """Calls a function with 0, 1, ... in as many threads at once, and waits for them."""
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
