"""TFRecord files: records framed as length, CRC of the length, data, CRC of the data, one after another.

A record is a little-endian u64 length, u32 masked CRC-32C of these 8 bytes, the data, u32 masked CRC-32C of the data;
the mask is a rotation by 15 bits and an addition (TensorFlow: `core/lib/io/record_writer.h`, `core/lib/hash/crc32c.h`).
An empty file has no records; files concatenate.

The native module scans and unframes records. Without it, `plain_offsets` and `plain_records` do; they are also its
oracles in tests. Both return the good records before the first bad one, whose error this module raises.
"""

from __future__ import annotations

import functools
import itertools
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import CorruptRecordError
from beam_datasets.extras import Buffer
from beam_datasets.limits import MAX_RECORD, VARIABLE, limit_of
from beam_datasets.native import core, crc32c

OVERHEAD = 16
HEADER = struct.Struct("<QI")
U32 = struct.Struct("<I")
LENGTH = struct.Struct("<Q")

MAX_RECORD_BYTES = (1 << 31) - 1  # protobuf refuses longer messages, so no tf.train.Example has more
_MASK_DELTA = 0xA282EAD8
PIECE_BYTES = 16 << 20  # of a stream, or of a large record, that are read at once
LARGE_BYTES = 64 << 20  # of a record
_DAMAGED = "The file is damaged; rebuild or restore it"
_TRUNCATED = "The file is cut off; rebuild or restore it"


class Readable(Protocol):
    """A file that `scan_file` can read, such as a `storage.Reader`."""

    @property
    def size(self) -> int:
        """The file's size in bytes."""

    def read(self, start: int, stop: int) -> Buffer:
        """Returns bytes [start, stop) of the file."""


class Chunk(NamedTuple):
    """Complete, adjacent records of a file.

    Attributes:
        first_record: the number in the file of the chunk's first record.
        start: the offset of the chunk in the file, in bytes.
        offsets: the start of each record in `buffer`, and the end of the last one, in bytes; shape (n + 1,).
        buffer: the framed records; `offsets[-1]` bytes.
    """

    first_record: int
    start: int
    offsets: NDArray[np.int64]
    buffer: memoryview

    def records(self) -> list[bytes]:
        """Returns the data of each record, without a check, as `scan_file` has checked them."""
        return good_records(self.buffer, self.offsets, False)


def masked_crc32c(data: Any) -> int:
    """Returns the masked CRC-32C of data, as a TFRecord contains it."""
    return _mask_crc(crc32c(data))


@functools.lru_cache(maxsize=1 << 12)
def _length_crc32c(length: int) -> int:
    """Returns the masked CRC-32C of a record's length, which many records share."""
    return masked_crc32c(LENGTH.pack(length))


def _mask_crc(crc: int) -> int:
    """Returns the masked form of a CRC-32C: rotated right by 15 bits, plus a constant, modulo 2**32."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def frame(record: Any) -> bytes:
    """Returns the record with its header and footer.

    >>> frame(b"").hex()
    '000000000000000029039807d8ea82a2'
    """
    length = LENGTH.pack(memoryview(record).nbytes)
    return b"".join((length, U32.pack(masked_crc32c(length)), record, U32.pack(masked_crc32c(record))))


def frame_all(records: Sequence[bytes]) -> list[bytes]:
    """Returns each record with its header and footer, in order."""
    return list(map(frame, records))


def scan(buffer: Buffer, *, path: str, offset: int = 0, first_record: int = 0) -> NDArray[np.int64]:
    """Returns the offsets of the records in a buffer, after checking the records.

    Args:
        buffer: complete framed records, up to the end of a file.
        path: the file, for errors.
        offset: the offset of the buffer in the file, in bytes.
        first_record: the number in the file of the buffer's first record.

    Returns:
        n + 1 offsets in bytes, relative to the buffer: the start of each record, and the end of the last one.

    Raises:
        CorruptRecordError: a CRC differs, or the buffer ends within a record; the first such record is named.
    """
    view = _to_byte_view(buffer)
    offsets = good_offsets(view, True)
    end = int(offsets[-1])
    if end < len(view):
        _raise_corrupt_record(view, end, None, path, offset, first_record + len(offsets) - 1)
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
    """Yields the records of a file from byte `start` to its end, in chunks of a bounded size.

    A chunk has about `chunk_size` bytes, or contains one larger record. If a read ends within a record, the bytes of
    this record are read again with the next chunk, which is faster than joining the pieces. A record of more than
    `LARGE_BYTES` is first checked piece by piece, so that a damaged one is never in memory completely.

    Args:
        reader: the open file.
        path: the file, for errors.
        start: the offset of a record in the file, in bytes.
        first_record: the number of this record in the file.
        chunk_size: the number of bytes to read at a time.
        check: whether to check the CRC of each record's data; the CRC of its length is always checked.

    Raises:
        CorruptRecordError: a CRC differs, or the file ends within a record. All records before it are yielded first.
    """
    size = reader.size
    read_size = chunk_size
    while start < size:
        view = _to_byte_view(reader.read(start, min(start + read_size, size)))
        offsets = good_offsets(view, check)
        n, end = len(offsets) - 1, int(offsets[-1])
        if n:
            yield Chunk(first_record, start, offsets, view[:end])
        first_record, start = first_record + n, start + end
        if start < size:
            record_size, problem = next_size(view[end:], size - start)
            if check and not problem and record_size > LARGE_BYTES:
                problem = _find_large_record_problem(reader, start, record_size)
            if problem:
                raise CorruptRecordError(problem, path=path, offset=start, record=first_record)
            read_size = max(chunk_size, record_size)


def scan_stream(stream: BinaryIO, path: str, *, offset: int = 0, first_record: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yields (offset of the record's end in bytes, data) of each record of a stream, such as a compressed file.

    Args:
        stream: a stream, positioned at the start of a record.
        path: the file, for errors.
        offset: the offset of this record in the stream, in bytes.
        first_record: the number of this record in the file.

    Raises:
        CorruptRecordError: a CRC differs, or the stream ends within a record. All records before it are yielded first.
    """
    while header := stream.read(HEADER.size):
        # A damaged length may be any number: only one of the right CRC is read.
        size, problem = next_size(memoryview(header), sys.maxsize if len(header) == HEADER.size else len(header))
        if problem and not offset:
            problem = find_signature_problem(header) or problem
        if problem:
            raise CorruptRecordError(problem, path=path, offset=offset, record=first_record)
        framed = header + read_up_to(stream, size - HEADER.size)
        [data] = unframe(framed, [0, size], path=path, offset=offset, first_record=first_record)
        offset, first_record = offset + len(framed), first_record + 1
        yield offset, data


def find_signature_problem(head: Buffer) -> str:
    """Returns the problem of a file that is not a TFRecord file, as a clause; '' if it may be one.

    Args:
        head: the first bytes of the file, 12 or more if it has as many.
    """
    view = memoryview(head)[: HEADER.size]
    if len(view) == HEADER.size and masked_crc32c(view[:8]) == U32.unpack(view[8:])[0]:
        return ""
    expected = "expected a TFRecord file, which begins with a length of 8 bytes and their CRC-32C"
    return f"{expected}, got {bytes(view)!r}. Name its format, or restore it if it is damaged"


def read_up_to(stream: BinaryIO, size: int) -> bytes:
    """Returns the next `size` bytes of a stream, or fewer at its end; allocates no more memory than it reads."""
    parts = []
    while size > 0 and (piece := stream.read(min(size, PIECE_BYTES))):
        parts.append(piece)
        size -= len(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def unframe(
    buffer: Buffer,
    offsets: NDArray[Any] | Sequence[int],
    *,
    path: str,
    offset: int = 0,
    first_record: int = 0,
) -> list[bytes]:
    """Returns the data of records at given offsets, after checking the records.

    Args:
        buffer: framed records, one after another.
        offsets: n + 1 ascending offsets in the buffer, in bytes: the start of each record, and the end of the last one.
        path: the file, for errors.
        offset: the offset of the buffer in the file, in bytes.
        first_record: the number in the file of the record at `offsets[0]`.

    Raises:
        CorruptRecordError: a CRC differs, or a length does not agree with the offsets; the first such record is named.
    """
    view = _to_byte_view(buffer)
    records = good_records(view, offsets, True)
    num_good = len(records)
    if num_good < len(offsets) - 1:
        start, stop = int(offsets[num_good]), int(offsets[num_good + 1])
        _raise_corrupt_record(view, start, stop, path, offset, first_record + num_good)
    return records


def good_offsets(view: memoryview, check: bool) -> NDArray[np.int64]:
    """Returns the offsets of the good records before the first bad or truncated one, and the last one's end, in bytes.

    `check` is whether to check the CRCs of the data; see `plain_offsets`, which it calls without the native module.
    """
    if core is None:
        return plain_offsets(view, check)
    return np.frombuffer(core.scan(view, check), np.int64)


def good_records(view: memoryview, offsets: NDArray[Any] | Sequence[int], check: bool) -> list[bytes]:
    """Returns the data of the records before the first bad one, by the native module if it is installed.

    Args:
        view: framed records, one after another.
        offsets: n + 1 offsets in the view, in bytes: the start of each of n records, and the end of the last one.
        check: whether to check the CRCs.
    """
    if core is None:
        return plain_records(view, offsets, check)
    records: list[bytes] = core.unframe(view, np.ascontiguousarray(offsets, np.int64), check)
    return records


def plain_offsets(view: memoryview, check: bool) -> NDArray[np.int64]:
    """Returns the offsets in bytes of the good records before the first bad or truncated one, and the last one's end.

    For n good records, the result has shape (n + 1,), and begins with 0.

    Args:
        view: framed records, one after another.
        check: whether to check the CRC of each record's data; the CRC of its length is always checked.
    """
    offsets = [0]
    while offsets[-1] + OVERHEAD <= len(view):
        start = offsets[-1]
        length, crc = HEADER.unpack_from(view, start)
        stop = start + length + OVERHEAD
        if stop > len(view) or masked_crc32c(view[start : start + 8]) != crc:
            break
        if check and not _has_good_data(view, start, stop):
            break
        offsets.append(stop)
    return np.array(offsets, np.int64)


def plain_records(view: memoryview, offsets: NDArray[Any] | Sequence[int], check: bool) -> list[bytes]:
    """Returns the data of the records before the first bad one, without framing; of all n if none is bad.

    Args:
        view: framed records, one after another.
        offsets: n + 1 offsets in the view, in bytes: the start of each of n records, and the end of the last one. A
            record outside the view is bad.
        check: whether to check the CRCs; the lengths are always checked against the offsets.
    """
    records: list[bytes] = []
    for start, stop in itertools.pairwise(np.asarray(offsets).tolist()):
        if not (0 <= start <= stop - OVERHEAD and stop <= len(view)):
            break
        length, crc = HEADER.unpack_from(view, start)
        if length != stop - start - OVERHEAD:
            break
        data = view[start + HEADER.size : stop - U32.size].tobytes()
        if check:
            (data_crc,) = U32.unpack_from(view, stop - U32.size)
            if not (crc == _length_crc32c(length) and data_crc == masked_crc32c(data)):
                break
        records.append(data)
    return records


def _has_good_data(view: memoryview, start: int, stop: int) -> bool:
    """Returns whether the data of the framed record in bytes [start, stop) have the CRC that follows them."""
    return bool(masked_crc32c(view[start + HEADER.size : stop - 4]) == U32.unpack_from(view, stop - 4)[0])


def _raise_corrupt_record(
    buffer: memoryview, start: int, stop: int | None, path: str, offset: int, record: int
) -> NoReturn:
    """Raises the CorruptRecordError of a bad record.

    Args:
        buffer: framed records.
        start: the offset of the record in the buffer, in bytes.
        stop: the offset of its end; None if it is not known.
        path: the file.
        offset: the offset of the buffer in the file, in bytes.
        record: the number of the record in the file.
    """
    view, space = buffer[max(start, 0) :], None
    if stop is not None:
        view, space = buffer[max(start, 0) : max(stop, 0)], stop - start
    problem = _find_header_problem(view, len(view), space) or _find_data_problem(view)
    problem = problem or "the record was changed while it was read. Read it again"
    raise CorruptRecordError(problem, path=path, offset=offset + start, record=record)


def _find_header_problem(view: memoryview, num_left: int, space: int | None = None) -> str | None:
    """Returns the problem of a record's header, as a clause; None if the header is good.

    Args:
        view: bytes that begin with the header.
        num_left: the number of bytes from the header to the end of the file.
        space: the size of the framed record by the offsets, in bytes; None if it is not known.
    """
    if len(view) < HEADER.size:
        return f"{len(view)} bytes are left, but a record's header has {HEADER.size}. {_TRUNCATED}"
    length, stored = HEADER.unpack_from(view)
    if (computed_crc := masked_crc32c(view[:8])) != stored:
        return f"length CRC is {computed_crc:#010x}, stored {stored:#010x}. {_DAMAGED}"
    if space is not None and length + OVERHEAD != space:
        return f"the record's length is {length} bytes, but by the offsets it is {space - OVERHEAD}. {_DAMAGED}"
    if length + OVERHEAD > num_left:
        return f"the record has {length} bytes and 4 of CRC, but only {num_left - HEADER.size} are left. {_TRUNCATED}"
    return find_size_problem(length)


def find_size_problem(length: int) -> str | None:
    """Returns the problem of a record that is too large to be read, as a clause; None if it is not.

    Args:
        length: the number of bytes of the record's data.

    Raises:
        InputError: the environment variable with the limit is not a positive integer.
    """
    if length > MAX_RECORD_BYTES:
        return f"the record has {length:,} bytes; no tf.train.Example has more than {MAX_RECORD_BYTES:,}. {_DAMAGED}"
    if length > MAX_RECORD and length > (limit := limit_of(MAX_RECORD)):
        return (
            f"the record has {length:,} bytes, more than {limit:,}; if that is right, set the environment variable "
            f"{VARIABLE}={length} where the dataset is read"
        )
    return None


def exceeds_limit(length: int) -> bool:
    """Returns whether a record of this many bytes may be good, but is larger than the limit of this process.

    Raises:
        InputError: the environment variable with the limit is not a positive integer.
    """
    return length <= MAX_RECORD_BYTES and find_size_problem(length) is not None


def check_sizes(offsets: NDArray[Any] | Sequence[int], *, path: str, first_record: int = 0) -> None:
    """Checks that records are not too large to be read, before they are read.

    Args:
        offsets: n + 1 ascending offsets in the file, in bytes: the start of each record, and the end of the last one.
        path: the file, for errors.
        first_record: the number of the first of the records in the file.

    Raises:
        CorruptRecordError: a record is too large; the first such record is named.
    """
    if offsets[-1] - offsets[0] <= MAX_RECORD:
        return
    for number, (start, stop) in enumerate(itertools.pairwise(np.asarray(offsets).tolist())):
        if problem := find_size_problem(stop - start - OVERHEAD):
            raise CorruptRecordError(problem, path=path, offset=start, record=first_record + number)


def _find_data_problem(view: memoryview) -> str | None:
    """Returns the problem of a record's data, as a clause; None if the data are good.

    Args:
        view: bytes that begin with a complete framed record, whose header is good.
    """
    stop = HEADER.size + LENGTH.unpack_from(view)[0]
    return _compare_crc(masked_crc32c(view[HEADER.size : stop]), view[stop : stop + U32.size])


def _compare_crc(computed_crc: int, stored: Buffer) -> str | None:
    """Returns the problem of data with a wrong CRC, "data CRC is 0x..., stored 0x.... ..."; None if it is right.

    Args:
        computed_crc: the masked CRC of the data.
        stored: the 4 bytes of the stored masked CRC.
    """
    (expected,) = U32.unpack(stored)
    return (
        None if computed_crc == expected else f"data CRC is {computed_crc:#010x}, stored {expected:#010x}. {_DAMAGED}"
    )


def _find_large_record_problem(reader: Readable, start: int, size: int) -> str | None:
    """Returns the problem of the data of a large record, which is read in pieces, as a clause; None if they are good.

    Args:
        reader: the open file.
        start: the offset of the record in the file, in bytes.
        size: the size of the framed record, in bytes.
    """
    crc, stop = 0, start + size - U32.size
    for offset in range(start + HEADER.size, stop, PIECE_BYTES):
        crc = crc32c(reader.read(offset, min(offset + PIECE_BYTES, stop)), crc)
    return _compare_crc(_mask_crc(crc), reader.read(stop, stop + U32.size))


def next_size(view: memoryview, num_left: int) -> tuple[int, str | None]:
    """Returns (size in bytes of the framed record at the start of a view, its problem as a clause or None).

    The size is at most `num_left`, so that a wrong length allocates no memory; 0 if the header has a problem. It is the
    size of a header if the view is shorter than a header.

    Args:
        view: the remaining bytes of a read, which begin with a record that may be truncated.
        num_left: the number of bytes from the start of the record to the end of the file; `sys.maxsize` if it is
            unknown.

    >>> next_size(memoryview(frame(b"abc"))[:14], 100)
    (19, None)
    """
    if len(view) < min(HEADER.size, num_left):
        return HEADER.size, None
    problem = _find_header_problem(view, num_left)
    if problem:
        return 0, problem
    size = LENGTH.unpack_from(view)[0] + OVERHEAD
    return size, _find_data_problem(view) if size <= len(view) else None


def _to_byte_view(buffer: Buffer) -> memoryview:
    """Returns a one-dimensional memoryview of the bytes of a buffer, without a copy."""
    view = memoryview(buffer)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
