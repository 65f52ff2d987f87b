"""Executors of decode tasks on threads: ahead of the reader, in order, in bounded memory, with errors at their items.

The work is divided into tasks of about `TASK_BYTES` of decoded values or `TASK_ITEMS` items, large enough that the
threads seldom wait for the GIL. Tasks only decode. An item that does not decode, or would need too much memory, is
passed on as `Deferred`, and decoded when the reader takes it: so an error is raised at its item and not before.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.features.ragged import RaggedArray
from beam_datasets.reading.blocks import Items, regroup

Finish: TypeAlias = Callable[[list[Any]], list[Any]]
Tasks: TypeAlias = "tuple[list[Callable[[], Any]], Finish]"
"""The tasks of a block, for any threads in any order, and the function from their results to the block's values."""

MakeTasks: TypeAlias = Callable[[Items], Tasks]
"""Divides a block of items into tasks."""

DECODE_THREADS = "beam_datasets-decode"
"""Prefix of the names of threads that decode."""

TASK_ITEMS = 32
TASK_BYTES = 8 << 20
_THREAD_BYTES = 32 << 20  # of decoded values that wait for the reader, for each thread
_MIN_VALUE_BYTES = 16 << 10  # smaller values take as long to pass between threads as to decode
_FIRST_ITEMS = 4  # decoded before others, to measure their size


@dataclass(frozen=True)
class Deferred:
    """An item that the reader decodes when it takes it.

    Attributes:
        item: the item, such as a record or a list of records.
    """

    item: Any


@cache
def usable_cores() -> int:
    """Returns the number of cores that this process may use, by its affinity and its control group's quota; at least 1.

    It is looked up once in a process.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(ceil, _quotas(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")))]))


def control_groups(root: Path, groups_file: Path) -> set[Path]:
    """Returns the directories of this process's control groups and of those that contain them.

    Args:
        root: mount point of control groups.
        groups_file: has the paths of this process's groups; in a container these may begin outside of it.
    """
    try:
        paths = ["", *(line.split(":", 2)[2].strip("/") for line in groups_file.read_text().splitlines())]
    except (OSError, IndexError):
        paths = [""]
    return {parent for path in paths for parent in (root / path / "any").parents if parent.is_relative_to(root)}


def _quotas(root: Path, groups_file: Path) -> Iterator[float]:
    """Yields the number of cores that each control group of this process allows; see `control_groups`."""
    for group in control_groups(root, groups_file):
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
    """Returns the number of bytes of the arrays and strings in a decoded value, and 8 for each other leaf.

    The overhead of Python's objects is left out.

    >>> num_bytes({"pixels": np.zeros((2, 3), np.uint8), "text": b"abc", "words": np.array([b"ab", "c"], object)})
    28
    """
    if isinstance(value, np.ndarray):
        return value.nbytes + (sum(map(num_bytes, value.flat)) if value.dtype.hasobject else 0)
    if isinstance(value, dict):
        return sum(map(num_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(num_bytes, value))
    if isinstance(value, RaggedArray):
        return num_bytes(value.flat_values) + sum(lengths.nbytes for lengths in value.row_lengths)
    return len(value) if isinstance(value, (bytes, str)) else 8


def decode_tasks(function: Callable[[Any], Any], max_bytes: int | None = None) -> MakeTasks:
    """Returns a function that divides a block into tasks of at most `TASK_ITEMS` items; a task decodes them one by one.

    Args:
        function: function from an item to its value.
        max_bytes: maximum number of bytes of the values of a task; its later items become `Deferred`. None for no
            limit.
    """

    def decode(items: Items) -> list[Any]:
        """Returns the values of the items of a task."""
        values: list[Any] = []
        size = 0
        for item in items:
            values.append(Deferred(item) if max_bytes is not None and size > max_bytes else function(item))
            size += 0 if max_bytes is None else num_bytes(values[-1])
        return values

    def divide(items: Items) -> Tasks:
        """Returns (tasks, function that joins their lists of values) for the items of a block."""
        parts = [items[first : first + TASK_ITEMS] for first in range(0, len(items), TASK_ITEMS)]
        return [partial(decode, task_records) for task_records in parts], lambda lists: list(chain.from_iterable(lists))

    return divide


class Executor(ABC):
    """Applies a transform to blocks of items, ahead of the reader; `Program.run` reads its results."""

    @abstractmethod
    def run(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        """Yields lists that contain, in the order of the items, the value of each or a `Deferred`.

        It raises no error of the transform: an item that fails is a `Deferred`, which the reader transforms again, so
        that the error is raised at its item. An error of `blocks` is raised after the values of the items before it.
        Each call has its own threads and queue, which end with the iterator, also if it is closed early.

        A block may contain thousands of items, and a value many megabytes. So an executor divides blocks (`regroup`),
        and limits the bytes of the values that wait for the reader (`num_bytes`).
        """


@dataclass
class ThreadExecutor(Executor):
    """Decodes blocks of items on several threads.

    Attributes:
        make_tasks: divides a block into tasks.
        threads: number of threads.
        is_whole: whether each item is a block by itself, such as the list of the records of a batch. Otherwise items
            are regrouped into blocks of one task, by the measured size of their values.
        use_for_small: whether small values are decoded on threads, too.
    """

    make_tasks: MakeTasks
    threads: int
    is_whole: bool = False
    use_for_small: bool = False
    _waiting: deque[tuple[Items, list[Future[Any]], Finish]] = field(default_factory=deque, init=False)
    _is_measured: bool = field(default=False, init=False)
    _value_bytes: int = field(default=0, init=False)  # the largest so far
    _block_bytes: int = field(default=0, init=False)

    def run(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        """Yields lists of decoded values, or of `Deferred`; see `Executor.run`."""
        return replace(self)._run_blocks(blocks)  # each iterator has its own queue and measured sizes

    def _run_blocks(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        """Implements `run`: yields the values of each block in order, while threads decode the next blocks."""
        waiting = self._waiting
        blocks = ([item] for block in blocks for item in block) if self.is_whole else regroup(blocks, self._sizes())
        pool = ThreadPoolExecutor(self.threads, DECODE_THREADS)  # a thread starts when it has something to do
        error: Exception | None = None
        try:
            while True:
                while error is None and self._has_room():
                    try:
                        block = next(blocks)
                    except StopIteration:
                        break
                    except Exception as raised:  # raised after the blocks that wait
                        error = raised
                    else:
                        waiting.append(self._submit(block, pool))
                        del block  # it would hold its items while the next ones are read
                if not waiting:
                    break
                yield self._collect(*waiting.popleft())
            if error is not None:
                raise error
        finally:
            waiting.clear()
            pool.shutdown(cancel_futures=True)

    def _sizes(self) -> Iterator[int]:
        """Yields the number of items of each block: few at first, then as many as a task may have."""
        yield _FIRST_ITEMS
        while True:
            yield max(1, min(TASK_ITEMS, TASK_BYTES // max(self._value_bytes, 1)))

    def _has_room(self) -> bool:
        """Returns whether to start one more block: until the first one is measured, one at a time."""
        waiting, threads = self._waiting, self.threads
        if not waiting or not self._is_measured:
            return not waiting
        tasks = [max(1, len(futures)) for _, futures, _ in waiting]  # a block that needs no thread is held too
        fits = (len(waiting) + 1) * self._block_bytes <= threads * _THREAD_BYTES
        return sum(tasks) < threads or (fits and sum(tasks[1:]) < 2 * threads)

    def _submit(self, block: Items, pool: ThreadPoolExecutor) -> tuple[Items, list[Future[Any]], Finish]:
        """Submits the tasks of a block; its items become `Deferred` if their values are small, or on an error.

        Returns:
            (block, futures of its tasks, function from their results to the values)
        """
        deferred: tuple[Items, list[Future[Any]], Finish] = (block, [], lambda _: list(map(Deferred, block)))
        if self._is_measured and self._value_bytes < _MIN_VALUE_BYTES and not self.use_for_small:
            return deferred
        try:
            tasks, finish = self.make_tasks(block)
        except Exception:
            return deferred
        return block, [pool.submit(task) for task in tasks], finish

    def _collect(self, block: Items, futures: list[Future[Any]], finish: Finish) -> list[Any]:
        """Returns the values of a block and records their sizes; if a task failed, all its items become `Deferred`.

        Args:
            block: the items.
            futures: futures of the tasks of the block; none if its items become `Deferred`.
            finish: function from the results of the tasks, in order, to the values.
        """
        try:
            values = finish([future.result() for future in futures])
        except Exception:
            return list(map(Deferred, block))
        sizes = [num_bytes(value) for value in values if type(value) is not Deferred]
        if sizes:
            self._is_measured = True
            self._block_bytes = max(self._block_bytes, sum(sizes))
            self._value_bytes = max(self._value_bytes, max(sizes) // (len(block[0]) if self.is_whole else 1))
        return values
