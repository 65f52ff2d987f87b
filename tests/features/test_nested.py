"""Nested datasets as values: sequences whose items are decoded when they are asked for, and that pickle."""

import pickle

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from beam_datasets.formats.example import parse, serialize


def test_pickles_its_items() -> None:
    feature = F.FeaturesDict({"steps": F.Dataset({"r": np.float32, "name": F.Text()})})
    example = {"steps": [{"r": 1.5, "name": "a"}, {"r": 2.5, "name": "b"}]}
    steps = F.compile_decoder(feature)(F.compile_encoder(feature)(example))["steps"]
    copy = pickle.loads(pickle.dumps(steps))
    assert isinstance(copy, F.NestedDataset)
    assert list(copy) == list(steps) == [{"r": 1.5, "name": b"a"}, {"r": 2.5, "name": b"b"}]
    assert copy[-1] == steps[1]
    with pytest.raises(IndexError):
        copy[2]


def test_an_error_names_its_item() -> None:
    feature = F.FeaturesDict({"steps": F.Dataset(F.Tensor(shape=(2,), dtype=np.float32, encoding="zlib"))})
    record = serialize({"steps": [*parse(F.compile_encoder(feature)({"steps": [[0, 1], [2, 3]]}))["steps"], b"none"]})
    steps = F.compile_decoder(feature)(record)["steps"]
    assert np.array_equal(steps[:2], [[0, 1], [2, 3]])
    for get in (list, pickle.dumps, lambda value: value[2], lambda value: value[-1], lambda value: value[1:]):
        with pytest.raises(FeatureValueError, match=r"^steps: .* \(item 2\)$"):
            get(steps)
