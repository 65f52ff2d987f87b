"""The real TFDS opens what is materialized, of our datasets and of its own, and reads the examples of the slice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from tests.end_to_end.numbers_dataset import Numbers
from tests.interop.test_tfds_opens_ours import same

pytestmark = pytest.mark.filterwarnings("ignore")  # those of TensorFlow and TFDS are not ours to mend
TFDS_DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"


@pytest.fixture(scope="session")
def tfds() -> Any:
    if os.environ.get("BEAM_DATASETS_INTEROP") != "required":
        pytest.importorskip("tensorflow_datasets", reason="make test-interop installs TensorFlow and TFDS")
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.fixture(scope="session")
def numbers(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of ours."""
    builder = Numbers(data_dir=tmp_path_factory.mktemp("numbers"), count=1000)
    return builder.build(num_shards={"train": 4, "test": 2}, num_workers=1)


def in_order(tfds: Any, directory: str | Path, split: str) -> list[Any]:
    """Returns the examples as TFDS reads them, in dataset order."""
    config = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split=split, read_config=config)
    return list(tfds.as_numpy(dataset))


def multiples_of_three(example: Any) -> bool:
    return example["id"] % 3 == 0  # a NumPy bool


@pytest.mark.parametrize("way", ["copy", "filter", "features", "reshuffle"])
def test_slices_of_ours(tfds: Any, numbers: str, tmp_path: Path, way: str) -> None:
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
        expected = in_order(tfds, numbers, expression)
        if way == "filter":
            expected = [example for example in expected if multiples_of_three(example)]
        if way == "features":
            expected = [
                {"id": e["id"], "nested": {"label": e["nested"]["label"]}, "vector": e["vector"]} for e in expected
            ]
        got = in_order(tfds, made, split)
        if way == "reshuffle":
            ids = [int(example["id"]) for example in got]
            assert ids != [int(example["id"]) for example in expected]
            expected, got = (sorted(some, key=lambda e: (e["id"], e["text"])) for some in (expected, got))
        assert len(got) == len(expected) > 0
        for mine, other in zip(got, expected):
            same(mine, other)
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
def test_slices_of_its_own(tfds: Any, tmp_path: Path, directory: str, split: str) -> None:
    made = bd.materialize(TFDS_DATA / directory, split={"x": split}, data_dir=tmp_path, num_shards=2, num_workers=1)
    assert made == str(tmp_path / directory)
    expected, got = in_order(tfds, TFDS_DATA / directory, split), in_order(tfds, made, "x")
    assert len(got) == len(expected) > 0
    for mine, other in zip(got, expected):
        same_nested(mine, other)
    theirs, before = (tfds.builder_from_directory(str(d)).info for d in (made, TFDS_DATA / directory))
    assert theirs.features.to_json() == before.features.to_json()
    for name in ("description", "citation", "homepage", "supervised_keys", "release_notes", "metadata"):
        assert getattr(theirs, name) == getattr(before, name)
    assert theirs.redistribution_info == before.redistribution_info


def same_nested(one: Any, other: Any) -> None:
    """Checks that two examples are equal, those with datasets and ragged arrays in them too."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same_nested(one[name], other[name])
    elif hasattr(one, "to_list"):
        assert one.to_list() == other.to_list()
    elif hasattr(one, "__next__") or type(one).__name__ == "_IterableDataset":
        for mine, theirs in zip(list(one), list(other), strict=True):
            same_nested(mine, theirs)
    else:
        np.testing.assert_array_equal(one, other)
