"""Image, LabeledImage and Video: pixels, stored as PNG or JPEG files."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureTypeError, FeatureValueError, InputError, MissingDependencyError, shown_name
from beam_datasets.features import image_codec
from beam_datasets.features.base import DecodeLists, DocArg, FeatureConnector, FromJson, Items
from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.dtypes import (
    STRING,
    Json,
    Shape,
    drop_unset,
    dtype_name,
    num_values,
    shape_from_json,
    shape_to_json,
    to_dtype,
    to_shape,
)
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import check_shape, check_unmasked, iter_connectors, shape_fits
from beam_datasets.features.raw import build_empty_items, library_recorder, one_value_codec, stack_items
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Tensor
from beam_datasets.formats.proto_json import parse_int64
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake.image_formats import ImageHeader
from beam_datasets.intake.images import check_image

if TYPE_CHECKING:
    from beam_datasets.features.leaf import Codec


_CHANNELS = {"png": (0, 1, 2, 3, 4), "jpeg": (0, 1, 3), None: (0, 1, 2, 3, 4)}
_MODES = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "I;16": 1, "I;16B": 1}  # of Pillow, with their channels
CHECKS = ("structure", "decode")
_DTYPES = {"png": ("uint8", "uint16", "float32"), "jpeg": ("uint8",), None: ("uint8", "uint16", "float32")}


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False)
class Image(Leaf):
    """An image. Decodes to an array of shape (height, width, channels); a GIF to (frames, height, width, channels).

    Takes an array; a file as a path, an open file or bytes, which is checked and stored unchanged; or a
    `PIL.Image.Image`.

    Attributes:
        shape: (height, width, channels), where height and width may be None; (None, None, 3) if not given. Channels are
            1 for gray, 2 for gray and alpha, 3 for RGB, 4 for RGB and alpha, 0 for those of each image.
        dtype: uint8, uint16 (PNG only), or float32 (PNG only, one channel: the bits of each number make four channels).
        encoding_format: the format in which arrays are stored, 'png' or 'jpeg'; PNG if None.
        use_colormap: whether viewers show each value in a colour of its own.
        check: the check of files when encoding: "structure" checks without decoding that the file is complete and that
            its size fits, "decode" also decodes it. It is not in features.json.
        doc: the documentation of the feature.
    """

    shape: Shape | None = field(default=None, kw_only=True)
    dtype: Any = field(default=None, kw_only=True)
    encoding_format: str | None = field(default=None, kw_only=True)
    use_colormap: bool = field(default=False, kw_only=True)
    check: str = field(default="structure", kw_only=True, compare=False)

    PATH: ClassVar[str] = "image_feature.Image"

    def __post_init__(self) -> None:
        """Converts the fields to their types and checks that they fit together.

        Raises:
            ValueError: a field is invalid.
        """
        super().__post_init__()
        shape: Shape = to_shape(self.shape or (None, None, 3))
        self._set_fields(shape=shape, dtype=to_dtype(np.uint8 if self.dtype is None else self.dtype))
        self._set_fields(use_colormap=boolean("use_colormap", self.use_colormap))
        if self.check not in CHECKS:
            raise ValueError(f"check={self.check!r}; expected one of {', '.join(map(repr, CHECKS))}")
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
        """Returns the conversion between images and the bytes of one file; `path` names the feature in errors."""
        empty = build_empty_items(self.shape or (), self.dtype)
        return one_value_codec(self.packer(path), self.unpacker(path), path, empty)

    def packer(self, path: str) -> Callable[[Any], bytes]:
        """Returns the function from an image (array, path, open file, bytes or Pillow image) to the bytes of its file.

        Args:
            path: the feature, for errors of the function.
        """
        is_float, kind, record = self.dtype == np.float32, self.encoding_format or "png", library_recorder()
        check = self._checker(path)

        def pack(value: Any) -> bytes:
            """Returns the bytes of the file of an image."""
            if not isinstance(value, np.ndarray):
                if is_float:
                    raise FeatureValueError(
                        f"an image of float32 must be an array, not {type(value).__name__}", feature=path
                    )
                file, value = value, self._read_content(value, path)
                if isinstance(value, bytes):
                    check(value, file)
                    return value
            if value.dtype != self.dtype:
                raise FeatureValueError(
                    f"the array has the dtype {value.dtype}; the image has {self.dtype}", feature=path
                )
            check_unmasked(value, path)
            check_shape(value.shape, self._shape_of_any_channels(), path, num_channels=1)
            if is_float:
                value = np.ascontiguousarray(value, "<f4").view(np.uint8)
            try:
                data = image_codec.encode(value, kind)
            except ValueError as error:
                problem = f"cannot encode an array of the shape {value.shape} as {kind.upper()}: {error}"
                raise FeatureValueError(problem, feature=path) from error
            record(image_codec.encoder_version(kind))
            return data

        return pack

    def _checker(self, path: str) -> Callable[[bytes, Any], object]:
        """Returns the function that raises FeatureValueError for a file that is unreadable or does not fit the feature.

        Args:
            path: the feature, for errors.
        """
        decode = self.unpacker(path) if self.check == "decode" else None

        def check(data: bytes, value: Any) -> None:
            """Raises FeatureValueError for the content of a file; it names the file if the value is its path."""
            try:
                self._check_header(check_image(data))
                if decode is not None:
                    decode(data)
            except (InputError, FeatureValueError) as error:
                problem = str(error) if isinstance(error, InputError) else error.problem
                if isinstance(value, (str, os.PathLike)):
                    problem = f"the image {os.fspath(value)!r}: {problem}"
                raise FeatureValueError(problem, feature=path, expected=error.expected, got=error.got) from error

        return check

    def _check_header(self, header: ImageHeader) -> None:
        """Checks the size, channels and bits of an image file against the feature.

        Args:
            header: the header of the file.

        Raises:
            InputError: the file would be decoded to an array of another shape, or has more bits than the dtype.
        """
        shape = self._shape_of_any_channels()
        if header.format == formats.GIF:
            image_shape: tuple[Any, ...] = (header.num_frames, header.height, header.width, 3)
        else:
            image_shape = (header.height, header.width, shape[-1])
        if not shape_fits(image_shape, shape):
            channels = "channels" if image_shape[-1] is None else image_shape[-1]
            hint = ". A GIF is read with its frames; for one of them, give its pixels" if len(image_shape) == 4 else ""
            read = ", ".join(map(str, (*image_shape[:-1], channels)))
            raise InputError(
                f"{header.format}: the image has the shape ({read}); the feature has {self.shape}{hint}",
                expected=f"the shape {self.shape}",
                got=f"({read})",
            )
        if header.format == formats.JPEG and header.bits > 8 and self.dtype == np.uint8:
            raise InputError(
                f"JPEG: the image has {header.bits} bits a channel; a feature with dtype=np.uint16 keeps them"
            )

    def _shape_of_any_channels(self) -> Shape:
        """Returns the shape of the feature with None in place of 0 channels, which means any number."""
        shape: Shape = self.shape or ()
        return (*shape[:-1], shape[-1] or None)

    def _read_content(self, value: Any, path: str) -> bytes | NDArray[Any]:
        """Returns the bytes of an image file, or the pixels of a Pillow image.

        Args:
            value: bytes, a path, an open file, or a `PIL.Image.Image`.
            path: the feature, for errors.

        Raises:
            FeatureError: the value is not an image, or the file cannot be read.
        """
        if isinstance(value, bytes):
            return value
        if isinstance(value, (str, os.PathLike)):
            return read_file(value, path)
        if hasattr(value, "read"):
            return bytes(value.read())
        if hasattr(value, "convert"):
            mode = self._choose_mode(value, path)
            pixels = np.asarray(value.convert(mode) if mode else value)
            return pixels[..., None] if pixels.ndim == 2 else pixels
        raise FeatureTypeError(expected="an array, a path, a file or bytes", got=type(value).__name__, feature=path)

    def _choose_mode(self, picture: Any, path: str) -> str | None:
        """Returns the Pillow mode to which an image is converted for the feature's channels; None for its own mode.

        Args:
            picture: the `PIL.Image.Image`.
            path: the feature, for errors.

        Raises:
            FeatureValueError: the image has other channels or bits than the feature.
        """
        channels, dtype = _MODES.get(picture.mode, 0), "uint16" if picture.mode.startswith("I") else "uint8"
        if picture.mode == "P" and "transparency" in picture.info:
            channels = 4
        expected_channels = (self.shape or (0,))[-1] or channels
        if not channels or (channels, dtype) != (expected_channels, dtype_name(self.dtype)):
            raise FeatureValueError(
                f"the image has the mode {picture.mode!r}; the feature has {self.dtype} and {expected_channels} "
                "channels. Convert it first, as by image.convert('RGB')",
                feature=path,
            )
        return {"1": "L", "P": "RGB" if channels == 3 else "RGBA", "I;16B": "I;16"}.get(picture.mode)

    def unpacker(self, path: str) -> Callable[[bytes], NDArray[Any]]:
        """Returns the function from the bytes of a file to pixels of shape (height, width, channels).

        A GIF gives (frames, height, width, 3). The function raises FeatureValueError if the file is damaged or has
        another shape; `path` names the feature.
        """
        shape = self._shape_of_any_channels()
        is_float = self.dtype == np.float32
        stored = 4 if is_float else (self.shape or (0,))[-1] or 0
        decode = image_codec.decoder(stored, np.dtype(np.uint8) if is_float else self.dtype)

        def unpack(data: bytes) -> NDArray[Any]:
            """Returns the pixels of the content of a file."""
            try:
                pixels = decode(data)
            except ValueError as error:
                raise FeatureValueError(str(error), feature=path) from error
            if is_float:
                pixels = pixels.view("<f4")
            if not shape_fits(pixels.shape, shape):
                raise FeatureValueError(
                    f"the image has the shape {pixels.shape}; the feature has {shape}",
                    expected=f"the shape {shape}",
                    got=f"{pixels.shape}",
                    feature=path,
                )
            return pixels

        return unpack

    @property
    def file_kind(self) -> str:
        """'image': each value is stored as the bytes of an image file."""
        return "image"

    @property
    def has_plain_form(self) -> bool:
        """Whether files can be decoded directly into an array of the feature's channels and dtype."""
        shape = self.shape or ()
        is_plain = self.dtype.kind == "u" and len(shape) == 3 and shape[2] in (1, 3, 4)
        return is_plain and num_values(shape) != 0 and type(self).unpacker is Image.unpacker

    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form, the file's bytes."""
        return Tensor(shape=(), dtype=STRING)

    # ------------------------------------------------------------------------------------------------------------ JSON

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'image', and a dict of the shape, the dtype, and the other options that are set.

        For example, ('image', {'shape': {'dimensions': ['2', '2', '3']}, 'dtype': 'uint8'}); '-1' is any length.
        """
        options = drop_unset({"encodingFormat": self.encoding_format, "useColormap": self.use_colormap})
        return "image", {"shape": shape_to_json(self.shape or ()), "dtype": dtype_name(self.dtype), **options}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Image:
        """Returns the Image of `content`, the second value of `content_json`."""
        return cls(**image_arguments(content), use_colormap=bool(content.get("useColormap")))


@dataclass(frozen=True, repr=False, init=False)
class LabeledImage(Image):
    """An image of one channel whose values are indices of classes. It takes the same values as `Image`.

    Args:
        labels: the classes' names; or the path of a file with one name per line; or the number of classes; or None.
        shape: (height, width, 1); height and width may be None.
        dtype: uint8 or uint16.
        encoding_format: 'png', or None, which means the same.
        check: see `Image`.
        doc: the documentation of the feature.

    Attributes:
        label: the ClassLabel of a value.
    """

    label: ClassLabel

    PATH: ClassVar[str] = "labeled_image.LabeledImage"

    def __init__(
        self,
        *,
        labels: Iterable[str] | str | os.PathLike[str] | int | None,
        shape: Shape | None = None,
        dtype: Any = None,
        encoding_format: str | None = None,
        check: str = "structure",
        doc: DocArg = None,
    ) -> None:
        self._set_fields(label=_to_class_label(labels))
        options = {"dtype": dtype, "encoding_format": encoding_format, "check": check}
        super().__init__(shape=shape or (None, None, 1), use_colormap=True, doc=doc, **options)

    @property
    def num_classes(self) -> int | None:
        """The number of classes; None if it is not known."""
        return self.label.num_classes

    @property
    def names(self) -> list[str]:
        """The classes' names, in the order of their indices; '0', '1', ... if they have no names."""
        return self.label.names

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The classes' names, in the order of their indices; None if they have no names."""
        return self.label.label_names

    def content_json(self) -> tuple[str, Json]:
        """Returns ('image', content of an `Image` with 'label': {'numClasses': number of classes})."""
        key, content = super().content_json()
        return key, {**content, "label": self.label.content_json()[1]}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> LabeledImage:
        """Returns the LabeledImage of `content`, the second value of `content_json`, without names."""
        count = parse_int64(content.get("label", {}).get("numClasses", content.get("labels")))
        return cls(**image_arguments(content), labels=count or None)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns {'<prefix>.labels.txt': the names, one per line}; {} if the classes have no names."""
        return self.label.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> LabeledImage:
        """Returns a copy with the class names of `<prefix>.labels.txt`; see `FeatureConnector.load_labels`."""
        return self._copy_with(label=self.label.load_labels(read, prefix))

    def __repr__(self) -> str:
        return super().__repr__().removesuffix(")") + f", num_classes={self.num_classes})"


def _to_class_label(labels: Any) -> ClassLabel:
    """Returns the ClassLabel of the argument `labels` of `LabeledImage`: names, a file of names, a number, or None."""
    if labels is None or isinstance(labels, int):
        return ClassLabel(num_classes=labels)
    if isinstance(labels, (str, os.PathLike)):
        return ClassLabel(names_file=labels)
    return ClassLabel(names=labels)


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False, init=False)
class Video(Sequence):
    """Frames of the same size. Decodes to an array of shape (frames, height, width, channels).

    Takes an array, a list of frames (each as `Image` takes it), or a path, an open file or bytes of a video, whose
    frames are then extracted by the program ffmpeg.

    Args:
        shape: (frames, height, width, channels); all but the channels may be None.
        encoding_format: the format in which arrays are stored, 'png' or 'jpeg'.
        ffmpeg_extra_args: arguments for ffmpeg, between the input and the output.
        use_colormap: see `Image`.
        dtype: uint8 or uint16.
        check: see `Image`.
        doc: the documentation of the feature.
    """

    ffmpeg_extra_args: tuple[str, ...]

    PATH: ClassVar[str] = "video_feature.Video"

    def __init__(
        self,
        shape: Shape | None = None,
        encoding_format: str = "png",
        ffmpeg_extra_args: Iterable[str] = (),
        use_colormap: bool = False,
        dtype: Any = np.uint8,
        check: str = "structure",
        doc: DocArg = None,
    ) -> None:
        shape = None if shape is None else to_shape(shape)
        if shape is not None and len(shape) != 4:
            raise ValueError(f"the shape of a video is (frames, height, width, channels), not {shape}")
        frame = Image(
            shape=shape[1:] if shape else None,
            dtype=dtype,
            encoding_format=encoding_format,
            use_colormap=use_colormap,
            check=check,
        )
        self._set_fields(ffmpeg_extra_args=tuple(ffmpeg_extra_args or ()))
        super().__init__(frame, shape[0] if shape else None, doc=doc)

    @property
    def frame(self) -> Image:
        """The feature of a frame."""
        return self.feature  # type: ignore[return-value]

    def items_of(self, value: Any, path: str) -> Items:
        """Returns the frames of a value: an array or a list as it is, or the image files of the frames of a video file.

        Args:
            value: an array, a list of frames, or a video file as bytes, a path or an open file.
            path: the feature, for errors.
        """
        if isinstance(value, (str, os.PathLike)):
            value = self._extract_frames(read_file(value, path), path, os.fspath(value))
        elif isinstance(value, bytes):
            value = self._extract_frames(value, path)
        elif hasattr(value, "read"):
            value = self._extract_frames(bytes(value.read()), path)
        return super().items_of(value, path)

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to an array of shape (frames, height, width, channels).

        For rank 1 or more, it is the function of a `Sequence` of images.
        """
        decode, empty = super().decoder(name, rank), build_empty_items(self.frame.shape or (), self.frame.dtype)

        def decode_frames(lists: Any) -> Any:
            """Returns the frames of a record as one array; an empty array for a video without frames."""
            frames = decode(lists)
            return (stack_items(frames) if frames else empty.copy()) if isinstance(frames, list) else frames

        return decode if rank else decode_frames

    def _extract_frames(self, video: bytes, path: str, file: str = "") -> list[bytes]:
        """Returns the frames of a video file, as image files that ffmpeg encodes.

        Args:
            video: the content of the file.
            path: the feature, for errors.
            file: the path of the file, for errors; '' if it has none.

        Raises:
            MissingDependencyError: ffmpeg is not installed.
            FeatureValueError: the file is damaged or truncated, or ffmpeg cannot read it.
        """
        from beam_datasets.intake.video import read_frames  # only datasets with videos wait for the import

        try:
            return read_frames(video, self.frame.encoding_format or "png", self.ffmpeg_extra_args)
        except MissingDependencyError as error:
            raise MissingDependencyError(f"{shown_name(path)}: {file and f'{file}: '}{error}") from None
        except InputError as error:
            video_error = FeatureValueError(f"{file and f'{file}: '}{error}", feature=path)
            video_error.path = file or None
            raise video_error from error

    def content_json(self) -> tuple[str, Json]:
        """Returns ('video', {'shape': ..., 'dtype': ..., 'encodingFormat': ...}), with further options that are set."""
        frame = self.frame
        return "video", {
            "shape": shape_to_json((self.length, *(frame.shape or ()))),
            "dtype": dtype_name(frame.dtype),
            "encodingFormat": frame.encoding_format,
            **drop_unset({"ffmpegExtraArgs": list(self.ffmpeg_extra_args), "useColormap": frame.use_colormap}),
        }

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Video:
        """Returns the Video of `content`, the second value of `content_json`."""
        return cls(
            shape=shape_from_json(content.get("shape")) or None,
            dtype=content.get("dtype") or np.uint8,
            encoding_format=content.get("encodingFormat") or "png",
            use_colormap=bool(content.get("useColormap")),
            ffmpeg_extra_args=content.get("ffmpegExtraArgs") or (),
        )


def with_image_checks(features: FeatureConnector, check: str) -> FeatureConnector:
    """Returns a copy of the features in which all images have another `check`.

    Args:
        features: a tree of features.
        check: "structure" or "decode"; see `Image`.

    Raises:
        ValueError: `check` is another text.
    """
    if check not in CHECKS:
        raise ValueError(f"check_images={check!r}; expected one of {', '.join(map(repr, CHECKS))}")
    features = copy.deepcopy(features)
    for each in iter_connectors(features):
        if isinstance(each, Image):
            object.__setattr__(each, "check", check)
    return features


def image_arguments(content: Json) -> dict[str, Any]:
    """Returns the common keyword arguments of `Image` and `LabeledImage` from their content in features.json.

    >>> image_arguments({"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8", "encodingFormat": "png"})
    {'shape': (None, None, 3), 'dtype': 'uint8', 'encoding_format': 'png'}
    """
    return {
        "shape": shape_from_json(content.get("shape")),
        "dtype": content.get("dtype") or None,
        "encoding_format": content.get("encodingFormat") or None,
    }


def read_file(value: str | os.PathLike[str], path: str) -> bytes:
    """Returns the bytes of a local or remote file.

    Args:
        value: the path or URL of the file.
        path: the feature, for errors.

    Raises:
        FeatureValueError: the file cannot be read.
    """
    from beam_datasets import storage

    try:
        return bytes(storage.read_bytes(os.fspath(value)))
    except OSError as error:
        raise FeatureValueError(f"the file {os.fspath(value)!r} cannot be read: {error}", feature=path) from error
