"""Assignment of rows to splits: by shares of the keys, a group, ranges of time, or the value of a column."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from beam_datasets.errors import InputError
from beam_datasets.files.rows import value_or_none
from beam_datasets.metadata.split_by import SplitByHash, SplitByTime, SplitByValue, parse_options, several, share_of
from beam_datasets.sources.units import SourceUnits

Patterns = str | tuple[str, ...]
"""One or several patterns of files; several stand for all files that match any of them."""
Splits = Mapping[str, "str | Sequence[str]"]


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
        split_of: function from a value to its split; None for the values that are found in the files.
        column: column that has the value; None for the row's key.
        with_key: the value and the key decide together.
        missing: split of rows without a value; None if they are errors.
        missing_texts: texts that mean a missing value.
    """

    split_of: SplitByHash | SplitByTime | SplitByValue | None
    column: str | None = None
    with_key: bool = False
    missing: str | None = None
    missing_texts: Collection[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the splits, such as ('train', 'test'); () if they are not known yet."""
        return self.split_of.names if self.split_of else ()

    def __call__(self, key: str | int, row: Mapping[str, Any]) -> str:
        """Returns the name of the split of a row.

        Args:
            key: the key of the row.
            row: the row, by column.

        Raises:
            ValueError: the row has no value in the column to split by, or a value that belongs to no split.
        """
        assert self.split_of is not None
        if self.column is None:
            return self.split_of(key)
        value = value_or_none(row, self.column)
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


def assignment(
    splits: Splits,
    pattern: str | None,
    by: SplitBy | None = None,
    train_until: str | None = None,
    stratify: str | None = None,
) -> Assignment | None:
    """Returns the function that names the split of each row; None if files do.

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
    if not isinstance(splits, Mapping):
        raise TypeError(f"splits: expected {{name: value}}, got {splits!r:.100}")
    if by is not None and not isinstance(by, SplitBy):
        raise TypeError(f"split_by: expected a SplitBy such as SplitBy(group='user'), got {by!r:.100}")
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
        wrong = next((name for name, value in splits.items() if not value or any(map(_is_share, several(value)))), None)
        if ways or wrong is not None:
            description = ways or f"{wrong!r}: {splits[wrong or '']!r}"
            raise ValueError(f"expected the files of all splits (--pattern 'data/*') beside {description}, got none")
        if not splits:
            raise ValueError("no input: give a pattern (--pattern 'data/*') or splits (--split train='data/train*')")
        return None
    if not ways and not splits:
        return None
    split_of = _make_assignment(way, splits, pattern)
    missing = by.missing if by else None
    if missing is not None and way == "stratify":
        raise ValueError(f"missing: expected none with --stratify: rows without {column!r} are a label of their own")
    if missing is not None and split_of is not None and missing not in split_of.names:
        raise ValueError(f"missing: expected one of the splits {list(split_of.names)}, got {missing!r}")
    return Assignment(split_of, column, way == "stratify", missing)


def as_options(
    splits: Splits, by: SplitBy | None = None, train_until: str | None = None, stratify: str | None = None
) -> str:
    """Returns the arguments of `assignment` as options of the command. For the arguments, see `assignment`.

    >>> as_options({"train": "80%", "test": "20%"}, SplitBy(group="user"))
    '--split_by group=user --splits train=80% --splits test=20%'
    """
    ways = {name: value for name, value in vars(by or SplitBy()).items() if value}
    options = [("--split_by", f"{name}={value}") for name, value in ways.items()]
    options += [("--train_until", train_until)] if train_until else []
    options += [("--stratify", stratify)] if stratify else []
    options += [("--splits", f"{name}={value}") for name, values in splits.items() for value in several(values)]
    return shlex.join(word for option in options for word in option)


def assignment_of_options(options: str, pattern: Patterns) -> Assignment | None:
    """Returns the assignment of options as `as_options` returns them; see `assignment`.

    >>> assignment_of_options("--stratify kind --splits train=80% --splits test=20%", "data/*").names
    ('train', 'test')
    """
    ways: dict[str, str] = {}
    others: dict[str, str] = {}
    splits: dict[str, list[str]] = {}
    for name, value in parse_options(options):
        key, _, argument = value.partition("=")
        if name == "splits":
            splits.setdefault(key, []).append(argument)
        elif name == "split_by":
            ways[key] = argument
        else:
            others[name] = value
    values = {name: each[0] if len(each) == 1 else each for name, each in splits.items()}
    return assignment(values, str(pattern), SplitBy(**ways) if ways else None, **others)


def _make_assignment(way: str, splits: Splits, pattern: str) -> SplitByHash | SplitByTime | SplitByValue | None:
    """Returns the rule that assigns the rows of one pattern to splits; None if the column's values name the splits.

    Raises:
        ValueError: a split is missing or has several values, or its share is invalid.
    """
    if way == "column":
        return SplitByValue(splits) if splits else None
    say = "train=..2026-01-01 --split test=2026-01-01.." if way == "time" else "train=80% --split test=20%"
    one = {name: value for name, value in splits.items() if isinstance(value, str)}
    if not splits or len(one) < len(splits):
        raise ValueError(f"expected each split once, such as --split {say}, got {dict(splits) or 'none'}")
    if way == "time":
        return SplitByTime(one)
    wrong = next((name for name, value in one.items() if share_of(value) is None), None)
    if wrong is not None and way == "key":
        raise ValueError(
            f"pattern is {pattern!r} and split {wrong!r} is {one[wrong]!r}: with a pattern for all splits give shares "
            f"(--split {say}), or leave the pattern out"
        )
    return SplitByHash(one)


def _is_share(text: str) -> bool:
    """Returns whether a text is a percentage, such as "80%"."""
    return text.strip().endswith("%") and share_of(text) is not None


def assign_sources(sources: dict[str, SourceUnits], assign: Assignment | None) -> dict[str, SourceUnits]:
    """Returns {split: source}, given {split or pattern: source}; samples rows if a column names the splits."""
    if assign is None:
        return sources
    [source] = sources.values()
    if assign.column is not None:
        for _ in islice(source.read(source.units[0]), 100):  # raises now what would end the run at once
            pass
    return dict.fromkeys(assign.names, source)


def check_single_split(splits: Collection[str]) -> None:
    """Checks that a published version, which does not record how rows are assigned to splits, has one split.

    Raises:
        InputError: it has several, so new rows of one pattern would be added to `train`, also those of other splits.
    """
    if len(splits) > 1:
        raise InputError(
            expected=f"the options that assign new rows to the splits {', '.join(splits)}, because the published "
            "version does not record these options",
            got="none",
            advice="Give those by which the rows were split, such as --split_by group=COLUMN --splits train=80% "
            f"--splits test=20%, or the files of a split: --splits {next(iter(splits))}=PATTERN",
        )
