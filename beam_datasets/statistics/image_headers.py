"""The size of an image as its header has it, without decoding."""

from __future__ import annotations

import io
import struct

_PNG, _IHDR = b"\x89PNG\r\n\x1a\n", 16
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # of PNG's colour types
_PILLOW = {"1": 1, "L": 1, "P": 3, "LA": 2, "I": 1, "I;16": 1, "RGBA": 4, "CMYK": 4}


def image_size(data: bytes) -> tuple[int, int, int] | None:
    r"""Returns height, width and channels of a PNG or JPEG (and what Pillow knows, if it is there); None for another.

    >>> image_size(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBB", 13, b"IHDR", 5, 4, 8, 2))
    (4, 5, 3)
    """
    try:
        if data[:8] == _PNG:
            width, height, _, colour = struct.unpack_from(">IIBB", data, _IHDR)
            return height, width, _CHANNELS[colour]
        return _jpeg_size(data) if data[:2] == b"\xff\xd8" else _size_by_pillow(data)
    except (struct.error, KeyError, IndexError):
        return None


def _jpeg_size(data: bytes) -> tuple[int, int, int] | None:
    """Returns the size of a JPEG: that in its start of frame."""
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, channels = struct.unpack_from(">HHB", data, place + 5)
            return height, width, channels
        bare = marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD7
        place += (1 if marker == 0xFF else 2) if bare else 2 + struct.unpack_from(">H", data, place + 2)[0]
    return None


def _size_by_pillow(data: bytes) -> tuple[int, int, int] | None:
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.height, image.width, _PILLOW.get(image.mode, 3)
    except Exception:  # of all that bytes can be, each plugin has errors of its own; and there are sizes it refuses
        return None
