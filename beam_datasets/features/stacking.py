"""Examples put together to a batch: arrays with one dimension more, in the structure of the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.ragged import RaggedArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def stack(examples: Sequence[Any], *, pad: bool = False, path: str = "") -> Any:
    """Returns a batch of examples.

    Numbers and arrays are stacked: the first dimension is the batch. Strings, and whatever else an example has (nested
    datasets, lists of items whose shapes differ), make an array of objects, and so does a column with None of an
    optional feature, or a list, anywhere in it; ragged arrays make a ragged array of one level more.

    Args:
        examples: at least one, all of the same structure.
        pad: whether arrays of different shapes are filled with zeros (strings: with b'') behind their ends.
        path: of the feature, for errors.

    Raises:
        FeatureValueError: arrays are of different shapes and not to be padded.

    >>> stack([{"a": np.array([1, 2])}, {"a": np.array([3])}], pad=True)
    {'a': array([[1, 2],
           [3, 0]])}
    """
    first = examples[0]
    if isinstance(first, dict):
        return {
            key: stack([example[key] for example in examples], pad=pad, path=f"{path}/{key}" if path else str(key))
            for key in first
        }
    if isinstance(first, tuple):
        return tuple(stack(column, pad=pad, path=f"{path}[{i}]") for i, column in enumerate(zip(*examples)))
    if isinstance(first, np.ndarray):
        return _stack_arrays(examples, pad, path)
    if isinstance(first, (np.generic, bool, int, float)):
        return _stack_numbers(examples)
    if isinstance(first, RaggedArray):
        return _stack_ragged(examples)
    return _objects(examples)


def _stack_numbers(numbers: Sequence[Any]) -> NDArray[Any]:
    if any(number is None for number in numbers):
        return _objects(numbers)
    return np.array(numbers, getattr(numbers[0], "dtype", None))


def _stack_arrays(arrays: Sequence[Any], pad: bool, path: str) -> NDArray[Any]:
    if not all(hasattr(array, "shape") for array in arrays):
        return _objects(arrays)
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        return np.stack(arrays) if not arrays[0].dtype.hasobject or arrays[0].ndim else _objects(arrays)
    if not pad:
        some = " and ".join(map(str, sorted(shapes, key=str)[:2]))
        raise FeatureValueError(
            f"{path or 'the examples'}: arrays of the shapes {some} cannot be put in one batch; "
            "batch with pad=True, or bring them to one shape with map()."
        )
    if len({len(shape) for shape in shapes}) > 1:
        raise FeatureValueError(f"{path or 'the examples'}: arrays of different ranks cannot be padded: {shapes}.")
    longest = tuple(map(max, zip(*shapes)))
    dtype = arrays[0].dtype
    filler: Any = b"" if dtype.hasobject else 0
    padded = np.full((len(arrays), *longest), filler, dtype)
    for row, array in zip(padded, arrays):
        row[tuple(map(slice, array.shape))] = array
    return padded


def _stack_ragged(arrays: Sequence[RaggedArray]) -> RaggedArray:
    flat = [array.flat_values for array in arrays]
    joined: Any = [item for values in flat for item in values]
    if all(isinstance(values, np.ndarray) and values.shape[1:] == flat[0].shape[1:] for values in flat):
        joined = np.concatenate(flat)
    levels = zip(*(array.row_lengths for array in arrays))
    outer = np.array([len(array) for array in arrays], np.int64)
    return RaggedArray(joined, (outer, *(np.concatenate(level) for level in levels)))


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    objects = np.empty(len(values), object)
    if isinstance(values[0], (bytes, str)):
        objects[:] = values
    else:
        for i, value in enumerate(values):  # NumPy would look into lists and arrays for further dimensions
            objects[i] = value
    return objects
