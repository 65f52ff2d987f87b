"""Varints by the instructions that this processor has, and without, against the same one by one in Python."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import example
from beam_datasets.formats.example import ExampleError, read_varint, varint
from beam_datasets.native import core
from tests.native import wire

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")


def one_by_one(data: bytes) -> list[int] | None:
    """The varints of bytes as signed integers; None where one is not finished or has more than 64 bits."""
    numbers, place = [], 0
    while place < len(data):
        try:
            number, place = read_varint(data, place)
        except (ExampleError, IndexError):
            return None
        if number >= 2**64:
            return None
        numbers.append(number - (number >> 63 << 64))
    return numbers


def assert_right(data: bytes, before: int = 0) -> None:
    """Asserts that both ways find what is in the data, which may stand anywhere in memory but end with it."""
    want = one_by_one(data)
    view = memoryview(bytes(before) + data)[before:]
    for portable in (False, True):
        found = core.varints(view, portable)
        assert (found and np.frombuffer(found, np.int64).tolist()) == want if data else found == b""


def numbers_of(sizes: list[int], rng: random.Random) -> list[int]:
    """Any number for each size of a varint."""
    return [1 << 7 * (size - 1) | rng.getrandbits(min(7 * size, 64)) for size in sizes]


RUNS = st.lists(st.tuples(st.sampled_from([1, 1, 2, 2, 3, 3, 3, 4, 5, 8, 9, 10]), st.integers(1, 40)), max_size=12)
MIXED = st.lists(st.integers(1, 3) | st.sampled_from([1, 2, 3, 4, 10]), max_size=200)
SIZES = MIXED | RUNS.map(lambda runs: [size for size, count in runs for _ in range(count)])


@given(SIZES, st.randoms(use_true_random=False), st.integers(0, 33))
def test_any_lengths_at_any_place(sizes: list[int], rng: random.Random, before: int) -> None:
    numbers = numbers_of(sizes, rng)
    data = b"".join(map(varint, numbers))
    assert_right(data, before)


@given(SIZES, st.randoms(use_true_random=False), st.data())
def test_damaged(sizes: list[int], rng: random.Random, data: st.DataObject) -> None:
    good = bytearray(b"".join(map(varint, numbers_of(sizes, rng))))
    for _ in range(data.draw(st.integers(0, 3)) if good else 0):
        good[rng.randrange(len(good))] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
    assert_right(bytes(good[: data.draw(st.integers(0, len(good)))]))


@pytest.mark.parametrize("sizes", [(1,), (2,), (3,), (1, 2, 3), (3, 3, 2, 3, 1), (4,), (10,), (3,) * 30 + (9,)])
def test_every_length_and_every_end(sizes: tuple[int, ...]) -> None:
    rng = random.Random(0)
    data = b"".join(map(varint, numbers_of([sizes[i % len(sizes)] for i in range(240 // min(sizes))], rng)))
    for length in range(241):
        assert_right(data[:length], length % 8)
        assert_right(data[240 - length : 240])


def test_every_place_of_a_wrong_byte() -> None:
    good = b"".join(map(varint, numbers_of([3, 2, 3, 3, 1] * 15, random.Random(1))))
    for place in range(len(good)):
        for byte in (0, 127, 128, 255):
            assert_right(good[:place] + bytes([byte]) + good[place + 1 :])


def test_every_sequence_of_four_short_ones() -> None:
    rng = random.Random(2)
    every = list(itertools.product((1, 2, 3), repeat=4))
    for four in every:
        assert_right(b"".join(map(varint, numbers_of([*four] * 12, rng))))
    rng.shuffle(every)
    assert_right(b"".join(map(varint, numbers_of([size for four in every for size in four], rng))))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10])
def test_only_arrays_of_the_right_length_are_filled(size: int) -> None:
    rng = random.Random(size)
    for count in (1, 3, 4, 31, 32, 63, 64, 65, 130):
        numbers = numbers_of([size] * count, rng)
        record = wire.record([wire.entry(b"x", wire.integers(numbers))])
        for room in {1, count - 4, count - 1, count, count + 1, count + 4, count + 64}:
            found: Any = room > 0 and core.parse(core.schema(((26, room, False, (b"x",)),)), [record])
            assert bool(found) == (room == count)
            if found:
                assert np.array_equal(np.frombuffer(found[0], np.int64), example.parse(record)["x"])


def test_wrong_arguments_are_an_error() -> None:
    for wrong in ((), (b"",), (None, True), ("x", True), (b"", True, 1), (memoryview(bytes(20))[::2], True)):
        with pytest.raises((TypeError, BufferError)):
            core.varints(*wrong)
