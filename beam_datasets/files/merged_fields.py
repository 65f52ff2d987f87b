"""The field of a column that several files contain, possibly with different types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from beam_datasets.files.fields import FLOATS, INTEGERS, UNKNOWN, Field, advice, as_optional

NULL = "null"  # the source of the field of a column that only has nulls


class MergedColumn:
    """A column of several files.

    A column with only nulls, or with only empty lists, in a file fits any type of the others. Labels fit the integers
    that store them.

    Attributes:
        field: field of the column; a part of it that differs has a `problem`.
    """

    def __init__(self, name: str, field: Field, path: str) -> None:
        """Takes the field of the first file, at a path."""
        self.field = field
        self._name = name
        self._files = {"": path}  # path of a value -> the first file that has its type
        # path of a value -> {its type: its field, the first file that has it}, if there are several
        self._types: dict[str, dict[str, tuple[Field, str]]] = {}

    def add(self, field: Field, path: str) -> None:
        """Takes the field of a file, at a path, into account; the first one may be added again."""
        extensions = tuple((dict(self.field.extensions) | dict(field.extensions)).items())
        self.field = replace(self._merge_fields(self.field, field, self._name, path), extensions=extensions)

    def _merge_fields(self, one: Field, other: Field, value_path: str, path: str) -> Field:
        """Returns the field of values that have one field in the files before, and another in the current file.

        Args:
            one: field in the files before.
            other: field in the current file.
            value_path: path of the values: `a/x` is x in object a, `a[]` an item of list a.
            path: path of the current file.
        """
        if one.is_unreadable or other.is_unreadable:
            return one if one.is_unreadable else other
        if value_path in self._types and not other.problem:
            return self._conflict(one, other, value_path, path)
        if _is_null(other) or _is_null(one):
            if _is_null(one):
                self._files[value_path] = path
            known_field = one if _is_null(other) else other
            return known_field if "[]" in value_path or known_field.problem else as_optional(known_field)
        if one.problem or other.problem:
            return one if one.problem else other
        optional = one.optional or other.optional
        if {one.kind, other.kind} & {"class"} and {one.kind, other.kind} & {*INTEGERS}:
            return replace(one if one.kind == "class" else other, optional=optional)
        if (
            replace(one, item=None, fields=None, optional=optional)
            != replace(other, item=None, fields=None, optional=optional)
            or (one.fields or {}).keys() != (other.fields or {}).keys()
        ):
            return self._conflict(one, other, value_path, path)
        merged = replace(one, optional=optional)
        if one.item is not None and other.item is not None:
            merged = replace(merged, item=self._merge_fields(one.item, other.item, f"{value_path}[]", path))
        if one.fields is not None and other.fields is not None:
            pairs = {name: (field, other.fields[name]) for name, field in one.fields.items()}
            inner = {name: self._merge_fields(*pair, f"{value_path}/{name}", path) for name, pair in pairs.items()}
            merged = replace(merged, fields=inner)
        return merged

    def _conflict(self, one: Field, other: Field, value_path: str, path: str) -> Field:
        """Returns an UNKNOWN field for values whose types differ; its problem names the options that accept both.

        Args:
            one: field in the files before; one with such a problem if their types differ.
            other: field in the current file.
            value_path: path of the values; see `_merge_fields`.
            path: path of the current file.
        """
        first = next(file for start, file in reversed(self._files.items()) if value_path.startswith(start))
        types = self._types.setdefault(value_path, {_type_text(one): (one, first)})
        same_field, file = types.get(_type_text(other), (other, path))
        types[_type_text(other)] = replace(same_field, optional=same_field.optional or other.optional), file
        fields = [field for field, _ in types.values()]
        mark, number = "?" * any(field.optional for field in fields), common_number(fields)
        all_types = "both" if len(fields) == 2 else "all"
        ways = [f"{advice(value_path, number + mark)} holds the numbers of {all_types}"] * bool(number)
        if any(map(_is_decimal, fields)) and all(_is_decimal(each) or common_number([each]) for each in fields):
            ways.append(f"{advice(value_path, 'float64' + mark)} makes numbers of {all_types}, if float64 has them")
        ways.append(f"{advice(value_path, 'string' + mark)} makes text of anything")
        ways.append(f"{advice(value_path.replace('[]', ''), 'drop')} leaves it out")
        *texts, last = (f"{text} in {file}" for text, (_, file) in types.items())
        problem = f"column {value_path!r} is {', '.join(texts)} and {last}; {'; '.join(ways)}"
        return Field(UNKNOWN, problem=problem)


def _type_text(field: Field) -> str:
    """Returns the type of a field for errors: that of the file, or "int64" also for an optional field, "int64?"."""
    return field.source or str(replace(field, optional=False))


def _is_decimal(field: Field) -> bool:
    """Returns whether a field is that of a column of decimals, which become text unless a type is given."""
    return field.source.startswith("decimal")


def _is_null(field: Field) -> bool:
    """Returns whether a field is that of a column with only nulls."""
    return field.kind == UNKNOWN and field.source == NULL


def common_number(fields: Collection[Field]) -> str:
    """Returns the type of numbers, or of lists of them, that holds the numbers of all fields; '' if none does.

    >>> common_number([Field("int32"), Field("int64")]), common_number([Field("uint8"), Field("float32")])
    ('int64', 'float64')
    """
    kinds, dimensions = set(), set()
    for field in fields:
        item, dimension = field, 0
        while item.item is not None:
            dimension += len(item.shape) or 1
            item = item.item
        kinds.add("int64" if item.kind == "class" else item.kind)
        dimensions.add(dimension)
    if len(dimensions) > 1 or not kinds <= {*INTEGERS, *FLOATS}:
        return ""
    brackets = "[]" * dimensions.pop()
    if kinds <= {*INTEGERS}:
        name = np.result_type(*kinds).name
        return name + brackets if name in INTEGERS else ""
    return ("float64" if kinds & {*INTEGERS} else max(kinds, key=FLOATS.index)) + brackets
