"""Schemes that neither `os` nor obstore serves (hdfs://, ftp://, ...), by fsspec and its plugins: for reading only."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from beam_datasets.errors import MissingDependencyError, PathNotFoundError, PathPermissionError, StorageError
from beam_datasets.extras import install_command
from beam_datasets.storage.backend import Reader
from beam_datasets.storage.paths import basename, options_of, url

_TAGS = ("ETag", "etag", "mtime", "LastModified", "modified", "created")
_LIBRARY_OF_HDFS = re.compile("lib(jvm|hdfs)")


class GenericReader(Reader):
    """Asks the file system for each range."""

    def __init__(self, path: str, _: int | None = None) -> None:
        with _file_system(path) as (fs, name):
            info = fs.info(name)
        if info["type"] == "directory":
            raise StorageError("is a directory, not a file", path=path)
        super().__init__(path, int(info["size"]), next((str(info[key]) for key in _TAGS if info.get(key)), None))

    def _read(self, start: int, stop: int) -> bytes:
        """Returns bytes [start, stop); see `Reader._read`."""
        with _file_system(self.path) as (fs, name):
            return bytes(fs.cat_file(name, start=start, end=stop))

    def read_again(self, start: int, stop: int) -> bytes:
        """Returns bytes [start, stop) of the file, read once more."""
        return self._read(start, stop)


open_reader = GenericReader


def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    with _file_system(path) as (fs, name):
        return bool(fs.exists(name))


def is_dir(path: str) -> bool:
    """Returns whether there is a directory."""
    with _file_system(path) as (fs, name):
        return bool(fs.isdir(name))


def size(path: str) -> int:
    """Returns the file's size in bytes."""
    return GenericReader(path).size


def list_dir(path: str) -> list[str]:
    """Returns the names in a directory."""
    with _file_system(path) as (fs, name):
        return [basename(entry) for entry in fs.ls(name, detail=False)]


def read_bytes(path: str) -> bytes:
    """Returns the whole file."""
    with _file_system(path) as (fs, name):
        return bytes(fs.cat_file(name))


def _refuse_writing(path: str, *_: object) -> NoReturn:
    """Refuses to write to or delete a path that only fsspec can access.

    Raises:
        StorageError: always.
    """
    raise StorageError(
        expected="a local path or an object store",
        got="a file system that is used by fsspec, which is for reading only",
        advice="Write elsewhere and copy it.",
        path=path,
    )


open_writer = create_bytes = make_dirs = file_sizes = usage = remove = remove_tree = _refuse_writing


def _hadoop_error(path: str) -> StorageError:
    """Returns the error for an hdfs:// URL on a machine where pyarrow cannot load the libraries of Java and Hadoop."""
    return StorageError(
        expected="the libraries of Java and Hadoop (libjvm, libhdfs), by which pyarrow reads HDFS",
        got="none that can be loaded",
        path=path,
        advice="Install both and set JAVA_HOME, HADOOP_HOME and CLASSPATH=`hadoop classpath --glob`, or copy the "
        "directory to a local disk or an object store. HDFS is for reading only.",
    )


@contextlib.contextmanager
def _file_system(path: str) -> Iterator[tuple[Any, str]]:
    """Context manager: provides (fsspec file system, path in this file system), and converts its errors.

    Raises:
        MissingDependencyError: fsspec, or its package for this kind of URL, is not installed.
        PathNotFoundError: the file or directory does not exist.
        StorageError: any other error of the file system; PathPermissionError if access is denied.
    """
    options = options_of(path)
    try:
        import fsspec

        yield fsspec.core.url_to_fs(url(path), **options.values)
    except ImportError as error:
        requirement = "another package for fsspec" if error.name != "fsspec" else install_command("remote")
        raise MissingDependencyError(f"{path} needs {requirement}: {error}") from error
    except FileNotFoundError as error:
        raise PathNotFoundError("the file or directory does not exist", path=path) from (None if options else error)
    except (OSError, NotImplementedError, ValueError, TypeError) as error:
        kind = PathPermissionError if isinstance(error, PermissionError) else StorageError
        if _LIBRARY_OF_HDFS.search(str(error)):
            raise _hadoop_error(path) from error
        reason = options.redact(str(error)) or type(error).__name__
        raise kind(reason, path=path) from (None if options else error)
