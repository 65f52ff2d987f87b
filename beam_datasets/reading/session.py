"""What one iterator has open, and the threads that read ahead for it where storage is far away."""

from __future__ import annotations

from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from beam_datasets.reading.runs import RunReader

    Load = Callable[[], RunReader]

T = TypeVar("T")


class Session:
    """The open runs of one iterator. For one thread, which the session's own threads serve.

    Attributes:
        chunks: what blocks take the records of open runs from, by run; see `runs.read_visits`.
        executor: the threads; None where nothing is read ahead.
    """

    def __init__(self, most: int, threads: int = 0) -> None:
        """Begins.

        Args:
            most: how many runs to keep open; beyond, those used least lately are closed.
            threads: how many to read ahead with; with none, nothing is read ahead.
        """
        self._most = most
        self.chunks: dict[int, Any] = {}
        self._readers: OrderedDict[int, RunReader | Future[RunReader]] = OrderedDict()
        self.executor = ThreadPoolExecutor(threads, "beam_datasets-read") if threads else None

    def reader(self, run: int, load: Load) -> RunReader:
        """Returns the reader of a run, made by `load` where it is not open."""
        reader = self._readers.get(run)
        if reader is None or isinstance(reader, Future):
            reader = load() if reader is None else reader.result()
            self._keep(run, reader)
        else:
            self._readers.move_to_end(run)
        return reader

    def is_open(self, run: int) -> bool:
        """Returns whether a run is open, or being opened."""
        return run in self._readers

    def prepare(self, run: int, load: Load) -> None:
        """Opens a run in a thread, if there are threads."""
        if self.executor is not None:
            self._keep(run, self.executor.submit(load))

    def ahead(self, calls: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Yields what the calls return; the next one is made in a thread meanwhile."""
        if self.executor is None:
            for call in calls:
                yield call()
            return
        waiting: deque[Future[T]] = deque()
        for call in calls:
            waiting.append(self.executor.submit(call))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def forget(self, run: int) -> None:
        """Lets go of a run's reader; what a block takes its records from stays."""
        self._readers.pop(run, None)

    def close(self) -> None:
        """Lets go of all runs, and ends the threads."""
        self._readers.clear()
        self.chunks.clear()
        if self.executor is not None:
            self.executor.shutdown(cancel_futures=True)

    def _keep(self, run: int, reader: Any) -> None:
        self._readers[run] = reader
        self._readers.move_to_end(run)
        if len(self._readers) > self._most:
            self._readers.popitem(last=False)
