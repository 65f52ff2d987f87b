"""A file as a stream of bytes, decompressed where it is compressed."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError

if TYPE_CHECKING:
    from typing_extensions import Buffer

BLOCK_BYTES = 1 << 20
_WINDOW_BITS = {"gzip": 31, "zlib": 15}  # as zlib.decompressobj takes them


def byte_stream(path: str, compression: str | None, start: int = 0) -> io.BufferedReader:
    """Opens a file to read its bytes, uncompressed, from byte `start` on.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptRecordError: it ends before `start`.
    """
    file = storage.open_reader(path)
    raw = _Plain(file, start) if compression is None else _Inflated(file, _WINDOW_BITS[compression])
    stream: io.BufferedReader = io.BufferedReader(raw, BLOCK_BYTES)
    try:
        if compression is None and start > file.size:
            raise too_short(path, start, file.size)
        if compression is not None:
            _skip(stream, path, start)
    except BaseException:
        stream.close()
        raise
    return stream


def too_short(path: str, start: int, size: int) -> CorruptRecordError:
    """Returns the error of a file that ends before what was read of it."""
    return CorruptRecordError(
        f"the file ends at byte {size}, before byte {start} that was reached before. It is cut off or was replaced",
        path=path,
        offset=size,
    )


def _skip(stream: io.BufferedReader, path: str, count: int) -> None:
    done = 0
    while done < count:
        part = len(stream.read(min(BLOCK_BYTES, count - done)))
        if not part:
            raise too_short(path, count, done)
        done += part


class _Plain(io.RawIOBase):
    """The bytes as they stand."""

    def __init__(self, file: storage.Reader, start: int) -> None:
        super().__init__()
        self._file = file
        self._place = start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._file.size - self._place))
        view[:count] = memoryview(self._file.read(self._place, self._place + count))
        self._place += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Inflated(_Plain):
    """The bytes decompressed; a file may consist of several compressed ones, one after the other."""

    def __init__(self, file: storage.Reader, window_bits: int) -> None:
        super().__init__(file, 0)
        self._window_bits = window_bits
        self._inflater = zlib.decompressobj(window_bits)
        self._waiting = b""

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        while True:
            block = self._waiting or self._next_block()
            data = self._inflate(block, len(view))  # without a block, it may still hold some
            if data or not block:
                view[: len(data)] = data
                return len(data) or self._end()

    def _next_block(self) -> bytes:
        stop = min(self._place + BLOCK_BYTES, self._file.size)
        data = bytes(self._file.read(self._place, stop))
        self._place = stop
        return data

    def _inflate(self, block: bytes, most: int) -> bytes:
        if block and self._inflater.eof:
            self._inflater = zlib.decompressobj(self._window_bits)
        try:
            data = self._inflater.decompress(block, most)
        except zlib.error as error:
            raise self._damaged(f"cannot be decompressed: {error}") from error
        self._waiting = self._inflater.unconsumed_tail or self._inflater.unused_data
        return data

    def _end(self) -> int:
        if self._file.size and not self._inflater.eof:
            raise self._damaged("is cut off within its compressed data")
        return 0

    def _damaged(self, problem: str) -> CorruptRecordError:
        place = self._place - len(self._waiting)
        return CorruptRecordError(f"the compressed file {problem}", path=self._file.path, offset=place)
