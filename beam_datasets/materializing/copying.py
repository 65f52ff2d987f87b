"""Copies encoded records into shards: the plan of the records of each shard, and writing a shard.

A shard is not written in parts, as it is when a dataset is generated: copying needs little memory, and joining parts
would copy them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import NoExamplesError
from beam_datasets.materializing.records import Opener, RecordRange, RecordRanges
from beam_datasets.metadata.shards import FileInstruction, FileInstructions, shard_ends
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing.shard_file import Destination, ShardFile, WrittenShard
from beam_datasets.shuffle.plan import choose_shards

if TYPE_CHECKING:
    from beam_datasets.materializing.selection import SelectedSplit


@dataclass(frozen=True)
class SplitCopy:
    """Source records of the shards of a split.

    Attributes:
        split: the split's name.
        num_shards: number of shards of the split.
        keyed: whether the records have sort keys.
        files: all records, in order.
        num_bytes: framed size of all records.
        index_paths: file -> an index that was made for it, because it has none.
    """

    split: str
    num_shards: int
    keyed: bool
    files: FileInstructions
    num_bytes: int
    index_paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        """Number of examples of the split."""
        return self.files.num_examples

    @cached_property
    def _borders(self) -> list[int]:
        """Returns the index of the first example of each shard, followed by the number of examples."""
        return [0, *shard_ends(self.num_examples, self.num_shards)]

    def span(self, shard: int) -> tuple[int, int]:
        """Returns the range [start, stop) of the examples of a shard, as indices in the split; such as (0, 100)."""
        return self._borders[shard], self._borders[shard + 1]

    def shard(self, number: int) -> FileInstructions:
        """Returns the ranges of source records from which a shard is copied."""
        return self.files.part(*self.span(number))


@dataclass(frozen=True)
class CopyPlan:
    """Source records of all shards.

    Attributes:
        splits: source records of each split, in the requested order.
        requests: I/O counts of preparing the ranges.
        libraries: always empty, because copied records are not encoded.
        left_out: always empty, because copied records are complete.
    """

    splits: tuple[SplitCopy, ...]
    requests: storage.Requests = field(default=storage.Requests())
    libraries: tuple[str, ...] = ()
    left_out: tuple[Mapping[str, Any], ...] = ()

    def shards(self) -> Iterator[tuple[int, int]]:
        """Yields (number of the split, number of the shard) of all shards."""
        return ((number, shard) for number, split in enumerate(self.splits) for shard in range(split.num_shards))


def plan_copy(splits: Iterable[SelectedSplit], sharding: ShardingOptions) -> CopyPlan:
    """Returns the plan to copy splits with unchanged records, from their files and sizes; reads no record.

    Raises:
        BeamDatasetsError: a split has fewer examples than the requested number of shards.
    """
    return CopyPlan(tuple(_split_copy(split, split.files, split.num_bytes, sharding, {}) for split in splits))


def plan_prepared(ranges: RecordRanges, prepared: Iterable[RecordRange], sharding: ShardingOptions) -> CopyPlan:
    """Returns the plan to copy the prepared ranges, which may be given in any order.

    Raises:
        LostExamplesError: ranges are missing, or prepared twice.
        BeamDatasetsError: a split has no examples, or fewer than the requested number of shards.
    """
    in_order = sorted(prepared, key=lambda prepared_range: prepared_range.number)
    ranges.check_all_read(prepared_range.number for prepared_range in in_order)
    splits = []
    for split in ranges.splits:
        parts = [
            prepared_range
            for prepared_range in in_order
            if prepared_range.split == split.name and prepared_range.file.take
        ]
        if not parts:
            raise NoExamplesError(
                f"split {split.name!r} has no examples: the filter keeps none of the {split.num_examples} of "
                f"{split.expression}",
                split=split.name,
                advice="A published split needs at least one: leave the split out, or change the filter.",
            )
        longest_last = sorted(parts, key=lambda prepared_range: prepared_range.file.skip + prepared_range.file.take)
        indexes = {
            prepared_range.file.filename: prepared_range.index_path
            for prepared_range in longest_last
            if prepared_range.index_path is not None
        }
        files, num_bytes = (
            _to_file_instructions([prepared_range.file for prepared_range in parts]),
            sum(prepared_range.num_bytes for prepared_range in parts),
        )
        splits.append(_split_copy(split, files, num_bytes, sharding, indexes))
    return CopyPlan(tuple(splits), storage.sum_requests(prepared_range.requests for prepared_range in in_order))


def _split_copy(
    split: SelectedSplit,
    files: FileInstructions,
    num_bytes: int,
    sharding: ShardingOptions,
    indexes: Mapping[str, str],
) -> SplitCopy:
    """Chooses the number of shards of a split, and returns the plan of copying it.

    Args:
        split: the split, with its name.
        files: all records of the split, in order.
        num_bytes: framed size of all records in bytes.
        sharding: options that decide the number of shards.
        indexes: path of a file -> path of an index that was made for it, because it has none.
    """
    num_shards = choose_shards(split.name, files.num_examples, num_bytes, sharding)
    return SplitCopy(split.name, num_shards, split.keyed, files, num_bytes, indexes)


def _to_file_instructions(files: Sequence[FileInstruction]) -> FileInstructions:
    """Returns ranges of shards as `FileInstructions`, which hold them as arrays."""
    skip, take, examples = (
        np.array([getattr(file, name) for file in files], np.int64) for name in ("skip", "take", "examples_in_shard")
    )
    names = [file.filename for file in files]
    return FileInstructions([names], np.zeros_like(skip), np.arange(len(files)), skip, take, examples)


def copy_shard(plan: CopyPlan, shard: tuple[int, int], destination: Destination) -> WrittenShard:
    """Writes a shard and its index, and returns their sizes and checksums. Writing it again produces the same bytes.

    Args:
        plan: the plan.
        shard: (number of the split in the plan, number of the shard in the split).
        destination: the staging directory.

    Raises:
        CorruptRecordError: a record of the source is damaged; the error names file, byte and record.
        MetadataError: an index of the source is damaged, or lacks the keys that other indexes have.
        StorageError: a file cannot be read or written.
    """
    copy, number = plan.splits[shard[0]], shard[1]
    opener, are_integers = Opener(), copy.keyed
    with ShardFile(destination.path(copy.split, number, copy.num_shards)) as shard_file:
        for file in copy.shard(number):
            records = opener.open(file, keyed=copy.keyed, index_path=copy.index_paths.get(file.filename))
            shard_file.add_to_index(np.diff(records.offsets), records.keys)
            are_integers = are_integers and records.ordered
            for first, positions, buffer in records.chunks():
                records.check(first, positions, buffer)
                shard_file.write([buffer])
    return shard_file.finish(copy.split, number, ordered=are_integers, unsorted=True)
