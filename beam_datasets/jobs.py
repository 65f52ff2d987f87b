"""`export` and `materialize`: jobs on slices of published datasets, run in this process or as a pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.advice import names_foreign_arguments
from beam_datasets.extras import needs
from beam_datasets.options import EngineOptions

if TYPE_CHECKING:
    from beam_datasets.exporting.run import ExportPlan
    from beam_datasets.materializing.plan import Job
    from beam_datasets.materializing.selection import NameOrDir
    from beam_datasets.publishing.progress import Progress


_NEEDED_BY = "a run with a runner or num_workers needs Apache Beam"


@names_foreign_arguments("export")
def export(
    source: NameOrDir,
    to: NameOrDir,
    format: str = "parquet",
    *,
    split: Any = None,
    data_dir: NameOrDir | None = None,
    features: Collection[str] | None = None,
    binary: Collection[str] = (),
    num_shards: int | Mapping[str, int] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    beam_options: Any | Sequence[str] | None = None,
    num_workers: int | None = None,
    shared_disk: bool = False,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Writes slices of a published dataset as files of another format, and returns their directory.

    Dataset order is kept: the files of a split, one after the other, are the slice. Images are not decoded.
    `_export.json` beside them describes them and their source.

    Args:
        source: a published dataset: a name such as 'digits' or 'digits/small:1.*.*', or a version's directory, also
            one that TensorFlow Datasets wrote.
        to: the directory to make; it is visible when all is written.
        format: 'parquet', 'jsonl', 'webdataset' or 'arrayrecord'.
        split: {name: expression}, such as {'train': 'train[:80%]', 'validation': 'train[80%:]'}; or texts
            'NAME=EXPRESSION', one or several; the name can be left out if the expression has a single split. None for
            all splits, as they are.
        data_dir: root of the datasets, for a name; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or
            ~/beam_datasets.
        features: names of the features to export, nested ones as 'objects.label'; None for all.
        binary: names of the features whose strings are bytes, not text.
        num_shards: number of files of each split, one number for all or {split: number}; None chooses by the size rule.
        min_shard_size: lower limit of the size rule in bytes of the source; None for 64 MiB.
        max_shard_size: upper limit of the size rule in bytes of the source; None for 1 GiB.
        storage_options: options of the store of `to`; see `beam_datasets.materialize`.
        source_storage_options: options of the store of the source, see there.
        beam_options: Beam's pipeline options; without a runner, FnApiRunner. Without `beam_options` and `num_workers`
            this process writes one file after the other, without Beam.
        num_workers: number of processes of a local run; 0 for one per core.
        shared_disk: whether remote workers see this machine's paths.
        progress: called about twice a second with the number of bytes that this process or a local run has written.

    Raises:
        DatasetNotFoundError: the source does not exist.
        SplitError: an expression cannot be read, does not fit, or selects nothing.
        PathExistsError: something is at `to` already.
        MissingDependencyError: the format's package is not installed.
        BeamDatasetsError: any other reason why nothing was exported.
        ValueError: an argument is unusable.
    """
    from beam_datasets.exporting.run import plan_export

    plan = plan_export(
        source,
        to,
        format,
        split=split,
        data_dir=data_dir,
        features=features,
        binary=binary,
        num_shards=num_shards,
        min_shard_size=min_shard_size,
        max_shard_size=max_shard_size,
        storage_options=storage_options,
        source_storage_options=source_storage_options,
    )
    return run_export(plan, EngineOptions(beam_options, num_workers, shared_disk=shared_disk), progress)


@names_foreign_arguments("materialize")
def materialize(
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
    num_shards: int | Mapping[str, int | None] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    beam_options: Any | Sequence[str] | None = None,
    num_workers: int | None = None,
    payload: str | None = None,
    spill_dir: str | None = None,
    block_size: int | None = None,
    shared_disk: bool = False,
    wait: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> str:
    """Writes slices of published datasets as a dataset of its own, and returns its directory.

    Dataset order is kept: example i of a split is example i of the slice, in `a+b` b follows a. Records are copied as
    they are stored. manifest.json records their origin, and `find` finds them by their keys.

    Args:
        source: a published dataset: a name such as 'digits' or 'digits/small:1.*.*', or a version's directory, those
            that TensorFlow Datasets wrote too.
        split: {name of a split: expression}, such as {'train': 'train[:80%]', 'validation': 'train[80%:]'}; or texts
            'NAME=EXPRESSION', one or several. None for all splits, as they are. A term of an expression may name
            another dataset, with the same features: 'train+other:train[:10%]'.
        to: `name[/config][:version]` of the dataset to write; omitted parts are the source's.
        data_dir: root of the datasets, for the dataset to write; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or
            ~/beam_datasets.
        source_data_dir: root of the datasets, for names of sources; None for `data_dir`, and if it has none of that
            name, the one without `data_dir`.
        sources: {label: name or directory} of other datasets, for expressions.
        features: names of the features to keep, nested ones as 'objects.label'; None for all.
        filter: selects the examples to keep: a function from a decoded example, whole, to a bool; or its name, as
            'module:function' or 'path/to/file.py:function'.
        where: selects the examples to keep: a condition in SQL on features, as "label = 'dog' and length(text) > 100",
            with class labels by name; needs `beam_datasets[where]`. A filter gets those for which it is true.
        reshuffle: a salt: the examples of each split are in a new order, which is a function of it and their keys.
        refuse_repeats: whether a key that occurs more than once in a split, as in 'train+more:train' of datasets with
            common keys, is a DuplicateKeyError; otherwise all examples are kept, and a warning shows two of them.
        num_shards: of each split, one number for all or {split: number}; None chooses by the size rule.
        min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
        max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
        storage_options: options of the store of `data_dir`, for the dataset to write; see `beam_datasets.builder`. Two
            arguments, because source and target often are two stores, and credentials of one must not be sent to the
            other.
        source_storage_options: options of the stores of sources and of `source_data_dir`; None for `storage_options` in
            the bucket of `data_dir`, elsewhere for the environment's. For sources in several stores, give the result of
            `beam_datasets.storage.with_options(url, options)`. Both are for workers that this process starts.
        beam_options: Beam's pipeline options; without a runner, FnApiRunner. Without `beam_options` and `num_workers`
            this process does all, without Beam: it copies with several threads, and filters and shuffles with one.
        num_workers: number of worker processes of a local run; 0 for one per core.
        payload: 'inline' or 'spilled'; see `DatasetBuilder.build`.
        spill_dir: directory for spilled records; None for beside the staging directory.
        block_size: approximate bytes of the blocks in which records are sorted and sent; for `reshuffle`.
        shared_disk: whether the workers of a remote runner see this machine's paths.
        wait: whether to wait for the end of the job; False returns once a remote runner has accepted it.
        progress: called about twice a second with what was done so far.

    Raises:
        DatasetNotFoundError: the source does not exist.
        SplitError: an expression cannot be read, does not fit, or selects nothing.
        AlreadyPublishedError: the version is published already.
        DuplicateKeyError: a key occurs more than once, and `refuse_repeats` is set.
        CorruptRecordError: a record of the source is damaged; nothing was published.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an argument is unusable.
    """
    from beam_datasets.materializing.plan import plan_job

    job = plan_job(
        source,
        split=split,
        to=to,
        data_dir=data_dir,
        source_data_dir=source_data_dir,
        sources=sources,
        features=features,
        filter=filter,
        where=where,
        reshuffle=reshuffle,
        refuse_repeats=refuse_repeats,
        num_shards=num_shards,
        min_shard_size=min_shard_size,
        max_shard_size=max_shard_size,
        storage_options=storage_options,
        source_storage_options=source_storage_options,
    )
    for note in job.notes:
        warnings.warn(note, stacklevel=2)
    options = EngineOptions(beam_options, num_workers, payload, spill_dir, block_size, shared_disk, wait)
    return run_job(job, options, progress)


def check_export(plan: ExportPlan, options: EngineOptions) -> None:
    """Makes the checks that `run_export` makes before a job of Beam; leaves no file."""
    if options.asks_for_beam:
        with needs(_NEEDED_BY, "beam"):
            from beam_datasets.beam import export
        export.check_run(plan, options)


def run_export(plan: ExportPlan, options: EngineOptions, progress: Callable[[int], None] | None = None) -> str:
    """Exports by Beam if a runner or workers are asked for, otherwise in this process; returns the directory.

    Args:
        plan: the plan of the export.
        options: options of where it runs.
        progress: called about twice a second with the number of bytes written so far.

    Raises:
        MissingDependencyError: Beam is asked for and not installed.
        BeamDatasetsError: any other reason why nothing was exported.
    """
    if not options.asks_for_beam:
        from beam_datasets.exporting.run import run_in_process

        return run_in_process(plan, progress=progress)
    with needs(_NEEDED_BY, "beam"):
        from beam_datasets.beam import export
    return export.run(plan, options, progress)


def check_job(job: Job, options: EngineOptions) -> None:
    """Makes the checks that `run_job` makes before a job of Beam; leaves no file."""
    if options.asks_for_beam:
        with needs(_NEEDED_BY, "beam"):
            from beam_datasets.beam import materialize
        materialize.check_run(job, options)


def run_job(job: Job, options: EngineOptions, progress: Callable[[Progress], None] | None = None) -> str:
    """Materializes by Beam if a runner or workers are asked for, otherwise in this process; returns the directory.

    Args:
        job: the planned job.
        options: options of where and how it runs.
        progress: called about twice a second with what was done so far.

    Raises:
        MissingDependencyError: Beam is asked for and not installed.
        BeamDatasetsError: any other reason why nothing was published.
    """
    if not options.asks_for_beam:
        from beam_datasets.materializing.run import run_in_process

        return run_in_process(job, options, progress)
    with needs(_NEEDED_BY, "beam"):
        from beam_datasets.beam import materialize
    return materialize.run(job, options, progress)
