"""Damaged datasets: an error that names the place, or the right data; nothing else."""

import dataclasses
import functools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, InputError, MetadataError, PathNotFoundError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.limits import VARIABLE
from beam_datasets.metadata.manifest import Manifest
from beam_datasets.native import crc32c
from beam_datasets.verifying import verify
from tests.facts import raises_with
from tests.published import edit_info, flip

LENGTHS = [3, 2]
EXPECTED = [0, 1, 2, 3, 4]
KINDS = [{"manifest": True}, {"indexed": False}]


def everything(directory: Path) -> dict[str, Any]:
    """What each way of reading gives: a list of ids, or the error."""
    try:
        dataset = bd.builder_from_directory(directory).as_dataset("train").map(lambda example: int(example["id"]))
    except BeamDatasetsError as error:
        return {"open": error}
    ways = {
        "iterate": lambda: list(dataset),
        "at once": lambda: dataset[:],
        "one by one": lambda: [dataset[i] for i in range(len(dataset))],
        "shuffled": lambda: sorted(dataset.shuffle(1)),
    }
    found = {}
    for way, read in ways.items():
        try:
            found[way] = read()
        except BeamDatasetsError as error:
            found[way] = error
    return found


def check(directory: Path, damaged: Path) -> list[BeamDatasetsError]:
    """Returns the errors; all else must be as if there were no damage."""
    errors = []
    for way, outcome in everything(directory).items():
        if not isinstance(outcome, BeamDatasetsError):
            assert outcome == EXPECTED, way
            continue
        assert damaged.name.removesuffix(".index") in str(outcome), (way, outcome)
        errors.append(outcome)
    return errors


def copy(write: Any, tmp_path: Path, **options: Any) -> Path:
    source: Path = write({"train": LENGTHS}, **options)
    return Path(shutil.copytree(source, tmp_path / source.parent.name / source.name))


def damages(file: Path, kinds: tuple[str, ...] = ("flip", "cut")) -> Iterator[tuple[str, int]]:
    """Damages a file in each place, one after the other."""
    content = file.read_bytes()
    for place in range(len(content)):
        if "flip" in kinds:
            file.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
            yield "flip", place
        if "cut" in kinds:
            file.write_bytes(content[:place])
            yield "cut", place
    file.write_bytes(content)


@pytest.mark.parametrize("damage", ["flip", pytest.param("cut", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_each_byte_of_a_shard(write: Any, tmp_path: Path, options: Any, damage: str) -> None:
    directory = copy(write, tmp_path, **options)
    shard = min(directory.glob("*-00000-of-00002"))
    ends = np.cumsum(
        [len(record) + 16 for record in bd.builder_from_directory(directory).as_dataset("train").raw()[:3]]
    )
    for kind, place in damages(shard, (damage,)):
        errors = check(directory, shard)
        assert len(errors) == 4, (kind, place)
        record = int(np.searchsorted(ends, place, side="right"))
        for error in errors:
            if isinstance(error, CorruptRecordError):
                assert error.path == str(shard)
                assert error.record == record, (kind, place, error)
                assert error.offset == [0, *ends][record], (kind, place, error)
            else:  # a cut shard does not fit its index
                assert kind == "cut"
                assert isinstance(error, MetadataError)


@pytest.mark.slow
def test_each_byte_of_an_index(write: Any, tmp_path: Path) -> None:
    directory = copy(write, tmp_path, manifest=True)
    index = min(directory.glob("*-00000-of-00002.index"))
    keys = [int(example["key"]) for example in bd.builder_from_directory(directory).as_dataset("train")[:]]
    for kind, place in damages(index):
        errors = check(directory, index)
        in_keys = place >= 40 + 8 * 4
        assert len(errors) == (0 if kind == "flip" and in_keys else 4), (kind, place)
        find = bd.builder_from_directory(directory).as_dataset("train").find
        with raises_with(MetadataError, mentions=[index.name]):
            assert find(keys[0]) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dataset_info.json", "features.json", "manifest.json"])
def test_each_byte_of_a_metadata_file(write: Any, tmp_path: Path, name: str) -> None:
    directory = copy(write, tmp_path, manifest=True)
    for _ in damages(directory / name):
        with raises_with(BeamDatasetsError, mentions=[name]):
            bd.builder_from_directory(directory)


def test_a_missing_shard(write: Any, tmp_path: Path) -> None:
    directory = copy(write, tmp_path)
    shard = min(directory.glob("*-00001-of-00002"))
    shard.unlink()
    dataset = bd.builder_from_directory(directory).as_dataset("train")
    for read in (lambda: list(dataset), lambda: dataset[4]):
        with raises_with(PathNotFoundError, path=str(shard)):
            read()
    assert len(dataset[:3]) == 3


def test_an_index_of_another_shard(write: Any, tmp_path: Path) -> None:
    directory = copy(write, tmp_path)
    first, second = sorted(directory.glob("*.index"))
    shutil.copy(first, second)
    assert len(check(directory, second)) == 4
    offsets = np.array([0, 30, 60], np.uint64)  # of as many records, but another size
    second.write_bytes(Index(offsets).to_bytes())
    errors = check(directory, second)
    assert all(isinstance(error, MetadataError) for error in errors)
    assert "shard of 60 bytes" in str(errors[0])


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("recorded,record", [(2, 2), (4, 3)])
def test_another_number_of_records_than_recorded(
    write: Any, tmp_path: Path, indexed: bool, recorded: int, record: int
) -> None:
    directory = copy(write, tmp_path, indexed=indexed)
    info = json.loads((directory / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"][0] = str(recorded)
    (directory / "dataset_info.json").write_text(json.dumps(info))
    shard = min(directory.glob("*-00000-of-00002"))
    for way, error in everything(directory).items():
        assert isinstance(error, CorruptRecordError | MetadataError), (way, error)
        assert shard.name in str(error)
        assert f"{recorded}" in str(error)
        if not indexed:
            assert isinstance(error, CorruptRecordError)
            assert error.record == record
            assert error.offset == shard.stat().st_size if recorded == 4 else error.offset > 0


@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_a_shard_damaged_between_epochs_and_restored(write: Any, tmp_path: Path, kind: str) -> None:
    """Epochs read anew, but for blocks that were read already; what was restored is read on from there."""
    directory = shutil.copytree(write({"train": [3000]}, size=300), tmp_path / "squares" / "1.0.0")
    [shard] = (file for file in directory.iterdir() if file.name.endswith("-of-00001"))
    content = shard.read_bytes()
    record = 700
    dataset = bd.builder_from_directory(directory).as_dataset("train").take(2500)
    offset = sum(len(data) + 16 for data in dataset.raw().take(record))
    iterator = iter(dataset.map(lambda example: int(example["id"])).repeat(3))
    assert [next(iterator) for _ in range(2400)] == list(range(2400))
    with shard.open("r+b") as file:
        if kind == "cut":
            file.truncate(offset + 20)
        else:
            file.seek(offset + 20)
            file.write(bytes([content[offset + 20] ^ 1]))
    found = []
    with pytest.raises(BeamDatasetsError) as caught:
        found.extend(iterator)
    assert found[:100] == list(range(2400, 2500))
    epochs, place = divmod(len(found) - 100, 2500)
    assert found[100:] == [*range(2500)] * epochs + [*range(place)]
    assert epochs <= 1
    assert shard.name in str(caught.value)
    if kind == "flip":
        assert isinstance(caught.value, CorruptRecordError)
        assert (caught.value.record, caught.value.offset) == (record, offset)
        assert "data CRC" in str(caught.value)
        assert place == record
    else:
        assert (caught.value.path, caught.value.expected) == (str(shard), f"{len(content)} bytes")
    with shard.open("r+b") as file:  # the same file: it is open
        file.write(content)
    assert list(iterator) == [*range(place, 2500)] + [*range(2500)] * (1 - epochs)


def test_what_is_behind_a_slice_is_not_looked_at(write: Any, tmp_path: Path) -> None:
    directory = copy(write, tmp_path)
    shard = max(directory.glob("*-of-00002"))
    flip(shard, -5)
    builder = bd.builder_from_directory(directory)
    assert [int(example["id"]) for example in builder.as_dataset("train[:4]")] == EXPECTED[:4]
    with raises_with(CorruptRecordError, path=re.compile("00001-of-00002$"), offset=re.compile(r"^\d+$"), record=1):
        list(builder.as_dataset("train[4:]"))


def test_no_dataset(tmp_path: Path) -> None:
    with raises_with(bd.errors.DatasetNotFoundError, mentions=[str(tmp_path), "dataset_info.json"]):
        bd.builder_from_directory(tmp_path)
    (tmp_path / "dataset_info.json").write_text('{"name": "d", "version": "1.0.0"}')
    with raises_with(bd.errors.DatasetNotFoundError, mentions=[str(tmp_path), "features.json"]):
        bd.builder_from_directory(tmp_path)


def test_an_unknown_connector_leaves_raw_records(write: Any, tmp_path: Path) -> None:
    directory = copy(write, tmp_path)
    text = (directory / "features.json").read_text()
    (directory / "features.json").write_text(text.replace("core.features.text_feature.Text", "their.own.Connector"))
    dataset = bd.builder_from_directory(directory).as_dataset("train")
    assert all(isinstance(record, bytes) for record in dataset.raw())
    with raises_with(bd.errors.FeatureError, mentions=["their.own.Connector"]):
        next(iter(dataset))
    partial = bd.builder_from_directory(directory).as_dataset("train", decoders=bd.decode.PartialDecoding(["id"]))
    assert [int(example["id"]) for example in partial] == EXPECTED


@pytest.mark.parametrize("names", [["train", "more"], [], ["test"]])
def test_a_manifest_of_other_splits(write: Any, tmp_path: Path, names: list[str]) -> None:
    directory = copy(write, tmp_path, manifest=True)
    path = directory / "manifest.json"
    manifest = Manifest.from_text(path.read_text(), path="m")
    other = dataclasses.replace(manifest, splits=dict.fromkeys(names, manifest.splits["train"]))
    path.write_text(other.to_text())
    with raises_with(MetadataError, path=str(directory), expected=f"{sorted(names)}", got="['train']"):
        bd.builder_from_directory(directory)


def test_another_file_format(write: Any, tmp_path: Path) -> None:
    directory = copy(write, tmp_path)
    edit_info(directory, fileFormat="array_record")
    with raises_with(MetadataError, path=str(directory), got="array_record"):
        bd.builder_from_directory(directory).as_dataset("train")


# ------------------------------------------------------------------------------------------------ hostile directories


@pytest.mark.parametrize("indexed", [True, False])
def test_huge_lengths_allocate_nothing(write: Any, tmp_path: Path, indexed: bool) -> None:
    directory = copy(write, tmp_path, indexed=indexed)
    info = json.loads((directory / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = [str(2**58), "2"]
    (directory / "dataset_info.json").write_text(json.dumps(info))
    dataset = bd.builder_from_directory(directory).as_dataset("train")
    for read in (lambda: sum(1 for _ in dataset), lambda: dataset[2**57], lambda: next(iter(dataset.shuffle(1)))):
        with raises_with((CorruptRecordError, MetadataError), mentions=[f"{2**58}"]):
            read()


def put_large_record(directory: Path, size: int, indexed: bool, number: int = 0) -> tuple[Path, int]:
    """Replaces a record of the first shard by a sparse one with right checksums; returns the shard and its offset."""
    shard = sorted(directory.glob("*tfrecord*-of-00002"))[0]
    data = shard.read_bytes()
    offsets = tfrecord.scan(data, path="").astype(np.uint64)
    start, stop = map(int, offsets[number : number + 2])
    first = stop - start
    header = tfrecord.LENGTH.pack(size)
    with shard.open("wb") as file:
        file.write(data[:start] + header + tfrecord.U32.pack(tfrecord.masked_crc32c(header)))
        file.truncate(start + size + tfrecord.HEADER.size)
        file.seek(0, 2)
        crc = functools.reduce(lambda crc, _: crc32c(bytes(1 << 20), crc), range(size >> 20), 0)
        file.write(tfrecord.U32.pack(tfrecord._mask_crc(crc)) + data[stop:])
    if indexed:
        offsets[number + 1 :] += np.uint64(size + tfrecord.OVERHEAD - first)
        Path(f"{shard}.index").write_bytes(Index(offsets).to_bytes())
    info = json.loads((directory / "dataset_info.json").read_text())
    info["splits"][0]["numBytes"] = str(int(info["splits"][0]["numBytes"]) + size + tfrecord.OVERHEAD - first)
    (directory / "dataset_info.json").write_text(json.dumps(info))
    return shard, start


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("indexed", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_record_over_the_limit_is_not_read(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool, number: int
) -> None:
    directory = copy(write, tmp_path, indexed=indexed)
    size = 3 << 29
    shard, offset = put_large_record(directory, size, indexed, number)
    num_bytes: list[int] = []
    read, read_many = storage.Reader.read, storage.Reader.read_many

    def count(self: storage.Reader, start: int = 0, stop: int | None = None) -> Any:
        num_bytes.append((self.size if stop is None else stop) - start)
        return read(self, start, stop)

    def count_many(self: storage.Reader, ranges: Any) -> Any:
        num_bytes.extend(stop - start for start, stop in ranges)
        return read_many(self, ranges)

    monkeypatch.setattr(storage.Reader, "read", count)
    monkeypatch.setattr(storage.Reader, "read_many", count_many)
    outcomes = everything(directory)
    expected = f"more than 1,073,741,824; if that is right, set the environment variable {VARIABLE}={size}"
    for error in outcomes.values():
        assert isinstance(error, CorruptRecordError)
        assert (error.path, error.offset, error.record) == (str(shard), offset, number)
        assert expected in str(error)
    assert len(outcomes) == 4
    if indexed and not number:  # so that the others can be read
        dataset = bd.builder_from_directory(directory).as_dataset("train")
        assert [int(example["id"]) for example in dataset.skip(1)] == EXPECTED[1:]
        assert [int(example["id"]) for example in dataset[1:]] == EXPECTED[1:]
    [finding] = [finding for finding in verify(directory).findings if finding.kind == "limit"]
    assert (finding.offset, finding.record, finding.lost) == (offset, number, None)
    assert expected in finding.message
    assert max(num_bytes) < 64 << 20


def test_the_variable_raises_the_limit_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 3 << 29
    offsets = np.array([0, 30, 30 + tfrecord.OVERHEAD + size], np.uint64)
    with raises_with(CorruptRecordError, path="f", offset=30, record=8):
        tfrecord.check_sizes(offsets, path="f", first_record=7)
    monkeypatch.setenv(VARIABLE, str(size))
    tfrecord.check_sizes(offsets, path="f")
    monkeypatch.setenv(VARIABLE, str(1 << 40))
    assert "no tf.train.Example has more" in str(tfrecord.find_size_problem(1 << 31))
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.raises(InputError, match=f"{VARIABLE}: expected a positive integer"):
        tfrecord.check_sizes(offsets, path="f")
