"""Rows of any format as (key, example)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.files.convert import row_converter
from beam_datasets.files.images import StorableImage
from beam_datasets.files.source import Bad, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from beam_datasets.files.fields import Field
    from beam_datasets.files.inputs import Piece
    from beam_datasets.files.source import Example, Key

    Row = tuple[int, str | None, dict[str, Any] | str]
    """A row's number in its key, its place in errors (None for the line at this byte), its values or its problem."""


@dataclass(frozen=True)
class Rows:
    """Reads the rows of pieces as examples.

    Attributes:
        rows: piece -> its rows.
        fields: name -> field of what is kept.
        dropped: names that are left out.
        key: the column that has the keys; None for file and number.
        missing: texts that stand for no value; None if values are not text.
        exif_orientation: of images; see `storable_image`.
    """

    rows: Callable[[Piece], Iterator[Row]]
    fields: Mapping[str, Field]
    dropped: frozenset[str] = frozenset()
    key: str | None = None
    missing: tuple[str, ...] | None = None
    exif_orientation: str = "keep"

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a piece."""
        image = StorableImage(piece.file.path, self.exif_orientation)
        dropped = self.dropped if self.key is None else self.dropped | {self.key}
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
        return key_of(example if name in self.fields else row, name)
