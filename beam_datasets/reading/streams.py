"""Streams: pipelines whose number of items depends on the examples, such as those with a filter.

The number of examples that a filter keeps is known only when they are read. So a stream reads a `Dataset` in order and
passes each item through *links*: functions, filters, groups, parts of items, and cuts. Its state consists of the
position in the dataset and the positions of the items that each link holds. A new iterator fetches these items again
and continues at the position, so it does not read the other examples before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from beam_datasets.advice import advised_getattr, names_foreign_arguments, warns_of_buffer_size
from beam_datasets.arguments import boolean, checked_function, integer
from beam_datasets.features.stacking import return_unchanged
from beam_datasets.reading.checkpoint import fingerprint
from beam_datasets.reading.elements.links import (
    Batched,
    Counting,
    Cut,
    Dividing,
    Filtered,
    FlatMapped,
    Grouping,
    Link,
)
from beam_datasets.reading.elements.transforms import Map, Step, batch_of, check_names, decode_only
from beam_datasets.reading.frameworks import ForeignOperators, Frameworks
from beam_datasets.reading.index.division import MAX_POSITION
from beam_datasets.reading.plan import ReadPlan
from beam_datasets.reading.stream_checkpoint import OfBase, Origin, StreamState

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.stream_iterator import StreamIterator
    from beam_datasets.reading.stream_mixture import StreamMixture

Base: TypeAlias = "Dataset | StreamMixture"
"""The examples that a stream reads."""


class Stream(ForeignOperators):
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
        return any(isinstance(link, (Grouping, Counting)) for link in self._links)

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
        links = [link.text or "map()" for link in self._links] + ["repeat()"] * (self._epochs != 1)
        return f"<Stream of {self._base!r}{': ' if links else ''}{' | '.join(links)}>"

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

    def _part_of_worker(self, worker_index: int, worker_count: int, block: int | None) -> Stream:
        """Returns the stream of one worker's part of the examples. Each worker makes its own groups.

        For the arguments, see `Dataset.shard`.

        Raises:
            ValueError: there are several workers, and `skip()` or `take()` would count each worker's items.
        """
        if worker_count == 1:
            return self
        if any(isinstance(link, Counting) for link in self._links):
            raise ValueError(
                f"skip() and take() of a stream: expected one worker or rank, got {worker_count}, which would "
                "each count their own items. Move them before filter(), flat_map(), batch_by_length() and pack()."
            )
        return Stream(self._base._part_of_worker(worker_index, worker_count, block), self._links, self._epochs)

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
        """Returns the kinds of links, 'group' or 'part', that items have passed: before each link, and after the last.

        For example, [(), (), ('group',)] for a filter and a batch; see `stream_checkpoint.Origin`.
        """
        kinds: list[Origin] = [
            ("group",) if isinstance(link, Grouping) else ("part",) if isinstance(link, Dividing) else ()
            for link in self._links
        ]
        return list(itertools.accumulate(kinds, initial=()))

    @property
    def _unit_of_base(self) -> OfBase:
        """The function that checks a unit of the base; None if the base is a dataset, whose units are positions."""
        return None if isinstance(self._base, ReadPlan) else self._base.unit

    def _stream_fingerprint(self) -> dict[str, str]:
        """Returns the fingerprint of the base and the links, {name of the fact: text}; see `checkpoint.fingerprint`."""
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

    @names_foreign_arguments("batch_by_length")
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

    def __getitem__(self, index: Any) -> NoReturn:
        """Raises a TypeError."""
        raise TypeError(
            "a stream has no ds[i]: which examples pass is known when they are read. Use ds[i] before; here "
            "list(ds.take(10)) returns the first items. A DataLoader of PyTorch takes ds.as_torch()."
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
