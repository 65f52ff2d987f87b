"""The records of paired examples, of which those are found that are not the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from beam_datasets.diffing.columns import SplitShards, Window
    from beam_datasets.formats.example import Buffer

    Ints = NDArray[np.int64]
    Run = tuple[int, int, int]


class Differing(NamedTuple):
    """Two paired records of different bytes, their CRCs checked.

    Attributes:
        old_index: index in the old split.
        new_index: index in the new split.
        old: the old record.
        new: the new record.
    """

    old_index: int
    new_index: int
    old: Buffer
    new: Buffer


def runs_of(old: Ints, new: Ints) -> list[Run]:
    """Returns pairs of indices as runs (old index, new index, count) in which both go up by one.

    >>> runs_of(np.array([0, 1, 2, 7]), np.array([4, 5, 9, 10]))
    [(0, 4, 2), (2, 9, 1), (7, 10, 1)]
    """
    if not len(old):
        return []
    cuts = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1
    starts = np.append(0, cuts)
    counts = np.diff(np.append(starts, len(old)))
    return list(zip(old[starts].tolist(), new[starts].tolist(), counts.tolist()))


def differing(
    old: SplitShards, new: SplitShards, runs: Iterable[Run], *, trust_checksums: bool = False
) -> Iterator[Differing]:
    """Yields the pairs of runs whose records differ, in order; the others are the same, byte by byte.

    Args:
        old: the shards of the old split.
        new: of the new one.
        runs: see `runs_of`.
        trust_checksums: whether shards that were published with the same size and CRC-32C are passed over.

    Raises:
        CorruptRecordError: one of two records that differ is damaged.
        StorageError: a shard cannot be read.
    """
    for i, j, count in runs:
        while count:
            step = _same_by_checksums(old, new, i, j) if trust_checksums else 0
            if not step:
                mine, theirs = old.window(i), new.window(j)
                step = min(count, mine.stop - i, theirs.stop - j)
                yield from _differing(mine, theirs, i, j, step)
            step = min(step, count)
            i, j, count = i + step, j + step, count - step


def _differing(old: Window, new: Window, i: int, j: int, count: int) -> Iterator[Differing]:
    """Yields those of two stretches of `count` records whose bytes differ."""
    places = _differing_places(old, new, i, j, count)
    if len(places):
        mine, theirs = old.records(i, i + count), new.records(j, j + count)
        for k in places.tolist():
            yield Differing(i + k, j + k, mine[k], theirs[k])


def _differing_places(old: Window, new: Window, i: int, j: int, count: int) -> Ints:
    """Returns the numbers in [0, count) of the records that differ."""
    mine, theirs = old.bytes_of(i, i + count), new.bytes_of(j, j + count)
    my_places, their_places = old.places(i, i + count), new.places(j, j + count)
    if np.array_equal(my_places, their_places):
        if mine == theirs:
            return np.zeros(0, np.int64)
        wrong = np.flatnonzero(np.frombuffer(mine, np.uint8) != np.frombuffer(theirs, np.uint8))
        return np.unique(np.searchsorted(my_places, wrong, side="right") - 1)
    differs = np.diff(my_places) != np.diff(their_places)
    starts, stops, others = my_places[:-1].tolist(), my_places[1:].tolist(), their_places[:-1].tolist()
    for k in np.flatnonzero(~differs).tolist():
        size = stops[k] - starts[k]
        differs[k] = mine[starts[k] : stops[k]] != theirs[others[k] : others[k] + size]
    return np.flatnonzero(differs)


def _same_by_checksums(old: SplitShards, new: SplitShards, i: int, j: int) -> int:
    """Returns how many pairs from two indices on are in shards of the same checksums; 0 where they are in others."""
    mine, theirs = old.shard_at(i), new.shard_at(j)
    known = old.checksums(mine)
    if known is None or known != new.checksums(theirs) or i - old.offsets[mine] != j - new.offsets[theirs]:
        return 0
    return int(old.offsets[mine + 1]) - i
