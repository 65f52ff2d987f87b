"""Which runner is chosen, and what is refused, classic templates of Dataflow among it."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_datasets as bd
from beam_datasets.beam import Export, Materialize, WriteDataset, publishing
from beam_datasets.engines import engine as engines
from beam_datasets.engines.engine import check_code_is_shared, choose_engine
from beam_datasets.errors import StorageError
from beam_datasets.options import EngineOptions, ShardingOptions
from beam_datasets.publishing.publication import Publication, Workers, announce, choose_spill_dir
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers

CLOUD = ["--project=p", "--region=r", "--temp_location=gs://bucket/temp"]
SERVERS = ["--job_endpoint=localhost:8099", "--environment_type=EXTERNAL", "--environment_config=localhost:50000"]


@pytest.mark.parametrize("runner", ["DirectRunner", "directrunner", "Direct", "fnapirunner", "FnApiRunner", ""])
def test_local_runners_are_known_as_beam_writes_them(runner):
    options = [f"--runner={runner}"] if runner else []
    assert choose_engine(EngineOptions(options, num_workers=1)).local
    with pytest.raises(ValueError, match="multi_threading loses records"):
        choose_engine(EngineOptions([*options, "--direct_running_mode=multi_threading"]))


def test_a_local_run_has_a_worker_for_each_core_that_it_may_use(monkeypatch):
    """The machine may have more cores than the affinity and the control group of this process allow."""
    monkeypatch.setattr(engines, "usable_cores", lambda: 3)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    for num_workers, expected in [(None, 3), (0, 3), (2, 2)]:
        assert choose_engine(EngineOptions(num_workers=num_workers)).num_workers == expected


def test_a_runner_that_beam_does_not_have_is_named():
    with pytest.raises(ValueError, match="runner is 'FlnikRunner'; expected one of .* Did you mean 'FlinkRunner'"):
        choose_engine(EngineOptions(["--runner=FlnikRunner"]))
    with pytest.raises(ValueError, match="Leave it out to run on this machine"):
        choose_engine(EngineOptions(["--runner=local"]))
    assert choose_engine(EngineOptions(["--runner=flink", *CLOUD])).name == "flink"
    assert choose_engine(EngineOptions(["--runner=my.module.OwnRunner"])).name == "my.module.OwnRunner"


@pytest.mark.parametrize("runner", ["FlinkRunner", "PrismRunner", "DataflowRunner", "PortableRunner"])
def test_other_runners_are_not_local(runner):
    assert not choose_engine(EngineOptions([f"--runner={runner}", *CLOUD])).local


@pytest.mark.parametrize(
    "options, spilled",
    [
        ([], True),
        (["--runner=FlinkRunner"], True),
        (["--runner=SparkRunner", *SERVERS], True),
        (["--runner=PortableRunner"], True),
        (["--runner=DataflowRunner"], False),
    ],
)
def test_how_payload_travels(options, spilled):
    engine = choose_engine(EngineOptions([*options, *(CLOUD if not spilled else [])]))
    assert choose_spill_dir(engine, "/data/incomplete", EngineOptions()) == (
        "/data/incomplete.spill" if spilled else None
    )
    if options[:1] in (["--runner=FlinkRunner"], ["--runner=SparkRunner"]):  # which hold bundles in memory
        with pytest.raises(ValueError, match="payload is 'inline'; expected 'spilled' or None for this engine"):
            choose_spill_dir(engine, "/data/incomplete", EngineOptions(payload="inline"))
    else:
        assert choose_spill_dir(engine, "/data/incomplete", EngineOptions(payload="inline")) is None


@pytest.mark.parametrize(
    "option, error",
    [({"payload": "both"}, ValueError), ({"block_size": 0}, ValueError), ({"spill_dir": 3}, TypeError)],
)
def test_transforms_refuse_unusable_options_when_they_are_made(tmp_path, option, error):
    with pytest.raises(error, match=next(iter(option))):
        WriteDataset("n", {"n": np.int64}, data_dir=tmp_path, **option)


def test_the_largest_block_is_one_of_all_records(tmp_path):
    built = [Numbers(data_dir=tmp_path / str(size)).build(num_workers=1, block_size=size) for size in (100, 2**62)]
    assert digests(built[0]) == digests(built[1])


def test_a_worker_that_does_not_see_the_staging_directory(tmp_path):
    publication = announced(tmp_path)
    with pytest.raises(StorageError, match="the launcher has created it, but the worker on .* does not see it"):
        engines._check_launcher(None, publication)
    publication.owner.write(publication.staging_dir)
    engines._check_launcher(None, publication)


def test_the_first_stages_may_run_again_when_the_run_has_published(tmp_path, monkeypatch):
    """An engine that restarts a job as a whole runs every stage again, also after the last one has ended."""
    publication = announced(tmp_path)
    Numbers(data_dir=tmp_path, count=20).build(num_workers=1)
    job = json.loads((tmp_path / "numbers" / "1.0.0" / "run.json").read_text())["job"]
    engines._check_launcher(
        None, dataclasses.replace(publication, owner=dataclasses.replace(publication.owner, job=job))
    )
    with pytest.raises(StorageError, match="does not see it"):
        engines._check_launcher(None, publication)
    monkeypatch.setattr(publishing.phases, "reserve", None)  # is not called
    publishing._reserve(None, SimpleNamespace(is_published=True))


def announced(data_dir: Path) -> Publication:
    """Returns what a run is going to publish."""
    builder = Numbers(data_dir=data_dir, count=20)
    workers = Workers(name="FlinkRunner")
    return announce(builder.info, builder.dataset_dir, workers=workers, sharding=ShardingOptions(), builder="a:B")


def test_a_file_in_a_package_must_be_installed_on_workers(tmp_path):
    elsewhere = ["--runner=PortableRunner", "--environment_type=EXTERNAL", "--environment_config=there:1"]
    path = str(tmp_path / "dataset.py")
    check_code_is_shared(path, elsewhere, shared_disk=False)  # it travels with the job
    (tmp_path / "__init__.py").touch()
    with pytest.raises(ValueError, match="is in a package of this machine"):
        check_code_is_shared(path, elsewhere, shared_disk=False)
    check_code_is_shared(path, elsewhere, shared_disk=True)


def test_the_options_that_were_given_stay_as_they_are():
    options = PipelineOptions(["--direct_running_mode=multi_processing", "--job_name=mine"])
    before = options.get_all_options(drop_default=True)
    engine = choose_engine(EngineOptions(options, num_workers=3))
    assert options.get_all_options(drop_default=True) == before
    assert engine.options.get_all_options(drop_default=True)["job_name"] == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("module, may", [("json", True), ("obstore", False)])
def test_no_fork_once_threads_of_an_object_store_may_run(module, may):
    code = f"import {module}; from beam_datasets.engines.local_runner import can_fork; print(can_fork())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(may and sys.platform == "linux")]


@pytest.mark.parametrize("count", [-1, 1025, 2**70])
def test_no_machine_is_asked_for_so_many_processes(count):
    with pytest.raises(ValueError, match=f"num_workers is {count}; give 1 to 1024 processes, or 0 for one a core"):
        choose_engine(EngineOptions([], num_workers=count))


@pytest.mark.parametrize(
    "given, is_refused",
    [
        ([], True),
        (["--sdk_container_image=image"], False),
        (["--setup_file=./setup.py"], False),
        (["--requirements_file=requirements.txt"], False),
        (["--extra_package=mine.tar.gz"], False),
        (["--runner=PortableRunner"], False),
    ],
)
def test_workers_of_dataflow_need_this_package(given, is_refused):
    """Those of the standard image would fail after minutes."""
    options = PipelineOptions(["--runner=DataflowRunner", *CLOUD, *given])
    if is_refused:
        with pytest.raises(engines.EngineError, match="--sdk_container_image IMAGE .*, or --setup_file"):
            engines.check_installs_package(options)
    else:
        engines.check_installs_package(options)


# Classic templates of Dataflow: all their runs would share an id and a staging directory


CLASSIC = ["--runner=DataflowRunner", *CLOUD, "--template_location=gs://bucket/templates/numbers"]


@pytest.fixture
def source(tmp_path: Path) -> str:
    return Numbers(data_dir=tmp_path / "data", count=20).build(num_workers=1)


def writers(source: str, place: str) -> list[Any]:
    """Returns the jobs that write datasets or exports, as functions of Beam's options."""

    def apply(transform: Any) -> Any:
        def run(options: list[str]) -> None:
            begin = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions(options))  # asks no cloud
            transform(begin)

        return run

    pairs = [(1, {"n": 1})]
    return [
        lambda options: Numbers(data_dir=place, count=20).build(beam_options=options),
        lambda options: bd.materialize(source, split="train", to="few", data_dir=place, beam_options=options),
        lambda options: bd.export(source, f"{place}/out", "jsonl", beam_options=options),
        apply(lambda begin: begin | beam.Create(pairs) | WriteDataset("n", {"n": np.int64}, data_dir=place)),
        apply(lambda begin: begin | Materialize(source, split="train", to="few", data_dir=place, shared_disk=True)),
        apply(lambda begin: begin | Export(source, f"{place}/out", "jsonl", shared_disk=True)),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_classic_template_is_refused(source: str, number: int) -> None:
    """Two runs of one template would be two publishers with one id; the error names the alternative."""
    pytest.importorskip("google.cloud.dataflow")
    with pytest.raises(ValueError, match=r"template_location: expected a job that is run.* Use a Flex Template"):
        writers(source, "memory://templates/data")[number](CLASSIC)
