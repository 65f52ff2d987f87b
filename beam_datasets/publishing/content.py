"""The content of a version: the plan, the shards in order, checked to be complete, and the metadata files."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from beam_datasets import features as feature_trees
from beam_datasets import storage
from beam_datasets.errors import LostExamplesError
from beam_datasets.metadata.info import INFO_FILE, DatasetInfo
from beam_datasets.metadata.manifest import Manifest, ShardColumns
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.shard_file import WrittenShard


class PlannedSplit(Protocol):
    """The size of a split that is to be written, as each plan of a job knows it."""

    @property
    def split(self) -> str:
        """The split's name."""

    @property
    def num_shards(self) -> int:
        """The number of shards that it will have."""

    @property
    def num_examples(self) -> int:
        """The number of examples in all of its shards."""


class ContentPlan(Protocol):
    """The planned content of a version, whether its examples are generated, copied, merged or renumbered."""

    @property
    def splits(self) -> Sequence[PlannedSplit]:
        """The splits, in their order in the metadata."""

    @property
    def libraries(self) -> Sequence[str]:
        """Libraries, with versions, that affect the bytes of examples which this run encoded, sorted."""

    @property
    def requests(self) -> storage.Requests:
        """I/O counts of making the plan."""

    @property
    def left_out(self) -> Sequence[Mapping[str, Any]]:
        """Reasons for which rows were left out, each {'reason': text, 'number': int, 'example': text}, for run.json."""


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """A split whose shards are there already; see `PlannedSplit`."""

    split: str
    num_shards: int
    num_examples: int


@dataclass(frozen=True, slots=True)
class ContentCounts:
    """The content of shards that are there already; see `ContentPlan`."""

    splits: Sequence[SplitCounts]
    libraries: Sequence[str] = ()
    requests: storage.Requests = field(default=storage.Requests())
    left_out: Sequence[Mapping[str, Any]] = ()


def kept_shards(dataset: str, split: str, columns: ShardColumns) -> Iterator[WrittenShard]:
    """Yields the shards of a split with their file names as paths.

    Args:
        dataset: name of the dataset.
        split: name of the split.
        columns: facts about the shards, from the manifest.
    """
    names = FilenameTemplate(dataset, split, "tfrecord").filenames(columns.num_shards)
    rows = zip(*(getattr(columns, column.name) for column in fields(columns)), strict=True)
    for shard, (name, row) in enumerate(zip(names, rows, strict=True)):
        yield WrittenShard(split, shard, 0, name, *row)


def complete_split(split: PlannedSplit, shards: Iterable[WrittenShard]) -> list[WrittenShard]:
    """Returns the shards of a split in order, after checking that each was written once, with all examples.

    Args:
        split: the planned split.
        shards: written shards of all splits.

    Raises:
        LostExamplesError: a shard is missing or was written twice, or the shards have another number of examples.
    """
    split_shards = sorted([shard for shard in shards if shard.split == split.split], key=operator.attrgetter("shard"))
    numbers, written = [shard.shard for shard in split_shards], sum(shard.num_examples for shard in split_shards)
    if numbers != list(range(split.num_shards)) or written != split.num_examples:
        raise LostExamplesError(
            f"split {split.split!r}: {len(split_shards)} shards with {written} examples were written, planned were "
            f"{split.num_shards} with {split.num_examples}. The engine lost or duplicated some",
            split=split.split,
            expected=f"{split.num_examples} examples in {split.num_shards} shards",
            got=f"{written} in {len(split_shards)}",
            outcome="nothing was published",
            advice="Run it again.",
        )
    return split_shards


def shard_columns(plan: ContentPlan, shards: Sequence[WrittenShard]) -> dict[str, ShardColumns]:
    """Returns {split: sizes and checksums of its shards}, after checking that all examples were written.

    Args:
        plan: the splits and the numbers of their examples.
        shards: the written shards of all splits, in any order.

    Raises:
        LostExamplesError: see `complete_split`.
    """
    return {split.split: columns_of(complete_split(split, shards)) for split in plan.splits}


def columns_of(shards: Sequence[WrittenShard]) -> ShardColumns:
    """Returns the sizes and checksums of a split's shards, which are in order."""
    return ShardColumns(
        **{column.name: [getattr(shard, column.name) for shard in shards] for column in fields(ShardColumns)}
    )


def make_metadata_files(info: DatasetInfo, columns: Mapping[str, ShardColumns]) -> dict[str, bytes]:
    """Returns {file name: content} of the metadata files that TensorFlow Datasets writes, too.

    Args:
        info: the dataset's description, without splits.
        columns: split -> sizes of its shards.
    """
    features = info.features
    texts = {
        "features.json": feature_trees.to_json_text(features),
        **features.label_files(),
        **info.extra_files(),
        INFO_FILE: info.to_json_text({split: (list(c.num_examples), sum(c.num_bytes)) for split, c in columns.items()}),
    }
    return {name: text.encode() for name, text in texts.items()}


def make_manifest(
    publication: Publication,
    columns: Mapping[str, ShardColumns],
    texts: Mapping[str, bytes],
    libraries: Sequence[str],
) -> Manifest:
    """Returns the manifest of a version.

    Args:
        publication: the announced publication.
        columns: split -> sizes and checksums of its shards.
        texts: {file name: content} of the metadata; see `make_metadata_files`.
        libraries: see `ContentPlan`.
    """
    return Manifest(
        name=publication.info.name,
        config=publication.info.config_name,
        version=str(publication.info.version),
        splits=columns,
        metadata={name: hashlib.sha256(text).hexdigest() for name, text in texts.items()},
        builder=publication.builder,
        options={**publication.options, **({"libraries": list(libraries)} if libraries else {})},
        source=publication.source,
    )
