"""Item handlers of values and boxes, against loops; of images, against Pillow."""

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import FeatureValueError
from beam_datasets.features import RaggedArray
from beam_datasets.slim import (
    BackupHandler,
    BoundingBox,
    BoundingBoxSequence,
    Image,
    ItemHandlerCallback,
    KeypointsSequence,
    LookupTensor,
    NumBoxesSequence,
    SparseTensor,
    SparseTensorValue,
    Tensor,
)
from tests.facts import raises_with

pillow = pytest.importorskip("PIL.Image")

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
    with raises_with(FeatureValueError, feature="x", expected=re.compile(r"\(4,\)"), got=re.compile(r"\(6,\)")):
        Tensor("x", shape=(4,)).tensors_to_item({"x": np.arange(6)})
    with raises_with(FeatureValueError, expected=re.compile("default_value .* object"), got="-1"):
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
    entries, advice = re.compile(r"table \(b'a' \.\.\.\)"), re.compile("`unknown`")
    with raises_with(FeatureValueError, feature="x", expected=entries, got="b'b'", advice=advice):
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
    "indices, values, shape, feature, expected, got",
    [
        ([1, 4], [1, 2], [4], "indices", r"shape \(4,\)", "[4]"),
        ([-1], [1], [4], "indices", r"shape \(4,\)", "[-1]"),
        ([2, 1, 2], [1, 2, 3], [4], "indices", "once", "[2] 2 times"),
        ([1, 2], [1], [4], "values", "2 values, .* index in indices", "1"),
        ([1], [1], [4, 4], "indices", r"2 dimensions .* shape \[4, 4\]", "1"),
    ],
)
def test_sparse_that_does_not_fit(indices, values, shape, feature, expected, got):
    handler = SparseTensor(shape=shape, densify=True)
    with raises_with(FeatureValueError, feature=feature, expected=re.compile(expected), got=got):
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


# Boxes and keypoints

SIDES = ["ymin", "xmin", "ymax", "xmax"]
COUNTS = st.lists(st.integers(0, 4), max_size=6)


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
    with raises_with(FeatureValueError, got=re.compile(r"ymin \(1,\), xmin \(2,\)")):
        BoundingBox().tensors_to_item({**values, "ymin": np.zeros(1)})


@pytest.mark.parametrize("handler, count", [(BoundingBox, 4), (BoundingBoxSequence, 4), (KeypointsSequence, 2)])
def test_number_of_keys(handler, count):
    for keys in (["k"] * (count - 1), ["k"] * (count + 1), [], "kkkk"):
        with pytest.raises(ValueError, match=f"{handler.__name__} needs {count} keys, got "):
            handler(keys=keys)


@given(COUNTS)
def test_sequences_of_boxes_and_keypoints(counts):
    values = numbered(counts, SIDES)
    for handler, default in ((BoundingBoxSequence(), -1), (BoundingBoxSequence(default_value=7.0), 7)):
        got = handler.tensors_to_item(values)
        assert got.dtype == np.float32
        assert np.array_equal(got, expected_array(counts, 4, default))
    assert NumBoxesSequence(SIDES).tensors_to_item(values).tolist() == counts
    keypoints = KeypointsSequence(prefix="k/").tensors_to_item(numbered(counts, ["k/y", "k/x"]))
    assert np.array_equal(keypoints, expected_array(counts, 2, -1))
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
    with raises_with(FeatureValueError, got=re.compile(r"xmax \(2, 1\)")):
        BoundingBoxSequence().tensors_to_item(values)


def test_counts_that_differ():
    values = {"a": ragged([[1, 2], [3]]), "b": ragged([[1, 2], [3]]), "c": ragged([[1], [3]])}
    assert NumBoxesSequence("c").tensors_to_item(values).tolist() == [1, 1]
    assert NumBoxesSequence(["a", "b"]).tensors_to_item(values).tolist() == [2, 1]
    with raises_with(FeatureValueError, feature="c", expected=re.compile(r"\ba\b.* \[2, 1\]"), got="[1, 1]"):
        NumBoxesSequence(["a", "b", "c"]).tensors_to_item(values)
    assert NumBoxesSequence(["a", "c"], check_consistency=False).tensors_to_item(values).tolist() == [2, 1]
    with raises_with(FeatureValueError, feature="d", expected=re.compile("VarLen"), got=re.compile(r"\(2, 2\)")):
        NumBoxesSequence("d").tensors_to_item({"d": np.zeros((2, 2))})
    for nothing in (None, [], ""):
        with pytest.raises(ValueError, match="one key at least"):
            NumBoxesSequence(nothing)


# Images of other people's files

RGB = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
GRAY = RGB[..., 0].copy()


def encoded(array, kind, **options):
    target = io.BytesIO()
    pillow.fromarray(array).save(target, kind, **options)
    return target.getvalue()


def decode(handler, data, kind=b"jpeg"):
    return handler.tensors_to_item({"image/encoded": data, "image/format": kind})


def test_gif_has_frames():
    data = encoded(GRAY, "GIF", save_all=True, append_images=[pillow.fromarray(GRAY[::-1])])
    got = decode(Image(), data)
    assert np.array_equal(got, np.stack([np.stack([frame] * 3, axis=-1) for frame in (GRAY, GRAY[::-1])]))
    with raises_with(FeatureValueError, feature="image/encoded", expected=re.compile("4 channels"), got="3"):
        decode(Image(channels=4), data)


def test_dtype_and_shape():
    got = decode(Image(dtype=np.float32, shape=(5, 6, 3)), encoded(RGB, "PNG"))
    assert got.dtype == np.float32
    assert np.array_equal(got, RGB.reshape(5, 6, 3))
    assert decode(Image(channels=1), encoded(GRAY, "PNG")).tolist() == GRAY[..., None].tolist()
    got = re.compile(r"90 .*\(6, 5, 3\)")
    with raises_with(FeatureValueError, feature="image/encoded", expected=re.compile(r"\(5, 5, 3\)"), got=got):
        decode(Image(shape=(5, 5, 3)), encoded(RGB, "PNG"))


@pytest.mark.parametrize("kind", [b"raw", b"RAW"])
def test_raw(kind):
    assert np.array_equal(decode(Image(shape=RGB.shape), RGB.tobytes(), kind), RGB)
    numbers = np.array([1, 300], "<u2")
    got = decode(Image(dtype=np.uint16), numbers.tobytes(), kind)
    assert got.dtype == np.uint16
    assert got.tolist() == [1, 300]
    assert got.flags.writeable
    whole = re.compile("uint16")
    with raises_with(FeatureValueError, feature="image/encoded", expected=whole, got="3 raw bytes"):
        decode(Image(dtype=np.uint16), b"abc", kind)


def test_repeated():
    files = [encoded(RGB, "PNG"), encoded(RGB[:3], "BMP"), encoded(GRAY, "PNG")]
    got = decode(Image(repeated=True), np.array(files, object))
    assert isinstance(got, list)
    assert [image.shape for image in got] == [(6, 5, 3), (3, 5, 3), (6, 5, 3)]
    assert np.array_equal(got[1], RGB[:3])
    assert decode(Image(repeated=True), np.array([], object)) == []
    assert np.array_equal(decode(Image(), np.array(files[:1], object)), RGB)
    facts = {"feature": "image/encoded", "expected": "one image", "got": "3", "advice": re.compile("`repeated`")}
    with raises_with(FeatureValueError, **facts):
        decode(Image(), np.array(files, object))


def test_what_is_no_image():
    with raises_with(FeatureValueError, feature="image/encoded"):
        decode(Image(), b"no image at all")
    with pytest.raises(ValueError, match="channels must be 0, 1, 3 or 4, got 2"):
        Image(channels=2)
