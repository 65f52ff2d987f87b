"""The parser without the native module, against lists of Python: few and many values, missing ones, unknown fields."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from beam_datasets.errors import FeatureValueError
from beam_datasets.formats.columns import ANY, KINDS, PADDED, FeatureGroup, parse
from beam_datasets.formats.example import entry, record, serialize, varint

UNKNOWN = b"\x98\x06\x07"  # field 99, the varint 7
FORMATS = {"float": "<f", "int64": "<q"}


def lists_of(kind: str, lengths: list[int | None]) -> list[list[Any] | None]:
    """Returns a list of each length, None for None."""
    make: Any = {"bytes": lambda i: b"%d" % i, "float": lambda i: i / 4 - 3, "int64": lambda i: (-5) ** i % 2**40 - i}[
        kind
    ]
    return [None if length is None else [make(i + length) for i in range(length)] for length in lengths]


def record_of(values: list[Any] | None, kind: str) -> bytes:
    """Returns the record of a list "a" and a list "b" of another kind, or of "b" alone."""
    array: Any = values if kind == "bytes" or values is None else np.array(values, {"float": "f4", "int64": "i8"}[kind])
    return serialize({"b": [1] if kind == "bytes" else [b"x"]} | ({} if values is None else {"a": array}))


def with_unknown_fields(values: list[float]) -> bytes:
    """Returns the record of a list of floats in which an unknown field follows the floats, and others the list."""
    floats = struct.pack(f"<{len(values)}f", *values)
    floats_list = b"\x0a" + varint(len(floats)) + floats + UNKNOWN
    return record(entry(b"a", b"\x12" + varint(len(floats_list)) + floats_list)) + UNKNOWN


def column(kind: str, lists: list[list[Any] | None], length: int = 0) -> Any:
    """Returns the column of lists, padded to a length."""
    padded = [(values or []) + [None] * (length - len(values or [])) for values in lists]
    values = [value for values in padded for value in values]
    return values if kind == "bytes" else b"".join(struct.pack(FORMATS[kind], value or 0) for value in values)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("count", [1, 3, 15, 16, 40])
def test_fixed_counts(kind: Any, count: int) -> None:
    lists = lists_of(kind, [count, None, count])
    got = parse([FeatureGroup(KINDS[kind], count, True, (b"a",))], [record_of(values, kind) for values in lists])[0]
    assert got == (column(kind, lists, count) if kind == "bytes" else (column(kind, lists, count), [(0, 1)]))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("lengths", [[0, None, 1, 0], [2, 40, None, 0, 17], [None], [0], []])
@pytest.mark.parametrize("num_values", [ANY, PADDED])
def test_any_number_of_values(kind: Any, lengths: list[int | None], num_values: int) -> None:
    lists = lists_of(kind, lengths)
    values, counts = parse([FeatureGroup(KINDS[kind], num_values, True, (b"a",))], [record_of(x, kind) for x in lists])[
        0
    ]
    longest = max((len(x) for x in lists if x), default=0) if num_values == PADDED else 0
    assert values == column(kind, lists, longest)
    assert counts == b"".join(struct.pack("<q", -1 if x is None else len(x)) for x in lists)


@pytest.mark.parametrize("count", [2, 16, 40])
def test_unknown_fields_are_no_floats(count: int) -> None:
    floats = [i / 8 for i in range(count)]
    for num_values in (count, ANY, PADDED):
        got = parse([FeatureGroup(KINDS["float"], num_values, False, (b"a",))], [with_unknown_fields(floats)] * 2)[0]
        assert (got if num_values == count else got[0]) == struct.pack(f"<{2 * count}f", *floats, *floats)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("num_values", [1, 20, ANY, PADDED])
def test_lists_of_another_kind_are_errors(kind: Any, num_values: int) -> None:
    """Also if a list of the wanted kind is looked at first, which must not change the message."""
    other = "int64" if kind == "float" else "float"
    with pytest.raises(FeatureValueError, match=rf"^a: expected a list of {kind}, found {other}_list"):
        parse([FeatureGroup(KINDS[kind], num_values, True, (b"a",))], [record_of(lists_of(other, [20])[0], other)])
