"""Structural checks of sound files before a library decodes them: completeness and declared length.

libsndfile reports no error for a truncated file, skips damaged pages of OGG and damaged frames of MP3, and stops at the
end of the first file if two are concatenated. Therefore this module follows headers, chunks, pages and frames from the
first byte of a file to the last.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from beam_datasets.errors import InputError
from beam_datasets.intake.contents import HEAD_BYTES, other_content
from beam_datasets.intake.signatures import SOUND, signature_of

_PRINTABLE = re.compile(rb"[\t\n\r\x20-\x7e]*")
KINDS = ("WAV", "FLAC", "OGG", "MP3", "AIFF")
CONVERT = (
    "Convert it first, such as by `ffmpeg -i FILE new.flac`, or if its samples are floats, which FLAC rounds, by "
    "`ffmpeg -i FILE -c:a pcm_f32le new.wav`"
)
_CONVERT_RAW = (
    "If it has samples alone, without a header (.pcm, .raw), give their type, rate and number of channels: "
    "`ffmpeg -f s16le -ar 16000 -ac 1 -i FILE new.wav` for int16, 16 kHz and 1 channel"
)
_REWRITE = "Rewrite it, for example with `ffmpeg -i FILE -c copy new.wav`"
GET_AGAIN = "Get the whole file again"


@dataclass(frozen=True)
class Layout:
    """The structure of a sound file, by its headers. Offsets and sizes are in bytes.

    Attributes:
        kind: file format, one of KINDS.
        start: offset of the first byte of the sound, behind tags.
        frames: number of samples of each channel; None if the file does not declare it.
        trimmed: number of these frames that a decoder may drop at the ends, because the encoder has added them.
        filler: bytes to append to the content for the decoder; their samples are dropped.
        stop: offset behind the last byte of the sound, before tags; None for the end of the file.
        num_bytes: size of uncompressed samples; None if they are compressed.
        channels: number of channels; 0 if only the decoder knows it.
        sample_rate: samples per second of each channel; 0 if only the decoder knows it.
        plain: dtype of the samples of a WAV file that NumPy can read as an array; '' if they must be decoded.
        body: offset of the samples of a WAV file.
        md5: MD5 that a FLAC file declares for its samples; b'' if it declares none.
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
    """Returns the usual suffix, without a dot, of a sound file that begins with `head`; '' for other files.

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
    """Returns the structure of a sound file, after following it to the end of the file.

    Raises:
        InputError: the file is truncated, damaged, longer than it declares, or of a format that is not in KINDS.
    """
    start = _end_of_id3(data)
    read_layout = _LAYOUT_READERS.get(ending_of_sound(data[start : start + 12]))
    if read_layout is None:
        raise InputError(_unknown_sound_problem(data, data[start : start + 12]))
    try:
        return read_layout(data, start)
    except (struct.error, IndexError):
        raise InputError(expected="a whole header", got=f"a file of {len(data):,} bytes", advice=GET_AGAIN) from None


def _unknown_sound_problem(data: bytes, head: bytes) -> str:
    """Returns the error text for a file that is not a sound of a format in KINDS.

    Args:
        data: content of the file.
        head: the first 12 bytes of `data` after an ID3 tag, if it has one.
    """
    if not data:
        return "expected a sound, got an empty file. Leave it out"
    signature = signature_of(head)
    description = signature.name if signature and signature.kind == SOUND else ""
    description = description or ("an MPEG-4 file (such as AAC)" if head[4:8] == b"ftyp" else "")
    other = "" if description else other_content(data[:HEAD_BYTES], SOUND)
    if other:
        return f"expected a sound, got {other}"
    expected = f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]}"
    if description:
        return f"{expected}, got {description}. {CONVERT}"
    if _PRINTABLE.fullmatch(data[:HEAD_BYTES]):
        return f"{expected}, got a text that begins with {head!r}. Leave it out"
    return f"{expected}, got a file that begins with {head!r}. {CONVERT}. {_CONVERT_RAW}"


# ------------------------------------------------------------------------------------------------------- WAV and AIFF


@dataclass(frozen=True)
class _Chunk:
    """A chunk of a RIFF or IFF file: its name, the offset of its content, and its size in bytes."""

    name: bytes
    start: int
    size: int


_WAV_TAGS = {1: "PCM", 3: "floats", 6: "A-law", 7: "u-law"}
_WAV_PLAIN = {(1, 2): "<i2", (1, 4): "<i4", (3, 4): "<f4", (3, 8): "<f8"}  # (tag, bytes per sample) -> dtype
# Tag -> possible bits per sample.
_WAV_BITS = {1: range(1, 33), 3: (32, 64), 6: (8,), 7: (8,)}
_WAV_CODECS = {2: "MS ADPCM", 0x11: "IMA ADPCM", 0x31: "GSM 6.10", 0x50: "MPEG", 0x55: "MP3", 0x161: "WMA", 0xFF: "AAC"}
_EXTENSIBLE = 0xFFFE  # the tag is in the extension of the chunk `fmt `, as the first part of a GUID
_GUIDS = {  # the rest of it: of plain samples, and of ambisonic B-format
    (0x0000, 0x0010, bytes.fromhex("800000aa00389b71")),
    (0x0721, 0x11D3, bytes.fromhex("8644c8c1ca000000")),
}


def _wav(data: bytes, start: int) -> Layout:
    """Returns the layout of a WAV or RF64 file.

    Args:
        data: content of the file.
        start: offset of the first byte after ID3 tags.
    """
    order = ">" if data[start : start + 4] == b"RIFX" else "<"
    [riff] = struct.unpack_from(f"{order}I", data, start + 4)
    sizes: dict[bytes, int] = {}
    if data[start : start + 4] == b"RF64":
        name, _, riff, sizes[b"data"] = struct.unpack_from("<4sIQQ", data, start + 12)
        if name != b"ds64":
            raise InputError(expected="chunk 'ds64' of an RF64 file", got=repr(name), advice=GET_AGAIN)
    chunks = list(_chunks(data, start + 12, order, sizes))
    if riff not in (0, 0xFFFFFFFF) and riff > len(data) - start:  # off by 8 is a common mistake, and no byte is lost
        _check_complete(start + 8 + riff, len(data))
    body, header = _only_chunk(chunks, b"data"), _only_chunk(chunks, b"fmt ")
    if header.start > body.start:
        raise InputError(f"expected the chunk 'fmt ' before 'data'. {CONVERT}")
    return _wav_layout(data[header.start : header.start + header.size], order, body, start)


def _check_complete(end: int, size: int, origin: str = "the header declares") -> None:
    """Raises InputError if a file of `size` bytes ends before the declared offset."""
    if end > size:
        raise InputError(
            expected=f"{end:,} bytes, as {origin}",
            got=f"{size:,}: the end of the file is missing",
            advice=GET_AGAIN,
        )


def _no_size(name: str) -> str:
    """Returns the problem of a chunk that was written without its size."""
    return (
        f"chunk {name!r}: expected its size, got none: the program that wrote the file could not go back to the "
        f"header. {_REWRITE}"
    )


_SAMPLES_CHUNKS = {b"data": 0, b"SSND": 8}  # name of a chunk of samples -> its size if it has none


def _chunks(data: bytes, position: int, order: str, sizes: dict[bytes, int]) -> Iterator[_Chunk]:
    """Yields the chunks of a RIFF or IFF file up to its end, or up to tags or zeros at its end.

    A missing byte of padding after a chunk of an odd size is accepted, because many programs do not write it.

    Args:
        data: content of the file.
        position: offset of the first chunk.
        order: byte order of the sizes, `<` or `>`.
        sizes: name -> size of the chunks whose size a 32-bit field cannot hold, from an RF64 header.

    Raises:
        InputError: a chunk is invalid, truncated or has no size, or another file follows.
    """
    empty_chunk = ""  # the name of the chunk before, if it is that of the samples and has none
    while position < len(data):
        if empty_chunk and not _is_chunk_or_tag(data, position, order):
            raise InputError(_no_size(empty_chunk))
        if len(data) - position < 8:  # zeros too: they may be samples that a stray byte has shifted
            raise InputError(f"byte {position}: expected a chunk, got {data[position:]!r}. {GET_AGAIN}")
        if _is_trailer(data, position):
            return
        name, size = struct.unpack_from(f"{order}4sI", data, position)
        if name in (b"RIFF", b"RF64", b"RIFX", b"FORM"):
            raise InputError(expected="one sound", got="another one after its end", advice="Split the file")
        if not _is_chunk_name(name):
            raise InputError(
                f"byte {position}: expected the name of a chunk, got {name!r}: a size is wrong, or bytes were lost or "
                f"added. {GET_AGAIN}"
            )
        if size == 0xFFFFFFFF and name not in sizes:
            raise InputError(_no_size(name.decode()))
        size = sizes.get(name, size)
        _check_complete(position + 8 + size, len(data), f"chunk {name.decode()!r} declares")
        yield _Chunk(name, position + 8, size)
        empty_chunk = name.decode() if size <= _SAMPLES_CHUNKS.get(name, -1) else ""
        position += 8 + size
        if size % 2 and (data[position : position + 1] == b"\0" or position + 1 == len(data)):
            position += 1


def _is_chunk_name(name: bytes) -> bool:
    """Returns whether four bytes may be the name of a chunk: printable ASCII."""
    return all(32 <= byte < 127 for byte in name)


def _is_chunk_or_tag(data: bytes, position: int, order: str) -> bool:
    """Returns whether a whole chunk, or tags of players, follow a chunk without samples; else these are its samples.

    Zeros are samples, too: those of silence.

    Args:
        data: content of the file.
        position: offset behind the chunk.
        order: byte order of the sizes, `<` or `>`.
    """
    if len(data) - position < 8:
        return False
    name, size = struct.unpack_from(f"{order}4sI", data, position)
    if not _is_chunk_name(name):
        return bool(data[position:].strip(b"\0")) and _is_trailer(data, position)
    return size <= len(data) - position - 8 or _is_trailer(data, position)


def _is_trailer(data: bytes, position: int) -> bool:
    """Returns whether the bytes from `position` to the end of the file are only tags of players, followed by zeros."""
    while position < len(data):
        tag = data[position : position + 8]
        if tag[:3] == b"TAG" and len(data) - position >= 128:
            position += 128
        elif tag == b"APETAGEX":
            size, flags = struct.unpack_from("<I4xI", data, position + 12)
            is_header = flags & 1 << 29  # else it is a footer; `size` counts what follows the header
            position += 32 + (size if is_header else 0)
        elif tag[:3] == b"ID3" and (end := _end_of_id3(data, position)) > position:
            position = end
        elif tag == b"LYRICSBE" and (end := data.find(b"LYRICS200", position)) >= 0:
            position = end + 9
        else:
            return not data[position:].strip(b"\0")
    return position == len(data)


def _only_chunk(chunks: list[_Chunk], name: bytes) -> _Chunk:
    """Returns the only chunk of a name; raises InputError if there is none, or if there are several."""
    matches = [chunk for chunk in chunks if chunk.name == name]
    if len(matches) != 1:
        raise InputError(expected=f"one chunk {name.decode()!r}", got=str(len(matches)), advice=GET_AGAIN)
    return matches[0]


def _wav_layout(header: bytes, order: str, body: _Chunk, start: int) -> Layout:
    """Returns the layout of a WAV file.

    Args:
        header: content of the chunk `fmt `.
        order: byte order, `<` or `>`.
        body: the chunk of the samples.
        start: offset of the first byte of the file.

    Raises:
        InputError: the samples are of a type that is not read, or fields of the header contradict each other.
    """
    tag, channels, rate, _, align, bits = struct.unpack_from(f"{order}HHIIHH", header)
    valid_bits = bits
    if tag == _EXTENSIBLE:
        valid_bits, tag, *guid = struct.unpack_from(f"{order}H4xIHH8s", header, 18)
        if tuple(guid) not in _GUIDS:
            raise InputError(expected="a kind of samples that is known", got=repr(header[24:40]), advice=CONVERT)
    if tag not in _WAV_TAGS:
        description = _WAV_CODECS.get(tag, f"the format {tag:#06x}")
        raise InputError(expected=f"a WAV of {', '.join(_WAV_TAGS.values())}", got=description, advice=CONVERT)
    width = -(-bits // 8)
    if bits not in _WAV_BITS[tag]:
        description = f"{_WAV_TAGS[tag]} of {bits} bits"
        raise InputError(expected="a WAV of at most 32 bits, or floats of 32 or 64", got=description, advice=CONVERT)
    if not channels or not rate or align != channels * width or valid_bits > bits:
        raise InputError(
            expected="a header whose fields agree",
            got=f"{channels} channels of {bits} bits ({valid_bits} valid) in {align} bytes, {rate} Hz",
            advice=CONVERT,
        )
    if body.size % align:
        raise InputError(
            expected=f"whole frames of {align} bytes", got=f"{body.size:,} bytes of samples", advice=GET_AGAIN
        )
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
    """Returns the layout of a Sony Wave64 file, whose chunks have names of 16 bytes and sizes that count the header.

    Args:
        data: content of the file.
        start: offset of the first byte after ID3 tags.
    """
    [total] = struct.unpack_from("<Q", data, start + 16)
    _check_complete(start + total, len(data))
    position, chunks = start + 40, []
    while position < start + total:
        name, size = struct.unpack_from("<16sQ", data, position)
        if size < 24:
            raise InputError(f"byte {position}: expected a chunk of at least 24 bytes, got {size}. {GET_AGAIN}")
        _check_complete(position + size, start + total, f"chunk {name[:4]!r} declares")
        chunks.append(_Chunk(name[:4], position + 24, size - 24))
        position += -(-size // 8) * 8
    if data[start + total :].strip(b"\0"):
        raise InputError(expected=f"{total:,} bytes", got=f"{len(data) - start:,}", advice=GET_AGAIN)
    header, body = _only_chunk(chunks, b"fmt "), _only_chunk(chunks, b"data")
    return _wav_layout(data[header.start : header.start + header.size], "<", body, start)


def _aiff(data: bytes, start: int) -> Layout:
    """Returns the layout of an AIFF or AIFC file.

    Args:
        data: content of the file.
        start: offset of the first byte after ID3 tags.
    """
    [total] = struct.unpack_from(">I", data, start + 4)
    chunks = list(_chunks(data, start + 12, ">", {}))
    if total > len(data) - start:
        _check_complete(start + 8 + total, len(data))
    common, body = _only_chunk(chunks, b"COMM"), _only_chunk(chunks, b"SSND")
    channels, frames = struct.unpack_from(">HI", data, common.start)
    [offset] = struct.unpack_from(">I", data, body.start)
    if not channels or body.size < 8 + offset:
        raise InputError(
            expected="channels and samples", got=f"{channels} channels, {body.size} bytes", advice=GET_AGAIN
        )
    return Layout("AIFF", start, frames, num_bytes=body.size - 8 - offset, channels=channels)


# --------------------------------------------------------------------------------------------------------------- FLAC


def _flac(data: bytes, start: int) -> Layout:
    """Returns the layout of a FLAC file, from its STREAMINFO. Its frames are not followed: the decoder checks them.

    Args:
        data: content of the file.
        start: offset of the first byte after ID3 tags.
    """
    kind, size = data[start + 4] & 0x7F, int.from_bytes(data[start + 5 : start + 8], "big")
    if (kind, size) != (0, 34):
        raise InputError(expected="STREAMINFO at the beginning of a FLAC file", got=f"block {kind}", advice=GET_AGAIN)
    stream_info = data[start + 8 : start + 42]
    # 20 bits of sample rate, 3 of channels - 1, 5 of bits - 1, 36 of frames
    fields = int.from_bytes(stream_info[10:18], "big")
    channels, bits, frames = (fields >> 41 & 7) + 1, (fields >> 36 & 31) + 1, fields & (1 << 36) - 1
    if bits not in (8, 16, 24):
        raise InputError(expected="a FLAC of 8, 16 or 24 bits", got=f"{bits} bits", advice=CONVERT)
    if data.find(b"fLaC\0\0\0\x22", start + 4) >= 0 or data.find(b"fLaC\x80\0\0\x22", start + 4) >= 0:
        raise InputError(expected="one sound", got="another one after its end", advice="Split the file")
    md5 = stream_info[18:34]
    stop = _start_of_tags(data)
    return Layout("FLAC", start, frames or None, stop=stop, channels=channels, md5=md5 if any(md5) else b"")


def _start_of_tags(data: bytes) -> int:
    """Returns the offset of the tags of players at the end of a file: ID3v1, and APE before it; else its size."""
    stop = len(data)
    if data[-128:-125] == b"TAG" and stop > 128:
        stop -= 128
    if data[stop - 32 : stop - 24] == b"APETAGEX":
        size, flags = struct.unpack_from("<I4xI", data, stop - 20)
        size += 32 if flags & 1 << 31 else 0  # `size` does not count the header
        stop = max(stop - size, 0)
    return stop


# ---------------------------------------------------------------------------------------------------------------- OGG

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))  # byte -> the byte with its bits in reverse order
_LAST = 4  # flag of the last page of a stream


def ogg_checksum(page: bytes) -> int:
    """Returns the checksum of an Ogg page, in which the field of the checksum must be zero.

    It is a CRC-32 with the bit order opposite to zlib's, without an inversion before or after.
    """
    crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


def _ogg(data: bytes, start: int) -> Layout:
    """Returns the layout of an OGG file of one Vorbis or Opus stream, after checking all of its pages.

    Args:
        data: content of the file.
        start: offset of the first byte after ID3 tags.
    """
    position, page_number, stream, flags, first_packet = start, 0, b"", 0, b""  # stream: its serial number
    while position < len(data) and not _is_trailer(data, position):
        name, flags = struct.unpack_from("<4sxB", data, position)
        num_segments = data[position + 26]
        size = 27 + num_segments + sum(data[position + 27 : position + 27 + num_segments])
        page = data[position : position + size]
        if name != b"OggS":
            raise InputError(f"byte {position}: expected an Ogg page, got {name!r}. {GET_AGAIN}")
        _check_complete(position + size, len(data), "the last page declares")
        if int.from_bytes(page[22:26], "little") != ogg_checksum(page[:22] + bytes(4) + page[26:]):
            raise InputError(f"byte {position}: expected a whole Ogg page, got a wrong checksum. {GET_AGAIN}")
        if page[14:18] != (stream or page[14:18]):
            raise InputError(expected="one stream", got="several in an OGG file", advice="Split the file")
        if int.from_bytes(page[18:22], "little") != page_number:
            raise InputError(f"byte {position}: expected page {page_number} of the OGG file, got another. {GET_AGAIN}")
        stream, first_packet = page[14:18], first_packet or page[27 + num_segments :]
        position, page_number = position + size, page_number + 1
    if not flags & _LAST:
        raise InputError(expected="the last page of the OGG file", got=f"{page_number} others", advice=GET_AGAIN)
    if not first_packet.startswith((b"\x01vorbis", b"OpusHead")):
        description = "FLAC" if first_packet.startswith(b"\x7fFLAC") else repr(first_packet[:8])
        raise InputError(expected="an OGG file of Vorbis or Opus", got=description, advice=CONVERT)
    return Layout("OGG", start)


# ---------------------------------------------------------------------------------------------------------------- MP3

_BIT_RATES = {  # (whether it is version 1, layer) -> kbit/s by index
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44100, 48000, 32000)  # samples per second of version 1, by index
_MONO = 3
_VBRI = 36  # offset in a frame of the VBRI header, which Fraunhofer's encoder writes


@dataclass(frozen=True)
class _Frame:
    """The header of a frame of MPEG audio.

    Attributes:
        size: size of the frame in bytes, with the header.
        samples: number of samples of each channel.
        fixed: the fields that are equal in all frames of a file: (version, layer, sample rate, whether it is mono).
    """

    size: int
    samples: int
    fixed: tuple[int, int, int, bool]

    @property
    def xing(self) -> int:
        """The offset in the frame of a Xing header, which follows the side information of layer 3."""
        version, _, _, is_mono = self.fixed
        return 4 + {(True, False): 32, (True, True): 17, (False, False): 17, (False, True): 9}[version == 3, is_mono]


def _mpeg_frame(data: bytes, position: int) -> _Frame | None:
    """Returns the header of the frame of MPEG audio, layer 2 or 3, at `position`; None if no frame begins there."""
    if len(data) - position < 4 or data[position] != 0xFF or data[position + 1] & 0xE0 != 0xE0:
        return None
    version, layer = data[position + 1] >> 3 & 3, 4 - (data[position + 1] >> 1 & 3)
    bit_rate, rate = data[position + 2] >> 4, data[position + 2] >> 2 & 3
    if version == 1 or layer not in (2, 3) or bit_rate in (0, 15) or rate == 3:
        return None
    is_version_1 = version == 3  # 2 is version 2, 0 is version 2.5: with a half and a quarter of the sample rates
    hertz = _RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]
    kbits, padding = _BIT_RATES[is_version_1, layer][bit_rate], data[position + 2] >> 1 & 1
    samples = 1152 if is_version_1 or layer == 2 else 576
    size = samples // 8 * kbits * 1000 // hertz + padding
    return _Frame(size, samples, (version, layer, hertz, data[position + 3] >> 6 == _MONO))


@dataclass(frozen=True)
class _Mp3Header:
    """The header of an MP3 file (Xing, Info or VBRI), which its first frame contains instead of sound.

    Attributes:
        frames: declared number of frames, without the first; 0 if it declares none.
        num_bytes: declared size in bytes of all frames, with the first; 0 if it declares none.
        trimmed: number of samples that the encoder has added at the ends; None for VBRI, which does not declare it.
    """

    frames: int
    num_bytes: int
    trimmed: int | None


def _mp3(data: bytes, start: int) -> Layout:
    """Returns the layout of an MP3 file, after following its frames up to the end of the file or to tags.

    Args:
        data: content of the file.
        start: offset of the first byte after ID3 tags.
    """
    position, count, first = start, 0, None
    while position < len(data):
        frame = _mpeg_frame(data, position)
        if frame is None or (first is not None and frame.fixed != first.fixed):
            if _is_trailer(data, position):
                break
            raise InputError(f"byte {position}: expected a frame of MP3 like the first, got other bytes. {GET_AGAIN}")
        _check_complete(position + frame.size, len(data), "its last frame declares")
        first, position, count = first or frame, position + frame.size, count + 1
    assert first is not None  # `ending_of_sound` has found a frame at `start`
    header = _mp3_header(data[start : start + first.size], first)
    if header is None:
        return _without_length(data, start, position, first, count)
    # some encoders count the first frame, too
    counts_itself = header.frames == count and header.num_bytes <= position - start
    if header.frames and header.frames != count - 1 and not counts_itself:
        raise InputError(
            expected=f"{header.frames:,} frames, as its header declares", got=f"{count - 1:,}", advice=GET_AGAIN
        )
    if header.trimmed is None or not header.frames or counts_itself:
        return _without_length(data, start + first.size, position, first, count - 1)
    return Layout("MP3", start, (count - 1) * first.samples, header.trimmed, stop=position)


def _without_length(data: bytes, start: int, stop: int, first: _Frame, count: int) -> Layout:
    """Returns the layout of an MP3 file that does not declare its number of frames.

    libsndfile estimates the number of frames as the size of the file divided by the size of the first frame, and
    decodes no more frames. If the first frame is larger than others, the estimate is too low. So the layout's `filler`
    has as many silent frames of the size of `first` as make the content (`count` + 2) * (`first.size` + 1) bytes long:
    two frames, and one byte for each frame, more than the estimate needs. It is b'' if the content is that long.

    Args:
        data: content of the file.
        start: byte offset of the first frame with sound.
        stop: byte offset behind the last frame.
        first: the header of the file's first frame, with or without sound.
        count: number of frames with sound.
    """
    # the bit that is set means that no checksum follows
    frame_header = bytes([0xFF, data[start + 1] | 1, *data[start + 2 : start + 4]]) if count else b""
    missing_bytes = (count + 2) * (first.size + 1) - (stop - start)
    filler = frame_header.ljust(first.size, b"\0") * max(0, -(-missing_bytes // first.size)) if count else b""
    return Layout("MP3", start, count * first.samples, filler=filler, stop=stop)


def _mp3_header(first: bytes, frame: _Frame) -> _Mp3Header | None:
    """Returns the header in the content of the first frame; None if that frame contains sound."""
    if frame.fixed[1] != 3:
        return None
    if first[_VBRI : _VBRI + 4] == b"VBRI":
        return _Mp3Header(int.from_bytes(first[50:54], "big"), int.from_bytes(first[46:50], "big"), None)
    if first[frame.xing : frame.xing + 4] not in (b"Xing", b"Info"):
        return None
    flags, position, fields = first[frame.xing + 7], frame.xing + 8, []
    for flag, size in ((1, 4), (2, 4), (4, 100), (8, 4)):  # frames, bytes, table of contents, quality
        fields.append(int.from_bytes(first[position : position + size], "big") if flags & flag else 0)
        position += size if flags & flag else 0
    # samples added at the start and at the end, 12 bits each, behind the encoder's name
    encoder_padding = int.from_bytes(first[position + 21 : position + 24], "big")
    return _Mp3Header(fields[0], fields[1], (encoder_padding >> 12) + (encoder_padding & 0xFFF) + _MAX_DELAY)


_MAX_DELAY = 529 * 2  # samples that a decoder of layer 3 adds at both ends


_ID3 = re.compile(rb"ID3[\2-\4][^\xff][^\xff][\0-\x7f]{4}", re.DOTALL)  # not `ID3 `, the name of a chunk


def _end_of_id3(data: bytes, start: int = 0) -> int:
    """Returns the offset behind the ID3v2 tags that begin at `start` and the zeros after them; `start` if none do."""
    position = start
    while _ID3.match(data, position):
        flags, size = data[position + 5], 0
        for byte in data[position + 6 : position + 10]:
            size = size << 7 | byte & 0x7F
        position += 10 + size + (10 if flags & 0x10 else 0)
        _check_complete(position, len(data), "its ID3 tag declares")
    while position > start and position < len(data) and data[position] == 0:
        position += 1
    return position


_LAYOUT_READERS = {"wav": _wav, "w64": _w64, "flac": _flac, "ogg": _ogg, "aiff": _aiff, "mp3": _mp3}
