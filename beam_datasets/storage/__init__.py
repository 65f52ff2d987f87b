"""The only package that accesses a file system: local paths by `os`, object stores by obstore, other schemes by fsspec.

A path is a `str`; every function here takes any `os.PathLike` too, expands `~`, and makes a relative path absolute.
`s3://`, `gs://`, `az://`, `abfs://`, `https://`, `http://` and `memory://` (of this process, for tests) go to
obstore; it takes its options from the environment, for instance AWS_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SKIP_SIGNATURE,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME; or of one URL by `with_options`.

Errors are `errors.StorageError`, and FileNotFoundError, FileExistsError or PermissionError where that is what happened;
they begin with the path.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Iterable, Iterator

from beam_datasets.errors import PathExistsError, PathNotFoundError, StorageError
from beam_datasets.extras import Buffer
from beam_datasets.storage import local, paths
from beam_datasets.storage.backend import Backend
from beam_datasets.storage.backend import Reader as Reader
from beam_datasets.storage.backend import Requests as Requests
from beam_datasets.storage.backend import Usage as Usage
from beam_datasets.storage.backend import Writer as Writer
from beam_datasets.storage.backend import sum_requests as sum_requests
from beam_datasets.storage.backend import take_requests as take_requests
from beam_datasets.storage.paths import TEMPORARY_PREFIX as TEMPORARY_PREFIX
from beam_datasets.storage.paths import PathLike
from beam_datasets.storage.paths import as_text as as_text
from beam_datasets.storage.paths import basename as basename
from beam_datasets.storage.paths import check_slashes as check_slashes
from beam_datasets.storage.paths import dirname as dirname
from beam_datasets.storage.paths import has_options as has_options
from beam_datasets.storage.paths import is_remote as is_remote
from beam_datasets.storage.paths import is_temporary as is_temporary
from beam_datasets.storage.paths import join as join
from beam_datasets.storage.paths import normalize as normalize
from beam_datasets.storage.paths import url as url
from beam_datasets.storage.paths import with_options as with_options
from beam_datasets.storage.paths import with_options_if_remote as with_options_if_remote

_CREATING_STORES = frozenset(["s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "memory"])
_OBJECT_STORES = _CREATING_STORES | {"https", "http"}


def exists(path: PathLike) -> bool:
    """Returns whether there is a file or a directory."""
    backend, path = _resolve_backend(path)
    return backend.exists(path)


def is_dir(path: PathLike) -> bool:
    """Returns whether there is a directory; on an object store, whether there is anything below it."""
    backend, path = _resolve_backend(path)
    return backend.is_dir(path)


def size(path: PathLike) -> int:
    """Returns the file's size in bytes.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    backend, path = _resolve_backend(path)
    return backend.size(path)


def list_dir(path: PathLike, *, missing_ok: bool = False) -> list[str]:
    """Returns the names in a directory, sorted.

    Args:
        path: the directory.
        missing_ok: whether the names are [] if there is no directory, which on an object store has something below it.

    Raises:
        FileNotFoundError: there is no directory, unless `missing_ok`.
    """
    backend, path = _resolve_backend(path)
    try:
        return sorted(backend.list_dir(path))
    except (StorageError, ValueError) as error:  # the latter of a null byte in a path
        if missing_ok and (isinstance(error, FileNotFoundError) or not backend.is_dir(path)):
            return []
        raise


def make_dirs(path: PathLike) -> None:
    """Makes the directory and those above it, if they are missing; nothing on an object store."""
    backend, path = _resolve_backend(path)
    backend.make_dirs(path)


def read_bytes(path: PathLike) -> bytes:
    """Returns the content of a file.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    backend, path = _resolve_backend(path)
    return backend.read_bytes(path)


def open_reader(path: PathLike, *, size: int | None = None) -> Reader:
    """Opens a file to read ranges of it; threads may share the reader.

    Args:
        path: the file.
        size: the size in bytes, or the end of the last range, if known; otherwise an object store needs a request for
            it.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    backend, path = _resolve_backend(path)
    return backend.open_reader(path, size)


def open_writer(path: PathLike) -> Writer:
    """Opens a file to write, which is invisible until it is committed. Directories above it are made.

    Locally it is written under a temporary name beside the file (`TEMPORARY_PREFIX` and a unique rest) and renamed.
    On an object store it is an upload in parts; of one that was aborted, the store may keep invisible parts,
    until a rule of the bucket removes incomplete uploads.
    """
    backend, path = _resolve_backend(path)
    return backend.open_writer(path)


def check_writable(path: PathLike, *, in_dir: bool = False) -> None:
    """Checks, as far as possible without writing, that `write_bytes` can write a local file.

    Nothing is created or changed. Stores are not checked: permission to write does not imply permission to read.

    Args:
        path: path of the file.
        in_dir: whether its directory must exist, as for a file that the user names.

    Raises:
        StorageError: the path is not a regular file, or its directory cannot be written.
    """
    if paths.is_remote(path):
        return
    path = paths.normalize(path)
    if in_dir and not local.exists(folder := paths.dirname(path)):
        raise PathNotFoundError("the directory does not exist; make it first", path=folder)
    local.check_writable(path)


def write_bytes(path: PathLike, data: Buffer) -> None:
    """Writes a whole file, replacing an existing one; a reader sees the old or the new content, never a part."""
    with open_writer(path) as writer:
        writer.write([data])


def create_bytes(path: PathLike, data: Buffer) -> None:
    """Writes a whole file if it does not exist; of several concurrent calls, one succeeds.

    Raises:
        FileExistsError: it exists.
    """
    backend, path = _resolve_backend(path)
    backend.create_bytes(path, data)


def check_can_create(path: PathLike) -> None:
    """Checks that creating a file in this directory fails if the file exists, on which publishing relies.

    Raises:
        StorageError: the storage cannot do that: a web server, or a file system that is used through fsspec.
    """
    scheme = paths.scheme(paths.normalize(path))
    if scheme != "file" and scheme not in _CREATING_STORES:
        raise StorageError(
            expected=f"a local path or an object store ({', '.join(sorted(_CREATING_STORES))})",
            got=(
                f"{scheme}://, from which datasets can be read only: two runs could publish one version "
                "there, because it cannot create a file on the condition that there is none"
            ),
            advice="Publish elsewhere and copy the directory.",
            path=os.fspath(path),
        )


def create_copy(source: PathLike, target: PathLike) -> None:
    """Has an object store copy a file within itself on the condition that the target does not exist.

    On S3, files of more than 4 GiB are read and written by this process; a target that another process creates in the
    meantime is then replaced.

    Raises:
        FileNotFoundError: the source does not exist.
        FileExistsError: the target exists.
        StorageError: the paths are not in one object store.
    """
    source, target = paths.normalize(source), paths.normalize(target)
    if not _in_one_store(source, target):
        raise StorageError(f"expected a file in the object store of {target}", path=source)
    from beam_datasets.storage import objects

    if not objects.copy(source, target, overwrite=False):
        if exists(target):
            raise PathExistsError("exists already", path=target)
        copy(source, target)


def file_sizes(path: PathLike) -> dict[str, int]:
    """Returns {path below the directory: size in bytes} of all files below it.

    Raises:
        FileNotFoundError: the directory does not exist; on an object store, there is nothing below it.
    """
    backend, path = _resolve_backend(path)
    return backend.file_sizes(path)


def copy(source: PathLike, target: PathLike) -> None:
    """Copies a file, replacing an existing one; within an object store the store does it.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    (one, source), (other, target) = _resolve_backend(source), _resolve_backend(target)
    if _in_one_store(source, target):
        from beam_datasets.storage import objects

        if objects.copy(source, target, overwrite=True):
            return
    with one.open_reader(source) as reader, other.open_writer(target) as writer:
        for chunk in reader.chunks():
            writer.write([chunk])


def usage(path: PathLike) -> Usage:
    """Returns the size of a file, or of all files below a directory, and when one of them was last changed.

    Links are not followed: each is a file of no bytes.

    Raises:
        FileNotFoundError: there is nothing.
    """
    backend, path = _resolve_backend(path)
    return backend.usage(path)


def freed(paths_: Iterable[PathLike]) -> int:
    """Returns the bytes that removing files and directories frees: on a disk, those of files without other names.

    Raises:
        FileNotFoundError: there is nothing at one of them.
    """
    normalized_paths = [paths.normalize(path) for path in paths_]
    remote = sum(usage(path).num_bytes for path in normalized_paths if paths.is_remote(path))
    return remote + local.freed(path for path in normalized_paths if not paths.is_remote(path))


def is_link(path: PathLike) -> bool:
    """Returns whether the path is a link to another place; object stores have none."""
    return not paths.is_remote(path) and os.path.islink(paths.normalize(path))


def remove(path: PathLike) -> None:
    """Removes a file if it exists."""
    backend, path = _resolve_backend(path)
    backend.remove(path)


def remove_tree(path: PathLike) -> None:
    """Removes a directory and all below it, if it exists.

    A local one gets a temporary name first, in one step, so that no process finds or renames a part of it.
    """
    backend, path = _resolve_backend(path)
    backend.remove_tree(path)


def remove_if_empty(path: PathLike) -> None:
    """Removes a local directory if there is nothing in it; object stores have no empty ones."""
    if not paths.is_remote(path):
        local.remove_if_empty(paths.normalize(path))


@contextlib.contextmanager
def empty_new_dirs_removed(*paths_below: PathLike) -> Iterator[None]:
    """Context manager: at the end, removes empty local directories above some paths that did not exist before."""
    new: list[str] = []
    for path in paths_below:
        directory = paths.normalize(path)
        while not paths.is_remote(directory) and not exists(directory := paths.dirname(directory)):
            new.append(directory)
    try:
        yield
    finally:
        for directory in new:
            with contextlib.suppress(StorageError):  # the run ends as it did
                remove_if_empty(directory)


def rename_dir(source: PathLike, target: PathLike) -> None:
    """Renames a local directory in one step; creates the directories above the target.

    All files below it, and it itself, are on the disk before (fsync), and the directories above after.

    Raises:
        FileExistsError: the target exists and is not an empty directory.
        StorageError: a path is not local: object stores have no such step.
    """
    local.rename_dir(*(_check_local(path, "a local directory can be renamed in one step") for path in (source, target)))


def move_files(source: PathLike, target: PathLike, names: Iterable[str]) -> None:
    """Moves files of a local directory into another one on the same disk, and creates that if necessary.

    They replace files of the same name. Files that do not exist are left out.

    Args:
        source: the directory of the files.
        target: the other directory.
        names: names of the files.

    Raises:
        StorageError: a path is not local, or the two are on different disks.
    """
    local.move_files(
        _check_local(source, condition := "local files can be moved"), _check_local(target, condition), names
    )


def link(source: PathLike, target: PathLike) -> None:
    """Gives a local file another name on the same disk; both are the same file. Directories above it are made.

    Raises:
        FileExistsError: the target exists.
        StorageError: a path is not local, or the two are on different disks.
    """
    local.link(*(_check_local(path, "a local file can have another name") for path in (source, target)))


@contextlib.contextmanager
def locked(path: PathLike) -> Iterator[None]:
    """Locks a local file against other processes until the block ends, and creates it if it is missing.

    The system unlocks it if the process is killed.

    Raises:
        StorageError: the file cannot be written or locked.
    """
    path = paths.normalize(path)
    while True:
        with local.open_to_lock(path) as file:
            if local.lock(file, path):
                yield
                return


def memory_map(path: PathLike) -> Buffer:
    """Returns the file's bytes: mapped into memory (which holds a file descriptor), or read if it is small or remote.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    return read_bytes(path) if paths.is_remote(path) else local.memory_map(paths.normalize(path))


def _check_local(path: PathLike, condition: str) -> str:
    """Returns the normalized path of a local file; `condition` completes the error message.

    Raises:
        StorageError: the path is not local.
    """
    if paths.is_remote(path):
        raise StorageError(f"only {condition}", path=os.fspath(path))
    return paths.normalize(path)


def _in_one_store(source: str, target: str) -> bool:
    """Returns whether an object store can copy the one path to the other."""
    is_object = paths.scheme(source) in _OBJECT_STORES and paths.is_remote(target)
    return is_object and paths.split_remote(source)[0] == paths.split_remote(target)[0]


def _resolve_backend(path: PathLike) -> tuple[Backend, str]:
    """Returns (module that implements the storage of a path, normalized path).

    The module is `local`, `objects` or `generic`. Local paths import neither obstore nor fsspec.
    """
    normal = paths.normalize(path)
    scheme = paths.scheme(normal)
    if scheme == "file":
        return local, normal
    if scheme in _OBJECT_STORES:
        from beam_datasets.storage import objects

        return objects, normal
    from beam_datasets.storage import generic

    return generic, normal


_WILDCARDS = frozenset("*?[")


def has_wildcard(path: PathLike) -> bool:
    """Returns whether `glob` would look for names; the address of a file on a web server is never a pattern.

    >>> has_wildcard("/data/train-*"), has_wildcard("https://host/file?version=1")
    (True, False)
    """
    text = os.fspath(path)
    return not _WILDCARDS.isdisjoint(text) and paths.scheme(text) not in ("http", "https")


def glob(pattern: PathLike) -> list[str]:
    """Returns the existing paths that match a pattern, sorted; [] if none match.

    As in a shell, `*` stands for any characters but `/`, `?` for one character, and `[...]` for one of several; `[*]`
    is a literal star. A name that begins with a dot matches only a pattern that begins with a dot, so unfinished files
    do not match.

    Raises:
        StorageError: a directory cannot be listed, or the name of a bucket is a pattern.
    """
    text = paths.normalize(pattern)
    if not has_wildcard(text):
        return [text] if exists(text) else []
    parts = text.split("/")
    fixed = next(i for i, name in enumerate(parts) if has_wildcard(name))
    if paths.is_remote(text) and fixed < 3:
        raise StorageError("the name of a bucket or server cannot be a pattern", path=text)
    matches, names = ["/".join(parts[:fixed]) or "/"], parts[fixed:]
    for depth, name in enumerate(names, start=1):
        if has_wildcard(name):
            matches = [paths.join(base, match) for base in matches for match in _match_names(base, name)]
        else:
            matches = [paths.join(base, name) for base in matches]
            if depth == len(names):
                matches = [path for path in matches if exists(path)]
    return sorted(matches)


def _match_names(base: str, pattern: str) -> list[str]:
    """Returns the names in a directory that match a pattern of `fnmatch`; [] if the directory does not exist.

    Names that begin with a dot match only patterns that do.
    """
    if not is_dir(base):
        return []
    try:
        names = list_dir(base)
    except PathNotFoundError:
        return []
    hidden = pattern.startswith(".")
    return [name for name in names if fnmatch.fnmatchcase(name, pattern) and (hidden or not name.startswith("."))]
