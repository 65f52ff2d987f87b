"""A dataset of the lines of text files, without code: the feature `text`, one line each.

beam-datasets build text_lines --data_dir out --name corpus --pattern 'corpus/*.txt.gz' --split train=100%
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Unpack

from beam_datasets import limits
from beam_datasets.errors import InputError
from beam_datasets.files.builder import RowsBuilder
from beam_datasets.files.fields import Field
from beam_datasets.files.format_options import given_options, option
from beam_datasets.files.inputs import Piece, check_encoding, count, decode_line, lines
from beam_datasets.files.rows import Row
from beam_datasets.intake.streams import open_text_bytes

if TYPE_CHECKING:
    from beam_datasets.files.arguments import RowsArguments
    from beam_datasets.metadata.inputs import FormatOptions

BLANK = "blank lines left out"
WITH_CARRIAGE_RETURNS = "lines with carriage returns (\\r) inside, which do not end lines"


class TextLines(RowsBuilder):
    """Lines of text files, without their line ends.

    Args:
        encoding: encoding of the text; by default utf-8.
        keep_blank: whether lines that contain only white space are examples too.
        common: see RowsBuilder.
    """

    def __init__(
        self, *, encoding: str | None = None, keep_blank: bool | None = None, **common: Unpack[RowsArguments]
    ) -> None:
        self._format_options = given_options(encoding=encoding, keep_blank=keep_blank)
        super().__init__(**common)

    def _set_format(self, options: FormatOptions) -> None:
        """Sets the options of the format; see `RowsBuilder._set_format`."""
        super()._set_format(options)
        self._encoding = check_encoding(option(options, "encoding", "utf-8"), of_lines=True)
        self._keep_blank = option(options, "keep_blank", False)

    def _infer_fields(self) -> dict[str, Field]:
        """Returns the schema {"text": string}; see `RowsBuilder._infer_fields`."""
        return {"text": Field("string")}

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """Returns the function that reads the lines of a piece; see `RowsBuilder._rows`."""
        return partial(text_rows, encoding=self._encoding, keep_blank=self._keep_blank)


def text_rows(piece: Piece, encoding: str = "utf-8", keep_blank: bool = False) -> Iterator[Row]:
    """Yields a row (byte offset, None, {"text": text}) for each line, with an error text for the dict of a bad line.

    Blank lines are counted and left out, unless they are kept. Lines with carriage returns inside are counted.

    Args:
        piece: the part of a file to read.
        encoding: encoding of the text.
        keep_blank: whether to yield lines that are empty or only have spaces.

    Raises:
        InputError: the only line ends of the file are carriage returns.
    """
    blank = with_carriage_returns = 0
    for offset, line in lines(piece):
        if b"\r" in line:
            with_carriage_returns += 1
            if not offset:
                _check_line_ends(piece.file.path)
        try:
            text = decode_line(line, encoding, offset)
        except ValueError as error:
            yield offset, None, str(error)
            continue
        if keep_blank or (not text.isspace() and text):
            yield offset, None, {"text": text}
        else:
            blank += 1
    count(BLANK, blank)
    count(WITH_CARRIAGE_RETURNS, with_carriage_returns)


def _check_line_ends(path: str) -> None:
    """Raises InputError if a file whose first line contains a carriage return has no other line ends.

    Such a file would become one example.
    """
    with open_text_bytes(path) as stream:
        if not stream.readline(limits.limit_of(limits.MAX_LINE) + 1).endswith(b"\n"):
            raise InputError(
                expected=r"lines that end with \n or \r\n",
                got=r"line ends that are only \r",
                advice=r"Convert the file: tr '\r' '\n' < FILE > NEW_FILE",
                path=path,
            )
