"""The real TFDS opens what is adopted, exported as ArrayRecord and materialized, and reads the same examples."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import beam_datasets as bd
from tests.end_to_end.numbers_dataset import Numbers
from tests.exporting.conftest import export
from tests.interop.conftest import DATA, as_numpy, same_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # of TensorFlow and TFDS


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
