"""Blocks of items made into values, against the same done item by item."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import FeatureError
from beam_datasets.reading import dataset as dataset_module
from beam_datasets.reading.yielding import Maker

BLOCKS = st.lists(st.lists(st.integers(), max_size=20), max_size=12)


class Bad(FeatureError):
    pass


def copied(blocks: list[list[Any]]) -> list[list[Any]]:
    """Blocks that may be changed."""
    return [list(block) for block in blocks]


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


def test_items_are_few_where_they_are_large() -> None:
    maker = Maker.of((Doubled(),))
    assert max(map(len, maker.make(iter([[1] * 100]), 100_000))) == 2
    assert max(map(len, maker.make(iter([[1] * 600]), 10))) == 256


def test_a_dataset_uses_the_function_of_a_block(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []

    class Sized(dataset_module.Raw):  # type: ignore[name-defined,misc]
        def compile_block(self) -> Any:
            return lambda records: lengths.append(len(records)) or list(map(bytes, records))

    dataset = bd.builder_from_directory(write({"train": [40, 60]})).as_dataset("train").raw()
    wanted = list(dataset)
    monkeypatch.setattr(dataset_module, "Raw", Sized)
    assert list(bd.builder_from_directory(write({"train": [40, 60]})).as_dataset("train").raw()) == wanted
    assert lengths == [1, 8, 64, 27]
