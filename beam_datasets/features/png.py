"""PNG, written without any library for images, so that the same array has the same bytes whatever is installed.

Small images have the same bytes everywhere. Those of large ones depend on zlib: all from 1.2 on make the same, its
reimplementations may not.
Source: https://www.w3.org/TR/png-3.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.features import png_stream
from beam_datasets.native import core

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_END = b"\0\0\0\0IEND\xaeB`\x82"
_COLOUR_TYPE = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> gray, gray and alpha, RGB, RGB and alpha
_SMALL = 4096
"""Below this many bytes rows are not filtered, and `png_stream` compresses them, which fit, be each of one byte."""

_BAND = 1 << 18  # bytes of rows that are filtered at once


def encode(image: NDArray[Any]) -> bytes:
    """Returns the PNG of an array of shape (height, width, 1 to 4 channels) and dtype uint8 or uint16.

    Raises:
        ValueError: it has no pixels, or more than 2**31 - 1 of them in a row or a column.
    """
    height, width, channels = image.shape
    if not (0 < height < 1 << 31 and 0 < width < 1 << 31):
        raise ValueError(f"a PNG cannot have {height} x {width} pixels")
    depth = image.dtype.itemsize
    pixels = np.ascontiguousarray(image, ">u2" if depth == 2 else np.uint8)
    beginning = _beginning(height, width, depth, channels)
    if core is not None and pixels.nbytes < _SMALL:
        file: bytes = core.small_png(beginning, pixels, height)
        return file
    rows = pixels.view(np.uint8).reshape(height, -1)
    data = _small_stream(rows) if rows.size < _SMALL else _large_stream(rows, channels * depth)
    return beginning + _chunk(b"IDAT", data) + _END


def _small_stream(rows: NDArray[np.uint8]) -> bytes:
    plain = np.zeros((len(rows), rows.shape[1] + 1), np.uint8)
    plain[:, 1:] = rows
    return png_stream.deflate(plain.tobytes())


def _large_stream(rows: NDArray[np.uint8], pixel: int) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, 15, 8, zlib.Z_FILTERED)
    band = max(1, _BAND // rows.shape[1])
    filtered = [_filtered(rows, start, start + band, pixel) for start in range(0, len(rows), band)]
    return b"".join([compressor.compress(part.tobytes()) for part in filtered]) + compressor.flush()


@lru_cache(maxsize=64)
def _beginning(height: int, width: int, depth: int, channels: int) -> bytes:
    """Returns what stands before the pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8 * depth, _COLOUR_TYPE[channels], 0, 0, 0)
    return SIGNATURE + _chunk(b"IHDR", header)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def _filtered(rows: NDArray[np.uint8], start: int, stop: int, pixel: int) -> NDArray[np.uint8]:
    """Returns rows [start, stop), each with the filter whose result is smallest, and the filter's number before it.

    Args:
        rows: the bytes of all rows.
        start: the first row.
        stop: behind the last row.
        pixel: how many bytes a pixel has.
    """
    band = rows[start:stop]
    above = np.zeros_like(band)
    above[1:] = band[:-1]
    if start:
        above[0] = rows[start - 1]
    left, above_left = np.zeros_like(band), np.zeros_like(band)
    left[:, pixel:] = band[:, :-pixel]
    above_left[:, pixel:] = above[:, :-pixel]
    average = ((left.astype(np.uint16) + above) >> 1).astype(np.uint8)
    candidates = (band, band - left, band - above, band - average, band - _paeth(left, above, above_left))
    # The sum of the bytes taken as signed numbers is the libpng authors' measure for how well a row will compress.
    sums = np.stack([np.minimum(part, 0 - part).sum(axis=1, dtype=np.int64) for part in candidates])
    best = sums.argmin(axis=0)
    out = np.empty((len(band), band.shape[1] + 1), np.uint8)
    out[:, 0] = best
    for number, part in enumerate(candidates):
        chosen = best == number
        out[chosen, 1:] = part[chosen]
    return out


def _paeth(left: NDArray[np.uint8], above: NDArray[np.uint8], above_left: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns for each byte the neighbour that is nearest to left + above - above_left; of equals the first."""
    a, b, c = left.astype(np.int16), above.astype(np.int16), above_left.astype(np.int16)
    to_left, to_above = np.abs(b - c), np.abs(a - c)
    to_corner = np.abs(a + b - 2 * c)
    nearer = np.where(to_above <= to_corner, above, above_left)
    return np.where((to_left <= to_above) & (to_left <= to_corner), left, nearer)
