"""Detection of the format of image files, and of files that are mistaken for images, by their first bytes."""

from __future__ import annotations

import re
from typing import NamedTuple

from beam_datasets.errors import InputError
from beam_datasets.intake.signatures import JPEG_PREFIX, PNG_PREFIX, signature_of

PNG, JPEG, GIF, WEBP, BMP, TIFF, PPM = "PNG", "JPEG", "GIF", "WebP", "BMP", "TIFF", "PPM"
HEIC, AVIF, JPEG_XL, JPEG_2000 = "HEIC", "AVIF", "JPEG XL", "JPEG 2000"
HTML = "an HTML page"
AVI, MP4 = "AVI", "a video (MP4)"
VIDEOS = (AVI, MP4, "a Matroska or WebM file")

READABLE = (PNG, JPEG, GIF, WEBP, BMP, TIFF, PPM)
"""Formats whose files a dataset stores unchanged; images of other formats are stored as pixels."""

_BRANDS = {  # brand of a file of the ISO base media format -> name
    b"avif": AVIF,
    b"avis": AVIF,
    b"crx ": "a Canon raw file (CR3)",
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), HEIC),
}
_MARKUP = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->|<\?xml.*?\?>)*<(?:!doctype\s+)?(svg|html)\b", re.DOTALL | re.IGNORECASE
)
_PPM = re.compile(rb"P([1-6])[\s#]")
_PFM = re.compile(rb"P[Ff]\s")
_SIGNATURES_AT_OFFSET = {  # name -> (offset, possible signatures, all of one length)
    "DICOM": (128, [b"DICM"]),
    "FLI": (4, [b"\x11\xaf", b"\x12\xaf"]),
    "EMF": (40, [b" EMF"]),
    "Kodak Photo CD": (2048, [b"PCD_"]),
    "XBM": (0, [b"#define "]),
}
_JOINABLE = (PNG_PREFIX, JPEG_PREFIX, b"GIF87a", b"GIF89a")
_ICONS = {b"\0\0\1\0": "ICO", b"\0\0\2\0": "a cursor (CUR)"}  # then a number of images: not 0 as in TGA
_PCX = (b"\0\1", b"\2\1", b"\3\1", b"\4\1", b"\5\1")  # (version, encoding), after the first byte
_TGA_TYPES, _TGA_BITS = (1, 2, 3, 9, 10, 11), (8, 15, 16, 24, 32)


class ImageHeader(NamedTuple):
    """Properties of an image file, read without decoding its pixels.

    Attributes:
        format: one of READABLE.
        height: height in pixels.
        width: width in pixels.
        bits: stored bits per channel; 8 for an image with a palette.
        channels: stored number of channels, 3 for an image with a palette; 0 if it is known only after decoding.
        has_alpha: whether pixels may be transparent; set for PNG only.
        has_metadata: whether the file has metadata that may contain an EXIF orientation.
        num_frames: number of frames, pages or views.
        num_previews: number of other pictures in the file, such as thumbnails and gain maps.
        has_transparent_color: whether one gray level or colour of a PNG without a palette is transparent (chunk tRNS).
        is_joined: whether another image follows the end of this PNG, GIF, WebP or BMP, as in `cat a.png b.png`.
    """

    format: str
    height: int
    width: int
    bits: int = 8
    channels: int = 0
    has_alpha: bool = False
    has_metadata: bool = False
    num_frames: int = 1
    num_previews: int = 0
    has_transparent_color: bool = False
    is_joined: bool = False


class DamagedError(InputError):
    """A damaged file; the message describes the damage, and the caller adds format and file."""


def detect_format(data: bytes) -> str:
    """Returns the name of the format of a file, detected by its first bytes; '' if it is unknown.

    >>> [detect_format(each) for each in (b"GIF89a", b"RIFF....WEBPVP8 ", b"P5 2 2 255 ...", b"%PDF-1.7", b"text", b"")]
    ['GIF', 'WebP', 'PPM', 'PDF', '', '']
    """
    if signature := signature_of(data):
        return signature.name
    if data[:4] in _ICONS and data[4:6] != b"\0\0":
        return _ICONS[data[:4]]
    if data[:4] == b"RIFF":
        return {b"WEBP": WEBP, b"WAVE": "WAV", b"AVI ": AVI}.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return _media_format(data)
    if _PPM.match(data):
        return PPM
    if _PFM.match(data):
        return "PFM"
    if markup := _MARKUP.match(data[:1024]):
        return "SVG" if markup[1].lower() == b"svg" else HTML
    for name, (offset, signatures) in _SIGNATURES_AT_OFFSET.items():
        if data[offset : offset + len(signatures[0])] in signatures:
            return name
    if data[:1] == b"\x0a" and data[1:3] in _PCX:
        return "PCX"
    return "TGA" if _is_targa(data) else ""


def is_image_at(data: bytes, offset: int) -> bool:
    r"""Returns whether an image of a format whose signature is unmistakable begins at `offset`.

    >>> is_image_at(b"..GIF89a", 2), is_image_at(b"..text", 2), is_image_at(b"", 0)
    (True, False, False)
    """
    if data[offset : offset + 4] == b"RIFF":
        return data[offset + 8 : offset + 12] == b"WEBP"
    return data.startswith(_JOINABLE, offset)


def _media_format(data: bytes) -> str:
    """Returns the name of the format of a file of the ISO base media format, by its brands."""
    end = min(int.from_bytes(data[:4], "big"), 256)
    brands = [data[8:12], *(data[i : i + 4] for i in range(16, end, 4))]
    names = [_BRANDS[brand] for brand in brands if brand in _BRANDS]
    if AVIF in names and data[8:12] in (b"mif1", b"msf1"):  # major brands that AVIF shares with HEIC
        return AVIF
    return names[0] if names else MP4


def _is_targa(data: bytes) -> bool:
    """Returns whether the first 18 bytes of a file are a plausible header of TGA, a format without a signature."""
    if len(data) < 18 or data[1] > 1 or data[2] not in _TGA_TYPES or data[16] not in _TGA_BITS:
        return False
    return bool(data[12] | data[13]) and bool(data[14] | data[15]) and data[17] < 64
