"""Chunked reading of *runs*, ranges of records of one shard. A *visit* takes a few consecutive records of a run."""

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
"""Ranges of records of one run, ascending: (first record of each, record after the last one of each)."""

Visits = tuple[Ints, Ints, Ints]
"""Visits to runs, in read order: (number of the run, first record in the shard, number of records) of each."""

Submit = Callable[..., Future[Any]]
"""`ThreadPoolExecutor.submit`."""

T = TypeVar("T")

CHUNK_BYTES = 256 << 10
"""Number of bytes of a shard read at a time; with more, the decoded values would not fit the cache."""

_MAX_ATTEMPTS = 4  # to read a damaged record again
_MAX_SPAN = 1 << 17  # records from the first to the last of a chunk: each takes 8 bytes, also if left out
_MAX_FETCHES = 2  # simultaneous fetches of a run into the cache
FETCH_BYTES = 8 << 20
"""Maximum number of bytes of a fetch into the cache."""
_EMPTY_CHUNK = tfrecord.Chunk(0, 0, np.zeros(1, np.int64), memoryview(b""))


class RunReader:
    """Reader of one run: requested records of a shard in ascending order, one chunk at a time. For one thread.

    Attributes:
        shard: the shard to read.
        stop: number of the record after the last one of the run.
        has_ended: whether the chunk that `chunk` returned last exhausts this reader.
    """

    def __init__(
        self, shard: Shard, stop: int, chunk_bytes: int = CHUNK_BYTES, submit: Submit | None = None, num_runs: int = 1
    ) -> None:
        """Creates a reader. It reads nothing yet.

        Args:
            shard: the shard to read.
            stop: number of the record after the last one of the run.
            chunk_bytes: number of bytes to read at a time; the first chunk is not larger than `CHUNK_BYTES`.
            submit: calls a function in a thread, to read the next chunk ahead; None to read nothing ahead.
            num_runs: number of runs that are read in turn. Their readers together fetch at most
                `shard.reader.max_ahead` bytes ahead, but each of them at least two pieces.
        """
        self.shard = shard
        self.stop = stop
        self._chunk_bytes = chunk_bytes
        self._first_chunk_bytes = min(chunk_bytes, CHUNK_BYTES)
        self._submit = submit
        num_fetches = num_runs * (_MAX_FETCHES + 1)  # one more of each run is being read
        self._fetch_bytes = min(FETCH_BYTES, shard.reader.max_ahead // num_fetches)
        self._next_chunk: Future[tfrecord.Chunk] | None = None  # that is read ahead
        self._fetches: deque[tuple[int, Future[bool]]] = deque()  # (first piece, fetch)
        self._next_piece = 0  # the piece after the last one that was requested
        self._pieces_per_fetch = 1  # pieces of the next fetch; it grows, so that a reader of few examples fetches few
        self._is_kept = True  # whether the cache has kept the pieces that were fetched
        self._scan: Iterator[tfrecord.Chunk] | None = None
        self._scan_record = 0  # number of the record with which the scan continues
        self._rescanned_offset = -1  # offset of the damaged length for which the shard was scanned again
        self._chunk = _EMPTY_CHUNK
        self.has_ended = False
        self._damaged_record = -1  # the last record that was damaged in the cache or in transfer
        self._attempts = 0  # number of attempts to read it

    def load(self, ranges: Ranges) -> RunReader:
        """Reads the first chunk of the ranges, unless `RecordBlock.take` can read it itself; returns this reader."""
        for piece in self.shard.pieces_of(ranges)[:1].tolist():
            self._is_kept = self.shard.reader.fetch([piece])
            self._next_piece = piece + 1
        if self.shard.run(int(ranges[0][0]), self.stop, self._first_chunk_bytes) is None:
            self._chunk_with_first(ranges)
        return self

    def chunk(self, ranges: Ranges, has_failed: bool) -> Any:
        """Returns the chunk or the native run from which `RecordBlock.take` takes the next records.

        Args:
            ranges: the records to read, at least one. The chunk has the first one, and as many others as fit in it.
            has_failed: whether `take` could not read the first record. It is read in Python, which raises an error if
                the record is damaged.

        Raises:
            StorageError: the file cannot be read.
            CorruptRecordError: the shard has another number of records than its metadata.
        """
        first_record = int(ranges[0][0])
        if not has_failed and self._next_chunk is None and not _has_record(self._chunk, first_record):
            run = self.shard.run(first_record, self._prefetch_pieces(ranges), self._first_chunk_bytes)
            if run is not None:
                self.has_ended = int(ranges[1][-1]) == self.stop
                return run
        chunk = self._chunk_with_first(ranges)
        first_records, stops = ranges
        end = chunk.first_record + len(chunk.offsets) - 1
        num_begun = int(np.searchsorted(first_records, end))  # ranges that begin in this chunk
        later_ranges = np.maximum(first_records[num_begun - 1 :], end), stops[num_begun - 1 :]
        if later_ranges[0][0] >= later_ranges[1][0]:
            later_ranges = later_ranges[0][1:], later_ranges[1][1:]
        if self._submit is not None and self._next_chunk is None and len(later_ranges[0]):
            self._next_chunk = self._submit(self._load_chunk, later_ranges, self._chunk_bytes)
        chunk_stop = min(int(stops[num_begun - 1]), end)  # `take` drops the chunk after the last requested record
        self.has_ended = chunk_stop == self.stop
        if self.has_ended:
            self._chunk = _EMPTY_CHUNK
        offsets = chunk.offsets[: chunk_stop - chunk.first_record + 1]
        return record_block.chunk(chunk.buffer, offsets, chunk.first_record)

    def raise_damaged(self, record: int) -> None:
        """Raises the CorruptRecordError of a damaged record, given its number.

        Returns if the record was damaged only in the cache or in transfer: then `chunk` with `failed` reads it again.
        """
        if self.shard.known_offsets is not None:
            self.shard.read_one(record)  # from the store, if the cached record is damaged
            if self._may_read_again(record):
                return
            offset = int(self.shard.offsets[record])
        else:
            chunk = self._chunk_with_first((np.array([record]), np.array([record + 1])))
            bounds = chunk.offsets[record - chunk.first_record :][:2]
            offset = chunk.start + int(bounds[0])
            if self._may_read_again(record) and self.shard.drop_cached(offset):
                self._scan = None
                return
            tfrecord.unframe(chunk.buffer, bounds, path=self.shard.path, offset=chunk.start, first_record=record)
        problem = "the record was changed while it was read. Read it again"
        raise CorruptRecordError(problem, path=self.shard.path, offset=offset, record=record)

    def _may_read_again(self, record: int) -> bool:
        """Counts an attempt to read a damaged record; returns whether to read it again, and drops the chunk if so.

        A transfer from a store may damage a record, also several times in a row, so there are several attempts.
        """
        self._attempts = self._attempts + 1 if record == self._damaged_record else 1
        self._damaged_record = record
        if self._attempts > _MAX_ATTEMPTS or not (self.shard.reader.pieces or is_remote(self.shard.path)):
            return False
        self._chunk = _EMPTY_CHUNK
        return True

    def _prefetch_pieces(self, ranges: Ranges) -> int:
        """Lets threads fetch the next pieces of the ranges into the cache, and waits for the first record.

        Returns:
            Number of the record up to which (exclusively) `RecordBlock.take` may read from the cache.
        """
        reader, first = self.shard.reader, int(ranges[0][0])
        if reader.pieces is None or self._submit is None or not self._is_kept:
            return self.stop
        pieces = self.shard.pieces_of(ranges)
        if not len(pieces):
            return self.stop
        size = reader.pieces[1]
        if not self._fetches and not reader.is_near(int(pieces[0]) * size):  # it was removed before it was read
            self._next_piece = int(pieces[0])
        new_pieces = pieces[pieces >= self._next_piece].tolist()
        max_pieces = max(1, self._fetch_bytes // size)
        while True:
            while new_pieces and len(self._fetches) < _MAX_FETCHES:
                batch, new_pieces = new_pieces[: self._pieces_per_fetch], new_pieces[self._pieces_per_fetch :]
                self._next_piece = batch[-1] + 1
                missing = [piece for piece in batch if not reader.is_near(piece * size)]
                if missing:
                    self._fetches.append((missing[0], self._submit(reader.fetch, missing)))
            if not self._fetches:
                return self.stop
            stop = int(self.shard.offsets.searchsorted(np.uint64(self._fetches[0][0] * size), "right")) - 1
            if stop > first:
                return min(stop, self.stop)
            self._is_kept &= self._fetches.popleft()[1].result()
            self._pieces_per_fetch = min(2 * self._pieces_per_fetch, max_pieces)

    def _chunk_with_first(self, ranges: Ranges) -> tfrecord.Chunk:
        """Returns the chunk that has the first record of the ranges; reads it if needed, and then drops the old one."""
        record, has_no_chunk = int(ranges[0][0]), self._chunk is _EMPTY_CHUNK
        if _has_record(self._chunk, record):
            return self._chunk
        self._chunk = _EMPTY_CHUNK
        if self._next_chunk is not None:
            chunk, self._next_chunk = self._next_chunk.result(), None
            self._chunk = chunk
        if not _has_record(self._chunk, record):
            chunk_bytes = self._first_chunk_bytes if has_no_chunk else self._chunk_bytes
            self._chunk = self._load_chunk(ranges, chunk_bytes)
        return self._chunk

    def _load_chunk(self, ranges: Ranges, chunk_bytes: int) -> tfrecord.Chunk:
        """Reads a chunk of the shard that contains the first record of the ranges.

        If the offsets are known, the chunk begins at this record and has about `chunk_bytes` bytes. If not, scans the
        shard up to this record, from the last scanned record on if possible, and returns the scanned chunk, which may
        begin earlier.
        """
        record = int(ranges[0][0])
        offsets = self.shard.known_offsets
        if offsets is not None:
            return self._read_ranges(ranges, offsets, chunk_bytes)
        if self._scan is None or record < self._scan_record:
            self._scan, self._scan_record = self.shard.scan(), 0
        while True:
            try:
                chunk = next(self._scan)
            except BaseException as error:  # a scan cannot continue after an error
                self._scan = None
                if isinstance(error, CorruptRecordError) and self._may_scan_again(error.offset):
                    self._scan, self._scan_record = self.shard.scan(), 0
                    continue
                raise
            self._scan_record = chunk.first_record + len(chunk.offsets) - 1
            if record < self._scan_record:
                return chunk

    def _may_scan_again(self, offset: int) -> bool:
        """Returns whether the length at an offset may be undamaged in the store; True at most once for each offset."""
        if offset == self._rescanned_offset or not self.shard.drop_cached(offset):
            return False
        self._rescanned_offset = offset
        return True

    def _read_ranges(self, ranges: Ranges, offsets: NDArray[Any], chunk_bytes: int) -> tfrecord.Chunk:
        """Reads a chunk with the first records of the ranges, as many as fit in `chunk_bytes`, and at least one.

        Records between the ranges are not read: their length in the chunk is 0.
        """
        first_records, stops = ranges
        num_ranges = int(np.searchsorted(stops, int(first_records[0]) + _MAX_SPAN, "right")) or 1
        first_records, stops = first_records[:num_ranges], stops[:num_ranges].copy()
        starts = offsets[first_records].astype(np.int64)
        space = chunk_bytes - np.cumsum(offsets[stops].astype(np.int64) - starts)
        count = int(np.searchsorted(-space, 0, "right"))  # of ranges that fit
        if count < num_ranges:  # the records of the next range that fit
            num_bytes = chunk_bytes if count == 0 else int(space[count - 1])
            end = int(offsets.searchsorted(np.uint64(int(starts[count]) + num_bytes), "right")) - 1
            stops[count] = max(end, int(first_records[0]) + 1) if count == 0 else end
            count += int(stops[count] > first_records[count])
        first_records, starts, stops = first_records[:count], starts[:count], stops[:count]
        spans = list(zip(starts.tolist(), offsets[stops].tolist()))
        if spans[0][1] - spans[0][0] > chunk_bytes:  # a single record, which may be too large
            tfrecord.check_sizes(spans[0], path=self.shard.path, first_record=int(first_records[0]))
        buffers = [self.shard.reader.read(*spans[0])] if count == 1 else list(self.shard.reader.read_many(spans))
        first = int(first_records[0])
        lengths = np.zeros(int(stops[-1]) - first, np.int64)
        for begin, end in zip((first_records - first).tolist(), (stops - first).tolist()):
            lengths[begin:end] = np.diff(offsets[first + begin : first + end + 1].astype(np.int64))
        chunk_offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        data = memoryview(buffers[0] if count == 1 else b"".join(buffers))
        return tfrecord.Chunk(first, spans[0][0], chunk_offsets, data)


def _has_record(chunk: tfrecord.Chunk, record: int) -> bool:
    """Returns whether a chunk contains the bytes of the record with a number."""
    index = record - chunk.first_record
    return 0 <= index < len(chunk.offsets) - 1 and bool(chunk.offsets[index] < chunk.offsets[index + 1])


def ranges_of(run: int, visits: Visits) -> Ranges:
    """Returns the ranges of records of a run that visits take, ascending; adjacent ranges are joined.

    >>> visits = np.array([0, 1, 0]), np.array([0, 7, 4]), np.array([4, 1, 4])
    >>> [numbers.tolist() for numbers in ranges_of(0, visits)]
    [[0], [8]]
    """
    runs, first_records, counts = visits
    selected = np.flatnonzero((runs == run) & (counts > 0))
    begins = first_records[selected]
    ends = begins + counts[selected]
    heads = np.flatnonzero(np.append(True, begins[1:] != ends[:-1]))
    return begins[heads], ends[np.append(heads[1:], len(selected)) - 1]


def read_visits(
    visits: Iterable[Visits],
    get_chunk: Callable[[int, Visits, bool, bool], Any],
    sizes: Iterator[int],
) -> Iterator[Items]:
    """Yields the records of visits in blocks, after checking their checksums.

    A block is a `RecordBlock`, or a list of `Damaged` in place of damaged records. If another error is raised, the
    records before it are yielded first.

    Args:
        visits: arrays of visits; the arrays are changed.
        get_chunk: get_chunk(run, next visits, damaged, failed) returns the chunk, or native run, that has the first
            record of the next visits, which is in the run. `damaged` is whether `RecordBlock.take` found this record
            damaged; then the function raises its error. `failed` is whether the chunk that the function returned for
            this record before did not have it.
        sizes: number of records of each block; blocks of large records have fewer.
    """
    chunks: dict[int, Any] = {}  # by run
    block, size = RecordBlock(), next(sizes)
    run_errors: dict[int, CorruptRecordError] = {}  # errors after which a run cannot be read
    try:
        for runs, first_records, counts in visits:
            index, stop, last_request = 0, len(runs), None
            while index < stop:
                index = block.take(chunks, runs, first_records, counts, index, stop, size, BLOCK_BYTES)
                if len(block) >= size or block.num_bytes >= BLOCK_BYTES:
                    full, block, size = block, RecordBlock(), next(sizes)
                    yield full
                    continue
                if index == stop:
                    break
                run, record = int(runs[index]), int(first_records[index])
                try:
                    if run in run_errors:
                        raise run_errors[run]
                    next_visits = runs[index:], first_records[index:], counts[index:]
                    chunks[run] = get_chunk(run, next_visits, run in chunks, last_request == (run, record))
                    last_request = run, record
                except CorruptRecordError as error:
                    if block:
                        full, block = block, RecordBlock()
                        yield full
                    if error.record == record:
                        num_damaged = 1
                    else:  # the file is truncated or replaced: no further records can be read
                        run_errors[run], num_damaged = error, int(counts[index])
                    yield [Damaged(error)] * num_damaged
                    first_records[index] += num_damaged
                    counts[index] -= num_damaged
    except Exception:
        if block:
            yield block
        raise
    if block:
        yield block
