"""A dataset of a few large records."""

import apache_beam as beam
import numpy as np

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.version import Version


def _blob(number: int, size: int):
    rng = np.random.default_rng(number)
    return number, {"number": number, "blob": rng.integers(0, 256, size, dtype=np.uint8).tobytes()}


class Blobs(DatasetBuilder):
    """`count` records of `size` bytes each."""

    VERSION = Version("1.0.0")

    def __init__(self, *, count: int = 6, size: int = 20_000_000, **kwargs) -> None:
        self.count, self.size = count, size
        super().__init__(**kwargs)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(builder=self, features=F.FeaturesDict({"number": np.int64, "blob": F.Text()}))

    def _split_generators(self):
        return {"train": beam.Create(range(self.count)) | beam.Map(_blob, self.size)}

    def _generate_examples(self):
        raise NotImplementedError
