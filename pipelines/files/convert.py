"""Closures from what a file holds to what a feature takes, compiled once per column.

Each raises ValueError with what is wrong; the caller knows file, line and column and puts them in front.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.files.floats import survives
from pipelines.files.schema import INTEGERS, Field, advice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Convert = Any  # Callable[[Any], Any]; mypy would want the argument's type at each use

_TRUE, _FALSE = frozenset(("true", "t", "yes", "y", "1")), frozenset(("false", "f", "no", "n", "0"))


class RowError(ValueError):
    """A value of a row does not fit; the message begins with the column."""


def text_converter(field: Field, missing: Collection[str] = ("",), path: str = "") -> Callable[[str], Any]:
    """Returns the function from the text in a column of this name to the value; lists and objects are JSON there."""
    if field.item is not None or field.fields is not None:
        convert = value_converter(field, path)
        return lambda text: convert(_parse_json(text) if text else None)
    convert = _text_scalar(field, path)
    if is_plain_text(field):
        return convert
    absent = -1 if field.kind == "class" else None

    def with_missing(text: str) -> Any:
        if text in missing:
            if not field.optional:
                raise ValueError(_missing(field, path))
            return absent
        return convert(text)

    return with_missing


def _missing(field: Field, path: str) -> str:
    """Returns what is wrong with a value that is not there, and what to do."""
    drop = advice(path.replace("[]", ""), "drop")
    if path.endswith("[]"):
        return f"a missing value inside the list {path.replace('[]', '')!r} cannot be stored; {drop} leaves it out"
    if field.kind == "list":
        empty = advice(path, _optional(field))
        return f"the list is missing; {empty} makes an empty one of it, {drop} leaves all of them out"
    if "[]" in path:
        return f"the value is missing inside a list, where that cannot be stored; {drop} leaves it out"
    return f"the value is missing; if that is right, say so: {advice(path, _optional(field))}"


def _optional(field: Field) -> str:
    """Returns the description of a field that may be missing, in short where that says all."""
    last = field
    while last.item is not None:
        last = last.item
    return "?" if last.exact or last.fields is not None or last.kind == "class" else f"{field}?"


def is_plain_text(field: Field) -> bool:
    """Whether a CSV field's text is the value as it is."""
    return field.kind in ("string", "image") and not field.optional


def _text_scalar(field: Field, path: str) -> Callable[[str], Any]:
    if field.kind in INTEGERS:
        return _integer
    if field.kind.startswith("float"):
        return _exact(_float, field, path) if field.exact else _float
    if field.kind == "bool":
        return _bool
    return _label(field) if field.kind == "class" else str


def _integer(text: str) -> int:
    try:
        if "_" not in text:
            return int(text)
    except ValueError:
        pass
    raise ValueError(f"{text!r:.60} is not an integer")


def _float(text: str) -> float:
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise ValueError(f"{text!r:.60} is not a number")


def _exact(convert: Callable[[Any], float], field: Field, path: str) -> Callable[[Any], float]:
    """Returns a converter that also refuses what float32, which was found in the first rows, does not keep."""
    optional = "?" * field.optional

    def exact(value: Any) -> float:
        number = convert(value)
        if survives(number):
            return number
        raise ValueError(
            f"{value!r:.60} has more digits, or is larger, than float32 keeps, and the rows that the schema was taken "
            f"from have no such number; {advice(path, 'float64' + optional)} keeps it, "
            f"{advice(path, 'float32' + optional)} rounds what it can"
        )

    return exact


def _bool(text: str) -> bool:
    lower = text.strip().lower()
    if lower in _TRUE:
        return True
    if lower in _FALSE:
        return False
    raise ValueError(f"{text!r:.60} is neither true nor false")


def _label(field: Field) -> Callable[[Any], int]:
    labels = tuple(map(str, range(field.labels))) if isinstance(field.labels, int) else field.labels or ()
    index = {label: i for i, label in enumerate(labels)}

    def convert(value: Any) -> int:
        found = None if field.exact and type(value) is int else index.get(str(value))
        if found is None and type(value) is int and -1 <= value < len(labels):
            return value  # an index, as datasets of others hold labels; -1 is none
        if found is None:
            raise ValueError(
                f"{value!r:.60} is none of the {len(index)} labels {list(labels[:5])}{' ...' * (len(index) > 5)}"
            )
        return found

    return convert


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r:.60} is not JSON: {error}") from None


def value_converter(field: Field, path: str = "", dropped: Collection[str] = ()) -> Callable[[Any], Any]:
    """Returns the function from a JSON value to what the feature takes.

    Args:
        field: that it is for.
        path: of the field, for errors: `a/x` is x in object a, `a[]` an item of list a.
        dropped: paths, without `[]`, that are passed over.
    """
    if field.fields is not None:
        return _object(field, field.fields, path, dropped)
    if field.item is not None:
        return _list(field, path, dropped)
    convert = _value_scalar(field, path)
    absent = -1 if field.kind == "class" else None

    def with_missing(value: Any) -> Any:
        if value is None:
            if not field.optional:
                raise ValueError(_missing(field, path))
            return absent
        return convert(value)

    return with_missing


def _value_scalar(field: Field, path: str) -> Callable[[Any], Any]:
    if field.kind in INTEGERS:
        return _whole
    if field.kind.startswith("float"):
        return _exact(_number, field, path) if field.exact else _number
    if field.kind == "bool":
        return _exactly_bool
    if field.kind == "class":
        return _label(field)
    return _text if field.kind == "string" else _image


def _image(value: Any) -> Any:
    """Returns the bytes of an image, also where it is Hugging Face's struct of bytes and path, or {"b64": ...}."""
    if not isinstance(value, dict):
        return value
    if value.keys() == {"b64"}:
        return _from_base64(value["b64"])
    if value.get("bytes") is None:
        raise ValueError(f"the image {value.get('path')!r} is not in the file, but only its path")
    return value["bytes"]


def _whole(value: Any) -> int:
    if type(value) is int or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not an integer")


def _number(value: Any) -> float:
    if type(value) in (int, float):
        return float(value)
    raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not a number")


def _exactly_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise ValueError(f"{value!r:.60} ({type(value).__name__}) is neither true nor false")


def _from_base64(text: Any) -> bytes:
    """Returns the bytes of {"b64": text}, as which exports to JSON lines write them."""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{text!r:.60} is no base64: {error}") from None


def _text(value: Any) -> str | bytes:
    if isinstance(value, dict) and value.keys() == {"b64"}:
        return _from_base64(value["b64"])
    return value if isinstance(value, str | bytes) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _list(field: Field, path: str, dropped: Collection[str]) -> Callable[[Any], list[Any] | None]:
    """Returns the converter of a list, or of lists in lists where it is an array."""
    inner, item = f"{path}[]", field.item or field
    if len(field.shape) > 1:
        item = replace(field, shape=field.shape[1:], optional=False)
    convert = value_converter(item, inner, dropped)

    def each(value: Any) -> list[Any] | None:
        if value is None:
            if not field.optional:
                raise ValueError(_missing(field, path))
            return [] if field.kind == "list" else None
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not a list")
        return [convert(inner) for inner in value]

    return each


def _object(
    field: Field, fields: Mapping[str, Field], path: str, dropped: Collection[str]
) -> Callable[[Any], dict[str, Any]]:
    convert = row_converter(fields, dropped, f"{path}/")
    lists: dict[str, Any] = {name: [] for name, inner in fields.items() if inner.kind == "list"}

    def each(value: Any) -> dict[str, Any]:
        if value is None:
            if not field.optional:
                raise ValueError(_missing(field, path))
            return convert(lists)
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not an object")
        return convert(value)

    return each


def row_converter(
    fields: Mapping[str, Field], dropped: Collection[str] = (), path: str = ""
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Returns the function from a row of JSON to an example.

    Args:
        fields: name -> field of what is kept.
        dropped: names that are passed over, `a/x` inside of objects or lists of them; any other name is an error, for
            its values would be lost.
        path: of the object, with its `/`, where it is inside a row.
    """
    converters = {name: value_converter(field, path + name, dropped) for name, field in fields.items()}
    place = path.replace("[]", "")
    known = {*fields, *(name.removeprefix(place) for name in dropped if name.startswith(place))}

    def convert(row: Mapping[str, Any]) -> dict[str, Any]:
        if not row.keys() <= known:
            name = next(name for name in row if name not in known)
            ways = ["TYPE?"] * ("[]" not in path) + ["drop"]  # inside a list nothing can be missing
            say = " or ".join(advice(place + name, kind) for kind in ways)
            raise RowError(f"{name!r}: the rows that the schema was taken from do not have it; add {say}")
        example = {}
        for name, converter in converters.items():
            try:
                example[name] = converter(row.get(name))
            except ValueError as error:
                raise RowError(f"{name!r}: {error}") from None
        return example

    return convert
