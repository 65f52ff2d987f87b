"""`materialize`, and the run in this process, without Beam, which calls what the stages of the pipeline call.

Shards are copied by several threads, because reading, checksums and writing release the interpreter lock. One thread
applies a filter or a selection of features, and makes the blocks of a new order.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import asks_for_beam, integer
from beam_datasets.errors import without_beam
from beam_datasets.generate import histogram as histograms
from beam_datasets.generate import plan as planning
from beam_datasets.generate import publish as publishing
from beam_datasets.generate.blocks import histogram_of
from beam_datasets.generate.owners import IN_PROCESS
from beam_datasets.generate.progress import watch
from beam_datasets.generate.shard_writer import Destination, join_groups, write_group
from beam_datasets.generate.spill_dir import check_payload, choose_spill_dir
from beam_datasets.materializing.copying import copy_shards, plan_prepared
from beam_datasets.materializing.plan import plan_job, with_counts
from beam_datasets.materializing.records import blocks, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from beam_datasets.generate.blocks import AnyBlock
    from beam_datasets.generate.histogram import Histogram
    from beam_datasets.generate.plan import Plan
    from beam_datasets.generate.progress import Progress
    from beam_datasets.generate.publish import Publication
    from beam_datasets.generate.shard_writer import WrittenShard
    from beam_datasets.generate.spill_dir import Workers
    from beam_datasets.materializing.copying import CopyPlan
    from beam_datasets.materializing.plan import Job
    from beam_datasets.materializing.selection import NameOrDir

_BUILDER = "beam_datasets.transforms.materialize:Materialize"  # in the manifest: the same bytes, whatever runs it
_BLOCK_SIZE = 16 << 20
_MAX_THREADS = 8
_HISTOGRAMS_MERGED = 64  # together


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
    reshuffle: str | None = None,
    refuse_repeats: bool = False,
    num_shards: int | Mapping[str, int] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
    beam_options: Any | Sequence[str] | None = None,
    **engine: Any,
) -> str:
    """Writes slices of published datasets as a dataset of its own, and returns its directory.

    Dataset order is kept: example i of a split is example i of the slice, `a+b` is b behind a. Records are copied as
    they are stored. manifest.json says where they came from, and `find` knows their keys.

    Args:
        source: a published dataset: a name such as 'digits' or 'digits/small:1.*.*', or a version's directory, those
            that TensorFlow Datasets wrote too.
        split: {name of a split: expression}, such as {'train': 'train[:80%]', 'validation': 'train[80%:]'}; or texts
            'NAME=EXPRESSION', one or several. None for all splits, as they are. A term of an expression may name
            another dataset, with the same features: 'train+other:train[:10%]'.
        to: `name[/config][:version]` of what is written. What is left open is the source's.
        data_dir: root of the datasets, for what is written; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or
            ~/beam_datasets.
        source_data_dir: root of the datasets, for names of sources; None for `data_dir`, and where it has none of that
            name, the one without `data_dir`.
        sources: {label: name or directory} of other datasets, for expressions.
        features: which features are kept, nested ones as 'objects/label'; None for all.
        filter: which examples are kept: a function from a decoded example, whole, to a bool; or its name, as
            'module:function' or 'path/to/file.py:function'.
        reshuffle: a salt: the examples of each split stand in a new order, which is a function of it and their keys.
        refuse_repeats: raise DuplicateKeyError where a key occurs more than once in a split, as in 'train+more:train'
            of datasets with common keys; otherwise all examples are kept, and a warning shows two of them.
        num_shards: of each split, one number for all or {split: number}; None chooses by the size rule.
        min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
        max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
        storage_options: of the store of `data_dir`, for what is written; see `beam_datasets.builder`. Two arguments,
            because source and target often are two stores, and credentials of one are not to be sent to the other.
        source_storage_options: of the stores of sources and of `source_data_dir`; None for `storage_options` in the
            bucket of `data_dir`, elsewhere for what the environment says. For sources in several stores, give what
            `beam_datasets.storage.with_options(url, options)` returns. Both are for workers that this process starts.
        beam_options: Beam's pipeline options; without a runner, FnApiRunner. Without `beam_options` and `num_workers`
            this process does all, without Beam: it copies with several threads, and filters and shuffles with one.
        **engine: as of `DatasetBuilder.build`: num_workers, payload, spill_dir, block_size, shared_disk, wait,
            progress.

    Raises:
        DatasetNotFoundError: there is no such source.
        SplitError: an expression cannot be read, does not fit, or selects nothing.
        AlreadyPublishedError: the version is published already.
        DuplicateKeyError: a key occurs more than once, and `refuse_repeats` is set.
        CorruptRecordError: a record of the source is damaged; nothing was published.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an argument is unusable.
    """
    job = plan_job(
        source,
        split=split,
        to=to,
        data_dir=data_dir,
        source_data_dir=source_data_dir,
        sources=sources,
        features=features,
        filter=filter,
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
    return run_job(job, beam_options, engine)


def run_job(job: Job, beam_options: Any, engine: dict[str, Any]) -> str:
    """Materializes by Beam if a runner or workers are asked for, otherwise in this process; returns the directory.

    Args:
        job: what to materialize.
        beam_options: see `materialize`.
        engine: see `materialize`.

    Raises:
        MissingDependencyError: Beam is asked for and not installed.
        BeamDatasetsError: any other reason why nothing was published.
    """
    if not asks_for_beam(beam_options, engine):
        return run_in_process(job, **engine)
    try:
        from beam_datasets.beam import materialize as pipeline
    except ImportError as error:
        raise without_beam("a run with a runner or num_workers", error) from error
    return pipeline.run(job, beam_options=beam_options, **engine)


@dataclass(frozen=True)
class ThisProcess:
    """This process as what writes and reads the files."""

    local: bool = True
    spills: bool = True
    shares_disk: bool = True


def announce(job: Job, workers: Workers, runner: str, payload: str | None, spill_dir: str | None) -> Publication:
    """Returns what is going to be published, with the directory of intermediate files, checked.

    Args:
        job: what is materialized.
        workers: what writes and reads the files.
        runner: name of the runner.
        payload: how records travel that are shuffled: 'inline', 'spilled', or None for the workers' default.
        spill_dir: directory for intermediate files; None for the staging directory.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: a split has fewer examples than shards are asked for.
        ValueError: `payload` or `spill_dir` is unusable.
    """
    check_payload(payload)  # also if nothing travels
    for split in job.splits:
        job.num_shards(split)  # raises an error if that is impossible
    publication = publishing.announce(
        job.info,
        job.dataset_dir,
        sharding=job.sharding,
        runner=runner,
        builder=_BUILDER,
        source=job.lineage.to_json(),
        notes=job.notes,
    )
    copies = job.reshuffle is None  # then nothing travels, but prepared ranges need a place
    spilled = choose_spill_dir(
        workers, publication.staging_dir, payload="spilled" if copies else payload, spill_dir=spill_dir
    )
    return replace(publication, spill_dir=None if copies and job.plan else spilled)


def run_in_process(
    job: Job,
    *,
    payload: str | None = None,
    spill_dir: str | None = None,
    block_size: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> str:
    """Materializes a dataset in this process and returns its directory; see `materialize`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an option is unusable.
    """
    block_size = _BLOCK_SIZE if block_size is None else integer("block_size", block_size, at_least=1, at_most=2**62)
    publication = announce(job, ThisProcess(), IN_PROCESS, payload, spill_dir)
    watching: Any = contextlib.nullcontext()
    if progress is not None:
        watching = watch(publication.staging_dir, publication.spill_dir, progress)
    with publishing.staging(publication), watching:
        if job.reshuffle is None:
            publishing.publish(*_copy(job, publication))
        else:
            publishing.publish(publication, *_shuffle(job, publication, block_size))
    return publication.dataset_dir


def _copy(job: Job, publication: Publication) -> tuple[Publication, CopyPlan, list[WrittenShard]]:
    """Copies all shards; returns the publication with its complete lineage, the plan, and what was written."""
    if job.plan is None:
        prepared = [prepare(some, job.transform, publication.spill_dir or "") for some in job.ranges]
        plan = plan_prepared(prepared, job.ranges, job.sharding)
        publication = replace(publication, source=with_counts(job.lineage, job.splits, prepared).to_json())
    else:
        plan = job.plan
    destination = Destination(publication.staging_dir, publication.name)
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS), "beam_datasets-copy")
    try:
        groups = pool.map(lambda group: list(copy_shards(plan, group, destination)), plan.groups())
        return publication, plan, [shard for group in groups for shard in group]
    finally:
        pool.shutdown(cancel_futures=True)


def _shuffle(job: Job, publication: Publication, block_size: int) -> tuple[Plan, list[WrittenShard]]:
    """Writes all shards in a new order; returns the plan and what was written."""
    keyless = [split.name for split in job.splits if not split.keyed]
    destination = Destination(publication.staging_dir, publication.name, keyless=keyless)
    max_bins = histograms.max_bins(job.sharding.most_shards)
    shift = histograms.hash_shift(max_bins)
    counts: defaultdict[str, list[Histogram]] = defaultdict(list)
    read: list[AnyBlock] = []
    for some in job.ranges:
        for block in blocks(
            some, job.transform, job.reshuffle or "", block_size=block_size, spill_dir=publication.spill_dir
        ):
            read.append(block)
            counts[block.split].append(histogram_of(block, shift))
            if len(counts[block.split]) == _HISTOGRAMS_MERGED:
                counts[block.split] = [histograms.merge(counts[block.split], max_bins)]
    merged = {split: histograms.merge(parts, max_bins) for split, parts in counts.items()}
    plan = planning.make_plan(merged, [split.name for split in job.splits], job.sharding)
    groups: defaultdict[int, list[AnyBlock]] = defaultdict(list)
    while read:
        block = read.pop()
        for number, part in planning.route(block, plan.split(block.split)):
            groups[number].append(part)
    parts: defaultdict[tuple[str, int], list[list[WrittenShard]]] = defaultdict(list)
    for number in sorted(groups):
        group = plan.group(number)
        parts[group.split, group.shard].append(write_group(group, groups.pop(number), destination))
    shards = [join_groups(some, plan.split(split).num_shards, destination) for (split, _), some in parts.items()]
    return plan, [shard for some in shards for shard in some]
