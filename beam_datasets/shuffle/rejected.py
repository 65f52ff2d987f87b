"""Examples that a builder cannot make: `Rejected`, their counts by reason, and the limit of a run."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_datasets.errors import BeamDatasetsError, TooManyRejectedError
from beam_datasets.passwords import without_passwords

NUM_SHOWN = 5  # examples that are shown of those left out; one of each reason if there are more reasons
MAX_REASONS = 20  # reasons that are counted separately; all further ones are counted as `OTHER_REASONS`
MAX_REASON = 120  # characters
OTHER_REASONS = "other reasons"
_MAX_PROBLEM = 500  # characters


@dataclass(frozen=True, slots=True, init=False)
class Rejected:
    r"""An example that a builder cannot make. A source yields `(key, Rejected(reason))` in place of `(key, example)`.

    Args:
        reason: why. Examples with the same text are counted together, so leave out the values of the example; or an
            exception, whose text is counted without values and shown with them.

    Attributes:
        reason: the text by which it is counted, in one line.
        problem: the text that is shown for this example, in one line.

    Raises:
        TypeError: the reason is neither a text nor an exception.
        ValueError: the reason is an empty text.

    >>> Rejected(" too\nshort").reason
    'too short'
    >>> rejected = Rejected(ValueError("'x' is not a number"))
    >>> rejected.reason, rejected.problem
    ('ValueError: ... is not a number', "ValueError: 'x' is not a number")
    """

    reason: str
    problem: str

    def __init__(self, reason: str | Exception) -> None:
        if not isinstance(reason, (str, Exception)):
            raise TypeError(f"reason: expected a text or an exception, got {reason!r:.200}.")
        text = str(reason)
        if isinstance(reason, Exception) and not isinstance(reason, BeamDatasetsError):
            text = f"{type(reason).__name__}: {text}"
        problem = _one_line(text)[:_MAX_PROBLEM]
        if not problem:
            raise ValueError("reason: expected a text, got an empty one. Say why the example cannot be made.")
        without_values = "" if isinstance(reason, str) else reason_of(_one_line(text.strip().partition("\n")[0]))
        object.__setattr__(self, "reason", without_values or problem[:MAX_REASON])
        object.__setattr__(self, "problem", problem)


@dataclass(frozen=True, slots=True)
class Rejections:
    """Counts of rejected examples.

    Attributes:
        by_reason: reason -> (number of examples, the first `NUM_SHOWN` of their texts, sorted).
    """

    by_reason: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, split: str, key: Any, rejected: Rejected) -> Rejections:
        """Returns the count of one rejected example."""
        shown_key = _one_line(f"{key!r:.100}")
        return cls({rejected.reason: (1, (f"split {split!r}, key {shown_key}: {rejected.problem}",))})

    @property
    def total(self) -> int:
        """Number of examples."""
        return sum(number for number, _ in self.by_reason.values())

    def to_left_out(self) -> list[dict[str, Any]]:
        """Returns {'reason': text, 'number': int, 'example': text, 'examples': texts} of each reason, as JSON.

        The reason of the most examples is first.
        """
        by_number = sorted(self.by_reason.items(), key=lambda each: (-each[1][0], each[0]))
        return [
            {"reason": reason, "number": number, "example": examples[0], "examples": list(examples)}
            for reason, (number, examples) in by_number
        ]

    def check(self, max_rejected: int) -> None:
        """Checks that no more examples were rejected than a run allows.

        Raises:
            TooManyRejectedError: there are more; the message contains the reasons, numbers and first keys.
        """
        if self.total > max_rejected:
            raise TooManyRejectedError(
                f"expected at most {max_rejected:,} rejected examples, got {self.total:,}. Correct the builder or its "
                f"data, or leave them out: --max_rejected {self.total} (max_rejected={self.total})\n{self}",
                expected=f"at most {max_rejected:,} rejected examples",
                got=f"{self.total:,}",
            )

    def __str__(self) -> str:
        return format_rejected(self.to_left_out())


def _one_line(text: str) -> str:
    """Returns a text with single spaces in place of all white space, without passwords of URLs, as valid UTF-8."""
    return without_passwords(" ".join(text.encode("utf-8", "backslashreplace").decode().split()))


NO_REJECTIONS = Rejections()


def merge_rejections(parts: Iterable[Rejections]) -> Rejections:
    """Returns the counts of all parts; of more than `MAX_REASONS` reasons, the rarest become `OTHER_REASONS`."""
    numbers: Counter[str] = Counter()
    examples: defaultdict[str, set[str]] = defaultdict(set)
    for part in parts:
        for reason, (number, texts) in part.by_reason.items():
            numbers[reason] += number
            examples[reason].update(texts)
    by_number = sorted(numbers.keys() - {OTHER_REASONS}, key=lambda reason: (-numbers[reason], reason))
    for reason in by_number[MAX_REASONS:]:
        numbers[OTHER_REASONS] += numbers.pop(reason)
        examples[OTHER_REASONS] |= examples.pop(reason)
    return Rejections(
        {reason: (number, tuple(sorted(examples[reason])[:NUM_SHOWN])) for reason, number in numbers.items()}
    )


def format_rejected(left_out: Sequence[Mapping[str, Any]]) -> str:
    """Returns the lines about rejected examples, given the result of `Rejections.to_left_out`."""
    first = [each["example"] for each in left_out]
    more = sorted(text for each in left_out for text in each["examples"][1:])
    return format_reasons("rejected", left_out, sorted([*first, *more[: max(0, NUM_SHOWN - len(first))]]))


def format_reasons(title: str, left_out: Sequence[Mapping[str, Any]], examples: Sequence[str]) -> str:
    """Returns the lines about what was left out: the total, the number of each reason, and examples.

    Args:
        title: the word before the total.
        left_out: {'reason': text, 'number': int} of each reason.
        examples: the texts of some examples.
    """
    reasons = "".join(f"\n  {each['number']:,}: {each['reason']}" for each in left_out)
    example_lines = "".join(f"\n  {text}" for text in examples)
    return f"{title}: {sum(each['number'] for each in left_out):,}{reasons}\nfor example:{example_lines}"


_PATH = re.compile(r"^(?:[^:]*/|\w+://)[^:]*: ")
_COLUMNS = re.compile(r"(?:(?:column )?'[^']*': )*")  # nested names, as of 'address': 'city': ...
_PATH_OF_IMAGE = re.compile(r"^(?:\w+://|/).+?(?:: |(?= cannot be read))")
_TYPED_VALUE = re.compile(r"^.{1,80}? \((?:str|int|float|bool|list|dict|bytes|NoneType)\)(?= )")  # [1, 2] (list)
_IN_PARENTHESES = re.compile(r" \([^()]*\)")
_VALUES = re.compile(r"b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\"|\b0x[0-9a-f]+\b|(?<![\w-])-?\d[\d,.]*")


def reason_of(problem: str) -> str:
    """Returns an error text without path, position and values of its row, so that similar rows are counted together.

    >>> reason_of("column 'price': 'n/a' is not a number"), reason_of("/in/a.gz, byte 17: expected gzip data; get it")
    ("column 'price': ... is not a number", 'expected gzip data')
    >>> reason_of("not utf-8: byte 0xff (invalid start byte)")
    'not utf-8: byte ...'
    >>> reason_of("'menge': '6' (str) is not an integer"), reason_of("column 'file': /in/1.jpg: a damaged image: PNG")
    ("'menge': ... is not an integer", "column 'file': a damaged image: PNG")
    """
    text = _PATH.sub("", problem.partition("\n")[0])
    columns = _COLUMNS.match(text)
    start = columns.end() if columns else 0
    values = _TYPED_VALUE.sub("...", _PATH_OF_IMAGE.sub("", text[start:]))
    reason = _IN_PARENTHESES.sub("", _VALUES.sub("...", values)).partition(";")[0]
    return text[:start] + reason.partition(" (")[0].strip()[:MAX_REASON]
