"""Parquet files with the metadata of Hugging Face's datasets: names of labels, images and sound."""

import io
import logging
import re

import numpy as np
import pytest

from beam_datasets.files.fields import Field, parse_field, to_feature
from tests.files.parquet_reads import FILES, WAV, Read, advised, label, table_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PIL = pytest.importorskip("PIL.Image")


def test_names_of_labels(read):
    kind = {"tags": {"feature": label("x", "y"), "_type": "Sequence"}, "more": [label("x")], "pair": {
        "_type": "Sequence", "feature": {"k": label("m", "n")}}, "o": {"in": label("1", "0")}}  # fmt: skip
    columns = {
        "y": [1, -1, None],
        "tags": [[0, 1], [], [-1]],
        "more": pa.array([[0], [], []], pa.large_list(pa.int8())),
        "pair": pa.array([{"k": [0, 1]}, {"k": []}, {"k": [1]}]),
        "o": [{"in": 1}, {"in": 0}, {"in": 1}],
        "n": range(3),
    }
    found = read(
        columns, features={"y": label("tench, Tinca tinca", "b"), **kind, "n": {"dtype": "int64", "_type": "Value"}}
    )
    assert found.types == {
        "y": 'class:["tench, Tinca tinca", "b"]?', "tags": "class:x,y[]", "more": "class:x[]",
        "pair": "{k: class:m,n[]}?", "o": "{in: class:1,0}?", "n": "int64",
    }  # fmt: skip
    assert [int(row["y"]) for row in found.stored] == [1, -1, -1]
    assert [row["tags"].tolist() for row in found.stored] == [[0, 1], [], [-1]]
    assert [int(row["o"]["in"]) for row in found.stored] == [1, 0, 1]  # the index, although '1' is the name of another
    assert [row["pair"]["k"].tolist() for row in found.stored] == [[0, 1], [], [1]]
    features = {name: to_feature(field) for name, field in found.fields.items()}
    assert (features["y"].names, features["tags"].feature.names) == (["tench, Tinca tinca", "b"], ["x", "y"])
    assert read(columns, features={"y": label("a", "b")}, specs={"y": "int64?"}).rows[1]["y"] == -1
    assert read(columns, features={"y": label("a", "b")}, specs={"y": "class:c,d?"}).types["y"] == "class:c,d?"


def test_labels_that_do_not_fit_their_names(read, caplog):
    """Statistics tell it before, else the row is an error whose advice works."""
    with caplog.at_level(logging.WARNING):
        assert read({"y": [0, 5]}, features={"y": label("a", "b")}).types == {"y": "int64"}
    assert "0.parquet: column 'y' has integers from 0 to 5, and so no labels of the 2 names in the file" in caplog.text
    found = read({"y": [0, 5]}, features={"y": label("a", "b")}, write_statistics=False)
    assert found.types == {"y": "class:a,b?"}
    [problem] = found.bad
    assert "row 1: 'y': 5 is not the index of one of the 2 labels that the file names; " in problem
    assert read({"y": [0, 5]}, specs=dict(advised(problem))).rows[1] == {"y": 5}


@pytest.mark.parametrize(
    "described",
    [
        label("a", "a"),
        label("a", ""),
        {"_type": "ClassLabel"},
        {"_type": "ClassLabel", "names": [1, 2]},
        "int64",
        None,
        [],
    ],
)
def test_descriptions_that_are_not_used(read, described):
    assert read({"y": [0, 1]}, features={"y": described}).types == {"y": "int64"}


def test_labels_of_several_files(read, tmp_path):
    pq.write_table(table_of({"y": [1]}, {"y": label("a", "b")}), tmp_path / "0.parquet")
    pq.write_table(table_of({"y": [0]}), tmp_path / "1.parquet")
    assert Read(tmp_path).types == {"y": "class:a,b"}
    pq.write_table(table_of({"y": [0]}, {"y": label("b", "a")}), tmp_path / "1.parquet")
    [problem] = Read(tmp_path).problems
    assert re.match(r"column 'y' is class:a,b in .*0\.parquet and class:b,a in .*1\.parquet; ", problem)
    for way in advised(problem)[:2]:
        assert [str(row["y"]) for row in Read(tmp_path, dict([way])).rows] == ["1", "0"]


def test_fields_with_commas_in_labels():
    for labels in (("a, b", "c"), ("a?",), ("x", "[]"), ("10",), ("a ", "b"), ('"', "é")):
        for optional in (False, True):
            field = Field("class", labels=labels, optional=optional)
            assert parse_field(str(field)) == field
    assert parse_field('class:["a, b", "c"][]') == Field("list", item=Field("class", labels=("a, b", "c")))


def png():
    stream = io.BytesIO()
    PIL.fromarray(np.zeros((2, 3, 3), np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def a_file(content, path="x"):
    return {"bytes": content, "path": path}


@pytest.mark.parametrize(
    ("content", "described", "kind"),
    [
        (png(), None, "image"),
        (b"\xff\xd8\xff\xe0..", None, "image"),
        (b"RIFF....WEBPVP8 ", None, "image"),
        (b"....ftypheic", None, "image"),
        (b"?", None, "image"),
        (WAV, None, "audio"),
        (b"ID3\4", None, "audio"),
        (b"fLaC", "Audio", "audio"),
        (b"OggS", None, "audio"),
        (b"\xff\xfb\x90\x64", None, "audio"),
        (b"FORM....AIFF", None, "audio"),
        (b"?", "Audio", "audio"),
        (b"....ftypM4A ", "Audio", "string"),
        (b"\x1a\x45\xdf\xa3", None, "string"),
        (b"\xff\xf1\x50", None, "string"),
        (b"%PDF-1.7", "Pdf", "string"),
        (b"?", "Video", "string"),
    ],
)
def test_kinds_of_files(read, content, described, kind):
    """They are told by the first bytes, else by the metadata."""
    features = described and {"f": {"_type": described}}
    column = pa.array([None, a_file(None, "not here"), a_file(content)], FILES)
    found = read({"f": column}, features=features)
    assert found.types["f"].rstrip("?") == kind
    in_list = read(
        {"f": pa.array([[], [a_file(content)]], pa.list_(FILES))}, features=described and {"f": [features["f"]]}
    )
    assert in_list.types == {"f": "string[]" if kind == "audio" else f"{kind}[]"}
    as_bytes = read({"f": pa.array([None, a_file(content), a_file(None, None)], FILES)}, specs={"f": "string?"})
    assert [row["f"] for row in as_bytes.rows] == [None, content, None]
    only_path = read({"f": column}, specs={"f": "string?"})
    assert "row 1: 'f': the content of 'not here' is not in the Parquet file, but only its path" in only_path.bad[0]


@pytest.mark.parametrize("content", [png(), WAV], ids=["image", "sound"])
def test_a_file_that_is_missing(read, content):
    column = pa.array([a_file(content), None], FILES)
    [problem] = read({"f": column}).bad
    assert re.search(
        "row 1: 'f': the (image|sound) is missing, which cannot be stored; leave out such rows by --skip_bad", problem
    )
    for way in advised(problem):
        assert len(read({"f": column, "n": [1, 2]}, specs=dict([way])).stored) == 2


def test_files_in_another_layout_are_files_if_metadata_say_so(read):
    kind = pa.struct([("path", pa.large_string()), ("bytes", pa.large_binary())])  # as Polars writes them
    column = pa.array([{"bytes": png(), "path": None}], kind)
    assert read({"f": column}).types == {"f": "{path: string?, bytes: string}?"}
    assert read({"f": column}, features={"f": {"_type": "Image"}}).types == {"f": "image"}
    assert read({"f": column}, features={"f": {"_type": "Video"}}).rows == [{"f": png()}]
    assert read({"f": ["a.png"]}, features={"f": {"_type": "Image"}}).types == {"f": "string"}


@pytest.mark.parametrize("content, kind", [(png(), "image"), (WAV, "audio"), (b"ID3\4", "audio"), (b"?", "image")])
def test_files_without_paths(read, content, kind):
    """pyarrow gives a field the type null if all of its values are None."""
    column = pa.array([{"bytes": content, "path": None}])
    assert column.type == pa.struct([("bytes", pa.binary()), ("path", pa.null())])
    in_list = pa.array([[{"bytes": content, "path": None}]])
    assert read({"f": column}).types["f"].partition(":")[0] == kind
    assert read({"f": column}, specs={"f": "string"}).rows == [{"f": content}]
    assert read({"f": in_list}, specs={"f": "string[]"}).rows == [{"f": [content]}]
