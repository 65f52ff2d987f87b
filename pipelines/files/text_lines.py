"""A dataset of the lines of text files, without code: the feature `text`, one line each.

beam-datasets build text_lines --data_dir out --name corpus --pattern 'corpus/*.txt.gz' --split train=100%
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.files.builder import FilesBuilder
from pipelines.files.inputs import check_encoding
from pipelines.files.line_rows import TextRows
from pipelines.files.schema import Field

if TYPE_CHECKING:
    from pipelines.files.source import Reader


class TextLines(FilesBuilder):
    """Lines of text files, without their line ends.

    Args:
        encoding: of the text.
        keep_blank: whether lines of white space alone are examples too.
        common: see FilesBuilder.
    """

    def __init__(self, *, encoding: str = "utf-8", keep_blank: bool = False, **common: Any) -> None:
        check_encoding(encoding, of_lines=True)
        self._encoding = encoding
        self._keep_blank = keep_blank
        super().__init__(**common)

    def _found_fields(self) -> dict[str, Field]:
        return {"text": Field("string")}

    def _rows_reader(self) -> Reader:
        return TextRows(self._encoding, self._keep_blank)
