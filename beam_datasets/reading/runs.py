"""Runs of records, read a chunk at a time: what iterating costs the disk and the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import record_block, tfrecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from beam_datasets.formats.record_block import RecordBlock
    from beam_datasets.reading.shards import Shard

    Submit = Callable[..., Future[Any]]

CHUNK_BYTES = 256 << 10
"""How much of a shard is read at a time: more does not fit the processor's cache with all that is done to it."""

_TAKEN_BYTES = 128 << 10  # of records that are taken at once: what is made of them is to fit the cache, too

_NOTHING = tfrecord.Chunk(0, 0, np.zeros(1, np.int64), memoryview(b""))
_NO_RECORDS = record_block.chunk(_NOTHING.buffer, _NOTHING.offsets)


class RunReader:
    """Reads runs of one shard in ascending order; holds one chunk of it. For one thread.

    Attributes:
        shard: what is read.
        stop: the record before which reading ends; nothing behind it is read.
    """

    def __init__(self, shard: Shard, stop: int, chunk_bytes: int = CHUNK_BYTES, submit: Submit | None = None) -> None:
        """Reads nothing yet.

        Args:
            shard: what to read.
            stop: see the class.
            chunk_bytes: how much to read at a time; the first chunk is not larger than `CHUNK_BYTES`.
            submit: what calls a function in a thread; where it is given, the next chunk is read ahead.
        """
        self.shard = shard
        self.stop = stop
        self._chunk_bytes = chunk_bytes
        self._submit = submit
        self._ahead: Future[tfrecord.Chunk] | None = None
        self._scan: Iterator[tfrecord.Chunk] | None = None
        self._chunk, self._records, self._first, self._num = _NOTHING, _NO_RECORDS, 0, 0

    def take(self, block: RecordBlock, first: int, stop: int) -> int:
        """Adds the first of the records [first, stop) to a block, checked, and returns how many; at least one.

        Raises:
            StorageError: the file cannot be read.
            CorruptRecordError: the first record is damaged, or the shard has not as many as recorded.
        """
        place, num = first - self._first, self._num
        if not 0 <= place < num:
            self._turn_to(first)
            place, num = first - self._first, self._num
        if self._submit is not None and self._ahead is None and 2 * place >= num and self._first + num < self.stop:
            self._ahead = self._submit(self._load, self._first + num, self._chunk_bytes)
        last = stop - self._first
        taken = block.take(self._records, place, last if last < num else num, _TAKEN_BYTES)
        return taken or self._raise_damaged(first)

    def _raise_damaged(self, first: int) -> NoReturn:
        chunk = self._chunk
        places = chunk.offsets[first - self._first :][:2]
        path = self.shard.path
        tfrecord.unframe(chunk.buffer, places, path=path, offset=chunk.start, first_record=first)
        raise CorruptRecordError(
            "the record was changed while it was read. Read it again",
            path=path,
            offset=chunk.start + int(places[0]),
            record=first,
        )

    def load(self, first: int) -> RunReader:
        """Reads the chunk that has the record `first`, and returns this reader."""
        self._turn_to(first)
        return self

    def _turn_to(self, first: int) -> None:
        """Lets go of the chunk, and takes the one that has the record `first`."""
        begins = not self._num
        self._chunk, self._records, self._first, self._num = _NOTHING, _NO_RECORDS, 0, 0
        if self._ahead is not None:
            chunk, self._ahead = self._ahead.result(), None
            self._turned(chunk)
        if not 0 <= first - self._first < self._num:
            self._turned(self._load(first, min(CHUNK_BYTES, self._chunk_bytes) if begins else self._chunk_bytes))

    def _turned(self, chunk: tfrecord.Chunk) -> None:
        self._chunk, self._records = chunk, record_block.chunk(chunk.buffer, chunk.offsets)
        self._first, self._num = chunk.first_record, len(chunk.offsets) - 1

    def _load(self, first: int, chunk_bytes: int) -> tfrecord.Chunk:
        """Returns a chunk that has the record `first`."""
        offsets = self.shard.known_offsets
        if offsets is not None:
            return self._read(first, offsets, chunk_bytes)
        if self._scan is None or first < self._chunk.first_record:
            self._scan = self.shard.scan()
        chunk = next(self._scan)
        while first >= chunk.first_record + len(chunk.offsets) - 1:
            chunk = next(self._scan)  # which raises an error where the record does not come
        return chunk

    def _read(self, first: int, offsets: NDArray[Any], chunk_bytes: int) -> tfrecord.Chunk:
        """Returns the chunk that begins with the record `first`."""
        start, stop = offsets.item(first), self.stop
        if offsets.item(stop) - start > chunk_bytes:
            fitting = int(offsets.searchsorted(np.uint64(start + chunk_bytes), "right")) - 1
            stop = max(fitting, first + 1)
        places = offsets[first : stop + 1].astype(np.int64)
        places -= start
        buffer: Buffer = self.shard.reader.read(start, start + places.item(-1))
        return tfrecord.Chunk(first, start, places, memoryview(buffer))
