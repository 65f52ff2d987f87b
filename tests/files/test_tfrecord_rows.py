"""TFRecords of others: what their records have, and what a damaged file says."""

from functools import partial

import pytest

from beam_datasets.files.builder import Bad, Rows
from beam_datasets.files.fields import parse_field
from beam_datasets.files.inputs import Piece, find
from beam_datasets.files.tfrecord import Values, decoder
from beam_datasets.files.tfrecord import rows as record_rows
from beam_datasets.formats.example import parse, serialize
from beam_datasets.formats.tfrecord import frame

PNG = b"\x89PNG\r\n\x1a\n..."


@pytest.fixture
def path(tmp_path):
    return tmp_path / "in.tfrecord"


def rows(path, specs, **options):
    [file] = find(str(path))
    fields = {name: parse_field(spec) for name, spec in specs.items()}
    reader = Rows(partial(record_rows, decoder=partial(decoder, fields)), fields, **options)
    return [str(row) if isinstance(row, Bad) else row for row in reader(Piece(file))]


def test_examples(path):
    examples = [serialize({"n": [i], "t": [f"t{i}".encode()], "l": list(range(i))}) for i in range(3)]
    path.write_bytes(b"".join(map(frame, examples)))
    specs = {"n": "int64", "t": "string", "l": "int64[]"}
    assert rows(path, specs, key="t") == [
        (f"t{i}", {"n": i, "t": f"t{i}".encode(), "l": list(range(i))}) for i in range(3)
    ]
    assert rows(path, {"n": "class:3"}, dropped=frozenset(["t", "l"]))[2] == ("in.tfrecord:2", {"n": 2})
    found = rows(path, specs | {"l": "int64?"})
    assert found[0][1]["l"] is None
    assert "record 2: 'l' has 2 values, not one" in found[2]


def test_not_an_example(path):
    path.write_bytes(frame(b"\xff\xff\xff") + frame(serialize({"n": [1]})))
    found = rows(path, {"n": "int64"})
    assert "record 0: " in found[0]
    assert found[1] == ("in.tfrecord:1", {"n": 1})


@pytest.mark.parametrize(
    "values, spec",
    [
        ([[1], [2]], "int64"),
        ([[1.5], None], "float32?"),
        ([[1, 2], [3, 4]], "int64[2]"),
        ([[1, 2], [3]], "int64[]"),
        ([[1, 2], []], "int64[]"),
        ([[b"x"], [b"\xff"]], "string"),
        ([[PNG], [PNG]], "image"),
        ([[PNG], [b"x"]], "string"),
        ([[b"a", b"b"], [b"c", b"d"]], "string[]"),
        ([[1], [b"x"]], "feature 'a' holds int64 and string"),
    ],
)
def test_guess(values, spec):
    guess = Values()
    for value in values:
        if value is not None:
            guess.add(parse(serialize({"a": value})).get("a", []))
    found = guess.field("a", len(values))
    assert spec in (str(found), found.problem[: len(spec)])
