"""Random access data sources for Grain, which orders and shards the examples, and saves the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.advice import advised_getattr
from beam_datasets.extras import framework

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset


class ExampleSource:
    """A data source of examples by their index in dataset order.

    Threads may share it, and it pickles without its open files. Its `repr` identifies the examples in every process:
    Grain compares it when it restores a checkpoint.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Makes a data source of a dataset in dataset order.

        Raises:
            TypeError: the dataset's order was changed.
        """
        dataset[:0]  # raises a TypeError if the order was changed
        self._dataset = dataset

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("grain_source")

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def _getitems(self, indices: Sequence[int]) -> Sequence[Any]:
        """Returns the examples at some indices in dataset order; called by Grain for a batch."""
        examples: list[Any] = self._dataset[list(indices)]
        return examples

    def __repr__(self) -> str:
        return f"ExampleSource({self._dataset!r})"


def as_grain_source(dataset: Dataset, *, fill: Any = None) -> ExampleSource:
    """Returns a dataset as a data source of Grain; see `Dataset.as_grain_source` for the arguments and errors."""
    framework("grain", needed_by="as_grain_source()", name="Grain", extra="grain")
    return ExampleSource(dataset._with_filler(fill))
