"""Saved states: through JSON and back, and what is said of those that do not fit."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import StateError
from beam_datasets.reading.config import ReadConfig
from beam_datasets.reading.state import ReadState, fingerprint

READER = {
    "dataset": "digits/big",
    "version": "1.2.0",
    "digest": "9f3a",
    "slices": [("train", 0, 90), ("test", 5, 10)],
    "read_config": ReadConfig(shuffle_seed=3).order_key(ordered=False, shuffle_files=True),
    "operations": ["shuffle(window=1000, seed=3)", "repeat"],
}


def test_fingerprints_are_described_in_words():
    """What is pinned here is in saved states."""
    assert fingerprint(**READER) == {
        "dataset": "digits/big",
        "version": "1.2.0",
        "digest": "9f3a",
        "slices": "train[0:90] + test[5:10]",
        "read_config": "block=16, cycle=16, reshuffle=1, seed=3",
        "operations": "shuffle(window=1000, seed=3) | repeat",
    }


def test_long_parts_are_hashed_but_still_differ():
    many = [("train", i, i + 1) for i in range(1000)]
    parts = fingerprint(**READER | {"slices": many})
    others = fingerprint(**READER | {"slices": [*many[:-1], ("train", 0, 1)]})
    assert parts["slices"].startswith("train[0:1] + train[1:2]")
    assert len(parts["slices"]) < 130
    assert parts["slices"] != others["slices"]


@given(st.integers(0, 2**62), st.integers(0, 1000))
def test_goes_through_json(position, epoch):
    state = ReadState(position, epoch, fingerprint(**READER))
    text = json.dumps(state.to_dict())
    assert len(text) < 500
    assert ReadState.from_dict(json.loads(text)) == state
    assert pickle.loads(pickle.dumps(state)) == state
    ReadState.from_dict(json.loads(text)).check(fingerprint(**READER), num_examples=2**62)


@pytest.mark.parametrize(
    "changed,said",
    [
        ({"dataset": "digits"}, "dataset was 'digits/big' and is 'digits' now"),
        ({"version": "1.3.0"}, "version was '1.2.0' and is '1.3.0' now"),
        ({"digest": "0000"}, "digest was '9f3a' and is '0000' now"),
        ({"slices": [("train", 0, 91)]}, r"slices was 'train\[0:90\] \+ test\[5:10\]' and is 'train\[0:91\]' now"),
        ({"read_config": {"cycle": 1, "block": 16}}, "read_config was .* and is 'block=16, cycle=1' now"),
        ({"operations": []}, r"operations was 'shuffle\(window=1000, seed=3\) \| repeat' and is '' now"),
        ({"version": "2", "digest": "1"}, "version was '1.2.0' and is '2' now; digest was '9f3a' and is '1' now"),
    ],
)
def test_errors_name_what_differs(changed, said):
    state = ReadState(7, 0, fingerprint(**READER))
    with pytest.raises(StateError, match=said) as caught:
        state.check(fingerprint(**READER | changed), num_examples=95)
    unchanged = set(READER) - set(changed)
    assert not any(f"{name} was" in str(caught.value) for name in unchanged)


def test_parts_that_only_one_side_has():
    with pytest.raises(StateError, match="new was not there and is '1' now"):
        ReadState(0, 0, {"dataset": "a"}).check({"dataset": "a", "new": "1"}, num_examples=1)
    with pytest.raises(StateError, match="old was '1' and is not there now"):
        ReadState(0, 0, {"dataset": "a", "old": "1"}).check({"dataset": "a"}, num_examples=1)


def test_position_lies_in_the_epoch():
    ReadState(95).check({}, num_examples=95)
    with pytest.raises(StateError, match="position is 96, but an epoch has 95 examples"):
        ReadState(96).check({}, num_examples=95)


@pytest.mark.parametrize(
    "state,said",
    [
        (None, "a state is a dict with 'epoch', 'fingerprint', 'format', 'position', got None"),
        ('{"position": 3}', "a state is a dict with"),
        ({}, "got one with nothing in it"),
        ({"position": 3}, "got one with 'position'"),
        ({**ReadState().to_dict(), "more": 1}, "got one with .*'more'"),
        ({**ReadState().to_dict(), "format": 4}, "has format 4, but this version of beam_datasets reads format 2 and"),
        ({**ReadState().to_dict(), "format": 2}, "a state is a dict with 'blocks', 'epoch'"),
        ({**ReadState().to_dict(), "format": 2, "blocks": [[2, 4, 4, 0]]}, "taken must be less than block, 4, got 4"),
        ({**ReadState().to_dict(), "format": 2, "blocks": [[0, 8, 1, 0]]}, "must be at least 1"),
        ({**ReadState().to_dict(), "format": 2, "blocks": [[2, 4]]}, "expected lists of four numbers"),
        ({**ReadState().to_dict(), "format": 2, "blocks": 7}, "expected lists of four numbers"),
        ({**ReadState().to_dict(), "position": -1}, "position must be at least 0, got -1"),
        ({**ReadState().to_dict(), "position": 1.0}, "position must be an int, got 1.0"),
        ({**ReadState().to_dict(), "epoch": True}, "epoch must be an int, got True"),
        ({**ReadState().to_dict(), "fingerprint": "abc"}, "fingerprint must be a dict, got 'abc'"),
    ],
)
def test_values_that_are_not_states_are_refused(state, said):
    with pytest.raises(StateError, match=said):
        ReadState.from_dict(state)


def test_is_a_value():
    parts = {"dataset": "a"}
    state = ReadState(1, 2, parts)
    parts["dataset"] = "b"
    assert state.fingerprint == {"dataset": "a"}
    assert hash(state) == hash(ReadState(1, 2, {"dataset": "a"}))
