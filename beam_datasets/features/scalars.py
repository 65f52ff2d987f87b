"""The fast way for single numbers and strings, which tables have dozens of in every example."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureOverflowError, FeatureValueError
from beam_datasets.features.numbers import FLOATS, INTEGERS, array_maker, number_codec
from beam_datasets.features.raw import to_bytes
from beam_datasets.formats import example
from beam_datasets.formats.varint import fast_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.features.base import Decode, Encode, Spans
    from beam_datasets.features.tensor import Tensor


def encoder(tensor: Tensor, name: str) -> Encode | None:
    """Returns the encoder of a scalar that is stored as it is; None for every other tensor."""
    kind = tensor.scalar_kind
    if kind is None:
        return None
    if kind == "bytes":
        encode = _bytes_encoder(name)
    elif tensor.minimum is not None or tensor.maximum is not None:
        return None
    elif kind == "int64":
        encode = int_encoder(tensor, name)
    else:
        encode = _float_encoder(tensor, name)
    if tensor.optional:
        return lambda value: b"" if value is None else encode(value)
    return encode


def _bytes_encoder(name: str) -> Encode:
    head = example.one_bytes_head(name.encode("utf-8"))

    def encode(value: Any) -> bytes:
        try:
            data = value.encode() if type(value) is str else to_bytes(value, name)
        except UnicodeEncodeError:
            data = to_bytes(value, name)
        return head(len(data)) + data

    return encode


def int_encoder(tensor: Tensor, name: str) -> Encode:
    """Returns the encoder of one integer or bool."""
    dtype = tensor.dtype
    make, frame, number = array_maker(dtype, (), name), example.int_scalar_framer(name.encode("utf-8")), fast_varint()
    if dtype == np.bool_:
        yes, no = frame(b"\x01"), frame(b"\x00")

        def encode_bool(value: Any) -> bytes:
            if value is True:
                return yes
            if value is False:
                return no
            return yes if make(value) else no

        return encode_bool
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    heads = [frame(b"\0" * length)[:-length] for length in range(1, 11)]
    heads.insert(0, b"")

    def encode(value: Any) -> bytes:
        if type(value) is not int:
            value = int(value) if type(value) in INTEGERS else int(make(value))
        if low <= value <= high:
            digits = number(value)
            return heads[len(digits)] + digits
        raise FeatureOverflowError(f"{name}: {value} does not fit {dtype}, which holds {low} to {high}")

    return encode


def _float_encoder(tensor: Tensor, name: str) -> Encode:
    pack_array = number_codec(tensor, name).pack
    prefix = example.one_float_prefix(name.encode("utf-8"))
    pack, unpack = _FLOAT.pack, _FLOAT.unpack
    easy = FLOATS | {int} if tensor.dtype != np.float16 else frozenset((np.float16,))  # others may not be a float16

    def encode(value: Any) -> bytes:
        if type(value) in easy:
            try:
                packed = pack(value)
                if unpack(packed)[0] == value:
                    return prefix + packed
            except (OverflowError, struct.error):  # the array's error names the feature
                pass
        made: bytes = pack_array(value).astype("<f4", copy=False).tobytes()
        return prefix + made

    return encode


_FLOAT = struct.Struct("<f")


def decoder(tensor: Tensor, name: str) -> Decode | None:
    """Returns the decoder of a scalar that is stored as it is; None for every other tensor."""
    kind = tensor.scalar_kind
    if kind is None:
        return None
    key, missing = name.encode("utf-8"), tensor.missing(name)
    make = _maker(tensor, name)
    read: Callable[[bytes, int, int], Any] = {
        "bytes": example.one_bytes,
        "int64": example.one_int,
        "float": example.one_float,
    }[kind]

    def decode(data: bytes, spans: Spans) -> Any:
        start, stop = spans.get(key, _NOWHERE)
        if start == stop:
            return missing()
        try:
            value = read(data, start, stop)
        except example.ExampleError as error:
            raise FeatureValueError(f"{name}: {error}") from error
        return make(value) if make else value

    return decode


_NOWHERE = (0, 0)


def _maker(tensor: Tensor, name: str) -> Callable[[Any], Any] | None:
    """Returns the function from a stored number to a NumPy scalar; None where the value is one already."""
    dtype = tensor.dtype
    scalar = dtype.type
    if tensor.scalar_kind == "bytes" or dtype == np.float32:
        return None
    if dtype.kind in "bf" or dtype == np.int64:
        return scalar  # type: ignore[no-any-return]
    if dtype == np.uint64:
        return lambda value: scalar(value & 0xFFFF_FFFF_FFFF_FFFF)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def make(value: int) -> Any:
        if low <= value <= high:
            return scalar(value)
        raise FeatureValueError(f"{name}: the record has {value}, which does not fit {dtype}")

    return make
