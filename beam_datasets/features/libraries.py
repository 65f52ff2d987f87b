"""Records which libraries determined the bytes of encoded values, so that the manifest can name their versions.

A connector that encodes by a library asks for `recorder()` when it makes its encoder, and calls it for each value. So
nothing is recorded of a dataset whose images are stored as the files that were given.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_used: ContextVar[set[str] | None] = ContextVar("used", default=None)


@contextmanager
def recorded(used: set[str] | None) -> Iterator[None]:
    """Lets encoders that are made meanwhile add the libraries they use to a set, as name and version; None for none."""
    token = _used.set(used)
    try:
        yield
    finally:
        _used.reset(token)


def recorder() -> Callable[[str], None]:
    """Returns the function that records a library, for the encoder that is being made."""
    used = _used.get()
    return (lambda library: None) if used is None else used.add
