"""Copying records into shards, undecoded: which go where, and a shard written in one go.

A shard is not written in parts, as when a dataset is generated: copying needs no memory for what it copies, and to join
parts would be to copy them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import crc32c
import numpy as np

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.model import shards as shard_rules
from beam_datasets.model.shards import FileInstruction, FileInstructions
from beam_datasets.reading.glancing import glance
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.writing.materialize_records import LOCAL_CHUNK, LastShard, open_records
from beam_datasets.writing.materialize_stages import check_read
from beam_datasets.writing.plan import choose_shards
from beam_datasets.writing.shard_writer import WrittenShard, new_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from beam_datasets.writing.materialize_selection import SelectedSplit
    from beam_datasets.writing.materialize_stages import Prepared
    from beam_datasets.writing.plan import ShardingOptions
    from beam_datasets.writing.shard_writer import Destination

BYTES_AT_ONCE = 1 << 20
SHARDS_AT_ONCE = 128
"""Shards of fewer bytes are copied one after the other by one worker, to which the engine takes time to give them."""


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
        num_bytes: of all records, framed.
        index_paths: number of a run -> an index that was made for it.
    """

    split: str
    num_shards: int
    keyed: bool
    files: FileInstructions
    num_bytes: int
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

    def shards(self, first: int, stop: int) -> Iterator[ShardCopy]:
        """Yields what the shards [first, stop) are copied of."""
        start = self._ends[first - 1] if first else 0
        run = int(np.searchsorted(self._runs, start, side="right"))
        rests = [(run + i, file) for i, file in enumerate(self.files.part(start, self._ends[stop - 1]))][::-1]
        for shard in range(first, stop):
            parts = []
            while start < self._ends[shard]:
                run, file = rests.pop()
                taken, rest = _divide(file, self._ends[shard] - start)
                if rest is not None:
                    rests.append((run, rest))
                parts.append((taken, self.index_paths.get(run)))
                start += taken.take
            yield ShardCopy(self.split, shard, self.num_shards, self.keyed, tuple(parts))

    @property
    def shards_at_once(self) -> int:
        """How many shards one worker copies one after the other."""
        mean = max(self.num_bytes // self.num_shards, 1)
        return min(max(BYTES_AT_ONCE // mean, 1), SHARDS_AT_ONCE)


def _divide(file: FileInstruction, most: int) -> tuple[FileInstruction, FileInstruction | None]:
    """Returns the first records of a run, so many at most, and the others, if there are any."""
    if file.take <= most:
        return file, None
    name, examples = file.filename, file.examples_in_shard
    return (
        FileInstruction(name, file.skip, most, examples),
        FileInstruction(name, file.skip + most, file.take - most, examples),
    )


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

    def shards(self, first: int, stop: int) -> Iterator[ShardCopy]:
        """Yields what the shards [first, stop) of one split are copied of, counted over all splits."""
        split = int(np.searchsorted(self._firsts, first, side="right")) - 1
        before = int(self._firsts[split])
        yield from self.splits[split].shards(first - before, stop - before)

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yields the shards in groups [first, stop), each of which one worker copies."""
        for split, first, end in zip(self.splits, self._firsts.tolist(), self._firsts[1:].tolist()):
            for start in range(first, end, split.shards_at_once):
                yield start, min(start + split.shards_at_once, end)


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
                split.num_bytes,
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
    check_read([part.number for part in in_order], expected)
    return CopyPlan(tuple(_of_prepared(split, in_order, sharding) for split in splits))


def _of_prepared(split: SelectedSplit, prepared: Sequence[Prepared], sharding: ShardingOptions) -> SplitCopy:
    parts = [part for part in prepared if part.split == split.name and part.file.take]
    num_examples = sum(part.file.take for part in parts)
    if not num_examples:
        raise BeamDatasetsError(
            f"split {split.name!r} has no examples left: the filter keeps none of the {split.num_examples} of "
            f"{split.expression}. A published split needs at least one; leave the split out, or change the filter."
        )
    num_bytes = sum(part.num_bytes for part in parts)
    num_shards = choose_shards(split.name, num_examples, num_bytes, sharding)
    indexes = {run: part.index_path for run, part in enumerate(parts) if part.index_path is not None}
    files = _columns([part.file for part in parts])
    return SplitCopy(split.name, num_shards, split.keyed, files, num_bytes, indexes)


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


def copy_shards(copies: Iterable[ShardCopy], destination: Destination) -> Iterator[WrittenShard]:
    """Writes shards of a split, each with its index; yields what was written. Done again it writes the same.

    Raises:
        CorruptRecordError: a record of the source is damaged; it names file, byte and record.
        MetadataError: an index of the source is damaged, or lacks keys that others have.
        StorageError: a file cannot be read or written.
    """
    last, name, waiting = LastShard(), None, 0
    small: list[_Small] = []
    directory = new_dir(destination.directory)
    for copy in copies:
        name = name or destination.shard_names(copy.split, copy.num_shards)
        path = storage.join(directory, name(copy.shard))
        shard = _whole(copy, path) or _part(copy, path, last)
        if shard is None:
            yield _copy_large(copy, path, last)
            continue
        small.append(shard)
        waiting += shard.written.file_bytes
        if waiting >= BYTES_AT_ONCE:
            yield from _write_small(small, directory)
            small, waiting = [], 0
    yield from _write_small(small, directory)


class _Small(NamedTuple):
    """A shard that is written at once.

    Attributes:
        content: of its file.
        index_content: of the file of its index.
        written: the shard, once these are written.
    """

    content: Buffer
    index_content: Buffer
    written: WrittenShard


def _write_small(shards: Sequence[_Small], directory: str) -> list[WrittenShard]:
    """Writes small shards; returns what was written."""
    files: list[tuple[str, Buffer]] = []
    for shard in shards:
        name = storage.basename(shard.written.path)
        files += [(name, shard.content), (name + INDEX_SUFFIX, shard.index_content)]
    if files:
        storage.write_files(directory, files)
    return [shard.written for shard in shards]


def _whole(copy: ShardCopy, path: str) -> _Small | None:
    """Returns a small local shard of the source that is to be copied as it is, with its index; else None."""
    file, index_path = copy.parts[0]
    whole = len(copy.parts) == 1 and file.take == file.examples_in_shard and index_path is None
    if not whole or storage.is_remote(file.filename):
        return None
    with storage.open_reader(file.filename) as reader:
        try:
            index = storage.memory_map(file.filename + INDEX_SUFFIX)
        except StorageError:
            return None
        good = glance(reader, index)
    if good is None or (good.num_records, good.has_keys) != (file.take, copy.keyed):
        return None
    written = _written(copy, path, file.take, good.size, good.crc32c, good.index_crc32c)
    return _Small(good.content, index, written)


def _part(copy: ShardCopy, path: str, last: LastShard) -> _Small | None:
    """Returns records of one shard of the source, checked, where they are read at once; else None."""
    file, index_path = copy.parts[0]
    if len(copy.parts) > 1 or index_path is not None:
        return None
    with open_records(file, keyed=copy.keyed, last=last) as records:
        indexed = None if records.shard is None else records.shard.index
        if indexed is None or indexed.has_keys != copy.keyed or records.num_bytes > LOCAL_CHUNK:
            return None
        chunks = list(records.chunks())
    for chunk in chunks:
        records.check(*chunk)
    content = b"".join(bytes(buffer) for _, _, buffer in chunks)
    index = indexed.cut(file.skip, file.skip + file.take).to_bytes()
    written = _written(copy, path, file.take, len(content), crc32c.crc32c(content), crc32c.crc32c(index))
    return _Small(content, index, written)


def _copy_large(copy: ShardCopy, path: str, last: LastShard) -> WrittenShard:
    """Writes a shard a chunk at a time, and its index; returns what was written."""
    offsets, keys, ordered = [np.zeros(1, np.int64)], [], copy.keyed
    checksum = before = 0
    with storage.open_writer(path) as writer:
        for file, index_path in copy.parts:
            with open_records(file, keyed=copy.keyed, index_path=index_path, last=last) as records:
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
    storage.write_bytes(path + INDEX_SUFFIX, content)
    return _written(copy, path, len(index), before, checksum, crc32c.crc32c(content))


def _written(
    copy: ShardCopy, path: str, num_examples: int, size: int, checksum: int, index_checksum: int
) -> WrittenShard:
    num_bytes = size - tfrecord.OVERHEAD * num_examples
    return WrittenShard(copy.split, copy.shard, 0, path, num_examples, num_bytes, size, checksum, index_checksum)
