"""Counts of what this process reads and writes: requests to an object store, reads and files of a disk."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple


class Requests(NamedTuple):
    """Reads and writes of storage. On an object store, each part of an upload, listing or copy is a request.

    Attributes:
        reads: number of reads.
        bytes_read: by all of them.
        writes: number of writes.
        bytes_written: by all of them.
    """

    reads: int = 0
    bytes_read: int = 0
    writes: int = 0
    bytes_written: int = 0

    def plus(self, other: Requests) -> Requests:
        """Returns the sums."""
        return Requests(*map(sum, zip(self, other, strict=True)))


_counted = [0, 0, 0, 0]
_lock = threading.Lock()


def _begin_anew() -> None:
    """Forgets, in a process that was forked, what the other one has counted; a thread may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _counted[:] = 0, 0, 0, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def take_requests() -> Requests:
    """Returns what this process has read and written since the last call."""
    with _lock:
        taken = Requests(*_counted)
        _counted[:] = 0, 0, 0, 0
    return taken


def count_read(num_bytes: int, number: int = 1) -> None:
    """Counts reads."""
    with _lock:
        _counted[0] += number
        _counted[1] += num_bytes


def count_write(num_bytes: int, number: int = 1) -> None:
    """Counts writes."""
    with _lock:
        _counted[2] += number
        _counted[3] += num_bytes
