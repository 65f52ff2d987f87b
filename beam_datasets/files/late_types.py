"""Columns whose types the first rows of files do not show: found in all rows, after a build has failed at one row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from beam_datasets.files.convert import optional_type
from beam_datasets.files.fields import Field, advice
from beam_datasets.files.infer import Guess, Inference


def describe_late_types(
    current: Mapping[str, Field], guess: Guess, inference: Inference, *, given: Collection[str], shown: str
) -> str:
    """Returns a paragraph with the options for all columns whose type differs from that of the first rows; '' for none.

    Args:
        current: {column: field} of the schema of the first rows, with which the build failed.
        guess: the values of all rows.
        inference: makes fields of the values.
        given: paths of the fields whose types are given or published; of these, only missing values are reported.
        shown: the error of the build.
    """
    options, problems = [], []
    for path, field, text in _differences(current, inference.fields(guess), guess, given):
        if field is not None:
            options.append(advice(path, text))
        else:
            problems.append(text)
    if not problems and all(f"{option} " in f"{shown} ".replace("\n", " ") for option in options):
        return ""
    number = len(options) + len(problems)
    columns = "1 column needs another type" if number == 1 else f"{number} columns need other types"
    lines = [f"{columns} ({guess.rows:,} rows were read again):"]
    lines += [f"add {' '.join(options)}"] * bool(options)
    return "\n  ".join([*lines, *problems])


def _differences(
    current: Mapping[str, Field], inferred: Mapping[str, Field], guess: Guess, given: Collection[str], prefix: str = ""
) -> Iterator[tuple[str, Field | None, str]]:
    """Yields (path, field, its type), or (path, None, problem), of each column that the current schema does not fit.

    Args:
        current: fields of the schema.
        inferred: fields of all rows.
        guess: the values of all rows, or of an object.
        given: see `describe_late_types`.
        prefix: path of the object, with its `/`.
    """
    for name, field in inferred.items():
        path, known, values = prefix + name, current.get(name), guess.fields[name]
        is_missing = values.count() < guess.rows
        if known is None and path in given:
            continue  # it is left out
        if path in given and known is not None:
            if is_missing and not known.optional and known.kind not in ("string", "image", "audio"):
                yield path, known, f"{known}?"
        elif field.problem:
            yield path, None, field.problem
        elif known is not None and known.fields is not None and field.fields is not None:
            yield from _differences(known.fields, field.fields, values, given, f"{path}/")
        elif known is None:
            if "{" not in str(field):
                yield path, field, str(replace(field, optional=True))
        elif str(replace(field, optional=known.optional)) == str(known):
            if field.optional and not known.optional:
                yield path, field, optional_type(known)
        elif "{" not in str(field):
            yield path, field, str(replace(field, optional=field.optional or known.optional))
