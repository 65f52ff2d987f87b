"""Notes on columns of dates, times and decimals, which are stored as text, and of numbers that may be missing."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from beam_datasets.features.stacking import default_fill
from beam_datasets.files.fields import INTEGERS, Field, advice

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.]\d+)?)?)?")
_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}|\d{4}([./])\d{1,2}\2\d{1,2}")
_NOUNS = {"date": "date", "timestamp": "date", "time": "time", "duration": "duration", "decimal": "decimal"}
"""Beginning of an Arrow type -> what its values are."""


class TextColumn(NamedTuple):
    """A column of dates, times, durations or decimals that is stored as text.

    Attributes:
        kind: its type in the files, such as "date32[day]".
        may_be_missing: whether a value, or an object that contains it, may be missing.
    """

    kind: str
    may_be_missing: bool = False

    @property
    def noun(self) -> str:
        """Returns "date", "time", "duration" or "decimal"."""
        return _NOUNS[re.match(r"[a-z]+", self.kind)[0]]  # type: ignore[index]


def text_columns(
    fields: Mapping[str, Field], path: str = "", *, may_be_missing: bool = False
) -> Iterator[tuple[str, TextColumn]]:
    """Yields (path, column) of each column of dates, times, durations or decimals that is stored as text.

    Args:
        fields: {column: field}, or the fields of an object.
        path: path of the object, with a slash at its end; '' for columns.
        may_be_missing: whether the object may be missing.
    """
    for name, field in fields.items():
        is_optional = may_be_missing or field.optional
        if field.kind == "string" and re.match("date|time|duration|decimal", field.source or ""):
            yield path + name, TextColumn(field.source, is_optional)
        elif field.kind == "object":
            yield from text_columns(field.fields or {}, f"{path}{name}/", may_be_missing=is_optional)


def note_on_text_columns(path: str, columns: Mapping[str, TextColumn]) -> str:
    """Returns a note on columns stored as text: how to read them as the dates, times or decimals that they are.

    Args:
        path: the file, for the note.
        columns: path of a column -> the column.
    """
    listed = ", ".join(f"{name!r} ({column.kind})" for name, column in columns.items())
    outside_lists = {name: column for name, column in columns.items() if "[]" not in name}  # lists need a loop
    first_names = {column.noun: name for name, column in reversed(outside_lists.items())}
    codes = [
        f"{_conversion(first_names[noun], columns[first_names[noun]])} makes a {noun}"
        for noun in ("date", "time", "duration", "decimal")
        if noun in first_names
    ]
    decimal = next((name for name, column in columns.items() if column.noun == "decimal"), "")
    ways = [
        describe_conversion(", ".join(codes)) if codes else "",
        f"{advice(decimal, 'float64')} stores numbers, where a float64 represents them" if decimal else "",
        f"{advice(next(iter(columns)), 'string')} accepts text",
    ]
    return f"{path}: stored as text: {listed}: {'; '.join(filter(None, ways))}"


def _conversion(path: str, column: TextColumn) -> str:
    """Returns code that makes a value of the text of a column in an example `e`, without loss.

    NumPy's dates have no zones, and Python's dates and times no nanoseconds.

    >>> _conversion("a", TextColumn("timestamp[ns]")), _conversion("a/b", TextColumn("timestamp[us, tz=UTC]"))
    ("np.datetime64(e['a'])", "datetime.fromisoformat(e['a']['b'].decode())")
    >>> _conversion("a/b", TextColumn("duration[us]", may_be_missing=True))
    "pd.Timedelta(e['a']['b'].decode()) if e['a'] and e['a']['b'] else None"
    >>> _conversion("a", TextColumn("time64[us]")), _conversion("a", TextColumn("time64[ns]"))
    ("time.fromisoformat(e['a'].decode())", "pd.Timedelta(e['a'].decode())")
    """
    if column.noun == "date":
        has_nanoseconds = column.kind.startswith("timestamp[ns")
        function = (
            ("pd.Timestamp" if has_nanoseconds else "datetime.fromisoformat")
            if "tz=" in column.kind
            else "np.datetime64"
        )
    else:
        time = "pd.Timedelta" if column.kind == "time64[ns]" else "time.fromisoformat"
        function = {"time": time, "duration": "pd.Timedelta", "decimal": "Decimal"}[column.noun]
    return _code(function, path.split("/"), may_be_missing=column.may_be_missing)


def _code(function: str, names: Sequence[str], options: str = "", *, may_be_missing: bool) -> str:
    """Returns code that calls a function with the text of a value in an example `e`; None for missing values.

    Args:
        function: the function.
        names: name of the feature, after those of the features that contain it.
        options: further arguments of the function, after a comma.
        may_be_missing: whether the value may be None or empty text, or a feature that contains it None.
    """
    values = ["e" + "".join(f"[{name!r}]" for name in names[:depth]) for depth in range(1, len(names) + 1)]
    decoding = "" if function == "np.datetime64" else ".decode()"  # NumPy takes bytes and str
    call = f"{function}({values[-1]}{decoding}{options})"
    return f"{call} if {' and '.join(values)} else None" if may_be_missing else call


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


def describe_conversion(code: str) -> str:
    """Returns a clause for a note: code that converts a text, and that it belongs in `ds.map()`.

    >>> describe_conversion("np.datetime64(e['a']) makes a date")
    "np.datetime64(e['a']) makes a date where it is read, in ds.map()"
    """
    option = ", without .decode() if load() has text='str'" if ".decode()" in code else ""
    return f"{code} where it is read, in ds.map(){option}"


def date_conversion(name: str, texts: Collection[str], *, may_be_missing: bool) -> str:
    """Returns code that makes dates of the texts of a column in an example `e`; '' if a text is not a date.

    If days and months could be exchanged in all texts, a second form follows the code.

    Args:
        name: name of the column.
        texts: texts in it.
        may_be_missing: whether there is empty text, too.

    >>> date_conversion("day", ["2024-02-29"], may_be_missing=True)
    "np.datetime64(e['day']) if e['day'] else None"
    >>> date_conversion("day", ["1.2.2024", "29.2.2024"], may_be_missing=False)
    "datetime.strptime(e['day'].decode(), '%d.%m.%Y')"
    >>> date_conversion("day", ["1/2/2024"], may_be_missing=False)
    "datetime.strptime(e['day'].decode(), '%d/%m/%Y'), or with '%m/%d/%Y' if the month is first,"
    >>> date_conversion("day", ["2/3", "2/3/2024"], may_be_missing=False)
    ''
    """
    if all(map(_is_iso_date, texts)):
        return _code("np.datetime64", [name], may_be_missing=may_be_missing)
    orders = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d")
    forms = [order.format(separator) for order in orders for separator in "./-"]
    suitable_forms = [form for form in forms if all(_is_date(text, form) for text in texts)]
    if not suitable_forms:
        return ""
    code = _code("datetime.strptime", [name], f", {suitable_forms[0]!r}", may_be_missing=may_be_missing)
    return f"{code}, or with {suitable_forms[1]!r} if the month is first," if suitable_forms[1:] else code


def _is_iso_date(text: str) -> bool:
    """Returns whether a text is a date, or a date and a time, that NumPy keeps with all digits.

    >>> [_is_iso_date(text) for text in ("2024-02-29 12:30", "2024-02-30", "2024-02-29 12:30:00.1234567890123")]
    [True, False, False]
    """
    try:  # NumPy ignores overflows: it makes a date of 1969 of more digits than nanoseconds have
        return _ISO_DATE.fullmatch(text) is not None and str(np.datetime64(text)).startswith(text.replace(" ", "T"))
    except ValueError:
        return False


def _is_date(text: str, form: str) -> bool:
    """Returns whether a text is a date in the format `form` of `datetime.strptime`, with a year of four digits."""
    try:
        return _DATE.fullmatch(text) is not None and datetime.datetime.strptime(text, form) is not None
    except ValueError:
        return False
