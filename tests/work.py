"""How much Python a call runs, in lines: what a clock would say, but the same on every machine and at every load."""

import sys
from collections.abc import Callable
from typing import Any


def lines_of(function: Callable[[], Any]) -> int:
    """Returns how many lines of Python a call runs; a line in a loop or a comprehension counts each time."""
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
