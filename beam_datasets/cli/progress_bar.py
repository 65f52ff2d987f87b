"""What commands show while they run: a bar in a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from beam_datasets.cli.printing import say, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam_datasets.generate.progress import Progress


def _bar(what: str, unit: str, total: int | None, file: TextIO | None) -> Any:
    from tqdm import tqdm

    divisor = 1024 if unit == "B" else 1000
    options = {"unit": unit, "unit_scale": True, "unit_divisor": divisor, "leave": False, "dynamic_ncols": True}
    return tqdm(desc=what, total=total, file=file or sys.stderr, **options)


def progress_bar(what: str, unit: str, total: int | None = None, file: TextIO | None = None) -> Any:
    """Returns a bar of tqdm as a context manager, which provides None without a terminal or tqdm.

    Args:
        what: a verb.
        unit: of the numbers.
        total: of all that is to be done, if it is known.
        file: where to show it; None for standard error, if that is a terminal.
    """
    if file is not None or sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            return _bar(what, unit, total, file)
    return contextlib.nullcontext()


@contextlib.contextmanager
def bytes_bar(what: str, file: TextIO | None = None) -> Iterator[Callable[[int, int | None], None] | None]:
    """Provides a function that shows how many bytes of how many are done; None where `progress_bar` provides it."""
    with progress_bar(what, "B", file=file) as bar:

        def show(done: int, total: int | None) -> None:
            bar.update(done - bar.n)
            if bar.total != total:
                bar.total = total
                bar.refresh()

        yield None if bar is None else show


class ProgressBar:
    """Shows what a local run has done, and at what rate: examples encoded, then bytes of shards written.

    It is called with a `Progress`. As a context manager it removes itself at the end, before a table or an error.

    Args:
        file: the terminal; None for standard error.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
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
            self._bar = _bar("Encode", " examples", None, self._file)
        if done.shards_written and not self._writing:
            self._writing = True
            self._bar.close()
            self._bar = _bar("Write", "B", done.bytes_encoded or None, self._file)
        shown = f"{done.shards_written} shards" if self._writing else size_text(done.bytes_encoded)
        self._bar.set_postfix_str(shown, refresh=False)
        # What was encoded is removed when all is published; the bar does not go back.
        self._bar.n = max(self._bar.n, done.bytes_written if self._writing else done.examples_encoded)
        self._bar.refresh()


class ProgressLines:
    """Prints from time to time, without a terminal, what a local run has done.

    Args:
        file: where to; None for standard error.
        seconds: between two lines.
    """

    def __init__(self, file: TextIO | None = None, seconds: float = 30.0) -> None:
        self._file = file
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def __call__(self, done: Progress) -> None:
        """Prints what was done, if it is time."""
        if time.monotonic() < self._next:
            return
        self._next += self._seconds
        encoded = f"{done.examples_encoded:,} examples encoded, {size_text(done.bytes_encoded)}"
        written = f"{done.shards_written} shards written, {size_text(done.bytes_written)}"
        say(written if done.shards_written else encoded, file=self._file or sys.stderr)
