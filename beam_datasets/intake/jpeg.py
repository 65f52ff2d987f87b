"""Structural checks of JPEG files: the segments up to the first scan, and the end marker of the image."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import lru_cache

from beam_datasets.errors import InputError
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake import tiff
from beam_datasets.intake.image_formats import DamagedError, ImageHeader

_FRAME = struct.Struct(">BHHB")  # bits, height, width, channels
_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA})  # that decoders read: SOF0 to SOF3, SOF9, SOF10
_UNREADABLE_FRAMES = frozenset({0xC5, 0xC6, 0xC7, 0xC8, 0xCB, 0xCD, 0xCE, 0xCF})
_SEQUENTIAL = (0xC0, 0xC1)  # with Huffman codes: of the brightness or another value, and of the end of the block
_PROGRESSIVE = (0xC2, 0xCA)
_LOSSLESS = 0xC3
_JPEG_LS = 0xF7
_DHT, _EOI, _SOS, _DQT, _DRI, _APP1, _APP2 = 0xC4, 0xD9, 0xDA, 0xDB, 0xDD, 0xE1, 0xE2
_TABLES = frozenset({_DHT, _DQT, _DRI})
_IGNORED = frozenset({0xCC, 0xDC, 0xFE, *range(0xE0, 0xF0)})  # DAC, DNL, comments, and data of applications
_WITHOUT_SEGMENT = frozenset({0x00, 0x01, *range(0xD0, 0xD8)})  # TEM, RST0 to RST7; and 0, an escaped byte FF
_NO_SEGMENT_OR_FILL = _WITHOUT_SEGMENT | {0xFF}
_SEGMENTS = _TABLES | _FRAMES | _IGNORED | {_SOS}
_MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd7])")  # without the bytes FF that may precede it
_METADATA = (b"Exif\0", b"http://ns.adobe.com/xap/")
_VIEW_TYPES = range(0x020000, 0x030000)  # of pictures in an MPO file: panorama, stereo and multi-angle views
_MAX_TABLES = 4  # of each kind; also the number of channels of a scan


def read_header(data: bytes) -> ImageHeader:
    """Checks the segments of a JPEG up to its first scan, and that the image has an end, and returns its header.

    Raises:
        DamagedError: the file is damaged.
        InputError: it is of a kind that decoders do not read.
    """
    frame, frame_code, scan_start, has_metadata = (0, 0, 0, 0), 0, len(data), False
    channel_ids: bytes = b""
    used_tables: frozenset[int] = frozenset()  # numbers of the quantization tables of the channels
    defined_tables: frozenset[int] = frozenset()
    picture_types: list[int] = []
    for code, start, end in _segments(data):
        if code in _TABLES:
            defined_tables |= _check_tables(code, data[start:end])
        elif code in _FRAMES:
            if frame_code:
                raise DamagedError(f"there is a second image at byte {start}")
            frame, frame_code, channels = _FRAME.unpack_from(data, start), code, data[start + 6 : end]
            if len(channels) != 3 * frame[3] or not channels:
                raise DamagedError(f"the header at byte {start} has {end - start} bytes for {frame[3]} channels")
            channel_ids, used_tables = channels[::3], frozenset(channels[2::3])
        elif code == _APP1:
            has_metadata = has_metadata or data.startswith(_METADATA, start)
        elif code == _APP2:
            picture_types += _mpo_picture_types(data, start, end)
        elif code == _SOS:
            scan_start = end
            _check_scan(data[start:end], channel_ids)
    if not frame_code or not frame[1] or not frame[2]:
        raise DamagedError("its size is not given before its pixels (SOS)")
    if frame_code != _LOSSLESS and not used_tables <= defined_tables:
        raise DamagedError(f"its quantization table {min(used_tables - defined_tables)} is missing")
    _check_pixels(data, scan_start, frame_code, frame[1], frame[2])
    views = max(sum(picture_type in _VIEW_TYPES for picture_type in picture_types), 1) if picture_types else 1
    bits, height, width, num_channels = frame
    previews = max(len(picture_types) - views, 0)
    return ImageHeader(formats.JPEG, height, width, bits, num_channels, False, has_metadata, views, previews)


def read_frame(data: bytes) -> tuple[int, int, int, int]:
    """Returns (bits per channel, height, width, number of channels) of a JPEG, without checking the file.

    Raises:
        DamagedError: it has no such header.
        InputError: it is of a kind that decoders do not read.
    """
    offset, size = 2, len(data) - 16
    while offset < size and data[offset] == 0xFF:  # fast path without `_segments`, for nearly all files
        code = data[offset + 1]
        if code in _FRAMES:
            return _FRAME.unpack_from(data, offset + 4)
        if code not in _TABLES and code not in _IGNORED:
            break
        offset += 2 + ((data[offset + 2] << 8) | data[offset + 3])
    for code, start, _ in _segments(data):
        if code in _FRAMES:
            return _FRAME.unpack_from(data, start)
    raise DamagedError("its size is not given before its pixels (SOS)")


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    r"""Yields (marker code, start, end) of each segment of a JPEG, the last one the header of its first scan (SOS).

    The marker code is the second byte of the marker: 0xDA for SOS. `start` is the byte offset of the segment's content,
    behind its length; `end` is exclusive.

    >>> list(_segments(b"\xff\xd8" b"\xff\xe0\x00\x03a" b"\xff\xda\x00\x02"))
    [(224, 6, 7), (218, 11, 11)]

    Raises:
        DamagedError: a segment is truncated, or a marker cannot occur before a scan.
        InputError: the JPEG is of a kind that decoders do not read.
    """
    code, offset, size = 0, 2, len(data)
    while code != _SOS:
        if offset + 4 > size or data[offset] != 0xFF or data[offset + 1] in _NO_SEGMENT_OR_FILL:
            offset = _next_marker(data, offset)
        code, length = data[offset + 1], (data[offset + 2] << 8) | data[offset + 3]
        end = offset + 2 + length
        if code not in _SEGMENTS:
            if code == _JPEG_LS:
                raise InputError("JPEG-LS is not read by decoders of JPEG; convert it to PNG")
            if code in _UNREADABLE_FRAMES:
                raise InputError(f"JPEG of the kind SOF{code - 0xC0} is not read by decoders; convert it to PNG")
            raise DamagedError(f"the marker {code:02X} at byte {offset} is not expected before its pixels (SOS)")
        if length < 2 or end > size:
            available = size - offset - 2
            raise DamagedError(
                f"the segment {code:02X} at byte {offset} has {length} bytes, of which {available} are there"
            )
        yield code, offset + 4, end
        offset = end


def _next_marker(data: bytes, offset: int) -> int:
    """Returns the offset of the next marker of a segment at or after `offset`; like decoders, skips other bytes.

    Raises:
        DamagedError: there is none with a length after it.
    """
    match = _MARKER.search(data, offset)
    if match is None or match.end() + 2 > len(data):
        raise DamagedError(f"the file ends at byte {len(data)}, before its pixels (SOS)")
    return match.end() - 2


@lru_cache(maxsize=1024)  # images that one program wrote have the same tables
def _check_tables(code: int, segment: bytes) -> frozenset[int]:
    """Checks a segment of tables, and returns the numbers of the quantization tables in it.

    Args:
        code: the marker code of the segment: DQT, DHT or DRI.
        segment: the content of the segment.

    Raises:
        DamagedError: decoders do not accept them.
    """
    if code == _DRI:
        if len(segment) != 2:
            raise DamagedError(f"the interval of restarts has {len(segment)} bytes instead of 2")
        return frozenset()
    quantization_tables, offset = set(), 0
    while offset < len(segment):
        index = segment[offset]
        if (index & 15 if code == _DQT else index & ~0x10) >= _MAX_TABLES:
            raise DamagedError(f"a table has the number {index}")
        if code == _DQT:
            quantization_tables.add(index & 15)
            offset += 129 if index >> 4 else 65
        else:
            offset += 17 + _num_codes(segment[offset + 1 : offset + 17])
    if offset != len(segment):
        raise DamagedError(f"tables have {offset} bytes, of which {len(segment)} are there")
    return frozenset(quantization_tables)


def _num_codes(counts: bytes) -> int:
    """Returns the number of codes of a Huffman table, after checking that a prefix code of these lengths exists.

    Args:
        counts: number of codes of 1 bit, 2 bits, ... 16 bits.

    Raises:
        DamagedError: there are more codes than their lengths allow, or than 256.
    """
    code, longest = 0, len(counts.rstrip(b"\0"))
    for bits, count in enumerate(counts[:longest], 1):
        code += count
        if code >= 1 << bits and count:
            raise DamagedError("a Huffman table has more codes than there can be")
        code <<= 1
    if sum(counts) > 256:
        raise DamagedError("a Huffman table has more than 256 codes")
    return sum(counts)


def _check_scan(segment: bytes, ids: bytes) -> None:
    """Checks the channels in the header of a scan (SOS).

    Args:
        segment: content of the header.
        ids: ids of the channels in the header of the image (SOF); empty if it has not been read.

    Raises:
        DamagedError: the size of the header is wrong, or the image lacks a channel of the scan.
    """
    number = segment[0] if segment else 0
    if not 0 < number <= _MAX_TABLES or len(segment) != 4 + 2 * number:
        raise DamagedError(f"the header of its pixels (SOS) has {len(segment)} bytes for {number} channels")
    if ids and not set(segment[1 : 1 + 2 * number : 2]) <= set(ids):
        raise DamagedError("its pixels (SOS) are of a channel that its header (SOF) lacks")


def _check_pixels(data: bytes, start: int, frame_code: int, height: int, width: int) -> None:
    """Checks that the pixels have an end, and are not too few bytes for the size of the image.

    Args:
        data: the file.
        start: byte offset of the pixels of the first scan.
        frame_code: marker code of the header of the image (SOF).
        height: height in pixels.
        width: width in pixels.

    Raises:
        DamagedError: the end is missing, or pixels are.
    """
    is_sure = data.endswith(b"\xff\xd9") and frame_code not in _PROGRESSIVE
    if not is_sure and not _has_end(data, start):
        raise DamagedError(f"the file ends at byte {len(data)}, before the end of the image (EOI)")
    size = len(data) - start
    if frame_code in _SEQUENTIAL and 4 * size < -(-height // 8) * -(-width // 8):
        pixels = f"{height} x {width} pixels, of which each block of 8 x 8 has 2 bits or more"
        raise DamagedError(f"it has {size} bytes for {pixels}")


def _has_end(data: bytes, offset: int) -> bool:
    """Returns whether there is an end of the image (EOI) after `offset`, the start of the pixels of its first scan.

    Between the scans of a progressive image, a damaged segment may contain the EOI, so that decoders miss it.
    """
    while match := _MARKER.search(data, offset):
        if match[1][0] == _EOI:
            return True
        offset = match.end()
        if match[1][0] not in _WITHOUT_SEGMENT:
            offset += int.from_bytes(data[offset : offset + 2], "big")
    return False


def _mpo_picture_types(data: bytes, start: int, end: int) -> list[int]:
    """Returns the types of the pictures in an MPO file, a JPEG followed by others, from the index in an APP2 segment.

    0x030000 is the primary picture, 0x010001 a preview, 0x020002 a stereo view, and 0 any other, such as a gain map:
    [0x030000, 0] for a photo with a gain map. Returns [] if the segment has no such index, or a damaged one.

    Args:
        data: content of the file.
        start: byte offset of the content of the APP2 segment, behind its length.
        end: byte offset behind the segment.
    """
    if not data.startswith(b"MPF\0", start):
        return []
    try:
        entries = tiff.first_directory(data[start + 4 : end]).raw(0xB002)
    except DamagedError:
        return []
    order = "<" if data.startswith(b"II", start + 4) else ">"
    whole_entries = entries[: len(entries) // 16 * 16]
    return [attribute & 0xFFFFFF for (attribute,) in struct.iter_unpack(f"{order}I12x", whole_entries)]
