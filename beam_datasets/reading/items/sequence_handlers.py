"""Item handlers of boxes and keypoints: one list of coordinates each, or one at each step of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.reading.items.handlers import ItemHandler
from beam_datasets.reading.items.values import SparseTensorValue, dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from beam_datasets.reading.items.handlers import Parsed

_SIDES = ("ymin", "xmin", "ymax", "xmax")


class BoundingBox(ItemHandler):
    """Boxes from the lists of their four sides; shape (num_boxes, 4)."""

    def __init__(self, keys: Sequence[str] | None = None, prefix: str | None = "") -> None:
        """Takes the keys.

        Args:
            keys: the four keys, in the order in which the sides shall stand; ymin, xmin, ymax, xmax if not given.
            prefix: stands before each of them.

        Raises:
            ValueError: there are more or fewer than four keys.
        """
        super().__init__(_with_prefix(self, _SIDES if keys is None else keys, prefix, count=4))

    def tensors_to_item(self, keys_to_tensors: Parsed) -> NDArray[Any]:
        """Returns an array of shape (num_boxes, 4)."""
        values = [keys_to_tensors[key] for key in self.keys]
        sides = [value.flat_values if isinstance(value, RaggedArray) else np.asarray(value) for value in values]
        return _side_by_side(self.keys, sides)


class _CoordinateSequence(ItemHandler):
    """Sequences of the same shape, side by side."""

    def __init__(self, keys: Sequence[str], return_dense: bool, default_value: float) -> None:
        super().__init__(keys)
        self._return_dense = return_dense
        self._default_value = default_value

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns an array of shape (time, most at a step, coordinates), or the SparseTensorValue of it."""
        sides = [keys_to_tensors[key] for key in self.keys]
        whole = _side_by_side(self.keys, [np.asarray(dense(side, self._default_value)) for side in sides])
        if self._return_dense:
            return whole
        given = np.stack([_given(side) for side in sides], axis=-1)
        return SparseTensorValue(np.argwhere(given), whole[given], np.array(whole.shape, np.int64))


class BoundingBoxSequence(_CoordinateSequence):
    """Boxes of each time step, from the sequences of their four sides; shape (time, most boxes, 4)."""

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        prefix: str | None = None,
        return_dense: bool = True,
        default_value: float = -1.0,
    ) -> None:
        """Takes the keys.

        Args:
            keys: the four keys, in the order in which the sides shall stand; ymin, xmin, ymax, xmax if not given.
            prefix: stands before each of them.
            return_dense: whether the item is an array, filled up; otherwise it is a SparseTensorValue.
            default_value: fills up the steps that have fewer boxes than the most.

        Raises:
            ValueError: there are more or fewer than four keys.
        """
        full_keys = _with_prefix(self, _SIDES if keys is None else keys, prefix, count=4)
        super().__init__(full_keys, return_dense, default_value)


class KeypointsSequence(_CoordinateSequence):
    """Keypoints of each time step, from the sequences of their coordinates; shape (time, most keypoints, 2)."""

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        prefix: str | None = None,
        return_dense: bool = True,
        default_value: float = -1.0,
    ) -> None:
        """Takes the keys.

        Args:
            keys: the two keys, in the order in which the coordinates shall stand; y and x if not given.
            prefix: stands before each of them.
            return_dense: whether the item is an array, filled up; otherwise it is a SparseTensorValue.
            default_value: fills up the steps that have fewer keypoints than the most.

        Raises:
            ValueError: there are more or fewer than two keys.
        """
        full_keys = _with_prefix(self, ("y", "x") if keys is None else keys, prefix, count=2)
        super().__init__(full_keys, return_dense, default_value)


class NumBoxesSequence(ItemHandler):
    """How many boxes each time step has; shape (time,), int64."""

    def __init__(self, keys: str | Sequence[str] | None = None, check_consistency: bool = True) -> None:
        """Takes the keys.

        Args:
            keys: of VarLen sequences; the first one's numbers are the item.
            check_consistency: whether it is an error where another one has other numbers.

        Raises:
            ValueError: there is no key.
        """
        if not keys:
            raise ValueError("NumBoxesSequence needs one key at least, got none")
        super().__init__(keys)
        self._check_consistency = check_consistency

    def tensors_to_item(self, keys_to_tensors: Parsed) -> NDArray[np.int64]:
        """Returns the numbers of boxes."""
        first, *others = self.keys
        counts = _counts(first, keys_to_tensors[first])
        for key in others if self._check_consistency else ():
            other = _counts(key, keys_to_tensors[key])
            if not np.array_equal(counts, other):
                raise FeatureValueError(
                    f"{first} has {counts.tolist()} boxes at the time steps, but {key} has {other.tolist()}"
                )
        return counts.copy()


def _counts(key: str, value: Any) -> NDArray[np.int64]:
    if not isinstance(value, RaggedArray):
        raise FeatureValueError(f"{key}: to count the boxes of each time step it must be a VarLen sequence")
    return value.row_lengths[0]


def _given(side: Any) -> NDArray[np.bool_]:
    """Returns whether each element of a side, filled up, was there before."""
    if not isinstance(side, RaggedArray):
        return np.ones(np.shape(side), np.bool_)
    return np.asarray(dense(RaggedArray(np.ones(len(side.flat_values), np.bool_), side.row_lengths), False))


def _side_by_side(keys: list[str], sides: list[NDArray[Any]]) -> NDArray[Any]:
    """Returns arrays of the same shape as one of one more dimension."""
    if len({side.shape for side in sides}) > 1:
        shapes = ", ".join(f"{key} {side.shape}" for key, side in zip(keys, sides))
        raise FeatureValueError(f"the coordinates must have the same shape, but have: {shapes}")
    return np.stack(sides, axis=-1)


def _with_prefix(handler: ItemHandler, keys: Sequence[str], prefix: str | None, *, count: int) -> list[str]:
    if isinstance(keys, str) or len(keys) != count:
        raise ValueError(f"{type(handler).__name__} needs {count} keys, got {keys!r}")
    return [(prefix or "") + key for key in keys]
