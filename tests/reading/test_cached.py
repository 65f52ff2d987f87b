"""Reading from an object store with a local cache: the same examples, whatever is in the cache."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError
from beam_datasets.native import core
from beam_datasets.reading.records import run_reader as runs
from beam_datasets.reading.records.run_reader import RunReader
from beam_datasets.reading.records.shards import ShardPool
from beam_datasets.storage import caching
from tests.facts import raises_with
from tests.published import flip, upload

pytest.importorskip("obstore")
LENGTHS = [30, 2, 17]
PIECE_BYTES = 700


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache of small pieces; `memory://` has one too."""
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(caching, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(caching, "scheme", lambda path: "s3")
    return tmp_path / "cache"


@pytest.fixture
def local(write: Any) -> Path:
    return Path(write({"train": LENGTHS}, size=90, manifest=True))


def copied(directory: Path, tmp_path: Path) -> str:
    """Returns a copy of a dataset in an object store."""
    return upload(directory, f"memory://{tmp_path.name}/{directory.parent.name}/1.0.0")


def records(directory: Any, **config: Any) -> list[bytes]:
    dataset = bd.builder_from_directory(directory).as_dataset("train", read_config=bd.ReadConfig(**config))
    return list(dataset.raw())


def pieces(cache: Path) -> list[Path]:
    return sorted(path for path in cache.glob("*/*") if not storage.is_temporary(path.name))


@pytest.fixture
def requests() -> Callable[[], int]:
    """Returns what gives the reads of bytes of the store since its last call."""

    def taken() -> int:
        return storage.take_requests().bytes_read

    taken()
    return taken


@pytest.mark.parametrize("cycle", [1, 2, 16])
def test_reads_the_same_without_and_with_pieces(local: Path, cache: Path, tmp_path: Path, cycle: int) -> None:
    remote, expected = copied(local, tmp_path), records(local, interleave_cycle_length=cycle)
    for step in (0, 1, 3, 2, 1):  # a cache that is empty, filled, or lacks some pieces
        for path in pieces(cache)[:: step or 1] if step != 1 else ():
            path.unlink()
        assert records(remote, interleave_cycle_length=cycle) == expected


def test_pieces_are_not_asked_for_again(
    local: Path, cache: Path, tmp_path: Path, requests: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, expected = copied(local, tmp_path), records(local)
    metadata = sum((local / name).stat().st_size for name in ("dataset_info.json", "features.json", "manifest.json"))
    requests()
    read = cache_reads(monkeypatch)
    assert records(remote) == expected
    assert requests() == sum(path.stat().st_size for path in local.glob("*.tfrecord-*")) + metadata
    indexes = sum(-(-path.stat().st_size // PIECE_BYTES) for path in local.glob("*.index"))
    assert core is None or len(read) == indexes  # blocks read the pieces of shards by themselves
    assert records(remote) == expected
    assert requests() <= metadata
    assert core is None or len(read) == 2 * indexes


def cache_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns the list of the numbers of pieces that are read and checked from now on."""
    read: list[int] = []
    get = caching.PieceCache.get

    def counted(self: caching.PieceCache, key: str, number: int, num_bytes: int) -> memoryview | None:
        read.append(number)
        return get(self, key, number, num_bytes)

    monkeypatch.setattr(caching.PieceCache, "get", counted)
    return read


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap", "gone"])
def test_a_damaged_piece_is_read_anew(local: Path, cache: Path, tmp_path: Path, damage: str) -> None:
    remote, expected = copied(local, tmp_path), records(local)
    assert records(remote) == expected
    whole = {path: path.read_bytes() for path in pieces(cache)}
    assert len(whole) > 10
    for number, path in enumerate(whole):
        content = whole[path]
        if damage == "gone":
            path.unlink()
        else:
            place = 37 * number % (len(content) - 8)
            other = next(data for name, data in whole.items() if name != path)
            flipped = content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :]
            path.write_bytes({"flip": flipped, "cut": content[:-9], "empty": b"", "swap": other}[damage])
        assert records(remote) == expected
        assert path.read_bytes() == content


def test_a_damaged_piece_that_cannot_be_replaced_costs_speed(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, expected = copied(local, tmp_path), records(local)
    assert records(remote) == expected
    for path in pieces(cache):
        path.write_bytes(bytes(range(200)) + path.read_bytes()[200:])

    def refuse(path: str) -> None:
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(caching.os, "unlink", refuse)
    monkeypatch.setattr(caching.PieceCache, "put", lambda *_: None)
    with pytest.warns(caching.CacheWarning, match="Read-only"):
        assert records(remote) == expected


def test_a_cache_that_keeps_nothing_costs_a_piece_of_each_shard(
    local: Path, cache: Path, tmp_path: Path, requests: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, expected = copied(local, tmp_path), records(local)
    size = sum(path.stat().st_size for path in local.iterdir())
    monkeypatch.setattr(caching.PieceCache, "put", lambda *_: False)
    requests()
    assert records(remote) == expected
    assert requests() <= size + len(LENGTHS) * PIECE_BYTES


@pytest.mark.skipif(core is None, reason="without the native module nothing is fetched ahead")
@pytest.mark.parametrize(("cycle", "num_pieces"), [(1, 12), (2, 24), (16, 36), (16, 100)])
def test_a_small_cache_keeps_what_is_fetched_ahead(
    write: Any,
    cache: Path,
    tmp_path: Path,
    requests: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    cycle: int,
    num_pieces: int,
) -> None:
    """A file has about 90 pieces, and a fetch without a limit 64. Only the first piece of a file may be fetched twice,
    if the file is opened long before it is read.
    """
    monkeypatch.setattr(caching, "PIECE_BYTES", 4000)
    monkeypatch.setattr(runs, "FETCH_BYTES", 64 * 4000)
    monkeypatch.setenv("BEAM_DATASETS_CACHE_BYTES", str(num_pieces * 4008))
    local = Path(write({"train": [400] * 3}, size=800, manifest=True))
    remote, expected = copied(local, tmp_path), records(local, interleave_cycle_length=cycle)
    requests()
    assert records(remote, interleave_cycle_length=cycle) == expected
    assert len(pieces(cache)) <= num_pieces
    assert requests() <= sum(path.stat().st_size for path in local.iterdir()) + max(0, 3 - cycle) * 4000


@pytest.mark.skipif(core is None, reason="without the native module nothing is fetched ahead")
def test_few_examples_of_many_files_fetch_few_pieces(
    write: Any, cache: Path, tmp_path: Path, requests: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three pieces of each file, of which one is read and two are fetched meanwhile; a fetch may have all of them."""
    monkeypatch.setattr(caching, "PIECE_BYTES", 4000)
    local = Path(write({"train": [400] * 4}, size=90, manifest=True))
    dataset = bd.builder_from_directory(copied(local, tmp_path)).as_dataset("train")
    requests()
    examples = iter(dataset.raw())
    for _ in range(4 * 16):  # of each file 16, which are in its first piece
        next(examples)
    assert requests() <= 4 * 3 * 4000 + sum(path.stat().st_size for path in local.glob("*.index"))


@pytest.mark.parametrize("fetch_bytes", [1, 1500, 1 << 20])
def test_reads_the_same_by_fetches_of_any_size(
    local: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetch_bytes: int
) -> None:
    """Also with records that begin in one fetch and end in the next, and with fetches that are not read."""
    remote = copied(local, tmp_path)
    monkeypatch.setattr(runs, "FETCH_BYTES", fetch_bytes)
    for split, cycle, worker in (("train", 1, 0), ("train", 16, 1), ("train[20%:70%]", 1, 1)):
        config, found = bd.ReadConfig(interleave_cycle_length=cycle), []
        for directory in (local, remote):
            dataset = bd.builder_from_directory(directory).as_dataset(split, read_config=config)
            found.append(list(dataset.shard(worker, 2).raw()))
        assert found[0] == found[1]
        shutil.rmtree(cache)


def test_a_record_that_is_damaged_in_the_store_is_an_error(local: Path, cache: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(local, tmp_path / "d" / "1.0.0"))
    shard = next(damaged.glob("*00002-of-00003"))
    flip(shard, shard.stat().st_size // 2)
    with pytest.raises(CorruptRecordError) as expected:
        records(damaged)
    remote = copied(damaged, tmp_path)
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as found:
            records(remote)
        assert str(found.value).replace(remote, str(damaged)) == str(expected.value)
    assert not [path for path in pieces(cache) if os.stat(path).st_size == 0]


@pytest.mark.filterwarnings("ignore::beam_datasets.storage.caching.CacheWarning")
def test_a_removed_cache_costs_speed(local: Path, cache: Path, tmp_path: Path) -> None:
    """Also while a dataset is read."""
    remote, expected = copied(local, tmp_path), records(local)
    assert records(remote) == expected
    found = []
    for record in bd.builder_from_directory(remote).as_dataset("train").raw():
        found.append(record)
        shutil.rmtree(cache, ignore_errors=True)
    assert found == expected


@pytest.mark.skipif(core is None, reason="without the native module each record is unframed where it is read")
def test_a_record_is_replaced_in_the_cache_a_few_times(local: Path, cache: Path, tmp_path: Path) -> None:
    """A block that refuses a record again, which is good when read alone, ends reading instead of repeating it."""
    remote = copied(local, tmp_path)
    name = next(path.name for path in local.glob("*00000-of-00003"))
    reader = RunReader(ShardPool(remote).open(name, LENGTHS[0]), LENGTHS[0])
    reader.raise_damaged(3)
    for _ in range(runs._MAX_ATTEMPTS):
        reader.raise_damaged(4)
    with raises_with(CorruptRecordError, record=4, mentions=["changed"]):
        reader.raise_damaged(4)
