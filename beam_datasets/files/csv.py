"""A dataset of the rows of CSV files (RFC 4180: fields may be quoted and hold line ends), without code.

    beam-datasets build csv --data_dir out --name houses --split train='data/train*.csv' --split test=data/test.csv
    beam-datasets build csv --data_dir out --name houses --pattern 'data/*.csv' --split train=90% --split test=10% \
        --feature price=float32 --feature kind=class:flat,house --feature note=drop --key id --delimiter ';'

A column is int64, float32, float64 or bool if all its values are, and text otherwise; numbers with leading zeros are
text. Files are not cut: a quoted field may hold anything, so only a reader from the start knows where a row begins.
A first column without a name, as pandas writes its index, is called `index`.
"""

from __future__ import annotations

import csv
import io
import itertools
import logging
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.builder import SKIP_ADVICE, Row, RowsBuilder
from beam_datasets.files.fields import Field, with_absent
from beam_datasets.files.infer import Guess, Inference, text_kinds
from beam_datasets.files.inputs import InputFile, Piece, check_encoding, undecodable
from beam_datasets.intake.streams import codec_of, open_text_bytes, with_line_limit

log = logging.getLogger(__name__)

_FIELD_LIMIT = 1 << 28  # characters of one field; Python's own limit of 131,072 is below what people store
_ESCAPED = re.compile("[\ud800-\udfff]")


class Csv(RowsBuilder):
    """Rows of CSV files.

    Args:
        delimiter: between fields; by default a tab in .tsv and .tab files and a comma in others.
        quote: around fields; '' for files that never quote.
        escapechar: before a delimiter, a quote or itself that is part of a field, such as a backslash.
        comment: what lines begin with that are no rows, such as #.
        decimal: the decimal separator of numbers.
        encoding: of the text.
        columns: names of the columns (a,b,c), for files without a header.
        skip_header: files have a header, which `columns` replaces.
        missing: a text that means a missing value, as an empty one does.
        common: see RowsBuilder.
    """

    def __init__(
        self,
        *,
        delimiter: str | None = None,
        quote: str = '"',
        escapechar: str = "",
        comment: str = "",
        decimal: str = ".",
        encoding: str = "utf-8",
        columns: str | Sequence[str] | None = None,
        skip_header: bool = False,
        missing: Sequence[str] = ("",),
        **common: Any,
    ) -> None:
        if delimiter == r"\t":  # as a shell passes '\t'
            delimiter = "\t"
        self._dialect = Dialect(
            delimiter, quote, check_encoding(encoding), names_of(columns), skip_header, escapechar, comment, decimal
        )
        self._missing = tuple(dict.fromkeys(["", *missing]))
        self._decimal = decimal
        super().__init__(**common)

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        return [Piece(file) for file in files]

    @cached_property
    def _headers(self) -> dict[InputFile, list[str]]:
        """The columns of each file that is not empty."""
        found, problem = {}, ""
        for file in self._all_files:
            try:
                if names := header(file, self._dialect):
                    found[file] = names
            except InputError as error:  # again when its rows are read, and counted there
                if not self._skip_bad:
                    raise InputError(f"{error}\n{SKIP_ADVICE}") from error
                problem = problem or str(error)
        if not found and problem:
            raise InputError(f"no file can be used; {problem}")
        if not found:
            raise NoExamplesError(f"no file has a row: {self.files_text}")
        return found

    def _found_fields(self) -> dict[str, Field]:
        headers = self._headers
        columns = list(dict.fromkeys(name for names in headers.values() for name in names))
        used = {self._dialect.delimiter_of(file) for file in headers}
        one = columns[0] if len(columns) == 1 and columns[0] not in self._specs else ""
        other = next((d for d in ",;\t|" if d in one and d not in used), "")
        other = other and f"; is the delimiter another? (--delimiter {other!r})"
        kind_of, empty = (
            text_kinds(self._missing or (), self._decimal),
            Guess(fields={name: Guess() for name in columns}),
        )
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
        delimiter: between fields; None for a tab in `.tsv` and `.tab` files and a comma in others.
        quote: around fields; a doubled one inside means one; '' for files that never quote.
        encoding: of the text, as Python names it; a byte order mark is dropped.
        columns: names, for files that have no header.
        skip_header: the first row is a header, which `columns` replace.
        escapechar: before a character that has no other meaning then; '' if there is none.
        comment: what lines begin with that are left out; '' if there are none.
        decimal: between the integer part and the fraction of numbers.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str = "utf-8"
    columns: tuple[str, ...] = ()
    skip_header: bool = False
    escapechar: str = ""
    comment: str = ""
    decimal: str = "."

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter is {self.delimiter!r}; expected one character")
        for name, value in (("quote", self.quote), ("escapechar", self.escapechar)):
            if len(value) > 1:
                raise ValueError(f"{name} is {value!r}; expected one character, or '' for none")
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal is {self.decimal!r}; expected . or ,")
        if self.skip_header and not self.columns:
            raise ValueError("skip_header: expected the names of the columns (--columns a,b,c), got none")

    @property
    def has_header(self) -> bool:
        """Whether the first row is a header."""
        return self.skip_header or not self.columns

    def delimiter_of(self, file: InputFile) -> str:
        """Returns the delimiter of a file."""
        if self.delimiter is not None:
            return self.delimiter
        name, codec = file.path.lower(), codec_of(file.path)
        suffix = next((suffix for suffix in codec.suffixes if name.endswith(suffix)), "") if codec else ""
        return "\t" if name.removesuffix(suffix).endswith((".tsv", ".tab")) else ","


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
        return check_names(_with_index(fields), f"{file.path}, line {number}")
    return []


def _with_index(names: list[str]) -> list[str]:
    """Returns the names, with one for the first column if it alone lacks one: pandas writes its index so."""
    if len(names) < 2 or names[0].strip() or not all(name.strip() for name in names[1:]):
        return names
    return ["level_0" if "index" in names else "index", *names[1:]]  # as pandas calls it


def check_names(names: Sequence[str], place: str) -> list[str]:
    """Returns the names without outer spaces; each must be there and be unique."""
    clean = [name.strip() for name in names]
    twice = sorted({name for name in clean if name and clean.count(name) > 1})
    ways = "name all columns by --columns a,b,c --skip_header"
    if twice:
        raise InputError(f"{place}: the columns {', '.join(map(repr, twice))} occur twice; {ways}")
    if "" in clean:
        raise InputError(f"{place}: column {clean.index('') + 1} has no name; {ways}")
    return clean


def rows(piece: Piece, dialect: Dialect) -> Iterator[Row]:
    """Yields the line and the texts of each row of a file, by column; blank lines are not rows."""
    names = header(piece.file, dialect)
    for number, stop, fields, problem in islice(_lines(piece.file, dialect), int(dialect.has_header), None):
        place = number if stop == number + 1 else f"line {number} to {stop - 1}"
        if problem or len(fields) != len(names):
            shown = ", ".join(map(repr, fields[:4])) + " ..." * (len(fields) > 4)
            yield number, place, problem or f"{len(fields)} fields where the header has {len(names)} ({shown})"
        else:
            yield number, place, dict(zip(names, fields))


def _lines(file: InputFile, dialect: Dialect) -> Iterator[tuple[int, int, list[str], str]]:
    """Yields (first line, line after the last, fields, problem) of each row and of the header."""
    csv.field_size_limit(_FIELD_LIMIT)
    form: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    with open_text_bytes(file.path) as stream:
        # Bytes that cannot be decoded become surrogates, so that they spoil their row and not the rest of the file.
        codec = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
        decoded = io.TextIOWrapper(with_line_limit(stream, file.path), codec, errors="surrogateescape", newline="")
        first = decoded.readline().removeprefix("\ufeff")  # a byte order mark, which utf-16-le and others keep
        text = _Uncommented(itertools.chain([first] if first else (), decoded), dialect.comment)
        reader = csv.reader(
            text if dialect.comment else text.lines,
            strict=True,
            delimiter=dialect.delimiter_of(file),
            escapechar=dialect.escapechar or None,
            **form,
        )
        stop = 1
        while True:
            number, problem, fields = stop, "", []
            text.is_row_start = True
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = _csv_problem(error)
            except UnicodeDecodeError as error:  # of UTF-16, which cannot go on after damage
                raise InputError(f"{file.path}, line {number}: {undecodable(error)}") from None
            stop = reader.line_num + 1 + text.num_comments
            if fields or problem:
                yield number, stop, fields, problem or _undecoded("".join(fields), dialect.encoding)


class _Uncommented:
    """Lines of text without those of comments, which begin where a row would.

    Attributes:
        lines: of the file.
        comment: what a comment begins with.
        is_row_start: whether the next line begins a row, and not a line of a quoted field.
        num_comments: the number of lines that were left out.
    """

    def __init__(self, lines: Iterator[str], comment: str) -> None:
        self.lines = lines
        self.comment = comment
        self.is_row_start = True
        self.num_comments = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        while self.is_row_start and line.startswith(self.comment):
            self.num_comments += 1
            line = next(self.lines)
        self.is_row_start = False
        return line


def _undecoded(text: str, encoding: str) -> str:
    """Returns what is wrong with text that contains bytes which are not of the encoding; '' if nothing is."""
    if text.isascii() or not _ESCAPED.search(text):
        return ""
    try:
        text.encode(encoding, "surrogateescape").decode(encoding)
    except UnicodeDecodeError as error:
        return undecodable(error)
    except UnicodeEncodeError as error:
        return f"{error.object[error.start]!r} is a lone surrogate, which is no text"
    return ""


def _csv_problem(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end" in text or "field larger" in text:
        return f"{text}; is a quote opened in this row that is never closed? (--quote '' for files that do not quote)"
    if "NUL" in text:  # Python 3.10 stops at it
        return f"{text}; is the file UTF-16? (--encoding utf-16)"
    return text
