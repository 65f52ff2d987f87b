"""Small pictures and sounds of decoded values, as files that a browser shows."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.display.values import to_image

_MAX_SECONDS = 600


def thumbnail(array: NDArray[Any], pixels: int) -> bytes:
    """Returns an image as a small PNG file.

    Args:
        array: image of shape (height, width, channels).
        pixels: maximum length of the longer side.
    """
    step = max(1, max(array.shape[:2]) // (2 * pixels))  # so that few pixels are converted
    image = to_image(array[::step, ::step])
    image.thumbnail((pixels, pixels))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def wav(samples: NDArray[Any], rate: int, seconds: int = _MAX_SECONDS) -> bytes:
    """Returns the first seconds of a sound as a WAV file of 16 bits; floats above 1 and wider integers are scaled.

    Args:
        samples: array of shape (samples,) or (samples, channels).
        rate: samples per second.
        seconds: maximum duration of the result.
    """
    unit = 1.0 if samples.dtype.kind == "f" else 32768.0
    clip = samples[: rate * seconds].astype(np.float64)
    scaled = clip / max(float(np.abs(clip).max(initial=0)), unit)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(clip.shape[1] if clip.ndim > 1 else 1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((np.nan_to_num(scaled) * 32767).astype("<i2").tobytes())
    return file.getvalue()
