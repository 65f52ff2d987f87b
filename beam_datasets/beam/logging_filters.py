"""What is shown of what Beam logs: nothing of a local run, the progress and the problems of a remote job.

A local run that fails raises one error that says why; Beam and its workers log hundreds of lines about it. Handlers get
a filter for the time of the run, and no hook of the process is replaced.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING

from beam_datasets.beam.failures import reason

if TYPE_CHECKING:
    from collections.abc import Iterator

# They log the states of a job at level INFO.
_TRACEBACK = "Traceback (most recent call last)"
_REPORTERS = ("apache_beam.runners.dataflow.dataflow_runner", "apache_beam.runners.portability.portable_runner")


@contextlib.contextmanager
def beam_silenced() -> Iterator[None]:
    """Keeps Beam's log records from the handlers of the root logger while active."""
    handlers = [*logging.getLogger().handlers, *filter(None, [logging.lastResort])]
    for handler in handlers:
        handler.addFilter(_is_not_of_beam)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_not_of_beam)


def quiet_at_exit() -> None:
    """Keeps Beam from warning that it ends the engines that it has started, which it does when the process exits."""
    logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)


@contextlib.contextmanager
def job_reported() -> Iterator[None]:
    """Shows a remote job's states, and Beam's and the engine's warnings and errors, on standard error while active.

    Each record is one line. Where the program has configured logging, its handlers show them, and nothing is changed.
    """
    root = logging.getLogger()
    others = list(root.handlers)  # Beam adds one to standard error where there is none
    if root.level != logging.WARNING or any(type(handler) is not logging.StreamHandler for handler in others):
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    handler.addFilter(_is_news_of_beam)
    reporters = [logging.getLogger(name) for name in _REPORTERS]
    levels = [reporter.level for reporter in reporters]
    root.addHandler(handler)
    for other in others:
        other.addFilter(_is_not_of_beam)
    for reporter in reporters:
        reporter.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for other in others:
            other.removeFilter(_is_not_of_beam)
        for reporter, level in zip(reporters, levels):
            reporter.setLevel(level)


def _is_not_of_beam(record: logging.LogRecord) -> bool:
    return f"{os.sep}apache_beam{os.sep}" not in record.pathname


def _is_news_of_beam(record: logging.LogRecord) -> bool:
    is_news = record.levelno >= logging.WARNING or " state " in record.getMessage()
    return is_news and not _is_not_of_beam(record)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = record.exc_text = record.stack_info = None
        first, *others = super().format(record).splitlines() or [""]
        if _TRACEBACK in first:  # of a worker, under the words of the engine
            cause = str(reason(RuntimeError(record.getMessage()))).partition("\n")[0]
            first = first.partition(_TRACEBACK)[0] + cause
        return f"{first} (and {len(others)} lines more)" if others else first
