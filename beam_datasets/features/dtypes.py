"""Names of dtypes in features.json, and the dtypes that features take."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_datasets.errors import MissingDependencyError

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
        ValueError: it is none of these, or a dtype that no feature can have.
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
    raise ValueError(f"no feature has the dtype {name!r}; known are {', '.join([*_BY_NAME, 'bfloat16'])}")
