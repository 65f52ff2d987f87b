"""Pixels of images of all formats, at their full depth.

Pillow decodes images of 8 bits. It reduces many deeper ones to 8 bits without a word, so imagecodecs decodes these, and
pillow-heif HEIC. What none of them decodes exactly is refused by its name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.extras import install_command, needs
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake import tiff
from beam_datasets.intake.errors import reason
from beam_datasets.intake.image_formats import DamagedError, ImageHeader, format_of
from beam_datasets.intake.images import check_image, check_size, ppm_header, unreadable

_PLUGINS = {  # of Pillow
    formats.PNG: "PNG",
    formats.JPEG: "JPEG",
    formats.GIF: "GIF",
    formats.WEBP: "WEBP",
    formats.BMP: "BMP",
    formats.TIFF: "TIFF",
    formats.PPM: "PPM",
    formats.JPEG_2000: "JPEG2000",
    formats.AVIF: "AVIF",
    "DDS": "DDS",
    "ICO": "ICO",
    "PCX": "PCX",
    "QOI": "QOI",
    "SGI": "SGI",
    "SUN": "SUN",
    "TGA": "TGA",
}
_OPTIONAL = {"AVIF": "avif", "JPEG2000": "jpg_2000", "WEBP": "webp"}  # libraries that Pillow may be built without
# Modes of 8 bits, and those that have their channels; "P" is one of these two by its palette.
_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGB": "RGB", "RGBX": "RGB", "RGBA": "RGBA", "RGBa": "RGBA"}
_MODES |= {"PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"}
_ORIENTATION = 0x0112  # the EXIF tag
_COMPRESSIONS = (34887, 50001)  # of TIFF, LERC and WebP, which the libtiff of Pillow does not decode
_SIZ = b"\xff\x4f\xff\x51"  # the beginning of a JPEG 2000 codestream
_AV1 = re.compile(rb"av1C\x81.(.)", re.DOTALL)
_JXL_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_CUBE_OR_VOLUME, _DDS_FLOATS = 0x200200, range(94, 97)


@dataclass(frozen=True)
class Picture:
    """An image as pixels, the first where there are several.

    Attributes:
        pixels: shape (height, width, channels) with 1 to 4 channels; uint8, or uint16 if it has more than 8 bits.
        bits: of a channel.
        num_frames: frames, pages, views, or sizes.
        orientation: by EXIF, from 1 to 8, to which the pixels are not turned yet; 1 is upright.
        is_cmyk: whether its colours were those of print, CMYK, of which RGB is an approximation.
        format: its name, see `image_formats`.
        num_previews: see `ImageHeader`.
    """

    pixels: NDArray[Any]
    bits: int = 8
    num_frames: int = 1
    orientation: int = 1
    is_cmyk: bool = False
    format: str = ""
    num_previews: int = 0

    @property
    def channels(self) -> int:
        """How many channels there are, opacity included."""
        return int(self.pixels.shape[2])

    @property
    def has_alpha(self) -> bool:
        """Whether the last channel is opacity."""
        return self.channels in (2, 4)

    def upright(self) -> NDArray[Any]:
        """Returns the pixels, turned as the orientation asks for."""
        return turned(self.pixels, self.orientation)


def turned(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Returns the upright pixels of an image with an EXIF orientation from 1 to 8."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    pixels = pixels[:, ::-1] if orientation in (2, 3, 6, 7) else pixels
    return np.ascontiguousarray(pixels[::-1] if orientation in (3, 4, 7, 8) else pixels)


def read_picture(data: bytes) -> Picture:
    """Returns the pixels of an image file of any format, at full depth.

    Raises:
        InputError: it is damaged, or cannot be decoded exactly; the caller adds the place.
        MissingDependencyError: a package is needed to decode it.
    """
    kind = format_of(data)
    header = check_image(data) if kind in formats.READABLE else None
    read = _READERS.get(kind, _by_pillow if kind in _PLUGINS else None)
    if read is None:
        raise InputError(unreadable(data))
    try:
        return replace(read(data, kind, header), format=kind, num_previews=header.num_previews if header else 0)
    except DamagedError as error:
        raise InputError(f"a damaged image: {kind}: {error}") from None
    except BeamDatasetsError:
        raise
    except Exception as error:  # whatever libraries meet in damaged files
        raise InputError(f"a damaged image, or of a kind that is not decoded: {kind}: {reason(error)}") from error


def open_by_pillow(data: bytes, kind: str) -> Any:
    """Returns Pillow's image of a format, not decoded yet; the limit of pixels is ours.

    Raises:
        InputError: Pillow does not have the format, or the image is too large.
    """
    with needs(f"images of the format {kind} need Pillow", "image"):
        from PIL import Image, features
    Image.init()
    plugin = _PLUGINS[kind]
    if plugin not in Image.OPEN or (plugin in _OPTIONAL and not features.check(_OPTIONAL[plugin])):
        raise InputError(f"this installation of Pillow does not read {kind}; convert it to PNG, or update Pillow")
    picture = Image.OPEN[plugin][0](io.BytesIO(data), "")
    check_size(picture.size[1], picture.size[0])
    return picture


def pixels_of(picture: Any, what: str) -> NDArray[Any]:
    """Returns the pixels of Pillow's image, of shape (height, width, channels), uint8.

    Raises:
        InputError: it has another depth or colours that are not those of RGB.
    """
    mode = picture.mode
    if mode == "P":
        wanted = "RGBA" if "transparency" in picture.info else "RGB"
    elif mode in _MODES:
        wanted = "RGBA" if mode == "RGB" and "transparency" in picture.info else _MODES[mode]
        wanted = "LA" if mode in ("1", "L") and "transparency" in picture.info else wanted
    else:
        raise InputError(f"{what} with pixels of the mode {mode} is not decoded exactly; convert it to 8 or 16 bits")
    pixels = np.array(picture.convert(wanted))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _by_pillow(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns an image of 8 bits."""
    if kind == "SGI" and data[3:4] != b"\x01":
        raise InputError("SGI with 16 bits a channel is not decoded exactly; convert it to PNG")
    with open_by_pillow(data, kind) as picture:
        frames = header.num_frames if header else _num_frames(picture)
        orientation = 1 if kind == formats.TIFF else orientation_of(picture)  # Pillow turns TIFF by itself
        is_cmyk = picture.mode == "CMYK"
        picture.load()
        return Picture(pixels_of(picture, kind), num_frames=frames, orientation=orientation, is_cmyk=is_cmyk)


def _num_frames(picture: Any) -> int:
    """Returns how many frames, or sizes, Pillow finds."""
    sizes = picture.info.get("sizes")
    return len(sizes) if sizes else getattr(picture, "n_frames", 1)


def orientation_of(picture: Any) -> int:
    """Returns the EXIF orientation of Pillow's image, from 1 to 8; 1 if there is none that can be read."""
    try:
        found = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged EXIF data, which Pillow reads late, and with many kinds of errors
        return 1
    return found if found in range(2, 9) else 1


# ----------------------------------------------------------------------------------------------------- more than 8 bits


def deep_pixels(data: bytes, kind: str) -> tuple[NDArray[Any], int] | None:
    """Returns pixels and bits of a TIFF or PPM file that Pillow does not decode, as stored; None for others.

    They have more than 8 bits, or are compressed in a way that Pillow does not know.

    Raises:
        InputError: it cannot be decoded exactly.
    """
    if kind == formats.TIFF:
        return _deep_tiff(data)
    if kind == formats.PPM:
        return _deep_ppm(data)
    return None


def _tiff(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    frames = header.num_frames if header else 1
    deep = _deep_tiff(data)
    if deep is None:
        return _by_pillow(data, kind, header)
    return Picture(deep[0], deep[1], frames)


def _deep_tiff(data: bytes) -> tuple[NDArray[Any], int] | None:
    """Returns pixels and bits of the first page of a TIFF file, turned as it asks for; None if Pillow decodes it."""
    page = tiff.first_directory(data)
    bits = tiff.depth(page)
    if bits <= 8 and not (bits == 8 and page.number(tiff.COMPRESSION) in _COMPRESSIONS and tiff.is_plain(page)):
        return None
    pixels = np.asarray(_imagecodecs().tiff_decode(data, index=0))
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    elif page.number(tiff.PLANAR, 1) == 2:
        pixels = pixels.transpose(1, 2, 0)
    shape = page.number(tiff.HEIGHT), page.number(tiff.WIDTH), page.number(tiff.SAMPLES, 1)
    if pixels.shape != shape or pixels.dtype != (np.uint16 if bits > 8 else np.uint8):
        raise DamagedError(f"it is decoded to {pixels.dtype} of the shape {pixels.shape} instead of {shape}")
    orientation = page.number(tiff.ORIENTATION, 1)
    return turned(pixels, orientation if orientation in range(1, 9) else 1), bits


def _ppm(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    deep = _deep_ppm(data)
    return _by_pillow(data, kind, header) if deep is None else Picture(*deep)


def _deep_ppm(data: bytes) -> tuple[NDArray[Any], int] | None:
    """Returns pixels and bits of a PGM or PPM file; None if it has at most 8 bits."""
    kind, width, height, maximum, start = ppm_header(data)
    if maximum < 256:
        return None
    channels = 3 if kind in (3, 6) else 1
    count = height * width * channels
    if kind in (2, 3):
        values = np.array(re.sub(rb"#[^\n\r]*", b"", data[start:]).split(), np.int64)
    else:
        values = np.frombuffer(data, ">u2", count, start)
    if len(values) < count or (count and int(values.max()) > maximum):
        raise DamagedError(f"expected {count} values up to {maximum}")
    return values[:count].astype(np.uint16).reshape(height, width, channels), maximum.bit_length()


def _jpeg(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns an image of any depth; one of 8 bits is decoded by Pillow, as it knows CMYK."""
    if header is None or header.bits <= 8:
        return _by_pillow(data, kind, header)
    pixels = np.asarray(_imagecodecs().jpeg8_decode(data))
    return Picture(_three_dimensional(pixels), header.bits, header.num_frames)


def _png(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns an image of any depth; one of 8 bits is decoded by Pillow, as it knows what is transparent."""
    if header is None or header.bits <= 8:
        return _by_pillow(data, kind, header)
    pixels = _three_dimensional(np.asarray(_imagecodecs().png_decode(data)))
    with open_by_pillow(data, kind) as picture:
        orientation = orientation_of(picture) if header.has_metadata else 1
    return Picture(pixels, header.bits, header.num_frames, orientation)


def _jpeg_2000(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns an image of any depth: of more than 8 bits by imagecodecs, as Pillow reduces it."""
    start = data.find(_SIZ)
    number = int.from_bytes(data[start + 40 : start + 42], "big")
    components = data[start + 42 : start + 42 + 3 * number]
    if start < 0 or not 0 < number == len(components) // 3:
        raise DamagedError("it has no size")
    depths = components[::3]
    if len(set(depths)) > 1 or depths[0] & 0x80 or depths[0] >= 16 or number > 4:
        raise InputError(f"JPEG 2000 with signed, different or {number} channels is not decoded exactly; convert it")
    bits = depths[0] + 1
    if bits <= 8:
        return _by_pillow(data, kind, header)
    with open_by_pillow(data, kind):  # checks its size
        return Picture(_three_dimensional(np.asarray(_imagecodecs().jpeg2k_decode(data))), bits)


def _avif(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns an image of any depth: of more than 8 bits by imagecodecs, as Pillow reduces it."""
    bits = _avif_bits(data)
    if bits <= 8:
        return _by_pillow(data, kind, header)
    with open_by_pillow(data, kind) as opened:
        frames, orientation = _num_frames(opened), orientation_of(opened)
        check_size(frames * opened.size[1], opened.size[0])
    pixels = np.asarray(_imagecodecs().avif_decode(data))  # all frames: decoding one of them may end the process
    return Picture(_three_dimensional(pixels[0] if pixels.ndim == 4 else pixels), bits, frames, orientation)


def _avif_bits(data: bytes) -> int:
    """Returns the bits of a channel of an AVIF image, the most of all that the file contains."""
    flags = [match[0] for match in _AV1.findall(data)]
    return max((8 if not flag & 0x40 else 12 if flag & 0x20 else 10 for flag in flags), default=8)


def _heic(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns the primary image, which libheif turns upright."""
    try:
        import pillow_heif
    except ImportError as error:
        raise InputError(f"HEIC needs pillow-heif: {install_command('heif')}; or convert it to PNG") from error
    opened = pillow_heif.open_heif(io.BytesIO(data), convert_hdr_to_8bit=False)
    check_size(opened.size[1], opened.size[0])
    mode, bits = opened.mode, int(opened.info.get("bit_depth") or 8)
    if mode.split(";")[0] not in ("L", "LA", "I", "RGB", "RGBA"):
        raise InputError(f"HEIC with pixels of the mode {mode} is not decoded exactly; convert it to PNG")
    pixels = _three_dimensional(np.asarray(opened))
    if pixels.dtype == np.uint16:
        pixels = pixels >> (16 - bits)  # libheif fills 16 bits
    return Picture(np.ascontiguousarray(pixels), bits, len(opened))


def _jpeg_xl(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns the first frame, which libjxl turns upright."""
    height, width = jpeg_xl_size(data)
    check_size(height, width)
    pixels = np.asarray(_imagecodecs().jpegxl_decode(data))
    frames = 1
    if sorted(pixels.shape[:2]) != sorted((height, width)):
        frames, pixels = len(pixels), pixels[0]
    return Picture(_three_dimensional(pixels), 8 if pixels.dtype == np.uint8 else 16, frames)


def jpeg_xl_size(data: bytes) -> tuple[int, int]:
    """Returns height and width of a JPEG XL image, before it is turned."""
    start = 0
    while data[start : start + 2] != b"\xff\x0a":  # of a file of boxes
        size, kind = int.from_bytes(data[start : start + 4], "big"), data[start + 4 : start + 8]
        head = 16 if size == 1 else 8
        size = int.from_bytes(data[start + 8 : start + 16], "big") if size == 1 else size
        if len(kind) < 4 or 0 < size < head:
            raise DamagedError("there is no image in it")
        if kind in (b"jxlc", b"jxlp"):
            start += head + (4 if kind == b"jxlp" else 0)
            break
        start = start + size if size else len(data)
    bits = int.from_bytes(data[start + 2 : start + 14], "little")
    is_small, bits = bits & 1, bits >> 1
    height, bits = _jxl_length(bits, is_small)
    ratio, bits = bits & 7, bits >> 3
    if ratio:
        over, under = _JXL_RATIOS[ratio]
        return height, height * over // under
    return height, _jxl_length(bits, is_small)[0]


def _jxl_length(bits: int, is_small: int) -> tuple[int, int]:
    """Returns a length of a JPEG XL header, and the bits after it."""
    if is_small:
        return ((bits & 31) + 1) * 8, bits >> 5
    count = (9, 13, 18, 30)[bits & 3]
    return ((bits >> 2) & ((1 << count) - 1)) + 1, bits >> (2 + count)


def _dds(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Returns a texture of 8 bits; of several textures only the first could be read."""
    capabilities = int.from_bytes(data[112:116], "little")
    is_new = data[84:88] == b"DX10"
    form, number = (int.from_bytes(data[i : i + 4], "little") if is_new else 0 for i in (128, 140))
    if capabilities & _CUBE_OR_VOLUME or number > 1 or form in _DDS_FLOATS:
        raise InputError("DDS with several textures, or floating-point ones, is not decoded exactly; convert it to PNG")
    return _by_pillow(data, kind, header)


_READERS: dict[str, Callable[[bytes, str, ImageHeader | None], Picture]] = {
    formats.PNG: _png,
    formats.JPEG: _jpeg,
    formats.TIFF: _tiff,
    formats.PPM: _ppm,
    formats.JPEG_2000: _jpeg_2000,
    formats.JPEG_XL: _jpeg_xl,
    formats.AVIF: _avif,
    formats.HEIC: _heic,
    "DDS": _dds,
}


def _three_dimensional(pixels: NDArray[Any]) -> NDArray[Any]:
    """Returns pixels of shape (height, width, channels).

    Raises:
        InputError: they have another shape, or are not unsigned integers of 8 or 16 bits.
    """
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or not 0 < pixels.shape[2] <= 4 or pixels.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"its pixels are decoded to {pixels.dtype} of the shape {pixels.shape}, which is not stored as an image; "
            "convert it to gray or RGB of 8 or 16 bits"
        )
    return pixels


@lru_cache(maxsize=1)
def _imagecodecs() -> ModuleType:
    with needs("images need imagecodecs", "image"):
        import imagecodecs
    return imagecodecs
