"""Archives: their members in order, and unpacking, with every damage of them as a `DownloadError`."""

from __future__ import annotations

import bz2
import contextlib
import enum
import functools
import gzip
import io
import logging
import lzma
import os
import posixpath
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any

from beam_datasets import limits
from beam_datasets.downloads.errors import DownloadError
from beam_datasets.intake.streams import BZIP2, GZIP, MAX_MAGIC, XZ, codec_of_content

_LOGGER = logging.getLogger(__name__)
_PIECE = 1 << 20  # bytes
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_MAX_RATIO = 1000  # deflate makes 1032 bytes of one at most; text seldom more than 50


class ExtractMethod(enum.Enum):
    """Format of an archive, under the names of TensorFlow Datasets."""

    NO_EXTRACT = "no"
    TAR = "tar"
    TAR_GZ = "tar.gz"
    TAR_STREAM = "tar stream"
    TAR_GZ_STREAM = "tar.gz stream"
    ZIP = "zip"
    GZIP = "gzip"
    BZIP2 = "bzip2"


_METHOD_BY_SUFFIX = {
    ".tar": ExtractMethod.TAR,
    ".tar.gz": ExtractMethod.TAR_GZ,
    ".tgz": ExtractMethod.TAR_GZ,
    ".tar.bz2": ExtractMethod.TAR,
    ".tbz2": ExtractMethod.TAR,
    ".tbz": ExtractMethod.TAR,
    ".tar.xz": ExtractMethod.TAR,
    ".zip": ExtractMethod.ZIP,
    ".gz": ExtractMethod.GZIP,
    ".bz2": ExtractMethod.BZIP2,
}
_SINGLE_FILES = (ExtractMethod.GZIP, ExtractMethod.BZIP2)


def method_of_name(path: str | os.PathLike[str]) -> ExtractMethod:
    """Returns the format of an archive by the suffix of its name; `NO_EXTRACT` for another file."""
    name = os.fspath(path).lower()
    return next(
        (method for suffix, method in _METHOD_BY_SUFFIX.items() if name.endswith(suffix)), ExtractMethod.NO_EXTRACT
    )


def iter_archive(path: str | os.PathLike[str], method: ExtractMethod | None = None) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields (path in the archive, open file) of the files of an archive; of a compressed file ('', open file).

    Hidden files, files with a name that ends in '~', directories, devices and pipes are left out, and links that lead
    to no file of the archive; of an archive that is read as a stream all links. A member of a ZIP archive that is
    encrypted is an error when it is read, so that a builder can leave it out.

    Args:
        path: the archive.
        method: format of the archive; None derives it from the file's name.

    Raises:
        DownloadError: the archive is damaged, or has a path that leads out of it.
    """
    method = method_of_name(path) if method is None else method
    for name, open_member in _members(Path(path), method):
        parts = posixpath.normpath(name).split("/")
        if name and (parts[0].startswith(".") or parts[-1].startswith(".") or name.endswith("~")):
            continue
        member = io.BufferedReader(_MemberFile(Path(path), _call_guarded(Path(path), open_member)))
        yield posixpath.normpath(name) if name else "", member


def extract(path: Path, method: ExtractMethod, target: Path) -> None:
    """Unpacks an archive to a directory that appears when all of it is there; a compressed file to a file.

    Of members with the same path the last one is kept, as by tar.

    Args:
        path: the archive or compressed file.
        method: format of `path`.
        target: path of the new directory; of the new file for GZIP and BZIP2.

    Raises:
        DownloadError: the archive is damaged, has links or paths that lead out of it, or is a bomb.
    """
    limit = num_left = max(limits.limit_of(limits.MAX_UNPACKED), _MAX_RATIO * path.stat().st_size)
    with _replace_on_success(target) as temporary, contextlib.closing(_members(path, method, links=False)) as members:
        if method not in _SINGLE_FILES:
            temporary.mkdir()
        for name, open_member in members:
            with _call_guarded(path, open_member) as source, _create_member(temporary / name, path) as sink:
                while piece := _call_guarded(path, source.read, _PIECE):
                    num_left -= len(piece)
                    if num_left < 0:
                        raise DownloadError(
                            f"the archive unpacks to more than {limit:,} bytes",
                            path=str(path),
                            expected=f"{limit:,} bytes",
                            advice=f"{limits.advice_to_raise(4 * limit)}. iter_archive() reads the files of an archive "
                            "without unpacking it.",
                        )
                    sink.write(piece)


def _create_member(target: Path, archive: Path) -> IO[bytes]:
    """Returns a new file for a member of an archive; two may have paths of which one is below the other."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")
    except (OSError, RecursionError) as error:
        raise DownloadError(f"a member cannot be unpacked: {error!s:.300}", path=str(archive)) from error


def _members(
    path: Path, method: ExtractMethod, *, links: bool = True
) -> Generator[tuple[str, Callable[[], IO[bytes]]]]:
    """Yields path and opener of the files of an archive; links open the file that they lead to, or are errors."""
    if method is ExtractMethod.NO_EXTRACT:
        raise DownloadError(
            expected=f"an archive, whose name ends with {', '.join(_METHOD_BY_SUFFIX)}", got=path.name, path=str(path)
        )
    if not path.stat().st_size:
        raise DownloadError(expected="an archive", got="an empty file", path=str(path))
    if method in _SINGLE_FILES:
        open_compressed: Any = gzip.open if method is ExtractMethod.GZIP else bz2.open
        yield "", lambda: open_compressed(path, "rb")
        return
    generator = _zip_members(path) if method is ExtractMethod.ZIP else _tar_members(path)
    with contextlib.closing(generator) as members:
        while (member := _call_guarded(path, next, members, None)) is not None:
            name, is_link, open_member = member
            parts = name.replace("\\", "/").split("/")
            if not (parts[0] and set(parts) - {"", "."}) or ".." in parts or "\0" in name or name[1:2] == ":":
                raise DownloadError(
                    expected="members below the archive's folder", got=f"the path {name!r}", path=str(path)
                )
            if is_link and not links:
                raise DownloadError(
                    expected="files", got=f"the link {name!r}", path=str(path), advice="Read it by iter_archive()."
                )
            if not is_link or _leads_to_member(open_member):
                yield name, open_member


def _leads_to_member(open_link: Callable[[], Any]) -> bool:
    """Returns whether a link leads to a file of the archive that can be read now."""
    try:
        return open_link() is not None
    except (KeyError, tarfile.TarError, RecursionError):
        return False


def _call_guarded(path: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns `function(*arguments)`; errors of libraries about damage become a `DownloadError` about `path`."""
    try:
        return function(*arguments)
    except (
        tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError,
        IndexError,
    ) as e:  # fmt: skip
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise DownloadError(
            f"the archive is damaged, or of another format: {type(e).__name__}: {e}",
            path=str(path),
            expected="an archive",
            got=f"{type(e).__name__}: {e}",
        ) from e


class _MemberFile(io.RawIOBase):
    """A file of an archive, whose damage is a `DownloadError` where it is read."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file, self.name = path, file, getattr(file, "name", "")

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def seekable(self) -> bool:
        """Returns whether the file in the archive is seekable; see `io.IOBase.seekable`."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves to a position and returns it; see `io.IOBase.seek`.

        Raises:
            DownloadError: the archive is damaged.
        """
        position: int = _call_guarded(self._path, self._file.seek, offset, whence)
        return position

    def readall(self) -> bytes:
        """Returns all remaining bytes; see `io.RawIOBase.readall`.

        Raises:
            DownloadError: the archive is damaged.
        """
        data: bytes = _call_guarded(self._path, self._file.read)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Reads bytes into a buffer and returns their number; see `io.RawIOBase.readinto`.

        Raises:
            DownloadError: the archive is damaged.
        """
        data = _call_guarded(self._path, self._file.read, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the file in the archive and this one."""
        self._file.close()
        super().close()


def _zip_members(path: Path) -> Generator[tuple[str, bool, Callable[[], IO[bytes]]]]:
    """Yields (name, whether it is a link, function that opens it) of the files and links in a ZIP archive."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
                yield member.filename, is_link, functools.partial(_open_in_zip, path, archive, member)


def _open_in_zip(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Opens a file of a ZIP archive; one that is encrypted, or compressed by another method, is an error when read."""
    if member.flag_bits & 1:
        expected, got = "an archive without a password", f"{member.filename!r} encrypted"
    elif member.compress_type not in _ZIP_METHODS:
        expected, got = "members by deflate, bzip2 or LZMA", f"{member.filename!r} by method {member.compress_type}"
    else:
        return archive.open(member)
    error = DownloadError(expected=expected, got=got, path=str(path), advice="Unpack it by hand into manual_dir.")
    return io.BufferedReader(_UnreadableFile(member.filename, error))


class _UnreadableFile(io.RawIOBase):
    """A file of an archive that cannot be read, so that the others can."""

    def __init__(self, name: str, error: DownloadError) -> None:
        self.name, self._error = name, error

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Raises DownloadError."""
        raise self._error


def _tar_members(path: Path) -> Generator[tuple[str, bool, Callable[[], Any]]]:
    """Yields (name, whether it is a link, opener) of the files and links; detects the compression by content.

    Devices and pipes, which have no content, are left out with a warning.
    """
    with path.open("rb") as file:
        codec = codec_of_content(file.read(MAX_MAGIC))
    by_codec: dict[Any, Any] = {GZIP: gzip.open, BZIP2: bz2.open, XZ: lzma.open}
    open_compressed = by_codec.get(codec, open)
    with open_compressed(path, "rb") as content:
        limited: Any = _LimitedHeaders(path, content)
        with tarfile.open(fileobj=limited, mode="r:") as archive:
            members = iter(archive)  # not archive.next(), which has no more members after a link was opened
            while (member := limited.read_headers(next, members, None)) is not None:
                if member.isdev():
                    _LOGGER.warning("%s: the device or pipe %r is left out", path, member.name)
                elif not member.isdir():
                    opener = functools.partial(limited.read_headers, archive.extractfile, member)
                    yield member.name, not member.isfile(), opener
            _check_end_of_tar(archive, content)


class _LimitedHeaders:
    """The content of a tar archive; `tarfile` allocates as many bytes as a header of it declares.

    Args:
        path: the archive, for errors.
        content: its decompressed content.
    """

    def __init__(self, path: Path, content: IO[bytes]) -> None:
        self._path, self._content = path, content
        self._is_in_header = True  # also while the archive is opened

    def read_headers(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of a function of `tarfile` that reads headers alone; one may look for a link's target."""
        self._is_in_header = True
        try:
            return function(*arguments)
        finally:
            self._is_in_header = False

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes of the content.

        Raises:
            DownloadError: a header is larger than `limits.MAX_HEADER` and the limit of the environment variable.
        """
        if self._is_in_header and size > (limit := limits.limit_of(limits.MAX_HEADER)):
            raise DownloadError(
                expected=f"at most {limit:,} bytes in a header",
                got=f"{size:,}",
                path=str(self._path),
                advice=f"{limits.advice_to_raise(size)}.",
            )
        return self._content.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


def _check_end_of_tar(archive: tarfile.TarFile, content: IO[bytes]) -> None:
    """Checks that an archive ends with blocks of zeros after its last member, and that its stream has an end.

    `tarfile` takes a missing end, and a header that is damaged, for the end of the archive.

    Raises:
        tarfile.ReadError: it does not end so.
    """
    last = next(reversed(archive.getmembers()), None)
    end = 0 if last is None else last.offset_data
    if last is not None and last.isfile() and not last.issparse():
        end += -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    content.seek(end)
    size = num_others = 0
    while block := content.read(_PIECE):
        size += len(block)
        num_others += len(block) - block.count(0)
    if num_others and not (last and last.issparse()):  # whose data follow here
        raise tarfile.ReadError("expected the zeros at the end of a tar archive, got other bytes")
    if size < 2 * tarfile.BLOCKSIZE:
        raise tarfile.ReadError("expected the zeros at the end of a tar archive, got the end of the file")


@contextlib.contextmanager
def _replace_on_success(target: Path) -> Iterator[Path]:
    """Context manager: provides a path beside the target; without an error, its file replaces the target at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    directory = tempfile.mkdtemp(prefix=f".{target.name[-40:]}.", dir=target.parent)
    try:
        temporary = Path(directory, "content")
        yield temporary
        try:
            temporary.replace(target)
        except OSError:  # another process was first with a directory
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
