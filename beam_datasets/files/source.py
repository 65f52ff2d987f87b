"""From pieces of files to (key, example) in a pipeline: a reader for each format, one transform for all."""

from __future__ import annotations

import datetime
import decimal
import logging
import pickle
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_datasets.errors import InputError
from beam_datasets.files.convert import as_text
from beam_datasets.files.inputs import LineAt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from beam_datasets.files.inputs import InputFile

Key = str | int
Example = dict[str, Any]

SHOWN = 5  # rows a piece whose fault is told where bad rows are left out
_COUNT, _EXAMPLES = "left out", "left out, some of them"
BLANK, ALPHA = "blank lines left out", "images with transparency, which are read without"
TURNED = "images with an EXIF orientation, which are read without (--exif_orientation apply)"
UPRIGHT = "images turned upright by their EXIF orientation"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bad:
    """A row that cannot be used.

    Attributes:
        file: where it stands.
        problem: what is wrong, and what to do.
        place: what stands behind the file's name in a message; None where only the offset is known.
        offset: byte at which the line begins.
    """

    file: InputFile
    problem: str
    place: str | None = None
    offset: int = 0

    def __str__(self) -> str:
        if self.place is None:
            return f"{LineAt(self.file, self.offset)}: {self.problem}"
        return f"{self.file.path}{self.place and ', '}{self.place}: {self.problem}"


class Reader(Protocol):
    """Reads pieces of one format; it is pickled to the workers."""

    def read(self, piece: Any) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a piece; a row that cannot be used does not end it."""
        ...


@dataclass
class ReadFiles(beam.PTransform):
    """Reads the rows of files as (key, example).

    Attributes:
        reader: of the files' format.
        pieces: what to read.
        skip_bad: whether rows that cannot be used are counted and left out; else the first is an error.
    """

    reader: Reader
    pieces: Sequence[Any]
    skip_bad: bool = False

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[tuple[Key, Example]]:
        """Shares the pieces out and reads them."""
        return (
            begin
            | "Pieces" >> beam.Create([_packed(self.pieces)], reshuffle=False)
            | "Unpack" >> beam.FlatMap(_unpacked)
            | "Share" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(read_piece, self.reader, self.skip_bad)
        )


def _packed(pieces: Sequence[Any]) -> bytes:
    """Returns the pieces in a tenth to a seventieth of their size; engines limit that of a graph."""
    return zlib.compress(pickle.dumps(list(pieces)))


def _unpacked(packed: bytes) -> list[Any]:
    pieces: list[Any] = pickle.loads(zlib.decompress(packed))
    return pieces


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
    count(_COUNT, bad)


def count(what: str, number: int = 1) -> None:
    """Counts what a user should know of when the run is done; 0 is not worth a word."""
    if number:
        Metrics.counter("files", what).inc(number)


def log_left_out(counters: Mapping[str, Any]) -> None:
    """Logs what `read_piece` left out and readers counted, given what a run counted."""
    for what in (BLANK, ALPHA, TURNED, UPRIGHT):
        if number := counters.get(f"files/{what}"):
            log.warning("%s: %d", what, number)
    if left_out := counters.get(f"files/{_COUNT}"):
        some = "".join(f"\n  {text}" for text in sorted(counters.get(f"files/{_EXAMPLES}", ())))
        log.warning("left out: %d, among them%s", left_out, some)


def key_of(example: Mapping[str, Any], column: str) -> Key:
    """Returns the key that a column gives.

    Raises:
        ValueError: it holds no integer and no text.
    """
    key = example.get(column)
    if isinstance(key, str | int):
        return key
    if isinstance(key, bytes):
        return key.decode("utf-8", "surrogateescape")
    if isinstance(key, datetime.date | datetime.time | datetime.timedelta | decimal.Decimal):
        return str(as_text(key))
    raise ValueError(f"key {column!r} is {key!r:.60} ({type(key).__name__}); a key is an integer or text")
