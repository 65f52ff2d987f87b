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

_FLAGS = (bool, np.bool_)


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


def index_of(index: Any, n: int) -> int:
    """Returns an index of n examples in [0, n); those below 0 count from the end.

    Raises:
        IndexError: there is none.
        TypeError: it is not an integer; True and False are none.
    """
    try:
        number = operator.index(index)
    except TypeError:
        raise _no_index(index) from None
    if isinstance(index, bool):
        raise _no_index(index)
    if not -n <= number < n:
        raise IndexError(f"index {number} is not in [-{n}, {n}): the dataset has {n} examples.")
    return number if number >= 0 else number + n


def indices_of(indices: Any, n: int) -> NDArray[np.int64]:
    """Returns the same of a list, array or range of indices, as an array; or of a mask, as NumPy: where it is True.

    Raises:
        IndexError: there is none, or the mask has not n flags.
        TypeError: one is not an integer.
    """
    if isinstance(indices, range) and indices[1:]:  # no int for each: all are between the first and the last
        for end in (indices[0], indices[-1]):
            index_of(end, n)
        indices = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    try:
        found = np.asarray(indices)
    except ValueError:  # of lists in it
        raise _no_index(indices) from None
    if found.dtype == np.bool_:
        if found.shape != (n,):
            raise IndexError(f"a mask must have a flag for each of the {n} examples, not the shape {found.shape}.")
        return np.flatnonzero(found)
    if found.dtype == np.int64 and found.ndim == 1 and found.size and -n <= found.min() and found.max() < n:
        return np.where(found < 0, found + n, found)
    return np.array([index_of(number, n) for number in indices], np.int64)


def _no_index(index: Any) -> TypeError:
    hint = " A mask is np.array(mask, dtype=bool), with a flag for each example." if isinstance(index, _FLAGS) else ""
    return TypeError(
        f"ds[...] takes an int, a slice, a list, array or range of ints, or a mask, not {index!r:.100}.{hint}"
    )


def checked_function(name: str, function: Any) -> Any:
    """Returns an argument that must be callable; a TypeError if it is not."""
    if not callable(function):
        raise TypeError(f"{name}() takes a function of an example, not {function!r}.")
    return function
