"""Mixtures against lists and loops: quotas, order, ends, states at every position, and any sequence of workers."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.reading.index.mixture import MAX_BLOCK, quotas_of
from tests.cases import cases
from tests.facts import raises_with
from tests.published import flip
from tests.reading.mixtures import sources_of

LENGTHS = {"a": [7, 0, 12], "b": [5, 4], "c": [3]}


@pytest.fixture(scope="module")
def builder(write: Any) -> Any:
    return bd.builder_from_directory(write(LENGTHS))


def numbered(builder: Any, split: str, start: int = 0) -> Any:
    """The examples of a split as numbers from `start` on, each with a function of its own."""
    return builder.as_dataset(split).map(lambda example: start + int(example["id"]))


def parts_of(builder: Any) -> list[Any]:
    return [numbered(builder, split, 100 * i).shuffle(i) for i, split in enumerate(LENGTHS)]


def epochs(dataset: Any, first: int, count: int) -> list[Any]:
    return [item for epoch in range(first, first + count) for item in dataset.iterate(epoch=epoch)]


def expected(parts: list[Any], weights: list[float], seed: int, stop: str, epoch: int = 0) -> list[Any]:
    """Returns what a mixture yields, one example after the other."""
    return expected_of(parts, sources_of(weights, seed), stop, epoch)


def expected_of(parts: list[Any], sources: Iterable[int], stop: str, epoch: int) -> list[Any]:
    """Returns what a mixture with these sources yields, one example after the other."""
    order: list[int] = []
    taken = [0] * len(parts)
    ends = [len(part) for part in parts]
    done = any if stop == "first" else all
    for source in sources:
        order.append(int(source))
        taken[source] += 1
        if done(count >= end for count, end in zip(taken, ends)):
            break
    times = [-(-count // end) for count, end in zip(taken, ends)]
    streams = [iter(epochs(part, epoch * n, n)) for part, n in zip(parts, times)]
    return [next(streams[source]) for source in order]


WEIGHTS = st.lists(st.sampled_from([1, 2, 0.3, 0.7, 5, 1 / 3]), min_size=1, max_size=3)


@given(WEIGHTS, st.integers(0, 3), st.sampled_from(["first", "all"]), st.integers(0, 2))
@settings(max_examples=30)
def test_yields_what_loops_yield(builder: Any, weights: list[float], seed: int, stop: str, epoch: int) -> None:
    parts = parts_of(builder)[: len(weights)]
    mixed = bd.mix(list(zip(parts, weights)), seed=seed, stop=stop)
    wanted = expected(parts, weights, seed, stop, epoch)
    assert list(mixed.iterate(epoch=epoch)) == wanted
    assert len(mixed) == len(wanted)
    if stop == "all":
        assert {item for part in parts for item in part} == set(wanted)


STAGE = st.lists(st.sampled_from([0, 1, 2, 0.3, 5]), min_size=3, max_size=3).filter(any)


@given(st.lists(st.tuples(st.integers(1, 9), STAGE), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 1))
@cases(20)
def test_a_schedule_is_one_mixture_after_the_other(builder: Any, stages: Any, seed: int, epoch: int) -> None:
    parts = parts_of(builder)
    stages = [*stages, (1, [1, 2, 3])]  # each source is read to its end
    starts = [0, *itertools.accumulate(length for length, _ in stages[:-1])]
    schedule = [(start, weights) for start, (_, weights) in zip(starts, stages)]

    def sources() -> Iterator[int]:
        for length, weights in stages[:-1]:
            yield from itertools.islice(sources_of(weights, seed), length)
        yield from sources_of(stages[-1][1], seed)

    for stop in ("first", "all"):
        mixed = bd.mix(parts, schedule=schedule, seed=seed, stop=stop)
        wanted = expected_of(parts, sources(), stop, epoch)
        assert list(mixed.iterate(epoch=epoch)) == wanted
        assert len(mixed) == len(wanted)
    by_name = [(start, {part: w for part, w in zip(parts, weights) if w}) for start, weights in schedule]
    assert list(bd.mix(parts, schedule=by_name, seed=seed, stop="all").iterate(epoch=epoch)) == wanted
    endless = bd.mix(parts, schedule=schedule, seed=seed, stop="never")
    order = list(itertools.islice(sources(), 60))
    assert [item // 100 for item in endless.take(40)] == order[:40]
    assert [item // 100 for item in endless.skip(17).take(43)] == order[17:]


def test_a_schedule_begins_far_away_by_arithmetic(builder: Any) -> None:
    parts = parts_of(builder)
    million = bd.mix(parts, schedule=[(0, [9, 1, 0]), (1_000_000, [1, 1, 2])], stop="never")
    sources = [item // 100 for item in million.skip(999_990).take(18)]
    assert sorted(sources[:10]) == [0] * 9 + [1]
    assert [sorted(sources[at : at + 4]) for at in (10, 14)] == [[0, 1, 2, 2]] * 2
    iterator = million.skip(999_995).iterate()
    whole = list(itertools.islice(million.skip(999_995), 9))
    for position in range(9):
        state = json.loads(json.dumps(iterator.get_state()))
        assert list(itertools.islice(million.skip(999_995).iterate(state=state), 9 - position)) == whole[position:]
        next(iterator)


@pytest.mark.parametrize("temperature", [0.5, 1, 2.0, 5, 1e9])
def test_weights_by_temperature(builder: Any, temperature: float) -> None:
    parts = parts_of(builder)
    weights = [len(part) ** (1 / temperature) for part in parts]
    mixed = bd.mix(parts, temperature=temperature, stop="all")
    assert list(mixed) == list(bd.mix(list(zip(parts, weights)), stop="all"))
    assert list(mixed) == list(bd.mix(parts, weights=weights, stop="all"))
    assert list(mixed) == list(bd.mix(parts, weights=dict(zip(parts, weights)), stop="all"))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 100), st.integers(0, 10**6))
@settings(max_examples=30)
def test_each_block_has_the_quotas(builder: Any, weights: list[int], seed: int, first: int) -> None:
    parts = parts_of(builder)[: len(weights)]
    endless = bd.mix(list(zip(parts, weights)), seed=seed, stop="never")
    quotas = quotas_of(weights)
    items = list(endless.skip(first * sum(quotas)).take(5 * sum(quotas)))
    for start in range(0, len(items), sum(quotas)):
        sources = [item // 100 for item in items[start : start + sum(quotas)]]
        assert tuple(map(sources.count, range(len(parts)))) == quotas


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_quotas_are_near_the_weights(weights: list[float]) -> None:
    quotas = np.array(quotas_of(weights))
    shares = np.array(weights) / sum(weights)
    assert quotas.min() >= 1
    assert quotas.sum() <= MAX_BLOCK
    assert np.abs(quotas / quotas.sum() - shares).max() <= (len(weights) + 1) / MAX_BLOCK


def mixtures(builder: Any) -> dict[str, Any]:
    a, b, c = parts_of(builder)
    inner = bd.mix({b: 2, c: 1}, seed=1, stop="all")
    return {
        "first": bd.mix({a: 3, b: 1}),
        "all": bd.mix({a: 3, b: 1, c: 1}, stop="all"),
        "of mixtures": bd.mix([(a, 0.7), (inner, 0.3)], seed=2, stop="all"),
        "shuffled": bd.mix({a: 1, b: 1}, stop="all").shuffle(3),
        "window": bd.mix({a: 1, inner.shuffle(1): 1}, stop="all").shuffle(3, window=5),
        "repeated": bd.mix({a: 1, b: 1}).repeat(3),
        "sliced": bd.mix({a: 1, b: 1}, stop="all").skip(2).take(9).repeat(2),
        "scheduled": bd.mix([a, b, c], schedule=[(0, [5, 1, 0]), (4, [0, 1, 2]), (9, [1, 1, 1])], stop="all"),
        "of endless parts": bd.mix({a.repeat(): 1, b: 1}).repeat(2),
    }


NAMES = ["first", "all", "of mixtures", "shuffled", "window", "repeated", "sliced", "scheduled", "of endless parts"]


@pytest.mark.parametrize("name", NAMES)
def test_resumes_at_every_position(builder: Any, name: str) -> None:
    mixed = mixtures(builder)[name]
    whole, iterator = list(mixed), iter(mixed)
    assert len(whole) == len(mixed)
    for position in range(len(whole) + 1):
        state = json.loads(json.dumps(iterator.get_state()))
        assert list(mixed.iterate(state=state)) == whole[position:]
        assert list(itertools.islice(iterator, 1)) == whole[position : position + 1]


@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=4),
    st.sampled_from([None, 2]),
)
@settings(max_examples=30)
def test_any_sequence_of_worker_counts(builder: Any, name: str, counts: Any, block: int | None) -> None:
    mixed = mixtures(builder)[name]
    whole, state = list(mixed), None
    seen: list[int] = []
    for workers, steps in counts:
        iterators = [mixed.shard(worker, workers, block=block).iterate(state=state) for worker in range(workers)]
        for _ in range(steps):
            for iterator in iterators:
                seen += itertools.islice(iterator, 1)
        state = iterators[0].get_state()
    assert sorted(seen + list(mixed.iterate(state=state))) == sorted(whole)


@pytest.mark.parametrize("stop", ["first", "all"])
def test_operations_on_a_mixture(builder: Any, stop: str) -> None:
    a, b, _ = parts_of(builder)
    mixed = bd.mix({a: 2, b: 1}, stop=stop)
    whole = list(mixed)
    assert list(mixed.skip(3).take(5)) == whole[3:8]
    assert [batch.tolist() for batch in mixed.batch(4)] == [whole[i : i + 4] for i in range(0, len(whole), 4)]
    shares = [list(mixed.shard(worker, 3, block=2)) for worker in range(3)]
    assert shares == [[item for i, item in enumerate(whole) if i // 2 % 3 == worker] for worker in range(3)]
    assert sorted(mixed.shuffle(1)) == sorted(whole)
    assert list(mixed.map(str)) == list(map(str, whole))
    again = list(mixed.repeat(2))
    assert again[: len(whole)] == whole
    assert again[len(whole) :] == list(mixed.iterate(epoch=1)) != whole
    assert list(pickle.loads(pickle.dumps(bd.mix({builder.as_dataset("c").raw(): 1})))) == list(
        builder.as_dataset("c").raw()
    )


def test_examples_of_equal_steps_are_decoded_in_batches(builder: Any) -> None:
    whole = {split: builder.as_dataset(split) for split in LENGTHS}
    mixed = bd.mix(dict.fromkeys(whole.values(), 1))
    named = bd.mix(dict.fromkeys(whole.values(), 1), source_key="source", names=LENGTHS)
    assert len(mixed._steps) == 1
    assert mixed.features == named.features == builder.info.features
    batches, named_batches = list(mixed.batch(4)), list(named.batch(4))
    for batch, other in zip(batches, named_batches):
        assert {name: column.tolist() for name, column in batch.items()} == {
            name: column.tolist() for name, column in other.items() if name != "source"
        }
    sources = [example["source"].decode() for example in named]
    assert [int(example["id"]) for example, source in zip(named, sources) if source == "b"] == [
        int(example["id"]) for example in whole["b"].take(sources.count("b"))
    ]
    assert np.concatenate([batch["source"] for batch in named_batches]).tolist() == [s.encode() for s in sources]
    default = bd.mix(dict.fromkeys(whole.values(), 1), source_key="source")
    assert {example["source"].decode().split(":", 1)[1] for example in default} == {"a[0:19]", "b[0:9]", "c[0:3]"}


def test_a_damaged_record_is_an_error_at_its_place(write: Any, tmp_path: Any) -> None:
    directory = write({"a": [9], "b": [9]}, size=1)
    copy = Path(shutil.copytree(directory, tmp_path / directory.parent.name / "1.0.0"))
    shard = next(file for file in copy.iterdir() if "-b.tfrecord" in file.name and file.suffix != ".index")
    flip(shard, shard.stat().st_size // 2)
    good, bad = (bd.builder_from_directory(path) for path in (directory, copy))
    sources = dict.fromkeys((bad.as_dataset("a"), bad.as_dataset("b")), 1)
    whole = bd.mix({good.as_dataset(split): 1 for split in "ab"}, source_key="s", names="ab")
    for batch in (1, 2):
        found: list[int] = []
        items = bd.mix(sources, source_key="s", names="ab").batch(batch).map(lambda item: item["id"].tolist())
        with raises_with(bd.errors.CorruptRecordError, path=re.compile(r"-b\.tfrecord")):
            found.extend(number for item in items for number in item)
        wanted = [int(example["id"]) for example in whole]
        assert found == wanted[: len(found)]
        assert len(found) >= 6


def test_states_of_other_mixtures_are_refused(builder: Any) -> None:
    a, b, c = parts_of(builder)
    state = iter(bd.mix({a: 1, b: 1}, seed=1)).get_state()
    for other in (
        bd.mix({a: 2, b: 1}, seed=1),
        bd.mix({a: 1, b: 1}, seed=2),
        bd.mix({a: 1, b: 1}, seed=1, stop="all"),
        bd.mix({a: 1, c: 1}, seed=1),
        bd.mix({a: 1, b.shuffle(1): 1}, seed=1),
        bd.mix([a, b], schedule=[(0, [1, 1]), (5, [1, 1])], seed=1),
    ):
        with raises_with(bd.errors.StateError, got=["operations"]):
            other.iterate(state=state)


@pytest.mark.parametrize(
    "call,error,words",
    [
        (lambda d: bd.mix({}), ValueError, "from 1 to 1024 sources, got 0"),
        (lambda d: bd.mix([3]), TypeError, r"a dict from datasets to weights, or pairs \(dataset, weight\)"),
        (lambda d: bd.mix([d]), TypeError, r"expected one of weights=\[...\], temperature= and schedule=, got 0"),
        (lambda d: bd.mix([d], weights=[1], temperature=1), TypeError, "got 2 of them"),
        (lambda d: bd.mix({d: 1}, temperature=1), TypeError, "expected no weights=, temperature= or schedule="),
        (lambda d: bd.mix([d], weights=0.5), TypeError, r"expected a number for each source, such as .*, got 0.5"),
        (lambda d: bd.mix([d], schedule=[(0, 0.5)]), TypeError, "expected a number for each source, .*, got 0.5"),
        (lambda d: bd.mix([d], weights=[1, 2]), ValueError, "expected one for each of 1 sources, got 2"),
        (
            lambda d: bd.mix([d], weights={d.take(1): 1}),
            ValueError,
            r"weights: expected sources of mix\(\), got <Dataset",
        ),
        (lambda d: bd.mix([d, d], weights=[1, 0]), ValueError, "must be above 0 and finite, got 0"),
        (lambda d: bd.mix([d], temperature=0), ValueError, "temperature must be above 0, got 0"),
        (lambda d: bd.mix([d], temperature="2"), TypeError, "temperature must be a number, got '2'"),
        (
            lambda d: bd.mix([d.repeat()], temperature=2),
            ValueError,
            "expected sources with a length, got .* an endless one",
        ),
        (lambda d: bd.mix([d], schedule=[]), ValueError, r"expected ascending positions from 0 on, got \[\]"),
        (lambda d: bd.mix([d], schedule=[(1, [1])]), ValueError, r"expected ascending positions from 0 on, got \[1\]"),
        (lambda d: bd.mix([d], schedule=[(0, [1]), (0, [2])]), ValueError, r"from 0 on, got \[0, 0\]"),
        (lambda d: bd.mix([d], schedule=[(0, [0])]), ValueError, "a weight above 0 at each position"),
        (lambda d: bd.mix([d, d], schedule=[(0, [1, 0])]), ValueError, "above 0 of each source, got none of <Dataset"),
        (lambda d: bd.mix([d], schedule=[0]), TypeError, r"expected pairs \(position, weights\), got 0"),
        (
            lambda d: bd.mix([d, d], schedule=[(0, [1, 1]), (2, [1, 0])], stop="all"),
            ValueError,
            "each source is read to its end, .* source number 1 is 0",
        ),
        (lambda d: bd.mix({d: 0}), ValueError, "must be above 0 and finite, got 0"),
        (lambda d: bd.mix({d: float("nan")}), ValueError, "must be above 0 and finite, got nan"),
        (lambda d: bd.mix({d: "1"}), TypeError, "must be a number, got '1'"),
        (lambda d: bd.mix({d: 1}, stop="last"), ValueError, "stop must be 'first', 'all' or 'never', got 'last'"),
        (lambda d: bd.mix({d: 1}, seed="x"), TypeError, "seed must be an int"),  # type: ignore[arg-type]
        (lambda d: bd.mix({d.parallel(threads=2): 1}), ValueError, "has parallel.*Use mix"),
        (lambda d: bd.mix({d.take(0): 1}), ValueError, "is empty: expected at least one example. Leave it out"),
        (lambda d: bd.mix({d: 1}, source_key="id"), ValueError, "'id', a feature of the sources"),
        (lambda d: bd.mix([(d, 1), (d, 1)], source_key="s"), ValueError, r"names must differ.* names=\[...\]"),
        (lambda d: bd.mix({d: 1}, names=["a", "b"]), ValueError, "one for each of 1 sources, got 2"),
        (lambda d: bd.mix({d: 1, d.batch(2): 1}), ValueError, "the first yields examples, the second batches of"),
        (lambda d: bd.mix({d: 1, d.raw(): 1}), ValueError, "the first yields examples, the second records"),
        (lambda d: bd.mix({d: 1})[0], TypeError, r"dataset order.*batch\(\) and mix\(\)"),
        (lambda d: bd.mix({d: 1}).find(3), TypeError, r"find\(\) needs dataset order"),
        (lambda d: len(bd.mix({d: 1}, stop="never")), TypeError, "endless dataset has no length"),
        (lambda d: bd.mix({d: 1}, stop="never").shuffle(1), ValueError, "endless"),
        (lambda d: list(bd.mix({d.map(str): 1}, source_key="s")), TypeError, "needs examples that are dicts, got str"),
    ],
)
def test_refuses(builder: Any, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(builder.as_dataset("a"))


def test_names_the_feature_that_differs(builder: Any) -> None:
    whole = builder.as_dataset("a")
    partial = builder.as_dataset("b", decoders=bd.decode.PartialDecoding(["id", "key"]))
    with pytest.raises(ValueError, match=r"cannot be mixed: feature 'text', Text.*, is in the first only"):
        bd.mix({whole: 1, partial: 1})
    assert len(list(bd.mix({whole.map(dict): 1, partial: 1}))) > 0


def test_a_low_temperature_leaves_no_source_out(builder: Any) -> None:
    """A power that a float rounds to 0 would, in silence."""
    long, short, *_ = sorted(parts_of(builder), key=len, reverse=True)
    assert (len(short) / len(long)) ** (1 / 1e-4) == 0.0
    mixed = bd.mix([long, short], temperature=1e-4, stop="all")
    assert set(short) <= set(mixed.take(10**5))
