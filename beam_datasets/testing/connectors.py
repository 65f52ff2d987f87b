"""A check of user-defined connectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import features as F
from beam_datasets.diffing.features import identical
from beam_datasets.errors import FeatureValueError
from beam_datasets.features.base import to_feature
from beam_datasets.features.config import from_json_text, to_json_text
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.numbers import shape_fits

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


def check_connector(feature: Any, values: Iterable[Any]) -> list[Any]:
    """Encodes and decodes values with a connector, checks the result, and returns the decoded values.

    The values are decoded by a connector that is created from features.json, as in another process. They are tested
    alone and, if the connector can be in sequences, as items of a sequence and of a sequence of sequences.

    Args:
        feature: the connector.
        values: valid values of the feature, at least one. Values that contain None are only tested alone.

    Raises:
        AssertionError: features.json describes another connector; two encodings of a value differ; a value does not
            have the shape and dtype that the connector declares; or an item of a sequence is decoded to another value.
        FeatureError: a value cannot be encoded or decoded, or the class is not registered.
        ValueError: `values` is empty.
    """
    connector = to_feature(feature)
    examples, decoded = list(values), []
    if not examples:
        raise ValueError("values: expected at least one, got none")
    for value in examples:
        decoded.append(_round_trip(connector, value))
        _check_declared(decoded[-1], connector.decoded(), repr(connector))
    items = [index for index, value in enumerate(decoded) if _is_complete(value)]
    _check_items(connector, [examples[index] for index in items], [decoded[index] for index in items])
    return decoded


def _check_items(connector: Any, values: list[Any], expected: list[Any]) -> None:
    """Checks that values in sequences are decoded like single values; raises an AssertionError if not.

    Args:
        connector: the connector.
        values: valid values of the feature.
        expected: the decoded form of each value alone.
    """
    many = F.Sequence(connector)
    for tree, nested in ((many, values), (F.Sequence(many), [[], values])):
        if not _can_be_encoded(tree):
            break
        empty = _round_trip(tree, [])
        if tree is many:
            _check_declared(empty, connector.decoded(), f"{tree!r} without items", 0)
        items = _round_trip(tree, nested)
        items = items if tree is many else _item(items, 1)
        for index, alone in enumerate(expected):
            assert identical(item := _item(items, index), alone), (
                f"{connector!r}: expected item {index} of {tree!r:.200} to be read as the value alone, {alone!r:.200}, "
                f"got {item!r:.200}"
            )


def _can_be_encoded(tree: FeatureConnector) -> bool:
    """Returns whether values of these features can be read again: not arrays of any length in a sequence."""
    try:
        F.compile_encoder({"value": tree})
    except FeatureValueError:
        return False
    return True


def _round_trip(feature: Any, value: Any) -> Any:
    """Returns the value that is decoded after encoding a value."""
    tree = F.FeaturesDict({"value": feature})
    encode = F.compile_encoder(tree)
    record = encode({"value": value})
    assert encode({"value": value}) == record, f"{value!r:.200}: expected the same bytes each time, got others"
    read: Any = from_json_text(to_json_text(tree))
    assert read.to_json() == tree.to_json(), f"expected {tree!r} of features.json, got {read!r}"
    return F.compile_decoder(read.load_labels(tree.label_files().get))(record)["value"]


def _is_complete(value: Any) -> bool:
    """Returns whether a value has no None in it, which items of a sequence cannot have."""
    return all(map(_is_complete, value.values())) if isinstance(value, dict) else value is not None


def _item(items: Any, index: int) -> Any:
    """Returns an item of a decoded sequence; of dicts, a dict."""
    return {name: _item(column, index) for name, column in items.items()} if isinstance(items, dict) else items[index]


def _check_declared(value: Any, feature: Any, label: str, *lengths: int) -> None:
    """Checks that a value, or an array of such values, has the structure, the shapes and the dtypes of features."""
    if isinstance(feature, F.FeaturesDict):
        names = sorted(value) if isinstance(value, dict) else type(value).__name__
        assert names == sorted(feature), (
            f"{label}: expected a dict of {sorted(feature)}, as declared, got {names!r:.200}"
        )
        for name, child in feature.items():
            _check_declared(value[name], child, f"{label}, {name!r}", *lengths)
    elif lengths and isinstance(value, list):
        return  # items whose shapes may differ: each is compared with the value alone
    elif not isinstance(feature, F.Sequence) and not (value is None and feature.is_optional):
        array, shape = np.asarray(value), (*lengths, *feature.shape)
        is_bytes = all(isinstance(item, bytes) for item in array.ravel().tolist())
        fits = is_bytes if feature.dtype == STRING else array.dtype == feature.dtype
        assert fits and shape_fits(array.shape, shape), (  # noqa: PT018  # one message for both
            f"{label}: expected {'bytes' if feature.dtype == STRING else feature.dtype} of shape {shape}, as "
            f"declared, got {array.dtype} of shape {array.shape}: {value!r:.200}"
        )
