"""PNGs read in C: the pixels that OpenCV and Pillow find, or None."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import PngImagePlugin

from beam_datasets.features import png, png_decoding
from beam_datasets.native import core

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")
COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> colour type


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(pixels: NDArray[Any], interlaced: int = 0) -> bytes:
    height, width, channels = pixels.shape
    return struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, COLOURS[channels], 0, 0, interlaced)


def rows_of(pixels: NDArray[Any], filters: Any) -> bytes:
    """The rows of an image, each with the filter that is asked for: byte by byte, as the specification says."""
    step = pixels.shape[2] * pixels.itemsize
    rows = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(len(pixels), -1).tolist()
    above, out = [0] * len(rows[0]), bytearray()
    for number, row in zip(filters, rows):
        out.append(number)
        for i, value in enumerate(row):
            a, b = row[i - step] if i >= step else 0, above[i]
            c = above[i - step] if i >= step else 0
            nearest = min((a, b, c), key=lambda x: abs(a + b - c - x))
            out.append((value - (0, a, b, (a + b) // 2, nearest)[number]) % 256)
        above = row
    return bytes(out)


def file_of(pixels: NDArray[Any], filters: Any, *, parts: int = 1, before: bytes = b"", after: bytes = b"") -> bytes:
    """A PNG."""
    data = zlib.compress(rows_of(pixels, filters))
    cuts = [len(data) * i // parts for i in range(parts + 1)]
    images = b"".join(chunk(b"IDAT", data[start:stop]) for start, stop in pairwise(cuts))
    return png.SIGNATURE + chunk(b"IHDR", header(pixels)) + before + images + after + chunk(b"IEND", b"")


def by_opencv(data: bytes) -> NDArray[Any]:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found.ndim == 2:
        return found[..., None]
    if data[25] == COLOURS[2]:
        return found[..., 2:]
    return found[..., [2, 1, 0, 3][: found.shape[2]]]


def pixels_of(shape: tuple[int, ...], dtype: Any = np.uint8, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True) & rng.integers(0, 2**16, shape).astype(
        dtype
    )


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 12), st.integers(1, 40), st.integers(1, 4)),
    st.sampled_from([np.uint8, np.uint16]),
    st.data(),
)
def test_any_filters(shape: tuple[int, int, int], dtype: Any, data: Any) -> None:
    pixels = pixels_of(shape, dtype, data.draw(st.integers(0, 99)))
    filters = data.draw(st.lists(st.integers(0, 4), min_size=shape[0], max_size=shape[0]))
    file = file_of(pixels, filters, parts=data.draw(st.integers(1, 4)))
    found = png_decoding.decode(file)
    assert found is not None
    assert (found.dtype, found.shape) == (pixels.dtype, pixels.shape)
    assert np.array_equal(found, pixels)
    assert np.array_equal(found, by_opencv(file))
    assert found.flags.writeable
    form = png_decoding.form_of(shape, dtype)
    assert form is not None
    many = png_decoding.decode_many([file, png.encode(pixels), file], form)
    assert many is not None
    assert np.array_equal(many, np.stack([pixels] * 3))


@pytest.mark.parametrize("number", range(5))
def test_neighbours_that_are_equally_near(number: int) -> None:
    pixels = np.random.default_rng(0).choice(
        np.array([0, 1, 2, 3, 126, 127, 128, 253, 254, 255], np.uint8), (120, 120, 1)
    )
    assert np.array_equal(png_decoding.decode(file_of(pixels, [number] * 120)), pixels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_large_images(channels: int, dtype: Any) -> None:
    """Rows of some bands of images, and all filters that a real encoder chooses."""
    smooth = np.add.outer(np.arange(300), np.arange(200))[..., None] * np.arange(1, channels + 1)
    pixels = (smooth * (1 if dtype == np.uint8 else 99) + pixels_of((300, 200, channels), np.uint8)).astype(dtype)
    file = png.encode(pixels)
    form = png_decoding.form_of((300, 200, channels), dtype)
    assert form is not None
    many = png_decoding.decode_many([file] * 7, form)
    assert many is not None
    assert all(np.array_equal(image, pixels) for image in many)
    assert np.array_equal(by_opencv(file), pixels)


def saved(image: Any, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, "PNG", **options)
    return target.getvalue()


def test_files_of_other_writers() -> None:
    pixels = pixels_of((20, 30, 3))
    text = PngImagePlugin.PngInfo()
    text.add_text("what", "noise" * 100, zip=True)
    image = Pillow.fromarray(pixels)
    for file in (
        saved(image),
        saved(
            image,
            optimize=True,
            dpi=(72, 72),
            icc_profile=b"p" * 200,
            pnginfo=text,
            exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0",
        ),
        bytes(cv2.imencode(".png", pixels[..., ::-1])[1]),
        file_of(pixels, [4] * 20, before=chunk(b"gAMA", b"\0\0\xb1\x8f"), after=chunk(b"teSt", b"x")),
    ):
        assert np.array_equal(png_decoding.decode(file), pixels)
        assert np.array_equal(by_opencv(file), pixels)


def test_what_is_left_to_a_library() -> None:
    pixels = pixels_of((4, 4, 3))
    image = Pillow.fromarray(pixels)
    good = file_of(pixels, [0] * 4)
    frames = saved(image, save_all=True, append_images=[Pillow.fromarray(255 - pixels)])
    interlaced = png.SIGNATURE + chunk(b"IHDR", header(pixels, interlaced=1)) + good[33:]
    assert png_decoding.decode(good) is not None
    for other in (
        saved(image.convert("P")),
        saved(image.convert("1")),
        saved(image, transparency=(1, 2, 3)),
        frames,
        interlaced,
        good + b"more",
        good[:-12],
        good[:33] + chunk(b"NEED", b"") + good[33:],
        good[:33] + chunk(b"IDAT", b"") + chunk(b"tEXt", b"a\0b") + good[33:],
        png.SIGNATURE + good[33:],
        b"",
        png.SIGNATURE,
    ):
        assert png_decoding.decode(other) is None


def test_damage_is_found() -> None:
    pixels = pixels_of((5, 6, 3))
    good = file_of(pixels, range(5), before=chunk(b"tEXt", b"a\0b"))
    for place in range(len(good)):
        assert png_decoding.decode(good[:place]) is None
        for bit in range(8):
            assert png_decoding.decode(good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :]) is None


@pytest.mark.parametrize("with_deflate", [False, True])
def test_wrong_amounts_of_pixels(with_deflate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_deflate:
        monkeypatch.setitem(sys.modules, "deflate", None)
    png_decoding._inflater.cache_clear()
    pixels = pixels_of((5, 6, 3))
    head, rows = png.SIGNATURE + chunk(b"IHDR", header(pixels)), rows_of(pixels, [1] * 5)
    for data, whole in (
        (zlib.compress(rows), True),
        (zlib.compress(rows[:-1]), False),
        (zlib.compress(rows + b"x"), False),
        (zlib.compress(bytes(1 << 20)), False),
        (zlib.compress(rows)[:-1], False),
        (zlib.compress(rows)[2:], False),
        (zlib.compress(b"\x05" + rows[1:]), False),  # a filter that there is not
        (b"x", False),
    ):
        found = png_decoding.decode(head + chunk(b"IDAT", data) + chunk(b"IEND", b""))
        assert (found is not None) == whole
    large = pixels_of((200, 200, 3))
    assert np.array_equal(png_decoding.decode(png.encode(large)), large)
    cut = png.SIGNATURE + chunk(b"IHDR", header(large)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    assert png_decoding.decode(cut) is None
    monkeypatch.undo()
    png_decoding._inflater.cache_clear()


def test_no_memory_is_taken_for_pixels_that_are_not_there() -> None:
    huge = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 16, 6, 0, 0, 0)
    file = png.SIGNATURE + chunk(b"IHDR", huge) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    assert png_decoding.decode(file) is None


def test_wrong_arguments_are_an_error() -> None:
    out = bytearray(12)
    assert core.png_unfilter([bytes(8), bytes(8)], out, 2, 3, 1) is True
    assert core.png_unfilter([b"\5" + bytes(7)], bytearray(6), 2, 3, 1) is False
    for arguments in (
        ([bytes(8)], out, 2, 3, 1),
        ([bytes(8), bytes(7)], out, 2, 3, 1),
        ([bytes(8), bytes(8)], out, 2, 3, 5),
        ([bytes(8), bytes(8)], out, 2, 3, 2),
        ([], bytearray(6), 2, 3, 1),
        ([bytes(8)], bytearray(6), -2, -3, 1),
        ([bytes(8)], bytearray(6), 2**40, 2**40, 1),
    ):
        with pytest.raises(ValueError, match="bytes"):
            core.png_unfilter(*arguments)
    for arguments in (
        ([1], bytearray(6), 2, 3, 1),
        ((bytes(8),), bytearray(6), 2, 3, 1),
        ([bytes(8)], bytes(6), 2, 3, 1),
    ):
        with pytest.raises((TypeError, BufferError)):
            core.png_unfilter(*arguments)
    for arguments in ((1, b""), (b"", None), ("x", b"")):
        with pytest.raises(TypeError):
            core.png_compressed(*arguments)
    good = png.encode(pixels_of((2, 2, 1)))
    assert core.png_compressed(good, good[16:28]) is None
    assert core.png_compressed(good, bytes(13)) is None
    assert core.png_compressed(good, good[16:29]) is not None
