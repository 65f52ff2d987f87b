"""Finding of input files, and cutting them into pieces that workers read in parallel.

Python finds and opens local files. Beam's file systems do so for gs://, s3:// and hdfs://; Beam, whose import takes
long, is imported only for them.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from beam_datasets import limits, storage
from beam_datasets.errors import InputError
from beam_datasets.files.glob import BROKEN_LINK, ListedFile, files_below, fixed_folder, has_wildcards, list_file
from beam_datasets.files.table_formats import check_not_in_table, table_error
from beam_datasets.intake.contents import iconv_name
from beam_datasets.intake.streams import check_line, codec_of, file_systems, open_text_bytes
from beam_datasets.metadata.inputs import Inputs
from beam_datasets.native import crc32c

log = logging.getLogger(__name__)
PIECE_SIZE = (
    32 << 20
)  # bytes; the time to open a file is small beside reading them, and one file still has work for many workers
_LINE_BLOCK = 1 << 20
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")  # {a,b} or {1..9} of a shell
_CHECKSUM_BLOCK = 4 << 20
_CHECKSUMS_AT_ONCE = 16


@dataclass(frozen=True, order=True)
class InputFile:
    """A file to read.

    Attributes:
        name: path relative to the common folder of all patterns, with `/`. It is part of keys, so the same files in
            another folder or on another machine make the same dataset.
        path: absolute path or URL.
        size: stored size in bytes, before decompression.
        modified: time of the last change in seconds since the epoch; 0 if the file system does not record it.
    """

    name: str
    path: str
    size: int
    modified: float = 0.0


@dataclass(frozen=True)
class Piece:
    """The part [start, stop) of a file, in bytes; a `stop` of None is the end of the file."""

    file: InputFile
    start: int = 0
    stop: int | None = None

    @property
    def num_bytes(self) -> int:
        """Stored size of the piece in bytes."""
        return (self.file.size if self.stop is None else self.stop) - self.start


def find(
    patterns: str | Sequence[str], *, hidden: tuple[str, ...] = (".", "_"), may_be_table: bool = True
) -> list[InputFile]:
    """Returns the files that match at least one of the patterns, without duplicates, sorted by name.

    Args:
        patterns: paths or URLs, which may have wildcards (see `files/glob.py`). A folder stands for all files below it.
        hidden: first characters of the names of files and folders that wildcards do not match.
        may_be_table: whether folders and patterns with wildcards may match files of a table; see `table_formats`.

    Raises:
        InputError: a pattern matches nothing, or files of a table.
    """
    pattern_list = [patterns] if isinstance(patterns, str) else patterns
    matches = [_files_of(absolute(pattern), hidden, may_be_table=may_be_table) for pattern in pattern_list]
    # the deepest folder that contains the folders of all patterns, with its last separator
    root = _folder_of(os.path.commonprefix([folder for folder, _ in matches]))  # noqa: RUF071  # URLs have no paths
    return sorted(
        InputFile(path[len(root) :].replace(os.sep, "/"), path, file.size, file.modified)
        for path, file in {file.path: file for _, files in matches for file in files}.items()
    )


def absolute(pattern: str) -> str:
    """Returns a pattern with an absolute path, also for a file:// URL; those of stores stay.

    Raises:
        InputError: the pattern is empty, as the value of a variable of a shell that is not set is.
    """
    if not pattern:
        raise InputError(expected="a file, a folder or a pattern", got="an empty text")
    storage.check_slashes(pattern)
    if "://" not in pattern:
        return os.path.abspath(os.path.expanduser(pattern))
    return storage.normalize(pattern) if not storage.is_remote(pattern) else pattern


def _files_of(pattern: str, hidden: tuple[str, ...], *, may_be_table: bool = True) -> tuple[str, list[ListedFile]]:
    """Returns the files of one absolute pattern, and the folder that their names are relative to.

    Args:
        pattern: a file, a folder, or a pattern with wildcards. A URL without a final slash may be a folder; the store
            is asked.
        hidden: as in `find`.
        may_be_table: as in `find`.

    Raises:
        InputError: no file matches, or files of a table do.
    """
    is_url = "://" in pattern
    if not is_url and os.path.lexists(pattern) and not os.path.isdir(pattern):  # even if its name contains wildcards
        file = list_file(pattern)
        if file is not None and file.special not in ("", BROKEN_LINK):
            raise InputError(f"{pattern}: expected a file, got {file.special}. Write what it gives into a file.")
        if file is not None:
            return _folder_of(pattern), [file]
    files: list[ListedFile] = []
    folder = fixed_folder(pattern)
    error_of = None if may_be_table else table_error
    is_folder = pattern.endswith("/") or os.path.isdir(pattern)
    if not is_folder and not folder.endswith("://"):  # such as s3:// of s3://bucket
        files = files_below(folder, pattern[len(folder) :].replace(os.sep, "/"), hidden, error_of)
    if is_folder or (is_url and not files and not has_wildcards(pattern)):
        folder = pattern.rstrip("/") + "/"
        files = files_below(folder, "**", hidden, error_of)
    if not files:
        hint = ". Braces are not wildcards; these are *, ?, [...] and **" if _BRACES.search(pattern) else ""
        raise InputError(f"no file matches {pattern!r}{hint}")
    if not may_be_table and (is_folder or has_wildcards(pattern) or len(files) > 1):
        check_not_in_table(folder)
    return folder, files


def checksum(file: InputFile) -> str:
    """Returns the checksum of the content of a local file, or the one that the store of a URL records.

    It is '' if the file cannot be read or has changed since it was found, or if the store records none. It begins with
    the kind of checksum or store, such as `crc32c:`; checksums of different kinds cannot be compared.
    """
    try:
        return _checksum_in_store(file) if "://" in file.path else _checksum_of_bytes(file)
    except Exception:  # each client of a store has its own classes; reading the rows will report the error
        return ""


def _checksum_of_bytes(file: InputFile) -> str:
    """Returns the CRC-32C of a local file; '' if its size or time is no longer that of `file`."""
    crc = 0
    with open(file.path, "rb") as stream:
        while block := stream.read(_CHECKSUM_BLOCK):
            crc = crc32c(block, crc)
        status = os.fstat(stream.fileno())
    return f"crc32c:{crc:08x}" if (status.st_size, round(status.st_mtime, 3)) == (file.size, file.modified) else ""


def _checksum_in_store(file: InputFile) -> str:
    """Returns the checksum that a store records for a file; '' if the file has changed since it was listed."""
    system = file_systems().get_filesystem(file.path)
    text, metadata = system.checksum(file.path), system.metadata(file.path)
    # a difference below a second is no change: stores may round this time, but not that of a listing
    is_changed = metadata.last_updated_in_seconds - file.modified >= 1
    return "" if is_changed or metadata.size_in_bytes != file.size else f"{system.scheme()}:{text}"


def find_unchanged(files: Mapping[str, InputFile], recorded: Inputs, *, compare_checksums: bool) -> set[str]:
    """Returns the names of the files that have not changed since they were recorded.

    A file whose size differs has changed. If only its time differs, it has changed unless its checksum is the recorded
    one. If size and time are the recorded ones, it has not changed; with `compare_checksums`, it has if a checksum is
    recorded, and the checksum now differs or is unknown.

    Args:
        files: name -> file, for recorded names only.
        recorded: the recorded sizes, times and checksums.
        compare_checksums: whether to compare the checksums of files with the same time, too.
    """
    if compare_checksums and (unknown := sorted(files.keys() - recorded.checksums.keys())):
        names = ", ".join(unknown)
        log.warning("no checksums are recorded of %d files, compared by size and time: %s", len(unknown), names)
    same_size = {name: file for name, file in files.items() if file.size == recorded.files[name][0]}
    unchanged = {name for name, file in same_size.items() if file.modified == recorded.files[name][1]}
    compared = [
        name for name in same_size if name in recorded.checksums and (compare_checksums or name not in unchanged)
    ]
    with ThreadPoolExecutor(_CHECKSUMS_AT_ONCE) as pool:
        checksums = list(pool.map(checksum, [files[name] for name in compared]))
    for name, current in zip(compared, checksums):
        if current == recorded.checksums[name]:
            unchanged.add(name)
        elif not current or current.partition(":")[0] == recorded.checksums[name].partition(":")[0]:  # of the same kind
            unchanged.discard(name)
    return unchanged


def named_checksum(named_file: tuple[str, InputFile]) -> Iterator[tuple[str, str]]:
    """Yields (name, checksum) of a (name, file) pair."""
    yield named_file[0], checksum(named_file[1])


def _folder_of(path: str) -> str:
    """Returns the part of a path up to its last separator: "data/" for "data/a.csv", "" for "a.csv"."""
    return path[: max(path.rfind("/"), path.rfind(os.sep)) + 1]


def pieces(files: Sequence[InputFile], *, piece_size: int = PIECE_SIZE) -> list[Piece]:
    """Returns the pieces of files of lines: of `piece_size` bytes, or one piece for a compressed file.

    >>> [(p.start, p.stop) for p in pieces([InputFile("a.txt", "/in/a.txt", 25)], piece_size=10)]
    [(0, 10), (10, 20), (20, None)]
    """
    file_pieces = []
    for file in files:
        starts = [0] if codec_of(file.path) else range(0, max(file.size, 1), piece_size)
        stops = [*starts[1:], None]
        file_pieces += [Piece(file, start, stop) for start, stop in zip(starts, stops)]
    return file_pieces


def lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    r"""Yields (byte offset, line) of each line that begins in the piece, without its `\n` or `\r\n`.

    Offsets count decompressed bytes. All pieces of a file together yield each of its lines exactly once. A line of more
    bytes than the limit is truncated to one more than the limit, which `decode_line` refuses.
    """
    limit = limits.limit_of(limits.MAX_LINE)
    with open_text_bytes(piece.file.path) as stream:
        offset = piece.start
        if offset:  # a line that begins before `offset` belongs to the previous piece
            stream.seek(offset - 1)
            offset += _skip_line(stream) - 1
        while piece.stop is None or offset < piece.stop:
            line = stream.readline(limit + 1)
            if not line:
                return
            yield offset, line.rstrip(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
            offset += len(line)
            if len(line) > limit and not line.endswith(b"\n"):
                offset += _skip_line(stream)


def _skip_line(stream: BinaryIO) -> int:
    """Skips the rest of a line with its line end, and returns the number of bytes skipped."""
    size = 0
    while block := stream.readline(_LINE_BLOCK):
        size += len(block)
        if block.endswith(b"\n"):
            break
    return size


def line_number(path: str, offset: int) -> int:
    """Returns the number, from 1, of the line that begins at a byte offset; reads the file up to that offset."""
    count = 1
    with open_text_bytes(path) as stream:
        while offset > 0 and (block := stream.read(min(_LINE_BLOCK, offset))):
            count += block.count(b"\n")
            offset -= len(block)
    return count


class LineAt(NamedTuple):
    """The line that begins at a byte offset. `str` of it names file, line number and offset, and reads the file."""

    file: InputFile
    offset: int

    def __str__(self) -> str:
        return f"{self.file.path}, line {line_number(self.file.path, self.offset)} (byte {self.offset})"


def check_encoding(encoding: str, *, of_lines: bool = False) -> str:
    """Returns the normalized name of an encoding, after checking it.

    It is 'utf-8' also for utf-8-sig, as readers drop a byte order mark in both.

    >>> check_encoding("U8"), check_encoding("utf_8_sig"), check_encoding("utf_16_le")
    ('utf-8', 'utf-8', 'utf-16-le')

    Raises:
        ValueError: Python does not know the encoding; or `of_lines` is True, for files that are cut at line ends, and a
            line end is not the byte 10.
    """
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        line_end = "\n".encode(name)
        line_end.decode(name, "surrogateescape")  # idna and others do not support it
    except (LookupError, UnicodeError, TypeError):  # TypeError: rot13 and others, which map text to text
        raise ValueError(f"encoding {encoding!r} is unknown; write utf-8, cp1252, latin-1, shift_jis ...") from None
    if of_lines and line_end != b"\n":
        way = f"convert the files before: iconv -f {iconv_name(name)} -t utf-8"
        raise ValueError(f"lines cannot be cut in {encoding!r}; {way}")
    return name


def decode_line(line: bytes, encoding: str, offset: int) -> str:
    """Returns the text of the line at a byte offset; drops a byte order mark at offset 0.

    Raises:
        InputError: the line is too long, or cannot be decoded; the caller adds file and line.
    """
    check_line(len(line))
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(undecodable(error, encoding, of_lines=True)) from None
    return text.removeprefix("\ufeff") if offset == 0 else text


def undecodable(error: UnicodeError, encoding: str, *, of_lines: bool = False) -> str:
    """Returns the error text, with advice, for bytes that cannot be decoded.

    Args:
        error: error of decoding them.
        encoding: the encoding that was used; the codecs of many encodings name it "charmap" in errors.
        of_lines: whether the file is cut at line ends, so that it cannot be read as UTF-16.
    """
    if not isinstance(error, UnicodeDecodeError):  # such as that of a missing byte order mark
        return str(error)
    invalid_bytes = error.object[error.start : error.start + 4]
    column = f" in column {error.start + 1}" if of_lines else ""
    looks_like_utf16 = error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    if of_lines and looks_like_utf16:
        advice = "it looks like UTF-16; convert the file: iconv -f utf-16 -t utf-8"
    elif encoding.startswith(("utf-16", "utf-32")):  # which was given; others would read its zeros as characters
        advice = "the file is damaged or cut off; get it again"
    elif looks_like_utf16:
        advice = "it looks like UTF-16 (--encoding utf-16)"
    else:
        names = ["utf-8"] * _is_utf8(error.object) + ["cp1252", "latin-1"] + ["utf-16"] * (not of_lines)
        encodings = ", ".join(name for name in names if name != encoding)
        advice = f"name the file's encoding (--encoding {encodings} ...)"
        advice += _as_cp1252(error) if encoding != "cp1252" and "utf-8" not in names else ""
    byte = f"byte {error.object[error.start]:#04x}{column} ({invalid_bytes!r}, {error.reason})"
    return f"not {encoding}: {byte}; {advice}"


def _is_utf8(data: bytes) -> bool:
    """Returns whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_cp1252(error: UnicodeDecodeError) -> str:
    r"""Returns the text of the bytes around an error as decoded by cp1252, as a clause; '' if that is not plausible.

    >>> _as_cp1252(UnicodeDecodeError("utf-8", b"2,Jos\xe9\n", 5, 6, ""))
    "; cp1252 reads 'José'"
    """
    before = re.split(rb"[^\w\x80-\xff-]", error.object[max(0, error.start - 20) : error.start])[-1]
    after = re.split(rb"[^\w\x80-\xff-]", error.object[error.start : error.start + 20])[0]
    word = (before + after).decode("cp1252", "replace")
    return f"; cp1252 reads {word!r}" if word.replace("-", "").isalpha() else ""


# Counts of the process, if `counted_here` is active; else metrics of Beam count.
_counted: ContextVar[dict[str, Any] | None] = ContextVar("counted", default=None)


@contextlib.contextmanager
def counted_here() -> Iterator[dict[str, Any]]:
    """Context manager: provides a dict that collects the numbers of `count` and the texts of `note` in this process.

    Without it, `count` and `note` add to Beam's metrics.

    >>> with counted_here() as counts:
    ...     count("files", 2)
    ...     note("codec", "gzip")
    >>> counts
    {'files': 2, 'codec': {'gzip'}}
    """
    counts: dict[str, Any] = {}
    token = _counted.set(counts)
    try:
        yield counts
    finally:
        _counted.reset(token)


def count(name: str, number: int = 1) -> None:
    """Adds `number` to the counter `name`, which is reported when the run is done; does nothing for 0."""
    if not number:
        return
    if (counts := _counted.get()) is not None:
        counts[name] = counts.get(name, 0) + number
    else:
        from apache_beam.metrics import Metrics

        Metrics.counter("files", name).inc(number)


def note(name: str, text: str) -> None:
    """Adds `text` to the set `name`, which is reported when the run is done."""
    if (counts := _counted.get()) is not None:
        counts.setdefault(name, set()).add(text)
    else:
        from apache_beam.metrics import Metrics

        Metrics.string_set("files", name).add(text)
