"""Saved states with a number, a type or a field changed: an error, or the items of a good state, in little memory."""

from __future__ import annotations

import itertools
import json
import random
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.adapters import torch_workers
from beam_datasets.adapters.torch_data import Divided, DividedStream
from beam_datasets.errors import StateError
from beam_datasets.reading.checkpoint import MAX_UNFINISHED
from beam_datasets.reading.index.division import MAX_POSITION
from tests.facts import raises_with

NUMBERS = (0, -1, 1, 2, 2**31, 2**63 - 1, 2**63, 2**64, 10**15, 10**4400)
VALUES = (None, True, 1.0, 1.5, "", "1", [], [0], [[1, 2]], [[1, 2, 1, 0]], {}, {"a": 1}, "\ud83d")
MAX_GROWTH = 96 << 10  # of the memory of the process by all cases of a test, in KiB
MAX_ITEMS = 150  # that are compared, of what never ends

LENGTHS = [30, 0, 21, 40, 9]


def number(example: Any) -> int:
    return int(example["id"])


def is_odd(value: int) -> bool:
    return value % 2 == 1


def tokens(value: int) -> dict[str, Any]:
    return {"t": [value] * (1 + value % 7)}


def parts(value: int) -> list[int]:
    return [100 * value + part for part in range(value % 5)]


def length(value: Any) -> int:
    return int(value) % 5


def flat(items: Any) -> list[int]:
    """Returns the numbers of items, batches and packed arrays, in order."""
    found = []
    for item in items:
        if isinstance(item, dict):
            found += [number for name in sorted(item) for number in item[name].ravel().tolist()]
        else:
            found += item.ravel().tolist() if hasattr(item, "ravel") else [item]
    return found


@dataclass
class Case:
    """A pipeline: the stream that workers share, and what each worker makes of it.

    Attributes:
        stream: before `shard()` and `batch()`; all of it where states are of a stream.
        workers: makes each worker's part.
        steps: after how many items of each worker states are saved; of another division for a second number.
    """

    stream: Callable[[Any], Any]
    workers: list[Callable[[Any], Any]]
    steps: tuple[int, ...] = (0, 7)


WHOLE: list[Callable[[Any], Any]] = [lambda ds: ds]


def sharded(count: int, block: int | None, batch: int = 0) -> list[Callable[[Any], Any]]:
    def part(worker: int) -> Callable[[Any], Any]:
        return lambda ds: (found := ds.shard(worker, count, block=block)) and (found.batch(batch) if batch else found)

    return [part(worker) for worker in range(count)]


CASES = {
    "plain": Case(lambda ds: ds, WHOLE),
    "files": Case(lambda ds: ds.repeat(2), WHOLE, (0, 120)),
    "shuffled": Case(lambda ds: ds.shuffle(3), WHOLE),
    "repeated": Case(lambda ds: ds.shuffle(3).repeat(), WHOLE, (0, 130)),
    "window": Case(lambda ds: ds.shuffle(3, window=8).repeat(3), WHOLE, (0, 130)),
    "batches": Case(lambda ds: ds, [lambda ds: ds.batch(3)]),
    "mixed": Case(lambda ds: bd.mix([(ds, 0.7), (ds.shuffle(1), 0.3)]), WHOLE),
    "endless mixture": Case(lambda ds: bd.mix([(ds, 0.7), (ds.shuffle(1), 0.3)], stop="never"), WHOLE),
    "sharded": Case(lambda ds: ds.shuffle(2), sharded(3, None)),
    "mid-block": Case(lambda ds: ds.shuffle(2), sharded(3, 4)),
    "mid-block of two epochs": Case(lambda ds: ds.repeat(2), sharded(2, 6), (15,)),
    "mid-block batches": Case(lambda ds: ds.shuffle(1, window=9), sharded(2, 4, 2), (3,)),
    "filtered": Case(lambda ds: ds.filter(is_odd), WHOLE),
    "filtered shards": Case(lambda ds: ds.shard(0, 2).filter(is_odd).map(lambda value: value + 1), WHOLE),
    "cut": Case(lambda ds: ds.filter(is_odd).skip(3).take(20).repeat(2), WHOLE, (5, 23)),
    "filtered batches": Case(lambda ds: ds.filter(is_odd).batch(4).repeat(), WHOLE, (0, 14)),
    "batched filters": Case(lambda ds: ds.shuffle(1).batch(4).filter(lambda batch: bool(batch[0] % 2)), WHOLE, (3,)),
    "bucketed": Case(lambda ds: ds.batch_by_length([2, 4], [3, 4, 2], length=length), WHOLE, (5,)),
    "packed": Case(lambda ds: ds.map(tokens).pack(16, ["t"], num_bins=3), WHOLE, (3,)),
    "parts": Case(lambda ds: ds.flat_map(parts).filter(is_odd).take(40).repeat(2), WHOLE, (3, 47)),
    "chunked and packed": Case(
        lambda ds: ds.map(tokens).chunk(3, ["t"], overlap=1).pack(8, ["t"], num_bins=2), WHOLE, (3, 8)
    ),
    "mixed streams": Case(
        lambda ds: bd.mix([ds.filter(is_odd), ds.shuffle(1).flat_map(parts)], weights=[1, 2], stop="all").batch(3),
        WHOLE,
        (3, 60),
    ),
    "groups of groups": Case(lambda ds: ds.map(tokens).pack(16, ["t"], num_bins=2).skip(1).batch(2), WHOLE, (3,)),
}


@pytest.fixture(scope="module")
def train(write: Any) -> Any:
    return bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train").map(number)


class Good:
    """A case's datasets, and states of them."""

    def __init__(self, case: Case, train: Any) -> None:
        self.stream = case.stream(train)
        self.parts = [part(self.stream) for part in case.workers]
        self.is_worker = len(self.parts) > 1
        self.states = [self._state(self.parts[-1].iterate(), steps) for steps in case.steps]
        if self.is_worker:  # others go on, and stop in the middle of their blocks too
            other = self.stream.shard(1, 2, block=3).iterate(state=self.states[-1])
            self.states.append(self._state(other, 2))
        self._of_streams = {json.dumps(state): self.read_on(state) for state in self.states}
        assert None not in self._of_streams.values()

    @staticmethod
    def _state(iterator: Any, steps: int) -> Any:
        for _ in range(steps):
            next(iterator)
        return json.loads(json.dumps(iterator.get_state()))

    def read_on(self, state: Any) -> list[int] | None:
        """Returns the numbers that all workers go on with, or None if a state is refused."""
        items: list[int] = []
        for part in self.parts:
            iterator = part.iterate()
            try:
                iterator.set_state(state)
            except StateError:
                return None
            items += itertools.islice(flat_items(iterator), MAX_ITEMS)
            iterator.close()
        return items

    def expected(self, state: Any) -> list[int]:
        """Returns what a state that was accepted means."""
        if "held" in state:  # any other is none of this stream's
            return self._of_streams[json.dumps(state)]  # type: ignore[return-value]
        assert set(state) <= {"format", "epoch", "position", "fingerprint", "blocks"}
        is_repeated = type(self.stream._operation).__name__ == "Repeat"
        if is_repeated:
            items = self.stream.skip(state["epoch"] * sum(LENGTHS) + state["position"]).iterate()
        else:
            items = self.stream.skip(state["position"]).iterate(epoch=state["epoch"])
        left: Iterator[int] = flat_items(items)
        for block in state.get("blocks", []):
            left = left_of(left, *block)
        return list(itertools.islice(left, MAX_ITEMS * len(self.parts)))

    def check(self, state: Any) -> bool:
        """Checks what a state does; returns whether it was accepted."""
        found = self.read_on(state)
        if found is None:
            return False
        expected = self.expected(state)
        if self.is_worker:  # together they have all that is left, each in an order of its own
            found, expected = sorted(found), sorted(expected)
        assert found == expected, state
        return True


def flat_items(iterator: Any) -> Iterator[int]:
    return (number for item in iterator for number in flat([item]))


def left_of(items: Iterator[int], workers: int, block: int, taken: int, count: int) -> Iterator[int]:
    """Yields what is left of items when each worker has taken some of its block, and then `count` of that are read."""
    left = (item for place, item in enumerate(items) if place >= workers * block or place % block >= taken)
    return itertools.islice(left, count, None)


def mutations(value: Any) -> Iterator[Any]:
    """Yields copies of a state, each with one change somewhere in it."""
    if isinstance(value, dict):
        for name in value:
            yield {other: inner for other, inner in value.items() if other != name}
            yield from ({**value, name: inner} for inner in mutations(value[name]))
        yield {**value, "added": 1}
    elif isinstance(value, list):
        for place in range(len(value)):
            yield value[:place] + value[place + 1 :]
            yield from ([*value[:place], inner, *value[place + 1 :]] for inner in mutations(value[place]))
        yield from ([*value, 1], value * 2, value * 300)
    yield from VALUES
    yield from NUMBERS


def mutation(value: Any, draw: random.Random) -> Any:
    """Returns a copy of a state with one change somewhere in it, as one of `mutations`."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.85:
        places = list(value) if isinstance(value, dict) else range(len(value))
        place = draw.choice(places)
        made = value.copy()
        if draw.random() < 0.1:
            del made[place]
        else:
            made[place] = mutation(value[place], draw)
        return made
    if isinstance(value, list) and draw.random() < 0.5:
        return draw.choice([[*value, 1], value * 2])
    return draw.choice([*VALUES, *NUMBERS])


def of_each(kind: str, good: Good, count: int) -> None:
    """Checks `count` mutations of each state of a case, the first ones of one change and the others of some."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    draw = random.Random(kind)
    for state in good.states:
        assert good.check(state), state
        once = list(mutations(state))
        for mutated in draw.sample(once, min(count, len(once))):
            good.check(mutated)
        for _ in range(count - len(once)):
            mutated = state
            for _ in range(draw.randint(2, 3)):
                mutated = mutation(mutated, draw)
            good.check(mutated)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH


@pytest.mark.parametrize("kind", CASES)
def test_a_mutated_state_is_refused_or_right(kind: str, train: Any) -> None:
    of_each(kind, Good(CASES[kind], train), 12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_hundred_thousand_mutated_states(kind: str, train: Any) -> None:
    of_each(kind, Good(CASES[kind], train), 2500)


@pytest.mark.parametrize(
    "kind", ["filtered", "cut", "filtered batches", "bucketed", "packed", "parts", "groups of groups"]
)
def test_states_of_streams_without_check_sum(kind: str, train: Any) -> None:
    """Those of format 3 go on as they did; damaged ones are refused, or give items: their numbers are all there is."""
    good, draw = Good(CASES[kind], train), random.Random(kind)
    for state in good.states:
        former = {name: value for name, value in state.items() if name != "check"} | {"format": 3}
        assert good.read_on(former) == good.read_on(state)
        for _ in range(40):
            good.read_on(mutation(former, draw))


class Torch(Good):
    """The same, through states of `as_torch()` of one of three ranks, which one rank goes on with."""

    def __init__(self, train: Any, block: int | None) -> None:
        self.stream, self.block, self.is_worker, self.parts = train.shuffle(2), block, False, [train]
        self.states = []
        for steps in (0, 7):
            rank = Divided(self.stream, rank=1, num_ranks=3, block=block, even=None)
            iterator = iter(rank)
            for _ in range(steps):
                next(iterator)
            self.states.append(json.loads(json.dumps(rank.state_dict())))

    def read_on(self, state: Any) -> list[int] | None:
        whole = Divided(self.stream, rank=0, num_ranks=1, block=self.block, even=None)
        try:
            whole.load_state_dict(state)
            return list(whole)
        except StateError:
            return None

    def expected(self, state: Any) -> list[int]:
        if "begun" not in state:
            return super().expected(state)
        items = list(self.stream.iterate(state=state["begun"]))  # which `Good` checks
        return [items[place] for place in range(len(items)) if self._is_left(place, len(items), state)]

    def _is_left(self, place: int, length: int, state: Any) -> bool:
        """Whether a worker takes a place only after as many as this one has taken."""
        workers, taken, block = state["workers"], state["taken"], state["block"]
        whole = length // (block * workers) * block * workers if state["format"] == 2 else length
        if place < whole:
            return bool(place // block // workers * block + place % block >= taken)
        return whole // workers + (place - whole) // workers >= taken


@pytest.mark.parametrize("block", [None, 1, 4])
def test_mutated_states_of_torch(block: int | None, train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_workers, "get_worker", lambda: (0, 1, None))
    of_each(f"torch {block}", Torch(train, block), 100)


def test_mutated_states_of_torch_streams(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_workers, "get_worker", lambda: (0, 1, None))
    good, draw = Good(CASES["bucketed"], train), random.Random(1)
    for state in good.states:
        for mutated in [state, *(mutation(state, draw) for _ in range(100))]:
            divided = DividedStream(good.stream, rank=0, num_ranks=1, block=None, even=None)
            try:
                divided.load_state_dict(mutated)
                assert flat(divided) == good.read_on(mutated)
            except StateError:
                assert mutated != state


def test_divisions_within_divisions_are_limited(train: Any) -> None:
    """Each reader goes on in the middle of what the one before has left."""
    state, read = None, []
    for round_number in range(MAX_UNFINISHED):
        iterator = train.repeat().shard(0, 2, block=200 * MAX_UNFINISHED - 100 * round_number).iterate(state=state)
        read.append(next(iterator))
        state = iterator.get_state()
        assert len(state["blocks"]) == round_number + 1
    assert len(list(itertools.islice(train.repeat().iterate(state=state), 50))) == 50
    iterator = train.repeat().shard(0, 2, block=3).iterate(state=state)
    next(iterator)
    with raises_with(StateError, field="blocks", expected=["100"], got="101"):
        iterator.get_state()


def test_epochs_are_limited(train: Any) -> None:
    assert sorted(train.shuffle(1).iterate(epoch=MAX_POSITION)) == sorted(train)
    for dataset, epoch in [(train, MAX_POSITION + 1), (train.filter(is_odd), 10**20), (train.repeat(), 2**60)]:
        with pytest.raises(ValueError, match=f"^epoch .*{epoch}"):
            dataset.iterate(epoch=epoch)
