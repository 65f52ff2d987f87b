"""Reading of object stores in a process that was forked from one that had used obstore, whose threads it lacks.

A new process of Python calls obstore in its place. It ends when the pipe to it is closed, so with the forked process.
"""

from __future__ import annotations

import builtins
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO, NoReturn

from beam_datasets.errors import StorageError
from beam_datasets.storage.paths import StoreOptions

Store = tuple[str, StoreOptions]
"""The root of a store and its options, of which the other process makes a client."""

_COMMAND = "import sys; from beam_datasets.storage.forked import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"


class _Whole:
    """The content of an object, as obstore returns it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def bytes(self) -> bytes:
        """Returns the content."""
        return self._content


class ForkedObstore:
    """The functions of obstore that reading a dataset needs, called in another process, one at a time."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # the process belongs to the parent

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def head(self, store: Store, key: str) -> Any:
        """Returns the metadata of an object."""
        return self._call("head", store, key, {})

    def get(self, store: Store, key: str) -> _Whole:
        """Returns a whole object."""
        return _Whole(self._call("get", store, key, {}))

    def get_ranges(self, store: Store, key: str, *, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Returns ranges of an object."""
        contents: list[bytes] = self._call("get_ranges", store, key, {"starts": starts, "ends": ends})
        return contents

    def __getattr__(self, name: str) -> NoReturn:
        """Raises a StorageError for other functions."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise StorageError(
            f"obstore.{name}: this process was forked from one that had used an object store, whose threads it lacks, "
            "so it can only read objects. Start workers by 'spawn' or 'forkserver': "
            "multiprocessing.set_start_method('spawn')"
        )

    def _call(self, name: str, store: Store, key: str, arguments: dict[str, Any]) -> Any:
        """Returns what a function of obstore returns in the other process, or raises its error."""
        with self._lock:
            process = self._process = self._process or _started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump((name, store[0], store[1].values, key, arguments), process.stdin)
                process.stdin.flush()
                kind, result = pickle.load(process.stdout)
            except (EOFError, OSError) as error:
                self._process = None
                raise StorageError(
                    f"{store[0]}: the process that reads for a forked process has ended: {error}"
                ) from None
            except BaseException:  # such as an interrupt: the next call must not get the reply to this one
                self._process = None
                process.kill()
                raise
        if kind is not None:
            raise _kind_of(kind)(result)
        return result


def _started() -> subprocess.Popen[bytes]:
    """Returns the process that reads for this one."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _COMMAND]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _kind_of(name: str) -> type[Exception]:
    """Returns the class of an error of obstore, of Python or of this package by its name."""
    from obstore import exceptions

    kind = getattr(exceptions, name, None) or getattr(builtins, name, StorageError)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else StorageError


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Calls functions of obstore for another process until it ends."""
    import obstore

    from beam_datasets.storage.objects import client

    while True:
        try:
            name, root, values, key, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            response = getattr(obstore, name)(client(root, StoreOptions(values)), key, **arguments)
            kind: str | None = None
            result: Any = _plain(name, response)
        except Exception as error:
            kind, result = type(error).__name__, str(error)
        pickle.dump((kind, result), replies)
        replies.flush()


def _plain(name: str, found: Any) -> Any:
    """Returns what a function of obstore returned as values of Python."""
    if name == "get":
        return bytes(found.bytes())
    return list(map(bytes, found)) if name == "get_ranges" else dict(found)
