"""Progress of a remote job: prints a line to standard error when the job changes, and at least every 30 s.

A line contains the status that the engine reports, and the bytes written so far, which are measured by the files
in its staging and spill directories. Metrics of Beam are too late: runners report them when a stage ends.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat

from beam_datasets import storage
from beam_datasets.display import progress
from beam_datasets.engines.checks import EngineError, connect_to_grpc
from beam_datasets.engines.flink import Failure, JobStatus
from beam_datasets.errors import StorageError
from beam_datasets.publishing.progress import PROGRESS_FILE, Progress, measure
from beam_datasets.publishing.runs import Run

ASK_SECONDS = 2.0  # between two requests to the engine
FIRST_PAUSE_SECONDS, NUM_FIRST_PAUSES = 0.2, 10  # the same at the beginning
PAUSE_SECONDS = 5.0  # between two lines about changes of stages
LINE_SECONDS = 30.0  # between two lines if nothing changes
START_SECONDS = 60.0  # in which a worker has started and written its first progress, unless its source is slow
_READ_SIZE = 1 << 12
POOL_SECONDS = 1.0  # for a worker pool on this machine to accept a connection, and to answer
_MEASURED = ("examples_encoded", "bytes_encoded", "shards_written", "bytes_written", "units_finished")
LOST_JOB_MANAGER = "the JobManager was lost, and another one runs the whole job again"


@dataclass
class Follower:
    """Shows the progress of a remote job while its launcher waits for the end.

    Attributes:
        name: name of the job.
        page: URL of the engine's page of the job.
        log: URL of the logs of the workers; '' if the engine has none.
        status: requests the status from the engine; returns None if the engine reports no details, or has no such job.
        run: the run that the job publishes; its directories show the progress. None if the job writes no dataset.
        num_units: number of units of the source; None if it is unknown.
        pool: address of the worker pool, if it can be reached from here; '' if not.
        failures: failures after which the engine has repeated the job or a part of it, oldest first.
    """

    name: str
    page: str
    log: str
    status: Callable[[], JobStatus | None]
    run: Run | None = None
    num_units: int | None = None
    pool: str = ""
    failures: list[Failure] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _last_status: JobStatus | None = None
    _printed_at: float = 0.0
    _last_progress: tuple[Progress, float] | None = None  # with the time at which it was measured
    _changed_at: float = 0.0
    _started: float = 0.0  # see `JobStatus.started`
    _is_first_look: bool = True
    _pool_connection: socket.socket | None = None
    _is_pool_lost: bool = False
    _has_failed_to_save: bool = False

    @property
    def restarts(self) -> int:
        """The number of times that the engine has repeated the job or a part of it so far."""
        return len(self.failures)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Context manager: follows the job on another thread."""
        self._printed_at = self._changed_at = time.monotonic()
        thread = threading.Thread(target=self._loop, name="follower", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            if self._pool_connection is not None:
                self._pool_connection.close()

    def _loop(self) -> None:
        """Calls `look` until `_stop` is set, first often, then every `ASK_SECONDS`; prints its exceptions."""
        # Often at first: the loss of a JobManager is only noticed if the job was seen before it.
        pauses = chain(repeat(FIRST_PAUSE_SECONDS, NUM_FIRST_PAUSES), repeat(ASK_SECONDS))
        while not self._stop.wait(next(pauses)):
            try:
                self.look()
            except Exception as error:  # the job goes on, and is waited for
                self._print_sometimes(f"the progress is unknown ({type(error).__name__}: {error})")

    def look(self) -> None:
        """Requests the status once; prints new failures, and a line if the job changed or 30 s have passed.

        Saves the status with each line, at the first look, and with each new failure: a short job may then publish.
        """
        num_failures = len(self.failures)
        self._watch_pool()
        try:
            status = self.status()
        except EngineError as error:
            self._print_sometimes(str(error))
            return
        if status is not None:
            self._report_restarts(status)
        silent = time.monotonic() - self._printed_at
        is_changed = (status and status.stages) != (self._last_status and self._last_status.stages)
        is_line_due = silent >= LINE_SECONDS or (is_changed and silent >= PAUSE_SECONDS)
        if not (is_line_due or self._is_first_look or len(self.failures) > num_failures):
            return
        self._is_first_look = False
        progress = self._measure()
        if is_line_due:
            self._last_status = status
            self._print(self._line(status, progress))
        self._save_status(status, progress)

    def _watch_pool(self) -> None:
        """Prints a line if the worker pool has ended since the last look, and one if it was started again.

        Flink waits for minutes for workers that ended with their pool. The connection of the last look shows the end of
        a pool that was started again at once.
        """
        if not self.pool:
            return
        last_connection, was_lost = self._pool_connection, self._is_pool_lost
        try:
            self._pool_connection = connect_to_grpc(self.pool, POOL_SECONDS)
        except ConnectionError:
            self._pool_connection = None
        except OSError:  # the pool or the machine is busy
            return
        self._is_pool_lost = self._pool_connection is None
        has_ended = last_connection is not None and _has_ended(last_connection)
        if self._is_pool_lost and not was_lost:
            self._print(f"the worker pool at {self.pool} has ended, and its workers with it: start it again")
        elif not self._is_pool_lost and (was_lost or has_ended):
            self._print(
                f"the worker pool at {self.pool} was started again; if the engine repeats the work of the workers that "
                "have ended, it begins within three minutes"
            )

    def _report_restarts(self, status: JobStatus) -> None:
        """Prints and stores the failures since the last status: of parts of the job, and of its JobManager."""
        if self._started and status.started > self._started:
            self._add_failure(Failure(status.started, LOST_JOB_MANAGER))
        self._started = status.started
        last = self.failures[-1].time if self.failures else 0.0
        for failure in status.failures:
            if failure.time > last:
                self._add_failure(failure)

    def _add_failure(self, failure: Failure) -> None:
        """Stores a failure, and prints it with its number."""
        self.failures.append(failure)
        self._print(f"restart {self.restarts}: {failure.reason}")

    def _print_sometimes(self, text: str) -> None:
        """Prints a line unless another was printed in the last `LINE_SECONDS`."""
        if time.monotonic() - self._printed_at >= LINE_SECONDS:
            self._print(text)

    def _print(self, text: str) -> None:
        """Prints a line with the local time to stderr ("12:30:00 text") if progress is shown, and records when."""
        self._printed_at = time.monotonic()
        if progress.is_shown:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def _measure(self) -> Progress | None:
        """Returns the progress that the files in the directories of the run show; None without a run."""
        if self.run is None:
            return None
        return measure(self.run.staging_dir, self.run.spill_dir, in_stores=True)

    def _line(self, status: JobStatus | None, progress: Progress | None) -> str:
        """Returns the line about the job: "Encode (tasks: 3 of 8); 1,200 examples encoded, ...; 1 restart"."""
        seconds, parts = time.monotonic(), []
        if status is None:
            parts.append(f"job {self.name} runs")
        elif status.is_waiting:
            parts.append("waiting for slots")
        else:
            parts.append(f"{', '.join(status.stages) or status.state} (tasks: {status.finished} of {status.tasks})")
        if progress is not None:
            parts += self._parts_of(progress, seconds)
            is_late = progress == Progress(0, 0, 0, 0) and seconds - self._changed_at >= START_SECONDS
            if is_late and status is not None:  # Flink's workers are started by worker pools
                parts.append(
                    "if no worker has started, the output of the worker pool says why; "
                    "Flink waits three minutes for workers that died with their pool"
                )
        if self.restarts:
            parts.append(_plural(self.restarts, "restart"))
        return "; ".join(parts)

    def _parts_of(self, progress: Progress, current_time: float) -> Iterator[str]:
        """Yields the parts of a line about examples, units and shards, and remembers the progress for the next rate."""
        last, since = self._last_progress or (Progress(0, 0, 0, 0), self._changed_at)
        if progress != last:
            self._changed_at = current_time
        self._last_progress = progress, current_time
        if progress.examples_encoded:
            rate = max(progress.examples_encoded - last.examples_encoded, 0) / max(current_time - since, 1e-3)
            encoded = "examples encoded, some twice" if self.restarts else "examples encoded"
            yield f"{progress.examples_encoded:,} {encoded}, {progress.bytes_encoded / 1e6:,.1f} MB, {rate:,.0f}/s"
        if self.num_units:
            yield f"units: {min(progress.units_finished, self.num_units):,} of {self.num_units:,}"
        if progress.shards_written:
            yield f"{_plural(progress.shards_written, 'shard')} written, {progress.bytes_written / 1e6:,.1f} MB"
        if (seconds := current_time - self._changed_at) >= LINE_SECONDS:
            yield f"nothing written for {seconds:.0f} s"

    def _save_status(self, status: JobStatus | None, progress: Progress | None) -> None:
        """Writes the status and the progress as JSON to the spill directory, for other programs and for run.json."""
        if self.run is None or self.run.spill_dir is None:
            return
        content = {
            "time": time.time(),
            "job": self.name,
            "id": status.id if status else None,
            "page": self.page,
            "log": self.log or None,
            "state": status.state if status else None,
            "stages": list(status.stages) if status else [],
            "restarts": [{"time": each.time, "reason": each.reason} for each in self.failures],
            "units": self.num_units,
            **({name: getattr(progress, name) for name in _MEASURED} if progress else {}),
        }
        try:
            storage.write_bytes(storage.join(self.run.spill_dir, PROGRESS_FILE), json.dumps(content, indent=1).encode())
        except StorageError as error:
            if not self._has_failed_to_save:
                self._print(f"{PROGRESS_FILE} cannot be written, so programs that read it do not see this job: {error}")
            self._has_failed_to_save = True


def _has_ended(connection: socket.socket) -> bool:
    """Returns whether the other side has ended a connection, and closes it."""
    with connection:
        connection.setblocking(False)
        try:
            while connection.recv(_READ_SIZE):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


def _plural(number: int, noun: str) -> str:
    """Returns a number with its noun: "1 unit", "1,200 units"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
