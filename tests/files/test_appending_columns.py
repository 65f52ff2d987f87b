"""Files that are appended and have other columns than what was published, or other types of them."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_datasets as bd
from beam_datasets.errors import (
    BeamDatasetsError,
    InputError,
)
from beam_datasets.files.csv import Csv
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.parquet import Parquet
from tests.facts import raises_with
from tests.files.days import csv, csv_file, json_lines, parquet, rows_of


@pytest.mark.parametrize(
    ("header", "features", "problem"),
    [
        (
            "id,n",
            {"n": "string"},
            ["'n' is int64", "Text("],
        ),
        (
            "id,n,label",
            {"label": "class"},
            ["'label', ClassLabel", "one dataset only"],
        ),
    ],
)
def test_other_features_are_an_error_that_names_the_files_and_no_option_that_does_not_help(
    tmp_path, header, features, problem
):
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1")
    Csv(name="ds", pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path).build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", header, "b,2" if header == "id,n" else "b,2,cat")
    new = Csv(pattern=f"{tmp_path}/logs/*", key="id", features=features, data_dir=tmp_path)
    for union_features in (False, True):
        with raises_with(
            BeamDatasetsError, mentions=["logs/2.csv", "ds:1.0.0", *problem], advice=["version."]
        ) as error:
            bd.append("ds", new, data_dir=tmp_path, union_features=union_features)
        assert "--union_features" not in str(error.value)


def appended_column(tmp_path, *days, **options):
    """Returns the values of a column of JSON Lines that are built, and then appended, a day at a time."""
    (tmp_path / "logs").mkdir()
    files = Jsonl(name="ds", pattern=f"{tmp_path}/logs/*.jsonl", key="id", data_dir=tmp_path)
    for number, values in enumerate(days):
        lines = [json.dumps({"id": f"{number}-{i}", "x": value}) for i, value in enumerate(values)]
        (tmp_path / f"logs/{number}.jsonl").write_text("\n".join(lines))
        if number == 0:
            made = files.elsewhere(tmp_path).build(num_workers=1)
        else:
            made = bd.append("ds", files, data_dir=tmp_path, **options)
    found = {row["id"].decode(): row["x"] for row in rows_of(made)}
    return [found[key] for key in sorted(found)]


@pytest.mark.parametrize("days", [([0.1 + 0.2, None], [1 / 3]), ([0.1 + 0.2], [1 / 3, None])])
def test_digits_of_float64_are_kept_whether_or_not_a_day_lacks_a_value(tmp_path, days):
    assert appended_column(tmp_path, *days, union_features=True) == [value for day in days for value in day]


def test_a_column_of_a_part_of_a_day_keeps_its_type(tmp_path):
    assert appended_column(tmp_path, [1], [1]) == [1, 1]
    files = Jsonl(name="ds", pattern=f"{tmp_path}/logs/*.jsonl", key="id", data_dir=tmp_path)
    day = tmp_path / "logs/2.jsonl"
    day.write_text("".join(json.dumps({"id": f"2-{n}", "x": 1, "new": n}) + "\n" for n in range(2)))
    bd.append("ds", files, split="train=train[:1]", data_dir=tmp_path, union_features=True)
    day.write_text(json.dumps({"id": "3", "x": 1, "new": 3}))
    made = bd.append("ds", files, data_dir=tmp_path)
    assert {row["id"]: row["new"] for row in rows_of(made)}[b"3"] == 3


@pytest.mark.parametrize("value", ["a", 1, [1]])
def test_a_day_that_has_what_earlier_ones_lacked_needs_no_option(tmp_path, value):
    assert appended_column(tmp_path, [value], [value])[-1] == (value.encode() if value == "a" else value)
    files = Jsonl(name="ds", pattern=f"{tmp_path}/logs/*.jsonl", key="id", data_dir=tmp_path)
    for number, row in ((2, {"id": "lacks it"}), (3, {"id": "has it", "x": value})):
        (tmp_path / f"logs/{number}.jsonl").write_text(json.dumps(row))
        made = bd.append("ds", files, data_dir=tmp_path, union_features=number == 2)
    assert len(rows_of(made)) == 4


def test_numbers_that_are_empty_in_all_rows_of_a_day_may_be_missing(tmp_path):
    files = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path)
    csv(tmp_path / "logs", "1.csv", "id,n,text", "a,1,x")
    files.elsewhere(tmp_path).build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n,text", "b,,", "c,,")
    rows = rows_of(bd.append("ds", files, data_dir=tmp_path, union_features=True))
    assert {row["id"]: (row["n"], row["text"]) for row in rows} == {
        b"a": (1, b"x"),
        b"b": (None, b""),
        b"c": (None, b""),
    }


@pytest.mark.parametrize(
    ("days", "problem"),
    [
        (([[0.5]], [[1 / 3]]), "0.333.* has more digits, or is larger, than float32 keeps"),
        (([[[0.5]]], [[[1 / 3]]]), "0.333.* has more digits, or is larger, than float32 keeps"),
        ((["a"], [5]), r"5 \(int\) is not text"),
        (([["a"]], [[5]]), r"5 \(int\) is not text"),
        (([1 / 3], [2**63 - 1]), "9223372036854775807 has more digits than float64 keeps"),
    ],
)
def test_what_the_published_type_does_not_keep_is_an_error(tmp_path, days, problem):
    with pytest.raises(InputError, match=rf"1\.jsonl, line 1 .*'x': {problem}"):
        appended_column(tmp_path, *days)


def test_digits_that_a_published_float16_does_not_keep_are_an_error(tmp_path):
    (tmp_path / "logs").mkdir()
    files = Parquet(name="ds", pattern=f"{tmp_path}/logs/*.parquet", key="id", data_dir=tmp_path)
    for number, column in enumerate([pa.array([np.float16(0.1)]), pa.array([0.1], pa.float32())]):
        pq.write_table(pa.table({"id": [number], "x": column}), tmp_path / f"logs/{number}.parquet")
        if number == 0:
            files.elsewhere(tmp_path).build(num_workers=1)
    with pytest.raises(InputError, match=r"1\.parquet, row 0: 'x': 0\.1000.* than float16 keeps"):
        bd.append("ds", files, data_dir=tmp_path)


@pytest.mark.slow
def test_columns_that_appear_or_vanish_may_be_missing(tmp_path):
    lines = [
        {"id": 1, "n": 1, "text": "a", "list": [1, 2], "user": {"age": 7, "name": "x"}},
        {"id": 2, "n": 2.5, "more": 3, "user": {"age": 8, "town": "y"}},
        {"id": 3, "n": None, "list": [5], "text": "c", "user": {"age": 9, "name": "z"}},
    ]
    (tmp_path / "logs").mkdir()
    new = Jsonl(pattern=f"{tmp_path}/logs/*.jsonl", key="id", features={"n": "float64?"}, data_dir=tmp_path)
    for number, line in enumerate(lines):
        (tmp_path / f"logs/{number}.jsonl").write_text(json.dumps(line))
        if number == 0:
            given = {"id": "int64", "n": "float64?"}
            old = Jsonl(name="ds", pattern=f"{tmp_path}/logs/*.jsonl", key="id", features=given, data_dir=tmp_path)
            made = old.build(num_workers=1)
            continue
        with pytest.raises(BeamDatasetsError, match="is in the .* only.*--union_features"):
            bd.append("ds", new, data_dir=tmp_path)
        made = bd.append("ds", new, data_dir=tmp_path, union_features=True)
    found = {row["id"]: row for row in rows_of(made)}
    for line in lines:
        row = found[line["id"]]
        assert (row["n"], row["more"]) == (line["n"], line.get("more"))
        assert row["text"] == (line["text"].encode() if "text" in line else None)
        assert list(row["list"]) == line.get("list", [])
        assert row["user"]["age"] == line["user"]["age"]
        assert row["user"]["town"] == (b"y" if "town" in line["user"] else None)
    whole = Jsonl(
        name="whole",
        pattern=f"{tmp_path}/logs/*.jsonl",
        key="id",
        features={
            "n": "float64?",
            "more": "int64?",
            "list": "int64[]?",
            "text": "string?",
            "user/name": "string?",
            "user/town": "string?",
        },
        data_dir=tmp_path,
    ).build(num_workers=1)
    assert list(map(repr, rows_of(made))) == list(map(repr, rows_of(whole)))
    assert bd.verify(made).whole


@pytest.mark.parametrize(
    ("files", "write"), [(Csv, csv_file), (Jsonl, json_lines), (Parquet, parquet)], ids=["csv", "jsonl", "parquet"]
)
def test_files_of_several_days_may_have_other_columns_and_quiet_days_no_rows(tmp_path, files, write):
    def day(number, *names, rows=2):
        write(tmp_path / f"logs/{number}", [{"id": f"{number}-{n}", "n": n, "m": n} for n in range(rows)], names)

    def new():
        return files(name="ds", pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path)

    (tmp_path / "logs").mkdir()
    day(1, "id", "n")
    first = new().build(num_workers=1)
    day(2, "id", "n", rows=0)
    assert bd.append("ds", new(), data_dir=tmp_path) == first
    day(3, "id", "n", "m")
    day(4, "id", "n")
    day(5, "id", "m")
    with pytest.raises(BeamDatasetsError, match="optional|--union_features"):
        bd.append("ds", new(), data_dir=tmp_path)
    rows = rows_of(bd.append("ds", new(), data_dir=tmp_path, union_features=True))
    found = {row["id"].decode(): (row["n"], row["m"]) for row in rows}
    assert found == {
        f"{day}-{n}": (None if day == 5 else n, n if day in (3, 5) else None) for day in (1, 3, 4, 5) for n in range(2)
    }


@pytest.mark.parametrize("together", [False, True])
def test_what_some_days_lack_may_be_missing_later(tmp_path, together):
    days = [{"text": "a"}, {"list": [1, 2]}, {}, {"text": None, "list": [3]}, {"list": [4]}]
    (tmp_path / "logs").mkdir()
    files = Jsonl(name="ds", pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path)
    for number, day in enumerate(days):
        (tmp_path / f"logs/{number}.jsonl").write_text(json.dumps({"id": number, **day}))
        if number == 0:
            made = Jsonl(name="ds", pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path).build(num_workers=1)
        elif not together or number + 1 == len(days):
            made = bd.append("ds", files, data_dir=tmp_path, union_features=True)
    found = {row["id"]: (row["text"], list(row["list"])) for row in rows_of(made)}
    assert found == {0: (b"a", []), 1: (None, [1, 2]), 2: (None, []), 3: (None, [3]), 4: (None, [4])}


@pytest.mark.parametrize("then", ["a part of the day", "a dataset that has it"])
@pytest.mark.slow
def test_what_a_day_lacked_may_be_missing_whatever_is_appended(tmp_path, then):
    def append(new, **options):
        return bd.append("ds", new, data_dir=tmp_path, union_features=True, **options)

    def files(name="ds", **options):
        return Jsonl(name=name, pattern=f"{tmp_path}/{name}/*.jsonl", key="id", data_dir=tmp_path, **options)

    def day(name, *rows):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    day("ds/1.jsonl", {"id": 1, "text": "a"})
    files().build(num_workers=1)
    day("ds/2.jsonl", {"id": 2}, {"id": 3})
    if then == "a part of the day":
        append(files(), split="train=train[:1]")
        os.remove(tmp_path / "ds/2.jsonl")
    else:
        append(files())
        day("more/4.jsonl", {"id": 4, "text": "d"})
        append(files("more").build(num_workers=1))
    day("ds/3.jsonl", {"id": 5, "text": "e"}, {"id": 6, "text": None})
    made = append(files(infer_rows=1))  # which does not see that the text may be missing
    assert {row["id"]: row["text"] for row in rows_of(made)}.items() >= {5: b"e", 6: None}.items()


def test_rows_without_a_recorded_key_are_refused(tmp_path):
    """They would be appended once more."""
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2", "c,3")
    days = Csv(name="days", pattern=f"{tmp_path}/logs/1.csv", key="id", data_dir=tmp_path)
    published = days.build(num_workers=1)
    made = bd.materialize(published, split="train[:100%]", to="slice:1.0.0", data_dir=tmp_path)
    Path(made, "inputs.json").unlink()  # as of an older version of the library
    csv(tmp_path / "logs", "2.csv", "id,n", "b,2", "x,4")
    files = f"{tmp_path}/logs/2.csv"
    with pytest.raises(InputError, match=r"the key of 1\.0\.0 is not recorded: expected --key COLUMN"):
        bd.append("slice", Csv(pattern=files), data_dir=tmp_path)
    taken = pytest.warns(UserWarning, match="names its files: all are taken")
    with taken, pytest.raises(bd.errors.DuplicateKeyError):
        bd.append("slice", Csv(pattern=files, key="id"), data_dir=tmp_path)
    csv(tmp_path / "logs", "2.csv", "id,n", "y,5", "x,4")
    other = Csv(name="other", pattern=files, data_dir=tmp_path).build(num_workers=1)
    appended = bd.append("slice", other, data_dir=tmp_path)
    assert sorted(row["n"] for row in rows_of(appended)) == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("on_duplicate", ["error", "replace", "skip_identical"])
def test_a_key_that_a_file_repeats_is_an_error_whose_advice_works(tmp_path, on_duplicate):
    """It proposed an option that only `build` has."""
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2")
    options = {"pattern": f"{tmp_path}/logs/*.csv", "key": "id"}
    Csv(name="ds", data_dir=tmp_path, **options).build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "c,3", "c,3", "d,4")
    with pytest.raises(bd.errors.DuplicateKeyError, match="dataset of its own with `build --ignore_dup") as error:
        bd.append("ds", Csv(**options), data_dir=tmp_path, on_duplicate=on_duplicate)
    assert ", or keep one example" not in str(error.value)
    other = Csv(name="ds", pattern=f"{tmp_path}/logs/2.csv", key="id", data_dir=tmp_path / "other")
    made = bd.append("ds", other.build(ignore_duplicates=True, num_workers=1), data_dir=tmp_path)
    assert sorted(row["n"] for row in rows_of(made)) == [1, 2, 3, 4]
    assert bd.append("ds", Csv(**options), data_dir=tmp_path) == made  # the file is known


@pytest.mark.parametrize("path, value", [("x", None), ("x", "text"), ("o/y", None)])
def test_what_a_build_leaves_out_stays_out(tmp_path, path, value):
    """Also if a later file has only nulls in it, whose type is unknown."""
    features, folder = {path: "drop", "o/z": "int64?"}, tmp_path / "in"
    folder.mkdir()

    def write(name, number, inner):
        row = {"id": number, "x": inner if path == "x" else 1, "o": {"y": inner if path == "o/y" else 1, "z": number}}
        (folder / name).write_text(json.dumps(row))

    files = Jsonl(name="ds", pattern=f"{folder}/*.jsonl", key="id", data_dir=tmp_path, features=features)
    write("1.jsonl", 1, {"any": ["thing"]})
    files.build(num_workers=1)
    later = Jsonl(name="ds", pattern=f"{folder}/*.jsonl", key="id", data_dir=tmp_path)
    for number in (2, 3):
        write(f"{number}.jsonl", number, value)
        directory = bd.append("ds", later, data_dir=tmp_path)
    rows = rows_of(directory)
    assert sorted((int(row["id"]), int(row["o"]["z"])) for row in rows) == [(1, 1), (2, 2), (3, 3)]
    assert all(path not in row and path[2:] not in row["o"] for row in rows)
    write("4.jsonl", 4, 5)
    again = Jsonl(name="ds", pattern=f"{folder}/*.jsonl", key="id", data_dir=tmp_path, features={path: "int64?"})
    wider = rows_of(bd.append("ds", again, data_dir=tmp_path, union_features=True))
    values = [row[path] if path == "x" else row["o"]["y"] for row in wider]
    assert sorted(values, key=str) == [5, None, None, None]


@pytest.mark.parametrize("path", ["x", *(pytest.param(path, marks=pytest.mark.slow) for path in ("o/y", "o", "l"))])
def test_a_column_that_one_append_left_out_is_read_by_the_next(tmp_path, path):
    """Its values were lost in all later appends, as the version was recorded to leave it out."""

    def append(number, **options):
        row = {"id": number, "x": number, "o": {"y": number, "z": number}, "l": [{"y": number, "z": number}]}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
        files = Jsonl(name="ds", pattern=f"{tmp_path}/*.jsonl", key="id", data_dir=tmp_path, **options)
        return files.build(num_workers=1) if number == 1 else bd.append("ds", files, data_dir=tmp_path, **union)

    union = {"union_features": True}
    for number, features in [(1, {}), (2, {path: "drop"}), (3, {})]:
        append(number, features=features)
    union = {}
    rows = {int(row["id"]): row for row in rows_of(append(4))}
    outer = path.partition("/")[0]

    def value_of(row):
        value = row[outer]["y"] if isinstance(row[outer], dict) else row[outer]
        return np.ravel(value).tolist()

    assert {number: value_of(rows[number]) for number in (1, 3, 4)} == {1: [1], 3: [3], 4: [4]}


@pytest.mark.slow
@pytest.mark.parametrize("value", [{"a": 2, "b": 3}, [{"a": 2, "b": 3}]], ids=["object", "list"])
def test_a_type_inside_an_object_that_a_build_left_out_reads_the_object(tmp_path, value):
    """It made a column `o/a` without values."""

    def append(number, **options):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"id": number, "o": value}))
        files = Jsonl(name="ds", pattern=f"{tmp_path}/*.jsonl", key="id", data_dir=tmp_path, **options)
        if number == 1:
            return files.build(num_workers=1)
        return bd.append("ds", files, data_dir=tmp_path, union_features=True)

    append(1, features={"o": "drop"})
    append(2, features={"o/a": "int32"})
    rows = {int(row["id"]): row for row in rows_of(append(3))}
    assert {name for row in rows.values() for name in row} == {"id", "o"}
    for number in (2, 3):
        assert {name: np.ravel(inner).tolist() for name, inner in rows[number]["o"].items()} == {"a": [2], "b": [3]}
