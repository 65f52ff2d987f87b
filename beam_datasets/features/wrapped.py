"""Connectors that store their values as those of another connector."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.base import FeatureConnector, dtype_of, shape_of
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.numbers import array_maker, shape_fits
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import array_unpacker, stack
from beam_datasets.features.tensor import Encoding, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.features.base import Decode, Encode, Items, Json, Lengths, RowsEncode


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
            lengths = _row_lengths(rows, rank)
            items = [lift(item) for item in _items(rows, rank, path)]
            return _rows(_columns(items) if items else self.no_items(), lengths)

        return lift_each

    def no_items(self) -> Any:
        """Returns the items of an empty sequence as they are decoded."""
        return _columns([])

    @property
    def shape(self) -> Any:
        """The inner connector's shape."""
        return shape_of(self.inner())

    @property
    def dtype(self) -> Any:
        """The inner connector's dtype."""
        return dtype_of(self.inner())

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns those of the inner connector."""
        return self.inner().leaves(name, rank)

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

    def stored(self) -> FeatureConnector:
        """Returns the inner connector's stored form."""
        return self.inner().stored()


def _row_lengths(rows: Any, rank: int) -> Lengths:
    """Returns the row lengths of items below `rank` sequences, those of the first column of a dict."""
    if isinstance(rows, dict):
        return next((_row_lengths(column, rank) for column in rows.values()), ())
    return rows.row_lengths[: rank - 1] if rank > 1 else ()


def _columns(items: list[Any]) -> Any:
    """Returns items stacked: dicts as a dict of columns."""
    if items and isinstance(items[0], dict):
        return {name: _columns([item[name] for item in items]) for name in items[0]}
    return stack(items)


def _rows(columns: Any, lengths: Lengths) -> Any:
    """Returns stacked items as sequences below several others have them."""
    if isinstance(columns, dict):
        return {name: _rows(column, lengths) for name, column in columns.items()}
    return RaggedArray(columns, lengths) if lengths else columns


def _items(rows: Any, rank: int, path: str) -> list[Any]:
    """Returns all items below `rank` sequences in order; a dict of columns becomes a list of dicts."""
    if isinstance(rows, RaggedArray) and rank > 1:
        inside = rows.row_lengths[rank - 1 :]  # of items that are sequences themselves
        return list(RaggedArray(rows.flat_values, inside) if inside else rows.flat_values)
    if not isinstance(rows, dict):
        return list(rows)
    columns = [_items(column, rank, path) for column in rows.values()]
    if len(set(map(len, columns))) > 1:
        counts = dict(zip(rows, map(len, columns)))
        raise FeatureValueError(f"{path}: the record has different numbers of items: {counts}")
    return [dict(zip(rows, values)) for values in zip(*columns)]


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

    def content_json(self) -> tuple[str, Json]:
        """Returns what the Tensor says."""
        return self.tensor.content_json()

    @classmethod
    def from_content(cls, content: Json) -> DynamicTensor:
        """Returns the storage of the Tensor with this content."""
        return cls(tensor=Tensor.from_content(content))
