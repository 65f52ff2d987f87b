"""`DownloadManager`: downloads and unpacks files for builders.

Files are stored in `download_dir` under their URL and checksum; a file appears when it is complete and checked. Workers
open files that the launcher has downloaded.
"""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from beam_datasets import storage
from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.arguments import shown
from beam_datasets.downloads.archives import ExtractMethod, extract, iter_archive, method_of_name
from beam_datasets.downloads.checksums import (
    Checksum,
    add_checksums,
    compute_sha256,
    compute_sha256_once,
    read_checksums,
)
from beam_datasets.downloads.errors import DownloadError
from beam_datasets.downloads.http import PartialDownload, check_installed, shorten_file_name

MAX_AT_ONCE = 8
"""Default maximum number of simultaneous downloads."""


@dataclass(frozen=True)
class Resource:
    """A URL or a local path, with the format of the archive.

    Attributes:
        url: address of the file.
        extract_method: format of the archive; None derives it from the file's name.
        path: local path of the file, for `extract` and `iter_archive`.
    """

    url: str | None = None
    extract_method: ExtractMethod | None = None
    path: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class DownloadSettings:
    """Directories of downloads, and rules for their checksums.

    Attributes:
        download_dir: directory of downloaded files; workers must see it.
        manual_dir: directory of files that the user must provide; None for `manual` in `download_dir`.
        instructions: instructions for the user about these files.
        checksums: recorded sizes and checksums, by URL.
        register_to: file to which checksums of downloads are written instead of checking them; None checks them.
        force_checksums: a URL without checksum is an error.
        offline: whether a file that is not in `download_dir` is an error, as on workers, instead of being downloaded.
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

    def __post_init__(self) -> None:
        """Converts paths that are given as text; raises a ValueError if one is a URL."""
        for name in ("download_dir", "manual_dir", "register_to"):
            path = getattr(self, name)
            if path is not None:
                storage.check_slashes(os.fspath(path))
                if storage.is_remote(path):
                    raise ValueError(f"{name}: expected a path of this machine, got the URL {path!r}.")
                object.__setattr__(self, name, Path(path).expanduser())

    def manager(self) -> DownloadManager:
        """Returns a manager with these settings."""
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
                f"{error}\nThis file cannot be downloaded",
                advice="Put it there by hand, or give the directory of such files by --manual_dir. "
                f"{self.instructions}".rstrip(),
            ) from error


@names_foreign_constructor_arguments
class DownloadManager:
    """Downloads and unpacks URLs and `Resource`s, also in lists and dicts at any depth.

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
        self._sizes_of_local: dict[str, int] = {}

    @property
    def download_dir(self) -> Path:
        """The directory of downloaded files."""
        return self._settings.download_dir

    @property
    def manual_dir(self) -> Path:
        """The directory of files that the user must provide.

        Raises:
            DownloadError: the directory does not exist or is empty; the message contains the instructions.
        """
        directory = self._settings.manual_files
        if not directory.is_dir() or not any(directory.iterdir()):
            problem = "is empty" if directory.is_dir() else "does not exist"
            problem = "is a file" if directory.is_file() else problem
            raise DownloadError(
                f"the directory {problem}",
                path=str(directory),
                expected="the files that this dataset needs",
                advice="This dataset's sources cannot be downloaded: put them there by hand, or give their directory "
                f"by --manual_dir. {self._settings.instructions}".rstrip(),
            )
        return directory

    @property
    def downloaded_size(self) -> int:
        """Bytes of the requested files, also of those at file:// URLs, but not of paths of this machine."""
        sizes = {url: checksum.size for url, checksum in self._fetched.items()}
        return sum({**self._sizes_of_local, **sizes}.values())

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
        paths = self._map_in_threads(self._download, urls)
        self._register()
        return paths

    def extract(self, paths: Any) -> Any:
        """Returns the paths of extracted archives: a directory each, or a file for a single compressed file.

        An archive is a path, as text, Path or file:// URL.

        Raises:
            DownloadError: an archive does not exist, is damaged, of an unknown kind, or unsafe to unpack.
        """
        return self._map_in_threads(self._extract, paths)

    def download_and_extract(self, urls: Any) -> Any:
        """Returns `extract(download(urls))`; a file that is not an archive is left as it is."""
        paths = self._map_in_threads(self._download_and_extract, urls)
        self._register()
        return paths

    def _register(self) -> None:
        """Writes the checksums of the downloaded files to checksums.tsv, if that was requested."""
        file = self._settings.register_to
        if file is not None and not self._settings.offline:
            add_checksums(file, self._fetched)

    def iter_archive(self, resource: str | os.PathLike[str] | Resource) -> Iterator[tuple[str, IO[bytes]]]:
        """Yields (path in the archive, open file) of an archive, without unpacking it; see `iter_archive`."""
        path = _path_of(resource)
        return iter_archive(path, _method_of(resource, path))

    def download_kaggle_data(self, competition_or_dataset: str) -> Path:
        """Returns a directory of the manual directory: Kaggle gives files only to who has an account.

        Raises:
            DownloadError: the directory is not there.
        """
        path = self.manual_dir / competition_or_dataset.replace("/", "_")
        if not path.is_dir():
            raise DownloadError(
                "the directory does not exist",
                path=str(path),
                advice="Download it: kaggle datasets download (or competitions download) "
                f"{competition_or_dataset}, and unpack it there.",
            )
        return path

    def download_checksums(self, urls: Any) -> None:
        """Adds the checksums that files at URLs list, in the form of checksums.tsv."""

        def add(path: Path) -> None:
            """Adds the checksums in a downloaded file to the settings."""
            self._settings = replace(self._settings, checksums={**self._settings.checksums, **read_checksums(path)})

        _map(add, self._map_in_threads(self._download, urls))

    def _map_in_threads(self, function: Callable[[Any], Any], tree: Any) -> Any:
        """Returns the tree with `function(leaf)` in place of each leaf; calls it once per distinct leaf, in threads."""
        with ThreadPoolExecutor(self._settings.max_at_once, "beam_datasets-download") as executor:
            submit = functools.cache(lambda leaf: executor.submit(function, leaf))
            try:
                return _map(Future.result, _map(submit, tree))
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise

    def _download(self, resource: str | Resource) -> Path:
        """Returns the file of a URL, after fetching it unless it is on this machine; notes its checksum."""
        url = _url_of(resource)
        checksum = self._settings.checksums.get(url)
        if (local := _local_path(url)) is not None:
            return self._check_local_file(local, url, checksum)
        path = self._find_local_file(url, checksum)
        if path is None:
            path = self._fetch_url(url, None if self.register_checksums else checksum)
        self._note(url, path)
        return path

    def _check_local_file(self, path: Path, url: str, recorded: Checksum | None) -> Path:
        """Returns a file or directory of this machine, after comparing a file with its recorded checksum.

        Args:
            path: path of the file or directory.
            url: URL that the builder gave, under which the checksum is recorded.
            recorded: the recorded checksum; None if there is none.

        Raises:
            DownloadError: it does not exist, or differs.
        """
        if not path.exists():
            raise DownloadError(
                "the file does not exist", path=str(path), expected="a file of this machine, or a URL with its scheme"
            )
        if recorded and path.is_file() and not self.register_checksums:
            size = path.stat().st_size
            actual = f"{size:,} bytes" if size != recorded.size else f"sha256 {compute_sha256(path)}"
            if size != recorded.size or not actual.endswith(recorded.sha256):
                raise DownloadError(
                    expected=f"the file that was recorded for {url} ({recorded})",
                    got=actual,
                    path=str(path),
                    advice="If it changed on purpose, record it again by --register_checksums.",
                )
        if path.is_file() and self.register_checksums:
            self._note(url, path)
        if path.is_file() and url.startswith("file:"):
            self._sizes_of_local[url] = path.stat().st_size
        return path

    def _find_local_file(self, url: str, recorded: Checksum | None) -> Path | None:
        """Returns the file of a URL in the manual or the download directory; None if it must be fetched.

        Raises:
            DownloadError: a required checksum is missing or differs, or a worker would have to fetch it.
        """
        settings = self._settings
        if recorded is None and settings.force_checksums and not self.register_checksums:
            raise DownloadError(
                expected="a recorded checksum", got="none", path=url, advice="Record it by --register_checksums."
            )
        if recorded and recorded.filename and (by_hand := settings.manual_files / recorded.filename).is_file():
            is_same = by_hand.stat().st_size == recorded.size and compute_sha256(by_hand) == recorded.sha256
            if not (is_same or self.register_checksums):
                raise DownloadError(
                    expected=f"the file that was recorded for {url} ({recorded})",
                    got="another one",
                    path=str(by_hand),
                    advice="If it changed on purpose, record it again by --register_checksums.",
                )
            return by_hand
        path = self._find_downloaded(self._path_of_url(url, None if self.register_checksums else recorded))
        if recorded and not (path.is_file() or self.register_checksums):
            registered = self._find_downloaded(self._path_of_url(url, None))  # by the run that recorded the checksum
            has_name = recorded.filename in (None, registered.name.partition("-")[2])  # it decides how to unpack
            if has_name and registered.is_file() and compute_sha256_once(registered) == recorded.sha256:
                return registered
        if path.is_file() and (settings.offline or not self.register_checksums or url in self._fetched):
            return path
        if settings.offline:
            raise DownloadError(
                f"the file of {url} does not exist on this worker",
                path=str(path),
                advice="The launcher fetches it to download_dir, which workers must see: give a directory that all "
                "machines share.",
            )
        return None

    def _path_of_url(self, url: str, recorded: Checksum | None) -> Path:
        """Returns the path of a URL's file: `<hash of URL and recorded SHA-256>-<name>` in the download directory."""
        name = (recorded and recorded.filename) or posixpath.basename(urllib.parse.urlsplit(url).path) or "file"
        key = hashlib.sha256(f"{url} {recorded.sha256 if recorded else ''}".encode()).hexdigest()[:16]
        return self.download_dir / f"{key}-{shorten_file_name(name)}"

    @staticmethod
    def _find_downloaded(path: Path) -> Path:
        """Returns the downloaded file that has the hash of a path `<hash>-<name>`, whatever name the server gave it.

        Returns the path itself if there is no such file.
        """
        same_key = path.parent.glob(f"{path.name.partition('-')[0]}-*")
        return path if path.is_file() else next(filter(Path.is_file, same_key), path)

    def _fetch_url(self, url: str, recorded: Checksum | None) -> Path:
        """Fetches a URL into the download directory; returns the file, named as the server names it if it does.

        If another process fetches it at the same time, waits for that one.

        Raises:
            DownloadError: it cannot be fetched, or has another checksum than the recorded one.
        """
        check_installed()
        path = self._path_of_url(url, recorded)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A registered checksum is that of the server's current file, so one that is here already does not do.
        former_id = _file_id(self._find_downloaded(path)) if self.register_checksums else None
        partial_path, verify_ssl = path.with_name(f".{path.name}.part"), self._settings.verify_ssl
        partial = PartialDownload(url, partial_path, recorded, verify_ssl=verify_ssl)
        with storage.locked(partial.path):
            former_path = self._find_downloaded(path)
            if _file_id(former_path) not in (None, former_id):  # another process has fetched it
                partial.path.unlink()
                return former_path
            partial.complete()
            if recorded is not None and (actual := compute_sha256(partial.path)) != recorded.sha256:
                partial.clear()
                raise DownloadError(
                    expected=f"the file that was recorded ({recorded})",
                    got=f"sha256 {actual}",
                    path=url,
                    advice="If it changed on purpose, record its checksum by --register_checksums.",
                )
            if partial.file_name and not (recorded and recorded.filename):
                # the suffix determines how the file is unpacked
                path = path.with_name(f"{path.name.partition('-')[0]}-{partial.file_name}")
            partial.path.replace(path)
            if former_path != path:
                former_path.unlink(missing_ok=True)
        return path

    def _note(self, url: str, path: Path) -> None:
        """Records the checksum of a downloaded URL; computes it if none is known, or checksums are being registered."""
        checksum = self._settings.checksums.get(url)
        if checksum is None or self.register_checksums:
            filename = path.name.partition("-")[2] if path.parent == self.download_dir else path.name
            checksum = Checksum(path.stat().st_size, compute_sha256_once(path), filename)
        self._fetched[url] = checksum

    def _download_and_extract(self, resource: str | Resource) -> Path:
        """Returns the path of the extracted archive, or of the downloaded file if it is not an archive.

        Args:
            resource: a URL or a `Resource`.
        """
        path = self._download(resource)
        method = _method_of(resource, path)
        return path if method is ExtractMethod.NO_EXTRACT else self._extract(Resource(None, method, path))

    def _extract(self, resource: str | os.PathLike[str] | Resource) -> Path:
        """Extracts an archive unless it is unchanged since it was extracted; returns the directory or file."""
        path = _path_of(resource)
        method = _method_of(resource, path)
        stat = path.stat()
        key = hashlib.sha256(f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns} {method}".encode()).hexdigest()[:16]
        target = self.download_dir / "extracted" / f"{key}-{shorten_file_name(path.name)}"
        if not target.exists():
            extract(path, method, target)
        return target


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


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Returns lists, tuples and dicts with the function's results in place of their leaves."""
    if isinstance(tree, (str, os.PathLike, Resource, Future)):
        return function(tree)
    if isinstance(tree, Mapping):
        return {name: _map(function, branch) for name, branch in tree.items()}
    if isinstance(tree, (bytes, bytearray)) or not isinstance(tree, Iterable):
        raise TypeError(
            f"{tree!r:.200} of type {type(tree).__name__}; needed: a URL, a Resource, lists or dicts of them."
        )
    branches = [_map(function, branch) for branch in tree]
    return tuple(branches) if isinstance(tree, tuple) else branches


def _file_id(path: Path) -> tuple[int, int] | None:
    """Returns (inode, time of the last change in ns) of a file, which another file in its place does not have.

    Returns None if there is no file.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _url_of(resource: str | os.PathLike[str] | Resource) -> str:
    """Returns the URL of a resource, which is also a path or the URL itself.

    Raises:
        TypeError: it is something else.
        DownloadError: it is empty.
    """
    url = resource.url if isinstance(resource, Resource) else resource
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    if not isinstance(url, str):
        raise TypeError(f"{resource!r:.200}; needed: a URL, or a Resource with one.")
    if not url.strip():
        raise DownloadError(expected="a URL or a path", got=repr(url))
    return url


def _local_path(url: str) -> Path | None:
    """Returns the path of a file:// URL, or of text without a scheme; None of another URL.

    >>> _local_path("file:///data/a%20b.zip").as_posix(), _local_path("data/a.zip").as_posix(), _local_path("gs://b/a")
    ('/data/a b.zip', 'data/a.zip', None)

    Raises:
        DownloadError: a file:// URL names another machine.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise DownloadError(
                expected="a file of this machine",
                got=f"one of {parts.netloc!r}",
                path=url,
                advice="Write file:// and the absolute path, which begins with a third slash.",
            )
        return Path(urllib.request.url2pathname(parts.path))
    return Path(url).expanduser() if "://" not in url else None


def _path_of(resource: str | os.PathLike[str] | Resource) -> Path:
    """Returns the local path that a path, a file:// URL or a `Resource` names.

    Raises:
        DownloadError: the path does not exist, or it is a URL of another scheme.
        TypeError: a `Resource` has no path.
    """
    text = resource.path if isinstance(resource, Resource) else resource
    if not isinstance(text, (str, os.PathLike)):
        raise TypeError(f"{resource!r:.200}; needed: a path, or a Resource with one.")
    path = _local_path(os.fspath(text))
    if path is None:
        raise DownloadError(
            expected="an archive of this machine", got="a URL", path=os.fspath(text), advice="`download` fetches it."
        )
    if not path.exists():
        raise DownloadError("the file does not exist", path=str(path), expected="an archive of this machine")
    return path


def _method_of(resource: str | os.PathLike[str] | Resource, path: Path) -> ExtractMethod:
    """Returns the method to extract a local file: that of its `Resource`, or else by the suffix of its name."""
    return (resource.extract_method if isinstance(resource, Resource) else None) or method_of_name(path)
