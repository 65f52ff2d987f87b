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

if not hasattr(core, "read_runs"):
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


def records(chunk: Any, first: int, count: int) -> list[bytes]:
    """Returns what a block takes from a chunk."""
    block, columns = core.RecordBlock(), [np.array([number]) for number in (0, first, count)]
    block.take({0: chunk}, *columns, 0, 1, 100, 1 << 30)
    return list(block)


def read(directory: Path, name: str, n: int, first: int, stop: int) -> list[bytes] | None:
    (chunk,) = core.read_runs(str(directory), [name], [n, first, stop])
    return None if chunk is None else records(chunk, first, stop - first)


@given(n=NUMBERS, first=NUMBERS, stop=NUMBERS)
def test_a_run_is_a_slice_or_nothing(directory: Path, n: int, first: int, stop: int) -> None:
    good = n == N and 0 <= first < stop <= N
    assert read(directory, "good", n, first, stop) == (RECORDS[first:stop] if good else None)


def test_many_runs_stand_in_their_order(directory: Path) -> None:
    spans = 2 * [(first, stop) for first in range(N) for stop in range(first + 1, N + 1)]
    wanted = [N] * len(spans) + [first for first, _ in spans] + [stop for _, stop in spans]
    chunks = core.read_runs(str(directory), ["good"] * len(spans), wanted)
    read = [span for span, chunk in zip(spans, chunks) if chunk is not None]
    assert read == spans[: len(read)]  # more than a megabyte is not read
    assert 1 << 20 <= sum(int(OFFSETS[stop] - OFFSETS[first]) for first, stop in read) < (1 << 20) + len(DATA)
    for (first, stop), chunk in zip(read, chunks):
        assert records(chunk, first, stop - first) == RECORDS[first:stop]


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
        assert read(directory, "bad", N, 0, N) == RECORDS[:before]


def test_what_is_large_is_left(directory: Path) -> None:
    many = [b""] * 9000
    put(directory, "many", Index(16 * np.arange(9001)).to_bytes(), b"".join(map(tfrecord.frame, many)))
    assert read(directory, "many", 9000, 0, 1) is None
    long = [b"", bytes(256 << 10)]
    put(directory, "long", Index([0, 16, 32 + len(long[1])]).to_bytes(), b"".join(map(tfrecord.frame, long)))
    assert read(directory, "long", 2, 0, 2) is None
    assert read(directory, "long", 2, 0, 1) == [b""]


def test_names_that_are_none_are_left(directory: Path) -> None:
    for name in ("", "none", "x" * 300, "x" * 5000, "/", "..", "good/good", "\udcff"):
        assert read(directory, name, N, 0, N) is None
    assert read(directory / "none", "good", N, 0, N) is None
    assert read(directory / "good", "good", N, 0, N) is None
    assert read(directory, str(directory / "good"), N, 0, N) == RECORDS
    assert read(directory, f"../{directory.name}/good", N, 0, N) == RECORDS


def test_arguments_that_do_not_fit_are_errors(directory: Path) -> None:
    for names, numbers in ((["good"], [N, 0]), (["good"], []), ([], [1]), (["good"] * 2, [N] * 5)):
        with pytest.raises(ValueError, match="not 3 for each"):
            core.read_runs(str(directory), names, numbers)
    for path, names in ((str(directory), ("good",)), (str(directory), [7]), (3, ["good"])):
        with pytest.raises(TypeError):
            core.read_runs(path, names, [N, 0, 1])
    with pytest.raises(ValueError, match="null"):
        core.read_runs(str(directory), ["a\0b"], [N, 0, 1])
    assert core.read_runs(str(directory), [], []) == []


def test_no_file_stays_open(directory: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for name, n in (("good", N), ("good", N + 1), ("none", N), ("", 1)):
        core.read_runs(str(directory), [name] * 20, [n] * 20 + [0] * 20 + [n] * 20)
    assert len(os.listdir("/dev/fd")) == before
