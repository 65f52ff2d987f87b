"""Commands around a version that is not published yet: refused, held by a run, decided but not finished."""

import dataclasses
import uuid

import pytest

from beam_datasets import catalog, storage
from beam_datasets.cli.main import main
from beam_datasets.errors import AlreadyPublishedError, ResultKeptError
from beam_datasets.publishing import leftovers, phases
from tests.beam.squares import builder
from tests.end_to_end.numbers_dataset import Numbers
from tests.publishing.publications import announced, staged

pytest.importorskip("obstore")
BUILD = f"{Numbers.__module__}:Numbers"


@pytest.fixture
def store():
    return f"memory://{uuid.uuid4().hex}/data"


def held(store, *, name="numbers", decided=False):
    """Returns a version that a run of another machine has reserved, and decided to publish if asked for."""
    run = announced(store)
    owner = dataclasses.replace(run.owner, host="far", runner="FlinkRunner")
    run = dataclasses.replace(run, target=storage.join(store, name, "1.0.0"), owner=owner)
    phases.reserve(run)
    if decided:
        phases.decide(run, *staged(run))
    return run


def test_a_build_is_refused_when_it_starts(store, capsys):
    run = held(store)
    command = ["build", BUILD, "--count", "50", "--data_dir", store, "--num_workers", "1"]
    for more in ([], ["--skip_published"]):
        assert main([*command, *more]) == 1
        assert f"run {run.job} (process" in (said := capsys.readouterr().err)
        assert f"gc {store}/numbers --abandon {run.job}" in said
    assert main(["gc", store, "--yes", "--older_than", "0"]) == 0
    assert "1 of 1 abandoned" not in (said := capsys.readouterr().out)
    assert f"kept: reserved by run {run.job}; of process" in said
    assert main(["gc", store, "--abandon", "another"]) == 2
    assert f"got another; {run.job}" in capsys.readouterr().err
    assert main(["gc", store, "--abandon", run.job]) == 0
    assert capsys.readouterr().out.endswith(f"run {run.job} is given up\n")
    assert main(command) == 0
    assert catalog.is_published(f"{store}/numbers/1.0.0")


def test_a_run_that_had_decided_is_finished_by_a_build(store, capsys):
    command = ["build", BUILD, "--count", "50", "--data_dir", store, "--num_workers", "1"]
    held(store, decided=True)
    assert main([*command, "--skip_published"]) == 0
    assert "put in place now; the version is published" in capsys.readouterr().out
    assert main(command) == 1  # without --skip_published


def test_a_run_that_had_decided_is_finished_by_gc(store, capsys):
    run = held(store, decided=True)
    assert main(["gc", store, "--abandon", run.job]) == 0
    assert capsys.readouterr().out.endswith(f"run {run.job} is finished\n")
    assert storage.list_dir(f"{store}/numbers") == ["1.0.0"]


def test_what_gc_reports_is_what_came_of_it(store, monkeypatch, capsys):
    """The run decides, or ends, between the listing and the removal."""
    run = held(store)
    listed = leftovers.find_leftovers(store)
    monkeypatch.setattr("beam_datasets.cli.history.find_leftovers", lambda *_, **__: listed)
    phases.decide(run, *staged(run))
    assert main(["gc", store, "--abandon", run.job]) == 0
    assert capsys.readouterr().out.endswith(f"run {run.job} is finished\n")
    assert main(["gc", store, "--abandon", run.job]) == 0
    assert capsys.readouterr().out.endswith(f"run {run.job} is gone\n")


def test_preparing_takes_what_another_run_has_published_meanwhile(store):
    held(store, decided=True)
    numbers = Numbers(data_dir=store, count=50)
    numbers.download_and_prepare(num_workers=1)
    assert numbers.is_prepared()
    held(store + "2")
    with pytest.raises(AlreadyPublishedError, match="has reserved it"):
        Numbers(data_dir=store + "2", count=50).download_and_prepare(num_workers=1)


@pytest.mark.parametrize("remote", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["disk", "store"])
def test_a_refused_result_is_published_under_another_number(tmp_path, store, remote, capsys):
    """By the command that the error contains."""
    data_dir = store if remote else tmp_path / "data"
    builder("1.0.0", data_dir).build(num_workers=1)
    with pytest.raises(ResultKeptError) as error:
        builder("1.0.1", data_dir, range(19)).build(num_workers=1, check_against="latest")
    assert main(["gc", str(data_dir), "--yes"]) == 0
    assert "publishes it; no owner is known; changed lately" in capsys.readouterr().out
    arguments = str(error.value).rpartition("beam-datasets ")[2].split()
    assert main([*arguments[:-1], "first"]) == 2
    assert main([*arguments[:-1], "1.0.0"]) == 1
    assert "already published" in capsys.readouterr().err
    for too_low in ("1.0.1", "1.9.0"):
        assert main([*arguments[:-1], too_low]) == 1
        assert f"expected version 2.0.0 or higher, as the result differs from 1.0.0, got {too_low}" in (
            capsys.readouterr().err
        )
    assert main(arguments) == 0
    directory = storage.join(str(data_dir), "squares", "small", "2.0.0")
    assert capsys.readouterr().out == f"Published in {directory}\n"
    names = storage.list_dir(storage.dirname(directory))
    assert [name for name in names if not name.startswith("incomplete.runs.")] == ["1.0.0", "2.0.0"]
    assert main(["verify", directory, "--decode"]) == 0
    assert main(["gc", str(data_dir)]) == 0
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "expected a result that was kept" in error
    assert "`beam-datasets gc DATA_DIR` lists" in error
    built = builder("2.0.0", tmp_path / "again", range(19)).build(num_workers=1)
    for name in storage.list_dir(built):
        if name != "run.json":
            assert storage.read_bytes(f"{directory}/{name}") == storage.read_bytes(f"{built}/{name}"), name


def test_a_file_system_of_fsspec_is_refused_at_the_start(tmp_path, capsys):
    """Two publishers could win there; reading stays possible."""
    data_dir = f"local://{tmp_path}/data"
    assert main(["build", BUILD, "--count", "50", "--data_dir", data_dir, "--num_workers", "1"]) == 1
    assert f"{data_dir}/numbers/1.0.0: expected a local path or an object store" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    Numbers(data_dir=tmp_path / "data", count=50).build(num_workers=1)
    assert main(["verify", f"{data_dir}/numbers/1.0.0"]) == 0
