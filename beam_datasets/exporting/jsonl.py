"""JSON lines: an object a line, in UTF-8.

A number is the shortest text that reads back as the same value of its dtype: the float32 0.1 is `0.1`. JSON has neither
NaN nor infinities: they become null. Bytes that are not text (images, sound, what is named as binary) are
`{"b64": "..."}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beam_datasets.exporting.schema import (
    Array,
    Binary,
    Column,
    File,
    Items,
    Label,
    Number,
    Struct,
    Text,
    items_of,
    text_of,
)
from beam_datasets.exporting.writing import Block, Format, Output
from beam_datasets.features.features_dict import join

Convert: TypeAlias = Callable[[Any], Any]


class JsonLines(Format):
    """Writes JSON lines."""

    name: ClassVar[str] = "jsonl"

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard; see `Format.write`."""
        convert = json_converter(schema)
        for block in blocks:
            lines = block.map(lambda example: json_text(convert(example)))
            out.write("\n".join([*lines, ""]).encode())


def json_text(value: Any) -> str:
    """Returns a value as JSON, on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def json_converter(column: Column, name: str = "") -> Convert:
    """Returns the function from a column's value to one of JSON; the errors that it raises name the column."""
    if isinstance(column, Struct):
        fields = [(key, json_converter(field, join(name, key))) for key, field in column.fields.items()]
        return lambda value: {key: convert(value[key]) for key, convert in fields}
    if isinstance(column, Items):
        item = json_converter(column.item, name)
        if isinstance(column.item, (Number, Label)):
            return numbers_json
        return lambda value: [item(part) for part in items_of(value)]
    convert = _array(column, name) if isinstance(column, Array) else _scalar(column, name)
    return lambda value: None if value is None else convert(value)


def _scalar(column: Column, name: str) -> Convert:
    if isinstance(column, Text):
        return lambda value: text_of(value, name)
    if isinstance(column, (Binary, File)):
        return lambda value: {"b64": base64.b64encode(value).decode()}
    return lambda value: numbers_json(np.asarray(value))


def _array(column: Array, name: str) -> Convert:
    if isinstance(column.item, Number):
        return numbers_json
    item = json_converter(column.item, name)

    def strings(value: Any) -> Any:
        return item(value) if isinstance(value, bytes) else [strings(part) for part in value]

    return strings


def numbers_json(value: Any) -> Any:
    """Returns an array of any shape as a number or nested lists of numbers."""
    if value.dtype.kind in "biu":
        return value.tolist()
    if value.dtype != np.float64:
        short = _short if value.dtype.kind == "f" else _short_bfloat16
        value = np.fromiter(map(short, value.reshape(-1)), np.float64, value.size).reshape(value.shape)
    finite = np.isfinite(value)
    if finite.all():
        return value.tolist()
    objects = value.astype(object)
    objects[~finite] = None
    return objects.tolist()


def _short(number: np.floating[Any]) -> float:
    """Returns the number of the fewest digits that is `number` in its dtype.

    >>> float(np.float32(0.1)), _short(np.float32(0.1))
    (0.10000000149011612, 0.1)
    """
    return float(np.format_float_scientific(number))


def _short_bfloat16(number: Any) -> float:
    """Returns the same for dtypes that NumPy itself does not have, of few bits."""
    exact = float(number)
    rounded = (float(f"{exact:.{digits}g}") for digits in range(1, 17))
    with np.errstate(over="ignore"):
        return next((short for short in rounded if type(number)(short) == number), exact)
