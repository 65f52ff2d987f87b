"""Which files patterns match, and what their names say."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.adopting import BareFiles, find_files
from beam_datasets.errors import InputError
from beam_datasets.metadata.names import FilenameTemplate


@pytest.fixture
def make(tmp_path: Path) -> Any:
    def make(*names: str) -> Path:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return tmp_path

    return make


def names(found: BareFiles) -> dict[str, list[str]]:
    return {split: [Path(path).name for path in paths] for split, paths in found.splits.items()}


def test_splits_by_the_names(make: Any) -> None:
    shards = {split: [f"d-{split}.tfrecord-0000{i}-of-00002" for i in range(2)] for split in ("test", "train")}
    folder = make(*shards["train"], *shards["test"], "d-train.tfrecord-00000-of-00002.index", "README")
    found = find_files(folder / "*tfrecord*")
    assert names(found) == shards
    assert found.dataset == "d"
    assert found.directory == str(folder)
    assert names(find_files(folder / "d-t*", split="all_of_it")) == {"all_of_it": [*shards["test"], *shards["train"]]}


def test_splits_that_are_given(make: Any) -> None:
    folder = make("a/1", "a/2", "b/1", "b/.hidden")
    found = find_files({"x": folder / "a" / "*", "y": [folder / "b" / "*", str(folder / "a" / "../c" / "?")][:1]})
    assert names(found) == {"x": ["1", "2"], "y": ["1"]}
    assert found.dataset is None
    assert found.directory == str(folder)
    assert names(find_files([folder / "b" / "1", folder / "a" / "*"])) == {"train": ["1", "1", "2"]}
    assert names(find_files(folder / "a" / "2")) == {"train": ["2"]}


def test_several_datasets_have_no_common_name(make: Any) -> None:
    folder = make("c-train.tfrecord-00000-of-00001", "d-train.tfrecord-00000-of-00001")
    assert find_files(folder / "*").dataset is None


@pytest.mark.parametrize(
    "files, pattern, problem",
    [
        (["a"], "b*", r"b\*: no file matches"),
        (["a"], "b", "b: no file matches"),
        (["a/1"], "a", "a is a directory; write a pattern"),
        (["a/1", "b"], "*", "a is a directory"),
        (["d-x.tfrecord-00001-of-00003"], "*", r"split 'x': .*d-x.tfrecord-\*-of-3 are 3 files, but 1.*number 0\."),
        (["t-0-of-4", "t-1-of-4", "t-3-of-4"], "*", "4 files, but 3 are there.*number 2"),
        (["t-0-of-2", "t-1-of-2", "t-0-of-3"], "*", r"t-\*-of-3 are 3 files, but 1"),
        (["t-00000-of-9999999999"], "*", "number 1"),
        (["a"], {}, "expected patterns"),
        (["a"], [], "expected patterns"),
        (["a"], {"x": "a", "y": "?"}, "a is matched twice"),
    ],
)
def test_files_that_cannot_be_adopted(
    make: Any, monkeypatch: Any, files: list[str], pattern: Any, problem: str
) -> None:
    monkeypatch.chdir(make(*files))
    with pytest.raises(InputError, match=problem):
        find_files(pattern)


@pytest.mark.parametrize("split", ["all", "a/b", "..."])
def test_names_that_no_split_has(make: Any, split: str) -> None:
    folder = make("a")
    with pytest.raises(ValueError, match="split"):
        find_files(folder / "a", split)
    with pytest.raises(ValueError, match="split"):
        find_files({split: folder / "a"})
    with pytest.raises(ValueError, match="leave it out"):
        find_files({"train": folder / "a"}, "train")


@pytest.mark.parametrize(
    "paths, template",
    [
        (["d-train.tfrecord-00000-of-00001"], "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"),
        (["e-train.tfrecord-00000-of-00001"], "e-train.tfrecord-{SHARD_X_OF_Y}"),
        (["x/00000.rec", "x/00001.rec"], "x/{SHARD_INDEX}.rec"),
        (["p-00000-00000", "p-00000-00001"], "p-00000-{SHARD_INDEX}"),
        (["birds.tfrecord"], "birds.tfrecord"),
        (["a", "b"], None),
        (["p-0", "p-1"], None),
        (["p-00001", "p-00002"], None),
        (["p-00000", "q-00001"], None),
        (["{birds}.tfrecord"], None),
    ],
)
def test_template(paths: list[str], template: str | None) -> None:
    found = BareFiles({"train": [f"/data/{path}" for path in paths]})
    assert found.template("train", "d", "/data") == template


@given(st.integers(1, 12), st.text("0ax-_.", max_size=6), st.text("0ax-_.", max_size=6), st.booleans())
def test_template_gives_the_names_back(count: int, before: str, after: str, x_of_y: bool) -> None:
    paths = [f"/d/n{before}{i:05d}{f'-of-{count:05d}' * x_of_y}{after}" for i in range(count)]
    template = BareFiles({"train": paths}).template("train", "d", "/d")
    assert template is not None
    assert [f"/d/{name}" for name in FilenameTemplate("d", "train", template=template).filenames(count)] == paths
