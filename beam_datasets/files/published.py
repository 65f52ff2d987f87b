"""The schema of the version that files are appended to, as the default of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from beam_datasets import features
from beam_datasets.features import FeatureConnector
from beam_datasets.features.trees import find_difference
from beam_datasets.files.fields import (
    UNKNOWN,
    Field,
    SoundType,
    as_exact,
    as_optional,
    nested_paths,
    parse_field,
    to_feature,
)
from beam_datasets.files.infer import Guess

_MISSING_OTHERWISE = ("class", "list", "image", "audio", "object", UNKNOWN)
"""Kinds of fields whose features do not differ if values may be missing, or that are never optional."""


def recorded_types(fields: Mapping[str, Field]) -> dict[str, str]:
    """Returns {column: type}, as inputs.json records it for `published_fields`.

    The type of objects is `?` if they may be missing; otherwise the features describe them.

    >>> recorded_types({"a": Field("int8"), "b": Field("object", fields={}), "c": Field("object", True, fields={})})
    {'a': 'int8', 'c': '?'}
    """
    types = {name: str(field) for name, field in fields.items()}
    objects = {name: "?" for name, text in types.items() if "{" in text and text.endswith("?")}
    return {name: text for name, text in types.items() if "{" not in text} | objects


def published_fields(columns: Mapping[str, str], tree: FeatureConnector | None) -> dict[str, Field]:
    """Returns {column: field} of a published version.

    Args:
        columns: column -> its type, as the builder of the version recorded it; `?` for one of `tree` that may be
            missing; empty for a version that no builder of files has written.
        tree: the features of the version, which describe all other columns; None if they are unknown.

    >>> tree = features.FeaturesDict({"a": features.Scalar("int16"), "b": features.Text(), "c": {"x": "float32"}})
    >>> {name: str(field) for name, field in published_fields({"b": "string?"}, tree).items()}
    {'a': 'int16', 'b': 'string?', 'c': '{x: float32}'}
    """
    described = field_of(tree) if isinstance(tree, features.FeaturesDict) else None
    fields = dict(described.fields or {}) if described else {}
    for name, spec in columns.items():
        if spec == "?":
            fields |= {name: as_optional(fields[name])} if name in fields else {}
        elif spec != "drop":
            fields[name] = parse_field(spec)
    return fields


def published_drops(
    published: Mapping[str, str], specs: Mapping[str, str], fields: Mapping[str, Field]
) -> dict[str, str]:
    """Returns the published descriptions of columns and fields to leave out, of those that the files have.

    A description is left out if the type of a field inside it is given.

    Args:
        published: name -> "drop".
        specs: the given types, as `features` of a builder takes them.
        fields: the fields of the files.

    >>> published, fields = dict.fromkeys(["a", "b", "c"], "drop"), {"a": Field("int8"), "b": Field("object")}
    >>> published_drops(published, {"b/x": "int8"}, fields)
    {'a': 'drop'}
    """
    known_paths = {path for name, field in fields.items() for path in nested_paths(field, name)}
    is_given = {name for name in published if any(path.startswith(f"{name}/") for path in specs)}
    return {name: spec for name, spec in published.items() if name in known_paths - is_given}


def without_given_types(published: Mapping[str, Field], specs: Mapping[str, str]) -> dict[str, Field]:
    """Returns the published fields of the columns whose types are not given; with `?`, objects are made optional.

    Args:
        published: {column: field} of the version that is appended to.
        specs: the given types, as `features` of a builder takes them.

    >>> objects = {"a": parse_field("int8"), "b": Field("object", fields={}), "c": parse_field("bool")}
    >>> {name: str(field) for name, field in without_given_types(objects, {"a": "int64", "b": "?"}).items()}
    {'b': '{}?', 'c': 'bool'}
    """
    return {
        name: as_optional(field) if name in specs and "{" in str(field) else field
        for name, field in published.items()
        if specs.get(name, "?") == "?"
    }


def field_of(feature: FeatureConnector) -> Field | None:
    """Returns the field that is stored as a feature; None if there is no such field.

    In the fields of an object, features without such a field are left out.

    >>> str(field_of(features.Tensor(shape=(2,), dtype="int8"))), field_of(features.BBoxFeature())
    ('int8[2]', None)
    """
    if type(feature) is features.FeaturesDict:
        inner = {name: field_of(feature[name]) for name in feature}
        parts = {name: part for name, part in inner.items() if part is not None}
        whole = Field("object", fields=parts)
        return as_optional(whole) if _may_be_missing(whole) else whole
    if type(feature) is features.Sequence:
        item = None if feature.length is not None else field_of(feature.feature)
        return item and Field("list", item=item)
    field = _leaf_field(feature)
    return field if field is not None and not find_difference(feature, to_feature(field)) else None


def _may_be_missing(field: Field) -> bool:
    """Returns whether an object may be missing: all of its single values may be, and there is one.

    The features of a version do not record it otherwise.
    """
    values = [inner for inner in (field.fields or {}).values() if inner.kind != "list"]
    return bool(values) and all(_may_be_missing(each) if each.fields is not None else each.optional for each in values)


def _leaf_field(feature: FeatureConnector) -> Field | None:
    """Returns the field that is most like a feature of single values; None if no field is."""
    if isinstance(feature, features.ClassLabel):
        names = list(feature.names)
        is_numbered = names == list(map(str, range(len(names))))
        return Field("class", labels=len(names) if is_numbered else tuple(names))
    if isinstance(feature, features.Image):
        return Field("image", dtype=str(feature.dtype), channels=feature.shape[-1] or 3 if feature.shape else 3)
    if isinstance(feature, features.Audio):
        channels = feature.shape[1] if len(feature.shape) > 1 else 1
        return Field("audio", sound=SoundType(feature.sample_rate or 0, channels, dtype=str(feature.dtype)))
    if isinstance(feature, features.Text):
        return Field("string")
    if not isinstance(feature, features.Tensor):
        return None
    number = Field("string" if feature.dtype.kind == "O" else str(feature.dtype))
    if not feature.shape:
        return replace(number, optional=feature.optional)
    if feature.shape == (None,):
        return Field("list", item=number)
    shape = tuple(length for length in feature.shape if length is not None)
    return Field("tensor", item=number, shape=shape, optional=feature.optional)


def with_published(inferred: Field, published: Field, guess: Guess | None, *, may_add: bool, may_lack: bool) -> Field:
    """Returns the field of a column that has the published type, whatever values the files have.

    Args:
        inferred: the field of the files.
        published: the field of the version that is appended to.
        guess: facts about the sampled values of the files; None if none were sampled.
        may_add: whether objects may lack fields that are optional.
        may_lack: whether what the files lack becomes optional in the next version.
    """
    if inferred.is_unreadable:
        return inferred
    if inferred.fields is not None and published.fields is not None:
        guesses = guess.fields if guess else {}
        inner = with_all_published(inferred.fields, published.fields, guesses, may_add=may_add, may_lack=may_lack)
        return replace(inferred, fields=inner, optional=published.optional or inferred.optional)
    if inferred.kind == published.kind == "list" and inferred.item is not None and published.item is not None:
        inner_guess = guess.item if guess else None
        item = with_published(inferred.item, published.item, inner_guess, may_add=may_add, may_lack=may_lack)
        return replace(inferred, item=item, optional=published.optional or inferred.optional, problem="")
    if str(inferred) == str(published) and not inferred.problem:
        return replace(inferred, is_published=True)
    optional = published.optional
    if may_lack:
        has_value = inferred.kind != UNKNOWN and not (guess and guess.seen.keys() == {"missing"})
        optional = optional or inferred.optional or not has_value
    field = as_exact(published)
    if optional and field.fields is not None:
        field = as_optional(field)
    return replace(field, optional=optional, is_published=True)


def newly_missing_problem(field: Field, name: str, guess: Guess) -> str:
    """Returns the problem of a column in which rows lack a value that each row of the published version has, or ''.

    Args:
        field: the field of the column, of the published type.
        name: name of the column.
        guess: facts about the sampled rows.
    """
    values = guess.fields.get(name)
    num_missing = guess.rows - values.count() if values else 0
    if not num_missing or field.optional or field.kind in (*_MISSING_OTHERWISE, "drop"):
        return ""
    first = f", first in {values.seen['missing'][1]}" if values and "missing" in values.seen else ""
    return (
        f"column {name!r}: the value is missing in {num_missing:,} of {guess.rows:,} rows{first}, and the published "
        "version has one in each row; --union_features makes the feature optional in the next version"
    )


def with_all_published(
    inferred: Mapping[str, Field],
    published: Mapping[str, Field],
    guesses: Mapping[str, Guess],
    *,
    may_add: bool,
    may_lack: bool,
) -> dict[str, Field]:
    """Returns {name: field} of the columns of files, or of the fields of an object, with the published types.

    Args:
        inferred: the fields of the files.
        published: the fields of the version that is appended to.
        guesses: name -> facts about the sampled values of the files.
        may_add: whether rows may lack fields that are optional; such a field is missing in all of them.
        may_lack: whether what the files lack becomes optional in the next version.
    """
    fields = dict(inferred)
    for name, field in published.items():
        if name in inferred:
            fields[name] = with_published(inferred[name], field, guesses.get(name), may_add=may_add, may_lack=may_lack)
        elif may_add and field.optional and field.kind not in ("image", "audio"):
            fields[name] = as_exact(field)
    return fields
