"""CSV, JSON and text as others write them; pandas, csv and json are the oracles."""

import base64
import bz2
import gzip
import json
import lzma
import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import verify
from beam_datasets.files import jsonl
from beam_datasets.files.bad_rows import reason_of, report
from beam_datasets.files.csv import Csv, Dialect, rows
from beam_datasets.files.inputs import InputFile, Piece, check_encoding, find
from beam_datasets.files.jsonl import objects
from tests.files.in_process import publish

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    ".zst": zstandard.compress,
    ".deflate": zlib.compress,
}
TEXT = {
    "csv": b"id,name\n" + b"".join(b"%d,row %d\n" % (i, i * 7919) for i in range(2000)),
    "jsonl": b"".join(b'{"id": %d, "name": "row %d"}\n' % (i, i * 7919) for i in range(2000)),
    "text_lines": b"".join(b"line %d\n" % (i * 7919) for i in range(2000)),
}


def slow(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def csv_rows(path, **dialect):
    piece = Piece(InputFile(path.name, str(path), path.stat().st_size))
    return [row if isinstance(row, dict) else f"{place}: {row}" for _, place, row in rows(piece, Dialect(**dialect))]


def json_rows(path):
    [file] = find(str(path))
    return [(number, row) for number, _, row in objects(Piece(file))]


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.slow
def test_a_cut_file_publishes_nothing(files, kind, suffix):
    data = COMPRESS[suffix](TEXT[kind])
    files.write(f"a{suffix}", data[:-3])
    problem = files.fails(kind)
    assert f"a{suffix}, byte {len(data) - 3}: expected the end of the" in problem
    assert "--skip_bad" in problem


def test_an_example_of_each_reason_is_shown(tmp_path):
    """Not as many of the first reason as there are files."""
    for number in range(4):
        rows = "".join(f"{number}{i},{'n/a' if i < 8 else i},{'q' if i == 9 else 1}\n" for i in range(20))
        (tmp_path / f"{number}.csv").write_text(f"id,x,y\n{rows}1,2\n")
    counted = publish("csv", tmp_path, "--feature=x=int64", "--feature=y=int64", "--skip_bad").counted
    [said] = report({f"files/{name}": value for name, value in counted.items()})
    reasons, shown = said.split("\nfor example:\n")
    assert reasons.split("\n") == [
        "left out: 40",
        "  32: column 'x': ... is not an integer",
        "  4: ... fields where the header has ...",
        "  4: column 'y': ... is not an integer",
    ]
    assert shown.replace(f"{tmp_path}/", "").split("\n") == [
        "  0.csv, line 11: column 'y': 'q' is not an integer",
        "  0.csv, line 22: 2 fields where the header has 3 ('1', '2')",
        "  0.csv, line 2: column 'x': 'n/a' is not an integer",
        "  0.csv, line 3: column 'x': 'n/a' is not an integer",
        "  0.csv, line 4: column 'x': 'n/a' is not an integer",
    ]


def left_out_of(directory, files):
    """The rows left out by run.json, with the names of files instead of their paths."""
    return json.loads(Path(directory, "run.json").read_text().replace(f"{files}/", "")).get("left_out")


def test_run_json_has_the_rows_left_out(tmp_path):
    files, options = tmp_path / "in", {"key": "id", "features": {"x": "int64"}, "data_dir": tmp_path}
    files.mkdir()

    def builder(**more):
        return Csv(name="made", pattern=f"{files}/*.csv", **options, **more)

    (files / "a.csv").write_text("id,x\na,1\nb,n/a\nc,3,4\nd,?\n")
    made = builder(skip_bad=True).build(num_workers=1)
    expected = [
        {"reason": "column 'x': ... is not an integer", "number": 2, "example": "a.csv, line 3: column 'x': 'n/a' "
         "is not an integer"},
        {"reason": "... fields where the header has ...", "number": 1, "example": "a.csv, line 4: 3 fields where the "
         "header has 2 ('c', '3', '4')"},
    ]  # fmt: skip
    assert left_out_of(made, files) == expected
    assert verify(made).whole
    (files / "b.csv").write_text("id,x\ne,\nf,x\ng,6\n")
    appended = bd.append(made, builder(skip_bad=True))
    assert [each["example"].partition(": ")[0] for each in left_out_of(appended, files)] == [
        "b.csv, line 3",
        "b.csv, line 2",
    ]
    (files / "a.csv").write_text("id,x\na,1\n")
    (files / "b.csv").unlink()
    assert left_out_of(builder(skip_bad=True).build(num_workers=1, overwrite=True), files) is None
    (files / "a.csv").write_text("id,x\na,1\nb,n/a\nc,3,4\nd,?\n")
    assert left_out_of(builder(skip_bad=True).build(num_workers=1, overwrite=True), files) == expected


def test_run_json_of_an_append_of_several_builders_has_each_reason_once(tmp_path):
    def builder(name, text):
        (tmp_path / f"{name}.csv").write_text(text)
        pattern = str(tmp_path / f"{name}.csv")
        return Csv(name="made", pattern=pattern, key="id", features={"x": "int64"}, skip_bad=True, data_dir=tmp_path)

    made = builder("a", "id,x\na,1\n").build(num_workers=1)
    new = [builder("b", "id,x\nb,2\nc,q\n1,2,3\n"), builder("c", "id,x\nd,q\ne,r\nf,3\n")]
    reasons = left_out_of(bd.append(made, new), tmp_path)
    assert [(each["reason"], each["number"]) for each in reasons] == [
        ("column 'x': ... is not an integer", 3),
        ("... fields where the header has ...", 1),
    ]
    assert reasons[0]["example"] == "b.csv, line 3: column 'x': 'q' is not an integer"


@pytest.mark.parametrize("kind", ["csv", *slow("jsonl", "text_lines")])
def test_skip_bad_leaves_out_the_rest_of_a_cut_file(files, kind):
    data = gzip.compress(TEXT[kind])
    files.write("a.gz", data[: len(data) // 2])
    files.write("b.gz", data)
    values = [row.get("name", row.get("text")) for row in files.read(kind, "--skip_bad")]
    assert 2000 < len(values) < 4000
    assert set(values) <= {
        line.rpartition(b",")[2].rpartition(b": ")[2].strip(b'"}') for line in TEXT[kind].splitlines()
    }


def test_what_is_left_out_is_counted_by_reason(files):
    files.write("a.csv", "id,n\n" + "".join(f"{i},{i if i % 10 else 'no ' + str(i)}\n" for i in range(100)) + "1,2,3\n")
    files.write("b.csv.gz", b"no gzip")
    files.read("csv", "--skip_bad", "--feature=n=int64", "--key=id")
    said = files.said()
    assert "left out: 12\n  10: column 'n': ... is not an integer\n  1: ... fields where the header has ..." in said
    assert "\n  1: expected a gzip stream, got ..." in said
    assert "files of which the rest cannot be read: 1" in said
    assert "b.csv.gz, byte 0" in said


def test_reasons_have_no_values():
    assert reason_of("/a b/c.csv, line 3 (byte 9): not JSON: x (abc)") == "not JSON: x"
    assert reason_of("'x': [1, 2] is no list; say so") == "'x': [... ...] is no list"
    assert reason_of("'o': 'a': '6' (str) is not an integer") == "'o': 'a': ... is not an integer"
    assert reason_of("'l': [1, 2] (list) is not a number") == reason_of("'l': True (bool) is not a number")
    assert reason_of("column 'f': s3://b/a b.jpg: a damaged image: x") == "column 'f': a damaged image: x"
    assert reason_of("column 'p': '/a/b: c' is not a number") == "column 'p': ... is not a number"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_with_damaged_and_missing_images_are_counted_by_reason(files, kind):
    pixel = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
    names = [files.write(f"{n}.gif", pixel[: 20 if n > 1 else None]).name for n in range(7)] + ["x.gif", "y.gif"]
    lines = {"csv": ["image,n", *(f"{name},1" for name in names)]}
    lines["jsonl"] = [json.dumps({"image": name, "n": "1" if name == "1.gif" else 1}) for name in names]
    path = files.write(f"in.{kind}", "\n".join(lines[kind]))
    files.read(kind, f"--pattern={path}", "--skip_bad", "--feature=image=image", "--feature=n=int64")
    said = files.said()
    field = "column 'image'" if kind == "csv" else "'image'"
    assert f"\n  5: {field}: a damaged image: " in said
    assert f"\n  2: {field}: cannot be read: No such file or directory\n" in said
    assert ("\n  1: 'n': ... is not an integer\n" in said) == (kind == "jsonl")


@pytest.mark.parametrize("index", [None, *slow("index", "id")])
def test_the_index_of_pandas(files, index):
    frame = pd.DataFrame(
        {"a": [1, 2], "b": ["x", "y"]}, index=pd.Index([5, 6], name=index if index != "index" else None)
    )
    files.write("a.csv", frame.to_csv())
    expected = frame.reset_index().sort_values("a")
    found = pd.DataFrame(files.read("csv")).sort_values("a")
    assert set(found) == set(expected)
    assert found["id" if index == "id" else "index"].tolist() == [5, 6]


def test_an_unnamed_column_beside_one_called_index(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",index\n1,2\n")
    assert csv_rows(path) == [{"level_0": "1", "index": "2"}]


def test_the_advice_for_unusable_names_keeps_the_rows(files):
    files.write("a.csv", "a,,c\n1,2,3\n")
    assert "--columns a,b,c --skip_header" in files.fails("csv")
    [row] = files.read("csv", "--columns", "a,b,c", "--skip_header")
    assert {name: int(value) for name, value in row.items()} == {"a": 1, "b": 2, "c": 3}


def test_escapes_comments_and_decimal_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('# made by\n# a tool\na;b\n"x \\" y";1\\;5\n#no;row\n"two\n# lines";2\n', newline="")
    found = csv_rows(path, delimiter=";", escapechar="\\", comment="#")
    frame = pd.read_csv(path, sep=";", escapechar="\\", comment=None, skiprows=[0, 1, 4], dtype=str)
    assert found == frame.to_dict("records")


def test_lines_are_counted_with_comments(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# one\na,b\n# two\n1,2\n1,2,3\n")
    assert csv_rows(path, comment="#") == [{"a": "1", "b": "2"}, "5: 3 fields where the header has 2 ('1', '2', '3')"]


def test_decimal_commas(files):
    text = "a;b;c\n1,5;1.5;1\n-2,25;x;2\n1e3;1.000,5;3\n"
    path = files.write("a.csv", text)
    frame = pd.read_csv(path, sep=";", decimal=",", dtype={"b": str})
    found = sorted(files.read("csv", "--delimiter", ";", "--decimal", ","), key=lambda row: row["c"])
    assert [row["a"] for row in found] == frame["a"].tolist()
    assert [row["b"].decode() for row in found] == frame["b"].tolist()


@pytest.mark.parametrize("name", ["a.tsv", "a.tab", "a.TSV"])
def test_suffixes_decide_the_delimiter(tmp_path, name):
    folder = tmp_path / "x.tsv"
    folder.mkdir()
    (folder / name).write_text("a\tb\n1\t2\n")
    (folder / "sales.table.csv").write_text("a,b\n1,2\n")
    assert csv_rows(folder / name) == csv_rows(folder / "sales.table.csv") == [{"a": "1", "b": "2"}]


def test_a_tab_as_a_shell_writes_it(files):
    files.write("a.txt", "a\tb\n1\t2\n")
    problem = files.fails("csv")
    assert r"--delimiter '\t'" in problem
    [row] = files.read("csv", "--delimiter", r"\t")
    assert (row["a"], row["b"]) == (1, 2)


@pytest.mark.parametrize(
    "encoding",
    [
        "U8",
        "utf-16-le",
        *(pytest.param(v, marks=pytest.mark.slow) for v in ("utf-8-sig", "utf_8", "utf-16", "UTF_16_BE", "utf-32")),
    ],
)
def test_byte_order_marks(files, encoding):
    name = check_encoding(encoding)
    text = "\ufeff" * (name not in ("utf-16", "utf-32")) + '"a",b\n1,ü\n'
    files.write("a.csv", text.encode(name))
    [row] = files.read("csv", "--encoding", encoding)
    assert (row["a"], row["b"].decode()) == (1, "ü")


def test_lines_with_a_byte_order_mark_in_some_files(tmp_path):
    """The encoding is the one that pandas writes for Excel."""
    for name, encoding in (("a", "utf-8-sig"), ("b", "utf-8")):
        (tmp_path / f"{name}.jsonl").write_text('{"a": "ü"}\n{"a": "\ufeff"}\n', encoding)
    lines = publish("text_lines", tmp_path, "--encoding", "utf-8-sig").rows
    assert [line["text"].decode() for line in lines] == ['{"a": "ü"}', '{"a": "\ufeff"}'] * 2
    rows = publish("jsonl", tmp_path, "--encoding", "UTF_8_SIG").rows
    assert [row["a"].decode() for row in rows] == ["ü", "\ufeff"] * 2


def test_utf16_lines_are_converted_and_not_named(files):
    files.write("a.txt", "text\n".encode("utf-16"))
    problem = files.fails("text_lines")
    assert "iconv -f utf-16 -t utf-8" in problem
    assert "--encoding utf-16" not in problem


VALUES = st.dictionaries(st.sampled_from("ab"), st.none() | st.integers() | st.text(), max_size=2)


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 0, 2]), st.sampled_from([1, 7, 1 << 20]), st.booleans())
def test_arrays_of_objects(tmp_path_factory, values, indent, block_size, has_mark):
    path = tmp_path_factory.mktemp("json") / "a.json"
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    path.write_text("\ufeff" * has_mark + f" {text}\n", encoding="utf-8", errors="surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_BLOCK_SIZE", block_size)
        found = json_rows(path)
    assert [row for _, row in found] == values
    data = path.read_bytes()
    assert all(data[offset : offset + 1] == b"{" for offset, _ in found)


@pytest.mark.parametrize(
    "text, problem",
    [
        ('[{"a": 1}', "byte 9: expected ']', got 'the end of the file'"),
        ('[{"a": 1},]', "byte 10: not JSON: Expecting value"),
        ('[{"a": 1} {"a": 2}]', "byte 10: expected ']', got '{'"),
        ('[{"a": 1}] x', "byte 11: expected 'the end of the file', got 'x'"),
        ('[{"a": 1}, {"a": tru}]', "byte 11: not JSON: Expecting value"),
    ],
)
def test_damaged_arrays(files, text, problem):
    files.write("a.json", text)
    assert f"a.json, {problem}" in files.fails("jsonl")


def test_items_of_arrays_that_are_no_objects(files):
    files.write("a.json", '[{"a": 1},\n 5, [1],\n {"a": 1, "a": 2}, {"a": 1e999}, {"a": 2}]')
    assert "a.json, line 2 (byte 12): '5' is a number, not an object" in files.fails("jsonl")
    assert sorted(row["a"] for row in files.read("jsonl", "--skip_bad")) == [1, 2]


def test_a_large_array_is_read_by_one_piece(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"a": i} for i in range(1000)], indent=1))
    [file] = find(str(path))
    cut = [Piece(file, start, start + 1000) for start in range(0, file.size, 1000)]
    assert [row["a"] for piece in cut for _, _, row in objects(piece)] == list(range(1000))


def test_null_objects(files):
    """A null object is one of nulls, unless its column is text."""
    path = files.write("a.jsonl", '{"o": {"a": null}}\n{"o": null}\n{"o": {"a": 3}}\n')
    assert publish("jsonl", path).rows == [{"o": {"a": None}}, {"o": {"a": None}}, {"o": {"a": 3}}]
    found = publish("jsonl", path, "--feature=o=string?").rows
    assert found == [{"o": b'{"a": null}'}, {"o": None}, {"o": b'{"a": 3}'}]


def test_deep_values_are_text(files):
    deep = "[" * 300 + "]" * 300
    files.write("a.jsonl", f'{{"id": 0, "v": []}}\n{{"id": 1, "v": {deep}}}\n')
    assert re.search(r"'v' \(first in .*a\.jsonl, line 2 \(byte 19\)\): nested more than 32 deep", files.fails("jsonl"))
    _, row = files.read("jsonl", "--feature", "v=string")
    assert json.loads(row["v"]) == json.loads(deep)
    files.write(
        "a.jsonl", '{"id": 1, "v": ' + '{"x": ' * 200 + "1" + "}" * 201 + "\n" + '{"v": ' + "[" * 100_000 + "\n"
    )
    assert "Traceback" not in files.fails("jsonl")


def test_as_deep_as_features_may_be(files):
    files.write("a.jsonl", '{"v": ' * 31 + "1" + "}" * 31 + "\n")
    [row] = files.read("jsonl")
    for _ in range(31):
        row = row["v"]
    assert row == 1


@pytest.mark.slow
def test_numbers_of_thousands_of_digits(files):
    digits = "9" * 5000
    files.write("a.csv", f"a\n{digits}\n")
    [row] = files.read("csv", "--feature=a=string")
    assert row["a"].decode() == digits
    assert "a.csv, line 2" in files.fails("csv", "--feature=a=int64")
    assert "a.csv, line 2" in files.fails("csv", "--feature=a=float64")
    (files.folder / "a.csv").unlink()
    files.write("a.jsonl", f'{{"a": 1}}\n{{"a": {digits}}}\n')
    assert "a.jsonl, line 2 (byte 9): a number has too many digits" in files.fails("jsonl")


ESCAPED = st.text(st.sampled_from('ab,"\\\\\n\tN;'), max_size=6).filter(lambda text: not text.endswith("\r"))


@given(st.lists(st.tuples(ESCAPED, ESCAPED), min_size=1, max_size=4), st.sampled_from(['"', ""]))
def test_escapes_of_other_writers(tmp_path_factory, rows, quote):
    """As MySQL writes them: what must be escaped is, and nothing else."""
    path = tmp_path_factory.mktemp("escaped") / "a.csv"

    def written(text):
        return "".join(f"\\{each}" if each in f",{quote}\\\n" else each for each in text)

    path.write_bytes("".join(f"{written(a)},{written(b)}\n" for a, b in [("x", "y"), *rows]).encode())
    found = csv_rows(path, escapechar="\\", quote=quote)
    assert found == [{"x": a, "y": b} for a, b in rows]


def test_a_backslash_that_escapes_nothing_is_kept(tmp_path):
    r"""\N is NULL of MySQL and PostgreSQL, which was the text N; the path lost its backslash."""
    path = tmp_path / "a.csv"
    path.write_text('n,p,t\n1,C:\\new,"a \\"b\\" \\\\ c\\,d"\n\\N,\\N,x\\ty\n3,"\\N",\\0\n')
    found = publish("csv", path, "--escapechar=\\").rows
    assert [row["n"] for row in found] == [1, None, 3]
    assert [row["p"] for row in found] == [b"C:\\new", b"\\N", b"\\N"]
    assert [row["t"] for row in found] == [b'a "b" \\ c,d', b"x\\ty", b"\\0"]
    found = publish("csv", path, "--escapechar=\\", "--feature=p=string?").rows
    assert [row["p"] for row in found] == [b"C:\\new", None, None]


@pytest.mark.parametrize(
    "content, kind, problem",
    [
        ('[{"a": 1}, {"a": DIGITS}, {"a": 2}]', "int64", "in.data, line 1 (byte 11): a number has too many digits"),
        ("a,b\n1,x\nDIGITS,y\n2,z\n", "float64", "in.data, line 3: column 'a': '999.* is too large for a float64"),
        ("a,b\n1,x\n-DIGITS.5,y\n2,z\n", "float64", "in.data, line 3: column 'a': '-99.* is too large for a float64"),
        ("a,b\n[1],x\n[DIGITS],y\n[2],z\n", "int64[]", "in.data, line 3: column 'a': '999.* has too many digits"),
        ("a,b\n[1],x\nNESTED,y\n[2],z\n", "int64[]", "in.data, line 3: column 'a': .* is nested too deeply"),
    ],
)
def test_values_that_python_refuses_are_bad_rows(tmp_path, content, kind, problem):
    """Of arrays of JSON, the rest was left out; the advice was to call a function of Python."""
    path = tmp_path / "in.data"
    path.write_text(content.replace("DIGITS", "9" * 5000).replace("NESTED", "[" * 100_000))
    form, options = "jsonl" if content[0] == "[" else "csv", (f"--feature=a={kind}",)
    with pytest.raises(bd.errors.InputError, match=problem.replace("(", r"\(").replace(")", r"\)")) as caught:
        publish(form, path, *options)
    assert "sys.set" not in str(caught.value)
    values = [row["a"] for row in publish(form, path, *options, "--skip_bad").rows]
    assert values == ([[1], [2]] if kind == "int64[]" else [1, 2])


@pytest.mark.parametrize("content, problem", [
    ("lone", "in.csv, line 3: '\\\\ud800' is a lone surrogate"),
    ("odd", "in.csv, line 4: not utf-16-le: .* truncated data.; the file is damaged or cut off; get it again"),
])  # fmt: skip
def test_damaged_utf_16(tmp_path, content, problem):
    """A lone surrogate is one bad row. A cut file had the advice to name another encoding, which would read NULs."""
    path, [first, last] = tmp_path / "in.csv", (text.encode("utf-16-le") for text in ("a,b\n1,é\n", "2,x\n"))
    path.write_bytes(first + {"lone": "3,\ud800\n".encode("utf-16-le", "surrogatepass"), "odd": b""}[content] + last)
    if content == "odd":
        path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(bd.errors.InputError, match=problem):
        publish("csv", path, "--encoding=utf-16-le")
    found = publish("csv", path, "--encoding=utf-16-le", "--skip_bad")
    assert [row["a"] for row in found.rows] == [1, 2]
    assert found.counted["left out"] == 1


@pytest.mark.parametrize("value", [r"x\udc00", *slow(r"\ud83d", r"\ud83d\u0041")])
def test_lone_surrogates_name_their_line(files, value):
    files.write("a.jsonl", f'{{"t": "\\ud83d\\ude00"}}\n{{"t": "{value}"}}\n')
    assert "a.jsonl, line 2 (byte 22): expected text, got the lone surrogate" in files.fails("jsonl")
    assert [row["t"].decode() for row in files.read("jsonl", "--skip_bad")] == ["😀"]


def test_a_line_that_is_too_long(files, monkeypatch):
    monkeypatch.setattr("beam_datasets.limits.MAX_LINE", 100)
    files.write("a.jsonl", '{"a": 1}\n{"a": "' + "x" * 200 + '"}\n{"a": 2}\n')
    problem = files.fails("jsonl")
    assert "a.jsonl, line 2 (byte 9): expected lines of at most 100 bytes" in problem
    assert sorted(row["a"] for row in files.read("jsonl", "--skip_bad")) == [1, 2]
    files.write("b.jsonl", '{"a": "' + "x" * 200 + '"}\n')
    monkeypatch.setenv(*re.search(r"(BEAM_DATASETS_MAX_ELEMENTS)=(\d+)", problem).groups())
    assert [len(row["a"]) for row in files.read("jsonl", f"--pattern={files.folder}/b.jsonl")] == [200]


def test_values_are_numpy(files):
    files.write("a.json", json.dumps([{"a": 1.5}]))
    assert isinstance(files.read("jsonl")[0]["a"], np.float32)


def test_dots_name_fields_of_objects(files):
    files.write("a.jsonl", '{"product": {"price": 1, "note": "x"}, "v": [{"w": 2}], "b.c": 3}\n')
    [row] = files.read("jsonl", "--feature=product.price=float64", "--feature=product.note=drop", "--feature=v.w=int8")
    assert row["product"].keys() == {"price"}
    assert row["product"]["price"].dtype == "float64"
    assert row["v"]["w"].dtype == "int8"
    [row] = files.read("jsonl", "--feature=b.c=int8", "--feature=product/price=int16")
    assert (row["b.c"].dtype, row["product"]["price"].dtype) == ("int8", "int16")


def test_reasons_where_nothing_is_left(files):
    files.write("a.jsonl", '{"a": "x"}\n' * 40)
    problem = files.fails("jsonl", "--feature=a=int64", "--skip_bad")
    assert "no examples" in problem
    assert "left out: 40" in problem
    assert "a.jsonl, line 1" in problem


@pytest.mark.parametrize("name", ["Jo", "Zoë"])
def test_a_row_far_into_a_file_that_is_not_text(name, tmp_path):
    """Rows are checked in blocks, and by themselves after the first damage."""
    lines = [f"{i},{name}\n" for i in range(30_000)]
    before, after = "".join(["id,name\n", *lines[:20_000], "20000,"]).encode(), "".join(lines[20_001:]).encode()
    (tmp_path / "a.csv").write_bytes(before + b"\xff\n" + after)
    made = publish("csv", tmp_path / "a.csv", "--skip_bad", "--feature=name=string")
    assert [row["id"] for row in made.rows] == [*range(20_000), *range(20_001, 30_000)]
    assert {row["name"].decode() for row in made.rows} == {name}


@pytest.mark.parametrize("line", ['  {"a": 1}', '{"a": 1}  ', '\t{"a": 1}\t\r', '{"a": 1}'])
def test_spaces_around_objects(line, tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{line}\n{{"a": 2}}\n')
    assert [row["a"] for row in publish("jsonl", tmp_path / "a.jsonl").rows] == [1, 2]


def test_a_character_that_is_cut_off_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    path.write_bytes(b"a,b\n1,x\n2,y\xc3")
    first, last = csv_rows(path)
    assert first == {"a": "1", "b": "x"}
    assert isinstance(last, str)
    assert last.startswith("3: not utf-8")
