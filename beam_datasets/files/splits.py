"""Which rows make up which split: the files of a pattern, or a share of all rows by the hash of their keys."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")
_WHOLE = 2**128
_SALT = b"share of a split\x00"


@dataclass(frozen=True)
class Share:
    """The rows of a split: those of the files of `pattern` whose key's 128-bit hash lies in [start, stop).

    Several patterns are all files that match any of them.
    """

    pattern: str | tuple[str, ...]
    start: int = 0
    stop: int = _WHOLE

    @property
    def is_all(self) -> bool:
        """Whether every row of the files belongs to it."""
        return self.stop - self.start == _WHOLE

    def has(self, key: str | int) -> bool:
        """Whether the row of this key belongs to it.

        The answer depends only on the key: rows that are added later move no other row to another split.
        """
        digest = hashlib.md5(_SALT + str(key).encode("utf-8", "surrogatepass")).digest()
        return self.start <= int.from_bytes(digest, "big") < self.stop


def shares(splits: Mapping[str, str | Sequence[str]] | None, pattern: str | None) -> dict[str, Share]:
    """Returns the share of each split.

    Args:
        splits: split name -> the patterns of its files, or its percentage of the rows of `pattern`. Percentages add up
            to 100 and are met on average only, for each row is assigned by itself.
        pattern: the files of all splits, where they are given as percentages.

    >>> halves = shares({"train": "50%", "test": "50%"}, "data/*.csv")
    >>> halves["train"].stop == halves["test"].start == 2**127
    True

    Raises:
        ValueError: patterns and percentages are mixed, or the percentages do not add up to 100.
    """
    if not splits:
        if pattern is None:
            raise ValueError("no input: give a pattern (--pattern 'data/*') or splits (--split train='data/train*')")
        return {"train": Share(pattern)}
    percents = {name: _percent_of(name, value) for name, value in splits.items()}
    named = [name for name, percent in percents.items() if percent is None]
    if pattern is None:
        if len(named) < len(splits):
            raise ValueError(
                f"splits {dict(splits)} have percentages, of which files? Give them by pattern (--pattern)."
            )
        return {name: Share(value if isinstance(value, str) else tuple(value)) for name, value in splits.items()}
    if named:
        raise ValueError(
            f"pattern is {pattern!r} and split {named[0]!r} is {splits[named[0]]!r}: with a pattern for all splits "
            "give percentages (--split train=80% --split test=20%), or leave the pattern out"
        )
    return _consecutive({name: percent for name, percent in percents.items() if percent is not None}, pattern)


def _percent_of(name: str, value: str | Sequence[str]) -> Fraction | None:
    if isinstance(value, str):
        return _percent(value)
    if not value or any(map(_percent, value)):
        raise ValueError(f"split {name!r} is {list(value)}; expected patterns of files, or one percentage")
    return None


def _percent(value: str) -> Fraction | None:
    match = _PERCENT.fullmatch(value.strip())
    return Fraction(match[1]) / 100 if match else None


def _consecutive(percents: Mapping[str, Fraction], pattern: str) -> dict[str, Share]:
    total = sum(percents.values())
    if total != 1:
        raise ValueError(f"the percentages of splits {sorted(percents)} add up to {float(total * 100):g}, not 100")
    ends = [int(end * _WHOLE) for end in accumulate(percents.values())]
    return {name: Share(pattern, start, end) for name, start, end in zip(percents, [0, *ends], ends)}
