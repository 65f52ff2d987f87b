"""shards.c against Python, on good, damaged and hostile input."""

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
from beam_datasets.reading import shards
from tests.native.gil import when_it_is_free

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)

RECORDS = [b"", b"a", bytes(200), b"x" * 9000, b"hello", bytes(70_000), b"end"]
PLACES = np.cumsum([0, *(len(record) + 16 for record in RECORDS)]).astype(np.uint64)
DATA = b"".join(map(tfrecord.frame, RECORDS))
LIES = st.integers(-3, 9) | st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63)])


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("shards") / "f"
    path.write_bytes(DATA)
    file = os.open(path, os.O_RDONLY)
    yield file
    os.close(file)


@given(st.lists(LIES, max_size=20))
def test_records_are_read_until_one_is_not_there(descriptor: int, wanted: list[int]) -> None:
    there = [0 <= record < len(RECORDS) for record in wanted]
    good = wanted[: [*there, False].index(False)]
    found = core.read_records(descriptor, PLACES, np.array(wanted, np.int64))
    assert found == [RECORDS[record] for record in good]
    for record, found in zip(wanted, there):
        assert core.read_record(descriptor, PLACES, record) == (RECORDS[record] if found else None)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, len(DATA) + 20), max_size=8))
def test_offsets_that_lie(descriptor: int, places: list[int]) -> None:
    offsets, truth = np.array(places, np.uint64), PLACES.tolist()
    right = dict(zip(itertools.pairwise(truth), RECORDS))
    wanted = [right.get(pair) for pair in itertools.pairwise(places)]
    assert [core.read_record(descriptor, offsets, i) for i in range(len(wanted))] == wanted
    found = core.read_records(descriptor, offsets, np.arange(len(wanted)))
    assert found == wanted[: [*wanted, None].index(None)]


def test_each_damage_of_a_record_is_seen(tmp_path: Path) -> None:
    path, numbers = tmp_path / "f", np.arange(5)
    small, places = b"".join(map(tfrecord.frame, RECORDS[:3])), PLACES[:4]
    for place in range(len(small)):
        bad = int(np.searchsorted(places, place, "right")) - 1
        for data in (small[:place], small[:place] + bytes([small[place] ^ 1 << place % 8]) + small[place + 1 :]):
            path.write_bytes(data)
            file = os.open(path, os.O_RDONLY)
            try:
                # Those that stand together are read in one piece: of a file that is cut off there may be fewer.
                found = core.read_records(file, places, numbers[:3])
                assert found == RECORDS[: bad if len(data) == len(small) else 0]
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
        shard = shards.Shard(str(path), len(RECORDS))
        one = [functools.partial(shard.read_one, i) for i in range(len(RECORDS))]
        some = [[0, 1, 2], [1, 3, 6], [2, 3, 4, 5], [4], list(range(7))]
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
