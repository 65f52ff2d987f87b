"""Examples for which a condition holds, found by a process of limited memory and time: DuckDB itself limits neither."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.materializing.where import Where
from beam_datasets.reading.opening import builder_from_directory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from beam_datasets.reading.opening import ReadOnlyBuilder

MAX_BYTES, MAX_WAIT = 2 << 30, 10.0  # of memory, and seconds for an answer
MAX_START = 60.0  # seconds until the process is ready
MAX_BLOCK, BLOCK_BYTES = 2048, 32 << 20  # examples that are looked at together, and about their bytes
_MEMORY = f"it takes more than {MAX_BYTES >> 30} GiB of memory"


@lru_cache(64)
def _opened(directory: str, state: object) -> ReadOnlyBuilder:
    return builder_from_directory(directory)


def opened(directory: str) -> ReadOnlyBuilder:
    """Returns the version of a directory, opened again if `build --overwrite` has replaced it on this disk."""
    state = os.stat(directory) if os.path.isdir(directory) else None
    return _opened(directory, state and (state.st_ino, state.st_mtime_ns))


class Searcher:
    """A process that searches, one search at a time. It starts with the first one, and ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: tuple[Any, Connection] | None = None

    def __call__(self, directory: str, expression: str, where: str, *limits: float) -> tuple[list[int], int]:
        """Returns what `search` does, to which it passes the arguments.

        Raises:
            BeamDatasetsError: the condition is unusable, or needs more memory or time than there is; or the process
                has ended or does not start.
        """
        with self._lock:
            process, pipe = self._worker = self._worker or _start()
            try:
                pipe.send((directory, expression, where, *limits))
                answer: Any = pipe.recv() if pipe.poll(MAX_WAIT) else f"it takes more than {MAX_WAIT:g} s"
            except (EOFError, OSError):
                answer = f"its process ended with {_end(process)}"
            if isinstance(answer, str):
                process.kill()
                self._worker = None
                answer = BeamDatasetsError(f"where={where!r}: stopped, because {answer}.")
        if isinstance(answer, BeamDatasetsError):
            raise answer
        indices, stop = answer
        return indices, stop


def _start() -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    problem = f"has not started within {MAX_START:g} s"
    try:
        if ours.poll(MAX_START):
            ours.recv()  # it is ready
            return process, ours
    except EOFError:
        problem = f"ended with {_end(process)} when it started; its error is where explore was started"
    process.kill()
    raise BeamDatasetsError(f"the process that evaluates conditions {problem}.")


def _end(process: Any) -> str:
    """Returns how a process ended: its exit code, or the signal that ended it."""
    process.join(1)
    code = process.exitcode or 0
    return f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    answer: Any = "ready"
    with contextlib.suppress(EOFError):  # that process has ended
        while True:
            pipe.send(answer)
            question = pipe.recv()
            try:
                answer = search(*question)
            except BeamDatasetsError as error:
                text = str(error)  # which can be sent, as not all errors can
                answer = _MEMORY if "Out of Memory Error" in text else BeamDatasetsError(text)
            except MemoryError:
                answer = _MEMORY


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
    published = opened(directory)
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
