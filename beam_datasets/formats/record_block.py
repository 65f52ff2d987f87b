"""Records between reading and decoding: checked, and not copied until bytes are asked for.

With the native module a block holds where its records lie in the buffers that they were read into, and decoders look at
them there. Without it, it is a list of bytes. Either is a sequence of bytes, with slices and `+=` that are such blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.formats import tfrecord
from beam_datasets.native import core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class PlainRecordBlock(list[bytes]):
    """Records of chunks.

    Attributes:
        num_bytes: of all records that were taken.
    """

    num_bytes = 0

    def take(
        self, chunks: dict[int, Any], runs: Ints, firsts: Ints, counts: Ints, at: int, stop: int, most: int, limit: int
    ) -> int:
        """Adds records, checked, of the visits [at, stop), each to a run; returns the visit where it ended.

        It ends where the block is full, or at a visit whose next record no chunk has, or is damaged. What is left of
        that visit is then in `firsts` and `counts`. A chunk whose last record was taken is dropped, and one that
        has other records than the next; where it can be followed by others of its run (`core.run`), the next is
        read when it is wanted.

        Args:
            chunks: by run, what `chunk` returned.
            runs: of each visit.
            firsts: the first record of each visit; changed.
            counts: how many records each visit takes; changed.
            at: the first visit.
            stop: the one to end before.
            most: how many records the block may have.
            limit: how many bytes they may have together, but for the last.
        """
        while at < stop and len(self) < most and self.num_bytes < limit:
            run, first, num_taken = int(runs[at]), int(firsts[at]), 0
            chunk = chunks.get(run) if counts[at] else None
            if chunk is not None and chunk.has(first):
                num_taken = self._take_run(chunk, first, int(counts[at]), most, limit)
                firsts[at] += num_taken
                counts[at] -= num_taken
            if chunk is not None and (first + num_taken >= chunk.stop or not (num_taken or chunk.has(first))):
                del chunks[run]
            if not counts[at]:
                at += 1
            elif not num_taken:
                break
        return at

    def _take_run(self, chunk: PlainChunk, first: int, count: int, most: int, limit: int) -> int:
        """Adds the first records of a run that a chunk has, and returns how many."""
        offsets, index = chunk.offsets, first - chunk.first
        fitting = int(offsets.searchsorted(offsets[index] + (limit - self.num_bytes), "right")) - 1
        end = max(min(fitting, index + count, index + most - len(self)), index + 1)
        records = tfrecord.plain_records(chunk.buffer, offsets[index : end + 1], True)
        self += records
        self.num_bytes += sum(map(len, records))
        return len(records)


@dataclass(frozen=True, eq=False)
class PlainChunk:
    """Framed records, one after another.

    Attributes:
        buffer: the bytes that contain them.
        offsets: n + 1 ascending int64: where each record begins in the buffer, in bytes, and where the last one ends.
        first: the number of the first of them.
    """

    buffer: memoryview
    offsets: Ints
    first: int

    @property
    def stop(self) -> int:
        """The number of the record after the last of them."""
        return self.first + len(self.offsets) - 1

    def has(self, record: int) -> bool:
        """Returns whether a record is among them; those that were left out have no bytes."""
        index = record - self.first
        return 0 <= index < len(self.offsets) - 1 and bool(self.offsets[index] != self.offsets[index + 1])


chunk: Callable[[memoryview, Ints, int], Any] = PlainChunk if core is None else core.chunk
"""What records are taken from; see `PlainChunk`."""

if TYPE_CHECKING:
    RecordBlock = PlainRecordBlock
else:
    RecordBlock = PlainRecordBlock if core is None else core.RecordBlock
