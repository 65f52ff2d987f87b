"""The text of dataset_info.json, by a table of its fields.

It is the JSON form of a protocol buffer message, as TensorFlow Datasets writes it: names in camelCase, 64-bit integers
as strings, fields with their default value left out, keys sorted, indented by 2, ASCII, no newline at the end. The
reader also takes names in snake_case, integers as numbers, and null for a field that is not there; a field that is not
in the table is an error, because what it would mean is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from beam_datasets.arguments import is_unicode
from beam_datasets.errors import MetadataError

_CHOICES = ("feature_key",)
Codec: TypeAlias = "tuple[Callable[[Any, str], Any], Callable[[Any], Any]]"  # (read(value, where), write(value))


def to_text(values: Mapping[str, Any]) -> str:
    """Returns the text of dataset_info.json for values by their names in snake_case."""
    return json.dumps(_INFO[1](values), indent=2, sort_keys=True)


def from_text(text: str | bytes, *, path: str) -> dict[str, Any]:
    """Returns the values in a dataset_info.json by their names in snake_case, those that are there.

    Args:
        text: the file's content.
        path: the file, for errors.

    Raises:
        MetadataError: the text is not JSON, a value is of a wrong type, or a field is unknown; the message names it.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"{path} is no JSON: {error}.") from error
    try:
        return dict(_INFO[0](content, ""))
    except MetadataError as error:
        raise MetadataError(f"{path}: {error}") from None


def camel_case(name: str) -> str:
    """Returns a field's name as it is written.

    >>> camel_case("shard_lengths")
    'shardLengths'
    """
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _typed(kind: type, what: str) -> Codec:
    def read(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise MetadataError(f"field {where!r} is {value!r:.100}; needed: {what}.")
        return value

    return read, lambda value: value


def _read_text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise MetadataError(f"field {where!r} is {value!r:.100}; needed: a string.")
    if not is_unicode(value):
        raise MetadataError(
            f"field {where!r} is {value!r:.100}, with half of a surrogate pair, which UTF-8 cannot express."
        )
    return value


def _read_int(value: Any, where: str) -> int:
    kind = type(value)
    is_integer = kind is int or (kind is float and value.is_integer())
    if is_integer or (kind is str and re.fullmatch(r"-?[0-9]{1,19}", value)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    raise MetadataError(f"field {where!r} is {value!r:.100}; needed: an integer of 64 bits, as a string or a number.")


def _read_ints(value: Any, where: str) -> list[int]:
    if type(value) is list and set(map(type, value)) <= {str, int}:
        try:
            numbers = list(map(int, value))  # a split may have 100,000 shards
        except ValueError:
            numbers = [-1]
        if 0 <= min(numbers, default=0) <= max(numbers, default=0) < 2**63:
            return numbers  # else the slow way names the item
    return _repeated(_INT)[0](value, where)  # type: ignore[no-any-return]


def _repeated(codec: Codec) -> Codec:
    read_item, write_item = codec

    def read(value: Any, where: str) -> list[Any]:
        items = _LIST[0](value, where)
        return [read_item(item, f"{where}[{i}]") for i, item in enumerate(items)]

    return read, lambda value: [write_item(item) for item in value]


def _map(codec: Codec) -> Codec:
    read_item, write_item = codec

    def read(value: Any, where: str) -> dict[str, Any]:
        items = _OBJECT[0](value, where).items()
        return {_read_text(key, f"a key of {where}"): read_item(item, f"{where}.{key}") for key, item in items}

    return read, lambda value: {key: write_item(item) for key, item in value.items()} or None


def _message(fields: Mapping[str, Codec]) -> Codec:
    names = {camel_case(name): name for name in fields} | {name: name for name in fields}
    camel = {name: camel_case(name) for name in fields}

    def read(value: Any, where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in _OBJECT[0](value, where).items():
            place = f"{where}.{key}" if where else key
            name = names.get(key)
            if name is None:
                raise MetadataError(f"field {place!r} is unknown; known are {', '.join(sorted(camel.values()))}.")
            if name in found:
                raise MetadataError(f"field {place!r} is there twice, in camelCase and in snake_case.")
            if item is not None:
                found[name] = fields[name][0](item, place)
        return found

    def write(values: Mapping[str, Any]) -> dict[str, Any]:
        # Default values are left out, but for messages and for what is one choice of several.
        kept = {
            name: value for name, value in values.items() if value or isinstance(value, Mapping) or name in _CHOICES
        }
        written = {camel[name]: fields[name][1](value) for name, value in kept.items()}
        return {name: value for name, value in written.items() if value is not None}

    return read, write


def _nest_codec() -> Codec:
    # A nest may hold nests, so its table can only be closed once it exists.
    fields: dict[str, Codec] = {"feature_key": _STRING}
    nest = _message_of(fields)
    fields["tuple"] = _message({"items": _repeated(nest)})
    fields["dict"] = _message({"dict": _map(nest)})
    return nest


def _message_of(fields: Mapping[str, Codec]) -> Codec:
    return (lambda value, where: _message(fields)[0](value, where)), (lambda values: _message(fields)[1](values))


_STRING: Codec = (_read_text, lambda value: value)
_BOOL = _typed(bool, "true or false")
_LIST = _typed(list, "a list")
_OBJECT = _typed(dict, "an object")  # also what other systems keep in the file: it is carried along as it is
_INT: Codec = (_read_int, str)
_INTS: Codec = (_read_ints, lambda value: list(map(str, value)))
_STRINGS = _repeated(_STRING)

_SPLIT = _message(
    {
        "name": _STRING,
        "num_shards": _INT,
        "shard_lengths": _INTS,
        "num_bytes": _INT,
        "statistics": _OBJECT,
        "filepath_template": _STRING,
    }
)
_TUPLE = _message({"items": _repeated(_nest_codec())})
_DATASET_REFERENCE = _message(
    dict.fromkeys(("name", "config", "version", "data_dir", "ds_namespace", "split"), _STRING)
)
_SOURCE_ACCESS = _message(
    {
        "access_timestamp_ms": _INT,
        "file_system": _message({"path": _STRING}),
        "sql_query": _message({"sql_query": _STRING}),
        "tfds_dataset": _DATASET_REFERENCE,
        "url": _message({"url": _STRING, "checksum": _STRING}),
    }
)
_INFO = _message(
    {
        "name": _STRING,
        "description": _STRING,
        "version": _STRING,
        "release_notes": _map(_STRING),
        "config_name": _STRING,
        "config_description": _STRING,
        "config_tags": _STRINGS,
        "features": _OBJECT,
        "citation": _STRING,
        "size_in_bytes": _INT,
        "download_size": _INT,
        "location": _message({"urls": _STRINGS}),
        "download_checksums": _map(_STRING),
        "schema": _OBJECT,
        "splits": _repeated(_SPLIT),
        "supervised_keys": _message({"input": _STRING, "output": _STRING, "tuple": _TUPLE}),
        "redistribution_info": _message({"license": _STRING}),
        "module_name": _STRING,
        "disable_shuffling": _BOOL,
        "file_format": _STRING,
        "alternative_file_formats": _STRINGS,
        "data_source_accesses": _repeated(_SOURCE_ACCESS),
        "is_blocked": _STRING,
        "nondeterministic_order": _BOOL,
    }
)
