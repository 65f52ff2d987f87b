"""Nulls of Parquet columns that no feature stores: lists that are null, and nulls inside lists.

The statistics of a file do not distinguish a null inside a list from an empty list, so the first rows are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from beam_datasets.files.convert import missing_problem
from beam_datasets.files.fields import Field
from beam_datasets.intake.parquet import ParquetContent

if TYPE_CHECKING:
    import pyarrow


MAX_BYTES = 64 << 20  # of the rows that are read from a file


def with_nulls_reported(
    fields: Mapping[str, Field], content: ParquetContent, nulls: Collection[str], num_rows: int
) -> dict[str, Field]:
    """Returns the fields, with a `problem` set where the first rows of a file have nulls that cannot be stored.

    Args:
        fields: fields of the columns; existing problems are kept.
        content: the file.
        nulls: the paths of values that may be null in the file; see `arrow_types.leaf_paths`.
        num_rows: number of rows to look at.

    Raises:
        InputError: a row group is damaged.
    """
    result = dict(fields)
    names = [name for name in content.schema.names if name in fields and may_have_nulls(fields[name], name, nulls)]
    for name, path, row in _first_nulls(content, names, fields, num_rows):
        result[name] = _with_problem(result[name], name, path, f"first in {content.path}, row {row}")
    return result


def may_have_nulls(field: Field, path: str, nulls: Collection[str]) -> bool:
    """Returns whether values at a path may be nulls that cannot be stored, by the statistics of a file."""
    if field.kind in ("image", "audio"):
        return f"{path}/bytes" in nulls
    if field.fields is not None:
        return any(may_have_nulls(each, f"{path}/{name}", nulls) for name, each in field.fields.items())
    if field.item is None:
        return "[]" in path and path in nulls
    is_nested = field.item.item is not None or field.item.fields is not None or field.item.kind in ("image", "audio")
    if is_nested:
        return may_have_nulls(field.item, f"{path}[]", nulls)
    return any(each.startswith(f"{path}[]") for each in nulls)


def _first_nulls(
    content: ParquetContent, names: Sequence[str], fields: Mapping[str, Field], num_rows: int
) -> Iterator[tuple[str, str, int]]:
    """Yields (name of the column, path, row) of the first null of each path that cannot be stored.

    Args:
        content: the file.
        names: names of the columns to look at.
        fields: fields of the columns.
        num_rows: number of rows to look at.
    """
    visited_paths: set[str] = set()
    start = num_bytes = 0
    for group in range(len(content.groups)) if names else ():
        for batch in content.batches(group, names):
            batch = batch.slice(0, num_rows - start)
            for name in names:
                column, field = batch.column(name), fields[name]
                for path in set(_null_paths(column, field, name)) - visited_paths:
                    rows = (i for i in range(len(column)) if path in _null_paths(column.slice(i, 1), field, name))
                    visited_paths.add(path)
                    yield name, path, start + next(rows)
            start, num_bytes = start + batch.num_rows, num_bytes + batch.nbytes
            if start >= num_rows or num_bytes >= MAX_BYTES:
                return


def _null_paths(values: pyarrow.Array, field: Field, path: str) -> Iterator[str]:
    """Yields the paths of the nulls among Arrow values that cannot be stored; a path may occur several times.

    Args:
        values: an Arrow array.
        field: field of the values.
        path: path of the field; `a[]` is an item of list a.
    """
    values = _plain(values)
    if values.null_count:
        if not field.optional or field.kind in ("image", "audio"):
            yield path
        elif field.fields is not None:
            yield from _paths_without(field, path)
        values = values.drop_null()
    for name, inner in (field.fields or {}).items():
        yield from _null_paths(values.field(name), inner, f"{path}/{name}")
    if field.item is not None:
        item = field.item if len(field.shape) < 2 else replace(field, shape=field.shape[1:], optional=False)
        yield from _null_paths(_inner_array(values), item, f"{path}[]")


def _paths_without(field: Field, path: str) -> Iterator[str]:
    """Yields the paths of the values that cannot be missing in an object that is null."""
    for name, inner in (field.fields or {}).items():
        inner_path = f"{path}/{name}"
        if inner.fields is not None and inner.optional:
            yield from _paths_without(inner, inner_path)
        elif inner.item is None and (not inner.optional or inner.kind in ("image", "audio")):
            yield inner_path


def _plain(values: pyarrow.Array) -> pyarrow.Array:
    """Returns an Arrow array without its encoding or extension type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    while isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return pc.run_end_decode(values) if pa.types.is_run_end_encoded(values.type) else values


def _inner_array(values: pyarrow.Array) -> pyarrow.Array:
    """Returns the Arrow array of the items of lists, or of the entries of maps as structs; none of them is null."""
    import pyarrow as pa

    if pa.types.is_map(values.type):
        start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
        entries = [entries_part.slice(start, stop - start) for entries_part in (values.keys, values.items)]
        return pa.StructArray.from_arrays(entries, ["key", "value"])
    return values.flatten() if pa.types.is_nested(values.type) else values


def _with_problem(field: Field, path: str, null_path: str, location: str) -> Field:
    """Returns a field with the problem of nulls.

    Args:
        field: the field at `path`.
        path: path of the field.
        null_path: path of the nulls, which is that of the field or of a field inside it.
        location: the place of the first null, for the message.
    """
    if path == null_path:
        return (
            field if field.problem else replace(field, problem=f"{path!r} ({location}): {missing_problem(field, path)}")
        )
    if field.item is not None:
        item = field.item if len(field.shape) < 2 else replace(field, shape=field.shape[1:], optional=False)
        changed = _with_problem(item, f"{path}[]", null_path, location)
        return replace(field, problem=changed.problem) if item is not field.item else replace(field, item=changed)
    inner = {
        name: _with_problem(each, f"{path}/{name}", null_path, location)
        if f"{null_path}/".startswith((f"{path}/{name}/", f"{path}/{name}[]"))
        else each
        for name, each in (field.fields or {}).items()
    }
    return replace(field, fields=inner)
