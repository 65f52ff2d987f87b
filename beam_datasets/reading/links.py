"""Links of a stream: what each item passes through, one after the other.

A link is immutable; what it holds of the items of a stream belongs to the iterator.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from beam_datasets.reading.decoding import Batch
from beam_datasets.reading.stream_state import Unit

Item: TypeAlias = "tuple[Unit, Any]"
"""A unit and the value that was made of it."""


@dataclass
class Bin:
    """Items of a group that is not complete.

    Attributes:
        items: in the order in which they came.
        space: what a link knows of the space that is left.
    """

    items: list[Item] = field(default_factory=list)
    space: Any = None


@dataclass(frozen=True)
class Mapped:
    """A link that applies a function to each item."""

    function: Callable[[Any], Any]
    text = ""


@dataclass(frozen=True)
class Filtered:
    """A link that passes on the items for which a function is true."""

    function: Callable[[Any], Any]
    text = "filter()"


@dataclass(frozen=True)
class Cut:
    """A link that passes on the items [start, stop) of those that reach it; `stop` None for all."""

    start: int
    stop: int | None

    @property
    def text(self) -> str:
        """What a fingerprint contains."""
        return f"[{self.start}:{'' if self.stop is None else self.stop}]"


class Grouping(ABC):
    """A link that makes groups of items. It is immutable; the bins that it fills belong to the iterator."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What a fingerprint contains."""

    @abstractmethod
    def add(self, bins: list[Bin], item: Item) -> list[Bin]:
        """Puts an item in a bin; returns the bins that are complete, and removes them. Unchanged after an error."""

    @property
    @abstractmethod
    def max_bins(self) -> int:
        """The maximal number of open bins."""

    def restored(self, bins: list[list[Item]]) -> list[Bin]:
        """Returns the bins with items of a saved state.

        Raises:
            ValueError: these items are not in these bins while they are open.
        """
        if len(bins) > self.max_bins:
            raise ValueError(f"expected at most {self.max_bins} open groups, got {len(bins)}")
        found = []
        for items in bins:
            alone: list[Bin] = []
            completed = [done for item in items for done in self.add(alone, item)]
            if completed or len(alone) != 1 or len(alone[0].items) != len(items):
                raise ValueError(f"expected items of one open group, got {len(items)} that make another")
            found += alone
        return found

    def left(self, bins: list[Bin]) -> list[Bin]:
        """Returns the bins that are passed on at the end of an epoch, in order."""
        return [] if getattr(self, "drop_remainder", False) else bins

    @abstractmethod
    def make(self, values: list[Any]) -> Any:
        """Returns what is made of the values of a bin."""


@dataclass(frozen=True)
class Batched(Grouping):
    """Batches of a fixed number of items.

    Attributes:
        size: how many items a batch has.
        drop_remainder: whether a smaller last one is left out.
        step: what puts values together.
    """

    size: int
    drop_remainder: bool
    step: Batch

    @property
    def text(self) -> str:
        """What a fingerprint contains."""
        return f"batch({self.size}{', drop_remainder=True' if self.drop_remainder else ''})"

    @property
    def max_bins(self) -> int:
        """The maximal number of open bins."""
        return 1

    def add(self, bins: list[Bin], item: Item) -> list[Bin]:
        """Fills one bin."""
        if not bins:
            bins.append(Bin())
        bins[0].items.append(item)
        return [bins.pop()] if len(bins[0].items) == self.size else []

    def make(self, values: list[Any]) -> Any:
        """Returns the batch."""
        return self.step.stack(values)


class Dividing(ABC):
    """A link that makes several items of one, or none. It is immutable."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What a fingerprint contains."""

    @abstractmethod
    def parts(self, value: Any) -> Iterable[Any]:
        """Returns what is made of an item, always the same."""


@dataclass(frozen=True)
class FlatMapped(Dividing):
    """A link that passes on each of the items that a function returns."""

    function: Callable[[Any], Iterable[Any]]

    @property
    def text(self) -> str:
        """What a fingerprint contains."""
        return "flat_map()"

    def parts(self, value: Any) -> Iterable[Any]:
        """Returns the items of the function.

        Raises:
            TypeError: it returned none, such as a single example.
        """
        found = self.function(value)
        if isinstance(found, (Mapping, str, bytes)) or not isinstance(found, Iterable):
            raise TypeError(
                f"flat_map(): expected a function that returns a list of items or yields them, got {found!r:.100} of "
                f"{type(found).__name__}."
            )
        return found


Link: TypeAlias = "Mapped | Filtered | Cut | Grouping | Dividing"

END: Any = object()
"""What `Parts.next` returns behind the last part."""


class Parts:
    """What a link has made of an item, from the next part on.

    Attributes:
        unit: the origin of the item.
        number: of the next part.
    """

    def __init__(self, link: Dividing, unit: Unit, value: Any, number: int = 0) -> None:
        self.unit = unit
        self.number = number
        self._link = link
        self._value = value
        self._parts: Iterator[Any] | None = None

    @property
    def origin(self) -> Unit:
        """The origin of all parts that are left."""
        return {"of": self.unit, "from": self.number}

    def next(self) -> Any:
        """Returns the next part, or `END`. After an error it is made again."""
        try:
            if self._parts is None:
                self._parts = itertools.islice(self._link.parts(self._value), self.number, None)
            part = next(self._parts, END)
        except BaseException:
            self._parts = None
            raise
        self.number += part is not END
        return part


def holds(result: Any) -> bool:
    """Returns the result of the function of a filter.

    Raises:
        TypeError: it is not a truth value, such as None for a function without `return`.
    """
    if isinstance(result, bool) or (getattr(result, "shape", None) == () and result.dtype == bool):  # of NumPy
        return bool(result)
    raise TypeError(
        f"filter(): expected a function that returns a bool, got {result!r:.100} of {type(result).__name__}."
    )
