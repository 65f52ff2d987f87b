"""What verifying says: a finding for each thing that is not as it was published, and a report of them all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_FROM_COPY = "--repair --from COPY restores it"

REMEDIES: Mapping[str, str] = {
    "record": _FROM_COPY,
    "cut": _FROM_COPY,
    "missing": _FROM_COPY,
    "replaced": _FROM_COPY,
    "unreadable": f"see to the disk and the rights, move away a directory in its place; if need be, {_FROM_COPY}",
    "count": _FROM_COPY,
    "size": _FROM_COPY,
    "example": "features.json and the records are of different versions: restore the one that is wrong",
    "index": f"--repair builds it again, with its keys where these can be proved; {_FROM_COPY} in any case",
    "keys": f"only find() is in want of them; {_FROM_COPY}",
    "metadata": f"--repair puts changed counts right; {_FROM_COPY} in any case",
    "manifest": f"--repair writes it again where all else is whole; {_FROM_COPY} in any case",
    "extra": "nothing reads it; move it away by hand",
    "leftover": "nothing reads it; beam-datasets gc removes it",
}
"""What can be done about each kind of finding."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Examples of a split, which cannot be read or are not those that were published.

    >>> str(Lost("train", 10, 12)), len(Lost("train", 10, 12))
    ('train[10:12]', 2)

    Attributes:
        split: its name.
        start: index in the split of the first.
        stop: index of the one after the last.
    """

    split: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"[{self.start}, {self.stop}) is no range of examples; needed: 0 <= start < stop.")

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.split}[{self.start}:{self.stop}]"

    @classmethod
    def from_text(cls, text: str) -> Lost:
        """Returns what `str` made a text of."""
        split, _, numbers = text.removesuffix("]").rpartition("[")
        start, stop = map(int, numbers.split(":"))
        return cls(split, start, stop)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was published.

    Attributes:
        file: name in the dataset's directory.
        offset: byte where it begins; None where it is not of one place.
        record: number in the file of the first record that it touches; None where it touches none.
        kind: a key of `REMEDIES`.
        message: what is wrong: what was found and what was expected.
        lost: the examples that are lost by it; None where none are.
    """

    file: str
    offset: int | None
    record: int | None
    kind: str
    message: str
    lost: Lost | None = None

    def __post_init__(self) -> None:
        if self.kind not in REMEDIES:
            raise ValueError(f"kind is {self.kind!r}; known are {', '.join(REMEDIES)}.")

    @property
    def place(self) -> str:
        """The file, and where in it."""
        record = "" if self.record is None else f" (record {self.record})"
        return self.file if self.offset is None else f"{self.file}, byte {self.offset}{record}"

    @property
    def remedy(self) -> str:
        """What can be done about it."""
        return REMEDIES[self.kind]

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Returns the finding as values that JSON expresses."""
        return {
            "file": self.file,
            "offset": self.offset,
            "record": self.record,
            "kind": self.kind,
            "message": self.message,
            "lost": None if self.lost is None else str(self.lost),
            "remedy": self.remedy,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Returns what `to_json` made values of."""
        lost = None if value["lost"] is None else Lost.from_text(value["lost"])
        return cls(value["file"], value["offset"], value["record"], value["kind"], value["message"], lost)


@dataclass(frozen=True)
class Report:
    """What verifying a dataset found.

    Attributes:
        dataset: its full name; '' where no file says it.
        directory: of the version.
        findings: in the order of files, then of bytes.
        not_known: what nothing says, so that it was not checked.
        num_shards: how many shards were read.
        num_records: how many records were found in them.
        num_bytes: how many bytes they have, indexes not counted.
    """

    dataset: str
    directory: str
    findings: tuple[Finding, ...]
    not_known: tuple[str, ...]
    num_shards: int
    num_records: int
    num_bytes: int

    @property
    def whole(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def lost(self) -> tuple[Lost, ...]:
        """All examples that are lost, as ranges that neither overlap nor touch."""
        ranges = defaultdict(list)
        for finding in self.findings:
            if finding.lost is not None:
                ranges[finding.lost.split].append((finding.lost.start, finding.lost.stop))
        return tuple(Lost(split, *range_) for split, found in ranges.items() for range_ in _union(found))

    @property
    def num_lost(self) -> int:
        """How many examples are lost."""
        return sum(map(len, self.lost))

    def to_json(self) -> dict[str, Any]:
        """Returns the report as values that JSON expresses."""
        return {
            "dataset": self.dataset,
            "directory": self.directory,
            "whole": self.whole,
            "shards": self.num_shards,
            "records": self.num_records,
            "bytes": self.num_bytes,
            "lost": [str(lost) for lost in self.lost],
            "examples_lost": self.num_lost,
            "findings": [finding.to_json() for finding in self.findings],
            "not_known": list(self.not_known),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Report:
        """Returns what `to_json` made values of."""
        return cls(
            dataset=value["dataset"],
            directory=value["directory"],
            findings=tuple(map(Finding.from_json, value["findings"])),
            not_known=tuple(value["not_known"]),
            num_shards=value["shards"],
            num_records=value["records"],
            num_bytes=value["bytes"],
        )


def _union(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the same numbers in ranges that neither overlap nor touch.

    >>> _union([(5, 9), (0, 2), (2, 3), (6, 7)])
    [(0, 3), (5, 9)]
    """
    united: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(stop, united[-1][1])
        else:
            united.append((start, stop))
    return united
