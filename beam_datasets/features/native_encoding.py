"""The values of features that the native module encodes.

It encodes a dict whose values all fit a `FastPathSpec` in one call. It passes any other value to the feature's own
encoder, and any other dict to the encoder of the dict, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.features.dtypes import Shape
from beam_datasets.formats import example
from beam_datasets.native import core

if TYPE_CHECKING:
    from beam_datasets.features.base import Encode, FeatureConnector


class Form(IntEnum):
    """Kinds of values that the native module distinguishes; native/encode.c has the same numbers.

    Attributes:
        FALLBACK: any value, which is passed to the feature's own encoder.
        TEXT: a str or bytes.
        INTEGER: an integer.
        FLOAT: a float.
        TEXTS: a list of str or bytes.
        INTEGERS: an array or a list of integers.
        FLOATS: an array or a list of floats.
        RAW: an array that is stored as its bytes.
    """

    FALLBACK = 0
    TEXT = 1
    INTEGER = 2
    FLOAT = 3
    TEXTS = 4
    INTEGERS = 5
    FLOATS = 6
    RAW = 7


_SEQUENCE_FORMS = {Form.TEXT: Form.TEXTS, Form.INTEGER: Form.INTEGERS, Form.FLOAT: Form.FLOATS}
_MAX_DIMENSIONS = 8

_INT64: np.dtype[Any] = np.dtype(np.int64)


@dataclass(frozen=True)
class FastPathSpec:
    """Values of a feature that the native module encodes.

    Attributes:
        form: the kind of the values.
        dtype: the dtype of numbers and arrays.
        shape: the shape of arrays; None means any length.
        low, high: the least and the greatest integer, both inclusive.
        optional: whether None is a value, which leaves no entry in the record.
        allow_rounding: whether floats are rounded to float32; otherwise an inexact one is passed to the encoder.
    """

    form: Form
    dtype: np.dtype[Any] = _INT64
    shape: Shape = ()
    low: int = 0
    high: int = 0
    optional: bool = False
    allow_rounding: bool = False

    @classmethod
    def numbers(cls, dtype: np.dtype[Any], shape: Shape, *, allow_rounding: bool = False) -> FastPathSpec | None:
        """Returns the spec of numbers of a dtype and a shape; None if the native module does not support the dtype.

        Args:
            dtype: the dtype of the feature.
            shape: the shape of each value; () for single numbers.
            allow_rounding: whether floats are rounded to float32.
        """
        if dtype.kind == "f":
            form = Form.FLOATS if shape else Form.FLOAT
            return None if dtype == np.float16 else cls(form, dtype, shape, allow_rounding=allow_rounding)
        if dtype.kind not in "biu":
            return None
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return cls(Form.INTEGERS if shape else Form.INTEGER, dtype, shape, int(low), int(high))

    def sequence(self, length: int | None) -> FastPathSpec | None:
        """Returns the spec of a sequence whose items fit this spec; None if the native module cannot encode it.

        Args:
            length: the number of items; None for any.
        """
        if self.form in _SEQUENCE_FORMS:
            return replace(self, form=_SEQUENCE_FORMS[self.form], shape=(length,), optional=False)
        if self.form in (Form.INTEGERS, Form.FLOATS) and None not in self.shape:
            return replace(self, shape=(length, *self.shape), optional=False)
        return None


def native_encoder(
    fields: Sequence[tuple[str, str, FeatureConnector, Encode]], fallback: Encode, *, as_record: bool = False
) -> Encode | None:
    """Returns the native function from a dict to its serialized map entries; None if the native module is missing.

    Args:
        fields: (key in the dict, name in the record, feature, encoder) of each field, in the order of the record.
        fallback: the Python function for any value that is not a plain dict of these fields.
        as_record: whether the function returns the whole record instead of its entries.
    """
    if core is None:
        return None
    rows = [_describe_native_field(key, wire, feature.fast_path(), encode) for key, wire, feature, encode in fields]
    encoder: Encode = core.encoder(rows, fallback, _TYPES, as_record)
    return encoder


def _describe_native_field(key: str, wire: str, spec: FastPathSpec | None, encode: Encode) -> tuple[Any, ...]:
    """Returns the tuple that describes a field of a dict to `core.encoder`.

    Args:
        key: the key in the dict.
        wire: the name in the record.
        spec: the values that the native module encodes; None if it passes all values to `encode`.
        encode: the feature's own encoder.
    """
    if spec is None or len(spec.shape) > _MAX_DIMENSIONS:
        spec = FastPathSpec(Form.FALLBACK)
    dtype = spec.dtype
    element = "?" if dtype.kind == "b" else dtype.kind
    layout = np.empty(0, dtype).data.format
    shape = tuple(-1 if length is None else length for length in spec.shape)
    name = example.entry_start(wire.encode("utf-8"))
    flags, bounds = (spec.optional, spec.allow_rounding), (spec.low, spec.high)
    return (spec.form, *flags, key, encode, name, *bounds, element, dtype.itemsize, layout.encode(), shape)


_TYPES = (
    np.ndarray,
    (np.bool_,),
    tuple(np.dtype(code).type for code in "bhilqBHILQ"),
    (np.float32, np.float64, np.float16),
)
