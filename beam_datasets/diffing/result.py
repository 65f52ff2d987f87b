"""The result of a comparison, as immutable values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from beam_datasets.diffing.verdict import Level, Verdict

Kind = Literal["changed", "removed", "added", "moved"]
KINDS: tuple[Kind, ...] = ("changed", "removed", "added", "moved")

_FEATURE_CHANGES: Mapping[str, tuple[Level, str]] = {
    "removed": ("MAJOR", "was removed"),
    "changed": ("MAJOR", "changed its type, so its values were not compared"),
    "added": ("MINOR", "was added"),
    "stored": ("PATCH", "is stored in another form"),
    "documented": ("PATCH", "is described in other words"),
}


@dataclass(frozen=True)
class FeatureChange:
    """How a feature differs.

    Attributes:
        path: the feature's name, nested ones with slashes; '' for the top.
        kind: 'added', 'removed'; 'changed' if its type changed; 'stored' if only its form in the record differs;
            'documented' if only its documentation differs.
        text: what differs, such as 'dtype: int32 -> int64'.
    """

    path: str
    kind: Literal["added", "removed", "changed", "stored", "documented"]
    text: str

    @property
    def needs(self) -> Level:
        """The level that the version number needs."""
        return _FEATURE_CHANGES[self.kind][0]

    def __str__(self) -> str:
        name = f"feature {self.path!r}" if self.path else "the features"
        return f"{name} {_FEATURE_CHANGES[self.kind][1]}: {self.text}"


@dataclass(frozen=True)
class ExampleChange:
    """An example that differs.

    Attributes:
        kind: 'changed', 'removed', 'added' or 'moved'.
        old_index: its index in the old split; None if the old split does not have it.
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
        old_examples: how many there are in the old version; None if it has no such split.
        new_examples: likewise in the new one.
        by: whether examples were paired by 'keys' or by 'index'; '' if only one version has the split.
        why: why not by keys; '' if by keys.
        same: pairs that are read alike, in the features that both versions have.
        not_compared: pairs that are read alike in the features that were compared, if values of others were not
            compared: their types changed (`DatasetDiff.not_compared`), or the versions share no feature.
        rewritten: those of both whose records are of other bytes.
        changed: pairs that are read differently.
        removed: examples of the old version alone.
        added: examples of the new version alone.
        moved: records that both versions have, under another key or, paired by index, at another one.
        unmatched: whether there were too many differences to look for those that moved.
        keys_lost: whether the old version finds examples by their keys, and the new one does not.
        resharded: how many shards each version has, if that differs, or equally many examples are cut elsewhere.
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
class DatasetDiff:
    """How two versions of a dataset differ.

    Attributes:
        old: name and version of the old one, as 'digits/1.0.0'.
        new: of the new one.
        old_dir: directory of the old one.
        new_dir: directory of the new one.
        features: the features that differ, in the order of their paths.
        splits: each split that was compared, in the order of the old version, then those that only the new one has.
        whole: whether all splits were compared; of some of them, the verdict is the least that is needed.
        verdict: which version number the changes need.
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
