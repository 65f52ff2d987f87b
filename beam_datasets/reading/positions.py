"""How workers divide positions, so that neither the order nor a batch depends on how many they are.

All workers share one stream of positions: 0, 1, 2, ... in the read order of the first epoch, and on without a seam in
the next ones (position p of the stream is position p mod n of epoch p // n, for n examples an epoch). A worker takes
every `worker_count`-th block of it. With blocks of the size of a worker's batch, or of a part of it that goes into it
evenly, the batches that W workers make at a step are together the next part of the stream, for every W.

A block is a few ranges of neighbouring records, and a worker reads no others. By single examples, W workers would read
nearly every byte W times.

What the workers have taken in step is a prefix of the stream where they are between blocks, so one number says where
they are. In the middle of blocks it takes three more: how many workers, the block, and what each has taken of its one.
Any other number of workers goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import integer

Ints = NDArray[np.int64]

DEFAULT_BLOCK = 16
"""Examples in a row that a worker takes by default; as many as are read in a row of a file by default."""

_MIN_ROUNDS = 64  # below, blocks are smaller


@dataclass(frozen=True)
class Partial:
    """Where workers are in the middle of blocks.

    Attributes:
        worker_count: how many there are, at least 1.
        block: how many positions in a row each takes.
        taken: how many of them each has taken, in [1, block).
    """

    worker_count: int
    block: int
    taken: int

    def __post_init__(self) -> None:
        for name in ("worker_count", "block", "taken"):
            object.__setattr__(self, name, integer(name, getattr(self, name), at_least=1))
        if self.taken >= self.block:
            raise ValueError(f"taken must be less than block, {self.block}, got {self.taken}")

    def times(self, size: int) -> Partial:
        """Returns this Partial in examples, if each position is a batch of `size` examples."""
        return Partial(self.worker_count, self.block * size, self.taken * size)


@dataclass(frozen=True)
class Share:
    """What one of several workers takes of the stream of positions.

    Attributes:
        worker_index: in [0, worker_count).
        worker_count: how many workers there are, at least 1.
        start: the position where these workers began; all before it was taken by others.
        block: how many positions in a row a worker takes, at least 1.
        end: where the stream ends. The positions of the last round, where not all workers would have a whole block, are
            then taken one by one in turn, so that no worker has more than one more than another. None for blocks up to
            the end.

    >>> Share(1, 3).at(np.arange(4)).tolist(), Share(1, 3, block=2).at(np.arange(4)).tolist()
    ([1, 4, 7, 10], [2, 3, 8, 9])
    >>> Share(1, 3, block=2, end=10).at(np.arange(3)).tolist()
    [2, 3, 7]
    """

    worker_index: int = 0
    worker_count: int = 1
    start: int = 0
    block: int = 1
    end: int | None = None

    def __post_init__(self) -> None:
        for name in ("worker_index", "worker_count", "start", "block"):
            object.__setattr__(self, name, integer(name, getattr(self, name)))
        if self.worker_count < 1:
            raise ValueError(f"worker_count must be at least 1, got {self.worker_count}")
        if not 0 <= self.worker_index < self.worker_count:
            raise ValueError(f"worker_index must be in [0, {self.worker_count}), got {self.worker_index}")
        if self.start < 0:
            raise ValueError(f"start must be at least 0, got {self.start}")
        if self.block < 1:
            raise ValueError(f"block must be at least 1, got {self.block}")

    @classmethod
    def even(cls, worker_index: int, worker_count: int, length: int, block: int | None = None) -> Share:
        """Returns a share of a stream of that length of which no worker has more than one position more than another.

        Args:
            worker_index: in [0, worker_count).
            worker_count: how many workers there are, at least 1.
            length: of the stream.
            block: how many positions in a row a worker takes, up to the last round. None is `DEFAULT_BLOCK`, or a
                smaller power of two where that would be less than 64 rounds.
        """
        if block is None:
            worker_count = integer("worker_count", worker_count)
            block = min(DEFAULT_BLOCK, max(1, length // (max(1, worker_count) * _MIN_ROUNDS)))
            block = 1 << block.bit_length() - 1
        return cls(worker_index, worker_count, block=block, end=length)

    def of(self, length: int) -> Share:
        """Returns the same division of a stream of another length."""
        return self if self.end is None else replace(self, end=length)

    @property
    def _whole(self) -> int:
        """How many positions the worker takes in blocks."""
        if self.end is None:
            return 1 << 62
        return max(0, self.end - self.start) // (self.block * self.worker_count) * self.block

    @property
    def _last(self) -> Share:
        """The share of the last round."""
        start = self.start + self._whole * self.worker_count
        return Share(self.worker_index, self.worker_count, start)

    def at(self, nths: Ints) -> Ints:
        """Returns the stream positions of the worker's nth examples."""
        rounds, within = np.divmod(nths, self.block)
        positions: Ints = self.start + (rounds * self.worker_count + self.worker_index) * self.block + within
        if self.end is not None:
            last = nths >= self._whole
            positions[last] = self._last.at(nths[last] - self._whole)
        return positions

    def spans(self, starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Returns the ranges of stream positions that are ranges of the worker's examples, as starts and counts."""
        stops = starts + counts
        if int(stops[-1]) > self._whole:
            before, after = starts < self._whole, stops > self._whole
            rest = np.maximum(starts[after], self._whole) - self._whole
            found = self._last.spans(rest, stops[after] - self._whole - rest)
            if not before.any():
                return found
            starts = starts[before]
            firsts, numbers = self.spans(starts, np.minimum(stops[before], self._whole) - starts)
            return np.concatenate([firsts, found[0]]), np.concatenate([numbers, found[1]])
        opening = starts // self.block
        times = (stops - 1) // self.block - opening + 1
        ends = np.cumsum(times)
        rounds = np.arange(ends[-1]) + np.repeat(opening - (ends - times), times)
        skipped, numbers = np.zeros_like(rounds), np.full_like(rounds, self.block)
        skipped[ends - times] = starts - opening * self.block
        numbers[ends - 1] = stops - rounds[ends - 1] * self.block
        numbers -= skipped
        return self.start + (rounds * self.worker_count + self.worker_index) * self.block + skipped, numbers

    def count(self, end: int) -> int:
        """Returns how many positions before `end` are the worker's.

        >>> [Share(worker, 4).count(10) for worker in range(4)]
        [3, 3, 2, 2]
        """
        last = self._last if self.end is not None else None
        if last is not None and end > last.start:
            return self._whole + last.count(end)
        rounds, rest = divmod(max(0, end - self.start), self.block * self.worker_count)
        return rounds * self.block + min(max(0, rest - self.worker_index * self.block), self.block)

    def reached(self, taken: int, end: int | None = None) -> tuple[int, Partial | None]:
        """Returns where the stream goes on once each worker has taken `taken` examples, or all that are its own.

        It is the same for all workers, also for one that has fewer than `taken` before `end`, where the stream ends:
        that is reached once worker 0, which has the most, has taken its last one.

        Returns:
            A position, and where the workers are in the middle of blocks that begin there.

        >>> Share(1, 4).reached(2), Share(1, 4).reached(3, end=10), Share(1, 4, block=2).reached(3)
        ((8, None), (10, None), (8, Partial(worker_count=4, block=2, taken=1)))
        """
        if end is not None and taken >= replace(self, worker_index=0).count(end):
            return max(self.start, end), None
        if taken >= self._whole:
            return self._last.reached(taken - self._whole)
        if self.worker_count == 1:
            return self.start + taken, None
        rounds, within = divmod(taken, self.block)
        position = self.start + rounds * self.block * self.worker_count
        return position, Partial(self.worker_count, self.block, within) if within else None
