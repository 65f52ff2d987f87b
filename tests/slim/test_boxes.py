"""Boxes and keypoints, against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import FeatureValueError
from beam_datasets.features import RaggedArray
from beam_datasets.slim import (
    BoundingBox,
    BoundingBoxSequence,
    KeypointsSequence,
    NumBoxesSequence,
    SparseTensorValue,
)

SIDES = ["ymin", "xmin", "ymax", "xmax"]
COUNTS = st.lists(st.integers(0, 4), max_size=6)


def ragged(rows):
    flat = np.array([value for row in rows for value in row], np.float32)
    return RaggedArray(flat, (np.array([len(row) for row in rows], np.int64),))


def numbered(counts, keys):
    """Sequences with these counts, whose values say (time, box, side)."""
    return {
        key: ragged([[100 * time + 10 * box + side for box in range(count)] for time, count in enumerate(counts)])
        for side, key in enumerate(keys)
    }


def expected_array(counts, sides, default):
    out = np.full((len(counts), max(counts, default=0), sides), default, np.float32)
    for time, count in enumerate(counts):
        for box in range(count):
            out[time, box] = [100 * time + 10 * box + side for side in range(sides)]
    return out


def test_boxes():
    values = {key: np.array([side, 10 + side], np.float32) for side, key in enumerate(SIDES)}
    assert BoundingBox().tensors_to_item(values).tolist() == [[0, 1, 2, 3], [10, 11, 12, 13]]
    prefixed = BoundingBox(["a", "b", "c", "d"], prefix="box/")
    assert prefixed.keys == ["box/a", "box/b", "box/c", "box/d"]
    assert BoundingBox(prefix="p/").keys == ["p/ymin", "p/xmin", "p/ymax", "p/xmax"]
    none = BoundingBox().tensors_to_item({key: np.empty(0, np.float32) for key in SIDES})
    assert none.shape == (0, 4)
    with pytest.raises(FeatureValueError, match=r"must have the same shape, but have: ymin \(1,\), xmin \(2,\)"):
        BoundingBox().tensors_to_item({**values, "ymin": np.zeros(1)})


@pytest.mark.parametrize("handler, count", [(BoundingBox, 4), (BoundingBoxSequence, 4), (KeypointsSequence, 2)])
def test_number_of_keys(handler, count):
    for keys in (["k"] * (count - 1), ["k"] * (count + 1), [], "kkkk"):
        with pytest.raises(ValueError, match=f"{handler.__name__} needs {count} keys, got "):
            handler(keys=keys)


@given(COUNTS)
def test_box_sequences(counts):
    values = numbered(counts, SIDES)
    got = BoundingBoxSequence().tensors_to_item(values)
    assert got.dtype == np.float32
    assert np.array_equal(got, expected_array(counts, 4, -1))
    other = BoundingBoxSequence(default_value=7.0).tensors_to_item(values)
    assert np.array_equal(other, expected_array(counts, 4, 7))
    assert NumBoxesSequence(SIDES).tensors_to_item(values).tolist() == counts


@given(COUNTS)
def test_keypoint_sequences(counts):
    values = numbered(counts, ["k/y", "k/x"])
    handler = KeypointsSequence(prefix="k/")
    assert handler.keys == ["k/y", "k/x"]
    assert np.array_equal(handler.tensors_to_item(values), expected_array(counts, 2, -1))


@given(COUNTS)
def test_sparse_sequences(counts):
    values = numbered(counts, SIDES)
    item = BoundingBoxSequence(return_dense=False).tensors_to_item(values)
    assert isinstance(item, SparseTensorValue)
    assert len(item.values) == 4 * sum(counts)
    assert item.indices.tolist() == sorted(item.indices.tolist())
    assert np.array_equal(item.to_dense(-5), expected_array(counts, 4, -5))


def test_sides_that_differ():
    values = numbered([2, 1], SIDES)
    values["xmax"] = ragged([[3, 13], []])  # as many at the most: filled up on its own
    assert BoundingBoxSequence().tensors_to_item(values)[1, 0].tolist() == [100, 101, 102, -1]
    values["xmax"] = ragged([[3], [103]])
    with pytest.raises(FeatureValueError, match=r"xmax \(2, 1\)"):
        BoundingBoxSequence().tensors_to_item(values)


def test_counts_that_differ():
    values = {"a": ragged([[1, 2], [3]]), "b": ragged([[1, 2], [3]]), "c": ragged([[1], [3]])}
    assert NumBoxesSequence("c").tensors_to_item(values).tolist() == [1, 1]
    assert NumBoxesSequence(["a", "b"]).tensors_to_item(values).tolist() == [2, 1]
    with pytest.raises(FeatureValueError, match=r"a has \[2, 1\] boxes at the time steps, but c has \[1, 1\]"):
        NumBoxesSequence(["a", "b", "c"]).tensors_to_item(values)
    assert NumBoxesSequence(["a", "c"], check_consistency=False).tensors_to_item(values).tolist() == [2, 1]
    with pytest.raises(FeatureValueError, match="must be a VarLen sequence"):
        NumBoxesSequence("d").tensors_to_item({"d": np.zeros((2, 2))})
    for nothing in (None, [], ""):
        with pytest.raises(ValueError, match="one key at least"):
            NumBoxesSequence(nothing)
