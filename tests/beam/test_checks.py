"""What an engine is asked before a job: servers on loopback, and one that answers as a JobManager of Flink does."""

import contextlib
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PortableOptions, WorkerOptions
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
)
from apache_beam.transforms.environments import ExternalEnvironment

from beam_datasets.engines import checks, flink
from beam_datasets.engines.engine import check_paths_are_shared, choose_engine
from beam_datasets.engines.worker_pool import WorkerPool
from beam_datasets.options import EngineOptions
from tests.engines.jobs import own_pool, pool_of
from tests.servers import free_port

JOBS = [("1", "a"), ("2", "b")]
ELSEWHERE = "127.0.0.2"  # an address of loopback that stands for another machine


def portable(**given: str) -> PipelineOptions:
    return PipelineOptions(["--runner=PortableRunner", *(f"--{name}={value}" for name, value in given.items())])


class Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """A pool that starts no worker, and reports this error.

    Attributes:
        names: of the workers that it was asked to start, then of those that it was asked to stop.
    """

    def __init__(self, error: str) -> None:
        self.error = error
        self.names: list[str] = []

    def StartWorker(self, request: Any, context: Any) -> Any:
        self.names.append(request.worker_id)
        return beam_fn_api_pb2.StartWorkerResponse(error=self.error)

    def StopWorker(self, request: Any, context: Any) -> Any:
        self.names.append(request.worker_id)
        return beam_fn_api_pb2.StopWorkerResponse()


def pool(address: str) -> PipelineOptions:
    return portable(environment_type="EXTERNAL", environment_config=address)


@contextlib.contextmanager
def serving(*servicers: tuple[Callable[..., Any], Any], host: str = "127.0.0.1") -> Iterator[str]:
    """Runs a gRPC server of some services, and yields its address."""
    server = grpc.server(futures.ThreadPoolExecutor())
    for add, servicer in servicers:
        add(servicer, server)
    name = "localhost" if host == "127.0.0.1" else host
    address = f"{name}:{server.add_insecure_port(f'{host}:0')}"
    server.start()
    yield address
    server.stop(None).wait()


class JobService(beam_job_api_pb2_grpc.JobServiceServicer):
    """A job service that describes its options, or not."""

    def __init__(self, describes: bool) -> None:
        self.describes = describes

    def DescribePipelineOptions(self, request: Any, context: Any) -> Any:
        if not self.describes:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "not here")
        return beam_job_api_pb2.DescribePipelineOptionsResponse()


@pytest.mark.parametrize(
    "level, sent", [("WARNING", "WARN"), ("warning", "WARN"), ("30", "WARN"), ("CRITICAL", "ERROR"), ("DEBUG", "DEBUG")]
)
@pytest.mark.parametrize("runner", ["FlinkRunner", "SparkRunner"])
def test_names_of_log_levels_are_those_of_java(runner: str, level: str, sent: str) -> None:
    """A job server in Java fails with those of Python, and says no more than INTERNAL."""
    words = [f"--runner={runner}", "--job_endpoint=localhost:1", "--environment_type=EXTERNAL"]
    engine = choose_engine(EngineOptions([*words, f"--default_sdk_harness_log_level={level}"]))
    assert engine.options.view_as(WorkerOptions).default_sdk_harness_log_level == sent
    checks.send_parameters(engine.options)
    with pytest.raises(ValueError, match="expected DEBUG, INFO, WARNING or ERROR, got 'loud'"):
        choose_engine(EngineOptions([*words, "--default_sdk_harness_log_level=loud"]))


@pytest.mark.parametrize("describes", [True, False])
def test_a_job_service_that_answers(describes: bool) -> None:
    with serving((beam_job_api_pb2_grpc.add_JobServiceServicer_to_server, JobService(describes))) as endpoint:
        checks.check_servers(portable(job_endpoint=endpoint), is_pool_here=True)


def test_a_job_endpoint_of_flinks_rest_interface(manager: "JobManager") -> None:
    """Beam would repeat its question for five minutes, and then fail without a reason."""
    began = time.monotonic()
    manager.answers["/"] = "a page"
    with pytest.raises(checks.EngineError, match=r"job service \(gRPC\), got a server that speaks HTTP \(200 OK\)"):
        checks.check_servers(portable(job_endpoint=manager.address), is_pool_here=True)
    assert time.monotonic() < began + checks.CONNECT_SECONDS


def test_addresses_that_are_exchanged(manager: "JobManager") -> None:
    """A server of gRPC without the service answers as one that need not describe its options."""
    with serving((beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server, Pool(""))) as address:
        with pytest.raises(checks.EngineError, match="expected Beam's job service .* another server that speaks gRPC"):
            checks.check_servers(portable(job_endpoint=address), is_pool_here=True)
        with pytest.raises(checks.EngineError, match=r"no Flink JobManager answers at .* \(its answer is not HTTP\)"):
            flink.FlinkCluster(f"http://{address}").get("overview")
    with serving((beam_job_api_pb2_grpc.add_JobServiceServicer_to_server, JobService(True))) as address:
        for other in (address, manager.address):
            with pytest.raises(checks.EngineError, match=f"{other}: expected a worker pool, got another server"):
                checks.check_servers(pool(other), is_pool_here=True)


def test_a_job_endpoint_of_a_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(checks.EngineError, match=rf"{endpoint}: expected Beam's job service .*, got no answer"):
            checks.check_servers(portable(job_endpoint=endpoint), is_pool_here=True)


@pytest.mark.parametrize(
    "name, version, message",
    [
        ("apache-beam", "2.66.0", r"has apache-beam 2\.66\.0, and the launcher 2\.\d+"),
        ("Python", "3.9", r"has Python 3\.9, and the launcher 3\.1\d"),
        ("beam_datasets", "0.0.1", r"has beam_datasets 0\.0\.1, and the launcher \d"),
    ],
)
def test_a_pool_of_other_versions_starts_no_worker(
    name: str, version: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam's runners do not compare them: a worker of another version of Beam ends, or waits for ever."""
    given = pool("localhost:1")
    checks.send_parameters(given)
    params = checks.pool_of(given)[1]
    own = checks.versions()
    monkeypatch.setattr(checks, "versions", lambda: {**own, name: version})
    with serving((beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server, WorkerPool())) as address:
        asked = pool(json.dumps({"url": address, "params": params}))
        with pytest.raises(checks.EngineError, match=rf"the worker pool at {address}: .*{message}"):
            checks.check_servers(asked, is_pool_here=True)


@pytest.mark.parametrize(
    "config", ["localhost:1", "http://localhost:1", '{"url": "localhost:1", "params": {"a": "b"}}']
)
def test_versions_are_sent_to_pools(config: str) -> None:
    """Beam passes the parameters of the environment to each pool that it asks for a worker."""
    given = pool(config)
    checks.send_parameters(given)
    given.view_as(DebugOptions).add_experiment("disable_logging_submission_environment")  # spares a `pip freeze`
    environment = ExternalEnvironment.from_options(given.view_as(PortableOptions))
    assert environment.url == "localhost:1"
    assert json.loads(environment.params[checks.VERSIONS]) == checks.versions()
    assert ("a" in environment.params) == ("params" in config)
    assert checks.version_problem(environment.params[checks.VERSIONS]) == ""


@pytest.mark.slow
def test_pools_that_start_workers(tmp_path: Path) -> None:
    with own_pool(tmp_path) as ours, pool_of(f'exec {sys.executable} "$@"', tmp_path) as beams:
        for address in (ours.options[-1].partition("=")[2], beams):
            checks.check_servers(pool(address), is_pool_here=True)
    [log] = tmp_path.glob("pool-*.log")
    assert " starts" in log.read_text()
    for problem in ("Traceback", "failed", "no longer"):  # a user would take it for the reason of another problem
        assert problem not in log.read_text()


@pytest.mark.slow
def test_a_pool_of_beam_with_another_beam(tmp_path: Path) -> None:
    """Only its worker compares versions; a Java runner would wait for it for three minutes, at each attempt."""
    code = (
        "import sys, apache_beam.version as v; v.__version__ = '2.66.0'; "
        "from apache_beam.runners.worker import sdk_worker_main; exec(sys.argv[2])"
    )
    with pool_of(f'exec {sys.executable} -c "{code}" "$@"', tmp_path) as address:
        message = rf"the worker pool at {address}: versions differ: .* has apache-beam 2\.66\.0, and the launcher 2\."
        with pytest.raises(checks.EngineError, match=message) as raised:
            checks.check_servers(pool(address), is_pool_here=True)
    assert "expected a worker" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["localhost", ELSEWHERE])
def test_a_pool_whose_python_lacks_the_project(tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "REMOTE_WORKER_SECONDS", checks.WORKER_SECONDS)
    hiding = tmp_path / "hiding" / "beam_datasets"
    hiding.mkdir(parents=True)
    (hiding / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'beam_datasets'\")\n")
    python = f'cd {hiding.parent} && PYTHONPATH={hiding.parent} exec {sys.executable} "$@"'
    message = "got: ModuleNotFoundError: No module named 'beam_datasets'. Workers need this project"
    with pool_of(python, tmp_path) as address, pytest.raises(checks.EngineError, match=message):
        checks.check_servers(pool(address.replace("localhost", host)), is_pool_here=host == "localhost")


@pytest.mark.slow
def test_a_pool_whose_python_lacks_beam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error: the runner would wait for its workers for ever."""
    monkeypatch.setattr(checks, "WORKER_SECONDS", 2)
    with pool_of(f'exec {sys.executable} -S "$@"', tmp_path) as address:
        with pytest.raises(checks.EngineError, match="none within 2 s; nothing was published"):
            checks.check_servers(pool(address), is_pool_here=True)
        checks.check_servers(pool(address), is_pool_here=False)
    assert "No module named 'apache_beam'" in (tmp_path / "pool.log").read_text()


@pytest.mark.parametrize("error, message", [("", "none within 0.2 s"), ("out of memory", "got: out of memory")])
def test_a_pool_that_starts_no_worker(error: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "WORKER_SECONDS", 0.2)
    server, idle = grpc.server(futures.ThreadPoolExecutor()), Pool(error)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(idle, server)
    address = f"localhost:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with pytest.raises(checks.EngineError, match=f"the worker pool at {address}: .*{message}"):
            checks.check_servers(pool(address), is_pool_here=True)
    finally:
        server.stop(None).wait()
    started, stopped = idle.names
    assert started == stopped


@pytest.mark.parametrize("error", ["", "out of memory", "worker 1 ended"])
def test_a_pool_of_another_machine_whose_worker_does_not_connect(
    error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A firewall may be the reason, and the engine may reach the pool nevertheless."""
    monkeypatch.setattr(checks, "REMOTE_WORKER_SECONDS", 0.2)
    idle = Pool(error)
    add = beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server
    with serving((add, idle), host=ELSEWHERE) as address:
        checks.check_servers(pool(address), is_pool_here=False)
    assert f"The worker pool at {address}: {error or 'no worker connected to 127.'}" in capsys.readouterr().err
    started, stopped = idle.names
    assert started == stopped


def test_a_pool_of_another_machine_with_other_versions() -> None:
    add = beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server
    error = f"{checks.VERSIONS_DIFFER}: the worker on tm-1 has apache-beam 2.66.0, and the launcher 2.77.0."
    expected = pytest.raises(checks.EngineError, match=rf"the worker pool at {ELSEWHERE}:\d+: {error} Nothing was")
    with serving((add, Pool(error)), host=ELSEWHERE) as address, expected:
        checks.check_servers(pool(address), is_pool_here=False)


def test_a_server_that_is_not_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "WORKER_SECONDS", 0.2)
    monkeypatch.setattr(checks, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(checks.EngineError, match=f"the worker pool at {address}: expected a worker to start"):
            checks.check_servers(pool(address), is_pool_here=True)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"job_endpoint": "embed"},
        {"environment_type": "LOOPBACK"},
        {"environment_type": "DOCKER", "environment_config": "image"},
        {"environment_type": "EXTERNAL", "environment_config": "nowhere.invalid:50000"},  # cannot be asked from here
    ],
)
def test_what_is_not_asked(given: dict[str, str]) -> None:
    checks.check_servers(portable(**given), is_pool_here=True)


def test_a_check_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    add = beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server
    with serving((add, Pool("out of memory"))) as address, pytest.raises(checks.EngineError, match="out of memory"):
        checks.check_servers(pool(address), is_pool_here=True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:1", "nowhere.invalid:8099", "localhost", "localhost:jobs"])
def test_no_server(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CONNECT_SECONDS", 0.1)
    with pytest.raises(checks.EngineError, match=f"no job service listens at {endpoint}"):
        checks.check_servers(portable(job_endpoint=endpoint), is_pool_here=True)
    checks.check_servers(pool(endpoint), is_pool_here=False)
    if endpoint.startswith(("127", "localhost:")):
        with pytest.raises(checks.EngineError, match=f"found no worker pool at {endpoint}"):
            checks.check_servers(pool(endpoint), is_pool_here=True)


class JobManager:
    """Answers as a JobManager with one running job; its answers can be changed."""

    address: str

    def __init__(self) -> None:
        self.state = "RUNNING"
        self.status = 200
        self.cancelled = False
        self.answers: dict[str, Any] = {
            "/overview": {"flink-version": "1.19.3", "slots-total": 4, "slots-available": 4, "taskmanagers": 2},
            "/jobmanager/config": [{"key": "rest.port", "value": "8081"}],
            "/taskmanagers": {"taskmanagers": [{"id": "tm", "path": "pekko.tcp://flink@127.0.0.1:4/user/rpc/tm_0"}]},
        }

    def answer(self, method: str, path: str) -> Any:
        if method == "PATCH":
            assert path == "/jobs/2?mode=cancel"
            self.cancelled, self.state = True, "CANCELED"
            return {}
        if path == "/jobs/overview":
            jobs = [
                {"jid": number, "name": f"job-{name}", "state": self.state, "start-time": 1} for number, name in JOBS
            ]
            return {"jobs": jobs}
        return self.answers[path]


@pytest.fixture
def manager() -> Iterator[JobManager]:
    manager = JobManager()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(manager.answer(self.command, self.path)).encode()
            self.send_response(manager.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PATCH = do_GET

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    manager.address = f"127.0.0.1:{server.server_port}"
    yield manager
    server.shutdown()
    server.server_close()
    thread.join()


def options(address: str, *more: str) -> PipelineOptions:
    pool = ["--environment_type=EXTERNAL", "--environment_config=localhost:50000"]
    return PipelineOptions(["--runner=FlinkRunner", f"--flink_master={address}", "--flink_version=1.19", *pool, *more])


def test_options_are_completed(manager: JobManager) -> None:
    engine = choose_engine(EngineOptions(options(manager.address)))
    assert engine.options.view_as(PortableOptions).environment_cache_millis == flink.CACHE_MILLIS
    given = choose_engine(EngineOptions(options(manager.address, "--environment_cache_millis=5")))
    assert given.options.view_as(PortableOptions).environment_cache_millis == "5"  # as Beam has it


@pytest.mark.parametrize("master", ["", "[auto]", "[local]"])
def test_a_cluster_that_beam_starts(master: str) -> None:
    engine = choose_engine(EngineOptions(["--runner=FlinkRunner", *([f"--flink_master={master}"] if master else [])]))
    assert engine.shares_disk
    assert not engine.local


def test_no_environment(manager: Any) -> None:
    with pytest.raises(ValueError, match="--environment_type=EXTERNAL --environment_config=localhost:50000"):
        choose_engine(EngineOptions(["--runner=FlinkRunner", f"--flink_master={manager.address}"]))


@pytest.mark.parametrize("master", ["", "localhost:rest", "two words", "nowhere.invalid:8081"])
def test_nobody_answers(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink, "AWAY_SECONDS", 0 if not master else flink.AWAY_SECONDS)  # others cannot be right
    address = master or f"127.0.0.1:{free_port()}"
    why = "" if master else " .*refused"
    with pytest.raises(checks.EngineError, match=f"no Flink JobManager answers at http://{address}{why}"):
        choose_engine(EngineOptions(options(address)))


@pytest.mark.parametrize(
    "answer, told",
    [
        (b"\x00\x00\x12 of gRPC\n", "no Flink JobManager answers"),  # the port of a job server, say
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "no Flink JobManager answers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "no Flink JobManager answers"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "no Flink JobManager answers at .*Not Found"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "expected a Flink JobManager, got an answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "expected a Flink JobManager, got an answer"),
    ],
)
def test_another_server_answers(answer: bytes, told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(checks.EngineError, match=told):
            choose_engine(EngineOptions(options(f"127.0.0.1:{listening.getsockname()[1]}")))
        thread.join()


@pytest.mark.parametrize(
    "runner, master, url",
    [
        ("FlinkRunner", "host:8081", "http://host:8081"),
        ("flink", "host:8081/", "http://host:8081"),
        ("FlinkRunner", "https://host/flink", "https://host/flink"),
        ("apache_beam.runners.portability.flink_runner.FlinkRunner", " host:8081 ", "http://host:8081"),
        ("PortableRunner", "host:8081", None),
        ("FlinkRunner", "[auto]", None),
    ],
)
def test_where_the_cluster_is(runner: str, master: str, url: str | None) -> None:
    cluster = flink.cluster_of(PipelineOptions([f"--runner={runner}", f"--flink_master={master}"]))
    assert (cluster and cluster.url) == url


def test_another_version(manager: JobManager) -> None:
    manager.answers["/overview"]["flink-version"] = "1.20.5"
    with pytest.raises(checks.EngineError, match=r"1.20.5, got .*--flink_version=1.20"):
        choose_engine(EngineOptions(options(manager.address)))
    choose_engine(
        EngineOptions(options(manager.address, "--job_endpoint=there:8099"))
    )  # whose version is its own affair


@pytest.mark.parametrize(
    "hosts, here",
    [(["127.0.0.1"], True), (["localhost", "127.0.0.1"], True), (["localhost", "10.1.2.3"], False), ([], False)],
)
def test_where_workers_are(manager: JobManager, hosts: list[str], here: bool) -> None:
    paths = [{"path": f"pekko.tcp://flink@{host}:4321/user/rpc/taskmanager_0"} for host in hosts]
    manager.answers["/taskmanagers"] = {"taskmanagers": paths}
    assert choose_engine(EngineOptions(options(manager.address))).shares_disk is here


def test_a_local_path_and_no_task_manager(manager: JobManager) -> None:
    """Whether the workers see it depends on where TaskManagers are, of which there are none yet."""
    engine = choose_engine(EngineOptions(options(manager.address)))
    check_paths_are_shared(engine, {"data_dir": "/data"})
    manager.answers["/taskmanagers"] = {"taskmanagers": []}
    engine = choose_engine(EngineOptions(options(manager.address)))
    with pytest.raises(checks.EngineError, match="data_dir is '/data', and the Flink cluster at .* has no TaskManager"):
        check_paths_are_shared(engine, {"data_dir": "/data"})
    check_paths_are_shared(engine, {"data_dir": "s3://bucket-without-options/data"})


def test_more_slots_than_the_cluster_has(manager: JobManager) -> None:
    """Flink would wait for minutes, and hold all slots meanwhile."""
    choose_engine(EngineOptions(options(manager.address, "--parallelism=4")))
    too_many = options(manager.address, "--parallelism=16")
    with pytest.raises(checks.EngineError, match=r"expected at most 4, the slots of .* \(TaskManagers: 2\), got 16"):
        choose_engine(EngineOptions(too_many))
    choose_engine(
        EngineOptions(options(manager.address, "--parallelism=16", "--execution_mode_for_batch=BATCH_FORCED"))
    )
    manager.answers["/jobmanager/config"] = [{"key": "kubernetes.cluster-id", "value": "datasets"}]
    choose_engine(EngineOptions(too_many))  # whose TaskManagers may be started for the job


@pytest.mark.parametrize("status", [500, 503])  # of a JobManager that starts, or waits to be the one that leads
def test_a_job_manager_that_is_started_again(manager: JobManager, monkeypatch: Any, capsys: Any, status: int) -> None:
    """Its TaskManagers register a little later."""
    overview = manager.answers["/overview"]
    manager.status, overview["slots-total"], waits = status, 0, []

    def it_starts(seconds: float) -> None:
        waits.append(seconds)
        manager.status = status if len(waits) < 2 else 200
        overview["slots-total"] = 4 if len(waits) == 4 else len(waits) // 2

    monkeypatch.setattr(flink.time, "sleep", it_starts)
    choose_engine(EngineOptions(options(manager.address, "--parallelism=4")))
    assert len(waits) == 4
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"FlinkRunner: waiting for up to 30 s: no Flink JobManager answers at http://{manager.address} "
    )
    manager.status = status
    waits.clear()
    flink.await_slots(flink.FlinkCluster(f"http://{manager.address}"), options(manager.address, "--parallelism=4"))
    assert len(waits) == 2


def test_a_job_manager_that_stays_away(manager: JobManager, monkeypatch: Any) -> None:
    """Also one that comes back without enough TaskManagers: the time is limited."""
    seconds, statuses = [0.0], iter([*[503] * flink.AWAY_SECONDS, 200])

    def sleep(duration: float) -> None:
        seconds[0] += duration
        manager.status = next(statuses, 200)

    monkeypatch.setattr(flink, "time", SimpleNamespace(monotonic=lambda: seconds[0], sleep=sleep))
    manager.status = 503
    with pytest.raises(checks.EngineError, match="no Flink JobManager answers"):
        choose_engine(EngineOptions(options(manager.address)))
    assert seconds == [flink.AWAY_SECONDS]
    with pytest.raises(checks.EngineError, match="expected at most 4, the slots of"):
        choose_engine(EngineOptions(options(manager.address, "--parallelism=16")))
    assert seconds == [2 * flink.AWAY_SECONDS]


def test_slots_of_another_job(manager: JobManager, monkeypatch: Any, capsys: Any) -> None:
    """A job waits until they are free, and says so."""
    overview = manager.answers["/overview"]
    overview["slots-available"] = 1
    waits: list[float] = []

    def another_job_ends(seconds: float) -> None:
        waits.append(seconds)
        overview["slots-available"] = len(waits)

    monkeypatch.setattr(flink.time, "sleep", another_job_ends)
    given = options(manager.address, "--parallelism=4")
    flink.await_slots(flink.FlinkCluster(f"http://{manager.address}"), given)
    assert len(waits) == 4
    assert capsys.readouterr().err == f"FlinkRunner: waiting for 4 free slots of http://{manager.address}, free: 1\n"


def test_a_job_is_found_by_its_name(manager: JobManager) -> None:
    cluster = flink.FlinkCluster(f"http://{manager.address}")
    assert not cluster.has_ended("job-b")
    for name in ("job-c", "job-b"):
        cluster.cancel(name)
        assert manager.cancelled == (name == "job-b")
    assert cluster.has_ended("job-b")


def test_local_workers_are_as_many_as_this_process_may_use(monkeypatch):
    """The machine may have more cores than the affinity or the control group of a container allow."""
    monkeypatch.setattr("beam_datasets.engines.engine.usable_cores", lambda: 3)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    for asked, expected in ((None, 3), (0, 3), (5, 5)):
        engine = choose_engine(EngineOptions(None, num_workers=asked))
        assert engine.num_workers == expected


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({}, "got none: Flink repeats nothing"),
        ({"restart-strategy": "off"}, "got off: Flink repeats nothing"),
        ({"restart-strategy.type": "fixed-delay"}, "got fixed-delay: each task that fails with a worker counts"),
        ({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"}, ""),
        ({"restart-strategy.type": "exponential-delay"}, ""),
        ({"restart-strategy.type": "failure-rate"}, ""),
    ],
)
def test_what_a_cluster_repeats(manager: JobManager, settings: dict[str, str], problem: str) -> None:
    manager.answers["/jobmanager/config"] = [{"key": name, "value": value} for name, value in settings.items()]
    told = flink.FlinkCluster(f"http://{manager.address}").restart_problem()
    assert problem in told
    assert bool(told) == bool(problem)


@pytest.mark.parametrize(
    "settings, millis",
    [
        ({}, flink.CACHE_MILLIS),
        ({"restart-strategy.fixed-delay.delay": "1 min"}, flink.CACHE_MILLIS),
        ({"restart-strategy.fixed-delay.delay": "10 s"}, 3333),
        ({"restart-strategy.exponential-delay.initial-backoff": "1500ms"}, 500),
        ({"restart-strategy.fixed-delay.delay": "soon"}, flink.CACHE_MILLIS),
    ],
)
def test_no_worker_is_cached_beyond_a_restart(manager: JobManager, settings: dict[str, str], millis: int) -> None:
    """Beam's runner would use the worker of before, which may be dead, so that the restart fails at once."""
    manager.answers["/jobmanager/config"] = [{"key": name, "value": value} for name, value in settings.items()]
    engine = choose_engine(EngineOptions(options(manager.address)))
    assert engine.options.view_as(PortableOptions).environment_cache_millis == millis


class EndedStream:
    """The answers of a worker whose connection breaks."""

    def __next__(self):
        raise grpc.RpcError


@pytest.mark.parametrize("answers", [iter(()), EndedStream()], ids=["closed", "broken"])
def test_a_worker_that_ends_before_it_answers_is_a_problem(answers):
    """Its silence is no success: the job would wait for it."""
    control = checks._Control(ExternalEnvironment("localhost:1"), "tm-1")
    instructions = control.Control(answers, None)
    next(instructions)
    assert not control.answered.is_set()
    assert list(instructions) == []
    assert control.answered.is_set()
    assert "ended before it had executed a stage" in control.problem
