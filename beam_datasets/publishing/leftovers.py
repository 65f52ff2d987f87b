"""Finding and removing leftovers of killed runs: staging directories, reservations, unfinished files and builds."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from beam_datasets import catalog, storage
from beam_datasets.errors import PathNotFoundError, StorageError
from beam_datasets.metadata.manifest import MANIFEST_FILE
from beam_datasets.publishing import runs, store_commit
from beam_datasets.publishing.owners import Owner, remove_owned
from beam_datasets.publishing.resume import hint
from beam_datasets.publishing.runs import RESULT_DIR, SPILL_SUFFIX, has_units

WEEK = 7 * 24 * 3600.0
"""Default age, in seconds without a change, at which leftovers of an unreachable owner count as abandoned."""

_DEPTH = 3  # levels of directories in a data_dir: dataset, config, version

BUILD = "append"
"""Name in the temporary directory for the builds of an `append` to an object store."""

LeftoverKind = Literal["staging", "run", "temporary", "build"]


@dataclass(frozen=True)
class Leftover:
    """A file or directory that is not part of a published dataset.

    Attributes:
        path: path of the file or directory; a staging directory includes the spill directory next to it.
        kind: 'staging': staging directory of a run; 'run': reservation of a directory in an object store; 'temporary':
            temporary file or directory; 'build': dataset built for an append to an object store.
        num_bytes: total size in bytes.
        modified: time of the last change in it, in seconds since the epoch.
        abandoned: whether no process uses it any more; if its run has decided to publish, it must be finished.
        reason: why it is abandoned, or why it is not.
        job: id of the run; None if unknown.
    """

    path: str
    kind: LeftoverKind
    num_bytes: int
    modified: float
    abandoned: bool
    reason: str
    job: str | None = None


def find_leftovers(
    data_dir: str | os.PathLike[str], *, older_than: float = WEEK, storage_options: Mapping[str, Any] | None = None
) -> list[Leftover]:
    """Returns the files and directories in a data_dir that are not part of a published dataset, ordered by path.

    The directories of datasets, configs and versions are searched. Links are not followed. For an object store,
    `find_builds()` is added at the end, for any data_dir.

    Args:
        data_dir: root of datasets, or a directory in it.
        older_than: age, in seconds without a change, at which leftovers count as abandoned if their owner is unknown or
            on another machine. Reservations never count as abandoned because of their age.
        storage_options: options of the store of `data_dir`; see `beam_datasets.builder`.

    Raises:
        PathNotFoundError: the directory does not exist.
        ValueError: `older_than` is negative, or there are options for a local path.
    """
    if older_than < 0:
        raise ValueError(f"older_than is {older_than}; needed: a time of 0 or more.")
    root = storage.with_options(data_dir, storage_options)
    if not storage.is_dir(root):
        raise PathNotFoundError(catalog.explain_missing_directory(root), path=root)
    return [*_Search(older_than, time.time()).below(root, _DEPTH), *(find_builds() if storage.is_remote(root) else ())]


def find_builds() -> list[Leftover]:
    """Returns the builds that killed appends to object stores left in the temporary directory of this machine."""
    folder, search = storage.normalize(tempfile.gettempdir()), _Search(WEEK, time.time())
    matches = filter(None, map(runs.STAGING_NAME.fullmatch, storage.list_dir(folder, missing_ok=True)))
    names = [match.string for match in matches if match["name"] == BUILD]
    return [leftover for name in names if (leftover := search.judge(storage.join(folder, name), "build"))]


def remove_leftover(
    leftover: Leftover, data_dir: str | os.PathLike[str], *, older_than: float = WEEK, by_force: bool = False
) -> bool:
    """Removes a leftover if it is still abandoned, and parent directories that become empty; returns whether it did.

    A run that has decided to publish is finished instead. Links in the leftover are removed, not followed.

    Args:
        leftover: a result of `find_leftovers` or `find_builds`.
        data_dir: see `find_leftovers`; it is never removed.
        older_than: see `find_leftovers`.
        by_force: also give up a run that may be alive, so that it fails and publishes nothing.

    Raises:
        StorageError: the leftover cannot be removed.
    """
    current = _Search(older_than, time.time()).judge(leftover.path, leftover.kind)
    if current is None or not (current.abandoned or (by_force and current.job == leftover.job)):
        return False
    if current.kind == "run":
        _end_run(_target_of(current.path), current.job)
        return True
    if current.kind == "build":
        remove_owned(current.path)
        return True
    if current.kind == "temporary":
        (storage.remove_tree if storage.is_dir(current.path) else storage.remove)(current.path)
    elif _abandon_run(current.path):
        unowned_dirs = [path for path in _siblings(current.path) if Owner.read(path) is None]
        for path in (current.path + SPILL_SUFFIX, *unowned_dirs, current.path):
            storage.remove_tree(path)
    else:
        return False
    _remove_empty(storage.dirname(current.path), storage.normalize(data_dir))
    return True


def give_up(leftover: Leftover, data_dir: str | os.PathLike[str]) -> str:
    """Gives up a run that may be alive; one that has decided to publish is finished instead.

    Args:
        leftover: the run, a result of `find_leftovers`.
        data_dir: see `find_leftovers`.

    Returns:
        'given up', 'finished', or 'gone' if the run had already ended.
    """
    if not remove_leftover(leftover, data_dir, by_force=True):
        return "gone"
    return "finished" if runs.is_complete(_target_of(leftover.path)) else "given up"


def _end_run(target: str, job: str | None) -> None:
    """Ends the run that holds a version's directory: finishes it if it has decided to publish, otherwise discards it.

    A run other than `job`, which may have reserved the directory since, is not discarded. If this publishes the
    version, the records of its runs are removed.
    """
    reservation = store_commit.holder(target)
    if reservation is not None and (
        runs.is_complete(target)
        or (reservation.run.job == job and not store_commit.discard(reservation.run, by="beam-datasets gc"))
    ):
        store_commit.finish(target)
    if runs.is_complete(target):
        storage.remove_tree(runs.runs_dir(target))  # also that of a run without a decision


def _abandon_run(staging_dir: str) -> bool:
    """Prevents the run of a staging directory from publishing it; returns False if it has decided to publish."""
    match = runs.STAGING_NAME.fullmatch(storage.basename(staging_dir))
    if match is None or not storage.is_remote(staging_dir) or match["name"].endswith(SPILL_SUFFIX):
        return True  # a local directory is renamed before anything in it is removed
    target = storage.join(storage.dirname(staging_dir), match["name"])
    return store_commit.abandon(target, match["job"], by="beam-datasets gc").kind == runs.ABANDON


def _target_of(runs_dir: str) -> str:
    """Returns the version directory to which a directory of run records belongs."""
    return storage.join(storage.dirname(runs_dir), storage.basename(runs_dir).removeprefix(runs.RUNS_PREFIX))


def _remove_empty(path: str, root: str) -> None:
    """Removes a local directory if it is empty, and then its empty parents, up to but not including `root`."""
    while path != root and not storage.is_remote(path) and storage.is_dir(path) and not storage.list_dir(path):
        storage.remove_if_empty(path)
        path = storage.dirname(path)


@dataclass(frozen=True)
class _Search:
    """A search for leftovers.

    Attributes:
        older_than: see `find_leftovers`.
        now: time of the search, in seconds since the epoch.
    """

    older_than: float
    now: float

    def below(self, folder: str, depth: int) -> Iterator[Leftover]:
        """Yields the leftovers in a directory, and in its subdirectories down to `depth` levels."""
        entries = storage.list_dir(folder, missing_ok=True)
        for name in entries:
            path = storage.join(folder, name)
            if storage.is_link(path):
                continue
            if storage.is_temporary(name) or name.startswith(runs.LOG_PREFIX):
                yield from self._examine(path, "temporary")
            elif name.startswith(runs.RUNS_PREFIX) and storage.is_remote(path):
                yield from self._examine(path, "run")
            elif runs.STAGING_NAME.fullmatch(name):
                if name.removesuffix(SPILL_SUFFIX) in entries and name.endswith(SPILL_SUFFIX):
                    continue  # shown with the staging directory
                yield from self._examine(path, "staging")
            elif depth and not _is_file_of_a_dataset(name) and storage.is_dir(path):
                yield from self.below(path, depth - 1)

    def _examine(self, path: str, kind: LeftoverKind) -> Iterator[Leftover]:
        """Yields the leftover at a path, if any; if that cannot be judged, one to keep, with the error as reason."""
        try:
            leftover = self.judge(path, kind)
        except StorageError as error:  # such as a damaged record, which must not hide other leftovers
            leftover = Leftover(path, kind, 0, self.now, False, f"cannot be judged: {error}")
        if leftover is not None:
            yield leftover

    def judge(self, path: str, kind: LeftoverKind) -> Leftover | None:
        """Returns the current state of the leftover at a path; None if it is gone or not a leftover."""
        if storage.is_link(path):
            return None
        usage = _usage(path)
        if usage is None:
            return None
        if kind == "staging" and (spilled := _usage(path + SPILL_SUFFIX)):
            usage = storage.Usage(usage.num_bytes + spilled.num_bytes, max(usage.modified, spilled.modified))
        if kind == "run":
            return self._judge_run(path, usage)
        owner = (Owner.read(path) or _sibling_owner(path)) if kind in ("staging", "build") else None
        if kind == "build" and not (owner and owner.is_dead):
            return None
        if kind == "staging" and owner is None and catalog.versions_in(path):
            return None  # the directory of a config that is named like a staging directory
        if kind == "staging" and _belongs_to_holder(path):
            return None  # shown with the reservation
        if kind == "staging" and (job := _published_by(path)):
            return Leftover(path, kind, usage.num_bytes, usage.modified, True, f"run {job} has published", job)
        abandoned, reason = self._judge_owner(owner, usage.modified)
        if kind == "staging" and (spill_dir := _reusable_spill_dir(path)):
            abandoned = abandoned and self.now - usage.modified >= self.older_than
            reason = f"{reason}; finished units, which are reused by: {hint(spill_dir)}"
        if owner is None and kind == "staging" and (result := _kept_result(path)):
            reason = f"refused for its number: beam-datasets publish {result} --version NUMBER publishes it; {reason}"
        return Leftover(path, kind, usage.num_bytes, usage.modified, abandoned, reason, owner.job if owner else None)

    def _judge_run(self, path: str, usage: storage.Usage) -> Leftover:
        """Judges a directory of run records: of a run that holds the directory, or of discarded runs, which is kept."""
        target = _target_of(path)
        if runs.is_complete(target):
            reason = "records of runs; the version is published"
            return Leftover(path, "run", usage.num_bytes, usage.modified, True, reason)
        reservation = store_commit.holder(target)
        if reservation is None or (reservation.decision is not None and reservation.decision.kind == runs.ABANDON):
            reason = "records of runs that were given up, which keep them from publishing; they go when one publishes"
            return Leftover(path, "run", usage.num_bytes, usage.modified, False, reason)
        parts = [
            usage,
            *filter(None, map(_usage, filter(None, (reservation.run.staging_dir, reservation.run.spill_dir)))),
        ]
        num_bytes, modified = (
            sum(usage_of_dir.num_bytes for usage_of_dir in parts),
            max(usage_of_dir.modified for usage_of_dir in parts),
        )
        owner, job = reservation.run.owner, reservation.run.job
        if reservation.decision is not None:
            abandoned, owner_text = self._judge_owner(owner, modified)
            reason = f"run {job} has staged everything and decided to publish, --yes finishes it; {owner_text}"
        else:
            abandoned = reservation.run.is_dead
            _, owner_text = (True, f"{owner.text} is gone") if abandoned else self._judge_owner(owner, time.time())
            reason = f"reserved by run {job}; {owner_text.partition(';')[0]}"
            reason += "" if abandoned else f"; --abandon {job} gives it up"
        return Leftover(path, "run", num_bytes, modified, abandoned, reason, job)

    def _judge_owner(self, owner: Owner | None, modified: float) -> tuple[bool, str]:
        """Returns (whether files are abandoned, the reason), such as (True, 'process 7 is gone').

        Args:
            owner: the process that wrote them; None if it is unknown.
            modified: time of the last change, in seconds since the epoch.
        """
        is_old = self.now - modified >= self.older_than
        age = "not changed for long" if is_old else "changed lately"
        if owner is None:
            return is_old, f"no owner is known; {age}"
        if not owner.is_here:
            return is_old, f"of process {owner.pid} on {owner.host}, which cannot be asked; {age}"
        if owner.is_running:
            return False, f"in use by process {owner.pid}"
        if owner.is_local:
            return True, f"process {owner.pid} is gone"
        return is_old, f"process {owner.pid} is gone, but {owner.runner} may work on; {age}"


def _usage(path: str) -> storage.Usage | None:
    """Returns the size and last change of a path; None if it does not exist."""
    try:
        return storage.usage(path)
    except PathNotFoundError:
        return None


def _siblings(path: str) -> list[str]:
    """Returns the other directories of a run that was killed while it published to a disk; [] if there are none.

    `disk_commit.rename_into_place` makes `<staging directory>.<8 hexadecimal digits>` twice.

    Args:
        path: one of these directories, or any other path.
    """
    folder, name = storage.dirname(path), storage.basename(path)
    match = runs.PUBLISHED_FROM.fullmatch(name)
    if match is None or storage.is_remote(path):
        return []
    others = [other for other in storage.list_dir(folder, missing_ok=True) if other != name]
    matches = map(runs.PUBLISHED_FROM.fullmatch, others)
    return [storage.join(folder, other.string) for other in matches if other and other["staging"] == match["staging"]]


def _sibling_owner(path: str) -> Owner | None:
    """Returns the owner recorded in one of the `_siblings` of a directory, if any."""
    return next(filter(None, map(Owner.read, _siblings(path))), None)


def _published_by(path: str) -> str | None:
    """Returns the id of the run of a staging or spill directory if it has published; None otherwise.

    Such a directory remains if the launcher was killed, or if the runner repeated stages after publishing.
    """
    match = runs.STAGING_NAME.fullmatch(storage.basename(path).removesuffix(SPILL_SUFFIX))
    if match is None or not runs.is_published_by(match["job"], storage.join(storage.dirname(path), match["name"])):
        return None
    return match["job"]


def _reusable_spill_dir(path: str) -> str | None:
    """Returns the spill directory of a staging directory if it has finished units and the version is unpublished."""
    folder, name = storage.dirname(path), storage.basename(path).removesuffix(SPILL_SUFFIX)
    match, spill_dir = runs.STAGING_NAME.fullmatch(name), storage.join(folder, name + SPILL_SUFFIX)
    if match is None or not has_units(spill_dir) or runs.is_complete(storage.join(folder, match["name"])):
        return None
    return spill_dir


def _belongs_to_holder(path: str) -> bool:
    """Returns whether a staging or spill directory in an object store belongs to the run that reserved the version."""
    match = runs.STAGING_NAME.fullmatch(storage.basename(path).removesuffix(SPILL_SUFFIX))
    if match is None or not storage.is_remote(path):
        return False
    reservation = store_commit.holder(storage.join(storage.dirname(path), match["name"]))
    if reservation is None or reservation.run.job != match["job"]:
        return False
    return reservation.decision is None or reservation.decision.kind != runs.ABANDON


def _kept_result(staging_dir: str) -> str | None:
    """Returns the directory of a complete but unpublished version in a staging directory, if any."""
    for path in (staging_dir, storage.join(staging_dir, RESULT_DIR)):
        if storage.exists(storage.join(path, MANIFEST_FILE)):
            return path
    return None


def _is_file_of_a_dataset(name: str) -> bool:
    """Returns whether a name is that of a dataset file, which saves asking the store whether it is a directory."""
    return ".tfrecord-" in name or name.endswith((".json", ".index"))
