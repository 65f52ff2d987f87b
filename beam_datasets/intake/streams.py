"""Byte streams of files, decompressed and read to their end.

A file whose name ends in .gz, .bz2, .xz, .lzma, .zst or .deflate is decompressed. A compressed file is a series of
streams (members, frames), each with its own end and checksum, optionally followed by zeros, which `tar` and tapes
append. A truncated stream is an error, and so are bytes after the last stream that do not begin another one: libraries
silently treat both as the end of the file.

Python opens local files. Beam's file systems open URLs; Beam is imported only for them.
Sources: RFC 1950 (zlib), RFC 1952 (gzip), RFC 8878 (zstd), the formats of bzip2 and xz.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from beam_datasets import limits
from beam_datasets.errors import InputError
from beam_datasets.extras import importing_beam, needs
from beam_datasets.intake.contents import HEAD_BYTES, iconv_name, other_content, wide_encoding
from beam_datasets.intake.errors import foreign_errors, reason
from beam_datasets.intake.signatures import BZIP2_PREFIX, GZIP_PREFIX, XZ_PREFIX, ZSTD_PREFIX

BUFFER_SIZE = 1 << 20
MAX_BLOCK = 1 << 20  # bytes that one call of a decompressor returns, where its library has a limit
_READ_SIZE = 1 << 18
_ZSTD_READ_SIZE = 1 << 12  # its library has no limit; a block of 4 bytes may mean 128 KiB
MAX_MAGIC = 6  # bytes of the longest `Codec.magic`
_ADVICE = "The file is damaged or cut off; get it again"
_WITHOUT_MAGIC = {".br": "Brotli", ".snappy": "Snappy", ".sz": "Snappy"}
"""Suffix -> compression format whose content does not tell."""
_WIDE = ("utf-16", "utf-32")  # names of encodings begin so
_TEXT_CONTROLS = "\t\n\f\r\x1a"  # 0x1A: the end of files of DOS
_LIMITED_BY_PROBLEM = {"requires too much memory": "window", "Memory usage limit exceeded": "dictionary"}
"""Text of an error of zstandard or lzma -> part of its memory that exceeds `limits.MAX_DECOMPRESSOR`."""
_MAX_ZSTD_WINDOW = 1 << 31  # of the format


@dataclass(frozen=True)
class Codec:
    """A compression format.

    Attributes:
        name: name of the format, for errors.
        suffixes: suffixes of the file names.
        magic: bytes that every stream begins with; b'' if the format has none.
        read_size: number of compressed bytes to decompress at once.
        blocks: function (decompressor, data) -> decompressed blocks of the data, each of bounded size.
        decompressor: creates the decompressor of one stream, which has the attributes `eof` and `unused_data`.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    read_size: int
    blocks: Callable[[Any, bytes], Iterator[bytes]]
    decompressor: Callable[[], Any]


def _zlib_blocks(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """Yields the blocks of zlib and gzip, whose decompressors return the input that they have not read yet."""
    while True:
        block = decompressor.decompress(data, MAX_BLOCK)
        data = decompressor.unconsumed_tail
        yield block
        if decompressor.eof or (not data and len(block) < MAX_BLOCK):
            return


def _bz2_or_lzma_blocks(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """Yields the blocks of bz2 and lzma, whose decompressors keep the input that they have not read yet."""
    while True:
        yield decompressor.decompress(data, MAX_BLOCK)
        data = b""
        if decompressor.eof or decompressor.needs_input:
            return


def _zstd_blocks(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """Yields the decompressed content of a chunk of a file."""
    yield decompressor.decompress(data)


def _zstd_decompressor() -> Any:
    """Returns a new decompressor of zstandard.

    Raises:
        MissingDependencyError: zstandard is not installed.
    """
    with needs("files compressed by zstd need zstandard", "files"):
        import zstandard
    max_window = min(limits.limit_of(limits.MAX_DECOMPRESSOR), _MAX_ZSTD_WINDOW)
    return zstandard.ZstdDecompressor(max_window_size=max_window).decompressobj()


def _lzma_decompressor() -> Any:
    """Returns a new decompressor of xz and lzma."""
    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, limits.limit_of(limits.MAX_DECOMPRESSOR))


GZIP = Codec("gzip", (".gz",), GZIP_PREFIX, _READ_SIZE, _zlib_blocks, partial(zlib.decompressobj, 16 + zlib.MAX_WBITS))
ZLIB = Codec("zlib", (".deflate", ".zlib"), b"", _READ_SIZE, _zlib_blocks, zlib.decompressobj)
BZIP2 = Codec("bzip2", (".bz2",), BZIP2_PREFIX, _READ_SIZE, _bz2_or_lzma_blocks, bz2.BZ2Decompressor)
XZ = Codec("xz", (".xz",), XZ_PREFIX, _READ_SIZE, _bz2_or_lzma_blocks, _lzma_decompressor)
LZMA = Codec("lzma", (".lzma",), b"", _READ_SIZE, _bz2_or_lzma_blocks, _lzma_decompressor)
ZSTD = Codec("zstd", (".zst", ".zstd"), ZSTD_PREFIX, _ZSTD_READ_SIZE, _zstd_blocks, _zstd_decompressor)
CODECS = (GZIP, BZIP2, XZ, LZMA, ZSTD, ZLIB)
COMPRESSED = tuple(suffix for codec in CODECS for suffix in codec.suffixes)


def codec_of(path: str) -> Codec | None:
    """Returns the codec of a file by the suffix of its name; None if the name has no suffix of a codec.

    >>> codec_of("a.csv.GZ").name, codec_of("a.csv")
    ('gzip', None)
    """
    name = path.lower()
    return next((codec for codec in CODECS if name.endswith(codec.suffixes)), None)


def codec_of_content(head: bytes) -> Codec | None:
    """Returns the codec of content that begins with `head`; None if it is not recognized, as that of `.lzma` files.

    >>> codec_of_content(b"BZh91AY").name, codec_of_content(b"id,name")
    ('bzip2', None)
    """
    codec_by_magic = _codec_by_magic(head)
    # zlib: method 8 with a window of at most 32 KiB, and a checksum of the first two bytes
    is_zlib = len(head) >= 2 and head[0] & 0x8F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return codec_by_magic or (ZLIB if is_zlib else None)


def _codec_by_magic(head: bytes) -> Codec | None:
    """Returns the codec whose magic bytes begin `head`, if any."""
    return next((codec for codec in CODECS if codec.magic and head.startswith(codec.magic)), None)


def is_plain(path: str) -> bool:
    """Returns whether a file is on this machine and not compressed."""
    return "://" not in path and codec_of(path) is None


def file_systems() -> Any:
    """Returns the class `apache_beam.io.filesystems.FileSystems`, whose static methods open and match paths.

    Raises:
        MissingDependencyError: Beam is not installed.
    """
    with needs("files in a store and patterns of folders need Apache Beam", "beam"), importing_beam():
        from apache_beam.io.filesystems import FileSystems

    return FileSystems


def open_bytes(path: str) -> io.BufferedReader:
    """Returns the decompressed bytes of a file or URL as a stream; reads raise InputError if the content is damaged.

    Raises:
        InputError: the file cannot be opened.
    """
    codec = codec_of(path)
    raw = _open_stored(path)
    return raw if codec is None else decompressed(raw, codec, path)


def read_relative(name: str, referring_path: str) -> tuple[str, bytes]:
    """Returns the path and the content of a file that another file names.

    Args:
        name: absolute path, or path relative to the folder of `referring_path`.
        referring_path: path or URL of the file that names it.

    Raises:
        InputError: the file cannot be opened or read; the message begins with its path.
    """
    if "://" in referring_path:
        systems = file_systems()
        path = systems.join(systems.split(referring_path)[0], name)
    else:
        path = os.path.join(os.path.dirname(referring_path), name)
    with foreign_errors(path), open_bytes(path) as stream:
        return path, stream.read()


def open_text_bytes(path: str, encoding: str | None = None) -> io.BufferedReader:
    """Returns `open_bytes(path)` after checking that the stream may be text: neither compressed (again), nor binary.

    Args:
        path: path or URL of the file.
        encoding: normalized name of its encoding, if the user may choose any; None if the file is cut at line ends.

    Raises:
        InputError: the file cannot be opened, is of another format, or is compressed and its name has no suffix of a
            codec.
    """
    stream = open_bytes(path)
    try:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        check_may_be_text(head, path)
        _check_width(head, path, encoding)
        _check_suffix(head, path, encoding or "utf-8")
    except BaseException:
        stream.close()
        raise
    return stream


def check_may_be_text(head: bytes, path: str) -> None:
    """Checks that content is neither compressed nor of another format, by its first HEAD_BYTES.

    Raises:
        InputError: it is one of them.
    """
    codec = _codec_by_magic(head)
    if codec is not None and not (codec is BZIP2 and head[4:10] != b"1AY&SY"):
        if codec_of(path):
            got = f"content that is still compressed, by {codec.name}, after the file is decompressed"
            raise InputError(expected="text", got=got, advice="Decompress it once.", path=path)
        expected = (
            f"expected a name that ends in {codec.suffixes[0]}, because the content is compressed by {codec.name}"
        )
        raise InputError(f"{expected}. Rename the file, or decompress it.", path=path)
    if other := other_content(head):
        raise InputError(expected="text", got=f"{other}.", path=path)


def _check_suffix(head: bytes, path: str, encoding: str) -> None:
    """Checks that content is not of a compression format that only the suffix of the name tells.

    Such content has control characters. Bytes that are not of the encoding are no sign: they may be damaged text.

    Args:
        head: the first bytes of the file.
        path: path of the file.
        encoding: normalized name of the encoding of its text.

    Raises:
        InputError: it is of such a format.
    """
    compression = _WITHOUT_MAGIC.get(os.path.splitext(path)[1].lower())
    if compression is None:
        return
    if not encoding.startswith(_WIDE) and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"  # another one is an error where the text is decoded
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head)  # a character at the end may be cut
    if any(character < " " and character not in _TEXT_CONTROLS for character in text):
        raise InputError(expected="text", got=f"a file compressed by {compression}", advice="Decompress it.", path=path)


def _check_width(head: bytes, path: str, encoding: str | None) -> None:
    """Checks that text is not UTF-16 or UTF-32, whose bytes are valid UTF-8 with NULs.

    Args:
        head: the first bytes of the file.
        path: path of the file.
        encoding: see `open_text_bytes`.

    Raises:
        InputError: the text is UTF-16 or UTF-32, and `encoding` is neither.
    """
    wide = wide_encoding(head)
    if not wide or (encoding or "").startswith(_WIDE):
        return
    convert = f"Convert the file: iconv -f {iconv_name(wide)} -t utf-8"
    advice = convert if encoding is None else f"Name it: --encoding {wide}"
    got = f"a file of another encoding: it looks like {wide.upper()}"
    raise InputError(expected="text", got=got, advice=f"{advice}.", path=path)


def _open_stored(path: str) -> io.BufferedReader:
    """Returns the bytes of a file or URL as they are stored, without decompression."""
    try:
        if "://" not in path:
            return io.BufferedReader(open(path, "rb", buffering=0), BUFFER_SIZE)
        from apache_beam.io.filesystem import CompressionTypes

        stream = file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    return io.BufferedReader(_RemoteStream(stream, path), BUFFER_SIZE)


class _RemoteStream(io.RawIOBase):
    """A stream of Beam's file systems as a raw stream of Python; its read errors name the file."""

    def __init__(self, stream: Any, path: str) -> None:
        super().__init__()
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def seekable(self) -> bool:
        """Returns whether the stream is seekable; see `io.IOBase.seekable`."""
        return bool(self._stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves to a position and returns it; see `io.IOBase.seek`."""
        self._stream.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        """Returns the position in bytes; see `io.IOBase.tell`."""
        return int(self._stream.tell())

    def readinto(self, buffer: Any, /) -> int:
        """Reads bytes into a buffer and returns their number; see `io.RawIOBase.readinto`.

        Raises:
            InputError: the file cannot be read.
        """
        try:
            data = self._stream.read(len(buffer))
        except Exception as error:
            raise InputError(f"{self._path} cannot be read: {reason(error)}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the stream of Beam, and this object."""
        self._stream.close()
        super().close()


def decompressed(raw: BinaryIO, codec: Codec, path: str) -> io.BufferedReader:
    """Returns the content of a compressed file as a stream, which cannot seek.

    Args:
        raw: compressed bytes, from the start of the file; closed with the returned stream.
        codec: compression of the file.
        path: path of the file, for errors.

    Reads raise InputError if a stream is damaged or truncated, or if bytes other than zeros follow the last one.
    """
    return io.BufferedReader(_Decompressed(raw, codec, path), BUFFER_SIZE)


class _Decompressed(io.RawIOBase):
    """The decompressed content of a file as a raw stream.

    Args:
        raw: the compressed file, at its beginning.
        codec: its compression format.
        path: path of the file, for errors.
    """

    def __init__(self, raw: BinaryIO, codec: Codec, path: str) -> None:
        super().__init__()
        self._raw = raw
        self._blocks = _blocks(raw, codec, path)
        self._remaining = memoryview(b"")
        self._error_text = (
            ""  # raised again by later reads: after an error the generator of blocks would seem to be at its end
        )

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Reads decompressed bytes into a buffer and returns their number; see `io.RawIOBase.readinto`.

        Raises:
            InputError: the file cannot be read or is damaged; raised again by later calls.
        """
        while not self._remaining:
            if self._error_text:
                raise InputError(self._error_text)
            try:
                block = next(self._blocks, None)
            except InputError as error:
                self._error_text = str(error)
                raise
            if block is None:
                return 0
            self._remaining = memoryview(block)
        size = min(len(buffer), len(self._remaining))
        buffer[:size] = self._remaining[:size]
        self._remaining = self._remaining[size:]
        return size

    def close(self) -> None:
        """Closes the compressed stream and this one."""
        self._raw.close()
        super().close()


def check_line(num_bytes: int, *, path: str | None = None, offset: int | None = None) -> None:
    """Checks that a line, or the part of it that was read, is not too long.

    Args:
        num_bytes: the number of bytes.
        path: the file, for the error; None if the caller adds it.
        offset: the byte at which the line begins, for the error.

    Raises:
        InputError: the line is longer than `limits.MAX_LINE`, or than a higher limit of the environment variable.
    """
    if num_bytes > limits.MAX_LINE and num_bytes > (limit := limits.limit_of(limits.MAX_LINE)):
        advice = f"Cut the file into lines. {limits.advice_to_raise(4 * limit)}."
        expected = f"lines of at most {limit:,} bytes"
        raise InputError(expected=expected, got="a longer one", path=path, offset=offset, advice=advice)


class LineLimited(io.RawIOBase):
    """A raw stream of the bytes of another one, whose reads raise InputError if a line is too long.

    Without this limit, a reader of lines would hold a file without line ends in memory as one line.

    Args:
        stream: the other stream.
        path: path of the file, for errors.

    Attributes:
        is_utf8: whether the bytes that were read are UTF-8. The last character may be cut before the end is read.
    """

    def __init__(self, stream: io.BufferedReader, path: str) -> None:
        super().__init__()
        self._stream, self._path = stream, path
        self._position = self._line_start = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_ascii = self.is_utf8 = True

    def buffered(self) -> io.BufferedReader:
        """Returns this stream with a buffer."""
        return io.BufferedReader(self, BUFFER_SIZE)

    def _check_utf8(self, data: bytes) -> None:
        """Sets `is_utf8` to False if the next bytes are not UTF-8."""
        self._is_ascii = self._is_ascii and data.isascii()  # much faster than to decode
        if not self._is_ascii and self.is_utf8:
            try:
                self._decoder.decode(data, final=not data)  # no bytes: the file has ended
            except UnicodeDecodeError:
                self.is_utf8 = False

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Reads bytes into a buffer and returns their number; see `io.RawIOBase.readinto`.

        Raises:
            InputError: a line is longer than the limit.
        """
        data = self._stream.read1(
            len(buffer)
        )  # not `read`, which would raise before it returns the bytes that precede damage
        self._check_utf8(data)
        last_line_end = data.rfind(b"\n")
        self._line_start = self._position + last_line_end + 1 if last_line_end >= 0 else self._line_start
        self._position += len(data)
        check_line(self._position - self._line_start, path=self._path, offset=self._line_start)
        buffer[: len(data)] = data
        return len(data)


def _blocks(raw: BinaryIO, codec: Codec, path: str) -> Iterator[bytes]:
    """Yields the decompressed content of all streams of a compressed file, in blocks.

    Args:
        raw: the compressed file, at its beginning.
        codec: its compression format.
        path: path of the file, for errors.

    Raises:
        InputError: a stream is damaged or truncated, or bytes follow it that are neither a stream nor zeros.
    """
    data, position = raw.read(codec.read_size), 0  # position: offset of `data` in the file
    while data or not position:
        _check_magic(codec, data, path, position)
        decompressor = codec.decompressor()
        while not decompressor.eof:
            if not data:
                raise InputError(
                    expected=f"the end of the {codec.name} stream",
                    got="the end of the file",
                    advice="The file is cut off; get it again.",
                    path=path,
                    offset=position,
                )
            try:
                yield from codec.blocks(decompressor, data)
            except Exception as error:  # each library has its own classes
                problem = reason(error)
                raise InputError(
                    expected=f"{codec.name} data",
                    got=f"an error: {problem}",
                    advice=f"{_advice_on(problem)}.",
                    path=path,
                    offset=position,
                ) from error
            unused = decompressor.unused_data if decompressor.eof else b""
            position += len(data) - len(unused)
            data = unused or raw.read(codec.read_size)
        while data and not data.strip(b"\x00"):  # zeros after a stream
            position += len(data)
            data = raw.read(codec.read_size)
        stripped = data.lstrip(b"\x00")
        position += len(data) - len(stripped)
        data = stripped if len(stripped) >= MAX_MAGIC else stripped + raw.read(codec.read_size)


def _advice_on(problem: str) -> str:
    """Returns what to do about an error of a decompressor."""
    if "Dictionary mismatch" in problem:
        return "Decompress it with the dictionary that it was compressed with"
    limited = next((part for text, part in _LIMITED_BY_PROBLEM.items() if text in problem), None)
    if limited is None:
        return _ADVICE
    raised = limits.advice_to_raise(4 * limits.limit_of(limits.MAX_DECOMPRESSOR))
    return f"Decompress it, or compress it again with a smaller {limited}. {raised}"


def _check_magic(codec: Codec, data: bytes, path: str, position: int) -> None:
    """Checks that data begin with the magic bytes of the codec, or with a part of them if the data are shorter.

    Args:
        codec: the compression format.
        data: the compressed bytes from `position` on.
        path: path of the file, for errors.
        position: byte offset of `data` in the file; 0 for the first stream.

    Raises:
        InputError: they begin with other bytes.
    """
    if codec.magic.startswith(data[: len(codec.magic)]) or _is_skippable_frame(codec, data):
        return
    expected = f"{'the end of the file or another' if position else 'a'} {codec.name} stream"
    advice = _ADVICE if position else "If the file is not compressed, rename it; else it is damaged, so get it again"
    raise InputError(expected=expected, got=repr(data[:8]), advice=f"{advice}.", path=path, offset=position)


def _is_skippable_frame(codec: Codec, data: bytes) -> bool:
    """Returns whether data begin with a skippable frame of zstd, which holds no content; pzstd writes them."""
    return codec is ZSTD and data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50
