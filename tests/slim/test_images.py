"""Images of other people's files, against Pillow."""

import io

import numpy as np
import pytest

from beam_datasets.errors import FeatureValueError
from beam_datasets.formats import example
from beam_datasets.slim import FixedLen, Image, TFExampleDecoder, VarLen

pillow = pytest.importorskip("PIL.Image")

RGB = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
GRAY = RGB[..., 0].copy()


def encoded(array, kind, **options):
    target = io.BytesIO()
    pillow.fromarray(array).save(target, kind, **options)
    return target.getvalue()


def decode(handler, data, kind=b"jpeg"):
    return handler.tensors_to_item({"image/encoded": data, "image/format": kind})


@pytest.mark.parametrize("kind", ["PNG", "BMP"])
def test_pixels_are_those_that_were_stored(kind):
    got = decode(Image(), encoded(RGB, kind), b"whatever")
    assert got.dtype == np.uint8
    assert np.array_equal(got, RGB)
    assert np.array_equal(decode(Image(), encoded(GRAY, kind)), np.stack([GRAY] * 3, axis=-1))
    assert decode(Image(channels=1), encoded(GRAY, kind)).tolist() == GRAY[..., None].tolist()
    assert decode(Image(channels=4), encoded(RGB, kind))[..., 3].min() == 255


def test_jpeg():
    data = encoded(RGB, "JPEG", quality=95)
    with pillow.open(io.BytesIO(data)) as picture:
        expected = np.asarray(picture).astype(int)
    assert abs(decode(Image(), data).astype(int) - expected).max() <= 3


def test_gif_has_frames():
    data = encoded(GRAY, "GIF", save_all=True, append_images=[pillow.fromarray(GRAY[::-1])])
    got = decode(Image(), data)
    assert np.array_equal(got, np.stack([np.stack([frame] * 3, axis=-1) for frame in (GRAY, GRAY[::-1])]))
    with pytest.raises(FeatureValueError, match="the image has 3 channels and cannot have 4"):
        decode(Image(channels=4), data)


def test_dtype_and_shape():
    got = decode(Image(dtype=np.float32, shape=(5, 6, 3)), encoded(RGB, "PNG"))
    assert got.dtype == np.float32
    assert np.array_equal(got, RGB.reshape(5, 6, 3))
    with pytest.raises(FeatureValueError, match=r"^image/encoded: 90 values of shape \(6, 5, 3\)"):
        decode(Image(shape=(5, 5, 3)), encoded(RGB, "PNG"))


@pytest.mark.parametrize("kind", [b"raw", b"RAW"])
def test_raw(kind):
    assert np.array_equal(decode(Image(shape=RGB.shape), RGB.tobytes(), kind), RGB)
    numbers = np.array([1, 300], "<u2")
    got = decode(Image(dtype=np.uint16), numbers.tobytes(), kind)
    assert got.dtype == np.uint16
    assert got.tolist() == [1, 300]
    assert got.flags.writeable
    with pytest.raises(FeatureValueError, match="3 raw bytes are not whole numbers of uint16"):
        decode(Image(dtype=np.uint16), b"abc", kind)


def test_repeated():
    files = [encoded(RGB, "PNG"), encoded(RGB[:3], "BMP"), encoded(GRAY, "PNG")]
    got = decode(Image(repeated=True), np.array(files, object))
    assert isinstance(got, list)
    assert [image.shape for image in got] == [(6, 5, 3), (3, 5, 3), (6, 5, 3)]
    assert np.array_equal(got[1], RGB[:3])
    assert decode(Image(repeated=True), np.array([], object)) == []
    assert np.array_equal(decode(Image(), np.array(files[:1], object)), RGB)
    with pytest.raises(FeatureValueError, match="image/encoded: 3 images, not one; is the item `repeated`"):
        decode(Image(), np.array(files, object))


def test_in_a_record():
    record = example.serialize({"png": [encoded(RGB, "PNG")], "kind": [b"png"]})
    features = {"png": FixedLen((), "string"), "kind": FixedLen((), "string", "jpeg"), "all": VarLen("string")}
    decoder = TFExampleDecoder(features, {"image": Image("png", "kind"), "all": Image("all", "kind", repeated=True)})
    image, none = decoder.decode(record)
    assert np.array_equal(image, RGB)
    assert none == []
    assert Image().keys == ["image/encoded", "image/format"]


def test_what_is_no_image():
    with pytest.raises(FeatureValueError, match=r"^image/encoded: "):
        decode(Image(), b"no image at all")
    with pytest.raises(ValueError, match="channels must be 0, 1, 3 or 4, got 2"):
        Image(channels=2)
