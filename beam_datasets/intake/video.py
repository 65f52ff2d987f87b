"""Frames of video files, extracted by the program ffmpeg: all of them, or an error.

ffmpeg exits with status 0 even if it has read only a part of a damaged or truncated file, and prints messages. With
`-xerror`, its status tells whether packets or frames are damaged. Messages with status 0 may be harmless, such as those
about a sound beside the video: then the number of frames decides. `video_layout` checks the structure before.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from beam_datasets.errors import InputError, MissingDependencyError
from beam_datasets.intake.images import check_image
from beam_datasets.intake.video_layout import GET_AGAIN, check_structure, num_video_samples
from beam_datasets.limits import MAX_VIDEO_PIXELS, check_num_elements

_COUNTS = "^%s_frames=([0-9]+)$"  # of frames that ffmpeg left out (drop) or repeated (dup)
_SHOWN = 3  # messages of ffmpeg
_SECONDS = 1.0  # between two looks at the frames that were written


def read_frames(video: bytes, encoding_format: str, options: Sequence[str] = ()) -> list[bytes]:
    """Returns the frames of a video file, as image files that ffmpeg encodes, at a constant rate.

    Args:
        video: the content of the file.
        encoding_format: format of the frames, 'png' or 'jpeg'.
        options: arguments for ffmpeg, between the input and the output.

    Raises:
        InputError: the file is damaged or truncated, ffmpeg cannot read it, it has more pixels than the limit, or
            ffmpeg leaves frames out although no options ask for that. The message does not name the file.
        MissingDependencyError: ffmpeg is not installed.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise MissingDependencyError("to extract frames from videos, install ffmpeg")
    check_structure(video)
    with tempfile.TemporaryDirectory() as folder:
        source, frames = Path(folder, "video"), Path(folder, "frames")
        source.write_bytes(video)
        frames.mkdir()
        command = [program, "-v", "error", "-nostats", "-xerror", "-progress", "pipe:1", "-i", str(source), *options]
        status, counts, errors = _run_ffmpeg([*command, str(frames / f"%010d.{encoding_format}")], frames)
        files = [file.read_bytes() for file in sorted(frames.iterdir())]
    messages = errors.replace(str(source), "the file").strip().splitlines()
    num_dropped, num_repeated = (_last_count(counts, name) for name in ("drop", "dup"))
    has_all_frames = len(files) + num_dropped - num_repeated == num_video_samples(video)
    if status or (messages and not has_all_frames):
        text = "; ".join(messages[:_SHOWN]) or f"status {status}"
        raise InputError(expected="a whole video", got=f"errors of ffmpeg: {text}", advice=GET_AGAIN)
    if num_dropped and not options:
        keep_all = "-fps_mode" if _accepts(program, "-fps_mode", "passthrough") else "-vsync"
        raise InputError(
            expected="all frames",
            got=f"{len(files):,}, as {num_dropped:,} were left out to make the rate constant",
            advice=f"ffmpeg_extra_args=[{keep_all!r}, 'passthrough'] keeps all, ['-r', '10'] chooses another rate",
        )
    return files


def _run_ffmpeg(command: Sequence[str], frames: Path) -> tuple[int, str, str]:
    """Runs ffmpeg, and returns its exit status, its standard output and its standard error.

    Args:
        command: the program and its arguments.
        frames: the folder that it writes images to.

    Raises:
        InputError: the images have more pixels than the limit. A damaged time makes ffmpeg repeat a frame for hours.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        outputs = "", ""

        def communicate() -> None:
            """Reads the output of the program until it ends."""
            nonlocal outputs
            outputs = process.communicate()

        reader = threading.Thread(target=communicate)
        reader.start()
        try:
            while reader.is_alive():
                reader.join(_SECONDS)
                _check_num_pixels(frames)
        except BaseException:
            process.kill()
            raise
        finally:
            reader.join()
    return process.returncode, *outputs


def _check_num_pixels(frames: Path) -> None:
    """Raises InputError if the images in a folder, of which all have the size of the first, have too many pixels."""
    files = sorted(frames.iterdir())
    if len(files) > 1:
        try:
            header = check_image(files[0].read_bytes())
        except (InputError, OSError):  # it is damaged, which is an error when it is stored
            return
        text = f"the video has {len(files)} frames or more of {header.height} x {header.width} pixels"
        num_pixels = len(files) * header.height * header.width  # so far: the whole video has more
        check_num_elements(num_pixels, MAX_VIDEO_PIXELS, text, proposed=1 << (4 * num_pixels).bit_length())


def _accepts(program: str, *option: str) -> bool:
    """Returns whether this version of ffmpeg accepts an option."""
    command = [program, "-v", "quiet", *option, "-version"]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def _last_count(counts: str, name: str) -> int:
    """Returns the last, which is the highest, count of a kind of frames ("drop", "dup") that ffmpeg has printed."""
    return max(map(int, re.findall(_COUNTS % name, counts, re.MULTILINE)), default=0)
