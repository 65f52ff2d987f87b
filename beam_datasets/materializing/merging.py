"""Merging the runs of a split by their sort keys, a published version and new examples, without decoding records.

Sources are runs of shards with ascending sort keys: first the run of the published version, then those of the new
examples. The keys of all runs are divided into ranges of about `RANGE_RECORDS` keys per run at most. The records that a
range keeps depend on its keys (and, for repeated keys, on their records). So the ranges are counted first, and
evaluated again when a shard is written: memory contains a few ranges, and the index of each shard that is being
written.

Records are copied in the order of their sort keys. Shards end at the same ranks as if all examples were generated at
once (`choose_shards`, `shard_ends`), so the bytes are equal, unless published shards are shared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_datasets import catalog, storage
from beam_datasets.diffing.diffing import keys_of
from beam_datasets.errors import DuplicateKeyError, LostExamplesError, NoExamplesError
from beam_datasets.execute import tasks
from beam_datasets.execute.tasks import run_tasks
from beam_datasets.formats import tfrecord
from beam_datasets.materializing.records import Opener, Records
from beam_datasets.materializing.selection import SortedRun
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing.record_text import show
from beam_datasets.publishing.shard_file import Destination, ShardFile, WrittenShard
from beam_datasets.shuffle.blocks import key_array, sort_order
from beam_datasets.shuffle.merge import IN_STORE, ON_DISK, READS_AT_ONCE, Merge
from beam_datasets.shuffle.plan import choose_shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


RANGE_RECORDS = 1 << 16
RANGE_FILES = 4
"""Maximum records of a file, and approximate number of files, in a range of each run."""

RANGES_COUNTED = 16
"""Consecutive ranges that one thread counts, so that it opens each index once."""

MAX_OPEN_SHARDS = 128
"""Local shards of ranges that all threads keep open, and as many again for the ranges that follow; each shard needs up
to two file descriptors, and a process often has 1024."""


MAX_COMPARED = 1000
"""Repeated keys of a range of which the first two records that differ are looked for, to show them in an error: a file
that has changed has its other rows, too."""


class Counts(NamedTuple):
    """Numbers of examples of a split that are added, replaced, deleted or skipped.

    Attributes:
        added: new examples with keys that the published version lacks.
        replaced: published examples that are replaced by a new one with the same key and another record.
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
    """Counts of a range of keys.

    Attributes:
        num_examples: number of examples that the range keeps.
        num_bytes: their framed size in bytes.
        counts: differences from the published version.
        keys_to_delete: each key to delete that it has -> whether a published example has it.
    """

    num_examples: int
    num_bytes: int
    counts: Counts
    keys_to_delete: dict[bytes, bool]


class _ShardBlock:
    """Records of a shard as a block of a `Merge`; one that does not keep the shard open opens it for each read."""

    def __init__(self, records: Records, *, keeps_open: bool) -> None:
        self._shard = records.shard if keeps_open else None
        if not keeps_open:  # a view of the keys would keep the index open
            keys = None if records.keys is None else records.keys.copy()
            records = replace(records, keys=keys, shard=None)  # type: ignore[arg-type]
        self.records, self._start = records, int(records.offsets[0])

    def read(self, start: int, stop: int) -> bytes:
        """Returns the framed records in bytes [start, stop) of the block, checked.

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
        runs: runs that are merged, the published run first.
        has_published: whether the first run is published; not of a split that is new.
        on_duplicate: one of `ON_DUPLICATE`.
        delete: sort keys that are left out, ascending, as 16 bytes each.
        delete_in: (keys, 2) the first run in which each is left out, and the one after the last.
        cuts: (ranges + 1, runs) where each range begins in each run, in examples.
    """

    runs: tuple[SortedRun, ...]
    has_published: bool
    on_duplicate: str
    delete: NDArray[np.bytes_]
    delete_in: NDArray[np.int64]
    cuts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        runs: Sequence[SortedRun],
        has_published: bool,
        on_duplicate: str,
        delete: Mapping[bytes, range],
        *,
        cut_at_shards: bool = False,
    ) -> KeyRanges:
        """Cuts runs into ranges, also at each shard of the published run if `cut_at_shards`; reads their indexes.

        Args:
            runs: to merge, the published one first.
            has_published: whether the first run is published.
            on_duplicate: one of `ON_DUPLICATE`.
            delete: sort key -> the runs in which it is left out.
            cut_at_shards: whether ranges also end where shards of the published run do.

        Raises:
            MetadataError: an index is damaged or missing.
        """
        cuts = [_pivots(run, cut_at_shards and not run_number) for run_number, run in enumerate(runs)]
        pivots = np.unique(np.concatenate([np.empty(0, "S16"), *cuts]))
        columns = [_count_before_pivots(run, pivots) for run in runs]
        listed = sorted(delete)
        delete_in = np.array([(delete[key].start, delete[key].stop) for key in listed], np.int64).reshape(-1, 2)
        cuts_of_runs = np.stack(columns, axis=1)
        return cls(tuple(runs), has_published, on_duplicate, np.array(listed, "S16"), delete_in, cuts_of_runs)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    @property
    def is_remote(self) -> bool:
        """Whether a run is in an object store."""
        return any(storage.is_remote(run.files.filename(0)) for run in self.runs)

    def count(self, numbers: range) -> list[_RangeCount]:
        """Returns the counts of consecutive ranges; reads records whose keys are repeated, if they are compared.

        Raises:
            DuplicateKeyError: a key is repeated, and that is an error.
            CorruptRecordError: a record that is compared is damaged.
        """
        openers = [Opener() for _ in self.runs]
        with self.reading() as for_all:
            return [self.resolve(number, openers, for_all, is_counted=True)[1] for number in numbers]

    @contextlib.contextmanager
    def reading(self) -> Iterator[Callable[..., Iterator[Any]]]:
        """Context manager: provides `map`, or for object stores the `map` of a thread pool of `READS_AT_ONCE`."""
        if not self.is_remote:
            yield map
            return
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            yield pool.map

    def resolve(
        self, number: int, openers: Sequence[Opener], for_all: Any, *, is_counted: bool = False
    ) -> tuple[Merge, _RangeCount]:
        """Returns the merge of the records of a range that are written, in order, and their counts and size.

        Args:
            number: number of the range.
            openers: for each run, the opener of its shards.
            for_all: the function that `reading` provides.
            is_counted: whether records of repeated keys are compared; otherwise `replaced` of the counts is 0.

        Raises:
            DuplicateKeyError: a key is repeated, and `on_duplicate` does not allow it.
        """
        blocks, run_of = self._open_blocks(number, openers)
        merge = _merge(blocks, for_all, ON_DISK if not self.is_remote else IN_STORE)
        origin = np.repeat(run_of, [len(block.records.offsets) - 1 for block in blocks])[merge.order]
        published = (origin == 0) & self.has_published
        num_new = len(merge) - int(published.sum())
        keys_to_delete, listed = self._find_deleted(merge, origin, published)
        deleted = int((listed & published).sum())
        merge, origin, published = replace(merge, order=merge.order[~listed]), origin[~listed], published[~listed]
        repeats = merge.repeats()
        is_first = np.ones(len(merge), np.bool_)
        is_first[repeats] = False
        num_added, replaced = int((is_first & ~published).sum()), 0
        if len(repeats):
            starts = np.maximum.accumulate(np.where(is_first, np.arange(len(merge)), 0))[repeats]
            lasts = np.append(np.diff(repeats) != 1, True)  # of those with the same key
            if self.on_duplicate == "error":
                differing = _compare_records(merge, starts[:MAX_COMPARED], repeats[:MAX_COMPARED])
                pair_number = next((pair_index for pair_index, differs in enumerate(differing) if differs), None)
                note = "" if pair_number is None else ", and differ"
                raise self._duplicate_error(
                    number, merge, int(starts[pair_number or 0]), int(repeats[pair_number or 0]), note
                )
            if self.on_duplicate == "replace" and is_counted:
                is_replaced = lasts & published[starts]
                replaced = sum(_compare_records(merge, starts[is_replaced], repeats[is_replaced]))
            elif self.on_duplicate == "skip_identical" and is_counted:
                for first, rank, differs in zip(starts, repeats, _compare_records(merge, starts, repeats)):
                    if differs:
                        raise self._duplicate_error(number, merge, int(first), int(rank), ", and differ")
            keep = np.ones(len(merge), np.bool_)
            keep[repeats - (self.on_duplicate == "replace")] = False
            merge = replace(merge, order=merge.order[keep])
        counts = Counts(num_added, replaced, deleted, num_new - num_added - replaced)
        return merge, _RangeCount(len(merge), int(merge.sizes[merge.order].sum(dtype=np.int64)), counts, keys_to_delete)

    def _open_blocks(self, number: int, openers: Sequence[Opener]) -> tuple[list[_ShardBlock], list[int]]:
        """Returns (a block of the records of a range for each shard, number of the run of each block)."""
        blocks: list[_ShardBlock] = []
        run_of, max_open = [], max(1, MAX_OPEN_SHARDS // tasks.num_threads())
        for run_number, (run, opener) in enumerate(zip(self.runs, openers, strict=True)):
            start, stop = self.cuts[number : number + 2, run_number].tolist()
            is_remote = storage.is_remote(run.files.filename(0))
            if run_number >= max_open and not is_remote:
                opener = Opener()
            for file in run.files.part(start, stop):
                records = opener.open(file, keyed=True)
                blocks.append(_ShardBlock(records, keeps_open=is_remote or len(blocks) < max_open))
                run_of.append(run_number)
        return blocks, run_of

    def _find_deleted(
        self, merge: Merge, origin: NDArray[np.int64], published: NDArray[np.bool_]
    ) -> tuple[dict[bytes, bool], NDArray[np.bool_]]:
        """Returns the keys to delete that are in a merge, and a mask of the ranks that are deleted.

        Args:
            merge: the merge of a range.
            origin: for each rank, the number of the run of its record.
            published: for each rank, whether its record is in the published version.

        Returns:
            {sort key of 16 bytes: whether a published record has it}, and for each rank whether it is deleted.
        """
        listed = np.zeros(len(merge), np.bool_)
        if not len(self.delete) or not len(merge):
            return {}, listed
        keys = merge.ordered_keys().view("S16").ravel()
        low, high = np.searchsorted(self.delete, keys[[0, -1]], side="left").tolist()
        listed_keys, runs = self.delete[low : high + 1], self.delete_in[low : high + 1].tolist()
        starts, stops = (np.searchsorted(keys, listed_keys, side=side) for side in ("left", "right"))
        keys_to_delete = {}
        for key, start, stop, (first, end) in zip(listed_keys.tolist(), starts.tolist(), stops.tolist(), runs):
            listed[start:stop] = (first <= origin[start:stop]) & (origin[start:stop] < end)
            if start < stop:
                keys_to_delete[key.ljust(16, b"\0")] = bool(published[start:stop].any())
        return keys_to_delete, listed

    def _duplicate_error(self, number: int, merge: Merge, first: int, second: int, note: str) -> DuplicateKeyError:
        """Returns the error about two records of a range with the same key.

        Args:
            number: number of the range, from 0.
            merge: merge of the range's records.
            first: rank in the merge of one record.
            second: rank in the merge of the other record.
            note: text that is added to the message after the key, such as ', and differ'; '' for none.
        """
        ends = np.cumsum(self.cuts[number + 1] - self.cuts[number])
        texts = []
        for rank in (first, second):
            position = int(merge.order[rank])
            run_number = int(np.searchsorted(ends, position, side="right"))
            run = self.runs[run_number]
            index = run.start + int(self.cuts[number + 1, run_number]) - (int(ends[run_number]) - position)
            tree = catalog.read_features(storage.join(storage.dirname(run.files.filename(0)), catalog.FEATURES_FILE))
            texts.append((run.example(index), show(_read_framed(merge, position)[12:-4], tree)))
        high, low = merge.keys[merge.order[first]].tolist()
        number = high << 64 | low
        are_integers = self.runs[0].rules[0].split is None and not self.runs[0].rules[0].salts
        key = number - (1 << 127) if are_integers else None
        text = f"the same key (its hash is {number:032x})" if key is None else f"the key {key}"
        equal = "" if note else ", skip records that are equal (skip_identical)"
        return DuplicateKeyError(
            f"{texts[0][0]} and {texts[1][0]} have {text}{note}. Nothing was published. Keep the first "
            f"(--on_duplicate keep_old) or the last (replace){equal}, or give the new example another key. "
            "The two examples:" + "".join(f"\n  {example}" for _, example in texts),
            split=self.runs[0].rules[0].split,
            key=key,
            sort_key=number.to_bytes(16, "big") if key is None else None,
        )


def _pivots(run: SortedRun, at_shards: bool) -> NDArray[np.bytes_]:
    """Returns keys of a run at which ranges are cut; if `at_shards`, so that each has records of one shard at most."""
    pivots = []
    for number, file in enumerate(run.files):
        keys = keys_of(file.filename)[file.skip : file.skip + file.take]
        first = 0 if at_shards or (number and number % RANGE_FILES == 0) else RANGE_RECORDS
        pivots.append(keys[first::RANGE_RECORDS].copy().view("S16").ravel())
    if at_shards:  # keys after the last shard belong to no shard
        upper_bound = int.from_bytes(keys[-1].tobytes(), "big") + 1
        pivots.append(np.array([min(upper_bound, 2**128 - 1).to_bytes(16, "big")], "S16"))
    return np.concatenate(pivots)


def _count_before_pivots(run: SortedRun, pivots: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Returns the number of keys of a run before each pivot; first 0, and last the number of all keys."""
    positions = np.zeros(len(pivots) + 2, np.int64)
    num_done = num_before = 0
    for file in run.files:
        keys = keys_of(file.filename)[file.skip : file.skip + file.take].view("S16").ravel()
        stop = int(np.searchsorted(pivots, keys[-1], side="right"))
        positions[num_done + 1 : stop + 1] = num_before + np.searchsorted(keys, pivots[num_done:stop], side="left")
        num_done, num_before = stop, num_before + len(keys)
    positions[num_done + 1 :] = num_before
    return positions


def _merge(blocks: Sequence[_ShardBlock], for_all: Any, read_size: Any) -> Merge:
    """Returns the merge of the records of blocks, sorted by key; those with equal keys are in the order of the blocks.

    Args:
        blocks: the records of each shard.
        for_all: the function that `KeyRanges.reading` provides.
        read_size: the `ReadSize` of the storage, `ON_DISK` or `IN_STORE`.
    """
    parts = [block.records for block in blocks]
    keys = key_array(b"".join([records.keys.tobytes() for records in parts if records.keys is not None]))
    sizes = [np.diff(records.offsets) for records in parts]
    return Merge(
        [block.read for block in blocks],
        keys,
        np.concatenate([np.empty(0, np.int64), *sizes]).astype(np.uint32),
        np.repeat(np.arange(len(blocks), dtype=np.int32), [len(block_sizes) for block_sizes in sizes]),
        np.concatenate([np.empty(0, np.int64), *(records.offsets[:-1] - records.offsets[0] for records in parts)]),
        sort_order(keys),
        read_size,
        for_all,
    )


def _compare_records(merge: Merge, starts: NDArray[np.intp], seconds: NDArray[np.intp]) -> Iterable[bool]:
    """Returns for each pair of ranks (starts[i], seconds[i]) whether the framed records differ."""

    def differ(one: int, other: int) -> bool:
        """Returns whether the framed records with two indices in the merge have different bytes."""
        return bool(merge.sizes[one] != merge.sizes[other]) or _read_framed(merge, one) != _read_framed(merge, other)

    return merge.for_all(differ, merge.order[starts].tolist(), merge.order[seconds].tolist())


def _read_framed(merge: Merge, index: int) -> bytes:
    """Returns the bytes of a record with its TFRecord framing; `index` is its index in the merge."""
    start = int(merge.starts[index])
    return merge.reads[int(merge.block_of[index])](start, start + int(merge.sizes[index]))


@dataclass(frozen=True)
class MergedSplit:
    """Split that is merged from published and new records.

    Attributes:
        split: its name.
        ranges: the ranges of keys that are merged into it.
        lengths: (ranges,) examples that each range keeps.
        num_bytes: framed size of the split in bytes.
        borders: index of the first example of each shard, and the number of all examples.
        counts: differences from the published version.
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
    def _range_starts(self) -> NDArray[np.int64]:
        """Returns the number of examples before each range, followed by their total."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def write_shard(self, shard: int, destination: Destination) -> WrittenShard:
        """Writes a shard and its index, or links or copies those of a published one.

        Writing it again produces the same bytes.

        Raises:
            CorruptRecordError: a record of a source is damaged; it names file, byte and record.
            LostExamplesError: a range keeps another number of examples than planned.
            StorageError: a file cannot be read or written.
        """
        path = destination.path(self.split, shard, self.num_shards)
        if published := self.shared.get(shard):
            return published.linked(path)
        first, stop = self.borders[shard : shard + 2]
        ranges = range(*np.searchsorted(self._range_starts, [first, stop], side="left").tolist())
        ranges = range(ranges.start - (self._range_starts[ranges.start] > first), ranges.stop)
        openers = [Opener() for _ in self.ranges.runs]
        with self.ranges.reading() as for_all, ShardFile(path) as shard_file:
            for number in ranges:
                merge, _ = self.ranges.resolve(number, openers, for_all)
                if len(merge) != self.lengths[number]:
                    raise LostExamplesError(
                        f"split {self.split!r}: expected {self.lengths[number]} examples in a range of keys, got "
                        f"{len(merge)}: a source was changed after this was planned",
                        split=self.split,
                        expected=f"{self.lengths[number]} examples",
                        got=f"{len(merge)}",
                        outcome="nothing was published",
                        advice="Run it again.",
                    )
                range_start = int(self._range_starts[number])
                merge = merge.slice(max(first - range_start, 0), stop - range_start)
                shard_file.add_to_index(merge.sizes[merge.order], merge.ordered_keys())
                for chunk in merge.chunks():
                    shard_file.write(chunk)
        return shard_file.finish(self.split, shard, ordered=destination.ordered)


def merge_split(
    name: str, ranges: KeyRanges, sharding: ShardingOptions, published: Sequence[WrittenShard]
) -> tuple[MergedSplit, dict[bytes, bool]]:
    """Returns the records that are written of a split, and {sort key to delete: whether a published example has it}.

    A new split whose examples are all left out has no shards.

    Args:
        name: name of the split.
        ranges: ranges of its keys, cut at shards if there are any to share.
        sharding: options that decide its shards.
        published: the published shards that may be shared.

    Raises:
        NoExamplesError: a published split would have no examples.
        DuplicateKeyError: a key is repeated, and `on_duplicate` of the ranges does not allow it.
    """
    groups = [range(i, min(i + RANGES_COUNTED, len(ranges))) for i in range(0, len(ranges), RANGES_COUNTED)]
    counts_of_groups = run_tasks(groups, ranges.count, threads=tasks.num_threads())
    range_counts_list = [one for range_counts in counts_of_groups for one in range_counts]
    lengths = np.array([one.num_examples for one in range_counts_list], np.int64)
    if not lengths.sum() and ranges.has_published:
        raise NoExamplesError(
            f"split {name!r}: expected at least one example to stay, got keys to delete of all, or rows of all that "
            "belong to other splits now",
            split=name,
            advice="To remove the split, materialize the other splits, and append to them.",
        )
    num_bytes, counts = sum(one.num_bytes for one in range_counts_list), Counts()
    for one in range_counts_list:
        counts = counts.plus(one.counts)
    keys_to_delete = {
        key: is_published for one in range_counts_list for key, is_published in one.keys_to_delete.items()
    }
    borders, shared_shards = (
        _divide_into_shards(name, ranges, sharding, published, range_counts_list) if lengths.sum() else ([0], {})
    )
    return MergedSplit(name, ranges, lengths, num_bytes, tuple(borders), counts, shared_shards), keys_to_delete


def _divide_into_shards(
    name: str,
    ranges: KeyRanges,
    sharding: ShardingOptions,
    published: Sequence[WrittenShard],
    range_counts: Sequence[_RangeCount],
) -> tuple[list[int], dict[int, WrittenShard]]:
    """Returns the borders of the shards of a split, and {number of a shard: published shard that it shares}.

    The borders are ascending indices in the split, from 0 to the number of examples: [0, 50, 100] for two shards. The
    examples between shared shards are divided evenly. Of shuffled splits all shards are shared, or none.

    Args:
        name: name of the split, for errors.
        ranges: runs of the split, cut into ranges of keys.
        sharding: options that decide the number of shards.
        published: shards of the published split, in order.
        range_counts: counts of each range, in order.
    """
    changes = [bool(one.counts.added or one.counts.replaced or one.counts.deleted) for one in range_counts]
    are_integers = ranges.runs[0].rules[0].split is None and not ranges.runs[0].rules[0].salts
    unchanged: list[tuple[int, int, WrittenShard]] = []  # with the ranges that have records of it
    start = 0
    for shard in published if are_integers or not any(changes) else ():
        first = int(np.searchsorted(ranges.cuts[:, 0], start, side="right")) - 1
        start += shard.num_examples
        stop = int(np.searchsorted(ranges.cuts[:, 0], start))
        if not any(changes[first:stop]):
            unchanged.append((first, stop, shard))
    if unchanged and any(changes[unchanged[-1][1] :]) and unchanged[-1][2].num_bytes < sharding.min_shard_size:
        unchanged.pop()  # otherwise there would be a small shard for each day
    borders, shared_shards, num_done = [0], {}, 0
    for first, stop, unchanged_shard in [*unchanged, (len(ranges), len(ranges), None)]:
        between = range_counts[num_done:first]
        if count := sum(one.num_examples for one in between):
            number = choose_shards(name, count, sum(one.num_bytes for one in between), sharding)
            borders += [borders[-1] + end for end in shard_ends(count, number)]
        if unchanged_shard is not None:
            shared_shards[len(borders) - 1] = replace(unchanged_shard, shard=len(borders) - 1)
            borders.append(borders[-1] + unchanged_shard.num_examples)
        num_done = stop
    return borders, shared_shards
