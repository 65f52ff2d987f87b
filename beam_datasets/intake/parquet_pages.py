"""Limits of the sizes that pages of a Parquet file declare, checked before pyarrow allocates them.

A page of a few bytes can declare 2 GiB, which pyarrow allocates before it decompresses the page. Each header of a page
passes through the stream that pyarrow reads, so `PageLimitedStream` checks it there. No bytes are read twice, neither
on a disk nor in an object store, except for a header that lies in two reads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from beam_datasets.errors import InputError
from beam_datasets.intake.parquet_footer import ColumnChunk, PageHeader, page_header
from beam_datasets.limits import check_num_elements

MAX_PAGE_BYTES = 1 << 30
_MAX_TRUSTED_BYTES = 1 << 26  # a page of at most this size is not compared with the footer
_MAX_HEADER = 1 << 24  # bytes of the header of a page, which may contain statistics
_HEADER_BYTES = 1 << 12  # bytes that usually are enough


class PageLimitedStream:
    """A stream of a Parquet file whose reads check the headers of pages.

    Args:
        stream: the file, which can seek.
        path: path of the file, for errors.
    """

    def __init__(self, stream: Any, path: str) -> None:
        self._stream = stream
        self._path = path
        self._chunks: list[ColumnChunk] = []
        self._starts: list[int] = []
        self._next_headers: list[int] = []  # byte offset of the first header of each chunk that was not checked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def watch(self, row_groups: Sequence[Sequence[ColumnChunk]]) -> None:
        """Checks the pages of these column chunks from now on; those of encrypted ones cannot be read."""
        if self._chunks:
            return
        chunks = [chunk for group in row_groups for chunk in group if not chunk.is_encrypted and chunk.stored_size > 0]
        self._chunks = sorted(chunks, key=lambda chunk: chunk.start)
        self._starts = [chunk.start for chunk in self._chunks]
        self._next_headers = list(self._starts)

    def read(self, size: int = -1) -> bytes:
        """Reads as the stream does.

        Raises:
            InputError: a page in these bytes declares more bytes than the limit or the footer allow.
        """
        start = self._stream.tell() if self._chunks else 0
        data: bytes = self._stream.read(size)
        if self._chunks:
            stop = start + len(data)
            for index in range(bisect_left(self._starts, stop) - 1, -1, -1):
                chunk = self._chunks[index]
                if chunk.start + chunk.stored_size <= start:
                    break
                self._check_pages(index, start, data)
            self._stream.seek(stop)
        return data

    def _check_pages(self, index: int, start: int, data: bytes) -> None:
        """Checks the pages of a chunk whose headers begin before the end of a read.

        Args:
            index: number of the chunk.
            start: byte offset of the read.
            data: the bytes of the read.
        """
        chunk = self._chunks[index]
        end = chunk.start + chunk.stored_size
        position = self._next_headers[index]
        while position < min(end, start + len(data)):
            header = self._header_at(position, start, data)
            if header is None:  # it is damaged, which pyarrow reports
                position = end
                break
            self._check_size(header, chunk, position)
            position += header.header_size + header.stored_size
        self._next_headers[index] = position

    def _header_at(self, position: int, start: int, data: bytes) -> PageHeader | None:
        """Returns the header of a page at a byte offset of the file; None if it is damaged.

        `data` are bytes of the file from offset `start` on; the header is read from the file if it is not in them.
        """
        if position >= start:
            try:
                return page_header(data[position - start : position - start + _HEADER_BYTES])
            except ValueError:
                pass
        size = _HEADER_BYTES
        while size <= _MAX_HEADER:
            self._stream.seek(position)
            head = self._stream.read(size)
            try:
                return page_header(head)
            except ValueError:
                if len(head) < size:
                    return None
            size *= 8
        return None

    def _check_size(self, header: PageHeader, chunk: ColumnChunk, position: int) -> None:
        """Raises InputError if a page declares more bytes than the limit, or than the footer for all pages."""
        if header.size <= _MAX_TRUSTED_BYTES:
            return
        if header.size > chunk.size:
            raise InputError(
                expected=f"a page of at most {chunk.size:,} bytes, as the footer declares for the column",
                got=f"one that declares {header.size:,}",
                advice="The file is damaged; write it again",
                path=self._path,
                offset=position,
            )
        problem = (
            f"{self._path}, byte {position}: a page of the file declares {header.size} bytes when it is decompressed"
        )
        check_num_elements(header.size, MAX_PAGE_BYTES, problem)
