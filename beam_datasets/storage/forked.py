"""Reading from object stores in a forked process, in which obstore cannot run because the fork lacks its threads.

A helper process, which runs `fork_server`, calls obstore instead. It ends at the latest with the forked process.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NoReturn

from beam_datasets.errors import StorageError
from beam_datasets.helper_process import HelperEndedError, HelperProcess
from beam_datasets.storage.paths import StoreOptions

Store = tuple[str, StoreOptions]
"""The root of a store and its options, from which the helper process creates a client."""


class _GetResult:
    """The content of an object, with the interface of obstore's result of `get`."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def bytes(self) -> bytes:
        """Returns the content."""
        return self._content


class ForkedObstore:
    """The functions of obstore needed to read a dataset; each call is made by a helper process, one at a time."""

    def __init__(self) -> None:
        self._helper = HelperProcess("beam_datasets.storage.fork_server")

    def head(self, store: Store, key: str) -> Any:
        """Returns the metadata of an object as a dict, such as {'path': key, 'size': bytes, ...}."""
        return self._call("head", store, key, {})

    def get(self, store: Store, key: str) -> _GetResult:
        """Returns the content of an object; call `bytes()` on the result.

        Args:
            store: root and options of the store.
            key: key of the object in the store.
        """
        return _GetResult(self._call("get", store, key, {}))

    def get_ranges(self, store: Store, key: str, *, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Returns the bytes [start, end) of an object for each pair of `starts` and `ends`.

        Args:
            store: root and options of the store.
            key: key of the object in the store.
            starts: offset of the first byte of each range.
            ends: offset after the last byte of each range.
        """
        contents: list[bytes] = self._call("get_ranges", store, key, {"starts": starts, "ends": ends})
        return contents

    def __getattr__(self, name: str) -> NoReturn:
        """Raises StorageError for any other function of obstore, and AttributeError for private names."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise StorageError(
            f"obstore.{name}: this process was forked from one that had used an object store, whose threads it lacks, "
            "so it can only read objects",
            advice="Start workers by 'spawn' or 'forkserver': multiprocessing.set_start_method('spawn')",
        )

    def _call(self, name: str, store: Store, key: str, arguments: dict[str, Any]) -> Any:
        """Calls a function of obstore in the helper process, which is started if necessary.

        Args:
            name: name of the function.
            store: root and options of the store.
            key: key of the object in the store.
            arguments: further arguments of the function, by name.

        Raises:
            StorageError: the helper process has ended.
            Exception: the error that obstore raised, of the same class.
        """
        try:
            kind, result = self._helper.ask((name, store[0], store[1].values, key, arguments))
        except HelperEndedError as error:
            raise StorageError(f"the reader of a forked process did not answer: {error}", path=store[0]) from None
        if kind is not None:
            raise _error_class(kind)(result)
        return result


def _error_class(name: str) -> type[Exception]:
    """Returns the exception class with a name, of obstore or Python; StorageError if there is none."""
    from obstore import exceptions

    error_class = getattr(exceptions, name, None) or getattr(builtins, name, StorageError)
    return error_class if isinstance(error_class, type) and issubclass(error_class, Exception) else StorageError
