"""Item handlers of values, against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import FeatureValueError
from beam_datasets.features import RaggedArray
from beam_datasets.slim import (
    BackupHandler,
    ItemHandlerCallback,
    LookupTensor,
    SparseTensor,
    SparseTensorValue,
    Tensor,
)

WORDS = np.array([b"b", b"a", b"b"], object)


def ragged(rows, dtype=np.float32):
    flat = np.array([value for row in rows for value in row], dtype)
    return RaggedArray(flat, (np.array([len(row) for row in rows], np.int64),))


@pytest.mark.parametrize(
    "handler, values, expected",
    [
        (Tensor("x"), {"x": np.arange(6)}, [0, 1, 2, 3, 4, 5]),
        (Tensor("x", shape=(2, 3)), {"x": np.arange(6)}, [[0, 1, 2], [3, 4, 5]]),
        (Tensor("x", shape=[3, -1]), {"x": np.arange(6)}, [[0, 1], [2, 3], [4, 5]]),
        (Tensor("x", shape_keys="s"), {"x": np.arange(6), "s": np.array([2, 3])}, [[0, 1, 2], [3, 4, 5]]),
        (Tensor("x", ["h", "w"]), {"x": np.arange(6), "h": np.int64(3), "w": np.array([2])}, [[0, 1], [2, 3], [4, 5]]),
        (Tensor("x", "s"), {"x": np.arange(1), "s": np.array([], np.int64)}, 0),
        (Tensor("x", shape=()), {"x": np.array([b"a"], object)}, b"a"),
        (Tensor("x", shape=(1,)), {"x": b"a"}, [b"a"]),
        (Tensor("x"), {"x": b"a"}, b"a"),
        (Tensor("x"), {"x": ragged([[1, 2], [], [3]])}, [[1, 2], [0, 0], [3, 0]]),
        (Tensor("x", default_value=-1), {"x": ragged([[], [3]])}, [[-1], [3]]),
        (Tensor("x", shape=(-1,)), {"x": ragged([[1, 2], [3]])}, [1, 2, 3, 0]),
        (Tensor("x"), {"x": ragged([[b"p"], []], object)}, [[b"p"], [b""]]),
        (Tensor("x", default_value="é"), {"x": ragged([[b"p"], []], object)}, [[b"p"], ["é".encode()]]),
        (Tensor("x"), {"x": ragged([])}, []),
    ],
)
def test_tensor(handler, values, expected):
    got = handler.tensors_to_item(values)
    assert np.asarray(got, object).tolist() == expected
    assert set(handler.keys) == set(values)
    if not isinstance(expected, list):
        assert not isinstance(got, np.ndarray)


def test_tensor_that_does_not_fit():
    with pytest.raises(ValueError, match="got shape_keys='s' and shape=\\(2,\\); give one of them"):
        Tensor("x", shape_keys="s", shape=(2,))
    with pytest.raises(FeatureValueError, match=r"^x: 6 values of shape \(6,\) do not have the shape \(4,\)"):
        Tensor("x", shape=(4,)).tensors_to_item({"x": np.arange(6)})
    with pytest.raises(FeatureValueError, match="default_value=-1 does not fit values of dtype object"):
        Tensor("x", default_value=-1).tensors_to_item({"x": ragged([[b"p"], []], object)})


class Table:
    def lookup(self, array):
        return array == b"a"


@pytest.mark.parametrize(
    "handler, expected",
    [
        (LookupTensor("x", {"a": 10, b"b": 20}), [20, 10, 20]),
        (LookupTensor("x", ["a", "b"]), [1, 0, 1]),
        (LookupTensor("x", ["a", "b"], shape=(3, 1)), [[1], [0], [1]]),
        (LookupTensor("x", ("a",), unknown=-1), [-1, 0, -1]),
        (LookupTensor("x", {"a": "one", "b": "two"}), ["two", "one", "two"]),
        (LookupTensor("x", Table()), [False, True, False]),
    ],
)
def test_lookup(handler, expected):
    assert handler.tensors_to_item({"x": WORDS}).tolist() == expected


def test_lookup_of_other_values():
    numbers = LookupTensor("x", {3: 0.5, 4: 1.5})
    assert numbers.tensors_to_item({"x": np.array([4, 3])}).tolist() == [1.5, 0.5]
    assert numbers.tensors_to_item({"x": np.int64(4)}) == 1.5
    assert numbers.tensors_to_item({"x": np.array([], np.int64)}).dtype == np.float64
    names = LookupTensor("x", ["", "a"])
    assert names.tensors_to_item({"x": b"a"}) == 1
    assert names.tensors_to_item({"x": ragged([[b"a"], []], object)}).tolist() == [[1], [0]]


def test_lookup_of_what_is_not_there():
    with pytest.raises(
        FeatureValueError, match=r"^x: b'b' is none of the 1 entries of the table \(b'a' ...\); add it, or"
    ):
        LookupTensor("x", ["a"]).tensors_to_item({"x": WORDS})
    with pytest.raises(ValueError, match="give one of them"):
        LookupTensor("x", ["a"], shape_keys="s", shape=(1,))
    for table in ("ab", 3):
        with pytest.raises(TypeError, match="table must be"):
            LookupTensor("x", table)


def test_sparse_parts():
    handler = SparseTensor()
    assert handler.keys == ["indices", "values"]
    item = handler.tensors_to_item({"indices": np.array([3, 1]), "values": np.array([5.0, 6.0])})
    assert isinstance(item, SparseTensorValue)
    assert item.indices.tolist() == [[3], [1]]
    assert item.values.tolist() == [5, 6]
    assert item.dense_shape.tolist() == [2]
    times = SparseTensor("i", "v", shape=(3, 10)).tensors_to_item(
        {"i": ragged([[4], [], [0, 9]], np.int64), "v": ragged([[1], [], [2, 3]])}
    )
    assert times.indices.tolist() == [[0, 4], [2, 0], [2, 9]]
    assert times.dense_shape.tolist() == [3, 10]


@given(st.data())
def test_sparse_to_dense_is_a_loop(data):
    rows = data.draw(st.lists(st.lists(st.integers(0, 7), unique=True, max_size=5), min_size=1, max_size=4))
    expected = np.full((len(rows), 8), -1)
    for time, row in enumerate(rows):
        for number, index in enumerate(row):
            expected[time, index] = 10 * time + number
    values = ragged([[10 * time + n for n in range(len(row))] for time, row in enumerate(rows)], np.int64)
    shape = np.array([len(rows), 8])
    handler = SparseTensor("i", "v", "s", densify=True, default_value=-1)
    got = handler.tensors_to_item({"i": ragged(rows, np.int64), "v": values, "s": shape})
    assert got.tolist() == expected.tolist()
    flat = SparseTensor("i", "v", shape=[8], densify=True, default_value=-1)
    one = flat.tensors_to_item({"i": np.array(rows[0], np.int64), "v": values[0]})
    assert one.tolist() == expected[0].tolist()


@pytest.mark.parametrize(
    "indices, values, shape, text",
    [
        ([1, 4], [1, 2], [4], r"^indices: index \[4\] is outside of the shape \(4,\)"),
        ([-1], [1], [4], r"index \[-1\] is outside"),
        ([2, 1, 2], [1, 2, 3], [4], r"index \[2\] is given 2 times"),
        ([1, 2], [1], [4], "indices has 2 values, but values has 1"),
        ([1], [1], [4, 4], r"indices of 1 dimensions, but shape \[4, 4\]"),
    ],
)
def test_sparse_that_does_not_fit(indices, values, shape, text):
    handler = SparseTensor(shape=shape, densify=True)
    with pytest.raises(FeatureValueError, match=text):
        handler.tensors_to_item({"indices": np.array(indices), "values": np.array(values)})


def test_callback():
    handler = ItemHandlerCallback(["a", "b"], lambda values: values["a"] + values["b"])
    assert handler.keys == ["a", "b"]
    assert handler.tensors_to_item({"a": 1, "b": 2}) == 3
    assert ItemHandlerCallback("a", dict).tensors_to_item({"a": 1, "c": 2}) == {"a": 1}


def test_backup():
    handler = BackupHandler(Tensor("a"), Tensor("b", shape=(1, -1)))
    assert handler.keys == ["a", "b"]
    for value, expected in [([], [[7]]), ([1, 2], [1, 2])]:
        got = handler.tensors_to_item({"a": np.array(value), "b": np.array([7])})
        assert got.tolist() == expected
    assert handler.tensors_to_item({"a": b"", "b": np.array([7])}) == b""  # a scalar is one element
    many = BackupHandler(ItemHandlerCallback("a", lambda values: values["a"].tolist()), Tensor("b"))
    assert many.tensors_to_item({"a": np.array([]), "b": np.int64(3)}) == 3
    sparse = BackupHandler(SparseTensor("a", "a", shape=[3]), Tensor("b"))
    assert sparse.tensors_to_item({"a": np.array([], np.int64), "b": np.int64(3)}) == 3
    with pytest.raises(ValueError, match="backup must be an ItemHandler, got None"):
        BackupHandler(Tensor("a"), None)
    with pytest.raises(ValueError, match="handler must be an ItemHandler, got 'a'"):
        BackupHandler("a", Tensor("b"))
