"""Storage backends in memory: an object store, and a disk with directories that are renamed in one step.

The object store is strongly consistent and has create-only puts and copies, unconditional deletes and listings. Every
request calls `before` first; what that returns decides the request's fate.
"""

import enum
import functools
import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

from typing_extensions import Buffer

from beam_datasets.errors import PathExistsError, PathNotFoundError, StorageError
from beam_datasets.storage.backend import Reader, Usage, Writer, check_range

STARTED = 1e9
"""When each interleaving begins, in seconds since the epoch; it takes less than a week."""


class Fate(enum.Enum):
    """What becomes of a request.

    Attributes:
        DONE: it is carried out and answered.
        REFUSED: the store answers with an error that may pass, and does nothing.
        LOST: it is carried out, but the answer is lost.
        REPEATED: the answer is lost, and the client sends it again by itself: a creation finds its own object.
        LATE: the caller gives up waiting; the store carries it out at some later time.
    """

    DONE = "done"
    REFUSED = "refused"
    LOST = "answer lost"
    REPEATED = "answer lost, sent again"
    LATE = "answer lost, carried out later"


class TransientError(StorageError):
    """A request was refused, or its answer was lost; to send it again may help."""


class Store:
    """The objects, and the requests that change them.

    Attributes:
        objects: path -> content.
        before: called before each request with its name, its path and whether it changes anything; returns its fate.
            It decides when the request is carried out, too: by when it returns.
        changed: called after each change with the path, the content before and the content after; None without object.
        later: called with a request that is carried out at some later time; None if there are none.
        looks_at_source_first: whether a copy to a name that exists, from one that does not, fails for the latter.
    """

    def __init__(
        self,
        before: Callable[[str, str, bool], Fate],
        changed: Callable[[str, bytes | None, bytes | None], None],
        later: Callable[[str, str, Callable[[], Any]], None] | None = None,
    ) -> None:
        self.objects: dict[str, bytes] = {}
        self.looks_at_source_first = True
        self.before = before
        self.changed = changed
        self.later = later

    def _request(self, name: str, path: str, carry_out: Callable[[], Any], *, changes: bool = False) -> Any:
        fate = self.before(name, path, changes)
        if fate is Fate.DONE:
            return carry_out()
        if fate is Fate.LOST or fate is Fate.REPEATED:
            carry_out()
        if fate is Fate.REPEATED:
            return carry_out()
        if fate is Fate.LATE and self.later:
            self.later(name, path, carry_out)
        raise TransientError(f"{path}: {name}: {fate.value}")

    def _put(self, path: str, data: bytes) -> None:
        before = self.objects.get(path)
        self.objects[path] = data
        self.changed(path, before, data)

    def _delete(self, path: str) -> None:
        before = self.objects.pop(path, None)
        if before is not None:
            self.changed(path, before, None)

    def _get(self, path: str) -> bytes:
        try:
            return self.objects[path]
        except KeyError:
            raise PathNotFoundError(f"{path}: the object does not exist") from None

    def _below(self, path: str) -> list[str]:
        prefix = path + "/"
        return sorted([key for key in self.objects if key.startswith(prefix)])

    def _is_dir(self, path: str) -> bool:
        return False

    def exists(self, path: str) -> bool:
        """Returns whether there is an object, or any below."""
        return self._request("head", path, lambda: path in self.objects) or self.is_dir(path)

    def is_dir(self, path: str) -> bool:
        """Returns whether there is any object below."""
        return bool(self._request("list", path, lambda: self._below(path)))

    def size(self, path: str) -> int:
        """Returns the object's size in bytes."""
        return int(self._request("head", path, lambda: len(self._get(path))))

    def list_dir(self, path: str, *, missing_ok: bool = False) -> list[str]:
        """Returns the names below, up to the next slash."""
        keys = self._request("list", path, lambda: self._below(path))
        if not keys and not missing_ok:
            raise PathNotFoundError(f"{path}: there is nothing below it")
        return sorted({key[len(path) + 1 :].partition("/")[0] for key in keys})

    def make_dirs(self, path: str) -> None:
        """Does nothing: there are no directories."""

    def read_bytes(self, path: str) -> bytes:
        """Returns the whole object."""
        return bytes(self._request("get", path, lambda: self._get(path)))

    def open_reader(self, path: str, size: int | None = None) -> Reader:
        """Returns a reader."""
        return _Reader(self, path)

    def open_writer(self, path: str) -> Writer:
        """Returns a writer; the object is there when it commits."""
        return _Writer(self, path)

    def put(self, path: str, data: bytes) -> None:
        """Puts the object, instead of one that is there."""
        self._request("put", path, lambda: self._put(path, data), changes=True)

    def create_bytes(self, path: str, data: Buffer) -> None:
        """Puts the object on the condition that there is none."""
        self._request("create", path, lambda: self._create(path, bytes(data)), changes=True)

    def _create(self, path: str, data: bytes) -> None:
        if path in self.objects:
            raise PathExistsError(path)
        self._put(path, data)

    def copy(self, source: str, target: str) -> None:
        """Copies an object, instead of one that is there."""
        self._request("copy", target, lambda: self._put(target, self._get(source)), changes=True)

    def create_copy(self, source: str, target: str) -> None:
        """Copies an object on the condition that there is none under the new name.

        If there is one and the source is gone, some stores look at the one first and some at the other.
        """
        self._request("create copy", target, lambda: self._create_copy(source, target), changes=True)

    def _create_copy(self, source: str, target: str) -> None:
        if self.looks_at_source_first:
            self._get(source)
        if target in self.objects:
            raise PathExistsError(target)
        self._put(target, self._get(source))

    def file_sizes(self, path: str) -> dict[str, int]:
        """Returns {path below: size in bytes} of all objects below."""

        def sizes() -> dict[str, int]:
            return {key[len(path) + 1 :]: len(self.objects[key]) for key in self._below(path)}

        found: dict[str, int] = self._request("list", path, sizes)
        if not found:
            raise PathNotFoundError(f"{path}: there is nothing below it")
        return found

    def usage(self, path: str) -> Usage:
        """Returns what an object and all below take; as if it was changed when the interleaving began."""

        def usage() -> Usage:
            found = self._below(path) or ([] if self._is_dir(path) else [path])
            return Usage(sum(len(self._get(key)) for key in found), STARTED)

        found: Usage = self._request("list", path, usage)
        return found

    def remove(self, path: str) -> None:
        """Deletes the object."""
        self._request("delete", path, lambda: self._delete(path), changes=True)

    def remove_tree(self, path: str) -> None:
        """Lists and deletes all objects below, one request each."""
        for key in self._request("list", path, lambda: self._below(path)):
            self.remove(key)


class Disk(Store):
    """A local disk; `storage.local` describes the functions.

    Attributes:
        dirs: the directories.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dirs = {"/"}
        self._numbers = itertools.count()

    def _is_dir(self, path: str) -> bool:
        return path in self.dirs

    def _make_dirs(self, path: str) -> None:
        while path not in self.dirs:
            self.dirs.add(path)
            path = os.path.dirname(path)

    def _move(self, source: str, target: str) -> None:
        """Renames a file or a directory in one step; the files of a directory are seen all at once."""
        if source not in self.dirs:
            self._put(target, self._get(source))
            self._delete(source)
            return
        self._make_dirs(os.path.dirname(target))
        moved = [path for path in self.objects if path.startswith(source + "/")]
        contents = {target + path[len(source) :]: self.objects.pop(path) for path in moved}
        self.objects |= contents
        self.dirs = {
            target + path[len(source) :] if (path + "/").startswith(source + "/") else path for path in self.dirs
        }
        for path, content in contents.items():
            self.changed(path, None, content)

    def exists(self, path: str) -> bool:
        """Returns whether there is a file or a directory."""
        return bool(self._request("stat", path, lambda: path in self.objects or path in self.dirs))

    def is_dir(self, path: str) -> bool:
        """Returns whether there is a directory."""
        return bool(self._request("stat", path, lambda: path in self.dirs))

    def is_link(self, path: str) -> bool:
        """Returns False: there are no links."""
        return False

    def list_dir(self, path: str, *, missing_ok: bool = False) -> list[str]:
        """Returns the names in a directory."""
        return list(
            self._request("list", path, lambda: [] if missing_ok and path not in self.dirs else self._names(path))
        )

    def _names(self, path: str) -> list[str]:
        if path not in self.dirs:
            raise PathNotFoundError(f"{path}: the directory does not exist")
        return sorted(
            {
                key[len(path) + 1 :].partition("/")[0]
                for key in (*self.objects, *self.dirs)
                if key.startswith(path + "/")
            }
        )

    def make_dirs(self, path: str) -> None:
        """Makes the directory and those above it."""
        self._request("mkdir", path, lambda: self._make_dirs(path), changes=True)

    def put(self, path: str, data: bytes) -> None:
        """Writes the file under a temporary name, and renames it."""
        temporary = f"{os.path.dirname(path)}/.tmp-{next(self._numbers):032x}"

        def write() -> None:
            self._make_dirs(os.path.dirname(path))
            self._put(temporary, data)

        self._request("write", temporary, write, changes=True)
        self._request("rename", path, lambda: self._move(temporary, path), changes=True)

    def remove_tree(self, path: str) -> None:
        """Renames a directory to a temporary name, then removes it."""
        trash = f"{os.path.dirname(path)}/.tmp-{next(self._numbers):032x}"
        if self._request("to trash", path, lambda: path in self.dirs and not self._move(path, trash), changes=True):
            for key in self._below(trash):
                self.remove(key)
            self._request("rmdir", trash, lambda: self._forget(trash), changes=True)

    def _forget(self, trash: str) -> None:
        self.dirs = {path for path in self.dirs if not (path + "/").startswith(trash + "/")}

    def remove_if_empty(self, path: str) -> None:
        """Removes a directory if there is nothing in it."""

        def remove() -> None:
            if path in self.dirs and not self._names(path):
                self.dirs.remove(path)

        self._request("rmdir", path, remove, changes=True)

    def rename_dir(self, source: str, target: str) -> None:
        """Renames a directory, in one step."""

        def rename() -> None:
            if target in self.objects or (target in self.dirs and self._names(target)):
                raise PathExistsError(target)
            if source not in self.dirs:
                raise PathNotFoundError(source)
            self._move(source, target)

        self._request("sync", source, lambda: None)
        self._request("rename", target, rename, changes=True)

    def move_files(self, source: str, target: str, names: Iterable[str]) -> None:
        """Moves files into another directory, one step each."""
        self.make_dirs(target)
        for name in names:
            move = functools.partial(self._move_file, source, target, name)
            self._request("rename", f"{target}/{name}", move, changes=True)

    def _move_file(self, source: str, target: str, name: str) -> None:
        if f"{source}/{name}" in self.objects and target in self.dirs:
            self._move(f"{source}/{name}", f"{target}/{name}")


class _Reader(Reader):
    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        super().__init__(path, store.size(path))

    def _read(self, start: int, stop: int) -> bytes:
        data = self._store.read_bytes(self.path)
        check_range(self.path, start, stop, len(data))
        return data[start:stop]

    def close(self) -> None:
        pass


class _Writer(Writer):
    def __init__(self, store: Store, path: str) -> None:
        super().__init__(path)
        self._store = store
        self._parts: list[bytes] = []

    def write(self, buffers: Iterable[Buffer]) -> None:
        self._parts.extend(map(bytes, buffers))

    def commit(self) -> None:
        self._store.put(self.path, b"".join(self._parts))

    def abort(self) -> None:
        self._parts.clear()
