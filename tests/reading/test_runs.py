"""Runs of a shard, read a piece at a time."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import BeamDatasetsError, CorruptRecordError
from beam_datasets.formats import record_block, tfrecord
from beam_datasets.formats.record_block import PlainChunk, PlainRecordBlock
from beam_datasets.native import core
from beam_datasets.reading import runs, shards, source
from beam_datasets.reading.blocks import BLOCK_BYTES, intact
from beam_datasets.reading.runs import RunReader, ranges_of, read_visits
from beam_datasets.reading.shards import Shard
from beam_datasets.reading.source import Source


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


@pytest.mark.parametrize("native", [True, False])
def test_a_damaged_record_is_an_error_behind_those_before_it(tmp_path: Any, native: bool) -> None:
    records = [bytes([i]) * 1000 for i in range(60)]
    data = bytearray(b"".join(tfrecord.frame_all(records)))
    data[41 * 1016 + 500] ^= 1
    path = tmp_path / "shard"
    path.write_bytes(data)
    reader = RunReader(Shard(str(path), 60), 60, chunk_bytes=10_000)

    found: list[bytes] = []
    visits = [tuple(np.array([[0], [0], [60]], np.int64))]
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(runs, "RecordBlock", PlainRecordBlock)
            patch.setattr(record_block, "chunk", PlainChunk)
        with pytest.raises(CorruptRecordError, match=rf"{path}.*byte {41 * 1016}.*record 41"):
            found.extend(
                itertools.chain.from_iterable(intact(read_visits(visits, chunk_of(reader), itertools.repeat(25))))
            )
    assert found == records[:41]
    path.write_bytes(b"".join(tfrecord.frame_all(records)))
    with pytest.raises(CorruptRecordError, match="data CRC|was changed while it was read"):
        reader.raise_damaged(41)  # whether the chunk in memory is damaged or the file was mended meanwhile


@pytest.mark.parametrize("first", [0, 90, 250])
def test_a_run_without_index_is_read_again_from_before(tmp_path: Any, first: int) -> None:
    records = [bytes([i % 250]) * 10_000 for i in range(300)]
    path = tmp_path / "shard"
    path.write_bytes(b"".join(tfrecord.frame_all(records)))
    reader = RunReader(Shard(str(path), 300, indexed=False), 300)
    for begin in (0, 280, first):
        visits = [tuple(np.array([[0], [begin], [10]], np.int64))]
        found = read_visits(visits, chunk_of(reader), itertools.repeat(25))
        assert list(itertools.chain.from_iterable(found)) == records[begin : begin + 10]


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
            patch.setattr(Source, "_chunk_bytes", chunk_bytes)
            set_threads(threads)
            records: list[Any] = []
            try:
                dataset = bd.builder_from_directory(directory).as_dataset(split, read_config=config)
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
