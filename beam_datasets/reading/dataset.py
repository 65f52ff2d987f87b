"""`Dataset`: the examples of a slice in an order, with operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.advice import (
    names_foreign_arguments,
    warns_of_buffer_size,
)
from beam_datasets.arguments import boolean, checked_function, count_of, index_of, indices_of, integer, seed_number
from beam_datasets.reading.checkpoint import fingerprint
from beam_datasets.reading.elements.error_location import UNDECODED, add_location_of_indices
from beam_datasets.reading.elements.links import Filtered
from beam_datasets.reading.elements.transforms import (
    Batch,
    Map,
    Raw,
    batch_of,
    warn_of_default_fill,
)
from beam_datasets.reading.example_list import ExampleList
from beam_datasets.reading.frameworks import Frameworks
from beam_datasets.reading.index.division import MAX_POSITION, Share
from beam_datasets.reading.index.progress import divide_again, stream_of
from beam_datasets.reading.index.transforms import (
    ENDLESS,
    MAX_ENDLESS,
    Batches,
    Even,
    Operation,
    Repeat,
    Shared,
    Shuffle,
    Slice,
    Window,
    divide,
)
from beam_datasets.reading.iterator import DatasetIterator
from beam_datasets.reading.plan import ReadPlan
from beam_datasets.reading.records.source import Source
from beam_datasets.reading.stream_iterator import StreamIterator
from beam_datasets.reading.streams import Stream

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


_IN_LOADER = " A DataLoader of PyTorch takes ds.as_torch()."


class Dataset(ReadPlan, Frameworks):
    """Examples of a slice of a dataset. It is immutable: each operation returns a new Dataset.

    Iteration is in read order: files are interleaved, as TFDS reads them. Indices are in dataset order, the
    order of the examples in the files: `ds[i]` is example i of the slice. So `take(25)` differs from `train[:25]`.

    Operations compute positions and read nothing, so an iterator starts anywhere without reading earlier examples.
    Records are decoded last: skipped examples, and examples of other workers, are not decoded.

    The order of an epoch is a function of the dataset, the slice, the read configuration, the seeds and the epoch's
    number. `iter(ds)` reads epoch 0, `repeat()` all epochs in turn, and `iterate(epoch=...)` the given one.
    """

    def __repr__(self) -> str:
        """Returns a text such as "<Dataset digits:1.0.0 train[0:90] | shuffle(seed=1), digest 0123456789abcdef>"."""
        parts = fingerprint(**self._identity, operations=self._operation.texts)
        operations = f" | {parts['operations']}" if parts["operations"] else ""
        name = f"{parts['dataset']}:{parts['version']} {parts['slices']}"
        return f"<Dataset {name}{operations}, digest {parts['digest'][:16]}>"

    # ------------------------------------------------------------------------------------------------------ operations

    @names_foreign_arguments("map")
    def map(self, function: Callable[[Any], Any]) -> Dataset:
        """Returns the dataset with a function applied to each example (or batch).

        The function is called once for each yielded example, in order, after all operations on the order, also later
        ones. It is not part of a saved state.
        """
        return self._with(steps=(*self._steps, Map(checked_function("map", function))))

    @names_foreign_arguments("filter")
    def filter(self, function: Callable[[Any], Any]) -> Stream:
        """Returns a `Stream` of the examples (or batches) for which a function returns True.

        The function is called once for each example, in order, and is not part of a saved state. The number of examples
        that pass is unknown, so `len()` of the result is a TypeError.
        """
        return Stream(self, (Filtered(checked_function("filter", function)),))

    @names_foreign_arguments("parallel")
    def parallel(self, *, processes: int | None = None, threads: int | None = None) -> Dataset:
        """Returns the dataset with all examples decoded and mapped by worker processes, or by threads.

        The examples, their order and states do not change, and an error is raised at its example. `map()` functions are
        called ahead, not in order, and once more if they fail. It applies to iteration, and to all steps of the
        dataset, before and after. Without it, images are decoded by threads and all else by the calling thread.

        Args:
            processes: number of processes, for functions in Python. They are spawned when an iterator begins, and end
                with it. The dataset's functions are pickled. Each process is at most two messages ahead, of about
                16 MiB or of one batch.
            threads: number of threads, for functions that release the GIL for most of their time and may be called by
                several threads at once. Each thread is at most about 32 MiB of values ahead.

        Raises:
            TypeError: none or both of the arguments are given, or the number is not an integer.
            ValueError: the number is less than 1.
        """
        if (processes is None) == (threads is None):
            raise TypeError(f"parallel(): expected processes or threads, got processes={processes}, threads={threads}.")
        dataset = self._with()
        dataset._processes = None if processes is None else integer("processes", processes, at_least=1)
        dataset._threads = None if threads is None else integer("threads", threads, at_least=1)
        return dataset

    @names_foreign_arguments("raw")
    def raw(self) -> Dataset:
        """Returns the dataset with the stored records, as `bytes`, instead of decoded examples.

        With `ReadConfig.add_tfds_id` the items are pairs (id, record).

        Raises:
            ValueError: `map()` or `batch()` came before.
        """
        if len(self._steps) != 1 or isinstance(self._steps[0], (Map, Batch)):
            raise ValueError("raw() must come before map() and batch(), whose results are not records.")
        return self._with(steps=(Raw(self._steps[0].with_ids),))

    @warns_of_buffer_size
    @names_foreign_arguments("shuffle")
    def shuffle(self, seed: int, window: int | None = None) -> Dataset:
        """Returns the dataset in an order that depends on the seed and on the epoch.

        Each `for` loop over it reads epoch 0, in the same order. To reshuffle each epoch, call `repeat()` on the
        result, or loop over `iterate(epoch=...)`.

        Args:
            seed: any integer. It is not a buffer size as in tf.data; that is `window`.
            window: maximum distance that examples move in the read order, and approximate number of stored records in
                memory. None shuffles the whole range by random access, which needs the indexes of the shards (or a scan
                of each shard) and no memory.

        Raises:
            ValueError: `window` is None and the dataset is endless, because of a `repeat()` before.
        """
        seed = seed_number(seed)
        if window is not None:
            return self._with(Window(self._operation, seed, integer("window", window, at_least=1)))
        if self._operation.length >= ENDLESS:
            raise ValueError(
                "an endless dataset has no whole range to shuffle: shuffle() before repeat(), or a window."
            )
        return self._with(Shuffle(self._operation, seed))

    @names_foreign_arguments("repeat")
    def repeat(self, epochs: int | None = None) -> Dataset:
        """Returns the dataset repeated for several epochs, each in a different order if it is shuffled.

        Args:
            epochs: number of epochs, at least 0; None for endless repetition.
        """
        if isinstance(epochs, int) and epochs < 0:
            raise ValueError(f"epochs must be at least 0, got {epochs}. repeat() without a number has no end.")
        return self._with(Repeat(self._operation, None if epochs is None else integer("epochs", epochs, at_least=0)))

    @names_foreign_arguments("skip")
    def skip(self, count: int) -> Dataset:
        """Returns the dataset without its first `count` examples (or batches), in read order."""
        return self._with(Slice(self._operation, count_of(count, "skip"), ENDLESS))

    @names_foreign_arguments("take")
    def take(self, count: int) -> Dataset:
        """Returns the dataset of the first `count` examples (or batches), in read order; of all if there are fewer."""
        return self._with(Slice(self._operation, 0, count_of(count, "take")))

    @names_foreign_arguments("shard")
    def shard(
        self, worker_index: int, worker_count: int, *, block: int | None = None, even: str | None = None
    ) -> Dataset:
        """Returns the dataset of one worker's part of the examples (or batches).

        All workers share one order, which does not depend on their number: worker i takes block i of it, then block
        i + worker_count, and so on. If batches are whole blocks, the batches of all workers at a step are together the
        next part of that order, whatever the number of workers. A worker reads only the bytes of its own examples.

        Args:
            worker_index: number of the worker, in [0, worker_count).
            worker_count: number of workers.
            block: number of consecutive examples of a worker. The default is the batch size of a following `batch()`,
                or 1 after `batch()`; otherwise at most 16, with 64 blocks for each worker if possible. With the
                default, workers differ by at most one example: the last incomplete blocks are divided one by one.
            even: gives all workers the same number of examples, in whole blocks if `block` is given or the dataset is
                in batches: "drop" leaves out the last examples of an epoch, "pad" adds its first ones after them. None
                for neither.

        Raises:
            TypeError: a number is not an integer.
            ValueError: the worker does not exist, or the block is less than 1; or `even` is given, an
                operation follows batch(), and the last batch is smaller.
        """
        share = self._share(worker_index, worker_count, block)
        return self._divided(share, self._even(even, share.worker_count, block))

    def _divided(self, share: Share, even: Even | None = None) -> Dataset:
        """Returns the dataset of a worker's share of the examples (or batches)."""
        return self._with(divide(self._operation, share, even))

    def _even(self, mode: str | None, num_ranks: int, block: int | None) -> Even | None:
        """Returns the `Even` for a number of ranks and blocks of `block` items, by default 1; None without a mode."""
        return None if mode is None else Even(mode, num_ranks * (block or 1))

    def _share(self, worker_index: int, worker_count: int, block: int | None, *, is_balanced: bool = False) -> Share:
        """Returns a worker's share of the items.

        With `block`, the share has blocks of this size up to the end. Without it, or if `is_balanced`, the shares of
        two workers differ by at most one position; see `Share.balanced`. For the other arguments, see `shard`.
        """
        if block is not None and not is_balanced:
            return Share(worker_index, worker_count, block=block)
        of_batches = 1 if isinstance(self._steps[0], Batch) else None
        return Share.balanced(worker_index, worker_count, self._operation.length, block or of_batches)

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
    ) -> Dataset:
        """Returns the dataset in batches: arrays with one more dimension, in the structure of the examples.

        All batches have the dtypes of the features. A missing value of an optional feature is NaN, the least
        number of a signed integer dtype (-2**31 of int64), the greatest of an unsigned one, False or b''.

        Args:
            batch_size: number of examples in a batch, at least 1.
            drop_remainder: whether to omit a last batch with fewer examples.
            pad: whether to pad arrays of different shapes with zeros, strings with b''.
            fill: replacement of missing values: a value for all features of its kind (numbers, bools or text), or a
                dict from feature names (`a.b` for b below a) to values. For a class label it replaces -1. It does not
                pad; that is `pad_value`.
            pad_value: value to pad with, for all features of its kind (numbers or text), or a dict from feature names
                to values. It implies `pad`, and so do `pad_side` and `pad_length`.
            pad_side: "right" pads after the items, "left" before them.
            pad_length: length of the first dimension in all batches: a number for all arrays of one dimension, or a
                dict from feature names to numbers. The default is the length of the longest array of a batch.

        Raises:
            ValueError: fill names a feature that cannot be missing, or padding one that does not exist.
            FeatureError: a value of fill does not fit its feature; while reading, an array is longer than `pad_length`,
                or `pad_value` does not fit its dtype.
        """
        size, drop = integer("batch_size", batch_size, at_least=1), boolean("drop_remainder", drop_remainder)
        padding = {"pad_value": pad_value, "pad_side": pad_side, "pad_length": pad_length}
        step = batch_of(self._steps, pad=pad, fill=fill, **padding)
        operation = self._operation
        if isinstance(operation, Shared) and not isinstance(self._steps[0], Batch):
            operation = operation.in_blocks(size)
        return self._with(Batches(operation, size, drop), (step,))

    def _batch_for_framework(self, size: int, fill: Any) -> Dataset:
        """Returns the dataset in batches of `size`, without padding, for a framework; see `_with_filler`.

        A preceding `shard()` keeps its default blocks; with `batch()` they would become the batches.

        Args:
            size: number of examples in a batch.
            fill: replacement of missing values; see `batch`.
        """
        steps = (batch_of(self._steps, pad=False, fill=fill),)
        warn_of_default_fill(steps)
        return self._with(Batches(self._operation, size, False), steps)

    @property
    def _makes_batches(self) -> bool:
        """Whether the items are batches, as far as this is known of the functions of users."""
        return self._steps[0].kind == "batch"

    @property
    def _examples_per_item(self) -> int:
        """Number of examples in an item: the batch size, or 1 without batches."""
        size, operation = 1, self._operation
        while len(operation.children) == 1:
            size *= operation.size if isinstance(operation, Batches) else 1
            operation = operation.child
        return size

    def _lengths_of_parts(self) -> tuple[int, int] | None:
        """Returns the lengths of the longest and the shortest part of `shard()`; None if it was not called.

        They are numbers of examples, also of batches; without those that `drop_remainder`, `skip` and `take` leave out
        after `shard()`. Parts of an endless dataset have one length.
        """
        operation: Operation = self._operation
        later_operations: list[Operation] = []
        while not isinstance(operation, Shared):
            if len(operation.children) != 1:  # the records, or a mixture, whose sources may have been divided
                return None
            later_operations.append(operation)
            operation = operation.child
        if self._operation.length == ENDLESS:
            return ENDLESS, ENDLESS
        shortest = replace(operation.share, worker_index=operation.share.worker_count - 1)
        longest = replace(shortest, worker_index=0)
        later_operations.reverse()
        return (
            _length_after(later_operations, longest.count(operation.child.length)),
            _length_after(later_operations, shortest.count(operation.child.length)),
        )

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
    ) -> Dataset:
        """Returns the dataset in padded batches: `batch` with `pad=True`.

        Args:
            batch_size: number of examples in a batch, at least 1.
            drop_remainder: whether to omit a last batch with fewer examples.
            fill: replacement of missing values; see `batch`.
            pad_value: value to pad with, 0 or b'' by default; see `batch`.
            pad_side: "right" pads after the items, "left" before them.
            pad_length: length of the first dimension in all batches; see `batch`.

        Raises:
            ValueError, FeatureError: as `batch`.
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
        """Returns a stream of padded batches of examples of similar lengths; see `Stream.batch_by_length`.

        Args:
            boundaries: ascending lengths; examples with lengths in [boundaries[i - 1], boundaries[i]) are batched
                together.
            batch_sizes: number of examples in the batches of each range; one more than there are boundaries.
            length: the feature whose length counts, or a function from an example to its length.
            drop_remainder: whether to omit the smaller batches at the end of an epoch.
            pad_to_boundary: whether to pad the feature to the greatest length of its range, for fixed shapes.
            fill: replacement of missing values; see `batch`.
            pad_value: value to pad with, 0 or b'' by default; see `batch`.
            pad_side: "right" pads after the items, "left" before them.
            pad_length: length of the first dimension in all batches; see `batch`.
        """
        return Stream(self).batch_by_length(
            boundaries,
            batch_sizes,
            length=length,
            drop_remainder=drop_remainder,
            pad_to_boundary=pad_to_boundary,
            fill=fill,
            pad_value=pad_value,
            pad_side=pad_side,
            pad_length=pad_length,
        )

    @names_foreign_arguments("pack")
    def pack(
        self, max_length: Any, features: Iterable[str] | None = None, *, num_bins: int = 16, overlong: str = "error"
    ) -> Stream:
        """Returns a stream of arrays of a fixed length, each with several examples; see `Stream.pack`.

        Args:
            max_length: length of the arrays: a number for all, or a dict from feature names to numbers.
            features: names of the features to pack; None if max_length is a dict.
            num_bins: number of open arrays, at least 1. More leave less space unused, and hold more examples in memory.
            overlong: treatment of an example longer than max_length: "error", "truncate" or "drop".
        """
        return Stream(self).pack(max_length, features, num_bins=num_bins, overlong=overlong)

    @names_foreign_arguments("flat_map")
    def flat_map(self, function: Callable[[Any], Iterable[Any]]) -> Stream:
        """Returns a stream of all items that a function makes of each example (or batch); see `Stream.flat_map`."""
        return Stream(self).flat_map(function)

    @names_foreign_arguments("chunk")
    def chunk(self, max_length: int, features: Iterable[str], *, overlap: int = 0) -> Stream:
        """Returns a stream with long examples divided into chunks of at most `max_length` items; see `Stream.chunk`.

        Args:
            max_length: length of all chunks of an example but the last, at least 1.
            features: names of the features to divide, which have the same length in each example.
            overlap: number of items that each chunk has in common with the previous one, less than `max_length`.
        """
        return Stream(self).chunk(max_length, features, overlap=overlap)

    # --------------------------------------------------------------------------------------------------- dataset order

    def __len__(self) -> int:
        """Returns the number of examples (or batches) of an iteration.

        Raises:
            TypeError: the dataset is endless.
        """
        if self._operation.length == ENDLESS:
            raise TypeError(
                f"an endless dataset has no length; repeat(epochs) with a number of epochs has.{_IN_LOADER}"
            )
        return self._operation.length

    def __bool__(self) -> bool:
        return self._operation.length > 0

    def __getitem__(self, index: Any) -> Any:
        """Returns the example at an index in dataset order, or the list of examples at a slice, indices or a mask.

        Raises:
            IndexError: the index is out of range, or the mask and the dataset differ in length.
            TypeError: the index has another type, or an operation has changed the order.
        """
        source_index: Any = index  # an index in [0, length), or an array of them
        source: Any = self._source
        if self._operation is not source:  # checked here, which saves a call for each example
            source = self._in_dataset_order("ds[i]")
        try:
            if type(index) is int:
                source_index = index if 0 <= index < source.length else index_of(index, source.length)
                return self.decode_one(source.fetch_index(source_index))
            if isinstance(index, slice):
                source_index = np.arange(*index.indices(len(self)), dtype=np.int64)
            elif isinstance(index, (list, tuple, range)) or getattr(index, "ndim", False):  # arrays, also of pandas
                source_index = indices_of(index, source.length)
            else:
                source_index = index_of(index, source.length)
                return self.decode_one(source.fetch_index(source_index))
            return ExampleList.of(self.decode_many(source.fetch_indices(source_index)))
        except UNDECODED as error:
            add_location_of_indices(self._steps, error, source, source_index)
            raise

    @names_foreign_arguments("find")
    def find(self, key: Any) -> int | None:
        """Returns the index in dataset order of the example with a key; None if the slice does not contain it.

        A binary search in the indexes of the shards; `ds[ds.find(key)]` is the example.

        Args:
            key: the key that the builder yielded.

        Raises:
            MetadataError: the shards have no keys, because TFDS wrote them.
            InvalidKeyError: the key has a type that keys cannot have.
            TypeError: an operation has changed the order, or the key is a function.
        """
        if callable(key):
            raise TypeError("find() takes a key, not a function; examples that fit one are in ds.filter(function).")
        self._in_dataset_order("find()")
        return self._lookup.find(key) if self._lookup else None

    def _in_dataset_order(self, method: str) -> Source:
        """Returns the source, for a method that needs dataset order.

        Args:
            method: the method, for the error.

        Raises:
            TypeError: an operation has changed the order.
        """
        source = self._source
        if source is not None and self._operation is source:
            return source
        raise TypeError(
            f"{method} needs dataset order, which a dataset has only before shuffle(), repeat(), skip(), take(), "
            "shard(), batch() and mix(). Use it there; here list(ds.take(10)) returns the first items. A slice such as "
            "split='train[10:20]' has an order of its own."
            f"{_IN_LOADER if method == 'ds[i]' else ''}"
        )

    # --------------------------------------------------------------------------------------------------------- tables

    @names_foreign_arguments("to_frame")
    def to_arrow(self, *, label_names: bool = False, binary: Iterable[str] = ()) -> pyarrow.Table:
        """Returns all examples as a `pyarrow.Table`, in read order.

        A column has the Arrow type of its feature, as in an exported Parquet file: text is text, images and sound are
        structs of the stored bytes and a path, sequences are lists, missing values are null. Images are not decoded.

        Args:
            label_names: whether class labels are names instead of indices; a label without a class is null.
            binary: names of features whose strings are bytes, not text.

        Raises:
            BeamDatasetsError: a feature has no column.
            FeatureError: a text is not UTF-8, or a value cannot be decoded.
            MissingDependencyError: pyarrow is not installed.
            TypeError: the dataset is endless, or `map()`, `batch()` or `raw()` came before.
        """
        from beam_datasets.reading.tables import to_arrow

        return to_arrow(self, label_names=boolean("label_names", label_names), binary=binary)

    @names_foreign_arguments("to_frame")
    def to_pandas(
        self, *, label_names: bool = False, binary: Iterable[str] = (), dtype_backend: str | None = None
    ) -> pandas.DataFrame:
        """Returns all examples as a `pandas.DataFrame`, in read order.

        It is the conversion of the Arrow table of `to_arrow`. Lists are arrays and structs are dicts, unless
        `dtype_backend` is "pyarrow".

        Args:
            label_names: whether class labels are names instead of indices; a label without a class is missing.
            binary: names of features whose strings are bytes, not text.
            dtype_backend: dtypes of the columns, as in the functions of pandas that read files. None is NumPy's, so
                that integers with missing values become float64, which rounds those beyond 2**53. "numpy_nullable"
                keeps them in a column of numbers, and "pyarrow" in lists and dicts, too.

        Raises:
            BeamDatasetsError, FeatureError, TypeError: as `to_arrow`.
            MissingDependencyError: pandas or pyarrow is not installed.
            ValueError: dtype_backend has another value.
        """
        from beam_datasets.reading.tables import to_pandas

        names = boolean("label_names", label_names)
        return to_pandas(self, label_names=names, binary=binary, dtype_backend=dtype_backend)

    @names_foreign_arguments("to_frame")
    def to_polars(self, *, label_names: bool = False, binary: Iterable[str] = ()) -> polars.DataFrame:
        """Returns all examples as a `polars.DataFrame`, in read order; see `to_arrow`.

        Args:
            label_names: whether class labels are names instead of indices; a label without a class is null.
            binary: names of features whose strings are bytes, not text.
        """
        from beam_datasets.reading.tables import to_polars

        return to_polars(self, label_names=boolean("label_names", label_names), binary=binary)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the examples as a stream of Arrow's C interface, with which data frame libraries read a dataset.

        So `polars.DataFrame(ds)`, `pyarrow.table(ds)`, and `ds` in a query of DuckDB have the table of `to_arrow()`.
        Examples are read when the library requests them.
        """
        from beam_datasets.reading.tables import reader_of

        return reader_of(self).__arrow_c_stream__(requested_schema)

    # ----------------------------------------------------------------------------------------------------- read order

    def __iter__(self) -> DatasetIterator:
        return self.iterate()

    @names_foreign_arguments("iterate")
    def iterate(self, *, epoch: int | None = None, state: Mapping[str, Any] | None = None) -> DatasetIterator:
        """Returns an iterator.

        Args:
            epoch: epoch to read, at least 0; after `repeat()`, the first epoch. None for the epoch of the state, or 0.
            state: result of `get_state()` of an iterator, from which to continue; None for the beginning of an epoch.

        Raises:
            StateError: the state belongs to another dataset or epoch.
            ValueError: `repeat(epochs)` ends before this epoch, or an epoch before it is endless.
        """
        first = 0 if epoch is None else integer("epoch", epoch, at_least=0, at_most=MAX_POSITION)
        if state is None:
            return DatasetIterator(self, self._checked_epoch(first))
        iterator = DatasetIterator(self)
        iterator._restore_in_epoch(state, None if epoch is None else first)
        return iterator

    def _part_of_worker(self, worker_index: int, worker_count: int, block: int | None) -> Dataset:
        """Returns the dataset of one worker's part of the examples; for the arguments, see `shard`."""
        return self._divided(self._share(worker_index, worker_count, block))

    def _as_epoch(self) -> Dataset:
        """Returns the dataset with all epochs of its `repeat()` as one epoch, which can be repeated."""
        return self.skip(0)

    def _iterate_stream(self, stream: Stream, epoch: int) -> StreamIterator:
        """Returns the iterator of a stream of this dataset, at the beginning of an epoch."""
        return StreamIterator(stream, epoch)

    def _pass_of(self, epoch: int) -> int:
        """Returns the number of the pass that reads an epoch. One pass reads all epochs of `repeat(epochs)`."""
        stream = stream_of(self._operation)
        return epoch // ((isinstance(stream, Repeat) and stream.times) or 1)

    def _in_pass(self, number: int) -> tuple[Dataset, int]:
        """Returns the dataset and the first epoch of a pass of an adapter.

        Passes read successive epochs. So pass 1 over `repeat(3)` reads epochs 3 to 5.

        Raises:
            ValueError: there are too many epochs before.
        """
        stream = stream_of(self._operation)
        if not isinstance(stream, Repeat) or not stream.times or not number:
            return self, number
        if stream.child.length * stream.times * (number + 1) >= MAX_ENDLESS:
            raise ValueError(
                f"epoch must be less than {MAX_ENDLESS // max(1, stream.child.length)}, got {stream.times * number}."
            )
        longer = Repeat(stream.child, stream.times * (number + 1))
        return self._with(divide_again(self._operation, longer)), stream.times * number

    def _checked_epoch(self, epoch: int) -> int:
        """Returns `epoch`, at least 0, after checking that iteration can begin there.

        Raises:
            ValueError: it is not less than the count of `repeat(count)`, the first epoch is endless, or positions would
                not fit 64 bits.
        """
        stream = stream_of(self._operation)
        if isinstance(stream, Repeat) and epoch and stream.child.length == ENDLESS:
            raise ValueError(f"epoch must be 0, got {epoch}: the first epoch of an endless dataset never ends.")
        if isinstance(stream, Repeat) and stream.times and epoch >= stream.times:
            raise ValueError(f"epoch must be in [0, {stream.times}), those of repeat({stream.times}), got {epoch}.")
        if isinstance(stream, Repeat) and epoch * stream.child.length >= MAX_ENDLESS:
            raise ValueError(f"epoch must be at most {MAX_ENDLESS // stream.child.length}, got {epoch}.")
        return epoch


def _length_after(operations: Iterable[Operation], length: int) -> int:
    """Returns the number of examples that operations keep of a part.

    Args:
        operations: the operations, in the order in which they are applied.
        length: number of items of the part before them, each counted as one example.
    """
    num_items = length
    count_examples: Callable[[int], int] = int
    for operation in operations:
        num_items, count_examples = _count_after(operation, num_items, count_examples)
    return count_examples(num_items)


def _count_after(
    operation: Operation, num_items: int, count_examples: Callable[[int], int]
) -> tuple[int, Callable[[int], int]]:
    """Returns the number of items of an operation, and the function that counts the examples in its first n items.

    Args:
        operation: the operation.
        num_items: number of items of its child.
        count_examples: the function that counts the examples in the first n items of its child.
    """
    if isinstance(operation, Batches):
        size = operation.size
        num_batches = num_items // size if operation.drop_remainder else -(-num_items // size)
        return num_batches, lambda n: count_examples(min(n * size, num_items))
    if isinstance(operation, Slice):
        start, stop = (min(position, num_items) for position in operation.requested)
        return max(stop - start, 0), lambda n: count_examples(start + n) - count_examples(start)
    if isinstance(operation, Repeat) and num_items:
        times, num_examples = operation.times, count_examples(num_items)
        total = ENDLESS if times is None else num_items * times
        return total, lambda n: n // num_items * num_examples + count_examples(n % num_items)
    return num_items, count_examples
