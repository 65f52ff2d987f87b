"""The structure of image files: what is damaged is refused without decoding it, what decoders read is accepted."""

import io
import struct
import sys
import zlib
from contextlib import nullcontext

import imagecodecs
import numpy as np
import pytest
from PIL import Image as Pillow

from beam_datasets.errors import InputError
from beam_datasets.intake import png
from beam_datasets.intake.image_formats import detect_format
from beam_datasets.intake.images import check_image, check_size
from tests.images import SIGNATURE, chunks_of, crc, mpo, mutations, noise, page, png_of, saved, tiff

PIXELS = noise(5, 7)
PNG = saved(PIXELS, "PNG")
PALETTE = saved(Pillow.fromarray(PIXELS).convert("P"), "PNG", transparency=3)
JPEG = saved(PIXELS, "JPEG")
PROGRESSIVE = saved(noise(20, 30), "JPEG", progressive=True)
GIF = saved(Pillow.fromarray(PIXELS).convert("P"), "GIF")
WEBP, LOSSLESS = saved(PIXELS, "WEBP"), saved(PIXELS, "WEBP", lossless=True)
BMP, PPM, TIFF = saved(PIXELS, "BMP"), saved(PIXELS, "PPM"), tiff(page(PIXELS))
ALL = (PNG, PALETTE, JPEG, PROGRESSIVE, GIF, WEBP, LOSSLESS, BMP, PPM, TIFF)


def refused(data):
    try:
        check_image(data)
    except InputError:
        return True
    return False


@pytest.mark.parametrize("file", ALL, ids=detect_format)
def test_no_part_of_a_file_is_whole(file):
    assert not refused(file)
    assert [n for n in range(len(file)) if not refused(file[:n])] == []


@pytest.mark.parametrize("file", [PNG, PALETTE], ids=["RGB", "palette"])
def test_every_bit_of_a_png_is_checked(file):
    for place in range(len(file)):
        for bit in range(8):
            assert refused(file[:place] + bytes([file[place] ^ 1 << bit]) + file[place + 1 :]), (place, bit)


@pytest.mark.parametrize("file", [PNG, JPEG, PROGRESSIVE, GIF, WEBP, BMP, PPM, TIFF], ids=detect_format)
@pytest.mark.parametrize("tail", [b"\0", b"more", bytes(100), b"PK\3\4", PNG[:7], b"\0\0\0\x18ftypmp42"])
def test_bytes_after_the_end_are_accepted(file, tail):
    assert check_image(file + tail) == check_image(file)


@pytest.mark.parametrize("other", [PNG, JPEG, GIF, WEBP], ids=detect_format)
def test_an_image_after_the_end_of_another_is_seen(other):
    """The end of the other formats is unknown, or common files have images behind it: photos with previews."""
    for file in (PNG, PALETTE, GIF, WEBP, BMP):
        assert check_image(file + other) == check_image(file)._replace(is_joined=True)
        assert not check_image(file).is_joined
        assert not check_image(file + b"\n" + other).is_joined
    for file in (JPEG, PROGRESSIVE, PPM, TIFF):
        assert check_image(file + other) == check_image(file)


@pytest.mark.parametrize("pixels", [PIXELS, noise(5, 7, 0), noise(3, 4, 0, np.uint16)])
def test_images_after_each_other_in_a_ppm_are_counted(pixels):
    """Decoders read the first one alone."""
    one, other = saved(pixels, "PPM"), PPM
    assert check_image(one).num_frames == 1
    assert check_image(one + other + one) == check_image(one)._replace(num_frames=3)
    assert refused(one + other[:-1])


def test_jpeg_ls_is_named():
    with pytest.raises(InputError, match="JPEG-LS.* convert it to PNG"):  # imagecodecs begins them in two ways
        check_image(imagecodecs.jpegls_encode(PIXELS))


def test_pixels_that_a_jpeg_cannot_have():
    """imagecodecs fills them up; Pillow refuses them. One of equal pixels has the fewest bits."""
    frame = JPEG.find(b"\xff\xc0") + 5
    data = JPEG[:frame] + b"\xff\xff" + JPEG[frame + 2 :]
    with pytest.raises(OSError, match="broken data stream"):
        Pillow.open(io.BytesIO(data)).load()
    with pytest.raises(InputError, match="bytes for 65535 x 7 pixels"):
        check_image(data)
    for mode, color in (("L", 128), ("RGB", (0, 0, 0))):
        for more in ({}, {"optimize": True}, {"quality": 1}, {"subsampling": 2}):
            assert not refused(saved(Pillow.new(mode, (3000, 2000), color), "JPEG", **more))


def decoded_by_two(data):
    imagecodecs.jpeg8_decode(data)
    Pillow.open(io.BytesIO(data)).load()


def test_what_decoders_read_is_accepted():
    """Except a JPEG without its end, of which a decoder may have all pixels before it misses the end."""
    for data in mutations([JPEG, PROGRESSIVE], 500):
        if refused(data) and b"\xff\xd9" in data[-2:]:
            with pytest.raises((imagecodecs.Jpeg8Error, ValueError, RuntimeError, OSError)):
                decoded_by_two(data)


def test_an_end_within_a_segment_between_scans_is_none():
    """imagecodecs reads it with a warning; Pillow does not. It does for an image of one scan, which has all pixels."""
    for file, is_read in ((PROGRESSIVE, False), (JPEG, True)):
        start = file.rfind(b"\xff\xda") + 20
        data = file[:start] + b"\xff\xfe\x7f\xff" + file[start:]
        assert refused(data) != is_read
        with nullcontext() if is_read else pytest.raises(OSError, match="truncated"):
            decoded_by_two(data)
        assert not refused(data[:start] + b"\xff\xfe\0\2" + file[start:])


HEADERS = [
    (PNG, (5, 7, 8, 3)),
    (PALETTE, (5, 7, 8, 3)),
    (saved(noise(5, 7, 0), "PNG"), (5, 7, 8, 1)),
    (saved(Pillow.fromarray(noise(5, 7, 0)).convert("1"), "PNG"), (5, 7, 1, 1)),
    (imagecodecs.png_encode(noise(5, 7, 4, np.uint16)), (5, 7, 16, 4)),
    (JPEG, (5, 7, 8, 3)),
    (PROGRESSIVE, (20, 30, 8, 3)),
    (saved(Pillow.fromarray(PIXELS).convert("CMYK"), "JPEG"), (5, 7, 8, 4)),
    (imagecodecs.jpeg8_encode(noise(5, 7, 3, np.uint16) >> 4, bitspersample=12), (5, 7, 12, 3)),
    (GIF, (5, 7, 8, 0)),
    (WEBP, (5, 7, 8, 0)),
    (LOSSLESS, (5, 7, 8, 0)),
    (saved(noise(5, 7, 4), "WEBP"), (5, 7, 8, 0)),
    (BMP, (5, 7, 8, 0)),
    (PPM, (5, 7, 8, 3)),
    (b"P5 # a comment\n7 5\n#another\n65535 " + bytes(70), (5, 7, 16, 1)),
    (b"P1 2 1 1 0", (1, 2, 1, 1)),
    (TIFF, (5, 7, 8, 0)),
    (tiff(page(PIXELS, orientation=6)), (7, 5, 8, 0)),
    (tiff(page(noise(5, 7, 1, np.uint16), order=">"), order=">"), (5, 7, 16, 0)),
]


@pytest.mark.parametrize("data, expected", HEADERS)
def test_headers(data, expected):
    found = check_image(data)
    assert (found.height, found.width, found.bits, found.channels) == expected


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_transparency_of_a_png(mode):
    image = Pillow.fromarray(PIXELS).convert(mode)
    assert check_image(saved(image, "PNG")).has_alpha == (mode in ("LA", "RGBA"))
    if mode in ("L", "P", "RGB"):
        level = (1, 2, 3) if mode == "RGB" else 3
        found = check_image(saved(image, "PNG", transparency=level))
        assert (found.has_alpha, found.has_transparent_color) == (True, mode != "P")


def moving(form, **options):
    more = [Pillow.fromarray(noise(5, 7, seed=seed)) for seed in (1, 2)]
    return saved(PIXELS, form, save_all=True, append_images=more, **options)


VIEW, PREVIEW, GAIN_MAP, PRIMARY = 0x020002, 0x010001, 0, 0x20030000
HIDDEN = moving("PNG", default_image=True)  # the image is none of the frames
LATE = png_of(sorted(chunks_of(moving("PNG")), key=lambda chunk: (chunk[0] == b"IEND", chunk[0] == b"acTL")))
DAMAGED_MPF = mpo(JPEG, [VIEW, VIEW]).replace(
    b"\0\0\0\0" + struct.pack(">I", VIEW), b"\0\0\0\7" + struct.pack(">I", VIEW), 1
)
FRAMES = [
    (moving("GIF"), 3, 0),
    (moving("PNG"), 3, 0),
    (HIDDEN, 3, 0),
    (LATE, 1, 0),
    (DAMAGED_MPF, 2, 0),
    (moving("WEBP"), 3, 0),
    (tiff(*[page(PIXELS)] * 3), 3, 0),
    (tiff(page(PIXELS), page(PIXELS[:2, :3], kind=1)), 1, 1),
    (tiff(page(PIXELS), page(noise(5, 7, 1), kind=4)), 1, 1),
    (mpo(JPEG, [PRIMARY, GAIN_MAP]), 1, 1),
    (mpo(JPEG, [PRIMARY, PREVIEW, PREVIEW]), 1, 2),
    (mpo(JPEG, [VIEW, VIEW]), 2, 0),
    (mpo(JPEG, [PRIMARY]), 1, 0),
]


@pytest.mark.parametrize("data, frames, previews", FRAMES)
def test_frames_pages_and_previews_are_counted(data, frames, previews):
    found = check_image(data)
    assert (found.num_frames, found.num_previews) == (frames, previews)


HEAD, *MIDDLE, END = chunks_of(PNG)
_, COLOURS, *_ = chunks_of(PALETTE)


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"", "expected an image, got an empty file"),
        (b"text", "not an image .it begins with b'text'"),
        (png_of([*MIDDLE, END]), "the first chunk is IDAT"),
        (png_of([HEAD, END]), "there are no pixels"),
        (png_of([HEAD, (b"IDAT", b""), END]), "there are no pixels"),
        (png_of([(b"IHDR", HEAD[1] + b"\0"), *MIDDLE, END]), "IHDR of 14 bytes, instead of IHDR of 13"),
        (png_of([(b"IHDR", HEAD[1][:8] + b"\x03\x02\0\0\0"), *MIDDLE, END]), "3 bits with colours of type 2"),
        (png_of([(b"IHDR", bytes(4) + HEAD[1][4:]), *MIDDLE, END]), "its size is 5 x 0"),
        (png_of([HEAD, HEAD, *MIDDLE, END]), "the chunk IHDR at byte 33 is a second header"),
        (png_of([HEAD, *MIDDLE, HEAD, END]), "the chunk IHDR at byte .* is a second header"),
        (png_of([HEAD, (b"ABCD", b""), *MIDDLE, END]), "the chunk ABCD at byte 33 is unknown"),
        (png_of([(b"CgBI", bytes(4)), HEAD, *MIDDLE, END]), "Apple's own form of PNG"),
        (png_of([chunks_of(PALETTE)[0], *MIDDLE, END]), "there is no palette"),
        (png_of([chunks_of(PALETTE)[0], (b"PLTE", b"abcd"), *MIDDLE, END]), "4 bytes, which is not a palette"),
        (PNG.replace(crc(b"IEND"), b"\0\0\0\0"), "the chunk IEND at byte .* has a wrong checksum"),
        (SIGNATURE, "ends at byte 8, before the end of the image"),
        (JPEG.replace(b"\xff\xc0", b"\xff\xc5"), "JPEG of the kind SOF5 is not read"),
        (JPEG.replace(b"\xff\xc0", b"\xff\xfe"), "its size is not given"),
        (JPEG.replace(b"\xff\xda", b"\xff\xd8"), "the marker D8 at byte"),
        (JPEG[:-2], "before the end of the image .EOI"),
        (b"\xff\xd8\xff\xe0\0\1" + JPEG[2:], "the segment E0 at byte 2 has 1 bytes"),
        (JPEG.replace(b"\xff\xdb", b"\xff\xfe"), "its quantization table 0 is missing"),
        (GIF[:10] + b"\0\0\0;", "there are no pixels"),
        (WEBP[:12] + b"ABCD" + WEBP[16:], "there are no pixels"),
        (b"P5 0 5 255 ", "its size is 5 x 0"),
        (b"P5 1 1 70000 ...", "its greatest value is 70000"),
        (b"II*\0" + bytes(20), "it has no directory"),
        (tiff(page(PIXELS))[:-8], "the file ends"),
        (BMP[:18] + struct.pack("<i", -7) + BMP[22:], "its width is -7"),
        (tiff(page(PIXELS.astype(np.float32))), "TIFF with floating-point samples of 32 bits"),
        (tiff(page(PIXELS.astype(np.int16))), "TIFF with signed samples of 16 bits"),
        (tiff(page(PIXELS.astype(np.uint32))), "TIFF with unsigned samples of 32 bits"),
        (tiff(page(PIXELS.view(np.int8))), "TIFF with signed samples of 8 bits"),
        (tiff(page(noise(5, 7, 1, np.uint16), photometric=0)), "photometric interpretation 0 is not decoded exactly"),
        (tiff(page(noise(5, 7, 4, np.uint16), extra=[1])), "4 samples, 1 of which are no colours"),
        (tiff(page(noise(5, 7, 4, np.uint16), photometric=5, extra=[])), "photometric interpretation 5"),
    ],
)
def test_what_is_refused(data, problem):
    with pytest.raises(InputError, match=problem):
        check_image(data)


def test_raw_files_of_cameras_are_not_their_previews():
    preview, sensor = page(noise(4, 6), kind=1), page(noise(40, 60, 1, np.uint16), photometric=32803)
    for data in (
        tiff(preview, subfiles=[sensor]),  # NEF, ARW
        tiff(page(noise(4, 6), dng=[1, 4, 0, 0])),
        tiff(sensor),
    ):
        with pytest.raises(InputError, match="a raw file of a camera"):
            check_image(data)
    with pytest.raises(InputError, match=r"its first picture is a preview of another one \(40 x 60\)"):
        check_image(tiff(preview, subfiles=[page(noise(40, 60))]))


@pytest.mark.parametrize(
    "data, name",
    [
        (b"\0\0\0\x1cftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avif", "AVIF"),
        (b"\0\0\0\x1cftypavif\0\0\0\0mif1avif", "AVIF"),
        (b"\0\0\0\x1cftypisom\0\0\0\0isomiso2", "a video (MP4)"),
        (b"\0\0\0\x1cftypcrx \0\0\0\0crx isom", "a Canon raw file (CR3)"),
        (b"II*\0\x10\0\0\0CR\x02\0", "a Canon raw file (CR2)"),
        (b"\xff\x0a....", "JPEG XL"),
        (b"\xff\xd8\xff\xf7....", "JPEG-LS"),
        (b"8BPS", "PSD"),
        (b"\xc5\xd0\xd3\xc6 \0\0\0", "PostScript"),
        (b"/* XPM */", "XPM"),
        (b"#define a_width 4", "XBM"),
        (b"\x0eB\0\0\x12\xaf\x01\0", "FLI"),
        (bytes(2048) + b"PCD_IPI", "Kodak Photo CD"),
        (b"<?xml version='1.0'?>\n<!-- a --><svg xmlns=''>", "SVG"),
        (b"\n<!DOCTYPE html><html>", "an HTML page"),
        (b"<html lang=en>", "an HTML page"),
        (bytes(128) + b"DICM", "DICOM"),
    ],
)
def test_other_formats_are_named(data, name):
    assert detect_format(data).startswith(name)
    ways = {"an HTML page": r"\. Get the file again", "a video (MP4)": "; save its frames as PNG"}
    way = ways.get(name, "; decode it and give its pixels, or convert it to PNG")
    with pytest.raises(InputError, match=rf"^expected PNG, JPEG, .* or PPM, got .*{way}$"):
        check_image(data)


def test_too_many_pixels(monkeypatch):
    """The limit is of the header, so that no memory is taken; the error says how it is raised, and that helps."""
    header = struct.pack(">IIBBBBB", 1 << 20, 1 << 20, 8, 2, 0, 0, 0)
    data = png_of([(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")])
    with pytest.raises(InputError, match=f"1048576 x 1048576 pixels, more than 268,435,456.*MAX_ELEMENTS={1 << 40} "):
        check_image(data)
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", str(1 << 40))
    assert check_image(data).width == 1 << 20
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", "many")
    with pytest.raises(InputError, match="expected a positive integer, got 'many'"):
        check_size(1 << 20, 1 << 20)
    for text in "0", str((1 << 62) + 1), str(1 << 64), "9" * 5000:
        monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", text)
        with pytest.raises(InputError, match=f"the highest is {1 << 62}$"):
            check_size(1 << 20, 1 << 20)
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", str(1 << 62))
    check_size(1 << 20, 1 << 20)
    check_size(1 << 14, 1 << 14)


def test_without_imagecodecs(monkeypatch):
    for missing in (None, "imagecodecs"):
        with monkeypatch.context() as patch:
            if missing:
                patch.setitem(sys.modules, missing, None)
            png._crc32.cache_clear()
            assert not refused(PNG)
            assert refused(PNG.replace(crc(b"IEND"), b"\0\0\0\0"))
    png._crc32.cache_clear()
