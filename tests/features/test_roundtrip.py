"""Whatever is encoded is decoded again, and whatever a record is made into is decoded or refused."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.errors import FeatureError
from beam_datasets.formats import example, example_pb2
from tests.cases import cases
from tests.strategies import assert_equal, dicts, examples


def collides(feature):
    names = feature.wire_names("")
    return len(set(names)) != len(names)


@cases(60)
@given(examples())
def test_round_trip(sample):
    if collides(sample.feature):
        return
    encode, decode = F.compile_encoder(sample.feature), F.compile_decoder(sample.feature)
    loaded = F.from_json_text(F.to_json_text(sample.feature)).load_labels(sample.feature.label_files().get)
    assert loaded == sample.feature
    decode_loaded = F.compile_decoder(loaded)
    for value, decoded in zip(sample.values, sample.decoded):
        record = encode(value)
        assert_equal(decode(record), decoded)
        assert_equal(decode_loaded(memoryview(record)), decoded)


@cases(40)
@given(examples(), st.randoms())
def test_records_are_canonical_and_order_does_not_matter(sample, random):
    if collides(sample.feature):
        return
    encode, decode = F.compile_encoder(sample.feature), F.compile_decoder(sample.feature)
    for value, decoded in zip(sample.values, sample.decoded):
        record = encode(value)
        spans = example.scan(record)
        assert list(spans) == sorted(spans)
        assert set(spans) <= {name.encode() for name in sample.feature.wire_names("")}
        message = example_pb2.Example.FromString(record)
        assert {name.encode() for name in message.features.feature} == set(spans)
        shuffled = [example.entry(name, record[slice(*span)]) for name, span in spans.items()]
        random.shuffle(shuffled)
        assert_equal(decode(example.record(b"".join(shuffled))), decoded)
        assert_equal(decode(message.SerializeToString()), decoded)


@cases(100)
@given(dicts(1), st.data())
def test_damaged_records_are_decoded_or_refused(sample, data):
    if collides(sample.feature):
        return
    record = bytearray(F.compile_encoder(sample.feature)(sample.values[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(record[: data.draw(st.integers(0, len(record)))])
    with contextlib.suppress(FeatureError, example.ExampleError):  # no other error, and no endless memory
        F.compile_decoder(sample.feature)(damaged)
