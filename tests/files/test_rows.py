"""Rows of CSV, lines and TFRecords as people have them; finding files and cutting them into pieces."""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from beam_datasets.errors import InputError
from beam_datasets.files import inputs
from beam_datasets.files.bad_rows import Bad, read_piece
from beam_datasets.files.csv import Csv, Dialect, header, rows
from beam_datasets.files.fields import Field, parse_field
from beam_datasets.files.inputs import Piece, find, line_number, lines, pieces
from beam_datasets.files.jsonl import objects
from beam_datasets.files.rows import RowReader
from beam_datasets.files.text_lines import WITH_CARRIAGE_RETURNS, text_rows
from beam_datasets.files.tfrecord import ObservedValues, decoder
from beam_datasets.files.tfrecord import rows as record_rows
from beam_datasets.formats.example import parse, serialize
from beam_datasets.formats.tfrecord import frame
from beam_datasets.intake.contents import other_content


def reader(dialect, fields, key=None, dropped=()):
    return RowReader(partial(rows, dialect=dialect), fields, frozenset(dropped), key, ("",))


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
    for delimiter in ("\t", "\\t", "tab"):  # the last two as a shell passes them on
        assert read(path, delimiter=delimiter) == [{"a": "1", "b": "x,y"}]


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


def test_a_field_that_is_too_long(path, monkeypatch):
    monkeypatch.setattr("beam_datasets.limits.MAX_FIELD", 10)
    path.write_text(f"a\n{'x' * 11}\n{'y' * 10}\n")
    problem, row = read(path)
    assert row == {"a": "y" * 10}
    assert problem.startswith("line 2: field larger than field limit (10)")
    monkeypatch.setenv(*re.search(r"(BEAM_DATASETS_MAX_ELEMENTS)=(\d+)", problem).groups())
    assert read(path)[0] == {"a": "x" * 11}


def test_bytes_of_two_fields_are_no_text_together(path):
    path.write_bytes(b"a,b\n1,x\n\xc3,\xa9\n")
    assert [str(row)[:20] for row in read(path)][1:] == ["line 3: not utf-8: b"]


def test_keys_of_rows_after_comments_are_as_before(path):
    """A published version has them, and append compares with it."""
    path.write_text("# one\na\n# two\n1\n2\n")
    [file] = find(str(path))
    dialect = Dialect(comment="#")
    keys = [row[0] for row in reader(dialect, {"a": parse_field("int64")})(Piece(file))]
    assert keys == ["in.csv:3", "in.csv:5"]


def test_lines_are_counted_with_comments(path):
    path.write_text("# one\na,b\n# two\n1\n2,x\n# three\n# four\n3\n")
    found = [row.partition(":")[0] for row in read(path, comment="#") if isinstance(row, str)]
    assert found == ["line 4", "line 8"]
    path.write_text("# one\na,a\n")
    with pytest.raises(InputError, match="line 2: the columns 'a' occur more than once"):
        read(path, comment="#")


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"a,b,a\n1,2,3\n", "line 1: the columns 'a' occur more than once"),
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


# Lines of text and JSON, read in pieces


def read_lines(text_path, reader, *, piece_size=1 << 20, skip_bad=False):
    return [
        row
        for piece in pieces(find(str(text_path)), piece_size=piece_size)
        for row in read_piece(piece, reader, skip_bad)
    ]


def text(**options):
    return RowReader(partial(text_rows, **options), {"text": parse_field("string")})


@pytest.fixture
def text_path(tmp_path):
    return tmp_path / "in.txt"


@pytest.mark.parametrize("piece_size", [1, 5, 100])
def test_text(text_path, piece_size):
    text_path.write_bytes(b"\xef\xbb\xbfone\r\n\n \ntwo\n\xc3\xa9")
    expected = [("in.txt:0", {"text": "one"}), ("in.txt:11", {"text": "two"}), ("in.txt:15", {"text": "é"})]
    assert read_lines(text_path, text(), piece_size=piece_size) == expected
    blank = [example["text"] for _, example in read_lines(text_path, text(keep_blank=True), piece_size=piece_size)]
    assert blank == ["one", "", " ", "two", "é"]


@pytest.mark.parametrize("content", [b"one\rtwo\r", b"one\rtwo", b"one\r", b"\rone", b"\xef\xbb\xbfone\r\rtwo\r"])
@pytest.mark.parametrize("piece_size", [4, 1000])
def test_files_whose_only_line_ends_are_carriage_returns(text_path, content, piece_size):
    text_path.write_bytes(content)
    with pytest.raises(InputError, match=r"in\.txt: expected lines that end with .* got line ends that are only .r"):
        read_lines(text_path, text(), piece_size=piece_size)
    tr = subprocess.run(["tr", r"\r", r"\n"], input=content, capture_output=True, check=True)
    text_path.write_bytes(tr.stdout)
    lines = [line.decode("utf-8-sig") for line in content.split(b"\r") if line]
    assert [example["text"] for _, example in read_lines(text_path, text(), piece_size=piece_size)] == lines


@pytest.mark.parametrize("content", [b"10%\r20%\n", b"10%\r20%\r\ndone", b"one\ntwo\r", b"\r\n1"])
def test_carriage_returns_in_lines_are_kept(text_path, content):
    text_path.write_bytes(content)
    lines = [line.removesuffix("\r") if i < content.count(b"\n") else line
             for i, line in enumerate(content.decode().split("\n"))]  # fmt: skip
    with inputs.counted_here() as counted:
        found = [example["text"] for _, example in read_lines(text_path, text())]
    assert found == [line for line in lines if line.strip()]
    assert counted.get(WITH_CARRIAGE_RETURNS, 0) == sum("\r" in line for line in lines)


def test_not_utf8_names_line_and_byte(text_path):
    text_path.write_bytes(b"one\ncaf\xe9\ntwo\n")
    with pytest.raises(
        InputError, match=r"in\.txt, line 2 \(byte 4\): not utf-8: byte 0xe9 in column 4.*\n.*--skip_bad"
    ):
        read_lines(text_path, text())
    assert [example["text"] for _, example in read_lines(text_path, text(), skip_bad=True)] == ["one", "two"]
    assert read_lines(text_path, text(encoding="cp1252"))[1][1] == {"text": "café"}


@pytest.mark.parametrize("piece_size", [1, 30, 1000])
def test_json(text_path, piece_size):
    rows = [{"id": i, "tags": ["a"] * i, "user": {"age": None if i % 2 else i}, "x": 1} for i in range(5)]
    text_path.write_text("\n\n".join(json.dumps(row) for row in rows))
    user = Field("object", fields={"age": parse_field("float32?")})
    fields = {"id": parse_field("int64"), "tags": parse_field("string[]"), "user": user}
    reader = RowReader(objects, fields, frozenset(["x"]), key="id")
    expected = [(row["id"], {name: row[name] for name in fields}) for row in rows]
    assert read_lines(text_path, reader, piece_size=piece_size) == expected


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
def test_bad_json(text_path, line, problem):
    text_path.write_text(f'{{"a": 1}}\n{line}\n{{"a": 3}}\n')
    reader = RowReader(objects, {"a": parse_field("int64")})
    with pytest.raises(InputError, match=problem):
        read_lines(text_path, reader)
    assert [example for _, example in read_lines(text_path, reader, skip_bad=True)] == [{"a": 1}, {"a": 3}]


# Finding files and cutting them into pieces, against plain reads


@pytest.fixture
def folder(tmp_path):
    for name in ("b.csv", "a.csv", "deep/c.csv", ".hidden", "_SUCCESS", "deep/x[1].csv"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    return tmp_path / "in"


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("", ["a.csv", "b.csv", "deep/c.csv", "deep/x[1].csv"]),
        ("*.csv", ["a.csv", "b.csv"]),
        ("a.csv", ["a.csv"]),
        ("_SUCCESS", ["_SUCCESS"]),
        ("*/c.csv", ["deep/c.csv"]),
        ("deep/*", ["c.csv", "x[1].csv"]),
        ("deep/x[1].csv", ["x[1].csv"]),
    ],
)
def test_find(folder, pattern, names):
    assert [file.name for file in find(str(folder / pattern))] == names


@pytest.mark.parametrize("pattern", ["", "*", "*/../*"])
def test_pipes_are_passed_over(folder, pattern):
    expected = find(str(folder / pattern))
    os.mkfifo(folder / "pipe")
    assert find(str(folder / pattern)) == expected
    with pytest.raises(InputError, match="pipe: expected a file, got a pipe"):
        find(str(folder / "pipe"))


def test_names_do_not_depend_on_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert [f.name for f in find("*.csv")] == [f.name for f in find(f"{folder}/*.csv")]
    assert [f.name for f in find(["deep/*.csv", "a.csv", "a*"])] == ["a.csv", "deep/c.csv", "deep/x[1].csv"]
    (folder / "deep2").mkdir()
    (folder / "deep2" / "d.csv").touch()
    assert [f.name for f in find(["deep", "deep2"])] == ["deep/c.csv", "deep/x[1].csv", "deep2/d.csv"]


def test_nothing_matches(folder):
    with pytest.raises(InputError, match=r"no file matches .*\*\.txt"):
        find(f"{folder}/*.txt")


@given(st.lists(st.binary(max_size=6)), st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(1, 12))
def test_pieces_yield_each_line_once(parts, end, ended, piece_size):
    content = end.join(part.replace(b"\n", b"").replace(b"\r", b"") for part in parts) + (end if ended else b"")
    assume(not content.startswith((b"\x1f\x8b", b"BZh", b"(\xb5", b"\xfd7z")) and not other_content(content))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lines.txt")
        path.write_bytes(content)
        got = [line for piece in pieces(find(str(path)), piece_size=piece_size) for line in lines(piece)]
    expected = content.split(end)
    assert [line for _, line in got] == (expected[:-1] if expected[-1] == b"" else expected)
    assert all(content[offset : offset + len(line)] == line for offset, line in got)


def test_compressed_files_stay_whole(tmp_path):
    path = tmp_path / "lines.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    [piece] = pieces(find(str(path)), piece_size=1)
    assert list(lines(piece)) == [(0, b"one"), (4, b"two")]


def test_line_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_LINE_BLOCK", 3)
    path = tmp_path / "lines.txt"
    path.write_text("one\n\nthree\nfour")
    [piece] = pieces(find(str(path)))
    assert [line_number(str(path), offset) for offset, _ in lines(piece)] == [1, 2, 3, 4]


# TFRecords of others: what their records have, and what a damaged file says


PNG = b"\x89PNG\r\n\x1a\n..."


@pytest.fixture
def records_path(tmp_path):
    return tmp_path / "in.tfrecord"


def rows_of_records(records_path, specs, **options):
    [file] = find(str(records_path))
    fields = {name: parse_field(spec) for name, spec in specs.items()}
    reader = RowReader(partial(record_rows, decoder=partial(decoder, fields)), fields, **options)
    return [str(row) if isinstance(row, Bad) else row for row in reader(Piece(file))]


def test_examples(records_path):
    examples = [serialize({"n": [i], "t": [f"t{i}".encode()], "l": list(range(i))}) for i in range(3)]
    records_path.write_bytes(b"".join(map(frame, examples)))
    specs = {"n": "int64", "t": "string", "l": "int64[]"}
    assert rows_of_records(records_path, specs, key="t") == [
        (f"t{i}", {"n": i, "t": f"t{i}".encode(), "l": list(range(i))}) for i in range(3)
    ]
    assert rows_of_records(records_path, {"n": "class:3"}, dropped=frozenset(["t", "l"]))[2] == (
        "in.tfrecord:2",
        {"n": 2},
    )
    found = rows_of_records(records_path, specs | {"l": "int64?"})
    assert found[0][1]["l"] is None
    assert "(record 2): 'l' has 2 values, not one" in found[2]


def test_not_an_example(records_path):
    records_path.write_bytes(frame(b"\xff\xff\xff") + frame(serialize({"n": [1]})))
    found = rows_of_records(records_path, {"n": "int64"})
    assert "byte 0 (record 0): the record is not a tf.train.Example: 3 bytes" in found[0]
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
        ([[1], [b"x"]], "feature 'a' holds int64 (first in 0) and string (first in 1); "),
    ],
)
def test_guess(values, spec):
    guess = ObservedValues()
    for number, value in enumerate(values):
        if value is not None:
            guess.add(parse(serialize({"a": value})).get("a", []), str(number))
    found = guess.field("a", len(values), "in.tfrecord")
    assert spec in (str(found), found.problem[: len(spec)])


def test_half_of_a_surrogate_pair_is_a_bad_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe" + "a,b\n1,".encode("utf-16-le") + b"\x00\xd8" + "A\n2,3".encode("utf-16-le"))
    assert read(path, encoding="utf-16") == [
        "line 2: '\\ud800' is a lone surrogate, which is not valid text",
        {"a": "2", "b": "3"},
    ]


def test_text_that_is_cut_near_the_beginning(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,2\n".encode("utf-32-le")[:-2])
    with pytest.raises(InputError, match=r"a\.csv, line \d"):
        read(path, encoding="utf-32")


def test_one_text_that_means_a_missing_value(tmp_path):
    for missing in ("NA", ["NA"]):
        builder = Csv(pattern=str(tmp_path / "*.csv"), missing=missing, data_dir=str(tmp_path))
        assert builder._missing == ("", "NA")
