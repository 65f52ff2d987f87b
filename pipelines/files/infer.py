"""Guesses a schema from rows: what all values of a column seen so far have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError
from pipelines.files.floats import survives
from pipelines.files.schema import Field, advice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterator, Sequence

Place = object  # its text names file and line; made when an error needs it

_INT = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*", re.ASCII | re.IGNORECASE)
_LEADING_ZERO = re.compile(r"\s*[+-]?0\d")
_BOOLS = frozenset(("true", "false"))
_KINDS = {
    bool: "bool",
    float: "float",
    str: "string",
    bytes: "string",
    type(None): "missing",
    list: "list",
    dict: "object",
}


def kind_of_value(value: Any) -> str:
    """Returns the kind of a value of JSON (or of a row of Arrow).

    Raises:
        ValueError: a value of this type cannot be stored.
    """
    if type(value) is int:
        return "int" if -(2**63) <= value < 2**63 else "big integer"
    try:
        return _KINDS[type(value)]
    except KeyError:
        raise ValueError(f"values of type {type(value).__name__} cannot be stored") from None


def text_kinds(missing: Collection[str] = ("",)) -> Callable[[str], str]:
    """Returns a function from a CSV field to its kind; numbers with leading zeros are codes, not numbers.

    >>> [text_kinds()(text) for text in ("", "7", "007", "1e3", "TRUE", "9" * 20, "nan", "1_000")]
    ['missing', 'int', 'string', 'float', 'bool', 'string', 'float', 'string']
    """

    def kind(text: str) -> str:
        if text in missing:
            return "missing"
        if _LEADING_ZERO.match(text):
            return "string"
        if _INT.fullmatch(text):
            return "int" if -(2**63) <= int(text) < 2**63 else "string"
        if _FLOAT.fullmatch(text):
            return "float"
        return "bool" if text.lower() in _BOOLS else "string"

    return kind


@dataclass
class Guess:
    """What is known of the values of one column.

    Attributes:
        seen: kind -> how many values have it, where the first stands, and that value.
        rows: of an object, how many there were; a field seen less often is missing in some.
        labels: the distinct values that could be labels, MOST_LABELS at most.
        wide: whether there is a number that float32 would change.
        may_miss: whether somebody said that it may be missing.
    """

    seen: dict[str, tuple[int, Place, Any]] = field(default_factory=dict)
    rows: int = 0
    item: Guess | None = None
    fields: dict[str, Guess] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    wide: bool = False
    may_miss: bool = False

    MOST_LABELS = 10_000

    def add(self, value: Any, place: Place, kind_of: Callable[[Any], str] = kind_of_value) -> None:
        """Takes another value into account."""
        kind = kind_of(value)
        count, first, example = self.seen.get(kind, (0, place, value))
        self.seen[kind] = (count + 1, first, example)
        if not self.wide and kind in ("float", "int"):
            self.wide = not survives(float(value))
        if kind == "list":
            self.item = self.item or Guess()
            for inner in value:
                self.item.add(inner, place, kind_of)
        elif kind == "object":
            self.add_row(value, place, kind_of)
        elif kind in ("string", "int", "bool") and len(self.labels) < self.MOST_LABELS:
            self.labels.add(str(value))

    def add_row(self, row: dict[str, Any], place: Place, kind_of: Callable[[Any], str] = kind_of_value) -> None:
        """Takes another object into account."""
        self.rows += 1
        for name, value in row.items():
            guess = self.fields.get(name)
            if guess is None:
                guess = self.fields[name] = Guess()
            try:
                guess.add(value, place, kind_of)
            except ValueError as error:
                raise InputError(f"{place}: {name!r}: {error}") from None

    def count(self) -> int:
        """Returns how many values there were."""
        return sum(count for count, _, _ in self.seen.values())

    def forget(self, path: Sequence[str]) -> None:
        """Drops what is known of a column, or of a field of an object, or of the objects of a list, in one."""
        owner, name = self._owner(path)
        owner.fields.pop(name, None)

    def allow_missing(self, path: Sequence[str]) -> None:
        """Notes that a column, or such a field, may be missing."""
        owner, name = self._owner(path)
        if name in owner.fields:
            owner.fields[name].may_miss = True

    def _owner(self, path: Sequence[str]) -> tuple[Guess, str]:
        """Returns the guess of the objects that have a field, and its name there."""
        if self.item is not None and not self.fields:
            return self.item._owner(path)
        name, *inner = path
        joined = "/".join(path)
        if joined in self.fields or name not in self.fields or not inner:
            return self, joined
        return self.fields[name]._owner(inner)

    def label_names(self) -> tuple[str, ...] | int:
        """Returns the labels that the values are: their number where they are 0, 1, 2 ..., else their sorted names."""
        if self.labels == {str(i) for i in range(len(self.labels))}:
            return len(self.labels)
        return tuple(sorted(self.labels))

    def notes(self, *, but_not: Container[str] = ()) -> Iterator[str]:
        """Yields what a user should know of columns that are text although nearly all of their values are numbers."""
        for name, guess in self.fields.items():
            strings, place, example = guess.seen.get("string", (0, "", ""))
            total = guess.count() - guess.seen.get("missing", (0,))[0]
            if name not in but_not and 0 < strings <= total // 10:
                yield (
                    f"column {name!r} is text: {strings} of {total} values are no numbers (first {example!r:.40} "
                    f"in {place}); if they mean a missing value, say --missing {example!r:.40}"
                )

    def row_fields(
        self, path: str = "", *, lenient: bool = False, optional: bool = False, inside_list: bool = False
    ) -> dict[str, Field]:
        """Returns the field of each column.

        Args:
            path: name of this object in errors, with its `/`.
            lenient: values of several kinds make a string, and so does nothing at all; else they are errors.
            optional: this object itself is missing somewhere, so everything in it is missing there.
            inside_list: nothing can be missing there.

        Raises:
            InputError: a column's values fit no field.
        """
        result = {}
        for name, guess in self.fields.items():
            own = guess.count() < self.rows or "missing" in guess.seen
            where = f"{path}{name}"
            if own and guess.item is not None and not guess.may_miss:
                raise InputError(guess._missing_list(where))
            result[name] = guess.field(where, optional=optional or own, lenient=lenient, inside_list=inside_list)
        return result

    def _missing_list(self, path: str) -> str:
        return (
            f"{path!r} is a list that is missing{self._where('missing')}, which cannot be stored; {advice(path, '?')} "
            f"makes an empty list of it, {advice(path, 'drop')} leaves all of them out"
        )

    def field(self, path: str, *, optional: bool, lenient: bool, inside_list: bool = False) -> Field:
        """Returns the one field that all values fit; the arguments are those of `row_fields`."""
        kinds = set(self.seen) - {"missing"}
        optional = optional or "missing" in self.seen
        kind = _merge(kinds, wide=self.wide)
        if optional and inside_list and kind != "list":
            raise InputError(
                f"{path!r} is missing{self._where('missing')} inside a list, which cannot be stored; "
                f"{advice(path.replace('[]', ''), 'drop')} leaves it out"
            )
        if kind == "list" and self.item is not None:
            return Field("list", item=self._item(path, lenient), optional=self.may_miss)
        if kind == "object":
            inner = self.row_fields(f"{path}/", lenient=lenient, optional=optional, inside_list=inside_list)
            return Field("object", optional=optional, fields=inner)
        if kind:
            return Field(kind, optional=optional and not (lenient and kind == "string"), exact=kind == "float32")
        if lenient:
            return Field("string")
        raise InputError(f"{path!r}: {self._conflict()}; {_hint(path)}")

    def _item(self, path: str, lenient: bool) -> Field:
        if self.item is None or not self.item.seen:
            raise InputError(f"{path!r}: every list is empty, so the type of its items is unknown; {_hint(path)}")
        return self.item.field(f"{path}[]", optional=False, lenient=lenient, inside_list=True)

    def _where(self, kind: str) -> str:
        if kind not in self.seen:
            return ""
        return f" (first in {self.seen[kind][1]})"

    def _conflict(self) -> str:
        kinds = {kind: seen for kind, seen in self.seen.items() if kind != "missing"}
        if not kinds:
            return "no row has a value, so its type is unknown"
        return "the values do not fit one type: " + ", ".join(
            f"{kind} ({count} times, first {example!r:.40} in {place})"
            for kind, (count, place, example) in kinds.items()
        )


def _merge(kinds: set[str], *, wide: bool) -> str:
    """Returns the kind of field that holds all these kinds of values; '' where none does."""
    if kinds == {"int"}:
        return "int64"
    if kinds in ({"float"}, {"int", "float"}):
        return "float64" if wide else "float32"
    return next(iter(kinds)) if len(kinds) == 1 and kinds != {"big integer"} else ""


def _hint(path: str) -> str:
    name = path.replace("[]", "")
    return f"say what it is ({advice(name, 'string')} makes text of anything, {advice(name, 'drop')} leaves it out)"
