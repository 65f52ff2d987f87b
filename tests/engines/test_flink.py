"""Datasets on a real Flink cluster: the same bytes as here, whatever is killed, and errors where a job would hang.

Run by `make test-flink`, which needs Java and Maven and downloads Flink; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from tests.end_to_end.engines import free_port
from tests.engines import flink_cluster as flink
from tests.engines.jobs import (
    NUMBERS,
    ROOT,
    WITHOUT_BEAM,
    await_a_shard,
    await_spilled,
    end,
    fails,
    nothing_is_left,
    numbers,
    pool_of,
    run,
    slices,
    start,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if os.environ.get("BEAM_DATASETS_FLINK") != "required":
    pytest.skip("make test-flink sets up a Flink cluster", allow_module_level=True)


BLOBS = str(ROOT / "tests" / "engines" / "blobs_dataset.py")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.Cluster]:
    with flink.running(tmp_path_factory.mktemp("flink")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: flink.Cluster) -> flink.Cluster:
    """The cluster, with a TaskManager and a pool, whatever a test before has killed."""
    if not running.running("taskmanager"):
        running.start_task_manager()
    if not running.running("workers"):
        running.start_worker_pool()
    running.await_task_managers(1)
    return running


@pytest.mark.parametrize("payload", ["spilled", "inline"])
def test_generates_the_same_bytes(cluster: flink.Cluster, local: Path, tmp_path: Path, payload: str) -> None:
    run(*numbers(tmp_path, "--payload", payload, *cluster.options()))
    assert "--parallelism=2" in cluster.options()
    assert version(tmp_path) == version(local)


@pytest.mark.parametrize("how", [(), ("--reshuffle", "salt")], ids=["kept", "reshuffled"])
def test_materializes_the_same_bytes(cluster: flink.Cluster, local: Path, tmp_path: Path, how: Sequence[str]) -> None:
    run(*slices(local, tmp_path / "flink", *how, *cluster.options()))
    run(*slices(local, tmp_path / "local", *how))
    assert version(tmp_path / "flink", "some") == version(tmp_path / "local", "some")


def test_records_of_20_megabytes(cluster: flink.Cluster, tmp_path: Path) -> None:
    run("build", BLOBS, "--data_dir", str(tmp_path / "flink"), *cluster.options())
    run("build", BLOBS, "--data_dir", str(tmp_path / "local"))
    assert version(tmp_path / "flink", "blobs") == version(tmp_path / "local", "blobs")


@pytest.mark.parametrize("victim", ["taskmanager", "workers"])
def test_killed_while_it_writes(cluster: flink.Cluster, local: Path, tmp_path: Path, victim: str) -> None:
    process = start(*numbers(tmp_path, *cluster.options()))
    try:
        await_a_shard(process, tmp_path)
        cluster.running(victim)[-1].signal(signal.SIGKILL)
        assert not (tmp_path / "numbers" / "1.0.0").exists()
        {"taskmanager": cluster.start_task_manager, "workers": cluster.start_worker_pool}[victim]()
    finally:
        code, told = end(process)
    if code != 0:
        assert nothing_is_left(tmp_path), told
        cluster.await_task_managers(1)
        run(*numbers(tmp_path, *cluster.options()))
    assert version(tmp_path) == version(local)


def test_interrupted(cluster: flink.Cluster, tmp_path: Path) -> None:
    process = start(*numbers(tmp_path, *cluster.options(), "--count=2000000"))  # long enough to be cancelled in time
    try:
        await_spilled(process, tmp_path)
        process.send_signal(signal.SIGINT)
    finally:
        code, told = end(process)
    assert code == 130, told
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    assert cluster.overview()["jobs-running"] == 0
    assert cluster.overview()["jobs-cancelled"] > 0


def test_no_pool(cluster: flink.Cluster, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    told = fails(tmp_path / "data", *cluster.options(), f"--environment_config={address}")
    assert f"found no worker pool at {address}" in told


def test_a_pool_whose_python_has_no_beam(cluster: flink.Cluster, tmp_path: Path) -> None:
    with pool_of(WITHOUT_BEAM, tmp_path) as address:
        told = fails(
            tmp_path / "data", *cluster.options(), f"--environment_config={address}", "--worker_start_seconds=15"
        )
    assert "did not bring up a worker within 15 s" in told
    assert "No module named 'apache_beam'" in (tmp_path / "pool.log").read_text()


def test_a_pool_whose_python_has_not_the_project(cluster: flink.Cluster, tmp_path: Path) -> None:
    hiding = tmp_path / "hiding" / "beam_datasets"
    hiding.mkdir(parents=True)
    (hiding / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'beam_datasets'\")\n")
    python = f'cd {hiding.parent} && PYTHONPATH={hiding.parent} exec {sys.executable} "$@"'
    with pool_of(python, tmp_path) as address:
        told = fails(tmp_path / "data", *cluster.options(), f"--environment_config={address}")
    assert "No module named 'beam_datasets'" in told
    assert "Workers need this project" in told


def test_the_authors_error(cluster: flink.Cluster, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    text = Path(NUMBERS).read_text().replace('yield f"{split}-{i}"', 'yield f"{split}-{i // 2}"')
    file.write_text(text)
    code, told = end(start("build", str(file), "--data_dir", str(tmp_path / "data"), *cluster.options()))
    assert code == 1
    assert "Traceback" not in told, told
    assert "have the same key" in told or "duplicate" in told.lower(), told
    assert nothing_is_left(tmp_path / "data")


def refused(*arguments: Any) -> str:
    code, told = end(start("build", "digits", *map(str, arguments)))
    assert code != 0
    assert "Traceback" not in told, told
    return told


def test_refused_before_a_job(cluster: flink.Cluster, tmp_path: Path) -> None:
    before = sum(cluster.overview()[state] for state in ("jobs-running", "jobs-finished", "jobs-failed"))
    here = [option for option in cluster.options() if not option.startswith("--environment")]
    assert "--environment_type=EXTERNAL" in refused("--data_dir", tmp_path, *here)
    nobody = f"--flink_master=127.0.0.1:{free_port()}"
    assert "no Flink JobManager answers" in refused("--data_dir", tmp_path, *cluster.options(), nobody)
    elsewhere = "--environment_config=somewhere:50000"
    assert "cannot see" in refused("--data_dir", tmp_path, *cluster.options(), elsewhere)
    own_server = [
        option for option in cluster.options() if not option.startswith(("--job_endpoint", "--flink_version"))
    ]
    assert "--flink_version=1.19" in refused("--data_dir", tmp_path, *own_server)
    after = sum(cluster.overview()[state] for state in ("jobs-running", "jobs-finished", "jobs-failed"))
    assert before == after
    assert nothing_is_left(tmp_path)


KUBERNETES = ROOT / "templates" / "flink" / "kubernetes"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schema of a FlinkDeployment, out of the operator's own package."""
    folder = tmp_path_factory.mktemp("operator")
    artifact = "-Dartifact=org.apache.flink:flink-kubernetes-operator-api:1.10.0"
    copy = ["mvn", "--quiet", "--batch-mode", "dependency:copy", artifact, f"-DoutputDirectory={folder}"]
    subprocess.run(copy, check=True, cwd=folder)
    [package] = folder.glob("*.jar")
    with zipfile.ZipFile(package) as jar:
        definition = yaml.safe_load(jar.read("META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"))
    [version] = definition["spec"]["versions"]
    return closed(version["schema"]["openAPIV3Schema"])


def closed(schema: Any) -> Any:
    """Returns a schema that takes no fields but those that it names, so that a misspelt one is found."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(part) for name, part in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def test_the_deployment_is_what_the_operator_takes(schema: dict[str, Any]) -> None:
    deployment = yaml.safe_load((KUBERNETES / "flink-deployment.yaml").read_text())
    schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {}}
    jsonschema.validate(deployment, schema)
    deployment["spec"]["taskManager"]["podTemplate"]["spec"]["containers"][1]["comand"] = []
    with pytest.raises(jsonschema.ValidationError, match="'comand' was unexpected"):
        jsonschema.validate(deployment, schema)


def test_the_launcher_fits_the_deployment() -> None:
    deployment = yaml.safe_load((KUBERNETES / "flink-deployment.yaml").read_text())
    job = yaml.safe_load((KUBERNETES / "generate-job.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    [server], [launcher] = pod["initContainers"], pod["containers"]
    options = dict(part.removeprefix("--").split("=") for part in launcher["command"] if "=" in part)
    [_, workers] = deployment["spec"]["taskManager"]["podTemplate"]["spec"]["containers"]
    assert options["environment_config"] == f"localhost:{workers['command'][-1]}"
    assert options["flink_master"] == f"{deployment['metadata']['name']}-rest:8081"
    assert f"--flink-master={options['flink_master']}" in server["command"]
    assert f"--job-port={options['job_endpoint'].rpartition(':')[2]}" in server["command"]
    assert options["flink_version"] == deployment["spec"]["flinkVersion"][1:].replace("_", ".")
    slots = int(deployment["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"])
    assert int(options["sdk_worker_parallelism"]) == slots
    assert int(options["parallelism"]) == slots * deployment["spec"]["taskManager"]["replicas"]
    assert workers["volumeMounts"] == launcher["volumeMounts"]
