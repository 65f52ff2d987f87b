"""Division of one stream of positions among workers, so that neither the order nor a batch depends on their number.

All workers share the positions 0, 1, 2, ... in the read order. A worker takes every `worker_count`-th block of
consecutive positions. If a block is a worker's batch, or divides it, the batches that W workers make at a step are
together the next part of the stream, for every W. A block consists of a few ranges of adjacent records, and a worker
reads no others; divided by single examples, W workers would read nearly every byte W times.

Between blocks, all items that the workers have taken are a prefix of the stream, so one position is enough to resume
with any number of workers. In the middle of blocks, `UnfinishedBlocks` has three more numbers; see
`reading.index.progress`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import integer

Ints = NDArray[np.int64]

MAX_POSITION = 1 << 61
"""Exclusive limit of positions, epochs and numbers of workers: sums of a few of them fit 64 bits."""

DEFAULT_BLOCK = 16
"""Default number of examples in a worker's block; equal to the default number that a visit reads from a file."""

_MIN_ROUNDS = 64  # minimum number of blocks per worker; if there would be fewer, the default block is smaller
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class UnfinishedBlocks:
    """Blocks that workers have partly taken. All workers have taken the same number of items of their blocks.

    Attributes:
        worker_count: number of workers, at least 1.
        block: number of positions in a block.
        taken: number of positions that each worker has taken of its block, in [1, block).
    """

    worker_count: int
    block: int
    taken: int

    def __post_init__(self) -> None:
        """Checks the numbers; raises a TypeError or a ValueError."""
        for name in ("worker_count", "block", "taken"):
            number = integer(name, getattr(self, name), at_least=1, at_most=MAX_POSITION)
            object.__setattr__(self, name, number)
        if self.taken >= self.block:
            raise ValueError(f"taken must be less than block, {self.block}, got {self.taken}")

    def in_examples(self, batch_size: int) -> UnfinishedBlocks:
        """Converts numbers of batches to numbers of examples, if each position is a batch of `batch_size` examples."""
        return UnfinishedBlocks(self.worker_count, self.block * batch_size, self.taken * batch_size)


Unfinished: TypeAlias = "tuple[tuple[UnfinishedBlocks, int], ...]"
"""Divisions that stopped in the middle of blocks, oldest first: (blocks, position in the items that remained)."""

_ORDER = "; the number of the worker comes first, then how many there are: shard(0, 4)"  # of the arguments of shard()


@dataclass(frozen=True)
class Share:
    """The stream positions of one of several workers.

    Attributes:
        worker_index: number of the worker, in [0, worker_count).
        worker_count: number of workers, at least 1.
        start: the stream position at which these workers began; all positions before it were taken by others.
        block: number of consecutive positions in a block, at least 1.
        end: length of the stream. The positions of the last round, in which not every worker would get a whole block,
            are dealt out one by one, so that no worker has more than one more than another. None for blocks up to the
            end.

    >>> Share(1, 3).stream_positions(np.arange(4)).tolist()
    [1, 4, 7, 10]
    >>> Share(1, 3, block=2).stream_positions(np.arange(4)).tolist()
    [2, 3, 8, 9]
    >>> Share(1, 3, block=2, end=10).stream_positions(np.arange(3)).tolist()
    [2, 3, 7]
    """

    worker_index: int = 0
    worker_count: int = 1
    start: int = 0
    block: int = 1
    end: int | None = None

    def __post_init__(self) -> None:
        """Checks the numbers; raises a TypeError or a ValueError."""
        if self.worker_count == 0:
            raise ValueError(f"worker_count must be at least 1, got 0{_ORDER}")
        for name, minimum in (("worker_index", None), ("worker_count", 1), ("start", 0), ("block", 1)):
            number = integer(name, getattr(self, name), at_least=minimum, at_most=MAX_POSITION)
            object.__setattr__(self, name, number)
        if not 0 <= self.worker_index < self.worker_count:
            order = _ORDER
            if 0 <= self.worker_count < self.worker_index:  # the arguments are in the order of other libraries
                order = f"{order.rpartition(':')[0]}: shard({self.worker_count}, {self.worker_index})"
            raise ValueError(f"worker_index must be in [0, {self.worker_count}), got {self.worker_index}{order}")

    @classmethod
    def balanced(cls, worker_index: int, worker_count: int, length: int, block: int | None = None) -> Share:
        """Returns the share of a worker of a finite stream; the shares of two workers differ by at most one position.

        Args:
            worker_index: number of the worker, in [0, worker_count).
            worker_count: number of workers, at least 1.
            length: number of positions of the stream.
            block: number of consecutive positions in a block, up to the last round. None is `DEFAULT_BLOCK`, or a
                smaller power of two if there would be less than 64 rounds.
        """
        if block is None:
            worker_count = integer("worker_count", worker_count)
            block = min(DEFAULT_BLOCK, max(1, length // (max(1, worker_count) * _MIN_ROUNDS)))
            block = 1 << block.bit_length() - 1
        return cls(worker_index, worker_count, block=block, end=length)

    def with_length(self, length: int) -> Share:
        """Returns this worker's share of a stream with `length` positions, divided in the same way."""
        return self if self.end is None else replace(self, end=length)

    @property
    def has_blocks(self) -> bool:
        """Whether the worker takes any blocks, before a last round whose positions are dealt out one by one."""
        return self._num_in_blocks > 0

    @property
    def _num_in_blocks(self) -> int:
        """Number of positions that the worker takes in whole blocks, before the last round."""
        if self.end is None:
            return _ENDLESS
        return max(0, self.end - self.start) // (self.block * self.worker_count) * self.block

    @property
    def _last_round(self) -> Share:
        """The worker's share of the last round, whose positions are dealt out one by one."""
        start = self.start + self._num_in_blocks * self.worker_count
        return Share(self.worker_index, self.worker_count, start)

    def stream_positions(self, numbers: Ints) -> Ints:
        """Maps the worker's items, given by their numbers 0, 1, 2, ... in the share, to their stream positions."""
        rounds, indices_in_block = np.divmod(numbers, self.block)
        positions: Ints = self.start + (rounds * self.worker_count + self.worker_index) * self.block + indices_in_block
        if self.end is not None:
            is_in_last = numbers >= self._num_in_blocks
            positions[is_in_last] = self._last_round.stream_positions(numbers[is_in_last] - self._num_in_blocks)
        return positions

    def stream_ranges(self, starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Maps ranges of the worker's items to ranges of stream positions.

        Args:
            starts: number of the first item of each range; ascending.
            counts: number of items in each range, at least 1.

        Returns:
            The first position, and the number of positions, of each range of the stream.

        >>> starts, counts = Share(1, 2, block=4).stream_ranges(np.array([2]), np.array([5]))
        >>> list(zip(starts.tolist(), counts.tolist()))
        [(6, 2), (12, 3)]
        """
        stops, num_in_blocks = starts + counts, self._num_in_blocks
        if int(stops[-1]) > num_in_blocks:
            begins_in_blocks, ends_in_last = starts < num_in_blocks, stops > num_in_blocks
            last_starts = np.maximum(starts[ends_in_last], num_in_blocks) - num_in_blocks
            last = self._last_round.stream_ranges(last_starts, stops[ends_in_last] - num_in_blocks - last_starts)
            if not begins_in_blocks.any():
                return last
            starts = starts[begins_in_blocks]
            in_blocks = self.stream_ranges(starts, np.minimum(stops[begins_in_blocks], num_in_blocks) - starts)
            return np.concatenate([in_blocks[0], last[0]]), np.concatenate([in_blocks[1], last[1]])
        first_rounds = starts // self.block
        num_rounds = (stops - 1) // self.block - first_rounds + 1
        ends = np.cumsum(num_rounds)
        rounds = np.arange(ends[-1]) + np.repeat(first_rounds - (ends - num_rounds), num_rounds)
        num_skipped, num_taken = np.zeros_like(rounds), np.full_like(rounds, self.block)
        num_skipped[ends - num_rounds] = starts - first_rounds * self.block
        num_taken[ends - 1] = stops - rounds[ends - 1] * self.block
        num_taken -= num_skipped
        return self.start + (rounds * self.worker_count + self.worker_index) * self.block + num_skipped, num_taken

    def count(self, end: int) -> int:
        """Returns the number of the worker's positions in [0, end) of the stream.

        >>> [Share(worker, 4).count(10) for worker in range(4)]
        [3, 3, 2, 2]
        """
        last_round = self._last_round if self.end is not None else None
        if last_round is not None and end > last_round.start:
            return self._num_in_blocks + last_round.count(end)
        rounds, remainder = divmod(max(0, end - self.start), self.block * self.worker_count)
        return rounds * self.block + min(max(0, remainder - self.worker_index * self.block), self.block)

    def stream_progress(
        self, num_taken: int, length: int | None = None, *, is_even: bool = False
    ) -> tuple[int, UnfinishedBlocks | None]:
        """Returns the progress of all workers together, once each has taken `num_taken` items, or all that it has.

        It is the same for all workers, also for one that has fewer than `num_taken`: the end of the stream is reached
        once worker 0, which has the most, has taken its last item.

        Args:
            num_taken: number of items.
            length: number of positions of the stream; None if it does not end before `num_taken` items.
            is_even: whether the stream has whole blocks only; then also a single worker has unfinished blocks.

        Returns:
            The position up to which the stream is taken, and the unfinished blocks that begin there, if any.

        >>> Share(1, 4).stream_progress(2), Share(1, 4).stream_progress(3, length=10)
        ((8, None), (10, None))
        >>> Share(1, 4, block=2).stream_progress(3)
        (8, UnfinishedBlocks(worker_count=4, block=2, taken=1))
        """
        if length is not None and num_taken >= replace(self, worker_index=0).count(length):
            return max(self.start, length), None
        if num_taken >= self._num_in_blocks:
            return self._last_round.stream_progress(num_taken - self._num_in_blocks)
        if self.worker_count == 1 and not is_even:
            return self.start + num_taken, None
        rounds, num_in_block = divmod(num_taken, self.block)
        position = self.start + rounds * self.block * self.worker_count
        return position, UnfinishedBlocks(self.worker_count, self.block, num_in_block) if num_in_block else None
