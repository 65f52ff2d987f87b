"""Schemes that neither `os` nor obstore serves (hdfs://, ftp://, ...), by fsspec and its plugins."""

from __future__ import annotations

import contextlib
import datetime
import time
import uuid
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import (
    MissingDependencyError,
    PathExistsError,
    PathNotFoundError,
    PathPermissionError,
    StorageError,
)
from beam_datasets.storage.backend import Range, Reader, Usage, Writer, check_range, copy_bytes
from beam_datasets.storage.options import StoreOptions, options_of
from beam_datasets.storage.paths import TEMPORARY_PREFIX, basename

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

_TIMES = ("mtime", "LastModified", "modified", "created")
_TAGS = ("ETag", "etag", *_TIMES)


class GenericReader(Reader):
    """Asks the file system for each range."""

    def __init__(self, path: str) -> None:
        found = _info(path)
        tag = next((str(found[key]) for key in _TAGS if found.get(key)), None)
        super().__init__(path, int(found["size"]), tag)

    def _read(self, start: int, stop: int) -> bytes:
        return read_ranges(self.path, [(start, stop)])[0]

    def close(self) -> None:
        """Does nothing."""


class GenericWriter(Writer):
    """Writes under a temporary name of its own beside the file, and moves it at the end."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._fs, self._target = _at(path)
        parent, _, _ = self._target.rpartition("/")
        self._temporary = f"{parent}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        with _named(path):
            self._fs.makedirs(parent, exist_ok=True)
            self._file = self._fs.open(self._temporary, "wb")

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Appends the buffers."""
        with _named(self.path):
            for buffer in buffers:
                self._file.write(buffer)

    def commit(self) -> None:
        """Moves the file to its place."""
        try:
            with _named(self.path):
                self._file.close()
                self._fs.mv(self._temporary, self._target)
        except StorageError:
            self.abort()
            raise

    def abort(self) -> None:
        """Removes the temporary file."""
        with contextlib.suppress(Exception):
            self._file.close()
        with contextlib.suppress(Exception):
            self._fs.rm_file(self._temporary)


def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    fs, name = _at(path)
    with _named(path):
        return bool(fs.exists(name))


def is_dir(path: str) -> bool:
    """Returns whether there is a directory."""
    fs, name = _at(path)
    with _named(path):
        return bool(fs.isdir(name))


def size(path: str) -> int:
    """Returns the file's size in bytes."""
    return int(_info(path)["size"])


def _info(path: str) -> dict[str, Any]:
    fs, name = _at(path)
    with _named(path):
        found: dict[str, Any] = fs.info(name)
    if found["type"] == "directory":
        raise StorageError(f"{path}: is a directory, not a file")
    return found


def list_dir(path: str) -> list[str]:
    """Returns the names in a directory."""
    fs, name = _at(path)
    with _named(path):
        return [basename(entry) for entry in fs.ls(name, detail=False)]


def make_dirs(path: str) -> None:
    """Makes the directory and those above it."""
    fs, name = _at(path)
    with _named(path):
        fs.makedirs(name, exist_ok=True)


def read_bytes(path: str) -> bytes:
    """Returns the whole file."""
    fs, name = _at(path)
    with _named(path):
        return bytes(fs.cat_file(name))


def read_ranges(path: str, ranges: Sequence[Range]) -> list[bytes]:
    """Returns the ranges, one after another."""
    num_bytes = size(path)
    for start, stop in ranges:
        check_range(path, start, stop, num_bytes)
    fs, name = _at(path)
    with _named(path):
        return [bytes(fs.cat_file(name, start=start, end=stop)) if stop > start else b"" for start, stop in ranges]


def open_reader(path: str) -> GenericReader:
    """Returns a reader."""
    return GenericReader(path)


def open_writer(path: str) -> GenericWriter:
    """Returns a writer."""
    return GenericWriter(path)


def create_bytes(path: str, data: Buffer) -> None:
    """Writes a whole file where there is none; in one step only where the file system can create exclusively."""
    fs, name = _at(path)
    with _named(path):
        fs.makedirs(name.rpartition("/")[0], exist_ok=True)
        if fs.exists(name):
            raise FileExistsError(name)
        try:
            file = fs.open(name, "xb")
        except (ValueError, NotImplementedError):
            file = fs.open(name, "wb")
        with file:
            file.write(data)


def copy(source: str, target: str) -> None:
    """Copies a file."""
    with open_reader(source) as reader, open_writer(target) as writer:
        copy_bytes(reader, writer)


def usage(path: str) -> Usage:
    """Returns what a file or a directory takes; a file system that does not say when counts as changed just now."""
    fs, name = _at(path)
    with _named(path):
        top = fs.info(name)
        found = list(fs.find(name, detail=True).values()) or [top]
    return Usage(sum(entry["size"] or 0 for entry in found), max(map(_modified, [top, *found])))


def _modified(entry: dict[str, Any]) -> float:
    when = next((entry[key] for key in _TIMES if key in entry), None)
    if isinstance(when, datetime.datetime):
        return when.timestamp()
    return float(when) if isinstance(when, (int, float)) else time.time()


def remove(path: str) -> None:
    """Removes a file."""
    fs, name = _at(path)
    with _named(path), contextlib.suppress(FileNotFoundError):
        fs.rm_file(name)


def remove_tree(path: str) -> None:
    """Removes a directory and all below it."""
    fs, name = _at(path)
    with _named(path), contextlib.suppress(FileNotFoundError):
        fs.rm(name, recursive=True)


def _at(path: str) -> tuple[Any, str]:
    """Returns the file system and the path as it calls it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependencyError(f"{path} needs fsspec: pip install 'beam_datasets[remote]'") from error
    try:
        fs, name = fsspec.core.url_to_fs(str(path), **options_of(path).values)
    except ImportError as error:
        raise MissingDependencyError(f"{path} needs another package for fsspec: {error}") from error
    except (ValueError, OSError, TypeError) as error:
        options = options_of(path)
        raise StorageError(f"{path}: {options.redact(str(error))}") from (None if options else error)
    return fs, name


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Makes an error of the file system an error of the project that names the path."""
    options = options_of(path)
    try:
        yield
    except StorageError:
        raise
    except (OSError, NotImplementedError) as error:
        raise _translated(path, error, options) from (None if options else error)


def _translated(path: str, error: Exception, options: StoreOptions) -> StorageError:
    if isinstance(error, FileNotFoundError):
        return PathNotFoundError(f"{path}: there is no such file or directory")
    if isinstance(error, FileExistsError):
        return PathExistsError(f"{path}: exists already")
    kind = PathPermissionError if isinstance(error, PermissionError) else StorageError
    return kind(f"{path}: {options.redact(str(error)) or type(error).__name__}")
