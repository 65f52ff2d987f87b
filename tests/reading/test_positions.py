"""Workers' shares against dealing positions out one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.reading.positions import Partial, Share

COUNTS, BLOCKS = st.integers(1, 7), st.integers(1, 5)


def dealt(start, end, count, block):
    """Positions [start, end) dealt to `count` workers, `block` at a time, in turn."""
    hands = [[] for _ in range(count)]
    for i, position in enumerate(range(start, end)):
        hands[i // block % count].append(position)
    return hands


@given(st.integers(0, 50), st.integers(0, 120), COUNTS, BLOCKS)
def test_shares_are_what_dealing_gives(start, length, count, block):
    for worker, hand in enumerate(dealt(start, start + length, count, block)):
        share = Share(worker, count, start, block)
        assert share.count(start + length) == len(hand)
        assert share.at(np.arange(len(hand))).tolist() == hand


def test_numbers_are_ints_or_refused():
    share = Share(*np.array([1, 3, 6, 2]))
    assert share == Share(1, 3, 6, 2)
    names = ("worker_index", "worker_count", "start", "block")
    assert {type(getattr(share, name)) for name in names} == {int}
    for name in names:
        for bad in (1.0, "1", True, None):
            with pytest.raises(TypeError, match=f"{name} must be an int, not {bad!r}"):
                Share(**{"worker_count": 2, name: bad})


def test_refuses_what_is_no_division():
    with pytest.raises(ValueError, match="worker_count must be at least 1, got 0"):
        Share(0, 0)
    for index in (-1, 3):
        with pytest.raises(ValueError, match=rf"worker_index must be in \[0, 3\), got {index}"):
            Share(index, 3)
    with pytest.raises(ValueError, match="start must be at least 0, got -2"):
        Share(start=-2)
    with pytest.raises(ValueError, match="block must be at least 1, got 0"):
        Share(block=0)
    for numbers in ((2, 8, 8), (2, 8, 0), (0, 8, 1)):
        with pytest.raises(ValueError, match="must be (at least 1|less than block)"):
            Partial(*numbers)
