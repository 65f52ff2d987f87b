"""Supervised keys: nested tuples, dicts and names of features, which say what `as_supervised` yields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from beam_datasets.errors import MetadataError
from beam_datasets.metadata.names import did_you_mean

SupervisedKeys: TypeAlias = "tuple[Any, ...]"


def read_supervised_keys(values: Mapping[str, Any]) -> SupervisedKeys:
    """Returns supervised keys from the field of the same name of dataset_info.json."""
    if values.get("input") and values.get("output"):  # how old files have it
        return values["input"], values["output"]
    return tuple(map(_read_nest, values.get("tuple", {}).get("items", [])))


def _read_nest(values: Mapping[str, Any]) -> Any:
    if "tuple" in values:
        return tuple(map(_read_nest, values["tuple"].get("items", [])))
    if "dict" in values:
        return {key: _read_nest(nest) for key, nest in sorted(values["dict"].get("dict", {}).items())}
    if "feature_key" in values:
        return values["feature_key"]
    raise MetadataError("field 'supervisedKeys' has an item without featureKey, tuple or dict.")


def write_supervised_keys(keys: SupervisedKeys) -> dict[str, Any]:
    """Returns the field of supervised keys; the inverse of `read_supervised_keys`.

    Raises:
        ValueError: they are not 2 or 3 keys, or not of tuples, dicts and names.
    """
    if not isinstance(keys, tuple) or len(keys) not in (2, 3):
        raise ValueError(f"supervised_keys is {keys!r}; needed: a tuple of 2 or 3, such as ('image', 'label').")
    return _write_nest(keys)


def _write_nest(nest: Any) -> dict[str, Any]:
    if isinstance(nest, str):
        return {"feature_key": nest}
    if isinstance(nest, tuple):
        return {"tuple": {"items": [_write_nest(item) for item in nest]}}
    if isinstance(nest, dict):
        return {"dict": {"dict": {key: _write_nest(item) for key, item in nest.items()}}}
    raise ValueError(f"supervised_keys holds {nest!r} of type {type(nest).__name__}; needed: str, tuple or dict.")


def names_in(nest: Any) -> list[str]:
    """Returns the names of features in supervised keys.

    >>> names_in(({"a": "image", "b": "text"}, "label"))
    ['image', 'text', 'label']
    """
    if isinstance(nest, str):
        return [nest]
    return [name for value in (nest.values() if isinstance(nest, Mapping) else nest) for name in names_in(value)]


def check_supervised_keys(keys: SupervisedKeys | None, features: Any = None, *, path: str | None = None) -> None:
    """Checks that supervised keys are of the right form, and name features of these, where they are given.

    Args:
        keys: to be checked.
        features: of the dataset.
        path: the file that the keys were read from; None where code says them.

    Raises:
        ValueError: they do not fit; the message says what may have been meant.
        MetadataError: likewise, of a file.
    """
    from beam_datasets.features import FeaturesDict, Sequence

    if keys is None:
        return
    write_supervised_keys(keys)
    known: Any = features.feature if isinstance(features, Sequence) else features
    for name in names_in(keys) if isinstance(known, FeaturesDict) else ():
        if name not in known:
            text = (
                f"supervised_keys is {keys!r}, but there is no feature {name!r}; the features are "
                f"{', '.join(known) or 'none'}.{did_you_mean(name, known)}"
            )
            raise ValueError(text) if path is None else MetadataError(f"{path}: {text}")
