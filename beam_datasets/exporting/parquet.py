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
from collections.abc import Iterator
from typing import Any, ClassVar

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
)
from beam_datasets.exporting.writing import Block, Format, Output, json_converter
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import join

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
    return np.dtype(np.float32) if dtype.kind == "V" else dtype


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


def arrow_array(pa: Any, column: Column, values: Any, name: str = "") -> Any:
    """Returns the Arrow array of the values of the column `name`.

    Args:
        pa: the module pyarrow.
        column: what they are.
        values: a list of values, an array of them, or of dicts and sequences of dicts a dict of such.
        name: of the column, for errors.

    Raises:
        ArrowInvalid: a text is not UTF-8.
        FeatureValueError: the features of an item have different numbers of items.
    """
    if isinstance(values, dict):
        is_list = isinstance(column, Items)
        fields: Any = column.item.fields if isinstance(column, Items) else column.fields  # type: ignore[union-attr]
        parts = [
            arrow_array(pa, Items(field) if is_list else field, values[key], join(name, key))
            for key, field in fields.items()
        ]
        if not is_list:
            return pa.StructArray.from_arrays(parts, list(fields))
        offsets = parts[0].offsets
        if not all(part.offsets.equals(offsets) for part in parts):
            raise FeatureValueError(f"{name}: the features of an item have different numbers of items")
        items = pa.StructArray.from_arrays([part.values for part in parts], list(fields))
        return pa.ListArray.from_arrays(offsets, items)
    shapes = {value.shape[1:] if isinstance(value, np.ndarray) else None for value in values}
    if isinstance(column, Items) and len(shapes) == 1 and None not in shapes:
        offsets = pa.array(np.cumsum([0, *map(len, values)]), pa.int32())
        return pa.ListArray.from_arrays(offsets, arrow_array(pa, column.item, np.concatenate(values), name))
    kind = arrow_type(pa, column)
    if not isinstance(values, np.ndarray) or values.dtype == STRING or 0 in values.shape[1:]:
        return pa.array([_plain(column, value) for value in values], kind)
    found = pa.array(_known(values).reshape(-1))
    for length in reversed(values.shape[1:]):
        found = pa.FixedSizeListArray.from_arrays(found, length)
    return found.cast(kind)


def _plain(column: Column, value: Any) -> Any:
    """Returns a value as pyarrow takes it: dicts, lists, and arrays of one dimension."""
    if value is None or isinstance(column, (Text, Binary)):
        return value
    if isinstance(column, File):
        return {"bytes": value, "path": None}
    if isinstance(column, Struct):
        return {name: _plain(field, value[name]) for name, field in column.fields.items()}
    if isinstance(column, Items) and not isinstance(column.item, (Number, Label)):
        return [_plain(column.item, item) for item in items_of(value)]
    return _nested(_known(np.asarray(value)))


def _nested(array: Any) -> Any:
    return list(map(_nested, array)) if array.ndim > 1 else array[()]


def _known(array: Any) -> Any:
    """Returns an array of a dtype that NumPy itself has."""
    return array.astype(_known_dtype(array.dtype), copy=False)


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
        types = arrow_schema(arrow, schema)

        def batch(block: Block) -> Any:
            return arrow.RecordBatch.from_arrays(_to_arrow(arrow, schema, block).flatten(), schema=types)

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


def _to_arrow(pa: Any, schema: Struct, block: Block) -> Any:
    """Returns the Arrow array of a block; an error names the record."""
    columns = block.columns()
    try:
        return arrow_array(pa, schema, block.examples if columns is None else columns)
    except (FeatureError, pa.ArrowInvalid):
        convert = json_converter(schema)  # names the feature
        list(block.map(lambda example: (convert(example), arrow_array(pa, schema, [example]))))
        raise
