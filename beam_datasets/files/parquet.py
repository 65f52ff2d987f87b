"""A dataset of the rows of Parquet files, without code.

    beam-datasets build parquet --data_dir out --name clicks --pattern clicks/ --split train=90% --split test=10% \
        --key id

The schema is the files' own: structs are nested features, lists sequences; dates, times and decimals become text, and
doubles float64 (`--feature x=float32` takes half the bytes). Row groups are read in parallel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.extras import needs
from beam_datasets.files.builder import Row, RowsBuilder
from beam_datasets.files.convert import label_of
from beam_datasets.files.fields import MAX_LABELS, SCALARS, UNKNOWN, Field, advice, as_optional, with_absent
from beam_datasets.files.inputs import InputFile, Piece
from beam_datasets.intake.streams import open_bytes

_BATCH = 1024  # rows that are in memory as Python values at once


class Parquet(RowsBuilder):
    """Rows of Parquet files; the arguments are those of RowsBuilder."""

    _packing = 8

    @cached_property
    def _groups(self) -> tuple[dict[str, Field], list[Piece]]:
        return row_groups(self._all_files, may_lack=self._may_lack)

    def _found_fields(self) -> dict[str, Field]:
        fields, _ = self._groups
        if not fields:
            raise NoExamplesError(f"no file has a row: {self.files_text}")
        return fields

    def _values_at(self, path: str) -> Collection[str]:
        return distinct(self._all_files, path)

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        wanted = set(files)
        return [piece for piece in self._groups[1] if piece.file in wanted]

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        column = self._assign.column if self._assign else None
        paths = [path for path in (self._key, column) if path]
        return partial(rows, wanted={*self._fields, *paths, *(path.partition("/")[0] for path in paths)})


def open_parquet(stream: Any, file: InputFile) -> Any:
    """Returns pyarrow's ParquetFile.

    Raises:
        InputError: it is not a Parquet file.
    """
    with needs("Parquet files need pyarrow", "files"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        return pq.ParquetFile(stream)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{file.path} is not a Parquet file ({file.size} bytes): {error}") from None


def row_groups(files: Sequence[InputFile], *, may_lack: bool = False) -> tuple[dict[str, Field], list[Piece]]:
    """Returns the files' schema, and a piece for each row group: its number is the start.

    A column without nulls in any file is not optional. The order of the columns may differ between files. A column that
    not all files have, unless they `may_lack` some, or not with the same type, has a `problem`. Files without rows do
    not count: programs give them other types, or no columns at all.
    """
    pieces: list[Piece] = []
    nulls: set[str] = set()
    types: dict[str, dict[Any, str]] = {}  # column -> type -> the first file that has it so
    names_of: dict[str, list[str]] = {}
    for file in files:
        with open_bytes(file.path) as stream:
            parquet = open_parquet(stream, file)
            names = parquet.schema_arrow.names
            if twice := [repr(name) for name, count in Counter(names).items() if count > 1]:
                raise InputError(f"{file.path}: the columns {', '.join(twice)} occur twice; rename them")
            if not parquet.metadata.num_rows:
                continue
            names_of[file.path] = names
            for column in parquet.schema_arrow:
                types.setdefault(column.name, {}).setdefault(column.type, file.path)
            nulls |= _columns_with_nulls(parquet.metadata)
            pieces += [Piece(file, group, group + 1) for group in range(parquet.num_row_groups)]
    fields = {name: _merged(name, found, nulls) for name, found in types.items()}
    return with_absent(fields, names_of, may_lack=may_lack), pieces


def _merged(name: str, types: Mapping[Any, str], nulls: set[str]) -> Field:
    """Returns the field of a column, given its types and a file that has it so; all-null files agree with any type."""
    named = {kind: path for kind, path in types.items() if str(kind) != "null"}
    kinds = list(named or types)
    fields = [arrow_field(kind, name, nulls) for kind in kinds]
    other = next((i for i, field in enumerate(fields) if field != fields[0]), 0)
    if other:
        problem = (
            f"column {name!r} is {kinds[0]} in {types[kinds[0]]} and {kinds[other]} in {types[kinds[other]]}; "
            f"{advice(name, 'string')} makes text of anything; {advice(name, 'drop')} leaves it out"
        )
        return Field(UNKNOWN, problem=problem)
    return as_optional(fields[0]) if named and len(named) < len(types) and not fields[0].problem else fields[0]


def arrow_field(kind: Any, path: str = "", nulls: Collection[str] = ()) -> Field:
    """Returns the field for an Arrow type; UNKNOWN if no feature stores it.

    Args:
        kind: the type.
        path: `a/x` is x in struct a, `a[]` an item of list a.
        nulls: the columns that may have nulls; see `_columns_with_nulls`.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return arrow_field(kind.value_type, path, nulls)
    if types.is_struct(kind):
        columns = {field.name: field.type for field in kind}
        if columns == {"bytes": pa.binary(), "path": pa.string()}:  # as Hugging Face has images
            return Field("image")
        fields = {name: arrow_field(inner, f"{path}/{name}", nulls) for name, inner in columns.items()}
        return Field("object", optional=not path.endswith("[]"), fields=fields)
    if types.is_fixed_size_list(kind):
        item = arrow_field(kind.value_type, f"{path}[]")
        if item.kind == "tensor":
            return replace(item, shape=(kind.list_size, *item.shape))
        return Field("tensor", item=item, shape=(kind.list_size,))
    if types.is_list(kind) or types.is_large_list(kind):
        return Field("list", item=arrow_field(kind.value_type, f"{path}[]"))
    optional = path.replace("/", ".") in nulls
    if types.is_temporal(kind) or types.is_decimal(kind):
        return Field("string", optional=optional, source=str(kind))
    name = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(kind), str(kind))
    if re.fullmatch(r"(large_)?(string|binary)(_view)?|fixed_size_binary\[\d+\]", name):
        name = "string"
    if name in SCALARS:
        return Field(name, optional=optional)
    ways = f"{advice(path.replace('[]', ''), 'drop')} leaves it out"
    if types.is_null(kind):
        ways = f"{advice(path, 'string?')} or another type stores it, {ways}"
    return Field(UNKNOWN, problem=f"column {path!r} has the type {kind}, which no feature stores; {ways}", source=name)


def _columns_with_nulls(metadata: Any) -> set[str]:
    """Returns the paths of columns that hold a null somewhere, or might, with dots also where a name has slashes."""
    found = set()
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            column = metadata.row_group(group).column(i)
            known = column.is_stats_set and column.statistics.has_null_count
            if not known or column.statistics.null_count:
                found.add(column.path_in_schema.replace("/", "."))
    return found


def distinct(files: Sequence[InputFile], path: str) -> set[str]:
    """Returns the distinct values of a column, or of field b of its structs (a/b), as text; MAX_LABELS at most."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: set[str] = set()
    for file in files:
        with open_bytes(file.path) as stream:
            parquet = open_parquet(stream, file)
            names = [name for name in parquet.schema_arrow.names if f"{path}/".startswith(f"{name}/")]
            name = max(names, key=len, default=None)
            inner = path[len(name) + 1 :].split("/") if name and name != path else []
            for batch in parquet.iter_batches(_BATCH * 64, columns=[name]) if name is not None else ():
                values = batch.column(batch.schema.names.index(name))
                for step in (*inner, None):
                    while pa.types.is_nested(values.type) and not pa.types.is_struct(values.type):
                        values = pc.list_flatten(values)
                    values = values if step is None else pc.struct_field(values, step)
                if pa.types.is_struct(values.type):
                    return set()
                found.update(label_of(value) for value in pc.unique(values).to_pylist() if value is not None)
                if len(found) >= MAX_LABELS:
                    return found
    return found


def rows(piece: Piece, wanted: Collection[str]) -> Iterator[Row]:
    """Yields the rows of a row group, with the wanted columns that the file has."""
    with open_bytes(piece.file.path) as stream:
        file = open_parquet(stream, piece.file)
        columns = [name for name in file.schema_arrow.names if name in wanted]
        number = sum(file.metadata.row_group(group).num_rows for group in range(piece.start))
        try:
            for batch in file.iter_batches(_BATCH, row_groups=[piece.start], columns=columns):
                for column in batch.columns:
                    _check_times(column)
                for row in batch.select(columns).to_pylist() if columns else [{}] * batch.num_rows:
                    yield number, f"row {number}", row
                    number += 1
        except (ValueError, OverflowError, OSError) as error:  # the second of a date after the year 9999
            raise InputError(f"{piece.file.path}, row group {piece.start} (from row {number}): {error}") from None


def _check_times(column: Any) -> None:
    """Raises pyarrow's ValueError if a time of day has nanoseconds, which Python's times lack."""
    import pyarrow as pa

    if "time64[ns]" not in str(column.type):
        return
    if pa.types.is_struct(column.type):
        for inner in column.flatten():
            _check_times(inner)
    elif pa.types.is_nested(column.type):
        _check_times(column.flatten())
    else:
        column.cast(pa.time64("us"))
