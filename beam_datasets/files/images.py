"""Images that files are, contain or name, as they are stored: checked by the decoder that will read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.features import image_codec
from beam_datasets.files.fields import Field, advice
from beam_datasets.files.inputs import count
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake.errors import reason
from beam_datasets.intake.image_formats import ImageHeader
from beam_datasets.intake.images import check_image
from beam_datasets.intake.pictures import Picture, open_by_pillow, orientation_of, read_picture
from beam_datasets.intake.streams import file_systems, open_bytes

ALPHA = "images with transparency, which are read without"
TURNED = "images with an EXIF orientation, which are read without (--exif_orientation apply)"
UPRIGHT = "images turned upright by their EXIF orientation"
REDUCED = "images with several frames, pages, views or sizes, of which only the first is kept (--frames first)"
PREVIEWS = "images in files with previews or other pictures besides, which are not read"
PRINTED = "images with the colours of print (CMYK), converted to RGB"
EXIF_ORIENTATIONS = ("keep", "apply", "error")
FRAMES = ("error", "first")
_FRAME_WORDS = {formats.TIFF: "pages", formats.JPEG: "views", formats.HEIC: "images", "ICO": "sizes"}


@dataclass(frozen=True)
class ImageOptions:
    """How images are stored, and which of them.

    Attributes:
        exif_orientation: "keep" the bytes, which are read as if there were no orientation; "apply" it, which makes
            pixels of the image; or refuse it as an "error".
        frames: of images with several frames, pages, views or sizes, keep the "first"; or refuse them as an "error".
    """

    exif_orientation: str = "keep"
    frames: str = "error"

    def __post_init__(self) -> None:
        for name, known in (("exif_orientation", EXIF_ORIENTATIONS), ("frames", FRAMES)):
            if (given := getattr(self, name)) not in known:
                raise ValueError(f"{name} is {given!r}; expected one of {', '.join(known)}")


STORED_UNCHANGED = ImageOptions()
IMAGE = Field("image")


def image_of(value: Any, field: Field, path: str, beside: str, options: ImageOptions) -> Any:
    """Returns the image of bytes, or of the file that a row names.

    Args:
        value: bytes, or a path.
        field: of the image.
        path: of the field, for advice; see `value_converter`.
        beside: file that paths are relative to.
        options: see there.

    Raises:
        ValueError: it cannot be read or stored.
    """
    if isinstance(value, bytes):
        return storable_image(value, field, options, path)
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} ({type(value).__name__}) is neither the bytes of an image nor its path")
    systems = file_systems()
    file = systems.join(systems.split(beside)[0], value)
    try:
        with open_bytes(file) as stream:
            data = stream.read()
    except InputError:
        raise
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    try:
        return storable_image(data, field, options, path)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def storable_image(
    data: bytes, field: Field = IMAGE, options: ImageOptions = STORED_UNCHANGED, path: str = ""
) -> bytes | NDArray[Any]:
    """Returns an image that every reader decodes to its exact pixels: the bytes as they are, or pixels.

    PNG and JPEG are kept, and decoded once by the decoder that will read them. Other formats, and JPEG of CMYK, become
    pixels with the channels of the field. What readers see otherwise is counted: transparency, if the field has no
    channel for it, an EXIF orientation, CMYK, further frames and previews.

    Args:
        data: the file.
        field: says which channels and bits images have.
        options: see there.
        path: of the field, for advice; '' if the files are images.

    Raises:
        InputError: it is not an image, damaged, has other bits or channels than the field, several frames, or an
            orientation that is an error.
        MissingDependencyError: a package is needed to decode it.
    """
    try:
        if formats.format_of(data) not in (formats.PNG, formats.JPEG):
            return _as_pixels(read_picture(data), field, options, path)
        header = check_image(data)
        _check(header, field, options, path)
        orientation = _orientation(data, header, options)
        if (orientation != 1 and options.exif_orientation == "apply") or not _is_read_whole(header, field):
            return _as_pixels(read_picture(data), field, options, path)
        try:
            _decoder(field.channels, field.dtype)(data)
        except ValueError as error:
            raise InputError(f"a damaged image: {error}") from error
        _count(header, orientation, field, options)
        return data
    except BeamDatasetsError:
        raise
    except Exception as error:  # whatever libraries meet in damaged files
        raise InputError(f"a damaged image: {reason(error)}") from error


@lru_cache(maxsize=16)
def _decoder(channels: int, dtype: str) -> Callable[[bytes], NDArray[Any]]:
    return image_codec.decoder(channels, np.dtype(dtype))


def _is_read_whole(header: ImageHeader, field: Field) -> bool:
    """Returns whether the decoder of a PNG or JPEG yields the image in the channels of the field.

    It makes RGB of CMYK with the help of Pillow, and ignores the transparent level of a gray PNG.
    """
    if header.format == formats.JPEG:
        return header.channels in (1, 3)
    return not (header.has_transparent_color and header.channels == 1 and field.channels in (2, 4))


def _as_pixels(picture: Picture, field: Field, options: ImageOptions, path: str) -> NDArray[Any]:
    """Returns the pixels of an image in the channels of the field."""
    _check(picture, field, options, path)
    _refuse_orientation(picture.orientation, options)
    _count(picture, picture.orientation, field, options)
    count(PRINTED, picture.is_cmyk)
    pixels = picture.upright() if options.exif_orientation == "apply" else picture.pixels
    return np.ascontiguousarray(image_codec.with_channels(pixels, field.channels))


def _check(image: ImageHeader | Picture, field: Field, options: ImageOptions, path: str) -> None:
    """Refuses an image with several frames, other bits than the field's, or colours that it has no channels for."""
    if image.num_frames > 1 and options.frames == "error":
        what = _FRAME_WORDS.get(image.format, "frames")
        kept = "the largest" if image.format == "ICO" else "the first"
        raise InputError(f"it has {image.num_frames} {what}; --frames first keeps {kept}")
    if image.bits > 8 and field.dtype == "uint8":
        channels = 1 if image.channels == 1 else field.channels
        way = _way(field, path, dtype="uint16", channels=channels)
        raise InputError(f"it has {image.bits} bits a channel, of which uint8 keeps 8; {way} keeps them")
    if image.bits <= 8 and field.dtype != "uint8":
        raise InputError(
            f"it has {image.bits} bits a channel, and the dataset images of {field.dtype}; keep images of 8 bits in a "
            f"dataset of their own, with {_way(field, path, dtype='uint8', channels=field.channels)}"
        )
    if image.channels > 2 >= field.channels:
        channels = 4 if image.has_alpha and field.channels == 2 else 3
        way = _way(field, path, dtype=field.dtype, channels=channels)
        raise InputError(f"it has colours, which images of {field.channels} channels do not keep; {way} keeps them")


def _way(field: Field, path: str, *, dtype: str, channels: int) -> str:
    """Returns the options with which images have another dtype or other channels."""
    if path:
        return advice(path, str(replace(field, dtype=dtype, channels=channels)))
    words = [f"--image_dtype {dtype}"] * (dtype != field.dtype) + [f"--channels {channels}"] * (
        channels != field.channels
    )
    return " ".join(words)


def _orientation(data: bytes, header: ImageHeader, options: ImageOptions) -> int:
    """Returns the EXIF orientation of a PNG or JPEG, from 1 to 8.

    Raises:
        InputError: it is not upright, and that is an error.
    """
    if not header.has_metadata:
        return 1
    try:
        with open_by_pillow(data, header.format) as picture:
            orientation = orientation_of(picture)
    except BeamDatasetsError:
        raise
    except Exception:  # its metadata are damaged, as for `orientation_of`; the image is decoded next
        return 1
    _refuse_orientation(orientation, options)
    return orientation


def _refuse_orientation(orientation: int, options: ImageOptions) -> None:
    if orientation != 1 and options.exif_orientation == "error":
        raise InputError(
            f"its EXIF orientation is {orientation}, which decoders ignore; --exif_orientation apply turns it "
            "upright, keep stores it as it is"
        )


def _count(image: ImageHeader | Picture, orientation: int, field: Field, options: ImageOptions) -> None:
    """Counts what readers will not see of an image that is stored."""
    count(ALPHA, image.has_alpha and field.channels in (1, 3))
    count(REDUCED, image.num_frames > 1)
    count(PREVIEWS, image.num_previews > 0)
    if orientation != 1:
        count(UPRIGHT if options.exif_orientation == "apply" else TURNED)
