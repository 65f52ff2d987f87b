"""Values made on several threads ahead of the one who takes them: in order, in bounded memory, errors in their places.

The work is divided into tasks of about `TASK_BYTES` of decoded values or `TASK_ITEMS` items, large enough that the
threads seldom wait for the GIL. Tasks only decode. What does not decode, or would need too much memory, is handed on
as `Later`, and made when it is taken: so an error is raised at its item and not before.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.reading.blocks import Items, paced

Task: TypeAlias = Callable[[], object]
Started: TypeAlias = "tuple[list[Task], Callable[[], list[Any]]]"
"""Tasks, for any threads in any order, and what returns the values when all of them are done."""

Start: TypeAlias = Callable[[Items], Started]

TASK_ITEMS = 32
TASK_BYTES = 8 << 20
_THREAD_BYTES = 32 << 20  # of values that are made ahead, for each thread
_MIN_VALUE_BYTES = 16 << 10  # smaller values take as long to hand over as to decode
_FIRST_ITEMS = 4  # made by the calling thread, to know their size


@dataclass(frozen=True)
class Later:
    """An item whose value is still to be made."""

    item: Any


@cache
def usable_cores() -> int:
    """Returns how many cores this process may use: by its affinity, and by the quota of its control group; at least 1.

    It is looked up once a process.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(ceil, _quotas(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")))]))


def _quotas(root: Path, own: Path) -> Iterator[float]:
    """Yields the cores that the control groups of this process allow.

    Args:
        root: where control groups are mounted.
        own: the file with the paths of this process's groups; in a container these may begin outside of it.
    """
    try:
        paths = ["", *(line.split(":", 2)[2].strip("/") for line in own.read_text().splitlines())]
    except (OSError, IndexError):
        paths = [""]
    for group in {above for path in paths for above in (root / path / "any").parents if above.is_relative_to(root)}:
        for quota in (group / "cpu.max", root / "cpu" / group.relative_to(root) / "cpu.cfs_quota_us"):
            try:
                words = quota.read_text().split()
                if quota.name != "cpu.max":
                    words += quota.with_name("cpu.cfs_period_us").read_text().split()
            except OSError:
                continue
            if len(words) == 2 and words[0].isdigit():  # it is "max" or -1 if there is none
                yield int(words[0]) / int(words[1])


def num_bytes(value: Any) -> int:
    """Returns about how many bytes a decoded value has."""
    if isinstance(value, dict):
        return sum(map(num_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(num_bytes, value))
    return value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, bytes) else 8


def one_by_one(function: Callable[[Any], Any], limit: int | None = None) -> Start:
    """Returns what starts to make the list of values of items; those beyond `limit` bytes of values stay `Later`."""

    def start(items: Items) -> Started:
        tasks: list[Task] = []
        parts: list[tuple[Items, list[Any]]] = []
        for first in range(0, len(items), TASK_ITEMS):
            part = items[first : first + TASK_ITEMS]
            values: list[Any] = []
            parts.append((part, values))
            tasks.append(_filling(function, part, values, limit))
        return tasks, lambda: [value for part, values in parts for value in _with_rest(part, values)]

    return start


def _filling(function: Callable[[Any], Any], items: Items, values: list[Any], limit: int | None) -> Task:
    def fill() -> None:
        size = 0
        for item in items:
            values.append(function(item))
            if limit is not None and (size := size + num_bytes(values[-1])) > limit:
                return

    return fill


def _with_rest(items: Items, values: list[Any]) -> list[Any]:
    return values + [Later(item) for item in items[len(values) :]] if len(values) < len(items) else values


@dataclass(frozen=True)
class Ahead:
    """Makes values of blocks of items on several threads.

    Attributes:
        start: starts to make the values of a block.
        threads: how many threads.
        is_whole: whether each item is a block of its own, such as the list of the records of a batch. Else items are
            divided into tasks of a size that is measured.
        is_asked: whether small values are made on threads too.
    """

    start: Start
    threads: int
    is_whole: bool = False
    is_asked: bool = False

    def make(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        """Yields lists of values, or of `Later`; raises an error of `blocks` after the values before it."""
        return _Window(self).make(blocks)


class _Window:
    """Blocks whose values are being made, in order."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._waiting: deque[tuple[Items, list[Future[object]], Callable[[], list[Any]]]] = deque()
        self._is_measured = False
        self._value_bytes = self._block_bytes = 0  # the largest so far

    def make(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        ahead, waiting = self._ahead, self._waiting
        blocks = ([item] for block in blocks for item in block) if ahead.is_whole else paced(blocks, self._sizes())
        pool = ThreadPoolExecutor(ahead.threads, "beam_datasets-decode")  # a thread starts when it has something to do
        error: Exception | None = None
        try:
            while True:
                while error is None and self._has_room():
                    try:
                        block = next(blocks)
                    except StopIteration:
                        break
                    except Exception as raised:  # its turn comes after the blocks that wait
                        error = raised
                    else:
                        waiting.append(self._started(block, pool))
                        del block  # it would hold its items while the next ones are read
                if not waiting:
                    break
                yield self._finished(*waiting.popleft())
            if error is not None:
                raise error
        finally:
            waiting.clear()
            pool.shutdown(cancel_futures=True)

    def _sizes(self) -> Iterator[int]:
        yield _FIRST_ITEMS
        while True:
            yield max(1, min(TASK_ITEMS, TASK_BYTES // max(self._value_bytes, 1)))

    def _has_room(self) -> bool:
        """Returns whether to start one more block: until the first one is measured, one at a time."""
        waiting, threads = self._waiting, self._ahead.threads
        if not waiting or not self._is_measured:
            return not waiting
        tasks = [max(1, len(futures)) for _, futures, _ in waiting]  # a block that needs no thread is held too
        fits = (len(waiting) + 1) * self._block_bytes <= threads * _THREAD_BYTES
        return sum(tasks) < threads or (fits and sum(tasks[1:]) < 2 * threads)

    def _started(self, block: Items, pool: ThreadPoolExecutor) -> Any:
        if self._is_measured and self._value_bytes < _MIN_VALUE_BYTES and not self._ahead.is_asked:
            return block, [], lambda: list(map(Later, block))
        try:
            tasks, finish = self._ahead.start(block)
        except Exception:
            return block, [], lambda: list(map(Later, block))
        submit = pool.submit if self._is_measured or self._ahead.is_whole else _done
        return block, [submit(task) for task in tasks], finish

    def _finished(self, block: Items, futures: list[Future[object]], finish: Callable[[], list[Any]]) -> list[Any]:
        try:
            for future in futures:
                future.result()
            values = finish()
        except Exception:
            return list(map(Later, block))
        sizes = [num_bytes(value) for value in values if type(value) is not Later]
        if sizes:
            self._is_measured = True
            self._block_bytes = max(self._block_bytes, sum(sizes))
            self._value_bytes = max(self._value_bytes, max(sizes) // (len(block[0]) if self._ahead.is_whole else 1))
        return values


def _done(task: Task) -> Future[object]:
    """Runs a task in this thread."""
    future: Future[object] = Future()
    try:
        future.set_result(task())
    except Exception as error:
        future.set_exception(error)
    return future
