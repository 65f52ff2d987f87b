"""Builders that mix what Beam makes with iterables."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.model.info import DatasetInfo


class Mixed(DatasetBuilder, skip_registration=True):
    """A split on the pipeline and one from an iterable."""

    VERSION = "1.0.0"

    def _info(self):
        return DatasetInfo(builder=self, features=F.FeaturesDict({"n": np.int64}))

    def _split_generators(self, pipeline):
        return {"train": pipeline | beam.Create([(1, {"n": 1})]), "test": ((i, {"n": i}) for i in range(3))}


@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_iterable_beside_a_split_on_the_pipeline(tmp_path, num_workers):
    made = Path(Mixed(data_dir=tmp_path).build(num_workers=num_workers))
    assert sorted(path.name for path in made.glob("*-00001")) == [
        "mixed-test.tfrecord-00000-of-00001",
        "mixed-train.tfrecord-00000-of-00001",
    ]


def test_shards_of_a_split_that_there_is_not(tmp_path):
    with pytest.raises(
        ValueError, match=r"num_shards names the splits \['trian'\]; the dataset has \['test', 'train'\]"
    ):
        Mixed(data_dir=tmp_path).build(num_shards={"test": 2, "trian": 1})
    assert not list(tmp_path.glob("mixed/*"))
