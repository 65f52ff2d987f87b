"""Follows a remote job: lines on standard error when it changes, and at least every 30 s.

A line has what the engine reports of the job, and what the job has written so far, read off the files in its staging
and spill directories. The metrics of Beam do not serve: runners report them when a stage ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from beam_datasets import storage
from beam_datasets.beam.checks import EngineError
from beam_datasets.beam.flink import JobStatus
from beam_datasets.display import progress
from beam_datasets.errors import StorageError
from beam_datasets.generate.progress import PROGRESS_FILE, Progress, measure
from beam_datasets.generate.runs import Run

ASK_SECONDS = 2.0  # between two questions to the engine
PAUSE_SECONDS = 5.0  # between two lines about changes of stages
LINE_SECONDS = 30.0  # between two lines where nothing changes


@dataclass
class Follower:
    """Shows what a remote job does while its launcher waits for its end.

    Attributes:
        name: of the job.
        page: where it can be looked at.
        status: asks the engine; returns None if the runner does not say more than a state, or does not know the job.
        run: whose directories show what the job has written; None if it writes no dataset.
        num_units: units of the source; None if they are unknown.
        restarts: how often the engine has repeated a part of the job, so far.
    """

    name: str
    page: str
    status: Callable[[], JobStatus | None]
    run: Run | None = None
    num_units: int | None = None
    restarts: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _last: JobStatus | None = None
    _said_at: float = 0.0
    _done: tuple[Progress, float] | None = None
    _changed_at: float = 0.0

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Prints lines from another thread while active."""
        self._said_at = self._changed_at = time.monotonic()
        thread = threading.Thread(target=self._loop, name="follower", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _loop(self) -> None:
        while not self._stop.wait(ASK_SECONDS):
            try:
                self.look()
            except Exception as error:  # the job goes on, and is waited for
                self._say_sometimes(f"the progress is unknown ({type(error).__name__}: {error})")

    def look(self) -> None:
        """Asks the engine once, and prints what is new."""
        try:
            status = self.status()
        except EngineError as error:
            self._say_sometimes(str(error))
            return
        if status is not None:
            for failure in status.failures[self.restarts :]:
                self.restarts += 1
                self._say(f"restart {self.restarts}: {failure.reason}")
        silent = time.monotonic() - self._said_at
        is_changed = (status and status.stages) != (self._last and self._last.stages)
        if silent >= LINE_SECONDS or (is_changed and silent >= PAUSE_SECONDS):
            self._last = status
            done = self._measure()
            self._say(self._line(status, done))
            self._save(status, done)

    def _say_sometimes(self, text: str) -> None:
        if time.monotonic() - self._said_at >= LINE_SECONDS:
            self._say(text)

    def _say(self, text: str) -> None:
        self._said_at = time.monotonic()
        if progress.is_shown:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def _measure(self) -> Progress | None:
        if self.run is None:
            return None
        return measure(self.run.staging_dir, self.run.spill_dir, in_stores=True)

    def _line(self, status: JobStatus | None, done: Progress | None) -> str:
        """Returns what the job does and has done, for people."""
        now, parts = time.monotonic(), []
        if status is None:
            parts.append(f"job {self.name} runs")
        elif status.is_waiting:
            parts.append("waiting for slots")
        else:
            parts.append(f"{', '.join(status.stages) or status.state} (tasks: {status.finished} of {status.tasks})")
        if done is not None:
            parts += self._parts_of(done, now)
        if self.restarts:
            parts.append(_plural(self.restarts, "restart"))
        return "; ".join(parts)

    def _parts_of(self, done: Progress, now: float) -> Iterator[str]:
        before, since = self._done or (Progress(0, 0, 0, 0), self._changed_at)
        if done != before:
            self._changed_at = now
        self._done = done, now
        if done.examples_encoded:
            rate = max(done.examples_encoded - before.examples_encoded, 0) / max(now - since, 1e-3)
            encoded = "examples encoded, some twice" if self.restarts else "examples encoded"
            yield f"{done.examples_encoded:,} {encoded}, {done.bytes_encoded / 1e6:,.1f} MB, {rate:,.0f}/s"
        if self.num_units:
            yield f"units: {min(done.units_finished, self.num_units):,} of {self.num_units:,}"
        if done.shards_written:
            yield f"{_plural(done.shards_written, 'shard')} written, {done.bytes_written / 1e6:,.1f} MB"
        if (seconds := now - self._changed_at) >= LINE_SECONDS:
            yield f"nothing written for {seconds:.0f} s"

    def _save(self, status: JobStatus | None, done: Progress | None) -> None:
        """Writes the same to a file in the spill directory, for programs, and for run.json."""
        if self.run is None or self.run.spill_dir is None:
            return
        content = {
            "time": time.time(),
            "job": self.name,
            "page": self.page,
            "state": status.state if status else None,
            "stages": list(status.stages) if status else [],
            "restarts": [{"time": each.time, "reason": each.reason} for each in status.failures] if status else [],
            "units": self.num_units,
            **({name: getattr(done, name) for name in Progress.__slots__} if done else {}),
        }
        with contextlib.suppress(StorageError):  # the lines show it too
            storage.write_bytes(storage.join(self.run.spill_dir, PROGRESS_FILE), json.dumps(content, indent=1).encode())


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
