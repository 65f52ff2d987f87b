"""Parquet: types, nulls, row groups, files that differ."""

import datetime
import decimal
import re
from functools import partial

import pytest

from beam_datasets.errors import InputError
from beam_datasets.files.bad_rows import read_piece
from beam_datasets.files.inputs import find
from beam_datasets.files.parquet import row_groups, rows
from beam_datasets.files.rows import RowReader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)


def read(path, key=None):
    fields, pieces = row_groups(find(str(path)))
    return [
        row
        for piece in pieces
        for row in read_piece(piece, RowReader(partial(rows, column_names={*fields}), fields, key=key), False)
    ]


def test_types(tmp_path):
    day = datetime.date(2020, 1, 2)
    columns = {
        "i": pa.array([1, 2], pa.int16()),
        "d": [1.5, 2.5],
        "n": [1, None],
        "s": ["x", "y"],
        "c": pa.array(["a", "b"]).dictionary_encode(),
        "b": [b"\xff", b""],
        "l": [[1, 2], []],
        "v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        "o": [{"x": 1, "y": "p"}, {"x": 2, "y": None}],
        "t": [day, day],
        "m": [decimal.Decimal("1.50"), decimal.Decimal("2.00")],
        "km/h": [3, None],
    }
    write(tmp_path / "in.parquet", columns)
    fields, _ = row_groups(find(str(tmp_path / "in.parquet")))
    assert {name: str(field) for name, field in fields.items()} == {
        "i": "int16", "d": "float64", "n": "int64?", "s": "string", "c": "string", "b": "string", "l": "int64[]",
        "v": "float32[2]", "o": "{x: int64, y: string?}?", "t": "string", "m": "string",
        "km/h": "int64?",
    }  # fmt: skip
    (key, first), (_, second) = read(tmp_path / "in.parquet")
    assert key == "in.parquet:0"
    assert first["b"] == b"\xff"
    assert (first["t"], first["m"], first["v"], first["c"]) == ("2020-01-02", "1.50", [1.0, 2.0], "a")
    assert (second["n"], second["o"], second["l"]) == (None, {"x": 2, "y": None}, [])


@pytest.mark.parametrize("nested", [False, True])
def test_times_of_day_keep_all_digits(tmp_path, nested):
    """Nanoseconds, which Python's times lack, are text with nine digits; microseconds have six."""
    kind, path = pa.time64("ns"), tmp_path / "a.parquet"
    for number, text in ((1500, "'00:00:00.000001500'"), (1000, "'00:00:00.000001'")):
        column = pa.array([[{"at": number}], []], pa.list_(pa.struct([("at", kind)]))) if nested else [number, None]
        write(path, {"t": pa.array(column, column.type if nested else kind)})
        assert text in str(read(path)[0])


def test_a_date_that_python_lacks_is_an_error_of_its_row(tmp_path):
    write(tmp_path / "a.parquet", {"t": pa.array([0, 10**12], pa.timestamp("s"))})
    with pytest.raises(
        InputError, match=r"a\.parquet, row 1: 't': expected a date or time that Python has, got \+33658-"
    ):
        read(tmp_path / "a.parquet")


def test_row_groups_and_keys(tmp_path):
    write(tmp_path / "a.parquet", {"n": list(range(25))}, row_group_size=10)
    write(tmp_path / "b.parquet", {"n": list(range(25, 30))})
    found = read(tmp_path)
    assert [row["n"] for _, row in found] == list(range(30))
    assert [key for key, _ in found][23:26] == ["a.parquet:23", "a.parquet:24", "b.parquet:0"]
    assert [key for key, _ in read(tmp_path, "n")] == list(range(30))


def test_type_that_no_feature_has(tmp_path):
    write(tmp_path / "a.parquet", {"m": pa.nulls(1), "n": [1]})
    fields, _ = row_groups(find(str(tmp_path)))
    assert re.search(r"'m' has the type null.*--feature m=drop", fields["m"].problem)
