"""CSV as people have it: quotes, line ends, encodings, ragged rows, missing values."""

import csv
import gzip
import io
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InputError
from beam_datasets.files.builder import Bad, Rows
from beam_datasets.files.csv import Dialect, header, rows
from beam_datasets.files.fields import parse_field
from beam_datasets.files.inputs import Piece, find


def reader(dialect, fields, key=None, dropped=()):
    return Rows(partial(rows, dialect=dialect), fields, frozenset(dropped), key, ("",))


def read(path, specs=None, *, key=None, **dialect):
    """Returns the rows of a file, without keys; of a bad one its problem, from the line on."""
    [file] = find(str(path))
    form = Dialect(**dialect)
    names = header(file, form)
    fields = {name: parse_field((specs or {}).get(name, "string")) for name in names}
    found = reader(form, fields, key)(Piece(file))
    return [str(row).partition(", ")[2] if isinstance(row, Bad) else row[1] for row in found]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "in.csv"


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-16-le")


@pytest.mark.parametrize(
    "content, dialect, expected",
    [
        (b'a,b\n1,"x\ny"\r\n\n2,"say ""hi"""\r\n', {}, [("1", "x\ny"), ("2", 'say "hi"')]),
        (b"a,b\r1,2\r3,4", {}, [("1", "2"), ("3", "4")]),
        (b"1,x\n2,y\n", {"columns": ("a", "b")}, [("1", "x"), ("2", "y")]),
        *(("a,b\n1,café\n".encode(e), {"encoding": e.removesuffix("-sig")}, [("1", "café")]) for e in ENCODINGS),
        *((content, {}, []) for content in (b"", b"a,b\n", "\ufeff".encode(), b"\n\n")),
    ],
)
def test_rows(path, content, dialect, expected):
    path.write_bytes(content)
    assert read(path, **dialect) == [dict(zip("ab", row)) for row in expected]


def test_compressed_and_tabs(tmp_path):
    path = tmp_path / "in.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n1\tx,y\n"))
    assert read(path) == [{"a": "1", "b": "x,y"}]


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=5)


@given(st.lists(st.tuples(CELL, CELL), max_size=5), st.sampled_from([",", ";", "\t"]))
def test_reads_what_csv_writes(rows, delimiter):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b"])
    writer.writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(text.getvalue().encode())
        assert read(path, delimiter=delimiter) == [{"a": a, "b": b} for a, b in rows]


def test_bad_rows_do_not_end_the_file(path):
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
        (b"a,b,a\n1,2,3\n", "line 1: the columns 'a' occur twice"),
        (b"a,,c\n1,2,3\n", "line 1: column 2 has no name"),
        ("a,b\n1,2\n".encode("utf-16"), "line 1: .*UTF-16"),
    ],
)
def test_unusable_header(path, content, problem):
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read(path)


def test_keys(path):
    path.write_text("id,n\nx,1\n,2\n7,3\n")
    [file] = find(str(path))
    fields = {"n": parse_field("int64")}
    found = list(reader(Dialect(), fields, "id")(Piece(file)))
    assert found[0] == ("x", {"n": 1})
    assert "the key is missing" in str(found[1])
    plain = reader(Dialect(), fields, dropped=["id"])(Piece(file))
    assert [row[0] for row in plain if not isinstance(row, Bad)] == ["in.csv:2", "in.csv:3", "in.csv:4"]


def test_other_columns(path, tmp_path):
    path.write_text("b,a\n2,1\n")
    [file] = find(str(path))
    fields = {name: parse_field("int64") for name in "ab"}
    assert list(reader(Dialect(), fields)(Piece(file))) == [("in.csv:2", {"a": 1, "b": 2})]
    fields = {"a": parse_field("int64"), "c": parse_field("int64?")}
    assert list(reader(Dialect(), fields, dropped=["b"])(Piece(file))) == [("in.csv:2", {"a": 1, "c": None})]
