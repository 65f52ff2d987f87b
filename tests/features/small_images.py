"""Bytes and images as small pictures have them, and such that try the codes of their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def _doubling(generator: Any, size: int) -> Any:
    """Values of which each occurs about twice as often as the next, or as often as the next two: very long codes."""
    counts = [1, 1]
    factor = generator.choice([1.0, 1.618, 2.0, 3.0])
    while sum(counts) < size and len(counts) < 256:
        counts.append(int(counts[-1] * factor) + 1)
    return generator.permutation(np.repeat(generator.permutation(256)[: len(counts)], counts))


def _runs(generator: Any, size: int) -> Any:
    return np.repeat(generator.integers(0, 256, size), generator.integers(1, generator.integers(2, 600), size))


def _few(generator: Any, size: int) -> Any:
    weights = generator.dirichlet(np.full(generator.integers(1, 257), generator.random() * 2 + 1e-3))
    return generator.choice(generator.permutation(256)[: len(weights)], size, p=weights)


def _strokes(generator: Any, size: int) -> Any:
    """Dark, but for some lines with soft edges."""
    values = np.zeros(size)
    for start in generator.integers(0, size, size // 40 + 1):
        values[start : start + generator.integers(1, 12)] = generator.choice([40, 128, 255])
    return values


_KINDS: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda generator, size: np.full(size, generator.integers(0, 256)),
    "noise": lambda generator, size: generator.integers(0, generator.integers(1, 257), size),
    "dark": lambda generator, size: 255 * generator.random(size) ** generator.integers(1, 30),
    "runs": _runs,
    "gradient": lambda generator, size: np.arange(size) * generator.integers(1, 50) // generator.integers(1, 50) % 256,
    "smooth": lambda generator, size: np.cumsum(generator.integers(-3, 4, size)).clip(0, 255),
    "few": _few,
    "strokes": _strokes,
    "doubling": _doubling,
}
KINDS = tuple(_KINDS)


def bytes_of(generator: np.random.Generator, kind: str, size: int) -> bytes:
    """Returns at most so many bytes."""
    return np.asarray(_KINDS[kind](generator, size)[:size]).astype(np.uint8).tobytes()


@st.composite
def images(draw: st.DrawFn) -> NDArray[Any]:
    """Draws images of 8 or 16 bits; most of them are small enough not to be filtered."""
    dtype = draw(st.sampled_from(["u1", "u2", ">u2"]))
    shape = draw(st.tuples(st.integers(1, 80), st.integers(1, 80), st.integers(1, 4)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    data = bytes_of(generator, draw(st.sampled_from(KINDS)), size)
    image = np.frombuffer(data.ljust(size, b"\0"), dtype).reshape(shape)
    return image.transpose(1, 0, 2) if draw(st.booleans()) else image
