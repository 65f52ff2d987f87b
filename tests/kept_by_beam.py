"""Results that Beam computes again for each pipeline, kept for the process of a test run.

A small pipeline of one worker spends two fifths of its processor time on them: the signatures of the methods of each
DoFn, and a parser of arguments for each view of its options. They depend on code and arguments alone.
"""

import copy
import types
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core

Arguments = tuple[list[str], list[Any]]


def keep_results() -> None:
    """Replaces two functions of Beam by ones that keep their results. Another version of Beam may lack one."""
    if hasattr(core, "get_function_args_defaults"):
        core.get_function_args_defaults = keeping_signatures(core.get_function_args_defaults)
    PipelineOptions.__init__ = keeping_options(PipelineOptions.__init__)


def keeping_signatures(function: Callable[[Any], Arguments]) -> Callable[[Any], Arguments]:
    """Returns `get_function_args_defaults`, which keeps the arguments of each method that it has seen."""
    seen: dict[Any, Arguments] = {}

    def get_function_args_defaults(method: Any) -> Arguments:
        """Returns the names of the arguments, and the defaults."""
        if not isinstance(method, types.MethodType):
            return function(method)
        if method.__func__ not in seen:
            seen[method.__func__] = function(method)
        names, defaults = seen[method.__func__]
        return [*names], [*defaults]

    return get_function_args_defaults


def keeping_options(function: Callable[..., None]) -> Callable[..., None]:
    """Returns `PipelineOptions.__init__`, which parses the same arguments for a class once."""
    seen: dict[Any, Any] = {}

    def __init__(self: Any, flags: Any = None, **options: Any) -> None:
        """Initializes the attributes."""
        key = (type(self), tuple(flags)) if flags is not None and not isinstance(flags, str) else None
        if key not in seen:
            function(self, flags, **options)
            if key is not None and not options:
                seen[key] = copy.deepcopy(self._visible_options)
            return
        self._flags = flags
        self._visible_options = copy.deepcopy(seen[key])
        self._all_options = {**vars(self._visible_options), **options}

    __init__.by_beam = function  # type: ignore[attr-defined]
    return __init__
