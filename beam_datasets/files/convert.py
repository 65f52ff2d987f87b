"""Functions from the values of a file to the values that features accept, compiled once for each column.

Each raises ValueError with the problem; the caller adds file and line.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import json
import math
import re
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from beam_datasets.files.fields import INTEGERS, UNKNOWN, Field, advice, feature_name
from beam_datasets.files.numerals import PYTHON, Numerals, options_for, options_for_all

Convert = Callable[[Any], Any]
ConvertImage = Callable[[Any, Field, str], Any]
"""From the bytes or the path of an image or a sound, its field and the path of the field, to what is stored."""

_BOOLS = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(("false", "f", "no", "n", "0"), False)
_MIN_NORMAL, _MAX_FLOAT = 1.2e-38, 3.4e38  # between them a float32 has all its 24 bits, and so six digits of any number
_PACKED = {"float16": struct.Struct("<e"), "float32": struct.Struct("<f"), "float64": struct.Struct("<d")}
LEADING_ZERO = re.compile(r"\s*[+-]?0\d")
_MAX_EXACT = 2.0**53 - 1  # up to here every integer is a float64


def survives(number: float, kind: str = "float32") -> bool:
    """Returns whether the float32 (or float16) nearest to a number is the number, or has it as its shortest text.

    >>> [survives(x) for x in (0.1, 1 / 2**30, 3.4028235e38, 16777217.0, 52.123456789, 1e300, float("nan"))]
    [True, True, True, False, False, False, True]
    >>> [survives(x, "float16") for x in (0.1, 0.25, 1 / 3, 65504.0, 1e5)]
    [True, True, False, True, False]
    """
    if number == 0 or number != number:
        return True
    is_normal = kind == "float32" and _MIN_NORMAL < abs(number) < _MAX_FLOAT
    if is_normal and float("%.6g" % number) == number:  # noqa: UP031  # in half the time
        return True
    try:
        [narrow] = _PACKED[kind].unpack(_PACKED[kind].pack(number))
    except OverflowError:
        return False
    return narrow == number or float(str(np.dtype(kind).type(narrow))) == number


def value_converter(
    field: Field,
    path: str = "",
    dropped_paths: Collection[str] = (),
    image: ConvertImage | None = None,
    missing: Collection[str] | None = None,
    numerals: Numerals = PYTHON,
) -> Convert:
    """Returns the function from a value of JSON or Arrow, or from the text of a CSV field, to a value of the feature.

    Args:
        field: field of the value.
        path: path of the field, for errors: `a/x` is x in object a, `a[]` an item of list a.
        dropped_paths: paths, without `[]`, that are left out.
        image: makes images and sounds of bytes or paths.
        missing: texts that mean a missing value, if values are text, with lists and objects as JSON; else None.
        numerals: the separators in numbers, if values are text.
    """
    absent: Any = [] if field.kind == "list" else -1 if field.kind == "class" else None
    if field.fields is not None:
        convert: Convert = _object(field.fields, path, dropped_paths, image)
        absent = {name: [] for name, inner in field.fields.items() if inner.kind == "list"}
    elif field.item is not None:
        convert = _list_converter(field, path, dropped_paths, image)
    else:
        convert = _scalar_converter(field, path, image)

    def from_value(value: Any) -> Any:
        """Returns the converted value; if it is None, the value that the feature takes for a missing one.

        Raises:
            ValueError: the value does not fit the field, or is missing and the field is not optional.
        """
        if value is not None:
            return convert(value)
        if not field.optional or field.kind in ("image", "audio"):
            raise ValueError(missing_problem(field, path))
        return convert(absent) if field.fields is not None else absent

    if missing is None:
        return from_value
    parse = _parse_json if field.item is not None or field.fields is not None else _PARSERS.get(field.kind, str)
    if field.exact and field.kind != "string":
        parse = _without_leading_zero(parse, path, str(field))
    if not numerals.is_python and (field.kind in _PACKED or field.kind in INTEGERS):
        parse = _parse_localized(parse, numerals)
    keeps_all = field.kind in ("string", "image", "audio") and not field.optional

    def from_text(text: str | None) -> Any:
        """Returns the converted value of a CSV field; a text in `missing` counts as None.

        Raises:
            ValueError: the text is not a value of the field.
        """
        if text is not None and (keeps_all or text not in missing):
            try:
                value = parse(text)
            except ValueError as error:
                raise ValueError(f"{error}{_separator_advice(text, field, numerals)}") from None
            if value is not None:  # JSON may be null
                return convert(value)  # without the call of `from_value`, which would cost more than this
        return from_value(None)

    return functools.lru_cache(1024)(from_text) if field.kind in ("bool", "class") else from_text


def _separator_advice(text: str, field: Field, numerals: Numerals) -> str:
    """Returns the options with which a text is a number, as clauses for an error; '' if there are none.

    >>> _separator_advice("1,50", Field("float64"), PYTHON), _separator_advice("x", Field("float64"), PYTHON)
    ('; --decimal , reads it as 1.50', '')
    """
    if field.kind not in _PACKED and field.kind not in INTEGERS:
        return ""
    numbers = options_for_all([text.strip()], numerals)
    if field.kind in INTEGERS and not field.exact:  # which the user has chosen
        numbers = {options: number for options, number in numbers.items() if "." not in number}
    ways = [f"{options} reads it as {number}" for options, number in numbers.items()]
    if not ways and (options := options_for(text.strip(), numerals)):
        ways = [f"{options} makes a number of it"]
    return "".join(f"; {way}" for way in ways)


def _parse_localized(parse: Convert, numerals: Numerals) -> Convert:
    """Returns a function that rewrites a number with these separators as Python writes it, and then calls `parse`."""

    def parse_numeral(text: str) -> Any:
        """Returns the number of a text.

        Raises:
            ValueError: the text is not a number, or has other separators.
        """
        plain = numerals.to_python(text)
        if plain is None:
            raise ValueError(f"{text!r:.60} is not a number")
        return parse(plain)

    return parse_numeral


def _parse_int(text: str) -> int:
    """Parses an integer; rejects the underscores that `int` accepts.

    Raises:
        ValueError: the text is not an integer.
    """
    try:
        if "_" not in text:
            return int(text)
    except ValueError:
        pass
    raise ValueError(f"{text!r:.60} is not an integer")


def _without_leading_zero(parse: Convert, path: str, kind: str) -> Convert:
    """Returns a parser that rejects numbers with a leading zero, which may be codes, such as postal codes.

    Args:
        parse: function from a text to a number.
        path: path of the field, for errors.
        kind: kind of the field, such as 'int64', for errors.
    """

    def parse_exactly(text: str) -> Any:
        """Returns the number that a text means.

        Raises:
            ValueError: it has a leading zero, or is not a number.
        """
        if text[:1] in "0+- \t" and LEADING_ZERO.match(text):
            ways = f"{advice(path, kind)} drops it, {advice(path, 'string')} keeps it"
            raise ValueError(f"{text!r:.60} has a leading zero, which a number does not keep; {ways}")
        return parse(text)

    return parse_exactly


def _parse_float(text: str) -> float | int:
    """Parses a number, 'nan' or 'inf'; returns an integer if a float would round it.

    Raises:
        ValueError: the text is not a number, contains an underscore, or is too large for a float64.
    """
    try:
        number = float("" if "_" in text else text)
    except ValueError:
        raise ValueError(f"{text!r:.60} is not a number") from None
    if abs(number) < _MAX_EXACT or number != number:
        return number
    if math.isinf(number) or not text.strip().lstrip("+-").isdecimal():
        return finite(text)
    return int(text)  # float() rounds integers


def finite(text: str) -> float:
    """Returns the number that a text means.

    Raises:
        ValueError: it is too large for a float64, which would be infinite.
    """
    number = float(text)
    if math.isinf(number) and "n" not in text.lower():  # inf, infinity
        raise ValueError(f"{text!r:.60} is too large for a float64; as a string it is kept")
    return number


def _parse_bool(text: str) -> bool:
    """Returns the bool that a text of `_BOOLS` means, in any case and with any surrounding whitespace.

    Raises:
        ValueError: it is another text.
    """
    value = _BOOLS.get(text.strip().lower())
    if value is None:
        raise ValueError(f"{text!r:.60} is neither true nor false")
    return value


def _parse_json(text: str) -> Any:
    """Returns the value of a JSON text; None for "".

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or has a number that is too large for a float64.
    """
    try:
        return json.loads(text, parse_float=finite, parse_int=_json_integer) if text else None
    except json.JSONDecodeError as error:
        raise ValueError(f"{text!r:.60} is not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{text!r:.60} is nested too deeply to be read") from None


def _json_integer(text: str) -> int:
    """Returns the integer that a text of JSON means.

    Raises:
        ValueError: it has more digits than Python converts.
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r:.60} has too many digits for a number; as a string it is kept") from None


_PARSERS: dict[str, Convert] = {
    "bool": _parse_bool,
    **dict.fromkeys(INTEGERS, _parse_int),
    **dict.fromkeys(_PACKED, _parse_float),
}


def missing_problem(field: Field, path: str) -> str:
    """Returns the problem of a missing value, and the options that avoid it, as one clause for an error.

    For example "the value is missing; if that is right, say so: --feature age=int64?". It depends on the kind of the
    field, and on whether it is inside a list.

    Args:
        field: the field whose value is missing.
        path: path of the field, such as `a/b[]` for the items of list b in object a; for messages.
    """
    drop = advice(feature_name(path), "drop")
    outer, is_inside, _ = path.partition("[]")
    text = f"{advice(outer, 'string')} stores the list as JSON text"
    if path.endswith("[]"):
        return (
            f"a missing value inside the list {path.replace('[]', '')!r} cannot be stored; {text}, {drop} leaves it out"
        )
    if field.kind == "list":
        empty = f"{advice(path, optional_type(field))} makes an empty one of it"
        return f"the list is missing; {empty}, {f'{text}, ' * bool(is_inside)}{drop} leaves all of them out"
    if is_inside:
        return f"the value is missing inside a list, where that cannot be stored; {text}, {drop} leaves it out"
    if field.kind in ("image", "audio"):
        content = advice(path, "string?")
        noun = {"image": "image", "audio": "sound"}[field.kind]
        return (
            f"the {noun} is missing, which cannot be stored; leave out such rows by --skip_bad, or all {noun}s by "
            f"{drop}; {content} stores the bytes of the files, which may be missing"
        )
    if field.is_published and field.kind != "class":  # whose missing label is -1
        option = "" if field.fields is not None else f"{advice(path, f'{field}?')} "
        return (
            "the value is missing, and the published version has one in each row; "
            f"{option}--union_features makes the feature optional in the next version"
        )
    return f"the value is missing; if that is right, say so: {advice(path, optional_type(field))}"


def optional_type(field: Field) -> str:
    """Returns the type with which advice declares a field optional, such as `int8?` for an int8.

    It is "?" alone, which keeps the inferred type, if inference finds the type of the field: of objects and images, and
    of other fields than integers with `exact`.
    """
    last = field
    while last.item is not None:
        last = last.item
    if last.kind == "class" and not last.is_index:
        return "class?" if last is field else f"{replace(field, item=Field('class'))}?"
    is_found = (last.exact and last.kind not in INTEGERS) or last.fields is not None or last.kind in (UNKNOWN, "image")
    is_found = is_found or last.is_index
    return "?" if is_found else f"{field}?"


def _scalar_converter(field: Field, path: str, image: ConvertImage | None) -> Convert:
    """Returns the function that converts single values to the kind of a field.

    Args:
        field: field of the values.
        path: path of the field, for errors.
        image: converts images and sounds; None if they are stored as they are.
    """
    if field.kind in INTEGERS:
        return _integer_converter(field.kind)
    if field.kind in _PACKED:
        return _float(field, path)
    if field.kind == "class":
        return _index(field, path) if field.is_index else _label_converter(field)
    if field.kind in ("image", "audio"):
        return image_value if image is None else lambda value: image(image_value(value), field, path)
    return _require_bool if field.kind == "bool" else _require_text if field.exact else as_text


_QUOTED_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


def _way_to_numbers(value: object) -> str:
    """Returns a clause with the command that makes numbers of a text such as '1.5' in JSON; '' for other values."""
    if not isinstance(value, str) or not _QUOTED_NUMBER.fullmatch(value):
        return ""
    return "; for numbers in the quotes of JSON lines: jq -c '.NAME |= tonumber'"


def _integer_converter(kind: str) -> Convert:
    """Returns the function that converts whole numbers to integers, and rejects those out of the type's range."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)

    def convert(value: Any) -> int:
        """Returns an int, or a whole float or Decimal, as an int.

        Raises:
            ValueError: the value is not a whole number, or is out of the range of the type.
        """
        if type(value) is not int:
            if not isinstance(value, float | decimal.Decimal) or not math.isfinite(value) or value != int(value):
                raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not an integer{_way_to_numbers(value)}")
            value = int(value)
        if not low <= value <= high:
            raise ValueError(f"{value!r:.60} does not fit {kind}, which holds {low} to {high}")
        return value

    return convert


def _float(field: Field, path: str) -> Convert:
    """Returns the function that converts numbers to a type of floats, and rejects those that it does not hold exactly.

    Numbers are rounded to float32 and float16 unless the field is `exact`.

    Args:
        field: a field of floats.
        path: path of the field, such as `a/b[]` for the items of list b in object a; for messages.
    """
    packed, rounds, optional = _PACKED[field.kind], field.kind != "float64" and not field.exact, "?" * field.optional
    keeps = partial(survives, kind=field.kind)

    def convert(value: Any) -> float:
        """Returns an int, a float or a Decimal as a float.

        Raises:
            ValueError: the value is not a number, or the type does not keep it exactly where it must.
        """
        if type(value) is float and not rounds and (not field.exact or keeps(value)):
            return value
        if type(value) not in (int, float, decimal.Decimal):
            raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not a number{_way_to_numbers(value)}")
        try:
            number = float(value)
            packed.pack(number)
        except OverflowError:
            number = math.inf
        is_kept = value == number or (isinstance(value, decimal.Decimal) and value == decimal.Decimal(repr(number)))
        if math.isinf(number) and not is_kept and not field.exact:
            raise ValueError(f"{value!r:.60} does not fit {field.kind}, where it would be infinite")
        if rounds or number != number or (is_kept and (not field.exact or keeps(number))):
            return number
        if not field.exact:
            raise ValueError(
                f"{value!r:.60} has more digits than float64 keeps; {advice(path, 'string' + optional)} keeps it, "
                f"{advice(path, 'float32' + optional)} rounds it"
            )
        wider = "" if field.is_published else f"{advice(path, 'float64' + optional)} keeps it, "  # a type of its own
        raise ValueError(
            f"{value!r:.60} has more digits, or is larger, than {field.kind} keeps, and the rows that the schema was "
            f"taken from have no such number; {wider}{advice(path, field.kind + optional)} rounds what it can"
        )

    return convert


def _require_bool(value: Any) -> bool:
    """Returns the argument if it is a bool.

    Raises:
        ValueError: it is another value.
    """
    if type(value) is bool:
        return value
    raise ValueError(f"{value!r:.60} ({type(value).__name__}) is neither true nor false")


def _label_converter(field: Field) -> Convert:
    """Returns the function from a label, or from its index, to the index; -1 means no label."""
    labels = tuple(map(str, range(field.labels))) if isinstance(field.labels, int) else field.labels or ()
    index = {label: i for i, label in enumerate(labels)}

    def convert(value: Any) -> int:
        """Returns the index of a label; -1 and the indices themselves are returned unchanged.

        Raises:
            ValueError: the value is neither a label nor an index.
        """
        label_index = index.get(label_of(value))
        if label_index is None and type(value) is int and -1 <= value < len(labels):
            return value  # an index, as datasets of others hold labels; -1 is none
        if label_index is None:
            raise ValueError(
                f"{value!r:.60} is not one of the {len(index)} labels {list(labels[:5])}{' ...' * (len(index) > 5)}"
            )
        return label_index

    return convert


def _index(field: Field, path: str) -> Convert:
    """Returns the function that accepts only the indices of labels, and -1 for no label.

    Args:
        field: a field of labels that are given as indices.
        path: path of the field, such as `a/b[]` for the items of list b in object a; for messages.
    """
    count = field.labels if isinstance(field.labels, int) else len(field.labels or ())

    def convert(value: Any) -> int:
        """Returns an index in [-1, number of labels) unchanged.

        Raises:
            ValueError: it is another value.
        """
        if type(value) is int and -1 <= value < count:
            return value
        number = advice(path, "int64" + "?" * field.optional)
        raise ValueError(
            f"{value!r:.60} is not the index of one of the {count} labels that the file names; {number} makes numbers "
            "of all"
        )

    return convert


def label_of(value: Any) -> str:
    r"""Returns a value as the name of a label; bytes that are not UTF-8 are written as \xff.

    >>> label_of(b"cat"), label_of(3)
    ('cat', '3')
    """
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def image_value(value: Any) -> Any:
    """Returns the bytes of an object with a file's content, and any other value than a dict unchanged.

    The object is {"b64": text}, as exports to JSON lines write it, or {"bytes": ..., "path": ...} of Hugging Face.

    Raises:
        ValueError: `bytes` is None, or the text is not base64.

    >>> image_value({"b64": "YWI="}), image_value("a.png")
    (b'ab', 'a.png')
    """
    if not isinstance(value, dict):
        return value
    if value.keys() == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{value['b64']!r:.60} is not base64: {error}") from None
    if value.get("bytes") is None:
        raise ValueError(f"the content of {value.get('path')!r} is not in the file, but only its path")
    return value["bytes"]


def _require_text(value: Any) -> str | bytes:
    """Returns the argument if it is str or bytes.

    Raises:
        ValueError: it is another value.
    """
    if isinstance(value, str | bytes):
        return value
    raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not text")


def as_text(value: Any) -> str | bytes:
    """Returns any value as text: str and bytes unchanged, times in ISO 8601, decimals by `str`, others as JSON.

    Raises:
        ValueError: the value is nested too deeply, or contains an object that JSON does not have.

    >>> as_text("a"), as_text([1, None]), as_text(decimal.Decimal("1.50"))
    ('a', '[1, null]', '1.50')
    """
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | datetime.timedelta):
        return str(value)
    if isinstance(value, dict) and value.keys() == {"b64"}:
        return bytes(image_value(value))
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=_json_value)
    except TypeError as error:
        raise ValueError(f"{value!r:.60} cannot be written as text: {error}") from None
    except RecursionError:
        raise ValueError("the value is nested too deeply to be written as text") from None


def _json_value(value: Any) -> Any:
    r"""Returns the JSON value of bytes, a time or a decimal number: text, or {"b64": ...} for bytes that are not UTF-8.

    Raises:
        TypeError: the value is of another class.

    >>> _json_value(b"a"), _json_value(b"\xff")
    ('a', {'b64': '/w=='})
    """
    if not isinstance(value, bytes):
        if not isinstance(value, datetime.date | datetime.time | datetime.timedelta | decimal.Decimal):
            raise TypeError(f"no text is known for {type(value).__name__}")
        return as_text(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _list_converter(field: Field, path: str, dropped_paths: Collection[str], image: ConvertImage | None) -> Convert:
    """Returns the function that converts a list of values, or the nested lists of an array.

    Args:
        field: field of the list: its `item` is the field of the items.
        path: path of the field, for errors.
        dropped_paths: paths, without `[]`, that are left out.
        image: converts images and sounds; None if they are stored as they are.

    >>> _list_converter(Field("list", item=Field("int64")), "a", (), None)([1, 2])
    [1, 2]
    """
    item = field.item or field
    if len(field.shape) > 1:
        item = replace(field, shape=field.shape[1:], optional=False)
    convert = value_converter(item, f"{path}[]", dropped_paths, image)

    def each(value: Any) -> list[Any]:
        """Returns the list of the converted items.

        Raises:
            ValueError: the value is not a list, or an item does not fit.
        """
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not a list")
        return [convert(inner) for inner in value]

    return each


def _object(
    fields: Mapping[str, Field], path: str, dropped_paths: Collection[str], image: ConvertImage | None
) -> Convert:
    """Returns the function that converts a nested object, and rejects values that are not objects.

    Args:
        fields: name -> field of the values in the object.
        path: path of the object, for errors.
        dropped_paths: paths, without `[]`, that are left out.
        image: converts images and sounds; None if they are stored as they are.

    >>> _object({"x": Field("int64")}, "a", (), None)({"x": 1})
    {'x': 1}
    """
    convert = row_converter(fields, dropped_paths, f"{path}/", image)

    def each(value: Any) -> dict[str, Any]:
        """Returns the converted object, a dict from the name of a field to its value.

        Raises:
            ValueError: the value is not a dict, or one of its values does not fit.
        """
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.60} ({type(value).__name__}) is not an object")
        return convert(value)

    return each


def row_converter(
    fields: Mapping[str, Field],
    dropped_paths: Collection[str] = (),
    path: str = "",
    image: ConvertImage | None = None,
    missing: Collection[str] | None = None,
    numerals: Numerals = PYTHON,
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Returns the function from a row, or an object in a row, to an example.

    Args:
        fields: name -> field, of the names that are kept.
        dropped_paths: names that are left out, `a/x` inside of objects or lists of them; any other name is an error,
            because its values would be lost.
        path: path of the object, with its `/`, if it is inside a row.
        image: makes images and sounds of bytes or paths.
        missing: texts that mean a missing value; None if the values are not text.
        numerals: the separators in numbers, if the values are text.
    """
    converters = [
        (name, value_converter(each, path + name, dropped_paths, image, missing, numerals))
        for name, each in fields.items()
    ]
    texts = {name for name, each in fields.items() if each.kind == "string"} if missing is None else set()
    prefix = "column " * (missing is not None)
    parent_path = feature_name(path)
    known_names = {*fields, *(name.removeprefix(parent_path) for name in dropped_paths if name.startswith(parent_path))}

    def convert(row: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the example of a row: a dict from the name of each field to its converted value.

        Raises:
            ValueError: the row has an unknown name, or a value does not fit its field.
        """
        if not row.keys() <= known_names:
            name = next(name for name in row if name not in known_names)
            ways = ["TYPE?"] * ("[]" not in path) + ["drop"]  # inside a list nothing can be missing
            say = " or ".join(advice(parent_path + name, kind) for kind in ways)
            raise ValueError(f"{name!r}: the rows that the schema was taken from do not have it; add {say}")
        example, get, name = {}, row.get, ""
        try:
            if not texts:
                for name, converter in converters:
                    example[name] = converter(get(name))
                return example
            for name, converter in converters:
                value = get(name)
                # Most text needs no conversion, and a call costs more than this test.
                example[name] = value if type(value) is str and name in texts else converter(value)
        except ValueError as error:
            raise ValueError(f"{prefix}{name!r}: {error}") from None
        return example

    return convert
