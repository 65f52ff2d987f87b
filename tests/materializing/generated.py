"""Datasets that the code of a pipeline generates in this process, so that many can be tried."""

import json
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets.execute import in_process
from beam_datasets.metadata.info import DatasetIdentity
from beam_datasets.metadata.version import Version
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle import plan

FEATURES = bd.features.FeaturesDict({"n": bd.features.Scalar("int64"), "text": bd.features.Text()})


def read(examples):
    return ((key, {"n": n, "text": "x" * (n % 7)}) for key, n in examples.items())


def generate(root, splits, *, name="ds", version="1.0.0", num_shards=None, ordered=False, features=FEATURES):
    """Generates {split: {key: n}} as the pipeline does, and returns the directory."""
    identity = DatasetIdentity(name, Version(version), f"{root}/{name}/{version}")
    info = bd.DatasetInfo(builder=identity, features=features, disable_shuffling=ordered)
    options = ShardingOptions(num_shards=num_shards, ordered=ordered)
    sources = {split: bd.SourceUnits([examples], read) for split, examples in splits.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MAX_PART_SIZE", 150)
        return Path(in_process.generate(info, "tests:ds", sources, options))


def content(directory):
    """Returns all that is published, without what names the version and how it was made."""
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "run.json"}
    info, manifest = json.loads(files.pop("dataset_info.json")), json.loads(files.pop("manifest.json"))
    info.pop("version")
    return files, info, manifest["splits"]
