"""Writing shards in this process, without an engine: for new orders, and for small inputs."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from beam_datasets import frames
from beam_datasets.errors import BeamDatasetsError, GenerationError, InvalidKeyError
from beam_datasets.features import compile_encoder
from beam_datasets.options import EngineOptions, ShardingOptions
from beam_datasets.publishing import phases, staged_inputs
from beam_datasets.publishing.groups import join_parts, write_group
from beam_datasets.publishing.output_log import recorded_output
from beam_datasets.publishing.publication import Workers, announce
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.shuffle import histogram as histograms
from beam_datasets.shuffle import plan as planning
from beam_datasets.shuffle import routing
from beam_datasets.shuffle.block_builder import NOT_UTF8, BlockBuilder, NewBlock
from beam_datasets.shuffle.blocks import AnyBlock, BlockCollector, histogram_of
from beam_datasets.shuffle.histogram import EMPTY, Histogram
from beam_datasets.shuffle.plan import Plan
from beam_datasets.shuffle.rejected import Rejections
from beam_datasets.sources.units import SourceUnits, describe_source_error, read_together, unpack_with_splits

if TYPE_CHECKING:
    from beam_datasets.metadata.info import DatasetInfo
    from beam_datasets.metadata.inputs import Inputs

BLOCK_SIZE = 16 << 20
_HISTOGRAMS_MERGED = 64  # together


def generate(
    info: DatasetInfo,
    builder: str,
    sources: Mapping[str, SourceUnits],
    sharding: ShardingOptions,
    inputs: Inputs | None = None,
    checksums: SourceUnits | None = None,
) -> str:
    """Generates a dataset in this process and returns the published directory.

    Args:
        info: the dataset's description, without splits.
        builder: module and class of the builder, as 'module:Class'.
        sources: split -> its source.
        sharding: options that decide the shards.
        inputs: the files that it is built from, for inputs.json; None for none.
        checksums: checksums of these files; see `beam_datasets.beam.generate.generate`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: any other reason why nothing was published.
    """
    publication = announce(
        info, info.data_dir, workers=Workers(), sharding=sharding, builder=builder, spilling=EngineOptions()
    )
    spill_dir = publication.spill_dir
    destination = Destination(publication.staging_dir, info.name, ordered=sharding.ordered, features=info.features)
    libraries: set[str] = set()
    rejections: dict[str, Rejections] = {}
    with phases.staging(publication), recorded_output(publication.worker_log):
        publication = staged_inputs.stage_inputs(publication, inputs)
        if checksums is not None:
            file_checksums = itertools.chain.from_iterable(map(checksums.read, checksums.units))
            publication = staged_inputs.stage_checksums(publication, dict(file_checksums))
        blocks = _encode_splits(info, sources, spill_dir, libraries, rejections)
        plan_and_shards = write_blocks(blocks, list(sources), sharding, destination, spill_dir, libraries, rejections)
        phases.publish(publication, *plan_and_shards)
    return publication.target


def _encode_splits(
    info: DatasetInfo,
    sources: Mapping[str, SourceUnits],
    spill_dir: str | None,
    libraries: set[str],
    rejections: dict[str, Rejections],
) -> Iterator[NewBlock]:
    """Yields the blocks of all splits.

    Args:
        info: description of the dataset, with its features.
        sources: split -> its source.
        spill_dir: directory for the payload of blocks; None keeps it in memory.
        libraries: a set, to which the libraries are added whose versions determine bytes of the examples.
        rejections: a dict, to which the counts of the rejected examples of each split are added.
    """
    for splits in read_together(sources):
        source, keeps = sources[splits[0]], {split: sources[split].keep for split in splits}
        new = partial(BlockBuilder, block_size=BLOCK_SIZE, ordered=info.disable_shuffling, spill_dir=spill_dir)
        builders = {split: new(split, compile_encoder(info.features, libraries)) for split in splits}
        key, count = None, 0
        try:
            for item in itertools.chain.from_iterable(map(source.read, source.units)):
                (key, example), belongs_to = unpack_with_splits(item, keeps)
                count += 1
                for split in belongs_to:
                    if builders[split].add(key, example):
                        yield from filter(None, [builders[split].flush()])
            yield from filter(None, [builder.flush() for builder in builders.values()])
            rejections |= {split: builder.take_rejections() for split, builder in builders.items()}
        except BeamDatasetsError:
            raise
        except UnicodeEncodeError:
            raise InvalidKeyError(NOT_UTF8) from None
        except (Exception, SystemExit) as error:  # sys.exit(0) must not pass for a success
            label = ", ".join(splits)
            message, key_note = describe_source_error(error, key, count, label)
            details = [f"in the source of {label!r}", *([key_note] if count else [])]
            raise GenerationError(message + frames.format_location(details, frames.of(error))) from error


def write_blocks(
    blocks: Iterable[NewBlock],
    splits: Sequence[str],
    sharding: ShardingOptions,
    destination: Destination,
    spill_dir: str | None,
    libraries: Collection[str] = (),
    rejections: Mapping[str, Rejections] | None = None,
) -> tuple[Plan, list[WrittenShard]]:
    """Writes all shards; returns the plan and the written shards.

    Args:
        blocks: blocks of all splits.
        splits: the splits, in their order.
        sharding: options that decide the number of shards and their examples.
        destination: staging directory and format of the shards.
        spill_dir: directory for spilled payload; None if it is inline.
        libraries: the libraries whose versions determined bytes of the examples; read after the last block.
        rejections: split -> counts of its rejected examples; read after the last block. None for none.
    """
    max_bins = histograms.max_bins(sharding.most_shards)
    shift = 0 if sharding.ordered else histograms.hash_shift(max_bins)
    counts: defaultdict[str, list[Histogram]] = defaultdict(list)
    read: list[AnyBlock] = []
    for block, loaded_block in blocks:
        read.append(block)
        counts[block.split].append(histogram_of(loaded_block, shift))
        if len(counts[block.split]) == _HISTOGRAMS_MERGED:
            counts[block.split] = [histograms.merge(counts[block.split], max_bins)]
    for split, rejected in (rejections or {}).items():
        counts[split].append(replace(EMPTY, rejections=rejected))
    merged = {
        split: replace(histograms.merge(parts, max_bins), libraries=frozenset(libraries))
        for split, parts in counts.items()
    }
    plan = planning.make_plan(splits, merged, sharding)
    groups: defaultdict[int, list[AnyBlock]] = defaultdict(list)
    collector = BlockCollector(spill_dir or "")
    while read:
        for block in read.pop().load():
            for number, block_range in collector.send(routing.route(block, plan.split(block.split))):
                groups[number].append(block_range)
    for number, listed in collector.flush():
        groups[number].append(listed)
    parts: defaultdict[tuple[str, int], list[WrittenShard]] = defaultdict(list)
    for number in sorted(groups):
        group = plan.group(number)
        parts[group.split, group.shard].append(write_group(group, groups.pop(number), destination))
    return plan, [
        join_parts(shard_parts, plan.split(split).num_shards, destination) for (split, _), shard_parts in parts.items()
    ]
