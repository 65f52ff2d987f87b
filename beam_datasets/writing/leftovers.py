"""What runs left that were killed: staging directories, unfinished files, empty directories; and whose they are."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from beam_datasets import catalog, storage
from beam_datasets.errors import PathNotFoundError, StorageError
from beam_datasets.model.names import check_dataset_name
from beam_datasets.model.version import Version
from beam_datasets.writing import claims
from beam_datasets.writing.owners import LOCAL_RUNNERS, Owner

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

WEEK = 7 * 24 * 3600.0
"""After how many seconds without a change something is abandoned whose owner cannot be asked."""

EXPORT_FILE = "_export.json"
"""What an export says of itself, written last. Whoever reads a directory of Parquet files passes over such names."""

_DEPTH = 3  # of directories below a data_dir: dataset, config, version
_STAGING = re.compile(r"incomplete\.[0-9A-Za-z]+_.+")
_EMPTY_SECONDS = 3600.0  # after which nobody is just about to put something into an empty directory


@dataclass(frozen=True)
class Leftover:
    """Something that is no part of a published dataset.

    Attributes:
        path: of the file or directory.
        kind: 'staging' of a run, 'half' of a version that was being put in place, a 'temporary' file, an 'empty'
            directory.
        num_bytes: that it takes.
        modified: when something in it was last changed, in seconds since the epoch.
        abandoned: whether nobody works at it any more.
        reason: why, or why not.
    """

    path: str
    kind: Literal["staging", "half", "temporary", "empty"]
    num_bytes: int
    modified: float
    abandoned: bool
    reason: str


def find_leftovers(
    data_dir: str | os.PathLike[str], *, older_than: float = WEEK, storage_options: Mapping[str, Any] | None = None
) -> list[Leftover]:
    """Returns what is below a data_dir and no part of a published dataset, in the order of the paths.

    Looked at are the directories of datasets, configs and versions. Links are not followed.

    Args:
        data_dir: root of datasets, or a directory below one.
        older_than: after how many seconds without a change something is abandoned whose owner cannot be asked: one on
            another machine, or none that is known.
        storage_options: of the store of `data_dir`; see `beam_datasets.builder`. What is found carries them.

    Raises:
        PathNotFoundError: there is no such directory.
        ValueError: `older_than` is negative, or there are options for a local path.
    """
    if older_than < 0:
        raise ValueError(f"older_than is {older_than}; needed: a time of 0 or more.")
    root = storage.with_options(data_dir, storage_options)
    if not storage.is_dir(root):
        raise PathNotFoundError(f"{root}: there is no such directory")
    return list(_Search(older_than, time.time()).below(root, ()))


def remove_leftover(leftover: Leftover, data_dir: str | os.PathLike[str], *, older_than: float = WEEK) -> bool:
    """Removes what is abandoned, if it still is, and the directories that are empty then; returns whether it did.

    Links in it are removed, not followed.

    Args:
        leftover: of `find_leftovers`.
        data_dir: see there; it stays.
        older_than: see there.

    Raises:
        StorageError: it cannot be removed.
    """
    now = _Search(older_than, time.time()).judge(leftover.path, leftover.kind)
    if now is None or not now.abandoned:
        return False
    if now.kind == "temporary":
        storage.remove(now.path)
    elif now.kind == "empty":
        storage.remove_empty_dir(now.path)
    elif now.kind == "staging":
        storage.remove_tree(now.path)
    else:
        _remove_half(now.path)
    _remove_empty(storage.dirname(now.path), storage.normalize(data_dir))
    return True


def _remove_half(path: str) -> None:
    """Removes what a publisher left that died, while no other one can begin."""
    claim = claims.take(path, f"gc-{uuid.uuid4().hex[:8]}")
    if _is_complete(path):
        storage.remove(claim.path)
        return
    for name in storage.list_dir(path):
        inner = storage.join(path, name)
        if name != claims.CLAIMS_DIR:
            (storage.remove_tree if storage.is_dir(inner) else storage.remove)(inner)
    storage.remove_tree(storage.join(path, claims.CLAIMS_DIR))


def _is_complete(path: str) -> bool:
    """Returns whether a directory is a published version or an export, whatever else stands in it."""
    return catalog.is_published(path) or storage.exists(storage.join(path, EXPORT_FILE))


def _remove_empty(path: str, root: str) -> None:
    """Removes a directory below the root that is empty, and those above it that are so then."""
    while path != root and not storage.is_remote(path) and storage.is_dir(path) and not storage.list_dir(path):
        storage.remove_empty_dir(path)
        path = storage.dirname(path)


@dataclass(frozen=True)
class _Search:
    """A look for leftovers.

    Attributes:
        older_than: see `find_leftovers`.
        now: seconds since the epoch.
    """

    older_than: float
    now: float

    def below(self, folder: str, names: tuple[str, ...]) -> Iterator[Leftover]:
        """Yields what is in a directory, whose names below the data_dir are given, and in those in it."""
        entries = _list(folder)
        if not entries and names and _may_be_ours(names):
            yield from self._found(folder, "empty")
        if claims.CLAIMS_DIR in entries:
            yield from self._found(folder, "half")
        for name in entries:
            path = storage.join(folder, name)
            if storage.is_link(path):
                continue
            if storage.is_temporary(name):
                yield from self._found(path, "temporary")
            elif _STAGING.fullmatch(name):
                yield from self._found(path, "staging")
            elif len(names) < _DEPTH and not _is_file_of_a_dataset(name) and storage.is_dir(path):
                yield from self.below(path, (*names, name))

    def _found(self, path: str, kind: Literal["staging", "half", "temporary", "empty"]) -> Iterator[Leftover]:
        leftover = self.judge(path, kind)
        if leftover is not None:
            yield leftover

    def judge(self, path: str, kind: Literal["staging", "half", "temporary", "empty"]) -> Leftover | None:
        """Returns what a path is now; None where it is gone, or is no leftover any more."""
        if storage.is_link(path):
            return None
        try:
            usage = storage.usage(path)
        except PathNotFoundError:
            return None
        if kind == "half":
            claim = claims.latest(path)[1]
            if claim is None or _is_complete(path):
                return None
            who = f"job {claim.job}, process {claim.pid} on {claim.host}"
            reason = f"in use by {who}" if claim.is_alive else f"its publisher is gone: {who}"
            return Leftover(path, kind, usage.num_bytes, usage.modified, not claim.is_alive, reason)
        if kind == "empty":
            abandoned = not _list(path) and self.now - usage.modified >= min(_EMPTY_SECONDS, self.older_than)
            reason = "nothing is in it" if abandoned else "nothing is in it yet"
            return Leftover(path, kind, 0, usage.modified, abandoned, reason)
        owner = Owner.read(path) if kind == "staging" else None
        if kind == "staging" and owner is None and _holds_published(path):
            return None
        abandoned, reason = self._whose(owner, usage.modified)
        return Leftover(path, kind, usage.num_bytes, usage.modified, abandoned, reason)

    def _whose(self, owner: Owner | None, modified: float) -> tuple[bool, str]:
        """Returns whether something is abandoned, and why."""
        old = self.now - modified >= self.older_than
        age = "not changed for long" if old else "changed lately"
        if owner is None:
            return old, f"no owner is known; {age}"
        if not owner.is_here:
            return old, f"of process {owner.pid} on {owner.host}, which cannot be asked; {age}"
        if owner.runs:
            return False, f"in use by process {owner.pid}"
        if owner.runner in LOCAL_RUNNERS:
            return True, f"process {owner.pid} is gone"
        return old, f"process {owner.pid} is gone, but {owner.runner} may work on; {age}"


def _list(folder: str) -> list[str]:
    try:
        return storage.list_dir(folder)
    except PathNotFoundError:
        return []  # gone meanwhile
    except StorageError:
        if storage.is_dir(folder):
            raise
        return []


def _holds_published(path: str) -> bool:
    """Whether a directory is that of a config that has just such a name."""
    inner = [storage.join(path, name) for name in _list(path) if Version.is_valid(name)]
    return any(map(catalog.is_published, inner))


def _is_file_of_a_dataset(name: str) -> bool:
    """Whether a name is of a file, so that it needs not be asked whether it is a directory."""
    return ".tfrecord-" in name or name.endswith((".json", ".index"))


def _may_be_ours(names: tuple[str, ...]) -> bool:
    """Whether an empty directory is in the place of a dataset, a config or a version."""
    try:
        check_dataset_name(names[0])
    except ValueError:
        return False
    return len(names) == 1 or all(Version.is_valid(name) for name in names[2:])
