"""Reservations of the runs that may publish to an object store: decided once, by files that are only ever created.

An object store creates single files on the condition that they do not exist; it has no rename, and its deletions are
unconditional. A process may be suspended before any call and go on hours later. So final names are created, never
replaced or deleted, and only one run ever creates any:

    <parent>/incomplete.runs.<name>/00000001.reservation.json    run 1 may publish <parent>/<name>
    <parent>/incomplete.runs.<name>/<job>.decision.json          "publish", with all staged files, or "abandon"

* A run reserves the next number when it starts. It may do so only if the run that holds the highest number has the
  decision "abandon".
* When all of its files are staged, the run creates its decision "publish". To give up a run is to create its decision
  "abandon". The file can be created once, so exactly one of the two decisions is final.
* After "abandon", the run creates no final name, and its staged files may be deleted.
* After "publish", any process may put the staged files in place, any number of times: each is copied to its final name
  if that does not exist, all are checked, and the marker (dataset_info.json), which makes the directory visible, is
  created last. Staged files are deleted only after that.
* The records are deleted after that, too. A late run may then create a record again, so a process that creates or
  reads a record and continues looks for the marker afterwards. Records are deleted only once the marker is there,
  so without a marker the record is valid.

No clock is read, and nothing expires. A reservation is abandoned by its own run, by a process that knows that the run's
process is gone, or by an explicit command.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from beam_datasets import storage
from beam_datasets.errors import AbandonedError, AlreadyPublishedError, PathNotFoundError, StorageError
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.publishing.runs import (
    ABANDON,
    PUBLISH,
    Decision,
    Run,
    already_published,
    has_units,
    is_complete,
    runs_dir,
)
from beam_datasets.publishing.staged_files import StagedFile, content_of

COPIES_AT_ONCE = 8
_RESERVATION = re.compile(r"(\d{8})\.reservation\.json")


class Holder(NamedTuple):
    """The run with the highest reservation of a directory.

    Attributes:
        number: number of the reservation.
        run: the run that has it.
        decision: decision about the run; None if there is none yet.
    """

    number: int
    run: Run
    decision: Decision | None


def holder(target: str) -> Holder | None:
    """Returns the run with the highest reservation; None if no run has reserved it.

    Raises:
        StorageError: a record is damaged.
    """
    folder = runs_dir(target)
    try:
        matches = [match for name in storage.list_dir(folder) if (match := _RESERVATION.fullmatch(name))]
        if not matches:
            return None
        last = max(matches, key=lambda match: match[1])
        path = storage.join(folder, last[0])
        text = storage.read_bytes(path)
    except PathNotFoundError:  # deleted in the meantime, because the version is published
        return None
    try:
        run = Run.from_json(text, target=target)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged_error(path, error) from error
    return Holder(int(last[1]), run, decision_of(target, run.job))


def decision_of(target: str, job: str) -> Decision | None:
    """Returns the decision about a run; None if there is none.

    Raises:
        StorageError: the record is damaged.
    """
    path = _decision_path(target, job)
    try:
        return Decision.from_json(storage.read_bytes(path))
    except PathNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged_error(path, error) from error


def _reserved_error(target: str, other: Run) -> AlreadyPublishedError:
    """Returns the error of a version that another run has reserved."""
    return AlreadyPublishedError(
        f"expected no other run, but {other.text} has reserved it",
        path=target,
        advice=(
            "Wait for its end. If it has ended, give it up: beam-datasets gc "
            f"{storage.dirname(target)} --abandon {other.job}"
        ),
    )


def check_can_reserve(run: Run) -> None:
    """Checks that `reserve` would reserve the directory for a run; changes nothing.

    Raises:
        AlreadyPublishedError: the directory is published, another run holds it, or it has other content.
    """
    _check_not_complete(run.target)
    reservation = holder(run.target)
    if reservation is None or (reservation.decision is not None and reservation.decision.kind == ABANDON):
        _check_empty(run)
    elif reservation.decision is not None:
        raise AlreadyPublishedError(
            f"{reservation.run.text} has decided to publish, but has not finished",
            path=run.target,
            advice="Run the build, or `beam-datasets gc`: it puts the files in place.",
        )
    elif not reservation.run.is_dead:
        raise _reserved_error(run.target, reservation.run)
    else:  # `reserve` abandons that run, whose files are in other directories
        _check_empty(run)


def reserve(run: Run) -> None:
    """Reserves the directory for a run; does nothing if the run has it already.

    A run that has decided to publish and was not finished is finished first. A run whose process is certainly gone is
    abandoned, and its files are deleted.

    Raises:
        AlreadyPublishedError: the directory is published, another run holds it, or it has other content.
        AbandonedError: this run was abandoned.
        StorageError: the store fails or ignores the condition of a creation, or a record is damaged.
    """
    while True:
        _check_not_complete(run.target)
        decision = decision_of(run.target, run.job)
        if decision is not None and decision.kind == ABANDON:
            raise _abandoned_error(run, decision)
        reservation = holder(run.target)
        if reservation is None or (reservation.decision is not None and reservation.decision.kind == ABANDON):
            number = reservation.number + 1 if reservation else 1
            path = storage.join(runs_dir(run.target), f"{number:08d}.reservation.json")
            if not _create(path, run.to_json()):
                continue
            is_replaced = _create(path, run.to_json() + b"\n")  # the same record, which the store must refuse
            _check_not_complete(run.target)  # records that were deleted in the meantime would not have stopped this run
            if is_replaced:
                abandon(run.target, run.job, by="itself")
                raise StorageError(
                    "expected the store to refuse to create a file that exists, but it replaced it: two runs "
                    "could publish one version there",
                    path=path,
                    advice="Publish to another store, and copy the directory.",
                )
            try:
                _check_empty(run)
            except AlreadyPublishedError:
                abandon(run.target, run.job, by="itself")
                raise
            return
        if reservation.run.job == run.job:
            return
        if reservation.decision is not None:
            finish(run.target)
            raise AlreadyPublishedError(
                f"{reservation.run.text} had staged everything and decided to publish, but had not finished. "
                "Its files have been put in place now",
                path=run.target,
                outcome="the version is published",
            )
        if not reservation.run.is_dead:
            raise _reserved_error(run.target, reservation.run)
        discard(reservation.run, by=f"run {run.job}, because {reservation.run.owner.text} is gone")


def decide(run: Run, files: Sequence[StagedFile], digest: str) -> Decision:
    """Decides that a run publishes these files, and returns the decision; reserves the directory if need be.

    Another attempt of the same run may have decided before: then that decision, with its files, is returned.

    Args:
        run: the run.
        files: all files of the directory, staged, the marker included.
        digest: identifies the content, so that attempts of one run agree.

    Raises:
        AlreadyPublishedError: see `reserve`; or another attempt of this run has decided to publish other content.
        AbandonedError: this run was abandoned.
    """
    reserve(run)
    proposal = Decision(run.job, PUBLISH, digest, list(files))
    created = _create(_decision_path(run.target, run.job), proposal.to_json())
    decision = proposal if created else decision_of(run.target, run.job)
    _check_not_complete(run.target)  # as in `reserve`: "abandon" may have been deleted
    if decision is None:
        raise StorageError("expected a record, but it was deleted", path=_decision_path(run.target, run.job))
    if decision.kind == ABANDON:
        raise _abandoned_error(run, decision)
    if decision.digest != digest:
        raise AlreadyPublishedError(
            f"another attempt of run {run.job} has decided to publish other content (digest {decision.digest}, here "
            f"{digest}). Either one pipeline object was run twice, or its examples differ from attempt to attempt",
            path=run.target,
            expected=decision.digest,
            got=digest,
            advice=f"Finish the first: beam-datasets gc {storage.dirname(run.target)} --yes",
        )
    return decision


def commit_file(run: Run, file: StagedFile) -> None:
    """Copies a staged file to its final name; if that exists, checks that it has the same content.

    Only for a run whose decision is to publish, as returned by `decide`. Of the marker it does nothing: see `complete`.

    Raises:
        StorageError: the final name exists with other content, or the staged file does not exist.
    """
    if file.name == run.marker:
        return
    source, target = storage.join(run.staging_dir, file.staged), storage.join(run.target, file.name)
    try:
        storage.create_copy(source, target)
    except (FileExistsError, FileNotFoundError) as error:  # the latter: published, and the staged files are deleted
        try:
            num_bytes, checksum = content_of(target)
        except FileNotFoundError:
            raise error from None
        if (num_bytes, checksum) != (file.num_bytes, file.crc32c):
            raise StorageError(
                expected=f"{file.num_bytes} bytes with CRC-32C {file.crc32c:08x}, as {source} has",
                got=f"{num_bytes} with {checksum:08x}",
                advice="Another program wrote it; move it away and run gc.",
                path=target,
            ) from None


def complete(run: Run, decision: Decision) -> None:
    """Makes the directory visible: checks its files, creates the marker last, deletes what the run needed.

    Raises:
        StorageError: a file is missing or has another size.
        AlreadyPublishedError: there is a marker with other content.
    """
    marker = next(file for file in decision.files if file.name == run.marker)
    path = storage.join(run.target, run.marker)
    try:
        text = storage.read_bytes(storage.join(run.staging_dir, marker.staged))
    except FileNotFoundError:
        if not storage.exists(path) or content_of(path) != (marker.num_bytes, marker.crc32c):
            raise
    else:
        _check_files(run, decision)
        if not _create(path, text):
            _check_not_complete(run.target)
    delete_files(run)


def _check_files(run: Run, decision: Decision) -> None:
    """Checks that the target directory contains all files of the decision but the marker, each in its size.

    Raises:
        StorageError: a file is missing or has another size.
    """
    sizes = storage.file_sizes(run.target)
    wrong = [file for file in decision.files if file.name != run.marker and sizes.get(file.name) != file.num_bytes]
    if wrong:
        raise StorageError(
            expected=f"{wrong[0].num_bytes} bytes",
            got=f"{sizes.get(wrong[0].name, 'no file')} ({len(wrong)} of {len(decision.files)} files are wrong)",
            path=storage.join(run.target, wrong[0].name),
            advice="Run gc to put the staged files in place.",
        )


def finish(target: str) -> bool:
    """Puts the files of a run in place that has decided to publish; returns False if no run has.

    Any process may call this, any number of times, also while the run itself does it.

    Raises:
        StorageError: its staged files are gone, and the version is not there: it was published, and deleted since.
    """
    reservation = holder(target)
    if reservation is None or reservation.decision is None or reservation.decision.kind != PUBLISH:
        return False
    if is_complete(target):  # else the decision is valid
        delete_files(reservation.run)
    else:
        try:
            commit_all(reservation.run, reservation.decision)
            complete(reservation.run, reservation.decision)
        except FileNotFoundError as error:
            raise StorageError(
                f"{error}. {reservation.run.text} had decided to publish {target}, but what it staged was removed, as "
                "it is once it is published",
                advice=(
                    "If you deleted the version, and no run is active: delete "
                    f"{runs_dir(target)} as well, and run the same command again."
                ),
            ) from None
    if reservation.run.owner.is_dead:
        reservation.run.remove_worker_log()
        if reservation.run.spill_dir:
            storage.remove_tree(reservation.run.spill_dir)
    return True


def commit_all(run: Run, decision: Decision) -> None:
    """Copies the files of a decision to their final names, a few at once, except for the run's marker.

    The marker of a dataset is dataset_info.json. An export has another marker, and dataset_info.json is copied last.
    """
    with ThreadPoolExecutor(COPIES_AT_ONCE) as executor:
        for future in [executor.submit(commit_file, run, file) for file in decision.files if file.name != INFO_FILE]:
            future.result()
    for file in decision.files:
        if file.name == INFO_FILE:
            commit_file(run, file)


def abandon(target: str, job: str, *, by: str) -> Decision:
    """Abandons a run unless it has decided to publish; returns the decision that holds.

    Args:
        target: the directory that the run would publish.
        job: the run's id. It need not have reserved the directory.
        by: name of the person or program that abandons it, for messages.
    """
    proposal = Decision(job, ABANDON, by=by)
    while not is_complete(target):  # no run publishes there any more, and records would be left
        if _create(_decision_path(target, job), proposal.to_json()):
            return proposal
        if (decision := decision_of(target, job)) is not None:
            return decision
    return proposal


def discard(run: Run, *, by: str) -> bool:
    """Abandons a run and deletes its files; returns False if it has decided to publish, and deletes nothing then.

    The files of a run with finished units stay: `--resume` reuses them, and gc deletes them when they are old.
    """
    if abandon(run.target, run.job, by=by).kind == PUBLISH:
        return False
    run.remove_worker_log()
    if run.spill_dir is None or not has_units(run.spill_dir):
        for directory in filter(None, (run.spill_dir, run.staging_dir)):
            storage.remove_tree(directory)
    return True


def delete_files(run: Run) -> None:
    """Deletes staged files and records of a published directory. Remaining files are harmless, and `gc` finds them.

    Spilled payload stays until the engine has confirmed that the job ended: it may run earlier stages again.
    """
    with contextlib.suppress(StorageError):
        for directory in (run.staging_dir, runs_dir(run.target)):
            storage.remove_tree(directory)


def _check_not_complete(target: str) -> None:
    """Raises AlreadyPublishedError if the directory is published; then also deletes records of runs that came later."""
    if is_complete(target):
        with contextlib.suppress(StorageError):
            storage.remove_tree(runs_dir(target))
        raise already_published(storage.basename(target), target)


def _check_empty(run: Run) -> None:
    """Checks that the directory of a run has no files yet."""
    try:
        names = storage.list_dir(run.target)
    except PathNotFoundError:
        return
    if names:
        raise AlreadyPublishedError(
            f"it exists but is not a published dataset (it lacks {run.marker}), and no run is known that put "
            f"{names[0]} there",
            path=run.target,
            advice="Move it away to publish there.",
        )


def _create(path: str, content: bytes) -> bool:
    """Creates a file and returns whether it is there with this content: the reply to an earlier attempt may be lost."""
    try:
        storage.create_bytes(path, content)
    except FileExistsError:
        try:
            return storage.read_bytes(path) == content
        except PathNotFoundError:
            return False
    return True


def _decision_path(target: str, job: str) -> str:
    """Returns the path of the file with the decision about a run: "<runs_dir(target)>/<job>.decision.json"."""
    return storage.join(runs_dir(target), f"{job}.decision.json")


def _abandoned_error(run: Run, decision: Decision) -> AbandonedError:
    """Returns the error about a run that somebody abandoned; see `Decision.by`."""
    return AbandonedError(
        f"run {run.job} was given up by {decision.by}", path=run.target, outcome="it published nothing"
    )


def _damaged_error(path: str, error: Exception) -> StorageError:
    """Returns the error about a file of a run whose content is invalid; `error` is the exception of its parser."""
    return StorageError(
        expected="the record of a run",
        got=f"something else ({error})",
        advice="Delete the file if no run is active.",
        path=path,
    )
