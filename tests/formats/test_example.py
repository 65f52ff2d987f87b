"""Examples as records, against protobuf; and entries that are kept of a record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import example, example_pb2
from beam_datasets.formats.example import (
    ExampleError,
    encode_varints,
    entry,
    filter_entries,
    read_varint,
    record,
    varint,
)
from tests.cases import cases

INT64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 300),
    st.integers(0, 63).flatmap(lambda bit: st.sampled_from([2**bit - 1, 2**bit - 2, -(2**bit)])),
)
LISTS = st.one_of(
    st.lists(st.binary(max_size=200), max_size=5),
    st.lists(INT64, min_size=1, max_size=40).map(lambda v: np.array(v, np.int64)),
    st.lists(st.floats(width=32), min_size=1, max_size=40).map(lambda v: np.array(v, np.float32)),
)
FEATURES = st.dictionaries(st.text(max_size=8), LISTS, max_size=6)
KIND = {"f": "float_list", "i": "int64_list"}


def message(features):
    """The same features as a protobuf message, made by protobuf."""
    out = example_pb2.Example()
    out.features.SetInParent()
    for name, values in features.items():
        kind = KIND[values.dtype.kind] if isinstance(values, np.ndarray) else "bytes_list"
        getattr(out.features.feature[name], kind).SetInParent()
        getattr(out.features.feature[name], kind).value.extend(
            values.tolist() if isinstance(values, np.ndarray) else values
        )
    return out


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, values in want.items():
        if isinstance(values, np.ndarray):
            assert got[name].dtype == values.dtype
            assert got[name].tobytes() == values.tobytes()
        else:
            assert got[name] == values


@given(st.lists(INT64, max_size=60))
def test_varints_are_those_of_protobuf(numbers):
    expected = example_pb2.Int64List(value=numbers).SerializeToString()
    payload = encode_varints(np.array(numbers, np.int64))
    assert (b"\x0a" + varint(len(payload)) + payload if numbers else b"") == expected
    assert b"".join(map(varint, numbers)) == payload


@given(st.integers(0, 2**64 - 1))
def test_read_varint_reads_what_varint_writes(number):
    assert read_varint(b"\xff" + varint(number) + b"\x01", 1) == (number, 1 + len(varint(number)))


@given(FEATURES)
def test_serialize_is_canonical_and_protobuf_reads_it(features):
    record = example.serialize(features)
    assert example_pb2.Example.FromString(record) == message(features) or "nan" in str(features)
    assert list(example.scan(record)) == sorted(name.encode() for name in features)
    assert_same(example.parse(record), features)


@given(FEATURES)
def test_parse_reads_what_protobuf_writes(features):
    assert_same(example.parse(message(features).SerializeToString()), features)


def tagged(*fields):
    return b"".join(tag + varint(len(value)) + value for tag, value in fields)


UNUSUAL = {
    "unpacked integers": (b"\x1a\x04\x08\x01\x08\x02", np.array([1, 2], np.int64)),
    "integers in two chunks": (b"\x1a\x07\x0a\x02\x01\x02\x0a\x01\x03", np.array([1, 2, 3], np.int64)),
    "mixed integers": (b"\x1a\x05\x0a\x01\x01\x08\x02", np.array([1, 2], np.int64)),
    "unpacked floats": (b"\x12\x05\x0d\0\0\x80\x3f", np.array([1], np.float32)),
    "an unknown field first": (b"\x20\x05\x1a\x03\x0a\x01\x07", np.array([7], np.int64)),
    "two lists, the last counts": (b"\x0a\x00\x1a\x03\x0a\x01\x07", np.array([7], np.int64)),
    "long length": (b"\x1a\x83\x00\x0a\x01\x07", np.array([7], np.int64)),
    "no list": (b"", []),
    "empty list": (b"\x1a\x00", np.array([], np.int64)),
    "empty payload": (b"\x1a\x02\x0a\x00", np.array([], np.int64)),
}


@pytest.mark.parametrize("feature, expected", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_features(feature, expected):
    record = example.record(example.entry(b"x", feature))
    assert_same(example.parse(record), {"x": expected})


X, SEVEN = (b"\x0a", b"x"), (b"\x12", b"\x1a\x03\x0a\x01\x07")
RECORDS = {
    "value before name": tagged((b"\x0a", tagged((b"\x0a", tagged(SEVEN, X))))),
    "two maps": tagged((b"\x0a", b""), (b"\x0a", tagged((b"\x0a", tagged(X, SEVEN))))),
    "name twice": tagged((b"\x0a", tagged((b"\x0a", tagged(X, (b"\x12", b"\x1a\x00"))), (b"\x0a", tagged(X, SEVEN))))),
    "unknown field": tagged((b"\x0a", tagged((b"\x0a", tagged(X, SEVEN)))), (b"\x7a", b"more")),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_unusual_records(record):
    assert_same(example.parse(record), {"x": np.array([7], np.int64)})
    assert list(example.parse_spans(record)[1]) == [b"x"]


@pytest.mark.parametrize(
    "record",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\xff" * 12,
        b"\x0a\x04\x0a\x02\x0a\x09",
        tagged((b"\x0a", tagged((b"\x0a", b"\x0a\x01\xff")))),
        b"\x0a\xff\xff\xff\xff\x7f",  # a length that is not there
    ],
)
def test_what_is_no_example_is_refused(record):
    with pytest.raises(ExampleError):
        example.parse(record)


@cases(300)
@given(FEATURES, st.data())
def test_damaged_records_parse_as_protobuf_parses_them_or_are_refused(features, data):
    record = bytearray(example.serialize(features))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    record = bytes(record[: data.draw(st.integers(0, len(record)))])
    try:
        expected = example_pb2.Example.FromString(record)
    except Exception:
        expected = None
    try:
        got = example.parse(record)
    except ExampleError:
        return  # stricter than protobuf is allowed, but for the lists that are read
    assert expected is not None
    want = dict(expected.features.feature.items())
    assert got.keys() == want.keys()
    for name, feature in want.items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        assert np.array_equal(np.array(got[name], object), np.array(values, object), equal_nan=False) or "nan" in str(
            values
        )


# Entries kept of a record, against protobuf


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
        assert filter_entries(buffer, {name.encode() for name in kept}) == expected
    assert features_of(expected) == {name: v.SerializeToString() for name, v in features.items() if name in kept}


@given(st.lists(st.tuples(names, lists), max_size=6), st.sets(names), st.integers(0, 3))
def test_names_that_stand_there_twice_and_unknown_fields(features, kept, unknown):
    data = record(b"".join(entry(name.encode(), value.SerializeToString()) for name, value in features))
    data += b"\x78\x01" * unknown
    whole = features_of(data)
    got = filter_entries(data, {name.encode() for name in kept})
    assert features_of(got) == {name: value for name, value in whole.items() if name in kept}


def test_what_is_no_record():
    with pytest.raises(ExampleError):
        filter_entries(b"\x0a\xff", {b"a"})
    assert filter_entries(b"", {b"a"}) == record(b"")
