"""Small runs, opened and read by the blocks that take their records: in Python that would take longer than the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.native import core
from beam_datasets.reading.blocks import sizes
from beam_datasets.reading.runs import num_cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.model.shards import FileInstructions

    Ints = NDArray[np.int64]

SMALL_BYTES = 1 << 20
"""How many bytes a run has on average where they are small."""

_NAME_BYTES = 1 << 10  # what is held of a run that is still to be opened
_AHEAD_BYTES = 2 << 20  # of what a thread reads before a block gets there

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
        runs: Ints,
        chunk_bytes: int,
        chunk_of: Callable[[int, int, bool], Any],
    ) -> None:
        """Opens the directory alone.

        Args:
            directory: of the shards.
            instructions: the runs of the slice.
            runs: the number of each in the order in which they are opened, shape (runs,).
            chunk_bytes: how much of a run to read at a time.
            chunk_of: what reads the others, see `runs.read_visits`: what has no index, a large one, or is damaged.
        """
        self._directory = _directory(directory)  # type: ignore[misc]
        self._instructions, self._runs = instructions, runs
        self.chunks: dict[int, Any] = {}
        self._chunk_bytes, self._chunk_of = chunk_bytes, chunk_of
        self._places = np.full(len(instructions), len(runs))
        self._places[runs] = np.arange(len(runs))
        self._counts = sizes(_NAME_BYTES)
        self._tried = 0
        self._ahead = _AHEAD_BYTES if num_cores() > 1 else 0

    @staticmethod
    def are_read(run_bytes: float) -> bool:
        """Returns whether runs of so many bytes on average are read this way."""
        return _directory is not None and run_bytes <= SMALL_BYTES

    def chunk(self, run: int, first: int, damaged: bool) -> Any:
        """Returns the chunk of a run that has a record; see `runs.read_visits`."""
        place = self._places.item(run)
        if not damaged and place >= self._tried and self._directory is not None:
            self._tried = place + next(self._counts)
            self._prepare(self._runs[place : self._tried])
            return self.chunks[run]
        return self._chunk_of(run, first, damaged)

    def _prepare(self, runs: Ints) -> None:
        """Puts a chunk in place of each run, with which a block opens it."""
        instructions, numbers = self._instructions, runs.tolist()
        names, skip = list(map(instructions.filename, numbers)), instructions.skip[runs]
        wanted = np.concatenate([instructions.examples_in_shard[runs], skip, skip + instructions.take[runs]])
        found = core.runs(self._directory, names, wanted, self._chunk_bytes, self._ahead)  # type: ignore[union-attr]
        self.chunks.update(zip(numbers, found))
