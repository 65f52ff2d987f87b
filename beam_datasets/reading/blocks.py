"""Blocks of items, each a list or a `RecordBlock`: joining and regrouping them, and iteration over their items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from beam_datasets.native import core

if TYPE_CHECKING:
    from beam_datasets.errors import CorruptRecordError

Items: TypeAlias = Any
"""A sequence with slices and `+=`: list[Any] or `RecordBlock`."""

BLOCK_BYTES = 256 << 10
"""Approximate number of bytes of a block's items: small enough that the decoded values fit the cache, too."""

_BLOCK_ITEMS, _GROWTH = 256, 8


@dataclass(frozen=True)
class Damaged:
    """A damaged record in a list of items.

    Its error is raised when the iteration reaches the item.

    Attributes:
        error: the error of the record.
    """

    error: CorruptRecordError


def stop_at_damaged(blocks: Iterable[Items]) -> Iterator[Items]:
    """Yields the blocks up to the first damaged record, then raises its error.

    Raises:
        CorruptRecordError: an item is a `Damaged`, or a list that contains one.
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
    """Yields a pair (index, `Damaged`) for each damaged record of a list; a nested list counts as its outermost item.

    A `RecordBlock` has no damaged records.
    """
    if type(items) is list:
        for index, item in enumerate(items):
            if type(item) is Damaged:
                yield index, item
            elif type(item) is list:
                for _, damaged in find_damaged(item):
                    yield index, damaged  # of the outermost list


def join_blocks(blocks: Iterable[Items]) -> Items:
    """Returns one block with the items of all blocks, in order; [] if there are no blocks.

    Blocks of one type are appended to the first non-empty block, which changes; otherwise the result is a new list.
    """
    items: Items = []
    for block in blocks:
        if items and type(items) is not type(block):  # damaged records come in lists
            items = [*items, *block]
        elif items:
            items += block
        else:
            items = block
    return items


def regroup(blocks: Iterable[Items], counts: Iterator[int], *, may_fall_short: bool = True) -> Iterator[Items]:
    """Yields the items of `blocks` in new blocks with the next number of items from `counts`.

    The last block may have fewer items. The given blocks may be changed.

    Args:
        blocks: blocks of items, of any lengths.
        counts: number of items of each new block.
        may_fall_short: whether, if `blocks` raises an error, the items before it are yielded first, in a smaller block.

    >>> list(map(len, regroup([[0] * 10, [0] * 3], iter((1, 4, 4, 4, 4)))))
    [1, 4, 4, 4]
    """
    size = next(counts)
    items: Items = []
    try:
        for block in blocks:
            items = join_blocks((items, block))
            del block  # it would hold its items while the next ones are read
            start = 0
            while start + size <= len(items):
                group = items if size == len(items) else items[start : start + size]
                start += size
                size = next(counts)
                yield group
            items = items[start:] if start else items
    except Exception:
        if items and may_fall_short:
            yield items
        raise
    if items:
        yield items


def block_sizes(item_bytes: float) -> Iterator[int]:
    """Yields the number of items of each block, endlessly: few at first, so that the first item is available soon.

    Args:
        item_bytes: approximate bytes per item. Blocks have about `BLOCK_BYTES` at most, and at least one item.

    >>> sizes = block_sizes(item_bytes=1000)
    >>> [next(sizes) for _ in range(5)]
    [1, 8, 64, 256, 256]
    """
    return growing_sizes(1, int(min(max(BLOCK_BYTES / max(item_bytes, 1), 1), _BLOCK_ITEMS)), _GROWTH)


def growing_sizes(size: int, max_size: int, factor: int = 2) -> Iterator[int]:
    """Yields `size`, then `factor` times the previous number each time, at most `max_size`; endlessly.

    >>> sizes = growing_sizes(1, 5)
    >>> [next(sizes) for _ in range(4)]
    [1, 2, 4, 5]
    """
    while True:
        yield size
        size = min(factor * size, max_size)


class PlainBlockIterator:
    """Iterator over the items of blocks, which counts the items.

    A subclass defines `_next_block()`, and `_finished(item)` if it sets `_finish`. Nobody else may keep a block that is
    a list: the native type empties it. The subclass may set `_taken` at any time, and `_items` to `()` to drop the
    block.

    Attributes:
        _items: the current block.
        _finish: if not None, `_finished(item)` is called for each item, and its result is yielded.
        _taken: number of yielded items, including an item for which `_finished` is being called.
    """

    _items: Items = ()
    _finish: Any = None
    _taken = 0
    _index = 0  # of the next item in the block

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Returns the next item, converted by `_finished` if needed; raises StopIteration after the last block."""
        while self._index >= len(self._items):
            self._items = ()  # no items in memory while the next ones are read
            self._items = self._next_block()
            self._index = 0
        item = self._items[self._index]
        self._index += 1
        self._taken += 1
        return item if self._finish is None else self._finished(item)

    def _next_block(self) -> Items:
        """Returns the next block; raises StopIteration if there are no more."""
        raise NotImplementedError

    def _finished(self, item: Any) -> Any:
        """Returns the element that `next()` returns for an item of a block; see the attribute `_finish`."""
        raise NotImplementedError


if TYPE_CHECKING:
    BlockIterator = PlainBlockIterator
else:
    BlockIterator = PlainBlockIterator if core is None else core.BlockIterator
