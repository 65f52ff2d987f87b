"""Nested datasets as values: sequences whose items are decoded when they are asked for, and that pickle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from beam_datasets import features as F


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
