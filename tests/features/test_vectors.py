"""Features against what TFDS 4.9.10 did with the same ones; the differences that are meant are listed here."""

import base64
import re

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureError
from beam_datasets.features import compile_decoder, compile_encoder, from_json_text, to_json_text
from beam_datasets.formats import example
from tests.features.vectors import assert_same, cases, feature_of, input_of, value_of

# TFDS stores another number than the one that was given, also outside the feature's bounds; here that is an error.
NOT_EXACT = {
    "bbox": r"b: expected a number that float32 holds, got 0.1 at index \(0,\), which would be stored as 0.100000001",
    "bool_given_int": "v: expected a bool .or 0 or 1., got 2, which would be stored as True",
    "float64_precision": "v: expected a number that float32, as .*, holds, got 5.1, which would be stored as 5.0999999",
    "int_given_float": "v: expected an integer, got 1.9, which would be stored as 1",
    "int_given_str": "v: '12' is text; expected int64",
    "tensor_minmax": r"v: 99 is outside the feature's bounds \[0, 10\]",
    "float64_overflow": r"v: 1e\+300 does not fit float32",
}

# TFDS wraps these errors in a RuntimeError, or stumbles over its own attributes.
OTHER_ERRORS = {
    "text_surrogate": ValueError,
    "classlabel_names_unknown": ValueError,
    "top_level_sequence_scalar": ValueError,
}

# TFDS writes items of unknown lengths one after the other, and cannot read them.
CANNOT_BE_READ = {"seq_tensor_none"}

# Arrays that we encode as images ourselves: the pixels count. Image bytes that were given are stored as they are.
IMAGES = {
    name
    for name in cases()
    if name.startswith(("image", "labeled_image", "seq_image", "video", "dataset_dict"))
    and name != "dataset_dict_of_lists"
}

# JPEG pixels: TFDS has other ones for TensorFlow (a fast inverse DCT) than for NumPy (an accurate one, as here).
JPEG = {"image_jpeg_array", "image_bytes_passthrough", "image_png_given_jpeg_bytes", "video_jpeg"}

# TFDS cannot read by TensorFlow what it wrote.
WE_CAN_READ = {
    "tensor_uint32_bytes",
    "empty_features",
    "seq_of_seq_fixed_inner",
    "seq_of_seq_fixed_outer",
    "seq_of_seq_both_fixed",
    "optional_tensor_zlib_present",
    "optional_tensor_zlib_none",
}
FIXED_RAGGED = {
    "seq_of_seq_fixed_inner": [[1, 2], [3, 4], [5, 5]],
    "seq_of_seq_fixed_outer": [[1], [2, 5]],
    "seq_of_seq_both_fixed": [[1, 2, 3], [4, 5, 5]],
}

# The number of classes is not known, and not 0 either.
OTHER_REPR = {"classlabel_undefined"}

# features.json has no place for the option of a Text.
OPTION_IS_LOST = {"optional_text_present", "optional_text_none"}


def case_and_feature(name):
    case = cases()[name]
    if "bfloat16" in case["spec"]:
        pytest.importorskip("ml_dtypes", reason="bfloat16 is a dtype of ml_dtypes")
    return case, feature_of(case)


def names_with(*keys, without=()):
    return [n for n, c in cases().items() if all(k in c for k in keys) and not any(k in c for k in without)]


def without_more(text):
    """Returns a repr without what TensorFlow Datasets does not show: how a tensor is stored, and if None is a value."""
    shown = re.sub(r", (encoding='\w+'|optional=True)", "", text)
    return re.sub(r"\bTensor\(shape=\(\), dtype=(\w+)\)", r"\1", shown) if shown != text else text


def test_more_is_shown():
    zlib = F.Tensor(shape=(3,), dtype="float64", encoding="zlib", optional=True)
    assert repr(zlib) == "Tensor(shape=(3,), dtype=float64, encoding='zlib', optional=True)"
    assert repr(F.Scalar("float32", optional=True)) == "Scalar(shape=(), dtype=float32, optional=True)"
    assert repr(F.Tensor(shape=(), dtype="int64", optional=True)) == "Tensor(shape=(), dtype=int64, optional=True)"
    assert repr(F.Tensor(shape=(), dtype="int64")) == "int64"


def test_all_cases_are_here():
    assert len(cases()) == 187
    reached = {*names_with("features_json_text"), *names_with("spec_error"), *names_with("config_error")}
    assert reached == set(cases())


@pytest.mark.parametrize("name", names_with("spec_error"))
def test_features_that_cannot_be(name):
    case = cases()[name]
    error = {"ValueError": ValueError, "NotImplementedError": NotImplementedError}[case["spec_error"]["error"]]
    with pytest.raises(error):
        feature_of(case)


@pytest.mark.parametrize("name", names_with("features_json_text"))
def test_json(name):
    case, feature = case_and_feature(name)
    text = to_json_text(feature)
    assert text == case["features_json_text"]
    assert feature.to_json() == case["features_json"]
    assert without_more(repr(feature)) == case["repr"]
    assert feature.label_files() == case["extra_files"]
    loaded = from_json_text(text)
    assert without_more(repr(loaded)) == case["reload_repr"] or name in OTHER_REPR
    assert to_json_text(loaded) == text
    assert loaded.load_labels(case["extra_files"].get) == feature or name in OPTION_IS_LOST


@pytest.mark.parametrize("name", names_with("config_error"))
def test_features_that_cannot_be_saved(name):
    with pytest.raises(TypeError, match=r"minimum=0\.5"):
        to_json_text(feature_of(cases()[name]))


@pytest.mark.parametrize("name", names_with("encode_error"))
def test_values_that_cannot_be_encoded(name):
    case, feature = case_and_feature(name)
    builtin = {c.__name__: c for c in (ValueError, TypeError, KeyError, OverflowError)}
    error = OTHER_ERRORS.get(name) or builtin[case["encode_error"]["error"]]
    with pytest.raises(FeatureError) as raised:
        compile_encoder(feature)(input_of(case))
    assert isinstance(raised.value, error)


@pytest.mark.parametrize(
    "name",
    sorted(set(names_with("serialized_canonical_b64")) - (IMAGES | CANNOT_BE_READ | set(NOT_EXACT))),
)
def test_bytes(name):
    case, feature = case_and_feature(name)
    expected = base64.b64decode(case["serialized_canonical_b64"])
    assert len(expected) == case["serialized_len"]
    assert compile_encoder(feature)(input_of(case)) == expected
    assert example.serialize(example.parse(expected)) == expected


@pytest.mark.parametrize("name", NOT_EXACT)
def test_values_that_tfds_changes_are_refused_or_rounded_on_request(name):
    case, feature = case_and_feature(name)
    with pytest.raises(FeatureError, match=f"^{NOT_EXACT[name]}"):
        compile_encoder(feature)(input_of(case))
    rounding = {
        "bbox": F.BBoxFeature(allow_rounding=True),
        "float64_precision": F.Scalar("float64", allow_rounding=True),
    }
    if name in rounding:
        encode = compile_encoder({next(iter(feature)): rounding[name]})
        assert encode(input_of(case)) == base64.b64decode(case["serialized_canonical_b64"])


@pytest.mark.parametrize("name", sorted(CANNOT_BE_READ))
def test_features_that_could_not_be_read_are_not_written(name):
    case, feature = case_and_feature(name)
    with pytest.raises(FeatureError, match="s: a sequence of Tensor.* could be written but not read"):
        compile_encoder(feature)
    assert {"decoded_tf_error", "decoded_np_error"} <= set(case)


@pytest.mark.parametrize("name", names_with("serialized_canonical_b64", "decoded_tf"))
def test_decoded(name):
    case, feature = case_and_feature(name)
    got = compile_decoder(feature)(base64.b64decode(case["serialized_canonical_b64"]))
    optional = case["decoded_np"] if case.get("decoded_np", {}).get("v", 0) is None else case["decoded_tf"]
    if name in JPEG:
        assert_near(got, value_of(case["decoded_tf"]))
        assert_exact_jpeg(got, value_of(case["decoded_np"]))
    elif optional is case["decoded_tf"]:
        assert_same(got, value_of(case["decoded_tf"]))
    else:
        assert got["v"] is None


# TFDS stores bytes that are no image, and cannot read them; here that is an error.
NO_IMAGE = "image_bytes_garbage"


def test_bytes_that_are_no_image():
    case, feature = case_and_feature(NO_IMAGE)
    with pytest.raises(FeatureError, match="image: not an image .it begins with b'not an image'"):
        compile_encoder(feature)(input_of(case))


@pytest.mark.parametrize("name", sorted((set(names_with("serialized_canonical_b64")) & IMAGES) - {NO_IMAGE}))
def test_our_images_have_the_pixels(name):
    case, feature = case_and_feature(name)
    ours = compile_encoder(feature)(input_of(case))
    if "decoded_tf" not in case:
        assert ours == base64.b64decode(case["serialized_canonical_b64"])
        return
    got, want = compile_decoder(feature)(ours), value_of(case["decoded_tf"])
    assert compile_encoder(feature)(input_of(case)) == ours
    if name in JPEG:
        assert_near(got, want)
    else:
        assert_same(got, want)


def assert_near(got, want):
    (value,), (expected,) = got.values(), want.values()
    assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
    assert np.abs(value.astype(int) - expected).max() <= 12


def assert_exact_jpeg(got, want):
    (value,), (expected,) = got.values(), want.values()
    assert np.array_equal(value, np.stack(expected) if isinstance(expected, list) else expected)


@pytest.mark.parametrize("name", names_with("serialized_canonical_b64", "decoded_tf_error"))
def test_what_tfds_cannot_read(name):
    case, feature = case_and_feature(name)
    record = base64.b64decode(case["serialized_canonical_b64"])
    if name not in WE_CAN_READ:
        with pytest.raises(FeatureError):
            compile_decoder(feature)(record)
        return
    got = compile_decoder(feature)(record)
    if name in FIXED_RAGGED:
        assert got["s"].to_list() == FIXED_RAGGED[name]
    elif name == "optional_tensor_zlib_none":
        assert got == {"v": None}
    else:
        assert_same(got, value_of(case["decoded_np"]))
