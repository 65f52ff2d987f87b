"""Starts Python workers for a runner's task managers: a worker pool on the machine of each of them.

    python -m beam_datasets.beam.worker_pool --port 50000

The runner gets `--environment_type=EXTERNAL --environment_config=localhost:50000`. It differs from Beam's
worker pool in five ways: it accepts only connections from this machine; workers run the interpreter of the pool, not
the command `python`; they are forked from a process that has imported Beam and this package, which would take seconds;
a runner gets its answer when the worker has connected to it or has ended (Flink's runner would wait forever for a
worker that has ended), by the relay of `worker_relay`; and workers whose Flink job has ended are stopped.
"""

from __future__ import annotations

import argparse
import functools
import io
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent import futures
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any, NamedTuple

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from beam_datasets.engines.checks import CLUSTER, JOB, LOG_LEVEL, VERSIONS, EngineError, version_problem, versions
from beam_datasets.engines.flink import FlinkCluster
from beam_datasets.engines.worker_logging import line_prefix, send_logs
from beam_datasets.engines.worker_output import WorkerStream
from beam_datasets.engines.worker_relay import WorkerRelay
from beam_datasets.frames import is_authors
from beam_datasets.publishing.output_log import MAX_LINE

HOST = "127.0.0.1"
PRELOADED = ["apache_beam.runners.worker.sdk_worker", "beam_datasets.engines.worker_logging"]
DATA_THREADS = ("read_grpc_client_inputs", "forward_grpc_outputs")
STOP_SECONDS = 5
MAX_REQUESTS = 128  # that are answered at once: each may wait for a worker, and then for its end
ASK_SECONDS = 30.0  # between two looks for workers of ended jobs; the state that Flink reports is up to 3 s old
# Without an instruction, after which a worker is stopped whose job is unknown. If the job runs after all, Flink repeats
# the work of the stage that needs the worker. A worker with an instruction is never stopped.
IDLE_SECONDS = 3600.0

_LOGGER = logging.getLogger(__name__)


class _FlinkJob(NamedTuple):
    """The job of a worker.

    Attributes:
        cluster: URL of the cluster's REST interface.
        name: name of the job.
    """

    cluster: str
    name: str

    def has_ended(self) -> bool | None:
        """Returns whether all jobs of this name have ended; None if the cluster does not answer or has no such job."""
        try:
            return FlinkCluster(self.cluster).has_ended(self.name)
        except EngineError as error:
            _warn_of_unreachable_cluster(self.cluster, str(error))
        except Exception as error:  # another server answers at this address
            _LOGGER.warning("%s: expected Flink's list of jobs, got an answer with %r", self.cluster, error)
        return None


@functools.cache  # warns once
def _warn_of_unreachable_cluster(cluster: str, problem: str) -> None:
    """Warns that a JobManager does not answer this pool, so workers of ended jobs are kept until they are idle.

    Args:
        cluster: URL of the cluster's REST interface.
        problem: the error.
    """
    _LOGGER.warning(
        "%s: whether jobs have ended is unknown, so their workers are kept until they had no instruction for %.0f "
        "minutes: %s",
        cluster,
        IDLE_SECONDS / 60,
        problem,
    )


class _JobWorker(NamedTuple):
    """A worker of a Flink job, with the facts that decide whether it is needed.

    Attributes:
        job: the job.
        started: time of the worker's start, by `time.monotonic`.
        relay: the relay of its instructions.
    """

    job: _FlinkJob
    started: float
    relay: WorkerRelay


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """The service that starts and stops worker processes, one for each request."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._workers: dict[tuple[str, str], ForkServerProcess] = {}
        self._jobs: dict[ForkServerProcess, _JobWorker] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()  # held where `_workers` changes

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Starts a worker process, and waits until it has connected to the runner.

        Args:
            request: the `StartWorkerRequest` of Beam's Fn API.
            context: the `ServicerContext` of gRPC.

        Returns:
            A `StartWorkerResponse`; its `error` is set if the worker cannot be started, or has ended before it has
            connected, or if this process has other versions than the launcher.
        """
        _LOGGER.info("worker %s of %s starts", request.worker_id, request.control_endpoint.url)
        if problem := version_problem(request.params.get(VERSIONS, "")):
            _LOGGER.error("worker %s is not started: %s", request.worker_id, problem)
            return beam_fn_api_pb2.StartWorkerResponse(error=problem)
        relay = WorkerRelay(request.control_endpoint.url, request.worker_id)
        try:
            worker, output = self._start_process(request, relay.url)
        except (OSError, EOFError) as error:  # too many open files, or the process that forks was killed
            relay.close()
            return beam_fn_api_pb2.StartWorkerResponse(error=f"worker {request.worker_id} cannot be started: {error!r}")
        prefix = line_prefix(request.worker_id, request.params.get(JOB, ""))
        threading.Thread(target=_log_output, args=(output, prefix), name="worker output", daemon=True).start()
        key = context.peer(), request.worker_id  # two task managers may choose the same name
        with self._lock:
            replaced_worker = self._workers.get(key)
            self._workers[key] = worker
        if cluster := request.params.get(CLUSTER, ""):
            self._jobs[worker] = _JobWorker(_FlinkJob(cluster, request.params[JOB]), time.monotonic(), relay)
        threading.Thread(target=self._await_end, args=(key, worker, relay), daemon=True).start()
        if replaced_worker is not None:  # a runner has one worker of an id
            _stop_workers([replaced_worker])
        if self._closed.is_set():  # since this request has begun
            self.close()
        if problem := relay.problem.result():
            relay.close()
        return beam_fn_api_pb2.StartWorkerResponse(error=problem)

    def _start_process(self, request: Any, control: str) -> tuple[ForkServerProcess, Connection]:
        """Starts the process of a worker, and returns it and the end of a pipe from which to read its output.

        Args:
            request: the `StartWorkerRequest`.
            control: address of the worker's relay.
        """
        output, writing_end = self._context.Pipe(duplex=False)
        with writing_end:  # the worker has a duplicate of it
            worker = self._context.Process(
                # Not a daemon, so that the author's code may start processes of its own.
                target=work,
                args=(control, request.worker_id, request.logging_endpoint.url, dict(request.params), writing_end),
                name=request.worker_id,
                daemon=False,
            )
            worker.start()
        return worker, output

    def _await_end(self, key: tuple[str, str], worker: ForkServerProcess, relay: WorkerRelay) -> None:
        """Waits until a worker ends, removes it, and logs the reason unless the runner or the pool ended it.

        The runner may close the connection, or request the end on another connection. Only this thread reads the exit
        code, because it can be read only once.
        """
        wait([worker.sentinel])
        self._jobs.pop(worker, None)
        cause = _cause(worker.exitcode or 0)
        if self._remove(key, worker):
            relay.end(f" (pid {worker.pid} on {socket.gethostname()}): {cause}")
        else:  # the runner or the pool has stopped it
            relay.close()
        if worker.exitcode not in (0, -signal.SIGTERM):
            _LOGGER.error("worker %s (pid %s) has died: %s", worker.name, worker.pid, cause)

    def _remove(self, key: tuple[str, str], worker: ForkServerProcess) -> bool:
        """Removes a worker, and returns True; returns False if it was removed before or another one has replaced it."""
        with self._lock:
            is_current = self._workers.get(key) is worker
            if is_current:
                del self._workers[key]
        return is_current

    def stop_workers_of_ended_jobs(self) -> None:
        """Stops the workers of ended jobs that were started at least `ASK_SECONDS` ago.

        Beam's runner stops the workers of a job when it ends. If a task has failed before its worker connected, the
        runner keeps other workers of the job until the TaskManager ends. If the cluster does not know the job or does
        not answer, a worker is stopped when it has had no instruction for `IDLE_SECONDS`.
        """
        started_before = time.monotonic() - ASK_SECONDS
        workers = {worker: each for worker, each in self._jobs.copy().items() if each.started <= started_before}
        have_ended = {job: job.has_ended() for job in {each.job for each in workers.values()}}
        for key, worker in self._workers.copy().items():
            if worker not in workers:
                continue
            job, _, relay = workers[worker]
            has_ended = have_ended[job]
            is_idle = has_ended is None and relay.idle_seconds() >= IDLE_SECONDS
            if (has_ended or is_idle) and self._remove(key, worker):
                reason = (
                    "has ended" if has_ended else f"is unknown, and gave it nothing for {IDLE_SECONDS / 60:.0f} min"
                )
                _LOGGER.info("worker %s is stopped: its job %s %s", worker.name, job.name, reason)
                _stop_workers([worker])

    def watch_jobs(self) -> None:
        """Stops the workers of ended jobs every `ASK_SECONDS` seconds, until the pool is closed."""
        while not self._closed.wait(ASK_SECONDS):
            self.stop_workers_of_ended_jobs()

    def close(self) -> None:
        """Ends all workers, also those that are being started."""
        self._closed.set()
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
        _stop_workers(workers)

    def StopWorker(self, request: Any, context: Any) -> Any:
        """Ends a worker at the request of the runner; does nothing for an unknown worker.

        Args:
            request: the `StopWorkerRequest` of Beam's Fn API.
            context: the `ServicerContext` of gRPC, whose peer started the worker.
        """
        with self._lock:
            worker = self._workers.pop((context.peer(), request.worker_id), None)
        if worker is not None:  # otherwise it ends when the runner closes the connection
            _stop_workers([worker])
        return beam_fn_api_pb2.StopWorkerResponse()


def _cause(exit_code: int) -> str:
    """Returns a description of an exit code; a negative one stands for a signal.

    >>> _cause(3), _cause(-15)
    ('exit code 3', 'signal 15 (SIGTERM)')
    """
    if exit_code >= 0:
        return f"exit code {exit_code}"
    cause = f"signal {-exit_code} ({signal.Signals(-exit_code).name})"
    return cause + (", as the system does when memory is short" if exit_code == -signal.SIGKILL else "")


def _stop_workers(workers: Sequence[ForkServerProcess]) -> None:
    """Terminates worker processes, kills those that have not ended after `STOP_SECONDS`, and waits for their end."""
    for worker in workers:
        worker.terminate()
    deadline, running = time.monotonic() + STOP_SECONDS, list(workers)
    while running and wait([worker.sentinel for worker in running], max(deadline - time.monotonic(), 0)):
        running = [worker for worker in running if not wait([worker.sentinel], 0)]
    for worker in running:
        worker.kill()
    for worker in running:
        wait([worker.sentinel])


def _log_output(output: Connection, prefix: str) -> None:
    """Logs the lines that a worker and its processes write to their file descriptors 1 and 2, until all have ended.

    Args:
        output: the end of the pipe to read from.
        prefix: start of each line.
    """
    with output, open(output.fileno(), "rb", closefd=False) as lines:
        while line := lines.readline(MAX_LINE):
            if text := line.decode("utf-8", "backslashreplace").rstrip("\n"):
                _LOGGER.info("%s%s", prefix, text)


def _redirect(output: Connection) -> None:
    """Redirects the output of this process, also that of code in C and of subprocesses, to a pipe."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        os.dup2(output.fileno(), descriptor)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # so that the pool logs a line with its time
    output.close()


def work(
    control: str,
    worker_id: str,
    logs: str = "",
    params: Mapping[str, str] | None = None,
    output: Connection | None = None,
) -> None:
    """Works for the runner until it ends the connection, or the channel of its data breaks.

    Args:
        control: address of the control service of the runner or of a relay.
        worker_id: id of this worker.
        logs: address of the runner's logging service; '' for none.
        params: parameters of the request; see `checks.send_parameters`.
        output: pipe to the pool, which logs the output of this process; None leaves the output as it is.
    """
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    parameters = params or {}
    if output is not None:
        _redirect(output)
    send_logs(logs, worker_id, parameters.get(JOB, ""), parameters.get(LOG_LEVEL, "INFO"))
    _LOGGER.info("pid %d on %s: %s", os.getpid(), socket.gethostname(), versions())
    threading.excepthook = _end_without_data
    SdkHarness(control, worker_id=worker_id, data_buffer_time_limit_ms=-1).run()


def _end_without_data(exception: threading.ExceptHookArgs) -> None:
    """Ends the worker if its data connection breaks, so that the runner does not wait for it forever."""
    if isinstance(sys.stderr, WorkerStream):
        lines = traceback.format_exception(exception.exc_type, exception.exc_value, exception.exc_traceback)
        files = [frame.filename for frame in traceback.extract_tb(exception.exc_traceback)]
        sys.stderr.write_lines("".join(lines).splitlines(), by_beam=not any(map(is_authors, files)))
    else:
        threading.__excepthook__(exception)
    if exception.thread is not None and exception.thread.name in DATA_THREADS:
        os._exit(1)


def serve(port: int) -> tuple[grpc.Server, int, WorkerPool]:
    """Starts the service on this machine's loopback address, and returns (server, its port, pool).

    Args:
        port: the port; 0 for any free one.
    """
    server = grpc.server(futures.ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="pool"))
    pool = WorkerPool()
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    bound = server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    return server, bound, pool


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program until it is ended; its workers end with it."""
    parser = argparse.ArgumentParser(
        "python -m beam_datasets.beam.worker_pool", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--port", type=int, default=50000, help="of this machine's loopback address; default 50000")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)  # Beam's import has logged
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server, port, pool = serve(arguments.port)
    print(f"Worker pool listening on {HOST}:{port}", flush=True)
    # A daemon, for which the end of the pool does not wait: clusters may take long to answer.
    threading.Thread(target=pool.watch_jobs, name="watch jobs", daemon=True).start()
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        return 130
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second signal would leave workers that ignore the first
            signal.signal(number, signal.SIG_IGN)
        pool.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
