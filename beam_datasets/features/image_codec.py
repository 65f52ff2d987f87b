"""Conversion of image files to pixels and back: PNG and JPEG by imagecodecs, other formats by Pillow.

If the image has other channels or another depth than the feature, it is converted as in TensorFlow. JPEG is decoded
with the accurate inverse DCT; TensorFlow's default is a faster one, whose pixels differ by a few levels.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import InputError, MissingDependencyError
from beam_datasets.extras import needs
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake import jpeg
from beam_datasets.intake.errors import reason
from beam_datasets.intake.images import check_image, check_size
from beam_datasets.intake.pictures import deep_pixels, open_by_pillow, pixels_of
from beam_datasets.intake.signatures import JPEG_PREFIX, PNG_PREFIX

_PNG_END, _JPEG_END = b"\0\0\0\0IEND\xaeB`\x82", b"\xff\xd9"
_PNG_HEADER = struct.Struct(">16xIIB")  # width, height, bits of a channel
_MAX_EXPANSION = 1032  # bytes that deflate can make of one
_PNG_RUNS = 3  # the strategy that compresses runs of equal bytes: a seventh of the default's time for photographs
_PNG_PLAIN, _PNG_PAETH = 0x08, 0x80  # filters of rows
_PNG_SMALL = 4096  # bytes below which filters make files larger
_MAX_PNG_SIDE = 1_000_000  # pixels in a row or column that libpng reads and writes
_JPEG_QUALITY = 95  # TensorFlow's
_GRAY = np.array([9798, 19235, 3735], np.uint32)  # red, green and blue of 32768 (libpng's rounding of ITU-R 601-2)


def check_png_size(height: int, width: int) -> None:
    """Checks that an image is not too high or too wide for a PNG.

    Raises:
        InputError: the image is too high or too wide.
    """
    if max(height, width) > _MAX_PNG_SIDE:
        raise InputError(
            expected=f"at most {_MAX_PNG_SIDE:,} pixels in a row or column of an image that is stored as PNG",
            got=f"{height} x {width} pixels",
            advice="Cut it into tiles: this is a limit of libpng, which no option raises",
        )


def encode(pixels: NDArray[Any], kind: str, quality: int = _JPEG_QUALITY) -> bytes:
    """Returns the content of the image file of an array.

    Args:
        pixels: an array of shape (height, width, channels): uint8 or uint16 with 1 to 4 channels for PNG, uint8 with 1
            or 3 channels for JPEG.
        kind: "png" or "jpeg".
        quality: the quality of JPEG, 1 to 100.

    Raises:
        ValueError: the format cannot hold the array, for instance one without pixels.
        MissingDependencyError: imagecodecs is not installed.
    """
    codecs = _import_imagecodecs()
    if kind == "png":
        check_png_size(*pixels.shape[:2])
    array = np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels, pixels.dtype.newbyteorder("="))
    if 1 in array.shape:  # whose strides may be any, which imagecodecs refuses
        array = array.copy()
    try:
        if kind == "jpeg":
            return bytes(codecs.jpeg8_encode(array, quality, subsampling="420"))
        row_filter = _PNG_PLAIN if array.nbytes < _PNG_SMALL else _PNG_PAETH
        return bytes(codecs.png_encode(array, level=1, strategy=_PNG_RUNS, filter=row_filter))
    except RuntimeError as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=2)
def encoder_version(kind: str) -> str:
    """Returns the name and version of the library that encodes "png" or "jpeg", which determine the bytes of files.

    >>> encoder_version("png").split()[0]
    'imagecodecs'
    """
    codecs = _import_imagecodecs()
    codec_version = codecs.jpeg8_version() if kind == "jpeg" else codecs.png_version()
    return f"imagecodecs {codecs.__version__} ({codec_version})"


def decoder(channels: int, dtype: np.dtype[Any]) -> Callable[[bytes], NDArray[Any]]:
    """Returns the function from the bytes of an image file to its pixels.

    Args:
        channels: the number of channels of the pixels; 0 for that of the image.
        dtype: uint8 or uint16.

    The function returns shape (height, width, channels); (frames, height, width, 3) for a GIF. It raises ValueError
    if the bytes are not an image, and MissingDependencyError if imagecodecs or Pillow is needed and missing.
    """

    def decode(data: bytes) -> NDArray[Any]:
        """Returns the pixels of the content of an image file."""
        try:
            pixels, bits = _decode_pixels(data, gray=channels == 1)
            if pixels.ndim == 4:
                return pixels.astype(dtype)
            return convert_channels(_convert_depth(pixels, bits, dtype, data), channels)
        except MissingDependencyError:
            raise
        except Exception as error:  # libraries raise whatever they meet in damaged files
            raise ValueError(
                f"cannot decode image ({len(data):,} bytes): {_explain_decode_error(data, error)}"
            ) from error

    return decode


def _explain_decode_error(data: bytes, error: Exception) -> str:
    """Returns why an image cannot be decoded: the text of `check_image`, as in a build and `verify`, if it finds it.

    Args:
        data: the content of the file.
        error: what a library or this module raised. The text of a library may be about other things, such as UTF-8
            where the name of a chunk is damaged.
    """
    if type(error) is InputError:
        return str(error)
    if data[:8] == PNG_PREFIX or data[:3] == JPEG_PREFIX:
        try:
            check_image(data)
        except InputError as check_error:
            return str(check_error)
    return reason(error)


def decode_into(data: bytes, pixels: NDArray[Any]) -> bool:
    """Decodes a PNG or JPEG into an array, without a copy, and returns whether it succeeded.

    It fails for other formats, for damaged files, and for images with another shape or dtype than the array. The
    content of the array is then undefined.

    Args:
        data: the content of the file.
        pixels: the output, of shape (height, width) for gray, (height, width, 3) for RGB or (height, width, 4) for
            RGBA; uint8 or uint16.
    """
    codecs = _import_imagecodecs()
    try:
        if data[:8] == PNG_PREFIX:
            return data.endswith(_PNG_END) and codecs.png_decode(data, out=pixels) is pixels
        if data[:3] == JPEG_PREFIX and data.endswith(_JPEG_END):
            space = "GRAYSCALE" if pixels.ndim == 2 else "RGB"
            return codecs.jpeg8_decode(data, outcolorspace=space, out=pixels) is pixels
    except (ValueError, RuntimeError):  # of another form, or damaged: `decoder` reports it
        pass
    return False


def _decode_pixels(data: bytes, *, gray: bool) -> tuple[NDArray[Any], int]:
    """Returns the pixels of an image file, of shape (height, width, channels), and the bits of a channel.

    Args:
        data: the content of the file. The colours of a palette are resolved.
        gray: whether a JPEG in colour is decoded to its luminance only.
    """
    if data[:8] == PNG_PREFIX:
        pixels = _decode_png(data)
        bits = 8 * pixels.itemsize
    elif data[:3] == JPEG_PREFIX and data.endswith(_JPEG_END):
        pixels, bits = _decode_jpeg(data, gray=gray)
    else:
        pixels, bits = _decode_by_pillow(data, gray=gray)
    return (pixels[..., None] if pixels.ndim == 2 else pixels), bits


def _decode_png(data: bytes) -> NDArray[Any]:
    """Returns the pixels of a PNG, (height, width) or (height, width, channels); checks the size before decoding.

    The alpha channel of gray images with a transparent level is dropped.

    Raises:
        ValueError: the file is truncated.
        InputError: it is too small for the number of pixels in its header.
    """
    if not data.endswith(_PNG_END) and _PNG_END not in data:  # endswith first: the search is O(n)
        raise ValueError("truncated file")
    width, height, bits = _PNG_HEADER.unpack_from(data)
    if width * height * bits > 8 * _MAX_EXPANSION * len(data):  # before memory is taken for them
        raise InputError(f"a file of this size cannot have {height} x {width} pixels")
    check_size(height, width)
    pixels: NDArray[Any] = _import_imagecodecs().png_decode(data)
    has_transparent_gray = data[25] == 0 and pixels.ndim == 3
    return np.ascontiguousarray(pixels[..., 0]) if has_transparent_gray else pixels


def _decode_jpeg(data: bytes, *, gray: bool) -> tuple[NDArray[Any], int]:
    """Returns (pixels of a JPEG, bits of a channel); gray pixels have the shape (height, width). Pillow decodes CMYK.

    Args:
        data: the content of the file.
        gray: whether an image in colour is decoded to its luminance only.
    """
    bits, height, width, channels = jpeg.read_frame(data)
    check_size(height, width)
    if channels == 4:  # CMYK
        return _decode_by_pillow(data, gray=gray)
    space = "GRAYSCALE" if gray and channels == 3 else None
    return _import_imagecodecs().jpeg8_decode(data, outcolorspace=space), bits


def _decode_by_pillow(data: bytes, *, gray: bool) -> tuple[NDArray[Any], int]:
    """Returns the pixels of an image file that Pillow decodes, and the bits of a channel.

    A GIF gives the pixels of all frames, of shape (frames, height, width, 3).

    Args:
        data: the content of the file.
        gray: whether a JPEG in colour is decoded to its luminance only.

    Raises:
        ValueError: the format is unknown.
    """
    kind = formats.detect_format(data)
    if kind not in formats.READABLE:
        raise ValueError(f"unknown format, beginning with {data[:8]!r}" if data else "no data")
    if (deep := deep_pixels(data, kind)) is not None:
        return deep
    with open_by_pillow(data, kind) as picture:
        if kind == formats.GIF:
            from PIL import ImageSequence

            check_size(picture.n_frames * picture.size[1], picture.size[0])
            return np.stack([np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(picture)]), 8
        if gray and kind == formats.JPEG:
            picture.draft("L", picture.size)  # the luminance as it is stored
        return pixels_of(picture, kind), 8


def _convert_depth(pixels: NDArray[Any], bits: int, dtype: np.dtype[Any], data: bytes) -> NDArray[Any]:
    """Returns pixels converted to another number of bits per channel.

    From 8 to 16 bits, numbers are multiplied by 257 for a PNG file, such as 255 to 65535, and by 256 for others. From
    16 to 8 bits, the upper 8 of the `bits` are kept.

    Args:
        pixels: an array of uint8 or uint16.
        bits: the number of bits of a channel in the file.
        dtype: the dtype of the result, uint8 or uint16.
        data: the content of the file, whose format determines the conversion.

    Raises:
        ValueError: the file is a JPEG of more than 8 bits, and the dtype is uint8.
    """
    if pixels.dtype == dtype:
        return pixels
    if dtype == np.uint8:
        if data[:3] == JPEG_PREFIX:
            raise ValueError(f"it has {bits} bits a channel, which a feature with dtype=np.uint16 keeps")
        return (pixels >> (bits - 8)).astype(np.uint8)
    return pixels.astype(dtype) * (257 if data[:8] == PNG_PREFIX else 256)


def convert_channels(pixels: NDArray[Any], channels: int) -> NDArray[Any]:
    """Returns pixels converted to another number of channels.

    Args:
        pixels: an array of shape (height, width, channels).
        channels: 1 for gray, 2 for gray and alpha, 3 for RGB, 4 for RGB and alpha, 0 for no conversion. A missing alpha
            channel is opaque.
    """
    num_channels = pixels.shape[2]
    if channels in (0, num_channels):
        return pixels
    colour = pixels[..., : num_channels - 1] if num_channels in (2, 4) else pixels
    if colour.shape[2] == 3 and channels < 3:
        colour = ((colour.astype(np.uint32) @ _GRAY) >> 15).astype(pixels.dtype)[..., None]
    elif channels >= 3:
        colour = np.broadcast_to(colour, (*colour.shape[:2], 3))
    if channels in (1, 3):
        return np.ascontiguousarray(colour)
    opaque = np.full((*pixels.shape[:2], 1), np.iinfo(pixels.dtype).max, pixels.dtype)
    return np.concatenate([colour, pixels[..., -1:] if num_channels in (2, 4) else opaque], axis=2)


@lru_cache(maxsize=1)
def _import_imagecodecs() -> ModuleType:
    """Returns the module imagecodecs, whose warnings are hidden unless its logger has a level.

    Raises:
        MissingDependencyError: imagecodecs is not installed.
    """
    with needs("images need imagecodecs", "image"):
        import imagecodecs
    logger = logging.getLogger("imagecodecs")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)  # it warns of each interlaced PNG, for instance
    return imagecodecs
