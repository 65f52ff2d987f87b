"""Item handlers: from the parsed values of some keys to one item that a model wants.

A handler has `keys`, and `tensors_to_item`, a function from {key: parsed value} to the item. `parsing` says what a
parsed value is. An item of shape () is a NumPy scalar, or `bytes`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.reading.items.values import SparseTensorValue, as_array, dense, flat, has_elements, listed, reshaped

if TYPE_CHECKING:
    from numpy.typing import NDArray

Parsed = Mapping[str, Any]
"""The parsed value of each key."""


class ItemHandler(abc.ABC):
    """Makes one item from the values of some keys. A subclass says which, and how.

    Attributes:
        keys: the keys of the record that it needs.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self.keys = listed(keys)

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the item, from the parsed value of each of the keys."""


class ItemHandlerCallback(ItemHandler):
    """The item is what a function makes of the values."""

    def __init__(self, keys: str | Sequence[str], func: Callable[[dict[str, Any]], Any]) -> None:
        """Takes the function.

        Args:
            keys: the keys, or one key, that it needs.
            func: takes {key: parsed value}, returns the item.
        """
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns what the function returns."""
        return self._func({key: keys_to_tensors[key] for key in self.keys})


class BackupHandler(ItemHandler):
    """The item of one handler, or of another where the first yields no element."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        """Takes the handlers.

        Args:
            handler: is asked first.
            backup: is asked where the item of the first has no element.

        Raises:
            ValueError: one is no ItemHandler.
        """
        for name, given in (("handler", handler), ("backup", backup)):
            if not isinstance(given, ItemHandler):
                raise ValueError(f"{name} must be an ItemHandler, got {given!r}")
        super().__init__([*handler.keys, *backup.keys])
        self._handler = handler
        self._backup = backup

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the item of the one or the other."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return item if has_elements(item) else self._backup.tensors_to_item(keys_to_tensors)


class Tensor(ItemHandler):
    """The value itself, reshaped where a shape is given."""

    def __init__(
        self,
        key: str,
        shape_keys: str | Sequence[str] | None = None,
        shape: Sequence[int] | None = None,
        default_value: Any = 0,
    ) -> None:
        """Takes the keys.

        Args:
            key: where the values are.
            shape_keys: where the shape is: one key that holds all lengths, or one key for each dimension.
            shape: the shape, if it is always the same; one length may be -1.
            default_value: fills the steps of a sequence up to the longest; 0 stands for b'' in strings.

        Raises:
            ValueError: `shape_keys` and `shape` are both given.
        """
        if shape_keys and shape is not None:
            raise ValueError(f"item of {key!r}: got shape_keys={shape_keys!r} and shape={shape!r}; give one of them")
        self._key = key
        self._shape_keys = listed(shape_keys or ())
        self._shape = shape
        self._default_value = default_value
        super().__init__([key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the array; a NumPy scalar or `bytes` where its shape is ()."""
        value = dense(keys_to_tensors[self._key], self._default_value)
        shape = self._shape
        if self._shape_keys:
            shape = np.concatenate([flat(keys_to_tensors[key]) for key in self._shape_keys]).tolist()
        return value if shape is None else reshaped(value, shape, self._key)


class LookupTensor(Tensor):
    """The same as Tensor, and then each of its elements is looked up."""

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
        """Takes the keys and the table.

        Args:
            key: where the values are.
            table: what to look up in. A mapping; or a sequence of names, whose numbers, from 0, are looked up; or an
                object with a method `lookup` from an array (or scalar) to another. Names may be text, for its UTF-8.
            shape_keys: as for Tensor.
            shape: as for Tensor.
            default_value: as for Tensor; fills up before values are looked up.
            unknown: stands for what a mapping or sequence lacks; None: that is an error.

        Raises:
            TypeError: the table is nothing to look up in.
            ValueError: `shape_keys` and `shape` are both given.
        """
        super().__init__(key, shape_keys, shape, default_value)
        self._table = table
        self._entries = None if hasattr(table, "lookup") else _entries(table)
        self._unknown = unknown
        found = np.asarray([*(self._entries or {}).values(), *([] if unknown is None else [unknown])])
        self._dtype = STRING if found.dtype.kind in "US" else found.dtype

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns what was found, of the shape of what was looked up."""
        value = super().tensors_to_item(keys_to_tensors)
        if self._entries is None:
            return self._table.lookup(value)
        array = as_array(value)
        found = [self._entries.get(element, self._unknown) for element in array.ravel().tolist()]
        if None in found:
            missing = array.ravel()[found.index(None)]
            some = ", ".join(map(repr, list(self._entries)[:5]))
            raise FeatureValueError(
                f"{self._key}: {missing!r} is none of the {len(self._entries)} entries of the table ({some} ...); "
                "add it, or say by `unknown` what stands for it"
            )
        return np.array(found, self._dtype).reshape(array.shape)[()]


def _entries(table: Any) -> dict[Any, Any]:
    """Returns what a mapping has for each element, or its number in a sequence."""
    if isinstance(table, (str, bytes)) or not isinstance(table, (Mapping, Sequence)):
        raise TypeError(f"table must be a mapping, a sequence of names or have a method `lookup`, got {table!r}")
    pairs = table.items() if isinstance(table, Mapping) else ((name, number) for number, name in enumerate(table))
    return {name.encode("utf-8") if isinstance(name, str) else name: value for name, value in pairs}


class SparseTensor(ItemHandler):
    """A sparse array from the places and the values of its elements."""

    def __init__(
        self,
        indices_key: str | None = None,
        values_key: str | None = None,
        shape_key: str | None = None,
        shape: Sequence[int] | None = None,
        densify: bool = False,
        default_value: Any = 0,
    ) -> None:
        """Takes the keys.

        Args:
            indices_key: where in the last dimension the elements are; 'indices' if not given. In a sequence, time is
                the dimension before.
            values_key: their values, as many; 'values' if not given.
            shape_key: where the shape is; goes before `shape`.
            shape: the shape, if it is always the same. Without either it is that of the list of indices.
            densify: whether the item is the dense array; otherwise it is a SparseTensorValue.
            default_value: of the other elements of the dense array; 0 stands for b'' in strings.
        """
        self._indices_key = indices_key or "indices"
        self._values_key = values_key or "values"
        self._shape_key = shape_key
        self._shape = shape
        self._densify = densify
        self._default_value = default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns a SparseTensorValue; an array where `densify`."""
        indices, shape = _places(keys_to_tensors[self._indices_key])
        values = flat(keys_to_tensors[self._values_key])
        if len(values) != len(indices):
            raise FeatureValueError(
                f"{self._indices_key} has {len(indices)} values, but {self._values_key} has {len(values)}"
            )
        if self._shape_key:
            shape = flat(keys_to_tensors[self._shape_key]).tolist()
        elif self._shape is not None:
            shape = list(self._shape)
        if len(shape) != indices.shape[1]:
            raise FeatureValueError(f"{self._indices_key}: indices of {indices.shape[1]} dimensions, but shape {shape}")
        item = SparseTensorValue(indices, values, np.array(shape, np.int64))
        if not self._densify:
            return item
        try:
            return item.to_dense(self._default_value)
        except FeatureValueError as error:
            raise FeatureValueError(f"{self._indices_key}: {error}") from None


def _places(indices: Any) -> tuple[NDArray[np.int64], list[int]]:
    """Returns where elements are, of shape (n, dimensions), and the shape of the list of indices."""
    numbers = flat(indices).astype(np.int64)
    if not isinstance(indices, RaggedArray):
        return numbers[:, None], [len(numbers)]
    [lengths] = indices.row_lengths
    times = np.repeat(np.arange(len(lengths)), lengths)
    return np.stack([times, numbers], axis=1), [len(lengths), int(lengths.max(initial=0))]
