"""Materializing without Beam: the same functions called in a loop, so that many datasets can be tried."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beam_datasets.reading.opening import builder_from_directory
from beam_datasets.writing import materialize_stages as stages
from beam_datasets.writing import plan as planning
from beam_datasets.writing import publish as publishing
from beam_datasets.writing.blocks import key_array, size_array
from beam_datasets.writing.histogram import count_keys, merge
from beam_datasets.writing.materialize import Job, plan_job, salt_of, with_counts
from beam_datasets.writing.materialize_copy import copy_shards, plan_prepared
from beam_datasets.writing.materialize_records import Transform
from beam_datasets.writing.shard_writer import Destination, join_groups, write_group

if TYPE_CHECKING:
    from pathlib import Path


def materialize(
    source: Any,
    data_dir: Path,
    *,
    stretch_bytes: int = 0,
    **asked: Any,
) -> Any:
    """Materializes, and returns what reads the dataset."""
    job = plan_job(source, data_dir=data_dir, max_part_size=200, **asked)
    if stretch_bytes:
        job.__dict__["stretches"] = stages.Stretches(job.splits, stretch_bytes)
    publication = publishing.announce(
        job.info, job.dataset_dir, sharding=job.sharding, runner="none", builder="tests", source=job.lineage.to_json()
    )
    with publishing.staging(publication):
        write = _kept if job.reshuffle is None else _shuffled
        publication, made, shards = write(job, publication)
        directory = publishing.publish(publication, made, shards)
    return builder_from_directory(directory)


def _kept(job: Job, publication: Any) -> Any:
    made = job.plan
    if made is None:
        spill = f"{publication.staging_dir}/spill"
        prepared = [stages.prepare(stretch, job.transform, spill) for stretch in reversed(job.stretches)]
        made = plan_prepared(prepared, len(job.stretches), job.splits, job.sharding)
        publication = replace(publication, source=with_counts(job.lineage, job.splits, prepared).to_json())
    destination = Destination(publication.staging_dir, publication.name)
    return (
        publication,
        made,
        [shard for group in made.groups() for shard in copy_shards(made.shards(*group), destination)],
    )


def _shuffled(job: Job, publication: Any) -> Any:
    blocks = [
        block
        for stretch in job.stretches
        for block in stages.blocks(
            stretch,
            job.transform or Transform(),
            salt_of(job.reshuffle, stretch.piece),
            block_size=300,
            spill_dir=None,
        )
    ]
    counts = defaultdict(list)
    for block in blocks:
        counts[block.split].append(count_keys(key_array(block.keys), size_array(block.sizes)))
    names = [split.name for split in job.splits]
    made = planning.make_plan({split: merge(parts) for split, parts in counts.items()}, names, job.sharding)
    groups = defaultdict(list)
    for block in blocks:
        for number, part in planning.route(block, made.split(block.split)):
            groups[number].append(part)
    keyless = [split.name for split in job.splits if not split.keyed]
    destination = Destination(publication.staging_dir, publication.name, keyless=keyless)
    parts = defaultdict(list)
    for number, some in groups.items():
        written = write_group(made.group(number), some, destination)
        parts[written[0].split, written[0].shard].append(written)
    shards = [join_groups(p, made.split(s).num_shards, destination) for (s, _), p in parts.items()]
    return publication, made, [shard for some in shards for shard in some]
