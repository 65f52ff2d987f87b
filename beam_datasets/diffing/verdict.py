"""What a version number must say: the rules of the versioning guide, one difference after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets.diffing.result import KINDS, LEVELS, Reason, Verdict, highest, promised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from beam_datasets.diffing.result import FeatureChange, SplitDiff
    from beam_datasets.metadata.info import DatasetInfo

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


def judge(
    old: DatasetInfo, new: DatasetInfo, features: Sequence[FeatureChange], splits: Iterable[SplitDiff]
) -> Verdict:
    """Returns what the version number must say, and why.

    MAJOR unless every slice has the same examples in the same order, in all features of the old version; else MINOR
    where features were added; else PATCH where anything differs.

    Args:
        old: the old version's description.
        new: the new version's.
        features: how their features differ.
        splits: how the splits differ that were compared.
    """
    reasons = [
        *(Reason(change.needs, _feature_text(change)) for change in features),
        *(reason for split in splits for reason in _of_split(split, extended=any(c.kind == "added" for c in features))),
        *_of_info(old, new),
    ]
    comparable = (old.name, old.config_name) == (new.name, new.config_name)
    return Verdict(
        old=old.version,
        new=new.version,
        needed=highest(reason.needs for reason in reasons),
        given=promised(old.version, new.version) if comparable else None,
        reasons=tuple(sorted(reasons, key=lambda reason: -LEVELS.index(reason.needs))),
    )


def _feature_text(change: FeatureChange) -> str:
    name = f"feature {change.path!r}" if change.path else "the features"
    words = {
        "added": f"was added: {change.text}",
        "removed": f"was removed: {change.text}",
        "changed": f"changed its type, so its values were not compared: {change.text}",
        "stored": f"is stored in another form: {change.text}",
        "documented": f"is described in other words: {change.text}",
    }
    return f"{name} {words[change.kind]}"


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
