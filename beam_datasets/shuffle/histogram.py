"""Counts of examples by sort key, which let shards end at exact ranks before all examples are sorted.

A histogram counts the examples and bytes of one split in bins of equal width: bin = sort key >> shift. Only non-empty
bins are stored. It starts at full resolution, and halves the resolution while it has too many bins. The cost depends on
the number of non-empty bins, not on their distances, so a few outliers among integer keys cost nothing.

The resolution affects only how many records are read twice because their bin is in two shards; it never affects the
bytes that are written.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.shuffle.rejected import NO_REJECTIONS, Rejections, merge_rejections

DEFAULT_BINS = 1 << 16  # 2 MB; of 1,000 shards 1.5% of the records then straddle two and are read twice
MAX_BINS = 1 << 22
BINS_PER_SHARD = 64  # then at most one record in 64 is read twice
BLOCK_BINS = 1 << 16


@dataclass(frozen=True, slots=True)
class Histogram:
    """Examples of a split by bins of their sort keys.

    Attributes:
        shift: a bin is the sort keys that agree but for their lowest `shift` bits; 0 to 128.
        bins: (n, 2) uint64, the first sort key of each bin as high and low half, ascending.
        counts: (n,) int64, examples of each bin.
        num_bytes: (n,) int64, size of their framed records in bytes.
        libraries: the libraries whose versions determined bytes of the examples; see `features.raw.record_libraries`.
        num_blocks: number of blocks that hold the examples.
        requests: I/O counts of the processes that encoded them; not all that others did.
        rejections: counts of the examples that the builder rejected, which are in no bin.
    """

    shift: int
    bins: NDArray[np.uint64]
    counts: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    libraries: frozenset[str] = frozenset()
    num_blocks: int = 0
    requests: storage.Requests = field(default=storage.Requests(), compare=False)
    rejections: Rejections = NO_REJECTIONS

    @property
    def total(self) -> int:
        """Number of examples."""
        return int(self.counts.sum())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles each column with as few bytes a number as its largest one needs; most numbers are small."""
        high = self.bins[:, 0] >> np.uint64(max(0, self.shift - 64))
        all_columns = (high, self.bins[:, 1], self.counts, self.num_bytes)
        columns = [column.astype(np.min_scalar_type(int(column.max(initial=0)))) for column in all_columns]
        return _unpickle, (self.shift, *columns, self.libraries, self.num_blocks, self.requests, self.rejections)


EMPTY = Histogram(0, np.empty((0, 2), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
"""The histogram of no examples."""


def _unpickle(
    shift: int, high: NDArray[Any], low: NDArray[Any], counts: NDArray[Any], num_bytes: NDArray[Any], *others: Any
) -> Histogram:
    """Returns the histogram of the columns that `Histogram.__reduce__` has made, and of its other attributes."""
    bins = np.stack([high.astype(np.uint64) << np.uint64(max(0, shift - 64)), low.astype(np.uint64)], axis=1)
    return Histogram(shift, bins, counts.astype(np.int64), num_bytes.astype(np.int64), *others)


def count_keys(
    keys: NDArray[np.uint64], sizes: NDArray[np.int64], max_bins: int = BLOCK_BINS, shift: int = 0
) -> Histogram:
    """Returns the histogram of some records.

    Args:
        keys: (n, 2), their sort keys, ascending.
        sizes: (n,), their framed sizes in bytes.
        max_bins: maximum number of bins.
        shift: the finest resolution that is of use.
    """
    return _coarsen(shift, keys, np.ones(len(keys), np.int64), sizes, max_bins)


def merge(histograms: Iterable[Histogram], max_bins: int = DEFAULT_BINS) -> Histogram:
    """Returns the histogram of all examples of several histograms, in wider bins if `max_bins` do not suffice."""
    parts = [EMPTY, *histograms]
    shift = max(histogram.shift for histogram in parts)
    bins = _clear_low_bits(np.concatenate([histogram.bins for histogram in parts]), shift)
    high, low = bins[:, 0], bins[:, 1]
    order = np.lexsort((low, high)) if low.any() else np.argsort(high, kind="stable")
    counts = np.concatenate([histogram.counts for histogram in parts])[order]
    num_bytes = np.concatenate([histogram.num_bytes for histogram in parts])[order]
    return replace(
        _coarsen(shift, bins[order], counts, num_bytes, max_bins),
        libraries=frozenset[str]().union(*(histogram.libraries for histogram in parts)),
        num_blocks=sum(histogram.num_blocks for histogram in parts),
        requests=storage.sum_requests(histogram.requests for histogram in parts),
        rejections=merge_rejections(histogram.rejections for histogram in parts),
    )


def max_bins(num_shards: int) -> int:
    """Returns the number of bins to keep for a number of shards, which is 0 if it is not known yet.

    >>> max_bins(0) == DEFAULT_BINS, max_bins(20_000)
    (True, 1280000)
    """
    return min(max(DEFAULT_BINS, BINS_PER_SHARD * num_shards), MAX_BINS)


def hash_shift(max_bins: int) -> int:
    """Returns the number of low bits of hashes, which are spread evenly, to ignore so that `max_bins` bins suffice.

    >>> hash_shift(DEFAULT_BINS), hash_shift(DEFAULT_BINS + 1)
    (112, 111)
    """
    return 128 - (max_bins - 1).bit_length()


def _coarsen(
    shift: int, bins: NDArray[np.uint64], counts: NDArray[np.int64], num_bytes: NDArray[np.int64], max_bins: int
) -> Histogram:
    """Adds up bins that are equal at a coarser resolution: the finest that leaves at most `max_bins` bins.

    Args:
        shift: minimum number of low bits of a key that are ignored.
        bins: (n, 2) uint64, the sort key of each bin as high and low half, ascending.
        counts: (n,) int64, number of examples of each bin.
        num_bytes: (n,) int64, size in bytes of the framed records of each bin.
        max_bins: maximum number of bins of the result, at least 1.
    """
    high, low = (bins[1:] ^ bins[:-1]).T

    def differs(shift: int) -> Any:
        """Returns for each bin but the first, as an array of bools, whether it differs from the one before."""
        if shift >= 64:
            return high >> np.uint64(shift - 64) > 0 if shift < 128 else np.zeros(len(high), np.bool_)
        return (high > 0) | (low >> np.uint64(shift) > 0)

    shift = bisect.bisect_left(range(128), True, shift, key=lambda shift: int(differs(shift).sum()) < max_bins)
    starts = np.concatenate([[0], np.flatnonzero(differs(shift)) + 1])[: len(bins)]
    return Histogram(
        shift, _clear_low_bits(bins[starts], shift), np.add.reduceat(counts, starts), np.add.reduceat(num_bytes, starts)
    )


def _clear_low_bits(keys: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
    """Returns the keys (n, 2) with their lowest `shift` bits cleared."""
    if shift == 0:
        return keys
    mask = ((1 << 128) - 1) >> shift << shift
    return keys & np.array([mask >> 64, mask & (2**64 - 1)], np.uint64)
