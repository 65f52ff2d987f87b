"""Streams: pipelines whose number of items depends on the examples, such as those with a filter.

The number of examples that a filter keeps is known only when they are read. So a stream reads a `Dataset` in order and
passes each item through *links*: functions, filters, groups, parts of items, and cuts. Its state consists of the
position in the dataset and the positions of the items that each link holds. A new iterator fetches these items again
and continues at the position, so it does not read the other examples before it.
"""

from __future__ import annotations

import itertools
import json
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_datasets.advice import advised_getattr, names_foreign_arguments, note_value, warns_of_buffer_size
from beam_datasets.arguments import boolean, checked_function, integer
from beam_datasets.errors import StateError
from beam_datasets.features.stacking import return_unchanged
from beam_datasets.reading.checkpoint import check_fingerprint, fingerprint
from beam_datasets.reading.elements.links import (
    END,
    Batched,
    Bin,
    Cut,
    Dividing,
    Filtered,
    FlatMapped,
    Grouping,
    Item,
    Link,
    Parts,
    to_bool,
)
from beam_datasets.reading.elements.transforms import Map, Step, batch_of, check_names, decode_only
from beam_datasets.reading.frameworks import Frameworks, NamesForeign
from beam_datasets.reading.index.division import MAX_POSITION
from beam_datasets.reading.index.transforms import MAX_ENDLESS, Operation, Shared
from beam_datasets.reading.iterator import ResumableIterator
from beam_datasets.reading.plan import ReadPlan
from beam_datasets.reading.stream_checkpoint import Held, OfBase, Origin, StreamState, Unit, leaves

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.stream_mixture import Ordered, StreamMixture

Base: TypeAlias = "Dataset | StreamMixture"
"""The examples that a stream reads."""


class Stream(metaclass=NamesForeign):
    """Examples of a `Dataset` after `filter()`, `flat_map()`, `chunk()`, `batch_by_length()` or `pack()`, or a mixture.

    It is immutable, as a Dataset is.

    The number of items is not known before they are read, so it has neither `len` nor `ds[i]`. `shuffle`, `shard` and
    `repeat` are applied to the dataset if only `map`, filters, `flat_map` and `chunk` came before, whose result for an
    example does not depend on the order. After batches, `repeat` begins new batches in each epoch.

    The state of a stream counts the examples of the dataset that were read. A stream that `shard()` has divided has a
    state for each worker. Only the worker with the same index, of the same number of workers, can restore it: the
    numbers of examples that workers have read differ.
    """

    _has_positions = False
    as_torch = Frameworks.as_torch
    __add__ = Frameworks.__add__
    if not TYPE_CHECKING:
        __mul__ = __rmul__ = Frameworks.__mul__
        __or__, __and__, __sub__ = Frameworks.__or__, Frameworks.__and__, Frameworks.__sub__
    _first_pass = Frameworks._first_pass
    _repr_html_ = Frameworks._repr_html_

    def __init__(self, base: Base, links: tuple[Link, ...] = (), epochs: int | None = 1) -> None:
        """Creates a stream.

        Args:
            base: the examples to read: a dataset, or a mixture of streams.
            links: operations that are applied to the items of `base`, the first one first.
            epochs: number of times that the result of all links is repeated; None for an endless stream, 0 for an
                empty one. Epochs of `base` itself are not counted.
        """
        self._base = base
        self._links = links
        self._epochs = epochs

    def _append(self, link: Link) -> Stream:
        """Returns the stream with one more link.

        Raises:
            ValueError: the link counts or groups items, and `repeat()` came before.
        """
        if self._epochs != 1 and not isinstance(link, (Map, Filtered, Dividing)):
            raise ValueError("batches, skip() and take() come before repeat() in a stream: each epoch has its own.")
        return Stream(self._base, (*self._links, link), self._epochs)

    @property
    def _is_grouped(self) -> bool:
        """Whether the items depend on the order: a link groups or counts them."""
        return any(isinstance(link, (Grouping, Cut)) for link in self._links)

    @property
    def _makes_batches(self) -> bool:
        """Whether the items are batches, as far as this is known of the functions of users."""
        from beam_datasets.reading.elements.grouping import ByLength

        for link in reversed(self._links):
            if isinstance(link, (Batched, ByLength, Dividing)):
                return not isinstance(link, Dividing)
        return self._base._steps[0].kind == "batch"

    @property
    def features(self) -> Any:
        """The features of the dataset's examples as they are decoded."""
        return self._base.features

    def __repr__(self) -> str:
        links = " | ".join(link.text or "map()" for link in self._links)
        return f"<Stream of {self._base!r}: {links}{'' if self._epochs == 1 else ' | repeat()'}>"

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("stream", "ds")

    # ------------------------------------------------------------------------------------------------------ operations

    @names_foreign_arguments("map")
    def map(self, function: Callable[[Any], Any]) -> Stream:
        """Returns the stream with a function applied to each item. It is not part of a saved state."""
        return self._append(Map(checked_function("map", function)))

    @names_foreign_arguments("filter")
    def filter(self, function: Callable[[Any], Any]) -> Stream:
        """Returns the stream of the items for which a function returns True; see `Dataset.filter`."""
        return self._append(Filtered(checked_function("filter", function)))

    @names_foreign_arguments("flat_map")
    def flat_map(self, function: Callable[[Any], Iterable[Any]]) -> Stream:
        """Returns the stream of all items that a function makes of each item, in order.

        The function returns or yields any number of items for each item. Items that it yields are held one at a time.
        It must make the same items each time: a state in the middle of an item contains the number of its items that
        were read, and the function is called again when it is restored. The function is not part of a saved state.
        """
        return self._append(FlatMapped(checked_function("flat_map", function)))

    @names_foreign_arguments("chunk")
    def chunk(self, max_length: int, features: Iterable[str], *, overlap: int = 0) -> Stream:
        """Returns the stream with long examples divided into several of at most `max_length` items.

        All chunks of an example have its other features. An example that is not longer than `max_length`
        stays unchanged.

        Args:
            max_length: length of all chunks of an example but the last, at least 1.
            features: names of the features to divide, which have the same length in each example.
            overlap: number of items that each chunk has in common with the previous one, less than `max_length`.

        Raises:
            ValueError: an argument is out of range.
            FeatureError: a feature does not exist, or has no length. After `map()` this is raised while reading, as it
                always is for features of different lengths.
        """
        from beam_datasets.reading.elements.grouping import Chunked

        link = Chunked.of(max_length, features, overlap)
        check_names("chunk()", link.names, self._steps, have_length=True)
        return self._append(link)

    @names_foreign_arguments("skip")
    def skip(self, count: int) -> Stream:
        """Returns the stream without its first `count` items. They are read."""
        return self._append(Cut(integer("count", count, at_least=0), None))

    @names_foreign_arguments("take")
    def take(self, count: int) -> Stream:
        """Returns the stream of the first `count` items, or of all items if there are fewer."""
        return self._append(Cut(0, integer("count", count, at_least=0)))

    @warns_of_buffer_size
    @names_foreign_arguments("shuffle")
    def shuffle(self, seed: int, window: int | None = None) -> Stream:
        """Returns the stream of the shuffled dataset; see `Dataset.shuffle`.

        Raises:
            ValueError: batches, `skip()` or `take()` came before.
        """
        return Stream(self._base_before_groups("shuffle()").shuffle(seed, window), self._links)

    @names_foreign_arguments("shard")
    def shard(self, worker_index: int, worker_count: int, *, block: int | None = None) -> Stream:
        """Returns the stream of one worker's part of the examples; see `Dataset.shard`.

        Args:
            worker_index: number of the worker, in [0, worker_count).
            worker_count: number of workers.
            block: number of consecutive examples of a worker; by default as in `Dataset.shard`.

        Raises:
            ValueError: batches, `skip()` or `take()` came before.
        """
        return Stream(self._base_before_groups("shard()").shard(worker_index, worker_count, block=block), self._links)

    def _divided(self, worker_index: int, worker_count: int, block: int | None) -> Stream:
        """Returns the stream of one worker's part of the examples. Each worker makes its own groups.

        For the arguments, see `Dataset.shard`.

        Raises:
            ValueError: there are several workers, and `skip()` or `take()` would count each worker's items.
        """
        if worker_count == 1:
            return self
        if any(isinstance(link, Cut) for link in self._links):
            raise ValueError(
                f"skip() and take() of a stream: expected one worker or rank, got {worker_count}, which would "
                "each count their own items. Move them before filter(), flat_map(), batch_by_length() and pack()."
            )
        return Stream(self._base._of_worker(worker_index, worker_count, block), self._links, self._epochs)

    @names_foreign_arguments("repeat")
    def repeat(self, epochs: int | None = None) -> Stream:
        """Returns the stream repeated for several epochs, each in a different order if it is shuffled.

        Args:
            epochs: number of epochs, at least 0; None for endless repetition.

        Raises:
            ValueError: `repeat()` is called twice, after batches or on a mixture.
        """
        if not self._is_grouped and isinstance(self._base, ReadPlan):
            return Stream(self._base.repeat(epochs), self._links)
        if self._epochs != 1:
            raise ValueError(
                "repeat() after batches or of a mixture: expected one call, got two. Call it with all epochs."
            )
        times = None if epochs is None else integer("epochs", epochs, at_least=0)
        return Stream(self._base._as_epoch(), self._links, times)

    def _pass_of(self, epoch: int) -> int:
        """Returns the number of the pass that reads an epoch; see `Dataset._pass_of`."""
        return epoch // self._epochs if self._epochs and self._epochs > 1 else self._base._pass_of(epoch)

    def _in_pass(self, number: int) -> tuple[Stream, int]:
        """Returns the stream and the epoch to begin with in a pass of an adapter; see `Dataset._in_pass`."""
        if self._epochs and self._epochs > 1:
            return Stream(self._base, self._links, self._epochs * (number + 1)), self._epochs * number
        base, epoch = self._base._in_pass(number)
        return Stream(base, self._links, self._epochs), epoch

    def _state_of(self, state: object) -> StreamState:
        """Returns a saved state of a stream with these links.

        Raises:
            StateError: it is malformed, or belongs to a stream with other links.
        """
        if not isinstance(self._base, ReadPlan):
            state = self._base.without_sources(state)
        return StreamState.from_dict(state, self._origins(), self._unit_of_base)

    def _origins(self) -> list[Origin]:
        """Returns the `stream_checkpoint.Origin` of the items before each link, then of those of the stream."""
        kinds: list[Origin] = [
            ("group",) if isinstance(link, Grouping) else ("part",) if isinstance(link, Dividing) else ()
            for link in self._links
        ]
        return list(itertools.accumulate(kinds, initial=()))

    @property
    def _unit_of_base(self) -> OfBase:
        """The function that checks a unit of the base; None if the base is a dataset, whose units are positions."""
        return None if isinstance(self._base, ReadPlan) else self._base.unit

    def _fingerprint(self) -> dict[str, str]:
        """Returns the fingerprint of the base and the links; see `checkpoint.fingerprint`."""
        links = [link.text for link in self._links if link.text]
        return fingerprint(**self._base._identity, operations=[*self._base._operation.texts, *links])

    def _base_before_groups(self, operation: str) -> Base:
        """Returns the base, to which an operation is applied before all links.

        Args:
            operation: the name of the operation, for the error.

        Raises:
            ValueError: a link groups or counts items.
        """
        if self._is_grouped:
            raise ValueError(f"{operation} comes before batches, skip() and take() in a stream: move it there.")
        return self._base

    @names_foreign_arguments("batch")
    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        pad: bool = False,
        fill: Any = None,
        pad_value: Any = None,
        pad_side: str = "right",
        pad_length: Any = None,
    ) -> Stream:
        """Returns the stream in batches; see `Dataset.batch`.

        Args:
            batch_size: number of examples in a batch, at least 1.
            drop_remainder: whether to omit a last batch with fewer examples.
            pad: whether to pad arrays of different shapes with zeros, strings with b''.
            fill: replacement of missing values; see `Dataset.batch`.
            pad_value: value to pad with, 0 or b'' by default; see `Dataset.batch`.
            pad_side: "right" pads after the items, "left" before them.
            pad_length: length of the first dimension in all batches; see `Dataset.batch`.
        """
        size, drop = integer("batch_size", batch_size, at_least=1), boolean("drop_remainder", drop_remainder)
        padding = {"pad_value": pad_value, "pad_side": pad_side, "pad_length": pad_length}
        return self._append(Batched(size, drop, batch_of(self._steps, pad=pad, fill=fill, **padding)))

    @names_foreign_arguments("batch")
    def padded_batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        fill: Any = None,
        pad_value: Any = None,
        pad_side: str = "right",
        pad_length: Any = None,
    ) -> Stream:
        """Returns the stream in padded batches: `batch` with `pad=True`.

        Args:
            batch_size: number of examples in a batch, at least 1.
            drop_remainder: whether to omit a last batch with fewer examples.
            fill: replacement of missing values; see `Dataset.batch`.
            pad_value: value to pad with, 0 or b'' by default; see `Dataset.batch`.
            pad_side: "right" pads after the items, "left" before them.
            pad_length: length of the first dimension in all batches; see `Dataset.batch`.
        """
        return self.batch(
            batch_size,
            drop_remainder=drop_remainder,
            pad=True,
            fill=fill,
            pad_value=pad_value,
            pad_side=pad_side,
            pad_length=pad_length,
        )

    def batch_by_length(
        self,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int],
        *,
        length: str | Callable[[Any], int],
        drop_remainder: bool = False,
        pad_to_boundary: bool = False,
        fill: Any = None,
        pad_value: Any = None,
        pad_side: str = "right",
        pad_length: Any = None,
    ) -> Stream:
        """Returns the stream in padded batches of examples of similar lengths.

        Examples wait until there are enough of similar lengths, so at most the sum of `batch_sizes` are in memory.

        Args:
            boundaries: ascending lengths; examples with lengths in [boundaries[i - 1], boundaries[i]) are batched
                together, as tf.data's `bucket_by_sequence_length` does.
            batch_sizes: number of examples in the batches of each range; one more than there are boundaries.
            length: the feature whose length counts, or a function from an example to its length.
            drop_remainder: whether to omit the smaller batches at the end of an epoch.
            pad_to_boundary: whether to pad the feature to the greatest length of its range, for fixed shapes. The last
                range has none, so its batches have the length of their longest example.
            fill: replacement of missing values; see `Dataset.batch`.
            pad_value: value to pad with; see `Dataset.batch`.
            pad_side: "right" pads after the items, "left" before them.
            pad_length: length of the first dimension in all batches; see `Dataset.batch`.

        Raises:
            ValueError: boundaries do not ascend, or there is another number of batch sizes.
            FeatureError: the feature does not exist, or it has no length; if a function has made the examples, it is
                found while reading.
        """
        from beam_datasets.reading.elements.grouping import ByLength

        padding = {"pad_value": pad_value, "pad_side": pad_side, "pad_length": pad_length}
        step, drop = batch_of(self._steps, pad=True, fill=fill, **padding), boolean("drop_remainder", drop_remainder)
        for name, values in (("boundaries", boundaries), ("batch_sizes", batch_sizes)):
            if not isinstance(values, Iterable):
                raise TypeError(f"{name}: expected a list of integers, got {values!r}.")
        link = ByLength(tuple(boundaries), tuple(batch_sizes), length, drop, pad_to_boundary, step)
        if isinstance(length, str):
            check_names("batch_by_length()", [length], self._steps, have_length=True)
        return self._append(link)

    @names_foreign_arguments("pack")
    def pack(
        self, max_length: Any, features: Iterable[str] | None = None, *, num_bins: int = 16, overlong: str = "error"
    ) -> Stream:
        """Returns the stream with several examples concatenated in arrays of a fixed length.

        For each packed feature `f` an item has three arrays: `f`, followed by zeros; `f_segment_ids`, the number of the
        example of each position, from 1, followed by zeros; and `f_positions`, the position in the example. Other
        features are left out, and not decoded unless a function comes before. An example goes into the first of the
        open arrays that has space for all of its features. If none has, the oldest is yielded.

        Args:
            max_length: length of the arrays: a number for all, or a dict from feature names to numbers.
            features: names of the features to pack; None if max_length is a dict.
            num_bins: number of open arrays, at least 1. More leave less space unused, and hold more examples in memory.
            overlong: treatment of an example longer than max_length: "error", "truncate" or "drop".

        Raises:
            ValueError: an argument is out of range.
            FeatureError: the feature does not exist, or it has no length; if a function has made the examples, it is
                found while reading, and so is an example that is too long.
        """
        from beam_datasets.reading.elements.grouping import Packed

        link = Packed.of(max_length, features, num_bins, overlong)
        check_names("pack()", link.lengths, self._steps, have_length=True)
        if self._links or self._epochs != 1 or not isinstance(self._base, ReadPlan):
            return self._append(link)
        return Stream(self._base._with(steps=decode_only(link.lengths, self._base._steps)), (link,))

    @property
    def _steps(self) -> tuple[Step, ...]:
        """The steps of the dataset, followed by a `Map` if items may no longer have the features of the dataset."""
        is_changed = any(isinstance(link, (Map, Grouping, FlatMapped)) for link in self._links)
        return (*self._base._steps, Map(return_unchanged)) if is_changed else self._base._steps

    # ----------------------------------------------------------------------------------------------------- read order

    def __len__(self) -> int:
        """Raises a TypeError."""
        raise TypeError(
            "the number of items is unknown: it depends on the examples, because of filter(), flat_map(), chunk(), "
            "batch_by_length() or pack(). Count them in a loop, or write what passes with materialize(where=...), "
            "which has a length. A DataLoader of PyTorch takes ds.as_torch()."
        )

    __bool__ = __len__

    def __getitem__(self, index: Any) -> Any:
        """Raises a TypeError."""
        raise TypeError(
            "a stream has no ds[i]: which examples pass is known when they are read. Use ds[i] before. A DataLoader of "
            "PyTorch takes ds.as_torch()."
        )

    def __iter__(self) -> StreamIterator:
        return self.iterate()

    def iterate(self, *, epoch: int | None = None, state: Mapping[str, Any] | None = None) -> StreamIterator:
        """Returns an iterator.

        Args:
            epoch: epoch to read, at least 0; None for the epoch of the state, or 0.
            state: result of `get_state()` of an iterator, from which to continue; None for the beginning of an epoch.

        Raises:
            StateError: the state belongs to another dataset, to other operations, to another worker or epoch.
        """
        first = 0 if epoch is None else integer("epoch", epoch, at_least=0, at_most=MAX_POSITION)
        iterator = self._base._iterate_stream(self, first)
        if state is not None:
            iterator._restore_in_epoch(state, None if epoch is None else first)
        return iterator


class StreamIterator(ResumableIterator, Iterator[Any]):
    """Iterates over a stream; can be saved and resumed. After an error, the next call tries the same item again."""

    def __init__(self, stream: Stream, epoch: int = 0) -> None:
        """Begins at the start of an epoch."""
        self._stream = stream
        self._links = stream._links
        self._may_be_cut = stream._epochs == 0 or any(isinstance(link, Cut) for link in stream._links)
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
                    if not self._read():
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
            if isinstance(link, (Map, Filtered)):
                try:
                    result = link.function(value)
                except Exception as error:
                    note_value(error, "map" if isinstance(link, Map) else "filter", value)
                    raise
                if isinstance(link, Map):
                    value = result
                elif not to_bool(result):
                    return False
            elif isinstance(link, Grouping):
                complete = link.add(self._bins[number], (unit, value))
                self._queue_bins(number, complete)
                return bool(complete)
            elif isinstance(link, Dividing):
                self._queues[number + 1].append((None, Parts(link, unit, value)))
                return True
            else:
                count = self._counts[number]
                is_kept = link.start <= count and (link.stop is None or count < link.stop)
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

    def _read(self) -> bool:
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
            isinstance(link, Cut) and link.stop is not None and count >= link.stop
            for link, count in zip(self._links, self._counts)
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
                    f"the state's position is {self._position}, but there are {operator.length_hint(self._reader)} "
                    "examples. Restore it with the dataset that it was saved with."
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
            raise StateError(f"the state is damaged: {error}. Begin anew.") from error

    def _restore(self, saved_state: StreamState, state: Mapping[str, Any]) -> None:
        """Moves to a saved position, and restores the items that links held.

        Raises:
            StateError: the position is greater than the number of examples.
            ValueError: the items do not fit the links.
        """
        self._begin(saved_state.epoch)
        self._position = saved_state.position
        length = self._stream._base._operation.length
        if saved_state.position > min(length, MAX_ENDLESS):
            raise StateError(
                f"the state's position is {saved_state.position}, but there are {length} examples. Restore it with the "
                "dataset that it was saved with."
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
                if not isinstance(link, Cut):
                    raise ValueError(f"expected no count before link {number}, which is no skip() or take()")
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
        fields = self._stream._fingerprint()
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
