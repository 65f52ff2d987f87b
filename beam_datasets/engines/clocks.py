"""Bounds of the difference between the clock of this process and those of workers, by files that both write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_datasets import storage
from beam_datasets.publishing.progress import call_every

TICK_SECONDS = 0.5  # between two times that this process writes
_TIME_FILE = "time"


@dataclass
class Clock:
    """Clock of this process, which it shows to workers while a job runs.

    The bounds hold for any store, and are about a second apart if the store shows new files at once.

    Attributes:
        folders: directories that workers should see.
        began: time at which the job was started, in seconds since the epoch.
        ended: time at which the job had ended.
        problem: why a folder was not written or listed at some time, so that the bounds may be far apart; '' if none.
    """

    folders: Sequence[str]
    began: float = 0.0
    ended: float = 0.0
    problem: str = ""
    _seen: dict[str, float] = field(default_factory=dict)  # {path of a file: time at which it was first seen}

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Context manager: writes the time to the folders again and again, and looks for files of workers."""
        self.began = time.time()
        self._tick()
        with call_every(TICK_SECONDS, self._tick):
            yield
        self.ended = time.time()

    def _tick(self) -> None:
        """Writes the time to the folders, and stores when files of workers are first seen."""
        for folder in self.folders:
            try:
                storage.write_bytes(storage.join(folder, _TIME_FILE), repr(time.time()).encode())
                names = storage.list_dir(folder)
            except Exception as error:  # of any library of a store
                self.problem = f"{folder}: {type(error).__name__}: {error}"
                continue
            for name in names:
                self._seen.setdefault(storage.join(folder, name), time.time())

    def bounds(self, reports: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
        """Returns (lowest, highest) seconds by which the clock of a machine is ahead of this one.

        Args:
            reports: of workers of the machine. Each has `wrote`, the worker's time before it wrote its `files`; and
                `time`, its time after it read `launcher_time`, as `read_time` returns it.
        """
        lowest = [report["wrote"] - self.ended for report in reports]
        highest = [report["time"] - max(report["launcher_time"], self.began) for report in reports]
        for report in reports:
            lowest += [report["wrote"] - self._seen[path] for path in report["files"] if path in self._seen]
        return max(lowest), min(highest)


def read_time(folders: Sequence[str]) -> float:
    """Returns the last time of the launcher in its folders, in seconds since the epoch; 0 if it is not visible."""
    times = [0.0]
    for folder in folders:
        try:
            text = storage.read_bytes(storage.join(folder, _TIME_FILE))
        except Exception:  # of any library of a store; the worker reports a folder that it does not see
            continue
        times.append(float(text))
    return max(times)
