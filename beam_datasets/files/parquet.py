"""A dataset of the rows of Parquet files, without code.

    beam-datasets build parquet --data_dir out --name clicks --pattern clicks/ --split train=90% --split test=10% \
        --key id

The schema is the files' own: structs are nested features, lists sequences, maps lists of keys and values; dates, times,
decimals and UUIDs become text, and doubles float64 (`--feature x=float32` takes half the bytes). Row groups are read in
parallel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.arrow_types import arrow_field, leaf_paths
from beam_datasets.files.arrow_values import Place, has_plain_values, items_of, python_values
from beam_datasets.files.bad_rows import with_skip_advice
from beam_datasets.files.builder import RowsBuilder
from beam_datasets.files.convert import label_of
from beam_datasets.files.extension_types import note_on_extensions, unknown_extensions, variant_columns
from beam_datasets.files.fields import FOUND, MAX_LABELS, UNKNOWN, Field, advice, parse_field, values_of, with_absent
from beam_datasets.files.hugging_face import Description, described_features, with_kinds_of_files
from beam_datasets.files.inputs import InputFile, Piece
from beam_datasets.files.merged_fields import MergedColumn
from beam_datasets.files.parquet_nulls import may_have_nulls, with_nulls_reported
from beam_datasets.files.rows import Row
from beam_datasets.files.text_notes import note_on_text_columns, text_columns
from beam_datasets.intake.errors import foreign_errors, reason
from beam_datasets.intake.parquet import ParquetContent
from beam_datasets.intake.streams import open_bytes

if TYPE_CHECKING:
    import pyarrow


log = logging.getLogger(__name__)


class Parquet(RowsBuilder):
    """Rows of Parquet files; the arguments are those of RowsBuilder."""

    _packing = 8
    _may_be_tables = False

    @cached_property
    def _groups(self) -> tuple[dict[str, Field], list[Piece]]:
        """Returns ({column: field}, pieces of all files), where each piece is a row group; see `row_groups`."""
        return row_groups(
            self._all_files,
            may_lack=self._may_lack,
            skip_bad=self._skip_bad,
            num_rows=self._rows_of_each_file,
            typed_columns=frozenset(name for name, spec in self._specs.items() if parse_field(spec).kind != FOUND),
        )

    def _infer_fields(self) -> dict[str, Field]:
        """Returns the schema of the files; see `RowsBuilder._infer_fields`.

        Raises:
            NoExamplesError: no file has a row, or none has a column.
        """
        fields, pieces = self._groups
        if not fields:
            raise NoExamplesError(f"no file has {'a column' if pieces else 'a row'}: {self.files_text}")
        columns = {
            path: column for path, column in text_columns(fields) if path.partition("/")[0] not in self._known_types
        }
        if columns:
            log.warning(note_on_text_columns(self.files_text, columns))
        undeclared = {name: field for name, field in fields.items() if name not in self._known_types}
        if note := note_on_extensions(self.files_text, undeclared):
            log.warning(note)
        return fields

    def _values_at(self, path: str) -> Collection[str]:
        """Returns the distinct values of a column, which is read from all files; see `RowsBuilder._values_at`."""
        return distinct(self._all_files, path, skip_bad=self._skip_bad)

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        """Returns the row groups of the files; see `RowsBuilder._pieces`."""
        selected_files = set(files)
        return [piece for piece in self._groups[1] if piece.file in selected_files]

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """Returns the function that reads the needed columns of a row group; see `RowsBuilder._rows`."""
        fields = self._fields  # decides what names with dots mean
        column = self._assign.column if self._assign else None
        paths = [path for path in (self._key, column) if path]
        column_names = {*fields, *paths, *(path.partition("/")[0] for path in paths)}
        return partial(rows, column_names=column_names, fields=fields, typed_paths=frozenset(self._specs))


@contextmanager
def open_parquet(file: InputFile) -> Iterator[ParquetContent]:
    """Opens a Parquet file.

    Raises:
        InputError: the file is not a Parquet file.
    """
    with open_bytes(file.path) as stream:
        yield ParquetContent(stream, file.path, file.size)


def row_groups(
    files: Sequence[InputFile],
    *,
    may_lack: bool = False,
    skip_bad: bool = False,
    num_rows: int = 0,
    typed_columns: Collection[str] = (),
) -> tuple[dict[str, Field], list[Piece]]:
    """Returns the files' schema, and a piece for each row group: its number is the start.

    A column without nulls in any file is not optional. The order of the columns may differ between files. A column that
    not all files have, unless they `may_lack` some, or not with the same type, has a `problem`. Files without rows do
    not count: programs give them other types, or no columns at all. With `skip_bad`, a file that cannot be used has one
    piece without an end, whose reading raises its error again.

    Args:
        files: the files.
        may_lack: whether files may lack columns that others have.
        skip_bad: whether to leave out files and rows that cannot be used.
        num_rows: number of rows of each file that are searched for nulls that cannot be stored, unless `skip_bad`.
        typed_columns: names of the columns whose types are given, in which nulls are not searched.

    Raises:
        InputError: a file is damaged, or none can be used.
    """
    pieces: list[Piece] = []
    columns: dict[str, MergedColumn] = {}
    names_of: dict[str, list[str]] = {}
    nulls_of: dict[InputFile, frozenset[str]] = {}
    problem = ""
    for file in files:
        try:
            with open_parquet(file) as content:
                file_fields, nulls_here = _fields_of(content) if content.num_rows else ({}, frozenset())
        except InputError as error:
            if not skip_bad:
                raise InputError(with_skip_advice(error)) from error
            problem = problem or str(error)
            pieces.append(Piece(file))
            continue
        if content.num_rows:
            names_of[file.path] = list(file_fields)
            pieces += [Piece(file, group, group + 1) for group in range(len(content.groups))]
        nulls_of[file] = nulls_here
        for name, one in file_fields.items():
            columns.setdefault(name, MergedColumn(name, one, file.path)).add(one, file.path)
    if problem and not names_of:
        raise InputError(f"no file can be used; {problem}")
    used_files = [file for file in files if file.path in names_of]
    nulls = frozenset().union(*nulls_of.values())
    fields = _with_kinds_of_files({name: column.field for name, column in columns.items()}, used_files, nulls)
    for file in () if skip_bad else used_files:
        searched = {name: field for name, field in fields.items() if name not in typed_columns}
        fields |= _with_nulls_reported(searched, file, nulls_of[file], num_rows)
    return with_absent(fields, names_of, may_lack=may_lack), pieces


def _fields_of(content: ParquetContent) -> tuple[dict[str, Field], frozenset[str]]:
    """Returns ({name of a column: field}, paths of the values that may be null); see `arrow_types.leaf_paths`."""
    leaves = {path: leaf for leaf, (path, _) in enumerate(leaf_paths(content.schema))}
    nulls = frozenset(path for path, leaf in leaves.items() if content.has_nulls(leaf))
    features = described_features(content.schema.metadata)
    description = Description(features, lambda path: content.bounds(leaves[path]), nulls, content.path)
    fields = {}
    for column in content.schema:
        name = column.name
        field = description.described(name, arrow_field(column.type, name, nulls))
        fields[name] = replace(field, extensions=unknown_extensions(column))
        if name in content.encrypted:
            problem = f"{content.path}: column {name!r} is encrypted; {advice(name, 'drop')} leaves it out"
            fields[name] = Field(UNKNOWN, problem=problem, is_unreadable=True)
    for name, problem in _undecoded_columns(content):
        problem = f"{content.path}: column {name!r} {problem}, or {advice(name, 'drop')} leaves the column out"
        fields[name] = Field(UNKNOWN, problem=problem, is_unreadable=True)
    return fields, nulls


def _undecoded_columns(content: ParquetContent) -> Iterator[tuple[str, str]]:
    """Yields (name, problem) of each column with intervals or variants, whose bytes pyarrow does not decode."""
    for name in content.intervals:
        yield (
            name,
            "has intervals, whose months, days and milliseconds are not decoded; write them as text or numbers, in SQL "
            "by CAST(... AS VARCHAR)",
        )
    for name in sorted(content.variants | variant_columns(content.schema)):
        yield (
            name,
            "has values of type VARIANT, which are not decoded; write them as JSON text or as one type, in SQL by "
            "CAST(... AS JSON) or CAST(... AS BIGINT)",
        )


def _with_nulls_reported(
    fields: Mapping[str, Field], file: InputFile, nulls: Collection[str], num_rows: int
) -> dict[str, Field]:
    """Returns the fields, with a `problem` where the first rows of a file have nulls that cannot be stored.

    Raises:
        InputError: the file is damaged.
    """
    if not num_rows or not any(may_have_nulls(field, name, nulls) for name, field in fields.items()):
        return dict(fields)
    try:
        with open_parquet(file) as content:
            return with_nulls_reported(fields, content, nulls, num_rows)
    except InputError as error:
        raise InputError(with_skip_advice(error)) from error


def _with_kinds_of_files(
    fields: Mapping[str, Field], files: Sequence[InputFile], nulls: Collection[str]
) -> dict[str, Field]:
    """Returns the fields; those of files of Hugging Face get the kind, image or sound, of their first file."""

    def first_of(name: str, target: Field) -> bytes:
        """Returns the first file among the values of a field in a column; b'' if there is none."""
        column, position = Field("list", item=fields[name]), Place(name, fields[name])
        for file in files:
            with suppress(InputError, ValueError), open_parquet(file) as content:  # raised again where rows are read
                for array in content.head(name):
                    for value in values_of(column, python_values(array, position), target):
                        if value["bytes"] is not None:
                            return bytes(value["bytes"])
        return b""

    return {name: with_kinds_of_files(field, name, nulls, partial(first_of, name)) for name, field in fields.items()}


def distinct(files: Sequence[InputFile], path: str, *, skip_bad: bool = False) -> set[str]:
    """Returns the distinct values of a column, or of field b of its structs (a/b), as text; MAX_LABELS at most.

    Args:
        files: the Parquet files.
        path: name of the column; 'a/b' is field b of the structs in column a.
        skip_bad: whether to leave out the part of a file that begins with a row group that cannot be read.

    Raises:
        InputError: a file cannot be read, and `skip_bad` is False.
    """
    distinct_values: set[str] = set()
    for file in files:
        try:
            with open_parquet(file) as content:
                for values in _distinct_values(content, path):
                    distinct_values.update(label_of(value) for value in values if value is not None)
                    if len(distinct_values) >= MAX_LABELS:
                        return distinct_values
        except InputError:
            if not skip_bad:
                raise
    return distinct_values


def _distinct_values(content: ParquetContent, path: str) -> Iterator[list[Any]]:
    """Yields a list of the distinct values of a column, or of field b of its structs, for each record batch.

    The items of lists are values. Yields nothing for a column that the file lacks, or whose values are structs.

    Args:
        content: the file.
        path: name of the column, or the names that lead to a field of it, joined by slashes, such as a/b.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [name for name in content.schema.names if f"{path}/".startswith(f"{name}/")]
    name = max(names, key=len, default=None)
    if name is None:
        return
    steps = path[len(name) + 1 :].split("/") if name != path else []
    for group in range(len(content.groups)):
        for batch in content.batches(group, [name]):
            with foreign_errors(content.path, f"row group {group}, column {path!r}"):
                values = batch.column(0)
                for step in (*steps, None):
                    values = items_of(values)
                    values = values if step is None else pc.struct_field(values, step)
                if not pa.types.is_struct(values.type):
                    yield python_values(pc.unique(values), Place(path))


def rows(
    piece: Piece,
    column_names: Collection[str],
    fields: Mapping[str, Field] | None = None,
    typed_paths: Collection[str] = (),
) -> Iterator[Row]:
    """Yields the rows of a row group: (number in the file from 0, 'row <number>', {column: value}).

    Args:
        piece: a row group; `start` is its number in the file, and `stop` is None if the file cannot be used.
        column_names: the columns to read, if the file has them.
        fields: fields of the columns.
        typed_paths: the paths of fields whose types the user has given.

    Raises:
        InputError: the file is damaged.
    """
    with open_parquet(piece.file) as content:
        if piece.stop is None:
            _fields_of(content)  # raises the error
            raise InputError(
                expected="the file as it was", got="another one", advice="Run the command again", path=piece.file.path
            )
        names = [name for name in content.schema.names if name in column_names]
        places = [Place(name, (fields or {}).get(name), typed_paths=typed_paths) for name in names]
        start = sum(content.groups[: piece.start])
        for batch in content.batches(piece.start, names):
            for number, row in enumerate(_rows_of(batch, places), start):
                yield number, f"row {number}", row
            start += batch.num_rows


def _rows_of(batch: pyarrow.RecordBatch, places: Sequence[Place]) -> Sequence[dict[str, Any] | str]:
    """Returns for each row of a record batch {column: value}, or a str, the problem, if a value cannot be read.

    Args:
        batch: the `pyarrow.RecordBatch`.
        places: the columns, with their fields.
    """
    problems: dict[int, str] = {}
    plain = [position.path for position in places if has_plain_values(batch.column(position.path).type)]
    rows: list[dict[str, Any]] = []
    with suppress(UnicodeDecodeError):  # the row and the column are named below
        rows = batch.select(plain).to_pylist() if plain else []
    if not rows:
        plain, rows = [], [{} for _ in range(batch.num_rows)]
    for position in places:
        if position.path in plain:
            continue
        column = batch.column(position.path)
        try:
            values = python_values(column, position)
        except Exception:  # of any kind; the rows that do not raise one are used
            values = _one_by_one(column, position, problems)
        for row, value in zip(rows, values):
            row[position.path] = value
    return [problems.get(index, row) for index, row in enumerate(rows)] if problems else rows


def _one_by_one(column: pyarrow.Array, location: Place, problems: dict[int, str]) -> list[Any]:
    """Returns the values of a column, None for those that cannot be read.

    Args:
        column: the Arrow array.
        location: path and field of the column.
        problems: index of a row -> problem of its first value that cannot be read. Changed.
    """
    values: list[Any] = []
    for index in range(len(column)):
        try:
            values += python_values(column.slice(index, 1), location)
        except Exception as error:
            problems.setdefault(index, f"{location.path!r}: {reason(error)}")
            values.append(None)
    return values
