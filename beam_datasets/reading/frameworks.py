"""Methods of datasets and streams for training frameworks, and errors that translate methods of other libraries."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from beam_datasets.advice import (
    advised_getattr,
    advised_operator,
    advised_setitem,
    dir_without,
    instead_of,
    missing_attribute,
    names_foreign_arguments,
)
from beam_datasets.arguments import integer

if TYPE_CHECKING:
    import tensorflow


class NamesForeign(type):
    """Metaclass of `Frameworks` and `Stream`: an error names the replacement of another library's class attribute."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Raises an AttributeError, which names the replacement of a method of another library."""
            raise missing_attribute("ds", cls, name) or AttributeError(f"{cls.__name__} has no attribute {name!r}")

        def __call__(cls, *args: Any, **kwargs: object) -> Any:
            """Returns a new object; values that other libraries make datasets of are an error."""
            if not args or isinstance(args[0], (str, bytes, list, tuple, dict, os.PathLike)):
                raise TypeError(
                    f"{cls.__name__}(): expected to be called by this package. Use `bd.load(name, split='train')` "
                    "for a published dataset, and `bd.DatasetBuilder` to make one of rows."
                )
            return super().__call__(*args, **kwargs)


class ForeignOperators(metaclass=NamesForeign):
    """Operators that other libraries have; each raises a TypeError with the code to write."""

    if not TYPE_CHECKING:  # so that a type checker reports them
        __setitem__ = __delitem__ = advised_setitem("ds")

        def __setattr__(self, name: str, value: object) -> None:
            """Raises an AttributeError for a public name, such as `transform`, which would have no effect."""
            if not name.startswith("_"):
                advice = instead_of("ds", name) or "Its operations, such as `ds.map(function)`, return another one."
                raise AttributeError(f"{name} = ...: a {type(self).__name__} never changes. {advice}", name=name)
            object.__setattr__(self, name, value)

        __mul__ = __rmul__ = advised_operator("ds", "__mul__")
        __contains__ = advised_operator("ds", "__contains__")  # without it, Python would compare with each example
        __or__, __and__, __sub__ = (advised_operator("ds", name) for name in ("__or__", "__and__", "__sub__"))

    def __add__(self, other: object) -> NoReturn:
        """Raises a TypeError."""
        raise TypeError(f"datasets cannot be added. {instead_of('ds', '__add__')}")


class Frameworks(ForeignOperators):
    """Methods of a `Dataset` for training frameworks. Each method imports its framework when it is called."""

    _has_positions = True  # adapters can divide them; a stream has no positions
    __dir__ = dir_without("decode_many decode_one program")

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        _advise = advised_getattr("ds")

        def __getattr__(self, name: str) -> Any:
            """Raises an AttributeError, with advice for foreign names and names of features."""
            if not name.startswith("_") and name in self._feature_names():
                message = (
                    f"{type(self).__name__} has no attribute {name!r}. Use `[e[{name!r}] for e in ds]` for a feature"
                )
                raise AttributeError(f"{message}, or `ds.batch(32)`, whose items have arrays of it.", name=name)
            return self._advise(name)

    def _feature_names(self: Any) -> Collection[str]:
        """Returns the names of the features; () if the items are not examples with these features, as after `map()`."""
        if "_steps" not in vars(self):  # while it is unpickled
            return ()
        try:
            return tuple(self.features)
        except (TypeError, ValueError, AttributeError):
            return ()

    def _repr_html_(self) -> str:
        """Returns a table for notebooks: of the first examples, or of the arrays of the first batch."""
        from beam_datasets.display.examples import dataset_html

        return dataset_html(self)

    @names_foreign_arguments("as_torch")
    def as_torch(
        self: Any,
        *,
        map_style: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        block: int | None = None,
        even: str | None = None,
        fill: Any = None,
        epoch: int = 0,
    ) -> Any:
        """Returns the dataset for `torch.utils.data.DataLoader`, or torchdata's `StatefulDataLoader`.

        A DataLoader turns NumPy values into tensors; strings remain bytes. For a dataset in batches, use a DataLoader
        with batch_size=None. A DataLoader cannot batch examples of different shapes: use `padded_batch()` before, or
        `map()` them to one shape.

        Each pass over it reads the next epoch. DataLoaders with workers that read at the same time need a dataset each:
        call this for each. Functions of `map()` are pickled if workers are spawned. Each worker filters, batches and
        packs its own part of a stream's examples, so that its items depend on the number of workers.

        Args:
            map_style: True returns an indexable dataset for PyTorch's samplers, in dataset order. False returns an
                IterableDataset in read order, with `set_epoch`, `state_dict`, `load_state_dict` and `state_after`.
            rank: rank of this process; None means that of torch.distributed, else $RANK, when an iteration begins.
                Under Accelerate and the Trainer of Hugging Face, which divide items themselves, every process reads all
                items.
            num_ranks: number of ranks; None means that of torch.distributed, else $WORLD_SIZE, else 1. `rank=0,
                num_ranks=1` reads everything on each rank.
            block: number of consecutive items for a worker; by default as in `shard()`. If it is the DataLoader's
                batch_size, its batches are the same for any number of workers.
            even: gives all ranks the same number of batches, all of the same size: "drop" leaves out the last examples
                of an epoch, "pad" adds its first ones after them; None for neither. It needs `block`, the
                batch_size of the DataLoader, unless the dataset is in batches. With map_style, the length is a multiple
                of ranks times `block`, so that "drop" leaves out the same examples in each epoch.
            fill: values that replace missing ones, which a DataLoader cannot batch; see `batch()`.
            epoch: epoch of the first pass, such as the one at which training is restarted. `set_epoch(epoch)` sets the
                epoch of all further passes.

        Raises:
            MissingDependencyError: PyTorch is not installed.
            TypeError: map_style with a dataset whose order was changed, by `shuffle()`, `batch()` and the like.
            ValueError: the rank is out of range, or only one of rank and num_ranks is given; or `even` without a batch
                size; or `fill` or `even` with a stream.
        """
        from beam_datasets.adapters import as_torch

        return as_torch(
            self,
            map_style=map_style,
            rank=rank,
            num_ranks=num_ranks,
            block=block,
            even=even,
            fill=fill,
            epoch=epoch,
        )

    @names_foreign_arguments("as_tf_dataset")
    def as_tf_dataset(
        self: Any,
        *,
        output_signature: Any = None,
        state: Mapping[str, Any] | None = None,
        fill: Any = None,
        epoch: int | None = None,
    ) -> tensorflow.data.Dataset:
        """Returns the dataset as a `tf.data.Dataset` of the same items in the same order.

        Arrays become tensors, `RaggedArray`s ragged tensors, nested datasets datasets. Missing values of optional
        features are filled in as in `batch()`.

        Each further iteration, such as an epoch of `repeat()` or of Keras, reads the next epoch of the dataset.

        Each transfer from Python to TensorFlow takes a fraction of a millisecond. Examples of fixed shapes are
        transferred in groups. For other examples, and after `map()`, batch before (`ds.batch(256).as_tf_dataset()`),
        not after.

        Args:
            output_signature: the nest of `tf.TypeSpec`s of an item. None derives it from the features; after `map()`
                from the rank and dtype of each tensor of the first item.
            state: a state of a `DatasetIterator`, where the first iteration begins; None means the beginning of epoch
                0. With it the first epoch is shorter than later ones, so the cardinality is unknown, or infinite.
            fill: other values for missing ones; see `batch()`.
            epoch: epoch of the first iteration, such as `initial_epoch` of Keras; None for that of the state, or 0.

        Raises:
            MissingDependencyError: TensorFlow is not installed.
            ValueError: output_signature cannot be derived; or fill does not fit the features.
            StateError: the state does not fit the dataset.
        """
        from beam_datasets.adapters import as_tf_dataset

        return as_tf_dataset(self, output_signature=output_signature, state=state, fill=fill, epoch=epoch)

    @names_foreign_arguments("as_jax")
    def as_jax(self: Any, *, device: Any = None, fill: Any = None, epoch: int = 0) -> Any:
        """Returns the dataset with arrays of JAX for numbers; strings and ragged arrays remain values of NumPy.

        JAX converts 64-bit numbers to 32 bits unless `jax_enable_x64` is set. An integer that does not fit
        is an OverflowError. Each pass reads the next epoch; `iterate(state=...)` may have begun the one before.

        Args:
            device: a `jax.Device`, or a `jax.sharding.Sharding` that divides each array; None for JAX's default. If it
                has devices of several processes, an array is put together from the parts of `shard()`, one of each
                process; without `shard()`, each process reads the whole array.
            fill: values that replace missing ones; see `batch()`.
            epoch: epoch of the first pass.

        Raises:
            MissingDependencyError: JAX is not installed.
            ValueError: no pass begins with the epoch, because a pass reads several epochs of `repeat(epochs)`; or
                `shard()` gives the processes parts of different lengths. While it is read: `device` cannot divide an
                array.
        """
        from beam_datasets.adapters import as_jax

        return as_jax(self, device=device, fill=fill, epoch=epoch)

    @names_foreign_arguments("as_grain_source")
    def as_grain_source(self: Any, *, fill: Any = None) -> Any:
        """Returns the dataset as a data source for `grain.MapDataset.source()` and `grain.DataLoader`.

        It is in dataset order, as Grain has its own shuffle, repeat, slices and batches. Functions of `map()` are
        pickled if Grain starts processes.

        Args:
            fill: values that replace missing ones, which Grain cannot batch; see `batch()`.

        Raises:
            MissingDependencyError: Grain is not installed.
            TypeError: the dataset's order was changed, by `shuffle()`, `batch()` and the like.
        """
        from beam_datasets.adapters import as_grain_source

        return as_grain_source(self, fill=fill)

    def _first_pass(self: Any, epoch: int) -> int:
        """Returns the number of the pass that begins with an epoch.

        Raises:
            ValueError: no pass begins with it, because a pass reads several epochs of `repeat(epochs)`.
        """
        number: int = self._pass_of(integer("epoch", epoch, at_least=0))
        begin = self._in_pass(number)[1]
        if begin != epoch:
            raise ValueError(f"epoch: expected {begin}, with which a pass over repeat() begins, got {epoch}.")
        return number
