"""Audio: samples of sound."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureTypeError, FeatureValueError, MissingDependencyError
from beam_datasets.features.base import (
    STRING,
    FeatureConnector,
    Json,
    Shape,
    dtype_name,
    if_set,
    int_from_json,
    shape_from_json,
    shape_to_json,
    to_dtype,
    to_member,
    to_shape,
)
from beam_datasets.features.image import read_file
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import check_rounding, convert
from beam_datasets.features.raw import one_value_codec
from beam_datasets.features.tensor import Encoding, Tensor

if TYPE_CHECKING:
    from beam_datasets.features.leaf import Codec


@dataclass(frozen=True, repr=False)
class Audio(Leaf):
    """Samples of sound. Decodes to an array of shape (samples,) or (samples, channels).

    Takes an array or a list of samples; or a path or an open file, which pydub reads (and ffmpeg, but for WAV).

    Attributes:
        file_format: the format of files, as ffmpeg calls it; from the path's suffix if None.
        shape: (samples,) or (samples, channels); the number of samples may be None.
        dtype: the dtype of the samples.
        sample_rate: samples a second; nothing is done with it.
        encoding: how samples are stored, see `Encoding`; with one, arrays must come from files.
        doc: what it means.
        allow_rounding: whether samples that the dtype does not hold exactly are rounded, of floats; see `Tensor`.
        lazy_decode: store files as they are and read them when decoding.
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
        super().__post_init__()
        encoding = to_member(Encoding, self.encoding.lower() if isinstance(self.encoding, str) else self.encoding)
        shape = to_shape(self.shape)
        self._set(shape=shape, dtype=to_dtype(self.dtype), encoding=encoding)
        self._set(lazy_decode=boolean("lazy_decode", self.lazy_decode))
        self._set(allow_rounding=check_rounding(self.allow_rounding, self.dtype))
        if len(shape) not in (1, 2):
            raise ValueError(f"the shape of audio is (samples,) or (samples, channels), not {shape}")

    @property
    def samples(self) -> Tensor:
        """The samples as a tensor."""
        return Tensor(shape=self.shape, dtype=self.dtype, encoding=self.encoding, allow_rounding=self.allow_rounding)

    @property
    def file_kind(self) -> str | None:
        """Returns 'audio' if files are stored as they are."""
        return "audio" if self.lazy_decode else None

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def codec(self, path: str) -> Codec:
        """Returns how audio is packed: as its samples, or as a file."""
        if self.lazy_decode:
            read = partial(self._read, name=None, path=path, may_mix=True)
            return one_value_codec(lambda value: _file(value, path)[0], read, path)
        inner = self.samples.codec(path)
        pack_samples = replace(self.samples, encoding=Encoding.NONE).codec(path).pack

        def pack(value: Any) -> Any:
            if not isinstance(value, (list, tuple, np.ndarray)):
                data, name = _file(value, path)
                return inner.pack(self._read(data, name, path, may_mix=False))
            if self.encoding is not Encoding.NONE:
                raise FeatureValueError(
                    f"{path}: samples of an Audio with an encoding must come from a file, not an array"
                )
            if isinstance(value, np.ndarray) and value.dtype.kind == np.dtype(self.dtype).kind:
                value = list(value) if value.dtype != self.dtype else value  # samples of fewer bits fit
            return pack_samples(value)

        return replace(inner, pack=pack, pack_many=None)

    def _read(self, data: bytes, name: str | None, path: str, *, may_mix: bool) -> NDArray[Any]:
        """Returns the samples of a file; `may_mix` allows another number of channels than the feature has."""
        try:
            from pydub import AudioSegment
        except ImportError as error:
            raise MissingDependencyError(
                f"{path}: to read audio files: pip install pydub (and install ffmpeg)"
            ) from error
        suffix = os.path.splitext(name)[1].lstrip(".").lower() if name else None
        try:
            segment = AudioSegment.from_file(io.BytesIO(data), format=self.file_format or suffix or None)
        except Exception as error:  # pydub raises whatever its readers do
            raise FeatureValueError(f"{path}: the audio file {name or ''} cannot be read: {error}") from error
        channels = (self.shape[1] or 1) if len(self.shape) == 2 else 1
        if segment.channels != channels:
            if not may_mix:
                raise FeatureValueError(
                    f"{path}: the audio file {name or ''} has {segment.channels} channels; the feature has {channels}. "
                    f"Mix them first, or give the feature shape=(None, {segment.channels})"
                )
            segment = segment.set_channels(channels)
        samples = np.array(segment.get_array_of_samples())
        samples = convert(samples, self.dtype, path, allow_rounding=self.allow_rounding)
        return samples.reshape(-1, channels) if len(self.shape) == 2 else samples

    def stored(self) -> FeatureConnector:
        """Returns the connector of the samples as they are stored, or of the file's bytes."""
        return Tensor(shape=(), dtype=STRING) if self.lazy_decode else self.samples.stored()

    # ------------------------------------------------------------------------------------------------------------ JSON

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'audio', shape, dtype, encoding, and what else was given."""
        rate = str(self.sample_rate or "")
        return "audio", {
            "shape": shape_to_json(self.shape),
            "dtype": dtype_name(self.dtype),
            "encoding": Encoding(self.encoding).name,
            **if_set(fileFormat=self.file_format, sampleRate=rate, lazyDecode=self.lazy_decode),
        }

    @classmethod
    def from_content(cls, content: Json) -> Audio:
        """Returns the Audio with this content."""
        return cls(
            file_format=content.get("fileFormat") or None,
            shape=shape_from_json(content.get("shape")),
            dtype=content["dtype"],
            sample_rate=int_from_json(content.get("sampleRate")),
            encoding=content.get("encoding") or Encoding.NONE,
            lazy_decode=bool(content.get("lazyDecode")),
        )

    def __repr__(self) -> str:
        return f"Audio(shape={self.shape}, dtype={dtype_name(self.dtype)})"


def _file(value: Any, path: str) -> tuple[bytes, str | None]:
    """Returns the bytes of an audio file, and its name where there is one."""
    if isinstance(value, (str, os.PathLike)):
        return read_file(value, path), os.fspath(value)
    if hasattr(value, "read"):
        return bytes(value.read()), None
    raise FeatureTypeError(f"{path}: {type(value).__name__} is not audio; expected an array, a list, a path or a file")
