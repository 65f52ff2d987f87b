"""Importing a framework, or saying how to get it."""

from __future__ import annotations

import importlib
from typing import Any

from beam_datasets.errors import MissingDependencyError


def framework(module: str, *, needed_by: str, name: str, extra: str) -> Any:
    """Returns a module of a framework.

    Args:
        module: its name, such as 'torch.utils.data'.
        needed_by: who asks, for the error.
        name: of the framework.
        extra: what installs it beside this library.

    Raises:
        MissingDependencyError: it is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        problem = "" if missing else f" (what is installed cannot be imported: {error})"
        raise MissingDependencyError(
            f"{needed_by} needs {name}{problem}: pip install 'beam_datasets[{extra}]'"
        ) from error
