"""Connectors that are stored as one list, and sequences of them.

In one sequence, the feature's list contains the items one after the other. In two or more nested sequences, the list
`<name>/ragged_flat_values` contains them, and `<name>/ragged_row_lengths_<i>` the number of items of each sequence at
depth i + 1. For example, [[1, 2], [3]] has the values [1, 2, 3] and the row lengths [2, 1].
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from beam_datasets.errors import FeatureError, FeatureValueError, shown_name
from beam_datasets.features.base import (
    DecodeLists,
    FeatureConnector,
    Items,
    Lengths,
    Lists,
    RowsEncode,
    Stored,
    dtype_of,
    has_one_shape,
    shape_of,
)
from beam_datasets.features.dtypes import Shape, dtype_name
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.formats import example
from beam_datasets.formats.example import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


SplitItems: TypeAlias = Callable[[Lists], tuple[int, Callable[[int, Lists], None]]]
"""A function from the lists of a sequence to the number of its items, and a function of (index, lists), which adds the
lists of the item at this index to `lists`."""

_LENGTHS: Kind = "int64"


@dataclass(frozen=True)
class Codec:
    """Conversion between the values of a leaf and the list that stores them. Errors name the feature.

    Attributes:
        kind: the kind of the list: 'bytes', 'float' or 'int64'.
        size: the number of values in the list for one item; None if it varies.
        pack: the function from one item to its values in the list.
        pack_many: the function from items to the values of all, in order; None if they are packed one by one.
        unpack: the function from the values of one item to the item.
        unpack_many: the function from the values of any number of items to the items: an array with one more dimension,
            or a list if the items have different shapes.
        from_bytes: the function from one value of bytes to the item, if each item is one value of bytes; `bytes` itself
            if the item is that value. None for other items.
        numbers: (dtype, shape) of an item, if the list contains its numbers; None otherwise.
        is_joined: whether each item is one value of bytes that contains its numbers without compression, so that
            `unpack_many` converts those of many items at once.
    """

    kind: Kind
    size: int | None
    pack: Callable[[Any], Any]
    pack_many: Callable[[Items], Any] | None
    unpack: Callable[[Any], Any]
    unpack_many: Callable[[Any], Any]
    from_bytes: Callable[[bytes], Any] | None = None
    numbers: tuple[np.dtype[Any], Shape] | None = None
    is_joined: bool = False


def empty_list(kind: Kind) -> Stored:
    """Returns a list of a kind without values: [] for 'bytes', else an empty array of float32 or int64."""
    return [] if kind == "bytes" else np.empty(0, np.float32 if kind == "float" else np.int64)


@dataclass(frozen=True, repr=False)
class Leaf(FeatureConnector):
    """A connector of one list, described by its codec."""

    @property
    def is_optional(self) -> bool:
        """Whether None is a value of the feature; it leaves no entry in the record."""
        return False

    @property
    def may_be_missing(self) -> bool:
        """Whether a record that lacks the feature decodes to None."""
        return self.is_optional

    @abc.abstractmethod
    def codec(self, path: str) -> Codec:
        """Returns the conversion between values and the list of the record; `path` names the feature in errors."""

    def check_storable(self, path: str) -> None:
        """Raises FeatureValueError if no record can contain values of the feature; `path` names the feature."""

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns [(name, self, rank)]: a leaf consists of itself only."""
        return [(name, self, rank)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={shape_of(self)}, dtype={dtype_name(dtype_of(self))})"

    def own_lists(self, name: str, rank: int = 0) -> tuple[tuple[str, Kind], ...]:
        """Returns the name and kind of each list that stores the feature: its values, then the row lengths.

        For example, (('a', 'int64'),) for rank 0 and 1, and (('a/ragged_flat_values', 'int64'),
        ('a/ragged_row_lengths_0', 'int64')) for rank 2.

        Args:
            name: the name of the feature in the record.
            rank: the number of sequences around the feature.
        """
        kind = self.codec(name).kind
        if rank < 2:
            return ((name, kind),)
        lengths = [(f"{name}/ragged_row_lengths_{i}", _LENGTHS) for i in range(rank - 1)]
        return (f"{name}/ragged_flat_values", kind), *lengths

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function (items, lengths) -> [(name, map entry), ...]; see `FeatureConnector.rows_encoder`.

        Raises:
            FeatureValueError: rank is 1 or more, and the items could not be told apart when read, because their number
                of values varies or is 0.
        """
        codec, is_optional = self.codec(name), self.is_optional
        if rank and not codec.size:
            unknown = "where an item ends" if codec.size is None else "how many items there are"
            raise FeatureValueError(
                f"a sequence of {self!r} could be written but not read, as nothing says {unknown}. Use a "
                "Sequence of Sequences, or a Tensor with encoding='zlib' or 'bytes'",
                feature=name,
            )
        names = [(key, key.encode()) for key, _ in self.own_lists(name, rank)]

        def encode(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            """Returns [(key, map entry), ...] of items of sequences, with the lists of lengths as int64."""
            lists = [(codec.kind, _pack_items(codec, items, name)), *(("int64", counts) for counts in lengths)]
            return [(key, example.list_entry(wire, *values)) for (key, wire), values in zip(names, lists)]

        def encode_one(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            """Returns [(key, map entry)] of the only item; the entry is b"" for a missing optional value."""
            (value,), ((key, wire),) = items, names
            is_missing = value is None and is_optional
            return [(key, b"" if is_missing else example.list_entry(wire, codec.kind, codec.pack(value)))]

        return encode if rank else encode_one

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to the value of the feature.

        That is one value (rank 0), the items of a sequence as an array (rank 1), or a RaggedArray (rank > 1). If the
        feature does not fix the items' shape, they are in a list, even if their shapes are equal.
        """
        codec, get_missing_value = self.codec(name), self.missing_value_getter(name)
        stored, unpack, unpack_many = self.own_lists(name, rank), codec.unpack, codec.unpack_many
        is_array = has_one_shape(self)

        def decode(lists: Lists) -> Any:
            """Returns the value of the feature in the lists of a record."""
            values = lists[name]
            return get_missing_value() if values is None else unpack(values)

        def decode_items(lists: Lists) -> Any:
            """Returns the items of the sequences in the lists of a record."""
            flat, *lengths = [_replace_none(lists[key], kind) for key, kind in stored]
            items = unpack_many(flat)
            items = items if is_array else list(items)
            return _build_ragged(items, tuple(lengths), name) if lengths else items

        return decode_items if rank else decode

    def missing_value_getter(self, name: str) -> Callable[[], Any]:
        """Returns the function without arguments that returns the value for a record without the feature.

        This value is None for an optional feature, and an empty array for a tensor of any length. Otherwise, the
        function raises FeatureValueError.
        """
        codec = self.codec(name)
        if self.may_be_missing:
            return lambda: None
        if codec.size is None:
            return lambda: codec.unpack(empty_list(codec.kind))

        def raise_missing() -> NoReturn:
            """Raises the error about a record without this feature.

            Raises:
                FeatureValueError: always.
            """
            raise FeatureValueError("the record does not have this feature, and it is not optional", feature=name)

        return raise_missing

    def items_splitter(self, name: str, rank: int) -> SplitItems:
        """Returns the function that splits the lists of a sequence into those of its items.

        The function returns the number of items, and a function of (index, lists), which adds the lists of the item at
        this index to `lists`; see `SplitItems`.

        Args:
            name: the name of the feature in the record.
            rank: the number of sequences around the feature, 1 or more; the outermost one is split.
        """
        size, stored = self.codec(name).size, self.own_lists(name, rank)
        item_names = [key for key, _ in self.own_lists(name, rank - 1)]

        def split(lists: Lists) -> tuple[int, Callable[[int, Lists], None]]:
            """Returns the number of items, and the function that copies the lists of one item."""
            flat, *lengths = [_replace_none(lists[key], kind) for key, kind in stored]
            if not size or len(flat) % size:
                raise FeatureValueError(
                    f"{len(flat)} stored values are not a number of items of {size} values", feature=name
                )
            count = len(flat) // size
            if not lengths:

                def cut(index: int, item: Lists) -> None:
                    """Copies the list of the item with an index into a dict of lists."""
                    start = index * size
                    item[name] = flat[start : start + size]

                return count, cut
            rows = _build_ragged(np.arange(count), tuple(lengths), name)

            def cut_rows(index: int, item: Lists) -> None:
                """Adds the lists of the inner sequence at an index to `item`."""
                row = rows[index]
                item_indices, row_lengths = (row.flat_values, row.row_lengths) if rank > 2 else (row, ())
                start = item_indices[0] * size if len(item_indices) else 0
                item.update(zip(item_names, (flat[start : start + len(item_indices) * size], *row_lengths)))

            return len(rows), cut_rows

        return split


def _replace_none(values: Any, kind: Kind) -> Any:
    """Returns the values of a list, or an empty list of the kind if they are None."""
    return empty_list(kind) if values is None else values


def _build_ragged(items: NDArray[Any] | list[Any], lengths: Lengths, name: str) -> RaggedArray:
    """Returns the RaggedArray of stored items and row lengths.

    Raises:
        FeatureValueError: the lengths do not fit the items; the message begins with the name of the feature.
    """
    try:
        return RaggedArray(items, lengths)
    except ValueError as error:
        raise FeatureValueError(str(error), feature=name) from error


def _pack_items(codec: Codec, items: Items, path: str) -> Any:
    """Returns the values of all items of a sequence, in order.

    Raises:
        FeatureError: an item does not fit the feature; the message contains the path and the index of the item.
    """

    def pack(item_range: Items) -> Any:
        """Returns the values of the items of a part of the sequence, in order."""
        if codec.pack_many is not None:
            return codec.pack_many(item_range)
        lists = [codec.pack(item) for item in item_range]
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
            problem = str(single).removeprefix(f"{shown_name(path)}: ")
            raise type(single)(f"item {index}: {problem}", feature=path) from error
        raise
