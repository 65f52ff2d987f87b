"""What is stored under a key of a record, and how it is parsed: lists of fixed and of varying length, and sequences.

A parsed value is an array; of shape () it is a NumPy scalar, or `bytes` for a string. Arrays of strings have the
dtype object. A value that varies in two dimensions, time and values, is a `features.RaggedArray`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureKeyError, FeatureValueError
from beam_datasets.features.dtypes import STRING, dtype_name, to_dtype
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.formats import example, sequence_example

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Span = tuple[int, int]
"""Where a feature begins and ends in a record, in bytes."""

_READERS = {STRING: example.bytes_list, np.dtype(np.int64): example.int_list, np.dtype(np.float32): example.float_list}
_ONE = {
    STRING: example.one_bytes,
    np.dtype(np.int64): lambda data, start, stop: np.int64(example.one_int(data, start, stop)),
    np.dtype(np.float32): example.one_float,
}


@dataclass(frozen=True)
class VarLen:
    """A list of any length, empty where the key is absent.

    In a sequence it has two dimensions, time and values, and as many values at each step as are stored there.

    Attributes:
        dtype: int64, float32 or string, as NumPy, a name or TensorFlow says it; `str` and `bytes` are strings.
    """

    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _stored_dtype(self.dtype))

    def parse(self, key: str, data: bytes, span: Span | None) -> NDArray[Any]:
        """Returns the values at a span of a record, of shape (n,); none where the span is None.

        Raises:
            FeatureValueError: there are values of another dtype.
        """
        values = _read(self.dtype, key, data, span)
        return _as_array(self.dtype, [] if values is None else values)

    def parse_steps(self, key: str, data: bytes, span: Span | None) -> RaggedArray:
        """Returns the values of each time step of the feature list at a span of a record.

        Raises:
            FeatureValueError: there are values of another dtype.
        """
        rows = _read_steps(self.dtype, key, data, span) or []
        return RaggedArray(_joined(self.dtype, rows), (np.array([len(row) for row in rows], np.int64),))


@dataclass(frozen=True)
class FixedLen:
    """A list that has the same number of values in every record.

    Attributes:
        shape: of the parsed value; () for a scalar.
        dtype: int64, float32 or string, as NumPy, a name or TensorFlow says it; `str` and `bytes` are strings.
        default: the value where the key is absent, with as many values as the shape has; None: that is an error.
    """

    shape: Sequence[int]
    dtype: Any
    default: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "dtype", _stored_dtype(self.dtype))
        _ = self._default_array  # checks it

    def parse(self, key: str, data: bytes, span: Span | None) -> Any:
        """Returns the value at a span of a record, of the feature's shape.

        Raises:
            FeatureKeyError: it is absent and has no default.
            FeatureValueError: there are more or fewer values, or they are of another dtype.
        """
        if not self.shape and span is not None:
            try:
                return _ONE[self.dtype](data, span[0], span[1])
            except example.ExampleError:
                pass  # is it absent, or what is wrong with it? That is said below
        values = _read(self.dtype, key, data, span)
        if values is None:
            return self._absent(key)
        if len(values) != self._size:
            raise FeatureValueError(
                f"{key}: the record has {len(values)} values, but shape {self.shape} needs {self._size}. "
                "Is it a VarLen feature?"
            )
        return _as_array(self.dtype, values).reshape(self.shape)

    def _absent(self, key: str) -> Any:
        if self._default_array is None:
            raise FeatureKeyError(f"{key}: the record has no such feature, and no default was given for it")
        return self._default_array.copy() if self.shape else self._default_array[()]

    @functools.cached_property
    def _size(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def _default_array(self) -> NDArray[Any] | None:
        if self.default is None:
            return None
        given = np.asarray(self.default, STRING if self.dtype == STRING else None)
        if given.size != self._size:
            raise ValueError(f"default {self.default!r} has {given.size} values, but shape {self.shape} {self._size}")
        if self.dtype == STRING:
            return _as_array(STRING, [_as_bytes(value) for value in given.ravel()]).reshape(self.shape)
        if not np.can_cast(given.dtype, self.dtype, "same_kind"):
            raise ValueError(f"default {self.default!r} is no {self.dtype}")
        return given.astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class FixedLenSequence:
    """A sequence whose time steps all have the same number of values; parsed to shape (time, *shape).

    Attributes:
        shape: of the value of a time step; () for a scalar.
        dtype: int64, float32 or string, as NumPy, a name or TensorFlow says it; `str` and `bytes` are strings.
        allow_missing: whether a sequence that is absent has no time steps; otherwise that is an error.
    """

    shape: Sequence[int]
    dtype: Any
    allow_missing: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "dtype", _stored_dtype(self.dtype))

    def parse_steps(self, key: str, data: bytes, span: Span | None) -> NDArray[Any]:
        """Returns the values of the feature list at a span of a record, of shape (time, *shape).

        Raises:
            FeatureKeyError: it is absent and may not be.
            FeatureValueError: a step has more or fewer values, or they are of another dtype.
        """
        rows = _read_steps(self.dtype, key, data, span)
        if rows is None and not self.allow_missing:
            raise FeatureKeyError(f"{key}: the record has no such sequence, and allow_missing is False")
        rows = rows or []
        size = math.prod(self.shape)
        for step, row in enumerate(rows):
            if len(row) != size:
                raise FeatureValueError(
                    f"{key}: time step {step} has {len(row)} values, but shape {self.shape} needs {size}. "
                    "Is it a VarLen feature?"
                )
        return _joined(self.dtype, rows).reshape(len(rows), *self.shape)


def _read(dtype: np.dtype[Any], key: str, data: bytes, span: Span | None) -> Any:
    """Returns the list at a span; None where there is none. A feature without any list counts as absent."""
    if span is None or span[0] == span[1]:
        return None
    try:
        return _READERS[dtype](data, span[0], span[1])
    except example.ExampleError as error:
        raise FeatureValueError(f"{key}: {error}; its dtype was given as {dtype_name(dtype)}") from error


def _read_steps(dtype: np.dtype[Any], key: str, data: bytes, span: Span | None) -> list[Any] | None:
    """Returns the list of each time step of the feature list at a span; None where the span is None."""
    if span is None:
        return None
    try:
        part, steps = sequence_example.steps(data, span[0], span[1])
    except example.ExampleError as error:
        raise FeatureValueError(f"{key}: {error}") from error
    read = (_read(dtype, key, part, step) for step in steps)
    return [[] if row is None else row for row in read]


def _joined(dtype: np.dtype[Any], rows: list[Any]) -> NDArray[Any]:
    """Returns the values of all rows, one after the other."""
    if dtype == STRING:
        return _as_array(dtype, [value for row in rows for value in row])
    return np.concatenate([np.asarray(row, dtype) for row in rows]) if rows else np.empty(0, dtype)


def _as_array(dtype: np.dtype[Any], values: Any) -> NDArray[Any]:
    """Returns a one-dimensional array that may be written to."""
    array = np.asarray(values, dtype)
    return array if array.flags.writeable else array.copy()


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if not isinstance(value, bytes):
        raise ValueError(f"the default of a string is text or bytes, got {value!r}")
    return value


def _stored_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of the lists that a record can hold.

    Raises:
        ValueError: a record holds no lists of this dtype.
    """
    found = STRING if dtype is str or dtype is bytes else to_dtype(dtype)
    if found not in _READERS:
        names = ", ".join(map(dtype_name, _READERS))
        raise ValueError(f"a record holds lists of {names}; got {dtype_name(found)}. Cast the item, not the feature")
    return found


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape as a tuple.

    Raises:
        ValueError: a length is not known.
    """
    lengths = tuple(shape)
    if not all(isinstance(length, (int, np.integer)) and length >= 0 for length in lengths):
        raise ValueError(f"shape {lengths} must have lengths of 0 and more; for a length that varies take VarLen")
    return tuple(map(int, lengths))
