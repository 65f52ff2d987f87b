"""Which run publishes on an object store: one at most, whoever else tries, is late, is killed or comes again."""

import dataclasses
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

from beam_datasets import catalog, storage
from beam_datasets.errors import (
    AbandonedError,
    AlreadyPublishedError,
    GenerationError,
    JobStateUnknownError,
    StorageError,
)
from beam_datasets.metadata.manifest import RUN_FILE
from beam_datasets.publishing import phases, progress, runs, store_commit
from beam_datasets.publishing.owners import IN_PROCESS
from beam_datasets.publishing.publication import Publication
from beam_datasets.storage import objects
from beam_datasets.verifying import verify
from tests.directories import contents
from tests.facts import raises_with
from tests.publishing.publications import announced, staged

pytest.importorskip("obstore")


@pytest.fixture
def data_dir() -> str:
    return f"memory://{uuid.uuid4().hex}/data"


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def owned(publication: Publication, **changes: Any) -> Publication:
    return dataclasses.replace(publication, owner=dataclasses.replace(publication.owner, **changes))


def killed(publication: Publication, dead: int) -> Publication:
    """Returns the publication as one of a process that is gone."""
    return owned(publication, pid=dead, start_ticks=None)


def elsewhere(publication: Publication) -> Publication:
    return owned(publication, host="elsewhere")


def check_published_by(publication: Publication) -> None:
    found = contents(publication.target)
    shards = {f"ds-train.tfrecord-{i:05d}-of-00002" for i in range(2)}
    small = {"dataset_info.json", "features.json", "manifest.json", "run.json"}
    assert set(found) == small | shards | {f"{name}.index" for name in shards}
    assert f'"job": "{publication.job}"'.encode() in found[RUN_FILE]
    assert not verify(publication.target).findings


def test_a_store_that_ignores_the_condition_of_a_creation_is_refused(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers of S3 replace the file without an error; also the next attempt of an engine is refused."""
    monkeypatch.setattr(objects, "create_bytes", storage.write_bytes)
    publication = announced(data_dir)
    with raises_with(StorageError, path=re.compile(r"/incomplete\.runs\.")) as refused:
        phases.reserve(publication)
    assert "it replaced it" in refused.value.problem
    with pytest.raises(AbandonedError):
        phases.reserve(publication)
    assert not catalog.is_published(publication.target)


def test_a_decision_that_comes_after_the_records_were_deleted_is_not_valid(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended right before its decision, given up, overtaken by a run that publishes and tidies up."""
    zombie, run = elsewhere(announced(data_dir)), announced(data_dir, num_shards=5)
    phases.reserve(zombie)
    ready = staged(zombie)
    create = storage.create_bytes

    def overtaken(path: str, content: bytes) -> None:
        monkeypatch.undo()
        store_commit.discard(zombie, by="a test")
        phases.reserve(run)
        phases.publish(run, *staged(run))
        assert not storage.exists(runs.runs_dir(run.target))
        create(path, content)

    monkeypatch.setattr(storage, "create_bytes", overtaken)
    with pytest.raises(AlreadyPublishedError):
        phases.publish(zombie, *ready)
    assert len(contents(run.target)) == 4 + 2 * 5
    assert not verify(run.target).findings
    assert not storage.exists(runs.runs_dir(run.target))


def test_a_second_run_is_refused_when_it_starts(data_dir: str) -> None:
    one, other = announced(data_dir), announced(data_dir)
    phases.reserve(one)
    with raises_with(
        AlreadyPublishedError, path=one.target, mentions=[f"run {one.job} (process "], advice=[f" --abandon {one.job}"]
    ):
        phases.reserve(other)
    assert not storage.exists(other.staging_dir)
    phases.reserve(one)
    phases.publish(one, *staged(one))
    check_published_by(one)


@pytest.mark.parametrize("runner", ["FnApiRunner", IN_PROCESS])
def test_a_holder_that_is_certainly_dead_is_replaced_and_its_files_are_removed(
    data_dir: str, dead: int, tmp_path: Path, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill = str(tmp_path / "incomplete.0_1.0.0.spill")
    gone = dataclasses.replace(killed(owned(announced(data_dir), runner=runner), dead), spill_dir=spill)
    phases.reserve(gone)
    staged(gone)
    for suffix in ("", ".last", ".last.1"):
        Path(gone.worker_log + suffix).write_text("of its worker processes")
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["owner.json"]
    run = announced(data_dir)
    phases.reserve(run)
    assert not storage.exists(gone.staging_dir)
    assert not list(tmp_path.iterdir())
    phases.publish(run, *staged(run))
    check_published_by(run)


@pytest.mark.parametrize(
    "change",
    [{"host": "another"}, {"pid_namespace": "another container"}, {"pid_namespace": ""}, {"runner": "FlinkRunner"}],
    ids=str,
)
def test_a_holder_that_may_be_alive_is_not_replaced(data_dir: str, dead: int, change: dict[str, str]) -> None:
    """Another machine or container, or an engine that goes on without its launcher, cannot be asked."""
    run = owned(killed(announced(data_dir), dead), started=0.0, **change)
    phases.reserve(run)
    storage.write_bytes(run.submitted_file, b"")
    with raises_with(AlreadyPublishedError, advice=["--abandon"]):
        phases.reserve(announced(data_dir))


def test_a_holder_that_was_killed_before_its_job_is_replaced(data_dir: str, dead: int) -> None:
    gone = owned(killed(announced(data_dir), dead), started=0.0, runner="FlinkRunner")
    phases.reserve(gone)
    run = announced(data_dir)
    phases.reserve(run)
    with pytest.raises(AbandonedError):
        phases.publish(gone, *staged(gone))
    phases.publish(run, *staged(run))
    check_published_by(run)


def test_a_holder_of_a_users_own_pipeline_is_not_replaced(data_dir: str, dead: int) -> None:
    """A worker has reserved the version, and the launcher has ended without waiting for the job."""
    gone = owned(killed(announced(data_dir), dead), started=0.0, runner="FlinkRunner")
    phases.reserve(dataclasses.replace(gone, is_reserved=False))
    with raises_with(AlreadyPublishedError, advice=["--abandon"]):
        phases.reserve(announced(data_dir))


@pytest.mark.parametrize("committed", [0, 3, 7])
def test_a_run_that_has_decided_to_publish_is_finished_by_the_next(data_dir: str, dead: int, committed: int) -> None:
    gone = elsewhere(announced(data_dir))
    phases.reserve(gone)
    decision = phases.decide(gone, *staged(gone))
    for file in [file for file in decision.files if file.name != "dataset_info.json"][:committed]:
        store_commit.commit_file(gone, file)
    assert not catalog.is_published(gone.target)
    with raises_with(AlreadyPublishedError, mentions=[f"run {gone.job} "], outcome="the version is published"):
        phases.reserve(announced(data_dir))
    check_published_by(gone)
    assert storage.list_dir(storage.dirname(gone.target)) == ["1.0.0"]
    assert phases.make_visible(gone, decision) == gone.target  # its own last step, late
    for file in decision.files:
        store_commit.commit_file(gone, file)
    check_published_by(gone)


def test_a_version_that_was_deleted_before_its_records_says_what_to_do(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when the staged files were removed, and the records not yet; then the version is deleted by hand."""
    gone = elsewhere(announced(data_dir))
    phases.reserve(gone)
    monkeypatch.setattr(store_commit, "delete_files", lambda run: storage.remove_tree(run.staging_dir))
    phases.publish(gone, *staged(gone))
    monkeypatch.undo()
    storage.remove_tree(gone.target)
    again = announced(data_dir)
    records = runs.runs_dir(gone.target)
    for attempt in (
        lambda: phases.reserve(again),
        lambda: store_commit.finish(gone.target),
    ):  # the latter is what gc does
        with raises_with(StorageError, mentions=[f"run {gone.job} "], advice=[f"delete {records} "]):
            attempt()
    storage.remove_tree(records)
    phases.reserve(again)
    phases.publish(again, *staged(again))
    check_published_by(again)


def test_finishing_a_dead_run_removes_what_it_left_on_this_machine(
    data_dir: str, dead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill = str(tmp_path / "incomplete.0_1.0.0.spill")
    gone = dataclasses.replace(killed(announced(data_dir), dead), spill_dir=spill)
    phases.reserve(gone)
    for suffix in ("", ".last", ".last.1"):
        Path(gone.worker_log + suffix).write_text("of its worker processes")
    phases.decide(gone, *staged(gone))
    assert store_commit.finish(gone.target)
    assert not list(tmp_path.iterdir())
    check_published_by(gone)


def test_an_attempt_with_other_content_is_an_error(data_dir: str) -> None:
    """One pipeline object that is run twice has one id: the second must not report the content of the first."""
    run = announced(data_dir)
    phases.reserve(run)
    phases.decide(run, *staged(run))
    with raises_with(AlreadyPublishedError, path=run.target, expected=re.compile("^[0-9a-f]{64}$"), advice=["gc"]):
        phases.decide(run, *staged(run, count=11))


def test_files_of_another_program_in_the_target_stay(data_dir: str) -> None:
    run = announced(data_dir)
    storage.write_bytes(storage.join(run.target, "notes.txt"), b"mine")
    with raises_with(AlreadyPublishedError, path=run.target, mentions=["notes.txt"]):
        phases.reserve(run)
    assert contents(run.target) == {"notes.txt": b"mine"}
    storage.remove(storage.join(run.target, "notes.txt"))
    again = announced(data_dir)
    phases.reserve(again)
    phases.publish(again, *staged(again))
    check_published_by(again)


def test_a_final_name_with_other_content_is_an_error_that_names_both(data_dir: str) -> None:
    run = announced(data_dir)
    phases.reserve(run)
    decision = phases.decide(run, *staged(run))
    file = decision.files[-1]
    storage.write_bytes(storage.join(run.target, file.name), bytes(file.num_bytes))
    staged_dir = re.escape(run.staging_dir)
    with raises_with(StorageError, path=f"{run.target}/{file.name}", expected=re.compile(staged_dir)):
        store_commit.commit_file(run, file)
    with pytest.raises(StorageError):
        phases.publish(run, *staged(run))
    assert not catalog.is_published(run.target)


def test_a_file_that_was_not_committed_keeps_the_version_invisible(data_dir: str) -> None:
    run = announced(data_dir)
    phases.reserve(run)
    decision = phases.decide(run, *staged(run))
    for file in decision.files[:-1]:
        store_commit.commit_file(run, file)
    with raises_with(StorageError, path=f"{run.target}/{decision.files[-1].name}", got=["no file"]):
        phases.make_visible(run, decision)
    assert storage.exists(run.staging_dir)
    assert store_commit.finish(run.target)
    check_published_by(run)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"owner": {}, "marker": "x", "spill_dir": null}', b"\xff"])
def test_a_damaged_record_is_named(data_dir: str, text: bytes) -> None:
    run = announced(data_dir)
    path = storage.join(runs.runs_dir(run.target), "00000001.reservation.json")
    storage.write_bytes(path, text)
    with raises_with(StorageError, path=path, expected="the record of a run", advice=re.compile("^Delete the file")):
        phases.reserve(run)


def test_a_job_whose_state_is_unknown_keeps_everything(data_dir: str, tmp_path: Path) -> None:
    spill = tmp_path / "incomplete.x_1.0.0.spill"
    run = dataclasses.replace(announced(data_dir), spill_dir=str(spill))

    def lose_contact() -> None:
        with phases.staging(run):
            (spill / "a.block").write_bytes(b"1")
            staged(run)
            raise JobStateUnknownError("lost")

    with pytest.raises(JobStateUnknownError):
        lose_contact()
    assert (spill / "a.block").exists()
    with raises_with(AlreadyPublishedError, advice=["--abandon"]):
        phases.reserve(announced(data_dir))
    phases.publish(run, *staged(run))  # the job goes on
    check_published_by(run)


def test_a_failed_run_gives_the_version_free(data_dir: str, tmp_path: Path) -> None:
    run = dataclasses.replace(announced(data_dir), spill_dir=str(tmp_path / "spill"))

    def fail() -> None:
        with phases.staging(run):
            staged(run)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())
    assert not storage.exists(run.staging_dir)
    again = announced(data_dir)
    with phases.staging(again):
        phases.publish(again, *staged(again))
    check_published_by(again)


@pytest.mark.parametrize("error", [StorageError("503"), GenerationError("503", outcome="nothing was published")])
def test_a_run_that_fails_after_its_decision_keeps_its_files_and_says_what_to_do(
    data_dir: str, error: Exception
) -> None:
    """The error does not repeat the sentence of an engine's error that nothing was published."""
    run = announced(data_dir)

    def fail() -> None:
        with phases.staging(run):
            phases.decide(run, *staged(run))
            raise error

    with raises_with(StorageError, path=run.target, mentions=[run.job, "503. "], advice=["the same command"]):
        fail()
    with raises_with(AlreadyPublishedError, path=run.target, outcome="the version is published"):
        phases.reserve(announced(data_dir))
    check_published_by(run)


def test_units_of_earlier_runs_are_counted(tmp_path: Path) -> None:
    """They are reused, so a resumed run does not read them."""
    for folder, names in (("a", ["x-3.units.json", "y-4.units.json", "z.block"]), ("b", ["x-5.units.json"]), ("c", [])):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    assert progress.count_units([str(tmp_path / name) for name in "abc"]) == 12
