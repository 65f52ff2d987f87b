"""A dataset of the rows of JSON lines files (one object a line) or of files that are one JSON array, without code.

    beam-datasets build jsonl --data_dir out --name reviews --pattern 'reviews/*.jsonl.gz' \
        --split train=95% --split test=5% --feature stars=int8 --feature user/age=int64? --key id

Objects inside a row are nested features and lists are sequences. null, or a name that is not there, is a missing value.
A row's key is its file and byte offset: a large file is read in pieces, whose readers do not know line numbers.
"""

from __future__ import annotations

import codecs
import json
import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.builder import Row, RowsBuilder
from beam_datasets.files.convert import finite
from beam_datasets.files.fields import Field
from beam_datasets.files.infer import Inference
from beam_datasets.files.inputs import Piece, check_encoding, decode_line, lines, undecodable
from beam_datasets.intake.streams import MAX_LINE, open_text_bytes

log = logging.getLogger(__name__)

_BLOCK_SIZE = 1 << 20
_HEAD_SIZE = 1 << 12
_SPACE = re.compile(r"[ \t\r\n]*")
_ARRAY_START = re.compile(r"\ufeff?[ \t\r\n]*\[[ \t\r\n]*[{\]]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Jsonl(RowsBuilder):
    """Rows of JSON lines files.

    Args:
        encoding: of the text.
        common: see RowsBuilder.
    """

    _may_add = True

    def __init__(self, *, encoding: str = "utf-8", **common: Any) -> None:
        self._encoding = check_encoding(encoding, of_lines=True)
        super().__init__(**common)

    def _found_fields(self) -> dict[str, Field]:
        guess, problem = self._guess_of(self._rows)
        if not guess.rows:
            kind = InputError if problem else NoExamplesError
            raise kind(f"no file has an object; {problem or self.files_text}")
        inference = Inference(skip_bad=self._skip_bad, may_lack=self._may_lack)
        fields = inference.fields(guess)
        for note in inference.notes:
            log.warning(note)
        return fields

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        return partial(objects, encoding=self._encoding)


def objects(piece: Piece, encoding: str = "utf-8") -> Iterator[Row]:
    """Yields the byte offset and the object, or its problem, of each line of a piece that is not blank.

    A file that is one JSON array of objects is not cut: all of its objects belong to its first piece.
    """
    if is_array(piece.file.path, encoding):
        if not piece.start:
            yield from objects_of_array(piece.file.path, encoding)
        return
    for offset, line in lines(piece):
        if not line or line.isspace():
            continue
        try:
            yield offset, None, _object(decode_line(line, encoding, offset))
        except ValueError as error:
            yield offset, None, str(error)


def _object(text: str) -> dict[str, Any]:
    """Returns the object that a line means.

    Raises:
        InputError: it means none, or one that cannot be stored.
    """
    try:
        row = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} in column {error.colno} ({text[:60]!r}); one object a line is expected "
            "(jq -c . writes an object of several lines in one)"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(_problem_of_value(error)) from None
    return checked_object(row, text)


def checked_object(row: Any, text: str) -> dict[str, Any]:
    """Returns a value that was decoded from a text, if it is an object all of whose texts can be stored.

    Raises:
        InputError: it is not.
    """
    if not isinstance(row, dict):
        lines_of_array = " (jq -c '.[]' makes lines of an array)" if isinstance(row, list) else ""
        raise InputError(
            f"{text[:60]!r} is a {type(row).__name__}, not an object; one object a line is expected{lines_of_array}"
        )
    if "\\u" in text and _SURROGATE.search(text):  # the first alone is much faster
        try:
            json.dumps(row, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            lone = ascii(error.object[error.start])
            raise InputError(f"expected text, got the lone surrogate {lone}, which no UTF-8 text contains") from None
    return row


def _problem_of_value(error: ValueError | RecursionError) -> str:
    """Returns what is wrong with a value of valid syntax."""
    if isinstance(error, RecursionError):
        return "nested too deeply to be read"
    text = str(error)
    return f"a number has too many digits: {text.partition(';')[0]}" if text.startswith("Exceeds the limit") else text


def is_array(path: str, encoding: str) -> bool:
    """Returns whether a file begins as an array of objects, or as an empty array."""
    with open_text_bytes(path) as stream:
        head = stream.read(_HEAD_SIZE).decode(encoding, "replace")
    return _ARRAY_START.match(head) is not None


def objects_of_array(path: str, encoding: str) -> Iterator[Row]:
    """Yields the byte offset and the object, or its problem, of each item of a file that is one JSON array.

    Raises:
        InputError: the file is no JSON from some byte on, or more follows the array.
    """
    with open_text_bytes(path) as stream:
        text = _Json(stream, path, encoding)
        text.take("[")
        is_first = True
        while not (is_first and text.next_mark() == "]"):
            text.next_mark()
            offset = text.offset
            try:
                yield offset, None, checked_object(*text.value())
            except ValueError as error:
                if text.is_broken:
                    raise
                yield offset, None, str(error)
            is_first = False
            if text.next_mark() != ",":
                break
            text.take(",")
        text.take("]")
        text.take("")


class _Json:
    """The text of a JSON file, decoded and read in parts.

    Attributes:
        is_broken: the rest cannot be read, because its syntax is wrong.
    """

    def __init__(self, stream: BinaryIO, path: str, encoding: str) -> None:
        self._stream = stream
        self._path = path
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._text, self._position = "", 0
        self._bytes_read = 0
        self._is_whole = False  # whether the text goes up to the end of the file
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
        """Appends the next block of the file to the text, and drops what was read."""
        data = self._stream.read(self._block_size)
        try:
            decoded = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            self.is_broken = True
            raise InputError(f"{self._path}, byte {self._bytes_read + error.start}: {undecodable(error)}") from None
        self._bytes_read += len(data)
        self._text, self._position = self._text[self._position :] + decoded, 0
        self._is_whole = not data

    def next_mark(self) -> str:
        """Returns the next character that is no white space, without reading it; '' at the end."""
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text) or self._is_whole:
                return self._text[self._position : self._position + 1]
            self._read_more()

    def take(self, mark: str) -> None:
        """Reads a mark; '' is the end of the file.

        Raises:
            InputError: another one follows.
        """
        if (found := self.next_mark()) != mark:
            self.is_broken = True
            raise InputError(
                f"{self._path}, byte {self.offset}: expected {mark or 'the end of the file'!r}, got "
                f"{found or 'the end of the file'!r}; the file is no JSON array"
            )
        self._position += len(mark)

    def value(self) -> tuple[Any, str]:
        """Reads a value, and returns it and its text.

        Raises:
            InputError: it is no JSON, so that nothing after it can be read.
            ValueError: it is JSON that cannot be stored.
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
                    raise InputError(_problem_of_value(error)) from None
            except (json.JSONDecodeError, RecursionError) as error:
                if isinstance(error, json.JSONDecodeError) and not self._is_whole and len(self._text) < MAX_LINE:
                    self._block_size *= 2
                    self._read_more()
                    continue
                self.is_broken = True
                problem = getattr(error, "msg", "nested too deeply to be read")
                raise InputError(f"{self._path}, byte {self.offset}: not JSON: {problem}") from None
            self._block_size = _BLOCK_SIZE
            if stop < len(self._text) or self._is_whole:
                self._position = stop
                return value, self._text[start:stop]
            self._read_more()  # a number may go on


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return row


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=finite)  # `json.loads` makes one for each text
_lenient_decoder = json.JSONDecoder()
