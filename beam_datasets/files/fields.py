"""The schema of rows: a tree of fields, parsed from the text of the command line and mapped to features.

int8 ... uint64, float16, float32, float64, bool, string      one value
int64?                                                        may be missing (null, or an empty CSV field)
float32[]   int64[][]   int64[3]   float32[28,28]             a list of any length; of lists; a fixed shape
int64[]?                                                      a missing list is an empty list
?                                                             the type found in the files; may be missing
class:cat,dog    class:10                                     a label by name; a label 0 to 9
class:["cat, big","dog"]                                      names that have commas, as JSON
class                                                         a label; its names are the distinct values in the files
image                                                         the bytes of an image, or its path
image:uint16    image:uint16,1    image:4                     16 bits per channel; and 1 channel; 4 channels, not 3
audio                                                         the bytes of a sound, or its path; typed like the first
audio:rate=16000,channels=2,samples=int16                     sample rate, number of channels, sample type
audio:rate=any,dtype=float32                                  any rate; all sample types that the dtype holds, unscaled
drop                                                          left out
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from beam_datasets import features
from beam_datasets.errors import InputError, did_you_mean
from beam_datasets.features import FeatureConnector

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "float32", "float64")
EXACT = (*INTEGERS, "float16", "float32", "string")  # kinds to which `exact` applies
IMAGE_DTYPES = ("uint8", "uint16")
SCALARS = (*INTEGERS, *FLOATS, "bool", "string")
FOUND = "found"  # kind of the description `?`: the type found in the files
UNKNOWN = "unknown"  # kind of a column whose type the user must give; `problem` contains the reason
MAX_LABELS = 10_000
SAMPLES = ("int8", "int16", "int24", "int32", "float32", "float64")  # sample types of sound files
_ALIASES = {"text": "string", "int": "int64", "float": "float32", "str": "string", "bytes": "string"}
_OTHER_NAMES = {
    "int64": ("integer", "long", "bigint", "number"),
    "float64": ("double", "numeric", "real", "decimal"),
    "bool": ("boolean", "bit", "flag"),
    "string": ("varchar", "char", "object", "utf8", "json", "date", "datetime", "timestamp", "time"),
    "class": ("category", "categorical", "label", "enum", "factor", "classlabel"),
    "image": ("img", "picture", "jpeg", "png"),
    "audio": ("sound", "wav", "mp3"),
    "drop": ("none", "ignore", "skip", "exclude"),
}
"""Type here -> what other tools call it."""
_SPEC = re.compile(r"(?P<kind>\w+)(?::(?P<labels>.+?))?(?P<lists>(?:\[\])+|\[[\d,\s]*\])?(?P<optional>\?)?", re.DOTALL)


@dataclass(frozen=True)
class SoundType:
    """The type that all sounds of a column must have.

    Attributes:
        rate: samples per second; 0 for any rate; None for the rate of the first sound.
        channels: number of channels; None for the number of the first sound.
        samples: sample type, one of SAMPLES; '' for the type of the first sound, or for any type that `dtype` holds.
        dtype: dtype that samples are decoded to; '' for the smallest one that holds them.
    """

    rate: int | None = None
    channels: int | None = None
    samples: str = ""
    dtype: str = ""

    def __str__(self) -> str:
        rate = None if self.rate is None else self.rate or "any"
        words = {"rate": rate, "channels": self.channels, "samples": self.samples, "dtype": self.dtype}
        return ",".join(f"{name}={value}" for name, value in words.items() if value)


def parse_sound(spec: str) -> SoundType:
    """Parses the text after `audio:` into the type that all sounds of a column must have.

    >>> str(parse_sound("rate=any, channels=2")), str(parse_sound(""))
    ('rate=any,channels=2', '')

    Raises:
        ValueError: the text is not of the grammar above.
    """
    pairs = [word.strip().partition("=")[::2] for word in spec.split(",")] if spec.strip() else []
    words = {"rate": "", "channels": "", "samples": "", "dtype": "", **dict(pairs)}
    rate, channels, samples, dtype = (words[name] for name in ("rate", "channels", "samples", "dtype"))
    is_known = len(words) == 4 and samples in ("", *SAMPLES) and dtype in ("", *INTEGERS, *FLOATS)
    if not is_known or not all(
        re.fullmatch("([1-9][0-9]{0,8})?", text) for text in (rate.replace("any", ""), channels)
    ):
        raise ValueError(
            f"{spec!r} is not a type of sounds; expected rate=16000 or rate=any, channels=2, samples=int16 (of "
            f"{', '.join(SAMPLES)}), dtype=float32, or several with commas between them"
        )
    hertz = int(rate.replace("any", "0")) if rate else None
    return SoundType(hertz, int(channels) if channels else None, samples, dtype)


@dataclass(frozen=True)
class Field:
    """The type of a column, or of a value inside one.

    Attributes:
        kind: one of SCALARS, `class`, `image`, `audio`, `drop`, `list`, `tensor`, `object`, FOUND or UNKNOWN.
        optional: the value may be missing; a missing list is an empty one.
        labels: names or number of the labels of a `class`; None for the distinct values in the files.
        is_index: whether the values of a `class` are indices of the labels, never their names.
        item: the field of an item of a `list` or `tensor`.
        shape: shape of a `tensor`.
        dtype, channels: dtype and channels of an `image`.
        sound: format of an `audio`.
        exact: whether lossy conversions to an inferred type are errors: for `float32` and `float16`, lost digits; for
            these and integers, text with leading zeros; for a `string` inferred from most rows, other values.
        fields: fields of an `object`, by name.
        source: Arrow type of the values from which text is converted.
        problem: why the field cannot be used as inferred, and what to do; '' if it can.
        is_published: whether its type is that of the version that is appended to.
        is_unreadable: whether no type can be given: the values cannot be read, as those of encrypted columns.
        extensions: (path, description) of the values in a column of Parquet files whose Arrow extension types are not
            decoded.
    """

    kind: str
    optional: bool = False
    labels: tuple[str, ...] | int | None = None
    is_index: bool = False
    item: Field | None = None
    shape: tuple[int, ...] = ()
    dtype: str = "uint8"
    channels: int = 3
    sound: SoundType = SoundType()
    exact: bool = False
    fields: Mapping[str, Field] | None = None
    source: str = ""
    problem: str = ""
    is_published: bool = dataclasses.field(default=False, compare=False)
    is_unreadable: bool = dataclasses.field(default=False, compare=False)
    extensions: tuple[tuple[str, str], ...] = dataclasses.field(default=(), compare=False)

    def __str__(self) -> str:
        """Returns the type as `features` of a builder takes it, such as "int64?" or "float32[3]"."""
        text = self.kind
        if self.kind == "class" and self.labels is not None:
            text = f"class:{_labels_text(self.labels)}"
        elif self.kind == "image":
            words = [self.dtype] * (self.dtype != "uint8") + [str(self.channels)] * (self.channels != 3)
            text = f"image{':' * bool(words)}{','.join(words)}"
        elif self.kind == "audio" and self.sound != SoundType():
            text = f"audio:{self.sound}"
        elif self.item is not None:
            text = f"{self.item}[{','.join(map(str, self.shape))}]"
        elif self.fields is not None:
            text = "{" + ", ".join(f"{name}: {field}" for name, field in self.fields.items()) + "}"
        return text + "?" * (self.optional and self.kind != "audio")


def parse_field(spec: str, *, suggest: bool = True) -> Field:
    """Parses a description, such as `int64[]?`, into a field.

    Args:
        spec: the description.
        suggest: whether the error about an unknown type names a similar one.

    >>> parse_field("float32[28,28]").shape, parse_field("class:cat,dog").labels, str(parse_field("int64[]"))
    ((28, 28), ('cat', 'dog'), 'int64[]')

    Raises:
        ValueError: the text is not of the grammar above.
    """
    if spec.strip() == "?":
        return Field(FOUND, optional=True)
    match = _SPEC.fullmatch(spec.strip())
    kind = _ALIASES.get(match["kind"], match["kind"]) if match else ""
    if not match or kind not in (*SCALARS, "class", "image", "audio", "drop"):
        kind = ""
    if not match or not kind or (match["labels"] and kind not in ("class", "image", "audio")):
        raise ValueError(
            f"{spec!r} is not a type of a feature; expected {', '.join(SCALARS)}, class:cat,dog, class:10, class, "
            "image, image:uint16,1, audio or drop; then [] or [28,28] for lists, ? for what may be missing; ? alone "
            f"for the type found that may be missing.{_hint_for(spec) if suggest else ''}"
        )
    labels, brackets = match["labels"], match["lists"] or ""
    if kind == "image":
        field = _image([word.strip() for word in labels.split(",")] if labels else [], spec)
    elif kind == "audio":
        field = Field(kind, sound=parse_sound(labels or ""))
    else:
        field = Field(kind, labels=_parse_labels(labels) if labels else None)
    if brackets and (kind in ("audio", "drop") or (kind == "image" and brackets.strip("[]"))):
        raise ValueError(f"{spec!r}: a list of {kind} cannot be stored")
    if match["optional"] and kind == "audio":
        raise ValueError(f"{spec!r}: a sound cannot be missing; leave out such rows by --skip_bad")
    shape = tuple(int(size) for size in brackets.strip("[]").split(",") if size.strip())
    if shape:
        field = Field("tensor", item=field, shape=shape)
    else:
        for _ in range(brackets.count("[")):
            field = Field("list", item=field)
    return replace(field, optional=bool(match["optional"]))


def _hint_for(spec: str) -> str:
    """Returns ` Did you mean 'int64'?` for a type of other tools; '' if it is not known."""
    name = spec.strip().lower().partition("(")[0]
    meant = next((kind for kind, names in _OTHER_NAMES.items() if name in names), "")
    return f" Did you mean {meant!r}?" if meant else did_you_mean(name, [*SCALARS, "class", "image", "audio", "drop"])


def _image(words: Sequence[str], spec: str) -> Field:
    """Returns the image field for the words after `image:`: at most one dtype, and one number of channels, 1 to 4.

    Args:
        words: such as ["uint16", "1"], in any order; empty for uint8 and 3 channels.
        spec: the whole type, for errors.

    Raises:
        ValueError: the words are invalid.
    """
    dtypes, channels = [word for word in words if word in IMAGE_DTYPES], [word for word in words if word in "1234"]
    if len(dtypes) > 1 or len(channels) > 1 or len(dtypes) + len(channels) != len(words):
        raise ValueError(
            f"{spec!r} is not a type of images; expected image, image:uint16, image:uint16,1 or image:4: one of "
            f"{', '.join(IMAGE_DTYPES)}, and the number of channels, 1 to 4"
        )
    return Field("image", dtype=(dtypes or ["uint8"])[0], channels=int((channels or ["3"])[0]))


def _parse_labels(text: str) -> tuple[str, ...] | int:
    """Parses labels: a number, a JSON list of names, or names separated by commas.

    >>> _parse_labels("10"), _parse_labels("cat, dog"), _parse_labels('["a,b", "c"]')
    (10, ('cat', 'dog'), ('a,b', 'c'))
    """
    if text.isdecimal():
        return int(text)
    if text.startswith("["):
        with suppress(ValueError):
            names = json.loads(text)
            if names and all(isinstance(name, str) for name in names):
                return tuple(names)
    return tuple(label.strip() for label in text.split(","))


def _labels_text(labels: tuple[str, ...] | int) -> str:
    """Formats labels for `_parse_labels`: a number, comma-separated names, or JSON if the names need it.

    >>> _labels_text(10), _labels_text(("cat", "dog")), _labels_text(("a,b", "c"))
    ('10', 'cat,dog', '["a,b", "c"]')
    """
    if isinstance(labels, int):
        return str(labels)
    text = ",".join(labels)
    match = _SPEC.fullmatch(f"class:{text}")
    is_same = match is not None and match["labels"] == text and _parse_labels(text) == labels
    return text if is_same else json.dumps(labels, ensure_ascii=False)


def paths_of(fields: Mapping[str, Field], prefix: str = "") -> Iterator[str]:
    """Yields the paths of fields and of the fields in objects, but not in lists, each prefixed by `prefix`.

    >>> list(paths_of({"a": Field("object", fields={"x": Field("int64")}), "b": Field("bool")}))
    ['a', 'a/x', 'b']
    """
    for name, field in fields.items():
        yield prefix + name
        yield from paths_of(field.fields or {}, f"{prefix}{name}/")


_ITEMS = re.compile(r"(\[\])+(?=/|$)")  # at the end of a step only: a name may contain [] itself


def feature_name(path: str) -> str:
    """Returns the name that `--feature` takes for a path: without the `[]` that mean list items.

    >>> feature_name("a[]/x[][]"), feature_name("x[]y[]/z")
    ('a/x', 'x[]y/z')
    """
    return _ITEMS.sub("", path)


def advice(path: str, kind: str) -> str:
    r"""Returns the `--feature` option, shell-quoted, that sets the type of the value at a path; `[]` means list items.

    >>> advice("a/x", "float64"), advice("a[]", "float64"), advice("a[]/x", "drop")
    ('--feature a/x=float64', "--feature 'a=float64[]'", '--feature a/x=drop')
    >>> advice("price [EUR]", "string"), advice("city=Bonn", "bool")
    ("--feature 'price [EUR]=string'", '--feature \'"city=Bonn"=bool\'')
    >>> advice("x[]y[][]/z", "drop")
    "--feature 'x[]y/z=drop'"
    """
    step = path.rpartition("/")[2]
    return feature_option(feature_name(path), kind + step[len(feature_name(step)) :])


def feature_option(name: str, spec: str) -> str:
    """Returns the `--feature` option, shell-quoted, that sets the type of a column.

    The name may be any text; one that contains `=` or begins with a quote is quoted as in CSV.
    """
    if "=" in name or name.startswith('"'):
        name = f'"{name.replace(chr(34), chr(34) * 2)}"'
    return f"--feature {shlex.quote(f'{name}={spec}')}"


def check_spec(name: str, spec: str) -> None:
    """Checks the type that a user gives for a column.

    Raises:
        ValueError: it is no type. If it contains `=`, the message tells how to quote a name with `=`.
    """
    rest, equals, kind = spec.rpartition("=")
    try:
        parse_field(spec, suggest=not equals)
    except ValueError as error:
        if not equals:
            raise
        way = feature_option(f"{name}={rest}", kind)
        raise ValueError(f"{error} If = is part of the name: {way}") from None


def with_slash(name: str, fields: Mapping[str, Field]) -> str:
    """Converts the name of a nested field with dots to its path with slashes; other names are unchanged.

    A dot may also belong to a name. The name of a column is always this column. Of several fields that the name may
    mean, it is the one whose path has the earlier slash, so that `a.x.y` is `a/x/y` if there is such a field.

    >>> with_slash("a.x", {"a": Field("object")}), with_slash("b.c", {"b.c": Field("string"), "b": Field("object")})
    ('a/x', 'b.c')
    >>> with_slash("a.x.y", {"a": Field("list", item=Field("object", fields={"x.y": Field("int64")}))})
    'a/x.y'
    >>> parts = {"x.y": Field("int64"), "x": Field("object", fields={"y": Field("int64")})}
    >>> with_slash("a.x.y", {"a": Field("object", fields=parts)})
    'a/x/y'
    """
    if name in fields or "/" in name:
        return name
    paths = [path for column, field in fields.items() for path in nested_paths(field, column)]
    if matches := [path for path in paths if path.replace("/", ".") == name]:
        return max(matches)  # they differ in dots and slashes only, and a slash is the greater character
    return name.replace(".", "/") if name.partition(".")[0] in fields else name


def nested_paths(field: Field, path: str) -> Iterator[str]:
    """Yields the path of a field and of all fields inside it, also in lists, without `[]`."""
    yield path
    while field.item is not None:
        field = field.item
    for name, inner in (field.fields or {}).items():
        yield from nested_paths(inner, f"{path}/{name}")


def with_slashes(specs: Mapping[str, str], fields: Mapping[str, Field]) -> dict[str, str]:
    """Applies `with_slash` to the names of descriptions, so that `override` accepts them.

    >>> with_slashes({"a.x": "int8", "b.c": "bool"}, {"a": Field("object"), "b.c": Field("string")})
    {'a/x': 'int8', 'b.c': 'bool'}
    """
    return {with_slash(name, fields): spec for name, spec in specs.items()}


def override(
    fields: Mapping[str, Field],
    specs: Mapping[str, str],
    *,
    may_add: bool = False,
    prefix: str = "",
) -> dict[str, Field]:
    """Returns the fields, with some replaced or dropped; `a/b` is field b of object a, or of the objects in list a.

    Args:
        fields: fields inferred from the files.
        specs: name -> description.
        may_add: whether to add names that were not found, because rows that were not read may have them.
        prefix: path prefix of the object that has the fields: `a/`, or `a[]/` for objects in a list. Values inside
            lists cannot be missing.

    Raises:
        ValueError: a field does not exist, a description is invalid, or it makes a value inside a list optional.
    """
    inside_list = "[]" in prefix
    result = dict(fields)
    for name, spec in specs.items():
        outer, _, inner = name.partition("/")
        parent = result.get(outer)
        requested = parse_field(spec)
        if name not in result and inner and parent is not None and any(each.fields for each in _walk(parent)):
            result[outer] = _override_inside(parent, {inner: spec}, may_add, prefix + outer)
        elif requested.kind == FOUND and name in result:
            inferred = result[name]
            if inferred.kind != UNKNOWN and not (inside_list and inferred.problem and inferred.kind != "list"):
                result[name] = as_optional(inferred)
        elif name in result and result[name].is_unreadable and requested.kind != "drop":
            continue  # the problem remains
        elif requested.kind != FOUND and (name in result or may_add):
            if inside_list and requested.optional and requested.kind != "list":
                path = prefix + name
                raise ValueError(
                    f"feature {path!r}: expected a type without `?`, got {spec!r}: a value inside a list cannot be "
                    f"missing; {advice(path.partition('[]')[0], 'string')} stores the list as JSON text, "
                    f"{advice(path, 'drop')} leaves the values out"
                )
            result[name] = requested
        else:
            names_text = ", ".join(repr(prefix + each) for each in result)
            raise ValueError(
                f"feature {prefix + name!r} is not in the files; they have {names_text}.{did_you_mean(name, result)}"
            )
    return {name: field for name, field in result.items() if field.kind != "drop"}


def as_optional(field: Field) -> Field:
    """Returns the field, and the fields of an object, made optional and without problems; sounds are never optional."""
    inner = field.fields and {name: as_optional(each) for name, each in field.fields.items()}
    return replace(field, fields=inner, optional=field.kind != "audio", problem="")


def as_exact(field: Field) -> Field:
    """Returns the field with `exact` set if its kind is in EXACT, such as int64, else unset; so for list items, too."""
    return replace(field, item=field.item and as_exact(field.item), exact=field.kind in EXACT)


def with_absent(
    fields: Mapping[str, Field], columns: Mapping[str, Collection[str]], *, may_lack: bool = False
) -> dict[str, Field]:
    """Returns the fields, with a `problem` set on columns that some files lack; existing problems are kept.

    Args:
        fields: the merged fields of all files.
        columns: file path -> column names of the file.
        may_lack: whether to make such columns optional instead, except images and sounds.
    """
    result = dict(fields)
    for name, field in fields.items():
        paths = [path for path, names in columns.items() if name not in names]
        if paths and not field.problem and may_lack and field.kind not in ("image", "audio"):
            result[name] = as_optional(field)
        elif paths and not field.problem:
            files_text = ", ".join(paths[:3]) + f" and {len(paths) - 3} more" * (len(paths) > 3)
            optional = "string?" if field.kind in ("image", "audio") else "?"
            problem = (
                f"column {name!r} is in some files but not in {files_text}; {advice(name, optional)} makes it "
                f"optional, {advice(name, 'drop')} leaves it out"
            )
            result[name] = replace(field, problem=problem)
    return result


def _walk(field: Field) -> Iterator[Field]:
    """Yields a field and, depth first, all fields inside it."""
    yield field
    for inner in (*(field.fields or {}).values(), *filter(None, [field.item])):
        yield from _walk(inner)


def values_of(field: Field, value: Any, target: Field) -> Iterator[Any]:
    """Yields the non-missing values of a nested field, found in a value of the outer field.

    Args:
        field: the outer field.
        value: a value of the outer field.
        target: the nested field; compared by identity.
    """
    if value is None:
        return
    if field is target:
        yield value
    elif field.item is not None:
        for item in value:
            yield from values_of(field.item, item, target)
    else:
        for name, inner in (field.fields or {}).items():
            yield from values_of(inner, value[name], target)


def _override_inside(field: Field, specs: Mapping[str, str], may_add: bool, path: str) -> Field:
    """Returns the field after applying `override` to its fields, or to those of the objects in a list.

    Args:
        field: an object, or a list at any depth of objects.
        specs: name of a field of the object -> its type, such as {'x': 'int8'}, or the name in an inner object, 'a/x'.
        may_add: whether to add names that the object does not have; else they are an error.
        path: the path of the field in errors; `a`, or `a[]` for the items of the list a.

    Raises:
        ValueError: see `override`.
    """
    if field.item is not None:
        return replace(field, item=_override_inside(field.item, specs, may_add, f"{path}[]"))
    return replace(field, fields=override(field.fields or {}, specs, may_add=may_add, prefix=f"{path}/"))


def problems(fields: Mapping[str, Field]) -> Iterator[str]:
    """Yields a clause with advice for each reason why inferred fields cannot be used; column name -> field."""
    stored = [path for name, field in fields.items() for path in stored_paths(field, name)]
    for name, field in fields.items():
        yield from (each.problem for each in _walk(field) if each.problem)
        yield from _lost_lengths(field, name)
        if "/" in name and stored.count(name) > 1:
            yield (
                f"column {name!r} and a field in column {name.partition('/')[0]!r} would be stored as one; "
                f"{advice(name, 'drop')} leaves the column out"
            )


def stored_paths(field: Field, path: str) -> Iterator[str]:
    """Yields the paths of the leaf fields in which values are stored, without `[]`."""
    if field.item is not None:
        yield from stored_paths(field.item, path)
    elif field.fields is None:
        yield path
    for name, inner in (field.fields or {}).items():
        yield from stored_paths(inner, f"{path}/{name}")


def _lost_lengths(field: Field, path: str) -> Iterator[str]:
    """Yields a clause with advice for each list in the field at `path` whose items have no fields.

    The length of such a list would not be stored.
    """
    if field.item is not None and not any(True for _ in stored_paths(field.item, path)):
        outer = path.partition("[]")[0]
        yield (
            f"{path!r}: the items of the lists have no fields, so that their number would be lost; "
            f"{advice(outer, 'string?')} stores the lists as JSON text, {advice(outer, 'drop')} leaves them out"
        )
    elif field.item is not None:
        yield from _lost_lengths(field.item, f"{path}[]")
    for name, inner in (field.fields or {}).items():
        yield from _lost_lengths(inner, f"{path}/{name}")


def has_files(fields: Iterable[Field]) -> bool:
    """Returns whether any field is or contains an image or a sound."""
    return any(each.kind in ("image", "audio") for field in fields for each in _walk(field))


def with_sounds(field: Field, path: str, complete: Callable[[str, SoundType], SoundType]) -> Field:
    """Returns the field, with the type of each sound in it completed.

    Args:
        field: the field at `path`.
        path: path of the field, without `[]`.
        complete: (path, given sound type) -> complete sound type.
    """
    if field.item is not None:
        return replace(field, item=with_sounds(field.item, path, complete))
    if field.fields is not None:
        inner = {name: with_sounds(each, f"{path}/{name}", complete) for name, each in field.fields.items()}
        return replace(field, fields=inner)
    return replace(field, sound=complete(path, field.sound)) if field.kind == "audio" else field


def with_labels(field: Field, path: str, values_at: Callable[[str], Collection[str]]) -> Field:
    """Returns the field, with the labels of each `class` in it set from the values in the files, if not given.

    Values 0 to n-1 become the number of labels, n; other values become the sorted names.

    Args:
        field: the field at `path`.
        path: path of the field, without `[]`.
        values_at: path -> the distinct values, as text.

    Raises:
        InputError: there are no values, or MAX_LABELS or more.
    """
    if field.item is not None:
        return replace(field, item=with_labels(field.item, path, values_at))
    if field.fields is not None:
        inner = {name: with_labels(each, f"{path}/{name}", values_at) for name, each in field.fields.items()}
        return replace(field, fields=inner)
    if field.kind != "class" or field.labels is not None:
        return field
    values = values_at(path)
    if not 0 < len(values) < MAX_LABELS:
        count_text = f"{MAX_LABELS:,} values or more" if values else "no values"
        raise InputError(f"feature {path!r}: the files have {count_text} for labels; list them: {path}=class:a,b,c")
    is_index = set(values) == set(map(str, range(len(values))))
    return replace(field, labels=len(values) if is_index else tuple(sorted(values)))


def to_feature(field: Field) -> FeatureConnector:
    """Returns the feature that stores a field."""
    # float64 would be stored as float32; encoding as bytes keeps its precision
    encoding = "bytes" if "float64" in (field.kind, field.item and field.item.kind) else "none"
    # lost digits were already checked according to `exact`
    rounds = (field.item.kind if field.kind == "tensor" and field.item else field.kind) in ("float16", "float32")
    number: dict[str, Any] = {"encoding": encoding, "optional": field.optional, "allow_rounding": rounds}
    if field.fields is not None:
        return features.FeaturesDict({name: to_feature(inner) for name, inner in field.fields.items()})
    if field.kind == "list" and field.item is not None:
        if field.item.kind == "float64":  # one value of bytes for all items, not one each
            return features.Tensor(shape=(None,), dtype="float64", encoding=encoding)
        return features.Sequence(to_feature(field.item))
    if field.kind == "tensor" and field.item is not None:
        return features.Tensor(shape=field.shape, dtype=field.item.kind, **number)
    if field.kind == "class":
        labels = field.labels
        return features.ClassLabel(num_classes=labels) if isinstance(labels, int) else features.ClassLabel(names=labels)
    if field.kind == "image":
        return features.Image(shape=(None, None, field.channels), dtype=field.dtype)
    if field.kind == "audio":
        return sound_feature(field.sound, lazy_decode=True)
    if field.kind == "string" and not field.optional:
        return features.Text()
    return features.Tensor(shape=(), dtype=field.kind, **number)


def sound_feature(sound: SoundType, *, lazy_decode: bool) -> features.Audio:
    """Returns the `Audio` feature of a sound type; see `Audio` for `lazy_decode`."""
    dtype = sound.dtype or {"": "int64", "int24": "int32"}.get(sound.samples, sound.samples)
    return features.Audio(
        shape=(None,) if sound.channels in (None, 1) else (None, sound.channels),
        dtype=dtype,
        sample_rate=sound.rate or None,
        encoding="bytes" if dtype == "float64" and not lazy_decode else "none",  # otherwise it is stored as float32
        lazy_decode=lazy_decode,
    )


def lossless_type(fields: Mapping[str, Field], path: str) -> str:
    """Returns the type of the field at a path, as `features` takes it, that keeps all values; "string" for objects.

    >>> lossless_type({"a": Field("object", fields={"x": Field("float32"), "y": Field("int64")})}, "a/x")
    'float64'
    """
    name = path if path in fields else path.partition("/")[0]
    field = fields[name]
    while field.item is not None and field.item.fields is not None:
        field = field.item
    if name != path and field.fields is not None:
        return lossless_type(field.fields, path[len(name) + 1 :])
    text = str(field)
    return "string" if "{" in text or field.problem else text.replace("float32", "float64")
