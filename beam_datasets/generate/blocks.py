"""Blocks: the records of a bundle, framed and sorted by key, as the encoding stage sends them to the shards.

A block is three byte strings: the sort keys (16 bytes each), the framed sizes (little-endian uint32 each) and the
framed records, one after another. The framed records are the payload. It is inline, or *spilled* to a file in the
staging area of the job; then the file contains the *heads* (20 bytes per record: its key and its size), followed by the
framed records. A spilled block is sent as the location of a list of blocks with their heads: one block in a file of its
own, or ranges of many blocks in one file for a task.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import struct
import tempfile
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.errors import (
    BeamDatasetsError,
    FeatureValueError,
    InvalidKeyError,
    StorageError,
)
from beam_datasets.extras import Buffer
from beam_datasets.formats import tfrecord
from beam_datasets.generate.histogram import Histogram, count_keys
from beam_datasets.generate.owners import IN_PROCESS
from beam_datasets.generate.runs import SPILL_SUFFIX
from beam_datasets.metadata import keys as sort_keys
from beam_datasets.native import core, note_if_missing

KEY_BYTES = 16
SIZE_BYTES = 4
HEAD_BYTES = KEY_BYTES + SIZE_BYTES
MAX_RECORD_BYTES = 1 << 30
MAX_COPIED_BYTES = (1 << 31) - 1  # of a record that another library wrote: no tf.train.Example is larger
PIECE_BYTES = 256 << 10
MAX_GROWTH = 4
BLOCKS_BEFORE_GROWTH = 8
COLLECTED_BYTES = 16 << 20  # of heads that are written together
RANGE_BYTES = 512  # of memory that a range of a block takes besides its heads, about
BUCKET_KEYS = 1 << 22  # 80 MB of keys and sizes, which one call merges
NOT_UTF8 = (
    "a key, or a text in an example, has half of a surrogate pair, which UTF-8 cannot express. Give such a key as "
    "bytes, and text without it."
)
_LIST = struct.Struct("<IQ")  # spilled blocks, bytes of their paths
_LISTED = struct.Struct("<3Q")  # records, and where the payload begins and ends


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [start, stop) of a file, to be sliced like bytes.

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
        path: the file; that of a single block contains its payload, too.
        start: first byte of the list in it.
        stop: the byte after the last head in it.
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


class NewBlock(NamedTuple):
    """A block that this process has just made.

    Attributes:
        sent: the element for the next stage: the block itself, or the location of the spilled block.
        loaded: the block with its keys and sizes, for a histogram without reading the file again.
    """

    sent: AnyBlock
    loaded: Block


def _read_spilled(blocks: Sequence[tuple[Block, FileRange]]) -> list[bytes]:
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
        *(_heads(block.keys, block.sizes) for block, _ in blocks),
    ]


def _heads(keys: bytes, sizes: bytes) -> bytes:
    """Returns the heads of n sort keys and sizes."""
    heads = np.empty((len(keys) // KEY_BYTES, HEAD_BYTES), np.uint8)
    heads[:, :KEY_BYTES] = np.frombuffer(keys, np.uint8).reshape(-1, KEY_BYTES)
    heads[:, KEY_BYTES:] = np.frombuffer(sizes, np.uint8).reshape(-1, SIZE_BYTES)
    return heads.tobytes()


class BlockCollector:
    """Collects what spilled blocks send to tasks, and lists the blocks and heads of all tasks in one file.

    A task then finds the heads of many blocks by one read, so that reads of heads, and what travels, do not grow as
    blocks times tasks.

    Args:
        directory: gets a file for up to `COLLECTED_BYTES` of heads, and of memory for the ranges.
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
                content = _read_spilled(blocks)
                writer.write(content)
                stops.append(stops[-1] + sum(map(len, content)))
        for (task, blocks), (start, stop) in zip(collected.items(), itertools.pairwise(stops)):
            yield task, SpilledBlocks(blocks[0][0].split, path, start, stop)


@dataclass(frozen=True)
class Workers:
    """The processes that write a dataset; by default, this process alone.

    Attributes:
        name: name of the runner.
        local: whether they are processes of this machine that end with this one.
        shares_disk: whether they see this machine's files.
        spills: whether payload is spilled by default.
        buffers_bundles: whether the output of a bundle is kept in memory until the bundle ends.
    """

    name: str = IN_PROCESS
    local: bool = True
    shares_disk: bool = True
    spills: bool = True
    buffers_bundles: bool = False


def choose_spill_dir(workers: Workers, staging_dir: str, *, payload: str | None, spill_dir: str | None) -> str | None:
    """Returns the directory that gets this run's spilled payload; None where it travels inline.

    It is never in the staging directory, which goes when the version becomes visible: the job may still need payload.

    Args:
        workers: the processes that write and read the files.
        staging_dir: staging directory of this run.
        payload: 'inline' or 'spilled'; None for inline on Dataflow, spilled elsewhere.
        spill_dir: the requested directory; None for beside the staging directory, or this machine's directory for
            temporary files where a local run publishes to an object store. In the staging directory's bucket it has its
            options.

    Raises:
        ValueError: `payload` does not suit the engine, or no file can be written in `spill_dir`.
    """
    if payload == "inline" and workers.buffers_bundles:
        raise ValueError(
            "payload is 'inline'; expected 'spilled' or None for this engine. It would keep all records that a slot "
            "encodes in memory, or hang: in batch, a bundle is all that a slot does in a stage."
        )
    if not (workers.spills if payload is None else payload == "spilled"):
        return None
    if workers.local and storage.is_remote(staging_dir):
        spill_dir = spill_dir or tempfile.gettempdir()
    if spill_dir:
        spill_dir = storage.with_options_if_remote(spill_dir, None, other_path=staging_dir)
        run_spill_dir = storage.join(spill_dir, f"{storage.basename(staging_dir)}{SPILL_SUFFIX}")
        if workers.shares_disk:
            _check_spill_dir(run_spill_dir, spill_dir)
        return run_spill_dir
    return storage.join(storage.dirname(staging_dir), storage.basename(staging_dir) + SPILL_SUFFIX)


def _check_spill_dir(run_dir: str, spill_dir: str) -> None:
    """Checks that files can be written to the directory of a run.

    Args:
        run_dir: the directory of the run below `spill_dir`.
        spill_dir: the option of the user, for the error message.

    Raises:
        ValueError: no file can be written.
    """
    try:
        storage.check_writable(run_dir)
    except StorageError as error:
        raise ValueError(f"spill_dir is {spill_dir!r}, where no file can be written: {error}") from error


def histogram_of(block: Block, shift: int = 0) -> Histogram:
    """Returns the histogram of one block; `shift` as of `count_keys`."""
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


def num_buckets(total: int) -> int:
    """Returns the number of buckets for the keys of `total` examples: a power of two, 256 or more.

    >>> num_buckets(10**6), num_buckets(10**9), num_buckets(10**11)
    (256, 256, 32768)
    """
    return max(256, 1 << (max(1, total // BUCKET_KEYS) - 1).bit_length())


def split_by_key(block: Block, buckets: int = 256) -> Iterator[tuple[tuple[str, int], tuple[bytes, bytes]]]:
    """Yields ((split, bucket), (keys, framed sizes)) of the block's records, to count each of repeated keys once.

    The keys are 16 bytes each, the sizes little-endian uint32, in the order of the block. The bucket is the lowest bits
    of a key, which are spread evenly both for hashes and for integers.

    Args:
        block: the block.
        buckets: the number of buckets, a power of two.
    """
    rows = np.frombuffer(block.keys, np.uint8).reshape(-1, KEY_BYTES)
    all_sizes = np.frombuffer(block.sizes, "<u4")
    bucket_of = np.frombuffer(block.keys, ">u4")[3::4] & np.uint32(buckets - 1)
    order = np.argsort(bucket_of, kind="stable")
    used_buckets, starts = np.unique(bucket_of[order], return_index=True)
    for bucket, places in zip(used_buckets.tolist(), np.split(order, starts[1:])):
        yield (block.split, bucket), (rows[places].tobytes(), all_sizes[places].tobytes())


def merge_unique(parts: Iterable[tuple[bytes, bytes]]) -> Histogram:
    """Returns the histogram of a bucket in which each key counts once, with the smallest of its sizes.

    Args:
        parts: (keys, framed sizes) of the bucket from all blocks; see `split_by_key`.
    """
    parts = list(parts)
    keys = key_array(b"".join(keys for keys, _ in parts))
    sizes = size_array(b"".join(sizes for _, sizes in parts))
    order = np.lexsort((sizes, keys[:, 1], keys[:, 0]))
    keys, sizes = keys[order], sizes[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return count_keys(keys[first], sizes[first])


class _Collector:
    """The framed records of a block, encoded one by one; the native module's `collector`, in Python.

    Args:
        encode: function from an example to its record.
        max_bytes: maximum size of a record in bytes; larger ones are not kept.
    """

    def __init__(self, encode: Callable[[Any], bytes], max_bytes: int) -> None:
        self._encode = encode
        self._most = max_bytes
        self._records: list[bytes] = []

    def append(self, example: Any) -> int:
        """Encodes an example and returns the size of its record in bytes; keeps the record unless it is too large."""
        record = self._encode(example)
        if len(record) <= self._most:
            self._records.append(record)
        return len(record)

    def sizes(self) -> bytes:
        """Returns the framed sizes of the records: little-endian uint32."""
        sizes = np.fromiter(map(len, self._records), np.uint32, len(self._records)) + np.uint32(tfrecord.OVERHEAD)
        return sizes.astype("<u4", copy=False).tobytes()

    def ordered(self, order: NDArray[np.int64]) -> bytes:
        """Returns the framed records of these numbers, joined."""
        return b"".join([tfrecord.frame(self._records[i]) for i in order.tolist()])

    def clear(self, _: bool) -> None:
        """Forgets all records."""
        self._records = []


def collector(encode: Callable[[Any], bytes], max_bytes: int) -> tuple[Any, ...]:
    """Returns functions that collect framed records: `append`, `sizes`, `ordered` and `clear` of `_Collector`."""
    if core is not None:
        functions: tuple[Any, ...] = core.collector(encode, max_bytes)
        return functions
    python_collector = _Collector(encode, max_bytes)
    return python_collector.append, python_collector.sizes, python_collector.ordered, python_collector.clear


def make_block(
    split: str, keys: bytes, sizes: list[NDArray[np.int64]], buffers: list[Buffer], spill_dir: str | None = None
) -> NewBlock:
    """Returns the block of framed records, sorted by their keys.

    Args:
        split: the split's name.
        keys: n x 16 bytes, the records' sort keys.
        sizes: framed size of each record of each buffer, in bytes; n together.
        buffers: the records, one after the other.
        spill_dir: directory that gets the payload in a new file; None keeps it inline.
    """
    buffer_numbers = np.repeat(np.arange(len(buffers)), list(map(len, sizes)))
    starts = np.concatenate([np.cumsum(buffer_sizes) - buffer_sizes for buffer_sizes in sizes])
    all_sizes = np.concatenate(sizes)

    def ordered(order: NDArray[np.int64]) -> bytes:
        """Returns the records joined in the order of the given indices."""
        return gather(buffers, buffer_numbers[order], starts[order], all_sizes[order])

    return _sorted_block(split, keys, all_sizes.astype("<u4").tobytes(), ordered, spill_dir)


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


def _sorted_block(
    split: str, keys: bytes, sizes: bytes, gather_payload: Callable[[NDArray[np.int64]], bytes], spill_dir: str | None
) -> NewBlock:
    """Returns the block of records, sorted by key.

    Args:
        split: name of the split.
        keys: n x 16 bytes, the sort keys of the records.
        sizes: n little-endian uint32, the framed size of each record in bytes.
        gather_payload: function from an array of record numbers to the payload of these records, in its order.
        spill_dir: directory that gets the payload in a new file; None keeps it in memory.
    """
    order = sort_order(key_array(keys)).astype(np.int64, copy=False)
    sorted_keys = np.frombuffer(keys, np.uint8).reshape(-1, KEY_BYTES)[order].tobytes()
    sorted_sizes = np.frombuffer(sizes, "<u4")[order]
    if spill_dir is None:
        block = Block(split, sorted_keys, sorted_sizes.tobytes(), gather_payload(order))
        return NewBlock(block, block)
    num_bytes = int(sorted_sizes.sum(dtype=np.int64))
    # Small pieces: a buffer that is used again is in the processor's cache, a large one costs fresh pages.
    count = max(1, PIECE_BYTES * len(order) // num_bytes)
    pieces = (gather_payload(order[start : start + count]) for start in range(0, len(order), count))
    spilled = spill(split, sorted_keys, sorted_sizes.tobytes(), pieces, num_bytes, spill_dir)
    payload = FileRange(spilled.path, spilled.stop, spilled.stop + num_bytes)
    return NewBlock(spilled, Block(split, sorted_keys, sorted_sizes.tobytes(), payload))


def spill(
    split: str,
    keys: bytes,
    sizes: bytes,
    payload: Iterable[Buffer],
    num_bytes: int,
    directory: str,
    *,
    kind: str = "block",
) -> SpilledBlocks:
    """Writes a block into a new file of the directory, after its list, and returns its place.

    The name is unique to the call, so a retried bundle replaces nothing; it contains the numbers of records and bytes.

    Args:
        split: name of the split.
        keys: n x 16 bytes, the sort keys of the records, ascending.
        sizes: n little-endian uint32, the framed size of each record in bytes.
        payload: pieces of the framed records, in order.
        num_bytes: size of the payload in bytes.
        directory: directory of the new file.
        kind: suffix of its name.
    """
    count = len(keys) // KEY_BYTES
    path = storage.join(directory, f"{split}-{uuid.uuid4().hex}-{count}-{num_bytes}.{kind}")
    start = _LIST.size + _LISTED.size + count * HEAD_BYTES
    listed = _read_spilled([(Block(split, keys, sizes, b""), FileRange("", start, start + num_bytes))])
    with storage.open_writer(path) as writer:
        writer.write(itertools.chain(listed, payload))
    return SpilledBlocks(split, path, 0, start)


class BlockBuilder:
    """Collects the encoded examples of one split and makes blocks of them.

    Args:
        split: the split's name, which salts the hash.
        encode: function from an example to its record.
        block_size: a block is full when its records reach this size in bytes. Spilled blocks grow, up to four times,
            as there get to be many: each sends a pointer to each shard.
        ordered: keys are integers whose order is kept (`disable_shuffling`), instead of hashed.
        spill_dir: directory for spilled payload; None keeps it inline.
    """

    def __init__(
        self,
        split: str,
        encode: Callable[[Any], bytes],
        *,
        block_size: int,
        ordered: bool = False,
        spill_dir: str | None = None,
    ) -> None:
        note_if_missing()
        self._split = split
        self._append, self._sizes, self._in_order, self._clear = collector(encode, MAX_RECORD_BYTES)
        self._block_size = block_size
        self._ordered = ordered
        self._spill_dir = spill_dir
        self._full = block_size
        self._num_blocks = 0
        self.reset()

    def __len__(self) -> int:
        """Returns the number of examples collected since the last flush."""
        return len(self._keys)

    @property
    def num_bytes(self) -> int:
        """Size of their records in bytes."""
        return self._num_bytes

    def reset(self) -> None:
        """Forgets what was collected, and gives its memory back."""
        self._forget(False)

    def _forget(self, keep_memory: bool) -> None:
        """Removes the collected examples; `keep_memory` lets the collector reuse the memory of their records."""
        self._keys: list[Any] = []
        self._num_bytes = 0
        self._clear(keep_memory)

    def add(self, key: Any, example: Any) -> bool:
        """Encodes an example; returns whether the block is full, so that the caller must call `flush`.

        Raises:
            FeatureError: the example does not fit the features; the message begins with split and key.
            FeatureValueError: the record is larger than MAX_RECORD_BYTES.
        """
        try:
            size = self._append(example)
        except Exception as e:
            _add_location(e, self._split, key)
            raise
        if size > MAX_RECORD_BYTES:
            raise FeatureValueError(
                f"split {self._split!r}, key {key!r}: the record has {size:,} bytes; at most {MAX_RECORD_BYTES:,} "
                "(1 GiB) can be written. Store large values as files and their paths in the dataset."
            )
        self._keys.append(key)
        self._num_bytes += size
        return self._num_bytes >= self._full

    def flush(self) -> NewBlock | None:
        """Returns the block of the examples collected since the last flush; None if there are none."""
        if not self._keys:
            return None
        make = sort_keys.ordered_keys if self._ordered else functools.partial(sort_keys.hash_keys, self._split)
        try:
            keys = make(self._keys)
        except InvalidKeyError as error:
            raise InvalidKeyError(f"split {self._split!r}{_find_previous_key(self._keys, make)}: {error}") from None
        block = _sorted_block(self._split, keys, self._sizes(), self._in_order, self._spill_dir)
        self._forget(True)
        self._num_blocks += 1
        if self._spill_dir is not None:
            self._full = self._block_size * min(MAX_GROWTH, 1 + self._num_blocks // BLOCKS_BEFORE_GROWTH)
        return block


def _find_previous_key(keys: Iterable[Any], make: Callable[[list[Any]], bytes]) -> str:
    """Returns ", after key 'a'" if 'a' is the key before the first unusable one; '' if that is the first key.

    Args:
        keys: keys of which at least one is unusable.
        make: the function from a list of keys to their sort keys; raises InvalidKeyError for an unusable one.
    """
    suffix = ""
    with contextlib.suppress(InvalidKeyError):
        for key in keys:
            make([key])
            suffix = f", after key {key!r:.100}"
    return suffix


def _add_location(error: Exception, split: str, key: Any) -> None:
    """Puts "split 'train', key 'a': " in front of an encoding error's message, in place, if it is a text."""
    if error.args and isinstance(error.args[0], str):
        error.args = (f"split {split!r}, key {key!r}: {error.args[0]}", *error.args[1:])
    if isinstance(error, BeamDatasetsError):
        error.split, error.key = split, key
