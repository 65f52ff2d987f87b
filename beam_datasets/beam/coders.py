"""Coders of what crosses stages in bulk: blocks of records, and histograms of their sort keys.

They are registered with Beam when this module is imported, which unpickling them on a worker does. Equal values have
equal bytes, on any machine. Each coder belongs to one class: a pipeline either spills all of its blocks, or none.
"""

from __future__ import annotations

import struct
from typing import Any

from apache_beam.coders import Coder, registry

from beam_datasets.generate.blocks import KEY_BYTES, SIZE_BYTES, Block, SpilledBlocks
from beam_datasets.generate.histogram import Histogram

_BLOCK = struct.Struct("<IQ")  # bytes of the split's name, records
_SPILLED_BLOCKS = struct.Struct("<I2Q")  # bytes of the split's name, then the numbers


class _PlainCoder(Coder):
    """A coder whose encoding depends on the value alone.

    Attributes:
        kind: class of what is encoded.
    """

    kind: type[Any]

    def is_deterministic(self) -> bool:
        """Returns True."""
        return True

    def to_type_hint(self) -> type[Any]:
        """Returns the class of what is encoded."""
        return self.kind


class BlockCoder(_PlainCoder):
    """Encodes blocks whose payload is inline."""

    kind = Block

    def encode(self, value: Block) -> bytes:
        """Returns the header, the split, the keys, the sizes and the payload."""
        split, header = value.split.encode(), _BLOCK.pack(len(value.split.encode()), len(value))
        return b"".join((header, split, value.keys, value.sizes, value.payload))  # type: ignore[arg-type]

    def decode(self, encoded: bytes) -> Block:
        """Returns the block."""
        length, count = _BLOCK.unpack_from(encoded)
        keys_at = _BLOCK.size + length
        sizes_at = keys_at + count * KEY_BYTES
        payload_at = sizes_at + count * SIZE_BYTES
        split = encoded[_BLOCK.size : keys_at].decode()
        return Block(split, encoded[keys_at:sizes_at], encoded[sizes_at:payload_at], encoded[payload_at:])


class SpilledBlocksCoder(_PlainCoder):
    """Encodes where lists of spilled blocks are."""

    kind = SpilledBlocks

    def encode(self, value: SpilledBlocks) -> bytes:
        """Returns the header, the split and the path."""
        split, path = value.split.encode(), str(value.path).encode("utf-8", "surrogateescape")
        return b"".join((_SPILLED_BLOCKS.pack(len(split), value.start, value.stop), split, path))

    def decode(self, encoded: bytes) -> SpilledBlocks:
        """Returns the blocks."""
        length, start, stop = _SPILLED_BLOCKS.unpack_from(encoded)
        path_at = _SPILLED_BLOCKS.size + length
        split, path = encoded[_SPILLED_BLOCKS.size : path_at].decode(), encoded[path_at:]
        return SpilledBlocks(split, path.decode("utf-8", "surrogateescape"), start, stop)


class HistogramCoder(_PlainCoder):
    """Encodes histograms of sort keys."""

    kind = Histogram

    def encode(self, value: Histogram) -> bytes:
        """Returns the histogram's own encoding."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> Histogram:
        """Returns the histogram."""
        return Histogram.from_bytes(encoded)


for _coder in (BlockCoder, SpilledBlocksCoder, HistogramCoder):
    registry.register_coder(_coder.kind, _coder)
