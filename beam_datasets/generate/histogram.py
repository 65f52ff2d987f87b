"""Counts of examples by sort key, which let shards end at exact ranks before all examples are sorted.

A histogram counts the examples and bytes of one split in bins of equal width: bin = sort key >> shift. Only non-empty
bins are stored. It starts at full resolution, and halves the resolution while it has too many bins. The cost depends on
the number of non-empty bins, not on their distances, so a few outliers among integer keys cost nothing.

The resolution affects only how many records are read twice because their bin is in two shards; it never affects the
bytes that are written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage

DEFAULT_BINS = 1 << 16  # 2 MB; of 1,000 shards 1.5% of the records then straddle two and are read twice
MAX_BINS = 1 << 22
BINS_PER_SHARD = 64  # then at most one record in 64 is read twice
BLOCK_BINS = 1 << 16
_HEADER = struct.Struct("<BQQ4B")  # shift, number of blocks and of bins, bytes of a number in each column
_REQUESTS = struct.Struct("<4Qd")


@dataclass(frozen=True, slots=True)
class Histogram:
    """Examples of a split by bins of their sort keys.

    Attributes:
        shift: a bin is the sort keys that agree but for their lowest `shift` bits; 0 to 127.
        bins: (n, 2) uint64, the first sort key of each bin as high and low half, ascending.
        counts: (n,) int64, examples of each bin.
        num_bytes: (n,) int64, size of their framed records in bytes.
        libraries: whose versions determined bytes of the examples; see `features.raw.record_libraries`.
        num_blocks: number of blocks that hold the examples.
        requests: I/O counts of the processes that encoded them; not all that others did.
    """

    shift: int
    bins: NDArray[np.uint64]
    counts: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    libraries: frozenset[str] = frozenset()
    num_blocks: int = 0
    requests: storage.Requests = field(default=storage.Requests(), compare=False)

    @property
    def total(self) -> int:
        """Number of examples."""
        return int(self.counts.sum())

    def to_bytes(self) -> bytes:
        """Returns the histogram as bytes; most numbers are small, so each column takes as few as its largest needs."""
        high = self.bins[:, 0] >> np.uint64(max(0, self.shift - 64))
        columns = [_narrow_numbers(column) for column in (high, self.bins[:, 1], self.counts, self.num_bytes)]
        header = _HEADER.pack(self.shift, self.num_blocks, len(high), *(column.itemsize for column in columns))
        names = "\n".join(sorted(self.libraries)).encode()
        return b"".join((header, _REQUESTS.pack(*self.requests), *(column.tobytes() for column in columns), names))

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Histogram:
        """Returns the histogram that `to_bytes` has encoded."""
        shift, num_blocks, count, *widths = _HEADER.unpack_from(encoded)
        requests = storage.Requests(*_REQUESTS.unpack_from(encoded, _HEADER.size))
        columns, at = [], _HEADER.size + _REQUESTS.size
        for width in widths:
            columns.append(np.frombuffer(encoded, f"<u{width}", count, at))
            at += width * count
        high, low, counts, num_bytes = columns
        bins = np.stack([high.astype(np.uint64) << np.uint64(max(0, shift - 64)), low.astype(np.uint64)], axis=1)
        libraries = frozenset(encoded[at:].decode().splitlines())
        return cls(shift, bins, counts.astype(np.int64), num_bytes.astype(np.int64), libraries, num_blocks, requests)

    def __reduce__(self) -> tuple[Any, ...]:
        return Histogram.from_bytes, (self.to_bytes(),)


def _narrow_numbers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Returns integers, which are not negative, in the narrowest unsigned little-endian type that holds all of them.

    >>> _narrow_numbers(np.array([1, 300])).dtype.str
    '<u2'
    """
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))).newbyteorder("<"))


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
    """Returns the histogram of all the examples together."""
    parts = list(histograms)
    libraries = frozenset[str]().union(*(histogram.libraries for histogram in parts))
    merged = _merge_counts([histogram for histogram in parts if len(histogram.counts)], max_bins)
    requests = storage.sum_requests(histogram.requests for histogram in parts)
    return replace(
        merged, libraries=libraries, num_blocks=sum(histogram.num_blocks for histogram in parts), requests=requests
    )


def _merge_counts(parts: list[Histogram], max_bins: int) -> Histogram:
    """Returns the bins of all histograms together, at the coarsest of their resolutions or a coarser one."""
    if not parts:
        return Histogram(0, np.empty((0, 2), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
    shift = max(histogram.shift for histogram in parts)
    bins = _clear_low_bits(np.concatenate([histogram.bins for histogram in parts]), shift)
    high, low = bins[:, 0], bins[:, 1]
    order = np.lexsort((low, high)) if low.any() else np.argsort(high, kind="stable")
    counts = np.concatenate([histogram.counts for histogram in parts])[order]
    num_bytes = np.concatenate([histogram.num_bytes for histogram in parts])[order]
    return _coarsen(shift, bins[order], counts, num_bytes, max_bins)


def max_bins(num_shards: int) -> int:
    """Returns the number of bins to keep for a number of shards, which is 0 if it is not known yet.

    >>> max_bins(0) == DEFAULT_BINS, max_bins(20_000)
    (True, 1280000)
    """
    return min(max(DEFAULT_BINS, BINS_PER_SHARD * num_shards), MAX_BINS)


def hash_shift(max_bins: int) -> int:
    """Returns the finest resolution that is of use for hashes, which are spread evenly, where so many bins are kept.

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
    bits = _differing_bits(bins)
    remaining = len(bits) - np.cumsum(np.bincount(bits, minlength=128))  # [s]: neighbours that differ at shift s
    shift = max(shift, int(np.argmax(remaining < max_bins)))
    starts = np.concatenate([[0], np.flatnonzero(bits > shift) + 1])
    return Histogram(
        shift, _clear_low_bits(bins[starts], shift), np.add.reduceat(counts, starts), np.add.reduceat(num_bytes, starts)
    )


def _differing_bits(bins: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns for each neighbouring pair how many of the lowest bits must go to make the two equal: 0 to 128."""
    high, low = (bins[1:] ^ bins[:-1]).T
    return np.where(high > 0, 64 + _bit_lengths(high), _bit_lengths(low))


def _bit_lengths(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the bit length of each number; half by half, because a float64 holds 53 bits exactly."""
    upper = numbers >> np.uint64(32)
    half = np.where(upper > 0, upper, numbers)
    return np.frexp(half.astype(np.float64))[1].astype(np.int64) + 32 * (upper > 0)


def _clear_low_bits(keys: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
    """Returns the keys (n, 2) with their lowest `shift` bits cleared."""
    if shift == 0:
        return keys
    mask = ((1 << 128) - 1) >> shift << shift
    return keys & np.array([mask >> 64, mask & (2**64 - 1)], np.uint64)
