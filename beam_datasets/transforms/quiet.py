"""Keeps away what Beam says of a run that fails: the one error that is raised says it in two lines, not hundreds.

Beam logs under its own names and under none, its workers print, and its threads end with tracebacks. Where workers are
in this process (`--environment_type=LOOPBACK`), and where it has started the runner, some of it comes late: workers go
on for a moment after a failure, in a staging directory that is being removed, and a runner is ended with the process.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import grpc
from apache_beam.runners.worker import sdk_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SERVERS = ("PrismJobServer", "apache_beam.utils.subprocess_server")  # runners that this process starts
_WORKERS = ("apache_beam.runners.common", "apache_beam.runners.worker")


@contextlib.contextmanager
def beam_silenced() -> Iterator[None]:
    """Keeps Beam silent meanwhile; what would come late, for good."""
    logger, root = logging.getLogger("apache_beam"), logging.getLogger()
    level, hook = logger.level, threading.excepthook
    logger.setLevel(logging.CRITICAL)
    root.addFilter(_not_of_beam)
    for name in _SERVERS:
        logging.getLogger(name).addFilter(_nothing)
    vars(sdk_worker)["print"] = _nothing  # workers print the tracebacks that they also send to their runner
    threading.excepthook = _nothing
    try:
        yield
    except BaseException:
        for name in _WORKERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        hook = functools.partial(_but_lost_connections, hook)
        raise
    finally:
        threading.excepthook = hook
        root.removeFilter(_not_of_beam)
        logger.setLevel(level)


def _not_of_beam(record: logging.LogRecord) -> bool:
    """Returns whether a record is somebody else's: what a job service says, Beam logs under no name."""
    return f"{os.sep}apache_beam{os.sep}" not in record.pathname


def _nothing(*_: Any, **__: Any) -> bool:
    """Says nothing, and as a filter that nothing is to be said."""
    return False


def _but_lost_connections(hook: Callable[[Any], Any], args: threading.ExceptHookArgs) -> None:
    """Passes on what ended a thread, unless it is that a runner or a worker is there no more."""
    if not issubclass(args.exc_type, grpc.RpcError):
        hook(args)
