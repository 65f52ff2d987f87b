"""A dataset of the rows of CSV files, without code.

    beam-datasets build csv --data_dir out --name houses --split train='data/train*.csv' --split test=data/test.csv
    beam-datasets build csv --data_dir out --name houses --pattern 'data/*.csv' --split train=90% --split test=10% \
        --feature price=float32 --feature kind=class:flat,house --feature note=drop --key id --delimiter ';'

A column is int64, float32, float64 or bool where all its values are, and text otherwise; numbers with leading zeros
are text.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError
from pipelines.files.builder import FilesBuilder
from pipelines.files.csv_rows import CsvRows, Dialect, check_columns, header, line_problem, names_of, rows
from pipelines.files.infer import Guess, text_kinds
from pipelines.files.inputs import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipelines.files.inputs import InputFile
    from pipelines.files.schema import Field

log = logging.getLogger(__name__)


class Csv(FilesBuilder):
    """Rows of CSV files.

    Args:
        delimiter: between fields; by default a tab in .tsv files and a comma in others.
        quote: around fields; '' for files that never quote.
        encoding: of the text.
        columns: names of the columns (a,b,c), for files without a header.
        missing: a text that stands for a missing value, as an empty one does.
        common: see FilesBuilder.
    """

    def __init__(
        self,
        *,
        delimiter: str | None = None,
        quote: str = '"',
        encoding: str = "utf-8",
        columns: str | Sequence[str] | None = None,
        missing: Sequence[str] = ("",),
        **common: Any,
    ) -> None:
        self._dialect = Dialect(delimiter, quote, encoding, names_of(columns))
        self._missing = tuple(dict.fromkeys(["", *missing]))
        super().__init__(**common)

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        return [Piece(file) for file in files]

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        for file in self._all_files:
            if names := header(file, self._dialect):
                return tuple(names)
        raise InputError(f"no file has a row: {', '.join(file.path for file in self._all_files[:5])}")

    def _found_fields(self) -> dict[str, Field]:
        guess = Guess(fields={name: Guess() for name in self._columns})
        kind_of = text_kinds(self._missing)
        most = -(-self._infer_rows // len(self._all_files))
        problem = ""
        for file in self._all_files:
            names = header(file, self._dialect)
            check_columns(names, self._columns, file)
            for i, line in enumerate(rows(file, self._dialect, skip_header=not self._dialect.columns)):
                if i == most:
                    break
                if wrong := line_problem(line, names):
                    problem = problem or f"{file.path}, line {line.number}: {wrong}"
                else:
                    guess.add_row(dict(zip(names, line.fields)), f"{file.path}, line {line.number}", kind_of)
        if not guess.rows:
            paths = ", ".join(file.path for file in self._all_files[:5])
            problem = problem and f"no row can be used; {problem}{self._other_delimiter()}"
            raise InputError(problem or f"no file has a row below its header: {paths}")
        self._guesses = guess.fields
        if other := self._other_delimiter():
            log.warning("there is one column, %r%s", self._columns[0], other)
        for note in guess.notes(but_not=self._specs):
            log.warning(note)
        return guess.row_fields(lenient=True)

    def _other_delimiter(self) -> str:
        """Returns a question to the user where the only column looks like several; else ''."""
        other = next((d for d in ";\t|" if d in self._columns[0]), "") if len(self._columns) == 1 else ""
        return other and f"; is the delimiter another? (--delimiter {other!r})"

    def _rows_reader(self) -> CsvRows:
        return CsvRows(self._dialect, self._columns, self._fields, self._key, self._missing)
