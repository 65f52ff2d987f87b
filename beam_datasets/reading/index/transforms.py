"""Operations on the order of records, as mappings of positions, so that resuming does not replay earlier items.

A dataset is a tree of operations over a source. Each operation has a length, yields the items at ranges of positions,
and fetches the items at any positions, all as a function of the epoch. Items are stored records, or lists of items.
Decoding comes after all operations, so items that an operation leaves out are never decoded.

Positions are passed in arrays and items in blocks, so that the cost of an operation per item is negligible.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.reading.blocks import Items, growing_sizes, regroup
from beam_datasets.reading.index.division import MAX_POSITION, Share
from beam_datasets.reading.index.permutations import RangeShuffle, WindowShuffle
from beam_datasets.reading.records.prefetch import prefetch_results

Ints = NDArray[np.int64]

Spans: TypeAlias = "tuple[Ints, Ints]"
"""Ascending, disjoint ranges of positions: (start of each range, number of positions in it, at least 1)."""

ENDLESS = MAX_POSITION
"""Length of an infinite dataset."""

MAX_ENDLESS = ENDLESS >> 1
"""Exclusive upper limit of positions at which an infinite dataset can be read."""

_BLOCK = 32  # default number of items per block
_FETCH_BYTES, _MAX_FETCHED = 4 << 20, 1 << 12  # bytes and number of items fetched at once
_REMOTE_FETCH_BYTES, _MAX_REMOTE_FETCHED = 16 << 20, 1 << 14  # more of remote files: near items are one request
_MIN_SPANS, _MAX_SPANS = 1 << 10, 1 << 14  # spans of a worker computed at once, fewest at first
_MAX_SPAN = 1 << 32  # positions in a span of a whole range
_DENSE = 1.25  # a window is read as a stream if that reads at most this many items per wanted item


class Operation(ABC):
    """Items in an order; immutable.

    Attributes:
        children: the operations whose items are ordered; () for a source of records.
        length: number of items in an epoch; `ENDLESS` if infinite.
        item_bytes: approximate bytes per item.
        texts: descriptions of all operations from the source to this one, for a state's fingerprint.
        is_remote: whether any items come from remote files, so that prefetching is worthwhile.
    """

    def __init__(
        self,
        children: tuple[Operation, ...],
        length: int,
        item_bytes: float,
        texts: tuple[str, ...],
        *,
        is_remote: bool = False,
    ) -> None:
        """Sets the attributes; see the class. An operation with a remote child is remote, too."""
        self.children = children
        self.length = length
        self.item_bytes = item_bytes
        self.texts = texts
        self.is_remote: bool = is_remote or any(child.is_remote for child in children)

    @property
    def child(self) -> Operation:
        """The only one of `children`."""
        (child,) = self.children
        return child

    @abstractmethod
    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at the positions, in order, in blocks of any size; a damaged record is a `Damaged`.

        Args:
            spans: pairs of arrays (starts, counts) of ranges of positions in [0, length); see `Spans`. The ranges
                ascend within each pair, and from one pair to the next.
            epoch: number of the epoch, at least 0.
        """

    @abstractmethod
    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items at positions in [0, length), in any order; a damaged record is a `Damaged`."""


class Rearranged(Operation):
    """All or some items of a child operation, at other positions."""

    _num_computed = _MAX_FETCHED
    """Number of positions that `child_positions` converts at once, or the number fetched at once, if that is more."""

    def __init__(self, child: Operation, length: int, *texts: str) -> None:
        """Rearranges the items of a child.

        Args:
            child: the operation that has the items.
            length: number of items in an epoch; `ENDLESS` if infinite.
            *texts: description of this operation, which saved states contain; none for one that they do not name.
        """
        super().__init__((child,), length, child.item_bytes, (*child.texts, *texts))

    @abstractmethod
    def child_positions(self, positions: Ints, epoch: int) -> Ints:
        """Returns the position in the child of the item at each position, such as [3, 4] for `Slice` from 3 on.

        Args:
            positions: positions of this operation, in any order; shape (n,), as the result.
            epoch: the epoch, of which a shuffled order is a function.
        """

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items at positions: those of the child operation at `child_positions(positions, epoch)`."""
        return self.child.fetch(self.child_positions(positions, epoch), epoch)

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at spans of positions in growing blocks; of remote files, a thread fetches the next one."""
        return prefetch_results(self._fetches(spans, epoch), threads=int(self.is_remote))

    def _fetches(self, spans: Iterator[Spans], epoch: int) -> Iterator[Callable[[], Items]]:
        """Yields functions that fetch the next block of items at spans of positions.

        The blocks grow up to a number of bytes and items. It is larger for remote files: the more items are fetched at
        once, the nearer they are to each other. `_num_computed` positions are computed at once, fewer at first.
        """
        max_bytes, max_items, growth = _FETCH_BYTES, _MAX_FETCHED, 2
        if self.is_remote:  # each fetch waits for the store
            max_bytes, max_items, growth = _REMOTE_FETCH_BYTES, _MAX_REMOTE_FETCHED, 4
        max_count = int(min(max(max_bytes / max(self.item_bytes, 1), 1), max_items))
        counts = growing_sizes(min(_BLOCK, max_count), max_count, growth)
        for part in limit_spans(spans, growing_sizes(max_items, max(max_items, self._num_computed))):
            child_positions, start = self.child_positions(positions_of(part), epoch), 0
            while start < len(child_positions):
                stop = start + next(counts)
                yield functools.partial(self.child.fetch, child_positions[start:stop], epoch)
                start = stop


class Slice(Rearranged):
    """The items at a range of positions, as for `skip` and `take`."""

    def __init__(self, child: Operation, start: int, stop: int) -> None:
        """Takes the positions [start, stop) of the child, clipped to its length."""
        self.requested = start, stop
        self._start = min(start, child.length)
        self._stop = max(self._start, min(stop, child.length))
        endless = self._stop == ENDLESS
        text = f"[{start}:{'' if self._stop == child.length else stop}]"
        super().__init__(child, ENDLESS if endless else self._stop - self._start, text)

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at spans of positions, as blocks of items of the child operation."""
        return self.child.blocks(((starts + self._start, counts) for starts, counts in spans), epoch)

    def child_positions(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each position."""
        return positions + self._start


class Repeat(Operation):
    """The items of several epochs of the child, one after another, as one epoch."""

    def __init__(self, child: Operation, times: int | None) -> None:
        """Repeats the child `times` times; infinitely if None."""
        self.times = times
        endless = child.length and (times is None or child.length == ENDLESS)
        length = ENDLESS if endless else child.length * (times or 0)
        text = f"repeat({'' if times is None else times})"
        super().__init__((child,), length, child.item_bytes, (*child.texts, text))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at ranges of positions, one epoch after another."""
        for number, child_spans in group_by_epoch(spans, self.child.length):
            yield from self.child.blocks(child_spans, self._epoch(epoch, number))

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the child's items at these positions, each from its epoch."""
        numbers, indices_in_epoch = np.divmod(positions, self.child.length)
        items: list[Any] = [None] * len(positions)
        for number in np.unique(numbers).tolist():
            indices = np.flatnonzero(numbers == number)
            for index, item in zip(
                indices.tolist(), self.child.fetch(indices_in_epoch[indices], self._epoch(epoch, number))
            ):
                items[index] = item
        return items

    def _epoch(self, epoch: int, number: int) -> int:
        """Returns the child's epoch for repetition `number` of an epoch; infinite repetition ignores `epoch`."""
        return epoch * (self.times or 0) + number


class Shuffle(Rearranged):
    """All items in a pseudorandom permutation, computed position by position."""

    def __init__(self, child: Operation, seed: int) -> None:
        """Shuffles the items of a child, which must be finite, with any integer as seed."""
        self._seed = seed
        super().__init__(child, child.length, f"shuffle(seed={seed})")

    def child_positions(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each shuffled position."""
        return RangeShuffle(self.length, self._seed, epoch).sources(positions)


class Window(Rearranged):
    """The items shuffled within a moving window of `window` items."""

    _num_computed = _MAX_SPANS  # each call shuffles the windows of its positions anew

    def __init__(self, child: Operation, seed: int, window: int) -> None:
        """Shuffles the items of a child; see `WindowShuffle` for the seed and the window."""
        self._seed = seed
        self._window = window
        super().__init__(child, child.length, f"shuffle(seed={seed}, window={window})")

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at ranges of positions, in the order of a window shuffle.

        Reads the input as a stream and holds at most a window of items. If the positions are sparse, as in a worker's
        shard, fetches only the items at these positions.
        """
        first = next(spans, None)
        if first is None:
            return iter(())
        starts, counts = first
        spans = itertools.chain((first,), spans)
        if int(starts[-1] + counts[-1] - starts[0]) <= _DENSE * int(counts.sum()):
            return self._stream_blocks(int(starts[0]), spans, epoch)
        return super().blocks(spans, epoch)

    def _stream_blocks(self, start: int, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at the positions of the spans, while it reads all items of the child once, in order.

        Args:
            start: the first position of the spans.
            spans: ascending ranges of shuffled positions.
            epoch: at least 0.
        """

        def read(first: int) -> Iterator[Any]:
            """Yields single items of the child operation, from its position `first` to its end."""
            to_end = np.array([first]), np.array([self.length - first])
            return itertools.chain.from_iterable(self.child.blocks(iter((to_end,)), epoch))

        items, position = self._shuffle(epoch).apply(read, start), start
        for starts, counts in spans:
            for begin, count in zip(starts.tolist(), counts.tolist()):
                span_items = itertools.islice(items, begin - position, begin - position + count)
                position = begin + count
                yield from collect_blocks(span_items)

    def child_positions(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each shuffled position."""
        return self._shuffle(epoch).sources(positions)

    def _shuffle(self, epoch: int) -> WindowShuffle:
        """Returns the shuffle of an epoch."""
        return WindowShuffle(self.length, self._window, self._seed, epoch)


@dataclasses.dataclass(frozen=True)
class Even:
    """Gives all ranks the same number of whole blocks.

    Attributes:
        mode: "drop" leaves out the last items of an epoch; "pad" adds items from its beginning after the last ones.
        multiple: all ranks together get a multiple of this number of items.
    """

    mode: str
    multiple: int

    def __post_init__(self) -> None:
        if self.mode not in ("drop", "pad"):
            raise ValueError(f"even must be 'drop', 'pad' or None, got {self.mode!r}.")

    def length(self, length: int) -> int:
        """Returns the number of items that all ranks together get from an epoch of `length` items.

        >>> Even("drop", 8).length(20), Even("pad", 8).length(20)
        (16, 24)
        """
        if length == ENDLESS:
            return length
        return length - length % self.multiple if self.mode == "drop" else length + -length % self.multiple


class Evened(Operation):
    """The items of an epoch, of which the last ones are left out or the first ones are added at the end; see `Even`."""

    def __init__(self, child: Operation, even: Even, full: Operation | None = None) -> None:
        """Leaves out or adds items.

        Args:
            child: the items of all ranks.
            even: the number of items.
            full: the items of the whole epoch, if the child has only the last ones; None for the child.
        """
        self.even = even
        self.full = child if full is None else full
        super().__init__((child,), even.length(child.length), child.item_bytes, child.texts)

    def with_child(self, child: Operation) -> Evened:
        """Returns this operation on another child, which has the last items of the epoch; pads from `full`."""
        return Evened(child, self.even, self.full)

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at spans of positions; see `Operation.blocks`."""
        if self.length <= self.child.length:
            yield from self.child.blocks(spans, epoch)
            return
        num_before = self._num_before
        spans = ((starts + num_before, counts) for starts, counts in spans)
        for lap, lap_spans in group_by_epoch(spans, self.full.length):
            if lap:
                yield from self.full.blocks(lap_spans, epoch)
            else:
                yield from self.child.blocks(((starts - num_before, counts) for starts, counts in lap_spans), epoch)

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items at any positions."""
        if self.length <= self.child.length:
            return self.child.fetch(positions, epoch)
        laps, indices = np.divmod(positions + self._num_before, self.full.length)
        is_added = laps > 0
        items: list[Any] = [None] * len(positions)
        for operation, selected, start in ((self.child, ~is_added, self._num_before), (self.full, is_added, 0)):
            if selected.any():
                fetched_items = operation.fetch(indices[selected] - start, epoch)
                for number, item in zip(np.flatnonzero(selected).tolist(), fetched_items):
                    items[number] = item
        return items

    @property
    def _num_before(self) -> int:
        """Number of items of the whole epoch before those of the child."""
        return self.full.length - self.child.length


class Shared(Rearranged):
    """One worker's part of the items; see `reading.index.division`."""

    def __init__(self, child: Operation, share: Share, num_taken: int = 0) -> None:
        """Takes a share of the child's items.

        Args:
            child: the items of all workers; an `Evened` if all ranks get the same number of items.
            share: the blocks of this worker.
            num_taken: number of items, from the beginning of the share, that are left out, as they are already taken.
        """
        self.share = share.with_length(child.length) if isinstance(child, Evened) else share
        self.num_taken = num_taken
        length = child.length if child.length == ENDLESS else max(0, self.share.count(child.length) - num_taken)
        by_ones = ", even" if share.end is not None and share.block > 1 else ""
        mode = f", even={child.even.mode!r}" if isinstance(child, Evened) else ""
        text = f"shard(of {share.worker_count}, block={share.block}{by_ones}{mode})"
        super().__init__(child, length, text)

    def in_blocks(self, size: int) -> Shared:
        """Returns this share with blocks of `size` items if it has the default block size; otherwise returns itself."""
        share, child = self.share, self.child
        if share.end is None:
            return self
        if isinstance(child, Evened):
            even = dataclasses.replace(child.even, multiple=share.worker_count * size)
            return Shared(Evened(child.child, even), Share(share.worker_index, share.worker_count, block=size))
        return Shared(child, Share.balanced(share.worker_index, share.worker_count, share.end, size))

    def with_child(self, child: Operation, num_taken: int) -> Shared:
        """Returns this worker's share of another child, which has the last items of the epoch.

        Args:
            child: the remaining items of all workers.
            num_taken: number of items of the share to leave out.
        """
        return Shared(child, self.share.with_length(child.length), num_taken)

    @property
    def is_in_block(self) -> bool:
        """Whether the left-out items are a part of a block of worker 0, and not of items divided one by one."""
        first_share = dataclasses.replace(self.share, worker_index=0)
        return first_share.has_blocks and self.num_taken < first_share.count(self.child.length)

    def of_first_worker(self, child: Operation) -> Shared:
        """Returns the share of `child` for worker 0."""
        return Shared(child, dataclasses.replace(self.share, worker_index=0), self.num_taken)

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields this worker's items at positions of its share."""
        max_counts = (count * self.share.block for count in growing_sizes(_MIN_SPANS, _MAX_SPANS))
        parts = limit_spans(spans, max_counts)
        child_spans = (self.share.stream_ranges(starts + self.num_taken, counts) for starts, counts in parts)
        return self.child.blocks(child_spans, epoch)

    def child_positions(self, positions: Ints, epoch: int) -> Ints:
        """Converts positions of this worker's share to the child's."""
        return self.share.stream_positions(positions + self.num_taken)


class Batches(Operation):
    """Lists of `size` consecutive items; the last one of an epoch may be shorter, or is dropped."""

    def __init__(self, child: Operation, size: int, drop_remainder: bool) -> None:
        """Groups the items of a child.

        Args:
            child: the items to group.
            size: number of items in a list, at least 1.
            drop_remainder: whether to drop a shorter last list.
        """
        self.size = size
        length = child.length
        if length != ENDLESS:
            length = length // size if drop_remainder else -(-length // size)
        text = f"batch({size}{', drop_remainder=True' if drop_remainder else ''})"
        self.drop_remainder = drop_remainder
        super().__init__((child,), length, child.item_bytes * size, (*child.texts, text))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields lists of the child's items, one per block."""
        blocks = self.child.blocks(itertools.starmap(self._child_spans, spans), epoch)
        return ([group] for group in regroup(blocks, itertools.repeat(self.size), may_fall_short=False))

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the list of the child's items for each position of a batch."""
        starts, counts = self._child_spans(positions, np.ones_like(positions))
        items = iter(self.child.fetch(positions_of((starts, counts)), epoch))
        return [list(itertools.islice(items, count)) for count in counts.tolist()]

    def _child_spans(self, starts: Ints, counts: Ints) -> Spans:
        """Maps spans of lists to spans of the child's items; the last list of an epoch may be shorter.

        Lists 1 and 2 of lists of 3 of 8 items, the span ([1], [2]), are the items ([3], [5]).
        """
        return starts * self.size, np.minimum((starts + counts) * self.size, self.child.length) - starts * self.size


def divide(operation: Operation, share: Share, even: Even | None = None) -> Operation:
    """Returns a worker's share of the items of an operation.

    With `even`, a final `batch` is moved after the division, so that examples are padded or dropped, not batches.

    Raises:
        ValueError: `even` is given, an operation follows batch(), and the last batch of an epoch is smaller.
    """
    if even is None:
        return Shared(operation, share)
    if not isinstance(operation, Batches):
        _check_equal_batches(operation, even)
        return Shared(Evened(operation, even), share)
    size = operation.size
    of_examples = dataclasses.replace(share, block=share.block * size, end=None)
    child = divide(operation.child, of_examples, dataclasses.replace(even, multiple=even.multiple * size))
    return Batches(child, size, operation.drop_remainder)


def _check_equal_batches(operation: Operation, even: Even) -> None:
    """Checks that all batches made by an operation and its descendants have the same size.

    Args:
        operation: the operation, which follows batch().
        even: the option of the caller, for the error.

    Raises:
        ValueError: the last batch of an epoch is smaller.
    """
    if isinstance(operation, Batches) and not operation.drop_remainder and operation.length != ENDLESS:
        num_remaining = operation.child.length % operation.size
        if num_remaining:
            raise ValueError(
                f"even={even.mode!r}: expected batches of {operation.size} examples, but the last one of an epoch has "
                f"{num_remaining}, and an operation follows batch(). Call batch() last, or with drop_remainder=True."
            )
    for child in operation.children:
        _check_equal_batches(child, even)


def spans_of_range(start: int, stop: int) -> Iterator[Spans]:
    """Yields the positions [start, stop) as spans of at most 2**32 positions; products with batch sizes fit int64.

    >>> [(starts.tolist(), counts.tolist()) for starts, counts in spans_of_range(3, 10)]
    [([3], [7])]
    """
    for first in range(start, stop, _MAX_SPAN):
        yield np.array([first]), np.array([min(stop - first, _MAX_SPAN)])


def split_spans(starts: Ints, counts: Ints, end: int) -> tuple[Spans, Spans]:
    """Splits spans at a position.

    Args:
        starts: start of each range of positions, ascending.
        counts: number of positions in each range.
        end: the position, greater than the first start.

    Returns:
        The spans of the positions before `end`, and the spans of the positions from `end` on.

    >>> [list(map(np.ndarray.tolist, spans)) for spans in split_spans(np.array([0, 10]), np.array([5, 5]), 12)]
    [[[0, 10], [5, 2]], [[12], [3]]]
    """
    num_before = int(np.searchsorted(starts, end))
    excess = int(starts[num_before - 1] + counts[num_before - 1]) - end
    spans_before, spans_after = (starts[:num_before], counts[:num_before]), (starts[num_before:], counts[num_before:])
    if excess > 0:
        spans_before = spans_before[0], np.append(spans_before[1][:-1], spans_before[1][-1] - excess)
        spans_after = np.append(end, spans_after[0]), np.append(excess, spans_after[1])
    return spans_before, spans_after


def group_by_epoch(spans: Iterator[Spans], num_items: int) -> Iterator[tuple[int, Iterator[Spans]]]:
    """Yields (number of a repetition, spans of positions in this repetition), in the order of the given spans.

    Args:
        spans: ranges of positions in an epoch that is repeated.
        num_items: number of items in the epoch.

    >>> groups = group_by_epoch(iter([(np.array([8]), np.array([5]))]), 10)
    >>> [(number, [(starts.tolist(), counts.tolist()) for starts, counts in parts]) for number, parts in groups]
    [(0, [([8], [2])]), (1, [([0], [3])])]
    """

    def split() -> Iterator[tuple[int, Spans]]:
        """Yields (number of a repetition, a part of its spans)."""
        for starts, counts in spans:
            while len(starts):
                number = int(starts[0]) // num_items
                in_epoch, (starts, counts) = split_spans(starts, counts, (number + 1) * num_items)
                yield number, (in_epoch[0] - number * num_items, in_epoch[1])

    for number, parts in itertools.groupby(split(), key=operator.itemgetter(0)):
        yield number, (part_spans for _, part_spans in parts)


def limit_spans(spans: Iterator[Spans], max_counts: Iterator[int]) -> Iterator[Spans]:
    """Divides spans into parts; the number of positions in each part is at most the next number of `max_counts`.

    >>> parts = limit_spans(iter([(np.array([0, 10]), np.array([3, 3]))]), iter([2, 9]))
    >>> [(starts.tolist(), counts.tolist()) for starts, counts in parts]
    [([0], [2]), ([2, 10], [1, 3])]
    """
    for starts, counts in spans:
        ends = np.cumsum(counts)
        start, total = 0, int(ends[-1])  # of a part, in the positions of the spans
        while start < total:
            stop = min(start + next(max_counts), total)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
            part_starts, part_counts = starts[first : last + 1].copy(), counts[first : last + 1].copy()
            skip = start - int(ends[first] - counts[first])
            part_starts[0] += skip
            part_counts[0] -= skip
            part_counts[-1] -= int(ends[last]) - stop
            yield part_starts, part_counts
            start = stop


def positions_of(spans: Spans) -> Ints:
    """Expands spans to an array of their positions.

    >>> positions_of((np.array([0, 10]), np.array([2, 3]))).tolist()
    [0, 1, 10, 11, 12]
    """
    starts, counts = spans
    ends = np.cumsum(counts)
    positions: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return positions


def collect_blocks(items: Iterator[Any]) -> Iterator[Items]:
    """Groups items into lists of 32; if `items` raises an error, yields the items before it, then raises the error."""
    block: list[Any] = []
    try:
        for item in items:
            block.append(item)
            if len(block) == _BLOCK:
                full, block = block, []
                yield full
    except Exception:
        if block:
            yield block
        raise
    if block:
        yield block
