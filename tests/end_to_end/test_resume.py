"""A failed or killed run that is started again with --resume: same bytes, and little is done twice."""

import contextlib
import copy
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import storage
from beam_datasets.downloads import DownloadSettings
from beam_datasets.engines import engine
from beam_datasets.errors import AlreadyPublishedError, BeamDatasetsError, ResumeError, StorageError
from beam_datasets.publishing import groups, phases
from beam_datasets.publishing.fingerprints import fingerprint
from beam_datasets.publishing.leftovers import find_leftovers
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.resume import Resumable, command_to_resume
from tests.cases import repeated
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers
from tests.end_to_end.own_connectors import Grade, Money
from tests.end_to_end.units_dataset import EXAMPLES, FILES, Units, write_sources
from tests.processes import kill, started

ROOT = Path(__file__).parents[2]
OPTIONS = {"num_workers": 1, "block_size": 1000, "num_shards": 2}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("UNITS_LOG", str(tmp_path / "log"))
    return write_sources(tmp_path / "sources")


def finished(tmp_path: Path) -> list[str]:
    """Returns the files that were read to their ends, by all attempts; forgets them."""
    log = tmp_path / "log"
    names = [Path(line).name for line in log.read_text().splitlines()] if log.exists() else []
    log.unlink(missing_ok=True)
    return names


def fail(builder: Units, monkeypatch: pytest.MonkeyPatch, bad: int = 12, **options: object) -> BeamDatasetsError:
    """Runs a build that fails in the file of this number."""
    monkeypatch.setenv("UNITS_BAD", f"{bad}.txt")
    with pytest.raises(BeamDatasetsError, match="a bad record") as caught:
        builder.build(**OPTIONS | options)
    monkeypatch.delenv("UNITS_BAD")
    return caught.value


@pytest.mark.slow
def test_a_bad_record_is_mended_and_the_run_continues(tmp_path, paths, monkeypatch):
    whole = Units(data_dir=tmp_path / "whole", paths=paths).build(**OPTIONS)
    assert sorted(finished(tmp_path)) == [Path(path).name for path in paths]
    builder = Units(data_dir=tmp_path / "data", paths=paths)
    error = fail(builder, monkeypatch, resume=True)
    assert "To continue: the same command with --resume" in error.__notes__[0]
    [left] = find_leftovers(tmp_path / "data", older_than=0)
    assert "finished units, which are reused by" in left.reason
    first = finished(tmp_path)
    directory = builder.build(**OPTIONS, resume=True)
    second = finished(tmp_path)
    assert digests(directory) == digests(whole)
    assert len(first) >= 10
    assert sorted(first + second) == [Path(path).name for path in paths]
    [job] = json.loads(Path(directory, "run.json").read_text())["resumed"]
    assert job in left.path
    assert os.listdir(tmp_path / "data" / "units") == ["1.0.0"]


def test_a_version_that_another_run_has_published_is_not_continued(tmp_path, paths, monkeypatch):
    """Its finished units are of no more use, and the same command would fail again."""
    whole = Units(data_dir=tmp_path / "whole", paths=paths).build(**OPTIONS)
    builder, rename = Units(data_dir=tmp_path / "data", paths=paths), storage.rename_dir

    def rename_too_late(source: str, target: str) -> None:
        if not Path(builder.dataset_dir).exists():
            shutil.copytree(whole, builder.dataset_dir)
        rename(source, target)

    monkeypatch.setattr(storage, "rename_dir", rename_too_late)
    with pytest.raises(AlreadyPublishedError) as caught:
        builder.build(**OPTIONS, resume=True)
    assert not hasattr(caught.value, "__notes__")
    assert os.listdir(tmp_path / "data" / "units") == ["1.0.0"]


def test_a_slow_unit_is_kept_as_soon_as_it_is_finished(tmp_path, paths, monkeypatch):
    """It may be the only one that is finished within the 30 s between two checkpoints."""
    monkeypatch.setattr("beam_datasets.beam.encode.SLOW_UNIT_SECONDS", 0.0)
    builder = Units(data_dir=tmp_path / "data", paths=paths)
    fail(builder, monkeypatch, resume=True, block_size=1 << 20)
    first = finished(tmp_path)
    builder.build(**OPTIONS | {"block_size": 1 << 20}, resume=True)
    assert len(first) >= 10
    assert sorted(first + finished(tmp_path)) == [Path(path).name for path in paths]


@pytest.mark.slow
def test_all_that_is_needed_stays_until_the_job_has_ended(tmp_path, paths, monkeypatch):
    whole = Units(data_dir=tmp_path / "whole", paths=paths).build(**OPTIONS)
    finished(tmp_path)
    builder = Units(data_dir=tmp_path / "data", paths=paths)
    folder, publish = Path(builder.dataset_dir).parent, phases.publish

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("beam_datasets.storage.rename_dir", fail)
        with pytest.raises(BeamDatasetsError, match="the disk is full"):
            builder.build(**OPTIONS, resume=True)
    assert len(finished(tmp_path)) == len(paths)
    earlier = set(folder.glob("*.spill/*.block"))

    def publish_twice(publication: Publication, *rest: Any) -> str:
        publish(publication, *rest)
        assert Path(builder.dataset_dir).is_dir()
        assert earlier == set(folder.glob("*.spill/*.block")), "an engine may read them again"
        return publish(publication, *rest)

    monkeypatch.setattr(phases, "publish", publish_twice)
    assert digests(builder.build(**OPTIONS, resume=True)) == digests(whole)
    assert not finished(tmp_path)
    assert os.listdir(folder) == ["1.0.0"]


def test_without_the_option_a_short_run_leaves_nothing(tmp_path, paths, monkeypatch):
    fail(Units(data_dir=tmp_path / "data", paths=paths), monkeypatch)
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    monkeypatch.setattr("beam_datasets.publishing.resume.KEEP_SECONDS", 0)
    fail(Units(data_dir=tmp_path / "data", paths=paths), monkeypatch)
    assert list((tmp_path / "data").rglob("*.units.json"))


def test_a_changed_builder_is_refused_unless_its_units_stay_valid(tmp_path, paths, monkeypatch):
    fail(Units(data_dir=tmp_path, paths=paths), monkeypatch, resume=True)
    first = finished(tmp_path)
    changed = Units(data_dir=tmp_path, paths=paths, scale=2)
    with pytest.raises(ResumeError, match=r"argument scale: 1 -> 2\nIf its finished units are valid .*--resume chang"):
        changed.build(**OPTIONS, resume=True)
    fail(changed, monkeypatch, bad=17, resume="changed")
    changed.build(**OPTIONS, resume=True)  # a run with this code has accepted them
    assert sorted(first + finished(tmp_path)) == [Path(path).name for path in paths]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "damage", ["payload", *(pytest.param(kind, marks=SLOW) for kind in ("keys", "cut", "gone", "record"))]
)
@pytest.mark.slow
def test_damaged_units_are_encoded_again(tmp_path, paths, monkeypatch, damage):
    whole = Units(data_dir=tmp_path / "whole", paths=paths).build(**OPTIONS)
    builder = Units(data_dir=tmp_path / "data", paths=paths)
    fail(builder, monkeypatch, resume=True)
    finished(tmp_path)
    [checkpoint, *_] = sorted((tmp_path / "data").rglob("*.units.json"))
    facts = json.loads(checkpoint.read_text())
    block = checkpoint.parent / facts["blocks"][0]["path"]
    data = bytearray(block.read_bytes())
    if damage == "gone":
        block.unlink()
    elif damage == "record":
        checkpoint.write_text("{")
    else:
        data[{"payload": -5, "keys": 3, "cut": 0}[damage]] ^= 1
        block.write_bytes(data[: -1 if damage == "cut" else None])
    directory = builder.build(**OPTIONS, resume=True)
    again = [text.split(": ")[1].strip("'") for text in facts["units"]]
    assert {Path(path).name for path in again} < set(finished(tmp_path))
    assert digests(directory) == digests(whole)


@pytest.mark.parametrize(
    "kind, damage",
    [
        (Units, None),
        (Numbers, None),
        (Units, "shard"),
        *(pytest.param(Units, damage, marks=SLOW) for damage in ("index", "record")),
    ],
)
def test_staged_shards_are_reused_after_their_checksums_are_verified(tmp_path, paths, monkeypatch, kind, damage):
    given = {"paths": paths} if kind is Units else {"count": 300}
    options = {**OPTIONS, "num_shards": 3}
    whole = kind(data_dir=tmp_path / "whole", **given).build(**options)
    builder = kind(data_dir=tmp_path / "data", **given)

    def fail(*_: object) -> None:
        raise BeamDatasetsError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("beam_datasets.publishing.phases.publish", fail)
        with pytest.raises(BeamDatasetsError, match="the disk is full"):
            builder.build(**options, resume=True)
    suffix = {None: None, "shard": ".tfrecord-0000?-of-00003", "index": ".index", "record": ".shards.json"}[damage]
    for path in (tmp_path / "data").rglob(f"*{suffix}"):
        data = path.read_bytes()
        path.write_bytes(data[:-20] + b"!" + data[-19:])
    written: list[object] = []
    write = groups.write_group
    monkeypatch.setattr(groups, "write_group", lambda group, *rest: written.append(group) or write(group, *rest))
    assert digests(builder.build(**options, resume=True)) == digests(whole)
    assert len(written) == (6 if damage or kind is Numbers else 0)  # Numbers has a split of Beam, which may change
    assert os.listdir(builder.dataset_dir + "/..") == ["1.0.0"]


@pytest.mark.slow
def test_generators_and_free_pipelines(tmp_path):
    whole = Numbers(data_dir=tmp_path / "whole", count=400).build(num_workers=1)
    builder = Numbers(data_dir=tmp_path / "data", count=400)
    with pytest.raises(BeamDatasetsError, match="too few for 1000 shards"):
        builder.build(num_workers=1, resume=True, num_shards=1000)
    [checkpoint] = (tmp_path / "data").rglob("*.units.json")
    assert json.loads(checkpoint.read_text())["units"] == ["test: 'all'"]
    assert digests(builder.build(num_workers=1, resume=True)) == digests(whole)


def test_usage(tmp_path, paths):
    builder = Units(data_dir=tmp_path, paths=paths)
    with pytest.raises(ValueError, match="resume needs payload='spilled'"):
        builder.build(resume=True, payload="inline")
    with pytest.raises(BeamDatasetsError, match="expected units that differ in their repr, got 2 such"):
        Units(data_dir=tmp_path, paths=[*paths, paths[0]]).build(num_workers=1)
    assert Path(builder.build(**OPTIONS, resume=True)).is_dir()  # nothing to resume: a run like any other


def test_an_engine_that_runs_a_bundle_again_reuses_what_the_attempt_before_has_finished(tmp_path, paths, monkeypatch):
    whole = Units(data_dir=tmp_path / "whole", paths=paths).build(**OPTIONS)
    builder = Units(data_dir=tmp_path / "data", paths=paths)
    finished(tmp_path)
    fail(builder, monkeypatch, resume=True)
    first = finished(tmp_path)
    [earlier] = {path.parent for path in (tmp_path / "data").rglob("*.units.json")}
    save = Resumable.save

    def save_beside_an_attempt(self, spill_dir):
        save(self, spill_dir)
        for path in [*earlier.glob("*.block"), *earlier.glob("*.units.json")]:
            shutil.copy(path, spill_dir)

    monkeypatch.setattr(Resumable, "save", save_beside_an_attempt)
    choose = engine.choose_engine
    monkeypatch.setattr(engine, "choose_engine", lambda options: replace(choose(options), buffers_bundles=True))
    directory = builder.build(**OPTIONS)
    assert 0 < len(first) < FILES
    assert sorted(first + finished(tmp_path)) == [Path(path).name for path in paths]
    assert digests(directory) == digests(whole)


SCRIPT = """
import sys
from tests.end_to_end.own_connectors import Grade, Money
from tests.end_to_end.units_dataset import Units
Units(data_dir=sys.argv[1], paths=sys.argv[2:]).build(num_workers=2, block_size=1000, num_shards=2, resume=True)
"""


@pytest.mark.slow
def test_kills_at_random_moments(tmp_path, paths):
    """Kills launcher and workers of run after run, until as many kills are reached (two, times $BEAM_DATASETS_SCALE).

    The work of all attempts is counted by example, so that of files that were not read to their ends counts as well.
    """
    kills = repeated(2)
    chosen = random.Random(int(os.environ.get("KILL_SEED", kills)))
    log = tmp_path / "examples"
    environment = os.environ | {"UNITS_DELAY": "0.4", "UNITS_EXAMPLES": str(log)}
    command, began = [sys.executable, "-c", SCRIPT], time.monotonic()
    subprocess.run([*command, tmp_path / "whole", *paths], cwd=ROOT, env=environment, check=True)
    seconds = time.monotonic() - began
    log.unlink()
    killed = runs = 0
    while killed < kills:
        runs += 1
        data_dir = tmp_path / f"run{runs}"
        while not (data_dir / "units" / "1.0.0").exists():
            with started([*command, data_dir, *paths], cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    after = seconds * chosen.uniform(0.2, 1)
                    _, error = process.communicate(timeout=after if killed < kills else 10 * seconds)
                    assert process.returncode == 0, error.decode()
                    continue
                kill(process)
                killed += 1
        assert digests(data_dir / "units" / "1.0.0") == digests(tmp_path / "whole" / "units" / "1.0.0")
    work = len(log.read_text().splitlines()) / (FILES * EXAMPLES * runs)
    print(f"{killed} kills of {runs} runs: {work:.3f} times the work of uninterrupted ones")
    assert work <= 1.3


@pytest.mark.parametrize(
    "one, other",
    [(np.arange(3), np.arange(4)), (re.compile("a"), re.compile("b")), ([np.zeros(1)], [np.ones(1)]), (len, max)],
    ids=["array", "pattern", "nested", "function"],
)
def test_arguments_of_any_kind_are_compared(tmp_path, paths, one, other):
    def of(argument):
        builder = Units(data_dir=tmp_path, paths=paths)
        builder.argument = argument
        return fingerprint(builder)

    assert of(one) == of(copy.deepcopy(one)) != of(other)
    assert of(threading.Lock()) != of(threading.Lock())  # of which nobody knows whether it is the same


@dataclasses.dataclass
class Login:
    """Credentials, as an argument of a builder."""

    password: str
    user: str = "me"


@pytest.mark.parametrize(
    "name, one, other",
    [
        ("url", "http://me:SECRET-1@host/x", "http://me:SECRET-2@host/x"),
        ("_api_token", "SECRET-1", "SECRET-2"),
        ("storage_options", {"key": "SECRET-1"}, {"key": "SECRET-2"}),
        ("options", {"s3": [{"apiToken": "SECRET-1", "region": "eu"}]}, {"s3": [{"apiToken": "SECRET-2"}]}),
        ("client", Login(password="SECRET-1"), Login(password="SECRET-2")),
        ("headers", [("Authorization", "SECRET-1")], [("Authorization", "SECRET-2")]),
    ],
)
def test_arguments_are_compared_without_their_secrets(tmp_path, paths, name, one, other):
    """resume.json is left on the disk if the run is killed."""

    def of(value):
        builder = Units(data_dir=tmp_path, paths=paths)
        setattr(builder, name, value)
        return fingerprint(builder)

    assert of(one) == of(one) != of(other)
    assert "SECRET" not in str(of(one))


def test_a_command_with_a_password_is_not_kept(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/beam-datasets", "build", "x", "--url", "http://host/x"])
    assert command_to_resume() == "beam-datasets build x --url http://host/x --resume"
    monkeypatch.setattr("sys.argv", ["/bin/beam-datasets", "build", "x", "--url", "http://me:pass@host/x"])
    assert command_to_resume() is None


class MoneyOfAnother(Money):
    """A connector with an attribute that is a connector itself."""

    connector = F.Text()


@pytest.mark.parametrize("feature", [Money(), F.Sequence(Money()), {"of": Grade(num_classes=2)}, MoneyOfAnother()])
def test_the_code_of_connectors_is_compared(tmp_path, paths, feature):
    class Own(Units, skip_registration=True):
        def _info(self):
            return bd.DatasetInfo(builder=self, features={"own": feature})

    assert f"code of {Money.__module__}" in fingerprint(Own(data_dir=tmp_path, paths=paths))
    assert f"code of {Money.__module__}" not in fingerprint(Units(data_dir=tmp_path, paths=paths))


def test_where_downloads_are_does_not_matter(tmp_path, paths):
    builder = Units(data_dir=tmp_path, paths=paths)
    before = fingerprint(builder)
    builder.use_downloads(DownloadSettings(tmp_path / "elsewhere"))
    assert fingerprint(builder) == before


def test_how_the_version_was_requested_does_not_matter(tmp_path, paths):
    builder = Units(data_dir=tmp_path, paths=paths)
    before = fingerprint(builder)
    builder.requested_version = str(builder.version)
    assert fingerprint(builder) == before
