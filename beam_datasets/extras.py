"""Optional packages: their import, and the command that installs their extra."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import shlex
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

    from typing_extensions import Buffer as Buffer
else:  # in annotations alone; the package need not be installed
    Buffer = Any


@contextlib.contextmanager
def needs(purpose: str, extra: str) -> Iterator[None]:
    """Context manager: replaces an ImportError by a `MissingDependencyError`, which names the purpose and the extra.

    Args:
        purpose: such as "Parquet files need pyarrow".
        extra: the extra that installs it.

    Raises:
        MissingDependencyError: there was an ImportError.
    """
    try:
        yield
    except ImportError as error:
        cause = error.__cause__  # of Beam, if `importing_beam` has seen that it cannot be imported
        problem = (
            _describe_import_error(cause, "apache_beam") if extra == "beam" and isinstance(cause, ImportError) else ""
        )
        raise MissingDependencyError(f"{purpose}{problem}: {install_command(extra)}") from error


@contextlib.contextmanager
def importing_beam() -> Iterator[None]:
    """Context manager: hides the messages that Beam logs about missing apitools when it is imported.

    Garbage is not collected meanwhile; that would take a quarter of the time.

    Raises:
        MissingDependencyError: Beam is not installed, or cannot be imported.
    """
    root = logging.getLogger()
    root.addFilter(_not_of_apitools)
    try:
        with garbage_kept():
            yield
    except ImportError as error:
        problem = _describe_import_error(error, "apache_beam")
        importing = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if problem and not any(f"{name}.".startswith("apache_beam.") for name in importing):
            raise  # it is of the author's module
        raise MissingDependencyError(f"this needs Apache Beam{problem}: {install_command('beam')}") from error
    finally:
        root.removeFilter(_not_of_apitools)


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Context manager: collects no garbage, because imports make many objects and hardly any garbage."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _not_of_apitools(record: logging.LogRecord) -> bool:
    """Returns whether a log record is not the message that apitools was not found."""
    return not str(record.msg).startswith("apitools not found")


def install_command(extra: str) -> str:
    """Returns the command that installs an extra; this package is on no index, so a checkout is given by its path."""
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.exists(os.path.join(checkout, "setup.py")):
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    return f"pip install 'beam_datasets[{extra}]'"  # it is installed, so that pip needs no index for it


def framework(module: str, *, needed_by: str, name: str, extra: str) -> ModuleType:
    """Imports and returns a module of a framework.

    Args:
        module: the module's name, such as 'torch.utils.data'.
        needed_by: the function that needs it, for the error.
        name: the framework's name.
        extra: the extra of this package that installs it.

    Raises:
        MissingDependencyError: the module is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        problem = _describe_import_error(error, module.partition(".")[0])
        raise MissingDependencyError(f"{needed_by} needs {name}{problem}: {install_command(extra)}") from error


def _describe_import_error(error: ImportError, package: str) -> str:
    """Returns " (the installed one cannot be imported: <error>)" for a message; '' if a package is not installed."""
    is_missing = isinstance(error, ModuleNotFoundError) and error.name == package
    return "" if is_missing else f" (the installed one cannot be imported: {error})"
