"""Order of examples of interleaved files, computed by arithmetic: position -> (file, index in the file).

The order of files is that of tf.data's `interleave`, which TFDS reads with. `cycle_length` slots are visited in turn. A
visit to an empty slot opens the next file in it; a visit to a file reads up to `block_length` examples. A visit that
meets the end of its file leaves the slot empty, and only the slot's next visit opens another file there: so a file of a
multiple of `block_length` examples is visited once more, without reading anything, before its slot is free.

The order can be computed without iterating over it. Number the visits 0, 1, 2, ...; visit t belongs to slot
t mod cycle. A file of L examples takes exactly L // block + 1 visits, `cycle` apart, and the next file begins at the
earliest visit that no file has taken: a heap of the slots' next free visits gives every file's first visit. While files
remain to be opened each visit reads a full block, except the last visit of each file, which falls short by
block - L mod block. So the number of examples before visit t is block * t less the shortfalls of the files that ended
before t, and both directions are a binary search. When the files run out, the few that are still open are read round by
round, and the number of examples before round r is a sum over them.

The order is a format: readers resume by position, so another order under the same configuration would break every saved
state. The tests compare it with the order that tf.data itself produced.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class InterleaveOrder:
    """The order in which `cycle_length` files at a time are read, `block_length` examples from each in turn.

    A *visit* reads up to `block_length` consecutive examples of one file. The memory is O(files).

    Attributes:
        lengths: number of examples of each file, in the order in which the files are opened; zero is allowed; shape
            (files,).
        cycle_length: number of files that are open at a time, at least 1.
        block_length: number of examples that a visit reads, at least 1.

    >>> order = InterleaveOrder(np.array([5, 3, 4]), cycle_length=2, block_length=2)
    >>> files, indices = order.locate(range(6))
    >>> list(zip(files.tolist(), indices.tolist()))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]
    >>> files, first_indices, counts = order.visits(np.array([0]), np.array([6]))
    >>> list(zip(files.tolist(), first_indices.tolist(), counts.tolist()))
    [(0, 0, 2), (1, 0, 2), (0, 2, 2)]
    """

    lengths: Ints
    cycle_length: int = 16
    block_length: int = 16

    def __reduce__(self) -> tuple[Any, ...]:  # without the derived arrays
        return InterleaveOrder, (self.lengths, self.cycle_length, self.block_length)

    def locate(self, positions: Sequence[int] | NDArray[Any]) -> tuple[Ints, Ints]:
        """Returns the file of the example at each position, and its index in the file; two arrays.

        Args:
            positions: positions in [0, sum(lengths)), in any order.
        """
        visits, indices_in_visit = self._find_visits(np.asarray(positions, dtype=np.int64))
        files, first_indices, _ = self._examples_of(visits)
        return files, first_indices + indices_in_visit

    def visits(self, starts: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns the visits that read ranges of positions, as arrays (files, first indices, counts).

        Each visit reads the examples [first index, first index + count) of a file; counts are at least 1. A visit is
        cut where a range begins or ends. Successive visits to one file are merged if they continue each other. The time
        does not depend on the positions between the ranges.

        Args:
            starts: first position of each range, ascending; at least one range.
            counts: number of positions in each range, at least 1.
        """
        (opening, begins), (closing, lasts) = self._find_visits(starts), self._find_visits(starts + counts - 1)
        times = closing - opening + 1
        ends = np.cumsum(times)
        heads = ends - times
        files, first_indices, numbers = self._examples_of(np.arange(ends[-1]) + np.repeat(opening - heads, times))
        numbers[ends - 1] = lasts + 1
        first_indices[heads] += begins
        numbers[heads] -= begins
        is_nonempty = numbers > 0
        files, first_indices, numbers = files[is_nonempty], first_indices[is_nonempty], numbers[is_nonempty]
        continues = (files[1:] == files[:-1]) & (first_indices[1:] == (first_indices + numbers)[:-1])
        if not continues.any():
            return files, first_indices, numbers
        heads = np.flatnonzero(np.append(True, ~continues))
        return files[heads], first_indices[heads], np.add.reduceat(numbers, heads)

    def _find_visits(self, positions: Ints) -> tuple[Ints, Ints]:
        """Returns the number of the visit that reads each position, and the index of the position in the visit."""
        tail, in_tail = self._tail, positions >= self._tail.start
        if in_tail.all():
            return tail.visits(positions)
        read, short = self._shortfalls
        visits, indices_in_visit = np.divmod(
            positions + short[np.searchsorted(read, positions, side="right")], self.examples_per_visit
        )
        if in_tail.any():
            visits[in_tail], indices_in_visit[in_tail] = tail.visits(positions[in_tail])
        return visits, indices_in_visit

    def _examples_of(self, visits: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns the examples that visits read, given the visits' numbers: (files, first indices, counts)."""
        first_visits, end = self._schedule
        in_tail = visits >= end
        if in_tail.all():
            return self._tail.examples_of(visits)
        keys, by_key = self._slots
        files = by_key[np.searchsorted(keys, visits % self._cycle * (end + 1) + visits, side="right") - 1]
        first_indices = (visits - first_visits[files]) // self._cycle * self.examples_per_visit
        counts = np.minimum(self.lengths[files] - first_indices, self.examples_per_visit)
        if in_tail.any():
            files[in_tail], first_indices[in_tail], counts[in_tail] = self._tail.examples_of(visits[in_tail])
        return files, first_indices, counts

    @functools.cached_property
    def _cycle(self) -> int:
        """Number of slots that get files."""
        return max(1, min(self.cycle_length, len(self.lengths)))  # further slots never get a file

    @functools.cached_property
    def examples_per_visit(self) -> int:
        """Number of examples that a visit reads, except the last one of a file, which reads fewer.

        It is `block_length`, or length of the longest file + 1 if that is less or if one file is open at a time.
        """
        max_block = int(self.lengths.max(initial=0)) + 1  # reads any file in one visit
        return max_block if self._cycle == 1 else min(self.block_length, max_block)

    @functools.cached_property
    def _schedule(self) -> tuple[Ints, int]:
        """The number of each file's first visit, ascending; and of the first visit that has no more file to open."""
        visits = self.lengths // self.examples_per_visit + 1
        if len(visits) and bool((visits == visits[0]).all()):
            rounds, slots = np.divmod(np.arange(len(visits) + 1), self._cycle)
            first_visits = rounds * (visits[0] * self._cycle) + slots
            return first_visits[:-1], int(first_visits[-1])
        free = list(range(self._cycle))  # a heap: each slot's next free visit
        steps = (visits * self._cycle).tolist()
        take_earliest = heapq.heapreplace
        first_visits = np.array([take_earliest(free, free[0] + step) for step in steps], dtype=np.int64)
        return first_visits, free[0]

    @functools.cached_property
    def _slots(self) -> tuple[Ints, Ints]:
        """The keys slot * (end + 1) + first visit of the files, ascending, and the file of each key.

        The files of one slot are adjacent.
        """
        first_visits, end = self._schedule
        keys = first_visits % self._cycle * (end + 1) + first_visits
        files = np.argsort(keys)
        return keys[files], files

    @functools.cached_property
    def _shortfalls(self) -> tuple[Ints, Ints]:
        """The shortfalls of the files that end while others are not opened yet, in the order in which they end.

        A visit at which a file ends reads fewer than `examples_per_visit` examples; the shortfall is the difference.

        Returns:
            Two arrays for k such files: the number of examples, of all files, that are read up to the end of each, of
            shape (k,); and the sums of the first 0, 1, ..., k shortfalls, of shape (k + 1,). In the example of the
            class they are [7, 8] and [0, 1, 2].
        """
        first_visits, end = self._schedule
        last_visits = first_visits + self.lengths // self.examples_per_visit * self._cycle
        ended_files = np.argsort(last_visits)
        ended_files = ended_files[: np.searchsorted(last_visits[ended_files], end)]
        short = np.cumsum(self.examples_per_visit - self.lengths[ended_files] % self.examples_per_visit)
        return self.examples_per_visit * (last_visits[ended_files] + 1) - short, np.concatenate(
            [np.zeros(1, np.int64), short]
        )

    @functools.cached_property
    def _tail(self) -> _Tail:
        """The part of the order after all files were opened; see `_Tail`."""
        first_visits, end = self._schedule
        start = self.examples_per_visit * end - int(self._shortfalls[1][-1])
        return _Tail.from_schedule(self.lengths, first_visits, end, self._cycle, self.examples_per_visit, start)


@dataclass(frozen=True)
class _Tail:
    """The end of the order, when no file is left to open: the files still open are read in rounds.

    A round visits each open file once. A *stretch* consists of consecutive rounds that visit the same files.

    Attributes:
        files: the open files, in the order of their visits in a round.
        num_read: number of examples of each file that were read before the tail.
        num_left: number of examples of each file in the tail.
        block: number of examples per visit.
        start: first position of the tail.
        first_visit: number of the first visit of the tail.
    """

    files: Ints
    num_read: Ints
    num_left: Ints
    block: int
    start: int
    first_visit: int

    @classmethod
    def from_schedule(cls, lengths: Ints, first_visits: Ints, end: int, cycle: int, block: int, start: int) -> _Tail:
        """Returns the tail, given the number of each file's first visit; see `InterleaveOrder._schedule`.

        Args:
            lengths: number of examples of each file.
            first_visits: number of the first visit of each file.
            end: number of the first visit of the tail.
            cycle: number of slots.
            block: number of examples per visit.
            start: first position of the tail.
        """
        files = np.flatnonzero(first_visits + lengths // block * cycle >= end)
        files = files[np.argsort((first_visits[files] - end) % cycle)]
        num_read = -((first_visits[files] - end) // cycle) * block  # a block at each visit before `end`
        return cls(files, num_read, lengths[files] - num_read, block, start, end)

    def visits(self, positions: Ints) -> tuple[Ints, Ints]:
        """Returns the number of the visit that reads each position, and the index of the position in the visit."""
        stretches, rounds, in_round = self._find_rounds(positions - self.start)
        nth, indices_in_visit = np.divmod(in_round, self.block)
        closing = rounds == self._closings[stretches]
        for stretch in np.unique(stretches[closing]).tolist():  # of the stretch's last round
            indices = np.flatnonzero(closing & (stretches == stretch))
            reads = np.minimum(
                self.num_left[self._open_files(stretch)] - self._closings[stretch] * self.block, self.block
            )
            ends = np.cumsum(reads)
            nth[indices] = np.searchsorted(ends, in_round[indices], side="right")
            indices_in_visit[indices] = in_round[indices] - (ends - reads)[nth[indices]]
        first, openings, counts = self._stretches
        return self.first_visit + first[stretches] + (rounds - openings[stretches]) * counts[
            stretches
        ] + nth, indices_in_visit

    def examples_of(self, visits: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns the examples that visits read, given the visits' numbers: (files, first indices, counts)."""
        first_visits, openings, counts = self._stretches
        visits = visits - self.first_visit
        stretches = np.searchsorted(first_visits, visits, side="right") - 1
        rounds, nth = np.divmod(visits - first_visits[stretches], counts[stretches])
        file_indices = np.empty_like(visits)
        for stretch in np.unique(stretches).tolist():
            in_stretch = stretches == stretch
            file_indices[in_stretch] = self._open_files(stretch)[nth[in_stretch]]
        num_before = (openings[stretches] + rounds) * self.block
        counts = np.clip(self.num_left[file_indices] - num_before, 0, self.block)
        return self.files[file_indices], self.num_read[file_indices] + num_before, counts

    def _open_files(self, stretch: int) -> Ints:
        """Returns the indices in `files` of the files that the rounds of a stretch read."""
        return np.flatnonzero(self.num_left // self.block >= self._closings[stretch])

    @functools.cached_property
    def _stretches(self) -> tuple[Ints, Ints, Ints]:
        """Three arrays, shape (stretches,): first visit in the tail, first round, and number of files in a round."""
        openings = np.concatenate([np.zeros(1, np.int64), self._closings[:-1] + 1])
        counts = len(self.files) - np.searchsorted(np.sort(self.num_left // self.block), self._closings)
        visits = np.cumsum(counts * (self._closings + 1 - openings))
        return np.concatenate([np.zeros(1, np.int64), visits[:-1]]), openings, counts

    @functools.cached_property
    def _closings(self) -> Ints:
        """The last round of each stretch, ascending: the rounds in which files end."""
        return np.unique(self.num_left // self.block)

    def _find_rounds(self, positions: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns the stretch and the round that read each position of the tail, and its index in the round."""
        _, openings, counts = self._stretches
        starts = self._count_before(openings)
        stretches = np.searchsorted(starts, positions, side="right") - 1
        round_sizes = counts * self.block  # examples of each round but the stretch's last
        rounds = openings[stretches] + (positions - starts[stretches]) // round_sizes[stretches]
        return stretches, rounds, positions - self._count_before(rounds)

    def _count_before(self, rounds: Ints) -> Ints:
        """Returns the number of examples of the tail that are read before each round."""
        sorted_lefts = np.sort(self.num_left)
        num_ended = np.searchsorted(sorted_lefts, rounds * self.block)
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(sorted_lefts)])
        counts: Ints = sums[num_ended] + (len(sorted_lefts) - num_ended) * rounds * self.block
        return counts
