"""Streams (filters, batches by length, packing) against lists and loops, and resumed at every position."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from tests.facts import raises_with
from tests.reading.resuming import plain, resumes_everywhere


@pytest.fixture(scope="module")
def builder(write: Any) -> Any:
    return bd.builder_from_directory(write({"train": [7, 0, 12, 5, 9]}))


def number(example: Any) -> int:
    return int(example["id"])


def is_odd(value: int) -> bool:
    return value % 2 == 1


def numbered(builder: Any) -> Any:
    return builder.as_dataset("train").map(number).shuffle(1)


# ------------------------------------------------------------------------------------- filters and fixed batches

LINKS = st.one_of(
    st.tuples(st.just("filter"), st.sampled_from([2, 3, 5])),
    st.tuples(st.just("map"), st.integers(1, 9)),
    st.tuples(st.just("skip"), st.integers(0, 9)),
    st.tuples(st.just("take"), st.integers(0, 20)),
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("batch"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("flat_map"), st.integers(1, 4)),
)


def total(item: Any) -> int:
    return sum(map(total, item)) if isinstance(item, list) else int(item)


def added(item: Any, by: int) -> Any:
    return [added(inner, by) for inner in item] if isinstance(item, list) else int(item) + by


def several(item: Any, by: int) -> list[Any]:
    """Returns from 0 to `by` - 1 items."""
    return [added(item, part) for part in range(total(item) % by)]


def linked(stream: Any, chain: list[Any]) -> Any:
    for name, *arguments in chain:
        if name == "filter":
            stream = stream.filter(lambda item, by=arguments[0]: total(plain(item)) % by != 0)
        elif name == "map":
            stream = stream.map(lambda item, by=arguments[0]: added(plain(item), by))
        elif name == "flat_map":
            stream = stream.flat_map(lambda item, by=arguments[0]: iter(several(plain(item), by)))
        elif name == "batch":
            stream = stream.map(plain).batch(arguments[0], drop_remainder=arguments[1])
        else:
            stream = getattr(stream, name)(*arguments)
    return stream


def expected(chain: list[Any], epoch: int, builder: Any) -> list[Any]:
    if not chain:
        return [item for item in numbered(builder).iterate(epoch=epoch) if is_odd(item)]
    *below, (name, *arguments) = chain
    if name == "repeat":
        times = arguments[0]
        return [item for i in range(times) for item in expected(below, epoch * times + i, builder)]
    items = expected(below, epoch, builder)
    if name == "filter":
        return [item for item in items if total(item) % arguments[0]]
    if name == "map":
        return [added(item, arguments[0]) for item in items]
    if name == "flat_map":
        return [part for item in items for part in several(item, arguments[0])]
    if name == "skip":
        return items[arguments[0] :]
    if name == "take":
        return items[: arguments[0]]
    size, drop = arguments
    groups = [items[i : i + size] for i in range(0, len(items), size)]
    return [group for group in groups if len(group) == size or not drop]


@given(chain=st.lists(LINKS, max_size=5))
@example(chain=[("batch", 3, False), ("repeat", 2)])
@example(chain=[("repeat", 3), ("batch", 4, True)])
@example(chain=[("skip", 2), ("take", 9), ("batch", 2, False), ("map", 1), ("filter", 3)])
@example(chain=[("take", 3), ("repeat", 3)])
@example(chain=[("flat_map", 4), ("flat_map", 3), ("skip", 2), ("batch", 2, False), ("flat_map", 3), ("repeat", 2)])
@settings(max_examples=40)
def test_chains(builder: Any, chain: list[Any]) -> None:
    if sum(name == "batch" for name, *_ in chain) > 1:
        return  # unequal batches do not stack
    behind = list(itertools.dropwhile(lambda link: link[0] not in ("batch", "skip", "take"), chain))
    refused = list(itertools.dropwhile(lambda link: link[0] != "repeat" or link[1] == 1, behind))[1:]
    if any(name not in ("map", "filter", "flat_map") for name, *_ in refused):
        with pytest.raises(ValueError, match=r"repeat\(\)"):
            linked(numbered(builder).filter(is_odd), chain)
        return
    stream = linked(numbered(builder).filter(is_odd), chain)
    assert [plain(item) for item in stream] == expected(chain, 0, builder)
    resumes_everywhere(stream, most=20)


def test_filters_of_all_that_comes_before(builder: Any) -> None:
    base = numbered(builder)
    assert list(base.filter(is_odd).shuffle(3)) == [item for item in base.shuffle(3) if is_odd(item)]
    assert list(base.filter(is_odd).repeat(2)) == [item for item in base.repeat(2) if is_odd(item)]
    assert [batch.tolist() for batch in base.batch(4).filter(lambda batch: is_odd(batch.sum()))] == [
        batch.tolist() for batch in base.batch(4) if is_odd(batch.sum())
    ]
    mixed = bd.mix({base: 1, base.shuffle(2): 1})
    assert list(mixed.filter(is_odd)) == [item for item in mixed if is_odd(item)]
    parts = base.flat_map(lambda value: several(value, 4))
    for worker in range(3):
        share = base.shard(worker, 3, block=2)
        assert list(parts.shard(worker, 3, block=2)) == [part for item in share for part in several(item, 4)]
    resumes_everywhere(parts.shard(1, 3).batch(3))
    shares = [list(base.filter(is_odd).shard(worker, 3)) for worker in range(3)]
    assert shares == [[item for item in base.shard(worker, 3) if is_odd(item)] for worker in range(3)]
    for stream in (
        base.filter(is_odd).shard(1, 3).batch(2),
        base.repeat().filter(is_odd),
        mixed.repeat().filter(is_odd),
    ):
        resumes_everywhere(stream)
    assert list(pickle.loads(pickle.dumps(builder.as_dataset("train").map(number).filter(is_odd)))) == [
        item for item in builder.as_dataset("train").map(number) if is_odd(item)
    ]


def test_an_error_leaves_the_iterator_where_it_is(builder: Any) -> None:
    base, failed = numbered(builder), set()

    def once(value: Any, at: int) -> Any:
        if value == at and at not in failed:
            failed.add(at)
            raise RuntimeError("once")
        return value

    order = list(base)
    wanted = [group for i in range(0, len(order), 3) for group in [order[i : i + 3]]]
    stream = base.map(lambda v: once(v, order[1])).filter(lambda v: once(v, order[4]) is not None).batch(3)
    stream = stream.map(lambda batch: [once(v, order[7]) for v in batch.tolist()])
    found: list[Any] = []
    iterator, errors = iter(stream), 0
    while len(found) < len(wanted):
        try:
            found.append(next(iterator))
        except RuntimeError:
            errors += 1
            iterator = stream.iterate(state=json.loads(json.dumps(iterator.get_state()))) if errors % 2 else iterator
    assert found == wanted
    assert errors == 3


def test_an_error_in_the_middle_of_parts(builder: Any) -> None:
    """The parts before it are yielded once, and it is raised again until it does not occur any more."""
    base, is_broken = numbered(builder), [True]
    order = list(base)

    def parts(value: int) -> Any:
        yield value
        if value == order[2] and is_broken[0]:
            raise RuntimeError("broken")
        yield -value

    stream = base.flat_map(parts)
    iterator = iter(stream)
    assert list(itertools.islice(iterator, 5)) == [order[0], -order[0], order[1], -order[1], order[2]]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            next(iterator)
    state = json.loads(json.dumps(iterator.get_state()))
    is_broken[0] = False
    wanted = [-order[2], *(sign * value for value in order[3:] for sign in (1, -1))]
    assert list(iterator) == wanted
    assert list(stream.iterate(state=state)) == wanted


def test_parts_are_made_one_at_a_time(builder: Any) -> None:
    made: list[int] = []

    def endless(value: int) -> Iterator[int]:
        for part in itertools.count():
            made.append(part)
            yield part

    iterator = iter(numbered(builder).flat_map(endless).batch(4))
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert made == list(range(8))
    state = iterator.get_state()
    assert len(json.dumps(state)) < 1000
    again = numbered(builder).flat_map(endless).batch(4).iterate(state=state)
    assert next(again).tolist() == [8, 9, 10, 11]


def test_states_of_others_are_refused(builder: Any) -> None:
    base = numbered(builder)
    stream = base.filter(is_odd)
    state = iter(stream).get_state()
    worker = iter(stream.shard(0, 2)).get_state()
    for other, wrong in (
        (base, state),
        (stream, iter(base).get_state()),
        (stream.batch(2), state),
        (stream.shuffle(1), state),
        (stream.shard(1, 2), worker),
        (stream.shard(0, 3), worker),
        (stream, {**state, "position": 10**6, "held": [{"queue": [3]}, {}]}),
        (stream, {**state, "held": [{"queue": [3]}, {}]}),
        (stream, {**state, "held": 7}),
        (stream, {**state, "position": "x"}),
    ):
        with pytest.raises(bd.errors.StateError):
            next(other.iterate(state=wrong))
    with raises_with(bd.errors.StateError, got=["worker", "'0 of 2'", "'1 of 2'"], advice=["each rank"]):
        stream.shard(1, 2).iterate(state=worker)


@pytest.mark.parametrize(
    "call,error,words",
    [
        (lambda d: d.filter(3), TypeError, r"filter\(\) takes a function"),
        (lambda d: len(d.filter(is_odd)), TypeError, r"unknown: it depends on the examples.*materialize\(where=...\)"),
        (lambda d: d.filter(is_odd)[0], TypeError, r"no ds\[i\]"),
        (lambda d: d.filter(is_odd).batch(2).shuffle(1), ValueError, "comes before batches"),
        (lambda d: d.filter(is_odd).take(2).shard(0, 2), ValueError, "comes before batches"),
        (lambda d: d.filter(is_odd).batch(2).repeat().batch(2), ValueError, r"before repeat\(\) in a stream"),
        (lambda d: d.filter(is_odd).as_tf_dataset(), AttributeError, r"Use `iter\(stream\)`: that adapter"),
        (
            lambda d: d.filter(is_odd).take(3)._part_of_worker(0, 2, None),
            ValueError,
            "expected one worker or rank, got 2",
        ),
        (lambda d: list(d.filter(lambda e: next(iter(())))), RuntimeError, "raised StopIteration"),
        (lambda d: d.flat_map(3), TypeError, r"flat_map\(\) takes a function"),
        (lambda d: d.flat_map("a"), TypeError, r"not 'a'\. The items of a feature that is a list are flat_map\("),
        (lambda d: d.map("nope"), TypeError, r"are map\(lambda e: e\['nope'\]\), if 'nope' is the name of one\."),
        (lambda d: d.map("x" * 9000), TypeError, r"^.{100,700}$"),
        (lambda d: list(d.flat_map(lambda e: {"a": 1})), TypeError, r"flat_map\(\): expected .* got {'a': 1} of dict"),
        (lambda d: list(d.flat_map(lambda e: 7)), TypeError, r"list of items or yields them, got 7 of int"),
        (lambda d: list(d.flat_map(lambda e: next(iter(())))), RuntimeError, "raised StopIteration"),
    ],
)
def test_refuses(builder: Any, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(numbered(builder))


@pytest.mark.parametrize("result", [None, 1, np.array([True, False]), "yes"], ids=["None", "1", "array", "text"])
def test_a_filter_must_return_a_bool(builder: Any, result: Any) -> None:
    numbers = builder.as_dataset("train")
    with pytest.raises(TypeError, match=r"filter\(\).*bool.* got "):
        list(numbers.filter(lambda example: result))
    assert list(numbers.filter(lambda example: np.bool_(False))) == []
