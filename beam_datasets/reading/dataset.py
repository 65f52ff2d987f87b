"""Dataset: what is read, in which order, and what is made of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import StateError
from beam_datasets.features.compiler import chosen
from beam_datasets.reading.arguments import explained, index_of, indices_of
from beam_datasets.reading.decoding import Batch, Decode, Map, Raw, compose, compose_many, fill_of_steps, with_filler
from beam_datasets.reading.frameworks import Frameworks
from beam_datasets.reading.iterator import DatasetIterator
from beam_datasets.reading.operations import (
    ENDLESS,
    Group,
    Operation,
    Repeat,
    Shared,
    Shuffle,
    Slice,
    Window,
    stream_of,
)
from beam_datasets.reading.positions import Share
from beam_datasets.reading.state import fingerprint
from beam_datasets.reading.undecoded import UNDECODED, Undecoded
from beam_datasets.reading.yielding import Maker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from beam_datasets.reading.decoding import Step
    from beam_datasets.reading.lookup import Lookup
    from beam_datasets.reading.source import Source


_COMPILED = ("function", "function_of_many", "maker")  # attributes that are made again where they do not pickle


class Dataset(Frameworks):
    """Examples of a slice of a dataset: a value that does not change; every operation returns another.

    Iteration is in read order: files are interleaved, as TFDS reads them. Indices are dataset order, in which the
    examples stand in the files: `ds[i]` is example i of the slice. The two differ: `take(25)` is not `train[:25]`.

    Operations compute positions. None of them reads anything, and an iterator begins anywhere without reading what
    comes before. Records are decoded last, so that what is skipped, or another worker's, is not decoded.

    The order of an epoch is a function of the dataset, the slice, the read configuration, the seeds and the epoch's
    number. `iter(ds)` is epoch 0; `repeat()` goes through the epochs, `iterate(epoch=...)` through the one asked for.
    """

    def __init__(
        self,
        operation: Operation,
        steps: tuple[Step, ...],
        *,
        source: Source,
        lookup: Lookup,
        identity: Mapping[str, Any],
    ) -> None:
        """Puts the parts together; `builder.as_dataset` has them.

        Args:
            operation: which records, in which order.
            steps: what is made of each.
            source: the records that all operations are put on.
            lookup: what finds keys in them.
            identity: the arguments of `state.fingerprint`, but for `operations`.
        """
        self._operation = operation
        self._steps = steps
        self._source = source
        self._lookup = lookup
        self._identity = dict(identity)

    def _with(self, operation: Operation | None = None, steps: tuple[Step, ...] | None = None) -> Dataset:
        return Dataset(
            self._operation if operation is None else operation,
            self._steps if steps is None else steps,
            source=self._source,
            lookup=self._lookup,
            identity=self._identity,
        )

    @property
    def features(self) -> Any:
        """The features of the examples as they are decoded, before `map()` and `batch()`; None after `raw()`."""
        step = self._steps[0]
        while isinstance(step, Batch):
            step = step.steps[0]
        return chosen(step.features, step.decoders) if isinstance(step, Decode) else None

    @functools.cached_property
    def function(self) -> Callable[[Any], Any]:
        """What makes an example of a record, or a batch of a list of records."""
        return compose(self._steps)

    @functools.cached_property
    def function_of_many(self) -> Callable[[list[Any]], list[Any]]:
        """What makes a list of examples of a list of records, or of batches."""
        return compose_many(self._steps)

    @functools.cached_property
    def maker(self) -> Maker:
        """What makes examples of blocks of records."""
        return Maker.of(self._steps)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _COMPILED}

    def __repr__(self) -> str:
        what = fingerprint(**self._identity, operations=self._operation.texts)
        done = f" | {what['operations']}" if what["operations"] else ""
        return f"<Dataset {what['dataset']}:{what['version']} {what['slices']}{done}, digest {what['digest'][:16]}>"

    # ------------------------------------------------------------------------------------------------------ operations

    def map(self, function: Callable[[Any], Any]) -> Dataset:
        """Returns the dataset with each example (or batch) replaced by what the function makes of it.

        The function is called once for each example that is yielded, in that order, after all operations on the order
        (also those that are put on later). It is not part of a saved state.
        """
        if not callable(function):
            raise TypeError(f"map() takes a function of an example, not {function!r}.")
        return self._with(steps=(*self._steps, Map(function)))

    def raw(self) -> Dataset:
        """Returns the dataset with records as they are stored, as `bytes`, instead of decoded examples.

        Raises:
            ValueError: examples were mapped or put in batches.
        """
        if len(self._steps) != 1 or isinstance(self._steps[0], (Map, Batch)):
            raise ValueError("raw() comes before map() and batch(): there are no records behind them.")
        return self._with(steps=(Raw(getattr(self._steps[0], "with_ids", False)),))

    @explained("it is shuffle(seed=..., window=...), where tf.data's buffer size is the window")
    def shuffle(self, seed: int, window: int | None = None) -> Dataset:
        """Returns the dataset in an order that depends on the seed and on the epoch.

        Each `for` loop over it is epoch 0, so it has the same order. For an order of its own in each epoch, put
        `repeat()` behind, or loop over `iterate(epoch=...)`.

        Args:
            seed: any integer; not the size of a buffer, as of the shuffle of tf.data: that is the window.
            window: how far examples are moved in the read order, and about how many records are held in memory (as
                they are stored, not decoded). None shuffles the whole range, by random access: that needs the shards'
                indexes (or a walk through each shard) and no memory.

        Raises:
            ValueError: the whole range is endless, because of a `repeat()` before.
        """
        seed = integer("seed", seed)
        if window is not None:
            return self._with(Window(self._operation, seed, integer("window", window, at_least=1)))
        if self._operation.length == ENDLESS:
            raise ValueError(
                "an endless dataset has no whole range to shuffle: shuffle() before repeat(), or a window."
            )
        return self._with(Shuffle(self._operation, seed))

    def repeat(self, epochs: int | None = None) -> Dataset:
        """Returns epoch after epoch of the dataset, each in an order of its own where it is shuffled.

        Args:
            epochs: how many, at least 0; None for ever.
        """
        return self._with(Repeat(self._operation, None if epochs is None else integer("epochs", epochs, at_least=0)))

    def skip(self, count: int) -> Dataset:
        """Returns the dataset without its first `count` examples (or batches), in read order."""
        return self._with(Slice(self._operation, integer("count", count, at_least=0), self._operation.length))

    def take(self, count: int) -> Dataset:
        """Returns the first `count` examples (or batches), in read order; all, where there are fewer."""
        return self._with(Slice(self._operation, 0, integer("count", count, at_least=0)))

    def shard(self, worker_index: int, worker_count: int, *, block: int | None = None) -> Dataset:
        """Returns one worker's part of the examples (or batches).

        The order that all workers share does not depend on how many they are: worker i takes block i of it, then block
        i + worker_count, and so on. Batches that workers make of whole blocks are together the next part of that order
        at each step, whatever their number. A worker reads the bytes of its own examples alone.

        Args:
            worker_index: in [0, worker_count).
            worker_count: how many workers there are.
            block: how many examples in a row are a worker's. By default it is the size of the batches that `batch()`
                makes next, or 1 for batches that were made before; else at most 16, so that there are 64 blocks for
                each worker where that is possible. By default, too, no worker gets more than one example more than
                another: those at the end that are not a whole block for each are dealt out one by one.

        Raises:
            TypeError: a number is not an integer.
            ValueError: the worker does not exist, or the block is less than 1.
        """
        return self._divided(self._share(worker_index, worker_count, block))

    def _divided(self, share: Share) -> Dataset:
        return self._with(Shared(self._operation, share))

    def _share(self, worker_index: int, worker_count: int, block: int | None) -> Share:
        if block is not None:
            return Share(worker_index, worker_count, block=block)
        of_batches = 1 if isinstance(self._steps[0], Batch) else None
        return Share.even(worker_index, worker_count, self._operation.length, of_batches)

    def batch(self, batch_size: int, *, drop_remainder: bool = False, pad: bool = False, fill: Any = None) -> Dataset:
        """Returns batches of examples: arrays with one dimension more, in the structure of the examples.

        The dtypes are those of the features in every batch. A missing value of an optional feature is NaN, the least
        number of a signed integer dtype (-2**31 of int64), the greatest of an unsigned one, False or b''.

        Args:
            batch_size: how many examples a batch has, at least 1.
            drop_remainder: whether a last batch of fewer examples is left out.
            pad: whether arrays of different shapes are filled up with zeros, strings with b''.
            fill: what is put in the place of missing values instead: a value for all features of its kind (numbers,
                bools or text), or a dict from the names of features (`a/b` for b below a); of a class label it
                replaces -1.

        Raises:
            ValueError: fill names a feature that cannot be missing.
            FeatureError: a value of fill does not fit its feature.
        """
        size, drop = integer("batch_size", batch_size, at_least=1), boolean("drop_remainder", drop_remainder)
        step = Batch(self._steps, boolean("pad", pad), fill_of_steps(self._steps, fill))
        operation = self._operation
        if isinstance(operation, Shared) and not isinstance(self._steps[0], Batch):
            operation = operation.in_blocks(size)
        return self._with(Group(operation, size, drop), (step,))

    def padded_batch(self, batch_size: int, *, drop_remainder: bool = False, fill: Any = None) -> Dataset:
        """Returns `batch(batch_size, drop_remainder=drop_remainder, pad=True, fill=fill)`."""
        return self.batch(batch_size, drop_remainder=drop_remainder, pad=True, fill=fill)

    def _with_filler(self, fill: Any) -> Dataset:
        """Returns the dataset with nothing missing in its examples: what frameworks take. See `batch` for `fill`."""
        return self._with(steps=with_filler(self._steps, fill))

    # --------------------------------------------------------------------------------------------------- dataset order

    def __len__(self) -> int:
        """Returns how many examples (or batches) an iteration yields.

        Raises:
            TypeError: they never end.
        """
        if self._operation.length == ENDLESS:
            raise TypeError("an endless dataset has no length; repeat(epochs) with a number of epochs has.")
        return self._operation.length

    def __bool__(self) -> bool:
        return self._operation.length > 0

    def __getitem__(self, index: Any) -> Any:
        """Returns the example at an index in dataset order, or a list of those at a slice, at indices, or of a mask.

        Raises:
            IndexError: there is none, or the mask has another length than the dataset.
            TypeError: the index is none, or the dataset's order was changed.
        """
        source, wanted = self._source, index
        try:
            if type(index) is int and self._operation is source:
                wanted = index if 0 <= index < source.length else index_of(index, source.length)
                return self.function(source.fetch_index(wanted))
            self._check_dataset_order("ds[i]")
            if isinstance(index, slice):
                wanted = np.arange(*index.indices(len(self)), dtype=np.int64)
            elif isinstance(index, (list, tuple, range)) or getattr(index, "ndim", False):  # arrays, also of pandas
                wanted = indices_of(index, source.length)
            else:
                wanted = index_of(index, source.length)
                return self.function(source.fetch_index(wanted))
            return self.function_of_many(source.fetch_indices(wanted))
        except UNDECODED as error:
            Undecoded(source, self._steps).at_indices(error, wanted)
            raise

    def find(self, key: Any) -> int | None:
        """Returns the index in dataset order of the example with a key; None where the slice has none.

        A binary search in the indexes of the shards; `ds[ds.find(key)]` is the example.

        Args:
            key: as the dataset's author gave it.

        Raises:
            MetadataError: the shards have no keys, as those that TFDS wrote.
            InvalidKeyError: the key is of another type than keys are.
            TypeError: the dataset's order was changed.
        """
        self._check_dataset_order("find()")
        return self._lookup.find(key)

    def _check_dataset_order(self, what: str) -> None:
        if self._operation is not self._source:
            raise TypeError(
                f"{what} is in dataset order, which a dataset has only before shuffle(), repeat(), skip(), take(), "
                "shard() and batch(). Use it there; a slice such as split='train[10:20]' has an order of its own."
            )

    # ----------------------------------------------------------------------------------------------------- read order

    def __iter__(self) -> DatasetIterator:
        return self.iterate()

    def iterate(self, *, epoch: int | None = None, state: Mapping[str, Any] | None = None) -> DatasetIterator:
        """Returns an iterator.

        Args:
            epoch: whose order to read in, at least 0; of a dataset that `repeat()` made, the one to begin with. None is
                that of the state, or 0.
            state: of `get_state()`; where to go on.

        Raises:
            StateError: the state is of something else, or of another epoch.
            ValueError: `repeat(epochs)` does not come to this epoch.
        """
        first = 0 if epoch is None else integer("epoch", epoch, at_least=0)
        if state is None:
            return DatasetIterator(self, self._checked_epoch(first))
        iterator = DatasetIterator(self)
        iterator.set_state(state)
        if epoch is not None and first != state["epoch"]:
            raise StateError(f"the state is of epoch {state['epoch']}, but epoch is {first}. Leave one of them out.")
        return iterator

    def _checked_epoch(self, epoch: int) -> int:
        stream = stream_of(self._operation)
        if isinstance(stream, Repeat) and stream.times and epoch >= stream.times:
            raise ValueError(f"epoch must be in [0, {stream.times}), those of repeat({stream.times}), got {epoch}.")
        return epoch
