"""How features.json writes dtypes, numbers and shapes, and the dtypes that features take."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import MissingDependencyError, did_you_mean

if TYPE_CHECKING:
    from beam_datasets.features.base import Json, Shape

STRING = np.dtype(object)
"""What strings (text or bytes) have for a dtype: their values are Python bytes."""

_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_BY_NAME: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NUMBERS} | {"string": STRING, "object": STRING}


def to_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the NumPy dtype of what a feature takes as one.

    NumPy scalar types, `np.dtype`, names ('int64', 'string') and TensorFlow's dtypes are taken; strings are `STRING`.
    Python's own `int`, `float`, `str` and `bool` are not, because they do not say how many bits.

    Raises:
        ValueError: it is something else, or a dtype that no feature can have.
        MissingDependencyError: it is 'bfloat16' and the package ml_dtypes is not installed.
    """
    if isinstance(dtype, str):
        return _named(dtype)
    if isinstance(dtype, type) and not issubclass(dtype, np.generic):
        raise ValueError(
            f"{dtype!r} is not a dtype of a feature; write np.int64, np.float32, np.str_ or np.bool_ instead"
        )
    found: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    return STRING if found.kind in "OUS" else _named(found.name)


def is_dtype(dtype: Any) -> bool:
    """Returns whether `to_dtype` takes it (names apart)."""
    if isinstance(dtype, type):
        return issubclass(dtype, np.generic)
    return isinstance(dtype, np.dtype) or hasattr(dtype, "as_numpy_dtype")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Returns the name that features.json has for a dtype."""
    return "string" if dtype == STRING else dtype.name


def _named(name: str) -> np.dtype[Any]:
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise MissingDependencyError("dtype 'bfloat16' needs ml_dtypes: pip install ml_dtypes") from error
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    known = [*_BY_NAME, "bfloat16"]
    raise ValueError(f"no feature has the dtype {name!r}; known are {', '.join(known)}.{did_you_mean(name, known)}")


_MAX_SIZE = 2**56  # values of an array, of up to 16 bytes each: NumPy counts bytes in 63 bits
_MAX_RANK = 32


def shape_to_json(shape: Shape) -> Json:
    """Returns a shape as features.json has it; unknown lengths are -1.

    >>> shape_to_json((None, 2)), shape_to_json(())
    ({'dimensions': ['-1', '2']}, {})
    """
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def shape_from_json(shape: Any) -> Shape:
    """Returns the shape that the content contains, or of the plain list that old files have.

    Raises:
        ValueError: it is not a shape, or NumPy cannot have arrays of it.
    """
    lengths = shape.get("dimensions", []) if isinstance(shape, dict) else shape or []
    if not isinstance(lengths, list):
        raise ValueError(f"expected a list of dimensions, got {lengths!r:.100}")
    numbers = [int_from_json(length) for length in lengths]
    if math.prod(number for number in numbers if number and number > 0) > _MAX_SIZE or len(numbers) > _MAX_RANK:
        raise ValueError(f"expected a shape of at most {_MAX_RANK} dimensions and 2**56 values, got {lengths!r:.200}")
    return tuple(None if number is None or number < 0 else number for number in numbers)


def int_from_json(value: Any) -> int | None:
    """Returns an integer of 64 bits that may be written as a string, or be missing.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    is_integer = type(value) is int or (type(value) is float and value.is_integer())
    if is_integer or (type(value) is str and re.fullmatch(r"-?[0-9]{1,19}", value)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    raise ValueError(f"expected an integer of 64 bits, got {value!r:.100}")


def size_of(shape: Shape) -> int | None:
    """Returns how many values an array of a shape has; None where a length is unknown.

    >>> size_of((2, 3)), size_of(()), size_of((None, 3))
    (6, 1, None)
    """
    return None if None in shape else math.prod(length or 0 for length in shape)
