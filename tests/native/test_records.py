"""records.c and gather.c against Python, on good, damaged and hostile input."""

import functools
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.native import core
from beam_datasets.reading.records import shards
from beam_datasets.shuffle import blocks
from tests.native.gil import when_it_is_free

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)

RECORDS = st.lists(st.binary(max_size=300), max_size=40)
SMALL = [b"", b"a", b"hello", bytes(200), b"x" * 60]
LIES = st.one_of(
    st.integers(-40, 1500),
    st.sampled_from([2**31, 2**32, 2**62, 2**63 - 1, -(2**62), -(2**63)]),
)
BEYOND = [2**62, 2**63 - 1, -(2**62), -(2**63), -1, 400]


def framed(records: list[bytes]) -> bytes:
    return b"".join(map(tfrecord.frame, records))


def places_of(records: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *(len(record) + 16 for record in records)])


def damaged(data: bytes) -> Any:
    """Yields the data with each byte flipped, and cut at each place."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]
        yield data[:place]


# ------------------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("check", [True, False])
def test_each_damage_is_seen_as_in_python(check: bool) -> None:
    data, places = framed(SMALL), places_of(SMALL)
    for bad in damaged(data):
        view = memoryview(bad)
        assert np.frombuffer(core.scan(bad, check), np.int64).tolist() == tfrecord.plain_offsets(view, check).tolist()
        for offsets in (places, places[1:], places[::-1].copy(), places[:1]):
            assert core.unframe(bad, offsets, check) == tfrecord.plain_records(view, offsets, check)


@given(RECORDS, st.lists(LIES, max_size=40), st.booleans())
def test_offsets_that_lie(records: list[bytes], places: list[int], check: bool) -> None:
    data = framed(records)
    want = []
    for start, stop in itertools.pairwise(places):
        inside = 0 <= start <= stop <= len(data)
        good = inside and np.frombuffer(core.scan(data[start:stop], True), np.int64).tolist() == [0, stop - start]
        if not good:
            break
        want.append(data[start + 12 : stop - 4])
    assert core.unframe(data, np.array(places, np.int64), check) == want


def test_large_buffers_go_without_the_gil() -> None:
    records = [bytes([i]) * 5000 for i in range(60)]
    data = bytearray(framed(records))
    assert core.unframe(data, places_of(records), True) == records
    data[-1] ^= 1
    assert core.unframe(data, places_of(records), True) == records[:-1]


# ------------------------------------------------------------------------------------------------------------ writing


RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 50)), max_size=30)


@given(st.lists(st.binary(max_size=100), min_size=4, max_size=4), RANGES)
def test_gathers_as_python_does(buffers: list[bytes], ranges: list[tuple[int, int, int]]) -> None:
    which, starts, sizes = np.array(ranges, np.int64).reshape(-1, 3).T.copy()
    inside = all(start + size <= len(buffers[i]) for i, start, size in ranges)
    if not inside:
        with pytest.raises(ValueError, match="is not inside buffer"):
            core.gather(buffers, which, starts, sizes)
        return
    want = b"".join(buffers[i][start : start + size] for i, start, size in ranges)
    assert core.gather(buffers, which, starts, sizes) == want
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "core", None)
        assert blocks.gather(buffers, which, starts, sizes) == want


@pytest.mark.parametrize("lie", BEYOND)
@pytest.mark.parametrize("argument", [0, 1, 2])
def test_ranges_out_of_bounds(argument: int, lie: int) -> None:
    arguments = [[0, 0], [0, 0], [1, 1]]
    arguments[argument][1] = lie
    with pytest.raises(ValueError, match="range 1, "):
        core.gather([b"abc"], *map(np.array, arguments))


def test_gathers_what_fits_together() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="2 buffer numbers, 1 starts and 2 sizes"):
        core.gather([b"abc"], two, one, two)
    for wrong in (["text"], [None], 5, [b"a", np.arange(6)[::2]]):
        with pytest.raises((TypeError, BufferError, ValueError)):
            core.gather(wrong, one, one, one)
    assert core.gather([], one[:0], one[:0], one[:0]) == b""
    assert (
        core.gather(
            (bytearray(b"abc"), np.array([1, 2], np.int8)), np.array([1, 0]), np.array([1, 0]), np.array([1, 3])
        )
        == b"\x02abc"
    )
    with pytest.raises(ValueError, match="is not inside buffer"):
        core.gather([], one, one, one)


# records read at their places against Python, on good, damaged and hostile input


WRITTEN = [b"", b"a", bytes(200), b"x" * 9000, b"hello", bytes(70_000), b"end", *[b"more"] * 5]
PLACES = np.cumsum([0, *(len(record) + 16 for record in WRITTEN)]).astype(np.uint64)
DATA = b"".join(map(tfrecord.frame, WRITTEN))
WRONG_PLACES = st.integers(-3, 14) | st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63)])


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("shards") / "f"
    path.write_bytes(DATA)
    file = os.open(path, os.O_RDONLY)
    yield file
    os.close(file)


@given(st.lists(WRONG_PLACES, max_size=20))
def test_records_are_read_until_one_is_not_there(descriptor: int, wanted: list[int]) -> None:
    there = [0 <= record < len(WRITTEN) for record in wanted]
    good = wanted[: [*there, False].index(False)]
    found = core.read_records(descriptor, PLACES, np.array(wanted, np.int64))
    assert found == [WRITTEN[record] for record in good]
    for record, found in zip(wanted, there):
        assert core.read_record(descriptor, PLACES, record) == (WRITTEN[record] if found else None)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, len(DATA) + 20), max_size=8))
def test_places_that_lie(descriptor: int, places: list[int]) -> None:
    offsets, truth = np.array(places, np.uint64), PLACES.tolist()
    right = dict(zip(itertools.pairwise(truth), WRITTEN))
    wanted = [right.get(pair) for pair in itertools.pairwise(places)]
    assert [core.read_record(descriptor, offsets, i) for i in range(len(wanted))] == wanted
    found = core.read_records(descriptor, offsets, np.arange(len(wanted)))
    assert found == wanted[: [*wanted, None].index(None)]


def test_each_damage_of_a_record_is_seen(tmp_path: Path) -> None:
    path, numbers = tmp_path / "f", np.arange(5)
    small, places = b"".join(map(tfrecord.frame, WRITTEN[:3])), PLACES[:4]
    for place in range(len(small)):
        bad = int(np.searchsorted(places, place, "right")) - 1
        for data in (small[:place], small[:place] + bytes([small[place] ^ 1 << place % 8]) + small[place + 1 :]):
            path.write_bytes(data)
            file = os.open(path, os.O_RDONLY)
            try:
                assert core.read_records(file, places, numbers[:3]) == WRITTEN[:bad]
                assert core.read_record(file, places, bad) is None
            finally:
                os.close(file)


@pytest.mark.parametrize("wrong", [-1, 2**31 - 1, 2**40, -(2**40)])
def test_a_file_that_is_not_open(wrong: int) -> None:
    assert core.read_record(wrong, PLACES, 0) is None
    assert core.read_records(wrong, PLACES, np.arange(2)) == []


def test_reading_many_records_is_interrupted(tmp_path: Path) -> None:
    class Interrupted(Exception):
        """What a handler raises."""

    def fail(*_: Any) -> None:
        raise Interrupted

    path, count = tmp_path / "shard", 200_000
    path.write_bytes(tfrecord.frame(b"a") * count)
    places, backwards = 17 * np.arange(count + 1, dtype=np.uint64), np.arange(count)[::-1].copy()
    before, file = signal.getsignal(signal.SIGUSR1), os.open(path, os.O_RDONLY)
    try:
        signal.signal(signal.SIGUSR1, fail)
        with pytest.raises(Interrupted), when_it_is_free(lambda: signal.raise_signal(signal.SIGUSR1)):
            core.read_records(file, places, backwards)
        signal.signal(signal.SIGUSR1, lambda *_: os.truncate(path, 0))
        with when_it_is_free(lambda: signal.raise_signal(signal.SIGUSR1)):
            found = core.read_records(file, places, backwards)
        assert 0 < len(found) < count  # the handler ran before all was read
        assert set(found) == {b"a"}
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(file)


def test_a_shard_reads_alike_with_the_module_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    broken = bytearray(DATA)
    broken[int(PLACES[4]) + 13] ^= 1
    (tmp_path / "f.index").write_bytes(Index(PLACES).to_bytes())

    def outcomes() -> list[Any]:
        shard = shards.Shard(str(path), len(WRITTEN))
        one = [functools.partial(shard.read_one, i) for i in range(len(WRITTEN))]
        some = [[0, 1, 2], [1, 3, 6], [2, 3, 4, 5], [4], list(range(7)), list(range(1, 12))]
        calls = [*one, *(functools.partial(shard.read_many, np.array(wanted)) for wanted in some)]
        return list(map(outcome, calls))

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except CorruptRecordError as error:
            return str(error)

    for content in (DATA, bytes(broken)):
        path.write_bytes(content)
        found = outcomes()
        with monkeypatch.context() as patch:
            patch.setattr(shards, "_read_record", None)
            patch.setattr(shards, "_read_records", None)
            assert outcomes() == found
        assert any("record 4" in str(value) for value in found) == (content != DATA)
