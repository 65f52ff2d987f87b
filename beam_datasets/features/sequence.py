"""Sequence: any number of items of the same feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from beam_datasets.arguments import integer
from beam_datasets.errors import FeatureError, FeatureTypeError, FeatureValueError
from beam_datasets.features.base import (
    Decode,
    DocArg,
    FastPathSpec,
    FeatureConnector,
    Items,
    Json,
    Lengths,
    Lists,
    RowsEncode,
    dtype_of,
    int_from_json,
    shape_of,
)
from beam_datasets.features.features_dict import FeaturesDict, join, to_feature
from beam_datasets.features.numbers import check_unmasked
from beam_datasets.features.tensor import Scalar, Tensor

_NOT_ITEMS = (str, bytes, Mapping, set, frozenset)
"""Types that can be iterated, but not to items in an order. That of a set of texts differs from process to process."""


@dataclass(frozen=True, repr=False, init=False)
class Sequence(FeatureConnector):
    """Any number of items of one feature.

    Values are lists, tuples or arrays; a sequence of dicts may also be given as a dict of lists. Decodes to an array
    with one dimension more, to a dict of arrays for dicts, and to a `RaggedArray` for a sequence of sequences.

    Args:
        feature: the items' feature; a dict or a dtype is taken for the connector that it means.
        length: how many items there are, where that is fixed.
        doc: what it means.
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
        """Returns an attribute of the items' feature, such as `names` and `int2str` of class labels, or `keys`."""
        if name.startswith("_") or name == "feature":  # of copies and pickles, which are not complete yet
            raise AttributeError(name)
        try:
            return getattr(self.feature, name)
        except AttributeError:
            kinds = f"neither {type(self).__name__} nor its {type(self.feature).__name__}"
            raise AttributeError(f"{kinds} has the attribute {name!r}", name=name, obj=None) from None

    def serialize_example(self, example: Any) -> bytes:
        """Returns the record of an example, where the features of an example are a sequence of dicts."""
        from beam_datasets.features.compiler import compile_encoder

        return compile_encoder(self)(example)

    def deserialize_example(self, record: bytes, *, decoders: Any = None) -> Any:
        """Returns the example of a record; see `FeaturesDict.deserialize_example`."""
        from beam_datasets.features.compiler import decode_record

        return decode_record(self, record, decoders)

    deserialize_example_np = deserialize_example

    def with_feature(self, feature: FeatureConnector) -> Sequence:
        """Returns the same sequence of other items."""
        return self._copy_with(feature=feature)

    def decoded(self) -> Sequence:
        """Returns the same sequence of decoded items."""
        return self.with_feature(self.feature.decoded())

    @property
    def shape(self) -> Any:
        """The items' shape with the length before it; for dicts, a dict of such shapes."""
        return _map_shape(shape_of(self.feature), lambda shape: (self.length, *shape))

    @property
    def dtype(self) -> Any:
        """The items' dtype."""
        return dtype_of(self.feature)

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns those of the items."""
        return self.feature.leaves(name, rank + 1)

    def items_of(self, value: Any, path: str) -> Items:
        """Returns the items that a value means, as something with a length and an order."""
        if isinstance(value, dict) and isinstance(self.feature, FeaturesDict):
            value = _transpose(value, path)
        if isinstance(value, _NOT_ITEMS) or not hasattr(value, "__iter__"):
            raise FeatureValueError(f"{path}: expected a sequence, got {type(value).__name__}: {value!r:.80}")
        items = value if isinstance(value, (list, tuple, np.ndarray)) else list(value)
        if isinstance(items, np.ndarray) and items.ndim == 0:
            raise FeatureValueError(f"{path}: expected a sequence, got an array of shape ()")
        if self.length is not None and len(items) != self.length:
            raise FeatureValueError(
                f"{path}: the sequence has {len(items)} items; the feature has length={self.length}"
            )
        return items

    def fast_path(self) -> FastPathSpec | None:
        """Returns which values the native module encodes: a list or an array of items."""
        item = self.feature.fast_path()
        return item and item.sequence(self.length)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes a sequence, or sequences that are the items of sequences."""
        encode_rows = self.feature.rows_encoder(name, rank + 1)

        def encode(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            rows = [self.items_of(item, name) for item in items]
            if not rank:
                return encode_rows(rows[0], ())
            for row in rows:
                check_unmasked(row, name)  # which are joined to an array without a mask
            counts = np.array([len(row) for row in rows], np.int64)
            return encode_rows(_concatenate_rows(rows), (*lengths, counts))

        return encode

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes a sequence, or those that are the items of sequences."""
        decode = self.feature.decoder(name, rank + 1)
        return decode if rank else self._check_length_after(decode, name)

    def _check_length_after(self, decode: Decode, name: str) -> Decode:
        """Wraps `decode` in a check of the number of items, if the length is fixed and the items are not dicts.

        Raises:
            FeatureValueError: the returned function raises it if the record has another number of items.
        """
        length = self.length
        if length is None or isinstance(self.feature, FeaturesDict):
            return decode

        def checked(lists: Lists) -> Any:
            value = decode(lists)
            if len(value) != length:
                raise FeatureValueError(f"{name}: the record has {len(value)} items; the feature has length={length}")
            return value

        return checked

    def stored(self) -> FeatureConnector:
        """Returns the sequence of the items' stored form."""
        return Sequence(self.feature.stored(), self.length)

    # ------------------------------------------------------------------------------------------------ JSON and labels

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'sequence', the items' feature and the length (-1 where it is not fixed)."""
        return "sequence", {
            "feature": self.feature.to_json(),
            "length": str(-1 if self.length is None else self.length),
        }

    @classmethod
    def from_content(cls, content: Json) -> Sequence:
        """Returns the Sequence with this content."""
        from beam_datasets.features.config import from_json

        length = int_from_json(content.get("length", 0))
        return cls(from_json(content["feature"]), None if length is None or length < 0 else length)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns the label files of the items' feature."""
        return self.feature.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> Sequence:
        """Returns the Sequence with the label names that `read` finds."""
        return self._copy_with(feature=self.feature.load_labels(read, prefix))

    def __repr__(self) -> str:
        inner = repr(self.feature)
        if type(self.feature) is FeaturesDict:
            inner = inner.removeprefix("FeaturesDict(").removesuffix(")")
        return f"{type(self).__name__}({inner})"


def _map_shape(shape: Any, function: Callable[[Any], Any]) -> Any:
    """Returns a shape, or a nested dict of them, changed by a function."""
    return (
        {key: _map_shape(value, function) for key, value in shape.items()}
        if isinstance(shape, dict)
        else function(shape)
    )


def _transpose(value: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """Returns a dict of lists as a list of dicts."""
    columns = {
        key: _transpose(column, f"{path}/{key}") if isinstance(column, dict) else column
        for key, column in value.items()
    }
    if any(isinstance(column, _NOT_ITEMS) or not hasattr(column, "__len__") for column in columns.values()):
        raise FeatureTypeError(f"{path}: a dict in place of a sequence of dicts must have lists as values")
    counts = {key: len(column) for key, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise FeatureValueError(f"{path}: the lists of a sequence of dicts have different lengths: {counts}")
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _concatenate_rows(rows: list[Items]) -> Items:
    """Returns the items of all rows, in order."""
    if rows and all(isinstance(row, np.ndarray) for row in rows):
        shapes = {(np.shape(row)[1:], np.asarray(row).dtype) for row in rows}
        if len(shapes) == 1:
            return np.concatenate(rows)
    return list(chain.from_iterable(rows))


@dataclass(frozen=True, repr=False)
class NestedDataset(AbstractSequence[Any]):
    """The items of a `Dataset` feature: a sequence that decodes an item when it is asked for.

    Where an item does not decode, the error has its number, but not the record's, which is not known by then: that is
    named where the items are taken in `map()`, and by `verify --decode`.

    Attributes:
        size: how many items there are.
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
    """A dataset in each example: as `Sequence` in the record, but decoded to a `NestedDataset`, item by item.

    Takes any iterable of items. Inside of a sequence or of another dataset each item has its own; in a batch these are
    decoded as a `Sequence` is.

    Args:
        feature: the items' feature.
        length: how many items there are, where that is fixed.
        doc: what it means.
    """

    PATH: ClassVar[str] = "dataset_feature.Dataset"

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes to a NestedDataset; below sequences to lists of them."""
        decode_item = self.decoder(name, rank - 1) if rank else self.feature.decoder(name)
        length = None if rank else self.length
        splitters = [(path, leaf.items_splitter(path, levels)) for path, leaf, levels in self.leaves(name, rank)]

        def decode(lists: Lists) -> Any:
            parts = {path: split(lists) for path, split in splitters}
            counts = {path: count for path, (count, _) in parts.items()}
            if len(set(counts.values())) > 1:
                raise FeatureValueError(f"{name}: the features have different numbers of items: {counts}")
            count = next(iter(counts.values()), 0)
            if length is not None and count != length:
                raise FeatureValueError(f"{name}: the record has {count} items; the feature has length={length}")
            cutters = [cut for _, cut in parts.values()]

            def item(index: int) -> Any:
                item_lists: Lists = {}
                for cut in cutters:
                    cut(index, item_lists)
                return decode_item(item_lists)

            return list(map(item, range(count))) if rank else NestedDataset(count, item)

        return decode


def replace_inner_datasets(feature: Any, inside: bool = False) -> Any:
    """Returns a feature with a `Sequence` in place of each `Dataset` that is inside of a sequence or a dataset.

    Args:
        feature: a tree of features.
        inside: whether it is inside of one itself.
    """
    if isinstance(feature, FeaturesDict):
        return feature.with_features({name: replace_inner_datasets(child, inside) for name, child in feature.items()})
    if not isinstance(feature, Sequence):
        return feature
    items = replace_inner_datasets(feature.feature, True)
    return Sequence(items, feature.length) if inside and isinstance(feature, Dataset) else feature.with_feature(items)


def strip_sequences(feature: Any) -> Any:
    """Returns a feature without the sequences around it.

    >>> import numpy as np
    >>> strip_sequences(Sequence(Sequence(np.int64)))
    int64
    """
    while isinstance(feature, Sequence):
        feature = feature.feature
    return feature


def iter_nested_features(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yields each feature below another, whatever its depth: its name, the steps that lead to it, and the feature.

    >>> import numpy as np
    >>> [name for name, _, _ in iter_nested_features(FeaturesDict({"id": np.int64, "objects": Sequence({"label": np.int64})}))]
    ['id', 'objects', 'objects/label']
    """
    tree = strip_sequences(tree)
    if isinstance(tree, FeaturesDict):
        for step, child in tree.items():
            steps = (*path, step)
            yield reduce(join, steps), steps, child
            yield from iter_nested_features(child, steps)


def join_steps(steps: AbstractSequence[str]) -> str:
    """Returns the name of a feature for people and expressions: the steps that lead to it, with dots between.

    Where a step has a dot or a slash, there are slashes between, as in the name in the record.

    >>> join_steps(["product", "price"]), join_steps(["product", "price.eur"])
    ('product.price', 'product/price.eur')
    """
    return ("/" if any("." in step or "/" in step for step in steps) else ".").join(steps)


def steps_by_name(tree: Any) -> dict[str, tuple[str, ...]]:
    """Returns the steps that lead to each feature below another, by its names: with slashes, and with dots.

    If a name means two features, it is that of the one that has it with slashes.

    >>> tree = FeaturesDict({"a": {"b": np.int64}, "a.b": np.int64})
    >>> steps_by_name(tree)["a.b"], steps_by_name(tree)["a/b"]
    (('a.b',), ('a', 'b'))
    """
    steps_by_path = {name: steps for name, steps, _ in iter_nested_features(tree)}
    return {join_steps(steps): steps for steps in steps_by_path.values()} | steps_by_path


def display_names(tree: Any) -> dict[str, str]:
    """Returns the name for people and expressions of each feature below another, by its name with slashes.

    >>> display_names(FeaturesDict({"a": {"b": np.int64, "c": np.int64}, "a.b": np.int64}))
    {'a': 'a', 'a/b': 'a/b', 'a/c': 'a.c', 'a.b': 'a.b'}
    """
    by_name = steps_by_name(tree)
    return {
        path: join_steps(steps) if by_name.get(join_steps(steps)) == steps else path
        for path, steps, _ in iter_nested_features(tree)
    }


def record_name(name: str, tree: Any) -> str:
    """Returns the name with slashes of a feature that a name means, or the name itself if there is none."""
    return reduce(join, steps_by_name(tree).get(name, (name,)))


def leaves_with_features(value: Any, feature: Any = None, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields (path, value, its feature without the sequences around it) of all that is in nested dicts.

    >>> [(path, value) for path, value, _ in leaves_with_features({"a": 1, "b": {"c": 2}})]
    [('a', 1), ('b/c', 2)]
    """
    inner = strip_sequences(feature)
    if not isinstance(value, dict):
        yield path, value, inner
        return
    for name, child in value.items():
        known = inner[name] if isinstance(inner, FeaturesDict) and name in inner else None
        yield from leaves_with_features(child, known, join(path, str(name)))


def find_difference(one: Any, other: Any, name: str = "") -> str | None:
    """Returns the first difference of two trees of features; None if examples of both can be in one dataset.

    Documentation does not count, nor does whether a number is a Scalar or a Tensor of shape ().
    """
    where = f"feature {name!r}" if name else "the examples"
    if isinstance(one, FeaturesDict) and isinstance(other, FeaturesDict) and type(one) is type(other):
        for missing, there, which in ((set(one) - set(other), one, "first"), (set(other) - set(one), other, "second")):
            if missing:
                first_missing = min(missing)
                return f"feature {join(name, first_missing)!r}, {there[first_missing]!r}, is in the {which} only"
        found_below = (find_difference(one[child], other[child], join(name, child)) for child in one)
        return next(filter(None, found_below), None)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and type(one) is type(other):
        if one.length == other.length:
            return find_difference(one.feature, other.feature, name)
        return f"{where} has length={one.length} in the first, length={other.length} in the second"
    if one.label_files("x") != other.label_files("x"):
        first_names, second_names = _format_class_names(one), _format_class_names(other)
        return f"{where} has other class names: {first_names} in the first, {second_names} in the second"
    is_equal = one == other or _scalar_to_tensor(one) == _scalar_to_tensor(other)
    return None if is_equal else f"{where} is {one!r} in the first, {other!r} in the second"


def _scalar_to_tensor(feature: Any) -> Any:
    """Returns the Tensor of shape () that a Scalar is."""
    if type(feature) is not Scalar:
        return feature
    options = ("shape", "dtype", "encoding", "minimum", "maximum", "optional")
    return Tensor(**{name: getattr(feature, name) for name in options})


def _format_class_names(feature: Any) -> str:
    names = "".join(feature.label_files("x").values()).splitlines()
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "") if names else "none"
