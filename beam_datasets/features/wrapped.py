"""Connectors that store their values as those of another connector."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.features.base import FeatureConnector
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.features.base import Decode, Encode, ItemDecode, Items, Lengths, Lists, RowsEncode
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
