"""Interface of a kind of storage: the functions and objects that `storage` is built on.

`local`, `objects` and `generic` are modules that have these functions. Their paths are normal (`paths.normalize`).
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from beam_datasets.errors import StorageError
from beam_datasets.extras import Buffer

Range = tuple[int, int]
"""Bytes [start, stop) of a file."""

CHUNK_BYTES = 4 << 20


class Reader(ABC):
    """An open file. Threads may share it; close it after the last one has finished reading.

    Attributes:
        path: the file.
        size: its size in bytes, when it was opened.
        tag: text that changes with the content of a remote file; None if the store reports none.
        descriptor: the file descriptor of a local file while it is open; else None.
        pieces: location of a cached file's pieces: the path of their files up to "-<number>", and how many bytes of the
            file each but the last one has; else None.
        max_ahead: maximum number of bytes of all files that a process may have in the cache and has not read yet.
    """

    descriptor: int | None = None
    pieces: tuple[bytes, int] | None = None
    max_ahead: int = 0

    def __init__(self, path: str, size: int, tag: str | None = None) -> None:
        self.path = path
        self.size = size
        self.tag = tag

    def read(self, start: int = 0, stop: int | None = None) -> Buffer:
        """Returns bytes [start, stop) of the file, never fewer; to its end if `stop` is None.

        Raises:
            StorageError: they cannot be read, or the file ends before `stop`.
        """
        stop = self.size if stop is None else stop
        check_range(self.path, start, stop, self.size)
        return self._read(start, stop) if stop > start else b""

    def read_many(self, ranges: Sequence[Range]) -> Iterable[Buffer]:
        """Returns bytes [start, stop) of the file for each range; an object store receives many requests at once."""
        return itertools.starmap(self.read, ranges)

    def chunks(self) -> Iterator[Buffer]:
        """Yields the whole file, `CHUNK_BYTES` at a time."""
        for start in range(0, self.size, CHUNK_BYTES):
            yield self.read(start, min(start + CHUNK_BYTES, self.size))

    def is_near(self, start: int) -> bool:
        """Returns whether the byte `start` of the file can be read without a request, as far as is known."""
        return self.descriptor is not None

    def fetch(self, numbers: Sequence[int]) -> bool:
        """Fetches those of these `pieces` that have no file; returns whether all have one now."""
        return False

    def read_again(self, start: int, stop: int) -> Buffer | None:
        """Returns bytes [start, stop) as the store sends them now, and forgets those of a cache.

        Returns:
            None for a local file, whose bytes cannot have been changed by a network.
        """
        return None

    @abstractmethod
    def _read(self, start: int, stop: int) -> Buffer:
        """Returns bytes [start, stop) of the file, which are not empty and within it."""

    def close(self) -> None:  # noqa: B027  # stores hold nothing open
        """Closes the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Writer(ABC):
    """A file being written, invisible until `commit`. As a context manager it commits, or aborts on an error.

    Attributes:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def write(self, buffers: Iterable[Buffer]) -> None:
        """Appends the buffers, one after another."""

    @abstractmethod
    def commit(self) -> None:
        """Puts the file in its place, replacing an existing one."""

    @abstractmethod
    def abort(self) -> None:
        """Discards the written bytes; an existing file is unchanged. Raises no errors."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()


@dataclass(frozen=True, slots=True)
class Usage:
    """The size of a file or a directory.

    Attributes:
        num_bytes: size of the file, or of all files in the directory, in bytes.
        modified: last change of the file, or of the newest file in the directory, in seconds since the epoch.
    """

    num_bytes: int
    modified: float


class Backend(Protocol):
    """The functions of a kind of storage; for their errors, see the functions of `storage`."""

    def exists(self, path: str) -> bool:
        """Returns whether there is a file or a directory."""

    def is_dir(self, path: str) -> bool:
        """Returns whether there is a directory."""

    def size(self, path: str) -> int:
        """Returns the size of a file in bytes."""

    def list_dir(self, path: str) -> list[str]:
        """Returns the names in a directory, in any order."""

    def make_dirs(self, path: str) -> None:
        """Creates the directory and its parents; does nothing in a store, which has no directories."""

    def read_bytes(self, path: str) -> bytes:
        """Returns the content of a file."""

    def open_reader(self, path: str, size: int | None = None) -> Reader:
        """Opens a file to read ranges of bytes; `size` is its size in bytes, None if it is not known."""

    def open_writer(self, path: str) -> Writer:
        """Opens a new file, which replaces an existing one when it is committed."""

    def create_bytes(self, path: str, data: Buffer) -> None:
        """Writes a file if it does not exist, in one step; otherwise raises a FileExistsError."""

    def file_sizes(self, path: str) -> dict[str, int]:
        """Returns {path relative to the directory: size in bytes} of all files in it, at any depth."""

    def usage(self, path: str) -> Usage:
        """Returns the size and the time of the last change of a file, or of all files in a directory."""

    def remove(self, path: str) -> None:
        """Removes a file."""

    def remove_tree(self, path: str) -> None:
        """Removes a directory with all files in it, if it exists."""


def check_range(path: str, start: int, stop: int, size: int) -> None:
    """Raises an error unless bytes [start, stop) are within a file of `size` bytes.

    Raises:
        ValueError: it is not a range.
        StorageError: the file is too short.
    """
    if not 0 <= start <= stop:
        raise ValueError(f"{path}: bytes [{start}, {stop}) are not a range: 0 <= start <= stop is needed")
    if stop > size:
        raise StorageError(
            expected=f"at least {stop} bytes",
            got=f"{size}",
            path=path,
            advice="The file is cut off, or was replaced: rebuild or restore it.",
        )


# ------------------------------------------- counts of what this process reads and writes, and its processor time


class Requests(NamedTuple):
    """Reads and writes of storage. On an object store, each part of an upload, listing or copy is a request.

    Attributes:
        reads: number of reads.
        bytes_read: number of bytes of all reads.
        writes: number of writes.
        bytes_written: number of bytes of all writes.
        core_seconds: processor time of the process meanwhile.
    """

    reads: int = 0
    bytes_read: int = 0
    writes: int = 0
    bytes_written: int = 0
    core_seconds: float = 0.0


def sum_requests(requests: Iterable[Requests]) -> Requests:
    """Returns the sum of each count over several `Requests`."""
    return Requests(*map(sum, zip(Requests(), *requests, strict=True)))


_counted, _taken_seconds = [0, 0, 0, 0], 0.0
_lock = threading.Lock()


def _reset_counts() -> None:
    """Resets the counts and their lock in a forked process, as another thread of its parent may have held the lock."""
    global _lock, _taken_seconds
    _lock, _taken_seconds = threading.Lock(), 0.0
    _counted[:] = 0, 0, 0, 0


os.register_at_fork(after_in_child=_reset_counts)


def take_requests() -> Requests:
    """Returns the requests and bytes of this process since the last call, and the processor time that it has used."""
    global _taken_seconds
    with _lock:
        seconds_before, _taken_seconds = _taken_seconds, time.process_time()
        requests = Requests(*_counted)._replace(core_seconds=_taken_seconds - seconds_before)
        _counted[:] = 0, 0, 0, 0
    return requests


def count_read(num_bytes: int, number: int = 1) -> None:
    """Adds read requests and their bytes to the counts of this process."""
    with _lock:
        _counted[0] += number
        _counted[1] += num_bytes


def count_write(num_bytes: int, number: int = 1) -> None:
    """Adds write requests and their bytes to the counts of this process."""
    with _lock:
        _counted[2] += number
        _counted[3] += num_bytes
