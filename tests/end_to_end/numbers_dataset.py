"""A dataset that tests generate in many ways: its contents are fixed, the order and parts of its input vary."""

import random

import apache_beam as beam
import numpy as np

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.version import Version


def example(split: str, i: int) -> dict[str, object]:
    """Returns the example of a key."""
    return {
        "id": i,
        "text": f"{split} {i} " + "x" * (i * 7919 % 61),
        "vector": np.arange(i % 5, dtype=np.float32) / 3,
        "nested": {"flag": i % 2 == 0, "label": i % 3},
    }


def _rows(seed_and_part: tuple[int, int], split: str, count: int, parts: int):
    seed, part = seed_and_part
    order = list(range(part, count, parts))
    random.Random(seed).shuffle(order)
    for i in order:
        yield f"{split}-{i}", example(split, i)


class Numbers(DatasetBuilder):
    """`count` examples in 'train' from Beam, a tenth in 'test' from an iterable."""

    VERSION = Version("1.0.0")

    def __init__(self, *, count: int = 1000, seed: int = 0, parts: int = 4, **kwargs) -> None:
        self.count, self.seed, self.parts = count, seed, parts
        super().__init__(**kwargs)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(
            builder=self,
            description="Numbers, to test with.",
            features=F.FeaturesDict(
                {
                    "id": np.int64,
                    "text": F.Text(),
                    "vector": F.Sequence(np.float32),
                    "nested": {"flag": np.bool_, "label": F.ClassLabel(names=["a", "b", "c"])},
                }
            ),
            supervised_keys=("text", "id"),
        )

    def _split_generators(self):
        starts = [(self.seed, part) for part in range(self.parts)]
        train = beam.Create(starts) | beam.FlatMap(_rows, "train", self.count, self.parts)
        return {"train": train, "test": self._generate_examples()}

    def _generate_examples(self):
        return _rows((self.seed, 0), "test", self.count // 10, 1)
