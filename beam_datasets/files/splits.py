"""Which rows make up which split: the files of a pattern, or rows that a value of each assigns."""

from __future__ import annotations

from collections import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beam_datasets.metadata.split_by import SplitByHash, SplitByTime, SplitByValue, share_of

Patterns = str | tuple[str, ...]
"""What finds files; several patterns are all files that match any of them."""
Splits = Mapping[str, "str | abc.Sequence[str]"]


@dataclass(frozen=True)
class SplitBy:
    """The column that the rows are split by, instead of by their keys; one of `group`, `time` and `column`.

    Attributes:
        group: rows with the same value of it land in one split, by its hash.
        time: its ranges of time, or of numbers, are the splits.
        column: its value names the split.
        missing: the split of rows without a value; by default such a row is an error.
    """

    group: str | None = None
    time: str | None = None
    column: str | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Assignment:
    """Names the split of a row.

    Attributes:
        split_of: from values to the split; None for the values that are found in the files.
        column: that has the value; None for the row's key.
        with_key: the value and the key decide together.
        missing: split of rows without a value; None if they are errors.
        missing_texts: that mean a missing value.
    """

    split_of: SplitByHash | SplitByTime | SplitByValue | None
    column: str | None = None
    with_key: bool = False
    missing: str | None = None
    missing_texts: abc.Collection[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The splits."""
        return self.split_of.names if self.split_of else ()

    def __call__(self, key: str | int, row: Mapping[str, Any]) -> str:
        """Returns the split of a row.

        Raises:
            ValueError: it has no value, or one that belongs to no split.
        """
        assert self.split_of is not None
        if self.column is None:
            return self.split_of(key)
        value = value_at(row, self.column)
        if isinstance(value, str):
            value = value.strip()
        is_missing = value is None or value != value or value in ("", b"", *self.missing_texts)
        if isinstance(self.split_of, SplitByHash) and self.with_key:
            return self.split_of("" if is_missing else value, key)
        if is_missing and self.missing is not None:
            return self.missing
        if is_missing:
            ways = "take such rows to a split by --split_by missing=SPLIT, or leave them out by --skip_bad"
            raise ValueError(f"column {self.column!r}: expected a value to split by, got none; {ways}")
        try:
            return self.split_of(value)
        except ValueError as error:
            raise ValueError(f"column {self.column!r}: {error}") from None


def value_at(row: Any, path: str) -> Any:
    """Returns the value of a column, or of field a/b of an object; None if there is none."""
    if not isinstance(row, Mapping) or path in row:
        return row.get(path) if isinstance(row, Mapping) else None
    name, _, rest = path.partition("/")
    return value_at(row.get(name), rest) if rest else None


def assignment(
    splits: Splits,
    pattern: str | None,
    by: SplitBy | None = None,
    train_until: str | None = None,
    stratify: str | None = None,
) -> Assignment | None:
    """Returns what names the split of each row; None if files do.

    Args:
        splits: split -> the patterns of its files; or its share of the rows of `pattern`; or its range of time, or its
            values of the column, as `by` says.
        pattern: the files of all splits.
        by: the column.
        train_until: the ranges of `train` and `test`.
        stratify: the column within whose values the shares hold.

    Raises:
        ValueError: the arguments do not fit each other.
    """
    ways = {name: column for name, column in vars(by or SplitBy()).items() if column and name != "missing"}
    if stratify:
        ways["stratify"] = stratify
    if len(ways) > 1 or (by is not None and not ways):
        raise ValueError(
            f"expected one of --split_by group=COLUMN, time=COLUMN, column=COLUMN, and --stratify COLUMN, got {ways}"
        )
    [(way, column)] = ways.items() or [("key", None)]
    if train_until is not None:
        if way != "time" or splits:
            raise ValueError("train_until: expected --split_by time=COLUMN and no --split")
        splits = {"train": f"..{train_until}", "test": f"{train_until}.."}
    if pattern is None:
        wrong = next(
            (name for name, value in splits.items() if not value or any(map(_is_share, _several(value)))), None
        )
        if ways or wrong is not None:
            got = ways or f"{wrong!r}: {splits[wrong or '']!r}"
            raise ValueError(f"expected the files of all splits (--pattern 'data/*') beside {got}, got none")
        if not splits:
            raise ValueError("no input: give a pattern (--pattern 'data/*') or splits (--split train='data/train*')")
        return None
    if not ways and not splits:
        return None
    split_of = _assigning(way, splits, pattern)
    missing = by.missing if by else None
    if missing is not None and split_of is not None and missing not in split_of.names:
        raise ValueError(f"missing: expected one of the splits {list(split_of.names)}, got {missing!r}")
    return Assignment(split_of, column, way == "stratify", missing)


def as_options(
    splits: Splits, by: SplitBy | None = None, train_until: str | None = None, stratify: str | None = None
) -> str:
    """Returns the arguments of `assignment` as options of the command.

    >>> as_options({"train": "80%", "test": "20%"}, SplitBy(group="user"))
    '--split_by group=user --splits train=80% --splits test=20%'
    """
    ways = {name: value for name, value in vars(by or SplitBy()).items() if value}
    words = [f"--split_by {name}={value}" for name, value in ways.items()]
    words += [f"--train_until {train_until}"] if train_until else []
    words += [f"--stratify {stratify}"] if stratify else []
    words += [f"--splits {name}={value}" for name, values in splits.items() for value in _several(values)]
    return " ".join(words)


def _assigning(way: str, splits: Splits, pattern: str) -> SplitByHash | SplitByTime | SplitByValue | None:
    if way == "column":
        return SplitByValue(splits) if splits else None
    say = "train=..2026-01-01 --split test=2026-01-01.." if way == "time" else "train=80% --split test=20%"
    one = {name: value for name, value in splits.items() if isinstance(value, str)}
    if not splits or len(one) < len(splits):
        raise ValueError(f"expected each split once, such as --split {say}, got {dict(splits)}")
    if way == "time":
        return SplitByTime(one)
    wrong = next((name for name, value in one.items() if share_of(value) is None), None)
    if wrong is not None and way == "key":
        raise ValueError(
            f"pattern is {pattern!r} and split {wrong!r} is {one[wrong]!r}: with a pattern for all splits give shares "
            f"(--split {say}), or leave the pattern out"
        )
    return SplitByHash(one)


def _several(value: str | abc.Sequence[str]) -> abc.Sequence[str]:
    return [value] if isinstance(value, str) else value


def _is_share(text: str) -> bool:
    return text.strip().endswith("%") and share_of(text) is not None
