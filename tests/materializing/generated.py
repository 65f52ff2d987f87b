"""Datasets that the code of a pipeline generates in this process, so that many can be tried."""

import json
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets.features import compile_encoder
from beam_datasets.generate import plan, publish
from beam_datasets.generate.blocks import BlockBuilder
from beam_datasets.generate.in_process import write_blocks
from beam_datasets.generate.shard_writer import Destination
from beam_datasets.metadata.info import DatasetIdentity
from beam_datasets.metadata.version import Version

FEATURES = bd.features.FeaturesDict({"n": bd.features.Scalar("int64"), "text": bd.features.Text()})
_encode = compile_encoder(FEATURES)


def encode(n):
    return _encode({"n": n, "text": "x" * (n % 7)})


def generate(root, splits, *, name="ds", version="1.0.0", num_shards=None, ordered=False, features=FEATURES):
    """Generates {split: {key: n}} as the pipeline does, and returns the directory."""
    directory = f"{root}/{name}/{version}"
    info = bd.DatasetInfo(
        builder=DatasetIdentity(name, Version(version), directory), features=features, disable_shuffling=ordered
    )
    options = plan.ShardingOptions(num_shards=num_shards, ordered=ordered)
    publication = publish.announce(info, directory, sharding=options, runner="", builder="tests:ds")
    where = Destination(publication.staging_dir, name, ordered=ordered)
    blocks = []
    for split, examples in splits.items():
        builder = BlockBuilder(split, encode, block_size=1 << 30, ordered=ordered)
        for key, n in examples.items():
            builder.add(key, n)
        blocks.append(builder.flush())
    with publish.staging(publication), pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MAX_PART_SIZE", 150)
        publish.publish(publication, *write_blocks(blocks, [*splits], options, where, None))
    return Path(directory)


def content(directory):
    """Returns all that is published, without what names the version and how it was made."""
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "run.json"}
    info, manifest = json.loads(files.pop("dataset_info.json")), json.loads(files.pop("manifest.json"))
    info.pop("version")
    return files, info, manifest["splits"]
