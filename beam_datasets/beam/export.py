"""The Export transform: writes slices of published datasets as files of other formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beam_datasets.beam.metrics import count_written
from beam_datasets.beam.tasks import RunTasks
from beam_datasets.engines import engine as engines
from beam_datasets.engines.running import check_engine, check_visible, run_pipeline
from beam_datasets.exporting.run import ExportPlan, finish, plan_export, staging, watching, write_shard
from beam_datasets.options import EngineOptions
from beam_datasets.publishing.phases import check_can_run

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from beam_datasets.publishing.runs import Run
    from beam_datasets.publishing.shard_file import WrittenShard

    NameOrDir = str | os.PathLike[str]


class Export(beam.PTransform):
    """Writes slices of a published dataset as files of another format; its output is one element, their directory.

    The files are in the order of the slice. Nothing is visible before all is written; of a job that fails, a
    directory `incomplete.*` may be left beside the place.

    >>> pipeline | Export("squares", "squares_parquet", split="train[:10%]", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
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
        shared_disk: bool = False,
    ) -> None:
        """Opens the dataset, and checks all that can be seen in its metadata.

        Args:
            source: a published dataset: a name such as 'digits:1.*.*', or a version's directory.
            to: the directory to make.
            format: the name of the format.
            split: {name: expression}, as of `beam_datasets.export`, as are the arguments that follow.
            data_dir: root of the datasets, for a name.
            features: names of the features to export; None for all.
            binary: names of the features whose strings are bytes, not text.
            num_shards: number of files of each split.
            min_shard_size: lower limit of the size rule in bytes of the source.
            max_shard_size: upper limit of the size rule in bytes of the source.
            storage_options: options of the store of `to`.
            source_storage_options: options of the store of the source.
            shared_disk: whether the workers of a remote runner see this machine's paths.

        Raises:
            BeamDatasetsError: it cannot be done; the message contains the reason.
            ValueError: an argument is unusable.
        """
        super().__init__()
        self._plan = plan_export(
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
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Checks that workers can access all directories, and adds the transforms."""
        engine = engines.engine_at_start(begin, self, self._shared_disk)
        _check_reach(self._plan, engine)
        return _write_files(begin, self._plan, replace(self._plan.new_run(engine.name), is_reserved=False))


def run(plan: ExportPlan, options: EngineOptions, progress: Callable[[int], None] | None = None) -> str:
    """Exports and returns the directory.

    Args:
        plan: the plan of the export.
        options: options of the engine.
        progress: called about twice a second of a local run with how many bytes were written so far.

    Raises:
        BeamDatasetsError: why nothing was exported.
        ValueError: an option is unusable.
    """
    engine = engines.choose_engine(options)
    _check_reach(plan, engine)
    check_engine(engine)
    publishing_run = plan.new_run(engine.name)
    with staging(publishing_run), engine.pipeline(publishing_run.worker_log) as pipeline:
        _write_files(pipeline, plan, publishing_run)
        watched = watching(publishing_run, progress if engine.local else None)
        run_pipeline(pipeline, watched, run=publishing_run)
        check_visible(publishing_run)
    return plan.target


def check_run(plan: ExportPlan, options: EngineOptions) -> None:
    """Makes the checks that `run` makes before a job; leaves no file. For the arguments and errors see `run`."""
    engine = engines.choose_engine(options)
    _check_reach(plan, engine)
    check_engine(engine)
    check_can_run(plan.new_run(engine.name))


def _check_reach(plan: ExportPlan, engine: engines.Engine) -> None:
    """Checks that the engine runs the export now, and that its workers see the source and target directories."""
    sources = {f"the source {number + 1}": directory for number, directory in enumerate(plan.sources)}
    engines.refuse_template(engine)
    engines.check_paths_are_shared(engine, {"the output": plan.target, **sources})


def _write_files(begin: beam.pvalue.PBegin | beam.Pipeline, plan: ExportPlan, publishing_run: Run) -> beam.PCollection:
    """Adds the writing of the files and their publication; returns the PCollection with the directory."""
    start = begin | "Plan" >> beam.Create([plan], reshuffle=False)
    write = RunTasks(ExportPlan.shards, _write_shard, publishing_run.staging_dir, task_type=tuple[str, int])
    return start | "Finish" >> beam.Map(finish, publishing_run, beam.pvalue.AsList(start | "Write" >> write))


def _write_shard(shard: tuple[str, int], plan: ExportPlan, staging_dir: str) -> WrittenShard:
    """Writes a shard of an export, counts it in Beam's metrics, and returns it.

    Args:
        shard: (split, number of the shard).
        plan: plan of the export.
        staging_dir: the run's staging directory.
    """
    return count_written(write_shard(plan, staging_dir, *shard))
