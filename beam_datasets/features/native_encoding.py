"""Which values of a feature the native module encodes.

A dict whose values are all of these becomes a record in one call. Any other value is passed to the feature's own
encoder, and any other dict to the encoder of the dict, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.formats import example
from beam_datasets.native import core

if TYPE_CHECKING:
    from beam_datasets.features.base import Encode, FeatureConnector, Shape


class Form(IntEnum):
    """What a value is; the numbers are those of native/encode.c.

    Attributes:
        FALLBACK: whatever the feature's own encoder takes.
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


_MANY = {Form.TEXT: Form.TEXTS, Form.INTEGER: Form.INTEGERS, Form.FLOAT: Form.FLOATS}
_MAX_DIMENSIONS = 8

_INT64: np.dtype[Any] = np.dtype(np.int64)


@dataclass(frozen=True)
class FastPathSpec:
    """Which values of a feature the native module encodes.

    Attributes:
        form: see `Form`.
        dtype: of numbers.
        shape: of arrays; None stands for any length.
        low, high: the least and the greatest integer.
        optional: None is a value too, and leaves no entry.
        allow_rounding: floats need not be exact in float32.
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
        """Returns it for numbers of a dtype and a shape; None where the native module does not know the dtype."""
        if dtype.kind == "f":
            form = Form.FLOATS if shape else Form.FLOAT
            return None if dtype == np.float16 else cls(form, dtype, shape, allow_rounding=allow_rounding)
        if dtype.kind not in "biu":
            return None
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return cls(Form.INTEGERS if shape else Form.INTEGER, dtype, shape, int(low), int(high))

    def sequence(self, length: int | None) -> FastPathSpec | None:
        """Returns it for a sequence of such values; None where only the sequence's own encoder knows what is one."""
        if self.form in _MANY:
            return replace(self, form=_MANY[self.form], shape=(length,), optional=False)
        if self.form in (Form.INTEGERS, Form.FLOATS) and None not in self.shape:
            return replace(self, shape=(length, *self.shape), optional=False)
        return None


def encoder(
    fields: Sequence[tuple[str, str, FeatureConnector, Encode]], fallback: Encode, *, whole: bool = False
) -> Encode | None:
    """Returns the function from a dict to its entries; None where the native module is missing.

    Args:
        fields: key, name in the record, feature and encoder of all, in the order in which they stand in the record.
        fallback: the function in Python, for what is not a plain dict of these fields.
        whole: make a function to the record instead.
    """
    if core is None:
        return None
    rows = [_row(key, wire, feature.fast_path(), encode) for key, wire, feature, encode in fields]
    made: Encode = core.encoder(rows, fallback, _TYPES, whole)
    return made


def _row(key: str, wire: str, spec: FastPathSpec | None, encode: Encode) -> tuple[Any, ...]:
    """Returns a field as the native module takes it."""
    if spec is None or len(spec.shape) > _MAX_DIMENSIONS:
        spec = FastPathSpec(Form.FALLBACK)
    dtype = spec.dtype
    element = "?" if dtype.kind == "b" else dtype.kind
    layout = np.empty(0, dtype).data.format
    shape = tuple(-1 if length is None else length for length in spec.shape)
    name = example.name_field(wire.encode("utf-8"))
    flags, bounds = (spec.optional, spec.allow_rounding), (spec.low, spec.high)
    return (spec.form, *flags, key, encode, name, *bounds, element, dtype.itemsize, layout.encode(), shape)


_TYPES = (
    np.ndarray,
    (np.bool_,),
    tuple(np.dtype(code).type for code in "bhilqBHILQ"),
    (np.float32, np.float64, np.float16),
)
