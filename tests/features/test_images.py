import io
import itertools
import logging
import struct
import sys
import zlib

import imagecodecs
import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageFilter

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import limits
from beam_datasets.errors import (
    BeamDatasetsError,
    FeatureError,
    FeatureTypeError,
    FeatureValueError,
    MissingDependencyError,
)
from beam_datasets.features import image_codec
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.image import with_image_checks
from beam_datasets.formats import example
from tests.facts import raises_with
from tests.images import page, tiff

RGB = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [100, 150, 200]]], np.uint8)


def pixels_of(shape, dtype, seed=0):
    """Pixels that have flat places, edges and noise."""
    rng = np.random.default_rng(seed)
    smooth = np.add.outer(np.arange(shape[0]), np.arange(shape[1]))[..., None] * np.arange(1, shape[2] + 1)
    noise = rng.integers(0, 2, shape) * rng.integers(0, 60, shape)
    return ((smooth * (200 if dtype == np.uint16 else 1) + noise) % (np.iinfo(dtype).max + 1)).astype(dtype)


def png(pixels):
    return image_codec.encode(pixels, "png")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_file(height, width, rows, bits=8, colour_type=0, before=b"", interlaced=0):
    """A PNG of filtered rows, written without a library."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlaced)
    parts = chunk(b"IHDR", header), before, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def plain_png(pixels, before=b""):
    """A PNG whose rows are not filtered."""
    height, width, channels = pixels.shape
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    colour_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    filtered = np.pad(rows, ((0, 0), (1, 0))).tobytes()
    return png_file(height, width, filtered, 8 * pixels.itemsize, colour_type, before)


def smooth_pixels(height, width):
    return np.asarray(Pillow.fromarray(pixels_of((height, width, 3), np.uint8)).filter(ImageFilter.GaussianBlur(4)))


def saved(image, form, **options):
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


def decode(data, shape=(None, None, 3), dtype=np.uint8):
    feature = F.Image(shape=shape, dtype=dtype)
    record = F.compile_encoder({"image": feature})({"image": data})
    return F.compile_decoder({"image": feature})(record)["image"]


def record_of(data):
    """A record with a file that no encoder has checked."""
    return example.serialize({"image": [data]})


def read(data, shape=(None, None, 3), dtype=np.uint8):
    """Returns the pixels of a file that no encoder has checked."""
    return F.compile_decoder({"image": F.Image(shape=shape, dtype=dtype)})(record_of(data))["image"]


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (28, 28), (64, 64), (200, 300)])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_is_read_by_others_and_by_us(size, channels, dtype):
    pixels = pixels_of((*size, channels), dtype)
    data = png(pixels)
    assert data == png(np.asfortranarray(pixels)) == png(pixels.astype(pixels.dtype.newbyteorder(">")))
    for file in (data, plain_png(pixels)):
        found = decode(file, (None, None, channels), dtype)
        assert np.array_equal(found, pixels)
        assert found.flags.writeable
        assert found.dtype == dtype
    if dtype == np.uint8:
        assert np.array_equal(np.asarray(Pillow.open(io.BytesIO(data))).reshape(pixels.shape), pixels)


def test_arrays_of_one_row_or_column_may_be_views():
    """Their strides are any, as NumPy does not look at those of a dimension of length 1."""
    for shape in ((1, 1, 4), (1, 5, 4), (5, 1, 4)):
        for pixels in (pixels_of(shape, np.uint8)[..., :3], pixels_of(shape, np.uint8)[..., 1:2]):
            assert np.array_equal(decode(pixels, (None, None, pixels.shape[2])), pixels)


def test_float_images():
    pixels = np.random.default_rng(0).standard_normal((20, 30, 1)).astype(np.float32)
    assert np.array_equal(decode(pixels, (None, None, 1), np.float32), pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg(channels):
    smooth = smooth_pixels(40, 50)[..., :channels]
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


@pytest.mark.parametrize("pixels, channels, expected", CONVERTED)
def test_channels_are_converted_as_tensorflow_does(pixels, channels, expected):
    for data in (
        png(pixels),
        saved(Pillow.fromarray(pixels.squeeze(axis=2) if pixels.shape[2] == 1 else pixels), "PNG"),
    ):
        assert decode(data, (None, None, channels)).tolist() == expected


def test_depths_are_converted_as_tensorflow_does():
    deep = png(np.array([[[1000], [20000], [65535]]], np.uint16))
    assert decode(deep, (None, None, 1)).tolist() == [[[3], [78], [255]]]
    assert decode(png(GRAY), (None, None, 1), np.uint16).tolist() == [[[7 * 257], [200 * 257]]]
    assert decode(saved(Pillow.fromarray(RGB), "BMP"), dtype=np.uint16)[0, 3].tolist() == [
        100 * 256,
        150 * 256,
        200 * 256,
    ]


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


def test_rare_forms_of_png(caplog):
    """Fewer than 8 bits, interlaced rows, a transparent level or colour, animations, other chunks, trailing bytes."""
    levels = png_file(2, 4, b"\0\x1b\0\xe4", bits=2)
    assert decode(levels, (2, 4, 1))[..., 0].tolist() == [[0, 85, 170, 255], [255, 170, 85, 0]]
    see_through = chunk(b"tRNS", b"\0\x07")
    for file in (plain_png(GRAY, see_through), plain_png(GRAY, chunk(b"tEXt", b"a\0b")) + b"more"):
        for channels in (0, 1):
            assert decode(file, (None, None, channels)).tolist() == GRAY.tolist()
    transparent = saved(Pillow.fromarray(RGB), "PNG", transparency=(255, 0, 0))
    assert decode(transparent, (None, None, 0))[0, :, 3].tolist() == [0, 255, 255, 255]
    assert np.array_equal(decode(transparent), RGB)
    frames = saved(Pillow.fromarray(RGB), "PNG", save_all=True, append_images=[Pillow.fromarray(255 - RGB)])
    assert np.array_equal(decode(frames), RGB)
    interlaced = png_file(2, 2, b"\0\x01\0\x02\0\x03\x04", interlaced=1)
    with caplog.at_level(logging.WARNING):
        assert decode(interlaced, (2, 2, 1))[..., 0].tolist() == [[1, 2], [3, 4]]
    assert not caplog.records


def test_forms_of_jpeg():
    image = Pillow.fromarray(smooth_pixels(16, 24))
    color = saved(image, "JPEG")
    luminance = np.asarray(image.convert("YCbCr"))[..., 0]
    assert np.array_equal(decode(color), np.asarray(Pillow.open(io.BytesIO(color))))
    assert np.abs(decode(color, (None, None, 1))[..., 0].astype(int) - luminance).mean() < 3
    assert np.array_equal(decode(color + b"more"), decode(color))
    assert np.array_equal(decode(color + b"more", (None, None, 1)), decode(color, (None, None, 1)))
    for other in (saved(image, "JPEG", progressive=True), saved(image, "JPEG", keep_rgb=True)):
        assert np.array_equal(decode(other), np.asarray(Pillow.open(io.BytesIO(other))))
    cmyk = saved(image.convert("CMYK"), "JPEG")
    assert np.array_equal(decode(cmyk), np.asarray(Pillow.open(io.BytesIO(cmyk)).convert("RGB")))
    turned = Pillow.Exif()
    turned[0x112] = 6
    assert decode(saved(image, "JPEG", exif=turned)).shape == (16, 24, 3)  # as TensorFlow, without turning it


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_batches_have_the_pixels_of_single_images(channels, dtype):
    """Whatever the forms of the files are: they are decoded into the batch if they have the feature's, else alone."""
    shape = (9, 7, channels)
    files = [png(pixels_of((9, 7, n), depth)) for n, depth in itertools.product((1, 2, 3, 4), (np.uint8, np.uint16))]
    gray, color = Pillow.fromarray(pixels_of((9, 7, 1), np.uint8)[..., 0]), Pillow.fromarray(smooth_pixels(9, 7))
    files += [plain_png(pixels_of((9, 7, 1), np.uint8), chunk(b"tRNS", b"\0\1")), saved(color.convert("P"), "PNG")]
    files += [saved(image, kind) for kind in ("JPEG", "BMP") for image in (gray, color)]
    files += [saved(color.convert("CMYK"), "JPEG"), saved(color, "PNG", transparency=(1, 2, 3))]
    features = F.FeaturesDict({"image": F.Image(shape=shape, dtype=dtype)})
    records = [F.compile_encoder(features)({"image": file}) for file in files]
    batch = ColumnarDecoder(features).of_batches().batch
    assert np.array_equal(batch(records)["image"], np.stack([decode(file, shape, dtype) for file in files]))
    for wrong in (files[0][:-20], png(pixels_of((7, 9, 1), np.uint8)), b"", files[10][:-2]):
        record = record_of(wrong)
        with pytest.raises(FeatureError, match=r"^image: (cannot decode image|the image has the shape \(7, 9)"):
            batch([records[0], record])


def test_without_libraries(monkeypatch):
    for missing, kind, pattern in (("PIL", "BMP", "need Pillow"), ("imagecodecs", "PNG", "need imagecodecs")):
        image_codec._import_imagecodecs.cache_clear()
        data = saved(Pillow.fromarray(RGB), kind)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            with pytest.raises(MissingDependencyError, match=pattern + r": pip install .*\[image\]'?"):
                decode(data)
    image_codec._import_imagecodecs.cache_clear()


def test_what_an_image_is_given_as(tmp_path):
    data = png(RGB)
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
        (RGB[:0], FeatureValueError, r"image: cannot encode an array of the shape \(0, 4, 3\) as PNG"),
        (5, FeatureTypeError, "image: expected an array, a path, a file or bytes, got int"),
        ("/nowhere/at/all.png", FeatureValueError, "image: the file '/nowhere/at/all.png' cannot be read"),
    ],
)
def test_what_is_no_image(value, error, text):
    with pytest.raises(error, match=f"^{text}"):
        F.compile_encoder({"image": F.Image()})({"image": value})


def test_pixels_of_another_shape():
    with raises_with(FeatureValueError, feature="image", expected="the shape (None, None, 3)", got="(1, 4, 2)"):
        F.compile_encoder({"image": F.Image()})({"image": RGB[..., :2]})


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_images_of_pillow(mode):
    image = Pillow.fromarray(pixels_of((5, 6, 3), np.uint8)).convert("I" if mode == "I;16" else mode).convert(mode)
    channels = {"LA": 2, "P": 3, "RGB": 3, "RGBA": 4}.get(mode, 1)
    found = decode(image, (5, 6, channels), np.uint16 if mode == "I;16" else np.uint8)
    expected = np.asarray(image.convert({"P": "RGB", "1": "L"}.get(mode, mode)))
    assert np.array_equal(found.reshape(expected.shape), expected)


def bomb(height, width):
    return png_file(height, width, bytes(1 << 20))


def test_what_was_stored_may_be_no_image():
    noise = pixels_of((40, 40, 3), np.uint8)
    good = [
        png(noise),
        png(RGB),
        saved(Pillow.fromarray(RGB), "JPEG"),
        saved(Pillow.fromarray(noise), "JPEG"),
    ]
    for file in good:
        for data in (file[: len(file) // 2], file[:20], file[:-2]):
            with pytest.raises(
                FeatureError, match=rf"^image: cannot decode image \({len(data):,} bytes\): a damaged image: "
            ):
                read(data)
    for data, problem in (
        (b"", "no data"),
        (b"text", "unknown format, beginning with b'text'"),
        (b"GIF89a", ".*"),
        (good[0][:60] + b"?" + good[0][61:], r"a damaged image: PNG: the chunk IDAT .* has a wrong checksum \(CRC\)"),
        (good[0][:38] + b"\xe0" + good[0][39:], "a damaged image: PNG: the chunk"),  # libpng quotes it as no UTF-8
        (bomb(60000, 60000), "a file of this size cannot have 60000 x 60000 pixels"),
        (png_file(20, 20, bytes(40)), "Not enough image data"),
        (imagecodecs.jpeg8_encode(noise)[:200] + b"\xff\xd9", ".*"),
    ):
        with pytest.raises(FeatureError, match=rf"^image: cannot decode image \({len(data):,} bytes\): {problem}"):
            read(data, (None, None, 1))
    assert decode(bomb(2, 2), (2, 2, 1)).shape == (2, 2, 1)  # more pixels than the header has are ignored
    with raises_with(FeatureError, feature="image", expected="the shape (None, 5, 3)", got="(1, 4, 3)"):
        read(png(RGB), (None, 5, 3))


def test_video_of_frames_and_of_nothing():
    frames = pixels_of((6, 4, 3), np.uint8).reshape(2, 3, 4, 3)
    features = F.FeaturesDict({"v": F.Video(shape=(None, 3, 4, 3))})
    encode, decode_video = F.compile_encoder(features), F.compile_decoder(features)
    for given in (frames, list(frames), [png(frame) for frame in frames], iter(frames)):
        assert np.array_equal(decode_video(encode({"v": given}))["v"], frames)
    assert decode_video(encode({"v": []}))["v"].shape == (0, 3, 4, 3)


DEEP_PIXELS = pixels_of((5, 6, 3), np.uint16) >> 4
DEEP_JPEG = imagecodecs.jpeg8_encode(DEEP_PIXELS, lossless=True, bitspersample=12)


def moving(form):
    frames = [Pillow.fromarray(np.full((4, 6, 3), value, np.uint8)) for value in (0, 255)]
    return saved(frames[0], form, save_all=True, append_images=frames[1:])


@pytest.mark.parametrize(
    "data, shape, problem",
    [
        (b"", (None, None, 3), "expected an image, got an empty file"),
        (b"<html>", (None, None, 3), "expected PNG, JPEG, GIF, .* got an HTML page, .*. Get the file again"),
        (png(RGB)[:-4], (None, None, 3), "a damaged image: PNG: the file ends at byte 74"),
        (png(RGB).replace(b"IDAT", b"IDAU"), (None, None, 3), "a damaged image: PNG: the chunk IDAU .* wrong checksum"),
        (saved(Pillow.fromarray(RGB), "JPEG")[:-2], (None, None, 3), "a damaged image: JPEG: the file ends at byte"),
        (moving("GIF"), (None, None, 3), r"GIF: .* \(2, 4, 6, 3\); .* A GIF is read with its frames"),
        (DEEP_JPEG, (5, 6, 3), "JPEG: the image has 12 bits a channel; a feature with dtype=np.uint16 keeps them"),
    ],
)
def test_a_file_that_could_not_be_read_is_refused(data, shape, problem):
    """Also one that does not fit the feature; nothing is decoded for it."""
    with pytest.raises(FeatureValueError, match=f"^image: {problem}"):
        F.compile_encoder({"image": F.Image(shape=shape)})({"image": data})
    with pytest.raises(FeatureError):
        read(data, shape)


@pytest.mark.parametrize(
    "data, shape, got",
    [
        (png(RGB), (None, 5, 3), "(1, 4, 3)"),
        (saved(Pillow.fromarray(RGB), "JPEG"), (2, 4, 0), "(1, 4, channels)"),
        (moving("GIF"), (3, None, None, 3), "(2, 4, 6, 3)"),
        (png(RGB), (None, None, None, 3), "(1, 4, 3)"),
    ],
)
def test_a_file_of_another_shape_is_refused(data, shape, got):
    with raises_with(FeatureValueError, feature="image", expected=f"the shape {shape}", got=got):
        F.compile_encoder({"image": F.Image(shape=shape)})({"image": data})
    with pytest.raises(FeatureError):
        read(data, shape)


def test_what_the_errors_of_a_gif_and_of_a_deep_jpeg_advise():
    assert decode(moving("GIF"), (None, None, None, 3)).shape == (2, 4, 6, 3)
    assert np.array_equal(decode(DEEP_JPEG, (5, 6, 3), np.uint16), DEEP_PIXELS)


def test_files_can_be_decoded_as_they_are_encoded():
    """Damage within compressed data that fits its checksum is found by check='decode' alone, which is not stored."""
    damaged = png_file(20, 20, bytes(40))
    for feature in (F.Image(shape=(20, 20, 1)), F.LabeledImage(labels=3, shape=(20, 20, 1))):
        assert F.compile_encoder({"image": feature})({"image": damaged})
    for features, value in (
        (F.Image(shape=(20, 20, 1), check="decode"), damaged),
        (F.LabeledImage(labels=3, shape=(20, 20, 1), check="decode"), damaged),
        (F.Sequence(F.Image(shape=(20, 20, 1), check="decode")), [damaged]),
        (F.Video(shape=(None, 20, 20, 1), check="decode"), [damaged]),
        (with_image_checks(F.FeaturesDict({"a": F.Sequence({"b": F.Image(shape=(20, 20, 1))})}), "decode"), None),
    ):
        example_of = {"a": [{"b": damaged}]} if value is None else {"image": value}
        tree = features if value is None else {"image": features}
        with pytest.raises(FeatureValueError, match="Not enough image data"):
            F.compile_encoder(tree)(example_of)
    assert F.Image(check="decode") == F.Image()
    assert F.Image(check="decode").to_json() == F.Image().to_json()
    with pytest.raises(ValueError, match="check='no'; expected one of 'structure', 'decode'"):
        F.Image(check="no")
    with pytest.raises(ValueError, match="check_images='no'; expected one of 'structure', 'decode'"):
        with_image_checks({"image": F.Image()}, "no")


def test_a_build_can_decode_each_image(tmp_path):
    """`build(check_images="decode")` checks the images of any builder."""

    class Tiles(bd.DatasetBuilder, skip_registration=True):
        name = "tiles"
        VERSION = "1.0.0"

        def _info(self):
            return bd.DatasetInfo(builder=self, features={"image": F.Image(shape=(20, 20, 1))})

        def _split_generators(self):
            return {"train": [(0, {"image": png_file(20, 20, bytes(40))})]}

    builder = Tiles(data_dir=str(tmp_path))
    with pytest.raises(BeamDatasetsError, match="image: cannot decode image .*Not enough image data"):
        builder.build(check_images="decode", num_workers=1)
    assert not builder.is_prepared()


def test_too_many_pixels_are_not_read(monkeypatch):
    """The limit is compared with the header, before memory is taken."""
    files = [png(RGB), saved(Pillow.fromarray(RGB), "JPEG"), saved(Pillow.fromarray(RGB), "BMP")]
    monkeypatch.setattr(limits, "MAX_PIXELS", 3)
    for data in (*files, files[1] + b"more"):
        with pytest.raises(FeatureError, match="1 x 4 pixels, more than 3. .*BEAM_DATASETS_MAX_ELEMENTS=4 "):
            read(data)
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", "4")
    for data in files:
        assert read(data).shape == (1, 4, 3)


def test_deep_images_of_other_formats_are_read_at_full_depth():
    """TIFF and PPM with 16 bits, which Pillow reads as 8; what is no unsigned integer is an error."""
    deep = pixels_of((5, 6, 3), np.uint16)
    files = [tiff(page(deep)), tiff(page(deep, order=">"), order=">"), b"P6 6 5 65535\n" + deep.astype(">u2").tobytes()]
    for data in files:
        assert np.array_equal(decode(data, (5, 6, 3), np.uint16), deep)
        assert np.array_equal(decode(data, (5, 6, 3)), deep >> 8)
    for pixels in (deep.astype(np.float32), deep.astype(np.int16)):
        with pytest.raises(FeatureError, match="image: TIFF with (floating-point|signed) samples"):
            decode(tiff(page(pixels)))
        with pytest.raises(FeatureError, match="TIFF with (floating-point|signed) samples"):
            read(tiff(page(pixels)))


@pytest.mark.parametrize("check", ["structure", "decode"])
@pytest.mark.parametrize("problem", ["cut", "shape"])
def test_errors_about_a_file_name_it(tmp_path, check, problem):
    path = tmp_path / "a.png"
    data = image_codec.encode(np.zeros((2, 3, 3), np.uint8), "png")
    path.write_bytes(data[:-5] if problem == "cut" else data)
    features = F.FeaturesDict({"photo": F.Image(shape=(2, 3, 3) if problem == "cut" else (9, 3, 3))})
    pack = with_image_checks(features, check)["photo"].packer("photo")
    for value in (path, str(path)):
        with pytest.raises(
            FeatureValueError, match=rf"^photo: the image '{path}': (a damaged image: )?PNG: "
        ) as caught:
            pack(value)
        assert caught.value.feature == "photo"
    with pytest.raises(FeatureValueError, match=r"^photo: (a damaged image: )?PNG: "):
        pack(path.read_bytes())


def test_sequences_of_images_of_any_sizes_are_lists_and_are_padded(tmp_path):
    """Also where the sizes of one example agree, so that the type does not depend on the values."""

    class Albums(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

        def _info(self):
            features = F.FeaturesDict({"n": np.int64, "pictures": F.Sequence(F.Image(shape=(None, None, 3)))})
            return bd.DatasetInfo(builder=self, features=features)

        def _split_generators(self):
            return {"train": ((n, {"n": n, "pictures": album}) for n, album in enumerate(albums))}

    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    albums = [[pixels[:h, :w] for h, w in sizes] for sizes in [[(4, 4), (4, 4)], [(3, 6), (4, 4)], [], [(2, 2)]]]
    dataset = bd.builder_from_directory(Albums(data_dir=tmp_path).build(num_workers=1)).as_dataset("train")
    for row in dataset:
        assert isinstance(row["pictures"], list)
        assert all(map(np.array_equal, row["pictures"], albums[row["n"]]))
    batch = next(iter(dataset.padded_batch(4)))
    expected = np.zeros((4, 2, 4, 6, 3), np.uint8)
    for place, n in enumerate(batch["n"]):
        for index, picture in enumerate(albums[n]):
            expected[place, index, : len(picture), : picture.shape[1]] = picture
    assert np.array_equal(batch["pictures"], expected)
