"""The real TFDS opens what is generated here: every type of feature, the same values in the same order.

Run by `make test-interop`, which installs TensorFlow beside the project; elsewhere these tests are skipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.reading.opening import builder_from_directory
from tests.end_to_end import spec_datasets
from tests.interop.conftest import as_numpy, same_all

pytestmark = pytest.mark.filterwarnings("ignore")  # of TensorFlow and TFDS
ROOT = Path(__file__).resolve().parents[2]


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
    mine = builder_from_directory(made)
    for split in (*mine.info.splits, "train[1:3]", "train[50%:]"):
        same_all(mine.as_dataset(split=split), as_numpy(tfds, made, split))


@pytest.fixture(scope="session")
def data_dir(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets generated in processes of their own, without TensorFlow, as a user would."""
    folder = tmp_path_factory.mktemp("data")
    for name, *options in (("stdlib_source", "--num_shards", "5"), ("digits", "--num_shards", "20")):
        command = [sys.executable, "-m", "beam_datasets.cli", "build", name, "--data_dir", str(folder), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def directory(data_dir: Path, name: str) -> Path:
    [found] = (data_dir / name).iterdir()
    return found


@pytest.mark.parametrize("name", ["stdlib_source", "digits"])
@pytest.mark.parametrize("split", ["train", "test", "train[10%:35%]+test[:7]", "train[3shard:]", "test[-5:]"])
def test_same_examples_in_the_same_order(tfds: Any, data_dir: Path, name: str, split: str) -> None:
    folder = directory(data_dir, name)
    same_all(builder_from_directory(folder).as_dataset(split=split), as_numpy(tfds, folder, split))


@pytest.mark.parametrize("name", ["stdlib_source", "digits"])
def test_same_metadata(tfds: Any, data_dir: Path, name: str) -> None:
    folder = directory(data_dir, name)
    theirs = tfds.builder_from_directory(str(folder)).info
    ours = builder_from_directory(folder).info
    assert theirs.full_name == ours.full_name
    assert list(theirs.splits) == list(ours.splits)
    for split in ours.splits:
        assert theirs.splits[split].num_examples == ours.splits[split].num_examples
        assert theirs.splits[split].shard_lengths == list(ours.splits[split].shard_lengths)
        assert theirs.splits[split].num_bytes == ours.splits[split].num_bytes
    assert theirs.supervised_keys == ours.supervised_keys


def test_load_by_name(tfds: Any, data_dir: Path) -> None:
    images, labels = tfds.load("digits", data_dir=str(data_dir), split="test", as_supervised=True, batch_size=-1)
    assert images.shape == (360, 8, 8, 1)
    assert set(labels.numpy().tolist()) == set(range(10))


def test_records_parse_as_tensorflow_examples(tfds: Any, data_dir: Path) -> None:
    import tensorflow as tf

    files = sorted(map(str, directory(data_dir, "digits").glob("digits-train.tfrecord-*-of-00020")))
    assert len(files) == 20
    count = 0
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        assert sorted(example.features.feature) == ["image", "label"]
        count += 1
    assert count == 1437
