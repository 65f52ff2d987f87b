"""The leaves of a feature tree, and their values in a block of records, by columns.

Images and files are read as they are stored; the header of an image has its size.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.features import Audio, ClassLabel, FeaturesDict, Image, RaggedArray, Sequence, UnknownFeature
from beam_datasets.features.base import dtype_of, shape_of
from beam_datasets.features.columns import compile_batch_decoder, compile_block_decoder
from beam_datasets.features.compiler import compile_decoder
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import join
from beam_datasets.features.translation import TranslationVariableLanguages

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.features.base import FeatureConnector

NUMBER, LABEL, TEXT, IMAGE, FILE = "number", "label", "text", "image", "file"


@dataclass(frozen=True)
class Leaf:
    """A feature that has no features below it.

    Attributes:
        keys: the names of the dicts' entries from the top to it.
        kind: `NUMBER`, `LABEL`, `TEXT`, `IMAGE` or `FILE`.
        feature: the connector.
        sequences: number of sequences around it.
        fixed_size: whether each example has the same number of values.
    """

    keys: tuple[str, ...]
    kind: str
    feature: FeatureConnector
    sequences: int
    fixed_size: bool

    @property
    def path(self) -> str:
        """The keys with slashes between."""
        return "/".join(self.keys)

    def is_below(self, path: str) -> bool:
        """Returns whether the leaf is the feature of a path, or below it."""
        return any("/".join(self.keys[: count + 1]) == path for count in range(len(self.keys)))

    def value_of(self, example: Any) -> Any:
        """Returns the leaf's value in an example."""
        for key in self.keys:
            example = example[key]
        return example

    @property
    def type(self) -> str:
        """The type in a word, with `[]` for each sequence around it."""
        dtype = dtype_of(self.feature)
        name = self.kind if self.kind in (IMAGE, LABEL, TEXT) else type(self.feature).__name__.lower()
        if self.kind == NUMBER:
            shape = shape_of(self.feature)
            name = dtype.name + ("[" + ",".join("?" if n is None else str(n) for n in shape) + "]" if shape else "")
        return name + "[]" * self.sequences


@dataclass(frozen=True)
class Column:
    """The values of a leaf in a block of records.

    Attributes:
        present: the indices in the block of the records that have the feature.
        values: all values in order: numbers, or a list of bytes.
        counts: number of values of each of these records; an integer if all have the same number.
        lengths: number of items of the outermost sequence of each; None if that is fixed.
    """

    present: NDArray[np.int64]
    values: Any
    counts: NDArray[np.int64] | int
    lengths: NDArray[np.int64] | None = None


def leaves_of(feature: FeatureConnector) -> tuple[list[Leaf], list[str]]:
    """Returns the leaves of a tree, and the paths of features of unknown classes."""
    leaves: list[Leaf] = []
    unknown: list[str] = []

    def visit(node: FeatureConnector, keys: tuple[str, ...], sequences: int) -> None:
        if isinstance(node, FeaturesDict):
            for name, child in node.items():
                visit(child, (*keys, name), sequences)
        elif isinstance(node, Sequence):
            visit(node.feature, keys, sequences + 1)
        elif isinstance(node, TranslationVariableLanguages):
            visit(node.inner(), keys, sequences)
        elif isinstance(node, UnknownFeature):
            unknown.append("/".join(keys))
        else:
            leaves.append(Leaf(keys, _kind(node), node, sequences, not sequences and _has_fixed_size(node)))

    visit(feature, (), 0)
    return leaves, unknown


def _kind(feature: FeatureConnector) -> str:
    if isinstance(feature, ClassLabel):
        return LABEL
    if isinstance(feature, Image):
        return IMAGE
    if isinstance(feature, Audio) and feature.lazy_decode:
        return FILE
    return TEXT if dtype_of(feature) == STRING else NUMBER


def _has_fixed_size(feature: FeatureConnector) -> bool:
    if isinstance(feature, (Audio, Image)):
        return isinstance(feature, Image)
    shape = shape_of(feature)
    missing = shape and getattr(feature, "is_optional", False)  # a number or a text that is missing leaves a None
    return None not in shape and not missing


def stored_tree(feature: FeatureConnector, paths: set[str], path: str = "") -> FeatureConnector | None:
    """Returns the features to read, reduced to some leaves; None if there are none."""
    if isinstance(feature, FeaturesDict):
        children = {name: stored_tree(child, paths, join(path, name)) for name, child in feature.items()}
        kept = {name: child for name, child in children.items() if child is not None}
        return FeaturesDict(kept) if kept else None
    if isinstance(feature, Sequence):  # a Video and a Dataset too, which are stored as sequences are
        item = stored_tree(feature.feature, paths, path)
        return None if item is None else Sequence(item, feature.length)
    if isinstance(feature, TranslationVariableLanguages):
        return stored_tree(feature.inner(), paths, path)
    if path not in paths or isinstance(feature, UnknownFeature):
        return None
    return feature.stored() if _kind(feature) in (IMAGE, FILE) else feature


def compile_columns(feature: FeatureConnector, leaves: list[Leaf]) -> Callable[[list[Any]], list[Column]]:
    """Returns the function from records to the columns of the leaves.

    Args:
        feature: of the dataset.
        leaves: which leaves of it.
    """
    even = stored_tree(feature, {leaf.path for leaf in leaves if leaf.fixed_size})
    uneven = stored_tree(feature, {leaf.path for leaf in leaves if not leaf.fixed_size})
    batch = None if even is None else compile_batch_decoder(even)
    decode = _many_decoder(uneven)

    def columns(records: list[Any]) -> list[Column]:
        whole = batch(records) if batch else None
        examples = decode(records)
        return [
            _of_batch(leaf.value_of(whole))
            if leaf.fixed_size
            else _of_examples(list(map(leaf.value_of, examples)), leaf)
            for leaf in leaves
        ]

    return columns


def _many_decoder(tree: FeatureConnector | None) -> Callable[[list[Any]], list[Any]]:
    """Returns the function from records to examples; many at once if the features allow it."""
    if tree is None:
        return lambda records: []
    one, many = compile_decoder(tree), compile_block_decoder(tree)

    def decode(records: list[Any]) -> list[Any]:
        if many is not None:
            with contextlib.suppress(ValueError):  # one by one, the error is the record's
                return many(records)
        return list(map(one, records))

    return decode


def _of_batch(column: NDArray[Any]) -> Column:
    """Returns the column of an array whose first dimension is the batch."""
    everyone = np.arange(len(column))
    if column.dtype != STRING:
        return Column(everyone, column.reshape(-1), column.size // len(column))
    if column.ndim > 1:
        return Column(everyone, column.reshape(-1).tolist(), column.size // len(column))
    values = column.tolist()
    if None in values:
        everyone = np.flatnonzero([value is not None for value in values])
        values = [value for value in values if value is not None]
    return Column(everyone, values if not values or isinstance(values[0], bytes) else np.array(values), 1)


def _of_examples(values: list[Any], leaf: Leaf) -> Column:
    """Returns the column of the values of each record."""
    present = np.flatnonzero([value is not None for value in values])
    some = [value for value in values if value is not None]
    flat = [value.flat_values if isinstance(value, RaggedArray) else value for value in some]
    lengths = np.fromiter((np.shape(value)[0] for value in some), np.int64, len(some))
    if dtype_of(leaf.feature) == STRING or leaf.kind in (IMAGE, FILE):
        lists = [_list(value) for value in flat]
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        return Column(present, list(chain.from_iterable(lists)), counts, lengths)
    parts = [part for value in flat for part in _arrays(value)]
    counts = np.fromiter((sum(part.size for part in _arrays(value)) for value in flat), np.int64, len(flat))
    numbers = np.concatenate([part.reshape(-1) for part in parts]) if parts else np.zeros(0, dtype_of(leaf.feature))
    return Column(present, numbers, counts, lengths)


def _arrays(value: Any) -> list[NDArray[Any]]:
    """Returns the arrays of a value: one, or one per item if shapes differ."""
    if isinstance(value, np.ndarray) and value.dtype != STRING:
        return [value]
    return [array for item in value for array in _arrays(np.asarray(item) if not isinstance(item, list) else item)]


def _list(value: Any) -> list[bytes]:
    if isinstance(value, np.ndarray):
        return value.reshape(-1).tolist()
    return [item for part in value for item in ([part] if isinstance(part, bytes) else _list(part))]
