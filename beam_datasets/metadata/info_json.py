"""The text of dataset_info.json, by a schema of its fields.

It is the JSON form of a protocol buffer message, as TensorFlow Datasets writes it: names in camelCase, 64-bit integers
as strings, fields with their default value left out, keys sorted, indented by 2, ASCII, no newline at the end. The
reader also accepts names in snake_case, integers as numbers, and null for a missing field; a field that is not in the
schema is an error, because its meaning is unknown.

In a schema `str`, `int` and `bool` are values, `object` is any JSON object, which is kept as it is, `[schema]` a list,
`{"*": schema}` a map, and any other dict a message with these fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from beam_datasets.arguments import is_unicode
from beam_datasets.errors import MetadataError
from beam_datasets.metadata.names import did_you_mean

_NEST: dict[str, Any] = {"feature_key": str}
_NEST |= {"tuple": {"items": [_NEST]}, "dict": {"dict": {"*": _NEST}}}
_SPLIT = {
    "name": str,
    "num_shards": int,
    "shard_lengths": [int],
    "num_bytes": int,
    "statistics": object,
    "filepath_template": str,
}
_SOURCE_ACCESS = {
    "access_timestamp_ms": int,
    "file_system": {"path": str},
    "sql_query": {"sql_query": str},
    "tfds_dataset": dict.fromkeys(("name", "config", "version", "data_dir", "ds_namespace", "split"), str),
    "url": {"url": str, "checksum": str},
}
_INFO = {
    "name": str,
    "description": str,
    "version": str,
    "release_notes": {"*": str},
    "config_name": str,
    "config_description": str,
    "config_tags": [str],
    "features": object,
    "citation": str,
    "size_in_bytes": int,
    "download_size": int,
    "location": {"urls": [str]},
    "download_checksums": {"*": str},
    "schema": object,
    "splits": [_SPLIT],
    "supervised_keys": {"input": str, "output": str, "tuple": {"items": [_NEST]}},
    "redistribution_info": {"license": str},
    "module_name": str,
    "disable_shuffling": bool,
    "file_format": str,
    "alternative_file_formats": [str],
    "data_source_accesses": [_SOURCE_ACCESS],
    "is_blocked": str,
    "nondeterministic_order": bool,
}
_EXPECTED = {str: "a string", int: "an integer of 64 bits, as a string or a number", bool: "true or false"}


def to_text(values: Mapping[str, Any]) -> str:
    """Returns the text of dataset_info.json for values by their names in snake_case."""
    return json.dumps(_write(_INFO, values), indent=2, sort_keys=True)


def from_text(text: str | bytes, *, path: str) -> dict[str, Any]:
    """Returns the values in a dataset_info.json by their names in snake_case, without fields that are missing.

    Args:
        text: the file's content.
        path: the file, for errors.

    Raises:
        MetadataError: the text is not JSON, a value is of a wrong type, or a field is unknown; the message names it.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"{path} is not JSON: {error}.") from error
    try:
        return dict(_read(_INFO, content, ""))
    except MetadataError as error:
        raise MetadataError(f"{path}: {error}") from None


def camel_case(name: str) -> str:
    """Returns a field's name as it is written.

    >>> camel_case("shard_lengths")
    'shardLengths'
    """
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _read(schema: Any, value: Any, where: str) -> Any:
    if schema == [int] and (numbers := _integers(value)) is not None:
        return numbers
    if isinstance(schema, list):
        return [_read(schema[0], item, f"{where}[{i}]") for i, item in enumerate(_of_type(list, value, where))]
    if schema is object:
        return _of_type(dict, value, where)
    if isinstance(schema, dict):
        content: dict[str, Any] = _of_type(dict, value, where)
        return _read_map(schema["*"], content, where) if "*" in schema else _read_message(schema, content, where)
    if schema is int:
        number = _integer(value)
        if number is None:
            raise _wrong(where, value, _EXPECTED[int])
        return number
    if schema is str and type(value) is str and not is_unicode(value):
        raise MetadataError(
            f"field {where!r} is {value!r:.100}, with half of a surrogate pair, which UTF-8 cannot express."
        )
    return _of_type(schema, value, where)


def _read_map(schema: Any, content: dict[str, Any], where: str) -> dict[str, Any]:
    keys = [_read(str, key, f"a key of {where}") for key in content]
    return {key: _read(schema, content[key], f"{where}.{key}") for key in keys}


def _read_message(schema: Mapping[str, Any], content: dict[str, Any], where: str) -> dict[str, Any]:
    names = {camel_case(name): name for name in schema} | {name: name for name in schema}
    found: dict[str, Any] = {}
    for key, item in content.items():
        place = f"{where}.{key}" if where else key
        name = names.get(key)
        if name is None:
            known = ", ".join(sorted(map(camel_case, schema)))
            raise MetadataError(f"field {place!r} is unknown; known are {known}.")
        if name in found:
            raise MetadataError(f"field {place!r} is there twice, in camelCase and in snake_case.")
        if item is not None:
            found[name] = _read(schema[name], item, place)
    return found


def _of_type(kind: Any, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise _wrong(where, value, {list: "a list", dict: "an object"}.get(kind) or _EXPECTED[kind])
    return value


def _wrong(where: str, value: Any, expected: str) -> MetadataError:
    return MetadataError(f"field {where!r} is {value!r:.100}; needed: {expected}.")


def _integer(value: Any) -> int | None:
    kind = type(value)
    is_integer = kind is int or (kind is float and value.is_integer())
    if is_integer or (kind is str and re.fullmatch(r"-?[0-9]{1,19}", value)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    return None


def _integers(value: Any) -> list[int] | None:
    """Returns a list of integers read at once, as a split may have 100,000 shards; None if one must be looked at."""
    if type(value) is not list or not set(map(type, value)) <= {str, int}:
        return None
    try:
        numbers = list(map(int, value))
    except ValueError:
        return None
    return numbers if 0 <= min(numbers, default=0) <= max(numbers, default=0) < 2**63 else None


def _write(schema: Any, value: Any) -> Any:
    if schema is int:
        return str(value)
    if isinstance(schema, list):
        return [_write(schema[0], item) for item in value]
    if not isinstance(schema, dict):
        return value
    if "*" in schema:
        return {key: _write(schema["*"], item) for key, item in value.items()} or None
    # Default values are left out, except messages and the one choice of several.
    kept = {k: v for k, v in value.items() if v or isinstance(v, Mapping) or k == "feature_key"}
    written = {camel_case(name): _write(schema[name], item) for name, item in kept.items()}
    return {name: item for name, item in written.items() if item is not None}


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


def value_at(nest: Any, name: str) -> Any:
    """Returns the item of a nest of dicts that has a name, or is below others, as 'a/b' is below 'a'.

    Raises:
        KeyError, TypeError: there is none.

    >>> value_at({"a": {"b": 5}}, "a/b")
    5
    """
    if "/" not in name or name in nest:
        return nest[name]
    first, _, rest = name.partition("/")
    return value_at(nest[first], rest)


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
        try:
            value_at(known, name)
        except (KeyError, TypeError):
            text = (
                f"supervised_keys is {keys!r}, but there is no feature {name!r}; the features are "
                f"{', '.join(known) or 'none'}.{did_you_mean(name, known)}"
            )
            raise (ValueError(text) if path is None else MetadataError(f"{path}: {text}")) from None
