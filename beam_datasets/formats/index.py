"""Index of a shard: the offset and the sort key of each record, as arrays that can be mapped into memory.

A file of little-endian numbers, of 40 + 8 (n + 1) bytes, and 16 n more where the keys are present:

    magic     8 bytes   b"BDINDEX" and the format's version, 1
    n         u64       number of records
    size      u64       the shard's size in bytes
    flags     u32       bit 0: keys are present; bit 1: they are ordered integers, not hashes;
                        bit 2: they do not ascend
    crc       u32       CRC-32C of the offsets
    crc       u32       CRC-32C of the keys
    crc       u32       CRC-32C of the 36 bytes before
    offsets   u64       n + 1 offsets in bytes: the start of each record in the shard, and the end of the last one
    keys      16 bytes  n sort keys, ascending unless bit 2 is set (see `metadata.keys`)

Bit 2 is set if the shard contains stretches of several splits one after the other: keys ascend only in each stretch.
A change of this layout, or a flag that an older reader must not ignore, raises the version.
"""

from __future__ import annotations

import bisect
import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beam_datasets.errors import MetadataError
from beam_datasets.extras import Buffer
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.native import crc32c

KEY_SIZE = 16
"""Bytes of a sort key."""

_MAGIC = b"BDINDEX"
_VERSION = 1
_HEADER = struct.Struct("<7sBQQIIII")
_HAS_KEYS, _ORDERED, _UNSORTED = 1, 2, 4
_VALID_FLAGS = (0, *(_HAS_KEYS | more for more in (0, _ORDERED, _UNSORTED, _ORDERED | _UNSORTED)))
_OFFSET = np.dtype("<u8")
_REPAIR_ADVICE = "The index is damaged; delete it to have the shard scanned instead, or restore it"


class Index:
    """Offsets and sort keys of the records of a shard. Immutable.

    >>> index = Index([0, 20, 50], [bytes(15) + b"a", bytes(15) + b"b"])
    >>> len(index), index.find(bytes(15) + b"b"), index.find(bytes(16))
    (2, 1, None)
    """

    __slots__ = ("_keys", "_offsets", "_ordered", "_pending_keys_check", "_unsorted")

    _offsets: NDArray[np.uint64]
    _keys: NDArray[np.uint8] | None
    _ordered: bool
    _unsorted: bool
    _pending_keys_check: tuple[int, str] | None
    """(CRC of the keys in the file, path of the file) if the keys have not been checked yet; None otherwise."""

    def __init__(
        self, offsets: ArrayLike, keys: ArrayLike | None = None, *, ordered: bool = False, unsorted: bool = False
    ) -> None:
        """Checks the arrays, and keeps them without a copy if they have the right types.

        Args:
            offsets: n + 1 integers in bytes: the start of each record in the shard, and the end of the last one.
            keys: n sort keys, strictly ascending: uint8 of shape (n, 16), or a sequence of `bytes`; None for no keys.
            ordered: whether the keys are ordered integers (`metadata.keys.ordered_key`), not hashes.
            unsorted: whether the keys may be in any order. If they ascend, it has no effect.

        Raises:
            ValueError: the arrays are invalid.
        """
        self._offsets = _to_offsets(offsets)
        self._keys = None if keys is None else _to_keys(keys)
        self._ordered = ordered
        self._pending_keys_check = None
        problem = _find_offsets_problem(self._offsets)
        self._unsorted = unsorted and self._keys is not None and _find_descent(self._keys) is not None
        if not problem and self._keys is not None:
            problem = _find_keys_problem(self._keys, len(self), self._unsorted)
        if not problem and ordered and keys is None:
            problem = "ordered=True needs keys that are integers, got no keys"
        if problem:
            raise ValueError(problem)

    @property
    def offsets(self) -> NDArray[np.uint64]:
        """The start of each record in the shard, and the end of the last one, in bytes; shape (n + 1,)."""
        return self._offsets

    @property
    def has_keys(self) -> bool:
        """Whether the sort keys are present."""
        return self._keys is not None

    @property
    def keys(self) -> NDArray[np.uint8] | None:
        """The sort keys, of shape (n, 16), strictly ascending unless `unsorted`; None if they are not present.

        Raises:
            MetadataError: the keys in the file are damaged. The keys are checked at their first use.
        """
        if self._pending_keys_check is not None and self._keys is not None:
            crc, path = self._pending_keys_check
            if (computed_crc := crc32c(self._keys.data)) != crc:
                raise MetadataError(
                    f"CRC of the keys is {computed_crc:#010x}, stored {crc:#010x}. {_REPAIR_ADVICE}", path=path
                )
            if problem := _find_keys_problem(self._keys, len(self), self._unsorted):
                raise MetadataError(f"{problem}. {_REPAIR_ADVICE}", path=path)
            self._pending_keys_check = None
        return self._keys

    @property
    def ordered(self) -> bool:
        """Whether the keys are ordered integers, not hashes."""
        return self._ordered

    @property
    def unsorted(self) -> bool:
        """Whether the keys do not ascend: the shard has examples of several stretches, see `metadata.lineage`."""
        return self._unsorted

    @property
    def descents(self) -> NDArray[np.int64]:
        """Indices of the records whose key is not less than the key of the next record; empty unless `unsorted`.

        Raises:
            MetadataError: the keys in the file are damaged.
        """
        keys = self.keys
        return np.flatnonzero(_mark_descents(keys)) if self._unsorted and keys is not None else np.empty(0, np.int64)

    @property
    def shard_size(self) -> int:
        """The shard's size in bytes."""
        return int(self._offsets[-1])

    def __len__(self) -> int:
        """The number of records."""
        return len(self._offsets) - 1

    def find(self, sort_key: bytes, start: int = 0, stop: int | None = None) -> int | None:
        """Returns the index in the shard of the record with a sort key; None if no record in [start, stop) has it.

        Args:
            sort_key: the sort key, 16 bytes.
            start: the index of the first record of the searched range.
            stop: the index after the last record of the searched range; None for the end of the shard. The keys must
                ascend in this range.

        Raises:
            MetadataError: the keys are not present or damaged.
            ValueError: the keys do not ascend, and no stretch is given in which they do.
        """
        if len(sort_key) != KEY_SIZE:
            raise ValueError(f"a sort key has {KEY_SIZE} bytes; got {len(sort_key)}: {sort_key!r}")
        keys = self.keys
        if keys is None:
            raise MetadataError("this index has no sort keys to find a record by; its shard was written without keys")
        if self._unsorted and stop is None:
            raise ValueError("the keys of this index do not ascend; say in which stretch of it to look")
        stop = len(self) if stop is None else stop
        record = bisect.bisect_left(range(len(self)), sort_key, start, stop, key=lambda i: keys[i].tobytes())
        return record if record < stop and keys[record].tobytes() == sort_key else None

    def to_bytes(self) -> bytes:
        """Returns the content of the index file."""
        keys = self.keys
        flags = _HAS_KEYS * (keys is not None) | _ORDERED * self._ordered | _UNSORTED * self._unsorted
        key_bytes = b"" if keys is None else keys.data
        crcs = crc32c(self._offsets.data), crc32c(key_bytes)
        header = _HEADER.pack(_MAGIC, _VERSION, len(self), self.shard_size, flags, *crcs, 0)[:-4]
        return b"".join((header, struct.pack("<I", crc32c(header)), self._offsets.data, key_bytes))

    @classmethod
    def from_bytes(cls, buffer: Buffer, *, path: str) -> Index:
        """Returns the index in a buffer; its arrays are views of the buffer.

        The keys are checked at their first use, and everything else is checked here, as reading examples needs only the
        offsets.

        Args:
            buffer: the content of the file, for instance mapped into memory.
            path: the file, for errors.

        Raises:
            MetadataError: the index is damaged, or of a format that this version cannot read.
        """
        view = memoryview(buffer).cast("B")
        n, flags, keys_crc = _check_all_but_keys(view, path)
        index = cls.__new__(cls)
        index._offsets = np.frombuffer(view, _OFFSET, n + 1, _HEADER.size)
        index._ordered = bool(flags & _ORDERED)
        index._unsorted = bool(flags & _UNSORTED)
        index._keys = index._pending_keys_check = None
        if flags & _HAS_KEYS:
            keys = np.frombuffer(view, np.uint8, KEY_SIZE * n, _HEADER.size + 8 * (n + 1))
            index._keys = keys.reshape(n, KEY_SIZE)
            index._pending_keys_check = keys_crc, path
        return index

    def __repr__(self) -> str:
        keys = "ordered keys" if self._ordered else "hashed keys" if self.has_keys else "no keys"
        return f"Index({len(self)} records, {self.shard_size} bytes, {keys})"


def _check_all_but_keys(view: memoryview, path: str) -> tuple[int, int, int]:
    """Checks an index file except for its keys, and returns (number of records, flags, CRC of the keys).

    Args:
        view: the content of the file.
        path: the file, for errors.

    Raises:
        MetadataError: the index is damaged, or of a format that this version cannot read.
    """
    n, size, flags, offsets_crc, keys_crc = _read_header(view, path)
    offsets = np.frombuffer(view, _OFFSET, n + 1, _HEADER.size)
    if (computed_crc := crc32c(offsets.data)) != offsets_crc:
        raise MetadataError(
            f"CRC of the offsets is {computed_crc:#010x}, stored {offsets_crc:#010x}. {_REPAIR_ADVICE}", path=path
        )
    if problem := _find_offsets_problem(offsets):
        raise MetadataError(f"{problem}. {_REPAIR_ADVICE}", path=path)
    if (end := int(offsets[-1])) != size:
        raise MetadataError(f"the last offset is {end}, but the shard's size is {size}. {_REPAIR_ADVICE}", path=path)
    return n, flags, keys_crc


def _read_header(view: memoryview, path: str) -> tuple[int, int, int, int, int]:
    """Checks the header of an index file, and returns its fields.

    The fields are (number of records, size of the shard in bytes, flags, CRC of the offsets, CRC of the keys).

    Raises:
        MetadataError: the header is damaged, or of a format that this version cannot read.
    """
    if len(view) < _HEADER.size:
        raise MetadataError(
            f"{path} has {len(view)} bytes, but the header of an index has {_HEADER.size}. {_REPAIR_ADVICE}"
        )
    magic, version, n, size, flags, offsets_crc, keys_crc, crc = _HEADER.unpack_from(view)
    if magic != _MAGIC:
        raise MetadataError(f"{path} is not an index: it begins with {bytes(view[:8])!r}, not {_MAGIC!r}")
    if version != _VERSION:
        raise MetadataError(
            f"{path} is an index of format {version}, and this version of beam_datasets reads format {_VERSION}. "
            "Upgrade beam_datasets, or delete the index to have the shard scanned instead"
        )
    if (computed_crc := crc32c(view[:36])) != crc:
        raise MetadataError(
            f"CRC of the header is {computed_crc:#010x}, stored {crc:#010x}. {_REPAIR_ADVICE}", path=path
        )
    if flags not in _VALID_FLAGS:
        raise MetadataError(f"the flags are {flags:#x}, but {_VALID_FLAGS} are known. {_REPAIR_ADVICE}", path=path)
    expected = _HEADER.size + 8 * (n + 1) + (KEY_SIZE * n if flags & _HAS_KEYS else 0)
    if len(view) != expected:
        raise MetadataError(
            f"{path} has {len(view)} bytes, but an index of {n} records has {expected}. {_REPAIR_ADVICE}"
        )
    return n, size, flags, offsets_crc, keys_crc


def _to_offsets(offsets: ArrayLike) -> NDArray[np.uint64]:
    """Returns the offsets as little-endian uint64, without a copy if they have that type.

    Raises:
        ValueError: the argument is not a non-empty array of integers of one dimension, or an offset is negative.
    """
    array: NDArray[Any] = np.asarray(offsets)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise ValueError(f"offsets are n + 1 integers; got {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "i" and array.min() < 0:
        raise ValueError(f"offsets are 0 or more; got {array.min()}")
    return np.ascontiguousarray(array, "<u8")


def _to_keys(keys: ArrayLike) -> NDArray[np.uint8]:
    """Returns the keys, an array or a sequence of bytes, as an array of uint8 of shape (n, 16).

    Raises:
        ValueError: a key has another size, or the array has another shape or dtype.
    """
    if isinstance(keys, np.ndarray):
        array: NDArray[Any] = keys
    else:
        key_list: list[bytes] = list(keys)  # type: ignore[arg-type]
        if invalid_keys := [key for key in key_list if len(key) != KEY_SIZE]:
            raise ValueError(f"a sort key has {KEY_SIZE} bytes; got {len(invalid_keys[0])}: {invalid_keys[0]!r}")
        array = np.frombuffer(b"".join(key_list), np.uint8).reshape(-1, KEY_SIZE)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != KEY_SIZE:
        raise ValueError(f"keys are uint8 of shape (n, {KEY_SIZE}); got {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(array)


def _find_offsets_problem(offsets: NDArray[np.uint64]) -> str | None:
    """Returns the problem of invalid offsets, as a clause such as "the first record begins at byte 8, ..."; or None.

    Valid offsets start at 0 and ascend by at least the size of the framing of a record, 16 bytes.
    """
    if offsets[0] != 0:
        return f"the first record begins at byte {offsets[0]}, but must at 0"
    # Compared, not subtracted: a difference of unsigned numbers does not go below 0.
    is_too_short = (offsets[1:] < offsets[:-1]) | (offsets[1:] - offsets[:-1] < OVERHEAD)
    if not is_too_short.any():
        return None
    i = int(is_too_short.argmax())
    return (
        f"record {i} is from byte {offsets[i]} to {offsets[i + 1]}, but a framed record has at least {OVERHEAD} bytes"
    )


def _find_keys_problem(keys: NDArray[np.uint8], n: int, unsorted: bool) -> str | None:
    """Returns the problem of invalid keys, as a clause such as "there are 3 records but 2 keys"; None if valid.

    Args:
        keys: the sort keys, of shape (number of keys, 16).
        n: the number of records, which must be the number of keys.
        unsorted: whether some key must not be greater than the one before; otherwise keys must ascend strictly.
    """
    if len(keys) != n:
        return f"there are {n} records but {len(keys)} keys"
    i = _find_descent(keys)
    if unsorted == (i is not None):
        return None
    if i is None:
        return "the sort keys ascend, but the flags say that they do not"
    return (
        "sort keys must ascend, and differ, but those of records "
        f"{i} and {i + 1} are {keys[i].tobytes().hex()} and {keys[i + 1].tobytes().hex()}"
    )


def _find_descent(keys: NDArray[np.uint8]) -> int | None:
    """Returns the index of the first key that is not less than the next one; None if the keys ascend strictly."""
    descents = _mark_descents(keys)
    return int(descents.argmax()) if descents.any() else None


def _mark_descents(keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Returns whether each key is not less than the next one, as bools of shape (n - 1,) for keys of shape (n, 16)."""
    halves = keys.view(">u8")
    high, low = halves[:, 0], halves[:, 1]
    descents: NDArray[np.bool_] = (high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] <= low[:-1]))
    return descents
