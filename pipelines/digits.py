"""The handwritten digits that scikit-learn brings along: 1,797 images of 8 x 8 pixels.

    beam-datasets build digits --data_dir out

The source is small, so it is a plain generator; Beam takes over from the first example on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from beam_datasets import DatasetBuilder, DatasetInfo
from beam_datasets.errors import MissingDependencyError
from beam_datasets.features import ClassLabel, FeaturesDict, Image

_WHITE = 16  # the largest value of a pixel in the source


class Digits(DatasetBuilder):
    """Images and labels; every fifth goes to test."""

    VERSION = "1.0.0"

    def _info(self) -> DatasetInfo:
        return DatasetInfo(
            builder=self,
            description="Handwritten digits, 8 x 8 pixels: the test part of the UCI set, as scikit-learn has it.",
            features=FeaturesDict({"image": Image(shape=(8, 8, 1)), "label": ClassLabel(num_classes=10)}),
            supervised_keys=("image", "label"),
            homepage="https://archive.ics.uci.edu/dataset/80",
        )

    def _split_generators(self) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        return {"train": self._generate_examples(test=False), "test": self._generate_examples(test=True)}

    def _generate_examples(self, *, test: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise MissingDependencyError("digits needs scikit-learn: pip install 'beam_datasets[sklearn]'") from error
        source = load_digits()
        images = (source.images * (255 / _WHITE)).round().astype(np.uint8)[..., np.newaxis]
        for i, (image, label) in enumerate(zip(images, source.target)):
            if (i % 5 == 0) == test:
                yield i, {"image": image, "label": int(label)}
