"""Parquet, with a schema that follows from the features, not from the values.

numbers, bool        the same types; ClassLabel int64
text                 string (UTF-8)
images, sound        struct<bytes: binary, path: string>, as Hugging Face's datasets have them; the bytes as stored
arrays               lists, of a fixed size where the shape is fixed
sequences            lists; of dicts: lists of structs
dicts                structs

The schema's metadata tell Hugging Face's datasets which columns are images, sound or class labels with their names.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.exporting.schema import (
    Array,
    Binary,
    Column,
    File,
    Items,
    Label,
    Number,
    Struct,
    Text,
    items_of,
    text_of,
)
from beam_datasets.exporting.writing import Format
from beam_datasets.features.features_dict import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from beam_datasets.exporting.writing import Block, Output

    Values: TypeAlias = Any  # a list of values, or an array with one dimension more; of structs also a dict of those
    Convert: TypeAlias = Callable[[Values], Any]  # to an Arrow array of as many

# Functions take the module pyarrow as `pa`, because it is imported on demand.


def arrow_schema(pa: Any, schema: Struct) -> Any:
    """Returns the schema of a table; its metadata say what Hugging Face's datasets make of the columns."""
    fields = [pa.field(name, arrow_type(pa, column)) for name, column in schema.fields.items()]
    features = {name: _hugging_face(pa, column) for name, column in schema.fields.items()}
    return pa.schema(fields, {"huggingface": json.dumps({"info": {"features": features}})})


def arrow_type(pa: Any, column: Column) -> Any:
    """Returns the Arrow type of a column."""
    if isinstance(column, Number):
        return pa.from_numpy_dtype(_known_dtype(column.dtype))
    if isinstance(column, Label):
        return pa.int64()
    if isinstance(column, Text):
        return pa.string()
    if isinstance(column, Binary):
        return pa.binary()
    if isinstance(column, File):
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if isinstance(column, Struct):
        return pa.struct([(name, arrow_type(pa, field)) for name, field in column.fields.items()])
    if isinstance(column, Items):
        return pa.list_(arrow_type(pa, column.item))
    kind = arrow_type(pa, column.item)
    for length in reversed(_lengths(column)):
        kind = pa.list_(kind, length) if length else pa.list_(kind)
    return kind


def _lengths(column: Array) -> tuple[int | None, ...]:
    """Returns a shape as lists have it: of lists of a fixed size Parquet has no missing one that pyarrow reads."""
    return (None, *column.shape[1:]) if column.optional else column.shape


def _known_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns a dtype, or float32 for one that NumPy itself does not have (bfloat16)."""
    return dtype if dtype.kind in "biuf" else np.dtype(np.float32)


def _hugging_face(pa: Any, column: Column) -> Any:
    """Returns what the metadata of Hugging Face's datasets call a column."""
    if isinstance(column, File):
        return {"_type": column.kind.capitalize()}
    if isinstance(column, Label) and column.names:
        return {"names": list(column.names), "_type": "ClassLabel"}
    if isinstance(column, Struct):
        return {name: _hugging_face(pa, field) for name, field in column.fields.items()}
    if isinstance(column, Items):
        return [_hugging_face(pa, column.item)]
    if isinstance(column, Array):
        made = _hugging_face(pa, column.item)
        for length in reversed(_lengths(column)):
            made = {"feature": made, "length": length, "_type": "Sequence"} if length else [made]
        return made
    name = str(arrow_type(pa, column))
    return {
        "dtype": {"halffloat": "float16", "float": "float32", "double": "float64"}.get(name, name),
        "_type": "Value",
    }


def arrow_converter(pa: Any, column: Column, name: str = "") -> Convert:
    """Returns the function from a column's values to an Arrow array; the errors that it raises name the column."""
    if isinstance(column, Struct):
        return _struct(pa, column, name)
    if isinstance(column, Items):
        return _items(pa, column, name)
    if isinstance(column, Array):
        return _with_missing(pa, _arrays(pa, column, name))
    if isinstance(column, File):
        return _files(pa)
    if isinstance(column, Text):
        return _texts(pa, name)
    if isinstance(column, Binary):
        return lambda values: pa.array(list(values), pa.binary())
    return _numbers(pa, column)


def _numbers(pa: Any, column: Number | Label) -> Convert:
    dtype = np.dtype(np.int64) if isinstance(column, Label) else _known_dtype(column.dtype)
    kind = pa.from_numpy_dtype(dtype)

    def convert(values: Values) -> Any:
        if isinstance(values, np.ndarray) or None not in values:
            return pa.array(np.asarray(values, dtype), kind)
        return pa.array([None if value is None else dtype.type(value) for value in values], kind)

    return convert


def _texts(pa: Any, name: str) -> Convert:
    def convert(values: Values) -> Any:
        try:
            return pa.array(list(values), pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([None if value is None else text_of(value, name) for value in values], pa.string())

    return convert


def _files(pa: Any) -> Convert:
    def convert(values: Values) -> Any:
        paths = pa.nulls(len(values), pa.string())
        return pa.StructArray.from_arrays([pa.array(list(values), pa.binary()), paths], ["bytes", "path"])

    return convert


def _struct(pa: Any, column: Struct, name: str) -> Convert:
    fields = [(key, arrow_converter(pa, field, join(name, key))) for key, field in column.fields.items()]
    names = list(column.fields)

    def convert(values: Values) -> Any:
        columns = values if isinstance(values, dict) else {key: [value[key] for value in values] for key in names}
        return pa.StructArray.from_arrays([make(columns[key]) for key, make in fields], names)

    return convert


def _items(pa: Any, column: Items, name: str) -> Convert:
    convert_item = arrow_converter(pa, column.item, name)

    def convert(values: Values) -> Any:
        if isinstance(values, dict):
            return _lists(pa, _counts(values, name), convert_item(_joined_fields(values)))
        rows = [items_of(value) for value in values]
        return _lists(pa, [len(row) for row in rows], convert_item(_joined(rows)))

    return convert


def _counts(columns: Any, name: str) -> list[int]:
    """Returns the number of items in each row of a sequence of dicts, given as a dict of columns of sequences."""
    if not isinstance(columns, dict):
        return list(map(len, columns))
    counts = [_counts(column, name) for column in columns.values()]
    if any(other != counts[0] for other in counts):
        raise FeatureValueError(f"{name}: the features of an item have different numbers of items")
    return counts[0]


def _joined_fields(columns: Any) -> Values:
    """Returns the items of all rows of such a dict, as a dict of columns."""
    if isinstance(columns, dict):
        return {key: _joined_fields(column) for key, column in columns.items()}
    return _joined(list(columns))


def _joined(rows: list[Any]) -> Values:
    """Returns the items of all rows: in one array where they are arrays of items of one shape."""
    if rows and all(isinstance(row, np.ndarray) for row in rows) and len({row.shape[1:] for row in rows}) == 1:
        return np.concatenate(rows)
    return list(chain.from_iterable(rows))


def _lists(pa: Any, counts: Sequence[int], items: Any, length: int | None = None) -> Any:
    """Returns lists of consecutive items; of a fixed size where they are all of a length (but 0)."""
    if length:
        return pa.FixedSizeListArray.from_arrays(items, length)
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def _arrays(pa: Any, column: Array, name: str) -> Convert:
    convert_item = arrow_converter(pa, column.item, name)

    def nest(arrays: Values, shape: tuple[int | None, ...]) -> Any:
        """Returns the Arrow array of arrays of a shape."""
        if not shape:
            return convert_item(arrays)
        length, rest = shape[0], shape[1:]
        counts = [len(array) for array in arrays]
        joined = _joined(list(arrays))
        if isinstance(joined, np.ndarray) and rest and all(rest):
            items = convert_item(joined.reshape(-1))
            for size in reversed(rest):
                items = _lists(pa, (), items, size)
        else:
            items = nest(joined, rest)
        return _lists(pa, counts, items, length)

    return lambda arrays: nest(arrays, _lengths(column))


def _with_missing(pa: Any, convert: Convert) -> Convert:
    """Returns the function that also takes None."""

    def convert_all(values: Values) -> Any:
        if isinstance(values, np.ndarray) or all(value is not None for value in values):
            return convert(values)
        there = [value is not None for value in values]
        places = np.cumsum(there) - 1
        found = convert([value for value in values if value is not None])
        return found.take(pa.array(places, pa.int64(), mask=~np.array(there)))

    return convert_all


ROW_GROUP_BYTES = 32 << 20  # of Arrow's memory, about; a writer holds one row group


class Parquet(Format):
    """Writes Parquet files."""

    name: ClassVar[str] = "parquet"
    module: ClassVar[str] = "pyarrow"

    def check(self, schema: Struct) -> None:
        """Checks that there is an Arrow type for each feature; see `Format.check`."""
        arrow_schema(self.package(), schema)

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard; see `Format.write`."""
        arrow, parquet = self.package(), self.package("pyarrow.parquet")
        convert, types = arrow_converter(arrow, schema), arrow_schema(arrow, schema)

        def batch(block: Block) -> Any:
            return arrow.RecordBatch.from_arrays(_convert(convert, block).flatten(), schema=types)

        with parquet.ParquetWriter(arrow.PythonFile(out, "w"), types) as writer:
            for batches in _row_groups(map(batch, blocks)):
                table = arrow.Table.from_batches(batches, types)
                writer.write_table(table, row_group_size=table.num_rows)


def _row_groups(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """Yields the batches of each row group."""
    pending: list[Any] = []
    num_bytes = 0
    for batch in batches:
        pending.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= ROW_GROUP_BYTES:
            yield pending
            pending, num_bytes = [], 0
    if pending:
        yield pending


def _convert(convert: Any, block: Block) -> Any:
    """Returns the Arrow array of a block; an error names the record."""
    columns = block.columns()
    try:
        return convert(block.examples if columns is None else columns)
    except FeatureError:
        list(block.map(lambda example: convert([example])))
        raise
