"""Records decoded by columns: single examples, lists of examples and batches are views of `formats.columns.parse`.

A view makes the values of one feature, or of all single numbers of a dtype, from their column. An error of a list or a
batch names the feature; decoding the records one by one finds the record.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.base import FeatureConnector, num_values
from beam_datasets.features.config import StoredLists
from beam_datasets.features.decode import Decoded
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.image import Image
from beam_datasets.features.image_codec import decode_into
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import stored_list_converter
from beam_datasets.features.raw import to_object_array
from beam_datasets.features.sequence import (
    Dataset,
    Sequence,
    iter_nested_features,
    replace_inner_datasets,
    strip_sequences,
)
from beam_datasets.features.stacking import KEEP, stack_decoded, subtree
from beam_datasets.features.tensor import Tensor
from beam_datasets.formats.columns import ANY, KINDS, PADDED, FeatureGroup, parser
from beam_datasets.formats.example import Buffer, parse_spans
from beam_datasets.native import core

if TYPE_CHECKING:
    from beam_datasets.features.leaf import Codec

    Location: TypeAlias = "tuple[View, int] | dict[str, Location]"
    ColumnIndices: TypeAlias = "int | dict[str, ColumnIndices]"

TaskList: TypeAlias = tuple[list[Callable[[], Any]], Callable[[list[Any]], Any]]
"""Tasks, for any threads in any order, and the function from what they returned to the value."""

_LARGE = 1 << 16  # bytes of a decoded value of which not many are held
_TASK_IMAGES, _TASK_BYTES = 32, 8 << 20  # decoded by a thread at a time, which is much longer than it waits for the GIL
_PIXEL_DIMS = 4  # of a batch of images
_STORED = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint64))  # dtypes whose arrays are the parsed bytes
_SIZE_OF_COUNT = 8  # bytes
_SIGN = 128  # the bit of the last byte of a negative count
_DTYPES: dict[int, Any] = {KINDS["float"]: np.dtype(np.float32), KINDS["int64"]: np.dtype(np.int64)}


class ColumnarDecoder:
    """Decodes records of some features.

    Attributes:
        is_small: whether decoded examples are known to be not much larger than records, so that many may be held.
    """

    def __init__(self, feature: FeatureConnector, *, pad: bool = False, fill: Any = KEEP, batch: bool = False) -> None:
        """Makes the plan.

        Args:
            feature: what to decode of a record.
            pad: of batches, see `stack`.
            fill: of batches, see `stack`.
            batch: whether to make batches, not examples.
        """
        self._pad = batch and pad
        self._number_views: dict[Any, Numbers] = {}  # by dtype, shape, and whether they are optional
        self._views: list[View] = []
        self._fills: dict[str, Any] = {}  # by path; empty if None stays
        if batch:  # lists of datasets have no common shape, rows of sequences have
            feature = replace_inner_datasets(feature)
        locations = self._locate(feature, "", fill)
        self._views.sort(key=lambda view: len(view.groups()) != 1)
        groups = [view.groups() for view in self._views]
        self._parse = parser(tuple(group for view_groups in groups for group in view_groups))
        self._starts = list(accumulate(map(len, groups), initial=0))  # of the groups of each view
        self._num_single_groups = sum(len(view_groups) == 1 for view_groups in groups)
        first_indices = accumulate((len(view.paths) for view in self._views), initial=0)
        self._indices = _number_locations(
            locations, {id(view): first for view, first in zip(self._views, first_indices)}
        )
        self._makers = tuple(view.maker() for view in self._views)
        self.is_small = all(view.is_small for view in self._views)

    def one(self) -> Callable[[Buffer], Any]:
        """Returns the function from a record to its example.

        Raises:
            ExampleError: the returned function raises it if the bytes are not a serialized tf.train.Example.
            FeatureError: the same if a feature does not decode; the message begins with its path.
        """
        makers, nest = self._makers, self._indices
        columns = self._parse if self._num_single_groups == len(self._views) else self._columns

        def example(record: Buffer) -> Any:
            return _examples(columns([record]), makers, nest, 1)[0]

        return example

    def examples(self, records: Any) -> list[Any]:
        """Returns the examples of a list of records, or of a RecordBlock; raises as `one` does."""
        return _examples(self._columns(records), self._makers, self._indices, len(records)) if len(records) else []

    def columns(self, records: Any) -> Any:
        """Returns the values by feature, in the structure of an example; raises as `one` does.

        The values of a feature are an array with the records as first dimension, or a list with a value, or None, for
        each record. A sequence of dicts is a dict of sequences.
        """
        values: list[Any] = []
        for view, column in zip(self._views, self._columns(records)):
            values += view.columns(column, len(records), self._fills)
        return _fill_structure(self._indices, values)

    def batch(self, records: Any) -> Any:
        """Returns the batch of the examples, see `stack`; raises as `one` and `stack` do."""
        arrays: list[Any] = []
        for view, column in zip(self._views, self._columns(records)):
            arrays += view.batch(column, len(records), self._pad, self._fills)
        return _fill_structure(self._indices, arrays)

    def batch_in_parts(self, records: Any) -> TaskList:
        """Returns `batch(records)` in parts."""
        columns = zip(self._views, self._columns(records))
        parts = [view.batch_in_parts(column, len(records), self._pad, self._fills) for view, column in columns]

        def finish(results: list[Any]) -> Any:
            rest = iter(results)
            arrays = [array for tasks, then in parts for array in then(list(islice(rest, len(tasks))))]
            return _fill_structure(self._indices, arrays)

        return [task for tasks, _ in parts for task in tasks], finish

    def _columns(self, records: Any) -> tuple[Any, ...]:
        """Returns the column of each view; the records, and a column for each list, if it has not just one."""
        group_columns = self._parse(records)
        plain = self._num_single_groups
        parts = [(records, group_columns[start:stop]) for start, stop in pairwise(self._starts[plain:])]
        return (*group_columns[:plain], *parts)

    # -------------------------------------------------------------------------------------------------------- the plan

    def _locate(self, feature: Any, name: str, fill: Any) -> Location:
        """Returns where the values of a feature are found: which view, and which of its features."""
        if isinstance(feature, FeaturesDict) and type(feature).decoder is FeaturesDict.decoder:
            return {key: self._locate(child, join(name, key), subtree(fill, key)) for key, child in feature.items()}
        if _is_plain_sequence(feature):
            item: Any = feature.feature
            if isinstance(item, FeaturesDict) and type(item).decoder is FeaturesDict.decoder:
                return self._locate(item.with_features({k: Sequence(v) for k, v in item.items()}), name, fill)
        if fill is not KEEP:
            self._fills[name] = fill
        view = self._build_view(feature, name) or _build_connector_view(feature, name)
        if isinstance(view, Numbers):
            same = self._number_views.setdefault((view.dtype, view.shape, view.is_optional), view)
            if same is not view:
                same.paths.append(name)
                return same, len(same.paths) - 1
        self._views.append(view)
        return view, 0

    def _build_view(self, feature: Any, name: str) -> View | None:
        """Returns the view of a leaf or a sequence of leaves; None where the connector decodes the lists."""
        if isinstance(strip_sequences(feature), StoredLists):
            return StoredListsView([name], kinds={}, decode=strip_sequences(feature).stored_decoder(name))
        if _is_one_list(feature):
            return _build_leaf_view(feature, name)
        if _is_plain_sequence(feature) and _is_one_list(feature.feature):
            codec: Codec = feature.feature.codec(name)
            if codec.kind != "bytes" and codec.size:
                count = PADDED if self._pad else ANY
                common: Any = {"kind": KINDS[codec.kind], "is_optional": True, "length": feature.length}
                return Sequences([name], count=count, codec=codec, **common)
        return None


def _is_one_list(feature: Any) -> bool:
    """Returns whether a feature is stored as one list, and decoded as its codec says."""
    kind: Any = type(feature)
    is_plain = isinstance(feature, Leaf) and kind.decoder in (Leaf.decoder, Tensor.decoder)
    return is_plain and not getattr(feature, "is_dynamic", False)


def _is_plain_sequence(feature: Any) -> bool:
    return isinstance(feature, Sequence) and type(feature).decoder is Sequence.decoder


def _build_connector_view(feature: Any, name: str) -> ConnectorView:
    lists = {key: kind for key, kind in feature.lists(name) if kind is not None}
    item = feature.feature if _is_plain_sequence(feature) else feature
    is_small = _is_one_list(item) and item.codec(name).from_bytes in (None, bytes)
    return ConnectorView([name], kinds=lists, decode=feature.decoder(name), is_small=is_small)


def _build_leaf_view(feature: Any, name: str) -> View | None:
    """Returns the view of a leaf that is stored as one list; None unless it holds bytes or a fixed count of numbers."""
    codec: Codec = feature.codec(name)
    common: Any = {"kind": KINDS[codec.kind], "is_optional": feature.is_optional}
    if codec.from_bytes is not None:
        size = 0 if codec.from_bytes is bytes else _decoded_size(feature)
        common["is_optional"] |= feature.may_be_missing
        common["is_small"] = size is not None and size <= _LARGE
        if isinstance(feature, Image) and feature.has_plain_form:
            return Images([name], unpack=codec.from_bytes, shape=feature.shape, dtype=feature.dtype, **common)
        return BytesView([name], unpack=codec.from_bytes, **common)
    if codec.numbers is None or not codec.size:
        return None
    dtype, shape = codec.numbers
    return Numbers([name], count=codec.size, dtype=dtype, shape=shape, **common)


def _decoded_size(feature: Any) -> int | None:
    """Returns the size in bytes of the values of a leaf; None if it is not known."""
    if not isinstance(feature, (Image, Tensor)):
        return None
    count = num_values(feature.shape or (None,))
    return None if count is None else count * int(feature.dtype.itemsize)


def has_images(feature: Any) -> bool:
    """Returns whether decoding makes images: not in nested datasets, which decode later, nor by a user's function."""
    children = [child for _, _, child in iter_nested_features(feature)]
    if any(isinstance(child, Dataset) for child in children):
        return False
    kinds = [type(strip_sequences(child)) for child in children]
    package = __name__.partition(".")[0]
    is_ours = all(kind.__module__.partition(".")[0] == package and kind is not Decoded for kind in kinds)
    return is_ours and any(issubclass(kind, Image) for kind in kinds)


def _number_locations(place: Location, first_indices: dict[int, int]) -> ColumnIndices:
    """Returns the places as numbers among all features, where those of each view begin with one of `first_indices`."""
    if isinstance(place, tuple):
        return first_indices[id(place[0])] + place[1]
    return {key: _number_locations(child, first_indices) for key, child in place.items()}


def _fill_structure(nest: ColumnIndices, values: list[Any]) -> Any:
    """Returns the nest with values in place of their numbers."""
    return (
        values[nest] if isinstance(nest, int) else {key: _fill_structure(child, values) for key, child in nest.items()}
    )


def _examples_in_python(columns: tuple[Any, ...], makers: tuple[Any, ...], nest: ColumnIndices, n: int) -> list[Any]:
    """Returns n examples: nests of dicts with values in place of the numbers of their features.

    Args:
        columns: of the views.
        makers: the functions from columns to n values of each feature, one after the other; None for those themselves.
        nest: the numbers of the features.
        n: number of records.
    """
    values: list[Any] = []
    for column, make in zip(columns, makers):
        values.extend(column if make is None else make(column))
    return [_fill_structure(nest, values[i::n]) for i in range(n)]


_examples: Callable[..., list[Any]] = _examples_in_python if core is None else core.examples


# -------------------------------------------------------------------------------------------------------------- views


@dataclass(kw_only=True)
class View(abc.ABC):
    """The values of some features.

    Attributes:
        paths: of the features; also their names in the record, but for features of several lists.
        kind, count, is_optional: of their group, see `formats.columns.FeatureGroup`.
        is_small: whether a value is known to be not much larger than its record, or than a few kilobytes.
    """

    paths: list[str] = field(kw_only=False)
    kind: int = 0
    count: int = 1
    is_optional: bool = False
    is_small: bool = True

    def groups(self) -> list[FeatureGroup]:
        """Returns the groups to parse."""
        return [FeatureGroup(self.kind, self.count, self.is_optional, tuple(path.encode() for path in self.paths))]

    @abc.abstractmethod
    def rows(self, column: Any) -> list[Any]:
        """Returns the values of n records; of several features one after the other."""

    def maker(self) -> Callable[[Any], Any] | None:
        """Returns `rows`, or the same with fewer steps; None if the column is the values."""
        return self.rows

    def columns(self, column: Any, n: int, fills: dict[str, Any]) -> list[Any]:
        """Returns for each feature an array with the records as first dimension, or the list of its values.

        Args:
            column: of n records.
            n: number of records.
            fills: by path, what an array may have in place of missing values; empty if they stay None.
        """
        values = self.rows(column)
        return [values[start : start + n] for start in range(0, len(values), n)]

    def batch(self, column: Any, n: int, pad: bool, fills: dict[str, Any]) -> list[Any]:
        """Returns the array of each feature's values; see `columns` and `stack`."""
        return [
            values
            if isinstance(values, np.ndarray)
            else stack_decoded(values, pad=pad, path=path, fill=fills.get(path, KEEP))
            for path, values in zip(self.paths, self.columns(column, n, fills))
        ]

    def batch_in_parts(self, column: Any, n: int, pad: bool, fills: dict[str, Any]) -> TaskList:
        """Returns `batch` in parts."""
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
        """Returns NumPy scalars or arrays of their own; None if missing."""
        data, missing = column if self.is_optional else (column, ())
        numbers = self._convert_numbers(data)
        values = _copy_rows(numbers.reshape(-1, *self.shape)) if self.shape else list(numbers)
        n = len(values) // len(self.paths)
        for feature, record in missing:
            values[feature * n + record] = None
        return values

    def maker(self) -> Callable[[Any], Any]:
        """Returns a function to an array of the scalars, or to the arrays, if they are stored as they are."""
        if self.is_optional or self.dtype not in _STORED:
            return self.rows
        if not self.shape:
            return functools.partial(np.frombuffer, dtype=self.dtype)
        dtype, shape, size = self.dtype, self.shape, self._size

        def rows(column: bytearray) -> list[Any]:
            numbers = np.frombuffer(column, dtype)
            if len(numbers) == size:  # of one record
                return [numbers.reshape(shape)]
            return [row.copy() for row in numbers.reshape(-1, *shape)]

        return rows

    def columns(self, column: Any, n: int, fills: dict[str, Any]) -> list[Any]:
        """Returns the parts of one array."""
        data, missing = column if self.is_optional else (column, ())
        if missing and not fills:
            return super().columns(column, n, fills)
        numbers = self._convert_numbers(data).reshape(len(self.paths), n, *self.shape)
        for feature, record in missing:
            numbers[feature, record] = fills[self.paths[feature]]
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
        codec: of an item.
        length: number of items, if it is fixed.
    """

    codec: Codec
    length: int | None

    def __post_init__(self) -> None:
        dtype, shape = self.codec.numbers or (None, ())
        self._plain = dtype if dtype in _STORED and shape == () else None

    def rows(self, column: Any) -> list[Any]:
        """Returns arrays of their own."""
        data, counts = column
        if len(counts) == _SIZE_OF_COUNT:
            items = self._unpack_items(data)
            if self.length is not None and len(items) != self.length:
                raise _length_error(self.paths[0], len(items), self.length)
            return [items]
        ends, items = self._count_items(column).cumsum().tolist(), self._unpack_items(data)
        return [items[start:stop].copy() for start, stop in zip([0, *ends], ends)]

    def maker(self) -> Callable[[Any], Any]:
        """Returns `rows`, with fewer steps for one record if the numbers are stored as they are."""
        if self._plain is None or self.length is not None:
            return self.rows
        all_rows, dtype = self.rows, self._plain

        def rows(column: Any) -> list[Any]:
            data, counts = column
            return [np.frombuffer(data, dtype)] if data and len(counts) == _SIZE_OF_COUNT else all_rows(column)

        return rows

    def _unpack_items(self, found: bytearray) -> NDArray[Any]:
        """Returns the items of all records, one after the other."""
        if self._plain is not None and found:
            return np.frombuffer(found, self._plain)
        return self.codec.unpack_many(_parse_numbers(found, self.kind))  # type: ignore[no-any-return]

    def batch(self, column: Any, n: int, pad: bool, fills: dict[str, Any]) -> list[Any]:
        """Returns one array, if all sequences have as many items or are padded."""
        lengths = self._count_items(column)
        if not pad and lengths.min() != lengths.max():
            return super().batch(column, n, pad, fills)  # raises the error
        items = self._unpack_items(column[0])
        return [items.reshape(n, int(lengths.max()), *items.shape[1:])]

    def _count_items(self, column: Any) -> NDArray[np.int64]:
        """Returns the number of items of each record."""
        counts, size = np.frombuffer(column[1], np.int64).clip(0), self.codec.size or 1
        lengths, rest = (counts, None) if size == 1 else np.divmod(counts, size)
        if rest is not None and rest.any():
            self.codec.unpack_many(_parse_numbers(column[0], self.kind)[: counts[rest > 0][0]])  # raises the error
        if self.length is not None and (lengths != self.length).any():
            raise _length_error(self.paths[0], int(lengths[lengths != self.length][0]), self.length)
        return lengths


@dataclass(kw_only=True)
class BytesView(View):
    """Values that are stored as one value of bytes each: texts, files, compressed arrays."""

    unpack: Callable[[bytes], Any]

    def rows(self, column: Any) -> list[Any]:
        """Returns what the function makes; None if missing."""
        unpack = self.unpack
        return column if unpack is bytes else [None if data is None else unpack(data) for data in column]

    def maker(self) -> Callable[[Any], Any] | None:
        """Returns None for texts: they are the column."""
        return None if self.unpack is bytes else self.rows

    def batch(self, column: Any, n: int, pad: bool, fills: dict[str, Any]) -> list[Any]:
        """Returns an array; of objects for texts."""
        if self.unpack is not bytes:
            return super().batch(column, n, pad, fills)
        fill = fills.get(self.paths[0])
        is_filled = fill is None or all(column)  # neither missing nor empty, which is seen in C
        return [to_object_array(column if is_filled else [fill if text is None else text for text in column])]


@dataclass(kw_only=True)
class Images(BytesView):
    """Images that are usually decoded straight into an array of their dtype.

    Attributes:
        shape: height, width and channels; height and width may be None.
        dtype: of pixels.
    """

    shape: Any
    dtype: np.dtype[Any]

    def columns(self, column: Any, n: int, fills: dict[str, Any]) -> list[Any]:
        """Returns one array, into which the files are decoded, if the feature has one shape."""
        return self.batch(column, n, False, fills) if num_values(self.shape) else super().columns(column, n, fills)

    def batch(self, column: Any, n: int, pad: bool, fills: dict[str, Any]) -> list[Any]:
        """Returns the array of the pixels."""
        tasks, finish = self.batch_in_parts(column, n, pad, fills)
        return finish([task() for task in tasks])  # type: ignore[no-any-return]

    def batch_in_parts(self, column: Any, n: int, pad: bool, fills: dict[str, Any]) -> TaskList:
        """Returns tasks that decode a few files each; where the feature has no one shape, that of the first file."""
        first = None if num_values(self.shape) else self.unpack(column[0])
        shape = self.shape if first is None else first.shape
        pixels = np.empty((n, *shape), self.dtype)
        if first is not None:
            pixels[0] = first
        targets = pixels[..., 0] if pixels.shape[-1] == 1 and pixels.ndim == _PIXEL_DIMS else pixels
        others: dict[int, NDArray[Any]] = {}  # images of other shapes

        def decode(start: int) -> None:
            for i in range(start, min(start + size, n)):
                if decode_into(column[i], targets[i]):
                    continue
                image = self.unpack(column[i])
                if image.shape == shape:
                    pixels[i] = image
                else:
                    others[i] = image

        def finish(_: list[Any]) -> list[Any]:
            if not others:
                return [pixels]
            images = [others.get(i, image) for i, image in enumerate(pixels)]
            return [stack_decoded(images, pad=pad, path=self.paths[0], fill=fills.get(self.paths[0], KEEP))]

        size = max(1, min(_TASK_IMAGES, _TASK_BYTES * n // max(pixels.nbytes, 1)))
        return [functools.partial(decode, start) for start in range(int(first is not None), n, size)], finish


@dataclass(kw_only=True)
class ConnectorView(View):
    """A feature whose connector decodes its lists: nested sequences, datasets, texts, tensors of unknown lengths.

    Attributes:
        kinds: of its lists, by their names in the record.
        decode: makes the value of the lists of a record.
    """

    kinds: dict[str, Any]
    decode: Callable[..., Any]
    is_small: bool = False

    def groups(self) -> list[FeatureGroup]:
        """Returns a group for each list."""
        return [FeatureGroup(KINDS[kind], ANY, True, (name.encode(),)) for name, kind in self.kinds.items()]

    def rows(self, column: Any) -> list[Any]:
        """Returns what the connector makes."""
        names, kinds = list(self.kinds), [KINDS[kind] for kind in self.kinds.values()]
        if len(names) == 1:
            return [self.decode({names[0]: values}) for values in _split_lists(column, kinds[0])]
        records, columns = column
        lists = [_split_lists(part, kind) for part, kind in zip(columns, kinds)]
        return [self.decode(dict(zip(names, [values[i] for values in lists]))) for i in range(len(records))]


@dataclass(kw_only=True)
class StoredListsView(ConnectorView):
    """The lists of a feature of an unknown class, as the record has them."""

    def rows(self, column: Any) -> list[Any]:
        """Returns dicts of lists."""
        return [self.decode(*parse_spans(record)) for record in column[0]]


def _length_error(path: str, found: int, length: int | None) -> FeatureValueError:
    return FeatureValueError(f"{path}: the record has {found} items; the feature has length={length}")


def _split_lists(column: Any, kind: int) -> list[Any]:
    """Returns the lists of n records, each one of its own; None if missing."""
    stored, counts = column
    is_bytes = kind == KINDS["bytes"]
    joined = stored if is_bytes else _parse_numbers(stored, kind)
    if len(counts) == _SIZE_OF_COUNT:
        return [joined] if counts[-1] < _SIGN else [None]
    lengths = np.frombuffer(counts, np.int64)
    ends = lengths.clip(0).cumsum().tolist()
    lists: list[Any] = [joined[start:stop] for start, stop in zip([0, *ends], ends)]
    lists = lists if is_bytes else [numbers.copy() for numbers in lists]
    for i in np.flatnonzero(lengths < 0).tolist():
        lists[i] = None
    return lists


def _parse_numbers(found: bytearray, kind: int) -> NDArray[Any]:
    """Returns the array of parsed numbers."""
    return np.frombuffer(found, _DTYPES[kind]) if found else np.empty(0, _DTYPES[kind])


def _copy_rows(array: NDArray[Any]) -> list[Any]:
    """Returns the rows of an array, each as one that does not keep the others in memory."""
    return [array[0]] if len(array) == 1 else [row.copy() for row in array]
