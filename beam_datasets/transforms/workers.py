"""Worker processes of a local run: forked from this one, which has imported already what new ones take seconds for.

A fork is safe only from a process in which no Python code runs besides, so anywhere else the workers are new processes.
Threads of libraries prepare themselves for it, as those of NumPy and the one that reads shards ahead do.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import endpoints_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import GrpcWorkerHandler, WorkerHandler
from apache_beam.runners.worker import sdk_worker_main, statesampler
from apache_beam.transforms import environments, userstate
from google.protobuf import json_format, text_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self

URN = "beam_datasets:environment:worker:v1"
_UNSAFE_MODULES = frozenset(
    {"tensorflow", "torch", "jax", "obstore"}
)  # they may hold threads and locks that a fork would break

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h

_SAMPLING_MS = 4

_pools: dict[bytes, _Pool] = {}
_served = False  # gRPC has run in this process, whose threads do not survive a fork


def can_fork() -> bool:
    """Returns whether worker processes may be forked from this one, now."""
    alone = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and alone and not _served and not _UNSAFE_MODULES & sys.modules.keys()


@contextlib.contextmanager
def sparing() -> Iterator[None]:
    """Spares, meanwhile, this process and those that are forked from it what Beam takes long for and need not.

    A thread of its notes what a bundle is doing, sleeps up to 0.2 s before it looks again, and is waited for when the
    bundle ends. And the methods of each DoFn are inspected half a dozen times.
    """
    sampler: Any = statesampler.StateSampler.__init__
    period, look = getattr(sampler, "__defaults__", None), getattr(userstate, "get_dofn_specs", None)
    expected = getattr(statesampler, "DEFAULT_SAMPLING_PERIOD_MS", None)
    if look is None or expected is None or period != (expected,):  # another run's doing, or another version of Beam
        yield
        return
    sampler.__defaults__ = (_SAMPLING_MS,)
    userstate.get_dofn_specs = _remembering(look)  # type: ignore[assignment]
    try:
        yield
    finally:
        sampler.__defaults__, userstate.get_dofn_specs = period, look


def _remembering(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function of an object that does its work once for each, and keeps none of them alive."""
    known: dict[int, tuple[Callable[[], Any], Any]] = {}

    def remembered(it: Any) -> Any:
        seen = known.get(id(it))
        if seen is None or seen[0]() is not it:  # another one stood at this place before
            seen = known[id(it)] = weakref.ref(it), look(it)
        return seen[1]

    return remembered


class _Pool(ABC):
    """Worker processes of a run, under a name by which Beam finds them."""

    def __init__(self) -> None:
        self._name = f"{os.getpid()}-{len(_pools)}".encode()

    def __enter__(self) -> Self:
        _pools[self._name] = self
        return self

    def environment(self) -> environments.Environment:
        """Returns the environment whose workers are these processes."""
        return _Environment(self._name)

    @abstractmethod
    def take(self, settings: dict[str, str]) -> int:
        """Sets a process to work, with these environment variables, and returns its number."""


class ForkedWorkers(_Pool):
    """Forked processes that wait to be told which runner to work for; as a context manager it begins and ends them.

    Args:
        count: number of processes.
        log: file that takes what they log; what they print goes to this process's standard error.
    """

    def __init__(self, count: int, log: str) -> None:
        super().__init__()
        self._count, self._log = count, log
        self._waiting: list[tuple[int, int]] = []
        self._pids: list[int] = []
        self._freezes = gc.get_freeze_count() == 0

    def __enter__(self) -> Self:
        global _served
        super().__enter__()
        gc.freeze()  # what was imported stays; looking through it again and again takes a twentieth of the time
        try:
            with _interrupts_held():
                for _ in range(self._count):
                    self._fork()
                _served = True
        except BaseException:
            self.__exit__()
            raise
        return self

    def _fork(self) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            _work(reading, [writing, *(pipe for _, pipe in self._waiting)], self._log)
        os.close(reading)
        self._waiting.append((pid, writing))
        self._pids.append(pid)

    def __exit__(self, *error: object) -> None:
        with _interrupts_held():
            del _pools[self._name]
            for _, pipe in self._waiting:
                os.close(pipe)
            for pid in self._pids:
                _end(pid)
            if self._freezes:
                gc.unfreeze()

    def take(self, settings: dict[str, str]) -> int:
        """Sets a waiting process to work and returns its process number."""
        pid, pipe = self._waiting.pop(0)
        with os.fdopen(pipe, "w") as out:
            json.dump(settings, out)
        return pid


class NewWorkers(_Pool):
    """New processes, each begun when a runner asks for it; as a context manager it ends them.

    Args:
        log: file that takes what they log; what they print goes to this process's standard error.
    """

    def __init__(self, log: str) -> None:
        super().__init__()
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def __exit__(self, *error: object) -> None:
        with _interrupts_held():
            del _pools[self._name]
            for process in self._processes:
                process.kill()
            for process in self._processes:
                process.wait()

    def take(self, settings: dict[str, str]) -> int:
        """Begins a process and returns its number."""
        # A worker imports what this process can, wherever it was found: a builder's module is pickled by its name.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        variables = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | settings
        command = [sys.executable, "-m", "apache_beam.runners.worker.sdk_worker_main"]
        with open(self._log, "ab") as log, _interrupts_held():
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, stderr=log, env=variables)
            self._processes.append(process)
        return process.pid


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Lets Ctrl-C take effect only afterwards: what is half begun or half ended would outlive the run."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler in (None, signal.SIG_IGN):
        yield  # it does not strike here
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _work(reading: int, others: Iterable[int], log: str) -> None:
    """What a forked process does: waits for its settings, works until the runner is done, and ends."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the runner, which ends its workers
        _keep_memory()
        for pipe in others:
            os.close(pipe)
        _speak(log)
        with os.fdopen(reading) as source:
            settings = source.read()
        if settings:
            os.environ.update(json.loads(settings))
            sdk_worker_main.main([])
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's may be ended from here


def _speak(log: str) -> None:
    """Sends what is printed to the launcher's standard error, line by line, and all else that is said to the log."""
    os.dup2(2, 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    # A new one, for what the old one still holds is the launcher's to print.
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _keep_memory() -> None:
    """Lets malloc keep what is freed: blocks come and go, and a fresh page costs more than what is written to it."""
    malloc_options = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)  # other C libraries lack it
    for option, value in ((_M_TRIM_THRESHOLD, 1 << 30), (_M_MMAP_THRESHOLD, 32 << 20), (_M_ARENA_MAX, 1)):
        malloc_options(option, value)


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


@environments.Environment.register_urn(URN, bytes)
class _Environment(environments.Environment):
    """An environment whose workers are processes of a pool."""

    def __init__(self, pool: bytes) -> None:
        super().__init__(environments.python_sdk_capabilities(), ())
        self._pool = pool

    def to_runner_api_parameter(self, context: Any) -> tuple[str, bytes]:
        return URN, self._pool

    @staticmethod
    def from_runner_api_parameter(payload: bytes, *_: Any) -> _Environment:
        return _Environment(payload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Environment) and self._pool == other._pool

    def __hash__(self) -> int:
        return hash(self._pool)


@WorkerHandler.register_environment(URN, bytes)
class _WorkerHandler(GrpcWorkerHandler):
    """Beam's handle on a worker of a pool.

    Its own handle on a new process waits for the process to end by itself, which it never does where the run was
    interrupted before it had begun.
    """

    def __init__(self, pool: bytes, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        self._pool = _pools[bytes(pool)]

    def start_worker(self) -> None:
        # Without a logging service: a worker says on standard error what it logs, which goes to its log.
        control = endpoints_pb2.ApiServiceDescriptor(url=self.control_address)
        self._pool.take(
            {
                "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(control),
                "PIPELINE_OPTIONS": json_format.MessageToJson(self.provision_info.provision_info.pipeline_options),
                "WORKER_ID": self.worker_id,
            }
        )

    def stop_worker(self) -> None:
        """Does nothing: the pool ends its processes."""
