"""Checks of an engine's servers before a job starts.

Without them, runners wait forever for a server that does not answer, or fail after minutes without a reason.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import platform
import re
import shutil
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent import futures
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions, WorkerOptions
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
    endpoints_pb2,
)
from apache_beam.transforms.environments import ExternalEnvironment, python_sdk_capabilities

from beam_datasets._version import __version__
from beam_datasets.engines.failures import reason
from beam_datasets.errors import BeamDatasetsError

_STAGE = "check"  # id and name of a stage without elements
CONNECT_SECONDS = 10  # for a server to answer
WORKER_SECONDS = 60  # for a worker to start
REMOTE_CONNECT_SECONDS = 3  # for a pool of another machine to accept a connection, which the network may not allow
REMOTE_WORKER_SECONDS = 30  # for a worker of another machine to connect, which a firewall may not allow
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
VERSIONS, JOB, LOG_LEVEL = "beam_datasets.versions", "beam_datasets.job", "beam_datasets.log_level"
"""Names of a worker pool's parameters: the launcher's versions as JSON, the job's name, the lowest level of logs."""
CLUSTER = "beam_datasets.cluster"
"""Name of another parameter: the URL of the Flink cluster's REST interface."""
VERSIONS_DIFFER = "versions differ"
# The first bytes of a client of HTTP/2, and its empty settings, which a server of gRPC answers with its own.
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
# Servers of gRPC in Python and Java, in Go, and what a client says of one that speaks HTTP/1.1.
_OTHER_SERVICE = re.compile("Method not found|unknown service|Failed parsing HTTP/2")
_RUNTIME = re.compile(r"Runtime environment: \S*python(\d+\.\d+)_sdk:(\d[\w.]*\w)")  # in an error of Beam's worker


class EngineError(BeamDatasetsError):
    """A server of the runner does not answer, or cannot run the job; nothing was published."""


def short_name(runner: str) -> str:
    """Returns the name of a runner as it may be written: 'flink' for 'FlinkRunner'."""
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def runner_of(options: PipelineOptions) -> str:
    """Returns the short name of the runner in the options; '' if they name none."""
    return short_name(str(options.view_as(StandardOptions).runner or ""))


# ------------------------------------------------------------------------------------------------------------- versions


def versions() -> dict[str, str]:
    """Returns the versions that must be equal on the launcher and the workers of a job: {name: version}."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "apache-beam": beam.__version__, "beam_datasets": __version__}


def version_problem(launcher: str) -> str:
    """Returns a message if this process, a worker, has other versions than the launcher; '' if they are equal.

    Args:
        launcher: the versions of the launcher as JSON; '' if the launcher sends none, which is accepted.
    """
    return compare_versions(versions(), json.loads(launcher), socket.gethostname()) if launcher else ""


def compare_versions(worker: Mapping[str, str], launcher: Mapping[str, str], host: str) -> str:
    """Returns a message if a worker has other versions than the launcher; '' if they are equal.

    Args:
        worker: {name: version} of the worker.
        launcher: {name: version} of the launcher, which are compared.
        host: name of the worker's machine.
    """
    different = [
        f"{name} {worker.get(name, 'none')}, and the launcher {version}"
        for name, version in launcher.items()
        if worker.get(name) != version
    ]
    if not different:
        return ""
    return (
        f"{VERSIONS_DIFFER}: the worker on {host} has {'; '.join(different)}. "
        "Install the launcher's versions in the environment of the worker pool, and start the pool again."
    )


def translate_log_level(options: PipelineOptions) -> None:
    """Translates the name of a log level to that of Java, because Beam's job servers in Java fail with other names.

    Args:
        options: options of the pipeline; `default_sdk_harness_log_level` is changed.

    Raises:
        ValueError: there is no such level.
    """
    worker = options.view_as(WorkerOptions)
    if not (name := str(worker.default_sdk_harness_log_level or "").upper()):
        return
    level = logging.getLevelName(int(name)) if name.isdigit() else name
    level = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR"}.get(level, level)
    if level not in ("DEBUG", "INFO", "WARN", "ERROR"):
        raise ValueError(
            "default_sdk_harness_log_level: expected DEBUG, INFO, WARNING or ERROR, got "
            f"{worker.default_sdk_harness_log_level!r}."
        )
    worker.default_sdk_harness_log_level = level


def send_parameters(options: PipelineOptions, job: str = "", cluster: str = "") -> None:
    """Adds the launcher's versions, the job, its cluster and the log level to the parameters that worker pools get.

    Args:
        options: options of the pipeline; `environment_config` is changed.
        job: name of the job, for the logs of workers; '' if it is not known yet.
        cluster: URL of the REST interface of the Flink cluster that runs the job; '' for none.
    """
    portable = options.view_as(PortableOptions)
    if portable.environment_type == "EXTERNAL" and portable.environment_config:
        url, params = pool_of(options)
        level = str(options.view_as(WorkerOptions).default_sdk_harness_log_level or "INFO")
        params |= {VERSIONS: json.dumps(versions()), JOB: job, LOG_LEVEL: level}
        params |= {CLUSTER: cluster} if cluster else {}
        portable.environment_config = json.dumps({"url": url, "params": params})


def pool_of(options: PipelineOptions) -> tuple[str, dict[str, str]]:
    """Returns (address of the worker pool, parameters) from --environment_config, which is an address or JSON.

    ('localhost:50000', {}) for 'localhost:50000', and ('localhost:50000', {'a': 'b'}) for
    '{"url": "localhost:50000", "params": {"a": "b"}}'; ('', {}) if the option is not set.

    Raises:
        ValueError: the option begins with '{', but is not a JSON object with 'url'.
    """
    config = str(options.view_as(PortableOptions).environment_config or "").strip()
    params: dict[str, str] = {}
    if config.startswith("{"):
        try:
            content = json.loads(config)
            config, params = str(content["url"]), dict(content.get("params") or {})
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"environment_config: expected an address such as localhost:50000, or a JSON object with 'url', got "
                f"{_without_user(config)!r:.200}. Correct --environment_config."
            ) from None
    return config.removeprefix("http://"), params


# -------------------------------------------------------------------------------------------------------------- servers


def check_servers(options: PipelineOptions, *, is_pool_here: bool) -> list[str]:
    """Checks that the job service answers, and that the worker pool starts a worker of this process's versions.

    A pool of another machine is asked if it can be reached from here; no answer is no error, as the engine may reach
    it nevertheless. Returns the addresses that answered.

    Args:
        options: options of the pipeline.
        is_pool_here: whether an address of a pool on loopback means this machine, not the machines of a cluster.

    Raises:
        EngineError: nothing answers, no worker starts, or the pool has other versions than this process.
    """
    portable, answered = options.view_as(PortableOptions), []
    _check_has_no_user("job_endpoint", portable.job_endpoint or "")
    if portable.job_endpoint and portable.job_endpoint != "embed":
        check_job_service(portable.job_endpoint)
        answered.append(portable.job_endpoint)
    if portable.environment_type != "EXTERNAL":
        return answered
    pool, params = pool_of(options)
    _check_has_no_user("environment_config", pool)
    # Without the list of installed packages that `from_options` adds: no worker of a check reads it, `pip freeze` takes
    # half a second to write it, and nothing removes its directory.
    environment = ExternalEnvironment(pool, params=params, capabilities=python_sdk_capabilities())
    if split_address(pool)[0] not in HERE:
        answered += [pool] * _check_remote_worker(pool, params, environment)
    elif is_pool_here:
        advice = "Start one: python -m beam_datasets.beam.worker_pool --port PORT"
        _check_listens(pool, "found no worker pool at", advice)
        _check_starts_worker(pool, params, environment)
        answered.append(pool)
    return answered


def check_job_service(endpoint: str) -> None:
    """Checks that a job service of Beam answers at an address.

    Raises:
        EngineError: nothing listens there, or it is another server.
    """
    advice = "--job_endpoint is the address of the runner's job service, as it is reached from here."
    _check_listens(endpoint, "no job service listens at", advice)
    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        try:
            stub.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest(), timeout=CONNECT_SECONDS)
        except grpc.RpcError as error:
            code = error.code() if isinstance(error, grpc.Call) else None
            is_other = code is grpc.StatusCode.UNIMPLEMENTED and _OTHER_SERVICE.search(error.details() or "")
            if not is_other and code not in _NO_ANSWER:
                return  # a job service need not describe its options
            description, hint = "another server that speaks gRPC" if is_other else "no answer", ""
            if not is_other and (status := _http_status(endpoint)):
                description = f"a server that speaks HTTP ({status})"
                hint = " Flink's REST interface (port 8081) is --flink_master; the job service (port 8099) is another."
            raise EngineError(
                f"{endpoint}: expected Beam's job service (gRPC), got {description}; nothing was published. "
                f"{advice}{hint}"
            ) from error


def _http_status(address: str) -> str:
    """Returns the status of a server that speaks HTTP/1.1, such as '200 OK'; '' for any other server."""
    host, port = split_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        return f"{answer.status} {answer.reason}"
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def _check_listens(address: str, problem: str, advice: str) -> None:
    """Checks that a TCP connection to an address `host:port` can be opened.

    Args:
        address: the address.
        problem: start of the error message, before the address.
        advice: end of the error message.

    Raises:
        EngineError: no connection was accepted within `CONNECT_SECONDS`.
    """
    try:
        socket.create_connection(split_address(address), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise EngineError(f"{problem} {address} ({error}); nothing was published. {advice}") from error


def _check_starts_worker(pool: str, params: dict[str, str], environment: ExternalEnvironment) -> None:
    """Checks that the pool can start a worker, which connects to this process and is stopped again.

    Beam's own pool starts the command `python` of its PATH. If that lacks Beam, the runner waits forever; if it has
    another version of Beam, or lacks this package, for three minutes at each attempt.

    Args:
        pool: address of the pool.
        params: parameters for the pool.
        environment: environment of the job's stages.

    Raises:
        EngineError: no worker starts, or it cannot execute stages of this process.
    """
    control = _Control(environment, socket.gethostname())
    problem = _start_worker(pool, params, control, "localhost", WORKER_SECONDS)
    if not problem and not control.connected.is_set():
        problem = f"none within {WORKER_SECONDS} s"
    if problem:
        raise _worker_error(pool, problem)


def _check_remote_worker(pool: str, params: dict[str, str], environment: ExternalEnvironment) -> bool:
    """Checks a pool of another machine as `_check_starts_worker` does, if pool and worker can be reached from here.

    Returns whether they can.

    Args:
        pool: address of the pool.
        params: parameters for the pool.
        environment: environment of the job's stages.

    Raises:
        EngineError: a worker has started there that cannot execute stages of this process.
    """
    try:
        with socket.create_connection(split_address(pool), timeout=REMOTE_CONNECT_SECONDS) as connection:
            here = str(connection.getsockname()[0])
    except (OSError, UnicodeError):
        return False  # only the engine reaches it
    control = _Control(environment, split_address(pool)[0])
    problem = _start_worker(pool, params, control, f"[{here}]" if ":" in here else here, REMOTE_WORKER_SECONDS)
    if problem and (control.connected.is_set() or problem.startswith(VERSIONS_DIFFER)):
        raise _worker_error(pool, problem)
    if not control.connected.is_set():
        reason = problem or f"no worker connected to {here} within {REMOTE_WORKER_SECONDS} s"
        print(
            f"The worker pool at {pool}: {reason}, so its versions are not checked before the job. If the job does not "
            "progress, see what the pool printed.",
            file=sys.stderr,
        )
    return control.connected.is_set()


def _start_worker(pool: str, params: dict[str, str], control: _Control, host: str, seconds: float) -> str:
    """Has a pool start a worker and stop it again; returns the problem that the pool or the worker reports, or ''.

    Args:
        pool: address of the pool.
        params: parameters for the pool.
        control: service to which the worker connects.
        host: address of this machine as the worker reaches it.
        seconds: the time that the worker gets to connect; whether it has is `control.connected`.
    """
    name = f"check-{uuid.uuid4().hex[:8]}"
    with _serve_worker(control, host) as url, grpc.insecure_channel(pool) as channel:
        descriptor = endpoints_pb2.ApiServiceDescriptor(url=url)
        service = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        try:
            request = beam_fn_api_pb2.StartWorkerRequest(
                worker_id=name,
                control_endpoint=descriptor,
                logging_endpoint=descriptor,
                provision_endpoint=descriptor,
                params=params,
            )
            problem = str(service.StartWorker(request, timeout=seconds).error)
            if not problem and control.connected.wait(seconds) and control.answered.wait(CONNECT_SECONDS):
                problem = control.problem
        except grpc.RpcError as error:
            problem = str(error.details() if isinstance(error, grpc.Call) else error)
        finally:
            # If the pool does not answer, what follows reports it; the worker ends by itself, as nobody listens to it.
            with contextlib.suppress(grpc.RpcError):
                service.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=name), timeout=CONNECT_SECONDS)
    return problem


def _worker_error(pool: str, problem: str) -> EngineError:
    """Returns the error for a pool at this address whose workers have a problem."""
    if problem.startswith(VERSIONS_DIFFER):
        return EngineError(f"the worker pool at {pool}: {problem} Nothing was published.")
    if _OTHER_SERVICE.search(problem):
        return EngineError(
            f"{pool}: expected a worker pool, got another server ({problem:.100}); nothing was published. "
            "--environment_config is the address of a worker pool: python -m beam_datasets.beam.worker_pool --port PORT"
        )
    return EngineError(
        f"the worker pool at {pool}: expected a worker to start, got: {problem}; nothing was published. "
        "See what the pool printed. Beam's own pool starts the `python` of its PATH, which may lack apache-beam; "
        "python -m beam_datasets.beam.worker_pool starts its own Python."
    )


class _Control(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """Control service of a runner that has one instruction for a worker: to execute a stage without elements.

    This fails on a worker that has another version of Beam or of Python than this process, or another version of this
    package, or lacks it.

    Args:
        environment: environment of the job's stages.
        host: name of the worker's machine, for messages.

    Attributes:
        connected: set once a worker has connected.
        answered: set once it has answered.
        problem: why the worker cannot execute stages of this process; '' if it can.
        url: address at which the worker reaches this service.
    """

    def __init__(self, environment: ExternalEnvironment, host: str) -> None:
        self._environment, self._host = environment, host
        self.connected, self.answered = threading.Event(), threading.Event()
        self.problem = self.url = ""

    def Control(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:
        """Yields the instruction, and waits for the answer; see `BeamFnControlServicer`."""
        self.connected.set()
        stage = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id=_STAGE)
        yield beam_fn_api_pb2.InstructionRequest(instruction_id=_STAGE, process_bundle=stage)
        try:
            self.problem = _stage_problem(next(request_iterator).error, self._host)
        except (grpc.RpcError, StopIteration):
            self.problem = "a worker that ended before it had executed a stage"
        self.answered.set()

    def GetProcessBundleDescriptor(self, request: Any, context: Any) -> Any:
        """Returns the stage; see `BeamFnControlServicer`."""
        pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([]))
        shutil.rmtree(pipeline.local_tempdir)  # only `run` would do it
        _ = pipeline | beam.Impulse() | _STAGE >> beam.ParDo(_CompareVersions(json.dumps(versions())))
        components = pipeline.to_runner_api(default_environment=self._environment).components
        return beam_fn_api_pb2.ProcessBundleDescriptor(
            id=_STAGE,
            transforms={key: each for key, each in components.transforms.items() if each.unique_name == _STAGE},
            pcollections=components.pcollections,
            windowing_strategies=components.windowing_strategies,
            coders=components.coders,
            environments=components.environments,
            state_api_service_descriptor=endpoints_pb2.ApiServiceDescriptor(url=self.url),
        )


class _Silent(beam_fn_api_pb2_grpc.BeamFnStateServicer, beam_fn_api_pb2_grpc.BeamFnLoggingServicer):
    """Services of a runner to which a worker connects, and from which it expects no answers.

    Without them, the worker would print errors, where users look for the reason of other problems.
    """

    def State(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:
        """Yields nothing, and waits for the end of the connection; see `BeamFnStateServicer`."""
        with contextlib.suppress(grpc.RpcError):
            for _ in request_iterator:
                pass
        yield from ()

    Logging = State


class _CompareVersions(beam.DoFn):
    """Fails on a worker whose versions differ from those of the launcher, which it gets as JSON."""

    def __init__(self, launcher: str) -> None:
        self._launcher = launcher

    def setup(self) -> None:
        """Compares the versions."""
        if problem := version_problem(self._launcher):
            raise EngineError(problem)

    def process(self, _: Any) -> None:
        """Does nothing."""


def _stage_problem(error: str, host: str) -> str:
    """Returns why a worker of a machine cannot execute stages of this process, from its error; '' if it can."""
    if runtime := _RUNTIME.search(error):
        worker = {"Python": runtime[1], "apache-beam": runtime[2]}
        return compare_versions(worker, {name: versions()[name] for name in worker}, host)
    if different := re.search(f"{VERSIONS_DIFFER}: [^\n]*", error):
        return different[0]
    return str(reason(RuntimeError(error))) if error else ""


@contextlib.contextmanager
def _serve_worker(control: _Control, host: str) -> Iterator[str]:
    """Serves a worker at an address of this machine until the context ends; provides the URL."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(control, server)
    beam_fn_api_pb2_grpc.add_BeamFnStateServicer_to_server(_Silent(), server)
    beam_fn_api_pb2_grpc.add_BeamFnLoggingServicer_to_server(_Silent(), server)
    control.url = f"{host}:{server.add_insecure_port(f'{host}:0')}"
    server.start()
    try:
        yield control.url
    finally:
        server.stop(None)


def _check_has_no_user(option: str, address: str) -> None:
    """Checks that an address of gRPC has no user and password: no server gets them, and gRPC writes them to logs.

    Args:
        option: name of the option with the address.
        address: the address.

    Raises:
        EngineError: there is a user.
    """
    if "@" in address:
        raise EngineError(
            f"{option}: expected HOST:PORT, got {_without_user(address)}; nothing was published. Servers of gRPC take "
            f"no user or password: leave them out of --{option}."
        )


def _without_user(address: str) -> str:
    """Returns an address without the user and password before its host, for messages.

    >>> _without_user("me:secret@host:8099"), _without_user("host:8099")
    ('***@host:8099', 'host:8099')
    """
    _, at, host = address.rpartition("@")
    return f"***@{host}" if at else address


def split_address(endpoint: str) -> tuple[str, int]:
    """Returns (host, port) of an endpoint: ("::1", 80) for "[::1]:80"; the port is 0 if it is not a number."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


def connect_to_grpc(address: str, seconds: float) -> socket.socket:
    """Returns a connection to a server of gRPC that has answered.

    A forwarder, such as `ssh -L`, accepts connections to a server that does not run, and closes them.

    Args:
        address: address `host:port` of the server.
        seconds: time limit for each of connecting and answering.

    Raises:
        ConnectionError: the connection was refused, or closed without an answer.
        OSError: no connection or no answer within the time limit.
    """
    connection = socket.create_connection(split_address(address), seconds)
    try:
        connection.sendall(_HTTP2_PREFACE)
        if not connection.recv(1):
            raise ConnectionAbortedError(f"{address}: expected an answer of gRPC, got the end of the connection")
    except OSError:
        connection.close()
        raise
    return connection
