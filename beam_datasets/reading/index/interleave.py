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
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
