"""Arguments of a dataset's operations, checked."""

from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


def explained(hint: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Returns a decorator of functions whose arguments are often mistaken; a TypeError for them ends in `hint`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}(): {error}; {hint}") from None
            return function(*args, **kwargs)

        return checked

    return decorate


def integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Returns an argument that must be an integer.

    Raises:
        TypeError: it is none.
        ValueError: it is less than `at_least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {value!r}.") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {value!r}.")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}.")
    return number
