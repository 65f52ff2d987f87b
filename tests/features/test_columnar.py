"""Errors of batches, and features that are decoded in a way of their own; tests/native/agreement.py has all others."""

from typing import Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import chosen
from beam_datasets.formats.example import serialize


def assert_an_error(feature: Any, records: list[bytes], error: str) -> None:
    """A batch of the records raises an error, as one of them does."""
    with pytest.raises(FeatureValueError, match=error):
        ColumnarDecoder(chosen(feature), pad=True, batch=True).batch([memoryview(record) for record in records])
    with pytest.raises(FeatureValueError, match=error):
        list(map(F.compile_decoder(feature), records))


def test_the_error_names_the_number() -> None:
    features = F.FeaturesDict({**{f"i{i}": np.int64 for i in range(5)}, "small": np.int8, "last": np.int8})
    decode = ColumnarDecoder(features, batch=True).batch
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
        error = f"^{name}: the record has {len(values[0])} values, expected 2$"
        assert_an_error(feature, [serialize({**good, name: value}) for value in values], error)
    boxed = F.FeaturesDict({"s": F.Sequence(F.Tensor(shape=(2,), dtype=np.int64))})
    error = r"^s: the record has 3 values, which do not have the shape \(None, 2\)$"
    assert_an_error(boxed, [serialize({"s": [1, 2, 3]}), serialize({"s": [4]})], error)
    fixed = F.FeaturesDict({"s": F.Sequence(np.int64, length=2)})
    error = r"^s: the record has 3 items; the feature has length=2$"
    assert_an_error(fixed, [serialize({"s": [1, 2]}), serialize({"s": [1, 2, 3]})], error)


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


def test_a_shape_of_more_values_than_the_native_module_counts() -> None:
    tree = F.FeaturesDict({"a": F.Tensor(shape=(2**16, 2**16), dtype=np.int64), "b": np.int64})
    record = serialize({"a": [1], "b": [2]})
    for decode in (F.compile_decoder(tree), lambda record: ColumnarDecoder(tree, batch=True).batch([record])):
        with pytest.raises(FeatureValueError, match="a: the record has 1 values, expected 4294967296"):
            decode(record)
