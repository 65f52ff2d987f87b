"""Imports frameworks, with an error that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from beam_datasets.errors import MissingDependencyError, install_command


def framework(module: str, *, needed_by: str, name: str, extra: str) -> Any:
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
        missing = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        problem = "" if missing else f" (the installed one cannot be imported: {error})"
        raise MissingDependencyError(f"{needed_by} needs {name}{problem}: {install_command(extra)}") from error
