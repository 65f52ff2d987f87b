"""Arrow extension types in the schemas of Parquet files: variants, and types that are not decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from beam_datasets.files.fields import Field, advice

if TYPE_CHECKING:
    import pyarrow

_DECODED = frozenset({"arrow.uuid", "arrow.json", "arrow.bool8", "arrow.fixed_shape_tensor"})
_HUGGING_FACE = "datasets.features."  # arrays, whose nested lists are the values
_VARIANT = "arrow.parquet.variant"
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_NAME, _METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_MAX_PARAMETERS = 60  # characters of a note


def unknown_extensions(column: pyarrow.Field) -> tuple[tuple[str, str], ...]:
    """Returns (path, "name as storage type") of the values of extension types in a column that are not decoded.

    Paths are those of `arrow_types.arrow_field`.
    """
    extensions: list[tuple[str, str]] = []
    for path, name, parameters, kind in _extensions(column):
        if name not in _DECODED and not name.startswith(_HUGGING_FACE):
            text = parameters.decode("utf-8", "replace")
            shown = f" {text}" if text.isprintable() and 2 < len(text) <= _MAX_PARAMETERS else ""  # "{}" has none
            extensions.append((path, f"{name}{shown} as {kind}"))
    return tuple(extensions)


def variant_columns(schema: pyarrow.Schema) -> frozenset[str]:
    """Returns the names of the columns with variants that only an extension type or Spark's own schema declares.

    Spark 4.0 writes variants as structs without Parquet's logical type. A column that became text keeps its schema.
    """
    import pyarrow as pa

    names = {column.name for column in schema if any(name == _VARIANT for _, name, *_ in _extensions(column))}
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        for field in json.loads((schema.metadata or {})[_SPARK_SCHEMA])["fields"]:
            if _has_variant(field["type"]):
                names.add(field["name"])
    return frozenset(name for name in names.intersection(schema.names) if pa.types.is_nested(schema.field(name).type))


def note_on_extensions(path: str, fields: Mapping[str, Field]) -> str:
    """Returns a note on the columns of extension types that are not decoded; '' if there are none.

    Args:
        path: the file, for the note.
        fields: fields of the columns.
    """
    texts = {inner: text for field in fields.values() for inner, text in field.extensions}
    if not texts:
        return ""
    listed = ", ".join(f"{inner!r} ({text})" for inner, text in texts.items())
    name, field = next((name, field) for name, field in fields.items() if field.extensions)
    accept = "" if "{" in str(field) or field.problem else f"{advice(name, str(field))} accepts this; "
    return (
        f"{path}: extension types that are not decoded, of which the stored values are published: {listed}; write text "
        f"or another type into the file; {accept}{advice(name, 'drop')} leaves the column out"
    )


def _extensions(column: pyarrow.Field) -> Iterator[tuple[str, str, bytes, Any]]:
    """Yields (path, name, serialized parameters, storage type) of the values of extension types in a column.

    pyarrow returns the type itself if it is registered, and otherwise the storage type, with the name in the metadata
    of the field.
    """
    import pyarrow as pa

    pending = [(column.name, column)]
    while pending:
        path, field = pending.pop()
        kind, metadata = field.type, field.metadata or {}
        if isinstance(kind, pa.BaseExtensionType):
            parameters = kind.__arrow_ext_serialize__() if isinstance(kind, pa.ExtensionType) else b""
            kind = kind.storage_type
            yield path, field.type.extension_name, parameters, kind
        elif _NAME in metadata:
            yield path, metadata[_NAME].decode("utf-8", "replace"), metadata.get(_METADATA, b""), kind
        if pa.types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            pending += [(f"{path}/{inner.name}", inner) for inner in reversed(fields)]
        elif pa.types.is_map(kind):
            pending += [(f"{path}[]/value", kind.item_field), (f"{path}[]/key", kind.key_field)]
        elif pa.types.is_nested(kind) and kind.num_fields:
            pending.append((f"{path}[]", kind.field(0)))


def _has_variant(kind: Any) -> bool:
    """Returns whether a type in Spark's JSON schema is `variant`, or contains it."""
    if not isinstance(kind, dict):
        return bool(kind == "variant")
    inner = [kind.get(name) for name in ("elementType", "keyType", "valueType")]
    return any(map(_has_variant, [*inner, *(field["type"] for field in kind.get("fields", []))]))
