"""Tensors of which more than one length is unknown: the shape is stored beside the bytes of the array."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.numbers import array_maker, shape_fits
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import array_unpacker, stack
from beam_datasets.features.tensor import Encoding, Tensor
from beam_datasets.features.wrapped import Wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.features.base import FeatureConnector, Json


@dataclass(frozen=True, repr=False)
class DynamicTensor(Wrapped):
    """How a Tensor with several unknown lengths is stored: `<name>/shape` and `<name>/value`."""

    tensor: Tensor = field(kw_only=True)

    def inner(self) -> FeatureConnector:
        """Returns the connector of the shape and the bytes."""
        optional = self.tensor.optional
        return FeaturesDict(
            {
                "shape": Tensor(shape=(len(self.tensor.shape),), dtype=np.int64, optional=optional),
                "value": Tensor(shape=(), dtype=STRING, optional=optional),
            }
        )

    def lower(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from an array to its shape and bytes."""
        tensor = self.tensor
        if tensor.encoding is Encoding.NONE:
            raise FeatureValueError(f"{path}: a Tensor with several unknown lengths needs encoding='zlib' or 'bytes'")
        make = array_maker(tensor.dtype, tensor.shape, path, allow_rounding=tensor.allow_rounding)
        codec = tensor.codec(path)

        def lower(value: Any) -> dict[str, Any]:
            if value is None and tensor.optional:
                return {"shape": None, "value": None}
            array = make(value)
            return {"shape": np.array(array.shape, np.int64), "value": codec.pack(array)[0]}

        return lower

    def lift(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a shape and bytes to the array."""
        tensor = self.tensor
        compress = tensor.encoding is Encoding.ZLIB

        def lift(stored: dict[str, Any]) -> Any:
            if stored["value"] is None:
                return None
            shape = tuple(stored["shape"].tolist())
            if not shape_fits(shape, tensor.shape) or min(shape) < 0:
                raise FeatureValueError(f"{path}: the record has the shape {shape}; the feature has {tensor.shape}")
            return array_unpacker(tensor.dtype, shape, path, compress=compress)(stored["value"])

        return lift

    def lift_rows(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the function from columns of shapes and bytes to the arrays."""
        lift = self.lift(path)

        def lift_each(columns: dict[str, Any]) -> Any:
            shapes, values = columns["shape"], columns["value"]
            if isinstance(values, RaggedArray):
                shapes, flat = shapes.flat_values, values.flat_values
                return RaggedArray(_lifted(shapes, flat), values.row_lengths)
            return _lifted(shapes, values)

        def _lifted(shapes: Any, values: Any) -> Any:
            if len(shapes) != len(values):
                raise FeatureValueError(f"{path}: the record has {len(shapes)} shapes and {len(values)} values")
            return stack([lift({"shape": shape, "value": value}) for shape, value in zip(shapes, values)])

        return lift_each

    def content_json(self) -> tuple[str, Json]:
        """Returns what the Tensor says."""
        return self.tensor.content_json()

    @classmethod
    def from_content(cls, content: Json) -> DynamicTensor:
        """Returns the storage of the Tensor with this content."""
        return cls(tensor=Tensor.from_content(content))
