"""Statistics that are computed while a page waits, with progress, and none that nobody waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.statistics.report import conclude, read_saved
from beam_datasets.statistics.summary import Gathered, Request, cut, gather, merge, prepare

RANGE_BYTES = 4 << 20  # between two steps of progress
PATIENCE = 60.0  # seconds after which nobody waits
MAX_KEPT = 32
_FREE = threading.BoundedSemaphore(2)  # slices that are read at the same time


class Summary:
    """The statistics of a slice, which a thread computes.

    Attributes:
        done: examples read.
        total: examples of the slice.
        found: the statistics, {'examples': number, 'features': ...}; None before they are computed.
    """

    def __init__(self, published: ReadOnlyBuilder, expression: str) -> None:
        directory = published.dataset_dir
        self._name, self._request = expression, prepare(directory, [expression])
        self._lock, self._ended, self._error = threading.Lock(), threading.Event(), ""
        self._ended.set()
        self.done, self.total = 0, sum(run.run.take for run in self._request.runs())
        saved = read_saved(prepare(directory))
        self.found: dict[str, Any] | None = None if saved is None else saved.slices.get(expression)

    def wait(self, seconds: float, *, again: bool) -> bool:
        """Waits for the statistics, for some seconds, and returns whether they are there.

        Raises:
            BeamDatasetsError: they cannot be computed; if `again`, the next call tries again.
        """
        self.asked = time.monotonic()
        with self._lock:
            if self.found is None and not self._error and self._ended.is_set() and _FREE.acquire(blocking=False):
                self.done = 0
                self._ended.clear()
                threading.Thread(target=self._run, daemon=True).start()
        self._ended.wait(seconds)
        if error := self._error:
            self._error = "" if again else error
            raise BeamDatasetsError(error)
        return self.found is not None

    def _run(self) -> None:
        try:
            self.found = conclude(merge(self._parts(self._request)), self._request).slices[self._name]
        except Exception as error:  # it is shown where it is asked for
            self._error = str(error)
        finally:
            _FREE.release()
            self._ended.set()

    def _parts(self, request: Request) -> Iterator[Gathered]:
        for run in request.runs():
            for part in cut(run, request, RANGE_BYTES):
                if time.monotonic() - self.asked > PATIENCE:
                    raise TimeoutError(f"it was stopped after {PATIENCE:g} s in which no page asked for it; ask again")
                yield gather(part, request)
                self.done += part.run.take


summary_of = lru_cache(MAX_KEPT)(Summary)
