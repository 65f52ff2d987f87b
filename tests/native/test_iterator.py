"""BlockIterator against the same type in Python; memory of batches; wrong arguments of functions in C."""

import gc
import os
import platform
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.features import native_encoding
from beam_datasets.native import core
from beam_datasets.reading.blocks import PlainBlockIterator

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
@pytest.mark.parametrize("block", [5, None, iter([1])])
def test_blocks_are_sequences(kind: Any, block: Any) -> None:
    iterator = made(kind, [block])
    for _ in range(2):
        with pytest.raises(TypeError):
            next(iterator)
    assert iterator._taken == 0


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


# Memory of batches that nobody uses any more serves the next ones


BATCHES = """
import resource
import numpy as np
from beam_datasets.formats import example
from beam_datasets.native import core

records = [example.serialize({"x": np.arange(1000)})] * 256
schema = core.schema(((26, 1000, False, (b"x",)),))
faults = []
for _ in range(20):
    batches = [core.parse(schema, records) for _ in range(4)]
    del batches
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[2])
"""


@pytest.mark.skipif(core is None, reason="the native module was not built")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other ways")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps what was freed, unused")
def test_arrays_are_not_given_back_and_got_again() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", BATCHES], capture_output=True, text=True, env=environment, check=True)
    pages = 17 * 4 * 256 * 8000 // os.sysconf("SC_PAGE_SIZE")
    assert int(done.stdout) < pages / 20


# Wrong arguments of functions in C: an error, never a read or a write outside of a buffer


ERRORS = (TypeError, ValueError, OverflowError, BufferError, IndexError, KeyError, MemoryError)
ONE = np.zeros(1, np.int64)
FROZEN = np.zeros(1, np.int64)
FROZEN.flags.writeable = False
SCHEMA = core.schema(((26, 1, False, (b"x",)),))
NO_INTS: list[Any] = [np.arange(3, dtype=np.int32), np.zeros(3), np.zeros((2, 2), np.int64), b"12345678"]
NO_INTS += [[0, 16], None, "01", 5, {1, 2}, np.arange(6)[::2]]
NO_BUFFERS: list[Any] = [None, "text", 3]
NO_GROUPS: list[Any] = [None, 1, "x", b"x", [], {}, [()], ((),), ((1, 2, 3, 4),), object()]
TYPES = native_encoding._TYPES
FIELD: Any = (5, False, False, "a", bytes, b"x", 0, 2**64 - 1, "i", 8, b"l", (-1,))
NO_FIELDS: list[Any] = [None, (), FIELD[:-1], (6, *FIELD[1:8], "f", 2, *FIELD[10:])]
NO_FIELDS += [
    (*FIELD[:place], wrong, *FIELD[place + 1 :])
    for place, wrongs in {
        0: (-1, 8, 2**40),
        3: (b"a",),
        5: ("x",),
        6: (2**64,),
        8: ("f", "x", "ii"),
        9: (3,),
        10: ("l",),
        11: ([1], (1,) * 9, ("a",), (2**70,)),
    }.items()
    for wrong in wrongs
]


def fails(found: Any) -> Any:
    raise KeyError(found)


def take(runs: Any = ONE, firsts: Any = ONE, counts: Any = ONE, at: int = 0, stop: int = 1, chunks: Any = None) -> Any:
    return core.RecordBlock().take({} if chunks is None else chunks, runs, firsts, counts, at, stop, 9, 9)


CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    *((core.unframe, (b"", wrong, True)) for wrong in NO_INTS),
    *((core.unframe, (wrong, np.arange(2), True)) for wrong in NO_BUFFERS),
    *((core.scan, (wrong, True)) for wrong in NO_BUFFERS),
    *((core.schema, (wrong,)) for wrong in NO_GROUPS),
    *((core.schema, (((kind, 1, True, (b"a",)),),)) for kind in (-1, 0, 1, 2**31, 2**70, "x")),
    *((core.schema, (((26, count, True, (b"a",)),),)) for count in (-(2**70), -3, 0, 2**40, 2**70, None)),
    *((core.schema, (((26, 1, True, names),),)) for names in ((b"a", b"a"), ("a",), [b"a"], None)),
    *((core.schema, (((26, count, True, (b"a", b"b")),),)) for count in (-1, -2)),
    *((core.parse, (wrong, [])) for wrong in NO_GROUPS),
    *((core.parse, (SCHEMA, wrong)) for wrong in (None, 1, "x", b"x", (), {}, ((),), object())),
    (core.parse, (SCHEMA, [memoryview(bytes(20))[::2]])),
    (core.parse, (core.schema(((26, 2**31 - 1, True, tuple(b"%d" % i for i in range(1000))),)), [b""] * 100_000)),
    *((core.encoder, ([FIELD, wrong], bytes, TYPES, False)) for wrong in NO_FIELDS),
    *((core.encoder, wrong) for wrong in ((), (1,), ([], bytes, (), False), ((), bytes, (), 1))),
    (core.encoder, ([], bytes, (np.ndarray, [], (), ()), False)),
    *((core.examples, wrong) for wrong in ((([1],), (None,), 0), ([1], (None,), 0, 1), (([1],), (None, None), 0, 1))),
    *((core.examples, (([1],), (None,), nest, 1)) for nest in (1, -1, {"a": "b"}, {5: 0})),
    *((core.examples, (([1],), (None,), 0, n)) for n in (2, -1, None, 2**62)),
    *((core.examples, wrong) for wrong in (((1,), (None,), 0, 1), (([1],), (fails,), 0, 1), (([1],), (5,), 0, 1))),
    *((take, wrong) for wrong in ((ONE, ONE, ONE, -1), (ONE, ONE, ONE, 0, 2), (np.zeros(2, np.int64), ONE, ONE, 0, 2))),
    *((take, wrong) for wrong in ((ONE, FROZEN), (ONE, ONE, FROZEN), (ONE, ONE.astype(np.int32)), (ONE, ONE, None))),
    (take, (ONE, ONE, np.ones(1, np.int64), 0, 1, {0: "no chunk"})),
    (take, (ONE, ONE, ONE, 0, 1, [])),
    (core.chunk, (bytes(17), np.array([0, 17], np.int32), 0)),
    (core.chunk, (bytes(17), ONE[:0], 0)),
    *((core.run, (None, 0, wrong, 0, 1, 1)) for wrong in (None, b"", b"1234567")),
    *(
        (core.run, (None, 0, bytes(24), first, stop, size))
        for first, stop, size in ((-1, 2, 9), (0, 3, 9), (1, 1, 9), (0, 2, 0), (0, 2, -1), (2**62, 2**63 - 1, 1))
    ),
    *((core.run, (None, -1, bytes(24), 0, 1, 1, *wrong)) for wrong in (("x", 5), (None, 5), (b"x", "5"), (b"x", 5, 0))),
    *((core.read_record, wrong) for wrong in ((0, b""), (0, b"", 1, 2), ("a", b"", 1), (0, 5, 1), (0, b"", "a"))),
    *((core.read_records, wrong) for wrong in ((0, b""), (0, b"", 1, 2), ("a", b"", 1), (0, 5, 1))),
    (core.read_records, (0, b"", np.array([1.0]))),
    *((core.set_threads, (wrong,)) for wrong in (2**70, "a")),
]


@pytest.mark.parametrize("function, arguments", CALLS)
def test_wrong_arguments(function: Any, arguments: Any) -> None:
    with pytest.raises(ERRORS):
        function(*arguments)


def test_numbers_that_are_nowhere() -> None:
    assert core.read_record(0, b"", 2**70) is core.read_record(0, b"123", 0) is None
    assert core.unframe(bytes(57), np.array([2**63 - 1, -(2**63), 2**63 - 1]), True) == []
    assert core.unframe(b"", ONE[:0], True) == core.unframe(b"", ONE, True) == []
    assert core.scan(memoryview(b"").toreadonly(), True) == bytes(8)
