"""A dataset of the rows of JSON lines files (one object a line), without code.

    beam-datasets build jsonl --data_dir out --name reviews --pattern 'reviews/*.jsonl.gz' \
        --split train=95% --split test=5% --feature stars=int8 --feature user/age=int64? --key id

Objects inside a row are nested features and lists are sequences. null, or a name that is not there, is a missing value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError
from pipelines.files.builder import FilesBuilder
from pipelines.files.infer import Guess
from pipelines.files.inputs import LineAt, Piece, check_encoding
from pipelines.files.line_rows import JsonRows, objects
from pipelines.files.schema import FOUND, parse_field
from pipelines.files.source import Bad

if TYPE_CHECKING:
    from pipelines.files.schema import Field


class Jsonl(FilesBuilder):
    """Rows of JSON lines files.

    Args:
        encoding: of the text.
        common: see FilesBuilder.
    """

    EXPORT = "jsonl"
    _may_add = True

    def __init__(self, *, encoding: str = "utf-8", **common: Any) -> None:
        check_encoding(encoding, of_lines=True)
        self._encoding = encoding
        super().__init__(**common)

    def _found_fields(self) -> dict[str, Field]:
        guess, first_bad = Guess(), None
        most = -(-self._infer_rows // len(self._all_files))
        for file in self._all_files:
            for i, (offset, row) in enumerate(objects(Piece(file), self._encoding)):
                if i == most:
                    break
                if isinstance(row, Bad):
                    first_bad = first_bad or row
                else:
                    guess.add_row(row, LineAt(file, offset))
        if not guess.rows:
            shown = first_bad or ", ".join(file.path for file in self._all_files[:5])
            raise InputError(f"no file has an object; {shown}")
        self._guesses = dict(guess.fields)
        for name, spec in self._specs.items():  # what the user decides needs no guess
            note = guess.allow_missing if parse_field(spec).kind == FOUND else guess.forget
            note(name.split("/"))
        return guess.row_fields()

    def _rows_reader(self) -> JsonRows:
        return JsonRows(self._fields, self._dropped, self._key, self._encoding)
