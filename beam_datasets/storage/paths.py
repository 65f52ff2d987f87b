"""Paths as text: arithmetic only, nothing here looks at a file."""

from __future__ import annotations

import os
import re
import urllib.parse
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_datasets.errors import StoreOptionsError
from beam_datasets.storage.options import StoreOptions, register, url

if TYPE_CHECKING:
    from collections.abc import Mapping

PathLike: TypeAlias = "str | os.PathLike[str]"

TEMPORARY_PREFIX = ".tmp-"
"""How the names of unfinished local files begin; a killed process may leave some."""

_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{32}")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


def is_temporary(name: str) -> bool:
    """Returns whether a name is that of an unfinished file.

    >>> is_temporary(".tmp-0123456789abcdef0123456789abcdef"), is_temporary(".tmp-mine")
    (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def scheme(path: str) -> str:
    """Returns the path's scheme in lower case; `file` for a local path.

    >>> scheme("s3://bucket/name"), scheme("/data"), scheme("file:///data")
    ('s3', 'file', 'file')
    """
    match = _SCHEME.match(path)
    return match.group(1).lower() if match else "file"


def is_remote(path: PathLike) -> bool:
    """Returns whether the path is not on a file system of this machine."""
    return scheme(os.fspath(path)) != "file"


def normalize(path: PathLike) -> str:
    """Returns the path in the form that this package uses: absolute, `~` expanded, without a slash at its end.

    >>> normalize("/data/../data/mnist/"), normalize("s3://bucket/mnist/"), normalize("file:///my%20data")
    ('/data/mnist', 's3://bucket/mnist', '/my data')
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is a str or an os.PathLike of str; got {text!r}")
    if not text:
        raise ValueError("the path is empty")
    if text[0] == os.sep == "/" and not ("//" in text or "/." in text or text[-1] == "/"):
        return text
    if is_remote(text):
        head, rest = text.split("://", 1)
        return f"{head.lower()}://{rest.rstrip('/')}"
    if match := _SCHEME.match(text):
        text = urllib.parse.unquote(text[match.end() :])
    return os.path.abspath(os.path.expanduser(text))


def with_options(path: PathLike, options: Mapping[str, Any] | None) -> str:
    """Returns the path, normal, in the store that these options lead to, for this process; see `options`.

    Args:
        path: a URL; or, without options, any path.
        options: of the store; None for those that this process uses for the URL already, or of the environment; `{}`
            for those of the environment.

    Raises:
        StoreOptionsError: there are options, but the path is local.
    """
    normal = normalize(path)
    if options is None or not (options or is_remote(normal)):
        return normal
    if not is_remote(normal):
        raise StoreOptionsError(f"storage_options are for URLs; {normal} is a local path. Leave them out")
    return register(normal, StoreOptions(options))


def with_options_if_remote(path: PathLike, options: Mapping[str, Any] | None, *, beside: PathLike | None = None) -> str:
    """Returns the path, normal; a URL in the store that the options lead to, unless it names one by a number.

    Args:
        path: a URL, or a local path, for which options are ignored.
        options: see `with_options`; None for those of `beside`, if that is in the same bucket.
        beside: another path.
    """
    normal = normalize(path)
    if not is_remote(normal) or url(normal) != normal:
        return normal
    root, key = split_remote(normal)
    if options is None and beside is not None and is_remote(beside):
        other, _ = split_remote(normalize(beside))
        return join(other, key) if url(other) == root else normal
    return with_options(normal, options)


def join(base: PathLike, *names: str) -> str:
    """Returns the path of a name below `base`.

    >>> join("s3://bucket/", "mnist", "1.0.0"), join("/data/", "mnist")
    ('s3://bucket/mnist/1.0.0', '/data/mnist')
    """
    text = os.fspath(base)
    if not text and names:
        return join(*names)
    if not is_remote(text):
        return os.path.join(text, *names)
    return "/".join((text.rstrip("/"), *names)) if names else text


def basename(path: PathLike) -> str:
    """Returns the last name of the path.

    >>> basename("s3://bucket/mnist/1.0.0/"), basename("s3://bucket")
    ('1.0.0', '')
    """
    return _split(os.fspath(path))[1]


def dirname(path: PathLike) -> str:
    """Returns the path without its last name.

    >>> dirname("s3://bucket/mnist/1.0.0/"), dirname("/data/mnist"), dirname("/data")
    ('s3://bucket/mnist', '/data', '/')
    """
    return _split(os.fspath(path))[0]


def _split(path: str) -> tuple[str, str]:
    if not is_remote(path):
        return os.path.split(path.rstrip("/") or path)
    root, key = split_remote(path)
    head, _, name = key.rpartition("/")
    return f"{root}/{head}" if head else root, name


def split_remote(path: str) -> tuple[str, str]:
    """Returns the root of the store, and the key in it.

    >>> split_remote("s3://bucket/mnist/1.0.0")
    ('s3://bucket', 'mnist/1.0.0')
    """
    head, rest = path.split("://", 1)
    root, _, key = rest.partition("/")
    return f"{head}://{root}", key.strip("/")
