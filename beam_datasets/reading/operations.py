"""Operations on the order of records, as mappings of positions: starting in the middle replays nothing.

A dataset is a tree of operations over a source. Each operation knows how many items it has, yields the items at ranges
of positions, and fetches the items at any positions, all as a function of the epoch. Items are records as they are
stored, or lists of items. Decoding comes after all operations, so an operation never decodes what another leaves out.

Ranges of positions and items are passed on in arrays and blocks, so that one item costs an operation nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import StateError
from beam_datasets.reading.blocks import Items, growing, regrouped
from beam_datasets.reading.orders import RangeShuffle, WindowShuffle
from beam_datasets.reading.runs import ahead
from beam_datasets.reading.state import MAX_POSITION, Partial, Share

Ints = NDArray[np.int64]

Spans: TypeAlias = "tuple[Ints, Ints]"
"""Ranges of positions, ascending and apart: where each starts, and how many positions it has, at least 1."""

Partials: TypeAlias = "tuple[tuple[Partial, int], ...]"
"""Where workers were in the middle of blocks; each with a position in what that left, where the next one begins."""

ENDLESS = MAX_POSITION
"""The length of what never ends."""

MAX_ENDLESS = ENDLESS >> 1
"""Above the positions at which an endless dataset can be read."""

_BLOCK = 32  # items handed on at once where nothing else says how many
_FETCH_BYTES = 4 << 20  # of items that are fetched at once
_MAX_FETCHED = 4096
_MIN_SPANS, _MAX_SPANS = 1 << 10, 1 << 14  # of a worker, computed at once: few at first
_WHOLE = 1 << 32
_DENSE = 1.25  # a window is read as a stream where that reads at most this many items for each that is wanted


class Operation(ABC):
    """Items in an order; immutable.

    Attributes:
        length: how many items there are in an epoch; `ENDLESS` where they never end.
        item_bytes: about how many bytes an item has.
        texts: what was done to the order, for a state's fingerprint.
    """

    def __init__(self, length: int, item_bytes: float, texts: tuple[str, ...]) -> None:
        self.length = length
        self.item_bytes = item_bytes
        self.texts = texts

    @property
    def is_remote(self) -> bool:
        """Whether items come from remote files, so that it pays to fetch some ahead."""
        below: Any = getattr(self, "child", None)
        return any(child.is_remote for child in getattr(self, "children", (below,)))

    @abstractmethod
    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at the positions, in their order, some at a time; `Damaged` in the place of a damaged one.

        Args:
            spans: positions in [0, length), ascending.
            epoch: at least 0.
        """

    @abstractmethod
    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items at any positions in [0, length); `Damaged` in the place of a damaged one."""


class Rearranged(Operation):
    """The items of another operation at other positions, or some of them.

    Attributes:
        child: the other operation.
    """

    child: Operation

    @abstractmethod
    def sources(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each position."""

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the child's items at these positions."""
        return self.child.fetch(self.sources(positions, epoch), epoch)


class Slice(Rearranged):
    """The items at a range of positions: what `skip` and `take` leave."""

    def __init__(self, child: Operation, start: int, stop: int) -> None:
        """Takes the positions [start, stop) of the child; they are cut off at its end."""
        self.child = child
        self._start = min(start, child.length)
        self._stop = max(self._start, min(stop, child.length))
        endless = self._stop == ENDLESS
        text = f"[{start}:{'' if self._stop == child.length else stop}]"
        super().__init__(ENDLESS if endless else self._stop - self._start, child.item_bytes, (*child.texts, text))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the child's items at these positions."""
        return self.child.blocks(((starts + self._start, counts) for starts, counts in spans), epoch)

    def sources(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each position."""
        return positions + self._start


class Left(Rearranged):
    """What is left of the items when workers, in the middle of blocks, have taken some of each block in a row."""

    def __init__(self, child: Operation, start: int, partial: Partial) -> None:
        """Skips positions before `start`, and the items of the next blocks that workers have already taken.

        There may be any number of workers, and blocks of any size: all of it is arithmetic.
        """
        self.child = child
        length = child.length - start
        whole, last = divmod(length, partial.block)
        each = partial.block - partial.taken
        self.in_blocks = whole * each + max(0, last - partial.taken)
        """How many items are left of the blocks."""
        if whole >= partial.worker_count:
            self.in_blocks = partial.worker_count * each
        self._each = min(each, ENDLESS)
        self._block = min(partial.block, ENDLESS)
        self._first = start + partial.taken
        self._next = start + min(partial.worker_count * partial.block, length)
        endless = child.length == ENDLESS
        super().__init__(
            ENDLESS if endless else self.in_blocks + child.length - self._next, child.item_bytes, child.texts
        )

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the child's items at these positions."""
        most = _MAX_SPANS * self._each
        if self.in_blocks > most:  # more blocks than are to be computed at once
            spans = limited(spans, itertools.repeat(most))
        return self.child.blocks((self._below(*part) for part in spans), epoch)

    def _below(self, starts: Ints, counts: Ints) -> Spans:
        """Returns the child's spans for these spans, cut where they skip items that workers have already taken."""
        stops = starts + counts
        inside, after = starts < self.in_blocks, stops > self.in_blocks
        rest = np.maximum(starts[after], self.in_blocks)
        firsts, numbers = rest, stops[after] - rest
        if inside.any():
            begin = starts[inside]
            cut, cut_counts = Share(block=self._each).spans(begin, np.minimum(stops[inside], self.in_blocks) - begin)
            firsts, numbers = np.concatenate([cut, firsts]), np.concatenate([cut_counts, numbers])
        return self.sources(firsts), numbers

    def sources(self, positions: Ints, epoch: int = 0) -> Ints:
        """Returns the child's position for each position."""
        child_positions: Ints = positions + (self._next - self.in_blocks)
        inside = positions < self.in_blocks
        rounds, within = np.divmod(positions[inside], self._each)
        child_positions[inside] = self._first + rounds * self._block + within
        return child_positions

    def position(self, position: int) -> int | None:
        """Returns the child's position that items go on from at one here; None while some are left of the blocks."""
        return None if position < self.in_blocks else self._next + position - self.in_blocks


class Repeat(Operation):
    """The items of several epochs, one epoch after another."""

    def __init__(self, child: Operation, times: int | None) -> None:
        """Repeats the child; for ever where `times` is None."""
        self.child = child
        self.times = times
        endless = child.length and (times is None or child.length == ENDLESS)
        length = ENDLESS if endless else child.length * (times or 0)
        super().__init__(length, child.item_bytes, (*child.texts, f"repeat({'' if times is None else times})"))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the child's, epoch by epoch."""
        for number, parts in itertools.groupby(self._by_epoch(spans), key=lambda part: part[0]):
            child_spans = (part_spans for _, part_spans in parts)
            yield from self.child.blocks(child_spans, self._epoch(epoch, number))

    def _by_epoch(self, spans: Iterator[Spans]) -> Iterator[tuple[int, Spans]]:
        """Yields (number of an epoch, positions in it); several times for an epoch if its positions come in pieces."""
        n = self.child.length
        for starts, counts in spans:
            while len(starts):
                number = int(starts[0]) // n
                in_epoch, (starts, counts) = divided_at(starts, counts, (number + 1) * n)
                yield number, (in_epoch[0] - number * n, in_epoch[1])

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the child's."""
        numbers, within = np.divmod(positions, self.child.length)
        items: list[Any] = [None] * len(positions)
        for number in np.unique(numbers).tolist():
            indices = np.flatnonzero(numbers == number)
            for index, item in zip(indices.tolist(), self.child.fetch(within[indices], self._epoch(epoch, number))):
                items[index] = item
        return items

    def _epoch(self, epoch: int, number: int) -> int:
        return epoch * (self.times or 0) + number


class Shuffle(Rearranged):
    """The items in an order that a permutation of the whole range gives, computed position by position."""

    def __init__(self, child: Operation, seed: int) -> None:
        self.child = child
        self._seed = seed
        super().__init__(child.length, child.item_bytes, (*child.texts, f"shuffle(seed={seed})"))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields items fetched a few at a time at first, then as many as take a few megabytes."""
        return _fetched(self, map(positions_of, limited(spans, itertools.repeat(_MAX_FETCHED))), epoch)

    def sources(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each shuffled position."""
        return RangeShuffle(self.length, self._seed, epoch).sources(positions)


class Window(Rearranged):
    """The items shuffled within a window that moves over them."""

    def __init__(self, child: Operation, seed: int, window: int) -> None:
        self.child = child
        self._seed = seed
        self._window = window
        super().__init__(child.length, child.item_bytes, (*child.texts, f"shuffle(seed={seed}, window={window})"))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the child's, read as a stream, each once, of which up to a window are held.

        Where most positions are others', as another worker's, only those here are fetched.
        """
        first = next(spans, None)
        if first is None:
            return iter(())
        starts, counts = first
        spans = itertools.chain((first,), spans)
        if int(starts[-1] + counts[-1] - starts[0]) <= _DENSE * int(counts.sum()):
            return self._streamed(int(starts[0]), spans, epoch)
        return _fetched(self, map(positions_of, limited(spans, itertools.repeat(_MAX_SPANS))), epoch)

    def _streamed(self, start: int, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items of the spans from one shuffled stream of the child, which begins at position `start`."""

        def read(first: int) -> Iterator[Any]:
            below = np.array([first]), np.array([self.length - first])
            return itertools.chain.from_iterable(self.child.blocks(iter((below,)), epoch))

        items, done = self._shuffle(epoch).apply(read, start), start
        for starts, counts in spans:
            for begin, count in zip(starts.tolist(), counts.tolist()):
                wanted = itertools.islice(items, begin - done, begin - done + count)
                done = begin + count
                yield from collected(wanted)

    def sources(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each shuffled position."""
        return self._shuffle(epoch).sources(positions)

    def _shuffle(self, epoch: int) -> WindowShuffle:
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


class Shared(Rearranged):
    """One worker's part of the items; see `reading.state`."""

    def __init__(self, child: Operation, share: Share, even: Even | None = None, full: Operation | None = None) -> None:
        """Takes a share of the child's items.

        Args:
            child: the items of all workers.
            share: the blocks of this worker.
            even: gives all ranks the same number of items; None if they may differ.
            full: the items of the whole epoch, if the child has only the last ones; None for the child.
        """
        self.child = child
        self.even = even
        self.full = child if full is None else full
        self.num_shared = child.length if even is None else even.length(child.length)
        """Number of items of all shares together."""
        self.share = share if even is None else share.of(self.num_shared)
        length = ENDLESS if child.length == ENDLESS else self.share.count(self.num_shared)
        by_ones = ", even" if share.end is not None and share.block > 1 else ""
        mode = "" if even is None else f", even={even.mode!r}"
        text = f"shard(of {share.worker_count}, block={share.block}{by_ones}{mode})"
        super().__init__(length, child.item_bytes, (*child.texts, text))

    def in_blocks(self, size: int) -> Shared:
        """Returns the same share with blocks of `size` items, if it has the default block size; otherwise itself."""
        share = self.share
        if share.end is None:
            return self
        if self.even is not None:
            even = dataclasses.replace(self.even, multiple=share.worker_count * size)
            return Shared(self.child, Share(share.worker_index, share.worker_count, block=size), even)
        return Shared(self.child, Share.even(share.worker_index, share.worker_count, share.end, size))

    def on(self, child: Operation) -> Shared:
        """Returns the same share of `child`, which has the last items of the epoch."""
        return Shared(child, self.share.of(child.length), self.even, self.full)

    def of_first_worker(self, child: Operation) -> Shared:
        """Returns the share of worker 0 of the items of `child`."""
        return Shared(child, dataclasses.replace(self.share, worker_index=0), self.even, self.full)

    @property
    def _items(self) -> Operation | _Padded:
        """The items of all workers, followed by those that `even="pad"` adds."""
        return self.child if self.num_shared <= self.child.length else _Padded(self.child, self.full)

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items that this worker gets of those of all workers."""
        counts = (count * self.share.block for count in growing(_MIN_SPANS, _MAX_SPANS))
        child_spans = (self.share.spans(*arrays) for arrays in limited(spans, counts))
        return self._items.blocks(child_spans, epoch)

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items that this worker has at these positions of its share."""
        return self._items.fetch(self.sources(positions, epoch), epoch)

    def sources(self, positions: Ints, epoch: int) -> Ints:
        """Returns the worker's positions in the stream."""
        return self.share.at(positions)


class _Padded:
    """The last items of an epoch, followed by endless repetitions of the whole epoch."""

    def __init__(self, last: Operation, full: Operation) -> None:
        self._last = last
        self._full = full

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the items at ascending positions."""
        for lap, parts in itertools.groupby(self._by_lap(spans), key=lambda part: part[0]):
            child_spans = (part_spans for _, part_spans in parts)
            yield from (self._full if lap else self._last).blocks(child_spans, epoch)

    def _by_lap(self, spans: Iterator[Spans]) -> Iterator[tuple[int, Spans]]:
        """Yields (lap, positions in it): lap 0 is the last items, lap n the repetition n of the whole epoch."""
        n, size = self._last.length, self._full.length
        for starts, counts in spans:
            while len(starts):
                lap = (int(starts[0]) - n) // size + 1 if starts[0] >= n else 0
                begin = n + (lap - 1) * size if lap else 0
                in_lap, (starts, counts) = divided_at(starts, counts, n + lap * size)
                yield lap, (in_lap[0] - begin, in_lap[1])

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the items at any positions."""
        is_last = positions < self._last.length
        fetched: list[Any] = [None] * len(positions)
        for operation, indices, begin in (
            (self._last, np.flatnonzero(is_last), 0),
            (self._full, np.flatnonzero(~is_last), self._last.length),
        ):
            if len(indices):
                items = operation.fetch((positions[indices] - begin) % operation.length, epoch)
                for index, item in zip(indices.tolist(), items):
                    fetched[index] = item
        return fetched


class Batches(Operation):
    """Lists of `size` consecutive items; the last one of an epoch may be shorter, or is dropped."""

    def __init__(self, child: Operation, size: int, drop_remainder: bool) -> None:
        self.child = child
        self.size = size
        length = child.length
        if length != ENDLESS:
            length = length // size if drop_remainder else -(-length // size)
        text = f"batch({size}{', drop_remainder=True' if drop_remainder else ''})"
        self.drop_remainder = drop_remainder
        super().__init__(length, child.item_bytes * size, (*child.texts, text))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields groups one at a time, made of the child's items."""
        blocks = self.child.blocks((self._below(*part) for part in spans), epoch)
        return ([group] for group in regrouped(blocks, itertools.repeat(self.size), may_fall_short=False))

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns groups of the child's items."""
        starts, counts = self._below(positions, np.ones_like(positions))
        items = iter(self.child.fetch(positions_of((starts, counts)), epoch))
        return [list(itertools.islice(items, count)) for count in counts.tolist()]

    def _below(self, starts: Ints, counts: Ints) -> Spans:
        """The last group of an epoch may be shorter."""
        return starts * self.size, np.minimum((starts + counts) * self.size, self.child.length) - starts * self.size


def divide(operation: Operation, share: Share, even: Even | None = None) -> Operation:
    """Returns a share of the items of an operation.

    With `even`, examples are divided and then put in batches, so that the last batches can be padded.

    Raises:
        ValueError: `even` is given, an operation follows batches, and the last batch of an epoch is smaller.
    """
    if even is None:
        return Shared(operation, share)
    if not isinstance(operation, Batches):
        _check_equal_batches(operation, even)
        return Shared(operation, share, even)
    size = operation.size
    of_examples = dataclasses.replace(share, block=share.block * size, end=None)
    child = divide(operation.child, of_examples, dataclasses.replace(even, multiple=even.multiple * size))
    return Batches(child, size, operation.drop_remainder)


def _check_equal_batches(operation: Operation, even: Even) -> None:
    """Checks that all batches below an operation have the same size.

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
    only_child: Any = getattr(operation, "child", None)
    for child in getattr(operation, "children", () if only_child is None else (only_child,)):
        _check_equal_batches(child, even)


def stream_of(operation: Operation) -> Operation:
    """Returns the operation below all `shard` and `batch`: the stream that workers share."""
    while isinstance(operation, (Batches, Shared)):
        operation = operation.child
    return operation


def reached(operation: Operation, taken: int, *, ended: bool = False) -> tuple[int, Partial | None]:
    """Returns the stream position after each worker has taken `taken` items, and its unfinished blocks.

    Args:
        operation: what one worker reads.
        taken: how many items it gave.
        ended: whether it was asked for one more and had none. Until then others may have one that it has not.

    Returns:
        The position, and what was taken of the blocks from there on where the workers are in the middle of them.

    Raises:
        StateError: the workers of a worker are in the middle of blocks.
    """
    first = _of_first_worker(operation)
    return _reached(first, first.length if ended else taken)


def _reached(operation: Operation, taken: int) -> tuple[int, Partial | None]:
    """Returns the result of `reached` for the operation of worker 0, which has taken `taken` items."""
    if isinstance(operation, Batches):
        return _reached(operation.child, min(taken * operation.size, operation.child.length))
    if isinstance(operation, _ResumedShare):
        return _reached(operation.child, taken + operation.taken)
    if not isinstance(operation, Shared):
        return taken, None
    length = operation.child.length
    position, partial = operation.share.reached(taken, operation.num_shared)
    if position + (partial.taken if partial else 0) >= length:  # what comes after it is padding
        position, partial = length, None
    unit, child = 1, operation.child
    while isinstance(child, Batches):
        unit, child = unit * child.size, child.child
    if partial is not None and isinstance(child, (Shared, _ResumedShare)):
        raise StateError(
            f"the state cannot be saved: expected a whole block of {partial.block} examples, got {partial.taken}, "
            "where shard() divides what shard() divided. Save it between blocks, or divide once."
        )
    position, below = _reached(operation.child, position)
    return position, below if partial is None else partial.times(unit)


def _of_first_worker(operation: Operation) -> Operation:
    """Returns the same operation for worker 0, which has at least as many items as any other."""
    if isinstance(operation, Batches):
        return Batches(_of_first_worker(operation.child), operation.size, operation.drop_remainder)
    if isinstance(operation, _ResumedShare):
        return _ResumedShare(_of_first_worker(operation.child), operation.taken)
    if isinstance(operation, Shared):
        return operation.of_first_worker(_of_first_worker(operation.child))
    return operation


class _ResumedShare(Slice):
    """A share without the items of its first block that the worker took before it was resumed."""

    def __init__(self, child: Operation, taken: int) -> None:
        self.taken = taken
        super().__init__(child, taken, child.length)


def begun(operation: Operation, partial: Partial) -> int:
    """Returns how many items of its current block this worker has taken; 0 if the division changed."""
    shared, unit = _innermost(operation)
    if shared is None or partial.taken % unit:
        return 0
    same = (partial.worker_count, partial.block) == (shared.share.worker_count, shared.share.block * unit)
    return partial.taken // unit if same else 0


def _innermost(operation: Operation) -> tuple[Shared | None, int]:
    """Returns what divides the stream first, if anything does, and how many items of the stream its items have."""
    shared, unit = None, 1
    while isinstance(operation, (Batches, Shared)):
        if isinstance(operation, Shared):
            shared, unit = operation, 1
        else:
            unit *= operation.size
        operation = operation.child
    return shared, unit


def moved_on(operation: Operation, stream: Operation, taken: int = 0) -> Operation:
    """Returns the same divisions and batches of another stream.

    Args:
        operation: the items of one worker.
        stream: the new items to divide and to put in batches.
        taken: number of items of its first block that the worker has taken; see `begun`.
    """
    if isinstance(operation, Batches):
        return Batches(moved_on(operation.child, stream, taken), operation.size, operation.drop_remainder)
    if isinstance(operation, Shared):
        innermost = _innermost(operation)[0] is operation
        child = moved_on(operation.child, stream, 0 if innermost else taken)
        shared = operation.on(child)
        return _ResumedShare(shared, taken) if taken and innermost else shared
    return stream


def left_of(stream: Operation, position: int, partials: Partials) -> Operation:
    """Returns what is left of a stream.

    Args:
        stream: what workers divide and what is put in batches.
        position: from which on something is left.
        partials: where workers were in the middle of blocks that begin there; each with a position in what that left.
    """
    for left in _lefts(stream, position, partials):
        stream = left
    position = partials[-1][1] if partials else position
    return Slice(stream, position, stream.length) if position else stream


def check_place(stream: Operation, position: int, partials: Partials) -> None:
    """Checks that reading can go on at a position of a stream, and in what is left of blocks from there on.

    Raises:
        StateError: some of it is behind the end.
    """
    length = stream.length
    for left, (partial, count) in zip(_lefts(stream, position, partials), partials):
        # worker 0 has the most; once it had no more to take, the state said the end
        if position + partial.taken >= length:
            raise StateError(
                f"the state's blocks: expected fewer than {length - position} examples taken of a block, of which that "
                f"many are left, got {partial.taken}. Restore it with the dataset that it was saved with, or begin "
                "anew."
            )
        length, position = left.length, count
        if count > length:
            raise StateError(
                f"the state's blocks: expected a position in the {length} examples that are left, got {count}. "
                "Restore it with the dataset that it was saved with, or begin anew."
            )


def settled(stream: Operation, position: int, partials: Partials) -> tuple[int, Partials]:
    """Removes blocks that are completely read, and advances the position past them."""
    for index, left in enumerate(_lefts(stream, position, partials)):
        behind = left.position(partials[index][1])
        if behind is not None:
            before, after = partials[:index], partials[index + 1 :]
            if not before:
                return settled(stream, behind, after)
            return settled(stream, position, (*before[:-1], (before[-1][0], behind), *after))
    return position, partials


def _lefts(stream: Operation, position: int, partials: Partials) -> Iterator[Left]:
    """Yields what is left of the stream by each of the partials, one after the other."""
    for partial, count in partials:
        stream = left = Left(stream, position, partial)
        yield left
        position = count


def whole(start: int, stop: int) -> Iterator[Spans]:
    """Yields the positions [start, stop) in arrays so short that their products with batch sizes fit 64 bits."""
    for first in range(start, stop, _WHOLE):
        yield np.array([first]), np.array([min(stop - first, _WHOLE)])


def divided_at(starts: Ints, counts: Ints, end: int) -> tuple[Spans, Spans]:
    """Divides spans at the position `end`: returns those before it, and those from it on."""
    num_before = int(np.searchsorted(starts, end))
    excess = int(starts[num_before - 1] + counts[num_before - 1]) - end
    before, after = (starts[:num_before], counts[:num_before]), (starts[num_before:], counts[num_before:])
    if excess > 0:
        before = before[0], np.append(before[1][:-1], before[1][-1] - excess)
        after = np.append(end, after[0]), np.append(excess, after[1])
    return before, after


def limited(spans: Iterator[Spans], most: Iterator[int]) -> Iterator[Spans]:
    """Yields the spans in arrays of at most the numbers of positions that `most` yields."""
    for starts, counts in spans:
        ends = np.cumsum(counts)
        done, total = 0, int(ends[-1])
        while done < total:
            stop = min(done + next(most), total)
            first, last = np.searchsorted(ends, [done, stop - 1], side="right").tolist()
            firsts, numbers = starts[first : last + 1].copy(), counts[first : last + 1].copy()
            skip = done - int(ends[first] - counts[first])
            firsts[0] += skip
            numbers[0] -= skip
            numbers[-1] -= int(ends[last]) - stop
            yield firsts, numbers
            done = stop


def positions_of(spans: Spans) -> Ints:
    """Returns the positions of spans one by one."""
    starts, counts = spans
    ends = np.cumsum(counts)
    positions: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return positions


def _fetched(shuffled: Shuffle | Window, positions: Iterator[Ints], epoch: int) -> Iterator[Items]:
    """Yields the items at positions, fetched a few at a time at first, then as many as take a few megabytes."""
    most = int(min(max(_FETCH_BYTES / max(shuffled.item_bytes, 1), 1), _MAX_FETCHED))

    def calls() -> Iterator[Any]:
        count = min(_BLOCK, most)
        for batch in positions:
            sources, start = shuffled.sources(batch, epoch), 0
            while start < len(sources):
                yield functools.partial(shuffled.child.fetch, sources[start : start + count], epoch)
                start, count = start + count, min(2 * count, most)

    return ahead(calls(), threads=int(shuffled.is_remote))


def collected(items: Iterator[Any]) -> Iterator[Items]:
    """Yields the items in blocks; where there is an error, first those before it."""
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
