"""The numbers of values in the pages and rows of a column chunk of a Parquet file, without reading the values.

A few bytes can declare 2^31 equal values of one row, and pyarrow allocates memory for all values of a row at once. The
footer has only the number of values of all rows together, and pyarrow does not compare it with those of the pages. This
module reads the headers of pages, and repetition levels without values, those of a run of equal or packed levels at a
time.

Sources: parquet.thrift and the pages on encodings and data pages of the Parquet format.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.intake.parquet_footer import ColumnChunk, PageHeader, page_header

if TYPE_CHECKING:
    from typing import BinaryIO

    from beam_datasets.intake.parquet_pages import PageLimitedStream


_MAX_HEADER = 1 << 24  # bytes of the header of a page, which may contain statistics
_HEADER_BYTES = 1 << 9  # bytes that usually are enough
_CODECS = {0: "", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}  # CompressionCodec -> name of pyarrow
_BIT_PACKED = 4  # Encoding.BIT_PACKED of levels, which is deprecated; all others are hybrids of runs


class UnknownLevelsError(ValueError):
    """The repetition levels of a page cannot be read."""


def num_values_of_pages(stream: BinaryIO, chunk: ColumnChunk) -> int:
    """Returns the number of values in the data pages of a column chunk, up to the page with its last declared value.

    Args:
        stream: the file, which can seek.
        chunk: the column chunk.

    Raises:
        UnknownLevelsError: the pages are damaged.
    """
    with _unknown_levels():
        return sum(header.num_values or 0 for header, _ in _pages(stream, chunk))


def has_pages(stream: BinaryIO | PageLimitedStream, chunk: ColumnChunk) -> bool:
    """Returns whether the pages of a column chunk are where it declares them, by their headers."""
    num_values, end = 0, chunk.start
    with contextlib.suppress(UnknownLevelsError), _unknown_levels():
        for header, position in _pages(stream, chunk):
            num_values, end = num_values + (header.num_values or 0), position + header.stored_size
    return num_values == chunk.num_values and end >= chunk.start + chunk.stored_size


def longest_row(stream: BinaryIO, chunk: ColumnChunk, max_level: int) -> int:
    """Returns the number of values of the longest row of a column chunk; nulls and empty lists count as values.

    Args:
        stream: the file, which can seek.
        chunk: the column chunk.
        max_level: greatest repetition level of the column, at least 1.

    Raises:
        UnknownLevelsError: the pages are compressed by a codec that pyarrow offers for pages only, or they are damaged.
    """
    rows = _Rows()
    num_bits = max_level.bit_length()
    with _unknown_levels():
        for header, position in _pages(stream, chunk):
            stream.seek(position)
            for levels in _levels_of_page(header, stream.read(header.stored_size), chunk, num_bits):
                rows.add(levels)
    return rows.longest


@contextlib.contextmanager
def _unknown_levels() -> Iterator[None]:
    """Converts the errors of damaged pages into UnknownLevelsError."""
    try:
        yield
    except (ValueError, IndexError, OSError, OverflowError, MemoryError) as error:  # also those of pyarrow
        raise UnknownLevelsError(str(error)) from error


@dataclass
class _Run:
    """Equal levels.

    Attributes:
        is_start: whether each of them is the first value of a row.
        count: how many levels there are.
    """

    is_start: bool
    count: int


@dataclass
class _Rows:
    """The longest row among levels that are added in the order of the column chunk.

    Attributes:
        longest: number of values of the longest row.
        current: number of values of the last row.
    """

    longest: int = field(default=0)
    current: int = field(default=0)

    def add(self, levels: _Run | Any) -> None:
        """Adds a run, or an array of bools: whether each value is the first one of a row."""
        if isinstance(levels, _Run):
            self.current = 1 if levels.is_start and levels.count else self.current + levels.count
        elif len(starts := np.flatnonzero(levels)):
            self.longest = max(self.longest, self.current + int(starts[0]), int(np.diff(starts).max(initial=0)))
            self.current = len(levels) - int(starts[-1])
        else:
            self.current += len(levels)
        self.longest = max(self.longest, self.current)


def _pages(stream: BinaryIO | PageLimitedStream, chunk: ColumnChunk) -> Iterator[tuple[PageHeader, int]]:
    """Yields (header, byte offset of the content) of each data page of a column chunk."""
    position, remaining = chunk.start, chunk.num_values
    while remaining > 0:
        size = _HEADER_BYTES
        while True:
            stream.seek(position)
            head = stream.read(size)
            try:
                header = page_header(head)
                break
            except ValueError:
                if len(head) < size or size >= _MAX_HEADER:
                    raise
                size *= 8
        position += header.header_size
        if header.num_values is not None:
            yield header, position
            remaining -= header.num_values
        position += header.stored_size


def _levels_of_page(header: PageHeader, content: bytes, chunk: ColumnChunk, num_bits: int) -> Iterator[_Run | Any]:
    """Yields the repetition levels of a data page; see `_Rows.add`."""
    num_values = header.num_values or 0
    if header.level_size is not None:  # version 2: the levels are not compressed
        yield from _hybrid(content[: header.level_size], num_values, num_bits)
        return
    content = _decompress_page(content, header.size, chunk.codec)
    if header.level_encoding == _BIT_PACKED:
        packed = np.frombuffer(content, np.uint8, -(-num_values * num_bits // 8))
        yield ~np.unpackbits(packed)[: num_values * num_bits].reshape(-1, num_bits).any(1)
        return
    size = int.from_bytes(content[:4], "little")
    yield from _hybrid(content[4 : 4 + size], num_values, num_bits)


def _decompress_page(content: bytes, size: int, codec: int) -> bytes:
    """Returns the content of a page, decompressed to `size` bytes; `codec` is the number of a codec of Parquet.

    Raises:
        UnknownLevelsError: pyarrow does not offer the codec.
    """
    import pyarrow as pa

    name = _CODECS.get(codec)
    if name is None:
        raise UnknownLevelsError(f"codec {codec} is not known")
    return bytes(pa.Codec(name).decompress(content, size, asbytes=True)) if name else content


def _hybrid(data: bytes, num_values: int, num_bits: int) -> Iterator[_Run | Any]:
    """Yields the levels of a hybrid of runs of equal levels and of packed levels; see `_Rows.add`.

    Args:
        data: the bytes of the hybrid.
        num_values: number of levels, of which the last run may have more.
        num_bits: bits of a level.
    """
    position, width = 0, -(-num_bits // 8)
    while num_values > 0:
        number = shift = 0
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if number & 1:
            size = (number >> 1) * num_bits
            bits = np.unpackbits(np.frombuffer(data[position : position + size], np.uint8), bitorder="little")
            levels = bits[: len(bits) // num_bits * num_bits].reshape(-1, num_bits)[:num_values]
            if not len(levels):
                raise UnknownLevelsError("the levels end too early")
            yield ~levels.any(1)
            position, num_values = position + size, num_values - len(levels)
        else:
            level = int.from_bytes(data[position : position + width], "little")
            count = min(number >> 1, num_values)
            if not count:
                raise UnknownLevelsError("a run has no levels")
            yield _Run(level == 0, count)
            position, num_values = position + width, num_values - count
