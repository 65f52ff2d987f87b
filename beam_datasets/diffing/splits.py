"""One split of two versions compared, in memory that does not grow with it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.diffing.columns import KEY_ROWS
from beam_datasets.diffing.pairing import Pairs, match_contents, pair_by_keys
from beam_datasets.diffing.records import differing, runs_of
from beam_datasets.diffing.result import KINDS, ExampleChange, Kind, SplitDiff
from beam_datasets.errors import CorruptRecordError, FeatureError
from beam_datasets.formats.example import ExampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from beam_datasets.diffing.columns import KeyOrder, SplitShards
    from beam_datasets.diffing.examples import Reader
    from beam_datasets.diffing.records import Differing

    Ints = NDArray[np.int64]

MOST_MATCHED = 1 << 17
"""Examples that differ, of which each is looked for elsewhere in the split; of more of them none is."""

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Asked:
    """How splits are compared.

    Attributes:
        examples: how many to show of each kind of difference.
        trust_checksums: whether shards of the same published size and CRC-32C are taken to be the same.
        progress: called with the number of examples, of both versions together, that were compared since the last call.
    """

    examples: int = 3
    trust_checksums: bool = False
    progress: Callable[[int], object] = lambda count: None


def diff_split(old: SplitShards, new: SplitShards, reader: Reader, asked: Asked) -> SplitDiff:
    """Returns how a split differs that both versions have.

    Raises:
        CorruptRecordError: a record is damaged, or cannot be decoded.
        MetadataError: an index is damaged.
        StorageError: a shard cannot be read.
    """
    orders = old.key_order(), new.key_order()
    why = _why_not_by_keys(old, new, *orders)
    tally = _Tally()
    for pairs in pair_by_index(len(old), len(new)) if why else _pair_stretches(old, new, *orders):
        changed = [
            (pair.old_index, pair.new_index)
            for pair in differing(old, new, runs_of(pairs.old, pairs.new), trust_checksums=asked.trust_checksums)
            if not tally.read_alike(_alike(pair, reader, old, new))
        ]
        tally.add(pairs, changed)
        asked.progress(2 * len(pairs.old) + len(pairs.removed) + len(pairs.added))
    elsewhere = tally.candidates(by_index=bool(why))
    unmatched = elsewhere > 0 and not (elsewhere <= MOST_MATCHED and reader.stores_all_alike)
    kinds = tally.kinds() if unmatched or not elsewhere else _with_moved(old, new, reader, tally, bool(why))
    return SplitDiff(
        name=old.name,
        old_examples=len(old),
        new_examples=len(new),
        by="index" if why else "keys",
        why=why,
        same=0 if reader.is_partial else tally.same,
        not_compared=tally.same if reader.is_partial else 0,
        rewritten=tally.rewritten,
        **{kind: kinds[kind].count for kind in KINDS},
        unmatched=unmatched,
        keys_lost=orders[0].present and not orders[1].present and len(new) > 0,
        resharded=_resharded(old.shard_lengths, new.shard_lengths),
        examples=tuple(_examples(old, new, reader, kinds, asked.examples)),
    )


def _resharded(old: list[int], new: list[int]) -> tuple[int, int] | None:
    """Returns how many shards each version has, where that differs or equally many examples are cut elsewhere."""
    differs = old != new if sum(old) == sum(new) else len(old) != len(new)
    return (len(old), len(new)) if differs else None


def pair_by_index(old: int, new: int) -> Iterator[Pairs]:
    """Yields the pairs of examples that have the same index, and those that one split alone has, a block at a time."""
    for start in range(0, max(old, new), KEY_ROWS):
        mine, theirs = (np.arange(start, max(start, min(start + KEY_ROWS, count))) for count in (old, new))
        both = min(len(mine), len(theirs))
        yield Pairs(mine[:both], theirs[:both], mine[both:], theirs[both:])


def _why_not_by_keys(old: SplitShards, new: SplitShards, old_order: KeyOrder, new_order: KeyOrder) -> str:
    """Returns why examples cannot be paired by keys, in words; '' where they can."""
    for shards, order, which in ((old, old_order, "old"), (new, new_order, "new")):
        if not order.present:
            return f"the {which} version has no {'keys' if len(shards) else 'examples'}"
        if not order.ascending:
            return f"the keys of the {which} version do not ascend"
    return "" if old_order.rules == new_order.rules else "the two versions made their keys in different ways"


def _pair_stretches(old: SplitShards, new: SplitShards, old_order: KeyOrder, new_order: KeyOrder) -> Iterator[Pairs]:
    """Yields the pairs of each stretch in which keys ascend; a dataset that was generated has one."""
    for mine, theirs in zip(itertools.pairwise(old_order.stretches), itertools.pairwise(new_order.stretches)):
        yield from pair_by_keys(old.key_blocks(*mine), new.key_blocks(*theirs))


# -------------------------------------------------------------------------------------------------------------- counts


@dataclass(frozen=True)
class _Some:
    """Examples of a kind: how many, and the first ones' indices in the old split, in the new one, or in both."""

    count: int
    old: Ints = field(default_factory=lambda: _NONE)
    new: Ints = field(default_factory=lambda: _NONE)


@dataclass
class _Tally:
    """What was found so far; of the kinds that differ also the first `MOST_MATCHED` indices."""

    same: int = 0
    rewritten: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"changed": 0, "removed": 0, "added": 0})
    indices: dict[str, list[Ints]] = field(default_factory=lambda: {"old": [], "new": [], "removed": [], "added": []})

    def read_alike(self, alike: bool) -> bool:
        """Counts a pair of different bytes."""
        self.rewritten += alike
        return alike

    def add(self, pairs: Pairs, changed: list[tuple[int, int]]) -> None:
        """Counts the pairs, of which some are read differently."""
        self.same += len(pairs.old) - len(changed)
        columns = np.array(changed, np.int64).reshape(-1, 2)
        self._keep("changed", {"old": columns[:, 0], "new": columns[:, 1]})
        self._keep("removed", {"removed": pairs.removed})
        self._keep("added", {"added": pairs.added})

    def _keep(self, kind: str, columns: dict[str, Ints]) -> None:
        room = max(0, MOST_MATCHED - self.counts[kind])
        for name, indices in columns.items():
            self.counts[kind] += len(indices) if name != "new" else 0
            if room and len(indices):
                self.indices[name].append(indices[:room])

    def kept(self, name: str) -> Ints:
        """Returns the first indices of a column."""
        return np.concatenate([_NONE, *self.indices[name]])

    def candidates(self, *, by_index: bool) -> int:
        """Returns how many examples of a version may stand elsewhere in the other one."""
        pairs = self.counts["changed"] if by_index else 0
        old, new = pairs + self.counts["removed"], pairs + self.counts["added"]
        return max(old, new) if old and new else 0

    def kinds(self) -> dict[Kind, _Some]:
        """Returns what was found as it is."""
        return {
            "changed": _Some(self.counts["changed"], self.kept("old"), self.kept("new")),
            "removed": _Some(self.counts["removed"], old=self.kept("removed")),
            "added": _Some(self.counts["added"], new=self.kept("added")),
            "moved": _Some(0),
        }


def _with_moved(old: SplitShards, new: SplitShards, reader: Reader, tally: _Tally, by_index: bool) -> dict[Kind, _Some]:
    """Returns the kinds of differences, having looked for records that stand elsewhere.

    Paired by index, an example that is put in makes pairs of all that follow differ, and they are moved.
    """
    mine, theirs = tally.kept("removed"), tally.kept("added")
    if by_index:
        mine, theirs = np.append(tally.kept("old"), mine), np.append(tally.kept("new"), theirs)
    here, there = match_contents(
        (_content(old, index, reader) for index in mine.tolist()),
        (_content(new, index, reader) for index in theirs.tolist()),
    )
    moved = _Some(len(here), mine[here], theirs[there])
    left, right = np.setdiff1d(mine, moved.old), np.setdiff1d(theirs, moved.new)
    changed = _Some(tally.counts["changed"], tally.kept("old"), tally.kept("new"))
    if by_index:
        places = np.intersect1d(left, right)
        changed = _Some(len(places), places, places)
        left, right = np.setdiff1d(left, places), np.setdiff1d(right, places)
    return {
        "changed": changed,
        "removed": _Some(len(left), left),
        "added": _Some(len(right), new=right),
        "moved": moved,
    }


# ------------------------------------------------------------------------------------------------------------ examples


def _examples(
    old: SplitShards, new: SplitShards, reader: Reader, kinds: dict[Kind, _Some], count: int
) -> Iterator[ExampleChange]:
    """Yields the first examples of each kind, decoded."""
    for i, j in zip(kinds["changed"].old[:count].tolist(), kinds["changed"].new[:count].tolist()):
        one, other = reader.differences(old.record(i), new.record(j))
        yield ExampleChange("changed", i, j, one, other)
    for i in kinds["removed"].old[:count].tolist():
        yield ExampleChange("removed", i, None, old=_decoded(old, i, reader.decode_old))
    for j in kinds["added"].new[:count].tolist():
        yield ExampleChange("added", None, j, new=_decoded(new, j, reader.decode_new))
    for i, j in zip(kinds["moved"].old[:count].tolist(), kinds["moved"].new[:count].tolist()):
        one, other = _decoded(old, i, reader.decode_old), _decoded(new, j, reader.decode_new)
        yield ExampleChange("moved", i, j, one, other)


def _alike(pair: Differing, reader: Reader, old: SplitShards, new: SplitShards) -> bool:
    try:
        return reader.alike(pair.old, pair.new)
    except (ExampleError, FeatureError):
        _decoded(old, pair.old_index, reader.decode_old)  # says which of the two it is, and where
        _decoded(new, pair.new_index, reader.decode_new)
        raise


def _decoded(shards: SplitShards, index: int, decode: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    record = shards.record(index)
    try:
        return decode(record)
    except (ExampleError, FeatureError) as error:
        raise _unreadable(shards, index, error) from error


def _content(shards: SplitShards, index: int, reader: Reader) -> dict[bytes, bytes]:
    record = shards.record(index)
    try:
        return reader.features_of(record)
    except ExampleError as error:
        raise _unreadable(shards, index, error) from error


def _unreadable(shards: SplitShards, index: int, error: Exception) -> CorruptRecordError:
    window = shards.window(index)
    offset, number = window.place(index)
    return CorruptRecordError(f"the record cannot be decoded: {error}", path=window.path, offset=offset, record=number)
