"""Runs that a thread reads ahead: the same records as without it, whatever becomes of runs, files and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.native import core

if TYPE_CHECKING:
    from pathlib import Path

if not hasattr(core, "runs"):
    pytest.skip("the native module was not built, or cannot do it here", allow_module_level=True)

RECORDS = [bytes([i]) * (i * 37 % 500) for i in range(60)]
N = len(RECORDS)
MANY = 1 << 20  # bytes
NAMES = ["good", "bad", "cut", "none", "unindexed"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ahead")
    offsets = np.cumsum([0, *(len(record) + 16 for record in RECORDS)])
    data = b"".join(map(tfrecord.frame, RECORDS))
    bad = bytearray(data)
    bad[int(offsets[30]) + 14] ^= 1
    for name, content in (("good", data), ("bad", bytes(bad)), ("cut", data[:-1]), ("unindexed", data)):
        (path / name).write_bytes(content)
        (path / f"{name}.index").write_bytes(Index(offsets).to_bytes())
    (path / "unindexed.index").unlink()
    return path


def take(chunks: dict[int, Any], run: int, count: int, first: int = 0) -> list[bytes]:
    """Returns what a block takes of a run, so many records at most."""
    block = core.RecordBlock()  # type: ignore[union-attr]
    block.take(chunks, *(np.array([number]) for number in (run, first, count)), 0, 1, 10_000, 1 << 30)
    return list(block)


class Runs:
    """Runs [first, stop) of shards, and what was taken of each."""

    def __init__(
        self, directory: Path, names: list[str], ahead: int, *, first: int = 0, stop: int = N, chunk_bytes: int = 4000
    ) -> None:
        n = len(names)
        wanted = [N] * n + [first] * n + [stop] * n
        found = core.runs(core.directory(str(directory)), names, wanted, chunk_bytes, ahead)  # type: ignore[union-attr]
        self.chunks: dict[int, Any] = dict(enumerate(found))

    def take(self, run: int, first: int, count: int) -> list[bytes]:
        return take(self.chunks, run, count, first)


@given(st.data())
@settings(deadline=None)
def test_it_is_what_is_read_without(directory: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=30))
    options: dict[str, int] = {
        "first": (first := data.draw(st.integers(0, N - 1))),
        "stop": data.draw(st.integers(first + 1, N)),
        "chunk_bytes": data.draw(st.sampled_from([1, 600, 4000, 100_000])),
    }
    ahead, plain = (
        Runs(directory, names, data.draw(st.integers(1, 100_000)), **options),
        Runs(directory, names, 0, **options),
    )
    for run in data.draw(st.lists(st.integers(0, len(names) - 1), max_size=40)):
        if data.draw(st.integers(0, 9)) == 0:
            assert (run in ahead.chunks) == (run in plain.chunks)
            ahead.chunks.pop(run, None), plain.chunks.pop(run, None)
        visit = run, data.draw(st.integers(first, N - 1)), data.draw(st.integers(1, N))
        assert ahead.take(*visit) == plain.take(*visit)
    assert ahead.chunks.keys() == plain.chunks.keys()


def test_so_many_are_read_before_they_are_taken(directory: Path) -> None:
    (directory / "moving").mkdir()
    for name in ("good", "good.index"):
        (directory / "moving" / name).write_bytes((directory / name).read_bytes())
    for tries in range(1, 100):
        runs = Runs(directory / "moving", ["good"] * 9, 40_000, chunk_bytes=100_000)  # two are less
        time.sleep(0.001 * tries)
        (directory / "moving/good").rename(directory / "moved")
        found = [runs.take(run, 0, N) for run in range(9)]
        (directory / "moved").rename(directory / "moving/good")
        read = [records == RECORDS for records in found]
        assert found == [RECORDS] * sum(read) + [[]] * (9 - sum(read))
        if sum(read) == 3:
            return
        assert sum(read) < 3
    pytest.fail("nothing is read ahead")


@pytest.mark.parametrize("ahead, ready", [(1, 1), (0, 0)], ids=["ahead", "as it is needed"])
def test_of_a_large_run_the_next_chunk_is_read_before_it_is_taken(directory: Path, ahead: int, ready: int) -> None:
    path, offsets = directory / "large", np.arange(61, dtype="<u8") * 116
    framed = b"".join(tfrecord.frame(bytes([i]) * 100) for i in range(60))
    for tries in range(1, 100):
        path.write_bytes(framed)
        with path.open("rb") as file:
            chunks = {0: core.run(file, file.fileno(), offsets, 0, 60, 10 * 116, ahead)}  # type: ignore[union-attr]
            found = [take(chunks, 0, 15)]  # of two chunks
            time.sleep(0.001 * tries)
            os.truncate(path, 0)
            found += [take(chunks, 0, 60, first=15)]
        assert found[0] == [bytes([i]) * 100 for i in range(15)]
        assert found[1] == [bytes([i]) * 100 for i in range(15, 15 + len(found[1]))]
        if len(found[1]) == 5 + 10 * ready:
            return
        assert len(found[1]) == 5
    pytest.fail("nothing is read ahead")


def test_threads_have_each_their_own(directory: Path) -> None:
    def read(start: int) -> bool:
        good = True
        for most in (1, 40_000, MANY):
            runs = Runs(directory, ["good"] * 200, most)
            for first in (0, 20):
                good &= all(
                    runs.take(run, first, 20) == RECORDS[first : first + 20]
                    for run in (*range(start, 200), *range(start))
                )
        return good

    with ThreadPoolExecutor(6) as executor:
        assert all(executor.map(read, range(0, 180, 15)))


_IN_A_FORK = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_ahead import MANY, RECORDS, Runs

def read(runs, start):
    return all(runs.take(run, 0, 60) == RECORDS for run in range(start, 400))

directory = Path(sys.argv[2])
for start in range(1, 41):
    runs = Runs(directory, ["good"] * 400, MANY, chunk_bytes=100_000)
    assert runs.take(0, 0, 60) == RECORDS
    child = os.fork()
    good = read(runs, start) and read(Runs(directory, ["good"] * 400, MANY), 0)
    if child == 0:
        runs.chunks.clear()
        os._exit(0 if good else 1)
    assert good
    assert os.waitpid(child, 0)[1] == 0
print("good", end="")
runs = Runs(directory, ["good"] * 400, MANY)  # which a thread is reading when the process ends
"""


def test_a_forked_process_reads_on(directory: Path) -> None:
    command = [sys.executable, "-c", _IN_A_FORK, os.path.dirname(__file__), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("good", 0), done.stderr


def test_runs_are_let_go_of_while_they_are_read(directory: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for taken in range(100):
        runs = Runs(directory, NAMES * 20, MANY)
        for run in range(0, taken, 5):
            runs.take(run, 0, 1)
        runs.chunks.clear()
    assert len(os.listdir("/dev/fd")) == before


def test_what_is_left_of_a_shard_that_is_gone_is_left(directory: Path) -> None:
    for name in ("going", "going.index"):
        (directory / name).write_bytes((directory / name.replace("going", "good")).read_bytes())
    runs = Runs(directory, ["good"] * 3 + ["going"], MANY)
    for run in range(4):
        assert runs.take(run, 0, 5) == RECORDS[:5]
    (directory / "going").unlink()
    found = runs.take(3, 5, N - 5)
    assert found == RECORDS[5:][: len(found)]
    assert (len(found) < N - 5, 3 in runs.chunks) == (True, False)
