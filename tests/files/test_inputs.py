"""Finding files and cutting them into pieces, against plain reads."""

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InputError
from beam_datasets.files import inputs
from beam_datasets.files.inputs import find, line_number, lines, pieces


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


def test_names_do_not_depend_on_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert [f.name for f in find("*.csv")] == [f.name for f in find(f"{folder}/*.csv")]
    assert [f.name for f in find(["deep/*.csv", "a.csv"])] == ["a.csv", "deep/c.csv", "deep/x[1].csv"]
    (folder / "deep2").mkdir()
    (folder / "deep2" / "d.csv").touch()
    assert [f.name for f in find(["deep", "deep2"])] == ["deep/c.csv", "deep/x[1].csv", "deep2/d.csv"]


def test_find_each_file_once(folder):
    assert len(find([f"{folder}/*.csv", f"{folder}/a*"])) == 2


def test_nothing_matches(folder):
    with pytest.raises(InputError, match=r"no file matches .*\*\.txt"):
        find(f"{folder}/*.txt")


@given(st.lists(st.binary(max_size=6)), st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(1, 12))
def test_pieces_yield_each_line_once(parts, end, ended, piece_size):
    content = end.join(part.replace(b"\n", b"").replace(b"\r", b"") for part in parts) + (end if ended else b"")
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
