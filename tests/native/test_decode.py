"""What the native module decodes, against the same in Python, for any record that protobuf reads."""

import base64
import contextlib
import functools
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import builder_from_directory
from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from beam_datasets.features import columnar
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.decode import PartialDecoding, SkipDecoding, make_decoder
from beam_datasets.formats import example, tfrecord
from beam_datasets.formats.columns import ANY, KINDS, FeatureGroup, parse, parser
from beam_datasets.native import core
from tests.cases import cases
from tests.features import vectors
from tests.native import wire
from tests.native.agreement import assert_agree, assert_same_outcome, in_python, outcome
from tests.native.values import FEATURES, arrays, lists, scalars
from tests.strategies import dicts, examples

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")
TFDS_DATA = Path(__file__).parents[1] / "data" / "tfds"


# ------------------------------------------------------------------------------------------------------ good records


@cases(60)
@given(examples())
def test_any_features(sample: Any) -> None:
    names = sample.feature.wire_names("")
    if len(set(names)) == len(names):
        assert_agree(sample.feature, list(map(F.compile_encoder(sample.feature), sample.values)))


@functools.cache
def values_of(name: str) -> list[Any]:
    """Values that a feature takes, at most 40."""
    encode, found = F.compile_encoder({"x": FEATURES[name]}), {}
    for value in (*scalars(), *lists(), *arrays()):
        with contextlib.suppress(Exception):  # what it does not take
            found.setdefault(encode({"x": value}), value)
    signalling = b"\0\0\xa0\x7f"  # a NaN that protobuf does not keep
    values = [value for record, value in found.items() if len(record) < 400 and signalling not in record]
    return values[:: len(values) // 40 + 1]


def records_of(names: Iterable[str], count: int, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    encode = F.compile_encoder({name: FEATURES[name] for name in names})
    return [encode({name: rng.choice(values_of(name)) for name in names}) for _ in range(count)]


@pytest.mark.parametrize("name", FEATURES)
def test_each_kind_of_feature(name: str) -> None:
    feature = {name: FEATURES[name]}
    assert_agree(feature, [F.compile_encoder(feature)({name: value}) for value in values_of(name)])


def test_all_kinds_together() -> None:
    records = records_of(FEATURES, 5)
    some = {"int8": True, "deeper": {"b": {"d"}}, "sequence_of_dicts": {"a"}, "optional_int": True}
    for options in ({}, {"decoders": SkipDecoding()}, {"decoders": PartialDecoding(some)}, {"partial": some}):
        assert_agree(FEATURES, records, **options)


def test_labels_without_classes() -> None:
    assert_agree({"any label": F.ClassLabel()}, [example.serialize({"any label": [i]}) for i in range(3)])


def test_no_features() -> None:
    assert ColumnarDecoder(F.FeaturesDict({})).examples([]) == []
    assert ColumnarDecoder(F.FeaturesDict({})).examples([b"", example.serialize({"a": [1]})]) == [{}, {}]


def test_names_that_collide() -> None:
    colliding = {"a/b": np.int64, "a": {"b": np.int64}}
    assert_agree(colliding, [example.serialize({"a/b": [7]})])


def test_many_features_and_entries() -> None:
    feature = {f"{i:04}": np.int64 if i % 3 else np.float32 for i in range(500)}
    encode = F.compile_encoder(feature)
    records = [encode(dict.fromkeys(feature, i % 100)) for i in range(4)]
    assert_agree(feature, records)
    assert_agree(feature, records, partial={"0003", "0004", "0499"})


@pytest.mark.parametrize("size", [*range(1, 45), 64, 100, 122, 123, 124, 125, 126, 127, 128, 129, 200])
def test_names_that_differ_in_one_character_from_those_of_the_record_before(size: int) -> None:
    names = ["a" * i + "b" + "a" * (size - i - 1) for i in range(size)]
    scalar = F.Scalar(np.int64, optional=True)
    some = names if size < 20 else [*names[::7], names[-1]]  # 7: at every place within a word or a vector
    records = [example.serialize({name: [i]}) for i, name in enumerate(some)]
    assert_agree(dict.fromkeys(some, scalar), records)
    others = [example.serialize({name: [1], "z": [i]}) for i, name in enumerate([*names, "a" * size])]
    assert_agree({"a" * size: scalar, "z": np.int64}, others)


def test_a_block_decoder_is_for_small_examples() -> None:
    def small(feature: Any, **options: Any) -> bool:
        return ColumnarDecoder(select_decoded(feature, **options)).is_small

    assert small({"a": np.int64, "text": F.Text(), "tokens": F.Sequence(np.int64), "image": F.Image(shape=(28, 28, 1))})
    assert not small({"image": F.Image(shape=(512, 512, 3))})
    assert not small({"image": F.Image()})
    assert small({"image": F.Image()}, decoders={"image": SkipDecoding()})
    assert not small({"zlib": F.Tensor(shape=(None,), dtype=np.int64, encoding="zlib")})
    assert not small({"video": F.Video(shape=(None, 8, 8, 3))})
    assert not small({"a": np.int64}, decoders={"a": make_decoder()(lambda stored, feature: stored)()})


def test_a_block_decoder_raises_the_error_of_a_record() -> None:
    decode = ColumnarDecoder(select_decoded({"a": np.int64})).examples
    with pytest.raises(FeatureValueError, match=r"^a: the record has 2 values, expected one$"):
        decode([example.serialize({"a": [1]}), example.serialize({"a": [1, 2]})])


# ------------------------------------------------------------------------------------------------- unusual records


@pytest.mark.slow
@pytest.mark.parametrize("partial", [None, {"int64", "text"}], ids=["all", "two features"])
def test_damaged_records(partial: set[str] | None) -> None:
    """Each byte another one, and cut at each byte with and without what the record says of its length."""
    features = {name: FEATURES[name] for name in (*list(FEATURES)[::2], "int64", "text")}
    (good,) = records_of(features, 1)
    decode = in_python(lambda: F.compile_decoder(features, partial=partial))
    native = F.compile_decoder(features, partial=partial)
    entries = good[next(place for place in range(2, 9) if good[place - 1] < 128) :]  # behind tag and length
    rng = random.Random(2)
    refused = 0
    for place in range(len(good)):
        other = bytes([good[place] ^ rng.choice([1, 2, 4, 8, 16, 32, 64, 128, rng.randrange(1, 256)])])
        for record in (good[:place], good[:place] + other + good[place + 1 :], wire.record([entries[:place]])):
            want = outcome(lambda record=record: decode(record))
            assert_same_outcome(outcome(lambda record=record: native(record)), want)
            refused += isinstance(want, tuple)
    assert refused > 2 * len(good)


@cases(100)
@given(dicts(1), st.data())
def test_damaged_records_of_any_features(sample: Any, data: Any) -> None:
    names = sample.feature.wire_names("")
    if len(set(names)) < len(names):
        return
    record = bytearray(F.compile_encoder(sample.feature)(sample.values[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        if record:
            record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    for damaged in (bytes(record), bytes(record[:cut])):
        assert_agree(sample.feature, [damaged])


@pytest.mark.parametrize("place", sorted(path.parent for path in TFDS_DATA.glob("*/*/features.json")), ids=str)
def test_records_that_tfds_wrote(place: Path) -> None:
    features = builder_from_directory(str(place)).info.features
    for shard in sorted(place.glob("*.tfrecord-*")):
        data = shard.read_bytes()
        records = tfrecord.unframe(data, tfrecord.scan(data, path=str(shard)), path=str(shard))
        if records:
            assert_agree(features, list(map(bytes, records)))


@pytest.mark.parametrize("name", [name for name, case in vectors.cases().items() if "serialized_canonical_b64" in case])
def test_vectors(name: str) -> None:
    case = vectors.cases()[name]
    assert_agree(vectors.feature_of(case), [base64.b64decode(case["serialized_canonical_b64"])] * 2)


# Records of any form that protobuf reads, and the functions in C by themselves


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


ONE, MANY = 1, -1


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


@given(st.lists(st.sampled_from(["canonical", "split", "twice"]), min_size=1, max_size=20), st.integers(0, 3))
def test_irregular_records_are_parsed_as_their_canonical_form(forms, missing):
    """They are written anew, so that the other records of their block are still parsed natively."""
    canonical = [
        example.serialize({"a": [i], "b": [i / 2] * 3, **({} if i < missing else {"c": [b"x"]})})
        for i in range(len(forms))
    ]
    rewritten = []
    for form, record_bytes in zip(forms, canonical):
        whole, spans = example.parse_spans(record_bytes)
        entries = [example.entry(name, whole[slice(*span)]) for name, span in spans.items()]
        if form == "split":  # in two messages, which protobuf merges
            record_bytes = example.record(entries[0]) + example.record(b"".join(entries[1:]))
        elif form == "twice":
            record_bytes = example.record(entries[0] + b"".join(entries))
        rewritten.append(record_bytes)
    groups = (
        FeatureGroup(KINDS["int64"], 1, False, (b"a",)),
        FeatureGroup(KINDS["float"], ANY, False, (b"b",)),
        FeatureGroup(KINDS["bytes"], 1, True, (b"c",)),
    )
    assert parser(groups)(rewritten) == parse(groups, canonical)
