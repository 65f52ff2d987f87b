"""Commit on a local disk: a complete staging directory gets its final name in one rename."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence

from beam_datasets import storage
from beam_datasets.errors import LostExamplesError, StorageError
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE
from beam_datasets.publishing import runs
from beam_datasets.publishing.owners import IN_PROCESS, OWNER_FILE, Owner, remove_owned
from beam_datasets.publishing.runs import Run
from beam_datasets.publishing.staged_files import StagedFile


def rename_into_place(run: Run, files: Sequence[StagedFile]) -> None:
    """Moves the staged files into a new directory, checks their sizes, and renames it to `run.target`.

    After an error, the staging directory has its name and its files again.

    Another attempt cannot write between the check and the last rename: under the name of the staging directory `gc`
    could remove it and the attempt create it again, and in the directory itself one may just be creating a file.

    Raises:
        FileExistsError: something is at the final name.
        FileNotFoundError: another attempt was faster.
        LostExamplesError: a file was removed or changed.
    """
    sizes = {file.name: file.num_bytes for file in files}
    taken_dir, new_dir = f"{run.staging_dir}.{uuid.uuid4().hex[:8]}", f"{run.staging_dir}.{uuid.uuid4().hex[:8]}"
    remove_extra_files(run.staging_dir, {*sizes, OWNER_FILE})
    storage.rename_dir(run.staging_dir, taken_dir)
    try:
        # The manifest is moved last: a directory with one is a complete result for `gc`, which keeps it.
        storage.move_files(taken_dir, new_dir, sorted(sizes, key=lambda name: name == MANIFEST_FILE))
        moved_sizes = storage.file_sizes(new_dir)
        wrong = [
            name for name in sizes if name not in moved_sizes or (name != RUN_FILE and moved_sizes[name] != sizes[name])
        ]
        if wrong:
            raise LostExamplesError(
                f"{len(wrong)} of {len(sizes)} files were removed or changed, such as {wrong[0]}",
                path=run.staging_dir,
                outcome="nothing was published",
                advice="Run it again.",
            )
        storage.rename_dir(new_dir, run.target)
    except BaseException:
        try:
            storage.move_files(new_dir, taken_dir, sizes)
            storage.rename_dir(taken_dir, run.staging_dir)  # for another attempt, or the launcher to remove
        except StorageError:
            storage.remove_tree(taken_dir)
        storage.remove_tree(new_dir)
        raise
    with contextlib.suppress(StorageError):  # another attempt just writes there; it is published, and gc finds the rest
        storage.remove_tree(taken_dir)


@contextlib.contextmanager
def beside(target: str) -> Iterator[str]:
    """Context manager: makes a directory beside a version on a local disk, yields its path, and removes it.

    It has an owner.json, so `gc` can remove it if the process dies.

    Raises:
        StorageError: the version is on an object store.
    """
    if storage.is_remote(target):
        raise StorageError(
            "only a version on a local disk can be overwritten", path=target, advice="Raise the version."
        )
    owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), IN_PROCESS)
    folder = runs.staging_dir(target, owner.job)
    storage.make_dirs(folder)
    try:
        owner.write(folder)
        yield folder
    finally:
        remove_owned(folder)


def replace_published(complete_dir: str, target: str) -> None:
    """Puts a complete version in the place of a published one, on a local disk.

    A process that is killed between the two renames leaves the old one as `replaced.*` beside the target, which `gc`
    does not touch: rename it back, or build again.
    """
    old = storage.join(storage.dirname(target), f"replaced.{uuid.uuid4().hex[:8]}_{storage.basename(target)}")
    storage.rename_dir(target, old)
    try:
        storage.rename_dir(complete_dir, target)
    except BaseException:
        storage.rename_dir(old, target)
        raise
    storage.remove_tree(old)


def remove_extra_files(directory: str, kept_names: set[str]) -> None:
    """Removes all entries of a directory except `kept_names`, such as spilled blocks and files of killed attempts."""
    for name in storage.list_dir(directory):
        if name not in kept_names:
            path = storage.join(directory, name)
            (storage.remove_tree if storage.is_dir(path) else storage.remove)(path)
