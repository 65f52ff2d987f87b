"""runs.c on good, damaged and hostile input, against slices of what was written."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_datasets.formats import tfrecord
from beam_datasets.native import core

if not hasattr(core, "run"):
    pytest.skip("the native module was not built, or cannot do it here", allow_module_level=True)

RECORDS = [b"", b"a", bytes(200), b"x" * 9000, b"hello", bytes(70_000), b"end"]
DATA = b"".join(map(tfrecord.frame, RECORDS))
OFFSETS = np.cumsum([0, *(len(record) + 16 for record in RECORDS)]).astype(np.uint64)
N = len(RECORDS)
NUMBERS = st.integers(-2, N + 2) | st.sampled_from([2**31, 2**60, 2**63 - 1, -(2**63)])


class File:
    """An open file that counts as the owner of its descriptor."""

    def __init__(self, path: Path, data: bytes = DATA) -> None:
        path.write_bytes(data)
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.descriptor)

    def read(
        self, first: int, stop: int, start: int | None = None, chunk_bytes: int = 1 << 20, offsets: object = OFFSETS
    ) -> list[bytes]:
        """Returns what a block takes of a run, from `first` or `start` on."""
        chunk = core.run(self, self.descriptor, offsets, first, stop, chunk_bytes)
        first = first if start is None else start
        block, chunks = core.RecordBlock(), {0: chunk}
        block.take(chunks, *(np.array([number]) for number in (0, first, stop - first)), 0, 1, 100, 1 << 30)
        assert not (chunks and len(block) == stop - first)
        return list(block)


@pytest.fixture(scope="module", params=[0, 1], ids=["alone", "ahead"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many threads read ahead."""
    before = core.set_threads(request.param)
    yield request.param
    core.set_threads(before)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> File:
    return File(tmp_path_factory.mktemp("runs") / "good")


@given(first=NUMBERS, stop=NUMBERS)
def test_a_run_is_a_slice_or_an_error(good: File, first: int, stop: int) -> None:
    if 0 <= first < stop <= N:
        assert good.read(first, stop) == RECORDS[first:stop]
    else:
        with pytest.raises(ValueError, match="records in chunks of"):
            good.read(first, stop)


@given(st.data())
def test_it_is_read_from_any_record_in_chunks_of_any_size(good: File, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, N - 1))
    stop = data.draw(st.integers(first + 1, N))
    start, chunk_bytes = data.draw(st.integers(first, stop - 1)), data.draw(st.integers(1, 100_000))
    assert good.read(first, stop, start, chunk_bytes) == RECORDS[start:stop]


@example(offsets=[0, 16, 32, 48, 64, 80, 100, len(DATA)])
@given(offsets=st.lists(st.integers(0, len(DATA) + 40) | st.integers(2**62, 2**64 - 1), min_size=N + 1, max_size=N + 1))
def test_wrong_offsets_give_good_records_or_none(good: File, offsets: list[int]) -> None:
    """They cannot come from an index with checksums, but a mapped index may change."""
    found = good.read(0, N, offsets=np.array(offsets, np.uint64))
    assert set(found) <= set(RECORDS)


def test_a_bad_record_ends_the_run(tmp_path: Path) -> None:
    for place in (3, 30, 100, 240, 300, len(DATA) - 1):
        file = File(tmp_path / "bad", DATA[:place] + bytes([DATA[place] ^ 4]) + DATA[place + 1 :])
        before = int(np.searchsorted(OFFSETS, place, "right")) - 1
        assert file.read(0, N) == RECORDS[:before]


def test_a_file_that_is_cut_off_between_chunks(tmp_path: Path, threads: int) -> None:
    file = File(tmp_path / "changing")
    chunks, run = {0: core.run(file, file.descriptor, OFFSETS, 0, N, 1)}, np.array([0])
    block = core.RecordBlock()
    block.take(chunks, run, run.copy(), np.array([2]), 0, 1, 100, 1 << 30)
    (tmp_path / "changing").write_bytes(DATA[:100])
    assert block.take(chunks, run, np.array([2]), np.array([2]), 0, 1, 100, 1 << 30) == 0
    assert list(block) == RECORDS[: len(block)]
    assert len(block) in ((2, 3) if threads else (2,))  # one chunk may have been read before
    assert not chunks


def test_arguments_that_do_not_fit_are_errors(good: File) -> None:
    for chunk_bytes in (0, -1):
        with pytest.raises(ValueError, match="chunks of"):
            good.read(0, 1, chunk_bytes=chunk_bytes)
    for offsets in (b"", b"1234567"):
        with pytest.raises(ValueError, match="records in chunks of"):
            good.read(0, 1, offsets=offsets)
    with pytest.raises(TypeError):
        good.read(0, 1, offsets=None)


def test_the_owner_is_released(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for chunk_bytes in (1, 1 << 20):
        File(tmp_path / "file").read(0, N, chunk_bytes=chunk_bytes)
        core.run(file := File(tmp_path / "file"), file.descriptor, OFFSETS, 0, N, chunk_bytes)
        del file
    assert len(os.listdir("/dev/fd")) == before
