"""Reading the source, and dividing its records among shards: damage, and that only what is needed is read."""

import re
from pathlib import Path

import numpy as np
import pytest

from beam_datasets import native
from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, FeatureError, MetadataError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.materializing import records as reading
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.reading.opening import builder_from_directory
from tests.facts import raises_with
from tests.materializing.materialized import materialize
from tests.reading.conftest import Storage, write_dataset

COPY, FILTER, SHUFFLE = {}, {"filter": lambda example: True}, {"reshuffle": "x"}


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("asked", [COPY, FILTER, SHUFFLE], ids=["copy", "filter", "shuffle"])
@pytest.mark.parametrize("indexed", [True, False])
def test_each_flipped_byte_is_an_error_or_does_not_matter(tmp_path, asked, indexed):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 2]}, manifest=True)
    [shard] = directory.glob("*-00000-of-00002")
    if not indexed:
        for index in directory.glob("*.index"):
            index.unlink()
        (directory / "manifest.json").unlink()
    good = shard.read_bytes()
    ends = tfrecord.scan(good, path="").tolist()
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << place % 8
        shard.write_bytes(damaged)
        record = next(i for i in range(3) if place < ends[i + 1])
        with pytest.raises(CorruptRecordError) as caught:
            materialize(directory, tmp_path / "out", **asked)
        assert (caught.value.path, caught.value.offset, caught.value.record) == (str(shard), ends[record], record)
    assert not files_of(tmp_path / "out")


@pytest.mark.parametrize("asked", [COPY, FILTER, SHUFFLE], ids=["copy", "filter", "shuffle"])
@pytest.mark.parametrize("indexed", [True, False])
def test_each_cut_is_an_error(tmp_path, asked, indexed):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 2]}, indexed=indexed)
    [shard] = directory.glob("*-00001-of-00002")
    good = shard.read_bytes()
    for length in range(0, len(good), 7):
        shard.write_bytes(good[:length])
        with pytest.raises((CorruptRecordError, MetadataError), match=re.escape(str(shard))):
            materialize(directory, tmp_path / "out", **asked)
    shard.unlink()
    with raises_with(StorageError, path=str(shard)):
        materialize(directory, tmp_path / "out", **asked)
    assert not files_of(tmp_path / "out")


def test_the_index_of_another_shard(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [5, 5]}, manifest=True)
    one, two = sorted(directory.glob("*.index"))
    one.write_bytes(two.read_bytes())
    with pytest.raises((MetadataError, CorruptRecordError), match=re.escape(str(one)[: -len(".index")])):
        materialize(directory, tmp_path / "out")


def test_an_index_that_is_missing_or_without_keys_among_others(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [5, 5]}, manifest=True)
    [second] = directory.glob("*-00001-of-00002.index")
    second.unlink()
    with raises_with(MetadataError, path=str(second.with_suffix(""))):
        materialize(directory, tmp_path / "out")
    made = materialize(directory, tmp_path / "out", split="train[:5]")
    assert made.as_dataset("train").find(int(made.as_dataset("train")[2]["key"])) == 2


def test_only_the_shards_and_ranges_that_are_needed_are_read(tmp_path, monkeypatch):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [100] * 50}, manifest=True, size=300)
    size = sum(path.stat().st_size for path in directory.glob("*-of-00050"))
    calls = Storage(monkeypatch)
    made = materialize(directory, tmp_path / "out", split="train[:1%]", num_shards=3)
    assert len(made.as_dataset("train")) == 50
    shard = "src-train.tfrecord-00000-of-00050"
    assert {name for name, *_ in calls.reads if name.endswith("-of-00050")} == {shard}
    assert {name for kind, name in calls.calls if "-of-00050" in name} <= {shard, f"{shard}.index"}
    assert sum(stop - start for name, start, stop in calls.reads if name == shard) < 0.011 * size


def test_of_a_shard_without_index_nothing_behind_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("beam_datasets.reading.records.shards.SCAN_BYTES", 2000)
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [100] * 5}, indexed=False, size=300)
    calls = Storage(monkeypatch)
    made = materialize(directory, tmp_path / "out", split="train[10:20]", num_shards=4)
    assert [int(example["id"]) for example in made.as_dataset("train")[:]] == list(range(10, 20))
    shard = "src-train.tfrecord-00000-of-00005"
    reads = [(start, stop) for name, start, stop in calls.reads if name == shard]
    scanned, copied = [r for r in reads if r[1] - r[0] >= 2000], [r for r in reads if r[1] - r[0] < 2000]
    assert {name for name in calls.opened() if name.endswith("-of-00005")} == {shard}
    assert max(stop for _, stop in reads) < 20 * 400 + 2000
    assert len(scanned) <= 5  # once, however many shards are made of it
    assert sum(stop - start for start, stop in copied) < 11 * 400


@pytest.mark.parametrize("chunk", [1, 60, 10**6])
def test_chunks_are_the_records(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(reading, "LOCAL_CHUNK", chunk)
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [9]}, manifest=True)
    records = builder_from_directory(directory).as_dataset("train").raw()[:]
    [shard] = directory.glob("*-00000-of-00001")
    for skip in range(9):
        for take in range(9 - skip + 1):
            opened = reading.Opener().open(FileInstruction(str(shard), skip, take, 9), keyed=True)
            got = [r for first, places, data in opened.chunks() for r in opened.unframe(first, places, data)]
            assert got == records[skip : skip + take]
            assert len(opened.keys) == take


def keep_even(example):
    """A filter whose failure is deep in its own code."""
    return parity(int(example["id"]))


def parity(number):
    if number == 5:
        raise KeyError("five")
    return number % 2 == 0


def where(record):
    """Returns texts about the record of the source."""
    return ["-00000-of-00001, byte ", f"record {record}; src:1.0.0, train[{record}]"]


@pytest.mark.parametrize("more", [{}, {"reshuffle": "x"}], ids=str)
@pytest.mark.parametrize("answer", [None, 1, "yes", np.ones(2, bool), np.int64(1)], ids=repr)
def test_a_filter_must_return_a_bool(tmp_path, answer, more):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [9]}, manifest=True)
    with raises_with(BeamDatasetsError, mentions=where(3)) as caught:
        materialize(directory, tmp_path / "out", filter=lambda e: answer if e["id"] == 3 else True, **more)
    assert f"of type {type(answer).__name__}; it must return True or False" in str(caught.value)
    assert "test_records:" in str(caught.value)


def test_an_error_of_a_filter_is_reported_with_its_own_frames(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [9]}, manifest=True)
    with raises_with(BeamDatasetsError, mentions=where(5)) as caught:
        materialize(directory, tmp_path / "out", split="train[2:]", filter=keep_even)
    text = str(caught.value)
    assert "the filter tests.materializing.test_records:keep_even raised KeyError: 'five'" in text
    frames = re.findall(r"at (\S+):\d+ in (\w+)", text)
    assert frames == [(__file__, "keep_even"), (__file__, "parity")]


def test_a_record_that_does_not_fit_its_features(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [9]})
    path = directory / "features.json"
    path.write_text(path.read_text().replace('"id"', '"di"'))
    with raises_with(FeatureError, mentions=where(0)):
        materialize(directory, tmp_path / "out", **FILTER)
    assert len(materialize(directory, tmp_path / "out", **COPY).as_dataset("train").raw()[:]) == 9


def test_without_the_native_module_it_is_the_same(tmp_path, monkeypatch):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [30, 40]}, manifest=True)
    with_it = materialize(directory, tmp_path / "with", num_shards=3)
    monkeypatch.setattr(tfrecord, "core", None)
    without = materialize(directory, tmp_path / "without", num_shards=3)
    assert native.core is None or with_it.digest == without.digest


def contents(builder: object) -> dict[str, bytes]:
    directory = Path(builder.dataset_dir)  # type: ignore[attr-defined]
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if ".tfrecord-" in path.name}


def test_whole_shards_are_those_of_the_source(tmp_path: Path) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 3, 3]}, manifest=True)
    made = contents(materialize(source, tmp_path / "out", num_shards=3))
    assert made == {name: (source / name).read_bytes() for name in made}
    assert len(made) == 6


def test_damage_of_an_index_is_an_error(tmp_path: Path) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [2, 2]}, manifest=True)
    path = source / "src-train.tfrecord-00001-of-00002.index"
    good = path.read_bytes()
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with raises_with(BeamDatasetsError, mentions=[path.stem]):
            materialize(source, tmp_path / "out", num_shards=2)
