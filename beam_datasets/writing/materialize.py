"""What a request to materialize means: checked entirely, before anything is read but metadata."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError, DuplicateKeyError, StoreOptionsError
from beam_datasets.model.info import INFO_FILE, DatasetIdentity, DatasetInfo
from beam_datasets.model.lineage import Ascent, Lineage, SourceDataset, SplitLineage
from beam_datasets.model.names import DatasetName
from beam_datasets.model.split_info import SplitDict
from beam_datasets.model.supervised_keys import names_in
from beam_datasets.model.version import Version
from beam_datasets.storage.options import options_of
from beam_datasets.writing.materialize_copy import piece_counts, plan_copy
from beam_datasets.writing.materialize_features import difference, project, record_names
from beam_datasets.writing.materialize_filter import Filter
from beam_datasets.writing.materialize_records import Transform
from beam_datasets.writing.materialize_selection import Sources, named_splits, select
from beam_datasets.writing.materialize_stages import STRETCH_BYTES, Stretches
from beam_datasets.writing.plan import ShardingOptions, choose_shards
from beam_datasets.writing.repeats import find_repeats, is_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from beam_datasets.reading.opening import ReadOnlyBuilder
    from beam_datasets.writing.materialize_copy import CopyPlan
    from beam_datasets.writing.materialize_selection import NameOrDir, SelectedSplit
    from beam_datasets.writing.materialize_stages import Prepared
    from beam_datasets.writing.repeats import Repeats

MANY_STRETCHES = 1 << 14
_OF_THE_SOURCE = (
    "name", "version", "config_name", "config_description", "config_tags", "release_notes", "module_name", "splits",
    "supervised_keys", "disable_shuffling", "nondeterministic_order",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A dataset that is to be materialized.

    Attributes:
        info: its description, without splits.
        splits: what is read for each of its splits.
        sharding: what decides its shards.
        lineage: what its manifest says of where it came from, but for what only the run tells.
        transform: what becomes of the records; None where they are copied as they are.
        sources: the directories of what is read.
    """

    info: DatasetInfo
    splits: tuple[SelectedSplit, ...]
    sharding: ShardingOptions
    lineage: Lineage
    transform: Transform | None
    sources: tuple[str, ...]

    @cached_property
    def repeats(self) -> dict[str, Repeats]:
        """Split -> the keys that occur more than once in it, before a filter; without splits that have none.

        Raises:
            MetadataError: an index of a source is damaged.
        """
        found = {split.name: find_repeats(split) for split in self.splits}
        return {name: repeats for name, repeats in found.items() if repeats is not None}

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What readers of the dataset may not expect: repeated keys, and splits that are not in hash order.

        Raises:
            MetadataError: an index of a source is damaged.
        """
        before = " (before the filter)" if self.lineage.filter is not None else ""
        notes = [
            f"split {name!r}: {repeats}{before}. All are kept; --refuse_repeats refuses them."
            for name, repeats in self.repeats.items()
        ]
        if self.reshuffle is None and not self.info.disable_shuffling:
            notes += [
                f"split {split.name!r}: its {len(split.pieces)} parts stand one behind the other, so it is not in hash "
                f"order, and a slice such as {split.name}[:60%] is not a random sample. --reshuffle SALT makes it one."
                for split in self.splits
                if not is_in_order(split)
            ]
        return tuple(notes)

    @property
    def dataset_dir(self) -> str:
        """The version's directory."""
        return self.info.data_dir

    @property
    def reshuffle(self) -> str | None:
        """The salt of the new order; None where the order is kept."""
        return self.lineage.reshuffle

    @property
    def num_bytes(self) -> int:
        """Size of what is read in bytes, framed; about so many where the sources have no indexes."""
        return sum(split.num_bytes for split in self.splits)

    def num_shards(self, split: SelectedSplit) -> int | None:
        """Returns how many shards a split will have; None where only the run tells.

        Raises:
            BeamDatasetsError: more are asked for than there are examples.
        """
        chosen = choose_shards(split.name, split.num_examples, split.num_bytes, self.sharding)
        known = self.transform is None and split.exact
        return chosen if known else self.sharding.shards_of(split.name)

    @cached_property
    def plan(self) -> CopyPlan | None:
        """What goes into each shard; None where only the run tells.

        Raises:
            BeamDatasetsError: a split has fewer examples than shards are asked for.
        """
        known = self.transform is None and self.reshuffle is None and all(split.exact for split in self.splits)
        return plan_copy(self.splits, self.sharding) if known else None

    @cached_property
    def stretches(self) -> Stretches:
        """What is read together; of a large source so much that they are not too many to list."""
        return Stretches(self.splits, max(STRETCH_BYTES, self.num_bytes // MANY_STRETCHES))


def with_counts(lineage: Lineage, splits: Iterable[SelectedSplit], prepared: Iterable[Prepared]) -> Lineage:
    """Returns where a dataset came from, with the stretches of its keys as the run made them."""
    parts = list(prepared)
    counted = {split.name: split.lineage(piece_counts(parts, split)) for split in splits}
    return replace(lineage, splits=counted)


def salt_of(reshuffle: str, piece: int) -> str:
    """Returns the salt of a piece of a split, which differs so that equal keys of several pieces become different."""
    return f"{reshuffle}+{piece}" if piece else reshuffle


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
    reshuffle: str | None = None,
    refuse_repeats: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    **shards: Any,
) -> Job:
    """Returns what is to be done.

    Args:
        source: this and the others are as of `beam_datasets.materialize`.
        split: see there.
        to: see there.
        data_dir: see there.
        source_data_dir: see there.
        sources: see there.
        features: see there.
        filter: see there.
        reshuffle: see there.
        refuse_repeats: see there.
        storage_options: see there.
        source_storage_options: see there.
        **shards: num_shards, min_shard_size, max_shard_size and others of `ShardingOptions`.

    Raises:
        BeamDatasetsError: it cannot be done; the message says why.
        ValueError: a name cannot be read, or there are options of a store for a local path.
    """
    sharding = ShardingOptions.of(**shards)
    root = target_dir(catalog.root_dir(data_dir), storage_options)
    roots = [source_data_dir] if source_data_dir is not None else [root, None]
    opened = Sources(roots, dict(sources or {}), source_storage_options, root)
    first = opened.opened[opened.open(source)]
    selected = tuple(select(name, expression, opened) for name, expression in named_splits(split, first).items())
    opened.check_options()
    selected = opened.keep_read(selected)
    sharding.check_splits([one.name for one in selected])
    kept = None if features is None else sorted({features} if isinstance(features, str) else set(features))
    trees = [tree_of(builder, kept) for builder in opened.opened]
    _check_alike(opened.opened, trees)
    chosen = None if filter is None else Filter.of(filter)
    transform = Transform(
        tuple(builder.info.features for builder in opened.opened),
        None if kept is None else record_names(trees[0]),
        chosen,
    )
    identity = _identity(to, first, opened.opened[0].info, root)
    info = _info(opened.opened[0].info, opened.opened, identity, trees[0], reshuffled=reshuffle is not None)
    for builder in opened.opened:
        _check_apart(info.data_dir, builder)
    lineage = Lineage(
        tuple(map(_described, opened.opened)),
        {one.name: _lineage(one, reshuffle) for one in selected},
        None if chosen is None else chosen.name,
        None if kept is None else tuple(kept),
        reshuffle,
    )
    changes = kept is not None or chosen is not None
    directories = tuple(builder.dataset_dir for builder in opened.opened)
    job = Job(info, selected, sharding, lineage, transform if changes else None, directories)
    for name, repeats in job.repeats.items() if refuse_repeats else ():
        raise DuplicateKeyError(f"split {name!r}: {repeats}. Leave them out of the expression, or allow repeats.")
    return job


def target_dir(path: NameOrDir, storage_options: Mapping[str, Any] | None) -> str:
    """Returns where something is written, with the options of its store.

    Raises:
        StoreOptionsError: there are options for a local path.
    """
    target = storage.with_options_if_remote(path, storage_options or None)
    if storage_options and not storage.is_remote(target):
        raise StoreOptionsError(
            f"storage_options are of the store that is written to, and {target} is a local path. Leave them out; those "
            "of a source are called source_storage_options"
        )
    return target


def tree_of(builder: ReadOnlyBuilder, kept: Sequence[str] | None) -> Any:
    """Returns the features of a dataset that are kept."""
    tree = builder.info.features
    return tree if kept is None else project(tree, kept, builder.info.display_name)


def _check_alike(builders: Sequence[ReadOnlyBuilder], trees: Sequence[Any]) -> None:
    for builder, tree in zip(builders[1:], trees[1:]):
        if problem := difference(trees[0], tree):
            raise BeamDatasetsError(
                f"{builders[0].info.display_name} and {builder.info.display_name} cannot be put together: {problem}. "
                "All sources need the same features; --features chooses those that all have."
            )


def _identity(to: str | None, source: ReadOnlyBuilder, info: DatasetInfo, root: str) -> DatasetIdentity:
    """Returns which dataset is written.

    Args:
        to: its name, or a part of it.
        source: what `to` leaves open is taken from it.
        info: of the first dataset that is read.
        root: `data_dir`.
    """
    wanted = DatasetName.parse(to) if to else DatasetName(source.name, source.config_name)
    if wanted.kwargs or wanted.namespace:
        raise BeamDatasetsError(f"{to!r} names no dataset to write; needed: name[/config][:version].")
    if wanted.version and not Version.is_valid(wanted.version):
        raise BeamDatasetsError(f"{to!r} has a pattern for a version; a dataset is written with one such as 1.0.0.")
    version = Version(wanted.version or source.version)
    same = (wanted.name, wanted.config) == (source.name, source.config_name)
    if same and version < source.version:
        raise BeamDatasetsError(
            f"version {version} is lower than {source.version}, the source's. What is made of {source.name} under its "
            "own name needs a higher version, or the same one in another data_dir; or give it another name."
        )
    described = same and (info.name, info.config_name) == (wanted.name, wanted.config)
    return DatasetIdentity(
        wanted.name,
        version,
        storage.join(root, wanted.name, *filter(None, [wanted.config]), str(version)),
        info.module_name,
        wanted.config,
        info.config_description if described else None,
        info.config_tags if described else (),
        info.release_notes if described else None,
    )


def _info(
    info: DatasetInfo,
    builders: Sequence[ReadOnlyBuilder],
    identity: DatasetIdentity,
    tree: Any,
    *,
    reshuffled: bool,
) -> DatasetInfo:
    """Returns the description of what is written: that of the first dataset that is read, where it still holds."""
    supervised = info.supervised_keys
    if supervised is not None and tree is not info.features and any(name not in tree for name in names_in(supervised)):
        supervised = None
    return info.replace(
        identity=identity,
        features=tree,
        splits=SplitDict(),
        supervised_keys=supervised,
        disable_shuffling=not reshuffled and any(builder.info.disable_shuffling for builder in builders),
        nondeterministic_order=not reshuffled and any(builder.info.nondeterministic_order for builder in builders),
        extra={name: value for name, value in info.extra.items() if name not in _OF_THE_SOURCE},
    )


def _check_apart(target: str, source: ReadOnlyBuilder) -> None:
    """Checks that neither directory lies in the other."""
    there = source.dataset_dir
    if options_of(target) != options_of(there):
        return  # it may be another store; and nothing that is published is overwritten in any case
    if target == there:
        raise BeamDatasetsError(
            f"{source.info.display_name} in {there} is the source itself, and a published version never changes. Give "
            "another data_dir, or another name or version (--to)."
        )
    for inner, outer, words in (
        (target, there, "the output would lie inside the source"),
        (there, target, "the source lies inside the output"),
    ):
        if inner.startswith(f"{outer}/"):
            raise BeamDatasetsError(f"{words}: {inner} is in {outer}. Give another data_dir.")


def _described(builder: ReadOnlyBuilder) -> SourceDataset:
    """Returns what the manifest says of a source: nothing of where it stands, so that copies of it give the same."""
    manifest = builder.manifest
    digest, digest_of = (manifest.digest, "manifest") if manifest else (_digest_of_metadata(builder), "metadata")
    source = manifest.source if manifest else None
    return SourceDataset(builder.name, builder.config_name, str(builder.version), digest, digest_of, source)


def _digest_of_metadata(builder: ReadOnlyBuilder) -> str:
    names = [INFO_FILE, catalog.FEATURES_FILE, *sorted(builder.info.features.label_files())]
    digest = hashlib.sha256()
    for name in names:
        digest.update(storage.read_bytes(storage.join(builder.dataset_dir, name)))
    return digest.hexdigest()


def _lineage(split: SelectedSplit, reshuffle: str | None) -> SplitLineage:
    lineage = split.lineage()
    if reshuffle is None or lineage.keys is None:
        return lineage
    rules = [
        rule.reshuffled(salt_of(reshuffle, number)) for number, piece in enumerate(split.pieces) for rule in piece.rules
    ]
    return replace(lineage, keys=(Ascent(0, tuple(dict.fromkeys(rules))),))
