"""Records decoded as a list, by feature and as a batch: the same as one by one and stacked, or an error too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import chosen, compile_batch_decoder
from beam_datasets.features.stacking import stack
from beam_datasets.formats.example import ExampleError, serialize
from tests.strategies import assert_equal, examples


@settings(max_examples=40)
@given(examples(), st.booleans())
def test_same_as_one_by_one(sample: Any, pad: bool) -> None:
    names = sample.feature.wire_names("")
    if len(set(names)) < len(names):
        return
    records = list(map(F.compile_encoder(sample.feature), sample.values))
    assert_same_batch(sample.feature, records, pad)
    one = list(map(F.compile_decoder(sample.feature), records))
    found = ColumnarDecoder(chosen(sample.feature)).columns(list(map(memoryview, records)))
    for i, example in enumerate(one):
        assert_row(found, i, example)


def assert_row(columns: Any, i: int, example: Any) -> None:
    """A row of the columns is the example."""
    if not isinstance(columns, dict):
        assert_equal(columns[i], example)
        return
    assert list(columns) == list(example)
    for key, column in columns.items():
        assert_row(column, i, example[key])


def assert_same_batch(feature: Any, records: list[bytes], pad: bool) -> Any:
    def outcome(function: Any) -> Any:
        try:
            return function()
        except (FeatureError, ExampleError) as error:
            return type(error), str(error)

    wanted = outcome(lambda: stack(list(map(F.compile_decoder(feature), records)), pad=pad))
    found = outcome(lambda: compile_batch_decoder(feature, pad=pad)([memoryview(record) for record in records]))
    assert type(found) is type(wanted), (found, wanted)
    if not isinstance(wanted, tuple):  # of two errors it may be the other one
        assert_equal(found, wanted)
        assert_same_dtypes(found, wanted)
    return found


def assert_same_dtypes(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            assert_same_dtypes(got[key], want[key])
    elif isinstance(want, np.ndarray):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)


def test_the_error_names_the_number() -> None:
    decode = compile_batch_decoder({**{f"i{i}": np.int64 for i in range(5)}, "small": np.int8, "last": np.int8})
    good = {**{f"i{i}": [i] for i in range(5)}, "small": [-128], "last": [127]}
    assert decode([serialize(good)] * 2)["last"].tolist() == [127, 127]
    with pytest.raises(FeatureValueError, match=r"^small: the record has 300, which does not fit int8$"):
        decode([serialize(good), serialize({**good, "small": [300]})])
    missing = {name: values for name, values in good.items() if name != "i3"}
    with pytest.raises(FeatureValueError, match=r"^i3: the record does not have"):
        decode([serialize(good), serialize(missing)])


def test_values_must_not_wander_from_one_record_to_the_next() -> None:
    feature = F.FeaturesDict({"a": F.Tensor(shape=(2,), dtype=np.int64), "b": F.Tensor(shape=(2,), dtype=np.float32)})
    good = {"a": [1, 2], "b": [1.0, 2.0]}
    for wrong in ({"a": [[1, 2, 3], [4]]}, {"b": [[1.0, 2.0, 3.0], [4.0]]}, {"a": [[1, 2, 3, 4], []]}):
        ((name, values),) = wrong.items()
        records = [serialize({**good, name: value}) for value in values]
        found = assert_same_batch(feature, records, False)
        assert found[0] is FeatureValueError
    boxed = F.FeaturesDict({"s": F.Sequence(F.Tensor(shape=(2,), dtype=np.int64))})
    found = assert_same_batch(boxed, [serialize({"s": [1, 2, 3]}), serialize({"s": [4]})], True)
    assert found[0] is FeatureValueError


def test_images_are_decoded_into_the_batch() -> None:
    feature = F.FeaturesDict({"image": F.Image(shape=(5, 7, 3))})
    images = list(np.random.default_rng(0).integers(0, 256, (4, 5, 7, 3), np.uint8))
    records = [F.compile_encoder(feature)({"image": image}) for image in images]
    assert np.array_equal(compile_batch_decoder(feature)(records)["image"], np.stack(images))
    for place in range(0, len(records[1]), 3):
        damaged = bytearray(records[1])
        damaged[place] ^= 4
        assert_same_batch(feature, [records[0], bytes(damaged)], False)


def test_no_features_and_partial_decoding() -> None:
    feature = F.FeaturesDict({"a": np.int64, "b": F.Text()})
    records = [serialize({"a": [i], "b": [b"x"]}) for i in range(3)]
    partial = compile_batch_decoder(feature, decoders=F.decode.PartialDecoding(["a"]))
    assert partial(records)["a"].tolist() == [0, 1, 2]
    assert set(partial(records)) == {"a"}


def test_lists_of_a_feature_of_an_unknown_class() -> None:
    unknown = F.from_json({"pythonClassName": "other.Feature", "jsonFeature": {}})
    feature = F.FeaturesDict({"u": F.Sequence(unknown), "a": np.int64})
    decoder = ColumnarDecoder(chosen(feature, {"u": F.decode.SkipDecoding()}))
    record = serialize({"a": [1], "u": [1.5], "u/x": [b"y"], "v": [2]})
    for example in (decoder.one()(record), *decoder.examples([record])):
        assert {name: list(values) for name, values in example["u"].items()} == {"u": [1.5], "u/x": [b"y"]}
        assert example["a"] == 1
    with pytest.raises(FeatureError, match="not known here"):
        F.compile_decoder(feature)(record)
