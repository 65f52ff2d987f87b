"""CSV as people have it: quotes, line ends, encodings, ragged rows, missing values."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InputError
from beam_datasets.files.csv import Dialect, header, rows
from beam_datasets.files.fields import parse_field
from beam_datasets.files.inputs import Piece, find
from beam_datasets.files.rows import Bad, Rows


def reader(dialect: Dialect, fields: dict[str, Any], key: str | None = None, dropped: Any = ()) -> Rows:
    return Rows(partial(rows, dialect=dialect), fields, frozenset(dropped), key, ("",))


def read(path: Path, specs: dict[str, str] | None = None, *, key: str | None = None, **dialect: Any) -> list[Any]:
    """Returns the rows of a file, without keys; of a bad one its problem, from the line on."""
    [file] = find(str(path))
    form = Dialect(**dialect)
    names = header(file, form)
    fields = {name: parse_field((specs or {}).get(name, "string")) for name in names}
    found = reader(form, fields, key).read(Piece(file))
    return [str(row).partition(", ")[2] if isinstance(row, Bad) else row[1] for row in found]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.csv"


def test_quoted_line_ends(path: Path) -> None:
    path.write_bytes(b'a,b\n1,"x\ny"\r\n\n2,"say ""hi"""\r\n')
    assert read(path) == [{"a": "1", "b": "x\ny"}, {"a": "2", "b": 'say "hi"'}]


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=5)


@given(st.lists(st.tuples(CELL, CELL), max_size=5), st.sampled_from([",", ";", "\t"]))
def test_reads_what_csv_writes(rows: list[tuple[str, str]], delimiter: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b"])
    writer.writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(text.getvalue().encode())
        assert read(path, delimiter=delimiter) == [{"a": a, "b": b} for a, b in rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-16-le"])
def test_encodings(path: Path, encoding: str) -> None:
    path.write_bytes("a,b\n1,café\n".encode(encoding))
    assert read(path, encoding=encoding.removesuffix("-sig")) == [{"a": "1", "b": "café"}]


def test_lone_carriage_returns_end_lines(path: Path) -> None:
    path.write_bytes(b"a,b\r1,2\r3,4")
    assert read(path) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_wide_text_read_as_utf8(path: Path) -> None:
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(InputError, match="line 1: .*UTF-16"):
        read(path)


def test_compressed_and_tabs(tmp_path: Path) -> None:
    path = tmp_path / "in.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n1\tx,y\n"))
    assert read(path) == [{"a": "1", "b": "x,y"}]


def test_no_header(path: Path) -> None:
    path.write_text("1,x\n2,y\n")
    assert read(path, {"n": "int64"}, columns=("n", "s")) == [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}]


@pytest.mark.parametrize("content", ["", "a,b\n", "\ufeff", "\n\n"])
def test_nothing(path: Path, content: str) -> None:
    path.write_text(content)
    assert read(path) == []


def test_bad_rows_do_not_end_the_file(path: Path) -> None:
    path.write_bytes(b'a,b\n1,x\n2\n3,x,y\n4,"x"y\n5,caf\xe9\nsix,x\n,x\n8,x\n"9,x\n10,y\n')
    found = read(path, {"a": "int64"})
    assert [row for row in found if isinstance(row, dict)] == [{"a": 1, "b": "x"}, {"a": 8, "b": "x"}]
    problems = [row for row in found if isinstance(row, str)]
    expected = [
        "line 3: 1 fields where the header has 2",
        "line 4: 3 fields where the header has 2",
        "line 5: ',' expected after '\"'",
        "line 6: not utf-8: byte 0xe9 (",
        "line 7: column 'a': 'six' is not an integer",
        "line 8: column 'a': the value is missing",
        "line 10 to 11: unexpected end of data; is a quote",
    ]
    assert len(problems) == len(expected)
    for problem, start in zip(problems, expected):
        assert problem.startswith(start)


@pytest.mark.parametrize(
    "content, problem",
    [
        ("a,b,a\n1,2,3\n", "line 1: the columns 'a' occur twice"),
        ("a,,c\n1,2,3\n", "line 1: column 2 has no name"),
    ],
)
def test_unusable_header(path: Path, content: str, problem: str) -> None:
    path.write_bytes(content.encode())
    with pytest.raises(InputError, match=problem):
        read(path)


def test_keys(path: Path) -> None:
    path.write_text("id,n\nx,1\n,2\n7,3\n")
    [file] = find(str(path))
    fields = {"n": parse_field("int64")}
    found = list(reader(Dialect(), fields, "id").read(Piece(file)))
    assert found[0] == ("x", {"n": 1})
    assert "the key is missing" in str(found[1])
    plain = reader(Dialect(), fields, dropped=["id"]).read(Piece(file))
    assert [row[0] for row in plain if not isinstance(row, Bad)] == ["in.csv:2", "in.csv:3", "in.csv:4"]


def test_other_columns(path: Path, tmp_path: Path) -> None:
    path.write_text("b,a\n2,1\n")
    [file] = find(str(path))
    fields = {name: parse_field("int64") for name in "ab"}
    assert list(reader(Dialect(), fields).read(Piece(file))) == [("in.csv:2", {"a": 1, "b": 2})]
    fields = {"a": parse_field("int64"), "c": parse_field("int64?")}
    assert list(reader(Dialect(), fields, dropped=["b"]).read(Piece(file))) == [("in.csv:2", {"a": 1, "c": None})]
