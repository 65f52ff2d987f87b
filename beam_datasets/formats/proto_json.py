"""JSON form of protocol buffer messages, as protobuf writes it: names in camelCase, 64-bit integers as strings.

Fields with their default value are left out. Names in snake_case, integers as numbers, and null for a missing field can
be read, too. A field that is not in the schema is an error, because its meaning is unknown.

A schema is a type of values: `str`, `int` or `bool`; `object` for any JSON object, which is kept unchanged; `[schema]`
for a list; `{"*": schema}` for a map; any other dict for a message, from the names of its fields in snake_case to their
schemas.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from beam_datasets.arguments import is_unicode
from beam_datasets.errors import MetadataError

Schema: TypeAlias = Any
"""A type, a list of one schema, or a dict of schemas; see the module."""

_EXPECTED = {
    str: "a string",
    int: "an integer of 64 bits, as a string or a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@functools.lru_cache(1024)  # names of fields
def to_camel_case(name: str) -> str:
    """Converts a name in snake_case to camelCase; a name without underscores is unchanged.

    >>> to_camel_case("shard_lengths")
    'shardLengths'
    """
    first, *other_words = name.split("_")
    return first + "".join(map(str.capitalize, other_words))


def parse_int64(value: Any) -> int | None:
    """Returns the 64-bit integer of a JSON number or string; None for None, a missing field.

    >>> parse_int64("-1"), parse_int64(3.0), parse_int64(None)
    (-1, 3, None)

    Raises:
        ValueError: the value is not such an integer, such as "1_0" or 2**63.
    """
    if value is None:
        return None
    is_integer = type(value) is int or (type(value) is float and value.is_integer())
    if is_integer or (type(value) is str and re.fullmatch(r"-?[0-9]{1,19}", value)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    raise ValueError(f"expected an integer of 64 bits, got {value!r:.100}")


def parse_value(schema: Schema, value: Any, field_path: str = "") -> Any:
    """Checks a JSON value against a schema and converts it: messages to dicts by names in snake_case.

    Args:
        schema: the schema; see the module.
        value: the JSON value, as `json.loads` returns it.
        field_path: path of the field that contains the value, such as `splits[0].name`, for errors.

    Raises:
        MetadataError: the value has another type or an unknown field, or a string with half of a surrogate pair.

    >>> parse_value({"splits": [{"num_bytes": int}]}, {"splits": [{"numBytes": "5"}]})
    {'splits': [{'num_bytes': 5}]}
    """
    if schema == [int] and (numbers := _parse_natural_numbers(value)) is not None:
        return numbers
    if isinstance(schema, list):
        items = _check_type(list, value, field_path)
        return [parse_value(schema[0], item, f"{field_path}[{i}]") for i, item in enumerate(items)]
    if schema is object:
        return _check_type(dict, value, field_path)
    if isinstance(schema, dict):
        content: dict[str, Any] = _check_type(dict, value, field_path)
        if "*" not in schema:
            return _parse_fields(schema, content, field_path)
        keys = [parse_value(str, key, f"a key of {field_path}") for key in content]
        return {key: parse_value(schema["*"], content[key], f"{field_path}.{key}") for key in keys}
    if schema is int and value is not None:
        try:
            return parse_int64(value)
        except ValueError:
            raise _type_error(int, value, field_path) from None
    if schema is str and type(value) is str and not is_unicode(value):
        raise MetadataError(expected="text that UTF-8 can express", got=f"{value!r:.100}", field=field_path or None)
    return _check_type(schema, value, field_path)


def _parse_fields(schema: Mapping[str, Schema], content: dict[str, Any], parent_path: str) -> dict[str, Any]:
    """Returns the fields of a message by their names in snake_case; fields that are null are omitted.

    Args:
        schema: name of a field in snake_case -> schema of its value.
        content: the JSON object of the message.
        parent_path: path of the object, for errors; '' for the top level.

    Raises:
        MetadataError: a field is unknown, or occurs both in camelCase and in snake_case.

    >>> _parse_fields({"shard_lengths": [int], "name": str}, {"shardLengths": ["3", "4"], "name": None}, "")
    {'shard_lengths': [3, 4]}
    """
    names = {to_camel_case(name): name for name in schema}
    fields: dict[str, Any] = {}
    for key, item in content.items():
        path = f"{parent_path}.{key}" if parent_path else key
        name = key if key in schema else names.get(key)
        if name is None:
            raise MetadataError(f"it is unknown; known are {', '.join(sorted(names))}", field=path)
        if name in fields:
            raise MetadataError("it is there twice, in camelCase and in snake_case", field=path)
        if item is not None:
            fields[name] = parse_value(schema[name], item, path)
    return fields


def _check_type(kind: type, value: Any, field_path: str) -> Any:
    """Returns a JSON value whose class must be exactly `kind`; raises a MetadataError if it has another class."""
    if type(value) is not kind:
        raise _type_error(kind, value, field_path)
    return value


def _type_error(kind: type, value: Any, field_path: str) -> MetadataError:
    """Returns the error of a field whose value is not of the type `kind`."""
    return MetadataError(expected=_EXPECTED[kind], got=f"{value!r:.100}", field=field_path or None)


def _parse_natural_numbers(value: Any) -> list[int] | None:
    """Parses a list of integers at least 0 at once, as a split may have 100,000 shards.

    Returns:
        The integers; None if the items must be parsed one by one, because one of them may be invalid.

    >>> _parse_natural_numbers(["3", 4]), _parse_natural_numbers(["3", "x"])
    ([3, 4], None)
    """
    if type(value) is not list or not set(map(type, value)) <= {str, int}:
        return None
    digits = "".join(map(str, value))
    if digits and not (digits.isascii() and digits.isdigit()):  # int() takes "1_0", " 5 " and other digits
        return None
    try:
        numbers = list(map(int, value))
    except ValueError:
        return None
    return numbers if 0 <= min(numbers, default=0) <= max(numbers, default=0) < 2**63 else None


def to_json(schema: Schema, value: Any) -> Any:
    """Converts a value to JSON, the inverse of `parse_value`: integers become strings, defaults are omitted.

    >>> to_json({"num_bytes": int, "name": str}, {"num_bytes": 5, "name": ""})
    {'numBytes': '5'}
    """
    if schema is int:
        return str(value)
    if isinstance(schema, list):
        return [to_json(schema[0], item) for item in value]
    if not isinstance(schema, dict):
        return value
    if "*" in schema:
        return {key: to_json(schema["*"], item) for key, item in value.items()} or None
    # Default values are left out, except messages and the one choice of several.
    non_defaults = {k: v for k, v in value.items() if v or isinstance(v, Mapping) or k == "feature_key"}
    json_values = {to_camel_case(name): to_json(schema[name], item) for name, item in non_defaults.items()}
    return {name: item for name, item in json_values.items() if item is not None}
