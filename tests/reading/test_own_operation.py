"""An operation as CONTRIBUTING.md describes one: each n-th example, of a dataset and of a stream. It is only here."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.reading.elements.links import Counting
from beam_datasets.reading.index.transforms import ENDLESS, Ints, Operation, Rearranged
from tests.cases import cases
from tests.reading.conftest import write_dataset


class Every(Rearranged):
    """Each n-th item, beginning with the first one."""

    def __init__(self, child: Operation, n: int) -> None:
        self._n = n
        length = ENDLESS if child.length == ENDLESS else -(-child.length // n)
        super().__init__(child, length, f"every({n})")

    def child_positions(self, positions: Ints, epoch: int) -> Ints:
        """Returns the child's position for each position."""
        return positions * self._n


def every(dataset: Any, n: int) -> Any:
    return dataset._with(Every(dataset._operation, n))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Any) -> Any:
    directory = write_dataset(tmp_path_factory.mktemp("every") / "1.0.0", {"train": [40, 7, 53]})
    return bd.builder_from_directory(directory).as_dataset("train").map(lambda example: int(example["id"]))


@cases(60)
@given(st.integers(1, 30), st.none() | st.integers(0, 9), st.integers(0, 2), st.integers(0, 40), st.integers(1, 3))
def test_each_nth_example(whole: Any, n: int, seed: int | None, epoch: int, read: int, workers: int) -> None:
    shuffled = whole if seed is None else whole.shuffle(seed)
    expected = list(shuffled.iterate(epoch=epoch))[::n]
    dataset = every(shuffled, n)
    assert len(dataset) == len(expected)
    iterator = dataset.iterate(epoch=epoch)
    first = [next(iterator) for _ in range(min(read, len(expected)))]
    assert first + list(dataset.iterate(state=iterator.get_state())) == expected
    parts = [list(dataset.shard(worker, workers, block=1).iterate(epoch=epoch)) for worker in range(workers)]
    assert [sorted(part) for part in parts] == [sorted(expected[worker::workers]) for worker in range(workers)]


def test_of_an_endless_dataset(whole: Any) -> None:
    dataset, period = every(whole.repeat(), 3), list(whole) * 3
    with pytest.raises(TypeError, match="endless"):
        len(dataset)
    assert list(itertools.islice(dataset, 100)) == period[::3]
    assert list(itertools.islice(dataset.shard(1, 2, block=1), 50)) == period[3::6]


@dataclass(frozen=True)
class EveryItem(Counting):
    """A link that keeps each n-th item, beginning with the first one."""

    n: int

    @property
    def text(self) -> str:
        return f"every({self.n})"

    def keeps(self, number: int) -> bool:
        return number % self.n == 0


@cases(30)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2), st.lists(st.integers(0, 20), min_size=1, max_size=4))
def test_each_nth_item_of_a_stream(whole: Any, n: int, divisor: int, epoch: int, stops: list[int]) -> None:
    stream = whole.shuffle(2).filter(lambda number: number % divisor == 0)._append(EveryItem(n)).take(25).batch(3)
    numbers = [number for number in whole.shuffle(2).iterate(epoch=epoch) if number % divisor == 0][::n][:25]
    expected = [numbers[first : first + 3] for first in range(0, len(numbers), 3)]
    iterator, items = stream.iterate(epoch=epoch), []
    for stop in stops:
        items += [batch.tolist() for batch in itertools.islice(iterator, stop)]
        iterator = stream.iterate(state=json.loads(json.dumps(iterator.get_state())))
    assert items + [batch.tolist() for batch in iterator] == expected


def test_an_operation_that_counts_is_not_divided_and_comes_before_repeat(whole: Any) -> None:
    stream = whole.filter(lambda number: number % 2 == 0)
    with pytest.raises(ValueError, match=r"shard\(\) comes before"):
        stream._append(EveryItem(2)).shard(0, 2)
    with pytest.raises(ValueError, match="before repeat"):
        stream._append(EveryItem(2)).repeat(2)._append(EveryItem(2))
