"""The columnar parse: the lists of features of many records, each group of features in one piece.

`parser(groups)` returns the function from records to columns. The native module parses records in canonical form; for
others, and if it is missing, `parse` here does the same with protobuf and loops: it is also the oracle of the tests,
and raises the errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureValueError
from beam_datasets.formats.example import (
    Buffer,
    ExampleError,
    Kind,
    Values,
    message,
    regular,
    spans_of,
    values_of,
)
from beam_datasets.native import core

KINDS: dict[Kind, int] = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
"""The numbers of the kinds of lists: their tags in a record."""
ANY, PADDED = -1, -2
"""Counts: any number of values; any number, filled up with zeros to the longest list."""

_MAX_VALUES = 2**31 - 1  # of a group that the native module parses
_KIND_OF = {number: kind for kind, number in KINDS.items()}

Parse: TypeAlias = Callable[[Sequence[Buffer]], tuple[Any, ...]]
"""From n records to the column of each group; see `parse`."""


class FeatureGroup(NamedTuple):
    """Features of one kind whose lists are parsed in one piece.

    Attributes:
        kind: of the lists, one of `KINDS`.
        num_values: number of values in each record; or, with one name, `ANY` or `PADDED`.
        is_optional: whether records may lack the features.
        names: of the features in the record, as UTF-8.
    """

    kind: int
    num_values: int
    is_optional: bool
    names: tuple[bytes, ...]


def parser(groups: tuple[FeatureGroup, ...]) -> Parse:
    """Returns the function that parses records; see `parse`."""
    in_python = functools.partial(parse, groups)
    names = [name for group in groups for name in group.names]
    is_large = any(group.num_values > _MAX_VALUES for group in groups)
    if core is None or is_large or len(set(names)) < len(names):
        return in_python
    schema, native = core.schema(groups), core.parse

    def parse_natively(records: Sequence[Buffer]) -> tuple[Any, ...] | None:
        columns: tuple[Any, ...] | None = native(schema, records)
        return columns

    def parse_records(records: Sequence[Buffer]) -> tuple[Any, ...]:
        columns = parse_natively(records)
        if columns is None:
            columns = _parse_irregular(parse_natively, records)
        return in_python(records) if columns is None else columns

    return parse_records


def _parse_irregular(
    parse_natively: Callable[[Sequence[Buffer]], tuple[Any, ...] | None], records: Sequence[Buffer]
) -> tuple[Any, ...] | None:
    """Returns the columns of records some of which are not canonical, after writing these anew; None without success.

    Few records of a block are so, if any: they are found by halving, so that the others are not parsed in Python.

    Args:
        parse_natively: returns the columns of canonical records, and None of others.
        records: of which not all are canonical.
    """
    irregular, pending = [], [(0, len(records))]
    while pending:
        start, stop = pending.pop()
        if start == stop or parse_natively(records[start:stop]) is not None:
            continue
        if stop - start == 1:
            irregular.append(start)
        else:
            middle = (start + stop) // 2
            pending += [(start, middle), (middle, stop)]
    rewritten = list(records)
    try:
        for index in irregular:
            rewritten[index] = regular(bytes(rewritten[index]))
    except ExampleError:
        return None  # the parser in Python raises the error
    return parse_natively(rewritten)


def parse(groups: Sequence[FeatureGroup], records: Sequence[Buffer]) -> tuple[Any, ...]:
    """Returns the column of each group.

    * numbers, a fixed count: a bytearray of float32 or int64 of shape (names, n, count); if the group is optional a
      tuple of that and of a list of (name, record) of what is missing, where the numbers are 0
    * bytes, a fixed count: a list of names * n * count values; None where they are missing
    * `ANY`: a tuple of the values of all records in order, a bytearray or a list, and a bytearray of n int64: the
      number of values in each record, -1 if the record lacks the feature. `PADDED`: each list has the same length.

    Raises:
        ExampleError: a record is not a serialized tf.train.Example.
        FeatureValueError: a list has another kind or number of values, or is missing.
    """
    parsed = [spans_of(record) for record in records]
    return tuple([_column(group, parsed) for group in groups])


def _column(group: FeatureGroup, records: list[tuple[bytes, dict[bytes, tuple[int, int]]]]) -> Any:
    """Returns the column of a group; `parse` lists its forms."""
    lists = [[_values(group, name, data, spans) for data, spans in records] for name in group.names]
    if group.num_values < 0:
        counts = np.array([-1 if values is None else len(values) for values in lists[0]], np.int64)
        longest = max(counts.max(initial=0), 0) if group.num_values == PADDED else 0
        return _joined(group, [_filled(group, values, longest) for values in lists[0]]), bytearray(counts.tobytes())
    missing = [(k, i) for k, row in enumerate(lists) for i, values in enumerate(row) if values is None]
    joined = _joined(group, [_filled(group, values, group.num_values) for row in lists for values in row])
    return (joined, missing) if group.is_optional and group.kind != KINDS["bytes"] else joined


def _values(group: FeatureGroup, name: bytes, data: bytes, spans: dict[bytes, tuple[int, int]]) -> Values | None:
    """Returns the list of a feature in a record; None if it is missing."""
    start, stop = spans.get(name, (0, 0))
    path = name.decode(errors="replace")
    if start == stop:
        if not group.is_optional:
            raise FeatureValueError(f"{path}: the record does not have this feature, and it is not optional")
        return None
    try:
        values = values_of(message("Feature", data[start:stop]), _KIND_OF[group.kind])
    except ExampleError as error:
        raise FeatureValueError(f"{path}: {error}") from error
    if group.num_values > 0 and len(values) != group.num_values:
        wanted = "one" if group.num_values == 1 else str(group.num_values)
        raise FeatureValueError(f"{path}: the record has {len(values)} values, expected {wanted}")
    return values


def _filled(group: FeatureGroup, values: Values | None, length: int) -> Any:
    """Returns a list filled up to a length: with zeros, or None where bytes are missing."""
    if group.kind == KINDS["bytes"]:
        return [None] * max(length, 0) if values is None else values
    numbers: NDArray[Any] = np.zeros(0 if values is None else len(values), _dtype(group)) if values is None else values  # type: ignore[assignment]
    return np.concatenate([numbers, np.zeros(max(length - len(numbers), 0), _dtype(group))])


def _joined(group: FeatureGroup, parts: list[Any]) -> Any:
    if group.kind == KINDS["bytes"]:
        return [value for part in parts for value in part]
    return bytearray(b"".join(part.astype(_dtype(group)).tobytes() for part in parts))


def _dtype(group: FeatureGroup) -> Any:
    return np.float32 if group.kind == KINDS["float"] else np.int64
