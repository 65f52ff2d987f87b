"""Runs of a shard, read a piece at a time; open shards among threads; ranges of records."""

import gc
import itertools
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets.errors import BeamDatasetsError, MetadataError
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.native import core
from beam_datasets.reading import ranges
from beam_datasets.reading.blocks import BLOCK_BYTES
from beam_datasets.reading.elements.transforms import Decode, Map, Raw
from beam_datasets.reading.records import shards, source
from beam_datasets.reading.records.run_reader import RunReader, ranges_of, read_visits
from beam_datasets.reading.records.shards import Shard
from tests.cases import cases
from tests.facts import raises_with
from tests.published import upload
from tests.reading.conftest import Storage


def chunk_of(reader: RunReader) -> Any:
    def found(run: int, visits: Any, damaged: bool, failed: bool) -> Any:
        if damaged:
            reader.raise_damaged(int(visits[1][0]))
        return reader.chunk(ranges_of(run, visits), failed)

    return found


@pytest.mark.parametrize("size", [10, 3000, 100_000, BLOCK_BYTES + 1])
def test_few_records_of_a_large_chunk_are_taken(tmp_path: Any, size: int) -> None:
    records = [bytes([i % 250]) * (size + i) for i in range(60)]
    path = tmp_path / "shard"
    path.write_bytes(b"".join(tfrecord.frame_all(records)))
    reader = RunReader(Shard(str(path), 60), 60, chunk_bytes=64 << 20)
    visits = [tuple(np.array([[0], [0], [60]], np.int64))]
    blocks = list(map(list, read_visits(visits, chunk_of(reader), itertools.repeat(25))))
    assert list(itertools.chain.from_iterable(blocks)) == records
    assert all(len(block) <= 25 and sum(map(len, block[:-1])) < BLOCK_BYTES for block in blocks)


def test_no_record_comes_twice_where_something_else_fails(tmp_path: Any) -> None:
    """As a signal's handler may, at any place."""
    records = [bytes([i]) * 10 for i in range(20)]
    path = tmp_path / "shard"
    path.write_bytes(b"".join(tfrecord.frame_all(records)))
    reader = RunReader(Shard(str(path), 20), 20)

    def sizes() -> Any:
        yield 5
        raise OSError("stopped")

    found: list[bytes] = []
    visits = [tuple(np.array([[0], [0], [20]], np.int64))]
    blocks = read_visits(visits, chunk_of(reader), sizes())
    with pytest.raises(OSError, match="stopped"):
        found.extend(itertools.chain.from_iterable(blocks))
    assert found == records[:5]


# ------------------------------------------------- runs that the native module reads, against those that Python reads

set_threads = getattr(core, "set_threads", int)


def outcomes(directory: Path, split: str = "train", config: bd.ReadConfig | None = None) -> list[tuple[list[Any], str]]:
    """Returns the records and the error of reading a dataset with `core.run`, which reads ahead or not, and without."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_allow_reading_ahead", lambda: None)
        for threads, chunk_bytes in ((1, 100), (0, 20_000), (0, 20_000)):
            set_threads(threads)
            records: list[Any] = []
            try:
                dataset = bd.builder_from_directory(directory).as_dataset(split, read_config=config)
                dataset._source._chunk_bytes = chunk_bytes
                records.extend(dataset if config and config.add_tfds_id else dataset.raw())
                found.append((records, ""))
            except BeamDatasetsError as error:
                found.append((records, f"{type(error).__name__}: {error}"))
            if len(found) == 2:
                patch.setattr(shards, "_run", None)
    return found


@given(
    split=st.sampled_from(["train", "train[5:-3]", "train[:20%]+train[60%:]", "train[1shard:]"]),
    cycle=st.sampled_from([1, 2, 16, 300]),
    block=st.sampled_from([1, 3, 16, 1000]),
    ids=st.booleans(),
)
@settings(deadline=None)
def test_the_order_is_the_same(write: Any, split: str, cycle: int, block: int, ids: bool) -> None:
    """Also of runs of several chunks."""
    directory = write({"train": [3, 0, 60, 100, 7, 45, 1]}, size=5000, manifest=True)
    config = bd.ReadConfig(interleave_cycle_length=cycle, interleave_block_length=block, add_tfds_id=ids)
    ahead, found, expected = outcomes(directory, split, config)
    assert found[0]
    assert repr(ahead) == repr(found) == repr(expected)


@pytest.fixture
def damaged(write: Any, tmp_path: Path) -> Path:
    """A dataset to damage."""
    return Path(shutil.copytree(write({"train": [3, 2, 4]}, manifest=True), tmp_path / "d" / "1.0.0"))


@pytest.mark.parametrize("suffix", ["", ".index"])
def test_any_damaged_byte_is_the_same_error(damaged: Path, suffix: str) -> None:
    path = next(damaged.glob(f"*00001-of-00003{suffix}"))
    good = path.read_bytes()
    errors = 0
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        ahead, found, expected = outcomes(damaged)
        assert ahead == found == expected
        errors += bool(found[1])
    keys = 16 * 2 + 4 if suffix else 0  # are read at their first use
    assert errors >= len(good) - keys


@pytest.mark.parametrize("suffix", ["", ".index"])
@pytest.mark.parametrize("change", ["gone", "empty", "short", "long", "another", "directory", "link"])
def test_a_wrong_file_is_the_same_error(damaged: Path, suffix: str, change: str) -> None:
    path, other = (next(damaged.glob(f"*0000{number}-of-00003{suffix}")) for number in (1, 2))
    content = path.read_bytes()
    path.unlink()
    if change == "directory":
        path.mkdir()
    elif change == "link":
        path.with_name("elsewhere").write_bytes(content)
        path.symlink_to("elsewhere")
    elif change != "gone":
        changed = {"empty": b"", "short": content[:-1], "long": content + b"\0", "another": other.read_bytes()}
        path.write_bytes(changed[change])
    ahead, found, expected = outcomes(damaged)
    assert ahead == found == expected
    assert (found[1] == "") == (change == "link" or (change, suffix) == ("gone", ".index"))


# Open shards among threads and processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("indexed", [True, False])
def test_a_fork_goes_on_reading(write: Any, indexed: bool) -> None:
    dataset = bd.builder_from_directory(write({"train": [50] * 6}, indexed=indexed)).as_dataset("train")
    wanted = [3, 70, 299]
    assert [int(dataset[i]["id"]) for i in wanted] == wanted
    pool = dataset._source.pool
    with pool._lock:  # a thread that has it is not there in the other process
        child = os.fork()
        if child == 0:
            good = [int(dataset[i]["id"]) for i in (*wanted, 120)] == [*wanted, 120]
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [int(dataset[i]["id"]) for i in wanted] == wanted


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("indexed", [True, False])
def test_as_many_files_are_open_as_may_be(write: Any, monkeypatch: pytest.MonkeyPatch, indexed: bool) -> None:
    monkeypatch.setattr(shards, "_MAX_OPEN", 3)
    dataset = bd.builder_from_directory(write({"train": [50] * 6}, indexed=indexed)).as_dataset("train")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    wanted = np.random.default_rng(0).integers(0, 300, 2000).tolist()
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda some: [int(example["id"]) for example in dataset[some]], [wanted] * 8)
        assert list(found) == [wanted] * 8
    assert sorted(map(int, (example["id"] for example in dataset))) == list(range(300))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_a_shard_that_cannot_be_opened_leaves_nothing_open(write: Any, tmp_path: Path) -> None:
    source = next(write({"train": [50] * 6}).glob("*-00000-of-00006"))
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes() + b"1")
    Path(f"{path}.index").write_bytes(Path(f"{source}.index").read_bytes())
    for _ in range(3):
        with raises_with(MetadataError, path=str(path), got=f"{path.stat().st_size} bytes"):
            shards.Shard(str(path), 50)
    with pytest.raises(FileNotFoundError):
        shards.Shard(str(tmp_path / "missing"), 50)


# Ranges of records: they make up their runs, have about the bytes that were asked for, and read nothing else


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
        parts = ranges.divide_run(run, builder.pool, range_bytes)
        assert list(itertools.chain.from_iterable(map(numbers, parts))) == list(numbers(run))
        assert {(part.filename, part.examples_in_shard) for part in parts} == {(run.filename, run.examples_in_shard)}
        sizes = [ranges.size_of(part, builder.pool) for part in parts]
        assert sum(sizes) == ranges.size_of(run, builder.pool)
        largest = max(ranges.size_of(FileInstruction(run.filename, n, 1, run.examples_in_shard), builder.pool)
                      for n in numbers(run))  # fmt: skip
        assert max(sizes) <= range_bytes + largest
        assert min(part.take for part in parts) > 0


def test_a_shard_without_index_stays_whole(write: Any) -> None:
    builder = published(write, 50, 50, indexed=False)
    runs = builder.info.splits["train[10:70]"].file_instructions
    assert [ranges.divide_run(run, builder.pool, 1) for run in runs] == [[run] for run in runs]
    size = Path(builder.dataset_dir, runs[0].filename).stat().st_size
    assert ranges.size_of(runs[0], builder.pool) == size * 40 // 50


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("where", ["disk", "store"])
def test_reads_what_a_dataset_reads(write: Any, indexed: bool, where: str) -> None:
    builder = published(write, 90, 0, 700, 11, indexed=indexed, size=3000)
    expected = builder.as_dataset("train[5%:]")[:]
    if where == "store":
        builder = bd.builder_from_directory(upload(builder.dataset_dir, f"memory://ranges-{indexed}/d/1.0.0"))
    steps = (Decode(builder.info.features), Map(lambda example: int(example["id"])))
    runs = builder.info.splits["train[5%:]"].file_instructions
    parts = [part for run in runs for part in ranges.divide_run(run, builder.pool, 400_000)]
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
        for part in ranges.divide_run(run, builder.pool, 300_000)
    ]
    assert len(parts) == 4
    for part in parts:
        builder = bd.builder_from_directory(builder.dataset_dir)
        calls = Storage(monkeypatch)
        assert len(list(ranges.read_range(part, builder.pool, (Raw(),)))) == part.take
        assert sum(stop - start for _, start, stop in calls.reads) == ranges.size_of(part, builder.pool)
        assert calls.opened() == [part.filename]


def test_a_record_that_does_not_fit_is_named(write: Any) -> None:
    builder = published(write, 50)
    [run] = builder.info.splits["train"].file_instructions
    other = bd.features.FeaturesDict({"text": bd.features.Scalar("int64")})
    offset = sum(len(record) + 16 for record in builder.as_dataset("train").raw()[:7])
    with raises_with(errors.FeatureError, offset=offset, record=7, feature="text"):
        list(ranges.read_range(FileInstruction(run.filename, 7, 9, 50), builder.pool, (Decode(other),)))
