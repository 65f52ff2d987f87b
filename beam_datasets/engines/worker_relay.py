"""Relay between a runner and a worker, which answers the runner's instructions if the worker cannot.

Beam's Java runners wait three minutes for a worker's connection for elements before they look at its answer. A worker
opens this connection only after it has unpickled the code of its first stage. It may fail at that, such as for a
package that is not installed, or be killed. The relay then opens the connection in its place, so that the runner gets
the error at once. The error of a dead worker names the process and the signal.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from beam_datasets.engines.checks import connect_to_grpc
from beam_datasets.engines.failures import DIED, ENDED_EARLY

HOST = "127.0.0.1"
DATA_URNS = frozenset({"beam:runner:source:v1", "beam:runner:sink:v1"})
"""URNs of the transforms by which a stage exchanges elements with the runner."""
CONNECT_SECONDS = 60  # for the runner to answer
ATTEMPT_SECONDS = 2.0  # for one attempt to connect to the runner, and for its answer
RETRY_SECONDS = 0.1  # between two attempts
CAUSE_SECONDS = 1.0  # between the end of a worker's connection and that of its process
STOP_SECONDS = 5.0  # for the worker to see that the runner has ended the connection
_NUM_THREADS = 4  # one for the instructions, the others for requests of descriptors
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# Both sides of a connection may be silent for hours, while the author's code runs. Beam's workers check the connection
# every 20 s, for which a server of gRPC would end it after some times; the relay checks that of the runner likewise.
_SERVER_OPTIONS = [*_UNLIMITED, ("grpc.http2.max_ping_strikes", 0)]
_CLIENT_OPTIONS = [
    *_UNLIMITED,
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 300_000),
    ("grpc.http2.max_pings_without_data", 0),
]


class WorkerRelay(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """Control service for one worker, which relays the instructions of the runner and the worker's responses.

    Args:
        runner: address of the runner's control service.
        worker_id: id of the worker, by which the runner knows it.

    Attributes:
        url: address at which the worker connects.
        problem: future of the reason why the worker cannot be connected to the runner; its result is '' once it is.
    """

    def __init__(self, runner: str, worker_id: str) -> None:
        self._runner_url, self._worker_id = runner, worker_id
        self._metadata = (("worker_id", worker_id),)
        self._channel = grpc.insecure_channel(runner, options=_CLIENT_OPTIONS)
        self._runner = beam_fn_api_pb2_grpc.BeamFnControlStub(self._channel)
        self._lock = threading.Lock()
        self._pending: dict[str, Any] = {}  # instructions by their id, which the worker has not answered
        self._idle_since = time.monotonic()  # if there are no pending instructions
        self._endpoints: dict[str, set[str]] = {}  # {id of a stage: addresses of the services of its elements}
        self._connected: set[str] = set()  # those of `_endpoints` to which the worker or this relay has connected
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()  # for the worker; None or an error at the end
        self._responses: queue.SimpleQueue[Any] = queue.SimpleQueue()  # for the runner; None at the end
        self._stack = contextlib.ExitStack()  # channels of elements
        self._has_runner_ended = False  # after that, no channels of elements are opened
        self._is_gone = threading.Event()  # the worker's connection has ended, or this relay is closed
        self._is_closed = False  # the channel to the runner
        self._cause, self._has_cause = "", threading.Event()
        self.problem: futures.Future[str] = futures.Future()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="relay"), options=_SERVER_OPTIONS
        )
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self._server)
        self.url = f"{HOST}:{self._server.add_insecure_port(f'{HOST}:0')}"
        self._server.start()

    def Control(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:
        """Yields the instructions of the runner to the worker; see `BeamFnControlServicer`."""
        if not context.add_callback(self._end_connection):
            return  # the worker has ended meanwhile
        self._wait_for_runner(context)
        with self._lock:
            if self._is_gone.is_set():
                return
            instructions = self._runner.Control(iter(self._responses.get, None), metadata=self._metadata)
        for target, argument in ((self._relay_instructions, instructions), (self._relay_responses, request_iterator)):
            threading.Thread(target=target, args=(argument,), daemon=True).start()
        self._set_problem("")
        while (request := self._requests.get()) is not None:
            if isinstance(request, grpc.RpcError):
                context.abort(grpc.StatusCode.UNAVAILABLE, f"the runner has ended the connection: {request}")
            yield request

    def _wait_for_runner(self, context: Any) -> None:
        """Waits until the runner answers, or the worker or this relay has ended; aborts after a while.

        `grpc.channel_ready_future` would wait as well, but its thread fails if the channel is closed meanwhile.
        """
        deadline = time.monotonic() + CONNECT_SECONDS
        while not self._is_gone.is_set():
            try:
                connect_to_grpc(self._runner_url, ATTEMPT_SECONDS).close()
                return
            except OSError:
                if time.monotonic() >= deadline:
                    problem = f"worker {self._worker_id}: no runner answers at {self._runner_url}"
                    self._set_problem(problem)
                    context.abort(grpc.StatusCode.UNAVAILABLE, problem)
            self._is_gone.wait(RETRY_SECONDS)

    def GetProcessBundleDescriptor(self, request: Any, context: Any) -> Any:
        """Returns the runner's description of a stage; see `BeamFnControlServicer`."""
        try:
            return self._describe(request.process_bundle_descriptor_id)
        except grpc.RpcError as error:
            context.abort(*_status(error))

    def _describe(self, stage: str) -> Any:
        """Returns the runner's `ProcessBundleDescriptor` of a stage, and remembers the addresses of its elements."""
        request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id=stage)
        descriptor = self._runner.GetProcessBundleDescriptor(request, metadata=self._metadata)
        self._endpoints[stage] = data_endpoints(descriptor)
        return descriptor

    def _relay_instructions(self, instructions: Any) -> None:
        """Passes the runner's instructions to the worker, or answers them if it is gone, until the runner ends."""
        end = None
        try:
            for instruction in instructions:
                with self._lock:
                    self._pending[instruction.instruction_id] = instruction
                    is_gone = self._is_gone.is_set()
                if is_gone:
                    self._answer_pending()
                else:
                    self._requests.put(instruction)
        except grpc.RpcError as error:
            end = error
        self._requests.put(end)
        self._responses.put(None)
        with self._lock:
            self._has_runner_ended = True
        self._stack.close()
        self._server.stop(STOP_SECONDS)

    def _relay_responses(self, responses: Iterator[Any]) -> None:
        """Passes the worker's responses to the runner, until the worker's connection ends."""
        with contextlib.suppress(grpc.RpcError):  # `_end_connection` answers what the worker has not answered
            for response in responses:
                with self._lock:
                    instruction = self._pending.pop(response.instruction_id, None)
                    self._idle_since = time.monotonic()
                self._update_connections(instruction, has_failed=bool(response.error))
                self._responses.put(response)

    def _update_connections(self, instruction: Any, *, has_failed: bool) -> None:
        """Opens the connections for elements of a failed stage; records those of a successful stage as open."""
        if instruction is None or instruction.WhichOneof("request") != "process_bundle":
            return
        stage = instruction.process_bundle.process_bundle_descriptor_id
        if has_failed and stage not in self._endpoints:  # the worker ended before it has requested the stage
            try:
                self._describe(stage)
            except grpc.RpcError:
                pass  # the runner gets the answer all the same, at worst after its own wait
            except ValueError:  # of a channel that is closed
                if not self._is_closed:
                    raise
        with self._lock:
            new = self._endpoints.get(stage, set()) - self._connected
            self._connected |= new
        if has_failed:
            for url in new:
                self._connect_data(url)

    def _connect_data(self, url: str) -> None:
        """Opens a connection for elements in the place of the worker, and discards what the runner sends."""
        sent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            if self._has_runner_ended:
                return
            channel = self._stack.enter_context(grpc.insecure_channel(url, options=_CLIENT_OPTIONS))
            elements = beam_fn_api_pb2_grpc.BeamFnDataStub(channel).Data(iter(sent.get, None), metadata=self._metadata)
            self._stack.callback(sent.put, None)

        def discard() -> None:
            """Reads elements until the runner ends the connection."""
            with contextlib.suppress(grpc.RpcError):
                for _ in elements:
                    pass

        threading.Thread(target=discard, daemon=True).start()

    def _end_connection(self) -> None:
        """Answers the instructions that the worker has not answered; called when its connection has ended."""
        self._set_problem(f"{ENDED_EARLY}: {self._worker_id}")
        with self._lock:
            self._is_gone.set()
        self._requests.put(None)
        threading.Thread(target=self._answer_pending, daemon=True).start()

    def _answer_pending(self) -> None:
        """Answers all pending instructions with the error that the worker has died."""
        with self._lock:
            instructions = list(self._pending.values())
            self._pending.clear()
        if not instructions:
            return
        self._has_cause.wait(CAUSE_SECONDS)
        error = f"{DIED}: {self._worker_id}{self._cause or f' on {socket.gethostname()}'}"
        for instruction in instructions:
            self._update_connections(instruction, has_failed=True)
            answer = beam_fn_api_pb2.InstructionResponse(instruction_id=instruction.instruction_id, error=error)
            self._responses.put(answer)

    def _set_problem(self, problem: str) -> None:
        """Sets the result of `problem` unless it is set already."""
        with self._lock:
            if not self.problem.done():
                self.problem.set_result(problem)

    def idle_seconds(self) -> float:
        """Returns for how long the worker has had no instruction of the runner; 0 if it has one."""
        with self._lock:
            return 0.0 if self._pending else time.monotonic() - self._idle_since

    def end(self, cause: str) -> None:
        """Stores why the worker's process has ended.

        Args:
            cause: the process and the cause, such as " (pid 4242 on host): signal 9".
        """
        self._cause = cause
        self._has_cause.set()
        self._set_problem(f"{ENDED_EARLY}: {self._worker_id}{cause}")
        threading.Thread(target=self._end_open_connection, daemon=True).start()

    def _end_open_connection(self) -> None:
        """Ends the connection of a worker whose process has ended, if a process that it had started keeps it open."""
        if not self._is_gone.wait(CAUSE_SECONDS):
            self._end_connection()

    def close(self) -> None:
        """Ends the connection to the runner, and thereby all others; `problem` is set, so that nobody waits for it."""
        self._set_problem(f"worker {self._worker_id} was stopped before it had connected")
        self._requests.put(None)
        with self._lock:
            self._is_gone.set()
            self._is_closed = True
            self._channel.close()
        self._server.stop(STOP_SECONDS)


def data_endpoints(descriptor: Any) -> set[str]:
    """Returns the addresses of the services with which a stage exchanges elements.

    Args:
        descriptor: the stage's `ProcessBundleDescriptor`.
    """
    payloads = [each.spec.payload for each in descriptor.transforms.values() if each.spec.urn in DATA_URNS]
    ports = map(beam_fn_api_pb2.RemoteGrpcPort.FromString, payloads)
    return {port.api_service_descriptor.url for port in ports}


def _status(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    """Returns the status code and the message of an error of gRPC."""
    if isinstance(error, grpc.Call):
        return error.code(), error.details() or ""
    return grpc.StatusCode.UNKNOWN, str(error)
