"""Export: slices of published datasets become files of other formats. `Create(shards) | Map(write)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_datasets.beam import engine as engines
from beam_datasets.beam.running import run_pipeline
from beam_datasets.exporting.plan import ExportPlan, ExportRequest
from beam_datasets.exporting.run import WrittenFile, finish, staging, watching, write_shard

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from apache_beam.options.pipeline_options import PipelineOptions

    NameOrDir = str | os.PathLike[str]


class Export(beam.PTransform):
    """Writes slices of a published dataset as files of another format; its output is one element, their directory.

    The files stand in the order of the slice. Nothing is visible before all is written; of a job that fails, a
    directory `incomplete.*` may be left beside the place.

    >>> pipeline | Export("squares", "squares_parquet", split="train[:10%]", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        source: NameOrDir,
        to: NameOrDir,
        format: str = "parquet",
        *,
        shared_disk: bool = False,
        **request: Any,
    ) -> None:
        """Opens the dataset, and checks all that can be seen in its metadata.

        Args:
            source: a published dataset: a name such as 'digits:1.*.*', or a version's directory.
            to: the directory to make.
            format: the name of the format.
            shared_disk: the workers of a remote runner see this machine's paths.
            **request: what to export, and more about the other arguments: see `beam_datasets.export`.

        Raises:
            BeamDatasetsError: it cannot be done; the message contains the reason.
            ValueError: an argument is unusable.
        """
        super().__init__()
        self._plan = ExportRequest(source, to, format, **request).plan()
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Checks that the workers reach all places, and builds the flow."""
        engine = engines.begins_on(begin, self, self._shared_disk)
        _check_reach(self._plan, engine)
        return begin | _Flow(self._plan.on(engine.name))


def run(
    plan: ExportPlan,
    *,
    beam_options: PipelineOptions | Sequence[str] | None = None,
    num_workers: int | None = None,
    shared_disk: bool = False,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Exports and returns the directory.

    Args:
        plan: what to export, and where.
        beam_options: Beam's pipeline options; without a runner, FnApiRunner with a worker process a core.
        num_workers: worker processes of a local run.
        shared_disk: the workers of a remote runner see this machine's paths.
        progress: called about twice a second of a local run with how many bytes were written so far.

    Raises:
        BeamDatasetsError: why nothing was exported.
        ValueError: an option is unusable.
    """
    engine = engines.choose_engine(beam_options, num_workers=num_workers, shared_disk=shared_disk)
    _check_reach(plan, engine)
    plan = plan.on(engine.name)
    with staging(plan), engine.pipeline(plan.run.worker_log) as pipeline:
        _ = pipeline | _Flow(plan)
        run_pipeline(pipeline, watching(plan, progress if engine.local else None))
    return plan.directory


def _check_reach(plan: ExportPlan, engine: engines.Engine) -> None:
    sources = {f"the source {number + 1}": directory for number, directory in enumerate(plan.sources)}
    engines.refuse_template(engine)
    engines.check_paths_are_shared(engine, {"the output": plan.directory, **sources})


@dataclass
class _Flow(beam.PTransform):
    """Writes the files, and puts them in their place.

    Attributes:
        plan: what is written.
    """

    plan: ExportPlan

    def __post_init__(self) -> None:
        super().__init__()

    def default_label(self) -> str:
        return "Export"

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        files = (
            begin
            | "Plan" >> beam.Create([self.plan], reshuffle=False)
            | "Shards" >> beam.FlatMap(ExportPlan.shards)
            | "ReshuffleShards" >> beam.Reshuffle()
            | "Write" >> beam.ParDo(_Write(self.plan))
        )
        return (
            begin
            | "Start" >> beam.Create([self.plan], reshuffle=False)
            | "Finish" >> beam.Map(finish, beam.pvalue.AsList(files))
        )


class _Write(beam.DoFn):
    """A shard -> the written file."""

    def __init__(self, plan: ExportPlan) -> None:
        self._plan = plan
        self._examples = Metrics.counter("beam_datasets", "examples_written")
        self._bytes = Metrics.counter("beam_datasets", "bytes_written")

    def process(self, shard: tuple[str, int]) -> Iterator[WrittenFile]:
        written = write_shard(self._plan, *shard)
        self._examples.inc(written.num_examples)
        self._bytes.inc(written.num_bytes)
        yield written
