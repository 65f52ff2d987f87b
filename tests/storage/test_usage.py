"""What files and directories take, links and other kinds of storage included."""

import os
import time
import uuid
from pathlib import Path

import pytest

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError, StorageError


@pytest.fixture(params=["local", "objects"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "root")
    pytest.importorskip("obstore")
    return f"memory://{uuid.uuid4().hex}/root"


def test_bytes_and_time(root: str) -> None:
    before = time.time() - 5
    for name, count in (("a", 3), ("below/b", 5), ("below/deeper/c", 0)):
        storage.write_bytes(storage.join(root, name), bytes(count))
    for path, expected in ((root, 8), (storage.join(root, "below"), 5), (storage.join(root, "a"), 3)):
        found = storage.usage(path)
        assert found.num_bytes == expected
        assert before < found.modified < time.time() + 5
    with pytest.raises(PathNotFoundError):
        storage.usage(storage.join(root, "nowhere"))


def test_the_newest_counts(tmp_path: Path) -> None:
    for name, when in (("a", 1000), ("b", 3000), ("c", 2000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (when, when))
    os.utime(tmp_path, (500, 500))
    assert storage.usage(tmp_path).modified == 3000


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "large").write_bytes(bytes(1000))
    (inside / "directory").symlink_to(outside)
    (inside / "file").symlink_to(outside / "large")
    (inside / "own").write_bytes(b"1234567")
    assert storage.usage(inside).num_bytes == 7
    assert storage.usage(inside / "file").num_bytes == 0
    assert [storage.is_link(inside / name) for name in ("directory", "file", "own", "nothing")] == [
        True,
        True,
        False,
        False,
    ]
    assert not storage.is_link("memory://bucket/file")


def test_only_an_empty_directory_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    with pytest.raises(StorageError, match="folder"):
        storage.remove_empty_dir(folder)
    (folder / "file").unlink()
    storage.remove_empty_dir(folder)
    assert not folder.exists()
    storage.remove_empty_dir(folder)
