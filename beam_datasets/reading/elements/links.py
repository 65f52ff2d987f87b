"""Links of a stream: the operations that are applied to each item, one after the other; a function is a `Map` step.

A link is immutable; the items that it buffers between outputs belong to the iterator.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from beam_datasets.advice import note_value
from beam_datasets.reading.elements.transforms import Batch, Map
from beam_datasets.reading.stream_checkpoint import Unit

Item: TypeAlias = "tuple[Unit, Any]"
"""A unit, which identifies the item, and its value."""


@dataclass
class Bin:
    """The items of an incomplete group.

    Attributes:
        items: the items in the order in which they arrived.
        space: the remaining space, in the form that the link uses; None if it does not count space.
    """

    items: list[Item] = field(default_factory=list)
    space: Any = None


@dataclass(frozen=True)
class Filtered:
    """A link that keeps the items for which a function returns True.

    Attributes:
        function: function from an item to a bool; see `to_bool`.
        text: description of this link in a fingerprint.
    """

    function: Callable[[Any], Any]
    text = "filter()"


class Counting(ABC):
    """A link that keeps items by their number, counted from 0 at the beginning of an epoch. It is immutable."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The description of this link in a fingerprint."""

    @abstractmethod
    def keeps(self, number: int) -> bool:
        """Returns whether the item with a number is kept."""

    def is_complete(self, number: int) -> bool:
        """Returns whether neither the item with a number nor any later item is kept."""
        return False


@dataclass(frozen=True)
class Cut(Counting):
    """A link that keeps the items [start, stop) of its input.

    Attributes:
        start: number of the first item, at least 0.
        stop: number of the item after the last one; None for all items from `start` on.
    """

    start: int
    stop: int | None

    @property
    def text(self) -> str:
        """The description of this link in a fingerprint: "[10:20]", or "[10:]" without an end."""
        return f"[{self.start}:{'' if self.stop is None else self.stop}]"

    def keeps(self, number: int) -> bool:
        """Returns whether the item with a number is in [start, stop)."""
        return self.start <= number and not self.is_complete(number)

    def is_complete(self, number: int) -> bool:
        """Returns whether neither the item with a number nor any later item is kept: the number is `stop` or more."""
        return self.stop is not None and number >= self.stop


class Grouping(ABC):
    """A link that makes groups of items. It is immutable; the bins that it fills belong to the iterator."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The description of this link in a fingerprint."""

    @abstractmethod
    def add(self, bins: list[Bin], item: Item) -> list[Bin]:
        """Adds an item to an open or new bin; removes and returns complete bins. An error leaves `bins` unchanged."""

    @property
    @abstractmethod
    def max_bins(self) -> int:
        """The maximum number of open bins."""

    def restore_bins(self, bins: list[list[Item]]) -> list[Bin]:
        """Rebuilds the open bins of a saved state, given the items of each bin.

        Raises:
            ValueError: there are more than `max_bins`, or this link would not put the items of a bin in one open bin.
        """
        if len(bins) > self.max_bins:
            raise ValueError(f"expected at most {self.max_bins} open groups, got {len(bins)}")
        restored_bins = []
        for items in bins:
            open_bins: list[Bin] = []
            completed = [complete for item in items for complete in self.add(open_bins, item)]
            if completed or len(open_bins) != 1 or len(open_bins[0].items) != len(items):
                raise ValueError(f"expected items of one open group, got {len(items)} of another")
            restored_bins += open_bins
        return restored_bins

    def last_bins(self, bins: list[Bin]) -> list[Bin]:
        """Returns the incomplete bins that become groups at the end of an epoch; no bins if `drop_remainder`."""
        return [] if getattr(self, "drop_remainder", False) else bins

    @abstractmethod
    def make(self, values: list[Any]) -> Any:
        """Combines the values of a bin into the item that the link outputs."""


@dataclass(frozen=True)
class Batched(Grouping):
    """A link that makes batches of a fixed number of items.

    Attributes:
        size: number of items in a batch.
        drop_remainder: whether a smaller last batch is left out.
        step: the step that stacks values.
    """

    size: int
    drop_remainder: bool
    step: Batch

    @property
    def text(self) -> str:
        """The description of this link in a fingerprint, such as "batch(8, drop_remainder=True)"."""
        return f"batch({self.size}{', drop_remainder=True' if self.drop_remainder else ''})"

    @property
    def max_bins(self) -> int:
        """The maximum number of open bins."""
        return 1

    def add(self, bins: list[Bin], item: Item) -> list[Bin]:
        """Adds the item to the only bin; returns the bin once it has `size` items."""
        if not bins:
            bins.append(Bin())
        bins[0].items.append(item)
        return [bins.pop()] if len(bins[0].items) == self.size else []

    def make(self, values: list[Any]) -> Any:
        """Stacks the values into a batch."""
        return self.step.stack(values)


class Dividing(ABC):
    """A link that divides each item into any number of items, its parts. It is immutable."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The description of this link in a fingerprint."""

    @abstractmethod
    def parts(self, value: Any) -> Iterable[Any]:
        """Returns the parts of an item; they must be the same in each call."""


@dataclass(frozen=True)
class FlatMapped(Dividing):
    """A link that replaces each item by all items that a function returns for it.

    Attributes:
        function: function from an item to an iterable of items.
    """

    function: Callable[[Any], Iterable[Any]]

    @property
    def text(self) -> str:
        """The description of this link in a fingerprint."""
        return "flat_map()"

    def parts(self, value: Any) -> Iterable[Any]:
        """Returns the result of the function.

        Raises:
            TypeError: the result is not an iterable of items, or it is a mapping, `str` or `bytes`.
        """
        result = self.function(value)
        if isinstance(result, (Mapping, str, bytes)) or not isinstance(result, Iterable):
            raise TypeError(
                f"flat_map(): expected a function that returns a list of items or yields them, got {result!r:.100} of "
                f"{type(result).__name__}."
            )
        return result


Link: TypeAlias = "Map | Filtered | Counting | Grouping | Dividing"

END: Any = object()
"""The result of `Parts.next` after the last part."""


class Parts:
    """The remaining parts of an item that a link divides.

    Attributes:
        unit: the unit of the divided item.
        number: number of the next part, from 0.
    """

    def __init__(self, link: Dividing, unit: Unit, value: Any, number: int = 0) -> None:
        """Divides an item.

        Args:
            link: the link that divides the item.
            unit: the unit of the item.
            value: the item.
            number: number of the first remaining part.
        """
        self.unit = unit
        self.number = number
        self._link = link
        self._value = value
        self._parts: Iterator[Any] | None = None

    @property
    def origin(self) -> Unit:
        """The unit that identifies all remaining parts in a state: the divided unit and the next part number."""
        return {"of": self.unit, "from": self.number}

    def next(self) -> Any:
        """Returns the next part, or `END`. After an error, the next call retries the same part."""
        try:
            if self._parts is None:
                self._parts = itertools.islice(self._link.parts(self._value), self.number, None)
            item = next(self._parts, END)
        except BaseException as error:
            self._parts = None
            if isinstance(error, Exception) and isinstance(self._link, FlatMapped):
                note_value(error, "flat_map", self._value)
            raise
        self.number += item is not END
        return item


def to_bool(result: Any) -> bool:
    """Converts the result of a filter function to a `bool`.

    Raises:
        TypeError: the result is not a Python or NumPy bool; for example, None.
    """
    if isinstance(result, bool) or (getattr(result, "shape", None) == () and result.dtype == bool):  # a NumPy bool
        return bool(result)
    raise TypeError(
        f"filter(): expected a function that returns a bool, got {result!r:.100} of {type(result).__name__}."
    )
