"""Schemes that neither `os` nor obstore serves (hdfs://, ftp://, ...), by fsspec and its plugins: for reading only."""

from __future__ import annotations

import contextlib
import datetime
import time
from typing import TYPE_CHECKING, Any, NoReturn

from beam_datasets.errors import (
    MissingDependencyError,
    PathNotFoundError,
    PathPermissionError,
    StorageError,
)
from beam_datasets.storage.backend import Range, Reader, Usage, check_range
from beam_datasets.storage.options import StoreOptions, options_of
from beam_datasets.storage.paths import basename

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def _refuse(path: str, *_: object) -> NoReturn:
    raise StorageError(
        f"{path}: expected a local path or an object store, got a file system that is used by fsspec, which is "
        "for reading only. Write elsewhere and copy it."
    )


open_writer = create_bytes = create_copy = copy = make_dirs = file_sizes = remove = remove_tree = _refuse


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
    kind = PathPermissionError if isinstance(error, PermissionError) else StorageError
    return kind(f"{path}: {options.redact(str(error)) or type(error).__name__}")
