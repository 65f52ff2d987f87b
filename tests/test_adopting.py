"""`adopt`: which files patterns match, files that TFDS wrote without their metadata, and refused ones."""

import bz2
import functools
import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import adopting
from beam_datasets import features as F
from beam_datasets.adopting import BareFiles, find_files
from beam_datasets.errors import (
    AlreadyPublishedError,
    CorruptRecordError,
    FeatureValueError,
    InputError,
    MetadataError,
    StorageError,
)
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import serialize
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.publishing.leftovers import find_leftovers
from tests.directories import contents
from tests.facts import raises_with
from tests.files.in_process import publish

DATA = Path(__file__).resolve().parent / "data" / "tfds"
VERSIONS = sorted(path.parent.relative_to(DATA).as_posix() for path in DATA.rglob("dataset_info.json"))
FEATURES = {"id": np.int64, "text": F.Text()}


def shards_of(version: str, folder: Path) -> Path:
    """Copies a dataset's shards without its metadata."""
    folder.mkdir(parents=True)
    for shard in (DATA / version).glob("*.tfrecord-*"):
        shutil.copy(shard, folder)
    return folder


def records(first: int, count: int) -> list[bytes]:
    return [serialize({"id": [i], "text": [b"x" * (i % 7)]}) for i in range(first, first + count)]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of two files: examples 0 to 9 and 10 to 14."""
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "part-00000").write_bytes(b"".join(tfrecord.frame_all(records(0, 10))))
    (folder / "part-00001").write_bytes(b"".join(tfrecord.frame_all(records(10, 5))))
    return folder


@pytest.mark.parametrize("how", ["in place", "copy"])
@pytest.mark.parametrize("version", VERSIONS)
def test_same_as_with_the_metadata_of_tfds(tmp_path: Path, version: str, how: str) -> None:
    folder = shards_of(version, tmp_path / "bare")
    place = {} if how == "in place" else {"data_dir": tmp_path / "new"}
    original = bd.builder_from_directory(DATA / version)
    ordered = original.info.disable_shuffling
    adopted = bd.adopt(folder / "*.tfrecord-*", DATA / version / "features.json", disable_shuffling=ordered, **place)
    assert adopted.name == original.name
    assert adopted.info.features == original.info.features
    for split in original.info.splits:
        ours, theirs = adopted.info.splits[split], original.info.splits[split]
        assert (ours.shard_lengths, ours.num_bytes) == (theirs.shard_lengths, theirs.num_bytes)
        assert ours.filenames == theirs.filenames
        for expression in (split, f"{split}[30%:]"):
            both = [builder.as_dataset(expression).raw() for builder in (adopted, original)]
            assert list(both[0]) == list(both[1])
            assert both[0][:] == both[1][:]
    again = bd.builder_from_directory(adopted.dataset_dir)
    assert again.digest == adopted.digest
    assert [example.keys() for example in again.as_dataset("train")]


@pytest.mark.parametrize("chunk_size", [100, 8 << 20])
def test_manifest_and_indexes_are_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    scan_file = functools.partial(tfrecord.scan_file, chunk_size=chunk_size)
    monkeypatch.setattr(adopting.tfrecord, "scan_file", scan_file)
    folder = shards_of("spec_three/1.2.3", tmp_path / "bare")
    adopted = bd.adopt(
        folder / "*", DATA / "spec_three/1.2.3/features.json", data_dir=tmp_path / "new", version="3.0.0"
    )
    assert Path(adopted.dataset_dir) == tmp_path / "new" / "spec_three" / "3.0.0"
    assert bd.load("spec_three", split="train", data_dir=tmp_path / "new")[0]
    for split, columns in adopted.manifest.splits.items():
        for shard, name in enumerate(adopted.info.splits[split].filenames):
            path = Path(adopted.dataset_dir, name)
            data = path.read_bytes()
            index = Path(f"{path}.index").read_bytes()
            assert data == (folder / name).read_bytes()
            assert columns.file_bytes[shard] == len(data)
            assert columns.crc32c[shard] == crc32c(data)
            assert columns.index_crc32c[shard] == crc32c(index)
            assert columns.num_bytes[shard] == len(data) - 16 * columns.num_examples[shard]
    assert adopted.info.splits["train[2:5]"].num_bytes > 0  # known from the indexes only
    with raises_with(MetadataError, expected="sort keys"):
        adopted.as_dataset("train").find("a key")


def test_other_names(bare: Path) -> None:
    before = contents(bare)
    adopted = bd.adopt(bare / "part-*", FEATURES, name="parts", description="Numbers.", disable_shuffling=True)
    assert str(adopted.info.full_name) == "parts/1.0.0"
    assert adopted.info.description == "Numbers."
    assert [int(example["id"]) for example in adopted.as_dataset("train")] == list(range(15))
    assert [int(example["id"]) for example in adopted.as_dataset("train[8:-3]")[:]] == [8, 9, 10, 11]
    assert set(contents(bare)) - set(before) == {
        "part-00000.index",
        "part-00001.index",
        "dataset_info.json",
        "features.json",
        "manifest.json",
    }
    assert {name: data for name, data in contents(bare).items() if name in before} == before


def test_names_without_a_template_need_a_directory(bare: Path, tmp_path: Path) -> None:
    (bare / "part-00000").rename(bare / "first")
    before = contents(bare)
    with pytest.raises(InputError, match=r"none for .*first \.\.\. .*1. Give --data_dir \(data_dir=\.\.\.\)"):
        bd.adopt(bare / "*", FEATURES, name="parts")
    adopted = bd.adopt([bare / "part-00001", bare / "first"], FEATURES, name="parts", split="some", data_dir=tmp_path)
    assert [int(example["id"]) for example in adopted.as_dataset("some")[:]] == [*range(10, 15), *range(10)]
    assert contents(bare) == before


def test_splits_in_directories(bare: Path) -> None:
    for number, split in enumerate(("train", "test")):
        (bare / split).mkdir()
        (bare / f"part-0000{number}").rename(bare / split / "x.tfrecord")
    adopted = bd.adopt({split: bare / split / "*" for split in ("train", "test")}, FEATURES, name="parts")
    assert adopted.dataset_dir == str(bare)
    assert {name: split.num_examples for name, split in adopted.info.splits.items()} == {"train": 10, "test": 5}
    assert [int(example["id"]) for example in adopted.as_dataset("test")] == list(range(10, 15))


def test_empty_file(bare: Path) -> None:
    (bare / "part-00002").touch()
    adopted = bd.adopt(bare / "*", FEATURES, name="parts")
    assert adopted.info.splits["train"].shard_lengths == [10, 5, 0]
    assert len(list(adopted.as_dataset("train"))) == 15


def test_name_and_version_of_the_directory(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "numerals").mkdir()
    place = bare.rename(tmp_path / "numerals" / "2.1.0")
    copy = bd.adopt(place / "*", FEATURES, data_dir=tmp_path / "copy")
    assert (copy.info.full_name, copy.dataset_dir) == ("numerals/2.1.0", str(tmp_path / "copy" / "numerals" / "2.1.0"))
    assert bd.adopt(place / "*", FEATURES, version="3.0.0", data_dir=tmp_path / "copy").info.version == "3.0.0"
    with pytest.raises(ValueError, match=r"version is 3.0.0, but the files are in .*2.1.0"):
        bd.adopt(place / "*", FEATURES, version="3.0.0")
    assert bd.adopt(place / "*", FEATURES).info.full_name == "numerals/2.1.0"
    assert len(bd.load("numerals", split="train", data_dir=tmp_path)) == 15


@pytest.mark.parametrize("filename", ["dataset_info.json", "label.labels.txt"])
@pytest.mark.parametrize(
    "stems, pattern",
    [
        (["part-0", "part-1"], "part-*"),
        (["test-00000-of-00001", "train-00000-of-00001"], "*-of-*"),
        (["d-test.tfrecord-00000-of-00001", "d-train.tfrecord-00000-of-00001"], "*.tfrecord*"),
        (["train", "LICENSE"], None),
    ],
)
def test_a_pattern_that_matches_metadata(
    bare: Path, tmp_path: Path, filename: str, stems: list[str], pattern: str | None
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    for stem, path in zip(stems, sorted(bare.iterdir())):
        shutil.copy(path, folder / stem)
    (folder / filename).write_text("{}")
    proposed = f", such as {folder}/{pattern}." if pattern else "alone."
    with raises_with(InputError, path=str(folder / filename), advice=[proposed]):
        bd.adopt(folder / "*", FEATURES, name="parts")
    if pattern:
        assert {path for paths in find_files(folder / pattern).splits.values() for path in paths} == {
            str(folder / stem) for stem in stems
        }


@pytest.mark.parametrize("suffix", [".txt", ".json"])
def test_records_in_files_with_the_suffix_of_metadata(bare: Path, tmp_path: Path, suffix: str) -> None:
    """The content decides, not the name."""
    expected = list(bd.adopt(bare / "*", FEATURES, name="parts", data_dir=tmp_path / "a").as_dataset("train"))
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    for path in bare.iterdir():
        shutil.copy(path, renamed / f"{path.name}{suffix}")
    builder = bd.adopt(renamed / "*", FEATURES, name="parts", data_dir=tmp_path / "b")
    assert list(builder.as_dataset("train")) == expected != []


@pytest.mark.parametrize(
    "options, error, problem",
    [
        ({"name": None}, ValueError, r"Give the name by --name \(name=\.\.\.\)"),
        ({"name": "a b"}, ValueError, "'a b' is not a dataset name"),
        ({"features": F.Text()}, FeatureValueError, "dict of features"),
        ({"data_dir": "memory://bucket/data"}, StorageError, "local disks only"),
    ],
)
def test_options_that_are_refused(bare: Path, options: Any, error: Any, problem: str) -> None:
    with pytest.raises(error, match=problem):
        bd.adopt(bare / "*", **{"features": FEATURES, "name": "parts"} | options)


def test_published_dataset_stays(bare: Path, tmp_path: Path) -> None:
    bd.adopt(bare / "*", FEATURES, name="parts")
    bd.adopt(bare / "part-0000?", FEATURES, name="parts", data_dir=tmp_path / "new")
    before = contents(tmp_path)
    for place in ({}, {"data_dir": tmp_path / "new"}):
        with pytest.raises(AlreadyPublishedError, match=r"dataset_info.json is there already"):
            bd.adopt(bare / "part-0000?", FEATURES, name="parts", **place)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["features.json", "manifest.json", "part-00001.index", "LICENSE", "parts/1.0.0/x"])
def test_other_files_stay(bare: Path, name: str) -> None:
    (bare / name).parent.mkdir(parents=True, exist_ok=True)
    (bare / name).write_bytes(b"mine")
    before = contents(bare)
    place = {"data_dir": bare} if name.startswith("parts") else {}
    with pytest.raises(AlreadyPublishedError, match=f"{Path(name).name} is there already"):
        bd.adopt(bare / "part-0000?", FEATURES, name="parts", license="free", **place)
    assert contents(bare) == before


def test_same_files_do_no_harm(bare: Path) -> None:
    bd.adopt(bare / "part-0000?", FEATURES, name="parts", license="free")
    for name in ("dataset_info.json", "features.json", "manifest.json"):
        (bare / name).unlink()  # as if a run was killed
    adopted = bd.adopt(bare / "part-*", FEATURES, name="parts", license="free")
    assert len(list(adopted.as_dataset("train"))) == 15


@pytest.fixture(params=["in place", "copy"])
def refused(request: Any, bare: Path, tmp_path: Path) -> Any:
    """Adopts the files and returns the error; asserts that no new file is left."""
    place = {} if request.param == "in place" else {"data_dir": tmp_path / "new"}

    def refused(error: Any, features: Any = FEATURES, **options: Any) -> Any:
        before = contents(tmp_path)
        with pytest.raises(error) as caught:
            bd.adopt(bare / "part-0000?", features, name="parts", **place, **options)
        assert contents(tmp_path) == before
        assert not list(tmp_path.rglob("incomplete*"))
        assert not (tmp_path / "new").exists()
        return caught.value

    return refused


@pytest.mark.parametrize("place", ["length", "crc of length", "data", "crc of data"])
def test_flipped_byte(bare: Path, refused: Any, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopting.tfrecord, "scan_file", functools.partial(tfrecord.scan_file, chunk_size=30))
    data = bytearray((bare / "part-00001").read_bytes())
    start = sum(len(record) + 16 for record in records(10, 2))
    length = len(records(12, 1)[0])
    data[start + {"length": 0, "crc of length": 8, "data": 13, "crc of data": 12 + length}[place]] ^= 1
    (bare / "part-00001").write_bytes(data)
    error = refused(CorruptRecordError)
    assert (error.path, error.offset, error.record) == (str(bare / "part-00001"), start, 2)
    assert "verify" not in str(error)


def test_cut_off_anywhere(bare: Path) -> None:
    whole = (bare / "part-00001").read_bytes()
    ends = np.cumsum([0, *(len(record) + 16 for record in records(10, 5))]).tolist()
    for size in set(range(len(whole))) - set(ends):
        (bare / "part-00001").write_bytes(whole[:size])
        with pytest.raises(CorruptRecordError) as caught:
            bd.adopt(bare / "part-0000?", FEATURES, name="parts")
        record = int(np.searchsorted(ends, size)) - 1
        assert (caught.value.offset, caught.value.record) == (ends[record], record)
    assert sorted(contents(bare)) == ["part-00000", "part-00001"]


@pytest.mark.parametrize(
    "features, problem",
    [
        ({"id": np.float32, "text": F.Text()}, "id: "),
        ({"id": F.Tensor(shape=(2,), dtype=np.int64), "text": F.Text()}, "id: "),
        ({"id": np.int64, "text": F.Image()}, "text: "),
        ({"id": np.int8, "text": F.Text(), "more": np.int64}, "more: "),
        ({"id": np.int64, "txt": F.Sequence(F.Text())}, "it has text, which the features do not name, and not txt"),
    ],
)
def test_features_that_do_not_fit(bare: Path, refused: Any, features: Any, problem: str) -> None:
    error = refused(FeatureValueError, features)
    assert str(error).startswith(f"{bare}/part-00000, byte 0 (record ")
    assert f"): the record does not fit the features: {problem}" in str(error)


def test_records_that_are_no_examples(bare: Path, refused: Any) -> None:
    (bare / "part-00000").write_bytes(tfrecord.frame(b"a line of text\n"))
    assert "part-00000, byte 0 (record 0): the record is not a tf.train.Example: " in str(refused(CorruptRecordError))


@pytest.mark.parametrize(
    "record, problem",
    [
        (serialize({"id": [1], "text": [b"x"]}) + b"\x12\x05\x0a\x03\x0a\x01s", "a tf.train.SequenceExample with the "),
        (serialize({"id": [1], "text": [b"x"]}) + b"\x2a\x01x", "another message: its field 5 at byte 32 is unknown"),
        (b"\x0a\x0c\x0a\x0a\x0a\x02id\x12\x04\x20\x01\x1a\x00", "field 4 of a Feature, at byte 11, is unknown"),
    ],
)
def test_records_that_protobuf_would_not_read_whole(bare: Path, record: bytes, problem: str) -> None:
    name = "d-train.tfrecord-00000-of-00001"
    (bare / name).write_bytes(tfrecord.frame(serialize({"id": [0], "text": [b""]})) + tfrecord.frame(record))
    before = contents(bare)
    with pytest.raises(CorruptRecordError) as caught:
        bd.adopt(bare / name, FEATURES, name="parts")
    assert contents(bare) == before
    assert (caught.value.path, caught.value.offset, caught.value.record) == (str(bare / name), 45, 1)
    assert problem in str(caught.value)
    assert "verify" not in str(caught.value)  # nothing was published that it could repair


def test_records_without_features(bare: Path, refused: Any) -> None:
    (bare / "part-00000").write_bytes(tfrecord.frame(b"") * 3)
    features = {"id": F.Scalar(np.int64, optional=True)}
    assert "part-00000: expected tf.train.Examples with features, got none in any of 3 records" in str(
        refused(InputError, features)
    )


def test_nested_items_are_decoded_too(bare: Path, refused: Any) -> None:
    nested = {"id": np.int64, "text": F.Text(), "steps": F.Dataset({"image": F.Image()})}
    record = serialize({"id": [1], "text": [b"x"], "steps/image": [b"no image"]})
    (bare / "part-00000").write_bytes(tfrecord.frame(record))
    assert "steps" in str(refused(FeatureValueError, nested))


def test_what_decoders_skip_is_not_checked(bare: Path) -> None:
    features = {"id": np.int64, "text": F.Image()}
    adopted = bd.adopt(bare / "*", features, name="parts", decoders={"text": bd.decode.SkipDecoding()})
    assert json.loads((bare / "features.json").read_text())["featuresDict"]["features"]["text"]["image"] is not None
    with pytest.raises(FeatureValueError):
        list(adopted.as_dataset("train"))


@pytest.mark.parametrize(
    "compress, suffix, command",
    [
        (gzip.compress, "", "gzip"),
        (gzip.compress, ".GZ", "gzip"),
        (bz2.compress, ".bz2", "bzip2"),
        (lzma.compress, "", "xz"),
        (zstandard.compress, ".zst", "zstd"),
        (zlib.compress, "", ""),
    ],
)
def test_compressed(bare: Path, tmp_path: Path, compress: Any, suffix: str, command: str) -> None:
    """Both commands of the error are followed."""
    whole = (bare / "part-00001").read_bytes()
    (bare / "part-00001").unlink()
    (bare / f"part-00001{suffix}").write_bytes(compress(whole))
    with pytest.raises(InputError, match=f"part-00001{suffix} is compressed by ") as caught:
        bd.adopt(bare / "part-*", FEATURES, name="parts", data_dir=tmp_path / "new")
    problem = str(caught.value)
    assert not (tmp_path / "new").exists()
    *unpack, build = re.findall("`(.*?)`", problem)
    assert bool(unpack) == bool(command)
    if command and shutil.which(command):
        subprocess.run(unpack[0], shell=True, check=True, cwd=tmp_path)
        assert (tmp_path / "unpacked" / "part-00001").read_bytes() == whole
    [beam_datasets, *words] = shlex.split(build.replace("NAME", "parts"))
    assert (beam_datasets, words[:2]) == ("beam-datasets", ["build", "tfrecord"])
    found = publish("tfrecord", words[words.index("--pattern") + 1])
    assert [row["id"] for row in found.rows] == list(range(10, 15))


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"id,text\n1,x\n2,y\n", "CSV. Build it as such: `beam-datasets build csv`."),
        (b'{"id": 1}\n', "JSON. Build it as such: `beam-datasets build jsonl`."),
        (b"PAR1\x15\x04" + bytes(90), "a Parquet file. Build it as one: `beam-datasets build parquet`."),
        (b"RIFF\x24\0\0\0WAVEfmt " + bytes(60), "a sound (WAV). Build sounds by their folders: "),
    ],
)
def test_files_of_other_formats(bare: Path, refused: Any, content: bytes, problem: str) -> None:
    (bare / "part-00001").write_bytes(content)
    assert f"part-00001: expected a TFRecord file, got {problem}" in str(refused(InputError))


def test_directory_that_nobody_may_write_to(bare: Path, refused: Any, monkeypatch: Any) -> None:
    def create_bytes(path: str, data: bytes) -> None:
        raise StorageError(f"{path}: no space left")

    monkeypatch.setattr(adopting.storage, "create_bytes", create_bytes)
    assert "no space left" in str(refused(StorageError))


# Which files patterns match, and what their names say


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
        (["t-0-of-2", "t-1-of-2", "t-2-of-2"], "*", r"t-\*-of-2 are 2 files, but number 2 is there, too"),
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


def test_gc_leaves_an_adoption_that_is_under_way(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its staging directory has an owner, also while its files are those of the version."""
    root, found = tmp_path / "new", []
    rename = adopting.storage.rename_dir

    def look(*_: Any) -> None:
        found.extend(each for each in find_leftovers(root, older_than=0))

    monkeypatch.setattr(adopting.storage, "rename_dir", lambda *args: (look(), rename(*args)))
    monkeypatch.setattr(adopting, "_write_metadata", lambda *args, call=adopting._write_metadata: (look(), call(*args)))
    bd.adopt(bare / "*", FEATURES, data_dir=root, name="mine")
    assert [(each.kind, each.abandoned) for each in found] == [("staging", False)] * 2
    assert sorted(path.name for path in (root / "mine").iterdir()) == ["1.0.0"]
    assert "owner.json" not in os.listdir(root / "mine" / "1.0.0")
