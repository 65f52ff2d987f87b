"""runs.c on good, damaged and hostile input, against slices of what was written."""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.native import core

if TYPE_CHECKING:
    from pathlib import Path

if not hasattr(core, "runs"):
    pytest.skip("the native module was not built, or cannot do it here", allow_module_level=True)

RECORDS = [b"", b"a", bytes(200), b"x" * 9000, b"hello", bytes(70_000), b"end"]
DATA = b"".join(map(tfrecord.frame, RECORDS))
OFFSETS = np.cumsum([0, *(len(record) + 16 for record in RECORDS)])
N = len(RECORDS)
NUMBERS = st.integers(-2, N + 2) | st.sampled_from([2**31, 2**60, 2**63 - 1, -(2**63)])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    put(path, "good", Index(OFFSETS).to_bytes())
    return path


def put(directory: Path, name: str, index: bytes, data: bytes = DATA) -> None:
    (directory / name).write_bytes(data)
    (directory / f"{name}.index").write_bytes(index)


def read(
    directory: Path, name: str, n: int, first: int, stop: int, start: int | None = None, chunk_bytes: int = 1 << 20
) -> list[bytes] | None:
    """Returns what a block takes of a run, from `first` or `start` on; None where that is nothing."""
    (chunk,) = core.runs(core.directory(str(directory)), [name], [n, first, stop], chunk_bytes)
    first = first if start is None else start
    block, chunks = core.RecordBlock(), {0: chunk}
    block.take(chunks, *(np.array([number]) for number in (0, first, stop - first)), 0, 1, 100, 1 << 30)
    assert not (chunks and len(block) == stop - first)
    return list(block) or None


@given(n=NUMBERS, first=NUMBERS, stop=NUMBERS)
def test_a_run_is_a_slice_or_nothing(directory: Path, n: int, first: int, stop: int) -> None:
    if 0 <= first < stop <= n:
        assert read(directory, "good", n, first, stop) == (RECORDS[first:stop] if n == N else None)
    else:
        with pytest.raises(ValueError, match="records in chunks of"):
            read(directory, "good", n, first, stop)


@given(st.data())
def test_it_is_read_from_any_record_in_chunks_of_any_size(directory: Path, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, N - 1))
    stop = data.draw(st.integers(first + 1, N))
    start, chunk_bytes = data.draw(st.integers(first, stop - 1)), data.draw(st.integers(1, 100_000))
    assert read(directory, "good", N, first, stop, start, chunk_bytes) == RECORDS[start:stop]


def test_many_runs_stand_in_their_order(directory: Path) -> None:
    spans = 2 * [(first, stop) for first in range(N) for stop in range(first + 1, N + 1)]
    wanted = [N] * len(spans) + [first for first, _ in spans] + [stop for _, stop in spans]
    chunks = dict(enumerate(core.runs(core.directory(str(directory)), ["good"] * len(spans), wanted, 1 << 10)))
    columns = np.array([(first, stop - first) for first, stop in spans]).T.copy()
    block = core.RecordBlock()
    assert block.take(chunks, np.arange(len(spans)), *columns, 0, len(spans), 10_000, 1 << 40) == len(spans)
    assert list(block) == [record for first, stop in spans for record in RECORDS[first:stop]]
    assert not chunks


@example(offsets=[0, 16, 32, 48, 64, 80, 100, len(DATA)])
@given(offsets=st.lists(st.integers(0, len(DATA) + 40) | st.integers(2**62, 2**64 - 1), min_size=N + 1, max_size=N + 1))
def test_an_index_that_lies_is_believed_nowhere(tmp_path_factory: pytest.TempPathFactory, offsets: list[int]) -> None:
    """Its checksums are right, its numbers are not."""
    directory = tmp_path_factory.mktemp("lies")
    places = np.array(offsets, "<u8").tobytes()
    header = b"BDINDEX\1" + struct.pack("<QQIII", N, len(DATA), 0, crc32c(places), 0)
    put(directory, "lie", header + struct.pack("<I", crc32c(header)) + places)
    fits = offsets[0] == 0 and offsets[-1] == len(DATA) and all(b - a >= 16 for a, b in pairwise(offsets))
    found = read(directory, "lie", N, 0, N)
    assert (found is not None) == fits
    for record, expected in zip(found or [], RECORDS):  # a block takes the good ones, before the first bad one
        assert record == expected


def test_a_bad_record_is_taken_nowhere(directory: Path) -> None:
    for place in (3, 30, 100, 240, 300, len(DATA) - 1):
        data = DATA[:place] + bytes([DATA[place] ^ 4]) + DATA[place + 1 :]
        put(directory, "bad", Index(OFFSETS).to_bytes(), data)
        before = int(np.searchsorted(OFFSETS, place, "right")) - 1
        assert read(directory, "bad", N, 0, N) == (RECORDS[:before] or None)


def test_an_index_larger_than_a_chunk_is_left(directory: Path) -> None:
    for n, found in ((12_494, [b""] * 3), (12_495, None)):  # 100,000 bytes are between
        put(directory, "many", Index(16 * np.arange(n + 1)).to_bytes(), tfrecord.frame(b"") * n)
        assert read(directory, "many", n, n - 3, n, chunk_bytes=100_000) == found
        assert read(directory, "many", n, n - 3, n) == [b""] * 3


def test_names_that_are_none_are_left(directory: Path) -> None:
    for name in ("", "none", "x" * 300, "x" * 5000, "/", "..", "good/good", "\udcff"):
        assert read(directory, name, N, 0, N) is None
    assert read(directory, str(directory / "good"), N, 0, N) == RECORDS
    assert read(directory, f"../{directory.name}/good", N, 0, N) == RECORDS


def test_arguments_that_do_not_fit_are_errors(directory: Path) -> None:
    for names, numbers in ((["good"], [N, 0]), (["good"], []), ([], [1]), (["good"] * 2, [N] * 5)):
        with pytest.raises(ValueError, match="not 3 for each"):
            core.runs(core.directory(str(directory)), names, numbers, 1)
    for names in (("good",), [7]):
        with pytest.raises(TypeError):
            core.runs(core.directory(str(directory)), names, [N, 0, 1], 1)
    with pytest.raises(ValueError, match="PyCapsule"):
        core.runs(str(directory), ["good"], [N, 0, 1], 1)
    with pytest.raises(ValueError, match="null"):
        core.runs(core.directory(str(directory)), ["a\0b"], [N, 0, 1], 1)
    for chunk_bytes in (0, -1):
        with pytest.raises(ValueError, match="chunks of"):
            core.runs(core.directory(str(directory)), ["good"], [N, 0, 1], chunk_bytes)
    assert core.runs(core.directory(str(directory)), [], [], 1) == []


def test_a_directory_that_is_none(directory: Path) -> None:
    for path in ("none", "good", "", "x" * 300, "\udcff"):
        assert core.directory(str(directory / path) if path else "") is None
    with pytest.raises(ValueError, match="null"):
        core.directory("a\0b")
    with pytest.raises(TypeError):
        core.directory(3)


def opened() -> int:
    return len(os.listdir("/dev/fd"))


def test_no_file_is_open_between_chunks(directory: Path) -> None:
    before = opened()
    chunks = dict(
        enumerate(core.runs(core.directory(str(directory)), ["good"] * 20, [N] * 20 + [0] * 20 + [N] * 20, 1))
    )
    runs, firsts, counts = np.tile(np.arange(20), N), np.repeat(np.arange(N), 20), np.ones(20 * N, int)
    for record in range(N):
        assert opened() == before + 1  # the directory
        block = core.RecordBlock()
        assert block.take(chunks, runs, firsts, counts, 20 * record, 20 * record + 20, 20, 1 << 40) == 20 * record + 20
        assert list(block) == [RECORDS[record]] * 20
    assert opened() == before


@pytest.mark.parametrize("change", ["another", "gone", "cut"])
def test_a_file_that_changes_between_chunks_is_left(directory: Path, change: str) -> None:
    put(directory, "changing", Index(OFFSETS).to_bytes())
    chunks = dict(enumerate(core.runs(core.directory(str(directory)), ["changing"], [N, 0, N], 1)))
    path, block, run = directory / "changing", core.RecordBlock(), np.array([0])
    block.take(chunks, run, run.copy(), np.array([2]), 0, 1, 100, 1 << 30)
    if change == "cut":
        path.write_bytes(DATA[:100])
    else:
        path.rename(directory / "old")
        if change == "another":
            path.write_bytes(DATA)
    assert block.take(chunks, run, np.array([2]), np.array([2]), 0, 1, 100, 1 << 30) == 0
    assert list(block) == RECORDS[:2]
    assert not chunks


def test_names_that_change_meanwhile_are_those_at_the_beginning(directory: Path) -> None:
    class Name:
        def __fspath__(self) -> str:
            names.clear()
            return "good"

    names: list[Any] = [Name(), "good"]
    assert len(core.runs(core.directory(str(directory)), names, [N, N, 0, 0, N, N], 1)) == 2


def test_no_file_stays_open(directory: Path) -> None:
    before = opened()
    for name, n in (("good", N), ("good", N + 1), ("none", N), ("", 1)):
        for chunk_bytes in (1, 1 << 20):
            read(directory, name, n, 0, n, chunk_bytes=chunk_bytes)
            core.runs(core.directory(str(directory)), [name], [n, 0, n], chunk_bytes)
    assert opened() == before
