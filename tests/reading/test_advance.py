"""Iterators that are moved on without reading, and that know how much is left."""

import operator
from typing import Any

import pytest

import beam_datasets as bd


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


def test_state_after_moving_on(train: Any) -> None:
    iterator, other = iter(train), iter(train)
    iterator.advance(7)
    for _ in range(7):
        next(other)
    assert iterator.get_state() == other.get_state()


def test_reads_nothing(train: Any) -> None:
    iterator = train.iterate()
    iterator.advance(19)
    assert not list(iterator)
    with pytest.raises(ValueError, match="at least 0"):
        iterator.advance(-1)


def test_endless(train: Any) -> None:
    iterator = iter(train.repeat())
    iterator.advance(10**12)
    assert next(iterator) in range(19)
