"""Iterators of streams: pass items through the links, and hold those that a link has not yielded yet."""

from __future__ import annotations

import itertools
import json
import operator
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.advice import note_value
from beam_datasets.errors import StateError
from beam_datasets.reading.checkpoint import check_fingerprint
from beam_datasets.reading.elements.links import (
    END,
    Bin,
    Counting,
    Dividing,
    Filtered,
    Grouping,
    Item,
    Parts,
    to_bool,
)
from beam_datasets.reading.elements.transforms import Map
from beam_datasets.reading.index.transforms import MAX_ENDLESS, Operation, Shared
from beam_datasets.reading.iterator import ResumableIterator
from beam_datasets.reading.stream_checkpoint import Held, StreamState, Unit, leaves

if TYPE_CHECKING:
    from beam_datasets.reading.stream_mixture import Ordered
    from beam_datasets.reading.streams import Stream


class StreamIterator(ResumableIterator, Iterator[Any]):
    """Iterates over a stream; can be saved and resumed. After an error, the next call tries the same item again."""

    def __init__(self, stream: Stream, epoch: int = 0) -> None:
        """Begins at the start of an epoch."""
        self._stream = stream
        self._links = stream._links
        self._may_be_cut = stream._epochs == 0 or any(isinstance(link, Counting) for link in stream._links)
        self._reader: Any = None  # iterator over the base, while its files are open
        self._items: Iterator[Item] = iter(())
        self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        """Moves to the beginning of an epoch.

        Raises:
            ValueError: `repeat(epochs)` ends before this epoch.
        """
        self.close()
        epochs = self._stream._epochs
        if epochs is not None and epochs > 1 and epoch >= epochs:
            raise ValueError(f"epoch must be in [0, {epochs}), those of repeat({epochs}), got {epoch}.")
        self._epoch = self._stream._base._checked_epoch(epoch)
        self._position = 0
        self._queues: list[deque[Item]] = [deque() for _ in range(len(self._links) + 1)]
        """The items that each link has not processed yet; in the last queue, the items that were not yielded yet."""
        self._bins: list[list[Bin]] = [[] for _ in self._links]
        self._counts = [0] * len(self._links)

    def __next__(self) -> Any:
        """Returns the next item; raises StopIteration at the end."""
        item = self._next_item()
        if item is None:
            raise StopIteration
        return item[1]

    def _next_item(self) -> Item | None:
        """Returns the next item; None at the end."""
        try:
            while True:
                number = len(self._links)
                while number >= 0 and not self._queues[number]:
                    number -= 1
                if number < 0:
                    if not self._fill_queues():
                        return None
                    continue
                queue = self._queues[number]
                unit, value = queue[0]
                if isinstance(value, Bin):  # a group that the previous link has completed
                    queue[0] = unit, self._make_group(number - 1, value)
                elif isinstance(value, Parts):  # parts that the previous link makes one by one
                    _queue_part(queue, value)
                elif number == len(self._links):
                    return queue.popleft()
                else:
                    self._pass_item(number, queue[0])
                    queue.popleft()  # after an error, the item is still in the queue
        except StopIteration as error:  # StopIteration would end the iteration silently
            raise RuntimeError("a function given to map(), filter() or flat_map() raised StopIteration") from error

    def _pass_item(self, first: int, item: Item) -> bool:
        """Passes an item through the links from `first` on, up to the first one that counts or holds items.

        Returns:
            Whether an item was put into a queue.
        """
        unit, value = item
        for number in range(first, len(self._links)):
            link = self._links[number]
            if isinstance(link, (Filtered, Map)):  # in this order: checks for a `Map`, of an abstract class, are slow
                try:
                    result = link.function(value)
                except Exception as error:
                    note_value(error, "filter" if isinstance(link, Filtered) else "map", value)
                    raise
                if not isinstance(link, Filtered):
                    value = result
                elif not to_bool(result):
                    return False
            elif isinstance(link, Grouping):
                complete = link.add(self._bins[number], (unit, value))
                if complete:
                    self._queue_bins(number, complete)
                return bool(complete)
            elif isinstance(link, Dividing):
                self._queues[number + 1].append((None, Parts(link, unit, value)))
                return True
            else:
                is_kept = link.keeps(self._counts[number])
                if is_kept:
                    self._queues[number + 1].append((unit, value))
                self._counts[number] += 1
                return is_kept
        self._queues[-1].append((unit, value))
        return True

    def _queue_bins(self, number: int, bins: list[Bin]) -> None:
        """Puts complete bins of link `number` into the queue of the next link; groups are made when they are taken."""
        self._queues[number + 1].extend(([unit for unit, _ in group.items], group) for group in bins)

    def _make_group(self, number: int, complete: Bin) -> Any:
        """Returns the item, such as a batch, that the link with this number makes of the items of a complete bin."""
        link: Any = self._links[number]
        return link.make([value for _, value in complete.items])

    def _fill_queues(self) -> bool:
        """Reads until an item is in a queue. At the end, completes the groups of a link, or begins the next epoch.

        Returns:
            Whether there may be more items.
        """
        if not (self._may_be_cut and self._is_cut()):
            try:
                for item in self._open_base():
                    self._position += 1
                    try:
                        if self._pass_item(0, item):
                            return True
                    except BaseException:
                        self._queues[0].append(item)
                        raise
            except BaseException:
                self.close()
                raise
        for number, link in enumerate(self._links):
            if isinstance(link, Grouping) and self._bins[number]:
                self._queue_bins(number, [group for group in link.last_bins(self._bins[number]) if group.items])
                self._bins[number] = []
                return True
        self.close()
        epochs = self._stream._epochs
        if epochs is not None and (epochs <= 1 or self._epoch + 1 >= epochs):
            return False
        self._begin(self._epoch + 1)
        return True

    def _is_cut(self) -> bool:
        """Returns whether no further item can pass all links."""
        return self._stream._epochs == 0 or any(
            isinstance(link, Counting) and link.is_complete(count) for link, count in zip(self._links, self._counts)
        )

    def _open_base(self) -> Iterator[Item]:
        """Returns the iterator over the items of the base, from the position on.

        Raises:
            StateError: the position is greater than the number of examples.
        """
        if self._reader is None:
            dataset: Any = self._stream._base
            self._reader = dataset.iterate(epoch=self._epoch)
            if self._position > operator.length_hint(self._reader):
                raise StateError(
                    expected=f"at most {operator.length_hint(self._reader)}, the number of examples",
                    got=f"{self._position}",
                    field="position",
                    advice="Restore it with the dataset that it was saved with.",
                )
            self._reader.advance(self._position)
            self._items = zip(itertools.count(self._position), self._reader)
        return self._items

    def _fetch_base_items(self, units: Sequence[Unit]) -> list[Any]:
        """Returns the items of the base with these units, the positions of the current epoch, in the given order."""
        self._open_base()
        positions = sorted(units)
        values = dict(zip(positions, self._reader.values_at(positions)))
        return [values[position] for position in units]

    def get_state(self) -> dict[str, Any]:
        """Returns the position as a dict of JSON values; its size grows with the number of items that links hold.

        `position` counts the examples of the dataset that were read in the epoch. The module
        `reading.stream_checkpoint` describes the other fields.
        """
        held_items = tuple(
            Held(
                [value.origin if isinstance(value, Parts) else unit for unit, value in queue],
                [[unit for unit, _ in group.items] for group in bins],
                count,
            )
            for queue, bins, count in zip(self._queues, [*self._bins, []], [*self._counts, 0])
        )
        return StreamState(self._epoch, self._position, held_items, self._fingerprint()).to_dict()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Moves the iterator to a saved position.

        Raises:
            StateError: the state belongs to another dataset, to other operations, or to another worker; the message
                names the differences.
        """
        saved_state = self._stream._state_of(state)
        check_fingerprint(saved_state.fingerprint, self._fingerprint())
        try:
            self._restore(saved_state, state)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the state is damaged: {error}. Start from the beginning.") from error

    def _restore(self, saved_state: StreamState, state: Mapping[str, Any]) -> None:
        """Moves to a saved position, and fetches the items that links held.

        Args:
            saved_state: the parsed state.
            state: the state as it was given, from which a subclass reads further fields.

        Raises:
            StateError: the position is greater than the number of examples.
            ValueError: the items do not fit the links.
        """
        self._begin(saved_state.epoch)
        self._position = saved_state.position
        length = self._stream._base._operation.length
        if saved_state.position > min(length, MAX_ENDLESS):
            raise StateError(
                expected=f"at most {length}, the number of examples",
                got=f"{saved_state.position}",
                field="position",
                advice="Restore it with the dataset that it was saved with.",
            )
        self._restore_held(saved_state.held)

    def _fetch_items(self, units: list[Unit]) -> list[Any]:
        """Returns the items of this epoch that the stream yields for these units."""
        number = len(self._links)
        values = self._fetch_held(units)
        return [self._rebuild(number, unit, values) for unit in units]

    def _fetch_held(self, held_units: Any) -> dict[Any, Any]:
        """Fetches the items of the base from which held items were made.

        Args:
            held_units: units, or nested lists of units, or `Held`.

        Returns:
            A dict from the `_key` of each unit of the base to its item.
        """
        self._rebuilt_parts: dict[str, tuple[Iterator[Any], list[Any]]] = {}
        units = {_key(unit): unit for unit in leaves(held_units)}
        return dict(zip(units, self._fetch_base_items(list(units.values())))) if units else {}

    def _restore_held(self, held_items: Sequence[Held]) -> None:
        """Fetches the items that links held, and puts them back into queues and bins.

        Args:
            held_items: the held items of each link, followed by the items that were not yielded yet.

        Raises:
            ValueError: the items do not fit the links.
        """
        values = self._fetch_held(held_items)
        for number, link_held in enumerate(held_items):
            self._queues[number].extend((unit, self._rebuild(number, unit, values)) for unit in link_held.queue)
            link = self._links[number] if number < len(self._links) else None
            if link_held.bins:
                if not isinstance(link, Grouping):
                    raise ValueError(f"expected no groups before link {number}, which makes none")
                items = [[(unit, self._rebuild(number, unit, values)) for unit in units] for units in link_held.bins]
                self._bins[number] = link.restore_bins(items)
            if link_held.count:
                if not isinstance(link, Counting):
                    raise ValueError(f"expected no count before link {number}, which does not count items")
                self._counts[number] = link_held.count
        self._rebuilt_parts = {}

    def _rebuild(self, number: int, unit: Unit, values: Mapping[Any, Any]) -> Any:
        """Makes the item of a unit again, in the form in which it reaches link `number`.

        Args:
            number: number of the link; the number of links for an item that the stream yields.
            unit: the unit of the item.
            values: the result of `_fetch_held`.
        """
        origins = [i for i, link in enumerate(self._links[:number]) if isinstance(link, (Grouping, Dividing))]
        first = origins[-1] if origins else -1
        if not origins:
            value = values[_key(unit)]
        elif isinstance(unit, dict) and "from" in unit:
            link: Any = self._links[first]
            return Parts(link, unit["of"], self._rebuild(first, unit["of"], values), unit["from"])
        elif isinstance(unit, dict):
            value = self._rebuild_part(first, unit, values)
        else:
            value = self._make_group(first, Bin([(inner, self._rebuild(first, inner, values)) for inner in unit]))
        for link_after in self._links[first + 1 : number]:
            value = link_after.function(value) if isinstance(link_after, Map) else value
        return value

    def _rebuild_part(self, number: int, unit: Unit, values: Mapping[Any, Any]) -> Any:
        """Makes a part of an item that link `number` divides. Each item is divided once for all of its held parts.

        Args:
            number: number of the link.
            unit: the unit of the part, a dict with `of` and `part`.
            values: the result of `_fetch_held`.

        Raises:
            ValueError: the item has fewer parts now.
        """
        link: Any = self._links[number]
        key = f"{number}: {unit['of']}"
        if key not in self._rebuilt_parts:
            self._rebuilt_parts[key] = iter(link.parts(self._rebuild(number, unit["of"], values))), []
        remaining, parts = self._rebuilt_parts[key]
        parts += itertools.islice(remaining, max(0, unit["part"] + 1 - len(parts)))
        if unit["part"] >= len(parts):
            raise ValueError(f"expected more than {unit['part']} parts of an item, got {len(parts)}")
        return parts[unit["part"]]

    def _fingerprint(self) -> dict[str, str]:
        """Returns the fingerprint of the stream, with the worker of each `shard()`."""
        fields = self._stream._stream_fingerprint()
        workers = "; ".join(_workers(self._stream._base._operation))
        return {**fields, "worker": workers} if workers else fields

    def close(self) -> None:
        """Closes the open files; `next()` opens them again."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _queue_part(queue: deque[Item], parts: Parts) -> None:
    """Puts the next part at the front of a queue, before its first item, which is `parts`.

    After the last part, removes `parts` from the queue.
    """
    unit = {"of": parts.unit, "part": parts.number}
    item = parts.next()
    if item is END:
        queue.popleft()
    else:
        queue.appendleft((unit, item))


def _key(unit: Unit) -> Any:
    """Converts a unit of the base to a dict key: a position, or the JSON text of a unit of a mixture.

    >>> _key(41), _key({"source": 1, "epoch": 0, "of": 41})
    (41, '{"source": 1, "epoch": 0, "of": 41}')
    """
    return unit if isinstance(unit, int) else json.dumps(unit)


def _workers(operation: Operation | Ordered) -> Iterator[str]:
    """Yields the worker of each `shard()` of an operation, as "<index> of <count>"."""
    if isinstance(operation, Shared):
        yield f"{operation.share.worker_index} of {operation.share.worker_count}"
    for child in operation.children:
        yield from _workers(child)
