"""Reservations of the runs that may publish to an object store: decided once, by files that are only ever created.

An object store creates single files on the condition that they do not exist; it has no rename, and its deletions are
unconditional. A process may be suspended before any call and go on hours later. So final names are created, never
replaced or deleted, and only one run ever creates any:

    <parent>/incomplete.runs.<name>/00000001.reservation.json    run 1 may publish <parent>/<name>
    <parent>/incomplete.runs.<name>/<job>.decision.json          "publish", with all staged files, or "abandon"

* A run reserves the next number when it starts. It may do so only if the run that holds the highest number has the
  decision "abandon".
* When all of its files are staged, the run creates its decision "publish". To give up a run is to create its decision
  "abandon". The file can be created once, so exactly one of the two wins, for ever.
* After "abandon", the run creates no final name, and its staged files may be deleted.
* After "publish", any process may put the staged files in place, any number of times: each is copied to its final name
  if that does not exist, all are checked, and the marker (dataset_info.json), which makes the directory visible, is
  created last. Staged files are deleted only after that.
* The records are deleted after that, too. A late run may then create a record anew, so a process that creates or
  reads a record and continues looks for the marker afterwards. Records are deleted only once the marker is there,
  so without a marker the record is valid.

No clock is read, and nothing expires. A reservation is abandoned by its own run, by a process that knows that the run's
process is gone, or by an explicit command.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from beam_datasets import storage
from beam_datasets.errors import AbandonedError, AlreadyPublishedError, PathNotFoundError, StorageError
from beam_datasets.generate.owners import Owner
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE
from beam_datasets.native import crc32c

PUBLISH, ABANDON = "publish", "abandon"
LOG_PREFIX = "incomplete.log."
"""Prefix of the names of files with the output of the workers of a failed run."""
WORKERS_FILE = "workers.log"
"""Name of the file, in the directory of a version, with the output of the workers that built it."""
RUNS_PREFIX = "incomplete.runs."
"""The prefix of the names of directories with the records of runs; TFDS and `catalog` skip `incomplete.*`."""
EXPORT_FILE = "_export.json"
"""The marker of an export. Readers of Parquet directories skip names that begin with an underscore."""

STAGING_NAME = re.compile(r"incomplete\.(?P<job>[0-9A-Za-z]+)_(?P<name>.+)")
"""Names of staging directories."""
PUBLISHED_FROM = re.compile(r"(?P<staging>incomplete\..+)\.[0-9a-f]{8}")
"""Names of directories in which the files of a staging directory are while a version is published on a disk."""
SPILL_SUFFIX = ".spill"
"""The suffix of the name of a spill directory, which begins as that of the staging directory."""
CHECKPOINT_SUFFIX, SHARDS_SUFFIX = ".units.json", ".shards.json"
"""The suffixes of files that record finished units, and staged shards; see `units`."""
RESULT_DIR = "result"
"""Directory in a staging directory of an object store with a complete version that was not published."""
COPIES_AT_ONCE = 8
_RESERVATION = re.compile(r"(\d{8})\.reservation\.json")


@dataclass(frozen=True, slots=True)
class Run:
    """A run that publishes one directory.

    Attributes:
        target: the directory.
        owner: the process that runs it, with the run's id.
        marker: the file that makes the directory visible, created last.
        spill_dir: directory of intermediate files; None if there are none.
        is_reserved: the launcher reserves the directory before the job; False in pipelines of users.
    """

    target: str
    owner: Owner
    marker: str = INFO_FILE
    spill_dir: str | None = None
    is_reserved: bool = True

    @property
    def job(self) -> str:
        """The run's id."""
        return self.owner.job

    @property
    def staging_dir(self) -> str:
        """Directory in which the run puts its files together."""
        return staging_dir(self.target, self.job)

    @property
    def is_remote(self) -> bool:
        """Whether the directory is on an object store."""
        return storage.is_remote(self.target)

    @property
    def submitted_file(self) -> str:
        """Path of a file that the launcher writes just before it submits the job to an engine."""
        return storage.join(self.staging_dir, "submitted")

    @property
    def is_dead(self) -> bool:
        """Whether the run has certainly ended: its process is gone, and no engine has its job."""
        if self.owner.is_dead or not self.is_reserved:
            return self.owner.is_dead
        return self.owner.is_gone and not storage.exists(self.submitted_file)

    @property
    def worker_log(self) -> str:
        """File for the output of the worker processes of a local run while it runs: not on the disk that it fills."""
        return storage.join(tempfile.gettempdir(), f"beam_datasets-workers-{self.job}.log")

    @property
    def kept_log(self) -> str:
        """Path of the file that keeps the output of the workers if the run fails, beside its staging directory.

        A run in a temporary directory, as of `build --overwrite`, keeps it beside that, because it is removed.
        """
        folder, _, staged_name = self.target.partition("/incomplete.")
        return storage.join(folder if staged_name else storage.dirname(self.target), f"{LOG_PREFIX}{self.job}")

    @property
    def text(self) -> str:
        """The run and its owner, for messages."""
        runner = f", {self.owner.runner}" if self.owner.runner else ""
        return f"run {self.job} ({self.owner.text}{runner}, since {utc(self.owner.started)})"

    def to_json(self) -> bytes:
        """Returns the content of the run's reservation."""
        return _encode_json(
            {
                "owner": asdict(self.owner),
                "marker": self.marker,
                "spill_dir": self.spill_dir and storage.url(self.spill_dir),
                "is_reserved": self.is_reserved,
            }
        )

    @classmethod
    def from_json(cls, text: bytes, *, target: str) -> Run:
        """Returns the run of a reservation.

        Raises:
            ValueError: the content is damaged.
        """
        content = json.loads(text)
        spill_dir = content["spill_dir"]
        if spill_dir is not None:
            spill_dir = storage.with_options_if_remote(spill_dir, None, other_path=target)
        is_reserved = bool(content.get("is_reserved"))  # records of earlier versions of this package lack it
        return cls(target, Owner.from_json(content["owner"]), str(content["marker"]), spill_dir, is_reserved)


class StagedFile(NamedTuple):
    """A file of a run that is complete.

    Attributes:
        name: in the directory that is published.
        staged: path below the staging directory; its first part is unique to the attempt that wrote it.
        num_bytes: size.
        crc32c: CRC-32C of the content.
    """

    name: str
    staged: str
    num_bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Final decision about a run; it never changes.

    Attributes:
        job: the run's id.
        kind: 'publish' or 'abandon'.
        digest: identifies the content that is published.
        files: all files of the directory that is published, the marker included.
        by: name of the person or program that abandoned the run.
    """

    job: str
    kind: str
    digest: str = ""
    files: Sequence[StagedFile] = ()
    by: str = ""

    def to_json(self) -> bytes:
        """Returns the content of the decision's file."""
        return _encode_json({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: bytes) -> Decision:
        """Returns the decision that a file holds.

        Raises:
            ValueError: the content is damaged.
        """
        content = json.loads(text)
        return cls(**{**content, "files": [StagedFile(*file) for file in content["files"]]})


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


def utc(seconds: float) -> str:
    """Returns a time, in seconds since the epoch, for messages."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def already_published(name: str, target: str) -> AlreadyPublishedError:
    """Returns the error that a dataset is published; it names the run that did so, if that is recorded."""
    by = ""
    with contextlib.suppress(StorageError, ValueError, KeyError, TypeError):
        report = json.loads(storage.read_bytes(storage.join(target, RUN_FILE)))
        by = f", by run {report['job']}, which started {utc(report['started'])}"
    return AlreadyPublishedError(
        f"{name} is already published in {target}{by}. A published version never changes",
        advice="Raise the version to publish again: VERSION of the class; --version for files, such as csv; "
        "of materialize, --to NAME:VERSION (to='NAME:VERSION').",
    )


def staging_dir(target: str, job: str) -> str:
    """Returns the staging directory of a run that publishes `target`."""
    return storage.join(storage.dirname(target), f"incomplete.{job}_{storage.basename(target)}")


def runs_dir(target: str) -> str:
    """Returns the directory of the records of the runs that publish `target`."""
    return storage.join(storage.dirname(target), RUNS_PREFIX + storage.basename(target))


def has_units(spill_dir: str) -> bool:
    """Returns whether a spill directory has what a later run can reuse."""
    return any(name.endswith((CHECKPOINT_SUFFIX, SHARDS_SUFFIX)) for name in names_in(spill_dir))


def names_in(directory: str) -> list[str]:
    """Returns the names in a directory; none if it cannot be listed, because it was deleted in the meantime, say."""
    try:
        return storage.list_dir(directory)
    except StorageError:
        return []


def is_complete(target: str) -> bool:
    """Returns whether a run has made a directory visible: as a dataset, or as an export, of which some are datasets."""
    names = ((INFO_FILE, MANIFEST_FILE), (EXPORT_FILE,))
    return any(all(storage.exists(storage.join(target, name)) for name in marker_files) for marker_files in names)


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
                    "could publish one version there. Publish to another store, and copy the directory.",
                    path=path,
                )
            _check_empty(run)
            return
        if reservation.run.job == run.job:
            return
        if reservation.decision is not None:
            finish(run.target)
            raise AlreadyPublishedError(
                f"{run.target}: {reservation.run.text} had staged everything and decided to publish, but had not "
                "finished. Its files have been put in place now, and the version is published."
            )
        if not reservation.run.is_dead:
            raise AlreadyPublishedError(
                f"{run.target}: expected no other run, but {reservation.run.text} has reserved it. Wait for its end. "
                f"If it has ended, give it up: beam-datasets gc {storage.dirname(run.target)} --abandon "
                f"{reservation.run.job}"
            )
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
        raise StorageError(f"{_decision_path(run.target, run.job)}: expected a record, but it was deleted.")
    if decision.kind == ABANDON:
        raise _abandoned_error(run, decision)
    if decision.digest != digest:
        raise AlreadyPublishedError(
            f"{run.target}: another attempt of run {run.job} has decided to publish other content (digest "
            f"{decision.digest}, here {digest}). Either one pipeline object was run twice, or its examples differ from "
            f"attempt to attempt. Finish the first: beam-datasets gc {storage.dirname(run.target)} --yes"
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
            f"{storage.join(run.target, wrong[0].name)}: expected {wrong[0].num_bytes} bytes, got "
            f"{sizes.get(wrong[0].name, 'no file')} ({len(wrong)} of {len(decision.files)} files are wrong). Run gc to "
            "put the staged files in place."
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
                "it is once it is published. If you deleted the version, and no run is active: delete "
                f"{runs_dir(target)} as well, and run the same command again."
            ) from None
    if reservation.run.owner.is_dead:
        storage.remove(reservation.run.worker_log)
        if reservation.run.spill_dir:
            storage.remove_tree(reservation.run.spill_dir)
    return True


def commit_all(run: Run, decision: Decision) -> None:
    """Commits all files but the marker, a few at once; dataset_info.json of an export after the others."""
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
    storage.remove(run.worker_log)
    if run.spill_dir is None or not has_units(run.spill_dir):
        for directory in filter(None, (run.spill_dir, run.staging_dir)):
            storage.remove_tree(directory)
    return True


def delete_files(run: Run) -> None:
    """Deletes staged files and records of a directory that is published; what is left does no harm, and gc finds it.

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
    """Checks that a directory that this run has just reserved has no files yet."""
    try:
        names = storage.list_dir(run.target)
    except PathNotFoundError:
        return
    if names:
        abandon(run.target, run.job, by="itself")
        raise AlreadyPublishedError(
            f"{run.target} exists but is not a published dataset (it lacks {run.marker}), and no run is known that put "
            f"{names[0]} there. Move it away to publish there."
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


def content_of(path: str) -> tuple[int, int]:
    """Returns (size in bytes, CRC-32C) of a file."""
    checksum = 0
    with storage.open_reader(path) as reader:
        for chunk in reader.chunks():
            checksum = crc32c(chunk, checksum)
        return reader.size, checksum


def take(source: str, target: str) -> None:
    """Renames a file; on an object store, or a file system without hard links, copies it."""
    try:
        storage.link(source, target)
    except StorageError:
        storage.copy(source, target)


def _decision_path(target: str, job: str) -> str:
    """Returns the path of the file with the decision about a run: "<runs_dir(target)>/<job>.decision.json"."""
    return storage.join(runs_dir(target), f"{job}.decision.json")


def _abandoned_error(run: Run, decision: Decision) -> AbandonedError:
    """Returns the error about a run that somebody abandoned; see `Decision.by`."""
    return AbandonedError(f"{run.target}: run {run.job} was given up by {decision.by}; it published nothing.")


def _damaged_error(path: str, error: Exception) -> StorageError:
    """Returns the error about a file of a run whose content is invalid; `error` is the exception of its parser."""
    return StorageError(
        expected="the record of a run",
        got=f"something else ({error})",
        advice="Delete the file if no run is active.",
        path=path,
    )


def _encode_json(content: Any) -> bytes:
    """Returns a value as JSON with sorted keys: b'{"a": 1, "b": null}'."""
    return json.dumps(content, sort_keys=True).encode()
