"""Helper process of `forked`: reads from object stores for a forked process, which sends requests through a pipe."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

from beam_datasets.storage.objects import client
from beam_datasets.storage.paths import StoreOptions


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Runs the helper process: answers each request of a forked process until the pipe is closed.

    Requests are pickled (function name, root of the store, options, key, keyword arguments). Replies are pickled
    (None, result) or (name of the error class, error message).
    """
    import obstore

    while True:
        try:
            name, root, values, key, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            response = getattr(obstore, name)(client(root, StoreOptions(values)), key, **arguments)
            kind: str | None = None
            result: Any = _to_python(name, response)
        except Exception as error:
            kind, result = type(error).__name__, str(error)
        pickle.dump((kind, result), replies)
        replies.flush()


def _to_python(name: str, response: Any) -> Any:
    """Converts the result of an obstore function to picklable values.

    Returns bytes for the function "get", a list of bytes for "get_ranges", and a dict for others, such as "head".
    """
    if name == "get":
        return bytes(response.bytes())
    return list(map(bytes, response)) if name == "get_ranges" else dict(response)
