"""Publications of a dataset of ten examples, without a run."""

from pathlib import Path

import numpy as np

from beam_datasets import storage
from beam_datasets.features import FeaturesDict, compile_encoder
from beam_datasets.generate import histogram, plan, publish, shard_writer
from beam_datasets.generate.blocks import BlockBuilder, key_array, size_array
from beam_datasets.generate.options import ShardingOptions
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.version import Version


def announced(data_dir: str | Path, num_shards: int = 2) -> publish.Publication:
    """Announces version 1.0.0 of the dataset `ds`."""
    place = storage.join(data_dir, "ds", "1.0.0")
    info = DatasetInfo(builder=DatasetIdentity("ds", Version("1.0.0"), place), features=FeaturesDict({"n": np.int64}))
    options = ShardingOptions(num_shards=num_shards)
    return publish.announce(info, place, sharding=options, runner="", builder="a:B")


def staged(publication: publish.Publication, count: int = 10) -> tuple[plan.Plan, list[shard_writer.WrittenShard]]:
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
    where = shard_writer.Destination(publication.staging_dir, "ds")
    routed = plan.route(block, made.split("train"))
    return made, [shard_writer.write_group(made.group(number), [part], where) for number, part in routed]
