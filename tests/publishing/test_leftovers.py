"""What killed runs leave, told from what runs under way need: with processes that run, and that were killed."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_datasets import catalog, storage
from beam_datasets.cli import main
from beam_datasets.errors import AbandonedError, PathNotFoundError, StorageError
from beam_datasets.publishing import leftovers, phases, progress, publication, runs
from beam_datasets.publishing.leftovers import WEEK, find_leftovers, remove_leftover
from beam_datasets.publishing.owners import Owner
from tests.facts import raises_with
from tests.publishing.publications import announced
from tests.publishing.publications import staged as staged_shards

BUILDER = """
import time
import beam_datasets as bd

class Slow(bd.DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features=bd.features.FeaturesDict({"n": bd.features.Scalar("int64")}))

    def _split_generators(self):
        return {"train": self._numbers()}

    def _numbers(self):
        from pathlib import Path
        for n in range(10):
            yield n, {"n": n}
        while not Path("go_on").exists():
            time.sleep(0.05)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@contextlib.contextmanager
def running_build(folder: Path, data_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Starts a build that waits for a file; gives the process and its staging directory."""
    (folder / "slow.py").write_text(BUILDER)
    command = [sys.executable, "-m", "beam_datasets.cli", "build", "slow.py", "--data_dir", str(data_dir)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    options = {"cwd": folder, "env": environment, "stderr": subprocess.STDOUT}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([*command, "--num_workers", "1"], stdout=log, **options)
    try:
        while not (found := list(data_dir.glob("slow/incomplete.*_1.0.0/owner.json"))):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        yield process, found[0].parent
    finally:
        process.kill()
        process.wait()


def staged(data_dir: Path, name: str = "ds", *, owner: Owner | None, age: float = 0) -> Path:
    """Makes a staging directory, last changed so many seconds ago."""
    folder = data_dir / name / f"incomplete.{uuid.uuid4().hex[:8]}_1.0.0"
    folder.mkdir(parents=True)
    (folder / "ds-train.tfrecord-00000-of-00001").write_bytes(bytes(100))
    if owner is not None:
        owner.write(str(folder))
    make_old(folder, age)
    return folder


def make_old(path: Path, seconds: float) -> None:
    when = time.time() - seconds
    for entry in [*path.rglob("*"), path]:
        os.utime(entry, (when, when), follow_symlinks=False)


def this_process(**changes: object) -> Owner:
    return dataclasses.replace(Owner.of_this_process("job", time.time(), "FnApiRunner"), **changes)


def states(data_dir: Path, **options: float) -> dict[str, tuple[bool, str]]:
    return {
        storage.basename(found.path): (found.abandoned, found.reason) for found in find_leftovers(data_dir, **options)
    }


@pytest.mark.slow
def test_a_run_that_is_under_way_is_let_alone_and_a_killed_one_is_removed(data_dir: Path, tmp_path: Path) -> None:
    with running_build(tmp_path, data_dir) as (process, staging):
        assert states(data_dir, older_than=0) == {staging.name: (False, f"in use by process {process.pid}")}
        assert main(["gc", str(data_dir), "--yes", "--older_than", "0"]) == 0
        assert staging.exists()
        (tmp_path / "go_on").touch()
        assert process.wait(240) == 0, (tmp_path / "log").read_text()
    assert find_leftovers(data_dir) == []

    (tmp_path / "go_on").unlink()
    with running_build(tmp_path, data_dir / "other") as (killed, left):
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # dead, but nobody has asked how it ended
        assert states(data_dir / "other") == {left.name: (True, f"process {killed.pid} is gone")}
    assert states(data_dir / "other") == {left.name: (True, f"process {killed.pid} is gone")}
    assert main(["gc", str(data_dir / "other")]) == 0
    assert left.exists()
    assert main(["gc", str(data_dir), "--yes"]) == 0
    assert not left.parent.exists()
    assert catalog.list_datasets(data_dir) == ["slow"]


def test_a_later_process_of_the_same_number_owns_nothing(data_dir: Path) -> None:
    mine = this_process()
    assert mine.is_running
    assert mine.start_ticks is not None
    earlier = staged(data_dir, owner=this_process(start_ticks=mine.start_ticks - 1))
    untold = staged(data_dir, owner=this_process(start_ticks=None))
    assert states(data_dir) == {
        earlier.name: (True, f"process {os.getpid()} is gone"),
        untold.name: (False, f"in use by process {os.getpid()}"),
    }


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"host": "another"}, "which cannot be asked; changed lately"),
        ({"pid_namespace": "another start of the machine"}, "which cannot be asked; changed lately"),
        ({"runner": "FlinkRunner", "start_ticks": 1}, "is gone, but FlinkRunner may work on; changed lately"),
    ],
    ids=str,
)
def test_what_may_be_in_use_elsewhere_counts_by_its_age(data_dir: Path, changes: dict[str, object], why: str) -> None:
    """Of another machine, or of an engine that may work on without the process that started it."""
    owner = this_process(**changes)
    young, old = staged(data_dir, owner=owner), staged(data_dir, owner=owner, age=WEEK + 1)
    found = states(data_dir)
    assert (found[young.name][0], found[old.name][0]) == (False, True)
    assert why in found[young.name][1]
    assert all(abandoned for abandoned, _ in states(data_dir, older_than=0).values())
    assert not any(abandoned for abandoned, _ in states(data_dir, older_than=2 * WEEK).values())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": 1}', '{"job": "a", "host": "h", "pid": "1", "started": 0}'])
def test_an_owner_that_cannot_be_read_is_none(data_dir: Path, text: str) -> None:
    folder = staged(data_dir, owner=None)
    (folder / "owner.json").write_text(text)
    assert states(data_dir) == {folder.name: (False, "no owner is known; changed lately")}


def test_unfinished_files(data_dir: Path) -> None:
    version = data_dir / "ds" / "1.0.0"
    version.mkdir(parents=True)
    for name in ("dataset_info.json", "features.json"):
        (version / name).touch()
    old, young = version / f".tmp-{uuid.uuid4().hex}", data_dir / "ds" / f".tmp-{uuid.uuid4().hex}"
    old.write_bytes(bytes(10))
    young.write_bytes(bytes(10))
    (version / ".tmp-mine").touch()  # no name that this library makes
    make_old(version, 2 * WEEK)
    assert states(data_dir) == {
        old.name: (True, "no owner is known; not changed for long"),
        young.name: (False, "no owner is known; changed lately"),
    }
    assert main(["gc", str(data_dir), "--yes"]) == 0
    assert sorted(path.name for path in version.iterdir()) == [".tmp-mine", "dataset_info.json", "features.json"]
    assert young.exists()


def test_links_are_not_followed(data_dir: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"mine")
    inside = staged(data_dir, owner=None)
    (inside / "link").symlink_to(outside)
    (data_dir / "incomplete.1234_1.0.0").symlink_to(outside)
    (data_dir / f".tmp-{uuid.uuid4().hex}").symlink_to(outside / "precious")
    (data_dir / "linked").symlink_to(outside)
    hidden = staged(outside, owner=None)
    assert set(states(data_dir, older_than=0)) == {inside.name}
    assert main(["gc", str(data_dir), "--yes", "--older_than", "0"]) == 0
    assert not inside.exists()
    assert (outside / "precious").read_bytes() == b"mine"
    assert hidden.exists()
    assert (data_dir / "incomplete.1234_1.0.0").is_symlink()


def test_published_versions_are_not_touched(data_dir: Path) -> None:
    """Whatever their names; and what is in them neither, but for unfinished files."""
    for name in ("incomplete/1.0.0", "ds/incomplete.a_b/1.0.0", "ds/1.0.0"):
        (data_dir / name).mkdir(parents=True)
        for file in ("dataset_info.json", "features.json", "ds-train.tfrecord-00000-of-00001"):
            (data_dir / name / file).touch()
    make_old(data_dir, 2 * WEEK)
    assert find_leftovers(data_dir, older_than=0) == []


def test_what_changed_since_it_was_listed_is_looked_at_again(data_dir: Path) -> None:
    folder = staged(data_dir, owner=None, age=2 * WEEK)
    (leftover,) = find_leftovers(data_dir)
    this_process().write(str(folder))
    assert not remove_leftover(leftover, data_dir)
    assert folder.exists()
    folder.rename(data_dir / "ds" / "1.0.0")  # it was published
    assert not remove_leftover(leftover, data_dir)
    assert (data_dir / "ds" / "1.0.0" / "owner.json").exists()


def test_what_cannot_be_removed_is_reported(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = sorted(staged(data_dir, owner=None, age=2 * WEEK) for _ in range(2))
    remove = storage.remove_tree

    def refuse(path: str) -> None:
        if path == str(first):
            raise StorageError(f"{path}: it is in use")
        remove(path)

    monkeypatch.setattr(storage, "remove_tree", refuse)
    assert main(["gc", str(data_dir), "--yes"]) == 1
    printed = capsys.readouterr()
    assert f"not removed: {first}: it is in use" in printed.err
    assert "1 removed" in printed.out
    assert first.exists()
    assert not second.exists()


@pytest.fixture
def store() -> str:
    pytest.importorskip("obstore")
    return f"memory://{uuid.uuid4().hex}/data"


def reserved(root: str, version: str = "1.0.0", **owner: object) -> publication.Publication:
    """Returns a version that a run has reserved and staged."""
    run = announced(root)
    place = storage.join(root, "ds", version)
    run = dataclasses.replace(run, target=place, owner=dataclasses.replace(run.owner, **owner))
    phases.reserve(run)
    return run


GONE = {"start_ticks": 1}  # a process of this number runs, but it is another one


def test_a_run_that_has_reserved_a_version_of_a_store(store: str, tmp_path: Path) -> None:
    """What a killed build to a store spilled on this machine is found with its reservation, and removed."""
    alive, dead, far = (reserved(store, f"{n}.0.0", **more) for n, more in enumerate([{}, GONE, {"host": "far"}], 1))
    staged_shards(dead)
    found = {leftover.job: leftover for leftover in find_leftovers(store, older_than=0)}
    assert {job: (each.kind, each.abandoned) for job, each in found.items()} == {
        alive.job: ("run", False),
        dead.job: ("run", True),
        far.job: ("run", False),
    }
    assert f"process {os.getpid()} on" in found[dead.job].reason
    assert found[far.job].reason.endswith(f"--abandon {far.job} gives it up")
    assert [remove_leftover(each, store, older_than=0) for each in found.values()] == [False, True, False]
    assert not storage.exists(dead.staging_dir)
    assert storage.exists(far.staging_dir)
    assert remove_leftover(found[far.job], store, by_force=True)
    assert not storage.exists(far.staging_dir)
    left = find_leftovers(store, older_than=0)
    assert [(each.job, each.abandoned) for each in left] == [(alive.job, False), (None, False), (None, False)]
    assert left[-1].reason.startswith("records of runs that were given up")
    assert not remove_leftover(left[-1], store, older_than=0)
    for run in (dead, far):
        with raises_with(AbandonedError, path=run.target, mentions=[run.job, "beam-datasets gc"]):
            phases.publish(run, *staged_shards(run))
    phases.publish(alive, *staged_shards(alive))
    assert catalog.is_published(alive.target)


@pytest.mark.parametrize("by_force", [False, True])
def test_only_the_run_that_was_judged_is_given_up(store: str, monkeypatch: pytest.MonkeyPatch, by_force: bool) -> None:
    """Gc that is suspended does not give up the run that has reserved the version meanwhile."""
    reserved(store, **GONE)
    (found,) = find_leftovers(store)
    judged = leftovers._Search.judge

    def suspended_after(search: object, *what: str) -> object:
        result = judged(search, *what)
        later.append(reserved(store))  # takes the version over from the dead run
        return result

    later: list[publication.Publication] = []
    monkeypatch.setattr(leftovers._Search, "judge", suspended_after)
    remove_leftover(found, store, by_force=by_force)
    phases.publish(later[0], *staged_shards(later[0]))
    assert catalog.is_published(later[0].target)


@pytest.mark.parametrize("owner, finished", [(GONE, True), ({"host": "far"}, False), ({}, False)], ids=str)
def test_a_dead_run_that_has_decided_to_publish_is_finished(store: str, owner: dict, finished: bool) -> None:
    run = reserved(store, **owner)
    phases.decide(run, *staged_shards(run))
    (found,) = find_leftovers(store)
    assert (found.kind, found.abandoned) == ("run", finished)
    assert "decided to publish" in found.reason
    assert remove_leftover(found, store) == finished
    assert catalog.is_published(run.target) == finished
    if not finished:
        assert remove_leftover(found, store, by_force=True)  # it can no longer be given up
    assert catalog.is_published(run.target)
    assert storage.list_dir(storage.join(store, "ds")) == ["1.0.0"]


def test_a_damaged_reservation_hides_nothing_else(store: str) -> None:
    damaged, dead = reserved(store), reserved(store, "2.0.0", **GONE)
    path = storage.join(runs.runs_dir(damaged.target), "00000001.reservation.json")
    storage.write_bytes(path, b"{}")
    found = find_leftovers(store, older_than=0)
    (judged,) = (each for each in found if each.job == dead.job)
    others = [each for each in found if each is not judged]
    assert judged.abandoned
    assert others
    assert not any(each.abandoned for each in others)
    assert all(each.reason.startswith(f"cannot be judged: {path}: expected") for each in others)


def test_a_kept_result_is_named_with_the_command_that_publishes_it(data_dir: Path, store: str) -> None:
    folder = staged(data_dir, owner=None)
    (folder / "manifest.json").write_text("{}")
    remote = f"{store}/ds/incomplete.0123abcd_1.0.0/result"
    storage.write_bytes(f"{remote}/manifest.json", b"{}")
    for root, result in ((data_dir, folder), (store, remote)):
        (found,) = find_leftovers(root)
        assert f"beam-datasets publish {result} --version NUMBER" in found.reason
        assert not found.abandoned


def test_records_that_were_left_beside_a_published_version(store: str) -> None:
    run = reserved(store)
    phases.publish(run, *staged_shards(run))
    storage.write_bytes(storage.join(runs.runs_dir(run.target), "00000001.reservation.json"), run.to_json())
    run.owner.write(run.staging_dir)
    (found,) = find_leftovers(store)
    assert (found.kind, found.abandoned, found.reason) == ("run", True, "records of runs; the version is published")
    assert remove_leftover(found, store)
    assert catalog.is_published(run.target)
    (found,) = find_leftovers(store)
    assert (found.kind, found.abandoned, found.reason) == ("staging", True, f"run {run.job} has published")
    assert remove_leftover(found, store)
    assert find_leftovers(store) == []


def test_the_spilled_payload_of_a_run_that_has_published(data_dir: str) -> None:
    """The launcher of a job was killed, and the job has published; its engine may write late."""
    run = announced(data_dir)
    spilled = f"{run.staging_dir}.spill"
    run = dataclasses.replace(
        run, spill_dir=spilled, owner=dataclasses.replace(run.owner, runner="FlinkRunner", **GONE)
    )
    phases.reserve(run)
    storage.write_bytes(storage.join(spilled, "train.block"), bytes(1000))
    (found,) = find_leftovers(data_dir)
    assert not found.abandoned
    phases.publish(run, *staged_shards(run))
    for folder in (run.staging_dir, spilled):  # late writes
        storage.write_bytes(storage.join(folder, "late.block"), bytes(1000))
    left = find_leftovers(data_dir)
    assert {(each.abandoned, each.reason) for each in left} == {(True, f"run {run.job} has published")}
    report = storage.join(run.target, "run.json")
    content = storage.read_bytes(report)
    for damaged in (b"{", b"[]", b"\xff"):
        storage.write_bytes(report, damaged)
        assert not any(each.reason.endswith("has published") for each in find_leftovers(data_dir))
    storage.write_bytes(report, content)
    for each in left:
        assert remove_leftover(each, data_dir)
    assert not storage.exists(run.staging_dir)
    assert not storage.exists(spilled)
    assert catalog.is_published(run.target)


def test_staged_files_of_a_run_that_has_not_reserved(store: str) -> None:
    """Before they are deleted, the run is given up: it could reserve and decide to publish them in the meantime."""
    run = announced(store)
    run = dataclasses.replace(run, owner=dataclasses.replace(run.owner, **GONE))
    ready = staged_shards(run)
    run.owner.write(run.staging_dir)
    (found,) = find_leftovers(store)
    assert (found.kind, found.abandoned) == ("staging", True)
    assert remove_leftover(found, store)
    assert [each.kind for each in find_leftovers(store) if each.num_bytes > 1000] == []
    with pytest.raises(AbandonedError):
        phases.publish(run, *ready)
    again = reserved(store)
    phases.publish(again, *staged_shards(again))
    assert catalog.is_published(again.target)


def test_what_a_killed_build_to_a_store_spilled_here(store: str, tmp_path: Path) -> None:
    """By itself, in the directory for temporary files, and with the reservation."""
    for way in ("here", "store"):
        spill = tmp_path / f"incomplete.{way}_1.0.0.spill"
        run = announced(f"{store}/{way}")
        owner = dataclasses.replace(run.owner, **GONE)
        phases.reserve(dataclasses.replace(run, spill_dir=str(spill), owner=owner))
        (spill / "train.block").write_bytes(bytes(100))
        place: object = tmp_path if way == "here" else f"{store}/{way}"
        (found,) = find_leftovers(place)
        assert found.abandoned
        assert remove_leftover(found, place)
        assert not spill.exists()


def test_directories_that_were_being_removed(data_dir: Path) -> None:
    """A removal gives a directory a temporary name first."""
    trash = data_dir / "ds" / f".tmp-{uuid.uuid4().hex}"
    (trash / "spill").mkdir(parents=True)
    (trash / "spill" / "block").write_bytes(bytes(100))
    make_old(data_dir, 2 * WEEK)
    (found,) = find_leftovers(data_dir)
    assert (found.kind, found.num_bytes, found.abandoned) == ("temporary", 100, True)
    assert remove_leftover(found, data_dir)
    assert not (data_dir / "ds").exists()


# ------------------------------------------------------------------------------------------------------- the command


def test_what_the_command_prints(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", str(data_dir)]) == 0
    assert capsys.readouterr().out == f"nothing is left over in {data_dir}\n"
    old, used = staged(data_dir, owner=None, age=WEEK + 86400), staged(data_dir, owner=this_process())
    assert main(["gc", str(data_dir)]) == 0
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line for line in printed.splitlines()}
    assert "100 B  8.0 days ago  abandoned: no owner is known; not changed for long" in lines[f"ds/{old.name}"]
    assert f"0 min ago  kept: in use by process {os.getpid()}" in lines[f"ds/{used.name}"]
    assert printed.endswith("1 of 2 abandoned, 100 B; --yes removes them\n")
    assert main(["gc", str(data_dir), "--yes"]) == 0
    assert capsys.readouterr().out.endswith("1 removed, 100 B\n")
    assert [path.name for path in (data_dir / "ds").iterdir()] == [used.name]


@pytest.mark.parametrize(
    "args, code, message",
    [
        (["{}/nowhere"], 1, "directory does not exist"),
        ([], 2, "DATA_DIR"),
        (["{}", "--older_than", "-1"], 2, "--older_than is -1.0"),
        (["{}", "--older_than", "nan"], 2, "expected hours"),
        (["{}", "--older-than", "a week"], 2, "expected a number, such as 0.5, got 'a week'"),
        (["{}", "--dry_run"], 2, "--dry_run"),
    ],
    ids=str,
)
def test_wrong_usage(
    data_dir: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, message: str
) -> None:
    assert main(["gc", *(arg.format(data_dir) for arg in args)]) == code
    assert message in capsys.readouterr().err


def test_no_directory(tmp_path: Path) -> None:
    with raises_with(PathNotFoundError, path=str(tmp_path / "nowhere")):
        find_leftovers(tmp_path / "nowhere")
    with raises_with(ValueError, mentions=["older_than", "-1"]):
        find_leftovers(tmp_path, older_than=-1)


def test_a_worker_that_outlives_its_run_reports_no_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0.01)
    asked = threading.Event()
    with progress.reported(str(tmp_path / "removed"), "train", "1", lambda: asked.set() or (1, 1)):
        asked.wait(0.5)
    assert not list(tmp_path.iterdir())
