"""States: those of an earlier version go on as then, and one of another order is refused before any example."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.adapters import torch_data
from beam_datasets.adapters.torch_data import Divided
from beam_datasets.errors import StateError

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
    """R1, R4: they are of the same order, and are accepted, whatever the default block of a worker is now."""
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
    """R4: a worker of a DataLoader goes on with the blocks that its state has, where the size is left to us."""
    state = saved["state"]
    monkeypatch.setattr(torch_data, "_worker", lambda: (state["worker"], state["workers"], 1))
    for block in (saved["block"], None):
        dataset = Divided(opened().shuffle(5), rank=0, num_ranks=1, block=block, drop_remainder=False)
        dataset.load_state_dict(state)
        iterator = iter(dataset)
        assert flat(itertools.islice(iterator, 100)) == saved["rest"]
        assert dataset.state_dict() == {**state, "taken": state["taken"] + len(saved["rest"])}


def test_order_counts_and_not_the_function() -> None:
    """R1: functions that give the same order of files are interchangeable; others are refused before any example."""

    def backwards(files: list[Any]) -> list[Any]:
        return files[::-1]

    iterator = iter(opened(backwards))
    before = list(itertools.islice(iterator, 30))
    state = json.loads(json.dumps(iterator.get_state()))
    same = opened(lambda files: sorted(files, key=lambda file: file.filename, reverse=True))
    assert before + list(same.iterate(state=state)) == list(opened(backwards))
    others: list[Any] = [lambda files: files[1:] + files[:1], lambda files: files[::-1][:3], lambda files: files, None]
    for other in others:
        with pytest.raises(StateError, match=r"read_config was 'block=16, cycle=16, order=SHA-256 .* and is"):
            opened(other).iterate(state=state)
    plain = iter(opened())
    next(plain)
    assert list(opened(lambda files: files).iterate(state=plain.get_state())) == list(plain)


def test_state_that_names_a_function_is_refused() -> None:
    """R1: an earlier version saved the name of the function, which says nothing of the order."""
    state = STATES["sorted"]["state"]
    dataset = opened(lambda files: files[::-1])
    with pytest.raises(StateError, match=r"sort=<lambda>.*put the fingerprint that a new iterator's get_state\(\) has"):
        dataset.iterate(state=state)
    state = {**state, "fingerprint": dataset.iterate().get_state()["fingerprint"]}
    assert list(dataset.iterate(state=state)) == list(dataset)[20:]


def test_function_is_called_once() -> None:
    """R1: a function that gives another order each time has one order for each dataset, which its states know."""
    calls = []

    def turned(files: list[Any]) -> list[Any]:
        calls.append(1)
        return files[len(calls) :] + files[: len(calls)]

    first = opened(turned).repeat(3)
    iterator = iter(first)
    before = list(itertools.islice(iterator, 400))
    assert before + list(first.iterate(state=iterator.get_state())) == list(first)
    assert len(calls) == 1
    with pytest.raises(StateError, match="read_config was"):
        opened(turned).iterate(state=iterator.get_state())
