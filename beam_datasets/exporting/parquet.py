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

from beam_datasets.errors import FeatureError
from beam_datasets.exporting.arrow import arrow_converter, arrow_schema
from beam_datasets.exporting.writing import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.exporting.schema import Struct
    from beam_datasets.exporting.writing import Block, Output

ROW_GROUP_BYTES = 32 << 20


@dataclass(frozen=True)
class Parquet(Format):
    """Writes Parquet files.

    Attributes:
        row_group_bytes: about how large a row group is, in bytes of Arrow's memory. A writer holds one.
    """

    row_group_bytes: int = ROW_GROUP_BYTES

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
            for batches in self._groups(map(batch, blocks)):
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


def _convert(convert: Any, block: Block) -> Any:
    """Returns the Arrow array of a block; an error names the record."""
    columns = block.columns()
    try:
        return convert(block.examples if columns is None else columns)
    except FeatureError:
        list(block.map(lambda example: convert([example])))
        raise
