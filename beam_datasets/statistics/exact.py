"""Sums that do not depend on the order of what is added: integers, also for floats.

A finite float is an integer times a power of two. Its mantissa of 53 bits is cut in two, and NumPy adds up the parts of
the numbers of each exponent, which loses nothing; Python's integers do the rest.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT = 1074  # the smallest float64 is 2 ** -UNIT; so all are integers in that unit

_LOW, _HIGH = 26, 27  # bits of a mantissa's two parts
_MASK = np.uint64(0xFFFFFFFF)
_AT_ONCE = 1 << 24  # numbers, that sums of parts of 27 bits stay below 2 ** 53


def sums(values: NDArray[Any]) -> tuple[int, int]:
    """Returns the sum and the sum of squares, exactly; of floats in units of 2**-UNIT and of 2**(-2 * UNIT).

    Args:
        values: finite float64, int64 or uint64.

    >>> sums(np.array([2**62, 2**62, -1])) == (2**63 - 1, 2**125 + 1)
    True
    >>> total, _ = sums(np.array([1e300, 1.0, -1e300]))
    >>> total == 1 << UNIT
    True
    """
    function = _of_floats if values.dtype.kind == "f" else _of_integers
    parts = [function(values[start : start + _AT_ONCE]) for start in range(0, len(values), _AT_ONCE)]
    return sum(total for total, _ in parts), sum(squares for _, squares in parts)


def mean_and_deviation(count: int, total: int, squares: int, *, floats: bool) -> tuple[float, float]:
    """Returns the mean and the standard deviation (of all there is: divided by the count), from exact sums.

    >>> mean_and_deviation(4, 10, 30, floats=False)
    (2.5, 1.118033988749895)
    """
    mean = Fraction(total, count << UNIT if floats else count)
    variance = Fraction(squares * count - total * total, count * count << 2 * UNIT if floats else count * count)
    return float(mean), _root(variance)


def _root(number: Fraction) -> float:
    """Returns the square root of a fraction that may be too large or too small for a float."""
    if not number:
        return 0.0
    shift = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number / Fraction(4) ** shift  # between 1/4 and 8
    return float(Fraction(float(scaled) ** 0.5) * Fraction(2) ** shift)


def _of_integers(values: NDArray[Any]) -> tuple[int, int]:
    if not len(values):
        return 0, 0
    if values.dtype.kind == "i":
        negative = values < 0
        # -x of the smallest integer is itself, which as an unsigned integer is right again
        sizes = np.where(negative, -values, values).view(np.uint64)
        return _total(sizes[~negative]) - _total(sizes[negative]), _squares(sizes)
    return _total(values), _squares(values)


def _total(values: NDArray[np.uint64]) -> int:
    """Returns the sum of fewer than 2**32 unsigned integers."""
    return (int((values >> np.uint64(32)).sum()) << 32) + int((values & _MASK).sum())


def _squares(values: NDArray[np.uint64]) -> int:
    high, low = values >> np.uint64(32), values & _MASK
    if not high.any():
        return _total(low * low)
    return (_total(high * high) << 64) + (_total(high * low) << 33) + _total(low * low)


def _of_floats(values: NDArray[np.float64]) -> tuple[int, int]:
    mantissas, exponents = np.frexp(values[values != 0])
    if not len(mantissas):
        return 0, 0
    whole = (mantissas * 2.0**53).astype(np.int64)  # each number is whole * 2 ** (exponent - 53)
    high = whole >> _LOW
    low = whole - (high << _LOW)
    lowest = int(exponents.min())
    places = exponents - lowest
    sums_high, sums_low = _by_place(high, places), _by_place(low, places)
    squares = (
        (2 * _LOW, _by_place_of_long(high * high, places)),
        (_LOW + 1, _by_place_of_long(high * low, places)),
        (0, _by_place_of_long(low * low, places)),
    )
    total = sum(((h << _LOW) + low_sum) << place for place, (h, low_sum) in enumerate(zip(sums_high, sums_low)))
    squared = sum(part << (shift + 2 * place) for shift, parts in squares for place, part in enumerate(parts))
    return _shifted(total, lowest - 53 + UNIT), _shifted(squared, 2 * (lowest - 53 + UNIT))


def _by_place(parts: NDArray[np.int64], places: NDArray[Any]) -> list[int]:
    """Returns the sums of integers of at most 28 bits, by place."""
    return [int(part) for part in np.bincount(places, parts).tolist()]


def _by_place_of_long(parts: NDArray[np.int64], places: NDArray[Any]) -> list[int]:
    high = parts >> _HIGH
    low = parts - (high << _HIGH)
    return [(h << _HIGH) + rest for h, rest in zip(_by_place(high, places), _by_place(low, places))]


def _shifted(number: int, bits: int) -> int:
    """Returns the number times 2 ** bits; what is shifted out is zeros."""
    return number << bits if bits >= 0 else number >> -bits
