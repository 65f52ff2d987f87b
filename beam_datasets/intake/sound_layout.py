"""The structure of sound files, checked before a library decodes them: is the file whole, and how long is it?

libsndfile decodes what is there: it takes a file that was cut for a shorter one, skips damaged pages of OGG and damaged
frames of MP3, and stops at the end of the first of two files in one. Headers, chunks, pages and frames are therefore
followed here from the first byte to the last.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from beam_datasets.errors import InputError

KINDS = ("WAV", "FLAC", "OGG", "MP3", "AIFF")
CONVERT = "Convert it first, such as by `ffmpeg -i FILE new.flac`"
_REWRITE = "Write it anew, such as by `ffmpeg -i FILE -c copy new.wav`"
GET_AGAIN = "Get the whole file again"


@dataclass(frozen=True)
class Layout:
    """What the structure of a sound file declares.

    Attributes:
        kind: one of KINDS.
        start: offset of its first byte, behind tags.
        stop: offset behind its last byte, before tags; None for the end of the file.
        frames: number of samples of each channel; None if the file does not declare it.
        trimmed: how many of them a decoder may leave out at the ends, as an encoder has added them.
        filler: what follows the content for the decoder; its samples are left out.
        num_bytes: size of uncompressed samples; None if they are compressed.
        channels: number of them; 0 if only the decoder finds it.
        sample_rate: samples a second; 0 if only the decoder finds it.
        plain: dtype of the samples of a WAV file that are an array as they are; '' if they must be decoded.
        body: offset of the samples of a WAV file.
        md5: of the samples of a FLAC; b'' if there is none.
    """

    kind: str
    start: int = 0
    frames: int | None = None
    trimmed: int = 0
    filler: bytes = b""
    stop: int | None = None
    num_bytes: int | None = None
    channels: int = 0
    sample_rate: int = 0
    plain: str = ""
    body: int = 0
    md5: bytes = b""


def ending_of_sound(head: bytes) -> str:
    """Returns the usual ending of a sound file, by how its content begins; '' for another file.

    >>> ending_of_sound(b"RIFF....WAVEfmt "), ending_of_sound(b"fLaC"), ending_of_sound(b"GIF89a")
    ('wav', 'flac', '')
    """
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "aiff"
    for signature, ending in ((b"riff\x2e\x91\xcf\x11", "w64"), (b"fLaC", "flac"), (b"OggS", "ogg")):
        if head.startswith(signature):
            return ending
    return "mp3" if _ID3.match(head) or _mpeg_frame(head, 0) else ""


def layout_of(data: bytes) -> Layout:
    """Returns what the structure of a sound file declares, followed to its end.

    Raises:
        InputError: the file is cut, damaged, longer than it declares, or of another kind.
    """
    start = _end_of_id3(data)
    follow = _FOLLOW.get(ending_of_sound(data[start : start + 12]))
    if follow is None:
        raise InputError(_unknown(data, data[start : start + 12]))
    try:
        return follow(data, start)
    except (struct.error, IndexError):
        raise InputError(f"expected a whole header, got a file of {len(data):,} bytes. {GET_AGAIN}") from None


_OTHERS = {
    b".snd": "an AU file",
    b"caff": "a CAF file",
    b"NIST": "a NIST SPHERE file",
    b"wvpk": "a WavPack file",
    b"MAC ": "a Monkey's Audio file",
    b"#!AM": "an AMR file",
    b"0&\xb2u": "a Windows Media file",
    b"BW64": "a BW64 file",
    b"\x1aE\xdf\xa3": "a Matroska or WebM file",
    b"\xff\xf1": "an AAC file",
    b"\xff\xf9": "an AAC file",
}


def _unknown(data: bytes, head: bytes) -> str:
    """Returns the problem of content that is no sound of KINDS."""
    if not data:
        return "expected a sound, got an empty file. Leave it out"
    got = (
        _OTHERS.get(head[:4])
        or _OTHERS.get(head[:2])
        or ("an MPEG-4 file (such as AAC)" if head[4:8] == b"ftyp" else "")
    )
    return (
        f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {got or f'a file that begins with {head!r}'}. {CONVERT}"
    )


def _whole(declared: int, size: int, what: str = "the header declares") -> None:
    """Raises InputError if a file is shorter than it declares."""
    if declared > size:
        raise InputError(
            f"expected {declared:,} bytes, as {what}, got {size:,}: the end of the file is missing. {GET_AGAIN}"
        )


# ------------------------------------------------------------------------------------------------------- WAV and AIFF


@dataclass(frozen=True)
class _Chunk:
    """A chunk of a RIFF or IFF file: its name, the offset of its content, and its size in bytes."""

    name: bytes
    start: int
    size: int


def _chunks(data: bytes, position: int, order: str, sizes: dict[bytes, int]) -> Iterator[_Chunk]:
    """Yields the chunks of a file up to its end; `sizes` has the sizes of chunks that a 32-bit field cannot hold.

    A missing byte of padding after a chunk of an odd size is accepted, as many programs do not write it.
    """
    while position < len(data):
        if len(data) - position < 8:  # samples that an added byte has moved can end in zeros, too
            raise InputError(f"byte {position}: expected a chunk, got {data[position:]!r}. {GET_AGAIN}")
        if _is_tag(data, position):
            return
        name, size = struct.unpack_from(f"{order}4sI", data, position)
        if name in (b"RIFF", b"RF64", b"RIFX", b"FORM"):
            raise InputError("expected one sound, got another one after its end. Split the file")
        if not all(32 <= byte < 127 for byte in name):
            raise InputError(
                f"byte {position}: expected the name of a chunk, got {name!r}: a size is wrong, or bytes were lost or "
                f"added. {GET_AGAIN}"
            )
        if size == 0xFFFFFFFF and name not in sizes:
            raise InputError(
                f"chunk {name.decode()!r}: expected its size, got none: the program that wrote the file could not go "
                f"back to the header. {_REWRITE}"
            )
        size = sizes.get(name, size)
        _whole(position + 8 + size, len(data), f"chunk {name.decode()!r} declares")
        yield _Chunk(name, position + 8, size)
        position += 8 + size
        if size % 2 and (data[position : position + 1] == b"\0" or position + 1 == len(data)):
            position += 1


def _is_tag(data: bytes, position: int) -> bool:
    """Returns whether only zeros or tags of players follow, up to the end of the file."""
    while position < len(data):
        tag = data[position : position + 8]
        if tag[:3] == b"TAG" and len(data) - position >= 128:
            position += 128
        elif tag == b"APETAGEX":
            size, flags = struct.unpack_from("<I4xI", data, position + 12)
            has_header = flags & 1 << 29  # this is the header; the size counts the footer
            position += 32 + (size if has_header else 0)
        elif tag[:3] == b"ID3" and (end := _end_of_id3(data, position)) > position:
            position = end
        elif tag == b"LYRICSBE" and (end := data.find(b"LYRICS200", position)) >= 0:
            position = end + 9
        else:
            return not data[position:].strip(b"\0")
    return position == len(data)


_WAV_TAGS = {1: "PCM", 3: "floats", 6: "A-law", 7: "u-law"}
_WAV_PLAIN = {(1, 2): "<i2", (1, 4): "<i4", (3, 4): "<f4", (3, 8): "<f8"}  # (tag, bytes) -> dtype
_WAV_BITS = {1: range(1, 33), 3: (32, 64), 6: (8,), 7: (8,)}
_WAV_CODECS = {2: "MS ADPCM", 0x11: "IMA ADPCM", 0x31: "GSM 6.10", 0x50: "MPEG", 0x55: "MP3", 0x161: "WMA", 0xFF: "AAC"}
_EXTENSIBLE = 0xFFFE


def _wav(data: bytes, start: int) -> Layout:
    """Returns the layout of a WAV or RF64 file."""
    order = ">" if data[start : start + 4] == b"RIFX" else "<"
    [riff] = struct.unpack_from(f"{order}I", data, start + 4)
    sizes: dict[bytes, int] = {}
    if data[start : start + 4] == b"RF64":
        name, _, riff, sizes[b"data"] = struct.unpack_from("<4sIQQ", data, start + 12)
        if name != b"ds64":
            raise InputError(f"expected chunk 'ds64' of an RF64 file, got {name!r}. {GET_AGAIN}")
    chunks = list(_chunks(data, start + 12, order, sizes))
    if riff not in (0, 0xFFFFFFFF) and riff > len(data) - start:  # off by 8 is a common mistake, and no byte is lost
        _whole(start + 8 + riff, len(data))
    body, header = _only(chunks, b"data"), _only(chunks, b"fmt ")
    if header.start > body.start:
        raise InputError(f"expected the chunk 'fmt ' before 'data'. {CONVERT}")
    return _wav_layout(data[header.start : header.start + header.size], order, body, start)


def _only(chunks: list[_Chunk], name: bytes) -> _Chunk:
    """Returns the chunk with a name, which must be the only one."""
    found = [chunk for chunk in chunks if chunk.name == name]
    if len(found) != 1:
        raise InputError(f"expected one chunk {name.decode()!r}, got {len(found)}. {GET_AGAIN}")
    return found[0]


def _wav_layout(header: bytes, order: str, body: _Chunk, start: int) -> Layout:
    """Returns the layout of samples that a chunk 'fmt ' describes."""
    tag, channels, rate, _, align, bits = struct.unpack_from(f"{order}HHIIHH", header)
    valid = bits
    if tag == _EXTENSIBLE:
        valid, tag = struct.unpack_from(f"{order}H4xI", header, 18)
    if tag not in _WAV_TAGS:
        got = _WAV_CODECS.get(tag, f"the format {tag:#06x}")
        raise InputError(f"expected a WAV of {', '.join(_WAV_TAGS.values())}, got {got}. {CONVERT}")
    width = -(-bits // 8)
    if bits not in _WAV_BITS[tag]:
        got = f"{_WAV_TAGS[tag]} of {bits} bits"
        raise InputError(f"expected a WAV of at most 32 bits, or floats of 32 or 64, got {got}. {CONVERT}")
    if not channels or not rate or align != channels * width or valid > bits:
        raise InputError(
            f"expected a header whose fields agree, got {channels} channels of {bits} bits ({valid} valid) in {align} "
            f"bytes, {rate} Hz. {CONVERT}"
        )
    if body.size % align:
        raise InputError(f"expected whole frames of {align} bytes, got {body.size:,} bytes of samples. {GET_AGAIN}")
    plain = _WAV_PLAIN.get((tag, width), "") if order == "<" else ""
    return Layout(
        "WAV",
        start,
        body.size // align,
        num_bytes=body.size,
        channels=channels,
        sample_rate=rate,
        plain=plain,
        body=body.start,
    )


def _w64(data: bytes, start: int) -> Layout:
    """Returns the layout of a Sony Wave64 file, whose chunks have names of 16 bytes and sizes that count the header."""
    [total] = struct.unpack_from("<Q", data, start + 16)
    _whole(start + total, len(data))
    position, chunks = start + 40, []
    while position < start + total:
        name, size = struct.unpack_from("<16sQ", data, position)
        if size < 24:
            raise InputError(f"byte {position}: expected a chunk of at least 24 bytes, got {size}. {GET_AGAIN}")
        _whole(position + size, start + total, f"chunk {name[:4]!r} declares")
        chunks.append(_Chunk(name[:4], position + 24, size - 24))
        position += -(-size // 8) * 8
    if data[start + total :].strip(b"\0"):
        raise InputError(f"expected {total:,} bytes, got {len(data) - start:,}. {GET_AGAIN}")
    header, body = _only(chunks, b"fmt "), _only(chunks, b"data")
    return _wav_layout(data[header.start : header.start + header.size], "<", body, start)


def _aiff(data: bytes, start: int) -> Layout:
    """Returns the layout of an AIFF or AIFC file."""
    [total] = struct.unpack_from(">I", data, start + 4)
    chunks = list(_chunks(data, start + 12, ">", {}))
    if total > len(data) - start:
        _whole(start + 8 + total, len(data))
    common, body = _only(chunks, b"COMM"), _only(chunks, b"SSND")
    channels, frames = struct.unpack_from(">HI", data, common.start)
    [offset] = struct.unpack_from(">I", data, body.start)
    if not channels or body.size < 8 + offset:
        raise InputError(f"expected channels and samples, got {channels} channels, {body.size} bytes. {GET_AGAIN}")
    return Layout("AIFF", start, frames, num_bytes=body.size - 8 - offset, channels=channels)


# --------------------------------------------------------------------------------------------------------------- FLAC


def _flac(data: bytes, start: int) -> Layout:
    """Returns the layout of a FLAC file: what its STREAMINFO declares. The decoder finds damaged frames."""
    kind, size = data[start + 4] & 0x7F, int.from_bytes(data[start + 5 : start + 8], "big")
    if (kind, size) != (0, 34):
        raise InputError(f"expected STREAMINFO at the beginning of a FLAC file, got block {kind}. {GET_AGAIN}")
    info = data[start + 8 : start + 42]
    fields = int.from_bytes(info[10:18], "big")  # 20 bits of rate, 3 of channels - 1, 5 of bits - 1, 36 of frames
    channels, bits, frames = (fields >> 41 & 7) + 1, (fields >> 36 & 31) + 1, fields & (1 << 36) - 1
    if bits not in (8, 16, 24):
        raise InputError(f"expected a FLAC of 8, 16 or 24 bits, got {bits} bits. {CONVERT}")
    if data.find(b"fLaC\0\0\0\x22", start + 4) >= 0 or data.find(b"fLaC\x80\0\0\x22", start + 4) >= 0:
        raise InputError("expected one sound, got another one after its end. Split the file")
    md5 = info[18:34]
    return Layout("FLAC", start, frames or None, channels=channels, md5=md5 if any(md5) else b"")


# ---------------------------------------------------------------------------------------------------------------- OGG

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))  # the bits of a byte in the other order
_LAST = 4  # flag of the last page


def ogg_checksum(page: bytes) -> int:
    """Returns the checksum of an Ogg page whose own checksum is 0.

    It is CRC-32 with the bits of all bytes in the order opposite to zlib's, and neither inverted before nor after.
    """
    crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


def _ogg(data: bytes, start: int) -> Layout:
    """Returns the layout of an OGG file of one stream of Vorbis or Opus."""
    position, number, stream, flags, first = start, 0, b"", 0, b""
    while position < len(data) and not _is_tag(data, position):
        name, flags = struct.unpack_from("<4sxB", data, position)
        count = data[position + 26]
        size = 27 + count + sum(data[position + 27 : position + 27 + count])
        page = data[position : position + size]
        if name != b"OggS":
            raise InputError(f"byte {position}: expected an Ogg page, got {name!r}. {GET_AGAIN}")
        _whole(position + size, len(data), "the last page declares")
        if int.from_bytes(page[22:26], "little") != ogg_checksum(page[:22] + bytes(4) + page[26:]):
            raise InputError(f"byte {position}: expected a whole Ogg page, got a wrong checksum. {GET_AGAIN}")
        if page[14:18] != (stream or page[14:18]):
            raise InputError("expected one stream, got several in an OGG file. Split the file")
        if int.from_bytes(page[18:22], "little") != number:
            raise InputError(f"byte {position}: expected page {number} of the OGG file, got another. {GET_AGAIN}")
        stream, first = page[14:18], first or page[27 + count :]
        position, number = position + size, number + 1
    if not flags & _LAST:
        raise InputError(f"expected the last page of the OGG file, got {number} others. {GET_AGAIN}")
    if not first.startswith((b"\x01vorbis", b"OpusHead")):
        got = "FLAC" if first.startswith(b"\x7fFLAC") else repr(first[:8])
        raise InputError(f"expected an OGG file of Vorbis or Opus, got {got}. {CONVERT}")
    return Layout("OGG", start)


# ---------------------------------------------------------------------------------------------------------------- MP3

_BIT_RATES = {  # (version 1, layer) -> kbit/s by index
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44100, 48000, 32000)
_MONO = 3
_VBRI = 36  # offset of a header by Fraunhofer


@dataclass(frozen=True)
class _Frame:
    """The header of a frame of MPEG audio.

    Attributes:
        size: in bytes, with the header.
        samples: of each channel.
        fixed: what is the same in all frames of a file: version, layer, rate, whether it is mono.
    """

    size: int
    samples: int
    fixed: tuple[int, int, int, bool]

    @property
    def xing(self) -> int:
        """The offset of a header by Xing, behind what layer 3 has before its samples."""
        version, _, _, is_mono = self.fixed
        return 4 + {(True, False): 32, (True, True): 17, (False, False): 17, (False, True): 9}[version == 3, is_mono]


def _mpeg_frame(data: bytes, position: int) -> _Frame | None:
    """Returns the header of a frame of MPEG audio of layer 2 or 3; None if there is none."""
    if len(data) - position < 4 or data[position] != 0xFF or data[position + 1] & 0xE0 != 0xE0:
        return None
    version, layer = data[position + 1] >> 3 & 3, 4 - (data[position + 1] >> 1 & 3)
    bit_rate, rate = data[position + 2] >> 4, data[position + 2] >> 2 & 3
    if version == 1 or layer not in (2, 3) or bit_rate in (0, 15) or rate == 3:
        return None
    is_first = version == 3  # 2 is version 2, 0 is version 2.5, of half and a quarter of the rates
    hertz = _RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]
    kbits, padding = _BIT_RATES[is_first, layer][bit_rate], data[position + 2] >> 1 & 1
    samples = 1152 if is_first or layer == 2 else 576
    size = samples // 8 * kbits * 1000 // hertz + padding
    return _Frame(size, samples, (version, layer, hertz, data[position + 3] >> 6 == _MONO))


@dataclass(frozen=True)
class _Declared:
    """What the first frame of an MP3 file declares instead of sound.

    Attributes:
        frames: number of them, without the first; 0 if unknown.
        num_bytes: size of all, with the first; 0 if unknown.
        trimmed: samples that the encoder has added at the ends; None if the header is not by Xing.
    """

    frames: int
    num_bytes: int
    trimmed: int | None


def _mp3(data: bytes, start: int) -> Layout:
    """Returns the layout of an MP3 file, whose frames follow each other up to the end or to tags."""
    position, count, first = start, 0, None
    while position < len(data):
        frame = _mpeg_frame(data, position)
        if frame is None or (first is not None and frame.fixed != first.fixed):
            if _is_tag(data, position):
                break
            raise InputError(f"byte {position}: expected a frame of MP3 like the first, got other bytes. {GET_AGAIN}")
        _whole(position + frame.size, len(data), "its last frame declares")
        first, position, count = first or frame, position + frame.size, count + 1
    assert first is not None  # the caller has seen it
    declared = _declared(data[start : start + first.size], first)
    if declared is None:
        return _without_length(data, start, position, first, count)
    # some encoders count the first frame, which has no sound
    counts_itself = declared.frames == count and declared.num_bytes <= position - start
    if declared.frames and declared.frames != count - 1 and not counts_itself:
        raise InputError(f"expected {declared.frames:,} frames, as its header declares, got {count - 1:,}. {GET_AGAIN}")
    if declared.trimmed is None or not declared.frames or counts_itself:
        return _without_length(data, start + first.size, position, first, count - 1)
    return Layout("MP3", start, (count - 1) * first.samples, declared.trimmed, stop=position)


def _without_length(data: bytes, start: int, stop: int, first: _Frame, count: int) -> Layout:
    """Returns the layout of an MP3 file whose frames, between two offsets, do not declare how many they are.

    libsndfile divides the size of the file by that of the first frame, which may be a large one, and stops there. So
    many silent frames follow that this is far enough.
    """
    header = bytes([0xFF, data[start + 1] | 1, *data[start + 2 : start + 4]]) if count else b""  # without a checksum
    missing = (count + 2) * (first.size + 1) - (stop - start)
    filler = header.ljust(first.size, b"\0") * max(0, -(-missing // first.size)) if count else b""
    return Layout("MP3", start, count * first.samples, filler=filler, stop=stop)


def _declared(first: bytes, frame: _Frame) -> _Declared | None:
    """Returns what the first frame declares; None if it is a sound."""
    if frame.fixed[1] != 3:
        return None
    if first[_VBRI : _VBRI + 4] == b"VBRI":
        return _Declared(int.from_bytes(first[50:54], "big"), int.from_bytes(first[46:50], "big"), None)
    if first[frame.xing : frame.xing + 4] not in (b"Xing", b"Info"):
        return None
    flags, position, found = first[frame.xing + 7], frame.xing + 8, []
    for flag, size in ((1, 4), (2, 4), (4, 100), (8, 4)):  # frames, bytes, table of contents, quality
        found.append(int.from_bytes(first[position : position + size], "big") if flags & flag else 0)
        position += size if flags & flag else 0
    ends = int.from_bytes(first[position + 21 : position + 24], "big")  # 12 bits each, behind the encoder's name
    return _Declared(found[0], found[1], (ends >> 12) + (ends & 0xFFF) + _MAX_DELAY)


_MAX_DELAY = 529 * 2  # samples that a decoder of layer 3 adds to those of the encoder, at each end


_ID3 = re.compile(rb"ID3[\2-\4][^\xff][^\xff][\0-\x7f]{4}", re.DOTALL)  # `ID3 ` is a chunk


def _end_of_id3(data: bytes, start: int = 0) -> int:
    """Returns the offset behind the ID3v2 tags, and the zeros after them, that begin at an offset."""
    position = start
    while _ID3.match(data, position):
        flags, size = data[position + 5], 0
        for byte in data[position + 6 : position + 10]:
            size = size << 7 | byte & 0x7F
        position += 10 + size + (10 if flags & 0x10 else 0)
        _whole(position, len(data), "its ID3 tag declares")
    while position > start and position < len(data) and data[position] == 0:
        position += 1
    return position


_FOLLOW = {"wav": _wav, "w64": _w64, "flac": _flac, "ogg": _ogg, "aiff": _aiff, "mp3": _mp3}
