"""Finding files by a pattern, on any kind of storage."""

from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING

from beam_datasets.errors import PathNotFoundError, StorageError
from beam_datasets.storage import files, paths

if TYPE_CHECKING:
    from beam_datasets.storage.paths import PathLike

_WILDCARDS = frozenset("*?[")


def has_wildcard(path: PathLike) -> bool:
    """Returns whether `glob` would look for names; the address of a file on a web server is never a pattern.

    >>> has_wildcard("/data/train-*"), has_wildcard("https://host/file?version=1")
    (True, False)
    """
    text = os.fspath(path)
    return not _WILDCARDS.isdisjoint(text) and paths.scheme(text) not in ("http", "https")


def glob(pattern: PathLike) -> list[str]:
    """Returns the paths that exist and match a pattern, sorted; none where nothing does.

    `*` stands for any letters but `/`, `?` for one, `[...]` for one of several, as in a shell; `[*]` is a star itself.
    A name that begins with a dot is found only where its part of the pattern does, so unfinished files are not.

    Raises:
        StorageError: a directory cannot be listed, or the name of a bucket is a pattern.
    """
    text = paths.normalize(pattern)
    if not has_wildcard(text):
        return [text] if files.exists(text) else []
    parts = text.split("/")
    fixed = next(i for i, name in enumerate(parts) if has_wildcard(name))
    if paths.is_remote(text) and fixed < 3:
        raise StorageError(f"{text}: the name of a bucket or server cannot be a pattern")
    found, names = ["/".join(parts[:fixed]) or "/"], parts[fixed:]
    for depth, name in enumerate(names, start=1):
        if has_wildcard(name):
            found = [paths.join(base, match) for base in found for match in _matching(base, name)]
        else:
            found = [paths.join(base, name) for base in found]
            if depth == len(names):
                found = [path for path in found if files.exists(path)]
    return sorted(found)


def _matching(base: str, pattern: str) -> list[str]:
    """Returns the names in a directory that match; none if the directory does not exist."""
    if not files.is_dir(base):
        return []
    try:
        names = files.list_dir(base)
    except PathNotFoundError:
        return []
    hidden = pattern.startswith(".")
    return [name for name in names if fnmatch.fnmatchcase(name, pattern) and (hidden or not name.startswith("."))]
