"""A dataset of the rows of CSV files (RFC 4180: fields may be quoted and hold line ends), without code.

    beam-datasets build csv --data_dir out --name houses --split train='data/train*.csv' --split test=data/test.csv
    beam-datasets build csv --data_dir out --name houses --pattern 'data/*.csv' --split train=90% --split test=10% \
        --feature price=float32 --feature kind=class:flat,house --feature note=drop --key id --delimiter ';'

A column is int64, float32, float64 or bool if all its values are, and text otherwise; numbers with leading zeros are
text. Files are not cut: a quoted field may hold anything, so only a reader from the start knows where a row begins.
"""

from __future__ import annotations

import csv
import io
import logging
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.builder import Row, RowsBuilder
from beam_datasets.files.fields import Field, with_absent
from beam_datasets.files.infer import Guess, Inference, text_kinds
from beam_datasets.files.inputs import InputFile, Piece, check_encoding, open_bytes, undecodable

log = logging.getLogger(__name__)

_FIELD_LIMIT = 1 << 28  # characters of one field; Python's own limit of 131,072 is below what people store
_ESCAPED = re.compile("[\udc80-\udcff]")


class Csv(RowsBuilder):
    """Rows of CSV files.

    Args:
        delimiter: between fields; by default a tab in .tsv files and a comma in others.
        quote: around fields; '' for files that never quote.
        encoding: of the text.
        columns: names of the columns (a,b,c), for files without a header.
        missing: a text that means a missing value, as an empty one does.
        common: see RowsBuilder.
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
    def _headers(self) -> dict[InputFile, list[str]]:
        """The columns of each file that is not empty."""
        headers = {file: header(file, self._dialect) for file in self._all_files}
        found = {file: names for file, names in headers.items() if names}
        if not found:
            raise NoExamplesError(f"no file has a row: {self.files_text}")
        return found

    def _found_fields(self) -> dict[str, Field]:
        headers = self._headers
        columns = list(dict.fromkeys(name for names in headers.values() for name in names))
        used = {_delimiter(file, self._dialect) for file in headers}
        one = columns[0] if len(columns) == 1 and columns[0] not in self._specs else ""
        other = next((d for d in ",;\t|" if d in one and d not in used), "")
        other = other and f"; is the delimiter another? (--delimiter {other!r})"
        kind_of, empty = text_kinds(self._missing or ()), Guess(fields={name: Guess() for name in columns})
        guess, problem = self._guess_of(self._rows, empty, kind_of)
        if not guess.rows:
            if problem:
                raise InputError(f"no row can be used; {problem}{other}")
            raise NoExamplesError(f"no file has a row below its header: {self.files_text}")
        if other:
            raise InputError(
                f"{self.files_text}: expected several columns, got one, {one!r}{other}. If this is its name, give its "
                f"type: --feature {shlex.quote(f'{one}=string')}"
            )
        for name, warning in guess.stray_texts():
            if name not in self._specs:
                log.warning(warning)
        names_of = {file.path: names for file, names in headers.items()}
        return with_absent(Inference(is_text=True).fields(guess), names_of, may_lack=self._may_lack)

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        return partial(rows, dialect=self._dialect)


@dataclass(frozen=True)
class Dialect:
    """How the files are written.

    Attributes:
        delimiter: between fields; None for a tab in `.tsv` files and a comma in others.
        quote: around fields; a doubled one inside means one; '' for files that never quote.
        encoding: of the text; a byte order mark is dropped.
        columns: names, for files that have no header.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str = "utf-8"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter is {self.delimiter!r}; expected one character")
        if len(self.quote) > 1:
            raise ValueError(f"quote is {self.quote!r}; expected one character, or '' for none")


def names_of(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the names of a row of CSV, or of a sequence.

    >>> names_of('a, b,"c,d"')
    ('a', 'b', 'c,d')
    """
    if not columns:
        return ()
    listed = next(csv.reader([columns], skipinitialspace=True)) if isinstance(columns, str) else columns
    return tuple(check_names(listed, "columns"))


def header(file: InputFile, dialect: Dialect) -> list[str]:
    """Returns the names of a file's columns; [] if the file is empty.

    Raises:
        InputError: a name is empty or occurs twice, or the file cannot be read.
    """
    if dialect.columns:
        return list(dialect.columns)
    for number, _, fields, problem in _lines(file, dialect):
        if problem:
            raise InputError(f"{file.path}, line {number}: {problem}")
        return check_names(fields, f"{file.path}, line {number}")
    return []


def check_names(names: Sequence[str], place: str) -> list[str]:
    """Returns the names without outer spaces; each must be there and be unique."""
    clean = [name.strip() for name in names]
    twice = sorted({name for name in clean if name and clean.count(name) > 1})
    if twice:
        raise InputError(
            f"{place}: the columns {', '.join(map(repr, twice))} occur twice; name all columns by --columns a,b,c"
        )
    if "" in clean:
        raise InputError(f"{place}: column {clean.index('') + 1} has no name; name all columns by --columns a,b,c")
    return clean


def rows(piece: Piece, dialect: Dialect) -> Iterator[Row]:
    """Yields the line and the texts of each row of a file, by column; blank lines are not rows."""
    names = header(piece.file, dialect)
    for number, stop, fields, problem in islice(_lines(piece.file, dialect), 0 if dialect.columns else 1, None):
        place = number if stop == number + 1 else f"line {number} to {stop - 1}"
        if problem or len(fields) != len(names):
            shown = ", ".join(map(repr, fields[:4])) + " ..." * (len(fields) > 4)
            yield number, place, problem or f"{len(fields)} fields where the header has {len(names)} ({shown})"
        else:
            yield number, place, dict(zip(names, fields))


def _lines(file: InputFile, dialect: Dialect) -> Iterator[tuple[int, int, list[str], str]]:
    """Yields (first line, line after the last, fields, problem) of each row and of the header."""
    csv.field_size_limit(_FIELD_LIMIT)
    codec = "utf-8-sig" if dialect.encoding.lower() in ("utf-8", "utf8") else dialect.encoding
    delimiter = _delimiter(file, dialect)
    form: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    with open_bytes(file.path) as stream:
        # Bytes that cannot be decoded become surrogates, so that they spoil their row and not the rest of the file.
        text = io.TextIOWrapper(stream, codec, errors="surrogateescape", newline="")
        reader = csv.reader(text, strict=True, delimiter=delimiter, **form)
        stop = 1
        while True:
            number, problem, fields = stop, "", []
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = _csv_problem(error)
            stop = reader.line_num + 1
            if fields or problem:
                yield number, stop, fields, problem or _undecoded("".join(fields), dialect.encoding)


def _delimiter(file: InputFile, dialect: Dialect) -> str:
    return dialect.delimiter or ("\t" if ".tsv" in file.name or ".tab" in file.name else ",")


def _undecoded(text: str, encoding: str) -> str:
    if text.isascii() or not _ESCAPED.search(text):
        return ""
    try:
        text.encode(encoding, "surrogateescape").decode(encoding)
    except UnicodeDecodeError as error:
        return undecodable(error, with_column=False)
    return ""


def _csv_problem(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end" in text or "field larger" in text:
        return f"{text}; is a quote opened in this row that is never closed? (--quote '' for files that do not quote)"
    if "NUL" in text:  # Python 3.10 stops at it
        return f"{text}; is the file UTF-16? (--encoding utf-16)"
    return text
