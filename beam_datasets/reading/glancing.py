"""A small shard looked at as a whole: nearly always all of it is good, and nothing need be asked record by record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.native import core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

GLANCE_BYTES = 1 << 20
"""Larger shards are read a piece at a time."""

GLANCED = np.dtype(
    [
        ("num_records", "<i8"),
        ("size", "<i8"),
        ("first_size", "<i8"),
        ("crc32c", "<u4"),
        ("index_crc32c", "<u4"),
        ("flags", "<u4"),
        ("state", "<u4"),
        ("first_key", ">u8", 2),
        ("last_key", ">u8", 2),
    ]
)
"""What was seen of one of many shards, as `GoodShard` says; `state` is one of those below."""

REFUSED, NO_INDEX, INDEXED = 0, 1, 2
HAS_KEYS, ORDERED = 1, 2  # flags of an index

_SECONDS = 0.1  # of one call, so that it can be interrupted
_RECORD_AT = 12  # bytes of a header


class GoodShard(NamedTuple):
    """A shard and its index, read as a whole: every checksum is right, and the one says what the other has.

    Attributes:
        content: the file.
        index_content: the file of its index; None where there is none.
        size: of the file, in bytes.
        num_records: in the file, at least one.
        crc32c: of the file.
        index_crc32c: of the index; 0 where there is none.
        flags: of the index.
        first_size: bytes of the first record.
        first_key: the lowest sort key; None where there are none. They ascend.
        last_key: the highest.
    """

    content: Buffer
    index_content: Buffer | None
    size: int
    num_records: int
    crc32c: int
    index_crc32c: int
    flags: int
    first_size: int
    first_key: bytes | None
    last_key: bytes | None

    @property
    def has_keys(self) -> bool:
        """Whether the index has sort keys."""
        return bool(self.flags & HAS_KEYS)

    @property
    def ordered(self) -> bool:
        """Whether they are integers in their order."""
        return bool(self.flags & ORDERED)

    @property
    def first(self) -> bytes:
        """The first record."""
        return bytes(memoryview(self.content)[_RECORD_AT : _RECORD_AT + self.first_size])

    def records(self) -> list[bytes]:
        """Returns all records."""
        offsets = tfrecord.scan(self.content, path="", check=False)
        return tfrecord.unframe(self.content, offsets, path="", check=False)


def glance(reader: storage.Reader, index: Buffer | None) -> GoodShard | None:
    """Returns a small shard, read, where all of it and of its index is good; else None, and nothing is said of why.

    None is also what is odd (no records, keys that begin anew), and all shards where there is no native module.

    Args:
        reader: of the shard.
        index: the file of its index; None where there is none.
    """
    if core is None or not 0 < reader.size <= GLANCE_BYTES:
        return None
    try:
        content = reader.read()
    except StorageError:
        return None
    seen = core.glance(content, index)
    return None if seen is None else GoodShard(content, index, reader.size, *seen)


def can_glance_at_files(directory: str) -> bool:
    """Returns whether `glance_at_files` may see anything in a directory: a local one, where the native module is."""
    return hasattr(core, "glance_files") and not storage.is_remote(directory)


def glance_at_files(
    directory: str, names: Sequence[str], suffix: str, rows: NDArray[Any], seconds: float = _SECONDS
) -> tuple[int, list[bytes]]:
    """Reads small local shards, one after the other, and fills their rows; other threads run meanwhile.

    A row is of zeros, `REFUSED`, for each shard for which `glance` would return None, and for each that cannot be read
    with its index, for whatever reason.

    Args:
        directory: where they are; see `can_glance_at_files`.
        names: of the shards.
        suffix: what the names of their indexes end with besides.
        rows: an array of `GLANCED`, as long.
        seconds: after which no further shard is begun.

    Returns:
        How many shards were looked at, one at least; and the first records of those that are good.
    """
    try:
        texts = os.fsencode("\0".join(names))
    except UnicodeError:  # no file has such a name
        rows[:] = np.zeros((), GLANCED)
        return len(names), []
    return core.glance_files(directory, texts, suffix, GLANCE_BYTES, seconds, rows)  # type: ignore[union-attr, no-any-return]
