"""Connectors that are stored as one list, and how sequences of them are.

Below one sequence a feature's list holds the items one after the other. Below two or more `<name>/ragged_flat_values`
does, and `<name>/ragged_row_lengths_<i>` holds how many items each sequence at depth i + 1 has.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.base import (
    Decode,
    FeatureConnector,
    Items,
    Lengths,
    Lists,
    RowsEncode,
    Shape,
    Stored,
    has_one_shape,
)
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.formats import example
from beam_datasets.formats.example import Kind

SplitItems: TypeAlias = Callable[[Lists], tuple[int, Callable[[int, Lists], None]]]
"""From the lists of a sequence to the number of its items, and a function that adds an item's own to others."""

_LENGTHS: Kind = "int64"


@dataclass(frozen=True)
class Codec:
    """How the values of a leaf become the values of a list, and back. Errors name the feature.

    Attributes:
        kind: what the list holds.
        size: how many values of the list an item takes; None where that varies.
        pack: one item to its values.
        pack_many: items to the values of all, in order; None where they are packed one by one.
        unpack: the values of one item to the item.
        unpack_many: the values of any number of items to the items: an array of one more dimension, or a list where the
            items have different shapes.
        from_bytes: `unpack` of the value alone, where an item is always one value of bytes; `bytes` where it is that.
        numbers: dtype and shape of an item, where the list holds its numbers.
    """

    kind: Kind
    size: int | None
    pack: Callable[[Any], Any]
    pack_many: Callable[[Items], Any] | None
    unpack: Callable[[Any], Any]
    unpack_many: Callable[[Any], Any]
    from_bytes: Callable[[bytes], Any] | None = None
    numbers: tuple[np.dtype[Any], Shape] | None = None


def empty_list(kind: Kind) -> Stored:
    """Returns a list without values."""
    return [] if kind == "bytes" else np.empty(0, np.float32 if kind == "float" else np.int64)


@dataclass(frozen=True, repr=False)
class Leaf(FeatureConnector):
    """A connector of one list, described by its codec."""

    @property
    def is_optional(self) -> bool:
        """Whether None is a value: it leaves no entry in the record."""
        return False

    @property
    def may_be_missing(self) -> bool:
        """Whether a record that lacks the feature decodes to None."""
        return self.is_optional

    @abc.abstractmethod
    def codec(self, path: str) -> Codec:
        """Returns how the feature at a path is packed and unpacked."""

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns the leaf itself."""
        return [(name, self, rank)]

    def own_lists(self, name: str, rank: int = 0) -> tuple[tuple[str, Kind], ...]:
        """Returns name and kind of the list of values; below two sequences and more those of row lengths too."""
        kind = self.codec(name).kind
        if rank < 2:
            return ((name, kind),)
        lengths = [(f"{name}/ragged_row_lengths_{i}", _LENGTHS) for i in range(rank - 1)]
        return (f"{name}/ragged_flat_values", kind), *lengths

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes one value, or the items of sequences.

        Raises:
            FeatureValueError: how many values an item takes varies, and is not stored, or it takes none.
        """
        codec, is_optional = self.codec(name), self.is_optional
        if rank and not codec.size:
            unknown = "where an item ends" if codec.size is None else "how many items there are"
            raise FeatureValueError(
                f"{name}: a sequence of {self!r} could be written but not read, as nothing says {unknown}. "
                "Use a Sequence of Sequences, or a Tensor with encoding='zlib' or 'bytes'"
            )
        names = [(key, key.encode()) for key, _ in self.own_lists(name, rank)]

        def encode(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            lists = [(codec.kind, _pack_items(codec, items, name)), *(("int64", counts) for counts in lengths)]
            return [(key, example.list_entry(wire, *values)) for (key, wire), values in zip(names, lists)]

        def encode_one(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            (value,), ((key, wire),) = items, names
            missing = value is None and is_optional
            return [(key, b"" if missing else example.list_entry(wire, codec.kind, codec.pack(value)))]

        return encode if rank else encode_one

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes one value; below a sequence to an array, below more to a RaggedArray.

        Items whose shape the feature does not fix are in a list instead of an array, also if they agree.
        """
        codec, missing = self.codec(name), self.missing_value_getter(name)
        stored, unpack, unpack_many = self.own_lists(name, rank), codec.unpack, codec.unpack_many
        is_array = has_one_shape(self)

        def decode(lists: Lists) -> Any:
            values = lists[name]
            return missing() if values is None else unpack(values)

        def decode_items(lists: Lists) -> Any:
            flat, *lengths = [_replace_none(lists[key], kind) for key, kind in stored]
            items = unpack_many(flat)
            items = items if is_array else list(items)
            return _build_ragged(items, tuple(lengths), name) if lengths else items

        return decode_items if rank else decode

    def missing_value_getter(self, name: str) -> Callable[[], Any]:
        """Returns the function that is called where a record does not have the feature."""
        codec = self.codec(name)
        if self.may_be_missing:
            return lambda: None
        if codec.size is None:
            return lambda: codec.unpack(empty_list(codec.kind))

        def missing() -> Any:
            raise FeatureValueError(f"{name}: the record does not have this feature, and it is not optional")

        return missing

    def items_splitter(self, name: str, rank: int) -> SplitItems:
        """Returns the function that takes the lists of the outermost of `rank` sequences apart; see `SplitItems`."""
        size, stored = self.codec(name).size, self.own_lists(name, rank)
        item_names = [key for key, _ in self.own_lists(name, rank - 1)]

        def split(lists: Lists) -> tuple[int, Callable[[int, Lists], None]]:
            flat, *lengths = [_replace_none(lists[key], kind) for key, kind in stored]
            if not size or len(flat) % size:
                raise FeatureValueError(f"{name}: {len(flat)} stored values are not a number of items of {size} values")
            count = len(flat) // size
            if not lengths:

                def cut(index: int, item: Lists) -> None:
                    start = index * size
                    item[name] = flat[start : start + size]

                return count, cut
            rows = _build_ragged(np.arange(count), tuple(lengths), name)

            def cut_rows(index: int, item: Lists) -> None:
                row = rows[index]
                places, more = (row.flat_values, row.row_lengths) if rank > 2 else (row, ())
                start = places[0] * size if len(places) else 0
                item.update(zip(item_names, (flat[start : start + len(places) * size], *more)))

            return len(rows), cut_rows

        return split


def _replace_none(values: Any, kind: Kind) -> Any:
    return empty_list(kind) if values is None else values


def _build_ragged(items: Any, lengths: Lengths, name: str) -> RaggedArray:
    try:
        return RaggedArray(items, lengths)
    except ValueError as error:
        raise FeatureValueError(f"{name}: {error}") from error


def _pack_items(codec: Codec, items: Items, path: str) -> Any:
    """Packs the items of a sequence; an error names the item."""

    def pack(some: Items) -> Any:
        if codec.pack_many is not None:
            return codec.pack_many(some)
        lists = [codec.pack(item) for item in some]
        if codec.kind == "bytes":
            return [value for values in lists for value in values]
        return np.concatenate(lists) if lists else empty_list(codec.kind)

    try:
        return pack(items)
    except FeatureError as error:
        items = items if isinstance(items, np.ndarray) else list(items)
        index, stop = 0, len(items)  # the first bad item is one of these
        while stop - index > 1:
            middle = (index + stop) // 2
            try:
                pack(items[index:middle])
                index = middle
            except FeatureError:
                stop = middle
        try:
            if stop:
                codec.pack(items[index])
        except FeatureError as single:
            problem = str(single).removeprefix(f"{path}: ")
            raise type(single)(f"{path}: item {index}: {problem}") from error
        raise
