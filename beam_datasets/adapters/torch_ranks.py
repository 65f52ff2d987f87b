"""The rank of this process and the number of ranks that train together, from PyTorch or from a launcher."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from beam_datasets.adapters.callers import is_divided_by_caller
from beam_datasets.arguments import integer
from beam_datasets.extras import framework


class Ranks(NamedTuple):
    """The rank of this process and the number of ranks that divide a dataset.

    Attributes:
        rank: rank of this process, in [0, num_ranks).
        num_ranks: number of ranks.
        source: origin of the two numbers, for messages, such as `from torch.distributed`.
        world_size: number of ranks that train together; more than `num_ranks` if something else divides the items
            among them.
    """

    rank: int
    num_ranks: int
    source: str
    world_size: int

    @classmethod
    def of(cls, rank: Any, num_ranks: Any, source: str) -> Ranks:
        """Returns `Ranks` after checking the two numbers; its `world_size` is `num_ranks`.

        Args:
            rank: the rank of this process, an integer in [0, num_ranks).
            num_ranks: the number of ranks, an integer of at least 1.
            source: origin of the two numbers, such as `from torch.distributed`.

        Raises:
            TypeError: a number is not an integer.
            ValueError: `num_ranks` is less than 1, or `rank` is out of range.
        """
        checked_num_ranks, checked_rank = integer("num_ranks", num_ranks, at_least=1), integer("rank", rank)
        if not 0 <= checked_rank < checked_num_ranks:
            raise ValueError(f"rank must be in [0, {checked_num_ranks}), got {checked_rank}.")
        return cls(checked_rank, checked_num_ranks, source, checked_num_ranks)

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.num_ranks} ({self.source})"


SINGLE_RANK = Ranks.of(0, 1, "no other ranks were found")


def detect_ranks() -> Ranks | None:
    """Returns the ranks from torch.distributed, or else from the environment; None if neither has them.

    Returns rank 0 of 1, which reads all items, if Accelerate or the Trainer of Hugging Face is reading: they divide the
    items of an iterable dataset among ranks themselves.
    """
    ranks = ranks_of_process()
    if is_divided_by_caller():
        return Ranks(0, 1, "Accelerate divides what it reads", ranks.world_size if ranks else 1)
    return ranks


def ranks_of_process() -> Ranks | None:
    """Returns the ranks from torch.distributed, or else from $RANK and $WORLD_SIZE; None if neither has them.

    Raises:
        MissingDependencyError: PyTorch is not installed.
        ValueError: $RANK or $WORLD_SIZE is no integer, or out of range.
    """
    torch = framework("torch", needed_by="as_torch()", name="PyTorch", extra="torch")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Ranks.of(torch.distributed.get_rank(), torch.distributed.get_world_size(), "from torch.distributed")
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # a launcher sets them before the group is initialized
        return Ranks.of(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "from $RANK and $WORLD_SIZE")
    return None
