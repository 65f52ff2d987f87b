"""Values of numeric features as arrays: what is converted, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureError, FeatureOverflowError, FeatureTypeError, FeatureValueError
from beam_datasets.features.leaf import Codec
from beam_datasets.features.values import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.features.base import Items, Shape
    from beam_datasets.features.tensor import Tensor


def shape_fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Returns whether a shape is one of those that `expected` allows; its None stand for any length.

    >>> shape_fits((3, 2), (None, 2)), shape_fits((3,), (None, 2))
    (True, False)
    """
    return len(shape) == len(expected) and all(want is None or want == got for got, want in zip(shape, expected))


def check_shape(shape: tuple[int, ...], expected: Shape, path: str) -> None:
    """Raises FeatureValueError where a shape does not fit."""
    if shape != expected and not shape_fits(shape, expected):
        raise FeatureValueError(f"{path}: the value has the shape {shape}; the feature has {expected}")


def array_maker(dtype: np.dtype[Any], shape: Shape, path: str) -> Callable[[Any], NDArray[Any]]:
    """Returns the function from a value to an array of a feature's dtype and shape.

    Arrays must have the dtype already. All else is converted as NumPy does: a float for an integer loses its fraction,
    '12' is 12; but a number that does not fit the dtype is refused, also one that would become an infinity, and so are
    None and, for a bool, text.
    """

    def make(value: Any) -> NDArray[Any]:
        if isinstance(value, np.ndarray):
            if value.dtype != dtype:
                hint = f"pass value.astype(np.{dtype.name})"
                raise FeatureValueError(
                    f"{path}: the array has the dtype {value.dtype}; the feature has {dtype}: {hint}"
                )
            array = value
        else:
            array = _convert(value, dtype, path)
        check_shape(array.shape, shape, path)
        return array

    return make


def _convert(value: Any, dtype: np.dtype[Any], path: str) -> NDArray[Any]:
    """Returns a value that is no array (a number, a string, nested lists of these) as an array."""
    if dtype.kind == "b" and isinstance(value, (str, bytes)):
        raise FeatureTypeError(f"{path}: {value!r} is text; expected a bool. Parse it first: any text counts as true")
    try:
        natural = np.asarray(value)
        if natural.dtype.kind == "O" and any(item is None for item in natural.flat):
            raise FeatureTypeError(f"{path}: the value is None or has a None in it; expected {dtype}")
        if natural.dtype.kind == "c" and dtype.kind != "c":
            raise FeatureTypeError(f"{path}: {_short(value)} is complex; expected {dtype}. Store .real and .imag")
        if dtype == np.uint64 and natural.dtype == np.float64:
            natural = _exact(value, natural)
        if dtype.kind in "iu" and natural.dtype.kind in "iuf" and natural.size:
            _check_range(natural, dtype, path)
        with np.errstate(over="ignore", invalid="ignore"):
            array = natural.astype(dtype)
        if dtype.kind not in "biu" and natural.dtype != dtype:
            check_finite(natural, array, path)
        return array
    except FeatureError:
        raise
    except OverflowError as error:
        raise FeatureOverflowError(f"{path}: {_short(value)} does not fit {dtype}: {error}") from error
    except TypeError as error:
        raise FeatureTypeError(f"{path}: {_short(value)} cannot be converted to {dtype}: {error}") from error
    except ValueError as error:
        raise FeatureValueError(f"{path}: {_short(value)} cannot be converted to {dtype}: {error}") from error


def _exact(value: Any, floats: NDArray[Any]) -> NDArray[Any]:
    """Returns integers of which NumPy has made floats, as it does where only some need all 64 bits."""
    items = np.asarray(value, object)
    whole = all(isinstance(item, (int, np.integer)) and 0 <= item < 1 << 64 for item in items.flat)
    return items.astype(np.uint64) if whole else floats


def _check_range(array: NDArray[Any], dtype: np.dtype[Any], path: str) -> None:
    """Refuses numbers that an integer dtype cannot hold, which NumPy would wrap around."""
    if array.dtype == dtype:
        return
    limits = np.iinfo(dtype)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise FeatureValueError(f"{path}: a NaN or infinity cannot be converted to {dtype}")
    low, high = (int(array.min()), int(array.max()))
    if low < limits.min or high > limits.max:
        wrong = low if low < limits.min else high
        raise FeatureOverflowError(f"{path}: {wrong} does not fit {dtype}, which holds {limits.min} to {limits.max}")


def check_finite(wide: NDArray[Any], narrow: NDArray[Any], path: str) -> None:
    """Refuses numbers that became infinite when they were converted; an infinity that was given stays."""
    infinite = np.isinf(narrow)
    if not infinite.any():
        return
    numbers = wide if wide.dtype.kind in "biufc" else wide.astype(np.float64)
    lost = numbers[infinite & ~np.isinf(numbers)]
    if lost.size:
        raise FeatureOverflowError(f"{path}: {lost[0]} does not fit {narrow.dtype}, where it would be an infinity")


def bounds_checker(minimum: Any, maximum: Any, path: str) -> Callable[[NDArray[Any]], None] | None:
    """Returns the function that refuses arrays with values outside [minimum, maximum]; None without bounds."""
    if minimum is None and maximum is None:
        return None

    def check(array: NDArray[Any]) -> None:
        low = minimum is not None and bool(np.any(array < minimum))
        if low or (maximum is not None and bool(np.any(array > maximum))):
            wrong = array.min() if low else array.max()
            raise FeatureValueError(f"{path}: {wrong} is outside the feature's bounds [{minimum}, {maximum}]")

    return check


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number_codec(tensor: Tensor, path: str) -> Codec:
    """Returns how the numbers of a Tensor are packed into a list of floats or integers."""
    dtype, shape = tensor.dtype, tensor.shape
    if dtype.kind not in "biuf":
        raise FeatureValueError(f"{path}: {dtype} cannot be stored as numbers; use encoding='zlib' or 'bytes'")
    make, check = array_maker(dtype, shape, path), bounds_checker(tensor.minimum, tensor.maximum, path)
    make_many = _many_maker(dtype, shape, path)
    lower, lift_all = _lower(dtype, path), lift(dtype, path)
    target = tuple(-1 if length is None else length for length in shape)

    def pack(value: Any) -> NDArray[Any]:
        array = make(value)
        if check:
            check(array)
        return lower(array)

    def pack_many(items: Items) -> NDArray[Any]:
        array = make_many(items)
        if check and array.size:
            check(array)
        return lower(array)

    def unpack(values: Any) -> Any:
        array = lift_all(values)
        if not shape and array.size == 1:
            return array[0]
        return _reshape(array, target, shape, path)

    def unpack_many(values: Any) -> NDArray[Any]:
        if None in shape:
            raise FeatureValueError(f"{path}: items of the shape {shape} in a sequence cannot be told apart when read")
        array = lift_all(values)
        return _reshape(array, (-1, *target), (None, *shape), path) if array.size else array.reshape(0, *target)

    size = size_of(shape)
    return Codec("float" if dtype.kind == "f" else "int64", size, pack, pack_many, unpack, unpack_many)


def _many_maker(dtype: np.dtype[Any], shape: Shape, path: str) -> Callable[[Items], NDArray[Any]]:
    """Returns the function from the items of a sequence to one array of them all."""
    make, make_one = array_maker(dtype, (None, *shape), path), array_maker(dtype, shape, path)

    def make_many(items: Items) -> NDArray[Any]:
        if len(items) == 0:
            return np.empty((0, *shape), dtype)  # type: ignore[arg-type]
        if isinstance(items, np.ndarray):
            if items.dtype != dtype and not shape and items.ndim == 1:  # its items are scalars, which are converted
                return _convert(items, dtype, path)
            return make(items)
        if shape and any(isinstance(item, np.ndarray) for item in items):
            return np.stack([make_one(item) for item in items])
        return make(items)

    return make_many


def _lower(dtype: np.dtype[Any], path: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns the function from an array to the flat array of float32 or int64 that is stored."""
    if dtype == np.uint64:
        return lambda array: np.ascontiguousarray(array).reshape(-1).view(np.int64)
    if dtype == np.float64:

        def lower(array: NDArray[Any]) -> NDArray[Any]:
            with np.errstate(over="ignore", invalid="ignore"):
                narrow = array.astype(np.float32)
            check_finite(array, narrow, path)
            return narrow.reshape(-1)

        return lower
    wide = np.float32 if dtype.kind == "f" else np.int64
    return lambda array: array.astype(wide, copy=False).reshape(-1)


def lift(dtype: np.dtype[Any], path: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns the function from a stored list to a flat array of the feature's dtype."""
    if dtype == np.int64:
        return lambda values: values
    if dtype == np.uint64:
        return lambda values: values.view(np.uint64)
    if dtype.kind in "fb":
        return lambda values: values.astype(dtype, copy=not values.flags.writeable)

    def checked(values: NDArray[Any]) -> NDArray[Any]:
        narrow = values.astype(dtype)
        if not np.array_equal(narrow, values):
            raise FeatureValueError(f"{path}: the record has integers that do not fit {dtype}")
        return narrow

    return checked


def _reshape(array: NDArray[Any], target: tuple[int, ...], shape: Shape, path: str) -> NDArray[Any]:
    try:
        return array.reshape(target)
    except ValueError:
        raise FeatureValueError(
            f"{path}: the record has {array.size} values, which do not have the shape {shape}"
        ) from None
