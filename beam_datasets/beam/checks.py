"""Checks an engine before it gets a job: runners wait for ever for what does not answer, or fail without saying why.

A Flink cluster is asked by its REST interface for its version, where its workers are, and whether a job is running.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import socket
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

import grpc
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from beam_datasets.errors import BeamDatasetsError, MissingDependencyError
from beam_datasets.extras import install_command

CONNECT_SECONDS = 10  # that a server may take to answer
WORKER_SECONDS = 60  # that a worker may take to start
CACHE_MILLIS = 10_000  # that a worker waits for the next stage of its job
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
_PLACES = ("temp_location", "staging_location")


class EngineError(BeamDatasetsError):
    """A server of the runner cannot be reached, or does not serve; nothing was published."""


class _FlinkOptions(PipelineOptions):
    """An option of Flink's runner that Beam's Python side does not know."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--execution_mode_for_batch", help="PIPELINED, or BATCH_FORCED for one stage at a time")


def short_name(runner: str) -> str:
    """Returns the name of a runner as it may be written: 'flink' for 'FlinkRunner'."""
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def runner_of(options: PipelineOptions) -> str:
    """Returns the short name of the runner that is asked for; '' for none."""
    return short_name(str(options.view_as(StandardOptions).runner or ""))


def check_servers(options: PipelineOptions, *, is_pool_here: bool) -> None:
    """Checks that the job service listens, and that the worker pool, if it is on this machine, starts a worker.

    Raises:
        EngineError: nothing listens, or no worker starts.
    """
    portable = options.view_as(PortableOptions)
    if portable.job_endpoint and portable.job_endpoint != "embed":
        _check_listens(
            portable.job_endpoint,
            "no job service listens at",
            "--job_endpoint is the address of the runner's job service, as it is reached from here.",
        )
    pool = str(portable.environment_config or "").removeprefix("http://")
    if is_pool_here and portable.environment_type == "EXTERNAL" and _address(pool)[0] in HERE:
        advice = "Start one: python -m beam_datasets.beam.worker_pool --port PORT"
        _check_listens(pool, "found no worker pool at", advice)
        _check_starts_worker(pool)


def _check_listens(address: str, problem: str, advice: str) -> None:
    try:
        socket.create_connection(_address(address), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise EngineError(f"{problem} {address} ({error}); nothing was published. {advice}") from error


def _check_starts_worker(pool: str) -> None:
    """Has the pool start a worker that connects to this process, and stop it again.

    Beam's own pool starts the command `python` of its PATH. If that lacks Beam, the runner waits for ever.
    """
    name = f"check-{uuid.uuid4().hex[:8]}"
    with socket.create_server(("localhost", 0)) as server, grpc.insecure_channel(pool) as channel:
        server.settimeout(WORKER_SECONDS)
        here = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{server.getsockname()[1]}")
        service = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        try:
            request = beam_fn_api_pb2.StartWorkerRequest(
                worker_id=name, control_endpoint=here, logging_endpoint=here, provision_endpoint=here
            )
            problem = service.StartWorker(request, timeout=WORKER_SECONDS).error
            if not problem:
                server.accept()[0].close()
        except (OSError, grpc.RpcError) as error:
            problem = error.details() if isinstance(error, grpc.Call) else f"none within {WORKER_SECONDS} s"
        finally:
            with contextlib.suppress(grpc.RpcError):
                service.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=name), timeout=CONNECT_SECONDS)
    if problem:
        raise EngineError(
            f"the worker pool at {pool}: expected a worker to start, got: {problem}; nothing was published. "
            "See what the pool printed. Beam's own pool starts the `python` of its PATH, which may lack apache-beam; "
            "python -m beam_datasets.beam.worker_pool starts its own Python."
        )


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


# ------------------------------------------------------------------------------------------------------------ Dataflow


def makes_template(options: PipelineOptions) -> bool:
    """Returns whether the job is only written to a file, which the launcher of a template starts."""
    return runner_of(options) == "dataflow" and bool(options.view_as(GoogleCloudOptions).template_location)


def makes_classic_template(options: PipelineOptions) -> bool:
    """Returns whether the job becomes a template that is started many times.

    The launcher of a Flex Template passes `template_location` as well, and starts the job in that file once.
    Its file is called job_object, and its image sets the environment variable.
    """
    location = str(options.view_as(GoogleCloudOptions).template_location or "")
    is_flex = location.endswith("/job_object") or "FLEX_TEMPLATE_PYTHON_PY_FILE" in os.environ
    return makes_template(options) and not is_flex


def prepare_dataflow(options: PipelineOptions, num_workers: int | None) -> None:
    """Sets the machines to begin with, and checks what Dataflow cannot do without.

    Args:
        options: of the pipeline.
        num_workers: machines to begin with, where that was given as an option of this package.

    Raises:
        MissingDependencyError: Beam's part for Dataflow is not installed.
        ValueError: an option is missing or unusable.
    """
    if not _is_dataflow_installed():
        raise MissingDependencyError(f"DataflowRunner needs Google's libraries: {install_command('gcp')}")
    if num_workers is not None:
        options.view_as(WorkerOptions).num_workers = num_workers
    cloud = options.view_as(GoogleCloudOptions)
    missing = [name for name in ("project", "region") if not getattr(cloud, name)]
    if missing:
        raise ValueError(f"DataflowRunner needs --{' and --'.join(missing)}.")
    for name in _PLACES:
        place = getattr(cloud, name)
        if place is not None and not place.startswith("gs://"):
            raise ValueError(f"{name} is {place!r}; DataflowRunner needs a place in a bucket: gs://my-bucket/temp.")
    if not any(getattr(cloud, name) for name in _PLACES):
        raise ValueError("DataflowRunner needs --temp_location, a place in a bucket: gs://my-bucket/temp.")


def _is_dataflow_installed() -> bool:
    try:
        return importlib.util.find_spec("google.cloud.dataflow") is not None
    except ModuleNotFoundError:
        return False


# --------------------------------------------------------------------------------------------------------------- Flink


@dataclass(frozen=True, slots=True)
class FlinkCluster:
    """A cluster that is reached by the REST interface of its JobManager.

    Attributes:
        url: of that interface.
    """

    url: str

    def get(self, path: str, *, method: str = "GET") -> Any:
        """Returns what the JobManager answers.

        Raises:
            EngineError: it does not.
        """
        try:
            request = urllib.request.Request(f"{self.url}/{path}", method=method)
            with urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise EngineError(
                f"no Flink JobManager answers at {self.url} ({str(reason)!r:.100}). --flink_master is the "
                "address of its REST interface, HOST:PORT; is the cluster running, and does that lead there from here?"
            ) from error

    def is_running(self, name: str) -> bool:
        """Returns whether a job of this name is there that has not ended.

        Raises:
            EngineError: the cluster does not answer.
        """
        return any(job["state"] not in _ENDED for job in self.get("jobs/overview")["jobs"] if job["name"] == name)

    def cancel(self, name: str) -> None:
        """Asks for the end of the jobs of this name."""
        for job in self.get("jobs/overview")["jobs"]:
            if job["name"] == name and job["state"] not in _ENDED:
                self.get(f"jobs/{job['jid']}?mode=cancel", method="PATCH")

    def task_managers(self) -> list[str]:
        """Returns the hosts of the TaskManagers."""
        paths = [manager["path"] for manager in self.get("taskmanagers")["taskmanagers"]]
        return [path.partition("@")[2].partition("/")[0].rpartition(":")[0].strip("[]") for path in paths]


def cluster_of(options: PipelineOptions) -> FlinkCluster | None:
    """Returns the cluster of --flink_master; None without that option, and for other runners."""
    master = str(options.view_as(FlinkRunnerOptions).flink_master or "").strip().rstrip("/")
    if runner_of(options) != "flink" or not master or master.startswith("["):
        return None
    return FlinkCluster(master if "://" in master else f"http://{master}")


def prepare_flink(options: PipelineOptions) -> None:
    """Checks that a pipeline can run with these options, and completes them.

    Raises:
        EngineError: the cluster does not answer, or is of another version.
        ValueError: --environment_type is missing, so Flink would start containers.
    """
    cluster = cluster_of(options)
    portable = options.view_as(PortableOptions)
    if portable.environment_cache_millis in (None, 0):  # Beam starts workers anew for each stage
        portable.environment_cache_millis = CACHE_MILLIS
    if not portable.environment_type and (cluster or portable.job_endpoint):
        raise ValueError(
            "FlinkRunner needs to know where Python code runs; without --environment_type it would start Docker "
            "containers on the TaskManagers. With a worker pool beside each of them "
            "(python -m beam_datasets.beam.worker_pool): "
            "--environment_type=EXTERNAL --environment_config=localhost:50000; for containers: "
            "--environment_type=DOCKER --environment_config=IMAGE."
        )
    if cluster is not None:
        _check_version(cluster, options)


def _check_version(cluster: FlinkCluster, options: PipelineOptions) -> None:
    overview = cluster.get("overview")
    if not isinstance(overview, dict) or "flink-version" not in overview:
        raise EngineError(f"what answers at {cluster.url} is not a Flink JobManager: it has no version of Flink.")
    runs = str(overview["flink-version"])
    asked = str(options.view_as(FlinkRunnerOptions).flink_version)
    beam_starts_job_server = not options.view_as(PortableOptions).job_endpoint
    if beam_starts_job_server and not runs.startswith(f"{asked}."):
        raise EngineError(
            f"{cluster.url} runs Flink {runs}, and --flink_version is {asked}, Beam's default where it was not given; "
            f"the job server must be of the cluster's version: --flink_version={runs.rpartition('.')[0]}"
        )


def workers_are_here(options: PipelineOptions) -> bool:
    """Returns whether all TaskManagers, which have their workers beside them, are on this machine."""
    cluster = cluster_of(options)
    if cluster is None:
        return True  # then Beam starts Flink itself, here
    hosts = cluster.task_managers()
    return bool(hosts) and {*HERE, socket.gethostname()}.issuperset(hosts)
