"""Sequences of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class RaggedArray:
    """A sequence of sequences, as the innermost items and how many of them each sequence has.

    Its length is the number of outermost items; an index yields an array (a RaggedArray, where there are more levels).

    Attributes:
        flat_values: the innermost items in order, an array of shape (n, ...); a list where their shapes differ.
        row_lengths: for each level, outer first, the length of each sequence below the outermost one.

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
        if not self.row_lengths:
            raise ValueError("a ragged array needs the row lengths of at least one level")
        for level, lengths in enumerate(self.row_lengths):
            below = self.row_lengths[level + 1] if level + 1 < len(self.row_lengths) else self.flat_values
            if len(lengths) and int(lengths.min()) < 0:
                raise ValueError(f"the row lengths of level {level} have the negative length {lengths.min()}")
            if sum(lengths.tolist()) != len(below):
                raise ValueError(
                    f"the row lengths of level {level} add up to {sum(lengths.tolist())}, of {len(below)} items below"
                )

    @cached_property
    def _bounds(self) -> list[list[int]]:
        """Where the rows begin, and the last ends, among the items below, for each level."""
        return [[0, *np.cumsum(lengths).tolist()] for lengths in self.row_lengths]

    def __len__(self) -> int:
        return len(self.row_lengths[0])

    def __getitem__(self, index: int) -> Any:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index {index} of a ragged array of {count} rows")
        index %= count
        outer, *deeper = self._bounds
        start, stop = outer[index], outer[index + 1]
        inner = []
        for lengths, bounds in zip(self.row_lengths[1:], deeper):
            inner.append(lengths[start:stop])
            start, stop = bounds[start], bounds[stop]
        return RaggedArray(self.flat_values[start:stop], tuple(inner)) if inner else self.flat_values[start:stop]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def to_list(self) -> list[Any]:
        """Returns nested lists of Python values."""
        flat = self.flat_values
        rows = flat.tolist() if isinstance(flat, np.ndarray) else [np.asarray(item).tolist() for item in flat]
        for lengths in reversed(self.row_lengths):
            ends = np.cumsum(lengths).tolist()
            rows = [rows[end - length : end] for end, length in zip(ends, lengths.tolist())]
        return rows

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, None for each ragged level, and the shape of an item, None where items differ in it."""
        return len(self), *(None for _ in self.row_lengths), *self._item_shape()

    def _item_shape(self) -> tuple[int | None, ...]:
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
