"""The work on framed records in plain Python and NumPy: what `tfrecord` does where the native module is missing.

Lengths and CRCs of a block of records are computed and compared by NumPy; only the CRC of the data is a call a record.
Nothing is said of a bad record: functions give the good ones before it, and `tfrecord` looks at it again.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

OVERHEAD = 16
HEADER = struct.Struct("<QI")
U32 = struct.Struct("<I")
LENGTH = struct.Struct("<Q")

_MASK_DELTA = 0xA282EAD8
_RECORD_HEADER = np.dtype([("length", "<u8"), ("crc", "<u4")])
_FEW = 24  # records: up to about so many, a loop is faster than NumPy


def masked_crc32c(data: Any) -> int:
    """Returns the CRC-32C of the data as it stands in a TFRecord."""
    crc: int = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def frame(records: Sequence[bytes], group: int) -> tuple[list[bytes], NDArray[np.uint64]]:
    """Returns the records framed, `group` of them joined at a time, and their framed sizes in bytes."""
    n = len(records)
    headers = np.empty(n, _RECORD_HEADER)
    headers["length"] = np.fromiter(map(len, records), np.uint64, n)
    headers["crc"] = length_crcs(headers["length"])
    footers = _mask(np.fromiter(map(crc32c, records), np.uint32, n)).astype("<u4")
    # As void, not as "S": the latter drops trailing zero bytes.
    parts: list[bytes] = [b""] * (3 * n)
    parts[0::3], parts[1::3], parts[2::3] = headers.view("V12").tolist(), records, footers.view("V4").tolist()
    joined = [b"".join(parts[start : start + 3 * group]) for start in range(0, 3 * n, 3 * group)]
    return joined, headers["length"] + np.uint64(OVERHEAD)


def good_offsets(view: memoryview, check: bool) -> NDArray[np.int64]:
    """Returns where the good records before the first bad or cut one begin, and where the last of them ends.

    Args:
        view: framed records, one after another.
        check: whether to check the CRC of each record's data; that of its length is always checked.
    """
    offsets = _walk(view)
    n = len(offsets) - 1
    headers = _headers(view, offsets[:-1])
    bad = _first(length_crcs(headers["length"]) != headers["crc"], n)
    if check:
        good = offsets[: bad + 1]
        starts, stops = _data_places(good)
        crcs = [crc32c(view[a:b]) for a, b in zip(starts, stops)]
        bad = min(bad, _first_bad_data(view, good, crcs))
    return offsets[: bad + 1]


def good_records(view: memoryview, offsets: NDArray[Any] | Sequence[int], check: bool) -> list[bytes]:
    """Returns the data of the good records before the first bad one.

    Args:
        view: framed records, one after another.
        offsets: where each begins, and where the last one ends; a record that is not inside the view is bad.
        check: whether to check the CRCs; that the lengths agree with the offsets is always checked.
    """
    if len(offsets) <= _FEW:
        return _good_of_few(view, offsets.tolist() if isinstance(offsets, np.ndarray) else offsets, check)
    places = np.asarray(offsets).astype(np.int64, copy=False)
    bad = _first_misplaced(view, places, check)
    starts, stops = _data_places(places[: bad + 1])
    records = [view[a:b].tobytes() for a, b in zip(starts, stops)]
    if check:
        bad = _first_bad_data(view, places[: bad + 1], map(crc32c, records))
    return records[:bad] if bad < len(records) else records


def _good_of_few(view: memoryview, places: Sequence[int], check: bool) -> list[bytes]:
    records: list[bytes] = []
    for start, stop in itertools.pairwise(places):
        if not (0 <= start <= stop - OVERHEAD and stop <= len(view)):
            break
        length, length_crc = HEADER.unpack_from(view, start)
        data = view[start + HEADER.size : stop - 4].tobytes()
        if length != stop - start - OVERHEAD:
            break
        if check:
            (data_crc,) = U32.unpack_from(view, stop - 4)
            if masked_crc32c(data) != data_crc or masked_crc32c(view[start : start + 8]) != length_crc:
                break
        records.append(data)
    return records


def _walk(view: memoryview) -> NDArray[np.int64]:
    """Returns the offsets of the whole records in the view, led by the lengths as they stand, unchecked."""
    offsets = [0]
    append, length_at = offsets.append, LENGTH.unpack_from
    end = len(view)
    last = end - OVERHEAD
    place = 0
    while place <= last:
        place += length_at(view, place)[0] + OVERHEAD
        if place > end:
            break
        append(place)
    return np.array(offsets, np.int64)


def _first_misplaced(view: memoryview, offsets: NDArray[np.int64], check: bool) -> int:
    """Returns the first record whose header does not agree with the offsets or its CRC; n where there is none."""
    n = len(offsets) - 1
    sizes = np.diff(offsets)
    outside = (sizes < OVERHEAD) | (offsets[:-1] < 0) | (offsets[1:] > len(view))
    n = _first(outside, n)
    headers = _headers(view, offsets[:n])
    wrong = headers["length"] != (sizes[:n] - OVERHEAD).astype(np.uint64)
    if check:
        wrong |= length_crcs(headers["length"]) != headers["crc"]
    return _first(wrong, n)


def _first_bad_data(view: memoryview, offsets: NDArray[np.int64], crcs: Iterable[int]) -> int:
    """Returns the first record whose data's CRC is not the one that follows them; n where there is none."""
    n = len(offsets) - 1
    got = _mask(np.fromiter(crcs, np.uint32, n))
    return _first(got != _gather(view, offsets[1:] - 4, 4).view("<u4"), n)


def _data_places(offsets: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Returns where the data of each record begin and end."""
    return (offsets[:-1] + HEADER.size).tolist(), (offsets[1:] - 4).tolist()


def _headers(view: memoryview, places: NDArray[np.int64]) -> NDArray[Any]:
    return _gather(view, places, HEADER.size).view(_RECORD_HEADER)


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


def length_crcs(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
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
