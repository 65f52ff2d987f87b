"""VerifyDataset: a published dataset verified by an engine's workers, a shard or some small ones an element."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.beam import engine as engines
from beam_datasets.beam import running
from beam_datasets.errors import LostExamplesError
from beam_datasets.verifying.findings import Report
from beam_datasets.verifying.judging import conclude
from beam_datasets.verifying.known import Known, inspect
from beam_datasets.verifying.many_shards import ShardsTask, ShardTable, read_shards

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from apache_beam.options.pipeline_options import PipelineOptions


_ELEMENT_BYTES = 8 << 20
"""What an element's shards have together at most, unless it is one alone: about as many are read while one is sent."""

_ELEMENTS = 128  # of a dataset at least, where it has as many shards


class VerifyDataset(beam.PTransform):
    """Verifies a published dataset; its output is one element, the `Report`.

    What should be in the directory is read when the transform is made; each shard is read by one worker,
    and with it, where they are local and small, those behind it.

    Attributes:
        directory: the dataset's.

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
            storage_options: of the store of the dataset; see `beam_datasets.builder`, and `WriteDataset`.

        Raises:
            DatasetNotFoundError: there is no such dataset.
            MetadataError: the shards are of another format than TFRecord.
        """
        super().__init__()
        self._known = inspect(catalog.find_published(name_or_dir, data_dir, storage_options))
        self.directory = self._known.directory
        self._decode = boolean("decode", decode)
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Report]:
        """Checks that the workers reach the dataset, and builds the flow."""
        engine = engines.engine_of(begin.pipeline, shared_disk=self._shared_disk)
        engines.check_paths_are_shared(engine, {"the dataset": self._known.directory})
        judged_by = replace(self._known, names=None, manifest_text=None)  # what is sent to workers is compressed
        return (
            begin
            | "Shards" >> beam.Create(list(_tasks(self._known, decode=self._decode)), reshuffle=False)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.MapTuple(_read_numbered)
            | "Collect" >> beam.combiners.ToList()
            | "Conclude" >> beam.Map(_conclude, judged_by)
        )

    def display_data(self) -> dict[str, DisplayDataItem]:
        """Returns what a job's page shows of this transform."""
        return {
            "dataset": DisplayDataItem(self._known.full_name, label="Dataset"),
            "directory": DisplayDataItem(str(self._known.directory), label="Directory"),
        }


def _tasks(known: Known, *, decode: bool) -> Iterator[tuple[int, ShardsTask]]:
    """Yields the shards to read, and the number of the first of them: some at a time where they are local and small."""
    names, features = known.filenames, known.record_features(decode=decode)
    count = 1
    if names and known.file_bytes is not None and not storage.is_remote(known.directory):
        count = max(1, min(len(names) // _ELEMENTS, _ELEMENT_BYTES * len(names) // known.file_bytes))
    for first in range(0, len(names), count):
        yield first, ShardsTask(known.directory, names[first : first + count], features, decode)


def _read_numbered(first: int, task: ShardsTask) -> tuple[int, ShardTable]:
    return first, read_shards(task)


def _conclude(found: Iterable[tuple[int, ShardTable]], known: Known) -> Report:
    ordered = sorted(found, key=lambda numbered: numbered[0])
    verified = [number for first, table in ordered for number in range(first, first + len(table))]
    if verified != list(range(known.num_shards)):
        raise LostExamplesError(
            f"{known.directory}: of {known.num_shards} shards {len(verified)} were verified. "
            "The engine lost or doubled some, so nothing is known of the dataset. Run it again."
        )
    return conclude(known, ShardTable.joined([table for _, table in ordered]))


def run(
    name_or_dir: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    decode: bool = False,
    report: str | None = None,
    beam_options: PipelineOptions | Sequence[str] | None = None,
    num_workers: int | None = None,
    shared_disk: bool = False,
    wait: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Report | None:
    """Verifies a dataset by a pipeline, and returns the report; None where the job is not waited for.

    Args:
        name_or_dir: see `VerifyDataset`.
        data_dir: see there.
        decode: see there.
        report: a file for the report, as JSON, that the workers and this machine see; None where they share a disk. In
            the dataset's bucket it is written with the dataset's options.
        beam_options: Beam's pipeline options; without a runner, FnApiRunner with a worker process a core.
        num_workers: worker processes of a local run.
        shared_disk: see there.
        wait: for the end of the job; False returns when a remote runner has it.
        storage_options: see there.

    Raises:
        BeamDatasetsError: the dataset could not be verified.
        ValueError: an option is unusable.
    """
    engine = engines.choose_engine(beam_options, num_workers=num_workers, shared_disk=shared_disk, wait=wait)
    verifying = VerifyDataset(
        name_or_dir, data_dir=data_dir, decode=decode, shared_disk=shared_disk, storage_options=storage_options
    )
    running.check_report_place(engine, report, shared_disk=shared_disk, what="the report")
    found = running.run_for_report(engine, "Verify" >> verifying, _text, verifying.directory, report)
    return None if found is None else Report.from_json(found)


def _text(report: Report) -> str:
    return json.dumps(report.to_json(), indent=1)
