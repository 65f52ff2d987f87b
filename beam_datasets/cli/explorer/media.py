"""Images and sounds of examples as files that a browser shows: PNG in a small size, and WAV.

Stored files are not sent as they are, except sounds in a known format, because a browser could run what they contain.
"""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np

from beam_datasets.cli.examples import files_in, leaves_with_features, to_image
from beam_datasets.errors import DatasetNotFoundError, FeatureValueError
from beam_datasets.features import Audio, FeatureConnector, Image, Video
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.features.sequence import below, innermost
from beam_datasets.formats.endings import ending_of
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.statistics.summary import image_size

PICTURES, SOUNDS = (Image, Video), (Audio,)
MAX_PIXELS = 30_000_000  # that are decoded for a small image
MAX_SHOWN, SMALL = 4, 96  # images of a value; pixels of the longer side of a small one
_MAX_SECONDS, _DEFAULT_RATE = 600, 16_000
_TYPES = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "ogg": "audio/ogg"}


def stored_features(features: FeatureConnector) -> Any:
    """Returns the decoders that leave images, files of sound and what is not known as they are stored."""
    return skip_decoding(features, UnknownFeature, *PICTURES, *SOUNDS)


def media_of(value: Any, leaf: Any) -> list[dict[str, Any]] | None:
    """Returns the images or sounds of a value: `item` counts them, `note` describes one that is not shown.

    None for a value of another kind.
    """
    if isinstance(leaf, SOUNDS):
        return [{"item": 0, "note": ""}] if isinstance(value, (bytes, np.ndarray)) else None
    if not isinstance(leaf, PICTURES):
        return None
    return [{"item": number, "note": _unfit(data)} for number, data in enumerate(files_in(value))]


def _unfit(data: bytes) -> str:
    """Returns why an image is not decoded; '' for one that is."""
    if (size := image_size(data)) is None:  # Pillow refuses the largest ones, too
        return "damaged, or too large to be shown"
    height, width, _ = size
    return f"{width:,} x {height:,}, too large to be shown" if height * width > MAX_PIXELS else ""


def media(
    published: ReadOnlyBuilder, expression: str, index: int, path: str, item: int, pixels: int
) -> tuple[bytes, str]:
    """Returns an image, a sound or a text of an example, and its media type.

    Args:
        published: the dataset.
        expression: of the slice.
        index: of the example in it.
        path: of the feature.
        item: which one of the feature's images.
        pixels: the longer side of the image that is returned, at most.

    Raises:
        DatasetNotFoundError: the example has none there.
        FeatureValueError: the image is damaged, or too large.
    """
    features = published.info.features
    sounds = [leaf for _, _, feature in below(features) if isinstance(leaf := innermost(feature), Audio)]
    as_files = any(sound.lazy_decode for sound in sounds)  # these need not be decoded, nor what reads them installed
    decoders = stored_features(features) if as_files else skip_decoding(features, UnknownFeature, *PICTURES)
    leaves = leaves_with_features(published.as_dataset(expression, decoders=decoders)[index], features)
    value, leaf = next(((value, leaf) for found, value, leaf in leaves if found == path), (None, None))
    if isinstance(leaf, PICTURES) and item < len(files := list(files_in(value))):
        return _picture(files[item], leaf.frame if isinstance(leaf, Video) else leaf, path, pixels), "image/png"
    if isinstance(leaf, SOUNDS) and value is not None:
        return _sound(value, leaf)
    if isinstance(value, (bytes, str)) and not isinstance(leaf, PICTURES):
        return value.encode() if isinstance(value, str) else value, "text/plain"
    raise DatasetNotFoundError(f"{published.info.display_name}: example {index} has no media or text {path!r} {item}")


def _picture(data: bytes, leaf: Image, path: str, pixels: int) -> bytes:
    if note := _unfit(data):
        raise FeatureValueError(f"{path}: cannot show the image: {note}")
    array = leaf.unpacker(path)(data)
    step = max(1, max(array.shape[:2]) // (2 * pixels))  # so that colours are converted of few pixels
    image = to_image(array[::step, ::step])
    image.thumbnail((pixels, pixels))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _sound(value: Any, leaf: Audio) -> tuple[bytes, str]:
    if isinstance(value, bytes):
        return value, _TYPES.get(ending_of(value), "application/octet-stream")
    rate, unit = leaf.sample_rate or _DEFAULT_RATE, 1.0 if np.asarray(value).dtype.kind == "f" else 32768.0
    samples = np.asarray(value)[: rate * _MAX_SECONDS].astype(np.float64)
    scaled = samples / max(float(np.abs(samples).max(initial=0)), unit)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(samples.shape[1] if samples.ndim > 1 else 1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((np.nan_to_num(scaled) * 32767).astype("<i2").tobytes())
    return file.getvalue(), "audio/wav"
