"""Parquet: nulls that no feature stores are reported for all columns at once."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_datasets.errors import InputError
from tests.files.in_process import advised, publish

NUMBERS = pa.list_(pa.int64())
COLUMNS = {
    "fine": pa.array([[1], [], [2, 3]]),
    "item": pa.array([[1], [1, None], [None]]),
    "missing": pa.array([[1], [2], None], NUMBERS),
    "inner": pa.array([[[1], None], [[]], []], pa.list_(NUMBERS)),
    "chat": pa.array([[{"text": "a", "calls": ["x"]}], [{"text": None, "calls": None}], []]),
    "objects": pa.array([[{"a": 1}], [], [None]], pa.list_(pa.struct({"a": pa.int64()}))),
    "deep": pa.array([[{"o": {"a": 1}}], [{"o": None}], []]),
    "map": pa.array([[("a", 1)], [("b", None)], []], pa.map_(pa.string(), pa.int64())),
    "fixed": pa.array([[1, 2], [3, 4], [5, None]], pa.list_(pa.int8(), 2)),
    "words": pa.array([[], ["a"], ["b", None]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "view": pa.array([[1], [None], []], pa.list_view(pa.int8())),
    "inside": pa.array([{"l": [1]}, None, {"l": None}], pa.struct({"l": NUMBERS})),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [1, 2]), pa.array([[1, 2], [3, None], [5, 6]], pa.list_(pa.float32(), 2))
    ),
}


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"id": [0, 1, 2], **COLUMNS}), tmp_path / "in.parquet", row_group_size=2)
    return tmp_path / "in.parquet"


def problem_of(path, *options):
    with pytest.raises(InputError) as error:
        publish("parquet", path, *options)
    return str(error.value)


def test_all_columns_are_reported_at_once(path):
    problem = problem_of(path)
    places = dict(re.findall(r"^  '(.+?)' \(first in .*in\.parquet, row (\d+)\): ", problem, re.MULTILINE))
    assert places == {
        "item[]": "1", "missing": "2", "inner[]": "0", "chat[]/text": "1", "chat[]/calls": "1", "objects[]": "2",
        "deep[]/o/a": "1", "map[]/value": "1", "fixed[]": "2", "words[]": "2", "view[]": "1", "inside/l": "2",
        "tensor[]": "1",
    }  # fmt: skip
    assert problem.startswith("13 columns cannot be stored as they are:")


def test_the_advice_stores_all_of_them(path):
    ways = {}
    for _, value in advised(problem_of(path)):
        name, _, kind = value.partition("=")
        ways.setdefault(name, kind)
    texts = [name for name, kind in ways.items() if kind.startswith("string") and "/" not in name]
    chosen = {name: kind for name, kind in ways.items() if name.partition("/")[0] not in texts or name in texts}
    rows = publish("parquet", path, *(f"--feature={name}={kind}" for name, kind in chosen.items())).rows
    assert [row["item"] for row in rows] == [b"[1]", b"[1, null]", b"[null]"]
    assert [row["missing"] for row in rows] == [[1], [2], []]
    assert [row["inside"]["l"] for row in rows] == [[1], [], []]
    assert rows[1]["chat"] == b'[{"calls": null, "text": null}]'


@pytest.mark.parametrize("name", COLUMNS)
def test_the_row_is_the_first_that_cannot_be_read(name, tmp_path):
    pq.write_table(pa.table({name: COLUMNS[name]}), tmp_path / "in.parquet")
    counted = publish("parquet", tmp_path, "--skip_bad").counted
    bad_rows = [text for what, texts in counted.items() if what.startswith("left out, such as: ") for text in texts]
    left_out = sorted(re.findall(r"row (\d+)", " ".join(bad_rows)))
    if name == "fine":
        assert publish("parquet", tmp_path).rows[1] == {"fine": []}
        assert not left_out
    else:
        assert f"row {left_out[0]})" in problem_of(tmp_path)


def test_files_of_images_that_are_missing(tmp_path):
    file = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    image = {"bytes": b"P5 1 1 255 a", "path": None}
    columns = {"one": pa.array([image, None], file), "many": pa.array([[image], [None]], pa.list_(file))}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    problem = problem_of(tmp_path)
    assert re.search(r"'one' \(first in .*, row 1\): the image is missing", problem)
    assert re.search(r"'many\[\]' \(first in .*, row 1\): a missing value inside the list", problem)


def test_files_without_such_nulls_are_not_read_twice(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [[1], [2]], "b": [1, None]}), tmp_path / "in.parquet")
    monkeypatch.setattr("beam_datasets.files.parquet.with_nulls_reported", None)
    assert len(publish("parquet", tmp_path).rows) == 2
