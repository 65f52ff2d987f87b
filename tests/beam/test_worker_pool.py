"""The pool of workers as a runner asks it, and as a program."""

import contextlib
import errno
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, ClassVar

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, beam_runner_api_pb2, endpoints_pb2

from beam_datasets.engines import checks, worker_pool

WORKER_SECONDS = 60

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, and at Linux's loopback addresses")


@pytest.fixture
def pool() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A pool that runs as a program, and its port."""
    command = [sys.executable, "-m", "beam_datasets.beam.worker_pool", "--port", "0"]  # any that is free
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told.startswith("Worker pool listening on 127.0.0.1:"), told
        yield process, int(told.rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


def ask(port: int, kind: str, worker: str, runner: str = "") -> Any:
    """Asks a pool to start or to stop a worker of a runner."""
    service = endpoints_pb2.ApiServiceDescriptor(url=runner)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        if kind == "stop":
            return stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=worker), timeout=WORKER_SECONDS)
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id=worker, control_endpoint=service)
        return stub.StartWorker(request, timeout=WORKER_SECONDS)


class FailingStage(beam_fn_api_pb2_grpc.BeamFnControlServicer, beam_fn_api_pb2_grpc.BeamFnDataServicer):
    """A runner as Beam's in Java: it looks at the answer once the worker has opened its connection for elements.

    Args:
        prepare: called when the worker has connected, before it gets the stage.

    Attributes:
        port: of this server.
        connected: set once the connection is open.
        error: of the answer.
    """

    def __init__(self, prepare: Callable[[], object] = lambda: None) -> None:
        self._prepare = prepare
        self.port = 0
        self.connected, self.ended = threading.Event(), threading.Event()
        self.error = ""

    def Control(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        self._prepare()
        stage = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id="stage")
        yield beam_fn_api_pb2.InstructionRequest(instruction_id="1", process_bundle=stage)
        answer = next(request_iterator)
        if self.connected.wait(WORKER_SECONDS / 10):
            self.error = answer.error
        self.ended.set()

    def GetProcessBundleDescriptor(self, request: Any, context: Any) -> Any:
        port = beam_fn_api_pb2.RemoteGrpcPort()
        port.api_service_descriptor.url = f"localhost:{self.port}"
        read = beam_runner_api_pb2.FunctionSpec(urn="beam:runner:source:v1", payload=port.SerializeToString())
        code = beam_runner_api_pb2.FunctionSpec(urn="beam:transform:pardo:v1", payload=b"cannot be unpickled")
        transforms = {
            name: beam_runner_api_pb2.PTransform(unique_name=name, spec=s) for name, s in [("r", read), ("c", code)]
        }
        return beam_fn_api_pb2.ProcessBundleDescriptor(id="stage", transforms=transforms)

    def Data(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        self.connected.set()
        for _ in request_iterator:
            pass
        return
        yield


@contextlib.contextmanager
def serving(stage: FailingStage) -> Iterator[str]:
    """Runs the services of a runner until the context ends; yields their address."""
    server = grpc.server(futures.ThreadPoolExecutor(8))
    beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(stage, server)
    beam_fn_api_pb2_grpc.add_BeamFnDataServicer_to_server(stage, server)
    stage.port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{stage.port}"
    finally:
        server.stop(None).wait()


def test_an_error_before_the_first_element_is_answered(pool: tuple[subprocess.Popen[str], int]) -> None:
    """Such as a package that is not installed; Beam's runners in Java would wait for three minutes before they look."""
    stage = FailingStage()
    with serving(stage) as address:
        assert not ask(pool[1], "start", "1-1", address).error
        assert stage.ended.wait(WORKER_SECONDS)
    assert "Traceback" in stage.error


@pytest.mark.slow
def test_a_worker_that_is_killed_before_its_first_stage_is_answered(pool: tuple[subprocess.Popen[str], int]) -> None:
    """It opens no connection for elements, so Beam's runners in Java would wait for three minutes."""
    victims = []

    def kill_worker() -> None:
        [victim] = workers_of(pool[0])
        os.kill(victim, signal.SIGKILL)
        victims.append(victim)

    stage = FailingStage(kill_worker)
    with serving(stage) as address:
        assert not ask(pool[1], "start", "1-1", address).error
        assert stage.ended.wait(WORKER_SECONDS)
    process = f"1-1 (pid {victims[0]} on {socket.gethostname()})"
    killed = "signal 9 (SIGKILL), as the system does when memory is short"
    assert stage.error == f"a worker process died: {process}: {killed}"


class Control(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """A runner's control service, which has no work for its workers."""

    def Control(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        for _ in request_iterator:
            pass
        return
        yield


@contextlib.contextmanager
def runner() -> Iterator[str]:
    """Runs a control service, and yields its address."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(Control(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None)


def processes_below(pid: int) -> set[int]:
    """Returns the processes that a process has started, and those that these have."""
    told = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, told.splitlines())}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def workers_of(pool: subprocess.Popen[str]) -> set[int]:
    """Returns the worker processes of a pool, which its server of forks has started."""
    return set().union(*map(processes_below, processes_below(pool.pid)))


def gone(pids: set[int]) -> bool:
    """Returns whether processes end, within some time."""
    deadline = time.monotonic() + WORKER_SECONDS
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
def test_workers_come_and_end_with_the_pool(pool: tuple[subprocess.Popen[str], int]) -> None:
    process, port = pool
    with runner() as control:
        for worker in ("1-1", "1-2"):
            assert not ask(port, "start", worker, control).error
        started = processes_below(process.pid)
        process.send_signal(signal.SIGTERM)
        _, complained = process.communicate(timeout=WORKER_SECONDS)
    assert process.returncode == 0, complained
    assert "worker 1-2 of localhost:" in complained
    assert gone(started)


def test_a_worker_that_ends_before_it_connects_is_an_error() -> None:
    """Beam's runner waits for ever for a worker whose pool has said that it has started.

    Nobody may ask for workers that have ended to be stopped, or does from another connection: they are forgotten.
    """
    pool = worker_pool.WorkerPool()
    for number in range(3):
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id=f"1-{number}")
        request.control_endpoint.url = "localhost:1"  # nothing listens there
        with futures.ThreadPoolExecutor() as executor:
            answer = executor.submit(pool.StartWorker, request, Peer(f"ipv4:127.0.0.1:{number}"))
            await_workers(pool, 1)
            [worker] = pool._workers.values()
            assert not worker.daemon, "the author's code may start processes of its own, which those of daemons may not"
            worker.kill()
            assert f"a worker process ended before it had connected: 1-{number} (pid " in answer.result().error
        await_workers(pool, 0)


@pytest.mark.parametrize("function", ["Pipe", "Process"])
def test_a_worker_that_cannot_be_started_leaves_no_relay(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Such as in a process that has as many open files as it may."""

    def fail(**_: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    closed: list[worker_pool.WorkerRelay] = []
    monkeypatch.setattr(worker_pool.WorkerRelay, "close", lambda relay: closed.append(relay))
    pool = worker_pool.WorkerPool()
    monkeypatch.setattr(pool._context, function, fail)
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
    request.control_endpoint.url = "localhost:1"
    problem = pool.StartWorker(request, Peer("ipv4:127.0.0.1:1")).error
    assert problem == "worker 1-1 cannot be started: OSError(24, 'Too many open files')"
    [relay] = closed
    monkeypatch.undo()
    relay.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "close", "replace"])
def test_a_worker_that_is_stopped_before_it_connects(end: str) -> None:
    """The request to start it is answered, or a thread of the pool would wait for ever, and its process with it."""
    pool, peer = worker_pool.WorkerPool(), Peer("ipv4:127.0.0.1:1")
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
    request.control_endpoint.url = "localhost:1"  # nothing listens there
    with futures.ThreadPoolExecutor() as executor:
        answers = [executor.submit(pool.StartWorker, request, peer)]
        await_workers(pool, 1)
        [worker] = pool._workers.values()
        if end == "replace":
            answers.append(executor.submit(pool.StartWorker, request, peer))
            assert wait([worker.sentinel], WORKER_SECONDS)
        if end == "stop":
            pool.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"), peer)
        else:
            pool.close()
        for answer in answers:
            assert answer.result(WORKER_SECONDS).error == "worker 1-1 was stopped before it had connected"
    assert pool._workers == {}


@pytest.mark.slow
def test_a_worker_that_starts_while_its_pool_ends() -> None:
    """No worker is left, for whose end the process of the pool would wait."""
    pool = worker_pool.WorkerPool()
    pool.close()
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
    request.control_endpoint.url = "localhost:1"
    with futures.ThreadPoolExecutor() as executor:
        answer = executor.submit(pool.StartWorker, request, Peer("ipv4:127.0.0.1:1"))
        assert answer.result(WORKER_SECONDS).error == "worker 1-1 was stopped before it had connected"


def await_workers(pool: worker_pool.WorkerPool, count: int) -> None:
    """Waits until a pool has this many workers, all of which run."""
    deadline = time.monotonic() + WORKER_SECONDS
    while len(pool._workers) != count or not all(worker.pid for worker in pool._workers.values()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


class JobManager(http.server.BaseHTTPRequestHandler):
    """Flink's REST interface, as far as it lists jobs."""

    states: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        jobs = [
            {"jid": str(number), "name": name, "state": state, "start-time": number}
            for number, (name, state) in enumerate(self.states)
        ]
        body = json.dumps({"jobs": jobs}).encode() if self.path == "/jobs/overview" else b"[]"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Writes nothing."""


@pytest.mark.slow
def test_workers_of_ended_jobs_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's runner keeps some of a job that has lost one; their memory was lost until the pool ended."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), JobManager)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cluster = f"http://127.0.0.1:{server.server_port}"
    names = ["runs", "ends", "fails", "is cancelled", "runs as an older one", "runs as a newer one"]
    states = [*zip(names, ["RUNNING", "FINISHED", "FAILED", "CANCELED", "RUNNING", "FAILED"])]
    states += [("runs as an older one", "FINISHED"), ("runs as a newer one", "RESTARTING"), ("ends", "FAILED")]
    monkeypatch.setattr(JobManager, "states", states)
    jobs = [(cluster, name) for name in [*names, "is unknown"]]
    jobs += [("http://127.0.0.1:1", "ends"), (f"{cluster}/elsewhere", "ends"), ("", "ends")]  # no cluster answers there
    pool = worker_pool.WorkerPool()
    with runner() as control, futures.ThreadPoolExecutor() as executor:
        requests = [beam_fn_api_pb2.StartWorkerRequest(worker_id=f"{url} {name}") for url, name in jobs]
        for request, (url, name) in zip(requests, jobs):
            request.control_endpoint.url = control
            request.params.update({checks.JOB: name} | ({checks.CLUSTER: url} if url else {}))
        for answer in executor.map(lambda request: pool.StartWorker(request, Peer("ipv4:127.0.0.1:1")), requests):
            assert not answer.error
        workers = {worker_id: worker for (_, worker_id), worker in pool._workers.items()}
        pool.stop_workers_of_ended_jobs()
        assert len(pool._workers) == len(jobs)  # as the state may be that of an earlier job of the same name
        monkeypatch.setattr(worker_pool, "ASK_SECONDS", 0)
        pool.stop_workers_of_ended_jobs()
        stopped = {f"{cluster} {name}" for name in ("ends", "fails", "is cancelled")}
        assert wait([workers[name].sentinel for name in stopped], WORKER_SECONDS)
        await_workers(pool, len(jobs) - len(stopped))
        assert {worker_id for _, worker_id in pool._workers} == set(workers) - stopped
        monkeypatch.setattr(worker_pool, "IDLE_SECONDS", 0)  # from now on, workers of unknown jobs are not needed
        pool.stop_workers_of_ended_jobs()
        running = {f"{cluster} {name}" for name, state in states if state in ("RUNNING", "RESTARTING")}
        assert {worker_id for _, worker_id in pool._workers} == {*running, " ends"}
        pool.close()
    server.shutdown()
    server.server_close()


class Worker:
    """A worker process that a test only counts."""

    name = "1-1"


def pool_with_a_worker(worker: Any) -> worker_pool.WorkerPool:
    """Returns a pool with a worker of a job, started long ago."""
    pool = worker_pool.WorkerPool()
    pool._workers["peer", worker.name] = worker
    pool._jobs[worker] = of_job("http://cluster")
    return pool


class Idle:
    """A relay whose worker has had no instruction for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def idle_seconds(self) -> float:
        return self.seconds


def of_job(cluster: str, idle_seconds: float = 0.0) -> worker_pool._JobWorker:
    """Returns what a pool knows of a worker that was started long ago."""
    relay: Any = Idle(idle_seconds)
    return worker_pool._JobWorker(worker_pool._FlinkJob(cluster, "job"), -1e9, relay)


def test_a_worker_that_replaces_one_of_an_ended_job_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner may start another worker of the same id after the pool has chosen the workers to stop."""

    class Workers(dict[Any, Any]):
        def copy(self) -> Any:
            chosen = dict(self)
            self["peer", "1-1"] = new
            return chosen

    old, new = Worker(), Worker()
    stopped: list[Any] = []
    monkeypatch.setattr(worker_pool, "_stop_workers", stopped.extend)
    monkeypatch.setattr(worker_pool.FlinkCluster, "has_ended", lambda *_: True)
    pool = pool_with_a_worker(old)
    pool._workers = Workers(pool._workers)
    pool.stop_workers_of_ended_jobs()
    assert (pool._workers, stopped) == ({("peer", "1-1"): new}, [])


@pytest.mark.parametrize(
    "has_ended, idle_seconds, is_stopped",
    [(True, 0, True), (False, 1e9, False), (None, 1e9, True), (None, 3599, False), (None, 0, False)],
)
def test_workers_without_work_are_stopped_if_their_job_is_unknown(
    monkeypatch: pytest.MonkeyPatch, has_ended: bool | None, idle_seconds: float, is_stopped: bool
) -> None:
    """Such as those of a pool that cannot reach the JobManager. A worker may wait for a long stage of its job."""
    worker = Worker()
    stopped: list[Any] = []
    monkeypatch.setattr(worker_pool, "_stop_workers", stopped.extend)
    monkeypatch.setattr(worker_pool.FlinkCluster, "has_ended", lambda *_: has_ended)
    pool = pool_with_a_worker(worker)
    pool._jobs = {worker: of_job("http://cluster", idle_seconds)}  # type: ignore[dict-item]
    pool.stop_workers_of_ended_jobs()
    assert stopped == [worker] * is_stopped


JOB_WITHOUT_TIME = {"name": "job", "state": "RUNNING", "start-time": "n/a"}


@pytest.mark.parametrize(
    "jobs",
    [{"jobs": [JOB_WITHOUT_TIME]}, {"jobs": "abc"}, {"jobs": None}, {"jobs": [None]}, [], None, "jobs", 1,
     {"jobs": [{"name": "job", "state": ["FINISHED"]}]}, {"jobs": [{"name": "job"}]}],
)  # fmt: skip
def test_an_answer_that_is_not_of_flink_stops_no_worker(monkeypatch: pytest.MonkeyPatch, jobs: Any) -> None:
    monkeypatch.setattr(worker_pool.FlinkCluster, "get", lambda *_: jobs)
    pool = pool_with_a_worker(Worker())
    pool.stop_workers_of_ended_jobs()
    assert len(pool._workers) == 1


def test_an_unexpected_error_of_one_cluster_does_not_keep_workers_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool asks from a thread, which such an error would end."""

    def has_ended(cluster: worker_pool.FlinkCluster, name: str) -> bool:
        if cluster.url == "http://cluster":
            raise ValueError("bad")
        return True

    stopped: list[Any] = []
    monkeypatch.setattr(worker_pool, "_stop_workers", stopped.extend)
    monkeypatch.setattr(worker_pool.FlinkCluster, "has_ended", has_ended)
    other = Worker()
    pool = pool_with_a_worker(Worker())
    pool._workers["peer", "1-2"] = other  # type: ignore[assignment]
    pool._jobs[other] = of_job("http://other")  # type: ignore[index]
    pool.stop_workers_of_ended_jobs()
    assert stopped == [other]


def test_a_cluster_that_cannot_be_asked_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise nobody knows why workers of ended jobs stay."""
    worker_pool._warn_of_unreachable_cluster.cache_clear()
    pool = pool_with_a_worker(Worker())
    [worker] = pool._jobs
    pool._jobs[worker] = of_job("http://127.0.0.1:1")
    for _ in range(2):
        pool.stop_workers_of_ended_jobs()
    assert len(pool._workers) == 1
    [record] = [record for record in caplog.records if "whether jobs have ended is unknown" in record.message]
    assert "http://127.0.0.1:1" in record.message


@dataclass(frozen=True)
class Peer:
    """A connection as gRPC tells the service of it."""

    name: str

    def peer(self) -> str:
        return self.name


def test_what_was_not_started_can_be_stopped(pool: tuple[subprocess.Popen[str], int]) -> None:
    assert not ask(pool[1], "stop", "nobody").error


@pytest.mark.slow
def test_a_pool_ends_while_it_waits_for_the_answer_of_a_cluster() -> None:
    """Such as one behind a firewall, for which each request waits, one after the other."""
    code = (
        "import os, time; from beam_datasets.engines import worker_pool; worker_pool.ASK_SECONDS = 0.01\n"
        "def ask(pool): os.write(1, b'asks\\n'); time.sleep(3600)\n"
        "worker_pool.WorkerPool.stop_workers_of_ended_jobs = ask; worker_pool.main(['--port=0'])"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert {process.stdout.readline()[:11], process.stdout.readline()[:11]} == {"Worker pool", "asks\n"}
            process.send_signal(signal.SIGTERM)
            assert process.wait(WORKER_SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_a_pool_whose_workers_ignore_sigterm_ends() -> None:
    """Such as workers whose author's code handles the signal; a second signal does not stop the pool's end."""
    code = (
        "import multiprocessing, signal; from multiprocessing import forkserver\n"
        "from beam_datasets.engines import worker_pool; worker_pool.STOP_SECONDS = 2\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"  # which the workers inherit
        "multiprocessing.get_context('forkserver').set_forkserver_preload(worker_pool.PRELOADED)\n"
        "forkserver.ensure_running(); worker_pool.main(['--port=0'])"
    )
    with (
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process,
        runner() as control,
    ):
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            for number in range(4):
                assert not ask(port, "start", f"1-{number}", control).error
            workers = workers_of(process)
            assert len(workers) == 4
            for _ in range(2):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
            assert process.wait(WORKER_SECONDS) == 0
        finally:
            process.kill()
    assert gone(workers)


def test_it_listens_on_loopback_alone(pool: tuple[subprocess.Popen[str], int]) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", pool[1]), timeout=WORKER_SECONDS)  # another address of this machine


@pytest.mark.slow
def test_a_worker_that_was_killed_is_reported(pool: tuple[subprocess.Popen[str], int]) -> None:
    """An engine reports a closed connection; the pool knows the process and the signal."""
    process, port = pool
    with runner() as control:
        assert not ask(port, "start", "1-1", control).error
        [worker] = workers_of(process)
        os.kill(worker, signal.SIGKILL)
        assert gone({worker})
        time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, complained = process.communicate(timeout=WORKER_SECONDS)
    assert (
        f"worker 1-1 (pid {worker}) has died: signal 9 (SIGKILL), as the system does when memory is short" in complained
    )


def write_and_end(*arguments: Any) -> None:
    """Writes to the output of a worker in three ways, and ends as after an error in C."""
    worker_pool._redirect(arguments[-1])
    print("printed")
    os.write(2, "of C \u00e4, ".encode() + b"and no text \xff\n")
    subprocess.run(["sh", "-c", "echo of a subprocess; printf '%s' 'without an end' >&2"], check=True)
    os._exit(3)


@pytest.mark.slow
def test_output_that_does_not_pass_through_python_names_job_and_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_pool, "work", write_and_end)
    other_threads = set(threading.enumerate())
    pool = worker_pool.WorkerPool()
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1", params={checks.JOB: "rows-1-0-0-a"})
    with caplog.at_level("INFO"):
        assert "exit code 3" in pool.StartWorker(request, Peer("ipv4:127.0.0.1:1")).error
        for thread in set(threading.enumerate()) - other_threads:
            thread.join(WORKER_SECONDS)
            assert not thread.is_alive()
    lines = [record.message for record in caplog.records if record.message.startswith("[")]
    expected = ["printed", "of C \u00e4, and no text \\xff", "of a subprocess", "without an end"]
    assert lines == [f"[rows-1-0-0-a worker 1-1] {line}" for line in expected]
