"""Images of examples as images of Pillow, and as the files that records have: for `head`, `explore` and `site`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import needs
from beam_datasets.features import RaggedArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def to_image(array: NDArray[Any]) -> Any:
    """Returns pixels as an RGB image of Pillow: alpha over white, floats between their extremes.

    Args:
        array: shape (height, width, channels); 1 channel is gray, 2 are gray and alpha, 3 RGB, 4 RGB and alpha.

    Raises:
        MissingDependencyError: Pillow is not installed.
    """
    with needs("pictures need Pillow", "image"):
        from PIL import Image
    pixels = _to_bytes(array)
    image = Image.fromarray(pixels if 2 <= pixels.shape[-1] <= 4 else pixels[..., 0]).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


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


def files_in(value: Any) -> Iterator[bytes]:
    """Yields the files of a value that was not decoded, in order."""
    if isinstance(value, bytes):
        yield value
    elif value is not None:
        for item in value.flat_values if isinstance(value, RaggedArray) else value:
            yield from files_in(item)
