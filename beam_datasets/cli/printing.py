"""Printing: tables, sizes, progress, and text without control characters or characters that the encoding lacks."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TextIO

from beam_datasets.display import progress
from beam_datasets.display.text import printable, size_text, text_width, truncate
from beam_datasets.passwords import without_passwords

if TYPE_CHECKING:
    from beam_datasets.metadata.splits import SplitInfo
    from beam_datasets.publishing.progress import Progress

WIDTH = 100  # of lines that do not go to a terminal
MIN_WIDTH = 12  # of a column that is cut
_FIRST_DESCRIPTOR = 3  # after those of standard input, output and error


def prepare_streams() -> None:
    """Opens standard streams that are closed, and makes those of output escape the characters that they lack."""
    _open_closed_streams()
    escape_unencodable()


def _open_closed_streams() -> None:
    """Opens the null device in place of standard streams that are closed, as those of a daemon may be.

    Otherwise the next file that is opened has the number of one of them, and gets what workers print.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _FIRST_DESCRIPTOR:  # the lowest number that is free
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in [("stdin", "r"), ("stdout", "w"), ("stderr", "w")]:
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def escape_unencodable() -> None:
    """Makes standard output and error escape the characters that their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a message of one or more lines, `printable` and without secrets of URLs.

    Args:
        text: the message.
        file: where it is printed; None for standard output.
    """
    print(printable(without_passwords(text)), file=file)


def say_values(text: str) -> None:
    """Prints text with values of a dataset to standard output, `printable` and otherwise unchanged."""
    print(printable(text))


def plural(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless the number is 1.

    >>> plural(1, "shard"), plural(1000, "shard")
    ('1 shard', '1,000 shards')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def line_width() -> int:
    """Returns the maximum number of columns of a line; `WIDTH` where standard output is not a terminal."""
    if not sys.stdout.isatty():
        return WIDTH
    import shutil  # which takes 2 ms

    return shutil.get_terminal_size((WIDTH, 24)).columns


def folded(text: str, width: int) -> list[str]:
    """Returns a text as lines of at most `width` columns, 2 or more, which end after a slash or a dot if they have one.

    >>> folded("objects/box/corner", 14), folded("elephants", 4)
    (['objects/box/', 'corner'], ['elep', 'hant', 's'])
    """
    lines = []
    while text_width(text) > width:
        line = text[:width]
        while text_width(line) > width:
            line = line[:-1]
        lines.append(line[: max(line.rfind("/"), line.rfind(".")) + 1] or line)
        text = text[len(lines[-1]) :]
    return [*lines, text]


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    left_aligned: Sequence[int] = (0,),
    short: Sequence[int] = (),
    fold: Sequence[int] = (),
) -> str:
    """Returns columns of text, those of `left_aligned` aligned left, the others right.

    If lines were wider than the terminal, columns of `fold` have several lines a row, and those of `short` are cut, to
    12 characters at least.

    Args:
        header: names of the columns.
        rows: the cells of each row. An int is printed with separators of thousands.
        left_aligned: indices of the columns that are aligned left; the others are aligned right.
        short: indices of the columns that may be cut.
        fold: indices of the columns that may be folded.

    >>> print(table(["split", "examples"], [["train", 1000]]))
    split  examples
    train     1,000
    """
    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in [header, *rows]]
    cells = [[printable(text).replace("\n", r"\n").replace("\t", r"\t") for text in row] for row in texts]
    widths = [max(map(text_width, column)) for column in zip(*cells)]
    for i in (*fold, *short) if sys.stdout.isatty() else ():
        over = sum(widths) + 2 * len(widths) - 2 - line_width()
        widths[i] = min(widths[i], max(widths[i] - over, MIN_WIDTH))
    lines = []
    parts = [
        [
            folded(cell, width) if i in fold else [truncate(cell, width)]
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        for row in cells
    ]
    for lines_of_cells in (line for row in parts for line in zip_longest(*row, fillvalue="")):
        gaps = [" " * (width - text_width(cell)) for cell, width in zip(lines_of_cells, widths)]
        lines.append(
            "  ".join(c + gap if i in left_aligned else gap + c for i, (c, gap) in enumerate(zip(lines_of_cells, gaps)))
        )
    return "\n".join(line.rstrip() for line in lines)


def splits_table(splits: Mapping[str, SplitInfo]) -> str:
    """Returns a table of the splits with their numbers of examples and shards, and sizes; several have a last total."""
    rows = [(name, split.num_examples, split.num_shards, split.num_bytes) for name, split in splits.items()]
    if len(rows) > 1:
        rows.append(("all", *map(sum, list(zip(*rows))[1:])))  # type: ignore[arg-type]
    return table(["split", "examples", "shards", "size"], [[*row[:-1], size_text(row[-1])] for row in rows])


_DEFAULT_WIDTH, _DEFAULT_HEIGHT = 80, 24  # of a terminal that does not say, as in a container; tqdm would print nothing


def progress_bar(description: str, unit: str, total: int | None = None) -> Any:
    """Returns a context manager that provides a progress bar of tqdm on stderr; None without a terminal or tqdm.

    Args:
        description: the text before the bar, an imperative verb such as "Compare".
        unit: the text after the numbers, such as " examples", or "B" for bytes, which are shown in units of 1024.
        total: the value of `bar.n` at the end; None if it is unknown.
    """
    if sys.stderr.isatty() and progress.is_shown:
        with contextlib.suppress(ImportError):
            return _bar(description, unit, total, stream=sys.stderr)
    return contextlib.nullcontext()


def _bar(description: str, unit: str, total: int | None = None, *, stream: TextIO) -> Any:
    """Returns a progress bar of tqdm, which is removed at the end.

    Args:
        description: the description before the bar.
        unit: unit of the numbers; "B" counts in multiples of 1024.
        total: the number at the end; None if it is unknown.
        stream: standard error.
    """
    from tqdm import tqdm

    divisor = 1024 if unit == "B" else 1000
    options: dict[str, Any] = {"unit": unit, "unit_scale": True, "unit_divisor": divisor, "leave": False}
    options |= (
        {"ncols": _DEFAULT_WIDTH, "nrows": _DEFAULT_HEIGHT} if _terminal_width() == 0 else {"dynamic_ncols": True}
    )
    return tqdm(desc=description, total=total, file=stream, **options)


def _terminal_width() -> int | None:
    """Returns the number of columns of the terminal of stderr; 0 if it does not say, None without a terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def bytes_bar(description: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Context manager: provides a function that shows (bytes done, total bytes); None without a terminal or tqdm."""
    with progress_bar(description, "B") as bar:

        def show(num_done: int, total: int | None) -> None:
            """Shows the number of bytes done so far, and their total if it is known."""
            bar.update(num_done - bar.n)
            if bar.total != total:
                bar.total = total
                bar.refresh()

        yield None if bar is None else show


@contextlib.contextmanager
def progress_bars() -> Iterator[Callable[[Progress], None]]:
    """Context manager: provides a function that shows the progress of a local run and its rate.

    The bar counts encoded examples, then written bytes. It is removed at the end, before a table or an error.
    """
    bars: list[Any] = []
    stream, start_time = sys.stderr, time.monotonic()  # not the stream that a run records

    def show(progress_now: Progress) -> None:
        """Updates the bar; opens the second one when writing begins."""
        if not progress.is_shown:
            return
        if not bars:
            bars.append(_bar("Encode", " examples", stream=stream))
        if progress_now.shards_written and len(bars) == 1:
            bars[0].close()
            bars.append(_bar("Write", "B", progress_now.bytes_encoded or None, stream=stream))
        bar, is_writing = bars[-1], len(bars) == 2
        encoded = [size_text(progress_now.bytes_encoded), *_units_of(progress_now, time.monotonic() - start_time)]
        postfix = f"{progress_now.shards_written} shards" if is_writing else ", ".join(encoded)
        bar.set_postfix_str(postfix, refresh=False)
        # Encoded records are removed when the version is published; the bar must not go back.
        bar.n = max(bar.n, progress_now.bytes_written if is_writing else progress_now.examples_encoded)
        bar.refresh()

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()


@contextlib.contextmanager
def announced(text: str, seconds: float = 0.5) -> Iterator[None]:
    """Context manager: prints a line to stderr if the work in it takes longer, such as a cold start from a disk.

    Args:
        text: the line.
        seconds: time after which it is printed.
    """

    def announce() -> None:
        """Prints the line, unless --quiet was given meanwhile."""
        if progress.is_shown:
            say(text, file=sys.stderr)

    timer = threading.Timer(seconds, announce)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def progress_lines(seconds: float = 30.0, first: float = 2.0) -> Callable[[Progress], None]:
    """Returns a function that prints the progress of a local run from time to time, for output without a terminal.

    Args:
        seconds: seconds between two lines.
        first: seconds before the first line.
    """
    from beam_datasets.publishing.progress import Progress

    stream, start_time = sys.stderr, time.monotonic()  # not the stream that a run records
    following, previous = start_time + first, (Progress(0, 0, 0, 0), start_time)

    def show(progress_now: Progress) -> None:
        """Prints a line if enough seconds have passed since the last one."""
        nonlocal following, previous
        current_time = time.monotonic()
        if current_time < following or not progress.is_shown:
            return
        following = current_time + seconds
        (last, last_time), previous = previous, (progress_now, current_time)
        if not (progress_now.examples_encoded or progress_now.bytes_encoded or progress_now.bytes_written):
            units = "".join(f"; {part}" for part in _units_of(progress_now, current_time - start_time))
            say(f"the source is being read; no example is encoded yet{units}", file=stream)
            return
        say(
            "; ".join(_parts_of(progress_now, last, current_time - last_time, current_time - start_time)),
            file=stream,
        )

    return show


def _parts_of(progress: Progress, last: Progress, seconds: float, since_start: float) -> Iterator[str]:
    """Yields the parts of a line, such as "1,200 examples encoded, 3.1 MiB, 400 examples/s", "units: 2 of 8".

    After the first written shard, they are the written shards and bytes, and the estimated time left.

    Args:
        progress: progress now.
        last: progress at the last line.
        seconds: time since the last line, in seconds.
        since_start: time since the start of the run, in seconds.
    """
    if progress.shards_written:
        rate = max(progress.bytes_written - last.bytes_written, 0) / max(seconds, 1e-3)
        yield f"{plural(progress.shards_written, 'shard')} written, {size_text(progress.bytes_written)}"
        seconds_left = (progress.bytes_encoded - progress.bytes_written) / rate if rate else 0
        if seconds_left >= 1:
            yield f"about {seconds_left:,.0f} s left to write"
    else:
        rate = max(progress.examples_encoded - last.examples_encoded, 0) / max(seconds, 1e-3)
        size = size_text(progress.bytes_encoded)
        yield f"{progress.examples_encoded:,} examples encoded, {size}, {rate:,.0f} examples/s"
        yield from _units_of(progress, since_start)


def _units_of(progress: Progress, since_start: float) -> Iterator[str]:
    """Yields "units: 2 of 8" and "about 30 s left to encode", as far as the numbers are known.

    Args:
        progress: progress now.
        since_start: time since the start of the run, in seconds.
    """
    total = progress.num_units
    finished = min(progress.units_finished, total or 0)  # a unit that is retried may count twice
    if total and finished:
        yield f"units: {finished:,} of {total:,}"
        seconds_left = since_start * (total - finished) / finished
        if seconds_left >= 1:
            yield f"about {seconds_left:,.0f} s left to encode"
