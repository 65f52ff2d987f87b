"""Arguments of a dataset's operations, checked."""

from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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


def integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Returns an argument that must be an integer.

    Raises:
        TypeError: it is none.
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
    """Returns an argument that must be True or False, NumPy's too; 'no' and 'False' would count as True.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def index_of(index: Any, n: int) -> int:
    """Returns an index of n examples in [0, n); those below 0 count from the end.

    Raises:
        IndexError: there is none.
        TypeError: it is no integer.
    """
    number = operator.index(index)
    if not -n <= number < n:
        raise IndexError(f"index {number} is not in [-{n}, {n}): the dataset has {n} examples.")
    return number if number >= 0 else number + n


def indices_of(indices: Any, n: int) -> NDArray[np.int64]:
    """Returns the same of a sequence of indices, as an array."""
    found = np.asarray(indices)
    if found.dtype == np.int64 and found.ndim == 1 and found.size and -n <= found.min() and found.max() < n:
        return np.where(found < 0, found + n, found)
    return np.array([index_of(number, n) for number in indices], np.int64)
