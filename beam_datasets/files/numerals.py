"""The separators in the numbers of text files, such as 1.234,50 in much of Europe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

_SPACES = " \u00a0\u2009\u202f"  # a plain space, those that do not break, and a thin one


@dataclass(frozen=True)
class Numerals:
    """The decimal and thousands separators of the numbers in a file.

    Attributes:
        decimal: character between the integer part and the fraction: '.' or ','.
        thousands: character between groups of three digits of the integer part, which may be left out; '' for none. A
            space stands for no-break and thin spaces, too, which look the same.
    """

    decimal: str = "."
    thousands: str = ""

    def __post_init__(self) -> None:
        """Checks the separators.

        Raises:
            ValueError: a separator is invalid, or both are the same.
        """
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal is {self.decimal!r}; expected . or ,")
        if self.thousands and (len(self.thousands) > 1 or self.thousands.isalnum() or self.thousands in "+-"):
            raise ValueError(f"thousands is {self.thousands!r}; expected one character, such as . or ,")
        if self.thousands == self.decimal:
            raise ValueError(f"thousands is {self.thousands!r}, as decimal is; expected another character")

    @cached_property
    def is_python(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self == Numerals()

    @cached_property
    def _thousands(self) -> re.Pattern[str]:
        """The pattern of the separator of thousands."""
        return re.compile(f"[{_SPACES}]" if self.thousands == " " else re.escape(self.thousands))

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        """The pattern of a number with separators of thousands."""
        groups, fraction = self._thousands.pattern, re.escape(self.decimal)
        return re.compile(rf"[+-]?\d{{1,3}}(?:{groups}\d{{3}})+(?:{fraction}\d*)?", re.ASCII)

    def to_python(self, text: str) -> str | None:
        """Returns a number's text, stripped, with '.' as decimal and no thousands separators.

        It is None if separators are misplaced. That the text is a number is not checked.

        >>> german = Numerals(decimal=",", thousands=".")
        >>> german.to_python("1.234,50"), german.to_python("7"), german.to_python("1.5"), Numerals(",").to_python("1.5")
        ('1234.50', '7', None, None)
        """
        text = text.strip()
        if self.thousands and self._thousands.search(text):
            if not self._grouped.fullmatch(text):
                return None
            text = self._thousands.sub("", text)
        if self.decimal != ".":
            if "." in text:
                return None
            text = text.replace(self.decimal, ".")
        return text


PYTHON = Numerals()
"""Numbers as Python writes them."""

_BOTH = re.compile(r"[+-]?\d{1,3}(?:([.,])\d{3})+(?!\1)[.,]\d+|[+-]?\d{1,3}(?:([.,])\d{3}){2,}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_SPACED = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:[{_SPACES}]\d{{3}})+(?:([.,])\d+)?", re.ASCII)


def options_for(text: str, used: Numerals) -> str:
    r"""Returns the options by which a text would be a number; '' if none would, or if it is one already.

    A comma that may be either separator, as in 1,234, is taken for the decimal one.

    Args:
        text: the text.
        used: the separators that the file is read with.

    >>> options_for("1,5", PYTHON), options_for("1.234,50", PYTHON), options_for("1,234,567", PYTHON)
    ('--decimal ,', '--decimal , --thousands .', '--thousands ,')
    >>> options_for("1.234,50", Numerals(",")), options_for("x", PYTHON), options_for("1.234.567", PYTHON)
    ('--thousands .', '', '--decimal , --thousands .')
    >>> options_for("1 234", PYTHON), options_for("1\u202f234,5", PYTHON), options_for("030 123", PYTHON)
    ("--thousands ' '", "--decimal , --thousands ' '", '')
    """
    if both := _BOTH.fullmatch(text):
        thousands = both[1] or both[2]
        required = Numerals("," if thousands == "." else ".", thousands)
    elif _COMMA.fullmatch(text):
        required = Numerals(",", used.thousands if used.thousands != "," else "")
    elif spaced := _SPACED.fullmatch(text):
        required = Numerals(spaced[1] or used.decimal, " ")
    else:
        return ""
    return _options(required, used)


def _options(required: Numerals, used: Numerals) -> str:
    """Returns the options of the command for the required separators that differ from the used: "--decimal ,"."""
    options = [] if required.decimal == used.decimal else [f"--decimal {required.decimal}"]
    options += [] if required.thousands == used.thousands else [f"--thousands {shlex.quote(required.thousands)}"]
    return " ".join(options)


def options_for_all(texts: Collection[str], used: Numerals) -> dict[str, str]:
    """Returns {options with which all texts parse as numbers: the first number}; {} if there are none.

    Args:
        texts: the texts of a column, none of which is a number with the separators `used`.
        used: the separators that the file is read with.

    >>> options_for_all(["1,5", "2,25"], PYTHON), options_for_all(["1,234", "5,678"], PYTHON)
    ({'--decimal ,': '1.5'}, {'--decimal ,': '1.234', '--thousands ,': '1234'})
    >>> options_for_all(["1.234,50", "1,5"], PYTHON), options_for_all(["1,5", "x"], PYTHON)
    ({'--decimal , --thousands .': '1234.50'}, {})
    """
    separators = [Numerals(","), Numerals(",", "."), Numerals(".", ",")]
    fitting = [each for each in separators if each != used and all(_is_number(text, each) for text in texts)]
    if Numerals(",") in fitting and Numerals(",", ".") in fitting:  # no text has a point
        fitting.remove(Numerals(",", "."))
    return {_options(each, used): each.to_python(next(iter(texts))) or "" for each in fitting} if texts else {}


def _is_number(text: str, numerals: Numerals) -> bool:
    """Returns whether a text is a decimal number with the separators, and has one of them."""
    plain = numerals.to_python(text)
    return plain is not None and plain != text and _DECIMAL.fullmatch(plain) is not None
