"""runs.c: chunks of runs that a thread reads ahead, and records that it helps to parse."""

import functools
import gc
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets.formats import tfrecord
from beam_datasets.native import core
from tests.native import wire
from tests.processes import in_threads

if not hasattr(core, "set_threads"):
    pytest.skip("the native module was not built, or cannot do it here", allow_module_level=True)

SIZE = 1000
N = 4000
RECORDS = [i.to_bytes(4, "big") * (SIZE // 4) for i in range(N)]
OFFSETS = (np.arange(N + 1) * (SIZE + 16)).astype(np.uint64)
TASKS = Path("/proc/self/task")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = core.set_threads(1)
    yield
    core.set_threads(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shard"
    path.write_bytes(b"".join(map(tfrecord.frame, RECORDS)))
    return path


class Reading:
    """Takes records of one file, some at a time."""

    def __init__(self, path: Path, visits: list[tuple[int, int]], chunk_bytes: int) -> None:
        with path.open("rb") as file:
            self.descriptor = os.dup(file.fileno())
        self.chunks: dict[int, Any] = {0: core.run(self, self.descriptor, OFFSETS, 0, N, chunk_bytes)}
        self.visits = tuple(np.array(column, np.int64) for column in zip(*((0, *visit) for visit in visits)))
        self.at = 0

    def __del__(self) -> None:
        os.close(self.descriptor)

    def take(self, count: int) -> list[bytes]:
        block = core.RecordBlock()
        self.at = block.take(self.chunks, *self.visits, self.at, len(self.visits[0]), count, 1 << 30)
        return list(block)

    def close(self) -> None:
        self.chunks.clear()


@pytest.mark.parametrize("pause", [0, 0.01])
def test_damage_is_found_by_each_thread_that_checks_records(path: Path, pause: float) -> None:
    """The thread that reads ahead, or a reader that takes over what is not checked yet."""
    whole = path.read_bytes()
    for bad in (1, 9, 10, 11, 599, N - 1):
        data = bytearray(whole)
        data[(SIZE + 16) * bad + 500] ^= 4
        path.write_bytes(data)
        reading, found = Reading(path, [(0, N)], 10 * SIZE), 0
        for _ in range(N):
            records = reading.take(7)
            assert records == RECORDS[found : found + len(records)]
            found += len(records)
            if not records or found == bad:
                break
            if found > bad - 20:
                time.sleep(pause)
        assert found == bad
        assert reading.take(7) == []


def test_it_reads_what_is_taken_next_and_no_more_than_one_chunk(path: Path) -> None:
    reading = Reading(path, [(0, N)], 10 * SIZE)
    assert reading.take(1) == RECORDS[:1]
    path.write_bytes(b"")
    found = reading.take(N)
    assert found == RECORDS[1 : 1 + len(found)]
    assert len(found) < 20
    assert not reading.chunks


@pytest.mark.parametrize("chunk_bytes", [1, 5 * SIZE, 100 * SIZE])
def test_visits_that_leave_records_out_or_go_back(path: Path, chunk_bytes: int) -> None:
    visits = [*((first, 7) for first in range(0, 900, 10)), (5, 3), (0, 40), (3990, 10), (20, 30)]
    wanted = [record for first, count in visits for record in RECORDS[first : first + count]]
    found: list[bytes] = []
    reading = Reading(path, visits, chunk_bytes)
    while len(found) < len(wanted):
        found += reading.take(13)
        if reading.at < len(visits) and not reading.chunks:  # as reading/runs.py does it
            reading.chunks[0] = core.run(reading, reading.descriptor, OFFSETS, 0, N, chunk_bytes)
    assert found == wanted


def test_threads_of_python_share_it(path: Path) -> None:
    """Its queue has more than it does in time, so that they take most of the tasks back."""
    failed: list[int] = []

    def read(chunk_bytes: int) -> None:
        for _ in range(10):
            readings = [Reading(path, [(start, N - start)], chunk_bytes) for start in range(8)]
            for at in range(0, N - 8, 50):
                for start, reading in enumerate(readings):
                    if reading.take(50)[: N - 8 - at] != RECORDS[start + at : start + at + 50][: N - 8 - at]:
                        failed.append(at)
                    if at == 500 * start:
                        readings[start] = Reading(path, [(start + at + 50, N - start - at - 50)], chunk_bytes)

    in_threads(3, lambda i: read(SIZE * (3, 20, 100)[i]))
    assert not failed


def count_threads_of_a_child() -> int:
    """Returns how many threads a forked process has: other libraries of this process may start some in it."""
    child = os.fork()
    if child == 0:
        os._exit(len(os.listdir(TASKS)) if TASKS.exists() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_reads_on_and_so_does_the_first(path: Path) -> None:
    threads = core.set_threads(0)
    count_threads_of_a_child()  # which ends the threads that read ahead
    num_others = count_threads_of_a_child()
    core.set_threads(threads)
    for count in range(1, 40, 4):
        reading = Reading(path, [(0, N)], 100 * SIZE)
        begun = reading.take(count)
        child = os.fork()
        if child == 0:
            code = 4  # an exception
            try:
                alone = not TASKS.exists() or len(os.listdir(TASKS)) <= num_others
                code = (0 if alone else 1) + (0 if begun + reading.take(N) == RECORDS else 2)
            finally:
                os._exit(code)
        assert begun + reading.take(N) == RECORDS
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_not_taken_is_released(path: Path) -> None:
    gc.collect()  # what other tests have left would be closed in between
    before = len(os.listdir("/dev/fd"))
    for chunk_bytes in (SIZE, 2000 * SIZE):
        for count in (1, 3):
            reading = Reading(path, [(0, N)], chunk_bytes)
            reading.take(count)
            reading.close()
            del reading
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


def test_the_process_ends_while_it_reads(path: Path) -> None:
    root = str(Path(__file__).parents[2])
    code = (
        f"import sys, pathlib; sys.path.append({root!r}); from tests.native.test_ahead import *; core.set_threads(1)\n"
        f"reading = Reading(pathlib.Path({str(path)!r}), [(0, N)], 1 << 20); print(len(reading.take(1)))\n"
        "sys.reading = reading"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_the_number_of_threads() -> None:
    assert [core.set_threads(n) for n in (-5, 10**6, 0)] == [1, 0, 16]
    with pytest.raises(OverflowError):
        core.set_threads(2**70)


GROUPS = (
    (0x1A, 1, False, (b"a", b"b")),
    (0x12, 3, False, (b"f",)),
    (0x1A, -1, True, (b"any",)),
    (0x12, -2, False, (b"padded",)),
)


def numbers_of(i: int, damage: str = "") -> bytes:
    entries = [
        wire.entry(b"a", wire.integers([i])),
        wire.entry(b"b", wire.floats([1.0]) if damage == "kind" else wire.integers([-i])),
        *([] if damage == "missing" else [wire.entry(b"f", wire.floats([i, 0.5, i]))]),
        *([wire.entry(b"any", wire.integers(range(i % 5)))] if i % 7 else []),
        wire.entry(b"padded", wire.floats([i] * (i % 4))),
    ]
    return wire.record(entries) + (b"\x07" if damage == "bytes" else b"")


@pytest.mark.parametrize("n", [1, 95, 96, 97, 300, 3000])
def test_records_are_parsed_in_parts(n: int) -> None:
    """As without a thread, and refused wherever one of them is not canonical."""
    schema, records = core.schema(GROUPS), [numbers_of(i) for i in range(n)]
    for damage, place in (("", 0), *itertools.product(("kind", "missing", "bytes"), {0, n // 3, n // 2, n - 1})):
        found = []
        for threads in (0, 1, 3):
            core.set_threads(threads)
            found.append(core.parse(schema, [*records[:place], numbers_of(place, damage), *records[place + 1 :]]))
        assert found[0] == found[1] == found[2]
        assert (found[0] is None) == bool(damage)


def called(forms: dict[bytes, bytes], calls: list[bytes], record: bytes) -> bytes:
    """Returns the other form of a record, and adds the record to the calls."""
    calls.append(record)
    return forms[record]


@pytest.mark.parametrize("n", [1, 95, 96, 97, 300])
def test_records_of_parts_are_written_anew(n: int) -> None:
    """A record that is not canonical is passed to a function once, and parsed in the form that it returns."""
    schema, records = core.schema(GROUPS), [numbers_of(i) for i in range(n)]
    canonical = core.parse(schema, records)
    for threads, places in itertools.product((0, 1, 3), ({0}, {n // 3, n // 2}, {n - 1}, set(range(n)))):
        core.set_threads(threads)
        forms = {numbers_of(i, "bytes"): records[i] for i in places}
        irregular = [numbers_of(i, "bytes" if i in places else "") for i in range(n)]
        calls: list[bytes] = []
        columns = core.parse(schema, irregular, functools.partial(called, forms, calls))
        assert columns == canonical
        assert sorted(calls) == sorted(forms)
        assert core.parse(schema, irregular, lambda record: None) is None
        assert core.parse(schema, irregular, lambda record: record) is None
        with pytest.raises(KeyError):
            core.parse(schema, irregular, {}.__getitem__)


def test_what_a_refused_record_left_is_removed() -> None:
    """Lists of bytes and of missing numbers that were begun before the record was refused."""
    groups = ((0x0A, -1, True, (b"any",)), (0x12, 1, True, (b"f",)), (0x1A, 1, True, (b"x", b"y")))
    schema = core.schema(groups)
    good = [wire.record([wire.entry(b"any", wire.strings([b"%d" % i] * (i % 3)))]) for i in range(9)]
    entries = [wire.entry(b"any", wire.strings([b"a", b"b"])), wire.entry(b"f", b""), wire.entry(b"x", b"")]
    refused = wire.record([*entries, wire.entry(b"y", wire.floats([1.0]))])
    for place in range(9):
        expected = core.parse(schema, good)
        irregular = [*good[:place], refused, *good[place + 1 :]]
        assert core.parse(schema, irregular, lambda _, place=place: good[place]) == expected


def test_threads_of_python_parse_in_parts() -> None:
    schema, records = core.schema(GROUPS), [numbers_of(i) for i in range(1000)]
    expected = core.parse(schema, records)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: core.parse(schema, records) == expected, range(200)))
