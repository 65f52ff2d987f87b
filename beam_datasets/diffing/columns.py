"""The shards of a split as one column of examples: their keys a block at a time, their records a chunk at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import MetadataError
from beam_datasets.formats import tfrecord
from beam_datasets.reading.shards import Shard, read_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from beam_datasets.metadata.lineage import KeyRule
    from beam_datasets.reading.opening import ReadOnlyBuilder

    Ints = NDArray[np.int64]
    Keys = NDArray[np.uint8]

KEY_ROWS = 1 << 16  # keys that are compared at once
_CHUNK_BYTES, _REMOTE_CHUNK_BYTES = 1 << 20, 8 << 20


@dataclass(frozen=True)
class KeyOrder:
    """What the keys of a split are, and whether they can be merged with another's.

    Attributes:
        present: whether there are any.
        ascending: whether they ascend in each stretch of the split.
        stretches: where each begins, and where the last one ends.
        rules: how the keys of each stretch were made; keys made by the same rules can be compared.
    """

    present: bool
    ascending: bool = True
    stretches: tuple[int, ...] = ()
    rules: tuple[tuple[KeyRule, ...], ...] = ()


@dataclass(frozen=True)
class Window:
    """Records that stand together in a shard, read in one piece.

    Attributes:
        first: index in the split of the first one.
        offsets: where each begins in `buffer`, and where the last one ends; shape (n + 1,).
        buffer: the framed records.
        path: the shard.
        start: where the window begins in the shard, in bytes.
        first_record: number in the shard of the first one.
    """

    first: int
    offsets: Ints
    buffer: bytes
    path: str
    start: int
    first_record: int

    @property
    def stop(self) -> int:
        """Index in the split after the last one."""
        return self.first + len(self.offsets) - 1

    def places(self, first: int, stop: int) -> Ints:
        """Returns where the records [first, stop) begin, relative to the first one, and where the last one ends."""
        places = self.offsets[first - self.first : stop - self.first + 1]
        relative: Ints = places - places[0]
        return relative

    def place(self, index: int) -> tuple[int, int]:
        """Returns (byte in the shard, number in the shard) of a record."""
        return self.start + int(self.offsets[index - self.first]), self.first_record + index - self.first

    def bytes_of(self, first: int, stop: int) -> bytes:
        """Returns the framed records [first, stop), by their indices in the split."""
        return self.buffer[self.offsets[first - self.first] : self.offsets[stop - self.first]]

    def records(self, first: int, stop: int) -> list[Any]:
        """Returns the data of the records [first, stop), checked.

        Raises:
            CorruptRecordError: one of them is damaged.
        """
        i = first - self.first
        places = self.offsets[i : stop - self.first + 1]
        return tfrecord.unframe(
            self.buffer, places, path=self.path, offset=self.start, first_record=self.first_record + i
        )


class SplitShards:
    """The shards of a split, of which one is open at a time."""

    def __init__(self, builder: ReadOnlyBuilder, split: str) -> None:
        """Opens nothing yet.

        Args:
            builder: of the dataset.
            split: its name.
        """
        info = builder.info.splits[split]
        published = builder.manifest.splits.get(split) if builder.manifest else None
        self.name = split
        self.offsets: Ints = info.offsets
        self.shard_lengths = list(info.shard_lengths)
        self._names = info.shard_names
        self._with_examples = np.flatnonzero(self.shard_lengths).tolist()
        self._ascents = builder.ascents(split)
        self._directory = builder.dataset_dir
        self._indexed = builder.manifest is not None or not storage.is_remote(self._directory)
        self._checksums = published and list(zip(published.file_bytes, published.crc32c, published.index_crc32c))
        self._chunk = _REMOTE_CHUNK_BYTES if storage.is_remote(self._directory) else _CHUNK_BYTES
        self._open: tuple[int, Shard] | None = None
        self._window = Window(0, np.zeros(1, np.int64), b"", "", 0, 0)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def shard_at(self, index: int) -> int:
        """Returns the number of the shard that has the example at an index."""
        return int(np.searchsorted(self.offsets, index, side="right")) - 1

    def checksums(self, shard: int) -> tuple[int, int, int] | None:
        """Returns size and CRC-32C of a shard, and CRC-32C of its index, as they were published; None for unknown."""
        return self._checksums[shard] if self._checksums else None

    def key_order(self) -> KeyOrder:
        """Returns what the keys of the split are.

        Raises:
            MetadataError: an index is damaged.
        """
        starts, falls, last = {ascent.start for ascent in self._ascents}, set[int](), b""
        for shard in self._with_examples:
            index = read_index(self._path(shard)) if self._indexed else None
            keys = None if index is None else index.keys
            if index is None or keys is None:
                return KeyOrder(False)
            if len(index) != self.shard_lengths[shard]:
                self._opened(shard)  # which says what is wrong
            first = int(self.offsets[shard])
            falls.update((first + index.descents + 1).tolist(), () if last < bytes(keys[0]) else (first,))
            last = bytes(keys[-1])
        stretches = (*sorted(starts), len(self))
        return KeyOrder(len(self) > 0, falls <= starts, stretches, tuple(ascent.rules for ascent in self._ascents))

    def key_blocks(self, start: int, stop: int) -> Iterator[tuple[int, Keys]]:
        """Yields (index of the first one, keys) of examples [start, stop) in order, at most `KEY_ROWS` at a time."""
        for shard in self._with_examples:
            before = int(self.offsets[shard])
            first, end = max(start, before), min(stop, int(self.offsets[shard + 1]))
            if first >= end:
                continue
            index = read_index(self._path(shard))
            keys = None if index is None else index.keys
            if keys is None:
                raise MetadataError(f"{self._path(shard)}: its index was taken away while it was read.")
            for begin in range(first, end, KEY_ROWS):
                yield begin, keys[begin - before : min(begin + KEY_ROWS, end) - before]

    def window(self, index: int) -> Window:
        """Returns records in one piece, of which the one at an index is one; it is kept for the next call.

        Raises:
            StorageError: a shard cannot be read.
            MetadataError: its index is of another one.
        """
        if not self._window.first <= index < self._window.stop:
            self._window = self._read(index)
        return self._window

    def record(self, index: int) -> Any:
        """Returns the data of the record at an index, checked.

        Raises:
            CorruptRecordError: it is damaged.
        """
        return self.window(index).records(index, index + 1)[0]

    def _read(self, index: int) -> Window:
        number = self.shard_at(index)
        shard, first = self._opened(number), int(self.offsets[number])
        record = index - first
        offsets = shard.offsets
        enough = np.uint64(int(offsets[record]) + self._chunk)
        stop = max(int(np.searchsorted(offsets, enough, side="right")) - 1, record + 1)
        places = offsets[record : stop + 1].astype(np.int64)
        start = int(places[0])
        buffer = bytes(memoryview(shard.reader.read(start, int(places[-1]))))
        return Window(index, places - start, buffer, shard.path, start, record)

    def _opened(self, number: int) -> Shard:
        if self._open is None or self._open[0] != number:
            self._open = None  # before another one takes its memory
            self._open = number, Shard(self._path(number), self.shard_lengths[number], indexed=self._indexed)
        return self._open[1]

    def _path(self, shard: int) -> str:
        return storage.join(self._directory, self._names[shard])
