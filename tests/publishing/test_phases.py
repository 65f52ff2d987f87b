"""Publishing, when a run does it twice, when another run was first, and when something is missing."""

import errno
import os
import re
import shutil
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets import catalog, storage
from beam_datasets.errors import (
    AlreadyPublishedError,
    LostExamplesError,
    MetadataError,
    PathNotFoundError,
    StorageError,
)
from beam_datasets.features import ClassLabel, FeaturesDict, compile_encoder
from beam_datasets.formats.tfrecord import frame
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.version import Version
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import disk_commit, phases, staging_checks
from beam_datasets.publishing.leftovers import find_leftovers, remove_leftover
from beam_datasets.publishing.publication import Workers, announce
from tests.directories import contents
from tests.facts import raises_with
from tests.publishing.publications import announced, staged


@pytest.fixture(params=["local", "objects"])
def data_dir(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid.uuid4().hex}/data" if request.param == "objects" else str(tmp_path)


@pytest.mark.parametrize("name", ["a\x1bb", "a\\b"])
def test_a_label_file_that_could_not_be_read_is_refused_at_the_start(tmp_path, name):
    features = FeaturesDict({"a": {name: ClassLabel(names=["x", "y"])}})
    info = DatasetInfo(
        builder=DatasetIdentity("ds", Version("1.0.0"), str(tmp_path / "ds" / "1.0.0")), features=features
    )
    with raises_with(MetadataError, got=["labels.txt'"], expected=["name of a file"]):
        announce(info, info.data_dir, workers=Workers(name=""), sharding=ShardingOptions(), builder="a:B")
    (tmp_path / "records").write_bytes(frame(compile_encoder(features)({"a": {name: 1}})))
    with raises_with(MetadataError, got=["labels.txt'"], expected=["name of a file"]):
        bd.adopt(tmp_path / "records", features, name="ds", data_dir=tmp_path / "data", disable_shuffling=True)
    assert catalog.list_datasets(tmp_path / "data") == []


def test_an_engine_that_runs_all_again_changes_and_leaves_nothing(data_dir):
    publication = announced(data_dir)
    made = phases.publish(publication, *staged(publication))
    before = contents(made)
    assert phases.publish(publication, *staged(publication)) == made
    assert contents(made) == before
    assert storage.list_dir(storage.join(data_dir, "ds")) == ["1.0.0"]


def test_a_worker_with_another_disk_publishes_nothing(data_dir):
    """It can write all shards where only it sees them, but the launcher has made no staging directory there."""
    publication = announced(data_dir)
    publication = replace(publication, owner=replace(publication.owner, runner="FlinkRunner"))
    ready = staged(publication)
    storage.remove(storage.join(publication.staging_dir, "owner.json"))
    with raises_with(StorageError, path=publication.staging_dir, mentions=["launcher", "worker"]):
        phases.publish(publication, *ready)
    assert not storage.exists(publication.target)
    directory = phases.publish(replace(publication, is_reserved=False), *ready)
    assert catalog.is_published(directory)


def test_a_local_run_whose_staging_directory_was_removed_publishes_nothing(tmp_path):
    publication = announced(tmp_path)
    ready = staged(publication)
    storage.remove(storage.join(publication.staging_dir, "owner.json"))
    with raises_with(PathNotFoundError, path=publication.staging_dir, mentions=["removed"]):
        phases.publish(publication, *ready)
    assert not storage.exists(publication.target)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENFILE, errno.EACCES])
def test_an_error_of_the_disk_is_not_a_lost_directory(tmp_path, monkeypatch, number):
    """It may pass, as on a network disk; whatever uses the directory reports it."""
    publication = announced(tmp_path)
    staged(publication)
    storage.remove(storage.join(publication.staging_dir, "owner.json"))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        staging_checks.check_directories(publication)
    with monkeypatch.context() as patch:  # which is asked whether the directory was renamed
        patch.setattr(os, "listdir", fail)
        staging_checks.check_directories(publication)
    with raises_with(PathNotFoundError, path=publication.staging_dir, mentions=["removed"]):
        staging_checks.check_directories(publication)


def test_a_directory_that_is_missing_for_a_moment_is_not_lost(tmp_path, monkeypatch):
    publication = announced(tmp_path)
    staged(publication)
    monkeypatch.setattr(staging_checks.time, "sleep", lambda _: publication.owner.write(publication.staging_dir))
    storage.remove(storage.join(publication.staging_dir, "owner.json"))
    staging_checks.check_directories(publication)


def test_a_run_that_is_being_published_has_its_directories(tmp_path, monkeypatch):
    """In between, the staging directory has another name, or is gone."""
    publication = announced(tmp_path)
    ready = staged(publication)
    checked, rename, remove = [], storage.rename_dir, storage.remove_tree

    def check(call, *arguments):
        call(*arguments)
        staging_checks.check_directories(publication)
        checked.append(arguments)

    monkeypatch.setattr(storage, "rename_dir", lambda *arguments: check(rename, *arguments))
    monkeypatch.setattr(storage, "remove_tree", lambda path: check(remove, path))
    phases.publish(publication, *ready)
    assert len(checked) >= 3


def test_an_attempt_that_its_twin_overtook_has_published_too(tmp_path, monkeypatch):
    publication = announced(tmp_path)
    rename = storage.rename_dir

    def twin_first(source, target):
        if target == publication.target:
            shutil.copytree(source, target)
        rename(source, target)

    monkeypatch.setattr(storage, "rename_dir", twin_first)
    assert phases.publish(publication, *staged(publication)) == publication.target
    assert [path.name for path in (tmp_path / "ds").iterdir()] == ["1.0.0"]


def test_staging_that_was_made_anew_is_not_published(tmp_path, monkeypatch):
    """Gc removes a staging directory just before it is renamed, and another attempt writes to it again."""
    publication = announced(tmp_path)
    rename = storage.rename_dir

    def removed_and_made_anew(source, target):
        if source == publication.staging_dir:
            storage.remove_tree(source)
            for name in ("dataset_info.json", "features.json"):
                storage.write_bytes(storage.join(source, name), b"{}")
        rename(source, target)

    monkeypatch.setattr(storage, "rename_dir", removed_and_made_anew)
    with raises_with(LostExamplesError, path=publication.staging_dir, outcome="nothing was published"):
        phases.publish(publication, *staged(publication))
    assert catalog.list_datasets(tmp_path) == []


def test_a_file_that_another_attempt_is_just_creating_is_not_published(tmp_path, monkeypatch):
    """The system has found the staging directory for it already, and creates the file there after a rename."""
    publication = announced(tmp_path)
    ready = staged(publication)
    folder, rename = os.open(publication.staging_dir, os.O_RDONLY), storage.rename_dir

    def created_meanwhile(source, target):
        if target == publication.target:
            os.close(os.open(".tmp-late", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        rename(source, target)

    monkeypatch.setattr(storage, "rename_dir", created_meanwhile)
    made = phases.publish(publication, *ready)
    os.close(folder)
    assert not [name for name in storage.list_dir(made) if name.startswith(".tmp")]
    assert [path.name for path in (tmp_path / "ds").iterdir()] == ["1.0.0"]


def test_what_a_process_that_was_killed_leaves_is_not_called_a_kept_result(tmp_path, monkeypatch):
    publication, move = announced(tmp_path), storage.move_files
    ready, found = staged(publication), []
    ended = subprocess.Popen(["true"])
    ended.wait()
    replace(publication.owner, pid=ended.pid).write(publication.staging_dir)

    def moved_one_by_one(source, target, names):
        for name in names:
            move(source, target, [name])
            copy = shutil.copytree(tmp_path, f"{tmp_path}-{name}")
            found.append([(each.abandoned, each.reason.split()[-1]) for each in find_leftovers(copy)])
            for each in find_leftovers(copy):
                remove_leftover(each, copy)
            assert not find_leftovers(copy)

    monkeypatch.setattr(storage, "move_files", moved_one_by_one)
    phases.publish(publication, *ready)
    assert found[-1] == [(True, "gone")] * 2
    assert found == found[-1:] * len(found)


def test_a_twin_that_still_writes_is_no_error_of_what_is_published(tmp_path, monkeypatch):
    publication, remove = announced(tmp_path), storage.remove_tree
    ready = staged(publication)

    def refused(path):
        if storage.is_dir(publication.target):
            raise StorageError(f"{path}: Directory not empty")
        remove(path)

    monkeypatch.setattr(storage, "remove_tree", refused)
    assert catalog.is_published(phases.publish(publication, *ready))


def test_another_run_that_was_first_stays(data_dir):
    one, other = announced(data_dir), announced(data_dir)
    before = contents(phases.publish(one, *staged(one)))
    with raises_with(AlreadyPublishedError, mentions=[one.target, one.job, "which started "]):
        phases.publish(other, *staged(other))
    assert contents(one.target) == before


def test_a_run_of_the_same_version_on_this_machine_is_reported_at_the_start(tmp_path, caplog):
    one, other, dead, far = (announced(str(tmp_path)) for _ in range(4))
    dead = replace(dead, owner=replace(dead.owner, start_ticks=1))
    far = replace(far, owner=replace(far.owner, host="far"))
    for run in (dead, far, one):
        phases.reserve(run)
    phases.reserve(one)
    assert not caplog.messages
    phases.reserve(other)
    (message,) = caplog.messages
    assert re.match(rf"{one.target}: run {one.job} \(process \d+ on .* is writing the same directory", message)


@pytest.mark.parametrize(
    "fault",
    [
        lambda shards: shards[1:],
        lambda shards: [*shards, shards[0]],
        lambda shards: [shards[0], replace(shards[1], num_examples=4)],
    ],
    ids=["missing", "doubled", "short"],
)
def test_nothing_is_visible_where_shards_do_not_add_up(tmp_path, fault):
    publication = announced(tmp_path)
    made, shards = staged(publication)
    with raises_with(LostExamplesError, split="train", expected="10 examples in 2 shards"):
        phases.publish(publication, made, fault(shards))
    assert catalog.list_datasets(tmp_path) == []


def test_nothing_is_visible_where_files_were_removed_meanwhile(data_dir):
    publication = announced(data_dir)
    made, shards = staged(publication)
    storage.remove(f"{shards[1].path}.index")
    with raises_with(LostExamplesError, mentions=["1 of ", "ds-train.tfrecord-00001-of-00002.index"]):
        phases.publish(publication, made, shards)
    assert catalog.list_datasets(data_dir) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_that_does_not_end_well_leaves_no_directory_that_it_made(tmp_path, error):
    def run(at, meanwhile):
        with phases.staging(announced(at)):
            assert len(list((at / "ds").glob("incomplete.*"))) == 1
            meanwhile()
            raise error

    def fail(at, meanwhile=lambda: None):
        with pytest.raises(error):
            run(at, meanwhile)

    fail(tmp_path / "some" / "data")
    assert not list(tmp_path.iterdir())
    (tmp_path / "ds").mkdir()
    fail(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "ds"]  # was there before
    fail(tmp_path / "data", meanwhile=(tmp_path / "data" / "ds" / "incomplete.of_another").mkdir)
    assert [path.name for path in (tmp_path / "data" / "ds").iterdir()] == ["incomplete.of_another"]
    (tmp_path / "file").touch()
    with raises_with(StorageError, mentions=["file", "Not a directory"]), phases.staging(announced(tmp_path / "file")):
        pass


def test_directories_that_a_run_made_for_spilled_payload_go_with_it(tmp_path):
    (tmp_path / "scratch").mkdir()
    for other in (tmp_path / "new", tmp_path / "scratch" / "x"):
        run = announced(tmp_path / "data")
        run = replace(run, spill_dir=str(other / "y" / f"incomplete.{run.job}_1.0.0.spill"))
        with phases.staging(run):
            assert Path(run.spill_dir).is_dir()
            phases.publish(run, *staged(run))
        shutil.rmtree(run.target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "scratch"]
    assert not list((tmp_path / "scratch").iterdir())


def test_an_error_is_not_hidden_where_its_directory_is_gone(tmp_path):
    beside = disk_commit.beside(str(tmp_path / "ds" / "1.0.0"))
    shutil.rmtree(beside.__enter__())
    error = RuntimeError("the first error")
    assert not beside.__exit__(RuntimeError, error, None)


def test_nothing_is_visible_before_the_last_step(tmp_path, monkeypatch):
    publication = announced(tmp_path)
    seen = []
    rename, write = storage.rename_dir, storage.write_bytes

    def looking(action):
        def act(*arguments):
            seen.append((Path(arguments[0]).name.partition("_1.0.0")[0], catalog.list_datasets(tmp_path)))
            return action(*arguments)

        return act

    monkeypatch.setattr(storage, "write_bytes", looking(write))
    monkeypatch.setattr(storage, "rename_dir", looking(rename))
    phases.publish(publication, *staged(publication))
    staging = Path(publication.staging_dir).name[: -len("_1.0.0")]
    assert [name for name, _ in seen][-3:] == ["manifest.json", staging, staging]
    assert not any(visible for _, visible in seen)
    assert catalog.list_datasets(tmp_path) == ["ds"]
