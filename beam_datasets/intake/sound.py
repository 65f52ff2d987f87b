"""Sound files, read as exact samples: all of them, at their full depth, or an error.

A file has samples of one kind, whatever reads it: integers of 8, 16, 24 or 32 bits as they are in a WAV, FLAC or AIFF
file (8-bit WAV is unsigned; 128 is subtracted), or floats. A-law and u-law are 16-bit integers by the tables of their
standard. OGG and MP3 have no integers; as FFmpeg does, each sample is rounded to one of 16 bits.

libsndfile decodes them, but for WAV files whose samples are arrays as they are.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.extras import needs
from beam_datasets.intake.errors import reason
from beam_datasets.intake.sound_layout import CONVERT, GET_AGAIN, Layout, layout_of

MAX_SAMPLES = 1 << 29
"""How many samples a sound may have, of all channels: 3 hours of a CD, 9 of speech. Few bytes can hold any number."""

_BLOCK = 1 << 20  # samples that are decoded at once
_SAMPLES = {  # subtype of libsndfile -> kind of samples, bytes of one in the file
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
_READ_AS = {"int8": "int16", "int24": "int32"}  # left-justified, as libsndfile has no such integers


@dataclass(frozen=True)
class SoundInfo:
    """What a sound file contains.

    Attributes:
        kind: WAV, FLAC, OGG, MP3 or AIFF.
        samples: kind of the samples: int8, int16, int24, int32, float32 or float64.
        sample_rate: samples a second.
        channels: number of them.
        frames: number of samples of each channel.
    """

    kind: str
    samples: str
    sample_rate: int
    channels: int
    frames: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an array of the samples: the smallest that holds them."""
        return np.dtype("int32" if self.samples == "int24" else self.samples)


@dataclass(frozen=True)
class Sound:
    """A sound file that was read.

    Attributes:
        info: what it is.
        samples: array of shape (frames, channels).
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
    """Returns the kind of the files of a format, as ffmpeg or a suffix calls it; None if it is not known."""
    return _KINDS_BY_FORMAT.get((name or "").lower())


class CheckedSound(bytes):
    """The bytes of a sound file that was read whole, so that it need not be read again to check it.

    Attributes:
        info: what the file contains.
    """

    info: SoundInfo


def checked(data: bytes) -> CheckedSound:
    """Returns the bytes of a sound file after it was read; see `read_sound`."""
    sound = CheckedSound(data)
    sound.info = read_sound(data).info
    return sound


def read_sound(data: bytes) -> Sound:
    """Returns the samples of a WAV, FLAC, OGG, MP3 or AIFF file.

    Raises:
        InputError: it is damaged or cut, has too many samples, or is a file whose samples cannot be read exactly. The
            message does not name the file.
        MissingDependencyError: soundfile is not installed.
    """
    layout = layout_of(data)
    _check_size((layout.frames or 0) * layout.channels)
    if layout.plain:
        return _plain(data, layout)
    stream_class = _stream_class()
    kind = f"{'an' if layout.kind[0] in 'AOM' else 'a'} {layout.kind} file"
    try:
        with stream_class(_File(data[layout.start : layout.stop] + layout.filler)) as stream:
            if stream.subtype not in _SAMPLES:
                raise InputError(f"expected {kind} of PCM or floats, got {stream.subtype}. {CONVERT}")
            samples, width = _SAMPLES[stream.subtype]
            decoded = _decode(stream, _READ_AS.get(samples, samples) if width else "float32")
            decoded = decoded[: layout.frames] if layout.filler else decoded
            info = SoundInfo(layout.kind, samples, stream.samplerate, stream.channels, len(decoded))
            _check_length(layout, info, stream.frames, width)
    except BeamDatasetsError:
        raise
    except Exception as error:
        raise InputError(
            f"expected {kind}, got an error of libsndfile: {reason(error).removesuffix('.')}. {GET_AGAIN}"
        ) from error
    sound = Sound(info, _exact(decoded, samples))
    if layout.md5 and _md5(sound) != layout.md5:
        raise InputError(f"expected the samples of the checksum in the FLAC file, got others. {GET_AGAIN}")
    return sound


def _plain(data: bytes, layout: Layout) -> Sound:
    """Returns the samples of a WAV file that are an array as they are; of short sounds in a fifth of the time."""
    shape = layout.frames or 0, layout.channels
    view = np.frombuffer(data, layout.plain, shape[0] * shape[1], layout.body)
    samples = view.astype(view.dtype.newbyteorder("=")).reshape(shape)
    return Sound(SoundInfo(layout.kind, samples.dtype.name, layout.sample_rate, *reversed(shape)), samples)


@functools.cache
def _stream_class() -> Any:
    """Returns the class that opens sound files.

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


class _File(io.BytesIO):
    """Bytes as a file. It stays where it is if it is asked to seek to a place before its beginning."""

    def __repr__(self) -> str:
        return "the file"  # in errors of soundfile

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Moves as `io.BytesIO` does, without its error: the callbacks of libsndfile print an exception and go on."""
        with contextlib.suppress(ValueError, OverflowError):
            return super().seek(offset, whence)
        return self.tell()


def _check_size(num_samples: int) -> None:
    """Raises InputError if a sound has more samples than fit."""
    if num_samples > MAX_SAMPLES:
        raise InputError(f"expected at most {MAX_SAMPLES:,} samples, got {num_samples:,}. Cut the sound into parts")


def _decode(stream: Any, dtype: str) -> NDArray[Any]:
    """Returns all frames of an open file. Nothing is allocated by what its header declares."""
    block = max(1, _BLOCK // stream.channels)
    blocks: list[NDArray[Any]] = []
    while not blocks or len(blocks[-1]) == block:
        _check_size(len(blocks) * block * stream.channels)
        blocks.append(stream.read(out=np.empty((block, stream.channels), dtype)))
    return blocks[0].copy() if len(blocks) == 1 else np.concatenate(blocks)


def _check_length(layout: Layout, info: SoundInfo, found_frames: int, width: int) -> None:
    """Raises InputError if more or fewer samples were read than the file has."""
    is_declared = layout.kind == "OGG" or layout.trimmed  # by what the decoder has found
    declared = found_frames if is_declared else layout.frames
    if declared is not None and declared != info.frames:
        raise InputError(f"expected {declared:,} samples, as the file declares, got {info.frames:,}. {GET_AGAIN}")
    if layout.frames is not None and not layout.frames - layout.trimmed <= info.frames <= layout.frames:
        raise InputError(f"expected {layout.frames:,} samples, as the file has, got {info.frames:,}. {GET_AGAIN}")
    num_bytes = info.frames * info.channels * width
    if layout.num_bytes is not None and num_bytes != layout.num_bytes:
        raise InputError(f"expected {layout.num_bytes:,} bytes of samples, as declared, got {num_bytes:,}. {GET_AGAIN}")


def _exact(decoded: NDArray[Any], samples: str) -> NDArray[Any]:
    """Returns decoded samples as the numbers of the file."""
    if samples == "int8":
        decoded >>= 8
        return decoded.astype(np.int8)
    if samples == "int24":
        decoded >>= 8
    if samples == "int16" and decoded.dtype == np.float32:
        if not np.isfinite(decoded).all():
            raise InputError(f"expected finite samples, got a NaN or an infinity. {GET_AGAIN}")
        scaled = np.rint(decoded * np.float32(1 << 15))
        return np.clip(scaled, -(1 << 15), (1 << 15) - 1).astype(np.int16)
    return decoded


def _md5(sound: Sound) -> bytes:
    """Returns the checksum of samples as FLAC has it: of little-endian integers of as few bytes as they need."""
    samples = sound.samples.astype(sound.samples.dtype.newbyteorder("<"), copy=False)
    if sound.info.samples == "int24":
        samples = np.ascontiguousarray(samples.view(np.uint8).reshape(-1, 4)[:, :3])
    return hashlib.md5(samples.data, usedforsecurity=False).digest()
