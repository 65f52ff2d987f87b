"""Structural checks of PNG files: lengths and CRCs of all chunks, and presence of those that decoders need."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from beam_datasets.errors import InputError
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake.image_formats import DamagedError, ImageHeader, is_image_at

_CHUNK, _CRC = struct.Struct(">I4s"), struct.Struct(">I")
_IHDR = struct.Struct(">IIBBBBB")
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # colour type -> channels; 3 is a palette of RGB colours
_BITS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # colour type -> possible bits
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_METADATA = frozenset({b"eXIf", b"iTXt", b"zTXt", b"tEXt"})  # texts may be EXIF or XMP data
_MAX_CHUNK = (1 << 31) - 1


def read_header(data: bytes) -> ImageHeader:
    """Checks all chunks of a PNG up to IEND, and returns its header; other bytes may follow IEND.

    Raises:
        DamagedError: the file is damaged.
        InputError: it is of a kind that decoders do not read.
    """
    crc32, chunk, crc, view, size = _crc32(), _CHUNK.unpack_from, _CRC.unpack_from, memoryview(data), len(data)
    chunk_sizes: dict[bytes, int] = {}  # kind -> total size of its chunks in bytes
    offset, kind, frames, is_animated, is_image_hidden = 8, b"", 0, False, False
    while kind != b"IEND":
        if offset + 12 > size:
            raise DamagedError(f"the file ends at byte {size}, before the end of the image (IEND)")
        length, kind = chunk(data, offset)
        end = offset + 12 + length
        if end > size or length > _MAX_CHUNK:
            available = size - offset - 12
            raise DamagedError(f"{chunk_name(kind, offset)} has {length} bytes, of which {available} are there")
        if crc32(view[offset + 4 : end - 4]) != crc(data, end - 4)[0]:
            raise DamagedError(f"{chunk_name(kind, offset)} has a wrong checksum (CRC)")
        if kind not in chunk_sizes:
            _check_first_of_kind(data, kind, length, offset, chunk_sizes)
            if kind == b"IDAT" and b"acTL" in chunk_sizes:
                is_animated, is_image_hidden = True, frames == 0  # the image of IDAT is not a frame
            chunk_sizes[kind] = 0
        elif kind == b"IHDR":
            raise DamagedError(f"{chunk_name(kind, offset)} is a second header; decoders do not agree on such files")
        chunk_sizes[kind] += length
        frames += kind == b"fcTL"
        offset = end
    if not chunk_sizes.get(b"IDAT"):
        raise DamagedError("there are no pixels (IDAT) before its end (IEND)")
    header = _header(data, chunk_sizes, frames + is_image_hidden if is_animated else 1)
    return header._replace(is_joined=True) if is_image_at(data, offset) else header


def _check_first_of_kind(data: bytes, kind: bytes, length: int, offset: int, chunk_sizes: dict[bytes, int]) -> None:
    """Checks the first chunk of a kind, if it precedes the pixels and decoders may not ignore chunks of that kind.

    Args:
        data: the file.
        kind: kind of the chunk.
        length: size of its content in bytes.
        offset: offset of the chunk in the file.
        chunk_sizes: the kinds that precede it.

    Raises:
        DamagedError: it is unknown, invalid, or another one must precede it.
    """
    if not chunk_sizes:
        _check_ihdr(data, kind, length)
    elif kind[0] & 0x20 or b"IDAT" in chunk_sizes:
        return
    elif kind not in _CRITICAL:
        raise DamagedError(f"{chunk_name(kind, offset)} is unknown, and decoders may not pass over it")
    elif kind == b"PLTE" and (length % 3 or not 0 < length <= 768):
        raise DamagedError(f"{chunk_name(kind, offset)} has {length} bytes, which is not a palette")
    elif kind == b"IDAT" and data[25] == 3 and b"PLTE" not in chunk_sizes:
        raise DamagedError("there is no palette (PLTE) before the pixels (IDAT)")


def _check_ihdr(data: bytes, kind: bytes, length: int) -> None:
    """Checks the first chunk of the file, which must be IHDR with known fields and a size above 0.

    It raises a DamagedError if it is not, and an InputError for Apple's own form of PNG.

    Args:
        data: the file.
        kind: kind of the first chunk.
        length: size of its content in bytes.
    """
    if kind == b"CgBI":
        raise InputError("Apple's own form of PNG (CgBI) is not read by decoders; convert it to PNG")
    if kind != b"IHDR" or length != _IHDR.size:
        raise DamagedError(f"the first chunk is {_kind_name(kind)} of {length} bytes, instead of IHDR of {_IHDR.size}")
    width, height, bits, colour, *methods = _IHDR.unpack_from(data, 16)
    if bits not in _BITS.get(colour, ()) or methods[:2] != [0, 0] or methods[2] > 1:
        raise DamagedError(f"IHDR: {bits} bits with colours of type {colour} and the methods {methods} are unknown")
    if not 0 < width <= _MAX_CHUNK or not 0 < height <= _MAX_CHUNK:
        raise DamagedError(f"IHDR: its size is {height} x {width}")


def _header(data: bytes, chunk_sizes: dict[bytes, int], frames: int) -> ImageHeader:
    """Returns the header of a PNG of checked chunks: the fields of IHDR, and what the kinds of its chunks imply.

    Args:
        data: the file, which begins with IHDR at byte 8.
        chunk_sizes: kind of chunk -> total size of the content of these chunks in bytes.
        frames: number of frames; 1 if the image is not animated.
    """
    width, height, bits, colour = _IHDR.unpack_from(data, 16)[:4]
    has_transparency = b"tRNS" in chunk_sizes
    return ImageHeader(
        formats.PNG,
        height,
        width,
        8 if colour == 3 else bits,  # 3: a palette, whose colours have 8 bits per channel
        _CHANNELS[colour],
        has_transparency or colour > 3,
        not _METADATA.isdisjoint(chunk_sizes),
        frames,
        has_transparent_color=has_transparency and colour != 3,
    )


def _kind_name(kind: bytes) -> str:
    """Returns the type of a PNG chunk for errors: "IHDR", or its `repr` if it is not of letters."""
    return kind.decode("ascii") if kind.isalpha() else repr(kind)


def chunk_name(kind: bytes, offset: int) -> str:
    """Returns the name of a chunk for errors: "the chunk IDAT at byte 41"; see `_kind_name`."""
    return f"the chunk {_kind_name(kind)} at byte {offset}"


@lru_cache(maxsize=1)
def _crc32() -> Callable[[Any], int]:
    """Returns the fastest CRC-32 function: that of libdeflate, if installed, takes a tenth of the time of zlib's."""
    try:
        from imagecodecs import deflate_crc32

        return deflate_crc32 if deflate_crc32(b"123456789") == zlib.crc32(b"123456789") else zlib.crc32
    except Exception:  # not installed, or without libdeflate
        return zlib.crc32
