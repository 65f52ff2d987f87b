"""Counting examples by sort key, so that shards can end at exact ranks before anything is sorted as a whole.

A histogram counts the examples and bytes of one split in bins of equal width: bin = sort key >> shift, and only bins
that hold something are kept. It starts as fine as it can be, and halves its resolution while it has too many bins. So
a few outliers among integer keys cost nothing: what counts is how many bins are occupied, not how far they lie apart.

How fine the bins are decides only how much is read twice where a bin straddles two shards, never what is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MAX_BINS = 1 << 18  # 8 MB; of 1,000 shards 0.4% of the records then straddle two and are read twice
BLOCK_BINS = 1 << 16


@dataclass(frozen=True, slots=True)
class Histogram:
    """Examples of a split by bins of their sort keys.

    Attributes:
        shift: a bin is the sort keys that agree but for their lowest `shift` bits; 0 to 127.
        bins: (n, 2) uint64, the first sort key of each bin as high and low half, ascending.
        counts: (n,) int64, examples of each bin.
        num_bytes: (n,) int64, size of their framed records in bytes.
    """

    shift: int
    bins: NDArray[np.uint64]
    counts: NDArray[np.int64]
    num_bytes: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Number of examples."""
        return int(self.counts.sum())


def count_keys(keys: NDArray[np.uint64], sizes: NDArray[np.int64], max_bins: int = BLOCK_BINS) -> Histogram:
    """Returns the histogram of ascending sort keys (n, 2) and their records' framed sizes in bytes."""
    return _coarsen(0, keys, np.ones(len(keys), np.int64), sizes, max_bins)


def merge(histograms: Iterable[Histogram], max_bins: int = MAX_BINS) -> Histogram:
    """Returns the histogram of all the examples together."""
    parts = list(histograms)
    if not parts:
        return Histogram(0, np.empty((0, 2), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
    shift = max(part.shift for part in parts)
    bins = _floor(np.concatenate([part.bins for part in parts]), shift)
    order = np.lexsort((bins[:, 1], bins[:, 0]))
    counts = np.concatenate([part.counts for part in parts])[order]
    num_bytes = np.concatenate([part.num_bytes for part in parts])[order]
    return _coarsen(shift, bins[order], counts, num_bytes, max_bins)


def _coarsen(
    shift: int, bins: NDArray[np.uint64], counts: NDArray[np.int64], num_bytes: NDArray[np.int64], max_bins: int
) -> Histogram:
    """Adds up equal neighbours, at the finest resolution from `shift` on that leaves at most max_bins of them."""
    shift = _finest(bins, shift, max_bins)
    bins = _floor(bins, shift)
    starts = np.flatnonzero(_changes(bins))
    return Histogram(shift, bins[starts], np.add.reduceat(counts, starts), np.add.reduceat(num_bytes, starts))


def _finest(bins: NDArray[np.uint64], shift: int, max_bins: int) -> int:
    """Returns the lowest shift from `shift` on at which ascending bins have at most max_bins different values."""
    if np.count_nonzero(_changes(_floor(bins, shift))) <= max_bins:
        return shift
    low, high = shift, 127  # `low` leaves too many, `high` at most two
    while high - low > 1:
        middle = (low + high) // 2
        if np.count_nonzero(_changes(_floor(bins, middle))) <= max_bins:
            high = middle
        else:
            low = middle
    return high


def _changes(bins: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Returns where a value differs from the one before it; the first does."""
    first = np.ones(len(bins), np.bool_)
    first[1:] = (bins[1:] != bins[:-1]).any(axis=1)
    return first


def _floor(keys: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
    """Returns the keys (n, 2) with their lowest `shift` bits cleared."""
    if shift == 0:
        return keys
    mask = ((1 << 128) - 1) >> shift << shift
    return keys & np.array([mask >> 64, mask & (2**64 - 1)], np.uint64)
