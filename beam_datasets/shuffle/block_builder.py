"""Block builders: encode examples, and sort them by key into blocks of limited size."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, FeatureValueError, InvalidKeyError
from beam_datasets.extras import Buffer
from beam_datasets.formats import tfrecord
from beam_datasets.limits import MAX_RECORD, advice_to_raise, limit_of
from beam_datasets.metadata import keys as sort_keys
from beam_datasets.native import core, note_if_missing
from beam_datasets.shuffle.blocks import (
    KEY_BYTES,
    PIECE_BYTES,
    AnyBlock,
    Block,
    FileRange,
    gather,
    key_array,
    sort_order,
    spill,
)
from beam_datasets.shuffle.rejected import Rejected, Rejections, merge_rejections

MAX_RECORD_BYTES = MAX_RECORD
MAX_COPIED_BYTES = (1 << 31) - 1  # of a record that another library wrote: no tf.train.Example is larger
MAX_GROWTH = 4
BLOCKS_BEFORE_GROWTH = 8
_REJECTIONS_MERGED = 1000  # together
NOT_UTF8 = (
    "a key, or a text in an example, has half of a surrogate pair, which UTF-8 cannot express. Give such a key as "
    "bytes, and text without it."
)


class NewBlock(NamedTuple):
    """A block that this process has just made.

    Attributes:
        sent: the element for the next stage: the block itself, or the location of the spilled block.
        loaded: the block with its keys and sizes, for a histogram without reading the file again.
    """

    sent: AnyBlock
    loaded: Block


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
    """Returns the functions (append, sizes, ordered, clear), which collect framed records as `_Collector` does.

    Args:
        encode: the function from an example to its record.
        max_bytes: a record with more bytes is not kept.
    """
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


def _sorted_block(
    split: str,
    keys: bytes,
    sizes: bytes,
    gather_payload: Callable[[NDArray[np.int64]], bytes],
    spill_dir: str | None,
    bundle: str = "",
) -> NewBlock:
    """Returns the block of records, sorted by key.

    Args:
        split: name of the split.
        keys: n x 16 bytes, the sort keys of the records.
        sizes: n little-endian uint32, the framed size of each record in bytes.
        gather_payload: function from an array of record numbers to the payload of these records, in its order.
        spill_dir: directory that gets the payload in a new file; None keeps it in memory.
        bundle: see `spill`.
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
    spilled = spill(split, sorted_keys, sorted_sizes.tobytes(), pieces, num_bytes, spill_dir, bundle=bundle)
    payload = FileRange(spilled.path, spilled.stop, spilled.stop + num_bytes)
    return NewBlock(spilled, Block(split, sorted_keys, sorted_sizes.tobytes(), payload))


class BlockBuilder:
    """Collects the encoded examples of one split and makes blocks of them.

    Args:
        split: the split's name, which salts the hash.
        encode: function from an example to its record.
        block_size: a block is full when its records reach this size in bytes. The more blocks were spilled, the larger
            are the next ones, up to four times: each block sends a pointer to each shard.
        ordered: keys are integers whose order is kept (`disable_shuffling`), instead of hashed.
        spill_dir: directory for spilled payload; None keeps it inline.

    Attributes:
        bundle: id of the bundle that the collected examples belong to; `reset` starts a new one.
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
        self._max_bytes = min(limit_of(MAX_RECORD_BYTES), MAX_COPIED_BYTES)
        self._append, self._sizes, self._in_order, self._clear = collector(encode, self._max_bytes)
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
        """Discards the collected and rejected examples, gives their memory back, and starts a new bundle."""
        self.bundle = uuid.uuid4().hex[:12]
        self._rejections: list[Rejections] = []
        self._discard(keep_memory=False)

    def _discard(self, *, keep_memory: bool) -> None:
        """Removes the collected examples; `keep_memory` lets the collector reuse the memory of their records."""
        self._keys: list[Any] = []
        self._num_bytes = 0
        self._clear(keep_memory)

    def take_rejections(self) -> Rejections:
        """Returns the counts of the examples that were rejected since the last call."""
        rejections, self._rejections = merge_rejections(self._rejections), []
        return rejections

    def add(self, key: Any, example: Any) -> bool:
        """Encodes an example; returns whether the block is full, so that the caller must call `flush`.

        A `Rejected` is only counted; see `take_rejections`.

        Raises:
            FeatureError: the example does not fit the features; the message begins with split and key.
            FeatureValueError: the record is larger than MAX_RECORD_BYTES, or than the environment variable allows.
        """
        if type(example) is Rejected:
            self._rejections.append(Rejections.of(self._split, key, example))
            if len(self._rejections) >= _REJECTIONS_MERGED:
                self._rejections = [merge_rejections(self._rejections)]
            return False
        try:
            size = self._append(example)
        except Exception as e:
            _prefix_location(e, self._split, key)
            raise
        if size > self._max_bytes:
            way = f". {advice_to_raise(size)}" if size <= MAX_COPIED_BYTES else ""
            raise FeatureValueError(
                f"split {self._split!r}, key {key!r}: expected a record of at most {self._max_bytes:,} bytes, "
                f"got {size:,}",
                split=self._split,
                key=key,
                got=f"{size:,}",
                advice=f"Store large values as files and their paths in the dataset{way}.",
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
        block = _sorted_block(self._split, keys, self._sizes(), self._in_order, self._spill_dir, self.bundle)
        self._discard(keep_memory=True)
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


def _prefix_location(error: Exception, split: str, key: Any) -> None:
    """Puts "split 'train', key 'a': " in front of an encoding error's message, in place, if it is a text."""
    if error.args and isinstance(error.args[0], str):
        error.args = (f"split {split!r}, key {key!r}: {error.args[0]}", *error.args[1:])
    if isinstance(error, BeamDatasetsError):
        error.split, error.key = split, key
