"""Generating a dataset from its builder: check, build the pipeline, run it, clean up."""

from __future__ import annotations

import dataclasses
import functools
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import grpc

from beam_datasets import storage
from beam_datasets.beam.encode import UnitReader
from beam_datasets.beam.write import WriteExamples
from beam_datasets.engines import engine as engines
from beam_datasets.engines.running import run_publishing
from beam_datasets.features.image import with_image_checks
from beam_datasets.options import BuildOptions
from beam_datasets.publishing import compatibility, staged_inputs
from beam_datasets.publishing.fingerprints import fingerprint
from beam_datasets.publishing.progress import count_units
from beam_datasets.publishing.publication import Publication, announce
from beam_datasets.publishing.resume import Resumable, command_to_resume, find_attempts
from beam_datasets.publishing.staged_shards import ShardRecords
from beam_datasets.sources.units import SourceUnits, check_iterable, iterate_examples, read_together

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

    from beam_datasets.builders import DatasetBuilder


_OF_BEAM = (beam.PCollection, beam.PTransform)
_log = logging.getLogger(__name__)


def generate(builder: DatasetBuilder, options: BuildOptions) -> str:
    """Generates the builder's dataset and returns the published directory.

    If the job is not waited for, the directory will exist later.

    Args:
        builder: the dataset's builder; it is pickled for the workers.
        options: the options of the build.

    Raises:
        AlreadyPublishedError: the version is published already.
        VersionError: the version is too low for changes of features or description, or none exists to compare with.
        ResultKeptError: the version is too low for changes of the examples; everything is written, but not published.
        ResumeError: the builder has changed since the run that is to be resumed, or that run is active.
        BeamDatasetsError: any other reason why nothing was published.
        ValueError: an option is unusable.
    """
    engine, publication, resumable = prepare_run(builder, options)
    spilled = publication.spill_dir
    transport = engine.transport(spilled, options.engine, tells_facts=True)

    def build(pipeline: beam.Pipeline) -> int | None:
        """Applies the transforms; returns the number of units to read, None if a transform is the source."""
        if spilled is not None and not builder.is_temporary:
            resumable.save(spilled)
        sources = builder.split_generators(pipeline)
        directories = [attempt.spill_dir for attempt in publication.attempts]
        examples, readers = _read_sources(builder, pipeline, sources, directories)
        units = sorted(name for reader in readers.values() for name, _ in reader.units)
        records = None
        is_of_beam = any(isinstance(source, _OF_BEAM) for source in sources.values())
        if spilled is not None and not is_of_beam:  # a transform may yield other examples when it is resumed
            records = ShardRecords.of(spilled, directories, resumable.digest, units, publication.options)
        staged = dataclasses.replace(publication, shard_records=records)
        if builder.download_size:
            staged = dataclasses.replace(staged, info=staged.info.replace(download_size=builder.download_size))
        staged = staged_inputs.stage_inputs(staged, options.inputs)
        write = WriteExamples(staged, options.sharding, transport, readers, list(sources), options.checksums)
        examples | write
        return None if is_of_beam else max(len(units) - count_units(directories), 1)  # the others are reused

    outcome = run_publishing(engine, publication, build, options.progress, sent_along=type(builder))
    if options.counters and engine.waits:
        counters = _read_counters(outcome.result)
        if counters and outcome.restarts:
            print(
                f"{engine.name} has repeated a part of the job (restarts: {outcome.restarts}). It reports what the "
                "last attempts have counted, so the counters of the dataset's own code may be too low.",
                file=sys.stderr,
            )
        options.counters(counters)
    return publication.target


def prepare_run(builder: DatasetBuilder, options: BuildOptions) -> tuple[engines.Engine, Publication, Resumable]:
    """Returns the engine and the publication of a run, and the data for resuming it later. Changes no file.

    It makes all checks that need neither a job nor the engine's job service. For the arguments and errors see
    `generate`.
    """
    engine = engines.choose_engine(options.engine)
    engines.refuse_template(engine)
    if options.resume and options.engine.payload == "inline":
        raise ValueError("resume needs payload='spilled': with 'inline' a run leaves nothing to reuse.")
    spilling = dataclasses.replace(options.engine, payload="spilled") if options.resume else options.engine
    compared_with = None
    if options.check_against:
        compared_with = compatibility.earlier_version(builder.dataset_dir, options.check_against)
    publication = announce(
        builder.info,
        builder.dataset_dir,
        workers=engine,
        sharding=options.sharding,
        spilling=spilling,
        builder=f"{type(builder).__module__}:{type(builder).__qualname__}",
        check_against=compared_with,
    )
    if options.check_images is not None:
        features = with_image_checks(publication.info.features, options.check_images)
        publication = dataclasses.replace(publication, info=publication.info.replace(features=features))
    places = {engines.TARGET: publication.target, "spill_dir": publication.spill_dir}
    engines.check_paths_are_shared(engine, places)
    target, command = storage.url(publication.target), command_to_resume()
    resumable = Resumable(target, fingerprint(builder), always=bool(options.resume), command=command)
    if options.resume:
        attempts, resumable = find_attempts(resumable, publication, options.resume)
        publication = dataclasses.replace(publication, attempts=tuple(attempts))
    return engine, publication, resumable


def _read_sources(
    builder: DatasetBuilder, pipeline: beam.Pipeline, sources: Mapping[str, Any], directories: Sequence[str]
) -> tuple[dict[str, beam.PCollection], dict[str, UnitReader]]:
    """Returns {split: PCollection, the input of `WriteExamples`} and {split: `UnitReader` of its source}.

    The source of a split is a PCollection or PTransform, a `SourceUnits`, or an iterable, which counts as one unit.
    Only the latter two have a reader. Splits that are read together are under the name of the first one.

    Args:
        builder: the builder that has the sources.
        pipeline: the pipeline to which the transforms are added.
        sources: split -> source.
        directories: spill directories of earlier runs, with their checkpoints.
    """
    examples: dict[str, beam.PCollection] = {}
    readers: dict[str, UnitReader] = {}
    units = units_of(builder, sources)
    for split, source in sources.items():
        if isinstance(source, beam.PCollection):
            examples[split] = source
        elif isinstance(source, beam.PTransform):
            examples[split] = pipeline | f"Generate {split}" >> source
    for splits in read_together(units):
        reader = UnitReader.of({split: units[split] for split in splits}, directories)
        examples[splits[0]] = pipeline | f"Start {reader.label}" >> beam.Impulse()
        readers[splits[0]] = reader
    return examples, readers


def units_of(builder: DatasetBuilder, sources: Mapping[str, Any]) -> dict[str, SourceUnits]:
    """Returns {split: `SourceUnits`} of the sources that are not Beam's; an iterable becomes the one unit "all".

    Raises:
        BeamDatasetsError: a source is neither Beam's, nor a `SourceUnits`, nor an iterable or a function.
    """
    units: dict[str, SourceUnits] = {}
    for split, source in sources.items():
        if isinstance(source, SourceUnits):
            units[split] = source
        elif not isinstance(source, _OF_BEAM):
            if not callable(source):
                check_iterable(split, source, builder)
            units[split] = SourceUnits(["all"], functools.partial(_read_iterable, split, builder))
    return units


def _read_iterable(split: str, builder: DatasetBuilder, _: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the (key, example) pairs of a split whose source is an iterable; a worker asks the builder for it again.

    The unit, the last argument, is not used.
    """
    yield from iterate_examples(split, builder, builder.split_generators(engines.unused_pipeline())[split])


def _read_counters(result: PipelineResult) -> dict[str, Any]:
    """Returns {'namespace/name': total of a counter, or frozenset of strings} of the metrics of the user's transforms.

    Metrics of this package and of Beam are left out. Returns {} if the runner does not support queries; also, with a
    warning, if its job server has ended before the job, since the numbers of rows that were left out are lost with it.
    """
    try:
        query_result = result.metrics().query()
    except NotImplementedError:
        return {}
    except grpc.RpcError:
        _log.warning(
            "The job server has ended before the job, so what the job counted is unknown, such as the rows that "
            "--skip_bad left out: run.json does not have it."
        )
        return {}
    metrics = [metric for kind in ("counters", "string_sets") for metric in query_result.get(kind, ())]
    totals: dict[str, Any] = {}
    for metric in metrics:
        name = f"{metric.key.metric.namespace}/{metric.key.metric.name}"
        if metric.key.metric.namespace in ("beam_datasets", "beam"):  # the latter are those of an engine itself
            continue
        value = metric.result
        old = totals.get(name, 0 if isinstance(value, int) else frozenset())
        totals[name] = old + value if isinstance(value, int) else old | frozenset(value)
    return totals
