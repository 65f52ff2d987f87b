"""Random chains of operations on a slice, at any epoch and resumed anywhere, against the same on plain lists."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.reading.index.permutations import RangeShuffle, WindowShuffle
from tests.cases import cases

LENGTHS = [40, 0, 7, 53, 20]
MAX_ITEMS = 600

Epoch = Callable[[int], list[Any]]
"""The items of each epoch."""


@pytest.fixture(scope="module")
def builder(write: Any) -> Any:
    return bd.builder_from_directory(write({"train": LENGTHS}))


def shuffled(items: Epoch, seed: int, window: int | None) -> Epoch:
    def epoch_items(epoch: int) -> list[Any]:
        before = items(epoch)
        if window is None:
            order: Any = RangeShuffle(len(before), seed, epoch)
        else:
            order = WindowShuffle(len(before), window, seed, epoch)
        return [before[i] for i in order.sources(range(len(before))).tolist()] if before else []

    return epoch_items


def repeated(items: Epoch, times: int) -> Epoch:
    return lambda epoch: [item for i in range(times) for item in items(epoch * times + i)]


def sharded(items: list[Any], worker: int, count: int, block: int | None, batch_size: int | None = None) -> list[Any]:
    """Deals out blocks; without a size those of the batches that follow, or small ones; then the last items singly."""
    if block is not None:
        return [item for i, item in enumerate(items) if i // block % count == worker]
    block = batch_size or 1 << min(16, max(1, len(items) // (count * 64))).bit_length() - 1
    rounds = len(items) // (block * count) * block * count
    return sharded(items[:rounds], worker, count, block) + items[rounds:][worker::count]


def batched(items: list[Any], size: int, drop: bool) -> list[Any]:
    stop = len(items) // size * size if drop else len(items)
    return [items[start : start + size] for start in range(0, stop, size)]


def applied(dataset: Any, items: Epoch, step: tuple[Any, ...], batch_size: int | None = None) -> tuple[Any, Epoch]:
    """Returns the dataset and the model with one more operation, which batches of a size follow, if it is given."""
    name, *arguments = step
    if name == "shuffle":
        seed, window = arguments
        return dataset.shuffle(seed, window=window), shuffled(items, seed, window)
    if name == "repeat":
        return dataset.repeat(*arguments), repeated(items, *arguments)
    if name == "skip":
        return dataset.skip(*arguments), lambda epoch: items(epoch)[arguments[0] :]
    if name == "take":
        return dataset.take(*arguments), lambda epoch: items(epoch)[: arguments[0]]
    if name == "shard":
        worker, count, block = arguments
        return dataset.shard(worker, count, block=block), (
            lambda epoch: sharded(items(epoch), worker, count, block, batch_size)
        )
    size, drop = arguments
    return dataset.batch(size, drop_remainder=drop), lambda epoch: batched(items(epoch), size, drop)


SHARDS = st.integers(1, 4).flatmap(
    lambda count: st.tuples(st.just("shard"), st.integers(0, count - 1), st.just(count), st.none() | st.integers(1, 9))
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("shuffle"), st.integers(0, 99), st.none() | st.integers(1, 60)),
        st.tuples(st.just("repeat"), st.integers(1, 3)),
        st.tuples(st.just("skip"), st.integers(0, 30)),
        st.tuples(st.just("take"), st.integers(0, 90)),
        SHARDS,
    ),
    max_size=5,
)
SLICES = st.sampled_from(["train", "train[10%:70%]", "train[-33:]", "train[:5]", "train[7:8]", "train[50:]+train[:20]"])


def as_lists(item: Any) -> Any:
    return [as_lists(part) for part in item] if getattr(item, "ndim", 0) else int(item)


@cases(200)
@given(
    part=SLICES,
    steps=STEPS,
    batch=st.none() | st.tuples(st.just("batch"), st.integers(1, 9), st.booleans()),
    epoch=st.integers(0, 2),
    stops=st.lists(st.integers(0, 200), min_size=1, max_size=3),
)
def test_chains_of_operations(
    builder: Any, part: str, steps: list[tuple[Any, ...]], batch: tuple[Any, ...] | None, epoch: int, stops: list[int]
) -> None:
    dataset: Any = builder.as_dataset(part).map(lambda example: example["id"])
    order = [int(number) for number in dataset]
    items: Epoch = lambda _: order  # noqa: E731
    for number, step in enumerate(steps, start=1):
        batch_size = batch[1] if batch and number == len(steps) else None
        dataset, items = applied(dataset, items, step, batch_size)
    if batch:
        dataset, items = applied(dataset, items, batch)
    ordered = [name for name, *_ in steps if name != "shard"]
    if ordered and ordered[-1] == "repeat":
        epoch = 0  # it has one, and `epoch=` is where it begins
    whole = items(epoch)
    assert [as_lists(item) for item in itertools.islice(dataset.iterate(epoch=epoch), MAX_ITEMS)] == whole[:MAX_ITEMS]
    assert len(dataset) == len(items(0))
    iterator, position = dataset.iterate(epoch=epoch), 0
    for stop in stops:  # goes on from one state to the next
        read = [as_lists(item) for item in itertools.islice(iterator, stop)]
        assert read == whole[position : position + stop]
        position += len(read)
        try:
            state = json.loads(json.dumps(iterator.get_state()))
        except bd.errors.StateError:  # a worker of a worker, in the middle of a block
            assert sum(name == "shard" for name, *_ in steps) > 1
            continue
        if any(name == "shard" for name, *_ in steps):
            continue  # the states of all workers together are in test_in_step.py
        iterator = dataset.iterate(state=state)
