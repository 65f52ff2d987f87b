"""Blocks of items made into values: many at once where that is cheaper, and each error exactly at its item.

A function of a block is a faster way to do the same as a function of an item. If an item does not decode, those of the
block are made one by one, so that all good ones before the bad one are yielded, and the error is the item's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from beam_datasets.reading.blocks import Items, paced, sizes
from beam_datasets.reading.decoding import UNDECODED, Batch, Step, compose
from beam_datasets.reading.threads import TASK_BYTES, Ahead, Later, one_by_one

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


@runtime_checkable
class ThreadedStep(Protocol):
    """A step that threads can do ahead."""

    def compile_ahead(self) -> Ahead | None:
        """Returns what does it on threads; None where one thread does it."""


@dataclass(frozen=True)
class Maker:
    """What makes values of items.

    Attributes:
        each: makes the first step's value of an item.
        whole: the same from a list to a list; None where there is none.
        rest: what is made of that, one by one when it is yielded; None for nothing.
        ahead: makes the first step's values on threads; None where this thread does.
    """

    each: Function | None
    whole: Callable[[Items], Items] | None
    rest: Function | None
    ahead: Ahead | None = None

    @classmethod
    def of(cls, steps: tuple[Step, ...], threads: int | None = None) -> Maker:
        """Returns what does the steps; all of them on threads, if their number is given."""
        first, *others = steps
        if threads is not None and threads > 1:
            each = compose(steps)
            start = one_by_one(each, TASK_BYTES)
            asked = Ahead(start, threads, is_whole=isinstance(first, Batch), is_asked=True)
            return cls(None, None, lambda value: each(value.item) if type(value) is Later else value, asked)
        ahead = first.compile_ahead() if isinstance(first, ThreadedStep) else None
        if ahead is not None:
            return cls(None, None, _finishing(steps), ahead)
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
        if self.ahead is not None:
            yield from self.ahead.make(blocks)
            return
        if self.whole is None or self.each is None:
            yield from blocks
            return
        for block in paced(blocks, sizes(item_bytes)):
            try:
                values = self.whole(block)
            except UNDECODED:
                for item in block:
                    yield [self.each(item)]
            else:
                yield values


def _finishing(steps: tuple[Step, ...]) -> Function:
    """Returns the function from the first step's values, or from items that are `Later`, to values."""
    each = compose(steps)
    rest = compose(steps[1:]) if len(steps) > 1 else None

    def finish(value: Any) -> Any:
        if type(value) is Later:
            return each(value.item)
        return value if rest is None else rest(value)

    return finish
