"""Rows of files as examples with keys and, where a column or the key names it, a split."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.files.bad_rows import Bad, place_of
from beam_datasets.files.convert import as_text, row_converter
from beam_datasets.files.fields import Field
from beam_datasets.files.images import STORED_UNCHANGED, ImageOptions, image_of
from beam_datasets.files.inputs import Piece
from beam_datasets.files.numerals import PYTHON, Numerals
from beam_datasets.files.partitions import NO_PARTITIONS, PartitionColumns
from beam_datasets.files.sounds import sound_of

if TYPE_CHECKING:
    from beam_datasets.files.split_assignment import Assignment

Place = str | int | None
"""Position of a row for messages: a text, a line number, or None for the line at the byte offset that is its number."""
Row = tuple[int, Place, dict[str, Any] | str]
"""(number of a row for its key, such as a byte offset; its position; its values, or the error text if it is bad)."""
Key = str | int
Example = dict[str, Any]
Item = tuple[Key, Example] | tuple[Key, Example, str]
"""(key, example), or (key, example, split) if rows are assigned to splits."""
KEYS_IN_FILE = 1 << 16


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of a piece as examples with keys and, if `assign` is given, splits.

    Attributes:
        rows: function that yields the rows of a piece.
        fields: name -> field of each column that is kept; None if rows are examples already.
        dropped: names of the columns that are left out.
        key: column that contains the keys; None for keys of file name and row number.
        missing: texts that mean a missing value; None if values are not text.
        images: options for stored images.
        assign: function that returns the split of a row; None if all rows belong to one split.
        numerals: the separators in numbers, if values are text.
        folders: partition columns of the files.
    """

    rows: Callable[[Piece], Iterator[Row]]
    fields: Mapping[str, Field] | None
    dropped: frozenset[str] = frozenset()
    key: str | None = None
    missing: tuple[str, ...] | None = None
    images: ImageOptions = STORED_UNCHANGED
    assign: Assignment | None = None
    numerals: Numerals = PYTHON
    folders: PartitionColumns = NO_PARTITIONS

    def __call__(self, piece: Piece) -> Iterator[Item | Bad]:
        """Yields an `Item` for each row of a piece, or `Bad` for a row that cannot be used."""
        read_image = partial(image_of, referring_path=piece.file.path, options=self.images)
        read_sound = partial(sound_of, referring_path=piece.file.path)
        dropped_columns = self.dropped if self.key is None else self.dropped | {self.key}
        convert: Any = lambda row: row  # noqa: E731
        if self.fields is not None:
            read_media: Any = lambda value, field, path: (  # noqa: E731
                read_sound(value, field.sound, path) if field.kind == "audio" else read_image(value, field, path)
            )
            convert = row_converter(
                self.fields, dropped_columns, image=read_media, missing=self.missing, numerals=self.numerals
            )
        is_text = self.missing is not None
        add_folders = self.folders.adder(piece.file.name, self.fields or {}, dropped_columns, is_text=is_text)
        for number, position, row in self.rows(piece):
            try:
                if isinstance(row, str):
                    raise ValueError(row)
                if add_folders is not None:
                    row = add_folders(row)
                example = convert(row)
                key = f"{piece.file.name}:{number}" if self.key is None else self._key(self.key, row, example)
                item = (key, example) if self.assign is None else (key, example, self.assign(key, row))
            except ValueError as error:
                yield Bad(place_of(piece.file, position, number), str(error))
                continue
            yield item

    def _key(self, name: str, row: Mapping[str, Any], example: Example) -> Key:
        """Returns the key in the column `name` of a row: as converted for the example, if the row is text.

        The key in a column of images or sounds is the path of the file.
        """
        if self.missing is None:
            return key_of(row, name)
        if row.get(name, "") in self.missing:
            raise ValueError(f"column {name!r}: the key is missing")
        field = (self.fields or {}).get(name)
        return key_of(row if field is None or field.kind in ("image", "audio") else example, name)


def key_of(example: Mapping[str, Any], column: str) -> Key:
    """Returns the key in a column of an example, or in a nested field with the path `column`, such as a/b.

    Dates, times, decimal numbers and bytes in UTF-8 are returned as text.

    Raises:
        ValueError: the value is neither an integer, text, bytes in UTF-8, a date, a time nor a decimal number.

    >>> key_of({"a": {"b": 7}}, "a/b")
    7
    """
    key: Any = value_or_none(example, column)
    if isinstance(key, (str, int)):
        return key
    if isinstance(key, np.integer):  # of the decoded records of a TFRecord file
        return int(key)
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise ValueError(f"key {column!r} is {key!r:.60} (bytes that are not text in UTF-8)") from None
    if isinstance(key, datetime.date | datetime.time | datetime.timedelta | decimal.Decimal):
        return str(as_text(key))
    raise ValueError(f"key {column!r} is {key!r:.60} ({type(key).__name__}); a key is an integer or text")


def value_or_none(row: Any, path: str) -> Any:
    """Returns the value of a column, or of field a/b of an object; None if there is none.

    >>> value_or_none({"a": {"b": 7}}, "a/b"), value_or_none({"a/b": 8}, "a/b"), value_or_none({}, "a")
    (7, 8, None)
    """
    if not isinstance(row, Mapping) or path in row:
        return row.get(path) if isinstance(row, Mapping) else None
    name, _, inner_path = path.partition("/")
    return value_or_none(row.get(name), inner_path) if inner_path else None


def read_and_record_keys(piece: Any, read: Callable[[Any], Iterator[Any]], folder: str) -> Iterator[Any]:
    """Yields the rows of a piece as (key, example, split), and writes {split: keys} into JSON files of a folder.

    If a piece is read again, such as by a retry, its keys are written again.
    """
    keys: dict[str, list[Key]] = {}

    def write_keys() -> None:
        """Writes the collected {split: keys} as JSON to a file with a random name, and clears them."""
        storage.write_bytes(storage.join(folder, uuid.uuid4().hex), json.dumps(keys).encode())
        keys.clear()

    for number, (key, example, split) in enumerate(read(piece), 1):
        keys.setdefault(split, []).append(key)
        yield key, example, split
        if number % KEYS_IN_FILE == 0:
            write_keys()
    write_keys()
