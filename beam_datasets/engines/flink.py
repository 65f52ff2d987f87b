"""Flink: checks of its runner's options, and a client of the REST interface of its JobManager."""

from __future__ import annotations

import argparse
import http.client
import json
import math
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions

from beam_datasets.engines.checks import CONNECT_SECONDS, HERE, EngineError, runner_of, translate_log_level
from beam_datasets.engines.failures import reason

CACHE_MILLIS = 10_000  # how long a worker waits for the next stage of its job
# After a restart, Beam's runner uses the workers that it has cached, also a dead one, and the restart fails. So a
# worker is cached for a part of the time before the restart, which also has to cancel the other tasks.
CACHES_PER_DELAY = 3
_DELAYS = ("restart-strategy.fixed-delay.delay", "restart-strategy.exponential-delay.initial-backoff")
_DURATION = re.compile(r"(\d+)\s*(ms|s|sec|second|seconds|min|m|minute|minutes)")
_UNITS = {"ms": 0.001, **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0)}
_UNITS |= dict.fromkeys(("min", "m", "minute", "minutes"), 60.0)
SAY_SECONDS = 30  # between two messages while the job waits for slots
SLOTS_SECONDS = 1  # between two requests for the number of free slots
# For a JobManager that is away to be started again, or for another one to take its place, and for the TaskManagers to
# register with it. With high availability, the session of the lost one has to end first (10 s in the docs).
AWAY_SECONDS = 30
MAX_FAILURES = 100  # failures to request for a job
MAX_REASON = 300  # characters of a failure's message
SAME_SECONDS = 1.0  # failures closer together count as one
_JAVA_CLASS = re.compile(r"^(?:\w+(?:Exception|Error): )+")
_LAMBDA = re.compile(r"/?\{?(?:\w*Map|ParDo)\(<lambda[^)]*\)(?:, Map\(decode\)\}?)?")  # as in Beam's Create
_VERTEX = re.compile(r" at (?:\[\d+\])?(.*?)\)(?: ->| \(\d+/|$)")
_ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
_FAILING = frozenset({"FAILING", "FAILED"})  # states of a job whose last failure repeats nothing
_SUPPRESSED = re.compile(r"[^\n]*Recovery is suppressed by [^\n]*\n(?:\s+at [^\n]*\n)*Caused by: ")
_RESTART_TYPES = ("restart-strategy.type", "restart-strategy")  # names of a setting, the newer one first
MIN_ATTEMPTS = 20  # with fixed-delay, as a lost worker fails a few tasks
_FIXED_DELAY = frozenset({"fixed-delay", "fixeddelay"})
_NO_RESTART = frozenset({"", "none", "off", "disable"})
_ON_DEMAND = ("kubernetes.", "yarn.")  # prefixes of settings of clusters that start TaskManagers for a job


class _FlinkOptions(PipelineOptions):
    """An option of Flink's runner that Beam's Python side does not know."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the option `--execution_mode_for_batch` to Beam's parser; see `PipelineOptions`."""
        parser.add_argument("--execution_mode_for_batch", help="PIPELINED, or BATCH_FORCED for one stage at a time")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why Flink has repeated a part of a job.

    Attributes:
        time: time of the failure, in seconds since the epoch.
        reason: the reason in one line, with the stage and the machine.
    """

    time: float
    reason: str


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Status of a job, as its cluster reports it.

    Attributes:
        id: id of the job.
        state: state of the job, such as RUNNING or RESTARTING.
        stages: names of the running stages; the name of a fused stage contains the names of its parts.
        finished: number of tasks that have finished.
        tasks: number of all tasks.
        is_waiting: whether no task runs, because there are no slots.
        failures: failures after which Flink has repeated a part of the job, oldest first.
        started: time at which the JobManager started the job, in seconds since the epoch. Another JobManager that goes
            on with the job starts it again, and does not know the earlier failures.
    """

    id: str
    state: str
    stages: tuple[str, ...]
    finished: int
    tasks: int
    is_waiting: bool
    failures: tuple[Failure, ...]
    started: float


class JobManagerAwayError(EngineError):
    """The JobManager does not answer, which may pass if it is started again or another one takes its place."""


@dataclass(frozen=True, slots=True)
class FlinkCluster:
    """Client of the REST interface of a cluster's JobManager.

    Attributes:
        url: URL of the interface.
    """

    url: str

    def get(self, path: str, *, method: str = "GET") -> Any:
        """Sends a request and returns the decoded JSON of the answer; None for an empty answer.

        Args:
            path: the path after the URL, without a leading slash, such as "jobs/overview".
            method: the HTTP method.

        Raises:
            JobManagerAwayError: the cluster does not answer now.
            EngineError: the address cannot be one of a JobManager, or the answer is not JSON.
        """
        try:
            request = urllib.request.Request(f"{self.url}/{path}", method=method)
            with urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error))
            problem = repr(reason) if reason.isprintable() else "its answer is not HTTP"
            raise (JobManagerAwayError if _is_transient(error) else EngineError)(
                f"no Flink JobManager answers at {self.url} ({problem:.100}). Check that the cluster is running, "
                "and that --flink_master is the address of its REST interface, HOST:PORT, as it is reached from here."
            ) from error

    def await_overview(self, num_slots: int = 1) -> dict[str, Any]:
        """Returns the overview of the cluster; waits up to `AWAY_SECONDS` for a JobManager that does not answer.

        If this has waited, the TaskManagers get the rest of the time to register.

        Args:
            num_slots: number of slots of the TaskManagers to wait for.

        Raises:
            EngineError: the cluster does not answer in time, or is not one of Flink.
        """
        deadline, has_waited = time.monotonic() + AWAY_SECONDS, False
        while True:
            try:
                overview = self.get("overview")
            except JobManagerAwayError as error:
                if time.monotonic() >= deadline:
                    raise
                if not has_waited:
                    print(f"FlinkRunner: waiting for up to {AWAY_SECONDS} s: {error}", file=sys.stderr)
                has_waited = True
            else:
                if not isinstance(overview, dict) or "flink-version" not in overview:
                    raise EngineError(
                        f"{self.url}: expected a Flink JobManager, got an answer without a version. Check "
                        "--flink_master."
                    )
                if not has_waited or time.monotonic() >= deadline or int(overview["slots-total"]) >= num_slots:
                    return overview
            time.sleep(SLOTS_SECONDS)

    def has_ended(self, name: str) -> bool | None:
        """Returns whether all jobs of this name have ended; None if the cluster has no such job.

        Raises:
            EngineError: the cluster does not answer.
        """
        states = [job["state"] for job in self.get("jobs/overview")["jobs"] if job["name"] == name]
        return _ENDED.issuperset(states) if states else None

    def state(self, name: str) -> str | None:
        """Returns the state of the last job of this name, such as FINISHED; None if the cluster has no such job.

        Raises:
            EngineError: the cluster does not answer.
        """
        job = self._last_job(name)
        return None if job is None else str(job["state"])

    def _last_job(self, name: str) -> dict[str, Any] | None:
        """Returns the last job of this name that has started, as `jobs/overview` has it; None if there is none.

        Jobs of earlier runs may have the same name, and are listed in any order.

        Raises:
            EngineError: the cluster does not answer.
        """
        jobs = [job for job in self.get("jobs/overview")["jobs"] if job["name"] == name]
        return max(jobs, key=lambda job: int(job["start-time"]), default=None)

    def status(self, name: str) -> JobStatus | None:
        """Returns the status of the job of this name; None if the cluster has no such job.

        Raises:
            EngineError: the cluster does not answer.
        """
        last_job = self._last_job(name)
        if last_job is None:
            return None
        job = self.get(f"jobs/{last_job['jid']}")
        counts = [(vertex["name"], vertex["tasks"]) for vertex in job["vertices"]]
        running = [name for name, tasks in counts if tasks["RUNNING"]]
        total = {state: sum(tasks[state] for _, tasks in counts) for state in ("FINISHED", "SCHEDULED")}
        return JobStatus(
            last_job["jid"],
            job["state"],
            tuple(dict.fromkeys(filter(None, map(stage_name, running)))),
            total["FINISHED"],
            sum(sum(tasks.values()) for _, tasks in counts),
            not running and total["SCHEDULED"] > 0,
            _failures(self.get(f"jobs/{last_job['jid']}/exceptions?maxExceptions={MAX_FAILURES}"), job["state"]),
            int(job["start-time"]) / 1000,
        )

    def failure(self, name: str) -> str:
        """Returns the error of Java, with its causes, with which the job of this name has failed; '' if none is known.

        Raises:
            EngineError: the cluster does not answer.
        """
        job = self._last_job(name)
        text = "" if job is None else self.get(f"jobs/{job['jid']}/exceptions").get("root-exception")
        return _SUPPRESSED.sub("", text or "", count=1)

    def cancel(self, name: str) -> None:
        """Requests the cancellation of all running jobs of this name.

        Raises:
            EngineError: the cluster does not answer.
        """
        for job in self.get("jobs/overview")["jobs"]:
            if job["name"] == name and job["state"] not in _ENDED:
                self.get(f"jobs/{job['jid']}?mode=cancel", method="PATCH")

    def restart_delay(self) -> float | None:
        """Returns the seconds that the cluster waits before it restarts tasks; None if no delay is configured."""
        settings = {setting["key"]: setting["value"] for setting in self.get("jobmanager/config")}
        for name in _DELAYS:
            if (match := _DURATION.fullmatch(str(settings.get(name, "")).strip())) is not None:
                return int(match[1]) * _UNITS[match[2]]
        return None

    def restart_problem(self) -> str:
        """Returns why the cluster may not repeat a job that loses a worker, and what to do; '' if it does.

        Raises:
            EngineError: the cluster does not answer.
        """
        settings = {setting["key"]: str(setting["value"]) for setting in self.get("jobmanager/config")}
        kind = next(filter(None, map(settings.get, _RESTART_TYPES)), "").strip().lower()
        if kind in _NO_RESTART:
            problem = "Flink repeats nothing, so the loss of a worker or of a TaskManager ends the job"
        elif kind in _FIXED_DELAY and int(settings.get("restart-strategy.fixed-delay.attempts", 1)) < MIN_ATTEMPTS:
            problem = "each task that fails with a worker counts as an attempt, so one loss may use all of them"
        else:
            return ""
        return (
            f"restart-strategy.type: expected exponential-delay, got {kind or 'none'}: {problem}. In the cluster's "
            "config.yaml: restart-strategy.type: exponential-delay, "
            "restart-strategy.exponential-delay.attempts-before-reset-backoff: 3"
        )

    def is_on_demand(self) -> bool:
        """Returns whether the cluster may start TaskManagers for a job, as on Kubernetes or YARN."""
        return any(setting["key"].startswith(_ON_DEMAND) for setting in self.get("jobmanager/config"))

    def task_managers(self) -> list[str]:
        """Returns the hosts of the TaskManagers: names or IP addresses, without ports."""
        paths = [manager["path"] for manager in self.get("taskmanagers")["taskmanagers"]]
        return [path.partition("@")[2].partition("/")[0].rpartition(":")[0].strip("[]") for path in paths]


def _is_transient(error: Exception) -> bool:
    """Returns whether a request failed as it does while a JobManager starts: no connection, or a server error."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(getattr(error, "reason", error), (ConnectionError, TimeoutError))


def stage_name(vertex: str) -> str:
    """Returns the name of the stage in the name of a vertex of Flink's graph; '' for vertices that Beam adds.

    >>> stage_name("CHAIN MapPartition (MapPartition at [1]WriteExamples/Write) -> FlatMap (FlatMap at Extract[0])")
    'Write'
    >>> stage_name("MapPartition (MapPartition at [7]{Generate train, WriteExamples}) (2/2) - execution #0")
    'Generate train, Encode'
    >>> stage_name("MapPartition (MapPartition at [2]WriteExamples/Start/{FlatMap(<lambda at c.py:4>), Map(decode)})")
    'Start'
    """
    match = _VERTEX.search(vertex)
    if match is None or match[1].startswith("ExtractOutput"):
        return ""
    # The name of a fused stage has only the outer transform, WriteExamples, whose fused part encodes.
    name = match[1].replace("WriteExamples/", "").replace(", WriteExamples}", ", Encode}")
    name = _LAMBDA.sub("", name)
    return name.strip("{}, ").replace("{", "").replace("}", "")


def _failures(exceptions: Any, state: str) -> tuple[Failure, ...]:
    """Returns the failures in the exception history of a job after which it was repeated, sorted by time.

    A failure less than `SAME_SECONDS` after the last returned one has the same cause and is left out. So is the last
    one of a job that has failed, with which it has ended.

    Args:
        exceptions: the JSON of Flink's `/jobs/<id>/exceptions`. Read are the `exceptionHistory.entries`, with a
            `timestamp` in milliseconds, a `stacktrace`, and maybe a `taskName` and a `location`.
        state: state of the job.

    >>> entry = {"timestamp": 1500, "stacktrace": "disk full", "location": "host:1"}
    >>> _failures({"exceptionHistory": {"entries": [entry]}}, "RESTARTING")
    (Failure(time=1.5, reason='disk full (host:1)'),)
    >>> _failures({"exceptionHistory": {"entries": [entry]}}, "FAILED")
    ()
    """
    failures: list[Failure] = []
    for entry in sorted(exceptions["exceptionHistory"]["entries"], key=lambda entry: int(entry["timestamp"])):
        seconds = int(entry["timestamp"]) / 1000
        if failures and seconds - failures[-1].time < SAME_SECONDS:
            continue
        stack = _SUPPRESSED.sub("", entry["stacktrace"], count=1)
        error = reason(RuntimeError(stack))
        message = error.problem if error.outcome else str(error)  # Flink goes on, whatever the outcome would be
        problem = message.splitlines()[0].removeprefix("RuntimeError: ")
        if "Traceback" not in stack:
            problem = _JAVA_CLASS.sub("", problem)
        stage, location = stage_name(entry.get("taskName") or ""), entry.get("location") or ""
        location_note = " on ".join(filter(None, [stage and f"in {stage}", location]))
        failures.append(Failure(seconds, f"{problem[:MAX_REASON]}{location_note and f' ({location_note})'}"))
    return tuple(failures[:-1] if state in _FAILING else failures)


def cluster_of(options: PipelineOptions) -> FlinkCluster | None:
    """Returns the cluster of --flink_master; None without that option, and for other runners."""
    master = str(options.view_as(FlinkRunnerOptions).flink_master or "").strip().rstrip("/")
    if runner_of(options) != "flink" or not master or master.startswith("["):
        return None
    return FlinkCluster(master if "://" in master else f"http://{master}")


def prepare_flink(options: PipelineOptions) -> None:
    """Checks that a pipeline can run with these options, and completes them.

    Raises:
        EngineError: the cluster does not answer, has another version of Flink, or has too few slots.
        ValueError: --environment_type is missing, so Flink would start containers, or another option is unusable.
    """
    translate_log_level(options)
    cluster = cluster_of(options)
    portable = options.view_as(PortableOptions)
    if not portable.environment_type and (cluster or portable.job_endpoint):
        raise ValueError(
            "environment_type: expected EXTERNAL or DOCKER for FlinkRunner, got none, which would start Docker "
            "containers of Beam on the TaskManagers. With a worker pool beside each of them "
            "(python -m beam_datasets.beam.worker_pool): "
            "--environment_type=EXTERNAL --environment_config=localhost:50000; for containers: "
            "--environment_type=DOCKER --environment_config=IMAGE."
        )
    if cluster is not None:
        overview = cluster.await_overview(max(needed_slots(options), 1))
        _check_version(cluster, overview, options)
        _check_slots(cluster, overview, options)
    if portable.environment_cache_millis in (None, 0):  # Beam starts new workers for each stage
        portable.environment_cache_millis = CACHE_MILLIS
        if cluster is not None and (delay := cluster.restart_delay()) is not None:
            portable.environment_cache_millis = min(CACHE_MILLIS, int(1000 * delay / CACHES_PER_DELAY))


def _check_version(cluster: FlinkCluster, overview: dict[str, Any], options: PipelineOptions) -> None:
    """Checks that the job server that Beam starts has the cluster's version of Flink.

    Args:
        cluster: the cluster, whose URL is in the error.
        overview: response of the cluster to /overview; 'flink-version' is read.
        options: Beam's options, with `flink_version` and `job_endpoint`.

    Raises:
        EngineError: the versions differ.
    """
    cluster_version = str(overview["flink-version"])
    option_version = str(options.view_as(FlinkRunnerOptions).flink_version)
    beam_starts_job_server = not options.view_as(PortableOptions).job_endpoint
    if beam_starts_job_server and not cluster_version.startswith(f"{option_version}."):
        raise EngineError(
            f"flink_version: expected that of the cluster at {cluster.url}, {cluster_version}, got {option_version}, "
            f"which may be Beam's default. Use --flink_version={cluster_version.rpartition('.')[0]}."
        )


def _check_slots(cluster: FlinkCluster, overview: dict[str, Any], options: PipelineOptions) -> None:
    """Checks that the cluster has the slots that the job needs, free or not.

    Args:
        cluster: the cluster, whose URL is in the error.
        overview: response of the cluster to /overview; 'slots-total' and 'taskmanagers' are read.
        options: Beam's options, from which the number of needed slots follows.

    Raises:
        EngineError: it has fewer, and starts no TaskManagers for a job.
    """
    num_needed, total = needed_slots(options), int(overview["slots-total"])
    if num_needed <= total or cluster.is_on_demand():
        return
    raise EngineError(
        f"parallelism: expected at most {total}, the slots of {cluster.url} (TaskManagers: "
        f"{overview['taskmanagers']}), got {num_needed}. Lower --parallelism, start more TaskManagers, or run one "
        "stage at a time, with any number of slots: --execution_mode_for_batch=BATCH_FORCED."
    )


def needed_slots(options: PipelineOptions) -> int:
    """Returns the number of task slots that a job needs to start: the option `--parallelism`.

    Returns 0 if the job starts with any number of slots (`--execution_mode_for_batch=BATCH_FORCED`), or if
    `--parallelism` is not set, so that the cluster's default applies.
    """
    if options.get_all_options().get("execution_mode_for_batch") == "BATCH_FORCED":
        return 0
    return max(int(options.view_as(FlinkRunnerOptions).parallelism or 0), 0)


def await_slots(cluster: FlinkCluster, options: PipelineOptions) -> None:
    """Waits until the cluster has as many free slots as the job needs, and prints a message while it waits.

    A job that starts with fewer would hold them without running.

    Raises:
        EngineError: the cluster does not answer.
    """
    num_needed, said_at = needed_slots(options), -math.inf
    while (
        num_needed
        and (free := int(cluster.await_overview()["slots-available"])) < num_needed
        and not cluster.is_on_demand()
    ):
        if time.monotonic() - said_at >= SAY_SECONDS:
            said_at = time.monotonic()
            print(f"FlinkRunner: waiting for {num_needed} free slots of {cluster.url}, free: {free}", file=sys.stderr)
        time.sleep(SLOTS_SECONDS)


def workers_are_here(options: PipelineOptions) -> bool:
    """Returns whether all TaskManagers, which have their workers beside them, are on this machine."""
    cluster = cluster_of(options)
    if cluster is None:
        return True  # then Beam starts Flink itself, here
    hosts = cluster.task_managers()
    return bool(hosts) and {*HERE, socket.gethostname()}.issuperset(hosts)
