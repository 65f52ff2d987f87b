"""Mapping of Arrow types to fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets.files.fields import SCALARS, UNKNOWN, Field, advice, feature_name
from beam_datasets.files.infer import MAX_DEPTH

if TYPE_CHECKING:
    import pyarrow


FILE = "file"  # the source of a text that is the content of a file; see `is_file`
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}
_TEXT = re.compile(r"(large_)?(string|binary)(_view)?|fixed_size_binary\[\d+\]")


def arrow_field(kind: pyarrow.DataType, path: str, nulls: Collection[str] = ()) -> Field:
    """Returns the field for the Arrow type of a column; UNKNOWN, or with such a field inside, if no feature stores it.

    Args:
        kind: the type.
        path: the column's name; `a/x` is x in struct a, `a[]` an item of list a.
        nulls: the paths of values that may be null; see `leaf_paths`.
    """
    return _Column(path, frozenset(nulls)).field(kind, path)


def is_file(kind: pyarrow.DataType) -> bool:
    """Returns whether a type is that of images and sounds in datasets of Hugging Face, if need be without paths."""
    import pyarrow as pa

    names = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)} if pa.types.is_struct(kind) else {}
    return names in ({"bytes": pa.binary(), "path": path} for path in (pa.string(), pa.null()))


def is_list(kind: pyarrow.DataType) -> bool:
    """Returns whether a type is of lists that may differ in length, unlike `FixedSizeList`."""
    import pyarrow as pa

    types = pa.types
    return any(
        test(kind) for test in (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view)
    )


def tensor_shape(kind: pyarrow.DataType) -> tuple[list[int], list[int]]:
    """Returns (shape of the stored values of a tensor type, order in which its dimensions are read).

    ([2, 3], [1, 0]) means that values are stored as arrays of shape (2, 3), and read transposed.
    """
    return kind.shape, kind.permutation or [*range(len(kind.shape))]


def leaf_paths(schema: pyarrow.Schema) -> list[tuple[str, Any]]:
    """Returns (path, Arrow type) of all columns of values of an Arrow schema, in the order of Parquet's columns.

    For a struct a with a list b of int8 it is [('a/b[]', int8)]; a map m has 'm[]/key' and 'm[]/value'.
    """
    import pyarrow as pa

    leaves = []
    pending = [(field.name, field.type) for field in reversed(list(schema))]
    while pending:
        path, kind = pending.pop()
        if isinstance(kind, pa.BaseExtensionType):
            pending.append((path, kind.storage_type))
        elif pa.types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            pending += [(f"{path}/{field.name}", field.type) for field in reversed(fields)]
        elif pa.types.is_map(kind):
            pending += [(f"{path}[]/value", kind.item_type), (f"{path}[]/key", kind.key_type)]
        elif pa.types.is_nested(kind):
            pending.append((f"{path}[]", kind.field(0).type))
        else:
            leaves.append((path, kind))
    return leaves


@dataclass(frozen=True)
class _Column:
    """A column whose field is made.

    Attributes:
        name: name of the column.
        nulls: the paths of values that may be null.
    """

    name: str
    nulls: frozenset[str]

    def field(self, kind: pyarrow.DataType, path: str, depth: int = 0) -> Field:
        """Returns the field of values.

        Args:
            kind: the Arrow type of the values.
            path: the path of the values; see `arrow_field`.
            depth: the number of lists and structs around them.
        """
        import pyarrow as pa

        types = pa.types
        if depth > MAX_DEPTH:
            way = advice(self.name, "string?")
            problem = f"column {self.name!r} is nested more than {MAX_DEPTH} deep; {way} makes JSON text of it, "
            return Field(UNKNOWN, problem=f"{problem}{advice(self.name, 'drop')} leaves it out")
        if isinstance(kind, pa.BaseExtensionType):
            return self._extension(kind, path, depth)
        if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
            return self.field(kind.value_type, path, depth)
        if types.is_struct(kind):
            return self._struct(kind, path, depth)
        if types.is_map(kind):
            entry = {name: self.field(each, f"{path}[]/{name}", depth + 2) for name, each in _entry_of(kind).items()}
            return Field("list", item=Field("object", fields=entry))
        if types.is_fixed_size_list(kind):
            if not kind.list_size:
                way = advice(self.name, "drop")  # of the whole column, as pyarrow cannot read it
                return Field(
                    UNKNOWN, problem=f"{path!r} has lists of 0 items, which pyarrow cannot read; {way} leaves it out"
                )
            return self._tensor(self.field(kind.value_type, f"{path}[]", depth + 1), (kind.list_size,))
        if is_list(kind):
            return Field("list", item=self.field(kind.value_type, f"{path}[]", depth + 1))
        return self._scalar_field(kind, path)

    def _scalar_field(self, kind: pyarrow.DataType, path: str) -> Field:
        """Returns the field of a type without inner values; dates, times, durations and decimals become text."""
        import pyarrow as pa

        optional = "[]" not in path and path in self.nulls
        if (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)) or pa.types.is_decimal(kind):
            return Field("string", optional=optional, source=str(kind))
        name = "string" if _TEXT.fullmatch(str(kind)) else _FLOATS.get(str(kind), str(kind))
        return Field(name, optional=optional) if name in SCALARS else self._unknown(kind, path)

    def _struct(self, kind: pyarrow.DataType, path: str, depth: int) -> Field:
        """Returns the field of a struct: an image if it is a file; UNKNOWN if two of its fields have the same name.

        Args:
            kind: the Arrow type of the struct.
            path: path of the values; see `arrow_field`.
            depth: number of lists and structs around them.
        """
        if is_file(kind):
            return Field("image")
        fields = [kind.field(i) for i in range(kind.num_fields)]
        twice = [repr(name) for name, count in Counter(field.name for field in fields).items() if count > 1]
        if twice:
            way = advice(feature_name(path), "drop")
            return Field(
                UNKNOWN, problem=f"column {path!r} has the fields {', '.join(twice)} twice; {way} leaves it out"
            )
        inner = {field.name: self.field(field.type, f"{path}/{field.name}", depth + 1) for field in fields}
        return Field("object", optional=not path.endswith("[]"), fields=inner)

    @staticmethod
    def _tensor(item: Field, shape: tuple[int, ...]) -> Field:
        """Returns the field of arrays of a shape, or of lists if their items are neither numbers nor texts."""
        if item.kind == "tensor":
            return replace(item, shape=(*shape, *item.shape))
        return Field("tensor", item=item, shape=shape) if item.kind in SCALARS else Field("list", item=item)

    def _extension(self, kind: pyarrow.DataType, path: str, depth: int) -> Field:
        """Returns the field of an Arrow extension type; for an unknown one, the field of its storage type.

        Args:
            kind: the Arrow extension type.
            path: path of the values; see `arrow_field`.
            depth: number of lists and structs around them.
        """
        name, stored = kind.extension_name, self.field(kind.storage_type, path, depth)
        if name in ("arrow.uuid", "arrow.json"):
            return replace(stored, source=name)
        if name == "arrow.bool8":
            return replace(stored, kind="bool")
        if name == "arrow.fixed_shape_tensor" and stored.item is not None and stored.kind == "tensor":
            shape, order = tensor_shape(kind)
            return replace(stored, shape=(*(shape[i] for i in order), *stored.shape[1:]))
        return stored

    def _unknown(self, kind: pyarrow.DataType, path: str) -> Field:
        """Returns the field UNKNOWN for an Arrow type that no feature stores; its problem names the options to use."""
        outer, is_inside, _ = path.partition("[]")
        optional = "?" * any(f"{each}/".startswith((f"{outer}/", f"{outer}[]")) for each in self.nulls)
        way = f"{advice(outer, 'string' + optional)} makes {'JSON ' if is_inside else ''}text of it"
        if str(kind) == "null" and not is_inside:
            way = f"{advice(path, 'string?')} or another type stores it"
        problem = f"column {path!r} has the type {kind}, which no feature stores; {way}, "
        problem += f"{advice(path.replace('[]', ''), 'drop')} leaves it out"
        return Field(UNKNOWN, problem=problem, source=str(kind))


def _entry_of(kind: pyarrow.DataType) -> dict[str, Any]:
    """Returns {'key': Arrow type, 'value': Arrow type} of the entries of a map type."""
    return {"key": kind.key_type, "value": kind.item_type}
