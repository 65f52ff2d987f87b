"""Ranges of records: they make up their runs, have about the bytes that were asked for, and read nothing else."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import errors, storage
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.reading import ranges
from beam_datasets.reading.decoding import Decode, Map, Raw
from tests.cases import cases
from tests.reading.conftest import Storage, write_dataset

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(any)


def published(write: Any, *lengths: int, **options: Any) -> Any:
    return bd.builder_from_directory(write({"train": list(lengths)}, manifest=True, **options))


def numbers(run: FileInstruction) -> range:
    return range(run.skip, run.skip + run.take)


@given(LENGTHS, st.integers(1, 5000), st.data())
@cases(60)
def test_parts_make_up_their_run(write: Any, lengths: list[int], range_bytes: int, data: Any) -> None:
    builder = published(write, *lengths)
    start, stop = sorted(data.draw(st.integers(0, sum(lengths))) for _ in range(2))
    for run in builder.info.splits[f"train[{start}:{stop}]"].file_instructions:
        parts = ranges.cut(run, builder.pool, range_bytes)
        assert list(itertools.chain.from_iterable(map(numbers, parts))) == list(numbers(run))
        assert {(part.filename, part.examples_in_shard) for part in parts} == {(run.filename, run.examples_in_shard)}
        sizes = [ranges.size_of(part, builder.pool) for part in parts]
        assert sum(sizes) == ranges.size_of(run, builder.pool)
        largest = max(ranges.size_of(FileInstruction(run.filename, n, 1, run.examples_in_shard), builder.pool)
                      for n in numbers(run))  # fmt: skip
        assert max(sizes) <= range_bytes + largest
        assert min(part.take for part in parts) > 0


def test_one_large_shard_is_divided_evenly(write: Any) -> None:
    builder = published(write, 1000, size=1000)
    [run] = builder.info.splits["train"].file_instructions
    sizes = [ranges.size_of(part, builder.pool) for part in ranges.cut(run, builder.pool, 100_000)]
    assert len(sizes) == 11
    assert max(sizes) - min(sizes) < 2 * 1100


def test_a_shard_without_index_stays_whole(write: Any) -> None:
    builder = published(write, 50, 50, indexed=False)
    runs = builder.info.splits["train[10:70]"].file_instructions
    assert [ranges.cut(run, builder.pool, 1) for run in runs] == [[run] for run in runs]
    size = Path(builder.dataset_dir, runs[0].filename).stat().st_size
    assert ranges.size_of(runs[0], builder.pool) == size * 40 // 50


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("where", ["disk", "store"])
def test_reads_what_a_dataset_reads(write: Any, indexed: bool, where: str) -> None:
    builder = published(write, 90, 0, 700, 11, indexed=indexed, size=3000)
    expected = builder.as_dataset("train[5%:]")[:]
    if where == "store":
        remote = f"memory://ranges-{indexed}/d/1.0.0"
        for name in storage.list_dir(builder.dataset_dir):
            storage.write_bytes(storage.join(remote, name), storage.read_bytes(storage.join(builder.dataset_dir, name)))
        builder = bd.builder_from_directory(remote)
    steps = (Decode(builder.info.features), Map(lambda example: int(example["id"])))
    runs = builder.info.splits["train[5%:]"].file_instructions
    parts = [part for run in runs for part in ranges.cut(run, builder.pool, 400_000)]
    assert len(parts) > 3 or not indexed
    found = [found for part in parts for found in ranges.read_range(part, builder.pool, steps)]
    assert [value for _, value in found] == [int(example["id"]) for example in expected]
    assert [number for number, _ in found] == [number for run in runs for number in numbers(run)]


def test_reading_ends_where_a_record_is_not_claimed(write: Any) -> None:
    builder = published(write, 300)
    [run] = builder.info.splits["train[20:]"].file_instructions
    claimed: list[int] = []

    def claim(number: int) -> bool:
        claimed.append(number)
        return number < 150

    found = list(ranges.read_range(run, builder.pool, (Raw(),), claim))
    assert [number for number, _ in found] == list(range(20, 150))
    assert claimed == list(range(20, 151))


def test_no_other_bytes_are_read(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = published(write, 500, 500, size=2000)
    parts = [
        part
        for run in builder.info.splits["train[40%:80%]"].file_instructions
        for part in ranges.cut(run, builder.pool, 300_000)
    ]
    assert len(parts) == 4
    for part in parts:
        builder = bd.builder_from_directory(builder.dataset_dir)
        calls = Storage(monkeypatch)
        assert len(list(ranges.read_range(part, builder.pool, (Raw(),)))) == part.take
        assert sum(stop - start for _, start, stop in calls.reads) == ranges.size_of(part, builder.pool)
        assert calls.opened() == [part.filename]


def test_an_empty_run_yields_nothing(write: Any) -> None:
    builder = published(write, 3)
    [run] = builder.info.splits["train"].file_instructions
    empty = FileInstruction(run.filename, 1, 0, 3)
    assert list(ranges.read_range(empty, builder.pool, (Raw(),))) == []


@pytest.mark.parametrize("indexed", [True, False])
def test_damage_names_file_byte_and_record(tmp_path: Path, indexed: bool) -> None:
    builder = bd.builder_from_directory(write_dataset(tmp_path / "d" / "1.0.0", {"train": [50]}, indexed=indexed))
    [run] = builder.info.splits["train"].file_instructions
    shard = Path(builder.dataset_dir, run.filename)
    content = bytearray(shard.read_bytes())
    offset = int(tfrecord.scan(content, path="")[33])
    content[offset + 20] ^= 1
    shard.write_bytes(content)
    builder = bd.builder_from_directory(builder.dataset_dir)
    place = rf"train.tfrecord-00000-of-00001, byte {offset} \(record 33\): data CRC"
    with pytest.raises(errors.CorruptRecordError, match=place):
        list(ranges.read_range(run, builder.pool, (Raw(),)))
    before = FileInstruction(run.filename, 0, 33, 50)
    assert len(list(ranges.read_range(before, builder.pool, (Raw(),)))) == 33


def test_a_record_that_does_not_fit_is_named(write: Any) -> None:
    builder = published(write, 50)
    [run] = builder.info.splits["train"].file_instructions
    other = bd.features.FeaturesDict({"text": bd.features.Scalar("int64")})
    offset = sum(len(record) + 16 for record in builder.as_dataset("train").raw()[:7])
    place = rf"train.tfrecord-00000-of-00001, byte {offset} \(record 7\): text"
    with pytest.raises(errors.FeatureError, match=place):
        list(ranges.read_range(FileInstruction(run.filename, 7, 9, 50), builder.pool, (Decode(other),)))
