"""The script of the suites, with files that foreign libraries write, and some of each kind that must be refused."""

import bz2
import csv
import datetime
import decimal
import gzip
import io
import json
import os
import signal
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_datasets.formats import example_pb2
from beam_datasets.formats.tfrecord import masked_crc32c
from tests.files import foreign_suites
from tests.files.foreign_suites import difference, main, tried_folder
from tests.sounds import NOISE, encoded

EQUAL, REFUSED, OTHER = "equal", "refused", "other"


def outcomes(folder):
    """Returns {name of a file: what became of it}; the details are shown by a test that fails."""
    trials = [trial for found in tried_folder(folder).values() for trial in found]
    print("\n".join(f"{trial.file}: {trial.outcome} {trial.detail}" for trial in trials))
    return {trial.file.rpartition("/")[2]: trial.outcome for trial in trials}


def write(folder, contents):
    """Writes files and returns the outcomes of the script."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return outcomes(folder)


def parquet(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def damaged(data, place):
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def test_parquet(tmp_path):
    day = datetime.date(2024, 2, 29)
    types = {
        "i": pa.array([1, None, -3], pa.int16()),
        "u": pa.array([2**64 - 1, 0, 1], pa.uint64()),
        "f": pa.array([0.1, float("nan"), float("inf")]),
        "half": pa.array([1.5, 0.1, -2], pa.float16()),
        "b": [True, False, None],
        "text": ["é", "", None],
        "bytes": [b"\xff", b"", b"x"],
        "date": [day, None, day],
        "time": pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)] * 3, pa.timestamp("us", "UTC")),
        "of_day": pa.array([datetime.time(23, 59, 59, 1), datetime.time(0), None]),
        "amount": [decimal.Decimal("1.10"), decimal.Decimal("-3.00"), None],
        "list": [[1, 2], [], [3]],
        "object": [{"x": 1, "y": ["a"]}, {"x": None, "y": []}, {"x": 3, "y": ["b", "c"]}],
        "label": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    found = write(
        tmp_path,
        {
            "types.parquet": parquet(types),
            "null.parquet": parquet({"x": [1, 2], "n": pa.nulls(2)}),
            "cut.parquet": parquet(types)[:-9],
            "bad_data/fine_but_listed_as_bad.parquet": parquet({"x": [1]}),
            "none.parquet": b"",
        },
    )
    refused = dict.fromkeys(("null.parquet", "cut.parquet", "none.parquet"), REFUSED)
    assert found == {"types.parquet": EQUAL, "fine_but_listed_as_bad.parquet": OTHER, **refused}


def test_folders_of_hive(tmp_path):
    table = pa.table({"x": [1, 2, 3], "year": [2019, 2019, 2020], "kind": ["a", "b", "a"]})
    pq.write_to_dataset(table, tmp_path / "in" / "hive", partition_cols=["year", "kind"])
    assert outcomes(tmp_path / "in") == {"hive": EQUAL}


def test_csv(tmp_path):
    rows = [["id", "text", "x"], [1, 'say "hi",\nthere', 1.5], [2, "é", ""]]
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    meaning = [dict(zip(rows[0], map(str, row))) for row in rows[1:]]
    (tmp_path / "meant.json").write_text(json.dumps(meaning))
    (tmp_path / "wrong.json").write_text(json.dumps([{**meaning[0], "x": "1.6"}, meaning[1]]))
    found = write(
        tmp_path,
        {
            "plain.csv": data,
            "meant.csv": data,
            "wrong.csv": data,
            "packed.csv.gz": gzip.compress(data),
            "cut.csv.gz": gzip.compress(data)[:-9],
            "damaged.csv.bz2": damaged(bz2.compress(data), 30),
            "latin.csv": data.decode().encode("cp1252"),
            "quote.csv": b'a,b\n1,"x\n',
        },
    )
    expected = {"plain.csv": EQUAL, "meant.csv": EQUAL, "wrong.csv": OTHER, "packed.csv.gz": EQUAL}
    expected |= dict.fromkeys(("cut.csv.gz", "damaged.csv.bz2", "latin.csv", "quote.csv"), REFUSED)
    assert {name: each for name, each in found.items() if ".csv" in name} == expected


JSON = {
    "y_object.json": (b'{"a": [1, 2.5], "b": {"c": "\\u00e9"}}', EQUAL),
    "y_large.json": (b"123456789012", EQUAL),
    "y_lines.json": (b"[\n1,\r\n2\n]", EQUAL),
    "y_mixed.json": (b'[null, 1, "1", {}]', REFUSED),  # and read as text, by the advice
    "y_null.json": (b"null", REFUSED),
    "y_empty.json": (b"[]", REFUSED),
    "y_twice.json": (b'{"a": 1, "a": 2}', REFUSED),
    "n_nan.json": (b"[NaN, -Infinity]", EQUAL),
    "n_cut.json": (b'["a', REFUSED),
    "n_comma.json": (b"[1,]", REFUSED),
    "n_two.json": (b"1 2", REFUSED),
    "n_utf8.json": (b'["\xff', REFUSED),
    "n_closed.json": (b"1]", REFUSED),
    "i_surrogate.json": (b'["\\ud83d"]', REFUSED),
    "i_deep.json": (b"[" * 100_000 + b"]" * 100_000, REFUSED),
    "i_huge.json": (b"1e999", REFUSED),
    "lines.jsonl": (b'{"a": 1}\n{"a": 2}\n', EQUAL),
    "cut.jsonl": (b'{"a": 1}\n{"a": ', REFUSED),
}


def test_json(tmp_path):
    found = write(tmp_path, {name: content for name, (content, _) in JSON.items()})
    assert found == {name: outcome for name, (_, outcome) in JSON.items()}


def image(mode, kind="PNG", size=(5, 4), **options):
    file = io.BytesIO()
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 4), np.uint8)
    Image.fromarray(values, "RGBA").convert(mode).save(file, kind, **options)
    return file.getvalue()


def test_images(tmp_path):
    found = write(
        tmp_path,
        {
            **{f"{mode}.png": image(mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")},
            "basn2c08.png": image("RGB"),
            "rgb.jpg": image("RGB", "JPEG"),
            "rgb.bmp": image("RGB", "BMP"),
            "one.gif": image("P", "GIF"),
            "xs1n0g01.png": b"\x88" + image("1")[1:],
            "xfine.png": image("L"),
            "xdtn0g01.png": image("1")[:8] + image("1")[-12:],
            "text.png": b"no image",
            "empty.jpg": b"",
            "cut.jpg": image("RGB", "JPEG", (90, 80))[:600],
        },
    )
    refused = ("xs1n0g01.png", "xdtn0g01.png", "text.png", "empty.jpg", "cut.jpg")
    assert found == dict.fromkeys(found, EQUAL) | dict.fromkeys(refused, REFUSED)


def test_sounds(tmp_path):
    good = {f"{subtype}.wav": encoded(NOISE, "WAV", subtype) for subtype in ("PCM_16", "PCM_24", "FLOAT", "ULAW")}
    good |= {f"{subtype}.flac": encoded(NOISE, "FLAC", subtype) for subtype in ("PCM_16", "PCM_24")}
    bad = {
        "cut.wav": good["PCM_16.wav"][:-900],
        "cut.flac": good["PCM_16.flac"][:-900],
        "odd.wav": good["PCM_16.wav"][:30],
        "text.wav": b"no sound",
    }
    assert write(tmp_path, good | bad) == dict.fromkeys(good, EQUAL) | dict.fromkeys(bad, REFUSED)


def record(data):
    size = struct.pack("<Q", len(data))
    return size + struct.pack("<I", masked_crc32c(size)) + data + struct.pack("<I", masked_crc32c(data))


def test_tfrecords(tmp_path):
    example = example_pb2.Example()
    example.features.feature["n"].int64_list.value.extend([1, -2])
    example.features.feature["x"].float_list.value.append(0.1)
    example.features.feature["t"].bytes_list.value.append(b"\xff")
    good = record(example.SerializeToString())
    found = write(
        tmp_path,
        {
            "good.tfrecord": good * 3,
            "packed.tfrecord.gz": gzip.compress(good),
            "cut.tfrecord": good * 2 + good[:-5],
            "flipped.tfrecord": damaged(good, 20),
            "sequence.tfrecord": record(example.SerializeToString() + b"\x12\x06\x0a\x04\x0a\x02hi"),
            "empty.tfrecord": record(b"") * 2,
        },
    )
    equal = dict.fromkeys(("good.tfrecord", "packed.tfrecord.gz"), EQUAL)
    assert found == dict.fromkeys(found, REFUSED) | equal


def test_text(tmp_path):
    text = "one\r\n\n two \ntéx\tt".encode()
    found = write(
        tmp_path,
        {
            "plain.txt": text,
            "packed.txt.gz": gzip.compress(text) + b"\0" * 9,
            "cut.txt.gz": gzip.compress(text)[:-3],
            "tail.txt.gz": gzip.compress(text) + b"tail",
            "latin.txt": text.decode().encode("latin-1"),
        },
    )
    assert found == dict.fromkeys(found, REFUSED) | {"plain.txt": EQUAL, "packed.txt.gz": EQUAL}


# What the script itself would miss.


def test_crash_is_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(foreign_suites, "tried", lambda case: os.kill(os.getpid(), signal.SIGKILL))
    (tmp_path / "a.txt").write_text("x")
    assert main([str(tmp_path)]) == 1
    assert "a.txt\n  the process ended with -9" in capsys.readouterr().out


@pytest.mark.parametrize(
    "got, want, is_same",
    [
        (np.float32(0.1), 0.1, True),
        (np.float32(0.1), 0.2, False),
        (1, True, False),
        (b"\xc3\xa9", "é", True),
        (None, None, True),
        (0, None, False),
        ({"a": None}, None, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1], False),
        (b'[null, {"a": 1}]', [None, {"a": 1}], True),
        (b"[1, 2]", [1], False),
        (b"1.10", decimal.Decimal("1.1"), True),
        (b"2024-02-29T01:02:03.000000004", foreign_suites.Temporal("timestamp", 1709168523000000004, "ns"), True),
        (b"2024-02-29T01:02:03", foreign_suites.Temporal("timestamp", 1709168523000000004, "ns"), False),
    ],
)
def test_difference(got, want, is_same):
    assert (difference(got, want) == "") == is_same
