"""What a system brings to be measured: steps, each a function that gets ready and returns what is timed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from workloads import WORKLOADS, augmented

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BATCH_SIZE, LARGE_BATCH_SIZE = 256, 4096
PICKS = 20_000  # to read at random
GENERATE = "generate"
ONE_BY_ONE = "read one by one"
IN_SEQUENCE = "read one by one, one shard after the other"
BATCHES = f"read in batches of {BATCH_SIZE}"
LARGE_BATCHES = f"read in batches of {LARGE_BATCH_SIZE:,}"
AUGMENTED = f"read in batches of {BATCH_SIZE}, images cropped and mirrored"
LOADER = f"PyTorch's DataLoader, batches of {BATCH_SIZE}, no workers"
LOADER_2 = f"PyTorch's DataLoader, batches of {BATCH_SIZE}, 2 workers"
REMOTE = f"read from S3, batches of {BATCH_SIZE}"
REMOTE_AGAIN = f"read from S3, batches of {BATCH_SIZE}, cached"
RANDOM = "read at random"
ONE_FEATURE = "read one feature alone"
PARTIAL = "read 2 of 40 features one by one"
PARTIAL_BATCHES = f"read 2 of 40 features in batches of {BATCH_SIZE}"
RAW = "scan records, not decoded"
TABLE = "read all into a table"
OPEN = "open: from starting Python to the length and the first example"
MATERIALIZE = "materialize all"
MATERIALIZE_TENTH = "materialize train[:10%]"
VERIFY = "verify"
LIMITS = "limits"
FILES_READ = "limit: a plain loop that opens, reads and closes the files"
FILES_MADE = "limit: a plain loop that copies the files and renames them"
BATCHED = (BATCHES, LARGE_BATCHES, PARTIAL_BATCHES, AUGMENTED, LOADER, LOADER_2, REMOTE, REMOTE_AGAIN)
"""The ways whose items are batches."""

WARM_BATCHES = 8  # of a loader with workers, before the clock starts
WRITING = (GENERATE, REMOTE, REMOTE_AGAIN, MATERIALIZE, MATERIALIZE_TENTH, LIMITS, FILES_MADE)

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
        """Returns up to `PICKS` different indices to read at random; all, in another order, if there are no more."""
        return random.Random(0).sample(range(self.count), min(self.count, PICKS))


@dataclass(frozen=True)
class Step:
    """One thing that a system does.

    Attributes:
        system: name in the tables.
        way: the table it stands in.
        prepare: does what is not timed and returns what is: a function that returns either the number of examples
            that it worked on, or an iterable of them, or of batches, which is then consumed.
        warm: so many items are consumed before the clock starts, so that starting workers is not counted.
    """

    system: str
    way: str
    prepare: Callable[[Job], Callable[[], int | Iterable[Any]]]
    warm: int = 0


def open_step(system: str, code: str) -> Step:
    """Returns the step that starts Python, imports what is needed, and opens a dataset.

    Args:
        system: name in the tables.
        code: defines the `length` and the `first` example of the dataset of a job, from its `directory` and `workload`.
    """

    def prepare(job: Job) -> Callable[[], int]:
        given = f"directory, workload = {job.directory!r}, {job.workload!r}"
        check = f"assert length == {job.count} and first"

        def run() -> int:
            subprocess.run([sys.executable, "-c", f"{given}\n{code}\n{check}"], check=True)
            return 1

        return run

    return Step(system, OPEN, prepare)


def loader_steps(system: str, load: Callable[[Job, int, Callable[..., Any]], Iterable[Any]]) -> dict[str, Step]:
    """Returns the steps of a loader with workers.

    Args:
        system: name in the tables.
        load: returns the batches of a job, made by so many workers, after a function was applied to each row.
    """

    def batches(job: Job, *, workers: int = CORES, function: Callable[..., Any] = _same) -> Callable[[], Iterable[Any]]:
        loaded = load(job, workers, function)
        return lambda: loaded

    def one_by_one(job: Job) -> Callable[[], Iterable[Any]]:
        loaded = load(job, CORES, _same)
        return lambda: (dict(zip(batch, row)) for batch in loaded for row in zip(*batch.values()))

    parallel = f"{system}, a worker a core"
    return {
        "loader": Step(system, LOADER, partial(batches, workers=0), WARM_BATCHES),
        "loader_2": Step(system, LOADER_2, partial(batches, workers=2), WARM_BATCHES),
        "workers": Step(parallel, ONE_BY_ONE, one_by_one, WARM_BATCHES * BATCH_SIZE),
        "workers_batches": Step(parallel, BATCHES, batches, WARM_BATCHES),
        "workers_augmented": Step(parallel, AUGMENTED, partial(batches, function=augmented), WARM_BATCHES),
    }


def _same(row: Any) -> Any:
    return row


def drain(items: Iterable[Any], way: str, seconds: float) -> tuple[int, bool]:
    """Consumes items for so many seconds at most; returns how many examples they held, and whether they were all."""
    iterator, end, total = iter(items), time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        found = counted(iterator, way, 1 if way in BATCHED else 500)
        total += found
        if not found:
            return total, True
    return total, False


def counted(items: Iterator[Any], way: str, number: int) -> int:
    """Consumes so many items; returns how many examples they held. A batch is a dict of columns, or a list."""
    if way not in BATCHED:
        return sum(1 for _ in islice(items, number))
    return sum(len(batch if isinstance(batch, list) else next(iter(batch.values()))) for batch in islice(items, number))
