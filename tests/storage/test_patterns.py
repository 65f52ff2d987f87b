"""Patterns on every kind of storage, against what Python finds on a local disk."""

import glob as shell
import uuid

import pytest

from beam_datasets import storage
from beam_datasets.errors import StorageError

FILES = ["a-1.rec", "a-2.rec", "b-1.rec", "x/a-1.rec", "x/a-2.txt", "y/a-1.rec", "y/z/a-1.rec", ".tmp-a", "s*r", "[q]"]


@pytest.fixture(params=["local", "objects", "fsspec"])
def root(request, tmp_path):
    if request.param != "local":
        pytest.importorskip("obstore" if request.param == "objects" else "fsspec")
    remote = f"memory://{uuid.uuid4().hex}/root" if request.param == "objects" else f"local://{tmp_path}/root"
    path = str(tmp_path / "root") if request.param == "local" else remote
    for name in FILES:
        storage.write_bytes(f"{path.removeprefix('local://')}/{name}", b"1")
    return path


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("a-*", ["a-1.rec", "a-2.rec"]),
        ("?-1.rec", ["a-1.rec", "b-1.rec"]),
        ("[bc]-*", ["b-1.rec"]),
        ("*/a-1.rec", ["x/a-1.rec", "y/a-1.rec"]),
        ("*/*/*", ["y/z/a-1.rec"]),
        ("x/*.rec", ["x/a-1.rec"]),
        (".tmp-*", [".tmp-a"]),
        ("*", ["[q]", "a-1.rec", "a-2.rec", "b-1.rec", "s*r", "x", "y"]),
        ("s[*]r", ["s*r"]),
        ("[[]q]", ["[q]"]),
        ("b-1.rec", ["b-1.rec"]),
        ("c-1.rec", []),
        ("c-*", []),
        ("missing/*", []),
        ("a-1.rec/*", []),
        ("*/*/a-2.txt", []),
    ],
)
def test_finds_what_a_shell_finds(root, pattern, expected):
    assert storage.glob(f"{root}/{pattern}") == [f"{root}/{name}" for name in expected]
    if not storage.is_remote(root):
        assert sorted(shell.glob(f"{root}/{pattern}")) == [f"{root}/{name}" for name in expected]


def test_a_wildcard_in_a_folder_above(tmp_path):
    for name in ("run1/d/x", "run2/d/x", "run3/e/x"):
        storage.write_bytes(tmp_path / name, b"1")
    assert storage.glob(tmp_path / "run*" / "d" / "x") == [str(tmp_path / f"run{i}/d/x") for i in (1, 2)]


def test_web_addresses_are_no_patterns():
    assert not storage.has_wildcard("https://host/file?part=[1]")
    assert storage.has_wildcard("s3://bucket/file-?")
    with pytest.raises(StorageError, match=r"s3://buck\*/x: the name of a bucket"):
        storage.glob("s3://buck*/x")
