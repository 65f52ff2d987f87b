"""A shard in the staging directory: its path, its file with a checksum, and the index next to it.

All that write shards use `ShardFile`: the groups of a generated dataset, copies, merges and adopted files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from beam_datasets import storage
from beam_datasets.extras import Buffer
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.native import crc32c
from beam_datasets.publishing.staged_files import link_or_copy, new_dir
from beam_datasets.reading.records.shards import INDEX_SUFFIX
from beam_datasets.shuffle.plan import Group

if TYPE_CHECKING:
    from numpy.typing import NDArray


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

    def linked(self, path: str) -> WrittenShard:
        """Links its file and its index, or copies them, to another path; returns the shard with this path."""
        for suffix in ("", INDEX_SUFFIX):
            link_or_copy(self.path + suffix, path + suffix)
        return replace(self, path=path)


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


class ShardFile:
    """A shard that is being written: framed records, their CRC-32C, and at the end the index beside the file.

    The file appears when the `with` block ends without an error, and the index when `finish` is called.

        with ShardFile(path) as shard_file:
            shard_file.write([framed_records])
            shard_file.add_to_index(sizes, sort_keys)
        return shard_file.finish("train", 0)

    Attributes:
        path: the file.
        crc32c: CRC-32C of the bytes written so far.
    """

    def __init__(self, path: str, *, exists: bool = False) -> None:
        """Opens nothing yet.

        Args:
            path: the file.
            exists: the file is there already with the records that are given to `write`, so only its index is made.
        """
        self.path, self.crc32c = path, 0
        self._exists = exists
        self._writer: storage.Writer | None = None
        self._stack = contextlib.ExitStack()
        self._sizes: list[NDArray[Any]] = []
        self._keys: list[NDArray[np.uint8]] = []

    def __enter__(self) -> Self:
        if not self._exists:
            self._writer = self._stack.enter_context(storage.open_writer(self.path))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, traceback)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Appends framed records, which may be divided anywhere."""
        for buffer in buffers:
            self.crc32c = crc32c(buffer, self.crc32c)
        if self._writer is not None:
            self._writer.write(buffers)

    def copy(self, path: str) -> None:
        """Appends the content of another file."""
        with storage.open_reader(path) as reader:
            for chunk in reader.chunks():
                self.write([chunk])

    def add_to_index(self, sizes: NDArray[Any], keys: NDArray[np.uint8] | None) -> None:
        """Adds the next records to the index, before or after they are written.

        Args:
            sizes: (n,) framed sizes in bytes.
            keys: (n, 16) their sort keys; None for an index without keys.
        """
        self._sizes.append(sizes)
        if keys is not None:
            self._keys.append(keys)

    def finish(
        self,
        split: str,
        shard: int,
        *,
        part: int = 0,
        ordered: bool = False,
        unsorted: bool = False,
        write_index: Callable[[str, bytes], None] = storage.write_bytes,
    ) -> WrittenShard:
        """Writes the index of the complete file, and returns the shard with its sizes and checksums.

        Args:
            split: name of the split.
            shard: index of the shard, from 0.
            part: index of the part in the shard, from 0.
            ordered: whether the sort keys are ordered integers, not hashes.
            unsorted: whether the sort keys may be in any order.
            write_index: function of the path and the content of the index that writes it.
        """
        index = Index(self._take_offsets(), self._take_keys(), ordered=ordered, unsorted=unsorted)
        content = index.to_bytes()
        write_index(self.path + INDEX_SUFFIX, content)
        num_examples, file_bytes = len(index), index.shard_size
        num_bytes = file_bytes - tfrecord.OVERHEAD * num_examples
        return WrittenShard(
            split, shard, part, self.path, num_examples, num_bytes, file_bytes, self.crc32c, crc32c(content)
        )

    def _take_offsets(self) -> NDArray[np.uint64]:
        """Returns the offsets of all records, (n + 1,) in bytes, and forgets their sizes to free their memory."""
        sizes = np.concatenate([np.empty(0, np.uint32), *self._sizes])
        self._sizes.clear()
        offsets = np.zeros(len(sizes) + 1, np.uint64)
        np.cumsum(sizes, dtype=np.uint64, out=offsets[1:])
        return offsets

    def _take_keys(self) -> NDArray[np.uint8] | None:
        """Returns the sort keys of all records, (n, 16), if they have any, and forgets them to free their memory."""
        keys = np.concatenate(self._keys) if self._keys else None
        self._keys.clear()
        return keys
