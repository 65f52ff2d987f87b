"""Mixtures: items of several sources in fixed proportions, by arithmetic on positions.

The positions of a mixture are divided into blocks of one size. Each source has the same number of positions in every
block, its quota; a permutation of the seed and the block's number determines which ones. A source's items keep their
order. So the item at any position can be computed without the items before it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.reading.blocks import Damaged, Items, find_damaged, growing_sizes
from beam_datasets.reading.index.permutations import block_orders
from beam_datasets.reading.index.transforms import (
    ENDLESS,
    Operation,
    Repeat,
    Spans,
    collect_blocks,
    limit_spans,
    positions_of,
)

Ints = NDArray[np.int64]

MAX_BLOCK = 1024
"""Positions in a block, and so sources in a mixture, at most."""

_CELLS = 1 << 18  # positions of blocks that are computed at once
_MIN_POSITIONS, _MAX_POSITIONS = 1 << 6, 1 << 12  # computed at once: few at first


@dataclass(frozen=True)
class Pattern:
    """Assigns a source to each position of a mixture.

    Attributes:
        quotas: number of positions of each source in a block; may be 0.
        seed: seed of the permutations of the blocks.
    """

    quotas: tuple[int, ...]
    seed: int

    @property
    def block(self) -> int:
        """Number of positions in a block."""
        return sum(self.quotas)

    @functools.cached_property
    def _slots(self) -> tuple[Ints, Ints, Ints]:
        """(first slot of each source, source of each slot, number of each slot in its source); sorted by source.

        For the quotas (2, 1) it is ([0, 2], [0, 0, 1], [0, 1, 0]).
        """
        quotas = np.array(self.quotas)
        first_slots = np.cumsum(quotas) - quotas
        sources = np.repeat(np.arange(len(quotas)), quotas)
        return first_slots, sources, np.arange(self.block) - first_slots[sources]

    def _offsets(self, blocks: Ints) -> Ints:
        """Returns the offset of each slot in each block, shape (blocks, block); the offsets of a source ascend."""
        sources = self._slots[1].astype(np.int16)[block_orders(blocks, self.block, self.seed, "mix")]
        return np.argsort(sources, axis=1, kind="stable")

    def before(self, positions: Ints) -> Ints:
        """Returns the number of items of each source before each position, shape (positions, sources).

        >>> Pattern((2, 1), seed=1).before(np.array([4])).tolist()
        [[3, 1]]
        """
        blocks, offsets = np.divmod(positions, self.block)
        distinct, rows = np.unique(blocks, return_inverse=True)
        is_before = self._offsets(distinct)[rows] < offsets[:, None]
        counts_in_block = np.zeros((len(positions), len(self.quotas)), np.int64)
        used_sources = np.flatnonzero(self.quotas)
        counts_in_block[:, used_sources] = np.add.reduceat(
            is_before, self._slots[0][used_sources], axis=1, dtype=np.int64
        )
        counts: Ints = blocks[:, None] * np.array(self.quotas) + counts_in_block
        return counts

    def at(self, positions: Ints) -> tuple[Ints, Ints]:
        """Returns two arrays: the number of the source of each position, and the position in that source.

        >>> [numbers.tolist() for numbers in Pattern((2, 1), seed=1).at(np.arange(6))]
        [[0, 1, 0, 0, 1, 0], [0, 0, 1, 2, 1, 3]]
        """
        parts = [self._at(positions[i : i + self.at_once]) for i in range(0, len(positions), self.at_once)]
        sources, indices = zip(*parts) if parts else ((positions,), (positions,))
        return np.concatenate(sources), np.concatenate(indices)

    def _at(self, positions: Ints) -> tuple[Ints, Ints]:
        """Implements `at` for at most `at_once` positions."""
        blocks, offsets = np.divmod(positions, self.block)
        distinct, rows = np.unique(blocks, return_inverse=True)
        slots = np.empty((len(distinct), self.block), np.int64)
        np.put_along_axis(slots, self._offsets(distinct), np.arange(self.block)[None, :], axis=1)
        _, source_of, number_of = self._slots
        slot = slots[rows, offsets]
        sources = source_of[slot]
        return sources, blocks * np.array(self.quotas)[sources] + number_of[slot]

    @property
    def at_once(self) -> int:
        """Number of positions to compute at once, which bounds the memory."""
        return max(1, _CELLS // self.block)

    def position(self, source: int, number: int) -> int:
        """Returns the position of item `number` of a source; at most `ENDLESS`, which stands for no position.

        >>> Pattern((2, 1), seed=1).position(source=1, number=1)
        4
        """
        if not self.quotas[source]:
            return ENDLESS
        block, index_in_block = divmod(number, self.quotas[source])
        if (block + 1) * self.block >= ENDLESS:
            return ENDLESS
        slot = int(self._slots[0][source]) + index_in_block
        return block * self.block + int(self._offsets(np.array([block]))[0, slot])


@dataclass(frozen=True)
class Schedule:
    """A sequence of patterns, one after another, with the methods of a `Pattern`.

    Attributes:
        starts: the first position of each pattern, ascending; the first one is 0.
        patterns: the patterns, which have the same sources.
    """

    starts: tuple[int, ...]
    patterns: tuple[Pattern, ...]

    @functools.cached_property
    def _counts_before(self) -> Ints:
        """Number of items of each source before each pattern, shape (patterns, sources)."""
        counts = [
            pattern.before(np.array([stop - start]))[0]
            for start, stop, pattern in zip(self.starts, self.starts[1:], self.patterns)
        ]
        sums: Ints = np.cumsum([np.zeros(len(self.quotas), np.int64), *counts], axis=0)
        return sums

    @property
    def quotas(self) -> tuple[int, ...]:
        """The quotas of the last pattern."""
        return self.patterns[-1].quotas

    @property
    def block(self) -> int:
        """Number of positions in a block of the last pattern."""
        return self.patterns[-1].block

    @property
    def at_once(self) -> int:
        """Number of positions to compute at once, which bounds the memory."""
        return min(pattern.at_once for pattern in self.patterns)

    def _parts(self, positions: Ints) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yields (number of a pattern, mask of its positions) for each pattern that has any of the positions."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        return ((number, numbers == number) for number in np.unique(numbers).tolist())

    def before(self, positions: Ints) -> Ints:
        """Returns the number of items of each source before each position, shape (positions, sources)."""
        counts = np.empty((len(positions), len(self.quotas)), np.int64)
        for number, mask in self._parts(positions):
            in_pattern = self.patterns[number].before(positions[mask] - self.starts[number])
            counts[mask] = self._counts_before[number] + in_pattern
        return counts

    def at(self, positions: Ints) -> tuple[Ints, Ints]:
        """Returns (index of the source of each position, position in that source), two arrays like `positions`."""
        sources, indices = np.empty_like(positions), np.empty_like(positions)
        for number, mask in self._parts(positions):
            sources[mask], in_pattern = self.patterns[number].at(positions[mask] - self.starts[number])
            indices[mask] = self._counts_before[number][sources[mask]] + in_pattern
        return sources, indices

    def position(self, source: int, number: int) -> int:
        """Returns the position of item `number` of a source; at most `ENDLESS`, which stands for no position."""
        stage = int(np.searchsorted(self._counts_before[1:, source], number, side="right"))
        index_in_pattern = number - int(self._counts_before[stage, source])
        return min(self.starts[stage] + self.patterns[stage].position(source, index_in_pattern), ENDLESS)


def quotas_of(weights: Sequence[float]) -> tuple[int, ...]:
    """Returns the quota of each source: the smallest whole numbers in the ratio of the weights.

    If their sum would be more than `MAX_BLOCK`, it is `MAX_BLOCK`, and the quotas are rounded, to at least 1 each. A
    weight of 0 has a quota of 0.

    >>> quotas_of([0.7, 0.3]), quotas_of([1, 1/2, 1/3]), quotas_of([1e6, 1])
    ((7, 3), (6, 3, 2), (1023, 1))
    """
    if not all(weights):
        quotas_above_0 = iter(quotas_of([weight for weight in weights if weight]))
        return tuple(next(quotas_above_0) if weight else 0 for weight in weights)
    shares = np.array(weights, np.float64) / np.sum(np.array(weights, np.float64))
    sizes = np.arange(1, MAX_BLOCK + 1)
    products = np.outer(sizes, shares)
    rounded = np.rint(products)
    fits = (np.abs(products - rounded) <= 1e-9 * np.maximum(products, 1)).all(axis=1) & (rounded >= 1).all(axis=1)
    if fits.any():
        return tuple(rounded[np.argmax(fits)].astype(int).tolist())
    num_extra = MAX_BLOCK - len(shares)  # each source has one; the others by the largest remainder
    extra = np.maximum(shares * MAX_BLOCK - 1, 0)
    extra *= num_extra / extra.sum() if extra.sum() else 0
    quotas = np.floor(extra).astype(int)
    remainders = np.argsort(quotas - extra, kind="stable")
    quotas[remainders[: num_extra - int(quotas.sum())]] += 1
    return tuple((quotas + 1).tolist())


class Mixture(Operation):
    """The items of several operations, each at the positions of its source."""

    def __init__(
        self, children: Sequence[Operation], pattern: Pattern | Schedule, stop: str, is_tagged: bool, text: str
    ) -> None:
        """Mixes operations.

        Args:
            children: the sources, at least one; no source is empty.
            pattern: the source of each position; it has the same number of sources.
            stop: condition that ends an epoch: "first" source has ended, "all" sources have ended, or "never".
            is_tagged: whether items are pairs of the number of the source and the source's item.
            text: description of the mixture, for a state's fingerprint.

        Raises:
            ValueError: a source is endless, and the epoch would end with it.
        """
        self.pattern = pattern
        self.is_tagged = is_tagged
        ends = [
            ENDLESS if child.length == ENDLESS else min(pattern.position(source, child.length - 1) + 1, ENDLESS)
            for source, child in enumerate(children)
        ]
        length = {"first": min(ends), "all": max(ends), "never": ENDLESS}[stop]
        if length == ENDLESS and stop == "all" and all(child.length != ENDLESS for child in children):
            raise ValueError(
                "stop='all': expected a schedule in which each source is read to its end, got one whose last weight of "
                f"source number {ends.index(ENDLESS)} is 0. Give stop='first' or 'never', or a weight."
            )
        if length == ENDLESS:
            children = [child if child.length == ENDLESS else Repeat(child, None) for child in children]
        elif stop == "all":
            num_needed = pattern.before(np.array([length]))[0].tolist()
            children = [Repeat(child, -(-count // child.length)) for child, count in zip(children, num_needed)]
        mean_bytes = sum(quota * child.item_bytes for quota, child in zip(pattern.quotas, children)) / pattern.block
        super().__init__(tuple(children), length, mean_bytes, (text,))

    def blocks(self, spans: Iterator[Spans], epoch: int) -> Iterator[Items]:
        """Yields the sources' items at these positions; each source is read in ascending order by its own iterator."""
        parts, *source_parts = itertools.tee(self._divide_spans(spans), len(self.children) + 1)
        blocks = [
            child.blocks(_spans_of_source(source, tee), epoch)
            for source, (child, tee) in enumerate(zip(self.children, source_parts))
        ]
        streams = [
            self._tag_items(source, itertools.chain.from_iterable(source_blocks))
            for source, source_blocks in enumerate(blocks)
        ]
        try:
            yield from collect_blocks(map(next, map(streams.__getitem__, self._order(parts))))
        finally:  # the traceback of an error of one source may hold the others
            for source_items in blocks:
                if isinstance(source_items, Generator):
                    source_items.close()

    def _divide_spans(self, spans: Iterator[Spans]) -> Iterator[tuple[Spans, Ints, Ints]]:
        """Maps spans of the mixture to spans of its sources.

        Yields:
            Spans of the mixture; the first position in each source of each span; and the number of positions. The two
            arrays have the shape (spans, sources).
        """
        max_spans = self.pattern.at_once
        for starts, counts in spans:
            for start in range(0, len(starts), max_spans):
                spans_of_group = starts[start : start + max_spans], counts[start : start + max_spans]
                first_positions, stop_positions = (
                    self.pattern.before(spans_of_group[0]),
                    self.pattern.before(spans_of_group[0] + spans_of_group[1]),
                )
                yield spans_of_group, first_positions, stop_positions - first_positions

    def _order(self, parts: Iterator[tuple[Spans, Ints, Ints]]) -> Iterator[int]:
        """Yields the source of each position, given the results of `_divide_spans`."""
        counts = growing_sizes(_MIN_POSITIONS, _MAX_POSITIONS)
        for positions in map(positions_of, limit_spans((spans for spans, _, _ in parts), counts)):
            yield from self.pattern.at(positions)[0].tolist()

    def _tag_items(self, source: int, items: Iterator[Any]) -> Iterator[Any]:
        """Returns the items of a source, as pairs (source, item) if `is_tagged`."""
        return (_pair_with_source(source, item) for item in items) if self.is_tagged else items

    def fetch(self, positions: Ints, epoch: int) -> Items:
        """Returns the sources' items at these positions."""
        sources, indices_in_source = self.pattern.at(positions)
        fetched: list[Any] = [None] * len(positions)
        for source in np.unique(sources).tolist():
            indices = np.flatnonzero(sources == source)
            items = self._tag_items(source, iter(self.children[source].fetch(indices_in_source[indices], epoch)))
            for index, item in zip(indices.tolist(), items):
                fetched[index] = item
        return fetched


def _spans_of_source(source: int, parts: Iterator[tuple[Spans, Ints, Ints]]) -> Iterator[Spans]:
    """Yields the spans of one source, given the results of `_divide_spans`."""
    for _, first_positions, counts in parts:
        is_nonempty = counts[:, source] > 0
        if is_nonempty.any():
            yield first_positions[is_nonempty, source], counts[is_nonempty, source]


def _pair_with_source(source: int, item: Any) -> Any:
    """Returns (source, item); the item itself if it is `Damaged` or a list with a `Damaged`, which readers look for."""
    if type(item) is Damaged or (type(item) is list and next(find_damaged(item), None)):
        return item
    return source, item
