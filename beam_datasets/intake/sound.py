"""Decoding of sound files to exact samples: all samples at full bit depth, or an error.

The sample type depends on the file alone. WAV, FLAC and AIFF files have the integers of 8, 16, 24 or 32 bits, or the
floats, that they store; 128 is subtracted from the unsigned integers of 8-bit WAV. A-law and u-law are expanded to
16-bit integers by the tables of their standard. OGG and MP3 store no integers: samples are rounded to 16 bits, as
FFmpeg does.

NumPy reads WAV files whose samples are stored as an array; libsndfile decodes all other files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.extras import needs
from beam_datasets.intake.errors import reason
from beam_datasets.intake.sound_layout import CONVERT, GET_AGAIN, Layout, layout_of
from beam_datasets.limits import MAX_SAMPLES, check_num_elements

_BLOCK = 1 << 20  # number of samples, in all channels, that are decoded at once
_SAMPLES = {  # subtype of libsndfile -> (sample type, bytes per sample in the file; 0 if compressed)
    "PCM_S8": ("int8", 1),
    "PCM_U8": ("int8", 1),
    "PCM_16": ("int16", 2),
    "PCM_24": ("int24", 3),
    "PCM_32": ("int32", 4),
    "FLOAT": ("float32", 4),
    "DOUBLE": ("float64", 8),
    "ALAW": ("int16", 1),
    "ULAW": ("int16", 1),
    "VORBIS": ("int16", 0),
    "OPUS": ("int16", 0),
    "MPEG_LAYER_II": ("int16", 0),
    "MPEG_LAYER_III": ("int16", 0),
}
_READ_AS = {"int8": "int16", "int24": "int32"}  # libsndfile returns these in the high bits of larger integers


@dataclass(frozen=True)
class SoundInfo:
    """The format and size of a sound.

    Attributes:
        kind: file format: WAV, FLAC, OGG, MP3 or AIFF.
        samples: sample type: int8, int16, int24, int32, float32 or float64.
        sample_rate: samples per second of each channel.
        channels: number of channels.
        frames: number of samples of each channel.
    """

    kind: str
    samples: str
    sample_rate: int
    channels: int
    frames: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest NumPy dtype that holds the samples."""
        return np.dtype("int32" if self.samples == "int24" else self.samples)


@dataclass(frozen=True)
class Sound:
    """A decoded sound file.

    Attributes:
        info: its format and size.
        samples: array of shape (frames, channels) and dtype `info.dtype`.
    """

    info: SoundInfo
    samples: NDArray[Any]


_KINDS_BY_FORMAT = {
    **dict.fromkeys(("wav", "wave", "rf64", "w64"), "WAV"),
    "flac": "FLAC",
    **dict.fromkeys(("ogg", "oga", "opus"), "OGG"),
    **dict.fromkeys(("mp3", "mp2"), "MP3"),
    **dict.fromkeys(("aiff", "aif", "aifc"), "AIFF"),
}


def kind_of_format(name: str | None) -> str | None:
    """Returns the `SoundInfo.kind` of a format named as by ffmpeg or a file suffix, such as `wave`; None if unknown."""
    return _KINDS_BY_FORMAT.get((name or "").lower())


class CheckedSound(bytes):
    """The content of a sound file that `read_sound` has decoded without an error, so it need not be checked again.

    Attributes:
        info: format and size of the sound.
    """

    info: SoundInfo


def checked(data: bytes) -> CheckedSound:
    """Decodes a sound file to check it, and returns its content; raises the errors of `read_sound`."""
    sound = CheckedSound(data)
    sound.info = read_sound(data).info
    return sound


def read_sound(data: bytes) -> Sound:
    """Decodes the content of a WAV, FLAC, OGG, MP3 or AIFF file.

    Raises:
        InputError: it is damaged or truncated, has more samples than the limit, or its samples cannot be decoded
            exactly. The message does not name the file.
        MissingDependencyError: soundfile is not installed.
    """
    layout = layout_of(data)
    _check_size((layout.frames or 0) * layout.channels)
    if layout.plain:
        return _read_array(data, layout)
    stream_class = _stream_class()
    file_of_kind = f"{'an' if layout.kind[0] in 'AOM' else 'a'} {layout.kind} file"
    try:
        with _open_stream(stream_class, data[layout.start : layout.stop] + layout.filler, layout.kind) as stream:
            if stream.subtype not in _SAMPLES:
                raise InputError(expected=f"{file_of_kind} of PCM or floats", got=str(stream.subtype), advice=CONVERT)
            samples, width = _SAMPLES[stream.subtype]
            decoded = _read_samples(stream, _READ_AS.get(samples, samples) if width else "float32")
            decoded = decoded[: layout.frames] if layout.filler else decoded
            info = SoundInfo(layout.kind, samples, stream.samplerate, stream.channels, len(decoded))
            _check_length(layout, info, stream.frames, width)
    except BeamDatasetsError:
        raise
    except Exception as error:
        raise InputError(
            expected=file_of_kind,
            got=f"an error of libsndfile: {reason(error).removesuffix('.')}",
            advice=GET_AGAIN,
        ) from error
    sound = Sound(info, _exact_samples(decoded, samples))
    if layout.md5 and _md5(sound) != layout.md5:
        raise InputError(expected="the samples of the checksum in the FLAC file", got="others", advice=GET_AGAIN)
    return sound


def _read_array(data: bytes, layout: Layout) -> Sound:
    """Reads a WAV file whose samples are stored as an array, in a fifth of the time of libsndfile for short sounds."""
    frames, channels = layout.frames or 0, layout.channels
    view = np.frombuffer(data, layout.plain, frames * channels, layout.body)
    samples = view.astype(view.dtype.newbyteorder("=")).reshape(frames, channels)
    return Sound(SoundInfo(layout.kind, samples.dtype.name, layout.sample_rate, channels, frames), samples)


@functools.cache
def _stream_class() -> Any:
    """Returns the class of soundfile that opens sound files, with sequential reads.

    Raises:
        MissingDependencyError: soundfile is not installed.
    """
    with needs("sound files need soundfile", "audio"):
        import soundfile

    class Stream(soundfile.SoundFile):  # type: ignore[misc]
        def seekable(self) -> bool:
            """Returns False: soundfile would seek after each block, which a FLAC of unknown length cannot."""
            return False

    return Stream


@contextlib.contextmanager
def _open_stream(stream_class: Any, content: bytes, kind: str) -> Iterator[Any]:
    """Opens the content of a sound file.

    libsndfile takes an MP3 file in memory, which has no name, for a part of the file `._` in the working directory, or
    of a file in `.AppleDouble`, where macOS stores attributes of files. So a temporary file with a name is opened then.
    """
    if kind == "MP3" and any(map(os.path.lexists, ("._", ".AppleDouble"))):
        with tempfile.NamedTemporaryFile(suffix=".mp3") as file:
            file.write(content)
            file.flush()
            with stream_class(file.name) as stream:
                yield stream
    else:
        with stream_class(_File(content)) as stream:
            yield stream


class _File(io.BytesIO):
    """A file in memory for libsndfile; a seek to a position before its beginning has no effect, instead of failing."""

    def __repr__(self) -> str:
        return "the file"  # in errors of soundfile

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Seeks without raising: the callbacks of libsndfile would print an exception and continue."""
        with contextlib.suppress(ValueError, OverflowError):
            return super().seek(offset, whence)
        return self.tell()


def _check_size(num_samples: int) -> None:
    """Raises InputError if a sound has more samples in all channels than the limit."""
    check_num_elements(num_samples, MAX_SAMPLES, f"the sound has {num_samples:,} samples")


def _read_samples(stream: Any, dtype: str) -> NDArray[Any]:
    """Returns all samples of an open file, of shape (frames, channels); allocates no memory by the declared length.

    Args:
        stream: an open file of the class `_stream_class()`.
        dtype: the dtype of the result: "int16", "int32", "float32" or "float64".

    Raises:
        InputError: the sound has more samples than `MAX_SAMPLES`.
    """
    block_frames = max(1, _BLOCK // stream.channels)
    blocks: list[NDArray[Any]] = []
    num_frames = 0
    while not blocks or len(blocks[-1]) == block_frames:
        blocks.append(stream.read(out=np.empty((block_frames, stream.channels), dtype)))
        num_frames += len(blocks[-1])
        _check_size(num_frames * stream.channels)
    return blocks[0].copy() if len(blocks) == 1 else np.concatenate(blocks)


def _check_length(layout: Layout, info: SoundInfo, decoder_frames: int, width: int) -> None:
    """Checks the number of decoded samples against those that the file, its structure and libsndfile declare.

    Args:
        layout: structure of the file.
        info: the decoded sound.
        decoder_frames: number of frames by libsndfile, from the header or, for OGG, from the last page.
        width: bytes per sample in the file; 0 if it is compressed.

    Raises:
        InputError: the numbers differ.
    """
    is_known_to_decoder = layout.kind == "OGG" or layout.trimmed
    declared_frames = decoder_frames if is_known_to_decoder else layout.frames
    if declared_frames is not None and declared_frames != info.frames:
        raise InputError(
            expected=f"{declared_frames:,} samples, as the file declares", got=f"{info.frames:,}", advice=GET_AGAIN
        )
    if layout.frames is not None and not layout.frames - layout.trimmed <= info.frames <= layout.frames:
        raise InputError(
            expected=f"{layout.frames:,} samples, as the file has", got=f"{info.frames:,}", advice=GET_AGAIN
        )
    num_bytes = info.frames * info.channels * width
    padded = num_bytes + num_bytes % 2  # libsndfile counts the padding of AIFF chunks as samples
    if layout.num_bytes is not None and layout.num_bytes not in (num_bytes, padded):
        raise InputError(
            expected=f"{layout.num_bytes:,} bytes of samples, as declared", got=f"{num_bytes:,}", advice=GET_AGAIN
        )


def _exact_samples(decoded: NDArray[Any], samples: str) -> NDArray[Any]:
    """Returns the samples of a file in its own sample type, from the samples that libsndfile decodes.

    The result has the dtype int8 for "int8", int16 for "int16", int32 for "int24", and that of `decoded` for others.

    Args:
        decoded: int16 for "int8" and int32 for "int24", with the samples in the high bits; float32 in [-1, 1] for
            compressed samples of the type "int16". May be changed.
        samples: sample type; see `SoundInfo`.

    Raises:
        InputError: a float is NaN or infinite.
    """
    if samples == "int8":
        decoded >>= 8
        return decoded.astype(np.int8)
    if samples == "int24":
        decoded >>= 8
    if samples == "int16" and decoded.dtype == np.float32:
        if not np.isfinite(decoded).all():
            raise InputError(expected="finite samples", got="a NaN or an infinity", advice=GET_AGAIN)
        scaled = np.rint(decoded * np.float32(1 << 15))
        return np.clip(scaled, -(1 << 15), (1 << 15) - 1).astype(np.int16)
    return decoded


def _md5(sound: Sound) -> bytes:
    """Returns the MD5 of samples as FLAC defines it: over little-endian integers of 1, 2 or 3 bytes."""
    samples = sound.samples.astype(sound.samples.dtype.newbyteorder("<"), copy=False)
    if sound.info.samples == "int24":
        samples = np.ascontiguousarray(samples.view(np.uint8).reshape(-1, 4)[:, :3])
    return hashlib.md5(samples.data, usedforsecurity=False).digest()
