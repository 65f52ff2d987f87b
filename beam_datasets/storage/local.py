"""Files of this machine, by `os`."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import mmap
import os
import shutil
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import BinaryIO

from beam_datasets.errors import PathExistsError, PathNotFoundError, PathPermissionError, StorageError
from beam_datasets.extras import Buffer
from beam_datasets.storage.backend import Reader, Usage, Writer, count_read, count_write
from beam_datasets.storage.paths import TEMPORARY_PREFIX

_WRITE_BUFFER = 128 << 10  # what is larger is written as it is; through the buffer it would be copied once more
_MAX_BUFFERS = 1000  # written together; Linux and macOS allow 1024
_WRITEBACK_BYTES = 8 << 20  # written before the disk is asked to begin with them
_SYNC_FILE_RANGE_WRITE = 2
_SMALL = 64 << 10  # bytes of a file that are read in less time than they are mapped
_SPECIAL = {stat.S_IFIFO: "a FIFO (a named pipe)", stat.S_IFSOCK: "a socket"}  # otherwise it is a device
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOSPC: "the disk is full ({}){}. Free some space, or write elsewhere",
    errno.EDQUOT: "the disk is full for this user or directory, whose quota is used up ({}){}. "
    "Free some space, raise the quota, or write elsewhere",
    errno.EFBIG: "the file is larger than a limit of this process or of the file system ({}); nothing was kept of it. "
    "Raise the limit (`ulimit -f unlimited`), or write elsewhere",
    errno.EROFS: "the file system is mounted read-only ({}), perhaps by the system after an error of the disk. Mount "
    "it for writing, or write elsewhere",
}
"""Error number -> message, with the system's own in place of the first {}, and the outcome in that of the second."""
_NO_MORE_FILES = (
    "the disk is full: it has space, but not for another file or directory, as its inodes are used up ({}){}. "
    "Remove files of any size, or write elsewhere"
)
_REMOVALS, _REMOVAL_SECONDS = 5, 0.1
_SYNCS_AT_ONCE = 32  # the journal takes them together: 2,000 files of 4 kB take 0.3 s, one after another 15 s
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}  # file systems that cannot sync a directory
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}


class LocalReader(Reader):
    """Reads by position, so that threads do not disturb each other."""

    def __init__(self, path: str, _: int | None = None) -> None:
        with _NamingPath(path):
            self.descriptor = _open_regular(path, os.O_RDONLY)
            super().__init__(path, os.fstat(self.descriptor).st_size)

    def __reduce__(self) -> tuple[type[LocalReader], tuple[str]]:
        """Pickles the path only: each copy, also in another process, opens and closes the file itself."""
        return LocalReader, (self.path,)

    def _read(self, start: int, stop: int) -> bytes:
        """Reads bytes [start, stop) by position; repeats large reads that the system does not complete.

        Raises:
            ValueError: the file was closed.
            StorageError: it cannot be read, or is shorter than it was.
        """
        descriptor = self.descriptor
        if descriptor is None:
            raise ValueError(f"{self.path}: the file was closed")
        count_read(stop - start)
        try:
            data = os.pread(descriptor, stop - start, start)
            if len(data) == stop - start:
                return data
            return self._read_on(descriptor, data, start, stop)
        except OSError as error:
            raise _as_storage_error(self.path, error) from error

    def _read_on(self, descriptor: int, data: bytes, start: int, stop: int) -> bytes:
        """Returns bytes [start, stop) after a read that returned only the first of them, as Linux does above 2 GiB.

        Args:
            descriptor: descriptor of the file.
            data: the bytes that the read returned, from `start` on.
            start: offset of the first byte in the file.
            stop: offset after the last byte.
        """
        parts = [data]
        start += len(data)
        while start < stop:
            data = os.pread(descriptor, stop - start, start)
            if not data:
                problem = f"it had {self.size} bytes and became shorter while it was read: it ends at byte {start}"
                raise StorageError(problem, path=self.path, expected=f"{self.size} bytes", got=f"{start}")
            parts.append(data)
            start += len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Closes the file."""
        descriptor = self.__dict__.pop("descriptor", None)  # one of several threads gets it
        if descriptor is not None:
            self._close(descriptor)

    _close = staticmethod(os.close)  # of the class, because modules may be empty when the interpreter ends

    def __del__(self) -> None:
        self.close()


def open_to_lock(path: str) -> BinaryIO:
    """Opens a file without changing it, and creates it if it is missing.

    Raises:
        StorageError: it cannot be written.
    """
    with _NamingPath(path):
        return open(path, "ab")


def lock(file: BinaryIO, path: str) -> bool:
    """Waits for the lock of an open file; returns whether it is still the file at this path.

    Another process may have moved or removed the file while this one waited.

    Raises:
        StorageError: the file system has no locks, or the path cannot be accessed.
    """
    with _NamingPath(path):
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except FileNotFoundError:
            return False


class LocalWriter(Writer):
    """Writes under a temporary name of its own beside the file, and renames at the end."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._flushed = 0
        directory = os.path.dirname(path)
        self._temporary = _temporary_in(directory)
        with _NamingPath(path):
            try:
                self._file = open(self._temporary, "xb", buffering=_WRITE_BUFFER)  # noqa: SIM115
            except FileNotFoundError:
                os.makedirs(directory, exist_ok=True)  # as on an object store, which has no directories
                self._file = open(self._temporary, "xb", buffering=_WRITE_BUFFER)  # noqa: SIM115

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Appends the buffers; removes the temporary file on an error."""
        with _NamingPath(self.path, self.abort):
            if isinstance(buffers, list) and len(buffers) > 1:
                self._file.flush()
                _write_together(self._file.fileno(), buffers)
            else:
                self._file.writelines(buffers)
            if self._file.tell() - self._flushed >= _WRITEBACK_BYTES:
                self._flushed = self._file.tell()
                if call := _sync_file_range():  # so that publishing waits less in fsync, which reports what fails
                    call(self._file.fileno(), 0, 0, _SYNC_FILE_RANGE_WRITE)

    def commit(self) -> None:
        """Gives the file its final name; removes the temporary file on an error."""
        with _NamingPath(self.path, self.abort):
            count_write(self._file.tell())
            self._file.close()
            os.replace(self._temporary, self.path)

    def commit_new(self) -> None:
        """Gives the file its final name in one step, unless a file with this name exists.

        Raises:
            PathExistsError: a file has this name.
        """
        with _NamingPath(self.path, self.abort):
            count_write(self._file.tell())
            self._file.close()
            os.link(self._temporary, self.path)
            os.unlink(self._temporary)

    def abort(self) -> None:
        """Removes the temporary file."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


def _write_together(descriptor: int, buffers: list[Buffer]) -> None:
    """Writes buffers with as few system calls as possible: the system then takes large pages, which costs less."""
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    for i in range(0, len(views), _MAX_BUFFERS):
        batch = views[i : i + _MAX_BUFFERS]
        num_written = os.writev(descriptor, batch)
        for view in batch:  # the bytes that a full disk or a signal left unwritten
            remaining, num_written = view[num_written:], max(0, num_written - len(view))
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]


@functools.cache
def _sync_file_range() -> Callable[..., int] | None:
    """Returns `sync_file_range` of Linux, which starts to write a range of a file to the disk without waiting.

    It takes (descriptor, offset, size in bytes, flags). Returns None on other systems.
    """
    call = getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call


def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    return _stat(path) is not None


def is_dir(path: str) -> bool:
    """Returns whether there is a directory."""
    status = _stat(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _stat(path: str) -> os.stat_result | None:
    """Returns the status of a path; None if it does not exist. Raises an error without permission to know."""
    try:
        return os.stat(path)
    except PermissionError as error:
        raise _as_storage_error(path, error) from error
    except (OSError, ValueError):  # the latter of a null byte in a path
        return None


def size(path: str) -> int:
    """Returns the file's size in bytes."""
    with _NamingPath(path):
        return _stat_regular(path).st_size


def list_dir(path: str) -> list[str]:
    """Returns the names in a directory."""
    with _NamingPath(path):
        return os.listdir(path)


def make_dirs(path: str) -> None:
    """Makes the directory and those above it, even if another process removes an empty one meanwhile, once."""
    try:
        try:
            os.makedirs(path, exist_ok=True)
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
    except OSError as error:  # of the first that is missing, which may have another name than the last
        raise _as_storage_error(error.filename or path, error, "this directory cannot be made: ") from error


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    is_given = path.startswith(("/dev/fd/", "/proc/self/fd/", "/dev/stdin"))  # as a shell passes <(command), and pipes
    opener = None if is_given else _open_regular
    with _NamingPath(path), open(path, "rb", buffering=0, opener=opener) as file:
        data = file.read()
        count_read(len(data))
        return data


open_reader, open_writer = LocalReader, LocalWriter


def check_writable(path: str) -> None:
    """Checks that a file can be created or replaced: its nearest existing directory permits it.

    Raises:
        StorageError: the path is not a regular file, or this directory cannot be written.
    """
    with _NamingPath(path):
        if os.path.exists(path):
            _stat_regular(path)  # anything else would be replaced
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    with _NamingPath(folder):
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)


def _temporary_in(directory: str) -> str:
    """Returns the path of a temporary file with a random name in a directory; does not create it."""
    return os.path.join(directory, TEMPORARY_PREFIX + os.urandom(16).hex())


def create_bytes(path: str, data: Buffer) -> None:
    """Writes a whole file if it does not exist, in one step: by a hard link."""
    writer = LocalWriter(path)
    writer.write([data])
    try:
        writer.commit_new()
    except StorageError as error:
        if error.errno not in _NO_LINKS:
            raise
        _create_in_place(path, data)


def _create_in_place(path: str, data: Buffer) -> None:
    """Creates a file on a file system without hard links: only one process can do so, but readers may see a part."""
    with _NamingPath(path):
        file = open(path, "xb")  # noqa: SIM115
    with _NamingPath(path, lambda: remove(path)), file:
        file.write(data)
        count_write(file.tell())


def usage(path: str) -> Usage:
    """Returns the bytes that a file or a directory takes."""
    statuses = _list_statuses(path)
    num_bytes = sum(each.st_size for each in statuses if stat.S_ISREG(each.st_mode))  # a directory's own says nothing
    return Usage(num_bytes, max(each.st_mtime for each in statuses))


def _list_statuses(path: str) -> list[os.stat_result]:
    """Returns the status of a path and of everything in it; entries that are deleted meanwhile are left out."""
    with _NamingPath(path):
        statuses = [os.lstat(path)]
    for folder, folders, names in os.walk(path) if stat.S_ISDIR(statuses[0].st_mode) else ():
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # gone meanwhile
                statuses.append(os.lstat(os.path.join(folder, name)))
    return statuses


def freed(paths: Iterable[str]) -> int:
    """Returns the bytes that removing files and directories frees: those of files without a name elsewhere."""
    files = [each for path in paths for each in _list_statuses(path) if stat.S_ISREG(each.st_mode)]
    names = Counter((each.st_dev, each.st_ino) for each in files)
    last = {(each.st_dev, each.st_ino): each for each in files}
    return sum(each.st_size for file, each in last.items() if names[file] == each.st_nlink)


def file_sizes(path: str) -> dict[str, int]:
    """Returns {path below the directory: size in bytes} of all files below it."""
    with _NamingPath(path):
        os.stat(path)
        return {
            os.path.relpath(os.path.join(folder, name), path): os.lstat(os.path.join(folder, name)).st_size
            for folder, _, names in os.walk(path)
            for name in names
        }


def remove_if_empty(path: str) -> None:
    """Removes a directory if it exists and there is nothing in it."""
    with _NamingPath(path), contextlib.suppress(FileNotFoundError):
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def remove(path: str) -> None:
    """Removes a file."""
    with _NamingPath(path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: str) -> None:
    """Removes a directory, if it exists: renames it first; repeats this if another process creates it again."""
    for _ in range(_REMOVALS):
        trash = _temporary_in(os.path.dirname(path))
        with _NamingPath(path):
            if os.path.islink(path):
                raise NotADirectoryError(errno.ENOTDIR, "a link is not followed")
            try:
                os.rename(path, trash)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in _DISK_IS_FULL:
                    raise
                trash = path  # a quota of BTRFS that is used up allows no other name
                for name in os.listdir(path):  # metadata first: without it, nobody takes the rest for a version
                    if name.endswith(".json"):
                        os.unlink(os.path.join(path, name))
            shutil.rmtree(trash)
        if not os.path.lexists(path):
            return
        time.sleep(_REMOVAL_SECONDS)


def rename_dir(source: str, target: str) -> None:
    """Renames a directory; syncs its content to the disk before, and the directories above the target after."""
    _sync([os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names])
    _sync([folder for folder, _, _ in os.walk(source)])
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _as_storage_error(target, FileExistsError(errno.EEXIST, "")) from error
        raise _as_storage_error(source, error, f"cannot be renamed to {target}: ") from error
    parent, *ancestors = map(str, PurePath(target).parents)
    _sync_one(parent)
    for folder in ancestors:  # some may be new; those of others may be closed to this user
        with contextlib.suppress(StorageError):
            _sync_one(folder)


def move_files(source: str, target: str, names: Iterable[str]) -> None:
    """Moves files of a directory into another one, and creates that if necessary. Files that do not exist are left out.

    Args:
        source: the directory of the files.
        target: the other directory, on the same disk.
        names: names of the files.
    """
    make_dirs(target)
    for name in names:
        with _NamingPath(os.path.join(source, name)), contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(source, name), os.path.join(target, name))


def _sync(paths: list[str]) -> None:
    """Waits until files and directories are on the disk, several at once."""
    with ThreadPoolExecutor(min(len(paths) + 1, _SYNCS_AT_ONCE)) as executor:
        list(executor.map(_sync_one, paths))


def _sync_one(path: str) -> None:
    """Waits until a file or directory is on the disk; ignores file systems that cannot sync directories."""
    with _NamingPath(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC or not os.path.isdir(path):
                raise
        finally:
            os.close(descriptor)


def link(source: str, target: str) -> None:
    """Gives a file another name on the same disk; of a symbolic link, the file that it leads to."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(os.path.realpath(source), target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise StorageError(f"it is on another disk than {source}", path=target, advice="Copy the file.") from error
        raise _as_storage_error(target if isinstance(error, FileExistsError) else source, error) from error


def memory_map(path: str) -> Buffer:
    """Returns the file's bytes, mapped into memory; those of a small file are read."""
    with _NamingPath(path), open(path, "rb", buffering=0, opener=_open_regular) as file:
        if os.fstat(file.fileno()).st_size > _SMALL:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return file.read()


def _open_regular(path: str, flags: int) -> int:
    """Opens a regular file; raises an error for a FIFO, which would wait for a writer, and for a device."""
    _stat_regular(path)
    return os.open(path, flags)


def _stat_regular(path: str) -> os.stat_result:
    """Returns the status of a regular file; for anything else, raises an OSError that names its kind."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        kind = _SPECIAL.get(stat.S_IFMT(status.st_mode), "a device")
        raise OSError(errno.EINVAL, f"it is not a regular file but {kind}", path)
    return status


class _NamingPath:
    """Context manager: converts an OSError to an error of this package with the path; calls `undo` on any error.

    A generator with `contextlib.contextmanager` would be in a reference cycle with the error and its traceback, from
    Python 3.12 on. That would keep what the functions below have read, such as chunks of shards without an index.
    """

    def __init__(self, path: str, undo: Callable[[], object] | None = None) -> None:
        self._path = path
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and self._undo is not None:
            self._undo()
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise _as_storage_error(self._path, error) from error


def _as_storage_error(path: str, error: OSError, consequence: str = "") -> StorageError:
    """Returns the `StorageError` for an OSError, with the same `errno`.

    Args:
        path: the file or directory.
        error: the error of the system.
        consequence: text for the message, before the reason, such as "this directory cannot be made: ".
    """
    if isinstance(error, StorageError):
        return error
    reason = f"{consequence}{_reason(error, path, '' if consequence else '; nothing was kept of this file')}"
    storage_error = StorageError(reason, path=path)
    if isinstance(error, FileNotFoundError):
        storage_error = PathNotFoundError(f"{consequence}the file or directory does not exist", path=path)
    elif isinstance(error, FileExistsError):
        storage_error = PathExistsError(f"{consequence}it is a file" if consequence else "exists already", path=path)
    elif error.errno == errno.EROFS:
        storage_error = PathPermissionError(reason, path=path)
    elif isinstance(error, PermissionError):
        storage_error = PathPermissionError(f"{reason}; this user ({os.geteuid()}) may not do this", path=path)
    storage_error.errno = error.errno
    return storage_error


def _lacks_only_inodes(path: str) -> bool:
    """Returns whether the file system of a path has free space but no free inode; False if that is unknown."""
    directory = path
    while directory != (parent := os.path.dirname(directory)):
        directory = parent
        try:
            usage = os.statvfs(directory)
        except FileNotFoundError:
            continue
        except OSError:  # a parent may be on another disk, so it says nothing
            return False
        return usage.f_favail == 0 and usage.f_files > 0 and usage.f_bavail > 0
    return False


def _reason(error: OSError, path: str, outcome: str) -> str:
    """Returns the reason of an error of the operating system at a path, with advice about a disk or a limit.

    Args:
        error: the error of the system.
        path: the file or directory.
        outcome: text after the reason of a full disk.
    """
    template = _REASONS.get(error.errno or 0, "{}")
    if error.errno == errno.ENOSPC and _lacks_only_inodes(path):
        template = _NO_MORE_FILES
    reason = template.format(error.strerror or str(error), outcome)
    if error.errno == errno.ENOTDIR:
        reason += "".join(f"; {parent} is a file" for parent in PurePath(path).parents if os.path.isfile(parent))
    return reason
