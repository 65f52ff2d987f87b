"""Sizes of images by their headers, against those that Pillow reads."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from beam_datasets.statistics.image_headers import image_size

MODES = {"L": 1, "RGB": 3, "RGBA": 4, "LA": 2, "P": 3, "CMYK": 4, "I;16": 1}


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        *(("PNG", mode) for mode in ("L", "RGB", "RGBA", "LA", "P", "I;16")),
        *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
        *(("GIF", "P"), ("BMP", "RGB"), ("WEBP", "RGB")),
    ],
)
@pytest.mark.parametrize("progressive", [False, True])
def test_sizes(format: str, mode: str, progressive: bool) -> None:
    image = Image.fromarray(np.zeros((5, 300), np.uint8)).convert(mode)
    target = io.BytesIO()
    options = {"progressive": progressive, "exif": b"Exif\0\0" + b"x" * 500} if format == "JPEG" else {}
    image.save(target, format, **options)
    expected = MODES[Image.open(io.BytesIO(target.getvalue())).mode]
    assert image_size(target.getvalue()) == (5, 300, expected)
    for stop in range(0, 60, 3):
        assert image_size(target.getvalue()[:stop]) in (None, (5, 300, expected))


@pytest.mark.parametrize(
    "data", [b"", b"no image", b"\xff\xd8", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"\xff\xd8" + b"\xff" * 9]
)
def test_no_image(data: bytes) -> None:
    assert image_size(data) is None


@pytest.mark.parametrize("kind", ["GIF", "BMP"])
def test_an_image_that_is_said_to_be_too_large(kind: str) -> None:
    target = io.BytesIO()
    Image.new("P", (3, 2)).save(target, kind)
    data = bytearray(target.getvalue())
    place, size = (6, struct.pack("<HH", 65535, 65535)) if kind == "GIF" else (18, struct.pack("<ii", 65535, 65535))
    data[place : place + len(size)] = size
    with pytest.raises(Image.DecompressionBombError):
        Image.open(io.BytesIO(data))
    assert image_size(target.getvalue()) == (2, 3, 3)
    assert image_size(bytes(data)) is None
