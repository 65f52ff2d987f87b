"""What a portable runner is asked before it gets a job: whether its job service listens, and its pool makes workers.

A runner that is Beam's own in Python or Go waits for ever for a worker that does not come. So a pool on this machine is
asked for one beforehand, and has to send it here.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from beam_datasets.errors import BeamDatasetsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apache_beam.options.pipeline_options import PipelineOptions

CONNECT_SECONDS = 10  # that a server may take to listen
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class EngineError(BeamDatasetsError):
    """A server of the runner does not serve; nothing was published."""


def check_job_service(options: PipelineOptions) -> None:
    """Checks that the job service listens, if there is one that is not started for this job alone.

    Raises:
        EngineError: nobody does.
    """
    endpoint = options.view_as(PortableOptions).job_endpoint
    if not endpoint or endpoint == "embed":
        return
    host, port = _address(endpoint)
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            if time.monotonic() < deadline and not isinstance(error, socket.gaierror):
                time.sleep(0.5)
                continue
            raise EngineError(
                f"no job service listens at {endpoint} ({error}); nothing was published. --job_endpoint is the address "
                "of the runner's job service, as it is reached from here."
            ) from error
        return


def check_pool(options: PipelineOptions, patience: float) -> None:
    """Checks that a worker pool on this machine makes workers; one elsewhere cannot be asked from here.

    Args:
        options: of the pipeline.
        patience: seconds that a worker may take to start.

    Raises:
        EngineError: there is no pool, or its worker does not come.
    """
    portable = options.view_as(PortableOptions)
    pool = str(portable.environment_config or "").removeprefix("http://")
    if portable.environment_type != "EXTERNAL" or _address(pool)[0] not in _HERE:
        return
    worker = f"probe-{uuid.uuid4().hex[:8]}"
    with _control_service() as (url, came), grpc.insecure_channel(pool) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        service = endpoints_pb2.ApiServiceDescriptor(url=url)
        request = beam_fn_api_pb2.StartWorkerRequest(
            worker_id=worker, control_endpoint=service, logging_endpoint=service, provision_endpoint=service
        )
        try:
            problem = stub.StartWorker(request, timeout=max(patience, CONNECT_SECONDS)).error
        except grpc.RpcError as error:
            raise EngineError(
                f"found no worker pool at {pool} ({error.details()}); nothing was published. Start one: "
                "python -m beam_datasets.beam.worker_pool --port PORT"
            ) from error
        in_time = not problem and came.wait(patience)
        with contextlib.suppress(grpc.RpcError):
            stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=worker), timeout=CONNECT_SECONDS)
    if not in_time:
        raise EngineError(
            f"the worker pool at {pool} did not bring up a worker within {patience} s; nothing was published. "
            f"{WRONG_PYTHON}{problem}"
        )


WRONG_PYTHON = (
    "A pool starts the command `python`: PATH must lead to one that has apache-beam and this project (python -m "
    "beam_datasets.beam.worker_pool takes its own). What the pool printed says more; --worker_start_seconds gives it "
    "longer. "
)


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


class _Control(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """A runner that has no work: it only notes that a worker came, and lets it go when it is stopped."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.done = threading.Event()

    def Control(self, responses: Any, context: Any) -> Iterator[Any]:
        self.came.set()
        self.done.wait()
        yield from ()


@contextlib.contextmanager
def _control_service() -> Iterator[tuple[str, threading.Event]]:
    """Provides the address of a runner that has no work, and the event that a worker came there."""
    control = _Control()
    server = grpc.server(futures.ThreadPoolExecutor(thread_name_prefix="probe"))
    beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(control, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{port}", control.came
    finally:
        control.done.set()
        server.stop(None)
