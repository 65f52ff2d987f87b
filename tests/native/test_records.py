"""records.c and gather.c against Python, on good, damaged and hostile input."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import tfrecord
from beam_datasets.generate import merge
from beam_datasets.native import core

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


STRETCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 50)), max_size=30)


@given(st.lists(st.binary(max_size=100), min_size=4, max_size=4), STRETCHES)
def test_gathers_as_python_does(buffers: list[bytes], stretches: list[tuple[int, int, int]]) -> None:
    which, starts, sizes = np.array(stretches, np.int64).reshape(-1, 3).T.copy()
    inside = all(start + size <= len(buffers[i]) for i, start, size in stretches)
    if not inside:
        with pytest.raises(ValueError, match="not inside it"):
            core.gather(buffers, which, starts, sizes)
        return
    want = b"".join(buffers[i][start : start + size] for i, start, size in stretches)
    assert core.gather(buffers, which, starts, sizes) == want
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "core", None)
        assert merge.gather(buffers, which, starts, sizes) == want


@pytest.mark.parametrize("lie", BEYOND)
@pytest.mark.parametrize("argument", [0, 1, 2])
def test_stretches_that_lie(argument: int, lie: int) -> None:
    arguments = [[0, 0], [0, 0], [1, 1]]
    arguments[argument][1] = lie
    with pytest.raises(ValueError, match="stretch 1 is"):
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
    with pytest.raises(ValueError, match="not inside it"):
        core.gather([], one, one, one)


# --------------------------------------------------------------------------------------------------------- sort keys
