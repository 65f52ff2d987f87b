"""Statistics that are computed while a page waits: one at a time, with progress, and none that nobody waits for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.statistics.report import conclude, read_saved
from beam_datasets.statistics.summary import cut, gather, merge, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.statistics.summary import Gathered, Request

RANGE_BYTES = 4 << 20  # between two steps of progress
PATIENCE = 60.0  # seconds after which nobody waits
MAX_KEPT = 32


class Summary:
    """The statistics of a slice, which a thread computes.

    Attributes:
        done: examples read.
        total: examples of the slice.
        found: the statistics, {'examples': number, 'features': ...}; None before they are computed.
        error: why they cannot be computed; '' before.
    """

    def __init__(self, directory: str, expression: str, turn: threading.Lock) -> None:
        self.done, self.total, self.error = 0, 0, ""
        self.found: dict[str, Any] | None = None
        self.asked = time.monotonic()
        self._name, self._turn = expression, turn
        request = prepare(directory, [expression])
        saved = read_saved(prepare(directory))
        if saved is not None and expression in saved.slices:
            self.found = saved.slices[expression]
            return
        self.total = sum(run.run.take for run in request.runs())
        self._thread = threading.Thread(target=self._run, args=(request,), daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits for the statistics, for some seconds, and returns whether they are there.

        Raises:
            BeamDatasetsError: they cannot be computed.
        """
        self.asked = time.monotonic()
        if self.found is None:
            self._thread.join(seconds)
        if self.error:
            raise BeamDatasetsError(self.error)
        return self.found is not None

    def _run(self, request: Request) -> None:
        try:
            with self._turn:
                self.found = conclude(merge(self._parts(request)), request).slices[self._name]
        except Exception as error:  # it is shown where it is asked for
            self.error = str(error)

    def _parts(self, request: Request) -> Iterator[Gathered]:
        for run in request.runs():
            for part in cut(run, request, RANGE_BYTES):
                if time.monotonic() - self.asked > PATIENCE:
                    raise TimeoutError(f"it was stopped after {PATIENCE:g} s in which no page asked for it; ask again")
                yield gather(part, request)
                self.done += part.run.take


class Summaries:
    """The statistics that pages asked for, the last ones."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Summary] = {}
        self._turn, self._lock = threading.Lock(), threading.Lock()

    def of(self, directory: str, expression: str) -> Summary:
        """Returns the statistics of a slice, and starts to compute them if they are new or failed."""
        with self._lock:
            found = self._kept.pop((directory, expression), None)
            if found is None or found.error:
                found = Summary(directory, expression, self._turn)
            self._kept[directory, expression] = found
            while len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            return found
