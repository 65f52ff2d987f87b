"""Runs a pipeline in forked worker processes of this machine, and fails within seconds if one of them dies.

The launcher starts a runner process and waits for its reply. The runner process forks the workers, runs Beam's
FnApiRunner with them, and watches them. The workers take the place of the commands that Beam's `multi_processing` mode
starts; if Beam's internals are not as expected, or the system is not Linux, Beam starts its commands.

A run whose processes neither write anything nor use the processor for `--stall_timeout` seconds is ended with an error:
a worker that cannot send its answer would be waited for for ever.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricResults
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from beam_datasets.beam.failures import StalledError, WorkerDiedError
from beam_datasets.beam.worker_output import OutputReader, redirect
from beam_datasets.beam.worker_pool import work
from beam_datasets.extras import Self

_UNSAFE_MODULES = frozenset({"array_record", "jax", "obstore", "tensorflow", "torch"})  # their threads cannot be forked
_RELEASED = 3  # exit status of a forked worker that the runner has released
_CHECK_SECONDS = 1.0  # between two looks at what the processes do
_GRACE_SECONDS = 1.0  # for the run to end by itself after a worker has ended
_END_SECONDS = 5.0  # for all processes to end once the launcher has closed the run
DEFAULT_STALL_TIMEOUT = 600.0
MIN_BUSY = 0.02  # of a core that processes of a run use which do something; waiting takes about 0.001
served_grpc = False  # whether gRPC has run in this process: its threads do not survive a fork either


def can_fork() -> bool:
    """Returns whether the runner process may be forked from this process: it has no other threads."""
    alone = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and alone and not served_grpc and not _UNSAFE_MODULES & sys.modules.keys()


def can_replace_commands() -> bool:
    """Returns whether Beam's internals are as expected, so that forked workers can take the place of its commands."""
    handler: Any = getattr(worker_handlers, "SubprocessSdkWorkerHandler", None)
    methods = {"start_worker", "stop_worker"}
    return sys.platform == "linux" and handler is not None and methods <= vars(handler).keys()


class LocalRunOptions(PipelineOptions):
    """Options of a local run."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--stall_timeout",
            type=float,
            default=DEFAULT_STALL_TIMEOUT,
            help="seconds after which a local run is ended whose worker processes neither print nor compute",
        )


class LocalRunner(PipelineRunner):
    """Runs one pipeline in worker processes; as a context manager it ends all of them.

    Args:
        log: file that keeps what the processes print and log, if the author's code says something; it is shown, too.
    """

    def __init__(self, log: str) -> None:
        self._log, self._pid = log, 0
        self._stall_timeout = DEFAULT_STALL_TIMEOUT
        self._started: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._scratch = tempfile.mkdtemp(prefix="beam_datasets_")  # what processes that are killed cannot remove
        self._replies, replying = Pipe(duplex=False)
        living, self._alive = Pipe(duplex=False)  # at its end as soon as the launcher has closed the run, or ended
        self._gone, going = Pipe(duplex=False)  # at its end as soon as all processes of the run have ended
        self._theirs = replying, living, going
        self._output = OutputReader(self._log)
        return self

    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> LocalResult:
        """Starts the pipeline and returns at once; the result's `wait_until_finish` waits for it."""
        self._stall_timeout = float(options.view_as(LocalRunOptions).stall_timeout)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a child must not raise KeyboardInterrupt
        try:
            if not can_fork():
                self._started = self._start(pipeline, options)
                self._pid = self._started.pid
            elif not (pid := os.fork()):
                for pipe in (self._alive, self._gone, self._replies):
                    pipe.close()
                self._output.close_reading_ends()
                _Run(self._output.writing_ends, self._scratch, *self._theirs[:2]).run(pipeline, options)
            else:
                self._pid = pid
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for pipe in self._theirs:
                pipe.close()
            self._output.start()  # after the fork, which a thread would not survive
        return LocalResult(self)

    def _start(self, pipeline: beam.Pipeline, options: PipelineOptions) -> subprocess.Popen[bytes]:
        """Starts the runner process as a new one, which rebuilds the pipeline."""
        proto = pipeline.to_runner_api().SerializeToString()
        given = options.get_all_options(drop_default=True, retain_unknown_options=True)
        fds = [*(pipe.fileno() for pipe in self._theirs), *self._output.writing_ends]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        with tempfile.TemporaryFile() as request:
            pickle.dump((proto, given, self._scratch, fds), request)
            request.seek(0)
            return subprocess.Popen(command, stdin=request, pass_fds=fds, env=variables)

    def reply(self) -> dict[str, list[Any]]:
        """Waits for the end of the run and returns its metrics.

        Raises:
            WorkerDiedError: a process of the run died, or none of them does anything.
            RuntimeError: the run failed; the message is the traceback.
        """
        activity = Activity(self._pid, self._output)
        try:
            while not wait([self._replies], _CHECK_SECONDS):
                if (seconds := activity.idle_seconds()) >= self._stall_timeout:
                    raise StalledError(
                        f"the run was ended, because its worker processes computed and printed nothing for "
                        f"{seconds:.0f} s"
                    )
            error, metrics = self._replies.recv()
        except EOFError:
            died = f"the runner process of the workers (pid {self._pid}) {_how(self._end())}"
            raise WorkerDiedError(died) from None
        if error is not None:
            raise error
        found: dict[str, list[Any]] = metrics
        return found

    def __exit__(self, *error: object) -> None:
        self._end()
        for pipe in (self._replies, self._gone):
            pipe.close()
        self._output.close(keep=False)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _end(self) -> int:
        """Ends all processes of the run, and returns the runner process's exit code."""
        self._alive.close()
        wait([self._gone], _END_SECONDS)
        pid, self._pid = self._pid, 0
        if not pid:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self._started.wait() if self._started else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Activity:
    """Whether the processes of a run do something: write to their launcher, or use the processor.

    Args:
        root: process id of the runner process.
        output: what reads what they write.
    """

    def __init__(self, root: int, output: OutputReader) -> None:
        self._root, self._output = root, output
        self._last_busy = self._checked = time.monotonic()
        self._used = processor_seconds(root)

    def idle_seconds(self) -> float:
        """Returns for how long the processes have done nothing."""
        now, used = time.monotonic(), processor_seconds(self._root)
        if used is None or self._used is None or used - self._used >= MIN_BUSY * (now - self._checked):
            self._last_busy = now
        self._checked, self._used = now, used
        return now - max(self._last_busy, self._output.last_time)


def processor_seconds(root: int) -> float | None:
    """Returns the processor time that a process and those below it have used; None if the system does not tell."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    try:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError):  # it has ended
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    words = file.read().rpartition(")")[2].split()
                children.setdefault(int(words[1]), []).append(int(name))
                used[int(name)] = sum(map(int, words[11:15]))  # its own, and of children that have ended
    except OSError:
        return None
    total, pending = 0, [root]
    while pending:
        pid = pending.pop()
        total += used.get(pid, 0)
        pending += children.get(pid, ())
    return total / os.sysconf("SC_CLK_TCK")


class LocalResult(PipelineResult, MetricResults):
    """The result of a local run, with the metrics that the workers counted."""

    def __init__(self, runner: LocalRunner) -> None:
        super().__init__(PipelineState.RUNNING)  # type: ignore[no-untyped-call]
        self._runner, self._found = runner, dict[str, list[Any]]()

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Waits for the end and returns the state; `duration` has no effect. For errors see `LocalRunner.reply`."""
        self._found = self._runner.reply()
        self._state = PipelineState.DONE
        return PipelineState.DONE

    def metrics(self) -> MetricResults:
        """Returns this object."""
        return self

    def query(self, filter: Any = None) -> dict[str, list[Any]]:
        """Returns {kind: metrics that match the filter}."""
        return {kind: [each for each in found if self.matches(filter, each.key)] for kind, found in self._found.items()}


def _how(code: int) -> str:
    """Returns how a process ended, in words."""
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit status {code} before its work was done"


class _Run:
    """The runner process of a run.

    Args:
        output: descriptors that take what the processes write; see `OutputReader`.
        scratch: directory for temporary files.
        replies: takes (error or None, metrics).
        living: becomes readable when the launcher has closed the run, or ended.
    """

    def __init__(
        self, output: tuple[int, int], scratch: str, replies: Connection[Any, Any], living: Connection[Any, Any]
    ) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the launcher, which ends the run
        redirect("", *output)
        self._output = output
        tempfile.tempdir = os.environ["TMPDIR"] = scratch
        gc.freeze()  # what is imported stays; collecting it again and again takes a twentieth of the time
        self._replies, self._living, self._lock = replies, living, threading.Lock()
        self._scratch = scratch
        self._workers: list[int] = []

    def run(self, pipeline: beam.Pipeline, options: PipelineOptions) -> None:
        """Runs the pipeline, replies, and ends this process with its workers."""
        try:
            if can_replace_commands():
                self._replace_commands(int(options.get_all_options()["direct_num_workers"]))
            threading.excepthook = self._failed_thread
            threading.Thread(target=self._end_with_launcher, daemon=True).start()
            result = FnApiRunner().run_pipeline(pipeline, options)
            result.wait_until_finish()
            self._reply(None, result.metrics().query())
        except BaseException as error:
            text = str(error)
            if "Traceback" not in text:  # most likely a worker has died, which its watcher reports meanwhile
                time.sleep(2 * _GRACE_SECONDS)
                text = "".join(traceback.format_exception(error))
            self._reply(RuntimeError(text), {})

    def _replace_commands(self, num_workers: int) -> None:
        """Forks workers, and has Beam's `multi_processing` mode use them in place of the commands that it starts."""
        waiting = [self._fork() for _ in range(num_workers)]

        def start_worker(handler: Any) -> None:
            with contextlib.suppress(BrokenPipeError):  # the watcher reports a worker that has died
                waiting.pop(0).send((handler.control_address, handler.worker_id))

        commands: Any = worker_handlers.SubprocessSdkWorkerHandler
        commands.start_worker, commands.stop_worker = start_worker, lambda handler: None
        if hasattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS"):
            worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0  # a timer that clears a buffer while it is being filled
        threading.Thread(target=self._watch, daemon=True).start()

    def _fork(self) -> Connection[Any, Any]:
        """Forks a worker, and returns a pipe that takes (address of the runner, id of the worker)."""
        settings, giving = Pipe(duplex=False)
        pid = os.fork()
        if pid:
            self._workers.append(pid)
            settings.close()
            return giving
        status = 1
        try:
            self._replies.close()
            threading.Thread(target=lambda: (wait([self._living]), os._exit(1)), daemon=True).start()
            redirect(f"worker {len(self._workers) + 1}", *self._output)
            work(*settings.recv())
            status = _RELEASED
        finally:
            os._exit(status)  # nothing of the launcher's may be ended from here

    def _watch(self) -> None:
        """Replies with an error if a worker ends before the runner has released it."""
        for _ in self._workers:
            pid, status = os.waitpid(-1, 0)
            if (code := os.waitstatus_to_exitcode(status)) != _RELEASED:
                number, count = self._workers.index(pid) + 1, len(self._workers)
                time.sleep(_GRACE_SECONDS)
                self._reply(WorkerDiedError(f"worker process {number} of {count} (pid {pid}) {_how(code)}"), {})

    def _failed_thread(self, failed: threading.ExceptHookArgs) -> None:
        """Replies with an error if one of Beam's own commands has ended, for which Beam waits for ever."""
        threading.__excepthook__(failed)
        if "exited with return code" in str(failed.exc_value):
            self._reply(RuntimeError(str(failed.exc_value)), {})

    def _reply(self, error: Exception | None, metrics: Any) -> None:
        """Sends the outcome and ends this process with its workers."""
        with self._lock:
            try:
                self._replies.send((error, metrics))
            finally:
                self._end()

    def _end_with_launcher(self) -> None:
        wait([self._living])
        self._end()

    def _end(self) -> None:
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._scratch, ignore_errors=True)  # a launcher that was killed cannot do so
        os._exit(0)


def main() -> None:
    """Runs a runner process that was not forked; reads the pipeline from standard input."""
    proto, given, scratch, (replies, living, _, shown, kept) = pickle.load(sys.stdin.buffer)
    run = _Run((shown, kept), scratch, Connection(replies, readable=False), Connection(living, writable=False))
    options = PipelineOptions([], **given)
    graph = beam_runner_api_pb2.Pipeline.FromString(proto)
    run.run(beam.Pipeline.from_runner_api(graph, FnApiRunner(), options), options)
