"""A dataset as Grain's random access source: Grain chooses the order, shards and checkpoints; this gives examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.adapters.framework import framework

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam_datasets.reading.dataset import Dataset


class ExampleSource:
    """Examples by their index in dataset order. Threads may share it; it pickles without its open files.

    Its `repr` says which examples it has, the same in every process: Grain compares it when it restores a checkpoint.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Takes a dataset.

        Raises:
            TypeError: the dataset's order was changed.
        """
        dataset[:0]  # which says what is wrong with its order
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def _getitems(self, indices: Sequence[int]) -> Sequence[Any]:
        """Returns several examples at once: what Grain asks for before it makes a batch."""
        examples: list[Any] = self._dataset[list(indices)]
        return examples

    def __repr__(self) -> str:
        return f"ExampleSource({self._dataset!r})"


def as_grain_source(dataset: Dataset, *, fill: Any = None) -> ExampleSource:
    """Returns a dataset as a data source for `grain.MapDataset.source()` and `grain.DataLoader`.

    Args:
        dataset: in dataset order; Grain has its own shuffle, repeat, slices and batches. Functions that were put on it
            by `map()` are pickled where Grain starts processes.
        fill: what stands for missing values, which Grain cannot put in a batch; see `Dataset.batch()`.

    Raises:
        MissingDependencyError: Grain is not installed.
        TypeError: the dataset's order was changed, by `shuffle()`, `batch()` and the like.
    """
    framework("grain", needed_by="as_grain_source()", name="Grain", extra="grain")
    return ExampleSource(dataset._with_filler(fill))
