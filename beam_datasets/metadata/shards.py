"""Arithmetic of shards: their number, their ends, and the runs of a range of examples.

It uses only integers, so that every machine computes the same shards. The same functions serve the writer (ranks to
shards) and the reader (slices to file instructions).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

OVERHEAD_PER_EXAMPLE = 16  # bytes that a TFRecord adds to each record
MIN_SHARD_SIZE = 64 << 20  # bytes
MAX_SHARD_SIZE = 1 << 30  # bytes
_POWERS = tuple(1 << k for k in range(10, 0, -1))  # 1024, 512, ... 2


@dataclass(frozen=True, slots=True)
class FileInstruction:
    """A run of examples of one shard.

    Attributes:
        filename: file name of the shard.
        skip: number of examples of the shard before the run.
        take: number of examples of the run.
        examples_in_shard: number of examples of the whole shard.
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int

    def __post_init__(self) -> None:
        if not 0 <= self.skip <= self.skip + self.take <= self.examples_in_shard:
            raise ValueError(
                f"{self.filename}: skip={self.skip} and take={self.take} are not in a shard of "
                f"{self.examples_in_shard} examples; needed: 0 <= skip, 0 <= take, skip + take <= examples_in_shard."
            )

    @property
    def takes_all(self) -> bool:
        """Whether the run extends to the end of the shard."""
        return self.skip + self.take == self.examples_in_shard


def choose_num_shards(
    num_examples: int, num_bytes: int, *, min_shard_size: int = MIN_SHARD_SIZE, max_shard_size: int = MAX_SHARD_SIZE
) -> int:
    """Returns the number of shards of a split, as large as the sizes allow.

    A number n fits if size // max_shard_size <= n <= size // min_shard_size, where `size` includes the framing. The
    result is the largest power of two up to 1024 that fits and is at most `num_examples`. Otherwise it is

    * 1, if all powers of two that fit are more than `num_examples`, or if no number above 1 fits;
    * the largest number that fits, if no power of two fits;
    * the smallest multiple of 1024 that fits, if more than 1024 shards are needed; see `_many_shards`.

    The result is never more than `num_examples`. For the default sizes, it is the number of TensorFlow Datasets.

    Args:
        num_examples: number of examples of the split; 0 for 0 shards.
        num_bytes: size of all serialized examples in bytes, without the 16 bytes of framing of each.
        min_shard_size: minimum size of a shard in bytes, at least 1.
        max_shard_size: maximum size of a shard in bytes, at least `min_shard_size`.

    >>> choose_num_shards(50_000, 150 << 20), choose_num_shards(1_281_167, 137 << 30), choose_num_shards(10, 9 << 30)
    (2, 1024, 1)
    """
    total = num_bytes + OVERHEAD_PER_EXAMPLE * num_examples
    min_shards, max_shards = total // max_shard_size, total // min_shard_size
    if num_examples <= 1 or max_shards <= 1:
        return min(num_examples, 1)
    if min_shards > 1024:
        return _many_shards(min_shards, max_shards, num_examples)
    fitting = [n for n in _POWERS if min_shards <= n <= max_shards]
    if not fitting:
        return min(max_shards, num_examples)
    return next((n for n in fitting if n <= num_examples), 1)


def _many_shards(min_shards: int, max_shards: int, num_examples: int) -> int:
    """Returns the number of shards if the sizes need more than 1024: if possible, a multiple of 1024.

    With fewer examples than that, it is the largest multiple of 1024, or power of two below, of at most as many shards
    as examples.

    Args:
        min_shards: number of shards of the maximum size.
        max_shards: number of shards of the minimum size, the upper limit.
        num_examples: number of examples; each shard gets at least one.

    >>> _many_shards(1500, 9000, 1_000_000), _many_shards(1500, 9000, 1500)
    (2048, 1024)
    """
    num_shards = min(-(-min_shards // 1024) * 1024, max_shards)
    if num_examples >= num_shards:
        return num_shards
    if num_examples >= 1024:
        return num_examples // 1024 * 1024
    return next(n for n in _POWERS if n <= num_examples)


def shard_ends(num_examples: int, num_shards: int) -> list[int]:
    """Returns the end of each shard, as a rank in the split: round(num_examples * i / num_shards), halves to even.

    >>> shard_ends(23, 4), shard_ends(5, 2)
    ([6, 12, 17, 23], [2, 5])
    """
    return [_round_half_even(num_examples * i, num_shards) for i in range(1, num_shards + 1)]


def _round_half_even(numerator: int, denominator: int) -> int:
    """Returns the integer nearest to a fraction; a half is rounded to the even one: 2 for 5/2, 4 for 7/2."""
    quotient, remainder = divmod(numerator, denominator)
    return quotient + (2 * remainder + (quotient & 1) > denominator)


def shard_offsets(shard_lengths: Sequence[int]) -> NDArray[np.int64]:
    """Returns the index of each shard's first example, and last the number of all examples; shape (n + 1,).

    >>> shard_offsets([10, 7, 0, 13]).tolist()
    [0, 10, 17, 17, 30]
    """
    offsets = np.zeros(len(shard_lengths) + 1, np.int64)
    np.cumsum(shard_lengths, out=offsets[1:])
    return offsets


@dataclass(frozen=True, eq=False, repr=False)
class FileInstructions(Sequence[FileInstruction]):
    """File instructions in columns: a sequence of `FileInstruction`, each created when it is accessed.

    A split of 100,000 shards is sliced in a millisecond, and stored in a few arrays. It compares with any sequence of
    file instructions. `between` and `concatenate` create it.

    Attributes:
        filenames: for each source, such as a split, the names of all its shards.
        source: index of the source of each run in `filenames`; int64, shape (n,), as all following columns.
        shard: index of the shard of each run in its source.
        skip: number of examples of the shard before each run.
        take: number of examples of each run, at least one.
        examples_in_shard: number of examples of the whole shard of each run.
    """

    filenames: Sequence[Sequence[str]]
    source: NDArray[np.int64]
    shard: NDArray[np.int64]
    skip: NDArray[np.int64]
    take: NDArray[np.int64]
    examples_in_shard: NDArray[np.int64]

    @classmethod
    def between(cls, start: int, stop: int, offsets: NDArray[np.int64], filenames: Sequence[str]) -> FileInstructions:
        """Returns the runs of examples [start, stop) of a split, in order; shards without examples are left out.

        >>> runs = FileInstructions.between(3, 12, shard_offsets([5, 0, 10]), "abc")
        >>> [(run.filename, run.skip, run.take) for run in runs]
        [('a', 3, 2), ('c', 0, 7)]

        Args:
            start: index of the first example.
            stop: index after the last one.
            offsets: see `shard_offsets`.
            filenames: names of the shards.

        Raises:
            ValueError: the range is not within the split.
        """
        total = int(offsets[-1])
        if not 0 <= start <= stop <= total:
            raise ValueError(
                f"[{start}, {stop}) is not in a split of {total} examples; expected 0 <= start <= stop <= {total}."
            )
        first, last = np.searchsorted(offsets, (start, stop), side="right") - 1
        shard = np.arange(first, min(last + 1, len(offsets) - 1))
        begin, end = offsets[shard], offsets[shard + 1]
        skip = np.maximum(start - begin, 0)
        take = np.minimum(stop, end) - begin - skip
        is_selected = take > 0
        columns = (shard[is_selected], skip[is_selected], take[is_selected], (end - begin)[is_selected])
        return cls([filenames], np.zeros_like(columns[0]), *columns)

    @classmethod
    def concatenate(cls, parts: Iterable[FileInstructions]) -> FileInstructions:
        """Returns the runs of all parts, one part after the other."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        filenames = [names for instructions in parts for names in instructions.filenames]
        sources, base = [_NO_RUNS], 0
        for instructions in parts:
            sources.append(instructions.source + base)
            base += len(instructions.filenames)
        columns = (
            np.concatenate([_NO_RUNS, *(getattr(instructions, column) for instructions in parts)])
            for column in ("shard", "skip", "take", "examples_in_shard")
        )
        return cls(filenames, np.concatenate(sources), *columns)

    @cached_property
    def num_examples(self) -> int:
        """Number of examples of all runs."""
        return int(self.take.sum())

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        """The number of examples before each run, and last the number of all; int64, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(self.take)])

    def part(self, start: int, stop: int) -> FileInstructions:
        """Returns the runs of examples [start, stop), counted over all runs.

        >>> runs = FileInstructions.between(2, 20, shard_offsets([10, 10]), "ab")
        >>> [(run.filename, run.skip, run.take) for run in runs.part(6, 11)]
        [('a', 8, 2), ('b', 0, 3)]

        Raises:
            ValueError: the range is not within the examples of these runs.
        """
        if not 0 <= start <= stop <= self.num_examples:
            raise ValueError(f"[{start}, {stop}) does not lie in runs of {self.num_examples} examples.")
        if start == stop:
            return self[:0]
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        runs = self[first : int(np.searchsorted(self._offsets, stop, side="left"))]
        skip, take = runs.skip.copy(), runs.take.copy()
        take[-1] = stop - self._offsets[first + len(runs) - 1]
        num_skipped = start - self._offsets[first]
        skip[0] += num_skipped
        take[0] -= num_skipped
        return FileInstructions(runs.filenames, runs.source, runs.shard, skip, take, runs.examples_in_shard)

    def divided(self, counts: NDArray[np.int64]) -> FileInstructions:
        """Returns the runs, each divided into `counts` parts of about the same length, in order.

        Args:
            counts: number of parts of each run, shape (n,); at least 1, at most the number of examples of the run.

        >>> runs = FileInstructions.between(0, 15, shard_offsets([10, 10]), "ab")
        >>> [(run.filename, run.skip, run.take) for run in runs.divided(np.array([3, 1]))]
        [('a', 0, 3), ('a', 3, 3), ('a', 6, 4), ('b', 0, 5)]
        """
        run = np.repeat(np.arange(len(self)), counts)
        piece_numbers = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
        start, stop = (self.take[run] * number // counts[run] for number in (piece_numbers, piece_numbers + 1))
        return FileInstructions(
            self.filenames, self.source[run], self.shard[run], self.skip[run] + start, stop - start,
            self.examples_in_shard[run],
        )  # fmt: skip

    def filename(self, run: int) -> str:
        """Returns the file name of the shard of a run, given the index of the run."""
        return self.filenames[int(self.source[run])][int(self.shard[run])]

    def __len__(self) -> int:
        return len(self.take)

    @overload
    def __getitem__(self, index: int) -> FileInstruction: ...
    @overload
    def __getitem__(self, index: slice) -> FileInstructions: ...
    def __getitem__(self, index: int | slice) -> FileInstruction | FileInstructions:
        if isinstance(index, slice):
            columns = (self.source, self.shard, self.skip, self.take, self.examples_in_shard)
            return FileInstructions(self.filenames, *(column[index] for column in columns))
        skip, take, examples = self.skip[index], self.take[index], self.examples_in_shard[index]
        return FileInstruction(self.filename(index), int(skip), int(take), int(examples))

    def __iter__(self) -> Iterator[FileInstruction]:
        columns = (self.source, self.shard, self.skip, self.take, self.examples_in_shard)
        for source, shard, *run in zip(*(column.tolist() for column in columns)):
            yield FileInstruction(self.filenames[source][shard], *run)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        text = ", ".join(map(repr, self[:3]))
        return f"FileInstructions([{text}{', ...' if len(self) > 3 else ''}]) of {len(self)} runs"


_NO_RUNS = np.zeros(0, np.int64)
