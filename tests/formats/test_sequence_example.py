"""SequenceExamples taken apart without protobuf objects, against protobuf."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import example_pb2, sequence_example
from beam_datasets.formats.varint import ExampleError, varint

FEATURES = st.one_of(
    st.lists(st.binary(max_size=200), max_size=3).map(lambda v: feature("bytes_list", v)),
    st.lists(st.integers(-5, 300), max_size=3).map(lambda v: feature("int64_list", v)),
    st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(lambda v: feature("float_list", v)),
    st.just(example_pb2.Feature()),
)
NAMES = st.text(max_size=6)


def feature(kind, values):
    message = example_pb2.Feature()
    getattr(message, kind).SetInParent()
    getattr(message, kind).value.extend(values)
    return message


def sequence(context, lists):
    message = example_pb2.SequenceExample()
    for name, value in context.items():
        message.context.feature[name].CopyFrom(value)
    for name, values in lists.items():
        message.feature_lists.feature_list[name].SetInParent()
        message.feature_lists.feature_list[name].feature.extend(values)
    return message


def taken_apart(data):
    """All features, parsed by protobuf from the bytes at their spans."""
    halves = sequence_example.spans_of(data)
    parse = example_pb2.Feature.FromString
    context = {name.decode(): parse(halves.context[slice(*span)]) for name, span in halves.context_spans.items()}
    lists = {}
    for name, span in halves.list_spans.items():
        part, spans = sequence_example.steps(halves.lists, *span)
        lists[name.decode()] = [parse(part[slice(*step)]) for step in spans]
    return context, lists


@given(st.dictionaries(NAMES, FEATURES, max_size=4), st.dictionaries(NAMES, st.lists(FEATURES, max_size=4), max_size=4))
def test_finds_what_protobuf_wrote(context, lists):
    data = sequence(context, lists).SerializeToString()
    assert taken_apart(data) == (context, lists)
    assert taken_apart(memoryview(data)) == (context, lists)


ONE, TWO = feature("int64_list", [1]), feature("bytes_list", [b"x" * 300])
BASE = sequence({"a": ONE}, {"s": [ONE, TWO], "t": []}).SerializeToString()
UNKNOWN = b"\x7a\x01z"


@pytest.mark.parametrize(
    "data, expected",
    [
        (BASE + UNKNOWN, ({"a": ONE}, {"s": [ONE, TWO], "t": []})),
        (
            BASE + sequence({"b": TWO}, {"t": [ONE]}).SerializeToString(),
            ({"a": ONE, "b": TWO}, {"s": [ONE, TWO], "t": [ONE]}),
        ),
        (sequence({}, {"u": [ONE]}).SerializeToString() + BASE, ({"a": ONE}, {"u": [ONE], "s": [ONE, TWO], "t": []})),
        (b"", ({}, {})),
    ],
)
def test_unusual_records(data, expected):
    assert taken_apart(data) == expected
    message = example_pb2.SequenceExample.FromString(data)
    assert {name: list(v.feature) for name, v in message.feature_lists.feature_list.items()} == expected[1]


def test_a_feature_list_with_an_unknown_field():
    steps = b"".join(b"\x0a" + varint(len(part)) + part for part in (f.SerializeToString() for f in (ONE, TWO)))
    listed = b"\x0a\x01s\x12" + varint(len(steps) + 3) + steps + UNKNOWN
    lists = b"\x0a" + varint(len(listed)) + listed
    assert taken_apart(b"\x12" + varint(len(lists)) + lists) == ({}, {"s": [ONE, TWO]})


@pytest.mark.parametrize("stop", range(1, len(BASE)))
def test_cut_off(stop):
    try:
        example_pb2.SequenceExample.FromString(BASE[:stop])
    except Exception:
        with pytest.raises(ExampleError):
            taken_apart(BASE[:stop])
