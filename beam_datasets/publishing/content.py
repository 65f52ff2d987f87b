"""The content of a version: its shards in order, checked to be complete, and the files that describe it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from beam_datasets import features as feature_trees
from beam_datasets.errors import LostExamplesError
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.manifest import ShardColumns
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.shard_files import WrittenShard


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


def complete_split(split: Any, shards: Iterable[WrittenShard]) -> list[WrittenShard]:
    """Returns the shards of a split in order, after checking that each was written once, with all examples.

    Args:
        split: plan of the split, with the attributes `split` (its name), `num_shards` and `num_examples`.
        shards: written shards of all splits.

    Raises:
        LostExamplesError: a shard is missing or was written twice, or the shards have another number of examples.
    """
    split_shards = sorted([shard for shard in shards if shard.split == split.split], key=operator.attrgetter("shard"))
    numbers, written = [shard.shard for shard in split_shards], sum(shard.num_examples for shard in split_shards)
    if numbers != list(range(split.num_shards)) or written != split.num_examples:
        raise LostExamplesError(
            f"split {split.split!r}: {len(split_shards)} shards with {written} examples were written, planned were "
            f"{split.num_shards} with {split.num_examples}. The engine lost or doubled some; nothing was published. "
            "Run it again."
        )
    return split_shards


def make_metadata_files(publication: Publication, columns: Mapping[str, ShardColumns]) -> dict[str, bytes]:
    """Returns {file name: content} of what describes the dataset, as TensorFlow Datasets writes it."""
    features = publication.info.features
    texts = {
        "features.json": feature_trees.to_json_text(features),
        **features.label_files(),
        **publication.info.extra_files(),
        INFO_FILE: publication.info.to_json_text(
            {split: (list(c.num_examples), sum(c.num_bytes)) for split, c in columns.items()}
        ),
    }
    return {name: text.encode() for name, text in texts.items()}
