"""An executor as CONTRIBUTING.md describes one: it decodes each block on a pool, one block ahead of the reader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.errors import FeatureError
from beam_datasets.reading.blocks import Items, regroup
from beam_datasets.reading.elements.executor import Deferred, Executor
from beam_datasets.reading.elements.transforms import CompiledStep, Decode, Function, Step
from tests.reading.conftest import write_dataset


@dataclass
class PoolExecutor(Executor):
    """Applies a function to the items of one block while the reader uses the values of the block before.

    Blocks may have thousands of items, so they are divided first.
    """

    function: Function

    def run(self, blocks: Iterator[Items]) -> Iterator[list[Any]]:
        with ThreadPoolExecutor(1) as pool:
            pending: Future[list[Any]] | None = None
            try:
                for block in regroup(blocks, itertools.repeat(32)):
                    following = pool.submit(self._transform, block)
                    if pending is not None:
                        yield pending.result()
                    pending = following
            except Exception:  # of `blocks`: raised after the values of the block before
                if pending is not None:
                    yield pending.result()
                raise
            if pending is not None:
                yield pending.result()

    def _transform(self, items: Items) -> list[Any]:
        """Returns the value of each item, or a `Deferred`, whose error the reader raises."""
        values: list[Any] = []
        for item in items:
            try:
                values.append(self.function(item))
            except Exception:
                values.append(Deferred(item))
        return values


@dataclass(frozen=True)
class InPool(Step):
    """Applies a step by a `PoolExecutor`."""

    step: Step

    def compile(self) -> CompiledStep:
        decode = self.step.compile().one
        return CompiledStep(decode, executor=PoolExecutor(decode))


def in_pool(dataset: Any) -> Any:
    first, *others = dataset._steps
    assert isinstance(first, Decode)
    return dataset._with(steps=(InPool(first), *others))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = write_dataset(tmp_path_factory.mktemp("pool") / "1.0.0", {"train": [400, 7, 530]})
    return bd.builder_from_directory(directory).as_dataset("train").shuffle(3).map(lambda example: int(example["id"]))


@pytest.mark.parametrize("num_read", [0, 1, 500])
def test_elements_and_states_are_those_without_the_executor(dataset: Any, num_read: int) -> None:
    expected, iterator = list(dataset), iter(in_pool(dataset))
    assert [next(iterator) for _ in range(num_read)] == expected[:num_read]
    assert list(dataset.iterate(state=iterator.get_state())) == expected[num_read:]
    assert list(iterator) == expected[num_read:]


def test_an_error_is_raised_at_its_example(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(dataset)
    compile_plainly = Decode.compile

    def compile_step(step: Decode) -> CompiledStep:
        function = compile_plainly(step).one

        def decode(item: Any) -> Any:
            example = function(item)
            if example["id"] == expected[77]:
                raise FeatureError("bad example", feature="id")
            return example

        return CompiledStep(decode)

    monkeypatch.setattr(Decode, "compile", compile_step)
    iterator = iter(in_pool(dataset))
    assert [next(iterator) for _ in range(77)] == expected[:77]
    with pytest.raises(FeatureError, match="bad example"):
        next(iterator)
