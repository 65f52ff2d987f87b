"""How many shards a split has, where each ends, and which parts of which shards make up a range of examples.

Integer arithmetic only, so that every machine cuts alike. The same functions serve the writer (ranks to shards) and
the reader (slices to file instructions).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from beam_datasets.model.names import FilenameTemplate

if TYPE_CHECKING:
    from collections.abc import Sequence

OVERHEAD_PER_EXAMPLE = 16  # bytes that a TFRecord adds to each record
MIN_SHARD_SIZE = 64 << 20  # bytes
MAX_SHARD_SIZE = 1 << 30  # bytes
_POWERS = tuple(1 << k for k in range(10, 0, -1))  # 1024, 512, ... 2


@dataclass(frozen=True, slots=True)
class FileInstruction:
    """A run of examples of one shard.

    Attributes:
        filename: the shard.
        skip: how many examples of the shard come before the run.
        take: how many examples the run has.
        examples_in_shard: how many examples the whole shard has.
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int

    def __post_init__(self) -> None:
        if not 0 <= self.skip <= self.skip + self.take <= self.examples_in_shard:
            raise ValueError(
                f"{self.filename}: skip={self.skip} and take={self.take} do not lie in a shard of "
                f"{self.examples_in_shard} examples; needed: 0 <= skip, 0 <= take, skip + take <= examples_in_shard."
            )

    @property
    def takes_all(self) -> bool:
        """Whether the run is the whole shard."""
        return self.take == self.examples_in_shard


def choose_num_shards(
    num_examples: int, num_bytes: int, *, min_shard_size: int = MIN_SHARD_SIZE, max_shard_size: int = MAX_SHARD_SIZE
) -> int:
    """Returns how many shards a split gets: the largest count that fits.

    A count fits where no shard would be smaller than `min_shard_size` or larger than `max_shard_size`, and no shard
    empty. Among those that fit it is the largest power of two up to 1024; beyond 1024 shards the smallest multiple
    of 1024. Where the two sizes leave no such number between them, it is the largest number that they leave. These are
    the numbers of TensorFlow Datasets for the default sizes, also where examples larger than `max_shard_size` let no
    count fit: then 1 up to 1024 GiB, and beyond as many as the examples allow.

    Args:
        num_examples: of the split; 0 gives 0 shards.
        num_bytes: of all serialized examples, without the 16 bytes that each takes in a TFRecord.
        min_shard_size: in bytes.
        max_shard_size: in bytes.

    >>> choose_num_shards(50_000, 150 << 20), choose_num_shards(1_281_167, 137 << 30)
    (2, 1024)
    """
    if not 0 < min_shard_size <= max_shard_size:
        raise ValueError(
            f"min_shard_size={min_shard_size} and max_shard_size={max_shard_size} are no range of sizes; "
            "needed: 0 < min_shard_size <= max_shard_size (in bytes)."
        )
    if num_examples < 0 or num_bytes < 0:
        raise ValueError(f"num_examples={num_examples} and num_bytes={num_bytes} must not be negative.")
    total = num_bytes + OVERHEAD_PER_EXAMPLE * num_examples
    fewest, most = total // max_shard_size, total // min_shard_size
    if num_examples <= 1 or most <= 1:
        return min(num_examples, 1)
    if fewest > 1024:
        return _many_shards(fewest, most, num_examples)
    fitting = [n for n in _POWERS if fewest <= n <= most]
    if not fitting:
        return min(most, num_examples)
    return next((n for n in fitting if n <= num_examples), 1)


def _many_shards(fewest: int, most: int, num_examples: int) -> int:
    wanted = min(-(-fewest // 1024) * 1024, most)
    if num_examples >= wanted:
        return wanted
    if num_examples >= 1024:
        return num_examples // 1024 * 1024
    return next(n for n in _POWERS if n <= num_examples)


def shard_ends(num_examples: int, num_shards: int) -> list[int]:
    """Returns where each shard ends, as ranks in the split: round(num_examples * i / num_shards), halves to even.

    >>> shard_ends(23, 4), shard_ends(5, 2)
    ([6, 12, 17, 23], [2, 5])

    Raises:
        ValueError: there are more shards than examples; a shard is never empty.
    """
    if not 0 <= num_shards <= num_examples or (num_examples and not num_shards):
        raise ValueError(
            f"{num_examples} examples cannot be cut into {num_shards} shards; "
            "needed: 1 <= num_shards <= num_examples, so that no shard is empty."
        )
    return [_round_half_even(num_examples * i, num_shards) for i in range(1, num_shards + 1)]


def shard_lengths(num_examples: int, num_shards: int) -> list[int]:
    """Returns how many examples each shard has; they differ by one at most.

    >>> shard_lengths(23, 4)
    [6, 6, 5, 6]

    Raises:
        ValueError: see `shard_ends`.
    """
    return [stop - start for start, stop in pairwise([0, *shard_ends(num_examples, num_shards)])]


def _round_half_even(numerator: int, denominator: int) -> int:
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest + (quotient & 1) > denominator)


def shard_filename(dataset: str, split: str, shard_index: int, num_shards: int) -> str:
    """Returns the name of a shard that is written.

    >>> shard_filename("digits", "train", 3, 8)
    'digits-train.tfrecord-00003-of-00008'
    """
    return FilenameTemplate(dataset, split).filename(shard_index, num_shards)


def shard_offsets(shard_lengths: Sequence[int]) -> list[int]:
    """Returns the index of each shard's first example, and last the number of all examples.

    >>> shard_offsets([10, 7, 0, 13])
    [0, 10, 17, 17, 30]
    """
    return list(accumulate(shard_lengths, initial=0))


def shard_range(start: int, stop: int, offsets: Sequence[int]) -> range:
    """Returns the shards that hold examples [start, stop); some in the midst may be empty.

    Args:
        start: index of the first example.
        stop: index after the last example; at `start` or before it for none.
        offsets: see `shard_offsets`.

    >>> shard_range(12, 18, [0, 10, 17, 17, 30])
    range(1, 4)
    """
    if start >= stop:
        return range(0)
    return range(bisect_right(offsets, start) - 1, bisect_left(offsets, stop))


def file_instructions(
    start: int, stop: int, shard_lengths: Sequence[int], filenames: Sequence[str]
) -> tuple[FileInstruction, ...]:
    """Returns the runs of shards that make up examples [start, stop) of a split, in order; none is empty.

    >>> [(f.filename, f.skip, f.take) for f in file_instructions(3, 12, [5, 0, 10], "abc")]
    [('a', 3, 2), ('c', 0, 7)]

    Raises:
        ValueError: the range does not lie in the split.
    """
    offsets = shard_offsets(shard_lengths)
    if not 0 <= start <= stop <= offsets[-1]:
        raise ValueError(
            f"[{start}, {stop}) does not lie in a split of {offsets[-1]} examples; "
            f"needed: 0 <= start <= stop <= {offsets[-1]}."
        )
    return tuple(
        FileInstruction(filenames[shard], skip, take, shard_lengths[shard])
        for shard, skip, take in shard_runs(start, stop, offsets)
    )


def shard_runs(start: int, stop: int, offsets: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns (shard, skip, take) of the runs that make up examples [start, stop): the plan without the names."""
    runs = []
    for shard in shard_range(start, stop, offsets):
        first, end = offsets[shard], offsets[shard + 1]
        skip = max(start - first, 0)
        take = min(stop, end) - first - skip
        if take:
            runs.append((shard, skip, take))
    return runs
