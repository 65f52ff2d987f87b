"""Downloads and archives for the builders of datasets, checked against recorded checksums.

Files are stored in `download_dir` under their URL and checksum. Pooch verifies each file and gives it its name in one
step; an interrupted download continues where it stopped. Workers open files that the launcher has downloaded.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import enum
import functools
import gzip
import hashlib
import io
import logging
import lzma
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from beam_datasets import storage
from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.arguments import shown
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.extras import needs
from beam_datasets.intake.contents import HEAD_BYTES
from beam_datasets.intake.image_formats import HTML, format_of
from beam_datasets.intake.streams import BZIP2, GZIP, MAX_MAGIC, XZ, codec_of_content

if TYPE_CHECKING:
    import requests

CHECKSUMS_FILE = "checksums.tsv"
_LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 6
_ATTEMPTS_TO_CONNECT = 3  # a server that refuses connections, or a name that does not exist, seldom passes
_MAX_PAUSE = 60.0  # seconds, also if a server asks for more
_TIMEOUT = 60  # seconds without a byte
MAX_AT_ONCE = 8
show_progress = True
"""Whether terminals show bars."""
_PIECE = 1 << 20
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # a form of zlib's window size: either header is recognized
_OF_PAGES = re.compile(r"|.*\.(x?html?|php|aspx?|jsp|cgi)", re.IGNORECASE)  # suffixes of URLs whose file may be a page
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_BOMB_RATIO, _BOMB_BYTES = 1000, 4 << 30  # deflate makes 1032 bytes of one at most; text seldom more than 50


class DownloadError(BeamDatasetsError):
    """A file could not be fetched, is not the one that was recorded, or is not an archive that can be unpacked."""


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


_METHOD_OF = {
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
_SINGLE = (ExtractMethod.GZIP, ExtractMethod.BZIP2)


@dataclass(frozen=True)
class Resource:
    """A URL, with what it does not say itself.

    Attributes:
        url: address of the file.
        extract_method: format of the archive; None derives it from the file's name.
        path: local path of the file, for `extract` and `iter_archive`.
    """

    url: str | None = None
    extract_method: ExtractMethod | None = None
    path: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class Checksum:
    """Recorded size and checksum of the file at a URL.

    Attributes:
        size: size of the file in bytes.
        sha256: SHA-256 of its content, in hexadecimal digits.
        filename: name of the file in the manual directory; None if unknown.
    """

    size: int
    sha256: str
    filename: str | None = None


def read_checksums(path: str | os.PathLike[str]) -> dict[str, Checksum]:
    """Returns {URL: checksum} of a file of tab-separated lines as TensorFlow Datasets writes it; {} without a file.

    Raises:
        DownloadError: a line is not 'URL, size, sha256[, file name]'.
    """
    checksums = {}
    lines = Path(path).read_text("utf-8").splitlines() if Path(path).exists() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        url, *values = line.rsplit(maxsplit=2) if "\t" not in line else line.split("\t")
        try:
            checksums[url] = Checksum(int(values[0]), values[1], *values[2:3])
        except (ValueError, IndexError):
            raise DownloadError(
                f"{os.fspath(path)}, line {number}: {line!r:.200}; needed: URL, size, sha256 and file name, with tabs."
            ) from None
    return checksums


def write_checksums(path: str | os.PathLike[str], checksums: Mapping[str, Checksum]) -> None:
    """Writes the file that `read_checksums` reads, in the order of the URLs, in one step."""
    rows = [(url, c.size, c.sha256, c.filename or "") for url, c in sorted(checksums.items())]
    with _replacing(Path(path)) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE).writerows(rows)


@dataclass(frozen=True)
class DownloadSettings:
    """Directories of downloads, and rules for their checksums.

    Attributes:
        download_dir: directory of downloaded files; workers must see it.
        manual_dir: directory of files that the user must provide; None for `manual` in `download_dir`.
        instructions: instructions for the user about these files.
        checksums: recorded sizes and checksums, by URL.
        register_to: a file that gets the checksums of what is fetched, instead of checking them; None checks.
        force_checksums: a URL without checksum is an error.
        offline: nothing is fetched: what is not there is an error. So it is on a worker.
        verify_ssl: whether certificates of servers are verified.
        max_at_once: maximum number of simultaneous downloads.
    """

    download_dir: Path
    manual_dir: Path | None = None
    instructions: str = ""
    checksums: Mapping[str, Checksum] = field(default_factory=dict)
    register_to: Path | None = None
    force_checksums: bool = False
    offline: bool = False
    verify_ssl: bool = True
    max_at_once: int = MAX_AT_ONCE

    def manager(self) -> DownloadManager:
        """Returns a manager that works so."""
        return DownloadManager(self)

    @property
    def manual_files(self) -> Path:
        """The directory of files that the user must provide, even if it is missing or empty."""
        return (self.manual_dir or self.download_dir / "manual").absolute()

    def check_manual_dir(self, error: Exception) -> None:
        """Adds the instructions for the manual directory to an error about a missing file of that directory.

        Raises:
            DownloadError: a file of the manual directory is missing.
        """
        if "No such file" in str(error) and f"{self.manual_files}{os.sep}" in str(error):
            raise DownloadError(
                f"{error}\nThis file cannot be downloaded: put it there by hand, or give the place of such files by "
                f"--manual_dir. {self.instructions}".rstrip()
            ) from error


def _check_settings(settings: object) -> None:
    """Checks that the argument of a `DownloadManager` is its settings.

    Raises:
        TypeError: it is something else, such as a directory.
    """
    if not isinstance(settings, DownloadSettings):
        path = str(settings) if isinstance(settings, (str, os.PathLike)) else "downloads"
        raise TypeError(
            f"settings: expected DownloadSettings, got {shown(settings)}. Write "
            f"DownloadManager(DownloadSettings(download_dir=pathlib.Path({path!r}))); a builder gets its manager "
            "as the argument of _split_generators(dl_manager)"
        )


@names_foreign_constructor_arguments
class DownloadManager:
    """Fetches and unpacks what a builder names: a URL or `Resource`, or lists and dicts of them at any depth.

    The results have the same structure, with a `pathlib.Path` in the place of each.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        """Creates a manager.

        Args:
            settings: its directories and options.

        Raises:
            TypeError: `settings` is something else, such as a directory.
        """
        _check_settings(settings)
        self._settings = settings
        self._fetched: dict[str, Checksum] = {}

    @property
    def download_dir(self) -> Path:
        """The directory of downloaded files."""
        return self._settings.download_dir

    @property
    def manual_dir(self) -> Path:
        """The directory of files that the user must provide.

        Raises:
            DownloadError: the directory does not exist or is empty; the message says what must be there.
        """
        directory = self._settings.manual_files
        if not directory.is_dir() or not any(directory.iterdir()):
            problem = "is empty" if directory.is_dir() else "is not a directory"
            raise DownloadError(
                f"{directory} {problem}. This dataset's sources cannot be downloaded: put them there by hand, "
                f"or give their place by --manual_dir. {self._settings.instructions}".rstrip()
            )
        return directory

    @property
    def downloaded_size(self) -> int:
        """Bytes of the files that were asked for."""
        return sum(checksum.size for checksum in self._fetched.values())

    @property
    def register_checksums(self) -> bool:
        """Whether checksums are recorded instead of checked."""
        return self._settings.register_to is not None

    def download(self, urls: Any) -> Any:
        """Returns the local paths of the files of URLs; downloads those that are not there.

        A path of this machine, as text, Path or file:// URL, is returned unchanged, after a check of its checksum if
        one is recorded.

        Raises:
            DownloadError: a file cannot be had, or is another than was recorded.
        """
        paths = self._mapped(self._download, urls)
        self._register()
        return paths

    def extract(self, paths: Any) -> Any:
        """Returns the paths of extracted archives: a directory each, or a file for a single compressed file.

        Raises:
            DownloadError: an archive is damaged, of an unknown kind, or unsafe to unpack.
        """
        return self._mapped(self._extract, paths)

    def download_and_extract(self, urls: Any) -> Any:
        """Returns `extract(download(urls))`; a file that is not an archive is left as it is."""
        paths = self._mapped(self._download_and_extract, urls)
        self._register()
        return paths

    def _register(self) -> None:
        """Writes the checksums of the downloaded files to checksums.tsv, if that was requested."""
        file = self._settings.register_to
        if file is not None and not self._settings.offline:
            write_checksums(file, {**read_checksums(file), **self._fetched})

    def iter_archive(self, resource: str | os.PathLike[str] | Resource) -> Iterator[tuple[str, IO[bytes]]]:
        """Yields (path in the archive, open file) of an archive, without unpacking it; see `iter_archive`."""
        path, method = _path_of(resource), _method_of(resource)
        return iter_archive(path, method)

    def download_kaggle_data(self, competition_or_dataset: str) -> Path:
        """Returns a directory of the manual directory: Kaggle gives files only to who has an account.

        Raises:
            DownloadError: the directory is not there.
        """
        path = self.manual_dir / competition_or_dataset.replace("/", "_")
        if not path.is_dir():
            raise DownloadError(
                f"{path} does not exist. Download it: kaggle datasets download (or competitions download) "
                f"{competition_or_dataset}, and unpack it there."
            )
        return path

    def download_checksums(self, urls: Any) -> None:
        """Adds the checksums that files at URLs list, in the form of checksums.tsv."""

        def add(path: Path) -> None:
            """Adds the checksums in a downloaded file to the settings."""
            self._settings = replace(self._settings, checksums={**self._settings.checksums, **read_checksums(path)})

        _map(add, self._mapped(self._download, urls))

    def _mapped(self, function: Callable[[Any], Any], tree: Any) -> Any:
        """Returns the tree with `function(leaf)` in place of each leaf; calls it once per distinct leaf, in threads."""
        with ThreadPoolExecutor(self._settings.max_at_once, "beam_datasets-download") as executor:
            submit = functools.cache(lambda leaf: executor.submit(function, leaf))
            try:
                return _map(Future.result, _map(submit, tree))
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise

    def _download(self, resource: Any) -> Path:
        """Returns the file of a URL, after fetching it unless it is on this machine; notes its checksum."""
        url = _url_of(resource)
        checksum = self._settings.checksums.get(url)
        if (local := _local_path(url)) is not None:
            return self._checked(local, url, checksum)
        path = self._cached(url, checksum)
        if path is None:
            path = self._fetch(url, None if self.register_checksums else checksum)
        self._note(url, path)
        return path

    def _checked(self, path: Path, url: str, recorded: Checksum | None) -> Path:
        """Returns a file or directory of this machine, after comparing a file with its recorded checksum.

        Args:
            path: path of the file or directory.
            url: URL that the builder gave, under which the checksum is recorded.
            recorded: the recorded checksum; None if there is none.

        Raises:
            DownloadError: it does not exist, or differs.
        """
        if not path.exists():
            raise DownloadError(f"{path} does not exist; expected a file of this machine, or a URL with its scheme.")
        if recorded and path.is_file() and not self.register_checksums:
            size = path.stat().st_size
            actual = f"{size:,} bytes" if size != recorded.size else f"sha256 {_sha256(path)}"
            if size != recorded.size or not actual.endswith(recorded.sha256):
                raise DownloadError(
                    f"{path}: expected the file that was recorded for {url} ({recorded}), got {actual}. If it changed "
                    "on purpose, record it again by --register_checksums."
                )
        if path.is_file() and self.register_checksums:
            self._note(url, path)
        return path

    def _cached(self, url: str, recorded: Checksum | None) -> Path | None:
        """Returns the file of a URL from the manual or download directory; None if it must be fetched.

        Raises:
            DownloadError: a required checksum is missing or differs, or a worker would have to fetch it.
        """
        settings = self._settings
        if recorded is None and settings.force_checksums and not self.register_checksums:
            raise DownloadError(f"{url} has no recorded checksum; record it by --register_checksums.")
        if recorded and recorded.filename and (by_hand := settings.manual_files / recorded.filename).is_file():
            is_same = by_hand.stat().st_size == recorded.size and _sha256(by_hand) == recorded.sha256
            if not (is_same or self.register_checksums):
                raise DownloadError(
                    f"{by_hand}: expected the file that was recorded for {url} ({recorded}), got another one. If it "
                    "changed on purpose, record it again by --register_checksums."
                )
            return by_hand
        path = self._kept(self._place(url, None if self.register_checksums else recorded))
        if path.is_file() and (settings.offline or not self.register_checksums or url in self._fetched):
            return path
        if settings.offline:
            raise DownloadError(
                f"{path} of {url} does not exist on this worker. The launcher fetches it to download_dir, "
                "which workers must see: give a directory that all machines share."
            )
        return None

    def _place(self, url: str, recorded: Checksum | None) -> Path:
        """Returns the path of a URL's file: `<hash of URL and recorded SHA-256>-<name>` in the download directory."""
        name = (recorded and recorded.filename) or posixpath.basename(urllib.parse.urlsplit(url).path) or "file"
        key = hashlib.sha256(f"{url} {recorded.sha256 if recorded else ''}".encode()).hexdigest()[:16]
        return self.download_dir / f"{key}-{_end_of(name)}"

    def _kept(self, path: Path) -> Path:
        """Returns the path of the file with this key, which the server may have named; the path itself without one."""
        same_key = path.parent.glob(f"{path.name.partition('-')[0]}-*")
        return path if path.is_file() else next(filter(Path.is_file, same_key), path)

    def _fetch(self, url: str, recorded: Checksum | None) -> Path:
        """Fetches a URL into the download directory; returns the file, named as the server names it if it does.

        Raises:
            DownloadError: the file has another checksum than the recorded one.
        """
        with needs("downloads need pooch", "download"):
            import pooch
        path = self._place(url, recorded)
        pooch.get_logger().setLevel("WARNING")
        if self.register_checksums:
            self._kept(path).unlink(missing_ok=True)  # the recorded checksum is that of the current file
        fetcher = _Fetcher(path.with_name(f".{path.name}.part"), recorded, self._settings.verify_ssl)
        try:
            pooch.retrieve(
                url,
                known_hash=recorded and f"sha256:{recorded.sha256}",
                fname=path.name,
                path=path.parent,
                downloader=fetcher,
            )
        except ValueError as error:  # pooch raises it if the hash differs
            if recorded is None:
                raise
            raise DownloadError(
                f"{url}: the file that was fetched is not the recorded one ({recorded}). If it changed on purpose, "
                f"record its checksum by --register_checksums. {error}"
            ) from error
        if fetcher.name and not (recorded and recorded.filename):  # the suffix determines how the file is unpacked
            path = path.replace(path.with_name(f"{path.name.partition('-')[0]}-{fetcher.name}"))
        return path

    def _note(self, url: str, path: Path) -> None:
        """Records the checksum of a downloaded URL; computes it if none is known, or checksums are being registered."""
        checksum = self._settings.checksums.get(url)
        if checksum is None or self.register_checksums:
            filename = path.name.partition("-")[2] if path.parent == self.download_dir else path.name
            checksum = Checksum(path.stat().st_size, _sha256_once(path), filename)
        self._fetched[url] = checksum

    def _download_and_extract(self, resource: Any) -> Path:
        """Returns the path of the extracted archive, or of the downloaded file if it is not an archive.

        Args:
            resource: a URL or a `Resource`.
        """
        path = self._download(resource)
        method = _method_of(resource, path)
        return path if method is ExtractMethod.NO_EXTRACT else self._extract(Resource(None, method, path))

    def _extract(self, resource: Any) -> Path:
        """Extracts an archive unless it is unchanged since it was extracted; returns the directory or file."""
        path, method = _path_of(resource), _method_of(resource)
        stat = path.stat()
        key = hashlib.sha256(f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns} {method}".encode()).hexdigest()[:16]
        target = self.download_dir / "extracted" / f"{key}-{_end_of(path.name)}"
        if not target.exists():
            extract(path, method, target)
        return target


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
    method = _method_of(path) if method is None else method
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
    limit = num_left = max(_BOMB_BYTES, _BOMB_RATIO * path.stat().st_size)
    with _replacing(target) as temporary, contextlib.closing(_members(path, method, links=False)) as members:
        if method not in _SINGLE:
            temporary.mkdir()
        for name, open_member in members:
            with _call_guarded(path, open_member) as source, _create_member(temporary / name, path) as sink:
                while piece := _call_guarded(path, source.read, _PIECE):
                    num_left -= len(piece)
                    if num_left < 0:
                        raise DownloadError(
                            f"{path} unpacks to more than {limit:,} bytes, {_BOMB_RATIO} times its size: an archive of "
                            "files seldom does. Read it by iter_archive() if it is one."
                        )
                    sink.write(piece)


def _create_member(target: Path, archive: Path) -> IO[bytes]:
    """Returns a new file for a member of an archive; two may have paths of which one is below the other."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")
    except (OSError, RecursionError) as error:
        raise DownloadError(f"{archive} has a member that cannot be unpacked: {error!s:.300}") from error


def _members(
    path: Path, method: ExtractMethod, *, links: bool = True
) -> Generator[tuple[str, Callable[[], IO[bytes]]]]:
    """Yields path and opener of the files of an archive; links open the file that they lead to, or are errors."""
    if method is ExtractMethod.NO_EXTRACT:
        raise DownloadError(f"{path} is of no kind of archive that is known: {', '.join(_METHOD_OF)}.")
    if not path.stat().st_size:
        raise DownloadError(f"{path} is damaged: it is empty.")
    if method in _SINGLE:
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
                    f"{path} has a member {name!r}, which leads out of the archive; it is not unpacked."
                )
            if is_link and not links:
                raise DownloadError(f"{path} has the link {name!r}, which is not unpacked. Use iter_archive().")
            if not is_link or _leads_to_member(open_member):
                yield name, open_member


def _leads_to_member(open_link: Callable[[], Any]) -> bool:
    """Returns whether a link leads to a file of the archive that can be read now."""
    try:
        return open_link() is not None
    except (KeyError, tarfile.TarError, RecursionError):
        return False


def _call_guarded(path: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a function on an archive; errors of libraries about damage become a `DownloadError`."""
    try:
        return function(*arguments)
    except (
        tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError,
        IndexError,
    ) as e:  # fmt: skip
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise DownloadError(f"{path} is damaged, or no such archive: {type(e).__name__}: {e}") from e


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
        problem = f"{path}: expected an archive without a password, got {member.filename!r} encrypted"
    elif member.compress_type not in _ZIP_METHODS:
        problem = (
            f"{path}: expected members by deflate, bzip2 or LZMA, got {member.filename!r} by method "
            f"{member.compress_type}"
        )
    else:
        return archive.open(member)
    return io.BufferedReader(_UnreadableFile(member.filename, f"{problem}. Unpack it by hand into manual_dir."))


class _UnreadableFile(io.RawIOBase):
    """A file of an archive that cannot be read, so that the others can."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self._problem = name, problem

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Raises DownloadError."""
        raise DownloadError(self._problem)


def _tar_members(path: Path) -> Generator[tuple[str, bool, Callable[[], Any]]]:
    """Yields (name, whether it is a link, opener) of the files and links; detects the compression by content.

    Devices and pipes, which have no content, are left out with a warning.
    """
    with path.open("rb") as file:
        codec = codec_of_content(file.read(MAX_MAGIC))
    by_codec: dict[Any, Any] = {GZIP: gzip.open, BZIP2: bz2.open, XZ: lzma.open}
    open_compressed = by_codec.get(codec, open)
    with open_compressed(path, "rb") as content, tarfile.open(fileobj=content, mode="r:") as archive:
        for member in archive:
            if member.isdev():
                _LOGGER.warning("%s: the device or pipe %r is left out", path, member.name)
            elif not member.isdir():
                yield member.name, not member.isfile(), functools.partial(archive.extractfile, member)
        _check_end_of_tar(archive, content)


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
def _replacing(target: Path) -> Iterator[Path]:
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


class _Fetcher:
    """Fetches a URL for pooch: goes on with what is there, and tries again what may pass.

    Args:
        partial_path: path of the partial file.
        recorded: recorded checksum of the file; None if there is none.
        verify_ssl: whether certificates of servers are verified.
    """

    def __init__(self, partial_path: Path, recorded: Checksum | None, verify_ssl: bool) -> None:
        self._part, self._known, self._verify_ssl = partial_path, recorded, verify_ssl
        self._tag = partial_path.with_name(partial_path.name + ".etag")
        self.name = ""  # that the server gives the file

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        self._part.parent.mkdir(parents=True, exist_ok=True)
        with storage.locked(self._part):
            self._fetch(url)
            os.replace(self._part, output_file)

    def _fetch(self, url: str) -> None:
        """Fetches the URL into the part file; waits longer after each attempt that fails for a reason that may pass.

        Raises:
            DownloadError: all attempts failed, or another one would not help.
        """
        import requests

        pause = 1.0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._attempt(url)
                break
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError,
                    _TryAgainError) as error:  # fmt: skip
                if isinstance(error, requests.exceptions.SSLError):
                    raise DownloadError(
                        f"{url}: the certificate of the server is not accepted: {error}. If you trust it without, give "
                        "--no_verify_ssl (or DownloadConfig(verify_ssl=False))."
                    ) from error
                unreachable = _connection_problem(error)
                cause = unreachable or error
                if attempt >= (_ATTEMPTS_TO_CONNECT if unreachable else _ATTEMPTS):
                    raise DownloadError(
                        f"{url} could not be fetched in {attempt} attempts: {cause}. Try again later, or fetch it by "
                        "hand into manual_dir."
                    ) from error
                requested_pause = getattr(error, "pause", None)
                seconds = min(requested_pause if requested_pause is not None else pause, _MAX_PAUSE)
                _LOGGER.warning("%s: %s. Trying again in %.0f s", url, cause, seconds)
                time.sleep(seconds)
                pause *= 2
            except requests.RequestException as error:
                raise DownloadError(f"{url} could not be fetched: {error}") from error
        self._tag.unlink(missing_ok=True)

    def _attempt(self, url: str) -> None:
        """Downloads the bytes that the partial file lacks.

        Raises:
            _TryAgainError: not all came, or the server says that it is busy.
            DownloadError: the file has another size than was recorded.
        """
        import requests

        num_present = self._part.stat().st_size if self._part.exists() else 0
        tag = self._tag.read_text() if num_present and self._tag.exists() else ""
        headers = {"Accept-Encoding": "identity"}
        if tag:
            headers |= {"Range": f"bytes={num_present}-", "If-Range": tag}
        with requests.get(url, stream=True, timeout=_TIMEOUT, headers=headers, verify=self._verify_ssl) as response:
            goes_on = self._check_answer(url, response, num_present if tag else None)
            if not goes_on:
                os.truncate(self._part, 0)  # before the tag of the new file is written
            size = self._store(response, num_present if goes_on else 0)
        self._check_is_no_page(url, response)
        if self._known and size != self._known.size:
            os.truncate(self._part, 0)
            raise DownloadError(
                f"{url} has {size:,} bytes, but checksums.tsv has {self._known.size:,}. If it changed on purpose, "
                "record it again by --register_checksums."
            )

    def _check_is_no_page(self, url: str, response: requests.Response) -> None:
        """Raises DownloadError if the server sent a page of HTML for a file without a checksum, of another suffix."""
        is_page = response.headers.get("Content-Type", "").lower().startswith("text/html")
        suffix = posixpath.splitext(self.name or urllib.parse.urlsplit(url).path)[1]
        if self._known or not is_page or _OF_PAGES.fullmatch(suffix):
            return
        with self._part.open("rb") as file:
            is_page = format_of(file.read(HEAD_BYTES)) == HTML
        if is_page:
            os.truncate(self._part, 0)
            raise DownloadError(
                f"{url}: expected a {suffix} file, got {HTML}, such as an error or a form to sign in. Fetch it "
                "by hand into manual_dir; if it is right, give its checksum in checksums.tsv."
            )

    def _check_answer(self, url: str, response: requests.Response, first_byte: int | None) -> bool:
        """Returns True if the response is the rest of the file from `first_byte` on, False if it is the whole file.

        Raises:
            _TryAgainError: the server says that it is busy, or answers with a part that was not asked for.
            DownloadError: the response is not the file.
        """
        if response.status_code in (408, 425, 429, 500, 502, 503, 504):
            raise _TryAgainError(f"status {response.status_code}", _retry_after(response))
        if response.status_code == 416:  # the partial file is of another version
            os.truncate(self._part, 0)
            raise _TryAgainError("status 416, so it is fetched from its beginning", 0.0)
        response.raise_for_status()
        if response.status_code not in (200, 206):
            raise DownloadError(f"{url}: the server answers with status {response.status_code}, without the file.")
        asked_of = [answer.url for answer in (*response.history, response)]
        plain = [one for one in asked_of if one.startswith("http:")]
        if self._known is None and url.startswith("https:") and plain:
            raise DownloadError(
                f"{url} leads to {plain[0]}, which anybody on the way can change. Give that URL if you trust it, "
                "or record the checksum of this one in checksums.tsv."
            )
        goes_on = response.status_code == 206
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {first_byte}-"):
            os.truncate(self._part, 0)
            raise _TryAgainError("the server sent another range, so it is fetched from its beginning", 0.0)
        return goes_on

    def _store(self, response: requests.Response, start: int) -> int:
        """Appends the body of a response to the partial file, and returns the size of that file in bytes.

        Raises:
            _TryAgainError: not all came.
        """
        self.name = _server_file_name(response)
        encoding = _compression(response)
        is_packed = bool(encoding)  # though not asked for
        tag = response.headers.get("ETag", "")  # a later request for the rest must match it
        self._tag.write_text("" if is_packed or tag.startswith("W/") else tag)
        length = _parse_header_number(response.headers.get("Content-Length"))
        with self._part.open("ab") as file, _bar(self._part, start, None if is_packed else length) as bar:
            # of a piece that is cut nothing comes
            for piece in _unpacked(response, encoding) if is_packed else response.iter_content(_PIECE >> 4):
                file.write(piece)
                bar.update(len(piece))
        came, size = response.raw.tell(), self._part.stat().st_size  # the received bytes may have been decompressed
        total = _parse_header_number(response.headers.get("Content-Range", "").rpartition("/")[2]) if start else None
        for num_received, num_expected in ((came, length), (size, total)):
            if num_expected is not None and num_received != num_expected:
                raise _TryAgainError(f"{num_received:,} of {num_expected:,} bytes came", None)
        return size


def _compression(response: requests.Response) -> str:
    """Returns the compression of a response for the transfer: 'gzip', 'deflate', or '' for none.

    Names in Content-Encoding that mean no compression, such as aws-chunked of S3, are ignored.

    Raises:
        DownloadError: the response has another compression, or several.
    """
    header = response.headers.get("Content-Encoding", "").lower()
    names = [name.strip().removeprefix("x-") for name in header.split(",")]
    compressions = [name for name in names if name in ("gzip", "deflate", "br", "zstd", "compress", "dcb", "dcz")]
    if compressions and compressions not in (["gzip"], ["deflate"]):
        raise DownloadError(
            f"{response.url}: expected the file as it is or by gzip, got Content-Encoding {header!r}. Fetch it by "
            "hand into manual_dir."
        )
    return compressions[0] if compressions else ""


def _unpacked(response: requests.Response, encoding: str) -> Iterator[bytes]:
    """Yields the content of a response that is compressed for the transfer; requests accepts one without its end.

    Args:
        response: the response, of which nothing has been read.
        encoding: 'gzip' or 'deflate'.

    Raises:
        _TryAgainError: the compressed stream has no end, or is damaged.
    """
    import urllib3

    decoder, is_open, form = None, False, _GZIP_OR_ZLIB
    try:
        for piece in response.raw.stream(_PIECE >> 4, decode_content=False):
            remaining = piece if is_open else piece.lstrip(b"\0")  # zeros may follow a stream of gzip
            while remaining:
                if decoder is None:
                    is_raw = encoding == "deflate" and (
                        remaining[0] & 15 != 8 or int.from_bytes(remaining[:2], "big") % 31
                    )
                    form = -zlib.MAX_WBITS if is_raw else _GZIP_OR_ZLIB  # RFC 9110: some servers leave out the header
                    decoder = zlib.decompressobj(form)
                is_open = True
                yield decoder.decompress(remaining)
                remaining = decoder.unused_data.lstrip(b"\0")
                if decoder.eof:
                    decoder, is_open = zlib.decompressobj(form), False
    except (zlib.error, urllib3.exceptions.HTTPError) as error:
        raise _TryAgainError(f"the {encoding} stream cannot be read: {error}", None) from error
    if is_open:
        raise _TryAgainError(f"expected the end of the {encoding} stream, got the end of the answer", None)


def _connection_problem(error: Exception) -> Exception | None:
    """Returns the cause of a failed connection; None if there was a connection."""
    import urllib3

    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return reason if isinstance(reason, urllib3.exceptions.NewConnectionError) else None


def _parse_header_number(header: str | None) -> int | None:
    """Returns the number that a header has; None for anything else."""
    return int(header) if header and re.fullmatch("[0-9]{1,15}", header) else None


def _bar(partial_path: Path, start: int, length: int | None) -> Any:
    """Returns a bar of tqdm for a file's bytes, which shows nothing unless standard error is a terminal.

    Args:
        partial_path: path of the partial file, '<digits>-<name>.part'; the bar shows the name.
        start: number of bytes that are there already.
        length: number of bytes that follow; None if it is unknown.
    """
    from tqdm import tqdm

    name = partial_path.name.partition("-")[2].removesuffix(".part")
    total = None if length is None else start + length
    options: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "leave": False}
    options["disable"] = None if show_progress else True  # None: without a terminal
    return tqdm(desc=f"Download {name}", total=total, initial=start, **options)


class _TryAgainError(Exception):
    def __init__(self, message: str, pause: float | None) -> None:
        super().__init__(message)
        self.pause = pause


def _retry_after(response: requests.Response) -> float | None:
    """Returns the seconds that a server asks to wait, as a number or until a date; None if it does not."""
    import urllib3

    with contextlib.suppress(urllib3.exceptions.InvalidHeader, ValueError):  # a date of year 10000
        return urllib3.Retry().get_retry_after(response.raw)
    return None


def _server_file_name(response: requests.Response) -> str:
    """Returns the name of the file that the server sends along, which may differ from the URL's; '' without any."""
    from email.message import Message

    header = Message()
    header["Content-Disposition"] = response.headers.get("Content-Disposition", "")
    name = posixpath.basename((header.get_filename() or "").replace("\\", "/"))
    return _end_of("".join(filter(str.isprintable, name)))


def _end_of(name: str) -> str:
    """Returns the end of a file's name, so that no file system finds it too long."""
    return name.encode("utf-8", "replace")[-100:].decode("utf-8", "ignore")


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Returns lists, tuples and dicts with the function's results in place of their leaves."""
    if isinstance(tree, (str, os.PathLike, Resource, Future)):
        return function(tree)
    if isinstance(tree, Mapping):
        return {name: _map(function, branch) for name, branch in tree.items()}
    if not isinstance(tree, Iterable):
        raise TypeError(
            f"{tree!r:.200} of type {type(tree).__name__}; needed: a URL, a Resource, lists or dicts of them."
        )
    branches = [_map(function, branch) for branch in tree]
    return tuple(branches) if isinstance(tree, tuple) else branches


def _url_of(resource: Any) -> str:
    """Returns the URL of a resource, which is also a path or the URL itself.

    Raises:
        TypeError: it is something else.
    """
    url = resource.url if isinstance(resource, Resource) else resource
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    if not isinstance(url, str):
        raise TypeError(f"{resource!r:.200}; needed: a URL, or a Resource with one.")
    return url


def _local_path(url: str) -> Path | None:
    """Returns the path of a file:// URL, or of text without a scheme; None of another URL.

    >>> _local_path("file:///data/a%20b.zip").as_posix(), _local_path("data/a.zip").as_posix(), _local_path("gs://b/a")
    ('/data/a b.zip', 'data/a.zip', None)
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        return Path(urllib.request.url2pathname(parts.path))
    return Path(url).expanduser() if "://" not in url else None


def _path_of(resource: Any) -> Path:
    """Returns the local path that a path or a `Resource` names.

    Raises:
        TypeError: a `Resource` has no path.
    """
    path = resource.path if isinstance(resource, Resource) else resource
    if path is None:
        raise TypeError(f"{resource!r:.200}; needed: a path, or a Resource with one.")
    return Path(path)


def _method_of(resource: Any, path: Path | None = None) -> ExtractMethod:
    """Returns the method to extract a file: that of its `Resource`, or by the extension of its name.

    Args:
        resource: a path or a `Resource`.
        path: the local file; None for the path of the resource.
    """
    if isinstance(resource, Resource) and resource.extract_method:
        return resource.extract_method
    name = os.fspath(path or _path_of(resource)).lower()
    return next((method for ending, method in _METHOD_OF.items() if name.endswith(ending)), ExtractMethod.NO_EXTRACT)


def _sha256(path: Path) -> str:
    """Returns the SHA-256 digest of a file, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _sha256_once(path: Path) -> str:
    """Returns the SHA-256 of a file; caches it in a hidden file beside it, for the same size and time."""
    stat, cache_path = path.stat(), path.with_name(f".{path.name.partition('-')[0]}.sha256")
    state = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        cached_state, _, digest = cache_path.read_text().rpartition(" ")
        if cached_state == state and len(digest) == 64:
            return digest
    digest = _sha256(path)
    with contextlib.suppress(OSError):  # others may own the directory
        storage.write_bytes(str(cache_path), f"{state} {digest}".encode())
    return digest
