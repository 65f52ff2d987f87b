"""The records of a slice: file instructions and a read order, made into an `Operation` that others are put on."""

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
from beam_datasets.reading.blocks import Damaged, Items, block_sizes, join_blocks, stop_at_damaged
from beam_datasets.reading.config import ReadConfig, chosen_files
from beam_datasets.reading.elements.executor import usable_cores
from beam_datasets.reading.index.interleave import InterleaveOrder
from beam_datasets.reading.index.permutations import file_order
from beam_datasets.reading.index.transforms import Operation, Spans, limit_spans, positions_of
from beam_datasets.reading.records.run_reader import CHUNK_BYTES, Ranges, RunReader, Visits, ranges_of, read_visits

if TYPE_CHECKING:
    from beam_datasets.metadata.shards import FileInstructions
    from beam_datasets.reading.records.shards import Shard, ShardPool

Ints = NDArray[np.int64]

_OPEN_BYTES = 32 << 20  # of the chunks of all remote files that are read in turn, those that are read ahead too
_CACHE_BYTES = 2 << 20  # of those of local files: with more, what was read is out of the cache when it is decoded
_MIN_CHUNK, _MAX_CHUNK = 16 << 10, 8 << 20
_MAX_THREADS = 32
_MIN_VISITS = 1 << 10
_AHEAD_VISITS = 1 << 14  # to remote runs that are known before they are read


class Source(Operation):
    """Records in read order; with ids, pairs of an id and a record.

    Attributes:
        pool: of the dataset's shards.
        instructions: the runs of the slice, in dataset order.
        chosen: the numbers of those that are read, in order, before the shuffle of files.
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
        """Takes a slice.

        Args:
            pool: of the dataset's shards.
            instructions: the runs of the slice.
            config: how it is read.
            ordered: whether the dataset has `disable_shuffling`.
            shuffle_files: whether the runs are opened in a shuffled order.
            record_bytes: about how many bytes a record has.

        Raises:
            ValueError: the configuration does not fit the slice.
        """
        note_if_missing()
        self.pool = pool
        self.instructions = instructions
        self._config = config
        self._cycle = config.cycle_length(ordered=ordered)
        self._is_remote = storage.is_remote(pool.directory)
        self._shuffle_files = shuffle_files
        self._latest: tuple[int, InterleaveOrder, Ints] | None = None
        self._files: dict[int, tuple[str, int]] = {}  # names are made when they are needed, and once
        self.chosen = chosen_files(instructions, config)  # once: a function may not give the same order again
        self._in_order = np.sort(np.array(self.chosen, np.int64))
        takes = instructions.take[self._in_order]
        self._firsts = np.cumsum(takes) - takes
        super().__init__(int(takes.sum()), record_bytes, ())

    def arrangement(self, epoch: int) -> tuple[InterleaveOrder, Ints]:
        """Returns how the runs of an epoch are interleaved, and their numbers in the order in which they are opened."""
        epoch = epoch if self._shuffle_files and self._config.reshuffles else 0
        latest = self._latest
        if latest is None or latest[0] != epoch:
            config, runs = self._config, np.array(self.chosen, np.int64)
            if self._shuffle_files:
                runs = runs[file_order(len(runs), config.seed, epoch, reshuffle=config.reshuffles)]
            order = InterleaveOrder(self.instructions.take[runs], self._cycle, config.block_length)
            self._latest = latest = epoch, order, runs
        return latest[1:]

    def locate(self, positions: Ints, epoch: int) -> tuple[Ints, Ints]:
        """Returns the runs of the records at positions of the read order, and their numbers in their shards."""
        order, runs = self.arrangement(epoch)
        files, within = order.locate(positions)
        record_runs = runs[files]
        return record_runs, within + self.instructions.skip[record_runs]

    def locate_indices(self, indices: Ints) -> tuple[Ints, Ints]:
        """Returns the same of the records at indices in [0, length) of the dataset order."""
        run_indices = np.searchsorted(self._firsts, indices, side="right") - 1
        runs = self._in_order[run_indices]
        return runs, indices - self._firsts[run_indices] + self.instructions.skip[runs]

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the records in read order, few at first, so that the first one does not wait for others."""
        first = next(spans, None)
        if first is None:
            return
        spans = itertools.chain((first,), spans)
        if self._config.add_tfds_id:
            spans, named = itertools.tee(spans)
        _allow_reading_ahead()
        with contextlib.closing(_Reading(self, _joined(self._visits(spans, epoch)))) as reading:
            blocks = read_visits(reading, reading.chunk, block_sizes(self.item_bytes))
            if not self._config.add_tfds_id:
                yield from blocks
                return
            parts = map(positions_of, limit_spans(named, itertools.repeat(_MIN_VISITS)))
            names = itertools.chain.from_iterable(self._names(*self.locate(positions, epoch)) for positions in parts)
            yield from (_with_names(block, names) for block in blocks)

    def _names(self, runs: Ints, records: Ints) -> Iterator[bytes]:
        """Yields the ids of records."""
        names = {run: self._namer(self._file(run)[0]) for run in set(runs.tolist())}
        return (f"{names[run]}__{record}".encode() for run, record in zip(runs.tolist(), records.tolist()))

    @functools.cached_property
    def _namer(self) -> Callable[[str], str]:
        return self.pool.namer(self.instructions)

    def _visits(self, spans: Iterator[Spans], epoch: int) -> Iterator[Visits]:
        """Yields arrays (runs, first records in their shards, counts)."""
        order, runs = self.arrangement(epoch)
        skip = self.instructions.skip[runs]
        for starts, counts in spans:
            if len(starts) == 1:
                visits = order.visits(int(starts[0]), int(starts[0] + counts[0]))
            else:
                visits = iter((order.visits_of_ranges(starts, counts),))
            yield from ((runs[files], firsts + skip[files], numbers) for files, firsts, numbers in visits)

    @property
    def is_remote(self) -> bool:
        """Whether the files are remote."""
        return self._is_remote

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the records at positions of the read order; `Damaged` in the place of a damaged one."""
        return self._fetch(*self.locate(positions, epoch))

    def fetch_index(self, index: int) -> Any:
        """Returns the record at an index in [0, length) of the dataset order."""
        firsts, runs, skips = self._columns
        run_index = bisect.bisect_right(firsts, index) - 1
        run, record = runs[run_index], index - firsts[run_index] + skips[run_index]
        data = self.pool.open(*(self._files.get(run) or self._file(run))).read_one(record)
        if not self._config.add_tfds_id:
            return data
        return _with_names([data], self._names(np.array([run]), np.array([record])))[0]

    def fetch_indices(self, indices: Ints) -> Items:
        """Returns the records at indices in [0, length) of the dataset order; a damaged one is an error."""
        return join_blocks(stop_at_damaged([self._fetch(*self.locate_indices(indices))]))

    def index_among_read(self, index: int) -> int | None:
        """Returns which index the example at an index of the whole slice has here; None where its run is not read."""
        firsts = np.cumsum(self.instructions.take) - self.instructions.take
        run = int(np.searchsorted(firsts, index, side="right")) - 1
        run_index = int(np.searchsorted(self._in_order, run))
        if run_index == len(self._in_order) or self._in_order[run_index] != run:
            return None
        return int(self._firsts[run_index]) + index - int(firsts[run])

    @functools.cached_property
    def _columns(self) -> tuple[list[int], list[int], list[int]]:
        """For each run in dataset order: its first index, its number, and what it leaves out before; as lists."""
        return self._firsts.tolist(), self._in_order.tolist(), self.instructions.skip[self._in_order].tolist()

    def _fetch(self, runs: Ints, records: Ints) -> Items:
        """Returns records of runs by their numbers in their shards."""
        by_place = np.lexsort((records, runs))
        cuts = np.flatnonzero(np.diff(runs[by_place])) + 1
        items: Items = [None] * len(runs)

        def fetch(indices: Ints) -> None:
            shard = self.pool.open(*self._file(int(runs[indices[0]])))
            for index, item in zip(indices.tolist(), _read_many(shard, records[indices])):
                items[index] = item

        bounds = [0, *cuts.tolist(), len(runs)]
        parts = [by_place[start:stop] for start, stop in itertools.pairwise(bounds)] if len(runs) else []
        if len(parts) > 1 and self.is_remote:
            list(_fetch_threads(os.getpid()).map(fetch, parts))
        else:
            list(map(fetch, parts))
        return _with_names(items, self._names(runs, records)) if self._config.add_tfds_id else items

    def _file(self, run: int) -> tuple[str, int]:
        """Returns the name of a run's shard, and how many records it has."""
        file = self._files.get(run)
        if file is None:
            file = self.instructions.filename(run), int(self.instructions.examples_in_shard[run])
            self._files[run] = file
        return file

    @property
    def _chunk_bytes(self) -> int:
        """How much of a run is read at a time: more where fewer runs are read in turn."""
        if self.is_remote:  # two chunks of each run: one is read ahead
            return min(_MAX_CHUNK, max(_OPEN_BYTES // (2 * self._turns), _MIN_CHUNK))
        return min(CHUNK_BYTES, max(_CACHE_BYTES // self._turns, _MIN_CHUNK))

    @property
    def _turns(self) -> int:
        """How many runs are read in turn, at least 1."""
        return max(1, min(self._cycle, len(self.chosen)))

    def reader(self, run: int, wanted: Ranges, executor: ThreadPoolExecutor | None) -> RunReader:
        """Returns a reader of a run; where there are threads, it has read the first chunk of what is wanted."""
        stop = int(self.instructions.skip[run]) + int(self.instructions.take[run])
        shard = self.pool.open(*self._file(run))
        if executor is None:
            return RunReader(shard, stop, self._chunk_bytes)
        return RunReader(shard, stop, self._chunk_bytes, executor.submit, self._turns).load(wanted)


@functools.cache
def _fetch_threads(process_id: int) -> ThreadPoolExecutor:
    """Returns the threads of this process that fetch records of remote files; a fork gets its own."""
    return ThreadPoolExecutor(_MAX_THREADS, "beam_datasets-fetch")


class _Reading:
    """The visits to the runs of a source, and the readers of those that are open. For one thread."""

    def __init__(self, source: Source, visits: Iterator[Visits]) -> None:
        self._source, self._visits, self._cycle = source, visits, source._cycle
        self._next: deque[Visits] = deque()
        self._readers: OrderedDict[int, RunReader | Future[RunReader]] = OrderedDict()
        threads = min(2 * self._cycle, _MAX_THREADS)
        self._executor = ThreadPoolExecutor(threads, "beam_datasets-read") if source.is_remote else None

    def __iter__(self) -> Iterator[Visits]:
        """Yields arrays of visits, of which those that come next are known."""
        least = 0 if self._executor is None else _AHEAD_VISITS
        for visits in self._visits:
            self._next.append(visits)
            if sum(len(runs) for runs, _, _ in self._next) > least:
                yield self._next.popleft()
        while self._next:
            yield self._next.popleft()

    def chunk(self, run: int, visits: Visits, damaged: bool, failed: bool) -> Any:
        """Returns the chunk of a run, see `runs.read_visits`; where that pays, others are opened meanwhile."""
        coming = _together([visits, *self._next])  # the rest of the array that is read, and those that come next
        ranges = ranges_of(run, coming)
        if self._executor is not None:
            for other in distinct(coming[0])[1 : self._cycle + 1].tolist():
                if other not in self._readers:
                    wanted = ranges_of(other, coming)
                    self._keep(other, self._executor.submit(self._source.reader, other, wanted, self._executor))
        reader = self._readers.pop(run, None) or self._source.reader(run, ranges, self._executor)
        if isinstance(reader, Future):
            reader = reader.result()
        self._keep(run, reader)
        if damaged:
            reader.raise_damaged(int(visits[1][0]))
        chunk = reader.chunk(ranges, failed or damaged)
        if reader.has_ended and self._executor is None:
            self._readers.pop(run, None)
        return chunk

    def _keep(self, run: int, reader: RunReader | Future[RunReader]) -> None:
        """Keeps a reader; drops the least recently used one if there are too many."""
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
    """Lets a thread of the native module read local files ahead, if there is another core for it."""
    if core is not None:
        core.set_threads(int(usable_cores() > 1))


def _joined(visits: Iterator[Visits]) -> Iterator[Visits]:
    """Yields the visits in arrays that are not small: what is read of a run in one piece ends with its array."""
    held: list[Visits] = []
    for batch in visits:
        held.append(batch)
        if sum(len(runs) for runs, _, _ in held) >= _MIN_VISITS:
            yield _together(held)
            held = []
    if held:
        yield _together(held)


def _together(visits: list[Visits]) -> Visits:
    if len(visits) == 1:
        return visits[0]
    runs, firsts, counts = map(np.concatenate, zip(*visits))
    return runs, firsts, counts


def _with_names(items: Items, names: Iterator[bytes]) -> Items:
    """Returns pairs of a name and an item, and damaged items alone."""
    return [item if type(item) is Damaged else (name, item) for item, name in zip(items, names)]


def distinct(runs: Ints) -> Ints:
    """Returns the numbers, none of them negative, each once, in the order in which they come.

    >>> distinct(np.array([3, 1, 3, 0, 1]))
    array([3, 1, 0])
    """
    places: Ints = np.full(int(runs.max(initial=-1)) + 1, -1)
    places[runs[::-1]] = np.arange(len(runs))[::-1]  # the last value stays: where a number comes first
    firsts: Ints = np.sort(places[places >= 0])
    return runs[firsts]


def _read_many(shard: Shard, records: Ints) -> list[Any]:
    """Returns the data of records in ascending order; `Damaged` in the place of a damaged one."""
    try:
        shard.offsets  # noqa: B018 - where they are not known, a walk through the shard finds them
    except CorruptRecordError as error:
        return [Damaged(error)] * len(records)
    try:
        return shard.read_many(records)
    except CorruptRecordError:
        return [_read_one(shard, record) for record in records.tolist()]


def _read_one(shard: Shard, record: int) -> Any:
    try:
        return shard.read_one(record)
    except CorruptRecordError as error:
        return Damaged(error)
