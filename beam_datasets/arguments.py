"""Checks of arguments and texts, for all packages."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Returns an argument that must be an integer.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is less than `at_least`, or more than `at_most`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {value!r}.") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {value!r}.")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}.")
    if at_most is not None and number > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {number}.")
    return number


def boolean(name: str, value: Any) -> bool:
    """Returns an argument that must be True or False, or 1 or 0, NumPy's too; 'no' and 'False' would count as True.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, (int, np.bool_, np.integer)) or value not in (0, 1):
        raise TypeError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def is_unicode(text: str) -> bool:
    r"""Returns whether a text can be written as UTF-8: JSON can say half of a surrogate pair, which cannot.

    >>> is_unicode("\N{GRINNING FACE}"), is_unicode("\ud83d")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def asks_for_beam(beam_options: Any, engine: dict[str, Any]) -> bool:
    """Returns whether a pipeline is asked for: by Beam's options, or by others that only workers need.

    Args:
        beam_options: Beam's pipeline options; None or empty for none.
        engine: `num_workers`, `shared_disk`, `wait` and others. If no pipeline is asked for, these three are removed.
    """
    defaults = {"num_workers": None, "shared_disk": False, "wait": True}
    if beam_options or any(engine.get(name, default) is not default for name, default in defaults.items()):
        return True
    for name in defaults:
        engine.pop(name, None)
    return False
