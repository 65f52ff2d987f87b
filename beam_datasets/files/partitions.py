"""Hive partitioning: columns in the names of folders, such as `year=2019/kind=a/0.parquet`.

Hive, Spark, DuckDB, pandas and Polars write such folders. The rules are those of `pyarrow.dataset` with the flavor
"hive": a column whose values are all 32-bit integers is int32, any other is text; values are percent-decoded;
`__HIVE_DEFAULT_PARTITION__` is a missing value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from beam_datasets.errors import InputError
from beam_datasets.files.convert import label_of
from beam_datasets.files.fields import FLOATS, INTEGERS, Field, advice
from beam_datasets.files.glob import fixed_folder

MISSING_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?\d{1,10}|0[xX][0-9a-fA-F]{1,7}", re.ASCII)
_INT32 = range(-(2**31), 2**31)

AddColumns = Callable[[dict[str, Any]], dict[str, Any]]
"""A function from a row to the row with the columns of its folders."""


def folder_values(name: str) -> dict[str, str | None]:
    """Returns {column: value} of the folders in the name of a file; None is a missing value.

    Raises:
        InputError: a name is not UTF-8, or two folders have different values of a column.

    >>> folder_values("year=2019/kind=a%20b/0.parquet")
    {'year': '2019', 'kind': 'a b'}
    """
    values: dict[str, str | None] = {}
    for folder in name.split("/")[:-1]:
        column, is_partition, text = folder.partition("=")
        if not is_partition or not column:
            continue
        try:
            column, value = unquote(column, errors="strict"), unquote(text, errors="strict")
        except UnicodeDecodeError as error:
            raise InputError(
                expected="names of folders in UTF-8",
                got=f"{error.object!r:.60} in {folder!r:.60}",
                advice="Rename the folder",
                path=name,
            ) from None
        stored_value = None if text == MISSING_VALUE else value
        if values.setdefault(column, stored_value) != stored_value:
            raise InputError(
                expected=f"one value of {column!r}",
                got=f"{values[column]!r:.60} and {stored_value!r:.60} in the names of folders",
                advice="Rename one of the folders",
                path=name,
            )
    return values


def with_first_partition(pattern: str, *, is_folder: bool) -> str:
    """Returns a pattern of the same files that has the columns of all folders; '' if the pattern has them itself.

    The names of files, and so the columns, begin below the last folder before a wildcard. So the last character of the
    first folder with a value becomes a class of one character, which is a wildcard.

    Args:
        pattern: a path or URL, which may have wildcards.
        is_folder: whether it is a folder, which stands for the files in it.

    >>> with_first_partition("in/y=2019/k=a/*.csv", is_folder=False), with_first_partition("in/y=2019", is_folder=True)
    ('in/y=201[9]/k=a/*.csv', 'in/y=201[9]/**')
    >>> with_first_partition("in/y=*/k=a/*.csv", is_folder=False)
    ''
    """
    folder = f"{pattern.rstrip('/')}/" if is_folder else fixed_folder(pattern)
    names = folder.split("/")
    index = next((i for i, name in enumerate(names) if name.find("=") > 0 and name[-1] not in "[]!^"), None)
    if index is None:
        return ""
    names[index] = f"{names[index][:-1]}[{names[index][-1]}]"
    return "/".join(names) + ("**" if is_folder else pattern[len(folder) :])


@dataclass(frozen=True)
class PartitionColumns:
    """The partition columns of a set of files.

    Attributes:
        values: column -> its distinct values as text, without missing ones.
        optional: columns that have a missing value, or that the names of some files lack.
    """

    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> PartitionColumns:
        """Returns the partition columns of files, given their names."""
        files = [folder_values(name) for name in names]
        columns = dict.fromkeys(column for values in files for column in values)
        column_texts = {column: [values.get(column) for values in files] for column in columns}
        return cls(
            {column: frozenset(text for text in texts if text is not None) for column, texts in column_texts.items()},
            frozenset(column for column, texts in column_texts.items() if None in texts),
        )

    def is_integer(self, column: str) -> bool:
        """Returns whether all values of a column are 32-bit integers."""
        texts = self.values[column]
        return bool(texts) and all(_INTEGER.fullmatch(text) and _parse_integer(text) in _INT32 for text in texts)

    def fields(self) -> dict[str, Field]:
        """Returns {column: its field}: int32 or string, optional if some file has no value."""
        return {
            column: Field("int32" if self.is_integer(column) else "string", optional=column in self.optional)
            for column in self.values
        }

    def adder(
        self, name: str, fields: Mapping[str, Field], dropped_columns: Collection[str] = (), *, is_text: bool
    ) -> AddColumns | None:
        """Returns the function from a row to the row with the partition columns of a file; None if there are none.

        The function raises ValueError if a row has a partition column with another value than the folder.

        Args:
            name: name of the file, with its folders.
            fields: fields of the dataset; a column of the kind `string` is added as text even if it has integers.
            dropped_columns: columns that are left out of the dataset, and so are not compared with the folder.
            is_text: whether all values of the rows are text, as in CSV files; then those of columns are, too.
        """
        values: dict[str, Any] = {}
        for column, text in (dict.fromkeys(self.values) | folder_values(name)).items():
            is_number = not is_text and column in self.values and self.is_integer(column)
            if text is not None and is_number and (column not in fields or fields[column].kind != "string"):
                values[column] = _parse_integer(text)
            elif text is not None and is_text and column in fields and fields[column].kind in (*INTEGERS, *FLOATS):
                values[column] = (
                    str(_parse_integer(text)) if _INTEGER.fullmatch(text) else text
                )  # 0x10 is no CSV number
            else:
                values[column] = text
        if not values:
            return None

        def add(row: dict[str, Any]) -> dict[str, Any]:
            """Returns the row with the partition columns; if it has all of them, unchanged.

            Raises:
                ValueError: the row has another value than the folder.
            """
            for column, value in values.items():
                if column in row and column not in dropped_columns and not _is_same(row[column], value):
                    raise ValueError(
                        f"column {column!r}: expected {value!r}, as in the name of the folder, got "
                        f"{row[column]!r:.60}. Rename the folder, or leave both out: {advice(column, 'drop')}"
                    )
            return {**row, **values} if values.keys() - row.keys() else row

        return add


def _parse_integer(text: str) -> int:
    """Returns the integer of a decimal or hexadecimal text: 7 for "07", 255 for "0xff".

    Raises:
        ValueError: it is another text.
    """
    return int(text, 16 if text[:2] in ("0x", "0X") else 10)


def _is_same(value: Any, folder_value: Any) -> bool:
    """Returns whether a value of a row equals the value of its folder, as values, as text or as integers.

    >>> _is_same(7, "07"), _is_same("", None), _is_same("a", "b")
    (True, True, False)
    """
    if value == folder_value or value is None or folder_value is None:
        return value == folder_value or (folder_value is None and value == "")
    text = label_of(value)
    if text == label_of(folder_value):
        return True
    texts = (text, label_of(folder_value))
    return all(map(_INTEGER.fullmatch, texts)) and len(set(map(_parse_integer, texts))) == 1


NO_PARTITIONS = PartitionColumns()
