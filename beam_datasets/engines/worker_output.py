"""Output of the worker processes of a local run: the launcher shows it and writes it to a log file.

All processes of a run write to two pipes of the launcher. One is for output, logs and warnings of the author's code;
its lines are shown and written to the log. The other is for Beam's logs, which are written to the log but not shown,
because one error tells why a run failed. A thread of the launcher reads both pipes. It reads on if the log cannot be
written, so a full disk does not block the workers. Lines are shown with the number of their worker, at a limited rate.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Iterable

from beam_datasets.frames import is_beam
from beam_datasets.passwords import without_passwords
from beam_datasets.publishing.output_log import MAX_LINE, OUTPUT_LOCK, LineBuffer, OutputLog, is_written_by_beam

SHOWN_AT_ONCE = 200  # lines that may be shown without a pause
SHOWN_PER_SECOND = 20  # lines per second that are shown after that
CLOSE_SECONDS = 5.0  # maximal time to wait for processes that the author's code has started, and that use the pipes
_READ_SIZE = 1 << 16
_POLL_MILLISECONDS = 200


class OutputReader:
    """Reads the output of the processes of a run from two pipes, shows it and writes it to a log file.

    Args:
        log: path of the log file, which is created with the first line.

    Attributes:
        shown: file descriptor to write to; its lines are shown and logged.
        kept: file descriptor to write to; its lines are only logged.
        last_time: time of the last output, by `time.monotonic`.
    """

    def __init__(self, log: str) -> None:
        self._log = OutputLog(log)
        self._shown_end, self.shown = os.pipe()
        self._kept_end, self.kept = os.pipe()
        self._num_hidden = 0
        self._allowance, self._allowed_at = float(SHOWN_AT_ONCE), time.monotonic()
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()
        self.last_time = time.monotonic()

    @property
    def writing_ends(self) -> tuple[int, int]:
        """(shown, kept): the file descriptors that processes of the run write to."""
        return self.shown, self.kept

    def start(self) -> None:
        """Starts the reading thread; the processes of the run must have the writing ends, which this process closes."""
        self._close_writing_ends()
        self._thread = threading.Thread(target=self._read_pipes, name="worker output", daemon=True)
        self._thread.start()

    def close_reading_ends(self) -> None:
        """Closes the file descriptors to read from; only for a process without a reading thread, such as a fork."""
        for descriptor in (self._shown_end, self._kept_end):
            os.close(descriptor)

    def _close_writing_ends(self) -> None:
        """Closes the file descriptors to write to in this process."""
        for descriptor in self.writing_ends:
            os.close(descriptor)

    def close(self) -> None:
        """Reads the output to its end, and removes the log file if it has no lines of the author's code.

        Shows how many lines were not shown, and why the log is not complete, if it is not.
        """
        if self._thread is None:
            self._close_writing_ends()
            self.close_reading_ends()
        else:
            self._is_closing.set()
            self._thread.join()
        if self._num_hidden:
            self._print(f"{self._num_hidden:,} more lines of workers are not shown")
        if problem := self._log.close():
            self._print(problem)

    def _read_pipes(self) -> None:
        """Reads both pipes until all processes have closed them, and handles each line; then closes the pipes.

        After `close` it waits CLOSE_SECONDS for processes that the author's code has started and that still run.
        """
        try:
            unfinished = {self._shown_end: b"", self._kept_end: b""}
            poll = select.poll()
            for descriptor in unfinished:
                poll.register(descriptor, select.POLLIN)
            closed_at = None
            while unfinished and (closed_at is None or time.monotonic() < closed_at + CLOSE_SECONDS):
                for descriptor, _ in poll.poll(_POLL_MILLISECONDS):
                    data = os.read(descriptor, _READ_SIZE)
                    *lines, last_line = (unfinished[descriptor] + data).split(b"\n")
                    if not data or len(last_line) > MAX_LINE:
                        lines, last_line = [*lines, *filter(None, [last_line])], b""
                    unfinished[descriptor] = last_line
                    if not data:
                        poll.unregister(descriptor)
                        del unfinished[descriptor]
                    if lines:
                        self.last_time = time.monotonic()
                        self._log_lines(lines, is_shown=descriptor == self._shown_end)
                if closed_at is None and self._is_closing.is_set():
                    closed_at = time.monotonic()
        finally:  # also after an error: else the workers would wait for somebody to read
            self.close_reading_ends()

    def _log_lines(self, lines: Iterable[bytes], *, is_shown: bool) -> None:
        """Writes lines to the log, and if `is_shown` shows them at the limited rate; without the passwords of URLs."""
        for line_with_passwords in lines:
            line = without_passwords(line_with_passwords.decode("utf-8", "backslashreplace"))
            self._log.add(line, by_beam=not is_shown)
            if not is_shown:
                continue
            current_time = time.monotonic()
            self._allowance += (current_time - self._allowed_at) * SHOWN_PER_SECOND
            self._allowance, self._allowed_at = min(self._allowance, float(SHOWN_AT_ONCE)), current_time
            if self._allowance < 1:
                self._num_hidden += 1
            else:
                self._allowance -= 1
                self._print(line)

    def _print(self, text: str) -> None:
        """Prints a line to standard error, which may be a terminal that was closed: then nobody can be told."""
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


class WorkerStream(io.TextIOBase):
    """Standard output and standard error of a process of the run, whose writes never fail.

    Args:
        prefix: prefix of each line.
        display_descriptor: file descriptor for lines of the author's code.
        log_descriptor: file descriptor for lines of Beam.
    """

    def __init__(self, prefix: str, display_descriptor: int, log_descriptor: int) -> None:
        self._prefix, self._display_descriptor, self._log_descriptor = prefix, display_descriptor, log_descriptor
        self._line = LineBuffer()

    def writable(self) -> bool:
        """Returns True."""
        return True

    def fileno(self) -> int:
        """Returns the file descriptor whose lines are shown."""
        return self._display_descriptor

    def write(self, text: str) -> int:
        """Writes complete lines, to a descriptor that depends on the caller, and buffers the rest."""
        by_beam = is_written_by_beam(sys._getframe(1))
        with OUTPUT_LOCK:
            lines = self._line.add(text)
        if lines:
            self.write_lines(lines.replace("\r", "\n").split("\n"), by_beam=by_beam)
        return len(text)

    def finish(self) -> None:
        """Writes the last line, which has no end; called before the process ends."""
        with OUTPUT_LOCK:
            last_line = self._line.take()
        self.write_lines([last_line], by_beam=False)

    def write_lines(self, lines: Iterable[str], *, by_beam: bool) -> None:
        """Writes lines with the prefix, except empty ones, in pieces that a pipe keeps together.

        Args:
            lines: the lines, without their ends.
            by_beam: whether the lines are Beam's, for `log_descriptor`; otherwise for `display_descriptor`.
        """
        data = "".join(f"{self._prefix}{line}\n" for line in lines if line).encode("utf-8", "backslashreplace")
        descriptor = self._log_descriptor if by_beam else self._display_descriptor
        with contextlib.suppress(OSError):  # the launcher has ended, and this process will end, too
            while data:
                data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]


class _LineHandler(logging.Handler):
    """A logging handler that writes to a WorkerStream; records of Beam are not shown."""

    def __init__(self, stream: WorkerStream) -> None:
        super().__init__()
        self._stream = stream
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the lines of a log record to the stream; never raises an exception. See `logging.Handler.emit`."""
        try:
            self._stream.write_lines(self.format(record).splitlines(), by_beam=is_beam(record.pathname))
        except Exception as error:  # a message that cannot be formatted
            self._stream.write_lines([f"{record.pathname}:{record.lineno}: {error}"], by_beam=False)


def redirect(name: str, display_descriptor: int, log_descriptor: int) -> WorkerStream:
    """Redirects the output, logs and warnings of this process to the pipes of its launcher, and returns the stream.

    Handlers of the root logger that write to a terminal are replaced; others stay.

    Args:
        name: name of the process, with which each line begins; '' for the runner process, whose lines are Beam's.
        display_descriptor: file descriptor whose lines are shown; see `OutputReader`.
        log_descriptor: file descriptor whose lines are only logged.
    """
    for descriptor in (1, 2):  # for output that does not pass through Python's streams
        os.dup2(display_descriptor if name else log_descriptor, descriptor)
    stream = (
        WorkerStream(f"{name}: ", display_descriptor, log_descriptor)
        if name
        else WorkerStream("", log_descriptor, log_descriptor)
    )
    terminals = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    sys.stdout = sys.stderr = stream
    root = logging.getLogger()
    root.handlers[:] = [
        handler
        for handler in root.handlers
        if not isinstance(handler, _LineHandler)  # which a worker inherits from the runner process
        and getattr(handler, "stream", None) not in terminals
    ]
    root.addHandler(_LineHandler(stream))
    return stream
