"""A dataset of the tf.train.Examples in TFRecord files that somebody else wrote: shuffled, versioned and indexed anew.

    beam-datasets build tfrecord --data_dir out --name birds --split train='old/train-*' --split test='old/test-*' \
        --feature label=class:10 --key id

The features are found in the records: one value or a list, its type, text or image. Files may be compressed (.gz).
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems

from beam_datasets.errors import InputError
from beam_datasets.features import from_json_text
from beam_datasets.formats.example import parse
from pipelines.files.builder import FilesBuilder
from pipelines.files.inputs import Piece, open_bytes
from pipelines.files.schema import FOUND, parse_field
from pipelines.files.tfrecord_rows import Guess, KnownRows, TFRecordRows, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam_datasets.features import FeatureConnector
    from pipelines.files.inputs import InputFile
    from pipelines.files.schema import Field
    from pipelines.files.source import Reader


class Tfrecord(FilesBuilder):
    """Examples of TFRecord files.

    Args:
        features_json: path of a features.json that says what the records have; label files stand beside it.
        common: see FilesBuilder.
    """

    _may_add = True

    def __init__(self, *, features_json: str | None = None, **common: Any) -> None:
        self._features_path = features_json
        super().__init__(**common)
        if features_json and self._specs:
            raise ValueError("features_json says all features; give none besides (--feature)")

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
        said = {name for name, spec in self._specs.items() if parse_field(spec).kind != FOUND}
        known = {name: guess for name, guess in guesses.items() if name not in said}
        return {name: guess.field(name, total) for name, guess in sorted(known.items())}

    @cached_property
    def _known(self) -> FeatureConnector | None:
        path = self._features_path
        if path is None:
            return None
        features = from_json_text(_text(path), path=path)
        folder = FileSystems.split(path)[0]
        return features.load_labels(lambda name: _text_if_there(FileSystems.join(folder, name)))

    def _features(self) -> FeatureConnector:
        return self._known or super()._features()

    def _rows_reader(self) -> Reader:
        if self._known:
            return KnownRows(self._known, self._key)
        return TFRecordRows(self._fields, self._dropped, self._key)


def _text(path: str) -> str:
    with open_bytes(path) as stream:
        return stream.read().decode("utf-8")


def _text_if_there(path: str) -> str | None:
    return _text(path) if FileSystems.exists(path) else None
