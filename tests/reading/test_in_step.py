"""States of workers that are asked in step, up to the end of the data and beyond it, against dealing out a list."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.reading.index import division
from tests.cases import cases

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


@cases(200)
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


@pytest.mark.slow
@cases(300)
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


@cases(200)
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


@pytest.mark.slow
@cases(200)
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


@pytest.mark.slow
@cases(300)
@given(
    length=st.integers(0, 60), block=st.integers(1, 6) | st.none(), epochs=st.sampled_from([1, 3, None]),
    phases=st.lists(st.tuples(COUNTS, st.integers(0, 9), st.integers(1, 3)), max_size=5),
)  # fmt: skip
def test_elastic_in_the_middle_of_blocks(
    train: Any, length: int, block: int | None, epochs: int | None, phases: list[tuple[int, int, int]]
) -> None:
    """Any sequence of numbers of workers that go on from each other's states, at any step, takes each one once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(division, "_MIN_ROUNDS", 2)  # so that blocks are large by default, too
        ds = train.repeat(3).take(length).shuffle(seed=2)
        ds = ds if epochs == 1 else ds.repeat(epochs)
        total = length * (epochs or 3)
        whole = list(itertools.islice(ds, total))
        got: list[int] = []
        state = None
        for workers, steps, size in phases:
            shares = [ds.shard(worker, workers, block=block) for worker in range(workers)]
            shares = [share.batch(size) for share in shares] if size > 1 else shares
            if block and steps * size * workers * block > length - len(got):
                break  # at the end, a worker whose block is cut off has ended before the others
            iterators = [share.iterate(state=state) for share in shares]
            got += after_steps(iterators, steps)
            found = states(iterators)
            if epochs is not None:
                assert all(other == found[0] for other in found)
            elif len(got) > total:
                break
            again = [share.iterate(state=found[0]) for share in shares]
            assert states(again) == found
            more = [list(itertools.islice(iterator, 3)) for iterator in iterators]
            assert [flat(items) for items in more] == [flat(itertools.islice(one, 3)) for one in again]
            state = found[0]
        left = total - len(got)
        if state is None:
            rest = whole
        else:
            rest = list(itertools.islice(ds.iterate(state=state), max(0, left)))
        if epochs is not None or left >= 0:
            assert sorted(got + rest) == sorted(whole) or epochs is None
            if epochs is None:
                assert len(got + rest) == total


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
