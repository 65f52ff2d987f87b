"""Checks a portable runner before it gets a job: its job service listens, and its pool starts workers.

Runners wait for ever for a worker that does not start. So a pool on this machine is asked for one before the job, which
must connect to this process.
"""

from __future__ import annotations

import contextlib
import socket
import uuid
from typing import TYPE_CHECKING

import grpc
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from beam_datasets.errors import BeamDatasetsError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

CONNECT_SECONDS = 10  # that a server may take to answer
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class EngineError(BeamDatasetsError):
    """A server of the runner does not serve; nothing was published."""


def check_job_service(options: PipelineOptions) -> None:
    """Checks that the job service listens, unless it is started for this job alone.

    Raises:
        EngineError: nothing listens.
    """
    endpoint = options.view_as(PortableOptions).job_endpoint
    if endpoint and endpoint != "embed":
        try:
            socket.create_connection(_address(endpoint), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            raise EngineError(
                f"no job service listens at {endpoint} ({error}); nothing was published. --job_endpoint is the "
                "address of the runner's job service, as it is reached from here."
            ) from error


def check_pool(options: PipelineOptions, patience: float) -> None:
    """Checks that a worker pool on this machine starts workers; one elsewhere cannot be asked from here.

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
    with socket.create_server(("localhost", 0)) as control, grpc.insecure_channel(pool) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        service = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{control.getsockname()[1]}")
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
        control.settimeout(0 if problem else patience)
        try:
            control.accept()[0].close()
        except OSError:
            raise EngineError(
                f"the worker pool at {pool} did not bring up a worker within {patience} s; nothing was published. "
                "A pool starts the command `python`: PATH must lead to one that has apache-beam and this project "
                "(python -m beam_datasets.beam.worker_pool uses its own). See what the pool printed; "
                f"--worker_start_seconds waits longer. {problem}"
            ) from None
        finally:
            with contextlib.suppress(grpc.RpcError):
                stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=worker), timeout=CONNECT_SECONDS)


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
