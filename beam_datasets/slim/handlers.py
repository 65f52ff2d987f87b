"""Item handlers, which convert the parsed values of several keys to one input of a model.

A handler has `keys`, and `tensors_to_item`, a function from {key: parsed value} to the item; `examples` defines what a
parsed value is. An item of shape () is a NumPy scalar, or `bytes`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureValueError
from beam_datasets.features import image_codec
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.ragged import RaggedArray

Parsed = Mapping[str, Any]
"""The parsed value of each key."""


class SparseTensorValue(NamedTuple):
    """An array of which only some elements are given.

    Attributes:
        indices: positions of the values; shape (n, dimensions), int64.
        values: the values; shape (n,).
        dense_shape: the array's shape; shape (dimensions,), int64.
    """

    indices: NDArray[np.int64]
    values: NDArray[Any]
    dense_shape: NDArray[np.int64]

    def to_dense(self, default_value: Any = 0) -> NDArray[Any]:
        """Returns the array, with the default (0 stands for b'' in strings) for all other elements.

        Raises:
            FeatureValueError: an index is outside of the shape, or given twice.

        >>> SparseTensorValue(np.array([[0], [2]]), np.array([7, 8]), np.array([4])).to_dense(-1)
        array([ 7, -1,  8, -1])
        """
        shape = tuple(self.dense_shape.tolist())
        is_outside = ((self.indices < 0) | (self.indices >= self.dense_shape)).any(axis=1)
        if is_outside.any():
            raise FeatureValueError(
                expected=f"indices in the shape {shape}", got=f"{self.indices[is_outside.argmax()].tolist()}"
            )
        positions = np.ravel_multi_index(tuple(self.indices.T), shape) if len(self.values) else np.empty(0, np.int64)
        distinct, counts = np.unique(positions, return_counts=True)
        if len(distinct) < len(positions):
            twice = np.unravel_index(distinct[counts.argmax()], shape)
            raise FeatureValueError(expected="each index once", got=f"{[int(i) for i in twice]} {counts.max()} times")
        out = _full_array(shape, self.values.dtype, default_value)
        out.reshape(-1)[positions] = self.values
        return out


class ItemHandler(abc.ABC):
    """Makes one item from the values of some keys; base class of handlers.

    Attributes:
        keys: the keys of the record that it needs.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self.keys = _to_list(keys)

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the item, from the parsed value of each of the keys."""


@dataclass(eq=False)
class ItemHandlerCallback(ItemHandler):
    """Makes the item by a function from {key: parsed value}."""

    keys: Any
    func: Callable[[dict[str, Any]], Any]

    def __post_init__(self) -> None:
        super().__init__(self.keys)

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the result of the function."""
        return self.func({key: keys_to_tensors[key] for key in self.keys})


@dataclass(eq=False)
class BackupHandler(ItemHandler):
    """Makes the item by `handler`, or by `backup` if the first one yields no element."""

    handler: ItemHandler
    backup: ItemHandler

    def __post_init__(self) -> None:
        for name, handler in (("handler", self.handler), ("backup", self.backup)):
            if not isinstance(handler, ItemHandler):
                raise ValueError(f"{name} must be an ItemHandler, got {handler!r}")
        super().__init__([*self.handler.keys, *self.backup.keys])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the item of the handler if it has an element, otherwise the item of the backup."""
        item = self.handler.tensors_to_item(keys_to_tensors)
        elements = item.values if isinstance(item, SparseTensorValue) else item
        count = len(elements) if isinstance(elements, (list, tuple)) else flat(elements).size
        return item if count else self.backup.tensors_to_item(keys_to_tensors)


@dataclass(eq=False)
class Tensor(ItemHandler):
    """Returns the value itself, reshaped if a shape is given.

    Attributes:
        key: the key of the values.
        shape_keys: the key of the shape, or a key for each dimension; not together with `shape`.
        shape: the shape, if it is always the same; one length may be -1.
        default_value: pads the steps of a sequence to the longest one; 0 stands for b'' in strings.
    """

    key: str
    shape_keys: str | Sequence[str] | None = None
    shape: Sequence[int] | None = None
    default_value: Any = 0

    def __post_init__(self) -> None:
        if self.shape_keys and self.shape is not None:
            raise ValueError(
                f"item of {self.key!r}: got shape_keys={self.shape_keys!r} and shape={self.shape!r}; give one of them"
            )
        super().__init__([self.key, *_to_list(self.shape_keys or ())])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the array; a NumPy scalar or `bytes` if its shape is ()."""
        value, shape = dense(keys_to_tensors[self.key], self.default_value), self.shape
        if self.shape_keys:
            shape = np.concatenate([flat(keys_to_tensors[key]) for key in self.keys[1:]]).tolist()
        return value if shape is None else _reshape(value, shape, self.key)


class LookupTensor(Tensor):
    """Returns the item of `Tensor`, with each of its elements looked up."""

    def __init__(
        self,
        key: str,
        table: Any,
        shape_keys: str | Sequence[str] | None = None,
        shape: Sequence[int] | None = None,
        default_value: Any = "",
        *,
        unknown: Any = None,
    ) -> None:
        """Validates the arguments; those of Tensor have the same meaning.

        Args:
            key: see Tensor.
            table: a mapping; or a sequence of names, whose numbers, from 0, are looked up; or an object with a method
                `lookup` from an array (or scalar) to another. Names may be text, which means its UTF-8.
            shape_keys: see Tensor.
            shape: see Tensor.
            default_value: see Tensor; pads before values are looked up.
            unknown: the result for a value that a mapping or sequence lacks; None raises an error.
        """
        super().__init__(key, shape_keys, shape, default_value)
        self._table = table
        self._entries = None if hasattr(table, "lookup") else _table_entries(table)
        self._unknown = unknown
        results = np.asarray([*(self._entries or {}).values(), *([] if unknown is None else [unknown])])
        self._dtype = STRING if results.dtype.kind in "US" else results.dtype

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the results of the lookup, in the shape of the values."""
        value = super().tensors_to_item(keys_to_tensors)
        if self._entries is None:
            return self._table.lookup(value)
        elements = flat(value).tolist()
        results = [self._entries.get(element, self._unknown) for element in elements]
        if None in results:
            missing, first_entries = elements[results.index(None)], ", ".join(map(repr, list(self._entries)[:5]))
            raise FeatureValueError(
                expected=f"one of the {len(self._entries)} entries of the table ({first_entries} ...)",
                got=f"{missing!r}",
                advice="Add it, or give `unknown`",
                feature=self.key,
            )
        return np.array(results, self._dtype).reshape(np.shape(value))[()]


def _table_entries(table: Any) -> dict[Any, Any]:
    """Returns {element: value} for a mapping, and {element: number} for a sequence; texts become UTF-8 bytes.

    Raises:
        TypeError: the table is neither, or a text.
    """
    if isinstance(table, (str, bytes)) or not isinstance(table, (Mapping, Sequence)):
        raise TypeError(f"table must be a mapping, a sequence of names or have a method `lookup`, got {table!r}")
    pairs = table.items() if isinstance(table, Mapping) else ((name, number) for number, name in enumerate(table))
    return {name.encode("utf-8") if isinstance(name, str) else name: value for name, value in pairs}


@dataclass(eq=False)
class SparseTensor(ItemHandler):
    """Returns a sparse array from the indices and the values of its elements.

    Attributes:
        indices_key: the key of the indices in the last dimension. In a sequence, time is the dimension before.
        values_key: the key of as many values.
        shape_key: the key of the shape, which takes precedence over `shape`.
        shape: the shape, if it is constant; without either, the shape of the list of indices.
        densify: whether the item is the dense array; otherwise it is a SparseTensorValue.
        default_value: value of the other elements of the dense array; 0 stands for b'' in strings.
    """

    indices_key: str | None = None
    values_key: str | None = None
    shape_key: str | None = None
    shape: Sequence[int] | None = None
    densify: bool = False
    default_value: Any = 0

    def __post_init__(self) -> None:
        shape_keys = [self.shape_key] if self.shape_key else []
        super().__init__([self.indices_key or "indices", self.values_key or "values", *shape_keys])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns a SparseTensorValue; an array if `densify`."""
        index_values, values = keys_to_tensors[self.keys[0]], flat(keys_to_tensors[self.keys[1]])
        indices, shape = flat(index_values).astype(np.int64)[:, None], list(np.shape(index_values))
        if isinstance(index_values, RaggedArray):
            [lengths] = index_values.row_lengths
            indices = np.concatenate([np.repeat(np.arange(len(lengths)), lengths)[:, None], indices], axis=1)
            shape = [len(lengths), int(lengths.max(initial=0))]
        if self.shape_key:
            shape = flat(keys_to_tensors[self.shape_key]).tolist()
        elif self.shape is not None:
            shape = list(self.shape)
        name = self.keys[0]
        if len(values) != len(indices):
            raise FeatureValueError(
                expected=f"{len(indices)} values, one for each index in {name}",
                got=f"{len(values)}",
                feature=self.keys[1],
            )
        if len(shape) != indices.shape[1]:
            raise FeatureValueError(
                expected=f"indices of {len(shape)} dimensions for the shape {shape}",
                got=f"{indices.shape[1]}",
                feature=name,
            )
        item = SparseTensorValue(indices, values, np.array(shape, np.int64))
        try:
            return item.to_dense(self.default_value) if self.densify else item
        except FeatureValueError as error:
            raise FeatureValueError(expected=error.expected, got=error.got, feature=name) from None


@dataclass(eq=False)
class Image(ItemHandler):
    """Decodes an image by its first bytes: JPEG, PNG, BMP, or GIF (with its frames as first dimension).

    If the format is `raw` or `RAW`, the bytes are the pixels themselves, little-endian numbers of the dtype.

    Attributes:
        image_key: the key of the bytes, by default 'image/encoded'.
        format_key: the key of the format, by default 'image/format'; only whether it is raw matters.
        shape: the shape of the item, such as (height, width, channels); None for the shape of the image, or one
            dimension if it is raw.
        channels: 1 for gray, 3 for RGB, 4 for RGB and alpha, 0 for those of the image.
        dtype: dtype of the item. Images are decoded as uint8 and cast, without scaling.
        repeated: whether the key holds any number of images, and the item is a list.
    """

    image_key: str | None = None
    format_key: str | None = None
    shape: Sequence[int] | None = None
    channels: int = 3
    dtype: Any = np.uint8
    repeated: bool = False

    def __post_init__(self) -> None:
        if self.channels not in (0, 1, 3, 4):
            raise ValueError(f"channels must be 0, 1, 3 or 4, got {self.channels!r}")
        self.dtype = np.dtype(getattr(self.dtype, "as_numpy_dtype", self.dtype))
        super().__init__([self.image_key or "image/encoded", self.format_key or "image/format"])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the pixels; a list of arrays if `repeated`."""
        key, format_key = self.keys
        is_raw = any(name in (b"raw", b"RAW") for name in flat(keys_to_tensors[format_key]))
        files = flat(keys_to_tensors[key]).tolist()
        if not self.repeated and len(files) != 1:
            raise FeatureValueError(
                expected="one image",
                got=f"{len(files)}",
                advice="If it has several, make the item `repeated`",
                feature=key,
            )
        images = map(self._raw if is_raw else self._pixels, files)
        shaped = [image if self.shape is None else _reshape(image, self.shape, key) for image in images]
        return shaped if self.repeated else shaped[0]

    def _raw(self, data: bytes) -> NDArray[Any]:
        """Returns the flat array of raw pixels, which are little-endian numbers of the dtype.

        Raises:
            FeatureValueError: the size in bytes is not a multiple of that of the dtype.
        """
        if len(data) % self.dtype.itemsize:
            raise FeatureValueError(
                expected=f"whole numbers of {self.dtype}", got=f"{len(data)} raw bytes", feature=self.keys[0]
            )
        return np.frombuffer(data, self.dtype.newbyteorder("<")).astype(self.dtype)

    def _pixels(self, data: bytes) -> NDArray[Any]:
        """Decodes the bytes of an image file.

        Raises:
            FeatureValueError: the file cannot be decoded, or has another number of channels.
        """
        try:
            pixels = image_codec.decoder(self.channels, np.dtype(np.uint8))(data)
        except ValueError as error:
            raise FeatureValueError(str(error), feature=self.keys[0]) from error
        num_channels = pixels.shape[-1]
        if self.channels not in (0, num_channels):
            raise FeatureValueError(
                expected=f"an image of {self.channels} channels", got=f"{num_channels}", feature=self.keys[0]
            )
        return pixels.astype(self.dtype, copy=False)


def flat(value: Any) -> NDArray[Any]:
    """Returns the elements of a parsed value as a one-dimensional array."""
    value = value.flat_values if isinstance(value, RaggedArray) else value
    return np.array([value], STRING) if isinstance(value, bytes) else np.asarray(value).ravel()


def dense(value: Any, default_value: Any) -> Any:
    """Returns a RaggedArray as an array (time, longest step), padded with `default_value`; other values unchanged."""
    if not isinstance(value, RaggedArray):
        return value
    [lengths] = value.row_lengths
    is_inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    out = _full_array(is_inside.shape, value.flat_values.dtype, default_value)
    out[is_inside] = value.flat_values
    return out


def _full_array(shape: tuple[int, ...], dtype: np.dtype[Any], default_value: Any) -> NDArray[Any]:
    """Returns an array full of the default; for strings, 0 means '', and for numbers, '' means 0.

    Args:
        shape: shape of the array.
        dtype: dtype of the array.
        default_value: the default.

    >>> _full_array((2,), np.dtype(np.int64), "")
    array([0, 0])
    """
    if isinstance(default_value, str):
        default_value = default_value.encode("utf-8")
    is_empty = default_value in (0, b"")
    if not is_empty and isinstance(default_value, bytes) != (dtype == STRING):
        raise FeatureValueError(expected=f"a default_value of dtype {dtype}", got=f"{default_value!r}")
    return np.full(shape, (b"" if dtype == STRING else 0) if is_empty else default_value, dtype)


def _reshape(value: NDArray[Any], shape: Sequence[int], key: str) -> Any:
    """Returns a value in another shape; a NumPy scalar or `bytes` if that is ()."""
    try:
        return flat(value).reshape(tuple(shape))[()]
    except ValueError:
        raise FeatureValueError(
            expected=f"values for the shape {tuple(shape)}",
            got=f"{flat(value).size} of shape {np.shape(value)}",
            feature=key,
        ) from None


def _to_list(names: str | Sequence[str]) -> list[str]:
    """Returns one name, or several, as a list."""
    return [names] if isinstance(names, str) else list(names)


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

    def _stack_sides(self, sides: list[NDArray[Any]]) -> NDArray[Any]:
        """Returns the arrays of the sides, stacked along a new last dimension.

        Raises:
            FeatureValueError: their shapes differ.
        """
        if len({side.shape for side in sides}) > 1:
            shapes = ", ".join(f"{key} {side.shape}" for key, side in zip(self.keys, sides))
            raise FeatureValueError(expected="coordinates of the same shape", got=shapes)
        return np.stack(sides, axis=-1)


class BoundingBox(_Coordinates):
    """Boxes from the lists of their four sides; shape (num_boxes, 4)."""

    def tensors_to_item(self, keys_to_tensors: Parsed) -> NDArray[Any]:
        """Returns an array of shape (num_boxes, 4)."""
        return self._stack_sides([flat(keys_to_tensors[key]) for key in self.keys])


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
        joined_array = self._stack_sides([np.asarray(dense(side, self._default_value)) for side in sides])
        if self._return_dense:
            return joined_array
        is_present = np.stack([_mark_values(side) for side in sides], axis=-1)
        return SparseTensorValue(
            np.argwhere(is_present), joined_array[is_present], np.array(joined_array.shape, np.int64)
        )


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
            ValueError: the key is missing.
        """
        if not keys:
            raise ValueError("NumBoxesSequence needs one key at least, got none")
        super().__init__(keys)
        self._check_consistency = check_consistency

    def tensors_to_item(self, keys_to_tensors: Parsed) -> NDArray[np.int64]:
        """Returns the numbers of boxes."""
        first, *other_keys = self.keys
        counts = _count_step_items(first, keys_to_tensors[first])
        for key in other_keys if self._check_consistency else ():
            other = _count_step_items(key, keys_to_tensors[key])
            if not np.array_equal(counts, other):
                raise FeatureValueError(
                    expected=f"as many boxes at the time steps as {first} has, {counts.tolist()}",
                    got=f"{other.tolist()}",
                    feature=key,
                )
        return counts.copy()


def _count_step_items(key: str, value: Any) -> NDArray[np.int64]:
    """Returns the number of items of each time step.

    Raises:
        FeatureValueError: the value is not a `RaggedArray`.
    """
    if not isinstance(value, RaggedArray):
        raise FeatureValueError(
            expected="a VarLen sequence, to count the boxes of each time step",
            got=f"an array of the shape {np.shape(value)}",
            feature=key,
        )
    return value.row_lengths[0]


def _mark_values(side: Any) -> NDArray[np.bool_]:
    """Returns bools of the shape of `dense(side)`: whether each element is a value of `side`, not padding."""
    if not isinstance(side, RaggedArray):
        return np.ones(np.shape(side), np.bool_)
    return np.asarray(dense(RaggedArray(np.ones(len(side.flat_values), np.bool_), side.row_lengths), False))
