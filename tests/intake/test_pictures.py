"""Pixels of foreign images: those that were written, at their full depth, or an error that names the format."""

import io
import re
import sys

import imagecodecs
import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import features

from beam_datasets.errors import InputError
from beam_datasets.intake import pictures
from beam_datasets.intake.pictures import apply_orientation, jpeg_xl_size, read_picture
from tests.files.in_process import apart, peak_memory
from tests.images import mutations, noise, page, saved, tiff

BYTES = noise(6, 9)
DEEP = noise(6, 9, 3, np.uint16)
GRAY, DEEP_GRAY = noise(6, 9, 1), noise(6, 9, 1, np.uint16)
ICO = saved(noise(16, 16, 4), "ICO", sizes=[(16, 16)])
AVIF = features.check("avif") if "avif" in features.get_supported() else False


def ppm(pixels, maximum=65535):
    return b"P%d 9 6 %d\n" % (6 if pixels.shape[2] == 3 else 5, maximum) + pixels.astype(">u2").tobytes()


def jp2(pixels, **options):
    return imagecodecs.jpeg2k_encode(pixels.squeeze(), level=0, reversible=True, **options)


def jxl(pixels, **options):
    return imagecodecs.jpegxl_encode(pixels.squeeze(), lossless=True, **options)


def compressed(pixels, compression, data):
    """Returns a page of a TIFF file whose pixels are compressed."""
    fields, _ = page(pixels, compression=compression)
    return fields, [data]


def deep_tiffs():
    for order in "<>":
        for channels in (1, 2, 3, 4):
            pixels = noise(6, 9, channels, np.uint16)
            yield tiff(page(pixels, order=order), order=order), pixels, 16
        yield tiff(page(DEEP, order=order, planar=2), order=order), DEEP, 16
    packed = np.unpackbits((DEEP_GRAY[:, :8] >> 4).astype(">u2").view(np.uint8).reshape(6, 8, 2), axis=2)
    rows = np.packbits(packed[..., 4:].reshape(6, -1), axis=1)
    fields, _ = page(DEEP_GRAY[:, :8], bits=12)
    yield tiff((fields, [rows.tobytes()])), DEEP_GRAY[:, :8] >> 4, 12
    for compression in ("tiff_lzw", "tiff_adobe_deflate"):
        yield saved(DEEP_GRAY[..., 0], "TIFF", compression=compression), DEEP_GRAY, 16


EXACT = [
    *deep_tiffs(),
    (tiff(compressed(BYTES, 50001, saved(BYTES, "WEBP", lossless=True))), BYTES, 8),
    (imagecodecs.png_encode(DEEP), DEEP, 16),
    (imagecodecs.png_encode(DEEP_GRAY[..., 0]), DEEP_GRAY, 16),
    (imagecodecs.jpeg8_encode(DEEP, lossless=True, bitspersample=16), DEEP, 16),
    (imagecodecs.jpeg8_encode(DEEP_GRAY[..., 0] >> 4, lossless=True, bitspersample=12), DEEP_GRAY >> 4, 12),
    (ppm(DEEP), DEEP, 16),
    (ppm(DEEP_GRAY), DEEP_GRAY, 16),
    (ppm(DEEP_GRAY >> 4, 4095), DEEP_GRAY >> 4, 12),
    (b"P2 2 1 # of ASCII\n1000\n7 999 ", np.array([[[7], [999]]], np.uint16), 10),
    (jp2(DEEP), DEEP, 16),
    (jp2(DEEP_GRAY >> 4, bitspersample=12, codecformat="jp2"), DEEP_GRAY >> 4, 12),
    (jp2(BYTES), BYTES, 8),
    (jxl(DEEP), DEEP, 16),
    (jxl(BYTES), BYTES, 8),
    (jxl(GRAY), GRAY, 8),
    *((saved(BYTES, form), BYTES, 8) for form in ("BMP", "PPM", "TIFF", "TGA", "PCX", "DDS", "SGI")),
    (saved(BYTES, "WEBP", lossless=True), BYTES, 8),
    (ICO, noise(16, 16, 4), 8),
    (saved(noise(6, 9, 4), "TGA"), noise(6, 9, 4), 8),
    (imagecodecs.qoi_encode(BYTES), BYTES, 8),
    (saved(Pillow.fromarray(GRAY[..., 0] >= 128), "TIFF"), (GRAY >= 128) * np.uint8(255), 8),
]


@pytest.mark.parametrize("data, pixels, bits", EXACT)
def test_pixels_are_those_that_were_written(data, pixels, bits):
    found = read_picture(data)
    assert np.array_equal(found.pixels, pixels)
    assert (found.bits, found.pixels.dtype, found.num_frames) == (bits, pixels.dtype, 1)


@pytest.mark.skipif(not AVIF, reason="this Pillow reads no AVIF")
@pytest.mark.parametrize("bits", [8, 10, 12])
def test_avif(bits):
    pixels = (DEEP >> (16 - bits)).astype(np.uint8 if bits == 8 else np.uint16)
    data = imagecodecs.avif_encode(pixels, level=100, bitspersample=bits)
    found = read_picture(data)
    assert np.array_equal(found.pixels, pixels)
    assert (found.bits, found.num_frames) == (bits, 1)
    turned_data = saved(BYTES, "AVIF", exif=b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0")
    assert read_picture(turned_data).orientation == 6
    assert (
        read_picture(saved(BYTES, "AVIF", save_all=True, append_images=[Pillow.fromarray(255 - BYTES)])).num_frames == 2
    )


def heic(image):
    target = io.BytesIO()
    image.save(target, quality=-1)
    return target.getvalue()


def test_heic():
    pillow_heif = pytest.importorskip("pillow_heif")
    smooth = np.add.outer(np.arange(16) * 8, np.arange(24) * 5)[..., None].repeat(3, 2).astype(np.uint8)
    data = heic(pillow_heif.from_pillow(Pillow.fromarray(smooth)))
    found = read_picture(data)
    assert np.array_equal(found.pixels, np.asarray(pillow_heif.open_heif(data)))
    assert np.abs(found.pixels.astype(int) - smooth).max() < 4
    deep = heic(pillow_heif.from_bytes("RGB;16", (24, 16), (smooth.astype(np.uint16) * 257).tobytes()))
    found = read_picture(deep)
    assert (found.bits, found.pixels.dtype) == (10, np.uint16)
    assert np.abs(found.pixels.astype(int) - smooth.astype(int) * 4).max() < 8
    several = pillow_heif.HeifFile()
    for _ in range(2):
        several.add_from_pillow(Pillow.fromarray(smooth))
    assert read_picture(heic(several)).num_frames == 2


def test_a_decoder_that_imagecodecs_lacks(monkeypatch):
    def without(data):
        raise imagecodecs.DelayedImportError("jpegxl_decode")

    data = imagecodecs.jpegxl_encode(BYTES, lossless=True)
    monkeypatch.setattr(imagecodecs, "jpegxl_decode", without)
    with pytest.raises(InputError, match="^this installation of imagecodecs does not read JPEG XL; convert it to PNG"):
        read_picture(data)


def test_heic_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InputError, match=r"HEIC needs pillow-heif: pip install .*\[heif\]'?; or convert it to PNG"):
        read_picture(b"\0\0\0\x1cftypheic\0\0\0\0mif1heic")


def test_jpeg_xl():
    frames = noise(6, 9, 3)[None].repeat(2, 0)
    assert read_picture(jxl(frames)).num_frames == 2
    with pytest.raises(InputError, match="decoded to float32"):
        read_picture(imagecodecs.jpegxl_encode(BYTES / np.float32(255), lossless=True))
    for height, width in ((1, 1), (8, 8), (6, 9), (256, 512), (300, 400), (513, 7), (9000, 3), (30, 40)):
        for pixels in (np.zeros((height, width), np.uint8), np.zeros((height, width), np.uint16)):
            assert jpeg_xl_size(imagecodecs.jpegxl_encode(pixels, lossless=True)) == (height, width)


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"8BPS" + bytes(30), "expected an image that can be decoded exactly, got PSD; convert it to PNG"),
        (tiff(page(BYTES.astype(np.float32))), "TIFF with floating-point samples"),
        (jp2(DEEP_GRAY.astype(np.int16)), "JPEG 2000 with signed"),
        (saved(DEEP_GRAY[..., 0], "PPM")[:30], "a damaged image: PPM"),
        (b"\1\xda\0\2\0\2" + bytes(600), "SGI with 16 bits"),
        (saved(BYTES, "DDS")[:112] + b"\0\2\0\0" + saved(BYTES, "DDS")[116:], "DDS with several textures"),
        (saved(Pillow.fromarray(BYTES).convert("LAB"), "TIFF"), "TIFF with pixels of the mode LAB"),
        (b"Pf\n2 2\n-1.0\n" + bytes(16), "got PFM"),
    ],
)
def test_what_is_not_decoded_exactly_is_named(data, problem):
    with pytest.raises(InputError, match=problem):
        read_picture(data)


def tiled(**options):
    target = io.BytesIO()
    Pillow.fromarray(noise(40, 50)).save(target, "JPEG2000", tile_size=(32, 32), **options)
    return target.getvalue()


@pytest.mark.parametrize("data", [tiled(), tiled(no_jp2=True), jp2(BYTES), jp2(DEEP)], ids=["JP2", "J2K", "8", "16"])
def test_a_part_of_a_jpeg_2000_is_refused(data):
    """Also one that ends after the marker of a tile-part, of which OpenJPEG leaves the other tiles black."""
    assert read_picture(data).pixels.any()
    part_of_tile = re.compile(rb"\xff\x90(?=\0\x0a)")
    assert part_of_tile.search(data)
    for size in {*range(0, len(data), 29), *(match.end() for match in part_of_tile.finditer(data))}:
        with pytest.raises(InputError, match="JPEG 2000|not an image|an empty file"):
            read_picture(data[:size])


def test_a_jpeg_2000_without_a_tile():
    data = tiled()
    start, stop = (match.start() for match in list(re.finditer(rb"\xff\x90\0\x0a", data))[1:3])
    with pytest.raises(InputError, match="a damaged image: JPEG 2000: 1 of its 4 tiles are missing"):
        read_picture(data[:start] + data[stop:])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_large_images_are_converted_in_strips(mode, monkeypatch):
    """The pixels are the same, whatever is converted at once."""
    form = {"CMYK": "JPEG", "P": "GIF"}.get(mode, "PNG")
    image = Pillow.fromarray(noise(23, 31, 4)).convert(mode)
    for options in ({}, {"transparency": 7}) if mode == "P" else ({},):
        data = saved(image, form, **options)
        expected = read_picture(data)
        for number in (1, 31 * 7, 31 * 23):
            monkeypatch.setattr(pictures, "_STRIP_PIXELS", number)
            assert np.array_equal(read_picture(data).pixels, expected.pixels)


def memory_of_pixels(data):
    before = peak_memory()
    return read_picture(data).pixels.nbytes, peak_memory() - before


def test_memory_of_a_large_image():
    """A few bytes can be many pixels: of these, the file has one and the result three bytes."""
    data = saved(Pillow.new("P", (6000, 5000)), "GIF")
    num_bytes, memory = apart(memory_of_pixels, data)
    assert memory < 2 * num_bytes


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_are_turned_as_by_pillow(orientation):
    from PIL import ImageOps

    image = Pillow.fromarray(BYTES)
    image.getexif()[0x112] = orientation
    assert np.array_equal(apply_orientation(BYTES, orientation), np.asarray(ImageOps.exif_transpose(image)))
    for pixels in (BYTES, DEEP):  # TIFF is turned by Pillow, and so are its deep images
        data = tiff(page(pixels, orientation=orientation))
        assert np.array_equal(read_picture(data).pixels, apply_orientation(pixels, orientation))


FILES = {
    "TIFF": [tiff(page(DEEP)), saved(BYTES, "TIFF", compression="tiff_lzw"), tiff(page(BYTES), page(BYTES))],
    "WebP": [saved(BYTES, "WEBP"), saved(BYTES, "WEBP", lossless=True)],
    "GIF": [saved(Pillow.fromarray(BYTES).convert("P"), "GIF")],
    "JPEG XL": [jxl(BYTES), jxl(DEEP)],
    "JPEG 2000": [jp2(BYTES), jp2(DEEP, codecformat="jp2")],
    "others": [saved(BYTES, form) for form in ("BMP", "PPM", "TGA", "PCX", "DDS", "SGI")] + [ICO] + [ppm(DEEP)],
}


@pytest.mark.parametrize("kind", FILES)
def test_damage_is_an_input_error(kind):
    """Whatever a library raises."""
    for data in mutations(FILES[kind], 150):
        try:
            assert read_picture(data).pixels.ndim == 3
        except InputError as error:
            assert str(error)  # noqa: PT017
