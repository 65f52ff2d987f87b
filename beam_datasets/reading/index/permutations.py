"""Shuffled orders, as arithmetic.

Three shuffles, each a function of (seed, epoch) alone: of files, of a window over the read order, of a whole range.

`file_order` is TFDS's seeded shuffle of files, number for number. The other two are our own and say, for a position
in the shuffled order, which position of the order below it is shown there (its *source*), and the other way round.
Nothing is drawn one after the other, so a reader resumes anywhere without replaying what came before.

`RangeShuffle` is a Feistel network: a position is written as two digits (high, low) in a mixed radix near the square
root of the length, and in turn each digit is moved on by a keyed hash of the other, which is undone by moving it
back. The radix gives slightly more numbers than positions; one that is not a position is sent through again.
`WindowShuffle` cuts the range into blocks, sorts each block by a hash of its positions, and does so a second time
with the cuts moved by half a block.

Quality, as measured. `RangeShuffle`: with 8 rounds all orderings of 3, 5 and 7 positions, and all pairs of places of
two out of 9 to 100, came as often as chance has it; with 6 rounds neighbours were correlated; it does 10. Over a
million positions of 10^6, 10^9 and 2^61 no correlation with the position, its neighbours, the next epoch or the next
seed was above 0.003. `WindowShuffle` moves an example by 0.36 windows on average, at most one, and puts neighbours
0.44 windows apart; in fixed blocks of a window it would be 0.33 and 0.33, with cuts that nothing crosses; a buffer
that draws at random, which cannot be entered in the middle, has 0.74 and 1.0. Both cost about 0.1 microseconds a
position with NumPy.

Order is a format. A change of the hash, of its keys, of the rounds or of the cuts changes what every saved state
means and what every published experiment saw: do not make one; add a new shuffle beside. Golden literals in the tests
pin each.
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
_AT_ONCE = 16384  # positions that fit the cache with all that is computed of them
_MASK = 2**64 - 1
_STEP, _MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd 64-bit multipliers with about as many ones as zeros


def file_order(num_files: int, seed: int, epoch: int = 0, *, reshuffle: bool = True) -> list[int]:
    """Returns the numbers of the files in the order in which TFDS's `shuffle_files` opens them, given a `shuffle_seed`.

    It is tf.data's shuffle with a buffer of all files. The words come from Philox4x32-10 (Salmon et al., "Parallel
    random numbers: as easy as 1, 2, 3", 2011).

    Args:
        num_files: at least 0.
        seed: any integer; tf.data takes it modulo 2^31 - 1.
        epoch: how many times the dataset was iterated before, at least 0.
        reshuffle: whether each epoch has an order of its own.

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
    """The (4 * count,) 32-bit words of Philox4x32-10 at the counters [first, first + count) below 64 bits of `high`."""
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    counters = np.arange(count, dtype=np.uint64) + np.uint64(first & _MASK)  # which wraps
    x0, x1 = counters & low32, counters >> shift
    x2, x3 = np.full_like(counters, high & 0xFFFFFFFF), np.full_like(counters, high >> 32)
    for i in range(10):
        k0 = np.uint64((key + i * 0x9E3779B9) & 0xFFFFFFFF)
        k1 = np.uint64(((key >> 32) + i * 0xBB67AE85) & 0xFFFFFFFF)
        left, right = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (right >> shift) ^ x1 ^ k0, right & low32, (left >> shift) ^ x3 ^ k1, left & low32
    return np.stack([x0, x1, x2, x3], axis=1).ravel()


@dataclass(frozen=True)
class RangeShuffle:
    """A permutation of [0, length), computed position by position in memory that does not grow with the length.

    Attributes:
        length: how many positions there are, less than 2^62.
        seed: any integer.
        epoch: any integer; each epoch has a permutation of its own.

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
            part = self._mixed(numbers[start : start + _AT_ONCE].astype(np.uint64))
            outside = np.flatnonzero(part >= self.length)
            while len(outside):
                part[outside] = self._mixed(part[outside])
                outside = outside[part[outside] >= self.length]
            out[start : start + _AT_ONCE] = part
        return out.astype(np.int64)

    @functools.cached_property
    def _radices(self) -> tuple[int, int]:
        """How many values the low and the high digit have."""
        low = max(math.isqrt(max(0, self.length - 1)) + 1, _MIN_RADIX)
        return low, max(-(-self.length // low), _MIN_RADIX)

    @functools.cached_property
    def _keys(self) -> tuple[int, ...]:
        return _keyed(_ROUNDS, "range", self.seed, self.epoch)

    def _mixed(self, numbers: Words) -> Words:
        """Returns the permuted numbers of a range that is a little larger."""
        low_radix, high_radix = map(np.uint64, self._radices)
        high, low = numbers // low_radix, numbers % low_radix
        for i in range(0, _ROUNDS, 2):
            low = _moved(low, high, self._keys[i], low_radix)
            high = _moved(high, low, self._keys[i + 1], high_radix)
        return high * low_radix + low


@dataclass(frozen=True)
class WindowShuffle:
    """A permutation of [0, length) that moves each position by less than `window`, so that few examples must be held.

    Two passes, each over blocks of two thirds of the window; the second pass's cuts lie in the middle of the first's
    blocks, and all cuts move with the epoch, so no cut keeps an example from its neighbours for ever. A window of the
    length or more is a shuffle of the whole range.

    Attributes:
        length: how many positions there are.
        window: how many examples are held at most, at least 1; 1 leaves the order as it is and 2 counts as 3.
        seed: any integer.
        epoch: any integer; each epoch has an order of its own.

    >>> "".join(WindowShuffle(16, window=6, seed=1).apply(lambda first: iter("abcdefghijklmnop"[first:])))
    'cbafgedjkhimnpol'
    """

    length: int
    window: int
    seed: int
    epoch: int = 0

    def sources(self, positions: Sequence[int] | NDArray[Any]) -> Ints:
        """Returns which position of the order below is shown at each position: cheap if these are adjacent."""
        numbers = np.asarray(positions, np.int64)
        for pass_ in reversed(self._passes):
            numbers = pass_.sources(numbers)
        return numbers

    def apply(self, read: Callable[[int], Iterator[T]], start: int = 0) -> Iterator[T]:
        """Yields the items at the shuffled positions [start, length).

        Reads each item once and holds at most `window` of them. To begin in the middle it also reads, but does not
        hold, up to 4/3 `window` items that were shown before.

        Args:
            read: read(first) yields the items of the order below from position `first` on.
            start: in [0, length].
        """
        if start >= self.length:
            return
        done = self.read_from(start)
        shown = set(self.sources(np.arange(max(0, done - self.window), start)).tolist())
        items = read(done)
        held: dict[int, T] = {}
        for source in self._all_sources(start):
            while done <= source:
                item = next(items)
                if done not in shown:
                    held[done] = item
                done += 1
            yield held.pop(source)

    def read_from(self, start: int) -> int:
        """Returns a position of the order below that no source of the positions from `start` on is below."""
        for pass_ in reversed(self._passes):
            start = pass_.bounds(start)[0]
        return start

    def _all_sources(self, start: int) -> Iterator[int]:
        """The sources of the positions from `start` on, computed some blocks at a time."""
        while start < self.length:
            stop = min(start + _AT_ONCE, self.length)
            if self._passes:
                stop = self._passes[-1].bounds(stop - 1)[1]  # not twice the work for the two ends of a block
            yield from self.sources(np.arange(start, stop)).tolist()
            start = stop

    @functools.cached_property
    def _passes(self) -> tuple[_Pass, ...]:
        """Returns the block shuffles that make up the permutation, in the order in which they are applied to items."""
        if self.window == 1 or self.length <= 1:
            return ()
        first, second, moved = _keyed(3, "window", self.seed, self.epoch)
        if self.window >= self.length:
            return (_Pass(self.length, self.length, 0, first),)
        half = max(1, self.window // 3)
        cut = moved % (2 * half)
        return _Pass(self.length, 2 * half, cut, first), _Pass(self.length, 2 * half, (cut + half) % (2 * half), second)


def block_orders(blocks: Ints, size: int, seed: int, salt: str) -> Ints:
    """Returns a permutation of [0, size) for each block number, shape (blocks, size), each a function of its number.

    >>> block_orders(np.array([0, 1, 10**12]), 4, seed=1, salt="mix").tolist()
    [[0, 3, 2, 1], [2, 1, 3, 0], [1, 0, 2, 3]]
    """
    starts = blocks * size
    shuffled = _Pass(2**62, size, 0, _keyed(1, salt, seed, 0)[0])._shuffled(starts)
    orders: Ints = shuffled - starts[:, None]
    return orders


@dataclass(frozen=True)
class _Pass:
    """A shuffle within each block of [0, length); they are cut at `cut`, `cut` + size, ..., so the ends may be short.

    A block is put in the order of a hash of its positions (SplitMix64's output function); positions of the same hash
    keep their order, which takes part in the sorted number, so that every sort gives the same.
    """

    length: int
    size: int
    cut: int
    key: int

    def bounds(self, position: int) -> tuple[int, int]:
        """The block [start, stop) of a position."""
        start = (position - self.cut) // self.size * self.size + self.cut
        return max(0, start), min(self.length, start + self.size)

    def sources(self, numbers: Ints) -> Ints:
        """For each number, which number of its block takes its place."""
        out = np.empty_like(numbers)
        blocks, places = np.unique((numbers - self.cut) // self.size, return_inverse=True)
        order = np.argsort(places, kind="stable")
        at_once = max(1, _AT_ONCE // self.size)
        for i in range(0, len(blocks), at_once):
            indices = order[slice(*np.searchsorted(places[order], [i, i + at_once]))]
            starts = blocks[i : i + at_once] * self.size + self.cut
            rows = places[indices] - i
            out[indices] = self._shuffled(starts)[rows, numbers[indices] - np.maximum(starts, 0)[rows]]
        return out

    def _shuffled(self, starts: Ints) -> Ints:
        """(blocks, size): the positions of each block in their new order, then anything where the block is short."""
        positions = starts[:, None] + np.arange(self.size)
        low_bits = np.uint64(2 ** (self.size - 1).bit_length() - 1)
        words = positions.astype(np.uint64) * np.uint64(_STEP) + np.uint64(self.key)
        words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        words = (words ^ words >> np.uint64(31)) & ~low_bits | np.arange(self.size, dtype=np.uint64)
        words[(positions < 0) | (positions >= self.length)] = _MASK
        words.sort(axis=1)
        return starts[:, None] + (words & low_bits).astype(np.int64)


def _moved(digits: Words, others: Words, key: int, radix: np.uint64) -> Words:
    """Digits below `radix` <= 2^32, each moved on by the keyed hash of another."""
    half = np.uint64(32)
    words = (others + np.uint64(key)) * np.uint64(_STEP)
    words = (words ^ words >> half) * np.uint64(_MIX)
    digits = digits + ((words >> half) * radix >> half)
    moved: Words = np.minimum(digits, digits - radix)  # below 0 is a huge number
    return moved


def _keyed(count: int, salt: str, seed: int, epoch: int) -> tuple[int, ...]:
    """`count` 64-bit keys: SHAKE-128 of the use, the seed and the epoch."""
    text = f"beam_datasets {salt} {seed} {epoch}"
    return struct.unpack(f"<{count}Q", hashlib.shake_128(text.encode()).digest(8 * count))
