"""Appending: builds the next version of a dataset by merging its records with new ones; see `merging`."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.advice import names_foreign_arguments
from beam_datasets.arguments import boolean
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    DuplicateKeyError,
    InvalidKeyError,
    NoExamplesError,
    SplitError,
    StorageError,
    VersionError,
    did_you_mean,
)
from beam_datasets.execute.tasks import num_threads, run_tasks
from beam_datasets.features import FeaturesDict, Scalar, Tensor, Text
from beam_datasets.features.features_dict import join
from beam_datasets.features.sequence import Sequence as FeatureSequence
from beam_datasets.features.trees import find_difference
from beam_datasets.materializing.merging import Counts, KeyRanges, MergedSplit, merge_split
from beam_datasets.materializing.moving import duplicate_key_error, find_duplicate_keys, read_stored_keys
from beam_datasets.materializing.plan import check_unchanged, described, target_dir
from beam_datasets.materializing.selection import (
    Built,
    NameOrDir,
    RowKeys,
    SelectedSplit,
    SortedRun,
    Sources,
    named_splits,
    select_splits,
)
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.inputs import INPUTS_FILE, Inputs
from beam_datasets.metadata.keys import Key, key_bytes
from beam_datasets.metadata.lineage import Ascent, KeyRule, Lineage, SplitLineage
from beam_datasets.metadata.split_by import depends_on_key
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import content, disk_commit, phases, run_report, staged_inputs
from beam_datasets.publishing.leftovers import BUILD, find_builds, remove_leftover
from beam_datasets.publishing.owners import IN_PROCESS
from beam_datasets.publishing.progress import Progress, watch
from beam_datasets.publishing.publication import announce, check_free
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.sources.repeated_keys import with_key

NOT_TAKEN = "not taken; --take_changed (take_changed=True) takes them"
"""End of the note of `build_sources` on files that have changed."""
ON_DUPLICATE = ("error", "keep_old", "replace", "skip_identical")
NEXT = "next"
_DATA_FILE = re.compile(r".*\.(csv|tsv|jsonl?|parquet|txt|tfrecord)(\.\w+)?", re.IGNORECASE)
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_BUILDER = "beam_datasets:append"  # part of the digests of published manifests, so it stays


@dataclass(frozen=True, kw_only=True)
class AppendOptions:
    """Options of an append; see the arguments of `append`.

    Raises:
        TypeError, ValueError: an option is invalid.
    """

    split: Any = None
    new_splits: bool = False
    version: VersionOrStr = NEXT
    on_duplicate: str = "error"
    delete: Iterable[Key] = ()
    data_dir: NameOrDir | None = None
    source_data_dir: NameOrDir | None = None
    storage_options: Mapping[str, Any] | None = None
    source_storage_options: Mapping[str, Any] | None = None
    num_shards: int | Mapping[str, int | None] | None = None
    min_shard_size: int | None = None
    max_shard_size: int | None = None
    share_shards: bool = False
    union_features: bool = False

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
            TypeError: a field has another type.
            ValueError: a field has an invalid value, or two fields exclude each other.
        """
        self.sharding  # noqa: B018  # checks the numbers
        for name in ("new_splits", "share_shards", "union_features"):
            boolean(name, getattr(self, name))
        if self.share_shards and self.num_shards is not None:
            raise ValueError("share_shards keeps the shards that are published, so it takes no num_shards.")
        if self.on_duplicate not in ON_DUPLICATE:
            raise ValueError(f"on_duplicate: expected one of {', '.join(ON_DUPLICATE)}, got {self.on_duplicate!r}.")
        delete: Any = self.delete
        if isinstance(delete, (str, bytes)) or not isinstance(delete, Iterable):
            raise TypeError(f"delete: expected a list of keys, got {type(delete).__name__}: {delete!r:.100}")
        object.__setattr__(self, "delete", tuple(delete))

    @cached_property
    def sharding(self) -> ShardingOptions:
        """The options that decide the number and size of the shards."""
        return ShardingOptions.of(
            num_shards=self.num_shards, min_shard_size=self.min_shard_size, max_shard_size=self.max_shard_size
        )

    def open_parent(self, source: NameOrDir) -> tuple[ReadOnlyBuilder, DatasetInfo]:
        """Returns the published version to append to, and the info of the next version.

        Raises:
            DatasetNotFoundError: the published version does not exist.
            VersionError: the next version is not a new MAJOR version.
            AlreadyPublishedError: the next version is already published.
            BeamDatasetsError: the directory of the published version is not named after its version.
            TypeError: `source` is neither a name nor a directory.
        """
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"source: expected a dataset's name or directory, got {source!r:.100}")
        sources = Sources([target_dir(catalog.root_dir(self.data_dir), self.storage_options)], {}, self.storage_options)
        parent = sources.opened[sources.open(catalog.latest(source))]
        if storage.basename(parent.dataset_dir) != str(parent.version):
            raise BeamDatasetsError(
                f"{parent.dataset_dir}: expected a directory called {parent.version}, as the version is; the next "
                "version is put beside it. Materialize the dataset first."
            )
        info = _next_info(parent, self.version)
        if catalog.is_published(info.data_dir):
            raise AlreadyPublishedError(
                f"{info.display_name} is already published in {info.data_dir}: expected a number that is not, for "
                f"what is appended to {parent.version}. If another run published it meanwhile, run this again; "
                "otherwise append to the highest version, or give a higher number."
            )
        check_free(info.data_dir, info.display_name)
        return parent, info

    def sources(self, new: NameOrDir | ReadOnlyBuilder, parent_dir: str) -> Sources:
        """Opens a dataset to append to the version in `parent_dir`; returns its sources, with this dataset first.

        Raises:
            TypeError: `new` is neither a dataset's name or directory nor a builder.
        """
        roots = [self.data_dir, None] if self.source_data_dir is None else [self.source_data_dir]
        sources = Sources(roots, {}, self.source_storage_options, parent_dir, names_first=True)
        hint = "Give a bd.DatasetBuilder that yields the new examples, or the name of a published dataset."
        if isinstance(new, str) and _DATA_FILE.fullmatch(new) and not storage.is_dir(new):
            raise TypeError(
                f"new: expected a published dataset or a builder, got a file of data: {new!r}. Give the builder of its "
                f"format, as in `from beam_datasets.files.csv import Csv` and Csv(name='NAME', pattern={new!r})."
            )
        if isinstance(new, ReadOnlyBuilder):
            sources.opened.append(new)
        elif not isinstance(new, (str, os.PathLike)):
            raise TypeError(
                f"new: expected a dataset's name or directory, a builder, or a list of these, got "
                f"{type(new).__name__}: {new!r:.100}. {hint}"
            )
        else:
            sources.open(new)
        return sources


@dataclass(frozen=True)
class AppendPlan:
    """Plan of the next version of a dataset.

    Attributes:
        info: info of the next version, without splits.
        parent_dir: directory of the published version.
        splits: the merged splits to write.
        sharding: the sharding options.
        lineage: the source datasets of each split, and the numbers of changed examples.
        libraries: libraries, with versions, that affect the bytes of the examples.
        deletions: (key to delete, whether a published example has it); None if no new example has it, either.
        moved: (old split, new split) -> number of examples that move, because the new row with the same key is in the
            new split.
        sources: the directories of all datasets that are read, in the order of the lineage.
        appended: display names of the appended datasets.
        inputs: the input files of the next version, including those of the published one; None if unknown.
        requests: none, because this process counts what it reads when it publishes.
    """

    info: DatasetInfo
    parent_dir: str
    splits: tuple[MergedSplit, ...]
    sharding: ShardingOptions
    lineage: Lineage
    libraries: tuple[str, ...]
    deletions: tuple[tuple[Key, bool | None], ...]
    moved: Mapping[tuple[str, str], int]
    sources: tuple[str, ...]
    appended: tuple[str, ...]
    inputs: Inputs | None
    requests: storage.Requests = field(default=storage.Requests())

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
    source: NameOrDir, new: Sequence[NameOrDir | ReadOnlyBuilder] = (), options: AppendOptions | None = None
) -> AppendPlan:
    """Plans the next version.

    Reads the indexes of all sources, and, if duplicates are compared, the records with duplicate keys.

    Args:
        source: see `append`.
        new: published datasets, and datasets built by `build_sources`.
        options: see `append`.

    Raises:
        DuplicateKeyError: keys are duplicated, and `on_duplicate` does not allow it.
        VersionError: the version is too low for the changes.
        AlreadyPublishedError: the version is already published.
        BeamDatasetsError: the next version cannot be built for any other reason.
        TypeError: keys to delete are of another type than those of the dataset.
    """
    options = options or AppendOptions()
    parent, info = options.open_parent(source)
    datasets, merged = _select_all(parent, [options.sources(one, parent.dataset_dir) for one in new], options.split)
    info = _join_features(info, datasets, union_features=options.union_features)
    options.sharding.check_splits(list(merged))
    published_splits = parent.info.splits
    wanted = {} if options.split is None else named_splits(options.split, parent)  # also if nothing is new
    _check_known(() if options.new_splits else {**merged, **wanted}, parent.info)
    rules = {name: _rules(name, parts, name in published_splits) for name, parts in merged.items()}
    runs = {name: [run for split in splits for run in split.runs] for name, splits in merged.items()}
    to_delete = {name: _sort_keys(options.delete, split_rules) for name, split_rules in rules.items()}
    skipped_keys = {name: {key: range(len(runs[name])) for _, key in keys} for name, keys in to_delete.items()}
    rows = _row_keys(datasets, runs)
    num_moved = _leave_out_moved(rows, runs, skipped_keys, options.on_duplicate)
    splits: list[MergedSplit] = []
    was_published: dict[int, bool] = {}  # by the number of a key to delete
    for name in merged:
        published = _published_shards(parent, name) if options.share_shards and name in published_splits else []
        is_published, skipped, at_shards = name in published_splits, skipped_keys[name], bool(published)
        ranges = KeyRanges.of(runs[name], is_published, options.on_duplicate, skipped, cut_at_shards=at_shards)
        merged_split, present = merge_split(name, ranges, options.sharding, published)
        if merged_split.num_shards:
            splits.append(merged_split)
        was_published |= {
            i: was_published.get(i, False) or present[key] for i, key in to_delete[name] if key in present
        }
    return AppendPlan(
        info,
        parent.dataset_dir,
        tuple(splits),
        options.sharding,
        _make_lineage(datasets, merged, {merged_split.split: merged_split.counts for merged_split in splits}),
        tuple(sorted({name for one in datasets if one.manifest for name in one.manifest.options.get("libraries", ())})),
        tuple((key, was_published.get(i)) for i, key in enumerate(options.delete)),
        num_moved,
        tuple(one.dataset_dir for one in datasets),
        tuple(map(_display_name, datasets[1:])),
        _inputs(_fully_read(datasets, merged), datasets, info.features),
    )


def _sort_keys(keys: Iterable[Key], rules: Iterable[KeyRule]) -> list[tuple[int, bytes]]:
    """Returns (index in `keys`, sort key) for each key and each rule; a sort key has 16 bytes.

    For keys a, b and rules r, s the indices are 0, 0, 1, 1.
    """
    return [
        (number, rule.sort_key(_as_key(key, rule.split is None))) for number, key in enumerate(keys) for rule in rules
    ]


def _check_known(names: Iterable[str], info: DatasetInfo) -> None:
    """Checks that a dataset has all splits of these names.

    Raises:
        SplitError: a split is missing.
    """
    for name in names:
        if name not in info.splits:
            raise SplitError(
                f"{info.display_name}: expected a split that it has ({', '.join(info.splits)}), got {name!r}."
                f"{did_you_mean(name, info.splits)} A new split needs --new_splits (new_splits=True)."
            )


def _select_all(
    parent: ReadOnlyBuilder, appended: Iterable[Sources], split: Any
) -> tuple[list[ReadOnlyBuilder], dict[str, list[SelectedSplit]]]:
    """Returns all datasets, the published one first, and the selected parts of them for each split.

    To datasets built for this append, it adds the published splits that they lack, as empty splits.

    Args:
        parent: the published version.
        appended: the sources of each dataset that is appended.
        split: option `split` of `append`; None for all splits.

    Returns:
        (datasets, {split: parts of the datasets, the published one first}).
    """
    published = select_splits(named_splits(None, parent), Sources([], opened=[parent]))
    datasets, merged = [parent], {selected.name: [selected] for selected in published}
    for sources in appended:
        first = sources.opened[0]
        if isinstance(first, Built):  # a published split may have no new rows
            built_splits = first.info.splits
            empty = [SplitInfo(name, [], 0) for name in parent.info.splits if name not in built_splits]
            splits = SplitDict([*built_splits.values(), *empty], dataset_name=first.built_from)
            first.info = first.info.replace(splits=splits)
        for selected in select_splits(named_splits(split, first), sources):
            if selected.runs:
                merged.setdefault(selected.name, []).append(_shift_dataset_numbers(selected, len(datasets)))
        datasets += sources.opened
    return datasets, merged


def _row_keys(datasets: Sequence[ReadOnlyBuilder], runs: Mapping[str, Sequence[SortedRun]]) -> dict[int, RowKeys]:
    """Returns dataset number -> keys of its rows, for new datasets whose keys may exist in other splits.

    Raises:
        BeamDatasetsError: a dataset was split with other options than the published one, or its keys are unknown.
    """
    published, row_keys = staged_inputs.read_inputs(datasets[0].dataset_dir), {}
    for number, dataset in enumerate(datasets[1:], 1):
        if isinstance(dataset, Built) and dataset.keys is not None:
            row_keys[number] = dataset.keys
        elif published and published.splits:
            theirs = staged_inputs.read_inputs(dataset.dataset_dir)
            if theirs and theirs.splits is not None:
                published.check_options(theirs)
            if theirs is None or theirs.splits is None or not depends_on_key(published.splits):
                column = (published.key or "").removeprefix("--key ") or None
                row_keys[number] = read_stored_keys(dataset, number, runs, column, published.splits)
    return row_keys


def _leave_out_moved(
    rows: Mapping[int, RowKeys],
    runs: Mapping[str, Sequence[SortedRun]],
    skipped_keys: Mapping[str, dict[bytes, range]],
    on_duplicate: str,
) -> Counter[tuple[str, str]]:
    """Resolves keys that are in two splits: leaves out the new example, or all earlier ones in the other split.

    Args:
        rows: see `_row_keys`.
        runs: split -> the runs that are merged into it.
        skipped_keys: split -> sort key -> indices of the runs in which this key is skipped; updated in place.
        on_duplicate: see `append`.

    Returns:
        (old split, new split) -> number of published examples that are replaced by an example in the new split.

    Raises:
        DuplicateKeyError: a key is in two splits, and `on_duplicate` does not allow it.
    """
    moves: dict[bytes, tuple[bytes, str, str]] = {}  # sort key, first and last split; several datasets may move one
    for number, keys in sorted(rows.items()):
        num_runs_before = {name: sum(run.dataset < number for run in split_runs) for name, split_runs in runs.items()}
        for duplicate in find_duplicate_keys(keys, number, runs):
            if duplicate.other_run_number in skipped_keys[duplicate.other_split].get(duplicate.other_sort_key, ()):
                continue
            other = runs[duplicate.other_split][duplicate.other_run_number]
            if on_duplicate in ("error", "skip_identical") or other.dataset == number:
                raise duplicate_key_error(duplicate, other)
            if on_duplicate == "replace":
                skipped_keys[duplicate.other_split][duplicate.other_sort_key] = range(
                    num_runs_before[duplicate.other_split]
                )
                key = key_bytes(duplicate.key)
                if other.dataset == 0 or key in moves:
                    sort_key, first, _ = moves.get(key, (duplicate.other_sort_key, duplicate.other_split, ""))
                    moves[key] = sort_key, first, duplicate.split
            else:
                skipped_keys[duplicate.split].setdefault(
                    duplicate.sort_key, range(num_runs_before[duplicate.split], len(runs[duplicate.split]))
                )
    for sort_key, first, last in moves.values():
        if first == last:  # the published one is replaced, or stays if it is equal
            skipped_keys[first][sort_key] = range(1, skipped_keys[first][sort_key].stop)
    return Counter((first, last) for _, first, last in moves.values() if first != last)


def _join_features(info: DatasetInfo, datasets: Sequence[ReadOnlyBuilder], *, union_features: bool) -> DatasetInfo:
    """Returns the info of the next version, with the features of all datasets.

    Args:
        info: of the next version, with the features of `datasets[0]`.
        datasets: the published version, then the datasets that are appended.
        union_features: whether features that some of them lack become optional.

    Raises:
        BeamDatasetsError: the features differ, and either `union_features` is False or no union exists.
    """
    for other in datasets[1:]:
        if not (problem := find_difference(info.features, other.info.features)):
            continue
        way = ", or let those that one of them lacks be missing: --union_features (union_features=True)"
        try:
            joined_features = union(info.features, other.info.features)
        except BeamDatasetsError as error:
            joined_features, problem, way = None, str(error).rstrip("."), ""
        if joined_features is None or not union_features:
            raise BeamDatasetsError(
                f"{_display_name(other)} cannot be appended to {datasets[0].info.display_name}: {problem}. What is "
                f"appended needs the same features; make it with those of the published version{way}."
            )
        info = info.replace(features=joined_features)
    return info


def _display_name(dataset: ReadOnlyBuilder) -> str:
    """Returns the name of an appended dataset for messages: its source, if it was built for this append."""
    return dataset.built_from if isinstance(dataset, Built) else dataset.info.display_name


def _fully_read(
    datasets: Sequence[ReadOnlyBuilder], merged: Mapping[str, Sequence[SelectedSplit]]
) -> list[ReadOnlyBuilder]:
    """Returns the datasets whose examples are all read, so that their input files can be recorded."""
    num_read: Counter[int] = Counter()
    ends: Counter[tuple[int, str]] = Counter()
    reads = [read for parts in merged.values() for selected_split in parts for read in selected_split.reads]
    for read in sorted(reads, key=lambda read: read.start):  # two splits may read the same examples
        source_split = read.dataset, read.split
        num_read[read.dataset] += max(read.stop - max(read.start, ends[source_split]), 0)
        ends[source_split] = max(read.stop, ends[source_split])
    totals = [sum(split.num_examples for split in one.info.splits.values()) for one in datasets]
    return [one for number, one in enumerate(datasets) if num_read[number] == totals[number]]


def _inputs(
    read_datasets: Iterable[ReadOnlyBuilder], datasets: Sequence[ReadOnlyBuilder], features: Any
) -> Inputs | None:
    """Returns the input files of `read_datasets`, with the columns of all datasets; None if no files are known.

    Args:
        read_datasets: the datasets whose files are recorded; see `_fully_read`.
        datasets: all datasets. Columns that any of them lacks become optional.
        features: the features of the next version.
    """
    inputs_by_dir = {each.dataset_dir: staged_inputs.read_inputs(each.dataset_dir) for each in datasets}
    known_inputs = [inputs for inputs in inputs_by_dir.values() if inputs]
    files = [inputs for each in read_datasets if (inputs := inputs_by_dir[each.dataset_dir])]
    types = {name: spec for each in known_inputs for name, spec in each.columns.items()}
    lacking = {
        name
        for name in types
        if (name in features and getattr(features[name], "optional", False))
        or any(name not in each.info.features for each in datasets)
        or any(each.columns.get(name, "").endswith("?") for each in known_inputs)
    }
    columns = {name: f"{spec.rstrip('?')}?" if name in lacking else spec for name, spec in types.items()}
    return replace(reduce(Inputs.with_files, files), columns=columns) if files else None


def _shift_dataset_numbers(split: SelectedSplit, base: int) -> SelectedSplit:
    """Returns the split with `base` added to the dataset numbers of its reads and runs."""
    reads = tuple(replace(read, dataset=base + read.dataset) for read in split.reads)
    return replace(split, reads=reads, runs=tuple(replace(run, dataset=base + run.dataset) for run in split.runs))


def _published_shards(parent: ReadOnlyBuilder, split: str) -> list[WrittenShard]:
    """Returns the shards of a split, with their paths; [] if one is empty or there is no manifest: none is shared."""
    if parent.manifest is None:
        return []
    names = parent.info.splits[split].shard_names
    shards = content.kept_shards(parent.name, split, parent.manifest.splits[split])
    shards_with_paths = [
        replace(shard, path=storage.join(parent.dataset_dir, name)) for shard, name in zip(shards, names)
    ]
    return shards_with_paths if all(shard.num_examples for shard in shards_with_paths) else []


def _rules(name: str, parts: Sequence[SelectedSplit], has_published: bool) -> Any:
    """Returns the key rules of a split.

    Args:
        name: name of the split.
        parts: selected parts of the split, in the order of the datasets.
        has_published: whether the first part is that of the published version.

    Raises:
        BeamDatasetsError: its runs cannot be merged by key, because keys are missing or their rules or order differ.
    """
    runs = [run for selected_split in parts for run in selected_split.runs]
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
            f"split {name!r}: expected keys made by one rule, got {_format_rules(runs[0])}, by which repeated keys "
            "are not found. Append to what it was made of, and materialize that again."
        )
    for run in runs[1:]:
        if run.rules != runs[0].rules:
            raise BeamDatasetsError(
                f"split {name!r}: expected keys made by one rule, got {_format_rules(runs[0])} and "
                f"{_format_rules(run)}. Append examples that were generated for the split {runs[0].split!r}, in the "
                "same order."
            )
    return runs[0].rules


def _format_rules(run: SortedRun) -> str:
    """Returns the key rules of a run as text for errors, followed by its dataset and split."""
    rules = [
        ("integer keys" if rule.split is None else f"hashes of {rule.split!r}")
        + "".join(f", shuffled by {salt!r}" for salt in rule.salts)
        for rule in run.rules
    ]
    return f"{' and '.join(rules)} ({run.name}:{run.split})"


def _as_key(key: Key, is_integer: bool) -> Key:
    """Returns a key to delete, converted from text to an integer if the dataset has integer keys.

    Raises:
        InvalidKeyError: the text is not an integer.
    """
    if not (is_integer and isinstance(key, str)):
        return key
    if not _INTEGER.fullmatch(key):  # int() also reads 1_000, 007 and digits of other scripts
        raise InvalidKeyError(f"key {key!r:.60} to delete: expected an integer, as all keys of this dataset are.")
    return int(key)


def _next_info(parent: ReadOnlyBuilder, requested: VersionOrStr) -> DatasetInfo:
    """Returns the published version's info, with the version and directory of the next one.

    Raises:
        VersionError: the wanted version is not a new MAJOR version.
    """
    lowest = Version(f"{parent.version.major + 1}.0.0")
    version = lowest if requested == NEXT else Version(requested)
    if version < lowest:
        raise VersionError(
            f"expected version {lowest} or higher after {parent.version}, because slices get other examples (a MAJOR "
            f"change), got {version}. Leave the version out, or give 'next'."
        )
    directory = storage.join(storage.dirname(parent.dataset_dir), str(version))
    return parent.info.replace(version=version, data_dir=directory)


def _make_lineage(
    datasets: Sequence[ReadOnlyBuilder], merged: Mapping[str, Sequence[SelectedSplit]], counts: Mapping[str, Counts]
) -> Lineage:
    """Returns the lineage of the next version: the sources of each split, and the numbers of changed examples.

    Args:
        datasets: the datasets, the published version first.
        merged: split -> its parts, in the order of the datasets.
        counts: split -> its numbers of added, replaced, deleted and skipped examples.
    """
    sources = [
        replace(described(one), name=one.builder_name, version=None) if isinstance(one, Built) else described(one)
        for one in datasets
    ]
    if datasets[0].lineage is not None and datasets[0].lineage.appended is not None:
        sources[0] = replace(
            sources[0], source=None
        )  # the source's manifest has it; otherwise appends would nest deeply
    splits = {}
    for name, parts in ((name, merged[name]) for name in counts):
        expression = "+".join(selected_split.expression for selected_split in parts)
        reads = tuple(read for selected_split in parts for read in selected_split.reads)
        splits[name] = SplitLineage(expression, reads, (Ascent(0, parts[0].runs[0].rules),))
    return Lineage(tuple(sources), splits, appended={name: count._asdict() for name, count in counts.items()})


def run_append(plan: AppendPlan, progress: Callable[[Progress], None] | None = None) -> str:
    """Writes and publishes the next version in this process, and returns its directory.

    Raises:
        AlreadyPublishedError: the version is already published, for example by a concurrent append.
        CorruptRecordError: a record of a source is damaged.
        BeamDatasetsError: a source has changed since the plan, or nothing was published for any other reason.
    """
    try:
        return _publish(plan, progress)
    except AlreadyPublishedError as error:
        advice = "Another run published it meanwhile, so run this again, to append to that version."
        raise AlreadyPublishedError(error.problem, advice=advice) from None


def _publish(plan: AppendPlan, progress: Callable[[Progress], None] | None) -> str:
    """Writes all shards of the next version and publishes it; returns its directory."""
    publication = announce(
        plan.info,
        plan.dataset_dir,
        sharding=plan.sharding,
        runner=IN_PROCESS,
        builder=_BUILDER,
        source=plan.lineage.to_json(),
    )
    appended_dirs = [one for one in plan.sources if one != plan.parent_dir]
    publication = replace(publication, left_out=[each for one in appended_dirs for each in run_report.left_out_of(one)])
    destination = Destination(publication.staging_dir, publication.info.name, ordered=plan.info.disable_shuffling)
    watching = watch(publication.staging_dir, None, progress)
    with phases.staging(publication), watching:
        tasks = [(split, shard) for split in plan.splits for shard in range(split.num_shards)]
        publication = staged_inputs.stage_inputs(publication, plan.inputs)
        shards = run_tasks(tasks, lambda task: task[0].write_shard(task[1], destination), threads=num_threads())
        check_unchanged(plan.sources, plan.lineage)
        phases.publish(publication, plan, shards)
    return publication.target


@names_foreign_arguments("append")
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
    compare_checksums: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> str:
    """Publishes the next version of a dataset: a published one with new examples, in the order of generating it anew.

    Records are merged by their recorded keys, without decoding them. The shards and their indexes are, byte by byte,
    those of one generation of all examples with the same number of shards. If nothing changes, nothing is published.

    Args:
        source: the published dataset: a name such as 'digits' or 'digits/small:1.*.*', or a version's directory. A name
            without a version means the highest one, whatever version a builder of this name would build.
        new: the new data: a published dataset, by name or directory, a builder, which is built in a temporary
            directory, or a list of these. An example replaces or is skipped by the order of the list.
        split: split of the new data, as in `beam_datasets.materialize`; None for all splits, each to the one of its
            name.
        new_splits: whether splits that the published version lacks are added; otherwise they are an error.
        version: 'next', the lowest that the change allows: it is the next MAJOR, because slices get other examples; or
            a version that is not lower.
        on_duplicate: handling of a key that exists: 'error'; 'keep_old' keeps the published example; 'replace' takes
            the new one; 'skip_identical' keeps it if the records are equal, else it is an error. Of rows of files that
            are split by a value, such as a group, also a key of another split exists, with a record that differs.
        delete: keys whose examples are left out, of the published and of the new ones.
        data_dir: root of the datasets, for names; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets.
            The next version is put beside the published one.
        source_data_dir: root for names of what is appended; None for `data_dir`, and then the one without.
        storage_options: options of the store of `data_dir`; see `beam_datasets.materialize`.
        source_storage_options: options of the stores of the appended data; see there.
        num_shards: number of shards of each split: one number for all or {split: number}; None chooses by the size
            rule.
        min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
        max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
        share_shards: published shards in whose range of keys nothing changes are hard links to them, or copies by the
            store, instead of written: all of a split without changes, and of one with `disable_shuffling` those
            before what is appended. The other records make shards of their own.
        union_features: whether features that one of the datasets lacks may be missing in the next version; otherwise
            they are an error. Class labels and images cannot be missing.
        take_changed: for builders of files, which take only files from which the published version was not built:
            whether files that have changed since are taken, too. A warning names them. A file has changed if its size
            has, or if its time and its checksum have.
        compare_checksums: whether the checksums of all files are compared, also of those with the same size and time.
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
    values = {name: value for name, value in locals().items() if name in AppendOptions.__dataclass_fields__}
    options, listed = AppendOptions(**values), list(new) if isinstance(new, (list, tuple)) else [new]
    comparison = {"take_changed": take_changed, "compare_checksums": compare_checksums}
    with build_sources(source, listed, options, **comparison) as (source, sources, notes):
        for note in notes:
            warnings.warn(note, stacklevel=2)
        plan = plan_append(source, sources, options)
        return run_append(plan, progress) if plan.has_changes else plan.parent_dir


@contextlib.contextmanager
def build_sources(
    source: NameOrDir,
    new: Sequence[Any],
    options: AppendOptions,
    *,
    take_changed: bool = False,
    compare_checksums: bool = False,
) -> Iterator[tuple[NameOrDir, list[Any], list[str]]]:
    """Builds the builders in `new`; yields (dataset to append to, datasets to append, notes for the user).

    Builders are built in a directory next to the published version, or in the temporary directory of this machine if
    that version is in an object store; leftovers of killed processes are removed there first. The built datasets are
    deleted at exit.
    Builders of files read only files that are not in the published version; without such files, they are skipped.
    The dataset to append to is then a fixed version, even if another process publishes a higher one concurrently.

    Args:
        source: the dataset to append to.
        new: published datasets and builders.
        options: see `append`.
        take_changed: see `append`.
        compare_checksums: see `append`.

    Raises:
        AlreadyPublishedError: the next version is already published.
        DuplicateKeyError: a builder repeats a key; or the body raised it, and the locations of the rows are added.
    """
    take_changed = boolean("take_changed", take_changed)
    compare_checksums = boolean("compare_checksums", compare_checksums)
    if not any(map(_is_builder, new)):
        yield source, list(new), []
        return
    parent, _ = options.open_parent(source)
    build_root = parent.dataset_dir
    if storage.is_remote(build_root):
        build_root = storage.join(tempfile.gettempdir(), BUILD)
        for build in find_builds():
            with contextlib.suppress(StorageError):  # another process removes it, too, or it is another user's
                remove_leftover(build, tempfile.gettempdir())
    new_sources: list[Any] = []
    built: list[Any] = []
    notes: list[str] = []
    with disk_commit.beside(build_root) as folder:
        for number, one in enumerate(new):
            if _is_builder(one):
                builder = one.elsewhere(storage.join(folder, str(number)))
                builder.is_appended = True
                if hasattr(builder, "only_new"):
                    comparing = {"compare_checksums": compare_checksums, "may_lack": options.union_features}
                    notes += _exclude_known_files(builder, parent, take_changed=take_changed, **comparing)
                if getattr(builder, "has_files", True):
                    new_sources += _build_all(builder, options.on_duplicate)
                    built.append(builder)
            else:
                new_sources.append(one)
        try:
            yield parent.dataset_dir, new_sources, notes
        except DuplicateKeyError as error:
            locations = [location for one in built for location in getattr(one, "find_rows", lambda _: ())(error)]
            raise _add_details(error, built, *(f"the new one is in {location}" for location in locations)) from None


def _is_builder(new: Any) -> bool:
    """Returns whether `new` is a `DatasetBuilder`, which must be built first; False for names and directories."""
    return hasattr(new, "elsewhere") and not isinstance(new, type)


def _add_details(error: DuplicateKeyError, builders: Iterable[Any], *lines: str) -> DuplicateKeyError:
    """Returns the error with its original key, if a builder knows it, and more lines added to the message."""
    error = next((error_with_key for one in builders if (error_with_key := with_key(error, one)) is not error), error)
    return error.with_message("\n  ".join([f"{error}", *lines]))


def _exclude_known_files(builder: Any, parent: ReadOnlyBuilder, *, take_changed: bool, **comparing: bool) -> list[str]:
    """Excludes the files that are in the published version from a builder of files; returns notes for the user.

    Args:
        builder: the builder. Changed.
        parent: the published version.
        take_changed: whether files that have changed since are read.
        **comparing: `may_lack`, and other keyword arguments of the builder's `only_new`.
    """
    published_inputs, notes = staged_inputs.read_inputs(parent.dataset_dir), []
    if published_inputs is None:
        notes.append(f"{parent.dataset_dir}: no readable {INPUTS_FILE} names its files: all are taken")
        published_inputs = Inputs()
    if not comparing["may_lack"]:  # a string column that some files lacked is still a Text, which cannot be None
        features: Any = parent.info.features
        texts = {name for name in published_inputs.columns if name in features and type(features[name]) is Text}
        published_inputs = replace(
            published_inputs, columns={**published_inputs.columns, **dict.fromkeys(texts, "string")}
        )
    changed = builder.only_new(published_inputs, take_changed=take_changed, **comparing)
    if builder.published_key:
        notes.append(f"the key of the new rows is that of {parent.version}: {builder.published_key}")
    if builder.published_splits:
        notes.append(f"new rows are split as those of {parent.version}: {builder.published_splits}")
    if changed:
        way = "taken" if take_changed else NOT_TAKEN
        notes.append(f"files that have changed since {parent.version} was built: {', '.join(changed)}: {way}")
    return notes


def _build_all(builder: Any, on_duplicate: str) -> list[Built]:
    """Builds a builder; returns the datasets. If files repeat keys, each file becomes a dataset of its own.

    Raises:
        DuplicateKeyError: a key is repeated, and `on_duplicate` is 'error' or the builder does not read files.
    """
    try:
        return _build(builder)
    except DuplicateKeyError as error:
        if not hasattr(builder, "one_by_one"):
            raise _add_details(error, [builder]) from None
        if on_duplicate == "error":
            raise error.with_message(
                f"{error}\n  If the rows are in different files, --on_duplicate keep_old, replace or skip_identical "
                "appends the files one after the other."
            ) from None
    return [built for each in builder.one_by_one() for built in _build(each)]


def _build(builder: Any) -> list[Built]:
    """Builds a builder; returns a list of its dataset, empty if its files have no rows.

    Builders of files record the keys of rows; keys of other builders are read from the built dataset.

    Raises:
        DuplicateKeyError: a key is repeated, or is in two splits because the builder splits rows by another column.
        NoExamplesError: a builder that must have examples has none.
    """
    try:
        directory = builder.build(skip_empty_splits=True)
    except NoExamplesError:
        if not getattr(builder, "may_be_empty", False):
            raise
        return []
    if not hasattr(builder, "recorded_keys"):
        return [Built(directory, builder)]
    keys: RowKeys | None = builder.recorded_keys
    dataset = Built(directory, builder, keys or (lambda: ()))
    if keys is not None:
        selected = select_splits(named_splits(None, dataset), Sources([], opened=[dataset]))
        runs = {split.name: split.runs for split in selected}
        for duplicate in find_duplicate_keys(keys, 0, runs):
            raise duplicate_key_error(
                duplicate, runs[duplicate.other_split][duplicate.other_run_number], builder.places_of(duplicate.key)
            )
    return [dataset]


# ------------------------------------------------------------------------------------------------------------- features


def union(one: Any, other: Any, name: str = "") -> Any:
    """Returns features that can store the examples of both: features that one of them lacks become optional.

    Args:
        one: a connector, such as the `FeaturesDict` of a dataset.
        other: the connector of the other dataset.
        name: the name of both, with slashes, for errors; '' for the top.

    Raises:
        BeamDatasetsError: the features differ in another way, or a feature that one lacks cannot be optional.
    """
    if type(one) is type(other) is FeaturesDict:
        joined_features = {
            child: union(one[child], other[child], join(name, child))
            if child in one and child in other
            else _optional((one if child in one else other)[child], join(name, child))
            for child in {**one, **other}
        }
        return FeaturesDict(joined_features, doc=one.doc)
    if not find_difference(one, other):
        return one
    if isinstance(one, Tensor) and isinstance(other, Tensor) and (one.shape, one.dtype) == (other.shape, other.dtype):
        loose = [_optional(each, name) for each in (one, other)]
        kinds = [each for each in loose if type(each) is not Text] or loose
        if not find_difference(kinds[0], kinds[-1]):
            return kinds[0]
    raise BeamDatasetsError(f"{find_difference(one, other, name)}. No feature can store both.")


def _optional(feature: Any, name: str) -> Any:
    """Returns the feature made optional; sequences and `Text` are unchanged (missing means empty).

    Raises:
        BeamDatasetsError: the feature cannot be optional.
    """
    if type(feature) is FeaturesDict:
        return FeaturesDict({child: _optional(feature[child], join(name, child)) for child in feature}, doc=feature.doc)
    if type(feature) in (FeatureSequence, Text):
        return feature
    if type(feature) in (Scalar, Tensor):
        properties = {
            name: getattr(feature, name) for name in ("encoding", "doc", "minimum", "maximum", "allow_rounding")
        }
        scalar = Scalar(feature.dtype, optional=True, **properties)
        return (
            scalar
            if type(feature) is Scalar
            else Tensor(shape=feature.shape, dtype=feature.dtype, optional=True, **properties)
        )
    raise BeamDatasetsError(
        f"feature {name!r}, {feature!r}, is in one dataset only, and cannot be missing. Leave it out, or append "
        "examples that have it."
    )
