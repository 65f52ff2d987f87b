"""The doors from a `Dataset` to the frameworks that train; behind them is `adapters`, a room to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset


class Frameworks:
    """What a `Dataset` is to others. Each method imports its framework when it is called, and nothing before."""

    def as_torch(self, **options: Any) -> Any:
        """Returns the dataset for a PyTorch DataLoader: `adapters.as_torch(self, **options)`.

        Raises:
            MissingDependencyError: PyTorch is not installed.
        """
        from beam_datasets.adapters import as_torch

        return as_torch(cast("Dataset", self), **options)

    def as_tf_dataset(self, **options: Any) -> Any:
        """Returns the dataset as a tf.data.Dataset: `adapters.as_tf_dataset(self, **options)`.

        Raises:
            MissingDependencyError: TensorFlow is not installed.
        """
        from beam_datasets.adapters import as_tf_dataset

        return as_tf_dataset(cast("Dataset", self), **options)

    def as_grain_source(self) -> Any:
        """Returns the dataset as a random access source of Grain: `adapters.as_grain_source(self)`.

        Raises:
            MissingDependencyError: Grain is not installed.
        """
        from beam_datasets.adapters import as_grain_source

        return as_grain_source(cast("Dataset", self))
