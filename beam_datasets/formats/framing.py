"""Framed records in plain Python: what `tfrecord` uses if the native module is missing, and its oracle in tests.

Functions return the good records before the first bad one; `tfrecord` then says what is wrong with that one.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

OVERHEAD = 16
HEADER = struct.Struct("<QI")
U32 = struct.Struct("<I")
LENGTH = struct.Struct("<Q")

_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: Any) -> int:
    """Returns the CRC-32C of the data as it stands in a TFRecord."""
    crc: int = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def frame(record: Any) -> bytes:
    """Returns the record with its header and footer."""
    length = LENGTH.pack(memoryview(record).nbytes)
    return b"".join((length, U32.pack(masked_crc32c(length)), record, U32.pack(masked_crc32c(record))))


def good_offsets(view: memoryview, check: bool) -> NDArray[np.int64]:
    """Returns where the good records before the first bad or cut one begin, and where the last of them ends.

    Args:
        view: framed records, one after another.
        check: whether to check the CRC of each record's data; that of its length is always checked.
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


def good_records(view: memoryview, offsets: NDArray[Any] | Sequence[int], check: bool) -> list[bytes]:
    """Returns the data of the good records before the first bad one.

    Args:
        view: framed records, one after another.
        offsets: where each begins, and where the last one ends; a record that is not inside the view is bad.
        check: whether to check the CRCs; that the lengths agree with the offsets is always checked.
    """
    records: list[bytes] = []
    for start, stop in itertools.pairwise(np.asarray(offsets).tolist()):
        if not (0 <= start <= stop - OVERHEAD and stop <= len(view)):
            break
        length, crc = HEADER.unpack_from(view, start)
        if length != stop - start - OVERHEAD:
            break
        if check and not (masked_crc32c(view[start : start + 8]) == crc and _has_good_data(view, start, stop)):
            break
        records.append(view[start + HEADER.size : stop - 4].tobytes())
    return records


def _has_good_data(view: memoryview, start: int, stop: int) -> bool:
    """Returns whether the CRC of the data of the record in bytes [start, stop) is the one that follows them."""
    return bool(masked_crc32c(view[start + HEADER.size : stop - 4]) == U32.unpack_from(view, stop - 4)[0])
