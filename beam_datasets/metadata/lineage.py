"""Where a materialized dataset came from, as the field `source` of manifest.json says it; and what its keys are.

A record that is materialized keeps the sort key that it had, or, reshuffled, gets one that is made of it. So what an
index holds follows from the author's key by a *rule*: the salt it was hashed with, and those of the reshufflings since.
The sort keys of a split ascend in stretches: one for each stretch of a source that was put behind the others.

In JSON a rule is a list, the split's name first (null for integer keys, which are not hashed); a stretch is
[first example, rules]; a read is [number of the dataset, split, start, stop].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import MetadataError
from beam_datasets.metadata.keys import hash_key, ordered_key, reshuffled_key
from beam_datasets.metadata.names import DatasetName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from beam_datasets.metadata.keys import Key


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How an author's key becomes the sort key that an index holds.

    Attributes:
        split: the split whose name salts the hash; None for integer keys, which are kept in their order.
        salts: of the reshufflings since, the first one first.
    """

    split: str | None
    salts: tuple[str, ...] = ()

    def sort_key(self, key: Key) -> bytes:
        """Returns the 16 bytes that the index holds.

        Raises:
            InvalidKeyError: the key is of a type that such keys are not.
        """
        made = ordered_key(key) if self.split is None else hash_key(self.split, key)  # type: ignore[arg-type]
        for salt in self.salts:
            made = reshuffled_key(salt, made)
        return made

    def reshuffled(self, salt: str) -> KeyRule:
        """Returns the rule of the same keys after one more reshuffling."""
        return KeyRule(self.split, (*self.salts, salt))


@dataclass(frozen=True, slots=True)
class Ascent:
    """A stretch of a split in which the sort keys ascend; it ends where the next one begins.

    Attributes:
        start: index of its first example.
        rules: of its keys; several, where examples of several stretches were shuffled into one.
    """

    start: int
    rules: tuple[KeyRule, ...]


def between(ascents: Sequence[Ascent], start: int, stop: int) -> Iterator[tuple[tuple[KeyRule, ...], int, int]]:
    """Yields (rules, start, stop) of what of each stretch lies in [start, stop), in order.

    >>> a, b = KeyRule("train"), KeyRule("test")
    >>> [(s, e) for _, s, e in between([Ascent(0, (a,)), Ascent(10, (b,))], 4, 12)]
    [(4, 10), (10, 12)]
    """
    ends = [ascent.start for ascent in ascents[1:]] + [stop]
    for ascent, end in zip(ascents, ends):
        if max(start, ascent.start) < min(stop, end):
            yield ascent.rules, max(start, ascent.start), min(stop, end)


@dataclass(frozen=True, slots=True)
class SourceDataset:
    """A dataset that was read.

    Attributes:
        name: the dataset's.
        config: None where it has no configs.
        version: of the dataset.
        digest: the digest of its manifest; where it has none, the SHA-256 of its other metadata files.
        digest_of: 'manifest' or 'metadata'.
        source: where it came from itself, as its manifest says; None for a generated one.
    """

    name: str
    config: str | None
    version: str
    digest: str
    digest_of: str
    source: Mapping[str, Any] | None = None

    @property
    def full_name(self) -> str:
        """Its name as it is written: `name/config:version`."""
        return str(DatasetName(self.name, self.config, self.version))


@dataclass(frozen=True, slots=True)
class Read:
    """Examples [start, stop) of a split of a dataset, which has its place in `Lineage.datasets`."""

    dataset: int
    split: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class SplitLineage:
    """What a split was made of.

    Attributes:
        expression: what was asked for.
        reads: what that means, in order.
        keys: the stretches of its sort keys; None where it has none.
    """

    expression: str
    reads: tuple[Read, ...]
    keys: tuple[Ascent, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Returns what JSON can hold of it."""
        keys = self.keys and [[a.start, [[rule.split, *rule.salts] for rule in a.rules]] for a in self.keys]
        reads = [[read.dataset, read.split, read.start, read.stop] for read in self.reads]
        return {"expression": self.expression, "reads": reads, "keys": keys}

    @classmethod
    def from_json(cls, value: Any) -> SplitLineage:
        """Returns what `to_json` made."""
        keys = value["keys"]
        if keys is not None:
            ascents = [(_typed(int, start), rules) for start, rules in keys]
            keys = tuple(Ascent(start, tuple(map(_rule, rules))) for start, rules in ascents)
            if [a.start for a in keys] != sorted({a.start for a in keys}) or (keys and keys[0].start):
                raise ValueError("the stretches of the keys do not follow one another")
        return cls(
            _typed(str, value["expression"]),
            tuple(Read(*map(_typed, (int, str, int, int), read)) for read in value["reads"]),
            keys,
        )


def _rule(value: Any) -> KeyRule:
    split, *salts = value
    return KeyRule(split if split is None else _typed(str, split), tuple(_typed(str, salt) for salt in salts))


def _typed(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.100} is no {kind.__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a materialized dataset came from.

    Attributes:
        datasets: what was read.
        splits: what each split was made of.
        filter: name of the function that chose among the examples, as `module:function`; None where all were kept.
        features: the features that were kept; None where all were.
        reshuffle: the salt of the new order; None where the order was kept.
    """

    datasets: tuple[SourceDataset, ...]
    splits: Mapping[str, SplitLineage]
    filter: str | None = None
    features: tuple[str, ...] | None = None
    reshuffle: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the field `source` of a manifest."""
        return {
            "datasets": [{name: getattr(dataset, name) for name in _DATASET} for dataset in self.datasets],
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "filter": self.filter,
            "features": None if self.features is None else list(self.features),
            "reshuffle": self.reshuffle,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, path: str) -> Lineage:
        """Returns what the field `source` of a manifest says.

        Args:
            value: the field.
            path: the manifest, for errors.

        Raises:
            MetadataError: it says something else.
        """
        try:
            features = value["features"]
            return cls(
                tuple(SourceDataset(**{name: dataset[name] for name in _DATASET}) for dataset in value["datasets"]),
                {name: SplitLineage.from_json(split) for name, split in value["splits"].items()},
                value["filter"],
                None if features is None else tuple(features),
                value["reshuffle"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MetadataError(
                f"{path}: field 'source' does not say where the dataset came from ({error}). Restore the file, or "
                "use the version of beam_datasets that wrote it."
            ) from error


_DATASET = ("name", "config", "version", "digest", "digest_of", "source")
