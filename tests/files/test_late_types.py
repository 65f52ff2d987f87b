"""Types that the first rows of files do not show: one error names the options for all columns."""

import json
import shlex

import pytest

from beam_datasets.errors import InputError
from beam_datasets.files.csv import Csv
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.materializing.appending import append
from tests.files.days import rows_of

NUM_ROWS = 12
FIRST = {"id": 1, "age": 3, "score": 0.5, "note": "a", "user": {"x": 1}, "n": 1}


def options_of(error):
    """Returns {name: type} of the line of an error that contains the options for all columns."""
    [line] = [line for line in str(error).splitlines() if line.startswith("  add ")]
    words = shlex.split(line)
    assert words[:1] == ["add"]
    assert set(words[1::2]) == {"--feature"}
    return dict(word.split("=", 1) for word in words[2::2])


def jsonl(folder, **changes):
    """Writes JSON lines: the rows from the fifth on have the values of `changes`; those of ... are left out."""
    rows = [FIRST | {"id": number} for number in range(NUM_ROWS)]
    for number, row in enumerate(rows[4:]):
        row |= {name: values[number % len(values)] for name, values in changes.items()}
    rows = [{name: value for name, value in row.items() if value is not ...} for row in rows]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder / "a.jsonl")


def test_columns_of_csv_whose_types_later_rows_change_are_named_with_complete_options(tmp_path):
    lines = ["id,age,score,ok"]
    lines += [f"{n},{'' if n == 9 else n},{0.123456789 if n == 5 else '' if n == 7 else 0.5},true" for n in range(12)]
    (tmp_path / "a.csv").write_text("\n".join(lines))

    def build(**features):
        files = Csv(pattern=str(tmp_path / "a.csv"), key="id", features=features, infer_rows=3, data_dir=tmp_path)
        return files.build(num_workers=1)

    with pytest.raises(InputError, match="'score': 0.123456789 has more digits") as error:
        build()
    assert "2 columns need other types (12 rows were read again)" in str(error.value)
    assert options_of(error.value) == {"age": "int64?", "score": "float64?"}
    with pytest.raises(InputError, match="line 9: column 'score': the value is missing") as error:
        build(age="int64", score="float64")
    assert options_of(error.value) == {"age": "int64?", "score": "float64?"}
    rows = {int(row["id"]): row for row in rows_of(build(**options_of(error.value)))}
    assert (rows[5]["score"], rows[7]["score"], rows[9]["age"]) == (0.123456789, None, None)


def test_columns_of_json_lines_whose_types_later_rows_change_are_named_with_complete_options(tmp_path):
    late = {"age": [None], "score": [0.123456789, ...], "user": [{"x": 1}, {}], "new": [1.5, ...]}
    path = jsonl(tmp_path, **late)

    def build(**features):
        return Jsonl(pattern=path, key="id", features=features, infer_rows=3, data_dir=tmp_path).build(num_workers=1)

    with pytest.raises(InputError, match="line 5") as error:
        build()
    options = options_of(error.value)
    assert options == {"age": "int64?", "score": "float64?", "user/x": "int64?", "new": "float32?"}
    assert len(rows_of(build(**options))) == NUM_ROWS


def test_columns_with_several_types_are_named_with_what_makes_one_of_them(tmp_path):
    path = jsonl(tmp_path, age=["x"], n=[None])
    with pytest.raises(InputError, match="line 5") as error:
        Jsonl(pattern=path, key="id", infer_rows=3, data_dir=tmp_path).build(num_workers=1)
    assert options_of(error.value) == {"n": "int64?"}
    assert "'age': the values do not fit one type: int (4 times, first 3 in" in str(error.value)


def test_advice_of_one_column_is_not_repeated(tmp_path):
    path = jsonl(tmp_path, age=[None])
    with pytest.raises(InputError, match="say so: --feature 'age=int64\\?'") as error:
        Jsonl(pattern=path, key="id", infer_rows=3, data_dir=tmp_path).build(num_workers=1)
    assert "read again" not in str(error.value)


def test_missing_objects_of_appended_rows_need_only_union_features(tmp_path):
    """A type for a published object is an error of its own."""
    for name, row in (("1", {"id": 1, "o": {"x": 1}}), ("2", {"id": 2, "o": None})):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    files = {name: Jsonl(pattern=str(tmp_path / f"{name}.jsonl"), name="ds", data_dir=tmp_path) for name in "12"}
    files["1"].build(num_workers=1)
    with pytest.raises(InputError, match="'o': the value is missing.*--union_features") as error:
        append("ds", files["2"], data_dir=tmp_path)
    assert "--feature" not in str(error.value)
    directory = append("ds", files["2"], data_dir=tmp_path, union_features=True)
    assert sorted(str(row["o"]["x"]) for row in rows_of(directory)) == ["1", "None"]


def test_missing_values_and_objects_of_appended_rows_are_named_together(tmp_path):
    late = [{"a": 1, "o": {"x": 1}}] * 5 + [{"a": None, "o": None}]
    for name, rows in (("1", late[:1]), ("2", late)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def files(name, **features):
        pattern = str(tmp_path / f"{name}.jsonl")
        return Jsonl(pattern=pattern, name="ds", data_dir=tmp_path, infer_rows=3, features=features)

    files("1").build(num_workers=1)
    with pytest.raises(InputError, match="2 columns need other types") as error:
        append("ds", files("2"), data_dir=tmp_path)
    assert str(error.value).endswith("  add --feature 'a=int64?' --feature 'o=?' --union_features")
    directory = append("ds", files("2", a="int64?", o="?"), data_dir=tmp_path, union_features=True)
    assert sum(row["a"] is None and row["o"]["x"] is None for row in rows_of(directory)) == 1
