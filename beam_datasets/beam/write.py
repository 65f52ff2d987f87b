"""Writing encoded examples as a dataset: the stages from blocks to the published directory.

The stages only connect plain functions of `shuffle` and `publishing`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.window import GlobalWindows

from beam_datasets.beam import encode
from beam_datasets.beam.counting import count_distinct, libraries_alone, max_bins, merge_counts
from beam_datasets.beam.encode import COUNTS, HISTOGRAMS, EncodePairs, EncodeUnits, UnitReader
from beam_datasets.beam.metrics import count_written, with_requests
from beam_datasets.beam.publishing import publish_shards
from beam_datasets.beam.routing import route_blocks
from beam_datasets.beam.tasks import SpreadTasks
from beam_datasets.engines.engine import Transport
from beam_datasets.engines.failures import add_facts_to_message
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import compile_encoder
from beam_datasets.native import note_if_missing
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import groups, staged_inputs
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.publishing.staged_shards import ShardRecords
from beam_datasets.shuffle import histogram as histograms
from beam_datasets.shuffle import plan as planning
from beam_datasets.shuffle.blocks import AnyBlock
from beam_datasets.sources.units import SourceUnits


@dataclass
class WriteExamples(beam.PTransform):
    """Writes {split: PCollection of (key, example)} as the dataset that a Publication describes.

    Returns a PCollection of one element: the published directory.

    Attributes:
        publication: the publication of the dataset.
        sharding: options that decide the number of shards and their examples.
        transport: how records are sent to the shards.
        readers: key of `examples` -> reader of units of some splits; the PCollection has one element, of any value.
        splits: the splits, in their order; by default the keys of `examples`.
        checksums: checksums of the files that the dataset is built from; see `generate`.
    """

    publication: Publication
    sharding: ShardingOptions
    transport: Transport
    readers: Mapping[str, UnitReader] = field(default_factory=dict)
    splits: Sequence[str] = ()
    checksums: SourceUnits | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, examples: Mapping[str, beam.PCollection]) -> beam.PCollection:
        """Builds the flow: Encode, Plan, Route, group, Write, Join, Publish."""
        note_if_missing()  # before worker processes, which inherit that it was said
        splits = list(self.splits or examples)
        self.sharding.check_splits(splits)
        compile_encoder(self.publication.info.features)  # what cannot be encoded is refused before anything runs
        encoded = [outputs for split, pcoll in examples.items() for outputs in self._add_encode_steps(split, pcoll)]
        blocks = [outputs.blocks for outputs in encoded] | "MergeSplits" >> beam.Flatten()
        if self.sharding.ignore_duplicates:
            histograms_of_all = [outputs[HISTOGRAMS] for outputs in encoded] | "AllHistograms" >> beam.Flatten()
            distinct = count_distinct(blocks, histograms_of_all)
            libraries = histograms_of_all | "Libraries" >> beam.MapTuple(libraries_alone).with_output_types(COUNTS)
            counts = [distinct, libraries] | "MergeHistograms" >> beam.Flatten()
        else:
            counts = [outputs[HISTOGRAMS] for outputs in encoded] | "MergeHistograms" >> beam.Flatten()
        start = self._with_checksums(blocks.pipeline) if self.checksums else None
        return write_blocks(blocks, counts, splits, self.publication, self.sharding, self.transport, start=start)

    def _with_checksums(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Returns the publication, whose record of input files gets their checksums, which workers make or ask for."""
        assert self.checksums is not None
        checksums = (
            pipeline
            | "StartInputs" >> beam.Impulse()
            | "ListInputs" >> SpreadTasks(_all_units, self.checksums.units, task_type=Any)
            | "Checksum" >> beam.FlatMap(self.checksums.read).with_output_types(tuple[str, str])
        )
        start = pipeline | "Start" >> beam.Create([self.publication], reshuffle=False)
        return start | "RecordInputs" >> beam.Map(staged_inputs.stage_checksums, beam.pvalue.AsDict(checksums))

    def _add_encode_steps(self, split: str, examples: beam.PCollection) -> list[beam.pvalue.DoOutputsTuple]:
        """Adds the steps that encode a split; returns their outputs, each with blocks and histograms.

        Raises:
            ValueError: the PCollection is unbounded.
        """
        shift = None if self.sharding.ordered else histograms.hash_shift(max_bins(self.sharding, self.transport))
        if reader := self.readers.get(split):
            units = EncodeUnits(reader, self.publication.info.features, self.transport, shift)
            outputs: list[beam.pvalue.DoOutputsTuple] = examples | f"Encode {reader.label}" >> units
            return outputs
        if not examples.is_bounded:
            raise ValueError(
                f"split {split!r} is an unbounded PCollection, which never ends; a dataset is published when all its "
                "examples are there. Give a bounded one."
            )
        if examples.windowing != Windowing(GlobalWindows()):  # a dataset is one whole, whatever the pipeline divided
            examples |= f"Unwindow {split}" >> beam.WindowInto(
                GlobalWindows(), trigger=DefaultTrigger(), accumulation_mode=AccumulationMode.DISCARDING
            )
        encoder = EncodePairs(split, self.publication.info.features, self.transport, shift)
        return [examples | f"Encode {split}" >> encode.with_histograms(beam.ParDo(encoder))]


def _all_units(_: bytes, units: Sequence[Any]) -> Sequence[Any]:
    """Returns the units; a function of Beam's `FlatMap`, which passes the element of an `Impulse` first."""
    return units


def write_blocks(
    blocks: beam.PCollection,
    counts: beam.PCollection,
    splits: list[str],
    publication: Publication,
    sharding: ShardingOptions,
    transport: Transport,
    *,
    keyless: Collection[str] = (),
    start: beam.PCollection | None = None,
) -> beam.PCollection:
    """Writes blocks as the dataset that a Publication describes: Plan, Route, group, Write, Join, Publish.

    Args:
        blocks: blocks of all splits.
        counts: (split, histogram) of all of them.
        splits: the splits, in their order.
        publication: the publication of the dataset.
        sharding: options that decide the number of shards and their examples.
        transport: how records are sent to the shards.
        keyless: the splits whose indexes hold no sort keys.
        start: a PCollection of the publication, for which publishing waits; None for nothing else.
    """
    counted = merge_counts(counts, sharding, transport)
    named = blocks.pipeline | "Splits" >> beam.Create([splits], reshuffle=False)
    make_plan = beam.Map(planning.make_plan, beam.pvalue.AsDict(counted), sharding, transport.merge_limits)
    plan = beam.pvalue.AsSingleton(named | "Plan" >> make_plan)
    destination = Destination(
        publication.staging_dir,
        publication.info.name,
        ordered=sharding.ordered,
        ignore_duplicates=sharding.ignore_duplicates,
        keyless=keyless,
        features=publication.info.features,
    )
    write = _WriteGroup(destination, publication.shard_records, tells_facts=transport.tells_facts)
    routed, merges = route_blocks(blocks, plan, transport)
    written = (
        routed
        | "GroupByShard" >> beam.GroupByKey()
        | "Write" >> beam.ParDo(write, plan).with_output_types(tuple[tuple[str, int], WrittenShard])
    )
    shards = beam.pvalue.AsList(
        written | "GroupParts" >> beam.GroupByKey() | "Join" >> beam.Map(_join, destination, plan)
    )
    start = start or blocks.pipeline | "Start" >> beam.Create([publication], reshuffle=False)
    return publish_shards(start, publication, plan, shards, merges)


class _WriteGroup(beam.DoFn):
    """(group, blocks) -> ((split, number of the shard), the written shard or part)."""

    def __init__(self, destination: Destination, records: ShardRecords | None, *, tells_facts: bool) -> None:
        self._destination = destination
        self._tells_facts = tells_facts
        self._records = records
        self._reused = Metrics.counter("beam_datasets", "shards_reused")
        self._milliseconds = Metrics.distribution("beam_datasets", "group_milliseconds")

    def process(
        self, element: tuple[int, Iterable[AnyBlock]], plan: planning.Plan
    ) -> Iterator[tuple[tuple[str, int], WrittenShard]]:
        """Yields ((split, shard), written part of the shard); reuses the part if a previous run has recorded it.

        Args:
            element: (number of the group, blocks of its records).
            plan: plan of the shards.
        """
        group, began = plan.group(element[0]), time.monotonic()
        written = self._records and self._records.reuse(element[0], plan, self._destination)
        if written:
            self._reused.inc()
        else:
            try:
                written = groups.write_group(group, element[1], self._destination)
            except BeamDatasetsError as error:
                if self._tells_facts:
                    add_facts_to_message(error)
                raise
            if self._records:
                self._records.save(element[0], plan, written)
            self._milliseconds.update(int(1000 * (time.monotonic() - began)))
            count_written(written)
        yield (group.split, group.shard), with_requests(written)


def _join(
    element: tuple[tuple[str, int], Iterable[WrittenShard]],
    destination: Destination,
    plan: planning.Plan,
) -> WrittenShard:
    """Joins the parts of one shard; adds the storage requests of this process to the shard.

    Args:
        element: ((split, index of the shard), the shard's parts in any order).
        destination: the staging directory.
        plan: the plan, which has the number of shards of each split.
    """
    (split, _), parts = element
    return with_requests(groups.join_parts(parts, plan.split(split).num_shards, destination))
