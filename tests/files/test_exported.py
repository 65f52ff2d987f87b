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
SPECS = {"parquet": {"label": "class:cat,dog"}, "jsonl": {"label": "class:cat,dog", "matrix": "float32[2,3]"}}
"""What the files do not contain."""


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
    found = build(kind, tmp_path / "data", made / f"*.{kind}", SPECS[kind])
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


@pytest.mark.slow
def test_bytes_of_json_lines(files):
    files.write("a.jsonl", '{"x": {"b64": "/wA="}}\n{"x": {"b64": "?"}}\n')
    assert "line 2 (byte 23): 'x': '?' is not base64" in files.fails("jsonl", "--feature=x=bytes")
    assert [one["x"] for one in files.read("jsonl", "--feature=x=bytes", "--skip_bad")] == [b"\xff\0"]
