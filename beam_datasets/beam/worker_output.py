"""What the processes of a local run print and log: shown by the launcher, and kept in a file.

Each process of the run has two pipes to its launcher: one for what the author's code prints, logs and warns, and one
for what Beam logs, which is kept and not shown, since one error says why a run failed. A pipe cannot be full of data
that nobody reads as a disk can: a thread of the launcher reads both, and goes on where its file cannot be written.
Lines are shown with the number of their worker, at a limited rate.
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
from types import FrameType

from beam_datasets.frames import is_beam

MAX_LOG_BYTES = 64 << 20
SHOWN_AT_ONCE = 200  # lines
SHOWN_PER_SECOND = 20
CLOSE_SECONDS = 5.0  # for processes that the author's code has started to close the pipes
_READ_SIZE = 1 << 16
_MAX_LINE = 1 << 14  # bytes, after which a line is cut in two
_TOOLS = tuple(f"{os.sep}{name}" for name in (f"logging{os.sep}__init__.py", "traceback.py", "warnings.py"))


class OutputReader:
    """Reads what the processes of a run write, shows it and keeps it, until all of them have ended.

    Args:
        log: path of the file that keeps it; created when there is something to keep.

    Attributes:
        shown: file descriptor that takes what is shown and kept.
        kept: file descriptor that takes what is kept alone.
        last_time: when something was read last, by `time.monotonic`.
    """

    def __init__(self, log: str) -> None:
        self._log = log
        self._shown_end, self.shown = os.pipe()
        self._kept_end, self.kept = os.pipe()
        self._file: io.BufferedWriter | None = None
        self._num_bytes = self._num_shown = self._num_hidden = 0
        self._allowance, self._allowed_at = float(SHOWN_AT_ONCE), time.monotonic()
        self._thread: threading.Thread | None = None
        self.last_time = time.monotonic()

    @property
    def writing_ends(self) -> tuple[int, int]:
        """The descriptors that processes of the run write to."""
        return self.shown, self.kept

    def start(self) -> None:
        """Starts to read, once the processes have the writing ends, which are closed here."""
        self.close_writing_ends()
        self._thread = threading.Thread(target=self._read, name="worker output", daemon=True)
        self._thread.start()

    def close_reading_ends(self) -> None:
        """Closes the descriptors that the launcher reads from, in a process that was forked from it."""
        for descriptor in (self._shown_end, self._kept_end):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def close_writing_ends(self) -> None:
        """Closes the descriptors that other processes write to."""
        for descriptor in self.writing_ends:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def close(self, *, keep: bool) -> None:
        """Waits for the end of what the processes wrote; removes the file if nothing in it was to be shown.

        Args:
            keep: whether the file stays in any case, because the run failed.
        """
        if self._thread is None:
            self.close_writing_ends()
        else:
            self._thread.join(CLOSE_SECONDS)
        self.close_reading_ends()
        if self._num_hidden:
            self._print(f"{self._num_hidden:,} more lines of workers are not shown")
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._file.close()
            if not keep and not self._num_shown:
                with contextlib.suppress(OSError):
                    os.remove(self._log)

    def _read(self) -> None:
        unfinished = {self._shown_end: b"", self._kept_end: b""}
        poll = select.poll()
        for descriptor in unfinished:
            poll.register(descriptor, select.POLLIN)
        while unfinished:
            for descriptor, _ in poll.poll():
                try:
                    data = os.read(descriptor, _READ_SIZE)
                except OSError:
                    data = b""
                *lines, rest = (unfinished[descriptor] + data).split(b"\n")
                if not data or len(rest) > _MAX_LINE:
                    lines, rest = [*lines, *filter(None, [rest])], b""
                unfinished[descriptor] = rest
                if not data:
                    poll.unregister(descriptor)
                    del unfinished[descriptor]
                if lines:
                    self.last_time = time.monotonic()
                    self._take(lines, is_shown=descriptor == self._shown_end)

    def _take(self, lines: Iterable[bytes], *, is_shown: bool) -> None:
        """Keeps lines, and shows them unless there are too many."""
        for line in lines:
            self._keep(line + b"\n")
            if not is_shown:
                continue
            now = time.monotonic()
            self._allowance += (now - self._allowed_at) * SHOWN_PER_SECOND
            self._allowance, self._allowed_at = min(self._allowance, float(SHOWN_AT_ONCE)), now
            self._num_shown += 1
            if self._allowance < 1:
                self._num_hidden += 1
            else:
                self._allowance -= 1
                self._print(line.decode("utf-8", "backslashreplace"))

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone
            print(text, file=sys.stderr, flush=True)

    def _keep(self, line: bytes) -> None:
        """Writes a line to the file, without an error if that is not possible: the run goes on."""
        if self._num_bytes >= MAX_LOG_BYTES:
            return
        with contextlib.suppress(OSError, ValueError):
            if self._file is None:
                self._file = open(self._log, "ab")  # noqa: SIM115
            self._file.write(line)
            self._file.flush()
        self._num_bytes += len(line)


class WorkerStream(io.TextIOBase):
    """Standard output or standard error of a process of the run, whose writes never fail.

    Args:
        prefix: of each line.
        shown: descriptor that takes lines of the author's code.
        kept: descriptor that takes lines of Beam.
    """

    def __init__(self, prefix: str, shown: int, kept: int) -> None:
        self._prefix, self._shown, self._kept = prefix, shown, kept
        self._lock = threading.Lock()
        self._unfinished = ""

    def writable(self) -> bool:
        """Returns True."""
        return True

    def fileno(self) -> int:
        """Returns the descriptor of what is shown."""
        return self._shown

    def write(self, text: str) -> int:
        """Writes the lines that are complete; the rest waits for its end."""
        frame = _writer(sys._getframe(1))
        by_beam = frame is not None and is_beam(frame.f_code.co_filename)
        with self._lock:
            *lines, self._unfinished = (self._unfinished + text).replace("\r", "\n").split("\n")
        if lines:
            self.write_lines(lines, by_beam=by_beam)
        return len(text)

    def write_lines(self, lines: Iterable[str], *, by_beam: bool) -> None:
        """Writes whole lines."""
        data = "".join(f"{self._prefix}{line}\n" for line in lines if line).encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):  # the launcher has ended, and this process will
            while data:
                data = data[os.write(self._kept if by_beam else self._shown, data[: select.PIPE_BUF]) :]


def _writer(frame: FrameType | None) -> FrameType | None:
    """Returns the frame that wants something written, beyond those of the modules that format it."""
    while frame is not None and frame.f_code.co_filename.endswith(_TOOLS):
        frame = frame.f_back
    return frame


class _LineHandler(logging.Handler):
    """Writes records to a stream; those of Beam are kept and not shown."""

    def __init__(self, stream: WorkerStream) -> None:
        super().__init__()
        self._stream = stream
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._stream.write_lines(self.format(record).splitlines(), by_beam=is_beam(record.pathname))
        except Exception as error:  # a message that cannot be formatted
            self._stream.write_lines([f"{record.pathname}:{record.lineno}: {error}"], by_beam=False)


def redirect(name: str, shown: int, kept: int) -> None:
    """Sends what this process prints, logs and warns to its launcher.

    Handlers of the root logger that write to the launcher's terminal are replaced; others stay.

    Args:
        name: of the process, which begins each line; '' for the runner process, whose lines are Beam's.
        shown: descriptor of what is shown; see `OutputReader`.
        kept: descriptor of what is kept alone.
    """
    for descriptor in (1, 2):  # what is not written by Python
        os.dup2(shown if name else kept, descriptor)
    stream = WorkerStream(f"{name}: " if name else "", shown, kept)
    sys.stdout = sys.stderr = stream
    root = logging.getLogger()
    replaced = (logging.StreamHandler, _LineHandler)  # the latter is the runner process's, in a worker
    others = [handler for handler in root.handlers if type(handler) not in replaced]
    root.handlers[:] = [*others, _LineHandler(stream)]
