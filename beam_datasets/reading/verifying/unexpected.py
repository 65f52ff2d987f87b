"""Files in a dataset's directory that look like part of it, or of an unfinished one, and are none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError
from beam_datasets.model.names import ShardFilename
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.reading.verifying.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def find_unexpected(
    directory: str, names: Collection[str] | None, shards: Collection[str], other_formats: Collection[str]
) -> Iterator[Finding]:
    """Yields a finding for each such file.

    Args:
        directory: of the dataset.
        names: of what is in it; None where it cannot be listed.
        shards: names of the shards that should be there, relative to the directory.
        other_formats: in which the shards exist as well.
    """
    expected = {*shards, *(name + INDEX_SUFFIX for name in shards)}
    others = [name for name in _listed(directory, names, expected) if name not in expected] if names is not None else []
    # Of all names at once: a search of each would take longer than to list the directory, and no name has a zero in it.
    forms = set(_form("\0".join(expected)).split("\0"))
    for name in others:
        base = storage.basename(name)
        if storage.is_temporary(base):
            yield Finding(name, None, None, "leftover", "an unfinished file, which a run left that was killed")
        elif _form(name) in forms or _is_like_a_shard(base, other_formats):
            yield Finding(name, None, None, "extra", "no split of the dataset has this file")


def _listed(directory: str, names: Collection[str], expected: Collection[str]) -> Iterator[str]:
    """Yields the files in the directory, and in those below it that have shards."""
    yield from names
    for folder in sorted({name.rpartition("/")[0] for name in expected} - {""}):
        try:
            yield from (f"{folder}/{name}" for name in storage.list_dir(storage.join(directory, folder)))
        except PathNotFoundError:
            continue  # the shards in it are missing, which is found when they are read


def _form(name: str) -> str:
    """Returns a name with all its long numbers alike.

    >>> _form("digits-train.tfrecord-00007-of-00010")
    'digits-train.tfrecord-#-of-#'
    """
    return re.sub(r"\d{5,}", "#", name)


def _is_like_a_shard(name: str, other_formats: Collection[str]) -> bool:
    shard = name.removesuffix(INDEX_SUFFIX)
    return ShardFilename.is_valid(shard) and ShardFilename.parse(shard).fileformat not in other_formats
