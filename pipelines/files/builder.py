"""What the builders of anybody's files have in common: which files, which splits, which schema, which keys."""

from __future__ import annotations

import abc
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beam_datasets.builders import DatasetBuilder
from beam_datasets.errors import DuplicateKeyError, InputError
from beam_datasets.features import FeaturesDict
from beam_datasets.model.info import DatasetInfo
from beam_datasets.model.names import check_dataset_name
from pipelines.files.exported import Export, export_of
from pipelines.files.infer import Guess
from pipelines.files.inputs import InputFile, find, pieces
from pipelines.files.schema import Field, override, parse_field, to_feature
from pipelines.files.source import Example, Key, ReadFiles, log_left_out
from pipelines.files.splits import Share, shares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beam_datasets.features import FeatureConnector
    from pipelines.files.source import Reader

INFER_ROWS = 20_000


class FilesBuilder(DatasetBuilder, abc.ABC, skip_registration=True):
    """A dataset of the rows of files; a subclass knows one format.

    Args:
        data_dir: where datasets stand.
        name: of the dataset; None for the format's.
        version: of the dataset; raise it when the files have changed.
        pattern: path of the files of all splits; wildcards, and a folder for all below it.
        splits: name -> pattern of its files, or several patterns; or, with `pattern`, its share ("80%") of the rows by
            their keys' hash.
        features: name -> type, where the one found in the files is not right; see `pipelines.files.schema`.
        key: the column that identifies a row; None for its file and place in it.
        skip_bad: leave out, count and log rows that cannot be used; else the first ends the run.
        infer_rows: how many rows, spread over all files, are looked at to find the schema.
        description: of the dataset.
    """

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        name: str | None = None,
        version: str = "1.0.0",
        pattern: str | None = None,
        splits: Mapping[str, str | Sequence[str]] | None = None,
        features: Mapping[str, str] | None = None,
        key: str | None = None,
        skip_bad: bool = False,
        infer_rows: int = INFER_ROWS,
        description: str = "",
    ) -> None:
        self.name = check_dataset_name(name or type(self).name)
        self._given_shares = shares(splits, pattern)
        self._has_splits = bool(splits)
        self._specs = dict(features or {})
        self._key = key
        self._skip_bad = skip_bad
        self._infer_rows = infer_rows
        self._description = description
        for spec in self._specs.values():
            parse_field(spec)
        self.VERSION = version  # type: ignore[misc]  # the user's files have the version that the user gives them
        super().__init__(data_dir=data_dir)

    def build(self, **options: Any) -> str:
        """Generates the dataset, and logs what was left out unless somebody takes the counters; see DatasetBuilder."""
        try:
            return super().build(**{"counters": log_left_out, **options})
        except DuplicateKeyError as error:
            if self._key is None:
                raise
            raise DuplicateKeyError(
                f"{error}\n  They are the same in {self._key!r}, which is the key (--key)."
            ) from None

    @abc.abstractmethod
    def _found_fields(self) -> dict[str, Field]:
        """Returns the schema that the files have."""

    @abc.abstractmethod
    def _rows_reader(self) -> Reader:
        """Returns what reads the files, given `self._fields`."""

    def _pieces(self, files: Sequence[InputFile]) -> Sequence[Any]:
        """Returns what is shared out among the workers; whole files where a format cannot be cut."""
        return pieces(files)

    @cached_property
    def _files(self) -> dict[str | tuple[str, ...], list[InputFile]]:
        """The files of each pattern, or of several together."""
        return {pattern: find(pattern) for pattern in dict.fromkeys(share.pattern for share in self._shares.values())}

    EXPORT: str | None = None
    """The format as which `beam-datasets export` writes such files; None where it does not."""

    @cached_property
    def _export(self) -> Export | None:
        """What the export says whose files these are: of one pattern, or of the splits' together."""
        if self.EXPORT is None:
            return None
        patterns = {share.pattern for share in self._given_shares.values()}
        return export_of([file for pattern in patterns for file in find(pattern)], self.EXPORT)

    @cached_property
    def _shares(self) -> dict[str, Share]:
        """The rows of each split: as given, or else as an export says."""
        if self._has_splits or self._export is None:
            return self._given_shares
        return {name: Share(paths) for name, paths in self._export.splits.items()}

    @cached_property
    def _all_files(self) -> list[InputFile]:
        return [file for files in self._files.values() for file in files]

    @cached_property
    def _fields(self) -> dict[str, Field]:
        """The schema: as found, with what the user says in its place."""
        found = self._found_fields()
        if self._key is not None and self._key not in {*found, *self._specs}:
            raise InputError(f"key {self._key!r} is not in the files; they have {', '.join(map(repr, found))}")
        exported = self._export.fields if self._export else {}
        specs = {name: field for name, field in exported.items() if name not in self._specs} | self._specs
        fields = override(found, specs, may_add=self._may_add)
        return {name: self._with_labels(name, field) for name, field in fields.items()}

    _may_add = False  # whether --feature may name what the rows that were looked at do not have
    _guesses: Mapping[str, Guess] = MappingProxyType({})  # what the rows that were looked at have, by column

    def _with_labels(self, name: str, field: Field) -> Field:
        if field.kind != "class" or field.labels is not None:
            return field
        guess = self._guesses.get(name)
        if guess is None or not 0 < len(guess.labels) < Guess.MOST_LABELS:
            raise InputError(f"feature {name!r}: its labels are not in the files; list them: {name}=class:a,b,c")
        return replace(field, labels=guess.label_names())

    @property
    def _dropped(self) -> frozenset[str]:
        return frozenset(name for name, spec in self._specs.items() if parse_field(spec).kind == "drop")

    def _features(self) -> FeatureConnector:
        return FeaturesDict({name: to_feature(field) for name, field in self._fields.items()})

    def _info(self) -> DatasetInfo:
        return DatasetInfo(builder=self, features=self._features(), description=self._description)

    def _split_generators(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection[tuple[Key, Example]]]:
        """Reads each pattern once, however many splits share its rows."""
        rows = {
            pattern: pipeline
            | f"Rows of {pattern}" >> ReadFiles(self._rows_reader(), self._pieces(files), self._skip_bad)
            for pattern, files in self._files.items()
        }
        return {name: of_share(name, rows[share.pattern], share) for name, share in self._shares.items()}


def of_share(name: str, rows: beam.PCollection, share: Share) -> beam.PCollection:
    """Returns the rows that belong to a split's share."""
    return rows if share.is_all else rows | f"Share {name}" >> beam.Filter(_belongs, share)


def _belongs(row: tuple[Key, Example], share: Share) -> bool:
    return share.has(row[0])
