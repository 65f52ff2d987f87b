"""Records that are framed as they come, against the same in Python."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.features import compile_encoder
from beam_datasets.generate import blocks
from beam_datasets.native import core

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")


def collectors(encode: Any) -> tuple[Any, Any]:
    """Returns the functions of a collector, and the same made in Python."""
    slow = blocks._Collector(encode, blocks.MAX_RECORD_BYTES)
    return core.collector(encode, blocks.MAX_RECORD_BYTES), (slow.append, slow.sizes, slow.ordered, slow.clear)


@given(
    st.lists(st.tuples(st.booleans(), st.text(max_size=300), st.integers(-(2**63), 2**63 - 1)), max_size=40),
    st.randoms(use_true_random=False),
)
def test_records_of_any_encoder_are_collected_in_any_order(rows, random):
    encoders = {
        True: compile_encoder(F.FeaturesDict({"text": F.Text(), "number": np.int64})),
        False: compile_encoder(F.FeaturesDict({"zlib": F.Tensor(shape=(1,), dtype=np.int64, encoding="zlib")})),
    }

    def encode(row: Any) -> bytes:
        plain, text, number = row
        return encoders[plain]({"text": text, "number": number} if plain else {"zlib": [number]})

    texts = [{"text": text, "number": number} for _, text, number in rows]
    for function, values in ((encode, rows), (encoders[True], texts)):
        native, python = collectors(function)
        for keep in (True, False, True):
            assert [native[0](value) for value in values] == [python[0](value) for value in values]
            assert native[1]() == python[1]()
            order = random.sample(range(len(rows)), len(rows))
            for numbers in (order, order[:3], []):
                assert native[2](np.array(numbers, np.int64)) == python[2](np.array(numbers, np.int64))
            native[3](keep), python[3](keep)
            assert native[1]() == b""


def test_an_example_that_cannot_be_encoded_leaves_nothing():
    (append, sizes, ordered, _), (slow, _, slow_ordered, _) = collectors(
        compile_encoder(F.FeaturesDict({"text": F.Text(), "number": np.int64}))
    )
    for example in (
        {"text": "x" * 99, "number": 1},
        {"text": "y", "number": "z"},
        {"text": "y"},
        {"text": "", "number": 2},
    ):
        outcomes = []
        for function in (append, slow):
            try:
                outcomes.append(function(example))
            except Exception as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]
    assert len(sizes()) == 2 * 4
    assert ordered(np.array([1, 0])) == slow_ordered(np.array([1, 0]))


def test_what_is_not_there_and_what_is_in_use_are_errors():
    append, sizes, ordered, clear = core.collector(lambda value: value, 9)
    append(b"one")
    for numbers in ([1], [-1], [0, 2**62]):
        with pytest.raises(ValueError, match="of 1, or too many"):
            ordered(np.array(numbers))
    with pytest.raises(TypeError):
        append("no bytes")
    with pytest.raises(TypeError):
        ordered(None)
    assert ordered(np.array([0])) == blocks.tfrecord.frame(b"one")
    for number, argument in ((0, b""), (2, []), (3, True)):
        again: list[Any] = []
        again += core.collector(lambda _, own=again, n=number, value=argument: own[n](value), 9)
        with pytest.raises(RuntimeError, match="in use"):
            again[0](b"")
    clear(False)
    assert sizes() == b""


def test_a_record_that_is_too_large_is_not_kept():
    append, sizes, ordered, _ = core.collector(bytes, 5)
    assert [append(size) for size in (3, 6, 5)] == [3, 6, 5]
    assert np.frombuffer(sizes(), "<u4").tolist() == [19, 21]
    assert ordered(np.array([0, 1])) == blocks.tfrecord.frame(bytes(3)) + blocks.tfrecord.frame(bytes(5))
    for most in (-1, 2**31):
        with pytest.raises(ValueError, match="most is"):
            core.collector(bytes, most)
