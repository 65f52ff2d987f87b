"""The schema of a file's rows: a small tree of fields, written as text on the command line, turned into features.

int8 ... uint64, float16, float32, float64, bool, string      one value
int64?                                                        may be missing (null, or an empty CSV field)
float32[]   int64[][]   int64[3]   float32[28,28]             a list of any length; of lists; a fixed shape
int64[]?                                                      a missing list is an empty one
?                                                             what was found in the files, and it may be missing
class:cat,dog    class:10                                     a label by name; a label 0 to 9
class                                                         its names are those that the rows have
image                                                         the bytes of an image, or (in text) its path
drop                                                          left out
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from beam_datasets import features

if TYPE_CHECKING:
    from collections.abc import Mapping

    from beam_datasets.features import FeatureConnector

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "float32", "float64")
FOUND = "found"  # the kind of a field that only says that what is found may be missing
SCALARS = (*INTEGERS, *FLOATS, "bool", "string")
_SPEC = re.compile(r"(?P<kind>\w+)(?::(?P<labels>.+?))?(?P<lists>(?:\[\])+|\[[\d,\s]*\])?(?P<optional>\?)?", re.DOTALL)


@dataclass(frozen=True)
class Field:
    """What a column, or a value inside one, holds.

    Attributes:
        kind: one of SCALARS, `class`, `image`, `drop`, or `list`, `tensor`, `object`; FOUND of an override.
        optional: None is a value too; of a list an empty one.
        labels: of a `class`; an integer where only their number is known, None where the rows decide.
        item: of a `list` or `tensor`.
        shape: of a `tensor`, or of an `image` where it is known.
        exact: of a float32 that nobody asked for: a number whose digits it does not keep is refused. Of a `class`:
            integers are indexes, never names.
        fields: of an `object`, by name.
    """

    kind: str
    optional: bool = False
    labels: tuple[str, ...] | int | None = None
    item: Field | None = None
    shape: tuple[int | None, ...] = ()
    exact: bool = False
    fields: Mapping[str, Field] | None = None

    def __str__(self) -> str:
        text = self.kind
        if self.kind == "class" and self.labels is not None:
            text = f"class:{self.labels if isinstance(self.labels, int) else ','.join(self.labels)}"
        elif self.item is not None:
            text = f"{self.item}[{','.join(map(str, self.shape))}]"
        elif self.fields is not None:
            text = "{" + ", ".join(f"{name}: {field}" for name, field in self.fields.items()) + "}"
        return text + "?" * self.optional


def parse_field(spec: str) -> Field:
    """Returns the field that a text describes.

    >>> parse_field("float32[28,28]").shape, parse_field("class:cat,dog").labels, str(parse_field("int64[]"))
    ((28, 28), ('cat', 'dog'), 'int64[]')

    Raises:
        ValueError: the text is not of the grammar above.
    """
    if spec.strip() == "?":
        return Field(FOUND, optional=True)
    match = _SPEC.fullmatch(spec.strip())
    kind = (
        {"text": "string", "int": "int64", "float": "float32", "str": "string", "bytes": "string"}.get(
            match["kind"], match["kind"]
        )
        if match
        else ""
    )
    if not match or kind not in (*SCALARS, "class", "image", "drop") or (match["labels"] and kind != "class"):
        raise ValueError(
            f"{spec!r} is no feature; write {', '.join(SCALARS)}, class:cat,dog, class:10, class, image or drop; "
            "behind it [] or [28,28] for lists, ? for what may be missing; ? alone for what is found and may be missing"
        )
    field = _in_lists(Field(kind, labels=_labels(match["labels"])), match["lists"] or "", spec)
    return replace(field, optional=bool(match["optional"]))


def _in_lists(field: Field, brackets: str, spec: str) -> Field:
    """Returns the field of lists, one in the other, or of an array of a field's values."""
    if brackets and field.kind in ("image", "drop"):
        raise ValueError(f"{spec!r}: a list of {field.kind} cannot be stored")
    shape = tuple(int(size) for size in brackets.strip("[]").split(",") if size.strip())
    if shape:
        return Field("tensor", item=field, shape=shape)
    for _ in range(brackets.count("[")):
        field = Field("list", item=field)
    return field


def _labels(text: str | None) -> tuple[str, ...] | int | None:
    if text is None:
        return None
    return int(text) if text.isdecimal() else tuple(label.strip() for label in text.split(","))


def advice(path: str, kind: str) -> str:
    """Returns the option that says of what is at a path, or of the items of lists there, what it is.

    >>> advice("a/x", "float64"), advice("a[]", "float64"), advice("a[]/x", "drop")
    ('--feature a/x=float64', "--feature 'a=float64[]'", '--feature a/x=drop')
    """
    name = path.rstrip("[]")
    return f"--feature {shlex.quote(name.replace('[]', '') + '=' + kind + path[len(name) :])}"


def override(
    fields: Mapping[str, Field], specs: Mapping[str, str | Field], *, may_add: bool = False
) -> dict[str, Field]:
    """Returns the fields with some of them replaced; a name `a/b` means field b of object a, or of those in list a.

    Args:
        fields: what was found in the files.
        specs: name -> its description, or the field itself.
        may_add: a name that is not there is added: rows that nobody looked at may have it.

    Raises:
        ValueError: there is no such field, or a description is not of the grammar.
    """
    result = dict(fields)
    for name, spec in specs.items():
        outer, _, inner = name.partition("/")
        parent = result.get(outer)
        wanted = parse_field(spec) if isinstance(spec, str) else spec
        if name not in result and inner and parent is not None and _has_fields(parent):
            result[outer] = _overridden(parent, {inner: spec}, may_add)
        elif wanted.kind == FOUND and name in result:
            result[name] = replace(result[name], optional=True)
        elif wanted.kind != FOUND and (name in result or may_add):
            result[name] = wanted
        else:
            raise ValueError(f"feature {name!r} is not in the files; they have {', '.join(map(repr, result))}")
    return {name: field for name, field in result.items() if field.kind != "drop"}


def _has_fields(field: Field) -> bool:
    return field.fields is not None or (field.item is not None and _has_fields(field.item))


def _overridden(field: Field, specs: Mapping[str, str | Field], may_add: bool) -> Field:
    """Returns an object, or lists of them, with fields replaced."""
    if field.item is not None:
        return replace(field, item=_overridden(field.item, specs, may_add))
    return replace(field, fields=override(field.fields or {}, specs, may_add=may_add))


def to_feature(field: Field) -> FeatureConnector:
    """Returns the feature that stores a field."""
    if field.fields is not None:
        return features.FeaturesDict({name: to_feature(inner) for name, inner in field.fields.items()})
    if field.kind == "list" and field.item is not None:
        if field.item.kind == "float64":  # one value of bytes for all items, not one each
            return features.Tensor(shape=(None,), dtype="float64", encoding="bytes")
        return features.Sequence(to_feature(field.item))
    if field.kind == "tensor" and field.item is not None:
        kind = field.item.kind
        return features.Tensor(shape=field.shape, dtype=kind, encoding=_encoding(kind), optional=field.optional)
    if field.kind == "class":
        known = field.labels
        return features.ClassLabel(num_classes=known) if isinstance(known, int) else features.ClassLabel(names=known)
    if field.kind == "image":
        return features.Image(shape=field.shape or None)
    if field.kind == "string" and not field.optional:
        return features.Text()
    return features.Tensor(shape=(), dtype=field.kind, optional=field.optional, encoding=_encoding(field.kind))


def _encoding(kind: str) -> str:
    """Returns how a kind of number is stored: a float64 would become a float32, bytes keep what was asked for."""
    return "bytes" if kind == "float64" else "none"
