"""Materializing in this process, without Beam: calls what the stages of the pipeline call.

Shards are copied by several threads, because reading, checksums and writing release the interpreter lock. Records that
a filter or a selection of features changes, and blocks of a new order, are made by one thread.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import integer
from beam_datasets.writing import histogram as histograms
from beam_datasets.writing import materialize_stages as stages
from beam_datasets.writing import plan as planning
from beam_datasets.writing import publish as publishing
from beam_datasets.writing.blocks import histogram_of
from beam_datasets.writing.materialize import salt_of, with_counts
from beam_datasets.writing.materialize_copy import copy_shards, plan_prepared
from beam_datasets.writing.materialize_records import Transform
from beam_datasets.writing.progress import watch
from beam_datasets.writing.shard_writer import Destination, join_groups, write_group
from beam_datasets.writing.spill_dir import check_payload, choose_spill_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam_datasets.writing.blocks import AnyBlock
    from beam_datasets.writing.histogram import Histogram
    from beam_datasets.writing.materialize import Job
    from beam_datasets.writing.materialize_copy import CopyPlan
    from beam_datasets.writing.plan import Plan
    from beam_datasets.writing.progress import Progress
    from beam_datasets.writing.publish import Publication
    from beam_datasets.writing.shard_writer import WrittenShard
    from beam_datasets.writing.spill_dir import Workers

RUNNER = "in process"
_BUILDER = "beam_datasets.transforms.materialize:Materialize"  # the same bytes, whatever runs it
_BLOCK_SIZE = 16 << 20
_MAX_THREADS = 8


@dataclass(frozen=True)
class ThisProcess:
    """This process, as what writes and reads the files."""

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
    check_payload(payload)  # also where nothing travels
    for split in job.splits:
        job.num_shards(split)  # what cannot be is to be said here
    publication = publishing.announce(
        job.info,
        job.dataset_dir,
        sharding=job.sharding,
        runner=runner,
        builder=_BUILDER,
        source=job.lineage.to_json(),
        notes=job.notes,
    )
    kept = job.reshuffle is None  # then nothing travels, but prepared stretches need a place
    spilled = choose_spill_dir(
        workers, publication.staging_dir, payload="spilled" if kept else payload, spill_dir=spill_dir
    )
    return replace(publication, spill_dir=None if kept and job.plan else spilled)


def run(
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
    publication = announce(job, ThisProcess(), RUNNER, payload, spill_dir)
    watching: Any = contextlib.nullcontext()
    if progress is not None:
        watching = watch(publication.staging_dir, publication.spill_dir, progress)
    with publishing.staging(publication), watching:
        if job.reshuffle is None:
            publishing.publish(*_copied(job, publication))
        else:
            publishing.publish(publication, *_shuffled(job, publication, block_size))
    return publication.dataset_dir


def _copied(job: Job, publication: Publication) -> tuple[Publication, CopyPlan, list[WrittenShard]]:
    """Copies all shards; returns the publication, whose lineage is complete, the plan, and what was written."""
    plan = job.plan
    if plan is None:
        prepared = [stages.prepare(some, job.transform, publication.spill_dir or "") for some in job.stretches]
        plan = plan_prepared(prepared, len(job.stretches), job.splits, job.sharding)
        publication = replace(publication, source=with_counts(job.lineage, job.splits, prepared).to_json())
    destination, chosen = Destination(publication.staging_dir, publication.name), plan

    def copy(numbers: tuple[int, int]) -> list[WrittenShard]:
        return list(copy_shards(chosen.shards(*numbers), destination))

    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS), "beam_datasets-copy")
    try:
        written = [shard for some in pool.map(copy, plan.groups()) for shard in some]
    finally:
        pool.shutdown(cancel_futures=True)
    return publication, plan, written


def _shuffled(job: Job, publication: Publication, block_size: int) -> tuple[Plan, list[WrittenShard]]:
    """Writes all shards in a new order; returns the plan and what was written."""
    keyless = [split.name for split in job.splits if not split.keyed]
    destination = Destination(publication.staging_dir, publication.name, keyless=keyless)
    max_bins = histograms.max_bins(job.sharding.most_shards)
    shift = histograms.hash_shift(max_bins)
    counts: defaultdict[str, list[Histogram]] = defaultdict(list)
    blocks: list[AnyBlock] = []
    for block in _blocks(job, block_size, publication.spill_dir):
        blocks.append(block)
        counts[block.split].append(histogram_of(block, shift))
        if len(counts[block.split]) == 64:
            counts[block.split] = [histograms.merge(counts[block.split], max_bins)]
    merged = {split: histograms.merge(parts, max_bins) for split, parts in counts.items()}
    plan = planning.make_plan(merged, [split.name for split in job.splits], job.sharding)
    groups: defaultdict[int, list[AnyBlock]] = defaultdict(list)
    while blocks:
        block = blocks.pop()
        for number, part in planning.route(block, plan.split(block.split)):
            groups[number].append(part)
    parts: defaultdict[tuple[str, int], list[list[WrittenShard]]] = defaultdict(list)
    for number in sorted(groups):
        group = plan.group(number)
        parts[group.split, group.shard].append(write_group(group, groups.pop(number), destination))
    shards = [join_groups(some, plan.split(split).num_shards, destination) for (split, _), some in parts.items()]
    return plan, [shard for some in shards for shard in some]


def _blocks(job: Job, block_size: int, spill_dir: str | None) -> Iterator[AnyBlock]:
    for stretch in job.stretches:
        salt = salt_of(job.reshuffle or "", stretch.piece)
        yield from stages.blocks(
            stretch, job.transform or Transform(), salt, block_size=block_size, spill_dir=spill_dir
        )
