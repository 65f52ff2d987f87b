"""Sounds in the values of rows, which are files or name files; checked to be complete and of one type before they are
stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from beam_datasets.errors import InputError
from beam_datasets.files.convert import image_value
from beam_datasets.files.fields import Field, SoundType, advice
from beam_datasets.files.inputs import count
from beam_datasets.intake.sound import CheckedSound, SoundInfo, checked
from beam_datasets.intake.streams import read_relative

_EXACT_FLOATS = {("int24", "float32")}  # kinds of samples that a dtype holds, though NumPy does not know it


def is_complete(sound: SoundType) -> bool:
    """Returns whether nothing of a type is taken from the first sound."""
    return sound.rate is not None and sound.channels is not None and bool(sound.samples or sound.dtype)


def completed(sound: SoundType, first: SoundInfo) -> SoundType:
    """Returns the sound type with its unspecified properties taken from the first sound."""
    return SoundType(
        first.sample_rate if sound.rate is None else sound.rate,
        sound.channels or first.channels,
        sound.samples or ("" if sound.dtype else first.samples),
        sound.dtype,
    )


def values_at(value: Any, path: str) -> Iterator[Any]:
    """Yields the values at a path of a row: of a column, of field a/b of an object, or of the objects in a list.

    >>> list(values_at({"a": [{"b": 1}, {"b": None}, {"b": 2}]}, "a/b"))
    [1, 2]
    """
    if isinstance(value, list):
        for item in value:
            yield from values_at(item, path)
    elif not path:
        if value is not None:
            yield value
    elif isinstance(value, Mapping):
        name, _, inner_path = path.partition("/")
        is_column = path in value  # also with a slash in its name
        yield from values_at(value.get(path if is_column else name), "" if is_column else inner_path)


def read_content(value: Any, referring_path: str) -> CheckedSound:
    """Returns the sound of a value of a row, after decoding it once.

    Args:
        value: the bytes of a sound file; {"b64": text} or {"bytes": ..., "path": ...}, see `convert.image_value`; or a
            path or URL.
        referring_path: file to whose folder paths are relative.

    Raises:
        ValueError: the value is something else.
        InputError: the file cannot be read, or the sound cannot be decoded.
    """
    return _read_with_path(value, referring_path)[1]


def _read_with_path(value: Any, referring_path: str) -> tuple[str, CheckedSound]:
    """Returns (the sound's path or URL, '' for bytes; the sound); see `read_content`."""
    value = image_value(value)
    if isinstance(value, bytes):
        return "", checked(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} ({type(value).__name__}) is neither the bytes of a sound nor its path")
    file, data = read_relative(value, referring_path)
    try:
        return file, checked(data)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def sound_of(value: Any, sound: SoundType, path: str, referring_path: str) -> CheckedSound:
    """Returns the sound of a value, after checking that it has the common properties of its column.

    Args:
        value: see `read_content`.
        sound: common properties of all sounds.
        path: path of the field, for advice.
        referring_path: file that paths are relative to.

    Raises:
        ValueError, InputError: the sound cannot be read, or has other properties.
    """
    file, checked_sound = _read_with_path(value, referring_path)
    try:
        check_sound(checked_sound.info, sound, lambda other: advice(path, str(Field("audio", sound=other))))
    except InputError as error:
        if not file:
            raise
        raise InputError(f"{file}: {error}") from error
    return checked_sound


def check_sound(info: SoundInfo, sound: SoundType, option: Any) -> None:
    """Checks that a sound has the common properties of all sounds; counts sounds with smaller samples than the dtype.

    Args:
        info: properties of the sound.
        sound: common properties of all sounds; 0 and '' mean any.
        option: function from a `SoundType` to the text of the option that requests it, for the error.

    Raises:
        InputError: a property differs.
    """
    if sound.rate and info.sample_rate != sound.rate:
        raise InputError(
            expected=f"{sound.rate} samples a second",
            got=str(info.sample_rate),
            advice=f"Resample it first, or accept any rate: {option(replace(sound, rate=0))}",
        )
    if sound.channels and info.channels != sound.channels:
        raise InputError(
            expected=f"{sound.channels} channel{'s' * (sound.channels > 1)}, as was asked for or the first sound has",
            got=str(info.channels),
            advice="Mix them first, or keep them in a dataset of their own",
        )
    if sound.samples and info.samples != sound.samples:
        raise InputError(
            expected=f"samples of {sound.samples}", got=str(info.samples), advice=_advise_type(info, sound, option)
        )
    if sound.dtype and not _holds_samples(sound.dtype, info.samples):
        raise InputError(
            expected=f"samples that {sound.dtype} holds",
            got=str(info.samples),
            advice=_advise_type(info, sound, option),
        )
    if sound.dtype and info.samples != sound.dtype:
        count(f"sounds with samples of {info.samples}, which are not scaled to {sound.dtype}", 1)


def _advise_type(info: SoundInfo, sound: SoundType, option: Any) -> str:
    """Returns the advice of an error about a sound whose samples have another type; see `check_sound`."""
    both = (sound.dtype or sound.samples, info.samples)
    if len({name.startswith("f") for name in both}) > 1:
        return "Convert it first: integers and floats have different scales"
    dtypes = ["int32" if name == "int24" else name for name in both]
    wider = replace(sound, samples="", dtype=np.result_type(*dtypes).name)
    return f"Convert it first, or store all of them without scaling: {option(wider)}"


def _holds_samples(dtype: str, samples: str) -> bool:
    """Returns whether a dtype holds all samples of a kind."""
    return (samples, dtype) in _EXACT_FLOATS or np.can_cast("int32" if samples == "int24" else samples, dtype)
