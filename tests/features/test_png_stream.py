"""The streams of small PNGs: everybody reads them, they are small, and their bytes do not change."""

from __future__ import annotations

import hashlib
import io
import zlib
from typing import Any

import cv2
import deflate
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from beam_datasets.features import png, png_decoding, png_stream
from tests.features.small_images import KINDS, bytes_of, images


def by_opencv(data: bytes) -> Any:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return found[..., None] if found.ndim == 2 else found[..., [2, 1, 0, 3][: found.shape[2]]]


def zlib_size(data: bytes) -> int:
    compressor = zlib.compressobj(6, zlib.DEFLATED, 12, 6, zlib.Z_RLE)
    return len(compressor.compress(data) + compressor.flush())


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.integers(1, 900) | st.integers(1, png_stream.MOST_BYTES))
@settings(max_examples=300)
def test_others_read_it_and_it_is_small(seed: int, kind: str, size: int) -> None:
    data = bytes_of(np.random.default_rng(seed), kind, size)
    stream = png_stream.deflate(data)
    assert zlib.decompress(stream) == data
    assert deflate.zlib_decompress(stream, len(data)) == data
    assert len(stream) <= len(data) + 11
    if size < 4096:  # zlib makes two blocks of more
        more = 1.06 if kind in ("few", "doubling") else 1.02  # by how much Shannon's lengths can be worse
        assert len(stream) <= more * zlib_size(data) + 16


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes(data: bytes) -> None:
    stream = png_stream.deflate(data)
    assert zlib.decompress(stream) == data
    assert deflate.zlib_decompress(stream, len(data)) == data


@given(images())
def test_images(image: Any) -> None:
    file = png.encode(image)
    assert np.array_equal(png_decoding.decode(file), image)
    if image.shape[2] != 2:  # OpenCV makes three or four channels of two
        assert np.array_equal(by_opencv(file), image)
    if image.itemsize == 1 or image.shape[2] == 1:  # Pillow has no others of 16 bits
        assert np.array_equal(np.array(Pillow.open(io.BytesIO(file))).reshape(image.shape), image)


@given(st.lists(st.integers(1, 4000), min_size=2, max_size=286))
def test_codes_are_complete(counts: list[int]) -> None:
    counts = counts[: np.searchsorted(np.cumsum(counts), png_stream.MOST_BYTES)] or [1]
    lengths = png_stream._code_lengths([*counts, 0, 1])
    assert sum(2.0**-length for length in lengths if length) == 1
    assert max(lengths) <= 13
    assert [length > 0 for length in lengths] == [True] * len(counts) + [False, True]


def test_no_zlib_compresses_small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.arange(4095, dtype=np.uint8).reshape(63, 65, 1)
    file = png.encode(image)
    monkeypatch.setattr(png, "core", None)
    monkeypatch.delattr(zlib, "compressobj")
    monkeypatch.delattr(zlib, "compress")
    assert png.encode(image) == file


def test_wrong_sizes() -> None:
    for data in (b"", bytes(png_stream.MOST_BYTES + 1)):
        with pytest.raises(ValueError, match=f"{len(data)} bytes"):
            png_stream.deflate(data)


def test_golden_images() -> None:
    """Whoever changes these changes the bytes of all datasets with small images."""
    rows, columns = np.mgrid[:28, :28]
    far = (rows - 14) ** 2 + (columns - 14) ** 2
    noise = (rows * 28 + columns) * 2654435761 % 2**32 >> 24
    pictures = {
        "one pixel": np.zeros((1, 1), np.uint8),
        "constant": np.full((28, 28), 7),
        "ring": np.where(abs(far - 80) < 30, 255, 0),
        "soft ring": (255 - 4 * abs(far - 80)).clip(0, 255),
        "gradient": rows * 9 + columns // 3,
        "noise": noise,
        "dark noise": noise**3 >> 16,
    }
    found = {
        name: hashlib.sha256(png.encode(picture.astype(np.uint8)[..., None])).hexdigest()[:16]
        for name, picture in pictures.items()
    }
    assert found == {
        "one pixel": "2532f3b39e2c07ac",
        "constant": "58d59d4b606dd79b",
        "ring": "87a9df5934646ddf",
        "soft ring": "73f5dca8bf8b5ac0",
        "gradient": "d2e9691f6b3ea324",
        "noise": "41ee57d9cd553d35",
        "dark noise": "26a38331dcf03dad",
    }
