"""`Source`, the leaf of a tree of operations: reads the records of a slice.

A *run* is a range of records of one shard, a file instruction of the slice. Runs are identified by their number in
the slice. A *visit* reads a few consecutive records of a run; see `index.interleave`.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError
from beam_datasets.native import core, note_if_missing
from beam_datasets.reading.blocks import Damaged, Items, block_sizes, growing_sizes, join_blocks, stop_at_damaged
from beam_datasets.reading.config import ReadConfig, choose_files
from beam_datasets.reading.elements.executor import usable_cores
from beam_datasets.reading.index.interleave import InterleaveOrder
from beam_datasets.reading.index.permutations import file_order
from beam_datasets.reading.index.transforms import Operation, Spans, limit_spans, positions_of
from beam_datasets.reading.records.run_reader import CHUNK_BYTES, Ranges, RunReader, Visits, ranges_of, read_visits

if TYPE_CHECKING:
    from beam_datasets.metadata.shards import FileInstructions
    from beam_datasets.reading.records.shards import Shard, ShardPool

Ints = NDArray[np.int64]

_REMOTE_BYTES = 32 << 20  # bytes in memory of all remote files that are read in turn; half of them are read ahead
_LOCAL_BYTES = 2 << 20  # the same of local files; more would not be in the processor's cache when it is decoded
_MIN_CHUNK, _MAX_CHUNK = 16 << 10, 8 << 20  # bytes
_MAX_THREADS = 32
_MIN_VISITS, _MAX_VISITS = 1 << 10, 1 << 12  # visits in an array; a read of a run does not extend beyond its array
_AHEAD_VISITS = 1 << 14  # number of visits to remote runs that are computed ahead of reading


class Source(Operation):
    """The records of a slice in read order; with `add_tfds_id`, pairs (id, record).

    Attributes:
        pool: the dataset's shards.
        instructions: the runs of the slice, in dataset order.
        run_numbers: numbers of the runs that are read, in order, before the shuffle of files.
    """

    def __init__(
        self,
        pool: ShardPool,
        instructions: FileInstructions,
        config: ReadConfig,
        *,
        ordered: bool = False,
        shuffle_files: bool = False,
        record_bytes: float = 1024,
    ) -> None:
        """Creates the source of a slice.

        Args:
            pool: the dataset's shards.
            instructions: the runs of the slice.
            config: options of the read order.
            ordered: whether the dataset has `disable_shuffling`.
            shuffle_files: whether the runs are opened in a shuffled order.
            record_bytes: approximate bytes per record.

        Raises:
            ValueError: the configuration does not fit the slice.
        """
        note_if_missing()
        self.pool = pool
        self.instructions = instructions
        self._config = config
        self._cycle = config.cycle_length(ordered=ordered)
        self._shuffle_files = shuffle_files
        self._latest: tuple[int, InterleaveOrder, Ints] | None = None
        self._files: dict[int, tuple[str, int]] = {}  # results of `_file`
        self.run_numbers = choose_files(instructions, config)  # once: `interleave_sort_fn` may return another order
        self._sorted_runs = np.sort(np.array(self.run_numbers, np.int64))
        takes = instructions.take[self._sorted_runs]
        self._first_indices = np.cumsum(takes) - takes  # in dataset order, of each run
        super().__init__((), int(takes.sum()), record_bytes, (), is_remote=storage.is_remote(pool.directory))
        self._num_open_runs = max(1, min(self._cycle, len(self.run_numbers)))  # runs that are read in turn
        max_chunk, all_chunks = (_MAX_CHUNK, _REMOTE_BYTES // 2) if self.is_remote else (CHUNK_BYTES, _LOCAL_BYTES)
        self._chunk_bytes = min(max_chunk, max(all_chunks // self._num_open_runs, _MIN_CHUNK))  # of a run, at a time

    def arrangement(self, epoch: int) -> tuple[InterleaveOrder, Ints]:
        """Returns the interleaved order of an epoch, and an array of the number of the run of each of its files."""
        epoch = epoch if self._shuffle_files and self._config.reshuffles else 0
        latest = self._latest
        if latest is None or latest[0] != epoch:
            config, runs = self._config, np.array(self.run_numbers, np.int64)
            if self._shuffle_files:
                runs = runs[file_order(len(runs), config.seed, epoch, reshuffle=config.reshuffles)]
            order = InterleaveOrder(self.instructions.take[runs], self._cycle, config.block_length)
            self._latest = latest = epoch, order, runs
        return latest[1:]

    def locate(self, positions: Ints, epoch: int) -> tuple[Ints, Ints]:
        """Returns two arrays: for each position the number of the record's run, and the record's number in the shard.

        Args:
            positions: positions in the read order of the epoch.
            epoch: the epoch, which determines the order of the files if they are shuffled.
        """
        order, runs = self.arrangement(epoch)
        files, indices_in_run = order.locate(positions)
        record_runs = runs[files]
        return record_runs, indices_in_run + self.instructions.skip[record_runs]

    def locate_indices(self, indices: Ints) -> tuple[Ints, Ints]:
        """Returns the run of the record at each index in [0, length) of the dataset order, and its number in the shard.

        The results have the shape of `indices`.
        """
        run_indices = np.searchsorted(self._first_indices, indices, side="right") - 1
        runs = self._sorted_runs[run_indices]
        return runs, indices - self._first_indices[run_indices] + self.instructions.skip[runs]

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the records at positions of the read order in blocks; see `block_sizes`."""
        first = next(spans, None)
        if first is None:
            return
        spans = itertools.chain((first,), spans)
        if self._config.add_tfds_id:
            spans, name_spans = itertools.tee(spans)
        _allow_reading_ahead()
        with contextlib.closing(_VisitReader(self, _merge_arrays(self._visits(spans, epoch)))) as reader:
            blocks = read_visits(reader, reader.chunk, block_sizes(self.item_bytes))
            if not self._config.add_tfds_id:
                yield from blocks
                return
            parts = map(positions_of, limit_spans(name_spans, itertools.repeat(_MIN_VISITS)))
            names = itertools.chain.from_iterable(self._names(*self.locate(positions, epoch)) for positions in parts)
            yield from (_pair_with_names(block, names) for block in blocks)

    def _names(self, runs: Ints, records: Ints) -> Iterator[bytes]:
        """Yields the `tfds_id` of records, given their runs and their numbers in the shards."""
        names = {run: self._namer(self._file(run)[0]) for run in set(runs.tolist())}
        return (f"{names[run]}__{record}".encode() for run, record in zip(runs.tolist(), records.tolist()))

    @functools.cached_property
    def _namer(self) -> Callable[[str], str]:
        """The function from the file name of a shard to the one in `tfds_id`; see `ShardPool.namer`."""
        return self.pool.namer(self.instructions)

    def _visits(self, spans: Iterator[Spans], epoch: int) -> Iterator[Visits]:
        """Yields arrays of the visits that read the positions of the spans, a long range in growing parts."""
        order, runs = self.arrangement(epoch)
        skip, per_visit = self.instructions.skip[runs], order.examples_per_visit
        sizes = growing_sizes(_MIN_VISITS * per_visit, _MAX_VISITS * per_visit)
        for span in spans:
            is_range = len(span[0]) == 1  # several ranges, such as of `Shared`, are few enough
            for starts, counts in limit_spans(iter((span,)), sizes) if is_range else (span,):
                files, first_indices, numbers = order.visits(starts, counts)
                yield runs[files], first_indices + skip[files], numbers

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the records at positions of the read order; a damaged record is a `Damaged`."""
        return self._fetch_records(*self.locate(positions, epoch))

    def fetch_index(self, index: int) -> Any:
        """Returns the record at an index in [0, length) of the dataset order."""
        first_indices, runs, skips = self._run_lists
        run_index = bisect.bisect_right(first_indices, index) - 1
        run, record = runs[run_index], index - first_indices[run_index] + skips[run_index]
        data = self.pool.open(*(self._files.get(run) or self._file(run))).read_one(record)
        if not self._config.add_tfds_id:
            return data
        return _pair_with_names([data], self._names(np.array([run]), np.array([record])))[0]

    def fetch_indices(self, indices: Ints) -> Items:
        """Returns the records at indices in [0, length) of the dataset order.

        Raises:
            CorruptRecordError: a record is damaged.
        """
        return join_blocks(stop_at_damaged([self._fetch_records(*self.locate_indices(indices))]))

    def index_in_source(self, slice_index: int) -> int | None:
        """Converts an index of the whole slice to an index of this source; None if the run is not read.

        They differ if `ReadConfig` selects files, with `input_context` or `interleave_sort_fn`.
        """
        run_starts = np.cumsum(self.instructions.take) - self.instructions.take
        run = int(np.searchsorted(run_starts, slice_index, side="right")) - 1
        run_index = int(np.searchsorted(self._sorted_runs, run))
        if run_index == len(self._sorted_runs) or self._sorted_runs[run_index] != run:
            return None
        return int(self._first_indices[run_index]) + slice_index - int(run_starts[run])

    @functools.cached_property
    def _run_lists(self) -> tuple[list[int], list[int], list[int]]:
        """Three lists, of the runs in dataset order: first index, number of the run, number of its first record."""
        skips = self.instructions.skip[self._sorted_runs]
        return self._first_indices.tolist(), self._sorted_runs.tolist(), skips.tolist()

    def _fetch_records(self, runs: Ints, records: Ints) -> Items:
        """Returns the records in the order of the arguments; with `add_tfds_id`, pairs (id, record).

        A damaged record is a `Damaged` in the list. The records of a run are read in the order of their numbers.

        Args:
            runs: for each record, the number of its run, an index of `instructions`.
            records: for each record, its number in the run's shard, from 0.
        """
        order = np.lexsort((records, runs))
        cuts = np.flatnonzero(np.diff(runs[order])) + 1
        items: Items = [None] * len(runs)

        def fetch(indices: Ints) -> None:
            """Sets the items at indices, which are of one run, with ascending numbers."""
            shard = self.pool.open(*self._file(int(runs[indices[0]])))
            for index, item in zip(indices.tolist(), _read_many(shard, records[indices])):
                items[index] = item

        bounds = [0, *cuts.tolist(), len(runs)]
        parts = [order[start:stop] for start, stop in itertools.pairwise(bounds)] if len(runs) else []
        if len(parts) > 1 and self.is_remote:
            list(_fetch_threads(os.getpid()).map(fetch, parts))
        else:
            list(map(fetch, parts))
        return _pair_with_names(items, self._names(runs, records)) if self._config.add_tfds_id else items

    def _file(self, run: int) -> tuple[str, int]:
        """Returns (file name of a run's shard, number of records in the shard); `run` is an index of `instructions`."""
        file = self._files.get(run)
        if file is None:
            file = self.instructions.filename(run), int(self.instructions.examples_in_shard[run])
            self._files[run] = file
        return file

    def open_reader(self, run: int, ranges: Ranges, executor: ThreadPoolExecutor | None) -> RunReader:
        """Returns a reader of a run: of the adjacent records of one shard that belong to the slice.

        Args:
            run: number of the run, an index of `instructions`.
            ranges: ranges of records of the shard that will be read, by their numbers in it.
            executor: threads to read ahead with. Then the first chunk of the ranges is already read. None to read
                nothing ahead.
        """
        stop = int(self.instructions.skip[run]) + int(self.instructions.take[run])
        shard = self.pool.open(*self._file(run))
        if executor is None:
            return RunReader(shard, stop, self._chunk_bytes)
        return RunReader(shard, stop, self._chunk_bytes, executor.submit, self._num_open_runs).load(ranges)


@functools.cache
def _fetch_threads(process_id: int) -> ThreadPoolExecutor:
    """Returns the threads that fetch records of remote files. A forked process gets its own by its `process_id`."""
    return ThreadPoolExecutor(_MAX_THREADS, "beam_datasets-fetch")


class _VisitReader:
    """Iterator over arrays of visits to the runs of a source, with the readers of the open runs. For one thread."""

    def __init__(self, source: Source, visits: Iterator[Visits]) -> None:
        """Reads the given visits to the runs of a source."""
        self._source, self._visits, self._cycle = source, visits, source._cycle
        self._next: deque[Visits] = deque()  # arrays that were not yielded yet
        self._readers: OrderedDict[int, RunReader | Future[RunReader]] = OrderedDict()
        threads = min(2 * self._cycle, _MAX_THREADS)
        self._executor = ThreadPoolExecutor(threads, "beam_datasets-read") if source.is_remote else None

    def __iter__(self) -> Iterator[Visits]:
        """Yields the arrays of visits. With threads, keeps at least `_AHEAD_VISITS` later visits in `_next`."""
        num_ahead = 0 if self._executor is None else _AHEAD_VISITS
        for visits in self._visits:
            self._next.append(visits)
            if sum(len(runs) for runs, _, _ in self._next) > num_ahead:
                yield self._next.popleft()
        while self._next:
            yield self._next.popleft()

    def chunk(self, run: int, visits: Visits, damaged: bool, has_failed: bool) -> Any:
        """Returns the chunk of a run; see `get_chunk` of `read_visits`. With threads, opens the next runs ahead.

        Args:
            run: number of the run of the first visit.
            visits: the remaining visits of the array that is read.
            damaged: whether the first record is damaged, so that its error is raised.
            has_failed: whether the previous chunk did not have the first record.
        """
        all_visits = _concatenate([visits, *self._next])
        ranges = ranges_of(run, all_visits)
        if self._executor is not None:
            for other in distinct(all_visits[0])[1 : self._cycle + 1].tolist():
                if other not in self._readers:
                    other_ranges = ranges_of(other, all_visits)
                    future = self._executor.submit(self._source.open_reader, other, other_ranges, self._executor)
                    self._keep_reader(other, future)
        reader = self._readers.pop(run, None) or self._source.open_reader(run, ranges, self._executor)
        if isinstance(reader, Future):
            reader = reader.result()
        self._keep_reader(run, reader)
        if damaged:
            reader.raise_damaged(int(visits[1][0]))
        chunk = reader.chunk(ranges, has_failed or damaged)
        if reader.has_ended and self._executor is None:
            self._readers.pop(run, None)
        return chunk

    def _keep_reader(self, run: int, reader: RunReader | Future[RunReader]) -> None:
        """Keeps the reader of a run; drops the least recently used reader if there are too many."""
        self._readers[run] = reader
        if len(self._readers) > 2 * self._cycle + 32:
            self._readers.popitem(last=False)

    def close(self) -> None:
        """Drops the readers, and ends the threads."""
        self._readers.clear()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


@functools.cache
def _allow_reading_ahead() -> None:
    """Lets a thread of the native module read local files ahead if this process has more than one core."""
    if core is not None:
        core.set_threads(int(usable_cores() > 1))


def _merge_arrays(visits: Iterator[Visits]) -> Iterator[Visits]:
    """Merges arrays of visits, so that each but the last has at least `_MIN_VISITS` visits.

    A read of a run does not extend beyond an array, so that small arrays would cause small reads.
    """
    small_arrays: list[Visits] = []
    for arrays in visits:
        small_arrays.append(arrays)
        if sum(len(runs) for runs, _, _ in small_arrays) >= _MIN_VISITS:
            yield _concatenate(small_arrays)
            small_arrays = []
    if small_arrays:
        yield _concatenate(small_arrays)


def _concatenate(visits: list[Visits]) -> Visits:
    """Concatenates arrays of visits."""
    if len(visits) == 1:
        return visits[0]
    runs, first_records, counts = map(np.concatenate, zip(*visits))
    return runs, first_records, counts


def _pair_with_names(items: Items, names: Iterator[bytes]) -> Items:
    """Returns the list of pairs (name, item); a `Damaged` instead of its pair."""
    return [item if type(item) is Damaged else (name, item) for item, name in zip(items, names)]


def distinct(runs: Ints) -> Ints:
    """Returns the distinct numbers of an array, in the order of their first occurrence. They must be at least 0.

    >>> distinct(np.array([3, 1, 3, 0, 1]))
    array([3, 1, 0])
    """
    first_indices: Ints = np.full(int(runs.max(initial=-1)) + 1, -1)  # by number
    first_indices[runs[::-1]] = np.arange(len(runs))[::-1]  # the last assignment wins: the first occurrence
    sorted_indices: Ints = np.sort(first_indices[first_indices >= 0])
    return runs[sorted_indices]


def _read_many(shard: Shard, records: Ints) -> list[Any]:
    """Returns the data of records, whose numbers ascend; a damaged record is a `Damaged`."""
    try:
        shard.offsets  # noqa: B018 - scans the shard if they are not known
    except CorruptRecordError as error:
        return [Damaged(error)] * len(records)
    try:
        return shard.read_many(records)
    except CorruptRecordError:
        return [_read_one(shard, record) for record in records.tolist()]


def _read_one(shard: Shard, record: int) -> bytes | Damaged:
    """Returns the data of a record; a `Damaged` if it is damaged."""
    try:
        return shard.read_one(record)
    except CorruptRecordError as error:
        return Damaged(error)
