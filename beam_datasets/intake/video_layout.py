"""Structure of video files, read without decoding: whether the end of the file is missing, and the number of samples.

A decoder makes one frame of a sample. ffmpeg does not notice that the end of an AVI, a GIF, an Ogg file, an MPEG
program or transport stream is missing. A program stream, a transport stream and an AVI that was written to a
pipe have no end mark: a file that was truncated between two frames cannot be distinguished from a shorter one.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from beam_datasets.errors import InputError
from beam_datasets.intake.image_formats import READABLE, detect_format
from beam_datasets.intake.images import check_image

GET_AGAIN = "Get the whole file again, or write what can be read to a new one: `ffmpeg -i FILE new.mp4`"
_SYNC = 0x47  # first byte of the packets of an MPEG transport stream
_PACKETS = ((188, 0), (192, 4))  # size of such packets, and offset of the first byte: in M2TS, a time precedes each
_NUM_SYNCS = 4  # packets by which such a stream is recognized; a GIF begins with the same byte
_PACK = b"\0\0\1\xba"  # first bytes of an MPEG program stream
_PES = b"\0\0\1"
_FIRST_PES_STREAM = 0xBB  # lower numbers after _PES are not packets with a length
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")  # of WMV
_ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_LAST_PAGE = 4  # flag of the last page of an Ogg stream
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a file whose writer could not go back to its header
_EBML = b"\x1a\x45\xdf\xa3"  # of Matroska and WebM
_SEGMENT, _CLUSTER, _TRACKS, _TRACK, _GROUP = 0x18538067, 0x1F43B675, 0x1654AE6B, 0xAE, 0xA0
_TRACK_NUMBER, _TRACK_TYPE, _BLOCK, _SIMPLE_BLOCK = 0xD7, 0x83, 0xA1, 0xA3
_MP4_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def check_structure(video: bytes) -> None:
    """Checks that the end of a file is there, for the formats of which ffmpeg does not report that it is missing.

    Raises:
        InputError: the file is truncated, or a damaged image.
    """
    if detect_format(video) in READABLE:
        check_image(video)
    end = _declared_size(video)
    if end > len(video):
        raise InputError(expected=f"{end:,} bytes, as the file declares", got=f"{len(video):,}", advice=GET_AGAIN)
    for size, start in _PACKETS:
        first_bytes = video[start : size * _NUM_SYNCS : size]
        if first_bytes == bytes([_SYNC]) * _NUM_SYNCS:
            if len(video) % size:
                raise InputError(
                    f"expected packets of {size} bytes, as in an MPEG transport stream, got {len(video):,} bytes. "
                    + GET_AGAIN
                )
            _check_transport_stream(video, size, start)
    if video.startswith(b"OggS"):
        check_ogg(video)


def num_video_samples(video: bytes) -> int | None:
    """Returns the number of samples of the first video track; None if it is unknown, as of a fragmented MP4.

    It is known for MP4, QuickTime, AVI, Matroska and WebM.
    """
    try:
        if video[4:8] == b"ftyp":
            return _num_mp4_samples(video)
        if video[:4] == b"RIFF" and video[8:12] == b"AVI ":
            return _num_avi_samples(video)
        if video[:4] == _EBML:
            return _num_matroska_samples(video)
    except (struct.error, IndexError):  # the headers are damaged
        pass
    return None


# ------------------------------------------------------------------------------------------------------------ the end


def check_ogg(video: bytes) -> None:
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
            raise InputError(f"byte {position}: expected a whole page of Ogg, got other bytes or the end. {GET_AGAIN}")
        stream = video[position + 14 : position + 18]
        open_streams.add(stream)
        if video[position + 5] & _LAST_PAGE:
            open_streams.discard(stream)
        position = end
    if open_streams:
        raise InputError(
            expected="the last page of each stream of an Ogg file", got="the end of the file", advice=GET_AGAIN
        )


def _declared_size(video: bytes) -> int:
    """Returns the offset at which a file must end by its own sizes; 0 for files that do not declare any."""
    if video[:4] == b"RIFF" and video[8:12] == b"AVI ":
        return _end_of_avi(video)
    if video.startswith(_PACK):
        return _end_of_program_stream(video)
    if video.startswith(_ASF_HEADER):
        properties = video.find(_ASF_PROPERTIES, 0, 1 << 16)
        if properties < 0 or properties + 92 > len(video):
            return 0
        size, flags = struct.unpack_from("<40xQ40xI", video, properties)
        return 0 if flags & 1 else int(size)  # the flag: it was broadcast, so its size was not known
    position = end = 0
    is_mp4 = video[4:8] == b"ftyp"
    while is_mp4 and position + 8 <= len(video):
        (size,) = struct.unpack_from(">I", video, position)
        if size == 1:  # the size follows in 64 bits
            size = struct.unpack_from(">Q", video, position + 8)[0] if position + 16 <= len(video) else 16
        if size < 8 or not video[position + 4 : position + 8].isalnum():  # it reaches the end, or other bytes follow
            break
        position = end = position + size
    return end


def _end_of_avi(video: bytes) -> int:
    """Returns the end of an AVI by the sizes of its parts; of one of unknown size, the end of its last chunk."""
    position = end = 0
    while video[position : position + 4] == b"RIFF" and position + 8 <= len(video):  # a long one has several
        (size,) = struct.unpack_from("<I", video, position + 4)
        if size in (0, _UNKNOWN_SIZE):
            return max((stop for _, _, stop in _avi_chunks(video)), default=0)
        end = position + 8 + size
        if end == len(video) + 8:  # a common mistake of writers, as with WAV: the size includes its own header
            end -= 8
        position = end + size % 2
    return end


def _end_of_program_stream(video: bytes) -> int:
    """Returns the end of the last packet of an MPEG program stream; 0 if other bytes than packets follow one."""
    position = 0
    while position + 6 <= len(video) and video[position : position + 3] == _PES:
        stream = video[position + 3]
        if stream == 0xBA:  # the header of a pack: of MPEG-2 or MPEG-1
            is_mpeg2 = video[position + 4] >> 6 == 1
            stuffing = video[position + 13] & 7 if is_mpeg2 and position + 13 < len(video) else 0
            position += 14 + stuffing if is_mpeg2 else 12
        elif stream == 0xB9:  # the end code
            position += 4
        elif stream >= _FIRST_PES_STREAM:
            position += 6 + int(struct.unpack_from(">H", video, position + 4)[0])
        else:
            return 0
    return position


def _check_transport_stream(video: bytes, size: int, start: int) -> None:
    """Checks that the last packet of each elementary stream that declares its length is whole.

    Args:
        video: the content of the file.
        size: the size of a packet of the transport stream.
        start: the offset of its first byte in it.

    Raises:
        InputError: the file ends within such a packet.
    """
    missing: dict[int, int] = defaultdict(int)  # stream -> bytes of its packet that have not come yet
    for position in range(start, len(video), size):
        header = video[position : position + 4]
        stream = (header[1] & 0x1F) << 8 | header[2]
        has_fields, has_payload = header[3] & 0x20, header[3] & 0x10
        if header[0] != _SYNC or not has_payload:
            continue
        payload = position + 4 + (1 + video[position + 4] if has_fields else 0)
        length = max(0, position - start + 188 + start - payload)
        if header[1] & 0x40:  # a packet of the elementary stream begins
            is_pes = video[payload : payload + 3] == _PES and payload + 6 <= len(video)
            declared = int(struct.unpack_from(">H", video, payload + 4)[0]) if is_pes else 0
            missing[stream] = 6 + declared if declared else 0
        missing[stream] -= min(length, missing[stream])
    if any(missing.values()):
        raise InputError(
            expected="the end of the last packet of each stream", got="the end of the file", advice=GET_AGAIN
        )


# ------------------------------------------------------------------------------------------------------------ samples


def _avi_chunks(video: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yields (name, start of the content, end) of the chunks of an AVI, those in lists, too, without the lists."""
    position = 0
    while position + 8 <= len(video):
        name, (size,) = video[position : position + 4], struct.unpack_from("<I", video, position + 4)
        if name in (b"RIFF", b"LIST"):
            position += 12
            continue
        if not name.isascii():
            return
        yield name, position + 8, position + 8 + size
        position += 8 + size + size % 2


def _num_avi_samples(video: bytes) -> int | None:
    """Returns the number of chunks of the first video stream of an AVI that are not empty; None without a stream."""
    kinds = [video[start : start + 4] for name, start, _ in _avi_chunks(video) if name == b"strh"]
    if b"vids" not in kinds:
        return None
    number = b"%02d" % kinds.index(b"vids")
    names = (number + b"dc", number + b"db")
    return sum(name in names and end > start for name, start, end in _avi_chunks(video))


def _num_mp4_samples(video: bytes) -> int | None:
    """Returns the number of samples in the table of the first video track of an MP4; None if there is none."""
    is_video = False
    ranges = [(0, len(video))]
    while ranges:
        position, end = ranges.pop()
        while position + 8 <= end:
            size, name = struct.unpack_from(">I4s", video, position)
            content = position + 8
            if size == 1:
                (size,) = struct.unpack_from(">Q", video, content)
                content += 8
            stop = position + size if size else end
            if stop < content:
                return None
            if name in _MP4_PARENTS:
                ranges += [(stop, end), (content, min(stop, end))]
                break
            if name == b"hdlr":
                is_video = is_video or video[content + 8 : content + 12] == b"vide"
            elif name in (b"stsz", b"stz2") and is_video:
                return int(struct.unpack_from(">I", video, content + 8)[0]) or None
            position = stop
    return None


def _num_matroska_samples(video: bytes) -> int | None:
    """Returns the number of blocks of the first video track of a Matroska file.

    Returns None without such a track, and if the file ends within an element or is damaged.
    """
    position, track, video_track, num_blocks = 0, 0, 0, 0
    while position < len(video):
        name, position = _ebml_number(video, position, keep_marker=True)
        size, content = _ebml_number(video, position)
        is_unknown = size == (1 << 7 * (content - position)) - 1
        if name in (_SEGMENT, _CLUSTER, _TRACKS, _TRACK, _GROUP):
            position = content
            continue
        if is_unknown or content + size > len(video):
            return None
        if name == _TRACK_NUMBER:
            track = int.from_bytes(video[content : content + size], "big")
        elif name == _TRACK_TYPE and video[content : content + size] == b"\1":
            video_track = video_track or track
        elif name in (_BLOCK, _SIMPLE_BLOCK):
            num_blocks += _ebml_number(video, content)[0] == video_track
        position = content + size
    return num_blocks if video_track else None


def _ebml_number(video: bytes, position: int, *, keep_marker: bool = False) -> tuple[int, int]:
    """Reads a number of EBML, whose first byte has as many leading zeros as bytes follow; returns it and its end.

    Args:
        video: the content of the file.
        position: the offset of the number.
        keep_marker: whether the bit that ends the zeros belongs to the number, as it does to a name.

    Raises:
        IndexError: the file ends there, or the first byte is 0.
    """
    length = 9 - video[position].bit_length()
    if length > 8:
        raise IndexError(position)
    number = int.from_bytes(video[position : position + length], "big")
    return number if keep_marker else number & ~(1 << 7 * length), position + length
