"""Planning of a materialized dataset: checks the whole request by metadata alone; see `run`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.arguments import shown
from beam_datasets.errors import BeamDatasetsError, DuplicateKeyError, StoreOptionsError
from beam_datasets.materializing.copying import CopyPlan, plan_copy
from beam_datasets.materializing.filters import Filter
from beam_datasets.materializing.kept_features import (
    check_alike,
    dropped_names,
    kept_features,
    names_of,
    record_names,
)
from beam_datasets.materializing.records import RANGE_BYTES, Opener, RecordRange, RecordRanges, Transform, salt_of
from beam_datasets.materializing.selection import (
    NameOrDir,
    Repeats,
    SelectedSplit,
    Sources,
    find_repeats,
    fully_read_datasets,
    is_in_order,
    named_splits,
    select_splits,
)
from beam_datasets.materializing.source_versions import described
from beam_datasets.materializing.where import Where
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.inputs import Inheritance
from beam_datasets.metadata.lineage import Ascent, Lineage, SplitLineage
from beam_datasets.metadata.names import DatasetName
from beam_datasets.metadata.splits import SplitDict
from beam_datasets.metadata.supervised_keys import names_in
from beam_datasets.metadata.version import Version
from beam_datasets.options import ShardingOptions
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.shuffle.plan import choose_shards

MANY_RANGES = 1 << 14


@dataclass(frozen=True)
class Job:
    """A dataset to materialize.

    Attributes:
        info: its description, without splits.
        splits: sources of each of its splits.
        sharding: options that decide its shards.
        lineage: its origin, as its manifest records it, as far as that is known before the run.
        transform: conversion of the records; None if they are copied unchanged.
        sources: the directories of the source versions.
        inheritance: what it takes from the inputs.json of the sources.
    """

    info: DatasetInfo
    splits: tuple[SelectedSplit, ...]
    sharding: ShardingOptions
    lineage: Lineage
    transform: Transform | None
    sources: tuple[str, ...]
    inheritance: Inheritance

    @cached_property
    def repeats(self) -> dict[str, Repeats]:
        """Split -> the keys that occur more than once in it, before a filter; without splits that have none.

        Raises:
            MetadataError: an index of a source is damaged.
        """
        return {split.name: repeats for split in self.splits if (repeats := find_repeats(split)) is not None}

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: repeated keys, splits that are not in hash order, and a name that the source has, too.

        Raises:
            MetadataError: an index of a source is damaged.
        """
        filter_note = " (before the filter)" if self.lineage.filter is not None else ""
        notes = [
            f"split {name!r}: {repeats}{filter_note}. All are kept; --refuse_repeats refuses them."
            for name, repeats in self.repeats.items()
        ]
        if self.lineage.reshuffle is None and not self.info.disable_shuffling:
            notes += [
                f"split {split.name!r}: it is a concatenation of {len(split.runs)} parts, so it is not in hash "
                f"order, and a slice such as {split.name}[:60%] is not a random sample. --reshuffle SALT makes it one."
                for split in self.splits
                if not is_in_order(split)
            ]
        if self.inheritance.selected_by and (replaced := self._replaced_version()):
            notes.append(
                f"it has the name of its source, so readers of {replaced} get the highest of these versions. If it "
                "must not take the place of its source, give another name or a new MAJOR version (--to)."
            )
        return tuple(notes)

    def _replaced_version(self) -> str:
        """Returns "name:1.*.*" if the new version is beside its source and has its MAJOR number; '' otherwise."""
        name, major = self.info.name, self.info.version.major
        siblings = [one for one in self.sources if storage.dirname(one) == storage.dirname(self.info.data_dir)]
        versions = [storage.basename(one) for one in siblings if Version.is_valid(storage.basename(one))]
        return f"{name}:{major}.*.*" if any(Version(one).major == major for one in versions) else ""

    @property
    def num_bytes(self) -> int:
        """Framed size of the selected records in bytes; an estimate if the sources have no indexes."""
        return sum(split.num_bytes for split in self.splits)

    def num_shards(self, split: SelectedSplit) -> int | None:
        """Returns the number of shards of a split; None if that is known only after the run.

        Raises:
            BeamDatasetsError: more shards are requested than there are examples.
        """
        num_chosen = choose_shards(split.name, split.num_examples, split.num_bytes, self.sharding)
        is_exact = self.transform is None and split.exact
        return num_chosen if is_exact else self.sharding.shards_of(split.name)

    @cached_property
    def plan(self) -> CopyPlan | None:
        """The plan to copy the source records of each shard; None if the records are known only during the run.

        Raises:
            BeamDatasetsError: a split has fewer examples than the requested number of shards.
        """
        is_exact = (
            self.transform is None and self.lineage.reshuffle is None and all(split.exact for split in self.splits)
        )
        return plan_copy(self.splits, self.sharding) if is_exact else None

    def count_chosen(self) -> dict[str, int]:
        """Returns the number of kept examples of each split; reads the sources if it depends on the examples.

        Raises:
            CorruptRecordError: a record is damaged.
        """
        if self.transform is None:
            return {split.name: split.num_examples for split in self.splits}
        counts, opener = Counter({split.name: 0 for split in self.splits}), Opener()
        for record_range in self.ranges:
            records = opener.open(record_range.file, keyed=False)
            counts[record_range.split] += sum(
                len(selected) for _, selected in self.transform.apply(record_range, records)
            )
        return dict(counts)

    @cached_property
    def ranges(self) -> RecordRanges:
        """The ranges that are each read at once; they are larger in a large source, which limits their number."""
        return RecordRanges(self.splits, max(RANGE_BYTES, self.num_bytes // MANY_RANGES))


def with_counts(lineage: Lineage, splits: Iterable[SelectedSplit], prepared: Iterable[RecordRange]) -> Lineage:
    """Returns the lineage of a dataset, with the positions of its keys that follow from the prepared records."""
    counts: Counter[tuple[str, int]] = Counter()
    for prepared_range in prepared:
        counts[prepared_range.split, prepared_range.run] += prepared_range.file.take
    lineages = {split.name: split.lineage([counts[split.name, i] for i in range(len(split.runs))]) for split in splits}
    return replace(lineage, splits=lineages)


def _check_source(source: object) -> None:
    """Checks that a source is given by its name or directory.

    Raises:
        TypeError: it is something else, such as a Dataset.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"source: expected the name or directory of a published dataset, got {shown(source)}. A slice is given by "
            "its expression, as in split='train[:10%]'."
        )


def plan_job(
    source: NameOrDir,
    *,
    split: Any = None,
    to: str | None = None,
    data_dir: NameOrDir | None = None,
    source_data_dir: NameOrDir | None = None,
    sources: Mapping[str, NameOrDir] | None = None,
    features: Collection[str] | None = None,
    filter: str | Callable[[Any], Any] | None = None,
    where: str | None = None,
    reshuffle: str | None = None,
    refuse_repeats: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    num_shards: int | Mapping[str, int | None] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
) -> Job:
    """Returns the planned job; for the arguments see `beam_datasets.materialize`.

    Raises:
        BeamDatasetsError: it cannot be done; the message says why.
        ValueError: a name cannot be parsed, or there are options of a store for a local path.
        TypeError: `source`, `split` or `reshuffle` is of another type.
    """
    sharding = ShardingOptions.of(num_shards=num_shards, min_shard_size=min_shard_size, max_shard_size=max_shard_size)
    root = target_dir(catalog.root_dir(data_dir), storage_options)
    selection = select_examples(
        source,
        split,
        [source_data_dir] if source_data_dir is not None else [root, None],
        sources=sources,
        features=features,
        filter=filter,
        where=where,
        reshuffle=reshuffle,
        source_storage_options=source_storage_options,
        beside=root,
    )
    sharding.check_splits([split_plan.name for split_plan in selection.splits])
    info = selection.describe(to, root)
    for builder in selection.datasets:
        _check_apart(info.data_dir, builder)
    job = Job(
        info=info,
        splits=selection.splits,
        sharding=sharding,
        lineage=selection.lineage,
        transform=selection.transform,
        sources=selection.directories,
        inheritance=_inheritance(selection, split, where),
    )
    if refuse_repeats and job.repeats:
        name, repeats = next(iter(job.repeats.items()))
        raise DuplicateKeyError(
            f"split {name!r}: {repeats}. Leave them out of the expression, or allow repeats.", split=name
        )
    return job


def _inheritance(selection: Selection, split: Any, where: str | None) -> Inheritance:
    """Returns what the version takes from the inputs.json of its sources; for the arguments see `plan_job`."""
    is_all_read = len(fully_read_datasets(selection.datasets, selection.splits)) == len(selection.datasets)
    splits = () if split is None or is_all_read else selection.splits
    selected_by = [f"--split {f'{each.name}={each.expression}'!r}" for each in splits]
    selected_by += [] if where is None else [f"--where {' '.join(where.split())!r}"]
    filter_function = selection.transform.filter if selection.transform else None
    selected_by += [] if filter_function is None else [f"--filter {filter_function.name}"]
    source_info = selection.datasets[0].info
    selected_splits = {read.split for each in selection.splits for read in each.reads}
    return Inheritance(
        selection.directories,
        are_splits_kept=all(read.split == each.name for each in selection.splits for read in each.reads),
        dropped=tuple(dropped_names(source_info.features, selection.features)),
        selected_by=tuple(selected_by),
        unselected_splits=tuple(name for name in source_info.splits if name not in selected_splits),
    )


@dataclass(frozen=True)
class Selection:
    """A selection of examples of published datasets, to be materialized or exported.

    Attributes:
        source: the dataset that the request names; expressions may read only others.
        datasets: the datasets that are read; `Read.dataset` is an index in them.
        splits: the selected splits.
        features: the features that are kept.
        transform: conversion of the records; None if they are unchanged.
        lineage: the origin of the examples, as far as that is known before a run.
    """

    source: ReadOnlyBuilder
    datasets: tuple[ReadOnlyBuilder, ...]
    splits: tuple[SelectedSplit, ...]
    features: Any
    transform: Transform | None
    lineage: Lineage

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of the datasets that are read."""
        return tuple(dataset.dataset_dir for dataset in self.datasets)

    def describe(self, to: str | None, root: str) -> DatasetInfo:
        """Returns the description of a dataset of these examples, without splits, from that of the first source.

        Its `supervised_keys` are None if one of their features is not kept.

        Args:
            to: its name, or a part of it; None for that of the source.
            root: its data_dir.

        Raises:
            BeamDatasetsError: it cannot have this name.
        """
        infos = [dataset.info for dataset in self.datasets]
        info, supervised, features = infos[0], infos[0].supervised_keys, self.features
        if supervised is not None and features is not info.features:
            supervised = supervised if all(name in features for name in names_in(supervised)) else None
        keeps_order = self.lineage.reshuffle is None
        return info.replace(
            **vars(_resolve_identity(to, self.source, info, root)),
            features=features,
            splits=SplitDict(),
            supervised_keys=supervised,
            disable_shuffling=keeps_order and any(one.disable_shuffling for one in infos),
            nondeterministic_order=keeps_order and any(one.nondeterministic_order for one in infos),
        )


def select_examples(
    source: NameOrDir,
    split: Any,
    roots: Sequence[NameOrDir | None],
    *,
    sources: Mapping[str, NameOrDir] | None = None,
    features: Collection[str] | None = None,
    filter: str | Callable[[Any], Any] | None = None,
    where: str | None = None,
    reshuffle: str | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    beside: str | None = None,
) -> Selection:
    """Returns the selected examples, from metadata alone; for the arguments see also `beam_datasets.materialize`.

    Args:
        source: a published dataset, by name or directory.
        split: {name: expression}, or texts; None for all splits.
        roots: roots of datasets, in the order in which they are searched for a name.
        sources: {label: name or directory} of other datasets.
        features: names of the features to keep; None for all.
        filter: a function that selects the examples to keep, or its name.
        where: a condition in SQL that selects the examples to keep.
        reshuffle: a salt for a new order.
        source_storage_options: options of the stores of sources.
        beside: a path whose options are used for sources in the same bucket, if there are no others.

    Raises:
        BeamDatasetsError: it cannot be done; the message says why.
        TypeError: `source`, `split` or `reshuffle` is of another type.
    """
    _check_source(source)
    _check_salt(reshuffle)
    opened_sources = Sources(roots, dict(sources or {}), source_storage_options, beside)
    source_builder = opened_sources.opened[opened_sources.open(source)]
    selected = select_splits(named_splits(split, source_builder), opened_sources)
    builders = tuple(opened_sources.opened)
    feature_names = None if features is None else names_of(features, builders[0].info.features)
    trees = [kept_features(builder, feature_names) for builder in builders]
    check_alike(builders, trees)
    filter_function = None if filter is None else Filter.of(filter)
    condition, transform = None, None
    if where is not None:
        condition = Where(where)
        for builder in builders:
            condition.compile(builder.info.features)  # what is wrong with it is an error here
    if feature_names is not None or filter_function is not None or condition is not None:
        names = None if feature_names is None else record_names(trees[0])
        transform = Transform(tuple(builder.info.features for builder in builders), names, filter_function, condition)
    criteria = [] if where is None else [f"where {' '.join(where.split())}"]
    criteria += [] if filter_function is None else [filter_function.name]
    lineage = Lineage(
        tuple(map(described, builders)),
        {split_plan.name: _split_lineage(split_plan, reshuffle) for split_plan in selected},
        " and ".join(criteria) or None,
        None if feature_names is None else tuple(feature_names),
        reshuffle,
    )
    return Selection(source_builder, builders, selected, trees[0], transform, lineage)


def _check_salt(reshuffle: object) -> None:
    """Checks that `reshuffle`, the salt of a new order, is text or None; raises a TypeError if not."""
    if reshuffle is not None and not isinstance(reshuffle, str):
        raise TypeError(f"reshuffle: expected a salt, a text such as 'pepper', got {type(reshuffle).__name__}")


def target_dir(path: NameOrDir, storage_options: Mapping[str, Any] | None) -> str:
    """Returns the path of a directory to write to; for a URL, with the options of its store.

    Args:
        path: a local path or a URL.
        storage_options: options of the store; None for none.

    Raises:
        StoreOptionsError: there are options for a local path.
    """
    target = storage.with_options_if_remote(path, storage_options or None)
    if storage_options and not storage.is_remote(target):
        raise StoreOptionsError(
            f"storage_options are of the store that is written to, and {target} is a local path",
            advice="Leave them out; those of a source are source_storage_options.",
        )
    return target


# -------------------------------------------------------------------------------------------------------- description


def _resolve_identity(to: str | None, source: ReadOnlyBuilder, info: DatasetInfo, root: str) -> DatasetIdentity:
    """Returns the identity of the dataset to write.

    Args:
        to: its name, or a part of it.
        source: provides what `to` leaves open.
        info: metadata of the first source.
        root: `data_dir`.
    """
    target_name = DatasetName.parse(to) if to else DatasetName(source.name, source.config_name)
    if target_name.kwargs or target_name.namespace:
        raise BeamDatasetsError(expected="a dataset to write, name[/config][:version]", got=repr(to))
    if target_name.version and not Version.is_valid(target_name.version):
        raise BeamDatasetsError(expected="a version to write, such as 1.0.0", got=f"a pattern in {to!r}")
    version = Version(target_name.version or source.version)
    is_same_name = (target_name.name, target_name.config) == (source.name, source.config_name)
    if is_same_name and version < source.version:
        raise BeamDatasetsError(
            expected=f"a version of at least {source.version}, which the source has",
            got=f"{version}",
            advice="Give a higher version, the same one in another data_dir, or another name.",
        )
    has_same_description = is_same_name and (info.name, info.config_name) == (target_name.name, target_name.config)
    return DatasetIdentity(
        target_name.name,
        version,
        storage.join(root, target_name.name, *filter(None, [target_name.config]), str(version)),
        info.module_name,
        target_name.config,
        info.config_description if has_same_description else None,
        info.config_tags if has_same_description else (),
        info.release_notes if has_same_description else None,
    )


def _check_apart(target: str, source: ReadOnlyBuilder) -> None:
    """Checks that neither the target directory nor the directory of the source contains the other one."""
    source_dir = source.dataset_dir
    if target == source_dir:
        raise BeamDatasetsError(
            f"{source.info.display_name} in {source_dir} is the source itself, and a published version never changes",
            got=source.info.display_name,
            advice="Give another data_dir, or another name or version (--to).",
        )
    for inner, outer, words in (
        (target, source_dir, "the output would lie inside the source"),
        (source_dir, target, "the source lies inside the output"),
    ):
        if inner.startswith(f"{outer}/"):
            raise BeamDatasetsError(f"{words}: {inner} is in {outer}", path=str(inner), advice="Give another data_dir.")


def _split_lineage(split: SelectedSplit, reshuffle: str | None) -> SplitLineage:
    """Returns the lineage of a split; if it is shuffled, the key rules of all its runs apply from the start."""
    lineage = split.lineage()
    if reshuffle is None or lineage.keys is None:
        return lineage
    rules = [rule.reshuffled(salt_of(reshuffle, number)) for number, run in enumerate(split.runs) for rule in run.rules]
    return replace(lineage, keys=(Ascent(0, tuple(dict.fromkeys(rules))),))
