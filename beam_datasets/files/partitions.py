"""Columns in the names of folders, as Hive, Spark, DuckDB, pandas and Polars write them: `year=2019/kind=a/0.parquet`.

The rules are those of `pyarrow.dataset` with the flavor "hive": a column whose values are all 32-bit integers is int32,
any other is text; values are percent-decoded; `__HIVE_DEFAULT_PARTITION__` is a missing value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from beam_datasets.files.convert import label_of
from beam_datasets.files.fields import Field, advice

MISSING_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?\d{1,10}|0[xX][0-9a-fA-F]{1,7}", re.ASCII)
_INT32 = range(-(2**31), 2**31)

AddColumns = Callable[[dict[str, Any]], dict[str, Any]]


def folder_values(name: str) -> dict[str, str | None]:
    """Returns the values in the folders of a file's name, by their columns; None is a missing value.

    >>> folder_values("year=2019/kind=a%20b/0.parquet")
    {'year': '2019', 'kind': 'a b'}
    """
    found: dict[str, str | None] = {}
    for folder in name.split("/")[:-1]:
        column, is_partition, text = folder.partition("=")
        if is_partition and column:
            found[unquote(column)] = None if text == MISSING_VALUE else unquote(text)
    return found


def _integer(text: str) -> int:
    return int(text, 16 if text[:2] in ("0x", "0X") else 10)


@dataclass(frozen=True)
class PartitionColumns:
    """The columns in the folders of some files.

    Attributes:
        values: column -> its distinct values.
        optional: columns of which some files have no value.
    """

    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> PartitionColumns:
        """Returns the columns of files of these names."""
        files = [folder_values(name) for name in names]
        columns = dict.fromkeys(column for values in files for column in values)
        texts = {column: [values.get(column) for values in files] for column in columns}
        return cls(
            {column: frozenset(text for text in found if text is not None) for column, found in texts.items()},
            frozenset(column for column, found in texts.items() if None in found),
        )

    def is_integer(self, column: str) -> bool:
        """Returns whether all values of a column are 32-bit integers."""
        texts = self.values[column]
        return bool(texts) and all(_INTEGER.fullmatch(text) and _integer(text) in _INT32 for text in texts)

    def fields(self) -> dict[str, Field]:
        """Returns the field of each column."""
        return {
            column: Field("int32" if self.is_integer(column) else "string", optional=column in self.optional)
            for column in self.values
        }

    def adder(
        self, name: str, fields: Mapping[str, Field], dropped: Collection[str] = (), *, is_text: bool
    ) -> AddColumns | None:
        """Returns the function that adds the columns of a file to its rows; None if it has none.

        The function raises ValueError if a row has another value of such a column than the folder.

        Args:
            name: of the file.
            fields: of the rows, which decide whether a value is an integer or text.
            dropped: columns that are left out, whose values may differ.
            is_text: the values of rows are text.
        """
        values: dict[str, Any] = {}
        for column, text in (dict.fromkeys(self.values) | folder_values(name)).items():
            is_number = not is_text and column in self.values and self.is_integer(column)
            if text is not None and is_number and (column not in fields or fields[column].kind != "string"):
                values[column] = _integer(text)
            else:
                values[column] = text
        if not values:
            return None

        def add(row: dict[str, Any]) -> dict[str, Any]:
            for column, value in values.items():
                if column in row and column not in dropped and not _is_same(row[column], value):
                    raise ValueError(
                        f"column {column!r}: expected {value!r}, as in the name of the folder, got "
                        f"{row[column]!r:.60}. Rename the folder, or leave both out: {advice(column, 'drop')}"
                    )
            return {**row, **values} if values.keys() - row.keys() else row

        return add


def _is_same(value: Any, folder: Any) -> bool:
    """Returns whether a value of a row is that of its folder."""
    if value == folder or value is None or folder is None:
        return value == folder or (folder is None and value == "")
    text = label_of(value)
    if text == label_of(folder):
        return True
    texts = (text, label_of(folder))
    return all(map(_INTEGER.fullmatch, texts)) and len(set(map(_integer, texts))) == 1


NO_PARTITIONS = PartitionColumns()
