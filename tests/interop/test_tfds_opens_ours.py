"""The real TFDS opens what is generated, adopted, exported and materialized here, and reads the same.

Run by `make test-interop`, which installs TFDS.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.reading.opening import builder_from_directory
from tests.end_to_end import spec_datasets
from tests.end_to_end.numbers_dataset import Numbers
from tests.exporting.conftest import export
from tests.interop.conftest import DATA, as_numpy, same_all

if TYPE_CHECKING:
    from pathlib import Path


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


# The real TFDS opens what is adopted, exported as ArrayRecord and materialized, and reads the same examples


@pytest.mark.parametrize(
    "name",
    [
        "three-train.tfrecord-0000{i}-of-00004",
        "train-0000{i}-of-00004.tfrecord",
        "train/part-0000{i}",
    ],
)
@pytest.mark.parametrize("split", ["train", "train[20%:70%]", "train[1shard:3shard]"])
def test_adopted(tfds: Any, tmp_path: Path, name: str, split: str) -> None:
    paths = [tmp_path / name.format(i=i) for i in range(4)]
    for i, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        shutil.copy(DATA / "spec_three" / "1.2.3" / f"spec_three-train.tfrecord-0000{i}-of-00004", path)
    ours = bd.adopt({"train": paths}, DATA / "spec_three" / "1.2.3" / "features.json", name="three").as_dataset(split)
    same_all(ours, as_numpy(tfds, paths[0].parent, split))
    assert len(ours) > 5


@pytest.mark.parametrize("name", ["spec_three/1.2.3", "spec_inter/1.2.3", "spec_multi/small/1.0.0"])
def test_exported_as_a_data_source(tfds: Any, tmp_path: Path, name: str) -> None:
    made = export(DATA / name, tmp_path / "out", "arrayrecord")
    published, original = (tfds.builder_from_directory(str(path)) for path in (made, DATA / name))
    assert repr(published.info.features) == repr(original.info.features)
    assert published.info.file_format.value == "array_record"
    for split in original.info.splits:
        source = published.as_data_source(split)
        found = [source[index] for index in range(len(source))]
        same_all(found, as_numpy(tfds, DATA / name, split, in_order=True))


@pytest.fixture(scope="session")
def numbers(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of ours."""
    builder = Numbers(data_dir=tmp_path_factory.mktemp("numbers"), count=1000)
    return builder.build(num_shards={"train": 4, "test": 2}, num_workers=1)


def multiples_of_three(example: Any) -> bool:
    return example["id"] % 3 == 0  # a NumPy bool


@pytest.mark.parametrize("way", ["copy", "filter", "features", "reshuffle"])
def test_materialized_slices_of_ours(tfds: Any, numbers: str, tmp_path: Path, way: str) -> None:
    asked: dict[str, Any] = {
        "copy": {},
        "filter": {"filter": multiples_of_three},
        "features": {"features": ["id", "nested/label", "vector"]},
        "reshuffle": {"reshuffle": "x"},
    }[way]
    made = bd.materialize(
        numbers,
        split={"train": "train[20%:70%]+test", "rest": "train[70%:]"},
        to="made:2.0.0",
        data_dir=tmp_path,
        num_shards={"train": 3},
        num_workers=1,
        **asked,
    )
    for split, expression in (("train", "train[20%:70%]+test"), ("rest", "train[70%:]")):
        expected = as_numpy(tfds, numbers, expression, in_order=True)
        if way == "filter":
            expected = [example for example in expected if multiples_of_three(example)]
        if way == "features":
            expected = [
                {"id": e["id"], "nested": {"label": e["nested"]["label"]}, "vector": e["vector"]} for e in expected
            ]
        got = as_numpy(tfds, made, split, in_order=True)
        if way == "reshuffle":
            ids = [int(example["id"]) for example in got]
            assert ids != [int(example["id"]) for example in expected]
            expected, got = (sorted(some, key=lambda e: (e["id"], e["text"])) for some in (expected, got))
        same_all(got, expected)
    theirs, ours = tfds.builder_from_directory(made).info, bd.builder_from_directory(made).info
    assert theirs.full_name == ours.full_name == "made/2.0.0"
    assert [list(map(int, split.shard_lengths)) for split in theirs.splits.values()] == [
        split.shard_lengths for split in ours.splits.values()
    ]
    assert theirs.supervised_keys == ours.supervised_keys
    assert theirs.description == ours.description == "Numbers, to test with."


@pytest.mark.parametrize(
    "directory, split",
    [
        ("spec_many/2.0.1", "train[3:]"),
        ("spec_three/1.2.3", "train[5:20]+test"),
        ("spec_ordered/1.2.3", "train[4:]"),
        ("spec_multi/small/1.0.0", "train"),
        ("spec_inter/1.2.3", "train[:50%]+train[90%:]"),
    ],
)
def test_materialized_slices_of_its_own(tfds: Any, tmp_path: Path, directory: str, split: str) -> None:
    made = bd.materialize(DATA / directory, split={"x": split}, data_dir=tmp_path, num_shards=2, num_workers=1)
    assert made == str(tmp_path / directory)
    same_all(as_numpy(tfds, made, "x", in_order=True), as_numpy(tfds, DATA / directory, split, in_order=True))
    theirs, before = (tfds.builder_from_directory(str(d)).info for d in (made, DATA / directory))
    assert theirs.features.to_json() == before.features.to_json()
    for name in ("description", "citation", "homepage", "supervised_keys", "release_notes", "metadata"):
        assert getattr(theirs, name) == getattr(before, name)
    assert theirs.redistribution_info == before.redistribution_info
