"""Rows to splits: every row in exactly one, by its files, its key or a column."""

import datetime
import json

import pytest

from beam_datasets import SplitByHash
from beam_datasets.cli import main
from beam_datasets.errors import InputError
from beam_datasets.files.csv import Csv
from beam_datasets.files.image_folder import ImageFolder
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.parquet import Parquet
from beam_datasets.files.split_assignment import SplitBy, assignment
from beam_datasets.reading.opening import builder_from_directory

EIGHTY = {"train": "80%", "test": "20%"}
GROUP = SplitBy(group="user")


@pytest.mark.parametrize(
    "splits, pattern, options, message",
    [
        ({}, None, {}, "no input"),
        (EIGHTY, None, {}, "files of all splits .*'train': '80%'"),
        ({"train": "80%", "test": "b*"}, None, {}, "files of all splits .*'train': '80%'"),
        ({"train": "80%", "test": "b*"}, "x", {}, "'test' is 'b"),
        ({"train": ["80%", "20%"]}, "x", {}, "each split once"),
        ({"train": ["a*", "b*"]}, "x", {}, "each split once"),
        ({"train": []}, None, {}, "files of all splits .*'train': ..,"),
        ({"train": "80%", "test": "10%"}, "x", {}, "add up to 90%, not 100"),
        (EIGHTY, "x", {"by": SplitBy(group="a", time="b")}, "expected one of --split_by group=COLUMN"),
        (EIGHTY, "x", {"by": SplitBy(missing="train")}, "expected one of --split_by group=COLUMN"),
        (EIGHTY, "x", {"by": GROUP, "stratify": "label"}, "expected one of --split_by group=COLUMN"),
        (EIGHTY, "x", {"by": SplitBy(missing="train"), "stratify": "label"}, "missing: expected none with --stratify"),
        (EIGHTY, None, {"by": GROUP}, "expected the files of all splits .* beside {'group': 'user'}"),
        ({}, "x", {"by": GROUP}, "such as --split train=80%"),
        ({"train": "a"}, "x", {"by": GROUP}, "'train': expected a share"),
        (EIGHTY, "x", {"by": SplitBy(group="user", missing="tran")}, "missing: expected one of .* got 'tran'"),
        (EIGHTY, "x", {"by": SplitBy(time="t")}, "expected a range START..STOP"),
        ({}, "x", {"by": SplitBy(time="t")}, r"such as --split train=\.\.2026-01-01"),
        (EIGHTY, "x", {"by": SplitBy(time="t"), "train_until": "2026-01-01"}, "train_until: expected"),
        ({}, "x", {"by": GROUP, "train_until": "2026-01-01"}, "train_until: expected"),
        ({}, "x", {"by": SplitBy(time="t"), "train_until": "soon"}, "'train': expected a date or time .* got 'soon'"),
        (EIGHTY, "x", {"by": "group=user"}, "split_by: expected a SplitBy .* got 'group=user'"),
        (["train"], "x", {}, r"splits: expected {name: value}, got \['train'\]"),
    ],
)
def test_refused(splits, pattern, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        assignment(splits, pattern, **options)


def test_splits_of_files_need_no_assignment():
    assert assignment({"train": ["a*", "c"], "test": "b*"}, None) is assignment({}, "a*") is None


ROWS = [
    {
        "id": i,
        "user": f"u{i % 7}",
        "day": f"2026-01-{i % 28 + 1:02}",
        "part": ["train", "val", "dev"][i % 3],
        "o": {"u": i},
    }
    for i in range(60)
]


def csv_of(rows):
    names = [name for name in rows[0] if name != "o"]
    return "\n".join([",".join(names), *(",".join(str(row[name]) for name in names) for row in rows)])


def write(files, kind, rows, name="a"):
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        dates = [{**row, "day": row["day"] and datetime.datetime.fromisoformat(row["day"])} for row in rows]
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(dates), files.write(name))
    else:
        files.write(name, csv_of(rows) if kind == "csv" else "\n".join(map(json.dumps, rows)))


KINDS = {"csv": Csv, "jsonl": Jsonl, "parquet": Parquet}


def ids(files, kind, **options):
    """Returns id -> split of the rows of all files, as workers find them."""
    sources = KINDS[kind](name="made", pattern=str(files.folder), **options).split_generators(None)
    [source] = set(sources.values())
    found = {int(example["id"]): split for unit in source.units for _, example, split in source.read(unit)}
    assert {*found.values()} <= {*sources}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_stays_together_and_in_place_when_rows_are_appended(files, kind):
    """The column need not be stored; the split depends on no other row, key, file or format."""
    options = {"split_by": GROUP, "splits": {"train": "60%", "test": "40%"}, "features": {"user": "drop"}}
    write(files, kind, ROWS[:20])
    before = ids(files, kind, **options)
    write(files, kind, ROWS[20:], "b")
    after = ids(files, kind, **options, key="id")
    assert before.items() <= after.items()
    split_of = SplitByHash(options["splits"])
    assert after == {row["id"]: split_of(row["user"]) for row in ROWS}
    assert {*after.values()} == {"train", "test"}


@pytest.mark.parametrize("kind", KINDS)
def test_by_time_column_label_and_field(files, kind):
    write(files, kind, ROWS)
    found = ids(files, kind, split_by=SplitBy(time="day"), train_until="2026-01-20")
    assert found == {row["id"]: "train" if row["day"] < "2026-01-20" else "test" for row in ROWS}
    found = ids(files, kind, split_by=SplitBy(column="part"), features={"part": "drop"})
    assert found == {row["id"]: row["part"] for row in ROWS}
    two = {"train": "train", "rest": ["val", "dev"]}
    found = ids(files, kind, split_by=SplitBy(column="part"), splits=two)
    assert found == {row["id"]: "train" if row["part"] == "train" else "rest" for row in ROWS}
    found = ids(files, kind, stratify="part", splits=EIGHTY, key="id")
    assert found == {row["id"]: SplitByHash(EIGHTY)(row["part"], row["id"]) for row in ROWS}
    if kind != "csv":
        found = ids(files, kind, split_by=SplitBy(group="o/u"), splits=EIGHTY)
        assert found == {row["id"]: SplitByHash(EIGHTY)(row["id"]) for row in ROWS}


def test_groups_that_one_file_writes_as_integers_and_another_with_a_point_stay_together(files):
    """As pandas does, which writes 7 as 7.0 if another value of the column is missing."""
    for name, end in (("a", ".0"), ("b", "")):
        files.write(name, "\n".join(["id,user", *(f"{name}{user},{user}{end}" for user in range(50))]))
    made = Csv(pattern=str(files.folder), key="id", split_by=GROUP, splits=EIGHTY)
    [source] = set(made.split_generators(None).values())
    found = {key: split for unit in source.units for key, _, split in source.read(unit)}
    assert len(found) == 100
    assert all(found[f"a{user}"] == found[f"b{user}"] for user in range(50))


def test_missing_values(files):
    write(files, "csv", [{**row, "user": row["user"] if row["id"] % 5 else "?"} for row in ROWS])
    options = {"splits": EIGHTY, "missing": ["?"]}
    with pytest.raises(InputError, match="a, line 2: column 'user': expected a value to split by, got none; take such"):
        ids(files, "csv", split_by=GROUP, **options)
    found = ids(files, "csv", split_by=SplitBy(group="user", missing="test"), **options)
    assert {found[i] for i in range(0, 60, 5)} == {"test"}
    assert len(ids(files, "csv", split_by=GROUP, skip_bad=True, **options)) == 48
    assert len(ids(files, "csv", stratify="user", **options)) == 60


def test_an_empty_text_names_no_split(files):
    rows = [{**row, "part": row["part"] if row["id"] % 5 else ["", " ", None][row["id"] % 3]} for row in ROWS]
    write(files, "jsonl", rows)
    found = ids(files, "jsonl", split_by=SplitBy(column="part", missing="dev"))
    assert found == {row["id"]: row["part"] if row["id"] % 5 else "dev" for row in ROWS}


@pytest.mark.slow
def test_the_command(files):
    """The published splits, also of a run that continues and of a trial."""
    write(files, "csv", ROWS)
    options = ["--split_by=group=user", "--split=train=60%", "--split=test=40%", "--feature=user=drop", "--key=id"]
    made = builder_from_directory(files.build("csv", *options)).as_dataset()
    split_of = SplitByHash({"train": "60%", "test": "40%"})
    expected = {split: {row["id"] for row in ROWS if split_of(row["user"]) == split} for split in ("train", "test")}
    assert {split: {int(example["id"]) for example in rows} for split, rows in made.items()} == expected
    files.said()
    assert main(["build", "csv", f"--pattern={files.folder}", *options, "--trial=2"]) == 0
    assert files.said().count("user") == 0


@pytest.mark.parametrize(
    "kind, args, message",
    [
        ("csv", ["--split_by=group=usr"], "('id', 'user', 'day', 'part'), got 'usr'. Did you mean 'user'?"),
        ("csv", ["--split_by=time=user", "--train_until=2026-01-20"], "line 2: column 'user': expected a date or time"),
        (
            "csv",
            ["--split_by=column=part", "--split=train=train"],
            "line 3: column 'part': expected a value of a split",
        ),
        ("csv", ["--infer_rows=0"], "infer_rows must be at least 1"),
        ("csv", ["--split_by=column=id", "--infer_rows=9"], "line 11: column 'id': expected a value of a split"),
        ("csv", ["--split_by=by=user"], "expected group=VALUE or time=VALUE"),
        (
            "jsonl",
            ["--split_by=group=o/x"],
            "('id', 'user', 'day', 'part', 'o', 'o/u'), got 'o/x'. Did you mean 'o/u'?",
        ),
        ("jsonl", ["--split_by=group=o"], "column 'o': expected a text, number"),
        ("parquet", ["--split_by=column=o"], "expected values that name splits, got 0"),
    ],
)
def test_errors_before_the_run(files, kind, args, message, capsys):
    write(files, kind, ROWS)
    shares = [] if "group" not in args[0] else ["--split=train=60%", "--split=test=40%"]
    assert main(["build", kind, f"--pattern={files.folder}", *args, *shares, "--dry_run"]) in (1, 2)
    assert message in capsys.readouterr().err


def test_images_by_label(files):
    png = pytest.importorskip("PIL.Image")
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        files.write(name)
        png.new("RGB", (2, 2)).save(files.folder / name)
    sources = ImageFolder(root=str(files.folder), stratify="label", splits=EIGHTY).split_generators(None)
    [source] = set(sources.values())
    found = {key: split for unit in source.units for key, _, split in source.read(unit)}
    assert found == {key: SplitByHash(EIGHTY)(key[:3], key) for key in ("cat/1.png", "cat/2.png", "dog/1.png")}
    with pytest.raises(ValueError, match="expected a column of .'label', 'image/filename'. .* got 'size'"):
        ImageFolder(root=str(files.folder), split_by=SplitBy(group="size"), splits=EIGHTY)
