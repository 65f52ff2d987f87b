"""The compression of small images in C, against zlib, to the byte."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from beam_datasets.features import png
from beam_datasets.native import core

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)


def by_zlib(data: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, 12, 6, zlib.Z_RLE)
    return compressor.compress(data) + compressor.flush()


def assert_same(data: bytes) -> int:
    """Returns how the block is compressed: 0 not at all, 1 by the fixed code, 2 by one of its own; -1 for not done."""
    got = core.deflate_runs(data)
    if got is None:
        return -1
    want = by_zlib(data)
    assert got == want
    return want[2] >> 1 & 3


def bytes_of(generator: Any, kind: int, size: int) -> bytes:
    """Bytes as they may be in images: even noise, dark, in runs, near each other, few, and with very long codes."""
    if kind == 0:
        values = generator.integers(0, generator.integers(1, 257), size)
    elif kind == 1:
        values = 255 * generator.random(size) ** generator.integers(1, 30)
    elif kind == 2:
        values = np.repeat(generator.integers(0, 256, size), generator.integers(1, generator.integers(2, 600), size))
    elif kind == 3:
        values = np.cumsum(generator.integers(-3, 4, size)).clip(0, 255)
    elif kind == 4:
        weights = generator.dirichlet(np.full(generator.integers(1, 257), generator.random() * 2 + 1e-3))
        values = generator.choice(generator.permutation(256)[: len(weights)], size, p=weights)
    else:
        counts = [1, 1]
        while sum(counts) < size:
            counts.append(counts[-1] + counts[-2])
        values = generator.permutation(np.repeat(np.arange(len(counts)), counts)[:size])
    return np.asarray(values[:size]).astype(np.uint8).tobytes()


@given(st.integers(0, 2**32), st.integers(0, 5), st.integers(1, 900) | st.integers(1, 7000))
@settings(max_examples=1500)
def test_is_what_zlib_makes(seed: int, kind: int, size: int) -> None:
    data = bytes_of(np.random.default_rng(seed), kind, size)
    assert assert_same(data) >= 0 or len(data) > 4000


@given(st.binary(min_size=1, max_size=300))
def test_is_what_zlib_makes_of_any_bytes(data: bytes) -> None:
    assert assert_same(data) >= 0


def test_every_kind_of_block_is_made() -> None:
    generator = np.random.default_rng(0)
    made = {assert_same(bytes_of(generator, kind, size)) for kind in range(6) for size in (3, 50, 800, 3000)}
    assert made == {0, 1, 2}


def test_runs_of_any_length() -> None:
    for length in range(1, 1100):
        assert assert_same(b"a" * length) >= 0
        assert assert_same(b"ab" * 40 + bytes(length) + b"abc") >= 0


@pytest.mark.parametrize("longest", [15, 7])
def test_codes_that_would_be_too_long(longest: int) -> None:
    """Counts that double make codes as long as can be: of bytes, and of the lengths of codes."""
    generator = np.random.default_rng(1)
    for symbols in range(2, longest + 5):
        data = np.repeat(np.arange(symbols), [min(2**i, 2 ** (12 - symbols % 3)) for i in range(symbols)])[:4000]
        for _ in range(20):
            assert_same(generator.permutation(data).astype(np.uint8).tobytes())
            assert_same(generator.permutation(data * 3 % 251).astype(np.uint8).tobytes())


def test_limits() -> None:
    assert core.deflate_runs(b"") is None
    assert core.deflate_runs(bytes(7000)) == by_zlib(bytes(7000))
    assert core.deflate_runs(bytes(7001)) is None
    noise = np.random.default_rng(0).permutation(np.arange(7000) % 256).astype(np.uint8).tobytes()
    sizes = range(4050, 4120)
    done = [core.deflate_runs(noise[:size]) is not None for size in sizes]
    assert done == [size <= 4094 for size in sizes]
    assert all(assert_same(noise[:size]) >= 0 for size in (4093, 4094))


@given(
    st.sampled_from(["u1", "u2", ">u2"]).flatmap(
        lambda dtype: st_numpy.arrays(
            dtype, st.tuples(st.integers(1, 90), st.integers(1, 90), st.integers(1, 4)), elements={"max_value": 255}
        )
    ),
    st.booleans(),
)
def test_images(image: Any, turned: bool) -> None:
    if turned:
        image = image.transpose(1, 0, 2)
    native = png.encode(image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "core", None)
        assert native == png.encode(image)


@pytest.mark.parametrize("shape", [(1, 7000, 1), (7000, 1, 1), (4095, 1, 1), (1, 4095, 1), (63, 65, 1), (32, 32, 3)])
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
    assert core.small_png(b"x" * 65, b"abc", 1) is None
    assert core.small_png(b"x" * 64, b"abc", 3).startswith(b"x" * 64)
    assert core.small_png(b"", b"", 5) is not None  # rows of nothing but the number of their filter
    assert core.small_png(b"", b"a" * 2**20, 1) is None
    with pytest.raises(TypeError):
        core.deflate_runs("text")
