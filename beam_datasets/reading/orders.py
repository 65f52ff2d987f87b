"""Orders: of interleaved files, as arithmetic: position -> (file, index in file); and shuffled ones, see below.

The order of files is that of tf.data's `interleave`, which TFDS reads with. `cycle_length` slots are visited in turn. A
visit to an empty slot opens the next file in it; a visit to a file reads up to `block_length` examples. A visit that
meets the end of its file leaves the slot empty, and only the slot's next visit opens another file there: so a file of a
multiple of `block_length` examples is visited once more, in vain, before its slot passes on.

Why this can be computed without walking through the order. Number the visits 0, 1, 2, ...; visit t belongs to slot
t mod cycle. A file of L examples takes exactly L // block + 1 visits, `cycle` apart, and the next file begins at the
earliest visit that no file has taken: a heap of the slots' next free visits gives every file's first visit. While files
remain to be opened each visit reads a full block, except the last visit of each file, which falls short by
block - L mod block. So the number of examples before visit t is block * t less the shortfalls of the files that ended
before t, and both directions are a binary search. When the files run out, the few that are still open are read round by
round, and the number of examples before round r is a sum over them.

Order is a format: readers resume by position, so another order under the same configuration would break every saved
state. The tests pin it with what tf.data itself gave.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


_FIRST_VISITS, _MAX_VISITS = 1024, 4096  # in an array: what is read of a file in one piece ends with it


@dataclass(frozen=True, eq=False)
class InterleaveOrder:
    """The order in which `cycle_length` files at a time are read, `block_length` examples from each in turn.

    Holds O(files) integers, never a list of examples.

    Attributes:
        lengths: (files,) how many examples each file has, in the order in which the files are opened; zero is allowed.
        cycle_length: how many files are open at a time, at least 1.
        block_length: how many examples are read from a file at a visit, at least 1.

    >>> order = InterleaveOrder(np.array([5, 3, 4]), cycle_length=2, block_length=2)
    >>> files, indices = order.places(range(6))
    >>> list(zip(files.tolist(), indices.tolist()))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]
    >>> files, firsts, counts = next(order.visits(0, 6))
    >>> list(zip(files.tolist(), firsts.tolist(), counts.tolist()))
    [(0, 0, 2), (1, 0, 2), (0, 2, 2)]
    """

    lengths: Ints
    cycle_length: int = 16
    block_length: int = 16

    def __reduce__(self) -> tuple[Any, ...]:  # without the derived arrays
        return InterleaveOrder, (self.lengths, self.cycle_length, self.block_length)

    def places(self, positions: Sequence[int] | NDArray[Any]) -> tuple[Ints, Ints]:
        """Returns the arrays (files, indices in their files) of the examples at `positions`, in any order."""
        visits, within = self._visits(np.asarray(positions, dtype=np.int64))
        files, firsts, _ = self._read_at(visits)
        return files, firsts + within

    def visits(self, start: int, stop: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yields arrays (files, first indices, counts) of visits, that together are the examples [start, stop).

        Visits in a row to one file are one, as far as they are of the same arrays. Counts are at least 1.
        """
        num_visits = _FIRST_VISITS
        while start < stop:
            count = min(num_visits * self._block, stop - start)
            files, firsts, counts = self.pieces(np.array([start]), np.array([count]))
            is_next = (files[1:] == files[:-1]) & (firsts[1:] == (firsts + counts)[:-1])
            if is_next.any():
                heads = np.flatnonzero(np.append(True, ~is_next))
                files, firsts, counts = files[heads], firsts[heads], np.add.reduceat(counts, heads)
            yield files, firsts, counts
            start, num_visits = start + count, min(2 * num_visits, _MAX_VISITS)

    def pieces(self, starts: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns the same arrays for ranges of positions, each given by its start and its count, of at least 1.

        A visit that a range begins or ends in is cut there. Costs as much as the visits of the ranges, not those
        between them.
        """
        (opening, begins), (closing, lasts) = self._visits(starts), self._visits(starts + counts - 1)
        times = closing - opening + 1
        ends = np.cumsum(times)
        heads = ends - times
        files, firsts, numbers = self._read_at(np.arange(ends[-1]) + np.repeat(opening - heads, times))
        numbers[ends - 1] = lasts + 1
        firsts[heads] += begins
        numbers[heads] -= begins
        is_nonempty = numbers > 0
        return files[is_nonempty], firsts[is_nonempty], numbers[is_nonempty]

    def _visits(self, positions: Ints) -> tuple[Ints, Ints]:
        """The visits that read positions, and how many examples each visit reads before them."""
        tail, in_tail = self._tail, positions >= self._tail.start
        if in_tail.all():
            return tail.visits(positions)
        read, short = self._shortfalls
        visits, within = np.divmod(positions + short[np.searchsorted(read, positions, side="right")], self._block)
        if in_tail.any():
            visits[in_tail], within[in_tail] = tail.visits(positions[in_tail])
        return visits, within

    def _read_at(self, visits: Ints) -> tuple[Ints, Ints, Ints]:
        """What visits read: (files, first indices, counts)."""
        opened, end = self._schedule
        in_tail = visits >= end
        if in_tail.all():
            return self._tail.read_at(visits)
        keys, by_key = self._slots
        files = by_key[np.searchsorted(keys, visits % self._cycle * (end + 1) + visits, side="right") - 1]
        firsts = (visits - opened[files]) // self._cycle * self._block
        counts = np.minimum(self.lengths[files] - firsts, self._block)
        if in_tail.any():
            files[in_tail], firsts[in_tail], counts[in_tail] = self._tail.read_at(visits[in_tail])
        return files, firsts, counts

    @functools.cached_property
    def _cycle(self) -> int:
        return max(1, min(self.cycle_length, len(self.lengths)))  # further slots never get a file

    @functools.cached_property
    def _block(self) -> int:
        whole = int(self.lengths.max(initial=0)) + 1  # reads any file in one visit
        return whole if self._cycle == 1 else min(self.block_length, whole)

    @functools.cached_property
    def _schedule(self) -> tuple[Ints, int]:
        """Each file's first visit, ascending, and the first visit that finds no file left to open."""
        visits = self.lengths // self._block + 1
        if len(visits) and bool((visits == visits[0]).all()):
            rounds, slots = np.divmod(np.arange(len(visits) + 1), self._cycle)
            firsts = rounds * (visits[0] * self._cycle) + slots
            return firsts[:-1], int(firsts[-1])
        free = list(range(self._cycle))  # a heap: each slot's next free visit
        steps = (visits * self._cycle).tolist()
        take_earliest = heapq.heapreplace
        firsts = np.array([take_earliest(free, free[0] + step) for step in steps], dtype=np.int64)
        return firsts, free[0]

    @functools.cached_property
    def _slots(self) -> tuple[Ints, Ints]:
        """For each file slot * (end + 1) + first visit, ascending: the files of a slot are adjacent; and the files."""
        firsts, end = self._schedule
        keys = firsts % self._cycle * (end + 1) + firsts
        files = np.argsort(keys)
        return keys[files], files

    @functools.cached_property
    def _shortfalls(self) -> tuple[Ints, Ints]:
        """For the files that end while others wait, as they end: examples read by then, and the shortfall before.

        The second array has one number more: the shortfall when all of them have ended.
        """
        firsts, end = self._schedule
        lasts = firsts + self.lengths // self._block * self._cycle
        ended = np.argsort(lasts)
        ended = ended[: np.searchsorted(lasts[ended], end)]
        short = np.cumsum(self._block - self.lengths[ended] % self._block)
        return self._block * (lasts[ended] + 1) - short, np.concatenate([np.zeros(1, np.int64), short])

    @functools.cached_property
    def _tail(self) -> _Tail:
        firsts, end = self._schedule
        start = self._block * end - int(self._shortfalls[1][-1])
        return _Tail.of(self.lengths, firsts, end, self._cycle, self._block, start)


@dataclass(frozen=True)
class _Tail:
    """The end of the order, when no file is left to open: the files still open are read in rounds.

    Attributes:
        files: in the order of their visits in a round.
        done: how many examples of each were read before.
        left: how many examples of each are left.
        start: the position where the tail begins.
        end: the visit that is the first of it.
    """

    files: Ints
    done: Ints
    left: Ints
    block: int
    start: int
    end: int

    @classmethod
    def of(cls, lengths: Ints, firsts: Ints, end: int, cycle: int, block: int, start: int) -> _Tail:
        files = np.flatnonzero(firsts + lengths // block * cycle >= end)
        files = files[np.argsort((firsts[files] - end) % cycle)]
        done = -((firsts[files] - end) // cycle) * block  # a block at each visit before `end`
        return cls(files, done, lengths[files] - done, block, start, end)

    def visits(self, positions: Ints) -> tuple[Ints, Ints]:
        """The visits that read positions, and how many examples each reads before them."""
        stretches, rounds, rest = self._rounds(positions - self.start)
        nth, within = np.divmod(rest, self.block)
        closing = rounds == self._closings[stretches]
        for stretch in np.unique(stretches[closing]).tolist():  # of the stretch's last round
            indices = np.flatnonzero(closing & (stretches == stretch))
            reads = np.minimum(self.left[self._open(stretch)] - self._closings[stretch] * self.block, self.block)
            ends = np.cumsum(reads)
            nth[indices] = np.searchsorted(ends, rest[indices], side="right")
            within[indices] = rest[indices] - (ends - reads)[nth[indices]]
        first, openings, counts = self._stretches
        return self.end + first[stretches] + (rounds - openings[stretches]) * counts[stretches] + nth, within

    def read_at(self, visits: Ints) -> tuple[Ints, Ints, Ints]:
        """What each visit reads: (files, first indices, counts)."""
        firsts, openings, counts = self._stretches
        visits = visits - self.end
        stretches = np.searchsorted(firsts, visits, side="right") - 1
        rounds, nth = np.divmod(visits - firsts[stretches], counts[stretches])
        places = np.empty_like(visits)
        for stretch in np.unique(stretches).tolist():
            in_stretch = stretches == stretch
            places[in_stretch] = self._open(stretch)[nth[in_stretch]]
        read = (openings[stretches] + rounds) * self.block
        return self.files[places], self.done[places] + read, np.clip(self.left[places] - read, 0, self.block)

    def _open(self, stretch: int) -> Ints:
        """The places of the files that the rounds of a stretch read."""
        return np.flatnonzero(self.left // self.block >= self._closings[stretch])

    @functools.cached_property
    def _stretches(self) -> tuple[Ints, Ints, Ints]:
        """For each stretch: the number of its first visit, its first round, and how many files its rounds read."""
        openings = np.concatenate([np.zeros(1, np.int64), self._closings[:-1] + 1])
        counts = len(self.files) - np.searchsorted(np.sort(self.left // self.block), self._closings)
        visits = np.cumsum(counts * (self._closings + 1 - openings))
        return np.concatenate([np.zeros(1, np.int64), visits[:-1]]), openings, counts

    @functools.cached_property
    def _closings(self) -> Ints:
        """The rounds in which files end, ascending. Each closes a stretch of rounds that read the same files."""
        return np.unique(self.left // self.block)

    def _rounds(self, positions: Ints) -> tuple[Ints, Ints, Ints]:
        """The stretches and the rounds that read the positions, and how many examples the rounds read before them."""
        _, openings, counts = self._stretches
        before = self._before(openings)
        stretches = np.searchsorted(before, positions, side="right") - 1
        a_round = counts * self.block  # examples of each round but the stretch's last
        rounds = openings[stretches] + (positions - before[stretches]) // a_round[stretches]
        return stretches, rounds, positions - self._before(rounds)

    def _before(self, rounds: Ints) -> Ints:
        """How many examples are read before each of the rounds."""
        lefts = np.sort(self.left)
        ended = np.searchsorted(lefts, rounds * self.block)
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(lefts)])
        before: Ints = sums[ended] + (len(lefts) - ended) * rounds * self.block
        return before


# ------------------------------------------------------------------------------------------------------------ shuffling

# Three shuffles, each a function of (seed, epoch) alone: of files, of a window over the read order, of a whole range.
#
# `file_order` is TFDS's seeded shuffle of files, number for number. The other two are our own and say, for a position
# in the shuffled order, which position of the order below it is shown there (its *source*), and the other way round.
# Nothing is drawn one after the other, so a reader resumes anywhere without replaying what came before.
#
# `RangeShuffle` is a Feistel network: a position is written as two digits (high, low) in a mixed radix near the square
# root of the length, and in turn each digit is moved on by a keyed hash of the other, which is undone by moving it
# back. The radix gives slightly more numbers than positions; one that is not a position is sent through again.
# `WindowShuffle` cuts the range into blocks, sorts each block by a hash of its positions, and does so a second time
# with the cuts moved by half a block.
#
# Quality, as measured. `RangeShuffle`: with 8 rounds all orderings of 3, 5 and 7 positions, and all pairs of places of
# two out of 9 to 100, came as often as chance has it; with 6 rounds neighbours were correlated; it does 10. Over a
# million positions of 10^6, 10^9 and 2^61 no correlation with the position, its neighbours, the next epoch or the next
# seed was above 0.003. `WindowShuffle` moves an example by 0.36 windows on average, at most one, and puts neighbours
# 0.44 windows apart; in fixed blocks of a window it would be 0.33 and 0.33, with cuts that nothing crosses; a buffer
# that draws at random, which cannot be entered in the middle, has 0.74 and 1.0. Both cost about 0.1 microseconds a
# position with NumPy.
#
# Order is a format. A change of the hash, of its keys, of the rounds or of the cuts changes what every saved state
# means and what every published experiment saw: do not make one; add a new shuffle beside. Golden literals in the tests
# pin each.

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
