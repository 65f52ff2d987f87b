"""iterator.c against the same type in Python."""

import gc
import itertools
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.native import core
from beam_datasets.reading.blocks import PlainBlockIterator
from tests.native.test_block import block_of

KINDS = [PlainBlockIterator] if core is None else [PlainBlockIterator, core.BlockIterator]
BLOCKS = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=8)
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind: Any, blocks: Any, finish: Any = None) -> Any:
    """An iterator over blocks; an error of `finish` is not counted."""

    class Blocks(kind):  # type: ignore[misc]
        def _next_block(self) -> Any:
            assert not self._items
            return next(self.blocks)

        def _finished(self, item: Any) -> Any:
            try:
                return self._finish(item)
            except Exception:
                self._taken -= 1
                raise

    iterator: Any = Blocks()
    iterator.blocks, iterator._finish = iter(blocks), finish
    return iterator


@given(BLOCKS, st.lists(st.sampled_from(["next", "next", "next", "drop", "count", "finish", "plain"]), max_size=40))
def test_does_what_the_type_in_python_does(blocks: list[list[int]], steps: list[str]) -> None:
    iterators = [made(kind, map(list, blocks)) for kind in KINDS]

    def done(iterator: Any, step: str) -> Any:
        if step == "drop":
            iterator._items = ()
        elif step == "count":
            iterator._taken += 2**40
        elif step != "next":
            iterator._finish = (lambda item: 6 // item) if step == "finish" else None
        else:
            try:
                return next(iterator)
            except (ZeroDivisionError, StopIteration) as error:
                return type(error)
        return None

    for step in [*steps, "plain", *["next"] * 9]:
        assert len({(done(iterator, step), iterator._taken) for iterator in iterators}) == 1
    for iterator in iterators:
        list(iterator)
        assert next(iterator, "end") == "end"


@of_each_kind
def test_hands_out_all_and_counts(kind: Any) -> None:
    iterator = made(kind, [[], (1, 2), [], [3], block_of([b"a", b"bc"]), []])
    items = [1, 2, 3, b"a", b"bc"]
    assert [(item, iterator._taken) for item in iterator] == list(zip(items, itertools.count(1)))
    assert iterator._finish is None


@of_each_kind
@pytest.mark.parametrize("block", [5, None, iter([1])])
def test_blocks_are_sequences(kind: Any, block: Any) -> None:
    iterator = made(kind, [block])
    for _ in range(2):
        with pytest.raises(TypeError):
            next(iterator)
    assert iterator._taken == 0


@of_each_kind
def test_a_function_may_change_the_iterator(kind: Any) -> None:
    def finish(item: int) -> Any:
        if item == 1:
            return item, next(iterator)
        iterator._items, iterator._finish = (), None
        return item

    iterator = made(kind, [[1, 2, 3], [4]], finish)
    assert (list(iterator), iterator._taken) == ([(1, 2), 4], 3)


@of_each_kind
def test_lets_go_of_what_it_holds(kind: Any) -> None:
    class Item:
        pass

    known: list[Any] = []
    iterator = made(kind, ([Item()] for _ in range(2)), lambda item: known.append(weakref.ref(item)))
    next(iterator)
    next(iterator)
    assert known[0]() is None
    iterator._finish = [iterator].index  # a cycle
    del iterator
    gc.collect()
    assert known[1]() is None
