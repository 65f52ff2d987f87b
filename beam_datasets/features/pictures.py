"""Encoded images to pixels, by OpenCV or Pillow, whichever is installed; with the channels that a feature asks for.

Where the image has other channels or another depth than the feature, it is converted as TensorFlow does. JPEG is
decoded with the accurate inverse DCT; TensorFlow's default is a faster one, whose pixels differ by a few levels.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import MissingDependencyError
from beam_datasets.features import png, png_decoding

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

_JPEG, _JPEG_END, _GIF = b"\xff\xd8\xff", b"\xff\xd9", b"GIF8"
_QUALITY = 95  # TensorFlow's
_GRAY = np.array([9798, 19235, 3735], np.uint32)  # red, green and blue of 32768 (libpng's rounding of ITU-R 601-2)


def encode_jpeg(image: NDArray[np.uint8]) -> bytes:
    """Returns the JPEG of an array of shape (height, width, 1 or 3), of quality 95."""
    cv2 = _opencv()
    if cv2 is not None:
        ordered = image if image.shape[2] == 1 else image[..., ::-1]
        done, data = cv2.imencode(".jpg", ordered, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        if not done:
            raise ValueError(f"OpenCV cannot encode an image of the shape {image.shape} as JPEG")
        return bytes(data)
    target = io.BytesIO()
    picture = _pillow().fromarray(image[..., 0] if image.shape[2] == 1 else image)
    picture.save(target, format="JPEG", quality=_QUALITY)
    return target.getvalue()


def decoder(channels: int, dtype: np.dtype[Any]) -> Callable[[bytes], NDArray[Any]]:
    """Returns the function from the bytes of a PNG, JPEG, BMP or GIF to pixels.

    Args:
        channels: how many channels the pixels shall have; 0 for as many as the image has.
        dtype: uint8 or uint16.

    The function yields shape (height, width, channels); (frames, height, width, 3) for a GIF. It raises ValueError
    where the bytes are no image, and MissingDependencyError where neither OpenCV nor Pillow is installed.
    """

    def decode(data: bytes) -> NDArray[Any]:
        pixels = png_decoding.decode(data)
        if pixels is not None:
            if pixels.shape[2] == channels and pixels.dtype == dtype:
                return pixels
        elif data[:4] == _GIF:
            return _decode_gif(data).astype(dtype)
        else:
            pixels = _decode(data, gray=channels == 1 and data[:3] == _JPEG)
        return _with_channels(_with_depth(pixels, dtype, is_png=data[:8] == png.SIGNATURE), channels)

    return decode


def _decode(data: bytes, *, gray: bool) -> NDArray[Any]:
    """Returns the pixels as they are stored (a palette resolved), of shape (height, width, channels)."""
    cv2 = _opencv()
    if cv2 is None or (data[:3] == _JPEG and data[-2:] != _JPEG_END):  # OpenCV takes the rest of a JPEG for gray
        return _decode_with_pillow(data, gray=gray)
    flags = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION if gray else cv2.IMREAD_UNCHANGED
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise ValueError(f"OpenCV cannot decode the image: {error}") from error
    if pixels is None:
        raise ValueError(f"{len(data)} bytes that begin with {data[:8]!r} are no image")
    if pixels.ndim == 2:
        return pixels[..., None]  # type: ignore[no-any-return]
    if data[:8] == png.SIGNATURE and data[25:26] == b"\x04":  # gray and alpha, which OpenCV makes four channels of
        return np.ascontiguousarray(pixels[..., 2:])
    order = cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA
    return cv2.cvtColor(pixels, order)  # type: ignore[no-any-return]


def _decode_with_pillow(data: bytes, *, gray: bool) -> NDArray[Any]:
    image = _pillow()
    try:
        with image.open(io.BytesIO(data)) as picture:
            if data[:8] == png.SIGNATURE and data[24:25] == b"\x10" and picture.mode not in ("I", "I;16", "I;16B"):
                raise MissingDependencyError("16-bit colour images need OpenCV: pip install 'beam_datasets[image]'")
            if picture.mode.startswith("I"):
                return np.asarray(picture).astype(np.uint16)[..., None]
            if gray:
                picture.draft("L", picture.size)
            mode = {"1": "L", "P": "RGBA" if "transparency" in picture.info else "RGB", "CMYK": "RGB"}.get(picture.mode)
            pixels = np.array(picture.convert("L" if gray else mode or picture.mode))
    except MissingDependencyError:
        raise
    except (OSError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"{len(data)} bytes that begin with {data[:8]!r} are no image: {error}") from error
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _decode_gif(data: bytes) -> NDArray[np.uint8]:
    """Returns the frames of a GIF, of shape (frames, height, width, 3)."""
    image = _pillow()
    from PIL import ImageSequence

    try:
        with image.open(io.BytesIO(data)) as picture:
            return np.stack([np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(picture)])
    except (OSError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"the GIF cannot be decoded: {error}") from error


def _with_depth(pixels: NDArray[Any], dtype: np.dtype[Any], *, is_png: bool) -> NDArray[Any]:
    """Returns pixels of another number of bits."""
    if pixels.dtype == dtype:
        return pixels
    if dtype == np.uint8:
        return (pixels >> 8).astype(np.uint8)
    return pixels.astype(dtype) * (257 if is_png else 256)


def _with_channels(pixels: NDArray[Any], channels: int) -> NDArray[Any]:
    """Returns pixels of another number of channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha."""
    found = pixels.shape[2]
    if channels in (0, found):
        return pixels
    colour = pixels[..., : found - 1] if found in (2, 4) else pixels
    if colour.shape[2] == 3 and channels < 3:
        colour = ((colour.astype(np.uint32) @ _GRAY) >> 15).astype(pixels.dtype)[..., None]
    elif channels >= 3:
        colour = np.broadcast_to(colour, (*colour.shape[:2], 3))
    if channels in (1, 3):
        return np.ascontiguousarray(colour)
    opaque = np.full((*pixels.shape[:2], 1), np.iinfo(pixels.dtype).max, pixels.dtype)
    return np.concatenate([colour, pixels[..., -1:] if found in (2, 4) else opaque], axis=2)


@lru_cache(maxsize=1)
def _opencv() -> ModuleType | None:
    """Returns OpenCV, or None where it is not installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2


def _pillow() -> ModuleType:
    """Returns Pillow's Image module."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("images need OpenCV or Pillow: pip install 'beam_datasets[image]'") from error
    return Image
