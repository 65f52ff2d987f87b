"""What a portable runner's servers are asked before a job, against real servers on loopback."""

import contextlib
import socket
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from beam_datasets.beam import portable, worker_pool
from tests.servers import free_port

PATIENCE = 60


def options(**given: str) -> PipelineOptions:
    return PipelineOptions(["--runner=PortableRunner", *(f"--{name}={value}" for name, value in given.items())])


@contextlib.contextmanager
def a_pool(servicer: beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer) -> Iterator[PipelineOptions]:
    """Serves a pool and yields the options that lead to it."""
    server = grpc.server(futures.ThreadPoolExecutor())
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield options(environment_type="EXTERNAL", environment_config=f"localhost:{port}")
    finally:
        server.stop(None).wait()


class Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """A pool that starts nothing, and may say why."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.stopped: list[str] = []

    def StartWorker(self, request: Any, context: Any) -> Any:
        return beam_fn_api_pb2.StartWorkerResponse(error=self.error)

    def StopWorker(self, request: Any, context: Any) -> Any:
        self.stopped.append(request.worker_id)
        return beam_fn_api_pb2.StopWorkerResponse()


def test_a_job_service_that_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        portable.check_job_service(options(job_endpoint=f"127.0.0.1:{listening.getsockname()[1]}"))


@pytest.mark.parametrize("given", [{}, {"job_endpoint": "embed"}])
def test_a_job_service_that_beam_starts(given: dict[str, str]) -> None:
    portable.check_job_service(options(**given))


@pytest.mark.parametrize("endpoint", ["127.0.0.1:1", "nowhere.invalid:8099", "localhost", "localhost:jobs"])
def test_no_job_service(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "CONNECT_SECONDS", 0.1)
    with pytest.raises(portable.EngineError, match=f"no job service listens at {endpoint}"):
        portable.check_job_service(options(job_endpoint=endpoint))


def test_a_pool_that_makes_workers() -> None:
    """Ours: its worker comes, and is stopped again."""
    servicer = worker_pool.WorkerPool()
    with a_pool(servicer) as given:
        portable.check_pool(given, PATIENCE)
    assert not servicer._workers


def test_a_pool_whose_workers_do_not_come() -> None:
    silent = Pool()
    with a_pool(silent) as given, pytest.raises(portable.EngineError, match=r"did not bring up a worker within 0\.2 s"):
        portable.check_pool(given, 0.2)
    [worker] = silent.stopped
    assert worker.startswith("probe-")


def test_a_pool_that_says_why() -> None:
    broken = Pool("no room for a process")
    with a_pool(broken) as given, pytest.raises(portable.EngineError, match="no room for a process$"):
        portable.check_pool(given, PATIENCE)


def test_no_pool() -> None:
    address = f"localhost:{free_port()}"
    with pytest.raises(portable.EngineError, match=f"found no worker pool at {address}"):
        portable.check_pool(options(environment_type="EXTERNAL", environment_config=address), PATIENCE)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"environment_type": "LOOPBACK"},
        {"environment_type": "DOCKER", "environment_config": "image"},
        {"environment_type": "EXTERNAL", "environment_config": "nowhere.invalid:50000"},  # cannot be asked from here
    ],
)
def test_what_is_not_asked(given: dict[str, str]) -> None:
    portable.check_pool(options(**given), PATIENCE)
