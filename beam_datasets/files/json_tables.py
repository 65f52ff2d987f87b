"""Tables that a JSON file contains as one object, as `DataFrame.to_json()` of pandas writes them by default."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from beam_datasets.files.fields import advice

_INTEGER = re.compile(r"-?\d+", re.ASCII)
_WAY = (
    'pandas writes one object per row by df.to_json(path, orient="records", lines=True), after df.reset_index() if its '
    "index has values"
)
_LINES_OF_FIELDS = (
    "jq -c 'to_entries[] | {key} + .value' writes one object per field, with the name of the field as its key"
)


def table_problem(row: Mapping[str, Any]) -> str:
    """Returns why the only object of a file is a table and not an example, with advice; '' if it may be an example.

    A table of columns or of rows is recognized by integers as the names of its rows, which pandas writes unless the
    index is text; a table of one column, by the integers from 0, because one object of numbered values may be data.

    >>> table_problem({"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}).partition(".")[0]
    "expected one object per row, got a table as one object (orient='columns' of pandas)"
    >>> table_problem({"a": {"x": 1}, "b": {"x": 3}}), table_problem({"a": {"0": 1}, "b": {"0": 3, "1": 4}})
    ('', '')
    """
    orient = _orient(row)
    if not orient:
        return ""
    ways = f"{_WAY}; {_LINES_OF_FIELDS}" if orient == "index" else _WAY
    accept = f"{advice(next(iter(row)), '?')} accepts one example"
    return (
        f"expected one object per row, got a table as one object (orient={orient!r} of pandas). Write it again: "
        f"{ways}; {accept}"
    )


def may_be_table(row: Mapping[str, Any]) -> bool:
    """Returns whether the values of an object are objects with the same names in one order, or one with integers."""
    names = _names_of_all(list(row.values()))
    return names is not None and (len(row) > 1 or _are_integers(names))


def has_numbered_rows(row: Mapping[str, Any]) -> bool:
    """Returns whether an object is a table only because integers name its rows; see `table_problem`."""
    return _orient(row) in ("columns", "index")


def names_of(row: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Returns the names of an object, each with the names of the object that is its value.

    >>> names_of({"a": {"0": 1, "1": 2}, "b": 3})
    (('a', ('0', '1')), ('b', ()))
    """
    return tuple((name, tuple(value) if isinstance(value, dict) else ()) for name, value in row.items())


def note_on_equal_objects(path: str) -> str:
    """Returns a note on a file whose only object may be a table; see `may_be_table`."""
    return f"{path}: its only object becomes one example; if it is a table: {_WAY}; {_LINES_OF_FIELDS}"


def _orient(row: Mapping[str, Any]) -> str:
    """Returns the argument `orient` of pandas by which an object was written as a table; '' for none."""
    match row:
        case {"schema": {"fields": [*fields]}, "data": [*rows], **rest}:
            is_table = not rest and all(isinstance(each, dict) for each in (*fields, *rows))
            return "table" if is_table else ""
        case {"columns": [*columns], "data": [*rows], **rest}:
            index = rest.pop("index", rows)
            fits = isinstance(index, list) and len(index) == len(rows)
            is_split = not rest and fits and all(isinstance(each, list) and len(each) == len(columns) for each in rows)
            return "split" if is_split else ""
    names = _names_of_all(list(row.values()))
    if names and _are_integers(names):
        return "columns" if len(row) > 1 or names == [str(number) for number in range(len(names))] else ""
    return "index" if names and _are_integers(row) else ""


def _are_integers(names: Iterable[str]) -> bool:
    """Returns whether all names are integers in decimal."""
    return all(map(_INTEGER.fullmatch, names))


def _names_of_all(values: list[Any]) -> list[str] | None:
    """Returns the names in the first of several objects if all have the same in the same order; None otherwise."""
    if not values or not all(isinstance(value, dict) for value in values):
        return None
    names = list(values[0])
    return names if names and all(list(value) == names for value in values) else None
