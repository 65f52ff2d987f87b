"""SummarizeDataset: the statistics of a published dataset, gathered by an engine's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beam_datasets.beam import engine as engines
from beam_datasets.beam import running
from beam_datasets.statistics import Statistics
from beam_datasets.statistics.report import conclude, json_text
from beam_datasets.statistics.summary import Range, Request, cut, gather, merge, prepare

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence


class SummarizeDataset(beam.PTransform):
    """Gathers statistics of a published dataset; its output is one element, the `Statistics`.

    Attributes:
        request: what is asked for.

    >>> statistics = pipeline | SummarizeDataset("squares", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        name_or_dir: str | os.PathLike[str] | Request,
        splits: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        shared_disk: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Opens the dataset: three small files.

        Args:
            name_or_dir: a name such as 'squares:1.*.*', or a version's directory; or what `prepare` returned.
            splits: expressions such as 'train[:10%]', each of which gets statistics of its own; None for each split.
            features: paths of features such as 'a' or 'b/c', with all that is below them; None for all.
            data_dir: root of the datasets, for a name.
            shared_disk: the workers of a remote runner see this machine's paths.
            storage_options: of the store of the dataset; see `beam_datasets.builder`, and `WriteDataset`.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            SplitError: a split cannot be read, or does not fit the dataset.
            FeatureKeyError: the feature does not exist.
        """
        super().__init__()
        given = isinstance(name_or_dir, Request)
        self.request: Request = (
            name_or_dir if given else prepare(name_or_dir, splits, features, data_dir, storage_options)  # type: ignore[assignment,arg-type]
        )
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Statistics]:
        """Checks that the workers reach the dataset, and builds the flow."""
        engines.begins_on(begin, self, self._shared_disk, dataset=self.request.directory)
        return (
            begin
            | "Slices" >> beam.Create([self.request], reshuffle=False)
            | "ListRuns" >> beam.FlatMap(Request.runs)
            | "ReshuffleRuns" >> beam.Reshuffle()
            | "Cut" >> beam.FlatMap(cut, self.request, self.request.range_bytes)
            | "ReshuffleRanges" >> beam.Reshuffle().with_output_types(Range)
            | "Gather" >> beam.Map(gather, self.request)
            | "Merge" >> beam.CombineGlobally(merge)
            | "Conclude" >> beam.Map(conclude, self.request)
        )


def run(request: Request, *, report: str | None = None, shared_disk: bool = False, **engine_options: Any) -> Statistics:
    """Computes statistics by a pipeline, and returns them.

    Args:
        request: what is asked for; see `statistics.summary.prepare`.
        report: a file for them, as JSON, that the workers and this machine see; None where they share a disk. In
            the dataset's bucket it is written with the dataset's options.
        shared_disk: the workers of a remote runner see this machine's paths.
        **engine_options: beam_options and num_workers; see `engine.choose_engine`.

    Raises:
        BeamDatasetsError: the dataset could not be read.
        ValueError: an option is unusable.
    """
    engine = engines.choose_engine(shared_disk=shared_disk, **engine_options)
    if not engine.waits:
        raise ValueError("statistics are waited for, and a template is not run: leave out --template_location.")
    running.check_report_place(engine, report, shared_disk=shared_disk, what="the statistics")
    summarizing = SummarizeDataset(request, shared_disk=shared_disk)
    found = running.run_for_report(engine, "Summarize" >> summarizing, json_text, request.directory, report)
    return Statistics.from_json(found, request.directory)
