"""Base classes of the builders of files: choice of files, splits, schema and keys."""

from __future__ import annotations

import abc
import contextlib
import copy
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, Unpack

from beam_datasets import storage
from beam_datasets.arguments import integer
from beam_datasets.builders import DatasetBuilder
from beam_datasets.error_list import ErrorList
from beam_datasets.errors import (
    BeamDatasetsError,
    DuplicateKeyError,
    InputError,
    NoExamplesError,
    did_you_mean,
    nearest_name,
)
from beam_datasets.features import FeatureConnector, FeaturesDict
from beam_datasets.files.bad_rows import (
    SKIP_ADVICE,
    Bad,
    left_out,
    log_left_out,
    place_of,
    read_piece,
    report,
    with_skip_advice,
)
from beam_datasets.files.fields import (
    Field,
    SoundType,
    advice,
    check_spec,
    has_files,
    lossless_type,
    override,
    parse_field,
    paths_of,
    problems,
    stored_paths,
    to_feature,
    with_labels,
    with_slash,
    with_slashes,
    with_sounds,
)
from beam_datasets.files.format_options import (
    common_options,
    conflict,
    describe_options,
    given_options,
    option,
    options_text,
    shared_options,
)
from beam_datasets.files.glob import has_wildcards
from beam_datasets.files.images import ImageOptions
from beam_datasets.files.infer import Guess, Inference, KindOf, kind_of_value
from beam_datasets.files.inputs import (
    InputFile,
    Piece,
    absolute,
    counted_here,
    find,
    find_unchanged,
    named_checksum,
    pieces,
)
from beam_datasets.files.late_types import describe_late_types
from beam_datasets.files.numerals import PYTHON
from beam_datasets.files.partitions import PartitionColumns, with_first_partition
from beam_datasets.files.published import (
    newly_missing_problem,
    published_drops,
    published_fields,
    recorded_types,
    with_all_published,
    without_given_types,
)
from beam_datasets.files.rows import Key, Row, RowReader, read_and_record_keys
from beam_datasets.files.sounds import completed, is_complete, read_content, values_at
from beam_datasets.files.split_assignment import (
    Assignment,
    Patterns,
    SplitBy,
    as_options,
    assign_sources,
    assignment,
    assignment_of_options,
    check_single_split,
)
from beam_datasets.files.text_notes import note_on_missing, numbers_that_may_be_missing
from beam_datasets.intake.streams import is_plain
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.inputs import FormatOptions, Inputs
from beam_datasets.metadata.keys import hash_key
from beam_datasets.metadata.names import camel_to_snake, check_dataset_name
from beam_datasets.metadata.split_by import SplitByValue
from beam_datasets.options import BuildOptions
from beam_datasets.publishing import run_report
from beam_datasets.shuffle.rejected import NUM_SHOWN
from beam_datasets.sources.units import SourceUnits

if TYPE_CHECKING:
    from beam_datasets.files.arguments import FilesArguments


log = logging.getLogger(__name__)
INFER_ROWS = 20_000
LATE_ROWS = 1_000_000
"""Number of rows, spread over all files, that are sampled again after a row did not fit the inferred schema."""
MAX_BYTES_IN_PROCESS = 64 << 20
"""Files of at most this size are appended without Beam: starting it takes as long as encoding about so much."""
SEARCHED_BYTES = 1 << 30
"""The greatest size of files that are read again to find the places of two rows with one key."""
MAX_FOUND_SPLITS = 100
LIKELY_MISTAKE = 0.75  # similarity of a name that no row has and of one that rows have; see `nearest_name`


class FilesBuilder(DatasetBuilder, abc.ABC, skip_registration=True):
    """A dataset of files.

    Args:
        data_dir: directory of the datasets.
        name: name of the dataset; by default the name of the file format.
        version: version of the dataset; raise it when the files have changed.
        skip_bad: omit, count and log bad rows or files; by default the first one ends the run with an error.
        description: description of the dataset.
        config: always None; `DatasetBuilder` has configs.
    """

    _key: str | None = None

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        name: str | None = None,
        version: str = "1.0.0",
        skip_bad: bool = False,
        description: str = "",
        config: object = None,
    ) -> None:
        if config is not None:
            raise ValueError(
                f"config: expected none, because builders of files have no configs, got {config!r:.60}. Give the "
                "dataset another name, with name= or --name"
            )
        self.name = check_dataset_name(name or type(self).name)
        if (read_as := camel_to_snake(self.name)) != self.name:
            raise ValueError(
                f"name: expected one in snake case, got {self.name!r}, which would be looked for as {read_as!r}"
            )
        self._skip_bad = skip_bad
        self._description = description
        self.VERSION = version  # type: ignore[misc]  # the user's files have the version that the user gives them
        super().__init__(data_dir=data_dir)

    def _generate_version(self, options: BuildOptions, *, overwrite: bool) -> str:
        """Generates and publishes the version and returns its directory; adds the rows left out to its run.json.

        Raises:
            NoExamplesError: no row became an example; the message contains the reasons why rows were left out.
        """
        bad_rows: list[dict[str, Any]] = []

        def keep(counters: Mapping[str, Any]) -> None:
            """Keeps the counts of bad rows, and passes all counters on, or logs the rows that were left out."""
            bad_rows.extend(left_out(counters))
            (options.counters or log_left_out)(counters)

        try:
            directory = super()._generate_version(replace(options, counters=keep), overwrite=overwrite)
        except NoExamplesError as error:
            if not (self._skip_bad and (reasons := self._reasons_of_first_rows())):
                raise
            raise NoExamplesError(f"{error}\n{reasons}") from None
        run_report.add_left_out(directory, bad_rows)
        return directory

    def _reasons_of_first_rows(self) -> str:
        """Returns why rows of the first units are left out; '' if no row is, or if the units cannot be read again."""
        try:
            with counted_here():  # which reads rows, too
                sources = {
                    id(source): source for source in self.split_generators(None).values()
                }  # splits may share one
            with counted_here() as counts:
                for source in sources.values():
                    for unit in source.units[:NUM_SHOWN] if isinstance(source, SourceUnits) else ():
                        next(iter(source.read(unit)), None)
        except BeamDatasetsError:  # the error of the run itself is raised, which this one would hide
            return ""
        return "\n".join(report({f"files/{name}": value for name, value in counts.items()}))

    def _generate_in_process(self, sources: Mapping[str, SourceUnits], options: BuildOptions) -> str:
        """Generates the dataset without Beam, and reports the counters of the files; returns the directory.

        Args:
            sources: split -> the units of its source.
            options: the options of the build; `counters` is called with a dict from the name of each counter, such as
                "files/bad_rows", to its number or text.
        """
        with counted_here() as counts:
            directory = super()._generate_in_process(sources, options)
        if options.counters:
            options.counters({f"files/{name}": value for name, value in counts.items()})
        return directory


class RowsBuilder(FilesBuilder, abc.ABC, skip_registration=True):
    """A dataset of the rows of files; a subclass reads one format.

    Args:
        pattern: path of the files of all splits: a file, a folder (all files in it), or a pattern with wildcards.
        splits: split -> pattern of its files, or several patterns. With `pattern`: split -> its share of the rows
            ("80%"), by the hash of their keys, or its values or times for `split_by`.
        split_by: with `pattern`, the property that determines the split of a row, in place of its key: `group=COLUMN`
            keeps rows with the same value in one split, `time=COLUMN` splits by time, and `column=COLUMN` reads the
            split name from a column. In Python, a `SplitBy`.
        train_until: with `split_by` time, the first time after the `train` split, such as 2026-01-01.
        stratify: a column of labels; each split gets its share of the rows of each label.
        features: column -> type, such as `age=int32` or `note=drop`, instead of the type inferred from the files;
            docs/reference/file-types.md lists the types.
        key: the column that identifies a row, or a field of an object (`user.id`); by default the file and the position
            of the row in it.
        infer_rows: number of rows, spread over all files, from which the schema is inferred.
        exif_orientation: what to do with images that EXIF rotates or mirrors: `keep`, the default, stores them
            unchanged, and readers ignore the orientation; `apply` stores upright pixels as PNG; `error` fails.
        frames: what to do with images of several frames, pages, views or sizes (GIF, TIFF, ...): `first` stores the
            first one; `error`, the default, fails.
        common: see FilesBuilder.
    """

    _guess = Guess()  # of the sampled rows
    _missing: tuple[str, ...] | None = None  # texts that mean a missing value; None if values are not text
    _numerals = PYTHON  # the separators in numbers, if values are text
    _packing = 1  # how many times as large as the files their rows are, about
    _may_be_tables = True  # whether the files may be in the folder of a table; see `table_formats`
    _may_add = False  # whether --feature may name a column that the sampled rows lack
    _left_out: frozenset[str] = frozenset()  # paths of files
    _may_lack = False  # whether files may lack columns that others have
    _records_keys = False  # whether a build records the keys of rows that another value assigns to splits
    _are_splits_known = True  # whether the options that assign published rows to splits are known
    _published_specs: Mapping[str, str] = {}  # {column: "drop"} of the version that is appended to
    published_key: str | None = None
    """The key, if it is that of the version that is appended to because none was given."""
    published_splits: str | None = None
    """The options that decide the splits of rows, if they are those of the version that is appended to."""
    published_options = differing_options = ""  # of that version: not given, and so adopted; given with other values
    _format_options: Mapping[str, Any] = {}  # given ones that decide how bytes become values, for inputs.json
    _published_fields: Mapping[str, Field] = {}  # of columns of the version that is appended to
    _touched = Inputs()  # files of that version whose time has changed, but not their content
    _known_files: Collection[str] = ()  # names of the files of that version

    def __init__(
        self,
        *,
        pattern: str | None = None,
        splits: Mapping[str, str | Sequence[str]] | None = None,
        split_by: SplitBy | None = None,
        train_until: str | None = None,
        stratify: str | None = None,
        features: Mapping[str, str] | None = None,
        key: str | None = None,
        infer_rows: int = INFER_ROWS,
        exif_orientation: str | None = None,
        frames: str | None = None,
        **common: Unpack[FilesArguments],
    ) -> None:
        images = given_options(exif_orientation=exif_orientation, frames=frames)
        self._set_format({**self._format_options, **images})
        self._given_assign = assignment(splits or {}, pattern, split_by, train_until, stratify)
        self._split_options = as_options(splits or {}, split_by, train_until, stratify) if self._given_assign else ""
        self._patterns: dict[str, Patterns] = {"train": pattern or ""}  # one for all if rows are assigned to splits
        self._has_files_of_splits = bool(splits) and self._given_assign is None
        if splits and self._has_files_of_splits:
            self._patterns = {name: each if isinstance(each, str) else tuple(each) for name, each in splits.items()}
        self._specs = dict(features or {})
        self._key = key
        self._infer_rows = integer("infer_rows", infer_rows, at_least=1)
        for name, spec in self._specs.items():
            check_spec(name, spec)
        super().__init__(**common)

    def _set_format(self, options: FormatOptions) -> None:
        """Sets the options that decide how the bytes of files become values; a subclass adds those of its format."""
        self._format_options = options
        self._images = ImageOptions(option(options, "exif_orientation", "keep"), option(options, "frames", "error"))

    def _with_inputs(self, options: BuildOptions) -> BuildOptions:
        """Returns the options with `inputs` and `checksums`, which inputs.json records.

        `inputs` are the files that are read, and `checksums` the `SourceUnits` that compute their checksums on
        workers; None in a trial, which reads only a few rows.
        """
        files = list(self._named_files())
        stamps = {name: (file.size, file.modified) for name, file in files}
        given = {type(self).name: shared_options(self._format_options)}
        inputs = Inputs(stamps, self._types(), *self._row_options, options=given).with_files(self._touched)
        is_trial = self._trial_examples is not None  # which reads few rows
        checksums = None if is_trial else SourceUnits(files, named_checksum)
        return replace(options, inputs=inputs, checksums=checksums)

    def _generate_version(self, options: BuildOptions, *, overwrite: bool) -> str:
        """Generates and publishes the version and returns its directory.

        Raises:
            DuplicateKeyError: two rows have the same key; the message contains the files and lines.
            InputError: a row cannot be used; the message contains options for all columns.
        """
        try:
            return super()._generate_version(self._with_inputs(options), overwrite=overwrite)
        except DuplicateKeyError as error:
            if self._key is None:
                raise
            places = self.find_rows(error)
            location_lines = "\n  ".join([" The rows:", *places]) if places else ""
            raise error.with_message(
                f"{error}\n  They are the same in {self._key!r}, which is the key (--key).{location_lines}"
            ) from None
        except InputError as error:
            if SKIP_ADVICE not in str(error) or not (late_types := self._late_types(str(error))):
                raise
            raise error.with_message(f"{error}\n{late_types}") from None

    def _late_types(self, shown: str) -> str:
        """Returns the options for all columns whose types the first rows do not show; '' if there are none.

        Args:
            shown: the error of the row at which the build has failed.
        """
        with contextlib.suppress(BeamDatasetsError):  # the error of the build is raised, which this one would hide
            other = copy.copy(self)
            other._infer_rows = LATE_ROWS
            guess = other._guess_rows()
            inference = Inference(is_text=self._missing is not None, numerals=self._numerals)
            typed_paths = {*self._specs, *self._published_fields}
            if guess.rows:
                return describe_late_types(self._fields, guess, inference, typed_paths=typed_paths, shown=shown)
        return ""

    def _guess_rows(self) -> Guess:
        """Returns the kinds of the values in the first rows of each file; none for formats that declare types."""
        return Guess()

    def _sources_in_process(self) -> Mapping[str, SourceUnits] | None:
        """Returns the sources if they are a few small files of this machine; see DatasetBuilder."""
        is_small = self._packing * sum(file.size for file in self._all_files) <= MAX_BYTES_IN_PROCESS
        is_here = all(is_plain(file.path) for file in self._all_files)
        if is_small and is_here and not has_files(self._fields.values()):
            return self.split_generators(None)
        return None

    def prepare_append(
        self,
        published_inputs: Inputs,
        *,
        take_changed: bool,
        compare_checksums: bool = False,
        may_lack: bool = False,
        features: FeatureConnector | None = None,
        splits: Collection[str] = (),
    ) -> list[str]:
        """Prepares an append to a published version: leaves out its files, adopts its key, options and column types.

        Args:
            published_inputs: the files that the published version was built from.
            take_changed: whether files that have changed since are taken.
            compare_checksums: whether a file with the same size and time may have changed.
            may_lack: whether files may lack columns that others have.
            features: the features of the published version, for columns whose types `published_inputs` lacks.
            splits: the splits of the published version.

        Returns:
            The names of the files that have changed.

        Raises:
            InputError: rows would get keys or splits by other options than those of the published version, or by none;
                or its files do not share an option that is not given.
        """
        for name in ("_listed_files", "_files"):  # there may be new files since the builder was used
            self.__dict__.pop(name, None)
        errors = ErrorList()
        with errors.keep():
            self._adopt_format(published_inputs)
        with errors.keep():
            self._adopt_row_options(published_inputs, splits)
        errors.raise_all()
        self._known_files = published_inputs.files.keys()
        old = {name: file for name, file in self._named_files() if name in published_inputs.files}
        unchanged = find_unchanged(old, published_inputs, compare_checksums=compare_checksums)
        self._published_specs = {name: spec for name, spec in published_inputs.columns.items() if spec == "drop"}
        self._published_fields = published_fields(published_inputs.columns, features)
        self._may_lack = may_lack
        self._records_keys = True
        self._are_splits_known = published_inputs.splits is not None
        stamps = {name: (old[name].size, old[name].modified) for name in unchanged}
        touched = {name: stamp for name, stamp in stamps.items() if stamp != published_inputs.files[name]}
        self._touched = Inputs(touched, checksums={name: published_inputs.checksums[name] for name in touched})
        self._leave_out(old[name].path for name in (unchanged if take_changed else old))
        return [name for name in old if name not in unchanged]

    def _adopt_format(self, published_inputs: Inputs) -> None:
        """Adopts the options of the format that are not given; for the errors see `prepare_append`."""
        read_options = common_options(published_inputs, type(self).name, self._format_options)
        self.published_options, self.differing_options = describe_options(self._format_options, read_options)
        try:
            self._set_format({**read_options, **self._format_options})
        except ValueError as error:
            raise conflict(error, options_text(read_options)) from None

    def _adopt_row_options(self, published_inputs: Inputs, splits: Collection[str]) -> None:
        """Adopts the key and the splits if they are not given; for the errors see `prepare_append`."""
        if self._key is None and published_inputs.key:
            self._key = published_inputs.key.removeprefix("--key ")
            self.published_key = self._key
        if self._given_assign is None and published_inputs.splits and not self._has_files_of_splits:
            pattern = next(iter(self._patterns.values()))
            self._given_assign = assignment_of_options(published_inputs.splits, pattern)
            self._split_options = self.published_splits = published_inputs.splits
        published_inputs.check_options(Inputs({}, {}, *self._row_options))
        if published_inputs.splits is None and self._given_assign is None and not self._has_files_of_splits:
            check_single_split(splits)

    @property
    def has_key_column(self) -> bool:
        """Whether a column has the keys of the rows; otherwise these are made of file names and row numbers."""
        return self._key is not None

    @property
    def has_files(self) -> bool:
        """Whether there are files to read, without those that `prepare_append` leaves out."""
        return bool(self._all_files)

    @property
    def may_be_empty(self) -> bool:
        """Whether files that yield no examples have no rows; False if rows that cannot be used are left out."""
        return not self._skip_bad

    @property
    def recorded_keys(self) -> Callable[[], Iterator[dict[str, list[Key]]]] | None:
        """A function that yields the keys of the rows that were built, by split; None if the key decides the split."""
        folder = self._keys_dir
        if not folder:
            return None
        return lambda: (json.loads(storage.read_bytes(storage.join(folder, name))) for name in storage.list_dir(folder))

    def places_of(self, key: Key) -> dict[str, str]:
        """Returns {split: the place of its first row with a key}; reads the files until two splits have one."""
        locations: dict[str, str] = {}
        for split, location in self._find_locations(lambda _, other: str(other) == str(key)):
            locations.setdefault(split, location)
            if len(locations) > 1:
                break
        return locations

    def find_rows(self, error: DuplicateKeyError) -> list[str]:
        """Returns the locations of at most two rows with the key of an error, such as "/data/a.csv, line 7".

        Returns [] if the error has no key, or if the files are too large to be searched.
        """
        sort_key = error.sort_key
        if sort_key is None or sum(file.size for file in self._all_files) > SEARCHED_BYTES:
            return []
        return [
            location
            for _, location in islice(self._find_locations(lambda split, key: hash_key(split, key) == sort_key), 2)
        ]

    def _find_locations(self, is_wanted: Callable[[str, Key], bool]) -> Iterator[tuple[str, str]]:
        """Yields (split, file and line) of each row for which `is_wanted(split, key)` is True; reads all files."""
        reader = self._rows_reader()
        for name, pattern in self._patterns.items():
            for piece in self._pieces(self._files[pattern]):
                location: object = ""  # the line number is computed when it is shown

                def watched(piece: Any) -> Iterator[Row]:
                    """Yields the rows of a piece, and stores the place of the current row in `location`."""
                    nonlocal location
                    for number, position, row in reader.rows(piece):
                        location = place_of(piece.file, position, number)
                        yield number, position, row

                for item in replace(reader, rows=watched)(piece):
                    if not isinstance(item, Bad):
                        split = item[2] if len(item) == 3 else name
                        if is_wanted(split, item[0]):
                            yield split, str(location)

    @property
    def _keys_dir(self) -> str:
        """The directory in which the keys of rows are recorded; '' if they are not recorded.

        They are recorded if the published version may have the key of a new row in another split.
        """
        assign = self._given_assign
        is_needed = self._records_keys and assign is not None and not (assign.column is None and self._are_splits_known)
        return storage.join(self._root, "recorded.keys") if is_needed else ""

    def builders_per_file(self) -> Iterator[Self]:
        """Yields a builder of each file alone, so that an append can add them one after another.

        The builders write below the data_dir of this one.
        """
        files = list(self._all_files)
        for number, file in enumerate(files):
            other = self.elsewhere(storage.join(self._root, str(number)))
            other._leave_out([*self._left_out, *(each.path for each in files if each != file)])
            yield other

    @property
    def _row_options(self) -> tuple[str, str]:
        """(option for the key, options for the split) as text, such as ('--key id', ''); '' if not given."""
        return f"--key {self._key}" if self._key else "", self._split_options

    def _leave_out(self, paths: Iterable[str]) -> None:
        """Leaves out files, and clears what was inferred from the files."""
        self._left_out = frozenset(paths)
        for name in vars(self).keys() - {"_listed_files"}:
            if isinstance(getattr(type(self), name, None), cached_property):
                del self.__dict__[name]

    def _named_files(self) -> Iterator[tuple[str, InputFile]]:
        """Yields (name in inputs.json, file); the name begins with 'split/' if splits have patterns of their own.

        Without such patterns the rows are in `train`, so inputs.json may contain the same file with and without
        'train/'; the yielded name is the one that inputs.json has.
        """
        split_files = [(split, file) for split, pattern in self._patterns.items() for file in self._files[pattern]]
        names = [f"{split}/{file.name}" if self._has_files_of_splits else file.name for split, file in split_files]
        for name, (split, file) in zip(names, split_files):
            other = file.name if self._has_files_of_splits else f"{split}/{file.name}"
            is_other = split == "train" and name not in self._known_files and other in self._known_files
            yield (other if is_other and other not in names else name), file

    def _types(self) -> dict[str, str]:
        """Returns {column: type} as inputs.json records it, with "drop" for columns that are left out."""
        return recorded_types(self._complete_fields) | self._dropped

    @abc.abstractmethod
    def _infer_fields(self) -> dict[str, Field]:
        """Returns the schema of the files; columns that cannot be used as they are have a `problem`."""

    @property
    @abc.abstractmethod
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """The function that reads the rows of a piece."""

    @property
    def _dropped(self) -> dict[str, str]:
        """Returns {path: "drop"} of the columns and fields that are left out, also by appends."""
        return {name: "drop" for name, spec in self._specs.items() if parse_field(spec).kind == "drop"}

    def _rows_reader(self) -> RowReader:
        """Returns the reader that converts rows to examples, with their keys and splits, by the complete schema."""
        fields = self._complete_fields  # decides what names with dots mean
        columns = self._rows, fields, frozenset(self._dropped), self._key, self._missing
        return RowReader(*columns, self._images, self._assign, self._numerals, self._folders)

    @cached_property
    def _folders(self) -> PartitionColumns:
        """The columns that folders of the files are named after. Warns of a pattern that begins below such folders."""
        for patterns in self._patterns.values():
            for pattern in [patterns] if isinstance(patterns, str) else patterns:
                path = absolute(pattern)
                is_folder = os.path.isdir(path)
                if "://" in path and not has_wildcards(path):  # what a URL is, only the files that were found tell
                    is_folder = any(file.path.startswith(f"{path.rstrip('/')}/") for file in self._all_files)
                if other := with_first_partition(pattern, is_folder=is_folder):
                    log.warning(
                        f"{pattern}: the folders in this path become no columns; the pattern {other!r} makes them"
                    )
        return PartitionColumns.of(file.name for file in self._all_files)

    def _label_values(self, path: str) -> Collection[str]:
        """Returns the distinct values of a column of the files or of their folders, as names of labels."""
        return self._folders.values[path] if path in self._folders.values else self._values_at(path)

    def _guess_of(
        self, rows: Callable[[Piece], Iterator[Row]], guess: Guess | None = None, kind_of: KindOf = kind_of_value
    ) -> tuple[Guess, str]:
        """Returns (kinds of the values in the first rows of each file, first problem or '').

        Args:
            rows: the function that yields (number, position, row or problem) of a piece; see `Row`.
            guess: kinds to add to; None for none.
            kind_of: the function from a value to its kind.

        Raises:
            InputError: a file cannot be read, and bad rows are not skipped.
        """
        self._guess, problem = guess or Guess(), ""
        for file in self._all_files:
            try:
                for number, position, row in islice(rows(Piece(file)), self._rows_of_each_file):
                    if isinstance(row, str):
                        problem = problem or str(Bad(place_of(file, position, number), row))
                    else:
                        self._guess.add_row(row, place_of(file, position, number), kind_of)
            except InputError as error:
                if not self._skip_bad:
                    raise InputError(with_skip_advice(error)) from error
                problem = problem or str(error)
        return self._guess, problem

    def _values_at(self, path: str) -> Collection[str]:
        """Returns the distinct values of a column, or of field a/b, as names of labels."""
        return self._guess.values_at(path)

    def _pieces(self, files: Sequence[InputFile]) -> Sequence[Any]:
        """Returns the units that workers read: pieces of the files, or other objects of a subclass's format."""
        return pieces(files)

    @cached_property
    def _files(self) -> dict[str | tuple[str, ...], list[InputFile]]:
        """{pattern, or tuple of patterns that are read together: its files}, without files that are left out."""
        return {
            pattern: [file for file in files if file.path not in self._left_out]
            for pattern, files in self._listed_files.items()
        }

    @cached_property
    def _listed_files(self) -> dict[str | tuple[str, ...], list[InputFile]]:
        """{pattern, or tuple of patterns that are read together: its files}; listed once, with one set of warnings."""
        return {p: find(p, may_be_table=self._may_be_tables) for p in dict.fromkeys(self._patterns.values())}

    @cached_property
    def _assign(self) -> Assignment | None:
        """The rule that assigns rows to splits; None if each pattern is a split.

        With `split_by` a column, the splits are the values of the column in the sampled rows unless the user names
        them.
        """
        if self._given_assign is not None and self._given_assign.column is not None:
            self._fields  # noqa: B018  # looks at the rows, and decides what names with dots mean
        split_by = self._given_assign
        if split_by is None or split_by.column is None:
            return split_by
        split_of = split_by.split_of
        if split_of is None:
            names = sorted(
                {value.strip() for value in self._label_values(split_by.column)} - {""}
            )  # an empty value is missing
            if not 0 < len(names) <= MAX_FOUND_SPLITS:
                raise InputError(
                    f"column {split_by.column!r}: expected values that name splits, got {len(names)} values in the "
                    "sampled rows; name the splits: --split train=VALUE --split test=VALUE"
                )
            split_of = SplitByValue({value: value for value in names})
            if split_by.missing not in (None, *names):
                raise InputError(f"missing: expected one of the splits {names}, got {split_by.missing!r}")
        return replace(split_by, split_of=split_of, missing_texts=self._missing or ())

    @cached_property
    def _all_files(self) -> list[InputFile]:
        """Returns the files of all patterns, in one list."""
        return [file for files in self._files.values() for file in files]

    @property
    def files_text(self) -> str:
        """The files for errors: "/data/a.csv (and 3 more)"."""
        num_more = len(self._all_files) - 1
        return f"{self._all_files[0].path}{f' (and {num_more} more)' if num_more else ''}"

    @property
    def _rows_of_each_file(self) -> int:
        """The number of rows of each file from which types are inferred: `infer_rows` divided by the files."""
        return -(-self._infer_rows // len(self._all_files))

    @property
    def _known_types(self) -> set[str]:
        """The names of columns whose types are given, or are those of the version that is appended to."""
        return {path.replace(".", "/").partition("/")[0] for path in (*self._specs, *self._published_fields)}

    @cached_property
    def _fields(self) -> dict[str, Field]:
        """The schema: the inferred fields, replaced by those that `features` declares.

        Raises:
            InputError: columns cannot be stored as they were found; all of them are named.
        """
        in_files = self._infer_fields()
        inferred = in_files | {name: field for name, field in self._folders.fields().items() if name not in in_files}
        paths = list(paths_of(inferred))
        self._specs = with_slashes(self._specs, inferred)
        self._key = self._key and with_slash(self._key, inferred)
        if self._given_assign is not None and self._given_assign.column is not None:
            self._given_assign = replace(self._given_assign, column=with_slash(self._given_assign.column, inferred))
        if self._key is not None and self._key not in {*paths, *self._specs}:
            raise InputError(f"key {self._key!r} is not in the files; they have {', '.join(map(repr, paths))}")
        column = self._given_assign.column if self._given_assign else None
        if column is not None and column not in {*paths, *self._specs}:
            raise InputError(
                expected=f"a column of the files to split by ({', '.join(map(repr, paths))})",
                got=f"{column!r}.{did_you_mean(column, paths)}",
            )
        self._specs = published_drops(self._published_specs, self._specs, inferred) | self._specs
        fields = override(self._as_published(inferred), self._specs, may_add=self._may_add)
        if self._may_add:
            self._check_names_that_no_row_has(inferred)
        wrong = list(problems(fields))
        if len(wrong) > 1:
            wrong.insert(0, f"{len(wrong)} columns cannot be stored as they are:")
        if wrong:
            text = "\n  ".join(wrong)
            has_place = any(file.path in text for file in self._all_files)
            raise InputError(text if has_place else f"{self.files_text}: {text}")
        undeclared = {name: field for name, field in fields.items() if name not in self._known_types}
        if missing_numbers := dict(numbers_that_may_be_missing(undeclared)):
            log.warning(note_on_missing(self.files_text, missing_numbers))
        return {name: with_labels(field, name, self._label_values) for name, field in fields.items()}

    def _check_names_that_no_row_has(self, inferred: Mapping[str, Field]) -> None:
        """Warns about each name in `features` that none of the sampled rows has.

        Args:
            inferred: {column: field} of the sampled rows.

        Raises:
            InputError: such a name is probably a mistake for another one, whose type is not given.
        """
        known_paths = {
            *paths_of(inferred),
            *(path for name, field in inferred.items() for path in stored_paths(field, name)),
        }
        without_type = sorted(known_paths - self._specs.keys())
        for name in sorted(self._specs.keys() - known_paths - self._published_fields.keys()):
            problem = f"feature {name!r} is in none of the sampled rows."
            near = nearest_name(name, without_type, cutoff=LIKELY_MISTAKE)
            if near:
                raise InputError(
                    f"{problem} Did you mean {near!r}? If both are meant, give the type of {near!r}, too, such as "
                    f"{advice(near, lossless_type(inferred, near))}"
                )
            log.warning(problem + did_you_mean(name, known_paths))

    @cached_property
    def _complete_fields(self) -> dict[str, Field]:
        """The schema; the types of sound columns are completed from the first sound of each column."""
        return {name: with_sounds(field, name, self._complete_sound) for name, field in self._fields.items()}

    def _complete_sound(self, path: str, sound: SoundType) -> SoundType:
        """Returns the type of the sounds at a path: properties that are not given are those of the first sound."""
        if is_complete(sound):
            return sound
        for piece in self._pieces(self._all_files):
            for _, _, row in self._rows(piece):
                for value in [] if isinstance(row, str) else values_at(row, path):
                    with contextlib.suppress(ValueError):  # it is left out, or an error when it is stored
                        return completed(sound, read_content(value, piece.file.path).info)
        raise InputError(f"feature {path!r}: expected a sound, got none that can be read in {self.files_text}")

    def _as_published(self, fields: dict[str, Field]) -> dict[str, Field]:
        """Returns the fields with the types of the version to append to; columns without a value are optional.

        A column has a `problem` if it lacks a value in some row although each example of the published version has one.
        """
        published = self._published_fields
        merged = with_all_published(
            fields,
            without_given_types(published, self._specs),
            self._guess.fields,  # empty for Parquet
            may_add=self._may_add,
            may_lack=self._may_lack,
        )
        for name in () if self._skip_bad or self._may_lack else published.keys() & merged.keys() - self._specs.keys():
            is_text = self._missing is not None and merged[name].kind == "string"  # which has an empty text
            if not is_text and (problem := newly_missing_problem(merged[name], name, self._guess)):
                merged[name] = replace(merged[name], problem=problem)
        return merged

    def _features(self) -> FeatureConnector:
        """Returns the feature tree of the dataset, one feature per column."""
        return FeaturesDict({name: to_feature(field) for name, field in self._complete_fields.items()})

    def _info(self) -> DatasetInfo:
        """Returns the metadata of the dataset; see `DatasetBuilder._info`."""
        return DatasetInfo(builder=self, features=self._features(), description=self._description)

    def _split_generators(self) -> dict[str, SourceUnits]:
        """Returns {split: source}; reads the files of each pattern once, for all splits that share them."""
        read = partial(read_piece, reader=self._rows_reader(), skip_bad=self._skip_bad)
        if self._keys_dir:
            read = partial(read_and_record_keys, read=read, folder=self._keys_dir)
        pieces = {pattern: self._pieces(files) for pattern, files in self._files.items()}
        sources = {name: SourceUnits(pieces[each], read) for name, each in self._patterns.items() if self._files[each]}
        return assign_sources(sources, self._assign)
