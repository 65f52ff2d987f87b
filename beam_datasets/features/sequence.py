"""Sequence: any number of items of the same feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from beam_datasets.advice import hint_of_names, instead_of, names_foreign_constructor_arguments
from beam_datasets.arguments import integer
from beam_datasets.errors import FeatureError, FeatureTypeError, FeatureValueError
from beam_datasets.features.base import (
    DecodeLists,
    DocArg,
    FeatureConnector,
    FromJson,
    Items,
    Lengths,
    Lists,
    RowsEncode,
    dtype_of,
    shape_of,
    to_feature,
    to_numpy,
)
from beam_datasets.features.dtypes import Json
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.native_encoding import FastPathSpec
from beam_datasets.features.numbers import check_unmasked
from beam_datasets.formats.example import record
from beam_datasets.formats.proto_json import parse_int64

_NOT_ITEMS = (str, bytes, Mapping, set, frozenset)
"""Iterable types that are not sequences of items. The order of a set of texts differs from process to process."""


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False, init=False)
class Sequence(FeatureConnector):
    """Any number of items of one feature.

    Values are lists, tuples or arrays; a sequence of dicts may also be given as a dict of lists. Decodes to an array
    with one dimension more, to a dict of arrays for dicts, and to a `RaggedArray` for a sequence of sequences.

    Args:
        feature: the items' feature; a dict stands for a FeaturesDict, and a dtype for a Tensor of shape ().
        length: the number of items, if it is fixed; None for any number.
        doc: the documentation of the feature.
    """

    feature: FeatureConnector
    length: int | None

    PATH: ClassVar[str] = "sequence_feature.Sequence"

    def __init__(self, feature: Any, length: int | None = None, *, doc: DocArg = None) -> None:
        length = None if length is None else integer("length", length, at_least=0)
        self._set_fields(doc=doc, feature=to_feature(feature), length=length)
        super().__post_init__()

    def __getitem__(self, name: str) -> FeatureConnector:
        return self.feature[name]  # type: ignore[index,no-any-return]

    def __contains__(self, name: object) -> bool:
        return isinstance(self.feature, (FeaturesDict, Sequence)) and name in self.feature

    def __iter__(self) -> Iterator[str]:
        if not isinstance(self.feature, (FeaturesDict, Sequence)):
            raise TypeError(f"{self!r} has no names to iterate: its items are not dicts")
        return iter(self.feature)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the items' feature, such as `names` and `int2str` of class labels."""
        if name.startswith("_") or name == "feature":  # of copies and pickles, which are not complete yet
            raise AttributeError(name)
        try:
            return getattr(self.feature, name)
        except AttributeError:
            kinds = f"neither {type(self).__name__} nor its {type(self.feature).__name__}"
            hint = instead_of("feature", name) or hint_of_names(self, name).strip()
            message = f"{kinds} has the attribute {name!r}. {hint}"
            raise AttributeError(message, name=name, obj=None) from None

    def serialize_example(self, example: Any) -> bytes:
        """Returns the record of an example of a dataset whose features are a sequence of dicts."""
        return record(self.encoder("")(example))

    def deserialize_example(self, record: bytes, *, decoders: Any = None) -> Any:
        """Returns the example of a record; see `FeaturesDict.deserialize_example`."""
        return self.with_decoders(decoders).decode_record(to_numpy(record), "")

    deserialize_example_np = deserialize_example

    def with_feature(self, feature: FeatureConnector) -> Sequence:
        """Returns a copy of the sequence whose items have another feature."""
        return self._copy_with(feature=feature)

    def map_leaves(self, function: Callable[[Any], FeatureConnector]) -> FeatureConnector:
        """Returns a plain Sequence with `function(leaf)` in place of each feature in it that contains no others."""
        return Sequence(self.feature.map_leaves(function), self.length)

    def _with_child_decoders(self, decoders: dict[str, Any], path: str) -> Sequence:
        """Returns the sequence with decoders in place of connectors of its items; see `with_decoders`."""
        return self.with_feature(self.feature.with_decoders(decoders, path))

    def get_tensor_info(self) -> Any:
        """Returns the `TensorInfo` of the items, or each in a dict, with a first dimension of the sequence's length."""
        return _add_sequence_dimension(self.feature.get_tensor_info(), self.length)

    def decoded(self) -> Sequence:
        """Returns a copy of the sequence whose items' feature describes decoded values."""
        return self.with_feature(self.feature.decoded())

    @property
    def shape(self) -> Any:
        """The items' shape with the length before it; for dicts, a dict of such shapes."""
        return _map_shape(shape_of(self.feature), lambda shape: (self.length, *shape))

    @property
    def dtype(self) -> Any:
        """The items' dtype; a dict of dtypes by name for dicts."""
        return dtype_of(self.feature)

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns [(name, leaf, rank + 1)] of the leaves of the items' feature; see `FeatureConnector.leaves`."""
        return self.feature.leaves(name, rank + 1)

    def items_of(self, value: Any, path: str) -> Items:
        """Returns the items of a value, as a list, tuple or array.

        Args:
            value: an iterable of items, or a dict of lists if the items are dicts.
            path: the feature, for errors.

        Raises:
            FeatureError: the value is not a sequence, or has not `length` items.
        """
        if isinstance(value, dict) and isinstance(self.feature, FeaturesDict):
            value = _transpose(value, path)
        if isinstance(value, _NOT_ITEMS) or not hasattr(value, "__iter__"):
            raise FeatureValueError(expected="a sequence", got=f"{type(value).__name__}: {value!r:.80}", feature=path)
        items = value if isinstance(value, (list, tuple, np.ndarray)) else list(value)
        if isinstance(items, np.ndarray) and items.ndim == 0:
            raise FeatureValueError(expected="a sequence", got="an array of shape ()", feature=path)
        if self.length is not None and len(items) != self.length:
            raise FeatureValueError(
                f"the sequence has {len(items)} items; the feature has length={self.length}", feature=path
            )
        return items

    def fast_path(self) -> FastPathSpec | None:
        """Returns the description of the lists and arrays that the native module encodes; None if it encodes none."""
        item = self.feature.fast_path()
        return item and item.sequence(self.length)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes one sequence for rank 0, or the sequences in `rank` outer sequences.

        See `RowsEncode` for the arguments of the function.
        """
        encode_rows = self.feature.rows_encoder(name, rank + 1)

        def encode(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            """Returns the map entries of sequences, the items of `len(lengths)` levels."""
            rows = [self.items_of(item, name) for item in items]
            if not rank:
                return encode_rows(rows[0], ())
            for row in rows:
                check_unmasked(row, name)  # joining them gives an array without a mask
            counts = np.array([len(row) for row in rows], np.int64)
            return encode_rows(_concatenate_rows(rows), (*lengths, counts))

        return encode

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to a sequence, which is nested in `rank` outer sequences."""
        decode = self.feature.decoder(name, rank + 1)
        return decode if rank else self._check_length_after(decode, name)

    def _check_length_after(self, decode: DecodeLists, name: str) -> DecodeLists:
        """Returns the function that calls `decode` and checks the number of items.

        Returns `decode` itself if the length is not fixed or the items are dicts.

        Args:
            decode: the function from the lists of a record to the sequence.
            name: the feature, for errors.

        Raises:
            FeatureValueError: the returned function raises it if the record has another number of items.
        """
        length = self.length
        if length is None or isinstance(self.feature, FeaturesDict):
            return decode

        def checked(lists: Lists) -> Any:
            """Returns the decoded sequence, after checking the number of its items."""
            value = decode(lists)
            if len(value) != length:
                raise FeatureValueError(
                    f"the record has {len(value)} items; the feature has length={length}", feature=name
                )
            return value

        return checked

    def stored(self) -> FeatureConnector:
        """Returns the connector of a sequence of the items' stored form."""
        return Sequence(self.feature.stored(), self.length)

    # ------------------------------------------------------------------------------------------------ JSON and labels

    def content_json(self) -> tuple[str, Json]:
        """Returns ('sequence', {'feature': JSON of the items' feature, 'length': the length as text}).

        The length is '-1' if it is not fixed.
        """
        return "sequence", {
            "feature": self.feature.to_json(),
            "length": str(-1 if self.length is None else self.length),
        }

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Sequence:
        """Returns the Sequence of `content`, the second value of `content_json`."""
        length = parse_int64(content.get("length", 0))
        return cls(from_json(content["feature"]), None if length is None or length < 0 else length)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns {file name: text} of the label files of the items; see `FeatureConnector.label_files`."""
        return self.feature.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> Sequence:
        """Returns a copy with the class names of its label files; see `FeatureConnector.load_labels`."""
        return self._copy_with(feature=self.feature.load_labels(read, prefix))

    def __repr__(self) -> str:
        item_text = repr(self.feature)
        if type(self.feature) is FeaturesDict:
            item_text = item_text.removeprefix("FeaturesDict(").removesuffix(")")
        return f"{type(self).__name__}({item_text})"


def _map_shape(shape: Any, function: Callable[[Any], Any]) -> Any:
    """Returns the result of a function for a shape; for a nested dict of shapes, a dict of results by the same names.

    >>> _map_shape({"a": (2,), "b": ()}, len)
    {'a': 1, 'b': 0}
    """
    return (
        {key: _map_shape(value, function) for key, value in shape.items()}
        if isinstance(shape, dict)
        else function(shape)
    )


def _add_sequence_dimension(info: Any, length: int | None) -> Any:
    """Returns the `TensorInfo` of items, or each in a dict, with a first dimension of `length`; None for any length."""
    if isinstance(info, Mapping):
        return {name: _add_sequence_dimension(child, length) for name, child in info.items()}
    return replace(info, shape=(length, *info.shape))


def _transpose(value: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """Returns a dict of lists as a list of dicts: {'a': [1, 2]} becomes [{'a': 1}, {'a': 2}].

    Args:
        value: lists of equal length by name; a nested dict of lists counts as one list of dicts.
        path: the feature, for errors.

    Raises:
        FeatureError: a value of the dict is not a list, or lists have different lengths.
    """
    columns = {
        key: _transpose(column, join(path, key)) if isinstance(column, dict) else column
        for key, column in value.items()
    }
    if any(isinstance(column, _NOT_ITEMS) or not hasattr(column, "__len__") for column in columns.values()):
        raise FeatureTypeError("a dict in place of a sequence of dicts must have lists as values", feature=path)
    counts = {key: len(column) for key, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise FeatureValueError(f"the lists of a sequence of dicts have different lengths: {counts}", feature=path)
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _concatenate_rows(rows: list[Items]) -> Items:
    """Returns the items of all rows, in order: one array if the rows are arrays of one dtype and item shape, or a list.

    >>> _concatenate_rows([[1, 2], [], [3]])
    [1, 2, 3]
    """
    if rows and all(isinstance(row, np.ndarray) for row in rows):
        shapes = {(np.shape(row)[1:], np.asarray(row).dtype) for row in rows}
        if len(shapes) == 1:
            return np.concatenate(rows)
    return list(chain.from_iterable(rows))


@dataclass(frozen=True, repr=False)
class NestedDataset(AbstractSequence[Any]):
    """Items of a `Dataset` feature: a sequence that decodes each item on access.

    If an item cannot be decoded, the error contains its index, but not the number of the record, which is not known at
    this time. Errors of `map()` and of `verify --decode` contain the number of the record.

    Attributes:
        size: the number of items.
        item: the function from an index in [0, size) to the item.
    """

    size: int
    item: Callable[[int], Any]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(map(self._decode_item, range(*index.indices(self.size))))
        if not -self.size <= index < self.size:
            raise IndexError(f"index {index} of a dataset of {self.size} items")
        return self._decode_item(index % self.size)

    def __iter__(self) -> Iterator[Any]:
        return map(self._decode_item, range(self.size))

    def _decode_item(self, index: int) -> Any:
        """Returns the item at an index in [0, size); an error of decoding ends with the index."""
        try:
            return self.item(index)
        except FeatureError as error:
            error.args = (f"{str(error).removesuffix('.')} (item {index})",)
            raise

    def __repr__(self) -> str:
        return f"<NestedDataset of {self.size} items>"

    def __reduce__(self) -> tuple[Any, ...]:
        return NestedDataset, (self.size, list(self).__getitem__)  # functions that decode do not pickle; items do


class Dataset(Sequence):
    """A dataset in each example, stored as a `Sequence`, and decoded item by item by a `NestedDataset`.

    Takes any iterable of items. A Dataset inside a sequence or another Dataset decodes to a list of datasets. In a
    batch, it is decoded as a `Sequence`.

    Args:
        feature: the items' feature; a dict stands for a FeaturesDict, and a dtype for a Tensor of shape ().
        length: the number of items, if it is fixed; None for any number.
        doc: the documentation of the feature.
    """

    PATH: ClassVar[str] = "dataset_feature.Dataset"

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to a NestedDataset; to a list of them for rank 1 or more."""
        decode_item = self.decoder(name, rank - 1) if rank else self.feature.decoder(name)
        length = None if rank else self.length
        splitters = [(path, leaf.items_splitter(path, levels)) for path, leaf, levels in self.leaves(name, rank)]

        def decode(lists: Lists) -> Any:
            """Returns the NestedDataset of the lists of a record."""
            parts = {path: split(lists) for path, split in splitters}
            counts = {path: count for path, (count, _) in parts.items()}
            if len(set(counts.values())) > 1:
                raise FeatureValueError(f"the features have different numbers of items: {counts}", feature=name)
            count = next(iter(counts.values()), 0)
            if length is not None and count != length:
                raise FeatureValueError(f"the record has {count} items; the feature has length={length}", feature=name)
            cutters = [cut_lists for _, cut_lists in parts.values()]

            def item(index: int) -> Any:
                """Returns the decoded item at an index."""
                item_lists: Lists = {}
                for cut_lists in cutters:
                    cut_lists(index, item_lists)
                return decode_item(item_lists)

            return list(map(item, range(count))) if rank else NestedDataset(count, item)

        return decode


def replace_inner_datasets(feature: FeatureConnector, is_inner: bool = False) -> FeatureConnector:
    """Returns a feature with a `Sequence` in place of each `Dataset` that is inside a sequence or a dataset.

    Args:
        feature: a tree of features.
        is_inner: whether the tree itself is inside a sequence or a dataset.
    """
    if isinstance(feature, FeaturesDict):
        children = {name: replace_inner_datasets(child, is_inner) for name, child in feature.items()}
        return feature.with_features(children)
    if not isinstance(feature, Sequence):
        return feature
    items = replace_inner_datasets(feature.feature, True)
    is_replaced = is_inner and isinstance(feature, Dataset)
    return Sequence(items, feature.length) if is_replaced else feature.with_feature(items)
