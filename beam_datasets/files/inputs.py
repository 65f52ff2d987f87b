"""Finding input files and cutting them into pieces that workers read side by side.

Local paths are found and opened by Python; gs://, s3:// and hdfs:// by Beam's own file systems, which are imported for
them alone: files of a day should not wait for that.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from beam_datasets.errors import InputError
from beam_datasets.files.glob import FoundFile, files_below, fixed_folder, found_file
from beam_datasets.intake.streams import MAX_LINE, codec_of, file_systems, open_text_bytes
from beam_datasets.native import crc32c

PIECE_SIZE = 32 << 20  # bytes; large enough that the time to open a file does not matter, small enough to share out
_LINE_BLOCK = 1 << 20
_CHECKSUM_BLOCK = 4 << 20


@dataclass(frozen=True, order=True)
class InputFile:
    """A file to read.

    Attributes:
        name: the path below the pattern's fixed folder, with `/`. It is part of keys, so the same files in another
            folder or on another machine make the same dataset.
        path: what to open.
        size: bytes as stored (before decompression).
        modified: when it was last changed, in seconds since the epoch; 0 if its file system does not record that.
    """

    name: str
    path: str
    size: int
    modified: float = 0.0


@dataclass(frozen=True)
class Piece:
    """The part [start, stop) of a file, in bytes; `stop` None is the end of the file."""

    file: InputFile
    start: int = 0
    stop: int | None = None

    @property
    def num_bytes(self) -> int:
        """Size in bytes, as stored."""
        return (self.file.size if self.stop is None else self.stop) - self.start


def find(patterns: str | Sequence[str], *, hidden: tuple[str, ...] = (".", "_")) -> list[InputFile]:
    """Returns the files that match any of the patterns, each once, in the order of their names.

    A folder means all files below it.

    Args:
        patterns: paths or URLs, which may have wildcards; see `files/glob.py`.
        hidden: what names of files and folders begin with that wildcards do not match.

    Raises:
        InputError: a pattern matches nothing.
    """
    listed = [patterns] if isinstance(patterns, str) else patterns
    absolute = [each if "://" in each else os.path.abspath(os.path.expanduser(each)) for each in listed]
    found = {file.path: file for pattern in absolute for file in _files_of(pattern, hidden)}
    # the deepest folder, with its last separator, that all patterns lie in
    root = _folder_of(os.path.commonprefix(list(map(_root_of, absolute))))  # noqa: RUF071  # URLs have no paths
    return sorted(
        InputFile(path[len(root) :].replace(os.sep, "/"), path, file.size, file.modified)
        for path, file in found.items()
    )


def _files_of(pattern: str, hidden: tuple[str, ...]) -> list[FoundFile]:
    """Returns the files of one pattern, which may be a file, a folder, or have wildcards.

    Raises:
        InputError: there are none.
    """
    if "://" not in pattern and os.path.lexists(pattern) and not os.path.isdir(pattern):  # also a name with brackets
        file = found_file(pattern)
        if file is None:
            raise InputError(f"{pattern}: expected a file, got a pipe or a device. Write what it gives into a file.")
        return [file]
    if pattern.endswith("/") or os.path.isdir(pattern):
        files = files_below(pattern.rstrip("/") + "/", "**", hidden)
    else:
        folder = fixed_folder(pattern)
        files = files_below(folder, pattern[len(folder) :].replace(os.sep, "/"), hidden)
    if not files:
        raise InputError(f"no file matches {pattern!r}")
    return files


def _root_of(pattern: str) -> str:
    """Returns the folder below which the files of a pattern are named, with its last separator."""
    if "://" not in pattern and os.path.isdir(pattern):
        return pattern.rstrip(os.sep) + os.sep
    if "://" not in pattern and os.path.lexists(pattern):
        return _folder_of(pattern)
    return fixed_folder(pattern)


def checksum(file: InputFile) -> str:
    """Returns a checksum of a file: of its bytes, or what its store records.

    It is '' if the file cannot be read or has changed since it was found, and if its store has none. Checksums of
    different kinds of stores cannot be compared; each begins with its kind.
    """
    try:
        return _checksum_in_store(file) if "://" in file.path else _checksum_of_bytes(file)
    except Exception:  # of any client of a store; if the file cannot be read, its rows say so
        return ""


def _checksum_of_bytes(file: InputFile) -> str:
    crc = 0
    with open(file.path, "rb") as stream:
        while block := stream.read(_CHECKSUM_BLOCK):
            crc = crc32c(block, crc)
        found = os.fstat(stream.fileno())
    return f"crc32c:{crc:08x}" if (found.st_size, round(found.st_mtime, 3)) == (file.size, file.modified) else ""


def _checksum_in_store(file: InputFile) -> str:
    system = file_systems().get_filesystem(file.path)
    text, found = system.checksum(file.path), system.metadata(file.path)
    is_later = found.last_updated_in_seconds - file.modified >= 1  # some stores list times with fractions, of one not
    return "" if is_later or found.size_in_bytes != file.size else f"{system.scheme()}:{text}"


def _folder_of(path: str) -> str:
    return path[: max(path.rfind("/"), path.rfind(os.sep)) + 1]


def pieces(files: Sequence[InputFile], *, piece_size: int = PIECE_SIZE) -> list[Piece]:
    """Returns pieces that cover the files; files that hold lines may be cut, compressed ones stay whole.

    >>> [(p.start, p.stop) for p in pieces([InputFile("a.txt", "/in/a.txt", 25)], piece_size=10)]
    [(0, 10), (10, 20), (20, None)]
    """
    cut = []
    for file in files:
        starts = [0] if codec_of(file.path) else range(0, max(file.size, 1), piece_size)
        stops = [*starts[1:], None]
        cut += [Piece(file, start, stop) for start, stop in zip(starts, stops)]
    return cut


def lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    r"""Yields (byte offset, line) of the lines that begin in the piece, without their `\n` or `\r\n`.

    Offsets count uncompressed bytes. The pieces of a file yield each of its lines exactly once. A line of more than
    MAX_LINE bytes is cut to one byte more, which `decode_line` refuses.
    """
    with open_text_bytes(piece.file.path) as stream:
        offset = piece.start
        if offset:  # the line under way here belongs to the piece before, unless it ends just here
            stream.seek(offset - 1)
            offset += _skip_line(stream) - 1
        while piece.stop is None or offset < piece.stop:
            line = stream.readline(MAX_LINE + 1)
            if not line:
                return
            yield offset, line.rstrip(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
            offset += len(line)
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                offset += _skip_line(stream)


def _skip_line(stream: BinaryIO) -> int:
    """Reads up to the next line end, and returns the number of bytes."""
    size = 0
    while part := stream.readline(_LINE_BLOCK):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size


def line_number(path: str, offset: int) -> int:
    """Returns the number, from 1, of the line that begins at a byte offset; reads the file up to there."""
    count = 1
    with open_text_bytes(path) as stream:
        while offset > 0 and (block := stream.read(min(_LINE_BLOCK, offset))):
            count += block.count(b"\n")
            offset -= len(block)
    return count


class LineAt(NamedTuple):
    """The line that begins at a byte offset; its text names file, line number and offset, and reads the file for it."""

    file: InputFile
    offset: int

    def __str__(self) -> str:
        return f"{self.file.path}, line {line_number(self.file.path, self.offset)} (byte {self.offset})"


def check_encoding(encoding: str, *, of_lines: bool = False) -> str:
    """Returns the name that Python gives an encoding.

    >>> check_encoding("U8"), check_encoding("utf_16_le")
    ('utf-8', 'utf-16-le')

    Raises:
        ValueError: Python does not know it; or, for files that are cut at line ends, a line end is not one byte.
    """
    try:
        line_end = "\n".encode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, UnicodeError, TypeError):  # such as rot13, which is of text
        raise ValueError(f"encoding {encoding!r} is unknown; write utf-8, cp1252, latin-1, shift_jis ...") from None
    if of_lines and line_end != b"\n":
        raise ValueError(f"lines cannot be cut in {encoding!r}; convert the files before: iconv -f {encoding} -t utf-8")
    return name


def decode_line(line: bytes, encoding: str, offset: int) -> str:
    """Returns a line's text; a byte order mark at the start of the file, offset 0, is dropped.

    Raises:
        InputError: the line is too long, or its bytes are not text in this encoding; the caller adds their place.
    """
    if len(line) > MAX_LINE:
        raise InputError(f"expected lines of at most {MAX_LINE:,} bytes, got a longer one. Cut the file into lines.")
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(undecodable(error, of_lines=True)) from None
    return text.removeprefix("\ufeff") if offset == 0 else text


def undecodable(error: UnicodeDecodeError, *, of_lines: bool = False) -> str:
    """Returns what is wrong with the bytes and what to do.

    Args:
        error: of the bytes.
        of_lines: the file is cut at line ends, so that it cannot be UTF-16.
    """
    got = error.object[error.start : error.start + 4]
    column = f" in column {error.start + 1}" if of_lines else ""
    looks_like_utf16 = error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    if of_lines and looks_like_utf16:
        ways = "it looks like UTF-16; convert the file: iconv -f utf-16 -t utf-8"
    elif looks_like_utf16:
        ways = "it looks like UTF-16 (--encoding utf-16)"
    else:
        others = "cp1252, latin-1 ..." if of_lines else "cp1252, latin-1, utf-16 ..."
        ways = f"name the file's encoding (--encoding {others})"
    return f"not {error.encoding}: byte {error.object[error.start]:#04x}{column} ({got!r}, {error.reason}); {ways}"


_counted: ContextVar[dict[str, Any] | None] = ContextVar("counted", default=None)


@contextlib.contextmanager
def counted_here() -> Iterator[dict[str, Any]]:
    """Provides what is counted in this process while active: {name: number, or a set of texts}."""
    found: dict[str, Any] = {}
    token = _counted.set(found)
    try:
        yield found
    finally:
        _counted.reset(token)


def count(what: str, number: int = 1) -> None:
    """Counts what a user should know of when the run is done; 0 is not reported."""
    if not number:
        return
    if (found := _counted.get()) is not None:
        found[what] = found.get(what, 0) + number
    else:
        from apache_beam.metrics import Metrics

        Metrics.counter("files", what).inc(number)


def note(what: str, text: str) -> None:
    """Adds a text to those that a user should see when the run is done."""
    if (found := _counted.get()) is not None:
        found.setdefault(what, set()).add(text)
    else:
        from apache_beam.metrics import Metrics

        Metrics.string_set("files", what).add(text)
