"""The function that chooses among examples: loaded by its name, and named in the manifest."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.model.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_FORM = "A filter is given as module:function, or as path/to/file.py:function"


@dataclass(frozen=True)
class Filter:
    """A function from a decoded example to whether it is kept.

    Attributes:
        name: `module:function`, as the manifest has it; of a file, the module is its name without `.py`.
        function: what is called.
    """

    name: str
    function: Callable[[Any], Any]

    @classmethod
    def of(cls, given: str | Callable[[Any], Any]) -> Filter:
        """Returns the filter that a function, or its name, means.

        Raises:
            BeamDatasetsError: there is no such function. What a module raises while it is imported passes through.
        """
        if isinstance(given, str):
            return cls._load(given)
        if not callable(given):
            raise BeamDatasetsError(f"the filter is {given!r:.100}, which cannot be called. {_FORM}.")
        name = getattr(given, "__qualname__", type(given).__qualname__)
        return cls(f"{getattr(given, '__module__', None) or type(given).__module__}:{name}", given)

    @classmethod
    def _load(cls, text: str) -> Filter:
        where, colon, name = text.rpartition(":")
        if not (where and colon and name):
            raise BeamDatasetsError(f"the filter is {text!r}. {_FORM}.")
        module = _load_file(where, text) if where.endswith(".py") else _load_module(where, text)
        function: Any = module
        for step in name.split("."):
            known = [key for key, value in vars(function).items() if callable(value) and not key.startswith("_")]
            if not hasattr(function, step):
                raise BeamDatasetsError(
                    f"filter {text!r}: there is no {step!r} in {where}; it has {', '.join(known) or 'no functions'}."
                    f"{did_you_mean(step, known)}"
                )
            function = getattr(function, step)
        if not callable(function):
            raise BeamDatasetsError(f"filter {text!r} is {function!r:.100}, which cannot be called. {_FORM}.")
        return cls(f"{module.__name__}:{name}", function)


def _load_file(path: str, text: str) -> ModuleType:
    """Returns the module of a file. It is known to nobody later, so that its functions are pickled with their code."""
    if not os.path.isfile(path):
        raise BeamDatasetsError(f"filter {text!r}: there is no file {path}.")
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise BeamDatasetsError(f"filter {text!r}: {path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    with _known(module):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _known(module: ModuleType) -> Iterator[None]:
    """Lets a module be found by its name while it runs, as dataclasses look for theirs."""
    added = sys.modules.setdefault(module.__name__, module) is module  # another of this name is needed by others
    try:
        yield
    finally:
        if added:
            sys.modules.pop(module.__name__, None)


def _load_module(name: str, text: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the module imports
        raise BeamDatasetsError(
            f"filter {text!r}: there is no module {error.name!r}; it must be importable from here (PYTHONPATH). "
            f"{_FORM}."
        ) from None
