"""Connectors that store their values as those of another connector."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.base import FeatureConnector
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.numbers import array_maker, shape_fits
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import array_unpacker, stack
from beam_datasets.features.tensor import Encoding, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.features.base import Decode, Encode, ItemDecode, Items, Json, Lengths, Lists, RowsEncode
    from beam_datasets.formats.example import Kind


@dataclass(frozen=True, repr=False)
class Wrapped(FeatureConnector):
    """A connector that turns its values into those of an inner connector, and back."""

    @abc.abstractmethod
    def inner(self) -> FeatureConnector:
        """Returns the connector that stores the values."""

    @abc.abstractmethod
    def lower(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value to one of the inner connector."""

    @abc.abstractmethod
    def lift(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value of the inner connector to one of this."""

    def lift_rows(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the function from the inner connector's items of sequences to items of this."""
        lift = self.lift(path)

        def lift_each(rows: Any) -> Any:
            if isinstance(rows, RaggedArray):
                return RaggedArray(stack([lift(item) for item in rows.flat_values]), rows.row_lengths)
            return stack([lift(item) for item in rows])

        return lift_each

    def wire_names(self, name: str, rank: int = 0) -> tuple[str, ...]:
        """Returns the names of the inner connector."""
        return self.inner().wire_names(name, rank)

    def kinds(self, rank: int = 0) -> tuple[Kind, ...]:
        """Returns the kinds of the inner connector's lists."""
        return self.inner().kinds(rank)

    def encoder(self, name: str) -> Encode:
        """Returns the function that encodes one value."""
        encode, lower = self.inner().encoder(name), self.lower(name)
        return lambda value: encode(lower(value))

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes the items of a sequence."""
        encode, lower = self.inner().rows_encoder(name, rank), self.lower(name)

        def encode_rows(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            return encode([lower(item) for item in items], lengths)

        return encode_rows

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes one value, or the items of sequences."""
        decode = self.inner().decoder(name, rank)
        lift = self.lift_rows(name, rank) if rank else self.lift(name)
        return lambda lists: lift(decode(lists))

    def item_decoder(self, name: str, rank: int) -> ItemDecode:
        """Returns the function that makes a reader of single items."""
        decode, lift = self.inner().item_decoder(name, rank), self.lift(name)
        lift_rows = self.lift_rows(name, rank - 1)

        def decode_items(lists: Lists) -> tuple[int, Callable[[int], Any]]:
            count, item = decode(lists)
            return count, lambda index: lift(item(index)) if rank == 1 else lift_rows(item(index))

        return decode_items

    def stored(self) -> FeatureConnector:
        """Returns the inner connector's stored form."""
        return self.inner().stored()


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
