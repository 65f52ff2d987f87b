"""Versions with many examples, written fast."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets import features
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import serialize
from beam_datasets.formats.index import Index

SHARD = 50_000  # examples


@pytest.fixture
def write_numbers() -> Callable[..., Path]:
    """Returns a function from a directory, sort keys of shape (n, 2), and n numbers to a version of one float each."""

    def write(directory: Path, keys: Any, values: Any) -> Path:
        directory.mkdir(parents=True)
        prefix = serialize({"v": [0.0]})[:-4]
        count = -(-len(keys) // SHARD)
        for shard in range(count):
            mine = slice(shard * SHARD, (shard + 1) * SHARD)
            framed = tfrecord.frame_all([prefix + value.tobytes() for value in values[mine].astype("<i4")])
            path = directory / f"{directory.parent.name}-train.tfrecord-{shard:05d}-of-{count:05d}"
            path.write_bytes(b"".join(framed))
            offsets = len(framed[0]) * np.arange(len(framed) + 1)
            sort_keys = np.ascontiguousarray(keys[mine].astype(">u8")).view(np.uint8)
            (directory / f"{path.name}.index").write_bytes(Index(offsets, sort_keys).to_bytes())
        lengths = [str(min(SHARD, len(keys) - shard * SHARD)) for shard in range(count)]
        split = {"name": "train", "shardLengths": lengths, "numBytes": str((len(prefix) + 4) * len(keys))}
        info = {"name": directory.parent.name, "version": directory.name, "splits": [split]}
        (directory / "dataset_info.json").write_text(json.dumps(info))
        tree = features.FeaturesDict({"v": np.float32})
        (directory / "features.json").write_text(features.to_json_text(tree))
        return directory

    return write
