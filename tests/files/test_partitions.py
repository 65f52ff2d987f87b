"""Columns in the names of folders; pyarrow.dataset is the oracle."""

import json
import re

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.files.partitions import MISSING_VALUE, PartitionColumns
from beam_datasets.reading.opening import builder_from_directory
from tests.files.in_process import publish

TEXTS = ["1", "01", "-3", "2147483647", "2147483648", "1.5", "a", "+1", " 1", "a%20b", "a=b", "0x10", "-0", "%2F"]


@given(st.lists(st.sampled_from([*TEXTS, MISSING_VALUE]), min_size=1, max_size=4, unique=True))
def test_types_and_values_are_those_of_pyarrow(tmp_path_factory, texts):
    if texts == [MISSING_VALUE]:
        return  # pyarrow refuses it
    root = tmp_path_factory.mktemp("hive")
    names = [f"k={text}/{i}.parquet" for i, text in enumerate(texts)]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"file": [name]}), root / name)
    table = pyarrow.dataset.dataset(root, partitioning="hive").to_table()
    columns = PartitionColumns.of(names)
    fields = columns.fields()
    assert fields["k"].kind == str(table.schema.field("k").type)
    assert fields["k"].optional == (MISSING_VALUE in texts)
    for row in table.to_pylist():
        assert columns.adder(row["file"], fields, is_text=False)({"file": row["file"]}) == row


def folders(files, write):
    for year in (2019, 2020):
        for kind in "ab":
            write(f"year={year}/kind={kind}/part", [{"x": year * 10 + ord(kind) + i} for i in range(3)])
    return {(year, kind, year * 10 + ord(kind) + i) for year in (2019, 2020) for kind in "ab" for i in range(3)}


def write_parquet(files):
    def write(name, rows):
        path = files.write(f"{name}.parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)

    return write


def write_jsonl(files):
    return lambda name, rows: files.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def write_csv(files):
    return lambda name, rows: files.write(f"{name}.csv", "x\n" + "".join(f"{row['x']}\n" for row in rows))


@pytest.mark.parametrize("kind, writer", [("parquet", write_parquet), ("jsonl", write_jsonl), ("csv", write_csv)])
def test_folders_are_columns(files, kind, writer):
    expected = folders(files, writer(files))
    rows = files.read(kind)
    assert {(int(row["year"]), row["kind"].decode(), int(row["x"])) for row in rows} == expected
    assert rows[0]["year"].dtype == "int32"


def test_folders_of_text_lines(files):
    files.write("lang=de/a.txt", "eins\n")
    files.write("lang=en/a.txt", "one\n")
    found = {(row["lang"], row["text"]) for row in files.read("text_lines")}
    assert found == {(b"de", b"eins"), (b"en", b"one")}


def test_folders_decide_keys_splits_and_labels(files):
    folders(files, write_jsonl(files))
    directory = files.build("jsonl", "--split_by=column=kind", "--feature=kind=class", "--feature=year=string")
    built = builder_from_directory(directory)
    assert {name: split.num_examples for name, split in built.info.splits.items()} == {"a": 6, "b": 6}
    rows = list(built.as_dataset(split="b"))
    assert {(row["kind"].item(), row["year"]) for row in rows} == {(1, b"2019"), (1, b"2020")}
    assert all("year" not in row for row in files.read("jsonl", "--feature=year=drop"))


def test_folders_are_keys(files):
    for day in ("2019-01-01", "2019-01-02"):
        files.write(f"day={day}/a.jsonl", '{"x": 1}\n')
    made = builder_from_directory(files.build("jsonl", "--key=day")).as_dataset(split="train")
    assert made[made.find("2019-01-02")]["x"] == 1


def test_a_column_that_differs_from_its_folder(files):
    files.write("year=2019/a.jsonl", '{"year": 2019, "x": 1}\n{"year": 2018, "x": 2}\n')
    problem = files.fails("jsonl")
    assert "a.jsonl, line 2" in problem
    assert "expected 2019, as in the name of the folder, got 2018" in problem
    assert len(files.read("jsonl", "--feature=year=drop")) == 2


def test_files_outside_of_the_folders_lack_the_value(files):
    files.write("year=2019/a.jsonl", '{"x": 1}\n')
    files.write("b.jsonl", '{"x": 2}\n')
    files.write(f"year={MISSING_VALUE}/c.jsonl", '{"x": 3}\n')
    assert {(row["x"].item(), row["year"]) for row in files.read("jsonl")} == {(1, 2019), (2, None), (3, None)}


@pytest.mark.parametrize(
    "folders, problem",
    [
        ("y=%FF", "expected names of folders in UTF-8, got b'\\\\xff' in 'y=%FF'. Rename the folder"),
        ("%FF=1", "expected names of folders in UTF-8"),
        ("y=1/y=2", "expected one value of 'y', got '1' and '2' in the names of folders. Rename one of the folders"),
        ("y=__HIVE_DEFAULT_PARTITION__/y=2", "expected one value of 'y', got None and '2'"),
    ],
)
def test_names_of_folders_that_would_lose_a_value(files, folders, problem):
    """pyarrow.dataset refuses names that are not UTF-8, too."""
    files.write(f"{folders}/a.csv", "x\n1\n")
    assert re.search(f"{folders}/a.csv: {problem}", files.fails("csv"))


def test_a_value_in_two_folders(files):
    files.write("y=1/y=1/a.csv", "x\n7\n")
    assert [row["y"] for row in files.read("csv")] == [1]


@pytest.mark.parametrize("root", ["~/", "file://{}/"])
def test_folders_before_the_first_wildcard_are_named_in_the_form_that_was_given(files, caplog, monkeypatch, root):
    monkeypatch.setenv("HOME", str(files.folder))
    files.write("y=1/x.csv", "x\n1\n")
    pattern = f"{root.format(files.folder)}y=1"
    publish("csv", pattern)
    [(given, other)] = set(re.findall(r"(\S+): the folders in .* the pattern '(.*)' makes them", caplog.text))
    assert given == pattern
    assert publish("csv", other).rows[0]["y"] == 1


@pytest.mark.parametrize("pattern", ["y=1/k=a/*.csv", "y=1/k=a", "y=1/**", "y=1/k=a/x.csv", "y=1"])
def test_folders_before_the_first_wildcard_are_named(files, caplog, pattern):
    """They are no columns, as in pyarrow.dataset; a pattern of the same files has them."""
    for folder in ("y=1/k=a", "y=11/k=a", "y=1/k=b"):
        files.write(f"{folder}/x.csv", "x\n1\n")
    found = publish("csv", f"{files.folder}/{pattern}")
    [(given, other)] = set(re.findall(r"(\S+): the folders in .* the pattern '(.*)' makes them", caplog.text))
    assert given == f"{files.folder}/{pattern}"
    caplog.clear()
    with_columns = publish("csv", other)
    assert caplog.text == ""
    assert len(found.rows) == len(with_columns.rows)
    assert {(row["y"], row["k"]) for row in with_columns.rows} <= {(1, b"a"), (1, b"b")}


@pytest.mark.parametrize("kind, content", [("csv", "x\n1\n"), ("jsonl", '{"x": 1}\n'), ("text_lines", "1\n")])
@pytest.mark.parametrize("spec, expected", [("", {10, 16}), ("float64", {10, 16}), ("string", {b"0x10", b"10"})])
def test_hexadecimal_values(files, kind, content, spec, expected):
    """pyarrow.dataset reads 0x10 as an integer, too."""
    for value in ("0x10", "10"):
        files.write(f"y={value}/a.{kind}", content)
    given = [f"--feature=y={spec}"] * bool(spec)
    assert {row["y"] for row in publish(kind, files.folder, *given).rows} == expected
