"""The TFRecord framing: records as length, CRC of the length, data, CRC of the data; one after another, nothing else.

A record is a little-endian u64 length, u32 masked CRC-32C of these 8 bytes, the data, u32 masked CRC-32C of the data;
the mask is a rotation by 15 bits and an addition (TensorFlow: `core/lib/io/record_writer.h`, `core/lib/hash/crc32c.h`).
An empty file has no records; files concatenate.

Lengths and CRCs of a block of records are computed and compared by NumPy; only the CRC of the data is a call a record.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import crc32c as _crc32c
import numpy as np

from beam_datasets.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

OVERHEAD = 16
"""Bytes that the framing adds to a record: 8 of length, 4 of its CRC, 4 of the data's CRC."""

_HEADER = struct.Struct("<QI")
_U32 = struct.Struct("<I")
_LENGTH_AT = struct.Struct("<Q").unpack_from
_MASK_DELTA = 0xA282EAD8
_RECORD_HEADER = np.dtype([("length", "<u8"), ("crc", "<u4")])
_DAMAGED = "The file is damaged; rebuild or restore it"
_CUT = "The file is cut off; rebuild or restore it"

crc32c = _crc32c.crc32c
"""The plain CRC-32C of a buffer, with the CRC of what came before as an optional second argument."""


class Readable(Protocol):
    """What `scan_file` reads from; a `storage.Reader` is one."""

    @property
    def size(self) -> int:
        """The file's size in bytes."""

    def read(self, start: int, stop: int) -> Buffer:
        """Returns bytes [start, stop) of the file."""


class Chunk(NamedTuple):
    """Whole records that stand together in a file.

    Attributes:
        first_record: number in the file of the chunk's first record.
        start: where the chunk begins in the file, in bytes.
        offsets: where the records begin, relative to `buffer`, and where the last one ends; shape (n + 1,).
        buffer: the framed records; `offsets[-1]` bytes.
    """

    first_record: int
    start: int
    offsets: NDArray[np.int64]
    buffer: memoryview

    def records(self) -> list[memoryview]:
        """Returns the data of each record; `scan_file` has checked them."""
        return _data_views(self.buffer, self.offsets)


def masked_crc32c(data: Buffer) -> int:
    """Returns the CRC-32C of the data as it stands in a TFRecord.

    >>> hex(masked_crc32c(b""))
    '0xa282ead8'
    """
    crc: int = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def frame(record: Buffer) -> bytes:
    """Returns the record with its header and footer."""
    length = struct.pack("<Q", memoryview(record).nbytes)
    return b"".join((length, _U32.pack(masked_crc32c(length)), record, _U32.pack(masked_crc32c(record))))


def frame_all(records: Sequence[bytes], group: int = 1) -> list[bytes]:
    """Returns `[frame(record) for record in records]`, faster; or so many of them joined at a time.

    Args:
        records: what to frame.
        group: framed records that are joined to one bytes; the last may have fewer.
    """
    n = len(records)
    headers = np.empty(n, _RECORD_HEADER)
    headers["length"] = np.fromiter(map(len, records), np.uint64, n)
    headers["crc"] = _length_crcs(headers["length"])
    footers = _mask(np.fromiter(map(crc32c, records), np.uint32, n)).astype("<u4")
    # As void, not as "S": the latter drops trailing zero bytes.
    parts: list[bytes] = [b""] * (3 * n)
    parts[0::3], parts[1::3], parts[2::3] = headers.view("V12").tolist(), records, footers.view("V4").tolist()
    return [b"".join(parts[start : start + 3 * group]) for start in range(0, 3 * n, 3 * group)]


def scan(buffer: Buffer, *, path: str, offset: int = 0, first_record: int = 0, check: bool = True) -> NDArray[np.int64]:
    """Returns where the records of a buffer begin, and where the last one ends.

    Args:
        buffer: whole framed records, up to the end of a file.
        path: the file, for errors.
        offset: where the buffer begins in the file, in bytes.
        first_record: number in the file of the buffer's first record.
        check: whether to check the CRC of each record's data; that of its length is always checked.

    Returns:
        n + 1 offsets in bytes, relative to the buffer, the first 0 and the last the buffer's size.

    Raises:
        CorruptRecordError: a CRC differs, or the buffer ends within a record; the first such record is named.
    """
    view = _as_bytes(buffer)
    offsets = _walk(view)
    _check_scanned(view, offsets, path, offset, first_record, check)
    end = int(offsets[-1])
    if end < len(view):
        _unframe_one(view, end, None, path, offset, first_record + len(offsets) - 1, True)
    return offsets


def scan_file(
    reader: Readable,
    path: str,
    *,
    start: int = 0,
    first_record: int = 0,
    chunk_size: int = 8 << 20,
    check: bool = True,
) -> Iterator[Chunk]:
    """Yields the records of a file from byte `start` to its end, a bounded number of bytes at a time.

    A chunk is of about `chunk_size` bytes, or of one record where that is larger. The bytes of a record that a read
    cuts are read again with the next chunk: less work than joining the pieces, which copies the whole chunk.

    Args:
        reader: the open file.
        path: its name, for errors.
        start: where a record begins, in bytes.
        first_record: number of this record in the file.
        chunk_size: bytes to read at a time.
        check: whether to check the CRC of each record's data; that of its length is always checked.

    Raises:
        CorruptRecordError: a CRC differs, or the file ends within a record. The chunk's good records are not yielded.
    """
    size = reader.size
    want = chunk_size
    while start < size:
        view = _as_bytes(reader.read(start, min(start + want, size)))
        offsets = _walk(view)
        _check_scanned(view, offsets, path, start, first_record, check)
        n, end = len(offsets) - 1, int(offsets[-1])
        if n:
            yield Chunk(first_record, start, offsets, view[:end])
        first_record, start = first_record + n, start + end
        if start < size:
            need, problem = _next_size(view[end:], size - start)
            if problem:
                raise CorruptRecordError(problem, path=path, offset=start, record=first_record)
            want = max(chunk_size, need)


def unframe(
    buffer: Buffer,
    offsets: NDArray[Any] | Sequence[int],
    *,
    path: str,
    offset: int = 0,
    first_record: int = 0,
    check: bool = True,
) -> list[memoryview]:
    """Returns the data of records whose places are known, as views into the buffer.

    Args:
        buffer: framed records, one after another.
        offsets: n + 1 ascending offsets into the buffer, in bytes: where each record begins, and where the last ends.
        path: the file, for errors.
        offset: where the buffer begins in the file, in bytes.
        first_record: number in the file of the record at `offsets[0]`.
        check: whether to check the CRCs; that the lengths agree with the offsets is always checked.

    Raises:
        CorruptRecordError: a CRC differs, or a length does not agree with the offsets; the first such record is named.
    """
    view = _as_bytes(buffer)
    unframe_block = _unframe_few if len(offsets) <= _FEW else _unframe_many
    records = unframe_block(view, offsets, check)
    bad = len(records)
    if bad < len(offsets) - 1:
        _unframe_one(view, int(offsets[bad]), int(offsets[bad + 1]), path, offset, first_record + bad, check)
    return records


def _unframe_few(view: memoryview, offsets: NDArray[Any] | Sequence[int], check: bool) -> list[memoryview]:
    """Returns the data of the records before the first bad one."""
    places = offsets.tolist() if isinstance(offsets, np.ndarray) else offsets
    records: list[memoryview] = []
    for start, stop in itertools.pairwise(places):
        if not (0 <= start <= stop - OVERHEAD and stop <= len(view)):
            break
        length, length_crc = _HEADER.unpack_from(view, start)
        data = view[start + _HEADER.size : stop - 4]
        if length != stop - start - OVERHEAD:
            break
        if check:
            (data_crc,) = _U32.unpack_from(view, stop - 4)
            if masked_crc32c(data) != data_crc or masked_crc32c(view[start : start + 8]) != length_crc:
                break
        records.append(data)
    return records


def _unframe_many(view: memoryview, offsets: NDArray[Any] | Sequence[int], check: bool) -> list[memoryview]:
    """Returns the data of the records before the first bad one."""
    places = np.asarray(offsets).astype(np.int64, copy=False)
    bad = _first_misplaced(view, places, check)
    records = _data_views(view, places[: bad + 1])
    if check:
        bad = _first_bad_data(view, places[: bad + 1], map(crc32c, records))
    return records[:bad] if bad < len(records) else records


_FEW = 24
"""Up to about so many records, a loop is faster than NumPy."""


def _unframe_one(
    buffer: memoryview, start: int, stop: int | None, path: str, offset: int, record: int, check: bool
) -> memoryview:
    """Returns the data of the record in bytes [start, stop) of the buffer, or from `start` where None; or raises."""
    view, room = buffer[max(start, 0) :], None
    if stop is not None:
        view, room = buffer[max(start, 0) : max(stop, 0)], stop - start
    problem = _header_problem(view, len(view), check, room)
    if not problem:
        data = view[_HEADER.size : _HEADER.size + _LENGTH_AT(view)[0]]
        problem = _data_problem(view, data) if check else None
        if not problem:
            return data
    raise CorruptRecordError(problem, path=path, offset=offset + start, record=record)


def _header_problem(view: memoryview, left: int, check: bool = True, room: int | None = None) -> str | None:
    """Returns what is wrong with the header that the view begins with, `left` bytes before the end of the file."""
    if len(view) < _HEADER.size:
        return f"{len(view)} bytes are left, but a record's header has {_HEADER.size}. {_CUT}"
    length, stored = _HEADER.unpack_from(view)
    if check and (got := masked_crc32c(view[:8])) != stored:
        return f"length CRC is {got:#010x}, stored {stored:#010x}. {_DAMAGED}"
    if room is not None and length + OVERHEAD != room:
        return f"the record's length is {length} bytes, but by the offsets it is {room - OVERHEAD}. {_DAMAGED}"
    if length + OVERHEAD > left:
        return f"the record has {length} bytes and 4 of CRC, but only {left - _HEADER.size} are left. {_CUT}"
    return None


def _data_problem(view: memoryview, data: memoryview) -> str | None:
    """Returns what is wrong with the data of the record that the view begins with."""
    (stored,) = _U32.unpack_from(view, _HEADER.size + len(data))
    if (got := masked_crc32c(data)) != stored:
        return f"data CRC is {got:#010x}, stored {stored:#010x}. {_DAMAGED}"
    return None


def _next_size(view: memoryview, left: int) -> tuple[int, str | None]:
    """Returns how many bytes to read for a record that is cut by the view's end, and what is wrong with it.

    No more than the file has, so that a wrong length allocates nothing.
    """
    if len(view) < min(_HEADER.size, left):
        return _HEADER.size, None
    problem = _header_problem(view, left)
    return (0, problem) if problem else (_HEADER.unpack_from(view)[0] + OVERHEAD, None)


def _walk(view: memoryview) -> NDArray[np.int64]:
    """Returns the offsets of the whole records in the view, led by the lengths as they stand, unchecked."""
    offsets = [0]
    append, length_at = offsets.append, _LENGTH_AT
    end = len(view)
    last = end - OVERHEAD
    place = 0
    while place <= last:
        place += length_at(view, place)[0] + OVERHEAD
        if place > end:
            break
        append(place)
    return np.array(offsets, np.int64)


def _check_scanned(
    view: memoryview, offsets: NDArray[np.int64], path: str, offset: int, first_record: int, check: bool
) -> None:
    """Raises CorruptRecordError for the first bad record of those that `_walk` found."""
    n = len(offsets) - 1
    headers = _headers(view, offsets[:-1])
    bad = _first(_length_crcs(headers["length"]) != headers["crc"], n)
    if check:
        good = offsets[: bad + 1]
        starts, stops = _data_places(good)
        crcs = [crc32c(view[a:b]) for a, b in zip(starts, stops)]
        bad = min(bad, _first_bad_data(view, good, crcs))
    if bad < n:
        _unframe_one(view, int(offsets[bad]), None, path, offset, first_record + bad, True)


def _first_misplaced(view: memoryview, offsets: NDArray[np.int64], check: bool) -> int:
    """Returns the first record whose header does not agree with the offsets or its CRC; n where there is none."""
    n = len(offsets) - 1
    sizes = np.diff(offsets)
    outside = (sizes < OVERHEAD) | (offsets[:-1] < 0) | (offsets[1:] > len(view))
    n = _first(outside, n)
    headers = _headers(view, offsets[:n])
    wrong = headers["length"] != (sizes[:n] - OVERHEAD).astype(np.uint64)
    if check:
        wrong |= _length_crcs(headers["length"]) != headers["crc"]
    return _first(wrong, n)


def _first_bad_data(view: memoryview, offsets: NDArray[np.int64], crcs: Iterable[int]) -> int:
    """Returns the first record whose data's CRC is not the one that follows them; n where there is none."""
    n = len(offsets) - 1
    got = _mask(np.fromiter(crcs, np.uint32, n))
    return _first(got != _gather(view, offsets[1:] - 4, 4).view("<u4"), n)


def _data_views(view: memoryview, offsets: NDArray[np.int64]) -> list[memoryview]:
    starts, stops = _data_places(offsets)
    return [view[a:b] for a, b in zip(starts, stops)]


def _data_places(offsets: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Returns where the data of each record begin and end."""
    return (offsets[:-1] + _HEADER.size).tolist(), (offsets[1:] - 4).tolist()


def _headers(view: memoryview, places: NDArray[np.int64]) -> NDArray[Any]:
    return _gather(view, places, _HEADER.size).view(_RECORD_HEADER)


def _gather(view: memoryview, places: NDArray[np.int64], width: int) -> NDArray[np.void]:
    """Returns the `width` bytes at each place."""
    if not len(places):
        return np.empty(0, f"V{width}")
    # Overlapping items, one beginning at each byte: the gather copies `width` bytes at a time.
    items = np.ndarray((len(view) - width + 1,), f"V{width}", view, 0, (1,))
    return items[places]


def _first(wrong: NDArray[np.bool_], n: int) -> int:
    """Returns the index of the first True, or n."""
    return int(wrong.argmax()) if wrong.any() else n


def _length_crcs(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Returns the masked CRC-32C of each length's 8 bytes.

    A CRC is affine: the CRC of 8 bytes is that of 8 zeros, XOR a term for each byte that is not zero.
    """
    zeros, tables = _length_tables()
    crcs = np.full(len(lengths), zeros, np.uint32)
    rest = lengths.astype(np.uint64)
    for table in tables:
        if not rest.any():
            break
        crcs ^= table[rest & np.uint64(0xFF)]
        rest >>= np.uint64(8)
    return _mask(crcs)


@functools.cache
def _length_tables() -> tuple[int, NDArray[np.uint32]]:
    """Returns the CRC of 8 zero bytes, and for byte i of value b the term `tables[i, b]`."""
    zeros: int = crc32c(bytes(8))
    terms = [[crc32c(struct.pack("<Q", b << 8 * i)) ^ zeros for b in range(256)] for i in range(8)]
    return zeros, np.array(terms, np.uint32)


def _mask(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_MASK_DELTA)


def _as_bytes(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
