"""Item handlers of boxes and keypoints: one list of coordinates each, or one at each step of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.slim.handlers import ItemHandler, SparseTensorValue, dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from beam_datasets.slim.handlers import Parsed


class _Coordinates(ItemHandler):
    """Lists of coordinates, joined along a new last dimension."""

    _names: ClassVar[tuple[str, ...]] = ("ymin", "xmin", "ymax", "xmax")

    def __init__(self, keys: Sequence[str] | None = None, prefix: str | None = "") -> None:
        """Takes the keys.

        Args:
            keys: a key for each coordinate, in the order of the item: of boxes ymin, xmin, ymax and xmax, which are the
                default, of keypoints y and x.
            prefix: put before each key.

        Raises:
            ValueError: the number of keys differs.
        """
        keys = self._names if keys is None else keys
        if isinstance(keys, str) or len(keys) != len(self._names):
            raise ValueError(f"{type(self).__name__} needs {len(self._names)} keys, got {keys!r}")
        super().__init__([(prefix or "") + key for key in keys])

    def _joined(self, sides: list[NDArray[Any]]) -> NDArray[Any]:
        if len({side.shape for side in sides}) > 1:
            shapes = ", ".join(f"{key} {side.shape}" for key, side in zip(self.keys, sides))
            raise FeatureValueError(f"the coordinates must have the same shape, but have: {shapes}")
        return np.stack(sides, axis=-1)


class BoundingBox(_Coordinates):
    """Boxes from the lists of their four sides; shape (num_boxes, 4)."""

    def tensors_to_item(self, keys_to_tensors: Parsed) -> NDArray[Any]:
        """Returns an array of shape (num_boxes, 4)."""
        values = [keys_to_tensors[key] for key in self.keys]
        return self._joined([value.flat_values if isinstance(value, RaggedArray) else value for value in values])


class BoundingBoxSequence(_Coordinates):
    """Boxes of each time step, from the sequences of their four sides; shape (time, max boxes, 4)."""

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        prefix: str | None = None,
        return_dense: bool = True,
        default_value: float = -1.0,
    ) -> None:
        """Takes the keys.

        Args:
            keys: see BoundingBox.
            prefix: put before each key.
            return_dense: whether the item is a padded array; otherwise it is a SparseTensorValue.
            default_value: pads the time steps to the longest.

        Raises:
            ValueError: the number of keys differs.
        """
        super().__init__(keys, prefix)
        self._return_dense = return_dense
        self._default_value = default_value

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns an array of shape (time, longest step, coordinates), or the SparseTensorValue of it."""
        sides = [keys_to_tensors[key] for key in self.keys]
        whole = self._joined([np.asarray(dense(side, self._default_value)) for side in sides])
        if self._return_dense:
            return whole
        given = np.stack([_is_given(side) for side in sides], axis=-1)
        return SparseTensorValue(np.argwhere(given), whole[given], np.array(whole.shape, np.int64))


class KeypointsSequence(BoundingBoxSequence):
    """Keypoints of each time step, from the sequences of their coordinates; shape (time, max keypoints, 2)."""

    _names: ClassVar[tuple[str, ...]] = ("y", "x")


class NumBoxesSequence(ItemHandler):
    """The number of boxes of each time step; shape (time,), int64."""

    def __init__(self, keys: str | Sequence[str] | None = None, check_consistency: bool = True) -> None:
        """Takes the keys of VarLen sequences.

        Args:
            keys: the item has the numbers of the first one.
            check_consistency: whether it is an error if another one has other numbers.

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


def _is_given(side: Any) -> NDArray[np.bool_]:
    """Returns whether each element of a padded side was there before."""
    if not isinstance(side, RaggedArray):
        return np.ones(np.shape(side), np.bool_)
    return np.asarray(dense(RaggedArray(np.ones(len(side.flat_values), np.bool_), side.row_lengths), False))
