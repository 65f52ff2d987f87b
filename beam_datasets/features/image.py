"""Image: pixels, stored as PNG or JPEG."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureTypeError, FeatureValueError
from beam_datasets.features import pictures, png, png_decoding
from beam_datasets.features.dtypes import STRING, dtype_name, to_dtype
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import check_shape, check_unmasked, shape_fits
from beam_datasets.features.raw import no_items, one_value_codec
from beam_datasets.features.tensor import Tensor
from beam_datasets.features.values import shape_from_json, shape_to_json, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.features.base import FeatureConnector, Json, Shape
    from beam_datasets.features.leaf import Codec

_CHANNELS = {"png": (0, 1, 2, 3, 4), "jpeg": (0, 1, 3), None: (0, 1, 2, 3, 4)}
_MODES = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "I;16": 1, "I;16B": 1}  # of Pillow, with their channels
_DTYPES = {"png": ("uint8", "uint16", "float32"), "jpeg": ("uint8",), None: ("uint8", "uint16", "float32")}


@dataclass(frozen=True, repr=False)
class Image(Leaf):
    """An image. Decodes to an array of shape (height, width, channels); a GIF to one with the frames before these.

    Takes an array; a path, an open file or bytes, whose content is stored as it is without being looked at; or a
    `PIL.Image.Image`.

    Attributes:
        shape: (height, width, channels), where height and width may be None; (None, None, 3) if not given. Channels are
            1 for gray, 2 for gray and alpha, 3 for RGB, 4 for RGB and alpha, 0 for whatever the image has.
        dtype: uint8, uint16 (PNG only), or float32 (PNG only, one channel: the bits of each number make four channels).
        encoding_format: 'png' or 'jpeg', how arrays are stored; PNG if None.
        use_colormap: whether viewers shall show each value in a colour of its own.
        doc: what it means.
    """

    shape: Shape | None = field(default=None, kw_only=True)
    dtype: Any = field(default=None, kw_only=True)
    encoding_format: str | None = field(default=None, kw_only=True)
    use_colormap: bool = field(default=False, kw_only=True)

    PATH: ClassVar[str] = "image_feature.Image"

    def __post_init__(self) -> None:
        super().__post_init__()
        shape: Shape = tuple(self.shape or (None, None, 3))
        self._set(shape=shape, dtype=to_dtype(np.uint8 if self.dtype is None else self.dtype))
        self._set(use_colormap=boolean("use_colormap", self.use_colormap))
        name, kind = dtype_name(self.dtype), self.encoding_format
        if kind not in _CHANNELS:
            raise ValueError(f"encoding_format={kind!r}; expected 'png', 'jpeg' or None")
        if len(shape) not in (3, 4):
            raise ValueError(f"the shape of an image is (height, width, channels), not {shape}")
        if shape[-1] not in _CHANNELS[kind]:
            raise ValueError(
                f"an image of the shape {shape} has {shape[-1]} channels; expected one of {_CHANNELS[kind]}"
            )
        if name not in _DTYPES[kind]:
            raise ValueError(f"a {kind or 'png'} image cannot have the dtype {name}; expected one of {_DTYPES[kind]}")
        if name == "float32" and shape[-1] != 1:
            raise ValueError(f"an image of float32 has one channel, not {shape[-1]}")
        if self.use_colormap and (kind == "jpeg" or shape[-1] != 1 or name == "float32"):
            raise ValueError(f"use_colormap is for PNG of integers with one channel, not {kind} {name} {shape}")

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def codec(self, path: str) -> Codec:
        """Returns how images are packed: as the bytes of one file."""
        empty = no_items(self.shape or (), self.dtype)
        return one_value_codec(self.packer(path), self.unpacker(path), path, empty)

    def packer(self, path: str) -> Callable[[Any], bytes]:
        """Returns the function from whatever an image is given as to the bytes of its file."""
        is_float = self.dtype == np.float32
        encode = pictures.encode_jpeg if self.encoding_format == "jpeg" else png.encode

        def pack(value: Any) -> bytes:
            if not isinstance(value, np.ndarray):
                if is_float:
                    raise FeatureValueError(f"{path}: an image of float32 must be an array, not {type(value).__name__}")
                return self._file(value, path)
            if value.dtype != self.dtype:
                raise FeatureValueError(f"{path}: the array has the dtype {value.dtype}; the image has {self.dtype}")
            check_unmasked(value, path)
            check_shape(value.shape, self._any_channels(), path)
            if is_float:
                value = np.ascontiguousarray(value, "<f4").view(np.uint8)
            try:
                return encode(value)
            except (ValueError, KeyError) as error:
                raise FeatureValueError(f"{path}: an array of the shape {value.shape} is no image: {error}") from error

        return pack

    def _any_channels(self) -> Shape:
        """Returns the shape with None in place of 0 channels, which stand for any number of them."""
        shape: Shape = self.shape or ()
        return (*shape[:-1], shape[-1] or None)

    def _file(self, value: Any, path: str) -> bytes:
        """Returns the bytes of an image that is given as bytes, path, file or Pillow's object."""
        if isinstance(value, bytes):
            return value
        if isinstance(value, (str, os.PathLike)):
            return read_file(value, path)
        if hasattr(value, "read"):
            return bytes(value.read())
        if hasattr(value, "save"):
            self._check_picture(value, path)
            target = io.BytesIO()
            try:
                value.save(target, format=(self.encoding_format or "png").upper())
            except OSError as error:
                raise FeatureValueError(f"{path}: the image cannot be encoded: {error}") from error
            return target.getvalue()
        raise FeatureTypeError(
            f"{path}: {type(value).__name__} is no image; expected an array, a path, a file or bytes"
        )

    def _check_picture(self, picture: Any, path: str) -> None:
        """Refuses a Pillow image of which channels, bits or pixels would be changed when it is read."""
        channels, dtype = _MODES.get(picture.mode, 0), "uint16" if picture.mode.startswith("I") else "uint8"
        if picture.mode == "P" and "transparency" in picture.info:
            channels = 4
        wanted = (self.shape or (0,))[-1] or channels
        if not channels or (channels, dtype) != (wanted, dtype_name(self.dtype)):
            raise FeatureValueError(
                f"{path}: the image has the mode {picture.mode!r}; the feature has {self.dtype} and {wanted} channels. "
                "Convert it first, as by image.convert('RGB')"
            )
        check_shape((*picture.size[::-1], channels), self._any_channels(), path)

    def unpacker(self, path: str) -> Callable[[bytes], NDArray[Any]]:
        """Returns the function from the bytes of a file to pixels."""
        shape = self._any_channels()
        is_float = self.dtype == np.float32
        stored = 4 if is_float else (self.shape or (0,))[-1] or 0
        decode = pictures.decoder(stored, np.dtype(np.uint8) if is_float else self.dtype)

        def unpack(data: bytes) -> NDArray[Any]:
            self._check_header(data, path)
            try:
                pixels = decode(data)
            except ValueError as error:
                raise FeatureValueError(f"{path}: {error}") from error
            if is_float:
                pixels = pixels.view("<f4")
            if not shape_fits(pixels.shape, shape):
                raise FeatureValueError(f"{path}: the image has the shape {pixels.shape}; the feature has {shape}")
            return pixels

        return unpack

    def png_form(self) -> png_decoding.Form | None:
        """Returns the form of PNGs whose pixels are the image's; None where they differ, or are decoded otherwise."""
        shape = self.shape or ()
        if self.dtype.kind != "u" or len(shape) != 3 or not size_of(shape) or type(self).unpacker is not Image.unpacker:
            return None
        return png_decoding.form_of(shape, self.dtype)  # type: ignore[arg-type]

    def _check_header(self, data: bytes, path: str) -> None:
        """Refuses a PNG of other lengths than the feature's before memory is taken for its pixels."""
        height, width = (self.shape or (None, None))[-3:-1]
        if height is None or width is None or data[:8] != png.SIGNATURE or len(data) < 24:
            return
        found = int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
        if found != (height, width):
            raise FeatureValueError(f"{path}: the image has {found[0]} x {found[1]} pixels, not {height} x {width}")

    def stored(self) -> FeatureConnector:
        """Returns the connector of the file's bytes."""
        return Tensor(shape=(), dtype=STRING)

    # ------------------------------------------------------------------------------------------------------------ JSON

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'image', shape and dtype, and what else was given."""
        content: Json = {"shape": shape_to_json(self.shape or ()), "dtype": dtype_name(self.dtype)}
        if self.encoding_format:
            content["encodingFormat"] = self.encoding_format
        if self.use_colormap:
            content["useColormap"] = True
        return "image", content

    @classmethod
    def from_content(cls, content: Json) -> Image:
        """Returns the Image of such a value."""
        return cls(**image_arguments(content), use_colormap=bool(content.get("useColormap")))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={dtype_name(self.dtype)})"


def image_arguments(content: Json) -> dict[str, Any]:
    """Returns the arguments that Image and LabeledImage have in common."""
    return {
        "shape": shape_from_json(content.get("shape")),
        "dtype": content.get("dtype") or None,
        "encoding_format": content.get("encodingFormat") or None,
    }


def read_file(value: str | os.PathLike[str], path: str) -> bytes:
    """Returns the bytes of a file that stands for a value, local or remote.

    Raises:
        FeatureValueError: the file cannot be read.
    """
    from beam_datasets import storage

    try:
        return bytes(storage.read_bytes(os.fspath(value)))
    except OSError as error:
        raise FeatureValueError(f"{path}: the file {os.fspath(value)!r} cannot be read: {error}") from error
