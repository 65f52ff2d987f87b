"""Blocks: items that are handed on together, a list or a `RecordBlock`; what is done to them, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

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
        found = next(damaged_in(block), None)
        if found is not None:
            place, damaged = found
            if place:
                yield block[:place]
            raise damaged.error
        yield block
        del block  # it would hold its items while the next ones are read


def damaged_in(items: Items) -> Iterator[tuple[int, Damaged]]:
    """Yields the damaged records of a list, or of lists in it, each with its place; blocks of records have none."""
    if type(items) is list:
        for place, item in enumerate(items):
            if type(item) is Damaged:
                yield place, item
            elif type(item) is list:
                yield from ((place, damaged) for _, damaged in damaged_in(item))


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


def regrouped(blocks: Iterable[Items], size: int) -> Iterator[Items]:
    """Yields the items in blocks of a size; only the last may have fewer. The blocks given may be changed.

    >>> list(regrouped([[1, 2, 3], [4], [5, 6, 7]], 2))
    [[1, 2], [3, 4], [5, 6], [7]]
    """
    held: Items = []
    for block in blocks:
        held = joined((held, block))
        place = 0
        while place + size <= len(held):
            yield held[place : place + size]
            place += size
        held = held[place:] if place else held
    if held:
        yield held


def paced(blocks: Iterable[Items], counts: Iterator[int]) -> Iterator[Items]:
    """Yields the items in blocks of these counts; where the next ones are an error, first those before it.

    The blocks that it is given are its own then, and may be changed.

    >>> list(map(len, paced([[0] * 10, [0] * 3], iter((1, 4, 4, 4, 4)))))
    [1, 4, 4, 4]
    """
    size = next(counts)
    held: Items = []
    try:
        for block in blocks:
            held = joined((held, block))
            del block  # it would hold its items while the next ones are read
            place = 0
            while place + size <= len(held):
                some = held if size == len(held) else held[place : place + size]
                place += size
                size = next(counts)
                yield some
            held = held[place:] if place else held
    except Exception:
        if held:
            yield held
        raise
    if held:
        yield held


def sizes(item_bytes: float) -> Iterator[int]:
    """Yields without end how many items to handle at once: few at first, for which the first one has to wait.

    >>> found = sizes(item_bytes=1000)
    >>> [next(found) for _ in range(5)]
    [1, 8, 64, 256, 256]
    """
    most = int(min(max(BLOCK_BYTES / max(item_bytes, 1), 1), _BLOCK_ITEMS))
    size = 1
    while True:
        yield size
        size = min(_GROWTH * size, most)


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
