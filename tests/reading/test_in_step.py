"""States of workers that are asked in step, up to the end of the data and beyond it, against dealing out a list."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import beam_datasets as bd

COUNTS = st.integers(1, 5)


@pytest.fixture(scope="module")
def train(write: Any) -> Any:
    return bd.builder_from_directory(write({"train": [7, 0, 12, 4]})).as_dataset("train").map(lambda e: int(e["id"]))


def flat(items: Any) -> list[int]:
    return [int(number) for item in items for number in np.ravel(item)]


def after_steps(iterators: list[Any], steps: int) -> list[int]:
    """What they give when each is asked so often, one that has none left too."""
    return flat(item for _ in range(steps) for iterator in iterators for item in itertools.islice(iterator, 1))


def states(iterators: list[Any]) -> list[Any]:
    return [json.loads(json.dumps(iterator.get_state())) for iterator in iterators]


def goes_on(ds: Any, whole: list[int], first: int, state: Any, count: int) -> None:
    """Checks that any number of workers gets whole[first:] from the state on."""
    parts = [list(ds.shard(worker, count).iterate(state=state)) for worker in range(count)]
    assert parts == [whole[first:][worker::count] for worker in range(count)]


@settings(max_examples=200)
@given(st.integers(0, 23), st.integers(1, 3), COUNTS, st.integers(0, 25), COUNTS)
@example(length=5, epochs=1, workers=4, steps=1, others=4)
@example(length=1, epochs=1, workers=3, steps=0, others=1)
def test_any_worker_says_the_same(train: Any, length: int, epochs: int, workers: int, steps: int, others: int) -> None:
    ds = train.take(length).shuffle(seed=2).repeat(epochs)
    whole = list(ds)
    iterators = [iter(ds.shard(worker, workers)) for worker in range(workers)]
    before = after_steps(iterators, steps)
    assert before == whole[: workers * steps]
    for state in states(iterators):
        assert state["epoch"] * length + state["position"] == len(before)
        goes_on(ds, whole, len(before), state, others)


@settings(max_examples=300)
@given(st.integers(0, 23), st.booleans(), COUNTS, st.integers(1, 4), st.integers(1, 3), st.integers(0, 9), COUNTS)
@example(length=11, twice=False, workers=2, size=3, parts=1, steps=2, others=3)
@example(length=13, twice=False, workers=2, size=3, parts=1, steps=2, others=2)
@example(length=14, twice=True, workers=2, size=4, parts=2, steps=7, others=2)
def test_in_batches_and_blocks(
    train: Any, length: int, twice: bool, workers: int, size: int, parts: int, steps: int, others: int
) -> None:
    """With blocks of 1 and of a worker's batch, or of an even part of it."""
    ds = train.take(length).shuffle(seed=2)
    ds = ds.repeat(2) if twice else ds
    whole = list(ds)
    for block in (1, size):
        shares = [ds.shard(worker, workers, block=block).batch(size * parts) for worker in range(workers)]
        iterators = [iter(share) for share in shares]
        before = after_steps(iterators, steps)
        assert sorted(before) == sorted(whole[: workers * size * parts * steps])
        for state in states(iterators):
            goes_on(ds, whole, len(before), state, others)
            again = [share.iterate(state=state) for share in shares]
            assert states(again) == [state] * workers  # also of a worker that has none left
            assert sorted(before + after_steps(again, len(whole))) == sorted(whole)


@settings(max_examples=200)
@given(st.integers(0, 23), COUNTS, st.integers(1, 4), st.integers(0, 9), COUNTS)
@example(length=11, workers=2, size=3, steps=2, others=2)
def test_what_is_left_out_is_the_remainder_only(
    train: Any, length: int, workers: int, size: int, steps: int, others: int
) -> None:
    """All that comes before the state was yielded, but for remainders of workers that have a batch less."""
    ds = train.take(length).shuffle(seed=2)
    whole = list(ds)
    shares = [ds.shard(worker, workers).batch(size, drop_remainder=True) for worker in range(workers)]
    iterators = [iter(share) for share in shares]
    before = after_steps(iterators, steps)
    most = min(steps, len(shares[0]))
    first = min(length, most * size * workers)
    remainders = [
        whole[worker::workers][len(share) * size :] for worker, share in enumerate(shares) if len(share) < most
    ]
    assert sorted(before + flat(remainders)) == sorted(whole[:first])
    for state in states(iterators):
        assert state["position"] == first
        goes_on(ds, whole, first, state, others)


@settings(max_examples=200)
@given(st.integers(0, 23), COUNTS, COUNTS, st.integers(1, 4), st.integers(0, 9), COUNTS)
def test_divided_batches_and_parts(
    train: Any, length: int, workers: int, inner: int, size: int, steps: int, others: int
) -> None:
    ds = train.take(length).shuffle(seed=2)
    whole = list(ds)
    batches = [ds.batch(size).shard(worker, workers) for worker in range(workers)]
    parts = [ds.shard(i, inner).shard(worker, workers) for worker in range(workers) for i in range(inner)]
    for shares in (batches, parts):
        iterators = [iter(share) for share in shares]
        before = after_steps(iterators, steps)
        assert before == whole[: len(before)]
        for state in states(iterators):
            goes_on(ds, whole, len(before), state, others)


@settings(max_examples=200)
@given(st.integers(0, 23), COUNTS, st.integers(2, 5), st.integers(0, 25), st.integers(1, 3), COUNTS)
@example(length=14, workers=2, block=4, steps=6, size=1, others=1)
def test_in_the_middle_of_blocks_a_state_is_refused(
    train: Any, length: int, workers: int, block: int, steps: int, size: int, others: int
) -> None:
    """It is an error for all that have not ended; where worker 0 has a state, those of all are the same."""
    ds = train.take(length)
    whole = list(ds)
    shares = [ds.shard(worker, workers, block=block).batch(size) for worker in range(workers)]
    iterators = [iter(share) for share in shares]
    before = after_steps(iterators, steps)
    try:
        iterators[0].get_state()
    except bd.errors.StateError:
        assert steps * size % block
        for share, iterator in zip(shares, iterators):
            if steps <= len(share):
                with pytest.raises(bd.errors.StateError, match=f"the workers have taken . of a block of {block}"):
                    iterator.get_state()
        return
    for state in states(iterators):
        goes_on(ds, whole, len(before), state, others)


def test_one_that_was_not_asked_in_vain_does_not_say_the_end(train: Any) -> None:
    short = iter(train.take(10).shard(3, 4))
    assert len(list(itertools.islice(short, 2))) == 2
    assert short.get_state()["position"] == 8
    assert list(train.take(10).shard(3, 4).iterate(state=short.get_state())) == []
    short.advance(0)
    assert short.get_state()["position"] == 8
    assert list(short) == []
    assert short.get_state()["position"] == 10
    short.advance(0)
    short.close()
    assert short.get_state()["position"] == 10
    short.set_state({**short.get_state(), "position": 8})
    assert short.get_state()["position"] == 8
    short.advance(1)
    assert short.get_state()["position"] == 10


def test_a_failing_example_is_not_the_end(train: Any) -> None:
    def fails(number: int) -> int:
        raise RuntimeError(number)

    iterator = iter(train.take(5).map(fails).shard(1, 2))
    iterator.advance(1)
    with pytest.raises(RuntimeError):
        next(iterator)
    assert iterator.get_state()["position"] == 2
