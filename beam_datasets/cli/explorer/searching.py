"""Search for examples that match a condition, in a process with limited memory and time: DuckDB limits neither."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, FeatureError
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.formats.example import ExampleError
from beam_datasets.materializing.database import Database
from beam_datasets.materializing.where import ExpressionLimitError, Where
from beam_datasets.reading.opening import ReadOnlyBuilder, builder_from_directory

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from beam_datasets.features import FeatureConnector


MAX_BYTES = 2 << 30  # of memory
MAX_START = 60.0  # seconds until the process runs
MAX_EXAMPLE, MAX_WAIT = 10.0, 0.7  # seconds for the first answer, and for the last one when a search should have ended
MAX_BLOCK = 8192  # examples that are looked at together
_FAST, _SLOW = 0.1, 0.4  # seconds for a block; the next one is larger or smaller
_MEMORY = f"it takes more than {MAX_BYTES >> 30} GiB of memory"


@lru_cache(64)
def _open_version(directory: str, state: object) -> ReadOnlyBuilder:
    """Opens a published version; cached by its directory and `state`, which must change when the version changes."""
    return builder_from_directory(directory)


def opened(directory: str) -> ReadOnlyBuilder:
    """Returns the version of a directory, opened again if `build --overwrite` has replaced it on this disk."""
    state = os.stat(directory) if os.path.isdir(directory) else None
    return _open_version(directory, state and (state.st_ino, state.st_mtime_ns))


def start_process(target: Callable[..., object] = int, *args: Any) -> BaseProcess:
    """Starts a process that Ctrl-C does not interrupt; the first one takes seconds, as a server imports modules."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "duckdb", "pyarrow", "pandas"])  # DuckDB imports pandas if it is there
    process = context.Process(target=target, args=args, daemon=True)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which processes inherit
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def search(
    directory: str, expression: str, where: str, start: int, count: int, seconds: float
) -> tuple[list[int], int]:
    """Returns the indices of examples for which a condition holds or that cannot be read, and where the search ended.

    Args:
        directory: directory of the version.
        expression: expression of the slice.
        where: the condition.
        start: the first index that is looked at.
        count: maximum number of examples.
        seconds: after which it ends, or at most `MAX_WAIT` later.

    Raises:
        BeamDatasetsError: the condition is unusable, or needs more memory or time for an example than there is; or the
            process has ended.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    features = opened(directory).info.features  # it imports the modules of connectors of users with them
    process = start_process(_serve, theirs, directory, features, expression, where, start, count, seconds)
    theirs.close()
    answer: Any = None
    problem = f"an example takes more than {MAX_EXAMPLE:g} s"
    try:
        ours.poll(MAX_START) and ours.recv()  # its first message
        end = time.monotonic() + MAX_EXAMPLE
        while ours.poll(max(end - time.monotonic(), 0)):
            end = end if answer else time.monotonic() + seconds + MAX_WAIT
            answer = ours.recv()
    except EOFError:  # the process has ended
        process.join(1)
        if code := process.exitcode:
            name = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.strsignal(-code)})"
            answer, problem = None, f"its process ended with {name}; an error of it is where explore was started"
    process.kill()
    if answer is None:
        raise _stopped_error(where, problem)
    if isinstance(answer, BeamDatasetsError):
        raise answer
    indices, stop = answer
    return indices, stop


def _stopped_error(where: str, problem: str) -> BeamDatasetsError:
    """Returns the error about a search that was stopped."""
    return BeamDatasetsError(f"where={where!r}: stopped, because {problem}.")


def _serve(
    pipe: Connection, directory: str, features: FeatureConnector, expression: str, where: str, *limits: Any
) -> None:
    """Searches, and sends None first, then the progress after each block, or an error; it runs in a process of its own.

    Args:
        pipe: connection to the process that asked.
        directory: directory of the dataset.
        features: features of the dataset.
        expression: expression of the slice.
        where: the condition.
        *limits: `start`, `count` and `seconds` of `_search`.
    """
    pipe.send(None)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    try:
        for progress in _search(builder_from_directory(directory), features, expression, where, *limits):
            pipe.send(progress)
    except (BeamDatasetsError, MemoryError) as error:
        lacks_memory = isinstance(error, (MemoryError, ExpressionLimitError))
        text = str(error)  # which can be sent, as not all errors can
        pipe.send(_stopped_error(where, _MEMORY) if lacks_memory else BeamDatasetsError(text))


def _search(
    published: ReadOnlyBuilder,
    features: FeatureConnector,
    expression: str,
    where: str,
    start: int,
    count: int,
    seconds: float,
) -> Iterator[tuple[list[int], int]]:
    """Yields, after each block, the indices of the matches so far and the index from which to continue.

    Args:
        published: the dataset.
        features: features of the dataset.
        expression: expression of the slice.
        where: the condition.
        start: index in the slice of the first example that is checked.
        count: maximum number of matches.
        seconds: time limit; the search ends after the block in which it is exceeded.
    """
    places = Where(where).compile(features, Database(MAX_BYTES))
    records = published.as_dataset(expression, decoders=skip_decoding(features, UnknownFeature)).raw()
    matches: list[int] = []
    block, end = 1, time.monotonic() + seconds
    while start < len(records) and len(matches) < count:
        began = time.monotonic()
        try:
            matching = places(records[start : start + block])
        except (CorruptRecordError, ExampleError, FeatureError):
            matching = [0]  # the page shows its error
            if block > 1:  # look at each by itself until that one
                block = 1
                continue
        matches += [start + offset for offset in matching]
        start = min(start + block, len(records))
        yield matches[:count], matches[count - 1] + 1 if len(matches) > count else start
        took = time.monotonic() - began
        if began + took > end:
            return
        block = min(4 * block, MAX_BLOCK) if took < _FAST else max(block // 4, 1) if took > _SLOW else block
