"""Finding input files and cutting them into pieces that workers read side by side.

Files are found and opened by Beam's own file systems, so local paths, gs://, s3:// and hdfs:// work alike and a name
that ends in .gz, .bz2, .xz, .zst or .deflate is read uncompressed. Beam is imported only for what Python itself does
not open or list: files of a day should not wait for that.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

from beam_datasets.errors import InputError
from beam_datasets.extras import needs
from beam_datasets.native import crc32c

WILDCARDS = "*?["
COMPRESSED = (".bz2", ".deflate", ".gz", ".lzma", ".xz", ".zst", ".zstd")  # as Beam has them
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
        patterns: paths, which may have the wildcards `*`, `?`, `[...]` and `**`.
        hidden: where a wildcard matched, files whose names begin so (`_SUCCESS`, `.DS_Store`) are left out.

    Raises:
        InputError: a pattern matches nothing.
    """
    given = [patterns] if isinstance(patterns, str) else patterns
    listed = [each if "://" in each else os.path.abspath(os.path.expanduser(each)) for each in given]
    found = {path: (size, time) for pattern in listed for path, size, time in _match(pattern, hidden)}
    # the deepest folder, with its last separator, that all patterns lie in
    root = _folder_of(os.path.commonprefix(list(map(_fixed_folder, listed))))  # noqa: RUF071  # URLs have no paths
    return sorted(InputFile(path[len(root) :].replace(os.sep, "/"), path, *stamp) for path, stamp in found.items())


def _match(pattern: str, hidden: tuple[str, ...]) -> list[tuple[str, int, float]]:
    """Returns path, size and time of the last change of the files that match a pattern."""
    is_file = os.path.exists(pattern) and not os.path.isdir(pattern)  # also a name with brackets in it
    if pattern.endswith("/") or os.path.isdir(pattern):
        pattern = os.path.join(pattern, "**")
    found = list(_stats([pattern])) if is_file else _matched(pattern)
    files = [file for file in found if _is_ordinary(file[0])]
    if not is_file and any(mark in pattern for mark in WILDCARDS):
        files = [file for file in files if not os.path.basename(file[0]).startswith(hidden)]
    if is_file and found and not files:
        raise InputError(f"{pattern}: expected a file, got a pipe or a device. Write what it gives into a file.")
    if not files:
        raise InputError(f"no file matches {pattern!r}")
    return files


def _is_ordinary(path: str) -> bool:
    """Returns whether a file can be read as often as one wants, which waits for ever for some pipes."""
    return "://" in path or os.path.isfile(path)


def _stats(paths: Iterable[str]) -> Iterator[tuple[str, int, float]]:
    for path in paths:
        with contextlib.suppress(OSError):  # deleted meanwhile, or a link that leads nowhere
            found = os.stat(path)
            yield path, found.st_size, round(found.st_mtime, 3)


def _matched(pattern: str) -> list[tuple[str, int, float]]:
    """Returns path, size and time of all files that match a pattern."""
    folder, name = os.path.split(pattern)
    if "://" not in pattern and not any(mark in folder for mark in WILDCARDS) and (name == "**" or "**" not in name):
        folders = os.walk(folder) if name == "**" else itertools.islice(os.walk(folder), 1)
        return list(
            _stats(
                os.path.join(above, each)
                for above, _, names in folders
                for each in names
                if fnmatch.fnmatchcase(each, name)
            )
        )
    from apache_beam.io.filesystem import BeamIOError

    try:
        [result] = _matched_by_beam(pattern)
    except (BeamIOError, ValueError) as error:
        raise InputError(f"{pattern}: expected files that can be listed, got an error: {error}") from error
    return [(m.path, m.size_in_bytes, round(m.last_updated_in_seconds, 3)) for m in result.metadata_list]


def _matched_by_beam(pattern: str) -> Any:
    systems = file_systems()
    try:
        return systems.match([pattern])
    except Exception as error:  # one of Beam's own
        if "options" not in str(error):
            raise
        from apache_beam.options.pipeline_options import PipelineOptions

        # S3 and HDFS need options, which a process lacks that has made no pipeline.
        systems.set_options(PipelineOptions([]))
        return systems.match([pattern])


def file_systems() -> Any:
    """Returns Beam's file systems.

    Raises:
        MissingDependencyError: Beam is not installed.
    """
    with needs("files in a store, compressed files and patterns of folders need Apache Beam", "beam"):
        from beam_datasets import beam  # noqa: F401  # imports it silently
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


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


def _fixed_folder(pattern: str) -> str:
    if os.path.isdir(pattern):
        return pattern.rstrip(os.sep) + os.sep
    if "://" not in pattern and os.path.exists(pattern):
        return _folder_of(pattern)
    return _folder_of(pattern[: min([len(pattern), *(pattern.find(mark) for mark in WILDCARDS if mark in pattern)])])


def _folder_of(path: str) -> str:
    return path[: max(path.rfind("/"), path.rfind(os.sep)) + 1]


def is_plain(path: str) -> bool:
    """Returns whether a file is on this machine and not compressed."""
    return "://" not in path and not path.lower().endswith(COMPRESSED)


def open_bytes(path: str) -> BinaryIO:
    """Returns the file's uncompressed bytes as a stream.

    Raises:
        InputError: a file of this machine cannot be opened.
    """
    try:
        if is_plain(path):
            return open(path, "rb", _LINE_BLOCK)
        stream = file_systems().open(path)
    except OSError as error:
        if "://" in path:
            raise
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    if isinstance(stream, io.BufferedIOBase):
        return cast("BinaryIO", stream)
    return io.BufferedReader(_Decompressed(stream), _LINE_BLOCK)


class _Decompressed(io.RawIOBase):
    """Beam's stream of a compressed file as Python has streams; its own lines come at a seventh of the speed."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def pieces(files: Sequence[InputFile], *, piece_size: int = PIECE_SIZE) -> list[Piece]:
    """Returns pieces that cover the files; files that hold lines may be cut, compressed ones stay whole.

    >>> [(p.start, p.stop) for p in pieces([InputFile("a.txt", "/in/a.txt", 25)], piece_size=10)]
    [(0, 10), (10, 20), (20, None)]
    """
    cut = []
    for file in files:
        starts = [0] if file.path.lower().endswith(COMPRESSED) else range(0, max(file.size, 1), piece_size)
        stops = [*starts[1:], None]
        cut += [Piece(file, start, stop) for start, stop in zip(starts, stops)]
    return cut


def lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    r"""Yields (byte offset, line) of the lines that begin in the piece, without their `\n` or `\r\n`.

    Offsets count uncompressed bytes. The pieces of a file yield each of its lines exactly once.
    """
    with open_bytes(piece.file.path) as stream:
        offset = piece.start
        if offset:  # the line under way here belongs to the piece before, unless it ends just here
            stream.seek(offset - 1)
            offset += len(stream.readline()) - 1
        while piece.stop is None or offset < piece.stop:
            line = stream.readline()
            if not line:
                return
            yield offset, line.rstrip(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
            offset += len(line)


def line_number(path: str, offset: int) -> int:
    """Returns the number, from 1, of the line that begins at a byte offset; reads the file up to there."""
    count = 1
    with open_bytes(path) as stream:
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


def check_encoding(encoding: str, *, of_lines: bool = False) -> None:
    """Checks that Python knows an encoding and, for files that are cut at line ends, that a line end is one byte.

    Raises:
        ValueError: it does not, or is not.
    """
    try:
        line_end = "\n".encode(encoding)
    except LookupError:
        raise ValueError(f"encoding {encoding!r} is unknown; write utf-8, cp1252, latin-1, shift_jis ...") from None
    if of_lines and line_end != b"\n":
        raise ValueError(f"lines cannot be cut in {encoding!r}; convert the files before: iconv -f {encoding} -t utf-8")


def decode_line(line: bytes, encoding: str, offset: int) -> str:
    """Returns a line's text; a byte order mark at the start of the file, offset 0, is dropped.

    Raises:
        InputError: the bytes are not text in this encoding; the caller adds their place.
    """
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(undecodable(error)) from None
    return text.removeprefix("\ufeff") if offset == 0 else text


def undecodable(error: UnicodeDecodeError, *, with_column: bool = True) -> str:
    """Returns what is wrong with the bytes and what to do."""
    got = error.object[error.start : error.start + 4]
    column = f" in column {error.start + 1}" if with_column else ""
    hint = "it looks like UTF-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "name the file's encoding"
    return (
        f"not {error.encoding}: byte {error.object[error.start]:#04x}{column} ({got!r}, {error.reason}); {hint} "
        "(--encoding cp1252, latin-1, utf-16 ...)"
    )


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
