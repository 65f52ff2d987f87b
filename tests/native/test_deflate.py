"""The compression of small images in C, against the same in Python, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_datasets.features import png, png_stream
from beam_datasets.native import core
from tests.features.small_images import KINDS, bytes_of, images

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)


def assert_same(row: bytes) -> int:
    """Returns how the block is compressed: 0 not at all, 1 by the fixed code, 2 by one of its own."""
    got = core.small_png(b"", row, 1)[8:-16]
    assert got == png_stream.deflate(b"\0" + row)
    return got[2] >> 1 & 3


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.integers(1, 900) | st.integers(1, 8189))
@settings(max_examples=400)
def test_is_what_python_makes(seed: int, kind: str, size: int) -> None:
    assert_same(bytes_of(np.random.default_rng(seed), kind, size))


@given(st.binary(max_size=300))
def test_is_what_python_makes_of_any_bytes(data: bytes) -> None:
    assert_same(data)


def test_every_kind_of_block_is_made() -> None:
    generator = np.random.default_rng(0)
    made = {assert_same(bytes_of(generator, kind, size)) for kind in KINDS for size in (3, 50, 800, 3000)}
    assert made == {0, 1, 2}


def test_runs_of_any_length() -> None:
    for length in range(1, 1100):
        assert_same(b"a" * length)
        assert_same(b"ab" * 40 + bytes(length) + b"abc")


def test_counts_that_double() -> None:
    """They make the longest codes: of bytes, and of the lengths of codes."""
    generator = np.random.default_rng(1)
    for symbols in range(2, 20):
        data = np.repeat(np.arange(symbols), [min(2**i, 2 ** (12 - symbols % 3)) for i in range(symbols)])[:8189]
        for _ in range(5):
            assert_same(generator.permutation(data).astype(np.uint8).tobytes())
            assert_same(generator.permutation(data * 3 % 251).astype(np.uint8).tobytes())


def test_the_most_bytes() -> None:
    most = png_stream.MOST_BYTES - 1  # without the filter
    lonely = np.tile([1, 2], most)[:most].astype(np.uint8)  # tokens that occur once, so that their codes are longest
    lonely[:256] = np.arange(256)
    for row in (bytes(most), lonely.tobytes(), np.random.default_rng(0).bytes(most)):
        assert_same(row)
        with pytest.raises(ValueError, match="too many"):
            core.small_png(b"", row + b"x", 1)
    with pytest.raises(ValueError, match="too many"):
        core.small_png(b"", b"a" * 4096, 4096)


@given(images())
def test_images(image: Any) -> None:
    native = png.encode(image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "core", None)
        assert native == png.encode(image)


@pytest.mark.parametrize("shape", [(4095, 1, 1), (1, 4095, 1), (4096, 1, 1), (63, 65, 1), (36, 37, 3)])
def test_images_at_the_limits(shape: tuple[int, int, int]) -> None:
    for image in (np.zeros(shape, np.uint8), np.random.default_rng(0).integers(0, 256, shape, np.uint8)):
        native = png.encode(image)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(png, "core", None)
            assert native == png.encode(image)


def test_wrong_arguments() -> None:
    for args in [(), (b"", b"", 1, 2), ("a", b"a", 1), (b"a", "a", 1), (b"a", b"a", "1")]:
        with pytest.raises(TypeError):
            core.small_png(*args)
    for height in (0, -1, 2, 4):
        with pytest.raises(ValueError, match="rows"):
            core.small_png(b"", b"abc", height)
    with pytest.raises(ValueError, match="too many"):
        core.small_png(b"x" * 65, b"abc", 1)
    with pytest.raises(ValueError, match="too many"):
        core.small_png(b"", b"a" * 2**20, 1)
    assert core.small_png(b"x" * 64, b"abc", 3).startswith(b"x" * 64)
    assert core.small_png(b"", b"", 5)[8:-16] == png_stream.deflate(bytes(5))  # nothing but the numbers of filters
