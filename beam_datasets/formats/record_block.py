"""Blocks of checked records between reading and decoding, and the chunks of files that they are taken from.

With the native module, a block contains references to its records in the buffers into which they were read, and
decoders read them there without a copy. Without it, a block is a list of bytes. Both are sequences of bytes. Slices and
`+=` give blocks too.
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
    """A list of records that are taken from chunks.

    Attributes:
        num_bytes: the size in bytes of all records that were taken.
    """

    num_bytes = 0

    def take(
        self,
        chunks: dict[int, Any],
        runs: Ints,
        firsts: Ints,
        counts: Ints,
        at: int,
        stop: int,
        max_records: int,
        limit: int,
    ) -> int:
        """Takes checked records of the visits [at, stop) from chunks, and returns the visit at which it ended.

        A visit reads a number of consecutive records of one run, which is a range of records of a file. The method ends
        when the block is full, or at a visit whose next record is damaged or in no chunk. `firsts` and `counts` then
        contain the remaining records of this visit. A chunk is removed from `chunks` when its last record was taken, or
        when it does not contain the next record. A chunk that can be followed by others of its run (`core.run`) reads
        the next one on demand.

        Args:
            chunks: the current chunk of each run, by the number of the run; see `chunk`. Changed.
            runs: the number of the run of each visit.
            firsts: the first record of each visit, by its number in the file. Changed.
            counts: the number of records of each visit. Changed.
            at: the index of the first visit.
            stop: the index after the last visit.
            max_records: the greatest number of records in the block.
            limit: the block is full when its records have this size in bytes, or more.
        """
        while at < stop and len(self) < max_records and self.num_bytes < limit:
            run, first, num_taken = int(runs[at]), int(firsts[at]), 0
            chunk = chunks.get(run) if counts[at] else None
            if chunk is not None and chunk.has(first):
                num_taken = self._take_run(chunk, first, int(counts[at]), max_records, limit)
                firsts[at] += num_taken
                counts[at] -= num_taken
            if chunk is not None and (first + num_taken >= chunk.stop or not (num_taken or chunk.has(first))):
                del chunks[run]
            if not counts[at]:
                at += 1
            elif not num_taken:
                break
        return at

    def _take_run(self, chunk: PlainChunk, first: int, count: int, max_records: int, limit: int) -> int:
        """Takes consecutive records of one chunk, and returns their number.

        Args:
            chunk: the chunk, which contains record `first`.
            first: the first record, by its number in the file.
            count: the greatest number of records to take.
            max_records: the greatest number of records in the block.
            limit: the block is full when its records have this size in bytes, or more.
        """
        offsets, index = chunk.offsets, first - chunk.first
        fitting = int(offsets.searchsorted(offsets[index] + (limit - self.num_bytes), "right")) - 1
        end = max(min(fitting, index + count, index + max_records - len(self)), index + 1)
        records = tfrecord.plain_records(chunk.buffer, offsets[index : end + 1], True)
        self += records
        self.num_bytes += sum(map(len, records))
        return len(records)


@dataclass(frozen=True, eq=False)
class PlainChunk:
    """A chunk of a file: framed records, one after another.

    Attributes:
        buffer: the bytes that contain the records.
        offsets: n + 1 ascending int64 in bytes: the start of each record in the buffer, and the end of the last one.
        first: the number in the file of the first record.
    """

    buffer: memoryview
    offsets: Ints
    first: int

    @property
    def stop(self) -> int:
        """The number in the file of the record after the last one of the chunk."""
        return self.first + len(self.offsets) - 1

    def has(self, record: int) -> bool:
        """Returns whether the chunk contains the record with a number in the file.

        It lacks records before `first` and from `stop` on, and those in between that were left out because they are not
        read: their start is also their end.
        """
        index = record - self.first
        return 0 <= index < len(self.offsets) - 1 and bool(self.offsets[index] != self.offsets[index + 1])


chunk: Callable[[memoryview, Ints, int], Any] = PlainChunk if core is None else core.chunk
"""Constructor of a chunk, from a buffer, offsets and the number of the first record; see `PlainChunk`."""

if TYPE_CHECKING:
    RecordBlock = PlainRecordBlock
else:
    RecordBlock = PlainRecordBlock if core is None else core.RecordBlock
