"""Python values of Arrow arrays, exact and the same whether or not pandas is installed.

numbers, bool, text, bytes, decimals     Python's own
dates, times, timestamps, durations      see `arrow_times`
lists, structs                           lists, dicts
maps                                     lists of {"key": ..., "value": ...}; of (key, value) in a column of text
UUID and JSON                            text
tensors                                  nested lists; flat ones in a column of text
files of Hugging Face                    dicts, which images are made of; bytes in a column of text
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.files.arrow_times import values_of_exact_times, values_of_times, with_nulls
from beam_datasets.files.arrow_types import FILE, is_file, is_list, tensor_shape
from beam_datasets.files.fields import Field, advice, feature_name
from beam_datasets.intake.int96 import EXACT_TIME

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Place:
    """The position of values in the schema, and the form that they are converted to.

    Attributes:
        path: path of their field, in the notation of `fields.advice`.
        field: their field; None for a column without one, such as a column of keys alone.
        is_json: whether they become part of a JSON text.
        typed_paths: paths of the fields whose types the user has given.
    """

    path: str
    field: Field | None = None
    is_json: bool = False
    typed_paths: Collection[str] = ()

    @property
    def is_scalar(self) -> bool:
        """Whether the field has one value, such as a text, into which a list is converted."""
        return self.field is not None and self.field.item is None and self.field.fields is None

    @property
    def is_typed(self) -> bool:
        """Whether the user has chosen the type of these values, or of a field that contains them."""
        steps = feature_name(self.path).split("/")
        return any("/".join(steps[: i + 1]) in self.typed_paths for i in range(len(steps)))

    @property
    def way_of_times(self) -> str:
        """The option that makes text of times that Python does not have; '' if they become text."""
        if self.is_json or self.is_typed:
            return ""
        return advice(self.path, "string" + "?" * (self.field is not None and self.field.optional))

    def item(self) -> Place:
        """Returns the place of the items of lists."""
        return Place(f"{self.path}[]", self.field and self.field.item, self.is_json or self.is_scalar, self.typed_paths)

    def member(self, name: str) -> Place:
        """Returns the place of the values of a field of structs."""
        field = self.field.fields.get(name) if self.field and self.field.fields else None
        return Place(f"{self.path}/{name}", field, self.is_json or self.is_scalar, self.typed_paths)


def has_plain_values(kind: pyarrow.DataType) -> bool:
    """Returns whether `python_values` of an Arrow type equals `to_pylist` of pyarrow for any field of the column."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        # a struct of these fields may be a file, or have one name twice
        is_usual = len({"bytes", "path", *(field.name for field in fields)}) == len(fields) + 2
        return is_usual and all(has_plain_values(field.type) for field in fields)
    if is_list(kind) or types.is_fixed_size_list(kind) or types.is_dictionary(kind):
        return has_plain_values(kind.value_type)
    is_other = types.is_nested(kind) or types.is_temporal(kind) or types.is_run_end_encoded(kind)
    return not (is_other or isinstance(kind, pa.BaseExtensionType))


def python_values(array: pyarrow.Array, location: Place) -> list[Any]:
    """Returns the values of an Arrow array as Python objects, with None for null.

    Structs are dicts, lists and tensors lists, maps lists of {"key": ..., "value": ...}, and times as in
    `arrow_times.values_of_times`.

    Args:
        array: the Arrow array.
        location: path and field of the values, which decide about files, times and maps.

    Raises:
        ValueError: a value has no Python object: a text that is not UTF-8, or a date out of range.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if has_plain_values(kind):
        with suppress(UnicodeDecodeError):  # to tell below which bytes are not UTF-8
            values: list[Any] = array.to_pylist()
            return values
    if isinstance(kind, pa.BaseExtensionType):
        return _convert_extension(array, location)
    if types.is_dictionary(kind):
        return python_values(array.dictionary_decode(), location)
    if types.is_run_end_encoded(kind):
        return python_values(pc.run_end_decode(array), location)
    if types.is_struct(kind):
        return _convert_structs(array, location)
    if types.is_map(kind):
        return _convert_maps(array, location)
    if types.is_nested(kind) and not types.is_union(kind):
        return _convert_lists(array, location)
    if types.is_temporal(kind):
        return values_of_times(array, location.way_of_times)
    return _convert_scalars(array)


def items_of(array: pyarrow.Array) -> pyarrow.Array:
    """Returns the Arrow array of the innermost values of lists; entries of maps are structs.

    Extension types are replaced by their storage. An array of structs is returned as it is.
    """
    import pyarrow as pa

    types = pa.types
    while not types.is_struct(array.type):
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif types.is_map(array.type):
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            parts = [entries.slice(start, stop - start) for entries in (array.keys, array.items)]
            array = pa.StructArray.from_arrays(parts, ["key", "value"])
        elif types.is_nested(array.type):
            array = array.flatten()
        else:
            break
    return array


def _convert_scalars(array: pyarrow.Array) -> list[Any]:
    """Returns `array.to_pylist()`, with an error that names the bytes that are not UTF-8.

    Raises:
        ValueError: a text is not UTF-8.
    """
    try:
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError:
        _check_utf8(array)
        raise
    return values


def _check_utf8(array: pyarrow.Array) -> None:
    """Raises ValueError if a text is not UTF-8."""
    import pyarrow as pa

    types, kind = pa.types, array.type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        return
    for value in array.cast(pa.binary_view() if types.is_string_view(kind) else pa.large_binary()).to_pylist():
        try:
            (value or b"").decode()
        except UnicodeDecodeError as error:
            byte = f"byte {value[error.start]:#04x} at offset {error.start} of {value!r:.60}"
            raise ValueError(f"expected UTF-8, got {byte} ({error.reason})") from None


def _convert_structs(array: pyarrow.Array, location: Place) -> list[Any]:
    """Returns the structs of an Arrow array as dicts; those of files as their bytes if the field is text.

    Args:
        array: a `pyarrow.StructArray`.
        location: path and field of the structs.

    Raises:
        ValueError: a value of a field cannot be read, or a file has a path but no content.
    """
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    columns = [python_values(column, location.member(name)) for name, column in zip(names, array.flatten())]
    values: list[Any] = [dict(zip(names, row)) for row in zip(*columns)] if columns else [{} for _ in range(len(array))]
    field = location.field
    if field is not None and field.kind == "string" and (field.source == FILE or is_file(array.type)):
        values = [_content(value) for value in values]
    return with_nulls(values, array)


def _content(file: dict[str, Any]) -> bytes | None:
    """Returns the bytes of a file of Hugging Face, {'bytes': ..., 'path': ...}; None if both are None.

    Raises:
        ValueError: only the path is given.
    """
    if file["bytes"] is None and file["path"] is not None:
        raise ValueError(f"the content of {file['path']!r} is not in the Parquet file, but only its path")
    content: bytes | None = file["bytes"]
    return content


def _convert_lists(array: pyarrow.Array, location: Place) -> list[Any]:
    """Returns the lists of an Arrow array of any list type; converts the items of all lists in one call.

    Args:
        array: a `pyarrow.ListArray`, or one of a similar type.
        location: path and field of the lists.
    """
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        starts = [*range(array.offset * size, (array.offset + len(array)) * size, size)] if size else [0] * len(array)
        stops = [start + size for start in starts]
    elif types.is_list(kind) or types.is_large_list(kind):
        offsets = array.offsets.to_pylist()
        starts, stops = offsets[:-1], offsets[1:]
    else:  # list_view
        starts = array.offsets.to_pylist()
        stops = [start + size for start, size in zip(starts, array.sizes.to_pylist())]
    return with_nulls([*_slice_lists(array.values, starts, stops, location.item())], array)


def _slice_lists(values: Any, starts: list[int], stops: list[int], location: Place) -> Iterator[list[Any]]:
    """Yields the list of values [start, stop) for each list; all values are converted in one call.

    Args:
        values: Arrow array of the values of all lists.
        starts: the index of the first value of each list.
        stops: the index after the last value of each list.
        location: the place of the items.
    """
    first, last = min(starts, default=0), max(stops, default=0)
    items = python_values(values.slice(first, last - first), location)
    return (items[start - first : stop - first] for start, stop in zip(starts, stops))


def _convert_maps(array: pyarrow.Array, location: Place) -> list[Any]:
    """Returns the maps of an Arrow array as lists of {"key": ..., "value": ...}, or of (key, value) inside JSON text.

    Args:
        array: a `pyarrow.MapArray`.
        location: path and field of the maps.
    """
    offsets = array.offsets.to_pylist()
    starts, stops = offsets[:-1], offsets[1:]
    entry = location.item()
    pairs = zip(
        _slice_lists(array.keys, starts, stops, entry.member("key")),
        _slice_lists(array.items, starts, stops, entry.member("value")),
    )
    if entry.is_json:
        return with_nulls([[*zip(keys, values)] for keys, values in pairs], array)
    return with_nulls([[{"key": k, "value": v} for k, v in zip(keys, values)] for keys, values in pairs], array)


def _convert_extension(array: pyarrow.Array, location: Place) -> list[Any]:
    """Returns the values of an Arrow extension array; for an unknown type, the values of its storage."""
    import pyarrow.compute as pc

    name, storage = array.type.extension_name, array.storage
    if name == EXACT_TIME:
        return values_of_exact_times(array, location.way_of_times)
    if name == "arrow.uuid":
        return [value and str(uuid.UUID(bytes=value)) for value in python_values(storage, location)]
    if name == "arrow.bool8":
        return python_values(pc.not_equal(storage, 0), location)
    if name == "arrow.fixed_shape_tensor" and not (location.is_json or location.is_scalar):
        shape, order = tensor_shape(array.type)
        return [
            None if value is None else np.array(value, object).reshape(shape).transpose(order).tolist()
            for value in python_values(storage, location)
        ]
    return python_values(storage, location)
