"""Features against protobuf, and decoders: which items, in which order, and no more parsed than they need.

What TensorFlow does with the same records is written down as literals.
"""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import FeatureKeyError, FeatureValueError
from beam_datasets.features import RaggedArray
from beam_datasets.formats import example, example_pb2
from beam_datasets.formats.example import ExampleError
from beam_datasets.slim import (
    BoundingBox,
    FixedLen,
    FixedLenSequence,
    Tensor,
    TFExampleDecoder,
    TFSequenceExampleDecoder,
    VarLen,
)
from tests.facts import raises_with

KINDS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}
VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "string": st.binary(max_size=20),
}


class Value(Tensor):
    """Shows a parsed value as it is."""

    def tensors_to_item(self, keys_to_tensors):
        return keys_to_tensors[self.key]


def feature(dtype, values):
    message = example_pb2.Feature()
    getattr(message, KINDS[dtype]).SetInParent()
    getattr(message, KINDS[dtype]).value.extend(values)
    return message


def parse(spec, message=None):
    """What an Example decoder parses of one feature, or of none."""
    record = example_pb2.Example()
    record.features.feature["other"].int64_list.value.append(1)
    if message is not None:
        record.features.feature["k"].CopyFrom(message)
    [value] = TFExampleDecoder({"k": spec}, {"item": Value("k")}).decode(record.SerializeToString())
    return value


def parse_steps(spec, messages=None):
    """What a SequenceExample decoder parses of one feature list, or of none."""
    record = example_pb2.SequenceExample()
    record.feature_lists.feature_list["other"].SetInParent()
    if messages is not None:
        record.feature_lists.feature_list["k"].SetInParent()
        record.feature_lists.feature_list["k"].feature.extend(messages)
    [value] = TFSequenceExampleDecoder({}, {"k": spec}, {"item": Value("k")}).decode(record.SerializeToString())
    return value


@pytest.mark.parametrize("dtype", KINDS)
@given(data=st.data())
def test_lists_are_what_was_stored(dtype, data):
    values = data.draw(st.lists(VALUES[dtype], max_size=30))
    got = parse(VarLen(dtype), feature(dtype, values))
    assert got.tolist() == values
    assert got.dtype == (object if dtype == "string" else dtype)
    assert got.flags.writeable
    fixed = parse(FixedLen([len(values)], dtype), feature(dtype, values))
    assert fixed.tolist() == values
    assert fixed.flags.writeable


@pytest.mark.parametrize("dtype", KINDS)
@given(data=st.data())
def test_steps_are_what_was_stored(dtype, data):
    rows = data.draw(st.lists(st.lists(VALUES[dtype], max_size=4), max_size=6))
    got = parse_steps(VarLen(dtype), [feature(dtype, row) for row in rows])
    assert isinstance(got, RaggedArray)
    assert got.to_list() == rows
    assert got.dtype == (object if dtype == "string" else dtype)
    steps = data.draw(st.lists(st.lists(VALUES[dtype], min_size=6, max_size=6), max_size=4))
    fixed = parse_steps(FixedLenSequence((2, 3), dtype), [feature(dtype, row) for row in steps])
    assert fixed.shape == (len(steps), 2, 3)
    assert fixed.reshape(len(steps), 6).tolist() == steps
    assert fixed.flags.writeable


def test_what_has_no_list_is_absent():
    for absent in (None, example_pb2.Feature()):
        assert parse(FixedLen((), "int64", 7), absent) == 7
        assert parse(FixedLen((), "string", "é"), absent) == "é".encode()
        assert parse(FixedLen((), "string", b""), absent) == b""
        assert parse(FixedLen((2, 2), "float32", [1, 2, 3, 4]), absent).tolist() == [[1, 2], [3, 4]]
        assert parse(FixedLen((2,), "string", ["a", b"b"]), absent).tolist() == [b"a", b"b"]
        assert parse(VarLen("int64"), absent).shape == (0,)
        with raises_with(FeatureKeyError, feature="k", expected=re.compile("no default"), got="a record without it"):
            parse(FixedLen((), "int64"), absent)
    spec = FixedLen((2,), "int64", [1, 2])
    parse(spec)[:] = 0
    assert parse(spec).tolist() == [1, 2]


def test_an_empty_list_is_not_absent():
    with raises_with(FeatureValueError, feature="k", expected=re.compile(r"1 .*\(\)"), got="0 in the record"):
        parse(FixedLen((), "int64", 7), feature("int64", []))
    assert parse(FixedLen((0,), "int64"), feature("int64", [])).shape == (0,)


def test_steps_that_are_absent():
    with raises_with(FeatureKeyError, feature="k", expected=re.compile("allow_missing"), got="a record without it"):
        parse_steps(FixedLenSequence((2,), "int64"))
    assert parse_steps(FixedLenSequence((2,), "int64", allow_missing=True)).shape == (0, 2)
    assert parse_steps(FixedLenSequence((2,), "int64"), []).shape == (0, 2)
    for rows in (None, []):
        assert parse_steps(VarLen("int64"), rows).to_list() == []
    some = [feature("int64", [1]), example_pb2.Feature()]
    assert parse_steps(VarLen("int64"), some).to_list() == [[1], []]
    with raises_with(FeatureValueError, feature="k", got="0 in time step 1"):
        parse_steps(FixedLenSequence((1,), "int64"), some)


def test_what_does_not_fit():
    with raises_with(FeatureValueError, feature="k", expected=re.compile(r"3 .*\(3,\)"), got="2 in the record"):
        parse(FixedLen((3,), "int64"), feature("int64", [1, 2]))
    for values in ([1.5], []):
        for spec in (VarLen("int64"), FixedLen((), "int64", 1), VarLen("string")):
            with pytest.raises(FeatureValueError, match=r"^k: expected a list of .*, found float_list"):
                parse(spec, feature("float32", values))
        with raises_with(FeatureValueError, feature="k"):
            parse_steps(VarLen("int64"), [feature("int64", [1]), feature("float32", values)])
    with raises_with(FeatureValueError, feature="k", expected=re.compile(r"2 .*\(2,\)"), got="1 in time step 1"):
        parse_steps(FixedLenSequence((2,), "int64"), [feature("int64", [1, 2]), feature("int64", [3])])


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: FixedLen((2,), "int64", 7), r"default 7 has 1 values, but shape \(2,\) 2"),
        (lambda: FixedLen((), "int64", 1.5), "default 1.5 does not have the dtype int64"),
        (lambda: FixedLen((), "float32", "x"), "default 'x' does not have the dtype float32"),
        (lambda: FixedLen((), "string", 3), "text or bytes, got 3"),
        (lambda: FixedLen((None,), "int64"), r"shape \(None,\) must have lengths of 0 and more"),
        (lambda: FixedLenSequence((-1,), "int64"), "must have lengths of 0 and more"),
        (lambda: VarLen("int32"), "a record holds lists of string, int64, float32; got int32"),
        (lambda: FixedLen((), np.uint8), "got uint8"),
    ],
)
def test_features_are_checked_at_birth(make, text):
    with pytest.raises(ValueError, match=text):
        make()


RECORD = example.serialize({"a": [1], "b": [2.5], "c": [b"x", b"y"]})
FEATURES = {"a": FixedLen((), "int64"), "b": VarLen("float32"), "c": VarLen("string")}
DECODER = TFExampleDecoder(FEATURES, {"one": Tensor("a"), "two": Tensor("b"), "text": Tensor("c", shape=(2, 1))})


def sequence_record():
    record = example_pb2.SequenceExample()
    record.context.feature["label"].int64_list.value.append(3)
    for row in ([1.0, 2.0], [], [3.0]):
        record.feature_lists.feature_list["x"].feature.add().float_list.value.extend(row)
    for name in (b"p", b"q"):
        record.feature_lists.feature_list["frame"].feature.add().bytes_list.value.append(name)
    return record.SerializeToString()


SEQUENCES = TFSequenceExampleDecoder(
    {"label": FixedLen((), "int64")},
    {"x": VarLen("float32"), "frame": FixedLenSequence((), "string")},
    {"label": Tensor("label"), "x": Tensor("x", default_value=-1), "frames": Tensor("frame")},
)


def test_items_come_in_the_asked_order():
    assert DECODER.list_items() == ["one", "two", "text"]
    assert [np.asarray(v).tolist() for v in DECODER.decode(RECORD)] == [1, [2.5], [[b"x"], [b"y"]]]
    assert [np.asarray(v).tolist() for v in DECODER.decode(RECORD, ["two", "one", "two"])] == [[2.5], 1, [2.5]]
    assert DECODER.decode(RECORD, []) == []
    [two] = DECODER.decode(memoryview(RECORD), ("two",))
    assert two.tolist() == [2.5]


def test_sequences():
    assert SEQUENCES.list_items() == ["label", "x", "frames"]
    label, x, frames = SEQUENCES.decode(sequence_record())
    assert label == 3
    assert x.tolist() == [[1, 2], [-1, -1], [3, -1]]
    assert frames.tolist() == [b"p", b"q"]
    assert SEQUENCES.decode(sequence_record(), ["label"]) == [3]


@pytest.mark.parametrize(
    "decoder, record", [(DECODER, RECORD), (SEQUENCES, sequence_record())], ids=["example", "sequences"]
)
def test_an_unknown_item_lists_the_known(decoder, record):
    known = ", ".join(map(repr, decoder.list_items()))
    with pytest.raises(ValueError, match=f"no item 'three'; known are {known}"):
        decoder.decode(record, [decoder.list_items()[0], "three"])
    with pytest.raises(TypeError, match=r"must be a list of names, got the text 'one'; write \['one'\]"):
        decoder.decode(record, "one")


def test_only_what_is_asked_for_is_parsed():
    bad = {"a": VarLen("string"), "b": FixedLen((5,), "float32"), "c": VarLen("string")}
    decoder = TFExampleDecoder(bad, {"bad": Tensor("a"), "worse": Tensor("b"), "good": Tensor("c")})
    assert decoder.decode(RECORD, ["good"])[0].tolist() == [b"x", b"y"]
    for item in ("bad", "worse"):
        with pytest.raises(FeatureValueError):
            decoder.decode(RECORD, ["good", item])
    decoder = TFSequenceExampleDecoder(
        {"label": VarLen("string")}, {"x": VarLen("int64")}, {"label": Tensor("label"), "x": Tensor("x")}
    )
    for item in ("label", "x"):
        with raises_with(FeatureValueError, feature=item):
            decoder.decode(sequence_record(), [item])


def test_names_may_not_overlap():
    with pytest.raises(ValueError, match="keys 'a', 'b' are in the context and in the sequences"):
        TFSequenceExampleDecoder(
            {"b": VarLen("int64"), "a": VarLen("int64"), "c": VarLen("int64")},
            {"a": VarLen("int64"), "b": VarLen("int64"), "d": VarLen("int64")},
            {},
        )


def test_a_handler_needs_features():
    with pytest.raises(
        ValueError, match=r"item 'box' needs the keys 'ymax', 'xmax', which have no feature.* 'ymin', 'xmin'"
    ):
        TFExampleDecoder({"ymin": VarLen("float32"), "xmin": VarLen("float32")}, {"box": BoundingBox()})
    with pytest.raises(ValueError, match="item 'x' needs the keys 'x'"):
        TFSequenceExampleDecoder({}, {}, {"x": Tensor("x")})


def test_features_of_the_wrong_kind():
    sequence = FixedLenSequence((), "int64")
    with pytest.raises(TypeError, match=r"keys_to_features\['a'\] must be a FixedLen or VarLen, got FixedLenSequence"):
        TFExampleDecoder({"a": sequence}, {})
    with pytest.raises(TypeError, match="keys_to_context_features"):
        TFSequenceExampleDecoder({"a": sequence}, {}, {})
    with pytest.raises(TypeError, match="must be a FixedLenSequence or VarLen, got FixedLen"):
        TFSequenceExampleDecoder({}, {"a": FixedLen((), "int64")}, {})


def test_what_is_no_record():
    for decoder in (DECODER, SEQUENCES):
        with pytest.raises(ExampleError):
            decoder.decode(b"\x0a\x05abc")


def test_decoders_can_be_sent_to_other_processes():
    assert pickle.loads(pickle.dumps(DECODER)).decode(RECORD, ["one"]) == [1]
