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

    A table of columns or of rows is recognized by the names of its rows, which are integers unless the index of pandas
    is text. In a table of one column they must be the integers from 0: an example may have one object of numbered
    values, too.

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


def resembles_table(row: Mapping[str, Any]) -> bool:
    """Returns whether an object has the form of a table, although it may also be an example; see `table_problem`.

    Its values are objects with the same names in the same order. If there is only one, its names are integers.
    """
    names = _common_names(list(row.values()))
    return names is not None and (len(row) > 1 or _are_integers(names))


def has_numbered_rows(row: Mapping[str, Any]) -> bool:
    """Returns whether the rows of what `table_problem` takes for a table have integers as names, but not 0 to n - 1.

    Tables of as many rows have these by default, so that they are no sign of an example.

    >>> has_numbered_rows({"a": {"3": 1}, "b": {"3": 2}}), has_numbered_rows({"a": {"0": 1}, "b": {"0": 2}})
    (True, False)
    """
    orient = _orient(row)
    names = list(row) if orient == "index" else _common_names(list(row.values()))
    return orient in ("columns", "index") and names is not None and not _are_default_index(names)


def nested_names(row: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Returns each name of an object with the names in its value, () if that is not an object.

    >>> nested_names({"a": {"0": 1, "1": 2}, "b": 3})
    (('a', ('0', '1')), ('b', ()))
    """
    return tuple((name, tuple(value) if isinstance(value, dict) else ()) for name, value in row.items())


def note_on_possible_table(path: str) -> str:
    """Returns a note on a file whose only object becomes an example, but resembles a table."""
    return f"{path}: its only object becomes one example; if it is a table: {_WAY}; {_LINES_OF_FIELDS}"


def _orient(row: Mapping[str, Any]) -> str:
    """Returns the argument `orient` of `DataFrame.to_json` that writes such an object; '' if it is not a table."""
    match row:
        case {"schema": {"fields": [*fields]}, "data": [*rows], **rest}:
            is_table = not rest and all(isinstance(each, dict) for each in (*fields, *rows))
            return "table" if is_table else ""
        case {"columns": [*columns], "data": [*rows], **rest}:
            index = rest.pop("index", rows)
            fits = isinstance(index, list) and len(index) == len(rows)
            is_split = not rest and fits and all(isinstance(each, list) and len(each) == len(columns) for each in rows)
            return "split" if is_split else ""
    names = _common_names(list(row.values()))
    if names and _are_integers(names):
        return "columns" if len(row) > 1 or _are_default_index(names) else ""
    return "index" if names and _are_integers(row) else ""


def _are_integers(names: Iterable[str]) -> bool:
    """Returns whether all names are integers in decimal."""
    return all(map(_INTEGER.fullmatch, names))


def _are_default_index(names: list[str]) -> bool:
    """Returns whether the names are 0 to n - 1, which is the index of a table of pandas by default."""
    return names == [str(number) for number in range(len(names))]


def _common_names(values: list[Any]) -> list[str] | None:
    """Returns the names that all values have in the same order; None if a value is not an object or has other names."""
    if not values or not all(isinstance(value, dict) for value in values):
        return None
    names = list(values[0])
    return names if names and all(list(value) == names for value in values) else None
