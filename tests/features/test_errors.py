"""Errors begin with the feature's path, and say what was got and what was expected."""

import pickle
import re
import zlib
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.errors import FeatureKeyError, FeatureOverflowError, FeatureTypeError, FeatureValueError
from beam_datasets.formats import example
from tests.facts import raises_with

FEATURES = F.FeaturesDict(
    {
        "n": np.uint8,
        "f": F.Scalar(np.float32, minimum=0, maximum=1),
        "t": F.Tensor(shape=(2, None), dtype=np.int32),
        "text": F.Text(),
        "labels": F.Sequence(F.ClassLabel(names=["a", "b"])),
        "objs": F.Sequence({"bbox": F.BBoxFeature(), "ids": F.Sequence(np.int16)}),
        "d": {"x": F.Scalar(np.int64, minimum=-5)},
    }
)
GOOD = {
    "n": 1,
    "f": 0.5,
    "t": [[1, 2], [3, 4]],
    "text": "x",
    "labels": ["a", 1],
    "objs": [{"bbox": F.BBox(0.0, 0.0, 1.0, 1.0), "ids": [1]}],
    "d": {"x": 0},
}
BOX = F.BBox(0.0, 0.0, 1.0, 1.0)
encode = F.compile_encoder(FEATURES)


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"n": np.int64(-1)}, FeatureOverflowError, "n: -1 does not fit uint8, which holds 0 to 255"),
        ({"n": 2**70}, FeatureOverflowError, f"n: {2**70} does not fit uint8"),
        ({"n": "one"}, FeatureTypeError, "n: 'one' is text; expected uint8. Convert it to a number first"),
        ({"n": None}, FeatureTypeError, "n: the value is None or has a None in it; expected uint8"),
        ({"n": [1]}, FeatureValueError, "n: the value has the shape (1,); the feature has ()"),
        ({"n": 1.5j}, FeatureTypeError, "n: 1.5j is complex; expected uint8. Store .real and .imag"),
        ({"t": [1, 2j]}, FeatureTypeError, "t: 2j is complex; expected int32. Store .real and .imag"),
        ({"n": {}}, FeatureTypeError, "n: {} is dict; expected uint8"),
        ({"n": np.int64(1) + np.zeros((), int)}, None, ""),
        (
            {"n": np.array(1)},
            FeatureValueError,
            "n: the array has the dtype int64; the feature has uint8: pass value.astype('uint8')",
        ),
        ({"f": 1.5}, FeatureValueError, "f: 1.5 is outside the feature's bounds [0, 1]"),
        ({"f": -0.5}, FeatureValueError, "f: -0.5 is outside the feature's bounds [0, 1]"),
        ({"t": [[1], [2], [3]]}, FeatureValueError, "t: the value has the shape (3, 1); the feature has (2, None)"),
        ({"t": [[1], [2, 3]]}, FeatureValueError, "t: [[1], [2, 3]] cannot be converted to int32"),
        ({"t": [[1], [None]]}, FeatureTypeError, "t: the value is None or has a None"),
        ({"text": None}, FeatureTypeError, "text: None is NoneType; expected str or bytes"),
        (
            {"labels": ["a", "c"]},
            FeatureValueError,
            "labels: item 1: expected one of the 2 class names 'a', 'b', got 'c'",
        ),
        ({"labels": [2]}, FeatureValueError, "labels: item 0: label 2 is outside [-1, 2), for 2 classes"),
        ({"labels": np.array([0, 2])}, FeatureValueError, "labels: item 1: label 2 is outside [-1, 2)"),
        ({"labels": 3}, FeatureValueError, "labels: expected a sequence, got int: 3"),
        ({"labels": "ab"}, FeatureValueError, "labels: expected a sequence, got str: 'ab'"),
        (
            {"objs": [{"bbox": BOX}]},
            FeatureKeyError,
            "objs: the example's features differ from the dataset's: missing ['ids']",
        ),
        (
            {"objs": [{"bbox": F.BBox(0.5, 0.0, 0.2, 1.0), "ids": []}]},
            FeatureValueError,
            "objs.bbox: item 0: a minimum is above its maximum",
        ),
        (
            {"objs": [{"bbox": BOX, "ids": [1, 70000]}]},
            FeatureOverflowError,
            "objs.ids: item 1: 70000 does not fit int16",
        ),
        (
            {"objs": {"bbox": [BOX], "ids": []}},
            FeatureValueError,
            "objs: the lists of a sequence of dicts have different",
        ),
        (
            {"objs": {"bbox": 1, "ids": 2}},
            FeatureTypeError,
            "objs: a dict in place of a sequence of dicts must have",
        ),
        ({"d": {"x": -6}}, FeatureValueError, "d.x: -6 is outside the feature's bounds [-5, None]"),
        (
            {"d": {"y": 1}},
            FeatureKeyError,
            "d: the example's features differ from the dataset's: missing ['x'], unknown ['y']",
        ),
        ({"d": 5}, FeatureTypeError, "d: int is not a dict of the features ['x']"),
        ({"z": 5}, FeatureKeyError, "the example's features differ from the dataset's: unknown ['z']"),
    ],
)
def test_encoding(change, error, text):
    value = {**GOOD, **change}
    if error is None:
        assert encode(value)
        return
    with pytest.raises(error) as raised:
        encode(value)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("encoding", ["bytes", "zlib"])
def test_doubles_keep_all_their_bits(encoding):
    one = F.compile_encoder({"x": F.Scalar(np.float64, encoding=encoding)})
    array = F.compile_encoder({"x": F.Tensor(shape=(1,), dtype=np.float64, encoding=encoding)})
    signalling = np.array([0x7FF4_0000_0000_0001], np.uint64).view(np.float64)[0]
    for value in (0.1, -0.0, 1e300, 5e-324, float("inf"), float("nan"), np.float64(1 / 3), signalling):
        record = one({"x": value})
        assert record == array({"x": np.array([value], np.float64)})
        read = F.compile_decoder({"x": F.Scalar(np.float64, encoding=encoding)})(record)["x"]
        assert (type(read), read.tobytes()) == (np.float64, np.float64(value).tobytes())


@pytest.mark.parametrize(
    "stored, text",
    [
        ({"n": None}, "n: the record does not have this feature, and it is not optional"),
        ({"n": [1, 2]}, "n: the record has 2 values, expected one"),
        ({"n": [b"x"]}, "n: expected a list of int64, found bytes_list"),
        ({"n": [300]}, "n: the record has 300, which does not fit uint8"),
        ({"f": [1]}, "f: expected a list of float, found int64_list"),
        ({"t": [1, 2, 3]}, "t: the record has 3 values, which do not have the shape (2, None)"),
        ({"text": [b"x", b"y"]}, "text: the record has 2 values, expected one"),
        ({"objs/ids/ragged_row_lengths_0": [5]}, "objs.ids: the row lengths of level 0 add up to 5, of 1 items below"),
        ({"objs/ids/ragged_row_lengths_0": [-1]}, "objs.ids: the row lengths of level 0 have the negative length -1"),
        ({"objs/bbox": [0.5]}, "objs.bbox: the record has 1 values, which do not have the shape (None, 4)"),
    ],
)
def test_decoding(stored, text):
    features = {**example.parse(encode(GOOD)), **stored}
    record = example.serialize({name: values for name, values in features.items() if values is not None})
    with pytest.raises(FeatureValueError) as raised:
        F.compile_decoder(FEATURES)(record)
    assert str(raised.value).startswith(text)


def test_zlib_bombs_are_not_inflated():
    features = F.FeaturesDict({"x": F.Tensor(shape=(4,), dtype=np.uint8, encoding="zlib")})
    bomb = example.serialize({"x": [zlib.compress(bytes(1 << 24))]})
    with pytest.raises(FeatureValueError, match="^x: the stored bytes decompress to more than the feature's 4 bytes"):
        F.compile_decoder(features)(bomb)
    for damaged in (b"", b"no zlib", zlib.compress(b"abcd")[:-1]):
        with pytest.raises(FeatureValueError, match="^x: the stored"):
            F.compile_decoder(features)(example.serialize({"x": [damaged]}))


def test_shapes_that_a_record_claims():
    features = F.FeaturesDict({"x": F.Tensor(shape=(None, None), dtype=np.uint8, encoding="zlib")})
    for shape in ([2**62, 4], [2**40, 2**40], [-1, 4], [4], [2, 2, 2], []):
        import zlib

        record = example.serialize({"x/shape": np.array(shape, np.int64), "x/value": [zlib.compress(bytes(4))]})
        with raises_with(FeatureValueError, feature=re.compile(r"^x(\.shape)?$")):
            F.compile_decoder(features)(record)


def test_features_are_values():
    assert pickle.loads(pickle.dumps(FEATURES)) == FEATURES
    assert F.Text() != F.Text(optional=True)
    with pytest.raises(AttributeError):
        FEATURES["n"].shape = (2,)


@pytest.mark.parametrize(
    "name, make",
    [
        ("optional", lambda flag: F.Tensor(shape=(2,), dtype=np.int64, optional=flag)),
        ("optional", lambda flag: F.Scalar(np.int64, optional=flag)),
        ("optional", lambda flag: F.Text(optional=flag)),
        ("lazy_decode", lambda flag: F.Audio(lazy_decode=flag)),
        ("use_colormap", lambda flag: F.Image(shape=(4, 4, 1), use_colormap=flag)),
        ("use_colormap", lambda flag: F.Video(shape=(None, 4, 4, 1), use_colormap=flag)),
    ],
)
def test_flags_are_bools(name, make):
    assert make(np.True_) == make(1) == make(True) != make(False)
    assert F.to_json_text(F.FeaturesDict({"a": make(np.True_)})) == F.to_json_text(F.FeaturesDict({"a": make(True)}))
    with pytest.raises(TypeError, match=f"{name} must be True or False, not 'no'"):
        make("no")


NO_VALUES = F.Tensor(shape=(2, 0), dtype=np.float32)


@pytest.mark.parametrize(
    "feature, unknown",
    [
        (F.Sequence(NO_VALUES), "says how many items there are"),
        (F.Sequence(F.Sequence(NO_VALUES)), "says how many items there are"),
        (F.Sequence({"a": np.int64, "b": NO_VALUES}), "says how many items there are"),
        (F.Dataset(NO_VALUES), "says how many items there are"),
        (F.Tensor(shape=(None, 0), dtype=np.int64), "None cannot be inferred"),
        (F.Tensor(shape=(0, None), dtype=np.str_), "None cannot be inferred"),
        (F.Tensor(shape=(None, 0), dtype=np.int64, encoding="zlib"), "None cannot be inferred"),
        (F.Sequence(F.Tensor(shape=(None, 0), dtype=np.int64, encoding="zlib")), "None cannot be inferred"),
    ],
)
def test_what_has_no_values_cannot_say_how_much_of_it_there_is(feature, unknown):
    with pytest.raises(FeatureValueError, match=f"^x.* could be written but not read, .*{unknown}"):
        F.compile_encoder({"x": feature})


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: F.Tensor(shape=3, dtype=np.int64), TypeError, r"shape: expected a tuple of lengths, .* got 3"),
        (lambda: F.Tensor(shape="3", dtype=np.int64), TypeError, r"shape: expected a tuple of lengths, .* got '3'"),
        (lambda: F.Tensor(shape=(3.5,), dtype=np.int64), TypeError, "a length of the shape must be an int, not 3.5"),
        (lambda: F.Image(shape=3), TypeError, r"shape: expected a tuple of lengths"),
        (lambda: F.Video(shape=3), TypeError, r"shape: expected a tuple of lengths"),
        (lambda: F.Audio(shape=3), TypeError, r"shape: expected a tuple of lengths"),
        (lambda: F.Tensor(shape=(), dtype="int65"), ValueError, "Did you mean 'int64'"),
        (lambda: F.Tensor(shape=(), dtype=np.int64, encoding="zlb"), ValueError, "one of none, .* mean 'zlib'"),
        (lambda: F.BBoxFeature(bbox_format="XYXX"), ValueError, "expected one of XYXY, .*, got 'XYXX'. Did you mean"),
        (lambda: F.FeaturesDict({"a": F.Text}), ValueError, r"a: expected a feature, .* class Text; write Text\("),
        (lambda: F.FeaturesDict({"a": {"b": [1]}}), ValueError, r"b: expected a feature, .* got \[1\]"),
        (lambda: F.Sequence(F.Text), ValueError, "expected a feature, .* got the class Text"),
        (lambda: F.Sequence(F.Text(), length="3"), TypeError, "length must be an int"),
        (lambda: F.ClassLabel(num_classes="3"), TypeError, "num_classes must be an int"),
        (lambda: F.ClassLabel(num_classes=-1), ValueError, "num_classes must be at least 0"),
        (lambda: F.ClassLabel(names="abc"), TypeError, "names: expected a list of names, .* got 'abc'"),
        (lambda: F.ClassLabel(names=["a", 3]), TypeError, r"names: expected a list of names, .* got \['a', 3\]"),
        (lambda: F.Translation("en"), TypeError, "languages: expected a list of names"),
        (lambda: F.TranslationVariableLanguages("en"), TypeError, "languages: expected a list of names"),
        (lambda: bd.DatasetInfo(features=F.Text), ValueError, "features: expected a feature"),
        (lambda: F.Tensor(shape=(-1,), dtype=np.int64), ValueError, "."),
        (lambda: F.Tensor(shape=(), dtype=np.complex64), ValueError, "."),
        (lambda: F.Tensor(shape=(), dtype=np.int64, encoding="lzma"), ValueError, "."),
        (lambda: F.Sequence(np.int64, length=-1), ValueError, "."),
        (lambda: F.FeaturesDict({"a": 5}), ValueError, "."),
        (lambda: F.FeaturesDict({"a": float}), ValueError, "."),
        (lambda: F.FeaturesDict({1: np.int64}), ValueError, "."),
        (lambda: F.FeaturesDict({"a": np.int64, b"b": np.int64}), ValueError, "."),
        (lambda: F.FeaturesDict({"a\ud800": np.int64}), ValueError, "."),
        (lambda: F.Text(encoder="x"), ValueError, "."),
        (lambda: F.Video(shape=(2, 2, 3)), ValueError, "."),
        (lambda: F.Audio(shape=(None, 2, 2)), ValueError, "."),
        (lambda: F.BBoxFeature(bbox_format="CXCYWH"), ValueError, "."),
        (lambda: F.LabeledImage(labels=2, shape=(2, 2, 3)), ValueError, "."),
        (lambda: F.compile_encoder(np.int64), ValueError, "."),
        (lambda: F.compile_encoder({"a/b": np.int64, "a": {"b": np.int64}}), ValueError, "."),
    ],
)
def test_arguments_that_are_no_features(make: Any, error: type[Exception], text: str) -> None:
    """What is not a shape, a feature or a list of names is found when the feature is made, and named."""
    with pytest.raises(error, match=text):
        make()


def test_a_name_of_a_dtype_is_a_feature() -> None:
    named = F.FeaturesDict({"n": "int64", "s": F.Sequence("string"), "d": {"x": "float32"}})
    assert named == F.FeaturesDict({"n": np.int64, "s": F.Sequence(np.str_), "d": {"x": np.float32}})
    with pytest.raises(ValueError, match=r"n: no feature has the dtype 'itn64'; .*Did you mean 'int64'\?"):
        F.FeaturesDict({"n": "itn64"})


def test_names_of_classes_in_an_array() -> None:
    """Such as those of `DataFrame.label.unique()`, which compare by items."""
    assert F.ClassLabel(names=np.array(["cat", "dog"])).names == ["cat", "dog"]
    with pytest.raises(ValueError, match="takes one of num_classes=, names= and names_file=, not several"):
        F.ClassLabel(names=np.array(["cat", "dog"]), num_classes=2)


@pytest.mark.parametrize("shape", [(None,), (None, None)])
def test_a_record_that_decompresses_to_more_than_the_limit(shape, monkeypatch):
    """A record decides the length, so some bytes could take all memory."""
    monkeypatch.setattr("beam_datasets.limits.MAX_LIST", 1000)
    tree = F.FeaturesDict({"x": F.Tensor(shape=shape, dtype=np.int16, encoding="zlib")})
    decode = F.compile_decoder(tree)
    large = np.zeros((1001, 1)[: len(shape)], np.int16)
    with pytest.raises(FeatureValueError, match=r"^x: the tensor has 1,001 values, more than 1,000\. If that is"):
        F.compile_encoder(tree)({"x": large})
    fits = large[:1000]
    assert decode(F.compile_encoder(tree)({"x": fits}))["x"].shape == fits.shape
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", "10")  # it raises the limit, and never lowers it
    assert decode(F.compile_encoder(tree)({"x": fits}))["x"].shape == fits.shape
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", "2000")
    record = F.compile_encoder(tree)({"x": large})
    assert decode(record)["x"].shape == large.shape
    monkeypatch.delenv("BEAM_DATASETS_MAX_ELEMENTS")
    with pytest.raises(FeatureValueError, match=r"more than 1,000.*BEAM_DATASETS_MAX_ELEMENTS=") as caught:
        decode(record)
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", str(caught.value).rpartition("ELEMENTS=")[2].split()[0])
    assert decode(record)["x"].shape == large.shape
    declared = F.FeaturesDict({"x": F.Tensor(shape=(1001, 1)[: len(shape)], dtype=np.int16, encoding="zlib")})
    monkeypatch.delenv("BEAM_DATASETS_MAX_ELEMENTS")
    assert F.compile_decoder(declared)(F.compile_encoder(declared)({"x": large}))["x"].shape == large.shape


LONG = "x" * 20_000
MANY = {f"feature{number}": np.int64 for number in range(5000)}


@pytest.mark.parametrize(
    "raises",
    [
        lambda: F.compile_encoder(MANY)({}),
        lambda: F.compile_encoder({"a": np.int64})({"a": 1, **dict.fromkeys(MANY, 1)}),
        lambda: F.compile_encoder({"a": np.int64})({LONG: 1}),
        lambda: F.compile_encoder({"a": MANY})({"a": 5}),
        lambda: F.FeaturesDict(MANY).nope,
        lambda: F.compile_decoder(MANY, decoders={"nope": bd.decode.SkipDecoding()}),
        lambda: F.ClassLabel(names=["a", LONG]).str2int("b"),
        lambda: F.ClassLabel(names=["a"]).str2int(LONG),
        lambda: F.ClassLabel(num_classes=3).str2int(LONG),
        lambda: F.ClassLabel(names=[LONG, LONG]),
        lambda: F.ClassLabel(names=[LONG + "\ny"]),
        lambda: F.ClassLabel(names=[LONG + "\ud83d"]),
        lambda: F.compile_encoder({"a": F.ClassLabel(names=["a"])})({"a": LONG}),
        lambda: F.compile_encoder({"a": F.ClassLabel(names=["a"])})({"a": LONG.encode() + b"\xff"}),
        lambda: F.compile_encoder({"a": F.Text()})({"a": [LONG]}),
        lambda: F.compile_encoder({"a": F.BBoxFeature()})({"a": LONG}),
        lambda: F.compile_encoder({"a": F.BBoxFeature()})({"a": [LONG] * 4}),
    ],
)
def test_errors_are_short_also_of_many_features_and_long_values(raises):
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)) as raised:
        raises()
    texts = [str(raised.value), getattr(raised.value, "expected", None) or "", getattr(raised.value, "got", None) or ""]
    assert 10 < len(texts[0]) < 1500
    assert max(map(len, texts)) < 1500


@pytest.mark.parametrize(
    "feature, shape, is_advised",
    [
        (F.Image(shape=(2, 2, 3)), (2, 2, 4), False),
        (F.Image(shape=(2, 2, 3)), (2, 3, 3), True),
        (F.Image(shape=(2, 2, 3)), (2, 3, 4), False),  # the advice alone would not help
        (F.Image(shape=(None, None, 1)), (2, 2, 3), False),
        (F.Image(shape=(2, 2, 0)), (3, 2, 4), True),
        (F.Image(shape=(2, 2, 3)), (2, 2), False),
        (F.Tensor(shape=(2, 3), dtype=np.uint8), (2, 4), True),
        (F.Tensor(shape=(2, 3), dtype=np.uint8), (2, 3, 1), False),
    ],
)
def test_none_in_a_shape_is_advised_where_a_feature_can_have_it(feature, shape, is_advised):
    advice = "None in the shape of a feature accepts any length." if is_advised else None
    with raises_with(FeatureValueError, feature="x", got=str(shape), advice=advice):
        F.compile_encoder({"x": feature})({"x": np.zeros(shape, np.uint8)})
