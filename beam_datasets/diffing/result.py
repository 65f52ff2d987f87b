"""What a comparison finds: values that do not change.

The levels of a difference are those of the version number: 'NONE' (nothing differs), 'PATCH', 'MINOR', 'MAJOR'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from beam_datasets.metadata.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Level = Literal["NONE", "PATCH", "MINOR", "MAJOR"]
LEVELS: tuple[Level, ...] = ("NONE", "PATCH", "MINOR", "MAJOR")
"""Each promises less than the one before."""

Kind = Literal["changed", "removed", "added", "moved"]
KINDS: tuple[Kind, ...] = ("changed", "removed", "added", "moved")

_NEEDED_BY: Mapping[str, Level] = {
    "removed": "MAJOR",
    "changed": "MAJOR",
    "added": "MINOR",
    "stored": "PATCH",
    "documented": "PATCH",
}


def highest(levels: Iterable[Level]) -> Level:
    """Returns the level that promises the least; 'NONE' of none.

    >>> highest(["PATCH", "MAJOR", "MINOR"])
    'MAJOR'
    """
    return max(levels, key=LEVELS.index, default="NONE")


@dataclass(frozen=True)
class FeatureChange:
    """How a feature differs.

    Attributes:
        path: the feature's name, nested ones with slashes; '' for the top.
        kind: 'added', 'removed'; 'changed' where its type changed; 'stored' where only its form in the
            record differs; 'documented' where only what is said of it does.
        text: what differs, such as 'dtype: int32 -> int64'.
    """

    path: str
    kind: Literal["added", "removed", "changed", "stored", "documented"]
    text: str

    @property
    def needs(self) -> Level:
        """What the version number must say."""
        return _NEEDED_BY[self.kind]


@dataclass(frozen=True)
class ExampleChange:
    """An example that differs.

    Attributes:
        kind: 'changed', 'removed', 'added' or 'moved'.
        old_index: where it stands in the old split; None where it does not.
        new_index: likewise in the new one.
        old: what was read: of a changed example the features that differ, by their paths; of another one all of them.
        new: what is read.
    """

    kind: Kind
    old_index: int | None
    new_index: int | None
    old: Mapping[str, Any] = field(default_factory=dict)
    new: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitDiff:
    """How a split differs.

    `old_examples == same + not_compared + changed + removed + moved`, and
    `new_examples == same + not_compared + changed + added + moved`.

    Attributes:
        name: of the split.
        old_examples: how many there are in the old version; None where it has no such split.
        new_examples: likewise in the new one.
        by: whether examples were paired by 'keys' or by 'index'; '' where only one version has the split.
        why: why not by keys; '' where it was.
        same: pairs that are read alike, in the features that both versions have.
        not_compared: pairs that are read alike in the features that were compared, where values of others were not:
            their types changed (`DatasetDiff.not_compared`), or the versions share no feature.
        rewritten: those of both whose records are of other bytes.
        changed: pairs that are read differently.
        removed: examples of the old version alone.
        added: examples of the new version alone.
        moved: records that both versions have, under another key or, paired by index, at another one.
        unmatched: whether there were too many differences to look for those that moved.
        keys_lost: whether the old version finds examples by their keys, and the new one does not.
        resharded: how many shards each version has, where that differs, or equally many examples are cut elsewhere.
        examples: the first ones of each kind.
    """

    name: str
    old_examples: int | None
    new_examples: int | None
    by: Literal["keys", "index", ""] = ""
    why: str = ""
    same: int = 0
    not_compared: int = 0
    rewritten: int = 0
    changed: int = 0
    removed: int = 0
    added: int = 0
    moved: int = 0
    unmatched: bool = False
    keys_lost: bool = False
    resharded: tuple[int, int] | None = None
    examples: tuple[ExampleChange, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether a slice of the split is read differently."""
        return None in (self.old_examples, self.new_examples) or any(
            getattr(self, kind) for kind in ("not_compared", *KINDS)
        )


@dataclass(frozen=True)
class Reason:
    """Why a version number must be so high.

    Attributes:
        needs: what it needs.
        text: what differs.
    """

    needs: Level
    text: str


@dataclass(frozen=True)
class Verdict:
    """What the version number must say, and what it says.

    Attributes:
        old: the old version.
        new: the new version.
        needed: what the differences need.
        given: what the number promises; None where it promises nothing, as that of another dataset.
        reasons: the differences, the weightiest first.
    """

    old: Version
    new: Version
    needed: Level
    given: Level | None
    reasons: tuple[Reason, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the data keep what the number promises."""
        return self.given is None or LEVELS.index(self.given) >= LEVELS.index(self.needed)

    @property
    def lowest(self) -> Version:
        """The lowest version number that suffices."""
        return bumped(self.old, self.needed)

    def __str__(self) -> str:
        if self.given is None:
            return f"Needed: {self.needed}; these are different datasets, whose numbers promise nothing of each other."
        numbers = f"{self.old} -> {self.new}"
        same = "the same number, which promises that nothing differs"
        given = same if self.given == "NONE" else f"{numbers} is a {self.given} version"
        if not self.kept:
            return f"Needed: {self.needed}; {given}: it promises more than the data keep. Call it {self.lowest}."
        if self.needed == "NONE":
            return "Needed: NONE, for nothing differs." + (f" {given}." if self.given != "NONE" else "")
        more = f", more than needed: {self.lowest} would do" if self.given != self.needed else ""
        return f"Needed: {self.needed}; {given}{more}."


def bumped(version: Version, level: Level) -> Version:
    """Returns the next version of a level.

    >>> [str(bumped(Version("1.2.3"), level)) for level in LEVELS]
    ['1.2.3', '1.2.4', '1.3.0', '2.0.0']
    """
    major, minor, patch = version.tuple
    numbers = {
        "NONE": (major, minor, patch),
        "PATCH": (major, minor, patch + 1),
        "MINOR": (major, minor + 1, 0),
        "MAJOR": (major + 1, 0, 0),
    }[level]
    return Version("{}.{}.{}".format(*numbers))


def promised(old: Version, new: Version) -> Level:
    """Returns what a step from one version number to a higher one promises.

    >>> promised(Version("1.0.0"), Version("1.0.1")), promised(Version("1.0.1"), Version("2.0.0"))
    ('PATCH', 'MAJOR')
    """
    differs = [new.tuple[i] != old.tuple[i] for i in range(3)]
    levels: tuple[Level, ...] = ("MAJOR", "MINOR", "PATCH")
    return levels[differs.index(True)] if any(differs) else "NONE"


@dataclass(frozen=True)
class DatasetDiff:
    """How two versions of a dataset differ.

    Attributes:
        old: name and version of the old one, as 'digits/1.0.0'.
        new: of the new one.
        old_dir: where the old one stands.
        new_dir: where the new one stands.
        features: the features that differ, in the order of their paths.
        splits: each split that was compared, in the order of the old version, then those that only the new one has.
        whole: whether all splits were compared; of some of them, the verdict is the least that is needed.
        verdict: what the version number must say.
    """

    old: str
    new: str
    old_dir: str
    new_dir: str
    features: tuple[FeatureChange, ...]
    splits: Mapping[str, SplitDiff]
    whole: bool
    verdict: Verdict

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Paths of the features whose values were not compared, because their types changed."""
        return tuple(change.path for change in self.features if change.kind == "changed")

    def __str__(self) -> str:
        reasons = (f"{reason.needs}  {reason.text}" for reason in self.verdict.reasons)
        return "\n".join([f"{self.old} -> {self.new}", *reasons, str(self.verdict)])
