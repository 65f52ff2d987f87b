"""The structure of PNG files: lengths and CRCs of all chunks, and that those are there which decoders need."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from beam_datasets.errors import InputError
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake.image_formats import DamagedError, ImageHeader

_CHUNK, _CRC = struct.Struct(">I4s"), struct.Struct(">I")
_IHDR = struct.Struct(">IIBBBBB")
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by the type of colour; a palette has colours
_BITS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_METADATA = frozenset({b"eXIf", b"iTXt", b"zTXt", b"tEXt"})  # of which texts may be EXIF or XMP data
_MAX_CHUNK = (1 << 31) - 1


def read_header(data: bytes) -> ImageHeader:
    """Returns the header of a PNG, all of whose chunks are checked up to its end; bytes may follow.

    Raises:
        DamagedError: the file is damaged.
        InputError: it is of a kind that decoders do not read.
    """
    crc32, chunk, crc, view, size = _crc32(), _CHUNK.unpack_from, _CRC.unpack_from, memoryview(data), len(data)
    seen: dict[bytes, int] = {}  # kind -> bytes of its chunks
    offset, kind, frames, is_animated, hidden = 8, b"", 0, False, False
    while kind != b"IEND":
        if offset + 12 > size:
            raise DamagedError(f"the file ends at byte {size}, before the end of the image (IEND)")
        length, kind = chunk(data, offset)
        end = offset + 12 + length
        if end > size or length > _MAX_CHUNK:
            left = size - offset - 12
            raise DamagedError(f"{chunk_name(kind, offset)} has {length} bytes, of which {left} are there")
        if crc32(view[offset + 4 : end - 4]) != crc(data, end - 4)[0]:
            raise DamagedError(f"{chunk_name(kind, offset)} has a wrong checksum (CRC)")
        if kind not in seen:
            _check_first(data, kind, length, offset, seen)
            if kind == b"IDAT" and b"acTL" in seen:
                is_animated, hidden = True, frames == 0  # hidden: the image itself is none of the frames
            seen[kind] = 0
        seen[kind] += length
        frames += kind == b"fcTL"
        offset = end
    if not seen.get(b"IDAT"):
        raise DamagedError("there are no pixels (IDAT) before its end (IEND)")
    return _header(data, seen, frames + hidden if is_animated else 1)


def _check_first(data: bytes, kind: bytes, length: int, offset: int, seen: dict[bytes, int]) -> None:
    """Checks the first chunk of a kind, of those without which a PNG cannot be read."""
    if not seen:
        _check_ihdr(data, kind, length)
    elif kind[0] & 0x20 or b"IDAT" in seen:
        return
    elif kind not in _CRITICAL:
        raise DamagedError(f"{chunk_name(kind, offset)} is unknown, and decoders may not pass over it")
    elif kind == b"PLTE" and (length % 3 or not 0 < length <= 768):
        raise DamagedError(f"{chunk_name(kind, offset)} has {length} bytes, which is not a palette")
    elif kind == b"IDAT" and data[25] == 3 and b"PLTE" not in seen:
        raise DamagedError("there is no palette (PLTE) before the pixels (IDAT)")


def _check_ihdr(data: bytes, kind: bytes, length: int) -> None:
    """Checks the first chunk."""
    if kind == b"CgBI":
        raise InputError("Apple's own form of PNG (CgBI) is not read by decoders; convert it to PNG")
    if kind != b"IHDR" or length != _IHDR.size:
        raise DamagedError(f"the first chunk is {_name(kind)} of {length} bytes, instead of IHDR of {_IHDR.size}")
    width, height, bits, colour, *methods = _IHDR.unpack_from(data, 16)
    if bits not in _BITS.get(colour, ()) or methods[:2] != [0, 0] or methods[2] > 1:
        raise DamagedError(f"IHDR: {bits} bits with colours of type {colour} and the methods {methods} are unknown")
    if not 0 < width <= _MAX_CHUNK or not 0 < height <= _MAX_CHUNK:
        raise DamagedError(f"IHDR: its size is {height} x {width}")


def _header(data: bytes, seen: dict[bytes, int], frames: int) -> ImageHeader:
    width, height, bits, colour = _IHDR.unpack_from(data, 16)[:4]
    level = b"tRNS" in seen
    return ImageHeader(
        formats.PNG,
        height,
        width,
        8 if colour == 3 else bits,
        _CHANNELS[colour],
        level or colour > 3,
        not _METADATA.isdisjoint(seen),
        frames,
        is_transparent_level=level and colour != 3,
    )


def _name(kind: bytes) -> str:
    return kind.decode("ascii") if kind.isalpha() else repr(kind)


def chunk_name(kind: bytes, offset: int) -> str:
    """Returns the name and the place of a chunk, for errors."""
    return f"the chunk {_name(kind)} at byte {offset}"


@lru_cache(maxsize=1)
def _crc32() -> Callable[[Any], int]:
    """Returns the fastest CRC-32: that of libdeflate takes a tenth of the time of zlib's."""
    try:
        from imagecodecs import deflate_crc32

        return deflate_crc32 if deflate_crc32(b"123456789") == zlib.crc32(b"123456789") else zlib.crc32
    except Exception:  # not installed, or without libdeflate
        return zlib.crc32
