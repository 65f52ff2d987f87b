"""Printing: tables, sizes, and text of datasets that must neither control the terminal nor fail in its encoding."""

from __future__ import annotations

import codecs
import io
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from beam_datasets.metadata.split_info import SplitInfo

_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - set(map(ord, "\n\t"))
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # let a line be shown in another order
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROLS | _DIRECTIONS}
_SHAPES = dict(zip("▕▏·░▒▓█▀", '||.-=+#"'))  # of the bars of `slices` and the thumbnails of `head`


def escape_unencodable() -> None:
    """Makes standard output and error escape the characters that their encoding lacks, instead of failing."""
    codecs.register_error("beam_datasets_escape", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="beam_datasets_escape")


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    r"""Returns the ASCII to print for the first character that cannot be encoded: a shape of its own, or `\xe9`."""
    assert isinstance(error, UnicodeEncodeError)
    error.end = error.start + 1
    shape = _SHAPES.get(error.object[error.start])
    return (shape, error.end) if shape else codecs.backslashreplace_errors(error)


def printable(text: str) -> str:
    r"""Returns a text with escapes for its control characters, except line breaks and tabs.

    >>> print(printable("\x1b[2J cat\u202e"))
    \x1b[2J cat\u202e
    """
    return text.translate(_ESCAPES)


def say(text: str, file: TextIO | None = None) -> None:
    """Prints one or more lines, `printable`; to standard output if no file is given."""
    print(printable(text), file=file)


def plural(number: int, what: str) -> str:
    """Returns a number of things.

    >>> plural(1, "shard"), plural(1000, "shard")
    ('1 shard', '1,000 shards')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size_text(num_bytes: int) -> str:
    """Returns a size for people.

    >>> size_text(999), size_text(1536), size_text(5 << 30)
    ('999 B', '1.5 KiB', '5.0 GiB')
    """
    if num_bytes < 1024:
        return f"{num_bytes} B"
    size, unit = float(num_bytes), 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {' KMGT'[unit]}iB"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[int] = (0,)) -> str:
    """Returns columns of text, those of `left` aligned left, the others right.

    >>> print(table(["split", "examples"], [["train", 1000]]))
    split  examples
    train     1,000
    """
    cells = [list(header), *([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = (
        "  ".join(f"{cell:{'<' if i in left else '>'}{width}}" for i, (cell, width) in enumerate(zip(row, widths)))
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def splits_table(splits: Mapping[str, SplitInfo]) -> str:
    """Returns the splits with their examples, shards and bytes."""
    rows = [(name, split.num_examples, split.num_shards, split.num_bytes) for name, split in splits.items()]
    if len(rows) > 1:
        rows.append(("all", *map(sum, list(zip(*rows))[1:])))  # type: ignore[arg-type]
    return table(["split", "examples", "shards", "size"], [[*row[:-1], size_text(row[-1])] for row in rows])
