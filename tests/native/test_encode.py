"""What the native module encodes and collects, against the same in Python: the same bytes, or the same error."""

import sys
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.features import compile_encoder, native_encoding
from beam_datasets.formats import tfrecord
from beam_datasets.native import core
from beam_datasets.shuffle import block_builder
from tests.native.values import FEATURES, Once, Text, arrays, lists, scalars
from tests.processes import in_threads
from tests.strategies import examples

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")


def encoders(features: Any) -> tuple[Callable[[Any], bytes], Callable[[Any], bytes]]:
    """The encoder of features that uses the native module, and the one that does not."""
    native = compile_encoder(features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_encoding, "core", None)
        return native, compile_encoder(features)


def outcome(encode: Callable[[Any], bytes], value: Any) -> bytes | tuple[type, str]:
    try:
        return encode(value)
    except Exception as error:
        return type(error), str(error)


def assert_agree(features: Any, *values: Any) -> None:
    native, python = encoders(features)
    for value in values:
        got, want = outcome(native, value), outcome(python, value)
        assert got == want, value


VALUES = {"scalars": scalars, "lists": lists, "arrays": arrays}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("make", VALUES)
def test_any_value(name: str, make: str) -> None:
    features = {"a": np.int64, "x": FEATURES[name], "z": F.Text()}
    assert_agree(features, *({"a": 5, "x": value, "z": "end"} for value in VALUES[make]()))


@pytest.mark.parametrize("name", FEATURES)
def test_what_is_taken_once_is_taken_once(name: str) -> None:
    native, python = encoders({"x": FEATURES[name]})
    for items in ([1, 2, 3], ["a", "b", "c"], []):
        assert outcome(native, {"x": Once(items)}) == outcome(python, {"x": Once(items)})


@given(examples())
def test_made_up_features(sample: Any) -> None:
    names = sample.feature.wire_names("")
    assume(len(set(names)) == len(names))
    assert_agree(sample.feature, *sample.values)
    native, _ = encoders(sample.feature)
    assert all(isinstance(native(value), bytes) for value in sample.values)


def test_every_length_of_varint_and_of_name() -> None:
    numbers = [sign * 2**bits + more for bits in range(64) for sign in (1, -1) for more in (-1, 0, 1)]
    numbers = [n for n in numbers if -(2**63) <= n < 2**63]
    for name in ("x", "x" * 100, "x" * 127, "x" * 128, "é" * 9000):
        assert_agree({name: np.int64}, *({name: n} for n in numbers))
        assert_agree({name: F.Sequence(np.int64)}, *({name: numbers[:n]} for n in range(0, len(numbers), 7)))
        assert_agree({name: F.Sequence(np.int64)}, *({name: np.array(numbers[:n])} for n in range(len(numbers))))
        sizes = (*range(300), 16_383, 16_384, 2**21 - 1, 2**21)
        assert_agree({name: F.Text()}, *({name: b"t" * n} for n in sizes))
        assert_agree({name: F.Sequence(F.Text())}, *({name: [b"t" * n, ""]} for n in sizes))


# ------------------------------------------------------------------------------------------------------ dicts

SEVERAL = {"b": np.int64, "a": F.Text(), "é": F.Sequence(np.float32), "c": {"d": np.int64, "e": F.Text()}}
RIGHT: dict[Any, Any] = {"b": 1, "a": "x", "é": [0.5], "c": {"d": 1, "e": "y"}}


class Odd(dict):  # type: ignore[type-arg]
    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if key != "b" else 42


class Same(str):
    """Equal to any text of its length, and found where "b" is."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and len(self) == len(other)

    def __hash__(self) -> int:
        return hash("b")


def test_any_dict() -> None:
    less = {key: value for key, value in RIGHT.items() if key != "b"}
    assert_agree(
        SEVERAL,
        RIGHT,
        dict(reversed(RIGHT.items())),
        OrderedDict(RIGHT),
        UserDict(RIGHT),
        Odd(RIGHT),
        defaultdict(int, RIGHT),
        defaultdict(int, less),
        less,
        RIGHT | {"new": 1},
        less | {"new": 1},
        less | {1: 1},
        less | {None: 1},
        less | {Text("b"): 1},
        less | {np.str_("b"): 1},
        less | {Same("?"): 1},
        RIGHT | {"a": 1.5},
        RIGHT | {"a": 1.5, "new": 1},
        RIGHT | {"a": 1.5, "b": "x"},
        RIGHT | {"c": {"d": 1}},
        RIGHT | {"c": {"d": 1, "e": "y", "f": 1}},
        RIGHT | {"c": Odd({"d": 1, "e": "y"})},
        RIGHT | {"c": None},
        RIGHT | {"c": []},
        {},
        None,
        [],
        [RIGHT],
        "text",
        RIGHT.items(),
        SEVERAL,
    )
    assert_agree({}, {}, {"a": 1}, None)
    wide = {f"{i:03}": np.int64 for i in range(200)}
    assert_agree(wide, dict.fromkeys(wide, 5), dict.fromkeys(wide, 2**70), {**dict.fromkeys(wide, 5), "x": 1})


def test_names_whose_entries_do_not_stand_together() -> None:
    features = {"a": {"b": np.int64}, "a.c": np.int64, "a0": np.int64}
    assert_agree(features, {"a": {"b": 1}, "a.c": 2, "a0": 3})
    assert_agree(F.Sequence({"a": np.int64}), [{"a": 1}, {"a": 2}], {"a": [1, 2]}, [])


def test_errors_of_a_key_are_its_own() -> None:
    class Bad:
        def __hash__(self) -> int:
            return hash("b")

        def __eq__(self, other: object) -> bool:
            raise KeyError("mine")

    native, _ = encoders({"b": np.int64})
    with pytest.raises(KeyError, match="mine"):
        native({Bad(): 1})


def test_values_that_call_the_encoder() -> None:
    native, _ = encoders({"a": F.Sequence(np.int64), "b": np.int64})
    record = native({"a": [1, 2], "b": 3})

    class Calls:
        def __iter__(self) -> Any:
            assert native({"a": [1, 2], "b": 3}) == record
            assert native({"a": np.arange(100_000), "b": 3})[-1] == 3
            return iter([1, 2])

    assert native({"a": Calls(), "b": 3}) == record


def test_values_that_change_the_dict() -> None:
    native, _ = encoders({"a": F.Sequence(np.int64), "b": np.int64, "c": F.Text()})
    example: dict[str, Any] = {}

    class Empties:
        def __iter__(self) -> Any:
            example.clear()
            return iter([1, 2])

    example.update({"a": Empties(), "b": 2**40, "c": "text" * 10})
    assert native(example) == native({"a": [1, 2], "b": 2**40, "c": "text" * 10})


def test_several_threads() -> None:
    native, python = encoders(SEVERAL)
    rows = [RIGHT | {"é": [n, 0.5] * n, "b": n} for n in range(200)]  # the list by way of Python
    got: dict[int, list[bytes]] = {}
    in_threads(4, lambda i: got.update({i: list(map(native, rows))}))
    wanted = list(map(python, rows))
    assert got == dict.fromkeys(range(4), wanted)


def test_large_records() -> None:
    native, python = encoders({"x": F.Sequence(np.int64), "y": F.Text(), "z": F.Sequence(np.float32)})
    for n in (10, 3_000_000, 10, 0):
        value = {"x": np.arange(n) - 5, "y": "é" * n, "z": np.arange(n, dtype=np.float32)}
        assert native(value) == python(value)


def test_no_reference_is_kept_or_lost() -> None:
    native, _ = encoders(
        {"n": np.int64, "t": F.Text(), "v": F.Sequence(np.int64), "f": np.float32, "o": F.Sequence(F.Text())}
    )
    value = {"n": 10**12, "t": "some text é", "v": np.arange(5), "f": np.float32(1.5), "o": ["some other", b"bytes"]}
    wrong = [value | {"v": [object()]}, value | {"t": "\ud800"}, value | {"n": 2**80}, value | {"x": 1}, None]
    held = [*value.values(), *value["o"]]  # type: ignore[misc]
    before = list(map(sys.getrefcount, held))
    for _ in range(1000):
        native(value)
        for bad in wrong:
            outcome(native, bad)
    assert list(map(sys.getrefcount, held)) == before


def test_an_encoder_goes_with_what_it_holds() -> None:
    part, fallback = (lambda value: b""), (lambda value: b"")
    before = sys.getrefcount(part), sys.getrefcount(fallback)
    fields = [(0, False, False, "a", part, b"x", 0, 0, "i", 8, b"l", ())]
    for _ in range(100):
        core.encoder(fields, fallback, native_encoding._TYPES, True)  # type: ignore[union-attr]
    assert (sys.getrefcount(part), sys.getrefcount(fallback)) == (before[0] + 1, before[1])


def test_parts_and_fallbacks_must_return_bytes() -> None:
    field = (0, False, False, "a", str, b"x", 0, 0, "i", 8, b"l", ())
    encode = core.encoder([field], str, native_encoding._TYPES, False)  # type: ignore[union-attr]
    for value in ({"a": 1}, {"b": 1}, None):
        with pytest.raises(TypeError):
            encode(value)


def test_elements_that_are_not_as_declared() -> None:
    array = np.arange(4)
    for format_, element, size in ((b"l", "i", 4), (b"i", "i", 4), (b"l", "u", 8), (b"l", "?", 1), (b"d", "i", 8)):
        field = (5, False, False, "a", lambda value: b"part", b"x", 0, 2**64 - 1, element, size, format_, (-1,))
        got = core.encoder([field], bytes, native_encoding._TYPES, False)({"a": array})  # type: ignore[union-attr]
        assert got == b"part" or (element, size) == ("u", 8)


# Records that are framed as they come, against the same in Python


def collectors(encode: Any) -> tuple[Any, Any]:
    """Returns the functions of a collector, and the same made in Python."""
    slow = block_builder._Collector(encode, block_builder.MAX_RECORD_BYTES)
    return core.collector(encode, block_builder.MAX_RECORD_BYTES), (slow.append, slow.sizes, slow.ordered, slow.clear)


@given(
    st.lists(st.tuples(st.booleans(), st.text(max_size=300), st.integers(-(2**63), 2**63 - 1)), max_size=40),
    st.randoms(use_true_random=False),
)
def test_records_of_any_encoder_are_collected_in_any_order(rows, random):
    encoders = {
        True: compile_encoder(F.FeaturesDict({"text": F.Text(), "number": np.int64})),
        False: compile_encoder(F.FeaturesDict({"zlib": F.Tensor(shape=(1,), dtype=np.int64, encoding="zlib")})),
    }

    def encode(row: Any) -> bytes:
        plain, text, number = row
        return encoders[plain]({"text": text, "number": number} if plain else {"zlib": [number]})

    texts = [{"text": text, "number": number} for _, text, number in rows]
    for function, values in ((encode, rows), (encoders[True], texts)):
        native, python = collectors(function)
        for keep in (True, False, True):
            assert [native[0](value) for value in values] == [python[0](value) for value in values]
            assert native[1]() == python[1]()
            order = random.sample(range(len(rows)), len(rows))
            for numbers in (order, order[:3], []):
                assert native[2](np.array(numbers, np.int64)) == python[2](np.array(numbers, np.int64))
            native[3](keep), python[3](keep)
            assert native[1]() == b""


def test_an_example_that_cannot_be_encoded_leaves_nothing():
    (append, sizes, ordered, _), (slow, _, slow_ordered, _) = collectors(
        compile_encoder(F.FeaturesDict({"text": F.Text(), "number": np.int64}))
    )
    for example in (
        {"text": "x" * 99, "number": 1},
        {"text": "y", "number": "z"},
        {"text": "y"},
        {"text": "", "number": 2},
    ):
        outcomes = []
        for function in (append, slow):
            try:
                outcomes.append(function(example))
            except Exception as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]
    assert len(sizes()) == 2 * 4
    assert ordered(np.array([1, 0])) == slow_ordered(np.array([1, 0]))


def test_what_is_not_there_and_what_is_in_use_are_errors():
    append, sizes, ordered, clear = core.collector(lambda value: value, 9)
    append(b"one")
    for numbers in ([1], [-1], [0, 2**62]):
        with pytest.raises(ValueError, match="of 1, or too many"):
            ordered(np.array(numbers))
    with pytest.raises(TypeError):
        append("no bytes")
    with pytest.raises(TypeError):
        ordered(None)
    assert ordered(np.array([0])) == tfrecord.frame(b"one")
    for number, argument in ((0, b""), (2, []), (3, True)):
        again: list[Any] = []
        again += core.collector(lambda _, own=again, n=number, value=argument: own[n](value), 9)
        with pytest.raises(RuntimeError, match="in use"):
            again[0](b"")
    clear(False)
    assert sizes() == b""


def test_a_record_that_is_too_large_is_not_kept():
    append, sizes, ordered, _ = core.collector(bytes, 5)
    assert [append(size) for size in (3, 6, 5)] == [3, 6, 5]
    assert np.frombuffer(sizes(), "<u4").tolist() == [19, 21]
    assert ordered(np.array([0, 1])) == tfrecord.frame(bytes(3)) + tfrecord.frame(bytes(5))
    for most in (-1, 2**31):
        with pytest.raises(ValueError, match="most is"):
            core.collector(bytes, most)
