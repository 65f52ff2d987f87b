"""Pieces of remote files kept on a local disk, within a number of bytes that all processes share.

It is used where the environment names a directory, $BEAM_DATASETS_CACHE_DIR, and for what callers ask it: shards and
their indexes. A file is cut into pieces of `PIECE_BYTES`; the name of a piece is a hash of the file's URL, size and tag
(what the store said of its content when it was opened), and its number. It ends with a CRC of these and its content.

Pieces appear whole, by a rename; the one that was used least lately is removed first. A cache only costs speed where it
fails: a piece that is damaged or gone is read anew, and a disk that is full or cannot be written is a warning.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import time
import uuid
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from beam_datasets.storage import files
from beam_datasets.storage.backend import Range, Reader
from beam_datasets.storage.paths import TEMPORARY_PREFIX, is_remote, is_temporary, scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

DIR_VARIABLE = "BEAM_DATASETS_CACHE_DIR"
BYTES_VARIABLE = "BEAM_DATASETS_CACHE_BYTES"
DEFAULT_BYTES = 10 << 30
PIECE_BYTES = 1 << 20
"""About what a store sends in the time that it takes to answer: an example costs hardly more than twice as long."""

_CRC_BYTES = 4
_LEFT_AFTER_EVICTING = 0.9
_PIECES_AT_ONCE = 8
_ABANDONED_SECONDS = 3600.0
_PIECE = re.compile(r"[0-9a-f]{40}-\d+")
_COUNT = "bytes"


class CacheWarning(UserWarning):
    """The cache cannot be used; reading goes on without."""


def cached(reader: Reader) -> Reader:
    """Returns a reader of the same file that looks into the cache first; the same reader if there is no cache.

    Raises:
        ValueError: a variable of the environment cannot be understood.
    """
    cache = PieceCache.from_environment() if _may_be_cached(reader.path) else None
    return reader if cache is None or reader.tag is None else CachedReader(reader, cache)


def is_on(path: str) -> bool:
    """Returns whether there is a cache for such a path."""
    return _may_be_cached(path) and bool(os.environ.get(DIR_VARIABLE))


def read_all(path: str) -> Buffer:
    """Returns the whole file, from the cache what is there.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    with cached(files.open_reader(path)) as reader:
        return reader.read()


def _may_be_cached(path: str) -> bool:
    return is_remote(path) and scheme(path) != "memory"  # which is another one in each process


class CachedReader(Reader):
    """Reads pieces from the cache; what is not there, from the file, and keeps it."""

    def __init__(self, reader: Reader, cache: PieceCache) -> None:
        super().__init__(reader.path, reader.size, reader.tag)
        self._reader = reader
        self._cache = cache
        identity = f"{reader.path}\n{reader.size}\n{reader.tag}"
        self._key = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def read_many(self, ranges: Sequence[Range]) -> Iterator[bytes]:
        """Yields the ranges; the pieces of a few of them are asked for at once."""
        for some in _grouped(ranges):
            pieces = self._pieces({number for start, stop in some for number in _numbers(start, stop)})
            for start, stop in some:
                yield b"".join(
                    memoryview(pieces[number])[
                        max(start - number * PIECE_BYTES, 0) : max(stop - number * PIECE_BYTES, 0)
                    ]
                    for number in _numbers(start, stop)
                )

    def _read(self, start: int, stop: int) -> bytes:
        return next(self.read_many([(start, stop)]))

    def _pieces(self, numbers: set[int]) -> dict[int, Buffer]:
        """Returns pieces of the file by number."""
        found: dict[int, Buffer] = {}
        for number in sorted(numbers):
            kept = self._cache.get(self._key, number, self._num_bytes(number))
            if kept is not None:
                found[number] = kept
        missing = sorted(numbers - set(found))
        for number, data in zip(missing, self._fetch(missing)):
            found[number] = data
            self._cache.put(self._key, number, data)
        return found

    def _fetch(self, numbers: list[int]) -> Iterable[Buffer]:
        spans = [(number * PIECE_BYTES, number * PIECE_BYTES + self._num_bytes(number)) for number in numbers]
        return self._reader.read_many(spans) if len(spans) > 1 else [self._reader.read(*span) for span in spans]

    def _num_bytes(self, number: int) -> int:
        return min(PIECE_BYTES, self.size - number * PIECE_BYTES)

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()


def _numbers(start: int, stop: int) -> range:
    """Returns the numbers of the pieces that bytes [start, stop) lie in.

    >>> _numbers(0, 1), _numbers(PIECE_BYTES - 1, PIECE_BYTES + 1), _numbers(5, 5)
    (range(0, 1), range(0, 2), range(0, 0))
    """
    return range(start // PIECE_BYTES, -(-stop // PIECE_BYTES)) if stop > start else range(0)


def _grouped(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Yields the ranges, a few together: pieces are held in memory while the ranges in them are handed out."""
    some: list[Range] = []
    for start, stop in ranges:
        some.append((start, stop))
        if sum(len(_numbers(*span)) for span in some) >= _PIECES_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


class _Kept(NamedTuple):
    """A piece on the disk; in the order in which pieces are removed."""

    used: int
    path: str
    num_bytes: int


@dataclass(frozen=True)
class PieceCache:
    """A directory of pieces. Threads and processes may use it at once.

    Attributes:
        directory: where the pieces are.
        num_bytes: which all of them may take together.
    """

    directory: str
    num_bytes: int

    @classmethod
    def from_environment(cls) -> PieceCache | None:
        """Returns the cache that the environment names; None where it names none.

        Raises:
            ValueError: the number of bytes is none.
        """
        directory = os.environ.get(DIR_VARIABLE)
        if not directory:
            return None
        text = os.environ.get(BYTES_VARIABLE) or str(DEFAULT_BYTES)
        if not text.isdecimal():
            raise ValueError(f"${BYTES_VARIABLE} is {text!r}; it must be a number of bytes, such as {DEFAULT_BYTES}.")
        return cls(os.path.abspath(os.path.expanduser(directory)), int(text))

    def get(self, key: str, number: int, num_bytes: int) -> bytes | None:
        """Returns a piece of `num_bytes`; None where it is not there, or is damaged."""
        path = self._path(key, number)
        try:
            with open(path, "rb") as file:
                data = file.read()
            content = data[:-_CRC_BYTES]
            if len(content) == num_bytes and data[-_CRC_BYTES:] == _crc(path, content):
                with contextlib.suppress(OSError):
                    os.utime(path)  # it was used; a disk that cannot be written may be read
                return content
            os.unlink(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn(self.directory, error.strerror or str(error))
        return None

    def put(self, key: str, number: int, data: Buffer) -> None:
        """Keeps a piece, and removes others where there are too many bytes."""
        path, num_bytes = self._path(key, number), memoryview(data).nbytes + _CRC_BYTES
        if num_bytes > self.num_bytes:
            return
        temporary = os.path.join(os.path.dirname(path), TEMPORARY_PREFIX + uuid.uuid4().hex)
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)  # what is read with credentials is not for everyone
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(temporary, "xb") as file:
                file.writelines([data, _crc(path, data)])
            with self._lock():
                if not os.path.exists(path):
                    self._make_room(num_bytes)
                    os.rename(temporary, path)
        except OSError as error:
            _warn(self.directory, error.strerror or str(error))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _path(self, key: str, number: int) -> str:
        return os.path.join(self.directory, key[:2], f"{key}-{number}")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Holds the lock of all processes; it ends with a process that is killed."""
        try:
            import fcntl
        except ImportError:
            raise OSError("this system has no fcntl, which processes share a cache by") from None
        with open(os.path.join(self.directory, "lock"), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_room(self, num_bytes: int) -> None:
        """Counts bytes that are to come; where they do not fit, counts what is there, and removes some of it."""
        counter = os.path.join(self.directory, _COUNT)
        try:
            with open(counter, encoding="ascii") as file:
                total = int(file.read())
        except (FileNotFoundError, ValueError):
            total = self.num_bytes
        if total + num_bytes > self.num_bytes:
            total = self._evict(num_bytes)
        with open(counter, "w", encoding="ascii") as file:
            file.write(str(total + num_bytes))

    def _evict(self, num_bytes: int) -> int:
        """Returns how many bytes are left when the pieces used least lately are gone that leave no room."""
        kept = sorted(self._kept())
        total = sum(piece.num_bytes for piece in kept)
        if total + num_bytes <= self.num_bytes:
            return total
        for piece in kept:
            if total + num_bytes <= self.num_bytes * _LEFT_AFTER_EVICTING or not total:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(piece.path)
            total -= piece.num_bytes
        return total

    def _kept(self) -> Iterator[_Kept]:
        """Yields the pieces; removes what killed processes left unfinished."""
        for folder in os.scandir(self.directory):
            for entry in os.scandir(folder.path) if folder.is_dir() else ():
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    if _PIECE.fullmatch(entry.name):
                        yield _Kept(status.st_mtime_ns, entry.path, status.st_size)
                    elif is_temporary(entry.name) and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                        os.unlink(entry.path)


def _crc(path: str, data: Buffer) -> bytes:
    """Returns the CRC of a piece, which is not that of another one with the same content."""
    return crc32c(data, crc32c(os.path.basename(path).encode())).to_bytes(_CRC_BYTES, "little")


@functools.cache
def _warn(directory: str, problem: str) -> None:
    warnings.warn(
        f"the cache in {directory} (${DIR_VARIABLE}) cannot be used, so remote data are read without: {problem}",
        CacheWarning,
        stacklevel=2,
    )
