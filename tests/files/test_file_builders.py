"""From files to a published dataset and back, by the command that a user types."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets.cli import main
from beam_datasets.files.text_lines import TextLines
from beam_datasets.reading.opening import builder_from_directory

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def build(kind: str, tmp_path: Path, *args: object) -> Path:
    """Builds a dataset called `made` and returns its directory."""
    options = ["--data_dir", str(tmp_path / "out"), "--num_workers", "1", *map(str, args)]
    assert main(["build", kind, "--name", "made", *options]) == 0
    return tmp_path / "out" / "made" / "1.0.0"


def read(directory: Path, split: str = "train") -> list[dict[str, Any]]:
    return list(builder_from_directory(directory).as_dataset(split=split))


def fails(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str, *args: object) -> str:
    """Returns what the command says of a build that fails, having seen that nothing was published."""
    capsys.readouterr()
    assert main(["build", kind, "--data_dir", str(tmp_path / "bad"), "--num_workers", "1", *map(str, args)]) == 1
    assert not list(tmp_path.glob("bad/*/1.0.0"))
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "text, why",
    [
        (
            b"a;b\n1,5;x\n",
            "line 2: 2 fields where the header has 1 ('1', '5;x'); is the delimiter another? (--delimiter ';')",
        ),
        ("a,b\n1,\xe9\n".encode("latin-1"), "line 2: not utf-8: byte 0xe9"),
        (b'a,b\n1,"x\n2,y\n', "line 2 to 3: unexpected end of data; is a quote opened"),
        (b"a,b\n", "no file has a row below its header"),
    ],
)
def test_csv_of_which_no_row_can_be_used(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, why: str
) -> None:
    (source / "a.csv").write_bytes(text)
    assert why in fails(capsys, tmp_path, "csv", "--pattern", source)


def test_csv(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"h{i}", i / 4 if i % 3 else "", "flat" if i % 2 else "house", f"{i:05d}") for i in range(60)]
    for part in range(2):
        with (source / f"{part}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "price", "kind", "zip"), *rows[part::2]])
    made = build("csv", tmp_path, "--pattern", source, "--split", "train=70%", "--split", "test=30%",
                 "--key", "id", "--feature", "kind=class", "--feature", "zip=drop")  # fmt: skip
    train, test = read(made), read(made, "test")
    found = {example["id"].decode(): example for example in [*train, *test]}
    assert len(found) == len(train) + len(test) == 60
    assert 10 <= len(test) <= 30
    for key, price, kind, _ in rows:
        label = ["flat", "house"].index(kind)
        assert found[key]["kind"] == label
        assert found[key]["price"] is None if price == "" else found[key]["price"] == np.float32(price)
    assert "zip" not in train[0]
    (source / "2.csv").write_text("id,price,kind,zip\nx,1,flat\n")
    problem = fails(capsys, tmp_path, "csv", "--pattern", source)
    assert "2.csv, line 2: 3 fields where the header has 4" in problem
    assert "Traceback" not in problem


def test_several_patterns_of_a_split(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i, name in enumerate(("a", "b", "c")):
        (source / f"{name}.csv").write_text(f"x,y\n{i},n\n")
    patterns = ["--split", f"train={source}/a.csv", "--split", f"train={source}/c.csv"]
    made = build("csv", tmp_path, *patterns, "--split", f"test={source}/b.csv")
    assert sorted(int(row["x"]) for row in read(made)) == [0, 2]
    assert [int(row["x"]) for row in read(made, "test")] == [1]
    twice = ["--feature", "x=string", "--feature", "x=int64"]
    assert main(["build", "csv", "--data_dir", str(tmp_path / "bad"), *patterns, *twice]) == 2
    assert "--feature: x is given twice, as 'string' and as 'int64'" in capsys.readouterr().err


def test_floats_keep_their_digits(source: Path, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times, short = [1700000000.123456, 16777217.0, -1e300, 0.1], [0.5, 0.1, 1e3, 3.25]
    rows = [{"i": i, "ts": ts, "short": s, "l": [ts] * i} for i, (ts, s) in enumerate(zip(times, short))]
    (source / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (source / "a.csv").write_text(
        "i,ts,short,l\n" + "".join(f'{r["i"]},{r["ts"]},{r["short"]},"{r["l"]}"\n' for r in rows)
    )
    maybe = {"maybe": [None, 1 / 3, None, 0.5], "v": pa.array([[ts, 0.0] for ts in times], pa.list_(pa.float64(), 2))}
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]} | maybe), source / "a.parquet")
    for kind, narrow in (("csv", np.float32), ("jsonl", np.float32), ("parquet", np.float64)):
        lists = ["--feature", "l=float64[]"] if kind == "csv" else []
        made = build(kind, tmp_path / kind, "--pattern", source / f"a.{kind}", *lists)
        found = {int(row["i"]): row for row in read(made)}
        assert [found[i]["ts"] for i in range(4)] == times
        assert [found[i]["short"].dtype for i in range(4)] == [narrow] * 4
        assert [found[i]["l"].tolist() for i in range(4)] == [row["l"] for row in rows]
    assert [found[i]["maybe"] for i in range(4)] == maybe["maybe"]
    assert [found[i]["v"].tolist() for i in range(4)] == [[ts, 0.0] for ts in times]


MISSING: dict[str, list[dict[str, Any]]] = {
    "a field of the objects of a list": [{"o": [{"a": 1, "b": "x"}, {"a": 2}]}],
    "a field of objects in lists of a list": [{"o": [[{"a": 1, "b": 2}], [{"a": 2}]]}],
    "a null in a list": [{"o": [1, None]}],
    "a null list": [{"o": [1]}, {"o": None}, {"o": []}],
    "a list that is not there": [{"o": [{"a": 1}]}, {}],
    "a null list in a list": [{"o": [[1], None]}],
    "a null list in an object": [{"o": {"a": [1]}}, {"o": {"a": None}}],
    "a null list of an object in a list": [{"o": [{"a": [1], "b": 1}, {"a": None, "b": 2}]}],
    "a null list later on": [{"o": [1]}] * 99 + [{"o": None}],
    "a null in a list later on": [{"o": [1]}] * 99 + [{"o": [None]}],
    "a name in a list later on": [{"o": [{"a": 1}]}] * 99 + [{"o": [{"a": 1, "b": 1}]}],
}
UNKNOWN: dict[str, list[dict[str, Any]]] = {  # of JSON lines alone; other files say their types
    "values of two types": [{"o": 1}, {"o": "x"}],
    "values of two types in a list": [{"o": [{"a": 1, "b": 1}, {"a": "x", "b": 1}]}],
    "empty lists": [{"o": []}],
    "numbers of many digits later on": [{"o": 1.5}] * 99 + [{"o": 1 / 3}],
    "these in a list": [{"o": [1.5]}] * 99 + [{"o": [1 / 3]}],
    "these in lists of a list": [{"o": [[1.5]]}] * 99 + [{"o": [[1 / 3]]}],
    "a null later on": [{"o": 1}] * 99 + [{"o": None}],
    "a name later on": [{"o": 1}] * 99 + [{"o": 1, "p": 2}],
    "a name of an object later on": [{"o": {"a": 1}}] * 99 + [{"o": {"a": 1, "b": 2}}],
}


def advised(problem: str) -> list[str]:
    """Returns what a message advises as `--feature NAME=TYPE`, without the quotes of the shell."""
    words = shlex.split(problem.replace(",", " ").replace(";", " ").replace("TYPE", "int64"))
    return [words[i + 1].strip(")") for i, word in enumerate(words) if word.strip("(") == "--feature"]


def assert_advice_works(kind: str, rows: list[dict[str, Any]], source: Path, tmp_path: Path, capsys: Any) -> None:
    """Builds, and again with each piece of the error's advice, word for word."""
    args = ["--pattern", source, *(["--infer_rows", "9"] if kind == "jsonl" else [])]
    problem = fails(capsys, tmp_path, kind, *args)
    assert advised(problem), problem
    for i, spec in enumerate(advised(problem)):
        made = build(kind, tmp_path / str(i), *args, "--feature", spec)
        assert len(read(made)) == len(rows), spec


@pytest.mark.slow
@pytest.mark.parametrize("name", MISSING | UNKNOWN)
def test_advice_on_json_lines(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    rows = [{"i": i, **row} for i, row in enumerate((MISSING | UNKNOWN)[name])]
    (source / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert_advice_works("jsonl", rows, source, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", MISSING)
def test_advice_on_parquet(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"i": i, **row} for i, row in enumerate(MISSING[name])]
    pq.write_table(pa.Table.from_pylist([{"o": None, **row} for row in rows]), source / "a.parquet")
    assert_advice_works("parquet", rows, source, tmp_path, capsys)


def test_a_missing_list_is_an_empty_one_where_that_was_said(source: Path, tmp_path: Path) -> None:
    (source / "a.jsonl").write_text('{"i": 0, "l": [1]}\n{"i": 1, "l": null}\n{"i": 2}\n')
    made = build("jsonl", tmp_path, "--pattern", source, "--feature", "l=?")
    assert {int(row["i"]): row["l"].tolist() for row in read(made)} == {0: [1], 1: [], 2: []}


def test_csv_duplicate_keys(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source / "a.csv").write_text("id,n\nx,1\ny,2\nx,3\n")
    problem = fails(capsys, tmp_path, "csv", "--pattern", source, "--key", "id")
    assert "unique" in problem
    assert "\n  n: 1, id: 'x'\n  n: 3, id: 'x'\n  They are the same in 'id', which is the key (--key).\n" in problem


def test_jsonl(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"id": i, "tags": ["a", "b"][: i % 3], "user": {"name": f"n{i}", "age": i if i % 2 else None}}
        for i in range(20)
    ]
    (source / "train.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\nnonsense\n")
    (source / "test.jsonl").write_text(json.dumps(rows[0]))
    splits = ["--split", f"train={source}/train.jsonl", "--split", f"test={source}/test.jsonl"]
    assert "train.jsonl, line 21 (byte" in fails(capsys, tmp_path, "jsonl", *splits)
    made = build("jsonl", tmp_path, *splits, "--skip_bad")
    told = capsys.readouterr().out
    assert "left out: 1" in told
    assert "train.jsonl, line 21" in told
    found = {int(example["id"]): example for example in read(made)}
    for row in rows:
        example = found[row["id"]]
        assert [tag.decode() for tag in example["tags"]] == row["tags"]
        assert example["user"]["name"].decode() == row["user"]["name"]
        assert example["user"]["age"] == row["user"]["age"]
    assert len(read(made, "test")) == 1


def test_what_is_left_out_is_counted(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (source / "a.txt").write_text("one\n\n \ntwo\n")
    build("text_lines", tmp_path, "--pattern", source)
    assert "blank lines left out: 2" in capsys.readouterr().out
    TextLines(data_dir=str(tmp_path / "api"), name="made", pattern=str(source)).build(num_workers=1)
    assert "blank lines left out: 2" in caplog.text
    build("text_lines", tmp_path / "kept", "--pattern", source, "--keep_blank")
    assert "blank" not in capsys.readouterr().out


def test_transparency_is_counted(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    (source / "cat").mkdir()
    for mode, channels in (("RGBA", 4), ("LA", 2), ("RGB", 3), ("L", None)):
        shape = (2, 2, channels) if channels else (2, 2)
        image.fromarray(np.full(shape, 100, np.uint8), mode).save(source / "cat" / f"{mode}.png")
    made = build("image_folder", tmp_path, "--root", source)
    assert "images with transparency, which are read without: 2" in capsys.readouterr().out
    assert {one["image"].shape for one in read(made)} == {(2, 2, 3)}


def test_text_lines_are_the_same_anywhere(source: Path, tmp_path: Path) -> None:
    (source / "a.txt").write_text("".join(f"line {i}\n" for i in range(100)))
    first = build("text_lines", tmp_path, "--pattern", f"{source}/*.txt")
    assert sorted(example["text"] for example in read(first)) == sorted(b"line %d" % i for i in range(100))
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(source, elsewhere / "deep")
    second = build("text_lines", elsewhere, "--pattern", f"{elsewhere}/deep")
    for path in first.glob("*.tfrecord*"):
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_parquet(source: Path, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    vectors = np.arange(60, dtype=np.float32).reshape(20, 3)
    table = {
        "id": [f"r{i}" for i in range(20)],
        "v": pa.array(list(vectors), pa.list_(pa.float32(), 3)),
        "n": range(20),
    }
    pq.write_table(pa.table(table), source / "a.parquet", row_group_size=7)
    made = build("parquet", tmp_path, "--pattern", source, "--key", "id", "--feature", "n=uint8")
    found = {example["id"].decode(): example for example in read(made)}
    for i in range(20):
        np.testing.assert_array_equal(found[f"r{i}"]["v"], vectors[i])
        assert found[f"r{i}"]["n"] == i
        assert found[f"r{i}"]["n"].dtype == np.uint8


@pytest.mark.parametrize("given", [True, False])
def test_tfrecord(tmp_path: Path, given: bool) -> None:
    old = DATA / "tfds" / "spec_three" / "1.2.3"
    options = ["--features_json", old / "features.json"] if given else []
    made = build("tfrecord", tmp_path, "--pattern", f"{old}/*-train.tfrecord-*", *options)
    before, after = read(old), read(made)
    assert len(before) == len(after)
    if given:
        assert sorted(map(repr, before)) == sorted(map(repr, after))


def test_image_folder(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = {}
    for label in ("cat", "dog"):
        (source / label).mkdir()
        for i in range(4):
            pixels[f"{label}/{i}.png"] = np.full((4, 5, 3), 10 * i, np.uint8)
            image.fromarray(pixels[f"{label}/{i}.png"]).save(source / label / f"{i}.png")
    pixels["dog/w.webp"] = np.full((4, 5, 3), 7, np.uint8)
    image.fromarray(pixels["dog/w.webp"]).save(source / "dog" / "w.webp", lossless=True)
    (source / ".DS_Store").touch()
    made = build("image_folder", tmp_path, "--root", source)
    found = {example["image/filename"].decode(): example for example in read(made)}
    assert found.keys() == pixels.keys()
    for name, example in found.items():
        np.testing.assert_array_equal(example["image"], pixels[name])
        assert example["label"] == (0 if name.startswith("cat") else 1)
    (source / "cat" / "bad.png").write_bytes((source / "cat" / "1.png").read_bytes()[:50])
    assert "bad.png: a damaged image" in fails(capsys, tmp_path, "image_folder", "--root", source)
    (source / "notes.txt").touch()
    assert "1 files are not in the folder of a label" in fails(capsys, tmp_path, "image_folder", "--root", source)
    capsys.readouterr()
    build("image_folder", tmp_path / "rest", "--root", source, "--skip_bad")
    said = capsys.readouterr().out
    assert "left out: 2\n" in said
    assert f"{source}/notes.txt: it is not in the folder of a label\n" in said


def test_image_folder_with_splits(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("train/a/1.png", "train/b/2.png", "test/a/1.png"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.zeros((2, 2), np.uint8)).save(source / name)
    (source / "train" / "stray.png").touch()
    made = build("image_folder", tmp_path, "--root", source, "--skip_bad")
    assert "left out: 1\n" in capsys.readouterr().out
    assert {split: len(read(made, split)) for split in ("train", "test")} == {"train": 2, "test": 1}
    assert read(made)[0]["image"].shape == (2, 2, 3)
