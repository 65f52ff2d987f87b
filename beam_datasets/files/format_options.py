"""Options that decide how the bytes of files become values, such as `--decimal ,`; inputs.json records those given."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, TypeVar

from beam_datasets.errors import InputError
from beam_datasets.metadata.inputs import FormatOptions

Value = TypeVar("Value")


def given_options(**options: Any) -> FormatOptions:
    """Returns the options whose value is not None; a sequence of texts becomes a list, as in JSON."""
    return {
        name: value if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
        for name, value in options.items()
        if value is not None
    }


def option(options: FormatOptions, name: str, default: Value) -> Value:
    """Returns the value of an option; the default if it is not given.

    Raises:
        ValueError: the value has another type than the default, as only a damaged inputs.json has it.
    """
    value: Any = options.get(name, default)
    if default is not None and type(value) is not type(default):
        raise ValueError(f"{name}: expected a value like {default!r}, got {value!r:.60}")
    return value


def options_text(options: FormatOptions) -> str:
    r"""Returns options as they are written in a command.

    >>> options_text({"decimal": ",", "delimiter": "\t", "missing": ["-", "k. A."], "keep_blank": True})
    "--decimal , --delimiter tab --missing - --missing 'k. A.' --keep_blank"
    """
    words = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--{name} false")
        else:
            texts = [value] if isinstance(value, str) else value or [""]
            words += [f"--{name} {'tab' if text == chr(9) else shlex.quote(text)}" for text in texts]
    return " ".join(words)


def describe_options(given: FormatOptions, published: FormatOptions) -> tuple[str, str]:
    """Returns the options of a published version as text: (those that are not given, those that differ).

    Args:
        given: the options that are given for the new files.
        published: the options that the files of the published version were read with.
    """
    adopted = {name: value for name, value in published.items() if name not in given}
    differing = {name: value for name, value in published.items() if given.get(name, value) != value}
    return options_text(adopted), options_text(differing)


def conflict(error: Exception, adopted: str) -> InputError:
    """Returns the error about given options that do not fit those of the published version.

    Args:
        error: the error of the options together.
        adopted: the options that are taken from the published version.
    """
    return InputError(
        f"{error}. The published version was built with {adopted}, which holds for new files, too. Give all of these "
        "options for files that are written in another way."
    )
