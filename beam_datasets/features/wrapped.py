"""Connectors that store their values with an inner connector, such as a dict or a tensor of bytes."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beam_datasets.errors import (
    FeatureValueError,
)
from beam_datasets.features.base import (
    DecodeLists,
    FeatureConnector,
    Items,
    Lengths,
    RowsEncode,
    dtype_of,
    has_one_shape,
    shape_of,
)
from beam_datasets.features.dtypes import Json
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import build_empty_items, stack_items


@dataclass(frozen=True, repr=False)
class Wrapped(FeatureConnector):
    """A connector that converts its values to those of an inner connector, which stores them, and back."""

    @abc.abstractmethod
    def inner_connector(self) -> FeatureConnector:
        """Returns the inner connector, which stores the converted values."""

    @abc.abstractmethod
    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value of this connector to a value of the inner connector.

        Args:
            path: the feature, for errors of the function.
        """

    @abc.abstractmethod
    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value of the inner connector to a value of this connector.

        Args:
            path: the feature, for errors of the function.
        """

    def from_inner_items_converter(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the function from decoded sequences of the inner connector to sequences of this connector.

        Args:
            path: the feature, for errors of the function.
            rank: the number of nested sequences, 1 or more.
        """
        from_inner, is_array = self.from_inner_converter(path), has_one_shape(self)

        def convert_items(rows: Any) -> Any:
            """Returns decoded sequences of the inner connector as sequences of this connector."""
            lengths = _get_row_lengths(rows, rank)
            items: Any = [from_inner(item) for item in _flatten_items(rows, rank, path)]
            if is_array:
                items = _stack_columns(items) if items else self.build_empty_items()
            return _restore_rows(items, lengths)

        return convert_items

    def build_empty_items(self) -> Any:
        """Returns the decoded form of an empty sequence: an array of shape (0, ...) with the dtype of items."""
        return _build_empty_columns(self.shape, self.dtype)

    @property
    def shape(self) -> Any:
        """The inner connector's shape."""
        return shape_of(self.inner_connector())

    @property
    def dtype(self) -> Any:
        """The inner connector's dtype."""
        return dtype_of(self.inner_connector())

    def decoded(self) -> FeatureConnector:
        """Returns the connector of decoded values of the inner connector."""
        return self.inner_connector().decoded()

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns [(name, leaf, rank)] of the leaves of the inner connector; see `FeatureConnector.leaves`."""
        return self.inner_connector().leaves(name, rank)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function (items, lengths) -> [(name, map entry), ...]; see `FeatureConnector.rows_encoder`."""
        encode, to_inner = self.inner_connector().rows_encoder(name, rank), self.to_inner_converter(name)

        def encode_rows(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            """Returns the map entries of items, which are converted to the inner feature first."""
            return encode([to_inner(item) for item in items], lengths)

        return encode_rows

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to one value for rank 0, or to the items of sequences.

        Args:
            name: the name of the feature in the record.
            rank: the number of sequences around the feature.
        """
        decode = self.inner_connector().decoder(name, rank)
        from_inner = self.from_inner_items_converter(name, rank) if rank else self.from_inner_converter(name)
        return lambda lists: from_inner(decode(lists))

    def stored(self) -> FeatureConnector:
        """Returns the inner connector's stored form."""
        return self.inner_connector().stored()

    def content_json(self) -> tuple[str, Json]:
        """Returns (key, content) of the inner connector in features.json."""
        return self.inner_connector().content_json()


def _get_row_lengths(rows: Any, rank: int) -> Lengths:
    """Returns the row lengths of `rank` nested sequences, outer levels first; () for rank 1.

    Args:
        rows: an array of items for rank 1, a RaggedArray for more; for dicts, a dict of these by name, of which the
            first one determines the result.
        rank: the number of nested sequences, at least 1.
    """
    if isinstance(rows, dict):
        return next((_get_row_lengths(column, rank) for column in rows.values()), ())
    return rows.row_lengths[: rank - 1] if rank > 1 else ()


def _stack_columns(items: list[Any]) -> Any:
    """Returns the items as one array of shape (n, ...), or a list if they have no common shape.

    Dicts become a dict of such arrays and lists by name.

    >>> import numpy as np
    >>> _stack_columns([{"a": np.int64(1)}, {"a": np.int64(2)}])
    {'a': array([1, 2])}
    """
    if items and isinstance(items[0], dict):
        return {name: _stack_columns([item[name] for item in items]) for name in items[0]}
    return stack_items(items)


def _restore_rows(columns: Any, lengths: Lengths) -> Any:
    """Returns nested sequences as a RaggedArray, from their flat items; `columns` itself if `lengths` is empty.

    For example, items [1, 2, 3] and lengths ([2, 1],) become the RaggedArray [[1, 2], [3]].

    Args:
        columns: an array of the items of all innermost sequences, one after the other. For dicts, a dict from a name to
            such an array; the result is then a dict from the name to a RaggedArray.
        lengths: the row lengths of each level, the outermost first: arrays of integers.
    """
    if isinstance(columns, dict):
        return {name: _restore_rows(column, lengths) for name, column in columns.items()}
    return RaggedArray(columns, lengths) if lengths else columns


def _flatten_items(rows: Any, rank: int, path: str) -> list[Any]:
    """Returns all items of `rank` nested sequences, in order.

    Args:
        rows: decoded sequences; a dict of columns becomes a list of dicts.
        rank: the number of nested sequences around an item.
        path: the feature, for errors.

    Raises:
        FeatureValueError: the columns of a dict have different numbers of items.

    >>> _flatten_items({"a": [1, 2], "b": [3, 4]}, 1, "objects")
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]
    """
    if isinstance(rows, RaggedArray) and rank > 1:
        item_lengths = rows.row_lengths[rank - 1 :]  # of items that are sequences themselves
        return list(RaggedArray(rows.flat_values, item_lengths) if item_lengths else rows.flat_values)
    if not isinstance(rows, dict):
        return list(rows)
    columns = [_flatten_items(column, rank, path) for column in rows.values()]
    if len(set(map(len, columns))) > 1:
        counts = dict(zip(rows, map(len, columns)))
        raise FeatureValueError(f"the record has different numbers of items: {counts}", feature=path)
    return [dict(zip(rows, values)) for values in zip(*columns)]


def _build_empty_columns(shape: Any, dtype: Any) -> Any:
    """Returns an empty array of shape (0, *shape); for dicts of shapes and dtypes, a dict of empty arrays.

    >>> import numpy as np
    >>> _build_empty_columns({"a": (2,)}, {"a": np.dtype("int64")})
    {'a': array([], shape=(0, 2), dtype=int64)}
    """
    if isinstance(dtype, dict):
        return {name: _build_empty_columns(shape[name], dtype[name]) for name in dtype}
    return stack_items([]) if dtype is None else build_empty_items(shape or (), dtype)
