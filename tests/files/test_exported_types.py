"""Values of each type that files have, as other libraries read them from exports of the dataset that was built."""

import base64
import datetime as dt
import io
import json
import tarfile
import uuid
from decimal import Decimal

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from PIL import Image

import beam_datasets as bd
from beam_datasets.files.parquet import Parquet
from tests.exporting.conftest import export
from tests.sounds import encoded

pytestmark = pytest.mark.slow  # a dataset of all types is built
BERLIN = "Europe/Berlin"
PIXELS = np.random.default_rng(3).integers(0, 65536, (5, 4, 3), np.uint16)
WAV, FLAC, MP3 = (encoded(form=form) for form in ("WAV", "FLAC", "MP3"))


def png():
    """Returns a PNG file."""
    file = io.BytesIO()
    Image.fromarray((PIXELS >> 8).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def files_of(*contents):
    """Returns a column of files as Hugging Face writes them."""
    return pa.array([{"bytes": content, "path": None} for content in contents])


def uuids(*numbers):
    """Returns a column of UUIDs."""
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=n).bytes for n in numbers], pa.binary(16)))


STRUCTS = [{"a": 1, "b": {"c": "d"}}, {"a": None, "b": {"c": "e"}}]
COLUMNS = {  # name -> (column of two values, the values that other libraries read)
    "map": (
        pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64())),
        [[{"key": "a", "value": 1}, {"key": "b", "value": 2}], []],
    ),
    "map_of_lists": (
        pa.array([[(1, [0.5])], [(2, [])]], pa.map_(pa.int32(), pa.list_(pa.float64()))),
        [[{"key": 1, "value": [0.5]}], [{"key": 2, "value": []}]],
    ),
    "uuid": (uuids(1, 2**127), [str(uuid.UUID(int=1)), str(uuid.UUID(int=2**127))]),
    "json": (pa.array(['{"a": [1, null]}', "[]"], pa.json_(pa.string())), ['{"a": [1, null]}', "[]"]),
    "list_view": (pa.array([[1, 2], []], pa.list_view(pa.int16())), [[1, 2], []]),
    "large_list_view": (pa.array([["é"], ["", "b"]], pa.large_list_view(pa.string_view())), [["é"], ["", "b"]]),
    "tensor": (
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3)),
        np.arange(12).reshape(2, 2, 3).tolist(),
    ),
    "fixed_list": (pa.array([[1, 2], [3, 4]], pa.list_(pa.uint8(), 2)), [[1, 2], [3, 4]]),
    "bool8": (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())), [True, False]),
    "decimal32": (pa.array([Decimal("1.50"), None], pa.decimal32(5, 2)), ["1.50", None]),
    "decimal128": (pa.array([Decimal("-0.10"), Decimal(0)], pa.decimal128(38, 2)), ["-0.10", "0.00"]),
    "decimal256": (pa.array([Decimal(10**60), Decimal(1)], pa.decimal256(76, 0)), [str(10**60), "1"]),
    "date32": (pa.array([dt.date(1, 1, 1), None], pa.date32()), ["0001-01-01", None]),
    "date64": (pa.array([dt.date(2024, 2, 29), dt.date(1969, 1, 1)], pa.date64()), ["2024-02-29", "1969-01-01"]),
    "time32": (pa.array([dt.time(1, 2, 3), dt.time()], pa.time32("ms")), ["01:02:03", "00:00:00"]),
    "time64": (pa.array([1, 86_399_999_999_999], pa.time64("ns")), ["00:00:00.000000001", "23:59:59.999999999"]),
    "timestamp": (pa.array([1, None], pa.timestamp("us")), ["1970-01-01T00:00:00.000001", None]),
    "timestamp_ns": (
        pa.array([-1, 2**62], pa.timestamp("ns")),
        ["1969-12-31T23:59:59.999999999", "2116-02-20T23:53:38.427387904"],
    ),
    "zoned": (
        pa.array([0, 1_720_000_000_000], pa.timestamp("ms", BERLIN)),
        ["1970-01-01T01:00:00+01:00", "2024-07-03T11:46:40+02:00"],
    ),
    "duration": (pa.array([1, -1], pa.duration("ns")), ["0 days 00:00:00.000000001", "-1 days +23:59:59.999999999"]),
    "half": (pa.array(np.array([0.375, -2], np.float16)), [0.375, -2.0]),
    "double": (pa.array([0.1, None], pa.float64()), [0.1, None]),
    "uint64": (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
    "category": (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
    "struct": (pa.array(STRUCTS), STRUCTS),
    "structs": (pa.array([[{"a": 1, "b": "c"}], []]), [[{"a": 1, "b": "c"}], []]),
    "bytes": (pa.array([b"\xff\0", b""]), [b"\xff\0", b""]),
    "image": (files_of(png(), png()), [png(), png()]),
    "deep_image": (files_of(*[imagecodecs.png_encode(PIXELS)] * 2), [imagecodecs.png_encode(PIXELS)] * 2),
    "wav": (files_of(WAV, WAV), [WAV, WAV]),
    "flac": (files_of(FLAC, FLAC), [FLAC, FLAC]),
    "mp3": (files_of(MP3, MP3), [MP3, MP3]),
}  # fmt: skip
FEATURES = {"deep_image": "image:uint16"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory of a dataset of all columns."""
    root = tmp_path_factory.mktemp("types")
    table = pa.table({"id": [0, 1], **{name: column for name, (column, _) in COLUMNS.items()}})
    pq.write_table(table, root / "in.parquet")
    builder = Parquet(name="ds", pattern=f"{root}/in.parquet", key="id", data_dir=root, features=FEATURES)
    return builder.build(num_workers=1)


def plain(value):
    """Returns a value of Arrow or JSON lines, with the bytes of files."""
    if isinstance(value, dict):
        if value.keys() == {"bytes", "path"}:
            return value["bytes"]
        if value.keys() == {"b64"}:
            return base64.b64decode(value["b64"])
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def in_arrow(directory, folder):
    return bd.builder_from_directory(directory).as_dataset("train").to_arrow(binary=["bytes"]).to_pylist()


def in_parquet(directory, folder):
    export(directory, folder, "parquet", binary=["bytes"])
    return pq.read_table(folder, filters=None).to_pylist()


def in_json_lines(directory, folder):
    export(directory, folder, "jsonl", binary=["bytes"])
    [path] = folder.glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def in_webdataset(directory, folder):
    """Returns rows of the members of the tar file, by the endings of their names."""
    export(directory, folder, "webdataset", binary=["bytes"])
    rows = {}
    [path] = folder.glob("*.tar")
    with tarfile.open(path) as file:
        for member in file:
            key, _, ending = member.name.partition(".")
            data = file.extractfile(member).read()
            row = rows.setdefault(key, {})
            if ending == "json":
                row |= json.loads(data)
                continue
            name, _, kind = ending.rpartition(".")
            row[name] = (
                np.load(io.BytesIO(data)).tolist() if kind == "npy" else data.decode() if kind == "txt" else data
            )
    return list(rows.values())


@pytest.mark.parametrize("reader", [in_arrow, in_parquet, in_json_lines, in_webdataset])
def test_exports_have_the_values_of_the_files(built, tmp_path, reader):
    rows = sorted(reader(built, tmp_path / "out"), key=lambda row: row["id"])
    for name, (_, expected) in COLUMNS.items():
        assert [plain(row.get(name)) for row in rows] == expected, name
    assert rows[0].keys() == {"id", *COLUMNS}


def test_files_of_the_export_are_decoded_by_other_libraries(built, tmp_path):
    row = in_parquet(built, tmp_path / "out")[0]
    np.testing.assert_array_equal(imagecodecs.png_decode(plain(row["deep_image"])), PIXELS)
    for name, content in (("wav", WAV), ("flac", FLAC), ("mp3", MP3)):
        samples, rate = soundfile.read(io.BytesIO(plain(row[name])))
        expected, expected_rate = soundfile.read(io.BytesIO(content))
        assert rate == expected_rate
        np.testing.assert_array_equal(samples, expected)
