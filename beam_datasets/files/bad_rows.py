"""Rows that cannot be used: left out by `--skip_bad`, counted by reason, and reported with examples."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import CorruptRecordError, FeatureError, InputError, MissingDependencyError
from beam_datasets.files.inputs import InputFile, LineAt, count, note
from beam_datasets.shuffle.rejected import MAX_REASONS, NUM_SHOWN, OTHER_REASONS, format_reasons, reason_of

if TYPE_CHECKING:
    from beam_datasets.files.rows import Item, Place

# Names of counters, see `files.inputs.count`. They are parts of the messages that `report` returns.
_LEFT_OUT = "left out"
SKIP_ADVICE = "To count and leave out what cannot be used: --skip_bad."
_SKIP_DAMAGED_ADVICE = "Only if few rows are damaged, and the others are right: --skip_bad counts and leaves them out."
_SKIP_REST_ADVICE = "To leave out the rest of the file, an unknown number of rows, and count the file: --skip_bad."
_RESTS = "files of which the rest cannot be read"
_REASON, _EXAMPLES = "left out because: ", "left out, such as: "
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bad:
    """A row that cannot be used.

    Attributes:
        location: object whose text names file and position; see `place_of`.
        problem: error text with advice.
        is_rest: whether this stands for the rest of a file, from a position on that cannot be read. `problem` then
            names the position.
    """

    location: object
    problem: str
    is_rest: bool = False

    def __str__(self) -> str:
        return self.problem if self.is_rest else f"{self.location}: {self.problem}"


_OTHER_ENCODING = re.compile(r"not [\w-]+: byte 0x..|looks like UTF-16")  # see `inputs.undecodable`
_OTHER_FORMAT = re.compile(
    r"expected text, got an? |expected a TFRecord file.*, got an? |is not a Parquet file \(\d+ bytes\): it is an? |"
    "got a table as one object"
)
"""Errors about a file of another format, which name it and what to do with it."""


def with_skip_advice(problem: object, *, is_rest: bool = False) -> str:
    """Returns an error text with advice about `--skip_bad` in a line of its own, unless that would lose the whole file.

    Args:
        problem: the error, or its text.
        is_rest: whether the rest of a file cannot be read.

    >>> with_skip_advice("a.csv: expected text, got an image (PNG). Build it")
    'a.csv: expected text, got an image (PNG). Build it'
    """
    text = str(problem)
    if _OTHER_FORMAT.search(text):
        return text
    if _OTHER_ENCODING.search(text):
        return f"{text}\n{_SKIP_DAMAGED_ADVICE}"
    return f"{text}\n{_SKIP_REST_ADVICE if is_rest else SKIP_ADVICE}"


def place_of(file: InputFile, position: Place, offset: int) -> object:
    """Returns an object whose text names file and position of a row; a line number is counted only when it is shown.

    Args:
        file: the file.
        position: position of the row: a text, a line number from 1, '' for none, or None for the line at `offset`.
        offset: byte offset of the row in the file; used only if `position` is None.
    """
    if position is None:
        return LineAt(file, offset)
    text = f"line {position}" if isinstance(position, int) else position
    return f"{file.path}{text and ', '}{text}"


def read_piece(piece: Any, reader: Callable[[Any], Iterator[Item | Bad]], skip_bad: bool) -> Iterator[Item]:
    """Yields the examples of a piece, and leaves out bad rows if `skip_bad`.

    Bad rows that are left out are counted by reason. The rest of a file that cannot be read from some position on, such
    as a truncated compressed file, counts as one bad row.

    Args:
        piece: argument of `reader`.
        reader: function that yields the examples and bad rows of a piece.
        skip_bad: whether to leave out bad rows.

    Raises:
        InputError: a row is bad, and skip_bad is False.
    """
    reasons: Counter[str] = Counter()
    for row in with_errors_as_bad_rows(reader(piece)):
        if not isinstance(row, Bad):
            yield row
            continue
        if not skip_bad:
            raise InputError(with_skip_advice(row, is_rest=row.is_rest))
        reason = reason_of(row.problem)
        reason = reason if reason in reasons or len(reasons) < MAX_REASONS else OTHER_REASONS
        reasons[reason] += 1
        count(_RESTS, row.is_rest)
        if reasons[reason] == 1 or (len(reasons) == 1 and reasons[reason] <= NUM_SHOWN):
            note(_EXAMPLES + reason, str(row))
    count(_LEFT_OUT, reasons.total())
    for reason, number in reasons.items():
        count(_REASON + reason, number)


def with_errors_as_bad_rows(rows: Iterator[Item | Bad]) -> Iterator[Item | Bad]:
    """Yields the rows; if reading the file fails, ends with a `Bad` that stands for the remaining rows."""
    try:
        yield from rows
    except MissingDependencyError:
        raise
    except (InputError, CorruptRecordError, FeatureError) as error:
        yield Bad("", str(error), is_rest=True)


def report(counters: Mapping[str, Any]) -> list[str]:
    """Returns the messages about the counts of readers of files and the rows that `read_piece` left out.

    Args:
        counters: {'files/<what>': number} of a run, or for the examples of bad rows a set of texts; names that do not
            begin with `files/` are ignored.

    >>> report({"files/rows without images": 1200})
    ['rows without images: 1,200']
    """
    file_counters = {
        name.removeprefix("files/"): value for name, value in counters.items() if name.startswith("files/")
    }
    bad_rows = left_out(counters)
    reported_names = sorted(counter for counter in file_counters if not counter.startswith(_LEFT_OUT))
    texts = [f"{counter}: {file_counters[counter]:,}" for counter in reported_names]
    if bad_rows:
        texts.append(format_reasons(_LEFT_OUT, bad_rows, _example_texts(file_counters, bad_rows)))
    return texts


def left_out(counters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns {'reason': text, 'number': of bad rows, 'example': a bad row and its location} of each reason, as JSON.

    The reason of the most rows is first.

    Args:
        counters: see `report`.
    """
    prefix = f"files/{_REASON}"
    by_reason = {name.removeprefix(prefix): number for name, number in counters.items() if name.startswith(prefix)}
    by_number = sorted(by_reason.items(), key=lambda each: (-each[1], each[0]))
    return [
        {"reason": reason, "number": number, "example": min(counters.get(f"files/{_EXAMPLES}{reason}", ()), default="")}
        for reason, number in by_number
    ]


def _example_texts(file_counters: Mapping[str, Any], bad_rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns one bad row of each reason, of MAX_REASONS at most, and further ones if there are fewer than NUM_SHOWN.

    Args:
        file_counters: the counters of files, without the namespace `files/`.
        bad_rows: the result of `left_out`.
    """
    reasons = sorted({each["example"] for each in bad_rows} - {""})[:MAX_REASONS]
    noted = {text for counter, texts in file_counters.items() if counter.startswith(_EXAMPLES) for text in texts}
    return sorted([*reasons, *sorted(noted.difference(reasons))[: max(0, NUM_SHOWN - len(reasons))]])


def log_left_out(counters: Mapping[str, Any]) -> None:
    """Logs the counts of readers of files and the rows that were left out, as warnings; see `report`.

    Args:
        counters: counters of a run: numbers, and for the examples of bad rows, sets of texts.
    """
    for text in report(counters):
        log.warning(text)
