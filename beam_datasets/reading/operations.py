"""What is done to the order of records, as mappings of positions: nothing is replayed to begin in the middle.

A dataset is a tree of such operations over a source. Each knows how many items it has, yields the items at a range of
positions, and gets the items at any positions, all as a function of the epoch. Items are records as they are stored, or
lists of items; decoding comes after all of it, so that no operation decodes what another leaves out.

Items are handed on in blocks, so that an item by itself costs an operation nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.reading.blocks import every, joined, regrouped
from beam_datasets.reading.shuffle import RangeShuffle, WindowShuffle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from beam_datasets.reading.blocks import Items
    from beam_datasets.reading.positions import Share
    from beam_datasets.reading.session import Session

    Ints = NDArray[np.int64]

ENDLESS = 1 << 61
"""The length of what never ends."""

_BLOCK = 32  # items handed on at once where nothing else says how many
_FETCH_BYTES = 4 << 20  # of items that are fetched at once for a shuffle of the whole range
_MOST_FETCHED = 4096


class Operation(ABC):
    """Items in an order; immutable.

    Attributes:
        length: how many items there are in an epoch; `ENDLESS` where they never end.
        item_bytes: about how many bytes an item has.
        texts: what was done to the order, for a state's fingerprint.
    """

    def __init__(self, length: int, item_bytes: float, texts: tuple[str, ...]) -> None:
        self.length = length
        self.item_bytes = item_bytes
        self.texts = texts

    @abstractmethod
    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields the items at the positions, in their order, some at a time.

        Args:
            where: positions in [0, length), ascending.
            epoch: at least 0.
            session: what the one who reads has open.
        """

    @abstractmethod
    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items at any positions in [0, length)."""


class Slice(Operation):
    """The items at a range of positions: what `skip` and `take` leave."""

    def __init__(self, child: Operation, start: int, stop: int) -> None:
        """Takes the positions [start, stop) of the child; they are cut off at its end."""
        self.child = child
        self._start = min(start, child.length)
        self._stop = max(self._start, min(stop, child.length))
        endless = self._stop == ENDLESS
        text = f"[{start}:{'' if self._stop == child.length else stop}]"
        super().__init__(ENDLESS if endless else self._stop - self._start, child.item_bytes, (*child.texts, text))

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields those of the child."""
        below = range(self._start + where.start, min(self._start + where.stop, self._stop), where.step)
        return self.child.blocks(below, epoch, session)

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns those of the child."""
        return self.child.fetch(positions + self._start, epoch)


class Repeat(Operation):
    """The items of one epoch after another."""

    def __init__(self, child: Operation, times: int | None) -> None:
        """Repeats the child; for ever where `times` is None."""
        self.child = child
        self.times = times
        endless = child.length and (times is None or child.length == ENDLESS)
        length = ENDLESS if endless else child.length * (times or 0)
        super().__init__(length, child.item_bytes, (*child.texts, f"repeat({'' if times is None else times})"))

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields the child's, epoch by epoch."""
        position, n = where.start, self.child.length
        while position < where.stop:
            number, first = divmod(position, n)
            below = range(first, min(n, where.stop - number * n), where.step)
            yield from self.child.blocks(below, self._epoch(epoch, number), session)
            position += len(below) * where.step

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the child's."""
        numbers, within = np.divmod(positions, self.child.length)
        found: list[Any] = [None] * len(positions)
        for number in np.unique(numbers).tolist():
            some = np.flatnonzero(numbers == number)
            for place, item in zip(some.tolist(), self.child.fetch(within[some], self._epoch(epoch, number))):
                found[place] = item
        return found

    def _epoch(self, epoch: int, number: int) -> int:
        return epoch * (self.times or 0) + number


class Shuffle(Operation):
    """The items in an order that a permutation of the whole range gives, computed position by position."""

    def __init__(self, child: Operation, seed: int) -> None:
        self.child = child
        self._seed = seed
        super().__init__(child.length, child.item_bytes, (*child.texts, f"shuffle(seed={seed})"))

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields items fetched a few at a time at first, then as many as take a few megabytes."""
        fetched = session.ahead(functools.partial(self._try_fetch, some, epoch) for some in self._portions(where))
        return itertools.chain.from_iterable(fetched)

    def _try_fetch(self, positions: Ints, epoch: int) -> Iterable[Items]:
        """Returns the items in one block; one by one, up to the bad one, where there is an error."""
        try:
            return (self.fetch(positions, epoch),)
        except Exception:
            return _one_by_one(self, positions, epoch)

    def _portions(self, where: range) -> Iterator[Ints]:
        """Yields the positions in arrays of a few at first, then of so many that a few megabytes are fetched."""
        most = int(min(max(_FETCH_BYTES / max(self.item_bytes, 1), 1), _MOST_FETCHED))
        place, count = 0, min(_BLOCK, most)
        while place < len(where):
            some = where[place : place + count]
            yield np.arange(some.start, some.stop, some.step)
            place, count = place + count, min(2 * count, most)

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns those of the child."""
        return self.child.fetch(RangeShuffle(self.length, self._seed, epoch).sources(positions), epoch)


class Window(Operation):
    """The items shuffled within a window that moves over them."""

    def __init__(self, child: Operation, seed: int, window: int) -> None:
        self.child = child
        self._seed = seed
        self._window = window
        super().__init__(child.length, child.item_bytes, (*child.texts, f"shuffle(seed={seed}, window={window})"))

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields the child's; each is read once, and up to a window of them are held.

        Where an item that is read ahead is an error, those before it in this order are fetched one by one, so that the
        error comes at its place.
        """
        while where:
            given = 0
            with contextlib.suppress(Exception):
                for block in self._read(where, epoch, session):
                    given += len(block)
                    yield block
            where = where[given:]
            some = where[: 2 * self._window]
            yield from _one_by_one(self, np.arange(some.start, some.stop, some.step), epoch)
            where = where[len(some) :]

    def _read(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        def read(first: int) -> Iterator[Any]:
            return itertools.chain.from_iterable(self.child.blocks(range(first, self.length), epoch, session))

        items = self._shuffle(epoch).apply(read, where.start)
        items = itertools.islice(items, 0, where.stop - where.start, where.step)
        return iter(lambda: list(itertools.islice(items, _BLOCK)), [])

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns those of the child."""
        return self.child.fetch(self._shuffle(epoch).sources(positions), epoch)

    def _shuffle(self, epoch: int) -> WindowShuffle:
        return WindowShuffle(self.length, self._window, self._seed, epoch)


class Shared(Operation):
    """What is one worker's of the items; see `reading.positions`."""

    def __init__(self, child: Operation, share: Share) -> None:
        self.child = child
        self.share = share
        length = ENDLESS if child.length == ENDLESS else share.count(child.length)
        text = f"shard(of {share.worker_count}, block={share.block})"
        super().__init__(length, child.item_bytes, (*child.texts, text))

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields the child's at the worker's positions."""
        share = self.share
        if share.block == 1:
            first, step = share.position(where.start), share.worker_count * where.step
            return self.child.blocks(
                range(first, min(first + len(where) * step, self.child.length), step), epoch, session
            )
        return every(self._stretches(where, epoch, session), where.step)

    def _stretches(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        first, block = where.start, self.share.block
        while first < where.stop:
            stop = min(where.stop, (first // block + 1) * block)
            begin = self.share.position(first)
            yield from self.child.blocks(range(begin, begin + stop - first), epoch, session)
            first = stop

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the child's at the worker's positions."""
        return self.child.fetch(np.array([self.share.position(p) for p in positions.tolist()], np.int64), epoch)


class Group(Operation):
    """Lists of so many items in a row; the last one of an epoch may be shorter, or is left out."""

    def __init__(self, child: Operation, size: int, drop_remainder: bool) -> None:
        self.child = child
        self.size = size
        length = child.length
        if length != ENDLESS:
            length = length // size if drop_remainder else -(-length // size)
        text = f"batch({size}{', drop_remainder=True' if drop_remainder else ''})"
        self.drop_remainder = drop_remainder
        super().__init__(length, child.item_bytes * size, (*child.texts, text))

    def blocks(self, where: range, epoch: int, session: Session) -> Iterator[Items]:
        """Yields groups one at a time, made of the child's items."""
        if where.step == 1:
            blocks = self.child.blocks(self._below(where), epoch, session)
            return ([group] for group in regrouped(blocks, self.size))
        below = (self._below(range(p, p + 1)) for p in where)
        return ([joined(self.child.blocks(positions, epoch, session))] for positions in below)

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns groups of the child's items."""
        wanted = [self._below(range(p, p + 1)) for p in positions.tolist()]
        items = iter(self.child.fetch(np.array([p for group in wanted for p in group], np.int64), epoch))
        return [list(itertools.islice(items, len(group))) for group in wanted]

    def _below(self, where: range) -> range:
        return range(where.start * self.size, min(where.stop * self.size, self.child.length))


def stream_of(operation: Operation) -> Operation:
    """Returns what workers divide and what is put in batches: the operation below which the order is decided."""
    while isinstance(operation, (Group, Shared)):
        operation = operation.child
    return operation


def reached(operation: Operation, taken: int, *, ended: bool = False) -> int:
    """Returns where the stream goes on when this operation was asked for items, and those of other workers as often.

    Args:
        operation: what one worker reads.
        taken: how many items it gave.
        ended: whether it was asked for one more and had none. Until then others may have one that it has not.

    Raises:
        StateError: that is nowhere, because the workers are in the middle of a block.
    """
    first = _of_first_worker(operation)
    return _reached(first, first.length if ended else taken)


def _reached(operation: Operation, taken: int) -> int:
    if isinstance(operation, Group):
        return _reached(operation.child, min(taken * operation.size, operation.child.length))
    if isinstance(operation, Shared):
        return _reached(operation.child, operation.share.reached(taken, operation.child.length))
    return taken


def _of_first_worker(operation: Operation) -> Operation:
    """Returns what the first worker reads in the same division and batches: as many items as any has, or more."""
    if isinstance(operation, Group):
        return Group(_of_first_worker(operation.child), operation.size, operation.drop_remainder)
    if isinstance(operation, Shared):
        return Shared(_of_first_worker(operation.child), dataclasses.replace(operation.share, worker_index=0))
    return operation


def moved_on(operation: Operation, position: int) -> Operation:
    """Returns the same division and batches of what is left of the stream from a position on."""
    if isinstance(operation, Group):
        return Group(moved_on(operation.child, position), operation.size, operation.drop_remainder)
    if isinstance(operation, Shared):
        return Shared(moved_on(operation.child, position), operation.share)
    return Slice(operation, position, operation.length) if position else operation


def _one_by_one(operation: Operation, positions: Ints, epoch: int) -> Iterator[Items]:
    return (operation.fetch(positions[place : place + 1], epoch) for place in range(len(positions)))
