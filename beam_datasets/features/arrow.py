"""Mapping of features to Arrow: the types of columns, and arrays of their values.

The schema follows from the features, not from the values:

    numbers, bool      the same types
    ClassLabel         int64, or string for the names
    Text               string (UTF-8)
    images, sound      struct<bytes: binary, path: string>, with the bytes of the stored file
    arrays             lists, of a fixed size if the shape is fixed
    sequences          lists; of dicts: lists of structs
    dicts              structs

Functions take the module pyarrow as `pa`, because it is imported on demand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import join
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.schema import Column, Items, Struct, Values, decode_text, is_number, split_items

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow
    from numpy.typing import NDArray


_MAX_STRING_BYTES = (1 << 31) - 1  # bytes of an array with offsets of 32 bits


def arrow_schema(pa: ModuleType, schema: Struct) -> pyarrow.Schema:
    """Returns the Arrow schema of a table; its metadata contain the features for Hugging Face's datasets.

    Args:
        pa: the module pyarrow.
        schema: the columns of the table.
    """
    fields = [pa.field(name, arrow_type(pa, column)) for name, column in schema.fields.items()]
    features = {name: _describe_for_hugging_face(column) for name, column in schema.fields.items()}
    return pa.schema(fields, {"huggingface": json.dumps({"info": {"features": features}})})


def arrow_type(pa: ModuleType, column: Column) -> pyarrow.DataType:
    """Returns the Arrow type of a column; `pa` is the module pyarrow."""
    if isinstance(column, Struct):
        return pa.struct([(name, arrow_type(pa, field)) for name, field in column.fields.items()])
    if isinstance(column, Items):
        return pa.list_(arrow_type(pa, column.item))
    if column.is_file:
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    strings = {"text": pa.string(), "name": pa.string(), "binary": pa.binary()}
    kind = pa.from_numpy_dtype(_numpy_dtype(column.dtype)) if column.is_numeric else strings[column.kind]
    for length in reversed(_list_lengths(column)):
        kind = pa.list_(kind, length) if length else pa.list_(kind)
    return kind


def _list_lengths(column: Values) -> tuple[int | None, ...]:
    """Returns the lengths of the nested Arrow lists of a column of arrays, outer ones first; None for any length.

    The first length of an optional column is None: pyarrow cannot read a missing list of a fixed size from Parquet.
    """
    return (None, *column.shape[1:]) if column.optional and column.shape else column.shape


def _numpy_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of the Arrow column for a dtype: float32 for bfloat16, the same for NumPy's own dtypes."""
    return np.dtype(np.float32) if dtype.kind == "V" else dtype


def _describe_for_hugging_face(column: Column) -> Any:
    """Returns the JSON value that describes a column in the metadata of Hugging Face's datasets."""
    if isinstance(column, Struct):
        return {name: _describe_for_hugging_face(field) for name, field in column.fields.items()}
    if isinstance(column, Items):
        return [_describe_for_hugging_face(column.item)]
    if column.is_file:
        return {"_type": column.kind.capitalize()}
    if column.kind == "label" and column.names:
        return {"names": list(column.names), "_type": "ClassLabel"}
    name = _numpy_dtype(column.dtype).name if column.is_numeric else "binary" if column.kind == "binary" else "string"
    feature: Any = {"dtype": name, "_type": "Value"}
    for length in reversed(_list_lengths(column)):
        feature = {"feature": feature, "length": length, "_type": "Sequence"} if length else [feature]
    return feature


def arrow_array(pa: ModuleType, column: Column, values: Any, name: str = "") -> pyarrow.Array:
    """Returns the Arrow array of the type `arrow_type(pa, column)` with one element for each example.

    Args:
        pa: the module pyarrow.
        column: the column of the schema: `Values`, `Struct` or `Items`.
        values: the decoded values of n examples: an array of shape (n, ...), a RaggedArray of n rows, or a list of n
            values, None for missing ones. For a `Struct`, a dict from the name of a field to its n values; for `Items`
            of a `Struct`, a dict from the name of a field to n sequences.
        name: name of the column, for errors.

    Raises:
        FeatureValueError: a text is not UTF-8, or the features of an item have different numbers of items.
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
        if not all(child.offsets.equals(offsets) for child in parts):
            raise FeatureValueError("the features of an item have different numbers of items", feature=name)
        items = pa.StructArray.from_arrays([child.values for child in parts], list(fields))
        return pa.ListArray.from_arrays(offsets, items)
    rows = _join_rows(values) if isinstance(column, Items) else None
    if isinstance(column, Items) and rows is not None:
        offsets = pa.array(np.cumsum([0, *rows.row_lengths[0].tolist()]), pa.int32())
        return pa.ListArray.from_arrays(offsets, arrow_array(pa, column.item, rows.flat_values, name))
    if isinstance(column, Values) and column.is_file:
        files = pa.array(list(values), pa.binary())
        paths = pa.nulls(len(files), pa.string())
        return pa.StructArray.from_arrays([files, paths], ["bytes", "path"], mask=files.is_null())
    if _is_plain_numbers(column, values):
        return pa.array(values)  # of the column's type; without a copy
    kind = arrow_type(pa, column)
    if not isinstance(values, np.ndarray) or values.dtype == STRING or 0 in values.shape[1:]:
        items = list(values) if _is_arrow_ready(column) else [_to_arrow_value(column, value, name) for value in values]
        try:
            return _build_string_array(pa, items, kind) if set(map(type, items)) == {bytes} else pa.array(items, kind)
        except pa.ArrowInvalid:
            for value in values:
                _check_text(column, value, name)  # raises the error that names the feature
            raise
    flat = _as_numpy_dtype(values).reshape(-1)
    array = pa.array(flat)
    if isinstance(column, Values) and column.kind == "name":
        array = pa.array(column.names, pa.string()).take(pa.array(flat, mask=flat < 0))
    for length in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, length)
    return array.cast(kind)


def _is_plain_numbers(column: Column, values: Any) -> bool:
    """Returns whether values are an array of one number for each example, of the dtype of their Arrow column."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not is_number(column):
        return False
    return isinstance(column, Values) and values.dtype == column.dtype and column.dtype.kind != "V"


def _build_string_array(pa: ModuleType, values: list[bytes], kind: pyarrow.DataType) -> pyarrow.Array:
    """Returns the Arrow array of strings, with one copy of the bytes; `pa.array` would grow its memory repeatedly.

    Args:
        pa: the module pyarrow.
        values: the strings.
        kind: the Arrow type, string or binary.

    Raises:
        ArrowInvalid: a text is not UTF-8.
    """
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    if ends[-1] > _MAX_STRING_BYTES:
        return pa.array(values, kind)  # this makes several arrays
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    array = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])
    array.validate(full=True)
    return array


def _is_arrow_ready(column: Column) -> bool:
    """Returns whether `pa.array` accepts the values of a column unchanged: numbers of NumPy's dtypes, and bytes."""
    if not isinstance(column, Values) or column.shape:
        return False
    return column.kind in ("text", "binary") or (column.is_numeric and column.dtype.kind != "V")


def _join_rows(values: Any) -> RaggedArray | None:
    """Returns the rows of a sequence as a RaggedArray of one level; None if their items have different shapes.

    Args:
        values: a RaggedArray, an array of rows, or a list of them.
    """
    if isinstance(values, RaggedArray):
        return values if len(values.row_lengths) == 1 else None
    shapes = {value.shape[1:] if isinstance(value, np.ndarray) else None for value in values}
    if len(shapes) != 1 or None in shapes:
        return None
    return RaggedArray(np.concatenate(values), (np.fromiter(map(len, values), np.int64, len(values)),))


def _to_arrow_value(column: Column, value: Any, name: str) -> Any:
    """Returns a value in a form that `pa.array` accepts: dicts, lists, and arrays of one dimension.

    Args:
        column: the column of the value.
        value: a decoded value; None if it is missing.
        name: the name of the feature, for errors.
    """
    if value is None:
        return None
    if isinstance(column, Struct):
        return {key: _to_arrow_value(field, value[key], join(name, key)) for key, field in column.fields.items()}
    if isinstance(column, Items):
        if is_number(column.item):
            return _as_numpy_dtype(np.asarray(value))
        return [_to_arrow_value(column.item, item, name) for item in split_items(value, name)]
    if column.is_file:
        return {"bytes": value, "path": None}
    if column.kind == "name":
        return None if value < 0 else column.names[value]
    return _to_nested_lists(_as_numpy_dtype(np.asarray(value))) if column.is_numeric or column.shape else value


def _check_text(column: Column, value: Any, name: str) -> None:
    """Checks that all texts in a value are UTF-8.

    Args:
        column: the column of the value.
        value: a decoded value; None if it is missing.
        name: the name of the feature.

    Raises:
        FeatureValueError: a text is not UTF-8; the message begins with the name.
    """
    if value is None:
        return
    if isinstance(column, Struct):
        for key, field in column.fields.items():
            _check_text(field, value[key], join(name, key))
    elif isinstance(column, Items):
        for item in split_items(value, name):
            _check_text(column.item, item, name)
    elif column.kind == "text":
        for text in [value] if isinstance(value, bytes) else np.ravel(value):
            decode_text(text, name)


def _to_nested_lists(array: NDArray[Any]) -> Any:
    """Returns an array as nested lists of arrays of one dimension; a scalar for an array of shape ()."""
    return list(map(_to_nested_lists, array)) if array.ndim > 1 else array[()]


def _as_numpy_dtype(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array with one of NumPy's own dtypes: bfloat16 is converted to float32."""
    return array.astype(_numpy_dtype(array.dtype), copy=False)
