"""Schema of a dataset for other file formats: a tree of columns, one for each feature.

The values of images and sound are the stored files, so that an export does not decode and compress them again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from beam_datasets.errors import BeamDatasetsError, FeatureValueError, did_you_mean, shown_name
from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import Decoded
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Tensor
from beam_datasets.features.trees import iter_nested_features, strip_sequences

if TYPE_CHECKING:
    from beam_datasets.features.base import FeatureConnector


@dataclass(frozen=True)
class Values:
    """A column of numbers, strings or files.

    Attributes:
        kind: 'number' (also a bool), 'label' (the index of a class, -1 for no class), 'name' (the name of a class,
            instead of its index), 'text' (bytes in UTF-8), 'binary' (bytes that are not text), or the content of a
            file: 'image' or 'audio'.
        dtype: dtype of NumPy; `STRING` for strings and files.
        shape: shape of an array, where None means any length; () for a single value.
        optional: whether values may be missing.
        names: names of the classes of a label; empty if they have no names.
    """

    kind: str
    dtype: np.dtype[Any] = STRING
    shape: tuple[int | None, ...] = ()
    optional: bool = False
    names: tuple[str, ...] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.kind in ("number", "label")

    @property
    def is_file(self) -> bool:
        """Whether a value is the content of a file."""
        return self.kind in ("image", "audio")


@dataclass(frozen=True)
class Items:
    """A column of sequences.

    Attributes:
        item: the column of the items.
    """

    item: Column


@dataclass(frozen=True)
class Struct:
    """Named columns.

    Attributes:
        fields: the columns by name, at least one.
    """

    fields: Mapping[str, Column]


Column: TypeAlias = "Values | Items | Struct"


def schema_of(tree: FeatureConnector, binary: Collection[str] = ()) -> Struct:
    """Returns the columns of a dataset's features.

    Args:
        tree: a FeaturesDict, or a Sequence of one, which becomes a dict of sequences.
        binary: names of features whose strings are bytes, not text; nested ones as `outer/inner`.

    Raises:
        BeamDatasetsError: a feature has no column, or a name in `binary` is not that of a feature with strings.
    """
    tree = tree.decoded()
    leaves = ((name, strip_sequences(feature)) for name, _, feature in iter_nested_features(tree))
    strings = {name for name, feature in leaves if isinstance(feature, Tensor) and feature.dtype == STRING}
    for name in binary:
        if name not in strings:
            shown = sorted(map(shown_name, strings))
            raise BeamDatasetsError(
                f"{shown_name(name)!r} is not a feature of text or bytes; those are {', '.join(shown) or 'none'}."
                f"{did_you_mean(name, strings)}"
            )
    if not isinstance(tree, Sequence):
        return _build_struct(tree, "", frozenset(binary))
    columns = _build_struct(tree.feature, "", frozenset(binary)).fields
    return Struct({name: Items(column) for name, column in columns.items()})


def _build_struct(features: Any, name: str, binary: Collection[str]) -> Struct:
    """Returns the columns of a FeaturesDict, by the names of its features.

    Args:
        features: the FeaturesDict.
        name: its name, with slashes; '' for the top.
        binary: names of features whose strings are bytes, not text.

    Raises:
        BeamDatasetsError: it is empty, or a feature has no column.
    """
    if not features:
        problem = f"feature {shown_name(name)!r} has no features below it" if name else "the dataset has no features"
        raise BeamDatasetsError(
            f"{problem}, so there is nothing to export. Name others: --features, or decode.PartialDecoding."
        )
    return Struct({key: _build_column(child, join(name, key), binary) for key, child in features.items()})


def _build_column(feature: FeatureConnector, name: str, binary: Collection[str]) -> Column:
    """Returns the column of a feature, including the columns of the features in it.

    Args:
        feature: the connector.
        name: its name, with slashes, such as 'objects/label'.
        binary: names of features whose strings are bytes, not text.

    Raises:
        BeamDatasetsError: the feature has no column, as a decoder or an unknown class determines its values.
    """
    if isinstance(feature, (UnknownFeature, Decoded)):
        raise BeamDatasetsError(
            f"feature {shown_name(name)!r}, {feature!r}, has no column: its values may be anything. Name the others: "
            "--features, or decode.PartialDecoding."
        )
    if isinstance(feature, FeaturesDict):
        return _build_struct(feature, name, binary)
    if isinstance(feature, Sequence):
        return Items(_build_column(feature.feature, name, binary))
    return _build_leaf_column(feature, name in binary)


def _build_leaf_column(feature: Any, is_binary: bool) -> Values:
    """Returns the column of a leaf, a feature that contains no other features.

    Args:
        feature: the connector.
        is_binary: whether its strings are bytes, not text.
    """
    if feature.file_kind:
        return Values(feature.file_kind)
    if isinstance(feature, ClassLabel):
        return Values("label", np.dtype(np.int64), names=feature.label_names or ())
    kind = "number" if feature.dtype != STRING else "binary" if is_binary else "text"
    return Values(kind, feature.dtype, tuple(feature.shape), feature.is_optional)


def is_number(column: Column) -> bool:
    """Returns whether every value of a column is one number (also a bool or a class label), not an array."""
    return isinstance(column, Values) and column.is_numeric and not column.shape


def with_label_names(column: Column) -> Column:
    """Returns the column with the names of classes instead of their indices, where classes have names."""
    if isinstance(column, Struct):
        return Struct({name: with_label_names(field) for name, field in column.fields.items()})
    if isinstance(column, Items):
        return Items(with_label_names(column.item))
    return replace(column, kind="name") if column.names else column


def decode_text(data: bytes, name: str) -> str:
    """Returns the text of bytes in UTF-8.

    Args:
        data: the bytes.
        name: the name of the feature, for errors.

    Raises:
        FeatureValueError: the bytes are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FeatureValueError(
            f"{data[:40]!r} is not text: {error}. Name the feature in binary= (--binary {shown_name(name)}) to have "
            "bytes, or leave it out.",
            feature=name,
        ) from None


def split_items(value: Any, name: str) -> Any:
    """Returns the items of a decoded sequence, in order; a dict of sequences is converted to a list of dicts.

    >>> split_items({"a": [1, 2], "b": [3, 4]}, "pairs")
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]

    Raises:
        FeatureValueError: the sequences have different numbers of items.
    """
    if not isinstance(value, dict):
        return value
    columns = {key: split_items(column, name) for key, column in value.items()}
    if len(set(map(len, columns.values()))) > 1:
        raise FeatureValueError("the features of an item have different numbers of items", feature=name)
    return [dict(zip(columns, row)) for row in zip(*columns.values())]
