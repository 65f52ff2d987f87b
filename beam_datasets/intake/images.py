"""Structural checks of image files, without decoding: completeness, size in pixels and bit depth.

Deviations that decoders accept are accepted, such as bytes after the end of the image. The exception is a PNG chunk
with a wrong CRC, which is an error even if decoders do not need the chunk. The header tells whether the bytes after
the end of a PNG, GIF, WebP or BMP are another image. Those after a JPEG are not examined: cameras append previews
and videos there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from beam_datasets import limits
from beam_datasets.errors import InputError
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake import jpeg, png, tiff
from beam_datasets.intake.contents import HEAD_BYTES, other_content
from beam_datasets.intake.image_formats import DamagedError, ImageHeader, detect_format, is_image_at
from beam_datasets.intake.png import chunk_name
from beam_datasets.intake.signatures import IMAGE, signature_of
from beam_datasets.limits import check_num_elements

_TRAILER, _IMAGE, _EXTENSION = 0x3B, 0x2C, 0x21  # first bytes of blocks of GIF


def check_image(data: bytes) -> ImageHeader:
    """Checks the structure of an image file, and returns its header.

    Raises:
        InputError: it is damaged, its format is not in `image_formats.READABLE`, or it has more pixels than
            the limit; the caller adds the name of the file.
    """
    kind = detect_format(data)
    reader = _READERS.get(kind)
    if reader is None:
        expected = f"{', '.join(formats.READABLE[:-1])} or {formats.READABLE[-1]}"
        raise InputError(image_problem(data, expected, "decode it and give its pixels, or convert it to PNG"))
    try:
        header = reader(data)
    except DamagedError as error:
        raise InputError(f"a damaged image: {kind}: {error}") from None
    except (struct.error, IndexError):
        raise InputError(f"a damaged image: {kind}: the file ends in its header, after {len(data)} bytes") from None
    check_size(header.height, header.width)
    return header


def image_problem(data: bytes, expected: str = "", advice: str = "convert it to PNG") -> str:
    """Returns the error text for a file that is not an image, or an image of a format that cannot be used.

    Args:
        data: content of the file.
        expected: names of the expected formats; '' for any image.
        advice: advice for a file of another format that is known.
    """
    if not data:
        return "expected an image, got an empty file"
    signature = signature_of(data)
    is_image = signature is not None and signature.kind == IMAGE
    if not is_image and (other := other_content(data[:HEAD_BYTES], IMAGE)):
        return f"expected {expected or 'an image'}, got {other}"
    if kind := detect_format(data):
        advice = "save its frames as PNG" if kind in formats.VIDEOS else advice
        return f"expected {expected or 'an image that can be decoded exactly'}, got {kind}; {advice}"
    return f"not an image (it begins with {data[:12]!r})"


def check_size(height: int, width: int) -> None:
    """Checks the size of an image in pixels, before memory is allocated for it.

    Raises:
        InputError: the image has no pixels, or more than the limit.
    """
    if not height or not width:
        raise InputError(f"a damaged image: its size is {height} x {width}")
    check_num_elements(height * width, limits.MAX_PIXELS, f"the image has {height} x {width} pixels")


def _gif_header(data: bytes) -> ImageHeader:
    """Reads all blocks of a GIF up to its trailer and returns its header; like decoders, skips bytes between blocks."""
    size, frames = len(data), 0
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    offset = 13 + _palette_size(flags)
    while offset < size and data[offset] != _TRAILER:
        block = data[offset]
        if block not in (_EXTENSION, _IMAGE):
            offset += 1
            continue
        if block == _IMAGE:
            frames += 1
            offset += 9 + _palette_size(data[offset + 9])
        offset += 2
        while offset < size and data[offset]:
            offset += data[offset] + 1
        offset += 1
    if offset >= size:
        raise DamagedError(f"the file ends at byte {size}, before its end (trailer)")
    if not frames:
        raise DamagedError("there are no pixels")
    return ImageHeader(formats.GIF, height, width, num_frames=frames, is_joined=is_image_at(data, offset + 1))


def _palette_size(flags: int) -> int:
    """Returns the size in bytes of the palette that the flags of a GIF declare; 0 for no palette."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp_header(data: bytes) -> ImageHeader:
    """Checks the sizes of all chunks of a WebP file and returns its header."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise DamagedError(f"it has {end} bytes by its header, but the file ends after {len(data)}")
    content_starts: dict[bytes, int] = {}  # kind -> offset of the content of its first chunk
    offset, frames = 12, 0
    while offset + 8 <= end:
        kind, length = data[offset : offset + 4], int.from_bytes(data[offset + 4 : offset + 8], "little")
        if offset + 8 + length > end:
            raise DamagedError(
                f"{chunk_name(kind, offset)} has {length} bytes, but the image ends after {end - offset - 8}"
            )
        frames += kind == b"ANMF"
        content_starts.setdefault(kind, offset + 8)
        offset += 8 + length + length % 2
    if not frames and b"VP8 " not in content_starts and b"VP8L" not in content_starts:
        raise DamagedError("there are no pixels")
    width, height = _webp_size(data, content_starts)
    has_metadata = b"EXIF" in content_starts or b"XMP " in content_starts
    return ImageHeader(
        formats.WEBP,
        height,
        width,
        has_metadata=has_metadata,
        num_frames=max(frames, 1),
        is_joined=is_image_at(data, end + end % 2),
    )


def _webp_size(data: bytes, content_starts: dict[bytes, int]) -> tuple[int, int]:
    """Returns (width, height) of a WebP image.

    Args:
        data: content of the file.
        content_starts: kind of a chunk, such as b"VP8X" -> byte offset of the content of the first chunk of this kind.
    """
    if start := content_starts.get(b"VP8X"):
        sides = data[start + 4 : start + 7], data[start + 7 : start + 10]
        return int.from_bytes(sides[0], "little") + 1, int.from_bytes(sides[1], "little") + 1
    if start := content_starts.get(b"VP8L"):
        (packed,) = struct.unpack_from("<I", data, start + 1)
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, content_starts[b"VP8 "] + 6)
    return width & 0x3FFF, height & 0x3FFF


def _bmp_header(data: bytes) -> ImageHeader:
    """Returns the header of a BMP; if it is uncompressed, checks that all pixels are in the file.

    Raises:
        DamagedError: the width is not positive, or pixels are missing.
    """
    (pixels_start, header_size) = struct.unpack_from("<II", data, 10)
    width, height, _, bits = struct.unpack_from("<HHHH" if header_size == 12 else "<iiHH", data, 18)
    if width <= 0:
        raise DamagedError(f"its width is {width}")
    compression = 0 if header_size == 12 else struct.unpack_from("<I", data, 30)[0]
    end = pixels_start + (width * bits + 31) // 32 * 4 * abs(height)
    if not compression and end > len(data):
        raise DamagedError(f"its pixels end at byte {end}, but the file at {len(data)}")
    size = struct.unpack_from("<I", data, 2)[0]  # of the file, as its header declares it; 0 in some files
    is_joined = not compression and end <= size and (is_image_at(data, size) or data[size : size + 2] == b"BM")
    return ImageHeader(formats.BMP, abs(height), width, is_joined=is_joined)


def _ppm_header(data: bytes) -> ImageHeader:
    """Returns the header of a PBM, PGM or PPM file.

    The pixels of the binary formats of more than one bit, PGM (P5) and PPM (P6), must all be in the file, and images
    that follow them are counted. The pixels of the text formats (P1 to P3) and of binary PBM (P4) are not checked.

    Raises:
        DamagedError: the header is invalid, or pixels of P5 or P6 are missing.
    """
    kind, width, height, maximum, start = ppm_fields(data)
    channels = 3 if kind in (3, 6) else 1
    header = ImageHeader(formats.PPM, height, width, maximum.bit_length(), channels)
    if kind not in (5, 6):
        return header
    num_images, end = 0, 0
    while not num_images or _PPM_START.match(data, end):
        kind, width, height, maximum, start = ppm_fields(data[end : end + _PPM_HEADER])
        end += start + width * height * (3 if kind == 6 else 1) * (2 if maximum > 255 else 1)
        num_images += 1
        if end > len(data):
            raise DamagedError(f"its pixels end at byte {end}, but the file at {len(data)}")
    return header._replace(num_frames=num_images)


_PPM_START = re.compile(rb"P[56]\s")
_PPM_HEADER = 4096  # bytes


def ppm_fields(data: bytes) -> tuple[int, int, int, int, int]:
    """Returns (kind from 1 to 6, width, height, greatest value, offset of the pixels) of a PBM, PGM or PPM file.

    Raises:
        DamagedError: the header is invalid.
    """
    kind = data[1] - ord("0")
    numbers = 2 if kind in (1, 4) else 3
    match = re.match(rb"P\d" + rb"(?:\s|#[^\n\r]*[\n\r])+(\d{1,9})" * numbers + rb"\s", data[:_PPM_HEADER])
    if match is None:
        raise DamagedError("its header has no size")
    width, height, maximum = [*map(int, match.groups()), 1][:3]
    if not 0 < maximum < 1 << 16:
        raise DamagedError(f"its greatest value is {maximum}, not 1 to 65535")
    return kind, width, height, maximum, match.end()


def _tiff_header(data: bytes) -> ImageHeader:
    """Returns the header of a TIFF file: the size of its first page, upright, and the number of pages and previews."""
    pages, previews = tiff.pages(data)
    height, width = pages[0].number(tiff.HEIGHT), pages[0].number(tiff.WIDTH)
    if pages[0].number(tiff.ORIENTATION) in tiff.LYING:
        height, width = width, height
    return ImageHeader(
        formats.TIFF, height, width, bits=tiff.depth(pages[0]), num_frames=len(pages), num_previews=len(previews)
    )


_READERS: dict[str, Callable[[bytes], ImageHeader]] = {
    formats.PNG: png.read_header,
    formats.JPEG: jpeg.read_header,
    formats.GIF: _gif_header,
    formats.WEBP: _webp_header,
    formats.BMP: _bmp_header,
    formats.PPM: _ppm_header,
    formats.TIFF: _tiff_header,
}
