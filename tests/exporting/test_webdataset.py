"""WebDataset: the package itself reads the tars, and each example is what the dataset holds."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets import features as F
from tests.exporting.conftest import MANY, dataset_of, export
from tests.facts import raises_with
from tests.images import noise, saved

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the package are not ours to mend


def samples(directory: Path, pattern: str) -> list[dict[str, Any]]:
    """Returns what the package reads of the tars of a pattern, decoded."""
    dataset = webdataset.WebDataset(f"{directory}/{pattern}", shardshuffle=False, nodesplitter=webdataset.non_empty)
    return list(dataset.decode("pil"))


def test_the_package_reads_the_same_in_the_same_order(tmp_path: Path, inter: Any) -> None:
    made = export(inter.dataset_dir, tmp_path / "out", "webdataset", split="train[5%:]", num_shards=3)
    assert sorted(path.name for path in made.iterdir()) == [
        "_export.json",
        *(f"train-{shard:06d}.tar" for shard in range(3)),
    ]
    found = samples(made, "train-{000000..000002}.tar")
    examples = inter.as_dataset("train[5%:]")[:]
    assert [sample["__key__"] for sample in found] == [f"train-{i:09d}" for i in range(len(examples))]
    assert [sample["json"] for sample in found] == [{"idx": int(example["idx"])} for example in examples]
    assert [sample["name.txt"] for sample in found] == [example["name"].decode() for example in examples]


def test_the_error_of_a_full_disk_is_the_one_that_is_shown(tmp_path: Path, inter: Any, monkeypatch: Any) -> None:
    problems: list[Exception] = [errors.StorageError("the disk is full"), ValueError("I/O operation on closed file")]

    def write(*_: Any) -> int:
        raise problems.pop(0)

    monkeypatch.setattr("beam_datasets.exporting.writing.Output.write", write)
    with pytest.raises(errors.StorageError, match="the disk is full"):
        export(inter.dataset_dir, tmp_path / "out", "webdataset", split="train")
    assert not (tmp_path / "out").exists()


def test_every_kind_of_feature(tmp_path: Path, many: Any) -> None:
    made = export(MANY, tmp_path / "out", "webdataset")
    files = {"image": bd.decode.SkipDecoding(), "gray": bd.decode.SkipDecoding(), "vid": bd.decode.SkipDecoding()}
    stored = many.as_dataset("train", decoders=files)[:]
    with tarfile.open(made / "train-000000.tar") as tar:
        raw = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    for i, (sample, example, files_of) in enumerate(
        zip(samples(made, "train-000000.tar"), many.as_dataset("train")[:], stored, strict=True)
    ):
        key = f"train-{i:09d}"
        assert raw[f"{key}.image.png"] == files_of["image"]
        assert [raw[f"{key}.vid.{n:04d}.png"] for n in range(len(files_of["vid"]))] == list(files_of["vid"])
        assert np.asarray(sample["image.png"]).tolist() == example["image"].tolist()
        for name in ("aud", "dyn", "mat", "seq", "u64", "var", "zl"):
            assert sample[f"{name}.npy"].dtype == example[name].dtype
            assert np.array_equal(sample[f"{name}.npy"], example[name])
        assert sample["label.cls"] == example["label"]
        assert sample["text.txt"] == example["text"].decode()
        assert sample["json"]["nest"]["s"] == example["nest"]["s"].decode()
        assert sample["json"]["rag"] == example["rag"].to_list()
        assert sample["json"]["opt"] == (None if example["opt"] is None else int(example["opt"]))
        assert sorted(sample["json"]) == [
            *("f16", "f64", "flag", "nest", "objs", "opt", "rag", "steps", "toks", "tr", "tv", "u8"),
        ]


def test_files_by_what_they_are(tmp_path: Path) -> None:
    features = {"Photo": F.Image(), "a/caption": F.Text(), "blob": np.str_, "note": F.Text(optional=True)}
    jpeg, png, other = (saved(noise(2, 3), form) for form in ("JPEG", "PNG", "PPM"))
    examples = [
        {"Photo": content, "a/caption": "é", "blob": b"\xff", "note": note}
        for content, note in ((jpeg, "x"), (png, None), (other, ""))
    ]
    made = export(dataset_of(tmp_path, features, examples, 1), tmp_path / "out", "webdataset", binary=["blob"])
    with tarfile.open(made / "train-000000.tar") as tar:
        names = [name.removeprefix("train-00000000") for name in tar.getnames()]
        assert names == [
            *("0.a.caption.txt", "0.blob.bin", "0.note.txt", "0.photo.jpg"),
            *("1.a.caption.txt", "1.blob.bin", "1.photo.png"),
            *("2.a.caption.txt", "2.blob.bin", "2.note.txt", "2.photo.bin"),
        ]
        assert {(member.mtime, member.uid, member.gid) for member in tar} == {(0, 0, 0)}
        assert tar.extractfile("train-000000001.photo.png").read() == png  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "features, feature, other",
    [
        ({"_id": F.Text()}, "_id", []),
        ({"Text": F.Text(), "text": F.Text()}, "text", ["'Text'"]),
        ({"a/b": F.Text(), "a.b": F.Text()}, "a/b", ["'a.b'"]),
    ],
)
def test_names_that_files_cannot_have(tmp_path: Path, features: Any, feature: str, other: list[str]) -> None:
    """Numbers need no file."""
    source = dataset_of(tmp_path, dict.fromkeys(features, np.int64), [dict.fromkeys(features, 1)], 1)
    assert samples(export(source, tmp_path / "numbers", "webdataset"), "train-000000.tar")[0]["json"].keys() == {
        *features
    }
    shutil.rmtree(source.parent)
    source = dataset_of(tmp_path, features, [dict.fromkeys(features, "x")], 1)
    with raises_with(errors.BeamDatasetsError, feature=feature, mentions=other, advice=["--features"]):
        export(source, tmp_path / "out", "webdataset")
    assert json.loads((export(source, tmp_path / "out", "jsonl") / "train-00000-of-00001.jsonl").read_text())


def test_a_name_that_is_an_item_s_of_a_sequence(tmp_path: Path) -> None:
    png = saved(noise(2, 3), "PNG")
    features = {"x": F.Sequence(F.Image()), "X/0001": F.Image(), "x.001": F.Image(), "x.0001.y": F.Image()}
    example = {"x": [png, png], "X/0001": png, "x.001": png, "x.0001.y": png}
    source = dataset_of(tmp_path, features, [example], 1)
    with raises_with(errors.BeamDatasetsError, feature="X/0001", mentions=["'x'", "'x.0001'"]):
        export(source, tmp_path / "out", "webdataset")
    made = export(source, tmp_path / "out", "webdataset", features=["x", "x.001", "x.0001.y"])
    with tarfile.open(made / "train-000000.tar") as tar:
        names = [name.partition(".")[2] for name in tar.getnames()]
    assert names == ["x.0000.png", "x.0001.png", "x.0001.y.png", "x.001.png"]
