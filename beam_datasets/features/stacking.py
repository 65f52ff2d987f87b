"""Examples put together to a batch: arrays with one dimension more, in the structure of the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.ragged import RaggedArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


KEEP: Any = object()
"""Lets None stay where a value is missing, for who counts them; their column is an array of objects."""


def stack(examples: Sequence[Any], *, pad: bool = False, path: str = "", fill: Any = KEEP) -> Any:
    """Returns a batch of examples.

    Numbers and arrays are stacked: the first dimension is the batch. Strings, and whatever else an example has (nested
    datasets, lists), make an array of objects; ragged arrays make a ragged array of one level more.

    Args:
        examples: at least one, all of the same structure.
        pad: whether arrays of different shapes are filled with zeros (strings: with b'') behind their ends.
        path: of the feature, for errors.
        fill: a nest of values in the place of None; see `missing.Fill`. None elsewhere is an error, as the dtype would
            depend on the batch.

    Raises:
        FeatureValueError: arrays are of different shapes and not to be padded, or a value is missing.

    >>> stack([{"a": np.array([1, 2])}, {"a": np.array([3])}], pad=True)
    {'a': array([[1, 2],
           [3, 0]])}
    """
    first = examples[0]
    if isinstance(first, dict):
        return {
            key: stack(
                [example[key] for example in examples],
                pad=pad,
                path=f"{path}/{key}" if path else str(key),
                fill=inner(fill, key),
            )
            for key in first
        }
    if isinstance(first, tuple):
        columns = enumerate(zip(*examples))
        return tuple(stack(column, pad=pad, path=f"{path}[{i}]", fill=inner(fill, i)) for i, column in columns)
    if fill is not KEEP:
        examples = _filled(examples, fill, path)
        first = examples[0]
    if isinstance(first, np.ndarray):
        return _stack_arrays(examples, pad, path)
    if isinstance(first, (np.generic, bool, int, float)):
        return _stack_numbers(examples)
    if isinstance(first, RaggedArray):
        return _stack_ragged(examples)
    return _objects(examples)


def stack_decoded(values: Sequence[Any], *, pad: bool, path: str, fill: Any) -> Any:
    """Returns the batch of a feature's decoded values. Other examples may have arrays where these have lists."""
    if fill is not KEEP and any(isinstance(value, list) for value in values):
        _refuse_lists(path)
    return stack(values, pad=pad, path=path, fill=fill)


def inner(fill: Any, key: Any) -> Any:
    """Returns the part of a nest below a key; None if it has none."""
    if fill is KEEP:
        return KEEP
    if isinstance(fill, tuple) and isinstance(key, int):
        return fill[key] if key < len(fill) else None
    return fill.get(key) if isinstance(fill, dict) else None


def _filled(column: Sequence[Any], fill: Any, path: str) -> Sequence[Any]:
    """Returns a column with values in the place of None; without lists among arrays."""
    if any(value is None for value in column):
        if fill is None or isinstance(fill, (dict, tuple)):
            raise FeatureValueError(
                f"{path or 'the examples'}: expected a value, got None, which no batch can have. "
                f"Give batch(..., fill={{{path!r}: value}}), or replace it in map()"
            )
        column = [fill if value is None else value for value in column]
    if len({isinstance(value, list) for value in column}) > 1:
        _refuse_lists(path)
    return column


def _refuse_lists(path: str) -> NoReturn:
    raise FeatureValueError(
        f"{path or 'the examples'}: a list, as of items of different shapes, cannot be put in one batch with arrays. "
        "Bring them to one shape with map()."
    )


def _stack_numbers(numbers: Sequence[Any]) -> NDArray[Any]:
    if any(number is None for number in numbers):
        return _objects(numbers)
    is_of_one_type = len(set(map(type, numbers))) == 1
    return np.array(numbers, getattr(numbers[0], "dtype", None) if is_of_one_type else None)


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
    dtype = np.result_type(*{array.dtype for array in arrays})  # as np.stack promotes arrays of one shape
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
