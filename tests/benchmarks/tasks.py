"""What is measured by which command, of which rows and how many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workloads import ONE_FEATURE, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Container

ENVIRONMENTS = {  # of modules
    "ours_torch": "ours",
    "peer_tfds": "tfds",
    "peer_mds": "torch",
    "peer_webdataset": "torch",
    "peer_hf": "hf",
    "peer_lance": "lance",
    "peer_litdata": "litdata",
}
EVERY = tuple(name for name in WORKLOADS if name not in ("line", "photos"))
KILOBYTE, DIGITS, TABULAR, FOUR = ("kilobyte",), ("digits",), ("tabular",), tuple(ONE_FEATURE)
PHOTOS = ("photos",)
REMOTE = ("text", "tabular", "photos")
OURS = "ours.generate_beam"
SHARES = {"peer_tfds": 10, "peer_webdataset": 5, "peer_mds": 3, "peer_hf": 3}
"""Of modules: a system gets this fraction of the rows, because its rate is the same, and a run takes less time."""

MIN_ROWS = 2000


@dataclass(frozen=True)
class Task:
    """A step to be measured.

    Attributes:
        module: of this directory.
        step: of the module's STEPS.
        reads: the step that generates what this one reads, MODULE.STEP, or the STEP of the same module; "" where it
            generates itself.
        workloads: those that make sense; two tasks that differ in nothing else are equal.
        num_shards: to generate; None for the system's default.
    """

    module: str
    step: str
    reads: str = ""
    workloads: tuple[str, ...] = field(default=EVERY, compare=False)
    num_shards: int | None = None

    @property
    def environment(self) -> str:
        """Key of `environments.REQUIREMENTS`; "" for the environment of this process."""
        return ENVIRONMENTS.get(self.module, "")

    @property
    def name(self) -> str:
        """MODULE.STEP."""
        return f"{self.module}.{self.step}"

    @property
    def source(self) -> Task | None:
        """The task that generates what this one reads, if any."""
        if not self.reads:
            return None
        module, _, step = self.reads.rpartition(".")
        return Task(module or self.module, step, num_shards=self.num_shards)

    def rows(self, rows: int) -> int:
        """Returns how many of the rows the system gets."""
        return max(rows // SHARES.get(self.module, 1), min(rows, MIN_ROWS))


def _limits(*steps: str, workloads: tuple[str, ...] = EVERY) -> tuple[Task, ...]:
    return tuple(Task("plain", step, OURS, workloads) for step in steps)


def _parallel(step: str) -> tuple[Task, ...]:
    """Returns a step of the peers' own loaders, with a worker a core."""
    peers = (Task(f"peer_{name}", step, "generate", PHOTOS) for name in ("mds", "hf", "lance", "litdata"))
    return (*peers, Task("peer_tfds", step, "generate_array_record", PHOTOS))


def _loaders(step: str) -> tuple[Task, ...]:
    peers = ("mds", "hf", "lance", "litdata")
    return (
        Task("ours_torch", step, OURS, FOUR + PHOTOS),
        *(Task(f"peer_{name}", step, "generate", FOUR + PHOTOS) for name in peers),
        Task("peer_webdataset", step, "generate", FOUR),
    )


# What a table compares stands together, ours first.
TASKS = {
    "generate": (
        Task("ours", "generate_beam", workloads=EVERY + PHOTOS),
        Task("ours", "generate"),
        Task("peer_tfds", "generate_beam"),
        Task("peer_tfds", "generate_beam_parallel", workloads=FOUR),
        Task("peer_tfds", "generate", workloads=FOUR + PHOTOS),
        Task("peer_tfds", "generate_array_record", workloads=FOUR + PHOTOS),
        Task("peer_mds", "generate", workloads=EVERY + PHOTOS),
        Task("peer_mds", "generate_parallel"),
        Task("peer_webdataset", "generate"),
        Task("peer_hf", "generate", workloads=EVERY + PHOTOS),
        Task("peer_hf", "generate_parallel"),
        Task("peer_lance", "generate", workloads=EVERY + PHOTOS),
        Task("peer_litdata", "generate", workloads=EVERY + PHOTOS),
        *_limits("rows", "write", "crc", "memcpy", "cp"),
        *_limits("deflate", workloads=DIGITS),
    ),
    "read": (
        Task("ours", "one_by_one", OURS, FOUR + PHOTOS),
        Task("ours", "one_thread", OURS, PHOTOS),
        Task("peer_tfds", "one_by_one", "generate", FOUR + PHOTOS),
        *_parallel("workers"),
        Task("peer_tfds", "array_record_one_by_one", "generate_array_record", FOUR),
        Task("peer_mds", "one_by_one", "generate", FOUR + PHOTOS),
        Task("peer_webdataset", "one_by_one", "generate", FOUR),
        Task("peer_hf", "one_by_one", "generate", FOUR + PHOTOS),
        Task("peer_lance", "one_by_one", "generate", FOUR + PHOTOS),
        Task("peer_litdata", "one_by_one", "generate", FOUR + PHOTOS),
        Task("ours", "batches", OURS, FOUR + PHOTOS),
        Task("ours", "one_thread_batches", OURS, PHOTOS),
        Task("peer_tfds", "batches", "generate", FOUR + PHOTOS),
        Task("peer_tfds", "array_record_batches", "generate_array_record", FOUR),
        Task("peer_hf", "batches", "generate", FOUR + PHOTOS),
        Task("peer_lance", "batches", "generate", FOUR + PHOTOS),
        *_parallel("workers_batches"),
        Task("ours", "augmented", OURS, PHOTOS),
        Task("peer_tfds", "augmented", "generate", PHOTOS),
        *_parallel("workers_augmented"),
        Task("ours", "large_batches", OURS, FOUR),
        Task("peer_tfds", "large_batches", "generate", FOUR),
        Task("peer_tfds", "array_record_large_batches", "generate_array_record", FOUR),
        Task("peer_hf", "large_batches", "generate", FOUR),
        Task("peer_lance", "large_batches", "generate", FOUR),
        Task("ours", "at_random", OURS, FOUR + PHOTOS),
        Task("peer_tfds", "array_record_at_random", "generate_array_record", FOUR),
        Task("peer_mds", "at_random", "generate", FOUR + PHOTOS),
        Task("peer_hf", "at_random", "generate", FOUR + PHOTOS),
        Task("peer_lance", "at_random", "generate", FOUR + PHOTOS),
        Task("peer_litdata", "at_random", "generate", FOUR + PHOTOS),
        Task("ours", "one_feature", OURS, FOUR),
        Task("peer_tfds", "one_feature", "generate", FOUR),
        Task("peer_hf", "one_feature", "generate", FOUR),
        Task("peer_lance", "one_feature", "generate", FOUR),
        Task("ours", "partial", OURS, TABULAR),
        Task("peer_tfds", "partial", "generate", TABULAR),
        Task("peer_hf", "partial", "generate", TABULAR),
        Task("peer_lance", "partial", "generate", TABULAR),
        Task("ours", "partial_batches", OURS, TABULAR),
        Task("peer_tfds", "partial_batches", "generate", TABULAR),
        Task("peer_hf", "partial_batches", "generate", TABULAR),
        Task("peer_lance", "partial_batches", "generate", TABULAR),
        *_limits("read", "read_at_random", "crc", "memcpy", workloads=FOUR),
        *_limits("inflate", workloads=DIGITS),
        *_limits("decode", "decode_on_threads", workloads=PHOTOS),
    ),
    "tables": (
        Task("ours", "to_arrow", OURS, FOUR),
        Task("ours", "to_pandas", OURS, FOUR),
        Task("peer_hf", "to_pandas", "generate", FOUR),
    ),
    "loaders": (*_loaders("loader"), *_loaders("loader_2")),
    "files": (
        Task("ours", "raw", OURS, KILOBYTE),
        Task("ours", "scan", OURS, KILOBYTE),
        Task("peer_tfds", "raw", "generate", KILOBYTE),
        Task("peer_tfds", "array_record_raw", "generate_array_record", KILOBYTE),
        Task("peer_mds", "raw", "generate", KILOBYTE),
        Task("peer_webdataset", "raw", "generate", KILOBYTE),
        Task("ours", "materialize", OURS, KILOBYTE),
        Task("peer_hf", "materialize", "generate", KILOBYTE),
        Task("ours", "materialize_tenth", OURS, KILOBYTE),
        Task("peer_hf", "materialize_tenth", "generate", KILOBYTE),
        Task("ours", "verify", OURS, KILOBYTE),
        *_limits("read", "crc", "memcpy", "cp", workloads=KILOBYTE),
    ),
    "remote": (
        *(
            Task(module, step, reads, REMOTE)
            for step in ("remote", "remote_again")
            for module, reads in (("ours", OURS), ("peer_mds", "generate"), ("peer_litdata", "generate"))
        ),
        Task("ours", "batches", OURS, REMOTE),
        *_limits("get", workloads=("text", "tabular")),
    ),
    "open": (
        *(Task("ours", "open", OURS, KILOBYTE, shards) for shards in (10, 1000, 10_000)),
        Task("peer_tfds", "open", "generate", KILOBYTE),
        Task("peer_tfds", "array_record_open", "generate_array_record", KILOBYTE),
        Task("peer_mds", "open", "generate", KILOBYTE),
        *(Task(f"peer_{name}", "open", "generate", KILOBYTE) for name in ("hf", "lance", "litdata")),
    ),
    "memory": (
        Task("ours", "generate_beam", workloads=KILOBYTE),
        Task("ours", "generate_beam", workloads=KILOBYTE, num_shards=1000),
    ),
}
ROWS = {
    "generate": 300_000,
    "read": 300_000,
    "tables": 300_000,
    "loaders": 300_000,
    "remote": 300_000,
    "files": 2_000_000,
    "open": 60_000,
    "memory": 10_000_000,
}
ROWS_OF_LARGE = {"generate": 60_000, "read": 60_000, "tables": 60_000, "loaders": 60_000, "remote": 60_000}
REPEAT = {"generate": 3, "read": 3, "tables": 3, "loaders": 3, "remote": 3, "files": 3, "open": 3, "memory": 1}
SECONDS = {"read": 4.0, "loaders": 4.0, "remote": 10.0}  # a pass ends then, however many rows are left
CHECKED, CHECKED_ROWS = (*TASKS["read"], *TASKS["loaders"]), 500


def tasks_of(command: str, workload: str, environments: Container[str], skip: Container[str] = ()) -> list[Task]:
    """Returns the tasks of a command that are for a workload and for these environments."""
    fitting = [task for task in TASKS[command] if workload in task.workloads and task.environment in environments]
    return [task for task in fitting if task.name not in skip]


def rows_of(command: str, workload: str) -> int:
    """Returns how many rows a command works on by default."""
    return ROWS_OF_LARGE.get(command, ROWS[command]) if workload in ("tokens", "photos") else ROWS[command]
