"""How workers divide positions, so that neither the order nor a batch depends on how many they are.

All workers share one stream of positions: 0, 1, 2, ... in the read order of the first epoch, and on without a seam in
the next ones (position p of the stream is position p mod n of epoch p // n, for n examples an epoch). A worker takes
every `worker_count`-th block of it. With the default block of one example, the first b examples that each of W workers
takes are together the first b * W of the stream, for every b: whoever batches b at a time gets its part of the global
batch of b * W, and nobody needs to know the batch size to divide. All workers have taken the same part of an epoch at
any step, give or take one example.

With `block` = the examples of a batch that are a worker's, its part of each global batch is a contiguous one instead,
and the parts one after the other are the batch. The batches hold the same examples. It is the rule to take where
reading is what costs: a part is then a few stretches of neighbouring records, of which a worker reads no others; by
single examples every worker reads nearly every byte. A state can then be saved between batches only.

What the workers have taken in step is a prefix of the stream, so one number says where they are, and any other number
of workers goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from beam_datasets.arguments import integer
from beam_datasets.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """What one of several workers takes of the stream of positions.

    Attributes:
        worker_index: in [0, worker_count).
        worker_count: how many workers there are, at least 1.
        start: the position where these workers began; all before it was taken by others.
        block: how many positions in a row a worker takes, at least 1.

    >>> Share(1, 3).positions(0, 4).tolist(), Share(1, 3, block=2).positions(0, 4).tolist()
    ([1, 4, 7, 10], [2, 3, 8, 9])
    """

    worker_index: int = 0
    worker_count: int = 1
    start: int = 0
    block: int = 1

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

    def position(self, nth: int) -> int:
        """Returns the stream position of the worker's nth example, from 0."""
        round_, within = divmod(nth, self.block)
        return self.start + (round_ * self.worker_count + self.worker_index) * self.block + within

    def positions(self, first: int, stop: int) -> Ints:
        """Returns the stream positions of the worker's examples [first, stop), ascending."""
        rounds, within = np.divmod(np.arange(first, stop, dtype=np.int64), self.block)
        positions: Ints = self.start + (rounds * self.worker_count + self.worker_index) * self.block + within
        return positions

    def count(self, end: int) -> int:
        """Returns how many positions before `end` are the worker's.

        >>> [Share(worker, 4).count(10) for worker in range(4)]
        [3, 3, 2, 2]
        """
        rounds, rest = divmod(max(0, end - self.start), self.block * self.worker_count)
        return rounds * self.block + min(max(0, rest - self.worker_index * self.block), self.block)

    def reached(self, taken: int, end: int | None = None) -> int:
        """Returns where the stream goes on once each worker has taken `taken` examples, or all that are its own.

        It is the same for all workers, also for one that has fewer than `taken` before `end`, where the stream ends:
        that is reached once worker 0, which has the most, has taken its last one.

        Raises:
            StateError: the workers are in the middle of a block, so that what the workers took is no prefix of the
                stream.

        >>> Share(1, 4).reached(2), Share(1, 4).reached(3, end=10)
        (8, 10)
        """
        if end is not None and taken >= replace(self, worker_index=0).count(end):
            return max(self.start, end)
        rounds, within = divmod(taken, self.block)
        if within:
            raise StateError(
                f"the workers have taken {within} of a block of {self.block} examples each; where workers take "
                "blocks, a state can be saved between blocks only: save it between batches"
            )
        return self.start + rounds * self.block * self.worker_count


def reached_by_all(taken: Sequence[int], start: int = 0, block: int = 1) -> int:
    """Returns where the stream goes on once worker i of len(taken) has taken taken[i] examples.

    Raises:
        StateError: what the workers took is no prefix of the stream: they were not in step.

    >>> reached_by_all([3, 3, 2, 2])
    10
    """
    end = start + sum(taken)
    for worker, got in enumerate(taken):
        expected = Share(worker, len(taken), start, block).count(end)
        if got != expected:
            raise StateError(
                f"worker {worker} of {len(taken)} has taken {got} examples, but all together {end - start}, of which "
                f"{expected} are its own: the workers are not in step. Save the states of all after the same step."
            )
    return end


def part_of_batch(batch_size: int, worker_count: int) -> int:
    """Returns how many examples of a global batch are each worker's.

    Raises:
        ValueError: worker_count does not divide batch_size, so that some worker would have more than another.

    >>> part_of_batch(256, 8)
    32
    """
    if batch_size < 1 or worker_count < 1:
        raise ValueError(f"batch_size and worker_count must be at least 1, got {batch_size} and {worker_count}")
    if batch_size % worker_count:
        raise ValueError(
            f"a batch of {batch_size} cannot be divided evenly among {worker_count} workers: "
            f"choose a batch_size that is a multiple of {worker_count}"
        )
    return batch_size // worker_count
