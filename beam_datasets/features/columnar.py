"""Columnar decoding of records to examples, lists of examples, columns and batches.

`formats.columns.parse` parses the lists of many records, one column for each group of features. A `View` makes the
values of one feature, or of all numbers of one dtype and shape, from their columns. An error of a list of records or a
batch contains the name of the feature; to find the record, decode the records one by one.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.base import FeatureConnector
from beam_datasets.features.config import StoredLists
from beam_datasets.features.decode import Decoded
from beam_datasets.features.dtypes import num_values
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.image import Image
from beam_datasets.features.image_codec import decode_into
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import stored_list_converter
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import to_object_array
from beam_datasets.features.sequence import Dataset, Sequence, replace_inner_datasets
from beam_datasets.features.stacking import KEEP, stack_decoded
from beam_datasets.features.tensor import Tensor
from beam_datasets.features.trees import iter_nested_features, strip_sequences
from beam_datasets.formats.columns import ANY, KINDS, PADDED, FeatureGroup, parser
from beam_datasets.formats.example import Buffer, parse_spans
from beam_datasets.native import core

if TYPE_CHECKING:
    from beam_datasets.features.leaf import Codec
    from beam_datasets.formats.record_block import RecordBlock

    Location: TypeAlias = "tuple[View, int] | dict[str, Location]"
    ColumnIndices: TypeAlias = "int | dict[str, ColumnIndices]"

Records: TypeAlias = "list[Buffer] | RecordBlock"
"""Serialized tf.train.Examples, in order."""

TaskList: TypeAlias = tuple[list[Callable[[], Any]], Callable[[list[Any]], Any]]
"""Tasks, which threads may run in any order, and the function from the list of their results to the value."""

Fills: TypeAlias = "Mapping[str, Any] | None"
"""Values that replace missing values in batches, by the name of the feature with slashes; None if they stay None."""

_MAX_SMALL_BYTES = 1 << 16  # the greatest size of a decoded value of which many may be held in memory
_TASK_IMAGES, _TASK_BYTES = 32, 8 << 20  # the greatest task: it takes much longer than the wait for the GIL
_PIXEL_DIMS = 4  # of a batch of images
_STORED = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint64))  # dtypes whose arrays are the parsed bytes
_SIZE_OF_COUNT = 8  # bytes
_SIGN = 128  # the bit of the last byte of a negative count
_DTYPES: dict[int, Any] = {KINDS["float"]: np.dtype(np.float32), KINDS["int64"]: np.dtype(np.int64)}


class ColumnarDecoder:
    """Decoder of records to examples, columns or batches of the given features.

    Attributes:
        is_small: whether decoded examples are known to be not much larger than their records, so that many of them may
            be held in memory.
    """

    def __init__(self, feature: FeatureConnector, *, pad: bool = False) -> None:
        """Compiles the decoder.

        Args:
            feature: the features to decode.
            pad: whether arrays of different shapes are padded in batches; see `stack`.
        """
        self._feature = feature
        self._pad = pad
        self._number_views: dict[Any, Numbers] = {}  # by dtype, shape, and whether they are optional
        self._views: list[View] = []
        locations = self._locate(feature, "")
        self._views.sort(key=lambda view: len(view.groups()) != 1)
        groups = [view.groups() for view in self._views]
        self._parse = parser(tuple(group for view_groups in groups for group in view_groups))
        self._starts = list(accumulate(map(len, groups), initial=0))  # index of the first group of each view
        self._num_single_groups = sum(len(view_groups) == 1 for view_groups in groups)
        self._columns = self._parse if self._num_single_groups == len(groups) else self._parse_columns
        self._has_connector_views = any(isinstance(view, ConnectorView) for view in self._views)
        first_indices = accumulate((len(view.paths) for view in self._views), initial=0)
        self._indices = _number_locations(
            locations, {id(view): first for view, first in zip(self._views, first_indices)}
        )
        self._functions = tuple(view.compile_rows() for view in self._views)
        self.is_small = all(view.is_small for view in self._views)

    def of_batches(self, *, pad: bool = False) -> ColumnarDecoder:
        """Returns the decoder whose `batch` is that of the same features: itself, or one that parses lists differently.

        Lists of datasets have no common shape, rows of sequences have; and sequences may be padded while parsing.

        Args:
            pad: whether arrays of different shapes are padded; see `stack`.
        """
        if not pad and not self._has_connector_views:
            return self
        return ColumnarDecoder(replace_inner_datasets(self._feature), pad=pad)

    def one(self) -> Callable[[Buffer], Any]:
        """Returns the function from a record to its example.

        Raises:
            ExampleError: the returned function raises it if the bytes are not a serialized tf.train.Example.
            FeatureError: the returned function raises it if a feature does not decode; the text begins with its name.
        """
        functions, nest, columns = self._functions, self._indices, self._columns

        def example(record: Buffer) -> Any:
            """Returns the example of a record."""
            return _examples(columns([record]), functions, nest, 1)[0]

        return example

    def examples(self, records: Records) -> list[Any]:
        """Returns the examples of a list of records or a RecordBlock; raises the errors of `one`."""
        return _examples(self._columns(records), self._functions, self._indices, len(records)) if len(records) else []

    def columns(self, records: Records) -> Any:
        """Returns the columns of records, in the structure of an example; raises the errors of `one`.

        The column of a feature is an array whose first dimension is the records, a RaggedArray with a row for each
        record, or a list with the value of each record, None if it is missing. The column of a sequence of dicts is a
        dict of columns.

        Args:
            records: a list of records, or a RecordBlock.
        """
        values: list[Any] = []
        for view, column in zip(self._views, self._columns(records)):
            values += view.columns(column, len(records), None)
        return _fill_structure(self._indices, values)

    def batch(self, records: Records, fills: Fills = None) -> Any:
        """Returns the batch of the examples of records, see `stack`; raises the errors of `one` and `stack`.

        The decoder must be one that `of_batches` returns.

        Args:
            records: a list of records, or a RecordBlock, at least one.
            fills: name of a feature with slashes -> the value that replaces missing values; None if they stay None.
        """
        arrays: list[Any] = []
        for view, column in zip(self._views, self._columns(records)):
            arrays += view.batch(column, len(records), self._pad, fills)
        return _fill_structure(self._indices, arrays)

    def batch_in_parts(self, records: Records, fills: Fills = None) -> TaskList:
        """Returns tasks that decode the records, and the function from their results to the batch.

        The batch equals `batch(records, fills)`.
        """
        columns = zip(self._views, self._columns(records))
        parts = [view.batch_in_parts(column, len(records), self._pad, fills) for view, column in columns]

        def finish(results: list[Any]) -> Any:
            """Returns the batch from the results of all tasks, in order."""
            remaining_results = iter(results)
            arrays = [
                array
                for tasks, finish_view in parts
                for array in finish_view(list(islice(remaining_results, len(tasks))))
            ]
            return _fill_structure(self._indices, arrays)

        return [task for tasks, _ in parts for task in tasks], finish

    def _parse_columns(self, records: Records) -> tuple[Any, ...]:
        """Returns the column of each view, in the order of the views; `_columns` is this, or the parser itself.

        The column of a view with several groups, or none, is a tuple (records, column of each group).
        """
        group_columns = self._parse(records)
        num_single = self._num_single_groups
        multiple = [(records, group_columns[start:stop]) for start, stop in pairwise(self._starts[num_single:])]
        return (*group_columns[:num_single], *multiple)

    # -------------------------------------------------------------------------------------------------------- the plan

    def _locate(self, feature: FeatureConnector, name: str) -> Location:
        """Adds the views of a feature, and returns where its values are: (view, index of the feature in the view).

        A dict of features, or a sequence of such a dict, gives a dict of such locations.

        Args:
            feature: a connector.
            name: its name in the record; '' for the top.
        """
        if isinstance(feature, FeaturesDict) and type(feature).decoder is FeaturesDict.decoder:
            return {key: self._locate(child, join(name, key)) for key, child in feature.items()}
        if _is_plain_sequence(feature):
            item: Any = feature.feature
            if isinstance(item, FeaturesDict) and type(item).decoder is FeaturesDict.decoder:
                return self._locate(item.with_features({k: Sequence(v) for k, v in item.items()}), name)
        view = self._build_view(feature, name) or _build_connector_view(feature, name)
        if isinstance(view, Numbers):
            shared_view = self._number_views.setdefault((view.dtype, view.shape, view.is_optional), view)
            if shared_view is not view:
                shared_view.paths.append(name)
                return shared_view, len(shared_view.paths) - 1
        self._views.append(view)
        return view, 0

    def _build_view(self, feature: FeatureConnector, name: str) -> View | None:
        """Returns the view of a leaf or a sequence of leaves; None if the connector must decode the lists itself.

        Args:
            feature: a connector that is not a dict.
            name: its name in the record.
        """
        inner = strip_sequences(feature)
        if isinstance(inner, StoredLists):
            return StoredListsView([name], kinds={}, decode=inner.stored_decoder(name))
        if _is_one_list(feature):
            return _build_leaf_view(feature, name)
        if _is_plain_sequence(feature) and _is_one_list(feature.feature):
            codec: Codec = feature.feature.codec(name)
            if codec.kind != "bytes" and codec.size:
                count = PADDED if self._pad else ANY
                common: Any = {"kind": KINDS[codec.kind], "is_optional": True, "length": feature.length}
                return Sequences([name], count=count, codec=codec, **common)
        return None


def _is_one_list(feature: FeatureConnector) -> TypeGuard[Leaf]:
    """Returns whether a feature is stored as one list that its codec decodes."""
    kind: Any = type(feature)
    is_plain = isinstance(feature, Leaf) and kind.decoder in (Leaf.decoder, Tensor.decoder)
    return is_plain and not (isinstance(feature, Tensor) and feature.is_dynamic)


def _is_plain_sequence(feature: FeatureConnector) -> TypeGuard[Sequence]:
    """Returns whether a feature is a sequence without a decoder of its own, unlike Video and Dataset."""
    return isinstance(feature, Sequence) and type(feature).decoder is Sequence.decoder


def _build_connector_view(feature: FeatureConnector, name: str) -> ConnectorView:
    """Returns the view of a feature whose connector decodes its lists; `name` is its name in the record."""
    lists = {key: kind for key, kind in feature.lists(name) if kind is not None}
    item = feature.feature if _is_plain_sequence(feature) else feature
    is_small = _is_one_list(item) and item.codec(name).from_bytes in (None, bytes)
    return ConnectorView([name], kinds=lists, decode=feature.decoder(name), is_small=is_small)


def _build_leaf_view(feature: Leaf, name: str) -> View | None:
    """Returns the view of a leaf that is stored as one list; None if its connector must decode the list.

    A view exists for one value of bytes, and for a fixed count of numbers.

    Args:
        feature: the leaf.
        name: its name in the record.
    """
    codec: Codec = feature.codec(name)
    common: Any = {"kind": KINDS[codec.kind], "is_optional": feature.is_optional}
    if codec.from_bytes is not None:
        common["is_optional"] |= feature.may_be_missing
        common["is_small"] = codec.from_bytes is bytes or codec.is_joined or _has_small_shape(feature)
        if isinstance(feature, Image) and feature.has_plain_form:
            return Images([name], unpack=codec.from_bytes, shape=feature.shape, dtype=feature.dtype, **common)
        if codec.is_joined:
            return Arrays([name], unpack=codec.from_bytes, unpack_many=codec.unpack_many, **common)
        return BytesView([name], unpack=codec.from_bytes, **common)
    if codec.numbers is None or not codec.size:
        return None
    dtype, shape = codec.numbers
    return Numbers([name], count=codec.size, dtype=dtype, shape=shape, **common)


def _has_small_shape(feature: FeatureConnector) -> bool:
    """Returns whether a feature is an Image or a Tensor whose shape fixes a small size of decoded arrays."""
    if not isinstance(feature, (Image, Tensor)) or feature.shape is None:
        return False
    count = num_values(feature.shape)
    return count is not None and count * int(feature.dtype.itemsize) <= _MAX_SMALL_BYTES


def has_images(feature: FeatureConnector) -> bool:
    """Returns whether decoding the features decodes images, and calls no function of a user.

    False if there are nested datasets, which are decoded on access.
    """
    children = [child for _, _, child in iter_nested_features(feature)]
    if any(isinstance(child, Dataset) for child in children):
        return False
    kinds = [type(strip_sequences(child)) for child in children]
    package = __name__.partition(".")[0]
    is_of_package = all(kind.__module__.partition(".")[0] == package and kind is not Decoded for kind in kinds)
    return is_of_package and any(issubclass(kind, Image) for kind in kinds)


def _number_locations(location: Location, first_indices: dict[int, int]) -> ColumnIndices:
    """Returns the locations of features as indices into the concatenated features of all views.

    Args:
        location: (view, index of the feature in the view), or a nested dict of them.
        first_indices: by `id` of the view, the index of its first feature.
    """
    if isinstance(location, tuple):
        return first_indices[id(location[0])] + location[1]
    return {key: _number_locations(child, first_indices) for key, child in location.items()}


def _fill_structure(nest: ColumnIndices, values: list[Any]) -> Any:
    """Returns a nested dict of indices with `values[index]` in place of each index.

    >>> _fill_structure({"a": 1, "b": {"c": 0}}, ["x", "y"])
    {'a': 'y', 'b': {'c': 'x'}}
    """
    if isinstance(nest, int):
        return values[nest]
    return {
        key: values[child] if isinstance(child, int) else _fill_structure(child, values)  # half as many calls
        for key, child in nest.items()
    }


def _examples_in_python(columns: tuple[Any, ...], functions: tuple[Any, ...], nest: ColumnIndices, n: int) -> list[Any]:
    """Returns the n examples of n records.

    Args:
        columns: the column of each view.
        functions: for each view the function from its column to a list of values: n of its first feature, then n
            of the second, and so on; None if the column is this list.
        nest: the structure of an example, with the index of the feature in place of each value.
        n: the number of records.
    """
    values: list[Any] = []
    for column, rows in zip(columns, functions):
        values.extend(column if rows is None else rows(column))
    return [_fill_structure(nest, values[i::n]) for i in range(n)]


_examples: Callable[..., list[Any]] = _examples_in_python if core is None else core.examples


# -------------------------------------------------------------------------------------------------------------- views


@dataclass(kw_only=True)
class View(abc.ABC):
    """Decoder of the column of one feature, or of several features of one kind.

    Attributes:
        paths: the names of the features, with slashes; also their names in the record, unless a feature has several
            lists.
        kind, count, is_optional: the fields `kind`, `num_values` and `is_optional` of their
            `formats.columns.FeatureGroup`.
        is_small: whether a value is known to be not much larger than its record, or than a few kilobytes.
    """

    paths: list[str] = field(kw_only=False)
    kind: int = 0
    count: int = 1
    is_optional: bool = False
    is_small: bool = True

    def groups(self) -> list[FeatureGroup]:
        """Returns the groups of lists that `formats.columns.parse` must parse for this view."""
        return [FeatureGroup(self.kind, self.count, self.is_optional, tuple(path.encode() for path in self.paths))]

    @abc.abstractmethod
    def rows(self, column: Any) -> list[Any]:
        """Returns the values of n records: n of the first feature, then n of the second, and so on.

        For features a and b and two records it is [a of 0, a of 1, b of 0, b of 1].

        Args:
            column: the column of the view's group, in the form that `formats.columns.parse` returns for its `count`. A
                view with several groups gets a tuple (records, columns of the groups) instead.
        """

    def compile_rows(self) -> Callable[[Any], Any] | None:
        """Returns `rows`, or a faster function from a column to the same values; None if the column is their list."""
        return self.rows

    def columns(self, column: Any, n: int, fills: Fills) -> list[Any]:
        """Returns for each feature an array whose first dimension is the records, a RaggedArray, or a list of values.

        Args:
            column: the column of n records; see `rows`.
            n: the number of records.
            fills: the values that replace missing values.
        """
        values = self.rows(column)
        return [values[start : start + n] for start in range(0, len(values), n)]

    def batch(self, column: Any, n: int, pad: bool, fills: Fills) -> list[Any]:
        """Returns the batch of each feature: an array whose first dimension is the records; see `columns` and `stack`.

        Args:
            column: the column of n records; see `rows`.
            n: the number of records.
            pad: whether arrays of different shapes are padded; see `stack`.
            fills: the values that replace missing values.
        """
        return [
            values
            if isinstance(values, np.ndarray)
            else stack_decoded(values, pad=pad, path=path, fill=KEEP if fills is None else fills.get(path))
            for path, values in zip(self.paths, self.columns(column, n, fills))
        ]

    def batch_in_parts(self, column: Any, n: int, pad: bool, fills: Fills) -> TaskList:
        """Divides `batch` into tasks for threads: returns the tasks, and the function from their results to the batch.

        For the arguments and the batch, see `batch`. If values are small, there are no tasks, and the function called
        with [] makes the whole batch.
        """
        if self.is_small:
            return [], lambda _: self.batch(column, n, pad, fills)
        return [lambda: self.batch(column, n, pad, fills)], lambda results: results[0]


@dataclass(kw_only=True)
class Numbers(View):
    """Single numbers, or arrays of a fixed shape, of one dtype."""

    dtype: np.dtype[Any]
    shape: Any

    def __post_init__(self) -> None:
        self._convert = stored_list_converter(self.dtype, "")
        self._size = math.prod(self.shape)

    def rows(self, column: Any) -> list[Any]:
        """Returns NumPy scalars, or arrays that share no memory; None for missing values."""
        data, missing = column if self.is_optional else (column, ())
        numbers = self._convert_numbers(data)
        values = _copy_rows(numbers.reshape(-1, *self.shape)) if self.shape else list(numbers)
        n = len(values) // len(self.paths)
        for feature, record in missing:
            values[feature * n + record] = None
        return values

    def compile_rows(self) -> Callable[[Any], Any]:
        """Returns `rows`, or a faster function if no conversion is needed.

        The faster one returns an array, not a list, if the values are scalars.
        """
        if self.is_optional or self.dtype not in _STORED:
            return self.rows
        if not self.shape:
            return functools.partial(np.frombuffer, dtype=self.dtype)
        dtype, shape, size = self.dtype, self.shape, self._size

        def rows(column: bytearray) -> list[Any]:
            """Returns the arrays of all records from the bytes of their numbers."""
            numbers = np.frombuffer(column, dtype)
            if len(numbers) == size:  # of one record
                return [numbers.reshape(shape)]
            return [row.copy() for row in numbers.reshape(-1, *shape)]

        return rows

    def columns(self, column: Any, n: int, fills: Fills) -> list[Any]:
        """Returns for each feature an array of shape (n, *shape), a part of one array; a list if values are missing.

        Missing values are replaced by `fills`, unless it is None.
        """
        data, missing = column if self.is_optional else (column, ())
        if missing and fills is None:
            return super().columns(column, n, fills)
        numbers = self._convert_numbers(data).reshape(len(self.paths), n, *self.shape)
        for feature, record in missing:
            numbers[feature, record] = (fills or {})[self.paths[feature]]
        return list(numbers)

    def _convert_numbers(self, data: bytearray) -> NDArray[Any]:
        """Returns a flat array of the stored numbers, converted to the view's dtype.

        Raises:
            FeatureValueError: a number does not fit the dtype; the message begins with the path of its feature.
        """
        numbers = np.frombuffer(data, _DTYPES[self.kind])
        try:
            return self._convert(numbers)
        except FeatureValueError:
            for path, row in zip(self.paths, numbers.reshape(len(self.paths), -1)):
                stored_list_converter(self.dtype, path)(row)  # raises the error with the name of the feature
            raise


@dataclass(kw_only=True)
class Sequences(View):
    """Sequences of numbers or of arrays of a fixed shape.

    Attributes:
        codec: the codec of an item.
        length: the number of items, if it is fixed; None for any number.
    """

    codec: Codec
    length: int | None

    def __post_init__(self) -> None:
        dtype, shape = self.codec.numbers or (None, ())
        self._plain = dtype if dtype in _STORED and shape == () else None

    def rows(self, column: Any) -> list[Any]:
        """Returns a list with the array of the items of each record; the arrays share no memory.

        Args:
            column: a tuple (the bytes of all numbers, the bytes of one int64 for each record: its number of numbers,
                -1 if the record lacks the feature); see `ANY` of `formats.columns.parse`.

        Raises:
            FeatureValueError: a record has another number of items than `length`, or an incomplete item.
        """
        data, counts = column
        if len(counts) == _SIZE_OF_COUNT:
            items = self._unpack_items(data)
            if self.length is not None and len(items) != self.length:
                raise _length_error(self.paths[0], len(items), self.length)
            return [items]
        ends, items = self._count_items(column).cumsum().tolist(), self._unpack_items(data)
        return [items[start:stop].copy() for start, stop in zip([0, *ends], ends)]

    def compile_rows(self) -> Callable[[Any], Any]:
        """Returns `rows`, or the same function of a column made faster for a column of one record.

        The faster function is returned if the numbers need no conversion and their count may vary.
        """
        if self._plain is None or self.length is not None:
            return self.rows
        all_rows, dtype = self.rows, self._plain

        def rows(column: Any) -> list[Any]:
            """Returns the array of each record, without a copy for a column of one record."""
            data, counts = column
            return [np.frombuffer(data, dtype)] if data and len(counts) == _SIZE_OF_COUNT else all_rows(column)

        return rows

    def columns(self, column: Any, n: int, fills: Fills) -> list[Any]:
        """Returns a list of one RaggedArray of n rows. For the arguments, see `View.columns`."""
        return [RaggedArray(self._unpack_items(column[0]), (self._count_items(column),))]

    def _unpack_items(self, data: bytearray) -> NDArray[Any]:
        """Returns an array of the items of all records, one after the other, from the bytes of their numbers."""
        if self._plain is not None and data:
            return np.frombuffer(data, self._plain)
        return self.codec.unpack_many(_parse_numbers(data, self.kind))  # type: ignore[no-any-return]

    def batch(self, column: Any, n: int, pad: bool, fills: Fills) -> list[Any]:
        """Returns a list of one array, of shape (n, items, ...), padded with zeros if `pad` is True.

        For the arguments, see `View.batch`.

        Raises:
            FeatureValueError: the sequences have different numbers of items, and `pad` is False.
        """
        lengths = self._count_items(column)
        if not pad and lengths.min() != lengths.max():
            stack_decoded(self.rows(column), pad=pad, path=self.paths[0], fill=KEEP)  # raises the error
        items = self._unpack_items(column[0])
        return [items.reshape(n, int(lengths.max()), *items.shape[1:])]

    def _count_items(self, column: Any) -> NDArray[np.int64]:
        """Returns the number of items of each record, as an array of shape (n,).

        Raises:
            FeatureValueError: a record has another number of items than `length`, or an incomplete item.
        """
        counts, size = np.frombuffer(column[1], np.int64).clip(0), self.codec.size or 1
        lengths, remainders = (counts, None) if size == 1 else np.divmod(counts, size)
        if remainders is not None and remainders.any():
            numbers = _parse_numbers(column[0], self.kind)
            self.codec.unpack_many(numbers[: counts[remainders > 0][0]])  # raises the error
        if self.length is not None and (lengths != self.length).any():
            raise _length_error(self.paths[0], int(lengths[lengths != self.length][0]), self.length)
        return lengths


@dataclass(kw_only=True)
class BytesView(View):
    """Values that are stored as one value of bytes each: texts, files, compressed arrays.

    Attributes:
        unpack: the function from the bytes to the value; `bytes` itself if the bytes are the value.
    """

    unpack: Callable[[bytes], Any]

    def rows(self, column: Any) -> list[Any]:
        """Returns the results of `unpack` for each value; None for missing values."""
        unpack = self.unpack
        return column if unpack is bytes else [None if data is None else unpack(data) for data in column]

    def compile_rows(self) -> Callable[[Any], Any] | None:
        """Returns None if the bytes are the values, so that the column is the list of values; otherwise `rows`."""
        return None if self.unpack is bytes else self.rows

    def batch(self, column: Any, n: int, pad: bool, fills: Fills) -> list[Any]:
        """Returns a list of one array of the values; of bytes, one of objects in which `fills` replaces missing ones.

        For the arguments, see `View.batch`.
        """
        if self.unpack is not bytes:
            return super().batch(column, n, pad, fills)
        fill = None if fills is None else fills.get(self.paths[0])
        needs_no_fill = fill is None or all(column)  # neither missing nor empty; `all` is faster than a loop
        return [to_object_array(column if needs_no_fill else [fill if text is None else text for text in column])]


@dataclass(kw_only=True)
class Arrays(BytesView):
    """Arrays or single numbers that are stored as their bytes without compression, such as float64.

    Attributes:
        unpack_many: the function from the bytes of n values, none of them missing, to an array of shape (n, ...), or to
            a list of n arrays if they have different shapes.
    """

    unpack_many: Callable[[list[bytes]], Any]

    def rows(self, column: Any) -> list[Any]:
        """Returns NumPy scalars, or arrays that share no memory; None for missing values."""
        if len(column) == 1:
            return super().rows(column)
        stored = [data for data in column if data is not None] if None in column else column
        arrays = self.unpack_many(stored)
        values: list[Any] = list(arrays) if isinstance(arrays, list) or arrays.ndim == 1 else _copy_rows(arrays)
        if len(stored) == len(column):
            return values
        remaining_values = iter(values)
        return [None if data is None else next(remaining_values) for data in column]

    def columns(self, column: Any, n: int, fills: Fills) -> list[Any]:
        """Returns a list of one array, of shape (n, ...); of one list if values are missing or have different shapes.

        For the arguments, see `View.columns`.
        """
        return super().columns(column, n, fills) if None in column else [self.unpack_many(column)]


@dataclass(kw_only=True)
class Images(BytesView):
    """Images whose files can be decoded directly into an array of their dtype.

    Attributes:
        shape: (height, width, channels); height and width may be None.
        dtype: the dtype of pixels.
    """

    shape: Any
    dtype: np.dtype[Any]

    def columns(self, column: Any, n: int, fills: Fills) -> list[Any]:
        """Returns an array of shape (n, height, width, channels); a list of n arrays if the feature fixes no shape.

        For the arguments, see `View.columns`.
        """
        return self.batch(column, n, False, fills) if num_values(self.shape) else super().columns(column, n, fills)

    def batch(self, column: Any, n: int, pad: bool, fills: Fills) -> list[Any]:
        """Returns a list of one array of pixels, (n, height, width, channels). For the arguments, see `View.batch`."""
        tasks, finish = self.batch_in_parts(column, n, pad, fills)
        return finish([task() for task in tasks])  # type: ignore[no-any-return]

    def batch_in_parts(self, column: Any, n: int, pad: bool, fills: Fills) -> TaskList:
        """Returns tasks that each decode a few files into the batch, and the function that returns the batch.

        If the feature fixes no shape, the batch gets the shape of the first image; images of other shapes are added by
        the last step.

        For the arguments, see `View.batch`.
        """
        first_image = None if num_values(self.shape) else self.unpack(column[0])
        shape = self.shape if first_image is None else first_image.shape
        pixels = np.empty((n, *shape), self.dtype)
        if first_image is not None:
            pixels[0] = first_image
        targets = pixels[..., 0] if pixels.shape[-1] == 1 and pixels.ndim == _PIXEL_DIMS else pixels
        others: dict[int, NDArray[Any]] = {}  # images of other shapes

        def decode(start: int) -> None:
            """Decodes the images [start, start + size) into the batch."""
            for i in range(start, min(start + size, n)):
                if decode_into(column[i], targets[i]):
                    continue
                image = self.unpack(column[i])
                if image.shape == shape:
                    pixels[i] = image
                else:
                    others[i] = image

        def finish(_: list[Any]) -> list[Any]:
            """Returns the batch, after adding images of other shapes."""
            if not others:
                return [pixels]
            images = [others.get(i, image) for i, image in enumerate(pixels)]
            fill = KEEP if fills is None else fills.get(self.paths[0])
            return [stack_decoded(images, pad=pad, path=self.paths[0], fill=fill)]

        size = max(1, min(_TASK_IMAGES, _TASK_BYTES * n // max(pixels.nbytes, 1)))
        return [functools.partial(decode, start) for start in range(int(first_image is not None), n, size)], finish


@dataclass(kw_only=True)
class ConnectorView(View):
    """A feature whose connector decodes its lists: nested sequences, datasets, texts, tensors of unknown lengths.

    Attributes:
        kinds: the kind ('bytes', 'float' or 'int64') of each list, by its name in the record.
        decode: the function from the lists of a record, by name, to the value.
    """

    kinds: dict[str, Any]
    decode: Callable[..., Any]
    is_small: bool = False

    def groups(self) -> list[FeatureGroup]:
        """Returns a group of its own for each list of the feature."""
        return [FeatureGroup(KINDS[kind], ANY, True, (name.encode(),)) for name, kind in self.kinds.items()]

    def rows(self, column: Any) -> list[Any]:
        """Returns the value of each record, which the connector decodes from its lists."""
        names, kinds = list(self.kinds), [KINDS[kind] for kind in self.kinds.values()]
        if len(names) == 1:
            return [self.decode({names[0]: values}) for values in _split_lists(column, kinds[0])]
        records, columns = column
        lists = [_split_lists(list_column, kind) for list_column, kind in zip(columns, kinds)]
        return [self.decode(dict(zip(names, [values[i] for values in lists]))) for i in range(len(records))]


@dataclass(kw_only=True)
class StoredListsView(ConnectorView):
    """A feature of an unknown class, whose values are dicts of the undecoded lists of the record."""

    def rows(self, column: Any) -> list[Any]:
        """Returns for each record the dict of its lists of the feature, by their names in the record."""
        return [self.decode(*parse_spans(record)) for record in column[0]]


def _length_error(path: str, num_items: int, length: int | None) -> FeatureValueError:
    """Returns the error of a sequence with another number of items than the fixed length of its feature.

    Args:
        path: name of the feature, with slashes.
        num_items: number of items in the record.
        length: length of the feature.
    """
    return FeatureValueError(f"the record has {num_items} items; the feature has length={length}", feature=path)


def _split_lists(column: Any, kind: int) -> list[Any]:
    """Returns the list of each record from a column with any number of values; None for missing lists.

    Args:
        column: (values of all records in order, bytes of n int64: the number of values of each record, -1 if missing).
            The values are a list of bytes, or the bytes of float32 or int64.
        kind: the kind of the lists, one of `KINDS`.

    >>> _split_lists(([b"a", b"b"], np.array([2, -1]).tobytes()), KINDS["bytes"])
    [[b'a', b'b'], None]
    """
    stored, counts = column
    is_bytes = kind == KINDS["bytes"]
    all_values = stored if is_bytes else _parse_numbers(stored, kind)
    if len(counts) == _SIZE_OF_COUNT:
        return [all_values] if counts[-1] < _SIGN else [None]
    lengths = np.frombuffer(counts, np.int64)
    ends = lengths.clip(0).cumsum().tolist()
    lists: list[Any] = [all_values[start:stop] for start, stop in zip([0, *ends], ends)]
    lists = lists if is_bytes else [numbers.copy() for numbers in lists]
    for i in np.flatnonzero(lengths < 0).tolist():
        lists[i] = None
    return lists


def _parse_numbers(data: bytearray, kind: int) -> NDArray[Any]:
    """Returns the flat array of parsed numbers, of float32 or int64 by their kind, one of `KINDS`."""
    return np.frombuffer(data, _DTYPES[kind]) if data else np.empty(0, _DTYPES[kind])


def _copy_rows(array: NDArray[Any]) -> list[Any]:
    """Returns the rows of an array as separate arrays, so that one row does not keep the others in memory.

    >>> _copy_rows(np.array([[1, 2], [3, 4]]))
    [array([1, 2]), array([3, 4])]
    """
    return [array[0]] if len(array) == 1 else [row.copy() for row in array]
