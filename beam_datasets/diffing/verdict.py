"""The version number that the differences need: the rules of the versioning guide.

The levels of a difference are those of the version number: 'NONE' (nothing differs), 'PATCH', 'MINOR', 'MAJOR'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from beam_datasets.diffing.result import KINDS
from beam_datasets.metadata.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from beam_datasets.diffing.result import FeatureChange, SplitDiff
    from beam_datasets.metadata.info import DatasetInfo

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
        needs: what it needs.
        text: what differs.
    """

    needs: Level
    text: str


@dataclass(frozen=True)
class Verdict:
    """The level that the version number needs, and the level that it has.

    Attributes:
        old: the old version.
        new: the new version.
        needed: what the differences need.
        given: what the number promises; None if the versions are of different datasets.
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
        return _bumped(self.old, self.needed)

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


def judge(
    old: DatasetInfo, new: DatasetInfo, features: Sequence[FeatureChange], splits: Iterable[SplitDiff]
) -> Verdict:
    """Returns the level that the version number needs, and why.

    MAJOR unless every slice has the same examples in the same order, in all features of the old version; else MINOR
    where features were added; else PATCH where anything differs.

    Args:
        old: the old version's description.
        new: the new version's.
        features: how their features differ.
        splits: how the splits differ that were compared.
    """
    reasons = [
        *(Reason(change.needs, str(change)) for change in features),
        *(reason for split in splits for reason in _of_split(split, extended=any(c.kind == "added" for c in features))),
        *_of_info(old, new),
    ]
    comparable = (old.name, old.config_name) == (new.name, new.config_name)
    return Verdict(
        old=old.version,
        new=new.version,
        needed=max((reason.needs for reason in reasons), key=LEVELS.index, default="NONE"),
        given=_promised(old.version, new.version) if comparable else None,
        reasons=tuple(sorted(reasons, key=lambda reason: -LEVELS.index(reason.needs))),
    )


def _bumped(version: Version, level: Level) -> Version:
    """Returns the next version of a level.

    >>> [str(_bumped(Version("1.2.3"), level)) for level in LEVELS]
    ['1.2.3', '1.2.4', '1.3.0', '2.0.0']
    """
    kept = len(LEVELS) - 1 - LEVELS.index(level)
    numbers = version.tuple if kept == len(version.tuple) else (*version.tuple[:kept], version.tuple[kept] + 1, 0, 0)
    return Version(".".join(map(str, numbers[:3])))


def _promised(old: Version, new: Version) -> Level:
    """Returns what a step from one version number to a higher one promises.

    >>> _promised(Version("1.0.0"), Version("1.0.1")), _promised(Version("1.0.1"), Version("2.0.0"))
    ('PATCH', 'MAJOR')
    """
    levels = zip(reversed(LEVELS), old.tuple, new.tuple)
    return next((level for level, before, after in levels if before != after), "NONE")


def _of_split(split: SplitDiff, *, extended: bool) -> Iterator[Reason]:
    name = f"split {split.name!r}"
    if split.old_examples is None:
        yield Reason("MAJOR", f"{name} was added, so 'all' has more examples: {split.new_examples:,}")
        return
    if split.new_examples is None:
        yield Reason("MAJOR", f"{name} was removed: {split.old_examples:,} examples")
        return
    counts = [f"{getattr(split, kind):,} {kind}" for kind in KINDS if getattr(split, kind)]
    if counts:
        yield Reason("MAJOR", f"{name}: {', '.join(counts)}, of {split.old_examples:,} examples")
    if split.keys_lost:
        yield Reason("MAJOR", f"{name} has no keys any more: find() answered, and cannot now")
    if split.rewritten and not extended and not split.not_compared:
        yield Reason("PATCH", f"{name}: {split.rewritten:,} records are of other bytes, and read alike")
    if split.resharded:
        old, new = split.resharded
        numbers = f"number of shards: {old:,} -> {new:,}" if old != new else "shards of other lengths"
        yield Reason("PATCH", f"{name}: {numbers}; slices by shards and the read order differ")


def _of_info(old: DatasetInfo, new: DatasetInfo) -> Iterator[Reason]:
    if old.supervised_keys != new.supervised_keys:
        added = old.supervised_keys is None
        text = f"supervised_keys: {old.supervised_keys} -> {new.supervised_keys}"
        yield Reason("MINOR" if added else "MAJOR", text)
    if old.disable_shuffling != new.disable_shuffling:
        yield Reason("MAJOR", f"disable_shuffling: {old.disable_shuffling} -> {new.disable_shuffling}")
    kept = [name for name in new.splits if name in old.splits]
    if kept != [name for name in old.splits if name in new.splits]:
        yield Reason("MAJOR", f"the splits, as 'all' has them, stand in another order: {', '.join(new.splits)}")
    documents = [name for name in _DOCUMENTS if (getattr(old, name) or None) != (getattr(new, name) or None)]
    if documents:
        yield Reason("PATCH", f"documentation: {', '.join(documents)}")
