"""`shard(..., even=...)`: all workers get the same number of whole batches; against lists."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
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


@settings(max_examples=60)
@given(
    length=st.integers(1, N),
    worker_count=st.integers(1, 3),
    block=st.integers(1, 6),
    even=st.sampled_from(["drop", "pad"]),
    size=st.integers(1, 3),
    is_batched_first=st.booleans(),
    data=st.data(),
)
@example(length=23, worker_count=1, block=6, even="drop", size=1, is_batched_first=False, data=None)
def test_resumes_in_the_middle_of_blocks(
    items: Any, length: int, worker_count: int, block: int, even: str, size: int, is_batched_first: bool, data: Any
) -> None:
    """Of one worker, too: the blocks do not begin anew where it stopped."""
    train = items.take(length)
    worker = 0 if data is None else data.draw(st.integers(0, worker_count - 1))
    if is_batched_first:
        dataset = train.batch(size).shard(worker, worker_count, block=block, even=even)
    else:
        dataset = train.shard(worker, worker_count, block=block, even=even).map(lambda item: np.array([item]))
    examples_per_block = block * size if is_batched_first else block
    multiple = worker_count * examples_per_block
    num_examples = length - length % multiple if even == "drop" else length + -length % multiple
    used = [position % length for position in range(num_examples)]
    blocks = [used[start : start + examples_per_block] for start in range(0, num_examples, examples_per_block)]
    expected = [position for block in blocks[worker::worker_count] for position in block]
    for num_steps in range(len(dataset) + 1):
        iterator = iter(dataset)
        before = [position for batch in numbers(itertools.islice(iterator, num_steps)) for position in batch]
        assert before == expected[: len(before)]
        state = json.loads(json.dumps(iterator.get_state()))
        after = [position for batch in numbers(dataset.iterate(state=state)) for position in batch]
        if state["position"] < length:  # a state is of the dataset, which has no padding
            assert after == expected[len(before) :]


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


@pytest.mark.parametrize("even", [None, "drop", "pad"])
@pytest.mark.parametrize("block", [None, 16])
def test_a_state_in_blocks_continues_where_they_are_divided_otherwise(items: Any, block: int | None, even: Any) -> None:
    """Items that are left were lost or came twice if no whole block of them is left, but one was partly taken."""
    num_ranks, times = 3, 140
    epochs = items.repeat(times)
    order = list(epochs)
    num_in_blocks = len(order) - len(order) % (num_ranks * 16)  # 4 items are left
    for num_taken in range(5):
        workers = [iter(epochs.shard(worker, num_ranks, block=16)) for worker in range(num_ranks)]
        for worker in workers:
            worker.advance(num_in_blocks // num_ranks)
        taken = [list(itertools.islice(worker, num_taken)) for worker in workers]
        assert taken == [order[num_in_blocks : num_in_blocks + num_taken], [], []]
        state = json.loads(json.dumps(workers[0].get_state()))
        untaken = order[num_in_blocks + num_taken :]
        shares = [epochs.shard(worker, num_ranks, block=block, even=even) for worker in range(num_ranks)]
        states = [share.iterate(state=state).get_state() for share in shares]
        assert [list(epochs.iterate(state=saved)) for saved in [state, *states]] == [untaken] * 4
        rest = [item for share in shares for item in share.iterate(state=state)]
        if even is None:
            assert sorted(rest) == sorted(untaken)
        elif even == "drop":
            assert len(rest) == (0 if block else len(untaken) // num_ranks * num_ranks)
            assert set(rest) <= set(untaken)


def test_a_state_in_blocks_is_kept_if_all_items_are_left_out(items: Any) -> None:
    five = items.take(5)
    workers = [iter(five.shard(worker, 3, block=6)) for worker in range(3)]
    assert [list(itertools.islice(worker, 3)) for worker in workers] == [[0, 1, 2], [], []]
    state = workers[0].get_state()
    for worker in range(3):
        iterator = five.shard(worker, 3, block=6, even="drop").iterate(state=state)
        assert iterator.get_state() == state
        assert list(iterator) == []
        assert iterator.get_state() == state
        assert list(five.iterate(state=iterator.get_state())) == [3, 4]
