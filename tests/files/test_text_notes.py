"""Builds say which columns of dates, times and decimals became text, and errors how to build images without labels."""

from __future__ import annotations

import datetime
import decimal
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_datasets.cli import main
from beam_datasets.errors import InputError
from beam_datasets.files.builder import RowsBuilder
from beam_datasets.files.csv import Csv
from beam_datasets.files.image_folder import ImageFolder
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.parquet import Parquet
from beam_datasets.files.text_notes import TextColumn, note_on_missing, note_on_text_columns
from tests.files.in_process import publish

DAY = datetime.date(2024, 2, 29)


class Notes(logging.Handler):
    """Messages that are logged while files are looked at."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def notes() -> Iterator[list[str]]:
    handler = Notes()
    log = logging.getLogger("beam_datasets.files")
    log.addHandler(handler)
    yield handler.texts
    log.removeHandler(handler)


def write_parquet(tmp_path: Path) -> str:
    table = pa.table(
        {
            "id": [1],
            "day": [DAY],
            "at": pa.array([datetime.datetime(2024, 2, 29)], pa.timestamp("us", tz="UTC")),
            "price": [decimal.Decimal("1.50")],
            "text": ["2024-02-29"],
            "inner": [{"day": DAY}],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    return str(tmp_path / "a.parquet")


def test_parquet_names_the_columns_that_become_text(tmp_path: Path, notes: list[str]) -> None:
    builder = Parquet(data_dir=tmp_path, pattern=write_parquet(tmp_path))
    builder.build(num_workers=1)
    [note] = notes
    assert "stored as text: 'day' (date32[day]), 'at' (timestamp[us, tz=UTC]), 'price' (decimal128(3, 2)), " in note
    assert "'inner/day' (date32[day]): np.datetime64(e['day']) makes a date" in note
    assert "--feature price=float64 stores numbers" in note
    [e] = builder.as_dataset("train")
    assert np.datetime64(e["day"]) == np.datetime64("2024-02-29")


@pytest.mark.parametrize("kind", [
    pa.date32(), pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "+05:30"), pa.timestamp("ns", "UTC"), pa.timestamp("ns", "Europe/Berlin"),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("is_inside", [False, True])
def test_the_code_of_the_note_makes_the_same_date(
    kind: pa.DataType, is_inside: bool, tmp_path: Path, notes: list[str]
) -> None:
    """All digits and the zone are kept, and the value is found in an object; pandas is the oracle."""
    number = pa.array([19_782], pa.int32()) if pa.types.is_date(kind) else pa.array([1_700_000_001])
    column = number.cast(kind)
    pq.write_table(
        pa.table({"o": pa.StructArray.from_arrays([column], ["t"]) if is_inside else column}), tmp_path / "a"
    )
    [e] = publish("parquet", tmp_path / "a").rows
    [code] = [note.split(": ")[-1].split(" makes a date")[0] for note in notes]
    found = eval(code, {"e": e, "np": np, "pd": pd, "datetime": datetime.datetime})
    assert pd.Timestamp(found) == pd.Timestamp(column[0].as_py())


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
@pytest.mark.parametrize("is_last", [False, True])
def test_the_code_of_the_note_makes_the_same_time(
    kind: pa.DataType, is_last: bool, tmp_path: Path, notes: list[str]
) -> None:
    """The first and the last time of a day, with all digits."""
    number = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit] - 1 if is_last else 0
    column = pa.array([number], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    pq.write_table(pa.table({"t": column}), tmp_path / "a")
    [e] = publish("parquet", tmp_path / "a").rows
    [code] = [note.split("): ")[-1].split(" makes a time")[0] for note in notes]
    time = eval(code, {"e": e, "pd": pd, "time": datetime.time})
    if isinstance(time, datetime.time):
        seconds = (time.hour * 60 + time.minute) * 60 + time.second
        time = pd.Timedelta(seconds=seconds, microseconds=time.microsecond)
    assert time == pd.Timedelta(number, kind.unit)


def test_the_code_of_the_note_is_not_for_dates_in_lists() -> None:
    day = TextColumn("date32[day]")
    assert "(e['b']) makes a date" in note_on_text_columns("x.parquet", {"a[]/t": day, "b": day})
    assert "makes a date" not in note_on_text_columns("x.parquet", {"a[]/t": day})


TYPED = [
    (datetime.date(2024, 2, 29), pa.date32(), "date"),
    (datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC), pa.timestamp("us", "UTC"), "date"),
    (datetime.time(3, 4, 5, 6), pa.time64("us"), "time"),
    (datetime.timedelta(days=2, microseconds=5), pa.duration("us"), "duration"),
    (-datetime.timedelta(seconds=1.5), pa.duration("ms"), "duration"),
    (decimal.Decimal("-1.50"), pa.decimal128(9, 2), "decimal"),
]


@pytest.mark.parametrize("value, kind, noun", TYPED, ids=[str(kind) + str(value)[0] for value, kind, _ in TYPED])
@pytest.mark.parametrize("is_inside", [False, True])
def test_the_code_of_the_note_takes_missing_values(
    value: Any, kind: pa.DataType, noun: str, is_inside: bool, tmp_path: Path, notes: list[str]
) -> None:
    column = pa.array([value, None, None], kind)
    if is_inside:
        column = pa.StructArray.from_arrays([column], ["t"], mask=pa.array([False, False, True]))
    pq.write_table(pa.table({"a": column}), tmp_path / "a")
    rows = publish("parquet", tmp_path / "a").rows
    [note] = notes
    code = note.split("): ")[-1].split(f" makes a {noun}")[0]
    names = {"np": np, "pd": pd, "datetime": datetime.datetime, "time": datetime.time, "Decimal": decimal.Decimal}
    assert [eval(code, {**names, "e": row}) for row in rows] == [value, None, None]


def write_rows(tmp_path: Path, kind: str) -> str:
    """Writes two rows, in the second of which `n`, `ok` and `x` are missing, and returns the path of the file."""
    rows = [{"id": 1, "n": 7, "ok": True, "x": 0.5}, {"id": 2, "n": None, "ok": None, "x": None}]
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("id,n,ok,x\n1,7,true,0.5\n2,,,\n")
    elif kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def test_the_fill_that_a_note_proposes_differs_from_the_default() -> None:
    assert "fill={'n': 0} of batch()" in note_on_missing("f.csv", {"late": "bool", "n": "int8"})
    assert "-128 (n), False (late)" in note_on_missing("f.csv", {"n": "int8", "late": "bool"})
    assert "fill={'late': True} of batch()" in note_on_missing("f.csv", {"late": "bool"})


@pytest.mark.parametrize("builder", [Csv, *(pytest.param(each, marks=pytest.mark.slow) for each in (Jsonl, Parquet))])
def test_integers_and_bools_with_missing_values_are_named_once_with_what_to_choose(
    tmp_path: Path, notes: list[str], capsys: pytest.CaptureFixture[str], builder: type[RowsBuilder]
) -> None:
    pattern = write_rows(tmp_path, builder.__name__.lower())

    def batch_of(version: str, **features: str) -> dict[str, Any]:
        files = builder(
            data_dir=str(tmp_path), name="ds", pattern=pattern, key="id", features=features, version=version
        )
        files.build(num_workers=1)
        batch: dict[str, Any] = next(iter(files.as_dataset("train").batch(2)))
        return batch

    batch = batch_of("1.0.0")
    [note] = notes
    assert "missing values in: 'n' (int64), 'ok' (bool): they are None when iterated" in note
    assert "in batches, PyTorch and JAX they are -2147483648 (n), False (ok): " in note
    assert sorted(batch["n"].tolist()) == [-2147483648, 7]
    for words in ("fill={'n': 0} of batch()", "--feature 'n=int64?' accepts", "--feature 'n=float64?'", "n=drop"):
        assert words in note
    assert np.isnan(batch_of("1.0.1", n="float64?", ok="bool?")["n"]).sum() == 1
    assert "n" not in batch_of("1.0.2", n="drop", ok="bool?")
    assert sorted(batch_of("1.0.3", n="int64?", ok="bool?")["n"].tolist()) == [-2147483648, 7]
    assert len(notes) == 1
    assert main(["info", "ds:1.0.0", "--data_dir", str(tmp_path)]) == 0
    values = (
        "missing values: None when iterated; in batches and frameworks -2147483648 (n), False (ok), nan (x), unless"
    )
    assert values in capsys.readouterr().out


def test_a_type_that_is_given_needs_no_note(tmp_path: Path, notes: list[str]) -> None:
    features = {"day": "string", "at": "string", "price": "float64", "inner.day": "string"}
    builder = Parquet(data_dir=tmp_path, pattern=write_parquet(tmp_path), features=features)
    builder.build(num_workers=1)
    assert not notes
    [e] = builder.as_dataset("train")
    assert e["price"] == 1.5


@pytest.mark.parametrize(
    "text, way",
    [
        ("2024-02-29", "np.datetime64(e['day'])"),
        ("2024-02-29 12:30:00", "np.datetime64(e['day'])"),
        ("29.02.2024", "datetime.strptime(e['day'].decode(), '%d.%m.%Y')"),
        ("2024/2/29", "datetime.strptime(e['day'].decode(), '%Y/%m/%d')"),
    ],
)
def test_csv_says_how_to_read_dates(tmp_path: Path, notes: list[str], text: str, way: str) -> None:
    (tmp_path / "a.csv").write_text(f"id,day\n1,{text}\n", encoding="utf-8")
    builder = Csv(data_dir=tmp_path, pattern=str(tmp_path / "a.csv"))
    builder.build(num_workers=1)
    [note] = notes
    assert f"a.csv, line 2: column 'day' is stored as text, such as {text!r}: {way} makes a date" in note
    [e] = builder.as_dataset("train")
    assert str(eval(way, {"np": np, "datetime": datetime.datetime, "e": e})).startswith("2024-02-29")
    [e] = builder.as_dataset("train", text="str")  # as users of pandas load it
    assert ("without .decode() if load() has text='str'" in note) == (".decode()" in way)
    way = way.replace(".decode()", "")
    assert str(eval(way, {"np": np, "datetime": datetime.datetime, "e": e})).startswith("2024-02-29")
    Csv(data_dir=tmp_path, pattern=str(tmp_path / "a.csv"), features={"day": "string"}, version="1.0.1").build(
        num_workers=1
    )
    assert len(notes) == 1


@pytest.mark.parametrize(
    "texts, expected",
    [
        (["2024-02-29", ""], [datetime.date(2024, 2, 29), None]),
        (["29.02.2024", "", "1.3.2024"], [datetime.datetime(2024, 2, 29), None, datetime.datetime(2024, 3, 1)]),
        (["3/4/2024", "12/31/2024"], [datetime.datetime(2024, 3, 4), datetime.datetime(2024, 12, 31)]),
        (["2024-02-29", "n/a"], None),
        (["2024-02-29", "29.02.2024"], None),
        (["29.02.2024", "12/31/2024"], None),
        (["2024-02-29", "7"], None),
        (["2024-02-28", "2024-02-30"], None),
        (["2024-02-29 23:59:59", "2024-02-29 24:00:01"], None),
        (["2024-13-01"], None),
        (["2024-02-29 12:30:00.123456789012345678"], None),
    ],
)
def test_csv_proposes_code_that_makes_dates_of_all_texts(
    tmp_path: Path, notes: list[str], texts: list[str], expected: list[Any] | None
) -> None:
    """Or none: mixed forms have no code that makes dates of all."""
    (tmp_path / "a.csv").write_text("\n".join(["id,day", *(f"{i},{text}" for i, text in enumerate(texts)), ""]))
    rows = publish("csv", tmp_path / "a.csv").rows
    codes = [note.split(": ")[-1].split(" makes a date")[0] for note in notes if " makes a date" in note]
    assert len(codes) == (expected is not None)
    for code in codes:
        assert [eval(code, {"np": np, "datetime": datetime.datetime, "e": row}) for row in rows] == expected


@pytest.mark.parametrize("separator", "./-")
@pytest.mark.parametrize("missing", ["", "2,\n"])
def test_csv_names_both_forms_of_dates_with_days_and_months_up_to_12(
    tmp_path: Path, notes: list[str], separator: str, missing: str
) -> None:
    first, second = ("1/2/2024".replace("/", separator), "3/4/2024".replace("/", separator))
    (tmp_path / "a.csv").write_text(f"id,day\n0,{first}\n1,{second}\n{missing}")
    publish("csv", tmp_path / "a.csv")
    day, month = (form.replace("/", separator) for form in ("%d/%m/%Y", "%m/%d/%Y"))
    end = " if e['day'] else None" if missing else ""
    expected = f"datetime.strptime(e['day'].decode(), '{day}'){end}, or with '{month}' if the month is first, makes a"
    assert sum(expected in note for note in notes) == 1
    (tmp_path / "b.csv").write_text(f"id,day\n0,{first}\n1,{'13/4/2024'.replace('/', separator)}\n")
    notes.clear()
    publish("csv", tmp_path / "b.csv")
    assert sum(f"'{day}') makes a date" in note for note in notes) == 1


def test_images_without_labels_are_built_as_the_error_says(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    PIL.Image.new("RGB", (3, 2)).save(tmp_path / "photos" / "a.png")
    with pytest.raises(InputError, match="in a column of a CSV or JSON lines file: --feature NAME=image"):
        ImageFolder(data_dir=tmp_path, root=str(tmp_path / "photos")).build(num_workers=1)
    (tmp_path / "a.csv").write_text("photo\nphotos/a.png\n", encoding="utf-8")
    builder = Csv(data_dir=tmp_path, name="photos", pattern=str(tmp_path / "a.csv"), features={"photo": "image"})
    builder.build(num_workers=1)
    assert builder.as_dataset("train")[0]["photo"].shape == (2, 3, 3)


def write_extensions(path: Path) -> None:
    """Writes columns of the extension types of pandas, which pyarrow knows only where pandas has registered them."""
    months = pd.period_range("2024-01", periods=2, freq="M")
    opaque = pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "a", "b"), pa.array([1, 2], pa.int32()))
    table = pa.Table.from_pandas(pd.DataFrame({"p": months, "i": pd.interval_range(0, 2)}))
    inner = pa.StructArray.from_arrays([opaque], ["o"])
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 2, pa.binary(16)))
    pq.write_table(table.append_column("inner", inner).append_column("u", uuids), path)


@pytest.mark.parametrize("is_registered", [True, False])
def test_extension_types_that_are_not_decoded_are_named(tmp_path: Path, notes: list[str], is_registered: bool) -> None:
    write_extensions(tmp_path / "a.parquet")
    types = [pq.read_schema(tmp_path / "a.parquet").field(name).type for name in "pi"]
    assert all(isinstance(kind, pa.ExtensionType) for kind in types)
    if not is_registered:
        for kind in types:
            pa.unregister_extension_type(kind.extension_name)
    try:
        rows = publish("parquet", tmp_path / "a.parquet").rows
        [note] = [text for text in notes if "extension types" in text]
        assert """'p' (pandas.period {"freq": "M"} as int64), 'i' (pandas.interval {"subtype": "int64", """ in note
        assert "as struct<left: int64, right: int64>), 'inner/o' (arrow.opaque " in note
        assert "as int32); write text" in note
        assert "uuid" not in note
        assert [row["p"] for row in rows] == [648, 649]
        assert "--feature p=int64 accepts this; --feature p=drop leaves the column out" in note
        notes.clear()
        publish("parquet", tmp_path / "a.parquet", "--feature=p=int64", "--feature=i=drop", "--feature=inner=drop")
        assert notes == []
    finally:
        if not is_registered:
            for kind in types:
                pa.register_extension_type(kind)


def test_extension_types_of_one_file_of_several_are_named(tmp_path: Path, notes: list[str]) -> None:
    pq.write_table(pa.table({"p": [1]}), tmp_path / "a.parquet")
    pd.DataFrame({"p": pd.period_range("2024-01", periods=2, freq="M")}).to_parquet(tmp_path / "b.parquet")
    publish("parquet", tmp_path)
    assert ["'p' (pandas.period" in text for text in notes if "extension types" in text] == [True]


def test_arrays_of_hugging_face_are_no_unknown_extensions(tmp_path: Path, notes: list[str]) -> None:
    kind, name = pa.list_(pa.list_(pa.float32())), "datasets.features.features.Array2DExtensionType"
    field = pa.field("x", kind, metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": "[]"})
    pq.write_table(pa.table([pa.array([[[0.5]]], kind)], pa.schema([field])), tmp_path / "a.parquet")
    assert publish("parquet", tmp_path / "a.parquet").rows == [{"x": [[0.5]]}]
    assert notes == []
