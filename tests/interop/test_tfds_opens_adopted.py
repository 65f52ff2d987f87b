"""The real TFDS opens what `adopt` made of files, under other names than its own too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd

pytestmark = pytest.mark.filterwarnings("ignore")  # those of TensorFlow and TFDS are not ours to mend
VERSION = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_three" / "1.2.3"


@pytest.fixture(scope="session")
def tfds() -> Any:
    if os.environ.get("BEAM_DATASETS_INTEROP") != "required":
        pytest.importorskip("tensorflow_datasets", reason="make test-interop installs TensorFlow and TFDS")
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.mark.parametrize(
    "name",
    [
        "three-train.tfrecord-0000{i}-of-00004",
        "train-0000{i}-of-00004.tfrecord",
        "train/part-0000{i}",
    ],
)
@pytest.mark.parametrize("split", ["train", "train[20%:70%]", "train[1shard:3shard]"])
def test_same_examples_in_the_same_order(tfds: Any, tmp_path: Path, name: str, split: str) -> None:
    paths = [tmp_path / name.format(i=i) for i in range(4)]
    for i, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        shutil.copy(VERSION / f"spec_three-train.tfrecord-0000{i}-of-00004", path)
    ours = bd.adopt({"train": paths}, VERSION / "features.json", name="three").as_dataset(split)
    folder = paths[0].parent
    theirs = tfds.builder_from_directory(str(folder)).as_dataset(split=split)
    assert [int(example["idx"]) for example in ours] == [int(e["idx"]) for e in tfds.as_numpy(theirs)]
    assert len(ours) > 5
