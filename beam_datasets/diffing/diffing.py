"""`diff`: compares two versions."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets import catalog, storage
from beam_datasets.advice import names_foreign_arguments
from beam_datasets.diffing.features import VersionReader, compare_features
from beam_datasets.diffing.result import KINDS, ChangeKind, DatasetDiff, ExampleChange, SplitDiff, judge
from beam_datasets.errors import CorruptRecordError, MetadataError, SplitError, StoreOptionsError, did_you_mean
from beam_datasets.metadata.lineage import KeyRule
from beam_datasets.metadata.shards import FileInstruction, FileInstructions
from beam_datasets.reading.elements.error_location import UNDECODED, describe_location
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.reading.ranges import read_blocks
from beam_datasets.reading.records.shards import Shard, ShardPool, read_index

Ints = NDArray[np.int64]
Keys = NDArray[np.uint8]
KeyBlocks = Iterator[tuple[int, Keys]]
Content = Mapping[bytes, bytes]
DirOrBuilder = ReadOnlyBuilder | str | os.PathLike[str]

NONE = np.zeros(0, np.int64)
_NO_KEYS = np.zeros((0, 16), np.uint8)


@dataclass(frozen=True)
class Pairs:
    """Examples of two splits, by their indices.

    Attributes:
        old: those of the old split that have a partner, ascending.
        new: their partners in the new split, likewise.
        removed: those of the old split that have none.
        added: those of the new split that have none.
    """

    old: Ints = field(default_factory=lambda: NONE)
    new: Ints = field(default_factory=lambda: NONE)
    removed: Ints = field(default_factory=lambda: NONE)
    added: Ints = field(default_factory=lambda: NONE)


def pair_by_index(old: int, new: int, size: int) -> Iterator[Pairs]:
    """Yields the pairs of examples that have the same index, and the others, `size` at a time.

    Args:
        old: number of examples of the old split.
        new: number of examples of the new split.
        size: indices that are paired at once.
    """
    for start in range(0, max(old, new), size):
        mine, theirs = (np.arange(start, max(start, min(start + size, count))) for count in (old, new))
        both = min(len(mine), len(theirs))
        yield Pairs(mine[:both], theirs[:both], mine[both:], theirs[both:])


def pair_by_keys(old: KeyBlocks, new: KeyBlocks) -> Iterator[Pairs]:
    """Yields, a block at a time, the pairs of equal keys in two ascending columns, and the keys that only one has.

    Args:
        old: blocks (index of the first one, keys of shape (n, 16)).
        new: blocks of the new split, likewise.
    """
    for (mine, old_keys), (theirs, new_keys) in merge_key_blocks([old, new]):
        yield _pair_blocks(mine, old_keys, theirs, new_keys)


def merge_key_blocks(columns: Sequence[KeyBlocks]) -> Iterator[list[tuple[int, Keys]]]:
    """Merges ascending columns of keys: yields the next keys of each column, all up to a common limit.

    Each yielded list has an item (index in the column of the first key, keys) per column. A key that is in several
    columns is yielded for all of them at once. Ends after the last key of all columns.

    Args:
        columns: blocks (index of the first one, ascending keys of shape (n, 16)) of each.
    """
    pending = [(0, _NO_KEYS)] * len(columns)
    while True:
        for number, blocks in enumerate(columns):
            while not len(pending[number][1]) and (block := next(blocks, None)) is not None:
                pending[number] = block
        if not any(len(keys) for _, keys in pending):
            return
        limit = min(keys[-1].tobytes() for _, keys in pending if len(keys))
        counts = [bisect.bisect_right(range(len(keys)), limit, key=lambda i: keys[i].tobytes()) for _, keys in pending]
        yield [(first, keys[:count]) for (first, keys), count in zip(pending, counts)]
        pending = [(first + count, keys[count:]) for (first, keys), count in zip(pending, counts)]


def _pair_blocks(old_first: int, old: Keys, new_first: int, new: Keys) -> Pairs:
    """Returns the examples of two blocks with the same key in pairs, and those whose key is in one block only.

    Args:
        old_first: index in the old split of the first example of its block.
        old: sort keys of the old block, distinct; shape (examples, 16).
        new_first: index in the new split of the first example of its block.
        new: sort keys of the new block, distinct; shape (examples, 16).
    """
    if np.array_equal(old, new):
        positions = np.arange(len(old))
        return Pairs(old_first + positions, new_first + positions)
    old_keys, new_keys = (np.ascontiguousarray(keys).view("S16").ravel() for keys in (old, new))
    _, mine, theirs = np.intersect1d(old_keys, new_keys, assume_unique=True, return_indices=True)
    return Pairs(
        old_first + mine,
        new_first + theirs,
        old_first + np.delete(np.arange(len(old)), mine),
        new_first + np.delete(np.arange(len(new)), theirs),
    )


def match_contents(old: Iterable[Content], new: Iterable[Content]) -> tuple[Ints, Ints]:
    """Returns the pairs of places of the same content in two sequences; the first of several with the first of several.

    Args:
        old: stored contents of the old examples, by name.
        new: stored contents of the new examples, by name.
    """
    positions = defaultdict[bytes, deque[int]](deque)
    for index, content in enumerate(old):
        positions[_digest(content)].append(index)
    matches = sorted((positions[key].popleft(), j) for j, key in enumerate(map(_digest, new)) if positions.get(key))
    pairs = np.array(matches, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _digest(content: Content) -> bytes:
    """Returns a hash of 16 bytes of a record's content, which does not depend on the order of the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(content):
        digest.update(b"%d %d " % (len(name), len(content[name])) + name + content[name])
    return digest.digest()


MAX_MATCHED = 1 << 17
"""If more examples differ, they are not looked for elsewhere in the split."""

SHOWN_UNDECODED = 3  # examples of a split with values that do not decode
KEY_ROWS = 1 << 16  # keys that are compared at once

_Read = TypeVar("_Read")


def diff_split(
    old: ReadOnlyBuilder,
    new: ReadOnlyBuilder,
    name: str,
    reader: VersionReader,
    examples: int,
    progress: Callable[[int], object] | None,
) -> SplitDiff:
    """Returns the differences of a split that one or both versions have; for the last two arguments see `diff`.

    Raises:
        CorruptRecordError: a record is damaged, or cannot be decoded.
        MetadataError: an index is damaged.
        StorageError: a shard cannot be read.
    """
    num_old, num_new = (one.info.splits[name].num_examples if name in one.info.splits else None for one in (old, new))
    if num_old is None or num_new is None:
        return SplitDiff(name, num_old, num_new, removed=num_old or 0, added=num_new or 0)
    return _diff_split(SplitRecords(old, name), SplitRecords(new, name), reader, examples, progress)


def _diff_split(
    old: SplitRecords, new: SplitRecords, reader: VersionReader, examples: int, progress: Callable[[int], object] | None
) -> SplitDiff:
    """Compares the records of a split that both versions have, paired by key or, if that is impossible, by index.

    Args:
        old: records of the split in the old version.
        new: records of the split in the new version.
        reader: reader of both versions.
        examples: maximum number of examples of each kind of difference in the result.
        progress: called with the number of records compared since the last call; None for no calls.
    """
    orders = old.key_order(), new.key_order()
    reason = _pairing_problem(old, new, *orders)
    kinds: dict[ChangeKind, _Some] = {kind: _Some() for kind in KINDS}
    undecodable = _Undecodable()
    num_same = rewritten = 0
    for pairs in pair_by_index(len(old), len(new), KEY_ROWS) if reason else _pair_ascents(old, new, *orders):
        changed, num_alike = _compare_pairs(old, new, reader, pairs, undecodable)
        rewritten += num_alike
        num_same += len(pairs.old) - len(changed)
        kinds["changed"].add(*changed.T)
        kinds["removed"].add(old=pairs.removed)
        kinds["added"].add(new=pairs.added)
        if progress is not None:
            progress(2 * len(pairs.old) + len(pairs.removed) + len(pairs.added))
    sides = [kinds[kind].count + (kinds["changed"].count if reason else 0) for kind in ("removed", "added")]
    unmatched = all(sides) and not (max(sides) <= MAX_MATCHED and reader.stores_all_alike)
    if all(sides) and not unmatched:
        kinds = _find_moved(old, new, reader, kinds, by_index=bool(reason))
    lengths = old.shard_lengths, new.shard_lengths
    resharded = lengths[0] != lengths[1] if len(old) == len(new) else len(lengths[0]) != len(lengths[1])
    return SplitDiff(
        name=old.name,
        old_examples=len(old),
        new_examples=len(new),
        by="index" if reason else "keys",
        why=reason,
        same=0 if reader.is_partial else num_same,
        not_compared=num_same if reader.is_partial else 0,
        rewritten=rewritten,
        **{kind: kinds[kind].count for kind in KINDS},
        unmatched=unmatched,
        keys_lost=orders[0].present and not orders[1].present and len(new) > 0,
        resharded=(len(lengths[0]), len(lengths[1])) if resharded else None,
        examples=tuple(_example_changes(old, new, reader, kinds, examples)),
        undecoded=undecodable.count,
        undecoded_places=tuple(undecodable.places),
    )


@dataclass
class _Undecodable:
    """Examples with values that do not decode: their number, and descriptions of the first ones."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, records: SplitRecords, index: int, problem: str) -> None:
        """Counts an example if there is a problem, and describes it if it is one of the first.

        Args:
            records: the records of the split.
            index: index of the example in the split.
            problem: description of the problem; '' if there is none.
        """
        self.count += bool(problem)
        if problem and len(self.places) < SHOWN_UNDECODED:
            self.places.append(f"{records.place_of(index)}: {problem}")


def _compare_pairs(
    old: SplitRecords, new: SplitRecords, reader: VersionReader, pairs: Pairs, undecodable: _Undecodable
) -> tuple[Ints, int]:
    """Returns the pairs whose values differ, and the number of pairs whose bytes differ but whose values are equal.

    Args:
        old: records of the split in the old version.
        new: records of the split in the new version.
        reader: reader of both versions.
        pairs: the pairs to compare.
        undecodable: gets the examples with values that do not decode.

    Returns:
        (pairs, number): `pairs` is an int64 array of shape (n, 2) with the old and the new index of each.
    """
    changed, num_alike = [], 0
    for i, j, one, other in differing(old, new, pairs):
        try:
            alike, is_damaged = reader.compare(one, other)
        except UNDECODED:
            old.read(i, reader.features_of)  # one of the two raises the error that names the record
            new.read(j, reader.features_of)
            raise
        if is_damaged:
            undecodable.add(old, i, reader.problem_old(one))
            undecodable.add(new, j, reader.problem_new(other))
        num_alike += alike
        changed += [] if alike else [(i, j)]
    return np.array(changed, np.int64).reshape(-1, 2), num_alike


def _pairing_problem(old: SplitRecords, new: SplitRecords, old_order: KeyOrder, new_order: KeyOrder) -> str:
    """Returns the reason, as text, why examples cannot be paired by keys; '' if they can.

    Args:
        old: records of the split in the old version.
        new: records of the split in the new version.
        old_order: facts about the keys of `old`.
        new_order: facts about the keys of `new`.
    """
    for records, order, version_name in ((old, old_order, "old"), (new, new_order, "new")):
        if not order.present:
            return f"the {version_name} version has no {'keys' if len(records) else 'examples'}"
        if not order.ascending:
            return f"the keys of the {version_name} version do not ascend"
    return "" if old_order.rules == new_order.rules else "the two versions made their keys in different ways"


def _pair_ascents(old: SplitRecords, new: SplitRecords, old_order: KeyOrder, new_order: KeyOrder) -> Iterator[Pairs]:
    """Yields the pairs of each range in which keys ascend; a dataset that was generated has one.

    Args:
        old: records of the split in the old version.
        new: records of the split in the new version.
        old_order: facts about the keys of `old`; its ranges are paired with those of `new_order`, in order.
        new_order: facts about the keys of `new`.
    """
    for mine, theirs in zip(itertools.pairwise(old_order.starts), itertools.pairwise(new_order.starts)):
        yield from pair_by_keys(old.keys(*mine), new.keys(*theirs))


# ------------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True)
class KeyOrder:
    """Facts about the keys of a split that decide whether they can be merged with another split's.

    Attributes:
        present: whether it has keys.
        ascending: whether they ascend in each range of the split.
        starts: first positions of the ranges, and the end of the last one.
        rules: the rules by which the keys of each range were made; only keys made by the same rules can be compared.
    """

    present: bool
    ascending: bool = True
    starts: tuple[int, ...] = ()
    rules: tuple[tuple[KeyRule, ...], ...] = ()


def key_blocks(files: Iterable[FileInstruction], first: int) -> KeyBlocks:
    """Yields (index of the first one, keys) of the examples of files in order, at most `KEY_ROWS` at a time.

    Args:
        files: file instructions of the examples, with whole paths.
        first: the index of their first example.
    """
    for file in files:
        keys = keys_of(file.filename)[file.skip : file.skip + file.take]
        for start in range(0, len(keys), KEY_ROWS):
            yield first + start, keys[start : start + KEY_ROWS]
        first += file.take


def keys_of(path: str) -> NDArray[np.uint8]:
    """Returns the sort keys of a shard, (n, 16).

    Raises:
        MetadataError: its index is missing, damaged or without keys.
    """
    index = read_index(path)
    if index is None or index.keys is None:
        raise MetadataError(
            f"{path}: expected an index with keys beside it, got none. Restore it, or repair the dataset."
        )
    return index.keys


class SplitRecords:
    """The keys and the records of a split, by the index of their examples."""

    def __init__(self, builder: ReadOnlyBuilder, split: str) -> None:
        """Opens nothing yet.

        Args:
            builder: builder of the dataset.
            split: its name.
        """
        info = builder.info.splits[split]
        self.name = split
        self.offsets: Ints = info.offsets
        self.shard_lengths = list(info.shard_lengths)
        self._paths = replace(info.shard_names, folder=storage.join(builder.dataset_dir, ""))
        self._files = FileInstructions.between(0, len(self), self.offsets, self._paths)
        self._ascents = builder.ascents(split)
        self._indexed = builder.manifest is not None or not storage.is_remote(builder.dataset_dir)
        self._open: tuple[int, ShardPool] | None = None
        self._blocks: Iterator[Any] = iter(())
        self._block: list[bytes] = []
        self._first = self._stop = 0  # of the block, and of the shard

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def _locate_example(self, index: int) -> tuple[int, int]:
        """Returns (number of the shard, number in the shard) of the example at an index of the split."""
        shard = int(np.searchsorted(self.offsets, index, side="right")) - 1
        return shard, index - int(self.offsets[shard])

    def key_order(self) -> KeyOrder:
        """Returns the `KeyOrder` of the split's keys.

        Raises:
            MetadataError: an index is damaged.
        """
        starts, falls, last = {ascent.start for ascent in self._ascents}, set[int](), b""
        for shard in np.flatnonzero(self.shard_lengths).tolist():
            index = read_index(self._paths[shard]) if self._indexed else None
            if index is None or index.keys is None:
                return KeyOrder(False)
            if len(index) != self.shard_lengths[shard]:
                self._shard(shard)  # raises the error that explains it
            first = int(self.offsets[shard])
            falls.update((first + index.descents + 1).tolist(), () if last < bytes(index.keys[0]) else (first,))
            last = bytes(index.keys[-1])
        ends = (*sorted(starts), len(self))
        return KeyOrder(len(self) > 0, falls <= starts, ends, tuple(ascent.rules for ascent in self._ascents))

    def keys(self, start: int, stop: int) -> KeyBlocks:
        """Returns the keys of examples [start, stop); see `key_blocks`."""
        return key_blocks(self._files.part(start, stop), start)

    def records(self, index: int, count: int) -> list[bytes]:
        """Returns records from an index on, checked: one at least, and at most `count`.

        Reading is sequential if the indices ascend.

        Raises:
            CorruptRecordError: a record is damaged.
            StorageError: a shard cannot be read.
            MetadataError: its index is damaged, or is not of this shard.
        """
        if not self._first <= index < self._stop:
            shard, skip = self._locate_example(index)
            length = self.shard_lengths[shard]
            run = FileInstruction(self._paths[shard], skip, length - skip, length)
            self._blocks, self._block = read_blocks(run, self._pool(shard)), []
            self._first, self._stop = index, index + run.take
        while index >= self._first + len(self._block):
            self._first += len(self._block)
            self._block = list(next(self._blocks))
        start = index - self._first
        return self._block[start : start + count]

    def read(self, index: int, function: Callable[[bytes], _Read]) -> _Read:
        """Returns the result of a function for the record at an index.

        Raises:
            CorruptRecordError: the record is damaged, or the function raises an error.
        """
        number, record = self._locate_example(index)
        shard = self._shard(number)
        try:
            return function(shard.read_one(record))
        except UNDECODED as error:
            raise CorruptRecordError(
                f"the record cannot be decoded: {error}",
                path=shard.path,
                offset=int(shard.offsets[record]),
                record=record,
                repairable=False,  # it was published so
            ) from error

    def place_of(self, index: int) -> str:
        """Returns the location of the record at an index of the split, as text; see `describe_location`."""
        number, record = self._locate_example(index)
        return describe_location(self._shard(number), record)

    def _pool(self, shard: int) -> ShardPool:
        """Returns the pool of one shard: a file that is mapped counts as memory until it is closed."""
        if self._open is None or self._open[0] != shard:
            self._open = shard, ShardPool("", indexed=self._indexed)
        return self._open[1]

    def _shard(self, shard: int) -> Shard:
        """Returns the opened shard with a number."""
        return self._pool(shard).open(self._paths[shard], self.shard_lengths[shard])


def differing(old: SplitRecords, new: SplitRecords, pairs: Pairs) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yields (old index, new index, old record, new record) of the pairs whose bytes differ, in order.

    Args:
        old: the records of the old split.
        new: the records of the new split.
        pairs: pairs of their examples.

    Raises:
        CorruptRecordError: a record is damaged.
        StorageError: a shard cannot be read.
    """
    for i, j, count in runs_of(pairs.old, pairs.new):
        while count:
            mine, theirs = old.records(i, count), new.records(j, count)
            step = min(len(mine), len(theirs))
            if mine[:step] != theirs[:step]:
                rows = zip(range(i, i + step), itertools.count(j), mine, theirs)
                yield from (row for row in rows if row[2] != row[3])
            i, j, count = i + step, j + step, count - step


def runs_of(old: Ints, new: Ints) -> list[tuple[int, int, int]]:
    """Returns pairs of indices as runs (old index, new index, count) in which both go up by one.

    >>> runs_of(np.array([0, 1, 2, 7]), np.array([4, 5, 9, 10]))
    [(0, 4, 2), (2, 9, 1), (7, 10, 1)]
    """
    if not len(old):
        return []
    starts = np.append(0, np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1)
    counts = np.diff(np.append(starts, len(old)))
    return list(zip(old[starts].tolist(), new[starts].tolist(), counts.tolist()))


# --------------------------------------------------------------------------------------------------------- differences


@dataclass
class _Some:
    """Examples of a kind: how many, and the first ones' indices in the old split, in the new one, or in both."""

    count: int = 0
    old: Ints = field(default_factory=lambda: NONE)
    new: Ints = field(default_factory=lambda: NONE)

    def add(self, old: Ints = NONE, new: Ints = NONE) -> None:
        """Adds examples, and keeps the first `MAX_MATCHED` indices."""
        self.count += max(len(old), len(new))
        self.old = np.append(self.old, old[: MAX_MATCHED - len(self.old)])
        self.new = np.append(self.new, new[: MAX_MATCHED - len(self.new)])


def _find_moved(
    old: SplitRecords, new: SplitRecords, reader: VersionReader, kinds: dict[ChangeKind, _Some], *, by_index: bool
) -> dict[ChangeKind, _Some]:
    """Returns the kinds of differences after looking for records that are elsewhere.

    Paired by index, an example that is inserted makes pairs of all that follow differ, and they are moved.

    Args:
        old: records of the split in the old version.
        new: records of the split in the new version.
        reader: reader of both versions.
        kinds: kind -> its examples, for the kinds 'changed', 'removed' and 'added'; all of their indices are kept.
        by_index: whether examples were paired by index; then changed pairs are taken apart.
    """
    changed, mine, theirs = kinds["changed"], kinds["removed"].old, kinds["added"].new
    if by_index:
        mine, theirs = np.append(changed.old, mine), np.append(changed.new, theirs)
    old_matches, new_matches = match_contents(
        (old.read(index, reader.features_of) for index in mine.tolist()),
        (new.read(index, reader.features_of) for index in theirs.tolist()),
    )
    moved_examples = _Some(len(old_matches), mine[old_matches], theirs[new_matches])
    old_only, new_only = np.setdiff1d(mine, moved_examples.old), np.setdiff1d(theirs, moved_examples.new)
    if by_index:
        positions = np.intersect1d(old_only, new_only)
        changed = _Some(len(positions), positions, positions)
        old_only, new_only = np.setdiff1d(old_only, positions), np.setdiff1d(new_only, positions)
    return {
        "changed": changed,
        "removed": _Some(len(old_only), old=old_only),
        "added": _Some(len(new_only), new=new_only),
        "moved": moved_examples,
    }


def _example_changes(
    old: SplitRecords, new: SplitRecords, reader: VersionReader, kinds: dict[ChangeKind, _Some], count: int
) -> Iterator[ExampleChange]:
    """Yields the first examples of each kind, decoded.

    Args:
        old: records of the split in the old version.
        new: records of the split in the new version.
        reader: reader of both versions.
        kinds: kind -> its examples, by their indices.
        count: maximum number of examples of each kind.
    """
    for kind in KINDS:
        changes = kinds[kind]
        for i, j in itertools.zip_longest(changes.old[:count].tolist(), changes.new[:count].tolist()):
            if kind == "changed":
                values = reader.differences(old.read(i, bytes), new.read(j, bytes))
            else:
                values = (
                    {} if i is None else old.read(i, reader.decode_old),
                    {} if j is None else new.read(j, reader.decode_new),
                )
            yield ExampleChange(kind, i, j, *values)


@names_foreign_arguments("diff")
def diff(
    old: DirOrBuilder,
    new: DirOrBuilder,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    splits: str | Iterable[str] | None = None,
    examples: int = 3,
    progress: Callable[[int], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DatasetDiff:
    """Returns the differences of two published versions, and the version number that the changes need.

    Examples are paired by their keys in one pass over the indexes, or by index if a version has no keys. The records of
    a pair are compared byte by byte, and if they differ, by their decoded values. Memory does not grow with the
    dataset.

    Args:
        old: the old version: a name as 'digits:1.0.0', a directory, or a result of `builder_from_directory`.
        new: the new version.
        data_dir: root of the datasets, for names.
        splits: names of the splits to compare; None for all.
        examples: maximum number of returned examples of each kind of difference in a split.
        progress: called from time to time with the number of examples, of both versions together, that were compared
            since the last call.
        storage_options: options of the store of `data_dir` and of versions that are URLs; see `beam_datasets.builder`.
            For two stores, pass results of `builder_from_directory`.

    Raises:
        DatasetNotFoundError: a version is not published.
        SplitError: neither version has one of the splits.
        ValueError: the new version's number is lower than the old one's, or another argument is unusable.
        BeamDatasetsError: a version is damaged.
    """
    if examples < 0:
        raise ValueError(f"examples is {examples}; needed: how many to show of each kind, 0 or more.")
    one, other = open_versions(old, new, data_dir=data_dir, storage_options=storage_options)
    is_same_dataset = (one.name, one.config_name) == (other.name, other.config_name)
    if is_same_dataset and other.version < one.version:
        raise ValueError(
            f"the new version, {other.info.display_name}, has a lower number than the old one, "
            f"{one.info.display_name}; give the old one first."
        )
    names = _choose_splits(one, other, splits)
    comparison = compare_features(one.info.features, other.info.features)
    reader = VersionReader(one.info.features, other.info.features, comparison)
    split_diffs = {name: diff_split(one, other, name, reader, examples, progress) for name in names}
    return DatasetDiff(
        old=one.info.display_name,
        new=other.info.display_name,
        old_dir=one.dataset_dir,
        new_dir=other.dataset_dir,
        features=comparison.changes,
        splits=split_diffs,
        whole=splits is None,
        verdict=judge(one.info, other.info, comparison.changes, split_diffs.values()),
    )


def open_versions(
    old: DirOrBuilder,
    new: DirOrBuilder,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[ReadOnlyBuilder, ReadOnlyBuilder]:
    """Returns the two versions, opened; for the arguments and errors see `diff`."""
    root = storage.with_options_if_remote(catalog.root_dir(data_dir), storage_options)
    versions = []
    for version in (old, new):
        if not isinstance(version, ReadOnlyBuilder):
            directory = catalog.find_published(version, root)
            version = ReadOnlyBuilder(storage.with_options_if_remote(directory, storage_options))
        versions.append(version)
    if storage_options and not any(storage.is_remote(builder.dataset_dir) for builder in versions):
        directories = " and ".join(builder.dataset_dir for builder in versions)
        raise StoreOptionsError(f"storage_options are for URLs; {directories} are local paths. Leave them out")
    return versions[0], versions[1]


def _choose_splits(old: ReadOnlyBuilder, new: ReadOnlyBuilder, splits: str | Iterable[str] | None) -> list[str]:
    """Returns the names of the splits to compare, each once; those of both versions if `splits` is None.

    Args:
        old: the old version.
        new: the new version.
        splits: name of a split, or several names; None for all.

    Raises:
        SplitError: neither version has one of the splits.
    """
    known_splits = list(dict.fromkeys([*old.info.splits, *new.info.splits]))
    names = known_splits if splits is None else [splits] if isinstance(splits, str) else list(dict.fromkeys(splits))
    for name in names:
        if name not in known_splits:
            raise SplitError(
                f"neither version has a split {name!r}; there are {', '.join(known_splits) or 'none'}."
                f"{did_you_mean(name, known_splits)} Whole splits are compared, not slices."
            )
    return names
