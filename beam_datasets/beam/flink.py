"""Checks a Flink cluster by its REST interface before a job: its version, and where its workers are."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)

from beam_datasets.beam.portable import EngineError

if TYPE_CHECKING:
    import argparse

WORKER_SECONDS = 30  # that a pool may take to start a worker
CACHE_MILLIS = 10_000  # that a worker waits for the next stage of its job
_ANSWER_SECONDS = 10
_ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})


class ClusterOptions(PipelineOptions):
    """Options of jobs on clusters: one of Flink's runner that Beam's Python side does not know, and one of our own."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--worker_start_seconds",
            type=int,
            default=WORKER_SECONDS,
            help="a job is refused if a worker pool of this machine takes longer than this to start a worker",
        )
        parser.add_argument("--execution_mode_for_batch", help="PIPELINED, or BATCH_FORCED for one stage at a time")


class FlinkError(EngineError):
    """A Flink cluster cannot be reached, or does not serve; nothing was published."""


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
            FlinkError: it does not.
        """
        try:
            request = urllib.request.Request(f"{self.url}/{path}", method=method)
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise FlinkError(
                f"no Flink JobManager answers at {self.url} ({str(reason)!r:.100}). --flink_master is the "
                "address of its REST interface, HOST:PORT; is the cluster running, and does that lead there from here?"
            ) from error

    def is_running(self, name: str) -> bool:
        """Returns whether a job of this name is there that has not ended.

        Raises:
            FlinkError: the cluster does not answer.
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
    """Returns the cluster that these options lead to; None where that is not said, or is not a Flink cluster."""
    runner = str(options.view_as(StandardOptions).runner or "").rpartition(".")[2].lower()
    master = str(options.view_as(FlinkRunnerOptions).flink_master or "").strip().rstrip("/")
    if runner.removesuffix("runner") != "flink" or not master or master.startswith("["):
        return None
    return FlinkCluster(master if "://" in master else f"http://{master}")


def prepare(options: PipelineOptions) -> None:
    """Checks that a pipeline can run with these options, and completes them.

    Raises:
        FlinkError: the cluster does not answer, or is of another version.
        ValueError: it is not said where Python code is to run.
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
        raise FlinkError(f"what answers at {cluster.url} is not a Flink JobManager: it has no version of Flink.")
    runs = str(overview["flink-version"])
    asked = str(options.view_as(FlinkRunnerOptions).flink_version)
    beam_starts_job_server = not options.view_as(PortableOptions).job_endpoint
    if beam_starts_job_server and not runs.startswith(f"{asked}."):
        raise FlinkError(
            f"{cluster.url} runs Flink {runs}, and --flink_version is {asked}, Beam's default where it was not given; "
            f"the job server must be of the cluster's version: --flink_version={runs.rpartition('.')[0]}"
        )


def workers_are_here(options: PipelineOptions) -> bool:
    """Returns whether all TaskManagers, which have their workers beside them, are on this machine."""
    cluster = cluster_of(options)
    if cluster is None:
        return True  # then Beam starts Flink itself, here
    hosts = cluster.task_managers()
    return bool(hosts) and {"localhost", "127.0.0.1", "::1", socket.gethostname()}.issuperset(hosts)
