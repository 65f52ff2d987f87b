"""Filters of examples: a user's function, given as an object or by its name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from beam_datasets.errors import BeamDatasetsError, did_you_mean

_FORM = "A filter is given as module:function, or as path/to/file.py:function"


@dataclass(frozen=True)
class Filter:
    """A function from a decoded example to whether it is kept.

    Attributes:
        name: `module:function`, as the manifest records it; of a file, the module is its name without `.py`.
        function: the function.
    """

    name: str
    function: Callable[[Any], Any]

    @classmethod
    def of(cls, function: str | Callable[[Any], Any]) -> Filter:
        """Returns the filter of a function.

        Args:
            function: the function, or a text `module:function` or `path.py:function` that names it.

        Raises:
            BeamDatasetsError: the function does not exist, or the value cannot be called.
            Exception: the module raises it while it is imported.
        """
        if isinstance(function, str):
            return cls._load(function)
        if not callable(function):
            raise BeamDatasetsError(f"the filter is {function!r:.100}, which cannot be called. {_FORM}.")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return cls(f"{getattr(function, '__module__', None) or type(function).__module__}:{name}", function)

    @classmethod
    def _load(cls, text: str) -> Filter:
        """Imports the module or file of `module:function` or `path.py:function`, and returns the filter.

        Raises:
            BeamDatasetsError: the text has another form, or its module or function does not exist or cannot be called.
        """
        module_name, _, name = text.rpartition(":")
        if not (module_name and name):
            raise BeamDatasetsError(f"the filter is {text!r}. {_FORM}. A condition in SQL is where= (--where).")
        module = (_load_file if module_name.endswith(".py") else _load_module)(module_name, text)
        function: Any = module
        for step in name.split("."):
            if not hasattr(function, step):
                members = getattr(function, "__dict__", {})  # a list, for example, has none
                function_names = [key for key, value in members.items() if callable(value) and not key.startswith("_")]
                raise BeamDatasetsError(
                    f"filter {text!r}: {module_name} does not contain {step!r}; it has "
                    f"{', '.join(function_names) or 'no functions'}",
                    got=step,
                    advice=did_you_mean(step, function_names).strip() or None,
                )
            function = getattr(function, step)
        if not callable(function):
            raise BeamDatasetsError(f"filter {text!r} is {function!r:.100}, which cannot be called. {_FORM}.")
        return cls(f"{module.__name__}:{name}", function)


def _load_file(path: str, text: str) -> ModuleType:
    """Returns the module of a file. It is not registered, so that its functions are pickled with their code."""
    if not os.path.isfile(path):
        raise BeamDatasetsError(f"filter {text!r}: the file {path} does not exist", got=str(path))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise BeamDatasetsError(f"filter {text!r}: {path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    registered = sys.modules.setdefault(module.__name__, module)  # where dataclasses look for the module while it runs
    try:
        spec.loader.exec_module(module)
    finally:
        if registered is module:  # not another module of this name
            sys.modules.pop(module.__name__, None)
    return module


def _load_module(name: str, text: str) -> ModuleType:
    """Imports the module of the filter `text`.

    Raises:
        BeamDatasetsError: the module does not exist. Errors that the module itself raises on import are not converted.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the module imports
        raise BeamDatasetsError(
            f"filter {text!r}: cannot find module {name!r}; it must be importable from here (PYTHONPATH)",
            got=name,
            advice=f"{_FORM}.",
        ) from None
