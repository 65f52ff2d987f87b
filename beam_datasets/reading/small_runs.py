"""Small runs, opened and read by the blocks that take their records: in Python that would take longer than the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.native import core

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.metadata.shards import FileInstructions
    from beam_datasets.reading.runs import Visits

    Ints = NDArray[np.int64]

SMALL_BYTES = 1 << 20
"""How many bytes a run has on average where they are small."""

_directory = getattr(core, "directory", None)


class SmallRuns:
    """Has blocks open runs of shards of this machine when they get there. For one thread.

    Attributes:
        chunks: of runs that are open, and of those that are opened next, by run.
    """

    def __init__(
        self,
        directory: str,
        instructions: FileInstructions,
        chunk_bytes: int,
        chunk_of: Callable[[int, Visits, bool, bool], Any],
    ) -> None:
        """Opens the directory alone.

        Args:
            directory: of the shards.
            instructions: the runs of the slice.
            chunk_bytes: how much of a run to read at a time.
            chunk_of: what reads the others, see `runs.read_visits`: what has no index, a large one, or is damaged.
        """
        self._directory = _directory(directory)  # type: ignore[misc]
        self._instructions = instructions
        self.chunks: dict[int, Any] = {}
        self._chunk_bytes, self._chunk_of = chunk_bytes, chunk_of
        self._failed: set[int] = set()

    @staticmethod
    def are_read(run_bytes: float) -> bool:
        """Returns whether runs of so many bytes on average are read this way."""
        return _directory is not None and run_bytes <= SMALL_BYTES

    def chunk(self, run: int, visits: Visits, damaged: bool, failed: bool) -> Any:
        """Returns the chunk of a run that has the first record of the visits; see `runs.read_visits`."""
        if failed or self._directory is None:
            self._failed.add(run)
        if damaged or run in self._failed:
            return self._chunk_of(run, visits, damaged, failed)
        self._prepare(visits[0])
        return self.chunks[run]

    def _prepare(self, runs: Ints) -> None:
        """Puts a chunk in place of each run that has none, with which a block opens it."""
        instructions = self._instructions
        numbers = [run for run in np.unique(runs).tolist() if run not in self.chunks and run not in self._failed]
        runs = np.array(numbers, np.int64)
        names, skip = list(map(instructions.filename, numbers)), instructions.skip[runs]
        wanted = np.concatenate([instructions.examples_in_shard[runs], skip, skip + instructions.take[runs]])
        found = core.runs(self._directory, names, wanted, self._chunk_bytes)  # type: ignore[union-attr]
        self.chunks.update(zip(numbers, found))
