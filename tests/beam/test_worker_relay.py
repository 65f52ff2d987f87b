"""The relay between a runner and a worker; here both are clients and servers of gRPC in this process."""

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, beam_runner_api_pb2

from beam_datasets.engines import worker_relay
from beam_datasets.engines.worker_relay import WorkerRelay, data_endpoints
from tests.servers import free_port

SECONDS = 30


class Runner(beam_fn_api_pb2_grpc.BeamFnControlServicer, beam_fn_api_pb2_grpc.BeamFnDataServicer):
    """A runner with one worker.

    Args:
        port: of its services; 0 for any free one.

    Attributes:
        server: its services.
        address: of its services.
        instructions: which it sends; None ends the connection.
        answers: of the worker.
        workers: ids by which workers have connected, to the control service and for elements.
        num_data: number of connections for elements.
        num_sent: number of elements that it has sent.
        has_data: set once there is a connection for elements.
    """

    def __init__(self, port: int = 0) -> None:
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self.server)
        beam_fn_api_pb2_grpc.add_BeamFnDataServicer_to_server(self, self.server)
        self.address = f"localhost:{self.server.add_insecure_port(f'localhost:{port}')}"
        self.server.start()
        self.instructions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.workers: list[str] = []
        self.num_data = self.num_sent = 0
        self.has_data = threading.Event()

    def Control(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:
        self.workers.append(dict(context.invocation_metadata())["worker_id"])

        def take() -> None:
            with contextlib.suppress(grpc.RpcError):
                for answer in request_iterator:
                    self.answers.put(answer)

        threading.Thread(target=take, daemon=True).start()
        yield from iter(self.instructions.get, None)

    def GetProcessBundleDescriptor(self, request: Any, context: Any) -> Any:
        if request.process_bundle_descriptor_id != "stage":
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such stage")
        return stage_at(self.address)

    def Data(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        self.num_data += 1
        self.workers.append(dict(context.invocation_metadata())["worker_id"])
        self.has_data.set()
        for _ in range(50):  # more than the buffers hold, so somebody must read them
            yield beam_fn_api_pb2.Elements(data=[beam_fn_api_pb2.Elements.Data(data=bytes(1 << 20))])
            self.num_sent += 1
        for _ in request_iterator:
            pass

    def send_stage(self, number: str, stage: str = "stage") -> None:
        """Sends the instruction to execute a stage."""
        bundle = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id=stage)
        self.instructions.put(beam_fn_api_pb2.InstructionRequest(instruction_id=number, process_bundle=bundle))

    def error(self, number: str) -> str:
        """Returns the error with which the next instruction is answered."""
        answer = self.answers.get(timeout=SECONDS)
        assert answer.instruction_id == number
        return str(answer.error)


def stage_at(address: str) -> Any:
    """Returns the descriptor of a stage that reads from an address, runs code, and writes to the same address."""
    port = beam_fn_api_pb2.RemoteGrpcPort()
    port.api_service_descriptor.url = address
    urns = ("beam:runner:source:v1", "beam:transform:pardo:v1", "beam:runner:sink:v1")
    payloads = (port.SerializeToString(), b"code", port.SerializeToString())
    specs = [beam_runner_api_pb2.FunctionSpec(urn=urn, payload=text) for urn, text in zip(urns, payloads)]
    transforms = {spec.urn: beam_runner_api_pb2.PTransform(spec=spec) for spec in specs}
    return beam_fn_api_pb2.ProcessBundleDescriptor(id="stage", transforms=transforms)


class Worker:
    """A worker that is connected to a relay.

    Attributes:
        stub: client of the relay.
        instructions: those that it gets.
    """

    def __init__(self, relay: WorkerRelay, options: Sequence[tuple[str, int]] = ()) -> None:
        self._channel = grpc.insecure_channel(relay.url, options=options)
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stub = beam_fn_api_pb2_grpc.BeamFnControlStub(self._channel)
        self.instructions = self.stub.Control(iter(self._answers.get, None))

    def answer(self, error: str = "") -> None:
        """Answers the next instruction."""
        self.respond(next(self.instructions).instruction_id, error)

    def respond(self, number: str, error: str = "") -> None:
        """Answers an instruction."""
        self._answers.put(beam_fn_api_pb2.InstructionResponse(instruction_id=number, error=error))

    def describe(self, stage: str) -> Any:
        """Requests the descriptor of a stage."""
        request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id=stage)
        return self.stub.GetProcessBundleDescriptor(request)

    def die(self) -> None:
        """Ends the connection, as the end of the process does."""
        self._answers.put(None)
        self._channel.close()


@pytest.fixture
def runner() -> Iterator[Runner]:
    serving = Runner()
    yield serving
    serving.instructions.put(None)
    serving.server.stop(None).wait()


@pytest.fixture
def relay(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerRelay]:
    monkeypatch.setattr(worker_relay, "CAUSE_SECONDS", 0.05)
    relay = WorkerRelay(runner.address, "1-2")
    yield relay
    relay.close()


def test_how_long_a_worker_has_had_no_instruction(runner: Runner, relay: WorkerRelay) -> None:
    worker = Worker(relay)
    time.sleep(0.1)
    assert 0.1 <= relay.idle_seconds() < SECONDS
    for number in ("1", "2"):
        runner.send_stage(number)
    received = [next(worker.instructions) for _ in range(2)]
    assert relay.idle_seconds() == 0
    worker.respond(received[0].instruction_id)
    assert not runner.error("1")
    assert relay.idle_seconds() == 0
    worker.respond(received[1].instruction_id)
    assert not runner.error("2")
    time.sleep(0.02)
    assert 0.02 <= relay.idle_seconds() < 0.1 + SECONDS


def test_instructions_and_answers_pass(runner: Runner, relay: WorkerRelay) -> None:
    worker = Worker(relay)
    for number in ("1", "2"):
        runner.send_stage(number)
        assert worker.describe("stage") == stage_at(runner.address)
        worker.answer()
        assert runner.error(number) == ""
    assert relay.problem.result(SECONDS) == ""
    with pytest.raises(grpc.RpcError) as raised:
        worker.describe("another")
    assert raised.value.details() == "there is no such stage"
    assert runner.workers == ["1-2"]
    runner.instructions.put(None)
    assert list(worker.instructions) == []  # and no error


@pytest.mark.parametrize("has_instruction", [True, False])
def test_a_worker_that_dies_is_answered_for(runner: Runner, relay: WorkerRelay, has_instruction: bool) -> None:
    """The runner waits for a connection for elements first, on which it may send some."""
    worker = Worker(relay)
    assert relay.problem.result(SECONDS) == ""
    if has_instruction:
        runner.send_stage("1")
        next(worker.instructions)
    worker.die()
    relay.end(" (pid 7 on host): signal 9")
    if not has_instruction:
        runner.send_stage("1")
    assert runner.error("1") == "a worker process died: 1-2 (pid 7 on host): signal 9"
    assert runner.has_data.wait(SECONDS)
    assert runner.workers == ["1-2", "1-2"]
    runner.send_stage("2")
    assert "a worker process died: 1-2" in runner.error("2")
    deadline = time.monotonic() + SECONDS
    while runner.num_sent < 50:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert runner.num_data == 1


def test_a_worker_whose_first_stage_fails(runner: Runner, relay: WorkerRelay) -> None:
    """It has not connected for elements, if it cannot unpickle its code."""
    worker = Worker(relay)
    runner.send_stage("1")
    worker.describe("stage")
    worker.answer("No module named 'a'")
    assert runner.error("1") == "No module named 'a'"
    assert runner.has_data.wait(SECONDS)


def test_a_worker_that_has_connected_for_elements(runner: Runner, relay: WorkerRelay) -> None:
    """No connection is opened in its place, for which a runner might take it."""
    worker = Worker(relay)
    for number, error in (("1", ""), ("2", "failed")):
        runner.send_stage(number)
        worker.describe("stage")
        worker.answer(error)
        assert runner.error(number) == error
    worker.die()
    runner.send_stage("3")
    assert "a worker process died: 1-2" in runner.error("3")
    assert runner.num_data == 0


def test_a_stage_that_the_runner_does_not_know(runner: Runner, relay: WorkerRelay) -> None:
    worker = Worker(relay)
    runner.send_stage("1", "another")
    next(worker.instructions)
    worker.die()
    assert "a worker process died: 1-2" in runner.error("1")


@pytest.mark.slow
def test_a_worker_that_is_silent_keeps_its_connection(runner: Runner, relay: WorkerRelay) -> None:
    """Beam's worker checks the connection every 20 s while the author's code runs; this one does so more often."""
    pings = {"keepalive_time_ms": 100, "http2.max_pings_without_data": 0, "http2.min_time_between_pings_ms": 100}
    worker = Worker(relay, [(f"grpc.{name}", value) for name, value in pings.items()])
    runner.send_stage("1")
    number = next(worker.instructions).instruction_id
    time.sleep(6)
    worker.respond(number)
    assert runner.error("1") == ""


def test_a_runner_that_is_lost(runner: Runner, relay: WorkerRelay) -> None:
    """The worker gets an error, as it does without a relay."""
    worker = Worker(relay)
    assert relay.problem.result(SECONDS) == ""
    runner.server.stop(None).wait()
    with pytest.raises(grpc.RpcError) as raised:
        next(worker.instructions)
    assert raised.value.details().startswith("the runner has ended the connection: ")


def test_a_runner_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_relay, "CONNECT_SECONDS", 0.1)
    relay = WorkerRelay("localhost:1", "1-2")
    with pytest.raises(grpc.RpcError) as raised:
        next(Worker(relay).instructions)
    problem = relay.problem.result(SECONDS)
    assert problem == raised.value.details() == "worker 1-2: no runner answers at localhost:1"
    relay.close()


def test_a_forwarder_that_accepts_connections_before_the_runner_listens() -> None:
    """Such as `ssh -L`, or the proxy of a container's port: the relay waits for the runner, as Beam's worker does."""
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as forwarder:
        relay = WorkerRelay(f"localhost:{port}", "1-2")
        worker = Worker(relay)
        for _ in range(3):
            forwarder.accept()[0].close()
        assert not relay.problem.done()
    runner = Runner(port)
    runner.send_stage("1")
    worker.answer()
    assert runner.error("1") == ""
    runner.instructions.put(None)
    assert list(worker.instructions) == []
    relay.close()
    runner.server.stop(None).wait()


def test_a_worker_that_never_connects() -> None:
    relay = WorkerRelay("localhost:1", "1-2")
    relay.end(" (pid 7 on host): exit code 3")
    problem = relay.problem.result(SECONDS)
    assert problem == "a worker process ended before it had connected: 1-2 (pid 7 on host): exit code 3"
    relay.close()


def test_a_relay_that_is_closed_before_its_worker_connects(runner: Runner) -> None:
    """Such as when the worker is stopped; the pool waits for the problem, and its process for the pool."""
    relay = WorkerRelay(runner.address, "1-2")
    for _ in range(2):
        relay.close()
    assert relay.problem.result(0) == "worker 1-2 was stopped before it had connected"


@pytest.mark.slow
def test_only_a_closed_relay_passes_over_the_error_of_a_closed_channel(
    runner: Runner, relay: WorkerRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other errors of the same class, such as in the description of a stage, are raised."""
    bundle = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id="stage")
    instruction = beam_fn_api_pb2.InstructionRequest(instruction_id="1", process_bundle=bundle)
    with monkeypatch.context() as patch:
        patch.setattr(worker_relay, "data_endpoints", lambda _: int("no number"))
        with pytest.raises(ValueError, match="no number"):
            relay._update_connections(instruction, has_failed=True)
    relay.close()
    relay._update_connections(instruction, has_failed=True)


def test_no_thread_fails_if_relays_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as threads of gRPC that watch a channel which is closed."""
    errors: list[object] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    other_threads = set(threading.enumerate())
    for _ in range(200):
        WorkerRelay("localhost:1", "1-2").close()
    for thread in set(threading.enumerate()) - other_threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert not errors


@pytest.mark.parametrize("end", [WorkerRelay.close, WorkerRelay._end_connection], ids=["relay", "worker"])
def test_an_end_while_no_runner_answers(end: Callable[[WorkerRelay], None]) -> None:
    """Nobody waits for the runner any more: a process does not end before its threads of gRPC have."""
    relay = WorkerRelay("localhost:1", "1-2")
    context = SimpleNamespace(add_callback=lambda _: True)
    with futures.ThreadPoolExecutor() as executor:
        control = executor.submit(list, relay.Control(iter(()), context))
        end(relay)
        assert control.result(SECONDS) == []
    assert relay.problem.result(0)
    relay.close()


def test_a_worker_whose_connection_outlives_it(runner: Runner, relay: WorkerRelay) -> None:
    """A process that the author's code has forked has the same socket, and may run for hours."""
    worker = Worker(relay)
    runner.send_stage("1")
    next(worker.instructions)
    relay.end(" (pid 7 on host): signal 9")
    assert runner.error("1") == "a worker process died: 1-2 (pid 7 on host): signal 9"
    runner.send_stage("2")
    assert "a worker process died: 1-2" in runner.error("2")
    assert list(worker.instructions) == []


def test_the_endpoints_of_a_stage() -> None:
    """Those of its source and its sink, and of no other transform."""
    assert data_endpoints(stage_at("localhost:7")) == {"localhost:7"}
    assert data_endpoints(beam_fn_api_pb2.ProcessBundleDescriptor()) == set()
