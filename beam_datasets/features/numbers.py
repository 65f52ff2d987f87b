"""Values of numeric features as arrays: what is converted, and what is refused."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureError, FeatureOverflowError, FeatureTypeError, FeatureValueError
from beam_datasets.features.base import Items, Shape, num_values
from beam_datasets.features.leaf import Codec
from beam_datasets.formats.example import Kind

if TYPE_CHECKING:
    from beam_datasets.features.tensor import Tensor

FLOATS = frozenset((float, np.float16, np.float32, np.float64))
"""Types of floats that NumPy converts to float64 exactly."""

INTEGERS = frozenset((int, bool, np.bool_, *(np.dtype(code).type for code in "bhilqBHILQ")))
"""Types of integers. np.timedelta64 is none, although it is a subclass of np.integer."""

_FLOAT32 = np.dtype(np.float32)
_FIRST_INEXACT_INTEGER = 1 << 53  # the first integer that the next one becomes as a float64


def shape_fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Returns whether a shape is one of those that `expected` allows; its None mean any length.

    >>> shape_fits((3, 2), (None, 2)), shape_fits((3,), (None, 2))
    (True, False)
    """
    return len(shape) == len(expected) and all(want is None or want == got for got, want in zip(shape, expected))


def check_shape(shape: tuple[int, ...], expected: Shape, path: str) -> None:
    """Raises FeatureValueError where a shape does not fit."""
    if shape != expected and not shape_fits(shape, expected):
        raise FeatureValueError(f"{path}: the value has the shape {shape}; the feature has {expected}")


def check_unmasked(array: Any, path: str) -> None:
    """Refuses a masked array with masked items: what is below the mask would be stored."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise FeatureTypeError(f"{path}: expected an array without masked items. Replace them first by .filled(...)")


def check_rounding(allow_rounding: Any, dtype: np.dtype[Any]) -> bool:
    """Returns the argument `allow_rounding` of a feature of a dtype.

    Raises:
        ValueError: it is not a dtype of floats.
    """
    if boolean("allow_rounding", allow_rounding) and dtype.kind not in "fV":
        raise ValueError(f"allow_rounding=True is for floats, not for {dtype}. Round the values first")
    return bool(allow_rounding)


def array_maker(
    dtype: np.dtype[Any], shape: Shape, path: str, *, allow_rounding: bool = False
) -> Callable[[Any], NDArray[Any]]:
    """Returns the function from a value to an array of a feature's dtype and shape.

    An array must have the dtype already. Other values are converted if the dtype holds them exactly: the stored number
    equals the given one, and NaN stays NaN. Text, complex numbers, dates, None and masked items are refused.

    Args:
        dtype: of the feature.
        shape: of the feature.
        path: of the feature, for errors.
        allow_rounding: whether numbers are rounded to the nearest float of the dtype, arrays of other floats too.
    """

    def make(value: Any) -> NDArray[Any]:
        if isinstance(value, np.ndarray):
            check_unmasked(value, path)
            if value.dtype == dtype:
                array = value
            elif allow_rounding and value.dtype.kind == "f":
                array = convert(value, dtype, path, allow_rounding=True)
            else:
                hint = f"pass value.astype(np.{dtype.name})"
                raise FeatureValueError(
                    f"{path}: the array has the dtype {value.dtype}; the feature has {dtype}: {hint}"
                )
        else:
            array = convert(value, dtype, path, allow_rounding=allow_rounding)
        check_shape(array.shape, shape, path)
        return array

    return make


def convert(value: Any, dtype: np.dtype[Any], path: str, *, allow_rounding: bool = False) -> NDArray[Any]:
    """Returns a number, nested lists of numbers, or an array of another dtype as an array of the dtype."""
    try:
        natural = _to_exact_array(value, path)
        if natural.dtype.kind in "mMV":  # whose items may be integers as objects
            raise FeatureTypeError(
                f"{path}: {_shorten_repr(value)} is {natural.dtype}; expected {dtype}. Convert it first"
            )
        return _convert_items(
            natural, dtype, path, "a number that {} holds", _DTYPE_ADVICE, allow_rounding=allow_rounding
        )
    except FeatureError:
        raise
    except OverflowError as error:
        raise FeatureOverflowError(f"{path}: {_shorten_repr(value)} does not fit {dtype}: {error}") from error
    except TypeError as error:
        raise FeatureTypeError(f"{path}: {_shorten_repr(value)} cannot be converted to {dtype}: {error}") from error
    except (ValueError, ArithmeticError) as error:
        raise FeatureValueError(f"{path}: {_shorten_repr(value)} cannot be converted to {dtype}: {error}") from error


def _to_exact_array(value: Any, path: str) -> NDArray[Any]:
    """Returns numbers as an array that holds each of them exactly; an array of objects where no other does.

    NumPy itself makes floats of large integers beside floats, of masked items, and of what Arrow lacks.
    """
    if isinstance(value, np.ndarray):
        check_unmasked(value, path)
        return value
    types = _collect_types(value)
    if any(issubclass(kind, np.ma.MaskedArray) for kind in types):
        raise FeatureTypeError(
            f"{path}: expected no masked items, got {_shorten_repr(value)}. Replace them by .filled(...)"
        )
    if types <= FLOATS:
        return np.asarray(value)
    if types <= FLOATS | INTEGERS | {np.ndarray}:
        array = np.asarray(value)
        if array.dtype != np.float64 or not (np.abs(array) >= _FIRST_INEXACT_INTEGER).any():
            return array
    return np.asarray(_to_plain_lists(value), object)


def _collect_types(value: Any) -> set[type]:
    """Returns the types of the items of nested lists."""
    if not isinstance(value, (list, tuple)):
        return {type(value)}
    types = set(map(type, value))
    if any(issubclass(kind, (list, tuple)) for kind in types):
        types = set().union(*map(_collect_types, value))
    return types


def _to_plain_lists(value: Any) -> Any:
    """Converts arrays of other libraries to lists, so that missing items become visible."""
    if isinstance(value, (list, tuple)):
        return list(map(_to_plain_lists, value))
    if isinstance(value, np.ndarray):
        return list(map(_to_plain_lists, value)) if value.ndim else value[()]
    if isinstance(value, np.generic):
        return value
    convert = getattr(value, "tolist", None) or getattr(value, "as_py", None)  # of arrays, of scalars of Arrow
    return convert() if callable(convert) else value


def _convert_items(
    given: NDArray[Any], dtype: np.dtype[Any], path: str, expected: str, advice: str, *, allow_rounding: bool
) -> NDArray[Any]:
    """Returns numbers of any types as an array of the dtype, which must hold each of them.

    Args:
        given: an array of numbers, or of objects.
        dtype: of the result.
        path: of the feature, for errors.
        expected: what a float must be, for errors; with {} for the dtype.
        advice: what to do about another float.
        allow_rounding: whether numbers are rounded to the nearest float of the dtype.
    """
    cast = None if given.dtype.kind not in "biuf" else _cast_if_exact(given, dtype, allow_rounding=allow_rounding)
    if cast is not None:
        return cast
    items, result = given.astype(object), np.empty(given.shape, dtype)
    for index in np.ndindex(given.shape):
        number, at = _to_comparable(items[index], dtype, path), f" at index {index}" if index else ""
        if dtype.kind in "biu":
            result[index] = _to_integer(number, dtype, path, at)
            continue
        result[index] = near = _round_to_float(number, dtype, path)
        if not allow_rounding and number == number and number != near:
            _raise_inexact(path, expected.format(dtype), number, near, advice, at)
    return result


def _cast_if_exact(given: NDArray[Any], dtype: np.dtype[Any], *, allow_rounding: bool) -> NDArray[Any] | None:
    """Returns numbers as an array of the dtype; None if it does not hold one of them, or that is not known."""
    if given.dtype == dtype or not given.size:
        return given.astype(dtype, copy=False)
    if dtype.kind in "biu" and given.dtype.kind != "b":
        if given.dtype.kind == "f" and not np.isfinite(given).all():
            return None
        low, high = _integer_limits(dtype)
        if int(given.min()) < low or int(given.max()) > high:
            return None
    is_float = dtype.kind not in "biu"
    is_compared_as_float = is_float and not allow_rounding and given.dtype.kind in "iu"
    if is_compared_as_float and max(-int(given.min()), int(given.max())) >= _FIRST_INEXACT_INTEGER:
        return None  # different numbers would be equal
    with np.errstate(over="ignore", invalid="ignore"):
        result = given.astype(dtype)
    if is_float and allow_rounding:
        is_held = ~np.isinf(result) | np.isinf(given)
    else:
        is_held = given == (
            result.astype(given.dtype if given.dtype.kind == "f" else np.float64) if is_float else result
        )
    return result if is_held.all() or (is_held | (given != given)).all() else None


def _to_integer(number: Any, dtype: np.dtype[Any], path: str, at: str) -> int:
    """Returns a number as an integer that the dtype holds."""
    if number != number or abs(number) == math.inf:
        raise FeatureValueError(f"{path}: a NaN or infinity cannot be converted to {dtype}")
    low, high = _integer_limits(dtype)
    if dtype.kind == "b" and number not in (0, 1):
        _raise_inexact(path, "a bool (or 0 or 1)", number, True, "Compare it first, as in value > 0", at)
    if not low <= number <= high:
        raise FeatureOverflowError(f"{path}: {_shorten_repr(number)} does not fit {dtype}, which holds {low} to {high}")
    if int(number) != number:
        _raise_inexact(path, "an integer", number, int(number), "Round it first, or use a float dtype", at)
    return int(number)


def _round_to_float(number: Any, dtype: np.dtype[Any], path: str) -> float:
    """Returns the float of the dtype that is nearest to a number; never an infinity for another one."""
    near = float(number)
    with np.errstate(over="ignore"):
        stored = float(dtype.type(near))
    if math.isinf(stored) and number != stored:
        raise FeatureOverflowError(
            f"{path}: {_shorten_repr(number)} does not fit {dtype}, where it would be an infinity"
        )
    return stored


_FLOAT32_ADVICE = "Give the feature encoding='bytes', which keeps all bits, or allow_rounding=True"
_DTYPE_ADVICE = "Pass a value of the dtype, or give the feature allow_rounding=True or a wider dtype if it can have one"


def _to_comparable(item: Any, dtype: np.dtype[Any], path: str) -> Any:
    """Returns a number that compares exactly with Python's own."""
    if isinstance(item, np.generic):
        if item.dtype.kind in "biu":
            return int(item)
        if item.dtype.kind == "f" or (item.dtype.kind == "V" and not isinstance(item, np.void)):  # V: of ml_dtypes
            return item if item.dtype.itemsize > 8 else float(item)
    elif isinstance(item, (numbers.Real, Decimal)):
        return item
    elif hasattr(item, "__index__") and not isinstance(item, (type, np.ndarray)):
        return operator.index(item)
    if item is None:
        raise FeatureTypeError(f"{path}: the value is None or has a None in it; expected {dtype}")
    if isinstance(item, np.ma.core.MaskedConstant):
        raise FeatureTypeError(f"{path}: expected no masked items. Replace them by .filled(...)")
    if isinstance(item, numbers.Complex):
        raise FeatureTypeError(f"{path}: {_shorten_repr(item)} is complex; expected {dtype}. Store .real and .imag")
    what = "text" if isinstance(item, (str, bytes)) else type(item).__name__
    raise FeatureTypeError(f"{path}: {_shorten_repr(item)} is {what}; expected {dtype}. Convert it to a number first")


def _integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _raise_inexact(path: str, expected: str, given: Any, stored: Any, advice: str, at: str = "") -> NoReturn:
    given = given.item() if isinstance(given, np.generic) else given
    raise FeatureValueError(
        f"{path}: expected {expected}, got {_shorten_repr(given)}{at}, which would be stored as {stored}. {advice}"
    )


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


def _shorten_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number_codec(tensor: Tensor, path: str) -> Codec:
    """Returns how the numbers of a Tensor are packed into a list of floats or integers."""
    dtype, shape = tensor.dtype, tensor.shape
    if dtype.kind not in "biuf":
        raise FeatureValueError(f"{path}: {dtype} cannot be stored as numbers; use encoding='zlib' or 'bytes'")
    rounding = tensor.allow_rounding
    make = array_maker(dtype, shape, path, allow_rounding=rounding)
    make_many = _items_array_maker(dtype, shape, path, allow_rounding=rounding)
    check = bounds_checker(tensor.minimum, tensor.maximum, path)
    lower = _list_converter(dtype, path, allow_rounding=rounding)

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

    if tensor.parse_text:
        make, make_many = (_parse_text_before(function, dtype, path) for function in (make, make_many))
    size = num_values(shape)
    kind: Kind = "float" if dtype.kind == "f" else "int64"
    return Codec(
        kind, size, pack, pack_many, *unpackers(stored_list_converter(dtype, path), shape, path), numbers=(dtype, shape)
    )


def _parse_text_before(
    make: Callable[[Any], NDArray[Any]], dtype: np.dtype[Any], path: str
) -> Callable[[Any], NDArray[Any]]:
    """Returns `make` for values that may be text of numbers, such as a row of a CSV file has, or floats for integers.

    Floats are truncated. Bools are not parsed.
    """
    number: Any = {"f": float, "b": lambda text: text}.get(dtype.kind, int)

    def parsed(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return list(map(parsed, value))
        if isinstance(value, (str, bytes)) and ("_" in value if isinstance(value, str) else b"_" in value):
            raise ValueError("expected a number without '_'")  # which Python takes for a separator
        if isinstance(value, (str, bytes)) or (number is int and isinstance(value, (float, np.floating))):
            return number(value)
        return value

    def make_parsed(value: Any) -> NDArray[Any]:
        try:
            value = parsed(value)
        except (ValueError, OverflowError) as error:
            raise FeatureValueError(f"{path}: {_shorten_repr(value)} cannot be parsed as {dtype}: {error}") from error
        return make(value)

    return make_parsed


def _items_array_maker(
    dtype: np.dtype[Any], shape: Shape, path: str, *, allow_rounding: bool
) -> Callable[[Items], NDArray[Any]]:
    """Returns the function from the items of a sequence to one array of them all."""
    make = array_maker(dtype, (None, *shape), path, allow_rounding=allow_rounding)
    make_one = array_maker(dtype, shape, path, allow_rounding=allow_rounding)

    def make_many(items: Items) -> NDArray[Any]:
        if len(items) == 0:
            return np.empty((0, *shape), dtype)  # type: ignore[arg-type]
        if isinstance(items, np.ndarray):
            if items.dtype != dtype and not shape and items.ndim == 1:  # its items are scalars, which are converted
                return convert(items, dtype, path, allow_rounding=allow_rounding)
            return make(items)
        if shape and any(isinstance(item, np.ndarray) for item in items):
            return np.stack([make_one(item) for item in items])
        return make(items)

    return make_many


def _list_converter(dtype: np.dtype[Any], path: str, *, allow_rounding: bool) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns the function from an array to the flat array of float32 or int64 that is stored."""
    if dtype == np.uint64:
        return lambda array: np.ascontiguousarray(array).reshape(-1).view(np.int64)
    if dtype == np.float64:
        expected = "a number that float32, as which it is stored, holds"

        def lower(array: NDArray[Any]) -> NDArray[Any]:
            narrow = _convert_items(array, _FLOAT32, path, expected, _FLOAT32_ADVICE, allow_rounding=allow_rounding)
            return narrow.reshape(-1)

        return lower
    wide = np.float32 if dtype.kind == "f" else np.int64
    return lambda array: array.astype(wide, copy=False).reshape(-1)


def stored_list_converter(dtype: np.dtype[Any], path: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns the function from a stored list to a flat array of the feature's dtype."""
    if dtype == np.int64:
        return lambda values: values
    if dtype == np.uint64:
        return lambda values: values.view(np.uint64)
    if dtype == np.float32:
        return lambda values: values if values.flags.writeable else values.copy()
    if dtype.kind in "fb":
        return lambda values: values.astype(dtype, copy=not values.flags.writeable)

    def checked(values: NDArray[Any]) -> NDArray[Any]:
        narrow = values.astype(dtype)
        wrong = narrow != values
        if wrong.any():
            raise FeatureValueError(f"{path}: the record has {values[wrong][0]}, which does not fit {dtype}")
        return narrow

    return checked


def unpackers(
    to_array: Callable[[Any], NDArray[Any]], shape: Shape, path: str
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns `unpack` and `unpack_many` of a codec whose items are of a shape; `to_array` makes flat arrays of values.

    Raises:
        FeatureValueError: the returned functions raise it if there are more or fewer values than the shape has.
    """

    def reshape(array: NDArray[Any], shape: Shape) -> NDArray[Any]:
        target: Any = [-1 if length is None else length for length in shape] if None in shape else shape
        try:
            return array.reshape(target)
        except ValueError:
            wanted = f"which do not have the shape {shape}" if shape else "expected one"
            raise FeatureValueError(f"{path}: the record has {array.size} values, {wanted}") from None

    def unpack(values: Any) -> Any:
        array = to_array(values)
        return array[0] if not shape and len(array) == 1 else reshape(array, shape)

    def unpack_many(values: Any) -> NDArray[Any]:
        if None in shape:
            raise FeatureValueError(
                f"{path}: items of the shape {shape} in a sequence cannot be distinguished when read"
            )
        array = to_array(values)
        return reshape(array, (None, *shape)) if array.size else array.reshape(0, *shape)

    return unpack, unpack_many


def iter_connectors(feature: Any) -> Iterator[Any]:
    """Yields the connectors of a tree, outer ones first; plain mappings are not connectors."""
    if isinstance(feature, Mapping):
        children = feature.values()
    else:
        yield feature
        children = vars(feature).values()
    for child in children:
        if hasattr(child, "to_json") or isinstance(child, Mapping):
            yield from iter_connectors(child)


def enable_tfds_conversions(feature: Any) -> None:
    """Sets `allow_rounding` and `parse_text` of all numbers in a tree of connectors that nobody has used yet."""
    for each in iter_connectors(feature):
        if hasattr(type(each), "allow_rounding") and each.dtype.kind == "f":
            object.__setattr__(each, "allow_rounding", True)
        if hasattr(type(each), "parse_text"):
            object.__setattr__(each, "parse_text", True)
