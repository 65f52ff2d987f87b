"""Reserving a version, and publishing its staged shards, as stages; see `publishing.phases`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam

from beam_datasets import storage
from beam_datasets.beam.tasks import SpreadTasks
from beam_datasets.publishing import phases, runs, store_commit
from beam_datasets.publishing.content import ContentPlan
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.runs import Decision
from beam_datasets.publishing.shard_file import WrittenShard
from beam_datasets.publishing.staged_files import StagedFile

Shards = list[WrittenShard]
Merges = Sequence[storage.Requests]
Decided = tuple[Publication, Decision]


def reserve(pipeline: beam.Pipeline, publication: Publication) -> None:
    """Adds a stage to a user's own pipeline that reserves the version, so that a second run fails when it starts."""
    pipeline | "StartReserve" >> beam.Impulse() | "Reserve" >> beam.Map(_reserve, publication)


def _reserve(_: Any, publication: Publication) -> None:
    """Reserves the version for this run, unless it is published already."""
    if not publication.is_published:
        phases.reserve(publication)


def publish_shards(
    start: beam.PCollection,
    publication: Publication,
    plan: beam.pvalue.AsSideInput,
    shards: beam.pvalue.AsSideInput,
    merges: beam.pvalue.AsSideInput | tuple[()] = (),
) -> beam.PCollection:
    """Publishes staged shards; on an object store, workers copy them to their final names in parallel.

    Args:
        start: a PCollection of one element, the publication with all that is known by then.
        publication: the announced publication.
        plan: plan of the shards, as a side input.
        shards: the written shards, as a side input.
        merges: I/O counts of the merge tasks, as a side input.

    Returns:
        A PCollection of one element: the published directory.
    """
    if not publication.is_remote:
        return start | "Publish" >> beam.Map(phases.publish, plan, shards, merges)
    decided = start | "Decide" >> beam.Map(_decide, plan, shards, merges)
    committed = (
        decided
        | "ListFiles" >> SpreadTasks(_files_of, task_type=tuple[str, str, int, int])
        | "CommitShards" >> beam.FlatMap(_commit, publication)
    )
    return decided | "Publish" >> beam.Map(_make_visible, beam.pvalue.AsList(committed))


def _decide(publication: Publication, plan: ContentPlan, shards: Shards, merges: Merges) -> Decided:
    """Returns (publication, decision about the run); see `phases.decide`."""
    return publication, phases.decide(publication, plan, shards, merges)


def _files_of(decided: Decided) -> Iterator[StagedFile]:
    """Yields the staged files of (publication, decision)."""
    yield from decided[1].files


def _commit(file: tuple[str, str, int, int], run: runs.Run) -> Iterator[Any]:
    """Copies a staged file to its final name; yields nothing.

    Args:
        file: the fields of a `StagedFile`: (name, staged path, size in bytes, CRC-32C).
        run: the run that publishes.
    """
    store_commit.commit_file(run, StagedFile(*file))
    yield from ()


def _make_visible(decided: Decided, _: Any) -> str:
    """Makes the directory of (publication, decision) visible and returns it; `_` is ignored, and delays the call."""
    return phases.make_visible(*decided)
