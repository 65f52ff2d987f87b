"""Decoders of tf.train.Example and tf.train.SequenceExample, and the features that describe a record.

A parsed value is an array; of shape () it is a NumPy scalar, or `bytes` for a string. Arrays of strings have the
dtype object. A value that varies in two dimensions, time and values, is a `features.RaggedArray`.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureKeyError, FeatureValueError
from beam_datasets.features.dtypes import STRING, dtype_name, to_dtype
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.formats import example
from beam_datasets.slim.handlers import ItemHandler

Steps = Iterable[Any]
"""The tf.train.Feature messages of the time steps of a sequence."""

_KINDS: dict[np.dtype[Any], example.Kind] = {
    STRING: "bytes",
    np.dtype(np.int64): "int64",
    np.dtype(np.float32): "float",
}


class _Checked:
    """Validates the fields of a feature when it is made: lists of the dtype can be stored, and lengths are known."""

    def __post_init__(self) -> None:
        """Converts `dtype` and `shape` and checks them.

        Raises:
            ValueError: one of them is invalid.
        """
        declared_dtype = vars(self)["dtype"]
        dtype, shape = (
            STRING if declared_dtype is str or declared_dtype is bytes else to_dtype(declared_dtype),
            tuple(vars(self).get("shape", ())),
        )
        if dtype not in _KINDS:
            names = ", ".join(map(dtype_name, _KINDS))
            raise ValueError(
                f"a record holds lists of {names}; got {dtype_name(dtype)}. Cast the item, not the feature"
            )
        if not all(isinstance(length, (int, np.integer)) and length >= 0 for length in shape):
            raise ValueError(f"shape {shape} must have lengths of 0 and more; for a length that varies take VarLen")
        object.__setattr__(self, "dtype", dtype)
        if "shape" in vars(self):
            object.__setattr__(self, "shape", tuple(map(int, shape)))


@dataclass(frozen=True)
class VarLen(_Checked):
    """A list of any length, empty where the key is absent.

    In a sequence it has two dimensions, time and values.

    Attributes:
        dtype: int64, float32 or string: a NumPy or TensorFlow dtype, or its name; `str` and `bytes` mean string.
    """

    dtype: Any

    def parse(self, key: str, feature: Any) -> NDArray[Any]:
        """Returns the values of a Feature message, of shape (n,); no values if it is None."""
        values = _read_list(self.dtype, key, feature)
        return np.asarray([] if values is None else values, self.dtype)

    def parse_steps(self, key: str, steps: Steps | None) -> RaggedArray:
        """Returns the values of each time step, of shape (time steps, None).

        Args:
            key: key of the feature list in the record, for errors.
            steps: the tf.train.Feature message of each time step; None if the key is absent, which means no time steps.
        """
        rows = _read_steps(self.dtype, key, steps)
        return RaggedArray(_concatenate_rows(self.dtype, rows), (np.array([len(row) for row in rows], np.int64),))


@dataclass(frozen=True)
class FixedLen(_Checked):
    """A list that has the same number of values in every record.

    Attributes:
        shape: shape of the parsed value; () for a scalar.
        dtype: see `VarLen`.
        default: the value if the key is absent, with as many values as the shape; None: an absent key is an error.
    """

    shape: Sequence[int]
    dtype: Any
    default: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._default_array  # validates it

    def parse(self, key: str, feature: Any) -> Any:
        """Returns the value of a Feature message, of the feature's shape.

        Raises:
            FeatureKeyError: it is absent, and there is no default.
            FeatureValueError: its list is of another kind, or has another number of values.
        """
        values = _read_list(self.dtype, key, feature)
        if values is None:
            if self._default_array is None:
                raise FeatureKeyError(expected="a value, as it has no default", got="a record without it", feature=key)
            return self._default_array.copy() if self.shape else self._default_array[()]
        _check_num_values(key, "the record", len(values), self.shape)
        return np.asarray(values, self.dtype).reshape(self.shape)[()]

    @functools.cached_property
    def _default_array(self) -> NDArray[Any] | None:
        """The default as an array of the feature's shape and dtype; None if there is no default.

        Raises:
            ValueError: the default has another number of values, or a dtype that does not fit.
        """
        if self.default is None:
            return None
        default_array, size = np.asarray(self.default, STRING if self.dtype == STRING else None), math.prod(self.shape)
        if default_array.size != size:
            raise ValueError(f"default {self.default!r} has {default_array.size} values, but shape {self.shape} {size}")
        if self.dtype == STRING:
            return np.asarray([_text_to_bytes(value) for value in default_array.ravel()], STRING).reshape(self.shape)
        if not np.can_cast(default_array.dtype, self.dtype, "same_kind"):
            raise ValueError(f"default {self.default!r} does not have the dtype {self.dtype}")
        return default_array.astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class FixedLenSequence(_Checked):
    """A sequence whose time steps all have the same number of values; parsed to shape (time, *shape).

    Attributes:
        shape: shape of the value of a time step; () for a scalar.
        dtype: see `VarLen`.
        allow_missing: whether an absent sequence has no time steps; otherwise it is an error.
    """

    shape: Sequence[int]
    dtype: Any
    allow_missing: bool = False

    def parse_steps(self, key: str, steps: Steps | None) -> NDArray[Any]:
        """Returns the values of all time steps, of shape (time, *shape).

        Raises:
            FeatureKeyError: the sequence is absent, and `allow_missing` is False.
            FeatureValueError: the list of a time step is of another kind, or has another number of values.
        """
        if steps is None and not self.allow_missing:
            raise FeatureKeyError(
                expected="a sequence, as allow_missing is False", got="a record without it", feature=key
            )
        rows = _read_steps(self.dtype, key, steps)
        for step, row in enumerate(rows):
            _check_num_values(key, f"time step {step}", len(row), self.shape)
        return _concatenate_rows(self.dtype, rows).reshape(len(rows), *self.shape)


class DataDecoder(Protocol):
    """Decoder of the records of a specification."""

    def list_items(self) -> list[str]:
        """Returns the names of the items."""

    def decode(self, data: bytes, items: Sequence[str] | None = None) -> list[Any]:
        """Returns items of a record in the order of `items`; all if None."""


class _Decoder(abc.ABC):
    """Decodes records with handlers."""

    def __init__(self, items_to_handlers: Mapping[str, ItemHandler], features: Mapping[str, Any]) -> None:
        for item, handler in items_to_handlers.items():
            if missing := [key for key in handler.keys if key not in features]:
                raise ValueError(
                    f"item {item!r} needs the keys {_quote_names(missing)}, which have no feature; "
                    f"there are features of {_quote_names(features) or 'none'}"
                )
        self._handlers = dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """Returns the names of the items."""
        return list(self._handlers)

    def decode(self, data: bytes, items: Sequence[str] | None = None) -> list[Any]:
        """Returns items of a record in the order of `items`; all if None. Parses no other keys than they need.

        Raises:
            ExampleError: the record is not the protocol buffer that the decoder reads.
            FeatureError: a value that is needed is missing, or does not fit.
            ValueError: the item does not exist.
        """
        parse = self._parser(data)
        handlers = self._handlers
        if items is None:
            items = list(handlers)
        check_items(items, handlers)
        values: dict[str, Any] = {}
        results = []
        for item in items:
            handler = handlers[item]
            for key in handler.keys:
                if key not in values:
                    values[key] = parse(key)
            results.append(handler.tensors_to_item({key: values[key] for key in handler.keys}))
        return results

    @abc.abstractmethod
    def _parser(self, data: bytes) -> Callable[[str], Any]:
        """Returns a function from a key to its parsed value in a record."""


class TFExampleDecoder(_Decoder):
    """Decodes records that are a tf.train.Example.

    >>> from beam_datasets.slim import Tensor
    >>> decoder = TFExampleDecoder({"n": FixedLen((), "int64")}, {"number": Tensor("n")})
    >>> [number] = decoder.decode(example.serialize({"n": [7]}))
    >>> int(number)
    7
    """

    def __init__(
        self, keys_to_features: Mapping[str, FixedLen | VarLen], items_to_handlers: Mapping[str, ItemHandler]
    ) -> None:
        """Creates a decoder of the parser of each key's value, and the handler of each item.

        Raises:
            TypeError: a feature is neither FixedLen nor VarLen.
            ValueError: a handler needs a key that has no feature.
        """
        _check_features(keys_to_features, "keys_to_features", (FixedLen, VarLen))
        super().__init__(items_to_handlers, keys_to_features)
        self._features = dict(keys_to_features)

    def _parser(self, data: bytes) -> Callable[[str], Any]:
        """Returns the function from a key to the value of its feature in a serialized `tf.train.Example`."""
        feature_map = example.parse_message("Example", data).features.feature
        features = self._features
        return lambda key: features[key].parse(key, feature_map.get(key))


class TFSequenceExampleDecoder(_Decoder):
    """Decodes records that are a tf.train.SequenceExample."""

    def __init__(
        self,
        keys_to_context_features: Mapping[str, FixedLen | VarLen],
        keys_to_sequence_features: Mapping[str, FixedLenSequence | VarLen],
        items_to_handlers: Mapping[str, ItemHandler],
    ) -> None:
        """Creates a decoder.

        Args:
            keys_to_context_features: key of the context -> parser of its value.
            keys_to_sequence_features: key of the sequences -> parser of the values of all time steps.
            items_to_handlers: name of an item -> handler that makes the item from the values of its keys.

        Raises:
            TypeError: a feature is of a kind that is not allowed there.
            ValueError: a key is in the context and in the sequences, or a handler needs a key that has no feature.
        """
        _check_features(keys_to_context_features, "keys_to_context_features", (FixedLen, VarLen))
        _check_features(keys_to_sequence_features, "keys_to_sequence_features", (FixedLenSequence, VarLen))
        if both := sorted(set(keys_to_context_features) & set(keys_to_sequence_features)):
            raise ValueError(
                f"keys {_quote_names(both)} are in the context and in the sequences; an item could mean either"
            )
        super().__init__(items_to_handlers, {**keys_to_context_features, **keys_to_sequence_features})
        self._context = dict(keys_to_context_features)
        self._sequences = dict(keys_to_sequence_features)

    def _parser(self, data: bytes) -> Callable[[str], Any]:
        """Returns a function from a key of the context or of the sequences to its parsed value in a record."""
        record = example.parse_message("SequenceExample", data)
        context, lists = record.context.feature, record.feature_lists.feature_list

        def parse(key: str) -> Any:
            """Returns the value of a key: of the context, or of all time steps of a sequence."""
            if key not in self._context:
                return self._sequences[key].parse_steps(key, lists[key].feature if key in lists else None)
            return self._context[key].parse(key, context.get(key))

        return parse


def check_items(items: Sequence[str], item_names: Collection[str]) -> None:
    """Raises TypeError if the items are one name, and ValueError if one of them is not known."""
    if isinstance(items, str):
        raise TypeError(f"items must be a list of names, got the text {items!r}; write [{items!r}]")
    if missing := [item for item in items if item not in item_names]:
        raise ValueError(f"no item {_quote_names(missing)}; known are {_quote_names(item_names) or 'none'}")


def _check_features(features: Mapping[str, Any], name: str, kinds: tuple[type, ...]) -> None:
    """Checks that each feature is an instance of one of the classes.

    Args:
        features: key -> feature.
        name: name of the argument, for errors.
        kinds: the classes.

    Raises:
        TypeError: a feature is of another class.
    """
    for key, feature in features.items():
        if not isinstance(feature, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name}[{key!r}] must be a {expected}, got {feature!r}")


def _quote_names(names: Collection[str]) -> str:
    """Returns names in quotes: "'a', 'b'"; "" without names."""
    return ", ".join(map(repr, names))


def _read_list(dtype: np.dtype[Any], key: str, feature: Any) -> list[bytes] | NDArray[Any] | None:
    """Returns the list of a Feature message; None if there is none. A feature without any list counts as absent.

    Args:
        dtype: dtype of the values: int64, float32 or string.
        key: key of the feature, for errors.
        feature: the tf.train.Feature message; None if it is absent.
    """
    if feature is None or feature.WhichOneof("kind") is None:
        return None
    try:
        return example.list_of_message(feature, _KINDS[dtype])
    except example.ExampleError as error:
        raise FeatureValueError(f"{error}; its dtype was given as {dtype_name(dtype)}", feature=key) from error


def _read_steps(dtype: np.dtype[Any], key: str, steps: Steps | None) -> list[Any]:
    """Returns the list of values of each time step; [] without steps.

    Args:
        dtype: dtype of the values: int64, float32 or string.
        key: key of the feature list, for errors.
        steps: the tf.train.Feature message of each time step; None if the feature list is absent.
    """
    rows = [_read_list(dtype, key, step) for step in steps or ()]
    return [[] if row is None else row for row in rows]


def _check_num_values(key: str, owner: str, count: int, shape: Sequence[int]) -> None:
    """Checks that a number of values fits a shape.

    Args:
        key: key of the feature, for errors.
        owner: the example or time step that has the values, for errors.
        count: the number of values.
        shape: the shape.

    Raises:
        FeatureValueError: it does not fit.
    """
    if count != math.prod(shape):
        raise FeatureValueError(
            expected=f"{math.prod(shape)} values for the shape {shape}",
            got=f"{count} in {owner}",
            advice="If their number varies, give a VarLen",
            feature=key,
        )


def _concatenate_rows(dtype: np.dtype[Any], rows: list[Any]) -> NDArray[Any]:
    """Returns the values of all rows, one after the other."""
    return np.concatenate([np.empty(0, dtype), *(np.asarray(row, dtype) for row in rows)])


def _text_to_bytes(value: Any) -> bytes:
    """Returns a text as UTF-8 bytes, and bytes unchanged.

    Raises:
        ValueError: it is another value.
    """
    if isinstance(value, str):
        return value.encode("utf-8")
    if not isinstance(value, bytes):
        raise ValueError(f"the default of a string is text or bytes, got {value!r}")
    return value
