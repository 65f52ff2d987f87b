"""Printing: text of datasets must not control the terminal, and must be printable in its encoding."""

from __future__ import annotations

import codecs
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

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
    r"""Returns a text with escapes for its control characters, all but line breaks and tabs.

    >>> print(printable("\x1b[2J cat\u202e"))
    \x1b[2J cat\u202e
    """
    return text.translate(_ESCAPES)


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a line, or several, `printable`; to standard output where no file is given."""
    print(printable(text), file=file)
