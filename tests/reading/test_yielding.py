"""Blocks of items made into values, against the same done item by item."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import FeatureError
from beam_datasets.reading import dataset as dataset_module
from beam_datasets.reading.blocks import BLOCK_BYTES, paced, sizes
from beam_datasets.reading.yielding import Maker

BLOCKS = st.lists(st.lists(st.integers(), max_size=20), max_size=12)


class Bad(FeatureError):
    pass


def copied(blocks: list[list[Any]]) -> list[list[Any]]:
    """Blocks that may be changed."""
    return [list(block) for block in blocks]


def until_bad(blocks: Any) -> Any:
    """Yields the blocks, then raises."""
    yield from blocks
    raise Bad


@dataclass(frozen=True)
class Doubled:
    """Doubles; a block at once, where `block`. A negative item is bad."""

    block: bool = True

    def compile(self) -> Any:
        return self._one

    def compile_block(self) -> Any:
        return self._many if self.block else None

    @staticmethod
    def _one(item: int) -> int:
        if item < 0:
            raise Bad
        return 2 * item

    def _many(self, items: list[int]) -> list[int]:
        return [self._one(item) for item in items]


@dataclass(frozen=True)
class Plain:
    """Adds one; has no function of a block."""

    def compile(self) -> Any:
        return lambda item: item + 1


@given(blocks=BLOCKS, most=st.sampled_from([1, 2, 4, 64, 256]))
def test_paced_keeps_items_and_sizes(blocks: Any, most: int) -> None:
    found = list(paced(copied(blocks), sizes(BLOCK_BYTES / most)))
    items = list(itertools.chain.from_iterable(blocks))
    assert list(itertools.chain.from_iterable(found)) == items
    wanted = [min(size, most) for size in (1, 8, 64, *[256] * len(items))]
    assert [len(block) for block in found[:-1]] == wanted[: max(0, len(found) - 1)]
    assert all(found)


@given(blocks=BLOCKS, most=st.sampled_from([1, 2, 4, 64, 256]))
def test_paced_yields_what_is_before_an_error(blocks: Any, most: int) -> None:
    found: list[int] = []
    with pytest.raises(Bad):
        found.extend(itertools.chain.from_iterable(paced(until_bad(copied(blocks)), sizes(BLOCK_BYTES / most))))
    assert found == list(itertools.chain.from_iterable(blocks))


def test_paced_does_not_wait_for_a_second_block() -> None:
    assert next(paced(until_bad([[1, 2, 3]]), sizes(1))) == [1]


@given(blocks=BLOCKS, block=st.booleans())
def test_an_error_comes_exactly_at_its_item(blocks: Any, block: bool) -> None:
    maker = Maker.of((Doubled(block), Plain()))
    found = []
    wanted = [2 * item + 1 for item in itertools.chain.from_iterable(blocks)]
    bad = next((place for place, value in enumerate(wanted) if value < 0), None)
    values = itertools.chain.from_iterable(maker.make(iter(copied(blocks)), 1))
    try:
        for value in values if maker.rest is None else map(maker.rest, values):
            found.append(value)  # noqa: PERF402
    except Bad:
        assert bad is not None
    assert found == wanted[:bad]


def test_items_are_few_where_they_are_large() -> None:
    maker = Maker.of((Doubled(),))
    assert max(map(len, maker.make(iter([[1] * 100]), 100_000))) == 2
    assert max(map(len, maker.make(iter([[1] * 600]), 10))) == 256


def test_a_dataset_uses_the_function_of_a_block(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    class Sized(dataset_module.Raw):  # type: ignore[name-defined,misc]
        def compile_block(self) -> Any:
            return lambda records: sizes.append(len(records)) or list(map(bytes, records))

    dataset = bd.builder_from_directory(write({"train": [40, 60]})).as_dataset("train").raw()
    wanted = list(dataset)
    monkeypatch.setattr(dataset_module, "Raw", Sized)
    assert list(bd.builder_from_directory(write({"train": [40, 60]})).as_dataset("train").raw()) == wanted
    assert sizes == [1, 8, 64, 27]
