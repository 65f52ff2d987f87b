"""PNG to pixels without a library for images: in C where that was built, else in Python for what `png.encode` makes.

What is not decoded here (palettes, fewer than 8 bits, transparent colours, interlaced rows, animations, damage) is for
a library: the functions return None. Those that are have the same pixels as a library finds.
Source: https://www.w3.org/TR/png-3.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_datasets.features.png import SIGNATURE
from beam_datasets.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_END = b"\0\0\0\0IEND\xaeB`\x82"
_CHANNELS = {0: 1, 4: 2, 2: 3, 6: 4}  # by the colour type: gray, gray and alpha, RGB, RGB and alpha
_COLOUR_TYPES = {channels: colour for colour, channels in _CHANNELS.items()}
_IDAT_CRC = zlib.crc32(b"IDAT")
_SMALL = 1 << 14  # bytes of rows that are decoded in Python
_MOST_EXPANDED = 1032  # bytes that deflate can make of one
_BAND = 1 << 18  # bytes of rows of several images that are decompressed before their filters are undone


class Form(NamedTuple):
    """What a PNG that is decoded here says of itself.

    Attributes:
        header: the same as it stands in the file.
        beginning: what stands before the pixels, where nothing but the header does.
        shape: (height, width, channels).
        dtype: uint8 or uint16.
        stride: bytes of a row of pixels.
        pixel: bytes of a pixel.
        size: bytes of the filtered rows, each with the number of its filter.
    """

    header: bytes
    beginning: bytes
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    stride: int
    pixel: int
    size: int


@lru_cache(maxsize=256)
def _form(header: bytes) -> Form | None:
    """Returns what a header says; None where it is none, or says something that is not decoded here."""
    if len(header) != 13:
        return None
    width, height, bits, colour, *rest = struct.unpack(">IIBBBBB", header)
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        return None
    if colour not in _CHANNELS or bits not in (8, 16) or any(rest):
        return None
    channels, dtype = _CHANNELS[colour], np.dtype(np.uint8 if bits == 8 else np.uint16)
    pixel, chunk = channels * dtype.itemsize, b"IHDR" + header
    beginning = SIGNATURE + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    shape = height, width, channels
    return Form(header, beginning, shape, dtype, width * pixel, pixel, height * (1 + width * pixel))


def decode(data: bytes) -> NDArray[Any] | None:
    """Returns the pixels of a PNG of 8 or 16 bits, not interlaced and without a palette; None for any other data.

    The array has the shape (height, width, channels), and the dtype uint8 or uint16.
    """
    form = _form(data[16:29]) if data[:8] == SIGNATURE else None
    return None if form is None else decode_one(data, form)


def form_of(shape: tuple[int, int, int], dtype: Any) -> Form | None:
    """Returns the form of the PNGs of a shape (height, width, channels) and a dtype; None where there are none."""
    height, width, channels = shape
    if channels not in _COLOUR_TYPES or not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        return None
    return _form(struct.pack(">IIBBBBB", width, height, 8 * np.dtype(dtype).itemsize, _COLOUR_TYPES[channels], 0, 0, 0))


def decode_one(file: bytes, form: Form) -> NDArray[Any] | None:
    """Returns the pixels of a PNG of a form, as `decode` does; None where it is of another."""
    if core is None:
        found = _decode_plain([file], form)
        return None if found is None else found[0]
    if not _fits(file, form):
        return None
    pixels = np.empty(form.shape, form.dtype)
    return pixels if _decode_into(pixels, [file], form) else None


def one_decoder(form: Form) -> Callable[[bytes], NDArray[Any] | None]:
    """Returns the function that does what `decode_one` does for a form; for small images it has fewer steps."""
    if core is None or form.size > _SMALL or form.dtype.itemsize != 1:
        return lambda file: decode_one(file, form)
    compressed, unfilter, inflate = core.png_compressed, core.png_unfilter, _inflater()
    header, _, shape, dtype, stride, pixel, size = form
    height = shape[0]

    def decode(file: bytes) -> NDArray[Any] | None:
        data = compressed(file, header)
        plain = None if data is None else inflate(data, size)
        if plain is None or len(plain) != size:
            return None
        pixels = np.empty(shape, dtype)
        return pixels if unfilter([plain], pixels, height, stride, pixel) else None

    return decode


def decode_many(files: Sequence[bytes], form: Form) -> NDArray[Any] | None:
    """Returns the pixels of PNGs of one form, as `decode` does; None where one is of another form.

    The array has the shape (files, height, width, channels).
    """
    if core is None:
        return _decode_plain(files, form)
    if not files or not _fits(min(files, key=len), form):
        return None
    pixels = np.empty((len(files), *form.shape), form.dtype)
    some = max(1, _BAND // form.size)
    if len(files) <= some:
        return pixels if _decode_into(pixels, files, form) else None
    for start in range(0, len(files), some):
        if not _decode_into(pixels[start : start + some], files[start : start + some], form):
            return None
    return pixels


def _fits(data: bytes, form: Form) -> bool:
    """Returns whether a file may have so many pixels: else no memory is taken for them."""
    return form.size <= _SMALL or form.size <= _MOST_EXPANDED * len(data)


def _decode_into(pixels: NDArray[Any], files: Sequence[bytes], form: Form) -> bool:
    """Puts the pixels of files into an array; returns whether all are of that form."""
    compressed, unfilter, inflate = core.png_compressed, core.png_unfilter, _inflater()  # type: ignore[union-attr]
    header, size, rows = form.header, form.size, []
    for file in files:
        data = compressed(file, header)
        plain = None if data is None else inflate(data, size)
        if plain is None or len(plain) != size:
            return False
        rows.append(plain)
    if not unfilter(rows, pixels, form.shape[0], form.stride, form.pixel):
        return False
    if form.dtype.itemsize == 2:
        pixels.byteswap(inplace=True)
    return True


@lru_cache(maxsize=1)
def _inflater() -> Callable[[bytes, int], bytes | bytearray | None]:
    """Returns the function that decompresses data to at most so many bytes; it yields None where that fails.

    libdeflate takes half the time of zlib.
    """
    try:
        from deflate import DeflateError, zlib_decompress
    except ImportError:
        return _inflate

    def inflate(data: bytes, size: int) -> bytes | bytearray | None:
        try:
            return zlib_decompress(data, size)
        except DeflateError:
            return None

    return inflate


def _inflate(data: bytes, size: int) -> bytes | None:
    try:
        if len(data) < _SMALL:  # nothing large can come of it
            return zlib.decompress(data, bufsize=size)
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error:
        return None


# -------------------------------------------------------------------------------------------------------- in Python


def _decode_plain(files: Sequence[bytes], form: Form) -> NDArray[Any] | None:
    """Decodes small PNGs whose rows are not filtered, as `png.encode` makes them."""
    if form.size >= _SMALL:
        return None
    plain: list[Any] = [_plain_rows(file, form.beginning, form.size) for file in files]
    if None in plain:
        return None
    joined = plain[0] if len(plain) == 1 else b"".join(plain)
    if joined[:: 1 + form.stride].strip(b"\0"):  # the numbers of filters
        return None
    rows: NDArray[Any] = np.frombuffer(joined, np.uint8).reshape(-1, 1 + form.stride)
    pixels = rows[:, 1:].copy()
    if form.pixel != form.shape[2]:
        pixels = pixels.view(">u2").astype(np.uint16)
    return pixels.reshape(len(files), *form.shape)


def _plain_rows(file: bytes, beginning: bytes, size: int) -> bytes | None:
    """Returns the rows of a PNG with this beginning, of `size` bytes in all; None where it is not as `encode` does."""
    compressed = file[41:-16]
    head = struct.pack(">I4s", len(compressed), b"IDAT")
    if file[:41] != beginning + head or file[-12:] != _END or len(compressed) > _SMALL:
        return None
    if zlib.crc32(compressed, _IDAT_CRC).to_bytes(4, "big") != file[-16:-12]:
        return None
    rows = _inflate(compressed, size)
    return rows if rows is not None and len(rows) == size else None
