"""What a system brings to be measured: steps, each a function that gets ready and returns what is timed."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BATCH_SIZE = 256
GENERATE = "generate"
ONE_BY_ONE = "read one by one"
BATCHES = f"read in batches of {BATCH_SIZE}"
RANDOM = "read at random"
ONE_FEATURE = "read one feature alone"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Job:
    """What a step works on.

    Attributes:
        workload: one of `workloads.WORKLOADS`.
        count: rows of the dataset.
        directory: the system's own, empty before it generates.
        num_shards: of the dataset; None for the system's default.
    """

    workload: str
    count: int
    directory: str
    num_shards: int | None = None

    def rows(self, part: int = 0, parts: int = 1) -> Any:
        """Returns every `parts`-th (key, example) from number `part` on."""
        return WORKLOADS[self.workload](range(part, self.count, parts))

    def picks(self) -> list[int]:
        """Returns up to 5,000 indices to read at random."""
        return random.Random(0).choices(range(self.count), k=min(self.count, 5000))


@dataclass(frozen=True)
class Step:
    """One thing that a system does.

    Attributes:
        system: name in the tables.
        way: the table it stands in.
        prepare: does what is not timed and returns what is: a function that returns the number of examples.
    """

    system: str
    way: str
    prepare: Callable[[Job], Callable[[], int]]


def drain(examples: Iterable[Any]) -> int:
    """Consumes the examples and returns how many they were."""
    return sum(1 for _ in examples)


def drain_batches(batches: Iterable[dict[str, Any]]) -> int:
    """Consumes batches and returns how many examples they held."""
    return sum(len(next(iter(batch.values()))) for batch in batches)
