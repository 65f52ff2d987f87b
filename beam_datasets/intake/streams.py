"""Byte streams of files, decompressed and read to their end.

A name that ends in .gz, .bz2, .xz, .lzma, .zst or .deflate is decompressed. A compressed file is a series of streams
(members, frames), each with its own end and checksum, then maybe zeros, which `tar` and tapes append. A stream that is
cut off, and bytes after the last one that begin no other stream, are errors: libraries take both for the end of the
file in silence.

Local files are opened by Python, and URLs by Beam's file systems, which is imported for them alone.
Sources: RFC 1950 (zlib), RFC 1952 (gzip), RFC 8878 (zstd), the formats of bzip2 and xz.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from beam_datasets.errors import InputError
from beam_datasets.extras import needs
from beam_datasets.intake.errors import reason

BUFFER_SIZE = 1 << 20
MAX_LINE = 1 << 27  # bytes
MAX_BLOCK = 1 << 20  # bytes that one call of a decompressor returns, where its library has a limit
_READ_SIZE = 1 << 18
_ZSTD_READ_SIZE = 1 << 12  # its library has no limit; a block of 4 bytes may mean 128 KiB
_MAX_LZMA_MEMORY = 1 << 29
MAX_MAGIC = 6
_ADVICE = "The file is damaged or cut off; get it again"


@dataclass(frozen=True)
class Codec:
    """A compression.

    Attributes:
        name: of the format.
        suffixes: of file names.
        magic: the bytes that every stream begins with; b'' if there are none.
        read_size: compressed bytes to decompress at once.
        blocks: (decompressor, data) -> the blocks that the data decompress to, each of bounded size.
        decompressor: makes the decompressor of one stream, with the attributes `eof` and `unused_data`.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    read_size: int
    blocks: Callable[[Any, bytes], Iterator[bytes]]
    decompressor: Callable[[], Any]


def _zlib_blocks(decompressor: Any, data: bytes) -> Iterator[bytes]:
    while True:
        block = decompressor.decompress(data, MAX_BLOCK)
        data = decompressor.unconsumed_tail
        yield block
        if decompressor.eof or (not data and len(block) < MAX_BLOCK):
            return


def _file_blocks(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """Yields the blocks of bz2 and lzma, whose decompressors keep the input."""
    while True:
        yield decompressor.decompress(data, MAX_BLOCK)
        data = b""
        if decompressor.eof or decompressor.needs_input:
            return


def _zstd_blocks(decompressor: Any, data: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(data)


def _zstd_decompressor() -> Any:
    with needs("files compressed by zstd need zstandard", "files"):
        import zstandard
    return zstandard.ZstdDecompressor().decompressobj()


_LZMA = partial(lzma.LZMADecompressor, lzma.FORMAT_AUTO, _MAX_LZMA_MEMORY)
GZIP = Codec("gzip", (".gz",), b"\x1f\x8b", _READ_SIZE, _zlib_blocks, partial(zlib.decompressobj, 16 + zlib.MAX_WBITS))
ZLIB = Codec("zlib", (".deflate", ".zlib"), b"", _READ_SIZE, _zlib_blocks, zlib.decompressobj)
BZIP2 = Codec("bzip2", (".bz2",), b"BZh", _READ_SIZE, _file_blocks, bz2.BZ2Decompressor)
XZ = Codec("xz", (".xz",), b"\xfd7zXZ\x00", _READ_SIZE, _file_blocks, _LZMA)
LZMA = Codec("lzma", (".lzma",), b"", _READ_SIZE, _file_blocks, _LZMA)
ZSTD = Codec("zstd", (".zst", ".zstd"), b"\x28\xb5\x2f\xfd", _ZSTD_READ_SIZE, _zstd_blocks, _zstd_decompressor)
CODECS = (GZIP, BZIP2, XZ, LZMA, ZSTD, ZLIB)
COMPRESSED = tuple(suffix for codec in CODECS for suffix in codec.suffixes)
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive", b"Rar!\x1a\x07": "a RAR archive"}


def codec_of(path: str) -> Codec | None:
    """Returns the compression that a file's name says; None if it says none.

    >>> codec_of("a.csv.GZ").name, codec_of("a.csv")
    ('gzip', None)
    """
    name = path.lower()
    return next((codec for codec in CODECS if name.endswith(codec.suffixes)), None)


def codec_of_content(head: bytes) -> Codec | None:
    """Returns the compression of content that begins with `head`; None if it is none that can be told.

    >>> codec_of_content(b"BZh91AY").name, codec_of_content(b"id,name")
    ('bzip2', None)
    """
    found = next((codec for codec in CODECS if codec.magic and head.startswith(codec.magic)), None)
    # zlib: method 8 with a window of at most 32 KiB, and a checksum of the first two bytes
    is_zlib = len(head) >= 2 and head[0] & 0x8F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return found or (ZLIB if is_zlib else None)


def is_plain(path: str) -> bool:
    """Returns whether a file is on this machine and not compressed."""
    return "://" not in path and codec_of(path) is None


def file_systems() -> Any:
    """Returns Beam's file systems.

    Raises:
        MissingDependencyError: Beam is not installed.
    """
    with needs("files in a store and patterns of folders need Apache Beam", "beam"):
        from beam_datasets import beam  # noqa: F401  # imports it silently
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def open_bytes(path: str) -> io.BufferedReader:
    """Returns the uncompressed bytes of a file or URL as a stream; its reads raise InputError for damaged content.

    Raises:
        InputError: the file cannot be opened.
    """
    codec = codec_of(path)
    raw = _open_stored(path)
    return raw if codec is None else decompressed(raw, codec, path)


def open_text_bytes(path: str) -> io.BufferedReader:
    """Returns `open_bytes(path)`; content that is compressed although its name does not say so is an error.

    Raises:
        InputError: the file cannot be opened, or is compressed or an archive.
    """
    stream = open_bytes(path)
    try:
        check_is_text(stream.peek(16), path)
    except BaseException:
        stream.close()
        raise
    return stream


def check_is_text(head: bytes, path: str) -> None:
    """Checks that content does not begin as a compressed file or an archive does.

    Raises:
        InputError: it does.
    """
    codec = next((codec for codec in CODECS if codec.magic and head.startswith(codec.magic)), None)
    if codec is not None and not (codec is BZIP2 and head[4:10] != b"1AY&SY"):
        expected = (
            f"expected a name that ends in {codec.suffixes[0]}, because the content is compressed by {codec.name}"
        )
        raise InputError(f"{path}: {expected}. Rename the file, or decompress it.")
    kind = next((kind for magic, kind in _ARCHIVES.items() if head.startswith(magic)), None)
    if kind is not None:
        raise InputError(f"{path}: expected a file of data, got {kind}. Unpack it, and give the files in it.")


def _open_stored(path: str) -> io.BufferedReader:
    """Returns the bytes of a file as they are stored."""
    try:
        if "://" not in path:
            return io.BufferedReader(open(path, "rb", buffering=0), BUFFER_SIZE)
        from apache_beam.io.filesystem import CompressionTypes

        stream = file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    return io.BufferedReader(_Readable(stream, path), BUFFER_SIZE)


class _Readable(io.RawIOBase):
    """A stream of a store as Python has streams; errors of its client name the file."""

    def __init__(self, stream: Any, path: str) -> None:
        super().__init__()
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._stream.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any, /) -> int:
        try:
            data = self._stream.read(len(buffer))
        except Exception as error:
            raise InputError(f"{self._path} cannot be read: {reason(error)}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def decompressed(raw: BinaryIO, codec: Codec, path: str) -> io.BufferedReader:
    """Returns the content of a compressed file as a stream, which cannot seek.

    Args:
        raw: the compressed bytes, from the start; closed with the stream.
        codec: of the file.
        path: of the file, for errors.

    Reads raise InputError where a stream is damaged or cut off, and where bytes follow that are no stream.
    """
    return io.BufferedReader(_Decompressed(raw, codec, path), BUFFER_SIZE)


class _Decompressed(io.RawIOBase):
    """The blocks of a compressed file, one after the other."""

    def __init__(self, raw: BinaryIO, codec: Codec, path: str) -> None:
        super().__init__()
        self._raw = raw
        self._blocks = _blocks(raw, codec, path)
        self._left = memoryview(b"")
        self._problem = ""  # raised again by later reads, which would take the end of the blocks for that of the file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._left:
            if self._problem:
                raise InputError(self._problem)
            try:
                block = next(self._blocks, None)
            except InputError as error:
                self._problem = str(error)
                raise
            if block is None:
                return 0
            self._left = memoryview(block)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


def with_line_limit(stream: io.BufferedReader, path: str) -> io.BufferedReader:
    """Returns a stream with the same bytes, whose reads raise InputError within a line of more than MAX_LINE bytes.

    A file without line ends would be one line, and need memory for all of it.
    """
    return io.BufferedReader(_LineLimited(stream, path), BUFFER_SIZE)


class _LineLimited(io.RawIOBase):
    """The bytes of a stream, as long as its lines are not too long."""

    def __init__(self, stream: io.BufferedReader, path: str) -> None:
        super().__init__()
        self._stream, self._path = stream, path
        self._position = self._line_start = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._stream.read1(len(buffer))  # what precedes damage is read before the error
        last = data.rfind(b"\n")
        self._line_start = self._position + last + 1 if last >= 0 else self._line_start
        self._position += len(data)
        if self._position - self._line_start > MAX_LINE:
            raise InputError(
                f"{self._path}, byte {self._line_start}: expected lines of at most {MAX_LINE:,} bytes, got a longer "
                "one. Cut the file into lines."
            )
        buffer[: len(data)] = data
        return len(data)


def _blocks(raw: BinaryIO, codec: Codec, path: str) -> Iterator[bytes]:
    """Yields the content of all streams of a compressed file.

    Raises:
        InputError: a stream is damaged or cut off, or bytes follow that are neither a stream nor zeros.
    """
    data, position = raw.read(codec.read_size), 0
    while data or not position:
        _check_magic(codec, data, path, position)
        decompressor = codec.decompressor()
        while not decompressor.eof:
            if not data:
                raise InputError(
                    f"{path}, byte {position}: expected the end of the {codec.name} stream, got the end of the file. "
                    "The file is cut off; get it again."
                )
            try:
                yield from codec.blocks(decompressor, data)
            except Exception as error:  # each library has its own
                raise InputError(
                    f"{path}, byte {position}: expected {codec.name} data, got an error: {reason(error)}. {_ADVICE}."
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


def _check_magic(codec: Codec, data: bytes, path: str, position: int) -> None:
    """Checks that data begin as a stream, or are too short to tell.

    Raises:
        InputError: they do not.
    """
    if codec.magic.startswith(data[: len(codec.magic)]) or _is_skipped(codec, data):
        return
    expected = f"{'the end of the file or another' if position else 'a'} {codec.name} stream"
    raise InputError(f"{path}, byte {position}: expected {expected}, got {data[:8]!r}. {_ADVICE}.")


def _is_skipped(codec: Codec, data: bytes) -> bool:
    """Returns whether data begin with a frame of zstd that contains nothing, which pzstd and others write."""
    return codec is ZSTD and data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50
