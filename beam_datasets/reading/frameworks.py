"""Methods of `Dataset` for training frameworks. They import `adapters` when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.streams import Stream


_COUNTERPARTS = {
    "as_dataframe": "pandas.DataFrame(list(ds)) makes one",
    "as_numpy": "examples are NumPy values already",
    "as_numpy_iterator": "iter(ds) does it; examples are NumPy values already",
    "cache": "local files need none, and for remote ones there is $BEAM_DATASETS_CACHE_DIR",
    "cardinality": "len(ds) is it",
    "concatenate": "load both as one split, such as 'train+test'",
    "element_spec": "ds.features says what examples are, and that of as_tf_dataset() has one",
    "enumerate": "enumerate(ds) does it",
    "numpy": "examples are NumPy values already",
    "prefetch": "remote files are read ahead anyway; workers are those of as_torch() or as_tf_dataset()",
    "select": "ds[[3, 1, 2]] does it",
    "to_tf_dataset": "it is as_tf_dataset()",
}


class ForTorch:
    """What a `Dataset` and a `Stream` are to PyTorch."""

    _has_positions = True  # that adapters can divide; a stream has none

    def as_torch(self, **options: Any) -> Any:
        """Returns the dataset for a PyTorch DataLoader: `adapters.as_torch(self, **options)`.

        Raises:
            MissingDependencyError: PyTorch is not installed.
        """
        from beam_datasets.adapters import as_torch

        return as_torch(cast("Dataset | Stream", self), **options)


class Frameworks(ForTorch):
    """What a `Dataset` is to others. Each method imports its framework when it is called, and nothing before."""

    if not TYPE_CHECKING:  # a type checker is to find what is not there

        def __getattr__(self, name: str) -> Any:
            if name in _COUNTERPARTS:
                raise AttributeError(f"a Dataset has no {name}: {_COUNTERPARTS[name]}.", name=name, obj=self)
            return object.__getattribute__(self, name)  # raises what it raised before

    def as_tf_dataset(self, **options: Any) -> Any:
        """Returns the dataset as a tf.data.Dataset: `adapters.as_tf_dataset(self, **options)`.

        Raises:
            MissingDependencyError: TensorFlow is not installed.
        """
        from beam_datasets.adapters import as_tf_dataset

        return as_tf_dataset(cast("Dataset", self), **options)

    def as_grain_source(self, *, fill: Any = None) -> Any:
        """Returns the dataset as a random access source of Grain: `adapters.as_grain_source(self, fill=fill)`.

        Raises:
            MissingDependencyError: Grain is not installed.
        """
        from beam_datasets.adapters import as_grain_source

        return as_grain_source(cast("Dataset", self), fill=fill)
