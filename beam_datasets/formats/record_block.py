"""Records as they are handed on between reading and decoding: checked, and not copied before somebody wants bytes.

With the native module a block holds where its records lie in the buffers that they were read into, and decoders look at
them there. Without it, it is a list of bytes. Either is a sequence of bytes, with slices and `+=` that are such blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.formats import framing
from beam_datasets.native import core

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["PlainRecordBlock", "RecordBlock", "chunk"]


class PlainRecordBlock(list[bytes]):
    """Records of chunks.

    Attributes:
        num_bytes: of all records that were taken.
    """

    num_bytes = 0

    def take(self, chunk: Any, first: int, stop: int, most: int) -> int:
        """Adds records of a chunk, and returns how many; 0 where the first is damaged, whose error is the caller's.

        Args:
            chunk: what `chunk` returned.
            first: the first to take.
            stop: the one to end before; behind `first`.
            most: how many bytes to take, with framing, unless the first record has more.
        """
        buffer, offsets = chunk
        fitting = int(offsets.searchsorted(offsets[first] + most, "right")) - 1
        end = max(min(fitting, stop), first + 1)
        records = framing.good_records(buffer, offsets[first : end + 1], True)
        self += records
        self.num_bytes += sum(map(len, records))
        return len(records)


def _plain_chunk(buffer: Buffer, offsets: NDArray[Any]) -> Any:
    """Returns what `RecordBlock.take` takes records from.

    Args:
        buffer: framed records, one after another.
        offsets: n + 1 ascending int64: where each record begins in the buffer, in bytes, and where the last one ends.
    """
    return memoryview(buffer), offsets


chunk: Callable[[Buffer, NDArray[Any]], Any] = _plain_chunk if core is None else core.chunk

if TYPE_CHECKING:
    RecordBlock = PlainRecordBlock
else:
    RecordBlock = PlainRecordBlock if core is None else core.RecordBlock
