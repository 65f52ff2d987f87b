"""What handlers do with parsed values alike: to an array, padded, reshaped; and a sparse array as its three parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.ragged import RaggedArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class SparseTensorValue(NamedTuple):
    """An array of which only some elements are given.

    Attributes:
        indices: where these are; shape (n, dimensions), int64.
        values: what they are; shape (n,).
        dense_shape: the array's shape; shape (dimensions,), int64.
    """

    indices: NDArray[np.int64]
    values: NDArray[Any]
    dense_shape: NDArray[np.int64]

    def to_dense(self, default_value: Any = 0) -> NDArray[Any]:
        """Returns the array, with the default (0 stands for b'' in strings) where nothing is given.

        Raises:
            FeatureValueError: an index is outside of the shape, or given twice.

        >>> SparseTensorValue(np.array([[0], [2]]), np.array([7, 8]), np.array([4])).to_dense(-1)
        array([ 7, -1,  8, -1])
        """
        shape = tuple(self.dense_shape.tolist())
        outside = ((self.indices < 0) | (self.indices >= self.dense_shape)).any(axis=1)
        if outside.any():
            raise FeatureValueError(f"index {self.indices[outside.argmax()].tolist()} is outside of the shape {shape}")
        places = np.ravel_multi_index(tuple(self.indices.T), shape) if len(self.values) else np.empty(0, np.int64)
        found, counts = np.unique(places, return_counts=True)
        if len(found) < len(places):
            twice = np.unravel_index(found[counts.argmax()], shape)
            raise FeatureValueError(f"index {[int(i) for i in twice]} is given {counts.max()} times")
        out = filled(shape, self.values.dtype, default_value)
        out.reshape(-1)[places] = self.values
        return out


def listed(names: str | Sequence[str]) -> list[str]:
    """Returns one name or several as a list."""
    return [names] if isinstance(names, str) else list(names)


def as_array(value: Any) -> NDArray[Any]:
    """Returns a parsed value as an array; `bytes` as one of shape () that holds them."""
    return np.asarray(value, STRING) if isinstance(value, bytes) else np.asarray(value)


def flat(value: Any) -> NDArray[Any]:
    """Returns the elements of a parsed value one after the other."""
    return as_array(value.flat_values if isinstance(value, RaggedArray) else value).ravel()


def dense(value: Any, default_value: Any) -> Any:
    """Returns a parsed value with the steps of a sequence filled up to the longest; shape (time, longest)."""
    if not isinstance(value, RaggedArray):
        return value
    [lengths] = value.row_lengths
    inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    out = filled(inside.shape, value.flat_values.dtype, default_value)
    out[inside] = value.flat_values
    return out


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], default_value: Any) -> NDArray[Any]:
    """Returns an array full of the default; 0 and '' stand for each other in numbers and strings."""
    if isinstance(default_value, str):
        default_value = default_value.encode("utf-8")
    empty = default_value in (0, b"")
    if not empty and isinstance(default_value, bytes) != (dtype == STRING):
        raise FeatureValueError(f"default_value={default_value!r} does not fit values of dtype {dtype}")
    return np.full(shape, (b"" if dtype == STRING else 0) if empty else default_value, dtype)


def reshaped(value: Any, shape: Sequence[int], key: str) -> Any:
    """Returns a value of another shape; a NumPy scalar or `bytes` where that is ().

    Raises:
        FeatureValueError: the shape is of another number of elements.
    """
    array = as_array(value)
    try:
        return array.reshape(tuple(shape))[()]
    except ValueError:
        raise FeatureValueError(
            f"{key}: {array.size} values of shape {array.shape} do not have the shape {tuple(shape)}"
        ) from None


def has_elements(item: Any) -> bool:
    """Returns whether an item has any element."""
    if isinstance(item, SparseTensorValue):
        return bool(len(item.values))
    if isinstance(item, RaggedArray):
        return bool(len(item.flat_values))
    return bool(len(item)) if isinstance(item, (list, tuple)) else bool(as_array(item).size)
