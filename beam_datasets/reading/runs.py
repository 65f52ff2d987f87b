"""Runs of records, read a chunk at a time: what iterating costs the disk and the memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import record_block, tfrecord
from beam_datasets.formats.record_block import RecordBlock
from beam_datasets.reading.blocks import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from beam_datasets.reading.shards import Shard

    Ints = NDArray[np.int64]
    Submit = Callable[..., Future[Any]]

CHUNK_BYTES = 256 << 10
"""How much of a shard is read at a time: more does not fit the processor's cache with all that is done to it."""

_NOTHING = tfrecord.Chunk(0, 0, np.zeros(1, np.int64), memoryview(b""))


class RunReader:
    """Reads runs of one shard in ascending order; holds one chunk of it, or a block does. For one thread.

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
        self._opened = -1  # the latest record from which on a block was to read by itself
        self._scanned = 0  # the record that the scan goes on with
        self._turned(_NOTHING)

    def load(self, first: int) -> RunReader:
        """Reads the chunk that has the record `first`, and returns this reader."""
        self._turn_to(first)
        return self

    def chunk(self, first: int) -> Any:
        """Returns what a block takes the record `first` and the next ones from; see `record_block.chunk`.

        Raises:
            StorageError: the file cannot be read.
            CorruptRecordError: the shard has not as many records as recorded.
        """
        if self._submit is None and first != self._opened:
            run = self.shard.run(first, self.stop, self._chunk_bytes, ahead=num_cores() > 1)
            if run is not None:
                self._turned(_NOTHING)
                self._opened = first
                return run
        self._opened = -1  # where a block could not read it, it is read here, and what is wrong is said
        if not 0 <= first - self._first < self._num:
            self._turn_to(first)
        if self._submit is not None and self._ahead is None and self._first + self._num < self.stop:
            self._ahead = self._submit(self._load, self._first + self._num, self._chunk_bytes)
        return record_block.chunk(self._chunk.buffer, self._chunk.offsets[: self.stop - self._first + 1], self._first)

    def raise_damaged(self, first: int) -> NoReturn:
        """Raises the CorruptRecordError of the record `first`, which no block takes."""
        if not 0 <= first - self._first < self._num:
            self._turn_to(first)
        chunk, path = self._chunk, self.shard.path
        places = chunk.offsets[first - self._first :][:2]
        tfrecord.unframe(chunk.buffer, places, path=path, offset=chunk.start, first_record=first)
        what, offset = "the record was changed while it was read. Read it again", chunk.start + int(places[0])
        raise CorruptRecordError(what, path=path, offset=offset, record=first)

    def _turn_to(self, first: int) -> None:
        """Lets go of the chunk, and takes the one that has the record `first`."""
        begins = not self._num
        self._turned(_NOTHING)
        if self._ahead is not None:
            chunk, self._ahead = self._ahead.result(), None
            self._turned(chunk)
        if not 0 <= first - self._first < self._num:
            self._turned(self._load(first, min(CHUNK_BYTES, self._chunk_bytes) if begins else self._chunk_bytes))

    def _turned(self, chunk: tfrecord.Chunk) -> None:
        self._chunk, self._first, self._num = chunk, chunk.first_record, len(chunk.offsets) - 1

    def _load(self, first: int, chunk_bytes: int) -> tfrecord.Chunk:
        """Returns a chunk that has the record `first`."""
        offsets = self.shard.known_offsets
        if offsets is not None:
            return self._read(first, offsets, chunk_bytes)
        if self._scan is None or first < self._scanned:
            self._scan, self._scanned = self.shard.scan(), 0
        while True:
            chunk = next(self._scan)  # which raises an error where the record does not come
            self._scanned = chunk.first_record + len(chunk.offsets) - 1
            if first < self._scanned:
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


def num_cores() -> int:
    """Returns how many cores this process may use: with one, a thread that reads ahead is in the way."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_visits(
    visits: Iterable[tuple[Ints, Ints, Ints]],
    chunk_of: Callable[[int, int, bool], Any],
    sizes: Iterator[int],
    chunks: dict[int, Any] | None = None,
) -> Iterator[RecordBlock]:
    """Yields the records of visits to runs, checked, some at a time; where there is an error, first those before it.

    Args:
        visits: arrays, which are changed: numbers of runs, the first record of each visit, how many it takes.
        chunk_of: returns the chunk of a run that has a record; or raises its error, where that is said to be damaged.
        sizes: how many records to yield at a time; at most, where they are large.
        chunks: those that are there already, by run; changed.
    """
    chunks = {} if chunks is None else chunks
    block, size = RecordBlock(), next(sizes)
    try:
        for runs, firsts, counts in visits:
            at, stop = 0, len(runs)
            while at < stop:
                at = block.take(chunks, runs, firsts, counts, at, stop, size, BLOCK_BYTES)
                if len(block) >= size or block.num_bytes >= BLOCK_BYTES:
                    full, block, size = block, RecordBlock(), next(sizes)
                    yield full
                elif at < stop:
                    run = int(runs[at])
                    chunks[run] = chunk_of(run, int(firsts[at]), run in chunks)
    except Exception:
        if block:
            yield block
        raise
    if block:
        yield block
