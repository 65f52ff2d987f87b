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
from beam_datasets.passwords import without_passwords
from beam_datasets.publishing.runs import LAST_LINES_SUFFIXES, WORKERS_FILE

MAX_LOG_BYTES = 16 << 20  # of the first lines of the log
MAX_LAST_BYTES = 4 << 20  # of each of the two files of later lines, while the run is active
NUM_LAST_LINES = 200  # that a longer log has after its first lines
# Modules that write for their callers.
_TOOLS = tuple(f"{os.sep}{name}" for name in (f"logging{os.sep}__init__.py", "traceback.py", "warnings.py"))


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
        """Closes the file, or removes it if it has only lines of Beam; returns a text if it lacks lines, else ''."""
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
    """Writes the logs of versions, in their order, to a file; no file if there are none, or one cannot be copied."""
    with contextlib.suppress(StorageError):
        logs = [storage.join(folder, WORKERS_FILE) for folder in dataset_dirs]
        if texts := [storage.read_bytes(log) for log in logs if storage.exists(log)]:
            storage.write_bytes(path, b"".join(texts))


def is_written_by_beam(frame: FrameType | None) -> bool:
    """Returns whether the innermost frame, from `frame` outwards, that is not in a module of _TOOLS is one of Beam."""
    while frame is not None and frame.f_code.co_filename.endswith(_TOOLS):
        frame = frame.f_back
    return frame is not None and is_beam(frame.f_code.co_filename)


@contextlib.contextmanager
def recorded_output(path: str) -> Iterator[None]:
    """Context manager: also writes what this process prints and logs to a log file; both are without passwords.

    What does not pass through Python's streams, such as the output of a subprocess, is not in the log.

    Args:
        path: path of the log file.
    """
    log, lock = OutputLog(path), threading.Lock()
    terminals = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    copies = {name: _CopiedStream(stream, log, lock) for name, stream in terminals.items() if stream is not None}
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    handlers: list[tuple[Any, _CopiedStream]] = [
        (handler, _CopiedStream(handler.stream, log, lock))
        for logger in loggers
        for handler in getattr(logger, "handlers", ())
        if isinstance(handler, logging.StreamHandler) and _is_of_terminal(handler.stream)
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
                handler.setStream(copy.stream)
        for name, copy in copies.items():
            if getattr(sys, name) is copy:
                setattr(sys, name, copy.stream)
            copy.finish()
        if problem := log.close():
            with contextlib.suppress(OSError, ValueError):  # of a terminal that was closed
                print(problem, file=sys.stderr, flush=True)


def _is_of_terminal(stream: Any) -> bool:
    """Returns whether a stream is standard output or standard error, or writes to its descriptor, as before a fork."""
    if stream in (sys.stdout, sys.stderr):
        return True
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return stream.fileno() in (1, 2)
    return False


class _CopiedStream(io.TextIOBase):
    """Standard output or standard error, whose complete lines are also written to a log.

    Args:
        stream: the stream to write to.
        log: the log.
        lock: lock of the log, which several streams write to.
    """

    def __init__(self, stream: TextIO, log: OutputLog, lock: threading.Lock) -> None:
        self.stream, self._log, self._lock = stream, log, lock
        self._unfinished = ""
        self._is_finished = False  # then it only writes to the stream: a handler that the run has made may keep it

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
        by_beam = is_written_by_beam(sys._getframe(1))
        with self._lock:
            *lines, self._unfinished = (self._unfinished + text).replace("\r", "\n").split("\n")
            for line in () if self._is_finished else filter(None, lines):
                self._log.add(without_passwords(line), by_beam=by_beam)
        self.stream.write(without_passwords(text))
        return len(text)

    def finish(self) -> None:
        """Writes the last line, which has no end, to the log; later ones are not logged."""
        with self._lock:
            line, self._unfinished = self._unfinished, ""
            self._is_finished = True
            if line:
                self._log.add(without_passwords(line), by_beam=False)
