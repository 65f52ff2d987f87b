"""iterator.c against the same type in Python."""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.native import core
from beam_datasets.reading.yielding import PlainBlockIterator

KINDS = [PlainBlockIterator] if core is None else [PlainBlockIterator, core.BlockIterator]
BLOCKS = st.lists(st.lists(st.integers(-3, 20), max_size=5), max_size=8)
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind: Any, blocks: Any) -> Any:
    """An iterator over the blocks that counts the calls of close()."""

    class Blocks(kind):  # type: ignore[misc]
        closed = 0

        def __init__(self) -> None:
            self.blocks = iter(blocks)

        def _next_block(self) -> Any:
            return next(self.blocks, None)

        def close(self) -> None:
            self.closed += 1
            self._forget()

    return Blocks()


def reciprocal(value: int) -> float:
    return 1 / value


@given(blocks=BLOCKS, limit=st.integers(0, 50))
def test_hands_out_what_chained_lists_have(blocks: list[list[int]], limit: int) -> None:
    for kind in KINDS:
        iterator = made(kind, [list(block) for block in blocks])
        whole = list(itertools.chain.from_iterable(blocks))
        assert list(itertools.islice(iterator, limit)) == whole[:limit]
        assert iterator._taken == min(limit, len(whole))
        assert list(iterator) == whole[limit:]
        assert iterator._taken == len(whole)
        assert iterator.closed >= 1
        assert next(iterator, "end") == "end"


@given(blocks=BLOCKS)
def test_counts_only_what_was_handed_out(blocks: list[list[int]]) -> None:
    for kind in KINDS:
        iterator = made(kind, [list(block) for block in blocks])
        iterator._use(reciprocal)
        whole = list(itertools.chain.from_iterable(blocks))
        good = whole.index(0) if 0 in whole else len(whole)
        for value in whole[:good]:
            assert next(iterator) == 1 / value
        assert iterator.closed == 0
        if good < len(whole):
            with pytest.raises(ZeroDivisionError):
                next(iterator)
        else:
            assert next(iterator, "end") == "end"
        assert (iterator._taken, iterator.closed) == (good, 1)


@of_each_kind
def test_the_count_may_be_set(kind: Any) -> None:
    iterator = made(kind, [[1, 2, 3]])
    iterator._taken = 2**61
    next(iterator)
    assert iterator._taken == 2**61 + 1


@of_each_kind
def test_function_may_be_taken_back(kind: Any) -> None:
    iterator = made(kind, [[1, 2, 3]])
    iterator._use(str)
    assert next(iterator) == "1"
    iterator._use(None)
    assert list(iterator) == [2, 3]


@of_each_kind
def test_stop_iteration_of_the_function_is_no_end(kind: Any) -> None:
    def stop(value: int) -> int:
        raise StopIteration(5)

    iterator = made(kind, [[1]])
    iterator._use(stop)
    with pytest.raises(RuntimeError, match=r"map\(\) raised StopIteration") as error:
        next(iterator)
    assert isinstance(error.value.__cause__, StopIteration)
    assert iterator.closed == 1


@of_each_kind
def test_an_error_of_the_next_block(kind: Any) -> None:
    def blocks() -> Any:
        yield [1]
        raise OSError("gone")

    iterator = made(kind, blocks())
    assert next(iterator) == 1
    with pytest.raises(OSError, match="gone"):
        next(iterator)
    assert (iterator._taken, iterator.closed) == (1, 1)


@of_each_kind
def test_forgets(kind: Any) -> None:
    iterator = made(kind, [[1, 2, 3], [4]])
    next(iterator)
    iterator._forget()
    assert list(iterator) == [4]
    iterator._forget()


@of_each_kind
def test_function_may_call_the_iterator(kind: Any) -> None:
    def nested(value: int) -> Any:
        return (value, next(iterator)) if value == 1 else value

    iterator = made(kind, [[1, 2], [3]])
    iterator._use(nested)
    assert list(iterator) == [(1, 2), 3]

    def forgetful(value: int) -> int:
        iterator._forget()
        iterator._use(None)
        return value

    iterator = made(kind, [[1, 2], [3, 4]])
    iterator._use(forgetful)
    assert list(iterator) == [1, 3, 4]


@of_each_kind
def test_next_block_may_call_the_iterator(kind: Any) -> None:
    class Nested(kind):  # type: ignore[misc]
        depth = 0

        def _next_block(self) -> Any:
            self.depth += 1
            if self.depth == 1:
                return [next(self), "outer"]
            return ["inner", "left"] if self.depth == 2 else None

        def close(self) -> None:
            pass

    assert next(Nested()) == "inner"
    assert len(list(Nested())) <= 4


@of_each_kind
def test_does_not_hold_what_it_handed_out(kind: Any) -> None:
    class Value:
        def __init__(self) -> None:
            seen.append(weakref.ref(self))

    def blocks() -> Any:
        yield [Value(), Value()]

    seen: list[Any] = []
    iterator = made(kind, blocks())
    next(iterator)
    assert [ref() is None for ref in seen] == [True, False]


@of_each_kind
def test_cycles_are_collected(kind: Any) -> None:
    iterator = made(kind, [])
    iterator.blocks = iter([[iterator, iterator]])
    iterator._use(lambda value, own=iterator: value)
    next(iterator)
    seen = weakref.ref(iterator)
    del iterator
    gc.collect()
    assert seen() is None


@pytest.mark.skipif(core is None, reason="the native module was not built")
def test_what_is_no_list_is_an_error() -> None:
    for wrong in ((1, 2), "ab", 5, iter([1])):
        with pytest.raises(TypeError, match="must return a list or None"):
            next(made(core.BlockIterator, [wrong]))
    bare = core.BlockIterator()
    with pytest.raises(AttributeError):
        next(bare)


@pytest.mark.skipif(core is None, reason="the native module was not built")
def test_a_list_that_gets_shorter() -> None:
    values = [1, 2, 3, 4]
    iterator = made(core.BlockIterator, [values, [5]])
    assert next(iterator) == 1
    del values[2:]
    assert list(iterator) == [2, 5]


@of_each_kind
def test_many_rounds_leak_nothing(kind: Any) -> None:
    def rounds(n: int) -> None:
        for _ in range(n):
            iterator = made(kind, [[object()], [1, 0]])
            iterator._use(lambda value: value if value != 0 else 1 // 0)
            with contextlib.suppress(ZeroDivisionError):
                list(iterator)

    rounds(20)
    gc.collect()
    before = len(gc.get_objects())
    rounds(200)
    gc.collect()
    assert len(gc.get_objects()) < before + 100
