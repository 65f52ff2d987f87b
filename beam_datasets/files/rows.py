"""From pieces of files to (key, example) in a pipeline: rows of any format, and what is counted of bad ones."""

from __future__ import annotations

import datetime
import decimal
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.metrics import Metrics

from beam_datasets.errors import InputError
from beam_datasets.files.convert import as_text, row_converter
from beam_datasets.files.images import StorableImage
from beam_datasets.files.inputs import LineAt, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from beam_datasets.files.fields import Field
    from beam_datasets.files.inputs import InputFile, Piece

    Place = str | int | None
    """What follows a file's name in messages: a text, the number of a line, or None for the line at a byte."""
    Row = tuple[int, Place, dict[str, Any] | str]
    """A row's number in its key, its place, its values or its problem."""

Key = str | int
Example = dict[str, Any]

SHOWN = 5  # bad rows of a piece that are shown if they are left out
_LEFT_OUT, _EXAMPLES = "left out", "left out, some of them"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bad:
    """A row that cannot be used.

    Attributes:
        file: that it is in.
        problem: what is wrong, and what to do.
        place: in the file.
        offset: byte at which the line begins, if `place` is None.
    """

    file: InputFile
    problem: str
    place: Place = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{place_of(self.file, self.place, self.offset)}: {self.problem}"


def place_of(file: InputFile, place: Place, offset: int) -> object:
    """Returns what names a row in messages, as its text. Line numbers are counted only when it is shown; see `Bad`."""
    if place is None:
        return LineAt(file, offset)
    text = f"line {place}" if isinstance(place, int) else place
    return f"{file.path}{text and ', '}{text}"


class Reader(Protocol):
    """Reads pieces of one format; it is pickled to the workers."""

    def read(self, piece: Any) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a piece; a row that cannot be used does not end it."""
        ...


@dataclass(frozen=True)
class Rows:
    """Reads the rows of pieces as examples.

    Attributes:
        rows: piece -> its rows.
        fields: name -> field of what is kept; None if rows are examples.
        dropped: names that are left out.
        key: the column that has the keys; None for file and number.
        missing: texts that mean a missing value; None if values are not text.
        exif_orientation: of images; see `storable_image`.
    """

    rows: Callable[[Piece], Iterator[Row]]
    fields: Mapping[str, Field] | None
    dropped: frozenset[str] = frozenset()
    key: str | None = None
    missing: tuple[str, ...] | None = None
    exif_orientation: str = "keep"

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a piece."""
        image = StorableImage(piece.file.path, self.exif_orientation)
        dropped = self.dropped if self.key is None else self.dropped | {self.key}
        convert: Any = lambda row: row  # noqa: E731
        if self.fields is not None:
            convert = row_converter(self.fields, dropped, image=image, missing=self.missing)
        for number, place, row in self.rows(piece):
            try:
                if isinstance(row, str):
                    raise ValueError(row)
                example = convert(row)
                key = f"{piece.file.name}:{number}" if self.key is None else self._key(self.key, row, example)
            except ValueError as error:
                yield Bad(piece.file, str(error), place, number)
                continue
            yield key, example

    def _key(self, name: str, row: Mapping[str, Any], example: Example) -> Key:
        if self.missing is None:
            return key_of(row, name)
        if row.get(name, "") in self.missing:
            raise ValueError(f"column {name!r}: the key is missing")
        return key_of(example if name in (self.fields or ()) else row, name)


def key_of(example: Mapping[str, Any], column: str) -> Key:
    """Returns the key that a column gives.

    Raises:
        ValueError: it holds no integer and no text.
    """
    key: Any = example.get(column)
    if isinstance(key, (str, int)):
        return key
    if isinstance(key, bytes):
        return key.decode("utf-8", "surrogateescape")
    if isinstance(key, datetime.date | datetime.time | datetime.timedelta | decimal.Decimal):
        return str(as_text(key))
    raise ValueError(f"key {column!r} is {key!r:.60} ({type(key).__name__}); a key is an integer or text")


def read_piece(piece: Any, reader: Reader, skip_bad: bool) -> Iterator[tuple[Key, Example]]:
    """Yields the rows of a piece.

    Raises:
        InputError: a row cannot be used, and skip_bad is False.
    """
    bad = 0
    for row in reader.read(piece):
        if not isinstance(row, Bad):
            yield row
            continue
        if not skip_bad:
            raise InputError(f"{row}\nTo count and leave out what cannot be used: --skip_bad.")
        bad += 1
        if bad <= SHOWN:
            Metrics.string_set("files", _EXAMPLES).add(str(row))
    count(_LEFT_OUT, bad)


def log_left_out(counters: Mapping[str, Any]) -> None:
    """Logs what `read_piece` left out and what readers counted, given the counters of a run."""
    counted = {name.removeprefix("files/"): value for name, value in counters.items() if name.startswith("files/")}
    some = "".join(f"\n  {text}" for text in sorted(counted.pop(_EXAMPLES, ())))
    left_out = counted.pop(_LEFT_OUT, 0)
    for what, number in counted.items():
        log.warning("%s: %d", what, number)
    if left_out:
        log.warning("left out: %d, among them%s", left_out, some)
