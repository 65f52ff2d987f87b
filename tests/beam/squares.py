"""A dataset of numbers by their squares, of any version."""

from pathlib import Path
from typing import Any

import numpy as np

from beam_datasets import features as F
from beam_datasets.builders import BuilderConfig, DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo


def builder(version: str, data_dir: Path | str, values: range = range(20), **more: Any) -> DatasetBuilder:
    """Returns the builder of numbers by their squares, with further features; its splits are not in order of names."""

    class Squares(DatasetBuilder, skip_registration=True):
        VERSION = version
        BUILDER_CONFIGS = [BuilderConfig(name="small")]  # noqa: RUF012

        def _info(self) -> DatasetInfo:
            tree = F.FeaturesDict({"n": np.int64, **dict.fromkeys(more, np.int64)})
            return DatasetInfo(builder=self, features=tree)

        def _split_generators(self) -> dict[str, Any]:
            return {"train": ((n * n, {"n": n, **more}) for n in values), "also": [(1, {"n": 1, **more})]}

    return Squares(data_dir=data_dir)
