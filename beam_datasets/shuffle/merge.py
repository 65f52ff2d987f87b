"""Merging sorted blocks: the order of all their records, and the framed records in that order, a chunk at a time.

Memory contains the sort keys, sizes and places of all records (about 75 bytes each), one chunk, and up to 32 MiB of
inline payload; more inline payload goes to a temporary file of this machine. The size of a chunk grows with the number
of blocks, so that each block is read in long ranges: 256 KiB of a file on a disk, up to 64 MiB in all; 4 MiB of an
object, up to 512 MiB in all. Ranges of objects are requested together. Records that are adjacent in a block, as most
are if little is appended to a version, are written from the buffer into which they were read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.extras import Buffer
from beam_datasets.shuffle.blocks import (
    KEY_BYTES,
    AnyBlock,
    Block,
    SpilledBlocks,
    cuts,
    gather,
    key_array,
    sort_order,
    spill,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Read = Callable[[int, int], bytes]

INLINE_BYTES = 32 << 20  # of inline payload that memory holds
MIN_CHUNK_BYTES = 1 << 20  # fits the processor's cache; small buffers are used again, large ones cost fresh pages
MAX_OPEN_FILES = 500
READS_AT_ONCE = 16
PIECE_BYTES = 2 << 20  # written at once: larger than a file's buffer, which would be one more copy
_RANKS = 1 << 16  # ranks among which adjacent records are searched for at a time
MIN_RUN_BYTES = 16 << 10  # mean size of adjacent records from which they are written without being gathered


@dataclass(frozen=True, slots=True)
class ReadSize:
    """Sizes of the reads of payload.

    Attributes:
        range_bytes: average size of one read of one block, in bytes.
        max_bytes: maximum size of the reads of all blocks at once, in bytes.
    """

    range_bytes: int
    max_bytes: int

    def chunks(self, num_blocks: int, num_bytes: int) -> int:
        """Returns the number of chunks, at least 1, in which `num_blocks` blocks of `num_bytes` in all are read."""
        target_bytes = max(MIN_CHUNK_BYTES, min(self.max_bytes, self.range_bytes * num_blocks))
        return max(1, round(num_bytes / target_bytes), -(-num_bytes // self.max_bytes))


ON_DISK = ReadSize(256 << 10, 64 << 20)
IN_STORE = ReadSize(4 << 20, 512 << 20)


@dataclass(frozen=True, slots=True)
class Merge:
    """The records of some blocks, and their order.

    Attributes:
        reads: functions that read bytes [start, stop) of each block's payload, in ascending sort key.
        keys: (n, 2) uint64, the sort keys of all blocks, one block after the other.
        sizes: (n,) uint32, their framed sizes in bytes.
        block_of: (n,) int32, the block of each.
        starts: (n,) where each begins in its block's payload, in bytes.
        order: the records to write, in order, as places in the arrays above.
        read_size: sizes of the reads of payload.
        for_all: `map`, or `Executor.map` of a thread pool.
    """

    reads: Sequence[Read]
    keys: NDArray[np.uint64]
    sizes: NDArray[np.uint32]
    block_of: NDArray[np.int32]
    starts: NDArray[np.int64]
    order: NDArray[np.intp]
    read_size: ReadSize
    for_all: Callable[..., Iterable[Any]]

    @classmethod
    def of(cls, blocks: Iterable[AnyBlock], stack: contextlib.ExitStack) -> Merge:
        """Returns the merge of blocks, whose files are open until the stack is closed."""
        blocks_and_reads = list(_park_inline_payload(blocks, stack))
        remote = any(storage.is_remote(each.path) for each, _ in blocks_and_reads)
        for_all = stack.enter_context(ThreadPoolExecutor(READS_AT_ONCE)).map if remote else map
        readers: list[Read] = []
        parts, sizes = [], []
        for loaded_blocks, read in for_all(lambda each: (each[0].load(), each[1]), blocks_and_reads):
            for block in loaded_blocks:
                keeps_open = remote or len(readers) < MAX_OPEN_FILES  # a process has a limit
                readers.append(read or _block_reader(block, stack if keeps_open else None))
                parts.append(block.keys)
                sizes.append(np.frombuffer(block.sizes, "<u4").astype(np.uint32, copy=False))
        all_keys = b"".join(parts)
        del parts
        keys = key_array(all_keys)
        del all_keys
        starts = [np.cumsum(block_sizes, dtype=np.int64) - block_sizes for block_sizes in sizes]
        return cls(
            readers,
            keys,
            np.concatenate([np.empty(0, np.uint32), *sizes]),
            np.repeat(np.arange(len(readers), dtype=np.int32), [len(block_sizes) for block_sizes in sizes]),
            np.concatenate([np.empty(0, np.int64), *starts]),
            sort_order(keys),
            IN_STORE if remote else ON_DISK,
            for_all,
        )

    def __len__(self) -> int:
        return len(self.order)

    def slice(self, start: int, stop: int) -> Merge:
        """Returns the merge of ranks [start, stop)."""
        return replace(self, order=self.order[start:stop])

    def ordered_keys(self) -> NDArray[np.uint8]:
        """Returns the sort keys in order, (n, 16)."""
        keys = self.keys[self.order]
        if sys.byteorder == "little":
            keys.byteswap(inplace=True)
        return keys.view(np.uint8).reshape(-1, KEY_BYTES)

    def record(self, index: int) -> bytes:
        """Returns the record at an index of the arrays (not a rank), without its framing."""
        start = int(self.starts[index])
        return self.reads[int(self.block_of[index])](start + 12, start + int(self.sizes[index]) - 4)

    def repeats(self) -> NDArray[np.intp]:
        """Returns the ranks of the records whose key equals the key at the rank before."""
        high, low = (self.keys[:, half] for half in (0, 1))
        high = high[self.order]
        ranks = np.flatnonzero(high[1:] == high[:-1]) + 1
        repeats: NDArray[np.intp] = ranks[low[self.order[ranks]] == low[self.order[ranks - 1]]]
        return repeats

    def without_duplicates(self) -> Merge:
        """Returns the merge with only one of the records of each key: the smallest as bytes."""
        repeats = self.repeats()
        if not len(repeats):
            return self
        order = self.order.copy()
        for rank in repeats.tolist():  # the smallest of the equal keys so far moves to the last rank
            order[rank - 1 : rank + 1] = sorted(order[rank - 1 : rank + 1].tolist(), key=self.record, reverse=True)
        keep = np.ones(len(order), np.bool_)
        keep[repeats - 1] = False
        return replace(self, order=order[keep])

    def chunks(self, chunk_bytes: int | None = None) -> Iterator[list[Buffer]]:
        """Yields the framed records in order, as lists of buffers to be written one after the other.

        Args:
            chunk_bytes: approximate bytes of the records of a chunk, which is read before its first record is yielded;
                None to choose it from the number of blocks and bytes.
        """
        sizes = self.sizes[self.order]
        if chunk_bytes is None:
            num_bytes = int(sizes.sum(dtype=np.int64))
            number = self.read_size.chunks(len(self.reads), num_bytes)
            chunk_bytes = num_bytes // number + int(sizes.max(initial=0))  # so that no small one is left
        for _, group in itertools.groupby(cuts(sizes, chunk_bytes), lambda span: span[0] // _RANKS):
            spans = list(group)
            positions = self.order[spans[0][0] : spans[-1][1]]
            bounds = np.array([start for start, _ in spans] + [spans[-1][1]]) - spans[0][0]
            block_of, starts = self.block_of[positions], self.starts[positions]
            ends = starts + self.sizes[positions]
            breaks = np.flatnonzero((starts[1:] != ends[:-1]) | (block_of[1:] != block_of[:-1])) + 1
            if (len(breaks) + len(spans)) * MIN_RUN_BYTES > (ends - starts).sum():
                for start, stop in itertools.pairwise(bounds.tolist()):
                    yield from self._gather(positions[start:stop])
                continue
            run_starts = np.union1d(breaks, bounds[:-1])
            last_of_runs = np.append(run_starts[1:], len(positions)) - 1
            runs = list(zip(block_of[run_starts].tolist(), starts[run_starts].tolist(), ends[last_of_runs].tolist()))
            for start, stop in itertools.pairwise(np.searchsorted(run_starts, bounds).tolist()):
                yield self._read_ranges(runs[start:stop])

    def _read_ranges(self, runs: list[tuple[int, int, int]]) -> list[Buffer]:
        """Returns the bytes of each run, in the order of `runs`; reads one range of each block.

        Args:
            runs: (number of the block, start, end) in bytes of the block's payload, ascending in each block.
        """
        lows, highs = {block: start for block, start, _ in reversed(runs)}, {block: end for block, _, end in runs}
        buffers = self.for_all(lambda block: self.reads[block](lows[block], highs[block]), lows)
        views = {block: memoryview(data) for block, data in zip(lows, buffers)}
        return [views[block][start - lows[block] : end - lows[block]] for block, start, end in runs]

    def _gather(self, positions: NDArray[np.intp]) -> Iterator[list[Buffer]]:
        """Yields the framed records at these places, in this order; reads the range of each block once."""
        is_read = np.zeros(len(self.reads), np.bool_)  # np.unique would sort all places
        is_read[self.block_of[positions]] = True
        blocks = np.flatnonzero(is_read)
        block_of = (np.cumsum(is_read) - 1)[self.block_of[positions]]
        starts, sizes = self.starts[positions], self.sizes[positions].astype(np.int64)
        lows = np.full(len(blocks), np.iinfo(np.int64).max)
        highs = np.zeros(len(blocks), np.int64)
        np.minimum.at(lows, block_of, starts)
        np.maximum.at(highs, block_of, starts + sizes)
        reads = [self.reads[block] for block in blocks.tolist()]
        ranges = list(self.for_all(lambda read, low, high: read(low, high), reads, lows.tolist(), highs.tolist()))
        starts -= lows[block_of]
        for first, stop in cuts(sizes, PIECE_BYTES):
            piece = slice(first, stop)
            yield [gather(ranges, block_of[piece], starts[piece], sizes[piece])]


def _block_reader(block: Block, stack: contextlib.ExitStack | None) -> Read:
    """Returns the function that reads bytes [start, stop) of a block's payload; with a stack, its file stays open."""
    payload = block.payload
    if isinstance(payload, bytes):
        return lambda start, stop: payload[start:stop]
    if stack is None:
        return lambda start, stop: bytes(payload.read(start, stop))
    reader = stack.enter_context(storage.open_reader(payload.path, size=payload.stop))
    return lambda start, stop: bytes(reader.read(payload.start + start, payload.start + stop))


def _park_inline_payload(
    blocks: Iterable[AnyBlock], stack: contextlib.ExitStack
) -> Iterator[tuple[AnyBlock, Read | None]]:
    """Yields (block, function that reads its payload); the function is None unless the payload was written to a file.

    Once `INLINE_BYTES` of inline payload are in memory, the payload of further inline blocks is written to a temporary
    file, and the yielded block has an empty payload. All blocks are needed before the first record is written, and
    engines that stream blocks do not keep them in memory.

    Args:
        blocks: the blocks to merge.
        stack: closes the temporary file.
    """
    file, held_bytes = None, 0
    for block in blocks:
        if not isinstance(block, Block) or not isinstance(block.payload, bytes):
            yield block, None
            continue
        held_bytes += len(block.payload)
        if held_bytes <= INLINE_BYTES:
            yield block, None
            continue
        if file is None:
            file = stack.enter_context(tempfile.TemporaryFile(prefix="beam_datasets-", buffering=0))  # noqa: SIM115
        at, remaining = file.tell(), memoryview(block.payload)
        while remaining:
            remaining = remaining[file.write(remaining) :]
        yield replace(block, payload=b""), partial(_read_parked, file.fileno(), at)


def _read_parked(file: int, at: int, start: int, stop: int) -> bytes:
    """Returns bytes [start, stop) of a payload that begins at byte `at` of the file with descriptor `file`."""
    return os.pread(file, stop - start, at + start)


def merge_blocks(blocks: Iterable[AnyBlock], spill_dir: str) -> SpilledBlocks:
    """Writes the records of spilled blocks of one split as one block, and returns it."""
    blocks = list(blocks)
    with contextlib.ExitStack() as stack:
        merge = Merge.of(blocks, stack)
        keys, sizes = merge.ordered_keys().tobytes(), merge.sizes[merge.order]
        num_bytes = int(sizes.sum(dtype=np.int64))
        payload = itertools.chain.from_iterable(merge.chunks())
        return spill(blocks[0].split, keys, sizes.astype("<u4").tobytes(), payload, num_bytes, spill_dir, kind="run")
