"""Rows of CSV files (RFC 4180: fields may be quoted and hold line ends) as examples.

Files are not cut: a quoted field may hold anything, so only a reader from the start knows where a row begins.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_datasets.errors import InputError
from pipelines.files.convert import is_plain_text, text_converter
from pipelines.files.image_rows import images_beside
from pipelines.files.inputs import Piece, check_encoding, open_bytes, undecodable
from pipelines.files.source import Bad, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pipelines.files.inputs import InputFile
    from pipelines.files.schema import Field
    from pipelines.files.source import Example, Key

_FIELD_LIMIT = 1 << 28  # characters of one field; Python's own limit of 131,072 is below what people store
_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class Dialect:
    """How the files are written.

    Attributes:
        delimiter: between fields; None for a tab in `.tsv` files and a comma in others.
        quote: around fields; a doubled one inside stands for itself; '' for files that never quote.
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


class Line(NamedTuple):
    """A row as it stands on lines [number, stop) of a file, counted from 1: its fields, and what is wrong with it."""

    number: int
    stop: int
    fields: list[str]
    problem: str = ""


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
    """Returns the names of a file's columns; none where the file is empty.

    Raises:
        InputError: a name is empty or stands twice, or the file cannot be read.
    """
    if dialect.columns:
        return list(dialect.columns)
    first = next(rows(file, dialect, skip_header=False), None)
    if first is None:
        return []
    if first.problem:
        raise InputError(f"{file.path}, line {first.number}: {first.problem}")
    return check_names(first.fields, f"{file.path}, line {first.number}")


def check_names(names: Sequence[str], place: str) -> list[str]:
    """Returns the names without outer spaces; each must be there and be unique."""
    clean = [name.strip() for name in names]
    twice = sorted({name for name in clean if name and clean.count(name) > 1})
    if twice:
        raise InputError(
            f"{place}: the columns {', '.join(map(repr, twice))} stand twice; name all columns by --columns a,b,c"
        )
    if "" in clean:
        raise InputError(f"{place}: column {clean.index('') + 1} has no name; name all columns by --columns a,b,c")
    return clean


def rows(file: InputFile, dialect: Dialect, *, skip_header: bool = True) -> Iterator[Line]:
    """Yields the rows of a file; blank lines are no rows."""
    csv.field_size_limit(_FIELD_LIMIT)
    codec = "utf-8-sig" if dialect.encoding.lower() in ("utf-8", "utf8") else dialect.encoding
    with open_bytes(file.path) as stream:
        # What cannot be decoded becomes surrogates, so that it spoils its row and not the rest of the file.
        text = io.TextIOWrapper(stream, codec, errors="surrogateescape", newline="")
        reader = csv.reader(text, strict=True, **_format(file, dialect))
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
            if skip_header and fields:
                skip_header = False
            elif fields or problem:
                yield Line(number, stop, fields, problem or _undecoded("".join(fields), dialect.encoding))


def _undecoded(text: str, encoding: str) -> str:
    if text.isascii() or not _ESCAPED.search(text):
        return ""
    try:
        text.encode(encoding, "surrogateescape").decode(encoding)
    except UnicodeDecodeError as error:
        return undecodable(error, with_column=False)
    return ""


def _format(file: InputFile, dialect: Dialect) -> dict[str, Any]:
    tabs = ".tsv" in file.name or ".tab" in file.name
    delimiter = dialect.delimiter or ("\t" if tabs else ",")
    if not dialect.quote:
        return {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
    return {"delimiter": delimiter, "quotechar": dialect.quote}


def _csv_problem(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end" in text or "field larger" in text:
        return f"{text}; is a quote opened in this row that is never closed? (--quote '' for files that do not quote)"
    if "NUL" in text:  # Python 3.10 stops at it
        return f"{text}; is the file UTF-16? (--encoding utf-16)"
    return text


@dataclass(frozen=True)
class CsvRows:
    """Reads rows of CSV files as examples.

    Attributes:
        dialect: how the files are written.
        columns: every column of the files.
        fields: what is kept of them.
        key: the column that has the keys; None for file and line.
        missing: texts that stand for no value.
    """

    dialect: Dialect
    columns: tuple[str, ...]
    fields: Mapping[str, Field]
    key: str | None
    missing: tuple[str, ...] = ("",)

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a file."""
        names = header(piece.file, self.dialect)
        check_columns(names, self.columns, piece.file)
        convert = self._converter(names)
        images = [name for name, field in self.fields.items() if field.kind == "image"]
        for line in rows(piece.file, self.dialect, skip_header=not self.dialect.columns):
            problem = line_problem(line, names)
            if not problem:
                try:
                    key, example = convert(line.fields)
                    if images:
                        images_beside(example, images, piece.file)
                except ValueError as error:
                    problem = str(error)
                else:
                    yield f"{piece.file.name}:{line.number}" if key is None else key, example
                    continue
            last = f" to {line.stop - 1}" if line.stop > line.number + 1 else ""
            yield Bad(piece.file, problem, f"line {line.number}{last}")

    def _converter(self, names: Sequence[str]) -> Callable[[list[str]], tuple[Key | None, Example]]:
        columns = [(i, name, self.fields[name]) for i, name in enumerate(names) if name in self.fields]
        texts = [(i, name) for i, name, field in columns if is_plain_text(field)]
        others = [(i, name, text_converter(f, self.missing, name)) for i, name, f in columns if not is_plain_text(f)]
        key_place = -1 if self.key is None else names.index(self.key)
        has_key = self.key in self.fields

        def convert(row: list[str]) -> tuple[Key | None, Example]:
            example: Example = {name: row[i] for i, name in texts}
            name = ""
            try:
                for i, name, converter in others:
                    example[name] = converter(row[i])
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
            if self.key is None:
                return None, example
            if row[key_place] in self.missing:
                raise ValueError(f"column {self.key!r}: the key is missing")
            return key_of(example, self.key) if has_key else row[key_place], example

        return convert


def check_columns(names: Sequence[str], expected: Sequence[str], file: InputFile) -> None:
    """Checks that a file has the columns of the others, in whatever order; an empty file has none.

    Raises:
        InputError: it lacks some, or has others.
    """
    if not names or set(names) == set(expected):
        return
    lacks, adds = sorted(set(expected) - set(names)), sorted(set(names) - set(expected))
    words = [f"{verb} {', '.join(map(repr, some))}" for verb, some in (("lacks", lacks), ("adds", adds)) if some]
    raise InputError(f"{file.path}: all files need the columns of the first, and this one {' and '.join(words)}")


def line_problem(line: Line, names: Sequence[str]) -> str:
    """Returns why a row cannot be used, before its values are looked at; '' where it can."""
    fields = line.fields
    if line.problem or len(fields) == len(names):
        return line.problem
    shown = ", ".join(map(repr, fields[:4])) + " ..." * (len(fields) > 4)
    return f"{len(fields)} fields where the header has {len(names)} ({shown})"
