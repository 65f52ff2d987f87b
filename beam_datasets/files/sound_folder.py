"""Datasets of sounds in folders that are named after their labels, without code.

    beam-datasets build sound_folder --data_dir out --name words --root recordings --split train=80% --split test=20%

Files `recordings/label/sound.wav` are divided by percentages (by default all are in train); files
`recordings/split/label/sound.wav` name their splits. Files are WAV, FLAC, OGG, MP3 or AIFF. Each is decoded to check
it. A file is bad if it is damaged, or has another sample rate, number of channels or sample type than the first file;
--skip_bad leaves out, counts and logs bad files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from beam_datasets.errors import InputError
from beam_datasets.features import ClassLabel, FeatureConnector, FeaturesDict, Scalar, Text
from beam_datasets.files.bad_rows import Bad
from beam_datasets.files.fields import FLOATS, INTEGERS, SoundType, sound_feature
from beam_datasets.files.inputs import InputFile
from beam_datasets.files.labeled_folder import LabeledFile, LabeledFolder, labeled_rows
from beam_datasets.files.rows import Item
from beam_datasets.files.sounds import check_sound, completed
from beam_datasets.intake.sound import checked, read_sound
from beam_datasets.intake.streams import open_bytes
from beam_datasets.metadata.info import DatasetInfo

if TYPE_CHECKING:
    from beam_datasets.files.arguments import LabeledFolderArguments


class SoundFolder(LabeledFolder):
    """Sounds in folders named after their labels; the features are `audio`, `audio/filename`, `label`.

    Args:
        sample_rate: samples per second; a file of another rate is bad. `any` accepts all rates, and adds the feature
            `audio/sample_rate`. By default the rate of the first file.
        dtype: dtype that samples are decoded to, without scaling; a file whose samples do not fit is bad. By default
            the smallest dtype for the samples of the first file, and a file of another sample type is bad.
        lazy_decode: True stores the files unchanged, and decodes them when they are read; False stores their samples.
        common: see LabeledFolder.
    """

    _content = "audio"

    def __init__(
        self,
        *,
        sample_rate: int | Literal["any"] | None = None,
        dtype: str | None = None,
        lazy_decode: bool = True,
        **common: Unpack[LabeledFolderArguments],
    ) -> None:
        if dtype not in (None, *INTEGERS, *FLOATS):
            raise ValueError(f"dtype: expected one of {', '.join((*INTEGERS, *FLOATS))}, got {dtype!r}")
        if sample_rate not in (None, "any") and (not isinstance(sample_rate, int) or sample_rate <= 0):
            raise ValueError(f"sample_rate: expected a number above 0, or 'any', got {sample_rate!r}")
        rate = 0 if sample_rate == "any" else sample_rate
        self._requested_type = SoundType(rate, dtype=dtype or "")
        self._lazy_decode = lazy_decode
        super().__init__(**common)

    @cached_property
    def _sound(self) -> SoundType:
        """The type of all sounds: as requested, and completed by that of the first file that can be read."""
        problem = ""
        for files in self._labeled_files[0].values():
            for _, file in files:
                try:
                    return completed(self._requested_type, read_sound(_read_file(file)).info)
                except InputError as error:
                    problem = problem or f"{file.path}: {error}"
                    if not self._skip_bad:
                        raise InputError(
                            f"{problem}\nTo count and leave out what cannot be used: --skip_bad."
                        ) from None
        raise InputError(f"{self._files_root}: expected a sound, got none that can be read. The first: {problem}")

    def _info(self) -> DatasetInfo:
        """Returns the metadata; the features include the sample rate only if sounds of any rate are accepted."""
        audio = sound_feature(self._sound, lazy_decode=self._lazy_decode)
        features: dict[str, FeatureConnector] = {"audio": audio, "audio/filename": Text()}
        if self._sound.rate == 0:
            features["audio/sample_rate"] = Scalar(np.int64)
        return DatasetInfo(
            builder=self,
            features=FeaturesDict({**features, "label": ClassLabel(names=self._labels)}),
            supervised_keys=("audio", "label"),
            description=self._description,
        )

    @property
    def _reader(self) -> Callable[[Sequence[LabeledFile]], Iterator[Item | Bad]]:
        """Returns the function that reads the examples and bad rows of a batch of files; see the base class."""
        read = partial(sound_features, sound=self._sound)
        return partial(labeled_rows, content="audio", read=read, assign=self._assign)


def sound_features(file: InputFile, sound: SoundType) -> dict[str, Any]:
    """Returns the features of a sound file: `audio`, and `audio/sample_rate` if sounds may have any rate (0).

    Raises:
        InputError: the file cannot be decoded, or is not of the type `sound`.
    """
    audio = checked(_read_file(file))
    check_sound(audio.info, sound, _command_options)
    return {"audio": audio, **({"audio/sample_rate": audio.info.sample_rate} if sound.rate == 0 else {})}


def _read_file(file: InputFile) -> bytes:
    """Returns the content of a file."""
    with open_bytes(file.path) as stream:
        return stream.read()


def _command_options(sound: SoundType) -> str:
    """Returns the options of the command that request sounds of a type, such as "--sample_rate 16000"; '' for any."""
    rate = [] if sound.rate is None else [f"--sample_rate {sound.rate or 'any'}"]
    return " ".join([*rate, *([f"--dtype {sound.dtype}"] if sound.dtype else [])])
