"""Cache of pieces of remote files on a local disk, with one size limit for all processes.

It is used if $BEAM_DATASETS_CACHE_DIR names a directory, for shards and their indexes. A file is cut into pieces of
`PIECE_BYTES`; the name of a piece is a hash of the file's URL, size and tag (what the store reported of its content
when it was opened), and its number. It ends with two CRCs: of its name, and of its name and content.

Pieces appear whole, by a rename; the least recently used one is removed first. A failing cache only costs speed: a
damaged or missing piece is read again, and a disk that is full or cannot be written is a warning.

Runs of records (native/runs.c) read pieces without a check of the second CRC, as each record has its own. Who finds a
damaged record there reads it again by a `CachedReader`, which replaces damaged pieces. Bytes that were changed on the
way from the store have good CRCs here; only the file's own checksums find them, and then `read_again` removes them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import struct
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beam_datasets import storage
from beam_datasets.extras import Buffer
from beam_datasets.native import crc32c
from beam_datasets.storage.backend import Range, Reader
from beam_datasets.storage.paths import TEMPORARY_PREFIX, is_remote, is_temporary, scheme, url

DIR_VARIABLE = "BEAM_DATASETS_CACHE_DIR"
BYTES_VARIABLE = "BEAM_DATASETS_CACHE_BYTES"
DEFAULT_BYTES = 10 << 30
PIECE_BYTES = 1 << 20
"""About what a store sends in the time that it takes to answer: an example costs hardly more than twice as long."""

_CRC_BYTES = 8
_KEPT_SHARE = 0.9  # of the bytes, after pieces were removed
_AHEAD_SHARE = 0.25  # of the bytes; until a piece is read, as many are fetched, and as many are read, after it
_MAX_PIECES = 8  # fetched at once, and in memory while the ranges in them are yielded
_ABANDONED_SECONDS = 3600.0
_MAX_FETCHES = 8  # more at once need more memory, and take as long
_PIECE = re.compile(r"[0-9a-f]{40}-\d+")

_fetching = threading.Semaphore(_MAX_FETCHES)


def _reset_fetches() -> None:
    """Resets the limit of fetches in a forked process, which lacks the threads that fetch in its parent."""
    global _fetching
    _fetching = threading.Semaphore(_MAX_FETCHES)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_fetches)


class CacheWarning(UserWarning):
    """The cache cannot be used; reading continues without."""


def is_on(path: str) -> bool:
    """Returns whether there is a cache for such a path. `memory://` is another store in each process."""
    return is_remote(path) and scheme(path) != "memory" and bool(os.environ.get(DIR_VARIABLE))


def cached(reader: Reader) -> Reader:
    """Returns a reader of the same file that uses the cache; the same reader without a cache.

    Raises:
        ValueError: $BEAM_DATASETS_CACHE_BYTES is not a number.
    """
    if not is_on(reader.path) or reader.tag is None:
        return reader
    text = os.environ.get(BYTES_VARIABLE) or str(DEFAULT_BYTES)
    if not text.isdecimal():
        raise ValueError(f"${BYTES_VARIABLE} is {text!r}; it must be a number of bytes, such as {DEFAULT_BYTES}.")
    return CachedReader(reader, PieceCache(os.path.abspath(os.path.expanduser(os.environ[DIR_VARIABLE])), int(text)))


def read_all(path: str) -> Buffer:
    """Returns the whole file, as far as possible from the cache.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    with cached(storage.open_reader(path)) as reader:
        return reader.read()


class CachedReader(Reader):
    """Reads pieces from the cache, or from the file to cache them."""

    def __init__(self, reader: Reader, cache: PieceCache) -> None:
        super().__init__(reader.path, reader.size, reader.tag)
        self._reader = reader
        self._cache = cache
        identity = f"{url(reader.path)}\n{reader.size}\n{reader.tag}"
        self._key = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        self.pieces = os.fsencode(cache.path(self._key)), PIECE_BYTES
        self.max_ahead = int(_AHEAD_SHARE * cache.num_bytes)

    def read_many(self, ranges: Sequence[Range]) -> Iterator[Buffer]:
        """Yields the ranges; the pieces of several ranges are fetched at once."""
        batch: list[Range] = []
        for number, (start, stop) in enumerate(ranges, start=1):
            batch.append((start, stop))
            if number == len(ranges) or sum(len(_pieces_of(*span)) for span in batch) >= _MAX_PIECES:
                yield from self._read_some(batch)
                batch = []

    def _read_some(self, ranges: list[Range]) -> Iterator[Buffer]:
        """Yields the ranges from cached pieces; fetches all missing pieces together before the first range."""
        buffers: list[tuple[int, memoryview]] = []  # where each buffer begins in the file
        missing: list[int] = []
        for number in sorted({number for span in ranges for number in _pieces_of(*span)}):
            start, stop = self._span(number)
            if (data := self._cache.get(self._key, number, stop - start)) is not None:
                buffers.append((start, data))
            else:
                missing.append(number)
        buffers += [(start, memoryview(buffer)) for start, buffer, _ in self._get(missing)]
        buffers.sort(key=lambda buffer_range: buffer_range[0])
        for start, stop in ranges:
            parts = [
                data[max(start - at, 0) : stop - at] for at, data in buffers if at < stop and start < at + len(data)
            ]
            yield parts[0] if len(parts) == 1 else b"".join(parts)

    def fetch(self, numbers: Sequence[int]) -> bool:
        """Downloads the pieces of these numbers that are not in the cache; returns whether all are in it now."""
        with _fetching:
            missing = [number for number in numbers if not self.is_near(number * PIECE_BYTES)]
            return all(is_kept for _, _, is_kept in self._get(missing))

    def _get(self, numbers: Sequence[int]) -> Iterator[tuple[int, Buffer, bool]]:
        """Reads pieces from the store, adjacent ones by one request, and puts them into the cache.

        Yields:
            (offset of the first byte, bytes, whether the cache keeps them) for each request.

        Args:
            numbers: numbers of the pieces, ascending.
        """
        spans: list[Range] = []
        for start, stop in map(self._span, numbers):
            is_next = bool(spans) and spans[-1][1] == start
            spans.append((spans.pop()[0] if is_next else start, stop))
        for (start, _), buffer in zip(spans, self._reader.read_many(spans)):
            yield start, buffer, self._cache.put(self._key, start // PIECE_BYTES, buffer)

    def _span(self, number: int) -> Range:
        """Returns the half-open range of bytes of the piece with a number."""
        return number * PIECE_BYTES, min((number + 1) * PIECE_BYTES, self.size)

    def _read(self, start: int, stop: int) -> Buffer:
        """Returns bytes [start, stop); see `Reader._read`."""
        return next(self.read_many([(start, stop)]))

    def is_near(self, start: int) -> bool:
        """Returns whether there is a file of the piece with this byte."""
        return os.path.exists(self._cache.path(self._key, start // PIECE_BYTES))

    def read_again(self, start: int, stop: int) -> Buffer | None:
        """Returns bytes [start, stop) of the store; removes their pieces, which may be damaged, from the cache."""
        for number in _pieces_of(start, stop):
            self._cache.remove(self._key, number)
        return self._reader.read_again(start, stop)

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()


def _pieces_of(start: int, stop: int) -> range:
    """Returns the numbers of the pieces that contain bytes [start, stop).

    >>> _pieces_of(0, 1), _pieces_of(PIECE_BYTES - 1, PIECE_BYTES + 1), _pieces_of(5, 5)
    (range(0, 1), range(0, 2), range(0, 0))
    """
    return range(start // PIECE_BYTES, -(-stop // PIECE_BYTES)) if stop > start else range(0)


@dataclass(frozen=True)
class PieceCache:
    """A directory of pieces. Threads and processes may use it at once.

    Attributes:
        directory: directory of the pieces.
        num_bytes: maximum size of all pieces.
    """

    directory: str
    num_bytes: int

    def get(self, key: str, number: int, num_bytes: int) -> memoryview | None:
        """Returns a piece of `num_bytes`; None if it is missing or damaged.

        Args:
            key: key of the file; see `CachedReader`.
            number: number of the piece in the file, from 0.
            num_bytes: expected size of the piece.
        """
        path = self.path(key, number)
        try:
            with open(path, "rb") as file:
                data = memoryview(file.read())
            content = data[:-_CRC_BYTES]
            if len(content) == num_bytes and data[-_CRC_BYTES:] == _crcs(path, content):
                with contextlib.suppress(OSError):  # a disk that cannot be written may be read
                    os.utime(path)
                return content
            os.unlink(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn(self.directory, error.strerror or str(error))
        return None

    def remove(self, key: str, number: int) -> None:
        """Removes a piece, if it is there."""
        try:
            os.unlink(self.path(key, number))
        except FileNotFoundError:
            return
        except OSError as error:
            _warn(self.directory, error.strerror or str(error))

    def put(self, key: str, number: int, data: Buffer) -> bool:
        """Stores consecutive pieces of a file, and removes other pieces if there are too many bytes.

        Args:
            key: key of the file; see `CachedReader`.
            number: number of the first piece, from 0.
            data: content of the pieces; each has `PIECE_BYTES`, except the last one of a file.

        Returns:
            Whether all of them are kept.
        """
        parts, view, num_bytes = [], memoryview(data), 0
        for first in range(0, len(view), PIECE_BYTES):
            piece_data = view[first : first + PIECE_BYTES]
            num_bytes += len(piece_data) + _CRC_BYTES
            if num_bytes > self.num_bytes:
                break
            parts.append((self.path(key, number + first // PIECE_BYTES), piece_data))
        if not parts:
            return False
        folder = os.path.dirname(parts[0][0])
        temporary_files = {os.path.join(folder, TEMPORARY_PREFIX + uuid.uuid4().hex): piece for piece in parts}
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)  # data that needs credentials is not for other users
            os.makedirs(folder, exist_ok=True)
            for unfinished, (path, piece_data) in temporary_files.items():
                with open(unfinished, "xb") as file:
                    file.writelines([piece_data, _crcs(path, piece_data)])
            with storage.locked(os.path.join(self.directory, "lock")):
                new = {name: piece for name, piece in temporary_files.items() if not os.path.exists(piece[0])}
                self._make_space(sum(len(piece_data) + _CRC_BYTES for _, piece_data in new.values()))
                for unfinished, (path, _) in new.items():
                    os.rename(unfinished, path)
            return len(parts) * PIECE_BYTES >= len(view)
        except OSError as error:
            _warn(self.directory, error.strerror or str(error))
            return False
        finally:
            for unfinished in temporary_files:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)

    def path(self, key: str, number: int | None = None) -> str:
        """Returns the path of a piece; without a number, the common prefix of the paths of all pieces of a file."""
        return os.path.join(self.directory, key[:2], key if number is None else f"{key}-{number}")

    def _make_space(self, num_bytes: int) -> None:
        """Adds to the count of bytes, which a file contains; if they do not fit, counts again and removes pieces."""
        counter = os.path.join(self.directory, "bytes")
        try:
            with open(counter, encoding="ascii") as file:
                total = int(file.read())
        except (FileNotFoundError, ValueError):
            total = self.num_bytes
        if total + num_bytes > self.num_bytes:
            pieces = sorted(self._list_pieces())
            total = sum(size for _, _, size in pieces)
            if total + num_bytes > self.num_bytes:
                for _, path, size in pieces:
                    if total + num_bytes <= self.num_bytes * _KEPT_SHARE:
                        break
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                    total -= size
        with open(counter, "w", encoding="ascii") as file:
            file.write(str(total + num_bytes))

    def _list_pieces(self) -> Iterator[tuple[int, str, int]]:
        """Yields (last use in nanoseconds since the epoch, path, size in bytes) of each piece in the cache.

        Removes temporary files that killed processes have left.
        """
        for folder in os.scandir(self.directory):
            for entry in os.scandir(folder.path) if folder.is_dir() else ():
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    if _PIECE.fullmatch(entry.name):
                        yield status.st_mtime_ns, entry.path, status.st_size
                    elif is_temporary(entry.name) and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                        os.unlink(entry.path)


def _crcs(path: str, data: Buffer) -> bytes:
    """Returns 8 bytes: the CRC-32C of a piece's file name, and that of its data, continued from the first.

    So pieces of other names have other CRCs for the same data.
    """
    of_name = crc32c(os.path.basename(path).encode())
    return struct.pack("<II", of_name, crc32c(data, of_name))


@functools.cache
def _warn(directory: str, problem: str) -> None:
    """Warns once per directory and problem that the cache cannot be used."""
    warnings.warn(
        f"the cache in {directory} (${DIR_VARIABLE}) cannot be used, so remote data are read without: {problem}",
        CacheWarning,
        stacklevel=2,
    )
