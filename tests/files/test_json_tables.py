"""JSON files that contain a table as one object, as pandas writes them by default."""

import json

import pytest

import beam_datasets as bd
from beam_datasets.errors import InputError
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.publishing.staged_inputs import read_inputs
from tests.files.in_process import publish

pd = pytest.importorskip("pandas")


def table():
    return pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})


@pytest.mark.parametrize("orient", ["columns", "index", "split", "table"])
@pytest.mark.parametrize(
    "change",
    [
        lambda df: df,
        lambda df: df[["a"]],
        lambda df: df.iloc[[2]],
        lambda df: df.set_index(pd.Index([-3, 40, 5])),
        lambda df: df.set_index(pd.date_range("2024-01-01", periods=3)),
        lambda df: df.assign(c=[[1], [], [2]]),
    ],
    ids=["plain", "one column", "one row", "integers as index", "times as index", "lists"],
)
@pytest.mark.parametrize("options", [(), ("--skip_bad",)], ids=["", "skip_bad"])
@pytest.mark.filterwarnings("ignore")  # of pandas, about the format of its times
def test_a_table_is_not_one_example(tmp_path, orient, change, options):
    """Each became an example with a feature per row, or an error about lists."""
    path = tmp_path / "in.json"
    change(table()).to_json(path, orient=orient)
    with pytest.raises(InputError, match=r"in\.json: expected one object per row, got a table") as caught:
        publish("jsonl", path, *options)
    assert f"orient='{orient}'" in str(caught.value)
    assert "--skip_bad" not in str(caught.value)


def test_the_table_written_as_the_error_says(tmp_path):
    df = table()
    df.to_json(tmp_path / "in.jsonl", orient="records", lines=True)
    assert publish("jsonl", tmp_path / "in.jsonl").rows == [
        {"a": 1, "b": b"x"},
        {"a": 2, "b": b"y"},
        {"a": 3, "b": None},
    ]


@pytest.mark.parametrize(
    "row",
    [
        {"a": {"0": 1, "1": 2}, "b": {"0": 3}},
        {"a": {"0": 1}, "b": 2},
        {"0": 1, "1": 2},
        {"0": [1], "1": [2]},
        {"a": {"x": 1}},
        {"scores": {"1": 5, "2": 7}},
        {"scores": {"0": 5, "2": 7}},
        {"scores": {"2020": 1}},
        {"columns": ["a"], "data": [[1], [2, 3]]},
        {"columns": ["a"], "index": [0, 1], "data": [[1]]},
        {"columns": ["a"], "data": [[1]], "name": "t"},
        {"schema": {"name": "t"}, "data": [{"a": 1}]},
        {"schema": "t", "data": [{"a": 1}]},
    ],
    ids=json.dumps,
)
def test_an_object_that_may_be_an_example(tmp_path, row):
    path = tmp_path / "in.json"
    path.write_text(json.dumps(row))
    [example] = publish("jsonl", path).rows
    assert json.loads(json.dumps(example, default=bytes.decode)) == row


def test_tables_among_rows(tmp_path):
    """Two objects are rows, whatever their fields are; a file with a table is named."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [{"a": {"0": 1}}, {"a": {"0": 2}}]
    (folder / "1.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert publish("jsonl", folder).rows == rows
    (folder / "2.jsonl").write_text('[{"a": {"0": 3}}]')  # an array of rows is none, either
    assert len(publish("jsonl", folder).rows) == 3
    (folder / "3.jsonl").write_text(json.dumps(rows[0]))
    with pytest.raises(InputError, match=r"3\.jsonl: expected one object per row, got a table"):
        publish("jsonl", folder)


EXAMPLES = [
    {"1": {"x": 1, "y": 2}, "2": {"x": 3, "y": 4}},
    {"left": {"5": 1, "7": 2}, "right": {"5": 3, "7": 4}},
    {"1": {"0": 1, "x": 2}, "0": {"0": 3, "x": 4}},
]
ROWS_FROM_ZERO = [
    {"0": {"x": 1, "y": 2}, "1": {"x": 3, "y": 4}},
    {"left": {"0": 1, "1": 2}, "right": {"0": 3, "1": 4}},
    {"scores": {"0": 0.5, "1": 0.25}},
    {"0": {"0": 1}, "1": {"0": 2}},
    {"hits": {str(hour): hour for hour in range(24)}, "misses": {str(hour): 2 * hour for hour in range(24)}},
]


@pytest.mark.parametrize("row", EXAMPLES, ids=json.dumps)
def test_files_of_one_object_with_the_same_numbers_are_examples(tmp_path, row, caplog):
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(json.dumps(row))
    assert publish("jsonl", tmp_path).rows == [row] * 3
    assert caplog.text.count("its only object becomes one example; if it is a table") == 1


@pytest.mark.parametrize("row", ROWS_FROM_ZERO, ids=json.dumps)
def test_files_of_one_object_with_the_numbers_from_zero_are_tables(tmp_path, row):
    """Tables of as many rows have the same numbers; a type for a field makes examples of them."""
    for number in range(2):
        (tmp_path / f"{number}.json").write_text(json.dumps(row))
    with pytest.raises(InputError, match=r"[01]\.json: expected one object per row, got a table") as caught:
        publish("jsonl", tmp_path)
    option = f"{next(iter(row))}=?"
    assert f"--feature {option!r} accepts one example" in str(caught.value)
    assert publish("jsonl", tmp_path, "--feature", option).rows == [row] * 2


@pytest.mark.parametrize("orient", ["columns", "index", "split", "table"])
@pytest.mark.parametrize("num_rows", [2, 3])
def test_several_files_with_tables(tmp_path, orient, num_rows):
    for name, df in (("a", table()), ("b", table().head(num_rows))):
        df.to_json(tmp_path / f"{name}.json", orient=orient)
    with pytest.raises(InputError, match=r"a\.json: expected one object per row, got a table"):
        publish("jsonl", tmp_path)


@pytest.mark.parametrize("row", EXAMPLES[:2], ids=json.dumps)
def test_an_example_is_appended_alone(tmp_path, row):
    """The published version has its features, so that it is no table."""
    for number in range(2):
        (tmp_path / f"{number}.json").write_text(json.dumps(row))
    builder = Jsonl(name="ds", pattern=f"{tmp_path}/*.json", data_dir=tmp_path)
    directory = builder.build(num_workers=1)
    (tmp_path / "2.json").write_text(json.dumps(row))
    inputs, features = read_inputs(directory), bd.builder_from_directory(directory).info.features
    builder.prepare_append(inputs, take_changed=False, features=features, splits=["train"])
    assert builder.info.features == features


def test_one_object_with_numbered_values_is_noted(tmp_path, caplog):
    """It may be a column of a table whose index has values."""
    path = tmp_path / "in.json"
    path.write_text('{"scores": {"1": 0.5, "2": 0.75}}')
    publish("jsonl", path)
    assert f"{path}: its only object becomes one example; if it is a table: pandas writes" in caplog.text


def test_a_type_for_a_column_with_a_dot_accepts_the_object(tmp_path):
    path = tmp_path / "in.json"
    path.write_text('{"a.b": {"0": 1, "1": 2}, "c": {"0": 3, "1": 4}}')
    with pytest.raises(InputError, match=r"--feature 'a\.b=\?' accepts one example"):
        publish("jsonl", path)
    assert publish("jsonl", path, "--feature", "a.b=?").rows == [{"a.b": {"0": 1, "1": 2}, "c": {"0": 3, "1": 4}}]
