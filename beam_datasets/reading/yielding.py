"""Blocks of items made into values: many at once where that is cheaper, and each error exactly at its item.

A function of a block is a faster way to do the same as a function of an item. If an item does not decode, those of the
block are made one by one, so that all good ones before the bad one are yielded, and the error is the item's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from beam_datasets.reading.blocks import Items, joined, sizes
from beam_datasets.reading.decoding import UNDECODED, Step, compose

Function: TypeAlias = Callable[[Any], Any]


@runtime_checkable
class BlockStep(Protocol):
    """A step that can do many items at once."""

    def compile(self) -> Function:
        """Returns the function of an item."""

    def compile_block(self) -> Function | None:
        """Returns the function from a list of items to the list of what `compile()` makes of each; None for none.

        If it raises one of `UNDECODED`, the items are made one by one.
        """


@dataclass(frozen=True)
class Maker:
    """What makes values of items.

    Attributes:
        each: makes the first step's value of an item.
        whole: the same from a list to a list; None where there is none.
        rest: what is made of that, one by one when it is yielded; None for nothing.
    """

    each: Function | None
    whole: Callable[[Items], Items] | None
    rest: Function | None

    @classmethod
    def of(cls, steps: tuple[Step, ...]) -> Maker:
        """Returns what does the steps."""
        first, *others = steps
        whole = first.compile_block() if isinstance(first, BlockStep) else None
        if whole is None:
            return cls(None, None, compose(steps))
        return cls(first.compile(), whole, compose(tuple(others)) if others else None)

    def make(self, blocks: Iterator[Items], item_bytes: float) -> Iterator[Items]:
        """Yields lists of values on which `rest` is still to be called.

        Args:
            blocks: of items, in order.
            item_bytes: about how many bytes an item has.
        """
        if self.whole is None or self.each is None:
            yield from map(list, blocks)
            return
        for block in paced(blocks, sizes(item_bytes)):
            try:
                values = self.whole(block)
            except UNDECODED:
                for item in block:
                    yield [self.each(item)]
            else:
                yield values


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
