"""Examples for which a condition holds, found by a process of limited memory and time: DuckDB itself limits neither."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import signal
import threading
import time
from functools import lru_cache
from typing import Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.materializing.where import Where
from beam_datasets.reading.opening import builder_from_directory

MAX_BYTES, MAX_WAIT = 2 << 30, 10.0  # of memory, and seconds for an answer
MAX_START = 60.0  # seconds until the process is ready
MAX_BLOCK, BLOCK_BYTES = 2048, 32 << 20  # examples that are looked at together, and about their bytes
_opened = lru_cache(8)(builder_from_directory)


class Searcher:
    """A process that searches, one search at a time. It starts with the first one, and ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Any = None
        atexit.register(self._end)

    def __call__(self, directory: str, expression: str, where: str, *limits: float) -> tuple[list[int], int]:
        """Returns what `search` does, to which it passes the arguments.

        Raises:
            BeamDatasetsError: the condition is unusable, or needs more memory or time than there is.
        """
        with self._lock:
            try:
                if self._pool is None:
                    self._pool = multiprocessing.get_context("spawn").Pool(1, _limit)
                    self._pool.apply_async(int).get(MAX_START)  # until it is ready
                found = self._pool.apply_async(search, (directory, expression, where, *limits)).get(MAX_WAIT)
            except (multiprocessing.TimeoutError, BeamDatasetsError) as error:  # one that was killed does not answer
                if isinstance(error, BeamDatasetsError) and "Out of Memory Error" not in str(error):
                    raise
                self._end()
                limit = f"{MAX_BYTES >> 30} GiB of memory or {MAX_WAIT:g} s"
                raise BeamDatasetsError(f"where={where!r}: stopped, because it takes more than {limit}.") from None
        indices, stop = found
        return indices, stop

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None


def _limit() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    with contextlib.suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))


def search(
    directory: str, expression: str, where: str, start: int, stop: int, count: int, seconds: float
) -> tuple[list[int], int]:
    """Returns the indices of examples for which a condition holds, and where the search ended.

    Args:
        directory: of the version.
        expression: of the slice.
        where: the condition.
        start: the first index that is looked at.
        stop: the index before which the search ends.
        count: of examples, after which it ends.
        seconds: after which it ends.
    """
    published = _opened(directory)
    splits = published.info.splits.values()
    size = sum(split.num_bytes for split in splits) // max(sum(split.num_examples for split in splits), 1)
    block = min(BLOCK_BYTES // max(size, 1) + 1, MAX_BLOCK)
    places, records = Where(where).compile(published.info.features), published.as_dataset(expression).raw()
    found: list[int] = []
    deadline = time.monotonic() + seconds
    while start < stop and len(found) < count and time.monotonic() < deadline:
        end = min(start + block, stop)
        found += [start + place for place in places(records[start:end])]
        start = end
    return found[:count], found[count - 1] + 1 if len(found) > count else start
