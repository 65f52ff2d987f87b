import zlib

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureError
from beam_datasets.features import decode, image_codec
from beam_datasets.formats import example
from tests.strategies import assert_equal

FEATURES = F.FeaturesDict(
    {
        "id": np.int64,
        "image": F.Image(shape=(2, 2, 1)),
        "packed": F.Tensor(shape=(3,), dtype=np.int16, encoding="zlib"),
        "label": F.ClassLabel(names=["a", "b"]),
        "video": F.Video(shape=(None, 2, 2, 1)),
        "boxes": F.Sequence({"box": F.BBoxFeature(), "crop": F.Image(shape=(None, None, 1))}),
        "meta": {"text": F.Text(), "deep": {"x": np.float32}},
        "free": F.Tensor(shape=(None, None), dtype=np.uint8, encoding="bytes"),
    }
)
PIXELS = np.array([[[1], [2]], [[3], [4]]], np.uint8)
EXAMPLE = {
    "id": 7,
    "image": PIXELS,
    "packed": np.array([1, 2, 3], np.int16),
    "label": "b",
    "video": [PIXELS, PIXELS],
    "boxes": [{"box": F.BBox(0.0, 0.0, 1.0, 1.0), "crop": PIXELS}],
    "meta": {"text": "hello", "deep": {"x": 1.5}},
    "free": np.zeros((2, 3), np.uint8),
}
RECORD = F.compile_encoder(FEATURES)(EXAMPLE)
ALL = F.compile_decoder(FEATURES)(RECORD)
PNG = image_codec.encode(PIXELS, "png")


def test_skip_decoding_yields_what_is_stored():
    skip = decode.SkipDecoding()
    decoders = {
        "image": skip,
        "packed": skip,
        "video": skip,
        "boxes": {"crop": skip},
        "meta": {"text": skip},
        "free": skip,
    }
    got = F.compile_decoder(FEATURES, decoders=decoders)(RECORD)
    assert got["image"] == PNG
    assert got["packed"] == zlib.compress(np.array([1, 2, 3], np.int16).tobytes())
    assert got["video"].tolist() == [PNG, PNG]
    assert got["boxes"]["crop"].tolist() == [PNG]
    assert_equal(got["boxes"]["box"], ALL["boxes"]["box"])
    assert got["meta"]["text"] == b"hello"
    assert got["free"]["shape"].tolist() == [2, 3]
    assert got["free"]["value"] == bytes(6)
    for name in ("id", "label"):
        assert_equal(got[name], ALL[name])


def test_make_decoder():
    @decode.make_decoder(output_dtype=np.uint8)
    def brighter(stored, feature, by, *, scale=1):
        """Decodes an image and adds to it."""
        assert isinstance(feature, F.Image)
        return feature.unpacker("x")(stored) * scale + by

    assert brighter.__doc__ == "Decodes an image and adds to it."
    decoders = {"image": brighter(10), "video": brighter(1, scale=2), "boxes": {"crop": brighter(0)}}
    got = F.compile_decoder(FEATURES, decoders=decoders)(RECORD)
    assert np.array_equal(got["image"], PIXELS + 10)
    assert np.array_equal(got["video"], np.stack([PIXELS * 2 + 1] * 2))
    assert np.array_equal(got["boxes"]["crop"], PIXELS[None])


@pytest.mark.parametrize(
    "spec, names",
    [
        ({"id", "meta"}, ["id", "meta"]),
        (["label"], ["label"]),
        ({"image": True, "id": False}, ["image"]),
        ({"image": F.Image(shape=(None, None, 1))}, ["image"]),
        ({"id": np.int64}, ["id"]),
        ({"video": F.Video(shape=(None, 2, 2, 1))}, ["video"]),
        ({}, []),
        (True, sorted(FEATURES)),
    ],
)
def test_partial(spec, names):
    for arguments in (
        {"partial": spec},
        {"partial": decode.PartialDecoding(spec)},
        {"decoders": decode.PartialDecoding(spec)},
    ):
        got = F.compile_decoder(FEATURES, **arguments)(RECORD)
        assert_equal(got, {name: ALL[name] for name in names} if names != ["boxes"] else got)


def test_partial_of_nested_features():
    got = F.compile_decoder(FEATURES, partial={"boxes": {"box"}, "meta": {"deep": {"x": True}}})(RECORD)
    assert_equal(got, {"boxes": {"box": ALL["boxes"]["box"]}, "meta": {"deep": {"x": np.float32(1.5)}}})
    sequence = {"boxes": F.Sequence({"box": F.BBoxFeature()})}
    assert_equal(F.compile_decoder(FEATURES, partial=sequence)(RECORD), {"boxes": {"box": ALL["boxes"]["box"]}})


def test_partial_decoding_with_decoders():
    partial = decode.PartialDecoding({"image", "id"}, decoders={"image": decode.SkipDecoding()})
    assert_equal(F.compile_decoder(FEATURES, decoders=partial)(RECORD), {"id": np.int64(7), "image": PNG})


def test_a_part_of_a_selected_feature_cannot_be_left_out():
    with pytest.raises(ValueError, match="'meta' selects all of its features, so 'meta.text' cannot be left out"):
        decode.select(FEATURES, decode.PartialDecoding({"meta": True, "meta.text": False}))


def test_partial_decoding_does_not_look_at_the_rest():
    spans = example.scan(RECORD)
    entries = [example.entry(n, RECORD[slice(*s)] if n == b"id" else b"\x0a\x05junk!") for n, s in spans.items()]
    record = example.record(b"".join(entries))
    assert F.compile_decoder(FEATURES, partial={"id"})(record) == {"id": 7}
    with pytest.raises(FeatureError):
        F.compile_decoder(FEATURES)(record)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"partial": {"nope"}}, ValueError, r"names \['nope'\]; the features are"),
        ({"partial": {"imgae"}}, ValueError, "Did you mean 'image'"),
        (
            {"decoders": {"meta/deep": decode.SkipDecoding()}},
            ValueError,
            r"A feature below another is named in a dict of its own, as in \{",
        ),
        ({"decoders": {"box": decode.SkipDecoding()}}, ValueError, "Did you mean 'boxes"),
        ({"decoders": {"crop": decode.SkipDecoding()}}, ValueError, "Did you mean 'boxes.crop'. A feature below"),
        ({"partial": {"meta": {"nope"}}}, ValueError, r"below meta names \['nope'\]"),
        ({"partial": {"id": {"x"}}}, ValueError, "no features"),
        ({"partial": {"id": np.int32}}, ValueError, "the dataset has int64, not int32"),
        ({"partial": {"image": F.Image(shape=(3, 3, 1))}}, ValueError, "the dataset has Image"),
        ({"partial": {"image": F.Text()}}, TypeError, "the dataset has Image"),
        ({"partial": 5}, TypeError, "not a nest"),
        ({"decoders": {"nope": decode.SkipDecoding()}}, ValueError, r"names \['nope'\]"),
        ({"decoders": {"id": {"x": decode.SkipDecoding()}}}, ValueError, "int64.* contains no features"),
        ({"decoders": {"id": "skip"}}, TypeError, "neither a decoder nor a dict"),
    ],
)
def test_what_cannot_be_asked_for(arguments, error, text):
    with pytest.raises(error, match=text):
        F.compile_decoder(FEATURES, **arguments)


def test_nested_datasets_of_unequal_columns_are_refused():
    features = F.FeaturesDict({"d": F.Dataset({"x": np.int64, "y": np.int64})})
    record = example.serialize({"d/x": [1, 2], "d/y": [1]})
    with pytest.raises(FeatureError, match="different numbers of items"):
        F.compile_decoder(features)(record)


@pytest.mark.parametrize(
    ("names", "nest"),
    [
        (["id", "meta.text"], {"id": True, "meta": {"text"}}),
        (["meta/text", "meta.deep.x"], {"meta": {"text": True, "deep": {"x"}}}),
        ({"meta": ["text"], "meta.deep.x": True}, {"meta": {"text": True, "deep": True}}),
        ({"boxes.box"}, {"boxes": {"box"}}),
        (["meta", "meta.text"], ["meta"]),
        ({"id": True, "meta.text": False}, ["id"]),
    ],
)
def test_partial_decoding_takes_names_with_dots(names, nest):
    given = dict(names) if isinstance(names, dict) else names
    assert repr(decode.select(FEATURES, decode.PartialDecoding(names))) == repr(decode.select(FEATURES, nest))
    assert names == given
    with pytest.raises(ValueError, match=r"names \['meta\.txt'\]"):
        decode.select(FEATURES, ["meta.txt"])
