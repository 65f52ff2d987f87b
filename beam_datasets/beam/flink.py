"""Checks a Flink cluster by its REST interface before a job, and looks after the job while it runs.

Beam's runner waits for ever for a worker that a pool was asked for and that never comes, because the pool's `python` is
another one, say. Such a task is seen in its TaskManager's thread dump.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)

from beam_datasets.beam import failures
from beam_datasets.beam.portable import WRONG_PYTHON, EngineError
from beam_datasets.errors import BeamDatasetsError, LostExamplesError, StorageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
WORKER_SECONDS = 30  # that a pool may take to start a worker
CACHE_MILLIS = 10_000  # that a worker waits for the next stage of its job
_LOOK_SECONDS = 5
_LOOKED_AT = 4  # TaskManagers at a time
_ANSWER_SECONDS = 10
_END_SECONDS = 30
_WAITING = "ExternalEnvironmentFactory.createEnvironment"
_REFUSED = "java.net.ConnectException"
_NO_SLOTS = "NoResourceAvailableException"
_ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})


class ClusterOptions(PipelineOptions):
    """Options of jobs on clusters: one of Flink's runner that Beam's Python side does not know, and one of our own."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--worker_start_seconds",
            type=int,
            default=WORKER_SECONDS,
            help="a job is given up where a worker pool takes longer than this to bring up a worker",
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

    def job_id(self, name: str) -> str | None:
        """Returns Flink's number of a job; None where there is none of this name."""
        return next((job["jid"] for job in self.get("jobs/overview")["jobs"] if job["name"] == name), None)

    def is_running(self, name: str) -> bool:
        """Returns whether a job of this name is there that has not ended.

        Raises:
            FlinkError: the cluster does not answer.
        """
        return any(job["state"] not in _ENDED for job in self.get("jobs/overview")["jobs"] if job["name"] == name)

    def cancel(self, job: str) -> None:
        """Cancels a job and waits until it has ended, for some time."""
        self.get(f"jobs/{job}?mode=cancel", method="PATCH")
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline and self.get(f"jobs/{job}")["state"] not in _ENDED:
            time.sleep(0.5)

    def task_managers(self) -> list[str]:
        """Returns the hosts of the TaskManagers."""
        paths = [manager["path"] for manager in self.get("taskmanagers")["taskmanagers"]]
        return [path.partition("@")[2].partition("/")[0].rpartition(":")[0].strip("[]") for path in paths]

    def waits_for_workers(self, job: str) -> set[str]:
        """Returns the names of a job's running tasks that wait for a worker to start, of some TaskManagers."""
        found, managers = set(), set()
        running = [vertex for vertex in self.get(f"jobs/{job}")["vertices"] if vertex["status"] == "RUNNING"]
        for vertex in running:
            subtasks = self.get(f"jobs/{job}/vertices/{vertex['id']}")["subtasks"]
            managers |= {subtask["taskmanager-id"] for subtask in subtasks if subtask["status"] == "RUNNING"}
        tasks = tuple(vertex["name"] for vertex in running)
        for manager in sorted(managers)[:_LOOKED_AT]:
            for thread in self.get(f"taskmanagers/{manager}/thread-dump")["threadInfos"]:
                if _WAITING in thread["stringifiedThreadInfo"] and thread["threadName"].startswith(tasks):
                    found.add(str(thread["threadName"]))
        return found


def cluster_of(options: PipelineOptions) -> FlinkCluster | None:
    """Returns the cluster that these options lead to; None where that is not said, or is no Flink cluster."""
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
            "FlinkRunner needs to be told where Python code runs; without --environment_type it would start Docker "
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
        raise FlinkError(f"what answers at {cluster.url} is no Flink JobManager: it has no version of Flink.")
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


@contextlib.contextmanager
def attended(name: str, options: PipelineOptions, cluster: FlinkCluster | None) -> Iterator[None]:
    """Gives a job up that cannot end well, and cancels it when it is not waited for any more.

    A job cannot end well if its workers do not start, if there were never enough slots for it, or if Flink restarts it
    for an error that stays.

    Args:
        name: of the job.
        options: of the job.
        cluster: where it runs; None does nothing.

    Raises:
        BeamDatasetsError: the job was given up.
    """
    if cluster is None:
        yield
        return
    attendant = _Attendant(cluster, options, name)
    attendant.start()
    try:
        yield
    except Exception as error:
        pool = options.view_as(PortableOptions).environment_config
        if attendant.error is None and _REFUSED in str(error):
            attendant.error = FlinkError(
                f"a TaskManager found no worker pool at {pool} (connection refused); nothing was published. One "
                "must stand beside each TaskManager: python -m beam_datasets.beam.worker_pool --port PORT"
            )
        if attendant.error:
            raise attendant.error from error
        raise
    except BaseException:  # interrupted
        with contextlib.suppress(FlinkError):
            if job := cluster.job_id(name):
                cluster.cancel(job)
        raise
    finally:
        attendant.stopped.set()
        attendant.join()


class _Attendant(threading.Thread):
    """Looks at a job every few seconds; `error` is why it was cancelled."""

    def __init__(self, cluster: FlinkCluster, options: PipelineOptions, job: str) -> None:
        super().__init__(name="attend Flink's job", daemon=True)
        self.error: BeamDatasetsError | None = None
        self.stopped = threading.Event()
        self._cluster, self._job = cluster, job
        self._patience = options.view_as(ClusterOptions).worker_start_seconds
        self._parallelism = int(options.view_as(FlinkRunnerOptions).parallelism or 0)
        self._most_slots = 0  # that the cluster had in the time of the job
        self._since: dict[str, float] = {}  # task that waits for a worker -> when it was first seen

    def run(self) -> None:
        while self.error is None and not self.stopped.wait(_LOOK_SECONDS):
            with contextlib.suppress(FlinkError, KeyError, TypeError):  # it may be gone, or be of another version
                if job := self._cluster.job_id(self._job):
                    self.error = self._problem(job)
                    if self.error:
                        self._cluster.cancel(job)

    def _problem(self, job: str) -> BeamDatasetsError | None:
        now = time.monotonic()
        self._since = {task: self._since.get(task, now) for task in self._cluster.waits_for_workers(job)}
        if any(now - seen > self._patience for seen in self._since.values()):
            return FlinkError(
                f"a worker pool did not bring up a worker within {self._patience} s, and the job was cancelled; "
                f"nothing was published. {WRONG_PYTHON}"
            )
        failure = str(self._cluster.get(f"jobs/{job}/exceptions?maxExceptions=1").get("root-exception") or "")
        self._most_slots = max(self._most_slots, int(self._cluster.get("overview")["slots-total"]))
        if _NO_SLOTS in failure and self._most_slots < self._parallelism:  # else they are another job's, or come again
            return FlinkError(
                f"the cluster has {self._most_slots} slots, --parallelism is {self._parallelism}, and no more slots "
                "came while Flink waited for them (slot.request.timeout); the job was cancelled, and nothing was "
                "published."
            )
        return _permanent(failure)


def _permanent(failure: str) -> BeamDatasetsError | None:
    """Returns the error that a failure of a job was, if it will be the same however often the job is restarted."""
    if "Traceback" not in failure:
        return None
    error = failures.reason(RuntimeError(failure))
    if isinstance(error, failures.GenerationError):
        return error if str(error).startswith("ModuleNotFoundError") else None
    return None if isinstance(error, (StorageError, LostExamplesError)) else error
