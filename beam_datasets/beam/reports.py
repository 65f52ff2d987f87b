"""VerifyDataset and SummarizeDataset: reports about a published dataset, made by an engine's workers.

Each `run_*` has a pipeline write its report, as JSON, to a file that the workers and this machine see, and reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.beam.tasks import SpreadTasks
from beam_datasets.engines import engine as engines
from beam_datasets.engines.running import check_engine, run_pipeline
from beam_datasets.errors import LostExamplesError, StorageError
from beam_datasets.options import EngineOptions
from beam_datasets.statistics import Statistics
from beam_datasets.statistics import report as statistics
from beam_datasets.statistics.summary import ShardRange, StatisticsRequest, divide_range, gather, merge, prepare_request
from beam_datasets.verifying import Expected, Report, ShardFacts, conclude, read_expected
from beam_datasets.verifying.scan import RecordChecks, read_shard


class VerifyDataset(beam.PTransform):
    """Verifies a published dataset; its output is one element, the `Report`.

    The expected content is read when the transform is created; each shard is read by one worker.

    Attributes:
        directory: directory of the dataset.

    >>> report = pipeline | VerifyDataset("squares", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        name_or_dir: str | os.PathLike[str],
        *,
        data_dir: str | os.PathLike[str] | None = None,
        decode: bool = False,
        shared_disk: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Reads the small files of the dataset.

        Args:
            name_or_dir: a name such as 'squares:1.*.*', or a version's directory.
            data_dir: root of the datasets, for a name.
            decode: whether to decode each record, images too.
            shared_disk: the workers of a remote runner see this machine's paths.
            storage_options: options of the dataset's store; see `beam_datasets.builder`, and `WriteDataset`.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            MetadataError: the shards are of another format than TFRecord.
        """
        super().__init__()
        self._expected = read_expected(catalog.find_published(name_or_dir, data_dir, storage_options))
        self.directory = self._expected.directory
        self._decode = boolean("decode", decode)
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Report]:
        """Checks that the workers can read the dataset, and builds the transforms.

        Returns:
            A PCollection of one element, the `Report`.

        Raises:
            TypeError: the transform was applied to a PCollection instead of the pipeline.
            ValueError, EngineError: the dataset is on this machine's disk and the workers are on others.
            StoreOptionsError: the store has storage_options, which the workers do not get.
        """
        engines.engine_at_start(begin, self, self._shared_disk, dataset=self._expected.directory)
        features = self._expected.record_features(decode=self._decode)
        return (
            begin
            | "Start" >> beam.Create([list(self._expected.filenames)], reshuffle=False)
            | "Shards" >> SpreadTasks(_number_shards, task_type=tuple[int, str])
            | "Read" >> beam.ParDo(_ReadShards(self.directory, features, self._decode))
            | "Collect" >> beam.combiners.ToList()
            | "Conclude" >> beam.Map(_conclude, self._expected)
        )


def _number_shards(filenames: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yields (number, name) of each shard."""
    yield from enumerate(filenames)


class _ReadShards(beam.DoFn):
    """(number, name) of a shard -> (number, `ShardFacts` of the shard).

    Args:
        directory: directory of the dataset.
        features: features by which records are checked; None if they are not known.
        decode: whether to decode the records, too.
    """

    def __init__(self, directory: str, features: Any, decode: bool) -> None:
        self._directory, self._features, self._decode = directory, features, decode

    def setup(self) -> None:
        """Compiles the checks of records."""
        self._checks = RecordChecks.of(self._features, decode=self._decode)

    def process(self, element: tuple[int, str]) -> Iterator[tuple[int, ShardFacts]]:
        """Yields (number of the shard, `ShardFacts` of reading it).

        Args:
            element: (number of the shard, its file name).
        """
        number, name = element
        yield number, read_shard(storage.join(self._directory, name), self._checks)


def _conclude(numbered_facts: Iterable[tuple[int, ShardFacts]], expected: Expected) -> Report:
    """Returns the report of the shards' facts, after checking that there is one result for each shard.

    Raises:
        LostExamplesError: results are missing or duplicated.
    """
    facts = sorted(numbered_facts, key=lambda numbered: numbered[0])
    if [number for number, _ in facts] != list(range(len(expected.filenames))):
        raise LostExamplesError(
            f"{expected.directory}: {len(facts)} results arrived for {len(expected.filenames)} shards. "
            "The engine lost or duplicated some, so nothing is known of the dataset. Run it again."
        )
    return conclude(expected, [shard for _, shard in facts])


def run_verify(
    name_or_dir: str | os.PathLike[str],
    options: EngineOptions,
    *,
    report: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    decode: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Report | None:
    """Verifies a dataset by a pipeline, and returns the report; None where the job is not waited for.

    Args:
        name_or_dir: see `VerifyDataset`, as for the arguments after `report`.
        options: options of where it runs.
        report: a file for the report, as JSON, that the workers and this machine see; None where they share a disk. In
            the dataset's bucket it is written with the dataset's options.
        data_dir: root of the datasets, for a name.
        decode: whether every value is decoded too.
        storage_options: options of the store.

    Raises:
        BeamDatasetsError: the dataset could not be verified.
        ValueError: an option is unusable.
    """
    engine, shared_disk = engines.choose_engine(options), options.shared_disk
    verifying = VerifyDataset(
        name_or_dir, shared_disk=shared_disk, data_dir=data_dir, decode=decode, storage_options=storage_options
    )
    _check_place(engine, report, shared_disk=shared_disk, content="the report")
    report_json = _run_report(engine, "Verify" >> verifying, _format_report, verifying.directory, report)
    return None if report_json is None else Report.from_json(report_json)


def _format_report(report: Report) -> str:
    """Returns a report of `verify` as indented JSON."""
    return json.dumps(report.to_json(), indent=1)


class SummarizeDataset(beam.PTransform):
    """Gathers statistics of a published dataset; its output is one element, the `Statistics`.

    Attributes:
        request: the requested statistics.

    >>> statistics = pipeline | SummarizeDataset("squares", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        name_or_dir: str | os.PathLike[str] | StatisticsRequest,
        splits: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        shared_disk: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Opens the dataset: three small files.

        Args:
            name_or_dir: a name such as 'squares:1.*.*', or a version's directory; or a result of `prepare_request`.
            splits: expressions such as 'train[:10%]', each with its own statistics; None for each split.
            features: paths of features such as 'a' or 'b/c', with all that is below them; None for all.
            data_dir: root of the datasets, for a name.
            shared_disk: the workers of a remote runner see this machine's paths.
            storage_options: options of the dataset's store; see `beam_datasets.builder`, and `WriteDataset`.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            SplitError: a split cannot be read, or does not fit the dataset.
            FeatureKeyError: the feature does not exist.
        """
        super().__init__()
        is_request = isinstance(name_or_dir, StatisticsRequest)
        self.request: StatisticsRequest = (
            name_or_dir if is_request else prepare_request(name_or_dir, splits, features, data_dir, storage_options)  # type: ignore[assignment,arg-type]
        )
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Statistics]:
        """Checks that the workers reach the dataset, and builds the flow."""
        engines.engine_at_start(begin, self, self._shared_disk, dataset=self.request.directory)
        return (
            begin
            | "Slices" >> beam.Create([self.request], reshuffle=False)
            | "Runs" >> SpreadTasks(StatisticsRequest.runs, task_type=ShardRange)
            | "Cut" >> SpreadTasks(divide_range, self.request, self.request.range_bytes, task_type=ShardRange)
            | "Gather" >> beam.Map(gather, self.request)
            | "Merge" >> beam.CombineGlobally(merge)
            | "Conclude" >> beam.Map(statistics.conclude, self.request)
        )


def run_stats(request: StatisticsRequest, options: EngineOptions, *, report: str | None = None) -> Statistics:
    """Computes statistics by a pipeline, and returns them.

    Args:
        request: the requested statistics; see `statistics.summary.prepare_request`.
        options: options of where it runs.
        report: see `run_verify`.

    Raises:
        BeamDatasetsError: the dataset could not be read.
        ValueError: an option is unusable.
    """
    engine, shared_disk = engines.choose_engine(options), options.shared_disk
    if not engine.waits:
        raise ValueError("statistics are waited for, and a template is not run: leave out --template_location.")
    _check_place(engine, report, shared_disk=shared_disk, content="the statistics")
    summarizing = SummarizeDataset(request, shared_disk=shared_disk)
    statistics_json = _run_report(engine, "Summarize" >> summarizing, statistics.json_text, request.directory, report)
    return Statistics.from_json(statistics_json, request.directory)


def _check_place(engine: engines.Engine, report: str | None, *, shared_disk: bool, content: str) -> None:
    """Checks that there is a place for a report that the workers and this machine see.

    Args:
        engine: the engine that runs the pipeline.
        report: path of the report file; None for a temporary one.
        shared_disk: whether the workers of a remote runner see this machine's paths.
        content: the output of the workers, for errors, such as 'the statistics'.

    Raises:
        ValueError: the directory does not exist, or no file can be written to it.
    """
    if report is not None and engine.shares_disk:
        try:
            storage.check_writable(report, in_dir=True)
        except StorageError as error:
            raise ValueError(f"report is {report!r}, where no file can be written: {error}") from error
    if report is None and not engine.local and (shared_disk or not engine.shares_disk or not engine.waits):
        raise ValueError(
            f"workers of {engine.name} leave {content} in a file: give one that they and you see, --report"
        )


def _run_report(
    engine: engines.Engine,
    transform: beam.PTransform,
    text: Callable[[Any], str],
    directory: str,
    report: str | None,
) -> dict[str, Any] | None:
    """Runs a transform with one element as its output, and returns the decoded JSON to which the element was saved.

    Returns None if the engine does not wait for the end of the job.

    Args:
        engine: the environment in which the pipeline runs.
        transform: the transform; its output is one element, such as a `Report`.
        text: an importable function that converts the element to JSON text.
        directory: the dataset's directory. If the report is in the same bucket, it is written with the same options.
        report: path of the JSON file; None for a temporary one.

    Raises:
        BeamDatasetsError: the pipeline failed.
        ValueError: the workers do not see the dataset, or not the report.
    """
    with tempfile.TemporaryDirectory(prefix="beam_datasets_report_") as scratch:
        report_path = report or os.path.join(scratch, "report.json")
        path = storage.with_options_if_remote(report_path, None, other_path=directory)
        engines.check_paths_are_shared(engine, {"the dataset": directory, "the report": path})
        check_engine(engine)
        with engine.pipeline(os.path.join(scratch, "workers.log")) as pipeline:
            _ = pipeline | transform | "Save" >> beam.Map(_write_text, text, path)
            run_pipeline(pipeline, contextlib.nullcontext(), wait=engine.waits)
        return json.loads(storage.read_bytes(path)) if engine.waits else None


def _write_text(result: Any, text: Callable[[Any], str], path: str) -> None:
    """Writes the text of a result to a file, encoded as UTF-8.

    Args:
        result: the result, an argument of `text`.
        text: function from the result to the content of the file.
        path: path of the file.
    """
    storage.write_bytes(path, text(result).encode())
