"""The real TFDS reads every type of feature that is generated here, and the same values in the same order as we do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.reading.opening import builder_from_directory
from tests.end_to_end import spec_datasets

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # those of TensorFlow and TFDS are not ours to mend


@pytest.fixture(scope="session")
def tfds() -> Any:
    if os.environ.get("BEAM_DATASETS_INTEROP") != "required":
        pytest.importorskip("tensorflow_datasets", reason="make test-interop installs TensorFlow and TFDS")
    import tensorflow_datasets

    return tensorflow_datasets


class Encoded(DatasetBuilder, skip_registration=True):
    """Features whose stored form is made here: images of every kind, encodings, dtypes."""

    VERSION = "1.0.0"

    def _info(self) -> DatasetInfo:
        return DatasetInfo(
            builder=self,
            features=F.FeaturesDict(
                {
                    "rgb": F.Image(shape=(None, None, 3)),
                    "gray": F.Image(shape=(8, 6, 1)),
                    "rgba": F.Image(shape=(5, 7, 4)),
                    "deep": F.Image(shape=(4, 4, 1), dtype=np.uint16),
                    "depth": F.Image(shape=(3, 5, 1), dtype=np.float32),
                    "jpeg": F.Image(shape=(16, 16, 3), encoding_format="jpeg"),
                    "mask": F.LabeledImage(labels=["bg", "fg"], shape=(4, 4, 1)),
                    "frames": F.Video(shape=(None, 4, 4, 3)),
                    "images": F.Sequence(F.Image(shape=(4, 4, 3))),
                    "sound": F.Audio(dtype=np.int64, sample_rate=16000),
                    "box": F.BBoxFeature(allow_rounding=True),
                    "zlib": F.Tensor(shape=(None, 3), dtype=np.float64, encoding="zlib"),
                    "bytes": F.Tensor(shape=(2, 2), dtype=np.uint16, encoding="bytes"),
                    "halves": F.Tensor(shape=(None,), dtype=np.float16),
                    "small": F.Tensor(shape=(3,), dtype=np.int8),
                    "words": F.Sequence(F.Text()),
                    "ragged": F.Sequence(F.Sequence(F.Sequence(np.int32))),
                    "pairs": F.Sequence({"a": np.int64, "b": F.Text()}),
                    "maybe": F.Scalar(np.int64, optional=True),
                    "languages": F.Translation(["de", "en"]),
                    "deeper": {"one": {"two": F.ClassLabel(names=["x", "y"])}},
                }
            ),
        )

    def _split_generators(self) -> dict[str, Any]:
        return {"train": self._generate_examples(40), "test": self._generate_examples(3)}

    def _generate_examples(self, count: int) -> Any:
        for i in range(count):
            r = np.random.default_rng(i)
            yield (
                f"k{i}",
                {
                    "rgb": r.integers(0, 256, (2 + i % 3, 4, 3)).astype(np.uint8),
                    "gray": r.integers(0, 256, (8, 6, 1)).astype(np.uint8),
                    "rgba": r.integers(0, 256, (5, 7, 4)).astype(np.uint8),
                    "deep": r.integers(0, 65536, (4, 4, 1)).astype(np.uint16),
                    "depth": r.normal(size=(3, 5, 1)).astype(np.float32),
                    "jpeg": np.full((16, 16, 3), i * 5, np.uint8),
                    "mask": r.integers(0, 2, (4, 4, 1)).astype(np.uint8),
                    "frames": r.integers(0, 256, (1 + i % 2, 4, 4, 3)).astype(np.uint8),
                    "images": [r.integers(0, 256, (4, 4, 3)).astype(np.uint8) for _ in range(i % 3)],
                    "sound": np.arange(i % 7) * 100,
                    "box": F.BBox(0.1, 0.2, 0.5, 0.75),
                    "zlib": r.normal(size=(i % 4, 3)),
                    "bytes": r.integers(0, 65536, (2, 2)).astype(np.uint16),
                    "halves": np.arange(i % 5, dtype=np.float16) / 3,
                    "small": np.array([-128, 0, 127], np.int8),
                    "words": ["wörd"] * (i % 3),
                    "ragged": [[[j] * j for j in range(k)] for k in range(i % 4)],
                    "pairs": [{"a": j, "b": str(j)} for j in range(i % 3)],
                    "maybe": i if i % 2 else np.iinfo(np.int64).max,
                    "languages": {"de": f"eins {i}", "en": f"one {i}"},
                    "deeper": {"one": {"two": i % 2}},
                },
            )


def same(ours: Any, theirs: Any, path: str = "") -> None:
    """Checks that a value that we decoded is the one that TFDS decoded."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), path
        for name in theirs:
            same(ours[name], theirs[name], f"{path}/{name}")
    elif ours is None:  # TFDS reads a default where an optional value is absent
        assert theirs in (np.iinfo(np.int64).min, b"")
    elif hasattr(theirs, "to_list"):  # ragged
        assert ours.to_list() == theirs.to_list(), path
    elif hasattr(theirs, "element_spec") or not isinstance(theirs, (bytes, np.ndarray, np.generic)):
        ours, theirs = list(ours), list(theirs)
        assert len(ours) == len(theirs), path
        for mine, other in zip(ours, theirs):
            same(mine, other, path)
    elif path.endswith("jpeg"):
        assert np.abs(np.asarray(ours, np.int32) - np.asarray(theirs, np.int32)).max() <= 2, path
    else:
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs), err_msg=path)


DATASETS = [
    (Encoded, {}, 5),
    *((builder, arguments, shards) for builder, arguments, shards, _ in spec_datasets.DATASETS),
]


@pytest.mark.parametrize("builder, arguments, num_shards", DATASETS, ids=[f"{d[0].name}-{d[1]}" for d in DATASETS])
def test_the_same_values(
    tfds: Any, tmp_path: Path, builder: Any, arguments: dict[str, str], num_shards: int | None
) -> None:
    shards = {"train": num_shards} if builder is Encoded else num_shards
    made = builder(data_dir=tmp_path, **arguments).build(num_shards=shards, num_workers=1)
    read = tfds.builder_from_directory(made)
    mine = builder_from_directory(made)
    for split in (*mine.info.splits, "train[1:3]", "train[50%:]"):
        theirs = list(tfds.as_numpy(read.as_dataset(split=split)))
        ours = list(mine.as_dataset(split=split))
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs):
            same(one, other)
