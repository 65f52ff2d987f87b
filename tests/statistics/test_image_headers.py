"""Sizes of images by their headers, against those that Pillow reads."""

from __future__ import annotations

import io

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
