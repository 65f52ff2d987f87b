"""Values of Parquet files: exact, as pyarrow has them, or an error whose advice works."""

import datetime
import decimal
import json
import math
import re
import subprocess
import sys
import uuid

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.errors import InputError
from beam_datasets.files.arrow_times import NanosecondTime, duration_text, pandas_duration_text
from beam_datasets.files.arrow_values import Place, python_values
from beam_datasets.files.convert import as_text
from beam_datasets.files.fields import UNKNOWN, Field, problems
from beam_datasets.files.inputs import Piece, find
from beam_datasets.files.parquet import rows
from beam_datasets.files.published import with_published
from tests.exporting.conftest import export
from tests.files.conftest import rows_of
from tests.files.in_process import publish
from tests.files.parquet_reads import FILES, WAV, Read, advised, label, table_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")

FAR = 10**12  # seconds, in the year 33658
MICROS = 1_577_934_245_123_456  # 2020-01-02T03:04:05.123456


# ------------------------------------------------------------------------------------------------------- exact values


def plain(value, kind):
    """Returns what pyarrow's `to_pylist` has as rows have it: a dumb converter."""
    types = pa.types
    if value is None:
        return None
    if types.is_map(kind):
        return [{"key": plain(key, kind.key_type), "value": plain(item, kind.item_type)} for key, item in value]
    if types.is_struct(kind):
        return {
            kind.field(i).name: plain(value[kind.field(i).name], kind.field(i).type) for i in range(kind.num_fields)
        }
    if types.is_nested(kind):
        return [plain(item, kind.value_type) for item in value]
    if isinstance(value, uuid.UUID) or types.is_duration(kind):
        return str(value)
    return value


def arrays():
    """Returns arrays of every type that Parquet stores, with nulls where pyarrow reads them."""
    for name in (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
    ):
        yield pa.array([1, None, 2], getattr(pa, name)())
    yield pa.array([2**63 - 1, None, -(2**63)])
    yield pa.array([2**64 - 1, None], pa.uint64())
    yield pa.array([0.1, None, math.inf], pa.float32())
    yield pa.array([True, None, False])
    for name in ("string", "large_string", "string_view"):
        yield pa.array(["", None, "é𝄞"], getattr(pa, name)())
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)):
        yield pa.array([b"\xff\0", None], kind)
    for kind in (pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal256(60, 20)):
        yield pa.array([decimal.Decimal("1.50"), None, decimal.Decimal(0)], kind)
    for unit in ("s", "ms", "us", "ns"):
        numbers = [MICROS * 1000 // {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit], None, 0, -5000]
        yield pa.array(numbers, pa.duration(unit))
        for zone in (None, "UTC", "Europe/Berlin", "+05:30"):
            yield pa.array(numbers, pa.timestamp(unit, zone))
    yield pa.array([0, None, -719162, 2932896], pa.date32())
    yield pa.array([0, None, 86400000], pa.date64())
    yield pa.array([0, None, 86399], pa.time32("s"))
    yield pa.array([0, None, 86399999], pa.time32("ms"))
    yield pa.array([0, None, 86399999999], pa.time64("us"))
    yield pa.array([0, None, 86399999999000], pa.time64("ns"))
    yield pa.array(["a", None, "b", "a"]).dictionary_encode()
    yield pa.array([[("a", 1), ("b", None)], [], None, [("c", 3)]], pa.map_(pa.string(), pa.int64()))
    yield pa.array([[(1, [("x", [0.5])])]], pa.map_(pa.int32(), pa.map_(pa.string(), pa.list_(pa.float64()))))
    for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        yield pa.array([[1, None], [], None, [2]], make(pa.int16()))
    yield pa.array([[[1, 2], [3, 4]], [[5, 6], [7, None]]], pa.list_(pa.list_(pa.int64(), 2), 2))
    yield pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}])
    yield pa.array([[{"a": MICROS}, None], []], pa.list_(pa.struct([("a", pa.timestamp("us"))])))
    keys = pa.array([uuid.UUID(int=7).bytes, None], pa.binary(16))
    yield pa.ExtensionArray.from_storage(pa.uuid(), keys)
    yield pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    yield pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))
    yield pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "a", "b"), pa.array([1, None], pa.int32()))


@pytest.mark.parametrize("array", [*arrays()], ids=lambda array: str(array.type))
def test_values_are_those_of_pyarrow(tmp_path, array):
    pq.write_table(pa.table({"x": array}), tmp_path / "a.parquet")
    column = pq.read_table(tmp_path / "a.parquet")["x"].combine_chunks()
    expected = [plain(value, column.type) for value in column.to_pylist()]
    found = python_values(column, Place("x"))
    if str(array.type) == "duration[ns]":
        expected = [
            None if value is None else str(pd.Timedelta(value)) for value in column.cast(pa.int64()).to_pylist()
        ]
    assert repr(found) == repr(expected) or found == expected
    for start in range(len(column)):  # of a part of an array
        assert repr(python_values(column.slice(start, 2), Place("x"))) == repr(found[start : start + 2])


def test_types_become_features(read):
    zone = pa.timestamp("ns", "Europe/Berlin")
    columns = {
        "m": pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64())),
        "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(15) + b"\1"] * 2, pa.binary(16))),
        "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', "[]"])),
        "t": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3)),
        "v": pa.array([[1, 2], []], pa.list_view(pa.int64())),
        "w": pa.array([[1, 2], []], pa.large_list_view(pa.int64())),
        "b": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())),
        "f": pa.array([[{"a": 1}], [{"a": 2}]], pa.list_(pa.struct([("a", pa.int64())]), 1)),
        "l": pa.array([[[1], []], [[2, 3], [4]]], pa.list_(pa.list_(pa.int64()), 2)),
        "d": pa.array([1, 2], pa.duration("ns")),
        "n": pa.array([MICROS * 1000 + 7, 0], zone),
    }
    found = read(columns)
    assert found.types == {
        "m": "{key: string, value: int64}[]", "u": "string", "j": "string", "t": "float32[2,3]", "v": "int64[]",
        "w": "int64[]", "b": "bool", "f": "{a: int64}[]", "l": "int64[][]", "d": "string", "n": "string",
    }  # fmt: skip
    first, second = found.stored
    assert (first["m"]["key"].tolist(), first["m"]["value"].tolist()) == ([b"a", b"b"], [1, 2])
    assert (first["u"], first["j"]) == (str(uuid.UUID(int=1)).encode(), b'{"a": 1}')
    assert second["t"].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert (first["v"].tolist(), first["w"].tolist(), second["b"]) == ([1, 2], [1, 2], False)
    assert (second["f"]["a"].tolist(), [each.tolist() for each in second["l"]]) == ([2], [[2, 3], [4]])
    assert (first["d"], first["n"]) == (b"0 days 00:00:00.000000001", b"2020-01-02T04:04:05.123456007+01:00")


def test_tensors_in_another_order(read):
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0])
    storage = pa.array([[*range(6)], [*range(6, 12)]], pa.list_(pa.int32(), 6))
    array = pa.ExtensionArray.from_storage(kind, storage)
    found = read({"t": array})
    assert found.types == {"t": "int32[3,2]"}
    assert [row["t"].tolist() for row in found.stored] == array.to_numpy_ndarray().tolist()
    assert read({"t": array}, specs={"t": "string"}).rows[0] == {"t": "[0, 1, 2, 3, 4, 5]"}


@pytest.mark.parametrize("number", [0, 1, -1, 999, 10**9, 86400 * 10**9, -86400 * 10**9 - 1, 2**62, -(2**62)])
def test_texts_of_durations_and_nanoseconds(number):
    """They are those of Python and pandas, which are not asked."""
    assert pandas_duration_text(number, 10**9) == str(pd.Timedelta(number, "ns"))
    assert duration_text(number // 1000, 10**6) == str(datetime.timedelta(microseconds=number // 1000))
    for zone in (None, "America/New_York"):
        [found] = python_values(pa.array([number], pa.timestamp("ns", zone)), Place("x"))
        expected = pd.Timestamp(number, unit="ns", tz=zone)
        assert (found.isoformat(), str(found)) == (expected.isoformat(), str(expected))
        assert as_text(found) == expected.isoformat()
        assert isinstance(found, NanosecondTime) == bool(number % 1000)


def test_pandas_is_not_asked():
    code = """if True:
        import sys

        class NoPandas:
            @staticmethod
            def find_spec(name, *_):
                if name.partition(".")[0] == "pandas":
                    raise ImportError(name)

        sys.meta_path.insert(0, NoPandas)
        import pyarrow as pa
        from beam_datasets.files.arrow_values import Place, python_values
        kinds = pa.duration("ns"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("us")
        for kind in kinds:
            print([str(value) for value in python_values(pa.array([1001, 2000], kind), Place("x"))])
    """
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [eval(line) for line in lines] == [
        ["0 days 00:00:00.000001001", "0 days 00:00:00.000002"],
        ["1970-01-01 00:00:00.000001001", "1970-01-01 00:00:00.000002"],
        ["1970-01-01 00:00:00.000001001+00:00", "1970-01-01 00:00:00.000002+00:00"],
        ["00:00:00.000001001", "00:00:00.000002"],
        ["0:00:00.001001", "0:00:00.002000"],
    ]


@pytest.mark.parametrize("at", [0, 2999])
def test_nulls_among_lists_of_a_fixed_size(read, at):
    """pyarrow does not read them."""
    values = [[i, i + 1] for i in range(3000)]
    values[at] = None
    tensor = pa.fixed_shape_tensor(pa.int64(), [2, 1])
    columns = {
        "v": pa.array(values, pa.list_(pa.int64(), 2)),
        "t": pa.ExtensionArray.from_storage(tensor, pa.array(values, pa.list_(pa.int64(), 2))),
        "m": pa.array([value and [value, value] for value in values], pa.list_(pa.list_(pa.int64(), 2), 2)),
        "o": pa.array([{"v": value} for value in values], pa.struct([("v", pa.list_(pa.int64(), 2))])),
        "d": pa.array(range(3000), pa.duration("s")),
        "z": pa.array([0] * 3000, pa.timestamp("us", "Europe/Berlin")),
        "c": pa.array(["a", None, "b"] * 1000).dictionary_encode(),
        "w": pa.array([[1]] * 3000, pa.list_view(pa.int64())),
    }
    found = read(columns)
    assert (len(found.rows), len(found.bad)) == (2999, 1)
    assert f"row {at}: 'v': the value is missing; if that is right, say so: --feature 'v=int64[2]?'" in found.bad[0]
    specs = {"v": "int64[2]?", "t": "int64[2,1]?", "m": "int64[2,2]?", "o/v": "int64[2]?"}
    rows = read(columns, specs=specs).rows
    assert [row["v"] for row in rows] == [row["o"]["v"] for row in rows] == values
    assert [row["t"] for row in rows] == [value and [[each] for each in value] for value in values]
    assert [row["m"] for row in rows] == columns["m"].to_pylist()
    assert rows[2999] | dict.fromkeys("vtmo") == {
        **dict.fromkeys("vtmo"), "d": "0:49:59", "z": "1970-01-01T01:00:00+01:00", "c": "b", "w": [1],
    }  # fmt: skip


SHAPES = {
    "column": lambda times: pa.array(times, pa.timestamp("us")),
    "list": lambda times: pa.array([None, [], [*times, None]], pa.list_(pa.timestamp("us"))),
    "large list": lambda times: pa.array([times, [None]], pa.large_list(pa.timestamp("us"))),
    "struct": lambda times: pa.array(
        [{"at": times[0], "n": 1}, None, *({"at": time, "n": None} for time in times)],
        pa.struct([("at", pa.timestamp("us")), ("n", pa.int8())]),
    ),
    "map": lambda times: pa.array(
        [[(times[0], times)], None, [], [(times[1], [])]], pa.map_(pa.timestamp("us"), pa.list_(pa.timestamp("us")))
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_times_as_int96(tmp_path, shape):
    """pyarrow wraps times outside of the years 1677 to 2262 around; Spark and Hive write them."""
    near = datetime.datetime(2020, 1, 2, 3, 4, 5, 678)
    far = [datetime.datetime(9999, 12, 31, 1), datetime.datetime(1, 1, 1), near]
    for times in ([near] * 3, far, [near] * 3000 + far):
        column = SHAPES[shape](times)
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"t": column, "n": range(len(column))}), path, use_deprecated_int96_timestamps=True)
        [file] = find(str(path))
        expected = [plain(value, column.type) for value in column.to_pylist()]
        assert [row["t"] for _, _, row in rows(Piece(file, 0, 1), {"n", "t"})] == expected


def test_times_as_int96_of_any_digits_and_years(tmp_path):
    fine, path = 1_577_934_245_123_456_789, tmp_path / "a.parquet"
    options = {"use_deprecated_int96_timestamps": True, "use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table({"t": pa.array([fine, 0, None, fine], pa.timestamp("ns"))}), path, **options)
    raw = bytearray(path.read_bytes())
    day = raw.index((2440588).to_bytes(4, "little"))  # the Julian day of 1970-01-01, after the nanoseconds of the day
    texts = []
    for nanosecond, julian in ((0, 5373484), (1, 5373484), (86399999999999, 5373484), (7, 1), (5, 2**32 - 1)):
        raw[day - 8 : day + 4] = nanosecond.to_bytes(8, "little") + julian.to_bytes(4, "little")
        path.write_bytes(raw)
        found = Read(tmp_path, {"t": "string?"}).rows
        assert [row["t"] for row in found[::2]] == ["2020-01-02T03:04:05.123456789", None]
        assert found[3] == found[0]
        texts.append(found[1]["t"])
        bad = Read(tmp_path).bad
        assert len(bad) == (julian in (1, 2**32 - 1))
    far = np.datetime64(2**32 - 1 - 2440588, "D")
    assert texts == [
        "9999-12-31T00:00:00",
        "9999-12-31T00:00:00.000000001",
        "9999-12-31T23:59:59.999999999",
        "-4713-11-25T00:00:00.000000007",
        f"+{far}T00:00:00.000000005",
    ]


# -------------------------------------------------------------------------------- values that cannot be read, by row


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([FAR, 0], pa.timestamp("ms")), None),
        (pa.array([FAR * 1000, 0], pa.timestamp("ms")), "+33658-09-27T01:46:40"),
        (pa.array([-FAR * 1000, 0], pa.timestamp("ms")), "-29719-04-05T22:13:20"),
        (pa.array([253402300800_000_001, 0], pa.timestamp("us")), "+10000-01-01T00:00:00.000001"),
        (pa.array([253402300799, 0], pa.timestamp("s", "+05:00")), "9999-12-31T23:59:59+00:00"),
        (pa.array([-62135596801, 0], pa.timestamp("s")), "0000-12-31T23:59:59"),
        (pa.array([2932897, 0], pa.date32()), "+10000-01-01"),
        (pa.array([-719163, 0], pa.date32()), "0000-12-31"),
        (pa.array([86400, 0], pa.time32("s")), "24:00:00"),
        (pa.array([-1, 0], pa.time64("ns")), "-00:00:00.000000001"),
        (pa.array([0], pa.timestamp("s", "Mars/Phobos")), "1970-01-01T00:00:00+00:00"),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", ["column", "list", "map", "struct"])
def test_times_that_python_does_not_have(read, array, text, make):
    """They are errors of their rows, and text if a column is asked to be text."""
    kind, values = array.type, array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    columns = {
        "column": lambda: array,
        "list": lambda: (
            pa.array([[value] for value in values], pa.list_(pa.int64())).cast(pa.list_(kind), safe=False)
            if kind.bit_width == 64
            else pa.array([[value] for value in values], pa.list_(pa.int32())).cast(pa.list_(kind))
        ),
        "map": lambda: pa.MapArray.from_arrays([*range(len(array) + 1)], pa.array(["k"] * len(array)), array),
        "struct": lambda: pa.StructArray.from_arrays([array], ["at"]),
    }
    found = read({"x": columns[make](), "n": range(len(array))})
    if text is None:
        assert not found.bad
        return
    assert (len(found.bad), len(found.rows)) == (1, len(array) - 1)
    assert re.search(rf"0\.parquet, row 0: 'x': .*got {re.escape(text)} \(.* as {str(kind)[:4]}.*\)", found.bad[0])
    [(name, spec)] = advised(found.bad[0])
    given = read({"x": columns[make](), "n": range(len(array))}, specs={name: spec})
    assert not given.bad
    assert text in str(given.rows[0]["x"])
    assert text in str(read({"x": columns[make](), "n": range(len(array))}, specs={"x": "string"}).rows[0]["x"])


def test_texts_that_are_not_utf8(read):
    raw = pa.array([b"a", b"\xc3\xa9\xff", None, b"c"])
    for kind in (pa.string(), pa.large_string()):
        text = pa.Array.from_buffers(
            kind, 4, raw.cast(pa.binary() if kind == pa.string() else pa.large_binary()).buffers()
        )
        found = read({"n": range(4), "x": text, "o": pa.StructArray.from_arrays([text], ["t"])})
        [problem] = found.bad
        assert "0.parquet, row 1: 'x': expected UTF-8, got byte 0xff at offset 2 of b'\\xc3\\xa9\\xff'" in problem
        assert [row["x"] for row in found.rows] == ["a", None, "c"]
    assert read({"x": raw}).rows[1] == {"x": b"\xc3\xa9\xff"}


@pytest.mark.parametrize("nested", [False, True])
def test_nulls_that_statistics_deny(tmp_path, nested):
    """Such a null is an error that names its row, with advice that works."""
    values = [None if i < 777 else i for i in range(1000)]
    column = pa.array([{"v": value} for value in values]) if nested else pa.array(values)
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", use_dictionary=False)
    data = (tmp_path / "a.parquet").read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    lying = data[start:].replace(b"\x92\x0c", b"\x80\x00")  # the zigzag varint of 777, which becomes 0 in two bytes
    (tmp_path / "a.parquet").write_bytes(data[:start] + lying)
    found = Read(tmp_path)
    assert str(found.fields["x"]).replace("?", "") == ("{v: int64}" if nested else "int64")
    assert (len(found.bad), len(found.rows)) == (777, 223)
    assert "a.parquet, row 0: 'x': " in found.bad[0]
    [spec] = advised(found.bad[0])
    assert spec == ("x/v" if nested else "x", "int64?")
    assert len(Read(tmp_path, dict([spec])).rows) == 1000


# ---------------------------------------------------------------------------------------------- nulls in lists, objects

CHATS = [
    [{"role": "tool", "content": None}, {"role": "user", "content": "hé\n"}],
    [],
    [{"role": "user", "content": "x"}, None],
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.slow
def test_nulls_in_lists_are_kept_as_text(files, kind):
    """The error proposes it, and the text means the same."""
    path = files.write("a", "\n".join(json.dumps({"i": i, "m": chat}) for i, chat in enumerate(CHATS)))
    if kind == "parquet":
        pq.write_table(pa.table({"i": range(3), "m": CHATS}), path)
    problem = files.fails(kind)
    assert "--feature m=string stores the list as JSON text, --feature m" in problem
    found = {int(row["i"]): row["m"] for row in files.read(kind, "--feature=m=string")}
    assert {i: json.loads(text) for i, text in found.items()} == dict(enumerate(CHATS))
    assert found[0] == json.dumps(CHATS[0], ensure_ascii=False, sort_keys=True).encode()


def test_texts_of_nested_values(read):
    columns = {
        "m": pa.array([[("b", [1, None]), ("a", None)]], pa.map_(pa.string(), pa.list_(pa.int64()))),
        "o": pa.array([{"z": b"\xff\0", "a": b"text", "n": None, "f": 0.1, "big": 2**63 - 1}]),
        "t": pa.array([[MICROS]], pa.list_(pa.timestamp("us"))),
        "d": pa.array(
            [{"d": datetime.timedelta(seconds=3), "m": decimal.Decimal("1.50"), "on": datetime.date(1, 1, 1)}]
        ),
        "f": pa.array([{"file": {"bytes": b"\xff", "path": "p"}}], pa.struct([("file", FILES)])),
    }
    [row] = read(columns, specs=dict.fromkeys(columns, "string")).rows
    assert json.loads(row["m"]) == [["b", [1, None]], ["a", None]]
    assert json.loads(row["o"]) == {"z": {"b64": "/wA="}, "a": "text", "n": None, "f": 0.1, "big": 2**63 - 1}
    assert list(json.loads(row["o"])) == sorted(json.loads(row["o"]))
    assert json.loads(row["t"]) == ["2020-01-02T03:04:05.123456"]
    assert json.loads(row["d"]) == {"d": "0:00:03", "m": "1.50", "on": "0001-01-01"}
    assert json.loads(row["f"]) == {"file": {"bytes": {"b64": "/w=="}, "path": "p"}}


@pytest.mark.parametrize("value", [object(), {1, 2}, [object()], {"a": 1j}])
def test_values_that_have_no_text(value):
    with pytest.raises(ValueError, match="cannot be written as text"):
        as_text(value)


def test_a_null_object_is_kept_as_text(read):
    objects = [{"a": None}, None, {"a": 1}]
    assert [row["o"] for row in read({"o": objects}).rows] == [{"a": None}, {"a": None}, {"a": 1}]
    assert [row["o"] for row in read({"o": objects}, specs={"o": "string?"}).rows] == ['{"a": null}', None, '{"a": 1}']


def test_lists_of_empty_objects(files):
    files.write("a.jsonl", '{"i": 0, "l": [{}, {}]}\n{"i": 1, "l": []}\n{"i": 2, "l": [{}]}')
    problem = files.fails("jsonl")
    assert "'l': the items of the lists have no fields, so that their number would be lost" in problem
    assert advised(problem) == [("l", "string?"), ("l", "drop")]
    assert sorted(row["l"] for row in files.read("jsonl", "--feature=l=string?")) == [b"[]", b"[{}, {}]", b"[{}]"]


def test_lists_whose_items_have_no_fields(read):
    dropped = read({"l": [[{"a": 1}], []]}, specs={"l/a": "drop"})
    assert "their number would be lost" in dropped.problems[0]
    for nested in ([[{}]], [{"o": {}}], {"x": [{}]}):
        kinds = {list: lambda value: Field("list", item=kind_of(value[0])), dict: lambda value: Field(
            "object", fields={name: kind_of(each) for name, each in value.items()})}  # fmt: skip

        def kind_of(value, kinds=kinds):
            return kinds[type(value)](value)

        assert ["number would be lost" in text for text in problems({"x": kind_of(nested)})] == [True]
    kept = read({"l": [[{"a": []}, {"a": []}], [], [{"a": [1]}]]})
    assert [len(row["l"]["a"]) for row in kept.stored] == [2, 0, 1]


# ------------------------------------------------------------------------------------------- types, names, and advice


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pa.nulls(2), "column 'x' has the type null"),
        (pa.array([[], []], pa.list_(pa.null())), r"column 'x\[\]' has the type null"),
        (pa.array([[None], []], pa.list_(pa.null())), r"column 'x\[\]' has the type null"),
        (pa.array([None, [None]], pa.list_(pa.null())), r"column 'x\[\]' has the type null"),
        (pa.array([{"a": None, "b": 1}] * 2), "column 'x/a' has the type null"),
        (pa.array([[{"a": None, "b": 1}], []]), r"column 'x\[\]/a' has the type null"),
        (pa.StructArray.from_arrays([pa.array([1, 2])] * 2, ["a", "a"]), "column 'x' has the fields 'a' twice"),
    ],
    ids=str,
)
def test_types_that_no_feature_stores(read, column, problem):
    """Each option that an error proposes works by itself."""
    columns = {"x": column, "n": [1, 2]}
    found = read(columns)
    assert re.match(problem, found.problems[0])
    ways = advised(found.problems[0])
    assert [spec for _, spec in ways][-1] == "drop"
    assert len(ways) == 1 + ("twice" not in problem)
    for way in ways:
        followed = read(columns, specs=dict([way]))
        assert (followed.problems, followed.bad, len(followed.stored)) == ([], [], 2)


def test_lists_in_many_lists(read):
    column = pa.array([1, 2])
    for _ in range(40):
        column = pa.ListArray.from_arrays([0, 1, 2], column)
    found = read({"x": column})
    assert "column 'x' is nested more than 32 deep; --feature 'x=string?' makes JSON text of it" in found.problems[0]
    assert [json.loads(row["x"]) for row in read({"x": column}, specs={"x": "string?"}).rows] == column.to_pylist()


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (pa.array([1], pa.int32()), pa.array([2**40]), "int64"),
        (pa.array([1], pa.uint32()), pa.array([-1, None], pa.int8()), "int64?"),
        (pa.array([1], pa.int16()), pa.array([0.1], pa.float32()), "float64"),
        (pa.array([0.1], pa.float32()), pa.array([0.1]), "float64"),
        (pa.array([[1]], pa.list_(pa.int32())), pa.array([[2**40]]), "int64[]"),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), pa.array([[1, 2, 3]], pa.list_(pa.int32(), 3)), "int32[]"),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([-1]), "string"),
        (pa.array([1]), pa.array(["a"]), "string"),
        (pa.array([True]), pa.array([1]), "string"),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ns")), "string"),
        (pa.array([decimal.Decimal("1.5")]), pa.array([decimal.Decimal("1.50")]), "float64"),
        (pa.array([[decimal.Decimal("1.5")]]), pa.array([[decimal.Decimal("1.25")]]), "float64[]"),
        (pa.array([decimal.Decimal("1.5"), None]), pa.array([3]), "float64?"),
        (pa.array([decimal.Decimal("1.5")]), pa.array(["a"]), "string"),
    ],
    ids=str,
)
@pytest.mark.parametrize("nested", [False, True])
def test_types_that_differ_between_files(read, one, other, wanted, nested):
    """Each option that an error proposes works by itself; numbers stay numbers where a type holds both."""
    tables = [
        {"x": pa.StructArray.from_arrays([each], ["v"]) if nested else each, "n": range(len(each))}
        for each in (one, other)
    ]
    found = read(*tables)
    [problem] = found.problems
    name = "x/v" if nested else "x"
    assert re.match(rf"column '{name}(\[\])?' is .* in .*/0\.parquet and .* in .*/1\.parquet; ", problem)
    ways = advised(problem)
    assert ways[0] == (name, wanted)
    assert [spec.rstrip("?[]") for _, spec in ways[-2:]] == ["string", "drop"]
    values = [*one.to_pylist(), *other.to_pylist()]
    for way in ways:
        followed = read(*tables, specs=dict([way]))
        assert (followed.problems, followed.bad, len(followed.stored)) == ([], [], len(values))
    if wanted.startswith(("int", "float")):
        kept = [row["x"]["v"] if nested else row["x"] for row in read(*tables, specs=dict(ways[:1])).stored]
        assert [None if value is None else np.asarray(value).tolist() for value in kept] == values


@pytest.mark.parametrize(
    "kinds, wanted", [(["int16", "int32", "float64"], "float64"), (["int32", "int64", "string"], "string")]
)
@pytest.mark.parametrize("again", [[], [0, 0], [2, 1, 0]])
def test_all_types_of_a_column_are_named_at_once(read, kinds, wanted, again):
    """The advice held for the first two types alone."""
    arrays = [pa.array(["7"] if kind == "string" else [7]).cast(kind) for kind in kinds]
    tables = [{"x": arrays[i]} for i in (0, 1, 2, *again)]
    [problem] = read(*tables).problems
    files = [rf"{kind if kind != 'float64' else 'double'} in \S*/{i}\.parquet" for i, kind in enumerate(kinds)]
    assert re.match(rf"column 'x' is {files[0]}, {files[1]} and {files[2]}; ", problem.replace(" float64 ", " double "))
    ways = advised(problem)
    assert ways[0] == ("x", wanted)
    for way in ways:
        found = read(*tables, specs=dict([way]))
        assert (found.problems, found.bad, len(found.stored)) == ([], [], len(tables))


def test_lists_that_are_empty_in_a_file(read):
    """Their items have the type null there; so have values that only are null."""
    one = {
        "l": pa.array([[]], pa.list_(pa.null())),
        "c": pa.array([[{"a": None, "b": 1}]]),
        "o": pa.array([{"x": None}]),
    }
    other = {"l": [["x"]], "c": [[{"a": "y", "b": 2}]], "o": [{"x": 5}]}
    for tables in ((one, other), (other, one)):
        found = read(*tables)
        assert found.problems == []
        assert found.types == {"l": "string[]", "c": "{a: string, b: int64}[]", "o": "{x: int64?}?"}
        [problem] = found.bad
        assert "'c': 'a': the value is missing inside a list" in problem


def test_names(read, tmp_path):
    columns = {"a.b": [1, None], "a": [{"b": 2}, {"b": 3}], "km/h": [4, None], "": [5, 6], " ": [7, 8]}
    found = read(columns)
    assert found.types == {"a.b": "int64?", "a": "{b: int64}?", "km/h": "int64?", "": "int64", " ": "int64"}
    assert found.rows[1] == {"a.b": None, "a": {"b": 3}, "km/h": None, "": 6, " ": 8}
    assert read(columns, specs={"": "string"}).rows[0][""] == "5"
    same = {"a/b": [1, 2], "a": [{"b": 2}, {"b": 3}]}
    [problem] = read(same).problems
    assert problem.startswith("column 'a/b' and a field in column 'a' would be stored as one")
    assert [row["a"]["b"] for row in read(same, specs=dict(advised(problem))).stored] == [2, 3]
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 2, ["x", "x"]), tmp_path / "0.parquet")
    with pytest.raises(InputError, match=r"0\.parquet: the columns 'x' occur twice; rename them"):
        Read(tmp_path)


def test_a_file_without_columns(files):
    path = files.write("a.parquet")
    pq.write_table(pa.table({"x": [1, 2]}).select([]), path)
    assert "no file has a" in files.fails("parquet")


# ---------------------------------------------------------------------------------------------------------- whole runs


def test_what_cannot_be_read_is_left_out(files):
    """A file that is no Parquet file, a damaged row group and rows with times that Python does not have."""
    options = {"row_group_size": 2, "compression": "none", "use_dictionary": False, "write_page_checksum": True}
    for name in ("a", "b"):
        columns = {"x": range(10, 16), "t": pa.array([0, 1, 2, 3, 4, FAR], pa.timestamp("s"))}
        pq.write_table(pa.table(columns), files.write(f"{name}.parquet"), **options)
    path = files.folder / "b.parquet"
    data = bytearray(path.read_bytes())
    data[data.index((12).to_bytes(8, "little") + (13).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)
    files.write("c.parquet", b"PAR1 and no more")
    problem = files.fails("parquet")
    assert "c.parquet is not a Parquet file (16 bytes): " in problem
    assert "--skip_bad" in problem
    found = files.read("parquet", "--skip_bad")
    assert sorted(int(row["x"]) for row in found) == [10, 10, 11, 11, 12, 13, 14, 14]
    said = files.said()
    assert "left out: 4" in said
    assert "files of which the rest cannot be read: 2" in said


def test_what_was_exported_is_read(files, tmp_path):
    """Labels have their names, images and sounds are the same files, missing values are missing."""
    rng = np.random.default_rng(1)
    features = {
        "id": np.int64,
        "image": bd.features.Image(),
        "images": bd.features.Sequence(bd.features.Image()),
        "label": bd.features.ClassLabel(names=["a, b", "c"]),
        "labels": bd.features.Sequence({"of": bd.features.ClassLabel(names=["1", "0"])}),
        "maybe": bd.features.Tensor(shape=(2,), dtype=np.float32, optional=True),
        "sound": bd.features.Audio(lazy_decode=True, dtype=np.int16, sample_rate=8000),
        "text": bd.features.Text(),
    }
    examples = [
        {
            "id": i,
            "image": rng.integers(0, 255, (2, 3, 3), np.uint8),
            "images": [rng.integers(0, 255, (2, 3, 3), np.uint8)] * i,
            "label": i - 1,
            "labels": [{"of": k % 2} for k in range(i)],
            "maybe": [i, 0.5] if i else None,
            "sound": WAV,
            "text": f"é {i}",
        }
        for i in range(3)
    ]
    from tests.exporting.conftest import dataset_of

    source = dataset_of(tmp_path, features, examples)
    export(source, tmp_path / "out")
    made = files.build("parquet", f"--pattern={tmp_path}/out/*.parquet", "--key=id", "--feature=maybe=float32[2]?")
    again = bd.builder_from_directory(made)
    assert again.info.features["label"].names == ["a, b", "c"]
    found = sorted(rows_of(made), key=lambda row: int(row["id"]))
    for one, other in zip(found, bd.builder_from_directory(source).as_dataset("train")[:], strict=True):
        assert repr(one) == repr({name: other[name] for name in one})
    # and again, as pyarrow reads it
    tables = [pq.read_table(sorted((export(each, tmp_path / name)).glob("*.parquet"))).sort_by("id") for each, name in (
        (source, "one"), (made, "two"))]  # fmt: skip
    assert [table.select(["image", "images", "label", "labels", "sound", "text"]).to_pydict() for table in tables][
        ::-1
    ] == [table.select(["image", "images", "label", "labels", "sound", "text"]).to_pydict() for table in tables]


def test_what_is_built_of_any_type_is_exported(files, tmp_path):
    """pyarrow reads the export, and the values are those of the first file."""
    columns = {
        "m": pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64())),
        "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(15) + b"\1"] * 2, pa.binary(16))),
        "t": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3)),
        "v": pa.array([[1, 2], []], pa.list_view(pa.int64())),
        "b": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())),
        "l": pa.array([[[1], []], [[2, 3], [4]]], pa.list_(pa.list_(pa.int64()), 2)),
        "d": pa.array([1, None], pa.duration("ns")),
        "y": pa.array([1, 0]),
        "c": [json.dumps(CHATS[0]), None],
        "id": [0, 1],
    }
    pq.write_table(table_of(columns, {"y": label("p", "q")}), files.write("a.parquet"))
    made = files.build("parquet", "--key=id")
    table = pq.read_table(sorted(export(made, tmp_path / "out").glob("*.parquet"))).sort_by("id")
    expected = {
        "m": [[{"key": "a", "value": 1}, {"key": "b", "value": 2}], []],
        "u": [str(uuid.UUID(int=1))] * 2,
        "t": np.arange(12).reshape(2, 2, 3).tolist(),
        "v": [[1, 2], []],
        "b": [True, False],
        "l": [[[1], []], [[2, 3], [4]]],
        "d": ["0 days 00:00:00.000000001", None],
        "y": [1, 0],
        "c": [json.dumps(CHATS[0]), None],
    }
    assert table.select(list(expected)).to_pydict() == expected
    names = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["y"]["names"]
    assert names == ["p", "q"]


@pytest.mark.parametrize("value", ["INTERVAL (i) DAY", "{'y': INTERVAL (i) MONTH}", "[INTERVAL (i) HOUR]"])
def test_intervals_are_not_bytes_in_silence(value, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    duckdb.sql(f"COPY (SELECT i AS id, {value} AS x FROM range(2) t(i)) TO '{path}' (FORMAT parquet)")
    for options in ([], *([f"--feature=x={kind}"] for kind in ("string", "string?", "bytes", "?", "string[]"))):
        with pytest.raises(InputError, match=r"column 'x' has intervals.* or --feature x=drop leaves the column out"):
            publish("parquet", path, *options)
    assert publish("parquet", path, "--feature=x=drop").rows == [{"id": 0}, {"id": 1}]
    duckdb.sql(f"COPY (SELECT i AS id, CAST({value} AS VARCHAR) AS x FROM range(2) t(i)) TO '{path}' (FORMAT parquet)")
    texts = duckdb.sql(f"SELECT CAST({value} AS VARCHAR) FROM range(2) t(i)").fetchall()
    assert [(row["x"].decode(),) for row in publish("parquet", path).rows] == texts


def test_variants_are_not_structs_of_bytes_in_silence(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    columns = "i AS id, i::VARIANT AS v, {'metadata': 'm', 'value': i} AS s, i::VARIANT AS w"
    duckdb.sql(f"COPY (SELECT {columns} FROM range(2) t(i)) TO '{path}' (FORMAT parquet)")
    advice = r"write them as JSON text .* or --feature v=drop leaves the column out"
    with pytest.raises(InputError, match=f"column 'v' has values of type VARIANT, .* {advice}"):
        publish("parquet", path, "--feature=w=drop")
    for kind in ("string", "string?", "bytes", "?", "int64"):
        with pytest.raises(InputError, match=f"column 'v' has values of type VARIANT, .* {advice}"):
            publish("parquet", path, f"--feature=v={kind}", "--feature=w=drop")
    rows = publish("parquet", path, "--feature=v=drop", "--feature=w=drop").rows
    assert [(row["id"], row["s"]) for row in rows] == [(i, {"metadata": b"m", "value": i}) for i in range(2)]


@pytest.mark.parametrize("names", ["abc", "bca", "cab", "acb"])
def test_variants_in_one_of_several_files(names, tmp_path):
    """The type by which the others are read makes no text of them."""
    duckdb = pytest.importorskip("duckdb")
    values = dict(zip(names, ("1", "'x'", "1::VARIANT")))
    for name, value in values.items():
        duckdb.sql(f"COPY (SELECT {value} AS v) TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    with pytest.raises(InputError, match="column 'v' has values of type VARIANT"):
        publish("parquet", tmp_path, "--feature=v=string")


def test_a_published_type_makes_no_text_of_variants():
    inferred = Field(UNKNOWN, problem="a VARIANT", is_unreadable=True)
    assert with_published(inferred, Field("string"), None, may_add=False, may_lack=True) == inferred


def nested(kind, text):
    """Returns a type of Spark's JSON schema with another one inside."""
    return {
        "array": {"type": "array", "elementType": text, "containsNull": True},
        "map": {"type": "map", "keyType": "string", "valueType": text, "valueContainsNull": True},
        "struct": {"type": "struct", "fields": [{"name": "x", "type": text, "nullable": True, "metadata": {}}]},
    }.get(kind, text)


@pytest.mark.parametrize("kind", ["plain", "array", "map", "struct"])
@pytest.mark.parametrize("is_variant", [True, False])
def test_variants_of_spark(tmp_path, kind, is_variant):
    """Spark 4.0 declares variants only in its own schema."""
    value = {"value": b"\x0c\x01", "metadata": b"\x01\0\0"}
    array = {"plain": [value], "array": [[value]], "map": [[("a", value)]], "struct": [{"x": value}]}[kind]
    stored = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    arrow_kind = {
        "array": pa.list_(stored), "map": pa.map_(pa.string(), stored), "struct": pa.struct([("x", stored)])
    }.get(kind, stored)  # fmt: skip
    members = [{"name": name, "type": "binary"} for name in value]
    leaf = "variant" if is_variant else {"type": "struct", "fields": members}
    field = {"name": "v", "type": nested(kind, leaf), "nullable": True, "metadata": {}}
    metadata = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    table = pa.table({"v": pa.array(array, arrow_kind)})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    if is_variant:
        with pytest.raises(InputError, match="column 'v' has values of type VARIANT"):
            publish("parquet", tmp_path / "a.parquet")
    else:
        assert len(publish("parquet", tmp_path / "a.parquet").rows) == 1


def test_a_column_that_became_text_is_no_variant(tmp_path):
    """A table keeps the schema that Spark wrote when one of its columns is replaced."""
    fields = [{"name": "v", "type": "variant", "nullable": True, "metadata": {}}]
    metadata = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": fields})}
    pq.write_table(pa.table({"v": ['{"a": 1}']}).replace_schema_metadata(metadata), tmp_path / "a.parquet")
    assert publish("parquet", tmp_path / "a.parquet").rows[0]["v"] == b'{"a": 1}'
