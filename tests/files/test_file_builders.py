"""Builders of files from end to end, and files that an export wrote."""

import csv
import io
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.cli import main
from beam_datasets.errors import InputError
from beam_datasets.files.csv import Csv
from beam_datasets.files.text_lines import TextLines
from tests.exporting.conftest import dataset_of, export
from tests.files.conftest import rows_of
from tests.files.in_process import publish
from tests.strategies import assert_equal

DATA = Path(__file__).resolve().parents[1] / "data"
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PIL = pytest.importorskip("PIL.Image")


def jsonl(rows):
    return "\n".join(map(json.dumps, rows))


def png(pixels, mode=None):
    stream = io.BytesIO()
    PIL.fromarray(pixels, mode).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    "kind, text, why",
    [
        (
            "csv",
            b"a;b\n1,5;x\n",
            "line 2: 2 fields where the header has 1 ('1', '5;x'); is the delimiter different? (--delimiter ';')",
        ),
        ("csv", b"a,b\n", "no file has a row below its header"),
        ("csv", b"id,n\nx,1\nx,2\n", "n: 1, id: 'x'\n  n: 2, id: 'x'\n  They are the same in 'id', which is the key"),
        (
            "csv",
            b"id,n\nw,1\nx,1\ny,4\nx,2\n",
            "The rows:\n  {folder}/a.csv, line 3\n  {folder}/a.csv, line 5",
        ),
        ("tfrecord", b"id,n\n1,2\n3,4\n", "a.csv: expected a TFRecord file, got CSV. Build it as such"),
        ("tfrecord", b"some words", "expected a TFRecord file, which begins with a length of 8 bytes and their"),
        ("parquet", b"id,n\n1,2\n", "is not a Parquet file (9 bytes)"),
    ],
)
def test_files_that_cannot_be_used(files, kind, text, why):
    files.write("a.csv", text)
    output = files.fails(kind, *(["--key=id"] if b"id" in text and kind == "csv" else []))
    assert why.replace("{folder}", str(files.folder)) in output


@pytest.mark.parametrize(
    "name, options, text, other",
    [
        ("a.csv", {"delimiter": ";"}, "id,n\n1,2\n", ","),
        ("a.csv", {}, "id;n\n1;2\n", ";"),
        ("a.tsv", {}, "id,n\n1,2\n", ","),
        ("a.csv", {"delimiter": "\t"}, "id|n\n1|2\n", "|"),
        ("a.csv", {}, '"id,n"\n"x,y"\n', None),
        ("a.csv", {"delimiter": ";"}, "id\nx,y\n", None),
        ("a.csv", {"delimiter": ";"}, "id;n,m\n1;2\n", None),
    ],
)
def test_one_column_whose_name_contains_a_delimiter_is_an_error(tmp_path, name, options, text, other):
    (tmp_path / name).write_text(text)
    column = text.split("\n")[0]
    if other:
        why = f"expected several columns, got one, {column!r}; is the delimiter different? (--delimiter {other!r})"
        with pytest.raises(InputError, match=re.escape(why)):
            Csv(pattern=str(tmp_path / name), data_dir=tmp_path, **options).info  # noqa: B018
        options = {**options, "features": {column: "string"}}
    Csv(pattern=str(tmp_path / name), data_dir=tmp_path, **options).info  # noqa: B018


def test_csv(files):
    rows = [(f"h{i}", i / 4 if i % 3 else "", "flat" if i % 2 else "house", f"{i:05d}") for i in range(60)]
    for part in range(2):
        text = io.StringIO()
        csv.writer(text).writerows([("id", "price", "kind", "zip"), *rows[part::2]])
        files.write(f"{part}.csv", text.getvalue())
    made = files.build(
        "csv", "--split=train=70%", "--split=test=30%", "--key=id", "--feature=kind=class", "--feature=zip=drop"
    )
    train, test = rows_of(made), rows_of(made, "test")
    found = {example["id"].decode(): example for example in [*train, *test]}
    assert len(found) == len(train) + len(test) == 60
    assert 10 <= len(test) <= 30
    for key, price, kind, _ in rows:
        assert found[key]["kind"] == ["flat", "house"].index(kind)
        assert found[key]["price"] is None if price == "" else found[key]["price"] == np.float32(price)
    assert "zip" not in train[0]


def test_texts_among_numbers_are_an_error(files, caplog):
    """As they are in JSON lines, wherever they are; it names file, line and value, and the options that settle it."""
    path = files.write("a.csv", "price,zip\n1.5,00501\nn/a,12\n2,13\n3,14\n")
    problem = files.fails("csv")
    assert f"string (1 time, first 'n/a' in {path}, line 3)" in problem
    assert "; say what it is (--feature price=string makes text of anything, --feature price=drop" in problem
    assert "; --missing n/a if 'n/a' means a missing value; --skip_bad leaves out the rows" in problem
    assert "'zip'" not in problem  # a code, which text keeps
    assert sorted(row["price"] or 0 for row in files.read("csv", "--missing", "n/a")) == [0, 1.5, 2, 3]
    assert {row["price"] for row in files.read("csv", "--feature=price=string")} == {b"1.5", b"n/a", b"2", b"3"}
    assert sorted(row["price"] for row in files.read("csv", "--feature=price=float32", "--skip_bad")) == [1.5, 2, 3]
    assert not caplog.text
    assert sorted(row["price"] for row in files.read("csv", "--skip_bad")) == [1.5, 2, 3]
    assert "the rows with other values than float or int are left out (--skip_bad)" in caplog.text
    assert "price" in files.fails("csv", "--infer_rows=1")


def test_a_feature_that_no_row_has(files, caplog):
    """Later rows of JSON lines may have it, so that it is a warning; a CSV file has a header."""
    files.write("a.jsonl", jsonl([{"price": 1, "user": {"name": "x"}, "parts": [{"id": 1}]}]))
    options = ["--feature=user.name=string", "--feature=parts.id=int64", "--feature=added=int64?"]
    assert files.read("jsonl", *options)[0]["added"] is None
    assert "feature 'added' is in none of the sampled rows." in caplog.text
    assert "user" not in caplog.text
    assert "parts" not in caplog.text


@pytest.mark.parametrize("name, meant", [("prise", "price"), ("user.naame", "user/name"), ("part.id", "parts/id")])
@pytest.mark.parametrize("kind", ["int64?", "drop"])
def test_a_feature_whose_name_is_mistyped(name, meant, kind, files):
    """It must not leave a column as it is that should have another type, or be left out."""
    files.write("a.jsonl", jsonl([{"price": 0.5, "user": {"name": "x"}, "parts": [{"id": 1}]}]))
    with pytest.raises(InputError, match=rf"Did you mean '{meant}'\? If both are meant") as error:
        publish("jsonl", files.folder, f"--feature={name}={kind}")
    [way] = advised(str(error.value))
    [row] = publish("jsonl", files.folder, f"--feature={name}={kind}", f"--feature={way}").rows
    assert row["price"] == 0.5


def test_several_patterns_of_a_split(files, tmp_path, capsys):
    paths = [files.write(f"{i}.csv", f"x,y\n{i},n\n") for i in range(3)]
    patterns = [f"--split=train={paths[0]}", f"--split=train={paths[2]}"]
    made = files.build("csv", *patterns, f"--split=test={paths[1]}")
    assert sorted(int(row["x"]) for row in rows_of(made)) == [0, 2]
    assert [int(row["x"]) for row in rows_of(made, "test")] == [1]
    twice = ["--feature=x=string", "--feature=x=int64"]
    assert main(["build", "csv", "--data_dir", str(tmp_path), *patterns, *twice]) == 2
    assert "--feature: x is given twice, as 'string' and as 'int64'" in capsys.readouterr().err


@pytest.mark.slow
def test_floats_keep_their_digits(files):
    times, short = [1700000000.123456, 16777217.0, -1e300, 0.1], [0.5, 0.1, 1e3, 3.25]
    rows = [{"i": i, "ts": ts, "short": s, "l": [ts] * i} for i, (ts, s) in enumerate(zip(times, short))]
    files.write("jsonl/a", jsonl(rows))
    files.write("csv/a", "i,ts,short,l\n" + "".join(f'{r["i"]},{r["ts"]},{r["short"]},"{r["l"]}"\n' for r in rows))
    maybe = {"maybe": [None, 1 / 3, None, 0.5], "v": pa.array([[ts, 0.0] for ts in times], pa.list_(pa.float64(), 2))}
    columns = {name: [row[name] for row in rows] for name in rows[0]} | maybe
    pq.write_table(pa.table(columns), files.write("parquet/a"))
    for kind, narrow in (("csv", np.float32), ("jsonl", np.float32), ("parquet", np.float64)):
        lists = ["--feature=l=float64[]"] if kind == "csv" else []
        found = {int(row["i"]): row for row in files.read(kind, f"--pattern={files.folder}/{kind}", *lists)}
        assert [found[i]["ts"] for i in range(4)] == times
        assert [found[i]["short"].dtype for i in range(4)] == [narrow] * 4
        assert [found[i]["l"].tolist() for i in range(4)] == [row["l"] for row in rows]
    assert [found[i]["maybe"] for i in range(4)] == maybe["maybe"]
    assert [found[i]["v"].tolist() for i in range(4)] == [[ts, 0.0] for ts in times]


MISSING = {
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
UNKNOWN = {  # of JSON lines alone; other files say their types
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


def advised(problem):
    """Returns what a message advises as `--feature NAME=TYPE`, without the quotes of the shell."""
    words = shlex.split(problem.replace(",", " ").replace(";", " ").replace("TYPE", "int64"))
    return [words[i + 1].strip(")") for i, word in enumerate(words) if word.strip("(") == "--feature"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, name", [*(("jsonl", name) for name in MISSING | UNKNOWN), *(("parquet", name) for name in MISSING)]
)
def test_advice_works_word_for_word(files, kind, name):
    rows = [{"i": i, **row} for i, row in enumerate((MISSING | UNKNOWN)[name])]
    path = files.write("a", jsonl(rows))
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([{"o": None, **row} for row in rows]), path)
    args = ["--infer_rows=9"] if kind == "jsonl" else []
    problem = files.fails(kind, *args)
    assert advised(problem), problem
    for spec in advised(problem):
        assert len(files.read(kind, *args, "--feature", spec)) == len(rows), spec


def test_a_missing_list_is_an_empty_one_if_asked_for(files):
    files.write("a.jsonl", '{"i": 0, "l": [1]}\n{"i": 1, "l": null}\n{"i": 2}\n')
    found = files.read("jsonl", "--feature=l=?")
    assert {int(row["i"]): row["l"].tolist() for row in found} == {0: [1], 1: [], 2: []}


def test_jsonl(files):
    rows = [
        {"id": i, "tags": ["a", "b"][: i % 3], "user": {"name": f"n{i}", "age": i if i % 2 else None}}
        for i in range(20)
    ]
    train, test = files.write("train.jsonl", jsonl(rows) + "\nnonsense\n"), files.write("test.jsonl", jsonl(rows[:1]))
    splits = [f"--split=train={train}", f"--split=test={test}"]
    assert f"{train}, line 21 (byte" in files.fails("jsonl", *splits)
    made = files.build("jsonl", *splits, "--skip_bad")
    said = files.said()
    assert "left out: 1" in said
    assert f"{train}, line 21" in said
    found = {int(example["id"]): example for example in rows_of(made)}
    for row in rows:
        example = found[row["id"]]
        assert [tag.decode() for tag in example["tags"]] == row["tags"]
        assert example["user"]["name"].decode() == row["user"]["name"]
        assert example["user"]["age"] == row["user"]["age"]
    assert len(rows_of(made, "test")) == 1


def test_text_lines(files, tmp_path, caplog):
    """The same files in another folder make the same bytes; blank lines are counted."""
    files.write("a.txt", "".join(f"line {i}\n" for i in range(100)) + "\n \n")
    first = files.build("text_lines", f"--pattern={files.folder}/*.txt")
    assert "blank lines left out: 2" in files.said()
    assert sorted(example["text"] for example in rows_of(first)) == sorted(b"line %d" % i for i in range(100))
    shutil.copytree(files.folder, tmp_path / "elsewhere" / "deep")
    elsewhere = TextLines(data_dir=str(tmp_path / "api"), name="made", pattern=str(tmp_path / "elsewhere" / "deep"))
    second = Path(elsewhere.build(num_workers=1))
    assert "blank lines left out: 2" in caplog.text
    for path in first.glob("*.tfrecord*"):
        assert path.read_bytes() == (second / path.name).read_bytes()
    assert len(files.read("text_lines", "--keep_blank")) == 102
    assert "blank" not in files.said()


@pytest.mark.parametrize("given", [True, False])
def test_tfrecord(files, given):
    old = DATA / "tfds" / "spec_three" / "1.2.3"
    shutil.copytree(old, files.folder)
    options = ["--features_json", old / "features.json"] if given else []
    before = rows_of(old)
    after = files.read("tfrecord", f"--pattern={files.folder}/*-train.tfrecord-*", *options)
    assert len(before) == len(after)
    if given:
        assert sorted(map(repr, before)) == sorted(map(repr, after))


def test_image_folder(files):
    pixels = {f"{label}/{i}.png": np.full((4, 5, 3), 10 * i, np.uint8) for label in ("cat", "dog") for i in range(4)}
    for name, array in pixels.items():
        files.write(name, png(array))
    pixels["dog/w.webp"] = np.full((4, 5, 3), 7, np.uint8)
    PIL.fromarray(pixels["dog/w.webp"]).save(files.write("dog/w.webp"), lossless=True)
    files.write(".DS_Store")
    found = {example["image/filename"].decode(): example for example in files.read("image_folder")}
    assert found.keys() == pixels.keys()
    for name, example in found.items():
        np.testing.assert_array_equal(example["image"], pixels[name])
        assert example["label"] == (0 if name.startswith("cat") else 1)
    files.write("cat/bad.png", png(pixels["cat/1.png"])[:50])
    assert "bad.png: a damaged image" in files.fails("image_folder")
    notes = files.write("notes.txt")
    assert "1 file is not in the folder of a label" in files.fails("image_folder")
    files.build("image_folder", "--skip_bad")
    said = files.said()
    assert "left out: 2\n" in said
    assert f"{notes}: it is not in the folder of a label\n" in said


def test_image_folder_with_splits_and_transparency(files):
    for name, mode, shape in (
        ("train/a/1", "RGBA", (2, 2, 4)),
        ("train/b/2", "LA", (2, 2, 2)),
        ("train/b/3", "L", (2, 2)),
        ("test/a/1", "RGB", (2, 2, 3)),
    ):
        files.write(f"{name}.png", png(np.full(shape, 100, np.uint8), mode))
    files.write("train/stray.png")
    made = files.build("image_folder", "--skip_bad")
    said = files.said()
    assert "left out: 1\n" in said
    assert "images with transparency, which are read without: 2" in said
    assert {split: len(rows_of(made, split)) for split in ("train", "test")} == {"train": 3, "test": 1}
    assert {one["image"].shape for one in rows_of(made)} == {(2, 2, 3)}


# What was exported is built again from its files: the same examples


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


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("features", [[], ["--feature=user=drop"]], ids=["kept", "dropped"])
@pytest.mark.slow
def test_the_key_is_a_field_of_an_object(files, kind, features):
    rows = [{"user": {"id": f"k{n}", "age": n}, "n": n} for n in range(50)]
    path = files.write("rows", jsonl(rows))
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    split = ["--split_by=group=user.id", "--split=train=50%", "--split=test=50%"]
    assert files.build(kind, "--key=user.id", *split, *features)
    dataset = bd.builder_from_directory(files.build(kind, "--key=user.id", *features)).as_dataset("train")
    assert [dataset[dataset.find(f"k{n}")]["n"] for n in range(50)] == list(range(50))
    assert ("user" in dataset[0]) == (not features)
    for key in ("users/id", "user/x", "n/id"):
        assert f"key '{key}' is not in the files; they have 'user', 'user/id', " in files.fails(kind, f"--key={key}")
