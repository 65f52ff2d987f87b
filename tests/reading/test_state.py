"""Saved states: through JSON and back, those of an earlier version, those that do not fit; and moving on."""

import itertools
import json
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.adapters import torch_workers
from beam_datasets.adapters.torch_data import Divided
from beam_datasets.errors import StateError
from beam_datasets.reading.checkpoint import ReadState, fingerprint
from beam_datasets.reading.config import ReadConfig
from tests.facts import raises_with

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
    ReadState.from_dict(json.loads(text)).check(fingerprint(**READER), num_examples=2**62)


@pytest.mark.parametrize("stream", [False, True])
def test_a_file_or_its_text_is_no_state(write: Any, tmp_path: Path, stream: bool) -> None:
    """The error says how to get the state from it."""
    dataset = bd.builder_from_directory(write({"train": [5]})).as_dataset("train")
    dataset = dataset.filter(lambda example: True) if stream else dataset
    mixture = bd.mix([dataset, dataset], weights=[1, 1], names=["a", "b"])
    for reader in (dataset, mixture):
        iterator = reader.iterate()
        next(iterator)
        path = tmp_path / "state.json"
        path.write_text(json.dumps(iterator.get_state()))
        for state in (path, str(path)):
            with raises_with(
                StateError, advice=["Read the file first", f"json.loads(Path({str(path)!r}).read_text())"]
            ):
                reader.iterate(state=state)
        with raises_with(StateError, advice=["Parse the text first, by json.loads."]):
            reader.iterate(state=path.read_text())
        again = reader.iterate(state=eval(f"json.loads(Path({str(path)!r}).read_text())"))
        assert [example["id"] for example in again] == [example["id"] for example in iterator]


@pytest.mark.parametrize(
    "changed,said",
    [
        ({"dataset": "digits"}, ["dataset", "'digits/big'", "'digits'"]),
        ({"version": "1.3.0"}, ["version", "'1.2.0'", "'1.3.0'"]),
        ({"digest": "0000"}, ["digest", "'9f3a'", "'0000'"]),
        ({"slices": [("train", 0, 91)]}, ["slices", "'train[0:90] + test[5:10]'", "'train[0:91]'"]),
        ({"read_config": {"cycle": 1, "block": 16}}, ["read_config", "'block=16, cycle=1'"]),
        ({"operations": []}, ["operations", "'shuffle(window=1000, seed=3) | repeat'", "''"]),
        ({"version": "2", "digest": "1"}, ["version", "'1.2.0'", "'2'", "digest", "'9f3a'", "'1'"]),
    ],
)
def test_errors_name_what_differs(changed, said):
    state = ReadState(7, 0, fingerprint(**READER))
    with raises_with(StateError, got=said) as caught:
        state.check(fingerprint(**READER | changed), num_examples=95)
    unchanged = set(READER) - set(changed)
    assert not any(f"{name} was" in str(caught.value) for name in unchanged)


def test_parts_that_only_one_side_has():
    with raises_with(StateError, got=["new", "'1'"]):
        ReadState(0, 0, {"dataset": "a"}).check({"dataset": "a", "new": "1"}, num_examples=1)
    with raises_with(StateError, got=["old", "'1'"]):
        ReadState(0, 0, {"dataset": "a", "old": "1"}).check({"dataset": "a"}, num_examples=1)


def test_position_lies_in_the_epoch():
    ReadState(95).check({}, num_examples=95)
    with raises_with(StateError, field="position", got="96", expected=["95"]):
        ReadState(96).check({}, num_examples=95)


@pytest.mark.parametrize(
    "state,wanted",
    [
        (None, {"expected": ["'epoch', 'fingerprint', 'format', 'position'"], "got": "None"}),
        ('{"position": 3}', {"expected": ["a state"], "got": ["position"]}),
        ({}, {"expected": ["'epoch'"], "got": ["nothing"]}),
        ({"position": 3}, {"expected": ["'epoch'"], "got": ["'position'"]}),
        ({**ReadState().to_dict(), "more": 1}, {"got": ["'more'"]}),
        ({**ReadState().to_dict(), "format": 5}, {"field": "format", "expected": ["2"], "got": "5"}),
        ({**ReadState().to_dict(), "format": 2}, {"expected": ["'blocks', 'epoch'"]}),
        (
            {**ReadState().to_dict(), "format": 2, "blocks": [[2, 4, 4, 0]]},
            {"field": "blocks", "mentions": ["taken", "less than block, 4,", "got 4"]},
        ),
        (
            {**ReadState().to_dict(), "format": 2, "blocks": [[0, 8, 1, 0]]},
            {"field": "blocks", "mentions": ["worker_count", "1", "got 0"]},
        ),
        ({**ReadState().to_dict(), "format": 2, "blocks": [[2, 4]]}, {"field": "blocks", "got": "[[2, 4]]"}),
        ({**ReadState().to_dict(), "format": 2, "blocks": 7}, {"field": "blocks", "got": "7"}),
        (
            {**ReadState().to_dict(), "format": 2, "blocks": [[2, 0, 4, 0]]},
            {"field": "blocks", "mentions": [" block ", "1", "got 0."]},
        ),
        ({**ReadState().to_dict(), "position": -1}, {"mentions": ["position", "-1"]}),
        ({**ReadState().to_dict(), "position": 1.0}, {"mentions": ["position", "int", "1.0"]}),
        ({**ReadState().to_dict(), "epoch": True}, {"mentions": ["epoch", "int", "True"]}),
        ({**ReadState().to_dict(), "fingerprint": "abc"}, {"field": "fingerprint", "got": "'abc'"}),
    ],
)
def test_values_that_are_not_states_are_refused(state, wanted):
    with raises_with(StateError, **wanted):
        ReadState.from_dict(state)


# States: those of an earlier version go on as then, and one of another order is refused before any example


SAVED = Path(__file__).parent.parent / "data" / "states"
"""A dataset of 300 examples, and states that were saved when `shard()` divided by single examples by default."""

STATES = json.loads((SAVED / "states.json").read_text())
WAYS = [name for name in STATES if name not in ("sorted", "torch")]


def opened(sort: Callable[[list[Any]], Sequence[Any]] | None = None, config: Any = None, **options: Any) -> Any:
    config = bd.ReadConfig(interleave_sort_fn=sort, **(config or {}))
    builder = bd.builder_from_directory(SAVED / "digits" / "1.0.0")
    return builder.as_dataset("train", read_config=config, **options).map(lambda example: example["id"])


def flat(items: Any) -> list[int]:
    return [int(number) for item in items for number in np.ravel(item)]


def chained(dataset: Any, operations: list[list[Any]]) -> Any:
    for name, *arguments in operations:
        if name == "shard":
            dataset = dataset.shard(*arguments[:2], block=(*arguments, None)[2])
        else:
            dataset = getattr(dataset, name)(*arguments)
    return dataset


@pytest.mark.parametrize("name", WAYS)
def test_states_of_an_earlier_version(name: str) -> None:
    """They are of the same order, and are accepted, whatever the default block of a worker is now."""
    saved = STATES[name]
    base = opened(None, saved["config"], **saved["options"])
    operations = saved["operations"]
    if operations and operations[-1][0] in ("shard", "batch"):
        stream = chained(base, [operation for operation in operations if operation[0] not in ("shard", "batch")])
        workers = [stream.shard(worker, 4).batch(5).iterate(state=saved["state"]) for worker in range(4)]
        steps = 100 // 20
        got = flat(item for _ in range(steps) for worker in workers for item in itertools.islice(worker, 1))
        assert got == saved["rest"][: len(got)]
        assert len(got) == min(100, len(saved["rest"]))
    else:
        stream = chained(base, operations)
    assert flat(itertools.islice(stream.iterate(state=saved["state"]), 100)) == saved["rest"]
    chained(base, operations).iterate(state=saved["state"])


@pytest.mark.parametrize("saved", STATES["torch"], ids=lambda saved: f"block {saved['block']}")
def test_states_of_workers_of_an_earlier_version(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of a DataLoader goes on with the blocks that its state has, where the size is left to us."""
    state = saved["state"]
    monkeypatch.setattr(torch_workers, "get_worker", lambda: (state["worker"], state["workers"], 1))
    for block in (saved["block"], None):
        dataset = Divided(opened().shuffle(5), rank=0, num_ranks=1, block=block, even=None)
        dataset.load_state_dict(state)
        iterator = iter(dataset)
        assert flat(itertools.islice(iterator, 100)) == saved["rest"]
        assert dataset.state_dict() == {**state, "examples": 1, "taken": state["taken"] + len(saved["rest"])}


def test_order_counts_and_not_the_function() -> None:
    """Functions that give the same order of files are interchangeable; others are refused before any example."""

    def backwards(files: list[Any]) -> list[Any]:
        return files[::-1]

    iterator = iter(opened(backwards))
    before = list(itertools.islice(iterator, 30))
    state = json.loads(json.dumps(iterator.get_state()))
    same = opened(lambda files: sorted(files, key=lambda file: file.filename, reverse=True))
    assert before + list(same.iterate(state=state)) == list(opened(backwards))
    others: list[Any] = [lambda files: files[1:] + files[:1], lambda files: files[::-1][:3], lambda files: files, None]
    for other in others:
        with raises_with(StateError, got=["read_config", "'block=16, cycle=16, order=SHA-256 "]):
            opened(other).iterate(state=state)
    plain = iter(opened())
    next(plain)
    assert list(opened(lambda files: files).iterate(state=plain.get_state())) == list(plain)


def test_function_is_called_once() -> None:
    """A function that gives another order each time has one order for each dataset, which its states know."""
    calls = []

    def turned(files: list[Any]) -> list[Any]:
        calls.append(1)
        return files[len(calls) :] + files[: len(calls)]

    first = opened(turned).repeat(3)
    iterator = iter(first)
    before = list(itertools.islice(iterator, 400))
    assert before + list(first.iterate(state=iterator.get_state())) == list(first)
    assert len(calls) == 1
    with raises_with(StateError, got=["read_config"]):
        opened(turned).iterate(state=iterator.get_state())


# Iterators that are moved on without reading, and that know how much is left


@pytest.fixture(scope="module")
def train(write: Any) -> Any:
    return bd.builder_from_directory(write({"train": [7, 0, 12]})).as_dataset("train").map(lambda e: int(e["id"]))


@pytest.mark.parametrize("first", [0, 1, 6])
@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_goes_past_what_is_next(train: Any, first: int, count: int) -> None:
    chains = [train, train.shuffle(3), train.repeat(2), train.shard(1, 2, block=3), train.batch(4)]
    for dataset in chains:
        whole = list(map(str, dataset))
        iterator = iter(dataset)
        for _ in range(min(first, len(whole))):
            next(iterator)
        iterator.advance(count)
        assert operator.length_hint(iterator) == len(whole[first + count :])
        assert list(map(str, iterator)) == whole[first + count :]
        assert operator.length_hint(iterator) == 0


def test_endless(train: Any) -> None:
    iterator = iter(train.repeat())
    iterator.advance(10**12)
    with pytest.raises(ValueError, match="-1"):
        iterator.advance(-1)
    assert next(iterator) in range(19)


def test_a_state_of_an_epoch_that_cannot_be_reached() -> None:
    train = opened().repeat(2)
    divided = Divided(train, rank=0, num_ranks=1, block=1, even=None)
    with raises_with(StateError, mentions=["state", "epoch"]):
        divided.load_state_dict(iter(train).get_state() | {"epoch": 1 << 60})
