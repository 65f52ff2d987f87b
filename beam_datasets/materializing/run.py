"""Materializing a planned job in this process; `beam.materialize` does it by a pipeline.

Shards are copied by several threads. One thread applies a filter or a selection of features, and makes the blocks of a
new order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

from beam_datasets.execute import tasks
from beam_datasets.execute.in_process import BLOCK_SIZE, write_blocks
from beam_datasets.execute.tasks import run_tasks
from beam_datasets.materializing.copying import CopyPlan, copy_shard, plan_prepared
from beam_datasets.materializing.plan import Job, with_counts
from beam_datasets.materializing.records import blocks, prepare_range
from beam_datasets.materializing.source_versions import check_unchanged
from beam_datasets.options import EngineOptions
from beam_datasets.publishing import phases
from beam_datasets.publishing.progress import Progress, watch
from beam_datasets.publishing.publication import Publication, Workers, announce
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.shuffle.plan import Plan

_BUILDER = "beam_datasets.transforms.materialize:Materialize"  # part of the digests of published manifests, so it stays


def announce_job(job: Job, workers: Workers, options: EngineOptions, *, is_reserved: bool = True) -> Publication:
    """Returns the publication, with the directory of intermediate files, after checking it.

    Args:
        job: the planned job.
        workers: the processes that write it.
        options: options; only `payload` and `spill_dir` are used.
        is_reserved: see `announce`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: a split has fewer examples than the requested number of shards.
        ValueError: `payload` does not suit the engine, or no file can be written in `spill_dir`.
    """
    for split in job.splits if job.plan is None else ():
        job.num_shards(split)  # raises an error if that is impossible, as the plan does
    spilling: EngineOptions | None = options
    if job.lineage.reshuffle is None:
        # Shards are copied, and records are spilled only while they are prepared for that.
        spilling = replace(options, payload="spilled") if job.plan is None else None
    return announce(
        job.info,
        job.info.data_dir,
        workers=workers,
        sharding=job.sharding,
        builder=_BUILDER,
        spilling=spilling,
        is_reserved=is_reserved,
        source=job.lineage.to_json(),
        notes=job.notes,
        inheritance=job.inheritance,
    )


def run_in_process(job: Job, options: EngineOptions, progress: Callable[[Progress], None] | None = None) -> str:
    """Materializes a dataset in this process and returns its directory.

    Args:
        job: the planned job.
        options: options; only `payload`, `spill_dir` and `block_size` are used.
        progress: called about twice a second with the progress so far.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an option is unusable.
    """
    block_size = options.block_size or BLOCK_SIZE
    publication = announce_job(job, Workers(), options)
    watching = watch(publication.staging_dir, publication.spill_dir, progress)
    with phases.staging(publication), watching:
        result: tuple[Publication, Any, list[WrittenShard]]
        result = (
            _copy(job, publication)
            if job.lineage.reshuffle is None
            else (publication, *_write_shuffled(job, publication, block_size))
        )
        check_unchanged(job.sources, job.lineage)
        phases.publish(*result)
    return publication.target


def _copy(job: Job, publication: Publication) -> tuple[Publication, CopyPlan, list[WrittenShard]]:
    """Copies all shards; returns (publication with its complete lineage, plan, written shards)."""
    if job.plan is None:
        spill_dir = publication.spill_dir or ""
        prepared = run_tasks(job.ranges, lambda record_range: prepare_range(record_range, job.transform, spill_dir))
        plan = plan_prepared(job.ranges, prepared, job.sharding)
        publication = replace(publication, source=with_counts(job.lineage, job.splits, prepared).to_json())
    else:
        plan = job.plan
    destination = Destination(publication.staging_dir, publication.info.name)
    shards = run_tasks(plan.shards(), lambda shard: copy_shard(plan, shard, destination), threads=tasks.num_threads())
    return publication, plan, shards


def _write_shuffled(job: Job, publication: Publication, block_size: int) -> tuple[Plan, list[WrittenShard]]:
    """Writes all shards in a new order; returns (plan, written shards).

    Args:
        job: the planned job, with `reshuffle`.
        publication: the announced publication.
        block_size: size in bytes of the blocks in which records are sorted.
    """
    spill_dir, salt = publication.spill_dir, job.lineage.reshuffle or ""
    keyless = [split.name for split in job.splits if not split.keyed]
    read = (
        blocks(record_range, job.transform, salt, block_size=block_size, spill_dir=spill_dir)
        for record_range in job.ranges
    )
    return write_blocks(
        chain.from_iterable(read),
        [split.name for split in job.splits],
        job.sharding,
        Destination(
            publication.staging_dir, publication.info.name, keyless=keyless, features=publication.info.features
        ),
        spill_dir,
    )
