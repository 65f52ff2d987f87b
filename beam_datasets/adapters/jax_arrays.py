"""Datasets whose numbers are JAX arrays, on one device or sharded over several."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from beam_datasets.advice import advised_getattr
from beam_datasets.errors import FeatureOverflowError
from beam_datasets.extras import framework

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.iterator import DatasetIterator


def as_jax(dataset: Dataset, *, device: Any = None, fill: Any = None, epoch: int = 0) -> JaxDataset:
    """Returns a dataset of JAX arrays; see `Dataset.as_jax` for the arguments and errors."""
    framework("jax", needed_by="as_jax()", name="JAX", extra="jax")
    return JaxDataset(dataset._with_filler(fill), device, dataset._first_pass(epoch))


@functools.cache  # JAX refuses to register a class twice
def register_tree(kind: type[dict[str, Any]]) -> None:
    """Lets the functions of JAX for trees take a subclass of dict for a tree, as they take a dict, not for a leaf."""
    jax = framework("jax", needed_by="a tree", name="JAX", extra="jax")

    def flatten(tree: dict[str, Any]) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        """Returns the pairs of key and value, sorted by key as those of a dict, and the keys."""
        keys = tuple(sorted(tree))
        return [(jax.tree_util.DictKey(key), tree[key]) for key in keys], keys

    jax.tree_util.register_pytree_with_keys(kind, flatten, lambda keys, values: kind(zip(keys, values)))


@functools.cache
def register_list_class(kind: type[list[Any]]) -> None:
    """Registers a subclass of list as a JAX pytree; JAX functions return plain lists for it."""
    jax = framework("jax", needed_by="a tree", name="JAX", extra="jax")
    jax.tree_util.register_pytree_node(kind, lambda items: (tuple(items), None), lambda _, items: list(items))


class JaxDataset:
    """A dataset whose numbers are JAX arrays.

    Each `for` loop reads the epoch after the last one that a loop or `iterate()` started.

    Args:
        dataset: the dataset to read.
        device: a JAX device or sharding for the arrays; None for JAX's default device.
        first_pass: number of the first pass that a loop reads, from 0.

    Raises:
        ValueError: the sharding spans several processes, and `shard()` divided the dataset into unequal parts.
    """

    def __init__(self, dataset: Dataset, device: Any, first_pass: int = 0) -> None:
        self._dataset = dataset
        self._is_local = not getattr(device, "is_fully_addressable", True) and _check_parts(dataset)
        self._device = device
        self._next_pass = first_pass

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("jax_dataset")

    def __len__(self) -> int:
        return len(self._dataset)

    def __repr__(self) -> str:
        return f"JaxDataset({self._dataset!r})"

    def __getitem__(self, index: Any) -> Any:
        """Returns the example at an index in dataset order, or a list of examples for several indices."""
        value = self._dataset[index]
        return [self._put_on_device(item) for item in value] if isinstance(value, list) else self._put_on_device(value)

    def __iter__(self) -> JaxIterator:
        in_pass, epoch = self._dataset._in_pass(self._next_pass)
        self._next_pass += 1
        return JaxIterator(self, in_pass.iterate(epoch=epoch))

    def iterate(self, *, epoch: int | None = None, state: Mapping[str, Any] | None = None) -> JaxIterator:
        """Returns an iterator over an epoch; the next `for` loop reads the epoch after it.

        Args:
            epoch: the epoch, from 0; None for the first one, or for that of the state.
            state: a state of an iterator, from which the new one resumes; None to begin the epoch.
        """
        iterator = self._dataset.iterate(epoch=epoch, state=state)  # raises the errors of both arguments
        pass_number = self._dataset._pass_of(iterator.get_state()["epoch"])
        if state is not None:
            iterator = self._dataset._in_pass(pass_number)[0].iterate(state=state)
        self._next_pass = pass_number + 1
        return JaxIterator(self, iterator)

    def _put_on_device(self, value: Any, path: str = "") -> Any:
        """Returns a value with its numbers as JAX arrays on the device; text and bytes are unchanged.

        Args:
            value: an example, a batch, or a part of it; dicts and tuples are converted recursively.
            path: the name of the value in the example, for errors.

        Raises:
            FeatureOverflowError: a 64-bit integer does not fit 32 bits, and `jax_enable_x64` is off.
            ValueError: the sharding does not divide an array, or the processes have different values for it.
        """
        if isinstance(value, dict):
            return {name: self._put_on_device(item, f"{path}.{name}".lstrip(".")) for name, item in value.items()}
        if isinstance(value, tuple):
            return tuple(self._put_on_device(item, f"{path}[{i}]") for i, item in enumerate(value))
        if not isinstance(value, (np.ndarray, np.generic, int, float)) or np.asarray(value).dtype.kind in "OSU":
            return value
        jax = framework("jax", needed_by="as_jax()", name="JAX", extra="jax")
        _check_integers(jax, np.asarray(value), path)
        try:
            if self._is_local:
                return jax.make_array_from_process_local_data(self._device, np.asarray(value))
            return jax.device_put(value, self._device)
        except (ValueError, AssertionError) as error:
            if not isinstance(self._device, jax.sharding.Sharding):
                raise
            raise ValueError(_describe_unput(path, value, self._device, isinstance(error, AssertionError))) from error


def _check_parts(dataset: Dataset) -> bool:
    """Returns whether `shard()` has divided a dataset, so that each process has its own part of a global array.

    Raises:
        ValueError: the parts of the workers differ in length, so their last arrays would differ in shape.
    """
    lengths = dataset._lengths_of_parts()
    if lengths is not None and lengths[0] != lengths[1]:
        raise ValueError(
            f"as_jax(device=...): expected parts of one length for all processes, got {lengths[0]} and {lengths[1]} "
            "examples. Give shard() even='drop' or even='pad'."
        )
    return lengths is not None


def _describe_unput(path: str, value: Any, sharding: Any, is_different: bool) -> str:
    """Returns the message of the error that a sharding cannot divide an array.

    Args:
        path: the name of the array in the example.
        value: the array.
        sharding: the sharding.
        is_different: whether the processes have different values.
    """
    if is_different:
        return (
            f"{path}: expected the same array in all processes of {sharding}, as the dataset was not divided by "
            "shard(). Give each process its part: ds.shard(jax.process_index(), jax.process_count(), even='drop')."
        )
    return (
        f"{path}: an array of shape {np.shape(value)} cannot be divided by {sharding}. If it is of the last batch of "
        "an epoch, leave this batch out by batch(..., drop_remainder=True), or use shard(..., even='drop') or "
        "even='pad'. If it is not of batches, call batch() before as_jax()."
    )


def _check_integers(jax: Any, array: np.ndarray[Any, Any], path: str) -> None:
    """Checks that 64-bit integers fit 32 bits, to which JAX silently converts them unless `jax_enable_x64` is on.

    Args:
        jax: the module jax.
        array: an array of any dtype; only arrays of 64-bit integers are checked.
        path: the name of the array in the example, for errors.

    Raises:
        FeatureOverflowError: an integer does not fit.
    """
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or jax.config.jax_enable_x64 or not array.size:
        return
    limits = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
    for extreme in (array.min(), array.max()):
        if not limits.min <= extreme <= limits.max:
            raise FeatureOverflowError(
                f"{path}: expected integers that fit {limits.dtype}, to which JAX converts them, got {extreme}. Call "
                "jax.config.update('jax_enable_x64', True) before the first array is made, or change them in map()."
            )


class JaxIterator(Iterator[Any]):
    """Iterator over a dataset of JAX arrays, with the states of `DatasetIterator`."""

    def __init__(self, dataset: JaxDataset, iterator: DatasetIterator) -> None:
        self._dataset = dataset
        self._iterator = iterator

    def __next__(self) -> Any:
        return self._dataset._put_on_device(next(self._iterator))

    def get_state(self) -> dict[str, Any]:
        """Returns the position of the iterator, a small JSON-serializable dict."""
        return self._iterator.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Moves to a saved position, which may be in another pass.

        Raises:
            StateError: the state belongs to another dataset, slice, configuration or order.
        """
        iterator = self._dataset.iterate(state=state)._iterator
        self._iterator.close()
        self._iterator = iterator

    def state_dict(self) -> dict[str, Any]:
        """Returns `get_state()`."""
        return self.get_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Calls `set_state(state_dict)`."""
        self.set_state(state_dict)

    def close(self) -> None:
        """Closes the open files; `next()` opens them again."""
        self._iterator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
