"""Decoding of image files of all formats to pixels, at full bit depth.

Pillow decodes images of 8 bits per channel. It silently reduces many deeper ones to 8 bits, so imagecodecs decodes
those; pillow-heif decodes HEIC. An image that none of them decodes exactly is an error that names its format.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.extras import install_command, needs
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake import jpeg_2000, tiff
from beam_datasets.intake.errors import reason
from beam_datasets.intake.image_formats import DamagedError, ImageHeader, detect_format
from beam_datasets.intake.images import check_image, check_size, image_problem, ppm_fields

if TYPE_CHECKING:
    from PIL import Image


_PLUGINS = {  # format -> name of Pillow's plugin
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
# Plugin -> the feature that Pillow must be built with for it.
_OPTIONAL = {"AVIF": "avif", "JPEG2000": "jpg_2000", "WEBP": "webp"}
# Mode of Pillow with 8 bits per channel -> mode to convert to. "P" is converted to RGB or RGBA; see `pixels_of`.
_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGB": "RGB", "RGBX": "RGB", "RGBA": "RGBA", "RGBa": "RGBA"}
_MODES |= {"PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"}
_ORIENTATION = 0x0112  # the EXIF tag
_NOT_IN_PILLOW = (34887, 50001)  # compressions of TIFF that Pillow's libtiff does not decode: LERC and WebP
_AV1 = re.compile(rb"av1C\x81.(.)", re.DOTALL)  # the box of an AV1 image, with the byte that holds its bit depth
_JXL_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}  # width : height
_STRIP_PIXELS = 1 << 22  # converted at once; Pillow makes four copies of the pixels that it converts
_CUBE_OR_VOLUME, _DDS_FLOATS = 0x200200, range(94, 97)  # capabilities and pixel formats of DDS


@dataclass(frozen=True)
class Picture:
    """The decoded pixels of an image file; of its first image if it contains several.

    Attributes:
        pixels: array of shape (height, width, channels) with 1 to 4 channels; uint8, or uint16 for more than 8 bits.
        bits: bits per channel in the file.
        num_frames: number of frames, pages, views or sizes in the file.
        orientation: EXIF orientation from 1 to 8 that has not been applied to the pixels; 1 is upright.
        is_cmyk: whether the pixels were converted from CMYK, which RGB approximates.
        format: name of the format; see `image_formats`.
        num_previews: number of other pictures in the file; see `ImageHeader`.
        is_joined: whether another image follows the end of this one; see `ImageHeader`.
    """

    pixels: NDArray[Any]
    bits: int = 8
    num_frames: int = 1
    orientation: int = 1
    is_cmyk: bool = False
    format: str = ""
    num_previews: int = 0
    is_joined: bool = False

    @property
    def channels(self) -> int:
        """Number of channels, including an alpha channel."""
        return int(self.pixels.shape[2])

    @property
    def has_alpha(self) -> bool:
        """Whether the last channel is alpha (opacity)."""
        return self.channels in (2, 4)

    def upright(self) -> NDArray[Any]:
        """Returns the pixels with the orientation applied."""
        return apply_orientation(self.pixels, self.orientation)


def apply_orientation(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Returns the pixels of an image with its EXIF orientation applied, as a contiguous array.

    Args:
        pixels: an array of shape (height, width, channels).
        orientation: the value of the EXIF tag, from 1 (as stored) to 8; from 5 on, height and width are exchanged.

    >>> apply_orientation(np.array([[[1], [2]]]), 6)[..., 0].tolist()
    [[1], [2]]
    >>> apply_orientation(np.array([[[1], [2]]]), 2)[..., 0].tolist()
    [[2, 1]]
    """
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    pixels = pixels[:, ::-1] if orientation in (2, 3, 6, 7) else pixels
    return np.ascontiguousarray(pixels[::-1] if orientation in (3, 4, 7, 8) else pixels)


def read_picture(data: bytes) -> Picture:
    """Decodes an image file of any format at full bit depth.

    Raises:
        InputError: it is damaged, or cannot be decoded exactly; the caller adds the name of the file.
        MissingDependencyError: a package that decodes it is not installed.
    """
    kind = detect_format(data)
    header = check_image(data) if kind in formats.READABLE else None
    read = _READERS.get(kind, _by_pillow if kind in _PLUGINS else None)
    if read is None:
        raise InputError(image_problem(data))
    try:
        picture = replace(read(data, kind, header), format=kind)
        if header:
            picture = replace(picture, num_previews=header.num_previews, is_joined=header.is_joined)
        return picture
    except DamagedError as error:
        raise InputError(f"a damaged image: {kind}: {error}") from None
    except BeamDatasetsError:
        raise
    except Exception as error:  # libraries raise many classes for damaged files
        if isinstance(error, ImportError) and "imagecodecs" in type(error).__module__ + str(error):  # built without it
            raise InputError(
                f"this installation of imagecodecs does not read {kind}; convert it to PNG, or update imagecodecs"
            ) from error
        raise InputError(f"a damaged image, or of a kind that is not decoded: {kind}: {reason(error)}") from error


def open_by_pillow(data: bytes, kind: str) -> Any:
    """Opens an image by Pillow without decoding it; `limits` replaces Pillow's own limit.

    Args:
        data: content of the file.
        kind: name of its format, a key of _PLUGINS.

    Raises:
        InputError: this Pillow does not read the format, or the image is too large.
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


def pixels_of(picture: Image.Image, format_name: str) -> NDArray[Any]:
    """Returns the pixels of an image of Pillow as gray or RGB, with alpha if it has transparency.

    Args:
        picture: the image, of a mode with 8 bits per channel.
        format_name: name of its format, for the error.

    Returns:
        A uint8 array of shape (height, width, channels).

    Raises:
        InputError: its mode has another depth, or colours that are not converted exactly.
    """
    mode = picture.mode
    if mode == "P":
        converted_mode = "RGBA" if "transparency" in picture.info else "RGB"
    elif mode in _MODES:
        converted_mode = "RGBA" if mode == "RGB" and "transparency" in picture.info else _MODES[mode]
        converted_mode = "LA" if mode in ("1", "L") and "transparency" in picture.info else converted_mode
    else:
        raise InputError(
            f"{format_name} with pixels of the mode {mode} is not decoded exactly; convert it to 8 or 16 bits"
        )
    width, height = picture.size
    step = max(1, _STRIP_PIXELS // width)
    first = np.asarray(picture.crop((0, 0, width, min(step, height))).convert(converted_mode))
    pixels = np.empty((height, *first.shape[1:]), np.uint8)
    pixels[:step] = first
    for top in range(step, height, step):
        strip = picture.crop((0, top, width, min(top + step, height)))
        pixels[top : top + step] = strip.convert(converted_mode)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _by_pillow(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes an image of 8 bits per channel by Pillow.

    Args:
        data: content of the file.
        kind: name of its format, a key of _PLUGINS.
        header: header of the image; None if its format is not in READABLE.
    """
    if kind == "SGI" and data[3:4] != b"\x01":
        raise InputError("SGI with 16 bits a channel is not decoded exactly; convert it to PNG")
    with open_by_pillow(data, kind) as picture:
        frames = header.num_frames if header else _num_frames(picture)
        orientation = 1 if kind == formats.TIFF else orientation_of(picture)  # Pillow turns TIFF by itself
        is_cmyk = picture.mode == "CMYK"
        picture.load()
        return Picture(pixels_of(picture, kind), num_frames=frames, orientation=orientation, is_cmyk=is_cmyk)


def _num_frames(picture: Image.Image) -> int:
    """Returns the number of frames, or of sizes in an icon, that Pillow reads in an image."""
    sizes = picture.info.get("sizes")
    return len(sizes) if sizes else getattr(picture, "n_frames", 1)


def orientation_of(picture: Image.Image) -> int:
    """Returns the EXIF orientation, from 1 to 8, of an image of Pillow; 1 if it is missing or cannot be read."""
    try:
        orientation = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # Pillow parses EXIF data here, and raises many classes if they are damaged
        return 1
    return orientation if orientation in range(2, 9) else 1


# ----------------------------------------------------------------------------------------------------- more than 8 bits


def deep_pixels(data: bytes, kind: str) -> tuple[NDArray[Any], int] | None:
    """Returns (pixels, bits per channel) of a TIFF or PPM file that Pillow does not decode exactly; None for others.

    Such a file has more than 8 bits per channel, or a compression that Pillow does not support.

    Args:
        data: content of the file.
        kind: name of its format, such as `formats.TIFF`.

    Returns:
        A uint8 or uint16 array of shape (height, width, channels), and a number such as 12 or 16.

    Raises:
        InputError: the file is damaged, or cannot be decoded exactly.
    """
    if kind == formats.TIFF:
        return _deep_tiff(data)
    if kind == formats.PPM:
        return _deep_ppm(data)
    return None


def _tiff(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes the first page of a TIFF file, upright.

    For the arguments, see `_by_pillow`.
    """
    frames = header.num_frames if header else 1
    deep = _deep_tiff(data)
    if deep is None:
        return _by_pillow(data, kind, header)
    return Picture(deep[0], deep[1], frames)


def _deep_tiff(data: bytes) -> tuple[NDArray[Any], int] | None:
    """Returns (upright pixels, bits per channel) of the first page of a TIFF file; None if Pillow decodes it."""
    page = tiff.first_directory(data)
    bits = tiff.depth(page)
    if bits <= 8 and not (bits == 8 and page.number(tiff.COMPRESSION) in _NOT_IN_PILLOW and tiff.is_plain(page)):
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
    return apply_orientation(pixels, orientation if orientation in range(1, 9) else 1), bits


def _ppm(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes a PBM, PGM or PPM file.

    For the arguments, see `_by_pillow`.
    """
    deep = _deep_ppm(data)
    if deep is None:
        return _by_pillow(data, kind, header)
    return Picture(*deep, num_frames=header.num_frames if header else 1)


def _deep_ppm(data: bytes) -> tuple[NDArray[Any], int] | None:
    """Returns (pixels, bits per channel) of a PGM or PPM file; None if it has at most 8 bits."""
    kind, width, height, maximum, start = ppm_fields(data)
    if maximum < 256:
        return None
    channels = 3 if kind in (3, 6) else 1
    num_values = height * width * channels
    if kind in (2, 3):
        values = np.array(re.sub(rb"#[^\n\r]*", b"", data[start:]).split(), np.int64)
    else:
        values = np.frombuffer(data, ">u2", num_values, start)
    if len(values) < num_values or (num_values and int(values.max()) > maximum):
        raise DamagedError(f"expected {num_values} values up to {maximum}")
    return values[:num_values].astype(np.uint16).reshape(height, width, channels), maximum.bit_length()


def _jpeg(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes a JPEG: with 8 bits by Pillow, which converts CMYK, and with more by imagecodecs.

    For the arguments, see `_by_pillow`.
    """
    if header is None or header.bits <= 8:
        return _by_pillow(data, kind, header)
    pixels = np.asarray(_imagecodecs().jpeg8_decode(data))
    return Picture(_three_dimensional(pixels), header.bits, header.num_frames)


def _png(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes a PNG: with 8 bits by Pillow, which converts transparent colours, and with 16 by imagecodecs.

    For the arguments, see `_by_pillow`.
    """
    if header is None or header.bits <= 8:
        return _by_pillow(data, kind, header)
    pixels = _three_dimensional(np.asarray(_imagecodecs().png_decode(data)))
    with open_by_pillow(data, kind) as picture:
        orientation = orientation_of(picture) if header.has_metadata else 1
    return Picture(pixels, header.bits, header.num_frames, orientation)


def _jpeg_2000(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes a JPEG 2000 image: with 8 bits by Pillow, and with more, which Pillow reduces to 8, by imagecodecs.

    For the arguments, see `_by_pillow`.
    """
    depths = jpeg_2000.depths(data)
    num_channels = len(depths)
    if len(set(depths)) > 1 or depths[0] & 0x80 or depths[0] >= 16 or num_channels > 4:
        raise InputError(
            f"JPEG 2000 with signed, different or {num_channels} channels is not decoded exactly; convert it"
        )
    jpeg_2000.check_tiles(data)
    bits = depths[0] + 1
    if bits <= 8:
        return _by_pillow(data, kind, header)
    with open_by_pillow(data, kind):  # checks its size
        return Picture(_three_dimensional(np.asarray(_imagecodecs().jpeg2k_decode(data))), bits)


def _avif(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes an AVIF image: with 8 bits by Pillow, and with more, which Pillow reduces to 8, by imagecodecs.

    For the arguments, see `_by_pillow`.
    """
    bits = _avif_bits(data)
    if bits <= 8:
        return _by_pillow(data, kind, header)
    with open_by_pillow(data, kind) as image:
        frames, orientation = _num_frames(image), orientation_of(image)
        check_size(frames * image.size[1], image.size[0])
    pixels = np.asarray(_imagecodecs().avif_decode(data))  # all frames: decoding one of them may end the process
    return Picture(_three_dimensional(pixels[0] if pixels.ndim == 4 else pixels), bits, frames, orientation)


def _avif_bits(data: bytes) -> int:
    """Returns the largest number of bits per channel (8, 10 or 12) among the images of an AVIF file."""
    flags = [match[0] for match in _AV1.findall(data)]
    return max((8 if not flag & 0x40 else 12 if flag & 0x20 else 10 for flag in flags), default=8)


def _heic(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes the primary image of a HEIC file, which libheif turns upright.

    For the arguments, see `_by_pillow`.
    """
    try:
        import pillow_heif
    except ImportError as error:
        raise InputError(f"HEIC needs pillow-heif: {install_command('heif')}; or convert it to PNG") from error
    image = pillow_heif.open_heif(io.BytesIO(data), convert_hdr_to_8bit=False)
    check_size(image.size[1], image.size[0])
    mode, bits = image.mode, int(image.info.get("bit_depth") or 8)
    if mode.split(";")[0] not in ("L", "LA", "I", "RGB", "RGBA"):
        raise InputError(f"HEIC with pixels of the mode {mode} is not decoded exactly; convert it to PNG")
    pixels = _three_dimensional(np.asarray(image))
    if pixels.dtype == np.uint16:
        pixels = pixels >> (16 - bits)  # libheif shifts the values to the high bits of 16
    return Picture(np.ascontiguousarray(pixels), bits, len(image))


def _jpeg_xl(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes the first frame of a JPEG XL file, which libjxl turns upright.

    For the arguments, see `_by_pillow`.
    """
    height, width = jpeg_xl_size(data)
    check_size(height, width)
    pixels = np.asarray(_imagecodecs().jpegxl_decode(data))
    frames = 1
    if sorted(pixels.shape[:2]) != sorted((height, width)):
        frames, pixels = len(pixels), pixels[0]
    return Picture(_three_dimensional(pixels), 8 if pixels.dtype == np.uint8 else 16, frames)


def jpeg_xl_size(data: bytes) -> tuple[int, int]:
    """Returns (height, width) of a JPEG XL image as stored, before its orientation is applied.

    Raises:
        DamagedError: the file contains no image.
    """
    start = 0
    while data[start : start + 2] != b"\xff\x0a":  # a file of boxes: the image is the content of one
        size, kind = int.from_bytes(data[start : start + 4], "big"), data[start + 4 : start + 8]
        header_size = 16 if size == 1 else 8
        size = int.from_bytes(data[start + 8 : start + 16], "big") if size == 1 else size
        if len(kind) < 4 or 0 < size < header_size:
            raise DamagedError("there is no image in it")
        if kind in (b"jxlc", b"jxlp"):
            start += header_size + (4 if kind == b"jxlp" else 0)
            break
        start = start + size if size else len(data)
    bits = int.from_bytes(data[start + 2 : start + 14], "little")  # the header, read from the lowest bit on
    is_small, bits = bits & 1, bits >> 1
    height, bits = _jxl_length(bits, is_small)
    ratio, bits = bits & 7, bits >> 3
    if ratio:
        numerator, denominator = _JXL_RATIOS[ratio]
        return height, height * numerator // denominator
    return height, _jxl_length(bits, is_small)[0]


def _jxl_length(bits: int, is_small: int) -> tuple[int, int]:
    """Reads a height or width from the header of a JPEG XL image, and returns (length in pixels, remaining bits).

    Args:
        bits: the bits of the header from here on, as an integer whose lowest bit is the first one.
        is_small: 1 if the lengths have 5 bits and are multiples of 8, 0 if they have 9 to 30 bits.
    """
    if is_small:
        return ((bits & 31) + 1) * 8, bits >> 5
    num_bits = (9, 13, 18, 30)[bits & 3]
    return ((bits >> 2) & ((1 << num_bits) - 1)) + 1, bits >> (2 + num_bits)


def _dds(data: bytes, kind: str, header: ImageHeader | None) -> Picture:
    """Decodes a DDS file of one texture with 8 bits per channel; others, which Pillow decodes in part, are refused.

    For the arguments, see `_by_pillow`.
    """
    capabilities = int.from_bytes(data[112:116], "little")
    is_new = data[84:88] == b"DX10"
    pixel_format, num_textures = (int.from_bytes(data[i : i + 4], "little") if is_new else 0 for i in (128, 140))
    if capabilities & _CUBE_OR_VOLUME or num_textures > 1 or pixel_format in _DDS_FLOATS:
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
    """Returns pixels of shape (height, width) or (height, width, channels) as an array of three dimensions.

    Raises:
        InputError: they have another shape, more than 4 channels, or a dtype other than uint8 and uint16.
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
    """Returns the module `imagecodecs`, imported at the first call.

    Raises:
        MissingDependencyError: it is not installed.
    """
    with needs("images need imagecodecs", "image"):
        import imagecodecs
    return imagecodecs
