"""The structure of JPEG files: the segments before the first scan, and the end of the image."""

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
_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA})  # SOF0 to SOF3, SOF9, SOF10
_OTHER_FRAMES = frozenset({0xC5, 0xC6, 0xC7, 0xC8, 0xCB, 0xCD, 0xCE, 0xCF})
_LOSSLESS = 0xC3
_DHT, _EOI, _SOS, _DQT, _DRI, _APP1, _APP2 = 0xC4, 0xD9, 0xDA, 0xDB, 0xDD, 0xE1, 0xE2
_TABLES = frozenset({_DHT, _DQT, _DRI})
_OTHERS = frozenset({0xCC, 0xDC, 0xFE, *range(0xE0, 0xF0)})  # DAC, DNL, comments, and data of applications
_ALONE = frozenset({0x00, 0x01, *range(0xD0, 0xD8)})  # after which no segment follows; 0 is no marker
_ALONE_OR_FILL = _ALONE | {0xFF}
_SEGMENTS = _TABLES | _FRAMES | _OTHERS | {_SOS}
_MARKER = re.compile(rb"\xff+([^\x00\x01\xff\xd0-\xd7])")
_METADATA = (b"Exif\0", b"http://ns.adobe.com/xap/")
_FURTHER_VIEWS = range(0x020000, 0x030000)  # types of pictures in an MPO file that are not previews of another one
_MAX_TABLES = 4  # of each kind


def read_header(data: bytes) -> ImageHeader:
    """Returns the header of a JPEG, whose segments are checked up to its first scan, and which must have an end.

    Raises:
        DamagedError: the file is damaged.
        InputError: it is of a kind that decoders do not read.
    """
    frame, kind, scan, has_metadata = (0, 0, 0, 0), 0, len(data), False
    ids: bytes = b""  # of the channels
    wanted: frozenset[int] = frozenset()  # tables of the channels
    known: frozenset[int] = frozenset()
    types: list[int] = []
    for code, start, end in _segments(data):
        if code in _TABLES:
            known |= _tables(code, data[start:end])
        elif code in _FRAMES:
            if kind:
                raise DamagedError(f"there is a second image at byte {start}")
            frame, kind, channels = _FRAME.unpack_from(data, start), code, data[start + 6 : end]
            if len(channels) != 3 * frame[3] or not channels:
                raise DamagedError(f"the header at byte {start} has {end - start} bytes for {frame[3]} channels")
            ids, wanted = channels[::3], frozenset(channels[2::3])
        elif code == _APP1:
            has_metadata = has_metadata or data.startswith(_METADATA, start)
        elif code == _APP2:
            types += _picture_types(data, start, end)
        elif code == _SOS:
            scan = end
            _check_scan(data[start:end], ids)
    if not kind or not frame[1] or not frame[2]:
        raise DamagedError("its size is not given before its pixels (SOS)")
    if kind != _LOSSLESS and not wanted <= known:
        raise DamagedError(f"its quantization table {min(wanted - known)} is missing")
    if not data.endswith(b"\xff\xd9") and not _has_end(data, scan):
        raise DamagedError(f"the file ends at byte {len(data)}, before the end of the image (EOI)")
    views = max(sum(each in _FURTHER_VIEWS for each in types), 1) if types else 1
    bits, height, width, number = frame
    previews = max(len(types) - views, 0)
    return ImageHeader(formats.JPEG, height, width, bits, number, False, has_metadata, views, previews)


def read_frame(data: bytes) -> tuple[int, int, int, int]:
    """Returns bits, height, width and channels of a JPEG.

    Raises:
        DamagedError: it has no such header.
        InputError: it is of a kind that decoders do not read.
    """
    offset, size = 2, len(data) - 16
    while offset < size and data[offset] == 0xFF:  # in a third of the time, for nearly all files
        code = data[offset + 1]
        if code in _FRAMES:
            return _FRAME.unpack_from(data, offset + 4)
        if code not in _TABLES and code not in _OTHERS:
            break
        offset += 2 + ((data[offset + 2] << 8) | data[offset + 3])
    for code, start, _ in _segments(data):
        if code in _FRAMES:
            return _FRAME.unpack_from(data, start)
    raise DamagedError("its size is not given before its pixels (SOS)")


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields marker, start and end of the segments of a JPEG up to that of its first scan."""
    code, offset, size = 0, 2, len(data)
    while code != _SOS:
        if offset + 4 > size or data[offset] != 0xFF or data[offset + 1] in _ALONE_OR_FILL:
            offset = _next_marker(data, offset)
        code, length = data[offset + 1], (data[offset + 2] << 8) | data[offset + 3]
        end = offset + 2 + length
        if code not in _SEGMENTS:
            if code in _OTHER_FRAMES:
                raise InputError(f"JPEG of the kind SOF{code - 0xC0} is not read by decoders; convert it to PNG")
            raise DamagedError(f"the marker {code:02X} at byte {offset} is not expected before its pixels (SOS)")
        if length < 2 or end > size:
            left = size - offset - 2
            raise DamagedError(f"the segment {code:02X} at byte {offset} has {length} bytes, of which {left} are there")
        yield code, offset + 4, end
        offset = end


def _next_marker(data: bytes, offset: int) -> int:
    """Returns where the next segment begins; as decoders do, it passes over other bytes."""
    match = _MARKER.search(data, offset)
    if match is None or match.end() + 2 > len(data):
        raise DamagedError(f"the file ends at byte {len(data)}, before its pixels (SOS)")
    return match.end() - 2


@lru_cache(maxsize=1024)  # images of one program have the same
def _tables(code: int, segment: bytes) -> frozenset[int]:
    """Checks tables of a JPEG, and returns which tables for quantization they are.

    Raises:
        DamagedError: decoders do not accept them.
    """
    if code == _DRI:
        if len(segment) != 2:
            raise DamagedError(f"the interval of restarts has {len(segment)} bytes instead of 2")
        return frozenset()
    found, offset = set(), 0
    while offset < len(segment):
        index = segment[offset]
        if (index & 15 if code == _DQT else index & ~0x10) >= _MAX_TABLES:
            raise DamagedError(f"a table has the number {index}")
        if code == _DQT:
            found.add(index & 15)
            offset += 129 if index >> 4 else 65
        else:
            offset += 17 + _check_codes(segment[offset + 1 : offset + 17])
    if offset != len(segment):
        raise DamagedError(f"tables have {offset} bytes, of which {len(segment)} are there")
    return frozenset(found)


def _check_codes(counts: bytes) -> int:
    """Returns how many codes a Huffman table has, given how many there are of 1 bit, 2 bits, ...

    Raises:
        DamagedError: there are not so many codes of these lengths.
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
    """Checks which channels a scan has."""
    number = segment[0] if segment else 0
    if not 0 < number <= _MAX_TABLES or len(segment) != 4 + 2 * number:
        raise DamagedError(f"the header of its pixels (SOS) has {len(segment)} bytes for {number} channels")
    if ids and not set(segment[1 : 1 + 2 * number : 2]) <= set(ids):
        raise DamagedError("its pixels (SOS) are of a channel that its header (SOF) lacks")


def _has_end(data: bytes, offset: int) -> bool:
    """Returns whether an image ends (EOI) somewhere after its first scan starts at `offset`; bytes may follow."""
    while match := _MARKER.search(data, offset):
        if match[1][0] == _EOI:
            return True
        offset = match.end()
        if match[1][0] not in _ALONE:
            offset += int.from_bytes(data[offset : offset + 2], "big")
    return False


def _picture_types(data: bytes, start: int, end: int) -> list[int]:
    """Returns the types of the pictures in an MPO file, which is a JPEG followed by others, if the segment lists them.

    0x030000 is the primary picture, 0x010001 a preview, 0x020002 a view of two, 0 any other, as a gain map.
    """
    if not data.startswith(b"MPF\0", start):
        return []
    try:
        entries = tiff.first_directory(data[start + 4 : end]).raw(0xB002)
    except DamagedError:
        return []
    order = "<" if data.startswith(b"II", start + 4) else ">"
    whole = entries[: len(entries) // 16 * 16]
    return [attribute & 0xFFFFFF for (attribute,) in struct.iter_unpack(f"{order}I12x", whole)]
