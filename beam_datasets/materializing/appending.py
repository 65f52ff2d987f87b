"""Appending: the next version of a published dataset, merged of its records and new ones without decoding either.

Sources are runs of shards whose sort keys ascend: one run of the published version, then those of what is appended. The
keys of all runs are cut into ranges of up to about `RANGE_RECORDS` of each. What a range keeps follows from its keys
(and, of repeated ones, from their records), so it is counted first, and worked out again when a shard is written:
memory holds a few ranges and the index of each shard that is being written.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets.errors import (
    BeamDatasetsError,
    DuplicateKeyError,
    InvalidKeyError,
    LostExamplesError,
    SplitError,
    StorageError,
    VersionError,
)
from beam_datasets.features import FeaturesDict, Scalar, Tensor, Text
from beam_datasets.features import Sequence as Sequence_
from beam_datasets.features.features_dict import join
from beam_datasets.features.sequence import difference
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.generate import publish as publishing
from beam_datasets.generate.blocks import key_array, sort_order
from beam_datasets.generate.merge import IN_STORE, ON_DISK, READS_AT_ONCE, Merge
from beam_datasets.generate.owners import IN_PROCESS
from beam_datasets.generate.plan import ShardingOptions, choose_shards
from beam_datasets.generate.progress import watch
from beam_datasets.generate.runs import take
from beam_datasets.generate.shard_writer import Destination, WrittenShard, show, write_chunks
from beam_datasets.materializing.plan import check_unchanged, described, target_dir
from beam_datasets.materializing.records import Opener, Records
from beam_datasets.materializing.run import MAX_THREADS
from beam_datasets.materializing.selection import Sources, keys_of, named_splits, select_splits
from beam_datasets.metadata.inputs import INPUTS_FILE, Inputs
from beam_datasets.metadata.manifest import Ascent, Lineage, SplitLineage
from beam_datasets.metadata.names import did_you_mean
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.metadata.version import Version
from beam_datasets.reading.opening import ReadOnlyBuilder, builder_from_directory
from beam_datasets.reading.shards import INDEX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from beam_datasets.generate.progress import Progress
    from beam_datasets.materializing.selection import NameOrDir, SelectedSplit, SortedRun
    from beam_datasets.metadata.info import DatasetInfo
    from beam_datasets.metadata.keys import Key
    from beam_datasets.metadata.version import VersionOrStr

RANGE_RECORDS = 1 << 16
RANGE_FILES = 4
"""A range has at most so many records of a file, and records of about so many files, of each run."""

RANGES_COUNTED = 16
"""Consecutive ranges that one thread counts, so that it opens each index once."""

MAX_OPEN_SHARDS = 128
"""Local shards of ranges that all threads keep open, and as many again for the ranges that follow; each shard needs up
to two file descriptors, and a process often has 1024."""

ON_DUPLICATE = ("error", "keep_old", "replace", "skip_identical")
NEXT = "next"
_BUILDER = "beam_datasets:append"  # part of the digests of published manifests, so it stays


# ------------------------------------------------------------------------------------------------------------- ranges


class Counts(NamedTuple):
    """What happens to the examples of a split.

    Attributes:
        added: new examples with keys that the published version lacks.
        replaced: published examples in whose place a new one with the same key and another record is written.
        deleted: published examples whose keys are to be deleted.
        skipped: new examples that are not written: their keys exist, or are to be deleted.
    """

    added: int = 0
    replaced: int = 0
    deleted: int = 0
    skipped: int = 0

    def plus(self, other: Counts) -> Counts:
        """Returns the sums."""
        return Counts(*map(sum, zip(self, other)))


class _RangeCount(NamedTuple):
    """What is known of a range once it is counted: `num_bytes` are framed, `found` are the keys to delete that it has.

    A key has whether a published example has it.
    """

    num_examples: int
    num_bytes: int
    counts: Counts
    found: dict[bytes, bool]


class _ShardBlock:
    """Records of a shard as a block of a `Merge`; one that does not keep the shard open opens it for each read."""

    def __init__(self, records: Records, *, keeps_open: bool) -> None:
        self._shard = records.shard if keeps_open else None
        if not keeps_open:  # a view of the keys would keep the index open
            keys = None if records.keys is None else records.keys.copy()
            records = replace(records, keys=keys, shard=None)  # type: ignore[arg-type]
        self.records, self._start = records, int(records.offsets[0])

    def read(self, start: int, stop: int) -> bytes:
        """Returns framed records, which lie in bytes [start, stop) of the block, checked.

        Raises:
            CorruptRecordError: one is damaged; it names file, byte and record.
        """
        records, (low, high) = self.records, (self._start + start, self._start + stop)
        if self._shard is not None:
            buffer = self._shard.reader.read(low, high)
        else:
            with storage.open_reader(records.file.filename) as reader:
                buffer = reader.read(low, high)
        first, last = np.searchsorted(records.offsets, [low, high]).tolist()
        records.check(first, records.offsets[first : last + 1] - low, buffer)
        return bytes(buffer)


@dataclass(frozen=True)
class KeyRanges:
    """The runs of a split, cut into ranges of keys.

    Attributes:
        runs: what is merged, the published run first.
        has_published: whether the first run is published; not of a split that is new.
        on_duplicate: one of `ON_DUPLICATE`.
        delete: sort keys to delete, ascending, as 16 bytes each.
        cuts: (ranges + 1, runs) where each range begins in each run, in examples.
    """

    runs: tuple[SortedRun, ...]
    has_published: bool
    on_duplicate: str
    delete: NDArray[np.bytes_]
    cuts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        runs: Sequence[SortedRun],
        has_published: bool,
        on_duplicate: str,
        delete: Iterable[bytes],
        *,
        cut_at_shards: bool = False,
    ) -> KeyRanges:
        """Cuts runs into ranges, also at each shard of the published run if `cut_at_shards`; reads their indexes.

        Raises:
            MetadataError: an index is damaged or missing.
        """
        cuts = [_pivots(run, cut_at_shards and not place) for place, run in enumerate(runs)]
        pivots = np.unique(np.concatenate([np.empty(0, "S16"), *cuts]))
        columns = [_places(run, pivots) for run in runs]
        listed = np.array(sorted(set(delete)), "S16")
        return cls(tuple(runs), has_published, on_duplicate, listed, np.stack(columns, axis=1))

    def __len__(self) -> int:
        return len(self.cuts) - 1

    @property
    def is_remote(self) -> bool:
        """Whether a run is in an object store."""
        return any(storage.is_remote(run.files.filename(0)) for run in self.runs)

    def count(self, numbers: range) -> list[_RangeCount]:
        """Returns what is known of consecutive ranges; reads records whose keys are repeated, if they are compared.

        Raises:
            DuplicateKeyError: a key is repeated, and that is an error.
            CorruptRecordError: a record that is compared is damaged.
        """
        openers = [Opener() for _ in self.runs]
        with self.reading() as for_all:
            return [self.resolve(number, openers, for_all, is_counted=True)[1] for number in numbers]

    @contextlib.contextmanager
    def reading(self) -> Any:
        """Provides `map`; for object stores, one that reads on several threads."""
        if not self.is_remote:
            yield map
            return
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            yield pool.map

    def resolve(
        self, number: int, openers: Sequence[Opener], for_all: Any, *, is_counted: bool = False
    ) -> tuple[Merge, _RangeCount]:
        """Returns what is written of a range, in order, and how much that is.

        Args:
            number: of the range.
            openers: of each run's shards.
            for_all: see `reading`.
            is_counted: whether records of repeated keys are compared; without, `replaced` is not known.
        """
        blocks, run_of = self._open(number, openers)
        merge = _merge(blocks, for_all, ON_DISK if not self.is_remote else IN_STORE)
        origin = np.repeat(run_of, [len(block.records.offsets) - 1 for block in blocks])[merge.order]
        published = (origin == 0) & self.has_published
        num_new = len(merge) - int(published.sum())
        found, listed = self._listed(merge, published)
        deleted = int((listed & published).sum())
        merge, origin, published = replace(merge, order=merge.order[~listed]), origin[~listed], published[~listed]
        repeats = merge.repeats()
        is_first = np.ones(len(merge), np.bool_)
        is_first[repeats] = False
        added, replaced = int((is_first & ~published).sum()), 0
        if len(repeats):
            firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(merge)), 0))[repeats]
            lasts = np.append(np.diff(repeats) != 1, True)  # of those with the same key
            if self.on_duplicate == "error":
                raise self._duplicate(number, merge, int(firsts[0]), int(repeats[0]), "")
            if self.on_duplicate == "replace" and is_counted:
                chosen = lasts & published[firsts]
                replaced = sum(_differ(merge, firsts[chosen], repeats[chosen]))
            elif self.on_duplicate == "skip_identical" and is_counted:
                for first, rank, differs in zip(firsts, repeats, _differ(merge, firsts, repeats)):
                    if differs:
                        raise self._duplicate(number, merge, int(first), int(rank), ", and differ")
            keep = np.ones(len(merge), np.bool_)
            keep[repeats - (self.on_duplicate == "replace")] = False
            merge = replace(merge, order=merge.order[keep])
        counts = Counts(added, replaced, deleted, num_new - added - replaced)
        return merge, _RangeCount(len(merge), int(merge.sizes[merge.order].sum(dtype=np.int64)), counts, found)

    def _open(self, number: int, openers: Sequence[Opener]) -> tuple[list[_ShardBlock], list[int]]:
        """Returns the records of a range, shard by shard, and the run of each."""
        blocks: list[_ShardBlock] = []
        run_of, most = [], max(1, MAX_OPEN_SHARDS // _num_threads())
        for place, (run, opener) in enumerate(zip(self.runs, openers, strict=True)):
            start, stop = self.cuts[number : number + 2, place].tolist()
            is_remote = storage.is_remote(run.files.filename(0))
            if place >= most and not is_remote:
                opener = Opener()
            for file in run.files.part(start, stop):
                records = opener.open(file, keyed=True)
                blocks.append(_ShardBlock(records, keeps_open=is_remote or len(blocks) < most))
                run_of.append(place)
        return blocks, run_of

    def _listed(self, merge: Merge, published: NDArray[np.bool_]) -> tuple[dict[bytes, bool], NDArray[np.bool_]]:
        """Returns the keys to delete that a merge has, and whether each of its ranks has one of them."""
        listed = np.zeros(len(merge), np.bool_)
        if not len(self.delete) or not len(merge):
            return {}, listed
        keys = merge.ordered_keys().view("S16").ravel()
        low, high = np.searchsorted(self.delete, keys[[0, -1]], side="left").tolist()
        wanted = self.delete[low : high + 1]
        starts, stops = (np.searchsorted(keys, wanted, side=side) for side in ("left", "right"))
        found = {}
        for key, start, stop in zip(wanted.tolist(), starts.tolist(), stops.tolist()):
            listed[start:stop] = True
            if start < stop:
                found[key.ljust(16, b"\0")] = bool(published[start:stop].any())
        return found, listed

    def _duplicate(self, number: int, merge: Merge, first: int, second: int, more: str) -> DuplicateKeyError:
        ends = np.cumsum(self.cuts[number + 1] - self.cuts[number])
        shown = []
        for rank in (first, second):
            place = int(merge.order[rank])
            run_number = int(np.searchsorted(ends, place, side="right"))
            run = self.runs[run_number]
            index = run.start + int(self.cuts[number + 1, run_number]) - (int(ends[run_number]) - place)
            shown.append((f"{run.name}:{run.split}[{index}:{index + 1}]", show(_framed(merge, place)[12:-4])))
        high, low = merge.keys[merge.order[first]].tolist()
        key = high << 64 | low
        ordered = self.runs[0].rules[0].split is None and not self.runs[0].rules[0].salts
        text = f"the key {key - (1 << 127)}" if ordered else f"the same key (its hash is {key:032x})"
        equal = "" if more else ", skip records that are equal (skip_identical)"
        return DuplicateKeyError(
            f"{shown[0][0]} and {shown[1][0]} have {text}{more}. Nothing was published. Keep the first "
            f"(--on_duplicate keep_old) or the last (replace){equal}, or give the new example another key. "
            "The two examples:" + "".join(f"\n  {example}" for _, example in shown)
        )


def _pivots(run: SortedRun, at_shards: bool) -> NDArray[np.bytes_]:
    """Returns keys of a run at which ranges are cut; if `at_shards`, so that each has records of one shard at most."""
    found = []
    for number, file in enumerate(run.files):
        keys = keys_of(file.filename)[file.skip : file.skip + file.take]
        first = 0 if at_shards or (number and number % RANGE_FILES == 0) else RANGE_RECORDS
        found.append(keys[first::RANGE_RECORDS].copy().view("S16").ravel())
    if at_shards:  # what comes after the last shard belongs to no shard
        after = int.from_bytes(keys[-1].tobytes(), "big") + 1
        found.append(np.array([min(after, 2**128 - 1).to_bytes(16, "big")], "S16"))
    return np.concatenate(found)


def _places(run: SortedRun, pivots: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Returns how many keys of a run are before each pivot; first 0, and last how many there are."""
    places = np.zeros(len(pivots) + 2, np.int64)
    done = before = 0
    for file in run.files:
        keys = keys_of(file.filename)[file.skip : file.skip + file.take].view("S16").ravel()
        stop = int(np.searchsorted(pivots, keys[-1], side="right"))
        places[done + 1 : stop + 1] = before + np.searchsorted(keys, pivots[done:stop], side="left")
        done, before = stop, before + len(keys)
    places[done + 1 :] = before
    return places


def _merge(blocks: Sequence[_ShardBlock], for_all: Any, read_size: Any) -> Merge:
    """Returns the merge of records; of equal keys, the block that comes first is first."""
    parts = [block.records for block in blocks]
    keys = key_array(b"".join([records.keys.tobytes() for records in parts if records.keys is not None]))
    sizes = [np.diff(records.offsets) for records in parts]
    return Merge(
        blocks,
        keys,
        np.concatenate([np.empty(0, np.int64), *sizes]).astype(np.uint32),
        np.repeat(np.arange(len(blocks), dtype=np.int32), [len(some) for some in sizes]),
        np.concatenate([np.empty(0, np.int64), *(records.offsets[:-1] - records.offsets[0] for records in parts)]),
        sort_order(keys),
        read_size,
        for_all,
    )


def _differ(merge: Merge, firsts: NDArray[np.intp], seconds: NDArray[np.intp]) -> Iterable[bool]:
    """Returns of pairs of ranks whether their records differ."""

    def differ(one: int, other: int) -> bool:
        return bool(merge.sizes[one] != merge.sizes[other]) or _framed(merge, one) != _framed(merge, other)

    return merge.for_all(differ, merge.order[firsts].tolist(), merge.order[seconds].tolist())


def _framed(merge: Merge, place: int) -> bytes:
    start = int(merge.starts[place])
    data: bytes = merge.blocks[int(merge.block_of[place])].read(start, start + int(merge.sizes[place]))
    return data


# --------------------------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True)
class MergedSplit:
    """What is written of a split.

    Attributes:
        split: its name.
        ranges: what it is merged of.
        lengths: (ranges,) examples that each range keeps.
        num_bytes: framed size of the split in bytes.
        borders: where each shard begins, in examples, and where the last one ends.
        counts: how it differs from the published version.
        shared: number of a shard -> the published shard that it is.
    """

    split: str
    ranges: KeyRanges
    lengths: NDArray[np.int64]
    num_bytes: int
    borders: tuple[int, ...]
    counts: Counts
    shared: Mapping[int, WrittenShard]

    @property
    def num_examples(self) -> int:
        """Examples of the split."""
        return self.borders[-1]

    @property
    def size(self) -> int:
        """Bytes of the examples, as dataset_info.json has them: without framing."""
        return self.num_bytes - tfrecord.OVERHEAD * self.num_examples

    @property
    def num_shards(self) -> int:
        """Shards of the split."""
        return len(self.borders) - 1

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def write_shard(self, shard: int, destination: Destination) -> WrittenShard:
        """Writes a shard and its index, or links or copies those of a published one. Done again it writes the same.

        Raises:
            CorruptRecordError: a record of a source is damaged; it names file, byte and record.
            LostExamplesError: a range keeps another number of examples than planned.
            StorageError: a file cannot be read or written.
        """
        path = destination.path(self.split, shard, self.num_shards)
        if published := self.shared.get(shard):
            for suffix in ("", INDEX_SUFFIX):
                take(published.path + suffix, path + suffix)
            return replace(published, path=path)
        first, stop = self.borders[shard : shard + 2]
        ranges = range(*np.searchsorted(self._starts, [first, stop], side="left").tolist())
        ranges = range(ranges.start - (self._starts[ranges.start] > first), ranges.stop)
        openers = [Opener() for _ in self.ranges.runs]
        checksum, sizes, keys = 0, [np.zeros(1, np.uint32)], []
        with self.ranges.reading() as for_all, storage.open_writer(path) as writer:
            for number in ranges:
                merge, _ = self.ranges.resolve(number, openers, for_all)
                if len(merge) != self.lengths[number]:
                    raise LostExamplesError(
                        f"split {self.split!r}: expected {self.lengths[number]} examples in a range of keys, got "
                        f"{len(merge)}: a source was changed after this was planned. Nothing was published; run it "
                        "again."
                    )
                before = int(self._starts[number])
                merge = merge.slice(max(first - before, 0), stop - before)
                sizes.append(merge.sizes[merge.order])
                keys.append(merge.ordered_keys())
                checksum = write_chunks(writer, merge.chunks(), checksum)
        index = Index(
            np.cumsum(np.concatenate(sizes), dtype=np.uint64), np.concatenate(keys), ordered=destination.ordered
        )
        content = index.to_bytes()
        storage.write_bytes(path + INDEX_SUFFIX, content)
        count, size = len(index), index.shard_size
        num_bytes = size - tfrecord.OVERHEAD * count
        return WrittenShard(self.split, shard, 0, path, count, num_bytes, size, checksum, tfrecord.crc32c(content))


@dataclass(frozen=True)
class AppendPlan:
    """The next version of a dataset.

    Attributes:
        info: its description, without splits.
        parent_dir: directory of the published version.
        splits: what is written.
        sharding: what decides its shards.
        lineage: where it came from, with the counts.
        libraries: whose versions determined bytes of the examples.
        deleted: keys to delete of published examples.
        left_out: keys to delete that only new examples have.
        not_found: keys to delete that no split has.
        sources: the directories of what is read, in the order of the lineage.
        inputs: the files that it is built from, those of the published version among them; None if they are unknown.
    """

    info: DatasetInfo
    parent_dir: str
    splits: tuple[MergedSplit, ...]
    sharding: ShardingOptions
    lineage: Lineage
    libraries: tuple[str, ...]
    deleted: tuple[Key, ...]
    left_out: tuple[Key, ...]
    not_found: tuple[Key, ...]
    sources: tuple[str, ...]
    inputs: Inputs | None

    @property
    def dataset_dir(self) -> str:
        """The directory of the next version."""
        return self.info.data_dir

    @property
    def has_changes(self) -> bool:
        """Whether the next version would differ from the published one."""
        return any(counts.added or counts.replaced or counts.deleted for counts in (s.counts for s in self.splits))

    @property
    def num_bytes(self) -> int:
        """Framed size of all splits in bytes."""
        return sum(split.num_bytes for split in self.splits)


def plan_append(
    source: NameOrDir,
    new: Sequence[NameOrDir | ReadOnlyBuilder] = (),
    *,
    split: Any = None,
    new_splits: bool = False,
    version: VersionOrStr = NEXT,
    on_duplicate: str = "error",
    delete: Iterable[Key] = (),
    data_dir: NameOrDir | None = None,
    source_data_dir: NameOrDir | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    num_shards: int | Mapping[str, int | None] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
    share_shards: bool = False,
    union_features: bool = False,
) -> AppendPlan:
    """Returns what the next version holds; for the arguments see `beam_datasets.append`.

    Reads the indexes of all sources, and the records whose keys exist if they are compared.

    Raises:
        DuplicateKeyError: keys exist, and that is an error.
        VersionError: the version is too low for the changes.
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: any other reason why it cannot be done; the message says which.
        TypeError, ValueError: an argument is unusable.
    """
    sharding = ShardingOptions.of(num_shards=num_shards, min_shard_size=min_shard_size, max_shard_size=max_shard_size)
    if share_shards and num_shards is not None:
        raise ValueError("share_shards keeps the shards that are published, so it takes no num_shards.")
    parent, info = _checked(source, version, on_duplicate, delete, data_dir, storage_options)
    roots = [source_data_dir] if source_data_dir is not None else [data_dir, None]
    appended = [_opened(one, Sources(roots, {}, source_storage_options, parent.dataset_dir)) for one in new]
    datasets, merged = _selected(parent, appended, split)
    info = _joined(info, datasets, union_features=union_features)
    sharding.check_splits(list(merged))
    known = parent.info.splits
    for name in merged if not new_splits else ():
        if name not in known:
            raise SplitError(
                f"{parent.info.display_name}: expected a split that it has ({', '.join(known)}), got {name!r}."
                f"{did_you_mean(name, known)} A new split needs --new_splits (new_splits=True)."
            )
    keys, splits = list(delete), []
    found: dict[int, bool] = {}
    for name, parts in merged.items():
        rules = _rules(name, parts, name in known)
        wanted = [(i, r.sort_key(_as_key(key, r.split is None))) for i, key in enumerate(keys) for r in rules]
        runs = [run for part in parts for run in part.runs]
        published = _published_shards(parent, name) if share_shards and name in known else []
        ranges = KeyRanges.of(runs, name in known, on_duplicate, [k for _, k in wanted], cut_at_shards=bool(published))
        planned, present = _merged_split(name, ranges, sharding, published)
        splits.append(planned)
        found |= {i: found.get(i, False) or present[key] for i, key in wanted if key in present}
    return AppendPlan(
        info,
        parent.dataset_dir,
        tuple(splits),
        sharding,
        _lineage(datasets, merged, {planned.split: planned.counts for planned in splits}),
        tuple(sorted({name for one in datasets if one.manifest for name in one.manifest.options.get("libraries", ())})),
        *_by_place(keys, found),
        tuple(one.dataset_dir for one in datasets),
        _inputs(datasets if split is None else datasets[:1], info.features),
    )


def _by_place(
    keys: Sequence[Key], found: Mapping[int, bool]
) -> tuple[tuple[Key, ...], tuple[Key, ...], tuple[Key, ...]]:
    """Returns the keys of published examples, those of new ones alone, and the others; see `_RangeCount.found`."""
    deleted, left_out = (tuple(key for i, key in enumerate(keys) if found.get(i) is one) for one in (True, False))
    return deleted, left_out, tuple(key for i, key in enumerate(keys) if i not in found)


def _checked(
    source: NameOrDir,
    version: VersionOrStr,
    on_duplicate: str,
    delete: Iterable[Key],
    data_dir: NameOrDir | None,
    storage_options: Mapping[str, Any] | None,
) -> tuple[ReadOnlyBuilder, DatasetInfo]:
    """Returns the published version and the description of the next one, after checking what needs no other source."""
    if on_duplicate not in ON_DUPLICATE:
        raise ValueError(f"on_duplicate: expected one of {', '.join(ON_DUPLICATE)}, got {on_duplicate!r}.")
    if isinstance(delete, (str, bytes)) or not isinstance(delete, Iterable):
        raise TypeError(f"delete: expected a list of keys, got {type(delete).__name__}: {delete!r:.100}")
    parent = open_parent(source, data_dir, storage_options)
    info = _next_info(parent, version)
    publishing.check_free(info.data_dir, info.display_name)
    return parent, info


def _selected(
    parent: ReadOnlyBuilder, appended: Iterable[Sources], split: Any
) -> tuple[list[ReadOnlyBuilder], dict[str, list[SelectedSplit]]]:
    """Returns all datasets, the published one first, and what is read of them for each split."""
    published = select_splits(named_splits(None, parent), Sources([], opened=[parent]))
    datasets, merged = [parent], {selected.name: [selected] for selected in published}
    for sources in appended:
        for selected in select_splits(named_splits(split, sources.opened[0]), sources):
            merged.setdefault(selected.name, []).append(_renumbered(selected, len(datasets)))
        datasets += sources.opened
    return datasets, merged


def _joined(info: DatasetInfo, datasets: Sequence[ReadOnlyBuilder], *, union_features: bool) -> DatasetInfo:
    """Returns the description of the next version with the features of all datasets.

    Raises:
        BeamDatasetsError: the features differ, and not by features that may be missing.
    """
    for other in datasets[1:]:
        problem = difference(info.features, other.info.features)
        if problem and not union_features:
            raise BeamDatasetsError(
                f"{other.info.display_name} cannot be appended to {datasets[0].info.display_name}: {problem}. What is "
                "appended needs the same features; make it with those of the published version, or let those that one "
                "of them lacks be missing: --union_features (union_features=True)."
            )
        if problem:
            info = info.replace(features=union(info.features, other.info.features))
    return info


def _inputs(datasets: Iterable[ReadOnlyBuilder], features: Any) -> Inputs | None:
    """Returns the files of which some datasets were built, all of them; None if there are none."""
    known = [inputs for each in datasets if (inputs := publishing.read_inputs(each.dataset_dir))]
    types = {name: spec for each in known for name, spec in each.columns.items()}
    columns = {name: f"{spec.rstrip('?')}?" if _may_lack(features, name) else spec for name, spec in types.items()}
    return Inputs({name: stamp for each in known for name, stamp in each.files.items()}, columns) if known else None


def _may_lack(features: Any, name: str) -> bool:
    return name in features and getattr(features[name], "optional", False)


def union(one: Any, other: Any, name: str = "") -> Any:
    """Returns features of which examples of both are examples: what one of them lacks may be missing.

    Raises:
        BeamDatasetsError: they differ in another way, or a feature that one lacks cannot be missing.
    """
    if type(one) is type(other) is FeaturesDict:
        joined = {
            child: union(one[child], other[child], join(name, child))
            if child in one and child in other
            else _optional((one if child in one else other)[child], join(name, child))
            for child in {**one, **other}
        }
        return FeaturesDict(joined, doc=one.doc)
    if not difference(one, other):
        return one
    if isinstance(one, Tensor) and isinstance(other, Tensor) and (one.shape, one.dtype) == (other.shape, other.dtype):
        loose = [_optional(each, name) for each in (one, other)]
        kinds = [each for each in loose if type(each) is not Text] or loose
        if not difference(kinds[0], kinds[-1]):
            return kinds[0]
    raise BeamDatasetsError(f"{difference(one, other, name)}. No feature can store both.")


def _optional(feature: Any, name: str) -> Any:
    """Returns a feature of which None is a value, too; a missing sequence is an empty one.

    Raises:
        BeamDatasetsError: the feature cannot be missing.
    """
    if type(feature) is FeaturesDict:
        return FeaturesDict({child: _optional(feature[child], join(name, child)) for child in feature}, doc=feature.doc)
    if type(feature) in (Sequence_, Text):
        return feature
    if type(feature) in (Scalar, Tensor):
        more = {name: getattr(feature, name) for name in ("encoding", "doc", "minimum", "maximum", "allow_rounding")}
        made = Scalar(feature.dtype, optional=True, **more)
        return (
            made if type(feature) is Scalar else Tensor(shape=feature.shape, dtype=feature.dtype, optional=True, **more)
        )
    raise BeamDatasetsError(
        f"feature {name!r}, {feature!r}, is in one dataset only, and cannot be missing. Leave it out, or append "
        "examples that have it."
    )


def open_parent(
    source: NameOrDir, data_dir: NameOrDir | None, storage_options: Mapping[str, Any] | None
) -> ReadOnlyBuilder:
    """Returns the published version that is appended to.

    Raises:
        DatasetNotFoundError: there is none.
        BeamDatasetsError: its directory does not have the name of its version, so that the next has no place.
    """
    sources = Sources([target_dir(catalog.root_dir(data_dir), storage_options)], {}, storage_options)
    parent = sources.opened[sources.open(source)]
    if storage.basename(parent.dataset_dir) != str(parent.version):
        raise BeamDatasetsError(
            f"{parent.dataset_dir}: expected a directory called {parent.version}, as the version is; the next version "
            "is put beside it. Materialize the dataset first."
        )
    return parent


def _opened(one: NameOrDir | ReadOnlyBuilder, sources: Sources) -> Sources:
    """Returns the sources with a dataset as the first one."""
    if isinstance(one, ReadOnlyBuilder):
        sources.opened.append(one)
    else:
        sources.open(one)
    return sources


def _renumbered(split: SelectedSplit, base: int) -> SelectedSplit:
    reads = tuple(replace(read, dataset=base + read.dataset) for read in split.reads)
    return replace(split, reads=reads, runs=tuple(replace(run, dataset=base + run.dataset) for run in split.runs))


def _published_shards(parent: ReadOnlyBuilder, split: str) -> list[WrittenShard]:
    """Returns the shards of a split, with their paths; empty ones and splits without a manifest are not shared."""
    if parent.manifest is None:
        return []
    names = parent.info.splits[split].shard_names
    shards = publishing.kept_shards(parent.name, split, parent.manifest.splits[split])
    made = [replace(shard, path=storage.join(parent.dataset_dir, name)) for shard, name in zip(shards, names)]
    return made if all(shard.num_examples for shard in made) else []


def _rules(name: str, parts: Sequence[SelectedSplit], has_published: bool) -> Any:
    """Returns the rules of the keys of a split, after checking that all runs can be merged by them."""
    runs = [run for part in parts for run in part.runs]
    for run in runs:
        if not run.rules:
            raise BeamDatasetsError(
                f"{run.name}, split {run.split!r}: expected shards with recorded keys, got shards without, as "
                "TensorFlow Datasets writes and `adopt` makes them. Their order cannot be continued; generate the "
                "dataset with beam_datasets."
            )
    if has_published and len(parts[0].runs) > 1:
        raise BeamDatasetsError(
            f"{runs[0].name}, split {name!r}: expected keys that ascend, got a concatenation of {len(parts[0].runs)} "
            "parts. Materialize it in a new order first (--reshuffle), or append to what it was made of."
        )
    if len(runs) > 1 and len(runs[0].rules) > 1:  # equal keys of two rules are stored as different ones
        raise BeamDatasetsError(
            f"split {name!r}: expected keys made by one rule, got {_described_rules(runs[0])}, by which repeated keys "
            "are not found. Append to what it was made of, and materialize that again."
        )
    for run in runs[1:]:
        if run.rules != runs[0].rules:
            raise BeamDatasetsError(
                f"split {name!r}: expected keys made by one rule, got {_described_rules(runs[0])} and "
                f"{_described_rules(run)}. Append examples that were generated for the split {runs[0].split!r}, in the "
                "same order."
            )
    return runs[0].rules


def _described_rules(run: SortedRun) -> str:
    rules = [
        ("integer keys" if rule.split is None else f"hashes of {rule.split!r}")
        + "".join(f", shuffled by {salt!r}" for salt in rule.salts)
        for rule in run.rules
    ]
    return f"{' and '.join(rules)} ({run.name}:{run.split})"


def _as_key(key: Key, is_integer: bool) -> Key:
    """Returns a key to delete; the text of an integer is one where keys are integers.

    Raises:
        InvalidKeyError: it is not.
    """
    if not (is_integer and isinstance(key, str)):
        return key
    try:
        return int(key)
    except ValueError:
        raise InvalidKeyError(f"key {key!r} to delete: expected an integer, as all keys of this dataset are.") from None


def _merged_split(
    name: str, ranges: KeyRanges, sharding: ShardingOptions, published: Sequence[WrittenShard]
) -> tuple[MergedSplit, dict[bytes, bool]]:
    """Returns what is written of a split, and the keys to delete that it has; see `_RangeCount`.

    Args:
        name: of the split.
        ranges: of its keys, cut at shards if there are any to share.
        sharding: what decides its shards.
        published: the published shards that may be shared.
    """
    groups = [range(i, min(i + RANGES_COUNTED, len(ranges))) for i in range(0, len(ranges), RANGES_COUNTED)]
    with _threads() as pool:
        counted = [one for some in pool.map(ranges.count, groups) for one in some]
    lengths = np.array([one.num_examples for one in counted], np.int64)
    if not lengths.sum():
        raise BeamDatasetsError(f"split {name!r}: all examples would be deleted; a published split needs at least one.")
    num_bytes, counts = sum(one.num_bytes for one in counted), Counts()
    for one in counted:
        counts = counts.plus(one.counts)
    found = {key: is_published for one in counted for key, is_published in one.found.items()}
    borders, shared = _shards(name, ranges, sharding, published, counted)
    return MergedSplit(name, ranges, lengths, num_bytes, tuple(borders), counts, shared), found


def _shards(
    name: str,
    ranges: KeyRanges,
    sharding: ShardingOptions,
    published: Sequence[WrittenShard],
    counted: Sequence[_RangeCount],
) -> tuple[list[int], dict[int, WrittenShard]]:
    """Returns where the shards of a split begin and the last one ends, and those that are published ones.

    What lies between shards that are shared is cut evenly. Of splits that are shuffled all shards are shared, or none.
    """
    changes = [bool(one.counts.added or one.counts.replaced or one.counts.deleted) for one in counted]
    ordered = ranges.runs[0].rules[0].split is None and not ranges.runs[0].rules[0].salts
    kept: list[tuple[int, int, WrittenShard]] = []  # with the ranges that have records of it
    start = 0
    for shard in published if ordered or not any(changes) else ():
        first = int(np.searchsorted(ranges.cuts[:, 0], start, side="right")) - 1
        start += shard.num_examples
        stop = int(np.searchsorted(ranges.cuts[:, 0], start))
        if not any(changes[first:stop]):
            kept.append((first, stop, shard))
    if kept and any(changes[kept[-1][1] :]) and kept[-1][2].num_bytes < sharding.min_shard_size:
        kept.pop()  # else there would be a small shard for each day
    borders, shared, done = [0], {}, 0
    for first, stop, known in [*kept, (len(ranges), len(ranges), None)]:
        between = counted[done:first]
        if count := sum(one.num_examples for one in between):
            number = choose_shards(name, count, sum(one.num_bytes for one in between), sharding)
            borders += [borders[-1] + end for end in shard_ends(count, number)]
        if known is not None:
            shared[len(borders) - 1] = replace(known, shard=len(borders) - 1)
            borders.append(borders[-1] + known.num_examples)
        done = stop
    return borders, shared


def _next_info(parent: ReadOnlyBuilder, wanted: VersionOrStr) -> DatasetInfo:
    """Returns the description of the next version: that of the published one.

    Raises:
        VersionError: the number that is wanted promises that slices keep their examples.
    """
    lowest = Version(f"{parent.version.major + 1}.0.0")
    version = lowest if wanted == NEXT else Version(wanted)
    if version < lowest:
        raise VersionError(
            f"expected version {lowest} or higher after {parent.version}, because slices get other examples (a MAJOR "
            f"change), got {version}. Leave the version out, or give 'next'."
        )
    directory = storage.join(storage.dirname(parent.dataset_dir), str(version))
    return parent.info.replace(version=version, data_dir=directory)


def _lineage(
    datasets: Sequence[ReadOnlyBuilder], merged: Mapping[str, Sequence[SelectedSplit]], counts: Mapping[str, Counts]
) -> Lineage:
    sources = [described(builder) for builder in datasets]
    if datasets[0].lineage is not None and datasets[0].lineage.appended is not None:
        sources[0] = replace(sources[0], source=None)  # its own manifest has it; a year of days would nest 365 deep
    splits = {}
    for name, parts in merged.items():
        terms = [
            part.expression if read.dataset == 0 else f"{datasets[read.dataset].info.display_name}:{part.expression}"
            for part in parts
            for read in part.reads[:1]
        ]
        reads = tuple(read for part in parts for read in part.reads)
        splits[name] = SplitLineage("+".join(terms), reads, (Ascent(0, parts[0].runs[0].rules),))
    return Lineage(tuple(sources), splits, appended={name: count._asdict() for name, count in counts.items()})


# ---------------------------------------------------------------------------------------------------------------- run


def _num_threads() -> int:
    return min(os.cpu_count() or 1, MAX_THREADS)


@contextlib.contextmanager
def _threads() -> Any:
    """Provides threads: reading, checksums, sorting, gathering and writing release the interpreter lock."""
    pool = ThreadPoolExecutor(_num_threads(), "beam_datasets-append")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def run_append(plan: AppendPlan, progress: Callable[[Progress], None] | None = None) -> str:
    """Writes and publishes the next version in this process, and returns its directory.

    Raises:
        AlreadyPublishedError: the version is published already, maybe by another append in the meantime.
        CorruptRecordError: a record of a source is damaged.
        BeamDatasetsError: a source was changed after the plan, or any other reason why nothing was published.
    """
    publication = publishing.announce(
        plan.info,
        plan.dataset_dir,
        sharding=plan.sharding,
        runner=IN_PROCESS,
        builder=_BUILDER,
        source=plan.lineage.to_json(),
    )
    destination = Destination(publication.staging_dir, publication.name, ordered=plan.info.disable_shuffling)
    watching = watch(publication.staging_dir, None, progress)
    with publishing.staging(publication), watching, _threads() as pool:
        tasks = [(split, shard) for split in plan.splits for shard in range(split.num_shards)]
        publication = publishing.stage_inputs(publication, plan.inputs)
        written = list(pool.map(lambda task: task[0].write_shard(task[1], destination), tasks))
        check_unchanged(plan.sources, plan.lineage)
        publishing.publish(publication, plan, written)
    return publication.dataset_dir


def append(
    source: NameOrDir,
    new: Any = (),
    *,
    split: Any = None,
    new_splits: bool = False,
    version: VersionOrStr = NEXT,
    on_duplicate: str = "error",
    delete: Iterable[Key] = (),
    data_dir: NameOrDir | None = None,
    source_data_dir: NameOrDir | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    num_shards: int | Mapping[str, int | None] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
    share_shards: bool = False,
    union_features: bool = False,
    take_changed: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> str:
    """Publishes the next version of a dataset: a published one with new examples, in the order of generating it anew.

    Records are merged by their recorded keys, without decoding them. The shards and their indexes are, byte by byte,
    those of one generation of all examples with the same number of shards. If nothing changes, nothing is published.

    Args:
        source: the published dataset: a name such as 'digits' or 'digits/small:1.*.*', or a version's directory.
        new: what is appended: a published dataset, by name or directory, a builder, which is built in a temporary
            directory, or a list of these. An example replaces or is skipped by the order of the list.
        split: of what is appended, as in `beam_datasets.materialize`; None for all splits, each to the one of its name.
        new_splits: whether splits that the published version lacks are added; otherwise they are an error.
        version: 'next', the lowest that the change allows: it is the next MAJOR, because slices get other examples; or
            a version that is not lower.
        on_duplicate: what to do about a key that exists: 'error'; 'keep_old' keeps the published example; 'replace'
            takes the new one; 'skip_identical' keeps it if the records are equal, else it is an error.
        delete: keys whose examples are left out, of the published and of the new ones.
        data_dir: root of the datasets, for names; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets.
            The next version is put beside the published one.
        source_data_dir: root for names of what is appended; None for `data_dir`, and then the one without.
        storage_options: of the store of `data_dir`; see `beam_datasets.materialize`.
        source_storage_options: of the stores of what is appended; see there.
        num_shards: of each split, one number for all or {split: number}; None chooses by the size rule.
        min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
        max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
        share_shards: published shards in whose range of keys nothing changes are hard links to them, or copies by the
            store, instead of written: all of a split without changes, and of one with `disable_shuffling` those
            before what is appended. The other records make shards of their own.
        union_features: whether features that one of the datasets lacks may be missing in the next version; otherwise
            they are an error. Class labels and images cannot be missing.
        take_changed: of builders of files, which take only files of which the published version was not built: whether
            files that have changed since are taken, too. A warning names them.
        progress: called about twice a second with how much is written.

    Returns:
        The directory of the next version; that of `source` if nothing changes.

    Raises:
        DatasetNotFoundError: a dataset does not exist.
        DuplicateKeyError: a key exists, and that is an error.
        VersionError: the version is too low for the change.
        AlreadyPublishedError: the next version is published already, maybe by another append in the meantime.
        CorruptRecordError: a record is damaged; nothing was published.
        BeamDatasetsError: the features differ, the keys of a dataset are not recorded, or any other reason why nothing
            was published.
        TypeError, ValueError: an argument is unusable.
    """
    options = {
        name: value for name, value in locals().items() if name not in ("source", "new", "progress", "take_changed")
    }
    listed = list(new) if isinstance(new, (list, tuple)) else [new]
    with built(source, listed, options, take_changed=take_changed) as (source, sources, notes):
        for note in notes:
            warnings.warn(note, stacklevel=2)
        plan = plan_append(source, sources, **options)
        return run_append(plan, progress) if plan.has_changes else plan.parent_dir


@contextlib.contextmanager
def built(
    source: NameOrDir, new: Sequence[Any], options: Mapping[str, Any], *, take_changed: bool = False
) -> Iterator[tuple[NameOrDir, list[Any], list[str]]]:
    """Provides what is appended to, what is appended, and notes about it.

    Builders are built in a directory beside the next version.
    Builders of files take only files of which the published version was not built; without any they are left out.
    That version is then the one to append to, even if another process publishes a higher one in the meantime.

    Args:
        source: what is appended to.
        new: published datasets and builders.
        options: of `plan_append`.
        take_changed: see `append`.

    Raises:
        AlreadyPublishedError: the next version is published already.
        StorageError: a builder is given, and the dataset is in an object store.
        TypeError, ValueError: an option is unusable.
    """
    if not any(hasattr(one, "elsewhere") for one in new):
        yield source, list(new), []
        return
    given = inspect.signature(plan_append).bind(source, new, **options)
    given.apply_defaults()
    ShardingOptions.of(**{name: given.arguments[name] for name in ("num_shards", "min_shard_size", "max_shard_size")})
    names = ("source", "version", "on_duplicate", "delete", "data_dir", "storage_options")
    parent, _ = _checked(*(given.arguments[name] for name in names))
    if storage.is_remote(parent.dataset_dir):
        raise StorageError(
            f"{parent.dataset_dir}: expected a local path to build what is appended beside it. Build it first, and "
            "append the published dataset."
        )
    made: list[Any] = []
    notes: list[str] = []
    with publishing.beside(parent.dataset_dir) as folder:
        for number, one in enumerate(new):
            if hasattr(one, "elsewhere"):
                builder, changed = one.elsewhere(storage.join(folder, str(number))), []
                if hasattr(builder, "only_new"):
                    known = publishing.read_inputs(parent.dataset_dir)
                    if known is None:
                        notes.append(f"{parent.dataset_dir}: no readable {INPUTS_FILE} names its files: all are taken")
                    changed = builder.only_new(known or Inputs(), take_changed=take_changed)
                if changed:
                    way = "taken" if take_changed else "not taken; --take_changed (take_changed=True) takes them"
                    notes.append(
                        f"files that have changed since {parent.version} was built: {', '.join(changed)}: {way}"
                    )
                if getattr(builder, "has_files", True):
                    made += map(builder_from_directory, _build(builder, given.arguments["on_duplicate"]))
            else:
                made.append(one)
        yield parent.dataset_dir, made, notes


def _build(builder: Any, on_duplicate: str) -> list[str]:
    """Builds a builder, and one of files file by file if a key occurs in several; returns the directories."""
    try:
        return [builder.build(skip_empty_splits=True)]
    except DuplicateKeyError:
        if on_duplicate == "error" or not hasattr(builder, "one_by_one"):
            raise
    return [each.build(skip_empty_splits=True) for each in builder.one_by_one()]
