"""Blocks: the records of a bundle, framed and sorted by key, as the encoding stage sends them to the shards.

A block is three byte strings: the sort keys (16 bytes each), the framed sizes (little-endian uint32 each) and the
framed records, one after another. The framed records are the payload. It is inline, or *spilled* to a file in the
staging area of the job; then the file contains the *heads* (20 bytes per record: its key and its size), followed by the
framed records. A spilled block is sent as the location of a list of blocks with their heads: one block in a file of its
own, or ranges of many blocks in one file for a task.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.extras import Buffer
from beam_datasets.native import core
from beam_datasets.shuffle.histogram import Histogram, count_keys

KEY_BYTES = 16
SIZE_BYTES = 4
HEAD_BYTES = KEY_BYTES + SIZE_BYTES
PIECE_BYTES = 256 << 10
COLLECTED_BYTES = 16 << 20  # of heads that are written together
RANGE_BYTES = 512  # of memory that a range of a block takes besides its heads, about
_LIST = struct.Struct("<IQ")  # spilled blocks, bytes of their paths
_LISTED = struct.Struct("<3Q")  # records, and where the payload begins and ends


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [start, stop) of a file, which can be sliced like bytes.

    Attributes:
        path: the file.
        start: the first byte.
        stop: the byte after the last one.
    """

    path: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, span: slice) -> FileRange:
        return FileRange(self.path, self.start + span.start, self.start + span.stop)

    def read(self, start: int, stop: int) -> Buffer:
        """Returns bytes [start, stop) of the range, read from the file."""
        with contextlib.closing(storage.open_reader(self.path, size=self.stop)) as reader:
            return reader.read(self.start + start, self.start + stop)


@dataclass(frozen=True, slots=True)
class Block:
    """Framed records of one split in ascending sort key.

    Attributes:
        split: the split's name.
        keys: n x 16 bytes, ascending.
        sizes: n little-endian uint32, the framed size of each record in bytes.
        payload: the framed records, one after the other; or where they were spilled.
    """

    split: str
    keys: bytes
    sizes: bytes
    payload: bytes | FileRange

    def __len__(self) -> int:
        return len(self.keys) // KEY_BYTES

    @property
    def path(self) -> str:
        """The file with the payload; '' if it is inline."""
        return "" if isinstance(self.payload, bytes) else self.payload.path

    def load(self) -> list[Block]:
        """Returns the block alone; see `SpilledBlocks.load`."""
        return [self]

    def cut(self, first: int, last: int, start: int, stop: int) -> Block:
        """Returns the block of records [first, last), whose payload is the bytes [start, stop)."""
        return Block(
            self.split,
            self.keys[first * KEY_BYTES : last * KEY_BYTES],
            self.sizes[first * SIZE_BYTES : last * SIZE_BYTES],
            self.payload[start:stop],
        )


@dataclass(frozen=True, slots=True)
class SpilledBlocks:
    """Spilled blocks of one split, listed in a file with their heads, so that one read finds all.

    Attributes:
        split: the split's name.
        path: the file with the list; a single block's own file, which also contains its payload.
        start: offset of the list in the file.
        stop: offset after the last head.
    """

    split: str
    path: str
    start: int
    stop: int

    def load(self) -> list[Block]:
        """Returns the blocks with their heads, read from the file."""
        data = memoryview(FileRange(self.path, self.start, self.stop).read(0, self.stop - self.start))
        count, length = _LIST.unpack_from(data)
        paths_at = _LIST.size + count * _LISTED.size
        paths = bytes(data[paths_at : paths_at + length]).decode("utf-8", "surrogateescape").split("\0")
        at, blocks = paths_at + length, []
        for path, (size, start, stop) in zip(paths, _LISTED.iter_unpack(data[_LIST.size : paths_at]), strict=True):
            rows = np.frombuffer(data[at : at + HEAD_BYTES * size], np.uint8).reshape(-1, HEAD_BYTES)
            keys, sizes = rows[:, :KEY_BYTES].tobytes(), rows[:, KEY_BYTES:].tobytes()
            blocks.append(Block(self.split, keys, sizes, FileRange(path or self.path, start, stop)))
            at += HEAD_BYTES * size
        return blocks


AnyBlock = Block | SpilledBlocks


def list_spilled(blocks: Sequence[tuple[Block, FileRange]]) -> list[bytes]:
    """Returns the buffers of the file that lists spilled blocks, which a `SpilledBlocks` refers to.

    Args:
        blocks: (block, range of its payload file) of each block; an empty path in the range means the listing file.
    """
    paths = "\0".join([payload.path for _, payload in blocks]).encode("utf-8", "surrogateescape")
    listed = b"".join([_LISTED.pack(len(block), payload.start, payload.stop) for block, payload in blocks])
    return [
        _LIST.pack(len(blocks), len(paths)),
        listed,
        paths,
        *(_pack_heads(block.keys, block.sizes) for block, _ in blocks),
    ]


def _pack_heads(keys: bytes, sizes: bytes) -> bytes:
    """Returns the heads of n records, one after another: each is the sort key, followed by the size.

    Args:
        keys: n sort keys of `KEY_BYTES` bytes.
        sizes: n sizes of records, of `SIZE_BYTES` bytes.
    """
    heads = np.empty((len(keys) // KEY_BYTES, HEAD_BYTES), np.uint8)
    heads[:, :KEY_BYTES] = np.frombuffer(keys, np.uint8).reshape(-1, KEY_BYTES)
    heads[:, KEY_BYTES:] = np.frombuffer(sizes, np.uint8).reshape(-1, SIZE_BYTES)
    return heads.tobytes()


class BlockCollector:
    """Collects the ranges of spilled blocks that tasks will read, and lists the ranges of all tasks in one file.

    The file also contains the heads of the blocks. A task reads the heads of many blocks at once, so neither the
    number of reads nor the size of the elements grows as blocks times tasks.

    Args:
        directory: directory of the listing files; one is written for each `COLLECTED_BYTES` of heads and ranges.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._blocks: dict[Any, list[tuple[Block, FileRange]]] = {}
        self._num_bytes = 0

    def send(self, routed: Iterable[tuple[Hashable, Block]]) -> Iterator[tuple[Any, AnyBlock]]:
        """Collects blocks for tasks, and yields (task, block) of those that can be sent.

        Inline blocks are yielded at once; the collected spilled blocks of all tasks are yielded, as `SpilledBlocks`,
        when their heads and ranges have `COLLECTED_BYTES`.

        Args:
            routed: (task, block); a task is any hashable object, such as a group number.
        """
        for task, block in routed:
            if isinstance(block.payload, bytes):
                yield task, block
            else:
                self._blocks.setdefault(task, []).append((block, block.payload))
                self._num_bytes += HEAD_BYTES * len(block) + RANGE_BYTES
        if self._num_bytes >= COLLECTED_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[Any, SpilledBlocks]]:
        """Yields (task, `SpilledBlocks`) for each task that got spilled blocks since the last flush."""
        collected, self._blocks, self._num_bytes = self._blocks, {}, 0
        if not collected:
            return
        path, stops = storage.join(self._directory, f"{uuid.uuid4().hex}.list"), [0]
        with storage.open_writer(path) as writer:
            for blocks in collected.values():
                content = list_spilled(blocks)
                writer.write(content)
                stops.append(stops[-1] + sum(map(len, content)))
        for (task, blocks), (start, stop) in zip(collected.items(), itertools.pairwise(stops)):
            yield task, SpilledBlocks(blocks[0][0].split, path, start, stop)


def histogram_of(block: Block, shift: int = 0) -> Histogram:
    """Returns the histogram of one block; for `shift`, see `count_keys`."""
    return replace(count_keys(key_array(block.keys), size_array(block.sizes), shift=shift), num_blocks=1)


def key_array(keys: bytes) -> NDArray[np.uint64]:
    """Returns n sort keys as an array (n, 2) of native uint64: the high and the low half."""
    return np.frombuffer(keys, ">u8").reshape(-1, 2).astype(np.uint64)


def size_array(sizes: bytes) -> NDArray[np.int64]:
    """Returns n framed sizes in bytes, as int64."""
    return np.frombuffer(sizes, "<u4").astype(np.int64)


def cuts(sizes: NDArray[Any], max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yields the index ranges [start, stop) of batches of up to `max_bytes` together, at least one item each.

    Args:
        sizes: the size of each item, in bytes.
        max_bytes: maximum size of the items of a batch; a larger item is a batch of its own.

    >>> list(cuts(np.array([4, 4, 9, 1]), 8))
    [(0, 2), (2, 3), (3, 4)]
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    start = num_bytes_before = 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, num_bytes_before + max_bytes, side="right")))
        yield start, stop
        start, num_bytes_before = stop, int(ends[stop - 1])


def sort_order(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Returns the order that brings keys (n, 2) into ascending order; equal keys keep theirs."""
    order: NDArray[np.intp] = np.argsort(keys[:, 0], kind="stable")
    high = keys[order, 0]
    if (high[1:] == high[:-1]).any():
        order = np.lexsort((keys[:, 1], keys[:, 0]))
    return order


def gather(
    buffers: list[Buffer], buffer_numbers: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> bytes:
    """Returns ranges of buffers, joined.

    Range i is the `sizes[i]` bytes from `starts[i]` on in buffer number `buffer_numbers[i]`.
    """
    if core is not None:
        gathered: bytes = core.gather(buffers, buffer_numbers, starts, sizes)
        return gathered
    views, stops = [memoryview(buffer) for buffer in buffers], (starts + sizes).tolist()
    return b"".join([views[i][a:b] for i, a, b in zip(buffer_numbers.tolist(), starts.tolist(), stops, strict=True)])


def spill(
    split: str,
    keys: bytes,
    sizes: bytes,
    payload: Iterable[Buffer],
    num_bytes: int,
    directory: str,
    *,
    kind: str = "block",
    bundle: str = "",
) -> SpilledBlocks:
    """Writes a block into a new file of the directory, after its list, and returns its place.

    The name is unique to the call, so a retried bundle replaces nothing; it contains the id of the bundle and the
    numbers of records and bytes.

    Args:
        split: name of the split.
        keys: n x 16 bytes, the sort keys of the records, ascending.
        sizes: n little-endian uint32, the framed size of each record in bytes.
        payload: pieces of the framed records, in order.
        num_bytes: size of the payload in bytes.
        directory: directory of the new file.
        kind: suffix of its name.
        bundle: id of the bundle of the records, by which `progress.measure` counts them; '' for none.
    """
    count = len(keys) // KEY_BYTES
    unique = f"{bundle}.{uuid.uuid4().hex[:12]}" if bundle else uuid.uuid4().hex
    path = storage.join(directory, f"{split}-{unique}-{count}-{num_bytes}.{kind}")
    start = _LIST.size + _LISTED.size + count * HEAD_BYTES
    listed = list_spilled([(Block(split, keys, sizes, b""), FileRange("", start, start + num_bytes))])
    with storage.open_writer(path) as writer:
        writer.write(itertools.chain(listed, payload))
    return SpilledBlocks(split, path, 0, start)
