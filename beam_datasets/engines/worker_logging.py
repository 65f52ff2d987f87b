"""Sends the logs of a pool's workers to the engine, with the output and warnings of the dataset's code.

An engine has a logging service for its workers. Flink writes their entries to the log of the TaskManager, which its
page and its REST interface show. Each line names the job and the worker.
"""

from __future__ import annotations

import io
import logging
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

MAX_WAITING = 10_000  # entries that wait to be sent; later ones are dropped, and counted
MAX_ENTRIES = 100  # entries of one message
_SEVERITIES = (
    (logging.ERROR, beam_fn_api_pb2.LogEntry.Severity.ERROR),
    (logging.WARNING, beam_fn_api_pb2.LogEntry.Severity.WARN),
    (logging.INFO, beam_fn_api_pb2.LogEntry.Severity.INFO),
    (logging.NOTSET, beam_fn_api_pb2.LogEntry.Severity.DEBUG),
)


def send_logs(url: str, worker_id: str, job: str, level: str) -> None:
    """Sends the logs, output and warnings of this process to the logging service of an engine.

    Args:
        url: URL of the service; '' sends nothing.
        worker_id: id of this worker.
        job: name of the job; '' if it is unknown.
        level: lowest level of records to send, such as 'INFO'. Records of Beam are sent from WARNING on, or
            from `level` if it is higher.
    """
    if not url:
        return
    root = logging.getLogger()
    sender = LogSender(url, worker_id, line_prefix(worker_id, job))
    root.addHandler(sender)
    try:
        root.setLevel(int(level) if level.isdigit() else level)
    except ValueError:  # not the name of a level
        root.setLevel(logging.INFO)
    logging.getLogger("apache_beam").setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)
    for name in ("stdout", "stderr"):
        logger = logging.getLogger(name)
        logger.propagate = False  # other handlers of the root logger would print its lines again
        logger.addHandler(sender)
        setattr(sys, name, LoggedStream(logger, getattr(sys, name)))


def line_prefix(worker_id: str, job: str) -> str:
    """Returns the start of the lines of a worker.

    >>> line_prefix("1-2", "clicks-1-0-0-4442a6fe"), line_prefix("1-2", "")
    ('[clicks-1-0-0-4442a6fe worker 1-2] ', '[worker 1-2] ')
    """
    return f"[{' '.join(filter(None, [job, f'worker {worker_id}']))}] "


class LogSender(logging.Handler):
    """A logging handler that sends records to an engine's logging service, from a daemon thread."""

    def __init__(self, url: str, worker_id: str, prefix: str) -> None:
        """Starts the thread that sends records.

        Args:
            url: address of the logging service, 'host:port'.
            worker_id: id of the worker.
            prefix: text at the beginning of each message.
        """
        super().__init__()
        self._prefix = prefix
        self._entries: queue.Queue[Any] = queue.Queue(MAX_WAITING)
        self._num_dropped = 0  # since the last entry that reports them
        stub = beam_fn_api_pb2_grpc.BeamFnLoggingStub(grpc.insecure_channel(url))
        arguments = (stub, (("worker_id", worker_id),))
        threading.Thread(target=self._send, args=arguments, name="logs", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Puts a record into the queue of those to be sent; drops and counts it if the queue is full."""
        severity = next(value for level, value in _SEVERITIES if record.levelno >= level)
        entry = beam_fn_api_pb2.LogEntry(
            severity=severity,
            message=self._prefix + self.format(record),
            log_location=f"{record.pathname}:{record.lineno}",
            thread=record.threadName,
        )
        entry.timestamp.FromNanoseconds(int(record.created * 1e9))
        try:
            self._entries.put_nowait(entry)
        except queue.Full:
            self._num_dropped += 1

    def _send(self, stub: Any, metadata: Any) -> None:
        """Sends entries until the engine ends the call; reports an error of the call in the output of the pool."""
        try:
            for _ in stub.Logging(self._entry_lists(), metadata=metadata):
                pass
        except grpc.RpcError as error:
            if sys.__stderr__ is not None:
                code = error.code() if isinstance(error, grpc.Call) else error
                text = f"logs no longer reach the engine: {code}\n"
                sys.__stderr__.write(text)  # at once: print() would let other threads write before the end of the line
                sys.__stderr__.flush()

    def _entry_lists(self) -> Iterator[Any]:
        """Yields lists of entries: those that are in the queue, at least one and at most `MAX_ENTRIES`."""
        while True:
            entries = [self._entries.get()]
            while len(entries) < MAX_ENTRIES and not self._entries.empty():
                entries.append(self._entries.get())
            num_dropped, self._num_dropped = self._num_dropped, 0
            if num_dropped:
                text = f"{self._prefix}{num_dropped:,} entries were dropped, because more was logged than could be sent"
                warning = beam_fn_api_pb2.LogEntry(severity=beam_fn_api_pb2.LogEntry.Severity.WARN, message=text)
                warning.timestamp.GetCurrentTime()
                entries.append(warning)
            yield beam_fn_api_pb2.LogEntry.List(log_entries=entries)


class LoggedStream(io.TextIOBase):
    """Standard output or standard error of a worker, whose lines are logged and also written to the pool's output."""

    def __init__(self, logger: logging.Logger, stream: Any) -> None:
        self._logger, self._stream = logger, stream
        self._unfinished = ""
        self._local = threading.local()

    def writable(self) -> bool:
        """Returns True."""
        return True

    def fileno(self) -> int:
        """Returns the file descriptor of the pool's output."""
        return int(self._stream.fileno())

    def flush(self) -> None:
        """Flushes the pool's output."""
        self._stream.flush()

    def write(self, text: str) -> int:
        """Logs complete lines, and buffers the rest."""
        self._stream.write(text)
        if getattr(self._local, "is_logging", False):  # logging complains about a record on standard error
            return len(text)
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        self._local.is_logging = True
        try:
            for line in filter(None, lines):
                self._logger.info("%s", line)
        finally:
            self._local.is_logging = False
        return len(text)
