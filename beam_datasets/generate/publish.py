"""Publishing: everything is staged, complete and counted; then the version becomes visible at once.

On a local disk the staging directory is beside the final one and gets its name in one rename, which fails if
another run published first; everything is on the disk (fsync) before. On an object store the phases are those of
`runs`. A reader never sees half a version, and a published version never changes.

    announce -> reserve -> (shards are staged) -> decide -> commit_file, for each file -> make_visible

An engine may run each phase several times, late, and at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import operator
import os
import platform
import resource
import socket
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets import features as feature_trees
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    JobStateUnknownError,
    LostExamplesError,
    PathNotFoundError,
    ResultKeptError,
    StorageError,
)
from beam_datasets.features.base import to_feature
from beam_datasets.generate import compatibility, runs, shard_writer, units
from beam_datasets.generate.options import ShardingOptions
from beam_datasets.generate.owners import IN_PROCESS, OWNER_FILE, Owner, remove_owned
from beam_datasets.generate.progress import PROGRESS_FILE
from beam_datasets.generate.runs import RESULT_DIR, Decision, Run, StagedFile
from beam_datasets.generate.shard_writer import WrittenShard
from beam_datasets.generate.units import ShardRecords
from beam_datasets.metadata.info import INFO_FILE, DatasetInfo
from beam_datasets.metadata.inputs import INPUTS_FILE, Inputs
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE, Manifest, ShardColumns
from beam_datasets.metadata.names import FilenameTemplate, check_file_name
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.native import crc32c

_LOOK_AGAIN_SECONDS = 0.5
_LOST = "it was removed, or its disk was unmounted, while the run was active"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication(Run):
    """A run that publishes a version: all that is known before its examples are.

    Attributes:
        info: the content of dataset_info.json, without the splits.
        builder: module and class of the builder, for the manifest.
        options: options that decide the bytes, for the manifest.
        source: origin of a materialized dataset; None for a generated one.
        check_against: directory of a published version, to whose readers this one must keep what its number promises.
        notes: remarks for readers, for run.json.
        left_out: bad rows that builds of the sources left out, for run.json; see `add_left_out`.
        attempts: failed runs of which this one reuses what they had finished.
        shard_records: records of the shards that earlier runs have staged, and that this one stages; None if there are
            none.
        is_awaited: the launcher waits for the end of the job, and deletes intermediate files then; else Publish does.
        inputs: path, size in bytes and CRC-32C of the inputs.json that is staged; None if there is none.
        inputs_of: directory of a published version, whose inputs.json this one gets, too; None if there is none.
    """

    info: DatasetInfo
    builder: str
    options: Mapping[str, Any]
    source: Mapping[str, Any] | None
    check_against: str | None = None
    notes: Sequence[str] = ()
    left_out: Sequence[Mapping[str, Any]] = ()
    attempts: Sequence[units.Attempt] = ()
    shard_records: ShardRecords | None = None
    is_awaited: bool = False
    inputs: tuple[str, int, int] | None = None
    inputs_of: str | None = None

    @property
    def is_published(self) -> bool:
        """Whether this run has already published."""
        return is_published_by(self.job, self.target)


def announce(
    info: DatasetInfo,
    dataset_dir: str,
    *,
    sharding: ShardingOptions,
    runner: str,
    builder: str,
    source: Mapping[str, Any] | None = None,
    check_against: str | None = None,
    notes: Sequence[str] = (),
) -> Publication:
    """Returns the publication of a version, after checking that it can be published; changes nothing.

    Args:
        info: the dataset's description, without splits.
        dataset_dir: the version's directory.
        sharding: options that decide the shards.
        runner: name of the runner.
        builder: module and class of the builder, as 'module:Class'.
        source: origin of a materialized dataset.
        check_against: see `Publication`. What can be known before the examples are is checked here.
        notes: see `Publication`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: the dataset has no features.
        MetadataError: the name of a class label has a control character or a backslash, which no file name may have.
        StorageError: the storage cannot be published to.
        VersionError: the version is too low for the changes of its features and description.
    """
    if info.features is None:
        kind = builder.replace(":", ".").rpartition(".")[2]
        raise BeamDatasetsError(f"{kind}._info(): expected a DatasetInfo with features, got none.")
    for name in to_feature(info.features).label_files():
        check_file_name(name)  # as those who read the manifest do
    storage.take_requests()  # those before are not the run's
    storage.check_can_create(dataset_dir)
    check_free(dataset_dir, info.display_name)
    if check_against:
        compatibility.check_known(check_against, info)
    owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), runner)
    return Publication(
        dataset_dir,
        owner,
        info=info,
        builder=builder,
        options=_byte_options(sharding),
        source=source,
        check_against=check_against,
        notes=tuple(notes),
    )


def check_free(dataset_dir: str, full_name: str) -> None:
    """Checks that a version is not published in this directory, and that nothing else is in its place.

    Raises:
        AlreadyPublishedError: the version is published, or something else is there.
    """
    if catalog.is_published(dataset_dir):
        raise runs.already_published(full_name, dataset_dir)
    if storage.is_remote(dataset_dir):
        return  # files may be those of a run that is publishing: `reserve` finds out
    if storage.exists(dataset_dir) and (not storage.is_dir(dataset_dir) or storage.list_dir(dataset_dir)):
        raise AlreadyPublishedError(
            f"{dataset_dir} exists but is not a published dataset (it lacks dataset_info.json or features.json). "
            f"Move it away to publish {full_name} there."
        )


def _warn_of_other_runs(run: Run) -> None:
    """Warns if processes of this machine are about to publish the same directory on a local disk: one can win."""
    parent, name = storage.dirname(run.target), storage.basename(run.target)
    for folder in storage.list_dir(parent) if storage.is_dir(parent) else ():
        match = runs.STAGING_NAME.fullmatch(folder)
        if match is None or match["name"] != name or match["job"] == run.job:
            continue
        owner = Owner.read(storage.join(parent, folder))
        if owner is not None and owner.is_here and owner.is_running:
            _log.warning(
                "%s: %s is writing the same directory. The first to end publishes it; the other one fails.",
                run.target,
                Run(run.target, owner).text,
            )


def _byte_options(sharding: ShardingOptions) -> dict[str, Any]:
    """Returns {name: value} of the options that change the written bytes, for those that are not the defaults.

    >>> _byte_options(ShardingOptions(num_shards=4))
    {'num_shards': 4}
    """
    defaults = type(sharding)()
    names = ("num_shards", "min_shard_size", "max_shard_size", "max_examples_per_split", "ignore_duplicates")
    return {name: getattr(sharding, name) for name in names if getattr(sharding, name) != getattr(defaults, name)}


def reserve(run: Run) -> None:
    """Reserves the directory on an object store, and makes the run's directories; may be called again.

    `owner.json` in each directory contains the process that runs it, so that `gc` can find out whether it is gone.

    Raises:
        AlreadyPublishedError: the directory is published, or another run holds it.
        AbandonedError: this run was given up.
    """
    if run.is_remote:
        runs.reserve(run)
    elif not storage.exists(run.staging_dir):
        _warn_of_other_runs(run)
    for directory in filter(None, (run.staging_dir, run.spill_dir)):
        storage.make_dirs(directory)
        run.owner.write(directory)


def stage_inputs(publication: Publication, inputs: Inputs | None) -> Publication:
    """Stages the record of the files that a version is built from, if there is one; returns the publication with it.

    So it is written before the job, and is not part of its graph.
    """
    if inputs is None:
        return publication
    text, folder = inputs.to_text().encode(), shard_writer.new_dir(publication.staging_dir)
    storage.write_bytes(storage.join(folder, INPUTS_FILE), text)
    return replace(publication, inputs=(storage.join(folder, INPUTS_FILE), len(text), crc32c(text)))


def stage_checksums(publication: Publication, checksums: Mapping[str, str]) -> Publication:
    """Stages the record of the files once more, with their checksums; those that are '' stay unknown."""
    assert publication.inputs is not None
    inputs = Inputs.from_text(storage.read_bytes(publication.inputs[0]))
    assert inputs is not None
    known_checksums = {name: text for name, text in checksums.items() if text}
    return stage_inputs(publication, inputs.with_files(Inputs(checksums=known_checksums)))


def read_inputs(dataset_dir: str) -> Inputs | None:
    """Returns the files that a version was built from; None if it has no readable inputs.json."""
    try:
        return Inputs.from_text(storage.read_bytes(storage.join(dataset_dir, INPUTS_FILE)))
    except PathNotFoundError:
        return None


@contextlib.contextmanager
def staging(run: Run, *, wait: bool = True) -> Iterator[None]:
    """Reserves a directory for the duration of a run; if the run fails, gives it up and removes what it wrote.

    Nothing is removed if finished units are kept for `--resume` (see `units.keeps_units`), if the engine has not
    confirmed that the job ended (JobStateUnknownError), if the run has decided to publish and only the last steps
    failed, and if the result is kept to be published under another number.

    Args:
        run: the run.
        wait: whether the run ends with the context. A job that is not waited for removes its intermediate files itself.

    Raises:
        AlreadyPublishedError: the version is published, or another run holds it.
        StorageError: the run has decided to publish, and then failed.
    """
    with storage.empty_new_dirs_removed(*filter(None, (run.staging_dir, run.spill_dir))):
        has_directories = False
        try:
            reserve(run)
            has_directories = True
            yield
        except JobStateUnknownError:
            raise
        except BaseException as error:
            explained = _explain(run, error) if has_directories else error
            _give_up(run, error)
            notes = list(getattr(error, "__notes__", []))
            if kept := _keep_log(run, run.kept_log):
                notes.append(f"What the workers printed is kept in {kept}")
            if notes:
                explained.__notes__ = notes
            if explained is error:
                raise
            raise explained from error
        else:
            if wait:
                remove_intermediate(run)
            if run.marker == INFO_FILE:
                _keep_log(run, storage.join(run.target, runs.WORKERS_FILE))
        finally:
            storage.remove(run.worker_log)


def _keep_log(run: Run, path: str) -> str:
    """Copies what the workers of a local run printed to a file, and returns its path; '' if they printed nothing.

    The run is what it is if that fails, such as on a full disk.
    """
    if not storage.exists(run.worker_log):
        return ""
    try:
        storage.write_bytes(path, storage.read_bytes(run.worker_log))
    except StorageError as error:
        _log.warning("What the workers printed cannot be kept: %s", error)
        return ""
    return path


def remove_intermediate(run: Run) -> None:
    """Deletes the spilled payload of a run whose job has ended, and all files of the runs that it continued."""
    if run.spill_dir:
        storage.remove_tree(run.spill_dir)
    for attempt in run.attempts if isinstance(run, Publication) else ():
        attempt.remove()


def _give_up(run: Run, error: BaseException) -> None:
    """Abandons a run that failed, and removes its files."""
    try:
        decided = run.is_remote and runs.abandon(run.target, run.job, by="its launcher")
        if decided and decided.kind == runs.PUBLISH:
            if isinstance(error, Exception):
                reason = str(error).replace("; nothing was published", "")  # as errors of engines say, which is not so
                raise StorageError(
                    f"{run.target}: run {run.job} has staged everything and decided to publish it, but the last steps "
                    f"failed: {reason.rstrip('.')}. To finish it, run the same command again, or "
                    f"beam-datasets gc {storage.dirname(run.target)} --yes"
                ) from error
            return
        is_resumable = not isinstance(error, ResultKeptError) and not runs.is_complete(run.target)
        if run.spill_dir and is_resumable and units.keeps_units(run, run.spill_dir):
            for directory in (run.staging_dir, run.spill_dir):  # this process is done with them
                storage.remove(storage.join(directory, OWNER_FILE))
            note = f"What was finished is kept. To continue: {units.hint(run.spill_dir)}"
            error.__notes__ = [*getattr(error, "__notes__", []), note]  # add_note() came with Python 3.11
            return
        if run.spill_dir:
            storage.remove_tree(run.spill_dir)
        if not isinstance(error, ResultKeptError):
            storage.remove_tree(run.staging_dir)
        elif run.is_remote:
            _remove_extra_files(run.staging_dir, {RESULT_DIR})
        else:
            storage.remove(storage.join(run.staging_dir, OWNER_FILE))  # of a run that has ended, `gc` would take it
    except StorageError as failed:
        if failed.__cause__ is error:
            raise  # else the run's own error is what matters; gc finds what is left


def publish(
    publication: Publication,
    plan: Any,
    shards: Sequence[WrittenShard],
    merges: Sequence[storage.Requests] = (),
) -> str:
    """Publishes staged shards and returns the version's directory: all phases from `decide` on, in this process.

    Args:
        publication: the announced publication.
        plan: with `splits`, in their order, each of which has `split`, `num_shards` and `num_examples`.
        shards: all that was written, in any order.
        merges: I/O counts of processes that merged blocks.

    Raises:
        LostExamplesError: the shards do not hold just the examples that were planned.
        AlreadyPublishedError: another run published this version, or holds it.
        AbandonedError: this run was given up.
        ResultKeptError: the version is too low for the changes of the data.
    """
    decision = decide(publication, plan, shards, merges)
    if publication.is_remote:
        runs.commit_all(publication, decision)
    return make_visible(publication, decision)


def decide(
    publication: Publication,
    plan: Any,
    shards: Sequence[WrittenShard],
    merges: Sequence[storage.Requests] = (),
) -> Decision:
    """Checks that all shards are staged, writes the metadata, and decides that this run publishes.

    On an object store the files of the decision are to be committed next. The decision has no files if this run has
    published already.

    Raises:
        LostExamplesError, AlreadyPublishedError, AbandonedError, ResultKeptError: see `publish`.
    """
    if not publication.is_published:
        try:
            return _decide(publication, plan, shards, merges)
        except (AlreadyPublishedError, LostExamplesError, StorageError):
            if not publication.is_published:  # else another attempt was faster, and has deleted the staged files
                raise
    return Decision(publication.job, runs.PUBLISH)


def _decide(
    publication: Publication, plan: Any, shards: Sequence[WrittenShard], merges: Sequence[storage.Requests]
) -> Decision:
    """Stages the metadata and decides to publish; in an object store, writes a reservation and the decision.

    For the arguments see `publish`.
    """
    if publication.is_remote:
        runs.reserve(publication)
    columns = {}
    for split in plan.splits:
        rows = [
            (shard.num_examples, shard.num_bytes, shard.file_bytes, shard.crc32c, shard.index_crc32c)
            for shard in complete_split(split, shards)
        ]
        columns[split.split] = ShardColumns(*map(list, zip(*rows, strict=True)))
    texts = _make_metadata_files(publication, columns)
    libraries = getattr(plan, "libraries", ())  # only examples that were encoded have any, not copied ones
    manifest = Manifest(
        name=publication.info.name,
        config=publication.info.config_name,
        version=str(publication.info.version),
        splits=columns,
        metadata={name: hashlib.sha256(text).hexdigest() for name, text in texts.items()},
        builder=publication.builder,
        options={**publication.options, **({"libraries": list(libraries)} if libraries else {})},
        source=publication.source,
    )
    encoding = getattr(plan, "requests", storage.Requests())  # only plans of encoded examples have any
    requests = [encoding, storage.take_requests(), *merges, *(shard.requests for shard in shards)]
    texts[RUN_FILE] = _run_report(publication, shards, storage.sum_requests(requests))
    texts[MANIFEST_FILE] = manifest.to_text().encode()
    if publication.inputs_of is not None and (inputs := read_inputs(publication.inputs_of)):
        texts[INPUTS_FILE] = inputs.to_text().encode()
    written: dict[str, tuple[int | None, int]]
    written = {shard.path: (shard.file_bytes, shard.crc32c) for shard in shards}
    written |= {f"{shard.path}.index": (None, shard.index_crc32c) for shard in shards}
    if publication.inputs is not None:
        path, *facts = publication.inputs
        written[path] = (facts[0], facts[1])
    files = stage(publication, texts, written)
    if publication.check_against:
        compatibility.check(publication.check_against, _make_result(publication, files))
    if not publication.is_remote:
        return Decision(publication.job, runs.PUBLISH, manifest.digest, files)
    return runs.decide(publication, files, manifest.digest)


def check_directories(run: Run) -> None:
    """Checks that the directories of an active run that are on a disk still exist.

    Its processes would create them anew, and fail only when they read what they have written before.

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
    """Returns the error for a path of a run that was there before.

    Args:
        path: the path.
        expected: what was there, with its origin.
    """
    return PathNotFoundError(
        f"expected the {expected}, got none: {_LOST}. Mount the disk again if it is not mounted, and run the same "
        "command again.",
        path=path,
    )


def _is_being_published(run: Run) -> bool:
    """Returns whether a run has renamed its staging directory to publish it; see `rename_into_place`."""
    with contextlib.suppress(PathNotFoundError):
        for name in storage.list_dir(storage.dirname(run.target)):
            match = runs.PUBLISHED_FROM.fullmatch(name)
            if match and match["staging"] == storage.basename(run.staging_dir):
                return True
    # Neither: it has just published, or has just renamed the directory back.
    return runs.is_complete(run.target) or storage.exists(storage.join(run.staging_dir, OWNER_FILE))


def _explain(run: Run, error: BaseException) -> BaseException:
    """Returns the error for a directory of the run that does not exist, if that is the reason of an error; else it."""
    if isinstance(error, PathNotFoundError) and _LOST not in str(error):
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
            f"{run.staging_dir}: the launcher has made it, and the worker on {socket.gethostname()} does not see it. "
            "data_dir must be a place that the launcher and all workers share."
        )


def stage(run: Run, texts: Mapping[str, bytes], written: Mapping[str, tuple[int | None, int]]) -> list[StagedFile]:
    """Writes texts into the staging directory; returns all staged files, after checking that they are there.

    Args:
        run: the run.
        texts: {file name: content} of the metadata.
        written: {path: (size in bytes, CRC-32C)} of the files that are staged; a size of None is not checked.

    Raises:
        LostExamplesError: a file does not exist, or has another size.
        StorageError: the directory is not that of the launcher.
    """
    root = run.staging_dir
    folder = shard_writer.new_dir(root)
    staged: dict[str, tuple[int | None, int]] = {}
    for name, text in texts.items():
        storage.write_bytes(storage.join(folder, name), text)
        staged[storage.join(folder, name)[len(root) + 1 :]] = len(text), crc32c(text)
    for path, facts in written.items():
        staged[path[len(root) + 1 :]] = facts
    try:
        sizes = storage.file_sizes(root)
    except FileNotFoundError:
        sizes = {}
    wrong = sorted(path for path, (size, _) in staged.items() if path not in sizes or size not in (None, sizes[path]))
    if wrong:
        raise LostExamplesError(
            f"{root}: {len(wrong)} of {len(staged)} files that were written are not there or of another size, such as "
            f"{wrong[0]}. They were removed, or the run was given up; nothing was published. Run it again."
        )
    if run.is_reserved:
        check_is_of_launcher(run)
    return [StagedFile(storage.basename(path), path, sizes[path], checksum) for path, (_, checksum) in staged.items()]


def _make_result(publication: Publication, files: Sequence[StagedFile]) -> str:
    """Returns a directory that holds the complete version, unpublished, and on a disk owner.json of the active run."""
    root = publication.staging_dir
    if not publication.is_remote:
        _remove_extra_files(root, {OWNER_FILE, *(file.name for file in files)})
        return root
    result = storage.join(root, RESULT_DIR)
    with ThreadPoolExecutor(runs.COPIES_AT_ONCE) as executor:
        copies = [(storage.join(root, file.staged), storage.join(result, file.name)) for file in files]
        for done in [executor.submit(storage.copy, *paths) for paths in copies]:
            done.result()
    return result


def make_visible(publication: Publication, decision: Decision) -> str:
    """Publishes a version of which all files are there, removes what the run needed, and returns the directory.

    Raises:
        StorageError: a file is missing.
        AlreadyPublishedError: another run published this version.
    """
    if publication.is_published:  # an engine that ran all again has staged all again
        runs.delete_files(publication) if publication.is_remote else storage.remove_tree(publication.staging_dir)
    elif publication.is_remote:
        runs.complete(publication, decision)
    else:
        _rename(publication, decision)
    if not publication.is_awaited:  # else while the engine may run earlier stages again
        remove_intermediate(publication)
    return publication.target


def _rename(publication: Publication, decision: Decision) -> None:
    """Renames the staging directory to the published one; removes it if another attempt has published the version.

    Raises:
        AlreadyPublishedError: something else is at the final name.
        FileExistsError, FileNotFoundError: see `rename_into_place`; the version is not published.
    """
    try:
        rename_into_place(publication, decision.files)
    except (FileExistsError, FileNotFoundError):
        if not publication.is_published:
            check_free(publication.target, publication.info.display_name)
            raise
        storage.remove_tree(publication.staging_dir)


def rename_into_place(run: Run, files: Sequence[StagedFile]) -> None:
    """Takes the staging directory, moves its files into a new directory, checks that, and gives it the final name.

    Another attempt cannot write between the check and the last rename: under the name of the staging directory `gc`
    could remove it and the attempt make it anew, and in the directory itself one may just be creating a file.

    Raises:
        FileExistsError: something is at the final name.
        FileNotFoundError: another attempt was faster.
        LostExamplesError: a file was removed or changed.
    """
    sizes = {file.name: file.num_bytes for file in files}
    taken, new_dir = f"{run.staging_dir}.{uuid.uuid4().hex[:8]}", f"{run.staging_dir}.{uuid.uuid4().hex[:8]}"
    _remove_extra_files(run.staging_dir, {*sizes, OWNER_FILE})
    storage.rename_dir(run.staging_dir, taken)
    try:
        # The manifest goes last: with it, `gc` would take what a killed process leaves for a result that was kept.
        storage.move_files(taken, new_dir, sorted(sizes, key=lambda name: name == MANIFEST_FILE))
        moved_sizes = storage.file_sizes(new_dir)
        wrong = [
            name for name in sizes if name not in moved_sizes or (name != RUN_FILE and moved_sizes[name] != sizes[name])
        ]
        if wrong:
            raise LostExamplesError(
                f"{run.staging_dir}: {len(wrong)} of {len(sizes)} files were removed or changed, such as "
                f"{wrong[0]}; nothing was published. Run it again."
            )
        storage.rename_dir(new_dir, run.target)
    except BaseException:
        try:
            storage.move_files(new_dir, taken, sizes)
            storage.rename_dir(taken, run.staging_dir)  # for another attempt, or the launcher to remove
        except StorageError:
            storage.remove_tree(taken)
        storage.remove_tree(new_dir)
        raise
    with contextlib.suppress(StorageError):  # another attempt just writes there; it is published, and gc finds the rest
        storage.remove_tree(taken)


@contextlib.contextmanager
def beside(target: str) -> Iterator[str]:
    """Provides a directory beside a version on a local disk, which `gc` finds if the process dies; removes it.

    Raises:
        StorageError: the version is on an object store.
    """
    if storage.is_remote(target):
        raise StorageError("only a version on a local disk can be overwritten. Raise the version.", path=target)
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


def _remove_extra_files(directory: str, wanted: set[str]) -> None:
    """Removes what is not part of the dataset: spilled blocks, parts, what a killed attempt left."""
    for name in storage.list_dir(directory):
        if name not in wanted:
            path = storage.join(directory, name)
            (storage.remove_tree if storage.is_dir(path) else storage.remove)(path)


def publish_as(result_dir: str, version: VersionOrStr) -> str:
    """Publishes a result that was kept because its number promised too much, under another version number.

    Shards are taken as they are; metadata and manifest are written anew.

    Args:
        result_dir: directory of the result, as the error named it.
        version: the new number.

    Returns:
        The directory of the published version, beside the one that was refused.

    Raises:
        AlreadyPublishedError: the version is published, or another run holds it.
        StorageError: `result_dir` is not the directory of such a result.
        VersionError: the number is too low for how the examples differ from those of the version published before it.
    """
    from beam_datasets.reading.opening import builder_from_directory

    result = storage.normalize(result_dir)
    root = storage.dirname(result) if storage.basename(result) == RESULT_DIR else result
    path = storage.join(result, MANIFEST_FILE)
    if not storage.basename(root).startswith("incomplete.") or not storage.exists(path):
        raise StorageError(f"{result}: expected a result that was kept, in incomplete.* and with {MANIFEST_FILE}.")
    manifest = Manifest.from_text(storage.read_bytes(path), path=path)
    info = builder_from_directory(result).info
    publication = _announce_renumbered(info, storage.join(storage.dirname(root), str(Version(version))), manifest)
    compatibility.check_number(publication.target, result)
    columns = {split: manifest.splits[split] for split in info.splits}  # the manifest has them by name
    shards = [shard for split in columns for shard in kept_shards(manifest.name, split, columns[split])]
    with staging(publication):
        folder = shard_writer.new_dir(publication.staging_dir)
        for shard in shards:
            for name in (shard.path, f"{shard.path}.index"):
                runs.take(storage.join(result, name), storage.join(folder, name))
        staged = [replace(shard, path=storage.join(folder, shard.path)) for shard in shards]
        kept = [
            SimpleNamespace(split=split, num_shards=c.num_shards, num_examples=sum(c.num_examples))
            for split, c in columns.items()
        ]
        directory = publish(replace(publication, inputs_of=result), SimpleNamespace(splits=kept), staged)
    storage.remove_tree(root)
    return directory


def _announce_renumbered(info: DatasetInfo, dataset_dir: str, manifest: Manifest) -> Publication:
    """Announces a complete result under the version that a directory names; returns the publication.

    Args:
        info: description of the result.
        dataset_dir: directory of the new version; its base name is the version.
        manifest: manifest of the result.
    """
    publication = announce(
        info.replace(version=Version(storage.basename(dataset_dir)), data_dir=dataset_dir),
        dataset_dir,
        sharding=ShardingOptions(),
        runner="",
        builder=manifest.builder,
        source=manifest.source,
    )
    return replace(publication, options=manifest.options)


def kept_shards(dataset: str, split: str, columns: ShardColumns) -> Iterator[WrittenShard]:
    """Yields the shards of a split with their file names as paths.

    Args:
        dataset: name of the dataset.
        split: name of the split.
        columns: facts about the shards, from the manifest.
    """
    names = FilenameTemplate(dataset, split, "tfrecord").filenames(columns.num_shards)
    rows = zip(*(getattr(columns, column.name) for column in fields(columns)), strict=True)
    for shard, (name, row) in enumerate(zip(names, rows, strict=True)):
        yield WrittenShard(split, shard, 0, name, *row)


def is_published_by(job: str, dataset_dir: str) -> bool:
    """Returns whether this very run has published already (an engine may run any step again, even then)."""
    path = storage.join(dataset_dir, RUN_FILE)
    if not catalog.is_published(dataset_dir) or not storage.exists(path):
        return False
    try:
        report = json.loads(storage.read_bytes(path))
    except ValueError:  # it is only a report, and may be damaged
        return False
    return isinstance(report, dict) and report.get("job") == job


def complete_split(split: Any, shards: Iterable[WrittenShard]) -> list[WrittenShard]:
    """Returns the shards of a split in order, after checking that each was written once, with all examples.

    Args:
        split: plan of the split, with the attributes `split` (its name), `num_shards` and `num_examples`.
        shards: written shards of all splits.

    Raises:
        LostExamplesError: a shard is missing or was written twice, or the shards have another number of examples.
    """
    split_shards = sorted([shard for shard in shards if shard.split == split.split], key=operator.attrgetter("shard"))
    numbers, written = [shard.shard for shard in split_shards], sum(shard.num_examples for shard in split_shards)
    if numbers != list(range(split.num_shards)) or written != split.num_examples:
        raise LostExamplesError(
            f"split {split.split!r}: {len(split_shards)} shards with {written} examples were written, planned were "
            f"{split.num_shards} with {split.num_examples}. The engine lost or doubled some; nothing was published. "
            "Run it again."
        )
    return split_shards


def _make_metadata_files(publication: Publication, columns: Mapping[str, ShardColumns]) -> dict[str, bytes]:
    """Returns {file name: content} of what describes the dataset, as TensorFlow Datasets writes it."""
    features = publication.info.features
    texts = {
        "features.json": feature_trees.to_json_text(features),
        **features.label_files(),
        **publication.info.extra_files(),
        INFO_FILE: publication.info.to_json_text(
            {split: (list(c.num_examples), sum(c.num_bytes)) for split, c in columns.items()}
        ),
    }
    return {name: text.encode() for name, text in texts.items()}


def _run_report(publication: Publication, shards: Sequence[WrittenShard], requests: storage.Requests) -> bytes:
    """Returns run.json: times, sizes and resources of the run, as JSON.

    Args:
        publication: the announced version, with the start of the run.
        shards: the written shards of all splits.
        requests: I/O counts of the run.
    """
    seconds = time.time() - publication.owner.started
    examples = sum(shard.num_examples for shard in shards)
    report = {
        **_engine_report(publication),
        "job": publication.job,
        "runner": publication.owner.runner,
        "started": publication.owner.started,
        "seconds": round(seconds, 3),
        "examples": examples,
        "shards": len(shards),
        "worker_bytes": _peak_memory(),  # of the process that publishes
        "bytes": sum(shard.num_bytes for shard in shards),
        "examples_per_second": round(examples / max(seconds, 1e-9), 1),
        "storage": {
            "reads": requests.reads,
            "bytes_read": requests.bytes_read,
            "writes": requests.writes,
            "bytes_written": requests.bytes_written,
        },
        "core_hours": round(requests.core_seconds / 3600, 6),
        "python": platform.python_version(),
        "machine": platform.platform(),
        **({"notes": list(publication.notes)} if publication.notes else {}),
        **({"left_out": list(publication.left_out)} if publication.left_out else {}),
        **({"resumed": [attempt.job for attempt in publication.attempts]} if publication.attempts else {}),
    }
    return _format_report(report)


def left_out_of(dataset_dir: str) -> list[dict[str, Any]]:
    """Returns the rows left out of a version by its run.json; [] if it names none or cannot be read."""
    try:
        listed = json.loads(storage.read_bytes(storage.join(dataset_dir, RUN_FILE)))["left_out"]
    except (StorageError, ValueError, KeyError, TypeError):  # it is only a report
        return []
    return listed if isinstance(listed, list) else []


def add_left_out(dataset_dir: str, bad_rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds the rows left out to the run.json of a published version; they are counted when the run has ended.

    Logs a warning if the file cannot be written, because the version is published anyway.

    Args:
        dataset_dir: the directory of the version.
        bad_rows: for each reason {'reason': text, 'number': of rows, 'example': one of them}; [] changes nothing.
    """
    if not bad_rows:
        return
    path = storage.join(dataset_dir, RUN_FILE)
    try:
        report = {**json.loads(storage.read_bytes(path)), "left_out": list(bad_rows)}
        storage.write_bytes(path, _format_report(report))
    except (StorageError, ValueError, TypeError) as error:
        _log.warning("%s: the rows left out could not be added: %s", path, error)


def _format_report(report: Mapping[str, Any]) -> bytes:
    """Returns the content of run.json."""
    return json.dumps(report, indent=1, sort_keys=True).encode()


def _engine_report(publication: Publication) -> dict[str, Any]:
    """Returns {'engine': {'job': name, 'page': URL, 'restarts': number}} of a remote job, from the launcher's file.

    Returns {} for other runs, and if the file is missing or damaged.
    """
    if publication.spill_dir is None:
        return {}
    try:
        progress = json.loads(storage.read_bytes(storage.join(publication.spill_dir, PROGRESS_FILE)))
        return {"engine": {"job": progress["job"], "page": progress["page"], "restarts": progress["restarts"]}}
    except (StorageError, ValueError, KeyError, TypeError):  # run.json is only a report
        return {}


def _peak_memory() -> int:
    """Returns the largest memory of this process in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
