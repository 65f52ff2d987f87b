"""Entries kept of a record, against protobuf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import example_pb2
from beam_datasets.formats.example import ExampleError, entry, keep, record

names = st.text("abc/é", max_size=3)
lists = st.one_of(
    st.lists(st.binary(max_size=200), max_size=3).map(lambda v: example_pb2.Feature(bytes_list={"value": v})),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40).map(lambda v: example_pb2.Feature(int64_list={"value": v})),
    st.just(example_pb2.Feature()),
)


def features_of(data):
    message = example_pb2.Example()
    message.ParseFromString(data)
    return {name: feature.SerializeToString() for name, feature in message.features.feature.items()}


@given(st.dictionaries(names, lists, max_size=6), st.sets(names), st.randoms(use_true_random=False))
def test_the_named_features_are_left(features, kept, random):
    made = [(name.encode(), entry(name.encode(), value.SerializeToString())) for name, value in features.items()]
    random.shuffle(made)
    data = record(b"".join(content for _, content in made))
    expected = record(b"".join(content for name, content in made if name.decode() in kept))
    for buffer in (data, memoryview(data)):
        assert keep(buffer, {name.encode() for name in kept}) == expected
    assert features_of(expected) == {name: v.SerializeToString() for name, v in features.items() if name in kept}


@given(st.lists(st.tuples(names, lists), max_size=6), st.sets(names))
def test_names_that_stand_there_twice(features, kept):
    data = record(b"".join(entry(name.encode(), value.SerializeToString()) for name, value in features))
    whole = features_of(data)
    got = keep(data, {name.encode() for name in kept})
    assert features_of(got) == {name: value for name, value in whole.items() if name in kept}


@given(st.dictionaries(names, lists, max_size=4), st.sets(names), st.integers(0, 3))
def test_records_of_another_form(features, kept, unknown):
    message = example_pb2.Example(features={"feature": features})
    data = message.SerializeToString() + b"\x78\x01" * unknown  # fields that nobody knows
    got = keep(data, {name.encode() for name in kept})
    assert features_of(got) == {name: v.SerializeToString() for name, v in features.items() if name in kept}


def test_what_is_no_record():
    with pytest.raises(ExampleError):
        keep(b"\x0a\xff", {b"a"})
    assert keep(b"", {b"a"}) == record(b"")
