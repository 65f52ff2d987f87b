"""Structural checks of JPEG 2000 files: the tiles that the header declares, and the end of the image.

OpenJPEG decodes a file that was cut off between two tiles without an error, and leaves the pixels of the others black.
"""

from __future__ import annotations

import struct

from beam_datasets.intake.image_formats import DamagedError

_SOC_SIZ = b"\xff\x4f\xff\x51"  # the beginning of a codestream
_SOT, _EOC = b"\xff\x90", b"\xff\xd9"  # the markers of a tile-part, and of the end of the codestream
_SIZES = struct.Struct(">8I")  # end, start, tile size and first tile of the reference grid, each as (x, y)
_TILE_PART = struct.Struct(">HIBB")  # tile, size in bytes, number of the part, number of parts of the tile
_MAX_TILES = (1 << 16) - 1


def depths(data: bytes) -> bytes:
    """Returns a byte for each channel: its bits minus 1, and 0x80 if its values have a sign.

    Raises:
        DamagedError: the file does not declare them.
    """
    start = data.find(_SOC_SIZ)
    num_channels = int.from_bytes(data[start + 40 : start + 42], "big")
    channels = data[start + 42 : start + 42 + 3 * num_channels]
    if start < 0 or not 0 < num_channels == len(channels) // 3:
        raise DamagedError("it has no size")
    return channels[::3]


def check_tiles(data: bytes) -> None:
    """Follows the parts of tiles in a file up to the end of its image.

    Raises:
        DamagedError: a tile or the end of the image is missing.
        struct.error: the file ends in a header.
    """
    start = data.find(_SOC_SIZ)
    tiles, offset = set[int](), start + 2
    while data[offset : offset + 2] not in (_SOT, _EOC):  # segments of the main header
        _check_offset(data, offset)
        offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    while data[offset : offset + 2] == _SOT:
        tile, size, _, _ = _TILE_PART.unpack_from(data, offset + 4)
        tiles.add(tile)
        if not size:  # the last part ends where the codestream does
            offset = max(offset, data.rfind(_EOC))
            break
        offset += max(size, 12)
    _check_offset(data, offset)
    num_tiles = _num_tiles(data, start)
    if missing := num_tiles - len(tiles):
        raise DamagedError(f"{missing} of its {num_tiles} tiles are missing")


def _check_offset(data: bytes, offset: int) -> None:
    """Raises DamagedError if no marker begins at the offset."""
    if offset + 2 > len(data):
        raise DamagedError(f"the file ends at byte {len(data)}, before the end of the image (EOC)")
    if data[offset] != 0xFF:
        raise DamagedError(f"byte {offset}: expected a marker, got {data[offset : offset + 2]!r}")


def _num_tiles(data: bytes, start: int) -> int:
    """Returns the number of tiles that the header of the codestream declares, which begins at `start`.

    Raises:
        DamagedError: the tiles have no size, or are too many.
    """
    right, bottom, _, _, width, height, left, top = _SIZES.unpack_from(data, start + 8)
    num_tiles = -(-(right - left) // width) * -(-(bottom - top) // height) if width and height else 0
    if not 0 < num_tiles <= _MAX_TILES:
        raise DamagedError(f"its size is {right} x {bottom}, in tiles of {width} x {height}")
    return num_tiles
