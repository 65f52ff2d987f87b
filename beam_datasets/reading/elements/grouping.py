"""Links that depend on the lengths of examples: batches of similar lengths, packed sequences, and chunks."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import FeatureValueError
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.stacking import Padding
from beam_datasets.reading.elements.links import Bin, Dividing, Grouping, Item
from beam_datasets.reading.elements.transforms import Batch

Length: TypeAlias = "str | Callable[[Any], int]"

OVERLONG = ("error", "truncate", "drop")


@dataclass(frozen=True)
class ByLength(Grouping):
    """A link that makes batches of items of similar lengths.

    Attributes:
        boundaries: ascending lengths; bin i is for lengths in [boundaries[i - 1], boundaries[i]).
        sizes: number of items in a batch of each bin; one more than there are boundaries.
        length: name of the feature whose length counts, or a function from an item to its length.
        drop_remainder: whether smaller batches at the end of an epoch are dropped.
        pad_to_boundary: whether the feature is padded to the greatest length of its bin.
        step: the step that stacks values.
    """

    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]
    length: Length
    drop_remainder: bool
    pad_to_boundary: bool
    step: Batch

    def __post_init__(self) -> None:
        """Checks the attributes; raises a TypeError or a ValueError."""
        boundaries = tuple(integer("a boundary", boundary, at_least=1) for boundary in self.boundaries)
        sizes = tuple(integer("a batch size", size, at_least=1) for size in self.sizes)
        if sorted(set(boundaries)) != list(boundaries):
            raise ValueError(f"boundaries must ascend, got {list(boundaries)}.")
        if len(sizes) != len(boundaries) + 1:
            raise ValueError(
                f"batch_sizes must be one more than the {len(boundaries)} boundaries, got {len(sizes)}: the last one "
                "is for lengths from the last boundary on."
            )
        if not isinstance(self.length, str) and not callable(self.length):
            raise TypeError(f"length must be the name of a feature or a function, got {self.length!r}.")
        if boolean("pad_to_boundary", self.pad_to_boundary) and not isinstance(self.length, str):
            raise ValueError("pad_to_boundary=True needs the name of a feature as length, which is padded.")
        object.__setattr__(self, "boundaries", boundaries)
        object.__setattr__(self, "sizes", sizes)

    @property
    def text(self) -> str:
        """The operation in fingerprints, such as "batch_by_length([10], [8, 4], length=text)"."""
        by = f", length={self.length}" if isinstance(self.length, str) else ""
        drop = ", drop_remainder=True" if self.drop_remainder else ""
        return f"batch_by_length({list(self.boundaries)}, {list(self.sizes)}{by}{drop})"

    @property
    def max_bins(self) -> int:
        """The maximal number of open bins."""
        return len(self.sizes)

    def restore_bins(self, bins: list[list[Item]]) -> list[Bin]:
        """Rebuilds the open bins of a saved state, given the items of each bin.

        Raises:
            ValueError: the number of bins differs, or an item is not of the length of its bin.
        """
        if len(bins) != len(self.sizes):
            raise ValueError(f"expected {len(self.sizes)} groups, got {len(bins)}")
        for number, (items, size) in enumerate(zip(bins, self.sizes)):
            if len(items) >= size or any(self._bin_of(value) != number for _, value in items):
                raise ValueError(f"expected fewer than {size} items of group {number}, got others")
        return [Bin(items) for items in bins]

    def add(self, bins: list[Bin], item: Item) -> list[Bin]:
        """Adds an item to the bin of its length; returns the bin once it has a batch."""
        number = self._bin_of(item[1])
        while len(bins) < len(self.sizes):
            bins.append(Bin())
        bins[number].items.append(item)
        if len(bins[number].items) < self.sizes[number]:
            return []
        complete, bins[number] = bins[number], Bin()
        return [complete]

    def _bin_of(self, value: Any) -> int:
        """Returns the number of the bin for the length of an item; 1 for length 8 with the boundaries (8, 16)."""
        if isinstance(self.length, str):
            return bisect.bisect_right(self.boundaries, _length_of(value, self.length))
        return bisect.bisect_right(self.boundaries, integer("what length= returns", self.length(value), at_least=0))

    def make(self, values: list[Any]) -> Any:
        """Stacks the values of a bin into a batch, padded to the boundary if `pad_to_boundary`."""
        step = self.step
        if self.pad_to_boundary and isinstance(self.length, str):
            number = self._bin_of(values[0])
            if number < len(self.boundaries):
                padding = step.pad if isinstance(step.pad, Padding) else Padding()
                step = replace(step, pad=padding.to(self.length, self.boundaries[number] - 1))
        return step.stack(values)


@dataclass(frozen=True)
class Packed(Grouping):
    """A link that concatenates several examples into arrays of fixed lengths.

    Attributes:
        lengths: length of the array of each feature.
        num_bins: maximum number of open bins.
        overlong: treatment of an example that is longer than an array: "error", "truncate" or "drop".
    """

    lengths: Mapping[str, int]
    num_bins: int = 16
    overlong: str = "error"

    def __post_init__(self) -> None:
        """Checks the attributes; raises a TypeError or a ValueError."""
        if not self.lengths:
            raise ValueError("features must name at least one feature to pack.")
        for name, length in self.lengths.items():
            integer(f"max_length of {name!r}", length, at_least=1)
            for new_name in (f"{name}_segment_ids", f"{name}_positions"):
                if new_name in self.lengths:
                    raise ValueError(
                        f"pack() adds {new_name!r} for {name!r}, but a packed feature has that name. Rename it."
                    )
        integer("num_bins", self.num_bins, at_least=1)
        if self.overlong not in OVERLONG:
            raise ValueError(f"overlong must be 'error', 'truncate' or 'drop', got {self.overlong!r}.")

    @classmethod
    def of(
        cls, max_length: int | Mapping[str, int], features: Iterable[str] | None, num_bins: int, overlong: str
    ) -> Packed:
        """Returns the link for the arguments of `pack()`.

        Args:
            max_length: length of the array of each feature in `features`, or {name of a feature: length}.
            features: names of the features to pack; may be None if `max_length` is a dict.
            num_bins: see the class.
            overlong: see the class.

        Raises:
            TypeError: an argument has another type.
            ValueError: an argument is out of range, or `features` and `max_length` name different features.
        """
        if isinstance(max_length, Mapping):
            if features is not None and set(features) != set(max_length):
                raise ValueError(f"features are {features!r}, but max_length has {list(max_length)}. Leave one out.")
            return cls(dict(max_length), num_bins, overlong)
        if features is None or isinstance(features, str):
            raise TypeError("features must be names of features, as in pack(512, ['tokens']), or max_length a dict.")
        return cls({name: integer("max_length", max_length, at_least=1) for name in features}, num_bins, overlong)

    @property
    def text(self) -> str:
        """The operation in fingerprints, such as "pack({'text': 512}, num_bins=8, overlong=error)"."""
        return f"pack({dict(self.lengths)}, num_bins={self.num_bins}, overlong={self.overlong})"

    @property
    def max_bins(self) -> int:
        """The maximal number of open bins."""
        return self.num_bins

    def add(self, bins: list[Bin], item: Item) -> list[Bin]:
        """Adds an item to the first bin that has space for it. If there is none, opens a new bin.

        Returns the complete bins: full ones, and the oldest one if there would be more than `num_bins`.
        """
        item_lengths = self._lengths(item[1])
        if self.overlong == "drop" and any(map(operator.gt, item_lengths, self.lengths.values())):
            return []
        complete = []
        for target_bin in bins:
            space = target_bin.space
            if space[0] >= item_lengths[0] and all(
                map(operator.ge, space, item_lengths)
            ):  # the first comparison usually decides
                break
        else:
            if len(bins) == self.num_bins:
                complete.append(bins.pop(0))
            target_bin = Bin(space=list(self.lengths.values()))
            bins.append(target_bin)
        target_bin.items.append(item)
        target_bin.space = list(map(operator.sub, target_bin.space, item_lengths))
        if not any(target_bin.space):
            complete.append(bins.pop(next(i for i, candidate in enumerate(bins) if candidate is target_bin)))
        return complete

    def _lengths(self, value: Any) -> list[int]:
        """Returns the length that each feature of an example takes in a bin.

        Raises:
            FeatureValueError: a feature is longer than its array, and `overlong` is "error".
        """
        lengths = []
        for name, limit in self.lengths.items():
            length = _length_of(value, name)
            if length > limit and self.overlong == "error":
                raise FeatureValueError(
                    expected=f"at most {limit} items",
                    got=str(length),
                    advice="Give pack(..., overlong='truncate') or 'drop', or divide the example in map().",
                    feature=name,
                )
            lengths.append(min(length, limit) if self.overlong == "truncate" else length)
        return lengths

    def make(self, values: list[Any]) -> Any:
        """Concatenates the examples of a bin.

        For each feature `f` of length L, the result has three arrays of length L: `f`, followed by zeros;
        `f_segment_ids`, the number of the example (from 1) of each item; `f_positions`, its index in the example.

        Raises:
            FeatureValueError: a feature is a ragged array, or its items have different shapes.
        """
        packed: dict[str, Any] = {}
        for name, limit in self.lengths.items():
            if any(isinstance(value[name], RaggedArray) for value in values):
                raise FeatureValueError("sequences of sequences cannot be packed; flatten them in map().", feature=name)
            arrays = [np.asarray(value[name])[:limit] for value in values]
            shapes = {array.shape[1:] for array in arrays}
            if len(shapes) > 1:
                raise FeatureValueError(
                    f"items of the shapes {sorted(shapes)} cannot be packed together.", feature=name
                )
            dtype = np.result_type(*{array.dtype for array in arrays})
            array = np.full((limit, *arrays[0].shape[1:]), b"" if dtype.hasobject else 0, dtype)
            segment_ids, positions = np.zeros(limit, np.int32), np.zeros(limit, np.int32)
            sizes = np.array(list(map(len, arrays)))
            stop = int(sizes.sum())
            np.concatenate(arrays, out=array[:stop])
            segment_ids[:stop] = np.repeat(np.arange(1, len(arrays) + 1, dtype=np.int32), sizes)
            positions[:stop] = np.arange(stop, dtype=np.int32) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            packed |= {name: array, f"{name}_segment_ids": segment_ids, f"{name}_positions": positions}
        return packed


@dataclass(frozen=True)
class Chunked(Dividing):
    """A link that divides examples into chunks.

    Attributes:
        max_length: maximum length of a chunk.
        names: names of the features to divide.
        overlap: number of items that a chunk has in common with the previous one.
    """

    max_length: int
    names: tuple[str, ...]
    overlap: int

    @classmethod
    def of(cls, max_length: int, features: Iterable[str], overlap: int) -> Chunked:
        """Returns the link for the arguments of `chunk()`; see `Stream.chunk`.

        Raises:
            TypeError: an argument has another type.
            ValueError: a number is out of range.
        """
        size = integer("max_length", max_length, at_least=1)
        if isinstance(features, str) or not (names := tuple(features)):
            raise TypeError("features must be names of features, as in chunk(512, ['tokens']).")
        return cls(size, names, integer("overlap", overlap, at_least=0, at_most=size - 1))

    @property
    def text(self) -> str:
        """The operation in fingerprints, such as "chunk(512, ['text'])"."""
        overlap = f", overlap={self.overlap}" if self.overlap else ""
        return f"chunk({self.max_length}, {list(self.names)}{overlap})"

    def parts(self, value: Any) -> Iterator[Any]:
        """Yields the chunks of an example.

        Raises:
            FeatureValueError: the features have different lengths, or one is a ragged array.
        """
        lengths = {name: _length_of(value, name) for name in self.names}
        length = lengths[self.names[0]]
        if len(set(lengths.values())) > 1:
            raise FeatureValueError(f"chunk(): expected features of one length in an example, got {lengths}.")
        if length <= self.max_length:
            yield value
            return
        for name in self.names:
            if isinstance(value[name], RaggedArray):
                raise FeatureValueError("sequences of sequences have no chunks; flatten them in map().", feature=name)
        for start in range(0, length - self.overlap, self.max_length - self.overlap):
            yield {**value, **{name: value[name][start : start + self.max_length] for name in self.names}}


def _length_of(value: Any, name: str) -> int:
    """Returns the length of the feature `name` of an example.

    Raises:
        FeatureValueError: the example has no such feature, or it has no length.
    """
    try:
        if isinstance(value[name], (bytes, str)):
            raise TypeError("text has no items")
        return len(value[name])
    except (TypeError, KeyError, IndexError) as error:
        raise FeatureValueError(
            expected="a feature with a length in each example",
            got=f"{type(value).__name__}{(f' with {sorted(value)}' if isinstance(value, Mapping) else '')}.",
            feature=name,
        ) from error
