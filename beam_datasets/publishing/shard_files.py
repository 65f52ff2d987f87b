"""Writing shards: merges the sorted blocks of a group, cuts them at exact ranks, and writes records and index.

The output depends only on the examples of the group, so a repeated call writes the same bytes. See `merge` for the
memory that this takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import DuplicateKeyError, LostExamplesError
from beam_datasets.extras import Buffer
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.native import crc32c
from beam_datasets.publishing.record_text import show
from beam_datasets.publishing.staged_files import new_dir
from beam_datasets.shuffle.blocks import AnyBlock
from beam_datasets.shuffle.merge import Merge
from beam_datasets.shuffle.plan import Group


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard, or a part of one, in the staging directory.

    Attributes:
        split: the split's name.
        shard: index of the shard.
        part: index of the part.
        path: the file; its index is beside it under `<path>.index`.
        num_examples: records in the file.
        num_bytes: size of the records in bytes, without framing; of an export, of the file.
        file_bytes: size of the file in bytes.
        crc32c: CRC-32C of the file.
        index_crc32c: CRC-32C of the index file; 0 for a file of an export, which has none.
        requests: I/O counts of writing it, and of its process for others since the last count.
    """

    split: str
    shard: int
    part: int
    path: str
    num_examples: int
    num_bytes: int
    file_bytes: int
    crc32c: int
    index_crc32c: int
    requests: storage.Requests = field(default=storage.Requests(), compare=False)

    @classmethod
    def of(
        cls, split: str, shard: int, path: str, index: Index, checksum: int, *, part: int = 0
    ) -> tuple[WrittenShard, bytes]:
        """Returns a shard, and the content of its index file.

        Args:
            split: name of the split.
            shard: index of the shard, from 0.
            path: path of the file.
            index: index of the records.
            checksum: CRC-32C of the file.
            part: index of the part in the shard, from 0.
        """
        content, size, count = index.to_bytes(), index.shard_size, len(index)
        num_bytes = size - tfrecord.OVERHEAD * count
        return cls(split, shard, part, path, count, num_bytes, size, checksum, crc32c(content)), content


@dataclass(frozen=True, slots=True)
class Destination:
    """Staging directory and format of the shards of a dataset.

    Attributes:
        directory: the staging directory.
        dataset: the dataset's name, the first part of a file name.
        ordered: the sort keys are integers in their order, not hashes.
        ignore_duplicates: keep one example of each key.
        keyless: the splits whose indexes hold no sort keys, because these only decide an order.
        features: the features of the examples, with which errors show them; None if they are not known.
    """

    directory: str
    dataset: str
    ordered: bool = False
    ignore_duplicates: bool = False
    keyless: Collection[str] = ()
    features: Any = None

    def path(self, split: str, shard: int, num_shards: int) -> str:
        """Returns the path for a shard that is written now; see `new_dir`."""
        name = FilenameTemplate(self.dataset, split, "tfrecord").filename(shard, num_shards)
        return storage.join(new_dir(self.directory), name)

    def group_path(self, group: Group) -> str:
        """Returns the path for a group's file: the shard if it has one part, otherwise `parts/<shard>.part-00000`."""
        path = self.path(group.split, group.shard, group.num_shards)
        if group.num_parts == 1:
            return path
        return storage.join(storage.dirname(path), "parts", f"{storage.basename(path)}.part-{group.part:05d}")


def write_group(group: Group, blocks: Iterable[AnyBlock], destination: Destination) -> WrittenShard:
    """Writes a group's shard, or part of one, and its index; returns what was written.

    Args:
        group: the group; its records are those at [skip, skip + take) of the received ones, in order.
        blocks: the blocks that the group is sent, in any order; together they have `group.received` records, not
            counting duplicates if they are ignored.
        destination: the staging directory.

    Raises:
        LostExamplesError: more or fewer examples came than were counted.
        DuplicateKeyError: two examples have the same key, and duplicates are not ignored.
    """
    with contextlib.ExitStack() as stack:
        merge = Merge.of(blocks, stack)
        if destination.ignore_duplicates:
            merge = merge.without_duplicates()
        if len(merge) != group.received:
            raise LostExamplesError(
                f"{group.text}: {len(merge)} examples arrived, "
                f"{group.received} were counted when they were encoded. The engine lost or duplicated some; nothing "
                "was published. Run it again, but not with direct_running_mode=multi_threading."
            )
        _check_unique(merge, group, destination)
        merge = merge.slice(group.skip, group.skip + group.take)
        path = destination.group_path(group)
        with storage.open_writer(path) as writer:
            checksum = write_chunks(writer, merge.chunks())
        keys = None if group.split in destination.keyless else merge.ordered_keys()
        offsets = np.zeros(len(merge) + 1, np.uint64)
        np.cumsum(merge.sizes[merge.order], dtype=np.uint64, out=offsets[1:])
        del merge  # an index takes as much memory
    index = Index(offsets, keys, ordered=destination.ordered)
    shard, content = WrittenShard.of(group.split, group.shard, path, index, checksum, part=group.part)
    storage.write_bytes(path + ".index", content)
    return shard


def write_chunks(writer: storage.Writer, chunks: Iterable[list[Buffer]], checksum: int = 0) -> int:
    """Writes the chunks of a `Merge`; returns the CRC-32C of what was written, continued from `checksum`."""
    for chunk in chunks:
        for buffer in chunk:
            checksum = crc32c(buffer, checksum)
        writer.write(chunk)
    return checksum


def _check_unique(merge: Merge, group: Group, destination: Destination) -> None:
    """Checks that no two records of a group have the same sort key.

    Args:
        merge: the records of the group.
        group: the group, for errors.
        destination: decides whether a key is an integer or a hash in errors.

    Raises:
        DuplicateKeyError: two records have the same key; the message shows the key and both records.
    """
    repeats = merge.repeats()
    if not len(repeats):
        return
    second = int(repeats[0])
    one, other = (merge.record(int(merge.order[rank])) for rank in (second - 1, second))
    key = merge.keys[merge.order[second]]
    number = int(key[0]) << 64 | int(key[1])
    integer = number - (1 << 127) if destination.ordered else None
    name = f"its hash is {number:032x}" if integer is None else str(integer)
    count_note = f", one of {len(repeats):,} such repeats" if len(repeats) > 1 else ""
    raise DuplicateKeyError(
        f"{group.text}: two examples have the same key ({name}){count_note}. Keys decide the order and "
        f"must be unique; make them so, or keep one of each by --ignore_duplicates. The two examples:"
        f"\n  {show(one, destination.features)}\n  {show(other, destination.features)}",
        split=group.split,
        key=integer,
        sort_key=number.to_bytes(16, "big") if integer is None else None,
    )


def join_parts(parts: Iterable[WrittenShard], num_shards: int, destination: Destination) -> WrittenShard:
    """Joins the parts of a shard to one file, and returns the shard. A shard of one part may be returned unchanged.

    TFRecord files concatenate, so a shard is its parts one after the other.

    Args:
        parts: the parts, in any order.
        num_shards: number of shards of the split.
        destination: the staging directory.
    """
    parts = sorted(parts, key=lambda group_shard: group_shard.part)
    first = parts[0]
    path = destination.path(first.split, first.shard, num_shards)
    if len(parts) == 1 and storage.basename(first.path) == storage.basename(path):
        return first
    checksum = 0
    with storage.open_writer(path) as writer:
        for group_shard in parts:
            checksum = append_file(group_shard.path, writer, checksum)
    index = _joined_index(parts, destination.ordered)
    joined_shard, content = WrittenShard.of(first.split, first.shard, path, index, checksum)
    storage.write_bytes(path + ".index", content)
    return replace(joined_shard, requests=storage.sum_requests(group_shard.requests for group_shard in parts))


def append_file(path: str, writer: storage.Writer, checksum: int = 0) -> int:
    """Writes a file's content; returns its CRC-32C, continued from `checksum`.

    Args:
        path: the file.
        writer: writer of the target.
        checksum: CRC-32C of what was written before; 0 for nothing.
    """
    with storage.open_reader(path) as reader:
        return write_chunks(writer, ([chunk] for chunk in reader.chunks()), checksum)


def _joined_index(parts: Sequence[WrittenShard], ordered: bool) -> Index:
    """Returns the index of a shard: those of its parts, with offsets shifted by the sizes of the parts before."""
    offsets, keys, num_bytes_before = [np.zeros(1, np.uint64)], [], 0
    for group_shard in parts:
        path = group_shard.path + ".index"
        index = Index.from_bytes(storage.read_bytes(path), path=path)
        offsets.append(index.offsets[1:] + np.uint64(num_bytes_before))
        if index.keys is not None:
            keys.append(index.keys)
        num_bytes_before += group_shard.file_bytes
    return Index(np.concatenate(offsets), np.concatenate(keys) if keys else None, ordered=ordered)
