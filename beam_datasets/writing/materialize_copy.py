"""Copying records into shards, undecoded: which go where, and a shard written in one go.

A shard is not written in parts, as when a dataset is generated: copying needs no memory for what it copies, and to join
parts would be to copy them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import crc32c
import numpy as np

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError, LostExamplesError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.model import shards as shard_rules
from beam_datasets.model.shards import FileInstructions
from beam_datasets.writing.materialize_records import open_records
from beam_datasets.writing.plan import choose_shards
from beam_datasets.writing.shard_writer import WrittenShard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from beam_datasets.model.shards import FileInstruction
    from beam_datasets.writing.materialize_selection import SelectedSplit
    from beam_datasets.writing.materialize_stages import Prepared
    from beam_datasets.writing.plan import ShardingOptions
    from beam_datasets.writing.shard_writer import Destination


@dataclass(frozen=True, slots=True)
class ShardCopy:
    """What a shard is copied of.

    Attributes:
        split: the split's name.
        shard: index of the shard.
        num_shards: of the split.
        keyed: whether the records have sort keys.
        parts: the records, in order, and an index where they have one of their own.
    """

    split: str
    shard: int
    num_shards: int
    keyed: bool
    parts: tuple[tuple[FileInstruction, str | None], ...]


@dataclass(frozen=True)
class SplitCopy:
    """What the shards of a split are copied of.

    Attributes:
        split: the split's name.
        num_shards: of the split.
        keyed: whether the records have sort keys.
        files: all records, in order.
        index_paths: number of a run -> an index that was made for it.
    """

    split: str
    num_shards: int
    keyed: bool
    files: FileInstructions
    index_paths: Mapping[int, str] = field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        """Of the split."""
        return self.files.num_examples

    @cached_property
    def _ends(self) -> list[int]:
        return shard_rules.shard_ends(self.num_examples, self.num_shards)

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """How many examples there are up to the end of each run."""
        return np.cumsum(self.files.take)

    def shard(self, number: int) -> ShardCopy:
        """Returns what the shard of this number is copied of."""
        start, stop = self._ends[number - 1] if number else 0, self._ends[number]
        first = int(np.searchsorted(self._runs, start, side="right"))
        parts = enumerate(self.files.part(start, stop), first)
        indexed = tuple((file, self.index_paths.get(run)) for run, file in parts)
        return ShardCopy(self.split, number, self.num_shards, self.keyed, indexed)


@dataclass(frozen=True)
class CopyPlan:
    """What all shards are copied of: the splits in the order in which they are asked for."""

    splits: tuple[SplitCopy, ...]

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(split.num_shards for split in self.splits)])

    def __len__(self) -> int:
        """Number of shards of all splits."""
        return int(self._firsts[-1])

    def shard(self, number: int) -> ShardCopy:
        """Returns what a shard is copied of, counted over all splits."""
        split = int(np.searchsorted(self._firsts, number, side="right")) - 1
        return self.splits[split].shard(number - int(self._firsts[split]))


def plan_copy(splits: Iterable[SelectedSplit], sharding: ShardingOptions) -> CopyPlan:
    """Returns the plan of copying splits as they are, whose sizes are known.

    Raises:
        BeamDatasetsError: a split has fewer examples than shards are asked for.
    """
    return CopyPlan(
        tuple(
            SplitCopy(
                split.name,
                choose_shards(split.name, split.num_examples, split.num_bytes, sharding),
                split.keyed,
                split.files,
            )
            for split in splits
        )
    )


def plan_prepared(
    prepared: Iterable[Prepared], expected: int, splits: Sequence[SelectedSplit], sharding: ShardingOptions
) -> CopyPlan:
    """Returns the plan of copying what was prepared.

    Args:
        prepared: all of it, in any order.
        expected: how many stretches there are.
        splits: what they are of.
        sharding: what decides the number of shards.

    Raises:
        LostExamplesError: stretches are missing, or there twice.
        BeamDatasetsError: a split has no examples, or fewer than shards are asked for.
    """
    in_order = sorted(prepared, key=lambda part: part.number)
    if [part.number for part in in_order] != list(range(expected)):
        raise LostExamplesError(
            f"{len(in_order)} stretches of the source were read, {expected} were planned. The engine lost or doubled "
            "some; nothing was published. Run it again, and not with direct_running_mode=multi_threading."
        )
    return CopyPlan(tuple(_of_prepared(split, in_order, sharding) for split in splits))


def _of_prepared(split: SelectedSplit, prepared: Sequence[Prepared], sharding: ShardingOptions) -> SplitCopy:
    parts = [part for part in prepared if part.split == split.name and part.file.take]
    num_examples = sum(part.file.take for part in parts)
    if not num_examples:
        raise BeamDatasetsError(
            f"split {split.name!r} has no examples left: the filter keeps none of the {split.num_examples} of "
            f"{split.expression}. A published split needs at least one; leave the split out, or change the filter."
        )
    num_shards = choose_shards(split.name, num_examples, sum(part.num_bytes for part in parts), sharding)
    indexes = {run: part.index_path for run, part in enumerate(parts) if part.index_path is not None}
    return SplitCopy(split.name, num_shards, split.keyed, _columns([part.file for part in parts]), indexes)


def _columns(files: Sequence[FileInstruction]) -> FileInstructions:
    skip, take, examples = (
        np.array([getattr(file, name) for file in files], np.int64) for name in ("skip", "take", "examples_in_shard")
    )
    names = [file.filename for file in files]
    return FileInstructions([names], np.zeros_like(skip), np.arange(len(files)), skip, take, examples)


def piece_counts(prepared: Iterable[Prepared], split: SelectedSplit) -> list[int]:
    """Returns how many examples of each piece of a split were kept."""
    counts = [0] * len(split.pieces)
    for part in prepared:
        if part.split == split.name:
            counts[part.piece] += part.file.take
    return counts


def copy_shard(copy: ShardCopy, destination: Destination) -> WrittenShard:
    """Writes a shard and its index; returns what was written. Done again it writes the same.

    Raises:
        CorruptRecordError: a record of the source is damaged; it names file, byte and record.
        MetadataError: an index of the source is damaged, or lacks keys that others have.
        StorageError: a file cannot be read or written.
    """
    path = destination.path(copy.split, copy.shard, copy.num_shards)
    offsets, keys, ordered = [np.zeros(1, np.int64)], [], copy.keyed
    checksum = before = 0
    with storage.open_writer(path) as writer:
        for file, index_path in copy.parts:
            with open_records(file, keyed=copy.keyed, index_path=index_path) as records:
                for first, places, buffer in records.chunks():
                    records.check(first, places, buffer)
                    checksum = crc32c.crc32c(buffer, checksum)
                    writer.write([buffer])
            offsets.append(records.offsets[1:] - records.offsets[0] + before)
            before = int(offsets[-1][-1])
            if records.keys is not None:
                keys.append(records.keys)
                ordered = ordered and records.ordered
    joined = np.concatenate(keys) if copy.keyed else None
    index = Index(np.concatenate(offsets), joined, ordered=ordered, unsorted=True)
    content = index.to_bytes()
    storage.write_bytes(path + ".index", content)
    return WrittenShard(
        copy.split, copy.shard, 0, path, len(index), before - tfrecord.OVERHEAD * len(index), before,
        checksum, crc32c.crc32c(content),
    )  # fmt: skip
