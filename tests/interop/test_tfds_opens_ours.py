"""The real TFDS opens what is generated here, and reads the same examples in the same order as we do.

Run by `make test-interop`, which installs TensorFlow beside the project; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets.reading.opening import builder_from_directory

pytestmark = pytest.mark.filterwarnings("ignore")  # those of TensorFlow and TFDS are not ours to mend
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tfds() -> Any:
    if os.environ.get("BEAM_DATASETS_INTEROP") != "required":
        pytest.importorskip("tensorflow_datasets", reason="make test-interop installs TensorFlow and TFDS")
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.fixture(scope="session")
def data_dir(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets generated in processes of their own, as a user would: TensorFlow has no part in it."""
    folder = tmp_path_factory.mktemp("data")
    for name, *options in (("stdlib_source", "--num_shards", "5"), ("digits", "--num_shards", "20")):
        command = [sys.executable, "-m", "beam_datasets.cli", "build", name, "--data_dir", str(folder), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def directory(data_dir: Path, name: str) -> Path:
    [found] = (data_dir / name).iterdir()
    return found


def same(ours: Any, theirs: Any) -> None:
    """Checks that two decoded examples are equal, whatever holds their arrays."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for name in ours:
            same(ours[name], theirs[name])
    elif isinstance(ours, bytes):
        assert ours == theirs
    else:
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype or np.asarray(ours).dtype == object
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("name", ["stdlib_source", "digits"])
@pytest.mark.parametrize("split", ["train", "test", "train[10%:35%]+test[:7]", "train[3shard:]", "test[-5:]"])
def test_same_examples_in_the_same_order(tfds: Any, data_dir: Path, name: str, split: str) -> None:
    folder = directory(data_dir, name)
    theirs = list(tfds.as_numpy(tfds.builder_from_directory(str(folder)).as_dataset(split=split)))
    ours = list(builder_from_directory(folder).as_dataset(split=split))
    assert len(ours) == len(theirs)
    assert ours
    for mine, other in zip(ours, theirs):
        same(mine, other)


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
