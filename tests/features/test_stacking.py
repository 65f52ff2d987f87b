import itertools

import numpy as np
import pytest

from beam_datasets.errors import FeatureValueError
from beam_datasets.features import RaggedArray
from beam_datasets.features.stacking import stack

PAIR = np.ones(2, np.float32)
PICTURES = [np.ones((1, 2, 1), np.uint8), np.ones((2, 1, 1), np.uint8)]  # of two shapes, so a list

COLUMNS = [
    (None, PAIR),
    (None, np.int64(5)),
    (None, b"text"),
    (None, np.array([b"a", b"b"], object)),
    (np.zeros((0, 1, 1, 1), np.uint8), PICTURES),
    (np.ones((2, 1, 1, 1), np.uint8), PICTURES),
]


@pytest.mark.parametrize("kinds", COLUMNS)
@pytest.mark.parametrize("pad", [False, True])
def test_what_a_batch_is_depends_on_what_is_in_it_and_not_on_what_comes_first(kinds, pad):
    for order in itertools.product((0, 1), repeat=3):
        values = [kinds[i] for i in order]
        batch = stack(values, pad=pad)
        assert len(batch) == 3
        if len(set(order)) > 1:
            assert (batch.dtype, batch.shape) == (object, (3,))
            assert all(one is other for one, other in zip(batch, values))


@pytest.mark.parametrize("value", [[5], [1, 2], [[1]], [[1, 2], [3, 4]], {1, 2}, None, "text", b"bytes", []])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_objects_stay_what_they_are(value, count):
    batch = stack([value] * count)
    assert batch.shape == (count,)
    assert all(item is value for item in batch)


def test_arrays_of_other_shapes_are_an_error_without_padding():
    with pytest.raises(FeatureValueError, match=r"^a: arrays of the shapes \(2,\) and \(3,\) cannot be put"):
        stack([{"a": np.zeros(2)}, {"a": np.zeros(3)}])
    with pytest.raises(FeatureValueError, match="^a: arrays of different ranks cannot be padded"):
        stack([{"a": np.zeros(2)}, {"a": np.zeros((1, 3))}], pad=True)


def test_padding_promotes_as_stacking_does():
    ints, floats = np.arange(2), np.array([230.7])
    assert stack([ints, floats], pad=True).tolist() == [[0.0, 1.0], [230.7, 0.0]]
    assert stack([np.array([1, 2], np.uint8), np.array([300])], pad=True).tolist() == [[1, 2], [300, 0]]
    assert stack([np.array([1, 2], np.uint8), np.array([3], np.uint8)], pad=True).dtype == np.uint8


def test_ragged_arrays_of_pictures_of_different_shapes():
    one = RaggedArray(PICTURES, (np.array([1, 1]),))
    batch = stack([one, one])
    assert batch.shape == (2, None, None, None, None, 1)
    assert batch[1].to_list() == one.to_list() == [[PICTURES[0].tolist()], [PICTURES[1].tolist()]]
