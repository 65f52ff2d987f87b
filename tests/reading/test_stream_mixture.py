"""Mixtures of streams against lists and loops, resumed at every position, and divided among workers."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from tests.cases import cases
from tests.facts import raises_with
from tests.reading.mixtures import sources_of
from tests.reading.resuming import plain, resumes_everywhere

LENGTHS = {"a": [4, 0, 5], "b": [3, 2], "c": [3]}


@pytest.fixture(scope="module")
def builder(write: Any) -> Any:
    return bd.builder_from_directory(write(LENGTHS))


@pytest.fixture(scope="module")
def larger(write: Any) -> Any:
    """The same with a few items for each of three workers."""
    return bd.builder_from_directory(write({"a": [7, 0, 12], "b": [9, 8], "c": [11]}))


def numbered(builder: Any, split: str) -> Any:
    """The examples of a split as numbers, from 0, 100 or 200 on, in an order that depends on the epoch."""
    start = 100 * list(LENGTHS).index(split)
    return builder.as_dataset(split).map(lambda example: start + int(example["id"])).shuffle(seed=start)


def is_odd(value: int) -> bool:
    return value % 2 == 1


def twice(value: int) -> list[int]:
    return [value] * (value % 3)


STREAMS: dict[str, Callable[[Any], Any]] = {
    "all": lambda ds: ds,
    "filtered": lambda ds: ds.filter(is_odd),
    "parts": lambda ds: ds.flat_map(twice),
    "repeated before": lambda ds: ds.repeat(2).filter(is_odd),
}


def expected(parts: list[Any], sources: Iterable[int], stop: str, epoch: int) -> list[int]:
    """Returns what a mixture yields, one item after the other."""
    items = [list(part.iterate(epoch=epoch)) for part in parts]
    epochs = [epoch] * len(parts)
    has_ended = [False] * len(parts)
    found: list[int] = []
    for source in sources:
        if not items[source]:
            has_ended[source] = True
            if stop == "first" or all(has_ended):
                break
            epochs[source] += 1
            items[source] = list(parts[source].iterate(epoch=epochs[source]))
        found.append(items[source].pop(0))
    return found


def mixture(builder: Any, kinds: list[str], weights: list[float], seed: int, stop: str) -> tuple[Any, list[Any]]:
    parts = [STREAMS[kind](numbered(builder, split)) for kind, split in zip(kinds, LENGTHS)]
    parts[0] = parts[0].filter(lambda value: value >= 0)  # one of them is a stream
    return bd.mix(parts, weights=weights, seed=seed, stop=stop), parts


def whole_epochs(part: Any, kind: str) -> Any:
    """Returns a source whose repetitions are one epoch."""
    return part._base.skip(0).filter(is_odd) if kind == "repeated before" else part


@given(
    st.lists(st.sampled_from(list(STREAMS)), min_size=3, max_size=3),
    st.lists(st.sampled_from([1, 2, 0.3]), min_size=3, max_size=3),
    st.integers(0, 3),
    st.sampled_from(["first", "all"]),
    st.integers(0, 1),
)
@cases(15, in_full=45)
def test_yields_what_loops_yield(builder: Any, kinds: Any, weights: Any, seed: int, stop: str, epoch: int) -> None:
    mixed, parts = mixture(builder, kinds, weights, seed, stop)
    wanted = expected(list(map(whole_epochs, parts, kinds)), sources_of(weights, seed), stop, epoch)
    assert list(mixed.iterate(epoch=epoch)) == wanted
    iterator = mixed.iterate(epoch=epoch)
    for position in range(len(wanted) + 1):
        state = json.loads(json.dumps(iterator.get_state()))
        again = mixed.iterate(state=state)
        assert again.get_state() == state
        assert list(itertools.islice(again, 7)) == wanted[position : position + 7]
        assert list(itertools.islice(iterator, 1)) == wanted[position : position + 1]


@pytest.mark.parametrize("stop", ["first", "all", "never"])
def test_operations_on_a_mixture(builder: Any, stop: str) -> None:
    mixed, parts = mixture(builder, ["filtered", "parts", "all"], [1, 2, 1], 3, stop)
    wanted = list(itertools.islice(mixed, 70))
    assert wanted == expected(parts, sources_of([1, 2, 1], 3), stop, 0)[:70] if stop != "never" else len(wanted) == 70
    rows = [batch.tolist() for batch in itertools.islice(mixed.batch(4), 8)]
    assert list(itertools.chain(*rows)) == wanted[:32]
    assert list(itertools.islice(mixed.filter(is_odd), 20)) == list(filter(is_odd, wanted))[:20]
    assert list(mixed.skip(3).take(9)) == wanted[3:12]
    assert list(
        itertools.islice(
            pickle.loads(pickle.dumps(bd.mix([builder.as_dataset("a").batch(2).filter(any)], weights=[1]))), 1
        )
    )
    resumes_everywhere(mixed.batch(3), most=7)
    resumes_everywhere(mixed.flat_map(twice).batch(3).filter(lambda batch: batch.sum() % 3 > 0), most=7)
    packed = mixed.map(lambda value: {"t": np.full(value % 4 + 1, value)}).chunk(3, ["t"]).pack(8, ["t"], num_bins=3)
    resumes_everywhere(packed.batch(2), most=4)
    if stop != "never":
        epochs = [list(mixed.iterate(epoch=epoch)) for epoch in range(2)]
        assert list(mixed.repeat(2)) == epochs[0] + epochs[1]
        resumes_everywhere(mixed.batch(3).repeat(2), most=12)


def test_mixtures_of_mixtures(builder: Any) -> None:
    inner, _ = mixture(builder, ["filtered", "parts", "all"], [1, 2, 1], 3, "all")
    other = numbered(builder, "b")
    wanted = expected([inner, other], sources_of([3, 1], 0), "first", 0)
    outer = bd.mix({inner: 3, other: 1})
    assert list(outer) == wanted
    resumes_everywhere(outer.batch(2), most=12)


@pytest.mark.parametrize("count", [2, 3])
def test_workers_mix_their_own_parts(larger: Any, count: int) -> None:
    mixed, parts = mixture(larger, ["filtered", "parts", "all"], [2, 2, 1], 1, "all")
    seen: set[int] = set()
    for worker in range(count):
        own = mixed.shard(worker, count)
        wanted = expected([part.shard(worker, count) for part in parts], sources_of([2, 2, 1], 1), "all", 0)
        assert list(own) == list(mixed._part_of_worker(worker, count, None)) == wanted
        seen |= set(wanted)
        resumes_everywhere(own.batch(2), most=6)
    assert seen == {item for part in parts for item in part}
    with raises_with(bd.errors.StateError, got=["worker", "'0 of 2'", "'1 of 2'"]):
        mixed.shard(1, 2).iterate(state=mixed.shard(0, 2).iterate().get_state())


def test_packed_sources_with_their_names(builder: Any) -> None:
    parts = [
        numbered(builder, split).map(lambda value: {"t": np.full(value % 4 + 1, value)}).pack(6, ["t"])
        for split in ("a", "b")
    ]
    mixed = bd.mix(parts, weights=[1, 1], source_key="from", names=["x", "y"], stop="all")
    found = list(mixed)
    assert {row["from"] for row in found} == {b"x", b"y"}
    for name, part, first in ((b"x", parts[0], 0), (b"y", parts[1], 100)):
        own = [row["t"].tolist() for row in found if row["from"] == name]
        assert own[: len(list(part))] == [row["t"].tolist() for row in part]
        assert all(token == 0 or token // 100 == first // 100 for row in own for token in row)
    resumes_everywhere(mixed.batch(2), most=8)


def test_a_schedule_of_streams(builder: Any) -> None:
    a, b = (numbered(builder, split).filter(lambda value: True) for split in "ab")
    mixed = bd.mix([a, b], schedule=[(0, [1, 0]), (6, [1, 2])], stop="never")
    assert [value // 100 for value in itertools.islice(mixed, 12)][:6] == [0] * 6
    assert sorted(value // 100 for value in itertools.islice(mixed.skip(6), 3)) == [0, 1, 1]
    resumes_everywhere(mixed, most=15)


def test_an_error_leaves_the_mixture_where_it_is(builder: Any) -> None:
    failed: set[int] = set()

    def once(value: int) -> int:
        if value % 2 == 0 and value not in failed:
            failed.add(value)
            raise RuntimeError("once")
        return value

    parts = [numbered(builder, split) for split in "ab"]
    wanted = list(bd.mix([part.filter(lambda value: True) for part in parts], weights=[1, 1]))
    mixed = bd.mix([part.filter(lambda value: once(value) >= 0) for part in parts], weights=[1, 1])
    mixed = mixed.map(lambda value: once(value + 1) - 1).batch(1)
    found: list[int] = []
    iterator, errors = iter(mixed), 0
    while len(found) < len(wanted):
        try:
            found += next(iterator).tolist()
        except RuntimeError:
            errors += 1
            iterator = mixed.iterate(state=json.loads(json.dumps(iterator.get_state()))) if errors % 2 else iterator
    assert found == wanted
    assert errors == len(failed) > 5


def test_states_of_others_are_refused(builder: Any) -> None:
    mixed, parts = mixture(builder, ["filtered", "parts", "all"], [1, 2, 1], 3, "all")
    iterator = mixed.batch(4).iterate()
    next(iterator)
    state = iterator.get_state()
    assert plain(next(mixed.batch(4).iterate(state=state))) == plain(next(iterator))
    operations = ["operations was 'mix(", "and is 'mix(", "now"]
    others = [
        (mixed, operations),
        (bd.mix(parts, weights=[2, 1, 1], seed=3, stop="all").batch(4), ["a[0:9]=1 ", "and is", "a[0:9]=2 "]),
        (bd.mix(parts, weights=[1, 2, 1], seed=4, stop="all").batch(4), operations),
        (
            bd.mix([parts[0].filter(is_odd), *parts[1:]], weights=[1, 2, 1], seed=3, stop="all").batch(4),
            ["digest was", *operations],
        ),
    ]
    for other, got in others:
        with raises_with(bd.errors.StateError, got=got, advice=["that it was saved with"]):
            other.iterate(state=state)
    rest = {name: value for name, value in state.items() if name != "sources"}
    flipped = [{**source, "ended": not source["ended"]} for source in state["sources"]]
    iterator = mixed.batch(4).iterate()
    for _ in range(3):
        next(iterator)
    later = iterator.get_state()["sources"]
    with raises_with(bd.errors.StateError, expected=["a mixture of streams, with sources"]):
        mixed.batch(4).iterate(state=rest)
    for sources in ([], 3, [3, 3, 3]):
        with raises_with(bd.errors.StateError, field="sources", expected=["each of 3 sources"], got=repr(sources)):
            mixed.batch(4).iterate(state={**state, "sources": sources})
    for sources in (flipped, later):
        with raises_with(bd.errors.StateError, field="sources", mentions=["damaged", "checksum"]):
            mixed.batch(4).iterate(state={**state, "sources": sources})


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda s, d: bd.mix([s, d], temperature=2), ValueError, "expected sources with a length, got a stream"),
        (lambda s, d: bd.mix([s.batch(2).repeat(2)], weights=[1]), ValueError, r"has repeat\(\): give mix"),
        (
            lambda s, d: bd.mix([s, d], schedule=[(0, [1, 1]), (3, [1, 0])], stop="all"),
            ValueError,
            "expected a schedule in which each source is read to its end",
        ),
        (lambda s, d: bd.mix([s, d], weights=[1, 1]).shuffle(1), ValueError, "Shuffle its sources"),
        (lambda s, d: len(bd.mix([s, d], weights=[1, 1])), TypeError, "the number of items is unknown"),
        (lambda s, d: bd.mix([s.batch(2), d], weights=[1, 1]).shard(0, 2), ValueError, "comes before batches"),
        (lambda s, d: list(bd.mix([s, d], weights=[1, 1], source_key="k", names="ab")), TypeError, "that are dicts"),
        (lambda s, d: bd.mix([s, d], weights=[1, 1], source_key=3, names="ab"), TypeError, "must be a str, got 3"),
        (lambda s, d: bd.mix([s, d], weights=[1, 1], source_key="id", names="ab"), ValueError, "'id', a feature"),
        (
            lambda s, d: list(bd.mix([s.filter(lambda value: False), d], weights=[1, 1], stop="all")),
            ValueError,
            "expected items of source number 0 in epoch 0, got none",
        ),
    ],
)
def test_refuses(builder: Any, call: Any, error: type[Exception], words: str) -> None:
    ds = numbered(builder, "a")
    with pytest.raises(error, match=words):
        call(ds.filter(is_odd), ds)
