"""Files that are appended to a version whose types were declared, or that no builder of files made."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_datasets as bd
from beam_datasets import features
from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.files.csv import Csv
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.parquet import Parquet
from tests.files.days import csv_file, json_lines, parquet, rows_of
from tests.files.in_process import advised

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no readable inputs.json names its files"),
    pytest.mark.filterwarnings("ignore:rows that .* did not select from earlier files stay out"),
]
FORMATS = pytest.mark.parametrize(
    ("files", "write"), [(Csv, csv_file), (Jsonl, json_lines), (Parquet, parquet)], ids=["csv", "jsonl", "parquet"]
)
DECLARED = {"age": "int16?", "price": "float64", "kind": "class:cat,dog"}


def published_slice(tmp_path, files, write):
    """Publishes `ds`, whose types are declared, and a slice of it, `part`, without a record of the columns."""
    write(tmp_path / "a", [{"id": i, "age": i, "price": 0.5, "kind": "cat"} for i in range(4)], ("id", *DECLARED))
    builder = files(name="ds", pattern=f"{tmp_path}/a", key="id", features=DECLARED, data_dir=tmp_path)
    builder.build(num_workers=1)
    made = bd.materialize("ds", split={"train": "train[:2]"}, to="part", data_dir=tmp_path)
    Path(made, "inputs.json").unlink()


@FORMATS
def test_files_have_the_types_of_a_slice_unless_others_are_given(tmp_path, files, write):
    published_slice(tmp_path, files, write)
    write(tmp_path / "b", [{"id": 10 + i, "age": 1, "price": i, "kind": "dog"} for i in range(2)], ("id", *DECLARED))
    appended = files(pattern=f"{tmp_path}/b", key="id", data_dir=tmp_path)
    rows = sorted(rows_of(bd.append("part", appended, data_dir=tmp_path)), key=lambda row: row["id"])
    assert [row["kind"] for row in rows] == [0, 0, 1, 1]
    assert {type(row["age"]) for row in rows} == {np.int16}
    assert {type(row["price"]) for row in rows} == {np.float64}

    write(tmp_path / "c", [{"id": 20, "age": 1, "price": 1, "kind": "dog"}], ("id", *DECLARED))
    other = files(pattern=f"{tmp_path}/c", key="id", features={"age": "int64"}, data_dir=tmp_path)
    with pytest.raises(BeamDatasetsError, match=r"feature 'age' is .*int16.* in the first, .*int64.* in the second"):
        bd.append("part", other, data_dir=tmp_path)


@FORMATS
def test_a_value_that_does_not_fit_the_type_of_a_slice_is_an_error_with_file_and_column(tmp_path, files, write):
    published_slice(tmp_path, files, write)
    write(tmp_path / "b", [{"id": 10, "age": 70_000, "price": 1, "kind": "dog"}], ("id", *DECLARED))
    appended = files(pattern=f"{tmp_path}/b", key="id", data_dir=tmp_path)
    with pytest.raises(InputError, match=r"/b, (line|row) .*'age': 70000 does not fit int16") as error:
        bd.append("part", appended, data_dir=tmp_path)
    assert "union_features" not in str(error.value)


@pytest.mark.parametrize(("files", "write"), [(Csv, csv_file), (Jsonl, json_lines)], ids=["csv", "jsonl"])
def test_a_missing_value_that_no_published_row_has_names_the_row_and_the_option_that_allows_it(tmp_path, files, write):
    write(tmp_path / "a", [{"id": i, "n": i} for i in range(4)], ("id", "n"))
    files(name="ds", pattern=f"{tmp_path}/a", key="id", data_dir=tmp_path).build(num_workers=1)
    write(tmp_path / "b", [{"id": 10, "n": 1}, {"id": 11, "n": "" if files is Csv else None}], ("id", "n"))

    def append(**options):
        appended = files(pattern=f"{tmp_path}/b", key="id", data_dir=tmp_path)
        return bd.append("ds", appended, data_dir=tmp_path, **options)

    problem = r"column 'n': the value is missing in 1 of 2 rows, first in .*/b, line [23].*; --union_features makes"
    with pytest.raises(InputError, match=problem):
        append()
    assert [row["n"] for row in rows_of(append(union_features=True))].count(None) == 1


@pytest.mark.parametrize(
    "value, null", [("a", "all"), (7, "one"), ([1.0, 2.0], "one"), ([1.0, 2.0], "all"), (0.5, "late")]
)
def test_a_missing_value_of_parquet_or_of_a_late_row_has_advice_that_suffices_in_one_step(tmp_path, value, null):
    column = pa.array([value] * 3, pa.list_(pa.float32(), 2) if isinstance(value, list) else None)
    (tmp_path / "a").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "v": column}), tmp_path / "a/a.parquet")
    Parquet(name="ds", pattern=f"{tmp_path}/a", key="id", data_dir=tmp_path).build(num_workers=1)
    if null == "late":
        rows = [{"id": i, "v": None if i == 15 else value} for i in range(10, 20)]
        (tmp_path / "b").write_text("\n".join(map(json.dumps, rows)))
    else:
        late = pa.nulls(2) if null == "all" else pa.array([value, None], column.type)
        pq.write_table(pa.table({"id": [15, 16], "v": late}), tmp_path / "b")

    def append(features=None, **options):
        files = partial(Jsonl, infer_rows=2) if null == "late" else Parquet
        appended = files(pattern=f"{tmp_path}/b", key="id", data_dir=tmp_path, features=features)
        return bd.append("ds", appended, data_dir=tmp_path, **options)

    with pytest.raises(InputError, match=r"/b, (row|line) .*the value is missing, and the published version") as error:
        append()
    assert "--union_features" in str(error.value)
    [(_, given)] = [each for each in advised(str(error.value).partition("\n")[0]) if each[0] == "--feature"]
    found = rows_of(append(dict([given.split("=")]), union_features=True))
    assert [row["v"] is None for row in found].count(True) == (2 if null == "all" else 1)


def test_objects_and_lists_of_json_have_the_published_types_at_full_depth(tmp_path):
    rows = [{"id": 1, "user": {"age": 3, "name": None}, "turns": [{"n": 1, "score": 0.5}]}]
    (tmp_path / "a").write_text("\n".join(map(json.dumps, rows)))
    types = {"user.age": "int8", "user.name": "string?", "turns.score": "float64"}
    Jsonl(name="ds", pattern=f"{tmp_path}/a", key="id", features=types, data_dir=tmp_path).build(num_workers=1)
    (tmp_path / "b").write_text(json.dumps({"id": 2, "user": {"age": 4}, "turns": [{"n": 2, "score": 1}]}))
    directory = bd.append("ds", Jsonl(pattern=f"{tmp_path}/b", key="id", data_dir=tmp_path), data_dir=tmp_path)
    [row] = [row for row in rows_of(directory) if row["id"] == 2]
    assert (row["user"]["age"], type(row["user"]["age"])) == (4, np.int8)
    assert row["user"]["name"] is None
    assert row["turns"]["score"].dtype == np.float64

    (tmp_path / "c").write_text(json.dumps({"id": 3, "user": {"age": 300}, "turns": []}))
    with pytest.raises(InputError, match=r"/c, line 1 .*'user': 'age': 300 does not fit int8"):
        bd.append("ds", Jsonl(pattern=f"{tmp_path}/c", key="id", data_dir=tmp_path), data_dir=tmp_path)


def test_files_have_the_types_of_a_builder_of_the_users_own(tmp_path):
    class Own(bd.DatasetBuilder):
        VERSION = "1.0.0"

        def _info(self):
            columns = {
                "id": features.Text(),
                "n": features.Scalar("uint8"),
                "xs": features.Sequence(features.Scalar("float32")),
                "v": features.Tensor(shape=(2,), dtype="float32"),
                "label": features.ClassLabel(num_classes=3),
            }
            return bd.DatasetInfo(builder=self, features=features.FeaturesDict(columns))

        def _split_generators(self, _):
            return {"train": [("a", {"id": "a", "n": 1, "xs": [1.5], "v": [1, 2], "label": 2})]}

    Own(data_dir=tmp_path).build(num_workers=1)
    table = pa.table({"id": ["b"], "n": [2], "xs": [[1.0, 2.0]], "v": [[3.0, 4.0]], "label": [1]})
    pq.write_table(table, tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": "c", "n": 3, "xs": [], "v": [5, 6], "label": 0}))
    for files, name in ((Parquet, "b.parquet"), (Jsonl, "c.jsonl")):
        appended = files(pattern=f"{tmp_path}/{name}", key="id", data_dir=tmp_path)
        directory = bd.append("own", appended, data_dir=tmp_path)
    rows = {row["id"].decode(): row for row in rows_of(directory)}
    assert [int(rows[key]["n"]) for key in "abc"] == [1, 2, 3]
    assert rows["c"]["v"].tolist() == [5, 6]
    assert int(rows["b"]["label"]) == 1


def test_all_features_that_differ_are_named_in_one_error(tmp_path):
    (tmp_path / "a.csv").write_text("id,n,m\n1,1,a\n")
    Csv(name="ds", pattern=f"{tmp_path}/a.csv", key="id", data_dir=tmp_path).build(num_workers=1)
    (tmp_path / "b.csv").write_text("id,n,k\n2,1,3\n")
    other = Csv(pattern=f"{tmp_path}/b.csv", key="id", features={"n": "int8"}, data_dir=tmp_path)
    with pytest.raises(BeamDatasetsError, match="3 features differ: ") as error:
        bd.append("ds", other, data_dir=tmp_path)
    assert [name in str(error.value) for name in ("'n' is", "'m', Text", "'k', int64")] == [True] * 3


@pytest.mark.parametrize(("files", "write"), [(Csv, csv_file), (Jsonl, json_lines)], ids=["csv", "jsonl"])
def test_a_number_with_more_digits_is_rounded_to_the_published_type(tmp_path, files, write):
    """No other type is proposed, because the published one is given; the proposed option is followed."""
    write(tmp_path / "a", [{"id": i, "price": 0.5} for i in range(4)], ("id", "price"))
    files(name="ds", pattern=f"{tmp_path}/a", key="id", data_dir=tmp_path).build(num_workers=1)
    write(tmp_path / "b", [{"id": 10, "price": 0.123456789012}], ("id", "price"))
    arguments = {"pattern": f"{tmp_path}/b", "key": "id", "data_dir": tmp_path}
    with pytest.raises(InputError, match="no such number; --feature price=float32 rounds what it can") as error:
        bd.append("ds", files(**arguments), data_dir=tmp_path)
    assert "float64" not in str(error.value)
    rows = rows_of(bd.append("ds", files(**arguments, features={"price": "float32"}), data_dir=tmp_path))
    assert {row["price"] for row in rows} == {np.float32(0.5), np.float32(0.123456789012)}
