"""The bars that commands show in a terminal while they run."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from beam_datasets.cli.tables import size_text
from beam_datasets.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam_datasets.writing.progress import Progress


class ProgressBar:
    """Shows what a local run has done, and at what rate: examples encoded, then bytes of shards written.

    Called with a `Progress`; as a context manager it wipes itself at the end, for a table or the reason of a failure.

    Args:
        file: the terminal; None for standard error.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._bar: Any = None
        self._writing = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, done: Progress) -> None:
        """Shows what was done."""
        if self._bar is None:
            self._bar = self._start(desc="Encode", unit=" examples")
        if done.shards_written and not self._writing:
            self._writing = True
            self._bar.close()
            self._bar = self._start(desc="Write", unit="B", unit_divisor=1024, total=done.bytes_encoded or None)
        shown = f"{done.shards_written} shards" if self._writing else size_text(done.bytes_encoded)
        self._bar.set_postfix_str(shown, refresh=False)
        # What was encoded is removed when all is published; the bar does not go back.
        self._bar.n = max(self._bar.n, done.bytes_written if self._writing else done.examples_encoded)
        self._bar.refresh()

    def _start(self, **options: Any) -> Any:
        from tqdm import tqdm

        return tqdm(unit_scale=True, leave=False, file=self._file, dynamic_ncols=True, **options)


class ProgressLines:
    """Says now and then, where there is no terminal, what a local run has done.

    Args:
        file: where to; None for standard error.
        seconds: between two lines.
    """

    def __init__(self, file: TextIO | None = None, seconds: float = 30.0) -> None:
        self._file = file
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def __call__(self, done: Progress) -> None:
        """Says what was done, if it is time."""
        if time.monotonic() < self._next:
            return
        self._next += self._seconds
        encoded = f"{done.examples_encoded:,} examples encoded, {size_text(done.bytes_encoded)}"
        written = f"{done.shards_written} shards written, {size_text(done.bytes_written)}"
        say(written if done.shards_written else encoded, file=self._file or sys.stderr)


@contextlib.contextmanager
def bytes_bar(what: str, file: TextIO | None = None) -> Iterator[Callable[[int, int | None], None] | None]:
    """Provides what shows how many bytes of how many are done; None where there is no terminal, or no tqdm.

    Args:
        what: a verb.
        file: where to show it; None for standard error, if that is a terminal.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is None or (file is None and not sys.stderr.isatty()):
        yield None
        return
    options = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "leave": False, "dynamic_ncols": True}
    with tqdm(desc=what, file=file or sys.stderr, **options) as bar:

        def show(done: int, total: int | None) -> None:
            bar.update(done - bar.n)
            if bar.total != total:
                bar.total = total
                bar.refresh()

        yield show
