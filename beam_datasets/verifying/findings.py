"""Findings of a verification: one for each difference from what was published, and the report that collects them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_FROM_COPY = "--repair --from COPY restores it"

REMEDIES: Mapping[str, str] = {
    "record": _FROM_COPY,
    "cut": _FROM_COPY,
    "missing": _FROM_COPY,
    "replaced": _FROM_COPY,
    "unreadable": f"check the disk and the permissions, move away a directory in its place; if needed, {_FROM_COPY}",
    "count": _FROM_COPY,
    "size": _FROM_COPY,
    "example": "features.json and the records are of different versions: restore the one that is wrong",
    "index": f"--repair rebuilds it, with its keys where these can be proved; {_FROM_COPY} in any case",
    "keys": f"only find() needs them; {_FROM_COPY}",
    "metadata": _FROM_COPY,
    "manifest": "copy it by hand from a good copy, and verify again: all files are compared with it",
    "extra": "nothing reads it; move it away by hand",
    "leftover": "nothing reads it; beam-datasets gc removes it",
}
"""What can be done about each kind of finding."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Examples [start, stop) of a split that cannot be read, or are not the published ones.

    >>> str(Lost("train", 10, 12)), len(Lost("train", 10, 12))
    ('train[10:12]', 2)
    """

    split: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"[{self.start}, {self.stop}) is not a range of examples; needed: 0 <= start < stop.")

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.split}[{self.start}:{self.stop}]"

    @classmethod
    def from_text(cls, text: str) -> Lost:
        """Parses what `str` returns."""
        split, _, numbers = text.removesuffix("]").rpartition("[")
        start, stop = map(int, numbers.split(":"))
        return cls(split, start, stop)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference from what was published.

    Attributes:
        file: name in the dataset's directory.
        offset: byte where the damage begins; None if it has no single place.
        record: number in the file of the first affected record; None if no record is affected.
        kind: a key of `REMEDIES`.
        message: what was found and what was expected.
        lost: the examples that are lost by it; None if there are none.
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
        """The file, and the byte and record in it."""
        record = "" if self.record is None else f" (record {self.record})"
        return self.file if self.offset is None else f"{self.file}, byte {self.offset}{record}"

    @property
    def remedy(self) -> str:
        """What can be done about it."""
        return REMEDIES[self.kind]

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Returns the finding as JSON values."""
        return asdict(self) | {"lost": None if self.lost is None else str(self.lost), "remedy": self.remedy}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Parses what `to_json` returns."""
        lost = None if value["lost"] is None else Lost.from_text(value["lost"])
        return cls(value["file"], value["offset"], value["record"], value["kind"], value["message"], lost)


@dataclass(frozen=True)
class Report:
    """The result of verifying a dataset.

    Attributes:
        dataset: its full name; '' if no file contains it.
        directory: of the version.
        findings: in the order of files, then of bytes.
        not_known: what could not be checked because no file records it.
        num_shards: shards that were read.
        num_records: records that were found in them.
        num_bytes: their size in bytes, without indexes.
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
        """All lost examples, as ranges that neither overlap nor touch."""
        lost = [finding.lost for finding in self.findings if finding.lost is not None]
        order = list(dict.fromkeys(one.split for one in lost))
        united: list[Lost] = []
        for one in sorted(lost, key=lambda one: (order.index(one.split), one.start)):
            if united and united[-1].split == one.split and one.start <= united[-1].stop:
                one = Lost(one.split, united[-1].start, max(one.stop, united.pop().stop))
            united.append(one)
        return tuple(united)

    @property
    def num_lost(self) -> int:
        """Number of lost examples."""
        return sum(map(len, self.lost))

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
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
        """Parses what `to_json` returns."""
        return cls(
            dataset=value["dataset"],
            directory=value["directory"],
            findings=tuple(map(Finding.from_json, value["findings"])),
            not_known=tuple(value["not_known"]),
            num_shards=value["shards"],
            num_records=value["records"],
            num_bytes=value["bytes"],
        )
