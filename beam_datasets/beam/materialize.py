"""The Materialize transform: writes slices of published datasets as a new dataset.

Records that do not change are copied shard by shard. If the sizes are not known before
the run (because of a filter, other features, or a source without indexes), the ranges of the source are prepared first,
and the shards are planned after that. A new order uses the stages that generate datasets, beginning with their blocks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_datasets.beam.counting import max_bins
from beam_datasets.beam.encode import HISTOGRAMS, histogram_output, with_histograms
from beam_datasets.beam.metrics import count_requests, count_written, with_requests
from beam_datasets.beam.publishing import publish_shards, reserve
from beam_datasets.beam.tasks import RunTasks, SpreadTasks
from beam_datasets.beam.write import write_blocks
from beam_datasets.engines import engine as engines
from beam_datasets.engines.engine import Transport
from beam_datasets.engines.running import check_engine, run_publishing
from beam_datasets.materializing.copying import CopyPlan, copy_shard, plan_prepared
from beam_datasets.materializing.plan import Job, plan_job, with_counts
from beam_datasets.materializing.records import RecordRange, RecordRanges, Transform, blocks, prepare_range
from beam_datasets.materializing.run import announce_job
from beam_datasets.materializing.selection import NameOrDir
from beam_datasets.materializing.source_versions import check_unchanged
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.options import EngineOptions
from beam_datasets.publishing.phases import check_can_run
from beam_datasets.publishing.progress import Progress
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.shuffle import histogram as histograms

_NUMBERS = "numbers"
Begin: TypeAlias = beam.pvalue.PBegin | beam.Pipeline


class Materialize(beam.PTransform):
    """Writes slices of published datasets as a dataset; its output is one element, the published directory.

    >>> pipeline | Materialize("squares", split={"train": "train[:10%]"}, to="few", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
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
        payload: str | None = None,
        spill_dir: str | None = None,
        block_size: int | None = None,
        shared_disk: bool = False,
    ) -> None:
        """Opens the sources, and checks all that can be seen in their metadata.

        Args:
            source: a published dataset, by its name or its directory.
            split: {name of a split: expression}, as of `beam_datasets.materialize`, as are the arguments that follow.
            to: `name[/config][:version]` of the dataset to write.
            data_dir: root of the datasets, for the dataset to write.
            source_data_dir: root of the datasets, for names of sources.
            sources: {label: name or directory} of other datasets, for expressions.
            features: names of the features to keep; None for all.
            filter: a function that selects the examples to keep, or its name.
            where: a condition in SQL that selects the examples to keep.
            reshuffle: a salt for a new order.
            refuse_repeats: whether a key that occurs more than once in a split is an error.
            num_shards: number of shards of each split.
            min_shard_size: lower limit of the size rule in bytes.
            max_shard_size: upper limit of the size rule in bytes.
            storage_options: options of the store of `data_dir`.
            source_storage_options: options of the stores of sources.
            payload: how shuffled records are sent: 'inline' or 'spilled'; None for inline on Dataflow, spilled
                elsewhere.
            spill_dir: directory for spilled records and for the result of a filter; None for beside the staging
                directory.
            block_size: approximate bytes of the blocks in which records are sorted and sent.
            shared_disk: whether the workers of a remote runner see this machine's paths.

        Raises:
            BeamDatasetsError: the request is invalid; the message contains the reason.
            ValueError: an argument is unusable.
        """
        super().__init__()
        self._job = plan_job(
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
        for note in self._job.notes:
            warnings.warn(note, stacklevel=2)
        self._options = EngineOptions(
            payload=payload, spill_dir=spill_dir, block_size=block_size, shared_disk=shared_disk
        )

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Checks that the version is free and workers can access all directories, and adds the transforms."""
        engine = engines.engine_at_start(begin, self, self._options.shared_disk)
        publication = _announce(self._job, engine, self._options, is_reserved=False)
        reserve(begin.pipeline, publication)
        return _build_flow(begin, self._job, publication, engine.transport(publication.spill_dir, self._options))


def run(job: Job, options: EngineOptions, progress: Callable[[Progress], None] | None = None) -> str:
    """Materializes a dataset and returns its directory.

    Args:
        job: the planned job.
        options: options of where and how it runs.
        progress: called about twice a second during a local run, with the progress so far.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an option is unusable.
    """
    engine = engines.choose_engine(options)
    publication = _announce(job, engine, options)

    def build(pipeline: beam.Pipeline) -> None:  # which has no units
        """Adds the stages of the materialization to a pipeline."""
        _build_flow(pipeline, job, publication, engine.transport(publication.spill_dir, options, tells_facts=True))

    run_publishing(engine, publication, build, progress)
    return publication.target


def check_run(job: Job, options: EngineOptions) -> None:
    """Makes the checks that `run` makes before a job; leaves no file. For the arguments and errors see `run`."""
    engine = engines.choose_engine(options)
    publication = _announce(job, engine, options)
    check_engine(engine)
    check_can_run(publication)


def _announce(job: Job, engine: engines.Engine, options: EngineOptions, *, is_reserved: bool = True) -> Publication:
    """Returns the publication, after checking it; see `materializing.run.announce_job`."""
    engines.refuse_template(engine)
    publication = announce_job(job, engine, options, is_reserved=is_reserved)
    sources = {f"the source {number + 1}": directory for number, directory in enumerate(job.sources)}
    places = {engines.TARGET: publication.target, "spill_dir": publication.spill_dir, **sources}
    engines.check_paths_are_shared(engine, places)
    return publication


def _build_flow(begin: Begin, job: Job, publication: Publication, transport: Transport) -> beam.PCollection:
    """Builds the flow that reads, plans, copies or shuffles, and publishes; returns the published version.

    Args:
        begin: the pipeline.
        job: the planned job.
        publication: the publication of the dataset.
        transport: how records are sent that are not copied from shard to shard.
    """
    return (_copy if job.lineage.reshuffle is None else _shuffle_records)(begin, job, publication, transport)


def _copy(begin: Begin, job: Job, publication: Publication, transport: Transport) -> beam.PCollection:
    """Builds the flow that copies the shards of a job without changing the order of the records.

    Args:
        begin: the pipeline, or its beginning.
        job: the dataset to write.
        publication: the announced version and its staging directory.
        transport: `spill_dir` is the directory for prepared records.

    Returns:
        The PCollection of the published version.
    """
    start = begin | "Start" >> beam.Create([publication], reshuffle=False)
    if job.plan is not None:
        plan = begin | "Plan" >> beam.Create([job.plan], reshuffle=False)
    else:
        sources = begin | "Sources" >> beam.Create([job.ranges], reshuffle=False)
        prepare_range = RunTasks(_range_numbers, _prepare, job.transform, transport.spill_dir, task_type=int)
        prepared = beam.pvalue.AsList(sources | "Prepare" >> prepare_range)
        plan = sources | "Plan" >> beam.Map(plan_prepared, prepared, job.sharding)
        start |= "Keys" >> beam.Map(_with_keys, job.lineage, beam.pvalue.AsSingleton(sources), prepared)
    destination = Destination(publication.staging_dir, publication.info.name)
    copy = RunTasks(CopyPlan.shards, _copy_shard, destination, task_type=tuple[int, int])
    written_shards = beam.pvalue.AsList(plan | "Copy" >> copy)
    start |= "CheckSources" >> beam.Map(_check_sources, job.sources, job.lineage, written_shards)
    return publish_shards(start, publication, beam.pvalue.AsSingleton(plan), written_shards)


def _shuffle_records(begin: Begin, job: Job, publication: Publication, transport: Transport) -> beam.PCollection:
    """Builds the flow that writes the records of a job in a new order.

    Args:
        begin: the pipeline, or its beginning.
        job: the dataset to write; `job.lineage.reshuffle` is the salt of the order.
        publication: the announced version and its staging directory.
        transport: how records are sent to the shards.

    Returns:
        The PCollection of the published version.
    """
    sources = begin | "Sources" >> beam.Create([job.ranges], reshuffle=False)
    numbers = sources | "Ranges" >> SpreadTasks(_range_numbers, task_type=int)
    shift = histograms.hash_shift(max_bins(job.sharding, transport))
    reader = _ReadBlocks(job.transform, job.lineage.reshuffle or "", transport, shift)
    read = numbers | "Read" >> with_histograms(beam.ParDo(reader, beam.pvalue.AsSingleton(sources)), _NUMBERS)
    start = (
        begin
        | "Start" >> beam.Create([publication], reshuffle=False)
        | "CheckRead" >> beam.Map(_check_read, beam.pvalue.AsSingleton(sources), beam.pvalue.AsList(read[_NUMBERS]))
        | "CheckSources" >> beam.Map(_check_sources, job.sources, job.lineage, beam.pvalue.AsList(read[_NUMBERS]))
    )
    return write_blocks(
        read.blocks,
        read[HISTOGRAMS],
        [split.name for split in job.splits],
        publication,
        job.sharding,
        transport,
        keyless=[split.name for split in job.splits if not split.keyed],
        start=start,
    )


def _range_numbers(ranges: RecordRanges) -> Iterator[int]:
    """Yields the numbers of all ranges: 0, 1, ..., `len(ranges)` - 1."""
    yield from range(len(ranges))


def _prepare(number: int, ranges: RecordRanges, transform: Transform | None, directory: str) -> RecordRange:
    """Returns a prepared range, with the I/O counts of this process since its last count.

    Args:
        number: number of the range in `ranges`.
        ranges: all ranges of the job.
        transform: see `prepare_range`.
        directory: see `prepare_range`.
    """
    prepared = prepare_range(ranges[number], transform, directory)
    return replace(prepared, requests=count_requests())


def _with_keys(
    publication: Publication, lineage: Lineage, ranges: RecordRanges, prepared: list[RecordRange]
) -> Publication:
    """Returns the publication with the lineage of its sources, which gets the numbers of prepared records."""
    return replace(publication, source=with_counts(lineage, ranges.splits, prepared).to_json())


def _check_read(publication: Publication, ranges: RecordRanges, numbers: Iterable[int]) -> Publication:
    """Returns the publication, after checking that the numbers of the ranges that were read are those of all ranges."""
    ranges.check_all_read(numbers)
    return publication


def _check_sources(publication: Publication, sources: Sequence[str], lineage: Lineage, _: Any) -> Publication:
    """Returns the publication, after checking that the source versions are unchanged.

    Args:
        publication: the publication.
        sources: directories of the source versions.
        lineage: their lineage, recorded when the job was planned.
        _: a side input that depends on all reads, so that the check runs after them; its value is ignored.
    """
    check_unchanged(sources, lineage)  # after all is read: the last argument is what was made of it
    return publication


def _copy_shard(shard: tuple[int, int], plan: CopyPlan, destination: Destination) -> WrittenShard:
    """Copies a shard, counts it in Beam's metrics, and returns it.

    Args:
        shard: (split number, shard number), both from 0.
        plan: plan of all shards.
        destination: the staging directory.
    """
    return with_requests(count_written(copy_shard(plan, shard, destination)))


class _ReadBlocks(beam.DoFn):
    """Number of a range -> blocks, and beside them a histogram of each, and the number once all of it is read.

    Args:
        transform: conversion of the records; None if they are copied unchanged.
        reshuffle: salt of the new order; '' for none.
        transport: how records are sent to the shards: size of blocks and directory for spilled ones.
        hash_shift: number of low bits of a sort key that histograms ignore.
    """

    def __init__(self, transform: Transform | None, reshuffle: str, transport: Transport, hash_shift: int) -> None:
        self._options = transform, reshuffle
        self._transport = transport
        self._hash_shift = hash_shift
        self._examples = Metrics.counter("beam_datasets", "examples_read")

    def process(self, number: int, ranges: RecordRanges) -> Iterator[Any]:
        """Yields the blocks of a range, each followed by its tagged histogram, then the number tagged `_NUMBERS`."""
        record_range, block_size = ranges[number], self._transport.block_size
        for block in blocks(record_range, *self._options, block_size=block_size, spill_dir=self._transport.spill_dir):
            yield block.sent
            yield histogram_output(block.loaded, self._hash_shift)
        self._examples.inc(record_range.file.take)
        yield beam.pvalue.TaggedOutput(_NUMBERS, number)
