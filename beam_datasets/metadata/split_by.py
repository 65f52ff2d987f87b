"""Rules that assign an example to a split: by the hash of a value, by its time, or by a value that names the split.

A rule depends only on the value, so an example stays in its split when others are added.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import math
import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

_HASHES = 2**128
_SALT = b"share of a split\x00"
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")  # as pandas writes integers of a column in which values are missing


@dataclass(frozen=True)
class SplitByHash:
    """Assigns values to splits by their hash: all examples with equal values are in one split.

    Shares hold on average: of n values, a split of share p gets p*n, plus or minus 2*sqrt(n*p*(1-p)) in 95% of cases.
    1, 1.0, '1', '1.0' and b'1' are the same value.

    >>> split_of = SplitByHash({"train": "80%", "test": "20%"})
    >>> split_of("user 21"), split_of("user 22"), split_of("user 23")
    ('train', 'train', 'test')

    Attributes:
        shares: name of a split -> its share, such as "80%" or 0.8. The sum of the shares is 1.

    Raises:
        TypeError: the shares are not a dict.
        ValueError: a share is not a number from 0 to 1, or the sum is not 1.
    """

    shares: Mapping[str, str | float]

    def __post_init__(self) -> None:
        _check_dict("shares", self.shares)
        total = Fraction(0)
        for split, share in self.shares.items():
            fraction = share_of(share)
            if fraction is None or not 0 <= fraction <= 1:
                raise ValueError(f"split {split!r}: expected a share such as 80% or 0.8, got {share!r}")
            total += fraction
        if total != 1:
            raise ValueError(f"the shares of splits {sorted(self.shares)} add up to {float(total * 100):g}%, not 100%")

    @property
    def names(self) -> tuple[str, ...]:
        """The splits."""
        return tuple(self.shares)

    @cached_property
    def _stops(self) -> list[int]:
        """Returns the end of each split's part of the range of hashes, [0, `_HASHES`), in the order of the splits."""
        return [int(stop * _HASHES) for stop in accumulate(share_of(each) or 0 for each in self.shares.values())]

    def __call__(self, *values: Any) -> str:
        """Returns the name of the split of a value, or of several values together.

        Raises:
            ValueError: a value is not a text, number, bool, date or time.
        """
        texts = [
            integer_match[1] if (integer_match := _WHOLE.fullmatch(text)) else text
            for text in map(_lookup_text, values)
        ]
        text = "\x00".join(texts).encode("utf-8", "surrogatepass")
        hashed = int.from_bytes(hashlib.md5(_SALT + text).digest(), "big")
        return self.names[bisect_right(self._stops, hashed)]


_OPTIONS = ("--split_by", "--train_until", "--stratify", "--splits")


def depends_on_key(options: str) -> bool:
    """Returns whether the split of a row depends on its key alone; see `meaning_of`."""
    return "--split_by" not in options and "--stratify" not in options


def meaning_of(options: str) -> Any:
    """Returns the meaning of the options by which rows were split, in a form that can be compared.

    >>> meaning_of("--splits train=80% --splits test=20%") == meaning_of("--splits train=0.8 --splits test=.2")
    True

    Args:
        options: options of inputs.json: `--split_by`, `--train_until`, `--stratify` and `--splits`.
    """
    ways: dict[str, str] = {}
    splits: dict[str, list[str]] = {}
    for name, value in parse_options(options):
        key, _, column = value.partition("=")
        if name == "splits":
            splits.setdefault(key, []).append(column)
        else:
            ways |= {key: column} if name == "split_by" else {name: value}
    if until := ways.pop("train_until", None):
        splits = {"train": [f"..{until}"], "test": [f"{until}.."]}
    one = {split: values[0] for split, values in splits.items()}
    meaning: Any = options
    with contextlib.suppress(ValueError):
        if "time" in ways:
            meaning = SplitByTime(one)._sorted
        elif "column" in ways:
            meaning = SplitByValue(splits)._split_of
        else:
            meaning = [(split, share_of(share)) for split, share in SplitByHash(one).shares.items()]
    return ways, meaning


def parse_options(text: str) -> Iterator[tuple[str, str]]:
    """Yields name and value of each option of a text, whose values may be quoted as in a shell.

    Values were not quoted by earlier versions of the library: the words up to the next option are one value.

    >>> list(parse_options("--split_by column=part --splits 'train=x --y' --splits test=a b"))
    [('split_by', 'column=part'), ('splits', 'train=x --y'), ('splits', 'test=a b')]
    """
    try:
        words = shlex.split(text)
    except ValueError:  # a quote in a value that was not quoted
        words = text.split(" ")
    starts = [i for i, word in enumerate(words) if word in _OPTIONS]
    for start, stop in zip(starts, [*starts[1:], len(words)]):
        yield words[start].removeprefix("--"), " ".join(words[start + 1 : stop])


def share_of(text: str | float) -> Fraction | None:
    """Parses a share: a text such as "80%" or "0.8", or a number. Returns None for any other text.

    >>> share_of("80%"), share_of(0.5), share_of("most")
    (Fraction(4, 5), Fraction(1, 2), None)
    """
    text = str(text).strip()
    try:
        return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _check_dict(name: str, value: Any) -> None:
    """Checks that an argument is a mapping.

    Args:
        name: name of the argument, for the error.
        value: the argument.

    Raises:
        TypeError: the argument is not a mapping.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: expected a dict with what belongs to each split, got {value!r:.100}")


def _lookup_text(value: Any) -> str:
    """Converts a value to the text that `SplitByValue` looks up; whole floats are written as integers.

    Raises:
        ValueError: the value is a NaN, or of a type that does not support splitting.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, (str, int, float, Decimal, datetime.date)) or value != value:
        raise ValueError(f"expected a text, number, bool, date or time to split by, got {value!r:.60}")
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


@dataclass(frozen=True)
class SplitByTime:
    """Assigns times to splits by half-open ranges `START..STOP`: START belongs to the range, STOP to the next.

    Times are dates or times of ISO 8601, `date` or `datetime`, in UTC if they have no zone; or all are numbers.

    >>> split_of = SplitByTime({"train": "..2026-01-01", "test": "2026-01-01.."})
    >>> split_of("2025-12-31T23:59:59"), split_of(datetime.date(2026, 1, 1))
    ('train', 'test')

    Attributes:
        ranges: name of a split -> its range; the first has no START, the last no STOP, and each begins at the end of
            another.

    Raises:
        TypeError: the ranges are not a dict.
        ValueError: a range is malformed, or ranges overlap or have a gap.
    """

    ranges: Mapping[str, str]

    def __post_init__(self) -> None:
        _check_dict("ranges", self.ranges)
        bounds = [(start, stop) for start, stop, _ in self._sorted]
        if [None, *(stop for _, stop in bounds)] != [*(start for start, _ in bounds), None] or not bounds:
            raise ValueError(
                f"expected ranges that cover all times, such as ..2026-01-01 and 2026-01-01.., got {dict(self.ranges)}"
            )

    @cached_property
    def _sorted(self) -> list[tuple[Any, Any, str]]:
        """(start, stop, split) of the ranges, ascending; bounds are datetimes or numbers, None for no bound.

        Raises:
            ValueError: a range cannot be parsed, or bounds are times and numbers.
        """
        parsed_ranges: list[tuple[Any, Any, str]] = []
        for split, text in self.ranges.items():
            start, dots, stop = str(text).partition("..")
            try:
                if not dots:
                    raise ValueError(f"expected a range START..STOP, such as ..2026-01-01, got {text!r}")
                first, last = (_to_comparable_time(bound) if bound.strip() else None for bound in (start, stop))
                parsed_ranges.append((first, last, split))
            except ValueError as error:
                raise ValueError(f"split {split!r}: {error}") from None
        bounds = [bound for start, stop, _ in parsed_ranges for bound in (start, stop) if bound is not None]
        if len({isinstance(bound, datetime.datetime) for bound in bounds}) > 1:
            raise ValueError(f"expected bounds that are all times or all numbers, got {dict(self.ranges)}")
        return sorted(parsed_ranges, key=lambda each: (each[0] is not None, each[0] or 0))

    @cached_property
    def _starts(self) -> list[Any]:
        """Returns the starts of all ranges but the first, ascending: datetimes or numbers."""
        return [start for start, _, _ in self._sorted[1:]]

    @property
    def names(self) -> tuple[str, ...]:
        """The splits."""
        return tuple(self.ranges)

    def __call__(self, value: Any) -> str:
        """Returns the split of a time.

        Raises:
            ValueError: the value is not a time, or not a number if the ranges are of numbers.
        """
        moment = _to_comparable_time(value)
        if self._starts and isinstance(moment, datetime.datetime) != isinstance(self._starts[0], datetime.datetime):
            kind = "number" if isinstance(moment, datetime.datetime) else "date or time"
            raise ValueError(f"expected a {kind}, like the bounds of {dict(self.ranges)}, got {value!r:.60}")
        return str(self._sorted[bisect_right(self._starts, moment)][2])


def _to_comparable_time(value: Any) -> Any:
    """Returns a time as a `datetime` with a zone (UTC if it has none), and a number as an int or float.

    Args:
        value: a date, a time stamp, a number, or a text or bytes with one of these.

    Raises:
        ValueError: the value is something else.

    >>> _to_comparable_time("2026-01-31").isoformat(), _to_comparable_time("7")
    ('2026-01-31T00:00:00+00:00', 7)
    """
    if isinstance(value, np.generic):
        value = (value.astype("M8[us]") if isinstance(value, np.datetime64) else value).item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        value = float(value)  # as a bound is read: Decimal("0.1") is less than 0.1
    if isinstance(value, str):
        text = value.strip()
        for read in (datetime.datetime.fromisoformat, float, int):  # of a text that several read, the last counts
            with contextlib.suppress(ValueError):
                value = read(text)
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ValueError(f"expected a date or time (2026-01-31, 2026-01-31T12:00) or a number, got {value!r:.60}")


@dataclass(frozen=True)
class SplitByValue:
    """Assigns values to the splits that name them.

    >>> SplitByValue({"train": "train", "validation": ["val", "dev"]})("dev")
    'validation'

    Attributes:
        values: split -> its value, or several.

    Raises:
        TypeError: they are not a dict.
        ValueError: two splits have the same value, or a split has none.
    """

    values: Mapping[str, str | Sequence[str]]

    def __post_init__(self) -> None:
        _check_dict("values", self.values)
        listed = [value for values in self.values.values() for value in several(values)]
        twice = sorted({value for value in listed if listed.count(value) > 1})
        if twice or not all(map(several, self.values.values())):
            raise ValueError(f"expected values that differ for each split, got {dict(self.values)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The splits."""
        return tuple(self.values)

    @cached_property
    def _split_of(self) -> dict[str, str]:
        """Returns {value: its split}."""
        return {value: split for split, values in self.values.items() for value in several(values)}

    def __call__(self, value: Any) -> str:
        """Returns the split of a value.

        Raises:
            ValueError: it is the value of none.
        """
        text = _lookup_text(value).strip()
        if text not in self._split_of:
            values = ", ".join(map(repr, self._split_of))
            raise ValueError(f"expected a value of a split: {values}; got {text!r}. Name it for a split")
        return self._split_of[text]


def several(values: str | Sequence[str]) -> list[str]:
    """Returns ["a"] for "a", and any other sequence as a list of `str`."""
    return [values] if isinstance(values, str) else list(map(str, values))
