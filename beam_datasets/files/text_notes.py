"""Notes on columns of dates, times and decimals, which are stored as text, and of numbers that may be missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from beam_datasets.features.stacking import default_fill
from beam_datasets.files.fields import INTEGERS, Field, advice

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.]\d+)?)?)?")
_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}|\d{4}([./])\d{1,2}\2\d{1,2}")


def temporal_columns(fields: Mapping[str, Field], path: str = "") -> Iterator[tuple[str, str]]:
    """Yields (path, type in the files) of each date, time, duration and decimal that is stored as text."""
    for name, field in fields.items():
        if field.kind == "string" and re.match(r"date|time|duration|decimal", field.source or ""):
            yield path + name, field.source or ""
        elif field.kind == "object":
            yield from temporal_columns(field.fields or {}, f"{path}{name}/")


def note_on_types(path: str, types: Mapping[str, str]) -> str:
    """Returns a note on columns stored as text: how to read them as the dates, times or decimals that they are.

    Args:
        path: the file, for the note.
        types: path of a column -> its type in the files, such as "date32[day]".
    """
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in types.items())
    is_date = {name: kind.startswith(("date", "timestamp")) and "[]" not in name for name, kind in types.items()}
    date = next((name for name in types if is_date[name]), "")  # not in a list, whose items need a loop
    decimal = next((name for name, kind in types.items() if kind.startswith("decimal")), "")
    value = "e" + "".join(f"[{name!r}]" for name in date.split("/"))
    ways = [
        f"{_date_parser(types.get(date, ''))}({value}.decode()) makes a date where it is read, in ds.map()"
        if date
        else "",
        f"{advice(decimal, 'float64')} stores numbers, where a float64 represents them" if decimal else "",
        f"{advice(next(iter(types)), 'string')} accepts text",
    ]
    return f"{path}: stored as text: {listed}: {'; '.join(filter(None, ways))}"


def _date_parser(kind: str) -> str:
    """Returns the function that makes a date of the text of an Arrow type, without loss.

    NumPy's dates have no zones, and Python's no nanoseconds.

    >>> _date_parser("timestamp[ns]"), _date_parser("timestamp[us, tz=UTC]"), _date_parser("timestamp[ns, tz=UTC]")
    ('np.datetime64', 'datetime.fromisoformat', 'pd.Timestamp')
    """
    if "tz=" not in kind:
        return "np.datetime64"
    return "pd.Timestamp" if kind.startswith("timestamp[ns") else "datetime.fromisoformat"


def numbers_that_may_be_missing(fields: Mapping[str, Field], path: str = "") -> Iterator[tuple[str, str]]:
    """Yields (path, kind) of each integer and bool that may be missing, for which no value means missing.

    >>> list(numbers_that_may_be_missing({"a": Field("int64", optional=True), "b": Field("float32", optional=True)}))
    [('a', 'int64')]
    """
    for name, field in fields.items():
        if field.optional and field.kind in (*INTEGERS, "bool"):
            yield path + name, field.kind
        elif field.kind == "object":
            yield from numbers_that_may_be_missing(field.fields or {}, f"{path}{name}/")


def note_on_missing(path: str, kinds: Mapping[str, str]) -> str:
    """Returns a note on integers and bools of which some are missing: what readers get, and what to choose.

    Args:
        path: the file, for the note.
        kinds: path of a column -> its kind, such as "int64".
    """
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    name, kind = next(((name, kind) for name, kind in kinds.items() if kind != "bool"), next(iter(kinds.items())))
    fill = True if kind == "bool" else 0
    ways = [
        f"fill={{{name.replace('/', '.')!r}: {fill}}} of batch() and as_torch() gives another value",
        f"{advice(name, f'{kind}?')} accepts this",
        f"{advice(name, 'float64?')} makes NaN of a missing value" if kind != "bool" else "",
        f"{advice(name, 'drop')} leaves the column out",
    ]
    values = ", ".join(f"{default_fill(np.dtype(kind))} ({name})" for name, kind in kinds.items())
    return (
        f"{path}: missing values in: {listed}: they are None when iterated; in batches, PyTorch and JAX they are "
        f"{values}: {'; '.join(filter(None, ways))}"
    )


def way_to_read(name: str, example: str) -> str:
    """Returns code that makes a date of a column's texts where they are read; '' if the example is no date.

    >>> way_to_read("day", "2024-02-29"), way_to_read("day", "29.2.2024"), way_to_read("day", "2/3")
    ("np.datetime64(e['day'].decode())", "datetime.strptime(e['day'].decode(), '%d.%m.%Y')", '')
    """
    if _ISO_DATE.fullmatch(example):
        return f"np.datetime64(e[{name!r}].decode())"
    if not (date := _DATE.fullmatch(example)):
        return ""
    separator = date[1] or date[2]
    order = ("%d", "%m", "%Y") if date[1] else ("%Y", "%m", "%d")
    return f"datetime.strptime(e[{name!r}].decode(), {separator.join(order)!r})"
