"""Text for people: escapes for control characters, and text of a given width."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata

_CONTROLS = {*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029} - set(map(ord, "\n\t"))
_DIRECTIONS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # reorder a line
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROLS | _DIRECTIONS}


def printable(text: str) -> str:
    r"""Returns a text with escapes for its control characters, except line breaks and tabs.

    >>> print(printable("\x1b[2J cat\u202e"))
    \x1b[2J cat\u202e
    """
    return text.translate(_ESCAPES)


def text_width(text: str) -> int:
    """Returns the columns of a terminal that a text takes.

    >>> text_width("cat"), text_width("日本"), text_width("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text if not unicodedata.combining(c))


def truncate(text: str, width: int) -> str:
    """Returns a text of at most `width` columns, 4 or more; the end of a longer one is replaced by `...`.

    >>> truncate("elephant", 8), truncate("elephants", 8), truncate("日本日本日本", 8)
    ('elephant', 'eleph...', '日本...')
    """
    if text_width(text) <= width:
        return text
    text = text[: width - 3]
    while text_width(text) > width - 3:
        text = text[:-1]
    return f"{text}..."


_PARAGRAPH = re.compile(r"(?:^\S.*\n?)+|^.*\n?", re.MULTILINE)  # lines without indentation, or one other line
_HANGING = re.compile(r" +(?:\S+ )*?\S+ {2,}| *")  # an indented name and the gap before its description, or indentation
_CODE = re.compile(r" *(?:\$|>>>) |  beam-datasets (?!.* {2})")  # a gap separates a command from its description
_MIN_COLUMNS = 20  # a terminal may report fewer, and COLUMNS may be any number


def wrapped(text: str, width: int | None = None) -> str:
    r"""Returns a text with lines of at most `width` columns where words allow it; lines of code stay whole.

    Lines without indentation that follow each other are a paragraph. An indented line is continued below its first
    word, or below the description that follows a gap of several spaces. Code is a line that begins with `$` or `>>>`,
    and an example of a command, `  beam-datasets ...`: it works if it is pasted.

    Args:
        text: lines of text.
        width: None for that of the terminal, as argparse uses it.

    >>> print(wrapped("A new\ntext of words.\n  build NAME   writes a dataset", width=24))
    A new text of words.
      build NAME   writes a
                   dataset
    """
    columns = max(shutil.get_terminal_size().columns - 2, _MIN_COLUMNS) if width is None else width
    lines: list[str] = []
    for paragraph in _PARAGRAPH.findall(text):
        line = paragraph.rstrip("\n").replace("\n", " ")
        hanging = " " * min(len(_HANGING.match(line)[0]), columns * 2 // 3)  # type: ignore[index]  # it matches '', too
        is_whole = len(line) <= columns or _CODE.match(line)
        lines += [line] if is_whole else textwrap.wrap(line, columns, subsequent_indent=hanging, break_on_hyphens=False)
    return "\n".join(lines)


def size_text(num_bytes: int) -> str:
    """Returns a size in bytes as text, with one digit after the point from 1 KiB on.

    >>> size_text(999), size_text(1536), size_text(5 << 30)
    ('999 B', '1.5 KiB', '5.0 GiB')
    """
    if num_bytes < 1024:
        return f"{num_bytes} B"
    size, unit = float(num_bytes), 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {' KMGT'[unit]}iB"
