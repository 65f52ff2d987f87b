"""Materializes a dataset in this process, without Beam, by what the stages of the pipeline call.

Shards are copied by several threads, because reading, checksums and writing release the interpreter lock. One thread
applies a filter or a selection of features, and makes the blocks of a new order.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from beam_datasets.arguments import integer
from beam_datasets.generate import histogram as histograms
from beam_datasets.generate import plan as planning
from beam_datasets.generate import publish as publishing
from beam_datasets.generate.blocks import (
    AnyBlock,
    BlockCollector,
    Workers,
    check_payload,
    choose_spill_dir,
    histogram_of,
)
from beam_datasets.generate.histogram import Histogram
from beam_datasets.generate.owners import IN_PROCESS
from beam_datasets.generate.plan import Plan
from beam_datasets.generate.progress import Progress, watch
from beam_datasets.generate.publish import Publication
from beam_datasets.generate.shard_writer import Destination, WrittenShard, join_groups, write_group
from beam_datasets.materializing.copying import CopyPlan, copy_shards, plan_prepared
from beam_datasets.materializing.plan import Job, check_unchanged, with_counts
from beam_datasets.materializing.records import blocks, prepare

_BUILDER = "beam_datasets.transforms.materialize:Materialize"  # part of the digests of published manifests, so it stays
_BLOCK_SIZE = 16 << 20
MAX_THREADS = 8
_HISTOGRAMS_MERGED = 64  # together


@dataclass(frozen=True)
class ThisProcess:
    """This process as what writes and reads the files."""

    local: bool = True
    spills: bool = True
    buffers_bundles: bool = False
    shares_disk: bool = True


def announce(job: Job, workers: Workers, runner: str, payload: str | None, spill_dir: str | None) -> Publication:
    """Returns what is going to be published, with the directory of intermediate files, checked.

    Args:
        job: what is materialized.
        workers: what writes and reads the files.
        runner: name of the runner.
        payload: how records travel that are shuffled: 'inline', 'spilled', or None for the workers' default.
        spill_dir: directory for intermediate files; None for beside the staging directory.

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
    """Materializes a dataset in this process and returns its directory; see `beam_datasets.materialize`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an option is unusable.
    """
    block_size = _BLOCK_SIZE if block_size is None else integer("block_size", block_size, at_least=1, at_most=2**62)
    publication = announce(job, ThisProcess(), IN_PROCESS, payload, spill_dir)
    watching = watch(publication.staging_dir, publication.spill_dir, progress)
    with publishing.staging(publication), watching:
        publication = replace(publication, inputs_of=job.inputs_of)
        made: tuple[Publication, publishing.AnyPlan, list[WrittenShard]]
        made = (
            _copy(job, publication) if job.reshuffle is None else (publication, *_shuffle(job, publication, block_size))
        )
        check_unchanged(job.sources, job.lineage)
        publishing.publish(*made)
    return publication.target


def _copy(job: Job, publication: Publication) -> tuple[Publication, CopyPlan, list[WrittenShard]]:
    """Copies all shards; returns the publication with its complete lineage, the plan, and what was written."""
    if job.plan is None:
        prepared = [prepare(some, job.transform, publication.spill_dir or "") for some in job.ranges]
        plan = plan_prepared(prepared, job.ranges, job.sharding)
        publication = replace(publication, source=with_counts(job.lineage, job.splits, prepared).to_json())
    else:
        plan = job.plan
    destination = Destination(publication.staging_dir, publication.info.name)
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS), "beam_datasets-copy")
    try:
        groups = pool.map(lambda group: list(copy_shards(plan, group, destination)), plan.groups())
        return publication, plan, [shard for group in groups for shard in group]
    finally:
        pool.shutdown(cancel_futures=True)


def _shuffle(job: Job, publication: Publication, block_size: int) -> tuple[Plan, list[WrittenShard]]:
    """Writes all shards in a new order; returns the plan and what was written."""
    keyless = [split.name for split in job.splits if not split.keyed]
    destination = Destination(publication.staging_dir, publication.info.name, keyless=keyless)
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
    collector = BlockCollector(publication.spill_dir or "")
    while read:
        for block in read.pop().load():
            for number, part in collector.send(planning.route(block, plan.split(block.split))):
                groups[number].append(part)
    for number, listed in collector.flush():
        groups[number].append(listed)
    parts: defaultdict[tuple[str, int], list[list[WrittenShard]]] = defaultdict(list)
    for number in sorted(groups):
        group = plan.group(number)
        parts[group.split, group.shard].append(write_group(group, groups.pop(number), destination))
    shards = [join_groups(some, plan.split(split).num_shards, destination) for (split, _), some in parts.items()]
    return plan, [shard for some in shards for shard in some]
