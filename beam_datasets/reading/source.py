"""The records of a slice: file instructions and a read order, made into an `Operation` that others are put on."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.native import note_if_missing
from beam_datasets.reading.blocks import every, sizes
from beam_datasets.reading.config import arrange_files
from beam_datasets.reading.interleave import InterleaveOrder
from beam_datasets.reading.operations import Operation
from beam_datasets.reading.runs import CHUNK_BYTES, RunReader, read_visits
from beam_datasets.reading.session import Session
from beam_datasets.reading.small_runs import SmallRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from beam_datasets.model.shards import FileInstructions
    from beam_datasets.reading.blocks import Items
    from beam_datasets.reading.config import ReadConfig
    from beam_datasets.reading.shards import Shard, ShardPool

    Ints = NDArray[np.int64]
    Visits = tuple[Ints, Ints, Ints]
    ChunkOf = Callable[[int, int, bool], Any]

_OPEN_BYTES = 32 << 20  # of the chunks of all remote files that are read in turn, those that are read ahead too
_CACHE_BYTES = 2 << 20  # of those of local files: with more, what was read is out of the cache when it is decoded
_LEAST_CHUNK, _LARGEST_CHUNK = 16 << 10, 8 << 20
_MOST_THREADS = 32


@dataclass(frozen=True)
class Arrangement:
    """The runs of an epoch in the order in which they are opened.

    Attributes:
        order: how they are interleaved.
        runs: the number of each among the slice's runs; shape (runs,), int64.
        skip: how many records of its shard each leaves out before it; shape (runs,), int64.
    """

    order: InterleaveOrder
    runs: Ints
    skip: Ints


class Source(Operation):
    """Records in read order; with ids, pairs of an id and a record.

    Attributes:
        pool: of the dataset's shards.
        instructions: the runs of the slice, in dataset order.
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
        self._remote = storage.is_remote(pool.directory)
        self._shuffle_files = shuffle_files
        self._latest: tuple[int, Arrangement] | None = None
        self._files: dict[int, tuple[str, int]] = {}  # names are made when they are needed, and once
        arranged = self.arrangement(0).runs
        self._in_order = np.sort(arranged)
        takes = instructions.take[self._in_order]
        self._firsts = np.cumsum(takes) - takes
        super().__init__(int(takes.sum()), record_bytes, ())

    def arrangement(self, epoch: int) -> Arrangement:
        """Returns the runs of an epoch in the order in which they are opened."""
        epoch = epoch if self._shuffle_files and self._config.reshuffles else 0
        latest = self._latest
        if latest is None or latest[0] != epoch:
            runs = self._arranged(epoch)
            order = InterleaveOrder(self.instructions.take[runs], self._cycle, self._config.block_length)
            latest = epoch, Arrangement(order, np.array(runs, np.int64), self.instructions.skip[runs])
            self._latest = latest
        return latest[1]

    def _arranged(self, epoch: int) -> list[int]:
        arrange = functools.partial(arrange_files, config=self._config, shuffle_files=self._shuffle_files, epoch=epoch)
        if self._config.sort_fn is None:
            return arrange(range(len(self.instructions)))
        files = list(self.instructions)
        numbers = {id(file): number for number, file in enumerate(files)}
        try:
            runs = [numbers[id(file)] for file in arrange(files)]
        except KeyError:
            raise ValueError(
                "interleave_sort_fn returned something else than file instructions it was given."
            ) from None
        if len(set(runs)) < len(runs):  # what is open, and read ahead, is known by its run
            raise ValueError("interleave_sort_fn returned a file instruction twice. Read it again by repeat().")
        return runs

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields the records in read order."""
        if not where:
            return iter(())
        blocks = self._blocks(where.start, where.stop, epoch, session)
        return blocks if where.step == 1 else every(blocks, where.step)

    def _blocks(self, start: int, stop: int, epoch: int, session: Session) -> Iterator[Items]:
        """Yields blocks of few records at first, so that the first one does not wait for others, then of more."""
        visits = self._visits(start, stop, epoch, session)
        chunk_of, chunks = self._chunks(start, stop, epoch, session)
        counts = sizes(self.item_bytes)
        if not self._config.add_tfds_id:
            yield from read_visits(visits, chunk_of, counts, chunks)
            return
        for run, first, visit in _one_by_one(visits):
            for block in read_visits((visit,), chunk_of, counts, chunks):
                yield self.items(list(block), run, first)
                first += len(block)

    def _chunks(self, start: int, stop: int, epoch: int, session: Session) -> tuple[ChunkOf, dict[int, Any]]:
        """Returns what gives the chunks of runs that have positions [start, stop), and those that are there by then."""
        chunk_of, runs = functools.partial(self._chunk, session), self.arrangement(epoch).runs
        records = self.length / len(runs)
        run_bytes = records * self.item_bytes
        is_part = stop - start < min(self._cycle, len(runs)) * records  # for which no run need be read to its end
        if self._remote or is_part or not SmallRuns.are_read(run_bytes):
            return chunk_of, session.chunks
        small = SmallRuns(self.pool.directory, self.instructions, runs, self._chunk_bytes, chunk_of)
        return small.chunk, small.chunks

    def _chunk(self, session: Session, run: int, first: int, damaged: bool) -> Any:
        """Returns the chunk of a run that has a record; raises the record's error, where it is damaged."""
        reader = session.reader(run, first, functools.partial(self._open, session))
        if damaged:
            reader.raise_damaged(first)
        return reader.chunk(first)

    def _visits(self, start: int, stop: int, epoch: int, session: Session) -> Iterator[Visits]:
        """Yields arrays (runs, first records in their shards, counts); where it pays, runs are opened before."""
        arrangement = self.arrangement(epoch)
        runs, skip = arrangement.runs, arrangement.skip
        found = arrangement.order.visits(start, stop)
        visits = ((runs[files], firsts + skip[files], counts) for files, firsts, counts in found)
        return self._forgotten(visits, session) if session.executor is None else self._prepared(visits, session)

    def _forgotten(self, visits: Iterator[Visits], session: Session) -> Iterator[Visits]:
        """Yields the visits; runs of which they take the last record are forgotten soon after it.

        The arrays are cut where as many runs have ended as are read in turn: with more, those that are read would no
        longer be among the session's.
        """
        stops = self.instructions.skip + self.instructions.take
        for runs, firsts, counts in visits:
            ends = firsts + counts == stops[runs]  # before the arrays are changed
            cuts = (np.flatnonzero(ends)[self._cycle - 1 :: self._cycle] + 1).tolist()
            for start, stop in itertools.pairwise([0, *cuts, len(runs)]):
                part = slice(start, stop)
                yield runs[part], firsts[part], counts[part]
                for run in runs[part][ends[part]].tolist():
                    session.forget(run)

    def _prepared(self, visits: Iterator[Visits], session: Session) -> Iterator[Visits]:
        """Yields the visits one by one; runs are opened before the first one comes, and forgotten after the last."""
        load = functools.partial(self._open, session)
        stops = (self.instructions.skip + self.instructions.take).tolist()
        coming = _one_by_one(visits)
        waiting: deque[tuple[int, int, Visits]] = deque()
        while True:
            for run, first, visit in itertools.islice(coming, self._cycle + 1 - len(waiting)):
                session.prepare(run, first, load)
                waiting.append((run, first, visit))
            if not waiting:
                return
            run, first, visit = waiting.popleft()
            ends = first + int(visit[2][0]) == stops[run]
            yield visit
            if ends:
                session.forget(run)

    def session(self) -> Session:
        """Returns a new session to read this source with."""
        threads = min(2 * self._cycle, _MOST_THREADS) if self._remote else 0
        return Session(2 * self._cycle + 32, threads)

    def items(self, records: list[Any], run: int, first: int) -> Items:
        """Returns what is made of records of a run that begin with number `first` of its shard."""
        if not self._config.add_tfds_id:
            return records
        name = storage.basename(self.instructions.filename(run))
        return [(f"{name}__{number}".encode(), record) for number, record in enumerate(records, first)]

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the records at positions of the read order."""
        arrangement = self.arrangement(epoch)
        files, places = arrangement.order.places(positions)
        return self._fetch(arrangement.runs[files], places)

    def fetch_index(self, index: int) -> Any:
        """Returns the record at an index in [0, length) of the dataset order."""
        firsts, runs, skips = self._columns
        place = bisect.bisect_right(firsts, index) - 1
        run, record = runs[place], index - firsts[place] + skips[place]
        file = self._files.get(run)
        shard = self._shard(run) if file is None else self.pool.open(*file)
        data = shard.read_one(record)
        return self.items([data], run, record)[0] if self._config.add_tfds_id else data

    def fetch_indices(self, indices: Ints) -> Items:
        """Returns the records at indices in [0, length) of the dataset order."""
        place = np.searchsorted(self._firsts, indices, side="right") - 1
        return self._fetch(self._in_order[place], indices - self._firsts[place])

    def index_among_read(self, index: int) -> int | None:
        """Returns which index the example at an index of the whole slice has here; None where its run is not read."""
        firsts = np.cumsum(self.instructions.take) - self.instructions.take
        run = int(np.searchsorted(firsts, index, side="right")) - 1
        place = int(np.searchsorted(self._in_order, run))
        if place == len(self._in_order) or self._in_order[place] != run:
            return None
        return int(self._firsts[place]) + index - int(firsts[run])

    @functools.cached_property
    def _columns(self) -> tuple[list[int], list[int], list[int]]:
        """For each run in dataset order: its first index, its number, and what it leaves out before; as lists."""
        return self._firsts.tolist(), self._in_order.tolist(), self.instructions.skip[self._in_order].tolist()

    def _fetch(self, runs: Ints, places: Ints) -> Items:
        """Returns the records at places within runs."""
        records = places + self.instructions.skip[runs]
        by_place = np.lexsort((records, runs))
        cuts = np.flatnonzero(np.diff(runs[by_place])) + 1
        found: Items = [None] * len(runs)

        def fetch(some: Ints) -> None:
            run, wanted = int(runs[some[0]]), records[some]
            data = self._shard(run).read_many(wanted)
            if self._config.add_tfds_id:
                data = [self.items([data], run, record)[0] for record, data in zip(wanted.tolist(), data)]
            for place, item in zip(some.tolist(), data):
                found[place] = item

        bounds = [0, *cuts.tolist(), len(runs)]
        parts = [by_place[start:stop] for start, stop in itertools.pairwise(bounds)] if len(runs) else []
        if len(parts) > 1 and self._remote:
            with ThreadPoolExecutor(min(len(parts), _MOST_THREADS), "beam_datasets-fetch") as executor:
                list(executor.map(fetch, parts))
        else:
            list(map(fetch, parts))
        return found

    def _shard(self, run: int) -> Shard:
        file = self._files.get(run)
        if file is None:
            file = self.instructions.filename(run), int(self.instructions.examples_in_shard[run])
            self._files[run] = file
        return self.pool.open(*file)

    @property
    def _chunk_bytes(self) -> int:
        """How much of a local run is read at a time."""
        return min(CHUNK_BYTES, max(_CACHE_BYTES // self._cycle, _LEAST_CHUNK))

    def _open(self, session: Session, run: int, first: int) -> RunReader:
        """Returns a reader of a run; where it reads ahead, it has read the chunk with a record."""
        executor = session.executor
        stop = int(self.instructions.skip[run]) + int(self.instructions.take[run])
        if executor is None:
            return RunReader(self._shard(run), stop, self._chunk_bytes)
        chunk_bytes = min(_LARGEST_CHUNK, max(_OPEN_BYTES // (2 * self._cycle), _LEAST_CHUNK))
        return RunReader(self._shard(run), stop, chunk_bytes, executor.submit).load(first)


def _one_by_one(visits: Iterable[Visits]) -> Iterator[tuple[int, int, Visits]]:
    """Yields (run, first record, arrays of one) of each visit."""
    for runs, firsts, counts in visits:
        for at, (run, first) in enumerate(zip(runs.tolist(), firsts.tolist())):
            yield run, first, (runs[at : at + 1], firsts[at : at + 1], counts[at : at + 1])
