"""Readers: the records of a file, from any of them on. A file holds TFRecords or lines, and may be compressed."""

from __future__ import annotations

import abc
import contextlib
import io
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import tfrecord

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from typing_extensions import Buffer

CHUNK_BYTES = 1 << 20
"""How much of a file is read or decompressed at a time."""

_WINDOW_BITS = {"gzip": 31, "zlib": 15}  # as zlib.decompressobj takes them
_HEADER = struct.Struct("<QI")  # the length of a record and its CRC


class Place(NamedTuple):
    """Where a record is in its file.

    Attributes:
        number: number of the record, from 0.
        start: its first byte in the uncompressed file.
        stop: the byte after its last one.
    """

    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class RecordReader(abc.ABC):
    """Reads the records of a file one after the other, from any of them on.

    Attributes:
        compression: 'gzip', 'zlib' or None. To start in the middle of a compressed file, everything before is
            decompressed.
    """

    compression: str | None = None

    def __post_init__(self) -> None:
        name = (self.compression or "").lower() or None
        if name not in (None, *_WINDOW_BITS):
            raise ValueError(f"compression must be 'gzip', 'zlib' or None, got {self.compression!r}")
        object.__setattr__(self, "compression", name)

    @abc.abstractmethod
    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Yields the records of a file, starting with the one of this number, which begins at byte `start`.

        Raises:
            CorruptRecordError: a record is damaged, or the file ends before `start`.
        """


@dataclass(frozen=True)
class TFRecordReader(RecordReader):
    """Reads TFRecord files and checks the CRC of each record."""

    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Yields the records of a file, starting with the one of this number, which begins at byte `start`."""
        return (self._plain if self.compression is None else self._compressed)(path, number, start)

    def _plain(self, path: str, number: int, start: int) -> Iterator[tuple[Place, bytes]]:
        with storage.open_reader(path) as file:
            _check_start(path, start, file.size)
            for chunk in tfrecord.scan_file(file, path, start=start, first_record=number, chunk_size=CHUNK_BYTES):
                offsets = (chunk.offsets + chunk.start).tolist()
                for i, data in enumerate(chunk.records()):
                    yield Place(chunk.first_record + i, offsets[i], offsets[i + 1]), data

    def _compressed(self, path: str, number: int, start: int) -> Iterator[tuple[Place, bytes]]:
        with _opened(path, self.compression, start) as stream:
            while header := stream.read(_HEADER.size):
                length, crc = _HEADER.unpack(header.ljust(_HEADER.size))
                # Only a length of the right CRC is read: a damaged one may be any number.
                is_good = len(header) == _HEADER.size and tfrecord.masked_crc32c(header[:8]) == crc
                frame = header + stream.read(length + 4 if is_good else 0)
                offsets = tfrecord.scan(frame, path=path, offset=start, first_record=number)
                [data] = tfrecord.unframe(frame, offsets, path=path, check=False)
                yield Place(number, start, start + len(frame)), data
                number, start = number + 1, start + len(frame)


@dataclass(frozen=True)
class TextLineReader(RecordReader):
    r"""Reads the lines of text files, without the `\n` or `\r\n` at their end.

    Attributes:
        compression: 'gzip', 'zlib' or None.
        skip_header_lines: how many lines at the beginning of each file are not records.
    """

    skip_header_lines: int = 0

    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Yields the lines of a file, starting with the one of this number, which begins at byte `start`."""
        with _opened(path, self.compression, start) as stream:
            while line := stream.readline():
                place = Place(number, start, start + len(line))
                if number >= self.skip_header_lines:
                    yield place, line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line
                number, start = number + 1, place.stop


@contextlib.contextmanager
def _opened(path: str, compression: str | None, start: int) -> Iterator[io.BufferedReader]:
    """Opens the uncompressed bytes of a file, from byte `start` on."""
    chunks = _chunks(path, start) if compression is None else _decompressed(path, _WINDOW_BITS[compression])
    stream: io.BufferedReader = io.BufferedReader(_Stream(chunks), CHUNK_BYTES)
    with stream:
        for place in range(0, start if compression else 0, CHUNK_BYTES):
            part = stream.read(min(CHUNK_BYTES, start - place))
            if len(part) < min(CHUNK_BYTES, start - place):
                _check_start(path, start, place + len(part))
        yield stream


def _check_start(path: str, start: int, size: int) -> None:
    if start > size:
        problem = f"the file ends at byte {size}, before byte {start}, which was read before. It was cut or replaced"
        raise CorruptRecordError(problem, path=path, offset=size)


def _chunks(path: str, start: int) -> Generator[bytes]:
    """Yields the bytes of a file from byte `start` on."""
    with storage.open_reader(path) as file:
        _check_start(path, start, file.size)
        for place in range(start, file.size, CHUNK_BYTES):
            yield bytes(file.read(place, min(place + CHUNK_BYTES, file.size)))


def _decompressed(path: str, window_bits: int) -> Generator[bytes]:
    """Yields the uncompressed bytes of a file, which may consist of several compressed ones."""
    inflater, done = zlib.decompressobj(window_bits), 0
    for chunk in _chunks(path, 0):
        done += len(chunk)
        while True:
            if chunk and inflater.eof:
                inflater = zlib.decompressobj(window_bits)
            try:
                data = inflater.decompress(chunk, CHUNK_BYTES)  # without a chunk, it may still hold some
            except zlib.error as error:
                problem = f"the compressed file cannot be decompressed: {error}"
                raise CorruptRecordError(problem, path=path, offset=done - len(chunk)) from error
            chunk = inflater.unconsumed_tail or inflater.unused_data
            if data:
                yield data
            elif not chunk:
                break
    if done and not inflater.eof:
        raise CorruptRecordError("the file is cut off within its compressed data", path=path, offset=done)


class _Stream(io.RawIOBase):
    """The bytes that a generator yields, as a file."""

    def __init__(self, chunks: Generator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        self._rest = self._rest or memoryview(next(self._chunks, b""))
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._chunks.close()
        super().close()
