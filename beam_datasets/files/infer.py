"""Schema inference: the type of each column that fits all of its values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from beam_datasets.files.convert import LEADING_ZERO, missing_problem, survives
from beam_datasets.files.fields import MAX_LABELS, UNKNOWN, Field, advice, feature_name
from beam_datasets.files.numerals import PYTHON, Numerals, options_for

KindOf = Callable[[Any], str]

_INT = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*", re.ASCII | re.IGNORECASE)
_KINDS = {bool: "bool", float: "float", str: "string", type(None): "missing", list: "list", dict: "object"}
_INT64 = range(-(2**63), 2**63)
_NUMBER_STARTS = frozenset("0123456789+-.iInN \t\n\r\f\v")  # also of infinity, and of NaN
_MAX_FLOAT32_INT = 1 << 24  # up to it, float32 has all integers
_INT64_DIGITS = 20  # with the sign; Python refuses to convert thousands of digits
MAX_DEPTH = 32  # of objects and lists that become features
TOO_DEEP = "too deep"
_MAX_TEXTS = 64  # distinct texts of a column of CSV that are kept
_MAX_LISTED_TEXTS = 3  # texts that advice lists
_MAX_TEXT = 40  # characters of a text that advice lists


def kind_of_value(value: Any) -> str:
    """Returns the kind of a value of JSON.

    >>> [kind_of_value(value) for value in (1, 1 << 64, 1.5, "a", True, None, [], {})]
    ['int', 'big integer', 'float', 'string', 'bool', 'missing', 'list', 'object']
    """
    if type(value) is int:
        return "int" if value in _INT64 else "big integer"
    return _KINDS[type(value)]


@dataclass(frozen=True)
class TextKinds:
    """The function from a CSV field to its kind; numbers with leading zeros are codes, not numbers.

    Attributes:
        missing: texts that mean a missing value.
        numerals: the separators in numbers.

    >>> [TextKinds()(text) for text in ("", "7", "007", "1e3", "TRUE", "9" * 20, "nan", "1_000", "1e999")]
    ['missing', 'int', 'string', 'float', 'bool', 'string', 'float', 'string', 'string']
    >>> [TextKinds(numerals=Numerals(decimal=","))(text) for text in ("1,5", "1.5")]
    ['float', 'string']
    """

    missing: Collection[str] = ("",)
    numerals: Numerals = PYTHON

    def __call__(self, text: str) -> str:
        """Returns "missing", "int", "float", "bool" or "string", the kind of a text of a CSV field."""
        if text in self.missing:
            return "missing"
        if not self.numerals.is_python:
            text = self.numerals.to_python(text) or "?"
        if text[:1] not in _NUMBER_STARTS:
            return "bool" if len(text) < 6 and text.lower() in ("true", "false") else "string"
        if LEADING_ZERO.match(text):
            return "string"
        if _INT.fullmatch(text):
            if len(text) < _INT64_DIGITS - 1:
                return "int"
            return "int" if len(text.strip()) <= _INT64_DIGITS and int(text) in _INT64 else "string"
        if _FLOAT.fullmatch(text):
            return "string" if abs(float(text)) == float("inf") and "n" not in text.lower() else "float"
        return "string"


@dataclass
class Guess:
    """Observed kinds and facts of the values of one column.

    Attributes:
        seen: kind -> (number of values of the kind, location of the first one, whose text is file and line, that
            value).
        rows: number of objects, for an object; a field seen less often is missing in some.
        labels: the distinct values that could be labels, MAX_LABELS at most.
        is_wide: there is a number that float32 would change.
        has_codes: there is a text of digits that no type of numbers keeps: with leading zeros, or beyond int64.
        texts: the first distinct texts of a column of CSV that are not numbers, _MAX_TEXTS at most, as keys.
    """

    seen: dict[str, tuple[int, object, Any]] = field(default_factory=dict)
    rows: int = 0
    item: Guess | None = None
    fields: dict[str, Guess] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    is_wide: bool = False
    has_codes: bool = False
    texts: dict[str, None] = field(default_factory=dict)

    def add(self, value: Any, location: object, kind_of: KindOf = kind_of_value, depth: int = 0) -> None:
        """Adds the kind of a value.

        Args:
            value: a value of JSON, or the text of a CSV field.
            location: the place of its row; `str(place)` names file and line in messages.
            kind_of: the function from a value to its kind.
            depth: the number of lists and objects around the value.
        """
        kind = kind_of(value) if depth < MAX_DEPTH else TOO_DEEP
        count, first, example = self.seen.get(kind, (0, location, value))
        self.seen[kind] = (count + 1, first, example)
        if kind == "string" and isinstance(kind_of, TextKinds):
            if not self.has_codes and value[:1] in _NUMBER_STARTS:
                self.has_codes = bool(LEADING_ZERO.match(value) or _INT.fullmatch(value))
            if len(self.texts) < _MAX_TEXTS:
                self.texts[value] = None
        if not self.is_wide and kind in ("float", "int"):
            plain = value
            if isinstance(kind_of, TextKinds) and not kind_of.numerals.is_python:
                plain = kind_of.numerals.to_python(value) or ""
            if kind == "float" or abs(int(plain)) > _MAX_FLOAT32_INT:
                number = float(plain)
                self.is_wide = not survives(number) or (kind == "int" and int(number) != int(plain))
        if kind == "list":
            self.item = self.item or Guess()
            for inner in value:
                self.item.add(inner, location, kind_of, depth + 1)
        elif kind == "object":
            self.add_row(value, location, kind_of, depth + 1)
        elif kind in ("string", "int", "bool") and len(self.labels) < MAX_LABELS:
            self.labels.add(str(value))

    def add_row(self, row: dict[str, Any], location: object, kind_of: KindOf = kind_of_value, depth: int = 0) -> None:
        """Adds the kinds of the values of an object or a row; see `add` for the arguments."""
        self.rows += 1
        for name, value in row.items():
            guess = self.fields.get(name)
            if guess is None:
                guess = self.fields[name] = Guess()
            guess.add(value, location, kind_of, depth)

    def values_at(self, path: str) -> set[str]:
        """Returns the values of field a/b that could be labels, also of the objects in list a.

        Args:
            path: path of the field, such as `a/b`.
        """
        if self.item is not None and not self.fields:
            return self.item.values_at(path)
        if not path:
            return self.labels
        name = path if path in self.fields else path.partition("/")[0]
        return self.fields[name].values_at(path[len(name) + 1 :]) if name in self.fields else set()

    def count(self, kind: str = "") -> int:
        """Returns the number of values of a kind, or of all that are not missing."""
        return sum(count for each, (count, _, _) in self.seen.items() if (each == kind if kind else each != "missing"))


@dataclass
class Inference:
    """Converts guesses to fields. A column that fits no field gets a `problem`; all problems are reported together.

    Attributes:
        is_text: the values are texts of CSV. A column is text if half of its values or more are, or if none has a
            value; fewer texts among numbers are a problem, as other types are.
        numerals: the separators in numbers of such texts.
        skip_bad: a type that more than half of the values have is taken, and the rows of the others are left out.
        may_lack: files may lack columns that others have, so lists that are missing are empty ones.
        notes: notes about decisions of `skip_bad`, as (path, text).
    """

    is_text: bool = False
    numerals: Numerals = PYTHON
    skip_bad: bool = False
    may_lack: bool = False
    notes: list[tuple[str, str]] = field(default_factory=list)

    def fields(
        self, guess: Guess, path: str = "", *, optional: bool = False, inside_list: bool = False
    ) -> dict[str, Field]:
        """Returns the field of each column.

        Args:
            guess: facts about the rows, or about objects in them.
            path: name of the object in errors, with its `/`.
            optional: the object itself is missing somewhere.
            inside_list: nothing can be missing there.
        """
        return {
            name: self._field(one, path + name, guess.rows - one.count(), optional, inside_list)
            for name, one in guess.fields.items()
        }

    def _field(self, guess: Guess, path: str, missing: int, optional: bool, inside_list: bool) -> Field:
        """Returns the field of a column.

        Args:
            guess: facts about the values of the column.
            path: path of the column: `a/x` is x in object a, `a[]` an item of list a.
            missing: number of values that are missing.
            optional: whether an object that contains it is missing somewhere.
            inside_list: whether it is inside of a list, where nothing can be missing.
        """
        kind = self._kind(guess, path)
        inferred: Field
        if kind == "list":
            inferred = Field("list", item=self._item(guess.item or Guess(), path))
        elif kind == "object":
            absent = optional or (missing > 0 and not inside_list)
            inner = self.fields(guess, f"{path}/", optional=absent, inside_list=inside_list)
            inferred = Field("object", optional=absent, fields=inner)
        elif TOO_DEEP in guess.seen:
            column, location = feature_name(path.partition("/")[0]), guess.seen[TOO_DEEP][1]
            problem = f"{column!r} (first in {location}): nested more than {MAX_DEPTH} deep; {_hint(column)}"
            return Field(UNKNOWN, problem=problem)
        elif kind == UNKNOWN:
            text = "string?" if missing and not inside_list and not self.is_text else "string"
            majority_kinds = " or ".join(sorted(_majority(guess)))
            skip = (
                f"; --skip_bad leaves out the rows with other values than {majority_kinds}"
                if majority_kinds and not inside_list
                else ""
            )
            options = _options_for_numbers(guess, self.numerals) if self.is_text else ""
            missing_options = _options_for_missing(guess) if self.is_text and not options else ""
            return Field(
                UNKNOWN,
                problem=f"{path!r}: {_conflict(guess)}; {options}{_hint(path, text)}{missing_options}{skip}",
            )
        else:
            may_miss = (optional or (missing > 0 and not inside_list)) and not (self.is_text and kind == "string")
            is_majority = kind == "string" and not self.is_text and bool(set(guess.seen) - {kind, "missing"})
            inferred = Field(kind, optional=may_miss, exact=kind in ("int64", "float32") or is_majority)
        if not missing or (kind != "list" and not inside_list):
            return inferred
        if self.may_lack and not inside_list:
            return replace(inferred, optional=True)
        return self._handle_missing(inferred, guess, path, missing)

    def _handle_missing(self, field: Field, guess: Guess, path: str, missing: int) -> Field:
        """Returns the field of a column that lacks values, of a type that cannot store missing values.

        With `skip_bad`, and if less than half of the values are missing, it is `field`, and a note is added that their
        rows are left out. Otherwise the returned field has a `problem`.

        Args:
            field: field of the values that are not missing.
            guess: facts about these values.
            path: path of the column; see `_field`.
            missing: number of missing values.
        """
        location_note = f" (first in {guess.seen['missing'][1]})" if "missing" in guess.seen else ""
        if self.skip_bad and 2 * missing < missing + guess.count():
            note = f"{path!r} is missing in {missing} values{location_note}; their rows are left out (--skip_bad)"
            self.notes.append((path, note))
            return field
        return replace(field, problem=f"{path!r}{location_note}: {missing_problem(field, path)}")

    def _item(self, guess: Guess, path: str) -> Field:
        """Returns the field of the items of a list; if no list has an item, a field with a `problem`.

        Args:
            guess: the values of the field, which are lists.
            path: path of the field, such as `a/b[]` for the items of list b in object a; for messages.
        """
        if not guess.seen:
            return Field(
                UNKNOWN, problem=f"{path!r}: every list is empty, so the type of its items is unknown; {_hint(path)}"
            )
        return self._field(guess, f"{path}[]", guess.count("missing"), False, True)

    def _kind(self, guess: Guess, path: str) -> str:
        """Returns the kind of field that holds all values; UNKNOWN if none does.

        Args:
            guess: the values of the field.
            path: path of the field, such as `a/b[]` for the items of list b in object a; for messages.
        """
        kinds, majority = set(guess.seen) - {"missing"}, _majority(guess)
        if self.is_text and (not kinds or _is_text(guess)):
            return "string"
        if self.skip_bad and majority and majority != kinds:
            note = (
                f"{path!r}: {_conflict(guess)}; the rows with other values than {' or '.join(sorted(majority))} "
                "are left out (--skip_bad)"
            )
            self.notes.append((path, note))
            kinds = majority
        if kinds == {"int"}:
            return "int64"
        if kinds and kinds <= {"int", "float"}:
            return "float64" if guess.is_wide else "float32"
        return kinds.pop() if len(kinds) == 1 and not kinds & {"big integer", TOO_DEEP} else UNKNOWN


def _is_text(guess: Guess) -> bool:
    """Returns whether a column of CSV is text: half of its values are, or there are codes such as 007."""
    strings = guess.count("string")
    return bool(strings) and (2 * strings >= guess.count() or guess.has_codes)


def _options_for_numbers(guess: Guess, numerals: Numerals) -> str:
    """Returns "--decimal , makes numbers of texts such as '1,5'; " for a column whose texts are all such; or ''."""
    options = {options_for(text, numerals) for text in guess.texts}
    if len(options) != 1 or "" in options or guess.count("bool"):
        return ""
    [option] = options
    if "--decimal" in option and guess.count("float"):
        return ""  # the numbers with the other separator would become texts
    return f"{option} makes numbers of texts such as {next(iter(guess.texts))!r:.40}; "


def _options_for_missing(guess: Guess) -> str:
    """Returns the options that make missing values of all texts among numbers, as a clause; '' for too many texts."""
    are_few = 0 < len(guess.texts) <= _MAX_LISTED_TEXTS
    are_among_numbers = set(guess.seen) <= {"int", "float", "string", "missing"}
    if not are_few or not are_among_numbers or max(map(len, guess.texts)) > _MAX_TEXT:
        return ""
    options = " ".join(f"--missing{'=' if text.startswith('-') else ' '}{shlex.quote(text)}" for text in guess.texts)
    texts = " and ".join(map(repr, guess.texts))
    return f"; {options} if {texts} {'means' if len(guess.texts) == 1 else 'mean'} a missing value"


def _majority(guess: Guess) -> set[str]:
    """Returns the kinds that more than half of the values have; empty if there is no such kind.

    Integers and floats count as one kind: {'int', 'float'} if both occur.
    """
    kinds = set(guess.seen) - {"missing"}
    counts = {kind: guess.count(kind) for kind in kinds - {"int", "float", "big integer"}}
    most_frequent = max(counts, key=lambda kind: counts[kind], default="")
    has_numbers = guess.count("int") + guess.count("float") > counts.get(most_frequent, 0)
    majority = kinds & {"int", "float"} if has_numbers else {most_frequent} & kinds
    return majority if 2 * sum(map(guess.count, majority)) > guess.count() else set()


def _conflict(guess: Guess) -> str:
    """Returns the reason for the unknown type of a column, with the count and first example of each kind of values."""
    kinds = {kind: occurrence for kind, occurrence in guess.seen.items() if kind != "missing"}
    if not kinds:
        return "no row has a value, so its type is unknown"
    return "the values do not fit one type: " + ", ".join(
        f"{kind} ({count} {'time' if count == 1 else 'times'}, first {example!r:.40} in {location})"
        for kind, (count, location, example) in kinds.items()
    )


def _hint(path: str, text: str = "string") -> str:
    """Returns advice on the type of a field: "say what it is (--feature a=string makes text of anything, ...)"."""
    name = feature_name(path)
    return f"say what it is ({advice(name, text)} makes text of anything, {advice(name, 'drop')} leaves it out)"
