"""Ragged arrays: sequences of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class RaggedArray:
    """A sequence of sequences, stored as the innermost items and the length of each sequence.

    Its length is the number of outermost rows. An index yields a row: an array, or a RaggedArray if there are more
    levels.

    Attributes:
        flat_values: the innermost items in order, an array of shape (n, ...); a list if their shapes differ.
        row_lengths: for each level, outer ones first, the number of items of each sequence of this level, as int64. The
            outermost sequence itself is not included.

    Examples:
        >>> rows = RaggedArray(np.array([1, 2, 3]), (np.array([2, 0, 1]),))
        >>> rows.to_list()
        [[1, 2], [], [3]]
        >>> len(rows), rows[0]
        (3, array([1, 2]))
    """

    flat_values: Any
    row_lengths: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        """Checks that the lengths of each level add up to the number of rows of the next one.

        Raises:
            ValueError: they do not.
        """
        if not self.row_lengths:
            raise ValueError("a ragged array needs the row lengths of at least one level")
        for level, lengths in enumerate(self.row_lengths):
            next_level = self.row_lengths[level + 1] if level + 1 < len(self.row_lengths) else self.flat_values
            if len(lengths) and int(lengths.min()) < 0:
                raise ValueError(f"the row lengths of level {level} have the negative length {lengths.min()}")
            total = sum(lengths.tolist())
            if total != len(next_level):
                raise ValueError(
                    f"the row lengths of level {level} add up to {total}, of {len(next_level)} items below"
                )

    @cached_property
    def _bounds(self) -> list[list[int]]:
        """For each level, the boundaries of its n rows: n + 1 ascending indices of items of the next level.

        Row i consists of the items [bounds[i], bounds[i + 1]). For the row lengths [2, 0, 1], they are [0, 2, 2, 3].
        """
        return [[0, *np.cumsum(lengths).tolist()] for lengths in self.row_lengths]

    def __len__(self) -> int:
        return len(self.row_lengths[0])

    def __getitem__(self, index: int) -> Any:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index {index} of a ragged array of {count} rows")
        index %= count
        outer_bounds, *inner_bounds = self._bounds
        start, stop = outer_bounds[index], outer_bounds[index + 1]
        row_lengths = []
        for lengths, bounds in zip(self.row_lengths[1:], inner_bounds):
            row_lengths.append(lengths[start:stop])
            start, stop = bounds[start], bounds[stop]
        values = self.flat_values[start:stop]
        return RaggedArray(values, tuple(row_lengths)) if row_lengths else values

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def to_list(self) -> list[Any]:
        """Returns the rows as nested lists of Python values, such as [[1, 2], [], [3]]."""
        flat = self.flat_values
        rows = flat.tolist() if isinstance(flat, np.ndarray) else [np.asarray(item).tolist() for item in flat]
        for lengths in reversed(self.row_lengths):
            ends = np.cumsum(lengths).tolist()
            rows = [rows[end - length : end] for end, length in zip(ends, lengths.tolist())]
        return rows

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape (number of rows, None for each ragged level, *shape of an item).

        A length of the items is None if items differ in it.
        """
        return len(self), *(None for _ in self.row_lengths), *self._item_shape()

    def _item_shape(self) -> tuple[int | None, ...]:
        """Returns the shape of the innermost items; None for each length in which they differ."""
        flat: Any = self.flat_values
        lengths = zip(*({np.shape(item) for item in flat} if isinstance(flat, list) else {np.shape(flat)[1:]}))
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in lengths)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the innermost items."""
        if isinstance(self.flat_values, np.ndarray) or not len(self.flat_values):
            return np.asarray(self.flat_values).dtype
        return np.asarray(self.flat_values[0]).dtype

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedArray):
            return NotImplemented
        return self.to_list() == other.to_list() and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RaggedArray({self.to_list()}, dtype={self.dtype})"
