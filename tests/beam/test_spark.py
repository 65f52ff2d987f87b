"""What is checked before a job on Spark; `tests/engines/test_spark.py` runs jobs."""

import contextlib
from concurrent import futures
from typing import Any

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from beam_datasets.engines import spark
from beam_datasets.engines.checks import EngineError
from beam_datasets.engines.engine import check_paths_are_shared, choose_engine
from beam_datasets.options import EngineOptions

JOBS = "--job_endpoint=localhost:8099"
POOL = ["--environment_type=EXTERNAL", "--environment_config=localhost:50000"]


def test_no_job_server() -> None:
    with pytest.raises(ValueError, match="job_endpoint: expected the address of Beam.s job server, got none"):
        choose_engine(EngineOptions(["--runner=SparkRunner", "--spark_master_url=spark://localhost:7077", *POOL]))


def test_no_environment() -> None:
    with pytest.raises(ValueError, match="--environment_type=EXTERNAL --environment_config=localhost:50000"):
        choose_engine(EngineOptions(["--runner=SparkRunner", JOBS]))


def test_options_are_completed() -> None:
    engine = choose_engine(EngineOptions(["--runner=SparkRunner", JOBS, *POOL]))
    assert engine.options.view_as(PortableOptions).environment_cache_millis == spark.CACHE_MILLIS
    given = choose_engine(EngineOptions(["--runner=SparkRunner", JOBS, *POOL, "--environment_cache_millis=5"]))
    assert given.options.view_as(PortableOptions).environment_cache_millis == "5"  # as Beam has it


@pytest.mark.parametrize("master", ["", "local[4]", "spark://master:7077", "yarn"])
def test_the_address_of_a_pool_is_that_of_the_executors(master: str) -> None:
    options = ["--runner=SparkRunner", JOBS, *POOL, *([f"--spark_master_url={master}"] if master else [])]
    with pytest.raises(ValueError, match="workers of SparkRunner cannot see"):
        check_paths_are_shared(choose_engine(EngineOptions(options)), {"data_dir": "/data"})
    check_paths_are_shared(choose_engine(EngineOptions(options, shared_disk=True)), {"data_dir": "/data"})


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_master_on_loopback_has_all_workers_here(host: str) -> None:
    options = ["--runner=SparkRunner", JOBS, *POOL, f"--spark_master_url=spark://{host}:7077"]
    check_paths_are_shared(choose_engine(EngineOptions(options)), {"data_dir": "/data"})


class JobServer(beam_job_api_pb2_grpc.JobServiceServicer):
    """Knows of one job."""

    def __init__(self, state: int) -> None:
        self.state = state

    def GetJobs(self, request: Any, context: Any) -> Any:
        job = beam_job_api_pb2.JobInfo(job_id="1", job_name="numbers-1", state=self.state)  # type: ignore[arg-type]
        return beam_job_api_pb2.GetJobsResponse(job_info=[job])


@pytest.mark.parametrize("state", ["RUNNING", "STARTING", "DONE", "FAILED"])
def test_one_job_at_a_time(state: str) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    servicer = JobServer(beam_job_api_pb2.JobState.Enum.Value(state))
    beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(servicer, server)
    endpoint = f"localhost:{server.add_insecure_port('localhost:0')}"
    server.start()
    try:
        options = PipelineOptions(["--runner=SparkRunner", f"--job_endpoint={endpoint}"])
        active = state in ("RUNNING", "STARTING")
        with pytest.raises(EngineError, match="got numbers-1, which runs") if active else contextlib.nullcontext():
            spark.check_job_server_is_idle(options)
        spark.check_job_server_is_idle(PipelineOptions(["--runner=FlinkRunner", f"--job_endpoint={endpoint}"]))
    finally:
        server.stop(None)
