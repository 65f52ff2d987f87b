"""The result of a comparison, as immutable values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from beam_datasets.features.trees import display_names
from beam_datasets.metadata.version import Version

if TYPE_CHECKING:
    from beam_datasets.metadata.info import DatasetInfo


ChangeKind = Literal["changed", "removed", "added", "moved"]
KINDS: tuple[ChangeKind, ...] = ("changed", "removed", "added", "moved")

_FEATURE_CHANGES: Mapping[str, tuple[Level, str]] = {
    "removed": ("MAJOR", "was removed"),
    "changed": ("MAJOR", "changed its type, so its values were not compared"),
    "added": ("MINOR", "was added"),
    "stored": ("PATCH", "is stored in another form"),
    "documented": ("PATCH", "is described in other words"),
}


@dataclass(frozen=True)
class FeatureChange:
    """Difference in a feature.

    Attributes:
        path: the feature's name, nested ones with slashes; '' for the top.
        kind: 'added', 'removed'; 'changed' if its type changed; 'stored' if only its form in the record differs;
            'documented' if only its documentation differs.
        text: description of the difference, such as 'dtype: int32 -> int64'.
    """

    path: str
    kind: Literal["added", "removed", "changed", "stored", "documented"]
    text: str

    @property
    def needs(self) -> Level:
        """The level that the version number needs."""
        return _FEATURE_CHANGES[self.kind][0]

    def __str__(self) -> str:
        return self.describe({})

    def describe(self, names: Mapping[str, str]) -> str:
        """Returns the difference as a clause, with names for people: {name with slashes: name with dots}."""
        name = f"feature {names.get(self.path, self.path)!r}" if self.path else "the features"
        return f"{name} {_FEATURE_CHANGES[self.kind][1]}: {self.text}"


@dataclass(frozen=True)
class ExampleChange:
    """An example that differs.

    Attributes:
        kind: 'changed', 'removed', 'added' or 'moved'.
        old_index: its index in the old split; None if the old split does not have it.
        new_index: its index in the new split; None if the new split does not have it.
        old: values of the old example: the features that differ of a changed example, by their paths; else all.
        new: values of the new example, likewise.
    """

    kind: ChangeKind
    old_index: int | None
    new_index: int | None
    old: Mapping[str, Any] = field(default_factory=dict)
    new: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitDiff:
    """Differences in a split.

    `old_examples == same + not_compared + changed + removed + moved`, and
    `new_examples == same + not_compared + changed + added + moved`.

    Attributes:
        name: name of the split.
        old_examples: number of examples in the old version; None if it has no such split.
        new_examples: number of examples in the new version; None if it has no such split.
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
        resharded: number of shards of each version, if that differs, or equally many examples are cut elsewhere.
        examples: the first ones of each kind.
        undecoded: examples, of both versions together, with values that do not decode, among the pairs whose bytes
            differ. Such values were compared as they are stored.
        undecoded_places: file, byte and record of the first ones, and why they do not decode.
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
    undecoded: int = 0
    undecoded_places: tuple[str, ...] = ()

    def undecoded_lines(self) -> Iterator[str]:
        """Yields lines about values that do not decode, with the names of the first ones; nothing if all decode."""
        if not self.undecoded:
            return
        count = "an example has" if self.undecoded == 1 else f"{self.undecoded:,} examples have"
        yield f"{self.name}: {count} values that do not decode, which were compared as they are stored:"
        yield from (f"  {location}" for location in self.undecoded_places)
        if self.undecoded > len(self.undecoded_places):
            yield "  ... beam-datasets verify --decode, of each version, names all of them"

    @property
    def differs(self) -> bool:
        """Whether reading some slice of the split gives other examples."""
        return None in (self.old_examples, self.new_examples) or any(
            getattr(self, kind) for kind in ("not_compared", *KINDS)
        )


@dataclass(frozen=True)
class DatasetDiff:
    """Differences between two versions of a dataset.

    Attributes:
        old: name and version of the old one, as 'digits/1.0.0'.
        new: name and version of the new one.
        old_dir: directory of the old one.
        new_dir: directory of the new one.
        features: the features that differ, in the order of their paths.
        splits: each split that was compared, in the order of the old version, then those that only the new one has.
        whole: whether all splits were compared; of some of them, the verdict is the least that is needed.
        verdict: the version number that the changes need.
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

    def _repr_html_(self) -> str:
        """Returns the differences as HTML, which notebooks show."""
        from beam_datasets.display.html import diff_html

        return diff_html(self)

    def __str__(self) -> str:
        reasons = (f"{reason.needs}  {reason.text}" for reason in self.verdict.reasons)
        return "\n".join([f"{self.old} -> {self.new}", *reasons, str(self.verdict)])


Level = Literal["NONE", "PATCH", "MINOR", "MAJOR"]
LEVELS: tuple[Level, ...] = ("NONE", "PATCH", "MINOR", "MAJOR")
"""Each promises less than the one before."""

_DOCUMENTS = (
    "description",
    "citation",
    "homepage",
    "license",
    "metadata",
    "release_notes",
    "config_description",
    "config_tags",
    "download_size",
    "is_blocked",
)


@dataclass(frozen=True)
class Reason:
    """Why a version number must be so high.

    Attributes:
        needs: the level that it needs.
        text: description of the difference.
    """

    needs: Level
    text: str


@dataclass(frozen=True)
class Verdict:
    """The level that the version number needs, and the level that it has.

    Attributes:
        old: the old version.
        new: the new version.
        needed: the level that the differences need.
        given: the level of the version number; None if the versions are of different datasets.
        reasons: the differences, the weightiest first.
    """

    old: Version
    new: Version
    needed: Level
    given: Level | None
    reasons: tuple[Reason, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the data differ no more than the version number permits."""
        return self.given is None or LEVELS.index(self.given) >= LEVELS.index(self.needed)

    @property
    def lowest(self) -> Version:
        """The lowest version number that suffices."""
        return _bump(self.old, self.needed)

    def __str__(self) -> str:
        """Returns a sentence with the needed level of the version number, and whether the given number has it."""
        if self.given is None:
            return f"Needed: {self.needed}. These are different datasets, so their version numbers cannot be compared."
        numbers = f"{self.old} -> {self.new}"
        bump_text = "the same number" if self.given == "NONE" else f"{numbers} is a {self.given} version"
        if not self.kept:
            return f"Needed: {self.needed}; {bump_text}, which is too low for the changes. Call it {self.lowest}."
        if self.needed == "NONE":
            return "Needed: NONE, for nothing differs." + (f" {bump_text}." if self.given != "NONE" else "")
        note = f", more than needed: {self.lowest} would do" if self.given != self.needed else ""
        return f"Needed: {self.needed}; {bump_text}{note}."


def judge(
    old: DatasetInfo, new: DatasetInfo, features: Sequence[FeatureChange], splits: Iterable[SplitDiff]
) -> Verdict:
    """Returns the level that the version number needs, and why.

    MAJOR unless every slice has the same examples in the same order, in all features of the old version; else MINOR
    where features were added; else PATCH where anything differs.

    Args:
        old: the old version's description.
        new: the new version's.
        features: differences in their features.
        splits: differences in the splits that were compared.
    """
    names = {**display_names(new.features), **display_names(old.features)}
    reasons = [
        *(Reason(change.needs, change.describe(names)) for change in features),
        *(
            reason
            for split in splits
            for reason in _split_reasons(split, extended=any(c.kind == "added" for c in features))
        ),
        *_info_reasons(old, new),
    ]
    comparable = (old.name, old.config_name) == (new.name, new.config_name)
    return Verdict(
        old=old.version,
        new=new.version,
        needed=max((reason.needs for reason in reasons), key=LEVELS.index, default="NONE"),
        given=_promised_level(old.version, new.version) if comparable else None,
        reasons=tuple(sorted(reasons, key=lambda reason: -LEVELS.index(reason.needs))),
    )


def _bump(version: Version, level: Level) -> Version:
    """Returns the next version of a level.

    >>> [str(_bump(Version("1.2.3"), level)) for level in LEVELS]
    ['1.2.3', '1.2.4', '1.3.0', '2.0.0']
    """
    num_kept = len(LEVELS) - 1 - LEVELS.index(level)
    numbers = (
        version.tuple
        if num_kept == len(version.tuple)
        else (*version.tuple[:num_kept], version.tuple[num_kept] + 1, 0, 0)
    )
    return Version(".".join(map(str, numbers[:3])))


def _promised_level(old: Version, new: Version) -> Level:
    """Returns the promise of a step from one version number to a higher one.

    >>> _promised_level(Version("1.0.0"), Version("1.0.1")), _promised_level(Version("1.0.1"), Version("2.0.0"))
    ('PATCH', 'MAJOR')
    """
    levels = zip(reversed(LEVELS), old.tuple, new.tuple)
    return next((level for level, old_number, new_number in levels if old_number != new_number), "NONE")


def _split_reasons(split: SplitDiff, *, extended: bool) -> Iterator[Reason]:
    """Yields a reason for each change of a split; if `extended`, features were added, so rewriting is no change."""
    name = f"split {split.name!r}"
    if split.old_examples is None:
        yield Reason("MAJOR", f"{name} was added, so 'all' has more examples: {split.new_examples:,}")
        return
    if split.new_examples is None:
        yield Reason("MAJOR", f"{name} was removed: {split.old_examples:,} examples")
        return
    counts = [f"{getattr(split, kind):,} {kind}" for kind in KINDS if getattr(split, kind)]
    if counts:
        relation = " to" if counts == [f"{split.added:,} added"] else ", of"
        yield Reason("MAJOR", f"{name}: {', '.join(counts)}{relation} {split.old_examples:,} examples")
    if split.keys_lost:
        yield Reason("MAJOR", f"{name} has no keys any more: find() answered, and cannot now")
    if split.rewritten and not extended and not split.not_compared:
        yield Reason("PATCH", f"{name}: {split.rewritten:,} records are of other bytes, and read alike")
    if split.resharded:
        old, new = split.resharded
        numbers = f"number of shards: {old:,} -> {new:,}" if old != new else "shards of other lengths"
        yield Reason("PATCH", f"{name}: {numbers}; slices by shards and the read order differ")


def _info_reasons(old: DatasetInfo, new: DatasetInfo) -> Iterator[Reason]:
    """Yields a reason for each change of supervised keys, shuffling, the order of the splits, or documentation."""
    if old.supervised_keys != new.supervised_keys:
        is_added = old.supervised_keys is None
        text = f"supervised_keys: {old.supervised_keys} -> {new.supervised_keys}"
        yield Reason("MINOR" if is_added else "MAJOR", text)
    if old.disable_shuffling != new.disable_shuffling:
        yield Reason("MAJOR", f"disable_shuffling: {old.disable_shuffling} -> {new.disable_shuffling}")
    common_splits = [name for name in new.splits if name in old.splits]
    if common_splits != [name for name in old.splits if name in new.splits]:
        yield Reason("MAJOR", f"the splits, as 'all' has them, are in another order: {', '.join(new.splits)}")
    documents = [name for name in _DOCUMENTS if (getattr(old, name) or None) != (getattr(new, name) or None)]
    if documents:
        yield Reason("PATCH", f"documentation: {', '.join(documents)}")
