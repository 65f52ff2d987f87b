"""How numbers spread: extremes, sums, and counts in bins that are as fine as room allows.

All of it is the same in whatever order, and in whatever groups, the numbers come. That is what sketches that draw
random bits (KLL, REQ), or whose outcome depends on the order of merging (t-digest), do not give.

The bins are those of the codes' leading bits, as many bits as leave at most `MOST_BINS` bins occupied. Of a part of the
numbers no more bins are occupied than of all, so no part is ever binned more coarsely than all of them in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.statistics import exact
from beam_datasets.statistics.codes import codes_of, values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from beam_datasets.statistics.codes import Codes

MOST_BINS = 4096


def _none() -> NDArray[Any]:
    return np.zeros(0, np.uint64)


def _no_counts() -> NDArray[Any]:
    return np.zeros(0, np.int64)


@dataclass
class Spread:
    """Numbers summed up; none of them NaN or infinite.

    Attributes:
        kind: 'f', 'i' or 'u', what the numbers are.
        count: how many there are.
        total, squares: their sums; see `exact.sums`.
        low, high: the codes of the smallest and of the largest.
        shift: how many of the last bits of codes are left out for the bins.
        bins: the occupied bins, ascending: codes without these bits.
        counts: how many numbers are in each.
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
        """Takes up numbers.

        Args:
            values: float64, int64 or uint64.
            unique: their different codes, ascending, and how many of each there are; None to find them.
        """
        if not len(values):
            return
        total, squares = exact.sums(values)
        codes, counts = np.unique(codes_of(values), return_counts=True) if unique is None else unique
        self._take(len(values), total, squares, int(codes[0]), int(codes[-1]))
        self._bin(0, codes, counts)

    def merge(self, other: Spread) -> None:
        """Takes up the numbers of another one."""
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
        """Returns the mean and the standard deviation of at least one number."""
        return exact.mean_and_deviation(self.count, self.total, self.squares, floats=self.kind == "f")

    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the smallest and the largest number that each bin may hold, as float64 or integers."""
        shift = np.uint64(self.shift)
        first = self.bins << shift
        last = first | np.uint64((1 << self.shift) - 1)
        low, high = np.uint64(self.low), np.uint64(self.high)
        return values_of(np.maximum(first, low), self.kind), values_of(np.minimum(last, high), self.kind)

    def quantile(self, share: float) -> tuple[Any, float]:
        """Returns about the smallest number that at least this share of all do not exceed, and how far off it may be.

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


def _summed(codes: Codes, counts: NDArray[np.int64]) -> tuple[Codes, NDArray[np.int64]]:
    """Returns the different codes, ascending, and the sum of the counts of each."""
    if not len(codes):
        return codes, counts
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return codes[starts], np.add.reduceat(counts, starts)


def _bits_too_many(bins: Codes) -> int:
    """Returns how many more bits to leave out, that not too many bins are occupied."""
    if len(bins) <= MOST_BINS:
        return 0
    # Neighbours become one where they differ in no bit that is kept; the MOST_BINS-th largest difference must go.
    differences = np.sort(bins[1:] ^ bins[:-1])
    return int(differences[-MOST_BINS]).bit_length()
