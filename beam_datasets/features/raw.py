"""Codecs of values that are stored as lists of bytes: strings, and arrays as their bytes."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import limits
from beam_datasets.arguments import shown
from beam_datasets.errors import FeatureTypeError, FeatureValueError, InputError
from beam_datasets.features.dtypes import Shape, num_values
from beam_datasets.features.leaf import Codec
from beam_datasets.features.numbers import check_shape, check_unmasked, unpackers


def to_bytes(value: Any, path: str) -> bytes:
    """Returns text as UTF-8; bytes, bytearrays and memoryviews of bytes as `bytes`.

    Args:
        value: text or bytes, or an array of shape () with such a value.
        path: the feature, for errors.

    Raises:
        FeatureValueError: the text is not valid Unicode, or the value is masked.
        FeatureTypeError: the value is neither text nor bytes.

    >>> to_bytes(np.array("ab"), "name")
    b'ab'
    """
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise FeatureValueError(f"the text is not valid Unicode: {error}", feature=path) from error
    if isinstance(value, np.ndarray) and value.ndim == 0:
        check_unmasked(value, path)
        return to_bytes(value.item(), path)
    if isinstance(value, (bytes, bytearray)) or (isinstance(value, memoryview) and value.format in "Bbc"):
        return bytes(value)
    raise FeatureTypeError(f"{shown(value)} is {type(value).__name__}; expected str or bytes", feature=path)


def to_object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """Returns a 1-d object array with one element per value, even if the values are lists or arrays.

    >>> to_object_array([[1, 2], [3]])
    array([list([1, 2]), list([3])], dtype=object)
    """
    array = np.empty(len(values), object)
    if len(values) == 0 or isinstance(values[0], (bytes, str)):
        array[:] = values
    else:
        for i, value in enumerate(values):  # NumPy would look into lists and arrays for further dimensions
            array[i] = value
    return array


def to_str(data: bytes, path: str) -> str:
    """Returns the text of bytes in UTF-8.

    Args:
        data: the bytes.
        path: the feature, for errors.

    Raises:
        FeatureValueError: the bytes are not valid UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        decoders = "bd.decode.SkipDecoding()"
        for name in reversed(path.split("/")):
            decoders = f"{{{name!r}: {decoders}}}"
        raise FeatureValueError(
            expected="text in UTF-8",
            got=f"{data!r:.60} ({error.reason} at byte {error.start})",
            advice=f"Read this feature as bytes, decoders={decoders}, or all without text='str'",
            feature=path,
        ) from None


def string_codec(shape: Shape, path: str, *, as_str: bool = False) -> Codec:
    """Returns the codec of arrays of strings, whose list contains the strings as bytes in C order.

    Args:
        shape: the shape of a value; () for single strings.
        path: the feature, for errors.
        as_str: whether strings are unpacked to `str` instead of `bytes`.
    """

    def pack(value: Any) -> list[bytes]:
        """Returns the strings of a value as bytes, in C order."""
        if not shape:
            return [to_bytes(value, path)]
        try:
            array = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
        except ValueError as error:
            raise FeatureValueError(f"the value has no shape: {error}", feature=path) from error
        check_shape(array.shape, shape, path)
        return [to_bytes(item, path) for item in array.reshape(-1).tolist()]

    def to_str_array(values: Sequence[bytes]) -> NDArray[np.object_]:
        """Returns a flat array of the texts of UTF-8 bytes."""
        return to_object_array([to_str(data, path) for data in values])

    unpack = unpackers(to_str_array if as_str else to_object_array, shape, path)
    if shape:
        return Codec("bytes", num_values(shape), pack, None, *unpack)
    from_bytes = (lambda data: to_str(data, path)) if as_str else bytes
    return Codec("bytes", 1, pack, lambda items: [to_bytes(item, path) for item in items], *unpack, from_bytes)


def one_value_codec(
    pack: Callable[[Any], bytes],
    unpack: Callable[[bytes], Any],
    path: str,
    empty: NDArray[Any] | None = None,
    join: Callable[[list[bytes]], NDArray[Any] | None] | None = None,
) -> Codec:
    """Returns the codec of items that are stored as one value of bytes each, such as images.

    Args:
        pack: the function from an item to its bytes.
        unpack: the function from the bytes to the item.
        path: the feature, for errors.
        empty: an array whose copy is the decoded form of no items; None for an empty array of objects.
        join: the function from the bytes of many items to one array of them, or None if they do not fit it; if it is
            given, the bytes are those of the items' numbers.
    """

    def unpack_one(values: Any) -> Any:
        """Returns the item that a list of one value contains.

        Raises:
            FeatureValueError: the list has another number of values.
        """
        if len(values) != 1:
            raise FeatureValueError(f"the record has {len(values)} values; expected one", feature=path)
        return unpack(values[0])

    def unpack_many(values: list[bytes]) -> Any:
        """Returns the items of a list of values, as one array if they have one shape."""
        if not values and empty is not None:
            return empty.copy()
        joined = join(values) if join and values else None
        return stack_items([unpack(value) for value in values]) if joined is None else joined

    return Codec("bytes", 1, lambda value: [pack(value)], None, unpack_one, unpack_many, unpack, is_joined=bool(join))


def stack_items(items: list[Any]) -> Any:
    """Returns decoded items as one array if possible: bytes as an array of objects, arrays of one shape stacked.

    Other items are returned as the same list.

    >>> stack_items([np.int64(1), np.int64(2)]), stack_items([np.zeros(1), np.zeros(2)])
    (array([1, 2]), [array([0.]), array([0., 0.])])
    """
    if not items or isinstance(items[0], bytes):
        return to_object_array(items)
    if isinstance(items[0], (np.ndarray, np.generic)) and len({np.shape(item) for item in items}) == 1:
        return np.stack(items)
    return items


def array_codec(
    dtype: np.dtype[Any],
    shape: Shape,
    path: str,
    make: Callable[[Any], NDArray[Any]],
    check: Callable[[NDArray[Any]], None] | None,
    *,
    compress: bool,
) -> Codec:
    """Returns the codec of arrays that are stored as their little-endian bytes in C order.

    Args:
        dtype: the dtype of a value.
        shape: the shape of a value.
        path: the feature, for errors.
        make: the function from a value to an array of the dtype and shape.
        check: the function that raises an error for a non-empty array with invalid values; None for no check.
        compress: whether the bytes are compressed with zlib.
    """
    little, record = _little_endian(dtype), library_recorder()

    def pack(value: Any) -> bytes:
        """Returns the bytes of a value, compressed if `compress` is set."""
        array = make(value)
        if check and array.size:
            check(array)
        data = array.astype(little, copy=False).tobytes()
        if not compress:
            return data
        if num_values(shape) is None:
            check_num_values(array.size, path)
        record(f"zlib {zlib.ZLIB_RUNTIME_VERSION}")
        return zlib.compress(data)

    unpack = array_unpacker(dtype, shape, path, compress=compress)
    join = None if compress else functools.partial(_join_arrays, shape=shape, dtype=dtype)
    return one_value_codec(pack, unpack, path, build_empty_items(shape, dtype), join)


def _join_arrays(values: list[bytes], *, shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Returns the array of shape (n, ...) of n arrays of one shape that are stored as their little-endian bytes.

    One conversion of all bytes takes a small part of the time of one conversion for each array.

    Args:
        values: the bytes of each array, at least one.
        shape: the shape of an array, with at most one None, which is inferred from the number of bytes.
        dtype: the dtype of the arrays.

    Returns:
        None if the arrays have different shapes, or the bytes do not fit the shape.
    """
    if len(set(map(len, values))) > 1:
        return None
    target = (-1 if length is None else length for length in shape)
    data = bytearray().join(values)  # of a bytearray, the array is writable
    try:
        return np.frombuffer(data, _little_endian(dtype)).reshape(len(values), *target).astype(dtype, copy=False)
    except ValueError:
        return None


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the little-endian form of an integer or float dtype; other dtypes are unchanged."""
    return np.dtype("<" + dtype.str[1:]) if dtype.kind in "iuf" else dtype


def array_unpacker(
    dtype: np.dtype[Any], shape: Shape, path: str, *, compress: bool, is_declared: bool = True
) -> Callable[[bytes], Any]:
    """Returns the function from stored bytes to a writable array, or to a NumPy scalar if the shape is ().

    Args:
        dtype: the dtype of the array; the bytes are little-endian.
        shape: the shape of the array, with at most one None, which is inferred from the number of bytes.
        path: the feature, for errors.
        compress: whether the bytes are compressed with zlib. If a record decides the length, it is limited: a few bytes
            can decompress to more than fits in memory.
        is_declared: whether the feature declares the shape; False if it is read from a record.

    Raises:
        FeatureValueError: the returned function raises it if the bytes do not fit the dtype and shape, or are too many.
    """
    count, little = num_values(shape), _little_endian(dtype)
    size = None if count is None else count * dtype.itemsize
    has_limit = compress and not (is_declared and count is not None)
    target = tuple(-1 if length is None else length for length in shape)

    def unpack(data: bytes) -> Any:
        """Returns the array of stored bytes."""
        array_bytes = data
        if has_limit:
            array_bytes = _decompress_limited(data, count, dtype.itemsize, path)
        elif compress:
            array_bytes = decompress(data, size, path)
        try:
            array = np.frombuffer(array_bytes, little).reshape(target).astype(dtype)
        except ValueError:
            raise FeatureValueError(
                f"{len(array_bytes)} bytes are not an array of {dtype} of the shape {shape}", feature=path
            ) from None
        return array if shape else array[()]

    return unpack


def build_empty_items(shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns an array of zero items of a shape: its shape is (0, *shape), where unknown lengths are 0.

    >>> build_empty_items((None, 3), np.dtype(np.int64)).shape
    (0, 0, 3)
    """
    return np.empty((0, *(length or 0 for length in shape)), dtype)


_NO_LIMIT = 1 << 62  # a shape in a record may claim more bytes than zlib accepts as a limit


def decompress(data: bytes, size: int | None, path: str, problem: str = "") -> bytes:
    """Returns the decompressed bytes of zlib data.

    Args:
        data: the compressed bytes.
        size: the greatest number of bytes after decompression; None if it is not known.
        path: the feature, for errors.
        problem: the error if there are more bytes; "" for one that names `size`.

    Raises:
        FeatureValueError: the data are corrupt, incomplete, or decompress to more than `size` bytes.
    """
    inflater = zlib.decompressobj()
    try:
        output = inflater.decompress(data) if size is None else inflater.decompress(data, min(size + 1, _NO_LIMIT))
    except zlib.error as error:
        raise FeatureValueError(f"the stored bytes cannot be decompressed: {error}", feature=path) from error
    if size is not None and len(output) > size:
        problem = problem or f"the stored bytes decompress to more than the feature's {size} bytes"
        raise FeatureValueError(problem, feature=path)
    if not inflater.eof:
        raise FeatureValueError("the stored compressed bytes are incomplete", feature=path)
    return output


def _decompress_limited(data: bytes, count: int | None, item_bytes: int, path: str) -> bytes:
    """Returns the decompressed bytes of at most `limits.MAX_LIST` values; see `decompress`.

    Args:
        data: the compressed bytes.
        count: number of values in the record's shape; None if it is not known.
        item_bytes: size of a value in bytes.
        path: the feature, for errors.

    Raises:
        FeatureValueError: there are more values, or the data are damaged.
    """
    if count is not None:
        check_num_values(count, path)
        return decompress(data, count * item_bytes, path)
    limit = limits.limit_of(limits.MAX_LIST)
    problem = f"the stored bytes decompress to more than {limit:,} values. {limits.advice_to_raise(4 * limit)}"
    return decompress(data, limit * item_bytes, path, problem)


def check_num_values(count: int, path: str) -> None:
    """Checks `count`, the number of values of a compressed tensor whose length is not declared by its feature.

    Raises:
        FeatureValueError: there are more than `limits.MAX_LIST`, or than the environment variable allows.
    """
    try:
        limits.check_num_elements(count, limits.MAX_LIST, f"the tensor has {count:,} values")
    except InputError as error:
        raise FeatureValueError(str(error), feature=path) from error


_recorded_libraries: ContextVar[set[str] | None] = ContextVar("used", default=None)


@contextmanager
def record_libraries(libraries: set[str] | None) -> Iterator[None]:
    """Makes the encoders that are created in this context record the libraries that determine their bytes.

    Args:
        libraries: the set to which the encoders add each library when they use it, as "zlib 1.3.1"; None to record
            nothing.
    """
    token = _recorded_libraries.set(libraries)
    try:
        yield
    finally:
        _recorded_libraries.reset(token)


def library_recorder() -> Callable[[str], None]:
    """Returns the function with which a new encoder records a library, such as "zlib 1.3.1".

    The function adds the text to the set of `record_libraries()`. Outside of this context, it does nothing.
    """
    libraries = _recorded_libraries.get()
    return (lambda library: None) if libraries is None else libraries.add
