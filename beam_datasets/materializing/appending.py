"""Appending: builds the next version of a dataset by merging its records with new ones; see `append_plan`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from beam_datasets.advice import names_foreign_arguments
from beam_datasets.errors import AlreadyPublishedError
from beam_datasets.execute import tasks
from beam_datasets.execute.tasks import run_tasks
from beam_datasets.materializing.append_options import NEXT, AppendOptions
from beam_datasets.materializing.append_plan import AppendPlan, plan_append
from beam_datasets.materializing.append_sources import build_sources
from beam_datasets.materializing.selection import NameOrDir
from beam_datasets.materializing.source_versions import check_unchanged
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.version import VersionOrStr
from beam_datasets.publishing import phases, staged_inputs
from beam_datasets.publishing.output_log import join_logs
from beam_datasets.publishing.progress import Progress, watch
from beam_datasets.publishing.publication import Workers, announce
from beam_datasets.publishing.shard_file import Destination

_BUILDER = "beam_datasets:append"  # part of the digests of published manifests, so it stays


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
    max_rejected: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> str:
    """Publishes the next version of a dataset: its examples and new ones, in the order of generating all of them.

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
        on_duplicate: handling of a new example with an existing key: 'error'; 'keep_old' keeps the published example;
            'replace' writes the new one; 'skip_identical' keeps the published one if the records are equal, and
            otherwise raises an error. If rows of files are split by a value, such as a group, a key of another split
            with a different record counts as existing, too.
        delete: keys whose examples are left out, of the published and of the new ones.
        data_dir: root of the datasets, for names; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets.
            The next version is written next to the published one.
        source_data_dir: root for names of the appended datasets; None for `data_dir`, and if it lacks the name, the
            default root.
        storage_options: options of the store of `data_dir`; see `beam_datasets.materialize`.
        source_storage_options: options of the stores of the appended data; see there.
        num_shards: number of shards of each split: one number for all or {split: number}; None chooses by the size
            rule.
        min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
        max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
        share_shards: whether published shards in whose range of keys nothing changes are reused, as hard links or as
            copies made by the store: all shards of a split without changes, and with `disable_shuffling` those before
            the appended examples. The other records are written to separate shards.
        union_features: whether features that one of the datasets lacks become optional in the next version; otherwise
            they are an error. Class labels and images cannot be optional.
        take_changed: for builders of files, which read only files that the published version was not built from:
            whether files that have changed since are read, too. A warning names them. A file counts as changed if its
            size differs, or if both its time and its checksum differ.
        compare_checksums: whether the checksums of all files are compared, also of those with the same size and time.
        max_rejected: number of examples that each builder may reject (see `Rejected`); more are an error.
        progress: called about twice a second with the progress so far.

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
        raise AlreadyPublishedError(error.problem, got=error.got, advice=advice) from None


def _publish(plan: AppendPlan, progress: Callable[[Progress], None] | None) -> str:
    """Writes all shards of the next version and publishes it; returns its directory."""
    publication = announce(
        plan.info,
        plan.dataset_dir,
        workers=Workers(),
        sharding=plan.sharding,
        builder=_BUILDER,
        source=plan.lineage.to_json(),
    )
    destination = Destination(publication.staging_dir, publication.info.name, ordered=plan.info.disable_shuffling)
    watching = watch(publication.staging_dir, None, progress)
    with phases.staging(publication), watching:
        split_shards = [(split, shard) for split in plan.splits for shard in range(split.num_shards)]
        publication = staged_inputs.stage_inputs(publication, plan.inputs)
        join_logs(plan.appended_dirs, publication.worker_log)
        shards = run_tasks(
            split_shards, lambda task: task[0].write_shard(task[1], destination), threads=tasks.num_threads()
        )
        check_unchanged(plan.sources, plan.lineage)
        phases.publish(publication, plan, shards)
    return publication.target
