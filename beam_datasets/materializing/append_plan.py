"""Plan of an append: all sources, their features, keys and order, and the shards of the next version; see `merging`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_datasets import storage
from beam_datasets.errors import SplitError, did_you_mean
from beam_datasets.materializing.append_lineage import join_inputs, make_lineage
from beam_datasets.materializing.append_options import AppendOptions
from beam_datasets.materializing.feature_union import join_features
from beam_datasets.materializing.key_rules import common_rules, sort_keys_to_delete
from beam_datasets.materializing.merging import KeyRanges, MergedSplit, merge_split
from beam_datasets.materializing.moved_keys import leave_out_moved, row_keys
from beam_datasets.materializing.selection import (
    Built,
    NameOrDir,
    SelectedSplit,
    Sources,
    display_name,
    named_splits,
    select_splits,
)
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.inputs import Inputs
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import content, run_report
from beam_datasets.publishing.shard_file import WrittenShard
from beam_datasets.reading.opening import ReadOnlyBuilder


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
        requests: always zero, because this process counts its reads when it publishes.
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
    def appended_dirs(self) -> list[str]:
        """The directories of the appended datasets."""
        return [directory for directory in self.sources if directory != self.parent_dir]

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """Reasons for which the builds of the appended datasets left out rows or examples, by their run.json."""
        return run_report.merge_left_out(map(run_report.left_out_of, self.appended_dirs))

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
    info = join_features(info, datasets, union_features=options.union_features)
    options.sharding.check_splits(list(merged))
    published_splits = parent.info.splits
    option_splits = {} if options.split is None else named_splits(options.split, parent)  # also if nothing is new
    _check_known(() if options.new_splits else {**merged, **option_splits}, parent.info)
    rules = {name: common_rules(name, parts, name in published_splits) for name, parts in merged.items()}
    runs = {name: [run for split in splits for run in split.runs] for name, splits in merged.items()}
    to_delete = {name: sort_keys_to_delete(options.delete, split_rules) for name, split_rules in rules.items()}
    skipped_keys = {name: {key: range(len(runs[name])) for _, key in keys} for name, keys in to_delete.items()}
    rows = row_keys(datasets, runs)
    num_moved = leave_out_moved(rows, runs, skipped_keys, options.on_duplicate)
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
    deletions = tuple((key, was_published.get(i)) for i, key in enumerate(options.delete))
    return AppendPlan(
        info,
        parent.dataset_dir,
        tuple(splits),
        options.sharding,
        make_lineage(datasets, merged, {merged_split.split: merged_split.counts for merged_split in splits}),
        tuple(sorted({name for one in datasets if one.manifest for name in one.manifest.options.get("libraries", ())})),
        deletions,
        num_moved,
        tuple(one.dataset_dir for one in datasets),
        tuple(map(display_name, datasets[1:])),
        join_inputs(datasets, merged, info.features, deletions),
    )


def _check_known(names: Iterable[str], info: DatasetInfo) -> None:
    """Checks that a dataset has all splits of these names.

    Raises:
        SplitError: a split is missing.
    """
    for name in names:
        if name not in info.splits:
            raise SplitError(
                expected=f"a split of {info.display_name} ({', '.join(info.splits)})",
                got=repr(name),
                advice=f"{did_you_mean(name, info.splits)} A new split needs --new_splits (new_splits=True).".strip(),
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


def _shift_dataset_numbers(split: SelectedSplit, base: int) -> SelectedSplit:
    """Returns the split with `base` added to the dataset numbers of its reads and runs."""
    reads = tuple(replace(read, dataset=base + read.dataset) for read in split.reads)
    return replace(split, reads=reads, runs=tuple(replace(run, dataset=base + run.dataset) for run in split.runs))


def _published_shards(parent: ReadOnlyBuilder, split: str) -> list[WrittenShard]:
    """Returns the shards of a split, with their paths; [] if they cannot be shared, because one is empty or there is
    no manifest.
    """
    if parent.manifest is None:
        return []
    names = parent.info.splits[split].shard_names
    shards = content.kept_shards(parent.name, split, parent.manifest.splits[split])
    shards_with_paths = [
        replace(shard, path=storage.join(parent.dataset_dir, name)) for shard, name in zip(shards, names)
    ]
    return shards_with_paths if all(shard.num_examples for shard in shards_with_paths) else []
