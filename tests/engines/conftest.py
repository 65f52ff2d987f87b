"""Fixtures of the tests on engines."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import flink_cluster, spark_cluster
from tests.engines.dataflow_service import Cloud, cloud
from tests.engines.jobs import Pool, numbers, own_pool, run
from tests.engines.object_stores import ObjectStore, object_store, use
from tests.servers import job_service


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data_dir of the dataset of numbers as this machine generates it."""
    data_dir = tmp_path_factory.mktemp("local")
    run(*numbers(data_dir))
    return data_dir


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A worker pool, which no test kills."""
    with own_pool(tmp_path_factory.mktemp("pool")) as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options that lead to Beam's job service."""
    with job_service(tmp_path_factory.mktemp("service")) as port:
        yield ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]


@pytest.fixture(scope="session")
def prism() -> list[str]:
    """The options that run pipelines on Prism."""
    if "BEAM_DATASETS_PRISM" not in os.environ:
        pytest.skip("make test-prism builds Prism")
    return ["--runner=PrismRunner", f"--prism_location={os.environ['BEAM_DATASETS_PRISM']}"]


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink_cluster.Cluster]:
    """A Flink cluster with a server of ZooKeeper, so that a JobManager which is started again goes on with its jobs."""
    if os.environ.get("BEAM_DATASETS_FLINK") != "required":
        pytest.skip("make test-flink sets up a Flink cluster")
    with flink_cluster.running(tmp_path_factory.mktemp("flink"), is_highly_available=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(flink: flink_cluster.Cluster) -> flink_cluster.Cluster:
    """The Flink cluster, with one of each server, even if an earlier test killed one or started more."""
    for name in ("jobmanager", "jobs", "workers", "taskmanager"):
        if not flink.running(name):
            flink.restart(name)
    while len(flink.running("taskmanager")) > 1:  # a job may run on one that a test does not kill
        flink.kill("taskmanager")
    flink.await_free_slots()
    return flink


@pytest.fixture(scope="session")
def spark_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[spark_cluster.Cluster]:
    if os.environ.get("BEAM_DATASETS_SPARK") != "required":
        pytest.skip("make test-spark sets up a Spark cluster")
    with spark_cluster.running(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture
def spark(spark_running: spark_cluster.Cluster) -> spark_cluster.Cluster:
    """The Spark cluster, with two workers and a pool even if an earlier test killed one."""
    while len(spark_running.running("worker")) < 2:
        spark_running.start_worker()
    if not spark_running.running("workers"):
        spark_running.start_worker_pool()
    spark_running.await_workers(2)
    return spark_running


@pytest.fixture(scope="module", params=["s3", "gs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A store of each kind; nothing in the environment leads there."""
    with object_store(request.param, tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(scope="module")
def dataflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A Dataflow service that runs no jobs, and stores."""
    pytest.importorskip("google.cloud.dataflow_v1beta3")
    pytest.importorskip("gcp_storage_emulator")
    with cloud(tmp_path_factory.mktemp("cloud")) as there, pytest.MonkeyPatch.context() as patch:
        use(there, patch)
        yield there
