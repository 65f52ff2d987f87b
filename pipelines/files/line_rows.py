"""Rows of files that hold one record a line: JSON objects, or plain text.

A line's key is the name of its file and its byte offset: large files are cut, and whoever reads a piece in the middle
does not know how many lines stand before it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError
from pipelines.files.convert import row_converter
from pipelines.files.image_rows import images_beside
from pipelines.files.inputs import decode_line, lines
from pipelines.files.source import BLANK, Bad, count, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipelines.files.inputs import Piece
    from pipelines.files.schema import Field
    from pipelines.files.source import Example, Key


@dataclass(frozen=True)
class TextRows:
    """Reads each line as an example `{"text": line}`, without its line end.

    Attributes:
        encoding: of the text.
        keep_blank: whether lines of white space alone are examples.
    """

    encoding: str = "utf-8"
    keep_blank: bool = False

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the lines of a piece."""
        blank = 0
        for offset, line in lines(piece):
            try:
                text = decode_line(line, self.encoding, offset)
            except ValueError as error:
                yield Bad(piece.file, str(error), offset=offset)
                continue
            if self.keep_blank or (not text.isspace() and text):
                yield f"{piece.file.name}:{offset}", {"text": text}
            else:
                blank += 1
        count(BLANK, blank)


@dataclass(frozen=True)
class JsonRows:
    """Reads each line, a JSON object, as an example; blank lines are no rows.

    Attributes:
        fields: name -> field of what is kept.
        dropped: names that are passed over.
        key: the name that has the keys; None for file and byte offset.
        encoding: of the text.
    """

    fields: Mapping[str, Field]
    dropped: frozenset[str] = field(default_factory=frozenset)
    key: str | None = None
    encoding: str = "utf-8"

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a piece."""
        convert = row_converter(self.fields, self.dropped)
        images = [name for name, field in self.fields.items() if field.kind == "image"]
        for offset, row in objects(piece, self.encoding):
            if isinstance(row, Bad):
                yield row
                continue
            try:
                example = convert(row)
                images_beside(example, images, piece.file)
                key = f"{piece.file.name}:{offset}" if self.key is None else key_of(row, self.key)
            except ValueError as error:
                yield Bad(piece.file, str(error), offset=offset)
                continue
            yield key, example


def objects(piece: Piece, encoding: str) -> Iterator[tuple[int, dict[str, Any] | Bad]]:
    """Yields (byte offset, object) of each line of a piece that is not blank."""
    for offset, line in lines(piece):
        if not line or line.isspace():
            continue
        try:
            yield offset, _object(decode_line(line, encoding, offset))
        except ValueError as error:
            yield offset, Bad(piece.file, str(error), offset=offset)


def _object(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} in column {error.colno} ({text[:60]!r}); one object a line is expected"
        ) from None
    except RecursionError:
        raise InputError("nested too deeply to be read") from None
    if not isinstance(row, dict):
        array = " (jq -c '.[]' makes lines of an array)" if isinstance(row, list) else ""
        raise InputError(
            f"{text[:60]!r} is a {type(row).__name__}, not an object; one object a line is expected{array}"
        )
    return row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return row
