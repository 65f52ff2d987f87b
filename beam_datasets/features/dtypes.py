"""Dtypes and shapes of features, and their form in features.json."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.arguments import integer
from beam_datasets.errors import MissingDependencyError, did_you_mean
from beam_datasets.formats.proto_json import parse_int64

Shape: TypeAlias = "tuple[int | None, ...]"
"""The length of each dimension; None for any length."""

Json: TypeAlias = "dict[str, Any]"

STRING = np.dtype(object)
"""The dtype of strings (text or bytes), whose decoded values are Python bytes."""

_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_DTYPES_BY_NAME: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NUMBERS} | {
    "string": STRING,
    "object": STRING,
}


def to_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the argument `dtype` of a feature as a NumPy dtype; `STRING` for strings.

    >>> to_dtype("int64"), to_dtype(np.str_) == STRING
    (dtype('int64'), True)

    Args:
        dtype: a NumPy scalar type, an `np.dtype`, a name ('int64', 'string') or a dtype of TensorFlow. Python's own
            `int`, `float`, `str` and `bool` are refused, because their number of bits is not known.

    Raises:
        ValueError: the argument is something else, or a dtype that no feature can have.
        MissingDependencyError: it is 'bfloat16' and the package ml_dtypes is not installed.
    """
    if isinstance(dtype, str):
        return _dtype_by_name(dtype)
    if isinstance(dtype, type) and not issubclass(dtype, np.generic):
        raise ValueError(
            f"{dtype!r} is not a dtype of a feature; write np.int64, np.float32, np.str_ or np.bool_ instead"
        )
    if dtype is None:
        raise ValueError("a feature needs a dtype, such as np.int64, got None")
    try:
        numpy_dtype: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    except TypeError as error:
        name = str(dtype).removeprefix("torch.")
        is_known = name in _DTYPES_BY_NAME or name == "bfloat16"
        hint = f"; write {name!r}" if is_known and "torch" in type(dtype).__module__ else ""
        raise ValueError(f"{dtype!r:.200} is not a dtype of a feature: {error}{hint}") from None
    return STRING if numpy_dtype.kind in "OUS" else _dtype_by_name(numpy_dtype.name)


def is_dtype(dtype: Any) -> bool:
    """Returns whether a value is a dtype of NumPy or TensorFlow, supported or not; False for names such as 'int64'."""
    if isinstance(dtype, type):
        return issubclass(dtype, np.generic)
    return isinstance(dtype, np.dtype) or hasattr(dtype, "as_numpy_dtype")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Returns the name of a dtype in features.json: 'string' for `STRING`, otherwise NumPy's name."""
    return "string" if dtype == STRING else dtype.name


def _dtype_by_name(name: str) -> np.dtype[Any]:
    """Returns the dtype with this name, and imports ml_dtypes only for 'bfloat16'.

    Raises:
        ValueError: no feature can have the dtype.
        MissingDependencyError: the name is 'bfloat16' and the package ml_dtypes is not installed.
    """
    if name in _DTYPES_BY_NAME:
        return _DTYPES_BY_NAME[name]
    if name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise MissingDependencyError("dtype 'bfloat16' needs ml_dtypes: pip install ml_dtypes") from error
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    names = [*_DTYPES_BY_NAME, "bfloat16"]
    meant = _OTHER_NAMES.get(name.lower())
    hint = f" Did you mean {meant!r}?" if meant else did_you_mean(name, names)
    raise ValueError(f"no feature has the dtype {name!r}; known are {', '.join(names)}.{hint}")


_OTHER_NAMES = {
    **dict.fromkeys(("int", "integer", "long", "bigint", "i8"), "int64"),
    **dict.fromkeys(("float", "f4", "single"), "float32"),
    **dict.fromkeys(("double", "f8"), "float64"),
    **dict.fromkeys(("str", "text", "bytes", "utf8", "large_string", "binary"), "string"),
    "boolean": "bool",
    "half": "float16",
}
"""Names of dtypes elsewhere -> the name here."""


_MAX_SIZE = 2**56  # values of an array, of up to 16 bytes each: NumPy counts bytes in 63 bits
_MAX_RANK = 32


def shape_to_json(shape: Shape) -> Json:
    """Returns the form of a shape in features.json: its lengths as strings, '-1' for any length; {} for shape ().

    >>> shape_to_json((None, 2)), shape_to_json(())
    ({'dimensions': ['-1', '2']}, {})
    """
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def drop_unset(options: Json) -> Json:
    """Returns the options without those whose value is None, False, 0 or empty.

    >>> drop_unset({"optional": True, "encoding": None})
    {'optional': True}
    """
    return {name: value for name, value in options.items() if value}


def shape_from_json(shape: Any) -> Shape:
    """Returns the shape of its form in features.json, see `shape_to_json`, or of the plain list of old files.

    >>> shape_from_json({"dimensions": ["-1", "2"]}), shape_from_json([2])
    ((None, 2), (2,))

    Raises:
        ValueError: the value is not a shape, or NumPy does not support arrays of this size.
    """
    lengths = shape.get("dimensions", []) if isinstance(shape, dict) else shape or []
    if not isinstance(lengths, list):
        raise ValueError(f"expected a list of dimensions, got {lengths!r:.100}")
    numbers = map(parse_int64, lengths)
    parsed_shape = tuple(None if number is None or number < 0 else number for number in numbers)
    if math.prod(filter(None, parsed_shape)) > _MAX_SIZE or len(parsed_shape) > _MAX_RANK:
        raise ValueError(f"expected a shape of at most {_MAX_RANK} dimensions and 2**56 values, got {lengths!r:.200}")
    return parsed_shape


def num_values(shape: Shape) -> int | None:
    """Returns the number of values of an array of a shape; None if a length is unknown.

    >>> num_values((2, 3)), num_values(()), num_values((None, 3))
    (6, 1, None)
    """
    return None if None in shape else math.prod(length or 0 for length in shape)


def to_shape(shape: Any) -> Shape:
    """Returns the argument `shape` as a tuple; None is a dimension of any length.

    >>> to_shape([None, 2])
    (None, 2)

    Raises:
        TypeError: the argument is not a tuple or list of integers and None.
    """
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise TypeError(f"shape: expected a tuple of lengths, such as (3,) or (None, 2), got {shape!r}")
    return tuple(None if length is None else integer("a length of the shape", length) for length in shape)
