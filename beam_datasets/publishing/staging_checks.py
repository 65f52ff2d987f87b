"""Checks that the directories of an active run still exist, and that all of its processes can access them."""

from __future__ import annotations

import contextlib
import os
import socket
import time

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError, StorageError
from beam_datasets.publishing import runs
from beam_datasets.publishing.owners import OWNER_FILE
from beam_datasets.publishing.runs import Run

_LOOK_AGAIN_SECONDS = 0.5
LOST = "it was removed, or its disk was unmounted, while the run was active"


def check_directories(run: Run) -> None:
    """Checks that the directories of an active run that are on a disk still exist.

    Otherwise its processes would create them again, and fail only when they read files of the lost directory.

    Raises:
        PathNotFoundError: a directory was removed, or its disk unmounted.
    """
    for directory in filter(None, (run.spill_dir, run.staging_dir)):
        if storage.is_remote(directory) or not _is_lost(run, directory):
            continue
        time.sleep(_LOOK_AGAIN_SECONDS)  # a network disk may answer wrongly for a moment
        if _is_lost(run, directory):
            raise lost_error(directory, "directory that the run has made")


def _is_lost(run: Run, directory: str) -> bool:
    """Returns whether a directory of a run on a disk has no owner.json, and the run has not renamed it to publish it.

    An error of the disk does not count: it may pass, and whatever uses the directory reports it.
    """
    try:
        os.stat(storage.join(directory, OWNER_FILE))
    except (FileNotFoundError, NotADirectoryError):
        with contextlib.suppress(StorageError):
            return directory != run.staging_dir or not _is_being_published(run)
    except OSError:
        return False
    return False


def lost_error(path: str, expected: str) -> PathNotFoundError:
    """Returns the error for a path of a run that has disappeared.

    Args:
        path: the path.
        expected: the former content of the path, with its origin.
    """
    return PathNotFoundError(
        f"expected the {expected}, got none: {LOST}",
        expected=expected,
        path=path,
        advice="Mount the disk again if it is not mounted, and run the same command again.",
    )


def _is_being_published(run: Run) -> bool:
    """Returns whether a run has renamed its staging directory to publish it, has published, or has renamed it back.

    See `disk_commit.rename_into_place`.
    """
    with contextlib.suppress(PathNotFoundError):
        for name in storage.list_dir(storage.dirname(run.target)):
            match = runs.PUBLISHED_FROM.fullmatch(name)
            if match and match["staging"] == storage.basename(run.staging_dir):
                return True
    # Neither: it has just published, or has just renamed the directory back.
    return runs.is_complete(run.target) or storage.exists(storage.join(run.staging_dir, OWNER_FILE))


def explain_error(run: Run, error: BaseException) -> BaseException:
    """Returns an error that names the lost directory of a run if the loss caused `error`; otherwise `error`."""
    if isinstance(error, PathNotFoundError) and LOST not in str(error):
        try:
            check_directories(run)
        except PathNotFoundError as lost:
            return lost
    return error


def check_is_of_launcher(run: Run) -> None:
    """Checks that this process sees the staging directory that the launcher has made.

    A worker with another disk, or another store of the same name, could write all files of a run there. Only the
    launcher writes owner.json.

    Raises:
        StorageError: this process does not see the directory.
    """
    if run.owner.is_local and not run.is_remote:
        check_directories(run)
    elif not storage.exists(storage.join(run.staging_dir, OWNER_FILE)):
        raise StorageError(
            f"the launcher has created it, but the worker on {socket.gethostname()} does not see it",
            path=run.staging_dir,
            advice="Give a data_dir that the launcher and all workers share.",
        )
