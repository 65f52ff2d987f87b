"""Distribution of numbers: extremes, exact sums, and counts in bins.

The result does not depend on the order and grouping of the numbers. Sketches that draw random bits (KLL, REQ), or whose
result depends on the order of merging (t-digest), do not have this property.

A bin holds the codes with the same leading bits, as many bits as leave at most `MAX_BINS` bins occupied. A part of the
numbers occupies no more bins than all of them, so no part is binned more coarsely than the whole.

The sums are integers: a finite float is a 53-bit integer times a power of two.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.statistics.codes import codes_of, values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from beam_datasets.statistics.codes import Codes

MAX_BINS = 4096
BARS = 40
_TAIL = 0.005  # share of the numbers, on each side, that is left out if it would take most of the width
_WIDE = 4
UNIT = 1080 + 53  # every finite float64 is an integer times 2**-UNIT


def _none() -> NDArray[Any]:
    return np.zeros(0, np.uint64)


def _no_counts() -> NDArray[Any]:
    return np.zeros(0, np.int64)


@dataclass
class Spread:
    """Distribution of finite numbers.

    Attributes:
        kind: 'f', 'i' or 'u', as the dtype of the numbers has it.
        count: number of numbers.
        total, squares: see `exact_sums`.
        low, high: codes of the smallest and of the largest number.
        shift: number of trailing bits of codes that bins leave out.
        bins: the occupied bins, ascending: codes without these bits.
        counts: number of numbers in each bin.
    """

    kind: str
    count: int = 0
    total: int = 0
    squares: int = 0
    low: int = (1 << 64) - 1
    high: int = 0
    shift: int = 0
    bins: Codes = field(default_factory=_none)
    counts: NDArray[np.int64] = field(default_factory=_no_counts)

    def add(self, values: NDArray[Any], unique: tuple[Codes, NDArray[np.int64]] | None = None) -> None:
        """Adds numbers.

        Args:
            values: finite float64, int64 or uint64.
            unique: their distinct codes, ascending, and the count of each; None to compute them.
        """
        if not len(values):
            return
        total, squares = exact_sums(values)
        codes, counts = np.unique(codes_of(values), return_counts=True) if unique is None else unique
        self._take(len(values), total, squares, int(codes[0]), int(codes[-1]))
        self._bin(0, codes, counts)

    def merge(self, other: Spread) -> None:
        """Adds the numbers of another spread."""
        self._take(other.count, other.total, other.squares, other.low, other.high)
        self._bin(other.shift, other.bins, other.counts)

    def _take(self, count: int, total: int, squares: int, low: int, high: int) -> None:
        self.count += count
        self.total += total
        self.squares += squares
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    def _bin(self, shift: int, bins: Codes, counts: NDArray[np.int64]) -> None:
        common = max(shift, self.shift)
        both = np.concatenate([self.bins >> np.uint64(common - self.shift), bins >> np.uint64(common - shift)])
        found, sums = _summed(both, np.concatenate([self.counts, counts]))
        more = _bits_too_many(found)
        if more:
            found, sums = _summed(found >> np.uint64(more), sums)
        self.shift, self.bins, self.counts = common + more, found, sums

    # ----------------------------------------------------------------------------------------------------- what follows

    def value(self, code: int) -> Any:
        """Returns the number of a code."""
        return values_of(np.array([code], np.uint64), self.kind).tolist()[0]

    def mean_and_deviation(self) -> tuple[float, float]:
        """Returns the mean and the population standard deviation of at least one number."""
        unit = Fraction(1, 1 << UNIT) if self.kind == "f" else Fraction(1)
        mean = Fraction(self.total, self.count)
        variance = Fraction(self.squares, self.count) - mean**2
        return float(mean * unit), _root(variance * unit**2)

    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the smallest and the largest number that each bin may hold, as float64 or integers."""
        shift = np.uint64(self.shift)
        first = self.bins << shift
        last = first | np.uint64((1 << self.shift) - 1)
        low, high = np.uint64(self.low), np.uint64(self.high)
        return values_of(np.maximum(first, low), self.kind), values_of(np.minimum(last, high), self.kind)

    def quantile(self, share: float) -> tuple[Any, float]:
        """Returns the approximate quantile (inverted CDF) and a bound of its error.

        Args:
            share: in [0, 1].
        """
        rank = min(max(int(np.ceil(share * self.count)), 1), self.count)
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        lows, highs = self.bounds()
        low, high = lows[place].item(), highs[place].item()
        if low == high:
            return low, 0.0
        middle = low + (high - low) // 2 if self.kind != "f" else low / 2 + high / 2
        return middle, float(max(high - middle, middle - low))


def exact_sums(values: NDArray[Any]) -> tuple[int, int]:
    """Returns the exact sum and the exact sum of squares; of floats in units of 2**-UNIT and 2**(-2 * UNIT).

    Args:
        values: fewer than 2**32 finite float64, int64 or uint64.

    >>> exact_sums(np.array([2**62, 2**62, -1])) == (2**63 - 1, 2**125 + 1)
    True
    >>> exact_sums(np.array([1e300, 1.0, -1e300]))[0] == 1 << UNIT
    True
    """
    if values.dtype.kind != "f":
        return _integer_sums(values)
    mantissas, exponents = np.frexp(values)
    places, shifts = np.divmod(exponents, 10)  # numbers of up to ten exponents are summed together
    whole = np.ldexp(mantissas, 53 + shifts).astype(np.int64)  # each number is whole * 2**(10 * place - 53)
    total, squares = 0, 0
    for place in np.unique(places).tolist():
        part_total, part_squares = _integer_sums(whole[places == place])
        total += part_total << 10 * place - 53 + UNIT
        squares += part_squares << 2 * (10 * place - 53 + UNIT)
    return total, squares


def _integer_sums(values: NDArray[Any]) -> tuple[int, int]:
    negative = values < 0
    sizes = np.where(negative, -values, values).astype(np.uint64)  # int64's minimum is its own negative: 2**63 unsigned
    high, low = sizes >> np.uint64(32), sizes & np.uint64(0xFFFFFFFF)
    squares = (_sum(high * high) << 64) + (_sum(high * low) << 33) + _sum(low * low)
    return _sum(sizes) - 2 * _sum(sizes[negative]), squares


def _sum(values: NDArray[np.uint64]) -> int:
    return (int((values >> np.uint64(32)).sum()) << 32) + int((values & np.uint64(0xFFFFFFFF)).sum())


def _root(number: Fraction) -> float:
    """Returns the square root of a fraction that may be too large or too small for a float."""
    shift = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number / Fraction(4) ** shift  # between 1/4 and 8, or 0
    return float(Fraction(float(scaled) ** 0.5) * Fraction(2) ** shift)


def _summed(codes: Codes, counts: NDArray[np.int64]) -> tuple[Codes, NDArray[np.int64]]:
    """Returns the different codes, ascending, and the sum of the counts of each."""
    if not len(codes):
        return codes, counts
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return codes[starts], np.add.reduceat(counts, starts)


def _bits_too_many(bins: Codes) -> int:
    """Returns how many more bits to leave out, so that at most `MAX_BINS` bins are occupied."""
    if len(bins) <= MAX_BINS:
        return 0
    # Adjacent bins become one if they differ in no bit that is kept; the MAX_BINS-th largest difference must go.
    differences = np.sort(bins[1:] ^ bins[:-1])
    return int(differences[-MAX_BINS]).bit_length()


# --------------------------------------------------------------------------------------------------------- histogram


def histogram(spread: Spread) -> dict[str, Any]:
    """Returns edges and counts of bars, and how many numbers are 'below' and 'above' them.

    Bars are half-open; the last one of floats is closed. Edges of integers are integers. The numbers of a bin that
    spans several bars are divided among them, so counts are exact only where bins are single numbers.
    """
    whole = spread.kind != "f"
    lows, highs = (bounds.tolist() for bounds in spread.bounds())
    totals: list[int] = [0, *accumulate(spread.counts.tolist())]
    edges = _edges(*_range(spread), whole=whole)

    def below(edge: Any) -> int:
        place = bisect_left(highs, edge)
        if place == len(lows) or lows[place] >= edge:
            return totals[place]
        share: float = (edge - lows[place]) / (highs[place] - lows[place] + whole)  # of the bin that the edge is in
        return totals[place] + round((totals[place + 1] - totals[place]) * share)

    first, last = (
        totals[bisect_left(highs, edges[0])],
        totals[(bisect_left if whole else bisect_right)(lows, edges[-1])],
    )
    cumulated = [first, *map(below, edges[1:-1]), last]
    counts = [stop - start for start, stop in pairwise(cumulated)]
    return {"edges": edges, "counts": counts, "below": first, "above": spread.count - last}


def _range(spread: Spread) -> tuple[Any, Any]:
    """Returns the smallest and the largest number to show: all, or without tails that would take most of the width."""
    low, high = spread.value(spread.low), spread.value(spread.high)
    first, last = spread.quantile(_TAIL)[0], spread.quantile(1 - _TAIL)[0]
    # halves, because the difference of two floats may be infinite
    return (first, last) if first < last and high / 2 - low / 2 > _WIDE * (last / 2 - first / 2) else (low, high)


def _edges(first: Any, last: Any, *, whole: bool) -> list[Any]:
    if whole:
        width = -(-(last - first + 1) // BARS)
        return [first + width * bar for bar in range(-(-(last - first + 1) // width) + 1)]
    if first == last:
        return [first, last]
    return [first * (1 - bar / BARS) + last * (bar / BARS) for bar in range(BARS + 1)]
