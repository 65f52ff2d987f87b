"""Publishing: everything is staged, complete and counted; then the version becomes visible at once.

On a local disk the staging directory is beside the final one and gets its name in one rename, which fails if
another run published first; everything is on the disk (fsync) before. On an object store the phases are those of
`store_commit`. A reader never sees half a version, and a published version never changes.

    announce -> reserve -> (shards are staged) -> decide -> commit_file, for each file -> make_visible

An engine may run each phase several times, late, and at once.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from beam_datasets import storage
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    JobStateUnknownError,
    LostExamplesError,
    ResultKeptError,
    StorageError,
)
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.inputs import INPUTS_FILE
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE
from beam_datasets.native import crc32c
from beam_datasets.publishing import compatibility, resume, runs, store_commit
from beam_datasets.publishing.content import ContentPlan, make_manifest, make_metadata_files, shard_columns
from beam_datasets.publishing.disk_commit import remove_extra_files, rename_into_place
from beam_datasets.publishing.owners import OWNER_FILE, Owner
from beam_datasets.publishing.publication import Publication, check_free
from beam_datasets.publishing.run_report import make_run_report
from beam_datasets.publishing.runs import RESULT_DIR, Decision, Run
from beam_datasets.publishing.shard_file import WrittenShard
from beam_datasets.publishing.staged_files import StagedFile, new_dir
from beam_datasets.publishing.staged_inputs import inherited_inputs
from beam_datasets.publishing.staging_checks import check_is_of_launcher, explain_error

_log = logging.getLogger(__name__)


def reserve(run: Run) -> None:
    """Reserves the directory on an object store, and makes the run's directories; may be called again.

    `owner.json` in each directory contains the process that runs it, so that `gc` can find out whether it is gone.

    Raises:
        AlreadyPublishedError: the directory is published, or another run holds it.
        AbandonedError: this run was given up.
    """
    if run.is_remote:
        store_commit.reserve(run)
    elif not storage.exists(run.staging_dir):
        _warn_of_other_runs(run)
    for directory in filter(None, (run.staging_dir, run.spill_dir)):
        storage.make_dirs(directory)
        run.owner.write(directory)


def check_can_run(run: Run) -> None:
    """Checks that a run could reserve its directory and write to its other directories; leaves no file.

    Raises:
        AlreadyPublishedError: the directory is published, or another run holds it.
        StorageError: a directory cannot be written.
    """
    if run.is_remote:
        store_commit.check_can_reserve(run)
    directories = list(filter(None, (run.staging_dir, run.spill_dir)))
    with storage.empty_new_dirs_removed(*directories), contextlib.ExitStack() as stack:
        for directory in directories:
            storage.make_dirs(directory)
            stack.callback(storage.remove_tree, directory)
            run.owner.write(directory)


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


@contextlib.contextmanager
def staging(run: Run) -> Iterator[None]:
    """Reserves a directory for the duration of a run; if the run fails, gives it up and removes what it wrote.

    The staging and spill directories are kept if finished units are kept for `--resume` (see `resume.keeps_units`; only
    owner.json is removed), if the engine has not confirmed that the job ended (JobStateUnknownError), and if the run
    has decided to publish and only the last steps failed. If the result is kept to be published as another version
    (ResultKeptError), only the complete version is kept.

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
            explained = explain_error(run, error) if has_directories else error
            _give_up(run, error)
            notes = list(getattr(error, "__notes__", []))
            if kept_log := _keep_log(run, run.kept_log):
                notes.append(f"What the workers printed is kept in {kept_log}")
            if notes:
                explained.__notes__ = notes
            if explained is error:
                raise
            raise explained from error
        else:
            if run.is_awaited:
                remove_intermediate(run)
            if run.marker == INFO_FILE:
                _keep_log(run, storage.join(run.target, runs.WORKERS_FILE))
        finally:
            run.remove_worker_log()


def _keep_log(run: Run, path: str) -> str:
    """Copies the output of the workers of a local run to a file, and returns its path; '' if there is no output.

    If that fails, such as on a full disk, the result of the run does not change.
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
        decided = run.is_remote and store_commit.abandon(run.target, run.job, by="its launcher")
        if decided and decided.kind == runs.PUBLISH:
            if isinstance(error, Exception):
                reason = error.without_outcome if isinstance(error, BeamDatasetsError) else str(error)
                raise StorageError(
                    f"run {run.job} has staged everything and decided to publish it, but the last steps failed: "
                    f"{reason}",
                    path=run.target,
                    advice=(
                        "To finish it, run the same command again, or "
                        f"beam-datasets gc {storage.dirname(run.target)} --yes"
                    ),
                ) from error
            return
        is_resumable = not isinstance(error, ResultKeptError) and not runs.is_complete(run.target)
        if run.spill_dir and is_resumable and resume.keeps_units(run, run.spill_dir):
            for directory in (run.staging_dir, run.spill_dir):  # this process is done with them
                storage.remove(storage.join(directory, OWNER_FILE))
            note = f"What was finished is kept. To continue: {resume.hint(run.spill_dir)}"
            error.add_note(note)
            return
        if run.spill_dir:
            storage.remove_tree(run.spill_dir)
        if not isinstance(error, ResultKeptError):
            storage.remove_tree(run.staging_dir)
        elif run.is_remote:
            remove_extra_files(run.staging_dir, {RESULT_DIR})
        else:
            storage.remove(storage.join(run.staging_dir, OWNER_FILE))  # of a run that has ended, `gc` would take it
    except StorageError as failed:
        if failed.__cause__ is error:
            raise  # else the run's own error is what matters; gc finds what is left


def publish(
    publication: Publication,
    plan: ContentPlan,
    shards: Sequence[WrittenShard],
    merges: Sequence[storage.Requests] = (),
) -> str:
    """Publishes staged shards and returns the version's directory: all phases from `decide` on, in this process.

    Args:
        publication: the announced publication.
        plan: the plan, with which the shards are compared.
        shards: the written shards of all splits, in any order.
        merges: I/O counts of processes that merged blocks.

    Raises:
        LostExamplesError: the shards do not hold just the examples that were planned.
        AlreadyPublishedError: another run published this version, or holds it.
        AbandonedError: this run was given up.
        ResultKeptError: the version is too low for the changes of the data.
    """
    decision = decide(publication, plan, shards, merges)
    if publication.is_remote:
        store_commit.commit_all(publication, decision)
    return make_visible(publication, decision)


def decide(
    publication: Publication,
    plan: ContentPlan,
    shards: Sequence[WrittenShard],
    merges: Sequence[storage.Requests] = (),
) -> Decision:
    """Checks that all shards are staged, writes the metadata, and decides that this run publishes.

    On an object store the caller commits the files of the decision next. The decision has no files if this run has
    already published.

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
    publication: Publication, plan: ContentPlan, shards: Sequence[WrittenShard], merges: Sequence[storage.Requests]
) -> Decision:
    """Stages the metadata and decides to publish; in an object store, writes a reservation and the decision.

    For the arguments see `publish`.
    """
    if publication.is_remote:
        store_commit.reserve(publication)
    columns = shard_columns(plan, shards)
    texts = make_metadata_files(publication.info, columns)
    manifest = make_manifest(publication, columns, texts, plan.libraries)
    requests = [plan.requests, storage.take_requests(), *merges, *(shard.requests for shard in shards)]
    texts[RUN_FILE] = make_run_report(publication, shards, storage.sum_requests(requests), plan.left_out)
    texts[MANIFEST_FILE] = manifest.to_text().encode()
    if inputs := inherited_inputs(publication):
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
    return store_commit.decide(publication, files, manifest.digest)


def stage(run: Run, texts: Mapping[str, bytes], written: Mapping[str, tuple[int | None, int]]) -> list[StagedFile]:
    """Writes texts into the staging directory; returns all staged files, after checking that they are there.

    Args:
        run: the run.
        texts: {file name: content} of the metadata.
        written: {path: (size in bytes, CRC-32C)} of the files that are staged; a size of None is not checked.

    Raises:
        LostExamplesError: a file does not exist, or has another size.
        StorageError: the run is reserved, and this process does not see the launcher's staging directory.
    """
    root = run.staging_dir
    folder = new_dir(root)
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
            f"{len(wrong)} of {len(staged)} files that were written are missing or of another size, such as "
            f"{wrong[0]}. They were removed, or the run was abandoned",
            path=root,
            outcome="nothing was published",
            advice="Run it again.",
        )
    if run.is_reserved:
        check_is_of_launcher(run)
    return [StagedFile(storage.basename(path), path, sizes[path], checksum) for path, (_, checksum) in staged.items()]


def _make_result(publication: Publication, files: Sequence[StagedFile]) -> str:
    """Makes the complete, unpublished version, and returns its directory.

    On a disk it is the staging directory, from which all other files are removed; on an object store the files are
    copied to `result` in it.
    """
    root = publication.staging_dir
    if not publication.is_remote:
        remove_extra_files(root, {OWNER_FILE, *(file.name for file in files)})
        return root
    result = storage.join(root, RESULT_DIR)
    with ThreadPoolExecutor(store_commit.COPIES_AT_ONCE) as executor:
        copies = [(storage.join(root, file.staged), storage.join(result, file.name)) for file in files]
        for future in [executor.submit(storage.copy, *paths) for paths in copies]:
            future.result()
    return result


def make_visible(publication: Publication, decision: Decision) -> str:
    """Publishes a version whose files are complete, removes the temporary files of the run, and returns the directory.

    Raises:
        StorageError: a file is missing.
        AlreadyPublishedError: another run published this version.
    """
    if publication.is_published:  # an engine that ran all again has staged all again
        store_commit.delete_files(publication) if publication.is_remote else storage.remove_tree(
            publication.staging_dir
        )
    elif publication.is_remote:
        store_commit.complete(publication, decision)
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
