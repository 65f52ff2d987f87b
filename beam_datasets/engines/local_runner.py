"""Runs a pipeline in forked worker processes of this machine, and fails within seconds if one of them dies.

The launcher starts a runner process and waits for its reply. The runner process forks the workers, runs Beam's
FnApiRunner with them, and watches them. The forked workers replace the subprocesses that Beam's `multi_processing` mode
starts. If Beam's internals are not as expected, or the system is not Linux, Beam starts its subprocesses.

A run is ended with an error if its processes print nothing and use no processor time for `--stall_timeout` seconds:
Beam would wait forever for a worker that cannot send its answer.
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
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Self

import apache_beam as beam
from apache_beam.metrics.metric import MetricResults
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from beam_datasets.engines.failures import StalledError, WorkerDiedError
from beam_datasets.engines.worker_output import OutputReader, redirect
from beam_datasets.engines.worker_pool import work

# Modules with threads, which do not survive a fork.
_UNSAFE_MODULES = frozenset({"array_record", "jax", "obstore", "tensorflow", "torch"})
_RELEASED = 3  # exit status of a forked worker after Beam's runner has ended it regularly
CHECK_SECONDS = 1.0  # between two checks of the directories of a run
MAX_CHECK_SECONDS = 10.0  # between two checks of the activity of the processes, each of which reads /proc
_GRACE_SECONDS = 1.0  # for the run to end by itself after a worker has ended
_END_SECONDS = 5.0  # for all processes to end once the launcher has closed the run
DEFAULT_STALL_TIMEOUT = 600.0
MIN_BUSY = 0.02  # cores that active processes use at least; waiting ones use about 0.001
served_grpc = False  # whether this process has used gRPC, whose threads do not survive a fork


def can_fork() -> bool:
    """Returns whether the runner process may be forked from this process, that is, it has no other threads."""
    is_single_threaded = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    has_unsafe_threads = served_grpc or _UNSAFE_MODULES & sys.modules.keys()
    return sys.platform == "linux" and is_single_threaded and not has_unsafe_threads


def can_replace_subprocesses() -> bool:
    """Returns whether forked workers can replace Beam's subprocesses: Beam's internals are as expected."""
    handler: Any = getattr(worker_handlers, "SubprocessSdkWorkerHandler", None)
    methods = {"start_worker", "stop_worker"}
    return sys.platform == "linux" and handler is not None and methods <= vars(handler).keys()


class LocalRunOptions(PipelineOptions):
    """Options of a local run."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        """Adds `--stall_timeout` to Beam's command-line options: seconds, a float, by default 600.

        Args:
            parser: the `argparse.ArgumentParser` of Beam's options.
        """
        parser.add_argument(
            "--stall_timeout",
            type=float,
            default=DEFAULT_STALL_TIMEOUT,
            help="seconds after which a local run is ended whose worker processes neither print nor compute",
        )


class LocalRunner(PipelineRunner):
    """Runs one pipeline in worker processes; leaving the context ends all of them.

    Args:
        log: path of the file for the output of the processes; see `OutputReader`.

    Attributes:
        check: called about once a second while the run is active; an error that it raises ends the run.
    """

    def __init__(self, log: str) -> None:
        self._log, self._pid = log, 0
        self._stall_timeout = DEFAULT_STALL_TIMEOUT
        self.check: Callable[[], None] = lambda: None
        self._subprocess: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Creates the temporary directory, the pipes and the reader of the output that a run needs."""
        self._scratch = tempfile.mkdtemp(prefix="beam_datasets_")  # for files that killed processes do not remove
        self._replies, reply_end = Pipe(duplex=False)
        launcher_alive, self._launcher_alive = Pipe(duplex=False)  # closed when the launcher closes the run, or ends
        self._ended, ended_end = Pipe(duplex=False)  # closed when all processes of the run have ended
        self._runner_ends = reply_end, launcher_alive, ended_end
        self._output = OutputReader(self._log)
        return self

    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> LocalResult:
        """Starts the pipeline and returns at once; the result's `wait_until_finish` waits for it."""
        self._stall_timeout = float(options.view_as(LocalRunOptions).stall_timeout)
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # no KeyboardInterrupt in the child
        try:
            if not can_fork():
                self._subprocess = self._start_subprocess(pipeline, options)
                self._pid = self._subprocess.pid
            elif not (pid := os.fork()):
                for pipe in (self._launcher_alive, self._ended, self._replies):
                    pipe.close()
                self._output.close_reading_ends()
                _RunnerProcess(self._output.writing_ends, self._scratch, *self._runner_ends[:2]).run(pipeline, options)
            else:
                self._pid = pid
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            for pipe in self._runner_ends:
                pipe.close()
            self._output.start()  # after the fork, which a thread would not survive
        return LocalResult(self)

    def _start_subprocess(self, pipeline: beam.Pipeline, options: PipelineOptions) -> subprocess.Popen[bytes]:
        """Starts the runner process as a new Python process, which rebuilds the pipeline; used if forking is unsafe."""
        proto = pipeline.to_runner_api().SerializeToString()
        option_values = options.get_all_options(drop_default=True, retain_unknown_options=True)
        fds = [*(pipe.fileno() for pipe in self._runner_ends), *self._output.writing_ends]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        with tempfile.TemporaryFile() as request:
            pickle.dump((proto, option_values, self._scratch, fds), request)
            request.seek(0)
            return subprocess.Popen(command, stdin=request, pass_fds=fds, env=variables)

    def reply(self) -> dict[str, list[Any]]:
        """Waits for the end of the run and returns its metrics, {'counters': [...], 'string_sets': [...], ...}.

        The metrics are `MetricResult` objects of Beam.

        Raises:
            WorkerDiedError: a process of the run died.
            StalledError: no process of the run was active for the stall timeout.
            RuntimeError: the run failed; the message contains the traceback.
            Exception: `check` raised it.
        """
        activity = Activity(self._pid, self._output, self._stall_timeout)
        try:
            while not wait([self._replies], min(activity.interval, CHECK_SECONDS)):
                self.check()
                if activity.is_due and (seconds := activity.idle_seconds()) >= self._stall_timeout:
                    raise StalledError(
                        f"the run was ended, because its worker processes computed and printed nothing for "
                        f"{seconds:.0f} s"
                    )
            error, metrics = self._replies.recv()
        except EOFError:
            message = f"the runner process of the workers (pid {self._pid}) {_describe_exit(self._end())}"
            raise WorkerDiedError(message) from None
        if error is not None:
            raise error
        metrics_by_kind: dict[str, list[Any]] = metrics
        return metrics_by_kind

    def __exit__(self, *error: object) -> None:
        """Ends all processes of the run."""
        self._end()
        for pipe in (self._replies, self._ended):
            pipe.close()
        self._output.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _end(self) -> int:
        """Ends all processes of the run and returns the exit code of the runner process; 0 if it has ended before."""
        self._launcher_alive.close()
        wait([self._ended], _END_SECONDS)
        pid, self._pid = self._pid, 0
        if not pid:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self._subprocess.wait() if self._subprocess else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Activity:
    """Measures for how long the processes of a run have been idle: without output and processor time.

    Args:
        root: process id of the runner process.
        output: reader of the output of the processes.
        timeout: the idle time in seconds that is looked for.

    Attributes:
        interval: seconds between two calls of `idle_seconds`.
    """

    def __init__(self, root: int, output: OutputReader, timeout: float) -> None:
        self._root, self._output = root, output
        self.interval = min(timeout / 10, MAX_CHECK_SECONDS)
        self._idle = 0.0
        self._last_check = time.monotonic()
        self._used = processor_seconds(root)

    @property
    def is_due(self) -> bool:
        """Whether `interval` has passed since the last call of `idle_seconds`."""
        return time.monotonic() - self._last_check >= self.interval

    def idle_seconds(self) -> float:
        """Returns the idle time in seconds up to now.

        Time in which this process itself did not run, as after Ctrl-Z, does not count: the others did not run, either.
        """
        current_time, used_seconds = time.monotonic(), processor_seconds(self._root)
        elapsed = current_time - self._last_check
        is_busy = used_seconds is None or self._used is None or used_seconds - self._used >= MIN_BUSY * elapsed
        if is_busy or self._output.last_time >= self._last_check:
            self._idle = 0.0
        else:
            self._idle += min(elapsed, 2 * self.interval)
        self._last_check, self._used = current_time, used_seconds
        return self._idle


def processor_seconds(root: int) -> float | None:
    """Returns the processor time in seconds of the process with the id `root` and all its descendants.

    Returns None if the system does not tell, or if the process has ended.
    """
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    try:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError):  # the process has ended meanwhile
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    words = file.read().rpartition(")")[2].split()
                children.setdefault(int(words[1]), []).append(int(name))
                ticks[int(name)] = sum(map(int, words[11:15]))  # of the process, and of its children that have ended
    except OSError:
        return None
    if root not in ticks:  # hidden, or ended: nothing can be concluded
        return None
    total, pending = 0, [root]
    while pending:
        pid = pending.pop()
        total += ticks.get(pid, 0)
        pending += children.get(pid, ())
    return total / os.sysconf("SC_CLK_TCK")


class LocalResult(PipelineResult, MetricResults):
    """The result of a local run, with the metrics that the workers counted."""

    def __init__(self, runner: LocalRunner) -> None:
        super().__init__(PipelineState.RUNNING)  # type: ignore[no-untyped-call]
        self._runner, self._metrics = runner, dict[str, list[Any]]()

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Waits for the end of the run and returns its state; ignores `duration`.

        Raises the errors of `LocalRunner.reply`.
        """
        self._metrics = self._runner.reply()
        self._state = PipelineState.DONE
        return PipelineState.DONE

    def metrics(self) -> MetricResults:
        """Returns this object, which can be queried."""
        return self

    def query(self, filter: Any = None) -> dict[str, list[Any]]:
        """Returns {kind, such as 'counters': list of the `MetricResult` objects that match the filter}.

        Args:
            filter: a `MetricsFilter` of Beam; None for all metrics.
        """
        return {
            kind: [metric for metric in metrics if self.matches(filter, metric.key)]
            for kind, metrics in self._metrics.items()
        }


def _describe_exit(code: int) -> str:
    """Returns a clause about the end of a process; a negative exit code stands for a signal.

    >>> _describe_exit(-9), _describe_exit(1)
    ('was killed by signal 9 (SIGKILL)', 'ended with exit status 1 before its work was done')
    """
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit status {code} before its work was done"


class _RunnerProcess:
    """The runner process of a run.

    Args:
        output: file descriptors for the output, (shown, kept); see `OutputReader`.
        scratch: directory for temporary files.
        replies: pipe to the launcher, for one message (error or None, metrics).
        launcher_alive: pipe that becomes readable when the launcher closes the run, or ends.
    """

    def __init__(
        self, output: tuple[int, int], scratch: str, replies: Connection[Any, Any], launcher_alive: Connection[Any, Any]
    ) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the launcher, which ends the run
        redirect("", *output)
        self._output = output
        tempfile.tempdir = os.environ["TMPDIR"] = scratch
        gc.freeze()  # imported objects stay alive; collecting them repeatedly would take 5% of the time
        self._replies, self._launcher_alive, self._lock = replies, launcher_alive, threading.Lock()
        self._scratch = scratch
        self._workers: list[int] = []

    def run(self, pipeline: beam.Pipeline, options: PipelineOptions) -> None:
        """Runs the pipeline, replies, and ends this process with its workers."""
        try:
            if can_replace_subprocesses():
                self._replace_subprocesses(int(options.get_all_options()["direct_num_workers"]))
            threading.excepthook = self._handle_thread_error
            threading.Thread(target=self._end_with_launcher, daemon=True).start()
            result = FnApiRunner().run_pipeline(pipeline, options)
            result.wait_until_finish()
            self._reply(None, result.metrics().query())
        except BaseException as error:
            text = str(error)
            if "Traceback" not in text:  # a worker has probably died, which `_watch` reports in this time
                time.sleep(2 * _GRACE_SECONDS)
                text = "".join(traceback.format_exception(error))
            self._reply(RuntimeError(text), {})

    def _replace_subprocesses(self, num_workers: int) -> None:
        """Forks workers, and makes Beam's `multi_processing` mode use them instead of starting subprocesses."""
        unused_workers = [self._fork_worker() for _ in range(num_workers)]

        def start_worker(handler: Any) -> None:
            """Sends the (control address, worker id) of one of Beam's worker handlers to an unused worker process."""
            with contextlib.suppress(BrokenPipeError):  # `_watch` reports a worker that has died
                unused_workers.pop(0).send((handler.control_address, handler.worker_id))

        subprocess_handler: Any = worker_handlers.SubprocessSdkWorkerHandler
        subprocess_handler.start_worker, subprocess_handler.stop_worker = start_worker, lambda handler: None
        if hasattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS"):
            # no timer, which would clear a buffer while it is being filled
            worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _fork_worker(self) -> Connection[Any, Any]:
        """Forks a worker process that waits for its arguments, and returns the pipe to send them.

        The message is a tuple (address of the runner's control service, id of the worker), the arguments of `work`.
        """
        settings, settings_end = Pipe(duplex=False)
        pid = os.fork()
        if pid:
            self._workers.append(pid)
            settings.close()
            return settings_end
        status = 1
        try:
            self._replies.close()
            threading.Thread(target=lambda: (wait([self._launcher_alive]), os._exit(1)), daemon=True).start()
            stream = redirect(f"worker {len(self._workers) + 1}", *self._output)
            try:
                work(*settings.recv())
            finally:
                stream.finish()
            status = _RELEASED
        finally:
            os._exit(status)  # skips the exit handlers, which are the launcher's

    def _watch(self) -> None:
        """Replies with an error if a worker ends before the runner has released it."""
        numbers = {pid: number for number, pid in enumerate(self._workers, start=1)}
        while self._workers:
            pid, status = self._wait_for_child()
            if (code := os.waitstatus_to_exitcode(status)) != _RELEASED and pid in numbers:
                time.sleep(_GRACE_SECONDS)
                message = f"worker process {numbers[pid]} of {len(numbers)} (pid {pid}) {_describe_exit(code)}"
                self._reply(WorkerDiedError(message), {})

    def _wait_for_child(self) -> tuple[int, int]:
        """Waits for a worker to end, removes it from `_workers`, and returns its (pid, status).

        The system may give the pid to another process from then on, which `_end` must not kill.
        """
        while True:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            assert info is not None
            if info.si_pid in self._workers:
                self._workers.remove(info.si_pid)
            with contextlib.suppress(ChildProcessError):  # a subprocess, whose own thread has waited for it meanwhile
                return os.waitpid(info.si_pid, 0)

    def _handle_thread_error(self, failure: threading.ExceptHookArgs) -> None:
        """Replies with an error if a thread of Beam has failed because a subprocess of Beam has ended."""
        threading.__excepthook__(failure)
        if "exited with return code" in str(failure.exc_value):
            self._reply(RuntimeError(str(failure.exc_value)), {})

    def _reply(self, error: Exception | None, metrics: Any) -> None:
        """Sends (error, metrics) to the launcher, and ends this process and its workers.

        Args:
            error: the error of the run; None if it succeeded.
            metrics: {kind: list of `MetricResult`}, see `LocalRunner.reply`.
        """
        with self._lock:
            try:
                self._replies.send((error, metrics))
            finally:
                self._end()

    def _end_with_launcher(self) -> None:
        """Waits until the launcher closes the run or ends, then ends this process with its workers."""
        wait([self._launcher_alive])
        self._end()

    def _end(self) -> None:
        """Kills the workers, removes the temporary files and exits."""
        for pid in tuple(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._scratch, ignore_errors=True)  # a launcher that was killed cannot do so
        os._exit(0)


def main() -> None:
    """Runs the pipeline that standard input contains, as the main function of a runner process that was not forked."""
    proto, option_values, scratch, (replies, launcher_alive, _, display_descriptor, log_descriptor) = pickle.load(
        sys.stdin.buffer
    )
    process = _RunnerProcess(
        (display_descriptor, log_descriptor),
        scratch,
        Connection(replies, readable=False),
        Connection(launcher_alive, writable=False),
    )
    options = PipelineOptions([], **option_values)
    graph = beam_runner_api_pb2.Pipeline.FromString(proto)
    process.run(beam.Pipeline.from_runner_api(graph, FnApiRunner(), options), options)
