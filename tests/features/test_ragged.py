import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.features import RaggedArray


def made(nested):
    """The ragged array of lists of lists of lists."""
    lengths = [np.array([len(row) for row in nested], np.int64)]
    lengths.append(np.array([len(row) for rows in nested for row in rows], np.int64))
    return RaggedArray(np.array([x for rows in nested for row in rows for x in row], np.int64), tuple(lengths))


@pytest.mark.slow
@given(st.lists(st.lists(st.lists(st.integers(0, 9)))))
def test_it_is_what_lists_are(nested):
    array = made(nested)
    assert array.to_list() == nested
    assert len(array) == len(nested)
    assert [row.to_list() for row in array] == nested
    for i in range(-len(nested), len(nested)):
        assert array[i].to_list() == nested[i]
        assert [inner.tolist() for inner in array[i]] == nested[i]
    assert array == made(nested)
    assert array != made([*nested, []])


def test_shape_and_dtype():
    array = RaggedArray(np.zeros((3, 2), np.float32), (np.array([1, 2]),))
    assert (array.shape, array.dtype) == ((2, None, 2), np.float32)
    assert repr(array) == "RaggedArray([[[0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=float32)"
    with pytest.raises(IndexError, match="index 2 of a ragged array of 2 rows"):
        array[2]


@pytest.mark.parametrize("lengths", [(), ([1, 1],), ([-1, 4],), ([2], [1, 1]), ([1, 2], [1, 2])])
def test_row_lengths_must_add_up(lengths):
    with pytest.raises(ValueError, match="row lengths"):
        RaggedArray(np.zeros(3), tuple(np.array(row, np.int64) for row in lengths))


def test_items_of_different_shapes():
    items = [np.zeros((1, 2, 3), np.uint8), np.zeros((4, 2, 3), np.uint8)]
    array = RaggedArray(items, (np.array([2, 0]),))
    assert (array.shape, array.dtype) == ((2, None, None, 2, 3), np.uint8)
    assert repr(array) == f"RaggedArray({[[item.tolist() for item in items], []]}, dtype=uint8)"
    assert array == RaggedArray(list(items), (np.array([2, 0]),))
    assert array != RaggedArray(items[::-1], (np.array([2, 0]),))
    assert RaggedArray([], (np.array([0]),)).shape == (1, None)
