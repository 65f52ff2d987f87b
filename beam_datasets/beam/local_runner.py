"""Runs pipelines on this machine in several processes, and fails within seconds when one of them dies.

The launcher starts one runner process. That process forks the workers, runs Beam's FnApiRunner and supervises the
workers; the launcher only waits for its reply. So a runner that waits for a dead worker is killed, not waited for.
To Beam the workers are an external environment: the runner asks a worker pool, a gRPC service of its own process.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import pickle
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from concurrent import futures
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import grpc
from apache_beam.metrics.metric import MetricResults
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import environments

from beam_datasets.beam.failures import WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

WORKER_MODULE = "apache_beam.runners.worker.sdk_worker_main"
_UNSAFE_MODULES = frozenset({"tensorflow", "torch", "jax", "obstore"})  # their threads and locks do not survive a fork
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_SAMPLING_MS = 4
_RELEASED = 3  # exit status of a forked worker that the runner has released
_GRACE_SECONDS = 1.0  # for the run to end by itself after a worker has ended
_END_SECONDS = 5.0  # for all processes to end once the launcher has let go

served_grpc = False  # set when gRPC has run in this process: its threads do not survive a fork either


def can_fork() -> bool:
    """Returns whether the runner process may be forked from this one: nothing else runs here."""
    alone = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and alone and not served_grpc and not _UNSAFE_MODULES & sys.modules.keys()


@contextlib.contextmanager
def short_sampling() -> Iterator[None]:
    """Shortens the interval of Beam's state sampler, whose thread is waited for, up to 0.2 s, after each bundle.

    There is no option for it. Where Beam's default is another one than expected, nothing is changed.
    """
    sampler: Any = statesampler.StateSampler.__init__
    before = getattr(sampler, "__defaults__", None)
    if before == (200,):
        sampler.__defaults__ = (_SAMPLING_MS,)
    try:
        yield
    finally:
        if before == (200,):
            sampler.__defaults__ = before


class LocalRunner(PipelineRunner):
    """Runs one pipeline in worker processes; as a context manager it ends all of them.

    Args:
        num_workers: number of worker processes.
        log: file that takes what the processes log; what they print goes to this process's standard error.
    """

    def __init__(self, num_workers: int, log: str) -> None:
        self._num_workers, self._log = num_workers, log
        self._pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._scratch = tempfile.mkdtemp(prefix="beam_datasets_")  # what processes that are killed cannot remove
        return self

    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> LocalResult:
        """Starts the pipeline and returns at once; the result's `wait_until_finish` waits for it."""
        with interrupts_held(), contextlib.ExitStack() as theirs:
            self._replies, replying = Pipe(duplex=False)
            living, self._alive = Pipe(duplex=False)  # its end in this process is open as long as the run is wanted
            self._gone, going = Pipe(duplex=False)  # its other end is open in all processes of the run
            for pipe in (self._replies, self._alive, self._gone):
                self._pipes.callback(pipe.close)
            for pipe in (replying, living, going):
                theirs.callback(pipe.close)
            if can_fork():
                self._pid = os.fork()
                if self._pid == 0:
                    try:
                        self._pipes.close()
                        supervisor = _Supervisor(self._num_workers, self._log, self._scratch, replying, living)
                        supervisor.run(lambda _: pipeline, options)
                    finally:
                        os._exit(1)
            else:
                self._start(pipeline, options, replying, living, going)
        return LocalResult(self._await_reply)

    def _start(self, pipeline: beam.Pipeline, options: PipelineOptions, *pipes: Connection[Any, Any]) -> None:
        """Starts the runner process as a new one, which rebuilds the pipeline."""
        placeholder = environments.ExternalEnvironment("", capabilities=environments.python_sdk_capabilities())
        proto = pipeline.to_runner_api(default_environment=placeholder).SerializeToString()
        given = options.get_all_options(drop_default=True, retain_unknown_options=True)
        fds = [pipe.fileno() for pipe in pipes]
        # Workers import what this process can, wherever it was found: a builder's module is pickled by its name.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        with tempfile.TemporaryFile() as request:
            pickle.dump((proto, given, fds, self._num_workers, self._log, self._scratch), request)
            request.seek(0)
            variables = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
            self._process = subprocess.Popen(command, stdin=request, pass_fds=fds, env=variables)
        self._pid = self._process.pid

    def _await_reply(self) -> Any:
        try:
            kind, value = self._replies.recv()
        except EOFError:
            died = f"the runner process of the workers (pid {self._pid}) {_how(self._end())}"
            raise WorkerDiedError(died) from None
        if kind == "died":
            raise WorkerDiedError(value)
        if kind == "failed":
            raise RuntimeError(value)
        return value

    def __exit__(self, *error: object) -> None:
        with interrupts_held():
            if self._pid:
                self._end()
            self._pipes.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _end(self) -> int:
        """Ends all processes of the run, and returns the runner process's exit code."""
        self._alive.close()
        wait([self._gone], _END_SECONDS)
        pid, self._pid = self._pid, 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self._process.wait() if self._process else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class LocalResult(PipelineResult):
    """The result of a local run."""

    def __init__(self, reply: Callable[[], Any]) -> None:
        super().__init__(PipelineState.RUNNING)  # type: ignore[no-untyped-call]
        self._reply, self._found = reply, None

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Waits for the end and returns the state; `duration` has no effect.

        Raises:
            WorkerDiedError: a process of the run died.
            RuntimeError: the run failed; the message is the traceback.
        """
        self._found = self._reply()
        self._state = PipelineState.DONE
        return PipelineState.DONE

    def metrics(self) -> MetricResults:
        """Returns the metrics that the workers counted."""
        return _Metrics(self._found or {})


class _Metrics(MetricResults):
    def __init__(self, found: dict[str, list[Any]]) -> None:
        self._found = found

    def query(self, filter: Any = None) -> dict[str, list[Any]]:
        return {kind: [each for each in found if self.matches(filter, each.key)] for kind, found in self._found.items()}


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block: a process that is half started would outlive the run."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler in (None, signal.SIG_IGN):
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _how(code: int) -> str:
    """Returns how a process ended, in words."""
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit status {code} before its work was done"


class _Supervisor(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Runs a pipeline in the runner process: the pool of its workers, and what is done when one of them dies.

    Args:
        num_workers: number of workers.
        log: see `LocalRunner`.
        scratch: directory for temporary files.
        replies: takes the outcome.
        living: becomes readable when the launcher lets go of the run, or dies.
    """

    def __init__(
        self, num_workers: int, log: str, scratch: str, replies: Connection[Any, Any], living: Connection[Any, Any]
    ) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the launcher, which ends the run
        _redirect_output(log)
        tempfile.tempdir = os.environ["TMPDIR"] = scratch
        gc.freeze()  # what is imported stays; looking through it again and again takes a twentieth of the time
        socket.getfqdn = lambda name="": "localhost"  # by this name the runner sends workers back to itself
        if hasattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS"):
            worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0  # a timer that clears a buffer while it is being filled
        self._num_workers, self._replies, self._living = num_workers, replies, living
        self._lock = threading.Lock()
        self._died: futures.Future[str] = futures.Future()
        self._waiting: list[int] = []
        self._pids: list[int] = []

    def run(self, make_pipeline: Callable[[environments.Environment], beam.Pipeline], options: PipelineOptions) -> None:
        """Runs the pipeline, replies with the outcome, and ends this process with its workers."""
        with short_sampling():
            for _ in range(self._num_workers if sys.platform == "linux" else 0):
                self._fork()
            threading.Thread(target=self._end_with_launcher, daemon=True).start()
            for number, pid in enumerate(self._pids, 1):
                self._watch(number, pid, _RELEASED)
            server = grpc.server(futures.ThreadPoolExecutor())
            beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, server)
            address = f"localhost:{server.add_insecure_port('localhost:0')}"
            server.start()
            capabilities = environments.python_sdk_capabilities()
            pool = environments.ExternalEnvironment(address, capabilities=capabilities)
            try:
                result = FnApiRunner(default_environment=pool).run_pipeline(make_pipeline(pool), options)
                result.wait_until_finish()
                self._reply("done", result.metrics().query())
            except BaseException as error:
                text = str(error)
                if "Traceback" in text:
                    self._reply("failed", text)
                with contextlib.suppress(futures.TimeoutError):  # most likely it is because a worker died
                    self._reply("died", self._died.result(_GRACE_SECONDS))
                self._reply("failed", "".join(traceback.format_exception(error)))

    def _reply(self, kind: str, value: Any) -> None:
        """Sends the outcome and ends this process with its workers."""
        with self._lock:
            try:
                self._replies.send((kind, value))
            finally:
                self._end()

    def _end(self) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _end_with_launcher(self) -> None:
        wait([self._living])
        self._end()

    def _watch(self, number: int, pid: int, released: int) -> None:
        def watch() -> None:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(futures.InvalidStateError):  # another one was the first
                if code != released:
                    self._died.set_result(f"worker process {number} of {self._num_workers} (pid {pid}) {_how(code)}")
                    threading.Event().wait(_GRACE_SECONDS)
                    self._reply("died", self._died.result())

        threading.Thread(target=watch, daemon=True).start()

    def _fork(self) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            _work(reading, self._replies, self._living)
        os.close(reading)
        self._waiting.append(writing)
        self._pids.append(pid)

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Gives a waiting worker, or a new process where there is none, to the runner."""
        settings = {
            "CONTROL_API_SERVICE_DESCRIPTOR": f'url: "localhost:{request.control_endpoint.url.rpartition(":")[2]}"',
            "PIPELINE_OPTIONS": "{}",
            "WORKER_ID": request.worker_id,
        }
        if self._waiting:
            with contextlib.suppress(BrokenPipeError), os.fdopen(self._waiting.pop(0), "w") as pipe:
                pipe.write(json.dumps(settings) + "\n")  # a worker that is dead is reported by its watcher
        else:
            process = subprocess.Popen([sys.executable, "-m", WORKER_MODULE], env=os.environ | settings)
            self._pids.append(process.pid)
            self._watch(len(self._pids), process.pid, 0)
        return beam_fn_api_pb2.StartWorkerResponse()


def _work(reading: int, replies: Connection[Any, Any], living: Connection[Any, Any]) -> None:
    """Waits for settings, works for the runner until it is released, and ends the process."""
    status = 1
    try:
        replies.close()
        threading.Thread(target=lambda: (wait([living]), os._exit(1)), daemon=True).start()
        _keep_memory()
        with os.fdopen(reading) as source:
            os.environ.update(json.loads(source.readline()))
        sys.modules.pop(WORKER_MODULE, None)  # it is run anew, as `python -m` does
        runpy.run_module(WORKER_MODULE, run_name="__main__")
        status = _RELEASED
    finally:
        os._exit(status)  # nothing of the launcher's may be ended from here


def _redirect_output(log: str) -> None:
    """Sends what is printed to the launcher's standard error, line by line, and standard error to the log."""
    os.dup2(2, 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    # A new one, for what the old one still holds is the launcher's to print.
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _keep_memory() -> None:
    """Lets malloc keep what is freed: blocks come and go, and a fresh page costs more than what is written to it."""
    malloc_options = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)  # other C libraries lack it
    for option, value in ((_M_TRIM_THRESHOLD, 1 << 30), (_M_MMAP_THRESHOLD, 32 << 20), (_M_ARENA_MAX, 1)):
        malloc_options(option, value)


def main() -> None:
    """Is the runner process where it is a new one: standard input holds the pipeline."""
    proto, given, fds, num_workers, log, scratch = pickle.load(sys.stdin.buffer)
    options = PipelineOptions([], **given)

    def rebuild(pool: environments.Environment) -> beam.Pipeline:
        graph = beam_runner_api_pb2.Pipeline.FromString(proto)
        for environment in graph.components.environments.values():
            environment.CopyFrom(pool.to_runner_api(None))  # type: ignore[arg-type]  # as Beam does
        return beam.Pipeline.from_runner_api(graph, FnApiRunner(), options)

    replies, living = Connection(fds[0], readable=False), Connection(fds[1], writable=False)
    _Supervisor(num_workers, log, scratch, replies, living).run(rebuild, options)
