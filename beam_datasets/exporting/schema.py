"""What a dataset's features are to a format of others: a few kinds of columns, one in the other.

Images and recorded sound are files here, as they are stored: nothing decodes them only to compress them again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.errors import BeamDatasetsError, FeatureValueError, did_you_mean
from beam_datasets.features import (
    ClassLabel,
    FeaturesDict,
    Sequence,
    Tensor,
    TranslationVariableLanguages,
    UnknownFeature,
)
from beam_datasets.features.base import STRING
from beam_datasets.features.features_dict import join
from beam_datasets.features.sequence import below, innermost


@dataclass(frozen=True)
class Number:
    """A number or a bool.

    Attributes:
        dtype: of NumPy.
    """

    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Label:
    """The index of a class, an int64; -1 for none.

    Attributes:
        names: of the classes; empty where they have none.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextType:
    """Text: values are bytes in UTF-8."""


@dataclass(frozen=True)
class Binary:
    """Bytes that are not text."""


@dataclass(frozen=True)
class File:
    """The content of a file.

    Attributes:
        kind: 'image' or 'audio'.
    """

    kind: str


@dataclass(frozen=True)
class Array:
    """An array of numbers, or of texts or bytes.

    Attributes:
        item: Number, TextType or Binary.
        shape: at least one length; None means any length.
        optional: whether values may be missing.
    """

    item: Column
    shape: tuple[int | None, ...]
    optional: bool = False


@dataclass(frozen=True)
class Items:
    """Any number of items.

    Attributes:
        item: what each is.
    """

    item: Column


@dataclass(frozen=True)
class Struct:
    """Named columns.

    Attributes:
        fields: at least one.
    """

    fields: Mapping[str, Column]


Column: TypeAlias = "Number | Label | TextType | Binary | File | Array | Items | Struct"


def schema_of(tree: Any, binary: Collection[str] = ()) -> Struct:
    """Returns what the features of a dataset are.

    Args:
        tree: the features: a FeaturesDict; a Sequence of dicts is a dict of sequences.
        binary: names of features whose strings are bytes, not text; those below others as `outer/inner`.

    Raises:
        BeamDatasetsError: a feature cannot be exported, or `binary` names what is not a feature with strings.
    """
    inner = ((name, innermost(feature)) for name, _, feature in below(tree))
    strings = {name for name, feature in inner if isinstance(feature, Tensor) and feature.dtype == STRING}
    for name in binary:
        if name not in strings:
            raise BeamDatasetsError(
                f"{name!r} is not a feature of text or bytes; those are {', '.join(sorted(strings)) or 'none'}."
                f"{did_you_mean(name, strings)}"
            )
    if not isinstance(tree, Sequence):
        return _struct(tree, "", frozenset(binary))
    columns = _struct(tree.feature, "", frozenset(binary)).fields
    return Struct({name: Items(column) for name, column in columns.items()})


def _struct(features: Any, name: str, binary: Collection[str]) -> Struct:
    if not features:
        what = f"feature {name!r} has no features below it" if name else "the dataset has no features"
        raise BeamDatasetsError(f"{what}, so there is nothing to export. Name others: --features.")
    return Struct({key: _column(child, join(name, key), binary) for key, child in features.items()})


def _column(feature: Any, name: str, binary: Collection[str]) -> Column:
    if isinstance(feature, TranslationVariableLanguages):
        feature = feature.inner()
    if isinstance(feature, UnknownFeature):
        raise BeamDatasetsError(
            f"feature {name!r} is of the class {feature.python_class_name!r}, which is not known here, so it cannot be "
            "exported. Name the others: --features."
        )
    if isinstance(feature, FeaturesDict):
        return _struct(feature, name, binary)
    if isinstance(feature, Sequence):
        return Items(_column(feature.feature, name, binary))
    return _leaf(feature, name in binary)


def _leaf(feature: Any, is_binary: bool) -> Column:
    if feature.file_kind:
        return File(feature.file_kind)
    if isinstance(feature, ClassLabel):
        return Label(feature.label_names or ())
    item: Column = Number(feature.dtype) if feature.dtype != STRING else Binary() if is_binary else TextType()
    return Array(item, tuple(feature.shape), feature.is_optional) if feature.shape else item


def as_files(feature: Any) -> Any:
    """Returns the features with the stored bytes in place of images and of sound that is stored as a file."""
    if isinstance(feature, Sequence):
        return feature.with_feature(as_files(feature.feature))
    if isinstance(feature, FeaturesDict):
        return feature.with_features({key: as_files(child) for key, child in feature.items()})
    return feature.stored() if feature.file_kind else feature


def text_of(data: bytes, name: str) -> str:
    """Returns the text that bytes are.

    Raises:
        FeatureValueError: they are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FeatureValueError(
            f"{name}: {data[:40]!r} is not text: {error}. Name the feature in binary= (--binary {name}) to have bytes, "
            "or leave it out."
        ) from None


def items_of(value: Any) -> Any:
    """Returns the items of a decoded sequence, in order: of a dict of sequences, dicts.

    >>> items_of({"a": [1, 2], "b": [3, 4]})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]
    """
    if not isinstance(value, dict):
        return value
    columns = {key: items_of(column) for key, column in value.items()}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]
