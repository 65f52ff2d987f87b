"""Checks of arguments and texts, for all packages."""

from __future__ import annotations

import inspect
import operator
import re
import reprlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def seed_number(value: Any) -> int:
    """Returns the argument `seed`, an integer.

    Raises:
        TypeError: it is not an integer, such as True or None of other libraries.
    """
    try:
        return integer("seed", value)
    except TypeError as error:
        raise TypeError(f"{error} Give a number, such as seed=0: the order is a function of it.") from None


def integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Returns an argument that must be an integer.

    Args:
        name: name of the argument, for errors.
        value: the argument: an int, or an object with `__index__`, such as a NumPy integer; not a bool.
        at_least: smallest valid number; None for no limit.
        at_most: largest valid number; None for no limit.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is less than `at_least`, or more than `at_most`.

    >>> integer("batch_size", 32, at_least=1)
    32
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {shown(value)}.") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {value!r}.")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {shown(number)}.")
    if at_most is not None and number > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {shown(number)}.")
    return number


_MAX_BITS = 256  # of an integer that a message prints
_MAX_SHOWN = 160  # characters
_short = reprlib.Repr()
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxset = 8
_short.maxlevel, _short.maxlong, _short.maxstring, _short.maxother = 4, _MAX_BITS, _MAX_SHOWN, _MAX_SHOWN


def shown(value: Any) -> str:
    """Returns a value for a message: its `repr` in at most about 160 characters, also if it has none.

    Python prints no integer of more than 4,300 digits, and no list that is nested a thousand times.

    >>> shown([1, "a"]), shown(10**5000)
    ("[1, 'a']", 'an integer of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = _short.repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


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


def count_of(value: Any, method: str) -> int:
    """Returns the argument `count` of a method, at least 0.

    Args:
        value: the argument.
        method: "take" or "skip", for errors.

    Raises:
        TypeError: it is not an integer; the error says how to get a share, or a whole number.
        ValueError: it is negative.
    """
    is_float = isinstance(value, float)
    if is_float and not 0 < value <= 1:
        raise TypeError(f"count must be an int, not {shown(value)}. Divide by // to get one, as in len(ds) // 2.")
    if is_float or (isinstance(value, str) and value.endswith("%")):
        share = f"{100 * value:g}%" if is_float else value
        bounds = f"[:{share}]" if method == "take" else f"[{share}:]"
        raise TypeError(f"count must be an int, not {shown(value)}. A share is bd.load(..., split='train{bounds}').")
    if isinstance(value, (list, tuple, range)):
        raise TypeError(f"count must be an int, not {shown(value)}. Use `ds[{shown(value)}]` for these examples.")
    if (count := integer("count", value)) < 0:
        end = max(count, -sys.maxsize)  # as many as any dataset has
        others = {"take": "Leave take() out for all examples; ", "skip": ""}
        raise ValueError(
            f"count must be at least 0, got {shown(count)}. {others[method]}ds[{end}:] returns the last ones, "
            f"ds[:{end}] all others."
        )
    return count


_FLAGS = (bool, np.bool_)


def index_of(index: Any, n: int) -> int:
    """Returns an index of n examples in [0, n); those below 0 count from the end.

    Raises:
        IndexError: the index is not in [-n, n).
        TypeError: it is not an integer, or it is True or False.
    """
    try:
        number = operator.index(index)
    except TypeError:
        raise _bad_index_error(index) from None
    if isinstance(index, bool):
        raise _bad_index_error(index)
    if not -n <= number < n:
        raise IndexError(f"index {number} is not in [-{n}, {n}): the dataset has {n} examples.")
    return number if number >= 0 else number + n


def indices_of(indices: Any, n: int) -> NDArray[np.int64]:
    """Returns indices of n examples as an array of integers in [0, n).

    They are a list, an array or a range, in which numbers below 0 count from the end; or a mask of n bools, which
    selects the indices at which it is True.

    Raises:
        IndexError: an index is not in [-n, n), or a mask has another length than n.
        TypeError: one is not an integer.
    """
    if isinstance(indices, range) and indices[1:]:  # no int for each: all are between the first and the last
        for end in (indices[0], indices[-1]):
            index_of(end, n)
        indices = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    kinds = set(map(type, indices)) if isinstance(indices, (list, tuple)) else set()
    if str in kinds:
        raise _bad_index_error(indices)
    if kinds & {*_FLAGS} and kinds - {*_FLAGS}:  # NumPy takes True for 1
        raise _bad_index_error(next(index for index in indices if type(index) in _FLAGS))
    try:
        array = np.asarray(indices)
    except ValueError:  # of lists in it
        raise _bad_index_error(indices) from None
    if array.dtype == np.bool_:
        if array.shape != (n,):
            raise IndexError(f"a mask must have a flag for each of the {n} examples, not the shape {array.shape}.")
        return np.flatnonzero(array)
    if array.dtype == np.int64 and array.ndim == 1 and array.size and -n <= array.min() and array.max() < n:
        return np.where(array < 0, array + n, array)
    return np.array([index_of(number, n) for number in indices], np.int64)


_SLICE = re.compile(r"(?:(?P<split>\w+)?\[)?(?P<range>-?\d*%?:-?\d*%?)\]?")


def _bad_index_error(index: Any) -> TypeError:
    """Returns the TypeError for an index of `ds[...]` that has an unsupported type, with advice."""
    hint = " A mask is np.array(mask, dtype=bool), with a flag for each example." if isinstance(index, _FLAGS) else ""
    if isinstance(index, str) and (slice_match := _SLICE.fullmatch(index)):
        split = f"{slice_match['split'] or 'train'}[{slice_match['range']}]"
        hint = f" A slice is bd.load(..., split={split!r})."
    elif isinstance(index, str) and not re.search(r"[\[+]", index):
        hint = f" The values of a feature are [example[{index!r}] for example in ds]."
    elif callable(index):
        hint = " The examples for which a function returns True are ds.filter(function)."
    elif isinstance(index, (list, tuple)) and (names := [item for item in index if isinstance(item, str)]):
        hint = f" Some features are bd.load(..., decoders=bd.decode.PartialDecoding({shown(names)}))."
    return TypeError(
        f"ds[...] takes an int, a slice, a list, array or range of ints, or a mask, not {index!r:.100}.{hint}"
    )


def checked_function(name: str, function: Any) -> Any:
    """Returns the function `function`, an argument of the method `name`; a TypeError if it cannot take one argument."""
    if not callable(function):
        hint = ""
        if name == "filter" and isinstance(function, str):
            hint = " A condition in SQL is an argument of bd.materialize(..., where=...)."
        elif isinstance(function, str):
            values = "The items of a feature that is a list" if name == "flat_map" else "The values of a feature"
            feature = shown(function)
            hint = f" {values} are {name}(lambda e: e[{feature}]), if {feature} is the name of one."
        raise TypeError(f"{name}() takes a function of an example, not {shown(function)}.{hint}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function that is not written in Python
        return function
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(
            f"{name}() calls a function with one argument, the example: {error}. Use `lambda example: "
            "function(example['x'], example['y'])`, or `lambda pair: function(*pair)` with as_supervised=True"
        ) from None
    return function
