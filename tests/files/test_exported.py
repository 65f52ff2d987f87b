"""What was exported is built again from its files: the same examples."""

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.cli import main
from tests.exporting.conftest import dataset_of, export
from tests.strategies import assert_equal

COMMON = {
    "id": np.int64,
    "flag": np.bool_,
    "label": F.ClassLabel(names=["cat", "dog"]),
    "maybe": F.Scalar(np.int64, optional=True),
    "matrix": F.Tensor(shape=(2, 3), dtype=np.float32),
    "nest": {"deep": {"n": np.int64}, "text": F.Text()},
    "objects": F.Sequence({"name": F.Text(), "size": np.float32}),
    "rows": F.Sequence(F.Sequence(np.int64)),
    "text": F.Text(),
    "vector": F.Sequence(np.float32),
}
CHANGED = {"matrix": "float32[2,3]"}  # what files do not say of themselves


def example(i):
    rng = np.random.default_rng(i)
    return {
        "id": i,
        "flag": i % 3 == 0,
        "label": i % 2,
        "maybe": None if i % 4 else i,
        "matrix": rng.random((2, 3), np.float32),
        "nest": {"deep": {"n": -i}, "text": f"é {i}\n"},
        "objects": [{"name": f"o{k}", "size": np.float32(k / 3)} for k in range(i % 3)],
        "rows": [[*range(k)] for k in range(i % 4)],
        "text": "" if i == 7 else f"text {i}",
        "vector": rng.random(i % 5, np.float32),
    }


def build(kind, data_dir, pattern, features):
    """Builds a dataset of files and returns its examples in the order of their ids."""
    options = [option for name, spec in features.items() for option in ("--feature", f"{name}={spec}")]
    arguments = ["--data_dir", str(data_dir), "--pattern", str(pattern), "--key", "id", "--num_workers", "1"]
    assert main(["build", kind, "--name", "again", *arguments, *options]) == 0
    return sorted(bd.load("again", data_dir=data_dir, split="train"), key=lambda example: int(example["id"]))


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_same_examples(tmp_path, kind):
    source = dataset_of(tmp_path, COMMON, [example(i) for i in range(40)], 3)
    made = export(source, tmp_path / "out", kind, num_shards=2)
    changed = CHANGED if kind == "jsonl" else {}
    found = build(kind, tmp_path / "data", made / f"*.{kind}", changed)
    expected = bd.builder_from_directory(source).as_dataset("train")[:]
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


def test_images_of_parquet_are_the_same_files(tmp_path):
    rng = np.random.default_rng(0)
    examples = [{"id": i, "image": rng.integers(0, 255, (4, 5, 3), np.uint8)} for i in range(9)]
    source = dataset_of(tmp_path, {"id": np.int64, "image": F.Image()}, examples)
    found = build("parquet", tmp_path / "data", export(source, tmp_path / "out") / "*.parquet", {})
    assert [one["image"].tolist() for one in found] == [one["image"].tolist() for one in examples]
    published = bd.load("again", data_dir=tmp_path / "data", split="train").raw()
    raw = bd.builder_from_directory(source).as_dataset("train").raw()
    assert sorted(published) == sorted(raw)


LABELS = ["1", "0", "a, b"]  # names that look like indexes
LABELED = {
    "id": np.int64,
    "image": F.Image(shape=(None, None, 1)),
    "label": F.ClassLabel(names=LABELS),
    "objects": F.Sequence({"kind": F.ClassLabel(names=LABELS), "n": np.int64}),
    "more": F.Sequence(F.ClassLabel(num_classes=5)),
    "nest": {"image": F.Image(shape=(2, 2, 4)), "label": F.ClassLabel(names=LABELS)},
    "photos": F.Sequence(F.Image(shape=(2, 2, 1))),
}


def labeled(i):
    image = np.full((2, 2, 1), i, np.uint8)
    return {
        "id": i,
        "image": image,
        "label": i % 4 - 1,
        "objects": [{"kind": k, "n": k} for k in range(3)],
        "more": [i % 5],
        "nest": {"image": np.repeat(image, 4, 2), "label": 2},
        "photos": [image] * 2,
    }


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_splits_and_names_of_an_export(tmp_path, kind):
    source = dataset_of(tmp_path, LABELED, [labeled(i) for i in range(12)])
    made = tmp_path / "out"
    bd.export(source, made, kind, split={"train": "train[:9]", "test": "train[9:]"}, num_shards={"train": 2})
    build(kind, tmp_path / "data", made, {})
    again = bd.builder("again", data_dir=tmp_path / "data")
    assert {name: split.num_examples for name, split in again.info.splits.items()} == {"train": 9, "test": 3}
    assert list(again.info.splits) == ["train", "test"]
    tree = again.info.features
    for label in (tree["label"], tree["objects"].feature["kind"], tree["nest"]["label"]):
        assert label.names == LABELS
    assert tree["more"].feature.num_classes == 5
    found = sorted([*again.as_dataset("train"), *again.as_dataset("test")], key=lambda one: int(one["id"]))
    for i, one in enumerate(found):
        want = labeled(i)
        for path in (("image",), ("label",), ("objects", "kind"), ("more",), ("nest", "image"), ("nest", "label")):
            got, wanted = one, want if path != ("objects", "kind") else {"objects": {"kind": [0, 1, 2]}}
            for step in path:
                got, wanted = got[step], wanted[step]
            np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(one["photos"][1], want["photos"][1])


def test_a_part_of_an_export_and_what_is_said_of_it(tmp_path):
    source = dataset_of(tmp_path, LABELED, [labeled(i) for i in range(12)])
    made = tmp_path / "out"
    bd.export(source, made, "parquet", split={"train": "train[:9]", "test": "train[9:]"})
    build_one = ["build", "parquet", "--data_dir", str(tmp_path / "data"), "--num_workers", "1", "--name", "one"]
    assert main([*build_one, "--pattern", f"{made}/test-*", "--feature", "label=int64"]) == 0
    one = bd.builder("one", data_dir=tmp_path / "data")
    assert {name: split.num_examples for name, split in one.info.splits.items()} == {"test": 3}
    assert isinstance(one.info.features["label"], F.Tensor)
    assert not isinstance(one.info.features["label"], F.ClassLabel)
    halves = ["--name", "halves", "--pattern", str(made), "--split", "a=50%", "--split", "b=50%"]
    assert main([*build_one, *halves]) == 0
    assert set(bd.builder("halves", data_dir=tmp_path / "data").info.splits) == {"a", "b"}


@pytest.mark.parametrize("change", ["other file", "damaged", "other format"])
def test_files_beside_an_export(tmp_path, files, change):
    source = dataset_of(tmp_path, {"id": np.int64}, [{"id": i} for i in range(4)])
    made = export(source, tmp_path / "out", "jsonl")
    if change == "other file":
        (made / "more.jsonl").write_text('{"id": 7}\n')
    else:
        text = (made / "_export.json").read_text()
        changed = text.replace('"jsonl"', '"parquet"') if change == "other format" else text[:-5]
        (made / "_export.json").write_text(changed)
    if change == "other format":
        files.build("jsonl", f"--pattern={made}")
    else:
        problems = {"other file": "more.jsonl is not of the export", "damaged": "is not a valid description of an exp"}
        assert problems[change] in files.fails("jsonl", f"--pattern={made}")


@pytest.mark.slow
def test_bytes_of_json_lines(files):
    files.write("a.jsonl", '{"x": {"b64": "/wA="}}\n{"x": {"b64": "?"}}\n')
    assert "line 2 (byte 23): 'x': '?' is not base64" in files.fails("jsonl", "--feature=x=bytes")
    assert [one["x"] for one in files.read("jsonl", "--feature=x=bytes", "--skip_bad")] == [b"\xff\0"]
