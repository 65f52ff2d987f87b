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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from beam_datasets.adapters.framework import framework
from beam_datasets.errors import FeatureError
from beam_datasets.exporting.arrow import arrow_converter, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.exporting.output import Block, Output
    from beam_datasets.exporting.schema import Struct

ROW_GROUP_BYTES = 32 << 20


@dataclass(frozen=True)
class Parquet:
    """Writes Parquet files.

    Attributes:
        row_group_bytes: about how large a row group is, in bytes of Arrow's memory. A writer holds one.
    """

    row_group_bytes: int = ROW_GROUP_BYTES

    name: ClassVar[str] = "parquet"
    decodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.row_group_bytes < 1:
            raise ValueError(f"row_group_bytes is {self.row_group_bytes}; give at least 1.")

    def check(self, schema: Struct) -> None:
        """Makes the schema.

        Raises:
            MissingDependencyError: pyarrow is not installed.
        """
        arrow_schema(_pyarrow(), schema)

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the name of a shard."""
        return f"{split}-{shard:05d}-of-{num_shards:05d}.parquet"

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard.

        Raises:
            FeatureError: a value does not fit, as a text that is not UTF-8; it names file, byte and record.
        """
        arrow, parquet = _pyarrow(), framework("pyarrow.parquet", needed_by="Parquet", name="pyarrow", extra="export")
        convert, types = arrow_converter(arrow, schema), arrow_schema(arrow, schema)
        with parquet.ParquetWriter(arrow.PythonFile(out, "w"), types) as writer:
            for batches in self._groups(_batch(arrow, convert, types, block) for block in blocks):
                table = arrow.Table.from_batches(batches, types)
                writer.write_table(table, row_group_size=table.num_rows)

    def _groups(self, batches: Iterator[Any]) -> Iterator[list[Any]]:
        """Yields the batches of each row group."""
        pending: list[Any] = []
        num_bytes = 0
        for batch in batches:
            pending.append(batch)
            num_bytes += batch.nbytes
            if num_bytes >= self.row_group_bytes:
                yield pending
                pending, num_bytes = [], 0
        if pending:
            yield pending


def _pyarrow() -> Any:
    return framework("pyarrow", needed_by="Parquet", name="pyarrow", extra="export")


def _batch(arrow: Any, convert: Any, types: Any, block: Block) -> Any:
    columns = block.columns()
    rows = [] if columns is not None else block.rows()
    try:
        values = [row.value for row in rows] if columns is None else columns
        return arrow.RecordBatch.from_arrays(convert(values).flatten(), schema=types)
    except FeatureError:
        for row in rows or block.rows():  # which of them it is
            try:
                convert([row.value])
            except FeatureError as error:
                raise type(error)(f"{row.place}: {error}") from error
        raise
