"""Readers: where the records of a file are, of TFRecords or lines of text, as they stand or compressed."""

from __future__ import annotations

import abc
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import tfrecord
from beam_datasets.reading.items.inflate import byte_stream, too_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CHUNK_BYTES = 1 << 20
"""How much of a file is read at a time."""

_COMPRESSIONS = (None, "gzip", "zlib")
_HEADER = struct.Struct("<QI")  # length, its CRC


class Place(NamedTuple):
    """Where a record stands in its file.

    Attributes:
        number: of the record, from 0.
        start: its first byte in the uncompressed file.
        stop: the byte behind it.
    """

    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class RecordReader(abc.ABC):
    """Reads the records of a file one after the other, from any of them on.

    Attributes:
        compression: 'gzip', 'zlib', or None for a file as it stands. To begin in the middle of a compressed file, all
            that stands before is decompressed.
    """

    compression: str | None = None

    def __post_init__(self) -> None:
        name = (self.compression or "").lower() or None
        if name not in _COMPRESSIONS:
            raise ValueError(f"compression must be 'gzip', 'zlib' or None, got {self.compression!r}")
        object.__setattr__(self, "compression", name)

    @abc.abstractmethod
    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Yields the records of a file from the one with this number on, which begins at byte `start`.

        Raises:
            CorruptRecordError: a record is damaged, or the file ends before `start`.
        """

    @abc.abstractmethod
    def unwrap(self, path: str, place: Place, data: bytes) -> bytes:
        """Returns the record, of the bytes that stand at its place."""

    def fetch(self, path: str, places: Sequence[Place]) -> list[bytes]:
        """Returns the records at some places of a file.

        Raises:
            CorruptRecordError: there is no such record.
        """
        if self.compression is None:
            parts: Iterable[bytes] = storage.read_ranges(path, [(place.start, place.stop) for place in places])
            return [self.unwrap(path, place, part) for place, part in zip(places, parts)]
        wanted, found = set(places), {}
        for place, data in self.records(path):
            if place in wanted:
                found[place] = data
            if len(found) == len(wanted):
                break
        for place in sorted(wanted - found.keys()):
            raise CorruptRecordError("there is no such record any more", path=path, offset=place[1], record=place[0])
        return [found[place] for place in places]


@dataclass(frozen=True)
class TFRecordReader(RecordReader):
    """The records of TFRecord files; checks the CRC of each."""

    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Yields the records of a file from the one with this number on, which begins at byte `start`."""
        if self.compression is not None:
            yield from self._compressed(path, number, start)
            return
        with storage.open_reader(path) as file:
            if start > file.size:
                raise too_short(path, start, file.size)
            for chunk in tfrecord.scan_file(file, path, start=start, first_record=number, chunk_size=CHUNK_BYTES):
                offsets = (chunk.offsets + chunk.start).tolist()
                for i, data in enumerate(chunk.records()):
                    yield Place(chunk.first_record + i, offsets[i], offsets[i + 1]), bytes(data)

    def unwrap(self, path: str, place: Place, data: bytes) -> bytes:
        """Returns the record without its frame, checked."""
        ends = [0, len(data)]
        [record] = tfrecord.unframe(data, ends, path=path, offset=place.start, first_record=place.number)
        return bytes(record)

    def _compressed(self, path: str, number: int, start: int) -> Iterator[tuple[Place, bytes]]:
        with byte_stream(path, self.compression, start) as stream:
            while header := stream.read(_HEADER.size):
                length, crc = _HEADER.unpack(header.ljust(_HEADER.size))
                # The length is believed only if its CRC is right: a damaged one may be any number.
                good = len(header) == _HEADER.size and tfrecord.masked_crc32c(header[:8]) == crc
                frame = header + stream.read(length + 4 if good else 0)
                if not good or len(frame) < length + tfrecord.OVERHEAD:
                    tfrecord.scan(frame, path=path, offset=start, first_record=number)  # raises
                place = Place(number, start, start + len(frame))
                yield place, self.unwrap(path, place, frame)
                number, start = number + 1, place.stop


@dataclass(frozen=True)
class TextLineReader(RecordReader):
    r"""The lines of text files, without the `\n` or `\r\n` at their end.

    Attributes:
        compression: 'gzip', 'zlib', or None for a file as it stands.
        skip_header_lines: how many lines at the beginning of each file are no records.
    """

    skip_header_lines: int = 0

    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Yields the lines of a file from the one with this number on, which begins at byte `start`."""
        with byte_stream(path, self.compression, start) as stream:
            while line := stream.readline():
                place = Place(number, start, start + len(line))
                if number >= self.skip_header_lines:
                    yield place, self.unwrap(path, place, line)
                number, start = number + 1, place.stop

    def unwrap(self, path: str, place: Place, data: bytes) -> bytes:
        """Returns the line without its end."""
        return data[:-1].removesuffix(b"\r") if data.endswith(b"\n") else data
