"""Images that every reader decodes, checked before they are stored."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from apache_beam.io.filesystems import FileSystems

from beam_datasets.errors import needs
from beam_datasets.files.convert import image_value
from beam_datasets.files.inputs import count, open_bytes

ALPHA = "images with transparency, which are read without"
TURNED = "images with an EXIF orientation, which are read without (--exif_orientation apply)"
UPRIGHT = "images turned upright by their EXIF orientation"
EXIF_ORIENTATIONS = ("keep", "apply", "error")
_VERBATIM = {"JPEG": ("L", "RGB"), "PNG": ("1", "L", "LA", "P", "RGB", "RGBA")}
_ORIENTATION = 0x0112  # the EXIF tag; 1 is upright, 2 to 8 are turned or mirrored


def image_of(value: Any, beside: str, exif_orientation: str = "keep") -> Any:
    """Returns the image of bytes, of {"b64": ...}, of Hugging Face's struct, or of a path.

    Args:
        value: of a row.
        beside: file that paths are relative to.
        exif_orientation: see `storable_image`.

    Raises:
        ValueError: it cannot be read or stored.
    """
    value = image_value(value)
    if isinstance(value, bytes):
        return storable_image(value, exif_orientation)
    path = FileSystems.join(FileSystems.split(beside)[0], value)
    try:
        with open_bytes(path) as stream:
            return storable_image(stream.read(), exif_orientation)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def storable_image(data: bytes, exif_orientation: str = "keep") -> Any:
    """Returns an image that every reader decodes: the bytes as they are, or RGB pixels.

    The image is decoded once to check it. 8-bit PNG and JPEG are kept; other formats of Pillow (WebP, the first frame
    of a GIF, TIFF, BMP, CMYK) become RGB pixels. Images with transparency, which is not read, are counted, and so are
    images whose EXIF orientation says that they are turned or mirrored, which decoders ignore.

    Args:
        data: the file.
        exif_orientation: "keep" the bytes, which are read as if there were no orientation; "apply" it, which makes
            pixels of the image; or refuse it as an "error".

    Raises:
        ValueError: not an image, damaged, has more than 8 bits a channel, or has an orientation that is an error.
    """
    with needs("checking images needs Pillow", "image"):
        import PIL.Image
        import PIL.ImageOps
    if not data:
        raise ValueError("the file is empty")
    try:
        with PIL.Image.open(io.BytesIO(data)) as image:
            image.load()
            if image.mode[0] in "IF":
                raise ValueError(f"its pixels are {image.mode} (more than 8 bits); convert it to 8 bits before")
            orientation = _orientation(image)
            if orientation != 1 and exif_orientation == "error":
                raise ValueError(
                    f"its EXIF orientation is {orientation}, which decoders ignore; --exif_orientation apply turns it "
                    "upright, keep stores it as it is"
                )
            count(ALPHA, image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info)
            if orientation != 1:
                count(UPRIGHT if exif_orientation == "apply" else TURNED)
                if exif_orientation == "apply":
                    return np.asarray(PIL.ImageOps.exif_transpose(image).convert("RGB"))
            if image.mode in _VERBATIM.get(image.format or "", ()):
                return data
            return np.asarray(image.convert("RGB"))
    except PIL.UnidentifiedImageError:
        raise ValueError(f"not an image (it begins with {data[:12]!r})") from None
    except (OSError, SyntaxError, EOFError, PIL.Image.DecompressionBombError) as error:
        raise ValueError(f"a damaged image: {error}") from None


def _orientation(image: Any) -> int:
    """Returns the EXIF orientation of an image, from 1 to 8; 1 if there is none that can be read."""
    try:
        found = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged EXIF data, which Pillow reads late, and with many kinds of errors
        return 1
    return found if found in range(2, 9) else 1
