"""Conversion of image files to the form that a dataset stores, checked by the decoder that will read them."""

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
from beam_datasets.intake.streams import read_relative

# Names of counters of images that readers will not see as they are in their files; see `files.inputs.count`.
ALPHA = "images with transparency, which are read without"
TURNED = "images with an EXIF orientation, which are read without (--exif_orientation apply)"
UPRIGHT = "images turned upright by their EXIF orientation"
REDUCED = (
    "images with several frames, pages, views or sizes, or joined, of which only the first is kept (--frames first)"
)
PREVIEWS = "images in files with previews or other pictures besides, which are not read"
PRINTED = "images with the colours of print (CMYK), converted to RGB"
EXIF_ORIENTATIONS = ("keep", "apply", "error")
FRAMES = ("error", "first")
_FRAME_WORDS = {formats.TIFF: "pages", formats.JPEG: "views", formats.HEIC: "images", "ICO": "sizes"}


@dataclass(frozen=True)
class ImageOptions:
    """Options for images that a dataset cannot store unchanged with all their properties.

    Attributes:
        exif_orientation: handling of an image with an EXIF orientation: "keep" stores the file, whose orientation
            readers ignore; "apply" stores its upright pixels; "error" refuses it.
        frames: handling of a file with several frames, pages, views or sizes: "first" keeps the first; "error" refuses
            it.
    """

    exif_orientation: str = "keep"
    frames: str = "error"

    def __post_init__(self) -> None:
        for name, choices in (("exif_orientation", EXIF_ORIENTATIONS), ("frames", FRAMES)):
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name} is {value!r}; expected one of {', '.join(choices)}")


STORED_UNCHANGED = ImageOptions()
IMAGE = Field("image")


def image_of(value: Any, field: Field, path: str, referring_path: str, options: ImageOptions) -> Any:
    """Returns the stored form of an image, which a row contains or whose file it names; see `storable_image`.

    Args:
        value: content of an image file, or its path or URL.
        field: field of the image.
        path: path of the field, for advice in errors; see `value_converter`.
        referring_path: file whose folder relative paths start from.
        options: handling of orientations and frames.

    Raises:
        ValueError: the image cannot be read or stored.
    """
    if isinstance(value, bytes):
        return storable_image(value, field, options, path)
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} ({type(value).__name__}) is neither the bytes of an image nor its path")
    image_path, data = read_relative(value, referring_path)
    try:
        return storable_image(data, field, options, path)
    except ValueError as error:
        raise ValueError(f"{image_path}: {error}") from None


def storable_image(
    data: bytes, field: Field = IMAGE, options: ImageOptions = STORED_UNCHANGED, path: str = ""
) -> bytes | NDArray[Any]:
    """Returns the form of an image that a dataset stores: the file unchanged, or its pixels.

    PNG and JPEG files are kept, after decoding them once by the decoder that will read them. Images of other formats,
    and JPEG of CMYK, are returned as pixels with the channels of the field. Properties that readers will not see are
    counted: transparency without a channel for it, an EXIF orientation, CMYK, further frames, and previews.

    Args:
        data: content of the image file.
        field: field with the channels and the dtype of the images.
        options: handling of orientations and frames.
        path: path of the field, for advice in errors; '' for a builder of image files.

    Raises:
        InputError: the data are not an image, or damaged; or the image has other bits or channels than the field, or
            frames or an orientation that `options` refuse.
        MissingDependencyError: a package that decodes it is not installed.
    """
    try:
        if formats.detect_format(data) not in (formats.PNG, formats.JPEG):
            return _as_pixels(read_picture(data), field, options, path)
        header = check_image(data)
        _check_image(header, field, options, path)
        orientation = _orientation(data, header, options)
        if (orientation != 1 and options.exif_orientation == "apply") or not _is_decoded_completely(header, field):
            return _as_pixels(read_picture(data), field, options, path)
        try:
            _image_decoder(field.channels, field.dtype)(data)
        except ValueError as error:
            raise InputError(f"a damaged image: {error}") from error
        _count_properties(header, orientation, field, options)
        return data
    except BeamDatasetsError:
        raise
    except Exception as error:  # libraries raise many classes for damaged files
        raise InputError(f"a damaged image: {reason(error)}") from error


@lru_cache(maxsize=16)
def _image_decoder(channels: int, dtype: str) -> Callable[[bytes], NDArray[Any]]:
    """Returns the function from the bytes of an image file to its pixels; cached.

    Args:
        channels: the number of channels of the pixels.
        dtype: name of their NumPy dtype, such as "uint8".
    """
    return image_codec.decoder(channels, np.dtype(dtype))


def _is_decoded_completely(header: ImageHeader, field: Field) -> bool:
    """Returns whether the decoder of datasets decodes a PNG or JPEG without loss to the channels of the field.

    It does not for a JPEG of CMYK, or for a gray PNG with a transparent level if the field has an alpha channel.
    """
    if header.format == formats.JPEG:
        return header.channels in (1, 3)
    return not (header.has_transparent_color and header.channels == 1 and field.channels in (2, 4))


def _as_pixels(picture: Picture, field: Field, options: ImageOptions, path: str) -> NDArray[Any]:
    """Checks a decoded image, counts the properties that it loses, and returns its pixels with the field's channels.

    Args:
        picture: the decoded image.
        field: field of the image, with its dtype and channels.
        options: options for images that cannot be stored unchanged.
        path: path of the field, for errors.

    Returns:
        An array of shape (height, width, channels).
    """
    _check_image(picture, field, options, path)
    image_codec.check_png_size(*picture.pixels.shape[:2])
    _refuse_orientation(picture.orientation, options)
    _count_properties(picture, picture.orientation, field, options)
    count(PRINTED, picture.is_cmyk)
    pixels = picture.upright() if options.exif_orientation == "apply" else picture.pixels
    return np.ascontiguousarray(image_codec.convert_channels(pixels, field.channels))


def _check_image(image: ImageHeader | Picture, field: Field, options: ImageOptions, path: str) -> None:
    """Checks an image against its field and the options.

    It raises InputError for frames or joined images that `options` refuse, other bits than the field's, or colours in
    a gray field.

    Args:
        image: the header, or the decoded image.
        field: field of the image, with its dtype and channels.
        options: options for images that cannot be stored unchanged.
        path: path of the field, for errors.
    """
    if image.num_frames > 1 and options.frames == "error":
        frames = _FRAME_WORDS.get(image.format, "frames")
        first = "the largest" if image.format == "ICO" else "the first"
        raise InputError(f"it has {image.num_frames} {frames}; --frames first keeps {first}")
    if image.is_joined and options.frames == "error":
        raise InputError(
            "another image follows the end of the first one; save each in a file of its own, or --frames first keeps "
            "the first"
        )
    if image.bits > 8 and field.dtype == "uint8":
        channels = 1 if image.channels == 1 else field.channels
        wider_options = _options_for(field, path, dtype="uint16", channels=channels)
        raise InputError(
            f"it has {image.bits} bits a channel, of which uint8 keeps 8; {wider_options} keeps them, if all images "
            "have more than 8"
        )
    if image.bits <= 8 and field.dtype != "uint8":
        raise InputError(
            f"it has {image.bits} bits a channel, and the dataset images of {field.dtype}; keep images of 8 bits in a "
            f"dataset of their own, with {_options_for(field, path, dtype='uint8', channels=field.channels)}"
        )
    if image.channels > 2 >= field.channels:
        channels = 4 if image.has_alpha and field.channels == 2 else 3
        wider_options = _options_for(field, path, dtype=field.dtype, channels=channels)
        raise InputError(
            f"it has colours, which images of {field.channels} channels do not keep; {wider_options} keeps them"
        )


def _options_for(field: Field, path: str, *, dtype: str, channels: int) -> str:
    """Returns the options of the command that give images this dtype and number of channels, such as "--channels 4".

    Args:
        field: the current type of the images.
        path: path of the column, whose option is `--feature`; '' for an image folder.
        dtype: dtype of the pixels.
        channels: number of channels.
    """
    if path:
        return advice(path, str(replace(field, dtype=dtype, channels=channels)))
    options = [f"--image_dtype {dtype}"] * (dtype != field.dtype) + [f"--channels {channels}"] * (
        channels != field.channels
    )
    return " ".join(options)


def _orientation(data: bytes, header: ImageHeader, options: ImageOptions) -> int:
    """Returns the EXIF orientation of a PNG or JPEG, from 1 to 8.

    Args:
        data: content of the file.
        header: header of the image.
        options: options for images that cannot be stored unchanged.

    Raises:
        InputError: the image is not upright, and `options` refuse that.
    """
    if not header.has_metadata:
        return 1
    try:
        with open_by_pillow(data, header.format) as picture:
            orientation = orientation_of(picture)
    except BeamDatasetsError:
        raise
    except Exception:  # damaged metadata have no orientation; damaged pixels raise an error when they are decoded
        return 1
    _refuse_orientation(orientation, options)
    return orientation


def _refuse_orientation(orientation: int, options: ImageOptions) -> None:
    """Raises InputError if an EXIF orientation is not 1 (upright) and `options.exif_orientation` is "error"."""
    if orientation != 1 and options.exif_orientation == "error":
        raise InputError(
            f"its EXIF orientation is {orientation}, which decoders ignore; --exif_orientation apply turns it "
            "upright, keep stores it as it is"
        )


def _count_properties(image: ImageHeader | Picture, orientation: int, field: Field, options: ImageOptions) -> None:
    """Counts the properties of a stored image that readers will not see.

    Args:
        image: the header, or the decoded image.
        orientation: EXIF orientation, from 1 to 8; 1 is upright.
        field: field of the image, with its channels.
        options: options for images that cannot be stored unchanged.
    """
    count(ALPHA, image.has_alpha and field.channels in (1, 3))
    count(REDUCED, image.num_frames > 1 or image.is_joined)
    count(PREVIEWS, image.num_previews > 0)
    if orientation != 1:
        count(UPRIGHT if options.exif_orientation == "apply" else TURNED)
