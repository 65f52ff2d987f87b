"""Runs of records that are read a chunk at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import record_block, tfrecord
from beam_datasets.formats.record_block import RecordBlock
from beam_datasets.reading.blocks import BLOCK_BYTES, Damaged, Items
from beam_datasets.storage import is_remote

if TYPE_CHECKING:
    from beam_datasets.reading.records.shards import Shard

Ints = NDArray[np.int64]
Ranges = tuple[Ints, Ints]
Visits = tuple[Ints, Ints, Ints]
Submit = Callable[..., Future[Any]]

T = TypeVar("T")

CHUNK_BYTES = 256 << 10
"""How much of a shard is read at a time: more does not fit the processor's cache with all that is done to it."""

_MAX_ATTEMPTS = 4  # to read a damaged record again
_MAX_SPAN = 1 << 17  # records from the first to the last of a chunk: each takes 8 bytes, also if left out
_FETCHES, FETCH_BYTES = 2, 8 << 20  # of a run into the cache at once: how many, and how large at most
_NOTHING = tfrecord.Chunk(0, 0, np.zeros(1, np.int64), memoryview(b""))


class RunReader:
    """Reads records of one shard in ascending order, and no others; holds one chunk of them. For one thread.

    Attributes:
        shard: what is read.
        stop: the record before which reading ends.
        has_ended: whether what was given last is read without this reader up to the last record.
    """

    def __init__(
        self, shard: Shard, stop: int, chunk_bytes: int = CHUNK_BYTES, submit: Submit | None = None, turns: int = 1
    ) -> None:
        """Reads nothing yet.

        Args:
            shard: what to read.
            stop: see the class.
            chunk_bytes: how much to read at a time; the first chunk is not larger than `CHUNK_BYTES`.
            submit: what calls a function in a thread; where it is given, the next chunk is read ahead.
            turns: how many runs are read in turn; all of them together fetch at most `shard.reader.max_ahead` ahead,
                but each of them at least two pieces.
        """
        self.shard = shard
        self.stop = stop
        self._chunk_bytes = chunk_bytes
        self._submit = submit
        fetches = turns * (_FETCHES + 1)  # one of each run is read meanwhile
        self._fetch_bytes = min(FETCH_BYTES, shard.reader.max_ahead // fetches)
        self._ahead: Future[tfrecord.Chunk] | None = None
        self._fetches: deque[tuple[int, Future[bool]]] = deque()  # the first piece of each
        self._fetched = 0  # the piece after the last one that was asked for
        self._width = 1  # pieces of the next fetch; it grows, so that a reader of few examples fetches few
        self._is_kept = True  # whether the cache has the pieces that were fetched
        self._scan: Iterator[tfrecord.Chunk] | None = None
        self._scanned = 0  # the record that the scan goes on with
        self._scanned_again = -1  # the byte of a length for which a shard was scanned once more
        self._chunk = _NOTHING
        self.has_ended = False
        self._replaced = -1  # the last record that was damaged in the cache or on the way, and how often
        self._attempts = 0

    def load(self, wanted: Ranges) -> RunReader:
        """Reads the first chunk of what is wanted, unless a block can read it by itself; returns this reader."""
        for piece in self.shard.pieces_of(wanted)[:1].tolist():
            self._is_kept = self.shard.reader.fetch([piece])
            self._fetched = piece + 1
        if self._run(wanted, self.stop) is None:
            self._turn_to(wanted)
        return self

    def chunk(self, ranges: Ranges, failed: bool) -> Any:
        """Returns what a block takes the next records from; see `record_block.chunk`.

        Args:
            ranges: the records that are read next.
            failed: whether a block could not read them: they are read here, so that what is wrong is an error.

        Raises:
            StorageError: the file cannot be read.
            CorruptRecordError: the shard has not as many records as recorded.
        """
        if not failed and self._ahead is None and not _has(self._chunk, int(ranges[0][0])):
            run = self._run(ranges, self._fetch(ranges))
            if run is not None:
                self.has_ended = int(ranges[1][-1]) == self.stop
                return run
        chunk = self._turn_to(ranges)
        firsts, stops = ranges
        end = chunk.first_record + len(chunk.offsets) - 1
        here = int(np.searchsorted(firsts, end))
        left = np.maximum(firsts[here - 1 :], end), stops[here - 1 :]
        if left[0][0] >= left[1][0]:
            left = left[0][1:], left[1][1:]
        if self._submit is not None and self._ahead is None and len(left[0]):
            self._ahead = self._submit(self._load, left, self._chunk_bytes)
        last = min(int(stops[here - 1]), end)  # a block drops it behind what is wanted
        self.has_ended = last == self.stop
        if self.has_ended:
            self._chunk = _NOTHING
        return record_block.chunk(chunk.buffer, chunk.offsets[: last - chunk.first_record + 1], chunk.first_record)

    def raise_damaged(self, first: int) -> None:
        """Raises the CorruptRecordError of the record `first`, which no block takes.

        Returns if the record was damaged in the cache or on the way: `chunk` with `failed` reads it again.
        """
        if self.shard.known_offsets is not None:
            self.shard.read_one(first)  # by the store, if what was read is damaged
            if self._may_read_again(first):
                return
            offset = int(self.shard.offsets[first])
        else:
            chunk = self._turn_to((np.array([first]), np.array([first + 1])))
            places = chunk.offsets[first - chunk.first_record :][:2]
            offset = chunk.start + int(places[0])
            if self._may_read_again(first) and self.shard.drop_cached(offset):
                self._scan = None
                return
            tfrecord.unframe(chunk.buffer, places, path=self.shard.path, offset=chunk.start, first_record=first)
        what = "the record was changed while it was read. Read it again"
        raise CorruptRecordError(what, path=self.shard.path, offset=offset, record=first)

    def _may_read_again(self, first: int) -> bool:
        """Returns whether to read a record again, which may have been changed on the way from a store; drops the chunk.

        A record is read again a few times, as it may be changed each time.
        """
        self._attempts = self._attempts + 1 if first == self._replaced else 1
        self._replaced = first
        if self._attempts > _MAX_ATTEMPTS or not (self.shard.reader.pieces or is_remote(self.shard.path)):
            return False
        self._chunk = _NOTHING
        return True

    def _fetch(self, ranges: Ranges) -> int:
        """Has threads fetch the next pieces of ranges into the cache, and waits for those of the first record.

        Returns:
            The record before which a block may read from the cache.
        """
        reader, first = self.shard.reader, int(ranges[0][0])
        pieces = self.shard.pieces_of(ranges)
        if reader.pieces is None or not len(pieces) or self._submit is None or not self._is_kept:
            return self.stop
        size = reader.pieces[1]
        if not self._fetches and not reader.is_near(int(pieces[0]) * size):  # it was removed before it was read
            self._fetched = int(pieces[0])
        left, most = pieces[pieces >= self._fetched].tolist(), max(1, self._fetch_bytes // size)
        while True:
            while left and len(self._fetches) < _FETCHES:
                batch, left = left[: self._width], left[self._width :]
                self._fetched = batch[-1] + 1
                missing = [piece for piece in batch if not reader.is_near(piece * size)]
                if missing:
                    self._fetches.append((missing[0], self._submit(reader.fetch, missing)))
            if not self._fetches:
                return self.stop
            stop = int(self.shard.offsets.searchsorted(np.uint64(self._fetches[0][0] * size), "right")) - 1
            if stop > first:
                return min(stop, self.stop)
            self._is_kept &= self._fetches.popleft()[1].result()
            self._width = min(2 * self._width, most)

    def _run(self, ranges: Ranges, stop: int) -> Any:
        """Returns what a block reads the records from by itself; None if it has to be given chunks of them."""
        return self.shard.run(int(ranges[0][0]), stop, min(self._chunk_bytes, CHUNK_BYTES))

    def _turn_to(self, wanted: Ranges) -> tfrecord.Chunk:
        """Returns the chunk that has the first of the wanted records; lets go of another one before."""
        first, begins = int(wanted[0][0]), self._chunk is _NOTHING
        if _has(self._chunk, first):
            return self._chunk
        self._chunk = _NOTHING
        if self._ahead is not None:
            chunk, self._ahead = self._ahead.result(), None
            self._chunk = chunk
        if not _has(self._chunk, first):
            self._chunk = self._load(wanted, min(CHUNK_BYTES, self._chunk_bytes) if begins else self._chunk_bytes)
        return self._chunk

    def _load(self, wanted: Ranges, chunk_bytes: int) -> tfrecord.Chunk:
        """Returns a chunk that has the first of the wanted records."""
        first = int(wanted[0][0])
        offsets = self.shard.known_offsets
        if offsets is not None:
            return self._read(wanted, offsets, chunk_bytes)
        if self._scan is None or first < self._scanned:
            self._scan, self._scanned = self.shard.scan(), 0
        while True:
            try:
                chunk = next(self._scan)
            except BaseException as error:  # where the record does not come, it does not the next time either
                self._scan = None
                if isinstance(error, CorruptRecordError) and self._may_scan_again(error.offset):
                    self._scan, self._scanned = self.shard.scan(), 0
                    continue
                raise
            self._scanned = chunk.first_record + len(chunk.offsets) - 1
            if first < self._scanned:
                return chunk

    def _may_scan_again(self, offset: int) -> bool:
        """Returns whether lengths around a byte may be good in the store; once for each place."""
        if offset == self._scanned_again or not self.shard.drop_cached(offset):
            return False
        self._scanned_again = offset
        return True

    def _read(self, wanted: Ranges, offsets: NDArray[Any], chunk_bytes: int) -> tfrecord.Chunk:
        """Returns a chunk of the first of the wanted records, as many as fit; others between them have no bytes."""
        firsts, stops = wanted
        num_ranges = int(np.searchsorted(stops, int(firsts[0]) + _MAX_SPAN, "right")) or 1
        firsts, stops = firsts[:num_ranges], stops[:num_ranges].copy()
        starts = offsets[firsts].astype(np.int64)
        space = chunk_bytes - np.cumsum(offsets[stops].astype(np.int64) - starts)
        fitting = int(np.searchsorted(-space, 0, "right"))
        if fitting < num_ranges:  # of the next range, as much as fits
            left = chunk_bytes if fitting == 0 else int(space[fitting - 1])
            end = int(offsets.searchsorted(np.uint64(int(starts[fitting]) + left), "right")) - 1
            stops[fitting] = max(end, int(firsts[0]) + 1) if fitting == 0 else end
            fitting += int(stops[fitting] > firsts[fitting])
        firsts, starts, stops = firsts[:fitting], starts[:fitting], stops[:fitting]
        spans = list(zip(starts.tolist(), offsets[stops].tolist()))
        buffers = [self.shard.reader.read(*spans[0])] if fitting == 1 else list(self.shard.reader.read_many(spans))
        first = int(firsts[0])
        lengths = np.zeros(int(stops[-1]) - first, np.int64)
        for begin, end in zip((firsts - first).tolist(), (stops - first).tolist()):
            lengths[begin:end] = np.diff(offsets[first + begin : first + end + 1].astype(np.int64))
        places = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return tfrecord.Chunk(first, spans[0][0], places, memoryview(buffers[0] if fitting == 1 else b"".join(buffers)))


def _has(chunk: tfrecord.Chunk, record: int) -> bool:
    index = record - chunk.first_record
    return 0 <= index < len(chunk.offsets) - 1 and bool(chunk.offsets[index] < chunk.offsets[index + 1])


def ranges_of(run: int, visits: Visits) -> Ranges:
    """Returns the ranges of records of a run that visits take, joined where they are adjacent, ascending."""
    runs, firsts, counts = visits
    selected = np.flatnonzero((runs == run) & (counts > 0))
    begins = firsts[selected]
    ends = begins + counts[selected]
    heads = np.flatnonzero(np.append(True, begins[1:] != ends[:-1]))
    return begins[heads], ends[np.append(heads[1:], len(selected)) - 1]


def read_visits(
    visits: Iterable[Visits],
    chunk_of: Callable[[int, Visits, bool, bool], Any],
    sizes: Iterator[int],
) -> Iterator[Items]:
    """Yields the records of visits to runs, checked, some at a time; a list of `Damaged` in the place of damaged ones.

    Where there is another error, those before it are yielded first.

    Args:
        visits: arrays, which are changed: numbers of runs, the first record of each visit, how many it takes.
        chunk_of: returns the chunk of a run that has the first record of the visits it is given, which are those from
            there on; raises its error, where that is said to be damaged. Its last argument says whether the chunk
            that it returned before lacked the record.
        sizes: how many records to yield at a time; at most, where they are large.
    """
    chunks: dict[int, Any] = {}
    block, size = RecordBlock(), next(sizes)
    lost: dict[int, CorruptRecordError] = {}
    try:
        for runs, firsts, counts in visits:
            at, stop, asked = 0, len(runs), None
            while at < stop:
                at = block.take(chunks, runs, firsts, counts, at, stop, size, BLOCK_BYTES)
                if len(block) >= size or block.num_bytes >= BLOCK_BYTES:
                    full, block, size = block, RecordBlock(), next(sizes)
                    yield full
                    continue
                if at == stop:
                    break
                run, first = int(runs[at]), int(firsts[at])
                try:
                    if run in lost:
                        raise lost[run]
                    left = runs[at:], firsts[at:], counts[at:]
                    chunks[run] = chunk_of(run, left, run in chunks, asked == (run, first))
                    asked = run, first
                except CorruptRecordError as error:
                    if block:
                        full, block = block, RecordBlock()
                        yield full
                    if error.record == first:
                        bad = 1
                    else:  # the file is not what was recorded, or ends: none of the next records will come
                        lost[run], bad = error, int(counts[at])
                    yield [Damaged(error)] * bad
                    firsts[at] += bad
                    counts[at] -= bad
    except Exception:
        if block:
            yield block
        raise
    if block:
        yield block
