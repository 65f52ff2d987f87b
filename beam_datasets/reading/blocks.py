"""Blocks: items that are handed on together, a list or a `RecordBlock`; what is done to them, whatever they hold."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from beam_datasets.extras import Self
from beam_datasets.native import core

if TYPE_CHECKING:
    from beam_datasets.errors import CorruptRecordError

Items: TypeAlias = Any
"""A sequence with slices and `+=`: list[Any] or `RecordBlock`."""

BLOCK_BYTES = 256 << 10
"""About how many bytes the items of a block have: what is made of them is to fit the processor's cache with them."""

_BLOCK_ITEMS, _GROWTH = 256, 8


@dataclass(frozen=True)
class Damaged:
    """Stands for a record that is damaged, so that its error is raised when its turn comes, and only then."""

    error: CorruptRecordError


def intact(blocks: Iterable[Items]) -> Iterator[Items]:
    """Yields the blocks up to the first damaged record, then raises its error.

    Raises:
        CorruptRecordError: an item is a damaged record, or a group with one.
    """
    for block in blocks:
        first_damaged = next(damaged_in(block), None)
        if first_damaged is not None:
            index, damaged = first_damaged
            if index:
                yield block[:index]
            raise damaged.error
        yield block
        del block  # it would hold its items while the next ones are read


def damaged_in(items: Items) -> Iterator[tuple[int, Damaged]]:
    """Yields the damaged records of a list, or of lists in it, each with its place; blocks of records have none."""
    if type(items) is list:
        for index, item in enumerate(items):
            if type(item) is Damaged:
                yield index, item
            elif type(item) is list:
                yield from ((index, damaged) for _, damaged in damaged_in(item))


def joined(blocks: Iterable[Items]) -> Items:
    """Returns the items of all blocks in one; the first of them may be changed."""
    held: Items = []
    for block in blocks:
        if held and type(held) is not type(block):  # damaged records come in lists
            held = [*held, *block]
        elif held:
            held += block
        else:
            held = block
    return held


def regrouped(blocks: Iterable[Items], counts: Iterator[int], *, may_fall_short: bool = True) -> Iterator[Items]:
    """Yields the items in blocks of these counts; the last may have fewer. The blocks given may be changed.

    Args:
        blocks: of items.
        counts: of items in a block.
        may_fall_short: whether those before an error come first, in a block with fewer.

    >>> list(map(len, regrouped([[0] * 10, [0] * 3], iter((1, 4, 4, 4, 4)))))
    [1, 4, 4, 4]
    """
    size = next(counts)
    held: Items = []
    try:
        for block in blocks:
            held = joined((held, block))
            del block  # it would hold its items while the next ones are read
            start = 0
            while start + size <= len(held):
                group = held if size == len(held) else held[start : start + size]
                start += size
                size = next(counts)
                yield group
            held = held[start:] if start else held
    except Exception:
        if held and may_fall_short:
            yield held
        raise
    if held:
        yield held


def sizes(item_bytes: float) -> Iterator[int]:
    """Returns without end how many items to handle at once: few at first, for which the first one has to wait.

    >>> found = sizes(item_bytes=1000)
    >>> [next(found) for _ in range(5)]
    [1, 8, 64, 256, 256]
    """
    return growing(1, int(min(max(BLOCK_BYTES / max(item_bytes, 1), 1), _BLOCK_ITEMS)), _GROWTH)


def growing(count: int, most: int, factor: int = 2) -> Iterator[int]:
    """Yields a count, then `factor` times as much each time, at most `most`."""
    while True:
        yield count
        count = min(factor * count, most)


class PlainBlockIterator:
    """Hands out the items of blocks one by one and counts them.

    A subclass defines `_next_block()`, which returns the next block or raises StopIteration, and `_finished(item)`,
    which returns what is handed out in place of an item if `_finish` is not None. Nobody else may keep a block that is
    a list: the native type empties it. `_taken` counts the item before `_finished` is called. The subclass may set
    `_taken` at any time, and `_items` to `()` to drop the block.
    """

    _items: Items = ()
    _finish: Any = None
    _taken = 0
    _place = 0  # of the next item in the block

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        while self._place >= len(self._items):
            self._items = ()  # no items in memory while the next ones are read
            self._items = self._next_block()
            self._place = 0
        item = self._items[self._place]
        self._place += 1
        self._taken += 1
        return item if self._finish is None else self._finished(item)

    def _next_block(self) -> Items:
        raise NotImplementedError

    def _finished(self, item: Any) -> Any:
        raise NotImplementedError


if TYPE_CHECKING:
    BlockIterator = PlainBlockIterator
else:
    BlockIterator = PlainBlockIterator if core is None else core.BlockIterator


# -------------------------------------------------------------------------------------------------------- working ahead

# Values made on several threads ahead of the one who takes them: in order, in bounded memory, errors in their places.
#
# The work is divided into tasks of about `TASK_BYTES` of decoded values or `TASK_ITEMS` items, large enough that the
# threads seldom wait for the GIL. Tasks only decode. What does not decode, or would need too much memory, is handed on
# as `Later`, and made when it is taken: so an error is raised at its item and not before.

Finish: TypeAlias = Callable[[list[Any]], list[Any]]
Started: TypeAlias = "tuple[list[Callable[[], Any]], Finish]"
"""Tasks, for any threads in any order, and what returns the values from what the tasks returned."""

Start: TypeAlias = Callable[[Items], Started]

TASK_ITEMS = 32
TASK_BYTES = 8 << 20
_THREAD_BYTES = 32 << 20  # of values that are made ahead, for each thread
_MIN_VALUE_BYTES = 16 << 10  # smaller values take as long to hand over as to decode
_FIRST_ITEMS = 4  # made before others, to know their size


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

    def make(items: Items) -> list[Any]:
        values: list[Any] = []
        size = 0
        for item in items:
            values.append(Later(item) if limit is not None and size > limit else function(item))
            size += 0 if limit is None else num_bytes(values[-1])
        return values

    def start(items: Items) -> Started:
        parts = [items[first : first + TASK_ITEMS] for first in range(0, len(items), TASK_ITEMS)]
        return [partial(make, part) for part in parts], lambda lists: list(chain.from_iterable(lists))

    return start


@dataclass
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
    _waiting: deque[tuple[Items, list[Future[Any]], Finish]] = field(default_factory=deque, init=False)
    _is_measured: bool = field(default=False, init=False)
    _value_bytes: int = field(default=0, init=False)  # the largest so far
    _block_bytes: int = field(default=0, init=False)

    def make(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        """Returns lists of values, or of `Later`; raises an error of `blocks` after the values before it."""
        return replace(self)._make(blocks)  # each iterator has blocks and sizes of its own

    def _make(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        """Yields the values of each block in order, while threads make those of the next ones.

        An error of `blocks` is raised after the values before it.
        """
        waiting = self._waiting
        blocks = ([item] for block in blocks for item in block) if self.is_whole else regrouped(blocks, self._sizes())
        pool = ThreadPoolExecutor(self.threads, "beam_datasets-decode")  # a thread starts when it has something to do
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
        waiting, threads = self._waiting, self.threads
        if not waiting or not self._is_measured:
            return not waiting
        tasks = [max(1, len(futures)) for _, futures, _ in waiting]  # a block that needs no thread is held too
        fits = (len(waiting) + 1) * self._block_bytes <= threads * _THREAD_BYTES
        return sum(tasks) < threads or (fits and sum(tasks[1:]) < 2 * threads)

    def _started(self, block: Items, pool: ThreadPoolExecutor) -> Any:
        """Submits the decode tasks of a block; if its values are small or it cannot start, its items become `Later`."""
        later: Any = (block, [], lambda _: list(map(Later, block)))
        if self._is_measured and self._value_bytes < _MIN_VALUE_BYTES and not self.is_asked:
            return later
        try:
            tasks, finish = self.start(block)
        except Exception:
            return later
        return block, [pool.submit(task) for task in tasks], finish

    def _finished(self, block: Items, futures: list[Future[Any]], finish: Finish) -> list[Any]:
        """Returns the values of a block and records their sizes; if a task failed, all its items become `Later`."""
        try:
            values = finish([future.result() for future in futures])
        except Exception:
            return list(map(Later, block))
        sizes = [num_bytes(value) for value in values if type(value) is not Later]
        if sizes:
            self._is_measured = True
            self._block_bytes = max(self._block_bytes, sum(sizes))
            self._value_bytes = max(self._value_bytes, max(sizes) // (len(block[0]) if self.is_whole else 1))
        return values
