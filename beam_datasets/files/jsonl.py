"""A dataset of the rows of JSON lines files (one object a line), without code.

    beam-datasets build jsonl --data_dir out --name reviews --pattern 'reviews/*.jsonl.gz' \
        --split train=95% --split test=5% --feature stars=int8 --feature user/age=int64? --key id

Objects inside a row are nested features and lists are sequences. null, or a name that is not there, is a missing value.
A row's key is its file and byte offset: a large file is read in pieces, whose readers do not know line numbers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from beam_datasets.errors import InputError, NoExamplesError
from beam_datasets.files.builder import Row, RowsBuilder
from beam_datasets.files.convert import finite
from beam_datasets.files.fields import Field
from beam_datasets.files.infer import Inference
from beam_datasets.files.inputs import Piece, check_encoding, decode_line, lines

log = logging.getLogger(__name__)


class Jsonl(RowsBuilder):
    """Rows of JSON lines files.

    Args:
        encoding: of the text.
        common: see RowsBuilder.
    """

    _may_add = True

    def __init__(self, *, encoding: str = "utf-8", **common: Any) -> None:
        check_encoding(encoding, of_lines=True)
        self._encoding = encoding
        super().__init__(**common)

    def _found_fields(self) -> dict[str, Field]:
        guess, problem = self._guess_of(self._rows)
        if not guess.rows:
            kind = InputError if problem else NoExamplesError
            raise kind(f"no file has an object; {problem or self.files_text}")
        inference = Inference(skip_bad=self._skip_bad, may_lack=self._may_lack)
        fields = inference.fields(guess)
        for note in inference.notes:
            log.warning(note)
        return fields

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        return partial(objects, encoding=self._encoding)


def objects(piece: Piece, encoding: str = "utf-8") -> Iterator[Row]:
    """Yields the byte offset and the object, or its problem, of each line of a piece that is not blank."""
    for offset, line in lines(piece):
        if not line or line.isspace():
            continue
        try:
            yield offset, None, _object(decode_line(line, encoding, offset))
        except ValueError as error:
            yield offset, None, str(error)


def _object(text: str) -> dict[str, Any]:
    try:
        row = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} in column {error.colno} ({text[:60]!r}); one object a line is expected"
        ) from None
    except RecursionError:
        raise InputError("nested too deeply to be read") from None
    if not isinstance(row, dict):
        array = " (jq -c '.[]' makes lines of an array)" if isinstance(row, list) else ""
        raise InputError(
            f"{text[:60]!r} is a {type(row).__name__}, not an object; one object a line is expected{array}"
        )
    return row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return row


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=finite)  # `json.loads` makes one for each text
