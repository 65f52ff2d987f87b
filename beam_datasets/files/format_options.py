"""Options that decide how the bytes of files become values, such as `--decimal ,`; inputs.json records those given."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Set
from typing import Any, TypeVar

import numpy as np

from beam_datasets.errors import InputError
from beam_datasets.metadata.inputs import FormatOptions, Inputs

Value = TypeVar("Value")


_OF_EACH_FILE = frozenset(("columns", "encoding", "skip_header"))
"""Options that new files may not share: wrong ones would leave out a row, swap columns or change text in silence."""


def shared_options(options: FormatOptions) -> FormatOptions:
    """Returns the options that new files share with those of a published version, such as `--decimal ,`.

    >>> shared_options({"decimal": ",", "encoding": "cp1252"})
    {'decimal': ','}
    """
    return {name: value for name, value in options.items() if name not in _OF_EACH_FILE}


def common_options(published: Inputs, format: str, given: FormatOptions) -> FormatOptions:
    """Returns the options with which all files of a published version were read: the defaults for new files.

    Args:
        published: the record of the files of the version.
        format: name of the format of the new files.
        given: the options that are given for the new files.

    Raises:
        InputError: the files of the version do not share an option that is not given.
    """
    differing = published.differing.get(format, ())
    if unknown := [f"--{name}" for name in differing if name not in given]:
        raise InputError(
            expected=f"{' and '.join(unknown)} for the new files, because the files of the published version, which "
            "appends have read with other options, do not share it",
            got="none",
            advice="Give what holds for the new files, also if it is the default.",
        )
    options = shared_options(published.options.get(format, {}))
    return {name: value for name, value in options.items() if name not in differing}


def given_options(**options: object) -> FormatOptions:
    """Returns the options whose value is not None, as JSON has them.

    Raises:
        TypeError: an item of a list is not text.
    """
    return {name: _plain(name, value) for name, value in options.items() if value is not None}


def _plain(name: str, value: Any) -> Any:
    """Returns a value of an option as JSON has it: text of a subclass of str, such as an enum, as str; lists of text.

    >>> _plain("missing", {"NA", "-"}), _plain("decimal", np.str_(",")), _plain("keep_blank", np.True_)
    (['-', 'NA'], ',', True)
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if not isinstance(value, Iterable):
        return value
    texts = list(value)
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise TypeError(f"{name}: expected text, got {wrong[0]!r:.60}")
    return [str.__str__(text) for text in (sorted(texts) if isinstance(value, Set) else texts)]


def option(options: FormatOptions, name: str, default: Value) -> Value:
    """Returns the value of an option; the default if it is not given.

    Raises:
        ValueError: the value has another type than the default, as only a damaged inputs.json has it.
    """
    value: Any = options.get(name, default)
    if isinstance(default, bool) and value in (0, 1):
        return bool(value)  # type: ignore[return-value]
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
