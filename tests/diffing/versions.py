"""Versions of a small dataset to compare, written by the formats alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from beam_datasets import features
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.keys import hash_key, ordered_key
from beam_datasets.metadata.manifest import Manifest, ShardColumns
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.metadata.version import Version

Examples = dict[Any, dict[str, Any]]


@dataclass(frozen=True)
class Made:
    """A version before it is written.

    Attributes:
        features: of an example.
        splits: of each split the examples by their keys.
        num_shards: of each split.
        lengths: of splits, the examples of each shard, in place of equally many.
        ordered: whether it has disable_shuffling.
        indexed: whether shards have indexes, and the version a manifest.
        manifest: whether it has a manifest, where that is not as for indexes.
        orders: of splits, in place of that of their keys; their examples have no keys then.
        encode: what makes records, where it is not the features' own encoder.
        info: what else the DatasetInfo says.
    """

    features: features.FeaturesDict
    splits: Mapping[str, Examples]
    num_shards: int = 2
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)
    ordered: bool = False
    indexed: bool = True
    manifest: bool | None = None
    orders: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    encode: Callable[[dict[str, Any]], bytes] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def but(self, **changes: Any) -> Made:
        """Returns it with some attributes changed."""
        return replace(self, **changes)

    def write(self, root: Path, version: str, name: str = "pets") -> Path:
        """Writes it, and returns its directory."""
        directory = root / name / version
        directory.mkdir(parents=True)
        columns = {split: self._write_split(directory, name, split) for split in self.splits}
        identity = DatasetIdentity(name, Version(version), str(directory))
        info = DatasetInfo(builder=identity, features=self.features, disable_shuffling=self.ordered, **self.info)
        texts = {
            "dataset_info.json": info.to_json_text(
                {split: (list(c.num_examples), sum(c.num_bytes)) for split, c in columns.items()}
            ),
            "features.json": features.to_json_text(self.features),
            **self.features.label_files(),
            **info.extra_files(),
        }
        for file, text in texts.items():
            (directory / file).write_text(text)
        if self.indexed if self.manifest is None else self.manifest:
            hashes = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in texts.items()}
            (directory / "manifest.json").write_text(Manifest(name, None, version, columns, hashes).to_text())
        return directory

    def _write_split(self, directory: Path, name: str, split: str) -> ShardColumns:
        def sort_key(key: Any) -> bytes:
            return ordered_key(key) if self.ordered else hash_key(split, key)

        encode = self.encode or features.compile_encoder(self.features)
        order = self.orders.get(split)
        keys = sorted(self.splits[split], key=sort_key) if order is None else list(order)
        framed = tfrecord.frame_all([encode(self.splits[split][key]) for key in keys])
        shards: list[tuple[int, ...]] = []
        start, lengths = 0, self.lengths.get(split)
        stops = (
            shard_ends(len(keys), min(self.num_shards, len(keys))) if lengths is None else np.cumsum(lengths).tolist()
        )
        count = len(stops)
        for number, stop in enumerate(stops):
            path = directory / f"{name}-{split}.tfrecord-{number:05d}-of-{count:05d}"
            mine, data = framed[start:stop], b"".join(framed[start:stop])
            sort_keys = list(map(sort_key, keys[start:stop])) if order is None else None
            index = Index(
                np.cumsum([0, *map(len, mine)]).astype(np.uint64),
                sort_keys or None,
                ordered=self.ordered and bool(sort_keys),
            ).to_bytes()
            path.write_bytes(data)
            if self.indexed:
                path.with_name(path.name + ".index").write_bytes(index)
            shards.append((stop - start, len(data) - 16 * len(mine), len(data), crc32c(data), crc32c(index)))
            start = stop
        return ShardColumns(*([shard[column] for shard in shards] for column in range(5)))


FEATURES = features.FeaturesDict(
    {
        "id": np.int32,
        "text": features.Text(),
        "label": features.ClassLabel(names=["cat", "dog", "owl"]),
        "box": features.Tensor(shape=(2,), dtype=np.float32),
        "parts": features.Sequence({"size": np.int64, "name": features.Text()}),
    }
)


def example(n: int) -> dict[str, Any]:
    """Returns one of the examples of `PETS`."""
    return {
        "id": n,
        "text": f"pet {n}",
        "label": n % 3,
        "box": np.array([n, -n], np.float32),
        "parts": [{"size": i, "name": f"part {i}"} for i in range(n % 3)],
    }


PETS = Made(
    FEATURES,
    {"train": {f"key {n}": example(n) for n in range(20)}, "test": {n: example(n) for n in range(20, 26)}},
    info={"description": "Pets.", "supervised_keys": ("text", "label")},
)
