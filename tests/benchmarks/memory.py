"""Peak memory of a process and all its descendants, by sampling."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import psutil

KIND = "proportional set size (PSS)" if psutil.LINUX else "resident set size (RSS)"
INTERVAL = 0.1


class PeakMemory:
    """Watches a process while the context lasts.

    On Linux the sum of the PSS, which counts a page that processes share once; elsewhere of the RSS, which counts it in
    each of them. Pages of files that are mapped into memory are part of both.

    Attributes:
        bytes: the largest sum so far.
    """

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._process = psutil.Process(pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(INTERVAL):
            with contextlib.suppress(psutil.NoSuchProcess):
                processes = [self._process, *self._process.children(recursive=True)]
                self.bytes = max(self.bytes, sum(map(_memory, processes)))


def _memory(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):  # it has just ended
        if psutil.LINUX:
            return int(process.memory_full_info().pss)
        return int(process.memory_info().rss)
    return 0
