"""The log of what the code of a dataset prints and logs during a run.

A log that cannot be written, as on a full disk, neither ends the run nor blocks it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, TextIO

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.frames import is_beam
from beam_datasets.passwords import may_have_secret, without_passwords
from beam_datasets.publishing.runs import LAST_LINES_SUFFIXES, WORKERS_FILE

log = logging.getLogger(__name__)

MAX_LOG_BYTES = 16 << 20  # of the first lines of the log
MAX_LAST_BYTES = 4 << 20  # of each of the two files of later lines, while the run is active
NUM_LAST_LINES = 200  # that a longer log has after its first lines
MAX_LINE = 1 << 14  # a longer line is cut
_NAME_LENGTH = 30  # characters of a line before a text, in which the name of a secret may begin
# Modules that write for their callers.
_TOOLS = tuple(f"{os.sep}{name}" for name in (f"logging{os.sep}__init__.py", "traceback.py", "warnings.py"))


# Held while streams split and log what is written. A fork waits for it, as no thread of the child would release it. It
# is reentrant because a signal handler or a `__del__` may print at any time.
OUTPUT_LOCK = threading.RLock()
os.register_at_fork(before=OUTPUT_LOCK.acquire, after_in_parent=OUTPUT_LOCK.release, after_in_child=OUTPUT_LOCK.release)


class LineBuffer:
    """Joins the texts that are written to a stream into complete lines.

    A call that interrupts another one, as of a signal handler, neither loses nor repeats a text.

    Attributes:
        length: number of characters of the last line, which has no end yet.
    """

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self.length = 0

    def add(self, text: str) -> str:
        """Adds a text; returns the complete lines with their ends, and the last line if it is longer than MAX_LINE."""
        self._parts.append(text)
        self.length += len(text)
        if "\n" not in text and "\r" not in text and self.length <= MAX_LINE:
            return ""
        lines = self.take()
        end = max(lines.rfind("\n"), lines.rfind("\r")) + 1
        if len(lines) - end > MAX_LINE:
            return lines
        self._parts.append(lines[end:])
        self.length += len(lines) - end
        return lines[:end]

    def take(self) -> str:
        """Returns and removes the last line, which has no end."""
        parts = []
        while self._parts:
            parts.append(self._parts.popleft())
        self.length = 0
        return "".join(parts)


class _LastLines:
    """The last lines of a long log, in two files of which the older one is replaced if the other one is full.

    They are in files and not in memory so that they survive the launcher, which may be killed.

    Args:
        log: path of the log, whose name with a suffix is that of each file.

    Attributes:
        path: path of the file that is written.
        num_lines: number of lines that were added.
    """

    def __init__(self, log: str) -> None:
        self.path, self._full_path = (log + suffix for suffix in LAST_LINES_SUFFIXES)
        self.num_lines = self._num_bytes = 0
        self._file: io.BufferedWriter | None = None

    def add(self, line: bytes) -> None:
        """Adds a line to the file; raises OSError if it cannot be written."""
        if self._file is not None and self._num_bytes + len(line) > MAX_LAST_BYTES:
            self._file.close()
            self._file = None
            os.replace(self.path, self._full_path)
        if self._file is None:
            self._file = open(self.path, "wb")  # noqa: SIM115
            self._num_bytes = 0
        self._file.write(line)
        self._file.flush()
        self.num_lines += 1
        self._num_bytes += len(line)

    def take(self) -> list[bytes]:
        """Returns the last NUM_LAST_LINES lines, and removes the files."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # flushed output is in the file
                self._file.close()
        lines: deque[bytes] = deque(maxlen=NUM_LAST_LINES)
        for path in (self._full_path, self.path):
            with contextlib.suppress(FileNotFoundError):  # few lines, or removed: the log counts what is left out
                with open(path, "rb") as file:
                    lines.extend(file)
                os.remove(path)
        return list(lines)


class OutputLog:
    """A log file of lines, which is created with the first line, and removed if the dataset's code has written none.

    Args:
        path: path of the log file.

    Attributes:
        problem: why the log lacks lines; '' if it is complete.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: io.BufferedWriter | None = None
        self.problem = ""
        self._num_bytes = self._num_author_lines = self._num_first_bytes = 0
        self._last_lines = _LastLines(path)  # after the first MAX_LOG_BYTES

    def add(self, line: str, *, by_beam: bool) -> None:
        """Adds a line, after MAX_LOG_BYTES to the last lines; lines of Beam alone do not keep the file."""
        self._num_author_lines += not by_beam
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        self._num_bytes += len(data)
        if self._num_bytes <= MAX_LOG_BYTES:
            self._write(data)
            return
        if not self._last_lines.num_lines and self._file is not None:
            self._num_first_bytes = self._file.tell()
            self._write(b"... the next lines are in %s ...\n" % os.fsencode(self._last_lines.path))
        if not self.problem:
            try:
                self._last_lines.add(data)
            except OSError as error:
                self.problem = f"{self._last_lines.path}: {error.strerror or error}"

    def close(self) -> str:
        """Closes the file, and removes it if it has only lines of Beam.

        Returns:
            A sentence on why the file lacks lines; '' if it is complete or removed.
        """
        if self._last_lines.num_lines:
            self._write_last_lines()
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:  # flushed output is in the file
                self.problem = self.problem or str(error)
            if not self._num_author_lines:
                os.remove(self._path)
        is_incomplete = self.problem and self._num_author_lines
        return f"The output of the workers is not kept completely: {self.problem}" if is_incomplete else ""

    def _write_last_lines(self) -> None:
        """Moves the last lines of a long log into it, after the number of lines that are left out before them."""
        problem, self.problem = self.problem, ""  # the files that are removed may have filled the disk
        try:
            lines = self._last_lines.take()
            if self._file is not None:
                self._file.truncate(self._num_first_bytes)  # without the line that names these files
        except OSError as error:
            self.problem = problem or f"{self._path}: {error.strerror or error}"
            return
        num_left_out = self._last_lines.num_lines - len(lines)
        if num_left_out:
            lines.insert(0, b"... %d lines are left out here ...\n" % num_left_out)
            problem = problem or f"{num_left_out:,} lines in its middle are left out"
        self._write(b"".join(lines))
        self.problem = problem or self.problem

    def _write(self, data: bytes) -> None:
        """Writes lines to the file; an error does not end the run, and `close` returns it."""
        if self.problem:
            return
        try:
            if self._file is None:
                self._file = open(self._path, "ab")  # noqa: SIM115
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror or error}"


def join_logs(dataset_dirs: Iterable[str], path: str) -> None:
    """Writes the logs of versions, in their order, to a file; no file if there are none.

    If one cannot be copied, there is no file, and a warning says why: a log is no reason to end an append.
    """
    logs = [storage.join(folder, WORKERS_FILE) for folder in dataset_dirs]
    try:
        if texts := [storage.read_bytes(file) for file in logs if storage.exists(file)]:
            storage.write_bytes(path, b"".join(texts))
    except StorageError as error:
        log.warning("The output of the builders is not kept: %s", error)


def is_written_by_beam(frame: FrameType | None) -> bool:
    """Returns whether the innermost frame, from `frame` outwards, that is not in a module of _TOOLS is one of Beam."""
    while frame is not None and frame.f_code.co_filename.endswith(_TOOLS):
        frame = frame.f_back
    return frame is not None and is_beam(frame.f_code.co_filename)


@contextlib.contextmanager
def recorded_output(path: str) -> Iterator[None]:
    """Context manager: also writes what this process prints and logs to a log file; both are without passwords.

    What does not pass through Python's streams, such as the output of a subprocess, is not in the log. If several runs
    are active in threads of a process, each log has the output of all of them.

    Args:
        path: path of the log file.
    """
    output_log = OutputLog(path)
    recorder = _Recorder(output_log)
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    copies = {name: _CopiedStream(stream, recorder) for name, stream in streams.items() if stream is not None}
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    # A handler whose stream is a property, such as `logging.lastResort`, looks up sys.stderr at each record.
    handlers: list[tuple[Any, _CopiedStream]] = [
        (handler, _CopiedStream(handler.stream, recorder))
        for logger in loggers
        for handler in getattr(logger, "handlers", ())
        if isinstance(handler, logging.StreamHandler)
        and "stream" in vars(handler)
        and _is_standard_stream(handler.stream)
    ]
    for name, copy in copies.items():
        setattr(sys, name, copy)
    for handler, copy in handlers:
        handler.setStream(copy)
    try:
        yield
    finally:
        for handler, copy in handlers:
            copy.finish()
            if handler.stream is copy:
                handler.setStream(_without_ended_copies(copy))
        for name, copy in copies.items():
            copy.finish()
            if getattr(sys, name) is copy:
                setattr(sys, name, _without_ended_copies(copy))
        if problem := output_log.close():
            with contextlib.suppress(OSError, ValueError):  # of a terminal that was closed
                print(problem, file=sys.stderr, flush=True)


def _is_standard_stream(stream: Any) -> bool:
    """Returns whether a stream is standard output or standard error, or another object that writes to one of them."""
    if stream in (sys.stdout, sys.stderr):
        return True
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return stream.fileno() in (1, 2)
    return False


def _without_ended_copies(stream: TextIO | _CopiedStream) -> Any:
    """Returns the stream below the copies whose recordings have ended: those of several threads end in any order."""
    while isinstance(stream, _CopiedStream) and stream.is_finished:
        stream = stream.stream
    return stream


class _Recorder:
    """Writes what several streams are given to a log and to these streams, one text after another.

    A text that is written during a call in the same thread, as by a signal handler, is written by that call.

    Args:
        log: the log.
    """

    def __init__(self, log: OutputLog) -> None:
        self._log = log
        self._texts: deque[tuple[_CopiedStream, str, bool]] = deque()
        self._is_active = False

    def write(self, stream: _CopiedStream, text: str, *, by_beam: bool) -> None:
        """Writes a text of a stream to the log and to the stream."""
        self._texts.append((stream, text, by_beam))
        outputs = []
        with OUTPUT_LOCK:
            if self._is_active:
                return
            self._is_active = True
            try:
                while self._texts:
                    stream, text, by_beam = self._texts.popleft()
                    lines, output = stream.split(text)
                    self.log(lines, by_beam=by_beam)
                    outputs.append((stream.stream, output))
            finally:
                self._is_active = False
        for terminal, output in outputs:
            terminal.write(output)

    def log(self, lines: str, *, by_beam: bool) -> None:
        """Adds lines to the log, except empty ones."""
        for line in filter(None, lines.replace("\r", "\n").split("\n")):
            self._log.add(line, by_beam=by_beam)


class _CopiedStream(io.TextIOBase):
    """Standard output or standard error, whose complete lines are also written to a log.

    A line that may contain a secret is shown when it is complete, because its parts may be written one by one.

    Args:
        stream: the stream to write to.
        recorder: writes to the stream and to the log.

    Attributes:
        is_finished: whether the recording has ended. It then only writes to the stream: a logging handler that was
            created during the run may still use it.
    """

    def __init__(self, stream: TextIO, recorder: _Recorder) -> None:
        self.stream, self._recorder = stream, recorder
        self._line, self._is_held = LineBuffer(), False
        self._shown: list[str] = []  # of the last line
        self._tail = ""  # its last characters
        self.is_finished = False

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the stream, such as `buffer`."""
        return getattr(self.stream, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """The handling of characters that the encoding lacks, such as "strict"."""
        return self.stream.errors

    def writable(self) -> bool:
        """Returns True."""
        return True

    def isatty(self) -> bool:
        """Returns whether the stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Returns the file descriptor of the stream."""
        return self.stream.fileno()

    def flush(self) -> None:
        """Flushes the stream."""
        self.stream.flush()

    def close(self) -> None:
        """Does nothing: the stream stays open."""

    def write(self, text: str) -> int:
        """Writes a text to the stream, and complete lines to the log, without passwords; returns the text's length."""
        if self.is_finished:
            self.stream.write(without_passwords(text))
        else:
            self._recorder.write(self, text, by_beam=is_written_by_beam(sys._getframe(1)))
        return len(text)

    def split(self, text: str) -> tuple[str, str]:
        """Adds a text to the line, and returns (complete lines, text to show now), both without passwords."""
        lines = self._line.add(text)
        masked_lines, output = without_passwords(lines), ""
        if lines:
            output = self._take_hidden(lines, masked_lines)
            text = text[len(text) - self._line.length :]
        self._tail = (self._tail + text)[-len(text) - _NAME_LENGTH :]
        self._is_held = self._is_held or may_have_secret(self._tail) or without_passwords(text) != text
        if self._is_held:
            return masked_lines, output
        self._shown.append(text)
        return masked_lines, output + text

    def _take_hidden(self, lines: str, masked_lines: str) -> str:
        """Returns the part of complete lines that is not shown yet, without passwords, and begins a new line.

        Args:
            lines: the lines as they were written; their beginning is shown already.
            masked_lines: the lines without passwords.
        """
        shown = "".join(self._shown)
        self._shown, self._tail, self._is_held = [], "", False
        if masked_lines.startswith(shown):
            return masked_lines[len(shown) :]
        return without_passwords(lines[len(shown) :])

    def finish(self) -> None:
        """Ends the recording: writes the last line, which has no end, to the log and to the stream."""
        with OUTPUT_LOCK:
            line = self._line.take()
            masked_line = without_passwords(line)
            self.is_finished = True
            self._recorder.log(masked_line, by_beam=False)
            output = self._take_hidden(line, masked_line)
        if output:
            self.stream.write(output)
