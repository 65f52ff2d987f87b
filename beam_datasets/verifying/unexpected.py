"""Files in a dataset's directory that look like part of it, or of an unfinished one, and are none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError
from beam_datasets.metadata.names import ShardFilename
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.verifying.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_NUMBER = "#"


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
    listed = _listed(directory, names, shards) if names is not None else ()
    others = [name for name in listed if not (name in shards or name.removesuffix(INDEX_SUFFIX) in shards)]
    forms: Collection[str] | None = None
    for name in others:
        base = storage.basename(name)
        if storage.is_temporary(base):
            yield Finding(name, None, None, "leftover", "an unfinished file, which a run left that was killed")
            continue
        form = _form(name)
        if forms is None and _NUMBER in form:  # else it is the form of this name alone
            forms = _forms(shards)
        if form in (forms or ()) or _is_like_a_shard(base, other_formats):
            yield Finding(name, None, None, "extra", "no split of the dataset has this file")


def _listed(directory: str, names: Collection[str], shards: Collection[str]) -> Iterator[str]:
    """Yields the files in the directory, and in those below it that have shards."""
    yield from names
    for folder in sorted({name.rpartition("/")[0] for name in shards if "/" in name} - {""}):
        try:
            yield from (f"{folder}/{name}" for name in storage.list_dir(storage.join(directory, folder)))
        except PathNotFoundError:
            continue  # the shards in it are missing, which is found when they are read


def _form(name: str) -> str:
    """Returns a name with all its long numbers alike.

    >>> _form("digits-train.tfrecord-00007-of-00010")
    'digits-train.tfrecord-#-of-#'
    """
    return re.sub(r"\d{5,}", _NUMBER, name)


def _forms(shards: Collection[str]) -> Collection[str]:
    """Returns the forms of shards and indexes: of all at once, as no name has a zero in it, which takes less time."""
    forms = set(_form("\0".join(shards)).split("\0"))
    return forms | {form + INDEX_SUFFIX for form in forms}


def _is_like_a_shard(name: str, other_formats: Collection[str]) -> bool:
    shard = name.removesuffix(INDEX_SUFFIX)
    return ShardFilename.is_valid(shard) and ShardFilename.parse(shard).fileformat not in other_formats
