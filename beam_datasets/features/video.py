"""Video: frames, each stored as an image."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beam_datasets.errors import FeatureValueError, MissingDependencyError
from beam_datasets.features.dtypes import dtype_name
from beam_datasets.features.image import Image, read_file
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.values import shape_from_json, shape_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from beam_datasets.features.base import DocArg, Items, Json, Shape


@dataclass(frozen=True, repr=False, init=False)
class Video(Sequence):
    """Frames of the same size. Decodes to an array of shape (frames, height, width, channels).

    Takes an array, a list of frames (each as `Image` takes it), or a path, an open file or bytes of a video, whose
    frames are then extracted by the program ffmpeg.

    Args:
        shape: (frames, height, width, channels); all but the channels may be None.
        encoding_format: 'png' or 'jpeg', how the frames are stored.
        ffmpeg_extra_args: arguments for ffmpeg, between the input and the output.
        use_colormap: see `Image`.
        dtype: uint8 or uint16.
        doc: what it means.
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
        doc: DocArg = None,
    ) -> None:
        if shape is not None and len(shape) != 4:
            raise ValueError(f"the shape of a video is (frames, height, width, channels), not {tuple(shape)}")
        frame = Image(
            shape=tuple(shape[1:]) if shape else None,
            dtype=dtype,
            encoding_format=encoding_format,
            use_colormap=use_colormap,
        )
        self._set(ffmpeg_extra_args=tuple(ffmpeg_extra_args or ()))
        super().__init__(frame, shape[0] if shape else None, doc=doc)

    @property
    def frame(self) -> Image:
        """The feature of a frame."""
        return self.feature  # type: ignore[return-value]

    def items_of(self, value: Any, path: str) -> Items:
        """Returns the frames that a value means."""
        if isinstance(value, (str, os.PathLike)):
            value = self._frames(read_file(value, path), path)
        elif isinstance(value, bytes):
            value = self._frames(value, path)
        elif hasattr(value, "read"):
            value = self._frames(bytes(value.read()), path)
        return super().items_of(value, path)

    def _frames(self, video: bytes, path: str) -> list[bytes]:
        """Returns the frames of a video file, encoded as images by ffmpeg."""
        program = shutil.which("ffmpeg")
        if program is None:
            raise MissingDependencyError(f"{path}: to take a video file apart, install the program ffmpeg")
        with tempfile.TemporaryDirectory() as folder:
            source, frames = Path(folder, "video"), Path(folder, "frames")
            source.write_bytes(video)
            frames.mkdir()
            target = frames / f"%010d.{self.frame.encoding_format}"
            command = [program, "-v", "error", "-i", str(source), *self.ffmpeg_extra_args, str(target)]
            done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode:
                raise FeatureValueError(f"{path}: ffmpeg cannot read the video: {done.stderr.decode(errors='replace')}")
            return [file.read_bytes() for file in sorted(frames.iterdir())]

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'video', shape, dtype, format, and what else was given."""
        frame = self.frame
        content: Json = {
            "shape": shape_to_json((self.length, *(frame.shape or ()))),
            "dtype": dtype_name(frame.dtype),
            "encodingFormat": frame.encoding_format,
        }
        if self.ffmpeg_extra_args:
            content["ffmpegExtraArgs"] = list(self.ffmpeg_extra_args)
        if frame.use_colormap:
            content["useColormap"] = True
        return "video", content

    @classmethod
    def from_content(cls, content: Json) -> Video:
        """Returns the Video of such a value."""
        return cls(
            shape=shape_from_json(content.get("shape")) or None,
            dtype=content.get("dtype") or np.uint8,
            encoding_format=content.get("encodingFormat") or "png",
            use_colormap=bool(content.get("useColormap")),
            ffmpeg_extra_args=content.get("ffmpegExtraArgs") or (),
        )
