"""Small runs, many of them read in one call before they are asked for: to open each one costs more than to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.native import core
from beam_datasets.reading.blocks import sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.model.shards import FileInstructions

    Ints = NDArray[np.int64]

SMALL_BYTES = 128 << 10
"""How many bytes a run has on average where they are small; one of twice as many is still read with others."""

_read_runs = getattr(core, "read_runs", None)


class SmallRuns:
    """Reads runs of shards of this machine in the order in which they are opened. For one thread.

    Attributes:
        chunks: of runs that were read, those that are opened next too, by run.
    """

    def __init__(
        self,
        directory: str,
        instructions: FileInstructions,
        runs: Ints,
        run_bytes: float,
        chunk_of: Callable[[int, int, bool], Any],
    ) -> None:
        """Reads nothing yet.

        Args:
            directory: of the shards.
            instructions: the runs of the slice.
            runs: the number of each in the order in which they are opened, shape (runs,).
            run_bytes: about how many bytes a run has.
            chunk_of: what reads the others, see `runs.read_visits`: what is not small, has no index, or is damaged.
        """
        self._directory, self._instructions, self._runs = directory, instructions, runs
        self.chunks: dict[int, Any] = {}
        self._chunk_of = chunk_of
        self._places = np.full(len(instructions), len(runs))
        self._places[runs] = np.arange(len(runs))
        self._counts = sizes(run_bytes)
        self._tried = 0

    @staticmethod
    def are_read(run_bytes: float) -> bool:
        """Returns whether runs of so many bytes on average are read this way."""
        return _read_runs is not None and run_bytes <= SMALL_BYTES

    def chunk(self, run: int, first: int, damaged: bool) -> Any:
        """Returns the chunk of a run that has a record; see `runs.read_visits`."""
        place = self._places.item(run)
        if not damaged and place >= self._tried and first == self._instructions.skip.item(run):
            self._tried = place + next(self._counts)
            self._read(self._runs[place : self._tried])
        found = None if damaged else self.chunks.get(run)
        return self._chunk_of(run, first, damaged) if found is None else found

    def _read(self, runs: Ints) -> None:
        """Reads runs, as far as they are what they should be."""
        instructions, numbers = self._instructions, runs.tolist()
        skip = instructions.skip[runs]
        wanted = np.concatenate([instructions.examples_in_shard[runs], skip, skip + instructions.take[runs]])
        found = _read_runs(self._directory, list(map(instructions.filename, numbers)), wanted)  # type: ignore[misc]
        self.chunks.update((run, chunk) for run, chunk in zip(numbers, found) if chunk is not None)
