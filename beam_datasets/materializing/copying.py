"""Copying records into shards, undecoded: which records go into which shard, and writing a shard.

A shard is not written in parts, as it is when a dataset is generated: copying needs little memory, and joining parts
would copy them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.extras import Buffer
from beam_datasets.formats.index import Index
from beam_datasets.generate.plan import ShardingOptions, choose_shards
from beam_datasets.generate.shard_writer import Destination, WrittenShard, new_dir
from beam_datasets.materializing.records import Opener, RecordRange, RecordRanges
from beam_datasets.metadata.shards import FileInstruction, FileInstructions, shard_ends
from beam_datasets.native import crc32c
from beam_datasets.reading.shards import INDEX_SUFFIX

if TYPE_CHECKING:
    from beam_datasets.materializing.selection import SelectedSplit


GROUP_BYTES = 1 << 20
MAX_GROUP = 128
"""Limits of a group of small shards that one worker copies one after the other, to spare the engine's time for each."""


@dataclass(frozen=True)
class SplitCopy:
    """What the shards of a split are copied of.

    Attributes:
        split: the split's name.
        num_shards: of the split.
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
        return [0, *shard_ends(self.num_examples, self.num_shards)]

    def span(self, shard: int) -> tuple[int, int]:
        """Returns the half-open range of the examples of a shard, as indices in the split."""
        return self._borders[shard], self._borders[shard + 1]

    def shard(self, number: int) -> FileInstructions:
        """Returns what a shard is copied of."""
        return self.files.part(*self.span(number))

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yields the shards in groups [first, stop), each of which one worker copies."""
        mean = max(self.num_bytes // self.num_shards, 1)
        size = min(max(GROUP_BYTES // mean, 1), MAX_GROUP)
        for first in range(0, self.num_shards, size):
            yield first, min(first + size, self.num_shards)


@dataclass(frozen=True)
class CopyPlan:
    """What all shards are copied of.

    Attributes:
        splits: in the order in which they are asked for.
        requests: what preparing the ranges has taken.
    """

    splits: tuple[SplitCopy, ...]
    requests: storage.Requests = field(default=storage.Requests())

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Yields the shards in groups (number of the split, first, stop), each of which one worker copies."""
        for number, split in enumerate(self.splits):
            for first, stop in split.groups():
                yield number, first, stop


def plan_copy(splits: Iterable[SelectedSplit], sharding: ShardingOptions) -> CopyPlan:
    """Returns the plan of copying splits as they are, whose sizes are known.

    Raises:
        BeamDatasetsError: a split has fewer examples than shards are asked for.
    """
    return CopyPlan(tuple(_split_copy(split, split.files, split.num_bytes, sharding, {}) for split in splits))


def plan_prepared(prepared: Iterable[RecordRange], ranges: RecordRanges, sharding: ShardingOptions) -> CopyPlan:
    """Returns the plan of copying what was prepared, in any order.

    Raises:
        LostExamplesError: ranges are missing, or prepared twice.
        BeamDatasetsError: a split has no examples, or fewer than shards are asked for.
    """
    in_order = sorted(prepared, key=lambda part: part.number)
    ranges.check_all_read(part.number for part in in_order)
    splits = []
    for split in ranges.splits:
        parts = [part for part in in_order if part.split == split.name and part.file.take]
        if not parts:
            raise BeamDatasetsError(
                f"split {split.name!r} has no examples left: the filter keeps none of the {split.num_examples} of "
                f"{split.expression}. A published split needs at least one; leave the split out, or change the filter."
            )
        longest_last = sorted(parts, key=lambda part: part.file.skip + part.file.take)
        indexes = {part.file.filename: part.index_path for part in longest_last if part.index_path is not None}
        files, num_bytes = _columns([part.file for part in parts]), sum(part.num_bytes for part in parts)
        splits.append(_split_copy(split, files, num_bytes, sharding, indexes))
    return CopyPlan(tuple(splits), storage.sum_requests(part.requests for part in in_order))


def _split_copy(
    split: SelectedSplit,
    files: FileInstructions,
    num_bytes: int,
    sharding: ShardingOptions,
    indexes: Mapping[str, str],
) -> SplitCopy:
    num_shards = choose_shards(split.name, files.num_examples, num_bytes, sharding)
    return SplitCopy(split.name, num_shards, split.keyed, files, num_bytes, indexes)


def _columns(files: Sequence[FileInstruction]) -> FileInstructions:
    skip, take, examples = (
        np.array([getattr(file, name) for file in files], np.int64) for name in ("skip", "take", "examples_in_shard")
    )
    names = [file.filename for file in files]
    return FileInstructions([names], np.zeros_like(skip), np.arange(len(files)), skip, take, examples)


def copy_shards(plan: CopyPlan, group: tuple[int, int, int], destination: Destination) -> Iterator[WrittenShard]:
    """Writes the shards of a group, each with its index; yields what was written. Done again it writes the same.

    Raises:
        CorruptRecordError: a record of the source is damaged; it names file, byte and record.
        MetadataError: an index of the source is damaged, or lacks keys that others have.
        StorageError: a file cannot be read or written.
    """
    number, first, stop = group
    copy, opener, waiting = plan.splits[number], Opener(), 0
    name, directory = destination.shard_names(copy.split, copy.num_shards), new_dir(destination.directory)
    small: list[tuple[WrittenShard, Buffer, Buffer]] = []
    for shard in range(first, stop):
        source = _ShardSource(copy, shard, opener)
        chunks = source.chunks()
        path, chunk, more = storage.join(directory, name(shard)), next(chunks), next(chunks, None)
        if more is not None:
            with storage.open_writer(path) as writer:
                writer.write([chunk, more])
                for chunk in chunks:
                    writer.write([chunk])
            written, index = source.finish(path)
            storage.write_bytes(path + INDEX_SUFFIX, index)
            yield written
            continue
        written, index = source.finish(path)
        small.append((written, chunk, index))
        waiting += written.file_bytes
        if waiting >= GROUP_BYTES:
            yield from _write_small(small, directory)
            small, waiting = [], 0
    yield from _write_small(small, directory)


def _write_small(shards: Sequence[tuple[WrittenShard, Buffer, Buffer]], directory: str) -> list[WrittenShard]:
    """Writes small shards (shard, content, content of the index) together; returns the shards."""
    files: list[tuple[str, Buffer]] = []
    for written, content, index in shards:
        name = storage.basename(written.path)
        files += [(name, content), (name + INDEX_SUFFIX, index)]
    if files:
        storage.write_files(directory, files)
    return [written for written, *_ in shards]


class _ShardSource:
    """The records that a shard is copied of, while they are read."""

    def __init__(self, copy: SplitCopy, shard: int, opener: Opener) -> None:
        self._copy = copy
        self._shard = shard
        self._opener = opener
        self._offsets = [np.zeros(1, np.int64)]
        self._keys: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]] = []
        self._ordered = copy.keyed
        self._crc = 0

    def chunks(self) -> Iterator[Buffer]:
        """Yields the framed records, checked."""
        for file in self._copy.shard(self._shard):
            records = self._opener.open(
                file, keyed=self._copy.keyed, index_path=self._copy.index_paths.get(file.filename)
            )
            self._offsets.append(records.offsets[1:] - records.offsets[0] + self._offsets[-1][-1])
            if records.keys is not None:
                self._keys.append(records.keys)
                self._ordered = self._ordered and records.ordered
            for first, places, buffer in records.chunks():
                records.check(first, places, buffer)
                self._crc = crc32c(buffer, self._crc)
                yield buffer

    def finish(self, path: str) -> tuple[WrittenShard, bytes]:
        """Returns the shard whose records were all read, and its index."""
        keys = np.concatenate(self._keys) if self._copy.keyed else None
        index = Index(np.concatenate(self._offsets), keys, ordered=self._ordered, unsorted=True)
        return WrittenShard.of(self._copy.split, self._shard, path, index, self._crc)
