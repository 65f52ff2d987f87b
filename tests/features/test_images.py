from __future__ import annotations

import io
import struct
import sys
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureTypeError, FeatureValueError, MissingDependencyError
from beam_datasets.features import pictures, png, png_decoding
from beam_datasets.formats import example
from beam_datasets.native import core

RGB = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [100, 150, 200]]], np.uint8)


def pixels_of(shape, dtype, seed=0):
    """Pixels that have flat places, edges and noise."""
    rng = np.random.default_rng(seed)
    smooth = np.add.outer(np.arange(shape[0]), np.arange(shape[1]))[..., None] * np.arange(1, shape[2] + 1)
    noise = rng.integers(0, 2, shape) * rng.integers(0, 60, shape)
    return ((smooth * (200 if dtype == np.uint16 else 1) + noise) % (np.iinfo(dtype).max + 1)).astype(dtype)


def by_opencv(data):
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found.ndim == 2:
        return found[..., None]
    return found[..., [2, 1, 0, 3][: found.shape[2]]]


def saved(image, form):
    target = io.BytesIO()
    image.save(target, form)
    return target.getvalue()


def decode(data, shape=(None, None, 3), dtype=np.uint8):
    feature = F.Image(shape=shape, dtype=dtype)
    record = F.compile_encoder({"image": feature})({"image": data})
    return F.compile_decoder({"image": feature})(record)["image"]


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (28, 28), (64, 64), (200, 300)])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_is_read_by_others_and_by_us(size, channels, dtype):
    pixels = pixels_of((*size, channels), dtype)
    data = png.encode(pixels)
    assert data == png.encode(np.asfortranarray(pixels))
    others = by_opencv(data)
    assert np.array_equal(others if channels != 2 else others[..., 2:], pixels)
    plain = png_decoding.decode(data)
    assert plain is None or (np.array_equal(plain, pixels) and plain.dtype == dtype and plain.flags.writeable)
    assert (plain is not None) == (core is not None or pixels.nbytes < 4096)
    assert np.array_equal(decode(pixels, (None, None, channels), dtype), pixels)
    if dtype == np.uint8:
        found = np.asarray(Pillow.open(io.BytesIO(data)))
        assert np.array_equal(found.reshape(pixels.shape), pixels)


def test_png_of_a_photograph_is_about_as_small_as_others_make_it():
    pixels = cv2.GaussianBlur(pixels_of((300, 300, 3), np.uint8), (9, 9), 0)
    others = len(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 6])[1])
    assert len(png.encode(pixels)) < 1.05 * others


def test_float_images():
    pixels = np.random.default_rng(0).standard_normal((20, 30, 1)).astype(np.float32)
    assert np.array_equal(decode(pixels, (None, None, 1), np.float32), pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg(channels):
    smooth = cv2.GaussianBlur(pixels_of((40, 50, 3), np.uint8), (9, 9), 0)[..., :channels]
    feature = F.FeaturesDict({"image": F.Image(shape=(40, 50, channels), encoding_format="jpeg")})
    record = F.compile_encoder(feature)({"image": smooth})
    assert example.parse(record)["image"][0][:3] == b"\xff\xd8\xff"
    assert np.abs(F.compile_decoder(feature)(record)["image"].astype(int) - smooth).mean() < 3


# What TensorFlow 2.21's decode_image makes of these, for each number of channels.
GRAY = np.array([[[7], [200]]], np.uint8)
GRAY_ALPHA = np.array([[[7, 100], [200, 20]]], np.uint8)
RGB_ALPHA = np.array([[[7, 100, 50, 128], [200, 20, 3, 4]]], np.uint8)
CONVERTED = [
    (RGB, 1, [[[76], [149], [29], [140]]]),
    (RGB, 3, RGB.tolist()),
    (RGB, 4, [[[255, 0, 0, 255], [0, 255, 0, 255], [0, 0, 255, 255], [100, 150, 200, 255]]]),
    (GRAY, 3, [[[7, 7, 7], [200, 200, 200]]]),
    (GRAY, 4, [[[7, 7, 7, 255], [200, 200, 200, 255]]]),
    (GRAY_ALPHA, 0, [[[7, 100], [200, 20]]]),
    (GRAY_ALPHA, 1, [[[7], [200]]]),
    (GRAY_ALPHA, 3, [[[7, 7, 7], [200, 200, 200]]]),
    (GRAY_ALPHA, 4, [[[7, 7, 7, 100], [200, 200, 200, 20]]]),
    (RGB_ALPHA, 0, RGB_ALPHA.tolist()),
    (RGB_ALPHA, 1, [[[66], [71]]]),
    (RGB_ALPHA, 3, [[[7, 100, 50], [200, 20, 3]]]),
]


def without_opencv(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    pictures._opencv.cache_clear()


def without_native(monkeypatch):
    monkeypatch.setattr(png_decoding, "core", None)


@pytest.fixture(params=["native and opencv", "native and pillow", "opencv", "pillow"])
def _library(request, monkeypatch):
    if "native" not in request.param:
        without_native(monkeypatch)
    if "pillow" in request.param:
        without_opencv(monkeypatch)
    yield
    monkeypatch.undo()
    pictures._opencv.cache_clear()


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("pixels, channels, expected", CONVERTED)
def test_channels_are_converted_as_tensorflow_does(pixels, channels, expected):
    for data in (
        png.encode(pixels),
        saved(Pillow.fromarray(pixels.squeeze(axis=2) if pixels.shape[2] == 1 else pixels), "PNG"),
    ):
        assert decode(data, (None, None, channels)).tolist() == expected


@pytest.mark.usefixtures("_library")
def test_depths_are_converted_as_tensorflow_does():
    deep = png.encode(np.array([[[1000], [20000], [65535]]], np.uint16))
    assert decode(deep, (None, None, 1)).tolist() == [[[3], [78], [255]]]
    assert decode(png.encode(GRAY), (None, None, 1), np.uint16).tolist() == [[[7 * 257], [200 * 257]]]
    assert decode(saved(Pillow.fromarray(RGB), "BMP"), dtype=np.uint16)[0, 3].tolist() == [
        100 * 256,
        150 * 256,
        200 * 256,
    ]


@pytest.mark.usefixtures("_library")
def test_palettes_bitmaps_and_gifs():
    palette = Pillow.fromarray(RGB).convert("P", palette=Pillow.Palette.ADAPTIVE, colors=4)
    assert np.array_equal(decode(saved(palette, "PNG")), RGB)
    assert np.array_equal(decode(saved(Pillow.fromarray(RGB), "BMP")), RGB)
    assert decode(saved(Pillow.fromarray(RGB[..., 0]).convert("1"), "PNG"), (None, None, 1)).max() == 255
    frames = [Pillow.fromarray(np.full((4, 6, 3), value, np.uint8)) for value in (0, 255)]
    target = io.BytesIO()
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    moving = decode(target.getvalue(), (None, None, None, 3))
    assert moving.shape == (2, 4, 6, 3)
    assert moving[:, 0, 0, 0].tolist() == [0, 255]


@pytest.mark.usefixtures("_library")
def test_gray_of_a_jpeg():
    data = saved(Pillow.fromarray(np.tile(RGB, (16, 4, 1))), "JPEG")
    assert decode(data, (None, None, 1)).shape == (16, 16, 1)
    assert np.array_equal(decode(data, (None, None, 3)), np.asarray(Pillow.open(io.BytesIO(data))))


def test_pillow_has_no_16_bit_colours(monkeypatch):
    without_native(monkeypatch)
    without_opencv(monkeypatch)
    large = png.encode(pixels_of((64, 64, 3), np.uint16))
    with pytest.raises(MissingDependencyError, match="OpenCV"):
        decode(large, dtype=np.uint16)
    monkeypatch.undo()
    pictures._opencv.cache_clear()


def test_without_libraries_small_png_still_work(monkeypatch):
    jpeg = saved(Pillow.fromarray(RGB), "JPEG")
    without_opencv(monkeypatch)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert np.array_equal(decode(RGB), RGB)
    with pytest.raises(MissingDependencyError, match=r"beam_datasets\[image\]"):
        decode(jpeg)
    monkeypatch.undo()
    pictures._opencv.cache_clear()


def test_what_an_image_is_given_as(tmp_path):
    data = png.encode(RGB)
    file = tmp_path / "rgb.png"
    file.write_bytes(data)
    encode = F.compile_encoder({"image": F.Image()})
    stored = [example.parse(encode({"image": given}))["image"] for given in (data, file, str(file), io.BytesIO(data))]
    assert stored == [[data]] * 4
    (pillow,) = example.parse(encode({"image": Pillow.fromarray(RGB)}))["image"]
    assert np.array_equal(decode(pillow), RGB)


@pytest.mark.parametrize(
    "value, error, text",
    [
        (RGB.astype(np.int64), FeatureValueError, "image: the array has the dtype int64; the image has uint8"),
        (RGB[..., :2], FeatureValueError, r"image: the value has the shape \(1, 4, 2\)"),
        (RGB[:0], FeatureValueError, r"image: an array of the shape .* is no image"),
        (5, FeatureTypeError, "image: int is no image"),
        ("/nowhere/at/all.png", FeatureValueError, "image: the file '/nowhere/at/all.png' cannot be read"),
    ],
)
def test_what_is_no_image(value, error, text):
    with pytest.raises(error, match=f"^{text}"):
        F.compile_encoder({"image": F.Image()})({"image": value})


def bomb(height, width):
    header = png._chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return png.SIGNATURE + header + png._chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + png._END


@pytest.mark.usefixtures("_library")
def test_what_is_stored_may_be_no_image():
    noise = pixels_of((40, 40, 3), np.uint8)
    good = [
        png.encode(noise),
        png.encode(RGB),
        saved(Pillow.fromarray(RGB), "JPEG"),
        saved(Pillow.fromarray(noise), "JPEG"),
    ]
    for data in [b"", b"text", b"GIF89a", *(part[: len(part) // 2] for part in good), *(part[:20] for part in good)]:
        with pytest.raises(FeatureError, match=r"^image: "):
            decode(data)
    with pytest.raises(FeatureError, match=r"^image: the image has 60000 x 60000 pixels, not 2 x 2"):
        decode(bomb(60000, 60000), (2, 2, 1))
    assert decode(bomb(2, 2), (2, 2, 1)).shape == (2, 2, 1)  # what the header does not speak of is not looked at
    with pytest.raises(FeatureError, match=r"^image: the image has the shape \(1, 4, 3\)"):
        decode(png.encode(RGB), (None, 5, 3))


def test_video_of_frames_and_of_nothing():
    frames = pixels_of((6, 4, 3), np.uint8).reshape(2, 3, 4, 3)
    features = F.FeaturesDict({"v": F.Video(shape=(None, 3, 4, 3))})
    encode, decode_video = F.compile_encoder(features), F.compile_decoder(features)
    for given in (frames, list(frames), [png.encode(frame) for frame in frames], iter(frames)):
        assert np.array_equal(decode_video(encode({"v": given}))["v"], frames)
    assert decode_video(encode({"v": []}))["v"].shape == (0, 3, 4, 3)
