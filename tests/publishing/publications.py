"""Publications of a dataset of ten examples, without a run."""

from pathlib import Path

import numpy as np

from beam_datasets import storage
from beam_datasets.features import FeaturesDict, compile_encoder
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.version import Version
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing.groups import write_group
from beam_datasets.publishing.publication import Publication, Workers, announce
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.shuffle import histogram, plan, routing
from beam_datasets.shuffle.block_builder import BlockBuilder
from beam_datasets.shuffle.blocks import key_array, size_array


def announced(data_dir: str | Path, num_shards: int = 2) -> Publication:
    """Announces version 1.0.0 of the dataset `ds`."""
    place = storage.join(data_dir, "ds", "1.0.0")
    info = DatasetInfo(builder=DatasetIdentity("ds", Version("1.0.0"), place), features=FeaturesDict({"n": np.int64}))
    options = ShardingOptions(num_shards=num_shards)
    return announce(info, place, workers=Workers(name=""), sharding=options, builder="a:B")


def staged(publication: Publication, count: int = 10) -> tuple[plan.Plan, list[WrittenShard]]:
    """Writes the shards of ten examples into the staging directory, which the launcher has made."""
    publication.owner.write(publication.staging_dir)
    encode = compile_encoder(publication.info.features)
    builder = BlockBuilder("train", lambda n: encode({"n": n}), block_size=1 << 20)
    for n in range(count):
        builder.add(n, n)
    new = builder.flush()
    assert new is not None
    block = new.loaded
    counts = histogram.count_keys(key_array(block.keys), size_array(block.sizes))
    options = ShardingOptions(num_shards=publication.options["num_shards"])
    made = plan.make_plan(["train"], {"train": counts}, options)
    where = Destination(publication.staging_dir, "ds")
    routed = routing.route(block, made.split("train"))
    return made, [write_group(made.group(number), [part], where) for number, part in routed]
