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


def stop_at_damaged(blocks: Iterable[Items]) -> Iterator[Items]:
    """Yields the blocks up to the first damaged record, then raises its error.

    Raises:
        CorruptRecordError: an item is a damaged record, or a group with one.
    """
    for block in blocks:
        first_damaged = next(find_damaged(block), None)
        if first_damaged is not None:
            index, damaged = first_damaged
            if index:
                yield block[:index]
            raise damaged.error
        yield block
        del block  # it would hold its items while the next ones are read


def find_damaged(items: Items) -> Iterator[tuple[int, Damaged]]:
    """Yields the damaged records of a list, or of lists in it, each with its place; blocks of records have none."""
    if type(items) is list:
        for index, item in enumerate(items):
            if type(item) is Damaged:
                yield index, item
            elif type(item) is list:
                yield from ((index, damaged) for _, damaged in find_damaged(item))


def join_blocks(blocks: Iterable[Items]) -> Items:
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


def regroup(blocks: Iterable[Items], counts: Iterator[int], *, may_fall_short: bool = True) -> Iterator[Items]:
    """Yields the items in blocks of these counts; the last may have fewer. The blocks given may be changed.

    Args:
        blocks: of items.
        counts: of items in a block.
        may_fall_short: whether those before an error come first, in a block with fewer.

    >>> list(map(len, regroup([[0] * 10, [0] * 3], iter((1, 4, 4, 4, 4)))))
    [1, 4, 4, 4]
    """
    size = next(counts)
    held: Items = []
    try:
        for block in blocks:
            held = join_blocks((held, block))
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


def block_sizes(item_bytes: float) -> Iterator[int]:
    """Returns without end how many items to handle at once: few at first, for which the first one has to wait.

    >>> found = block_sizes(item_bytes=1000)
    >>> [next(found) for _ in range(5)]
    [1, 8, 64, 256, 256]
    """
    return growing_sizes(1, int(min(max(BLOCK_BYTES / max(item_bytes, 1), 1), _BLOCK_ITEMS)), _GROWTH)


def growing_sizes(count: int, most: int, factor: int = 2) -> Iterator[int]:
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
