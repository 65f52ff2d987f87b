"""Audio: samples of sound, stored as numbers or as sound files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureError, FeatureTypeError, FeatureValueError, InputError
from beam_datasets.features.base import FeatureConnector, FromJson, to_member
from beam_datasets.features.dtypes import (
    STRING,
    Json,
    Shape,
    drop_unset,
    dtype_name,
    shape_from_json,
    shape_to_json,
    to_dtype,
    to_shape,
)
from beam_datasets.features.image import read_file
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import check_rounding, check_shape, convert
from beam_datasets.features.raw import one_value_codec
from beam_datasets.features.tensor import Encoding, Tensor
from beam_datasets.formats.proto_json import parse_int64

if TYPE_CHECKING:
    from beam_datasets.features.leaf import Codec
    from beam_datasets.intake.sound import Sound, SoundInfo

_FLAC_DTYPES = ("uint8", "int16", "int32")  # of files that TFDS decodes by TensorFlow I/O


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False)
class Audio(Leaf):
    """Samples of sound. Decodes to an array of shape (samples,) or (samples, channels).

    Takes an array or a list of samples; or a WAV, FLAC, OGG, MP3 or AIFF file as a path, an open file or bytes, which
    soundfile reads. Samples of files are not scaled: samples of 16-bit, OGG and MP3 files are -32768 to 32767, also if
    the dtype is one of floats. A file of floats needs a dtype of floats.

    Attributes:
        file_format: the format of files, by its name in ffmpeg; a file of another format is an error. None for any.
        shape: (samples,) or (samples, channels); the number of samples may be None. A file with another number of
            channels is an error; with `lazy_decode`, its channels are mixed when it is decoded.
        dtype: the dtype of the samples.
        sample_rate: samples per second; a file with another rate is an error. None for any.
        encoding: the form of the samples in the record; see `Encoding`. With an encoding other than NONE, values must
            be files, not arrays.
        doc: the documentation of the feature.
        allow_rounding: whether samples that a dtype of floats does not hold exactly are rounded; see `Tensor`.
        lazy_decode: whether files are stored unchanged, after a check that they decode, and decoded when read.
    """

    file_format: str | None = field(default=None, kw_only=True)
    shape: Shape = field(default=(None,), kw_only=True)
    dtype: Any = field(default=np.int64, kw_only=True)
    sample_rate: int | None = field(default=None, kw_only=True)
    encoding: Encoding | str = field(default=Encoding.NONE, kw_only=True)
    lazy_decode: bool = field(default=False, kw_only=True)
    allow_rounding: bool = field(default=False, kw_only=True, compare=False)

    PATH: ClassVar[str] = "audio_feature.Audio"

    def __post_init__(self) -> None:
        """Converts the fields to their types and checks that they fit together.

        Raises:
            ValueError: a field is invalid.
        """
        super().__post_init__()
        encoding = to_member(Encoding, self.encoding.lower() if isinstance(self.encoding, str) else self.encoding)
        shape = to_shape(self.shape)
        self._set_fields(shape=shape, dtype=to_dtype(self.dtype), encoding=encoding)
        self._set_fields(lazy_decode=boolean("lazy_decode", self.lazy_decode))
        self._set_fields(allow_rounding=check_rounding(self.allow_rounding, self.dtype))
        if len(shape) not in (1, 2):
            raise ValueError(f"the shape of audio is (samples,) or (samples, channels), not {shape}")
        if self.lazy_decode and self.file_format == "flac" and dtype_name(self.dtype) not in _FLAC_DTYPES:
            raise ValueError(
                f"the dtype of FLAC files that are decoded when read is one of {_FLAC_DTYPES}, as for TFDS, not "
                f"{self.dtype}; without file_format it may be any"
            )

    @property
    def samples(self) -> Tensor:
        """The Tensor that stores the samples, if files are not stored."""
        return Tensor(shape=self.shape, dtype=self.dtype, encoding=self.encoding, allow_rounding=self.allow_rounding)

    @property
    def file_kind(self) -> str | None:
        """'audio' if sound files are stored unchanged (`lazy_decode`); None otherwise."""
        return "audio" if self.lazy_decode else None

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def codec(self, path: str) -> Codec:
        """Returns the conversion between sound and a list of samples, or of one file; `path` is for errors."""
        if self.lazy_decode:
            return one_value_codec(
                lambda value: self._read_checked_file(value, path), lambda data: self._decode_samples(data, path), path
            )
        samples_codec = self.samples.codec(path)
        pack_samples = replace(self.samples, encoding=Encoding.NONE).codec(path).pack

        def pack(value: Any) -> Any:
            """Returns the values of the list for samples or a sound file."""
            if not isinstance(value, (list, tuple, np.ndarray)):
                data, name = _read_content(value, path)
                return samples_codec.pack(self._convert_samples_of_file(self._read_sound(data, name, path), name, path))
            if self.encoding is not Encoding.NONE:
                raise FeatureValueError(
                    "samples of an Audio with an encoding must come from a file, not an array", feature=path
                )
            if isinstance(value, np.ndarray) and value.dtype.kind == np.dtype(self.dtype).kind:
                value = list(value) if value.dtype != self.dtype else value  # samples of fewer bits fit
            return pack_samples(value)

        return replace(samples_codec, pack=pack, pack_many=None)

    def _read_checked_file(self, value: Any, path: str) -> bytes:
        """Returns the bytes of a sound file, after checking that it decodes and fits the feature.

        Args:
            value: the file, as bytes, a path or an open file.
            path: the feature, for errors.

        Raises:
            FeatureError: the file does not decode or does not fit the feature.
        """
        from beam_datasets.intake.sound import CheckedSound  # only datasets with sounds wait for the import

        data, name = _read_content(value, path)
        is_any_length = self.shape[0] is None
        if isinstance(data, CheckedSound) and is_any_length and np.can_cast(data.info.dtype, self.dtype):
            self._check_info(data.info, name, path)
        else:
            self._convert_samples_of_file(self._read_sound(data, name, path, may_mix=True), name, path)
        return data if type(data) is bytes else bytes(data)

    def _read_sound(self, data: bytes, name: str, path: str, *, may_mix: bool = False) -> Sound:
        """Returns the samples and properties of a sound file, after checking its format, rate and channels.

        Args:
            data: the content of the file.
            name: the file, such as "the sound 'a.wav'", for errors.
            path: the feature, for errors.
            may_mix: whether any number of channels is allowed.

        Raises:
            FeatureValueError: the file is damaged or does not fit the feature.
        """
        from beam_datasets.intake.sound import read_sound

        try:
            sound = read_sound(data)
        except InputError as error:
            raise FeatureValueError(f"{name}: {error}", feature=path, expected=error.expected, got=error.got) from error
        self._check_info(sound.info, name, path)
        channels = self._channels
        if not may_mix and channels not in (None, sound.info.channels):
            expected, num_channels = f"{channels} channels, as in the feature", sound.info.channels
            raise FeatureValueError(
                f"{name}: expected {expected}, got {num_channels}",
                expected=expected,
                got=f"{num_channels}",
                advice=f"Mix them first, or give the feature shape=(None, {num_channels})",
                feature=path,
            )
        return sound

    def _check_info(self, info: SoundInfo, name: str, path: str) -> None:
        """Checks the format and the sample rate of a sound file.

        Args:
            info: the properties of the file.
            name: the file, such as "the sound 'a.wav'", for errors.
            path: the feature, for errors.

        Raises:
            FeatureValueError: the file has another format or rate than the feature.
        """
        from beam_datasets.intake.sound import kind_of_format

        kind = kind_of_format(self.file_format)
        if kind not in (None, info.kind):
            expected = f"{self.file_format!r}, the feature's file_format"
            raise FeatureValueError(
                f"{name}: expected {expected}, got {info.kind}",
                expected=expected,
                got=info.kind,
                advice="Leave file_format out to accept any",
                feature=path,
            )
        if self.sample_rate and info.sample_rate != self.sample_rate:
            expected = f"{self.sample_rate} samples a second, the feature's sample_rate"
            raise FeatureValueError(
                f"{name}: expected {expected}, got {info.sample_rate}",
                expected=expected,
                got=f"{info.sample_rate}",
                advice="Resample it, or give the feature the sample_rate of the files",
                feature=path,
            )

    @property
    def _channels(self) -> int | None:
        """The number of channels; None for any."""
        return self.shape[1] if len(self.shape) == 2 else 1

    def _convert_samples_of_file(self, sound: Sound, name: str, path: str) -> NDArray[Any]:
        """Returns the samples of a sound file in the dtype and shape of the feature; errors name the file.

        Args:
            sound: the decoded file.
            name: the file, such as "the sound 'a.wav'", for errors.
            path: the feature, for errors.

        Raises:
            FeatureError: the samples do not fit; see `_convert_samples`.
        """
        try:
            return self._convert_samples(sound, path)
        except FeatureError as error:
            raise type(error)(
                f"{name}: {error.problem}",
                expected=error.expected,
                got=error.got,
                advice=error.advice,
                feature=path,
            ) from error

    def _convert_samples(self, sound: Sound, path: str) -> NDArray[Any]:
        """Returns the samples of a sound file in the dtype and shape of the feature; other channels are mixed.

        Args:
            sound: the decoded file.
            path: the feature, for errors.

        Raises:
            FeatureValueError: floats do not fit an integer dtype, or the number of channels or samples is another one.
        """
        samples, channels = sound.samples, self._channels
        if samples.dtype.kind == "f" and self.dtype.kind in "biu":
            raise FeatureValueError(
                expected="integers",
                got=f"a file of {sound.info.samples} samples",
                advice=f"Give the feature dtype=np.{samples.dtype}",
                feature=path,
            )
        if channels not in (None, samples.shape[1]):
            samples = _mix_channels(samples, channels or 1, path)
        if np.can_cast(samples.dtype, self.dtype):
            samples = samples.astype(self.dtype, copy=False)
        else:
            samples = convert(samples, self.dtype, path, allow_rounding=self.allow_rounding)
        samples = samples if len(self.shape) == 2 else samples[:, 0]
        check_shape(samples.shape, self.shape, path)
        return samples

    def _decode_samples(self, data: bytes, path: str) -> NDArray[Any]:
        """Returns the samples of a stored sound file. Its rate is not checked, as other datasets declare any rate.

        Args:
            data: the stored file.
            path: the feature, for errors.

        Raises:
            FeatureValueError: the file is damaged, or does not fit the dtype or the shape of the feature.
        """
        from beam_datasets.intake.sound import read_sound

        try:
            sound = read_sound(data)
        except InputError as error:
            raise FeatureValueError(str(error), feature=path, expected=error.expected, got=error.got) from error
        return self._convert_samples(sound, path)

    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form: of the samples, or with `lazy_decode` of the file's bytes."""
        return Tensor(shape=(), dtype=STRING) if self.lazy_decode else self.samples.stored()

    # ------------------------------------------------------------------------------------------------------------ JSON

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'audio', and a dict of the shape, the dtype, the encoding, and other options that are set.

        For example, ('audio', {'shape': {'dimensions': ['-1']}, 'dtype': 'int64', 'encoding': 'NONE'}).
        """
        rate = str(self.sample_rate or "")
        return "audio", {
            "shape": shape_to_json(self.shape),
            "dtype": dtype_name(self.dtype),
            "encoding": Encoding(self.encoding).name,
            **drop_unset({"fileFormat": self.file_format, "sampleRate": rate, "lazyDecode": self.lazy_decode}),
        }

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Audio:
        """Returns the Audio of `content`, the second value of `content_json`.

        The dtype is not checked against the format, as older versions allowed more dtypes.
        """
        audio = cls(
            file_format=content.get("fileFormat") or None,
            shape=shape_from_json(content.get("shape")),
            dtype=content["dtype"],
            sample_rate=parse_int64(content.get("sampleRate")),
            encoding=content.get("encoding") or Encoding.NONE,
        )
        audio._set_fields(lazy_decode=bool(content.get("lazyDecode")))
        return audio


def _read_content(value: Any, path: str) -> tuple[bytes, str]:
    """Returns the content of a sound file, and a text that begins errors about it.

    The text is "the sound" for bytes and open files, and "the sound '/data/a.wav'" for the path /data/a.wav.

    Args:
        value: the file, as bytes, a path or an open file in binary mode.
        path: the name of the feature, for errors.

    Raises:
        FeatureTypeError: the value is not a file.
        FeatureValueError: the file at the path cannot be read.
    """
    if isinstance(value, bytes):
        return value, "the sound"
    if isinstance(value, (str, os.PathLike)):
        return read_file(value, path), f"the sound {os.fspath(value)!r}"
    if hasattr(value, "read"):
        return bytes(value.read()), "the sound"
    expected, got = "an array, a list, a path, a file or its bytes", type(value).__name__
    raise FeatureTypeError(f"{got} is not audio; expected {expected}", expected=expected, got=got, feature=path)


def _mix_channels(samples: NDArray[Any], channels: int, path: str) -> NDArray[Any]:
    """Returns samples with another number of channels, by the rules of pydub, which TFDS uses.

    One channel is repeated. Two channels of integers become their mean, rounded down. More channels are each divided by
    their number, rounded down, and added.

    Args:
        samples: the samples, of shape (samples, channels).
        channels: the number of channels of the result; 1 unless `samples` has one channel.
        path: the feature, for errors.

    >>> _mix_channels(np.array([[1, 4], [3, 4]], np.int16), 1, "sound").tolist()
    [[2], [3]]
    """
    number = samples.shape[1]
    if number == 1:
        return np.repeat(samples, channels, axis=1)
    if channels != 1:
        raise FeatureValueError(
            expected=f"{channels} channels",
            got=f"{number}, which can be mixed to one alone",
            advice="Mix them first",
            feature=path,
        )
    if samples.dtype.kind == "f":
        mixed = samples.mean(axis=1)
    elif number == 2:
        mixed = samples.sum(axis=1, dtype=np.int64) // 2
    else:
        mixed = (samples // number).sum(axis=1, dtype=np.int64)
    return np.asarray(mixed, samples.dtype)[:, np.newaxis]
