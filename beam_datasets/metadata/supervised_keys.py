"""Supervised keys: the features that `as_supervised` yields, such as `("image", "label")`.

They are a tuple (input, target) or (input, target, sample weight). Each is a *nest*: the name of a feature, or a tuple
or dict of nests. In dataset_info.json they are messages, which this module reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_datasets.errors import MetadataError, did_you_mean

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


Nest: TypeAlias = "str | tuple[Nest, ...] | dict[str, Nest]"
"""The name of a feature, or a tuple or dict of nests."""

SupervisedKeys: TypeAlias = "tuple[Nest, ...]"
"""(input, target) or (input, target, sample weight)."""


def read_supervised_keys(values: Mapping[str, Any]) -> SupervisedKeys:
    """Converts the field `supervised_keys` of dataset_info.json, a message, to supervised keys.

    >>> read_supervised_keys({"tuple": {"items": [{"feature_key": "image"}, {"feature_key": "label"}]}})
    ('image', 'label')

    Raises:
        MetadataError: an item has none of the known fields.
    """
    if values.get("input") and values.get("output"):  # of old files
        return values["input"], values["output"]
    return tuple(map(_read_nest, values.get("tuple", {}).get("items", [])))


def _read_nest(values: Mapping[str, Any]) -> Nest:
    """Converts a message to a nest; the inverse of `_write_nest`.

    Raises:
        MetadataError: the item has none of the known fields.
    """
    if "tuple" in values:
        return tuple(map(_read_nest, values["tuple"].get("items", [])))
    if "dict" in values:
        return {key: _read_nest(nest) for key, nest in sorted(values["dict"].get("dict", {}).items())}
    if "feature_key" in values:
        name: str = values["feature_key"]
        return name
    raise MetadataError("an item has neither featureKey nor tuple nor dict", field="supervisedKeys")


def write_supervised_keys(keys: SupervisedKeys) -> dict[str, Any]:
    """Converts supervised keys to the message of dataset_info.json; the inverse of `read_supervised_keys`.

    Raises:
        ValueError: there are not 2 or 3 keys, or they contain something other than tuples, dicts and names.
    """
    if not isinstance(keys, tuple) or len(keys) not in (2, 3):
        raise ValueError(f"supervised_keys is {keys!r}; needed: a tuple of 2 or 3, such as ('image', 'label').")
    return _write_nest(keys)


def _write_nest(nest: Nest) -> dict[str, Any]:
    """Converts a nest to its message.

    Raises:
        ValueError: the nest contains a value of another type.

    >>> _write_nest(("image", "label"))
    {'tuple': {'items': [{'feature_key': 'image'}, {'feature_key': 'label'}]}}
    """
    if isinstance(nest, str):
        return {"feature_key": nest}
    if isinstance(nest, tuple):
        return {"tuple": {"items": [_write_nest(item) for item in nest]}}
    if isinstance(nest, dict):
        return {"dict": {"dict": {key: _write_nest(item) for key, item in nest.items()}}}
    raise ValueError(f"supervised_keys contains {nest!r} of type {type(nest).__name__}; needed: str, tuple or dict.")


def names_in(nest: Nest) -> list[str]:
    """Returns the names of the features in a nest, in order.

    >>> names_in(({"a": "image", "b": "text"}, "label"))
    ['image', 'text', 'label']
    """
    if isinstance(nest, str):
        return [nest]
    return [name for value in (nest.values() if isinstance(nest, Mapping) else nest) for name in names_in(value)]


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a feature in an example, or in another nested dict by features.

    Args:
        values: a dict by names, such as an example; or its value for a prefix of the name.
        name: name of the feature; 'a/b' is 'b' in the dict 'a', unless there is a feature 'a/b'.

    Raises:
        KeyError, TypeError: there is no such value.

    >>> value_at({"a": {"b": 5}}, "a/b")
    5
    """
    if "/" not in name or name in values:
        return values[name]
    first, _, inner_name = name.partition("/")
    return value_at(values[first], inner_name)


def check_supervised_keys(
    keys: SupervisedKeys, features: FeatureConnector | None = None, *, path: str | None = None
) -> None:
    """Checks the form of supervised keys, and that the dataset has the features that they name.

    Args:
        keys: the supervised keys.
        features: features of the dataset; None to check only the form.
        path: the file from which the keys were read, for errors; None if code defines them.

    Raises:
        ValueError: the keys are invalid, and `path` is None. The message has a similar name of a feature, if any.
        MetadataError: the keys are invalid, and come from a file.
    """
    from beam_datasets.features import FeaturesDict, Sequence

    write_supervised_keys(keys)
    feature_tree: Any = features.feature if isinstance(features, Sequence) else features
    for name in names_in(keys) if isinstance(feature_tree, FeaturesDict) else ():
        try:
            value_at(feature_tree, name)
        except (KeyError, TypeError):
            text = (
                f"supervised_keys is {keys!r}, but the dataset has no feature {name!r}; the features are "
                f"{', '.join(feature_tree) or 'none'}.{did_you_mean(name, feature_tree)}"
            )
            raise (ValueError(text) if path is None else MetadataError(text, path=path)) from None
