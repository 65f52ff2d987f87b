"""Rows of Parquet files as examples, row group by row group."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError, MissingDependencyError
from pipelines.files.convert import row_converter
from pipelines.files.inputs import Piece, open_bytes
from pipelines.files.schema import Field, advice
from pipelines.files.source import Bad, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipelines.files.inputs import InputFile
    from pipelines.files.source import Example, Key

Fields = dict[str, Field]
_BATCH = 1024  # rows that stand in memory as Python values at once
_AS_TEXT = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("Parquet files need pyarrow: pip install 'beam_datasets[files]'") from error
    return pyarrow, pyarrow.parquet


def open_parquet(stream: Any, file: InputFile) -> Any:
    """Returns pyarrow's ParquetFile.

    Raises:
        InputError: it is not a Parquet file.
    """
    arrow, parquet = _pyarrow()
    try:
        return parquet.ParquetFile(stream)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{file.path} is no Parquet file ({file.size} bytes): {error}") from None


def row_groups(files: Sequence[InputFile], dropped: frozenset[str] = frozenset()) -> tuple[Fields, list[Piece]]:
    """Returns the files' schema, and a piece for each row group: its number is the start.

    A column without nulls in any file is not optional. Dropped columns may have any type. Files may have their columns
    in any order.

    Raises:
        InputError: files differ in their columns, or a type cannot be stored.
    """
    pieces: list[Piece] = []
    schema, first, nulls = None, "", set()
    for file in files:
        with open_bytes(file.path) as stream:
            parquet = open_parquet(stream, file)
            found = {column.name: str(column.type) for column in parquet.schema_arrow}
            if schema is None:
                schema, first = parquet.schema_arrow, file.path
            _check_same({column.name: str(column.type) for column in schema}, found, first, file.path)
            nulls |= _columns_with_nulls(parquet.metadata)
            pieces += [Piece(file, group, group + 1) for group in range(parquet.num_row_groups)]
    if schema is None:
        return {}, []
    return {column.name: arrow_field(column.type, column.name, nulls, dropped) for column in schema}, pieces


def _check_same(expected: dict[str, str], found: dict[str, str], first: str, path: str) -> None:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            before, now = expected.get(name, "absent"), found.get(name, "absent")
            raise InputError(
                f"column {name!r} is {before} in {first} and {now} in {path}; all files need the same columns"
            )


def _columns_with_nulls(metadata: Any) -> set[str]:
    """Returns the paths of columns that hold a null somewhere, or might."""
    found = set()
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            column = metadata.row_group(group).column(i)
            known = column.is_stats_set and column.statistics.has_null_count
            if not known or column.statistics.null_count:
                found.add(column.path_in_schema)
    return found


def arrow_field(kind: Any, path: str, nulls: set[str], dropped: frozenset[str] = frozenset()) -> Field:
    """Returns the field for an Arrow type.

    Args:
        kind: the type.
        path: `a/x` is x in struct a, `a[]` an item of list a.
        nulls: the columns that may have nulls, as Parquet writes their paths.
        dropped: paths, without `[]`, that are left out.

    Raises:
        InputError: no feature stores values of this type.
    """
    if path.replace("[]", "") in dropped and not path.endswith("[]"):
        return Field("drop")
    arrow, _ = _pyarrow()
    types = arrow.types
    if types.is_struct(kind) and {field.name: field.type for field in kind} == _image_struct():
        return Field("image")
    if types.is_struct(kind):
        fields = {field.name: arrow_field(field.type, f"{path}/{field.name}", nulls, dropped) for field in kind}
        return Field("object", optional=not path.endswith("[]"), fields=fields)
    if types.is_fixed_size_list(kind):
        item = arrow_field(kind.value_type, f"{path}[]", set(), dropped)
        if item.kind == "tensor":
            return replace(item, shape=(kind.list_size, *item.shape))
        return Field("tensor", item=item, shape=(kind.list_size,))
    if types.is_list(kind) or types.is_large_list(kind):
        return Field("list", item=arrow_field(kind.value_type, f"{path}[]", set(), dropped))
    if types.is_dictionary(kind):
        return arrow_field(kind.value_type, path, nulls)
    return Field(_scalar(kind, path), optional=path.replace("/", ".") in nulls)


def _image_struct() -> dict[str, Any]:
    """Returns the fields of an image as Hugging Face's datasets have it."""
    arrow, _ = _pyarrow()
    return {"bytes": arrow.binary(), "path": arrow.string()}


def _scalar(kind: Any, path: str) -> str:
    arrow, _ = _pyarrow()
    types = arrow.types
    if types.is_integer(kind):
        return str(kind)
    if types.is_floating(kind):
        return "float16" if types.is_float16(kind) else "float32" if types.is_float32(kind) else "float64"
    if types.is_boolean(kind):
        return "bool"
    text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    moments = (types.is_temporal, types.is_decimal)
    if any(check(kind) for check in (*text, *moments)):
        return "string"
    raise InputError(
        f"column {path!r} has the type {kind}, which no feature stores; leave it out by "
        f"{advice(path.replace('[]', ''), 'drop')}"
    )


@dataclass(frozen=True)
class ParquetRows:
    """Reads row groups of Parquet files as examples; dates, times and decimals become text.

    Attributes:
        fields: name -> field of what is kept; other columns are not read.
        key: the column that has the keys; None for file and row.
        dropped: fields of structs that are passed over.
    """

    fields: Mapping[str, Field]
    key: str | None = None
    dropped: frozenset[str] = frozenset()

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the rows of a row group."""
        convert = row_converter(self.fields, self.dropped | ({self.key} if self.key else set()))
        for number, row in self._rows(piece):
            try:
                example = convert(row)
                key = f"{piece.file.name}:{number}" if self.key is None else key_of(row, self.key)
            except ValueError as error:
                yield Bad(piece.file, str(error), f"row {number}")
                continue
            yield key, example

    def _rows(self, piece: Piece) -> Iterator[tuple[int, dict[str, Any]]]:
        arrow, _ = _pyarrow()
        columns = [*self.fields, *([self.key] if self.key and self.key not in self.fields else [])]
        with open_bytes(piece.file.path) as stream:
            file = open_parquet(stream, piece.file)
            number = sum(file.metadata.row_group(group).num_rows for group in range(piece.start))
            try:
                for batch in file.iter_batches(_BATCH, row_groups=[piece.start], columns=columns):
                    for row in batch.to_pylist():
                        yield number, _plain(row)
                        number += 1
            except (arrow.ArrowInvalid, OSError) as error:
                raise InputError(f"{piece.file.path}, row group {piece.start} (from row {number}): {error}") from None


def _plain(value: Any) -> Any:
    """Returns a value of Arrow as JSON would have it."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, _AS_TEXT):
        return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
    return value
