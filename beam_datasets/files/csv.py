r"""Datasets of the rows of CSV files (RFC 4180: quoted fields may contain line ends), without code.

    beam-datasets build csv --data_dir out --name houses --split train='data/train*.csv' --split test=data/test.csv
    beam-datasets build csv --data_dir out --name houses --pattern 'data/*.csv' --split train=90% --split test=10% \
        --feature price=float32 --feature kind=class:flat,house --feature note=drop --key id --delimiter ';'

A column is int64, float32, float64 or bool if all its values are of that type, and text if half of its values are not,
or if it has numbers with leading zeros; fewer other values are an error. Files are not cut into pieces: a quoted field
may contain line ends, so that rows are found only by reading a file from its start. A first column without a name, as
pandas writes its index, is called `index`.
"""

from __future__ import annotations

import csv
import io
import itertools
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from beam_datasets import limits
from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.bad_rows import with_skip_advice
from beam_datasets.files.builder import RowsBuilder
from beam_datasets.files.fields import Field, advice, feature_option, with_absent
from beam_datasets.files.format_options import given_options, option
from beam_datasets.files.infer import Guess, Inference, TextKinds
from beam_datasets.files.inputs import InputFile, Piece, check_encoding, undecodable
from beam_datasets.files.numerals import Numerals, options_for, options_for_all
from beam_datasets.files.rows import Row
from beam_datasets.files.text_notes import date_conversion, describe_conversion
from beam_datasets.intake.streams import LineLimited, codec_of, open_text_bytes

if TYPE_CHECKING:
    from beam_datasets.files.arguments import RowsArguments
    from beam_datasets.metadata.inputs import FormatOptions

log = logging.getLogger(__name__)

_DELIMITER_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel writes and reads it as the first line
_JSON_START = re.compile(r"\{(['\"]|\s*$)|\[(\{|\s*$)")
_MARKUP_START = re.compile(r"<(!doctype|html|\?xml)\b", re.IGNORECASE)
_FRACTION = re.compile(r"[+-]?\d*[.]\d+(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_ESCAPED = re.compile("[\ud800-\udfff]")  # bytes that could not be decoded, as surrogates


class Csv(RowsBuilder):
    r"""Rows of CSV files.

    Args:
        delimiter: separator of fields. The default is set by a first line such as sep=;, which Excel writes;
            otherwise it is a tab in .tsv and .tab files, and a comma in others.
        quote: quote character around fields, by default "; '' for files without quoted fields.
        escapechar: character that precedes a delimiter, a quote, a line end or itself inside a field, such as a
            backslash; before another character it is kept. Followed by N alone (\N), it is one of `missing`.
        comment: beginning of lines to ignore, such as #.
        decimal: decimal separator of numbers, . (the default) or ,.
        thousands: thousands separator of numbers, such as . or , or a space; by default none.
        encoding: encoding of the text; by default utf-8.
        columns: names of the columns (a,b,c), for files without a header.
        skip_header: skip the first row, a header that `columns` replaces.
        missing: texts that represent a missing value, in addition to empty text; in columns of text, only if their type
            is given as `string?`.
        common: see RowsBuilder.
    """

    def __init__(
        self,
        *,
        delimiter: str | None = None,
        quote: str | None = None,
        escapechar: str | None = None,
        comment: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        encoding: str | None = None,
        columns: str | Sequence[str] | None = None,
        skip_header: bool | None = None,
        missing: Sequence[str] | None = None,
        **common: Unpack[RowsArguments],
    ) -> None:
        self._format_options = given_options(
            delimiter="\t" if delimiter in (r"\t", "tab") else delimiter,  # as they are typed in a shell
            quote=quote,
            escapechar=escapechar,
            comment=comment,
            decimal=decimal,
            thousands=thousands,
            encoding=encoding,
            columns=None if columns is None else parse_names(columns),
            skip_header=skip_header,
            missing=[missing] if isinstance(missing, str) else missing,
        )
        super().__init__(**common)

    def _set_format(self, options: FormatOptions) -> None:
        """Sets the options of the format; see `RowsBuilder._set_format`."""
        super()._set_format(options)
        delimiter: Any = options.get("delimiter")
        escapechar = option(options, "escapechar", "")
        columns = tuple(option(options, "columns", list[str]()))
        quote, encoding = option(options, "quote", '"'), check_encoding(option(options, "encoding", "utf-8"))
        skip_header, comment = option(options, "skip_header", False), option(options, "comment", "")
        self._dialect = Dialect(delimiter, quote, encoding, columns, skip_header, escapechar, comment)
        null = [f"{escapechar}N"] if escapechar else []  # of MySQL and PostgreSQL
        self._missing = tuple(dict.fromkeys(["", *option(options, "missing", list[str]()), *null]))
        self._numerals = Numerals(option(options, "decimal", "."), option(options, "thousands", ""))

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        """Returns one piece per file; see `RowsBuilder._pieces`."""
        return [Piece(file) for file in files]

    @cached_property
    def _headers(self) -> dict[InputFile, list[str]]:
        """{file: its column names} of all files that are not empty.

        Raises:
            InputError: a file has no valid header, unless bad rows are skipped and another file has one.
            NoExamplesError: all files are empty.
        """
        columns: dict[InputFile, list[str]] = {}
        problem = ""
        for file in self._all_files:
            try:
                if names := header(file, self._dialect, self._typed_names):
                    if self._dialect.has_header and not columns and (number := _number_of_data(names)):
                        column_names = ",".join(f"c{i}" for i in range(1, len(names) + 1))
                        log.warning(
                            f"{file.path}: the header has numbers as names of columns, such as {number!r}; if it is "
                            f"the first row of the data, --columns {column_names} names the columns"
                        )
                    columns[file] = names
            except InputError as error:  # reading its rows raises the same error, which is counted then
                if not self._skip_bad:
                    raise InputError(with_skip_advice(error)) from error
                problem = problem or str(error)
        if not columns and problem:
            raise InputError(f"no file can be used; {problem}")
        if not columns:
            raise NoExamplesError(f"no file has a row: {self.files_text}")
        return columns

    def _infer_fields(self) -> dict[str, Field]:
        """Infers the fields of all columns, and warns about columns that may be text by mistake.

        Raises:
            InputError: no row can be used, or the delimiter seems to be wrong.
            NoExamplesError: no file has a row.
        """
        headers = self._headers
        columns = list(dict.fromkeys(name for names in headers.values() for name in names))
        used_delimiters = {self._dialect.delimiter_of(file) for file in headers}
        only_column = columns[0] if len(columns) == 1 and columns[0] not in self._specs else ""
        other_delimiter = next((d for d in ",;\t|" if d in only_column and d not in used_delimiters), "")
        delimiter_advice = other_delimiter and f"; is the delimiter different? (--delimiter {other_delimiter!r})"
        guess, problem = self._guess_of_columns(columns)
        if not guess.rows:
            if problem:
                raise InputError(f"no row can be used; {problem}{delimiter_advice}")
            raise NoExamplesError(f"no file has a row below its header: {self.files_text}")
        if delimiter_advice:
            raise InputError(
                f"{self.files_text}: expected several columns, got one, {only_column!r}{delimiter_advice}. If this is "
                f"its name, give its type: {feature_option(only_column, 'string')}"
            )
        separators = {name: self._separators(name, column) for name, column in guess.fields.items()}
        for name, warning in self._text_warnings(guess):
            # the types of a published version are decided
            if not separators[name] and name not in self._specs and name not in self._known_types:
                log.warning(warning)
        names_by_path = {file.path: names for file, names in headers.items()}
        inference = Inference(is_text=True, numerals=self._numerals, skip_bad=self._skip_bad)
        fields = inference.fields(guess)
        for name, note in inference.notes:
            if name not in self._known_types:
                log.warning(note)
        fields = {name: replace(field, problem=field.problem or separators[name]) for name, field in fields.items()}
        return with_absent(fields, names_by_path, may_lack=self._may_lack)

    def _separators(self, name: str, column: Guess) -> str:
        """Returns the problem of a text column whose texts are all numbers with other separators; '' if it has none."""
        strings, location, example = column.seen.get("string", (0, "", ""))
        if not strings or 2 * strings < column.count() or column.count("bool") or name in self._known_types:
            return ""
        numbers = options_for_all(column.texts, self._numerals)
        if column.count("float"):  # such as 1.234 among 1.234,50, but not 1.5 among 1,5
            numbers.pop("--decimal ,", None)
        if not numbers or column.has_codes:
            return ""
        ways = ", ".join(f"{options} reads it as {number}" for options, number in numbers.items())
        return (
            f"{location}: column {name!r}: expected numbers, or texts of which some are no numbers, got numbers with "
            f"other separators, such as {example!r}; {ways}; {advice(name, 'string')} accepts text"
        )

    def _guess_of_columns(self, columns: Iterable[str]) -> tuple[Guess, str]:
        """Reads the first rows of each file, and returns (kinds of the values of each column, first problem or '').

        Args:
            columns: names of the columns, which have no kinds if no row has a value; see `RowsBuilder._guess_of`.
        """
        empty_guess = Guess(fields={name: Guess() for name in columns})
        return self._guess_of(self._rows, empty_guess, TextKinds(self._missing or (), self._numerals))

    def _guess_rows(self) -> Guess:
        """Returns the kinds of the values in the first rows of each file."""
        return self._guess_of_columns(dict.fromkeys(name for names in self._headers.values() for name in names))[0]

    def _text_warnings(self, guess: Guess) -> Iterator[tuple[str, str]]:
        """Yields (name, warning) of each column that becomes text, and may have been meant as numbers or dates."""
        for name, column in guess.fields.items():
            strings, location, example = column.seen.get("string", (0, "", ""))
            options = options_for(example, self._numerals)
            if 2 * strings < column.count():
                continue  # an error, or numbers with leading zeros
            if options:
                yield name, f"{location}: column {name!r} is text, such as {example!r}; {options} makes numbers of it"
            elif example and name not in self._known_types and (way := self._date_conversion(name, column, guess.rows)):
                stored = f"{location}: column {name!r} is stored as text, such as {example!r}"
                accept = f"{advice(name, 'string')} accepts text"
                yield name, f"{stored}: {describe_conversion(f'{way} makes a date')}; {accept}"

    def _date_conversion(self, name: str, column: Guess, num_rows: int) -> str:
        """Returns code that makes dates of a column of texts where they are read; '' if they are not all dates.

        Args:
            name: name of the column.
            column: kinds of the values in the first rows.
            num_rows: number of these rows.
        """
        may_be_missing = column.count() < num_rows
        if column.count("string") < column.count() or (may_be_missing and {*(self._missing or ())} > {""}):
            return ""  # text that means a missing value, such as n/a, is stored as it is
        return date_conversion(name, column.texts, may_be_missing=may_be_missing)

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """Returns the function that reads the rows of a piece; see `RowsBuilder._rows`."""
        return partial(rows, dialect=self._dialect, typed_names=self._typed_names)

    @property
    def _typed_names(self) -> frozenset[str]:
        """The names of the columns whose types the user gives."""
        return frozenset(self._specs)


@dataclass(frozen=True)
class Dialect:
    """The format of CSV files.

    Attributes:
        delimiter: separator of fields, where a backslash and t, or `tab`, mean a tab; None for a tab in `.tsv` and
            `.tab` files and a comma in others.
        quote: quote character around fields, doubled inside them; '' for files that never quote.
        encoding: encoding of the text, as Python names it; a byte order mark is dropped.
        columns: names of the columns, for files without a header.
        skip_header: whether the first row is a header, which `columns` replaces.
        escapechar: character after which a delimiter, a quote, a line end or itself is taken literally; '' for none.
        comment: beginning of lines to ignore; '' for none.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str = "utf-8"
    columns: tuple[str, ...] = ()
    skip_header: bool = False
    escapechar: str = ""
    comment: str = ""

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
            ValueError: the encoding is unknown, a separator is not one character, or `skip_header` is set without
                `columns`.
        """
        check_encoding(self.encoding)
        if self.delimiter in ("\\t", "tab"):  # as it is typed in a shell
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter is {self.delimiter!r}; expected one character, or tab")
        for name, value in (("quote", self.quote), ("escapechar", self.escapechar)):
            if len(value) > 1:
                raise ValueError(f"{name} is {value!r}; expected one character, or '' for none")
        if self.skip_header and not self.columns:
            raise ValueError("skip_header: expected the names of the columns (--columns a,b,c), got none")

    @property
    def has_header(self) -> bool:
        """Whether the first row is a header."""
        return self.skip_header or not self.columns

    def delimiter_of(self, file: InputFile) -> str:
        """Returns the delimiter of a file: the given one, or the default for the suffix of its name."""
        if self.delimiter is not None:
            return self.delimiter
        name, codec = file.path.lower(), codec_of(file.path)
        suffix = next((suffix for suffix in codec.suffixes if name.endswith(suffix)), "") if codec else ""
        return "\t" if name.removesuffix(suffix).endswith((".tsv", ".tab")) else ","


def parse_names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns column names, given as a row of CSV or as a sequence; () for None.

    >>> parse_names('a, b,"c,d"')
    ('a', 'b', 'c,d')
    """
    if not columns:
        return ()
    listed = next(csv.reader([columns], skipinitialspace=True)) if isinstance(columns, str) else columns
    return tuple(check_names(listed, "columns"))


def header(file: InputFile, dialect: Dialect, typed_names: Collection[str] = ()) -> list[str]:
    """Returns the column names of a file, from the dialect or else from its header; [] if it has no header.

    Args:
        file: the file.
        dialect: its format.
        typed_names: the names of columns whose types the user gives; they are names whatever they look like.

    Raises:
        InputError: a name is empty or occurs twice, the first line is not a header, or the file cannot be read.
    """
    if dialect.columns:
        return list(dialect.columns)
    for _, line, _, fields, problem in _read_rows(file, dialect):
        if problem:
            raise InputError(problem, path=file.path, line=line)
        names = check_names(_with_index(fields), f"{file.path}, line {line}")
        if names[0] not in typed_names:
            _check_is_header(file.path, names[0], dialect)
        return names
    return []


def _check_is_header(path: str, name: str, dialect: Dialect) -> None:
    """Checks that a header is neither JSON nor HTML nor a comment.

    Args:
        path: path of the file.
        name: the name of its first column.
        dialect: its format.

    Raises:
        InputError: it begins as JSON, HTML or XML does; or with `#`, and no comment prefix is set.
    """
    as_name = f"; if it is the name of a column, give its type: {feature_option(name, 'string')}"
    if _JSON_START.match(name):
        way = f"If the file is JSON, build it as such: `beam-datasets build jsonl`{as_name}"
    elif _MARKUP_START.match(name):
        way = f"If the file is the error page of a server, in HTML or XML, download it again{as_name}"
    elif name.startswith("#") and not dialect.comment:
        way = f"If lines that begin with # are comments, --comment '#' leaves them out{as_name}"
    else:
        return
    raise InputError(expected="a header", got=f"{name!r:.60}", advice=way, path=path)


def _with_index(names: list[str]) -> list[str]:
    """Names the first column as pandas does (`index`) if only that one has no name: it is the index of a DataFrame."""
    if len(names) < 2 or names[0].strip() or not all(name.strip() for name in names[1:]):
        return names
    return ["level_0" if "index" in names else "index", *names[1:]]


def check_names(names: Sequence[str], prefix: str) -> list[str]:
    """Returns the names without surrounding spaces; `prefix` is the start of the error message.

    Raises:
        InputError: a name is empty, or occurs twice.
    """
    stripped = [name.strip() for name in names]
    duplicates = sorted({name for name in stripped if name and stripped.count(name) > 1})
    advice = "name all columns by --columns a,b,c --skip_header"
    if duplicates:
        raise InputError(f"{prefix}: the columns {', '.join(map(repr, duplicates))} occur more than once; {advice}")
    if "" in stripped:
        raise InputError(f"{prefix}: column {stripped.index('') + 1} has no name; {advice}")
    return stripped


def _number_of_data(names: Sequence[str]) -> str:
    """Returns a number in a header that may be a row of data; '' if it is a header.

    A row of data has a decimal fraction, or begins with a nonnegative integer, such as an ID. Two or more names that
    count from 0 or 1, or one alone, are a header, as programs write it; other names may follow two or more.

    >>> [_number_of_data(names) for names in (["setosa", "5.1"], ["1", "Heat"], ["0", "1", "label"], ["total", "2019"])]
    ['5.1', '1', '', '']
    """
    if fraction := next(filter(_FRACTION.fullmatch, names), ""):
        return fraction
    is_integer = [name.isascii() and name.isdecimal() for name in names]
    count = sum(is_integer)
    is_counted = any(list(names[:count]) == [*map(str, range(start, start + count))] for start in (0, 1))
    return names[0] if is_integer[0] and not (is_counted and (count > 1 or len(names) == 1)) else ""


def rows(piece: Piece, dialect: Dialect, typed_names: Collection[str] = ()) -> Iterator[Row]:
    """Yields a `Row` for each row of a file: (number, number of its first line or "line 3 to 5", values or error).

    The values are {column: text}. The first number, from which keys of rows without a key column are made, is the
    number of the line after the previous row, which is a comment if comments precede the row.
    """
    names = header(piece.file, dialect, typed_names)
    num_names = len(names)
    last_name = names[-1] if num_names > 1 else None  # a column alone may contain its name, as a list of words does
    data_rows = islice(_read_rows(piece.file, dialect), int(dialect.has_header), None)
    for i, (number, line, stop, fields, problem) in enumerate(data_rows):
        position = line if stop == line + 1 else f"line {line} to {stop - 1}"
        if problem or len(fields) != num_names:
            first_fields = ", ".join(map(repr, fields[:4])) + " ..." * (len(fields) > 4)
            hint = "; is it a comment? (--comment '#')" if fields[:1] and fields[0].startswith("#") else ""
            mismatch = f"{len(fields)} fields where the header has {len(names)} ({first_fields}){hint}"
            yield number, position, problem or mismatch
        elif fields[-1] == last_name and _are_names(fields, names):
            yield number, position, _header_problem(dialect, is_first=i == 0)
        else:
            yield number, position, dict(zip(names, fields))


def _are_names(fields: list[str], names: list[str]) -> bool:
    """Returns whether a row contains the names of the columns, as where files with headers were joined."""
    return _with_index([fields[0].removeprefix("\ufeff"), *fields[1:]]) == names


def _header_problem(dialect: Dialect, *, is_first: bool) -> str:
    """Returns the error text for a row that contains the names of the columns.

    Args:
        dialect: the format of the file.
        is_first: whether no other row of data precedes it in the file; `--skip_header` would leave out another row.
    """
    if dialect.has_header:
        return (
            "the header once more, as where files were joined; --skip_bad leaves out such rows; if it is a row, other "
            "names by --columns a,b,c --skip_header keep it"
        )
    if is_first:
        return (
            "the names of the columns; if it is a header, --skip_header leaves out the first row of each file; if it "
            "is a row, other names by --columns a,b,c keep it"
        )
    return (
        "the names of the columns, as where files were joined; --skip_bad leaves out such rows; if it is a row, other "
        "names by --columns a,b,c keep it"
    )


def _read_rows(file: InputFile, dialect: Dialect) -> Iterator[tuple[int, int, int, list[str], str]]:
    """Yields (line after the previous row, first line, line after the last, fields, error text or '') of each row.

    A header is a row, too. Lines are numbered from 1. Blank lines and comments are not rows.

    Raises:
        InputError: the rest of the file cannot be read.
    """
    with open_text_bytes(file.path, dialect.encoding) as stream:
        limited = LineLimited(stream, file.path)
        reader, text = _open_reader(limited, file, dialect)
        has_comments, is_utf8 = bool(dialect.comment), dialect.encoding == "utf-8"
        num_lines, num_skipped = 0, text.num_skipped  # that were read; lines that are skipped are not among the first
        while True:
            problem, fields = "", []
            start, previously_skipped = num_lines + 1, num_skipped
            if has_comments:
                text.is_row_start = True
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = _csv_problem(error, dialect)
            except UnicodeError as error:  # UTF-16 cannot be decoded after damage
                raise InputError(
                    undecodable(error, dialect.encoding), path=file.path, line=start + text.num_skipped
                ) from None
            num_lines = reader.line_num
            if has_comments:
                num_skipped = text.num_skipped
            if fields or problem:
                # The bytes of all rows so far are checked in blocks, because a check of each row costs more.
                if not problem and not (is_utf8 and limited.is_utf8):
                    problem = _decoding_problem(",".join(fields), dialect.encoding)
                stop = num_lines + 1 + num_skipped
                yield start + previously_skipped, start + num_skipped, stop, fields, problem


def _open_reader(limited: LineLimited, file: InputFile, dialect: Dialect) -> tuple[_Reader, _WithoutComments]:
    """Returns a reader of the rows of a file, after the line that names the delimiter, and the lines that it reads.

    Args:
        limited: the bytes of the file.
        file: the file.
        dialect: format of the file.

    Raises:
        InputError: the first line cannot be decoded.
    """
    csv.field_size_limit(limits.limit_of(limits.MAX_FIELD))
    quoting: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    # Bytes that cannot be decoded become surrogates, so that only their row is an error, not the rest of the file.
    codec = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    errors = "surrogatepass" if codec.startswith(("utf-16", "utf-32")) else "surrogateescape"
    decoded = io.TextIOWrapper(limited.buffered(), codec, errors, newline="")
    try:
        first_line = decoded.readline().removeprefix("\ufeff")  # the codecs utf-16-le and others keep this mark
    except UnicodeError as error:
        raise InputError(f"{file.path}, line 1: {undecodable(error, dialect.encoding)}") from None
    delimiter = dialect.delimiter_of(file)
    text = _WithoutComments(itertools.chain([first_line] if first_line else (), decoded), dialect.comment)
    if delimiter_line := _DELIMITER_LINE.fullmatch(first_line):
        delimiter = dialect.delimiter or delimiter_line[1]
        text = _WithoutComments(decoded, dialect.comment, num_skipped=1)
    lines = text if dialect.comment else text.lines
    reader = csv.reader(
        _with_kept_escapes(lines, dialect, delimiter) if dialect.escapechar else lines,
        strict=True,
        delimiter=delimiter,
        escapechar=dialect.escapechar or None,
        **quoting,
    )
    return reader, text


def _with_kept_escapes(lines: Iterable[str], dialect: Dialect, delimiter: str) -> Iterator[str]:
    r"""Yields the lines, with the escape character doubled before a character that needs none.

    `csv.reader` would drop it there: C:\new would become C:new, and \N, a missing value, the text N.

    Args:
        lines: lines of a file.
        dialect: format of the file, with an escape character.
        delimiter: separator of fields.
    """
    escape = re.escape(dialect.escapechar)
    escaped = re.compile(rf"{escape}([{escape}{re.escape(delimiter + dialect.quote)}\r\n]|$)?")
    for line in lines:
        yield escaped.sub(lambda match: match[0] * (1 if match[1] is not None else 2), line)


class _Reader(Protocol):
    """The type of the result of `csv.reader`.

    Attributes:
        line_num: number of lines that were read.
    """

    line_num: int

    def __next__(self) -> list[str]:
        """Returns the fields of the next row."""


class _WithoutComments:
    """An iterator of the lines of a file without comments.

    Attributes:
        lines: lines of the file.
        comment: beginning of a comment.
        is_row_start: whether the next line begins a row; set by the caller. Only such a line can be a comment, because
            others belong to a quoted field.
        num_skipped: number of lines that were skipped: comments, and the line that names the delimiter.
    """

    def __init__(self, lines: Iterator[str], comment: str, num_skipped: int = 0) -> None:
        self.lines = lines
        self.comment = comment
        self.is_row_start = True
        self.num_skipped = num_skipped

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Returns the next line that is not a comment."""
        line = next(self.lines)
        while self.is_row_start and line.startswith(self.comment):
            self.num_skipped += 1
            line = next(self.lines)
        self.is_row_start = False
        return line


def _decoding_problem(text: str, encoding: str) -> str:
    """Returns the error text for text decoded with `surrogateescape` from invalid bytes; '' if all bytes are valid."""
    if text.isascii() or not _ESCAPED.search(text):
        return ""
    try:
        text.encode(encoding, "surrogateescape").decode(encoding)
    except UnicodeDecodeError as error:
        return undecodable(error, encoding)
    except UnicodeEncodeError as error:
        return f"{error.object[error.start]!r} is a lone surrogate, which is not valid text"
    return ""


def _csv_problem(error: csv.Error, dialect: Dialect) -> str:
    """Returns the error text for an error of Python's CSV reader, with advice about the likely cause."""
    text = str(error)
    if "expected after" in text:
        escaped = "" if dialect.escapechar else "are quotes written with a backslash there (--escapechar '\\'), or "
        return f"{text}; {escaped}is it a file that does not quote? (--quote '')"
    if (is_too_long := "field larger" in text) or "unexpected end" in text:
        way = f". {limits.advice_to_raise(4 * limits.limit_of(limits.MAX_FIELD))}" if is_too_long else ""
        question = "is a quote opened in this row that is never closed? (--quote '' for files that do not quote)"
        return f"{text}; {question}{way}"
    return text
