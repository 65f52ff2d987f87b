"""block.c: runs of a file that a block reads by itself, against all their records in one chunk."""

import gc
import itertools
import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.native import core
from beam_datasets.storage import caching
from tests.native.gil import when_it_is_free
from tests.native.records import framed, take

if core is None or not hasattr(core, "run"):
    pytest.skip("the native module was not built, or reads no files here", allow_module_level=True)

RECORDS = st.lists(st.binary(max_size=300), min_size=1, max_size=40)


@pytest.fixture(autouse=True, scope="module", params=[0, 1], ids=["alone", "ahead"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many threads read ahead."""
    before = core.set_threads(request.param)
    yield request.param
    core.set_threads(before)


@pytest.fixture
def alone(threads: int) -> None:
    """For what is counted, and depends on who reads."""
    if threads:
        pytest.skip("tests/native/test_ahead.py")


class Owner:
    """Keeps a file open."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.descriptor)


def run_of(path: Path, places: Any, first: int, stop: int, chunk_bytes: int) -> Any:
    owner = Owner(path)
    return core.run(owner, owner.descriptor, np.asarray(places).astype("<u8"), first, stop, chunk_bytes)


def cut(path: Path, piece_bytes: int) -> Path:
    """Puts the bytes of a file into a cache in pieces of so many bytes; returns the folder of the pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caching, "PIECE_BYTES", piece_bytes)
        caching.PieceCache(str(path.parent), 1 << 30).put("key", 0, path.read_bytes())
    return path.parent / "ke"


def run_of_pieces(path: Path, places: Any, first: int, stop: int, chunk_bytes: int, piece_bytes: int) -> Any:
    place = os.fsencode(cut(path, piece_bytes) / "key"), piece_bytes
    return core.run(None, -1, np.asarray(places).astype("<u8"), first, stop, chunk_bytes, *place)


def counted(directory: str, records: list[bytes]) -> tuple[Path, Any]:
    data, places = framed(records)
    path = Path(directory, "shard")
    path.write_bytes(data)
    return path, places


@given(RECORDS, st.data())
def test_takes_what_the_whole_would_give(records: list[bytes], data: Any) -> None:
    first = data.draw(st.integers(0, len(records) - 1))
    stop = data.draw(st.integers(first + 1, len(records)))
    chunk_bytes, most = data.draw(st.integers(1, 5000)), data.draw(st.integers(1, 12))
    with tempfile.TemporaryDirectory() as directory:
        path, places = counted(directory, records)
        piece_bytes = data.draw(st.integers(50, 5000) | st.none())
        if piece_bytes is None:
            chunks = {7: run_of(path, places, first, stop, chunk_bytes)}
        else:
            chunks = {7: run_of_pieces(path, places, first, stop, chunk_bytes, piece_bytes)}
        visits, wanted, at = [], [], first
        while at < stop:
            count = data.draw(st.integers(1, stop - at))
            visits.append([7, at, count])
            wanted += records[at : at + count]
            at += count + data.draw(st.integers(0, 9))
        runs, firsts, counts = np.array(visits, np.int64).T.copy()
        found: list[bytes] = []
        ended = 0
        while ended < len(visits):
            block = core.RecordBlock()
            ended = block.take(chunks, runs, firsts, counts, ended, len(visits), most, 1 << 40)
            assert len(block) == min(most, len(wanted) - len(found))
            found += list(block)
        assert found == wanted
        assert not chunks  # behind the last record that is wanted nothing is held


@pytest.mark.parametrize("damage", ["gone", "cut", "longer", "swap"])
def test_a_piece_that_is_not_the_one_that_was_written_is_not_read(tmp_path: Path, damage: str) -> None:
    """Also where the records in it are good, and stand at the same places: one exchanged for another piece."""
    path, places = counted(str(tmp_path), [bytes([i]) * 84 for i in range(100)])  # of 100 bytes, framed
    chunks, block = {0: run_of_pieces(path, places, 0, 100, 200, 1000)}, core.RecordBlock()
    pieces = [tmp_path / "ke" / f"key-{number}" for number in range(10)]
    content = pieces[4].read_bytes()
    if damage == "gone":
        pieces[4].unlink()
    else:
        changed = {"cut": content[:-1], "longer": b"1" + content, "swap": pieces[5].read_bytes()}
        pieces[4].write_bytes(changed[damage])
    assert take(block, chunks, [(0, 0, 100)]) == (0, [0, 40, 60])
    assert list(block) == [bytes([i]) * 84 for i in range(40)]
    assert not chunks


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("chunk_bytes", [1, 900, 10**9])
def test_reads_the_bytes_of_its_visits_alone(tmp_path: Path, chunk_bytes: int) -> None:
    """By what the system counts, whatever the size of a chunk."""
    counters = Path("/proc/thread-self/io")
    if not counters.exists():
        pytest.skip("needs /proc")
    records = [bytes([i % 250]) * 84 for i in range(1000)]  # of 100 bytes, framed
    path, places = counted(str(tmp_path), records)
    chunks, block = {0: run_of(path, places, 0, 1000, chunk_bytes)}, core.RecordBlock()
    visits = [(0, first, 3) for first in range(5, 990, 16)]
    before = _num_read(counters)
    assert take(block, chunks, visits) == (len(visits), None)
    read = _num_read(counters) - before
    assert list(block) == [records[first + i] for _, first, _ in visits for i in range(3)]
    assert 300 * len(visits) <= read <= 300 * len(visits) + 1000  # the counters are read too
    assert not chunks


def _num_read(counters: Path) -> int:
    return int(counters.read_text().split("rchar: ")[1].split()[0])


@pytest.mark.usefixtures("alone")
def test_reads_about_a_chunk_when_it_gets_there(tmp_path: Path) -> None:
    records = [bytes([i]) * 84 for i in range(100)]  # of 100 bytes, framed
    path, places = counted(str(tmp_path), records)
    for chunk_bytes, in_memory in ((1, 1), (199, 1), (200, 2), (5000, 50), (8000, 100), (7999, 79), (10**9, 100)):
        chunks, block = {0: run_of(path, places, 0, 100, chunk_bytes)}, core.RecordBlock()
        path.write_bytes(framed(records)[0])
        runs, firsts, counts = np.array([[0], [0], [100]], np.int64)
        assert block.take(chunks, runs, firsts, counts, 0, 1, 1, 1 << 40) == 0
        path.write_bytes(b"")
        assert block.take(chunks, runs, firsts, counts, 0, 1, 1000, 1 << 40) == (in_memory == 100)
        assert list(block) == records[:in_memory]
        assert not chunks  # it cannot be read, and what says so begins anew


def test_a_damaged_record_ends_it_with_its_chunk_there(tmp_path: Path) -> None:
    records = [b"abc", b"defg", b"", b"hi"]
    data, places = framed(records)
    path = tmp_path / "shard"
    for bad in range(len(records)):
        damaged = bytearray(data)
        damaged[places[bad + 1] - 1] ^= 1
        path.write_bytes(damaged)
        for chunk_bytes in (1, 40, 1000):
            chunks, block = {3: run_of(path, places, 0, 4, chunk_bytes)}, core.RecordBlock()
            assert take(block, chunks, [(3, 0, 4)]) == (0, [3, bad, 4 - bad])
            assert list(block) == records[:bad]
            assert list(chunks) == [3]


@given(RECORDS, st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 400), min_size=2, max_size=9), st.data())
def test_offsets_that_are_nonsense_give_nothing_else(records: list[bytes], offsets: list[int], data: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path, places = counted(directory, records)
        chunk_bytes = data.draw(st.integers(1, 2**63 - 1) | st.integers(1, 400))
        owner, n = Owner(path), len(offsets) - 1
        chunks = {0: core.run(owner, owner.descriptor, np.array(offsets, "<u8"), 0, n, chunk_bytes)}
        block = core.RecordBlock()
        take(block, chunks, [(0, 0, n)])
        framed_ones = set(zip(places.tolist(), places[1:].tolist()))
        ends = list(itertools.pairwise(offsets))
        assert set(ends[: len(block)]) <= framed_ones
        wanted = [records[places.tolist().index(stop) - 1] for _, stop in ends[: len(block)]]
        assert list(block) == wanted


@pytest.mark.usefixtures("alone")
def test_records_are_taken_in_any_order(tmp_path: Path) -> None:
    records = [bytes([i]) * 10 for i in range(20)]
    path, places = counted(str(tmp_path), records)
    chunks, block = {0: run_of(path, places, 2, 18, 60)}, core.RecordBlock()
    assert take(block, chunks, [(0, 2, 1), (0, 9, 2), (0, 4, 1), (0, 17, 1)]) == (4, None)
    assert list(block) == [records[i] for i in (2, 9, 10, 4, 17)]
    chunks[0] = run_of(path, places, 2, 18, 60)
    assert take(block, chunks, [(0, 18, 1)]) == (0, [0, 18, 1])


@pytest.mark.usefixtures("alone")
def test_the_owner_lives_as_long_as_something_is_wanted(tmp_path: Path) -> None:
    path, places = counted(str(tmp_path), [b"one", b"two", b"three"])
    owner = Owner(path)
    alive = weakref.ref(owner)
    chunks = {0: core.run(owner, owner.descriptor, places.astype("<u8"), 0, 3, 1)}
    del owner
    block = core.RecordBlock()
    runs, firsts, counts = np.array([[0], [0], [3]], np.int64)
    assert block.take(chunks, runs, firsts, counts, 0, 1, 2, 1 << 40) == 0
    gc.collect()
    assert alive() is not None
    assert block.take(chunks, runs, firsts, counts, 0, 1, 3, 1 << 40) == 1
    assert alive() is None
    assert list(block) == [b"one", b"two", b"three"]


@pytest.mark.usefixtures("alone")
def test_others_run_while_it_reads(tmp_path: Path) -> None:
    count = 200_000  # it may take a while until the other thread gets a core
    path, places = counted(str(tmp_path), [b"abc"] * count)
    chunks, ran = {0: run_of(path, places, 0, count, 1)}, []
    runs, firsts, counts = np.array([[0], [0], [count]], np.int64)
    with when_it_is_free(lambda: ran.append(1)):
        for _ in range(count):
            core.RecordBlock().take(chunks, runs, firsts, counts, 0, 1, 1, 1 << 40)
            if ran:
                break
        assert ran
