"""Datasets as random access sources for Grain, which orders, shards and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.extras import framework

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset


class ExampleSource:
    """Examples by their index in dataset order. Threads may share it; it pickles without its open files.

    Its `repr` identifies the examples in every process: Grain compares it when it restores a checkpoint.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Wraps a dataset.

        Raises:
            TypeError: the dataset's order was changed.
        """
        dataset[:0]  # raises a TypeError if the order was changed
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def _getitems(self, indices: Sequence[int]) -> Sequence[Any]:
        """Returns the examples of a batch; called by Grain."""
        examples: list[Any] = self._dataset[list(indices)]
        return examples

    def __repr__(self) -> str:
        return f"ExampleSource({self._dataset!r})"


def as_grain_source(dataset: Dataset, *, fill: Any = None) -> ExampleSource:
    """Returns a dataset as a data source of Grain; see `Dataset.as_grain_source` for the arguments and errors."""
    framework("grain", needed_by="as_grain_source()", name="Grain", extra="grain")
    return ExampleSource(dataset._with_filler(fill))
