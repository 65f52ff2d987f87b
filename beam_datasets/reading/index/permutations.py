"""Shuffled orders, computed by arithmetic.

There are three shuffles, each a function of (seed, epoch) alone: of files, of a window over the read order, of a whole
range.

`file_order` is TFDS's seeded shuffle of files and gives the same numbers. The other two are this library's own. They
map a position in the shuffled order to the position in the unshuffled order of the item there (its *source*). A
position does not depend on the positions before it, so a reader resumes anywhere without replaying earlier items.

`RangeShuffle` is a Feistel network: a position is written as two digits (high, low) in a mixed radix near the square
root of the length. In turn, a keyed hash of one digit is added to the other, which a subtraction would undo. The radix
gives slightly more numbers than positions; a result that is not a position is permuted again. `WindowShuffle` cuts the
range into blocks, sorts each block by a hash of its positions, and does so a second time with the cuts moved by half a
block.

Measured quality. `RangeShuffle`: with 8 rounds all orderings of 3, 5 and 7 positions, and all pairs of positions of
two out of 9 to 100, were as frequent as in random permutations; with 6 rounds adjacent positions were correlated; it
uses 10. Over a million positions of 10^6, 10^9 and 2^61 no correlation with the position, the adjacent positions, the
next epoch or the next seed was above 0.003. `WindowShuffle` moves an example by 0.36 windows on average, at most one,
and puts adjacent examples 0.44 windows apart; with fixed blocks of a window it would be 0.33 and 0.33, and no example
would cross a cut; a random buffer, which cannot start in the middle, has 0.74 and 1.0. Both take about 0.1
microseconds per position with NumPy.

The order is a format. A change of the hash, its keys, the rounds or the cuts changes the meaning of every saved state
and the order of every published experiment. Do not change them; add a new shuffle. Literals in the tests pin each.
"""

from __future__ import annotations

import functools
import hashlib
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

T = TypeVar("T")

_ROUNDS = 10
_MIN_RADIX = 8  # a network of fewer than 64 numbers cannot make all orderings equally likely
_AT_ONCE = 16384  # positions whose intermediate arrays fit the processor's cache
_MASK = 2**64 - 1
_STEP, _MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd 64-bit multipliers with about as many ones as zeros


def file_order(num_files: int, seed: int, epoch: int = 0, *, reshuffle: bool = True) -> list[int]:
    """Returns the numbers of the files in the order in which TFDS's `shuffle_files` opens them, given a `shuffle_seed`.

    It is tf.data's shuffle with a buffer of all files. The words come from Philox4x32-10 (Salmon et al., "Parallel
    random numbers: as easy as 1, 2, 3", 2011).

    Args:
        num_files: number of files, at least 0.
        seed: any integer; tf.data takes it modulo 2^31 - 1.
        epoch: number of the epoch, at least 0.
        reshuffle: whether the order depends on the epoch.

    >>> file_order(5, seed=42), file_order(5, seed=42, epoch=1)
    ([0, 4, 1, 3, 2], [3, 4, 1, 0, 2])
    """
    if epoch < 0:
        raise ValueError(f"epoch must be at least 0, got {epoch}")
    first, second = 87654321, seed % (2**31 - 1)
    if reshuffle:
        words = _philox(first, second, epoch // 2, 1)[2 * (epoch % 2) :]
        first, second = int(words[0]), int(words[1])
    order = list(range(num_files))
    for i, word in enumerate(_philox(first, second, 0, -(-num_files // 4))[:num_files].tolist()):
        j = i + word % (num_files - i)
        order[i], order[j] = order[j], order[i]
    return order


def _philox(key: int, high: int, first: int, count: int) -> Words:
    """Returns random 32-bit words of Philox4x32-10, shape (4 * count,).

    Args:
        key: the key, 64 bits.
        high: upper 64 bits of the counters.
        first: lower 64 bits of the first counter, which the others follow.
        count: number of counters; each gives 4 words.
    """
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    counters = np.arange(count, dtype=np.uint64) + np.uint64(first & _MASK)  # the sum wraps modulo 2**64
    x0, x1 = counters & low32, counters >> shift
    x2, x3 = np.full_like(counters, high & 0xFFFFFFFF), np.full_like(counters, high >> 32)
    for i in range(10):
        k0 = np.uint64((key + i * 0x9E3779B9) & 0xFFFFFFFF)
        k1 = np.uint64(((key >> 32) + i * 0xBB67AE85) & 0xFFFFFFFF)
        product0, product1 = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (
            (product1 >> shift) ^ x1 ^ k0,
            product1 & low32,
            (product0 >> shift) ^ x3 ^ k1,
            product0 & low32,
        )
    return np.stack([x0, x1, x2, x3], axis=1).ravel()


@dataclass(frozen=True)
class RangeShuffle:
    """A permutation of [0, length), computed position by position in memory that does not grow with the length.

    Attributes:
        length: number of positions, less than 2^62.
        seed: any integer.
        epoch: any integer; each epoch has another permutation.

    >>> RangeShuffle(10**9, seed=1).sources([0]).tolist()
    [522323491]
    """

    length: int
    seed: int
    epoch: int = 0

    def sources(self, positions: Sequence[int] | NDArray[Any]) -> Ints:
        """Returns the unshuffled position of the item at each shuffled position, as an array of the same length."""
        numbers = np.asarray(positions, np.int64)
        out = np.empty(len(numbers), dtype=np.uint64)
        for start in range(0, len(numbers), _AT_ONCE):
            permuted = self._permute(numbers[start : start + _AT_ONCE].astype(np.uint64))
            out_of_range = np.flatnonzero(permuted >= self.length)
            while len(out_of_range):
                permuted[out_of_range] = self._permute(permuted[out_of_range])
                out_of_range = out_of_range[permuted[out_of_range] >= self.length]
            out[start : start + _AT_ONCE] = permuted
        return out.astype(np.int64)

    @functools.cached_property
    def _radices(self) -> tuple[int, int]:
        """(number of values of the low digit, of the high digit); their product is at least `length`."""
        low = max(math.isqrt(max(0, self.length - 1)) + 1, _MIN_RADIX)
        return low, max(-(-self.length // low), _MIN_RADIX)

    @functools.cached_property
    def _keys(self) -> tuple[int, ...]:
        """The 64-bit key of each round."""
        return _derive_keys(_ROUNDS, "range", self.seed, self.epoch)

    def _permute(self, numbers: Words) -> Words:
        """Returns the images of numbers in [0, product of `_radices`), a range slightly larger than [0, length).

        The numbers and the result are arrays of uint64 of the same shape.
        """
        low_radix, high_radix = map(np.uint64, self._radices)
        high, low = numbers // low_radix, numbers % low_radix
        for i in range(0, _ROUNDS, 2):
            low = _add_hash(low, high, self._keys[i], low_radix)
            high = _add_hash(high, low, self._keys[i + 1], high_radix)
        return high * low_radix + low


@dataclass(frozen=True)
class WindowShuffle:
    """A permutation of [0, length) that moves each position by less than `window`, so that few examples must be held.

    It has two passes, each over blocks of two thirds of the window. The cuts of the second pass are in the middle of
    the blocks of the first. All cuts move with the epoch, so that no cut always separates the same examples. If the
    window is at least the length, the whole range is shuffled.

    Attributes:
        length: number of positions.
        window: maximum number of examples in memory, at least 1; 1 does not change the order, and 2 counts as 3.
        seed: any integer.
        epoch: any integer; each epoch has another order.

    >>> "".join(WindowShuffle(16, window=6, seed=1).apply(lambda first: iter("abcdefghijklmnop"[first:])))
    'cbafgedjkhimnpol'
    """

    length: int
    window: int
    seed: int
    epoch: int = 0

    def sources(self, positions: Sequence[int] | NDArray[Any]) -> Ints:
        """Returns the unshuffled position of the item at each shuffled position; fast if the positions are adjacent."""
        numbers = np.asarray(positions, np.int64)
        for pass_ in reversed(self._passes):
            numbers = pass_.sources(numbers)
        return numbers

    def apply(self, read: Callable[[int], Iterator[T]], start: int = 0) -> Iterator[T]:
        """Yields the items at the shuffled positions [start, length).

        Reads each item once and holds at most `window` of them. If `start` is not 0, it also reads, but does not hold,
        up to 4/3 `window` items that are at shuffled positions before `start`.

        Args:
            read: read(first) yields the unshuffled items from position `first` on.
            start: a shuffled position in [0, length].
        """
        if start >= self.length:
            return
        next_source = self.first_source(start)
        yielded_sources = set(self.sources(np.arange(max(0, next_source - self.window), start)).tolist())
        items = read(next_source)
        window_items: dict[int, T] = {}  # by source
        for source in self._iter_sources(start):
            while next_source <= source:
                item = next(items)
                if next_source not in yielded_sources:
                    window_items[next_source] = item
                next_source += 1
            yield window_items.pop(source)

    def first_source(self, start: int) -> int:
        """Returns a lower bound of the sources of the shuffled positions [start, length)."""
        for pass_ in reversed(self._passes):
            start = pass_.bounds(start)[0]
        return start

    def _iter_sources(self, start: int) -> Iterator[int]:
        """Yields the source of each shuffled position in [start, length), computed several blocks at a time."""
        while start < self.length:
            stop = min(start + _AT_ONCE, self.length)
            if self._passes:
                stop = self._passes[-1].bounds(stop - 1)[1]  # the end of a block, which is not computed twice
            yield from self.sources(np.arange(start, stop)).tolist()
            start = stop

    @functools.cached_property
    def _passes(self) -> tuple[_Pass, ...]:
        """The block shuffles that make up the permutation, in the order in which they are applied to items."""
        if self.window == 1 or self.length <= 1:
            return ()
        first, second, shift = _derive_keys(3, "window", self.seed, self.epoch)
        if self.window >= self.length:
            return (_Pass(self.length, self.length, 0, first),)
        half = max(1, self.window // 3)
        start = shift % (2 * half)
        return _Pass(self.length, 2 * half, start, first), _Pass(
            self.length, 2 * half, (start + half) % (2 * half), second
        )


def block_orders(blocks: Ints, size: int, seed: int, salt: str) -> Ints:
    """Returns a permutation of [0, size) for each block, shape (blocks, size).

    Args:
        blocks: number of each block, at least 0; its permutation is a function of it, the seed and the salt.
        size: length of each permutation.
        seed: any integer.
        salt: name of the use, so that uses with the same seed have other permutations.

    >>> block_orders(np.array([0, 1, 10**12]), 4, seed=1, salt="mix").tolist()
    [[0, 3, 2, 1], [2, 1, 3, 0], [1, 0, 2, 3]]
    """
    starts = blocks * size
    shuffled = _Pass(2**62, size, 0, _derive_keys(1, salt, seed, 0)[0]).shuffle_blocks(starts)
    orders: Ints = shuffled - starts[:, None]
    return orders


@dataclass(frozen=True)
class _Pass:
    """A shuffle within each block of [0, length).

    The positions of a block are sorted by a hash (SplitMix64's output function). The low bits of the sorted numbers are
    the index in the block, so that positions with the same hash keep their order with any sort algorithm.

    Attributes:
        length: number of positions.
        size: number of positions in a block; the first and the last block may have fewer.
        cut: a position in [0, size) at which a block begins; others begin at `cut` + size, `cut` + 2 * size, ...
        key: the key of the hash, 64 bits.
    """

    length: int
    size: int
    cut: int
    key: int

    def bounds(self, position: int) -> tuple[int, int]:
        """Returns the range [start, stop) of the block that contains a position."""
        start = (position - self.cut) // self.size * self.size + self.cut
        return max(0, start), min(self.length, start + self.size)

    def sources(self, numbers: Ints) -> Ints:
        """Returns the unshuffled position of the item at each shuffled position, which is in the same block."""
        out = np.empty_like(numbers)
        blocks, block_indices = np.unique((numbers - self.cut) // self.size, return_inverse=True)
        order = np.argsort(block_indices, kind="stable")
        at_once = max(1, _AT_ONCE // self.size)
        for i in range(0, len(blocks), at_once):
            indices = order[slice(*np.searchsorted(block_indices[order], [i, i + at_once]))]
            starts = blocks[i : i + at_once] * self.size + self.cut
            rows = block_indices[indices] - i
            out[indices] = self.shuffle_blocks(starts)[rows, numbers[indices] - np.maximum(starts, 0)[rows]]
        return out

    def shuffle_blocks(self, starts: Ints) -> Ints:
        """Returns the positions of each block in their shuffled order, shape (blocks, size).

        Args:
            starts: the first position of each block, below 0 if the first block has fewer than `size` positions. The
                row of such a block ends with undefined numbers.
        """
        positions = starts[:, None] + np.arange(self.size)
        low_bits = np.uint64(2 ** (self.size - 1).bit_length() - 1)
        words = positions.astype(np.uint64) * np.uint64(_STEP) + np.uint64(self.key)
        words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        words = (words ^ words >> np.uint64(31)) & ~low_bits | np.arange(self.size, dtype=np.uint64)
        words[(positions < 0) | (positions >= self.length)] = _MASK
        words.sort(axis=1)
        return starts[:, None] + (words & low_bits).astype(np.int64)


def _add_hash(digits: Words, numbers: Words, key: int, radix: np.uint64) -> Words:
    """Adds the keyed hash of each number of `numbers` to the digit with the same index, modulo `radix`.

    Args:
        digits: digits, less than `radix`.
        numbers: numbers to hash.
        key: key of the hash, 64 bits.
        radix: number of values of a digit, at most 2^32.
    """
    half = np.uint64(32)
    words = (numbers + np.uint64(key)) * np.uint64(_STEP)
    words = (words ^ words >> half) * np.uint64(_MIX)
    digits = digits + ((words >> half) * radix >> half)
    sums: Words = np.minimum(digits, digits - radix)  # below 0 is a huge number
    return sums


def _derive_keys(count: int, salt: str, seed: int, epoch: int) -> tuple[int, ...]:
    """Returns `count` 64-bit keys: the SHAKE-128 of the salt, the seed and the epoch."""
    text = f"beam_datasets {salt} {seed} {epoch}"
    return struct.unpack(f"<{count}Q", hashlib.shake_128(text.encode()).digest(8 * count))
