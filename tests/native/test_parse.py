"""Records of any form that protobuf reads, and the functions in C by themselves."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.features import columnar
from beam_datasets.formats import example
from beam_datasets.native import core
from tests.cases import cases
from tests.native import wire
from tests.native.agreement import assert_agree

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_random_bytes(records: list[bytes]) -> None:
    feature = {"a": np.int64, "b": F.Sequence(np.float32), "": F.Text(), "c": F.Sequence(F.Sequence(np.int8))}
    assert_agree(feature, records)


INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), max_size=4)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), max_size=4)
FOREIGN = {
    "i": F.Sequence(np.int64),
    "f": F.Sequence(np.float32),
    "one": np.int64,
    "two": F.Tensor(shape=(2,), dtype=np.float32),
    "text": F.Text(),
    "maybe": F.Scalar(np.int64, optional=True),
}
FEATURE = st.one_of(
    INTEGERS.map(wire.integers),
    INTEGERS.map(wire.loose_integers),
    FLOATS.map(wire.floats),
    FLOATS.map(wire.loose_floats),
    st.lists(st.binary(max_size=200), max_size=2).map(wire.strings),
    st.builds(
        lambda a, b: wire.field(3, wire.field(1, b"\x01") + b"\x08\x02" + wire.field(1, a + b)), *2 * [st.just(b"\x05")]
    ),
    st.builds(
        lambda n, size: wire.field(3, wire.field(1, wire.long_varint(n, size))), st.integers(0), st.integers(1, 11)
    ),
    st.builds(lambda a, b: a + b, INTEGERS.map(wire.integers), INTEGERS.map(wire.integers)),
    st.builds(lambda a: a + b"\x20\x01", INTEGERS.map(wire.integers)),
    st.just(b""),
    st.just(b"\x1a\x00"),
    st.just(b"\x1a\x02\x0a\x00"),
    st.just(b"\x12\x03\x0a\x01\x00"),
)
ENTRY = st.builds(
    lambda make, name, feature, extra: (
        make(name, feature) if make is wire.swapped else wire.entry(name, feature, extra)
    ),
    st.sampled_from([wire.entry] * 9 + [wire.swapped]),
    st.sampled_from([*(name.encode() for name in FOREIGN), b"other", b"", b"\xff"]),
    FEATURE,
    st.sampled_from([b""] * 9 + [b"\x18\x01", wire.field(1, b"i"), wire.field(2, wire.integers([1]))]),
)


@cases(300)
@given(
    st.lists(st.lists(ENTRY, max_size=8), min_size=1, max_size=3),
    st.sampled_from([b""] * 5 + [b"\x10\x01", b"\x0a\x00"]),
)
def test_records_of_foreign_writers(entries: list[list[bytes]], extra: bytes) -> None:
    """Lists that are not packed, any order, features twice or missing, of other kinds, unknown fields."""
    assert_agree(FOREIGN, [wire.record(some) + extra for some in entries])


@pytest.mark.parametrize("first, second", [(0, 69), (3, 65), (66, 67), (64, 69)])
@pytest.mark.parametrize("name", ["wanted", "other"])
def test_a_name_that_is_there_twice_among_many(first: int, second: int, name: str) -> None:
    """Entries behind the 64th are compared with what is remembered of all of them."""
    names = [f"f{i:02}" for i in range(70)]
    names[first] = names[second] = name
    records = [
        wire.record(wire.entry(each.encode(), wire.integers([i])) for i, each in enumerate([*some, "wanted"]))
        for some in (names[:first], names)
    ]
    assert_agree({"wanted": np.int64}, records[:1])
    assert_agree({"wanted": np.int64}, records)


ONE, MANY, FILLED = 1, -1, -2


def parsed(kind: int, count: int, records: list[bytes]) -> Any:
    found = core.parse(core.schema(((kind, count, False, (b"x",)),)), records)
    return found and found[0]


@given(st.lists(st.lists(st.integers(-9, 300), max_size=5), min_size=1, max_size=4), st.sampled_from([26, 18]))
def test_lists_filled_up(rows: list[list[int]], kind: int) -> None:
    make = wire.integers if kind == 26 else wire.floats
    found = parsed(kind, FILLED, [wire.record([wire.entry(b"x", make(row))]) for row in rows])
    dtype: Any = np.int64 if kind == 26 else np.float32
    longest = max(map(len, rows))
    assert np.frombuffer(found[1], np.int64).tolist() == list(map(len, rows))
    wanted = [row + [0] * (longest - len(row)) for row in rows]
    assert np.frombuffer(bytes(found[0]), dtype).reshape(len(rows), longest).tolist() == wanted


def test_what_parse_returns() -> None:
    schema = core.schema(((26, ONE, True, (b"a", b"b")), (10, ONE, True, (b"t",)), (10, MANY, True, (b"u",))))
    records = [example.serialize({"a": [1], "b": [2], "t": [b"x"], "u": [b"y", b"z"]}), example.serialize({"b": [3]})]
    numbers, texts, lists = core.parse(schema, records)
    assert np.frombuffer(numbers[0], np.int64).tolist() == [1, 0, 2, 3]
    assert numbers[1] == [(0, 1)]
    assert texts == [b"x", None]
    assert (lists[0], np.frombuffer(lists[1], np.int64).tolist()) == ([b"y", b"z"], [2, -1])


def test_what_was_taken_is_given_back() -> None:
    record = bytearray(example.serialize({"x": [1]}))
    for records in ([record], [record, record[:-1]], [record, "x"]):
        with contextlib.suppress(TypeError):
            core.parse(core.schema(((26, 1, False, (b"x",)),)), records)
        record.append(0)  # which is refused while somebody holds the buffer
        record.pop()


# ------------------------------------------------------------------------------------------------------------ examples


def test_examples_are_put_together() -> None:
    columns = ([1, 2, 3, 4], np.array([3.5, 4.5], np.float32), b"ab")
    makers = (None, None, lambda data: (data, data * 2))
    nest = {"a": 3, "b": {"c": 0, "d": {}, "e": {"f": 2}}}
    for make in (core.examples, columnar._examples_in_python):
        found = make(columns, makers, nest, 2)
        assert found == [
            {"a": b"ab", "b": {"c": 1, "d": {}, "e": {"f": 3.5}}},
            {"a": b"abab", "b": {"c": 2, "d": {}, "e": {"f": 4.5}}},
        ]
        assert type(found[0]["b"]["e"]["f"]) is np.float32
        assert make(([7, 8],), (None,), 0, 2) == [7, 8]
        assert make((), (), {}, 2) == [{}, {}]
    assert nest == {"a": 3, "b": {"c": 0, "d": {}, "e": {"f": 2}}}


def test_a_nest_without_end() -> None:
    nest: dict[str, Any] = {}
    nest["a"] = nest
    with pytest.raises(RecursionError):
        core.examples(([1],), (None,), nest, 1)
