"""What the command prints: text of datasets among it, which must not command the terminal that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - set(map(ord, "\n\t"))
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # let a line be shown in another order
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROLS | _DIRECTIONS}


def printable(text: str) -> str:
    r"""Returns a text with escapes for its control characters, all but line breaks and tabs.

    >>> print(printable("\x1b[2J cat\u202e"))
    \x1b[2J cat\u202e
    """
    return text.translate(_ESCAPES)


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a line, or several, `printable`; to standard output where no file is given."""
    print(printable(text), file=file)
