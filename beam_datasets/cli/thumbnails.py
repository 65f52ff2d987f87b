"""Thumbnails of images as characters of a terminal: a character is two pixels, foreground above background.

Escape sequences: ISO 8613-6 (`ESC [ 38 ; 2 ; r ; g ; b m`); U+2580 is the upper half block.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import MissingDependencyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIN_COLUMNS = 16  # images with fewer pixels are enlarged
_UPPER, _RESET = "▀", "\x1b[0m"


def terminal_shows_colours() -> bool:
    """Returns whether thumbnails can be shown: on a terminal, unless NO_COLOR is set (no-color.org), with Pillow."""
    shown = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return shown and importlib.util.find_spec("PIL") is not None


def thumbnail(array: NDArray[Any], columns: int) -> list[str]:
    """Returns the lines that show an image.

    Args:
        array: see `to_image`; of several frames the first is shown.
        columns: maximum number of characters of a line.
    """
    if not array.size:
        return []
    image = to_image(array[0] if array.ndim == 4 else array)
    times = max(1, min(-(-_MIN_COLUMNS // image.width), columns // image.width))
    width = min(image.width, columns)
    height = max(1, round(image.height * width / image.width))
    pixels = np.asarray(image.resize((width, height), _pillow().Resampling.BOX))  # means
    pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    return [_line(above, below) for above, below in zip(pixels[::2].tolist(), pixels[1::2].tolist())]


def _line(above: list[list[int]], below: list[list[int]]) -> str:
    colours = [";".join(map(str, [38, 2, *upper, 48, 2, *lower])) for upper, lower in zip(above, below)]
    changes = [f"\x1b[{now}m" if now != before else "" for before, now in zip(["", *colours], colours)]
    return "".join(change + _UPPER for change in changes) + _RESET


def to_image(array: NDArray[Any]) -> Any:
    """Returns pixels as an RGB image of Pillow: alpha over white, floats between their extremes.

    Args:
        array: shape (height, width, channels); 1 channel is gray, 2 are gray and alpha, 3 RGB, 4 RGB and alpha.

    Raises:
        MissingDependencyError: Pillow is not installed.
    """
    Image = _pillow()
    pixels = _to_bytes(array)
    image = Image.fromarray(pixels if 2 <= pixels.shape[-1] <= 4 else pixels[..., 0]).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("thumbnails need Pillow: pip install 'beam_datasets[image]'") from error
    return Image


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
