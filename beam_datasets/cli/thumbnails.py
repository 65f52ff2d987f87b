"""Images as characters of a terminal: each is two pixels, its foreground above its background, in 24-bit colours.

Escape sequences: ISO 8613-6 (`ESC [ 38 ; 2 ; r ; g ; b m`); U+2580 is the upper half block.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

_LEAST = 16  # columns of an image that has fewer pixels
_UPPER, _RESET = "▀", "\x1b[0m"


def terminal_shows_colours() -> bool:
    """Returns whether standard output is a terminal, of a user who did not ask for no colours (no-color.org)."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def thumbnail(image: NDArray[Any], columns: int) -> list[str]:
    """Returns the lines that show an image.

    Args:
        image: pixels of shape (height, width, channels), or of several frames, of which the first is shown; 1 channel
            is gray, 2 are gray and alpha, 3 RGB, 4 RGB and alpha.
        columns: the most characters of a line.
    """
    pixels = _resized(to_rgb(image[0] if image.ndim == 4 else image), columns)
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    return [_line(above, below) for above, below in zip(pixels[::2].tolist(), pixels[1::2].tolist())]


def _line(above: list[list[int]], below: list[list[int]]) -> str:
    colours = [";".join(map(str, [38, 2, *upper, 48, 2, *lower])) for upper, lower in zip(above, below)]
    changes = [f"\x1b[{now}m" if now != before else "" for before, now in zip(["", *colours], colours)]
    return "".join(change + _UPPER for change in changes) + _RESET


def to_rgb(image: NDArray[Any]) -> Pixels:
    """Returns an image of shape (height, width, channels) as RGB: floats between their extremes, alpha over white."""
    pixels: NDArray[Any] = _to_bytes(image).astype(np.float32)
    if image.shape[-1] in (2, 4):
        alpha = pixels[..., -1:] / 255
        pixels = pixels[..., :-1] * alpha + 255 * (1 - alpha)
    colours = pixels if pixels.shape[-1] == 3 else np.repeat(pixels[..., :1], 3, axis=-1)
    return colours.round().astype(np.uint8)


def _to_bytes(image: NDArray[Any]) -> NDArray[Any]:
    if image.dtype == np.uint8:
        return image
    if image.dtype.kind in "iu":
        high_bits: NDArray[Any] = (image >> (8 * (image.dtype.itemsize - 1))).astype(np.uint8)
        return high_bits
    finite = np.nan_to_num(image.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    grays: NDArray[Any] = ((finite - low) / max(high - low, 1e-30) * 255).astype(np.uint8)
    return grays


def _resized(pixels: Pixels, columns: int) -> Pixels:
    """Returns the image with at most so many columns: means of blocks; a tiny one with each pixel repeated."""
    height, width = pixels.shape[:2]
    if not height or not width:
        return np.zeros((0, 0, 3), np.uint8)
    if width < _LEAST:
        times = min(-(-_LEAST // width), max(1, columns // width))
        return pixels.repeat(times, axis=0).repeat(times, axis=1)
    wide = min(width, columns)
    high = max(1, round(height * wide / width))
    return _means(_means(pixels.astype(np.float32), high, 0), wide, 1).round().astype(np.uint8)


def _means(pixels: NDArray[Any], count: int, axis: int) -> NDArray[Any]:
    """Returns the means of `count` stretches along an axis."""
    length = pixels.shape[axis]
    count = min(count, length)
    starts = np.arange(count) * length // count
    sizes = np.diff(np.append(starts, length))
    sums = np.add.reduceat(pixels, starts, axis=axis)
    means: NDArray[Any] = sums / sizes.reshape([-1 if i == axis else 1 for i in range(pixels.ndim)])
    return means
