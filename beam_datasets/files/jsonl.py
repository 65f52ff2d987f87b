"""Datasets of the rows of JSON lines files (one object per line), or of files that are one JSON array, without code.

    beam-datasets build jsonl --data_dir out --name reviews --pattern 'reviews/*.jsonl.gz' \
        --split train=95% --split test=5% --feature stars=int8 --feature user/age=int64? --key id

An object inside a row is a nested feature and a list is a sequence. null and an absent name are missing values.
The key of a row is its file and byte offset: a large file is read in pieces, whose readers do not know line numbers.
"""

from __future__ import annotations

import codecs
import json
import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

from beam_datasets import limits
from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.builder import RowsBuilder
from beam_datasets.files.fields import Field, feature_name, with_slashes
from beam_datasets.files.format_options import given_options, option
from beam_datasets.files.infer import Guess, Inference
from beam_datasets.files.inputs import Piece, check_encoding, decode_line, lines, undecodable
from beam_datasets.files.json_tables import (
    has_numbered_rows,
    nested_names,
    note_on_possible_table,
    resembles_table,
    table_problem,
)
from beam_datasets.files.rows import Row
from beam_datasets.intake.contents import HEAD_BYTES, text_format
from beam_datasets.intake.streams import open_text_bytes

if TYPE_CHECKING:
    from beam_datasets.files.arguments import RowsArguments
    from beam_datasets.metadata.inputs import FormatOptions

log = logging.getLogger(__name__)

_BLOCK_SIZE = 1 << 20
_HEAD_SIZE = 1 << 12
_SPACE = re.compile(r"[ \t\r\n]*")
_ARRAY_START = re.compile(r"\ufeff?[ \t\r\n]*\[[ \t\r\n]*[{\]]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_KIND_NAMES = {int: "a number", float: "a number", str: "a text", bool: "a bool", list: "a list", type(None): "null"}


class Jsonl(RowsBuilder):
    """Rows of JSON lines files.

    Args:
        encoding: encoding of the text; by default utf-8.
        common: see RowsBuilder.
    """

    _may_add = True

    def __init__(self, *, encoding: str | None = None, **common: Unpack[RowsArguments]) -> None:
        self._format_options = given_options(encoding=encoding)
        super().__init__(**common)

    def _set_format(self, options: FormatOptions) -> None:
        """Sets the options of the format; see `RowsBuilder._set_format`."""
        super()._set_format(options)
        self._encoding = check_encoding(option(options, "encoding", "utf-8"), of_lines=True)

    def _infer_fields(self) -> dict[str, Field]:
        """Infers the fields from the first rows of each file, and logs the notes of the inference.

        Raises:
            InputError: no row can be used.
            NoExamplesError: no file has an object.
        """
        guess, problem = self._guess_of(self._rows_without_tables)
        if not guess.rows:
            if problem and (other := _other_format(self._all_files[0].path)):
                raise InputError(expected="JSON lines", got=other, path=self._all_files[0].path)
            kind = InputError if problem else NoExamplesError
            raise kind(f"no file has an object; {problem or self.files_text}")
        inference = Inference(skip_bad=self._skip_bad, may_lack=self._may_lack)
        fields = inference.fields(guess)
        given_names = with_slashes(self._specs, fields)
        for path, note in inference.notes:
            column = feature_name(path)
            if not any(column == name or column.startswith(f"{name}/") for name in given_names):
                log.warning(note)
        return fields

    def _rows_without_tables(self, piece: Piece) -> Iterator[Row]:
        """Yields the rows of a file; warns if the only row may be a table.

        A row is not a table if a type is given or published for a field of it. If the names of its rows are integers
        other than 0 to n - 1, it is not one if the first objects of all files have the same names, as examples do.

        Raises:
            InputError: the only row is a table.
        """
        rows = self._rows(piece)
        first_rows = list(islice(rows, 2))
        row = first_rows[0][2] if len(first_rows) == 1 else None
        is_untyped = isinstance(row, dict) and not any(
            name in row or name.replace(".", "/").partition("/")[0] in row
            for name in (*self._specs, *self._published_fields)
        )
        if isinstance(row, dict) and is_untyped and not is_array(piece.file.path, self._encoding):
            is_like_others = has_numbered_rows(row) and nested_names(row) == self._names_in_each_file
            if not is_like_others and (problem := table_problem(row)):
                raise InputError(problem, path=piece.file.path)
            is_noted = piece.file == self._all_files[0] and (is_like_others or len(self._all_files) == 1)
            if is_noted and resembles_table(row):
                log.warning(note_on_possible_table(piece.file.path))
        yield from first_rows
        yield from rows

    @cached_property
    def _names_in_each_file(self) -> object:
        """The `nested_names` of the first object of each file; None if they differ, or if there is only one file."""
        all_names = set()
        for file in self._all_files:
            with suppress(InputError):  # raised again where the rows are read
                row = next((row for *_, row in self._rows(Piece(file)) if isinstance(row, dict)), {})
                all_names.add(nested_names(row))
            if len(all_names) > 1:
                return None
        return all_names.pop() if len(self._all_files) > 1 and all_names else None

    def _guess_rows(self) -> Guess:
        """Returns the kinds of the values in the first rows of each file."""
        return self._guess_of(self._rows)[0]

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """Returns the function that reads the rows of a piece; see `RowsBuilder._rows`."""
        return partial(objects, encoding=self._encoding)


def objects(piece: Piece, encoding: str = "utf-8") -> Iterator[Row]:
    """Yields a `Row` for each non-blank line of a piece: (byte offset, None, object or error text).

    A file that is one JSON array of objects is not cut: the first piece of the file yields all of its objects.
    """
    if is_array(piece.file.path, encoding):
        if not piece.start:
            yield from objects_of_array(piece.file.path, encoding)
        return
    for offset, line in lines(piece):
        if not line or line.isspace():
            continue
        try:
            yield offset, None, _parse_line(decode_line(line, encoding, offset))
        except ValueError as error:
            yield offset, None, str(error)


def _other_format(path: str) -> str:
    """Returns the format of a text that is not JSON, with advice, as a clause; '' if it is unknown."""
    with suppress(InputError), open_text_bytes(path) as stream:
        text = text_format(stream.peek(HEAD_BYTES)[:HEAD_BYTES])
        return "" if text.startswith("JSON") else text
    return ""


def _parse_line(text: str) -> dict[str, Any]:
    """Returns the JSON object in the text of a line.

    Raises:
        InputError: the line is not a JSON object, or its values cannot be stored.
    """
    try:
        row, stop = _raw_decode(text)
        if stop != len(text):
            row = _decoder.decode(text)  # spaces follow, or more
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} in column {error.colno} ({text[:60]!r}); one object a line is expected"
            f"{_way_to_lines(text, error)}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(_value_problem(error)) from None
    return row if type(row) is dict and "\\u" not in text else checked_object(row, text)


def _raw_decode(text: str) -> tuple[Any, int]:
    """Returns (JSON value, index after its text), in less time than `decode`, which searches for spaces around it.

    Raises:
        json.JSONDecodeError: see `decode`.
    """
    try:
        return _decoder.raw_decode(text)
    except json.JSONDecodeError:
        return _decoder.decode(text), len(text)  # spaces precede, or the error is raised again


def _way_to_lines(text: str, error: json.JSONDecodeError) -> str:
    """Returns a command that converts the file to JSON lines, in parentheses after a space; '' if it is unknown.

    Args:
        text: the text of the line.
        error: the error of decoding it.
    """
    text_at_error = text[error.pos :].strip()
    if text[:2] == "{'":
        return " (Python's text of a dict is not JSON; json.dumps(row) writes it as JSON)"
    if error.msg == "Extra data" and text_at_error == ",":
        return " (sed 's/,$//' removes commas at the ends of lines)"
    if not text_at_error or (error.msg == "Extra data" and text_at_error[0] in "{["):
        return " (jq -c . writes each object in one line)"
    return ""


def checked_object(row: Any, text: str) -> dict[str, Any]:
    """Returns `row` after checking that it is an object whose strings can be stored as UTF-8.

    Args:
        row: any decoded JSON value.
        text: the JSON text of the value; only its escapes can make a lone surrogate.

    Raises:
        InputError: it is not an object, or a string contains a lone surrogate.
    """
    if not isinstance(row, dict):
        lines_of_array = " (jq -c '.[]' makes lines of an array)" if isinstance(row, list) else ""
        raise InputError(
            f"{text[:60]!r} is {_KIND_NAMES[type(row)]}, not an object; one object a line is expected{lines_of_array}"
        )
    if "\\u" in text and _SURROGATE.search(text):  # the first condition avoids most searches
        try:
            json.dumps(row, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            lone = ascii(error.object[error.start])
            raise InputError(expected="text", got=f"the lone surrogate {lone}, which no UTF-8 text contains") from None
    return row


def _value_problem(error: ValueError | RecursionError) -> str:
    """Returns the error text for JSON that Python refuses although its syntax is valid."""
    if isinstance(error, RecursionError):
        return "nested too deeply to be read"
    text = str(error)
    if not text.startswith("Exceeds the limit"):
        return text
    return f"a number has too many digits: {text.partition(';')[0]}. Write it as text in the file"


def _finite(text: str) -> float:
    """Returns the number that a text of JSON means.

    Raises:
        ValueError: it is too large for a float64, also where it would be stored as text.
    """
    # Not `convert.finite`, whose advice is wrong here; an argument for the advice takes as long as the conversion.
    number = float(text)
    if math.isinf(number) and "n" not in text:  # Infinity
        raise ValueError(f"{text:.60} is too large for a float64. Write it as text in the file")
    return number


def is_array(path: str, encoding: str) -> bool:
    """Returns whether the content of a file begins like a JSON array of objects, or an empty array."""
    with open_text_bytes(path) as stream:
        head = stream.read(_HEAD_SIZE).decode(encoding, "replace")
    return _ARRAY_START.match(head) is not None


def objects_of_array(path: str, encoding: str) -> Iterator[Row]:
    """Yields a `Row` for each item of a file that is one JSON array: (byte offset, None, object or error text).

    Raises:
        InputError: the syntax is wrong, so that the items after it cannot be read, or the array is not the whole file.
    """
    with open_text_bytes(path) as stream:
        text = _JsonText(stream, path, encoding)
        text.expect("[")
        is_first = True
        while not (is_first and text.peek() == "]"):
            text.peek()
            offset = text.offset
            try:
                yield offset, None, checked_object(*text.read_value())
            except ValueError as error:
                if text.is_broken:
                    raise
                yield offset, None, str(error)
            is_first = False
            if text.peek() != ",":
                break
            text.expect(",")
        text.expect("]")
        text.expect("")


class _JsonText:
    """The text of a JSON file with a position, decoded in blocks as it is read.

    Args:
        stream: the file, decompressed, at its beginning.
        path: path of the file, for errors.
        encoding: encoding of the text.

    Attributes:
        is_broken: whether an error has ended the reading: the text after it cannot be read.
    """

    def __init__(self, stream: BinaryIO, path: str, encoding: str) -> None:
        self._stream = stream
        self._path = path
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._text, self._position = "", 0
        self._bytes_read = 0
        self._is_whole = False  # whether `_text` reaches the end of the file
        self._block_size = _BLOCK_SIZE
        self.is_broken = False
        while not (self._text or self._is_whole):
            self._read_more()
        self._position = int(self._text.startswith("\ufeff"))

    @property
    def offset(self) -> int:
        """The byte offset in the file of the next character."""
        undecoded = len(self._decoder.getstate()[0])
        return self._bytes_read - undecoded - len(self._text[self._position :].encode(self._encoding))

    def _read_more(self) -> None:
        """Appends the next block of the file to the text, and drops the text before the position."""
        data = self._stream.read(self._block_size)
        try:
            decoded = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            self.is_broken = True
            problem, offset = undecodable(error, self._encoding), self._bytes_read + error.start
            raise InputError(problem, path=self._path, offset=offset) from None
        self._bytes_read += len(data)
        self._text, self._position = self._text[self._position :] + decoded, 0
        self._is_whole = not data

    def peek(self) -> str:
        """Skips white space, and returns the next character without reading it; '' at the end of the file."""
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text) or self._is_whole:
                return self._text[self._position : self._position + 1]
            self._read_more()

    def expect(self, mark: str) -> None:
        """Reads a punctuation mark after white space; '' stands for the end of the file.

        Raises:
            InputError: another character follows.
        """
        if (character := self.peek()) != mark:
            self.is_broken = True
            several = "" if mark or character != "[" else "; jq -c '.[]' makes lines of several arrays"
            raise InputError(
                expected=f"{mark or 'the end of the file'!r}",
                got=f"{character or 'the end of the file'!r}; the file is no JSON array{several}",
                path=self._path,
                offset=self.offset,
            )
        self._position += len(mark)

    def read_value(self) -> tuple[Any, str]:
        """Reads a value, and returns (value, its JSON text).

        Raises:
            InputError: the value is not valid JSON, and `is_broken` is set; or it cannot be stored, and the position is
                behind it.
        """
        while True:
            start = self._position
            try:
                try:
                    value, stop = _decoder.raw_decode(self._text, start)
                except (json.JSONDecodeError, RecursionError):
                    raise
                except ValueError as error:
                    _, self._position = _lenient_decoder.raw_decode(self._text, start)
                    raise InputError(_value_problem(error)) from None
            except (json.JSONDecodeError, RecursionError) as error:
                if (
                    isinstance(error, json.JSONDecodeError)
                    and not self._is_whole
                    and len(self._text) < limits.limit_of(limits.MAX_LINE)
                ):
                    self._block_size *= 2
                    self._read_more()
                    continue
                self.is_broken = True
                problem = getattr(error, "msg", "nested too deeply to be read")
                raise InputError(f"not JSON: {problem}", path=self._path, offset=self.offset) from None
            self._block_size = _BLOCK_SIZE
            if stop < len(self._text) or self._is_whole:
                self._position = stop
                return value, self._text[start:stop]
            self._read_more()  # the value may be a number with more digits in the next block


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of (name, value) pairs, {name: value}.

    Raises:
        InputError: a name occurs twice.
    """
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return row


# Shared: `json.loads` would create a decoder per text.
_decoder = json.JSONDecoder(object_pairs_hook=_object_of_pairs, parse_float=_finite)
_lenient_decoder = json.JSONDecoder(parse_int=len)  # finds the end of a value that cannot be stored
