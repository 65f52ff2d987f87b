"""Frames of video files, extracted by the program ffmpeg: all of them, or an error.

ffmpeg exits with status 0 even if it has read only a part of a damaged or truncated file, and prints messages. It
does not notice that the end of an AVI, a GIF, an Ogg file or an MPEG transport stream is missing, so their structure is
checked. A transport stream has no end: one that was cut between two frames cannot be told from a shorter one.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from beam_datasets.errors import InputError, MissingDependencyError
from beam_datasets.intake.image_formats import READABLE, format_of
from beam_datasets.intake.images import check_image

_GET_AGAIN = "Get the whole file again, or write what can be read to a new one: `ffmpeg -i FILE new.mp4`"
_SYNC = 0x47  # first byte of the packets of an MPEG transport stream
_PACKETS = ((188, 0), (192, 4))  # size of such packets, and offset of the first byte: in M2TS, a time precedes each
_NUM_SYNCS = 4  # packets by which such a stream is recognized; a GIF begins with the same byte
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")  # of WMV
_ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_LAST_PAGE = 4  # flag of the last page of an Ogg stream
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a file whose writer could not go back to its header
_DROPPED = re.compile(rb"^drop_frames=(\d+)$", re.MULTILINE)
_SHOWN = 3  # messages of ffmpeg


def read_frames(video: bytes, encoding_format: str, options: Sequence[str] = ()) -> list[bytes]:
    """Returns the frames of a video file, as image files that ffmpeg encodes, at a constant rate.

    Args:
        video: the content of the file.
        encoding_format: format of the frames, 'png' or 'jpeg'.
        options: arguments for ffmpeg, between the input and the output.

    Raises:
        InputError: the file is damaged or truncated, ffmpeg cannot read it, or leaves frames out although no options
            ask for that. The message does not name the file.
        MissingDependencyError: ffmpeg is not installed.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise MissingDependencyError("to extract frames from videos, install ffmpeg")
    _check_structure(video)
    with tempfile.TemporaryDirectory() as folder:
        source, frames = Path(folder, "video"), Path(folder, "frames")
        source.write_bytes(video)
        frames.mkdir()
        target = frames / f"%010d.{encoding_format}"
        command = [program, "-v", "error", "-nostats", "-progress", "pipe:1", "-i", str(source), *options, str(target)]
        process = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        messages = process.stderr.decode(errors="replace").replace(str(source), "the file").strip().splitlines()
        if process.returncode or messages:
            reason = "; ".join(messages[:_SHOWN]) or f"status {process.returncode}"
            raise InputError(expected="a whole video", got=f"errors of ffmpeg: {reason}", advice=_GET_AGAIN)
        files = [file.read_bytes() for file in sorted(frames.iterdir())]
    num_dropped = max(map(int, _DROPPED.findall(process.stdout)), default=0)
    if num_dropped and not options:
        raise InputError(
            expected="all frames",
            got=f"{len(files):,}, as {num_dropped:,} were left out to make the rate constant",
            advice="ffmpeg_extra_args=['-vsync', 'passthrough'] keeps all, ['-r', '10'] chooses another rate",
        )
    return files


def _check_structure(video: bytes) -> None:
    """Checks that the end of a file is there, for the formats of which ffmpeg does not report that it is missing.

    Raises:
        InputError: the file is truncated, or a damaged image.
    """
    if format_of(video) in READABLE:
        check_image(video)
    end = _declared_size(video)
    if end > len(video):
        raise InputError(expected=f"{end:,} bytes, as the file declares", got=f"{len(video):,}", advice=_GET_AGAIN)
    for size, start in _PACKETS:
        first_bytes = video[start : size * _NUM_SYNCS : size]
        if first_bytes == bytes([_SYNC]) * _NUM_SYNCS and len(video) % size:
            raise InputError(
                f"expected packets of {size} bytes, as in an MPEG transport stream, got {len(video):,} bytes. "
                + _GET_AGAIN
            )
    if video.startswith(b"OggS"):
        _check_ogg(video)


def _check_ogg(video: bytes) -> None:
    """Checks that the pages of an Ogg file follow each other up to its end, and that each stream has its last page.

    Raises:
        InputError: the file is truncated or damaged.
    """
    position = 0
    open_streams: set[bytes] = set()
    while position < len(video):
        num_segments = video[position + 26] if len(video) > position + 26 else 0
        end = position + 27 + num_segments + sum(video[position + 27 : position + 27 + num_segments])
        if video[position : position + 4] != b"OggS" or end > len(video):
            raise InputError(f"byte {position}: expected a whole page of Ogg, got other bytes or the end. {_GET_AGAIN}")
        stream = video[position + 14 : position + 18]
        open_streams.add(stream)
        if video[position + 5] & _LAST_PAGE:
            open_streams.discard(stream)
        position = end
    if open_streams:
        raise InputError(
            expected="the last page of each stream of an Ogg file", got="the end of the file", advice=_GET_AGAIN
        )


def _declared_size(video: bytes) -> int:
    """Returns the offset at which an AVI, MP4 or WMV file must end by its own sizes; 0 for other files."""
    position = end = 0
    is_avi = video[:4] == b"RIFF" and video[8:12] == b"AVI "
    while is_avi and video[position : position + 4] == b"RIFF" and position + 8 <= len(video):  # a long one has several
        (size,) = struct.unpack_from("<I", video, position + 4)
        if size in (0, _UNKNOWN_SIZE):
            return 0
        end = position + 8 + size
        if end == len(video) + 8:  # a common mistake of writers, as with WAV: the size includes its own header
            end -= 8
        position = end + size % 2
    properties = video.find(_ASF_PROPERTIES, 0, 1 << 16) if video.startswith(_ASF_HEADER) else -1
    if properties >= 0 and properties + 92 <= len(video):
        size, flags = struct.unpack_from("<40xQ40xI", video, properties)
        return 0 if flags & 1 else size  # the flag: it was broadcast, so its size was not known
    is_mp4 = video[4:8] == b"ftyp"
    while is_mp4 and position + 8 <= len(video):
        (size,) = struct.unpack_from(">I", video, position)
        if size == 1:  # the size follows in 64 bits
            size = struct.unpack_from(">Q", video, position + 8)[0] if position + 16 <= len(video) else 16
        if size < 8 or not video[position + 4 : position + 8].isalnum():  # it reaches the end, or other bytes follow
            break
        position = end = position + size
    return end
