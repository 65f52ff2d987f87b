"""WriteDataset: (key, example) -> a published dataset, as a transform of any Beam pipeline.

The stages only wire; what they do is implemented in `shuffle` and `publishing`, as plain functions.
"""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.window import GlobalWindows

from beam_datasets import catalog, storage
from beam_datasets.beam import encode
from beam_datasets.beam.encode import COUNTS, HISTOGRAMS, EncodePairs, EncodeUnits, UnitReader, in_window
from beam_datasets.engines import engine as engines
from beam_datasets.engines.engine import Transport
from beam_datasets.engines.failures import tell_facts
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import compile_encoder
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.names import RESERVED_SPLITS, check_config_name, check_dataset_name, check_split_name
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.native import note_if_missing
from beam_datasets.options import EngineOptions, ShardingOptions
from beam_datasets.publishing import groups, phases, runs, staged_inputs, store_commit
from beam_datasets.publishing.content import ContentPlan
from beam_datasets.publishing.publication import Publication, announce
from beam_datasets.publishing.runs import Decision
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.publishing.spill_dirs import choose_spill_dir
from beam_datasets.publishing.staged_files import StagedFile
from beam_datasets.publishing.staged_shards import ShardRecords
from beam_datasets.shuffle import histogram as histograms
from beam_datasets.shuffle import plan as planning
from beam_datasets.shuffle import routing
from beam_datasets.shuffle.blocks import AnyBlock, Block, BlockCollector
from beam_datasets.shuffle.histogram import Histogram
from beam_datasets.shuffle.merge import merge_blocks
from beam_datasets.shuffle.unique_keys import merge_unique, num_buckets, split_by_key
from beam_datasets.sources.units import SourceUnits

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from beam_datasets.metadata.info import InfoArguments

COUNTING_FANOUT = 32  # workers that merge the counts of one split before one merges theirs
MANY_SHARDS = 1 << 14  # what to be ready for on an engine of many machines, where the size rule has not chosen yet
SPREAD_COUNTS = tuple[tuple[str, int], Any]
_RUNS = "runs"
_DONE = "done"  # output of what the processes that merge read and write
_BUILDER = "beam_datasets.beam.write_dataset:WriteDataset"  # part of the digests of published manifests, so it stays


class WriteDataset(beam.PTransform):
    """Writes (key, example) pairs as a published dataset; its output is one element, the published directory.

    Applied to a PCollection it writes one split, applied to {split name: PCollection} several. Keys are unique within a
    split. Nothing is visible before all is written; of a job that fails, a directory `incomplete.*` may be left beside
    the version's place.

    >>> examples | WriteDataset("squares", {"n": np.int64}, data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        features: Any,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        version: VersionOrStr = "1.0.0",
        config: str | None = None,
        split: str = "train",
        num_shards: int | Mapping[str, int] | None = None,
        min_shard_size: int | None = None,
        max_shard_size: int | None = None,
        max_examples_per_split: int | None = None,
        ignore_duplicates: bool = False,
        payload: str | None = None,
        spill_dir: str | None = None,
        block_size: int | None = None,
        shared_disk: bool = False,
        release_notes: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **info: Unpack[InfoArguments],
    ) -> None:
        """Declares what is written.

        Args:
            name: the dataset's.
            features: its feature tree, or a dict of features.
            data_dir: root of the datasets.
            version: version of the dataset.
            config: name of the variant.
            split: name of the split where the input is one PCollection.
            num_shards: number of shards of each split: one number for all or {split: number}; None chooses by the size
                rule.
            min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
            max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
            max_examples_per_split: keep at most this many examples of each split, those with the lowest sort keys.
            ignore_duplicates: keep only the smallest record of the examples with the same key, instead of failing.
            payload: 'inline' or 'spilled'; None for inline on Dataflow, spilled elsewhere.
            spill_dir: directory for spilled payload; None for beside the staging directory.
            block_size: records are sorted and sent in blocks of about this size in bytes.
            shared_disk: the workers of a remote runner see this machine's paths.
            release_notes: version -> what is new in it.
            storage_options: options of the store of `data_dir`, such as `access_key_id` and `endpoint`; see
                `beam_datasets.builder`. Refused for an engine whose workers this process does not start: they and this
                process have their own, such as variables of the environment.
            **info: further arguments of DatasetInfo: description, supervised_keys, disable_shuffling, homepage, ...

        Raises:
            ValueError: a name or an option is unusable, or there are options for a local path.
        """
        super().__init__()
        check_dataset_name(name)
        if config is not None:
            check_config_name(config)
        root = catalog.root_dir(data_dir, storage_options)
        directory = storage.join(root, name, *filter(None, [config]), str(Version(version)))
        identity = DatasetIdentity(name, Version(version), directory, config_name=config, release_notes=release_notes)
        self._info = DatasetInfo(builder=identity, features=features, **info)
        self._split = split
        self._sharding = ShardingOptions.of(
            num_shards=num_shards,
            min_shard_size=min_shard_size,
            max_shard_size=max_shard_size,
            max_examples_per_split=max_examples_per_split,
            ignore_duplicates=ignore_duplicates,
            ordered=self._info.disable_shuffling,
        )
        self._options = EngineOptions(
            payload=payload, spill_dir=spill_dir, block_size=block_size, shared_disk=shared_disk
        )

    def expand(self, examples: beam.PCollection | Mapping[str, beam.PCollection]) -> beam.PCollection:
        """Checks that the version is free and the workers reach its place, and builds the flow."""
        splits = dict(examples) if isinstance(examples, Mapping) else {self._split: examples}
        for name in splits:
            check_split_name(name, reserved=RESERVED_SPLITS)
        pipeline = next(iter(splits.values())).pipeline
        engine = engines.engine_of(pipeline, shared_disk=self._options.shared_disk)
        engines.refuse_template(engine)
        publication = announce(
            self._info,
            self._info.data_dir,
            sharding=self._sharding,
            runner=engine.name,
            builder=_BUILDER,
        )
        spill_dir = choose_spill_dir(
            engine, publication.staging_dir, payload=self._options.payload, spill_dir=self._options.spill_dir
        )
        engines.check_paths_are_shared(engine, {engines.TARGET: publication.target, "spill_dir": spill_dir})
        publication = dataclasses.replace(publication, spill_dir=spill_dir, is_reserved=False)
        reserve(pipeline, publication)
        return splits | WriteExamples(publication, self._sharding, engine.transport(spill_dir, self._options))


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
        encoded = [outputs for split, pcoll in examples.items() for outputs in self._encode(split, pcoll)]
        blocks = [outputs.blocks for outputs in encoded] | "MergeSplits" >> beam.Flatten()
        if self.sharding.ignore_duplicates:
            histograms_of_all = [outputs[HISTOGRAMS] for outputs in encoded] | "AllHistograms" >> beam.Flatten()
            distinct = _count_distinct(blocks, histograms_of_all)
            libraries = histograms_of_all | "Libraries" >> beam.MapTuple(_libraries_alone).with_output_types(COUNTS)
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
            | "ListInputs" >> beam.FlatMap(_all_units, self.checksums.units)
            | "ShareInputs" >> beam.Reshuffle()
            | "Checksum" >> beam.FlatMap(self.checksums.read).with_output_types(tuple[str, str])
        )
        start = pipeline | "Start" >> beam.Create([self.publication], reshuffle=False)
        return start | "RecordInputs" >> beam.Map(staged_inputs.stage_checksums, beam.pvalue.AsDict(checksums))

    def _encode(self, split: str, examples: beam.PCollection) -> list[beam.pvalue.DoOutputsTuple]:
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
    merge = beam.CombinePerKey(_MergeHistograms(max_bins(sharding, transport)))
    if transport.many_machines:  # Beam's own fan-out of a hot key would pickle the keys
        counts = (
            counts
            | "SpreadCounts" >> beam.ParDo(_SpreadCounts()).with_output_types(SPREAD_COUNTS)
            | "CountParts" >> merge
            | "Gather" >> beam.MapTuple(_of_split).with_output_types(COUNTS)
        )
    counted = counts | "CountKeys" >> merge
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
    routed, merges = _route_blocks(blocks, plan, transport)
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


def _route_blocks(
    blocks: beam.PCollection, plan: beam.pvalue.AsSingleton, transport: Transport
) -> tuple[beam.PCollection, Any]:
    """Merges the blocks in the levels of the plan, and cuts them for the groups.

    Returns:
        (PCollection of (number of a group, blocks of its records), I/O counts of the merge tasks as a side input; ()
        without levels).
    """
    group_type, run_type = tuple[int, Any], tuple[tuple[str, int], Any]
    max_levels = transport.merge_limits.max_levels
    if not max_levels:
        return blocks | "Route" >> beam.ParDo(_Route(transport.spill_dir), plan).with_output_types(group_type), ()

    def typed(function: beam.DoFn) -> Any:
        """Returns a ParDo of the function with the plan as side input and the outputs 'groups', `_RUNS` and `_DONE`."""
        route = beam.ParDo(function, plan).with_output_types(group_type, **{_RUNS: run_type, _DONE: storage.Requests})
        return route.with_outputs(_RUNS, _DONE, main="groups")

    routed = blocks | "Route" >> typed(_Route(transport.spill_dir))
    group_outputs, merges = [routed.groups], []
    for level in range(max_levels):
        tasks = routed[_RUNS] | f"GroupByRun{level}" >> beam.GroupByKey()
        routed = tasks | f"Merge{level}" >> typed(_Merge(transport.spill_dir, level + 1))
        group_outputs.append(routed.groups)
        merges.append(routed[_DONE])
    return group_outputs | "Groups" >> beam.Flatten(), beam.pvalue.AsList(merges | "Merges" >> beam.Flatten())


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
        return start | "Publish" >> beam.Map(_publish, plan, shards, merges)
    decided = start | "Decide" >> beam.Map(_decide, plan, shards, merges)
    committed = (
        decided
        | "ListFiles" >> beam.FlatMap(_files_of).with_output_types(tuple[str, str, int, int])
        | "ReshuffleFiles" >> beam.Reshuffle()
        | "CommitShards" >> beam.FlatMap(_commit, publication)
    )
    return decided | "Publish" >> beam.Map(_make_visible, beam.pvalue.AsList(committed))


def max_bins(sharding: ShardingOptions, transport: Transport) -> int:
    """Returns the maximum number of bins of a histogram; many machines are given those of `MANY_SHARDS` shards."""
    return histograms.max_bins(max(sharding.most_shards, MANY_SHARDS if transport.many_machines else 0))


class _MergeHistograms(beam.CombineFn):
    """The histograms of a split's blocks -> the one of the split; holds at most about three of the largest size."""

    def __init__(self, max_bins: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._max_bins = max_bins

    def create_accumulator(self) -> list[Histogram]:
        """Returns an empty list of histograms."""
        return []

    def add_input(self, accumulator: list[Histogram], element: Histogram) -> list[Histogram]:
        """Returns the accumulator with one more histogram, merged into one if they have too many bins."""
        accumulator.append(element)
        if sum(len(part.counts) for part in accumulator) > 2 * self._max_bins:
            return self.compact(accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Histogram]]) -> list[Histogram]:
        """Returns one list of the histograms of all accumulators, merged whenever they have too many bins."""
        merged: list[Histogram] = []
        for accumulator in accumulators:
            for part in accumulator:
                merged = self.add_input(merged, part)
        return merged

    def compact(self, accumulator: list[Histogram]) -> list[Histogram]:
        """Returns a list of one histogram, into which those of the accumulator are merged."""
        return [self.extract_output(accumulator)]

    def extract_output(self, accumulator: list[Histogram]) -> Histogram:
        """Returns the histogram into which those of the accumulator are merged, with at most `max_bins` bins."""
        return histograms.merge(accumulator, self._max_bins)


class _SpreadCounts(beam.DoFn):
    """(split, histogram) -> ((split, number), histogram); the number is drawn for each bundle.

    A split is one key. So workers merge its histograms by number first, and one worker merges what they made.
    """

    def __init__(self) -> None:
        self._number = 0

    def start_bundle(self) -> None:
        """Draws the number of the bundle, in [0, `COUNTING_FANOUT`)."""
        self._number = random.randrange(COUNTING_FANOUT)

    def process(self, element: tuple[str, Histogram]) -> Iterator[Any]:
        """Yields ((split, number of the bundle), histogram)."""
        split, counts = element
        yield (split, self._number), counts


def _of_split(key: tuple[str, int], counts: Histogram) -> tuple[str, Histogram]:
    """Returns (split, histogram) of ((split, number), histogram)."""
    return key[0], counts


def _libraries_alone(split: str, counts: histograms.Histogram) -> tuple[str, histograms.Histogram]:
    """Returns (split, histogram) without keys: only the libraries, the number of blocks and the requests are kept."""
    return split, dataclasses.replace(
        histograms.EMPTY, libraries=counts.libraries, num_blocks=counts.num_blocks, requests=counts.requests
    )


def _count_distinct(blocks: beam.PCollection, counts: beam.PCollection) -> beam.PCollection:
    """Returns (split, histogram) in which each key of the blocks counts once: sends keys and sizes, no payload.

    Args:
        blocks: blocks of all splits.
        counts: (split, histogram) of all blocks, which decide the number of buckets.
    """
    totals = counts | "Totals" >> beam.MapTuple(_total_of).with_output_types(tuple[str, int])
    total = beam.pvalue.AsDict(totals | "SumTotals" >> beam.CombinePerKey(sum))
    return (
        blocks
        | "SplitByKey" >> beam.FlatMap(_split_by_key, total).with_output_types(tuple[tuple[str, int], Any])
        | "GroupKeys" >> beam.GroupByKey()
        | "MergeUnique" >> beam.MapTuple(_merge_unique).with_output_types(COUNTS)
    )


def _total_of(split: str, counts: histograms.Histogram) -> tuple[str, int]:
    """Returns (split, number of keys that the histogram counts)."""
    return split, counts.total


def _split_by_key(block: AnyBlock, totals: Mapping[str, int]) -> Iterator[Any]:
    """Yields ((split, bucket), (keys, framed sizes)) of a block's records; see `shuffle.unique_keys.split_by_key`.

    Args:
        block: the block, spilled or not.
        totals: split -> number of its examples, which decides the number of buckets.
    """
    for loaded in block.load():
        yield from split_by_key(loaded, num_buckets(totals[block.split]))


def _merge_unique(key: tuple[str, int], parts: Iterable[tuple[bytes, bytes]]) -> tuple[str, histograms.Histogram]:
    """Returns (split, histogram of a bucket in which each key counts once); see `shuffle.unique_keys.merge_unique`.

    Args:
        key: (split, bucket).
        parts: (keys, framed sizes) of the bucket from all blocks.
    """
    return key[0], merge_unique(parts)


def _route(block: Block, plan: planning.Plan, level: int) -> Iterator[tuple[Any, Block]]:
    """Yields (a group, or (split, task) of this level if the split has it; records of the block that it is sent)."""
    split = plan.split(block.split)
    if not block.path or level == len(split.levels):
        yield from routing.route(block, split)
        return
    for task, part in routing.route_to_runs(block, split, split.levels[level]):
        yield (block.split, task), part


class _Route(beam.DoFn):
    """Blocks -> (group, records that it is sent), and beside them ((split, task), records) for tasks of a level.

    Args:
        spill_dir: directory of spilled blocks; None for inline ones.
        level: number of the merge level that comes next.
    """

    def __init__(self, spill_dir: str | None, level: int = 0) -> None:
        self._spill_dir = spill_dir
        self._level = level

    def start_bundle(self) -> None:
        """Forgets what a bundle that failed had collected."""
        self._collector = BlockCollector(self._spill_dir or "")

    def process(self, blocks: Any, plan: planning.Plan) -> Iterator[Any]:
        """Yields (group, block), and ((split, task), block) tagged `_RUNS`.

        Inline blocks are yielded at once, spilled ones when enough of them are collected; see `BlockCollector`.
        """
        for block in blocks.load():
            yield from map(_tag_runs, self._collector.send(_route(block, plan, self._level)))

    def finish_bundle(self) -> Iterator[Any]:
        """Yields (group, blocks) of the last spilled blocks."""
        yield from map(in_window, map(_tag_runs, self._collector.flush()))


def _tag_runs(sent: tuple[Any, AnyBlock]) -> Any:
    """Returns (group, block) unchanged, and ((split, merge task), block) as an output tagged `_RUNS`."""
    return sent if isinstance(sent[0], int) else beam.pvalue.TaggedOutput(_RUNS, sent)


class _Merge(_Route):
    """((split, task), blocks) -> as `_Route` of the block that they are merged into."""

    def process(self, element: Any, plan: planning.Plan) -> Iterator[Any]:
        """Yields (group, blocks) of the collected merged blocks when they are enough."""
        return super().process(merge_blocks(element[1], self._spill_dir or ""), plan)

    def finish_bundle(self) -> Iterator[Any]:
        """Also yields the storage requests of this process since the last count, tagged `_DONE`."""
        yield from super().finish_bundle()
        yield in_window(beam.pvalue.TaggedOutput(_DONE, encode.count_requests()))


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
                    tell_facts(error)
                raise
            if self._records:
                self._records.save(element[0], plan, written)
            self._milliseconds.update(int(1000 * (time.monotonic() - began)))
            encode.count_written(written)
        yield (group.split, group.shard), counted(written)


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
    return counted(groups.join_parts(parts, plan.split(split).num_shards, destination))


def counted(shard: WrittenShard) -> WrittenShard:
    """Returns the shard with the storage requests of this process since the last count added to its own."""
    return dataclasses.replace(shard, requests=storage.sum_requests([shard.requests, encode.count_requests()]))


Shards = list[WrittenShard]
Merges = Sequence[storage.Requests]
Decided = tuple[Publication, Decision]


def _publish(publication: Publication, plan: ContentPlan, shards: Shards, merges: Merges) -> str:
    """Publishes the shards and returns the published directory; see `phases.publish`."""
    return phases.publish(publication, plan, shards, merges)


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
