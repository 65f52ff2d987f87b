"""Search of all rows for columns whose types the sampled rows do not show, after a build has failed at one row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from beam_datasets.files.convert import optional_type
from beam_datasets.files.fields import Field, advice
from beam_datasets.files.infer import Guess, Inference


def describe_late_types(
    current: Mapping[str, Field], guess: Guess, inference: Inference, *, typed_paths: Collection[str], shown: str
) -> str:
    """Returns a paragraph with the options for all columns whose type differs from that of the first rows; '' for none.

    Args:
        current: {column: field} of the schema of the first rows, with which the build failed.
        guess: the values of all rows.
        inference: makes fields of the values.
        typed_paths: paths of the fields whose types are chosen by the user or published; of these, only missing
            values are reported.
        shown: the error of the build.
    """
    options, problems, num_columns, has_published = [], [], 0, False
    for path, field, text in _differences(current, inference.fields(guess), guess, typed_paths):
        num_columns += 1
        if field is None:
            problems.append(text)
            continue
        is_published = field.is_published and field.kind != "class"  # whose missing label is -1
        has_published |= is_published
        if not (is_published and field.fields is not None):  # it would get other fields than the published ones
            options.append(advice(path, text))
    options += ["--union_features"] * has_published
    if not problems and all(f"{option} " in f"{shown} ".replace("\n", " ") for option in options):
        return ""
    columns = "1 column needs another type" if num_columns == 1 else f"{num_columns} columns need other types"
    lines = [f"{columns} ({guess.rows:,} rows were read again):"]
    lines += [f"add {' '.join(options)}"] * bool(options)
    return "\n  ".join([*lines, *problems])


def _differences(
    current: Mapping[str, Field],
    inferred: Mapping[str, Field],
    guess: Guess,
    typed_paths: Collection[str],
    prefix: str = "",
) -> Iterator[tuple[str, Field | None, str]]:
    """Yields (path, field, text of the needed type) of each field whose type in `current` is too narrow or missing.

    For example, ("price", the inferred field, "float64?") if `current` has int64. Yields (path, None, problem) if no
    type fits.

    Args:
        current: {name: field} of the schema, or of an object in it.
        inferred: {name: field} inferred from all rows, or of the same object.
        guess: the values of all rows, or of the same object.
        typed_paths: see `describe_late_types`.
        prefix: path of the object and a `/`; '' for the schema.
    """
    for name, field in inferred.items():
        path, current_field, values = prefix + name, current.get(name), guess.fields[name]
        is_missing = values.count() < guess.rows
        if current_field is None and path in typed_paths:
            continue  # it is left out
        if path in typed_paths and current_field is not None:
            if is_missing and not current_field.optional and current_field.kind not in ("string", "image", "audio"):
                yield path, current_field, "?" if "{" in str(current_field) else f"{current_field}?"
        elif field.problem:
            yield path, None, field.problem
        elif current_field is not None and current_field.fields is not None and field.fields is not None:
            yield from _differences(current_field.fields, field.fields, values, typed_paths, f"{path}/")
        elif current_field is None:
            if "{" not in str(field):
                yield path, field, str(replace(field, optional=True))
        elif str(replace(field, optional=current_field.optional)) == str(current_field):
            if field.optional and not current_field.optional:
                yield path, field, optional_type(current_field)
        elif "{" not in str(field):
            yield path, field, str(replace(field, optional=field.optional or current_field.optional))
