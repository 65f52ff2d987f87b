"""A small shard looked at as a whole: nearly always all of it is good, and nothing need be asked record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from beam_datasets.errors import StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.native import core

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from beam_datasets import storage

GLANCE_BYTES = 1 << 20
"""Larger shards are read a piece at a time."""

_HAS_KEYS, _ORDERED = 1, 2  # flags of an index
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
        return bool(self.flags & _HAS_KEYS)

    @property
    def ordered(self) -> bool:
        """Whether they are integers in their order."""
        return bool(self.flags & _ORDERED)

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
