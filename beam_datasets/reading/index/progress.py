"""Progress: the items of a stream that workers have taken, and the operation that yields the remaining ones.

The stream is a dataset without its final `shard` and `batch` steps; all workers share it. The items taken so far are a
prefix of the stream while they are between blocks. In the middle of blocks, each has taken a part of its block, and
other workers, in any number, can continue with the remaining items: the untaken items of each block, then all later
blocks. If these workers stop in the middle of blocks, too, their progress is counted in the remaining items, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat, starmap

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import StateError
from beam_datasets.reading.blocks import Items
from beam_datasets.reading.index.division import Share, Unfinished, UnfinishedBlocks
from beam_datasets.reading.index.transforms import (
    ENDLESS,
    Batches,
    Evened,
    Operation,
    Rearranged,
    Shared,
    Slice,
    Spans,
    limit_spans,
)

Ints = NDArray[np.int64]

_MAX_BLOCKS = 1 << 14  # computed at once


@dataclass(frozen=True)
class Progress:
    """The items of a stream that are taken.

    Attributes:
        position: position in the stream; all items before it are taken.
        unfinished: pairs (blocks, count), oldest first. The first blocks begin at `position` and are partly taken. Of
            the items that remain after them, `count` are taken; there the next unfinished blocks begin.
    """

    position: int = 0
    unfinished: Unfinished = ()

    def remaining(self, stream: Operation) -> Operation:
        """Returns the items of the stream that are not taken."""
        for remaining in self._divisions(stream):
            stream = remaining
        position = self.unfinished[-1][1] if self.unfinished else self.position
        return Slice(stream, position, stream.length) if position else stream

    def check(self, stream: Operation) -> None:
        """Checks that the progress, from a saved state, is within a stream.

        Raises:
            StateError: a position, or the unfinished blocks, are beyond the end.
        """
        length, position = stream.length, self.position
        for remaining, (blocks, count) in zip(self._divisions(stream), self.unfinished):
            # worker 0 has the most items; once it is exhausted, the saved position is the end
            if position + blocks.taken >= length:
                raise StateError(
                    f"the state's blocks: expected fewer than {length - position} examples taken of a block, of which "
                    f"that many are left, got {blocks.taken}. Restore it with the dataset that it was saved with, or "
                    "start from the beginning."
                )
            length, position = remaining.length, count
            if count > length:
                raise StateError(
                    f"the state's blocks: expected a position in the {length} examples that are left, got {count}. "
                    "Restore it with the dataset that it was saved with, or start from the beginning."
                )

    def advanced(self, count: int, blocks: UnfinishedBlocks | None) -> Progress:
        """Returns the progress after workers have taken `count` remaining items, and parts of the blocks after them.

        >>> Progress(8).advanced(4, UnfinishedBlocks(worker_count=4, block=2, taken=1))
        Progress(position=12, unfinished=((UnfinishedBlocks(worker_count=4, block=2, taken=1), 0),))
        """
        progress = Progress(self.position + count)
        if self.unfinished:
            last_blocks, position = self.unfinished[-1]
            progress = replace(self, unfinished=(*self.unfinished[:-1], (last_blocks, position + count)))
        return progress if blocks is None else replace(progress, unfinished=(*progress.unfinished, (blocks, 0)))

    def simplified(self, stream: Operation) -> Progress:
        """Returns the same progress in a stream without unfinished blocks that are completely taken by now."""
        for index, remaining in enumerate(self._divisions(stream)):
            position = remaining.child_position(self.unfinished[index][1])
            if position is not None:
                earlier, later = self.unfinished[:index], self.unfinished[index + 1 :]
                if not earlier:
                    return Progress(position, later).simplified(stream)
                earlier = (*earlier[:-1], (earlier[-1][0], position))
                return Progress(self.position, (*earlier, *later)).simplified(stream)
        return self

    def num_taken_of_block(self, operation: Operation) -> int:
        """Returns the number of items of its current block that a worker has taken, if it continues this division.

        Returns:
            The number of the worker's items (examples, or batches); 0 if the workers are between blocks, or divide the
            stream in another way.
        """
        if not self.unfinished or self.unfinished[-1][1]:
            return 0
        blocks = self.unfinished[-1][0]
        share_operation, unit = _innermost_share(operation)
        if share_operation is None or blocks.taken % unit:
            return 0
        division = share_operation.share.worker_count, share_operation.share.block * unit
        return blocks.taken // unit if (blocks.worker_count, blocks.block) == division else 0

    def divide_remaining(self, operation: Operation, stream: Operation) -> tuple[Progress, Operation]:
        """Returns the items of a worker that continues, and the progress in which they are counted.

        A worker continues in its block of the last unfinished blocks if its share divides the items there into the same
        blocks. It may not: at the end, a share may divide them one by one, or leave them out.

        Args:
            operation: the items of the worker from the beginning of an epoch.
            stream: the items of all workers from the beginning of an epoch.
        """
        num_taken = self.num_taken_of_block(operation)
        if num_taken:
            before = replace(self, unfinished=self.unfinished[:-1])
            divided = divide_again(operation, before.remaining(stream), num_taken)
            share_operation, _ = _innermost_share(divided)
            if share_operation is not None and share_operation.is_in_block:
                return before, divided
        return self, divide_again(operation, self.remaining(stream))

    def _divisions(self, stream: Operation) -> Iterator[_Remaining]:
        """Yields, for each of the unfinished blocks, the operation with the items that remain after them."""
        position = self.position
        for blocks, count in self.unfinished:
            stream = remaining = _Remaining(stream, position, blocks)
            yield remaining
            position = count


class _Remaining(Rearranged):
    """Items remaining after unfinished blocks: the untaken items of each worker's block, then all later blocks.

    If 2 workers have taken 1 of their blocks of 4, from position 8 on, the positions 9, 10, 11, 13, 14, 15, 16, 17, ...
    remain.
    """

    def __init__(self, child: Operation, start: int, blocks: UnfinishedBlocks) -> None:
        """Leaves out the positions before `start`, and the items taken of the blocks that begin there.

        Time and memory do not depend on the number of workers or the block size.

        Args:
            child: the stream, or the items that remained after earlier unfinished blocks.
            start: the first position of the unfinished blocks.
            blocks: the unfinished blocks.
        """
        length = child.length - start
        num_whole, last_block = divmod(length, blocks.block)
        num_untaken = blocks.block - blocks.taken
        self.num_in_blocks = num_whole * num_untaken + max(0, last_block - blocks.taken)
        """Number of untaken items in the unfinished blocks; they come first."""
        if num_whole >= blocks.worker_count:
            self.num_in_blocks = blocks.worker_count * num_untaken
        self._num_untaken = min(num_untaken, ENDLESS)
        self._block = min(blocks.block, ENDLESS)
        self._first_untaken = start + blocks.taken
        self._first_later = start + min(blocks.worker_count * blocks.block, length)
        is_endless = child.length == ENDLESS
        num_items = ENDLESS if is_endless else self.num_in_blocks + child.length - self._first_later
        super().__init__(child, num_items)

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the remaining items at spans of positions, as blocks of items of the child operation."""
        max_positions = _MAX_BLOCKS * self._num_untaken
        if self.num_in_blocks > max_positions:  # too many blocks to compute at once
            spans = limit_spans(spans, repeat(max_positions))
        return self.child.blocks(starmap(self._child_spans, spans), epoch)

    def _child_spans(self, starts: Ints, counts: Ints) -> Spans:
        """Maps spans of the remaining items to spans of the child, split where taken items are skipped."""
        stops = starts + counts
        begins_in_blocks, ends_later = starts < self.num_in_blocks, stops > self.num_in_blocks
        part_starts = np.maximum(starts[ends_later], self.num_in_blocks)
        part_counts = stops[ends_later] - part_starts
        if begins_in_blocks.any():
            begin = starts[begins_in_blocks]
            num_inside = np.minimum(stops[begins_in_blocks], self.num_in_blocks) - begin
            cut_starts, cut_counts = Share(block=self._num_untaken).stream_ranges(begin, num_inside)
            part_starts = np.concatenate([cut_starts, part_starts])
            part_counts = np.concatenate([cut_counts, part_counts])
        return self.child_positions(part_starts), part_counts

    def child_positions(self, positions: Ints, epoch: int = 0) -> Ints:
        """Returns the child's position for each position."""
        child_positions: Ints = positions + (self._first_later - self.num_in_blocks)
        is_inside = positions < self.num_in_blocks
        rounds, indices_in_block = np.divmod(positions[is_inside], self._num_untaken)
        child_positions[is_inside] = self._first_untaken + rounds * self._block + indices_in_block
        return child_positions

    def child_position(self, position: int) -> int | None:
        """Returns the child's position of an item; None inside unfinished blocks, which have gaps in the child."""
        return None if position < self.num_in_blocks else self._first_later + position - self.num_in_blocks


def stream_of(operation: Operation) -> Operation:
    """Returns the stream that workers share: the operation without its final `shard` and `batch` steps."""
    while isinstance(operation, (Batches, Shared, Evened)):
        operation = operation.child
    return operation


def divide_again(operation: Operation, stream: Operation, num_taken: int = 0) -> Operation:
    """Applies the `shard` and `batch` steps of an operation to another stream.

    Args:
        operation: the items of one worker.
        stream: the stream to divide and batch: the remaining items of the epoch; with `num_taken`, it begins at the
            block that is partly taken.
        num_taken: number of items of the innermost share, from its beginning, to skip; see
            `Progress.num_taken_of_block`.
    """
    if isinstance(operation, Batches):
        return Batches(divide_again(operation.child, stream, num_taken), operation.size, operation.drop_remainder)
    if isinstance(operation, Shared):
        is_innermost = _innermost_share(operation)[0] is operation
        child = divide_again(operation.child, stream, 0 if is_innermost else num_taken)
        return operation.with_child(child, num_taken if is_innermost else 0)
    if isinstance(operation, Evened):
        return operation.with_child(divide_again(operation.child, stream, num_taken))
    return stream


def stream_progress(
    operation: Operation, num_taken: int, *, has_ended: bool = False
) -> tuple[int, UnfinishedBlocks | None]:
    """Returns the progress of all workers together, once each has taken `num_taken` items.

    Args:
        operation: the items of one worker.
        num_taken: number of items that this worker has yielded.
        has_ended: whether this worker is exhausted. Before that, other workers may have one item more.

    Returns:
        The position up to which the stream is taken, and the unfinished blocks that begin there, if any.

    Raises:
        StateError: the operation has nested shares, and a worker is in the middle of a block.
    """
    first = _of_first_worker(operation)
    return _progress_of_first_worker(first, first.length if has_ended else num_taken)


def _progress_of_first_worker(operation: Operation, num_taken: int) -> tuple[int, UnfinishedBlocks | None]:
    """Implements `stream_progress`, given the operation of worker 0."""
    if isinstance(operation, Batches):
        return _progress_of_first_worker(operation.child, min(num_taken * operation.size, operation.child.length))
    if not isinstance(operation, Shared):
        return num_taken, None
    stream, num_taken = operation.child, num_taken + operation.num_taken
    is_even = isinstance(stream, Evened)
    position, blocks = operation.share.stream_progress(num_taken, stream.length, is_even=is_even)
    unpadded = stream.child if is_even else stream
    if position + (blocks.taken if blocks else 0) >= unpadded.length:  # only padding remains
        position, blocks = unpadded.length, None
    batch_size, child = 1, unpadded
    while isinstance(child, Batches):
        batch_size, child = batch_size * child.size, child.child
    if blocks is not None and isinstance(child, Shared):
        raise StateError(
            f"the state cannot be saved: expected a whole block of {blocks.block} examples, got {blocks.taken}, "
            "where shard() divides what shard() divided. Save it between blocks, or divide once."
        )
    position, child_blocks = _progress_of_first_worker(unpadded, position)
    return position, child_blocks if blocks is None else blocks.in_examples(batch_size)


def _of_first_worker(operation: Operation) -> Operation:
    """Converts the operation of a worker to that of worker 0, which has at least as many items as any other worker."""
    if isinstance(operation, Batches):
        return Batches(_of_first_worker(operation.child), operation.size, operation.drop_remainder)
    if isinstance(operation, Evened):
        return operation.with_child(_of_first_worker(operation.child))
    if isinstance(operation, Shared):
        return operation.of_first_worker(_of_first_worker(operation.child))
    return operation


def _innermost_share(operation: Operation) -> tuple[Shared | None, int]:
    """Returns the share next to the stream, if any, and the number of stream items in each of its items.

    The number is 8 for the share of `batch(8).shard(...)`, and 1 for that of `shard(...).batch(8)`.
    """
    share_operation, unit = None, 1
    while isinstance(operation, (Batches, Shared, Evened)):
        if isinstance(operation, Shared):
            share_operation, unit = operation, 1
        elif isinstance(operation, Batches):
            unit *= operation.size
        operation = operation.child
    return share_operation, unit
