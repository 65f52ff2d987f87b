"""VerifyDataset: verifies a published dataset on the workers of an engine, one shard an element."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.beam import engine as engines
from beam_datasets.beam import running
from beam_datasets.errors import LostExamplesError
from beam_datasets.verifying import Expected, Report, ShardFacts, conclude, read_expected
from beam_datasets.verifying.scan import RecordChecks, read_shard

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping


class VerifyDataset(beam.PTransform):
    """Verifies a published dataset; its output is one element, the `Report`.

    What the directory should contain is read when the transform is made; each shard is read by one worker.

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
            DatasetNotFoundError: the dataset does not exist.
            MetadataError: the shards are of another format than TFRecord.
        """
        super().__init__()
        self._expected = read_expected(catalog.find_published(name_or_dir, data_dir, storage_options))
        self.directory = self._expected.directory
        self._decode = boolean("decode", decode)
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Report]:
        """Checks that the workers reach the dataset, and builds the flow."""
        engines.begins_on(begin, self, self._shared_disk, dataset=self._expected.directory)
        features = self._expected.record_features(decode=self._decode)
        return (
            begin
            | "Shards" >> beam.Create(list(enumerate(self._expected.filenames)), reshuffle=False)
            | "ReshuffleShards" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadShards(self.directory, features, self._decode))
            | "Collect" >> beam.combiners.ToList()
            | "Conclude" >> beam.Map(_conclude, self._expected)
        )


class _ReadShards(beam.DoFn):
    """(number, name) of a shard -> (number, what it contains)."""

    def __init__(self, directory: str, features: Any, decode: bool) -> None:
        self._directory, self._features, self._decode = directory, features, decode

    def setup(self) -> None:
        """Compiles the checks of records."""
        self._checks = RecordChecks.of(self._features, decode=self._decode)

    def process(self, element: tuple[int, str]) -> Iterator[tuple[int, ShardFacts]]:
        """Reads one shard."""
        number, name = element
        yield number, read_shard(storage.join(self._directory, name), self._checks)


def _conclude(found: Iterable[tuple[int, ShardFacts]], expected: Expected) -> Report:
    facts = sorted(found, key=lambda numbered: numbered[0])
    if [number for number, _ in facts] != list(range(expected.num_shards)):
        raise LostExamplesError(
            f"{expected.directory}: {len(facts)} results arrived for {expected.num_shards} shards. "
            "The engine lost or duplicated some, so nothing is known of the dataset. Run it again."
        )
    return conclude(expected, [shard for _, shard in facts])


def run(
    name_or_dir: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    decode: bool = False,
    report: str | None = None,
    shared_disk: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **engine_options: Any,
) -> Report | None:
    """Verifies a dataset by a pipeline, and returns the report; None where the job is not waited for.

    Args:
        name_or_dir: see `VerifyDataset`.
        data_dir: see there.
        decode: see there.
        report: a file for the report, as JSON, that the workers and this machine see; None where they share a disk. In
            the dataset's bucket it is written with the dataset's options.
        shared_disk: see there.
        storage_options: see there.
        **engine_options: beam_options, num_workers and wait; see `engine.choose_engine`.

    Raises:
        BeamDatasetsError: the dataset could not be verified.
        ValueError: an option is unusable.
    """
    engine = engines.choose_engine(shared_disk=shared_disk, **engine_options)
    verifying = VerifyDataset(
        name_or_dir, data_dir=data_dir, decode=decode, shared_disk=shared_disk, storage_options=storage_options
    )
    running.check_report_place(engine, report, shared_disk=shared_disk, what="the report")
    found = running.run_for_report(engine, "Verify" >> verifying, _text, verifying.directory, report)
    return None if found is None else Report.from_json(found)


def _text(report: Report) -> str:
    return json.dumps(report.to_json(), indent=1)
