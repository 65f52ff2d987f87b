"""Deliberate faults in publishing, each of which the model must find."""

import contextlib
from typing import Any

import pytest

from beam_datasets import storage
from beam_datasets.errors import AbandonedError, StorageError
from beam_datasets.publishing import disk_commit, phases, runs, store_commit
from beam_datasets.publishing.publication import Publication
from tests.model_check.store import Disk, Store

decide, complete, discard = store_commit.decide, store_commit.complete, store_commit.discard


def retry_removes_what_the_first_attempt_copied(patch: pytest.MonkeyPatch) -> None:
    """An attempt begins by tidying up the version's directory."""

    def tidying_decide(run: runs.Run, *args: Any) -> runs.Decision:
        decision = decide(run, *args)
        with contextlib.suppress(StorageError):
            for name in storage.list_dir(run.target):
                storage.remove(storage.join(run.target, name))
        return decision

    patch.setattr(store_commit, "decide", tidying_decide)


def marker_is_created_before_all_files_are_verified(patch: pytest.MonkeyPatch) -> None:
    """Whoever finishes another's run creates dataset_info.json while the files are still being copied."""
    patch.setattr(store_commit, "_check_files", lambda *_: None)
    patch.setattr(store_commit, "commit_all", lambda *_: None)


def decision_is_ignored_by_a_late_attempt(patch: pytest.MonkeyPatch) -> None:
    """An attempt whose run was abandoned goes on to publish."""

    def stubborn_decide(run: runs.Run, files: Any, digest: str) -> runs.Decision:
        try:
            return decide(run, files, digest)
        except AbandonedError:
            return runs.Decision(run.job, runs.PUBLISH, digest, files)

    patch.setattr(store_commit, "decide", stubborn_decide)


def copies_overwrite(patch: pytest.MonkeyPatch) -> None:
    """The store ignores the condition of a create-only copy, as some S3 servers do."""
    patch.setattr(Store, "_create_copy", lambda store, source, target: store._put(target, store._get(source)))


def creations_overwrite(patch: pytest.MonkeyPatch) -> None:
    """The store ignores the condition of a create-only put."""
    patch.setattr(Store, "_create", Store._put)


def gc_deletes_staging_of_a_run_that_decided_to_publish(patch: pytest.MonkeyPatch) -> None:
    """Whoever gives up a run deletes its staged files without reading which decision won."""

    def hasty_discard(run: runs.Run, *, by: str) -> bool:
        store_commit.abandon(run.target, run.job, by=by)
        storage.remove_tree(run.staging_dir)
        return True

    patch.setattr(store_commit, "discard", hasty_discard)


def staging_is_deleted_without_a_decision(patch: pytest.MonkeyPatch) -> None:
    """The launcher of a job that goes on deletes what the job has staged."""

    def rash_discard(run: runs.Run, *, by: str) -> bool:
        storage.remove_tree(run.staging_dir)
        return discard(run, by=by)

    patch.setattr(store_commit, "discard", rash_discard)


def abandoning_deletes_the_records(patch: pytest.MonkeyPatch) -> None:
    """The reservation of an abandoned run is deleted, which may happen late, when it is another run's."""

    def deleting_discard(run: runs.Run, *, by: str) -> bool:
        discarded = discard(run, by=by)
        if discarded:
            storage.remove_tree(runs.runs_dir(run.target))
        return discarded

    patch.setattr(store_commit, "discard", deleting_discard)


def reservation_does_not_wait_for_a_decision(patch: pytest.MonkeyPatch) -> None:
    """The next number is reserved while the run before is undecided; as if its lease had expired."""
    patch.setattr(store_commit, "holder", lambda target, holder=store_commit.holder: _without_undecided(holder(target)))


def _without_undecided(held: store_commit.Holder | None) -> store_commit.Holder | None:
    if held is None or held.decision is not None:
        return held
    return held._replace(decision=runs.Decision(held.run.job, runs.ABANDON))


def staging_is_deleted_before_the_marker_is_created(patch: pytest.MonkeyPatch) -> None:
    """The copies are made, so the staged files go; but one of the copies is another attempt's, or is not made yet."""

    def early_complete(run: runs.Run, decision: runs.Decision) -> None:
        for file in decision.files:
            if file.name != run.marker:
                storage.remove(storage.join(run.staging_dir, file.staged))
        complete(run, decision)

    patch.setattr(store_commit, "complete", early_complete)


def attempts_stage_under_the_same_names(patch: pytest.MonkeyPatch) -> None:
    """A zombie attempt overwrites a staged file that the decision names."""
    patch.setattr(storage, "join", lambda path, *names, join=storage.join: _without_attempts(join(path, *names)))


def _without_attempts(path: str) -> str:
    head, _, tail = path.partition("/incomplete.")
    folder, *rest = tail.split("/")
    return "/".join([f"{head}/incomplete.{folder}", *rest[-1:]]) if tail and len(rest) > 1 else path


ON_STORES = [
    retry_removes_what_the_first_attempt_copied,
    marker_is_created_before_all_files_are_verified,
    decision_is_ignored_by_a_late_attempt,
    copies_overwrite,
    creations_overwrite,
    gc_deletes_staging_of_a_run_that_decided_to_publish,
    staging_is_deleted_without_a_decision,
    abandoning_deletes_the_records,
    reservation_does_not_wait_for_a_decision,
    staging_is_deleted_before_the_marker_is_created,
    attempts_stage_under_the_same_names,
]


def renaming_replaces_what_is_there(patch: pytest.MonkeyPatch) -> None:
    """A run that is late replaces a published version."""

    def rename_dir(disk: Disk, source: str, target: str) -> None:
        disk._request("rename", target, lambda: disk._move(source, target), changes=True)

    patch.setattr(Disk, "rename_dir", rename_dir)


def gc_deletes_in_place(patch: pytest.MonkeyPatch) -> None:
    """A staging directory is deleted file by file under its own name; halfway it is published."""

    def remove_tree(disk: Disk, path: str) -> None:
        keys = disk._request("list", path, lambda: disk._below(path))
        for key in keys[: len(keys) // 2 + 1]:
            disk.remove(key)

    patch.setattr(Disk, "remove_tree", remove_tree)


def staging_is_renamed_at_once(patch: pytest.MonkeyPatch) -> None:
    """The staging directory gets the final name itself, though another attempt may have made it anew."""

    def rename(publication: Publication, decision: runs.Decision) -> None:
        disk_commit.remove_extra_files(publication.staging_dir, {file.name for file in decision.files})
        storage.rename_dir(publication.staging_dir, publication.target)

    patch.setattr(phases, "_rename", rename)


ON_DISKS = [renaming_replaces_what_is_there, gc_deletes_in_place, staging_is_renamed_at_once]
