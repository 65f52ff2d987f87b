"""Lines of text and JSON, read in pieces."""

import json
from functools import partial

import pytest

from beam_datasets.errors import InputError
from beam_datasets.files.builder import Bad, Rows, read_piece
from beam_datasets.files.fields import Field, parse_field
from beam_datasets.files.inputs import find, pieces
from beam_datasets.files.jsonl import objects
from beam_datasets.files.text_lines import text_rows


def read(path, reader, *, piece_size=1 << 20, skip_bad=False):
    return [
        row for piece in pieces(find(str(path)), piece_size=piece_size) for row in read_piece(piece, reader, skip_bad)
    ]


def text(**options):
    return Rows(partial(text_rows, **options), {"text": parse_field("string")})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "in.txt"


@pytest.mark.parametrize("piece_size", [1, 5, 100])
def test_text(path, piece_size):
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n \ntwo\n\xc3\xa9")
    expected = [("in.txt:0", {"text": "one"}), ("in.txt:11", {"text": "two"}), ("in.txt:15", {"text": "é"})]
    assert read(path, text(), piece_size=piece_size) == expected
    blank = [example["text"] for _, example in read(path, text(keep_blank=True), piece_size=piece_size)]
    assert blank == ["one", "", " ", "two", "é"]


def test_not_utf8_names_line_and_byte(path):
    path.write_bytes(b"one\ncaf\xe9\ntwo\n")
    with pytest.raises(
        InputError, match=r"in\.txt, line 2 \(byte 4\): not utf-8: byte 0xe9 in column 4.*\n.*--skip_bad"
    ):
        read(path, text())
    assert [example["text"] for _, example in read(path, text(), skip_bad=True)] == ["one", "two"]
    assert read(path, text(encoding="cp1252"))[1][1] == {"text": "café"}


@pytest.mark.parametrize("piece_size", [1, 30, 1000])
def test_json(path, piece_size):
    rows = [{"id": i, "tags": ["a"] * i, "user": {"age": None if i % 2 else i}, "x": 1} for i in range(5)]
    path.write_text("\n\n".join(json.dumps(row) for row in rows))
    user = Field("object", fields={"age": parse_field("float32?")})
    fields = {"id": parse_field("int64"), "tags": parse_field("string[]"), "user": user}
    reader = Rows(objects, fields, frozenset(["x"]), key="id")
    expected = [(row["id"], {name: row[name] for name in fields}) for row in rows]
    assert read(path, reader, piece_size=piece_size) == expected


@pytest.mark.parametrize(
    "line, problem",
    [
        ('{"a": 1', r"line 2 \(byte 9\): not JSON: .* in column 8"),
        ("[1]", "is a list, not an object"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": "x"}', r"line 2 \(byte 9\): 'a': 'x' \(str\) is not an integer"),
        ('{"a": 1, "b": 2}', "'b': the rows that the schema"),
        ("{}", "'a': the value is missing"),
        ('{"a": true}', r"'a': True \(bool\) is not an integer"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_json(path, line, problem):
    path.write_text(f'{{"a": 1}}\n{line}\n{{"a": 3}}\n')
    reader = Rows(objects, {"a": parse_field("int64")})
    with pytest.raises(InputError, match=problem):
        read(path, reader)
    assert [example for _, example in read(path, reader, skip_bad=True)] == [{"a": 1}, {"a": 3}]


def test_bad_says_place_lazily(path):
    path.write_text("x\n{\n")
    [file] = find(str(path))
    assert str(Bad(file, "odd", offset=2)) == f"{path}, line 2 (byte 2): odd"
    assert str(Bad(file, "odd", "row 7")) == f"{path}, row 7: odd"
    assert str(Bad(file, "odd", "")) == f"{path}: odd"
