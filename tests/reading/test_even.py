"""`shard(..., even=...)`: all workers get the same number of whole batches; against lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd

DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_three" / "1.2.3"
N = 23


@pytest.fixture(scope="module")
def items() -> Any:
    """A dataset whose items are the positions of the read order."""
    train = bd.builder_from_directory(DIRECTORY).as_dataset("train")
    place = {int(example["idx"]): position for position, example in enumerate(train)}
    return train.map(lambda example: place[int(example["idx"])])


def numbers(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@settings(max_examples=60)
@given(
    st.integers(0, N),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from(["drop", "pad"]),
    st.integers(0, 2),
    st.data(),
)
def test_all_workers_get_whole_batches(
    items: Any, length: int, worker_count: int, size: int, even: str, form: int, data: Any
) -> None:
    multiple, train = worker_count * size, items.take(length)
    count = length - length % multiple if even == "drop" else length + -length % multiple
    used = [place % max(length, 1) for place in range(count)]
    batches = [used[start : start + size] for start in range(0, count, size)]
    worker = data.draw(st.integers(0, worker_count - 1))
    dataset = (
        train.batch(size).shard(worker, worker_count, even=even),
        train.shard(worker, worker_count, even=even).batch(size),
        train.shard(worker, worker_count, block=size, even=even).batch(size),
    )[form]
    expected = batches[worker::worker_count]
    assert numbers(dataset) == expected
    assert len(dataset) == len(expected)
    steps = data.draw(st.integers(0, len(expected)))
    iterator = iter(dataset)
    for _ in range(steps):
        next(iterator)
    state = json.loads(json.dumps(iterator.get_state()))
    assert numbers(dataset.iterate(state=state)) == expected[steps:]


def test_examples_and_epochs(items: Any) -> None:
    shuffled = items.shuffle(seed=4)
    for epoch in range(2):
        order = list(shuffled.iterate(epoch=epoch))
        for even, expected in (("drop", order[:20]), ("pad", [*order, *order[:2]])):
            shares = [list(shuffled.shard(i, 5, even=even).iterate(epoch=epoch)) for i in range(5)]
            assert set(map(len, shares)) == {len(expected) // 5}
            assert sorted(item for share in shares for item in share) == sorted(expected)


def test_what_cannot_be_made_even(items: Any) -> None:
    assert len(items.batch(4).repeat().take(3).shard(0, 2)) == 2
    assert next(iter(items.repeat().batch(4).shard(1, 2, even="drop"))).tolist() == [4, 5, 6, 7]
    with pytest.raises(ValueError, match=r" 3.*batch\(\)"):
        items.batch(4).repeat(2).shard(0, 2, even="pad")
    with pytest.raises(ValueError, match="even .*'drop', 'pad'.*'cut'"):
        items.shard(0, 2, even="cut")
