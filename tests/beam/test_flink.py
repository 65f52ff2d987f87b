"""What a Flink cluster's REST interface is asked, against a server that answers as a JobManager does."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_datasets.beam import flink
from beam_datasets.beam.engine import choose_engine
from beam_datasets.beam.failures import GenerationError
from beam_datasets.errors import DuplicateKeyError
from tests.end_to_end.engines import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

STUCK = "  at org.apache.beam.runners.fnexecution.environment.ExternalEnvironmentFactory.createEnvironment(E.java:1)"
FAILED = """java.lang.RuntimeException: Error received from SDK harness for instruction 3: \
Traceback (most recent call last):
  File "/site-packages/apache_beam/runners/worker/sdk_worker.py", line 310, in _execute
    response = task()
{} [while running 'Write']
"""


class JobManager:
    """Answers as a JobManager with one running job; its answers can be changed."""

    address: str

    def __init__(self) -> None:
        self.state = "RUNNING"
        self.cancelled = False
        self.looks = 0  # at slots
        self.answers: dict[str, Any] = {
            "/overview": {"flink-version": "1.19.3", "slots-total": 4},
            "/taskmanagers": {"taskmanagers": [{"id": "tm", "path": "pekko.tcp://flink@127.0.0.1:4/user/rpc/tm_0"}]},
            "/jobs/overview": {"jobs": [{"jid": "1", "name": "job-a"}, {"jid": "2", "name": "job-b"}]},
            "/jobs/2/vertices/v": {"subtasks": [{"status": "RUNNING", "taskmanager-id": "tm"}]},
            "/jobs/2/exceptions?maxExceptions=1": {"root-exception": None},
            "/taskmanagers/tm/thread-dump": {
                "threadInfos": [
                    {"threadName": "Encode (1/2)#0", "stringifiedThreadInfo": "at java.lang.Object.wait"},
                    {"threadName": "Somebody else's (1/1)#0", "stringifiedThreadInfo": STUCK},
                ]
            },
        }

    def answer(self, method: str, path: str) -> Any:
        if method == "PATCH":
            assert path == "/jobs/2?mode=cancel"
            self.cancelled, self.state = True, "CANCELED"
            return {}
        if path == "/jobs/2":
            return {"state": self.state, "vertices": [{"id": "v", "name": "Encode", "status": "RUNNING"}]}
        self.looks += path == "/overview"
        return self.answers[path]


@pytest.fixture
def manager() -> Iterator[JobManager]:
    manager = JobManager()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(manager.answer(self.command, self.path)).encode()
            self.send_response(200)
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


def options(manager: Any, *more: str) -> PipelineOptions:
    pool = ["--environment_type=EXTERNAL", "--environment_config=localhost:50000"]
    return PipelineOptions(
        ["--runner=FlinkRunner", f"--flink_master={manager.address}", "--flink_version=1.19", *pool, *more]
    )


def test_options_are_completed(manager: JobManager) -> None:
    engine = choose_engine(options(manager))
    assert engine.options.view_as(PortableOptions).environment_cache_millis == flink.CACHE_MILLIS
    given = choose_engine(options(manager, "--environment_cache_millis=5"))
    assert given.options.view_as(PortableOptions).environment_cache_millis == "5"  # as Beam has it


@pytest.mark.parametrize("master", ["", "[auto]", "[local]"])
def test_a_cluster_that_beam_starts(master: str) -> None:
    engine = choose_engine(["--runner=FlinkRunner", *([f"--flink_master={master}"] if master else [])])
    assert engine.shares_disk
    assert not engine.local


def test_no_environment(manager: Any) -> None:
    with pytest.raises(ValueError, match="--environment_type=EXTERNAL --environment_config=localhost:50000"):
        choose_engine(["--runner=FlinkRunner", f"--flink_master={manager.address}"])


def test_nobody_answers() -> None:
    class Nobody:
        address = f"127.0.0.1:{free_port()}"

    with pytest.raises(flink.FlinkError, match=f"no Flink JobManager answers at http://{Nobody.address} .*refused"):
        choose_engine(options(Nobody))


@pytest.mark.parametrize(
    "answer, told",
    [
        (b"\x00\x00\x12 of gRPC\n", "no Flink JobManager answers"),  # the port of a job server, say
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "no Flink JobManager answers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "no Flink JobManager answers"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "no Flink JobManager answers at .*Not Found"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "is no Flink JobManager"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "is no Flink JobManager"),
    ],
)
def test_somebody_else_answers(answer: bytes, told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        class Other:
            address = f"127.0.0.1:{listening.getsockname()[1]}"

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(flink.FlinkError, match=told):
            choose_engine(options(Other))
        thread.join()


@pytest.mark.parametrize("master", ["localhost:rest", "two words", "nowhere.invalid:8081"])
def test_no_address(master: str) -> None:
    class Nowhere:
        address = master

    with pytest.raises(flink.FlinkError, match=f"no Flink JobManager answers at http://{master}"):
        choose_engine(options(Nowhere))


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
    manager.answers["/overview"] = {"flink-version": "1.20.5"}
    with pytest.raises(flink.FlinkError, match=r"runs Flink 1.20.5, .*--flink_version=1.20"):
        choose_engine(options(manager))
    choose_engine(options(manager, "--job_endpoint=there:8099"))  # whose version is its own affair


@pytest.mark.parametrize(
    "hosts, here",
    [(["127.0.0.1"], True), (["localhost", "127.0.0.1"], True), (["localhost", "10.1.2.3"], False), ([], False)],
)
def test_where_workers_are(manager: JobManager, hosts: list[str], here: bool) -> None:
    paths = [{"path": f"pekko.tcp://flink@{host}:4321/user/rpc/taskmanager_0"} for host in hosts]
    manager.answers["/taskmanagers"] = {"taskmanagers": paths}
    assert choose_engine(options(manager)).shares_disk is here


def attend(manager: JobManager, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Attends a job until it is cancelled, or for some seconds."""
    monkeypatch.setattr(flink, "_LOOK_SECONDS", 0.05)
    given = options(manager, "--worker_start_seconds=0", "--parallelism=4")
    cluster = flink.cluster_of(given)
    assert cluster is not None
    with flink.attended("job-b", given, cluster):
        deadline = time.monotonic() + seconds
        while not manager.cancelled and time.monotonic() < deadline:
            time.sleep(0.01)
        if manager.cancelled:
            raise RuntimeError("Pipeline job-b failed in state CANCELLED")


def test_a_job_that_works_is_left_alone(manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    attend(manager, monkeypatch, 1)
    assert not manager.cancelled


def test_a_worker_that_does_not_start(manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.answers["/taskmanagers/tm/thread-dump"]["threadInfos"][0]["stringifiedThreadInfo"] = STUCK
    with pytest.raises(flink.FlinkError, match="did not bring up a worker within 0 s"):
        attend(manager, monkeypatch, 30)
    assert manager.cancelled


def test_an_error_that_stays(manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = FAILED.format("beam_datasets.errors.DuplicateKeyError: split 'train': twice")
    manager.answers["/jobs/2/exceptions?maxExceptions=1"] = {"root-exception": failed}
    with pytest.raises(DuplicateKeyError, match="^split 'train': twice$"):
        attend(manager, monkeypatch, 30)
    assert manager.cancelled


@pytest.mark.parametrize("error", ["beam_datasets.errors.StorageError: s3: 503", "OSError: no space", "ValueError: x"])
def test_an_error_that_may_pass(manager: JobManager, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    manager.answers["/jobs/2/exceptions?maxExceptions=1"] = {"root-exception": FAILED.format(error)}
    attend(manager, monkeypatch, 1)
    assert not manager.cancelled


def test_a_worker_without_the_project(manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = FAILED.format("ModuleNotFoundError: No module named 'beam_datasets'")
    manager.answers["/jobs/2/exceptions?maxExceptions=1"] = {"root-exception": failed}
    with pytest.raises(GenerationError, match="^ModuleNotFoundError: No module named 'beam_datasets'"):
        attend(manager, monkeypatch, 30)
    assert manager.cancelled


NO_SLOTS = "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire"


def test_more_slots_than_there_are(manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.answers["/overview"]["slots-total"] = 2
    manager.answers["/jobs/2/exceptions?maxExceptions=1"] = {"root-exception": NO_SLOTS}
    with pytest.raises(flink.FlinkError, match="the cluster has 2 slots, --parallelism is 4"):
        attend(manager, monkeypatch, 30)
    assert manager.cancelled


def test_slots_that_may_come_again(manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a TaskManager that is lost; had there been too few from the beginning, the job would be cancelled."""
    monkeypatch.setattr(flink, "_LOOK_SECONDS", 0.05)
    given = options(manager, "--parallelism=4")
    with flink.attended("job-b", given, flink.cluster_of(given)):
        while not manager.looks:
            time.sleep(0.01)
        manager.answers["/overview"]["slots-total"] = 0
        manager.answers["/jobs/2/exceptions?maxExceptions=1"] = {"root-exception": NO_SLOTS}
        time.sleep(0.5)
    assert not manager.cancelled


def test_no_pool_beside_a_task_manager(manager: JobManager) -> None:
    given = options(manager)
    cluster = flink.cluster_of(given)
    assert cluster is not None
    refused = RuntimeError("Pipeline job-b failed in state FAILED: java.net.ConnectException: Connection refused")
    with (
        pytest.raises(flink.FlinkError, match="found no worker pool at localhost:50000") as raised,
        flink.attended("job-b", given, cluster),
    ):
        raise refused
    assert raised.value.__cause__ is refused


def test_which_tasks_wait_for_workers(manager: JobManager) -> None:
    """Of this job's running tasks alone, in a few TaskManagers only."""
    cluster = flink.FlinkCluster(f"http://{manager.address}")
    dump = manager.answers["/taskmanagers/tm/thread-dump"]["threadInfos"]
    assert cluster.waits_for_workers("2") == set()
    dump[0]["stringifiedThreadInfo"] = STUCK
    assert cluster.waits_for_workers("2") == {"Encode (1/2)#0"}
    [subtask] = manager.answers["/jobs/2/vertices/v"]["subtasks"]
    subtask["status"] = "DEPLOYING"
    assert cluster.waits_for_workers("2") == set()
    names = [f"tm{i}" for i in range(9)]
    subtasks = [{"status": "RUNNING", "taskmanager-id": name} for name in names]
    manager.answers["/jobs/2/vertices/v"]["subtasks"] = subtasks
    for number, name in enumerate(names):
        info = {"threadName": f"Encode ({number})", "stringifiedThreadInfo": STUCK}
        manager.answers[f"/taskmanagers/{name}/thread-dump"] = {"threadInfos": [info]}
    assert cluster.waits_for_workers("2") == {f"Encode ({number})" for number in range(4)}


def test_an_interrupted_launcher(manager: JobManager) -> None:
    given = options(manager)
    cluster = flink.cluster_of(given)
    assert cluster is not None
    with pytest.raises(KeyboardInterrupt), flink.attended("job-b", given, cluster):
        raise KeyboardInterrupt
    assert manager.cancelled


def test_a_manager_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        address = f"127.0.0.1:{free_port()}"

    monkeypatch.setattr(flink, "_LOOK_SECONDS", 0.01)
    given = options(Gone)
    cluster = flink.cluster_of(given)
    assert cluster is not None

    def wait() -> None:
        with flink.attended("job-b", given, cluster):
            time.sleep(0.2)
            raise RuntimeError("as it was")

    with pytest.raises(RuntimeError, match="as it was"):
        wait()
