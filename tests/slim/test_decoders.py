"""Decoders: which items, in which order, and no more parsed than they need."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from beam_datasets.errors import FeatureValueError
from beam_datasets.formats import example, example_pb2
from beam_datasets.formats.varint import ExampleError
from beam_datasets.slim import (
    BoundingBox,
    FixedLen,
    FixedLenSequence,
    Tensor,
    TFExampleDecoder,
    TFSequenceExampleDecoder,
    VarLen,
)

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
        with pytest.raises(FeatureValueError, match=f"^{item}: "):
            decoder.decode(sequence_record(), [item])


def test_a_key_is_parsed_once():
    calls = []

    class Counting(VarLen):
        def parse(self, key, data, span):
            calls.append(key)
            return super().parse(key, data, span)

    handlers = {"x": Tensor("c"), "y": Tensor("c"), "z": Tensor("a")}
    decoder = TFExampleDecoder({"c": Counting("string"), "a": Counting("int64")}, handlers)
    decoder.decode(RECORD)
    assert calls == ["c", "a"]
    decoder.decode(RECORD, ["z"])
    assert calls == ["c", "a", "a"]


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
