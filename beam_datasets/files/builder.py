"""The bases of the builders of files: which files, which splits, which schema, which keys."""

from __future__ import annotations

import abc
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from beam_datasets.builders import DatasetBuilder
from beam_datasets.errors import DuplicateKeyError, InputError
from beam_datasets.features import FeaturesDict
from beam_datasets.files.fields import Field, override, parse_field, problems, to_feature, with_labels
from beam_datasets.files.images import check_exif_orientation
from beam_datasets.files.infer import Guess, kind_of_value
from beam_datasets.files.inputs import InputFile, Piece, find, pieces
from beam_datasets.files.rows import Bad, Example, Key, Rows, log_left_out, place_of, read_piece
from beam_datasets.files.splits import Export, Share, export_of, shares
from beam_datasets.generate.units import SourceUnits
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.names import check_dataset_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from beam_datasets.features import FeatureConnector
    from beam_datasets.files.infer import KindOf
    from beam_datasets.files.rows import Reader, Row

INFER_ROWS = 20_000


class FilesBuilder(DatasetBuilder, abc.ABC, skip_registration=True):
    """A dataset of files.

    Args:
        data_dir: where datasets are.
        name: of the dataset; None for the format's.
        version: of the dataset; raise it when the files have changed.
        skip_bad: leave out, count and log what cannot be used; else the first ends the run.
        exif_orientation: of images that are turned or mirrored by it: keep the bytes, which are read as if there were
            no orientation, and count them; apply it, which stores pixels as PNG; error.
        description: of the dataset.
    """

    _key: str | None = None

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        name: str | None = None,
        version: str = "1.0.0",
        skip_bad: bool = False,
        exif_orientation: str = "keep",
        description: str = "",
    ) -> None:
        self.name = check_dataset_name(name or type(self).name)
        self._skip_bad = skip_bad
        self._exif_orientation = check_exif_orientation(exif_orientation)
        self._description = description
        self.VERSION = version  # type: ignore[misc]  # the user's files have the version that the user gives them
        super().__init__(data_dir=data_dir)

    def build(self, **options: Any) -> str:
        """Generates the dataset, and logs what was left out unless `counters` is given; see DatasetBuilder."""
        try:
            return super().build(**{"counters": log_left_out, **options})
        except DuplicateKeyError as error:
            if self._key is None:
                raise
            raise DuplicateKeyError(
                f"{error}\n  They are the same in {self._key!r}, which is the key (--key)."
            ) from None


class RowsBuilder(FilesBuilder, abc.ABC, skip_registration=True):
    """A dataset of the rows of files; a subclass reads one format.

    Args:
        pattern: path of the files of all splits; wildcards, and a folder for all below it.
        splits: name -> pattern of its files, or several patterns; or, with `pattern`, its share ("80%") of the rows by
            their keys' hash.
        features: name -> type, if the one found in the files is not right; see `beam_datasets.files.fields`.
        key: the column that identifies a row; None for its file and place in it.
        infer_rows: how many rows, spread over all files, are looked at to find the schema.
        common: see FilesBuilder.
    """

    _guess = Guess()  # of the rows that were looked at
    _missing: tuple[str, ...] | None = None  # texts that mean a missing value; None if values are not text
    _may_add = False  # whether --feature may name a column that the rows that were looked at do not have
    EXPORT: str | None = None
    """The format as which `beam-datasets export` writes such files; None if it does not."""

    def __init__(
        self,
        *,
        pattern: str | None = None,
        splits: Mapping[str, str | Sequence[str]] | None = None,
        features: Mapping[str, str] | None = None,
        key: str | None = None,
        infer_rows: int = INFER_ROWS,
        **common: Any,
    ) -> None:
        self._given_shares = shares(splits, pattern)
        self._has_splits = bool(splits)
        self._specs = dict(features or {})
        self._key = key
        self._infer_rows = infer_rows
        for spec in self._specs.values():
            parse_field(spec)
        super().__init__(**common)

    @abc.abstractmethod
    def _found_fields(self) -> dict[str, Field]:
        """Returns the schema of the files; columns that cannot be used as they are have a `problem`."""

    @property
    @abc.abstractmethod
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """What reads the rows of a piece."""

    def _rows_reader(self) -> Reader:
        return Rows(self._rows, self._fields, self._dropped, self._key, self._missing, self._exif_orientation)

    def _guess_of(
        self, rows: Callable[[Piece], Iterator[Row]], guess: Guess | None = None, kind_of: KindOf = kind_of_value
    ) -> tuple[Guess, str]:
        """Looks at the first rows of each file; returns what they have in common and the first problem."""
        self._guess, problem = guess or Guess(), ""
        for file in self._all_files:
            for number, place, row in islice(rows(Piece(file)), self._rows_of_each_file):
                if isinstance(row, str):
                    problem = problem or str(Bad(file, row, place, number))
                else:
                    self._guess.add_row(row, place_of(file, place, number), kind_of)
        return self._guess, problem

    def _values_at(self, path: str) -> Collection[str]:
        """Returns the distinct values of a column, or of field a/b, as names of labels."""
        return self._guess.values_at(path)

    def _pieces(self, files: Sequence[InputFile]) -> Sequence[Any]:
        """Returns the parts that workers read; whole files if a format cannot be cut."""
        return pieces(files)

    @cached_property
    def _files(self) -> dict[str | tuple[str, ...], list[InputFile]]:
        """The files of each pattern, or of several together."""
        return {pattern: find(pattern) for pattern in dict.fromkeys(share.pattern for share in self._shares.values())}

    @cached_property
    def _export(self) -> Export | None:
        """The export that the files are of: of one pattern, or of the splits' together."""
        if self.EXPORT is None:
            return None
        patterns = {share.pattern for share in self._given_shares.values()}
        return export_of([file for pattern in patterns for file in find(pattern)], self.EXPORT)

    @cached_property
    def _shares(self) -> dict[str, Share]:
        """The rows of each split: as given, else those of the export."""
        if self._has_splits or self._export is None:
            return self._given_shares
        return {name: Share(paths) for name, paths in self._export.splits.items()}

    @cached_property
    def _all_files(self) -> list[InputFile]:
        return [file for files in self._files.values() for file in files]

    @property
    def _paths(self) -> str:
        """The first files, for errors."""
        return ", ".join(file.path for file in self._all_files[:5])

    @property
    def _rows_of_each_file(self) -> int:
        return -(-self._infer_rows // len(self._all_files))

    @cached_property
    def _fields(self) -> dict[str, Field]:
        """The schema: as found in the files, with `features` in its place.

        Raises:
            InputError: columns cannot be stored as they were found; all of them are named.
        """
        found = self._found_fields()
        if self._key is not None and self._key not in {*found, *self._specs}:
            raise InputError(f"key {self._key!r} is not in the files; they have {', '.join(map(repr, found))}")
        exported = self._export.fields if self._export else {}
        specs = {name: field for name, field in exported.items() if name not in self._specs} | self._specs
        fields = override(found, specs, may_add=self._may_add)
        wrong = list(problems(fields))
        if len(wrong) > 1:
            wrong.insert(0, f"{len(wrong)} columns cannot be stored as they are:")
        if wrong:
            raise InputError("\n  ".join(wrong))
        return {name: with_labels(field, name, self._values_at) for name, field in fields.items()}

    @property
    def _dropped(self) -> frozenset[str]:
        return frozenset(name for name, spec in self._specs.items() if parse_field(spec).kind == "drop")

    def _features(self) -> FeatureConnector:
        return FeaturesDict({name: to_feature(field) for name, field in self._fields.items()})

    def _info(self) -> DatasetInfo:
        return DatasetInfo(builder=self, features=self._features(), description=self._description)

    def _split_generators(self) -> dict[str, SourceUnits]:
        """Reads each pattern once, however many splits share its rows."""
        read = partial(read_piece, reader=self._rows_reader(), skip_bad=self._skip_bad)
        pieces = {pattern: self._pieces(files) for pattern, files in self._files.items()}
        return {name: units_of(share, pieces[share.pattern], read) for name, share in self._shares.items()}


def units_of(share: Share, pieces: Sequence[Any], read: Callable[[Any], Iterator[tuple[Key, Example]]]) -> SourceUnits:
    """Returns the source of a split that has a share of the rows of some pieces."""
    return SourceUnits(pieces, read, None if share.is_all else share.has)
