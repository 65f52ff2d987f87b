"""A dataset of the tf.train.Examples in TFRecord files that somebody else wrote: shuffled, versioned and indexed anew.

    beam-datasets build tfrecord --data_dir out --name birds --split train='old/train-*' --split test='old/test-*' \
        --feature label=class:10 --key id

The features are found in the records: one value or a list, its type, text or image. Files may be compressed (.gz).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from beam_datasets.errors import InputError
from beam_datasets.formats.example import parse
from pipelines.files.builder import FilesBuilder
from pipelines.files.inputs import Piece, open_bytes
from pipelines.files.tfrecord_rows import Guess, TFRecordRows, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipelines.files.inputs import InputFile
    from pipelines.files.schema import Field


class Tfrecord(FilesBuilder):
    """Examples of TFRecord files; the arguments are those of FilesBuilder."""

    _may_add = True

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        return [Piece(file) for file in files]

    def _found_fields(self) -> dict[str, Field]:
        guesses: dict[str, Guess] = {}
        total, most = 0, -(-self._infer_rows // len(self._all_files))
        for file in self._all_files:
            with open_bytes(file.path) as stream:
                for record in islice(records(stream, file.path), most):
                    total += 1
                    for name, values in parse(record).items():
                        guesses.setdefault(name, Guess()).add(values)
        if not guesses:
            raise InputError(f"no file has a record: {', '.join(file.path for file in self._all_files[:5])}")
        known = {name: guess for name, guess in guesses.items() if name not in self._specs}
        return {name: guess.field(name, total) for name, guess in sorted(known.items())}

    def _rows_reader(self) -> TFRecordRows:
        return TFRecordRows(self._fields, self._dropped, self._key)
