"""Sketches of many values in bounded memory, whose results depend neither on the order nor on the grouping of values.

Numbers are compared as 64-bit codes that sort as the numbers do. Sketches that draw random bits (KLL, REQ), or whose
result depends on the order of merging (t-digest), do not have the property above.

`Values`: up to `MAX_VALUES` distinct values are all kept and counted. Of more, those with the smallest hashes are kept;
the largest of these hashes gives an estimate of the number of distinct values (Bar-Yossef et al., "Counting distinct
elements in a data stream"). The most frequent values are then found in a sample of occurrences chosen by hash, and
counted by a table of counters (Cormode and Muthukrishnan, "the count-min sketch").

`Spread`: a bin holds the codes with the same leading bits, as many bits as leave at most `MAX_BINS` bins occupied. A
part of the numbers occupies no more bins than all of them, so no part is binned more coarsely than the whole. The sums
are integers: a finite float is a 53-bit integer times a power of two.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)


def widened(values: Any) -> NDArray[Any]:
    """Returns numbers as float64, int64 or uint64, whichever holds all values of their dtype."""
    array = np.asarray(values)
    kind = {"b": np.uint64, "u": np.uint64, "i": np.int64}.get(array.dtype.kind, np.float64)
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return array.astype(kind, copy=False)


def codes_of(values: NDArray[Any]) -> Codes:
    """Returns the codes of float64 (without NaN), int64 or uint64; -0.0 and 0.0 have the same code.

    >>> codes_of(np.array([-1.5, 0.0, 2.0])).argsort().tolist()
    [0, 1, 2]
    """
    if values.dtype.kind == "u":
        return values
    if values.dtype.kind == "i":
        return values.view(np.uint64) ^ _SIGN
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(codes: Codes, kind: str) -> NDArray[Any]:
    """Returns the numbers of codes.

    Args:
        codes: codes of numbers.
        kind: 'f', 'i' or 'u', as of the dtype of the numbers.

    >>> values_of(codes_of(np.array([-3, 7])), "i").tolist()
    [-3, 7]
    """
    if kind == "u":
        return codes
    if kind == "i":
        return (codes ^ _SIGN).view(np.int64)
    return np.where(codes & _SIGN, codes ^ _SIGN, ~codes).view(np.float64)


def mixed(codes: Codes) -> Codes:
    """Returns hashes of 64-bit numbers, different ones for different numbers (the finalizer of SplitMix64).

    >>> mixed(np.array([1], np.uint64)).tolist()
    [10451216379200822465]
    """
    with np.errstate(over="ignore"):
        codes = codes + np.uint64(0x9E3779B97F4A7C15)
        codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


def hashes_of(values: Sequence[bytes]) -> Codes:
    """Returns hashes of strings of bytes: the first 64 bits of BLAKE2b."""
    digest = hashlib.blake2b
    return np.frombuffer(b"".join([digest(value, digest_size=8).digest() for value in values]), np.uint64)


def occurrences(records: NDArray[np.int64], counts: NDArray[np.int64] | int) -> Codes:
    """Returns a hash for each value of each record; samples are those with the smallest hashes.

    Args:
        records: the index in the slice of each record.
        counts: number of values of each.
    """
    hashes = mixed(records.astype(np.uint64))
    if isinstance(counts, int):
        if counts == 1:
            return hashes
        counts = np.full(len(records), counts)
    items = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    with np.errstate(over="ignore"):
        return mixed(np.repeat(hashes, counts) + items.astype(np.uint64))


MAX_VALUES = 4096
SAMPLE = 1024
ROWS, COLUMNS = 4, 2048
MIN_SHARE = 0.005
"""Values with a smaller share are not among the most frequent, unless all values are kept."""


@dataclass
class DistinctValues:
    """Distinct values.

    Attributes:
        shown: display form of each value that is kept.
        hashes: hashes of these values, ascending.
        counts: count of each of these values.
        complete: whether all values are kept.
        sampled: the sample: hashes of occurrences, ascending, and hashes of their values.
        sampled_shown: display form of each value of the sample.
        table: counters, by row and part of the hash.
    """

    shown: NDArray[Any]
    sampled_shown: NDArray[Any]
    hashes: Codes = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    complete: bool = True
    sampled: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((2, 0), np.uint64))
    table: NDArray[np.int64] = field(default_factory=lambda: np.zeros((ROWS, COLUMNS), np.int64))

    @classmethod
    def empty(cls, dtype: Any) -> DistinctValues:
        """Returns no values; `shown` has this dtype."""
        return cls(np.zeros(0, dtype), np.zeros(0, dtype))

    def add(self, hashes: Codes, counts: NDArray[np.int64], texts: NDArray[Any]) -> None:
        """Adds distinct values.

        Args:
            hashes: hash of each value, all distinct.
            counts: count of each value.
            texts: display form of each value.
        """
        for row in range(ROWS):
            np.add.at(self.table[row], _counter_indices(hashes, row), counts)
        self._keep(hashes, counts, texts)

    def sample(self, occurrences: Codes, pick: Callable[[NDArray[np.intp]], tuple[Codes, NDArray[Any]]]) -> None:
        """Adds occurrences of values to the sample.

        Args:
            occurrences: hash of each occurrence.
            pick: function from indices of occurrences to (hashes of their values, representations of the values).
        """
        last = self.sampled[0, -1] if self.sampled.shape[1] == SAMPLE else np.uint64((1 << 64) - 1)
        indices = np.flatnonzero(occurrences <= last)
        if len(indices) > SAMPLE:
            indices = indices[np.argpartition(occurrences[indices], SAMPLE - 1)[:SAMPLE]]
        if len(indices):
            hashes, texts = pick(indices)
            self._keep_sampled(np.stack([occurrences[indices], hashes]), texts)

    def merge(self, other: DistinctValues) -> None:
        """Merges `other` into this in place."""
        self.table = self.table + other.table
        self.complete = self.complete and other.complete
        self._keep(other.hashes, other.counts, other.shown)
        self._keep_sampled(other.sampled, other.sampled_shown)

    def _keep(self, hashes: Codes, counts: NDArray[np.int64], texts: NDArray[Any]) -> None:
        """Adds the counts of values, and keeps the `MAX_VALUES` values with the smallest hashes."""
        # A dropped value always has MAX_VALUES smaller hashes before it, so counts of kept values are complete.
        if not self.complete and len(self.hashes) == MAX_VALUES:
            indices = np.flatnonzero(hashes <= self.hashes[-1])
            hashes, counts, texts = hashes[indices], counts[indices], texts[indices]
        both = np.concatenate([self.hashes, hashes])
        unique, first, inverse = np.unique(both, return_index=True, return_inverse=True)
        sums = np.zeros(len(unique), np.int64)
        np.add.at(sums, inverse, np.concatenate([self.counts, counts]))
        self.complete = self.complete and len(unique) <= MAX_VALUES
        first_indices = first[:MAX_VALUES]
        self.hashes, self.counts = unique[:MAX_VALUES], sums[:MAX_VALUES]
        self.shown = np.concatenate([self.shown, texts])[first_indices]

    def _keep_sampled(self, sampled: NDArray[np.uint64], texts: NDArray[Any]) -> None:
        """Adds occurrences to the sample, and keeps the `SAMPLE` occurrences with the smallest hashes.

        Args:
            sampled: hashes of the occurrences, and hashes of their values; see `DistinctValues`.
            texts: display form of each value.
        """
        both = np.concatenate([self.sampled, sampled], axis=1)
        first_indices = np.argsort(both[0], kind="stable")[:SAMPLE]
        self.sampled = both[:, first_indices]
        self.sampled_shown = np.concatenate([self.sampled_shown, texts])[first_indices]

    # ----------------------------------------------------------------------------------------------------- what follows

    def distinct(self) -> int:
        """Returns the number of distinct values; an estimate if not all are kept."""
        if self.complete:
            return len(self.hashes)
        return round((MAX_VALUES - 1) / ((int(self.hashes[-1]) + 1) / 2**64))

    def top(self, number: int, total: int) -> list[tuple[Any, int]]:
        """Returns the most frequent values, as they are shown, with their counts; see `MIN_SHARE`.

        Args:
            number: maximum number of values.
            total: number of occurrences of all values.
        """
        if self.complete:
            texts, hashes, counts = self.shown, self.hashes, self.counts
        else:
            hashes, first = np.unique(self.sampled[1], return_index=True)
            texts = self.sampled_shown[first]
            counts = np.stack([self.table[row][_counter_indices(hashes, row)] for row in range(ROWS)]).min(axis=0)
            frequent = counts >= max(MIN_SHARE * total, 2)
            texts, hashes, counts = texts[frequent], hashes[frequent], counts[frequent]
        order = np.lexsort((hashes, -counts))
        if texts.dtype.kind != "O":
            order = np.lexsort((texts, -counts))
        return [(texts[i], int(counts[i])) for i in order[:number].tolist()]


def _counter_indices(hashes: Codes, row: int) -> NDArray[Any]:
    """Returns the index in [0, COLUMNS) of the counter of each hash in row `row` of the table, in [0, ROWS)."""
    return (mixed(hashes ^ np.uint64(row << 56)) % np.uint64(COLUMNS)).astype(np.intp)


MAX_BINS = 4096
BARS = 40
_TAIL = 0.005  # share of the numbers, on each side, that is left out if it would take most of the width
_WIDE = 4
UNIT = 1080 + 53  # every finite float64 is an integer times 2**-UNIT


@dataclass
class Spread:
    """Distribution of finite numbers.

    Attributes:
        kind: 'f', 'i' or 'u', as the dtype of the numbers has it.
        count: number of numbers.
        total, squares: see `exact_sums`.
        low, high: codes of the smallest and of the largest number.
        low_at, high_at: index of the first record with it.
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
    low_at: int = 0
    high_at: int = 0
    shift: int = 0
    bins: Codes = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(
        self,
        values: NDArray[Any],
        records: NDArray[np.int64],
        unique: tuple[Codes, NDArray[np.int64]] | None = None,
    ) -> None:
        """Adds numbers.

        Args:
            values: finite float64, int64 or uint64, in the order of their records.
            records: the index of the record of each.
            unique: their distinct codes, ascending, and the count of each; None to compute them.
        """
        if not len(values):
            return
        total, squares = exact_sums(values)
        codes, counts = np.unique(codes_of(values), return_counts=True) if unique is None else unique
        low_at, high_at = int(records[values.argmin()]), int(records[values.argmax()])
        low, high = int(codes[0]), int(codes[-1])
        self.merge(Spread(self.kind, len(values), total, squares, low, high, low_at, high_at, 0, codes, counts))

    def merge(self, other: Spread) -> None:
        """Adds the numbers of another spread."""
        if not other.count:
            return
        if not self.count or (other.low, other.low_at) < (self.low, self.low_at):
            self.low, self.low_at = other.low, other.low_at
        if not self.count or (other.high, -other.high_at) > (self.high, -self.high_at):
            self.high, self.high_at = other.high, other.high_at
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self._bin(other.shift, other.bins, other.counts)

    def _bin(self, shift: int, bins: Codes, counts: NDArray[np.int64]) -> None:
        """Adds counts of bins of codes without their last `shift` bits; omits more bits if there are too many bins."""
        common = max(shift, self.shift)
        both = np.concatenate([self.bins >> np.uint64(common - self.shift), bins >> np.uint64(common - shift)])
        merged_bins, sums = _sum_by_code(both, np.concatenate([self.counts, counts]))
        num_bits = _bits_too_many(merged_bins)
        if num_bits:
            merged_bins, sums = _sum_by_code(merged_bins >> np.uint64(num_bits), sums)
        self.shift, self.bins, self.counts = common + num_bits, merged_bins, sums

    # ----------------------------------------------------------------------------------------------------- what follows

    def value(self, code: int) -> Any:
        """Returns the Python number of a code; codes are uint64 in the order of the numbers."""
        return values_of(np.array([code], np.uint64), self.kind).tolist()[0]

    def mean_and_deviation(self) -> tuple[float, float]:
        """Returns (mean, population standard deviation) of at least one number."""
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
        """Returns (approximate quantile by the inverted CDF, greatest absolute error).

        Args:
            share: the share of numbers that are not greater than the quantile, in [0, 1]; 0.5 for the median.
        """
        rank = min(max(int(np.ceil(share * self.count)), 1), self.count)
        index = int(np.searchsorted(np.cumsum(self.counts), rank))
        lows, highs = self.bounds()
        low, high = lows[index].item(), highs[index].item()
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
    groups, shifts = np.divmod(exponents, 10)  # numbers of up to ten exponents are summed together
    integers = np.ldexp(mantissas, 53 + shifts).astype(np.int64)  # each number is whole * 2**(10 * group - 53)
    total, squares = 0, 0
    for group in np.unique(groups).tolist():
        part_total, part_squares = _integer_sums(integers[groups == group])
        total += part_total << 10 * group - 53 + UNIT
        squares += part_squares << 2 * (10 * group - 53 + UNIT)
    return total, squares


def _integer_sums(values: NDArray[Any]) -> tuple[int, int]:
    """Returns (sum, sum of squares) of int64 or uint64 values, as exact Python integers."""
    negative = values < 0
    sizes = np.where(negative, -values, values).astype(np.uint64)  # int64's minimum is its own negative: 2**63 unsigned
    high, low = sizes >> np.uint64(32), sizes & np.uint64(0xFFFFFFFF)
    squares = (_exact_sum(high * high) << 64) + (_exact_sum(high * low) << 33) + _exact_sum(low * low)
    return _exact_sum(sizes) - 2 * _exact_sum(sizes[negative]), squares


def _exact_sum(values: NDArray[np.uint64]) -> int:
    """Returns the sum of uint64 values, as an exact Python integer."""
    return (int((values >> np.uint64(32)).sum()) << 32) + int((values & np.uint64(0xFFFFFFFF)).sum())


def _root(number: Fraction) -> float:
    """Returns the square root of a fraction that may be too large or too small for a float."""
    shift = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number / Fraction(4) ** shift  # between 1/4 and 8, or 0
    return float(Fraction(float(scaled) ** 0.5) * Fraction(2) ** shift)


def _sum_by_code(codes: Codes, counts: NDArray[np.int64]) -> tuple[Codes, NDArray[np.int64]]:
    """Returns the distinct codes, ascending, and the sum of the counts of each.

    >>> [array.tolist() for array in _sum_by_code(np.array([7, 3, 7], np.uint64), np.array([1, 2, 3]))]
    [[3, 7], [2, 4]]
    """
    if not len(codes):
        return codes, counts
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return codes[starts], np.add.reduceat(counts, starts)


def _bits_too_many(bins: Codes) -> int:
    """Returns the number of further bits to leave out, so that at most `MAX_BINS` bins are occupied."""
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
    are_integers = spread.kind != "f"
    lows, highs = (bounds.tolist() for bounds in spread.bounds())
    totals: list[int] = [0, *accumulate(spread.counts.tolist())]
    edges = bar_edges(*_range(spread), are_integers=are_integers)

    def below(edge: Any) -> int:
        """Returns the count of numbers below an edge; a bin that the edge divides is interpolated."""
        index = bisect_left(highs, edge)
        if index == len(lows) or lows[index] >= edge:
            return totals[index]
        share: float = (edge - lows[index]) / (
            highs[index] - lows[index] + are_integers
        )  # of the bin that the edge is in
        return totals[index] + round((totals[index + 1] - totals[index]) * share)

    first, last = (
        totals[bisect_left(highs, edges[0])],
        totals[(bisect_left if are_integers else bisect_right)(lows, edges[-1])],
    )
    cumulated = [first, *map(below, edges[1:-1]), last]
    counts = [stop - start for start, stop in pairwise(cumulated)]
    return {"edges": edges, "counts": counts, "below": first, "above": spread.count - last}


def _range(spread: Spread) -> tuple[Any, Any]:
    """Returns (smallest, largest) number that a histogram shows.

    The tails, a share of `_TAIL` at each end, are left out if they would take most of the width.
    """
    low, high = spread.value(spread.low), spread.value(spread.high)
    first, last = spread.quantile(_TAIL)[0], spread.quantile(1 - _TAIL)[0]
    # halves, because the difference of two floats may be infinite
    return (first, last) if first < last and high / 2 - low / 2 > _WIDE * (last / 2 - first / 2) else (low, high)


def bar_edges(first: Any, last: Any, *, are_integers: bool) -> list[Any]:
    """Returns the n + 1 edges of n bars of equal width for the numbers from `first` to `last`, both included.

    Args:
        first: the smallest number.
        last: the largest number.
        are_integers: whether the numbers are integers; then the edges are, too, and the last edge is greater than
            `last`.

    >>> bar_edges(0, 3, are_integers=True), bar_edges(1.5, 1.5, are_integers=False)
    ([0, 1, 2, 3, 4], [1.5, 1.5])
    """
    if are_integers:
        width = -(-(last - first + 1) // BARS)
        return [first + width * bar for bar in range(-(-(last - first + 1) // width) + 1)]
    if first == last:
        return [first, last]
    return [first * (1 - bar / BARS) + last * (bar / BARS) for bar in range(BARS + 1)]
