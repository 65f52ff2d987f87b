"""A dataset of the rows of Parquet files, without code.

    beam-datasets build parquet --data_dir out --name clicks --pattern clicks/ --split train=90% --split test=10% \
        --key id

The schema is the files' own: structs are nested features, lists sequences; dates, times and decimals become text, and
doubles float64 (`--feature x=float32` takes half the bytes). Row groups are read side by side.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from beam_datasets.errors import InputError
from pipelines.files.builder import FilesBuilder
from pipelines.files.parquet_rows import ParquetRows, row_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipelines.files.inputs import InputFile, Piece
    from pipelines.files.schema import Field


class Parquet(FilesBuilder):
    """Rows of Parquet files; the arguments are those of FilesBuilder."""

    EXPORT = "parquet"

    @cached_property
    def _groups(self) -> tuple[dict[str, Field], list[Piece]]:
        return row_groups(self._all_files, self._dropped)

    def _found_fields(self) -> dict[str, Field]:
        fields, _ = self._groups
        if not fields:
            raise InputError(f"no file has a column: {', '.join(file.path for file in self._all_files[:5])}")
        return fields

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        wanted = set(files)
        return [piece for piece in self._groups[1] if piece.file in wanted]

    def _rows_reader(self) -> ParquetRows:
        return ParquetRows(self._fields, self._key, self._dropped)
