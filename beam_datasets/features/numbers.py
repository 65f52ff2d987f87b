"""Conversion of the values of numeric features to arrays, and to the lists of a record.

Values are converted only if the dtype of the feature holds them exactly, unless `allow_rounding` is set.
"""

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
from beam_datasets.features.base import Items
from beam_datasets.features.dtypes import Shape, num_values
from beam_datasets.features.leaf import Codec
from beam_datasets.formats.example import Kind

if TYPE_CHECKING:
    from beam_datasets.features.base import FeatureConnector


FLOATS = frozenset((float, np.float16, np.float32, np.float64))
"""Types of floats that NumPy converts to float64 without rounding."""

INTEGERS = frozenset((int, bool, np.bool_, *(np.dtype(code).type for code in "bhilqBHILQ")))
"""Types of integers, without np.timedelta64, although it is a subclass of np.integer."""

_FLOAT32 = np.dtype(np.float32)
_FIRST_INEXACT_INTEGER = 1 << 53  # the first integer that the next one becomes as a float64


def shape_fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Returns whether the shape of an array is allowed by `expected`, in which None means any length.

    >>> shape_fits((3, 2), (None, 2)), shape_fits((3,), (None, 2))
    (True, False)
    """
    return len(shape) == len(expected) and all(want is None or want == length for length, want in zip(shape, expected))


def check_shape(shape: tuple[int, ...], expected: Shape, path: str, *, num_channels: int = 0) -> None:
    """Raises FeatureValueError if the shape of a value does not fit the shape of its feature.

    Args:
        shape: the shape of the value.
        expected: the shape of the feature; None in it means any length.
        path: the feature, for the error.
        num_channels: number of last dimensions in which the feature cannot have None, for the advice.
    """
    if shape != expected and not shape_fits(shape, expected):
        may_be_none = len(shape) - num_channels
        can_fit = len(shape) == len(expected) and shape_fits(shape[may_be_none:], expected[may_be_none:])
        raise FeatureValueError(
            f"the value has the shape {shape}; the feature has {expected}",
            expected=f"the shape {expected}",
            got=f"{shape}",
            feature=path,
            advice="None in the shape of a feature accepts any length." if can_fit else None,
        )


def check_unmasked(array: object, path: str) -> None:
    """Raises FeatureTypeError for an array with masked items, as the values under the mask would be stored.

    Args:
        array: an array of NumPy.
        path: the feature, for errors.
    """
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise FeatureTypeError(
            "expected an array without masked items. Replace them first by .filled(...)", feature=path
        )


def check_rounding(allow_rounding: Any, dtype: np.dtype[Any]) -> bool:
    """Returns the checked argument `allow_rounding` of a feature.

    Args:
        allow_rounding: the argument.
        dtype: the dtype of the feature.

    Raises:
        ValueError: it is True, and the dtype is not one of floats.
    """
    if boolean("allow_rounding", allow_rounding) and dtype.kind not in "fV":
        raise ValueError(f"allow_rounding=True is for floats, not for {dtype}. Round the values first")
    return bool(allow_rounding)


def array_maker(
    dtype: np.dtype[Any], shape: Shape, path: str, *, allow_rounding: bool = False
) -> Callable[[Any], NDArray[Any]]:
    """Returns the function from a value to an array of a feature's dtype and shape.

    An array must have the dtype already. Other values are converted if the dtype holds them exactly: the converted
    number equals the value, and NaN stays NaN. Text, complex numbers, dates, None and masked items are refused with a
    FeatureError.

    Args:
        dtype: the dtype of the feature.
        shape: the shape of the feature; None in it means any length.
        path: the feature, for errors.
        allow_rounding: whether numbers, also arrays of other float dtypes, are rounded to the nearest float.
    """

    def make(value: Any) -> NDArray[Any]:
        """Returns a value as an array of the dtype and shape."""
        if isinstance(value, np.ndarray):
            check_unmasked(value, path)
            if value.dtype == dtype:
                array = value
            elif allow_rounding and value.dtype.kind == "f":
                array = convert(value, dtype, path, allow_rounding=True)
            else:
                hint = f"pass value.astype({dtype.name!r})"
                raise FeatureValueError(
                    f"the array has the dtype {value.dtype}; the feature has {dtype}: {hint}",
                    expected=f"the dtype {dtype}",
                    got=f"{value.dtype}",
                    feature=path,
                )
        else:
            array = convert(value, dtype, path, allow_rounding=allow_rounding)
        check_shape(array.shape, shape, path)
        return array

    return make


def convert(value: Any, dtype: np.dtype[Any], path: str, *, allow_rounding: bool = False) -> NDArray[Any]:
    """Returns a value as an array of a dtype, which must hold each number exactly.

    Args:
        value: a number, nested lists of numbers, or an array of another dtype.
        dtype: the dtype of the result.
        path: the feature, for errors.
        allow_rounding: whether numbers are rounded to the nearest float of the dtype.

    Raises:
        FeatureError: a number does not fit the dtype, or the value does not consist of numbers.
    """
    try:
        exact = _to_exact_array(value, path)
        if exact.dtype.kind in "mMV":  # whose items may be integers as objects
            raise FeatureTypeError(
                f"{_shorten_repr(value)} is {exact.dtype}; expected {dtype}. Convert it first", feature=path
            )
        return _convert_items(
            exact, dtype, path, "a number that {} holds", _DTYPE_ADVICE, allow_rounding=allow_rounding
        )
    except FeatureError:
        raise
    except OverflowError as error:
        raise FeatureOverflowError(f"{_shorten_repr(value)} does not fit {dtype}: {error}", feature=path) from error
    except TypeError as error:
        raise FeatureTypeError(
            f"{_shorten_repr(value)} cannot be converted to {dtype}: {error}", feature=path
        ) from error
    except (ValueError, ArithmeticError) as error:
        raise FeatureValueError(
            f"{_shorten_repr(value)} cannot be converted to {dtype}: {error}", feature=path
        ) from error


def _to_exact_array(value: Any, path: str) -> NDArray[Any]:
    """Returns numbers as an array whose dtype holds each of them exactly; as an array of objects if no other does.

    `np.asarray` alone would convert large integers beside floats, masked items and missing Arrow values to floats.

    Args:
        value: a number, nested lists of numbers, or an array.
        path: the feature, for errors.
    """
    if isinstance(value, np.ndarray):
        check_unmasked(value, path)
        return value
    types = _collect_types(value)
    if any(issubclass(kind, np.ma.MaskedArray) for kind in types):
        raise FeatureTypeError(
            expected="no masked items", got=_shorten_repr(value), advice="Replace them by .filled(...)", feature=path
        )
    if types <= FLOATS:
        return np.asarray(value)
    if types <= FLOATS | INTEGERS | {np.ndarray}:
        array = np.asarray(value)
        if array.dtype != np.float64 or not (np.abs(array) >= _FIRST_INEXACT_INTEGER).any():
            return array
    return np.asarray(_to_plain_lists(value), object)


def _collect_types(value: Any) -> set[type]:
    """Returns the types of all items of nested lists and tuples; the type of the value itself if it is not a list.

    >>> _collect_types([1, [2]])
    {<class 'int'>}
    """
    if not isinstance(value, (list, tuple)):
        return {type(value)}
    types = set(map(type, value))
    if any(issubclass(kind, (list, tuple)) for kind in types):
        types = set().union(*map(_collect_types, value))
    return types


def _to_plain_lists(value: Any) -> Any:
    """Returns a value with lists in place of arrays, so that missing items of Arrow are None; numbers are unchanged.

    [np.array([1, 2])] becomes [[np.int64(1), np.int64(2)]]. Arrays of other libraries have `tolist` or `as_py`.
    """
    if isinstance(value, (list, tuple)):
        return list(map(_to_plain_lists, value))
    if isinstance(value, np.ndarray):
        return list(map(_to_plain_lists, value)) if value.ndim else value[()]
    if isinstance(value, np.generic):
        return value
    convert = getattr(value, "tolist", None) or getattr(value, "as_py", None)  # of arrays, of scalars of Arrow
    return convert() if callable(convert) else value


def _convert_items(
    numbers: NDArray[Any], dtype: np.dtype[Any], path: str, expected: str, advice: str, *, allow_rounding: bool
) -> NDArray[Any]:
    """Returns an array of numbers of any type as an array of the dtype, which must hold each of them exactly.

    Args:
        numbers: an array of numbers, or of objects that are numbers.
        dtype: the dtype of the result.
        path: the feature, for errors.
        expected: the expectation in the error about an inexact float, with {} for the dtype: "a number that {} holds".
        advice: the advice of that error.
        allow_rounding: whether numbers are rounded to the nearest float of the dtype.

    Raises:
        FeatureError: a number does not fit the dtype, or an item is not a number.
    """
    cast = None if numbers.dtype.kind not in "biuf" else _cast_if_exact(numbers, dtype, allow_rounding=allow_rounding)
    if cast is not None:
        return cast
    items, result = numbers.astype(object), np.empty(numbers.shape, dtype)
    for index in np.ndindex(numbers.shape):
        number, at = _to_comparable(items[index], dtype, path), f" at index {index}" if index else ""
        if dtype.kind in "biu":
            result[index] = _to_integer(number, dtype, path, at)
            continue
        result[index] = rounded = _round_to_float(number, dtype, path)
        if not allow_rounding and number == number and number != rounded:
            _raise_inexact(path, expected.format(dtype), number, rounded, advice, at)
    return result


def _cast_if_exact(numbers: NDArray[Any], dtype: np.dtype[Any], *, allow_rounding: bool) -> NDArray[Any] | None:
    """Returns an array of numbers as an array of the dtype; None unless it certainly holds all of them exactly.

    Args:
        numbers: an array of bools, integers or floats.
        dtype: the dtype of the result.
        allow_rounding: whether rounded floats are allowed; only an overflow to infinity is then inexact.
    """
    if numbers.dtype == dtype or not numbers.size:
        return numbers.astype(dtype, copy=False)
    if dtype.kind in "biu" and numbers.dtype.kind != "b":
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            return None
        low, high = _integer_limits(dtype)
        if int(numbers.min()) < low or int(numbers.max()) > high:
            return None
    is_float = dtype.kind not in "biu"
    is_compared_as_float = is_float and not allow_rounding and numbers.dtype.kind in "iu"
    if is_compared_as_float and max(-int(numbers.min()), int(numbers.max())) >= _FIRST_INEXACT_INTEGER:
        return None  # different numbers would be equal
    with np.errstate(over="ignore", invalid="ignore"):
        result = numbers.astype(dtype)
    if is_float and allow_rounding:
        is_held = ~np.isinf(result) | np.isinf(numbers)
    else:
        is_held = numbers == (
            result.astype(numbers.dtype if numbers.dtype.kind == "f" else np.float64) if is_float else result
        )
    return result if is_held.all() or (is_held | (numbers != numbers)).all() else None


def _to_integer(number: Any, dtype: np.dtype[Any], path: str, at: str) -> int:
    """Returns a number as a Python integer that an integer or bool dtype holds.

    Args:
        number: a number that compares exactly with Python's own.
        dtype: the dtype of the feature.
        path: the feature, for errors.
        at: the position of the number in the value, such as " at index (0, 1)", for errors.

    Raises:
        FeatureError: the number is not an integer, or the dtype does not hold it.
    """
    if number != number or abs(number) == math.inf:
        raise FeatureValueError(f"a NaN or infinity cannot be converted to {dtype}", feature=path)
    low, high = _integer_limits(dtype)
    if dtype.kind == "b" and number not in (0, 1):
        _raise_inexact(path, "a bool (or 0 or 1)", number, True, "Compare it first, as in value > 0", at)
    if not low <= number <= high:
        raise FeatureOverflowError(
            f"{_shorten_repr(number)} does not fit {dtype}, which holds {low} to {high}", feature=path
        )
    if int(number) != number:
        _raise_inexact(path, "an integer", number, int(number), "Round it first, or use a float dtype", at)
    return int(number)


def _round_to_float(number: Any, dtype: np.dtype[Any], path: str) -> float:
    """Returns the float of the dtype that is nearest to a number.

    Raises:
        FeatureOverflowError: a finite number would become an infinity; `path` names the feature.
    """
    nearest = float(number)
    with np.errstate(over="ignore"):
        stored = float(dtype.type(nearest))
    if math.isinf(stored) and number != stored:
        raise FeatureOverflowError(
            f"{_shorten_repr(number)} does not fit {dtype}, where it would be an infinity", feature=path
        )
    return stored


_FLOAT32_ADVICE = "Give the feature encoding='bytes', which keeps all bits, or allow_rounding=True"
_DTYPE_ADVICE = "Pass a value of the dtype, or give the feature allow_rounding=True or a wider dtype if it can have one"


def _to_comparable(item: Any, dtype: np.dtype[Any], path: str) -> Any:
    """Returns an item as a number that compares exactly with Python's numbers: an int, a float, a Decimal, ...

    Args:
        item: an item of an array of objects.
        dtype: the dtype of the feature, for errors.
        path: the feature, for errors.

    Raises:
        FeatureTypeError: the item is not a real number.
    """
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
        raise FeatureTypeError(f"the value is None or has a None in it; expected {dtype}", feature=path)
    if isinstance(item, np.ma.core.MaskedConstant):
        raise FeatureTypeError("expected no masked items. Replace them by .filled(...)", feature=path)
    if isinstance(item, numbers.Complex):
        raise FeatureTypeError(
            f"{_shorten_repr(item)} is complex; expected {dtype}. Store .real and .imag", feature=path
        )
    description = "text" if isinstance(item, (str, bytes)) else type(item).__name__
    raise FeatureTypeError(
        f"{_shorten_repr(item)} is {description}; expected {dtype}. Convert it to a number first", feature=path
    )


def _integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Returns the least and the greatest integer of an integer or bool dtype, such as (0, 255) for uint8."""
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _raise_inexact(path: str, expected: str, number: Any, stored: Any, advice: str, at: str = "") -> NoReturn:
    """Raises FeatureValueError for a number that would change when it is stored.

    Args:
        path: the feature.
        expected: the expected value, such as "an integer".
        number: the number.
        stored: the number that would be stored in its place.
        advice: a sentence with a remedy.
        at: the position of the number in the value, such as " at index (0, 1)".
    """
    number = number.item() if isinstance(number, np.generic) else number
    raise FeatureValueError(
        expected=str(expected),
        got=f"{_shorten_repr(number)}{at}, which would be stored as {stored}",
        advice=str(advice),
        feature=path,
    )


def bounds_checker(minimum: Any, maximum: Any, path: str) -> Callable[[NDArray[Any]], None] | None:
    """Returns the function that raises FeatureValueError for an array with values outside [minimum, maximum].

    Args:
        minimum: the least allowed value; None for no bound.
        maximum: the greatest allowed value; None for no bound. If both bounds are None, the result is None.
        path: the feature, for errors.
    """
    if minimum is None and maximum is None:
        return None

    def check(array: NDArray[Any]) -> None:
        """Raises FeatureValueError if a value of the array is out of bounds."""
        low = minimum is not None and bool(np.any(array < minimum))
        if low or (maximum is not None and bool(np.any(array > maximum))):
            wrong = array.min() if low else array.max()
            raise FeatureValueError(f"{wrong} is outside the feature's bounds [{minimum}, {maximum}]", feature=path)

    return check


def _shorten_repr(value: Any) -> str:
    """Returns the `repr` of a value, cut to at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_number_dtype(dtype: np.dtype[Any], path: str) -> None:
    """Raises FeatureValueError for a dtype of numbers that no list of a record holds, such as bfloat16."""
    if dtype.kind not in "biuf":
        raise FeatureValueError(f"{dtype} cannot be stored as numbers; use encoding='zlib' or 'bytes'", feature=path)


def number_codec(
    dtype: np.dtype[Any],
    shape: Shape,
    path: str,
    *,
    minimum: Any = None,
    maximum: Any = None,
    allow_rounding: bool = False,
    parse_text: bool = False,
) -> Codec:
    """Returns the codec that stores numbers in a list of float32 or int64.

    Args:
        dtype: the dtype of the numbers: of bools, integers or floats.
        shape: the shape of each value; None means any length.
        path: the feature, for errors.
        minimum: the lowest number; None if there is none.
        maximum: the highest number; None if there is none.
        allow_rounding: whether numbers that the dtype or float32 does not hold exactly are rounded.
        parse_text: whether texts are parsed as numbers, and floats for integers truncated.
    """
    check_number_dtype(dtype, path)
    make = array_maker(dtype, shape, path, allow_rounding=allow_rounding)
    make_many = _items_array_maker(dtype, shape, path, allow_rounding=allow_rounding)
    check = bounds_checker(minimum, maximum, path)
    to_list = _list_converter(dtype, path, allow_rounding=allow_rounding)

    def pack(value: Any) -> NDArray[Any]:
        """Returns the numbers of one item for the list."""
        array = make(value)
        if check:
            check(array)
        return to_list(array)

    def pack_many(items: Items) -> NDArray[Any]:
        """Returns the numbers of all items for the list."""
        array = make_many(items)
        if check and array.size:
            check(array)
        return to_list(array)

    if parse_text:
        make, make_many = (_parse_text_before(function, dtype, path) for function in (make, make_many))
    size = num_values(shape)
    kind: Kind = "float" if dtype.kind == "f" else "int64"
    return Codec(
        kind, size, pack, pack_many, *unpackers(stored_list_converter(dtype, path), shape, path), numbers=(dtype, shape)
    )


def _parse_text_before(
    make: Callable[[Any], NDArray[Any]], dtype: np.dtype[Any], path: str
) -> Callable[[Any], NDArray[Any]]:
    """Returns the function that parses numbers in a value, and then calls `make` with it.

    Texts, such as those of a CSV file, are parsed as numbers, and floats in place of integers are truncated. Bools are
    not parsed.

    Args:
        make: the function from numbers, or nested lists of them, to an array.
        dtype: the dtype of the feature.
        path: the feature, for errors.
    """
    number: Any = {"f": float, "b": lambda text: text}.get(dtype.kind, int)

    def parse(value: Any) -> Any:
        """Returns a value, or nested lists, with numbers in place of texts."""
        if isinstance(value, (list, tuple)):
            return list(map(parse, value))
        if isinstance(value, (str, bytes)) and ("_" in value if isinstance(value, str) else b"_" in value):
            raise ValueError("expected a number without '_'")  # Python takes it for a separator
        if isinstance(value, (str, bytes)) or (number is int and isinstance(value, (float, np.floating))):
            return number(value)
        return value

    def make_parsed(value: Any) -> NDArray[Any]:
        """Returns the array of a value whose texts are parsed."""
        try:
            value = parse(value)
        except (ValueError, OverflowError) as error:
            raise FeatureValueError(
                f"{_shorten_repr(value)} cannot be parsed as {dtype}: {error}", feature=path
            ) from error
        return make(value)

    return make_parsed


def _items_array_maker(
    dtype: np.dtype[Any], shape: Shape, path: str, *, allow_rounding: bool
) -> Callable[[Items], NDArray[Any]]:
    """Returns the function from the n items of a sequence to an array of shape (n, *shape).

    Args:
        dtype: the dtype of an item.
        shape: the shape of an item.
        path: the feature, for errors.
        allow_rounding: whether numbers are rounded to the nearest float of the dtype.
    """
    make = array_maker(dtype, (None, *shape), path, allow_rounding=allow_rounding)
    make_one = array_maker(dtype, shape, path, allow_rounding=allow_rounding)

    def make_many(items: Items) -> NDArray[Any]:
        """Returns the array of shape (n, *shape) of n items."""
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
    """Returns the function from an array of the dtype to the flat array of float32 or int64 for the record.

    Args:
        dtype: the dtype of the feature; uint64 is stored as the int64 of the same bits, float64 as float32.
        path: the feature, for errors.
        allow_rounding: whether a float64 is rounded to the nearest float32; an inexact one is an error otherwise.
    """
    if dtype == np.uint64:
        return lambda array: np.ascontiguousarray(array).reshape(-1).view(np.int64)
    if dtype == np.float64:
        expected = "a number that float32, as which it is stored, holds"

        def to_float32(array: NDArray[Any]) -> NDArray[Any]:
            """Returns a float64 array as a flat float32 array."""
            narrow = _convert_items(array, _FLOAT32, path, expected, _FLOAT32_ADVICE, allow_rounding=allow_rounding)
            return narrow.reshape(-1)

        return to_float32
    wide = np.float32 if dtype.kind == "f" else np.int64
    return lambda array: array.astype(wide, copy=False).reshape(-1)


def stored_list_converter(dtype: np.dtype[Any], path: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns the function from a list of a record, an array of float32 or int64, to a flat array of the dtype.

    Raises:
        FeatureValueError: the returned function raises it if an integer does not fit the dtype; `path` names the
            feature.
    """
    if dtype == np.int64:
        return lambda values: values
    if dtype == np.uint64:
        return lambda values: values.view(np.uint64)
    if dtype == np.float32:
        return lambda values: values if values.flags.writeable else values.copy()
    if dtype.kind in "fb":
        return lambda values: values.astype(dtype, copy=not values.flags.writeable)

    def convert_integers(values: NDArray[Any]) -> NDArray[Any]:
        """Returns integers as the narrower dtype, which must hold them."""
        narrow = values.astype(dtype)
        differs = narrow != values
        if differs.any():
            raise FeatureValueError(f"the record has {values[differs][0]}, which does not fit {dtype}", feature=path)
        return narrow

    return convert_integers


def unpackers(
    to_array: Callable[[Any], NDArray[Any]], shape: Shape, path: str
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the functions `unpack` and `unpack_many` of a `leaf.Codec` for items of a shape.

    `unpack` converts the values of a list to one item: an array of the shape, or a scalar for shape (). `unpack_many`
    converts them to all n items, an array of shape (n, *shape).

    Args:
        to_array: the function from the values of a list to a flat array of the feature's dtype.
        shape: the shape of an item; None means any length.
        path: the feature, for errors.

    Raises:
        FeatureValueError: the returned functions raise it if the number of values does not fit the shape.
    """

    def reshape(array: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Returns a flat array in a shape, in which None is inferred."""
        target: Any = [-1 if length is None else length for length in shape] if None in shape else shape
        try:
            return array.reshape(target)
        except ValueError:
            problem = f"which do not have the shape {shape}" if shape else "expected one"
            raise FeatureValueError(f"the record has {array.size} values, {problem}", feature=path) from None

    def unpack(values: Any) -> Any:
        """Returns the array of the item in a list of values; for shape (), the only value."""
        array = to_array(values)
        return array[0] if not shape and len(array) == 1 else reshape(array, shape)

    def unpack_many(values: Any) -> NDArray[Any]:
        """Returns the items of the values of a list, an array of shape (n, *shape)."""
        if None in shape:
            raise FeatureValueError(
                f"items of the shape {shape} in a sequence cannot be distinguished when read", feature=path
            )
        array = to_array(values)
        return reshape(array, (None, *shape)) if array.size else array.reshape(0, *shape)

    return unpack, unpack_many


def iter_connectors(feature: FeatureConnector) -> Iterator[Any]:
    """Yields all connectors of a tree: `feature` itself, then those that it contains; a mapping is not yielded."""
    if isinstance(feature, Mapping):
        children = feature.values()
    else:
        yield feature
        children = vars(feature).values()
    for child in children:
        if hasattr(child, "to_json") or isinstance(child, Mapping):
            yield from iter_connectors(child)


def enable_tfds_conversions(feature: FeatureConnector) -> None:
    """Sets `allow_rounding` and `parse_text` of all numbers in a tree of connectors, in place.

    Values are then converted as in TFDS. The connectors must be new: no encoder of them may exist.
    """
    for each in iter_connectors(feature):
        if hasattr(type(each), "allow_rounding") and each.dtype.kind == "f":
            object.__setattr__(each, "allow_rounding", True)
        if hasattr(type(each), "parse_text"):
            object.__setattr__(each, "parse_text", True)
