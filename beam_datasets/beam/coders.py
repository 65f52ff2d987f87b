"""Coders of what crosses stages in bulk: blocks of records, and histograms of their sort keys.

They are registered with Beam when this module is imported, which unpickling them on a worker does. Equal values have
equal bytes, on any machine. Each coder belongs to one class: a pipeline either spills all of its blocks, or none.
"""

from __future__ import annotations

from typing import Any

from apache_beam.coders import Coder, registry

from beam_datasets.generate.blocks import Block, SpilledBlocks
from beam_datasets.generate.histogram import Histogram


class _PlainCoder(Coder):
    """A coder whose encoding depends on the value alone, and is the value's own.

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

    def encode(self, value: Any) -> bytes:
        """Returns the value's own encoding."""
        encoded: bytes = value.to_bytes()
        return encoded

    def decode(self, encoded: bytes) -> Any:
        """Returns the value."""
        return self.kind.from_bytes(encoded)


class BlockCoder(_PlainCoder):
    """Encodes blocks whose payload is inline."""

    kind = Block


class SpilledBlocksCoder(_PlainCoder):
    """Encodes where lists of spilled blocks are."""

    kind = SpilledBlocks


class HistogramCoder(_PlainCoder):
    """Encodes histograms of sort keys."""

    kind = Histogram


for _coder in (BlockCoder, SpilledBlocksCoder, HistogramCoder):
    registry.register_coder(_coder.kind, _coder)
