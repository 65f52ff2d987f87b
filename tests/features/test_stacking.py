"""What batches are made of: arrays, sequences and nested datasets as values, and their errors."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features import RaggedArray
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.stacking import stack
from beam_datasets.formats.example import parse, serialize
from beam_datasets.reading.elements.transforms import Decode, Map, batch_of, fill_of_steps, warn_of_default_fill
from tests.facts import raises_with

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


@pytest.mark.parametrize(("shape", "defaults"), [((), ("a",)), ((2,), ("a",)), ((None,), ()), ((0,), ()), ((2, 0), ())])
def test_defaults_are_of_features_with_values(shape, defaults):
    """An array without values has no number that stands for a missing one."""
    steps = (Decode(F.FeaturesDict({"a": F.Tensor(shape=shape, dtype="int64", optional=True)})),)
    assert fill_of_steps(steps, None).defaults == defaults
    warn_of_default_fill((batch_of(steps, pad=True, fill=None),))


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


# Nested datasets as values: sequences whose items are decoded when they are asked for, and that pickle


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
        with raises_with(FeatureValueError, feature="steps", mentions=["(item 2)"]):
            get(steps)


# Errors of batches, and features that are decoded in a way of their own; tests/native/agreement.py has all others


def assert_an_error(feature: Any, records: list[bytes], name: str, mentions: list[str]) -> None:
    """A batch of the records raises an error about a feature, as one of them does."""
    with raises_with(FeatureValueError, feature=name, mentions=mentions):
        ColumnarDecoder(select_decoded(feature)).of_batches(pad=True).batch([memoryview(record) for record in records])
    with raises_with(FeatureValueError, feature=name, mentions=mentions):
        list(map(F.compile_decoder(feature), records))


def test_values_must_not_wander_from_one_record_to_the_next() -> None:
    feature = F.FeaturesDict({"a": F.Tensor(shape=(2,), dtype=np.int64), "b": F.Tensor(shape=(2,), dtype=np.float32)})
    good = {"a": [1, 2], "b": [1.0, 2.0]}
    for wrong in ({"a": [[1, 2, 3], [4]]}, {"b": [[1.0, 2.0, 3.0], [4.0]]}, {"a": [[1, 2, 3, 4], []]}):
        ((name, values),) = wrong.items()
        records = [serialize({**good, name: value}) for value in values]
        assert_an_error(feature, records, name, [f"{len(values[0])} values, expected 2"])
    boxed = F.FeaturesDict({"s": F.Sequence(F.Tensor(shape=(2,), dtype=np.int64))})
    assert_an_error(boxed, [serialize({"s": [1, 2, 3]}), serialize({"s": [4]})], "s", ["3 values", "(None, 2)"])
    fixed = F.FeaturesDict({"s": F.Sequence(np.int64, length=2)})
    assert_an_error(fixed, [serialize({"s": [1, 2]}), serialize({"s": [1, 2, 3]})], "s", ["3 items", "length=2"])


def test_lists_of_a_feature_of_an_unknown_class() -> None:
    unknown = F.from_json({"pythonClassName": "other.Feature", "jsonFeature": {}})
    feature = F.FeaturesDict({"u": F.Sequence(unknown), "a": np.int64})
    decoder = ColumnarDecoder(select_decoded(feature, {"u": F.decode.SkipDecoding()}))
    record = serialize({"a": [1], "u": [1.5], "u/x": [b"y"], "v": [2]})
    for example in (decoder.one()(record), *decoder.examples([record])):
        assert {name: list(values) for name, values in example["u"].items()} == {"u": [1.5], "u/x": [b"y"]}
        assert example["a"] == 1
    with pytest.raises(FeatureError, match="not known here"):
        F.compile_decoder(feature)(record)


def test_a_shape_of_more_values_than_the_native_module_counts() -> None:
    tree = F.FeaturesDict({"a": F.Tensor(shape=(2**16, 2**16), dtype=np.int64), "b": np.int64})
    record = serialize({"a": [1], "b": [2]})
    for decode in (F.compile_decoder(tree), lambda record: ColumnarDecoder(tree).of_batches().batch([record])):
        with raises_with(FeatureValueError, feature="a", mentions=["1 values", "4294967296"]):
            decode(record)


class Tensor:
    """A tensor of a framework, which NumPy converts, unless it is on another device."""

    def __init__(self, values: Any, *, is_here: bool = True) -> None:
        self.values = np.asarray(values)
        self.is_here = is_here

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if not self.is_here:
            raise TypeError("it is on cuda:0")
        return self.values


TREE = F.FeaturesDict({"n": np.int64})


def batched(values: list[Any], **options: Any) -> Any:
    """Returns what `batch()` makes of the values of a key that `map()` returned."""
    step = batch_of((Decode(TREE), Map(lambda example: example)), **{"pad": False, "fill": None, **options})
    return step.stack([{"x": value} for value in values])["x"]


@pytest.mark.parametrize("wrap", [list, tuple, np.array, Tensor], ids=["list", "tuple", "array", "tensor"])
@pytest.mark.parametrize("values", [[[1, 2], [3, 4]], [[1.5], [2]], [[True], [False]]], ids=str)
def test_what_map_returns_is_stacked_as_arrays_are(wrap: Any, values: list[Any]) -> None:
    got = batched([wrap(value) for value in values])
    expected = np.stack([np.array(value) for value in values])
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype


def test_nested_lists_texts_and_tensors() -> None:
    np.testing.assert_array_equal(batched([[[1, 2], [3, 4]]] * 3), np.array([[[1, 2], [3, 4]]] * 3))
    assert batched([["a", "b"], ["c", "d"]]).tolist() == [["a", "b"], ["c", "d"]]
    assert batched([[b"a"], [b"b"]]).tolist() == [[b"a"], [b"b"]]
    assert batched(["a", "b"]).tolist() == ["a", "b"]
    assert batched([Tensor(1), Tensor(2)]).tolist() == [1, 2]
    assert batched([[Tensor([1, 2])], [Tensor([3, 4])]]).tolist() == [[[1, 2]], [[3, 4]]]
    pair = batched([(np.zeros(2), np.ones(3))] * 4)  # other tuples are structure
    assert [part.shape for part in pair] == [(4, 2), (4, 3)]


def test_lists_of_different_lengths_are_padded() -> None:
    tokens = [[1, 2, 3], [], [4]]
    assert batched(tokens, pad=True).tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    assert batched(tokens, pad=True).dtype == np.int64
    assert batched(tokens, pad=True, pad_value=-1, pad_length=4).tolist() == [[1, 2, 3, -1], [-1] * 4, [4, -1, -1, -1]]
    assert batched([[[1, 2], [3]], []], pad=True).tolist() == [[[1, 2], [3, 0]], [[0, 0], [0, 0]]]
    assert batched([["a"], ["b", "c"]], pad=True).tolist() == [["a", ""], ["b", "c"]]
    assert batched([[b"a"], [b"b", b"c"]], pad=True).tolist() == [[b"a", b""], [b"b", b"c"]]
    assert batched([[np.zeros((1, 2))], [np.ones((2, 1))] * 2], pad=True).shape == (2, 2, 2, 2)


@pytest.mark.parametrize(
    "values, problem",
    [
        ([[1, 2], [3]], r"x: arrays of the shapes \(1,\) and \(2,\) cannot be put in one batch"),
        ([[[1, 2], [3]]], r"x: arrays of the shapes \(1,\) and \(2,\) cannot be put in one batch"),
        ([[[[1], [2, 3]]]], r"x: a list cannot be put in a batch .*Return an array"),
        ([[np.zeros(2)], [1]], r"x: arrays of different ranks cannot be padded|x: arrays of the shapes"),
        ([[1, "a"]], "x: expected numbers, texts or arrays in a list, got int and str"),
        ([[1, None]], "x: expected numbers, texts or arrays in a list, got NoneType and int"),
        ([[{"a": 1}]], "x: expected numbers, texts or arrays in a list, got dict"),
        ([Tensor(1, is_here=False)], r"x: a Tensor cannot be put in a batch \(it is on cuda:0\)"),
        ([(np.zeros(2),), (np.zeros(2), 1)], r"x: expected tuples of one length, got \[1, 2\]"),
        ([{"y": (1, np.zeros(n))} for n in (2, 3)], r"x\.y\[1\]: arrays of the shapes \(2,\) and \(3,\)"),
    ],
)
def test_errors_name_the_key(values: list[Any], problem: str) -> None:
    with pytest.raises(FeatureValueError, match=problem):
        batched(values)
